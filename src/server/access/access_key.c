/* access_key.c - API keys as records: writing, creating, finding, listing and revoking them.
 *
 * The records belong to a tenant whose name contains a control character. pal_key_tenant_check()
 * refuses such names, and it checks every tenant of a request or of a key. Records of keys are
 * never removed, so a server that ever had a key never becomes open again. */
#include "server/access/access_key.h"

#include <stdio.h>
#include "base/clock.h"
#include "base/digest.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "base/utf8.h"
#include "dialect/dialect_member.h"

#define KIND "key"
#define DIGEST_TEXT_SIZE (2 * PAL_SHA256_SIZE + 1)
#define ID_DIGITS 16
#define ID_PREFIX "key_"
#define ID_SIZE (sizeof ID_PREFIX + ID_DIGITS)
#define BODY_MAX 8192
#define TRIES 8 /* attempts, if others write the same record at the same time */

static const char *const role_names[] = {
        [PAL_KEY_NONE] = "none",
        [PAL_KEY_METRICS] = "metrics",
        [PAL_KEY_READ] = "read",
        [PAL_KEY_WRITE] = "write",
        [PAL_KEY_ADMIN] = "admin",
};

const char *pal_key_role_name(pal_key_role role)
{
    return role_names[role];
}

pal_key_role pal_key_role_from_name(pal_str name)
{
    for (pal_key_role role = PAL_KEY_METRICS; role <= PAL_KEY_ADMIN; role++) {
        if (pal_str_is(name, role_names[role]))
            return role;
    }
    return PAL_KEY_NONE;
}

pal_status pal_key_tenant_check(pal_str tenant, pal_error *err)
{
    if (tenant.len == 0)
        return pal_error_set(err, PAL_INVALID, "the tenant's name is empty");
    if (tenant.len > PAL_TENANT_LEN_MAX)
        return pal_error_set(err, PAL_LIMIT,
                "the tenant's name of %zu bytes exceeds the limit of %d", tenant.len,
                PAL_TENANT_LEN_MAX);
    if (!pal_utf8_is_valid(tenant))
        return pal_error_set(err, PAL_INVALID, "the tenant's name is not valid UTF-8");
    for (size_t i = 0; i < tenant.len; i++) {
        unsigned char c = (unsigned char)tenant.data[i];
        if (c < 0x20 || c == 0x7f)
            return pal_error_set(err, PAL_INVALID, "the tenant's name has a control character");
    }
    return PAL_OK;
}

/* ---- The record ---- */

static void put_time(pal_json_writer *writer, const char *name, int64_t ms)
{
    char text[PAL_TIME_TEXT_SIZE];
    pal_json_name(writer, name);
    if (ms == 0) {
        pal_json_put_null(writer);
        return;
    }
    pal_time_to_text(ms, text);
    pal_json_put_text(writer, text);
}

void pal_key_put(const pal_key *key, const char *secret, pal_json_writer *writer)
{
    pal_json_begin_object(writer);
    pal_put_str(writer, "id", key->id);
    if (secret) {
        pal_put_text(writer, "key", secret);
    }
    pal_put_str(writer, "tenant", key->tenant);
    pal_put_text(writer, "role", pal_key_role_name(key->role));
    pal_put_str(writer, "label", key->label);
    pal_json_name(writer, "budget");
    pal_json_begin_object(writer);
    pal_put_count(writer, "tokens", key->budget_tokens);
    pal_put_number(writer, "cost_micros", key->budget_cost_micros);
    pal_put_text(writer, "period", key->is_monthly ? "month" : "day");
    pal_json_end_object(writer);
    pal_put_number(writer, "requests_per_minute", key->requests_per_minute);
    put_time(writer, "created_at", key->created_at);
    pal_json_name(writer, "used_on");
    if (key->used_on.len)
        pal_json_put_str(writer, key->used_on);
    else
        pal_json_put_null(writer);
    put_time(writer, "revoked_at", key->revoked_at);
    pal_json_end_object(writer);
}

/* The members of pal_key_put(), for reading. They are not written by this table, because clients
 * are shown the same object with all members, also those that are zero. */
#define MEMBER(name, type, field) {name, PAL_MEMBER_##type, 1, .offset = offsetof(pal_key, field)}
static const pal_member budget_members[] = {
        MEMBER("tokens", U64, budget_tokens),
        MEMBER("cost_micros", I64, budget_cost_micros),
};
static const pal_member_table budget_table = {budget_members, 2, NULL, NULL};

static pal_status read_budget(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    pal_key *key = record;
    (void)member;
    key->is_monthly = pal_json_string_is(pal_json_find(value, "period"), "month");
    return pal_members_read_stored(&budget_table, 1, value, arena, key, err);
}

static const pal_member_names roles = {
        role_names, PAL_KEY_ADMIN + 1, "metrics, read, write or admin"};

static const pal_member key_members[] = {
        MEMBER("id", STRING, id),
        MEMBER("tenant", STRING, tenant),
        {"role", PAL_MEMBER_NAME, 1, .offset = offsetof(pal_key, role), .of = &roles},
        MEMBER("label", STRING, label),
        MEMBER("budget", OTHER, budget_tokens),
        MEMBER("requests_per_minute", U32, requests_per_minute),
        MEMBER("created_at", TIME, created_at),
        MEMBER("used_on", STRING, used_on),
        MEMBER("revoked_at", TIME, revoked_at),
};
static const pal_member_table key_table = {
        key_members, sizeof key_members / sizeof *key_members, read_budget, NULL};

static pal_status read_key(pal_str json, pal_arena *arena, pal_key *out_key, pal_error *err)
{
    pal_json body;
    pal_key key = {0};
    pal_status status = pal_json_parse(arena, json, NULL, &body, err);
    if (status != PAL_OK)
        return status;
    status = pal_members_read_stored(&key_table, 1, body, arena, &key, err);
    if (status != PAL_OK)
        return status;
    if (key.requests_per_minute > PAL_SERVER_KEY_RATE_MAX)
        key.requests_per_minute = PAL_SERVER_KEY_RATE_MAX;
    if (key.role == PAL_KEY_NONE || key.tenant.len == 0)
        return pal_error_set(err, PAL_CORRUPT, "the record of a key is damaged");
    *out_key = key;
    return PAL_OK;
}

static pal_status write_key(pal_store *store, pal_str name, const pal_key *key,
        uint64_t expected_version, pal_error *err)
{
    pal_buf buf;
    pal_buf_init(&buf, BODY_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_key_put(key, NULL, &writer);
    pal_record record = {.kind = pal_str_of(KIND), .name = name, .body = pal_buf_str(&buf)};
    pal_status status = buf.failure
            ? pal_error_set(err, buf.failure, "the record of the key is too large")
            : pal_store_record_put(
                      store, pal_str_of(PAL_ACCESS_TENANT), &record, expected_version, err);
    pal_buf_done(&buf);
    return status;
}

/* ---- Creating a key ---- */

static pal_status digest_of(pal_str secret, char out_name[DIGEST_TEXT_SIZE], pal_error *err)
{
    uint8_t digest[PAL_SHA256_SIZE];
    if (pal_sha256(secret, digest) != PAL_OK)
        return pal_no_memory(err);
    pal_hex(digest, sizeof digest, out_name);
    return PAL_OK;
}

static pal_status check_given(const pal_key *given, pal_error *err)
{
    if (given->role == PAL_KEY_NONE)
        return pal_error_set(err, PAL_INVALID, "the role must be admin, write or read");
    if (given->label.len > PAL_LABEL_LEN_MAX)
        return pal_error_set(err, PAL_LIMIT, "the label of %zu bytes exceeds the limit of %d",
                given->label.len, PAL_LABEL_LEN_MAX);
    if (!pal_utf8_is_valid(given->label))
        return pal_error_set(err, PAL_INVALID, "the label is not valid UTF-8");
    return pal_key_tenant_check(given->tenant, err);
}

pal_status pal_key_create(pal_store *store, const pal_key *given, pal_arena *arena,
        char out_secret[PAL_KEY_SECRET_SIZE], pal_key *out_key, pal_error *err)
{
    uint8_t random[PAL_SHA256_SIZE];
    char secret[PAL_KEY_SECRET_SIZE] = "pk_", name[DIGEST_TEXT_SIZE], id[ID_SIZE];
    pal_key key = *given;
    pal_status status = check_given(given, err);
    if (status != PAL_OK)
        return status;
    status = pal_random_secret(random, sizeof random, err);
    if (status != PAL_OK)
        return status;
    pal_hex(random, sizeof random, secret + 3);
    status = digest_of(pal_str_of(secret), name, err);
    if (status != PAL_OK)
        return status;
    snprintf(id, sizeof id, ID_PREFIX "%.*s", ID_DIGITS, name);
    key.id = pal_arena_copy(arena, pal_str_of(id));
    key.created_at = pal_clock_now_ms();
    key.used_on = (pal_str){0};
    key.revoked_at = 0;
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_no_memory(err);
    status = write_key(store, pal_str_of(name), &key, 0, err);
    if (status != PAL_OK)
        return status;
    memcpy(out_secret, secret, sizeof secret);
    *out_key = key;
    return PAL_OK;
}

/* ---- Finding keys ---- */

pal_status pal_key_find(
        pal_store *store, pal_str secret, pal_arena *arena, pal_key *out_key, pal_error *err)
{
    char name[DIGEST_TEXT_SIZE];
    pal_record record;
    pal_status status = digest_of(secret, name, err);
    if (status == PAL_OK)
        status = pal_store_record_find(store, pal_str_of(PAL_ACCESS_TENANT), pal_str_of(KIND),
                pal_str_of(name), arena, &record, err);
    return status == PAL_OK ? read_key(record.body, arena, out_key, err) : status;
}

/* The digits of an id, which are the beginning of the record's name. False: not an id. */
static bool digits_of(pal_str id, pal_str *out_digits)
{
    size_t prefix = sizeof ID_PREFIX - 1;
    if (id.len != prefix + ID_DIGITS || memcmp(id.data, ID_PREFIX, prefix) != 0)
        return false;
    *out_digits = pal_str_make(id.data + prefix, ID_DIGITS);
    return true;
}

static pal_status no_such_key(pal_str id, pal_error *err)
{
    return pal_error_set(err, PAL_NOT_FOUND, "key '%.*s' does not exist", PAL_EXCERPT(id, 40));
}

pal_status pal_key_list(pal_store *store, pal_str after, uint32_t limit, pal_arena *arena,
        pal_key_page *out_page, pal_error *err)
{
    pal_record_page records;
    pal_key_page page = {0};
    char from[ID_DIGITS + 2] = "";
    pal_str digits = {0};
    if (after.len && !digits_of(after, &digits))
        return pal_error_set(err, PAL_INVALID, "the cursor is not the id of a key");
    /* 'g' sorts after every hex digit, so the list continues after all records with these
     * digits. */
    if (digits.len)
        snprintf(from, sizeof from, "%.*sg", PAL_STR_ARG(digits));
    pal_record_query query = {.tenant = pal_str_of(PAL_ACCESS_TENANT),
            .kind = pal_str_of(KIND),
            .after = pal_str_of(from),
            .limit = limit};
    pal_status status = pal_store_record_list(store, &query, arena, &records, err);
    if (status != PAL_OK)
        return status;
    page.keys = pal_arena_array(arena, records.len ? records.len : 1, sizeof *page.keys);
    if (!page.keys)
        return pal_no_memory(err);
    for (size_t i = 0; i < records.len && status == PAL_OK; i++)
        status = read_key(records.items[i].body, arena, &page.keys[page.keys_len++], err);
    page.has_more = records.has_more;
    if (status == PAL_OK)
        *out_page = page;
    return status;
}

static pal_status find_by_id(pal_store *store, pal_str id, pal_arena *arena, pal_record *out_record,
        pal_key *out_key, pal_error *err)
{
    pal_record_page records;
    pal_str digits;
    if (!digits_of(id, &digits))
        return no_such_key(id, err);
    pal_record_query query = {.tenant = pal_str_of(PAL_ACCESS_TENANT),
            .kind = pal_str_of(KIND),
            .after = digits,
            .limit = 1};
    pal_status status = pal_store_record_list(store, &query, arena, &records, err);
    if (status != PAL_OK)
        return status;
    if (records.len == 0 || records.items[0].name.len < ID_DIGITS ||
            memcmp(records.items[0].name.data, digits.data, ID_DIGITS) != 0)
        return no_such_key(id, err);
    *out_record = records.items[0];
    return read_key(out_record->body, arena, out_key, err);
}

pal_status pal_key_get(
        pal_store *store, pal_str id, pal_arena *arena, pal_key *out_key, pal_error *err)
{
    pal_record record;
    return find_by_id(store, id, arena, &record, out_key, err);
}

/* ---- Changing keys ---- */

typedef void (*key_change)(pal_key *key, pal_str value);

/* Tries again if the record was changed between reading and writing. */
static pal_status change(pal_store *store, pal_str id, key_change apply, pal_str value,
        pal_arena *arena, pal_key *out_key, pal_error *err)
{
    pal_record record = {0};
    pal_key key;
    pal_status status = PAL_CONFLICT;
    for (int i = 0; i < TRIES && status == PAL_CONFLICT; i++) {
        status = find_by_id(store, id, arena, &record, &key, err);
        if (status != PAL_OK)
            return status;
        apply(&key, value);
        status = write_key(store, record.name, &key, record.version, err);
    }
    if (status == PAL_OK)
        *out_key = key;
    return status;
}

static void set_revoked(pal_key *key, pal_str value)
{
    (void)value;
    if (key->revoked_at == 0)
        key->revoked_at = pal_clock_now_ms();
}

static void set_used(pal_key *key, pal_str value)
{
    key->used_on = value;
}

pal_status pal_key_revoke(
        pal_store *store, pal_str id, pal_arena *arena, pal_key *out_key, pal_error *err)
{
    return change(store, id, set_revoked, (pal_str){0}, arena, out_key, err);
}

pal_status pal_key_set_used(
        pal_store *store, pal_str id, pal_str day, pal_arena *arena, pal_error *err)
{
    pal_key key;
    return change(store, id, set_used, day, arena, &key, err);
}
