/* fuzz_route.c - any bytes as an inbound message: nothing crashes, an error has a reason, and a
 * routed message has a sound result, which is always the same.
 *
 * Input that begins with '{' is read as `palaver route` reads it. Other input is a list of fields,
 * one per line, which bypasses the JSON reader: it can contain invalid UTF-8 and control
 * characters. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/json/json.h"
#include "dialect/dialect_route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) require((condition), #condition, __LINE__)
#define FIELDS_MAX 24

static void require(bool held, const char *text, int line)
{
    if (held)
        return;
    fprintf(stderr, "fuzz_route.c:%d: %s\n", line, text);
    abort();
}

static pal_arena *arena;

static bool is_opaque(pal_str key)
{
    if (key.len != 70 || memcmp(key.data, "sk_v1_", 6) != 0)
        return false;
    for (size_t i = 6; i < key.len; i++) {
        if (!memchr("0123456789abcdef", key.data[i], 16))
            return false;
    }
    return true;
}

/* A signature has exactly the expected fields: no value can forge one. */
static void check_signature(const pal_route *route, bool is_chat)
{
    size_t bars = 0, wanted = 1 + route->values_len;
    for (size_t i = 0; i < route->signature.len; i++)
        bars += route->signature.data[i] == '|';
    if (route->channel.len)
        wanted += 2;
    if (!is_chat)
        wanted++;
    REQUIRE(bars == wanted);
}

static void check_route(const pal_route *route, bool is_chat)
{
    pal_json scope;
    REQUIRE(is_opaque(route->scope_key) && is_opaque(route->main_key));
    REQUIRE(route->is_explicit == !pal_str_equal(route->key, route->scope_key) ||
            pal_route_key_is_explicit(route->key));
    REQUIRE(pal_json_parse(arena, route->scope, NULL, &scope, NULL) == PAL_OK);
    REQUIRE(pal_json_count(pal_json_find(scope, "dimensions")) == route->values_len);
    REQUIRE(pal_json_count(pal_json_find(scope, "values")) == route->values_len);
    check_signature(route, is_chat);
    for (size_t i = 0; i < route->aliases_len; i++) {
        REQUIRE(route->aliases[i].len > 0);
        REQUIRE(!pal_str_equal(route->aliases[i], route->key));
        for (size_t j = 0; j < i; j++)
            REQUIRE(!pal_str_equal(route->aliases[i], route->aliases[j]));
    }
}

static void try_route(const pal_route_input *input)
{
    pal_route_settings *settings = NULL;
    pal_route route, again;
    pal_error err = {PAL_OK, ""};
    pal_status status = pal_route_settings_new(&input->config, &settings, &err);
    if (status == PAL_OK)
        status = pal_route_decide(settings, &input->context, arena, &route, &err);
    if (status == PAL_OK) {
        bool is_chat = input->context.kind == PAL_ROUTE_CHAT ||
                input->context.kind == PAL_ROUTE_MATRIX_ROOM;
        check_route(&route, is_chat);
        REQUIRE(pal_route_decide(settings, &input->context, arena, &again, NULL) == PAL_OK);
        REQUIRE(pal_str_equal(route.signature, again.signature));
        REQUIRE(pal_str_equal(route.key, again.key));
    } else {
        REQUIRE(status == PAL_INVALID || status == PAL_LIMIT);
        REQUIRE(err.status == status && err.message[0]);
    }
    pal_route_settings_free(settings);
}

static void try_json(pal_str text)
{
    pal_json value;
    pal_route_input input;
    pal_error err = {PAL_OK, ""};
    if (pal_json_parse(arena, text, NULL, &value, NULL) != PAL_OK)
        return;
    if (pal_route_input_read(value, arena, &input, &err) == PAL_OK)
        try_route(&input);
    else
        REQUIRE(err.message[0]);
}

static void try_fields(pal_str text)
{
    pal_str f[FIELDS_MAX] = {{0}};
    for (size_t i = 0, at = 0; i < FIELDS_MAX && at < text.len; i++) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        size_t len = end ? (size_t)(end - text.data) - at : text.len - at;
        f[i] = pal_str_make(text.data + at, len);
        at += len + 1;
    }
    pal_route_link link = {.name = f[16], .ids = &f[17], .ids_len = 2};
    pal_route_rule rule = {.name = f[19],
            .agent = f[20],
            .when = {.channel = f[21], .sender = f[22]},
            .dimensions = &f[23],
            .dimensions_len = 1};
    pal_route_input input = {
            .config = {.dimensions = &f[0],
                    .dimensions_len = 3,
                    .links = &link,
                    .links_len = 1,
                    .rules = &rule,
                    .rules_len = 1,
                    .link_across_channels = f[3].len % 2},
            .context = {.kind = (pal_route_kind)(f[4].len % 4),
                    .agent_id = f[5],
                    .channel = f[6],
                    .account = f[7],
                    .space_id = f[8],
                    .chat_type = f[9],
                    .chat_id = f[10],
                    .topic_id = f[11],
                    .sender_id = f[12],
                    .session_key = f[13],
                    .matrix_room = f[14],
                    .project_id = f[14],
                    .bead_id = f[15],
                    .project_path = f[14],
                    .branch = f[15]},
    };
    try_route(&input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pal_str text = pal_str_make((const char *)data, size);
    if (!arena)
        REQUIRE((arena = pal_arena_new(0)) != NULL);
    pal_arena_reset(arena);
    if (size && data[0] == '{')
        try_json(text);
    else
        try_fields(text);
    return 0;
}
