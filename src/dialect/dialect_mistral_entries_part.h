/* dialect_mistral_entries_part.h - the inner pieces of entries and chat messages. Only for the
 * dialect_mistral*.c files. */
#ifndef PAL_DIALECT_MISTRAL_ENTRIES_PART_H
#define PAL_DIALECT_MISTRAL_ENTRIES_PART_H

#include "base/json.h"
#include "palaver/arena.h"
#include "palaver/error.h"
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

/* ---- Reading (dialect_mistral_chunk.c); everything lies in the arena ---- */

/* A member that must be a string. */
PAL_CHECKED pal_status pal_entries_read_string(
        pal_json object, const char *name, pal_arena *arena, pal_str *out, pal_error *err);
/* "arguments" of a call: a text, or an object as it is written. */
PAL_CHECKED pal_status pal_entries_read_arguments(
        pal_json object, pal_arena *arena, pal_str *out, pal_error *err);
/* "content" of a message, whose role is set: a text or chunks. */
PAL_CHECKED pal_status pal_entries_read_content(
        pal_json object, pal_arena *arena, pal_message *message, pal_error *err);

/* An extra of ours: {"mistral":{NAME:JSON}}. */
pal_str pal_entries_keep(pal_arena *arena, const char *name, pal_str json);

#endif
