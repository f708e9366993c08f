/* api_openapi.c - writes the OpenAPI 3.1 description of all routes. It is created for each
 * request, so it is never outdated, and it is rarely requested. */
#include <ctype.h>
#include <stdio.h>
#include "base/json/json_put.h"
#include "base/memory.h"
#include "server/api/api_object.h"
#include "server/server_call.h"

/* Named objects. An object over the limit has no schema, and a test fails. */
#define OBJECTS_MAX 256

/* ---- Schemas ---- */

static void put_object(pal_json_writer *writer, const pal_api_object *object);

static bool is_media_type(const pal_api_object *object)
{
    return object->name && strchr(object->name, '/');
}

/* Writes a reference, or the schema itself if the object has no name. */
static void put_object_or_ref(pal_json_writer *writer, const pal_api_object *object)
{
    char ref[128];
    if (!object->name) {
        put_object(writer, object);
        return;
    }
    snprintf(ref, sizeof ref, "#/components/schemas/%s", object->name);
    pal_json_begin_object(writer);
    pal_put_text(writer, "$ref", ref);
    pal_json_end_object(writer);
}

static void put_type(pal_json_writer *writer, const char *type, bool is_nullable)
{
    if (!is_nullable) {
        pal_put_text(writer, "type", type);
        return;
    }
    pal_json_name(writer, "type");
    pal_json_begin_array(writer);
    pal_json_put_text(writer, type);
    pal_json_put_text(writer, "null");
    pal_json_end_array(writer);
}

static void put_words(pal_json_writer *writer, const char *words)
{
    pal_json_name(writer, "enum");
    pal_json_begin_array(writer);
    for (const char *p = words; *p;) {
        size_t len = strcspn(p, " ");
        pal_json_put_str(writer, pal_str_make(p, len));
        p += len + strspn(p + len, " ");
    }
    pal_json_end_array(writer);
}

/* A text's maximum counts bytes, so no valid text has more characters. */
static void put_limits(pal_json_writer *writer, const pal_api_member *member)
{
    bool is_text = member->type == PAL_API_TEXT;
    if (member->min || !is_text)
        pal_put_count(writer, is_text ? "minLength" : "minimum", member->min);
    if (member->max && member->max < INT64_MAX)
        pal_put_count(writer, is_text ? "maxLength" : "maximum", member->max);
}

static void put_list(pal_json_writer *writer, const pal_api_member *member)
{
    put_type(writer, "array", member->is_nullable);
    if (member->min)
        pal_put_count(writer, "minItems", member->min);
    if (member->max)
        pal_put_count(writer, "maxItems", member->max);
    pal_json_name(writer, "items");
    if (member->of)
        put_object_or_ref(writer, member->of);
    else
        pal_json_put_raw(writer, pal_str_of("{\"type\":\"string\"}"));
}

/* Writes the schema of a member, except one that is a reference or is written as it is. */
static void put_member_type(pal_json_writer *writer, const pal_api_member *member)
{
    switch (member->type) {
    case PAL_API_TEXT:
        put_type(writer, "string", member->is_nullable);
        put_limits(writer, member);
        break;
    case PAL_API_COUNT:
    case PAL_API_COUNT32:
        put_type(writer, "integer", member->is_nullable);
        put_limits(writer, member);
        break;
    case PAL_API_NUMBER:
        put_type(writer, "integer", member->is_nullable);
        break;
    case PAL_API_FLAG:
        put_type(writer, "boolean", member->is_nullable);
        break;
    case PAL_API_WORD:
        put_words(writer, member->words);
        break;
    case PAL_API_TIME:
        put_type(writer, "string", true);
        pal_put_text(writer, "format", "date-time");
        break;
    case PAL_API_LIST:
        put_list(writer, member);
        break;
    default:
        put_type(writer, "object", member->is_nullable);
    }
    if (member->help)
        pal_put_text(writer, "description", member->help);
}

static void put_member_schema(pal_json_writer *writer, const pal_api_member *member)
{
    if (member->schema) {
        pal_json_put_raw(writer, pal_str_of(member->schema));
    } else if (member->of && member->type != PAL_API_LIST && member->is_nullable) {
        pal_json_begin_object(writer);
        pal_json_name(writer, "anyOf");
        pal_json_begin_array(writer);
        put_object_or_ref(writer, member->of);
        pal_json_put_raw(writer, pal_str_of("{\"type\":\"null\"}"));
        pal_json_end_array(writer);
        pal_json_end_object(writer);
    } else if (member->of && member->type != PAL_API_LIST) {
        put_object_or_ref(writer, member->of);
    } else {
        pal_json_begin_object(writer);
        put_member_type(writer, member);
        pal_json_end_object(writer);
    }
}

/* Writes the schemas of the members that only the table of the writer has. */
static void put_written(pal_json_writer *writer, const pal_api_object *object)
{
    static const pal_api_type types[] = {
            [PAL_MEMBER_STRING] = PAL_API_TEXT,
            [PAL_MEMBER_TEXT] = PAL_API_TEXT,
            [PAL_MEMBER_OBJECT] = PAL_API_JSON_OBJECT,
            [PAL_MEMBER_U64] = PAL_API_COUNT,
            [PAL_MEMBER_U32] = PAL_API_COUNT,
            [PAL_MEMBER_BOOL] = PAL_API_FLAG,
            [PAL_MEMBER_I64] = PAL_API_NUMBER,
            [PAL_MEMBER_TIME] = PAL_API_TIME,
            [PAL_MEMBER_ID] = PAL_API_TEXT,
            [PAL_MEMBER_NAME] = PAL_API_TEXT,
            [PAL_MEMBER_RECORD] = PAL_API_JSON_OBJECT,
            [PAL_MEMBER_LIST] = PAL_API_END, /* any type, as all others */
    };
    for (size_t i = 0; i < object->written->members_len; i++) {
        const pal_member *member = &object->written->members[i];
        if (!(member->forms & 1) || pal_object_find(object, pal_str_of(member->name)))
            continue;
        pal_json_name(writer, member->name);
        if (types[member->type] == PAL_API_END)
            pal_json_put_raw(writer, pal_str_of("{}"));
        else
            put_member_schema(writer, &(pal_api_member){.type = types[member->type]});
    }
}

static void put_properties(pal_json_writer *writer, const pal_api_object *object)
{
    for (const pal_api_member *member = object->members; member->type; member++) {
        if (member->type == PAL_API_INCLUDE) {
            put_properties(writer, member->of);
        } else {
            pal_json_name(writer, member->name);
            put_member_schema(writer, member);
        }
    }
    if (object->written)
        put_written(writer, object);
}

static bool has_required(const pal_api_object *object)
{
    for (const pal_api_member *member = object->members; member->type; member++) {
        if (member->is_required || (member->type == PAL_API_INCLUDE && has_required(member->of)))
            return true;
    }
    return false;
}

static void put_required(pal_json_writer *writer, const pal_api_object *object)
{
    for (const pal_api_member *member = object->members; member->type; member++) {
        if (member->type == PAL_API_INCLUDE)
            put_required(writer, member->of);
        else if (member->is_required)
            pal_json_put_text(writer, member->name);
    }
}

static void put_object(pal_json_writer *writer, const pal_api_object *object)
{
    pal_json_begin_object(writer);
    pal_put_text(writer, "type", object->items ? "array" : "object");
    if (object->items) {
        pal_json_name(writer, "items");
        put_object_or_ref(writer, object->items);
    }
    if (object->is_open)
        pal_put_flag(writer, "additionalProperties", true);
    if (object->members && has_required(object)) {
        pal_json_name(writer, "required");
        pal_json_begin_array(writer);
        put_required(writer, object);
        pal_json_end_array(writer);
    }
    if (object->members) {
        pal_json_name(writer, "properties");
        pal_json_begin_object(writer);
        put_properties(writer, object);
        pal_json_end_object(writer);
    }
    pal_json_end_object(writer);
}

/* ---- Parameters ---- */

static void begin_parameter(pal_json_writer *writer, const char *in, pal_str name)
{
    pal_json_begin_object(writer);
    pal_put_text(writer, "in", in);
    pal_put_str(writer, "name", name);
}

static void put_path_parameters(pal_json_writer *writer, const char *path)
{
    for (const char *open = strchr(path, '{'); open; open = strchr(open + 1, '{')) {
        size_t len = (size_t)(strchr(open, '}') - open - 1);
        begin_parameter(writer, "path", pal_str_make(open + 1, len));
        pal_put_flag(writer, "required", true);
        pal_put_raw(writer, "schema", pal_str_of("{\"type\":\"string\"}"));
        pal_json_end_object(writer);
    }
}

static void put_query_parameters(pal_json_writer *writer, const pal_api_object *query)
{
    for (const pal_api_member *member = query->members; member->type; member++) {
        pal_api_member plain = *member;
        if (member->type == PAL_API_INCLUDE) {
            put_query_parameters(writer, member->of);
            continue;
        }
        plain.help = NULL; /* written once, outside of the schema */
        if (plain.type == PAL_API_TIME) /* a text too: RFC 3339, or milliseconds */
            plain.type = PAL_API_TEXT;
        begin_parameter(writer, "query", pal_str_of(member->name));
        if (member->is_required)
            pal_put_flag(writer, "required", true);
        pal_put_text(writer, "description", member->help);
        pal_json_name(writer, "schema");
        put_member_schema(writer, &plain);
        pal_json_end_object(writer);
    }
}

static void put_parameters(pal_json_writer *writer, const pal_api_route *route)
{
    pal_json_name(writer, "parameters");
    pal_json_begin_array(writer);
    put_path_parameters(writer, route->path);
    if (route->doc.query)
        put_query_parameters(writer, route->doc.query);
    if (strcmp(route->method, "GET") != 0) {
        begin_parameter(writer, "header", pal_str_of("Idempotency-Key"));
        pal_put_text(writer, "description",
                "key that makes a repeated request do its work only once");
        pal_put_raw(writer, "schema", pal_str_of("{\"type\":\"string\"}"));
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

/* ---- Bodies ---- */

static void put_content(pal_json_writer *writer, const pal_api_object *body)
{
    bool is_media = is_media_type(body);
    pal_json_name(writer, "content");
    pal_json_begin_object(writer);
    pal_json_name(writer, is_media ? body->name : "application/json");
    pal_json_begin_object(writer);
    pal_json_name(writer, "schema");
    if (is_media)
        pal_json_put_raw(writer, pal_str_of("{\"type\":\"string\"}"));
    else
        put_object_or_ref(writer, body);
    pal_json_end_object(writer);
    pal_json_end_object(writer);
}

static void put_response(
        pal_json_writer *writer, const char *code, const char *help, const pal_api_object *body)
{
    pal_json_name(writer, code);
    pal_json_begin_object(writer);
    pal_put_text(writer, "description", help);
    if (body)
        put_content(writer, body);
    pal_json_end_object(writer);
}

/* ---- Tags ---- */

/* A path belongs to the first tag with whose path it begins. */
typedef struct tag {
    const char *path;
    const char *name;
    const char *help;
} tag;

static const tag tags[] = {
        {"/api/v1/sessions", "sessions", "Conversations: messages, marks, forks, turns, context."},
        {"/api/v1/turns", "turns", "Running and ended turns: events, cancel, approval, results."},
        {"/api/v1/events", "turns", NULL},
        {"/api/v1/notes", "notes", "The long-term memory."},
        {"/api/v1/chat", "chat", "A message and its answer in one request; routing from channels."},
        {"/api/v1/inbound", "chat", NULL},
        {"/api/v1/keys", "access", "API keys, logins of browsers, and the caller."},
        {"/api/v1/login", "access", NULL},
        {"/api/v1/me", "access", NULL},
        {"/api/v1/conversations", "clients", "Routes of Skillian, Loom and PicoClaw's page."},
        {"/api/v1/beads", "clients", NULL},
        {"/api/sessions", "clients", NULL},
        {"/api/v1/", "store", "Search, files, usage, imports, and what the server has."},
        {"/v1/messages", "anthropic", "Anthropic's API."},
        {"/v1/", "openai", "OpenAI's API: chat completions, responses, conversations."},
        {"/mistral/", "mistral", "Mistral's API."},
        {"/mcp", "mcp", "The Model Context Protocol."},
        {"/", "server", "Health, metrics, this description, and the page."},
};

static const char *tag_of(const char *path)
{
    size_t i = 0;
    while (strncmp(path, tags[i].path, strlen(tags[i].path)) != 0)
        i++;
    return tags[i].name;
}

static void put_tags(pal_json_writer *writer)
{
    pal_json_name(writer, "tags");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        if (!tags[i].help)
            continue;
        pal_json_begin_object(writer);
        pal_put_text(writer, "name", tags[i].name);
        pal_put_text(writer, "description", tags[i].help);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

/* ---- Routes ---- */

/* Writes the summary as a sentence, and which key the route requires. */
static void put_description(pal_json_writer *writer, const pal_api_route *route)
{
    char text[512];
    const char *role = route->role == PAL_KEY_READ ? "read"
            : route->role == PAL_KEY_WRITE         ? "write"
                                                   : "admin";
    int len = snprintf(text, sizeof text, "%c%s.", toupper((unsigned char)route->doc.summary[0]),
            route->doc.summary + 1);
    if (route->role != PAL_KEY_NONE && len > 0 && (size_t)len < sizeof text)
        snprintf(text + len, sizeof text - (size_t)len,
                " If the server has keys, the request requires one with the role '%s'%s.", role,
                route->flags & PAL_API_SCRAPE ? " or 'metrics'" : "");
    pal_put_text(writer, "description", text);
}

/* The errors of other APIs are described by their makers. */
static const pal_api_object *error_of(const pal_api *api)
{
    return api->put_failure == pal_call_put_native_failure ? &pal_api_error_object
                                                           : &pal_api_any_object;
}

static void put_route(pal_json_writer *writer, const pal_api *api, const pal_api_route *route)
{
    char code[16], method[16] = "";
    for (size_t i = 0; route->method[i] && i + 1 < sizeof method; i++)
        method[i] = (char)tolower((unsigned char)route->method[i]);
    snprintf(code, sizeof code, "%u", route->doc.code);
    pal_json_name(writer, method);
    pal_json_begin_object(writer);
    pal_put_text(writer, "operationId", route->doc.id);
    pal_put_text(writer, "summary", route->doc.summary);
    put_description(writer, route);
    pal_json_name(writer, "tags");
    pal_json_begin_array(writer);
    pal_json_put_text(writer, tag_of(route->path));
    pal_json_end_array(writer);
    put_parameters(writer, route);
    if (route->doc.request) {
        pal_json_name(writer, "requestBody");
        pal_json_begin_object(writer);
        put_content(writer, route->doc.request);
        pal_json_end_object(writer);
    }
    pal_json_name(writer, "responses");
    pal_json_begin_object(writer);
    put_response(writer, code, "done", route->doc.response);
    put_response(writer, "4XX", "the request is wrong or not allowed", error_of(api));
    put_response(writer, "default", "the error and its cause", error_of(api));
    pal_json_end_object(writer);
    if (route->role == PAL_KEY_NONE) {
        pal_put_raw(writer, "security", pal_str_of("[]"));
    }
    pal_json_end_object(writer);
}

/* ---- The document ---- */

/* OpenAPI has no words for WebSockets (code 101). Routes that only refuse requests are not offered:
 * those with an error as their code, and paths that end with a slash because the id is missing. */
static bool is_described(const pal_api_route *route)
{
    size_t len = strlen(route->path);
    bool has_no_id = len > 1 && route->path[len - 1] == '/';
    return route->doc.code >= 200 && route->doc.code < 400 && !has_no_id;
}

typedef void (*route_sink)(const pal_api *api, const pal_api_route *route, void *user);

static void each_route(route_sink sink, void *user)
{
    for (size_t i = 0; pal_apis[i]; i++) {
        if (pal_apis[i]->header)
            continue;
        for (const pal_api_route *const *group = pal_apis[i]->routes; *group; group++) {
            for (const pal_api_route *route = *group; route->method; route++) {
                if (is_described(route))
                    sink(pal_apis[i], route, user);
            }
        }
    }
}

/* All methods of a path are written together, at the path's first route. */
typedef struct path_walk {
    pal_json_writer *writer;
    const pal_api_route *first; /* the first route of the current path */
    bool is_other;              /* it is not the first route of its path; the first one has written
                                   it */
    bool is_begun;
} path_walk;

static void put_method(const pal_api *api, const pal_api_route *route, void *user)
{
    path_walk *walk = user;
    if (walk->is_other || strcmp(route->path, walk->first->path) != 0)
        return;
    if (!walk->is_begun && route != walk->first) {
        walk->is_other = true;
        return;
    }
    if (!walk->is_begun) {
        pal_json_name(walk->writer, route->path);
        pal_json_begin_object(walk->writer);
        walk->is_begun = true;
    }
    put_route(walk->writer, api, route);
}

static void put_path(const pal_api *api, const pal_api_route *route, void *user)
{
    path_walk walk = {.writer = user, .first = route};
    each_route(put_method, &walk);
    if (walk.is_begun)
        pal_json_end_object(walk.writer);
}

/* The named objects that routes refer to, each once. */
typedef struct object_list {
    const pal_api_object *objects[OBJECTS_MAX];
    size_t len;
} object_list;

static void collect(object_list *list, const pal_api_object *object)
{
    if (!object || is_media_type(object))
        return;
    for (size_t i = 0; i < list->len; i++) {
        if (list->objects[i] == object)
            return;
    }
    if (object->name && list->len < OBJECTS_MAX)
        list->objects[list->len++] = object;
    collect(list, object->items);
    for (const pal_api_member *member = object->members; member && member->type; member++) {
        if (member->type == PAL_API_INCLUDE)
            for (const pal_api_member *each = member->of->members; each->type; each++)
                collect(list, each->of);
        else
            collect(list, member->of);
    }
}

static void collect_route(const pal_api *api, const pal_api_route *route, void *user)
{
    collect(user, route->doc.request);
    collect(user, route->doc.response);
}

static pal_status put_components(pal_call *call, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    object_list *list = pal_arena_array(call->arena, 1, sizeof *list);
    if (!list)
        return pal_no_memory(err);
    collect(list, &pal_api_error_object);
    each_route(collect_route, list);
    pal_json_begin_object(writer);
    pal_put_raw(writer, "securitySchemes",
            pal_str_of("{\"key\":{\"type\":\"http\",\"scheme\":\"bearer\"},"
                       "\"header\":{\"type\":\"apiKey\",\"in\":\"header\","
                       "\"name\":\"x-api-key\"}}"));
    pal_json_name(writer, "schemas");
    pal_json_begin_object(writer);
    for (size_t i = 0; i < list->len; i++) {
        pal_json_name(writer, list->objects[i]->name);
        put_object(writer, list->objects[i]);
    }
    pal_json_end_object(writer);
    pal_json_end_object(writer);
    return PAL_OK;
}

pal_status pal_openapi_handle(pal_call *call, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_text(writer, "openapi", "3.1.0");
    pal_json_name(writer, "info");
    pal_json_begin_object(writer);
    pal_put_text(writer, "title", "Palaver");
    pal_put_text(writer, "version", call->server->version);
    pal_put_text(writer, "summary",
            "A conversation engine for programs that talk to language models.");
    pal_put_text(writer, "description",
            "Palaver stores every message durably, decides what the model sees, runs the model and "
            "its tools, and serves the APIs that clients already use. Errors of the native API "
            "have a code and a message that says what is wrong.");
    pal_put_raw(writer, "contact", pal_str_of("{\"name\":\"The Palaver developers\"}"));
    pal_json_name(writer, "license");
    pal_json_begin_object(writer);
    pal_put_text(writer, "name", "MIT");
    pal_put_text(writer, "identifier", "MIT");
    pal_json_end_object(writer);
    pal_json_end_object(writer);
    pal_put_raw(writer, "servers",
            pal_str_of("[{\"url\":\"/\",\"description\":\"this server\"}]"));
    put_tags(writer);
    pal_put_raw(writer, "security", pal_str_of("[{\"key\":[]},{\"header\":[]}]"));
    pal_json_name(writer, "paths");
    pal_json_begin_object(writer);
    each_route(put_path, writer);
    pal_json_end_object(writer);
    pal_json_name(writer, "components");
    pal_status status = put_components(call, err);
    if (status != PAL_OK)
        return status;
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}
