/* memory_ledger.c - the ledger of "memory:".
 *
 * An entry is linked to its session, to its turn, and to two books: that of the tenant and that of
 * its agent. A book groups the entries by hour and keeps the sum of each hour. So the sum of any
 * period costs the number of hours and the entries of at most two hours. A page of a list looks at
 * all entries of the tenant or of the turn. */
#include <stdlib.h>

#include "base/memory.h"
#include "base/sum.h"
#include "store/memory/memory_store.h"

/* ---- Books ---- */

static memory_book *book_get(memory_tenant *tenant, pal_str agent)
{
    memory_book *book = pal_map_find(&tenant->agents, agent);
    char *cursor;

    if (book)
        return book;
    book = pal_memory_alloc(sizeof *book, agent.len, &cursor);
    if (!book)
        return NULL;
    book->agent = pal_memory_put(&cursor, agent);
    if (pal_map_set(&tenant->agents, book->agent, book) == PAL_OK)
        return book;
    pal_free(book);
    return NULL;
}

static pal_str hour_key(const int64_t *hour)
{
    return pal_str_make((const char *)hour, sizeof *hour);
}

static memory_hour *hour_get(memory_book *book, int64_t created_at)
{
    int64_t number = created_at / PAL_LEDGER_HOUR_MS;
    memory_hour *hour = pal_map_find(&book->hours, hour_key(&number));

    if (hour)
        return hour;
    hour = pal_calloc(1, sizeof *hour);
    if (!hour)
        return NULL;
    hour->hour = number;
    if (pal_map_set(&book->hours, hour_key(&hour->hour), hour) == PAL_OK)
        return hour;
    pal_free(hour);
    return NULL;
}

static void book_clear(memory_book *book)
{
    size_t position = 0;
    pal_str key;
    void *hour;

    while (pal_map_next(&book->hours, &position, &key, &hour))
        pal_free(hour);
    pal_map_done(&book->hours);
}

/* ---- Turns ---- */

static memory_turn *turn_get(memory_tenant *tenant, pal_str id)
{
    memory_turn *turn = pal_map_find(&tenant->turns, id);
    char *cursor;

    if (turn)
        return turn;
    turn = pal_memory_alloc(sizeof *turn, id.len, &cursor);
    if (!turn)
        return NULL;
    turn->id = pal_memory_put(&cursor, id);
    if (pal_map_set(&tenant->turns, turn->id, turn) == PAL_OK)
        return turn;
    pal_free(turn);
    return NULL;
}

static void turn_free_if_empty(memory_tenant *tenant, memory_turn *turn)
{
    if (!turn || turn->entries)
        return;
    pal_map_remove(&tenant->turns, turn->id);
    pal_free(turn);
}

/* ---- Entries ---- */

static memory_entry *entry_copy(const pal_ledger_row *given, int64_t now_ms)
{
    size_t text_len = given->request_id.len + given->turn_id.len + given->agent.len +
            given->purpose.len + given->provider.len + given->model.len + given->price_version.len;
    char *cursor;
    memory_entry *entry = pal_memory_alloc(sizeof *entry, text_len, &cursor);

    if (!entry)
        return NULL;
    entry->row = *given;
    entry->row.request_id = pal_memory_put(&cursor, given->request_id);
    entry->row.turn_id = pal_memory_put(&cursor, given->turn_id);
    entry->row.agent = pal_memory_put(&cursor, given->agent);
    entry->row.purpose = pal_memory_put(&cursor, given->purpose);
    entry->row.provider = pal_memory_put(&cursor, given->provider);
    entry->row.model = pal_memory_put(&cursor, given->model);
    entry->row.price_version = pal_memory_put(&cursor, given->price_version);
    if (entry->row.created_at == 0)
        entry->row.created_at = now_ms;
    return entry;
}

/* If a later step fails, empty hours and agents may stay, but the turn's id must not. */
static bool entry_place(memory_tenant *tenant, memory_entry *entry)
{
    memory_book *book = NULL;

    entry->hours[MEMORY_BOOK_ALL] = hour_get(&tenant->book, entry->row.created_at);
    if (!entry->hours[MEMORY_BOOK_ALL])
        return false;
    if (entry->row.agent.len > 0) {
        book = book_get(tenant, entry->row.agent);
        entry->hours[MEMORY_BOOK_AGENT] = book ? hour_get(book, entry->row.created_at) : NULL;
        if (!entry->hours[MEMORY_BOOK_AGENT])
            return false;
    }
    if (entry->row.turn_id.len == 0)
        return true;
    entry->turn = turn_get(tenant, entry->row.turn_id);
    return entry->turn != NULL;
}

memory_entry *pal_memory_entry_new(memory_tenant *tenant, const pal_ledger_row *row, int64_t now_ms)
{
    memory_entry *entry = entry_copy(row, now_ms);

    if (entry && !entry_place(tenant, entry)) {
        pal_free(entry);
        return NULL;
    }
    return entry;
}

void pal_memory_entry_free(memory_tenant *tenant, memory_entry *entry)
{
    turn_free_if_empty(tenant, entry->turn);
    pal_free(entry);
}

/* The sum is limited to the largest number that sqlite: can store. */
static void count_add(uint64_t *sum, uint64_t more)
{
    *sum = pal_sum_cap(*sum + pal_sum_cap(more));
}

static void sum_add(pal_ledger_sum *sum, const pal_ledger_sum *more)
{
    count_add(&sum->calls, more->calls);
    count_add(&sum->usage.input, more->usage.input);
    count_add(&sum->usage.cache_read, more->usage.cache_read);
    count_add(&sum->usage.cache_write, more->usage.cache_write);
    count_add(&sum->usage.output, more->usage.output);
    count_add(&sum->usage.reasoning, more->usage.reasoning);
    pal_sum_i64(&sum->cost_micros, more->cost_micros);
}

static void sum_add_row(pal_ledger_sum *sum, const pal_ledger_row *row)
{
    pal_ledger_sum one = {.calls = 1, .usage = row->usage, .cost_micros = row->cost_micros};

    sum_add(sum, &one);
}

void pal_memory_entry_link(memory_tenant *tenant, memory_entry *entry)
{
    entry->number = ++tenant->entry_last;
    entry->next = tenant->ledger;
    tenant->ledger = entry;
    if (entry->session) {
        entry->next_session = entry->session->ledger;
        entry->session->ledger = entry;
    }
    if (entry->turn) {
        entry->next_turn = entry->turn->entries;
        entry->turn->entries = entry;
    }
    for (int i = 0; i < MEMORY_BOOKS; i++) {
        memory_hour *hour = entry->hours[i];

        if (!hour)
            continue;
        entry->next_hour[i] = hour->entries;
        hour->entries = entry;
        sum_add_row(&hour->sum, &entry->row);
    }
}

static void leave_turn(memory_tenant *tenant, memory_entry *entry)
{
    memory_entry **link;

    if (!entry->turn)
        return;
    for (link = &entry->turn->entries; *link != entry; link = &(*link)->next_turn)
        ;
    *link = entry->next_turn;
    turn_free_if_empty(tenant, entry->turn);
    entry->turn = NULL;
}

void pal_memory_entry_forget(memory_tenant *tenant, memory_entry *entry)
{
    pal_ledger_row *row = &entry->row;

    leave_turn(tenant, entry);
    if (row->request_id.len > 0) {
        pal_map_remove(&tenant->requests, row->request_id);
        memset((char *)row->request_id.data, 0, row->request_id.len);
    }
    if (row->turn_id.len > 0)
        memset((char *)row->turn_id.data, 0, row->turn_id.len);
    row->request_id.len = 0;
    row->turn_id.len = 0;
    entry->next_session = NULL;
    entry->session = NULL;
}

static void values_free(pal_map *map)
{
    size_t position = 0;
    pal_str key;
    void *value;

    while (pal_map_next(map, &position, &key, &value))
        pal_free(value);
    pal_map_done(map);
}

void pal_memory_ledger_clear(memory_tenant *tenant)
{
    size_t position = 0;
    pal_str key;
    void *book;

    while (tenant->ledger) {
        memory_entry *entry = tenant->ledger;

        tenant->ledger = entry->next;
        pal_free(entry);
    }
    while (pal_map_next(&tenant->agents, &position, &key, &book))
        book_clear(book);
    values_free(&tenant->agents);
    values_free(&tenant->turns);
    book_clear(&tenant->book);
    pal_map_done(&tenant->requests);
}

/* ---- Sums ---- */

static bool is_wanted(const memory_entry *entry, const pal_ledger_query *query, uint64_t handle)
{
    const pal_ledger_row *row = &entry->row;

    if (handle != 0 && (!entry->session || entry->session->handle != handle))
        return false;
    if (query->turn_id.len > 0 && !pal_str_equal(row->turn_id, query->turn_id))
        return false;
    if (query->agent.len > 0 && !pal_str_equal(row->agent, query->agent))
        return false;
    return row->created_at >= query->from && row->created_at < query->to;
}

static void sum_session(
        const memory_session *session, const pal_ledger_query *query, pal_ledger_sum *sum)
{
    const memory_entry *entry = session ? session->ledger : NULL;

    for (; entry; entry = entry->next_session)
        if (is_wanted(entry, query, session->handle))
            sum_add_row(sum, &entry->row);
}

static void sum_turn(const memory_turn *turn, const pal_ledger_query *query, uint64_t handle,
        pal_ledger_sum *sum)
{
    for (const memory_entry *entry = turn ? turn->entries : NULL; entry; entry = entry->next_turn)
        if (is_wanted(entry, query, handle))
            sum_add_row(sum, &entry->row);
}

/* If only a part of an hour is requested, its entries are summed one by one. */
static void sum_hour(
        const memory_hour *hour, int which, const pal_ledger_query *query, pal_ledger_sum *sum)
{
    int64_t first = hour->hour * PAL_LEDGER_HOUR_MS;

    if (first >= query->from && first <= query->to - PAL_LEDGER_HOUR_MS) {
        sum_add(sum, &hour->sum);
        return;
    }
    if (first >= query->to || first <= query->from - PAL_LEDGER_HOUR_MS)
        return;
    for (const memory_entry *entry = hour->entries; entry; entry = entry->next_hour[which])
        if (is_wanted(entry, query, 0))
            sum_add_row(sum, &entry->row);
}

static void sum_book(
        const memory_book *book, int which, const pal_ledger_query *query, pal_ledger_sum *sum)
{
    size_t position = 0;
    pal_str key;
    void *hour;

    while (book && pal_map_next(&book->hours, &position, &key, &hour))
        sum_hour(hour, which, query, sum);
}

pal_status pal_memory_ledger_sum(pal_engine *base, const pal_ledger_query *query, pal_handle handle,
        pal_ledger_sum *out_sum, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    const memory_tenant *tenant;
    pal_ledger_sum sum = {0};

    (void)err;
    pthread_rwlock_rdlock(&engine->lock);
    tenant = pal_memory_tenant_find(engine, query->tenant);
    if (tenant && query->turn_id.len > 0)
        sum_turn(pal_map_find(&tenant->turns, query->turn_id), query, handle.number, &sum);
    else if (tenant && !pal_handle_is_none(handle))
        sum_session(pal_memory_session_by_handle(engine, handle.number), query, &sum);
    else if (tenant && query->agent.len > 0)
        sum_book(pal_map_find(&tenant->agents, query->agent), MEMORY_BOOK_AGENT, query, &sum);
    else if (tenant)
        sum_book(&tenant->book, MEMORY_BOOK_ALL, query, &sum);
    pthread_rwlock_unlock(&engine->lock);
    *out_sum = sum;
    return PAL_OK;
}

/* ---- Lists ---- */

/* The rows that a list can show, in any order. */
typedef struct memory_found {
    const memory_entry **entries;
    size_t len, cap;
} memory_found;

static bool is_before(const memory_entry *entry, const pal_ledger_place *before, uint64_t number)
{
    int64_t at = entry->row.created_at;

    return at < before->created_at || (at == before->created_at && entry->number < number);
}

static bool found_add(memory_found *found, const memory_entry *entry)
{
    if (found->len == found->cap) {
        size_t cap = found->cap ? 2 * found->cap : 64;
        const memory_entry **entries = pal_realloc(found->entries, cap * sizeof *entries);

        if (!entries)
            return false;
        found->entries = entries;
        found->cap = cap;
    }
    found->entries[found->len++] = entry;
    return true;
}

static uint64_t number_of_id(pal_id id)
{
    uint64_t number = 0;

    for (size_t i = 8; i < sizeof id.bytes; i++)
        number = number << 8 | id.bytes[i];
    return number;
}

static pal_id id_of_number(uint64_t number)
{
    pal_id id = {{0}};

    for (size_t i = sizeof id.bytes; i > 8; i--, number >>= 8)
        id.bytes[i - 1] = (uint8_t)number;
    return id;
}

static bool find_entries(const memory_tenant *tenant, const pal_ledger_query *query,
        pal_handle handle, const pal_ledger_place *before, memory_found *found)
{
    const memory_turn *turn = NULL;
    const memory_entry *entry = tenant->ledger;
    pal_ledger_query open_end = *query;
    uint64_t number = number_of_id(before->id);

    open_end.to = INT64_MAX;
    if (query->turn_id.len > 0) {
        turn = pal_map_find(&tenant->turns, query->turn_id);
        entry = turn ? turn->entries : NULL;
    }
    for (; entry; entry = turn ? entry->next_turn : entry->next)
        if (is_wanted(entry, &open_end, handle.number) && is_before(entry, before, number) &&
                !found_add(found, entry))
            return false;
    return true;
}

static int compare_newest_first(const void *a, const void *b)
{
    const memory_entry *one = *(const memory_entry *const *)a;
    const memory_entry *two = *(const memory_entry *const *)b;

    if (one->row.created_at != two->row.created_at)
        return one->row.created_at < two->row.created_at ? 1 : -1;
    return one->number < two->number ? 1 : -1;
}

static void entry_show(const memory_entry *entry, pal_arena *arena, pal_ledger_entry *out)
{
    pal_str *texts[] = {&out->row.request_id, &out->row.turn_id, &out->row.agent,
            &out->row.purpose, &out->row.provider, &out->row.model, &out->row.price_version};

    *out = (pal_ledger_entry){.id = id_of_number(entry->number), .row = entry->row};
    if (entry->session)
        out->session = entry->session->id;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = pal_arena_copy(arena, *texts[i]);
}

pal_status pal_memory_ledger_list(pal_engine *base, const pal_ledger_query *query,
        pal_handle handle, const pal_ledger_place *before, pal_arena *arena,
        pal_ledger_entry *out_entries, size_t entries_max, size_t *out_len, pal_error *err)
{
    memory_engine *engine = (memory_engine *)base;
    const memory_tenant *tenant;
    memory_found found = {0};
    bool is_done = true;

    pthread_rwlock_rdlock(&engine->lock);
    tenant = pal_memory_tenant_find(engine, query->tenant);
    if (tenant)
        is_done = find_entries(tenant, query, handle, before, &found);
    if (is_done && found.len > 0)
        qsort(found.entries, found.len, sizeof *found.entries, compare_newest_first);
    if (found.len > entries_max)
        found.len = entries_max;
    for (size_t i = 0; is_done && i < found.len; i++)
        entry_show(found.entries[i], arena, &out_entries[i]);
    pthread_rwlock_unlock(&engine->lock);
    pal_free(found.entries);
    if (!is_done)
        return pal_no_memory(err);
    *out_len = found.len;
    return pal_arena_checked(arena, err);
}
