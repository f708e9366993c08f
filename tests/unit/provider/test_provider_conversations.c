/* test_provider_conversations.c - responses of Mistral's Conversations. */
#include "provider/provider_kind.h"
#include "support/answer_check.h"

static const answer_case stream = {
        .kind = &pal_reader_mistral_conversations, .content_type = "text/event-stream"};
static const answer_case plain = {
        .kind = &pal_reader_mistral_conversations, .content_type = "application/json"};

#define EVENT(type, members) "event: " type "\ndata: {\"type\":\"" type "\"" members "}\n\n"
#define START EVENT("conversation.response.started", ",\"conversation_id\":\"conv_1\"")
#define SAID(content)                                                                              \
    EVENT("message.output.delta", ",\"id\":\"msg_1\",\"model\":\"m\",\"content\":" content)
#define CALL(id, arguments)                                                                        \
    EVENT("function.call.delta",                                                                   \
            ",\"id\":\"fc_1\",\"name\":\"f\",\"tool_call_id\":\"" id                               \
            "\",\"arguments\":" arguments)
#define DONE                                                                                       \
    EVENT("conversation.response.done",                                                            \
            ",\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":4,"                            \
            "\"total_tokens\":16,\"connector_tokens\":2}")

static void text_and_thinking_arrive_in_pieces(void)
{
    CHECK(answer_reads_as(&stream,
            START SAID("{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\",\"text\":\"hm\"}]}")
                    SAID("\"Hel\"") SAID("{\"type\":\"text\",\"text\":\"lo\"}") DONE,
            "think(hm) text(Hello) end(ok stop 12+0+0>4/0 model=m conversation=conv_1)"));
}

static void calls_arrive_in_pieces(void)
{
    CHECK(answer_reads_as(&stream,
            START CALL("c1", "\"{\\\"a\\\":\"") CALL("c1", "\"1}\"") CALL("c2", "{\"b\":2}") DONE,
            "call0(c1,f) args0({\"a\":1}) call1(c2,f) args1({\"b\":2}) "
            "end(ok tool_calls 12+0+0>4/0 conversation=conv_1)"));
}

static void calls_that_the_service_runs_are_ignored(void)
{
    CHECK(answer_reads_as(&stream,
            START EVENT("tool.execution.started", ",\"id\":\"t\",\"name\":\"web_search\"")
                    EVENT("tool.execution.done", ",\"id\":\"t\",\"name\":\"web_search\"")
                            EVENT("agent.handoff.started", ",\"id\":\"h\"") SAID("\"A\"") DONE,
            "text(A) end(ok stop 12+0+0>4/0 model=m conversation=conv_1)"));
}

static void a_complete_response_reads_the_same(void)
{
    CHECK(answer_reads_as(&plain,
            "{\"object\":\"conversation.response\",\"conversation_id\":\"conv_1\",\"outputs\":["
            "{\"type\":\"message.output\",\"model\":\"m\",\"content\":\"A\"},"
            "{\"type\":\"message.output\",\"content\":[{\"type\":\"text\",\"text\":\"B\"},"
            "{\"type\":\"tool_reference\",\"tool\":\"x\"}]},"
            "{\"type\":\"function.call\",\"tool_call_id\":\"c\",\"name\":\"f\",\"arguments\":"
            "\"{}\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}",
            "text(AB) call0(c,f) args0({}) "
            "end(ok tool_calls 1+0+0>2/0 model=m conversation=conv_1)"));
    CHECK(answer_reads_as(&plain, "{\"message\":\"odd\"}", "end(provider: odd)"));
}

static void errors_are_reported(void)
{
    CHECK(answer_reads_as(&stream,
            START EVENT("conversation.response.error", ",\"message\":\"Overloaded\",\"code\":503"),
            "end(provider conversation=conv_1 code=503 retryable: Overloaded)"));
    CHECK(answer_reads_as(&stream, START SAID("\"A\""),
            "text(A) end(io model=m conversation=conv_1 retryable: the stream ended in the middle "
            "of the answer)"));
}

static bool is_stale(long code, const char *text)
{
    const pal_model_end end = {.status = PAL_PROVIDER, .code = code, .error = pal_str_of(text)};
    return pal_provider_mistral_conversations.is_stale(&end);
}

static void a_lost_conversation_is_detected(void)
{
    CHECK(is_stale(404, "not found"));
    CHECK(is_stale(422, "validation"));
    CHECK(is_stale(400, "Not the same number of function calls and responses"));
    CHECK(is_stale(400, "Function calls and responses do not match"));
    CHECK(is_stale(400, "bad request")); /* for any failure: a new conversation begins clean */
    CHECK(is_stale(409, "conflict"));
    CHECK(is_stale(410, "gone"));
    CHECK(!is_stale(401, "no key"));
    CHECK(!is_stale(403, "not yours"));
    CHECK(!is_stale(500, "internal"));
    CHECK(!is_stale(429, ""));
}

int main(void)
{
    RUN(text_and_thinking_arrive_in_pieces);
    RUN(calls_arrive_in_pieces);
    RUN(calls_that_the_service_runs_are_ignored);
    RUN(a_complete_response_reads_the_same);
    RUN(errors_are_reported);
    RUN(a_lost_conversation_is_detected);
    pal_arena_free(answer_scratch);
    return tap_done();
}
