/* test_dialect.c - converts messages to the format of any API and back, with the public
 * functions. */
#include "palaver/dialect.h"

#include <stdio.h>
#include "support/tap.h"

static pal_arena *arena;

static pal_message *read(pal_dialect dialect, const char *json, size_t *out_len)
{
    pal_message *messages = NULL;
    pal_error err = {0};
    *out_len = 0;
    if (!CHECK_STATUS(pal_dialect_read(dialect, pal_str_of(json), arena, &messages, out_len, &err),
                PAL_OK, &err))
        printf("# %s: %s\n", pal_dialect_name(dialect), err.message);
    return messages;
}

static pal_str write(pal_dialect dialect, const pal_message *messages, size_t len)
{
    pal_str json = {0};
    pal_error err = {0};
    CHECK_STATUS(pal_dialect_write(dialect, messages, len, arena, &json, &err), PAL_OK, &err);
    return json;
}

/* A question, a call with its result, an answer. */
static const char openai[] =
        "[{\"role\":\"system\",\"content\":\"Be brief.\"},"
        "{\"role\":\"user\",\"content\":\"How warm is it?\"},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\","
        "\"type\":\"function\",\"function\":{\"name\":\"temp\",\"arguments\":\"{\\\"at\\\":1}\"}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"21\"},"
        "{\"role\":\"assistant\",\"content\":\"21 degrees.\"}]";

static bool is_conversation(const pal_message *messages, size_t len)
{
    return len == 5 && messages[0].role == PAL_ROLE_SYSTEM && messages[1].role == PAL_ROLE_USER &&
            pal_str_is(messages[1].parts[0].text, "How warm is it?") &&
            messages[2].parts[0].kind == PAL_PART_TOOL_CALL &&
            pal_str_is(messages[2].parts[0].name, "temp") && messages[3].role == PAL_ROLE_TOOL &&
            pal_str_is(messages[3].parts[0].call_id, "c1") &&
            pal_str_is(messages[4].parts[0].text, "21 degrees.");
}

static void a_conversation_survives_every_dialect(void)
{
    size_t len;
    pal_message *messages = read(PAL_DIALECT_OPENAI_CHAT, openai, &len);
    CHECK(is_conversation(messages, len));
    for (int i = PAL_DIALECT_NATIVE; i <= PAL_DIALECT_MISTRAL_CHAT; i++) {
        pal_str json = write((pal_dialect)i, messages, len);
        size_t back_len;
        pal_message *back = read((pal_dialect)i, json.data, &back_len);
        if (!CHECK(is_conversation(back, back_len)))
            printf("# %s: %.*s\n", pal_dialect_name((pal_dialect)i), PAL_STR_ARG(json));
    }
}

static void a_single_message_and_an_object_are_read_too(void)
{
    size_t len;
    for (int i = PAL_DIALECT_NATIVE; i <= PAL_DIALECT_MISTRAL_CHAT; i++) {
        pal_message *one =
                read((pal_dialect)i, "{\"role\":\"user\",\"content\":\"hi\"}", &len);
        if (CHECK_EQ(len, 1))
            CHECK_STR(one->parts[0].text, "hi");
        one = read((pal_dialect)i, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", &len);
        if (CHECK_EQ(len, 1))
            CHECK_STR(one->parts[0].text, "hi");
        (void)read((pal_dialect)i, "[]", &len);
        CHECK_EQ(len, 0);
    }
}

static void wrong_input_is_refused(void)
{
    pal_message *messages;
    size_t len;
    pal_str json;
    pal_error err;
    for (int i = PAL_DIALECT_NATIVE; i <= PAL_DIALECT_MISTRAL_CHAT; i++) {
        CHECK_STATUS(
                pal_dialect_read((pal_dialect)i, pal_str_of("{"), arena, &messages, &len, &err),
                PAL_INVALID, &err);
        CHECK_STATUS(
                pal_dialect_read((pal_dialect)i, pal_str_of("[7]"), arena, &messages, &len, &err),
                PAL_INVALID, &err);
    }
    CHECK_STATUS(pal_dialect_read((pal_dialect)99, pal_str_of("[]"), arena, &messages, &len, &err),
            PAL_INVALID, &err);
    CHECK_STATUS(
            pal_dialect_write((pal_dialect)99, NULL, 0, arena, &json, &err), PAL_INVALID, &err);
}

static void names_of_dialects_survive_a_round_trip(void)
{
    pal_dialect found;
    for (int i = PAL_DIALECT_NATIVE; i <= PAL_DIALECT_MISTRAL_CHAT; i++) {
        CHECK(pal_dialect_from_name(pal_str_of(pal_dialect_name((pal_dialect)i)), &found));
        CHECK_EQ((int)found, i);
    }
    CHECK(!pal_dialect_from_name(pal_str_of("esperanto"), &found));
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(a_conversation_survives_every_dialect);
    RUN(a_single_message_and_an_object_are_read_too);
    RUN(wrong_input_is_refused);
    RUN(names_of_dialects_survive_a_round_trip);
    pal_arena_free(arena);
    return tap_done();
}
