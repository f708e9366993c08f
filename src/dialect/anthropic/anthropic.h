/* anthropic.h - the messages of Anthropic's Messages API.
 *
 * In this API the system text is a separate field, tool results are part of the user's messages,
 * and consecutive messages of one role are one message. Reading separates tool results from the
 * user's text; writing combines them again. Members of a block that have no counterpart are kept in
 * the part's `extra`, in the member "anthropic", and are written back from there. Cache marks
 * belong to a request and are not kept. Pure functions that use only the caller's memory: any
 * thread. */
#ifndef PAL_ANTHROPIC_H
#define PAL_ANTHROPIC_H

#include <stddef.h>
#include "base/json/json.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"
#include "palaver/str.h"

#define PAL_ANTHROPIC_FAMILY "anthropic" /* the family of the reasoning that its signatures belong
                                            to */
#define PAL_ANTHROPIC_MESSAGES_MAX 1000000

/* Reads one message object, an array of them, or {"system":...,"messages":[...]}, into the arena.
 * Other members of that object are ignored. Texts point into the parsed text or the arena. */
PAL_CHECKED pal_status pal_anthropic_read(pal_json value, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);

/* The positions of cache marks in a request. */
typedef struct pal_anthropic_marks {
    bool system;       /* put a mark at the end of the system field, which later requests share */
    size_t stable_len; /* put a mark after this many messages, which later requests share; 0:
                          none */
    bool last;         /* put a mark after the last message */
} pal_anthropic_marks;

/* Returns true if there is a system field to write: there are system messages at the beginning. */
bool pal_anthropic_has_system(const pal_message *messages, size_t messages_len);
/* Writes the value of "system", an array of blocks. */
PAL_CHECKED pal_status pal_anthropic_put_system(pal_json_writer *writer,
        const pal_message *messages, size_t messages_len, const pal_anthropic_marks *marks,
        pal_error *err);
/* Writes the value of "messages": all messages after the system messages. A later system message is
 * written as a user message. Images and files without a URL or content become a line of text that
 * names them. `marks` may be NULL. */
PAL_CHECKED pal_status pal_anthropic_put_messages(pal_json_writer *writer,
        const pal_message *messages, size_t messages_len, const pal_anthropic_marks *marks,
        pal_error *err);

/* Writes {"system":[...],"messages":[...]} into the arena, without marks. */
PAL_CHECKED pal_status pal_anthropic_write(const pal_message *messages, size_t messages_len,
        pal_arena *arena, pal_str *out_json, pal_error *err);

/* ---- Answers, as a message or as the events of a stream (anthropic_answer.c) ---- */

/* Reads a message object, {"content":[...],"model":...,"usage":{...}}, into the arena. Blocks of
 * unknown types are kept. PAL_INVALID: it is not such an object. */
PAL_CHECKED pal_status pal_anthropic_answer_read(
        pal_str json, pal_arena *arena, pal_message *out_message, pal_error *err);

/* Joins the events of a complete stream to the message object that the same request would have
 * returned without a stream. PAL_INVALID: the stream has no end, or an event is not JSON. */
PAL_CHECKED pal_status pal_anthropic_answer_join(
        pal_str stream, pal_arena *arena, pal_str *out_json, pal_error *err);

#endif
