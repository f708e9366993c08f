/* openai_items_part.h - the content of items, and the members of items that are kept. For
 * the openai_items*.c files only. */
#ifndef PAL_OPENAI_ITEMS_PART_H
#define PAL_OPENAI_ITEMS_PART_H

#include "base/json/json.h"
#include "dialect/dialect_member.h"
#include "palaver/message.h"

#define PAL_ITEMS_FAMILY "openai_items"

/* Returns true if the part is content of a message item, false if it is a separate item. */
bool pal_items_is_content(const pal_part *part);

/* Returns the members of `object` that are neither in `own` nor null, as JSON, with `type` as the
 * first member if it is given. Empty if there are none. */
PAL_CHECKED pal_status pal_items_unknown(pal_json object, const char *const *own, const char *type,
        pal_arena *arena, pal_str *out_json, pal_error *err);

/* Returns an extra with both: the result of pal_chat_keep(), and an object with our own members.
 * Either may be empty. */
pal_str pal_items_keep(pal_arena *arena, pal_str chat, pal_str own);

/* Reads an array of content parts. */
PAL_CHECKED pal_status pal_items_read_content(
        pal_json array, pal_arena *arena, pal_part **out_parts, size_t *out_len, pal_error *err);

#endif
