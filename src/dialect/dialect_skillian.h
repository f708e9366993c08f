/* dialect_skillian.h - writes rows of the table of sessions of Skillian (a chat assistant).
 * transcript_row.c reads them. */
#ifndef PAL_DIALECT_SKILLIAN_H
#define PAL_DIALECT_SKILLIAN_H

#include "base/json/json.h"
#include "palaver/message.h"
#include "palaver/session.h"

/* Writes {"id","created_at","last_accessed","conversation_data":{"messages":[. The caller writes
 * the messages, then ends the array and both objects. A session that was imported from Skillian
 * keeps Skillian's id. */
void pal_skillian_row_begin(pal_json_writer *writer, const pal_session *session);

/* Writes a message, or one message for each of its tool results. Each has role, content,
 * tool_call_id and tool_calls. Images, files and reasoning are left out, because the format cannot
 * express them. */
void pal_skillian_message_put(
        pal_json_writer *writer, const pal_message *message, pal_arena *scratch);

#endif
