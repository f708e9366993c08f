/* dialect_anthropic.h - the messages of Anthropic's Messages API.
 *
 * There, system is a field of its own, tools answer inside of the user's messages, and messages of
 * one role that follow each other are one. Reading parts the results of tools from what the user
 * says; writing puts them together again. What a block says beyond our own fields is kept in its
 * part's `extra` under the one member "anthropic", and written back from there; marks for caches
 * belong to a request and are not kept. Pure functions over the caller's memory: any thread may
 * call them. */
#ifndef PAL_DIALECT_ANTHROPIC_H
#define PAL_DIALECT_ANTHROPIC_H

#include <stddef.h>
#include "base/json.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"

#define PAL_ANTHROPIC_FAMILY "anthropic" /* whose reasoning its signatures are */
#define PAL_ANTHROPIC_MESSAGES_MAX 1000000
#define PAL_ANTHROPIC_DEPTH_MAX 128

/* Reads one message object, an array of them, or {"system":...,"messages":[...]}, whose other
 * members are ignored. Everything lies in the arena. */
PAL_CHECKED pal_status pal_anthropic_read(pal_str json, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);
/* The same from a parsed value; views borrow from the parsed text or lie in the arena. */
PAL_CHECKED pal_status pal_anthropic_read_value(pal_json value, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err);

/* What goes into a request beside the messages themselves. */
typedef struct pal_anthropic_marks {
    bool system;       /* the end of the system field is one that requests to come share */
    size_t stable_len; /* likewise so many of the messages; 0: none */
    bool last;         /* and all of them */
} pal_anthropic_marks;

/* Whether there is something to write as the system field: the system messages at the start. */
bool pal_anthropic_has_system(const pal_message *messages, size_t messages_len);
/* Writes the value of "system", an array of blocks. */
PAL_CHECKED pal_status pal_anthropic_put_system(pal_json_writer *writer,
        const pal_message *messages, size_t messages_len, const pal_anthropic_marks *marks,
        pal_error *err);
/* Writes the value of "messages": all the others. A system message among them is said by the user;
 * media without url or bytes become a line of text that names them. `marks` may be NULL. */
PAL_CHECKED pal_status pal_anthropic_put_messages(pal_json_writer *writer,
        const pal_message *messages, size_t messages_len, const pal_anthropic_marks *marks,
        pal_error *err);

/* {"system":[...],"messages":[...]} into the arena, without marks. */
PAL_CHECKED pal_status pal_anthropic_write(const pal_message *messages, size_t messages_len,
        pal_arena *arena, pal_str *out_json, pal_error *err);

#endif
