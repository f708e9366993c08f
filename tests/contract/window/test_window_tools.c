/* test_window_tools.c - the built-in tools: text that was cut from an output can be read, and
 * compacted messages can be found. */
#include "contract_window.h"

static const char *run_tool(pal_id session, const char *name, const char *arguments)
{
    pal_str text = {0};

    OK(pal_builtin_run(
            test.store, no_tenant(), session, S(name), S(arguments), test.arena, &text, &test.err));
    return text.data;
}

/* Makes 3,000 lines "line N", of which 2,000 are kept. Returns the handle, in the arena. */
static const char *spilled(pal_id session)
{
    size_t size = 3000 * 16, len = 0;
    char *text = pal_arena_alloc(test.arena, size);
    pal_part part = {.kind = PAL_PART_TOOL_RESULT, .call_id = S("c1"), .name = S("read")};
    pal_message message = {.role = PAL_ROLE_TOOL, .parts = &part, .parts_len = 1};
    pal_message_page loaded = {0};
    uint32_t count = 0;

    for (int i = 1; i <= 3000; i++)
        len += (size_t)snprintf(text + len, size - len, "line %d\n", i);
    part.text = pal_str_make(text, len);
    say_as(session, PAL_ROLE_USER, "Read it.", 10);
    say_call(session, "c1", 10);
    OK(pal_context_spill(&message, test.arena, &count, &test.err));
    CHECK_EQ(count, 1);
    CHECK_EQ(part.data.len, len);
    CHECK_THAT(part.text.len, <, len);
    OK(pal_store_append(test.store, no_tenant(), session, &message, 1, PAL_SEQ_ANY, &test.err));
    OK(pal_store_load(test.store, no_tenant(), session, NULL, test.arena, &loaded, &test.err));
    CHECK_EQ(loaded.items[2].parts[0].blob.len, PAL_BLOB_NAME_SIZE - 1);
    return pal_arena_copy(test.arena, loaded.items[2].parts[0].blob).data;
}

static const char *with_handle(const char *handle, const char *rest)
{
    char text[256];

    snprintf(text, sizeof text, "{\"handle\":\"%s\"%s}", handle, rest);
    return pal_arena_copy(test.arena, S(text)).data;
}

static void long_outputs_are_read_back(void)
{
    pal_id session = new_session();
    const char *handle = spilled(session), *text;
    pal_message_page loaded = {0};

    OK(pal_store_load(test.store, no_tenant(), session, NULL, test.arena, &loaded, &test.err));
    CHECK_CONTAINS(pal_arena_copy(test.arena, loaded.items[2].parts[0].text).data, handle);
    text = run_tool(session, "read_output",
            with_handle(handle, ",\"first_line\":1500,\"lines\":2"));
    CHECK_STR(text, "1500: line 1500\n1501: line 1501\n[1499 lines follow.]");
    text = run_tool(session, "read_output", with_handle(handle, ",\"first_line\":3000"));
    CHECK_STR(text, "3000: line 3000\n");
    text = run_tool(session, "read_output", with_handle(handle, ",\"first_line\":0,\"lines\":0"));
    CHECK_STR(text, "1: line 1\n[2999 lines follow.]");
    text = run_tool(session, "read_output", with_handle(handle, ",\"first_line\":4000"));
    CHECK_STR(text, "[There is no line 4000: the output has 3000 lines.]");
}

static void long_outputs_are_searched(void)
{
    pal_id session = new_session();
    const char *handle = spilled(session), *text;
    pal_str out;

    text = run_tool(
            session, "search_output", with_handle(handle, ",\"text\":\"LINE 17\",\"context\":0,\"limit\":2"));
    CHECK_STR(text,
            "17: line 17\n170: line 170\n"
            "[111 of 3000 lines contain the text; the first 2 are shown.]");
    text = run_tool(session, "search_output",
            with_handle(handle, ",\"text\":\"line 1500\",\"context\":1"));
    CHECK_STR(text,
            "1499: line 1499\n1500: line 1500\n1501: line 1501\n"
            "[1 of 3000 lines contain the text.]");
    GIVES(PAL_INVALID,
            pal_builtin_run(test.store, no_tenant(), session, S("search_output"),
                    S(with_handle(handle, "")), test.arena, &out, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_builtin_run(test.store, S("other"), session, S("search_output"),
                    S(with_handle(handle, ",\"text\":\"x\"")), test.arena, &out, &test.err));
    GIVES(PAL_INVALID,
            pal_builtin_run(test.store, no_tenant(), session, S("read_output"),
                    S("{\"handle\":\"x\"}"), test.arena, &out, &test.err));
    GIVES(PAL_INVALID,
            pal_builtin_run(test.store, no_tenant(), session, S("read_output"), S("{"), test.arena,
                    &out, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_builtin_run(test.store, no_tenant(), session, S("nothing"), S("{}"), test.arena,
                    &out, &test.err));
}

static void recall_finds_hidden_messages(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We talked."};
    const char *text;

    say_as(session, PAL_ROLE_USER, "The password is swordfish.", 300);
    say_as(session, PAL_ROLE_ASSISTANT, "Noted.", 300);
    say_call(session, "c1", 300);
    say_result(session, "c1", "swordfish are large; 旗魚很大", 300);
    say_turns(session, 8, 300);
    say_as(session, PAL_ROLE_USER, "Which swordfish?", 30);
    CHECK_THAT(compact(&window, &s).seq, >, 4);
    text = run_tool(session, "recall", "{\"text\":\"swordfish\"}");
    /* The call is shown with its result; visible messages are not shown. */
    CHECK_CONTAINS(text, "The password is swordfish.");
    CHECK_CONTAINS(text, "called read: {}");
    CHECK_CONTAINS(text, "--- message 3, assistant");
    CHECK_LACKS(text, "Which swordfish?");
    CHECK_CONTAINS(run_tool(session, "recall", "{\"text\":\"很大\"}"), "旗魚很大");
    CHECK_STR(run_tool(session, "recall", "{\"text\":\"tuna\"}"), "[Nothing was found.]");
    /* Only on this branch. */
    pal_id fork = fork_at(session, 2);
    CHECK_LACKS(run_tool(fork, "recall", "{\"text\":\"swordfish\"}"), "large");
    pal_str out;
    GIVES(PAL_INVALID,
            pal_builtin_run(test.store, no_tenant(), session, S("recall"), S("{}"), test.arena,
                    &out, &test.err));
}

static void the_output_of_a_tool_is_limited(void)
{
    pal_id session = new_session();
    size_t size = 3000000;
    char *text = pal_arena_alloc(test.arena, size + 1), name[PAL_BLOB_NAME_SIZE];
    const char *answer;

    memset(text, 'x', size);
    for (size_t i = 1999; i < size; i += 2000)
        text[i] = '\n';
    OK(pal_store_blob_put(
            test.store, no_tenant(), S("text/plain"), pal_str_make(text, size), name, &test.err));
    answer = run_tool(session, "read_output", with_handle(name, ",\"lines\":1000"));
    CHECK_THAT(strlen(answer), <=, PAL_SPILL_BYTES_MAX);
    CHECK_THAT(strlen(answer), >, 40000);
    answer = run_tool(session, "search_output", with_handle(name, ",\"text\":\"xx\",\"limit\":100"));
    CHECK_THAT(strlen(answer), <=, PAL_SPILL_BYTES_MAX);
    CHECK_CONTAINS(answer, "[1500 of 1500 lines contain the text; the first 2");
    memset(text, 'y', size);
    OK(pal_store_blob_put(
            test.store, no_tenant(), S("text/plain"), pal_str_make(text, size), name, &test.err));
    answer = run_tool(session, "read_output", with_handle(name, ""));
    CHECK_THAT(strlen(answer), <, 2200);
    CHECK_CONTAINS(answer, "[... 2998000 bytes more: first_line 1,");
    answer = run_tool(session, "read_output", with_handle(name, ",\"lines\":1"));
    CHECK_THAT(strlen(answer), <=, PAL_SPILL_BYTES_MAX);
    CHECK_THAT(strlen(answer), >, 45000);
}

/* JSON often has only one line. */
static void a_long_line_is_read_to_its_end(void)
{
    pal_id session = new_session();
    size_t size = 9000, read = 0;
    char *text = pal_arena_alloc(test.arena, size + 1), name[PAL_BLOB_NAME_SIZE], rest[64];
    const char *answer;

    for (size_t i = 0; i < size; i += 3)
        memcpy(text + i, "ä.", 3);
    memcpy(text + 6000, "Needle", 6);
    OK(pal_store_blob_put(
            test.store, no_tenant(), S("text/plain"), pal_str_make(text, size), name, &test.err));
    for (int i = 0; i < 5 && read < size; i++) {
        size_t more = 0;

        snprintf(rest, sizeof rest, ",\"first_byte\":%zu", read + 1);
        answer = run_tool(session, "read_output", with_handle(name, rest));
        answer = strstr(answer, ": ") + 2;
        more = strcspn(answer, "[\n");
        more -= answer[more] == '['; /* the space before it */
        if (CHECK_THAT(more, >, 0))
            CHECK_BYTES(answer, text + read, more);
        read += more;
    }
    CHECK_EQ(read, size);
    answer = run_tool(session, "read_output", with_handle(name, ",\"lines\":1"));
    CHECK_EQ(strlen(answer), size + 4);
    answer = run_tool(session, "read_output", with_handle(name, ",\"first_byte\":99999"));
    CHECK_STR(answer, "1, from byte 9001: \n");
    answer = run_tool(session, "search_output", with_handle(name, ",\"text\":\"needle\""));
    CHECK_BEGINS(answer, "1, from byte 5800: ");
    CHECK_CONTAINS(answer, "Needle");
    CHECK_CONTAINS(answer, "first_byte 7800]");
    CHECK_CONTAINS(answer, "[1 of 1 lines contain the text.]");
}

static void recall_finds_messages_that_were_pruned_since(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We talked."};
    pal_part inner = {.kind = PAL_PART_TEXT, .text = S("a marlin")};
    pal_part part = {.kind = PAL_PART_TOOL_RESULT,
            .call_id = S("c1"),
            .parts = &inner,
            .parts_len = 1};
    pal_message result = {.role = PAL_ROLE_TOOL, .parts = &part, .parts_len = 1};
    pal_mark prune = {.kind = PAL_MARK_PRUNE};
    char body[64];

    say_turns(session, 10, 300);
    CHECK_THAT(compact(&window, &s).number, >, 0);
    say_call(session, "c1", 10);
    OK(pal_store_append(test.store, no_tenant(), session, &result, 1, PAL_SEQ_ANY, &test.err));
    say_turns(session, 1, 10);
    CHECK_CONTAINS(run_tool(session, "recall", "{\"text\":\"marlin\"}"), "[Nothing");
    snprintf(body, sizeof body, "{\"pruned\":[[%llu,0]]}", (unsigned long long)result.seq);
    prune.seq = result.seq;
    prune.body = S(body);
    OK(pal_store_mark(test.store, no_tenant(), session, &prune, &test.err));
    CHECK_CONTAINS(run_tool(session, "recall", "{\"text\":\"marlin\"}"), "a marlin");
}

/* A long text with a needle far from its beginning. The same words also occur elsewhere. */
static const char *haystack(const char *needle)
{
    size_t size = 40000, len = 0;
    char *text = pal_arena_alloc(test.arena, size);

    for (int i = 0; len + 200 < size; i++) {
        len += (size_t)snprintf(text + len, size - len, "The harbor of town %d has boats. ", i);
        if (len > 20000 && needle) {
            len += (size_t)snprintf(text + len, size - len, "%s ", needle);
            needle = NULL;
        }
        if (i == 3)
            len += (size_t)snprintf(text + len, size - len, "A code is a text. ");
    }
    return text;
}

static void recall_shows_the_place(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We talked."};
    const char *text;

    say_as(session, PAL_ROLE_USER, haystack("The code of the harbor is 4711-q."), 300);
    say_as(session, PAL_ROLE_ASSISTANT, haystack("港口的代碼是四七一一"), 300);
    say_turns(session, 10, 300);
    CHECK_THAT(compact(&window, &s).seq, >, 2);
    text = run_tool(session, "recall", "{\"text\":\"harbor code\"}");
    CHECK_CONTAINS(text, "The code of the harbor is 4711-q.");
    CHECK_THAT(strlen(text), <, 8000);
    CHECK_CONTAINS(text, "[...] ");
    text = run_tool(session, "recall", "{\"text\":\"代碼\"}");
    CHECK_CONTAINS(text, "港口的代碼是四七一一");
}

static void recall_answers_questions(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We talked."};
    const char *text;

    say_as(session, PAL_ROLE_USER, "Shall I tell you about the boats?", 300);
    say_as(session, PAL_ROLE_USER, haystack("My brother repaired two boats in Lisbon."), 300);
    say_as(session, PAL_ROLE_ASSISTANT, "Both are blue.", 300);
    say_turns(session, 10, 300);
    CHECK_THAT(compact(&window, &s).seq, >, 3);
    text = run_tool(session, "recall", "{\"text\":\"Which boat was he repairing?\"}");
    CHECK_CONTAINS(text, "My brother repaired two boats in Lisbon.");
    CHECK_CONTAINS(text, "(before it: message 1, user: Shall I tell you about the boats?)");
    CHECK_CONTAINS(text, "(after it: message 3, assistant: Both are blue.)");
    CHECK_THAT(strlen(text), <, 4000);
    CHECK_STR(run_tool(session, "recall", "{\"text\":\"\\\"boat was\\\"\"}"), "[Nothing was found.]");
    CHECK_CONTAINS(run_tool(session, "recall", "{\"text\":\"repair* boats\"}"), "in Lisbon.");
}

/* A sliding window hides everything before its beginning, and nothing after it. */
static void recall_leaves_out_visible_messages(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_message answer = pal_message_text(test.arena, PAL_ROLE_ASSISTANT, S("Tuna?"));
    pal_plan plan;
    const char *text;

    window.settings.strategy = PAL_STRATEGY_SLIDING_WINDOW;
    say_as(session, PAL_ROLE_USER, "An old tuna.", 300);
    say_as(session, PAL_ROLE_USER, "A pinned tuna.", 300);
    pin(session, 2);
    say_turns(session, 20, 300);
    say_as(session, PAL_ROLE_USER, "A new tuna.", 300);
    plan = plan_of(&window);
    CHECK_THAT(plan.first_seq, >, 3);
    OK(pal_plan_sent(&plan, test.arena, &answer.sent, &test.err));
    OK(pal_store_append(test.store, no_tenant(), session, &answer, 1, PAL_SEQ_ANY, &test.err));
    text = run_tool(session, "recall", "{\"text\":\"tuna\"}");
    CHECK_CONTAINS(text, "An old tuna.");
    CHECK_LACKS(text, "A new tuna.");
    CHECK_LACKS(text, "A pinned tuna.");
    CHECK_LACKS(text, "Tuna?");
}

void window_tools(void)
{
    RUN(long_outputs_are_read_back);
    RUN(long_outputs_are_searched);
    RUN(recall_finds_hidden_messages);
    RUN(recall_finds_messages_that_were_pruned_since);
    RUN(recall_shows_the_place);
    RUN(recall_answers_questions);
    RUN(recall_leaves_out_visible_messages);
    RUN(the_output_of_a_tool_is_limited);
    RUN(a_long_line_is_read_to_its_end);
}
