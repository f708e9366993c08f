/* config_show.c - shows the current values with their sources, and the table of keys. It walks over
 * the same rows that are used to read files. */
#include "config/config_row.h"

#include <ctype.h>
#include <stdio.h>
#include "base/memory.h"

#define PATH_LEN_MAX (16u << 10)
#define VALUE_LEN_MAX (64u << 20)

/* ---- Effective values ---- */

typedef struct walk {
    const pal_config *config;
    pal_arena *arena;
    pal_config_entry *entries; /* NULL while the entries are counted */
    size_t len;
    pal_buf path;
    pal_buf value;
    bool is_overlay; /* missing keys are not shown */
    bool failed;     /* a value could not be written */
} walk;

static void add(walk *w, const pal_config_row *row, const pal_config_node *node, const char *base)
{
    if (w->is_overlay && pal_config_node_is_null(node))
        return;
    pal_config_entry *entry = w->entries ? &w->entries[w->len] : NULL;
    w->len++;
    if (!entry)
        return;
    pal_buf_clear(&w->value);
    pal_config_value_write(row, base + row->offset, &w->value);
    w->failed |= w->value.failure != PAL_OK;
    entry->key = pal_arena_copy(w->arena, pal_buf_str(&w->path));
    entry->value = pal_arena_copy(w->arena, pal_buf_str(&w->value));
    entry->source = pal_config_row_source(w->config, row, node);
    entry->line = entry->source == PAL_CONFIG_FILE ? node->line : 0;
}

static void walk_rows(
        walk *w, const pal_config_row *rows, const pal_config_node *map, const char *base);

static void walk_row(
        walk *w, const pal_config_row *row, const pal_config_node *node, const char *base);

/* The elements of a list or a map are in the order of their nodes. */
static void walk_elements(
        walk *w, const pal_config_row *row, const pal_config_node *node, const char *base)
{
    const char *element = *(const char *const *)(base + row->offset);
    size_t len = *(const size_t *)(base + row->len_offset);
    size_t path_len = w->path.len;
    if (len == 0) {
        add(w, row, node, base);
        return;
    }
    const pal_config_node *child = node->first;
    for (size_t i = 0; i < len; i++, child = child->next, element += row->size) {
        if (row->kind == PAL_CONFIG_LIST) {
            pal_buf_format(&w->path, "[%zu]", i);
            walk_rows(w, row->rows, child, element);
        } else {
            pal_buf_append_char(&w->path, '.');
            pal_buf_append_str(&w->path, child->key);
            walk_row(w, &row->rows[1], child, element);
        }
        w->path.len = path_len;
    }
}

static void walk_row(
        walk *w, const pal_config_row *row, const pal_config_node *node, const char *base)
{
    bool was_overlay = w->is_overlay;
    w->is_overlay |= row->is_overlay;
    if (row->kind == PAL_CONFIG_SECTION)
        walk_rows(w, row->rows, node, base + row->offset);
    else if (row->kind == PAL_CONFIG_LIST || row->kind == PAL_CONFIG_MAP)
        walk_elements(w, row, node, base);
    else
        add(w, row, node, base);
    w->is_overlay = was_overlay;
}

static void walk_rows(
        walk *w, const pal_config_row *rows, const pal_config_node *map, const char *base)
{
    size_t path_len = w->path.len;
    for (const pal_config_row *row = rows; row->name; row++) {
        pal_buf_append_text(&w->path, path_len ? "." : "");
        pal_buf_append_text(&w->path, row->name);
        walk_row(w, row, pal_config_node_find(map, row->name), base);
        w->path.len = path_len;
    }
}

pal_status pal_config_list(const pal_config *config, pal_arena *arena,
        pal_config_entry **out_entries, size_t *out_len, pal_error *err)
{
    walk w = {.config = config, .arena = arena};
    pal_buf_init(&w.path, PATH_LEN_MAX);
    pal_buf_init(&w.value, VALUE_LEN_MAX);
    walk_rows(&w, pal_config_rows, config->root, (const char *)&config->state);
    pal_config_entry *entries = pal_arena_array(arena, w.len, sizeof *entries);
    w.entries = entries;
    w.len = 0;
    if (entries)
        walk_rows(&w, pal_config_rows, config->root, (const char *)&config->state);
    bool failed = w.failed || w.path.failure || pal_arena_failure(arena);
    pal_buf_done(&w.path);
    pal_buf_done(&w.value);
    if (failed)
        return pal_no_memory(err);
    *out_entries = entries;
    *out_len = w.len;
    return PAL_OK;
}

/* ---- Keys ---- */

/* The place of a key in the configuration. */
typedef struct place {
    bool is_listed;  /* in a list or map: no variable can override it */
    bool is_overlay; /* has no default */
} place;

/* Writes the name of the variable that can override a key. Returns false if there is none. */
static bool name_variable(
        const char *path, const pal_config_row *row, place at, char name[PAL_CONFIG_KEY_SIZE])
{
    static const char prefix[] = "PALAVER_";
    size_t len = sizeof prefix - 1;
    if (at.is_listed || !pal_config_row_is_scalar(row))
        return false;
    memcpy(name, prefix, len);
    for (; *path && len + 1 < PAL_CONFIG_KEY_SIZE; path++)
        name[len++] = *path == '.' ? '_' : (char)toupper((unsigned char)*path);
    name[len] = '\0';
    return true;
}

static void fill_key(const pal_config_row *row, place at, pal_config_key *key)
{
    pal_config_wants(row, key->wants, sizeof key->wants);
    key->value = at.is_overlay ? NULL : row->value;
    key->help = row->help;
    key->is_required = row->is_required;
    key->is_group = row->rows != NULL;
    (void)name_variable(key->path, row, at, key->environment);
}

/* Called for each key; returns false to stop. */
typedef bool (*key_visit)(const char *path, const pal_config_row *row, place at, void *user);

/* Returns false if a visit stopped it. */
static bool visit_keys(
        const pal_config_row *rows, const char *before, place at, key_visit visit, void *user)
{
    for (const pal_config_row *row = rows; row->name; row++) {
        char path[PAL_CONFIG_KEY_SIZE - 8];
        snprintf(path, sizeof path, "%s%s", before, row->name);
        if (!visit(path, row, at, user))
            return false;
        size_t len = strlen(path);
        if (row->kind == PAL_CONFIG_MAP) {
            snprintf(path + len, sizeof path - len, ".*");
            if (!visit(path, &row->rows[1], (place){.is_listed = true}, user))
                return false;
        }
        if (row->kind != PAL_CONFIG_SECTION && row->kind != PAL_CONFIG_LIST)
            continue;
        bool is_list = row->kind == PAL_CONFIG_LIST;
        snprintf(path + len, sizeof path - len, "%s", is_list ? "[]." : ".");
        place inside = {at.is_listed || is_list, at.is_overlay || row->is_overlay};
        if (!visit_keys(row->rows, path, inside, visit, user))
            return false;
    }
    return true;
}

/* The search for the key number `left`. */
typedef struct key_search {
    size_t left;
    pal_config_key key;
} key_search;

static bool find_key(const char *path, const pal_config_row *row, place at, void *user)
{
    key_search *search = user;
    if (search->left-- > 0)
        return true;
    snprintf(search->key.path, sizeof search->key.path, "%s", path);
    fill_key(row, at, &search->key);
    return false;
}

bool pal_config_key_at(size_t index, pal_config_key *out_key)
{
    key_search search = {.left = index};
    if (visit_keys(pal_config_rows, "", (place){false, false}, find_key, &search))
        return false;
    *out_key = search.key;
    return true;
}

/* ---- Variables ---- */

typedef struct variable_visit {
    pal_config_on_variable on_variable;
    void *user;
    pal_status status;
} variable_visit;

static bool visit_variable(const char *path, const pal_config_row *row, place at, void *user)
{
    variable_visit *v = user;
    char name[PAL_CONFIG_KEY_SIZE];
    if (!name_variable(path, row, at, name))
        return true;
    v->status = v->on_variable(path, name, v->user);
    return v->status == PAL_OK;
}

pal_status pal_config_variables_each(pal_config_on_variable on_variable, void *user)
{
    variable_visit v = {.on_variable = on_variable, .user = user};
    visit_keys(pal_config_rows, "", (place){false, false}, visit_variable, &v);
    return v.status;
}

/* ---- Example ---- */

static void put_indent(pal_buf *buf, int indent)
{
    for (int i = 0; i < indent; i++)
        pal_buf_append_char(buf, ' ');
}

static void put_value(pal_buf *buf, const pal_config_row *row, const char *value)
{
    bool is_empty = !*value;
    pal_buf_format(buf, "%s: %s", row->name, is_empty ? "\"\"" : value);
}

static void put_comment(pal_buf *buf, const pal_config_row *row, int indent)
{
    put_indent(buf, indent);
    pal_buf_format(buf, "# %c%s\n", toupper((unsigned char)row->help[0]), row->help + 1);
    const char *word = pal_config_row_word(row, 0);
    if (!word)
        return;
    put_indent(buf, indent);
    pal_buf_append_text(buf, row->kind == PAL_CONFIG_TEXTS ? "# Any of:" : "# One of:");
    for (size_t i = 0; (word = pal_config_row_word(row, i)); i++)
        pal_buf_format(buf, "%s %s", i ? "," : "", word);
    pal_buf_append_char(buf, '\n');
}

/* Writes one commented-out line. To use it, the user removes the '#' at its beginning. */
static void put_sample_line(
        pal_buf *buf, const pal_config_row *row, int indent, const char *dash, const char *value)
{
    pal_buf_append_char(buf, '#');
    size_t start = buf->len;
    put_indent(buf, indent);
    pal_buf_append_text(buf, dash);
    if (value)
        put_value(buf, row, value);
    else
        pal_buf_format(buf, "%s:", row->name);
    if (row->help && *dash != '\0') {
        while (buf->len - start < 40 && !buf->failure)
            pal_buf_append_char(buf, ' ');
        pal_buf_format(buf, "  # %s", row->help);
    }
    pal_buf_append_char(buf, '\n');
}

/* Writes an element, with a dash before its first key. Only sections have their keys below them. */
static void put_sample(pal_buf *buf, const pal_config_row *rows, int indent, bool is_element)
{
    for (const pal_config_row *row = rows; row->name; row++) {
        const char *value = row->sample ? row->sample : row->value;
        const char *dash = is_element && row == rows ? "- " : "  ";
        bool is_open = row->kind == PAL_CONFIG_SECTION && !row->sample;
        put_sample_line(buf, row, indent, dash, is_open ? NULL : value ? value : "");
        if (is_open)
            put_sample(buf, row->rows, indent + 2, false);
    }
}

static void put_list(pal_buf *buf, const pal_config_row *row, int indent)
{
    put_sample_line(buf, row, indent, "", NULL);
    if (row->kind == PAL_CONFIG_LIST) {
        put_sample(buf, row->rows, indent + 2, true);
    } else {
        pal_buf_append_char(buf, '#');
        put_indent(buf, indent + 2);
        pal_buf_format(buf, "%s: %s\n", row->rows[0].sample, row->rows[1].sample);
    }
}

static void put_rows(pal_buf *buf, const pal_config_row *rows, int indent)
{
    for (const pal_config_row *row = rows; row->name; row++) {
        if (indent == 0)
            pal_buf_append_char(buf, '\n');
        put_comment(buf, row, indent);
        if (row->kind == PAL_CONFIG_LIST || row->kind == PAL_CONFIG_MAP) {
            put_list(buf, row, indent);
            continue;
        }
        if (row->is_derived) {
            put_sample_line(buf, row, indent, "", row->value);
            continue;
        }
        put_indent(buf, indent);
        if (row->kind == PAL_CONFIG_SECTION) {
            pal_buf_format(buf, "%s:\n", row->name);
            put_rows(buf, row->rows, indent + 2);
        } else {
            put_value(buf, row, row->value);
            pal_buf_append_char(buf, '\n');
        }
    }
}

pal_status pal_config_example(pal_arena *arena, pal_str *out_text, pal_error *err)
{
    pal_buf buf;
    pal_buf_init(&buf, VALUE_LEN_MAX);
    pal_buf_append_text(&buf,
            "# palaver.yaml - every key with its default. All keys are optional. Lists and\n"
            "# the store are commented out; to use one, remove the '#' in the first column.\n");
    put_rows(&buf, pal_config_rows, 0);
    pal_str text = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_status failure = buf.failure ? buf.failure : pal_arena_failure(arena);
    pal_buf_done(&buf);
    if (failure)
        return pal_error_set(err, failure, "out of memory");
    *out_text = text;
    return PAL_OK;
}
