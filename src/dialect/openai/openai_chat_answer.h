/* openai_chat_answer.h - the answers of OpenAI's chat completions, as an object or as the chunks of
 * a stream. Pure functions that use only the caller's memory: any thread. */
#ifndef PAL_OPENAI_CHAT_ANSWER_H
#define PAL_OPENAI_CHAT_ANSWER_H

#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/str.h"

/* Reads the first choice of a completion, {"choices":[{"message":{...}}],"model":...}, into the
 * arena. PAL_INVALID: it is not such an object. */
PAL_CHECKED pal_status pal_openai_chat_answer_read(
        pal_str json, pal_arena *arena, pal_message *out_message, pal_error *err);

/* Joins the chunks of a complete stream to the completion that the same request would have returned
 * without a stream, with its first choice only. PAL_INVALID: the stream has no end, or a chunk is
 * not JSON. */
PAL_CHECKED pal_status pal_openai_chat_answer_join(
        pal_str stream, pal_arena *arena, pal_str *out_json, pal_error *err);

#endif
