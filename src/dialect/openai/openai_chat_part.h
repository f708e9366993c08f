/* openai_chat_part.h - the parts of chat completions' messages. For the openai_*.c
 * files, and for Mistral's entries, whose chunks are the same. */
#ifndef PAL_OPENAI_CHAT_PART_H
#define PAL_OPENAI_CHAT_PART_H

#include "base/json/json.h"
#include "dialect/dialect_member.h"
#include "palaver/message.h"

typedef struct pal_chat_kept {
    const char *mark;       /* the value of "type": a constant string, or NULL */
    const char *role;       /* the value of "role": a constant string, or NULL */
    const char *inner_name; /* the member whose unknown members are in `inner` */
    pal_str inner;          /* JSON; may be empty */
    pal_str unknown;        /* an object with the unknown members; may be empty */
} pal_chat_kept;

/* Joins the pieces into one text, in the arena. */
pal_str pal_chat_join(pal_arena *arena, const pal_str *pieces, size_t pieces_len);

/* Returns the extra that keeps them, {"openai":{...}}; empty if there is nothing to keep. */
pal_str pal_chat_keep(pal_arena *arena, pal_chat_kept what);

/* For tables whose members of type OTHER are pal_json fields, which the caller reads later. */
pal_status pal_chat_read_value(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err);

PAL_CHECKED pal_status pal_chat_expect_object(const char *name, pal_json value, pal_error *err);

/* Reads {"type":...}, an element of "content". */
PAL_CHECKED pal_status pal_chat_read_content_part(
        pal_json value, pal_arena *arena, pal_part *part, pal_error *err);

/* Reads {"id","type","function":{"name","arguments"}}, or "custom" with an "input". */
PAL_CHECKED pal_status pal_chat_read_tool_call(
        pal_json value, pal_arena *arena, pal_part *part, pal_error *err);

/* Reads the legacy member "function_call" of an assistant's message. It has no id; the name
 * connects it to its result. */
PAL_CHECKED pal_status pal_chat_read_function_call(
        pal_json value, pal_arena *arena, pal_part *part, pal_error *err);

#endif
