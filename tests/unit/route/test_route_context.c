/* test_route_context.c - the description of a message by its caller: errors name wrong, empty and
 * overlong fields, and nothing is decided. */
#include <stddef.h>
#include "palaver/limits.h"
#include "support/route_fixture.h"

static char long_id[1 << 20];

static const struct wrong_text {
    pal_str text;
    pal_status status;
    const char *words;
} wrong_texts[] = {
        {{long_id, sizeof long_id}, PAL_LIMIT, "'%s' of 1048576 bytes exceeds the limit of 4096"},
        {{"!a\0b", 4}, PAL_INVALID, "'%s' contains a control character"},
        {{"!a\x1f-", 4}, PAL_INVALID, "'%s' contains a control character"},
        {{"!a\x7f-", 4}, PAL_INVALID, "'%s' contains a control character"},
        {{"!a\xc2\x90-", 5}, PAL_INVALID, "'%s' contains a control character"},
        {{"!a\xc0\x80", 4}, PAL_INVALID, "'%s' is not valid UTF-8"},
        {{"\xed\xa0\x80", 3}, PAL_INVALID, "'%s' is not valid UTF-8"},
};

/* Puts every wrong text into the field at that offset of an otherwise valid context. */
static void refuses_in(pal_route_kind kind, const char *name, size_t offset)
{
    for (size_t i = 0; i < sizeof wrong_texts / sizeof *wrong_texts; i++) {
        const struct wrong_text *wrong = &wrong_texts[i];
        pal_route_context context = {.kind = kind,
                .matrix_room = str("!r:s"),
                .project_id = str("p"),
                .bead_id = str("b"),
                .project_path = str("/p")};
        char words[96];
        snprintf(words, sizeof words, wrong->words, name);
        memcpy((char *)&context + offset, &wrong->text, sizeof wrong->text);
        fails(NULL, &context, wrong->status, words);
    }
}

#define REFUSES_IN(kind, name) refuses_in(kind, #name, offsetof(pal_route_context, name))

static void errors_name_wrong_fields(void)
{
    memset(long_id, 'x', sizeof long_id);
    for (int kind = PAL_ROUTE_CHAT; kind <= PAL_ROUTE_CODE; kind++) {
        REFUSES_IN((pal_route_kind)kind, agent_id);
        REFUSES_IN((pal_route_kind)kind, session_key);
    }
    for (int kind = PAL_ROUTE_CHAT; kind <= PAL_ROUTE_MATRIX_ROOM; kind++) {
        REFUSES_IN((pal_route_kind)kind, account);
        REFUSES_IN((pal_route_kind)kind, space_id);
        REFUSES_IN((pal_route_kind)kind, space_type);
        REFUSES_IN((pal_route_kind)kind, chat_type);
        REFUSES_IN((pal_route_kind)kind, topic_id);
        REFUSES_IN((pal_route_kind)kind, sender_id);
    }
    REFUSES_IN(PAL_ROUTE_CHAT, channel);
    REFUSES_IN(PAL_ROUTE_CHAT, chat_id);
    REFUSES_IN(PAL_ROUTE_MATRIX_ROOM, matrix_room);
    REFUSES_IN(PAL_ROUTE_WORK_ITEM, project_id);
    REFUSES_IN(PAL_ROUTE_WORK_ITEM, bead_id);
    REFUSES_IN(PAL_ROUTE_CODE, project_path);
    REFUSES_IN(PAL_ROUTE_CODE, branch);
    pal_route_context longest = {.chat_id = pal_str_make(long_id, PAL_ROUTE_ID_LEN_MAX)};
    CHECK_EQ(routed(NULL, &longest).aliases_len, 2);
    memcpy(long_id, "agent:", 6);
    pal_route_context key = {.session_key = pal_str_make(long_id, PAL_KEY_LEN_MAX + 1)};
    fails(NULL, &key, PAL_LIMIT, "'session_key' of 1025 bytes exceeds the limit of 1024");
}

static void errors_name_required_ids_that_are_empty(void)
{
    const pal_str blanks[] = {str(""), str(" \t"), str("\xc2\xa0")};
    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
        pal_route_context item = {
                .kind = PAL_ROUTE_WORK_ITEM, .project_id = blanks[i], .bead_id = str("b")};
        fails(NULL, &item, PAL_INVALID, "'project_id' is empty");
        pal_route_context code = {.kind = PAL_ROUTE_CODE, .project_path = blanks[i]};
        fails(NULL, &code, PAL_INVALID, "'project_path' is empty");
        pal_route_context room = {.kind = PAL_ROUTE_MATRIX_ROOM, .matrix_room = blanks[i]};
        fails(NULL, &room, PAL_INVALID, "'matrix_room' is empty");
        /* All fields of a chat may be empty. */
        pal_str names[] = {blanks[i], str("sender")};
        pal_route_config config = {.dimensions = names, .dimensions_len = 2};
        pal_route_context chat = {.chat_id = blanks[i], .sender_id = blanks[i]};
        CHECK_EQ(routed(&config, &chat).values_len, 0);
    }
}

static void errors_name_wrong_kinds(void)
{
    pal_route_context room = {.kind = PAL_ROUTE_MATRIX_ROOM, .matrix_room = str("#alias:s")};
    fails(NULL, &room, PAL_INVALID, "'matrix_room' must be a room id, which begins with '!', not '#alias:s'");
    pal_route_context item = {.kind = PAL_ROUTE_WORK_ITEM, .project_id = str("p")};
    fails(NULL, &item, PAL_INVALID, "'bead_id' is empty");
    pal_route_context code = {.kind = PAL_ROUTE_CODE, .branch = str("b")};
    fails(NULL, &code, PAL_INVALID, "'project_path' is empty");
    pal_route_context none = {.kind = (pal_route_kind)9};
    fails(NULL, &none, PAL_INVALID, "unknown kind 9");
}

int main(void)
{
    route_begin();
    RUN(errors_name_wrong_fields);
    RUN(errors_name_required_ids_that_are_empty);
    RUN(errors_name_wrong_kinds);
    return route_done();
}
