/* test_utf8.c - UTF-8, compared with a slow and simple description. */
#include "base/utf8.h"
#include "support/tap.h"

/* All that RFC 3629 allows, spelled out. */
static size_t slow_len(const unsigned char *p, size_t len)
{
    size_t wanted = p[0] < 0x80           ? 1
            : p[0] >= 0xc0 && p[0] < 0xe0 ? 2
            : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
            : p[0] >= 0xf0 && p[0] < 0xf8 ? 4
                                          : 0;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (wanted == 0 || wanted > len)
        return 0;
    uint32_t c = wanted == 1 ? p[0] : p[0] & (0x7fu >> wanted);
    for (size_t i = 1; i < wanted; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    bool allowed = c >= least[wanted] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff);
    return allowed ? wanted : 0;
}

static void every_character_survives_a_round_trip(void)
{
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char bytes[4];
        uint32_t read;
        size_t len = pal_utf8_encode(c, bytes);
        bool surrogate = c >= 0xd800 && c <= 0xdfff;
        if (!CHECK_EQ(pal_utf8_decode(pal_str_make(bytes, len), &read), len) ||
                !CHECK_EQ(read, (surrogate ? 0xfffd : c)))
            return;
        if (!CHECK_EQ(slow_len((unsigned char *)bytes, len), len))
            return;
    }
    char bytes[4];
    CHECK_EQ(pal_utf8_encode(0x110000, bytes), 3);
    CHECK_BYTES(bytes, "\xef\xbf\xbd", 3);
}

static void every_short_sequence_is_validated_correctly(void)
{
    static const unsigned char tails[] = {
            0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff};
    for (unsigned lead = 0; lead < 256; lead++) {
        for (unsigned second = 0; second < 256; second++) {
            for (size_t i = 0; i < 100; i++) {
                unsigned char bytes[4] = {
                        (unsigned char)lead, (unsigned char)second, tails[i / 10], tails[i % 10]};
                for (size_t len = 1; len <= 4; len++) {
                    if (!CHECK_EQ(pal_utf8_char_len(bytes, bytes + len), slow_len(bytes, len)))
                        return;
                }
            }
        }
    }
}

/* The table of the Unicode standard about replacing maximal invalid parts. */
static void invalid_bytes_are_consumed_in_the_longest_parts(void)
{
    static const struct {
        const char *bytes;
        size_t len, taken;
    } cases[] = {
            {"\x80", 1, 1},
            {"\xff", 1, 1},
            {"\xc2", 1, 1},
            {"\xc0\x80", 2, 1},
            {"\xc2\x41", 2, 1},
            {"\xe1\x80", 2, 2},
            {"\xe1\x80\x41", 3, 2},
            {"\xe0\x80\x80", 3, 1},
            {"\xed\xa0\x80", 3, 1},
            {"\xf0\x9f", 2, 2},
            {"\xf0\x9f\x99", 3, 3},
            {"\xf0\x9f\x99\x41", 4, 3},
            {"\xf0\x80\x80\x80", 4, 1},
            {"\xf4\x90\x80\x80", 4, 1},
            {"\xf5\x80\x80\x80", 4, 1},
            {"\xf1\x80\x41\x41", 4, 2},
            {"\xe1", 1, 1},
            {"\xf0", 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t c = 0;
        size_t taken = pal_utf8_decode(pal_str_make(cases[i].bytes, cases[i].len), &c);
        if (!CHECK_EQ(taken, cases[i].taken) || !CHECK_EQ(c, 0xfffd))
            printf("# case %zu takes %zu\n", i, taken);
    }
}

static void the_valid_beginning_is_found(void)
{
    static const char text[] =
            "plain ascii that is long enough, \xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82 end";
    size_t len = sizeof text - 1;
    CHECK(pal_utf8_is_valid(pal_str_make(text, len)));
    CHECK(pal_utf8_is_valid(pal_str_make(NULL, 0)));
    char broken[sizeof text];
    for (size_t i = 0; i < len; i++) {
        memcpy(broken, text, sizeof text);
        broken[i] = (char)0xff;
        size_t valid = pal_utf8_valid_len(pal_str_make(broken, len));
        size_t expected = i;
        while (expected < len && ((unsigned char)text[expected] & 0xc0) == 0x80)
            expected--;
        if (!CHECK_EQ(valid, expected))
            printf("# broken at %zu: %zu\n", i, valid);
    }
    for (size_t cut = 0; cut < len; cut++) {
        size_t valid = pal_utf8_valid_len(pal_str_make(text, cut));
        CHECK_EQ(valid, pal_utf8_cut(pal_str_make(text, len), cut));
    }
}

static void cuts_fall_between_characters(void)
{
    pal_str text = pal_str_of("a\xf0\x9f\x99\x82z");
    CHECK_EQ(pal_utf8_cut(text, 0), 0);
    CHECK_EQ(pal_utf8_cut(text, 1), 1);
    CHECK_EQ(pal_utf8_cut(text, 2), 1);
    CHECK_EQ(pal_utf8_cut(text, 4), 1);
    CHECK_EQ(pal_utf8_cut(text, 5), 5);
    CHECK_EQ(pal_utf8_cut(text, 99), 6);
    /* Invalid bytes can be cut anywhere. */
    CHECK_EQ(pal_utf8_cut(pal_str_of("\x80\x80\x80\x80\x80"), 4), 4);
    CHECK_EQ(pal_utf8_cut(pal_str_of("\xff\xff"), 1), 1);
}

int main(void)
{
    RUN(every_character_survives_a_round_trip);
    RUN(every_short_sequence_is_validated_correctly);
    RUN(invalid_bytes_are_consumed_in_the_longest_parts);
    RUN(the_valid_beginning_is_found);
    RUN(cuts_fall_between_characters);
    return tap_done();
}
