/* store_record.c - records in the front: their checks, and the functions that read and write
 * them. */
#include "base/memory.h"
#include "message/message_check.h"
#include "palaver/store_batch.h"
#include "palaver/store_records.h"
#include "store/store_front.h"
#include "store/store_prepare.h"

/* ---- Checks ---- */

static pal_status check_name(pal_str kind, pal_str name, pal_error *err)
{
    pal_status status;

    if (kind.len == 0 || name.len == 0)
        return pal_error_set(err, PAL_INVALID, "a record requires a kind and a name");
    status = pal_text_check(kind, "kind", PAL_RECORD_KIND_LEN_MAX, true, err);
    if (status == PAL_OK)
        status = pal_text_check(name, "name", PAL_RECORD_NAME_LEN_MAX, true, err);
    return status;
}

pal_status pal_record_check(const pal_op *op, pal_error *err)
{
    const pal_record *record = op->u.record.record;
    pal_status status;

    if (!record)
        return pal_error_set(err, PAL_INVALID, "the operation has no record");
    if (op->fence != 0 && pal_id_is_none(op->session))
        return pal_error_set(err, PAL_INVALID, "a fence requires the session that it belongs to");
    status = check_name(record->kind, record->name, err);
    if (status != PAL_OK || op->kind == PAL_OP_RECORD_DROP)
        return status;
    if (record->expires_at < 0)
        return pal_error_set(err, PAL_INVALID, "'expires_at' is before 1970");
    return pal_value_check(record->body, "body", PAL_RECORD_BODY_LEN_MAX, err);
}

/* Error messages have no room for a longer name. */
static pal_str brief(pal_str name)
{
    return pal_str_make(name.data, name.len < 100 ? name.len : 100);
}

pal_status pal_record_check_version(pal_work *work, uint64_t version)
{
    pal_str name = brief(work->op->u.record.record->name);
    uint64_t expected = work->op->u.record.expected_version;

    if (expected == PAL_RECORD_VERSION_ANY || expected == version)
        return PAL_OK;
    if (version == 0)
        return pal_error_set(&work->op->error, PAL_CONFLICT,
                "record '%.*s' does not exist, but version %llu was expected", PAL_STR_ARG(name),
                (unsigned long long)expected);
    if (expected == 0)
        return pal_error_set(&work->op->error, PAL_CONFLICT,
                "record '%.*s' already exists with version %llu", PAL_STR_ARG(name),
                (unsigned long long)version);
    return pal_error_set(&work->op->error, PAL_CONFLICT,
            "record '%.*s' has version %llu, not %llu", PAL_STR_ARG(name),
            (unsigned long long)version, (unsigned long long)expected);
}

static pal_status not_found(pal_str kind, pal_str name, pal_error *err)
{
    return pal_error_set(err, PAL_NOT_FOUND, "record '%.*s' of kind '%.*s' does not exist",
            PAL_STR_ARG(brief(name)), PAL_STR_ARG(kind));
}

pal_status pal_record_missing(pal_work *work)
{
    const pal_record *record = work->op->u.record.record;

    return not_found(record->kind, record->name, &work->op->error);
}

/* ---- Writing ---- */

pal_status pal_store_record_put(pal_store *store, pal_str tenant, pal_record *record,
        uint64_t expected_version, pal_error *err)
{
    pal_op op = pal_op_record_put(tenant, record, expected_version);

    return pal_store_apply_one(store, &op, err);
}

pal_status pal_store_record_drop(
        pal_store *store, pal_str tenant, pal_str kind, pal_str name, pal_error *err)
{
    pal_record record = {.kind = kind, .name = name};
    pal_op op = pal_op_record_drop(tenant, &record);

    return pal_store_apply_one(store, &op, err);
}

/* ---- Reading ---- */

pal_status pal_store_record_find(pal_store *store, pal_str tenant, pal_str kind, pal_str name,
        pal_arena *arena, pal_record *out_record, pal_error *err)
{
    pal_record_scan scan = {.tenant = tenant,
            .kind = kind,
            .name = name,
            .now_ms = pal_store_now_ms(store->engine),
            .records_max = 1};
    pal_record record;
    size_t len = 0;
    pal_status status = pal_tenant_check(&scan.tenant, err);

    if (status != PAL_OK)
        return status;
    status = check_name(kind, name, err);
    if (status != PAL_OK)
        return status;
    status = store->engine->backend->record_list(store->engine, &scan, arena, &record, &len, err);
    if (status != PAL_OK)
        return status;
    if (len == 0)
        return not_found(kind, name, err);
    *out_record = record;
    return PAL_OK;
}

static pal_status check_query(pal_record_query *query, pal_error *err)
{
    pal_status status;

    if (query->limit == 0)
        query->limit = PAL_RECORD_PAGE_DEFAULT;
    if (query->limit > PAL_RECORD_PAGE_MAX)
        return pal_error_set(err, PAL_LIMIT, "a page of %u records exceeds the limit of %d",
                query->limit, PAL_RECORD_PAGE_MAX);
    if (query->kind.len == 0)
        return pal_error_set(
                err, PAL_INVALID, "'kind' is missing; records are listed by kind");
    status = pal_tenant_check(&query->tenant, err);
    if (status == PAL_OK)
        status = pal_text_check(query->kind, "kind", PAL_RECORD_KIND_LEN_MAX, true, err);
    if (status == PAL_OK)
        status = pal_text_check(query->after, "after", PAL_RECORD_NAME_LEN_MAX, true, err);
    return status;
}

pal_status pal_store_record_list(pal_store *store, const pal_record_query *query, pal_arena *arena,
        pal_record_page *out_records, pal_error *err)
{
    pal_record_query checked = *query;
    pal_record_scan scan;
    pal_record *records;
    pal_handle handle = {0};
    size_t len = 0;
    pal_status status = check_query(&checked, err);

    if (status == PAL_OK)
        status = pal_store_handle(store, checked.tenant, checked.session, &handle, err);
    if (status != PAL_OK)
        return status;
    records = pal_arena_array(arena, checked.limit + 1, sizeof(*records));
    if (!records)
        return pal_no_memory(err);
    scan = (pal_record_scan){.tenant = checked.tenant,
            .kind = checked.kind,
            .handle = handle,
            .after = checked.after,
            .descending = checked.descending,
            .now_ms = pal_store_now_ms(store->engine),
            .records_max = checked.limit + 1};
    status = store->engine->backend->record_list(store->engine, &scan, arena, records, &len, err);
    if (status == PAL_OK)
        *out_records = (pal_record_page){.items = records,
                .len = len < checked.limit ? len : checked.limit,
                .has_more = len > checked.limit};
    return status;
}
