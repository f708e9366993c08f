/* mistral_entries_part.h - the parts of entries and chat messages. For the
 * mistral*.c files only. */
#ifndef PAL_MISTRAL_ENTRIES_PART_H
#define PAL_MISTRAL_ENTRIES_PART_H

#include "base/json/json.h"
#include "base/json/json_put.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/message.h"

#define PAL_ENTRIES_FAMILY "mistral"

/* Begins an object with "object" and "type". The caller ends it. */
static inline void pal_entries_begin(pal_json_writer *writer, const char *type)
{
    pal_json_begin_object(writer);
    pal_put_str(writer, "object", pal_str_of("entry"));
    pal_put_str(writer, "type", pal_str_of(type));
}

static inline bool pal_entries_is_media(const pal_part *part)
{
    return part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE;
}

/* Returns true if the part is content of a message, false if it is a separate entry. */
static inline bool pal_entries_is_content(const pal_part *part)
{
    return pal_entries_is_media(part) || part->kind == PAL_PART_TEXT ||
            part->kind == PAL_PART_COMPACTION;
}

/* Writes one chunk of a content. */
void pal_entries_put_chunk(pal_json_writer *writer, const pal_part *part);

/* Writes "tool_call_id", "name" and "arguments". */
void pal_entries_put_call(pal_json_writer *writer, const pal_part *part);

/* Writes a result as one string value: its texts, and a line for each part that is not a text. */
void pal_entries_put_output(pal_json_writer *writer, const pal_part *part);

/* ---- Reading into the arena (mistral_chunk.c) ---- */

/* Reads a member that must be a string. */
PAL_CHECKED pal_status pal_mistral_read_string(
        pal_json object, const char *name, pal_arena *arena, pal_str *out, pal_error *err);
/* Reads the "arguments" of a call: a text, or the bytes of an object. */
PAL_CHECKED pal_status pal_mistral_read_arguments(
        pal_json object, pal_arena *arena, pal_str *out, pal_error *err);
/* Reads a call. Its id is a member of `object`, its name and arguments are members of
 * `function`. */
PAL_CHECKED pal_status pal_mistral_read_call(pal_json object, const char *id_name,
        pal_json function, pal_arena *arena, pal_part *part, pal_error *err);
/* Reads the "content" of a message whose role is set: a text or chunks. */
PAL_CHECKED pal_status pal_mistral_read_content(
        pal_json object, pal_arena *arena, pal_message *message, pal_error *err);

/* Returns one of our extras: {"mistral":{NAME:JSON}}. */
pal_str pal_mistral_keep(pal_arena *arena, const char *name, pal_str json);

#endif
