/* test_buf.c - buffers, errors and digests, which all other code uses for output. */
#include <stdint.h>
#include "base/buf.h"
#include "base/digest.h"
#include "base/memory.h"
#include "support/tap.h"

static bool buf_is(const pal_buf *buf, const char *text)
{
    return pal_str_is(pal_buf_str(buf), text);
}

static void appends_are_concatenated(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 1000);
    CHECK_EQ(buf.len, 0);
    CHECK_EQ(pal_buf_str(&buf).len, 0);
    pal_buf_append(&buf, "a", 1);
    pal_buf_append(&buf, NULL, 0);
    pal_buf_append_str(&buf, pal_str_of("bc"));
    pal_buf_append_str(&buf, pal_str_make(NULL, 0));
    pal_buf_append_text(&buf, "def");
    pal_buf_append_char(&buf, '\0');
    CHECK(!buf.failure);
    if (CHECK_EQ(buf.len, 7))
        CHECK_BYTES(buf.data, "abcdef", 7);
    pal_buf_done(&buf);
    CHECK(!buf.data);
    CHECK_EQ(buf.len, 0);
}

static void numbers_are_decimal(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 1000);
    pal_buf_append_u64(&buf, 0);
    pal_buf_append_char(&buf, ' ');
    pal_buf_append_u64(&buf, UINT64_MAX);
    pal_buf_append_char(&buf, ' ');
    pal_buf_append_i64(&buf, INT64_MIN);
    pal_buf_append_char(&buf, ' ');
    pal_buf_append_i64(&buf, INT64_MAX);
    CHECK(buf_is(&buf, "0 18446744073709551615 -9223372036854775808 9223372036854775807"));
    pal_buf_done(&buf);
}

static void failure_sticks(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 10);
    pal_buf_append_text(&buf, "0123456789");
    CHECK(!buf.failure);
    CHECK_EQ(buf.len, 10);
    pal_buf_append_char(&buf, 'x');
    CHECK_STATUS(buf.failure, PAL_LIMIT);
    CHECK_EQ(buf.len, 10);
    pal_buf_consume(&buf, 5);
    pal_buf_append_char(&buf, 'x');
    CHECK_STATUS(buf.failure, PAL_LIMIT);
    CHECK(buf_is(&buf, "56789"));
    CHECK(!pal_buf_reserve(&buf, 1));

    pal_buf_clear(&buf);
    pal_buf_append_i64(&buf, -123456789);
    CHECK(!buf.failure);
    CHECK_EQ(buf.len, 10);
    pal_buf_clear(&buf);
    pal_buf_append_i64(&buf, -1234567890);
    CHECK_STATUS(buf.failure, PAL_LIMIT);
    CHECK_EQ(buf.len, 0);
    pal_buf_done(&buf);
}

static void the_maximum_is_exact_however_it_is_reached(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 300);
    for (int i = 0; i < 300; i++)
        pal_buf_append_char(&buf, 'x');
    CHECK(!buf.failure);
    CHECK_EQ(buf.len, 300);
    pal_buf_append_char(&buf, 'x');
    CHECK_STATUS(buf.failure, PAL_LIMIT);
    CHECK_EQ(buf.len, 300);

    pal_buf_clear(&buf);
    pal_buf_format(&buf, "%300d", 1);
    CHECK(!buf.failure);
    CHECK_EQ(buf.len, 300);
    pal_buf_clear(&buf);
    pal_buf_format(&buf, "%301d", 1);
    CHECK_STATUS(buf.failure, PAL_LIMIT);
    CHECK_EQ(buf.len, 0);
    pal_buf_done(&buf);
}

static void formatted_text_can_have_any_length(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 100000);
    pal_buf_format(&buf, "%s-%d", "a", 7);
    CHECK(buf_is(&buf, "a-7"));
    for (int width = 250; width < 260; width++) {
        pal_buf_clear(&buf);
        pal_buf_format(&buf, "%*d", width, 5);
        if (CHECK_EQ(buf.len, (size_t)width))
            CHECK_EQ(buf.data[width - 1], '5');
    }
    pal_buf_done(&buf);
}

static void reserved_room_is_appended_by_a_commit(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 5000);
    pal_buf_append_text(&buf, "ab");
    char *place = pal_buf_reserve(&buf, 1000);
    CHECK(place);
    memcpy(place, "cd", 2);
    pal_buf_commit(&buf, 2);
    CHECK(buf_is(&buf, "abcd"));
    pal_buf_consume(&buf, 1);
    CHECK(buf_is(&buf, "bcd"));
    pal_buf_consume(&buf, 3);
    CHECK_EQ(buf.len, 0);
    CHECK(!pal_buf_reserve(&buf, SIZE_MAX));
    CHECK_STATUS(buf.failure, PAL_LIMIT);
    pal_buf_done(&buf);
}

static void an_allocation_failure_is_reported(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 100000);
    pal_memory_fail_at(2, 1);
    for (int i = 0; i < 1000; i++)
        pal_buf_append_char(&buf, 'x');
    CHECK(pal_memory_failed());
    CHECK_STATUS(buf.failure, PAL_NO_MEMORY);
    CHECK_THAT(buf.len, >, 0);
    CHECK_THAT(buf.len, <, 1000);
    pal_buf_clear(&buf);
    pal_memory_fail_at(1, 1);
    pal_buf_format(&buf, "%1000d", 1);
    CHECK_STATUS(buf.failure, PAL_NO_MEMORY);
    pal_memory_fail_at(0, 0);
    pal_buf_done(&buf);
}

static void statuses_have_names(void)
{
    CHECK_STR(pal_status_name(PAL_OK), "ok");
    CHECK_STR(pal_status_name(PAL_NOT_FOUND), "not_found");
    CHECK_STR(pal_status_name(PAL_PROVIDER), "provider");
    CHECK_STR(pal_status_name(PAL_BUDGET), "budget_exceeded");
    CHECK_STR(pal_status_name((pal_status)99), "unknown");
    for (int i = PAL_OK; i <= PAL_OVERLOADED; i++) {
        CHECK(pal_status_name((pal_status)i));
        CHECK(pal_status_name((pal_status)i)[0]);
    }
}

static void errors_are_one_line(void)
{
    pal_error err;
    CHECK_STATUS(pal_error_set(&err, PAL_CONFLICT, "'%s' is at %d", "a\nb", 3), PAL_CONFLICT, &err);
    CHECK_STATUS(err.status, PAL_CONFLICT);
    CHECK_STR(err.message, "'a b' is at 3");
    CHECK_STATUS(pal_error_set(NULL, PAL_IO, "%s", "nobody reads this"), PAL_IO);
    pal_error_set(&err, PAL_IO, "again: %s", err.message);
    CHECK_STR(err.message, "again: 'a b' is at 3");
}

static void long_errors_are_cut_between_characters(void)
{
    for (int pad = 240; pad < 250; pad++) {
        pal_error err;
        pal_error_set(&err, PAL_IO, "%*s%s", pad, "", "\xf0\x9f\x99\x82\xf0\x9f\x99\x82");
        size_t len = strlen(err.message);
        CHECK_THAT(len, <=, PAL_ERROR_MESSAGE_MAX - 1);
        CHECK(pad >= 248 || (len - (size_t)pad) % 4 == 0);
        CHECK(pad > 243 || len == (size_t)pad + 4);
    }
}

static void digests_match_the_standard(void)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char text[2 * PAL_SHA256_SIZE + 1];
    CHECK_STATUS(pal_sha256(pal_str_of("abc"), digest), PAL_OK);
    pal_hex(digest, sizeof digest, text);
    CHECK_STR(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK_STATUS(pal_sha256(pal_str_make(NULL, 0), digest), PAL_OK);
    pal_hex(digest, sizeof digest, text);
    CHECK_STR(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void hex_survives_a_round_trip(void)
{
    uint8_t bytes[2] = {0, 0};
    if (CHECK(pal_unhex(pal_str_of("aB0f"), bytes, 2))) {
        CHECK_EQ(bytes[0], 0xab);
        CHECK_EQ(bytes[1], 0x0f);
    }
    CHECK(!pal_unhex(pal_str_of("ab0"), bytes, 2));
    CHECK(!pal_unhex(pal_str_of("ab0f1"), bytes, 2));
    CHECK(!pal_unhex(pal_str_of("ag00"), bytes, 2));
    CHECK(!pal_unhex(pal_str_of("@@@@"), bytes, 2));
    CHECK(!pal_unhex(pal_str_of("\x10\x10``"), bytes, 2));
    CHECK_EQ(bytes[0], 0xab);
    CHECK(pal_unhex(pal_str_make(NULL, 0), bytes, 0));
}

int main(void)
{
    RUN(appends_are_concatenated);
    RUN(numbers_are_decimal);
    RUN(failure_sticks);
    RUN(the_maximum_is_exact_however_it_is_reached);
    RUN(formatted_text_can_have_any_length);
    RUN(reserved_room_is_appended_by_a_commit);
    RUN(an_allocation_failure_is_reported);
    RUN(statuses_have_names);
    RUN(errors_are_one_line);
    RUN(long_errors_are_cut_between_characters);
    RUN(digests_match_the_standard);
    RUN(hex_survives_a_round_trip);
    return tap_done();
}
