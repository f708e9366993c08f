/* test_mistral_chat.c - converts the messages of Mistral's chat completions to ours. */
#include "base/json/json.h"
#include "base/memory.h"
#include "dialect/mistral/mistral_chat.h"
#include "dialect/openai/openai_chat.h"
#include "support/tap.h"

static pal_arena *arena;
static pal_error error;
static pal_message *messages;
static size_t len;

static pal_status read_chat(const char *json, pal_arena *into)
{
    pal_json value;
    memset(&error, 0, sizeof error);
    pal_status status = pal_json_parse(into, pal_str_of(json), NULL, &value, &error);
    return status == PAL_OK ? pal_mistral_chat_read(value, into, &messages, &len, &error) : status;
}

static bool refused(const char *json, const char *text)
{
    pal_status status = read_chat(json, arena);
    if (status == PAL_INVALID && strstr(error.message, text))
        return true;
    printf("# %s: %s '%s'\n", json, pal_status_name(status), error.message);
    return false;
}

static void messages_of_all_roles_are_read(void)
{
    CHECK_STATUS(
            read_chat(
                    "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"u\"}"
                    ","
                    "{\"role\":\"assistant\",\"content\":\"a\",\"prefix\":false},"
                    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"c\","
                    "\"type\":\"function\",\"index\":0,\"function\":{\"name\":\"f\","
                    "\"arguments\":{\"n\":1}}}]},"
                    "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"name\":\"f\",\"content\":\"r\"}]",
                    arena),
            PAL_OK);
    CHECK_EQ(len, 5);
    CHECK_EQ(messages[0].role, PAL_ROLE_SYSTEM);
    CHECK_EQ(messages[1].role, PAL_ROLE_USER);
    CHECK_EQ(messages[2].role, PAL_ROLE_ASSISTANT);
    CHECK_STR(messages[2].parts[0].text, "a");
    if (CHECK_EQ(messages[3].parts_len, 1))
        CHECK_EQ(messages[3].parts[0].kind, PAL_PART_TOOL_CALL);
    CHECK_STR(messages[3].parts[0].arguments, "{\"n\":1}");
    CHECK_EQ(messages[4].role, PAL_ROLE_TOOL);
    CHECK_STR(messages[4].parts[0].call_id, "c");
    CHECK_STR(messages[4].parts[0].text, "r");
}

static void chunks_are_read_and_calls_follow_them(void)
{
    CHECK_STATUS(
            read_chat("[{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
                      "[{\"type\":\"text\",\"text\":\"hm\"}]},{\"type\":\"text\",\"text\":\"a\"}],"
                      "\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\","
                      "\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c\","
                      "\"content\":[{\"type\":\"text\",\"text\":\"r\"}]}]",
                    arena),
            PAL_OK);
    if (CHECK_EQ(messages[0].parts_len, 3))
        CHECK_EQ(messages[0].parts[0].kind, PAL_PART_REASONING);
    CHECK_STR(messages[0].parts[1].text, "a");
    CHECK_EQ(messages[0].parts[2].kind, PAL_PART_TOOL_CALL);
    if (CHECK_EQ(messages[1].parts_len, 1))
        CHECK_EQ(messages[1].parts[0].parts_len, 1);
    CHECK_STR(messages[1].parts[0].parts[0].text, "r");
}

/* OpenAI's services refuse an image whose URL is not in an object. */
static void an_image_is_written_in_the_common_form(void)
{
    pal_str json;
    CHECK_STATUS(read_chat("[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\","
                           "\"image_url\":\"http://x/y.png\"}]}]",
                         arena),
            PAL_OK);
    CHECK_EQ(messages[0].parts[0].kind, PAL_PART_IMAGE);
    CHECK_STATUS(pal_openai_chat_write(messages, len, arena, &json, &error), PAL_OK, &error);
    CHECK_CONTAINS(json.data, "\"image_url\":{\"url\":\"http://x/y.png\"}");
}

static void wrong_messages_are_reported(void)
{
    CHECK(refused("\"hello\"", "'messages' is"));
    CHECK(refused("[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"bot\",\"content\":\"b\"}]",
            "messages[1]: member 'role'"));
    CHECK(refused("[{\"role\":\"user\"}]", "member 'content'"));
    CHECK(refused("[{\"role\":\"tool\",\"content\":\"r\"}]", "member 'tool_call_id'"));
    CHECK(refused("[{\"role\":\"assistant\",\"tool_calls\":{}}]", "member 'tool_calls'"));
    CHECK(refused("[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\"}]}]",
            "messages[0]: tool_calls[0]: member 'function'"));
    CHECK(refused("[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"\",\"function\":"
                  "{\"name\":\"f\",\"arguments\":\"{}\"}}]}]",
            "member 'id' is empty"));
    CHECK(refused("[3]", "member 'role'"));
}

static void an_allocation_failure_is_reported(void)
{
    static const char json[] =
            "[{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"\\u0041\"}],"
            "\"tool_calls\":[{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
            "{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"\\u0041\"}]";
    pal_status status = PAL_NO_MEMORY;
    for (uint64_t nth = 1; nth < 1000 && status != PAL_OK; nth++) {
        pal_memory_fail_at(nth, 0);
        pal_arena *own = pal_arena_new(0);
        status = own ? read_chat(json, own) : PAL_NO_MEMORY;
        pal_memory_fail_at(0, 0);
        CHECK_STATUS_EITHER(status, PAL_OK, PAL_NO_MEMORY);
        pal_arena_free(own);
    }
    CHECK_STATUS(status, PAL_OK);
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(messages_of_all_roles_are_read);
    RUN(chunks_are_read_and_calls_follow_them);
    RUN(an_image_is_written_in_the_common_form);
    RUN(wrong_messages_are_reported);
    RUN(an_allocation_failure_is_reported);
    pal_arena_free(arena);
    return tap_done();
}
