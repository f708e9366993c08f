/* server_key.h - keys of the API: records of a tenant that no API can name. The secret is shown
 * when the key is made and nowhere kept: a record is named by its SHA-256.
 *
 * Functions here may be called from any thread; `palaver key` uses them too. */
#ifndef PAL_SERVER_KEY_H
#define PAL_SERVER_KEY_H

#include "base/json.h"
#include "palaver/palaver.h"
#include "server/server.h"
#include "server/server_limits.h"

#define PAL_KEY_SECRET_SIZE 68 /* "pk_", 64 hex digits, NUL */

typedef struct pal_key {
    pal_str id; /* "key_" and 16 hex digits */
    pal_str tenant;
    pal_key_role role;
    pal_str label;
    uint64_t budget_tokens; /* of the tenant's use in a period; 0: no bound */
    int64_t budget_cost_micros;
    bool is_monthly;              /* the period is a month, by UTC; else a day */
    uint32_t requests_per_minute; /* 0: the server's */
    int64_t created_at;
    pal_str used_on;    /* "2026-11-16", by UTC; empty: never */
    int64_t revoked_at; /* 0: it counts */
} pal_key;

const char *pal_key_role_name(pal_key_role role); /* "write" */
/* PAL_KEY_NONE: there is no such role. */
pal_key_role pal_key_role_from_name(pal_str name);

/* A name that a tenant may have over HTTP: not empty, without control characters. */
PAL_CHECKED pal_status pal_key_tenant_check(pal_str tenant, pal_error *err);

/* Makes a key of `given`'s tenant, role, label, budget and rate. */
PAL_CHECKED pal_status pal_key_create(pal_store *store, const pal_key *given, pal_arena *arena,
        char out_secret[PAL_KEY_SECRET_SIZE], pal_key *out_key, pal_error *err);

/* PAL_NOT_FOUND for what is no key; revoked ones are found. In the arena. */
PAL_CHECKED pal_status pal_key_find(
        pal_store *store, pal_str secret, pal_arena *arena, pal_key *out_key, pal_error *err);

typedef struct pal_key_page {
    pal_key *keys; /* in the order of their ids, revoked ones too; in the arena */
    size_t keys_len;
    bool has_more; /* behind the last one's id */
} pal_key_page;

/* From behind the id `after` (empty: from the first) on, at most `limit`. */
PAL_CHECKED pal_status pal_key_list(pal_store *store, pal_str after, uint32_t limit,
        pal_arena *arena, pal_key_page *out_page, pal_error *err);

/* From now on it opens nothing. Revoking it again changes nothing. */
PAL_CHECKED pal_status pal_key_revoke(
        pal_store *store, pal_str id, pal_arena *arena, pal_key *out_key, pal_error *err);

/* Keeps the day of its last use. */
PAL_CHECKED pal_status pal_key_set_used(
        pal_store *store, pal_str id, pal_str day, pal_arena *arena, pal_error *err);

/* Its JSON form; `secret` NULL: without. */
void pal_key_put(const pal_key *key, const char *secret, pal_json_writer *writer);

#endif
