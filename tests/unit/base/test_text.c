/* test_text.c - small questions about texts. */
#include "base/memory.h"
#include "base/text.h"
#include "support/tap.h"

#define S(text) pal_str_of(text)

static const pal_str NOTHING = {NULL, 0};

static void a_text_begins_and_ends_with_itself(void)
{
    CHECK(pal_text_begins(S("https://a"), "https://"));
    CHECK(pal_text_begins(S("https://"), "https://"));
    CHECK(!pal_text_begins(S("https:/"), "https://"));
    CHECK(pal_text_begins(NOTHING, ""));
    CHECK(!pal_text_begins(NOTHING, "a"));
    CHECK(pal_text_ends(S("a.jsonl"), ".jsonl"));
    CHECK(pal_text_ends(S(".jsonl"), ".jsonl"));
    CHECK(!pal_text_ends(S("jsonl"), ".jsonl"));
    CHECK(pal_text_ends(NOTHING, ""));
    CHECK_STR(pal_text_after(S("key=value"), 4), "value");
    CHECK_EQ(pal_text_after(S("key="), 4).len, 0);
    CHECK_EQ(pal_text_after(S("key"), 4).len, 0);
}

static void case_does_not_matter_for_ascii_letters(void)
{
    CHECK(pal_text_is_nocase(S("Content-Type"), "content-type"));
    CHECK(!pal_text_is_nocase(S("Content-Type"), "content-typ"));
    CHECK(pal_text_equal_nocase(NOTHING, S("")));
    CHECK(pal_text_begins_nocase(S("Bearer x"), "bearer "));
    CHECK(!pal_text_begins_nocase(S("Bearer"), "bearer "));
    CHECK(!pal_text_is_nocase(S("\xc3\x84"), "\xc3\xa4"));
}

static void white_space_is_removed_at_both_ends(void)
{
    CHECK_STR(pal_text_trim(S(" \t a b\r\n")), "a b");
    CHECK_EQ(pal_text_trim(S(" \v\f ")).len, 0);
    CHECK_EQ(pal_text_trim(NOTHING).len, 0);
    CHECK(pal_text_is_blank(S(" \n")));
    CHECK(pal_text_is_blank(NOTHING));
    CHECK(!pal_text_is_blank(S(" .")));
    CHECK(!pal_text_is_blank(pal_str_make("\0", 1)));
}

static void hex_digits_have_values(void)
{
    for (int c = -128; c < 128; c++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *found = c > 0 ? strchr(digits, c) : NULL;
        if (!CHECK_EQ(pal_text_hex((char)c), found ? (int)((found - digits) % 16) : -1))
            return;
    }
}

static void tokens_are_those_of_rfc_9110(void)
{
    CHECK(pal_text_is_token(S("X-Api_Key.9!#$%&'*+^`|~")));
    CHECK(!pal_text_is_token(NOTHING));
    CHECK(!pal_text_is_token(S("a b")));
    CHECK(!pal_text_is_token(S("a:")));
    CHECK(!pal_text_is_token(S("\xc3\xa4")));
    CHECK(!pal_text_is_token(pal_str_make("a\0", 2)));
    CHECK(!pal_text_is_token(S("a@")));
    CHECK(!pal_text_is_token(S("[x]")));
}

static void urls_name_a_host(void)
{
    CHECK(pal_text_is_http_url(S("http://a")));
    CHECK(pal_text_is_http_url(S("https://a/b")));
    CHECK(!pal_text_is_http_url(S("https://")));
    CHECK(!pal_text_is_http_url(S("http://")));
    CHECK(!pal_text_is_http_url(S("ftp://a")));
    CHECK(!pal_text_is_http_url(NOTHING));
}

static void control_characters_are_found(void)
{
    CHECK(pal_text_has_control(S("a\tb")));
    CHECK(pal_text_has_control(S("\x7f")));
    CHECK(pal_text_has_control(pal_str_make("\0", 1)));
    CHECK(!pal_text_has_control(S("a b \xc3\xa4")));
    CHECK(!pal_text_has_control(NOTHING));
}

static void excerpts_end_between_characters(void)
{
    char out[32];
    snprintf(out, sizeof out, "<%.*s>", PAL_EXCERPT(S("abcdef"), 3));
    CHECK_STR(out, "<abc>");
    snprintf(out, sizeof out, "<%.*s>", PAL_EXCERPT(S("ab\xc3\xa4"), 3));
    CHECK_STR(out, "<ab>");
    snprintf(out, sizeof out, "<%.*s>", PAL_EXCERPT(NOTHING, 3));
    CHECK_STR(out, "<>");
}

static void arrays_grow_by_doubling(void)
{
    int *numbers = NULL;
    size_t cap = 0, moves = 0;
    for (int i = 0; i < 1000; i++) {
        size_t before = cap;
        if (!CHECK(pal_reserve(&numbers, &cap, (size_t)i + 1, sizeof *numbers)))
            break;
        moves += cap != before;
        numbers[i] = i;
    }
    CHECK_EQ(cap, 1024);
    CHECK_EQ(moves, 8);
    CHECK_EQ(numbers[999], 999);
    CHECK_EQ(numbers[0], 0);

    CHECK(pal_reserve(&numbers, &cap, 5000, sizeof *numbers));
    CHECK_EQ(cap, 5000);
    CHECK(!pal_reserve(&numbers, &cap, SIZE_MAX, sizeof *numbers));
    pal_memory_fail_at(1, 1);
    CHECK(!pal_reserve(&numbers, &cap, 5001, sizeof *numbers));
    pal_memory_fail_at(0, 0);
    CHECK_EQ(cap, 5000);
    CHECK_EQ(numbers[999], 999);
    pal_free(numbers);
}

int main(void)
{
    RUN(a_text_begins_and_ends_with_itself);
    RUN(case_does_not_matter_for_ascii_letters);
    RUN(white_space_is_removed_at_both_ends);
    RUN(hex_digits_have_values);
    RUN(tokens_are_those_of_rfc_9110);
    RUN(urls_name_a_host);
    RUN(control_characters_are_found);
    RUN(excerpts_end_between_characters);
    RUN(arrays_grow_by_doubling);
    return tap_done();
}
