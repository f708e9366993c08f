/* config.h - the configuration file: one YAML file, every key with a default. The environment
 * overrides it, and whoever loads it may do so again, as the command does with its options.
 * docs/configuration.md has all keys.
 *
 * Errors of a file name it and the line: "palaver.yaml:12: unknown key 'contxt' ...". Once it is
 * loaded and overridden, a configuration never changes: many threads may read one. */
#ifndef PALAVER_CONFIG_H
#define PALAVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/route.h"
#include "palaver/str.h"
#include "palaver/tokens.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PAL_CONFIG_STORE_DEFAULT "sqlite:palaver-data/palaver.db"

/* ---- What is configured: a field for each key ---- */

/* In USD for a million tokens; negative where it isn't given. Cached input costs as much as other
 * input where it has no price of its own. */
typedef struct pal_config_price {
    double input;
    double cache_read;
    double cache_write;
    double output;
} pal_config_price;

typedef struct pal_config_model {
    pal_model_rule rule;
    pal_config_price price;
} pal_config_model;

/* In milliseconds; 0 where the key says "for good". */
typedef struct pal_config_expiry {
    int64_t session_expiration;
    int64_t cleanup_interval;
    int64_t trash_retention;
} pal_config_expiry;

/* What one tenant may have; 0: no bound. */
typedef struct pal_config_limits {
    uint32_t sessions_per_tenant; /* for pal_store_options.sessions_max */
} pal_config_limits;

/* `palaver serve`. 0 means "no bound" only where a key's help says so. */
typedef struct pal_config_server {
    pal_str listen;          /* "127.0.0.1:7077", "[::1]:7077" */
    pal_str tls_certificate; /* files; both or none */
    pal_str tls_key;
    const pal_str *trusted_proxies; /* addresses whose forwarded headers are believed */
    size_t trusted_proxies_len;
    const pal_str *cors_origins; /* "*": any */
    size_t cors_origins_len;
    uint64_t body_bytes_max;
    uint32_t header_bytes_max;
    uint32_t url_bytes_max;
    uint32_t connections_max;
    uint32_t streams_max;         /* readers of events at once */
    uint64_t stream_bytes_max;    /* that wait for one slow reader; then it is let go */
    uint32_t requests_per_minute; /* of one key, or one address without keys; 0: no bound */
    int64_t idle_ms;              /* a connection without a request */
    int64_t request_ms;           /* for a request to arrive as a whole */
    int64_t heartbeat_ms;         /* between comments in a quiet stream */
    int64_t drain_ms;             /* that turns have to end after SIGTERM */
    int64_t idempotency_ms;       /* how long an answer is remembered by its key */
    uint32_t threads;             /* 0: one a core, at most 8 */
    pal_str log_level;            /* "debug", "info", "warn", "error" */
    bool log_text;                /* texts of messages may be in the log */
    pal_str otlp_url;             /* traces go there; empty: none are made */
    uint64_t bodies_bytes_max;    /* bytes of all request bodies in memory together */
    /* Connections of one address at the same time. 0: a half of connections_max, and on a server
     * that listens on a loopback address fifteen sixteenths. */
    uint32_t connections_per_address;
    uint32_t key_failures_per_minute; /* requests of one address with a wrong key; 0: no bound */
    uint32_t turns_per_key;   /* turns and passed-on calls of one key at once; 0: no bound */
    uint32_t streams_per_key; /* streams of one key at once; 0: no bound */
} pal_config_server;

struct pal_context_settings; /* context.h */
struct pal_runtime_options;  /* turn.h */

/* Texts have a NUL behind them. Everything is the configuration's own. */
typedef struct pal_config_values {
    pal_str store; /* a URL, for pal_store_open() */
    const pal_config_model *models;
    size_t models_len;
    const pal_model_rule *model_rules; /* of the same models, for pal_models_new() */
    pal_route_config session;          /* with the agents, for pal_route_settings_new() */
    const struct pal_context_settings *context;
    pal_config_expiry expiry;
    const struct pal_runtime_options *runtime; /* endpoints, prices, agents, ...: all but the store,
                                                  the models, and whatever may hold a secret;
                                                  pal_config_runtime() has that */
    pal_config_server server;
    pal_config_limits limits;
} pal_config_values;

/* ---- Life cycle ---- */

typedef struct pal_config pal_config;

/* Reads the file; `path` NULL gives the defaults, and so does an empty file. PAL_INVALID and
 * PAL_LIMIT name the line; PAL_NOT_FOUND, PAL_DENIED or PAL_IO where it can't be read. Release it
 * with pal_config_free(). */
PAL_API PAL_CHECKED pal_status pal_config_load(
        const char *path, pal_config **out_config, pal_error *err);

/* Likewise from a text; `name` stands for the file in errors. */
PAL_API PAL_CHECKED pal_status pal_config_parse(
        pal_str text, const char *name, pal_config **out_config, pal_error *err);

/* Accepts NULL. */
PAL_API void pal_config_free(pal_config *config);

/* The values as they are now: look again after overriding one. */
PAL_API const pal_config_values *pal_config_get(const pal_config *config);

/* The file that was read, or what pal_config_parse() called it; NULL when there is none. */
PAL_API const char *pal_config_path(const pal_config *config);

/* Something that works, but is better written otherwise: keys of another system's section, with the
 * place that they are read from. False if `index` is past the last one. The text is the
 * configuration's. */
PAL_API bool pal_config_warning_at(
        const pal_config *config, size_t index, pal_str *out_text, uint32_t *out_line);

/* ---- Overriding it ---- */

/* Where a value comes from. */
typedef enum pal_config_source {
    PAL_CONFIG_DEFAULT = 0,
    PAL_CONFIG_FILE = 1,
    PAL_CONFIG_ENVIRONMENT = 2,
    PAL_CONFIG_FLAG = 3,
} pal_config_source;

PAL_API const char *pal_config_source_name(pal_config_source source); /* "environment" */

/* Gives a single key ("context.max_tokens", not a list, nor one in a list) another value, written
 * as in the file. On failure nothing has changed. */
PAL_API PAL_CHECKED pal_status pal_config_set(pal_config *config, const char *key, pal_str value,
        pal_config_source source, pal_error *err);

/* Takes what the environment has: PALAVER_CONTEXT_MAX_TOKENS for "context.max_tokens". A variable
 * that is empty counts for nothing. */
PAL_API PAL_CHECKED pal_status pal_config_read_environment(pal_config *config, pal_error *err);

/* ---- Using it ---- */

/* Gives what pal_runtime_open() takes, all but the store and the models: providers and tool servers
 * with the secrets that they name in the environment, the provider and model that are chosen first.
 * It lies in the arena and in the configuration, and must not outlive either. PAL_NOT_FOUND names
 * the variable that is not set. */
PAL_API PAL_CHECKED pal_status pal_config_runtime(const pal_config *config, pal_arena *arena,
        struct pal_runtime_options *out_options, pal_error *err);

/* ---- Looking at it ---- */

/* PAL_CONFIG_DEFAULT also for a key that there isn't. Of lists, where the list comes from. */
PAL_API pal_config_source pal_config_source_of(const pal_config *config, const char *key);

/* One effective value. */
typedef struct pal_config_entry {
    pal_str key;   /* "models[0].price.input" */
    pal_str value; /* as JSON, without secrets */
    pal_config_source source;
    uint32_t line; /* in the file; 0 elsewhere */
} pal_config_entry;

/* All of them, in the order of the documentation; in the arena. */
PAL_API PAL_CHECKED pal_status pal_config_list(const pal_config *config, pal_arena *arena,
        pal_config_entry **out_entries, size_t *out_len, pal_error *err);

/* ---- What there is to configure ---- */

#define PAL_CONFIG_KEY_SIZE 80

/* One key; "models[]" stands for any element of a list, "*" for any name. */
typedef struct pal_config_key {
    char path[PAL_CONFIG_KEY_SIZE];
    char environment[PAL_CONFIG_KEY_SIZE]; /* the variable that overrides it; empty: none */
    char wants[160];                       /* "a whole number from 1 to 100" */
    const char *value;                     /* the default, as in the file; NULL: none */
    const char *help;                      /* one line */
    bool is_required;                      /* in every element of its list */
    bool is_group;                         /* has keys of its own, which follow */
} pal_config_key;

/* False when `index` is past the last one. */
PAL_API bool pal_config_key_at(size_t index, pal_config_key *out_key);

/* A file with all keys at their defaults and what they are for, in the arena. */
PAL_API PAL_CHECKED pal_status pal_config_example(
        pal_arena *arena, pal_str *out_text, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
