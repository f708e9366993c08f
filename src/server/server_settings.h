/* server_settings.h - the part of the configuration that can change while the server runs.
 * Everything else is read from the configuration that the server was started with. */
#ifndef PAL_SERVER_SETTINGS_H
#define PAL_SERVER_SETTINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include "palaver/config.h"

typedef struct pal_server_settings {
    atomic_uint requests_per_minute;
    atomic_uint key_failures_per_minute;
    atomic_uint turns_per_key;
    atomic_uint streams_per_key;
    atomic_bool log_text;
    atomic_uint_fast64_t stream_bytes_max;
    _Atomic int64_t idempotency_ms;
    _Atomic int64_t session_expiration; /* see pal_config_expiry */
    _Atomic int64_t cleanup_interval;
    _Atomic int64_t trash_retention;
    _Atomic pal_config_recorder recorder;
    struct pal_origins *origins; /* origins whose pages can call the server */
} pal_server_settings;

/* NULL: out of memory. */
pal_server_settings *pal_server_settings_new(const pal_config_values *config);
void pal_server_settings_free(pal_server_settings *settings); /* accepts NULL */

/* Applies the settings for all threads from now on. On failure nothing has changed. */
PAL_CHECKED pal_status pal_server_settings_set(
        pal_server_settings *settings, const pal_config_values *config, pal_error *err);

/* True if the configuration lets pages of that origin read responses. Can be called from any
 * thread. */
bool pal_server_settings_allows(pal_server_settings *settings, pal_str origin);

/* True if a configuration key, such as "server.cors_origins", can change while the server runs.
 * `is_tls`: the listener uses TLS. */
bool pal_server_settings_has(pal_str key, bool is_tls);

#endif
