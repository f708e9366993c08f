/* test_openai_steer.c - steers: which messages are accepted, the requests that continue a response,
 * and the events about them. openai-websocket.test.mjs tests them over a WebSocket. */
#include "server/api/openai/socket/api_openai_steer.h"

#include <string.h>
#include "support/tap.h"

static pal_json parsed(pal_arena *arena, const char *text)
{
    pal_json value = {0};
    if (pal_json_parse(arena, pal_str_of(text), NULL, &value, NULL) != PAL_OK)
        printf("# not JSON: %s\n", text);
    return value;
}

static bool is_text(const pal_buf *buf, const char *expected)
{
    bool is_equal = !buf->failure && pal_str_is(pal_buf_str(buf), expected);
    if (!is_equal)
        printf("# %.*s\n", PAL_STR_ARG(pal_buf_str(buf)));
    return is_equal;
}

/* ---- Checks ---- */

static pal_status check(const char *message, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_status status = pal_openai_steer_check(parsed(arena, message), arena, err);
    pal_arena_free(arena);
    return status;
}

static void a_text_and_messages_of_the_user_are_accepted(void)
{
    static const char *const messages[] = {
            "{\"type\":\"response.steer\",\"previous_response_id\":\"r\",\"input\":\"shorter\"}",
            "{\"type\":\"response.steer\",\"previous_response_id\":\"r\",\"input\":[{\"role\":\"user\","
            "\"content\":\"shorter\"}]}",
            "{\"type\":\"response.steer\",\"previous_response_id\":\"r\",\"input\":[{\"type\":"
            "\"message\",\"role\":\"user\",\"id\":\"m\",\"status\":\"completed\",\"content\":[{\"type\":"
            "\"input_text\",\"text\":\"shorter\"}]}]}",
    };
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        pal_error err = {0};
        if (!CHECK_STATUS(check(messages[i], &err), PAL_OK, &err))
            printf("# %s\n", err.message);
    }
}

typedef struct refusal {
    const char *message, *why;
} refusal;

static void other_messages_are_refused_with_the_reason(void)
{
    static const refusal rows[] = {
            {"{\"type\":\"response.steer\",\"previous_response_id\":\"r\",\"input\":\"x\","
             "\"stream_id\":\"s\"}",
                    "'response.steer' must not contain \"stream_id\""},
            {"{\"type\":\"response.steer\",\"input\":\"x\"}", "'previous_response_id' must be a"},
            {"{\"type\":\"response.steer\",\"previous_response_id\":7,\"input\":\"x\"}",
                    "'previous_response_id' must be a"},
            {"{\"type\":\"response.steer\",\"previous_response_id\":\"r\",\"input\":[]}",
                    "'input' is empty"},
            {"{\"type\":\"response.steer\",\"previous_response_id\":\"r\",\"input\":[{\"role\":"
             "\"system\",\"content\":\"x\"}]}",
                    "only messages of the user"},
            {"{\"type\":\"response.steer\",\"previous_response_id\":\"r\",\"input\":[{\"type\":"
             "\"function_call_output\",\"call_id\":\"c\",\"output\":\"x\"}]}",
                    "only messages of the user"},
            {"{\"type\":\"response.steer\",\"previous_response_id\":\"r\",\"input\":[{\"role\":"
             "\"user\",\"content\":\"x\",\"phase\":\"y\"}]}",
                    "a message must not contain \"phase\""},
            {"{\"type\":\"response.steer\",\"previous_response_id\":\"r\",\"input\":[{\"role\":"
             "\"user\",\"content\":[{\"type\":\"output_text\",\"text\":\"x\"}]}]}",
                    "only input_text, input_image and input_file"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pal_error err = {0};
        CHECK_STATUS(check(rows[i].message, &err), PAL_INVALID, &err);
        CHECK_CONTAINS(err.message, rows[i].why);
    }
}

/* ---- Lists ---- */

static void steers_keep_their_order_when_lists_are_joined(void)
{
    pal_openai_steers first = {0}, second = {0};
    CHECK(pal_openai_steer_add(&first, pal_str_of("r"), pal_str_of("\"a\"")) != NULL);
    CHECK(pal_openai_steer_add(&second, pal_str_of("r"), pal_str_of("\"b\"")) != NULL);
    CHECK(pal_openai_steer_add(&second, pal_str_of("r"), pal_str_of("\"cc\"")) != NULL);
    pal_openai_steers_move(&second, &first);
    CHECK_EQ(first.len, 3);
    CHECK_EQ(first.bytes, 10);
    CHECK_EQ(second.len, 0);
    CHECK_PTR(second.first, NULL);
    CHECK_STR(pal_openai_steer_input(first.first), "\"a\"");
    CHECK_STR(pal_openai_steer_input(first.first->next), "\"b\"");
    CHECK_STR(pal_openai_steer_input(first.last), "\"cc\"");
    CHECK_BEGINS(first.first->id, "steer_");
    CHECK_DIFFER(first.first->id, first.last->id);
    pal_openai_steers_move(&second, &first); /* an empty list changes nothing */
    CHECK_EQ(first.len, 3);
    pal_openai_steers_free(&first);
    CHECK_EQ(first.len, 0);
    CHECK_PTR(first.first, NULL);
    CHECK_PTR(first.last, NULL);
}

/* ---- Requests ---- */

static void check_settings(const char *request, const char *expected)
{
    pal_arena *arena = pal_arena_new(0);
    pal_buf out;
    pal_buf_init(&out, 4096);
    pal_openai_steer_settings(parsed(arena, request), arena, &out);
    CHECK(is_text(&out, expected));
    pal_buf_done(&out);
    pal_arena_free(arena);
}

static void a_successor_inherits_the_settings_but_not_the_input(void)
{
    check_settings("{\"type\":\"response.create\",\"stream_id\":\"s\",\"model\":\"m\",\"input\":\"x\","
                   "\"previous_response_id\":\"p\",\"tools\":[],\"store\":false}",
            "{\"model\":\"m\",\"tools\":[],\"store\":false}");
    check_settings("{\"input\":\"x\"}", "{}");
}

static void some_responses_cannot_be_steered(void)
{
    check_settings("{\"model\":\"m\",\"conversation\":\"conv_1\"}", "");
    check_settings("{\"model\":\"m\",\"background\":true}", "");
    check_settings("{\"model\":\"m\",\"generate\":false}", "");
    check_settings("{\"model\":\"m\",\"context_management\":[{\"type\":\"compaction\"}]}", "");
    check_settings("{\"background\":false,\"context_management\":[]}",
            "{\"background\":false,\"context_management\":[]}");
}

static void the_input_of_all_steers_goes_into_one_successor(void)
{
    pal_openai_steers steers = {0};
    pal_buf out;
    pal_buf_init(&out, 4096);
    CHECK(pal_openai_steer_add(&steers, pal_str_of("r"), pal_str_of("\"in French\"")) != NULL);
    CHECK(pal_openai_steer_add(&steers, pal_str_of("r"), pal_str_of("[ {\"role\":\"user\"} ]")) != NULL);
    CHECK(pal_openai_steer_add(&steers, pal_str_of("r"), pal_str_of("[]")) != NULL);
    pal_openai_steer_successor(pal_str_of("{\"model\":\"m\"}"), pal_str_of("resp_1"), &steers, &out);
    CHECK(is_text(&out,
            "{\"previous_response_id\":\"resp_1\",\"input\":[{\"role\":\"user\",\"content\":\"in "
            "French\"},{\"role\":\"user\"}],\"model\":\"m\"}"));
    pal_buf_done(&out);
    pal_openai_steers_free(&steers);
}

static void check_merge(const char *request, const char *expected)
{
    pal_openai_steers steers = {0};
    pal_arena *arena = pal_arena_new(0);
    pal_buf out;
    pal_buf_init(&out, 4096);
    CHECK(pal_openai_steer_add(&steers, pal_str_of("r"), pal_str_of("\"hurry\"")) != NULL);
    pal_openai_steer_merge(parsed(arena, request), &steers, arena, &out);
    CHECK(is_text(&out, expected));
    pal_buf_done(&out);
    pal_arena_free(arena);
    pal_openai_steers_free(&steers);
}

/* Outputs must follow their calls, so they come before the steers; everything else comes after. */
static void steers_come_after_outputs_and_before_other_items(void)
{
    check_merge("{\"input\":[{\"role\":\"user\",\"content\":\"more\"},{\"type\":\"function_call_output\","
                "\"call_id\":\"c\",\"output\":\"1\"}],\"model\":\"m\"}",
            "{\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"1\"},{\"role\":"
            "\"user\",\"content\":\"hurry\"},{\"role\":\"user\",\"content\":\"more\"}],\"model\":\"m\"}");
    check_merge("{\"model\":\"m\",\"input\":\"more\"}",
            "{\"input\":[{\"role\":\"user\",\"content\":\"hurry\"},{\"role\":\"user\",\"content\":"
            "\"more\"}],\"model\":\"m\"}");
    check_merge("{\"model\":\"m\"}",
            "{\"input\":[{\"role\":\"user\",\"content\":\"hurry\"}],\"model\":\"m\"}");
}

/* ---- Calls that wait for the client ---- */

static void check_required(const char *response, size_t len, const char *expected)
{
    pal_arena *arena = pal_arena_new(0);
    pal_buf out;
    pal_buf_init(&out, 4096);
    CHECK_EQ(pal_openai_steer_required(parsed(arena, response), arena, &out), len);
    CHECK(is_text(&out, expected));
    pal_buf_done(&out);
    pal_arena_free(arena);
}

static void missing_outputs_are_listed(void)
{
    check_required("{\"output\":[{\"type\":\"message\"},{\"type\":\"function_call\",\"call_id\":\"a\","
                   "\"name\":\"add\"},{\"type\":\"custom_tool_call\",\"call_id\":\"b\",\"name\":\"sh\"},"
                   "{\"type\":\"mcp_approval_request\",\"id\":\"mcpr_1\",\"name\":\"del\"}]}",
            3,
            "[{\"type\":\"function_call_output\",\"call_id\":\"a\",\"name\":\"add\"},{\"type\":"
            "\"custom_tool_call_output\",\"call_id\":\"b\"},{\"type\":\"mcp_approval_response\","
            "\"approval_request_id\":\"mcpr_1\"}]");
    check_required("{\"output\":[{\"type\":\"message\"}]}", 0, "[]");
    check_required("{}", 0, "[]");
}

/* The server has run the tool, so the client owes no output. */
static void calls_with_a_result_are_not_listed(void)
{
    check_required("{\"output\":[{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"add\"},{"
                   "\"type\":\"function_call_output\",\"call_id\":\"a\",\"output\":\"3\"}]}",
            0, "[]");
}

/* ---- Events ---- */

static void events_have_the_members_of_the_types(void)
{
    pal_openai_steer steer = {.id = "steer_1", .previous = "resp_1"};
    pal_openai_steer_failure failure = {.previous = pal_str_of("resp_1"),
            .input = pal_str_of("\"x\""),
            .code = "response_not_found",
            .message = pal_str_of("no such response")};
    pal_buf out;
    pal_buf_init(&out, 4096);
    pal_openai_steer_accepted(&steer, 3, &out);
    CHECK(is_text(&out,
            "{\"type\":\"response.steer.accepted\",\"sequence_number\":3,\"steer\":{\"id\":\"steer_1\","
            "\"previous_response_id\":\"resp_1\"}}"));
    pal_buf_clear(&out);
    pal_openai_steer_pending(&steer, 4, pal_str_of("[{}]"), &out);
    CHECK(is_text(&out,
            "{\"type\":\"response.steer.pending\",\"sequence_number\":4,\"steer\":{\"id\":\"steer_1\","
            "\"previous_response_id\":\"resp_1\"},\"reason\":\"waiting_for_required_input\","
            "\"required_input\":[{}]}"));
    pal_buf_clear(&out);
    pal_openai_steer_failed(&failure, 5, &out);
    CHECK(is_text(&out,
            "{\"type\":\"response.steer.failed\",\"sequence_number\":5,\"steer\":{"
            "\"previous_response_id\":\"resp_1\",\"input\":\"x\"},\"error\":{\"type\":"
            "\"invalid_request_error\",\"code\":\"response_not_found\",\"message\":\"no such "
            "response\"}}"));
    pal_buf_done(&out);
}

int main(void)
{
    RUN(a_text_and_messages_of_the_user_are_accepted);
    RUN(other_messages_are_refused_with_the_reason);
    RUN(steers_keep_their_order_when_lists_are_joined);
    RUN(a_successor_inherits_the_settings_but_not_the_input);
    RUN(some_responses_cannot_be_steered);
    RUN(the_input_of_all_steers_goes_into_one_successor);
    RUN(steers_come_after_outputs_and_before_other_items);
    RUN(missing_outputs_are_listed);
    RUN(calls_with_a_result_are_not_listed);
    RUN(events_have_the_members_of_the_types);
    return tap_done();
}
