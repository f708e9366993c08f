/* test_tokens_message.c - the tokens of messages and tools by the published rules. The expected
 * numbers were counted with the reference implementation of the vocabularies, except for
 * estimates. */
#include <stdio.h>
#include <stdlib.h>
#include "base/buf.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "palaver/limits.h"
#include "palaver/tokens.h"
#include "support/tap.h"

#define SCHEMA                                                                                     \
    "{\"type\":\"object\",\"properties\":{"                                                        \
    "\"from\":{\"type\":\"string\",\"description\":\"Where the journey begins.\"},"                \
    "\"class\":{\"type\":\"string\",\"enum\":[\"first\",\"second\"]},"                             \
    "\"stops\":{\"type\":\"array\",\"description\":\"Stations on the way\",\"items\":{"            \
    "\"type\":\"object\",\"properties\":{"                                                         \
    "\"name\":{\"type\":[\"string\",\"null\"]},"                                                   \
    "\"minutes\":{\"type\":\"integer\",\"description\":\"How long it waits there\","               \
    "\"enum\":[5,10]}}}}},\"required\":[\"from\"]}"

static pal_str str(const char *text)
{
    return pal_str_of(text);
}

static uint64_t message_tokens(const pal_encoding *encoding, const pal_message *message)
{
    uint64_t tokens = 0;
    pal_error err;

    if (!CHECK_STATUS(pal_tokens_message(encoding, message, &tokens, &err), PAL_OK, &err))
        printf("# %s\n", err.message);
    return tokens;
}

static uint64_t tool_tokens(
        const pal_encoding *encoding, const char *name, const char *description, const char *schema)
{
    uint64_t tokens = 0;
    pal_error err;

    if (!CHECK_STATUS(
                pal_tokens_tool(encoding, str(name), str(description), str(schema), &tokens, &err),
                PAL_OK, &err))
        printf("# %s\n", err.message);
    return tokens;
}

static pal_part parts_user[] = {
        {.kind = PAL_PART_TEXT, .text = {"Which of the three trains is the slowest?", 41}}};
static pal_part parts_assistant[] = {{.kind = PAL_PART_TEXT, .text = {"Let me look.", 12}},
        {.kind = PAL_PART_TOOL_CALL,
                .call_id = {"call_1", 6},
                .name = {"find_trains", 11},
                .arguments = {"{\"from\":\"Ulm\",\"to\":\"Bonn\"}", 26}}};
static pal_part output[] = {{.kind = PAL_PART_TEXT, .text = {"no such train", 13}}};
static pal_part parts_tool[] = {{.kind = PAL_PART_TOOL_RESULT,
                                        .call_id = {"call_1", 6},
                                        .text = {"ICE 592, 3 h 12 min", 19}},
        {.kind = PAL_PART_TOOL_RESULT, .call_id = {"call_2", 6}, .parts = output, .parts_len = 1}};
static pal_part parts_media[] = {
        {.kind = PAL_PART_TEXT, .text = {"\xe4\xbb\x8a\xe6\x97\xa5\xe3\x81\xaf\xe3\x80\x82", 12}},
        {.kind = PAL_PART_IMAGE, .url = {"https://example.org/a.png", 25}},
        {.kind = PAL_PART_FILE, .name = {"a.pdf", 5}}};

static const pal_message messages[] = {
        {.role = PAL_ROLE_USER, .parts = parts_user, .parts_len = 1},
        {.role = PAL_ROLE_ASSISTANT, .parts = parts_assistant, .parts_len = 2},
        {.role = PAL_ROLE_TOOL, .parts = parts_tool, .parts_len = 2},
        {.role = PAL_ROLE_USER, .parts = parts_media, .parts_len = 3},
};

static void check_with(const char *name, const uint64_t *wanted, uint64_t tool, uint64_t bare)
{
    const pal_encoding *encoding = pal_encoding_find(str(name));

    if (!encoding) {
        printf("# %s is not built in\n", name);
        return;
    }
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
        CHECK_EQ(message_tokens(encoding, &messages[i]), wanted[i]);
    CHECK_EQ(tool_tokens(encoding, "find_trains", "Finds trains between two stations.", SCHEMA),
            tool);
    CHECK_EQ(tool_tokens(encoding, "ping", "", ""), bare);
}

static void the_rules_hold_exactly(void)
{
    check_with("o200k_base", (const uint64_t[]){14, 25, 21, 2506}, 80, 9);
    check_with("cl100k_base", (const uint64_t[]){14, 25, 21, 2508}, 82, 12);
}

static void estimates_follow_the_same_rules(void)
{
    CHECK_EQ(message_tokens(NULL, &messages[0]), 3 + 1 + 11);
    CHECK_EQ(message_tokens(NULL, &messages[1]), 3 + 3 + 3 + 3 + 3 + 7);
    CHECK_EQ(message_tokens(NULL, &messages[2]), 3 + 1 + 5 + 3 + 1 + 4);
    CHECK_EQ(message_tokens(NULL, &messages[3]), 3 + 1 + 4 + PAL_TOKENS_IMAGE + PAL_TOKENS_FILE);
    CHECK_EQ(tool_tokens(NULL, "ping", "", ""), 10 + 2);
    CHECK_EQ(tool_tokens(NULL, "ping", "Is it there.", "{}"), 10 + 4);
}

static void empty_messages_cost_their_frame(void)
{
    pal_message message = {.role = PAL_ROLE_USER};

    CHECK_EQ(message_tokens(NULL, &message), 4);
}

static void nested_schemas_are_counted(void)
{
    const char *flat = "{\"properties\":{\"a\":{\"type\":\"string\"}}}";
    uint64_t one = tool_tokens(NULL, "t", "", flat) - tool_tokens(NULL, "t", "", "{}");

    CHECK_EQ(one, 3 + 3 + 3); /* "a:string:" */
    CHECK_EQ(tool_tokens(NULL, "t", "",
                     "{\"anyOf\":[{\"properties\":{\"a\":{\"type\":\"string\"}}},"
                     "{\"properties\":{\"a\":{\"type\":\"string\"}}}]}"),
            11 + 2 * one);
    CHECK_EQ(tool_tokens(
                     NULL, "t", "", "{\"items\":{\"properties\":{\"a\":{\"type\":\"string\"}}}}"),
            11 + one);
    CHECK_EQ(tool_tokens(NULL, "t", "", "{\"$defs\":{\"a\":{\"type\":\"string\"}}}"), 11 + 3 + 3);
    CHECK_EQ(tool_tokens(NULL, "t", "", "{\"enum\":[]}"), 11);
    CHECK_EQ(tool_tokens(NULL, "t", "", "{\"enum\":[\"abcd\",true]}"), 11 + 1 + 3 + 1);
    CHECK_EQ(tool_tokens(NULL, "t", "", "[1,2]"), 11);
    CHECK_EQ(tool_tokens(NULL, "t", "", "{\"properties\":[true],\"enum\":7,\"items\":null}"),
            11 + 3);
}

static pal_status nested_tokens(size_t depth, uint64_t *out_tokens)
{
    pal_buf buf;
    pal_error err;
    pal_status status;

    pal_buf_init(&buf, 1 << 20);
    for (size_t i = 0; i + 2 < depth; i++)
        pal_buf_append_text(&buf, "{\"items\":");
    pal_buf_append_text(&buf, "{\"enum\":[1]}");
    for (size_t i = 0; i + 2 < depth; i++)
        pal_buf_append_char(&buf, '}');
    status = pal_tokens_tool(NULL, str("t"), str(""), pal_buf_str(&buf), out_tokens, &err);
    pal_buf_done(&buf);
    return status;
}

static void the_depth_is_limited(void)
{
    uint64_t tokens = 0;

    CHECK_STATUS(nested_tokens(PAL_JSON_DEPTH_MAX, &tokens), PAL_OK);
    CHECK_EQ(tokens, 12);
    CHECK_STATUS(nested_tokens(PAL_JSON_DEPTH_MAX + 1, &tokens), PAL_LIMIT);
}

static void a_wrong_schema_is_reported(void)
{
    uint64_t tokens = 77;
    pal_error err;

    CHECK_STATUS(pal_tokens_tool(NULL, str("t"), str(""), str("{\"a\":"), &tokens, &err),
            PAL_INVALID, &err);
    CHECK_BEGINS(err.message, "the schema is not valid JSON: ");
    CHECK_EQ(tokens, 77);
}

static void no_memory_is_reported_for(pal_str schema)
{
    const pal_encoding *encoding = pal_encoding_find(str("o200k_base"));
    pal_status status = PAL_NO_MEMORY;
    uint64_t whole = 0;
    pal_error err;

    CHECK_STATUS(
            pal_tokens_tool(encoding, str("find_trains"), str("Finds them"), schema, &whole, &err),
            PAL_OK, &err);
    for (uint64_t n = 1; status != PAL_OK && n < 200; n++) {
        uint64_t tokens = 77;

        pal_memory_fail_at(n, 0);
        status = pal_tokens_tool(
                encoding, str("find_trains"), str("Finds them"), schema, &tokens, &err);
        pal_memory_fail_at(0, 0);
        CHECK(status == PAL_OK ? tokens == whole : status == PAL_NO_MEMORY && tokens == 77);
    }
    CHECK_STATUS(status, PAL_OK);
}

static void an_allocation_failure_is_reported(void)
{
    pal_buf buf;

    no_memory_is_reported_for(str(SCHEMA));
    pal_buf_init(&buf, 1 << 20);
    pal_buf_append_text(&buf, "{\"properties\":{");
    for (int i = 0; i < 2000; i++)
        pal_buf_format(&buf, "\"a\\u00%02x\":{\"type\":\"a\\u0020b\"},", 32 + i % 64);
    pal_buf_append_text(&buf, "\"b\":{}}}");
    no_memory_is_reported_for(pal_buf_str(&buf));
    pal_buf_done(&buf);
}

int main(void)
{
    RUN(the_rules_hold_exactly);
    RUN(estimates_follow_the_same_rules);
    RUN(empty_messages_cost_their_frame);
    RUN(nested_schemas_are_counted);
    RUN(the_depth_is_limited);
    RUN(a_wrong_schema_is_reported);
    RUN(an_allocation_failure_is_reported);
    return tap_done();
}
