/* store_list.c - lists of sessions: pages, the forks of a session, and families of forks. They run
 * on the caller's thread.
 *
 * A backend lists sessions by state, project, agent and time. The other conditions are checked
 * here, so that all backends agree. One call looks at a limited number of sessions. */
#include "palaver/store.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "palaver/limits.h"
#include "store/search/search_words.h"
#include "store/store_front.h"
#include "store/store_prepare.h"
#include "message/message_check.h"
#include "store/view/view.h"

/* ---- Titles ---- */

enum {
    TITLE_MESSAGES = 8, /* messages that are searched for the first user message */
    WALK_ROWS = 100,    /* sessions that a filtered list reads at a time, at least */
};

static pal_str first_text(const pal_message_page *messages)
{
    for (size_t i = 0; i < messages->len; i++) {
        const pal_message *message = &messages->items[i];

        for (size_t k = 0; message->role == PAL_ROLE_USER && k < message->parts_len; k++)
            if (message->parts[k].kind == PAL_PART_TEXT &&
                    pal_text_trim(message->parts[k].text).len > 0)
                return pal_text_trim(message->parts[k].text);
    }
    return (pal_str){0};
}

/* Makes one line of at most PAL_TITLE_CHARACTERS characters. It ends after a word if it is cut. */
static pal_str title_of(pal_str text, pal_arena *arena)
{
    static const char ellipsis[] = "\xe2\x80\xa6";
    char out[PAL_TITLE_CHARACTERS * 4 + sizeof(ellipsis)];
    size_t len = 0, at = 0, word = 0;

    for (int count = 0; at < text.len && count < PAL_TITLE_CHARACTERS - 1; count++) {
        uint32_t character;

        at += pal_utf8_decode(pal_str_make(text.data + at, text.len - at), &character);
        if (character > ' ' && character != 0x7f)
            len += pal_utf8_encode(character, out + len);
        else if (len > 0 && out[len - 1] != ' ')
            out[word = len++] = ' ';
        else
            count--;
    }
    if (at < text.len) {
        if (word > len / 2)
            len = word;
        memcpy(out + len, ellipsis, sizeof(ellipsis) - 1);
        len += sizeof(ellipsis) - 1;
    }
    return pal_arena_copy(arena, pal_text_trim(pal_str_make(out, len)));
}

static pal_status make_title(pal_engine *engine, const pal_session_row *row, pal_arena *arena,
        pal_str *out_title, pal_error *err)
{
    pal_message_query load = {.limit = TITLE_MESSAGES};
    pal_message_page messages = {0};
    pal_arena *scratch;
    pal_status status;

    *out_title = row->session.title;
    if (out_title->len > 0 || row->session.last_seq == 0)
        return PAL_OK;
    scratch = pal_arena_new(0);
    if (!scratch)
        return pal_no_memory(err);
    status = pal_view_load(engine, row, &load, scratch, &messages, err);
    if (status == PAL_OK)
        *out_title = title_of(first_text(&messages), arena);
    else if (status == PAL_CORRUPT)
        status = PAL_OK; /* a damaged session has no title */
    pal_arena_free(scratch);
    return status == PAL_OK ? pal_arena_checked(arena, err) : status;
}

pal_status pal_store_title(pal_store *store, const pal_session *session, pal_arena *arena,
        pal_str *out_title, pal_error *err)
{
    pal_session_row row;
    pal_status status = PAL_OK;

    if (session->title.len > 0 || session->last_seq == 0) {
        *out_title = session->title;
        return PAL_OK;
    }
    status = pal_view_session(store->engine, session->tenant, session->id, arena, &row, err);
    return status == PAL_OK ? make_title(store->engine, &row, arena, out_title, err) : status;
}

/* ---- Cursors ---- */

enum { CURSOR_SIZE = 44 + PAL_ID_TEXT_SIZE };

/* A cursor is "<updated_at>-<number>-<id>" of the last session on the previous page. */
static pal_status read_cursor(
        pal_str cursor, int64_t *out_ms, pal_handle *out_after, pal_error *err)
{
    char text[CURSOR_SIZE];
    long long ms;
    unsigned long long number;
    int end = 0;
    pal_id id;

    *out_ms = 0;
    *out_after = (pal_handle){0};
    if (cursor.len == 0)
        return PAL_OK;
    if (cursor.len < sizeof(text)) {
        memcpy(text, cursor.data, cursor.len);
        text[cursor.len] = 0;
        if (sscanf(text, "%lld-%llu-%n", &ms, &number, &end) == 2 && end > 0 && number > 0 &&
                pal_id_from_text(pal_str_make(text + end, cursor.len - (size_t)end), &id)) {
            *out_ms = ms;
            *out_after = (pal_handle){.number = number, .id = id};
            return PAL_OK;
        }
    }
    return pal_error_set(err, PAL_INVALID,
            "'cursor' is not valid; pass the cursor of the previous page");
}

static pal_str write_cursor(const pal_session_row *last, pal_arena *arena)
{
    char text[CURSOR_SIZE], id[PAL_ID_TEXT_SIZE];
    int len;

    pal_id_to_text(last->handle.id, id);
    len = snprintf(text, sizeof(text), "%lld-%llu-%s", (long long)last->session.updated_at,
            (unsigned long long)last->handle.number, id);

    return pal_arena_copy(arena, pal_str_make(text, (size_t)len));
}

/* ---- Pages ---- */

static pal_status check_query(pal_session_query *query, pal_error *err)
{
    if (query->state == PAL_SESSION_NONE)
        query->state = PAL_SESSION_ACTIVE;
    if (query->state > PAL_SESSION_QUARANTINED)
        return pal_error_set(
                err, PAL_INVALID, "'state' must be a state of sessions that can be listed");
    if (query->limit == 0)
        query->limit = PAL_SESSION_PAGE_DEFAULT;
    if (query->limit > PAL_SESSION_PAGE_MAX)
        return pal_error_set(err, PAL_LIMIT, "a page of %u sessions exceeds the limit of %d",
                query->limit, PAL_SESSION_PAGE_MAX);
    return pal_tenant_check(&query->tenant, err);
}

/* A page while it is made. */
typedef struct listing {
    pal_store *store;
    const pal_session_query *query;
    pal_query words; /* len 0: any title and key */
    pal_arena *arena;
    pal_session_row *rows; /* room for one more than the limit */
    size_t len;
} listing;

static bool has_words(const listing *list, pal_str text)
{
    size_t ignored;
    pal_buf normal;
    bool matches;

    pal_buf_init(&normal, SIZE_MAX / 4);
    pal_words_normal(text, &normal);
    matches = normal.failure == PAL_OK &&
            pal_words_query_match(&list->words, pal_buf_str(&normal), &ignored);
    pal_buf_done(&normal);
    return matches;
}

/* Returns whether the row belongs to the page, and sets its title. */
static pal_status check_row(listing *list, pal_session_row *row, bool *out_matches, pal_error *err)
{
    const pal_session_query *query = list->query;
    pal_session *session = &row->session;
    pal_str title = session->title;
    pal_status status = PAL_OK;

    *out_matches = !query->root_only || pal_id_is_none(session->parent_id);
    if (*out_matches && (query->titled || list->words.len > 0))
        status = make_title(list->store->engine, row, list->arena, &title, err);
    if (status == PAL_OK && *out_matches && list->words.len > 0)
        *out_matches = has_words(list, title) || has_words(list, session->key);
    if (query->titled)
        session->title = title;
    return status;
}

static pal_status take_row(listing *list, pal_session_row *row, pal_error *err)
{
    bool matches;
    pal_status status = check_row(list, row, &matches, err);

    if (status == PAL_OK && matches)
        list->rows[list->len++] = *row;
    return status;
}

/* Looks at pages of the backend until the page is full, or enough sessions were looked at. Then
 * *out_last is the last one; number 0: there are no more. */
static pal_status walk(listing *list, int64_t after_ms, pal_handle after,
        pal_session_row *out_last, pal_error *err)
{
    const pal_store_backend *backend = list->store->engine->backend;
    bool filters = list->words.len > 0 || list->query->root_only;
    size_t wanted = list->query->limit + 1, looked = 0;
    size_t batch = filters && wanted < WALK_ROWS ? WALK_ROWS : wanted, len = batch;
    pal_session_row *rows = pal_arena_array(list->arena, batch, sizeof(*rows));

    if (!rows)
        return pal_no_memory(err);
    while (list->len < wanted && len == batch) {
        pal_status status = PAL_OK;

        if (looked >= PAL_SESSION_LOOKS_MAX) {
            *out_last = rows[batch - 1];
            return PAL_OK;
        }
        status = backend->session_list(list->store->engine, list->query, after_ms, after,
                list->arena, rows, batch, &len, err);
        for (size_t i = 0; status == PAL_OK && i < len && list->len < wanted; i++)
            status = take_row(list, &rows[i], err);
        if (status != PAL_OK || !filters)
            return status;
        looked += len;
        if (len > 0) {
            after_ms = rows[len - 1].session.updated_at;
            after = rows[len - 1].handle;
        }
    }
    return PAL_OK;
}

/* ---- Forks of one session ---- */

static int compare_rows(const void *left, const void *right)
{
    const pal_session_row *a = left, *b = right;

    if (a->session.updated_at != b->session.updated_at)
        return a->session.updated_at < b->session.updated_at ? 1 : -1;
    return (a->handle.number < b->handle.number) - (a->handle.number > b->handle.number);
}

static bool is_wanted(const pal_session_query *query, const pal_session *session, int64_t now_ms)
{
    return session->state == query->state &&
            (session->expires_at == 0 || now_ms <= session->expires_at) &&
            (query->project.len == 0 || pal_str_equal(query->project, session->project)) &&
            (query->agent.len == 0 || pal_str_equal(query->agent, session->agent)) &&
            session->updated_at >= query->updated_from &&
            (query->updated_to == 0 || session->updated_at < query->updated_to);
}

static pal_status find_row(pal_store *store, pal_str tenant, pal_id id, pal_arena *arena,
        pal_session_row *out_row, pal_error *err)
{
    pal_str name = pal_str_make((const char *)id.bytes, sizeof(id.bytes));

    return store->engine->backend->session_find(
            store->engine, tenant, PAL_SESSION_BY_ID, name, arena, out_row, err);
}

static pal_status list_forks(listing *list, int64_t after_ms, pal_handle after, pal_error *err)
{
    pal_store *store = list->store;
    const pal_session_query *query = list->query;
    int64_t now_ms = pal_store_now_ms(store->engine);
    pal_session_row *rows, last = {.session.updated_at = after_ms, .handle = after};
    size_t ids_len, len = 0;
    pal_handle parent;
    pal_id *ids;
    pal_status status = pal_store_handle(store, query->tenant, query->parent, &parent, err);

    if (status == PAL_OK)
        status = store->engine->backend->fork_list(
                store->engine, parent, 0, list->arena, &ids, &ids_len, err);
    if (status != PAL_OK)
        return status;
    if (ids_len > PAL_FAMILY_MAX)
        return pal_error_set(err, PAL_LIMIT, "the session has %zu forks, more than %d", ids_len,
                PAL_FAMILY_MAX);
    rows = pal_arena_array(list->arena, ids_len + 1, sizeof(*rows));
    if (!rows)
        return pal_no_memory(err);
    for (size_t i = 0; i < ids_len; i++) {
        status = find_row(store, query->tenant, ids[i], list->arena, &rows[len], err);
        if (status == PAL_OK && is_wanted(query, &rows[len].session, now_ms))
            len++;
        else if (status != PAL_OK && status != PAL_NOT_FOUND)
            return status;
    }
    qsort(rows, len, sizeof(*rows), compare_rows);
    status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < len && list->len <= query->limit; i++)
        if (after.number == 0 || compare_rows(&last, &rows[i]) < 0)
            status = take_row(list, &rows[i], err);
    return status;
}

pal_status pal_store_list(pal_store *store, const pal_session_query *query, pal_arena *arena,
        pal_session_page *out_page, pal_error *err)
{
    pal_session_query checked = *query;
    listing list = {.store = store, .query = &checked, .arena = arena};
    pal_session_row last = {0};
    pal_session_page page = {0};
    pal_handle after;
    int64_t after_ms;
    pal_status status = check_query(&checked, err);

    if (status == PAL_OK)
        status = read_cursor(query->cursor, &after_ms, &after, err);
    if (status == PAL_OK && query->text.len > 0)
        status = pal_words_query_read(query->text, arena, &list.words, err);
    if (status != PAL_OK)
        return status;
    list.rows = pal_arena_array(arena, checked.limit + 1, sizeof(*list.rows));
    page.sessions = pal_arena_array(arena, checked.limit, sizeof(*page.sessions));
    if (!list.rows || !page.sessions)
        return pal_no_memory(err);
    status = pal_id_is_none(query->parent) ? walk(&list, after_ms, after, &last, err)
                                           : list_forks(&list, after_ms, after, err);
    if (status != PAL_OK)
        return status;
    page.sessions_len = list.len < checked.limit ? list.len : checked.limit;
    for (size_t i = 0; i < page.sessions_len; i++)
        page.sessions[i] = list.rows[i].session;
    if (list.len > checked.limit)
        page.cursor = write_cursor(&list.rows[checked.limit - 1], arena);
    else if (last.handle.number > 0)
        page.cursor = write_cursor(&last, arena);
    *out_page = page;
    return PAL_OK;
}

/* ---- Families ---- */

static pal_status find_root(pal_store *store, pal_str tenant, pal_id id, pal_arena *arena,
        pal_session_row *out_root, pal_error *err)
{
    pal_session_row up;
    pal_status status = pal_view_session(store->engine, tenant, id, arena, out_root, err);

    for (size_t depth = 0; status == PAL_OK && depth < PAL_FORK_DEPTH_MAX; depth++) {
        if (pal_id_is_none(out_root->session.parent_id))
            return PAL_OK;
        status = find_row(store, tenant, out_root->session.parent_id, arena, &up, err);
        if (status == PAL_NOT_FOUND)
            return PAL_OK;
        if (status == PAL_OK)
            *out_root = up;
    }
    return status;
}

/* Adds the forks of one session. An erased session is kept, because it can have forks. */
static pal_status add_forks(pal_store *store, pal_str tenant, const pal_session_row *of,
        pal_session_row *rows, size_t *len, bool *out_more, pal_arena *arena, pal_error *err)
{
    size_t ids_len;
    pal_id *ids;
    pal_handle handle = of->handle;
    pal_status status;

    handle.tenant = tenant;
    status = store->engine->backend->fork_list(
            store->engine, handle, 0, arena, &ids, &ids_len, err);
    for (size_t i = 0; status == PAL_OK && i < ids_len; i++) {
        if (*len == PAL_FAMILY_MAX) {
            *out_more = true;
            return PAL_OK;
        }
        status = find_row(store, tenant, ids[i], arena, &rows[*len], err);
        *len += status == PAL_OK;
        if (status == PAL_NOT_FOUND)
            status = PAL_OK;
    }
    return status;
}

pal_status pal_store_family(pal_store *store, pal_str tenant, pal_id session, pal_arena *arena,
        pal_session **out_sessions, size_t *out_len, bool *out_more, pal_error *err)
{
    pal_session_row *rows = pal_arena_array(arena, PAL_FAMILY_MAX, sizeof(*rows));
    pal_session *sessions = pal_arena_array(arena, PAL_FAMILY_MAX, sizeof(*sessions));
    size_t len = 1, kept = 0;
    bool more = false;
    pal_status status = pal_tenant_check(&tenant, err);

    if (status != PAL_OK)
        return status;
    if (!rows || !sessions)
        return pal_no_memory(err);
    status = find_root(store, tenant, session, arena, &rows[0], err);
    for (size_t i = 0; status == PAL_OK && i < len && !more; i++)
        status = add_forks(store, tenant, &rows[i], rows, &len, &more, arena, err);
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < len; i++)
        if (rows[i].session.state != PAL_SESSION_ERASED)
            sessions[kept++] = rows[i].session;
    *out_sessions = sessions;
    *out_len = kept;
    *out_more = more;
    return PAL_OK;
}
