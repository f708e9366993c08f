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

/* ---- memory_note.c ---- */

PAL_CHECKED pal_status pal_note_check_len(
        const char *name, pal_str text, size_t max, pal_error *err);
PAL_CHECKED pal_status pal_note_check_subject(const char *name, pal_str text, pal_error *err);
/* Writes one note, or the note that is superseded and then the one that supersedes it (or NULL), in
 * one commit. */
PAL_CHECKED pal_status pal_note_commit(pal_store *store, pal_str tenant, pal_note *first,
        pal_note *second, pal_arena *arena, pal_error *err);

/* ---- memory_note_add.c ---- */

enum { PAL_NOTE_BATCH_MAX = 24 };

/* Notes that are written later, in one commit. Zero it. */
typedef struct pal_note_batch {
    pal_note notes[PAL_NOTE_BATCH_MAX];
    size_t len;
    bool is_full; /* notes did not fit */
} pal_note_batch;

/* Adds a note to the batch, or at once if it is NULL. With `is_asked`, a new note waits until it is
 * confirmed. */
PAL_CHECKED pal_status pal_note_add_to(pal_store *store, pal_str tenant,
        const pal_note_request *request, bool is_asked, pal_note_batch *batch, pal_arena *arena,
        pal_note_added *out_added, pal_error *err);
/* Retracts a note because its subject has taken it back: `request` has the message and the words.
 * PAL_DENIED: the rules do not accept that. */
PAL_CHECKED pal_status pal_note_retract_to(pal_store *store, pal_str tenant, pal_str id,
        const pal_note_request *request, pal_note_batch *batch, pal_arena *arena, pal_error *err);
/* Returns the operations that write the batch, in the arena, with room for `room` more. */
PAL_CHECKED pal_status pal_note_batch_ops(pal_note_batch *batch, pal_str tenant, size_t room,
        pal_arena *arena, pal_op **out_ops, size_t *out_len, pal_error *err);

/* Returns true if a person said it: not what Palaver or a client has put into the conversation. */
bool pal_note_is_said(const pal_message *message);
PAL_CHECKED pal_status pal_note_message_text(
        const pal_message *message, pal_arena *arena, pal_str *out_text, pal_error *err);
/* Returns who wrote the message, as others in the place know that person; may be empty. */
pal_str pal_note_speaker(
        const pal_note_place *place, const pal_message *message, pal_arena *arena);
/* Erases what rests on a message if it was erased while notes were being added. */
PAL_CHECKED pal_status pal_note_check_source(pal_store *store, pal_str tenant, pal_id session,
        uint64_t seq, pal_arena *arena, pal_error *err);

/* ---- memory_note_place.c ---- */

/* Returns the part of a person's subject by which others know that person. */
pal_str pal_note_person_name(pal_str subject);

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
