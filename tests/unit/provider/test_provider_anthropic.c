/* test_provider_anthropic.c - responses of Anthropic's Messages. */
#include "support/answer_check.h"

static const answer_case stream = {
        .kind = &pal_reader_anthropic, .content_type = "text/event-stream"};
static const answer_case plain = {
        .kind = &pal_reader_anthropic, .content_type = "application/json"};

#define EVENT(type, members) "event: " type "\ndata: {\"type\":\"" type "\"" members "}\n\n"
#define START                                                                                      \
    EVENT("message_start",                                                                         \
            ",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\","          \
            "\"model\":"                                                                           \
            "\"claude-x\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":25,"     \
            "\"cache_creation_input_tokens\":7,\"cache_read_input_tokens\":100,"                   \
            "\"output_tokens\":1}}")
#define BLOCK(index, block)                                                                        \
    EVENT("content_block_start", ",\"index\":" index ",\"content_block\":" block)
#define GROW(index, delta) EVENT("content_block_delta", ",\"index\":" index ",\"delta\":" delta)
#define STOP(index) EVENT("content_block_stop", ",\"index\":" index)
#define END(reason)                                                                                \
    EVENT("message_delta",                                                                         \
            ",\"delta\":{\"stop_reason\":\"" reason                                                \
            "\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":15}")                         \
    EVENT("message_stop", "")
#define TOLD_END "25+100+7>15/0 model=claude-x id=msg_1)"

static void text_arrives_in_pieces(void)
{
    CHECK(answer_reads_as(&stream,
            START BLOCK("0", "{\"type\":\"text\",\"text\":\"\"}") EVENT("ping", "")
                    GROW("0", "{\"type\":\"text_delta\",\"text\":\"Hel\"}") GROW("0",
                            "{\"type\":\"text_delta\",\"text\":\"lo\"}") STOP("0") END("end_turn"),
            "text(Hello) end(ok stop " TOLD_END));
}

static void thinking_keeps_its_signature(void)
{
    CHECK(answer_reads_as(&stream,
            START BLOCK("0", "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}") GROW(
                    "0", "{\"type\":\"thinking_delta\",\"thinking\":\"Let me \"}") GROW("0",
                    "{\"type\":\"thinking_delta\",\"thinking\":\"see\"}") GROW("0",
                    "{\"type\":\"signature_delta\",\"signature\":\"Eq/+\"}") GROW("0",
                    "{\"type\":\"signature_delta\",\"signature\":\"QB==\"}") STOP("0") BLOCK("1",
                    "{\"type\":\"redacted_thinking\",\"data\":\"Em\\u0077K/ =\"}") STOP("1")
                    BLOCK("2", "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}")
                            GROW("2", "{\"type\":\"signature_delta\",\"signature\":\"Z\"}")
                                    STOP("2") BLOCK("3", "{\"type\":\"text\",\"text\":\"\"}")
                                            GROW("3", "{\"type\":\"text_delta\",\"text\":\"A\"}")
                                                    STOP("3") END("max_tokens"),
            "think(Let me see) sign(Eq/+QB==,anthropic) "
            "sign({\"type\":\"redacted_thinking\",\"data\":\"Em\\u0077K/ =\"},anthropic) "
            "sign(Z,anthropic) text(A) end(ok length " TOLD_END));
}

static void calls_arrive_in_pieces(void)
{
    CHECK(answer_reads_as(&stream,
            START BLOCK("0", "{\"type\":\"text\",\"text\":\"Ok\"}") STOP("0") BLOCK(
                    "1", "{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"f\",\"input\":{}}")
                    GROW("1", "{\"type\":\"input_json_delta\",\"partial_json\":\"\"}") GROW(
                            "1", "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":\"}")
                            GROW("1", "{\"type\":\"input_json_delta\",\"partial_json\":\"1}\"}")
                                    STOP("1") BLOCK("2",
                                            "{\"type\":\"tool_use\",\"id\":\"toolu_2\",\"name\":"
                                            "\"g\",\"input\":{}}") STOP("2") BLOCK("3",
                                            "{\"type\":\"tool_use\",\"id\":\"toolu_3\",\"name\":"
                                            "\"h\",\"input\":{\"b\":2}}") STOP("3") END("tool_use"),
            "text(Ok) call0(toolu_1,f) args0({\"a\":1}) call1(toolu_2,g) call2(toolu_3,h) "
            "args2({\"b\":2}) args1({}) end(ok tool_calls " TOLD_END));
}

static void a_complete_response_reads_the_same(void)
{
    CHECK(answer_reads_as(&plain,
            "{\"id\":\"msg_1\",\"model\":\"m\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
            "\"hm\",\"signature\":\"S\"},{\"type\":\"text\",\"text\":\"Hi\"},{\"type\":\"tool_"
            "use\","
            "\"id\":\"t\",\"name\":\"f\",\"input\":{}}],\"stop_reason\":\"tool_use\",\"usage\":{"
            "\"input_tokens\":3,\"output_tokens\":4}}",
            "think(hm) sign(S,anthropic) text(Hi) call0(t,f) args0({}) "
            "end(ok tool_calls 3+0+0>4/0 model=m id=msg_1)"));
    CHECK(answer_reads_as(&plain, "{\"id\":\"x\"}", "end(provider: the answer has no 'content')"));
}

static void later_token_counts_replace_earlier_ones(void)
{
    CHECK(answer_reads_as(&stream,
            START EVENT("message_delta",
                    ",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":30,"
                    "\"cache_read_input_tokens\":101,\"output_tokens\":99}")
                    EVENT("message_stop", ""),
            "end(ok stop 30+101+7>99/0 model=claude-x id=msg_1)"));
}

static void reasons_to_finish_are_known(void)
{
    CHECK(answer_reads_as(&stream, START END("refusal"), "end(ok filtered " TOLD_END));
    CHECK(answer_reads_as(&stream, START END("stop_sequence"), "end(ok stop " TOLD_END));
    CHECK(answer_reads_as(&stream, START END("pause_turn"), "end(ok stop " TOLD_END));
    CHECK(answer_reads_as(
            &stream, START END("model_context_window_exceeded"), "end(ok length " TOLD_END));
}

static void errors_are_reported(void)
{
    CHECK(answer_reads_as(&stream,
            START EVENT("error",
                    ",\"error\":{\"type\":\"overloaded_error\",\"message\":"
                    "\"Overloaded\"}"),
            "end(provider 25+100+7>1/0 model=claude-x id=msg_1 code=overloaded_error retryable: "
            "Overloaded)"));
    answer_case busy = {.kind = &pal_reader_anthropic, .code = 529};
    CHECK(answer_reads_as(&busy,
            "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":"
            "\"Overloaded\"},\"request_id\":\"req_1\"}",
            "end(provider HTTP=529 code=overloaded_error retryable: Overloaded)"));
    answer_case bad = {.kind = &pal_reader_anthropic, .code = 400};
    CHECK(answer_reads_as(&bad,
            "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":"
            "\"prompt is too long: 213462 tokens > 200000 maximum\"}}",
            "end(provider HTTP=400 code=invalid_request_error overflow: prompt is too long: "
            "213462 tokens > 200000 maximum)"));
    answer_case denied = {.kind = &pal_reader_anthropic, .code = 401};
    CHECK(answer_reads_as(&denied,
            "{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",\"message\":"
            "\"invalid x-api-key\"}}",
            "end(provider HTTP=401 code=authentication_error: invalid x-api-key)"));
}

static void a_truncated_stream_is_an_error(void)
{
    CHECK(answer_reads_as(&stream,
            START BLOCK("0", "{\"type\":\"thinking\",\"thinking\":\"a\"}")
                    GROW("0", "{\"type\":\"signature_delta\",\"signature\":\"half\"}"),
            "think(a) end(io 25+100+7>1/0 model=claude-x id=msg_1 retryable: the stream ended in "
            "the middle of the answer)"));
}

static void unknown_events_are_skipped(void)
{
    CHECK(answer_reads_as(&stream,
            START EVENT("something_new", ",\"x\":1") BLOCK("0",
                    "{\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"web\",\"input\":{}}")
                    STOP("0") BLOCK("1", "{\"type\":\"text\",\"text\":\"\"}")
                            GROW("1", "{\"type\":\"citations_delta\",\"citation\":{}}")
                                    GROW("1", "{\"type\":\"text_delta\",\"text\":\"A\"}") STOP("1")
                                            END("end_turn"),
            "text(A) end(ok stop " TOLD_END));
}

static void an_allocation_failure_is_reported(void)
{
    CHECK(answer_starves(&stream,
            START BLOCK("0", "{\"type\":\"thinking\",\"thinking\":\"\\u0041\"}") GROW(
                    "0", "{\"type\":\"signature_delta\",\"signature\":\"S\"}") STOP("0") BLOCK("1",
                    "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{\"a\":1}}")
                    STOP("1") END("tool_use")));
}

int main(void)
{
    RUN(text_arrives_in_pieces);
    RUN(thinking_keeps_its_signature);
    RUN(calls_arrive_in_pieces);
    RUN(a_complete_response_reads_the_same);
    RUN(later_token_counts_replace_earlier_ones);
    RUN(reasons_to_finish_are_known);
    RUN(errors_are_reported);
    RUN(a_truncated_stream_is_an_error);
    RUN(unknown_events_are_skipped);
    RUN(an_allocation_failure_is_reported);
    pal_arena_free(answer_scratch);
    return tap_done();
}
