/* config_node.c - reads YAML with libyaml, event by event. For any file, PAL_CONFIG_BYTES_MAX and
 * PAL_CONFIG_DEPTH_MAX limit the work and the depth: there are no aliases, so nothing is expanded.
 * libyaml allocates its memory outside base/memory.h, and frees it before the call returns. */
#include "config/config_node.h"

#include <stdarg.h>
#include <stdio.h>
#include <yaml.h>
#include "base/map.h"
#include "base/text.h"
#include "base/utf8.h"
#include "palaver/limits.h"

#define NAME_SHOWN_MAX 100

typedef struct reader {
    yaml_parser_t parser;
    pal_arena *arena;
    pal_str text;
    const char *name;
    pal_error *err;
    pal_status status; /* the first failure */
    int depth;
} reader;

pal_status pal_config_fail(
        pal_error *err, pal_status status, const char *name, uint32_t line, const char *format, ...)
{
    char message[2 * PAL_ERROR_MESSAGE_MAX];
    char at[16] = "";
    size_t name_len = strlen(name);
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (line)
        snprintf(at, sizeof at, ":%u", (unsigned)line);
    const char *slash = strrchr(name, '/');
    if (name_len > NAME_SHOWN_MAX && slash)
        name = slash + 1;
    return pal_error_set(err, status, "%.*s%s: %s", NAME_SHOWN_MAX, name, at, message);
}

bool pal_config_node_is_null(const pal_config_node *node)
{
    if (!node)
        return true;
    return node->kind == PAL_CONFIG_NODE_SCALAR && node->is_plain &&
            (node->text.len == 0 || pal_str_is(node->text, "~") || pal_str_is(node->text, "null"));
}

const pal_config_node *pal_config_node_find(const pal_config_node *map, const char *key)
{
    if (!map || map->kind != PAL_CONFIG_NODE_MAP)
        return NULL;
    for (const pal_config_node *node = map->first; node; node = node->next) {
        if (pal_str_is(node->key, key))
            return node;
    }
    return NULL;
}

const pal_config_node *pal_config_list_at(const pal_config_node *map, const char *key, size_t index)
{
    const pal_config_node *list = pal_config_node_find(map, key);
    const pal_config_node *node = list ? list->first : NULL;
    while (node && index-- > 0)
        node = node->next;
    return node;
}

/* ---- Errors ---- */

static uint32_t line_of(pal_str text, size_t offset)
{
    uint32_t line = 1;
    for (size_t i = 0; i < offset && i < text.len; i++)
        line += text.data[i] == '\n';
    return line;
}

static void fail(reader *r, pal_status status, size_t line, const char *text)
{
    if (r->status == PAL_OK)
        r->status = pal_config_fail(r->err, status, r->name, (uint32_t)line, "%s", text);
}

/* Tabs are the most common mistake, but libyaml does not name them. The second most common one
 * is a URL such as "memory:" without quotes. */
static bool is_about_tab(const reader *r, size_t line)
{
    const char *at = r->text.data;
    const char *end = at + r->text.len;
    while (--line && at) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    while (at && at < end && *at == ' ')
        at++;
    return at && at < end && *at == '\t';
}

static void fail_from_parser(reader *r)
{
    const yaml_parser_t *p = &r->parser;
    size_t line = p->problem_mark.line + 1;
    if (p->error == YAML_MEMORY_ERROR)
        fail(r, PAL_NO_MEMORY, 0, "out of memory");
    else if (p->error == YAML_READER_ERROR)
        fail(r, PAL_INVALID, line_of(r->text, p->problem_offset), p->problem);
    else if (p->error == YAML_SCANNER_ERROR && is_about_tab(r, line))
        fail(r, PAL_INVALID, line,
                "a tab at the beginning of the line is not allowed; indent with spaces");
    else if (p->problem && strncmp(p->problem, "mapping values are", 18) == 0)
        fail(r, PAL_INVALID, line,
                "unexpected ':'; check the indentation, or quote the text");
    else
        fail(r, PAL_INVALID, line, p->problem ? p->problem : "the file is not YAML");
}

/* ---- Reading ---- */

/* If this returns true, the caller must delete the event. */
static bool next_event(reader *r, yaml_event_t *event)
{
    if (r->status != PAL_OK)
        return false;
    if (yaml_parser_parse(&r->parser, event))
        return true;
    fail_from_parser(r);
    return false;
}

static pal_config_node *read_node(reader *r, yaml_event_t *event);

static pal_config_node *new_node(reader *r, pal_config_node_kind kind, const yaml_event_t *event)
{
    pal_config_node *node = pal_arena_alloc(r->arena, sizeof *node);
    if (!node) {
        fail(r, PAL_NO_MEMORY, 0, "out of memory");
        return NULL;
    }
    node->kind = kind;
    node->line = (uint32_t)event->start_mark.line + 1;
    return node;
}

static void refuse_extras(
        reader *r, const yaml_event_t *event, const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor)
        fail(r, PAL_INVALID, event->start_mark.line + 1, "anchors and aliases are not supported");
    if (tag)
        fail(r, PAL_INVALID, event->start_mark.line + 1, "tags are not supported");
}

static pal_config_node *read_scalar(reader *r, const yaml_event_t *event)
{
    pal_str text = pal_str_make((const char *)event->data.scalar.value, event->data.scalar.length);
    pal_config_node *node = new_node(r, PAL_CONFIG_NODE_SCALAR, event);
    refuse_extras(r, event, event->data.scalar.anchor, event->data.scalar.tag);
    if (!node)
        return NULL;
    node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->text = pal_arena_copy(r->arena, text);
    if (!node->text.data)
        fail(r, PAL_NO_MEMORY, 0, "out of memory");
    if (text.len && memchr(text.data, '\0', text.len))
        fail(r, PAL_INVALID, node->line, "the text contains a NUL byte");
    return node;
}

static pal_config_node *read_list(reader *r, const yaml_event_t *start)
{
    yaml_event_t event;
    pal_config_node *list = new_node(r, PAL_CONFIG_NODE_LIST, start);
    pal_config_node **end = list ? &list->first : NULL;
    refuse_extras(r, start, start->data.sequence_start.anchor, start->data.sequence_start.tag);
    while (next_event(r, &event)) {
        bool is_end = event.type == YAML_SEQUENCE_END_EVENT;
        pal_config_node *node = is_end ? NULL : read_node(r, &event);
        yaml_event_delete(&event);
        if (!node)
            break;
        *end = node;
        end = &node->next;
        list->len++;
    }
    return list;
}

/* Adds the member to the known keys; fails if the key is already known. */
static void remember(reader *r, pal_map *known, pal_config_node *node)
{
    const pal_config_node *before = pal_map_find(known, node->key);
    if (before && r->status == PAL_OK)
        r->status = pal_config_fail(r->err, PAL_INVALID, r->name, node->line,
                "duplicate key '%.*s', first on line %u", (int)pal_utf8_cut(node->key, 80),
                node->key.data, (unsigned)before->line);
    else if (r->status == PAL_OK && pal_map_set(known, node->key, node) != PAL_OK)
        fail(r, PAL_NO_MEMORY, 0, "out of memory");
}

/* Reads a key and its value. */
static pal_config_node *read_member(reader *r, yaml_event_t *key_event)
{
    yaml_event_t event;
    pal_config_node *key = read_node(r, key_event);
    if (key && key->kind != PAL_CONFIG_NODE_SCALAR)
        fail(r, PAL_INVALID, key->line, "a key must be text");
    if (!next_event(r, &event))
        return NULL;
    pal_config_node *node = read_node(r, &event);
    yaml_event_delete(&event);
    if (node && key) {
        node->key = key->text;
        node->line = key->line;
    }
    return node;
}

static pal_config_node *read_map(reader *r, const yaml_event_t *start)
{
    yaml_event_t event;
    pal_map known;
    pal_config_node *map = new_node(r, PAL_CONFIG_NODE_MAP, start);
    pal_config_node **end = map ? &map->first : NULL;
    pal_map_init(&known);
    refuse_extras(r, start, start->data.mapping_start.anchor, start->data.mapping_start.tag);
    while (next_event(r, &event)) {
        bool is_end = event.type == YAML_MAPPING_END_EVENT;
        pal_config_node *node = is_end ? NULL : read_member(r, &event);
        yaml_event_delete(&event);
        if (!node)
            break;
        remember(r, &known, node);
        *end = node;
        end = &node->next;
        map->len++;
    }
    pal_map_done(&known);
    return map;
}

/* Reads the node that begins with this event; NULL after a failure. */
static pal_config_node *read_node(reader *r, yaml_event_t *event)
{
    pal_config_node *node = NULL;
    if (++r->depth > PAL_CONFIG_DEPTH_MAX)
        fail(r, PAL_LIMIT, event->start_mark.line + 1, "the nesting is too deep");
    else if (event->type == YAML_SCALAR_EVENT)
        node = read_scalar(r, event);
    else if (event->type == YAML_SEQUENCE_START_EVENT)
        node = read_list(r, event);
    else if (event->type == YAML_MAPPING_START_EVENT)
        node = read_map(r, event);
    else
        fail(r, PAL_INVALID, event->start_mark.line + 1, "anchors and aliases are not supported");
    r->depth--;
    return r->status == PAL_OK ? node : NULL;
}

/* Reads the beginning of stream and document, one node, and the end of both. */
static const pal_config_node *read_stream(reader *r)
{
    yaml_event_t event;
    pal_config_node *root = NULL;
    bool is_end = false;
    size_t documents = 0;
    while (!is_end && next_event(r, &event)) {
        is_end = event.type == YAML_STREAM_END_EVENT;
        if (event.type == YAML_DOCUMENT_START_EVENT && ++documents > 1)
            fail(r, PAL_INVALID, event.start_mark.line + 1, "a second document is not allowed");
        else if (!is_end && event.type != YAML_STREAM_START_EVENT &&
                event.type != YAML_DOCUMENT_START_EVENT && event.type != YAML_DOCUMENT_END_EVENT)
            root = read_node(r, &event);
        yaml_event_delete(&event);
    }
    return root;
}

pal_status pal_config_node_parse(pal_arena *arena, pal_str text, const char *name,
        const pal_config_node **out_root, pal_error *err)
{
    reader r = {.arena = arena, .text = text, .name = name, .err = err, .status = PAL_OK};
    size_t valid = pal_utf8_valid_len(text);
    size_t mark = pal_text_begins(text, "\xef\xbb\xbf") ? 3 : 0;
    if (text.len > PAL_CONFIG_BYTES_MAX)
        return pal_config_fail(
                err, PAL_LIMIT, name, 0,
                "the file exceeds %u bytes", (unsigned)PAL_CONFIG_BYTES_MAX);
    if (valid < text.len)
        return pal_config_fail(err, PAL_INVALID, name, line_of(text, valid),
                "the file is not UTF-8");
    if (!yaml_parser_initialize(&r.parser))
        return pal_config_fail(err, PAL_NO_MEMORY, name, 0, "out of memory");
    /* Without this, libyaml would detect the encoding and accept UTF-16 by its byte order mark. */
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(
            &r.parser, (const unsigned char *)(text.len ? text.data + mark : ""), text.len - mark);
    const pal_config_node *root = read_stream(&r);
    yaml_parser_delete(&r.parser);
    if (r.status == PAL_OK)
        *out_root = pal_config_node_is_null(root) ? NULL : root;
    return r.status;
}
