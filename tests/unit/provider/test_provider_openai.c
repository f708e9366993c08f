/* test_provider_openai.c - responses of chat completions, in the variants of many services. */
#include "support/answer_check.h"

static const answer_case stream = {
        .kind = &pal_reader_openai, .content_type = "text/event-stream; charset=utf-8"};
static const answer_case plain = {.kind = &pal_reader_openai, .content_type = "application/json"};
static const answer_case untold = {.kind = &pal_reader_openai};

/* {"choices":[{"index":0,"delta":DELTA,"finish_reason":null}]} as an event. */
#define DELTA(delta)                                                                               \
    "data: {\"choices\":[{\"index\":0,\"delta\":" delta ",\"finish_reason\":null}]}\n\n"
#define FINISH(reason)                                                                             \
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"" reason "\"}]}\n\n"
#define DONE "data: [DONE]\n\n"

static void text_arrives_in_pieces(void)
{
    CHECK(answer_reads_as(&stream,
            "data: {\"id\":\"chatcmpl-1\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":"
            "{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}}],\"usage\":null}"
            "\n\n" DELTA("{\"content\":\"Hel\"}") DELTA("{\"content\":\"lo \\u00e9 "
                                                        "\\ud83d\\ude00\"}")
                    FINISH("stop") "data: "
                                   "{\"choices\":[],\"usage\":{\"prompt_tokens\":20,\"completion_"
                                   "tokens\":"
                                   "7,"
                                   "\"total_tokens\":27,\"prompt_tokens_details\":{\"cached_"
                                   "tokens\":8},"
                                   "\"completion_tokens_details\":{\"reasoning_tokens\":3}}}"
                                   "\n\n" DONE,
            "text(Hello \xc3\xa9 \xf0\x9f\x98\x80) "
            "end(ok stop 12+8+0>7/3 model=m-1 id=chatcmpl-1)"));
}

static void a_complete_response_reads_the_same(void)
{
    static const char body[] =
            " {\"id\":\"x\",\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"role\":"
            "\"assistant\",\"content\":\"Hi\",\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":"
            "\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":"
            "1}"
            "\"}}]},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":5,"
            "\"completion_tokens\":2}}\n";
    static const char told[] = "think(hm) text(Hi) call0(c1,f) args0({\"a\":1}) "
                               "end(ok tool_calls 5+0+0>2/0 model=m id=x)";
    CHECK(answer_reads_as(&plain, body, told));
    CHECK(answer_reads_as(&untold, body, told));
}

static void a_stream_is_detected_without_its_content_type(void)
{
    CHECK(answer_reads_as(
            &untold, ": hello\n\n" DELTA("{\"content\":\"a\"}") DONE, "text(a) end(ok stop)"));
    CHECK(answer_reads_as(&plain, DELTA("{\"content\":\"a\"}") DONE, "text(a) end(ok stop)"));
}

static void comments_and_line_ends_do_not_matter(void)
{
    CHECK(answer_reads_as(&stream,
            ": OPENROUTER PROCESSING\r\n\r\n: OPENROUTER PROCESSING\r\n\r\nevent: message\r\n"
            "data: {\"choices\":[{\"delta\":\r\ndata: {\"content\":\"a\"}}]}\r\n\r\n"
            "data: [DONE]\r\n\r\n",
            "text(a) end(ok stop)"));
}

static void reasoning_has_many_names(void)
{
    CHECK(answer_reads_as(&stream,
            DELTA("{\"reasoning_content\":\"a\"}") DELTA("{\"reasoning\":\"b\"}")
                    DELTA("{\"reasoning\":\"c\",\"reasoning_content\":\"c\"}") DELTA(
                            "{\"reasoning\":\"d\",\"reasoning_details\":[{\"type\":\"reasoning."
                            "text\","
                            "\"text\":\"d\"}]}") DELTA("{\"content\":\"\",\"reasoning_details\":[{"
                                                       "\"text\":\"e\"},{\"summary\":\"f\"}]}")
                            DELTA("{\"content\":\"g\"}") DONE,
            "think(abcdef) text(g) end(ok stop)"));
}

static void mistral_thinks_in_chunks(void)
{
    CHECK(answer_reads_as(&stream,
            DELTA("{\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\",\"text\":"
                  "\"so\"}]}]}")
                    DELTA("{\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"type\":\"text\","
                          "\"text\":"
                          "\" what\"}],\"closed\":true},{\"type\":\"text\",\"text\":\"A\"}]}")
                            DELTA("{\"content\":\"B\"}") FINISH("model_length") DONE,
            "think(so what) text(AB) end(ok length)"));
}

static void calls_arrive_in_deltas(void)
{
    CHECK(answer_reads_as(&stream,
            DELTA("{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":"
                  "{\"name\":\"f\",\"arguments\":\"\"}}]}")
                    DELTA("{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{"
                          "\\\"a\\\"\"}}]}") DELTA("{\"tool_calls\":[{\"index\":1,\"id\":\"c2\","
                                                   "\"function\":{\"name\":\"g\"}}]}")
                            DELTA("{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}"
                                  "\"}}]}") DELTA("{\"tool_calls\":[{\"index\":1,\"function\":{"
                                                  "\"arguments\":\"{}"
                                                  "\"}}]}") FINISH("tool_calls") DONE,
            "call0(c1,f) args0({\"a\") call1(c2,g) args0(:1}) args1({}) end(ok tool_calls)"));
}

static void calls_without_an_index_are_distinguished(void)
{
    /* Only ids, each repeated. */
    CHECK(answer_reads_as(&stream,
            DELTA("{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}"
                  "}]}") DELTA("{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\","
                               "\"arguments\":\"}\"}}]}")
                    DELTA("{\"tool_calls\":[{\"id\":\"b\",\"function\":{\"name\":\"f\","
                          "\"arguments\":\"{}\"}}]}") DONE,
            "call0(a,f) args0({}) call1(b,f) args1({}) end(ok tool_calls)"));
    /* An id only in the first piece. */
    CHECK(answer_reads_as(&stream,
            DELTA("{\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"f\"}}]}")
                    DELTA("{\"tool_calls\":[{\"function\":{\"arguments\":\"{}\"}}]}") DONE,
            "call0(a,f) args0({}) end(ok tool_calls)"));
    /* Neither, complete calls at once, arguments as an object. */
    CHECK(answer_reads_as(&stream,
            DELTA("{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\": [1]}}},"
                  "{\"function\":{\"name\":\"g\",\"arguments\":{}}}]}") FINISH("stop") DONE,
            "call0(*,f) args0({\"a\": [1]}) call1(*,g) args1({}) end(ok tool_calls)"));
    /* One index for all of them. */
    CHECK(answer_reads_as(&stream,
            DELTA("{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\","
                  "\"arguments\":\"{}\"}}]}")
                    DELTA("{\"tool_calls\":[{\"index\":0,\"id\":\"b\",\"function\":{\"name\":\"g\","
                          "\"arguments\":\"{}\"}}]}") DONE,
            "call0(a,f) args0({}) call1(b,g) args1({}) end(ok tool_calls)"));
    /* Mistral's "null" is not an id. */
    CHECK(answer_reads_as(&stream,
            DELTA("{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\"}}]}")
                    DELTA("{\"tool_calls\":[{\"index\":0,\"id\":\"null\",\"function\":{\"name\":"
                          "\"\","
                          "\"arguments\":\"{}\"}}]}") DONE,
            "call0(a,f) args0({}) end(ok tool_calls)"));
}

static void odd_calls_are_repaired(void)
{
    CHECK(answer_reads_as(&stream,
            DELTA("{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"arguments\":\"{\"}}]"
                  "}") DELTA("{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\","
                             "\"arguments\":\"}\"}}]}") DONE,
            "call0(a,f) args0({}) end(ok tool_calls)"));
    CHECK(answer_reads_as(&stream,
            DELTA("{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\"}}]}")
                    DONE,
            "call0(a,f) args0({}) end(ok tool_calls)"));
    CHECK(answer_reads_as(&stream,
            DELTA("{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"arguments\":\"{}\"}}]"
                  "}") DONE,
            "end(provider: the answer contains a tool call without a name)"));
    CHECK(answer_reads_as(&stream,
            DELTA("{\"function_call\":{\"name\":\"f\",\"arguments\":\"\"}}") DELTA(
                    "{\"function_call\":{\"arguments\":\"{}\"}}") FINISH("function_call") DONE,
            "call0(*,f) args0({}) end(ok tool_calls)"));
    CHECK(answer_reads_as(&stream, DELTA("{\"content\":\"a\"}") FINISH("tool_calls") DONE,
            "text(a) end(ok stop)"));
}

static void reasons_to_finish_are_known(void)
{
    CHECK(answer_reads_as(
            &stream, DELTA("{\"content\":\"a\"}") FINISH("length") DONE, "text(a) end(ok length)"));
    CHECK(answer_reads_as(&stream, FINISH("content_filter") DONE, "end(ok filtered)"));
    CHECK(answer_reads_as(&stream, DELTA("{\"refusal\":\"No.\"}") FINISH("stop") DONE,
            "refusal(No.) end(ok stop)"));
    CHECK(answer_reads_as(
            &stream, DELTA("{\"content\":\"a\"}") FINISH("eos") DONE, "text(a) end(ok stop)"));
}

static void usage_is_counted_once(void)
{
    /* With every piece, cumulative; the last one counts. */
    CHECK(answer_reads_as(&stream,
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":0,"
            "\"completion_tokens\":0}}\n\n"
            "data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}],\"usage\":{\"prompt_tokens\":9,"
            "\"completion_tokens\":1}}\n\n"
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":"
            "{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\n" DONE,
            "text(ab) end(ok stop 9+0+0>2/0)"));
    /* Numbers as strings, and the members that DeepSeek and Groq use for them. */
    CHECK(answer_reads_as(&stream,
            DELTA("{\"content\":\"a\"}") "data: "
                                         "{\"choices\":[],\"usage\":{\"prompt_tokens\":\"9\","
                                         "\"completion_tokens\":2.0,"
                                         "\"prompt_cache_hit_tokens\":4}}\n\n" DONE,
            "text(a) end(ok stop 5+4+0>2/0)"));
    CHECK(answer_reads_as(&stream,
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"x_groq\":{\"usage\":"
            "{\"prompt_tokens\":3,\"completion_tokens\":1}}}\n\n" DONE,
            "end(ok stop 3+0+0>1/0)"));
    CHECK(answer_reads_as(&plain,
            "{\"choices\":[{\"message\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":0,"
            "\"completion_tokens\":0}}",
            "text(a) end(ok stop)"));
    /* More cached tokens than tokens are a mistake of the service. */
    CHECK(answer_reads_as(&plain,
            "{\"choices\":[{\"message\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":3,"
            "\"completion_tokens\":1,\"prompt_tokens_details\":{\"cached_tokens\":100}}}",
            "text(a) end(ok stop 0+3+0>1/0)"));
}

static void a_forwarded_answer_is_only_counted(void)
{
    static const answer_case passing = {
            .kind = &pal_reader_openai_passing, .content_type = "text/event-stream"};
    static const answer_case cut = {.kind = &pal_reader_openai_passing,
            .content_type = "text/event-stream",
            .http = PAL_IO,
            .http_error = "gone"};
    static const answer_case whole = {.kind = &pal_reader_openai_passing};
    static const char counted[] =
            "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}"
            "\r\n\r\n: hm\n\ndata: {\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\n"
            "data: {\"choices\":[],\ndata: \"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4}}"
            "\n\ndata: {\"choices\":[],\"usage\":null}\n\n";
    CHECK(answer_reads_as(&cut, counted, "end(io 9+0+0>4/0 model=m retryable: gone)"));
    CHECK(answer_starves(&passing, counted));
    CHECK(answer_reads_as(&whole,
            "{\"model\":\"m\",\"choices\":[{\"message\":{\"content\":\"a\",\"tool_calls\":[{}]}},"
            "{\"message\":{\"content\":\"b\"}}],\"usage\":{\"prompt_tokens\":9,"
            "\"completion_tokens\":4}}",
            "end(ok stop 9+0+0>4/0 model=m)"));
    CHECK(answer_reads_as(&whole,
            "{\"error\":{\"message\":\"no\"},\"usage\":{\"prompt_tokens\":9}}",
            "end(provider: no)"));
}

static void a_stream_can_end_without_done(void)
{
    CHECK(answer_reads_as(
            &stream, DELTA("{\"content\":\"a\"}") FINISH("stop"), "text(a) end(ok stop)"));
    CHECK(answer_reads_as(
            &stream, DELTA("{\"content\":\"a\"}") "data: [DONE]", "text(a) end(ok stop)"));
    CHECK(answer_reads_as(&stream,
            DELTA("{\"content\":\"a\"}") "data: "
                                         "{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]"
                                         "}",
            "text(a) end(ok stop)"));
    answer_case reset = stream;
    reset.http = PAL_IO;
    reset.http_error = "reset";
    CHECK(answer_reads_as(
            &reset, DELTA("{\"content\":\"a\"}") FINISH("stop"), "text(a) end(ok stop)"));
}

static void a_truncated_stream_is_an_error(void)
{
    CHECK(answer_reads_as(&stream, DELTA("{\"content\":\"a\"}"),
            "text(a) end(io retryable: the stream ended in the middle of the answer)"));
    CHECK(answer_reads_as(&stream, DELTA("{\"content\":\"a\"}") "data: {\"choices\":[{\"del",
            "text(a) end(io retryable: the stream ended in the middle of the answer)"));
    answer_case reset = stream;
    reset.http = PAL_IO;
    reset.http_error = "the connection was reset";
    CHECK(answer_reads_as(&reset, DELTA("{\"content\":\"a\"}"),
            "text(a) end(io retryable: the connection was reset)"));
    reset.http = PAL_TIMEOUT;
    reset.http_error = "nothing came for 120 s";
    CHECK(answer_reads_as(&reset, DELTA("{\"content\":\"a\"}"),
            "text(a) end(timeout retryable: nothing came for 120 s)"));
    CHECK(answer_reads_as(&untold, "", "end(io retryable: the service sent nothing)"));
}

static void errors_in_a_stream_are_reported(void)
{
    CHECK(answer_reads_as(&stream,
            DELTA("{\"content\":\"a\"}") "data: "
                                         "{\"error\":{\"message\":\"Overloaded\",\"type\":\"server_"
                                         "error\"}}\n\n" DELTA("{\"content\":\"b\"}"),
            "text(a) end(provider code=server_error retryable: Overloaded)"));
    CHECK(answer_reads_as(&stream,
            DELTA("{\"content\":\"a\"}") "data: "
                                         "{\"id\":\"gen\",\"error\":{\"code\":502,\"message\":"
                                         "\"Upstream\",\"metadata\":{"
                                         "\"raw\":\"out of "
                                         "memory\"}},\"choices\":[{\"delta\":{\"content\":\"\"},"
                                         "\"finish_reason\":\"error\"}]}\n\n",
            "text(a) end(provider code=502 retryable: Upstream: out of memory)"));
    CHECK(answer_reads_as(&stream, "data: {\"object\":\"error\",\"message\":\"no such model\"}\n\n",
            "end(provider: no such model)"));
    CHECK(answer_reads_as(
            &stream, "event: error\ndata: {\"detail\":\"bad\"}\n\n", "end(provider: bad)"));
    CHECK(answer_reads_as(
            &plain, "{\"error\":\"model 'x' not found\"}", "end(provider: model 'x' not found)"));
}

static void invalid_responses_are_quoted_in_the_error(void)
{
    CHECK(answer_reads_as(&stream, DELTA("{\"content\":\"a\"}") "data: {\"id\": \"broken\n\n",
            "text(a) end(provider: an event of the stream is not a JSON object: '{\"id\": "
            "\"broken')"));
    CHECK(answer_reads_as(&plain, "{\"choices\":[{\"mess",
            "end(provider: the response is not a JSON object: '{\"choices\":[{\"mess')"));
    CHECK(answer_reads_as(&plain, "<html><body>\n<h1>It   works!</h1></body></html>",
            "end(provider: the response is not a JSON object: 'It works!')"));
    CHECK(answer_reads_as(&untold, "Hello, \xff world",
            "end(provider: the response is not an event stream: 'Hello, \xef\xbf\xbd world')"));
    CHECK(answer_reads_as(&plain, "{}", "end(provider: the answer has no 'choices')"));
    CHECK(answer_reads_as(
            &plain, "[1]", "end(provider: the response is not a JSON object: '[1]')"));
    CHECK(answer_reads_as(&stream, "data: 7\n\n",
            "end(provider: an event of the stream is not a JSON object: '7')"));
}

static void invalid_characters_are_replaced(void)
{
    CHECK(answer_reads_as(&stream, DELTA("{\"content\":\"a\xff\xc3z\"}") DONE,
            "text(a\xef\xbf\xbd\xef\xbf\xbdz) end(ok stop)"));
    static const char told[] = "text(a\0b) end(ok stop)";
    answer_log log;
    answer_run(&stream, pal_str_of(DELTA("{\"content\":\"a\\u0000b\"}") DONE), 1, 1, &log);
    CHECK_STR(pal_buf_str(&log.text), pal_str_make(told, sizeof told - 1));
    log_done(&log);
}

static answer_case refused(long code)
{
    return (answer_case){
            .kind = &pal_reader_openai, .code = code, .content_type = "application/json"};
}

static void errors_of_all_shapes_are_read(void)
{
    answer_case bad = refused(400);
    CHECK(answer_reads_as(&bad,
            "{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens.\","
            "\"type\":\"invalid_request_error\",\"code\":\"context_length_exceeded\"}}",
            "end(provider HTTP=400 code=context_length_exceeded overflow: This model's maximum "
            "context length is 8192 tokens.)"));
    CHECK(answer_reads_as(&bad, "{\"error\":{\"message\":\"no\",\"type\":\"t\",\"code\":null}}",
            "end(provider HTTP=400 code=t: no)"));
    CHECK(answer_reads_as(&bad,
            "{\"object\":\"error\",\"message\":\"no\",\"type\":\"t\",\"code\":\"3\"}",
            "end(provider HTTP=400 code=3: no)"));
    CHECK(answer_reads_as(&bad,
            "{\"object\":\"error\",\"message\":{\"detail\":[{\"type\":\"extra\",\"loc\":[\"body\","
            "\"x\",0],\"msg\":\"not permitted\"}]}}",
            "end(provider HTTP=400: body.x.0: not permitted)"));
    CHECK(answer_reads_as(&bad, "{\"detail\":\"Not Found\"}", "end(provider HTTP=400: Not Found)"));
    CHECK(answer_reads_as(&bad, "[{\"error\":{\"code\":400,\"message\":\"m\",\"status\":\"S\"}}]",
            "end(provider HTTP=400 code=400: m)"));
    CHECK(answer_reads_as(&bad, "{\"errors\":[{\"message\":\"m\"}]}", "end(provider HTTP=400: m)"));
    CHECK(answer_reads_as(&bad, "{\"what\":1}", "end(provider HTTP=400: {\"what\":1})"));
    CHECK(answer_reads_as(&bad, "", "end(provider HTTP=400: HTTP 400)"));
    CHECK(answer_reads_as(&bad, "{\"error\":{\"message\":\"a\xff z\"}}",
            "end(provider HTTP=400: a\xef\xbf\xbd z)"));
}

static void errors_are_classified(void)
{
    answer_case busy = refused(429);
    busy.retry_after = "7";
    CHECK(answer_reads_as(&busy, "{\"error\":{\"message\":\"slow down\"}}",
            "end(provider HTTP=429 retryable after=7000: slow down)"));
    answer_case poor = refused(429);
    CHECK(answer_reads_as(&poor,
            "{\"error\":{\"message\":\"no money\",\"code\":\"insufficient_quota\"}}",
            "end(provider HTTP=429 code=insufficient_quota: no money)"));
    answer_case broken = refused(502);
    broken.content_type = "text/html";
    CHECK(answer_reads_as(&broken, "<html><head><title>502 Bad Gateway</title></head></html>",
            "end(provider HTTP=502 retryable: HTTP 502: 502 Bad Gateway)"));
    answer_case large = refused(413);
    CHECK(answer_reads_as(
            &large, "<h1>Too large</h1>", "end(provider HTTP=413 overflow: HTTP 413: Too large)"));
    answer_case moved = refused(302);
    CHECK(answer_reads_as(&moved, "", "end(provider HTTP=302: HTTP 302)"));
    /* The body broke off, but the code says enough. */
    answer_case cut = refused(503);
    cut.http = PAL_IO;
    cut.http_error = "reset";
    CHECK(answer_reads_as(
            &cut, "{\"error\":", "end(provider HTTP=503 retryable: HTTP 503: {\"error\":)"));
}

static void long_error_texts_are_cut(void)
{
    pal_buf body;
    answer_log log;
    answer_case bad = refused(500);
    pal_buf_init(&body, 1 << 20);
    for (int i = 0; i < 30000; i++)
        pal_buf_append_text(&body, "\xe2\x82\xac ");
    answer_run(&bad, pal_buf_str(&body), 4096, 4096, &log);
    CHECK_THAT(log.text.len, <, 400);
    CHECK(log.end.is_retryable);
    log_done(&log);
    pal_buf_done(&body);
}

static void the_size_of_events_is_limited(void)
{
    pal_buf event;
    answer_log log;
    pal_buf_init(&event, 64u << 20);
    pal_buf_append_text(&event, "data: {\"choices\":[{\"delta\":{\"content\":\"");
    size_t room = 17u << 20;
    memset(pal_buf_reserve(&event, room), 'x', room);
    pal_buf_commit(&event, room);
    answer_run(&stream, pal_buf_str(&event), 65536, 65536, &log);
    CHECK_STATUS(log.end.status, PAL_PROVIDER);
    CHECK(!log.end.is_retryable);
    CHECK_STR(
            pal_buf_str(&log.text), "end(provider: an event of the stream exceeds 16777216 bytes)");
    log_done(&log);
    pal_buf_done(&event);
}

/* `begin`, then that many pieces, then `end`. */
static void tells_of_many(const answer_case *in, const char *begin, const char *piece, size_t len,
        const char *end, const char *expected)
{
    pal_buf body;
    answer_log log;
    pal_buf_init(&body, 64u << 20);
    pal_buf_append_text(&body, begin);
    for (size_t i = 0; i < len; i++)
        pal_buf_append_text(&body, piece);
    pal_buf_append_text(&body, end);
    CHECK_STATUS(body.failure, PAL_OK);
    answer_run(in, pal_buf_str(&body), 65536, 65536, &log);
    CHECK_CONTAINS(pal_buf_str(&log.text), expected);
    log_done(&log);
    pal_buf_done(&body);
}

static void texts_that_would_block_the_loop_are_refused(void)
{
    static const answer_case passing = {
            .kind = &pal_reader_openai_passing, .content_type = "text/event-stream"};
    tells_of_many(&stream, "data: {\"pad\":[0", ",1", 600000, "]}\n\n" DONE,
            "end(provider: the response is nested too deeply, or has more than 500000 JSON "
            "values)");
    tells_of_many(&plain, "{\"pad\":[0", ",1", 600000, "]}",
            "end(provider: the response is nested too deeply, or has more than 500000 JSON "
            "values)");
    tells_of_many(&stream, "data: {\"choices\":[{\"delta\":{\"content\":\"", "\\n", 3300000,
            "\"}}]}\n\n" DONE,
            "end(provider: the texts of one event or response exceed 6291456 bytes)");
    /* Many short texts cost as much as a long one. */
    tells_of_many(&plain, "{\"choices\":[{\"message\":{\"content\":[{\"text\":\"\"}",
            ",{\"text\":\"012345678901234567890123456789012345678901234567890123456789\"}", 110000, "]}}]}",
            "end(provider: the texts of one event or response exceed 6291456 bytes)");
    tells_of_many(&plain, "{", " ", 17u << 20, "}",
            "end(provider: the response exceeds 16777216 bytes)");
    /* A forwarded text is counted by its length. */
    tells_of_many(&passing, "data: {\"pad\":[0", ",1", 600000,
            "]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,"
            "\"completion_tokens\":4}}\n\n" DONE, "end(ok stop 9+0+0>4/0)");
}

static void the_length_of_an_answer_is_limited(void)
{
    char piece[65536] = "data: {\"choices\":[{\"delta\":{\"content\":\"";
    size_t len = strlen(piece);
    memset(piece + len, 'x', 60000);
    memcpy(piece + len + 60000, "\"}}]}\n\n", sizeof "\"}}]}\n\n");
    tells_of_many(&stream, "", piece, 150, DONE,
            "end(provider: the answer exceeds 8388608 bytes)");
}

static void only_the_first_choice_is_read(void)
{
    CHECK(answer_reads_as(&stream,
            "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}},{\"index\":0,"
            "\"delta\":{\"content\":\"a\"}}]}\n\n" DONE,
            "text(a) end(ok stop)"));
    CHECK(answer_reads_as(&stream,
            "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n" DELTA("{\"content\":\"a\"}")
                    DONE "data: behind the end\n\n",
            "text(a) end(ok stop)"));
}

static void an_allocation_failure_is_reported(void)
{
    CHECK(answer_starves(&stream,
            DELTA("{\"content\":\"a\\u00e9\",\"reasoning\":\"b\\n\"}")
                    DELTA("{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"arguments\":"
                          "\"{\"}}]}") DELTA("{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":"
                                             "\"f\",\"arguments\":\"}\"}},"
                                             "{\"function\":{\"name\":\"g\\u0041\"}}]}")
                            DELTA("{\"content\":\"\xff\"}") FINISH("stop") DONE));
    CHECK(answer_starves(&plain, "{\"choices\":[{\"message\":{\"content\":\"\\u0041\"}}]}"));
    CHECK(answer_starves(&plain, "<html>no</html>"));
    answer_case bad = refused(429);
    CHECK(answer_starves(&bad, "{\"error\":{\"message\":\"a\\u0041\",\"code\":\"c\"}}"));
}

int main(void)
{
    RUN(text_arrives_in_pieces);
    RUN(a_complete_response_reads_the_same);
    RUN(a_stream_is_detected_without_its_content_type);
    RUN(comments_and_line_ends_do_not_matter);
    RUN(reasoning_has_many_names);
    RUN(mistral_thinks_in_chunks);
    RUN(calls_arrive_in_deltas);
    RUN(calls_without_an_index_are_distinguished);
    RUN(odd_calls_are_repaired);
    RUN(reasons_to_finish_are_known);
    RUN(usage_is_counted_once);
    RUN(a_forwarded_answer_is_only_counted);
    RUN(a_stream_can_end_without_done);
    RUN(a_truncated_stream_is_an_error);
    RUN(errors_in_a_stream_are_reported);
    RUN(invalid_responses_are_quoted_in_the_error);
    RUN(invalid_characters_are_replaced);
    RUN(errors_of_all_shapes_are_read);
    RUN(errors_are_classified);
    RUN(long_error_texts_are_cut);
    RUN(the_size_of_events_is_limited);
    RUN(texts_that_would_block_the_loop_are_refused);
    RUN(the_length_of_an_answer_is_limited);
    RUN(only_the_first_choice_is_read);
    RUN(an_allocation_failure_is_reported);
    pal_arena_free(answer_scratch);
    return tap_done();
}
