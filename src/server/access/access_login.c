/* access_login.c - logins of browsers, as records.
 *
 * The name of a record is the SHA-256 of the cookie or of the code, so a lookup reveals nothing of
 * a guess, and the records of a stolen store open nothing. */
#include "server/access/access_login.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "dialect/dialect_member.h"

#define LOGIN_KIND "login"
#define CODE_KIND "login_code"
#define DIGEST_SIZE (2 * PAL_SHA256_SIZE + 1)
#define BODY_MAX 1024

#define IDLE_MS ((int64_t)12 * 3600 * 1000)
#define AGE_MS ((int64_t)30 * 24 * 3600 * 1000)
#define RENEW_MS ((int64_t)10 * 60 * 1000) /* a login is renewed at most this often */
#define CODE_MS ((int64_t)60 * 1000)

static pal_status digest_of(pal_str secret, char out_digest[DIGEST_SIZE], pal_error *err)
{
    uint8_t digest[PAL_SHA256_SIZE];
    if (pal_sha256(secret, digest) != PAL_OK)
        return pal_no_memory(err);
    pal_hex(digest, sizeof digest, out_digest);
    return PAL_OK;
}

static pal_status make_secret(char out_secret[PAL_LOGIN_SECRET_SIZE], pal_error *err)
{
    uint8_t random[PAL_SHA256_SIZE];
    pal_status status = pal_random_secret(random, sizeof random, err);
    if (status == PAL_OK)
        pal_hex(random, sizeof random, out_secret);
    return status;
}

/* ---- Records ---- */

/* The record of a code has only the key. */
typedef struct login_body {
    pal_str key;     /* id of the API key */
    pal_str half;    /* digest of the part that the page keeps */
    int64_t ends_at; /* the last time until which the login can be renewed */
} login_body;

static const pal_member login_members[] = {
        {"key", PAL_MEMBER_TEXT, 1, .offset = offsetof(login_body, key)},
        {"half", PAL_MEMBER_STRING, 1, .offset = offsetof(login_body, half)},
        {"ends_at", PAL_MEMBER_I64, 1, .offset = offsetof(login_body, ends_at)},
};

static const pal_member_table login_table = {
        login_members, sizeof login_members / sizeof *login_members, NULL, NULL};

static pal_status put(pal_store *store, const char *kind, pal_str name, pal_str body,
        int64_t expires_at, uint64_t expected_version, pal_error *err)
{
    pal_record record = {.kind = pal_str_of(kind),
            .name = name,
            .body = body,
            .expires_at = expires_at};
    return pal_store_record_put(
            store, pal_str_of(PAL_ACCESS_TENANT), &record, expected_version, err);
}

static pal_status create(pal_store *store, const char *kind, pal_str secret,
        const login_body *body, int64_t expires_at, pal_error *err)
{
    char name[DIGEST_SIZE];
    pal_buf buf;
    pal_status status = digest_of(secret, name, err);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&buf, BODY_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_members_write(&login_table, 1, &writer, body);
    pal_json_end_object(&writer);
    status = buf.failure
            ? pal_no_memory(err)
            : put(store, kind, pal_str_of(name), pal_buf_str(&buf), expires_at, 0, err);
    pal_buf_done(&buf);
    return status;
}

static pal_status read_body(
        pal_str json, pal_arena *arena, login_body *out_body, pal_error *err)
{
    pal_json body;
    pal_status status = pal_json_parse(arena, json, NULL, &body, err);
    if (status != PAL_OK)
        return status;
    return pal_members_read_stored(&login_table, 1, body, arena, out_body, err);
}

static pal_status find_named(pal_store *store, const char *kind, pal_str name, pal_arena *arena,
        pal_record *out_record, login_body *out_body, pal_error *err)
{
    pal_status status = pal_store_record_find(store, pal_str_of(PAL_ACCESS_TENANT),
            pal_str_of(kind), name, arena, out_record, err);
    return status == PAL_OK ? read_body(out_record->body, arena, out_body, err) : status;
}

/* Finds the record of a cookie or a code, and reads its body. */
static pal_status find(pal_store *store, const char *kind, pal_str secret, pal_arena *arena,
        pal_record *out_record, login_body *out_body, pal_error *err)
{
    char name[DIGEST_SIZE];
    pal_status status = digest_of(secret, name, err);
    if (status != PAL_OK)
        return status;
    return find_named(store, kind, pal_str_of(name), arena, out_record, out_body, err);
}

static pal_status drop(pal_store *store, const char *kind, pal_str secret, pal_error *err)
{
    char name[DIGEST_SIZE];
    pal_status status = digest_of(secret, name, err);
    if (status != PAL_OK)
        return status;
    return pal_store_record_drop(
            store, pal_str_of(PAL_ACCESS_TENANT), pal_str_of(kind), pal_str_of(name), err);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Logins ---- */

pal_status pal_login_create(
        pal_store *store, pal_str key_id, pal_login *out_login, pal_error *err)
{
    char half[DIGEST_SIZE];
    int64_t now_ms = pal_clock_now_ms();
    pal_login login = {.expires_at = now_ms + IDLE_MS};
    pal_status status = make_secret(login.cookie, err);
    if (status == PAL_OK)
        status = make_secret(login.half, err);
    if (status == PAL_OK)
        status = digest_of(pal_str_of(login.half), half, err);
    if (status != PAL_OK)
        return status;
    login_body body = {.key = key_id, .half = pal_str_of(half), .ends_at = now_ms + AGE_MS};
    status = create(store, LOGIN_KIND, pal_str_of(login.cookie), &body, login.expires_at, err);
    if (status == PAL_OK)
        *out_login = login;
    return status;
}

pal_status pal_login_find(pal_store *store, pal_str cookie, pal_str half, pal_arena *arena,
        pal_str *out_key_id, pal_error *err)
{
    char digest[DIGEST_SIZE];
    pal_record record;
    login_body body;
    pal_status status = find(store, LOGIN_KIND, cookie, arena, &record, &body, err);
    if (status == PAL_OK)
        status = digest_of(half, digest, err);
    if (status != PAL_OK)
        return status;
    /* Digests are compared, so the time of the comparison reveals nothing of the half. */
    if (!pal_str_is(body.half, digest))
        return pal_error_set(err, PAL_NOT_FOUND, "the two parts of the login do not match");
    *out_key_id = body.key;
    return PAL_OK;
}

pal_status pal_login_renew(pal_store *store, pal_str cookie, pal_error *err)
{
    pal_record record;
    login_body body;
    int64_t now_ms = pal_clock_now_ms();
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    pal_status status = find(store, LOGIN_KIND, cookie, arena, &record, &body, err);
    if (status == PAL_OK && now_ms - record.updated_at >= RENEW_MS && body.ends_at)
        status = put(store, LOGIN_KIND, record.name, record.body,
                earlier(now_ms + IDLE_MS, body.ends_at), record.version, err);
    pal_arena_free(arena);
    /* Another server has renewed it. */
    return status == PAL_CONFLICT ? PAL_OK : status;
}

pal_status pal_login_end(pal_store *store, pal_str cookie, pal_error *err)
{
    return drop(store, LOGIN_KIND, cookie, err);
}

pal_status pal_login_id(pal_str cookie, char out_id[PAL_LOGIN_SECRET_SIZE], pal_error *err)
{
    return digest_of(cookie, out_id, err);
}

/* Adds the logins of the key among the records. */
static pal_status add_entries(const pal_record_page *page, pal_str key_id, pal_arena *arena,
        pal_login_entry **items, size_t *cap, size_t *len, pal_error *err)
{
    login_body body;
    for (size_t i = 0; i < page->len; i++) {
        const pal_record *record = &page->items[i];
        pal_status status = read_body(record->body, arena, &body, err);
        if (status != PAL_OK)
            return status;
        if (!pal_str_equal(body.key, key_id))
            continue;
        if (!pal_arena_reserve(arena, items, cap, *len + 1, sizeof **items))
            return pal_no_memory(err);
        (*items)[(*len)++] = (pal_login_entry){.id = record->name,
                .created_at = record->created_at,
                .used_at = record->updated_at,
                .expires_at = record->expires_at};
    }
    return PAL_OK;
}

pal_status pal_login_list(pal_store *store, pal_str key_id, pal_arena *arena,
        pal_login_entry **out_items, size_t *out_len, pal_error *err)
{
    pal_record_page page = {.has_more = true};
    pal_login_entry *items = NULL;
    size_t cap = 0, len = 0;
    pal_record_query query = {.tenant = pal_str_of(PAL_ACCESS_TENANT),
            .kind = pal_str_of(LOGIN_KIND),
            .limit = PAL_RECORD_PAGE_MAX};
    for (size_t seen = 0; page.has_more && seen < PAL_SERVER_LOGINS_MAX; seen += page.len) {
        pal_status status = pal_store_record_list(store, &query, arena, &page, err);
        if (status == PAL_OK)
            status = add_entries(&page, key_id, arena, &items, &cap, &len, err);
        if (status != PAL_OK)
            return status;
        if (page.len == 0)
            break;
        query.after = page.items[page.len - 1].name;
    }
    *out_items = items;
    *out_len = len;
    return PAL_OK;
}

pal_status pal_login_drop(
        pal_store *store, pal_str key_id, pal_str id, pal_arena *arena, pal_error *err)
{
    pal_record record;
    login_body body;
    pal_status status = find_named(store, LOGIN_KIND, id, arena, &record, &body, err);
    if (status == PAL_NOT_FOUND || (status == PAL_OK && !pal_str_equal(body.key, key_id)))
        return pal_error_set(
                err, PAL_NOT_FOUND, "the key has no login '%.*s'", PAL_EXCERPT(id, 80));
    if (status != PAL_OK)
        return status;
    return pal_store_record_drop(
            store, pal_str_of(PAL_ACCESS_TENANT), pal_str_of(LOGIN_KIND), id, err);
}

/* ---- Codes ---- */

pal_status pal_login_code_create(pal_store *store, pal_str key_id,
        char out_code[PAL_LOGIN_SECRET_SIZE], pal_error *err)
{
    const login_body body = {.key = key_id};
    pal_status status = make_secret(out_code, err);
    if (status != PAL_OK)
        return status;
    return create(store, CODE_KIND, pal_str_of(out_code), &body, pal_clock_now_ms() + CODE_MS, err);
}

pal_status pal_login_code_take(pal_store *store, pal_str code, pal_arena *arena,
        pal_str *out_key_id, pal_error *err)
{
    pal_record record;
    login_body body;
    pal_status status = find(store, CODE_KIND, code, arena, &record, &body, err);
    if (status == PAL_OK)
        status = drop(store, CODE_KIND, code, err); /* one of several requests succeeds */
    if (status == PAL_OK)
        *out_key_id = body.key;
    return status;
}

/* ---- The cookie ---- */

pal_str pal_login_cookie_of(pal_str header)
{
    static const char name[] = PAL_LOGIN_COOKIE "=";
    while (header.len) {
        const char *end = memchr(header.data, ';', header.len);
        size_t len = end ? (size_t)(end - header.data) : header.len;
        pal_str pair = pal_text_trim(pal_str_make(header.data, len));
        if (pal_text_begins(pair, name))
            return pal_text_after(pair, sizeof name - 1);
        header = pal_text_after(header, end ? len + 1 : len);
    }
    return (pal_str){0};
}
