/* memory_note.h - what the files of this folder share. */
#ifndef PAL_MEMORY_NOTE_H
#define PAL_MEMORY_NOTE_H

#include "base/buf.h"
#include "base/memory.h"
#include "palaver/limits.h"
#include "palaver/note.h"
#include "palaver/store_batch.h"
#include "palaver/store_records.h"

/* The kind of the records that notes are stored as. */
#define PAL_NOTE_RECORD "note"

/* ---- memory_note_place.c ---- */

/* Joins texts in the arena. Empty if there is no memory. */
pal_str pal_note_join(pal_arena *arena, const pal_str *texts, size_t len);
/* Returns the subject of a sender on a channel; of a linked person if the channel is empty. */
pal_str pal_note_person(pal_str channel, pal_str sender, pal_arena *arena);

/* ---- memory_note_record.c: a note as a record ---- */

/* Returns the beginning of the names of a circle's notes. Empty if it fails. */
pal_str pal_note_prefix(pal_str circle, pal_arena *arena);
/* Writes the note as a record. The version of the record is that of the note. */
PAL_CHECKED pal_status pal_note_to_record(
        const pal_note *note, pal_arena *arena, pal_record *out_record, pal_error *err);
PAL_CHECKED pal_status pal_note_from_record(
        const pal_record *record, pal_arena *arena, pal_note *out_note, pal_error *err);
/* Adds a change to the note's history. */
PAL_CHECKED pal_status pal_note_log(pal_note *note, const char *act, pal_note_by by, pal_str reason,
        int64_t now_ms, pal_arena *arena, pal_error *err);

/* Called for each note of a circle, or of the tenant if `circle` is empty, by id. Returns false to
 * stop. The note is in the arena that pal_note_each() was called with. `after` is the id of the
 * last note of an earlier page; notes up to it are left out. */
typedef bool (*pal_note_sink)(const pal_note *note, void *user);
PAL_CHECKED pal_status pal_note_each(pal_store *store, pal_str tenant, pal_str circle,
        pal_str after, pal_arena *arena, pal_note_sink sink, void *user, pal_error *err);

#endif
