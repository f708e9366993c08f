/* route.c - the decision: agent, scope and key. A pure function of its input; any number of threads
 * can use the same settings at the same time. */
#include "palaver/route.h"

#include "base/utf8.h"
#include "palaver/limits.h"
#include "route/route_text.h"
#include "route/route_view.h"

static void set_agent(const pal_route_main *known, pal_str id, pal_arena *arena, pal_route *route)
{
    pal_route_main made;
    if (!known) {
        pal_route_main_make(arena, id, &made);
        known = &made;
    }
    route->agent = known->agent;
    route->main_alias = known->alias;
    route->main_key = known->key;
}

/* An explicit key is used unchanged; *out_own is the message's key without white space. */
static pal_status set_key(const pal_route_context *context, pal_arena *arena, pal_route *route,
        pal_str *out_own, pal_error *err)
{
    pal_str own;
    pal_status status = pal_route_check("session_key", context->session_key, &own, err);
    if (status != PAL_OK)
        return status;
    route->is_explicit = own.len && pal_route_key_is_explicit(own);
    if (route->is_explicit && context->session_key.len > PAL_KEY_LEN_MAX)
        return pal_error_set(err, PAL_LIMIT, "'session_key' of %zu bytes exceeds the limit of %d",
                context->session_key.len, PAL_KEY_LEN_MAX);
    route->key =
            route->is_explicit ? pal_arena_copy(arena, context->session_key) : route->scope_key;
    *out_own = own.len ? pal_arena_copy(arena, own) : own;
    return PAL_OK;
}

static pal_status finish(const pal_route_context *context, pal_str kind, const pal_route_view *view,
        pal_arena *arena, pal_route *route, pal_error *err)
{
    pal_str own = {0};
    pal_route_scope_finish(kind, arena, route);
    pal_status status = set_key(context, arena, route, &own, err);
    if (status != PAL_OK)
        return status;
    pal_route_aliases_set(view, own, arena, route);
    if (view && !route->is_explicit)
        pal_route_scope_earlier(view, arena, route);
    return PAL_OK;
}

/* Sets the agent if no rule chose one. */
static pal_status set_asked_agent(const pal_route_settings *settings,
        const pal_route_context *context, pal_arena *arena, pal_route *route, pal_error *err)
{
    pal_str asked, id = {0};
    pal_status status = pal_route_check("agent_id", context->agent_id, &asked, err);
    if (status != PAL_OK)
        return status;
    const pal_route_main *known = pal_route_agent_pick(settings, arena, asked, &id);
    set_agent(known, id, arena, route);
    route->matched_by = PAL_LITERAL("default");
    return PAL_OK;
}

/* `dimensions` NULL: use those of the rule or of the settings. Otherwise the message is from a
 * room. */
static pal_status decide_chat(const pal_route_settings *settings, const pal_route_context *context,
        const pal_route_dimensions *dimensions, pal_arena *arena, pal_route *route, pal_error *err)
{
    pal_route_view view;
    /* Checked even if a rule decides, so that wrong input always fails. */
    pal_status status = set_asked_agent(settings, context, arena, route, err);
    if (status == PAL_OK)
        status = pal_route_view_make(settings, context, arena, &view, err);
    if (status != PAL_OK)
        return status;
    /* A room has the same session with and without its type, so the type in the key is fixed. */
    if (dimensions)
        view.chat = pal_route_join(arena, PAL_LITERAL("group:"), view.chat_id);
    const pal_route_case *rule = pal_route_case_find(settings, &view);
    if (rule) {
        set_agent(rule->agent, rule->agent->agent, arena, route);
        route->matched_by = rule->matched_by;
    }
    if (!dimensions)
        dimensions = rule ? &rule->dimensions : &settings->dimensions;
    pal_route_scope_set(settings, &view, dimensions, arena, route);
    return finish(context, pal_str_make(NULL, 0), &view, arena, route, err);
}

static pal_status check_given(const char *name, pal_str text, pal_str *out_text, pal_error *err)
{
    pal_status status = pal_route_check(name, text, out_text, err);
    if (status == PAL_OK && out_text->len == 0)
        return pal_error_set(err, PAL_INVALID, "'%s' is empty", name);
    return status;
}

static pal_status decide_room(const pal_route_settings *settings, const pal_route_context *context,
        pal_arena *arena, pal_route *route, pal_error *err)
{
    static const pal_route_dimensions chat_only = {{PAL_DIMENSION_CHAT}, 1};
    pal_route_context chat = *context;
    pal_str room, type;
    pal_status status = check_given("matrix_room", context->matrix_room, &room, err);
    if (status == PAL_OK)
        status = pal_route_check("chat_type", context->chat_type, &type, err);
    if (status != PAL_OK)
        return status;
    if (room.len < 2 || room.data[0] != '!') {
        room.len = pal_utf8_cut(room, 100);
        return pal_error_set(err, PAL_INVALID,
                "'matrix_room' must be a room id, which begins with '!', not '%.*s'",
                PAL_STR_ARG(room));
    }
    chat.channel = PAL_LITERAL("matrix");
    chat.chat_id = room;
    chat.chat_type = type.len ? type : PAL_LITERAL("group");
    return decide_chat(settings, &chat, &chat_only, arena, route, err);
}

/* Copies the value, which belongs to the context. */
static void add_value(pal_route *route, pal_str name, pal_str value, pal_arena *arena)
{
    route->values[route->values_len].dimension = name;
    route->values[route->values_len].value = pal_arena_copy(arena, value);
    route->values_len++;
}

/* All agents share one session: its key is always that of the agent "main". The signature
 * contains the agent that answers. */
static void share_key(pal_arena *arena, pal_route *route)
{
    pal_route shared = *route;
    if (route->is_explicit || pal_str_is(route->agent, "main"))
        return; /* the route has the key already */
    shared.agent = PAL_LITERAL("main");
    pal_route_scope_finish(PAL_LITERAL("work_item"), arena, &shared);
    route->key = shared.scope_key;
}

static pal_status decide_work_item(const pal_route_settings *settings,
        const pal_route_context *context, pal_arena *arena, pal_route *route, pal_error *err)
{
    pal_str project, bead;
    pal_status status = check_given("project_id", context->project_id, &project, err);
    if (status != PAL_OK)
        return status;
    status = check_given("bead_id", context->bead_id, &bead, err);
    if (status != PAL_OK)
        return status;
    status = set_asked_agent(settings, context, arena, route, err);
    if (status != PAL_OK)
        return status;
    add_value(route, PAL_LITERAL("project_id"), project, arena);
    add_value(route, PAL_LITERAL("bead_id"), bead, arena);
    status = finish(context, PAL_LITERAL("work_item"), NULL, arena, route, err);
    if (status == PAL_OK)
        share_key(arena, route);
    return status;
}

static pal_status decide_code(const pal_route_settings *settings, const pal_route_context *context,
        pal_arena *arena, pal_route *route, pal_error *err)
{
    pal_str path, branch;
    pal_status status = check_given("project_path", context->project_path, &path, err);
    if (status == PAL_OK)
        status = pal_route_check("branch", context->branch, &branch, err);
    if (status == PAL_OK)
        status = set_asked_agent(settings, context, arena, route, err);
    if (status != PAL_OK)
        return status;
    while (path.len > 1 && path.data[path.len - 1] == '/')
        path.len--;
    add_value(route, PAL_LITERAL("project_path"), path, arena);
    add_value(route, PAL_LITERAL("branch"), branch, arena);
    return finish(context, PAL_LITERAL("code"), NULL, arena, route, err);
}

static pal_status decide(const pal_route_settings *settings, const pal_route_context *context,
        pal_arena *arena, pal_route *route, pal_error *err)
{
    switch (context->kind) {
    case PAL_ROUTE_CHAT:
        return decide_chat(settings, context, NULL, arena, route, err);
    case PAL_ROUTE_MATRIX_ROOM:
        return decide_room(settings, context, arena, route, err);
    case PAL_ROUTE_WORK_ITEM:
        return decide_work_item(settings, context, arena, route, err);
    case PAL_ROUTE_CODE:
        return decide_code(settings, context, arena, route, err);
    }
    return pal_error_set(err, PAL_INVALID, "unknown kind %d", (int)context->kind);
}

pal_status pal_route_decide(const pal_route_settings *settings, const pal_route_context *context,
        pal_arena *arena, pal_route *out_route, pal_error *err)
{
    pal_route route = {.is_explicit = false};
    pal_status status = decide(settings, context, arena, &route, err);
    if (status != PAL_OK)
        return status;
    status = pal_arena_failure(arena);
    if (status == PAL_OK && (route.scope_key.len == 0 || route.main_key.len == 0))
        status = PAL_NO_MEMORY;
    if (status != PAL_OK)
        return pal_error_set(err, status, "out of memory");
    *out_route = route;
    return PAL_OK;
}
