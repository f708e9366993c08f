/* test_route_text.c - how texts are compared: PicoClaw's ids (tests/data/vectors), and letters and
 * white space beyond ASCII. */
#include "base/unicode.h"
#include "support/route_fixture.h"
#include "route/route_text.h"

static void check_id(pal_json row)
{
    pal_route_context context = {.agent_id = text_of(row, "in"), .account = text_of(row, "in")};
    pal_route route = routed(NULL, &context);
    CHECK(is_text(route.agent, text_of(row, "agent_id")));
    CHECK(is_text(route.account, text_of(row, "account_id")));
}

static void ids_match_picoclaw(void)
{
    CHECK_THAT(each_row("picoclaw_keys.json", "normalize_ids", check_id), >, 0);
}

static void unicode_letters_are_lower_cased(void)
{
    pal_route_config config = {.dimensions = chat_only, .dimensions_len = 1};
    pal_route_context context = {.channel = str("\xe3\x80\x80TELEGRAM\xc2\xa0"),
            .chat_type = str(" Group\xe2\x80\x89"),
            .chat_id = str("\xc3\x84"
                           "\xc8\xba"
                           "\xc4\xb0"
                           "\xce\xa3"
                           "\xe1\xba\x9e"
                           "\xf0\x90\x90\x80")};
    pal_route route = routed(&config, &context);
    CHECK(is_text(route.channel, str("telegram")));
    CHECK(is_text(route.values[0].value,
            str("group:\xc3\xa4"
                "\xe2\xb1\xa5"
                "i"
                "\xcf\x83"
                "\xc3\x9f"
                "\xf0\x90\x90\xa8")));
    /* The comparison does not fold the dotted I, though lower-casing removes the dot. */
    context.chat_type = str("d\xc4\xb0rect");
    route = routed(&config, &context);
    CHECK_EQ(route.aliases_len, 2);
    CHECK(pal_route_key_is_explicit(str("S\xe2\x84\xaa_v1_x")));
}

static void unicode_white_space_is_trimmed(void)
{
    static const char *const spaces[] = {"\t", "\n", "\v", "\f", "\r", " ", "\xc2\x85", "\xc2\xa0",
            "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x8a", "\xe2\x80\xa8", "\xe2\x80\xa9",
            "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    static const char *const others[] = {"\xe2\x80\x8b", "\xef\xbb\xbf", "\xe1\xa0\x8e", "x"};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        pal_str padded = pal_route_join(arena, str(spaces[i]), str("a b"), str(spaces[i]));
        CHECK(is_text(pal_unicode_trim(padded), str("a b")));
        CHECK_EQ(pal_unicode_trim(str(spaces[i])).len, 0);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(is_text(pal_unicode_trim(str(others[i])), str(others[i])));
}

int main(void)
{
    route_begin();
    RUN(ids_match_picoclaw);
    RUN(unicode_letters_are_lower_cased);
    RUN(unicode_white_space_is_trimmed);
    return route_done();
}
