/* dialect_route.c - inbound messages as JSON: the input of `palaver route`, {"agent_id", "context":
 * {...}} with settings, and the same members in requests to the server.
 *
 * A member that is absent or null is empty. A member of a wrong type is an error. An unknown member
 * is an error too, because a mistyped setting would select the wrong session. Only within
 * `context`, which a program can pass on unchanged, unknown members are ignored, unless one is a
 * misspelled name. `inbound` is another name for `context`, and `dispatch_rules` for `rules`. */
#include "dialect/dialect_route.h"

#include <stdio.h>
#include "base/memory.h"
#include "base/nearest.h"
#include "base/text.h"

/* The state of a reader. After a failure all further reads do nothing, like those of a buf. */
typedef struct reader {
    pal_arena *arena;
    pal_status status;
    pal_error *err;
} reader;

static bool is_given(pal_json value)
{
    pal_json_type type = pal_json_type_of(value);
    return type != PAL_JSON_NONE && type != PAL_JSON_NULL;
}

/* Returns the member that has either name. */
static pal_json find_either(pal_json object, const char *name, const char *other)
{
    pal_json value = pal_json_find(object, name);
    return is_given(value) ? value : pal_json_find(object, other);
}

/* Returns whether the member is given. If it is given, it must have this type. */
static bool expect(reader *r, const char *name, pal_json value, pal_json_type type)
{
    if (r->status != PAL_OK || !is_given(value))
        return false;
    if (pal_json_type_of(value) == type)
        return true;
    r->status = pal_error_set(r->err, PAL_INVALID, "'%s' must be of type %s, not %s", name,
            pal_json_type_name(type), pal_json_type_name(pal_json_type_of(value)));
    return false;
}

/* Returns the code of the escape "\uXXXX" at this offset, or -1 if there is none. */
static int32_t escape_at(pal_str raw, size_t at)
{
    int32_t code = 0;
    if (at + 6 > raw.len || raw.data[at] != '\\' || raw.data[at + 1] != 'u')
        return -1;
    for (size_t i = at + 2; i < at + 6; i++) {
        char c = raw.data[i];
        code = code * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return code;
}

/* Half of a surrogate pair reads as U+FFFD, so different ids would become equal. */
static bool has_lone_surrogate(pal_str raw)
{
    for (size_t i = 0; i < raw.len; i++) {
        int32_t code, low;
        if (raw.data[i] != '\\')
            continue;
        code = escape_at(raw, i);
        low = escape_at(raw, i + 6);
        i += code < 0 ? 1 : 5;
        if (code < 0xd800 || code > 0xdfff)
            continue;
        if (code > 0xdbff || low < 0xdc00 || low > 0xdfff)
            return true;
        i += 6;
    }
    return false;
}

static pal_str read_text(reader *r, const char *name, pal_json value)
{
    if (!expect(r, name, value, PAL_JSON_STRING))
        return pal_str_make(NULL, 0);
    if (has_lone_surrogate(pal_json_raw(value)))
        r->status = pal_error_set(
                r->err, PAL_INVALID,
                        "'%s' is not valid Unicode: it contains half of a surrogate pair", name);
    return pal_json_string(value, r->arena);
}

static bool read_bool(reader *r, const char *name, pal_json value)
{
    bool is_true = false;
    if (r->status == PAL_OK && is_given(value) && !pal_json_bool(value, &is_true))
        r->status = pal_error_set(r->err, PAL_INVALID, "'%s' must be of type boolean, not %s", name,
                pal_json_type_name(pal_json_type_of(value)));
    return is_true;
}

static const pal_str *read_texts(reader *r, const char *name, pal_json value, size_t *out_len)
{
    *out_len = 0;
    if (!expect(r, name, value, PAL_JSON_ARRAY))
        return NULL;
    pal_str *texts = pal_arena_array(r->arena, pal_json_count(value), sizeof *texts);
    pal_json_iter iter = pal_json_each(value);
    pal_json element;
    for (size_t i = 0; texts && pal_json_next(&iter, NULL, &element); i++) {
        char at[96];
        snprintf(at, sizeof at, "%.60s[%zu]", name, i);
        if (!is_given(element) && r->status == PAL_OK)
            r->status = pal_error_set(r->err, PAL_INVALID, "'%s' must be of type string", at);
        texts[i] = read_text(r, at, element);
        *out_len = i + 1;
    }
    return texts;
}

/* A misspelled "chat_id" would send the messages of all chats to one session. */
static void check_slip(reader *r, pal_json context, const char *name)
{
    pal_json_iter iter = pal_json_each(context);
    pal_json member, value;
    while (r->status == PAL_OK && pal_json_next(&iter, &member, &value)) {
        pal_str text = pal_json_string(member, r->arena);
        if (!pal_str_is(text, name) && pal_nearest_is_slip(text, pal_str_of(name)))
            r->status = pal_error_set(r->err, PAL_INVALID,
                    "unknown member '%.*s' of context; did you mean '%s'?", PAL_STR_ARG(text),
                    name);
    }
}

static void check_names(reader *r, const char *of, pal_json object, const char *const *names)
{
    pal_json_iter iter = pal_json_each(object);
    pal_json name, value;
    while (r->status == PAL_OK && pal_json_next(&iter, &name, &value)) {
        size_t i = 0;
        while (names[i] && !pal_json_string_is(name, names[i]))
            i++;
        pal_str text = pal_json_string(name, r->arena);
        if (!names[i])
            r->status = pal_error_set(r->err, PAL_INVALID, "unknown member '%.*s'%s%s",
                    PAL_EXCERPT(text, 100), *of ? " of " : "", of);
    }
}

static void read_links(reader *r, pal_json value, pal_route_config *config)
{
    if (!expect(r, "identity_links", value, PAL_JSON_OBJECT))
        return;
    pal_route_link *links = pal_arena_array(r->arena, pal_json_count(value), sizeof *links);
    pal_json_iter iter = pal_json_each(value);
    pal_json name, ids;
    size_t len = 0;
    for (; links && pal_json_next(&iter, &name, &ids); len++) {
        char at[96];
        pal_str text = pal_json_string(name, r->arena);
        snprintf(at, sizeof at, "identity_links.%.*s", PAL_EXCERPT(text, 40));
        links[len].name = text;
        links[len].ids = read_texts(r, at, ids, &links[len].ids_len);
    }
    config->links = links;
    config->links_len = len;
}

static void read_when(reader *r, size_t index, pal_json value, pal_route_when *when)
{
    static const char *const names[] = {
            "channel", "account", "space", "chat", "topic", "sender", "mentioned", NULL};
    pal_str *const texts[] = {
            &when->channel, &when->account, &when->space, &when->chat, &when->topic, &when->sender};
    char at[64];
    snprintf(at, sizeof at, "rules[%zu].when", index);
    if (!expect(r, at, value, PAL_JSON_OBJECT))
        return;
    check_names(r, at, value, names);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        snprintf(at, sizeof at, "rules[%zu].when.%s", index, names[i]);
        *texts[i] = read_text(r, at, pal_json_find(value, names[i]));
    }
    pal_json mentioned = pal_json_find(value, "mentioned");
    snprintf(at, sizeof at, "rules[%zu].when.mentioned", index);
    if (is_given(mentioned))
        when->mentioned =
                read_bool(r, at, mentioned) ? PAL_ROUTE_MENTION_YES : PAL_ROUTE_MENTION_NO;
}

static void read_rule(reader *r, size_t index, pal_json value, pal_route_rule *rule)
{
    static const char *const names[] = {"name", "agent", "when", "session_dimensions", NULL};
    char at[64];
    snprintf(at, sizeof at, "rules[%zu]", index);
    if (!expect(r, at, value, PAL_JSON_OBJECT))
        return;
    check_names(r, at, value, names);
    snprintf(at, sizeof at, "rules[%zu].name", index);
    rule->name = read_text(r, at, pal_json_find(value, "name"));
    snprintf(at, sizeof at, "rules[%zu].agent", index);
    rule->agent = read_text(r, at, pal_json_find(value, "agent"));
    read_when(r, index, pal_json_find(value, "when"), &rule->when);
    snprintf(at, sizeof at, "rules[%zu].session_dimensions", index);
    rule->dimensions =
            read_texts(r, at, pal_json_find(value, "session_dimensions"), &rule->dimensions_len);
}

static void read_rules(reader *r, pal_json value, pal_route_config *config)
{
    if (!expect(r, "rules", value, PAL_JSON_ARRAY))
        return;
    pal_route_rule *rules = pal_arena_array(r->arena, pal_json_count(value), sizeof *rules);
    pal_json_iter iter = pal_json_each(value);
    pal_json rule;
    size_t len = 0;
    for (; rules && pal_json_next(&iter, NULL, &rule); len++)
        read_rule(r, len, rule, &rules[len]);
    config->rules = rules;
    config->rules_len = len;
}

/* Reads "id", "id*" for the default agent, or {"id", "default"}. */
static void read_agent(reader *r, size_t index, pal_json value, pal_route_agent *agent)
{
    static const char *const names[] = {"id", "default", NULL};
    char at[64];
    snprintf(at, sizeof at, "agents[%zu]", index);
    if (pal_json_type_of(value) == PAL_JSON_OBJECT) {
        check_names(r, at, value, names);
        snprintf(at, sizeof at, "agents[%zu].id", index);
        agent->id = read_text(r, at, pal_json_find(value, "id"));
        snprintf(at, sizeof at, "agents[%zu].default", index);
        agent->is_default = read_bool(r, at, pal_json_find(value, "default"));
        return;
    }
    agent->id = read_text(r, at, value);
    if (agent->id.len && agent->id.data[agent->id.len - 1] == '*') {
        agent->id.len--;
        agent->is_default = true;
    }
}

static void read_agents(reader *r, pal_json value, pal_route_config *config)
{
    if (!expect(r, "agents", value, PAL_JSON_ARRAY))
        return;
    pal_route_agent *agents = pal_arena_array(r->arena, pal_json_count(value), sizeof *agents);
    pal_json_iter iter = pal_json_each(value);
    pal_json agent;
    size_t len = 0;
    for (; agents && pal_json_next(&iter, NULL, &agent); len++)
        read_agent(r, len, agent, &agents[len]);
    config->agents = agents;
    config->agents_len = len;
}

static void read_config(reader *r, pal_json value, pal_route_config *config)
{
    config->dimensions = read_texts(
            r, "dimensions", pal_json_find(value, "dimensions"), &config->dimensions_len);
    config->dm_scope = read_text(r, "dm_scope", pal_json_find(value, "dm_scope"));
    read_links(r, pal_json_find(value, "identity_links"), config);
    read_rules(r, find_either(value, "rules", "dispatch_rules"), config);
    read_agents(r, pal_json_find(value, "agents"), config);
    config->link_across_channels =
            read_bool(r, "link_across_channels", pal_json_find(value, "link_across_channels"));
}

/* The given members determine the kind. */
static void set_kind(reader *r, pal_route_context *c)
{
    bool is_room = c->matrix_room.data, is_code = c->project_path.data || c->branch.data;
    bool is_item = c->project_id.data || c->bead_id.data;
    if (is_room + is_item + is_code > 1 && r->status == PAL_OK)
        r->status = pal_error_set(r->err, PAL_INVALID,
                "only one of 'matrix_room', 'project_id' and 'project_path' is allowed");
    if (is_room)
        c->kind = PAL_ROUTE_MATRIX_ROOM;
    else if (is_item)
        c->kind = PAL_ROUTE_WORK_ITEM;
    else if (is_code)
        c->kind = PAL_ROUTE_CODE;
}

static void read_context(reader *r, pal_json value, pal_route_context *c)
{
    pal_json context = find_either(value, "context", "inbound");
    const struct {
        const char *name;
        pal_str *text;
    } texts[] = {
            {"agent_id", &c->agent_id},
            {"channel", &c->channel},
            {"account", &c->account},
            {"space_id", &c->space_id},
            {"space_type", &c->space_type},
            {"chat_id", &c->chat_id},
            {"chat_type", &c->chat_type},
            {"topic_id", &c->topic_id},
            {"sender_id", &c->sender_id},
            {"session_key", &c->session_key},
            {"matrix_room", &c->matrix_room},
            {"project_id", &c->project_id},
            {"bead_id", &c->bead_id},
            {"project_path", &c->project_path},
            {"branch", &c->branch},
    };
    if (is_given(context) && !expect(r, "context", context, PAL_JSON_OBJECT))
        return;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        /* Texts that are not part of a chat may also be given next to the context. */
        pal_json text = pal_json_find(value, texts[i].name);
        if (!is_given(text))
            text = pal_json_find(context, texts[i].name);
        *texts[i].text = read_text(r, texts[i].name, text);
        check_slip(r, context, texts[i].name);
    }
    check_slip(r, context, "mentioned");
    c->mentioned = read_bool(r, "mentioned", pal_json_find(context, "mentioned"));
    set_kind(r, c);
}

pal_status pal_route_input_read(
        pal_json value, pal_arena *arena, pal_route_input *out_input, pal_error *err)
{
    static const char *const names[] = {"agent_id", "context", "inbound", "dimensions",
            "identity_links", "dm_scope", "rules", "dispatch_rules", "agents",
            "link_across_channels", "session_key", "matrix_room", "project_id", "bead_id",
            "project_path", "branch", NULL};
    reader r = {.arena = arena, .status = PAL_OK, .err = err};
    pal_route_input input = {.context = {.kind = PAL_ROUTE_CHAT}};
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "the input must be an object, not %s",
                pal_json_type_name(pal_json_type_of(value)));
    pal_json inner = pal_json_find(value, "input");
    if (pal_json_type_of(inner) == PAL_JSON_OBJECT)
        value = inner;
    check_names(&r, "", value, names);
    read_config(&r, value, &input.config);
    read_context(&r, value, &input.context);
    if (r.status == PAL_OK && pal_arena_failure(arena))
        return pal_no_memory(err);
    if (r.status == PAL_OK)
        *out_input = input;
    return r.status;
}

pal_status pal_route_context_read(
        pal_json value, pal_arena *arena, pal_route_context *out_context, pal_error *err)
{
    reader r = {.arena = arena, .status = PAL_OK, .err = err};
    pal_route_context context = {.kind = PAL_ROUTE_CHAT};
    read_context(&r, value, &context);
    if (r.status == PAL_OK && pal_arena_failure(arena))
        return pal_no_memory(err);
    if (r.status == PAL_OK)
        *out_context = context;
    return r.status;
}
