/* test_route_settings.c - settings of routing: dimensions as in PicoClaw (tests/data/vectors),
 * errors that name wrong ones, failing allocations, many threads. */
#include <pthread.h>
#include "base/memory.h"
#include "palaver/limits.h"
#include "route/route_settings.h"
#include "support/route_fixture.h"

static bool same_dimensions(const pal_route_dimensions *dimensions, pal_json wanted)
{
    pal_str names[LIST_MAX];
    for (size_t i = 0; i < dimensions->len; i++)
        names[i] = str(pal_route_dimension_name((pal_route_dimension)dimensions->items[i]));
    return same_texts(names, dimensions->len, wanted);
}

static size_t unknown_rows;

static void check_dimensions(pal_json row)
{
    pal_str names[LIST_MAX], unknown;
    pal_route_dimensions dimensions;
    size_t len = texts_of(pal_json_find(row, "in"), names);
    unknown_rows += !pal_route_dimensions_from_names(names, len, &dimensions, &unknown);
    CHECK(same_dimensions(&dimensions, pal_json_find(row, "out")));
}

static void dimensions_match_picoclaw(void)
{
    unknown_rows = 0;
    CHECK_THAT(each_row("picoclaw_keys.json", "normalize_dimensions", check_dimensions), >, 0);
    CHECK_EQ(unknown_rows, 2);
}

static void check_dm_scope(pal_json row)
{
    pal_str names[LIST_MAX];
    pal_route_settings *settings = NULL;
    pal_route_config config = {.dm_scope = text_of(row, "dm_scope"), .dimensions = names};
    config.dimensions_len = texts_of(pal_json_find(row, "explicit_dimensions"), names);
    if (!CHECK_STATUS(pal_route_settings_new(&config, &settings, NULL), PAL_OK))
        return;
    CHECK(same_dimensions(&settings->dimensions, pal_json_find(row, "dimensions")));
    pal_route_settings_free(settings);
}

static void dm_scopes_match_picoclaw(void)
{
    CHECK_THAT(each_row("picoclaw_misc.json", "dm_scope_to_dimensions", check_dm_scope), >, 0);
}

/* ---- Wrong settings ---- */

static void errors_name_wrong_settings(void)
{
    pal_route_context context = {0};
    pal_str names[] = {str("chat"), str("chanel")};
    pal_route_config unknown = {.dimensions = names, .dimensions_len = 2};
    fails(&unknown, &context, PAL_INVALID, "'dimensions' contains the unknown dimension 'chanel'");
    pal_route_rule rule = {.agent = str("a"),
            .when = {.channel = str("x")},
            .dimensions = names,
            .dimensions_len = 2};
    pal_route_config in_rule = {.rules = &rule, .rules_len = 1};
    fails(&in_rule, &context, PAL_INVALID, "'rules[0].session_dimensions'");
    rule.dimensions_len = 0;
    rule.when.chat = str("a\x01");
    fails(&in_rule, &context, PAL_INVALID, "'rules[0].when.chat' contains a control character");
    pal_route_config scope = {.dm_scope = str("per-moon")};
    fails(&scope, &context, PAL_INVALID, "unknown dm_scope 'per-moon'");
    pal_route_agent nobody = {.id = str(" ")};
    pal_route_config agents = {.agents = &nobody, .agents_len = 1};
    fails(&agents, &context, PAL_INVALID, "'agents[0]' has an empty id");
    pal_str bad = pal_str_make("\xff", 1);
    pal_route_link link = {.name = str("john"), .ids = &bad, .ids_len = 1};
    pal_route_config links = {.links = &link, .links_len = 1};
    fails(&links, &context, PAL_INVALID, "'identity_links[0][0]' is not valid UTF-8");
    pal_route_config many = {.rules = &rule, .rules_len = PAL_ROUTE_RULES_MAX + 1};
    fails(&many, &context, PAL_LIMIT, "10001 rules exceed the limit");
}

static void errors_name_the_position_of_a_wrong_dimension(void)
{
    static const char long_name[1 << 20];
    pal_route_context context = {0};
    pal_str names[] = {str("chat"), str("a\x1b-")};
    pal_route_config config = {.dimensions = names, .dimensions_len = 2};
    fails(&config, &context, PAL_INVALID, "'dimensions[1]' contains a control character");
    names[1] = str("\xff");
    fails(&config, &context, PAL_INVALID, "'dimensions[1]' is not valid UTF-8");
    names[1] = pal_str_make(long_name, sizeof long_name);
    fails(&config, &context, PAL_LIMIT,
            "'dimensions[1]' of 1048576 bytes exceeds the limit of 4096");
    pal_route_rule rule = {.when = {.channel = str("x")}, .dimensions = names, .dimensions_len = 2};
    pal_route_config in_rule = {.rules = &rule, .rules_len = 1};
    fails(&in_rule, &context, PAL_LIMIT, "'rules[0].session_dimensions[1]' of 1048576 bytes");
}

/* ---- Memory and threads ---- */

static const pal_route_rule slack_rule = {
        .name = {"r", 1}, .agent = {"support", 7}, .when = {.channel = {"slack", 5}}};

static void running_out_of_memory_is_reported(void)
{
    pal_route_config config = {.dimensions = all_dimensions,
            .dimensions_len = 4,
            .links = john,
            .links_len = 1,
            .rules = &slack_rule,
            .rules_len = 1};
    pal_route_context context = {.channel = str("Slack"),
            .chat_type = str("direct"),
            .chat_id = str("C|1"),
            .sender_id = str("u-slack"),
            .agent_id = str("\xc3\x84")};
    pal_status status = PAL_NO_MEMORY;
    uint64_t nth = 1;
    for (; status != PAL_OK && nth < 100; nth++) {
        pal_route route;
        pal_arena *small = NULL;
        pal_route_settings *settings = NULL;
        pal_error err = {PAL_OK, ""};
        pal_memory_fail_at(nth, 0);
        status = pal_route_settings_new(&config, &settings, &err);
        small = status == PAL_OK ? pal_arena_new(0) : NULL;
        if (status == PAL_OK)
            status = small ? pal_route_decide(settings, &context, small, &route, &err)
                           : PAL_NO_MEMORY;
        pal_memory_fail_at(0, 0);
        CHECK_STATUS_EITHER(status, PAL_OK, PAL_NO_MEMORY);
        pal_route_settings_free(settings);
        pal_arena_free(small);
    }
    CHECK_STATUS(status, PAL_OK);
    CHECK_THAT(nth, >, 3);
    pal_arena *tiny = pal_arena_new(256);
    pal_route_settings *settings = NULL;
    pal_route route;
    CHECK_STATUS(pal_route_settings_new(&config, &settings, NULL), PAL_OK);
    CHECK_STATUS(pal_route_decide(settings, &context, tiny, &route, NULL), PAL_LIMIT);
    pal_route_settings_free(settings);
    pal_arena_free(tiny);
}

typedef struct worker {
    pthread_t thread;
    const pal_route_settings *settings;
    char keys[64][72];
} worker;

static void *work(void *user)
{
    worker *w = user;
    pal_arena *own = pal_arena_new(0);
    for (size_t i = 0; own && i < 64; i++) {
        char chat[16];
        pal_route route;
        snprintf(chat, sizeof chat, "C%zu", i);
        pal_route_context context = {
                .channel = str("slack"), .chat_id = str(chat), .sender_id = str("u-slack")};
        pal_arena_reset(own);
        if (pal_route_decide(w->settings, &context, own, &route, NULL) == PAL_OK)
            memcpy(w->keys[i], route.key.data, route.key.len);
    }
    pal_arena_free(own);
    return NULL;
}

static void threads_can_share_settings(void)
{
    static worker workers[4];
    pal_route_config config = {.dimensions = chat_and_sender,
            .dimensions_len = 2,
            .links = john,
            .links_len = 1,
            .rules = &slack_rule,
            .rules_len = 1};
    pal_route_settings *settings = NULL;
    if (!CHECK_STATUS(pal_route_settings_new(&config, &settings, NULL), PAL_OK))
        return;
    for (size_t i = 0; i < 4; i++) {
        workers[i].settings = settings;
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
        CHECK_BYTES(workers[0].keys, workers[i].keys, sizeof workers[0].keys);
    }
    CHECK_BEGINS(workers[0].keys[0], "sk_v1_");
    CHECK(memcmp(workers[0].keys[0], workers[0].keys[1], 72) != 0);
    pal_route_settings_free(settings);
}

int main(void)
{
    route_begin();
    RUN(dimensions_match_picoclaw);
    RUN(dm_scopes_match_picoclaw);
    RUN(errors_name_wrong_settings);
    RUN(errors_name_the_position_of_a_wrong_dimension);
    RUN(running_out_of_memory_is_reported);
    RUN(threads_can_share_settings);
    return route_done();
}
