/* config_row.h - the table of keys, from which everything else comes: checking, defaults, the
 * environment's names, what is shown, the example and the documentation. A new key is one row in
 * config_keys.c and one field in a struct. */
#ifndef PAL_CONFIG_ROW_H
#define PAL_CONFIG_ROW_H

#include <stdint.h>
#include "base/json.h"
#include "config/config_node.h"
#include "palaver/config.h"
#include "palaver/turn.h"

/* What a key holds, and the C type of its field. Those before PAL_CONFIG_TEXTS are single values.
 */
typedef enum pal_config_kind {
    PAL_CONFIG_BOOL = 1,      /* bool */
    PAL_CONFIG_BOOL_OFF = 2,  /* bool, of which true is written as false */
    PAL_CONFIG_TEXT = 3,      /* pal_str */
    PAL_CONFIG_URL = 4,       /* pal_str; may hold a password, which is not shown */
    PAL_CONFIG_HTTP_URL = 5,  /* likewise; begins with http:// or https://, or is empty */
    PAL_CONFIG_ADDRESS = 6,   /* pal_str: "127.0.0.1:7077" */
    PAL_CONFIG_VARIABLE = 7,  /* pal_str: the name of a variable of the environment, or empty */
    PAL_CONFIG_REFERENCE = 8, /* pal_str with any number of "${VARIABLE}" in it */
    PAL_CONFIG_COUNT = 9,     /* uint64_t */
    PAL_CONFIG_COUNT32 = 10,  /* uint32_t */
    PAL_CONFIG_DURATION = 11, /* int64_t, milliseconds */
    PAL_CONFIG_PRICE = 12,    /* double; negative: not given */
    PAL_CONFIG_WORD = 13,     /* an enum: the place of the word among `words` */
    PAL_CONFIG_TEXTS = 14,    /* const pal_str *, and a size_t at `len_offset` */
    PAL_CONFIG_SECTION = 15,  /* keys of its own, in the same struct or one within it */
    PAL_CONFIG_LIST = 16,     /* of structs: a pointer, and a size_t at `len_offset` */
    PAL_CONFIG_MAP = 17, /* likewise; `rows` has two, for the name and for what it stands for */
    PAL_CONFIG_OBJECT = 18, /* pal_str: keys with any values, as a JSON object; empty: none */
} pal_config_kind;

/* A table of them ends with a zeroed one. */
typedef struct pal_config_row pal_config_row;
struct pal_config_row {
    const char *name;
    pal_config_kind kind;
    size_t offset;            /* of the field in the struct that the table is about */
    const char *value;        /* the default, as in the file; NULL: none */
    const char *help;         /* one line */
    uint64_t min, max;        /* of numbers (durations in ms); of lists and texts `max` is the
                                 number of elements or bytes */
    const char *const *words; /* that a text, each text or a word must be one of; NULL at the end */
    size_t len_offset;
    const pal_config_row *rows; /* of a section, a list or a map */
    size_t size;                /* of one struct of a list or map */
    bool is_required;           /* in an element of a list */
    const char *sample;         /* for the example, where there is no default to show */
    const char *secret; /* of a variable: the key that people would write the secret under */
    bool is_overlay;    /* of a section: what is not given in it stays as it is elsewhere, and its
                           rows' defaults count for nothing */
};

/* As in the file, with the names of variables where there will be secrets. */
typedef struct pal_config_provider {
    pal_endpoint endpoint; /* without api_key */
    pal_str api_key_env;
} pal_config_provider;

typedef struct pal_config_tool_server {
    pal_tool_server server; /* without `environment` */
    const pal_header *variables;
    size_t variables_len;
} pal_config_tool_server;

typedef struct pal_config_agent {
    pal_route_agent route;
    pal_agent_settings settings;  /* without name and context */
    pal_context_settings context; /* only what is given counts */
} pal_config_agent;

/* What the file's top level is about. */
typedef struct pal_config_state {
    pal_config_values values;
    pal_runtime_options runtime; /* values.runtime */
    pal_str provider;            /* a name or a kind; empty: the first */
    pal_str provider_url;
    const pal_config_provider *providers;
    size_t providers_len;
    const pal_config_tool_server *tool_servers;
    size_t tool_servers_len;
    const pal_config_agent *agents;
    size_t agents_len;
    pal_context_settings *agent_contexts; /* of the agents in runtime.agents that have one */
} pal_config_state;

/* The top of the file; the struct is pal_config_state. */
extern const pal_config_row pal_config_rows[];
/* Of pal_context_settings: what an agent may have of its own. */
extern const pal_config_row pal_config_agent_context_rows[];
/* Tables that the top points to (config_keys_runtime.c). */
extern const pal_config_row pal_config_provider_rows[];
extern const pal_config_row pal_config_tool_server_rows[];
extern const pal_config_row pal_config_turn_rows[]; /* of pal_runtime_options */
extern const pal_config_row pal_config_server_rows[];

/* The kinds of providers, NULL at the end. */
extern const char *const pal_config_provider_kinds[];

/* The row of a key whose path leads through sections only; NULL where there is none. *out_base is
 * where its table's struct begins within the state. */
const pal_config_row *pal_config_row_find(const char *path, size_t *out_base);

static inline bool pal_config_row_is_scalar(const pal_config_row *row)
{
    return row->kind < PAL_CONFIG_TEXTS;
}

/* ---- Single values (config_value.c) ---- */

/* "a whole number from 1 to 100". */
void pal_config_wants(const pal_config_row *row, char *out_text, size_t size);

/* Reads a scalar into the field; false, and the field untouched, where it is not what the row
 * wants. Texts are kept as views. `scratch` is only for the time of the call. */
bool pal_config_value_read(
        const pal_config_row *row, pal_str text, bool is_plain, pal_arena *scratch, void *field);

/* What the field holds where there is no value and no default. */
void pal_config_value_clear(const pal_config_row *row, void *field);

/* As JSON. */
void pal_config_value_write(const pal_config_row *row, const void *field, pal_buf *buf);

bool pal_config_word_is(const pal_config_row *row, pal_str text);

/* Makes the JSON object of a map (config_object.c); false if the node is none, or it is too long.
 */
bool pal_config_object_read(const pal_config_row *row, const pal_config_node *node,
        pal_arena *arena, pal_str *out_object);

/* ---- Secrets (config_secret.c) ---- */

/* Capitals, digits and '_': what nobody could take for a secret itself. */
bool pal_config_variable_is_name(pal_str text);

/* The next "${NAME}" from *at on; false where there is none. *at moves behind it; what is before it
 * and not yet told is *out_before. */
bool pal_config_reference_next(pal_str text, size_t *at, pal_str *out_before, pal_str *out_name);
/* Every "${" begins a reference that is right. */
bool pal_config_reference_is_valid(pal_str text);
bool pal_config_reference_has_any(pal_str text);

/* Whether a header or variable of this name, with that value, has a secret in it that stands there
 * in clear text. */
bool pal_config_secret_is_clear(pal_str name, pal_str value);

/* As JSON, with "***" for what is nobody's business. */
void pal_config_url_write(pal_json_writer *writer, pal_str url);
void pal_config_reference_write(pal_json_writer *writer, pal_str text);

/* ---- Whole files (config_moved.c, config_read.c, config_check.c) ---- */

/* Something that works, but is better written otherwise. */
typedef struct pal_config_warning pal_config_warning;
struct pal_config_warning {
    uint32_t line;
    pal_str text;
    pal_config_warning *next;
};

/* The tree with the keys of other systems where ours are. */
PAL_CHECKED pal_status pal_config_move(const pal_config_node *root, const char *name,
        pal_arena *arena, const pal_config_node **out_root, pal_config_warning **out_warnings,
        pal_error *err);

/* Fills the state, defaults included, from the tree, which may be NULL. After a failure the state
 * is of no use. */
PAL_CHECKED pal_status pal_config_state_read(const pal_config_node *root, const char *name,
        pal_arena *arena, pal_config_state *out_state, pal_error *err);

/* Checks what no single key can tell, and fills what follows from several. */
PAL_CHECKED pal_status pal_config_state_check(const pal_config_node *root, const char *name,
        pal_arena *arena, pal_config_state *state, pal_error *err);

/* What follows from keys that can be overridden, again. Takes no memory. */
void pal_config_state_refresh(const pal_config_node *root, pal_config_state *state);

/* ---- A configuration ---- */

/* A value that did not come from the file. */
typedef struct pal_config_override pal_config_override;
struct pal_config_override {
    const pal_config_row *row;
    pal_config_source source;
    pal_config_override *next;
};

struct pal_config {
    pal_arena *arena; /* holds all of it, this struct too */
    const char *name; /* NULL: no file */
    const pal_config_node *root;
    pal_config_warning *warnings;
    pal_config_override *overrides; /* the newest of a row first */
    pal_config_state state;
};

/* Where the value of a row came from, whose node in the file is `node` (NULL: none). */
pal_config_source pal_config_row_source(
        const pal_config *config, const pal_config_row *row, const pal_config_node *node);

#endif
