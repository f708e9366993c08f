/* access_key.h - API keys: records of a tenant that no API can name. The secret is shown when the
 * key is created, and is not stored. The name of a record is the SHA-256 of the secret.
 *
 * Threads: any. `palaver key` uses these functions too. */
#ifndef PAL_ACCESS_KEY_H
#define PAL_ACCESS_KEY_H

#include "base/json/json.h"
#include "palaver/palaver.h"
#include "server/server.h"
#include "server/server_limits.h"

/* The tenant of all records of this folder. The name of a request's tenant contains no control
 * character, so no route reads them and no export contains them. */
#define PAL_ACCESS_TENANT "\001palaver"

#define PAL_KEY_SECRET_SIZE 68 /* "pk_", 64 hex digits, NUL */

typedef struct pal_key {
    pal_str id; /* "key_" and 16 hex digits */
    pal_str tenant;
    pal_key_role role;
    pal_str label;
    uint64_t budget_tokens; /* limit on the tenant's tokens in a period; 0: no limit */
    int64_t budget_cost_micros;
    bool is_monthly;              /* the period is a month in UTC; otherwise a day */
    uint32_t requests_per_minute; /* 0: the server's limit applies */
    int64_t created_at;
    pal_str used_on;    /* "2026-11-16", in UTC; empty: never */
    int64_t revoked_at; /* 0: the key is valid */
} pal_key;

const char *pal_key_role_name(pal_key_role role); /* "write" */
/* PAL_KEY_NONE: unknown role. */
pal_key_role pal_key_role_from_name(pal_str name);

/* Checks a tenant's name for use over HTTP: valid UTF-8, not empty, no control characters. */
PAL_CHECKED pal_status pal_key_tenant_check(pal_str tenant, pal_error *err);

/* Creates a key with the tenant, role, label, budget and rate of `given`. */
PAL_CHECKED pal_status pal_key_create(pal_store *store, const pal_key *given, pal_arena *arena,
        char out_secret[PAL_KEY_SECRET_SIZE], pal_key *out_key, pal_error *err);

/* PAL_NOT_FOUND if the secret is not a key's. Revoked keys are found too. The result is in the
 * arena. */
PAL_CHECKED pal_status pal_key_find(
        pal_store *store, pal_str secret, pal_arena *arena, pal_key *out_key, pal_error *err);

typedef struct pal_key_page {
    pal_key *keys; /* sorted by id, including revoked keys; in the arena */
    size_t keys_len;
    bool has_more; /* there are keys after the last one */
} pal_key_page;

/* Lists at most `limit` keys, starting after the id `after` (empty: at the first key). */
PAL_CHECKED pal_status pal_key_list(pal_store *store, pal_str after, uint32_t limit,
        pal_arena *arena, pal_key_page *out_page, pal_error *err);

/* Finds a key by its id, also if it was revoked. PAL_NOT_FOUND if it does not exist. */
PAL_CHECKED pal_status pal_key_get(
        pal_store *store, pal_str id, pal_arena *arena, pal_key *out_key, pal_error *err);

/* Revokes a key: it is refused from now on. Revoking it again changes nothing. */
PAL_CHECKED pal_status pal_key_revoke(
        pal_store *store, pal_str id, pal_arena *arena, pal_key *out_key, pal_error *err);

/* Records the day of the last use. */
PAL_CHECKED pal_status pal_key_set_used(
        pal_store *store, pal_str id, pal_str day, pal_arena *arena, pal_error *err);

/* Writes the JSON form of a key. `secret` may be NULL. */
void pal_key_put(const pal_key *key, const char *secret, pal_json_writer *writer);

/* ---- The store's secret (access_secret.c) ---- */

#define PAL_SECRET_SIZE 32

/* Returns the secret of the store: random bytes, created at the first call. Every process on the
 * store gets the same secret. */
PAL_CHECKED pal_status pal_secret_get(
        pal_store *store, uint8_t out_secret[PAL_SECRET_SIZE], pal_error *err);

#endif
