/* store_ledger.c - sums and lists of the ledger. They run on the caller's thread. */
#include "palaver/store_turns.h"

#include <stdio.h>

#include "base/memory.h"
#include "message/message_check.h"
#include "palaver/limits.h"
#include "store/store_front.h"
#include "store/store_prepare.h"

/* Checks the query, and replaces its defaults by values that backends can compare with. */
static pal_status check_query(pal_store *store, pal_ledger_query *query, pal_handle *out_handle,
        pal_error *err)
{
    pal_status status = pal_tenant_check(&query->tenant, err);

    if (status == PAL_OK)
        status = pal_store_handle(store, query->tenant, query->session, out_handle, err);
    if (status != PAL_OK)
        return status;
    if (query->from < 0)
        query->from = 0;
    if (query->to == 0)
        query->to = INT64_MAX;
    if (query->to < query->from)
        query->to = query->from;
    return PAL_OK;
}

pal_status pal_store_ledger_sum(
        pal_store *store, const pal_ledger_query *query, pal_ledger_sum *out_sum, pal_error *err)
{
    pal_ledger_query checked = *query;
    pal_handle handle = {0};
    pal_status status = check_query(store, &checked, &handle, err);

    if (status != PAL_OK)
        return status;
    return store->engine->backend->ledger_sum(store->engine, &checked, handle, out_sum, err);
}

/* ---- Lists ---- */

enum { CURSOR_SIZE = 24 + PAL_ID_TEXT_SIZE };

/* A cursor is "<created_at>-<id>" of the last row on the previous page. Without one, the list
 * begins with the newest row before the end of the period. */
static pal_status read_cursor(
        pal_str cursor, int64_t to, pal_ledger_place *out_place, pal_error *err)
{
    char text[CURSOR_SIZE];
    long long ms;
    int end = 0;

    *out_place = (pal_ledger_place){.created_at = to};
    if (cursor.len == 0)
        return PAL_OK;
    if (cursor.len < sizeof(text)) {
        memcpy(text, cursor.data, cursor.len);
        text[cursor.len] = 0;
        if (sscanf(text, "%lld-%n", &ms, &end) == 1 && end > 0 &&
                pal_id_from_text(
                        pal_str_make(text + end, cursor.len - (size_t)end), &out_place->id)) {
            if (ms < to)
                out_place->created_at = ms;
            else
                out_place->id = (pal_id){{0}};
            return PAL_OK;
        }
    }
    return pal_error_set(err, PAL_INVALID,
            "'cursor' is not valid; pass the cursor of the previous page");
}

static pal_str write_cursor(const pal_ledger_entry *last, pal_arena *arena)
{
    char text[CURSOR_SIZE], id[PAL_ID_TEXT_SIZE];
    int len;

    pal_id_to_text(last->id, id);
    len = snprintf(text, sizeof(text), "%lld-%s", (long long)last->row.created_at, id);
    return pal_arena_copy(arena, pal_str_make(text, (size_t)len));
}

pal_status pal_store_ledger_list(pal_store *store, const pal_ledger_query *query, pal_str cursor,
        uint32_t limit, pal_arena *arena, pal_ledger_page *out_page, pal_error *err)
{
    pal_ledger_query checked = *query;
    pal_ledger_page page = {0};
    pal_ledger_place before;
    pal_handle handle = {0};
    pal_status status = check_query(store, &checked, &handle, err);

    if (limit == 0)
        limit = PAL_LEDGER_PAGE_DEFAULT;
    if (status == PAL_OK && limit > PAL_LEDGER_PAGE_MAX)
        status = pal_error_set(err, PAL_LIMIT, "'limit' is %u; at most %u rows fit on a page",
                (unsigned)limit, (unsigned)PAL_LEDGER_PAGE_MAX);
    if (status == PAL_OK)
        status = read_cursor(cursor, checked.to, &before, err);
    if (status != PAL_OK)
        return status;
    /* One more row, to know whether there is another page. */
    page.items = pal_arena_array(arena, (size_t)limit + 1, sizeof *page.items);
    if (!page.items)
        return pal_no_memory(err);
    status = store->engine->backend->ledger_list(store->engine, &checked, handle, &before, arena,
            page.items, (size_t)limit + 1, &page.len, err);
    if (status != PAL_OK)
        return status;
    if (page.len > limit) {
        page.len = limit;
        page.cursor = write_cursor(&page.items[limit - 1], arena);
        if (page.cursor.len == 0)
            return pal_no_memory(err);
    }
    *out_page = page;
    return PAL_OK;
}
