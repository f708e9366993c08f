/* route_fixture.h - shared by the tests of routing: turns test vectors into settings and contexts,
 * and checks decisions. */
#ifndef PAL_TESTS_ROUTE_FIXTURE_H
#define PAL_TESTS_ROUTE_FIXTURE_H

#include "palaver/route.h"
#include "support/vectors.h"

#define LIST_MAX 16

static pal_arena *arena;

static inline pal_str str(const char *text)
{
    return pal_str_of(text);
}

static inline pal_str text_of(pal_json object, const char *name)
{
    return pal_json_string(pal_json_find(object, name), arena);
}

static inline size_t texts_of(pal_json array, pal_str *out_texts)
{
    pal_json_iter iter = pal_json_each(array);
    pal_json element;
    size_t len = 0;
    while (len < LIST_MAX && pal_json_next(&iter, NULL, &element))
        out_texts[len++] = pal_json_string(element, arena);
    return len;
}

/* Checks every row of a list of vectors. Returns the number of rows. */
static inline size_t each_row(const char *file, const char *list, void (*check)(pal_json row))
{
    pal_json_iter iter = pal_json_each(pal_json_find(vectors_load(arena, file), list));
    pal_json row;
    size_t rows = 0;
    for (; pal_json_next(&iter, NULL, &row); rows++)
        check(row);
    return rows;
}

static inline pal_route_context context_of(pal_json inbound)
{
    pal_route_context c = {
            .channel = text_of(inbound, "channel"),
            .account = text_of(inbound, "account"),
            .space_id = text_of(inbound, "space_id"),
            .space_type = text_of(inbound, "space_type"),
            .chat_id = text_of(inbound, "chat_id"),
            .chat_type = text_of(inbound, "chat_type"),
            .topic_id = text_of(inbound, "topic_id"),
            .sender_id = text_of(inbound, "sender_id"),
    };
    pal_json_bool(pal_json_find(inbound, "mentioned"), &c.mentioned);
    return c;
}

static inline size_t links_of(pal_json object, pal_route_link *out_links)
{
    static pal_str ids[LIST_MAX][LIST_MAX];
    pal_json_iter iter = pal_json_each(object);
    pal_json name, list;
    size_t len = 0;
    while (len < LIST_MAX && pal_json_next(&iter, &name, &list)) {
        out_links[len].name = pal_json_string(name, arena);
        out_links[len].ids = ids[len];
        out_links[len].ids_len = texts_of(list, ids[len]);
        len++;
    }
    return len;
}

#define SETTINGS_MAX 4096
static pal_route_settings *kept[SETTINGS_MAX];
static size_t kept_len;

/* Decides with separate settings, which are kept until the tests end, since routes refer to
 * them. */
static inline pal_status decide(const pal_route_config *config, const pal_route_context *context,
        pal_route *out_route, pal_error *err)
{
    pal_route_settings *settings = NULL;
    pal_status status = pal_route_settings_new(config, &settings, err);
    if (status == PAL_OK && CHECK_THAT(kept_len, <, SETTINGS_MAX))
        kept[kept_len++] = settings;
    if (status == PAL_OK)
        status = pal_route_decide(settings, context, arena, out_route, err);
    return status;
}

static inline pal_route routed(const pal_route_config *config, const pal_route_context *context)
{
    pal_route route = {0};
    pal_error err = {PAL_OK, ""};
    if (!CHECK_STATUS(decide(config, context, &route, &err), PAL_OK, &err))
        printf("# %s\n", err.message);
    return route;
}

static inline bool is_text(pal_str is, pal_str wanted)
{
    if (pal_str_equal(is, wanted))
        return true;
    printf("# is '%.*s', not '%.*s'\n", PAL_STR_ARG(is), PAL_STR_ARG(wanted));
    return false;
}

static inline bool same_texts(const pal_str *texts, size_t len, pal_json array)
{
    pal_str wanted[LIST_MAX];
    size_t wanted_len = texts_of(array, wanted);
    bool same = len == wanted_len;
    for (size_t i = 0; i < len && i < wanted_len; i++)
        same = is_text(texts[i], wanted[i]) && same;
    return same;
}

static inline void fails(const pal_route_config *config, const pal_route_context *context,
        pal_status wanted, const char *words)
{
    pal_route route = {.is_linked = true};
    pal_error err = {PAL_OK, ""};
    pal_status status = decide(config, context, &route, &err);
    if (!CHECK_EQ(status, wanted) || !CHECK_EQ(err.status, wanted) ||
            !CHECK_CONTAINS(err.message, words))
        printf("# %s: '%s', not '%s'\n", pal_status_name(status), err.message, words);
    CHECK(route.is_linked);
    CHECK_EQ(route.key.len, 0);
}

static const pal_str sender_only[] = {{"sender", 6}};
static const pal_str chat_only[] = {{"chat", 4}};
static const pal_str chat_and_sender[] = {{"chat", 4}, {"sender", 6}};
static const pal_str all_dimensions[] = {{"space", 5}, {"chat", 4}, {"topic", 5}, {"sender", 6}};
static const pal_str john_ids[] = {{"telegram:123", 12}, {"U-SLACK", 7}};
static const pal_route_link john[] = {{.name = {"John", 4}, .ids = john_ids, .ids_len = 2}};

static inline void route_begin(void)
{
    arena = pal_arena_new(0);
}

static inline int route_done(void)
{
    while (kept_len)
        pal_route_settings_free(kept[--kept_len]);
    pal_arena_free(arena);
    return tap_done();
}

#endif
