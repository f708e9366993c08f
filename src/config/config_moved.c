/* config_moved.c - keys that other systems have in another section. They work like our keys, and a
 * warning names the new place.
 *
 * The tree is not changed: the top level and the sections that get a key are copied, with the moved
 * nodes at the end. Moved nodes keep their line numbers. */
#include "config/config_row.h"

#include <stdio.h>
#include "base/utf8.h"

#define SHOWN_MAX 40

/* One key of the section "conversation" of Loom, a program that sends agents to work items. */
typedef struct moved_key {
    const char *name;
    const char *section;
} moved_key;

static const char old_section[] = "conversation";
static const moved_key moved_keys[] = {
        {"session_expiration", "expiry"},
        {"cleanup_interval", "expiry"},
        {"token_strategy", "context"},
        {"max_tokens", "context"},
        {"keep_recent_messages", "context"},
        {NULL, NULL},
};

typedef struct mover {
    pal_arena *arena;
    const char *name; /* name of the file */
    pal_config_node *root;
    pal_config_warning **last;
    pal_error *err;
    pal_status status; /* the first failure */
} mover;

static void fail_no_memory(mover *m)
{
    if (m->status == PAL_OK)
        m->status = pal_config_fail(m->err, PAL_NO_MEMORY, m->name, 0, "out of memory");
}

static void warn(mover *m, const pal_config_node *node, const moved_key *key)
{
    char text[PAL_ERROR_MESSAGE_MAX];
    pal_config_warning *warning = pal_arena_alloc(m->arena, sizeof *warning);
    snprintf(text, sizeof text, "'%s.%s' is read as '%s.%s'; move it there", old_section, key->name,
            key->section, key->name);
    pal_str copy = pal_arena_copy(m->arena, pal_str_of(text));
    if (!warning || !copy.data) {
        fail_no_memory(m);
        return;
    }
    *warning = (pal_config_warning){.line = node->line, .text = copy};
    *m->last = warning;
    m->last = &warning->next;
}

/* ---- Copies ---- */

/* Returns a map with copies of the members of `map`, except `left_out` (NULL: all members). */
static pal_config_node *copy_map(mover *m, const pal_config_node *map, const char *left_out)
{
    pal_config_node *copy = pal_arena_alloc(m->arena, sizeof *copy);
    if (!copy) {
        fail_no_memory(m);
        return NULL;
    }
    *copy = *map;
    copy->first = NULL;
    copy->len = 0;
    pal_config_node **end = &copy->first;
    for (const pal_config_node *node = map->first; node; node = node->next) {
        if (left_out && pal_str_is(node->key, left_out))
            continue;
        pal_config_node *member = pal_arena_alloc(m->arena, sizeof *member);
        if (!member) {
            fail_no_memory(m);
            return NULL;
        }
        *member = *node;
        member->next = NULL;
        *end = member;
        end = &member->next;
        copy->len++;
    }
    return copy;
}

static void append(pal_config_node *map, pal_config_node *member)
{
    pal_config_node **end = &map->first;
    while (*end)
        end = &(*end)->next;
    *end = member;
    map->len++;
}

/* Returns a section of the copied top level as a map that can be extended; NULL after a failure. */
static pal_config_node *section_of(mover *m, const char *name, uint32_t line)
{
    for (pal_config_node **at = &m->root->first; *at; at = &(*at)->next) {
        if (!pal_str_is((*at)->key, name))
            continue;
        if (pal_config_node_is_null(*at))
            (*at)->kind = PAL_CONFIG_NODE_MAP;
        if ((*at)->kind != PAL_CONFIG_NODE_MAP)
            return *at; /* it is not a map; reading it reports the error */
        pal_config_node *next = (*at)->next;
        pal_config_node *copy = copy_map(m, *at, NULL);
        if (!copy)
            return NULL;
        copy->next = next;
        *at = copy;
        return copy;
    }
    pal_config_node *section = pal_arena_alloc(m->arena, sizeof *section);
    if (!section) {
        fail_no_memory(m);
        return NULL;
    }
    *section = (pal_config_node){
            .kind = PAL_CONFIG_NODE_MAP, .line = line, .key = pal_str_of(name)};
    append(m->root, section);
    return section;
}

/* ---- Moving ---- */

static bool is_same(const pal_config_node *a, const pal_config_node *b)
{
    return a->kind == PAL_CONFIG_NODE_SCALAR && b->kind == a->kind &&
            pal_str_equal(a->text, b->text);
}

static void move_key(mover *m, const pal_config_node *node, const moved_key *key)
{
    if (pal_config_node_is_null(node))
        return;
    pal_config_node *section = section_of(m, key->section, node->line);
    if (!section || section->kind != PAL_CONFIG_NODE_MAP)
        return;
    const pal_config_node *own = pal_config_node_find(section, key->name);
    warn(m, node, key);
    if (own && !is_same(own, node)) {
        m->status = pal_config_fail(m->err, PAL_INVALID, m->name, node->line,
                "'%s.%s' contradicts '%s.%s' on line %u; keep one of them", old_section, key->name,
                key->section, key->name, (unsigned)own->line);
        return;
    }
    pal_config_node *moved = own ? NULL : pal_arena_alloc(m->arena, sizeof *moved);
    if (own)
        return;
    if (!moved) {
        fail_no_memory(m);
        return;
    }
    *moved = *node;
    moved->next = NULL;
    append(section, moved);
}

static void move_section(mover *m, const pal_config_node *old)
{
    for (const pal_config_node *node = old->first; node && m->status == PAL_OK; node = node->next) {
        const moved_key *key = moved_keys;
        while (key->name && !pal_str_is(node->key, key->name))
            key++;
        if (key->name)
            move_key(m, node, key);
        else
            m->status = pal_config_fail(m->err, PAL_INVALID, m->name, node->line,
                    "unknown key '%.*s' in '%s'; it has session_expiration, cleanup_interval, "
                    "token_strategy, max_tokens and keep_recent_messages",
                    (int)pal_utf8_cut(node->key, SHOWN_MAX), node->key.data, old_section);
    }
}

pal_status pal_config_move(const pal_config_node *root, const char *name, pal_arena *arena,
        const pal_config_node **out_root, pal_config_warning **out_warnings, pal_error *err)
{
    const pal_config_node *old = pal_config_node_find(root, old_section);
    mover m = {.arena = arena, .name = name, .last = out_warnings, .err = err, .status = PAL_OK};
    *out_root = root;
    *out_warnings = NULL;
    if (!old)
        return PAL_OK;
    if (!pal_config_node_is_null(old) && old->kind != PAL_CONFIG_NODE_MAP)
        return pal_config_fail(
                err, PAL_INVALID, name, old->line, "'%s' must have keys", old_section);
    m.root = copy_map(&m, root, old_section);
    if (m.root && old->kind == PAL_CONFIG_NODE_MAP)
        move_section(&m, old);
    *out_root = m.root;
    return m.status;
}
