/* test_tap.c - the checks of tap.h: each of them can fail, and prints the compared values. */
#include <sys/wait.h>
#include <unistd.h>
#include "support/tap.h"

static int port = 80;
static char printed[2048];

/* Runs `test` in a child, whose output goes to `printed` without file names and line numbers.
 * Returns whether it failed. */
static bool fails(void (*test)(void))
{
    int ends[2];
    size_t len = 0;
    ssize_t n;
    int status = 0;
    pid_t child;

    if (!CHECK_EQ(pipe(ends), 0))
        return false;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        tap_failed = false;
        test();
        fflush(stdout);
        _exit(tap_failed);
    }
    close(ends[1]);
    while ((n = read(ends[0], printed + len, sizeof printed - 1 - len)) > 0)
        len += (size_t)n;
    printed[len] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);

    char *check = strstr(printed, "CHECK");
    if (check)
        memmove(printed, check, strlen(check) + 1);
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

#define PRINTS(test, text)                                                                         \
    do {                                                                                           \
        CHECK(fails(test));                                                                        \
        CHECK_STR(printed, text);                                                                  \
    } while (0)

static void wrong_condition(void)
{
    CHECK(port == 81);
}

static void wrong_number(void)
{
    CHECK_EQ(port, 81);
}

static void wrong_sign(void)
{
    CHECK_EQ(UINT64_MAX, -1);
}

static void wrong_fraction(void)
{
    CHECK_EQ(port / 160.0, 0.25);
}

static void wrong_order(void)
{
    CHECK_THAT(port, >, 80u);
}

static void wrong_text(void)
{
    CHECK_STR(pal_str_make("a\n\"b\"", 5), "a");
}

static void wrong_null(void)
{
    const char *none = NULL;

    CHECK_STR(none, "");
}

static void wrong_part(void)
{
    CHECK_CONTAINS("port 80", "81");
}

static void unwanted_part(void)
{
    CHECK_LACKS("port 80", "80");
}

static void wrong_start(void)
{
    CHECK_BEGINS("port 80", "ports");
}

static void same_text(void)
{
    CHECK_DIFFER("port", pal_str_of("port"));
}

static void neither_number(void)
{
    CHECK_EITHER(port, 81, 82);
}

static void wrong_pointer(void)
{
    CHECK_PTR(NULL, &port);
}

static void wrong_byte(void)
{
    CHECK_BYTES("port", "post", 4);
}

static void wrong_id(void)
{
    pal_id a = {{1}}, b = {{2}};

    CHECK_ID(a, b);
}

static struct fixture {
    pal_error err;
} test;

static void wrong_status(void)
{
    CHECK_STATUS(pal_error_set(&test.err, PAL_INVALID, "port 80 is taken"), PAL_OK, &test.err);
}

static void wrong_status_alone(void)
{
    CHECK_STATUS(pal_error_set(NULL, PAL_INVALID, " "), PAL_OK);
}

static void not_ok(void)
{
    OK(pal_error_set(&test.err, PAL_INVALID, "port 80 is taken"));
}

static void neither_status(void)
{
    CHECK_STATUS_EITHER(PAL_IO, PAL_OK, PAL_LIMIT);
}

static void wrong_message(void)
{
    CHECK_FAILS(pal_error_set(&test.err, PAL_INVALID, "port 80 is taken"), PAL_INVALID, &test.err,
            "81");
}

static void each_check_fails_and_prints_its_values(void)
{
    PRINTS(wrong_condition, "CHECK(port == 81)\n");
    PRINTS(wrong_number, "CHECK_EQ(port, 81)\n#   got    80\n#   wanted 81\n");
    PRINTS(wrong_fraction, "CHECK_EQ(port / 160.0, 0.25)\n#   got    0.5\n#   wanted 0.25\n");
    PRINTS(wrong_order, "CHECK_THAT(port, >, 80u)\n#   got    80\n#   wanted 80\n");
    PRINTS(wrong_text,
            "CHECK_STR(pal_str_make(\"a\\n\\\"b\\\"\", 5), \"a\")\n"
            "#   got    \"a\\n\\\"b\\\"\"\n#   wanted \"a\"\n");
    PRINTS(wrong_null, "CHECK_STR(none, \"\")\n#   got    NULL\n#   wanted \"\"\n");
    PRINTS(wrong_part,
            "CHECK_CONTAINS(\"port 80\", \"81\")\n"
            "#   got         \"port 80\"\n#   wanted part \"81\"\n");
    PRINTS(unwanted_part,
            "CHECK_LACKS(\"port 80\", \"80\")\n"
            "#   got           \"port 80\"\n#   unwanted part \"80\"\n");
    PRINTS(wrong_start,
            "CHECK_BEGINS(\"port 80\", \"ports\")\n"
            "#   got          \"port 80\"\n#   wanted start \"ports\"\n");
    PRINTS(same_text, "CHECK_DIFFER(\"port\", pal_str_of(\"port\"))\n#   both are \"port\"\n");
    PRINTS(neither_number,
            "CHECK_EITHER(port, 81, 82)\n#   got    80\n#   wanted 81\n#   or     82\n");
    PRINTS(wrong_byte,
            "CHECK_BYTES(\"port\", \"post\", 4)\n"
            "#   got    byte 2 is 0x72\n#   wanted byte 2 is 0x73\n");
    PRINTS(wrong_id,
            "CHECK_ID(a, b)\n#   got    01000000-0000-0000-0000-000000000000\n"
            "#   wanted 02000000-0000-0000-0000-000000000000\n");
    PRINTS(wrong_status_alone,
            "CHECK_STATUS(pal_error_set(NULL, PAL_INVALID, \" \"), PAL_OK)\n"
            "#   got    invalid\n#   wanted ok\n");
    PRINTS(neither_status,
            "CHECK_STATUS_EITHER(PAL_IO, PAL_OK, PAL_LIMIT)\n"
            "#   got    io\n#   wanted ok or limit\n");
    CHECK(fails(wrong_pointer));
    CHECK_CONTAINS(printed, "CHECK_PTR(NULL, &port)\n#   got    (nil)\n#   wanted 0x");
    CHECK(fails(not_ok));
    CHECK_CONTAINS(printed, "#   got    invalid: port 80 is taken\n#   wanted ok\n");
    CHECK(fails(wrong_sign));
    CHECK_CONTAINS(printed, "#   got    18446744073709551615\n#   wanted -1\n");
    CHECK(fails(wrong_status));
    CHECK_CONTAINS(printed, "#   got    invalid: port 80 is taken\n#   wanted ok\n");
    CHECK(fails(wrong_message));
    CHECK_CONTAINS(printed, "#   got    invalid: port 80 is taken\n#   wanted invalid: ...81...\n");
}

static void right_values_print_nothing(void)
{
    size_t len = 3;
    int64_t least = INT64_MIN;
    const char *none = NULL;

    CHECK_EQ(len, 3);
    CHECK_EQ(least, INT64_MIN);
    CHECK_EQ(true, 1);
    CHECK_EQ(0.5, 0.5);
    CHECK_THAT(-1, <, len);
    CHECK_THAT(least, <, -1);
    CHECK_THAT(UINT64_MAX, >, INT64_MAX);
    CHECK_THAT(len, >=, 3);
    CHECK_THAT(len, <=, 3);
    CHECK_THAT(len, !=, 4);
    CHECK_STR("a", pal_str_of("a"));
    CHECK_STR(pal_str_make(NULL, 0), "");
    CHECK_STR(none, NULL);
    CHECK_CONTAINS(pal_str_of("abc"), "bc");
    CHECK_CONTAINS("", "");
    CHECK_LACKS("", "a");
    CHECK_BEGINS("abc", pal_str_of("ab"));
    CHECK_BEGINS("abc", "");
    CHECK_DIFFER(none, "");
    CHECK_EITHER(len, 3, 4);
    CHECK_PTR(&len, &len);
    CHECK_BYTES("abc", "abd", 2);
    CHECK_STATUS_EITHER(PAL_IO, PAL_LIMIT, PAL_IO);
    OK(PAL_OK);
    CHECK_ID(((pal_id){{1}}), ((pal_id){{1}}));
    CHECK_STATUS(PAL_LIMIT, PAL_LIMIT);
    CHECK_FAILS(pal_error_set(&test.err, PAL_IO, "port 80 is taken"), PAL_IO, &test.err, "80");
}

int main(void)
{
    RUN(each_check_fails_and_prints_its_values);
    RUN(right_values_print_nothing);
    return tap_done();
}
