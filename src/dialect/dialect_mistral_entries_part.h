/* dialect_mistral_entries_part.h - the inner pieces of entries. Only for the
 * dialect_mistral_entries*.c files. */
#ifndef PAL_DIALECT_MISTRAL_ENTRIES_PART_H
#define PAL_DIALECT_MISTRAL_ENTRIES_PART_H

#include "base/json.h"
#include "palaver/message.h"

#define PAL_ENTRIES_FAMILY "mistral"

static inline void pal_entries_put_member(pal_json_writer *writer, const char *name, pal_str text)
{
    pal_json_name(writer, name);
    pal_json_put_str(writer, text);
}

/* "object" and "type" of an object that stays open. */
static inline void pal_entries_begin(pal_json_writer *writer, const char *type)
{
    pal_json_begin_object(writer);
    pal_entries_put_member(writer, "object", pal_str_of("entry"));
    pal_entries_put_member(writer, "type", pal_str_of(type));
}

static inline bool pal_entries_is_media(const pal_part *part)
{
    return part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE;
}

/* Whether it is what a message says, rather than an entry of its own. */
static inline bool pal_entries_is_content(const pal_part *part)
{
    return pal_entries_is_media(part) || part->kind == PAL_PART_TEXT ||
            part->kind == PAL_PART_COMPACTION;
}

/* One chunk of a content. */
void pal_entries_put_chunk(pal_json_writer *writer, const pal_part *part);

/* "tool_call_id", "name" and "arguments". */
void pal_entries_put_call(pal_json_writer *writer, const pal_part *part);

/* A result as one text, as a value: the texts in it, a line for what is none. */
void pal_entries_put_output(pal_json_writer *writer, const pal_part *part);

#endif
