/* test_tool_loop.c - the third identical call in a row is detected: the cases of a program with the
 * same rule except for its comparison of arguments, and our definition of identical. */
#include <stdlib.h>
#include "base/json/json.h"
#include "support/tap.h"
#include "support/vectors.h"
#include "palaver/loop.h"

static bool add_call(pal_tool_loop *loop, pal_json call, pal_arena *arena)
{
    pal_json_iter each = pal_json_each(call);
    pal_json name = {0}, arguments = {0};
    if (CHECK(pal_json_next(&each, NULL, &name)))
        CHECK(pal_json_next(&each, NULL, &arguments));
    return pal_tool_loop_add(loop, pal_json_string(name, arena), pal_json_string(arguments, arena));
}

static void run_case(pal_json one, pal_arena *arena)
{
    pal_tool_loop loop = {0};
    pal_json_iter calls = pal_json_each(pal_json_find(one, "calls"));
    pal_json_iter answers = pal_json_each(pal_json_find(one, "detected"));
    pal_json call, answer;
    uint64_t reset_after = 0, at = 0;
    (void)pal_json_u64(pal_json_find(one, "reset_after"), &reset_after);
    /* That program compares arguments as bytes, we compare values. */
    pal_str note = pal_json_string(pal_json_find(one, "note"), arena);
    bool by_bytes = note.len >= 4 && memcmp(note.data, "byte", 4) == 0;
    while (pal_json_next(&calls, NULL, &call) && pal_json_next(&answers, NULL, &answer)) {
        bool found = add_call(&loop, call, arena), expected = false;
        CHECK(pal_json_bool(answer, &expected));
        at++;
        if (by_bytes && at == 3)
            expected = true;
        if (!CHECK_EQ(found, expected))
            printf("# %.*s: call %d\n", PAL_STR_ARG(note), (int)at);
        if (at == reset_after)
            pal_tool_loop_reset(&loop);
    }
}

static void the_last_tool_is_known(void)
{
    pal_tool_loop loop = {0};
    char name[PAL_TOOL_LOOP_NAME_LEN_MAX + 20];
    CHECK_EQ(loop.last_name[0], '\0');
    (void)pal_tool_loop_add(&loop, pal_str_of("read"), pal_str_of("{}"));
    CHECK_STR(loop.last_name, "read");
    memset(name, 'n', sizeof name);
    (void)pal_tool_loop_add(&loop, pal_str_make(name, sizeof name), pal_str_of("{}"));
    CHECK_EQ(strlen(loop.last_name), PAL_TOOL_LOOP_NAME_LEN_MAX);
    pal_tool_loop_reset(&loop);
    CHECK_EQ(loop.last_name[0], '\0');
}

static void upstream_cases_hold(void)
{
    pal_arena *arena = pal_arena_new(0);
    pal_json one;
    size_t cases = 0;
    pal_json_iter each =
            pal_json_each(pal_json_find(vectors_load(arena, "doom_loop.json"), "cases"));
    for (; pal_json_next(&each, NULL, &one); cases++)
        run_case(one, arena);
    CHECK_THAT(cases, >=, 6);
    pal_arena_free(arena);
}

/* Whether three calls with these arguments are a loop. */
static bool is_loop(const char *a, const char *b, const char *c)
{
    pal_tool_loop loop = {0};
    const char *texts[] = {a, b, c};
    bool found = false;
    for (int i = 0; i < 3; i++)
        found = pal_tool_loop_add(&loop, pal_str_of("t"), pal_str_of(texts[i]));
    return found;
}

static void arguments_are_equal_as_values(void)
{
    CHECK(is_loop("{\"a\":1,\"b\":[1,2]}", "{\"b\":[1, 2],\"a\":1}", " {\"a\":1.0,\"b\":[1,2e0]}"));
    CHECK(is_loop("{\"a\":\"\\u0041\"}", "{\"a\":\"A\"}", "{\"\\u0061\":\"A\"}"));
    CHECK(!is_loop("{\"a\":[1,2]}", "{\"a\":[2,1]}", "{\"a\":[1,2]}"));
    CHECK(!is_loop("{\"a\":1}", "{\"a\":\"1\"}", "{\"a\":1}"));
    CHECK(!is_loop("{\"a\":1,\"b\":2}", "{\"a\":2,\"b\":1}", "{\"a\":1,\"b\":2}"));
    CHECK(!is_loop("{\"a\":{}}", "{\"a\":[]}", "{\"a\":{}}"));
    CHECK(!is_loop("{\"a\":null}", "{}", "{\"a\":null}"));
    CHECK(is_loop("{\"a\":0.1}", "{\"a\":1e-1}", "{\"a\":0.10}"));
}

static void invalid_json_is_compared_as_bytes(void)
{
    CHECK(is_loop("{\"a\":", "{\"a\":", "{\"a\":"));
    CHECK(!is_loop("{\"a\":", "{\"a\": ", "{\"a\":"));
    CHECK(is_loop("", "", ""));
    CHECK(!is_loop("", "{}", ""));
}

static void another_tool_restarts_the_count(void)
{
    pal_tool_loop loop = {0};
    pal_str none = pal_str_of("{}");
    CHECK(!pal_tool_loop_add(&loop, pal_str_of("a"), none));
    CHECK(!pal_tool_loop_add(&loop, pal_str_of("a"), none));
    CHECK(!pal_tool_loop_add(&loop, pal_str_of("b"), none));
    CHECK(!pal_tool_loop_add(&loop, pal_str_of("a"), none));
    CHECK(!pal_tool_loop_add(&loop, pal_str_of("a"), none));
    CHECK(pal_tool_loop_add(&loop, pal_str_of("a"), none));
    CHECK(pal_tool_loop_add(&loop, pal_str_of("a"), none));
    pal_tool_loop_reset(&loop);
    CHECK(!pal_tool_loop_add(&loop, pal_str_of("a"), none));
}

int main(void)
{
    RUN(upstream_cases_hold);
    RUN(the_last_tool_is_known);
    RUN(arguments_are_equal_as_values);
    RUN(invalid_json_is_compared_as_bytes);
    RUN(another_tool_restarts_the_count);
    return tap_done();
}
