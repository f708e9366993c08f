/* test_context_spill.c - long outputs are cut to head and tail, and nothing of them is lost. */
#include "palaver/context.h"
#include "palaver/limits.h"
#include "palaver/store.h"
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
    CHECK(pal_context_spill(&message, arena, &spilled, NULL) == PAL_OK);
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

/* Where the note begins and ends; what is before and behind it is the output's own. */
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

static void up_to_the_limit_nothing_is_cut(void)
{
    size_t len = fill_lines(PAL_SPILL_LINES_MAX, "x\n");
    CHECK(spill(PAL_PART_TOOL_RESULT, len) == 0);
    CHECK(part.text.data == output && part.text.len == len && part.data.len == 0);
    CHECK(spill(PAL_PART_TOOL_RESULT, len - 1) == 0); /* the last line without its end */
    memset(output, 'x', OUTPUT_MAX);
    CHECK(spill(PAL_PART_TOOL_RESULT, PAL_SPILL_BYTES_MAX) == 0);
    CHECK(spill(PAL_PART_TOOL_RESULT, 0) == 0);
    CHECK(spill(PAL_PART_TEXT, OUTPUT_MAX) == 0); /* only outputs of tools */
}

static void one_line_more_is_cut(void)
{
    pal_str head, note, tail;
    size_t len = fill_lines(PAL_SPILL_LINES_MAX + 1, "x\n");
    CHECK(spill(PAL_PART_TOOL_RESULT, len) == 1);
    CHECK(part.data.data == output && part.data.len == len);
    if (!parts_of(&head, &note, &tail))
        return;
    CHECK(head.len == PAL_SPILL_LINES_MAX && tail.len == PAL_SPILL_LINES_MAX);
    CHECK(strncmp(note.data, "[1 lines, 2 bytes are left out here.", 36) == 0);
    CHECK(strstr(note.data, "The whole output has 2001 lines"));
}

static void one_byte_more_is_cut(void)
{
    pal_str head, note, tail;
    size_t len = PAL_SPILL_BYTES_MAX + 1;
    memset(output, 'x', len);
    CHECK(spill(PAL_PART_TOOL_RESULT, len) == 1);
    if (!parts_of(&head, &note, &tail))
        return;
    /* One line: it is cut in the middle, and the note gets a line of its own. */
    CHECK(head.len == PAL_SPILL_BYTES_MAX / 2 + 1 && head.data[head.len - 1] == '\n');
    CHECK(tail.len == PAL_SPILL_BYTES_MAX / 2);
    CHECK(strncmp(note.data, "[1 lines, 1 bytes are left out here.", 36) == 0);
}

static void lines_stay_whole(void)
{
    pal_str head, note, tail;
    size_t len = fill_lines(500, "a line of text that is cut nowhere but at its end, "
                                 "whatever happens to be the limit of bytes, and so on, and on "
                                 "and on, until it has a hundred and fifty bytes....\n");
    CHECK(len > PAL_SPILL_BYTES_MAX && spill(PAL_PART_TOOL_RESULT, len) == 1);
    if (!parts_of(&head, &note, &tail))
        return;
    CHECK(begins(head) && head.data[head.len - 1] == '\n' && head.len > 25000);
    CHECK(ends(tail, len) && strncmp(tail.data, "a line", 6) == 0 && tail.len > 25000);
    CHECK(part.text.len < PAL_SPILL_BYTES_MAX + 400);
}

static void characters_stay_whole(void)
{
    static const char *const lines[] = {"ä", "東", "𝄞", "a東", "ab東", "𝄞a", "ab𝄞c"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        pal_str head, note, tail;
        size_t line_len = strlen(lines[i]);
        size_t len = fill_lines((PAL_SPILL_BYTES_MAX + 1000) / line_len, lines[i]);
        CHECK(spill(PAL_PART_TOOL_RESULT, len) == 1);
        CHECK(is_utf8(part.text));
        if (parts_of(&head, &note, &tail))
            CHECK(begins(pal_str_make(head.data, head.len - 1)) && ends(tail, len));
    }
}

/* Invalid bytes are an output too. */
static void bytes_that_are_no_text_do_not_hang_it(void)
{
    memset(output, 0x80, OUTPUT_MAX);
    CHECK(spill(PAL_PART_TOOL_RESULT, OUTPUT_MAX) == 1);
    CHECK(part.text.len < PAL_SPILL_BYTES_MAX + 400);
    memset(output, 0, OUTPUT_MAX);
    CHECK(spill(PAL_PART_TOOL_RESULT, OUTPUT_MAX) == 1);
}

static void a_long_last_line_is_cut(void)
{
    pal_str head, note, tail;
    size_t len = fill_lines(10, "short\n");
    memset(output + len, 'x', 100000);
    len += 100000;
    CHECK(spill(PAL_PART_TOOL_RESULT, len) == 1);
    if (!parts_of(&head, &note, &tail))
        return;
    CHECK(head.len == 60 && begins(head));
    CHECK(tail.len == PAL_SPILL_BYTES_MAX / 2 && ends(tail, len));
}

static void what_was_spilled_is_not_spilled_again(void)
{
    uint32_t spilled = 99;
    spill(PAL_PART_TOOL_RESULT, fill_lines(9000, "x\n"));
    pal_str text = part.text;
    CHECK(pal_context_spill(&message, arena, &spilled, NULL) == PAL_OK && spilled == 0);
    CHECK(part.text.data == text.data);
}

static void the_handle_is_the_blobs_name(void)
{
    pal_store *store = NULL;
    pal_session session = {0};
    pal_id id;
    pal_messages loaded;
    pal_str type, data;
    size_t len = fill_lines(9000, "x\n");
    CHECK(spill(PAL_PART_TOOL_RESULT, len) == 1);
    if (!CHECK(pal_store_open("memory:", NULL, &store, NULL) == PAL_OK))
        return;
    CHECK(pal_store_create(store, &session, &id, NULL) == PAL_OK);
    CHECK(pal_store_append(store, session.tenant, id, &message, 1, PAL_SEQ_ANY, NULL) == PAL_OK);
    CHECK(pal_store_load(store, session.tenant, id, NULL, arena, &loaded, NULL) == PAL_OK);
    pal_part *stored = &loaded.items[0].parts[0];
    CHECK(strstr(pal_arena_copy(arena, stored->text).data,
            pal_arena_copy(arena, stored->blob).data));
    CHECK(pal_store_blob_get(store, session.tenant, stored->blob, arena, &type, &data, NULL) ==
            PAL_OK);
    CHECK(data.len == len && begins(data));
    /* Only what is sent is counted. */
    CHECK(loaded.items[0].tokens < 9000);
    pal_store_close(store);
}

int main(void)
{
    arena = pal_arena_new(0);
    if (!arena)
        return 1;
    RUN(up_to_the_limit_nothing_is_cut);
    RUN(one_line_more_is_cut);
    RUN(one_byte_more_is_cut);
    RUN(lines_stay_whole);
    RUN(characters_stay_whole);
    RUN(bytes_that_are_no_text_do_not_hang_it);
    RUN(a_long_last_line_is_cut);
    RUN(what_was_spilled_is_not_spilled_again);
    RUN(the_handle_is_the_blobs_name);
    pal_arena_free(arena);
    return tap_done();
}
