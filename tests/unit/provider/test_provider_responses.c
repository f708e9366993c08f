/* test_provider_responses.c - answers of OpenAI's Responses, and requests for them. */
#include "provider/provider_reader.h"
#include "support/answer_check.h"

static const answer_case stream = {
        .kind = &pal_reader_responses, .content_type = "text/event-stream"};
static const answer_case whole = {.kind = &pal_reader_responses};

#define EVENT(type, members)                                                                       \
    "event: " type "\ndata: {\"type\":\"" type "\"" members "}\n\n"
#define USAGE                                                                                      \
    "\"usage\":{\"input_tokens\":9,\"input_tokens_details\":{\"cached_tokens\":4},"                 \
    "\"output_tokens\":3}"
#define RESPONSE(status, output)                                                                   \
    "{\"id\":\"r\",\"model\":\"m\",\"status\":\"" status "\",\"output\":" output "," USAGE "}"
#define START EVENT("response.created", ",\"response\":{\"id\":\"r\",\"model\":\"m\"}")
#define END(output)                                                                                \
    EVENT("response.completed", ",\"response\":" RESPONSE("completed", output))
#define ADDED(index, item)                                                                         \
    EVENT("response.output_item.added", ",\"output_index\":" index ",\"item\":" item)
#define DONE(index, item)                                                                          \
    EVENT("response.output_item.done", ",\"output_index\":" index ",\"item\":" item)
#define DELTA(type, index, delta) EVENT(type, ",\"output_index\":" index ",\"delta\":\"" delta "\"")

#define REASONING                                                                                  \
    "{\"type\":\"reasoning\",\"summary\":[{\"text\":\"Hm\"}],\"encrypted_content\":\"x\"}"
#define SEARCH "{\"type\":\"web_search_call\",\"id\":\"ws\"}"
#define CALL                                                                                       \
    "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"}"
#define CUSTOM                                                                                     \
    "{\"type\":\"custom_tool_call\",\"call_id\":\"d\",\"name\":\"g\",\"input\":\"a\\n\"}"
#define MESSAGE                                                                                    \
    "{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hi\"},"                \
    "{\"type\":\"refusal\",\"refusal\":\"No\"}]}"
#define ITEMS "[" REASONING "," SEARCH "," CALL "," CUSTOM "," MESSAGE "]"
#define TOLD_END "end(ok tool_calls 5+4+0>3/0 model=m id=r)"
#define BEGUN "progress(response.output_item.added) "
#define SEARCHING(index)                                                                           \
    EVENT("response.web_search_call.searching", ",\"output_index\":" index)
#define TOLD_SEARCHING "progress(response.web_search_call.searching) "
#define TOLD TOLD_WITH("")
#define TOLD_WITH(progress)                                                                        \
    "summary(Hm) item1(" REASONING ") " progress "item1(" SEARCH ") call0(c,f) args0({}) item1(" CALL          \
    ") call1(d,g) args1({\"input\":\"a\\n\"}) item1(" CUSTOM ") text(Hi) refusal(No) item2(" MESSAGE \
    ") " TOLD_END

static void items_and_their_deltas_are_reported(void)
{
    CHECK(answer_reads_as(&stream,
            START DELTA("response.reasoning_summary_text.delta", "0", "Hm") DONE("0", REASONING)
                    ADDED("1", SEARCH) SEARCHING("1") DONE("1", SEARCH) ADDED("2", CALL)
                            DELTA("response.function_call_arguments.delta", "2", "{")
                                    DELTA("response.function_call_arguments.delta", "2", "}")
                                            DONE("2", CALL) ADDED("3", CUSTOM)
                                                    DELTA("response.custom_tool_call_input.delta",
                                                            "3", "a") DONE("3", CUSTOM)
                    DELTA("response.output_text.delta", "4", "Hi")
                            DELTA("response.refusal.delta", "4", "No") DONE("4", MESSAGE)
                                    END(ITEMS),
            TOLD_WITH(BEGUN TOLD_SEARCHING)));
}

#define FILES "{\"type\":\"file_search_call\",\"id\":\"fs\"}"
#define TEXT "{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hi\"}]}"
#define HI DELTA("response.output_text.delta", "2", "Hi")
#define TOLD_STOP "end(ok stop 5+4+0>3/0 model=m id=r)"
#define TOLD_ALL                                                                                   \
    BEGUN TOLD_SEARCHING "item1(" SEARCH ") " BEGUN "item1(" FILES ") text(Hi) item1(" TEXT        \
                         ") " TOLD_STOP

/* The parts of a message are numbered by the ends of its items. */
static void events_wait_for_the_end_of_an_open_item(void)
{
    CHECK(answer_reads_as(&stream,
            START ADDED("0", SEARCH) ADDED("1", FILES) ADDED("2", TEXT) HI SEARCHING("0")
                    DONE("2", TEXT) DONE("1", FILES) DONE("0", SEARCH) END("[]"),
            BEGUN TOLD_SEARCHING "item1(" SEARCH ") " BEGUN "item1(" FILES ") text(Hi) item1(" TEXT
                                 ") " TOLD_STOP));
    CHECK(answer_reads_as(&stream,
            START ADDED("0", SEARCH) ADDED("1", FILES) SEARCHING("0") DONE("0", SEARCH) HI
                    DONE("1", FILES) DONE("2", TEXT) END("[]"),
            TOLD_ALL));
}

static void an_item_that_the_service_does_not_end_is_kept(void)
{
    CHECK(answer_reads_as(&stream,
            START ADDED("0", SEARCH) SEARCHING("0") ADDED("1", FILES) HI DONE("2", TEXT)
                    END("[]"),
            TOLD_ALL));
    CHECK(answer_reads_as(&stream,
            START ADDED("0", "{\"type\":\"web_search_call\"}") SEARCHING("0")
                    END("[" SEARCH "," FILES "," TEXT "]"),
            BEGUN TOLD_SEARCHING "item1(" SEARCH ") item1(" FILES ") text(Hi) item1(" TEXT
                                 ") " TOLD_STOP));
}

static void an_item_without_deltas_reports_its_texts(void)
{
    CHECK(answer_reads_as(&stream,
            START DONE("0", REASONING) DONE("1", SEARCH) DONE("2", CALL) DONE("3", CUSTOM)
                    DONE("4", MESSAGE) END("[]"),
            TOLD));
    CHECK(answer_reads_as(&stream, START END(ITEMS), TOLD));
    CHECK(answer_reads_as(&whole, RESPONSE("completed", ITEMS), TOLD));
}

static void an_incomplete_answer_says_why(void)
{
#define CUT(details)                                                                               \
    START DELTA("response.output_text.delta", "0", "a")                                            \
            EVENT("response.incomplete",                                                           \
                    ",\"response\":{\"status\":\"incomplete\",\"incomplete_details\":" details "}")
    CHECK(answer_reads_as(&stream, CUT("null"), "text(a) end(ok length model=m id=r)"));
    CHECK(answer_reads_as(&stream, CUT("{\"reason\":\"content_filter\"}"),
            "text(a) end(ok filtered model=m id=r)"));
}

static void errors_are_reported(void)
{
    CHECK(answer_reads_as(&stream,
            START EVENT("response.failed",
                    ",\"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"oops\"}}"),
            "end(provider model=m id=r code=server_error retryable: oops)"));
    CHECK(answer_reads_as(&stream,
            START EVENT("error", ",\"code\":\"context_length_exceeded\",\"message\":\"too long\""),
            "end(provider model=m id=r code=context_length_exceeded overflow: too long)"));
}

static void an_allocation_failure_is_reported(void)
{
    CHECK(answer_starves(&stream,
            START DONE("0", REASONING) DONE("1", SEARCH) DONE("2", CALL) DONE("3", CUSTOM)
                    DONE("4", MESSAGE) END(ITEMS)));
    CHECK(answer_starves(&stream,
            START ADDED("0", SEARCH) ADDED("1", FILES) SEARCHING("0") HI DONE("0", SEARCH)
                    DONE("2", TEXT) END("[]")));
}

int main(void)
{
    RUN(items_and_their_deltas_are_reported);
    RUN(events_wait_for_the_end_of_an_open_item);
    RUN(an_item_that_the_service_does_not_end_is_kept);
    RUN(an_item_without_deltas_reports_its_texts);
    RUN(an_incomplete_answer_says_why);
    RUN(errors_are_reported);
    RUN(an_allocation_failure_is_reported);
    pal_arena_free(answer_scratch);
    return tap_done();
}
