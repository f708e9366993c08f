/* test_dialect_member.c - tables of members: names, records and lists. */
#include <stddef.h>
#include "base/buf.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "support/tap.h"

typedef enum color { NO_COLOR, RED, GREEN } color;

typedef struct size {
    uint64_t width;
    uint32_t height;
} size;

typedef struct hole {
    pal_str label;
    color color;
} hole;

typedef struct box {
    color color;
    bool has_size;
    size size;
    size inside; /* always written */
    pal_str size_extra;
    hole *holes;
    size_t holes_len;
} box;

static pal_arena *arena;
static pal_error error;

static const char *const color_names[] = {"none", "red", "green"};
static const pal_member_names colors = {color_names, 3, "one of red, green"};

static const pal_member size_members[] = {
        {"width", PAL_MEMBER_U64, 1, .offset = offsetof(size, width)},
        {"height", PAL_MEMBER_U32, 1, .offset = offsetof(size, height)},
};
static const pal_member_table size_table = {size_members, 2, NULL, NULL};
static const pal_member_record size_record = {
        &size_table, 1, offsetof(box, has_size), offsetof(box, size_extra)};
static const pal_member_record inside_record = {&size_table, 1, 0, 0};

static const pal_member hole_members[] = {
        {"label", PAL_MEMBER_STRING, 1, .offset = offsetof(hole, label)},
        {"color", PAL_MEMBER_NAME, 1, .offset = offsetof(hole, color), .of = &colors},
};
static const pal_member_table hole_table = {hole_members, 2, NULL, NULL};
static const pal_member_list hole_list = {&hole_table, sizeof(hole), offsetof(box, holes_len)};

static const pal_member box_members[] = {
        {"color", PAL_MEMBER_NAME, 1, .offset = offsetof(box, color), .of = &colors},
        {"size", PAL_MEMBER_RECORD, 1, .offset = offsetof(box, size), .of = &size_record},
        {"inside", PAL_MEMBER_RECORD, 1, .offset = offsetof(box, inside), .of = &inside_record},
        {"holes", PAL_MEMBER_LIST, 1, .offset = offsetof(box, holes), .of = &hole_list},
};
static const pal_member_table box_table = {box_members, 4, NULL, NULL};
/* Without the list, which only stored records have. */
static const pal_member_table given_table = {box_members, 3, NULL, NULL};

static pal_json parsed(const char *json)
{
    pal_json value = {0};
    if (pal_json_parse(arena, pal_str_of(json), NULL, &value, &error) != PAL_OK)
        tap_check(false, error.message, __FILE__, __LINE__);
    return value;
}

static pal_str written(const box *record)
{
    pal_buf buf;
    pal_str json = {0};
    pal_buf_init(&buf, SIZE_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_members_write(&box_table, 1, &writer, record);
    pal_json_end_object(&writer);
    CHECK_STATUS(pal_member_keep(&buf, arena, &json, &error), PAL_OK);
    pal_buf_done(&buf);
    return json;
}

static pal_status given(const char *json, box *out)
{
    pal_str extra;
    *out = (box){0};
    return pal_members_read(&given_table, 1, parsed(json), arena, out, &extra, &error);
}

static void a_stored_record_survives(void)
{
    static const char json[] = "{\"color\":\"green\",\"size\":{\"width\":3,\"height\":4},"
                               "\"inside\":{\"width\":1},\"holes\":[{\"label\":\"a\"},"
                               "{\"label\":\"b\",\"color\":\"red\"}]}";
    box found;
    CHECK_STATUS(
            pal_members_read_stored(&box_table, 1, parsed(json), arena, &found, &error), PAL_OK);
    CHECK_EQ(found.color, GREEN);
    CHECK(found.has_size);
    CHECK_EQ(found.size.height, 4);
    CHECK_EQ(found.inside.width, 1);
    CHECK_EQ(found.holes_len, 2);
    CHECK_EQ(found.holes[0].color, NO_COLOR);
    CHECK_EQ(found.holes[1].color, RED);
    found.size_extra = (pal_str){0};
    CHECK_STR(written(&found), json);
}

static void zero_is_left_out(void)
{
    const box empty = {0};
    CHECK_STR(written(&empty), "{\"inside\":{}}");
}

static void a_damaged_record_reads_as_zero(void)
{
    box found;
    memset(&found, 0xff, sizeof found);
    CHECK_STATUS(pal_members_read_stored(&box_table, 1,
                         parsed("{\"color\":\"none\",\"size\":3,\"inside\":[],\"holes\":{}}"),
                         arena, &found, &error),
            PAL_OK);
    CHECK_EQ(found.color, NO_COLOR);
    CHECK(!found.has_size);
    CHECK_EQ(found.size.width, 0);
    CHECK_EQ(found.inside.height, 0);
    CHECK_EQ(found.holes_len, 0);
}

static void given_records_are_checked(void)
{
    box found;
    CHECK_STATUS(given("{\"color\":\"red\",\"size\":{\"depth\":1,\"width\":2}}", &found), PAL_OK);
    CHECK_EQ(found.color, RED);
    CHECK(found.has_size);
    CHECK_EQ(found.size.width, 2);
    CHECK_STR(found.size_extra, "{\"depth\":1}");
    CHECK_FAILS(given("{\"color\":\"none\"}", &found), PAL_INVALID, &error,
            "member 'color' is 'none'; expected one of red, green");
    CHECK_FAILS(given("{\"size\":[]}", &found), PAL_INVALID, &error,
            "member 'size' is an array; expected an object");
    CHECK_FAILS(given("{\"size\":{\"width\":\"x\"}}", &found), PAL_INVALID, &error,
            "member 'width' is 'x'; expected an integer from 0");
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(a_stored_record_survives);
    RUN(zero_is_left_out);
    RUN(a_damaged_record_reads_as_zero);
    RUN(given_records_are_checked);
    pal_arena_free(arena);
    return tap_done();
}
