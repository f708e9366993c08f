/* dialect_openai_chat_part.h - the inner pieces of chat completions' messages. Only for the
 * dialect_openai_*.c files and for Mistral's entries, whose chunks are theirs. */
#ifndef PAL_DIALECT_OPENAI_CHAT_PART_H
#define PAL_DIALECT_OPENAI_CHAT_PART_H

#include "base/json.h"
#include "dialect/dialect_member.h"
#include "palaver/message.h"

typedef struct pal_chat_kept {
    const char *mark;       /* what "type" was; a word of ours or NULL */
    const char *role;       /* likewise "role" */
    const char *inner_name; /* the member whose unknown members are `inner` */
    pal_str inner;          /* JSON, or empty */
    pal_str unknown;        /* an object of members that nobody knows, or empty */
} pal_chat_kept;

/* The pieces as one text, in the arena. */
pal_str pal_chat_join(pal_arena *arena, const pal_str *pieces, size_t pieces_len);

/* The extra that keeps it: {"openai":{...}}, or empty where nothing is kept. */
pal_str pal_chat_keep(pal_arena *arena, pal_chat_kept what);

/* For tables whose members of OTHER type are pal_json fields: code that knows what is around them
 * looks at them later. */
pal_status pal_chat_read_value(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err);

PAL_CHECKED pal_status pal_chat_expect_object(const char *name, pal_json value, pal_error *err);

/* {"type":...}: an element of "content". */
PAL_CHECKED pal_status pal_chat_read_content_part(
        pal_json value, pal_arena *arena, pal_part *part, pal_error *err);

/* {"id","type","function":{"name","arguments"}}, or "custom" with an "input". */
PAL_CHECKED pal_status pal_chat_read_tool_call(
        pal_json value, pal_arena *arena, pal_part *part, pal_error *err);

/* The legacy "function_call" of an assistant's message has no id: the name joins it to its
 * answer. */
PAL_CHECKED pal_status pal_chat_read_function_call(
        pal_json value, pal_arena *arena, pal_part *part, pal_error *err);

#endif
