/* api_openapi.c - writes the OpenAPI 3.1 description of all routes. It is created for each
 * request, so it is never outdated, and it is rarely requested. */
#include "server/api/api_openapi.h"

#include <ctype.h>
#include <stdio.h>
#include "base/json/json_put.h"
#include "server/api/api_schema.h"
#include "server/server_call.h"

static void put_ref(pal_json_writer *writer, const char *schema)
{
    char ref[128];
    snprintf(ref, sizeof ref, "#/components/schemas/%s", schema);
    pal_json_begin_object(writer);
    pal_put_text(writer, "$ref", ref);
    pal_json_end_object(writer);
}

/* ---- Parameters ---- */

static void put_parameter(
        pal_json_writer *writer, const char *in, pal_str name, const char *schema, const char *help)
{
    pal_json_begin_object(writer);
    pal_put_text(writer, "in", in);
    pal_put_str(writer, "name", name);
    if (strcmp(in, "path") == 0) {
        pal_put_flag(writer, "required", true);
    }
    if (help)
        pal_put_text(writer, "description", help);
    pal_put_raw(writer, "schema", pal_str_of(schema));
    pal_json_end_object(writer);
}

static void put_path_parameters(pal_json_writer *writer, const char *path)
{
    for (const char *open = strchr(path, '{'); open; open = strchr(open + 1, '{')) {
        size_t len = (size_t)(strchr(open, '}') - open - 1);
        put_parameter(writer, "path", pal_str_make(open + 1, len), "{\"type\":\"string\"}", NULL);
    }
}

static void put_query_parameter(pal_json_writer *writer, pal_str name)
{
    for (const pal_query_doc *doc = pal_query_docs; doc->name; doc++) {
        if (pal_str_is(name, doc->name)) {
            put_parameter(writer, "query", name, doc->schema, doc->help);
            return;
        }
    }
    put_parameter(writer, "query", name, "{}", NULL);
}

static void put_parameters(pal_json_writer *writer, const pal_api_route *route)
{
    bool is_write = strcmp(route->method, "GET") != 0;
    pal_json_name(writer, "parameters");
    pal_json_begin_array(writer);
    put_path_parameters(writer, route->path);
    for (const char *p = route->doc.query; p && *p;) {
        size_t len = strcspn(p, " ");
        put_query_parameter(writer, pal_str_make(p, len));
        p += len + strspn(p + len, " ");
    }
    if (is_write)
        put_parameter(writer, "header", pal_str_of("Idempotency-Key"), "{\"type\":\"string\"}",
                "key that makes a repeated request do its work only once");
    pal_json_end_array(writer);
}

/* ---- Bodies ---- */

/* `name` is the name of a schema, or a media type without one. */
static void put_content(pal_json_writer *writer, const char *what)
{
    bool is_media = strchr(what, '/') != NULL;
    pal_json_name(writer, "content");
    pal_json_begin_object(writer);
    pal_json_name(writer, is_media ? what : "application/json");
    pal_json_begin_object(writer);
    pal_json_name(writer, "schema");
    if (is_media)
        pal_json_put_raw(writer, pal_str_of("{\"type\":\"string\"}"));
    else
        put_ref(writer, what);
    pal_json_end_object(writer);
    pal_json_end_object(writer);
}

static void put_response(
        pal_json_writer *writer, const char *code, const char *help, const char *what)
{
    pal_json_name(writer, code);
    pal_json_begin_object(writer);
    pal_put_text(writer, "description", help);
    if (what)
        put_content(writer, what);
    pal_json_end_object(writer);
}

static void put_route(pal_json_writer *writer, const pal_api_route *route)
{
    char code[16], method[16] = "";
    for (size_t i = 0; route->method[i] && i + 1 < sizeof method; i++)
        method[i] = (char)tolower((unsigned char)route->method[i]);
    snprintf(code, sizeof code, "%u", route->doc.code);
    pal_json_name(writer, method);
    pal_json_begin_object(writer);
    pal_put_text(writer, "operationId", route->doc.id);
    pal_put_text(writer, "summary", route->doc.summary);
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
    put_response(writer, "default", "the error and its cause", "Error");
    pal_json_end_object(writer);
    if (route->role == PAL_KEY_NONE) {
        pal_put_raw(writer, "security", pal_str_of("[]"));
    }
    pal_json_end_object(writer);
}

/* ---- The document ---- */

typedef void (*route_sink)(const pal_api_route *route, void *user);

static void each_route(route_sink sink, void *user)
{
    for (size_t i = 0; pal_apis[i]; i++) {
        for (const pal_api_route *const *group = pal_apis[i]->routes; *group; group++) {
            for (const pal_api_route *route = *group; route->method; route++)
                sink(route, user);
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

static void put_method(const pal_api_route *route, void *user)
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
    put_route(walk->writer, route);
}

static void put_path(const pal_api_route *route, void *user)
{
    path_walk walk = {.writer = user, .first = route};
    each_route(put_method, &walk);
    if (walk.is_begun)
        pal_json_end_object(walk.writer);
}

static void put_components(pal_json_writer *writer)
{
    pal_json_begin_object(writer);
    pal_put_raw(writer, "securitySchemes",
            pal_str_of("{\"key\":{\"type\":\"http\",\"scheme\":\"bearer\"},"
                       "\"header\":{\"type\":\"apiKey\",\"in\":\"header\","
                       "\"name\":\"x-api-key\"}}"));
    pal_json_name(writer, "schemas");
    pal_json_begin_object(writer);
    for (const pal_schema *schema = pal_schemas; schema->name; schema++) {
        pal_put_raw(writer, schema->name, pal_str_of(schema->json));
    }
    pal_json_end_object(writer);
    pal_json_end_object(writer);
}

pal_status pal_openapi_handle(pal_call *call, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    (void)err;
    pal_json_begin_object(writer);
    pal_put_text(writer, "openapi", "3.1.0");
    pal_json_name(writer, "info");
    pal_json_begin_object(writer);
    pal_put_text(writer, "title", "Palaver");
    pal_put_text(writer, "version", call->server->version);
    pal_json_end_object(writer);
    pal_put_raw(writer, "security", pal_str_of("[{\"key\":[]},{\"header\":[]}]"));
    pal_json_name(writer, "paths");
    pal_json_begin_object(writer);
    each_route(put_path, writer);
    pal_json_end_object(writer);
    pal_json_name(writer, "components");
    put_components(writer);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}
