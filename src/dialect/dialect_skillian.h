/* dialect_skillian.h - writes rows of Skillian's table of sessions. dialect_row.c reads them. */
#ifndef PAL_DIALECT_SKILLIAN_H
#define PAL_DIALECT_SKILLIAN_H

#include "base/json.h"
#include "palaver/message.h"
#include "palaver/session.h"

/* {"id","created_at","last_accessed","conversation_data":{"messages":[ and so on: the caller puts
 * the messages, and closes the array and both objects. The id is Skillian's own for a session that
 * was imported from it. */
void pal_skillian_row_begin(pal_json_writer *writer, const pal_session *session);

/* A message, or one for each of its tool results: always with role, content, tool_call_id and
 * tool_calls. Images, files and reasoning have no place there. */
void pal_skillian_message_put(
        pal_json_writer *writer, const pal_message *message, pal_arena *scratch);

#endif
