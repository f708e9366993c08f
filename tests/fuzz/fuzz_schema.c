/* fuzz_schema.c - any schema, a newline, and any arguments: a check never crashes, has the same
 * result twice, and is consistent: arguments that do not match the schema match its negation. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/buf.h"
#include "base/json/json.h"
#include "base/utf8.h"
#include "tool/tool_schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) require((condition), #condition, __LINE__)

static void require(bool held, const char *text, int line)
{
    if (held)
        return;
    fprintf(stderr, "fuzz_schema.c:%d: %s\n", line, text);
    abort();
}

static pal_status check(pal_str schema, pal_str arguments, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    *err = (pal_error){PAL_OK, ""};
    pal_status status = pal_tool_check(schema, arguments, arena, err);
    pal_arena_free(arena);
    REQUIRE(status == PAL_OK || status == PAL_INVALID);
    REQUIRE(status == PAL_OK || (err->message[0] && pal_utf8_is_valid(pal_str_of(err->message))));
    return status;
}

static pal_status check_within(
        const char *before, pal_str schema, const char *after, pal_str arguments)
{
    pal_error err;
    pal_buf text;
    pal_buf_init(&text, SIZE_MAX / 2);
    pal_buf_append_text(&text, before);
    pal_buf_append_str(&text, schema);
    pal_buf_append_text(&text, after);
    pal_status status = check(pal_buf_str(&text), arguments, &err);
    pal_buf_done(&text);
    return status;
}

static bool is_json(pal_str text)
{
    pal_json_limits limits = {.depth_max = 64}; /* less than the depth of a check */
    pal_arena *arena = pal_arena_new(0);
    pal_json value;
    bool valid = pal_json_parse(arena, text, &limits, &value, NULL) == PAL_OK;
    pal_arena_free(arena);
    return valid;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    size_t len = end ? (size_t)(end - data) : size;
    pal_str schema = pal_str_make((const char *)data, len);
    pal_str arguments = end ? pal_str_make((const char *)end + 1, size - len - 1) : (pal_str){0};
    pal_error first, second;
    pal_status status = check(schema, arguments, &first);
    REQUIRE(check(schema, arguments, &second) == status);
    REQUIRE(strcmp(first.message, second.message) == 0);
    /* A reference would begin at another place in a larger schema. */
    if (size > 4096 || !is_json(schema) || !is_json(arguments) || memchr(schema.data, '$', len) ||
            memchr(schema.data, '\\', len))
        return 0;
    REQUIRE(check_within("{\"allOf\":[", schema, "]}", arguments) == status);
    if (status)
        REQUIRE(check_within("{\"not\":", schema, "}", arguments) == PAL_OK);
    return 0;
}
