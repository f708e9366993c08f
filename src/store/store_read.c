/* store_read.c - the reading functions of the front. They run on the caller's thread. */
#include "palaver/store.h"
#include "palaver/store_marks.h"
#include "palaver/store_records.h"
#include "palaver/store_turns.h"

#include <stdio.h>

#include "base/digest.h"
#include "base/memory.h"
#include "base/text.h"
#include "message/message_check.h"
#include "palaver/limits.h"
#include "store/cache/cache.h"
#include "store/store_front.h"
#include "store/store_prepare.h"
#include "store/store_snapshot.h"
#include "store/view/view.h"
#include "store/view/view_chain.h"
#include "store/view/view_active_marks.h"

pal_status pal_store_handle(
        pal_store *store, pal_str tenant, pal_id id, pal_handle *out_handle, pal_error *err)
{
    pal_session_row row = {0};
    pal_arena *arena;
    pal_status status;

    *out_handle = (pal_handle){0};
    if (pal_id_is_none(id))
        return PAL_OK;
    arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    status = pal_view_session(store->engine, tenant, id, arena, &row, err);
    if (status == PAL_OK) {
        *out_handle = row.handle;
        out_handle->tenant = tenant;
    }
    pal_arena_free(arena);
    return status;
}

static bool has_expired(const pal_store *store, const pal_session *session)
{
    return session->expires_at != 0 && pal_store_now_ms(store->engine) > session->expires_at;
}

static pal_status find_by_name(pal_store *store, pal_str tenant, pal_session_by by, pal_str name,
        pal_arena *arena, pal_session *out_session, pal_error *err)
{
    pal_session_row row;
    pal_status status =
            store->engine->backend->session_find(store->engine, tenant, by, name, arena, &row, err);

    if (status == PAL_OK && has_expired(store, &row.session))
        status = PAL_NOT_FOUND;
    if (status == PAL_OK)
        *out_session = row.session;
    return status;
}

pal_status pal_store_find(pal_store *store, pal_str tenant, pal_session_by by, pal_str name,
        pal_arena *arena, pal_session *out_session, pal_error *err)
{
    pal_status status = pal_tenant_check(&tenant, err);
    pal_session_row row;
    pal_id id;

    if (status != PAL_OK)
        return status;
    if (name.len == 0 || name.len > PAL_KEY_LEN_MAX)
        return pal_error_set(err, PAL_INVALID, "a session's name must have 1 to %d bytes, not %zu",
                PAL_KEY_LEN_MAX, name.len);
    status = PAL_NOT_FOUND;
    if ((by == PAL_SESSION_BY_ID || by == PAL_SESSION_BY_ANY) && pal_id_from_text(name, &id)) {
        status = pal_view_session(store->engine, tenant, id, arena, &row, err);
        if (status == PAL_OK)
            *out_session = row.session;
    }
    if (status == PAL_NOT_FOUND && (by == PAL_SESSION_BY_KEY || by == PAL_SESSION_BY_ANY))
        status = find_by_name(store, tenant, PAL_SESSION_BY_KEY, name, arena, out_session, err);
    if (status == PAL_NOT_FOUND && (by == PAL_SESSION_BY_ALIAS || by == PAL_SESSION_BY_ANY))
        status = find_by_name(store, tenant, PAL_SESSION_BY_ALIAS, name, arena, out_session, err);
    if (status == PAL_NOT_FOUND)
        pal_error_set(err, PAL_NOT_FOUND, "session '%.*s' does not exist", PAL_EXCERPT(name, 160));
    return status;
}

/* ---- Messages and their marks, inbox and lease ---- */

static pal_status load_from_memory(pal_store *store, pal_str tenant, pal_id session,
        const pal_message_query *load, pal_arena *arena, pal_message_page *out_messages,
        pal_error *err)
{
    pal_engine *memory = pal_cache_memory(store->engine);
    pal_session_row row;
    pal_status status = pal_tenant_check(&tenant, err);

    if (status == PAL_OK && !memory)
        return pal_error_set(err, PAL_BUSY, "the store keeps nothing in memory");
    if (status == PAL_OK)
        status = pal_view_session(memory, tenant, session, arena, &row, err);
    if (status == PAL_OK)
        status = pal_view_load(memory, &row, load, arena, out_messages, err);
    return status;
}

pal_status pal_store_load(pal_store *store, pal_str tenant, pal_id session,
        const pal_message_query *load, pal_arena *arena, pal_message_page *out_messages,
        pal_error *err)
{
    static const pal_message_query everything = {0};
    bool is_tail = load && load->from_end && load->limit > 0 && load->before_seq == 0;
    pal_ahead_wants wants = {.rows_max = is_tail ? load->limit + 1 : 0, .is_brief = true};
    pal_snapshot snapshot;
    pal_status status;

    if (load && load->only_memory)
        return load_from_memory(store, tenant, session, load, arena, out_messages, err);
    status = pal_snapshot_begin_ahead(store, tenant, session, &wants, arena, &snapshot, err);
    if (status == PAL_OK)
        status = pal_snapshot_load(&snapshot, load ? load : &everything, arena, out_messages, err);
    return status;
}

pal_status pal_store_count(pal_store *store, pal_str tenant, pal_id session, uint64_t after_seq,
        uint64_t before_seq, uint64_t *out_count, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_snapshot snapshot;
    pal_status status;

    if (!arena)
        return pal_no_memory(err);
    status = pal_snapshot_begin(store, tenant, session, arena, &snapshot, err);
    if (status == PAL_OK)
        status = pal_snapshot_count(&snapshot, after_seq, before_seq, out_count, err);
    pal_arena_free(arena);
    return status;
}

pal_status pal_store_message(pal_store *store, pal_str tenant, pal_id id, pal_arena *arena,
        pal_message *out_message, pal_id *out_session, pal_error *err)
{
    pal_row_key key = {.id = id, .tenant = tenant};
    pal_row row;
    pal_id session;
    pal_status status = pal_tenant_check(&key.tenant, err);

    if (status != PAL_OK)
        return status;
    status = store->engine->backend->row_find(store->engine, &key, arena, &row, &session, err);
    if (status == PAL_NOT_FOUND) {
        char text[PAL_ID_TEXT_SIZE];

        pal_id_to_text(id, text);
        return pal_error_set(err, PAL_NOT_FOUND, "message '%s' does not exist", text);
    }
    if (status == PAL_OK)
        status = pal_view_decode(&row, arena, out_message, err);
    if (status == PAL_OK && out_session)
        *out_session = session;
    return status;
}

pal_status pal_store_find_client_id(pal_store *store, pal_str tenant, pal_id session,
        pal_str client_id, pal_arena *arena, pal_message *out_message, pal_error *err)
{
    pal_snapshot snapshot;
    pal_status status = pal_snapshot_begin(store, tenant, session, arena, &snapshot, err);

    if (status != PAL_OK)
        return status;
    return pal_snapshot_find_client_id(&snapshot, client_id, arena, out_message, err);
}

pal_status pal_store_marks(pal_store *store, pal_str tenant, pal_id session, pal_arena *arena,
        pal_mark **out_marks, size_t *out_len, pal_error *err)
{
    pal_snapshot snapshot;
    pal_status status = pal_snapshot_begin(store, tenant, session, arena, &snapshot, err);

    if (status == PAL_OK)
        status = pal_view_marks(store->engine, &snapshot.row, PAL_MARKS_WHOLE, arena, out_marks,
                out_len, err);
    return status;
}

pal_status pal_store_active_marks(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_active_marks *out_active, pal_error *err)
{
    pal_snapshot snapshot;
    pal_status status = pal_snapshot_begin(store, tenant, session, arena, &snapshot, err);

    if (status == PAL_OK)
        status = pal_snapshot_active_marks(&snapshot, arena, out_active, err);
    return status;
}

/* Finds a mark among those in effect. Numbers of different parents can be equal. */
static bool is_same(const pal_mark *mark, const pal_mark *active)
{
    return mark->number == active->number && mark->kind == active->kind &&
            mark->inherited == active->inherited && mark->seq == active->seq &&
            mark->created_at == active->created_at;
}

/* Returns whether the pin is the newest one of a pinned message. The marks after it are `later`. */
static bool pin_stands(const pal_active_marks *active, const pal_mark *pin, const pal_mark *later,
        size_t later_len)
{
    for (size_t i = 0; i < later_len; i++)
        if (later[i].kind == PAL_MARK_PIN && !later[i].undone && later[i].seq == pin->seq)
            return false;
    for (size_t i = 0; i < active->pins_len; i++)
        if (active->pins[i] == pin->seq)
            return true;
    return false;
}

static bool mark_stands(const pal_active_marks *active, const pal_mark *mark,
        const pal_mark *later, size_t later_len)
{
    if (mark->undone)
        return false;
    switch (mark->kind) {
    case PAL_MARK_CHECKPOINT:
        return is_same(mark, &active->checkpoint);
    case PAL_MARK_EPOCH:
        return is_same(mark, &active->epoch);
    case PAL_MARK_PRUNE:
        for (size_t i = 0; i < active->prunes_len; i++)
            if (is_same(mark, &active->prunes[i]))
                return true;
        return false;
    case PAL_MARK_PIN:
        return pin_stands(active, mark, later, later_len);
    default:
        return true;
    }
}

/* Reads the body of one mark of the session. */
static pal_status read_body(const pal_snapshot *snapshot, pal_arena *arena, pal_mark *mark,
        pal_error *err)
{
    pal_engine *engine = snapshot->store->engine;
    pal_mark_scan scan = {.handle = snapshot->row.handle,
            .first = mark->number,
            .last = mark->number,
            .wanted = PAL_MARKS_WHOLE};
    pal_mark *found;
    size_t len;
    pal_status status = pal_cache_mark_list(engine, &scan, arena, &found, &len, err);

    if (status == PAL_OK && len > 0)
        mark->body = found[0].body;
    return status;
}

/* Selects the page in a list of all marks. Returns its first mark. */
static size_t select_marks(const pal_mark_query *query, const pal_mark *marks, size_t len,
        pal_mark_page *page)
{
    size_t first = query->after < len ? (size_t)query->after : len;

    if (query->number > 0) {
        for (first = 0; first < len; first++)
            if (marks[first].number == query->number && !marks[first].inherited)
                break;
        page->len = first < len;
        return first;
    }
    page->len = len - first;
    if (query->limit > 0 && page->len > query->limit)
        page->len = query->limit;
    page->has_more = first + page->len < len;
    return first;
}

pal_status pal_store_mark_page(pal_store *store, pal_str tenant, pal_id session,
        const pal_mark_query *query, pal_arena *arena, pal_mark_page *out_page, pal_error *err)
{
    bool whole = query->bodies && query->number == 0;
    pal_mark_page page = {0};
    pal_active_marks active;
    pal_snapshot snapshot;
    pal_mark *marks;
    size_t len, first;
    pal_status status = pal_snapshot_begin(store, tenant, session, arena, &snapshot, err);

    if (status == PAL_OK)
        status = pal_view_marks(store->engine, &snapshot.row,
                whole ? PAL_MARKS_WHOLE : PAL_MARKS_BRIEF, arena, &marks, &len, err);
    if (status == PAL_OK)
        status = pal_snapshot_active_marks(&snapshot, arena, &active, err);
    if (status != PAL_OK)
        return status;
    first = select_marks(query, marks, len, &page);
    if (query->number > 0 && page.len == 0)
        return pal_error_set(err, PAL_NOT_FOUND, "the session has no mark %llu",
                (unsigned long long)query->number);
    page.items = page.len > 0 ? marks + first : NULL;
    page.standing = pal_arena_array(arena, page.len + 1, sizeof(*page.standing));
    if (!page.standing)
        return pal_no_memory(err);
    for (size_t i = 0; i < page.len; i++)
        page.standing[i] = mark_stands(
                &active, &page.items[i], &page.items[i] + 1, len - first - i - 1);
    if (query->number > 0)
        status = read_body(&snapshot, arena, &page.items[0], err);
    if (status == PAL_OK)
        *out_page = page;
    return status;
}

pal_status pal_store_inbox_list(pal_store *store, pal_str tenant, pal_id session, pal_arena *arena,
        pal_inbox_item **out_items, size_t *out_len, pal_error *err)
{
    pal_snapshot snapshot;
    pal_status status = pal_snapshot_begin(store, tenant, session, arena, &snapshot, err);

    if (status == PAL_OK)
        status = pal_snapshot_inbox_list(&snapshot, arena, out_items, out_len, err);
    return status;
}

pal_status pal_store_lease_find(pal_store *store, pal_str tenant, pal_id session, pal_arena *arena,
        pal_lease *out_lease, pal_error *err)
{
    pal_snapshot snapshot;
    pal_lease lease;
    pal_status status = pal_snapshot_begin(store, tenant, session, arena, &snapshot, err);

    if (status != PAL_OK)
        return status;
    status = pal_snapshot_lease(&snapshot, arena, &lease, err);
    if (status == PAL_OK &&
            (lease.owner.len == 0 ||
                    !pal_lease_is_held(lease.expires_at, lease.ttl_ms,
                            pal_store_now_ms(store->engine))))
        status = PAL_NOT_FOUND;
    if (status == PAL_NOT_FOUND)
        return pal_error_set(err, PAL_NOT_FOUND, "the session has no active lease");
    if (status == PAL_OK)
        *out_lease = lease;
    return status;
}

pal_status pal_store_inbox_owners(pal_store *store, const pal_inbox_owner *after, uint32_t limit,
        pal_arena *arena, pal_inbox_owner **out_owners, size_t *out_len, pal_error *err)
{
    static const pal_inbox_owner before_all;
    pal_inbox_owner *owners;
    pal_status status;

    if (limit > PAL_INBOX_OWNERS_MAX)
        return pal_error_set(err, PAL_LIMIT, "a page of %u sessions exceeds the limit of %d", limit,
                PAL_INBOX_OWNERS_MAX);
    if (limit == 0)
        limit = PAL_INBOX_OWNERS_MAX;
    owners = pal_arena_array(arena, limit, sizeof(*owners));
    if (!owners)
        return pal_no_memory(err);
    status = store->engine->backend->inbox_owners(store->engine, after ? after : &before_all,
            pal_store_now_ms(store->engine), arena, owners, limit, out_len, err);
    if (status == PAL_OK)
        *out_owners = owners;
    return status;
}

static pal_status blob_hash(pal_str name, uint8_t out_hash[PAL_SHA256_SIZE], pal_error *err)
{
    if (name.len != PAL_BLOB_NAME_LEN || memcmp(name.data, "sha256:", 7) != 0 ||
            !pal_unhex(pal_str_make(name.data + 7, 64), out_hash, PAL_SHA256_SIZE))
        return pal_error_set(err, PAL_INVALID, "a blob's name must be 'sha256:' and 64 hex digits");
    return PAL_OK;
}

/* If `arena` is NULL, only the length is read. */
static pal_status blob_get(pal_store *store, pal_str tenant, pal_str name, pal_arena *arena,
        pal_blob_row *out_blob, pal_error *err)
{
    uint8_t hash[PAL_SHA256_SIZE];
    pal_status status = pal_tenant_check(&tenant, err);

    if (status != PAL_OK)
        return status;
    status = blob_hash(name, hash, err);
    if (status != PAL_OK)
        return status;
    status = store->engine->backend->blob_get(store->engine, tenant, hash, arena, out_blob, err);
    if (status == PAL_NOT_FOUND)
        return pal_error_set(err, PAL_NOT_FOUND, "blob '%.*s' does not exist", PAL_STR_ARG(name));
    return status;
}

pal_status pal_store_blob_get(pal_store *store, pal_str tenant, pal_str name, pal_arena *arena,
        pal_str *out_media_type, pal_str *out_data, pal_error *err)
{
    pal_blob_row blob;
    pal_status status = blob_get(store, tenant, name, arena, &blob, err);

    if (status != PAL_OK)
        return status;
    *out_media_type = blob.media_type;
    *out_data = blob.data;
    return PAL_OK;
}

pal_status pal_store_blob_size(
        pal_store *store, pal_str tenant, pal_str name, uint64_t *out_bytes, pal_error *err)
{
    pal_blob_row blob;
    pal_status status = blob_get(store, tenant, name, NULL, &blob, err);

    if (status == PAL_OK)
        *out_bytes = blob.bytes;
    return status;
}
