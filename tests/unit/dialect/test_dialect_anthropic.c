/* test_dialect_anthropic.c - converts Anthropic's Messages to our messages and back. */
#include "base/json/json.h"
#include "base/memory.h"
#include "dialect/anthropic/anthropic.h"
#include "support/dialect_read.h"
#include "support/json_check.h"
#include "support/message_random.h"
#include "support/tap.h"

static pal_arena *arena;
static pal_error error;
static pal_message *messages;
static size_t messages_len;

static bool reads(const char *json)
{
    memset(&error, 0, sizeof error);
    pal_status status = dialect_read(
            pal_anthropic_read, pal_str_of(json), arena, &messages, &messages_len, &error);
    if (status != PAL_OK)
        printf("# %s: %s\n", json, error.message);
    return status == PAL_OK;
}

/* Reads, converts to the native form and back as a store would, and writes: the result is the same,
 * or `expected`. */
static bool rewrites(const char *json, const char *expected)
{
    pal_str native, text = {0};
    if (!reads(json))
        return false;
    for (size_t i = 0; i < messages_len; i++) {
        if (pal_message_to_json(&messages[i], arena, &native, &error) != PAL_OK ||
                pal_message_from_json(native, arena, &messages[i], &error) != PAL_OK) {
            printf("# %s\n", error.message);
            return false;
        }
    }
    if (pal_anthropic_write(messages, messages_len, arena, &text, &error) != PAL_OK)
        printf("# %s\n", error.message);
    return json_same(arena, text, expected ? expected : json);
}

static bool refused(const char *json, const char *text)
{
    pal_status status = dialect_read(
            pal_anthropic_read, pal_str_of(json), arena, &messages, &messages_len, &error);
    if (status == PAL_INVALID && strstr(error.message, text))
        return true;
    printf("# %s: %s '%s'\n", json, pal_status_name(status), error.message);
    return false;
}

#define ONE(role, blocks) "{\"messages\":[{\"role\":\"" role "\",\"content\":[" blocks "]}]}"

static void the_system_text_is_a_message(void)
{
    CHECK(rewrites("{\"system\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":"
                   "\"b\"}],\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
                   "\"text\":\"c\"}]}]}",
            NULL));
    if (CHECK_EQ(messages_len, 2)) {
        CHECK_EQ(messages[0].role, PAL_ROLE_SYSTEM);
        CHECK_EQ(messages[0].parts_len, 2);
    }
    CHECK(rewrites("{\"system\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"c\"}]}",
            "{\"system\":[{\"type\":\"text\",\"text\":\"a\"}],\"messages\":[{\"role\":\"user\","
            "\"content\":[{\"type\":\"text\",\"text\":\"c\"}]}]}"));
}

static void all_input_shapes_are_accepted(void)
{
    CHECK(reads("{\"role\":\"user\",\"content\":\"a\"}"));
    CHECK_EQ(messages_len, 1);
    CHECK(reads("[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":[]}]"));
    if (CHECK_EQ(messages_len, 2))
        CHECK_EQ(messages[1].parts_len, 0);
    CHECK(refused("[{\"role\":\"robot\",\"content\":\"a\"}]", "role"));
    CHECK(refused("[{\"role\":\"user\",\"content\":7}]", "messages[0]: member 'content'"));
    CHECK(refused("[{\"role\":\"user\",\"content\":[{\"text\":\"a\"}]}]", "type"));
    CHECK(refused("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":1}]}]", "text"));
    CHECK(refused("7", "expected a message"));
    CHECK(refused("[7]", "messages"));
    CHECK(refused("{", "JSON") || error.message[0]);
}

static void thinking_survives_byte_for_byte(void)
{
    CHECK(rewrites(ONE("assistant",
                           "{\"type\":\"thinking\",\"thinking\":\"a \\u0001\",\"signature\":"
                           "\"Eq/+==\"},{\"type\":\"redacted_thinking\",\"data\":\"Em+/\"},"
                           "{\"type\":\"text\",\"text\":\"b\",\"citations\":[{\"x\":1}]}"),
            NULL));
    const pal_part *parts = messages[0].parts;
    CHECK_EQ(parts[0].kind, PAL_PART_REASONING);
    CHECK_STR(parts[0].family, "anthropic");
    CHECK_EQ(parts[1].kind, PAL_PART_REASONING);
    CHECK_STR(parts[1].signature, "Em+/");
    CHECK_EQ(parts[1].text.len, 0);
}

/* As a provider reports it: the complete block is the signature. */
static void an_opaque_block_is_returned_unchanged(void)
{
    static const char block[] = "{\"type\":\"redacted_thinking\", \"data\":\"E\\u006d\"}";
    pal_part part = {.kind = PAL_PART_REASONING,
            .signature = pal_str_of(block),
            .family = pal_str_of("anthropic")};
    const pal_message message = {.role = PAL_ROLE_ASSISTANT, .parts = &part, .parts_len = 1};
    pal_str json;
    CHECK_STATUS(pal_anthropic_write(&message, 1, arena, &json, &error), PAL_OK, &error);
    CHECK_CONTAINS(json, block);
}

static void tools_survive(void)
{
    CHECK(rewrites(
            "{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":"
            "\"t1\",\"name\":\"f\",\"input\":{\"a\":[1,2.50]}},{\"type\":\"tool_use\",\"id\":"
            "\"t2\","
            "\"name\":\"g\",\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":"
            "\"tool_result\",\"tool_use_id\":\"t1\",\"content\":\"42\"},{\"type\":\"tool_result\","
            "\"tool_use_id\":\"t2\",\"content\":[{\"type\":\"text\",\"text\":\"x\"},{\"type\":"
            "\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":"
            "\"UE5H\"}}],\"is_error\":true},{\"type\":\"text\",\"text\":\"go on\"}]}]}",
            NULL));
    if (CHECK_EQ(messages_len, 3)) {
        CHECK_EQ(messages[1].role, PAL_ROLE_TOOL);
        CHECK_EQ(messages[1].parts_len, 2);
    }
    CHECK_EQ(messages[2].role, PAL_ROLE_USER);
    CHECK_EQ(messages[2].parts_len, 1);
    CHECK_STR(messages[0].parts[0].arguments, "{\"a\":[1,2.50]}");
}

static void media_survive(void)
{
    CHECK(rewrites(
            ONE("user",
                    "{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"https://x\"}},"
                    "{\"type\":\"document\",\"title\":\"a.pdf\",\"source\":{\"type\":"
                    "\"base64\",\"media_type\":\"application/pdf\",\"data\":\"UERG\"}},"
                    "{\"type\":\"document\",\"source\":{\"type\":\"text\",\"media_type\":"
                    "\"text/plain\",\"data\":\"hi\"},\"citations\":{\"enabled\":true}},"
                    "{\"type\":\"document\",\"source\":{\"type\":\"file\",\"file_id\":\"f\"}}"),
            NULL));
    CHECK_EQ(messages[0].parts[0].kind, PAL_PART_IMAGE);
    CHECK_STR(messages[0].parts[1].data, "PDF");
}

static void unknown_blocks_survive(void)
{
    CHECK(rewrites(ONE("assistant",
                           "{\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"web_search\","
                           "\"input\":{\"query\":\"x\"}},{\"type\":\"web_search_tool_result\","
                           "\"tool_use_id\":\"s\",\"content\":[]}"),
            NULL));
}

static void cache_marks_are_not_kept(void)
{
    CHECK(rewrites(ONE("user",
                           "{\"type\":\"text\",\"text\":\"a\",\"cache_control\":{\"type\":"
                           "\"ephemeral\"}},{\"type\":\"new\",\"x\":1,\"cache_control\":{}}"),
            ONE("user", "{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"new\",\"x\":1}")));
}

static void neighboring_messages_of_one_role_are_merged(void)
{
    CHECK(rewrites("[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"}]",
            ONE("user", "{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}")));
}

static void omitted_content_is_named(void)
{
    pal_part parts[] = {
            {.kind = PAL_PART_FILE,
                    .name = pal_str_of("a.zip"),
                    .media_type = pal_str_of("application/zip"),
                    .data = pal_str_of("PK")},
            {.kind = PAL_PART_TOOL_CALL,
                    .call_id = pal_str_of("c"),
                    .name = pal_str_of("f"),
                    .arguments = pal_str_of("not json")},
            {.kind = PAL_PART_COMPACTION, .text = pal_str_of("so far")},
    };
    const pal_message message = {.role = PAL_ROLE_ASSISTANT, .parts = parts, .parts_len = 3};
    pal_str json;
    CHECK_STATUS(pal_anthropic_write(&message, 1, arena, &json, &error), PAL_OK, &error);
    CHECK(json_same(arena, json,
            ONE("assistant",
                    "{\"type\":\"text\",\"text\":\"[file application/zip a.zip]\"},"
                    "{\"type\":\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":"
                    "{\"arguments\":\"not json\"}},{\"type\":\"text\",\"text\":\"so far\"}")));
}

/* All written messages can be read, and are then written the same. */
static void any_message_is_stable_after_one_round_trip(void)
{
    for (uint64_t seed = 1; seed <= 400; seed++) {
        pal_str first, second;
        pal_arena_reset(arena);
        message_random random = {seed * UINT64_C(0x9e3779b97f4a7c15), arena};
        pal_message message = random_message(&random);
        CHECK_STATUS(pal_anthropic_write(&message, 1, arena, &first, &error), PAL_OK, &error);
        pal_status status = dialect_read(
                pal_anthropic_read, first, arena, &messages, &messages_len, &error);
        if (!CHECK_STATUS(status, PAL_OK)) {
            printf("# seed %d: %s\n# %.*s\n", (int)seed, error.message, PAL_STR_ARG(first));
            continue;
        }
        CHECK_STATUS(pal_anthropic_write(messages, messages_len, arena, &second, &error), PAL_OK,
                &error);
        if (!CHECK_STR(first, second))
            printf("# seed %d\n# %.*s\n# %.*s\n", (int)seed, PAL_STR_ARG(first),
                    PAL_STR_ARG(second));
    }
}

static void an_allocation_failure_is_reported(void)
{
    static const char json[] =
            "{\"system\":\"s\",\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":"
            "\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{\"a\":1},\"x\":\"\\u0041\"}]},"
            "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\","
            "\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]}]}";
    pal_status status = PAL_NO_MEMORY;
    for (uint64_t nth = 1; status != PAL_OK && nth < 500; nth++) {
        pal_str text;
        pal_memory_fail_at(nth, 0);
        pal_arena *small = pal_arena_new(0);
        status = PAL_NO_MEMORY;
        if (small)
            status = dialect_read(
                    pal_anthropic_read, pal_str_of(json), small, &messages, &messages_len, NULL);
        if (status == PAL_OK)
            status = pal_anthropic_write(messages, messages_len, small, &text, NULL);
        pal_memory_fail_at(0, 0);
        CHECK_STATUS_EITHER(status, PAL_OK, PAL_NO_MEMORY);
        pal_arena_free(small);
    }
    CHECK_STATUS(status, PAL_OK);
}

#define EVENT(json) "event: x\ndata: " json "\n\n"

static void a_system_message_keeps_its_place(void)
{
    CHECK(reads("[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"system\",\"content\":\"b\"}]"));
    if (CHECK_EQ(messages_len, 2)) {
        CHECK_EQ(messages[1].role, PAL_ROLE_SYSTEM);
        CHECK_STR(messages[1].parts[0].text, "b");
    }
    CHECK(refused("[{\"role\":\"robot\",\"content\":\"a\"}]", "one of user, assistant, system"));
}

static bool joins(const char *stream, const char *expected)
{
    pal_str json = {0};
    pal_status status = pal_anthropic_answer_join(pal_str_of(stream), arena, &json, &error);
    if (status != PAL_OK)
        printf("# %s\n", error.message);
    return status == PAL_OK && json_same(arena, json, expected);
}

static void the_events_of_a_stream_are_joined(void)
{
    pal_message answer;
    pal_str json;
    static const char stream[] = EVENT(
            "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"m\",\"content\":[],"
            "\"stop_reason\":null,\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}")
            EVENT("{\"type\":\"ping\"}")
            EVENT("{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"
                  "\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}")
            EVENT("{\"type\":\"content_block_delta\",\"delta\":{\"thinking\":\"Hm\"}}")
            EVENT("{\"type\":\"content_block_delta\",\"delta\":{\"signature\":\"sig\"}}")
            EVENT("{\"type\":\"content_block_stop\"}")
            EVENT("{\"type\":\"content_block_start\",\"content_block\":{\"type\":\"hologram\",\"a\":1}}")
            EVENT("{\"type\":\"content_block_stop\"}")
            EVENT("{\"type\":\"content_block_start\",\"content_block\":{\"type\":\"tool_use\",\"id\":"
                  "\"t\",\"name\":\"ls\",\"input\":{}}}")
            EVENT("{\"type\":\"content_block_delta\",\"delta\":{\"partial_json\":\"{\\\"a\\\":\"}}")
            EVENT("{\"type\":\"content_block_delta\",\"delta\":{\"partial_json\":\"1}\"}}")
            EVENT("{\"type\":\"content_block_stop\"}")
            EVENT("{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},"
                  "\"usage\":{\"output_tokens\":9}}")
            EVENT("{\"type\":\"message_stop\"}");
    CHECK(joins(stream,
            "{\"id\":\"msg_1\",\"model\":\"m\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
            "\"Hm\",\"signature\":\"sig\"},{\"type\":\"hologram\",\"a\":1},{\"type\":\"tool_use\","
            "\"id\":\"t\",\"name\":\"ls\",\"input\":{\"a\":1}}],\"stop_reason\":\"tool_use\","
            "\"usage\":{\"input_tokens\":7,\"output_tokens\":9}}"));
    CHECK_STATUS(pal_anthropic_answer_join(pal_str_of(stream), arena, &json, &error), PAL_OK);
    CHECK_STATUS(pal_anthropic_answer_read(json, arena, &answer, &error), PAL_OK);
    CHECK_EQ(answer.role, PAL_ROLE_ASSISTANT);
    CHECK_EQ(answer.parts_len, 3);
    CHECK_EQ(answer.usage.input, 7);
    CHECK_EQ(answer.usage.output, 9);
    CHECK_STR(answer.parts[2].arguments, "{\"a\":1}");
}

static void a_stream_that_is_not_complete_is_refused(void)
{
    static const char *const streams[] = {"", EVENT("{\"type\":\"message_stop\"}"),
            EVENT("{\"type\":\"message_start\",\"message\":{\"content\":[]}}"),
            EVENT("{\"type\":\"message_start\",\"message\":5}") EVENT("{\"type\":\"message_stop\"}"),
            EVENT("{\"type\":\"broken")};
    pal_str json;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        CHECK_STATUS(pal_anthropic_answer_join(pal_str_of(streams[i]), arena, &json, &error),
                PAL_INVALID);
    /* Members of the wrong type are ignored. */
    CHECK(joins(EVENT("{\"type\":\"message_start\",\"message\":{\"usage\":[1]}}")
                    EVENT("{\"type\":\"content_block_stop\"}")
                    EVENT("{\"type\":\"content_block_start\",\"content_block\":\"x\"}")
                    EVENT("{\"type\":\"content_block_stop\"}")
                    EVENT("{\"type\":\"message_delta\",\"delta\":7,\"usage\":null}")
                    EVENT("{\"type\":\"message_stop\"}"),
            "{\"content\":[],\"usage\":{}}"));
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(a_system_message_keeps_its_place);
    RUN(the_events_of_a_stream_are_joined);
    RUN(a_stream_that_is_not_complete_is_refused);
    RUN(the_system_text_is_a_message);
    RUN(all_input_shapes_are_accepted);
    RUN(thinking_survives_byte_for_byte);
    RUN(an_opaque_block_is_returned_unchanged);
    RUN(tools_survive);
    RUN(media_survive);
    RUN(unknown_blocks_survive);
    RUN(cache_marks_are_not_kept);
    RUN(neighboring_messages_of_one_role_are_merged);
    RUN(omitted_content_is_named);
    RUN(any_message_is_stable_after_one_round_trip);
    RUN(an_allocation_failure_is_reported);
    pal_arena_free(arena);
    return tap_done();
}
