/* test_context_spill.c - long outputs are cut to their head and tail, and nothing of them is
 * lost. */
#include "base/memory.h"
#include "palaver/context.h"
#include "palaver/limits.h"
#include "palaver/store.h"
#include "palaver/store_records.h"
#include "support/tap.h"

#define OUTPUT_MAX (200u << 10)

static pal_arena *arena;
static char output[OUTPUT_MAX];
static pal_part part;
static pal_message message;

static uint32_t spill(pal_part_kind kind, size_t len)
{
    uint32_t spilled = 99;
    part = (pal_part){.kind = kind, .call_id = pal_str_of("c"), .text = {output, len}};
    message = (pal_message){.role = PAL_ROLE_TOOL, .parts = &part, .parts_len = 1};
    CHECK_STATUS(pal_context_spill(&message, arena, &spilled, NULL), PAL_OK);
    return spilled;
}

static size_t fill_lines(size_t lines, const char *line)
{
    size_t len = 0, line_len = strlen(line);
    for (size_t i = 0; i < lines; i++) {
        memcpy(output + len, line, line_len);
        len += line_len;
    }
    return len;
}

static bool is_utf8(pal_str text)
{
    for (size_t i = 0; i < text.len;) {
        unsigned char c = (unsigned char)text.data[i];
        size_t len = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;
        if (len == 0 || i + len > text.len)
            return false;
        for (size_t j = 1; j < len; j++)
            if (((unsigned char)text.data[i + j] & 0xc0) != 0x80)
                return false;
        i += len;
    }
    return true;
}

/* Where the note begins and ends; the text before and after it is part of the output. */
static bool parts_of(pal_str *out_head, pal_str *out_note, pal_str *out_tail)
{
    pal_str text = pal_arena_copy(arena, part.text);
    const char *note = strstr(text.data, " left out here."), *end, *start;
    if (!CHECK(note != NULL))
        return false;
    end = strstr(note, "]\n") + 2;
    for (start = note; *start != '['; start--)
        ;
    *out_head = pal_str_make(text.data, (size_t)(start - text.data));
    *out_note = pal_str_make(start, (size_t)(end - start));
    *out_tail = pal_str_make(end, text.len - (size_t)(end - text.data));
    return true;
}

static bool begins(pal_str text)
{
    return memcmp(text.data, output, text.len) == 0;
}

static bool ends(pal_str text, size_t len)
{
    return memcmp(text.data, output + len - text.len, text.len) == 0;
}

static void outputs_up_to_the_limit_are_not_cut(void)
{
    size_t len = fill_lines(PAL_SPILL_LINES_MAX, "x\n");
    CHECK_EQ(spill(PAL_PART_TOOL_RESULT, len), 0);
    CHECK_PTR(part.text.data, output);
    CHECK_EQ(part.text.len, len);
    CHECK_EQ(part.data.len, 0);
    CHECK_EQ(spill(PAL_PART_TOOL_RESULT, len - 1), 0); /* the last line without its end */
    memset(output, 'x', OUTPUT_MAX);
    CHECK_EQ(spill(PAL_PART_TOOL_RESULT, PAL_SPILL_BYTES_MAX), 0);
    CHECK_EQ(spill(PAL_PART_TOOL_RESULT, 0), 0);
    CHECK_EQ(spill(PAL_PART_TEXT, OUTPUT_MAX), 0); /* only outputs of tools */
}

static void an_output_with_one_line_more_is_cut(void)
{
    pal_str head, note, tail;
    size_t len = fill_lines(PAL_SPILL_LINES_MAX + 1, "x\n");
    CHECK_EQ(spill(PAL_PART_TOOL_RESULT, len), 1);
    CHECK_PTR(part.data.data, output);
    CHECK_EQ(part.data.len, len);
    if (!parts_of(&head, &note, &tail))
        return;
    CHECK_EQ(head.len, PAL_SPILL_LINES_MAX);
    CHECK_EQ(tail.len, PAL_SPILL_LINES_MAX);
    CHECK_BEGINS(note, "[1 lines, 2 bytes are left out here.");
    CHECK_CONTAINS(note.data, "The whole output has 2001 lines");
}

static void an_output_with_one_byte_more_is_cut(void)
{
    pal_str head, note, tail;
    size_t len = PAL_SPILL_BYTES_MAX + 1;
    memset(output, 'x', len);
    CHECK_EQ(spill(PAL_PART_TOOL_RESULT, len), 1);
    if (!parts_of(&head, &note, &tail))
        return;
    /* One line: it is cut in the middle, and the note gets a separate line. */
    if (CHECK_EQ(head.len, PAL_SPILL_BYTES_MAX / 2 + 1))
        CHECK_EQ(head.data[head.len - 1], '\n');
    CHECK_EQ(tail.len, PAL_SPILL_BYTES_MAX / 2);
    CHECK_BEGINS(note, "[1 lines, 1 bytes are left out here.");
}

static void lines_are_kept_complete(void)
{
    pal_str head, note, tail;
    size_t len = fill_lines(500,
            "a line of text that is cut nowhere but at its end, "
            "whatever happens to be the limit of bytes, and so on, and on "
            "and on, until it has a hundred and fifty bytes....\n");
    CHECK_THAT(len, >, PAL_SPILL_BYTES_MAX);
    CHECK_EQ(spill(PAL_PART_TOOL_RESULT, len), 1);
    if (!parts_of(&head, &note, &tail))
        return;
    if (CHECK(begins(head))) {
        CHECK_EQ(head.data[head.len - 1], '\n');
        CHECK_THAT(head.len, >, 25000);
    }
    if (CHECK(ends(tail, len))) {
        CHECK_BEGINS(tail, "a line");
        CHECK_THAT(tail.len, >, 25000);
    }
    CHECK_THAT(part.text.len, <, PAL_SPILL_BYTES_MAX + 400);
}

static void characters_are_kept_complete(void)
{
    static const char *const lines[] = {"ä", "東", "𝄞", "a東", "ab東", "𝄞a", "ab𝄞c"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        pal_str head, note, tail;
        size_t line_len = strlen(lines[i]);
        size_t len = fill_lines((PAL_SPILL_BYTES_MAX + 1000) / line_len, lines[i]);
        CHECK_EQ(spill(PAL_PART_TOOL_RESULT, len), 1);
        CHECK(is_utf8(part.text));
        if (parts_of(&head, &note, &tail)) {
            CHECK(begins(pal_str_make(head.data, head.len - 1)));
            CHECK(ends(tail, len));
        }
    }
}

/* Invalid bytes are a valid output. */
static void bytes_that_are_not_text_do_not_block_it(void)
{
    memset(output, 0x80, OUTPUT_MAX);
    CHECK_EQ(spill(PAL_PART_TOOL_RESULT, OUTPUT_MAX), 1);
    CHECK_THAT(part.text.len, <, PAL_SPILL_BYTES_MAX + 400);
    memset(output, 0, OUTPUT_MAX);
    CHECK_EQ(spill(PAL_PART_TOOL_RESULT, OUTPUT_MAX), 1);
}

static void a_long_last_line_is_cut(void)
{
    pal_str head, note, tail;
    size_t len = fill_lines(10, "short\n");
    memset(output + len, 'x', 100000);
    len += 100000;
    CHECK_EQ(spill(PAL_PART_TOOL_RESULT, len), 1);
    if (!parts_of(&head, &note, &tail))
        return;
    CHECK_EQ(head.len, 60);
    CHECK(begins(head));
    CHECK_EQ(tail.len, PAL_SPILL_BYTES_MAX / 2);
    CHECK(ends(tail, len));
}

static void a_cut_output_is_not_cut_again(void)
{
    uint32_t spilled = 99;
    spill(PAL_PART_TOOL_RESULT, fill_lines(9000, "x\n"));
    pal_str text = part.text;
    if (CHECK_STATUS(pal_context_spill(&message, arena, &spilled, NULL), PAL_OK))
        CHECK_EQ(spilled, 0);
    CHECK_PTR(part.text.data, text.data);
}

/* ---- Outputs of several texts ---- */

static pal_part nested[8];

static uint32_t spill_nested(size_t nested_len)
{
    uint32_t spilled = 99;
    part = (pal_part){.kind = PAL_PART_TOOL_RESULT,
            .call_id = pal_str_of("c"),
            .parts = nested,
            .parts_len = nested_len};
    message = (pal_message){.role = PAL_ROLE_TOOL, .parts = &part, .parts_len = 1};
    CHECK_STATUS(pal_context_spill(&message, arena, &spilled, NULL), PAL_OK);
    return spilled;
}

static pal_part text_of(size_t from, size_t to)
{
    return (pal_part){.kind = PAL_PART_TEXT, .text = {output + from, to - from}};
}

static void several_texts_count_as_one(void)
{
    size_t len = fill_lines(PAL_SPILL_LINES_MAX, "x\n"), middle = len / 2;
    nested[0] = text_of(0, middle);
    nested[1] = text_of(middle, len);
    CHECK_EQ(spill_nested(2), 0);
    CHECK_EQ(part.parts_len, 2);
    CHECK_PTR(nested[1].text.data, output + middle);
    CHECK_EQ(part.data.len, 0);
    /* One line more, of a third output. */
    nested[2] = (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_of("last")};
    CHECK_EQ(spill_nested(3), 1);
    CHECK_EQ(part.parts_len, 3);
    CHECK_EQ(part.data.len, len + 4);
    CHECK(begins(pal_str_make(part.data.data, len)));
    CHECK_CONTAINS(
            pal_arena_copy(arena, nested[0].text).data, "[1 lines, 2 bytes are left out here.");
    CHECK_EQ(nested[1].text.len, middle - 2);
    CHECK_STR(nested[2].text, "last");
    /* The bytes of all of them count, with the separators. */
    memset(output, 'x', OUTPUT_MAX);
    nested[0] = text_of(0, PAL_SPILL_BYTES_MAX / 2);
    nested[1] = text_of(0, PAL_SPILL_BYTES_MAX / 2 - 1);
    CHECK_EQ(spill_nested(2), 0);
    nested[1] = text_of(0, PAL_SPILL_BYTES_MAX / 2);
    CHECK_EQ(spill_nested(2), 1);
    CHECK_EQ(part.data.len, PAL_SPILL_BYTES_MAX + 1);
    CHECK_EQ(part.data.data[PAL_SPILL_BYTES_MAX / 2], '\n');
}

static void images_keep_their_places_among_texts(void)
{
    size_t len = fill_lines(9000, "line\n");
    pal_part image = {.kind = PAL_PART_IMAGE,
            .media_type = pal_str_of("image/png"),
            .data = pal_str_of("png")};
    nested[0] = text_of(0, 15000);
    nested[1] = image;
    nested[2] = text_of(15000, 30000); /* all of it is left out */
    nested[3] = text_of(30000, len);
    nested[4] = image;
    CHECK_EQ(spill_nested(5), 1);
    if (CHECK_EQ(part.parts_len, 4))
        CHECK_EQ(part.parts[1].kind, PAL_PART_IMAGE);
    CHECK_EQ(part.parts[3].kind, PAL_PART_IMAGE);
    CHECK_STR(part.parts[3].data, "png");
    CHECK_CONTAINS(pal_arena_copy(arena, part.parts[0].text).data, "sha256:");
    if (CHECK(ends(part.parts[2].text, len)))
        CHECK_EQ(part.parts[2].text.len, 5000);
    CHECK_EQ(part.data.len, len);
    CHECK(begins(part.data));
}

static void the_text_of_the_result_comes_before_its_parts(void)
{
    size_t len = fill_lines(3000, "x\n");
    uint32_t spilled = 0;
    nested[0] = text_of(0, len);
    spill_nested(1);
    nested[0] = text_of(0, len);
    part = (pal_part){.kind = PAL_PART_TOOL_RESULT,
            .call_id = pal_str_of("c"),
            .text = pal_str_of("first"),
            .parts = nested,
            .parts_len = 1};
    if (CHECK_STATUS(pal_context_spill(&message, arena, &spilled, NULL), PAL_OK))
        CHECK_EQ(spilled, 1);
    CHECK_STR(part.text, "first");
    if (CHECK_EQ(part.data.len, len + 6))
        CHECK_BYTES(part.data.data, "first\nx\n", 8);
    CHECK_CONTAINS(pal_arena_copy(arena, nested[0].text).data, "The whole output has 3001 lines");
}

static void parts_other_than_text_are_not_changed(void)
{
    memset(output, 'x', OUTPUT_MAX);
    nested[0] = (pal_part){.kind = PAL_PART_FILE, .data = {output, OUTPUT_MAX}};
    nested[1] = text_of(0, 10);
    CHECK_EQ(spill_nested(2), 0);
    CHECK_EQ(nested[0].data.len, OUTPUT_MAX);
    CHECK_EQ(part.data.len, 0);
    CHECK_EQ(spill_nested(0), 0);
}

static void without_memory_nothing_changes(void)
{
    size_t len = fill_lines(9000, "x\n");
    pal_status status = PAL_NO_MEMORY;
    uint64_t nth = 1;
    for (; status == PAL_NO_MEMORY && nth < 100; nth++) {
        pal_arena *small = pal_arena_new(0);
        uint32_t spilled = 0;
        nested[0] = text_of(0, 6000);
        nested[1] = text_of(6000, len);
        part = (pal_part){.kind = PAL_PART_TOOL_RESULT, .parts = nested, .parts_len = 2};
        message = (pal_message){.role = PAL_ROLE_TOOL, .parts = &part, .parts_len = 1};
        pal_memory_fail_at(nth, 1);
        status = pal_context_spill(&message, small, &spilled, NULL);
        pal_memory_fail_at(0, 0);
        if (status != PAL_OK) {
            CHECK_STATUS(status, PAL_NO_MEMORY);
            CHECK_EQ(spilled, 0);
            CHECK_EQ(part.data.len, 0);
            CHECK_EQ(part.parts_len, 2);
            CHECK_PTR(nested[1].text.data, output + 6000);
        }
        pal_arena_free(small);
    }
    CHECK_STATUS(status, PAL_OK);
    CHECK_THAT(nth, >, 3);
}

static void the_handle_is_the_blobs_name(void)
{
    pal_store *store = NULL;
    pal_session session = {0};
    pal_id id;
    pal_message_page loaded;
    pal_str type, data;
    size_t len = fill_lines(9000, "x\n");
    CHECK_EQ(spill(PAL_PART_TOOL_RESULT, len), 1);
    if (!CHECK_STATUS(pal_store_open("memory:", NULL, &store, NULL), PAL_OK))
        return;
    CHECK_STATUS(pal_store_create(store, &session, &id, NULL), PAL_OK);
    CHECK_STATUS(
            pal_store_append(store, session.tenant, id, &message, 1, PAL_SEQ_ANY, NULL), PAL_OK);
    CHECK_STATUS(pal_store_load(store, session.tenant, id, NULL, arena, &loaded, NULL), PAL_OK);
    pal_part *stored = &loaded.items[0].parts[0];
    CHECK_CONTAINS(
            pal_arena_copy(arena, stored->text).data, pal_arena_copy(arena, stored->blob).data);
    CHECK_STATUS(pal_store_blob_get(store, session.tenant, stored->blob, arena, &type, &data, NULL),
            PAL_OK);
    CHECK_EQ(data.len, len);
    CHECK(begins(data));
    /* Only text that is sent is counted. */
    CHECK_THAT(loaded.items[0].tokens, <, 9000);
    pal_store_close(store);
}

int main(void)
{
    arena = pal_arena_new(0);
    if (!arena)
        return 1;
    RUN(outputs_up_to_the_limit_are_not_cut);
    RUN(an_output_with_one_line_more_is_cut);
    RUN(an_output_with_one_byte_more_is_cut);
    RUN(lines_are_kept_complete);
    RUN(characters_are_kept_complete);
    RUN(bytes_that_are_not_text_do_not_block_it);
    RUN(a_long_last_line_is_cut);
    RUN(a_cut_output_is_not_cut_again);
    RUN(several_texts_count_as_one);
    RUN(images_keep_their_places_among_texts);
    RUN(the_text_of_the_result_comes_before_its_parts);
    RUN(parts_other_than_text_are_not_changed);
    RUN(without_memory_nothing_changes);
    RUN(the_handle_is_the_blobs_name);
    pal_arena_free(arena);
    return tap_done();
}
