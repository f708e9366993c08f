/* config_read.c - converts the tree of a file to values, with the table of keys. Errors name the
 * line and the complete path of the key. Stops at the first mistake. */
#include "config/config_row.h"

#include <stdio.h>
#include "base/nearest.h"
#include "base/utf8.h"

#define PATH_SIZE 128
#define SHOWN_MAX 40 /* bytes of a wrong value that an error shows */

typedef struct reader {
    const char *name;
    pal_arena *arena;
    pal_error *err;
    pal_status status;    /* the first failure */
    char path[PATH_SIZE]; /* path of the current key: "models[0].price" */
    size_t path_len;
    bool is_overlay; /* missing keys do not get a default */
} reader;

/* ---- Path ---- */

/* Appends a name to the path. Returns the length to pass to leave(). */
static size_t enter(reader *r, pal_str name)
{
    size_t before = r->path_len;
    size_t len = pal_utf8_cut(name, SHOWN_MAX);
    int added = snprintf(
            r->path + before, PATH_SIZE - before, "%s%.*s", before ? "." : "", (int)len, name.data);
    r->path_len = before + (size_t)added < PATH_SIZE ? before + (size_t)added : PATH_SIZE - 1;
    return before;
}

static size_t enter_element(reader *r, size_t index)
{
    size_t before = r->path_len;
    int added = snprintf(r->path + before, PATH_SIZE - before, "[%zu]", index);
    r->path_len = before + (size_t)added < PATH_SIZE ? before + (size_t)added : PATH_SIZE - 1;
    return before;
}

static void leave(reader *r, size_t before)
{
    r->path_len = before;
    r->path[before] = '\0';
}

/* ---- Errors ---- */

static void fail_no_memory(reader *r)
{
    if (r->status == PAL_OK)
        r->status = pal_config_fail(r->err, PAL_NO_MEMORY, r->name, 0, "out of memory");
}

/* Errors do not show a value that may be a secret. */
static bool may_be_secret(const pal_config_row *row)
{
    return row->kind == PAL_CONFIG_URL || row->kind == PAL_CONFIG_HTTP_URL ||
            row->kind == PAL_CONFIG_VARIABLE || row->kind == PAL_CONFIG_REFERENCE;
}

/* "'context.max_tokens' must be a whole number from 0 to 9, not 'many'". */
static void fail_wants(reader *r, const pal_config_row *row, const pal_config_node *node)
{
    char wants[160];
    if (r->status != PAL_OK)
        return;
    if (pal_arena_failure(r->arena)) {
        fail_no_memory(r);
        return;
    }
    pal_config_wants(row, wants, sizeof wants);
    if (node->kind != PAL_CONFIG_NODE_SCALAR)
        r->status =
                pal_config_fail(r->err, PAL_INVALID, r->name, node->line, "'%s' must be %s, not %s",
                        r->path, wants, node->kind == PAL_CONFIG_NODE_LIST ? "a list" : "keys");
    else if (may_be_secret(row))
        r->status = pal_config_fail(
                r->err, PAL_INVALID, r->name, node->line, "'%s' must be %s", r->path, wants);
    else
        r->status = pal_config_fail(r->err, PAL_INVALID, r->name, node->line,
                "'%s' must be %s, not '%.*s%s'", r->path, wants,
                (int)pal_utf8_cut(node->text, SHOWN_MAX), node->text.data,
                node->text.len > SHOWN_MAX ? "..." : "");
}

/* Finds the row of a key such as api_key, for which only the name of a variable is allowed. */
static const pal_config_row *find_secret(const pal_config_row *rows, const pal_config_node *node)
{
    for (const pal_config_row *row = rows; row->name; row++) {
        if (row->secret && (pal_str_is(node->key, row->secret) ||
                                   pal_nearest_is_slip(node->key, pal_str_of(row->secret))))
            return row;
    }
    return NULL;
}

/* Reports that the file contains a secret at r->path. */
static void fail_secret(reader *r, uint32_t line, const char *what_to_do, const char *key)
{
    r->status = pal_config_fail(r->err, PAL_INVALID, r->name, line,
            "'%s' must not contain a secret; put the secret into an environment variable and %s%s",
            r->path, what_to_do, key);
}

static void fail_unknown(reader *r, const pal_config_row *rows, const pal_config_node *node)
{
    char hint[PAL_ERROR_MESSAGE_MAX];
    bool is_top = r->path_len == 0;
    pal_config_unknown_hint(rows, node->key, hint, sizeof hint);
    r->status = pal_config_fail(r->err, PAL_INVALID, r->name, node->line,
            "unknown key '%.*s'%s%s%s; %s", (int)pal_utf8_cut(node->key, SHOWN_MAX),
            node->key.data, is_top ? "" : " in '", r->path, is_top ? "" : "'", hint);
}

/* ---- Reading ---- */

static void read_rows(reader *r, const pal_config_row *rows, const pal_config_node *map,
        uint32_t line, char *base);

static void check_key(reader *r, const pal_config_row *rows, const pal_config_node *node)
{
    const pal_config_row *row = rows;
    while (row->name && !pal_str_is(node->key, row->name))
        row++;
    if (row->name)
        return;
    row = find_secret(rows, node);
    if (!row) {
        fail_unknown(r, rows, node);
        return;
    }
    size_t before = enter(r, node->key);
    fail_secret(r, node->line, "its name into ", row->name);
    leave(r, before);
}

/* Allocates structs or texts for all elements of the node. */
static char *new_elements(
        reader *r, const pal_config_row *row, const pal_config_node *node, size_t size)
{
    if (node->len > row->max) {
        r->status = pal_config_fail(r->err, PAL_LIMIT, r->name, node->line,
                "'%s' has %zu elements; the limit is %llu", r->path, node->len,
                (unsigned long long)row->max);
        return NULL;
    }
    char *elements = pal_arena_array(r->arena, node->len + 1, size);
    if (!elements)
        fail_no_memory(r);
    return elements;
}

/* Sets the row's field to the elements. */
static void set_elements(const pal_config_row *row, char *base, const void *elements, size_t len)
{
    *(const void **)(base + row->offset) = elements;
    *(size_t *)(base + row->len_offset) = len;
}

static void read_texts(
        reader *r, const pal_config_row *row, const pal_config_node *node, char *base)
{
    if (node->kind != PAL_CONFIG_NODE_LIST) {
        fail_wants(r, row, node);
        return;
    }
    pal_str *texts = (pal_str *)(void *)new_elements(r, row, node, sizeof *texts);
    size_t len = 0;
    for (const pal_config_node *n = node->first; n && r->status == PAL_OK; n = n->next) {
        if (n->kind != PAL_CONFIG_NODE_SCALAR || pal_config_node_is_null(n) ||
                !pal_config_word_is(row, n->text)) {
            fail_wants(r, row, n);
            return;
        }
        texts[len++] = n->text;
    }
    if (r->status == PAL_OK)
        set_elements(row, base, texts, len);
}

static void read_list(reader *r, const pal_config_row *row, const pal_config_node *node, char *base)
{
    if (node->kind != PAL_CONFIG_NODE_LIST) {
        fail_wants(r, row, node);
        return;
    }
    char *elements = new_elements(r, row, node, row->size);
    size_t len = 0;
    for (const pal_config_node *n = node->first; n && r->status == PAL_OK; n = n->next) {
        size_t before = enter_element(r, len);
        if (n->kind == PAL_CONFIG_NODE_MAP || pal_config_node_is_null(n))
            read_rows(r, row->rows, n, n->line, elements + len++ * row->size);
        else
            r->status = pal_config_fail(r->err, PAL_INVALID, r->name, n->line,
                    "'%s' must have keys, such as '%s: %s'", r->path, row->rows->name,
                    row->rows->sample);
        leave(r, before);
    }
    if (r->status == PAL_OK)
        set_elements(row, base, elements, len);
}

static void read_row(reader *r, const pal_config_row *row, const pal_config_node *node,
        uint32_t line, char *base);

/* The first of the two rows is for the name, the second for the value. */
static void read_map(reader *r, const pal_config_row *row, const pal_config_node *node, char *base)
{
    if (node->kind != PAL_CONFIG_NODE_MAP) {
        fail_wants(r, row, node);
        return;
    }
    char *elements = new_elements(r, row, node, row->size);
    size_t len = 0;
    for (const pal_config_node *n = node->first; n && r->status == PAL_OK; n = n->next) {
        char *element = elements + len++ * row->size;
        size_t before = enter(r, n->key);
        *(pal_str *)(void *)(element + row->rows[0].offset) = n->key;
        if (n->key.len > row->rows[0].max)
            r->status = pal_config_fail(
                    r->err, PAL_INVALID, r->name, n->line, "a name in '%s' is too long", row->name);
        else
            read_row(r, &row->rows[1], n, n->line, element);
        if (r->status == PAL_OK && row->rows[1].kind == PAL_CONFIG_REFERENCE &&
                pal_config_secret_is_clear(n->key, n->text))
            fail_secret(r, n->line, "write ${NAME} here", "");
        leave(r, before);
    }
    if (r->status == PAL_OK)
        set_elements(row, base, elements, len);
}

static void read_scalar(
        reader *r, const pal_config_row *row, const pal_config_node *node, char *base)
{
    if (node->kind != PAL_CONFIG_NODE_SCALAR ||
            !pal_config_value_read(row, node->text, node->is_plain, r->arena, base + row->offset))
        fail_wants(r, row, node);
}

static void read_object(
        reader *r, const pal_config_row *row, const pal_config_node *node, char *base)
{
    pal_str *field = (pal_str *)(void *)(base + row->offset);
    if (!pal_config_object_read(row, node, r->arena, field))
        fail_wants(r, row, node);
}

static void read_default(reader *r, const pal_config_row *row, uint32_t line, char *base)
{
    if (r->is_overlay)
        return;
    if (row->is_required)
        r->status = pal_config_fail(r->err, PAL_INVALID, r->name, line, "'%s' is missing", r->path);
    else if (!row->value || !pal_config_row_is_scalar(row))
        pal_config_value_clear(row, base + row->offset);
    else if (!pal_config_value_read(
                     row, pal_str_of(row->value), true, r->arena, base + row->offset))
        fail_no_memory(r); /* only possible if out of memory, because defaults are valid */
}

static void read_section(reader *r, const pal_config_row *row, const pal_config_node *node,
        uint32_t line, char *base)
{
    bool before = r->is_overlay;
    r->is_overlay |= row->is_overlay;
    read_rows(r, row->rows, node, line, base + row->offset);
    r->is_overlay = before;
}

/* `line` is the line of the parent, for a key that is missing. */
static void read_row(reader *r, const pal_config_row *row, const pal_config_node *node,
        uint32_t line, char *base)
{
    if (row->kind == PAL_CONFIG_SECTION)
        read_section(r, row, node, node ? node->line : line, base);
    else if (!node || pal_config_node_is_null(node))
        read_default(r, row, line, base);
    else if (row->kind == PAL_CONFIG_TEXTS)
        read_texts(r, row, node, base);
    else if (row->kind == PAL_CONFIG_LIST)
        read_list(r, row, node, base);
    else if (row->kind == PAL_CONFIG_MAP)
        read_map(r, row, node, base);
    else if (row->kind == PAL_CONFIG_OBJECT)
        read_object(r, row, node, base);
    else
        read_scalar(r, row, node, base);
}

static void read_rows(reader *r, const pal_config_row *rows, const pal_config_node *map,
        uint32_t line, char *base)
{
    if (map && pal_config_node_is_null(map))
        map = NULL;
    if (map && map->kind != PAL_CONFIG_NODE_MAP && r->status == PAL_OK)
        r->status = pal_config_fail(r->err, PAL_INVALID, r->name, map->line,
                r->path_len ? "'%s' must have keys" :
                "the file must consist of keys%s", r->path);
    if (map && r->status == PAL_OK) {
        for (const pal_config_node *node = map->first; node && r->status == PAL_OK;
                node = node->next)
            check_key(r, rows, node);
    }
    for (const pal_config_row *row = rows; row->name && r->status == PAL_OK; row++) {
        size_t before = enter(r, pal_str_of(row->name));
        read_row(r, row, map ? pal_config_node_find(map, row->name) : NULL, line, base);
        leave(r, before);
    }
}

pal_status pal_config_state_read(const pal_config_node *root, const char *name, pal_arena *arena,
        pal_config_state *out_state, pal_error *err)
{
    reader r = {.name = name, .arena = arena, .err = err, .status = PAL_OK};
    *out_state = (pal_config_state){
            .values = {.context = &out_state->runtime.context, .runtime = &out_state->runtime},
            .runtime = {.memory = &out_state->memory}};
    read_rows(&r, pal_config_rows, root, 1, (char *)out_state);
    if (r.status != PAL_OK)
        return r.status;
    return pal_config_state_check(root, name, arena, out_state, err);
}
