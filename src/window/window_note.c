/* window_note.c - decides which notes of the long-term memory are sent, and where. An epoch begins
 * with a list of notes, and its mark keeps only their ids. A note that becomes active later is sent
 * in front of the first user message after that time, always the same one. So nothing before it
 * changes, and nothing of a note is stored a second time: an erased or retracted note is not sent
 * any more, whatever marks and messages there are. Reads only; can block. */
#include "window/window_internal.h"

#include <stdlib.h>

#include "base/json/json.h"
#include "base/memory.h"
#include "memory/memory_shown.h"
#include "palaver/store_admin.h"

#define BLOCK_TOKENS 800
#define IDLE_MS (INT64_C(60) * 60 * 1000)
#define IDS_BYTES_MAX ((size_t)1 << 20)

typedef struct notes_work {
    const pal_window *window;
    pal_window_view *view;
    pal_arena *arena;
    pal_note_shown *notes; /* by id */
    size_t len;
    bool *is_block; /* of each note: it is sent at the beginning */
} notes_work;

/* ---- The list of an epoch ---- */

static void read_ids(notes_work *work)
{
    pal_json ids, id;
    pal_json_iter each;

    if (pal_json_parse(work->arena, work->view->epoch.notes, NULL, &ids, NULL) != PAL_OK)
        return;
    for (each = pal_json_each(ids); pal_json_next(&each, NULL, &id);) {
        pal_str text = pal_json_string(id, work->arena);

        for (size_t i = 0; i < work->len; i++)
            work->is_block[i] |= pal_str_equal(work->notes[i].id, text);
    }
}

static pal_status write_ids(
        const notes_work *work, const size_t *chosen, size_t len, pal_str *out_ids, pal_error *err)
{
    pal_buf buf;
    pal_json_writer writer;
    pal_status status;

    pal_buf_init(&buf, IDS_BYTES_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < len; i++)
        pal_json_put_str(&writer, work->notes[chosen[i]].id);
    pal_json_end_array(&writer);
    *out_ids = pal_arena_copy(work->arena, pal_buf_str(&buf));
    status = buf.failure ? pal_error_set(err, buf.failure, "the list of notes is too long")
                         : pal_arena_checked(work->arena, err);
    pal_buf_done(&buf);
    return status;
}

/* Returns true if the newest user message came after a long pause that the epoch does not know. The
 * service has forgotten its cache by then. */
static bool is_after_pause(const notes_work *work)
{
    const pal_context_input *input = &work->view->input;
    int64_t idle_ms = work->window->memory->idle_ms ? work->window->memory->idle_ms : IDLE_MS;
    size_t at = input->messages_len;

    while (at > 0 && input->messages[at - 1].role != PAL_ROLE_USER)
        at--;
    return at > 1 && work->view->epoch.notes_at < input->messages[at - 1].created_at &&
            input->messages[at - 1].created_at - input->messages[at - 2].created_at >= idle_ms;
}

/* Chooses the notes of a new epoch, if one begins. */
static pal_status renew(pal_store *store, notes_work *work, pal_error *err)
{
    const pal_window *window = work->window;
    pal_window_view *view = work->view;
    bool is_shown = window->assume_last || window->at_seq || window->without_len;
    bool must = view->epoch.notes.len == 0 || (!view->keeps_epoch && !is_shown);
    uint64_t tokens_max = window->memory->block_tokens ? window->memory->block_tokens
                                                       : BLOCK_TOKENS;
    size_t *chosen = pal_arena_array(work->arena, work->len + 1, sizeof(*chosen)), chosen_len;
    uint64_t more;
    pal_str ids;
    pal_status status;

    if (!must && (is_shown || !is_after_pause(work)))
        return PAL_OK;
    if (!chosen)
        return pal_no_memory(err);
    status = pal_note_shown_choose(work->notes, work->len, view->model.encoding, tokens_max, chosen,
            &chosen_len, &more, err);
    if (status == PAL_OK)
        status = write_ids(work, chosen, chosen_len, &ids, err);
    if (status != PAL_OK || (!must && pal_str_equal(ids, view->epoch.notes)))
        return status;
    view->epoch.notes = ids;
    view->epoch.notes_more = more;
    view->epoch.notes_at = pal_store_clock_ms(store);
    if (!window->assume_last && !view->epoch.is_own)
        view->input.system = window->system;
    view->keeps_epoch = false;
    return PAL_OK;
}

/* ---- What is sent ---- */

/* Returns the message that a note is sent in front of; 0: there is none yet. */
static uint64_t place_of(const notes_work *work, const pal_note_shown *note)
{
    const pal_context_input *input = &work->view->input;

    if (note->since < work->view->epoch.notes_at)
        return 0;
    for (size_t i = 0; i < input->messages_len; i++)
        if (input->messages[i].role == PAL_ROLE_USER &&
                !(input->messages[i].flags & PAL_MESSAGE_FLAG_SYNTHETIC) &&
                input->messages[i].created_at >= note->since)
            return input->messages[i].seq;
    return 0;
}

static pal_context_note to_send(const pal_note_shown *note, uint64_t seq)
{
    return (pal_context_note){.id = note->id,
            .text = seq ? note->change : note->text,
            .reason = note->reason,
            .seq = seq};
}

static pal_status put_notes(notes_work *work, pal_error *err)
{
    pal_context_input *input = &work->view->input;
    pal_context_note *notes = pal_arena_array(work->arena, work->len + 1, sizeof(*notes));
    size_t len = 0;

    if (!notes)
        return pal_no_memory(err);
    for (size_t i = 0; i < work->len; i++) {
        uint64_t seq = work->is_block[i] ? 0 : place_of(work, &work->notes[i]);

        if (work->is_block[i] || seq > 0)
            notes[len++] = to_send(&work->notes[i], seq);
    }
    input->notes = notes;
    input->notes_len = len;
    input->notes_more = work->view->epoch.notes_more;
    return PAL_OK;
}

pal_status pal_window_notes(pal_store *store, const pal_window *window, const pal_session *session,
        pal_arena *arena, pal_window_view *view, pal_error *err)
{
    notes_work work = {.window = window, .view = view, .arena = arena};
    pal_note_place place;
    pal_status status = pal_note_place_of(session, arena, &place, err);

    if (status != PAL_OK)
        return status;
    if (pal_memory_mode_of(window->memory, &place) == PAL_MEMORY_OFF) {
        view->epoch.notes = (pal_str){0};
        return PAL_OK;
    }
    status = pal_note_shown_list(store, session, &place, arena, &work.notes, &work.len, err);
    if (status == PAL_OK)
        status = renew(store, &work, err);
    if (status != PAL_OK)
        return status;
    work.is_block = pal_arena_alloc(arena, work.len + 1);
    if (!work.is_block)
        return pal_no_memory(err);
    for (size_t i = 0; i < work.len; i++)
        work.is_block[i] = false;
    read_ids(&work);
    return put_notes(&work, err);
}
