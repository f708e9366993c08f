/* config.h - the configuration: one YAML file, in which every key has a default. Environment
 * variables override the file, and the program can override both; the command `palaver` does so
 * with its options. docs/configuration.md lists all keys.
 *
 * Errors in a file name the file and the line: "palaver.yaml:12: unknown key 'contxt' ...".
 *
 * Threads: any number of threads can read one configuration. pal_config_set() and
 * pal_config_read_environment() must not run at the same time as other calls. */
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

/* ---- Values ---- */

/* Prices in USD per million tokens. Negative: not given. Cached input without a price costs as much
 * as other input. */
typedef struct pal_config_price {
    double input;
    double cache_read;
    double cache_write;
    double output;
    PAL_RESERVED(4);
} pal_config_price;

/* A model with its properties and its prices. */
typedef struct pal_config_model {
    pal_model_rule rule;
    pal_config_price price;
    PAL_RESERVED(4);
} pal_config_model;

/* Durations in milliseconds. 0: forever. */
typedef struct pal_config_expiry {
    int64_t session_expiration;
    int64_t cleanup_interval;
    int64_t trash_retention;
    PAL_RESERVED(4);
} pal_config_expiry;

/* Limits for one tenant. 0: no limit. */
typedef struct pal_config_limits {
    uint32_t sessions_per_tenant; /* becomes pal_store_options.sessions_max */
    PAL_RESERVED(6);
} pal_config_limits;

/* Settings of `palaver serve`. 0 means "no limit" only if the key's help says so. */
typedef struct pal_config_server {
    pal_str listen;                 /* for example "127.0.0.1:7077" or "[::1]:7077" */
    pal_str tls_certificate;        /* path of a file; requires tls_key */
    pal_str tls_key;                /* path of a file; requires tls_certificate */
    const pal_str *trusted_proxies; /* addresses of proxies whose forwarding headers are trusted */
    size_t trusted_proxies_len;
    const pal_str *cors_origins; /* origins whose pages can call the server; "*": any */
    size_t cors_origins_len;
    uint64_t body_bytes_max;      /* maximum size of a request body */
    uint32_t header_bytes_max;    /* maximum size of the headers of a request */
    uint32_t url_bytes_max;       /* maximum length of a URL */
    uint32_t connections_max;     /* maximum number of connections at the same time */
    uint32_t streams_max;         /* maximum number of event streams at the same time */
    uint64_t stream_bytes_max;    /* maximum of bytes that wait for one slow reader; then its stream
                                     is closed */
    uint32_t requests_per_minute; /* maximum for one key, or for one address if there are no keys;
                                     0: no limit */
    int64_t idle_ms;              /* how long a connection can stay open without a request */
    int64_t request_ms;           /* how long a complete request can take to arrive */
    int64_t heartbeat_ms;         /* interval of keep-alive comments in an idle stream */
    int64_t drain_ms;             /* how long running turns can take to end after SIGTERM */
    int64_t idempotency_ms;       /* how long a response is kept for its idempotency key */
    uint32_t threads;             /* 0: one per core, up to 8 */
    pal_str log_level;            /* "debug", "info", "warn" or "error" */
    bool log_text;                /* the log can contain texts of messages */
    pal_str otlp_url;             /* where traces are sent; empty: no traces */
    uint64_t bodies_bytes_max;    /* maximum size of all request bodies in memory together */
    /* Maximum number of connections from one address. 0: half of connections_max; fifteen
     * sixteenths if the server listens on a loopback address. */
    uint32_t connections_per_address;
    uint32_t key_failures_per_minute; /* requests from one address with a wrong key; 0: no limit */
    uint32_t turns_per_key;           /* turns and forwarded requests of one key at the same time;
                                         0: no limit */
    uint32_t streams_per_key;         /* streams of one key at the same time; 0: no limit */
    bool websocket;                   /* GET /v1/responses opens a WebSocket */
    int64_t websocket_age_ms;         /* an older WebSocket takes no more requests */
    bool responses_tools_off; /* requests to /v1/responses without "tools" are not offered the tools
                                 of tool servers */
    pal_str advertise; /* URL at which other nodes reach this server; empty: derived from listen */
    int64_t drain_delay_ms; /* how long a node that stops still accepts connections */
    pal_str page_dir;       /* directory with the files of the page; empty: the built-in ones */
    bool page_off;          /* GET / does not show the page */
    PAL_RESERVED(7);
} pal_config_server;

/* Which requests of clients that keep their history themselves are recorded into sessions. */
typedef enum pal_config_recorder {
    PAL_CONFIG_RECORDER_OFF = 0,
    PAL_CONFIG_RECORDER_HEADERS = 1, /* requests that name their conversation */
    PAL_CONFIG_RECORDER_ON = 2,      /* and requests that are recognized by their first messages */
} pal_config_recorder;

struct pal_context_settings; /* declared in context.h */
struct pal_runtime_options;  /* declared in turn.h */
struct pal_channel_settings; /* declared in channel.h */

/* All values. Texts are terminated with a NUL. Everything belongs to the configuration. */
typedef struct pal_config_values {
    pal_str store; /* a URL for pal_store_open() */
    const pal_config_model *models;
    size_t models_len;
    const pal_model_rule *model_rules; /* the rules of `models`, for pal_models_new() */
    pal_route_config session;          /* for pal_route_settings_new(); includes the agents */
    const struct pal_context_settings *context;
    pal_config_expiry expiry;
    const struct pal_runtime_options *runtime; /* endpoints, prices, agents and so on, but neither
                                                  the store nor the models nor members that can
                                                  contain a secret; use pal_config_runtime() for
                                                  those */
    pal_config_server server;
    pal_config_limits limits;
    pal_config_recorder recorder;
    uint64_t store_cache; /* for pal_store_options.cache_bytes */
    PAL_RESERVED(14);
} pal_config_values;

/* ---- Life cycle ---- */

typedef struct pal_config pal_config;

/* Reads a configuration file. `path` NULL or an empty file: all defaults. The caller must release
 * the configuration with pal_config_free(). Blocks on the disk.
 *
 *   PAL_INVALID, PAL_LIMIT             the content is wrong; `err` names the line
 *   PAL_NOT_FOUND, PAL_DENIED, PAL_IO  the file cannot be read */
PAL_API PAL_CHECKED pal_status pal_config_load(
        const char *path, pal_config **out_config, pal_error *err);

/* Like pal_config_load(), but reads a text. `name` is used instead of the file's name in errors. */
PAL_API PAL_CHECKED pal_status pal_config_parse(
        pal_str text, const char *name, pal_config **out_config, pal_error *err);

/* Frees a configuration. Accepts NULL. */
PAL_API void pal_config_free(pal_config *config);

/* Returns the current values. Call it again after a value was overridden. Valid until then, or
 * until the configuration is freed. */
PAL_API const pal_config_values *pal_config_get(const pal_config *config);

/* Returns the path of the file, or the `name` of pal_config_parse(). NULL if there is none. */
PAL_API const char *pal_config_path(const pal_config *config);

/* Returns the warnings one by one: keys that work but belong in another place, such as keys in the
 * section of another system. `out_text` names the place where they belong; it is owned by the
 * configuration. False if `index` is past the last one. */
PAL_API bool pal_config_warning_at(
        const pal_config *config, size_t index, pal_str *out_text, uint32_t *out_line);

/* ---- Overriding values ---- */

/* The place that a value comes from. */
typedef enum pal_config_source {
    PAL_CONFIG_DEFAULT = 0,
    PAL_CONFIG_FILE = 1,
    PAL_CONFIG_ENVIRONMENT = 2,
    PAL_CONFIG_FLAG = 3,
} pal_config_source;

/* Returns the name, for example "environment". "unknown" for an unknown value. */
PAL_API const char *pal_config_source_name(pal_config_source source);

/* Sets a single key, such as "context.max_tokens", to a value that is written as in the file. Lists
 * and keys in lists cannot be set. If the call fails, nothing has changed. */
PAL_API PAL_CHECKED pal_status pal_config_set(pal_config *config, const char *key, pal_str value,
        pal_config_source source, pal_error *err);

/* Applies the environment variables that override keys: PALAVER_CONTEXT_MAX_TOKENS overrides
 * "context.max_tokens". Empty variables are ignored. PAL_INVALID: `err` names a variable with a
 * wrong value, or one that looks like the variable of a key but is not. */
PAL_API PAL_CHECKED pal_status pal_config_read_environment(pal_config *config, pal_error *err);

/* ---- Using a configuration ---- */

/* Returns the options for pal_runtime_open(), except the store and the models. Providers and tool
 * servers get their secrets from the environment variables that the configuration names. The result
 * points into the arena and the configuration, and must not outlive either. PAL_NOT_FOUND: `err`
 * names the environment variable that is not set. */
PAL_API PAL_CHECKED pal_status pal_config_runtime(const pal_config *config, pal_arena *arena,
        struct pal_runtime_options *out_options, pal_error *err);

/* Returns the accounts of channels with their secrets, as pal_channels_open() takes them. The
 * result points into the arena and the configuration. PAL_NOT_FOUND: `err` names the environment
 * variable that is not set. */
PAL_API PAL_CHECKED pal_status pal_config_channels(const pal_config *config, pal_arena *arena,
        struct pal_channel_settings **out_accounts, size_t *out_len, pal_error *err);

/* ---- Inspecting a configuration ---- */

/* Returns where a value comes from. For a list it is the source of the list. PAL_CONFIG_DEFAULT if
 * there is no such key. */
PAL_API pal_config_source pal_config_source_of(const pal_config *config, const char *key);

/* A key and its current value. */
typedef struct pal_config_entry {
    pal_str key;   /* for example "models[0].price.input" */
    pal_str value; /* JSON, without secrets */
    pal_config_source source;
    uint32_t line; /* line in the file; 0: the value does not come from the file */
    PAL_RESERVED(4);
} pal_config_entry;

/* Lists all keys and their current values, in the order of the documentation, in the arena. */
PAL_API PAL_CHECKED pal_status pal_config_list(const pal_config *config, pal_arena *arena,
        pal_config_entry **out_entries, size_t *out_len, pal_error *err);

/* ---- Keys ---- */

#define PAL_CONFIG_KEY_SIZE 80

/* Describes a key. In `path`, "models[]" means any element of a list, and "*" any name. */
typedef struct pal_config_key {
    char path[PAL_CONFIG_KEY_SIZE];
    char environment[PAL_CONFIG_KEY_SIZE]; /* the variable that overrides the key; empty: none */
    char wants[160];   /* the accepted values, for example "a whole number from 1 to 100" */
    const char *value; /* the default, as it is written in the file; NULL: none */
    const char *help;  /* one line that explains the key */
    bool is_required;  /* every element of its list must have this key */
    bool is_group;     /* the key contains other keys, which follow */
    PAL_RESERVED(4);
} pal_config_key;

/* Returns the keys one by one. False if `index` is past the last one. */
PAL_API bool pal_config_key_at(size_t index, pal_config_key *out_key);

/* Returns a configuration file with all keys, their defaults and explanations, in the arena. */
PAL_API PAL_CHECKED pal_status pal_config_example(
        pal_arena *arena, pal_str *out_text, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
