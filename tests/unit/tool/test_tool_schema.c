/* test_tool_schema.c - arguments that match a schema and arguments that do not, keyword by keyword;
 * the error messages; and a time limit for any schema. */
#include <stdlib.h>
#include <time.h>
#include "base/buf.h"
#include "base/memory.h"
#include "support/tap.h"
#include "tool/tool_schema.h"
#include "tool/tool_schema_internal.h"

typedef struct schema_case {
    const char *schema;
    const char *good; /* texts separated by a tab; NULL: none */
    const char *bad;
} schema_case;

static pal_status check(const char *schema, pal_str arguments, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_status status = pal_tool_check(pal_str_of(schema), arguments, arena, err);
    pal_arena_free(arena);
    return status;
}

static void check_texts(const char *schema, const char *texts, pal_status expected)
{
    while (texts && *texts) {
        size_t len = strcspn(texts, "\t");
        pal_error err = {PAL_OK, ""};
        if (!CHECK_EQ(check(schema, pal_str_make(texts, len), &err), expected))
            printf("# %s with %.*s: %s\n", schema, (int)len, texts, err.message);
        texts += len + (texts[len] == '\t');
    }
}

static void check_cases(const schema_case *cases, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        check_texts(cases[i].schema, cases[i].good, PAL_OK);
        check_texts(cases[i].schema, cases[i].bad, PAL_INVALID);
    }
}

#define CASES(cases) check_cases(cases, sizeof(cases) / sizeof(*cases))

static void types(void)
{
    static const schema_case cases[] = {
            {"{\"type\":\"object\"}", "{}\t{\"a\":1}", "[]\t1\tnull"},
            {"{\"type\":\"array\"}", "[]", "{}"},
            {"{\"type\":\"string\"}", "\"a\"", "1"},
            {"{\"type\":\"number\"}", "1\t1.5\t1e400", "\"1\""},
            {"{\"type\":\"integer\"}", "1\t-3\t1.0\t1e3\t1e300\t18446744073709551615", "1.5\t\"1\""},
            {"{\"type\":\"boolean\"}", "true\tfalse", "0\tnull"},
            {"{\"type\":\"null\"}", "null", "0\tfalse"},
            {"{\"type\":[\"string\",\"null\"]}", "\"a\"\tnull", "1"},
            {"{\"type\":[]}", NULL, "1"},
            {"{\"type\":\"string\",\"nullable\":true}", "null\t\"a\"", "1"},
            {"{\"type\":\"strange\"}", "1", NULL},
            {"{\"type\":7}", "1", NULL},
    };
    CASES(cases);
}

static void values(void)
{
    static const schema_case cases[] = {
            {"{\"enum\":[\"a\",1,null,{\"b\":2}]}", "\"a\"\t1\t1.0\tnull\t{\"b\":2}", "\"b\"\t2\t{}"},
            {"{\"const\":[1,{\"a\":2}]}", "[1,{\"a\":2}]", "[1]\t1"},
            {"{\"const\":null}", "null", "0"},
            {"{\"enum\":\"a\"}", "1", NULL},
    };
    CASES(cases);
}

static void numbers(void)
{
    static const schema_case cases[] = {
            {"{\"minimum\":2}", "2\t2.5\t\"1\"", "1.9\t-3"},
            {"{\"maximum\":2}", "2\t-2", "2.1\t3"},
            {"{\"exclusiveMinimum\":2}", "2.1", "2\t1"},
            {"{\"exclusiveMaximum\":2}", "1.9", "2\t3"},
            {"{\"minimum\":2,\"exclusiveMinimum\":true}", "3", "2"},
            {"{\"maximum\":2,\"exclusiveMaximum\":true}", "1", "2"},
            {"{\"minimum\":9007199254740993}", "9007199254740993", "9007199254740992"},
            {"{\"multipleOf\":3}", "9\t0\t-3", "10\t1.5"},
            {"{\"multipleOf\":0.1}", "0.3\t1", "0.35"},
            {"{\"multipleOf\":0}", "1", NULL},
            {"{\"minimum\":\"2\"}", "1", NULL},
    };
    CASES(cases);
}

static void texts(void)
{
    static const schema_case cases[] = {
            {"{\"minLength\":2}", "\"ab\"\t\"\xc3\xa4\xc3\xb6\"\t1", "\"a\"\t\"\xc3\xa4\""},
            {"{\"maxLength\":2}", "\"ab\"\t\"\xf0\x9f\x98\x80\xf0\x9f\x98\x80\"", "\"abc\""},
            {"{\"format\":\"email\"}", "\"no address\"", NULL},
    };
    CASES(cases);
}

static void patterns(void)
{
    static const schema_case cases[] = {
            {"{\"pattern\":\"b\"}", "\"abc\"\t7", "\"ac\""},
            {"{\"pattern\":\"^a.c$\"}", "\"abc\"", "\"xabc\"\t\"ac\""},
            {"{\"pattern\":\"^\\\\d{3}-\\\\d{4}$\"}", "\"555-1234\"", "\"5555-123\"\t\"abc-defg\""},
            {"{\"pattern\":\"^[\\\\w.-]+@[\\\\w.-]+$\"}", "\"a.b-c@d.e\"", "\"a b@c\""},
            {"{\"pattern\":\"^[^\\\\s/]+$\"}", "\"ab]\"", "\"a b\"\t\"a/b\""},
            {"{\"pattern\":\"^[\\\\]^a-c[-]+$\"}", "\"]^b[-\"", "\"d\""},
            {"{\"pattern\":\"^(?:a|b)+?c$\"}", "\"abac\"", "\"c\""},
            {"{\"pattern\":\"^\\\\S+\\\\s\\\\S+$\"}", "\"a b\"", "\"ab\""},
            {"{\"pattern\":\"^\\\\$\\\\{a\\\\}\\\\/$\"}", "\"${a}/\"", "\"a\""},
            {"{\"pattern\":\"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$\"}",
                    "\"01234567-89ab-cdef-0123-456789abcdef\"", "\"01234567\""},
            {"{\"pattern\":\"\"}", "\"\"", NULL},
            {"{\"pattern\":\"^[^]$\"}", "\"a\"", "\"ab\""},
            {"{\"pattern\":\"^a\\\\n$\"}", "\"a\\n\"", "\"an\""},
            {"{\"pattern\":\"^(a|bc|d{2,3})*e?$\"}", "\"\"\t\"abcdde\"\t\"ddda\"", "\"d\"\t\"eb\""},
            {"{\"pattern\":\"^(?:(a*)*|b)+$\"}", "\"aab\"\t\"\"", "\"c\""},
            {"{\"pattern\":\"^a{2}b{0}c{1,}d{0,2}$\"}", "\"aac\"\t\"aaccdd\"",
                    "\"aabc\"\t\"aaddd\"\t\"aacddd\""},
            {"{\"pattern\":\"x$|^y\"}", "\"ax\"\t\"yb\"", "\"xa\"\t\"ay\""},
            {"{\"pattern\":\"a$b|^$\"}", "\"\"", "\"ab\"\t\"a\""},
    };
    CASES(cases);
}

/* The check stops after the allowed number of steps, and then the text passes: also a text for
 * which POSIX's matcher needs seconds and hundreds of megabytes. */
static void the_work_for_patterns_is_limited(void)
{
    static const char *const patterns[] = {"[ab]*a[ab]{200}c", "^([ab]+)+c$", "(a|b|ab)*c",
            "(((a?){20}){20}){9}c", "(((a{0}){255}){255}){255}", "([ab]{1,60}){60}c"};
    char text[4001];
    uint32_t state = 7;
    for (size_t i = 0; i < 4000; i++) {
        state = state * 1664525 + 1013904223;
        text[i] = state >> 30 & 1 ? 'a' : 'b';
    }
    for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
        pal_schema_check check = {0};
        (void)pal_schema_pattern(
                &check, pal_str_of(patterns[i]), pal_str_make(text, sizeof(text) - 1));
        /* Far below the allowed cost of one check. */
        CHECK(!check.stopped);
        CHECK_THAT(check.steps, <, 200000);
    }
    pal_schema_check check = {0};
    CHECK_EQ(pal_schema_pattern(&check, pal_str_of("^[ab]+$"), pal_str_make(text, 4000)),
            PAL_SCHEMA_FITS);
    CHECK_EQ(pal_schema_pattern(&check, pal_str_of("^[ab]+c$"), pal_str_make(text, 4000)),
            PAL_SCHEMA_DIFFERS);
}

/* These patterns would refuse all of these texts, if the limit did not let them pass. */
static void unsupported_patterns_match_everything(void)
{
    static const char *const patterns[] = {"^(?=x)y", "^(?!a)b$", "\\\\bq\\\\b", "(a)\\\\1",
            "\\\\u0041", "\\\\p{L}", "^(a", "a)", "[a", "a{2,1}", "x{999}", "(((x{99}){99}){99})",
            "*a", "^*b", "\xc3\xa4", "a||b", "()", "[]", "{", "a{", "\\\\cA", "(?<n>q)", "\\\\"};
    char schema[128];
    for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
        snprintf(schema, sizeof(schema), "{\"pattern\":\"%s\"}", patterns[i]);
        check_texts(schema, "\"zz\"", PAL_OK);
        /* And a guess is not negated. */
        snprintf(schema, sizeof(schema), "{\"not\":{\"pattern\":\"%s\"}}", patterns[i]);
        check_texts(schema, "\"zz\"", PAL_OK);
    }
    check_texts("{\"pattern\":\"^.$\"}", "\"\xc3\xa4\"\t\"\\u0000\"\t\"\\n\"", PAL_OK);
}

static void lists(void)
{
    static const schema_case cases[] = {
            {"{\"minItems\":1}", "[1]\t{}", "[]"},
            {"{\"maxItems\":1}", "[1]", "[1,2]"},
            {"{\"uniqueItems\":true}", "[1,\"1\",{\"a\":1},{\"a\":2}]",
                    "[1,1.0]\t[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]"},
            {"{\"uniqueItems\":false}", "[1,1]", NULL},
            {"{\"items\":{\"type\":\"string\"}}", "[]\t[\"a\",\"b\"]\t1", "[\"a\",1]"},
            {"{\"items\":false}", "[]", "[1]"},
            {"{\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"number\"}]}", "[\"a\",1,true]\t[\"a\"]",
                    "[1]\t[\"a\",\"b\"]"},
            {"{\"prefixItems\":[true],\"items\":{\"type\":\"null\"}}", "[1,null]", "[1,1]"},
            {"{\"items\":[{\"type\":\"string\"}],\"additionalItems\":{\"type\":\"null\"}}",
                    "[\"a\",null]", "[1]\t[\"a\",1]"},
            {"{\"contains\":{\"type\":\"string\"}}", "[1,\"a\"]", "[1]\t[]"},
            {"{\"contains\":{\"type\":\"string\"},\"minContains\":2,\"maxContains\":3}",
                    "[\"a\",\"b\"]\t[\"a\",\"b\",\"c\",1]", "[\"a\"]\t[\"a\",\"b\",\"c\",\"d\"]"},
            {"{\"contains\":{\"type\":\"string\"},\"minContains\":0}", "[]", NULL},
    };
    CASES(cases);
}

static void objects(void)
{
    static const schema_case cases[] = {
            {"{\"properties\":{\"a\":{\"type\":\"string\"}}}", "{\"a\":\"x\"}\t{\"b\":1}\t[]",
                    "{\"a\":1}"},
            {"{\"properties\":{\"a\":false}}", "{}", "{\"a\":1}"},
            {"{\"required\":[\"a\",\"b\"]}", "{\"a\":1,\"b\":null}\t1", "{\"a\":1}\t{}"},
            {"{\"properties\":{\"a\":true},\"additionalProperties\":false}", "{\"a\":1}\t{}",
                    "{\"b\":1}"},
            {"{\"additionalProperties\":{\"type\":\"number\"}}", "{\"x\":1}", "{\"x\":\"1\"}"},
            {"{\"patternProperties\":{\"^x\":{\"type\":\"number\"}},\"additionalProperties\":false}",
                    "{\"x1\":1}", "{\"x1\":\"1\"}\t{\"y\":1}"},
            {"{\"patternProperties\":{\"(?=x)\":true},\"additionalProperties\":false}", "{\"y\":1}",
                    NULL},
            {"{\"minProperties\":1}", "{\"a\":1}\t[]", "{}"},
            {"{\"maxProperties\":1}", "{\"a\":1}", "{\"a\":1,\"b\":2}"},
            {"{\"propertyNames\":{\"maxLength\":2}}", "{\"ab\":1}", "{\"abc\":1}"},
            {"{\"dependentRequired\":{\"a\":[\"b\"]}}", "{\"b\":1}\t{\"a\":1,\"b\":1}", "{\"a\":1}"},
            {"{\"dependentSchemas\":{\"a\":{\"required\":[\"b\"]}}}", "{}\t{\"a\":1,\"b\":1}",
                    "{\"a\":1}"},
            {"{\"dependencies\":{\"a\":[\"b\"],\"c\":{\"maxProperties\":1}}}", "{\"c\":1}",
                    "{\"a\":1}\t{\"c\":1,\"d\":1}"},
            {"{\"properties\":{\"a/b\":{\"type\":\"null\"}}}", "{\"a/b\":null}", "{\"a\\/b\":1}"},
    };
    CASES(cases);
}

static void alternatives(void)
{
    static const schema_case cases[] = {
            {"{\"allOf\":[{\"minimum\":1},{\"maximum\":3}]}", "2", "0\t4"},
            {"{\"anyOf\":[{\"type\":\"string\"},{\"minimum\":3}]}", "\"a\"\t4", "2"},
            {"{\"oneOf\":[{\"minimum\":3},{\"maximum\":5}]}", "2\t6", "4"},
            {"{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "null", "1"},
            {"{\"oneOf\":[{\"pattern\":\"(?=q)\"},{\"type\":\"string\"}]}", "\"a\"", NULL},
            {"{\"anyOf\":[]}", NULL, "1"},
            {"{\"not\":{\"type\":\"string\"}}", "1", "\"a\""},
            {"{\"not\":{\"not\":{\"type\":\"string\"}}}", "\"a\"", "1"},
            {"{\"if\":{\"properties\":{\"a\":{\"const\":1}}},\"then\":{\"required\":[\"b\"]},"
             "\"else\":{\"required\":[\"c\"]}}", "{\"a\":1,\"b\":1}\t{\"a\":2,\"c\":1}",
                    "{\"a\":1,\"c\":1}\t{\"a\":2,\"b\":1}"},
            {"{\"if\":true}", "1", NULL},
            {"{\"if\":{\"pattern\":\"(?=q)\"},\"then\":false,\"else\":false}", "\"a\"", NULL},
    };
    CASES(cases);
}

static void references(void)
{
    static const schema_case cases[] = {
            {"{\"$ref\":\"#/$defs/s\",\"$defs\":{\"s\":{\"type\":\"string\"}}}", "\"a\"", "1"},
            {"{\"$ref\":\"#/definitions/a~1b%20c\",\"definitions\":{\"a/b c\":{\"type\":\"null\"}}}",
                    "null", "1"},
            {"{\"properties\":{\"x\":{\"$ref\":\"#\"}},\"additionalProperties\":false}",
                    "{\"x\":{\"x\":{}}}", "{\"x\":{\"x\":{\"y\":1}}}"},
            {"{\"$ref\":\"#/allOf/1\",\"allOf\":[true,{\"type\":\"number\"}]}", "1", "\"a\""},
            {"{\"$ref\":\"#n\",\"$defs\":{\"q\":{\"$anchor\":\"n\",\"type\":\"null\"}}}", "null", "1"},
            {"{\"$ref\":\"https://example.org/schema\"}", "1", NULL},
            {"{\"$ref\":\"#/nowhere\"}", "1", NULL},
            {"{\"not\":{\"$ref\":\"#/nowhere\"}}", "1", NULL},
            {"{\"not\":{\"unevaluatedProperties\":false}}", "{\"a\":1}", NULL},
            {"{\"$ref\":\"#\"}", "1", NULL},
            {"{\"anyOf\":[{\"$ref\":\"#\"}]}", "1", NULL},
    };
    CASES(cases);
}

static void an_invalid_schema_allows_everything(void)
{
    static const char *const schemas[] = {"", "{", "7", "\"x\"", "null", "true", "[]", "{}",
            "{\"properties\":3,\"required\":3,\"items\":3,\"allOf\":3,\"not\":3,\"$ref\":3}"};
    for (size_t i = 0; i < sizeof(schemas) / sizeof(*schemas); i++)
        check_texts(schemas[i], "{\"a\":1}", PAL_OK);
    check_texts("false", "{}", PAL_INVALID);
}

static void arguments_must_be_json(void)
{
    pal_error err;
    CHECK_FAILS(check("{}", pal_str_of("{\"a\":"), &err), PAL_INVALID, &err, "not JSON");
    CHECK_STATUS(check("", pal_str_of("nope"), NULL), PAL_INVALID);
    CHECK_STATUS(check("{\"type\":\"object\"}", pal_str_of(""), NULL), PAL_OK);
    CHECK_STATUS(check("{\"required\":[\"a\"]}", pal_str_of(""), NULL), PAL_INVALID);
}

static void says(const char *schema, const char *arguments, const char *message)
{
    pal_error err = {PAL_OK, ""};
    CHECK_STATUS(check(schema, pal_str_of(arguments), &err), PAL_INVALID, &err);
    if (!CHECK_STR(err.message, message))
        printf("# %s\n", err.message);
}

static void errors_name_the_place_and_the_problem(void)
{
    says("{\"properties\":{\"path\":{\"items\":{\"type\":\"string\"}}}}", "{\"path\":[1]}",
            "at '/path/0': expected string, got number");
    says("{\"type\":\"object\"}", "[]", "expected object, got array");
    says("{\"required\":[\"name\"]}", "{}", "'name' is missing");
    says("{\"properties\":{\"a/b~c\":{\"type\":[\"string\",\"null\"]}}}", "{\"a/b~c\":true}",
            "at '/a~1b~0c': expected one of [\"string\",\"null\"], got boolean");
    says("{\"properties\":{\"a\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}}}", "{\"a\":1}",
            "at '/a': matches none of 2 alternatives; the first: at '/a': expected string, got number");
    says("{\"properties\":{\"a\":{\"enum\":[\"x\",\"y\"]}}}", "{\"a\":\"z\"}",
            "at '/a': expected one of [\"x\",\"y\"], got \"z\"");
    says("{\"additionalProperties\":false}", "{\"q\":1}", "'q' is not a known member");
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A schema whose check would take 3^30 steps, and others that are large or have loops. */
static void the_work_for_a_check_is_limited(void)
{
    pal_buf schema, arguments;
    pal_buf_init(&schema, 1 << 24);
    pal_buf_init(&arguments, 1 << 24);
    double start = seconds();
    pal_buf_append_text(&schema, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{");
    for (int i = 0; i < 30; i++)
        pal_buf_format(&schema, "\"d%d\":{\"anyOf\":[{\"$ref\":\"#/$defs/d%d\"},"
                "{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]},", i, i + 1, i + 1, i + 1);
    pal_buf_append_text(&schema, "\"d30\":false}}");
    pal_buf_append_char(&schema, '\0');
    CHECK_STATUS(check(schema.data, pal_str_of("1"), NULL), PAL_OK);
    pal_buf_append_char(&arguments, '[');
    for (int i = 0; i < 200000; i++)
        pal_buf_format(&arguments, "%s\"%d\"", i ? "," : "", i);
    pal_buf_append_char(&arguments, ']');
    CHECK_STATUS(check("{\"uniqueItems\":true}", pal_buf_str(&arguments), NULL), PAL_OK);
    CHECK_STATUS(check("{\"items\":{\"pattern\":\"^([a-z]+[0-9]{1,99})+$\"}}",
                         pal_buf_str(&arguments), NULL),
            PAL_INVALID);
    CHECK_STATUS(check("{\"items\":{\"not\":{\"pattern\":\"^([a-z]+[0-9]{1,99})+$\"}}}",
                         pal_buf_str(&arguments), NULL),
            PAL_OK);
    pal_buf_clear(&arguments);
    for (int i = 0; i < 500; i++)
        pal_buf_append_char(&arguments, '[');
    for (int i = 0; i < 500; i++)
        pal_buf_append_char(&arguments, ']');
    CHECK_STATUS(check("{\"items\":{\"$ref\":\"#\"}}", pal_buf_str(&arguments), NULL), PAL_OK);
    CHECK_THAT(seconds() - start, <, 5);
    pal_buf_done(&schema);
    pal_buf_done(&arguments);
}

static void an_allocation_failure_is_reported(void)
{
    static const char schema[] = "{\"properties\":{\"a\\u0062\":{\"pattern\":\"^[a-z]{3}$\"}},"
            "\"required\":[\"ab\"],\"$ref\":\"#/$defs/x~0\",\"$defs\":{\"x~\":{\"minProperties\":1}}}";
    pal_status status = PAL_NO_MEMORY;
    int rounds = 0;
    for (uint64_t nth = 1; nth < 1000; nth++, rounds++) {
        pal_arena *arena = pal_arena_new(0);
        pal_memory_fail_at(nth, 0);
        status = pal_tool_check(pal_str_of(schema), pal_str_of("{\"\\u0061b\":\"abc\"}"), arena, NULL);
        int failed = pal_memory_failed();
        pal_memory_fail_at(0, 0);
        pal_arena_free(arena);
        CHECK(status == PAL_OK || (failed && status == PAL_NO_MEMORY));
        if (!failed)
            break;
    }
    CHECK_STATUS(status, PAL_OK);
    CHECK_THAT(rounds, >, 1);
}

int main(void)
{
    RUN(types);
    RUN(values);
    RUN(numbers);
    RUN(texts);
    RUN(patterns);
    RUN(unsupported_patterns_match_everything);
    RUN(the_work_for_patterns_is_limited);
    RUN(lists);
    RUN(objects);
    RUN(alternatives);
    RUN(references);
    RUN(an_invalid_schema_allows_everything);
    RUN(arguments_must_be_json);
    RUN(errors_name_the_place_and_the_problem);
    RUN(the_work_for_a_check_is_limited);
    RUN(an_allocation_failure_is_reported);
    return tap_done();
}
