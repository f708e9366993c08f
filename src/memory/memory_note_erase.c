/* memory_note_erase.c - erases what rests on an erased message. The notes, the sources and the
 * message go in one commit, so a crash leaves either all of it or nothing. If a note was changed
 * meanwhile, all of it is tried again. On any thread; blocks on the store. */
#include "memory/memory_note.h"

#include <string.h>

#include "memory/memory_gate.h"

enum { TRIES_MAX = 5 };

typedef struct erasure_work {
    pal_store *store;
    pal_str tenant;
    pal_arena *arena;
    pal_id message, session;
    pal_op *ops;
    size_t len, cap;
    uint64_t notes;
} erasure_work;

static pal_status add_op(erasure_work *work, const pal_op *op, pal_error *err)
{
    if (!pal_reserve(&work->ops, &work->cap, work->len + 1, sizeof(*work->ops)))
        return pal_no_memory(err);
    work->ops[work->len] = *op;
    work->ops[work->len].with_previous = work->len > 0;
    work->len++;
    return PAL_OK;
}

static bool rests_on(const pal_note *note, pal_id message)
{
    for (size_t i = 0; i < note->sources_len; i++)
        if (pal_id_equal(note->sources[i].message, message))
            return true;
    return false;
}

/* Removes the source, and everything else that may have its words. *out_is_kept is false if the
 * words of the note are not all in the quotes that are left. */
static pal_status without_source(
        const erasure_work *work, pal_note *note, bool *out_is_kept, pal_error *err)
{
    pal_note_source *kept = pal_arena_array(work->arena, note->sources_len, sizeof(*kept));
    pal_str *quotes = pal_arena_array(work->arena, note->sources_len, sizeof(*quotes));
    size_t len = 0;

    if (!kept || !quotes)
        return pal_no_memory(err);
    for (size_t i = 0; i < note->sources_len; i++) {
        if (pal_id_equal(note->sources[i].message, work->message))
            continue;
        quotes[len] = note->sources[i].quote;
        kept[len++] = note->sources[i];
    }
    note->sources = kept;
    note->sources_len = len;
    for (size_t i = 0; i < note->changes_len; i++)
        note->changes[i].reason = (pal_str){0};
    return pal_gate_is_quoted(note->text, quotes, len, out_is_kept, err);
}

static pal_status add_note(erasure_work *work, pal_record *record, pal_error *err)
{
    pal_note note;
    pal_op op;
    bool is_kept = false;
    pal_status status = pal_note_from_record(record, work->arena, &note, err);

    if (status != PAL_OK || !rests_on(&note, work->message))
        return status;
    if (note.sources_len > 1)
        status = without_source(work, &note, &is_kept, err);
    if (status == PAL_OK && is_kept)
        status = pal_note_log(&note, "source_erased", PAL_NOTE_BY_ADMIN, (pal_str){0},
                pal_store_clock_ms(work->store), work->arena, err);
    if (status == PAL_OK && is_kept)
        status = pal_note_to_record(&note, work->arena, record, err);
    if (status != PAL_OK)
        return status;
    work->notes += !is_kept;
    op = is_kept ? pal_op_record_put(work->tenant, record, note.version)
                 : pal_op_record_drop(work->tenant, record);
    return add_op(work, &op, err);
}

static pal_status add_notes(erasure_work *work, pal_error *err)
{
    pal_record_query query = {.tenant = work->tenant,
            .kind = pal_str_of(PAL_NOTE_RECORD),
            .session = work->session,
            .limit = PAL_RECORD_PAGE_MAX};
    pal_record_page page = {.has_more = true};
    pal_status status = PAL_OK;

    while (status == PAL_OK && page.has_more) {
        status = pal_store_record_list(work->store, &query, work->arena, &page, err);
        for (size_t i = 0; status == PAL_OK && i < page.len; i++)
            status = add_note(work, &page.items[i], err);
        if (status == PAL_OK && page.len > 0)
            query.after = page.items[page.len - 1].name;
    }
    return status;
}

/* Finds the message and the session that it was appended to, whose notes rest on it. */
static pal_status find_message(
        erasure_work *work, pal_id session, uint64_t seq, pal_error *err)
{
    pal_message_query load = {
            .after_seq = seq - 1, .before_seq = seq + 1, .limit = 1, .hidden = true};
    pal_message_page page = {.len = 0};
    pal_message message;
    pal_status status =
            pal_store_load(work->store, work->tenant, session, &load, work->arena, &page, err);

    if (status == PAL_OK && page.len == 0)
        return pal_error_set(err, PAL_NOT_FOUND, "the session has no message %llu",
                (unsigned long long)seq);
    if (status == PAL_OK)
        status = pal_store_message(work->store, work->tenant, page.items[0].id, work->arena,
                &message, &work->session, err);
    if (status == PAL_OK)
        work->message = page.items[0].id;
    return status;
}

pal_status pal_note_erase_ops(pal_store *store, pal_str tenant, pal_id session, uint64_t seq,
        pal_erase_result *out_erasure, pal_arena *arena, pal_op **out_ops, size_t *out_len,
        uint64_t *out_notes, pal_error *err)
{
    erasure_work work = {.store = store, .tenant = tenant, .arena = arena};
    pal_op op = pal_op_erase_message(tenant, session, seq, out_erasure);
    pal_op *ops;
    pal_status status = seq > 0 ? find_message(&work, session, seq, err)
                                : pal_error_set(err, PAL_NOT_FOUND, "messages begin with seq 1");

    if (status == PAL_OK)
        status = add_notes(&work, err);
    if (status == PAL_OK)
        status = add_op(&work, &op, err);
    ops = status == PAL_OK ? pal_arena_array(arena, work.len, sizeof(*ops)) : NULL;
    if (status == PAL_OK && !ops)
        status = pal_no_memory(err);
    if (status == PAL_OK) {
        memcpy(ops, work.ops, work.len * sizeof(*ops));
        *out_ops = ops;
        *out_len = work.len;
        *out_notes = work.notes;
    }
    pal_free(work.ops);
    return status;
}

/* Returns the status of the first operation that failed. */
static pal_status apply(pal_store *store, pal_op *ops, size_t len, pal_error *err)
{
    pal_status status = pal_store_apply(store, ops, len, err);

    for (size_t i = 0; status == PAL_OK && i < len; i++)
        if (ops[i].status != PAL_OK)
            status = pal_error_set(err, ops[i].status, "%s", ops[i].error.message);
    return status;
}

/* Another process has changed or erased a note meanwhile. */
static bool may_try_again(pal_status status, const pal_op *ops, size_t len)
{
    return status == PAL_CONFLICT ||
            (status == PAL_NOT_FOUND && len > 0 && ops[len - 1].status != PAL_NOT_FOUND);
}

pal_status pal_note_erase_message(pal_store *store, pal_str tenant, pal_id session, uint64_t seq,
        pal_erase_result *out_erasure, uint64_t *out_notes, pal_error *err)
{
    pal_status status = PAL_OK;
    bool is_over = false;

    for (int tries = 0; !is_over && tries < TRIES_MAX; tries++) {
        pal_arena *arena = pal_arena_new(0);
        pal_op *ops;
        size_t len = 0;
        uint64_t notes = 0;

        if (!arena)
            return pal_no_memory(err);
        status = pal_note_erase_ops(
                store, tenant, session, seq, out_erasure, arena, &ops, &len, &notes, err);
        if (status == PAL_OK)
            status = apply(store, ops, len, err);
        if (status == PAL_OK && out_notes)
            *out_notes = notes;
        if (status == PAL_OK && out_erasure)
            out_erasure->records += notes;
        is_over = len == 0 || !may_try_again(status, ops, len);
        pal_arena_free(arena);
    }
    return status;
}
