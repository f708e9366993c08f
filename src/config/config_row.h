/* config_row.h - the table of keys, from which everything else comes: checking, defaults, the
 * environment's names, what is shown, the example and the documentation. A new key is one row in
 * config_keys.c and one field in a struct. */
#ifndef PAL_CONFIG_ROW_H
#define PAL_CONFIG_ROW_H

#include <stdint.h>
#include "base/buf.h"
#include "config/config_node.h"
#include "palaver/config.h"
#include "palaver/context.h"

/* What a key holds, and the C type of its field. */
typedef enum pal_config_kind {
    PAL_CONFIG_BOOL = 1,     /* bool */
    PAL_CONFIG_BOOL_OFF = 2, /* bool, of which true is written as false */
    PAL_CONFIG_TEXT = 3,     /* pal_str */
    PAL_CONFIG_URL = 4,      /* pal_str; may hold a password, which is not shown */
    PAL_CONFIG_COUNT = 5,    /* uint64_t */
    PAL_CONFIG_COUNT32 = 6,  /* uint32_t */
    PAL_CONFIG_DURATION = 7, /* int64_t, milliseconds */
    PAL_CONFIG_PRICE = 8,    /* double; negative: not given */
    PAL_CONFIG_WORD = 9,     /* an enum: the place of the word among `words` */
    PAL_CONFIG_TEXTS = 10,   /* const pal_str *, and a size_t at `len_offset` */
    PAL_CONFIG_SECTION = 11, /* keys of its own, in the same struct or one within it */
    PAL_CONFIG_LIST = 12,    /* of structs: a pointer, and a size_t at `len_offset` */
    PAL_CONFIG_MAP = 13,     /* likewise; `rows` has two, for the name and for what it stands for */
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
};

/* What the file's top level is about. */
typedef struct pal_config_state {
    pal_config_values values;
    pal_context_settings context;
} pal_config_state;

/* The top of the file; the struct is pal_config_state. */
extern const pal_config_row pal_config_rows[];

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

/* ---- Whole files (config_read.c) ---- */

/* Fills the state, defaults included, from the tree, which may be NULL. After a failure the state
 * is of no use. */
PAL_CHECKED pal_status pal_config_state_read(const pal_config_node *root, const char *name,
        pal_arena *arena, pal_config_state *out_state, pal_error *err);

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
    pal_config_override *overrides; /* the newest of a row first */
    pal_config_state state;
};

/* Where the value of a row came from, whose node in the file is `node` (NULL: none). */
pal_config_source pal_config_row_source(
        const pal_config *config, const pal_config_row *row, const pal_config_node *node);

#endif
