/* dialect_openai_items_part.h - the inner pieces of items: what their content is made of, and what
 * is kept of them. Only for the dialect_openai_items*.c files. */
#ifndef PAL_DIALECT_OPENAI_ITEMS_PART_H
#define PAL_DIALECT_OPENAI_ITEMS_PART_H

#include "base/json.h"
#include "dialect/dialect_member.h"
#include "palaver/message.h"

#define PAL_ITEMS_FAMILY "openai_items"

/* What is written, and the memory for what must be parsed again meanwhile. */
typedef struct pal_items_writer {
    pal_json_writer *json;
    pal_arena *scratch;
} pal_items_writer;

/* Whether the part is what a message item is made of, rather than an item of its own. */
static inline bool pal_items_is_content(const pal_part *part)
{
    return part->kind != PAL_PART_REASONING && part->kind != PAL_PART_TOOL_CALL &&
            part->kind != PAL_PART_TOOL_RESULT;
}

/* The members of `object` that are neither in `own` nor null, as JSON; with `type`, that member
 * first. Empty where there are none. */
PAL_CHECKED pal_status pal_items_unknown(pal_json object, const char *const *own, const char *type,
        pal_arena *arena, pal_str *out_json, pal_error *err);

/* An extra of both families: what pal_chat_keep() made, and an object of our own; either may be
 * empty. */
pal_str pal_items_keep(pal_arena *arena, pal_str chat, pal_str own);

/* An array of content parts. */
PAL_CHECKED pal_status pal_items_read_content(
        pal_json array, pal_arena *arena, pal_part **out_parts, size_t *out_len, pal_error *err);

/* One content part. An assistant's are output_text and refusal only. */
void pal_items_put_content(pal_items_writer *out, const pal_part *part, bool is_assistant);

#endif
