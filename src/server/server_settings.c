/* server_settings.c - the part of the configuration that can change while the server runs.
 *
 * Threads: any thread can read; one thread at a time can set. Each number is atomic, because
 * numbers are read one by one. The list of origins is copied, and read under a lock that only
 * requests from pages take. */
#include "server/server_settings.h"

#include <pthread.h>
#include <string.h>
#include "base/memory.h"
#include "palaver/arena.h"

struct pal_origins {
    pthread_mutex_t lock;
    pal_arena *arena;
    pal_str *items; /* allocated in `arena` */
    size_t len;
};

/* ---- Origins ---- */

static pal_status set_origins(
        struct pal_origins *origins, const pal_str *given, size_t len, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_str *items = arena ? pal_arena_array(arena, len ? len : 1, sizeof *items) : NULL;
    for (size_t i = 0; items && i < len; i++)
        items[i] = pal_arena_copy(arena, given[i]);
    if (!items || pal_arena_failure(arena)) {
        pal_arena_free(arena);
        return pal_no_memory(err);
    }
    pthread_mutex_lock(&origins->lock);
    pal_arena *before = origins->arena;
    origins->arena = arena;
    origins->items = items;
    origins->len = len;
    pthread_mutex_unlock(&origins->lock);
    pal_arena_free(before);
    return PAL_OK;
}

bool pal_server_settings_allows(pal_server_settings *settings, pal_str origin)
{
    struct pal_origins *origins = settings->origins;
    bool is_allowed = false;
    pthread_mutex_lock(&origins->lock);
    for (size_t i = 0; !is_allowed && i < origins->len; i++)
        is_allowed = pal_str_is(origins->items[i], "*") || pal_str_equal(origins->items[i], origin);
    pthread_mutex_unlock(&origins->lock);
    return is_allowed;
}

/* ---- All settings ---- */

pal_status pal_server_settings_set(
        pal_server_settings *settings, const pal_config_values *config, pal_error *err)
{
    const pal_config_server *server = &config->server;
    pal_status status =
            set_origins(settings->origins, server->cors_origins, server->cors_origins_len, err);
    if (status != PAL_OK)
        return status;
    settings->requests_per_minute = server->requests_per_minute;
    settings->key_failures_per_minute = server->key_failures_per_minute;
    settings->turns_per_key = server->turns_per_key;
    settings->streams_per_key = server->streams_per_key;
    settings->log_text = server->log_text;
    settings->stream_bytes_max = server->stream_bytes_max;
    settings->idempotency_ms = server->idempotency_ms;
    settings->session_expiration = config->expiry.session_expiration;
    settings->cleanup_interval = config->expiry.cleanup_interval;
    settings->trash_retention = config->expiry.trash_retention;
    settings->recorder = config->recorder;
    return PAL_OK;
}

pal_server_settings *pal_server_settings_new(const pal_config_values *config)
{
    pal_server_settings *settings = pal_calloc(1, sizeof *settings);
    if (!settings)
        return NULL;
    settings->origins = pal_calloc(1, sizeof *settings->origins);
    if (settings->origins)
        pthread_mutex_init(&settings->origins->lock, NULL);
    if (settings->origins && pal_server_settings_set(settings, config, NULL) == PAL_OK)
        return settings;
    pal_server_settings_free(settings);
    return NULL;
}

void pal_server_settings_free(pal_server_settings *settings)
{
    if (!settings)
        return;
    if (settings->origins) {
        pal_arena_free(settings->origins->arena);
        pthread_mutex_destroy(&settings->origins->lock);
        pal_free(settings->origins);
    }
    pal_free(settings);
}

bool pal_server_settings_has(pal_str key, bool is_tls)
{
    /* Some of these keys are applied by the listener (pal_listener_reload()), and server.drain by
     * the command. */
    static const char *const keys[] = {"server.requests_per_minute", "server.cors_origins",
            "server.body_bytes_max", "server.bodies_bytes_max", "server.key_failures_per_minute",
            "server.turns_per_key", "server.streams_per_key", "server.streams_max",
            "server.stream_bytes_max", "server.request_timeout", "server.heartbeat",
            "server.drain", "server.idempotency", "server.log_level", "server.log_text",
            "expiry.session_expiration", "expiry.cleanup_interval", "expiry.trash_retention",
            "recorder"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (pal_str_is(key, keys[i]))
            return true;
    }
    /* TLS cannot be turned on or off while the listener runs. */
    return is_tls &&
            (pal_str_is(key, "server.tls_certificate") || pal_str_is(key, "server.tls_key"));
}
