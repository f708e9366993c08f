/* server_reload.c - applies a configuration that was read again, and logs which changes need a
 * restart. Call it from the thread that waits for signals. */
#include "base/log.h"
#include "base/map.h"
#include "base/memory.h"
#include "server/access/access_auth.h"
#include "server/server.h"
#include "server/server_settings.h"

/* ---- Differences ---- */

typedef struct entries {
    pal_config_entry *items;
    size_t len;
    pal_map by_key;
} entries;

static pal_status read_entries(
        const pal_config *config, pal_arena *arena, entries *out, pal_error *err)
{
    pal_status status = pal_config_list(config, arena, &out->items, &out->len, err);
    for (size_t i = 0; status == PAL_OK && i < out->len; i++)
        status = pal_map_set(&out->by_key, out->items[i].key, &out->items[i]);
    return status;
}

/* A value from the command line stays. */
static bool is_changed(const pal_config_entry *entry, const entries *others)
{
    const pal_config_entry *other = pal_map_find(&others->by_key, entry->key);
    if (entry->source == PAL_CONFIG_FLAG || (other && other->source == PAL_CONFIG_FLAG))
        return false;
    return !other || !pal_str_equal(entry->value, other->value);
}

typedef enum change_kind {
    CHANGE_NOW = 0,
    CHANGE_AFTER_RESTART = 1,
} change_kind;

/* Which parts of the new configuration are in use. */
typedef struct applied {
    bool is_tls; /* the listener uses TLS */
    bool settings;
    bool certificate;
} applied;

static bool is_applied(const applied *parts, pal_str key)
{
    bool is_certificate =
            pal_str_is(key, "server.tls_certificate") || pal_str_is(key, "server.tls_key");
    return is_certificate ? parts->certificate : parts->settings;
}

static void log_change(const pal_config_entry *entry, change_kind kind, const applied *parts)
{
    bool is_now = pal_server_settings_has(entry->key, parts->is_tls);
    if (is_now && kind == CHANGE_NOW && is_applied(parts, entry->key))
        pal_log(PAL_LOG_INFO, "reloaded '%.*s': the new value is %.*s", PAL_STR_ARG(entry->key),
                PAL_STR_ARG(entry->value));
    else if (!is_now && kind == CHANGE_AFTER_RESTART)
        pal_log(PAL_LOG_WARN, "'%.*s' has changed; restart the server to apply it",
                PAL_STR_ARG(entry->key));
}

/* A key of a list can be in only one of the two configurations. */
static pal_status log_changes(const pal_config *before, const pal_config *after, change_kind kind,
        const applied *parts, pal_error *err)
{
    entries old = {0}, fresh = {0};
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    pal_status status = read_entries(before, arena, &old, err);
    if (status != PAL_OK)
        goto out;
    status = read_entries(after, arena, &fresh, err);
    if (status != PAL_OK)
        goto out;
    for (size_t i = 0; i < fresh.len; i++) {
        if (is_changed(&fresh.items[i], &old))
            log_change(&fresh.items[i], kind, parts);
    }
    for (size_t i = 0; i < old.len; i++) {
        if (!pal_map_find(&fresh.by_key, old.items[i].key) && is_changed(&old.items[i], &fresh))
            log_change(&old.items[i], kind, parts);
    }
out:
    pal_map_done(&old.by_key);
    pal_map_done(&fresh.by_key);
    pal_arena_free(arena);
    return status;
}

/* ---- Applying ---- */

void pal_server_reload(pal_server *server, const pal_config *started, const pal_config *before,
        const pal_config *after)
{
    pal_error err;
    const pal_config_values *values = pal_config_get(after);
    applied parts = {.is_tls = pal_listener_is_tls(server->listener)};
    parts.settings = pal_server_settings_set(server->settings, values, &err) == PAL_OK;
    if (!parts.settings)
        pal_log(PAL_LOG_ERROR, "could not reload the settings, the old ones stay in use: %s",
                err.message);
    parts.certificate = pal_listener_reload(server->listener, &values->server, &err) == PAL_OK;
    if (!parts.certificate)
        pal_log(PAL_LOG_ERROR, "could not reload the certificate, the old one stays in use: %s",
                err.message);
    else if (parts.is_tls)
        pal_log(PAL_LOG_INFO, "reloaded the certificate '%.*s' for new connections",
                PAL_STR_ARG(values->server.tls_certificate));
    /* Compare with the configuration that was applied last, and with the one from the start. */
    if (log_changes(before, after, CHANGE_NOW, &parts, &err) != PAL_OK ||
            log_changes(started, after, CHANGE_AFTER_RESTART, &parts, &err) != PAL_OK)
        pal_log(PAL_LOG_WARN, "could not list the changed settings: %s", err.message);
}
