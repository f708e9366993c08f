/* server_settings.h - what of the configuration may change while the server runs. Everything else
 * of it is read where it is needed, from what the server was started with. */
#ifndef PAL_SERVER_SETTINGS_H
#define PAL_SERVER_SETTINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include "palaver/config.h"

typedef struct pal_settings {
    atomic_uint requests_per_minute;
    atomic_uint key_failures_per_minute;
    atomic_uint turns_per_key;
    atomic_uint streams_per_key;
    atomic_bool log_text;
    atomic_uint_fast64_t stream_bytes_max;
    _Atomic int64_t idempotency_ms;
    _Atomic int64_t session_expiration; /* as in pal_config_expiry */
    _Atomic int64_t cleanup_interval;
    _Atomic int64_t trash_retention;
    struct pal_origins *origins; /* whose pages may call */
} pal_settings;

/* NULL without memory. */
pal_settings *pal_settings_new(const pal_config_values *config);
void pal_settings_free(pal_settings *settings); /* accepts NULL */

/* They count from now on, for every thread. On failure nothing has changed. */
PAL_CHECKED pal_status pal_settings_set(
        pal_settings *settings, const pal_config_values *config, pal_error *err);

/* Whether the configuration lets pages of that origin read answers. From any thread. */
bool pal_origin_is_allowed(pal_settings *settings, pal_str origin);

/* Whether a key of the configuration, "server.cors_origins", is among what can change. */
bool pal_settings_has(pal_str key, bool is_tls);

#endif
