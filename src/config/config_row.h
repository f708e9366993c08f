/* config_row.h - the table of keys. Everything else is derived from it: checks, defaults, names of
 * environment variables, what is shown, the example and the documentation. A new key is one row in
 * config_keys.c and one field in a struct. */
#ifndef PAL_CONFIG_ROW_H
#define PAL_CONFIG_ROW_H

#include <stdint.h>
#include "base/json/json.h"
#include "config/config_node.h"
#include "palaver/channel.h"
#include "palaver/config.h"
#include "palaver/note.h"
#include "palaver/turn.h"

/* The type of a key, and the C type of its field. Types before PAL_CONFIG_TEXTS are single
 * values. */
typedef enum pal_config_kind {
    PAL_CONFIG_BOOL = 1,      /* bool */
    PAL_CONFIG_BOOL_OFF = 2,  /* bool whose value in the file is inverted */
    PAL_CONFIG_TEXT = 3,      /* pal_str */
    PAL_CONFIG_URL = 4,       /* pal_str; can contain a password, which is not shown */
    PAL_CONFIG_HTTP_URL = 5,  /* pal_str; begins with http:// or https://, or is empty; can contain
                                 a password */
    PAL_CONFIG_ADDRESS = 6,   /* pal_str: "127.0.0.1:7077" */
    PAL_CONFIG_VARIABLE = 7,  /* pal_str: the name of an environment variable, or empty */
    PAL_CONFIG_REFERENCE = 8, /* pal_str with any number of "${VARIABLE}" in it */
    PAL_CONFIG_COUNT = 9,     /* uint64_t */
    PAL_CONFIG_COUNT32 = 10,  /* uint32_t */
    PAL_CONFIG_DURATION = 11, /* int64_t, milliseconds */
    PAL_CONFIG_PRICE = 12,    /* double; negative: not given */
    PAL_CONFIG_WORD = 13,     /* an enum: the index of the word in `words`, plus `min` */
    PAL_CONFIG_TEXTS = 14,    /* const pal_str *, and a size_t at `len_offset` */
    PAL_CONFIG_SECTION = 15,  /* contains other keys, in the same struct or in a member of it */
    PAL_CONFIG_LIST = 16,     /* list of structs: a pointer, and a size_t at `len_offset` */
    PAL_CONFIG_MAP = 17,      /* map to structs, like a list; `rows` has two rows, for the name and
                                 for the value */
    PAL_CONFIG_OBJECT = 18,   /* pal_str: keys with any values, as a JSON object; empty: none */
} pal_config_kind;

/* A table of rows ends with a zeroed row. */
typedef struct pal_config_row pal_config_row;
struct pal_config_row {
    const char *name;
    pal_config_kind kind;
    size_t offset;            /* offset of the field in the struct of the table */
    const char *value;        /* the default, as it is written in the file; NULL: none */
    const char *help;         /* one line */
    uint64_t min, max;        /* limits of numbers (durations in ms); for lists and texts `max` is
                                 the number of elements or bytes */
    const char *const *words; /* the allowed words; ends with NULL */
    const char *(*word_at)(size_t index); /* the same, as a function; NULL after the last word */
    size_t len_offset;
    const pal_config_row *rows; /* rows of a section, a list or a map */
    size_t size;                /* size of one struct of a list or map */
    bool is_required;           /* every element of the list must have this key */
    const char *sample;         /* value for the example, if there is no default */
    const char *secret; /* variable: the key under which people might write the secret itself */
    bool is_derived;    /* without a value the command derives one: the example only mentions it */
    bool is_overlay;    /* section: keys that are not given keep their value from elsewhere, and the
                           defaults of its rows are not used */
};

/* A provider as in the file, with names of variables instead of secrets. */
typedef struct pal_config_provider {
    pal_endpoint endpoint; /* without api_key */
    pal_str api_key_env;
} pal_config_provider;

/* How an MCP server's access tokens are got. */
typedef enum pal_config_grant {
    PAL_CONFIG_GRANT_LOGIN = 0,
    PAL_CONFIG_GRANT_CLIENT = 1,
    PAL_CONFIG_GRANT_WORKLOAD = 2,
    PAL_CONFIG_GRANT_ENTERPRISE = 3,
} pal_config_grant;

typedef struct pal_config_auth {
    pal_tool_auth auth; /* without client_secret, client_credentials, file and idp */
    pal_str client_secret_env;
    pal_tool_idp idp; /* without client_secret */
    pal_str idp_secret_env;
    pal_config_grant grant;
} pal_config_auth;

typedef struct pal_config_tool_server {
    pal_tool_server server; /* without `environment` and `auth` */
    const pal_header *variables;
    size_t variables_len;
    pal_config_auth auth;
} pal_config_tool_server;

/* An account of a channel, with names of variables instead of secrets. */
typedef struct pal_config_channel {
    pal_channel_settings settings;
    pal_str token_env;
    pal_str password_env;
    pal_str secret_env;
} pal_config_channel;

typedef struct pal_config_agent {
    pal_route_agent route;
    pal_agent_settings settings;  /* without name and context */
    pal_context_settings context; /* only given keys are used */
} pal_config_agent;

/* The values of the whole file. */
typedef struct pal_config_state {
    pal_config_values values;
    pal_runtime_options runtime; /* values.runtime points to it */
    pal_memory_settings memory;  /* runtime.memory points to it */
    pal_str provider;            /* a name or a kind; empty: the first provider */
    pal_str provider_url;
    const pal_config_provider *providers;
    size_t providers_len;
    const pal_config_tool_server *tool_servers;
    size_t tool_servers_len;
    pal_str mcp_logins; /* a directory; empty: the user's state directory */
    const pal_config_agent *agents;
    size_t agents_len;
    const pal_config_channel *channels;
    size_t channels_len;
    pal_context_settings *agent_contexts; /* contexts of the agents in runtime.agents that have
                                             one */
} pal_config_state;

/* The top level of the file; its struct is pal_config_state. */
extern const pal_config_row pal_config_rows[];
/* The context settings that an agent can have; the struct is pal_context_settings. */
extern const pal_config_row pal_config_agent_context_rows[];
/* Tables that the top level points to (config_keys_runtime.c). */
extern const pal_config_row pal_config_provider_rows[];
extern const pal_config_row pal_config_tool_server_rows[];
extern const pal_config_row pal_config_turn_rows[]; /* the struct is pal_runtime_options */
extern const pal_config_row pal_config_server_rows[];
extern const pal_config_row pal_config_memory_rows[]; /* the struct is pal_memory_settings */
extern const pal_config_row pal_config_channel_rows[]; /* config_channel.c */

/* Returns the row of a key whose path leads only through sections; NULL if there is none. *out_base
 * is the offset of the table's struct in the state. */
const pal_config_row *pal_config_row_find(const char *path, size_t *out_base);

/* Called for each environment variable that can override a key. A failure ends the visits. */
typedef pal_status (*pal_config_on_variable)(const char *path, const char *name, void *user);
/* Visits all of them in one pass. Returns the failure of a visit (config_show.c). */
PAL_CHECKED pal_status pal_config_variables_each(pal_config_on_variable on_variable, void *user);

/* Returns an allowed word; NULL after the last one, or if all texts are allowed. */
static inline const char *pal_config_row_word(const pal_config_row *row, size_t index)
{
    return row->word_at ? row->word_at(index) : row->words ? row->words[index] : NULL;
}

static inline bool pal_config_row_is_scalar(const pal_config_row *row)
{
    return row->kind < PAL_CONFIG_TEXTS;
}

/* ---- Single values (config_value.c) ---- */

/* Writes the accepted values, for example "a whole number from 1 to 100". */
void pal_config_wants(const pal_config_row *row, char *out_text, size_t size);

/* Reads a scalar into the field. If it returns false, the value is not valid for the row, and the
 * field is unchanged. Texts are not copied. `scratch` is used only during the call. */
bool pal_config_value_read(
        const pal_config_row *row, pal_str text, bool is_plain, pal_arena *scratch, void *field);

/* Sets the field to the value that it has without a value and a default. */
void pal_config_value_clear(const pal_config_row *row, void *field);

/* Writes the value as JSON. */
void pal_config_value_write(const pal_config_row *row, const void *field, pal_buf *buf);

bool pal_config_word_is(const pal_config_row *row, pal_str text);

/* Makes the JSON object of a map (config_object.c). Returns false if the node is not a map or is
 * too long. */
bool pal_config_object_read(const pal_config_row *row, const pal_config_node *node,
        pal_arena *arena, pal_str *out_object);

/* Writes a hint about a key that is not in `rows`: "did you mean 'url'?" (config_unknown.c). */
void pal_config_unknown_hint(
        const pal_config_row *rows, pal_str name, char *out_hint, size_t size);

/* ---- Secrets (config_secret.c) ---- */

/* Returns true for upper-case letters, digits and '_', which cannot be mistaken for a secret. */
bool pal_config_variable_is_name(pal_str text);

/* Finds the next "${NAME}" from *at on, and moves *at after it. *out_before is the text before it.
 * Returns false if there is none. */
bool pal_config_reference_next(pal_str text, size_t *at, pal_str *out_before, pal_str *out_name);
/* Returns true if every "${" begins a valid reference. */
bool pal_config_reference_is_valid(pal_str text);

/* Returns true if a header or variable of this name has a value that contains a secret in clear
 * text. */
bool pal_config_secret_is_clear(pal_str name, pal_str value);

/* Write JSON, with "***" instead of secrets. */
void pal_config_url_write(pal_json_writer *writer, pal_str url);
void pal_config_reference_write(pal_json_writer *writer, pal_str text);

/* ---- Whole files (config_moved.c, config_read.c, config_check.c) ---- */

/* A warning about something that works but should be written differently. */
typedef struct pal_config_warning pal_config_warning;
struct pal_config_warning {
    uint32_t line;
    pal_str text;
    pal_config_warning *next;
};

/* Moves the keys of other systems to the places of ours. */
PAL_CHECKED pal_status pal_config_move(const pal_config_node *root, const char *name,
        pal_arena *arena, const pal_config_node **out_root, pal_config_warning **out_warnings,
        pal_error *err);

/* Sets the state, including defaults, from the tree, which may be NULL. If it fails, the state
 * cannot be used. */
PAL_CHECKED pal_status pal_config_state_read(const pal_config_node *root, const char *name,
        pal_arena *arena, pal_config_state *out_state, pal_error *err);

/* Checks conditions between several keys, and sets values that follow from several keys. */
PAL_CHECKED pal_status pal_config_state_check(const pal_config_node *root, const char *name,
        pal_arena *arena, pal_config_state *state, pal_error *err);

/* Sets again the values that follow from keys that can be overridden. Allocates no memory. */
void pal_config_state_refresh(const pal_config_node *root, pal_config_state *state);

/* ---- A configuration ---- */

/* A value that does not come from the file. */
typedef struct pal_config_override pal_config_override;
struct pal_config_override {
    const pal_config_row *row;
    pal_config_source source;
    pal_config_override *next;
};

struct pal_config {
    pal_arena *arena; /* holds everything, including this struct */
    const char *name; /* NULL: there is no file */
    const pal_config_node *root;
    pal_config_warning *warnings;
    pal_config_override *overrides; /* the newest of a row comes first */
    pal_config_state state;
};

/* Returns the source of a row's value. `node` is its node in the file; NULL: none. */
pal_config_source pal_config_row_source(
        const pal_config *config, const pal_config_row *row, const pal_config_node *node);

#endif
