/* fuzz_json.c - any bytes as JSON: the reader never crashes, and accepted JSON can be written and
 * read again as the same value. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/json/json.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) require((condition), #condition, __LINE__)

static void require(bool held, const char *text, int line)
{
    if (held)
        return;
    fprintf(stderr, "fuzz_json.c:%d: %s\n", line, text);
    abort();
}

static void write_value(pal_json_writer *w, pal_json value, pal_arena *arena);

static void write_number(pal_json_writer *w, pal_json value)
{
    int64_t i;
    uint64_t u;
    double f;
    if (pal_json_i64(value, &i))
        pal_json_put_i64(w, i);
    else if (pal_json_u64(value, &u))
        pal_json_put_u64(w, u);
    else if (pal_json_f64(value, &f))
        pal_json_put_f64(w, f);
    else
        pal_json_put_raw(w, pal_json_raw(value));
}

static void write_members(pal_json_writer *w, pal_json value, pal_arena *arena)
{
    pal_json name, member;
    size_t count = 0;
    pal_json_iter iter = pal_json_each(value);
    for (; pal_json_next(&iter, &name, &member); count++) {
        if (pal_json_type_of(name) == PAL_JSON_STRING)
            pal_json_name_str(w, pal_json_string(name, arena));
        write_value(w, member, arena);
    }
    REQUIRE(count == pal_json_count(value));
}

static void write_string(pal_json_writer *w, pal_json value, pal_arena *arena)
{
    pal_str text = pal_json_string(value, arena);
    REQUIRE(pal_utf8_is_valid(text));
    pal_json_put_str(w, text);
}

/* The reader limits the depth. */
static void write_value(pal_json_writer *w, pal_json value, pal_arena *arena)
{
    bool truth;
    switch (pal_json_type_of(value)) {
    case PAL_JSON_OBJECT:
        pal_json_begin_object(w);
        write_members(w, value, arena);
        pal_json_end_object(w);
        break;
    case PAL_JSON_ARRAY:
        pal_json_begin_array(w);
        write_members(w, value, arena);
        pal_json_end_array(w);
        break;
    case PAL_JSON_STRING:
        write_string(w, value, arena);
        break;
    case PAL_JSON_NUMBER:
        write_number(w, value);
        break;
    case PAL_JSON_NULL:
        pal_json_put_null(w);
        break;
    default:
        REQUIRE(pal_json_bool(value, &truth));
        pal_json_put_bool(w, truth);
    }
}

static void check_accepted(pal_json value, pal_arena *arena)
{
    pal_json again;
    REQUIRE(pal_json_parse(arena, pal_json_raw(value), NULL, &again, NULL) == PAL_OK);
    REQUIRE(pal_json_equal(value, again));

    pal_buf buf;
    pal_buf_init(&buf, SIZE_MAX / 2);
    pal_json_writer w = pal_json_writer_make(&buf);
    write_value(&w, value, arena);
    REQUIRE(!buf.failure && !pal_arena_failure(arena));
    REQUIRE(pal_json_parse(arena, pal_buf_str(&buf), NULL, &again, NULL) == PAL_OK);
    REQUIRE(pal_json_equal(value, again) && pal_json_equal(again, value));
    pal_buf_done(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static pal_arena *arena;
    if (!arena)
        REQUIRE((arena = pal_arena_new(0)) != NULL);
    pal_arena_reset(arena);

    pal_json value;
    pal_error err = {PAL_OK, ""};
    pal_str text = pal_str_make((const char *)data, size);
    pal_status status = pal_json_parse(arena, text, NULL, &value, &err);
    if (status == PAL_OK) {
        check_accepted(value, arena);
    } else {
        REQUIRE(status == PAL_INVALID || status == PAL_LIMIT);
        REQUIRE(err.status == status && err.message[0]);
    }
    return 0;
}
