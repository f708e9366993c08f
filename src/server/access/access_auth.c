/* access_auth.c - identifies the caller.
 *
 * Keys are looked up by their SHA-256, so that no comparison reveals how much of a guess is right.
 * They are cached for PAL_SERVER_KEYS_FRESH_US; after that time, a key that another process revoked
 * is refused. At the start, only the existence of a key is read.
 *
 * Without any key, the server is open to this machine. Then other sites could use a browser to
 * reach it. They could point a host name to this machine, so the Host must be local. Or their page
 * could send a request, so the request must come from the server's own page or from an origin in
 * server.cors_origins. A page from another port of this machine also counts as another site.
 *
 * A browser that has logged in sends no key, but the two parts of its login (access_login.h). They
 * count only from the server's own page. They are looked up and cached in the same way.
 *
 * If an address has sent key_failures_per_minute wrong keys, further wrong keys get 429. A valid
 * key is still accepted, because other clients may use the same address.
 *
 * Threads: any. One lock guards the cache. A key's record is read outside of the lock. */
#include "server/access/access_auth.h"

#include <pthread.h>
#include <stdio.h>
#include <strings.h>
#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/text.h"
#include "server/access/access_key.h"
#include "server/access/access_login.h"
#include "server/access/access_rate.h"
#include "server/server_call.h"
#include "server/server_settings.h"

#define DAY_TEXT_LEN 10 /* "2026-11-16" */
#define KEY_ARENA_MAX 65536

typedef struct cached_key {
    uint8_t digest[PAL_SHA256_SIZE];
    pal_arena *arena;
    pal_key key;
    int64_t read_us;
    bool is_used; /* it was used today, and the record does not say so yet */
    char cookie[PAL_LOGIN_SECRET_SIZE]; /* a login that has to be renewed; empty: none */
} cached_key;

struct pal_auth {
    pal_store *store;
    const pal_server_client *client; /* NULL: none */
    bool is_local;
    pthread_mutex_t lock;
    pal_map cache; /* indexed by digest */
    bool any;
    int64_t any_us; /* when `any` was read; 0: never */
};

pal_auth *pal_auth_new(pal_store *store, const pal_server_client *client, bool is_local)
{
    pal_auth *auth = pal_calloc(1, sizeof *auth);
    if (!auth)
        return NULL;
    auth->store = store;
    auth->client = client;
    auth->any = client != NULL;
    auth->is_local = is_local;
    pthread_mutex_init(&auth->lock, NULL);
    return auth;
}

static void free_cached(cached_key *entry)
{
    pal_arena_free(entry->arena);
    pal_free(entry);
}

/* Call it under the lock. */
static void empty_cache(pal_auth *auth)
{
    size_t position = 0;
    pal_str name;
    void *value;
    while (pal_map_next(&auth->cache, &position, &name, &value))
        free_cached(value);
    pal_map_done(&auth->cache);
    pal_map_init(&auth->cache);
}

void pal_auth_free(pal_auth *auth)
{
    if (!auth)
        return;
    empty_cache(auth);
    pal_map_done(&auth->cache);
    pthread_mutex_destroy(&auth->lock);
    pal_free(auth);
}

void pal_auth_forget(pal_auth *auth)
{
    pthread_mutex_lock(&auth->lock);
    empty_cache(auth);
    if (!auth->any)
        auth->any_us = 0;
    pthread_mutex_unlock(&auth->lock);
}

pal_status pal_auth_has_keys(pal_auth *auth, bool *out_any, pal_error *err)
{
    pal_key_page page;
    int64_t now = pal_clock_monotonic_us();
    pthread_mutex_lock(&auth->lock);
    bool any = auth->any;
    /* Records of keys are never removed, so `any` stays true. */
    bool is_fresh = any || (auth->any_us && now - auth->any_us < PAL_SERVER_KEYS_FRESH_US);
    pthread_mutex_unlock(&auth->lock);
    if (is_fresh) {
        *out_any = any;
        return PAL_OK;
    }
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    pal_status status = pal_key_list(auth->store, (pal_str){0}, 1, arena, &page, err);
    if (status == PAL_OK) {
        *out_any = page.keys_len > 0;
        pthread_mutex_lock(&auth->lock);
        auth->any = auth->any || page.keys_len > 0;
        auth->any_us = now;
        pthread_mutex_unlock(&auth->lock);
    }
    pal_arena_free(arena);
    return status;
}

/* Returns the last result of pal_auth_has_keys(). Does not read the store. */
static bool had_keys(pal_auth *auth)
{
    pthread_mutex_lock(&auth->lock);
    bool any = auth->any;
    pthread_mutex_unlock(&auth->lock);
    return any;
}

/* ---- One key ---- */

static void today(char out_day[PAL_TIME_TEXT_SIZE])
{
    pal_time_to_text(pal_clock_now_ms(), out_day);
    out_day[DAY_TEXT_LEN] = 0;
}

static bool copy_key(pal_arena *arena, const pal_key *key, pal_key *out_key)
{
    *out_key = *key;
    out_key->id = pal_arena_copy(arena, key->id);
    out_key->tenant = pal_arena_copy(arena, key->tenant);
    out_key->label = (pal_str){0};
    out_key->used_on = (pal_str){0};
    return pal_arena_failure(arena) == PAL_OK;
}

/* Call it under the lock. False: the key is not in the cache, or was read too long ago. */
static bool find_cached(pal_auth *auth, pal_str digest, pal_arena *arena, pal_key *out_key)
{
    cached_key *entry = pal_map_find(&auth->cache, digest);
    if (!entry || pal_clock_monotonic_us() - entry->read_us >= PAL_SERVER_KEYS_FRESH_US)
        return false;
    return copy_key(arena, &entry->key, out_key);
}

/* `cookie` is that of a login; empty: the digest is that of a key. */
static void keep(pal_auth *auth, const uint8_t digest[PAL_SHA256_SIZE], const pal_key *key,
        pal_str cookie)
{
    char day[PAL_TIME_TEXT_SIZE];
    cached_key *entry = pal_calloc(1, sizeof *entry);
    if (!entry)
        return;
    today(day);
    entry->arena = pal_arena_new(KEY_ARENA_MAX);
    memcpy(entry->digest, digest, sizeof entry->digest);
    entry->read_us = pal_clock_monotonic_us();
    entry->is_used = !pal_str_is(key->used_on, day);
    if (cookie.len < sizeof entry->cookie)
        memcpy(entry->cookie, cookie.data ? cookie.data : "", cookie.len);
    pal_str name = pal_str_make((const char *)entry->digest, sizeof entry->digest);
    pthread_mutex_lock(&auth->lock);
    if (auth->cache.len >= PAL_SERVER_KEYS_CACHED_MAX)
        empty_cache(auth);
    cached_key *old = pal_map_find(&auth->cache, name);
    bool kept = entry->arena && copy_key(entry->arena, key, &entry->key) &&
            pal_map_set(&auth->cache, name, entry) == PAL_OK;
    if (kept && old)
        free_cached(old);
    if (!kept)
        free_cached(entry);
    pthread_mutex_unlock(&auth->lock);
}

/* True if the digest is that of the key of the client that this process has started. */
static bool is_client(
        const pal_auth *auth, const uint8_t digest[PAL_SHA256_SIZE], pal_key *out_key)
{
    uint8_t own[PAL_SHA256_SIZE];
    if (!auth->client || pal_sha256(auth->client->secret, own) != PAL_OK ||
            memcmp(own, digest, sizeof own) != 0)
        return false;
    *out_key = (pal_key){.id = pal_str_of("key_client"),
            .tenant = auth->client->tenant,
            .role = PAL_KEY_WRITE};
    return true;
}

static pal_status find_key(
        pal_auth *auth, pal_str secret, pal_arena *arena, pal_key *out_key, pal_error *err)
{
    uint8_t digest[PAL_SHA256_SIZE];
    if (pal_sha256(secret, digest) != PAL_OK)
        return pal_no_memory(err);
    if (is_client(auth, digest, out_key))
        return PAL_OK;
    pthread_mutex_lock(&auth->lock);
    bool found =
            find_cached(auth, pal_str_make((const char *)digest, sizeof digest), arena, out_key);
    pthread_mutex_unlock(&auth->lock);
    if (found)
        return PAL_OK;
    pal_status status = pal_key_find(auth->store, secret, arena, out_key, err);
    if (status == PAL_OK)
        keep(auth, digest, out_key, (pal_str){0});
    return status;
}

/* The digest of both parts together names the login in the cache. */
static pal_status login_digest(pal_str cookie, pal_str half, pal_arena *arena,
        uint8_t out_digest[PAL_SHA256_SIZE], pal_error *err)
{
    char *both = pal_arena_alloc(arena, cookie.len + half.len + 2);
    if (!both)
        return pal_no_memory(err);
    int len = snprintf(both, cookie.len + half.len + 2, "%.*s.%.*s", PAL_STR_ARG(cookie),
            PAL_STR_ARG(half));
    if (pal_sha256(pal_str_make(both, (size_t)len), out_digest) != PAL_OK)
        return pal_no_memory(err);
    return PAL_OK;
}

/* Finds the key that a browser has logged in with. */
static pal_status find_login(pal_auth *auth, pal_str cookie, pal_str half, pal_arena *arena,
        pal_key *out_key, pal_error *err)
{
    uint8_t digest[PAL_SHA256_SIZE];
    pal_str key_id;
    pal_status status = login_digest(cookie, half, arena, digest, err);
    if (status != PAL_OK)
        return status;
    pthread_mutex_lock(&auth->lock);
    bool found =
            find_cached(auth, pal_str_make((const char *)digest, sizeof digest), arena, out_key);
    pthread_mutex_unlock(&auth->lock);
    if (found)
        return PAL_OK;
    status = pal_login_find(auth->store, cookie, half, arena, &key_id, err);
    if (status == PAL_OK)
        status = pal_key_get(auth->store, key_id, arena, out_key, err);
    if (status == PAL_OK)
        keep(auth, digest, out_key, cookie);
    return status;
}

/* Extends the logins that were used. */
static void renew_logins(pal_auth *auth)
{
    char cookie[PAL_LOGIN_SECRET_SIZE];
    do {
        pal_error err;
        size_t position = 0;
        pal_str name;
        void *value;
        cookie[0] = 0;
        pthread_mutex_lock(&auth->lock);
        while (!cookie[0] && pal_map_next(&auth->cache, &position, &name, &value)) {
            cached_key *entry = value;
            memcpy(cookie, entry->cookie, sizeof cookie);
            entry->cookie[0] = 0;
        }
        pthread_mutex_unlock(&auth->lock);
        if (!cookie[0])
            return;
        pal_status status = pal_login_renew(auth->store, pal_str_of(cookie), &err);
        if (status != PAL_OK && status != PAL_NOT_FOUND)
            pal_log(PAL_LOG_WARN, "could not renew a login: %s", err.message);
    } while (cookie[0]);
}

void pal_auth_note_used(pal_auth *auth)
{
    char day[PAL_TIME_TEXT_SIZE];
    pal_arena *arena = pal_arena_new(0);
    bool found = arena != NULL;
    today(day);
    while (found) {
        pal_error err;
        size_t position = 0;
        pal_str name, id = {0};
        void *value;
        pal_arena_reset(arena);
        pthread_mutex_lock(&auth->lock);
        while (id.len == 0 && pal_map_next(&auth->cache, &position, &name, &value)) {
            cached_key *entry = value;
            if (entry->is_used)
                id = pal_arena_copy(arena, entry->key.id);
            entry->is_used = false;
        }
        pthread_mutex_unlock(&auth->lock);
        found = id.len > 0;
        if (found && pal_key_set_used(auth->store, id, pal_str_of(day), arena, &err) != PAL_OK)
            pal_log(PAL_LOG_WARN, "could not record the last use of key %.*s: %s",
                    PAL_STR_ARG(id), err.message);
    }
    pal_arena_free(arena);
    renew_logins(auth);
}

/* ---- The caller ---- */

/* The start of the day or of the month, in UTC. */
static int64_t period_start(bool is_monthly)
{
    int64_t ms = 0;
    char text[PAL_TIME_TEXT_SIZE];
    today(text);
    if (is_monthly)
        memcpy(text + 8, "01", 2);
    memcpy(text + DAY_TEXT_LEN, "T00:00:00Z", 11);
    (void)pal_time_from_text(pal_str_of(text), &ms);
    return ms;
}

static pal_str secret_of(const pal_exchange *x)
{
    static const char scheme[] = "bearer ";
    pal_str header = x->headers.authorization;
    size_t len = sizeof scheme - 1;
    if (header.len == len || !pal_text_begins_nocase(header, scheme))
        return x->headers.api_key;
    while (len < header.len && header.data[len] == ' ')
        len++;
    return pal_str_make(header.data + len, header.len - len);
}

static pal_status refuse_unknown(pal_call *call, pal_error *err, const char *why)
{
    pal_exchange_add_header(call->exchange, "www-authenticate", pal_str_of("Bearer"));
    return pal_call_refuse(call, 401, "unauthorized", PAL_DENIED, err,
            "%s; send a key in the header 'Authorization: Bearer KEY', or create one with 'palaver "
            "key create'",
            why);
}

pal_status pal_auth_refuse_wrong(pal_call *call, const char *why, pal_error *err)
{
    char who[sizeof "failed " + PAL_PEER_SIZE] = "failed ";
    int64_t retry_ms = 0;
    uint32_t per_minute = call->server->settings->key_failures_per_minute;
    pal_peer_block(call->exchange->peer, who + strlen(who));
    if (pal_rate_take(call->server->rate, pal_str_of(who), per_minute, pal_clock_monotonic_us(),
                &retry_ms))
        return refuse_unknown(call, err, why);
    call->fail_retry_ms = retry_ms;
    return pal_call_refuse(call, 429, "rate_limited", PAL_LIMIT, err,
            "limit of %u invalid keys per minute from this address exceeded; retry in %lld s",
            (unsigned)per_minute, (long long)((retry_ms + 999) / 1000));
}

/* Only the key of an admin can name another tenant. */
static pal_status choose_tenant(pal_call *call, const pal_key *key, pal_error *err)
{
    pal_str asked = call->exchange->headers.tenant;
    call->caller.tenant = key ? key->tenant : pal_str_of("default");
    if (asked.len == 0 || pal_str_equal(asked, call->caller.tenant))
        return PAL_OK;
    call->fail_param = "x-palaver-tenant";
    if (!key || key->role != PAL_KEY_ADMIN)
        return pal_call_refuse(call, 403, "forbidden", PAL_DENIED, err,
                "header x-palaver-tenant must not name another tenant; use a key with role "
                "'admin'");
    pal_status status = pal_key_tenant_check(asked, err);
    if (status == PAL_OK) {
        call->caller.tenant = asked;
        call->fail_param = NULL;
    }
    return status;
}

static pal_status accept_key(pal_call *call, const pal_key *key, pal_error *err)
{
    pal_caller *caller = &call->caller;
    caller->role = key->role;
    caller->key_id = key->id;
    snprintf(caller->budget.owner, sizeof caller->budget.owner, "%.*s", PAL_STR_ARG(key->id));
    caller->budget.tenant_tokens = key->budget_tokens;
    caller->budget.tenant_cost_micros = key->budget_cost_micros;
    if (key->budget_tokens || key->budget_cost_micros)
        caller->budget.since = period_start(key->is_monthly);
    bool can_scrape =
            key->role == PAL_KEY_METRICS && (call->route->flags & PAL_API_SCRAPE) != 0;
    if (key->role < call->route->role && !can_scrape)
        return pal_call_refuse(call, 403, "forbidden", PAL_DENIED, err,
                "role '%s' is required; the key has role '%s'",
                pal_key_role_name(call->route->role), pal_key_role_name(key->role));
    return choose_tenant(call, key, err);
}

/* Finds the key of the request: the one that it has, or the one that its browser has logged in
 * with. PAL_NOT_FOUND: neither is valid. *out_is_given: the request has a key or a login. */
static pal_status find_caller_key(
        pal_call *call, pal_key *out_key, bool *out_is_given, pal_error *err)
{
    pal_auth *auth = call->server->auth;
    pal_str secret = secret_of(call->exchange);
    pal_str half = call->exchange->headers.page_half;
    pal_str cookie = pal_login_cookie_of(call->exchange->headers.cookie);
    call->caller.is_login = !secret.len && half.len && cookie.len;
    *out_is_given = secret.len || call->caller.is_login;
    if (!*out_is_given)
        return PAL_NOT_FOUND;
    return call->caller.is_login ? find_login(auth, cookie, half, call->arena, out_key, err)
                                 : find_key(auth, secret, call->arena, out_key, err);
}

pal_status pal_auth_caller(pal_call *call, uint32_t *out_rate, pal_error *err)
{
    bool any, is_given;
    pal_key key;
    pal_auth *auth = call->server->auth;
    *out_rate = call->server->settings->requests_per_minute;
    pal_status status = pal_auth_has_keys(auth, &any, err);
    if (status != PAL_OK)
        return status;
    if (!any && auth->is_local) {
        call->caller.role = PAL_KEY_ADMIN;
        return choose_tenant(call, NULL, err);
    }
    status = find_caller_key(call, &key, &is_given, err);
    if (!is_given)
        return refuse_unknown(call, err, "this server requires an API key");
    if (status == PAL_NOT_FOUND)
        return pal_auth_refuse_wrong(call, call->caller.is_login
                        ? "the login has ended or is not valid" : "the API key is not known", err);
    if (status != PAL_OK)
        return status;
    if (key.revoked_at)
        return pal_auth_refuse_wrong(call, "the API key was revoked", err);
    /* The node that passed the request on has checked where it comes from. */
    if (call->caller.is_login && !call->is_passed)
        status = pal_auth_own_page(call, err);
    if (status != PAL_OK)
        return status;
    if (key.requests_per_minute)
        *out_rate = key.requests_per_minute;
    return accept_key(call, &key, err);
}

bool pal_auth_is_known(pal_call *call)
{
    pal_key key;
    bool is_given;
    pal_auth *auth = call->server->auth;
    if (!had_keys(auth) && auth->is_local)
        return true;
    return find_caller_key(call, &key, &is_given, NULL) == PAL_OK && !key.revoked_at;
}

/* ---- Names of this machine ---- */

/* Maps "[::1]:80" to "[::1]", and "localhost:80" to "localhost". */
static pal_str without_port(pal_str host)
{
    size_t len = host.len;
    while (len > 0 && host.data[len - 1] >= '0' && host.data[len - 1] <= '9')
        len--;
    if (len > 0 && len < host.len && host.data[len - 1] == ':' &&
            (host.data[0] != '[' || (len > 1 && host.data[len - 2] == ']')))
        return pal_str_make(host.data, len - 1);
    return host;
}

/* True for "127.0.0.1", but not for "127.0.0.1.example.org". */
static bool is_loopback_number(pal_str host)
{
    if (host.len <= 4 || memcmp(host.data, "127.", 4) != 0)
        return false;
    for (size_t i = 0; i < host.len; i++) {
        if (!memchr("0123456789.", host.data[i], 11))
            return false;
    }
    return true;
}

bool pal_auth_address_is_local(pal_str listen)
{
    pal_str host = without_port(listen);
    return pal_text_is_nocase(host, "localhost") || pal_text_is_nocase(host, "[::1]") ||
            pal_text_is_nocase(host, "::1") ||
            is_loopback_number(host);
}

bool pal_auth_origin_is_own(const pal_call *call, pal_str origin, bool any_scheme)
{
    static const char *const schemes[] = {"http://", "https://"};
    const pal_config_server *config = &call->server->config->server;
    bool is_tls = config->tls_certificate.len || config->tls_key.len;
    pal_str host = call->exchange->headers.host;
    for (size_t i = 0; i < 2; i++) {
        size_t len = strlen(schemes[i]);
        if (origin.len != len + host.len || memcmp(origin.data, schemes[i], len) != 0)
            continue;
        return (any_scheme || is_tls == (i == 1)) &&
                strncasecmp(origin.data + len, host.data, host.len) == 0;
    }
    return false;
}

/* Browsers send the origin of a request, and pages cannot change it. Other programs send no
 * origin. */
static bool is_own_page(const pal_call *call, pal_str origin)
{
    pal_str site = call->exchange->headers.fetch_site;
    if (site.len)
        return pal_str_is(site, "same-origin") || pal_str_is(site, "none");
    return origin.len == 0 || pal_auth_origin_is_own(call, origin, false);
}

/* True if a person follows a link to the page. Browsers set these headers, and pages cannot. The
 * page cannot be shown inside of another one. */
static bool is_navigation(const pal_call *call)
{
    const pal_exchange *x = call->exchange;
    return (call->route->flags & PAL_API_PAGE) &&
            pal_str_is(pal_exchange_header(x, "sec-fetch-mode"), "navigate") &&
            pal_str_is(pal_exchange_header(x, "sec-fetch-dest"), "document");
}

pal_status pal_auth_own_page(pal_call *call, pal_error *err)
{
    if (is_own_page(call, call->exchange->headers.origin))
        return PAL_OK;
    return pal_call_refuse(call, 403, "forbidden", PAL_DENIED, err,
            "a login counts only for requests of the server's own page; send a key in the header "
            "'Authorization: Bearer KEY'");
}

pal_status pal_auth_local(pal_call *call, pal_error *err)
{
    bool any = false;
    pal_status status = PAL_OK;
    /* Routes that need no key, such as /healthz, must not wait for the store, which may be slow. */
    if (call->route->role == PAL_KEY_NONE)
        any = had_keys(call->server->auth);
    else
        status = pal_auth_has_keys(call->server->auth, &any, err);
    if (status != PAL_OK || any)
        return status;
    pal_str host = call->exchange->headers.host;
    pal_str origin = call->exchange->headers.origin;
    if (!pal_auth_address_is_local(host))
        return pal_call_refuse(call, 403, "forbidden", PAL_DENIED, err,
                "host '%.*s' is not allowed while the server has no keys; use localhost, or create "
                "a key with 'palaver key create'", PAL_EXCERPT(host, 80));
    if (is_own_page(call, origin) || is_navigation(call) ||
            (origin.len && pal_server_settings_allows(call->server->settings, origin)))
        return PAL_OK;
    if (!origin.len)
        return pal_call_refuse(call, 403, "forbidden", PAL_DENIED, err,
                "a request from a page of another origin must have an Origin header that "
                "server.cors_origins contains");
    return pal_call_refuse(call, 403, "forbidden", PAL_DENIED, err,
            "origin '%.*s' is not allowed; add it to server.cors_origins", PAL_EXCERPT(origin, 80));
}
