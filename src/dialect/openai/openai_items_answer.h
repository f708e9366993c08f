/* openai_items_answer.h - the answers of OpenAI's Responses, as an object or as the events of a
 * stream. Pure functions that use only the caller's memory: any thread. */
#ifndef PAL_OPENAI_ITEMS_ANSWER_H
#define PAL_OPENAI_ITEMS_ANSWER_H

#include <stddef.h>
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/str.h"

/* Reads the output of a response, {"output":[...],"model":...,"usage":...}, into the arena. Items
 * without a counterpart are kept. The last message has the usage. PAL_INVALID: it is not such an
 * object. */
PAL_CHECKED pal_status pal_openai_items_answer_read(pal_str json, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);

/* Returns the response that a complete stream ends with. PAL_INVALID: the stream has no end, the
 * response has failed, or an event is not JSON. */
PAL_CHECKED pal_status pal_openai_items_answer_join(
        pal_str stream, pal_arena *arena, pal_str *out_json, pal_error *err);

#endif
