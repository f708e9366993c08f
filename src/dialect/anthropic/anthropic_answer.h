/* anthropic_answer.h - the answers of Anthropic's Messages API, as a message or as the events of a
 * stream. Pure functions that use only the caller's memory: any thread. */
#ifndef PAL_ANTHROPIC_ANSWER_H
#define PAL_ANTHROPIC_ANSWER_H

#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/str.h"

/* Reads a message object, {"content":[...],"model":...,"usage":{...}}, into the arena. Blocks of
 * unknown types are kept. PAL_INVALID: it is not such an object. */
PAL_CHECKED pal_status pal_anthropic_answer_read(
        pal_str json, pal_arena *arena, pal_message *out_message, pal_error *err);

/* Joins the events of a complete stream to the message object that the same request would have
 * returned without a stream. PAL_INVALID: the stream has no end, or an event is not JSON. */
PAL_CHECKED pal_status pal_anthropic_answer_join(
        pal_str stream, pal_arena *arena, pal_str *out_json, pal_error *err);

#endif
