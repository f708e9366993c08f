/* memory_shown.h - the notes that a session's model is shown, as lines of text. */
#ifndef PAL_MEMORY_SHOWN_H
#define PAL_MEMORY_SHOWN_H

#include "palaver/note.h"
#include "palaver/tokens.h"

typedef struct pal_note_shown {
    pal_str id;
    pal_note_state state; /* ACTIVE or SUPERSEDED */
    int64_t since;        /* when it became active */
    pal_str text;         /* "(fact, 2026-11-16) Ann sails." */
    pal_str change;       /* the same, with the text of the note that it superseded */
    pal_str reason;       /* "fact, said on 2026-11-16" */
    uint32_t days;        /* different days on which it was said */
    pal_note_kind kind;
} pal_note_shown;

/* Returns what is done with notes in sessions of this place. */
pal_memory_mode pal_memory_mode_of(
        const pal_memory_settings *settings, const pal_note_place *place);

/* Lists the active and the superseded notes of the session's circles, by id. */
PAL_CHECKED pal_status pal_note_shown_list(pal_store *store, const pal_session *session,
        const pal_note_place *place, pal_arena *arena, pal_note_shown **out_notes, size_t *out_len,
        pal_error *err);

/* Chooses the active notes for the beginning of a request: instructions and preferences first, then
 * what was said on the most days, then the newest ones, up to `tokens_max`. Writes their positions,
 * ascending, into `out_chosen`, which has room for all notes. *out_more is how many are left
 * out. */
PAL_CHECKED pal_status pal_note_shown_choose(const pal_note_shown *notes, size_t len,
        const pal_encoding *encoding, uint64_t tokens_max, size_t *out_chosen,
        size_t *out_chosen_len, uint64_t *out_more, pal_error *err);

#endif
