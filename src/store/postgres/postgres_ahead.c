/* postgres_ahead.c - rows, marks and inbox items that are read in the same flight as their session.
 *
 * A reader looks for the session, then for its marks, then for its newest and its oldest rows. Each
 * would be a round trip. So one flight fetches the session and what the reader wants of it, and
 * the later calls find that through the handle. The session is read first, so
 * every row and mark that its record counts is there. Newer ones are not shown, because a scan ends
 * at the last seq of the record. */
#include "base/memory.h"
#include "store/postgres/postgres.h"
#include "store/view/view_marks.h"

enum {
    AHEAD_MARKS = 16,
    AHEAD_FIRST_ROWS = 2, /* the system message, and whether a row follows it */
    AHEAD_ROWS_MAX = 1024,
};

struct pal_ahead {
    pal_row *newest; /* in the order of their seqs */
    size_t newest_len;
    uint64_t newest_from; /* all rows from this seq on are in `newest` */
    pal_row *first;
    size_t first_len;
    uint64_t last_seq; /* last seq in the session's record */
    pal_mark *marks;   /* in the order of their numbers */
    size_t marks_len;
    uint64_t marks_from; /* all marks from this number on are in `marks` */
    pal_inbox_item *items;
    size_t items_len;
    bool has_items; /* the inbox was read */
};

/* ---- Reading ---- */

static pal_row *copy_rows(const PGresult *result, bool is_reversed, pal_arena *arena)
{
    int len = PQntuples(result);
    pal_row *rows = pal_arena_array(arena, (size_t)len + 1, sizeof *rows);

    for (int i = 0; rows && i < len; i++) {
        pal_row *row = &rows[is_reversed ? len - 1 - i : i];

        pal_postgres_row_read(result, i, row);
        row->client_id = pal_arena_copy(arena, row->client_id);
        row->body = pal_arena_copy(arena, row->body);
    }
    return rows;
}

static pal_mark *copy_marks(const PGresult *result, pal_arena *arena)
{
    int len = PQntuples(result);
    pal_mark *marks = pal_arena_array(arena, (size_t)len + 1, sizeof *marks);

    for (int i = 0; marks && i < len; i++) {
        pal_mark *mark = &marks[len - 1 - i];

        pal_postgres_mark_read(result, i, mark);
        mark->body = pal_postgres_str_copy(result, i, 6, arena);
    }
    return marks;
}

static void put_session(pal_postgres_params *params, int64_t tenant, pal_id id)
{
    pal_postgres_put_int(params, tenant);
    pal_postgres_put_bytes(params, pal_str_make((const char *)id.bytes, sizeof id.bytes));
}

static void put_range(pal_postgres_params *params, int64_t rows_max)
{
    pal_postgres_put_int(params, 0);
    pal_postgres_put_int(params, INT64_MAX);
    pal_postgres_put_int(params, rows_max);
}

/* The results are in the order of these statements; a statement that was not sent has none. */
enum { SESSION, NEWEST, FIRST, MARKS, INBOX, READS };

static pal_status read_results(PGresult *const *results, pal_str tenant, bool is_brief,
        size_t rows_max, pal_arena *arena, pal_session_row *out_row, pal_error *err)
{
    pal_ahead *ahead = pal_arena_alloc(arena, sizeof *ahead);
    pal_session_row row;

    if (!ahead)
        return pal_no_memory(err);
    if (is_brief)
        pal_postgres_session_read_brief(results[SESSION], 0, tenant, arena, &row);
    else
        pal_postgres_session_read(results[SESSION], 0, tenant, arena, &row);
    *ahead = (pal_ahead){.newest = copy_rows(results[NEWEST], true, arena),
            .newest_len = (size_t)PQntuples(results[NEWEST]),
            .first = copy_rows(results[FIRST], false, arena),
            .first_len = (size_t)PQntuples(results[FIRST]),
            .last_seq = row.session.last_seq,
            .marks = copy_marks(results[MARKS], arena),
            .marks_len = (size_t)PQntuples(results[MARKS]),
            .marks_from = results[MARKS] ? 0 : UINT64_MAX,
            .items = pal_postgres_items_read(results[INBOX], arena),
            .items_len = (size_t)PQntuples(results[INBOX]),
            .has_items = results[INBOX] != NULL};
    if (pal_arena_failure(arena))
        return pal_arena_checked(arena, err);
    if (ahead->newest_len >= rows_max)
        ahead->newest_from = ahead->newest[0].seq;
    if (ahead->marks_len >= AHEAD_MARKS)
        ahead->marks_from = ahead->marks[0].number;
    row.handle.ahead = ahead;
    *out_row = row;
    return PAL_OK;
}

pal_status pal_postgres_session_ahead(pal_engine *engine, pal_str tenant, pal_id id,
        const pal_ahead_wants *wants, pal_arena *arena, pal_session_row *out_row, pal_error *err)
{
    const pal_postgres_sql statements[READS] = {
            wants->is_brief ? PAL_POSTGRES_SESSION_BRIEF : PAL_POSTGRES_SESSION_BY_ID,
            PAL_POSTGRES_MESSAGE_DOWN, PAL_POSTGRES_MESSAGE_UP, PAL_POSTGRES_MARK_AHEAD,
            PAL_POSTGRES_INBOX_LIST};
    const bool is_wanted[READS] = {true, true, wants->first_rows, wants->marks, wants->inbox};
    uint32_t rows_max = wants->rows_max < AHEAD_ROWS_MAX ? wants->rows_max : AHEAD_ROWS_MAX;
    pal_postgres *store = (pal_postgres *)engine;
    pal_postgres_params params[READS] = {0};
    pal_postgres_read_one reads[READS];
    PGresult *read[READS] = {0}, *results[READS] = {0};
    int64_t number = pal_postgres_tenant(tenant);
    size_t len = 0;
    bool found;
    pal_status status = pal_postgres_tenant_find(store, tenant, &found, err);

    if (status != PAL_OK || !found)
        return status != PAL_OK ? status : PAL_NOT_FOUND;
    for (size_t i = 0; i < READS; i++) {
        if (!is_wanted[i])
            continue;
        put_session(&params[i], number, id);
        if (i == NEWEST || i == FIRST)
            put_range(&params[i], i == NEWEST ? rows_max : AHEAD_FIRST_ROWS);
        if (i == MARKS)
            pal_postgres_put_int(&params[i], AHEAD_MARKS);
        reads[len++] = (pal_postgres_read_one){statements[i], &params[i]};
    }
    status = pal_postgres_read_all(store, reads, len, read, err);
    for (size_t i = 0, at = 0; status == PAL_OK && i < READS; i++)
        results[i] = is_wanted[i] ? read[at++] : NULL;
    if (status == PAL_OK && PQntuples(results[SESSION]) == 0)
        status = PAL_NOT_FOUND;
    if (status == PAL_OK)
        status = read_results(results, tenant, wants->is_brief, rows_max, arena, out_row, err);
    for (size_t i = 0; i < READS; i++)
        PQclear(results[i]);
    return status;
}

const pal_ahead *pal_postgres_ahead_extend(
        const pal_ahead *ahead, const pal_row *rows, size_t rows_len, pal_arena *arena)
{
    pal_ahead *longer = pal_arena_alloc(arena, sizeof *longer);
    pal_row *newest = pal_arena_array(arena, ahead->newest_len + rows_len, sizeof *newest);

    if (!longer || !newest)
        return NULL;
    memcpy(newest, ahead->newest, ahead->newest_len * sizeof *newest);
    memcpy(newest + ahead->newest_len, rows, rows_len * sizeof *newest);
    *longer = *ahead;
    longer->newest = newest;
    longer->newest_len += rows_len;
    longer->last_seq += rows_len;
    return longer;
}

/* ---- Using ---- */

static bool pass_down(const pal_ahead *ahead, pal_row_scan *scan, pal_row_sink sink, void *user)
{
    for (size_t i = ahead->newest_len; i > 0; i--) {
        const pal_row *row = &ahead->newest[i - 1];

        if (row->seq > scan->last_seq)
            continue;
        if (row->seq < scan->first_seq || !sink(row, user))
            return false;
    }
    if (ahead->newest_from <= scan->first_seq)
        return false;
    if (scan->last_seq >= ahead->newest_from)
        scan->last_seq = ahead->newest_from - 1;
    return true;
}

static bool pass_up(const pal_row *rows, size_t len, pal_row_scan *scan, pal_row_sink sink,
        void *user)
{
    for (size_t i = 0; i < len; i++) {
        if (rows[i].seq < scan->first_seq)
            continue;
        if (rows[i].seq > scan->last_seq || !sink(&rows[i], user))
            return false;
        scan->first_seq = rows[i].seq + 1;
    }
    return true;
}

bool pal_postgres_ahead_rows(pal_row_scan *scan, pal_row_sink sink, void *user)
{
    const pal_ahead *ahead = scan->handle.ahead;

    if (!ahead || scan->last_seq > ahead->last_seq)
        return true;
    if (scan->descending)
        return pass_down(ahead, scan, sink, user);
    if (scan->first_seq >= ahead->newest_from) {
        (void)pass_up(ahead->newest, ahead->newest_len, scan, sink, user);
        return false;
    }
    return pass_up(ahead->first, ahead->first_len, scan, sink, user);
}

bool pal_postgres_ahead_marks(
        const pal_mark_scan *scan, pal_arena *arena, pal_mark **out_marks, size_t *out_len)
{
    const pal_ahead *ahead = scan->handle.ahead;
    pal_mark *marks;
    size_t len = 0;

    if (!ahead || scan->first < ahead->marks_from)
        return false;
    marks = pal_arena_array(arena, ahead->marks_len + 1, sizeof *marks);
    if (!marks)
        return false;
    for (size_t i = 0; i < ahead->marks_len; i++) {
        marks[len] = ahead->marks[i];
        marks[len].body = scan->wanted == PAL_MARKS_WHOLE
                ? pal_arena_copy(arena, ahead->marks[i].body)
                : pal_str_make(NULL, 0);
        len += marks[len].number >= scan->first && marks[len].number <= scan->last &&
                (scan->wanted != PAL_MARKS_HIDING || pal_mark_bears_on_view(marks[len].kind));
    }
    *out_marks = marks;
    *out_len = len;
    return !pal_arena_failure(arena);
}

bool pal_postgres_ahead_inbox(pal_handle handle, pal_arena *arena, pal_inbox_item **out_items,
        size_t *out_len)
{
    const pal_ahead *ahead = handle.ahead;
    pal_inbox_item *items;

    if (!ahead || !ahead->has_items)
        return false;
    items = pal_arena_array(arena, ahead->items_len + 1, sizeof *items);
    if (!items)
        return false;
    for (size_t i = 0; i < ahead->items_len; i++) {
        items[i] = ahead->items[i];
        items[i].client_id = pal_arena_copy(arena, items[i].client_id);
        items[i].delivery = pal_arena_copy(arena, items[i].delivery);
        items[i].body = pal_arena_copy(arena, items[i].body);
    }
    *out_items = items;
    *out_len = ahead->items_len;
    return !pal_arena_failure(arena);
}
