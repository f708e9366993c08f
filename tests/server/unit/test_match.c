/* test_match.c - which route a path matches, and how many requests a client may send. */
#include "server/access/access_rate.h"
#include "server/server_internal.h"
#include "support/tap.h"

#include <stdio.h>

static const pal_api_route first_routes[] = {
        {.method = "GET", .path = "/a/things"},
        {.method = "POST", .path = "/a/things"},
        {.method = "GET", .path = "/a/things/{id}"},
        {.method = "DELETE", .path = "/a/things/{id}"},
        {.method = "GET", .path = "/a/things/{id}/parts/{part}"},
        {0},
};
static const pal_api_route more_routes[] = {
        {.method = "GET", .path = "/a/things/search"},
        {.method = "GET", .path = "/a/"},
        {.method = "PUT", .path = "/"},
        {.method = "PUT", .path = "/b/{id}/"},
        {0},
};
static const pal_api_route *const groups[] = {first_routes, more_routes, NULL};
static const pal_api api = {.prefix = "/a/", .routes = groups};

static const char *match(const char *method, const char *path, pal_match *out)
{
    pal_match_route(&api, pal_str_of(method), pal_str_of(path), out);
    return out->route ? out->route->path : "";
}

static void paths_find_their_routes(void)
{
    pal_match m;
    CHECK_STR(match("GET", "/a/things", &m), "/a/things");
    CHECK_STR(match("GET", "/a/", &m), "/a/");
    CHECK_STR(match("GET", "/a/things/7", &m), "/a/things/{id}");
    CHECK_STR(m.params[0], "7");
    CHECK_STR(match("GET", "/a/things/x%2Fy/parts/2", &m), "/a/things/{id}/parts/{part}");
    CHECK_STR(m.params[0], "x%2Fy");
    CHECK_STR(m.params[1], "2");
}

static void patterns_may_end_anyhow(void)
{
    pal_match m;
    CHECK_STR(match("PUT", "/", &m), "/");
    CHECK_STR(match("PUT", "/b/x/", &m), "/b/{id}/");
    CHECK_STR(m.params[0], "x");
    if (CHECK_EQ(*match("PUT", "/b/x", &m), 0))
        CHECK_EQ(*match("PUT", "a", &m), 0);
    if (CHECK_EQ(*match("", "/a/", &m), 0))
        CHECK_EQ(*match("G", "/a/", &m), 0);
    if (CHECK_EQ(*match("GETS", "/a/", &m), 0))
        CHECK_STR(m.allowed, "GET, HEAD");
}

static void own_characters_go_before_parameters(void)
{
    pal_match m;
    CHECK_STR(match("GET", "/a/things/search", &m), "/a/things/search");
    CHECK_EQ(m.params[0].len, 0);
    CHECK_STR(match("DELETE", "/a/things/search", &m), "/a/things/{id}");
}

static void a_parameter_is_one_segment_that_is_not_empty(void)
{
    pal_match m;
    if (CHECK_EQ(*match("GET", "/a/things/", &m), 0))
        CHECK_EQ(m.allowed[0], 0);
    if (CHECK_EQ(*match("GET", "/a/things/1/2", &m), 0))
        CHECK_EQ(m.allowed[0], 0);
    if (CHECK_EQ(*match("GET", "/a/things//parts/2", &m), 0))
        CHECK_EQ(m.allowed[0], 0);
    if (CHECK_EQ(*match("GET", "/a/thing", &m), 0))
        CHECK_EQ(m.allowed[0], 0);
    if (CHECK_EQ(*match("GET", "", &m), 0))
        CHECK_EQ(m.allowed[0], 0);
}

static void other_methods_get_the_list_of_allowed_methods(void)
{
    pal_match m;
    CHECK_EQ(*match("PUT", "/a/things", &m), 0);
    CHECK_STR(m.allowed, "GET, HEAD, POST");
    CHECK_STR(match("HEAD", "/a/things", &m), "/a/things");
    CHECK_EQ(*match("POST", "/a/things/search", &m), 0);
    CHECK_STR(m.allowed, "GET, HEAD, DELETE");
}

static void segments_are_decoded(void)
{
    pal_str text;
    pal_arena *arena = pal_arena_new(0);
    CHECK(pal_match_decode(arena, pal_str_of("a%2Fb%20c+d"), &text));
    CHECK_STR(text, "a/b c+d");
    if (CHECK(pal_match_decode(arena, pal_str_of("%c3%A4"), &text)))
        CHECK_STR(text, "\xc3\xa4");
    static const char *const bad[] = {"%", "%2", "%zz", "a%0", "%00", "%ff", "%c3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!pal_match_decode(arena, pal_str_of(bad[i]), &text));
    pal_arena_free(arena);
}

static void a_minutes_requests_and_no_more(void)
{
    int64_t retry_ms = 0, now = 1000;
    pal_rate *rate = pal_rate_new();
    pal_str who = pal_str_of("k");
    for (int i = 0; i < 6; i++)
        CHECK(pal_rate_take(rate, who, 6, now, &retry_ms));
    CHECK(!pal_rate_take(rate, who, 6, now, &retry_ms));
    CHECK_THAT(retry_ms, >, 9900);
    CHECK_THAT(retry_ms, <=, 10001);
    CHECK(pal_rate_take(rate, pal_str_of("other"), 6, now, &retry_ms));
    CHECK(!pal_rate_take(rate, who, 6, now + 9900000, &retry_ms));
    CHECK(pal_rate_take(rate, who, 6, now + 10000000, &retry_ms));
    CHECK(!pal_rate_take(rate, who, 6, now + 10000000, &retry_ms));
    /* A long pause fills the bucket, but not beyond its size. */
    now += (int64_t)3600 * 1000000;
    for (int i = 0; i < 6; i++)
        CHECK(pal_rate_take(rate, who, 6, now, &retry_ms));
    CHECK(!pal_rate_take(rate, who, 6, now, &retry_ms));
    CHECK(pal_rate_take(rate, who, 0, now, &retry_ms));
    pal_rate_free(rate);
}

static void a_crowd_waits_and_takes_no_more_memory(void)
{
    char name[32];
    int64_t retry_ms = 0, now = 10000000;
    bool all = true;
    pal_rate *rate = pal_rate_new();
    for (int i = 0; i < PAL_SERVER_RATE_BUCKETS_MAX; i++) {
        snprintf(name, sizeof name, "%d", i);
        all = all && pal_rate_take(rate, pal_str_of(name), 10, now, &retry_ms);
    }
    CHECK(all);
    if (CHECK(!pal_rate_take(rate, pal_str_of("late"), 10, now, &retry_ms)))
        CHECK_EQ(retry_ms, 60000);
    CHECK(pal_rate_take(rate, pal_str_of("0"), 10, now, &retry_ms));
    CHECK(pal_rate_take(rate, pal_str_of("late"), 10, now + 61000000, &retry_ms));
    pal_rate_free(rate);
}

int main(void)
{
    RUN(paths_find_their_routes);
    RUN(patterns_may_end_anyhow);
    RUN(own_characters_go_before_parameters);
    RUN(a_parameter_is_one_segment_that_is_not_empty);
    RUN(other_methods_get_the_list_of_allowed_methods);
    RUN(segments_are_decoded);
    RUN(a_minutes_requests_and_no_more);
    RUN(a_crowd_waits_and_takes_no_more_memory);
    return tap_done();
}
