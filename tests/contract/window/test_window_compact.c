/* test_window_compact.c - compactions by a scripted model: its requests, what is kept of its
 * answers, and how a compaction is reverted. */
#include "base/memory.h"
#include "contract_window.h"

/* ---- The script ---- */

static const pal_message *copy_messages(const pal_summary_request *request)
{
    pal_message *copy = pal_arena_array(test.arena, request->messages_len, sizeof *copy);

    memcpy(copy, request->messages, request->messages_len * sizeof *copy);
    return copy;
}

pal_status script_run(const pal_summary_request *request, pal_arena *answers,
        pal_summary_answer *out_answer, void *user, pal_error *error)
{
    script *s = user;

    s->calls++;
    s->request = *request;
    s->request.messages = copy_messages(request);
    if (!s->answer)
        return pal_error_set(error, PAL_PROVIDER, "the model is asleep");
    out_answer->text = pal_arena_copy(answers, S(s->answer));
    out_answer->model = request->model;
    if (s->cost_input) {
        out_answer->has_usage = true;
        out_answer->usage = (pal_usage){.input = s->cost_input, .output = 7};
        out_answer->cost_micros = 12;
        out_answer->provider = S("script");
    }
    return PAL_OK;
}

pal_compaction_result compact(const pal_window *window, script *s)
{
    pal_compaction_request compaction = {.summarize = script_run, .user = s, .reason = S("manual")};
    pal_compaction_result compacted = {0};

    OK(pal_window_compact(test.store, window, &compaction, test.arena, &compacted, &test.err));
    return compacted;
}

static bool has_text(const pal_message *message, const char *text)
{
    for (size_t i = 0; i < message->parts_len; i++)
        if (pal_str_is(message->parts[i].text, text))
            return true;
    return false;
}

bool asks_with(const script *s, const char *text)
{
    for (size_t i = 0; i < s->request.messages_len; i++)
        if (has_text(&s->request.messages[i], text))
            return true;
    return false;
}

/* ---- What is asked, and what is kept ---- */

static bool same_message(const pal_message *a, const pal_message *b)
{
    return a->role == b->role && a->seq == b->seq && a->parts_len == b->parts_len &&
            pal_str_equal(a->parts[0].text, b->parts[0].text);
}

static void the_question_follows_the_prefix_of_the_conversation(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "  We counted to ten.\n"};
    pal_tool tool = {.name = S("read")};
    pal_message *before;
    size_t len;
    pal_plan plan;
    pal_compaction_result made;

    window.system = S("Be brief.");
    window.tools = &tool;
    window.tools_len = 1;
    window.model = S("m1");
    say_turns(session, 14, 300);
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_COMPACT);
    OK(pal_plan_messages(&plan, test.arena, &before, &len, &test.err));
    made = compact(&window, &s);
    CHECK_EQ(made.number, 1);
    CHECK(!made.is_fallback);
    CHECK_EQ(made.seq, plan.cut_seq);
    CHECK_EQ(made.messages, made.seq);
    CHECK_THAT(made.tokens_after, <, made.tokens_before);
    CHECK_STR(made.summary, "We counted to ten.");
    CHECK_EQ(s.calls, 1);
    CHECK_EQ(s.request.messages_len, made.seq + 2);
    for (size_t i = 0; i + 1 < s.request.messages_len; i++)
        CHECK(same_message(&s.request.messages[i], &before[i]));
    CHECK_EQ(s.request.messages[s.request.messages_len - 1].role, PAL_ROLE_USER);
    CHECK_EQ(s.request.tools_len, 1);
    CHECK_EQ(s.request.output_max, 500);
    CHECK_STR(s.request.model, "m1");
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_EQ(plan.tokens, made.tokens_after);
    CHECK_BEGINS(sent_text(&plan), "sys tools sum sum ");
    CHECK_EQ(plan.items[plan.items_len - 1].seq, 28);
}

static void the_second_summary_takes_the_first_in(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We began."};
    pal_compaction_result first, second;
    pal_plan plan;

    say_turns(session, 10, 300);
    first = compact(&window, &s);
    if (CHECK(!asks_with(&s, "We began.")))
        CHECK(asks_with(&s, "q1"));
    say_turns(session, 10, 300);
    s.answer = "We began, and went on.";
    second = compact(&window, &s);
    CHECK_THAT(second.number, >, first.number);
    CHECK_THAT(second.seq, >, first.seq);
    if (CHECK(asks_with(&s, "We began.")))
        CHECK(!asks_with(&s, "q1"));
    CHECK_EQ(second.messages, second.seq - first.seq);
    plan = plan_of(&window);
    CHECK_STR(plan.items[2].message->parts[0].text, "We began, and went on.");
    CHECK_EQ(plan.items[0].kind, PAL_PLAN_ITEM_RANGE);
    CHECK_EQ(plan.items[0].disposition, PAL_DISPOSITION_SUMMARIZED);
}

/* The mark has the token count that a plan would use for the summary. */
static void a_summary_counts_as_the_message_that_it_is(void)
{
    static const pal_strategy strategies[] = {PAL_STRATEGY_COMPACT, PAL_STRATEGY_SUMMARIZATION};

    for (size_t i = 0; i < 2; i++) {
        pal_id session = new_session();
        pal_window window = window_of(session);
        script s = {.answer = "We counted to ten, and then to twenty."};
        const pal_plan_item *item;
        uint64_t wanted = 0;
        pal_message shown;
        pal_plan plan;

        window.settings.strategy = strategies[i];
        say_turns(session, 10, 300);
        CHECK_THAT(compact(&window, &s).number, >, 0);
        plan = plan_of(&window);
        item = &plan.items[strategies[i] == PAL_STRATEGY_COMPACT ? 2 : 1];
        if (!CHECK_EQ(item->kind, PAL_PLAN_ITEM_SUMMARY))
            return;
        shown = *item->message;
        shown.tokens = 0;
        OK(pal_tokens_message(pal_store_encoding(test.store), &shown, &wanted, &test.err));
        CHECK_EQ(item->tokens, wanted);
        CHECK_THAT(wanted, >, 5);
    }
}

static void pins_question_and_pending_calls_stay(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_str pending[] = {S("p1")};
    script s = {.answer = "We read."};
    uint64_t question, call;
    pal_compaction_result made;
    pal_plan plan;

    say_turns(session, 5, 300);
    pin(session, 2);
    question = say_as(session, PAL_ROLE_USER, "Read them.", 100);
    for (int i = 0; i < 10; i++) {
        char id[16];

        snprintf(id, sizeof id, "c%d", i);
        say_call(session, id, 50);
        say_result(session, id, "text", 350);
    }
    call = say_call(session, "p1", 50);
    for (int i = 10; i < 12; i++) {
        char id[16];

        snprintf(id, sizeof id, "c%d", i);
        say_call(session, id, 50);
        say_result(session, id, "text", 2350);
    }
    window.pending = pending;
    window.pending_len = 1;
    made = compact(&window, &s);
    CHECK_THAT(made.number, >, 0);
    CHECK_THAT(made.seq, >, question);
    CHECK_THAT(made.seq, <, call);
    plan = plan_of(&window);
    CHECK_BEGINS(sent_text(&plan), "sum sum 2 11 ");
    CHECK_EQ(plan.items[plan.items_len - 1].seq, call + 4);
}

static void a_requested_cut_moves_to_the_start_of_a_turn(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We began."};
    pal_compaction_request compaction = {.summarize = script_run, .user = &s, .cut_seq = 5};
    pal_compaction_result made = {0};

    say_turns(session, 10, 300);
    OK(pal_window_compact(test.store, &window, &compaction, test.arena, &made, &test.err));
    CHECK_THAT(made.number, >, 0);
    CHECK_EQ(made.seq, 4);
    compaction.cut_seq = 1000;
    OK(pal_window_compact(test.store, &window, &compaction, test.arena, &made, &test.err));
    CHECK_THAT(made.number, >, 0);
    CHECK_EQ(made.seq, 18);
}

/* ---- Undo, redo, diff ---- */

static void undo_brings_everything_back(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We began."};
    pal_compaction_result first, second;
    const char *before, *between;
    uint64_t pinned;

    say_turns(session, 10, 300);
    before = plan_json(&window);
    first = compact(&window, &s);
    between = plan_json(&window);
    s.answer = "We began again.";
    second = compact(&window, &s);
    CHECK_THAT(second.number, >, 0);
    OK(pal_window_uncompact(test.store, no_tenant(), session, 0, &test.err));
    CHECK_STR(plan_json(&window), between);
    OK(pal_window_uncompact(test.store, no_tenant(), session, first.number, &test.err));
    CHECK_STR(plan_json(&window), before);
    GIVES(PAL_NOT_FOUND, pal_window_uncompact(test.store, no_tenant(), session, 0, &test.err));
    CHECK_THAT(pal_window_uncompact(test.store, no_tenant(), session, first.number, &test.err), !=,
            PAL_OK);
    pinned = pin(session, 1);
    GIVES(PAL_NOT_FOUND, pal_window_uncompact(test.store, no_tenant(), session, pinned, &test.err));
}

static void a_compaction_is_found_by_its_request_id(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We began."};
    pal_compaction_request compaction = {
            .summarize = script_run, .user = &s, .reason = S("manual"), .request_id = S("r1")};
    pal_compaction_result made = {0}, found = {0};

    say_turns(session, 10, 300);
    GIVES(PAL_NOT_FOUND,
            pal_window_compaction_find(
                    test.store, no_tenant(), session, S("r1"), test.arena, &found, &test.err));
    OK(pal_window_compact(test.store, &window, &compaction, test.arena, &made, &test.err));
    OK(pal_window_compaction_find(
            test.store, no_tenant(), session, S("r1"), test.arena, &found, &test.err));
    CHECK_EQ(found.number, made.number);
    CHECK_EQ(found.seq, made.seq);
    CHECK_EQ(found.messages, made.messages);
    CHECK_EQ(found.tokens_before, made.tokens_before);
    CHECK_EQ(found.tokens_after, made.tokens_after);
    CHECK_STR(found.summary, "We began.");
    GIVES(PAL_NOT_FOUND,
            pal_window_compaction_find(
                    test.store, no_tenant(), session, S("r2"), test.arena, &found, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_window_compaction_find(
                    test.store, no_tenant(), session, (pal_str){0}, test.arena, &found, &test.err));
}

/* Earlier versions wrote the id of the request into the reason. */
static void a_request_id_in_the_reason_is_found_too(void)
{
    pal_id session = new_session();
    pal_mark mark = {.kind = PAL_MARK_CHECKPOINT,
            .seq = 2,
            .body = S("{\"summary\":\"We began.\",\"reason\":\"manual, request r1\"}")};
    pal_compaction_result found = {0};

    say_turns(session, 2, 10);
    OK(pal_store_mark(test.store, no_tenant(), session, &mark, &test.err));
    OK(pal_window_compaction_find(
            test.store, no_tenant(), session, S("r1"), test.arena, &found, &test.err));
    CHECK_EQ(found.number, mark.number);
    CHECK_STR(found.summary, "We began.");
}

static void redo_summarizes_the_same_messages(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "Zero."};
    pal_compaction_request again = {
            .summarize = script_run, .user = &s, .prompt = S("In verse!"), .model = S("poet")};
    pal_compaction_result first, redone = {0};
    pal_str diff = {0};
    pal_plan plan;

    say_turns(session, 8, 300);
    compact(&window, &s);
    say_turns(session, 8, 300);
    pin(session, 3);
    pin(session, 13);
    s.answer = "One\ntwo\nthree";
    first = compact(&window, &s);
    say_turns(session, 1, 300);
    again.redo = first.number;
    s.answer = "One\n2\nthree\nfour";
    OK(pal_window_compact(test.store, &window, &again, test.arena, &redone, &test.err));
    CHECK_THAT(redone.number, >, first.number);
    CHECK_EQ(redone.seq, first.seq);
    CHECK(!redone.is_fallback);
    CHECK_EQ(redone.messages, first.messages);
    if (CHECK(asks_with(&s, "In verse!")) && CHECK(asks_with(&s, "Zero.")))
        CHECK(!asks_with(&s, "q1"));
    if (CHECK(asks_with(&s, "q3")))
        CHECK_STR(s.request.model, "poet");
    plan = plan_of(&window);
    CHECK_EQ(plan.tokens, redone.tokens_after);
    CHECK_BEGINS(sent_text(&plan), "sum sum 3 13 ");
    OK(pal_window_diff(test.store, no_tenant(), session, first.number, redone.number, test.arena,
            &diff, &test.err));
    CHECK_STR(diff, " One\n-two\n+2\n three\n+four\n");
    /* If that is undone as well, the compacted messages are visible again. */
    OK(pal_window_uncompact(test.store, no_tenant(), session, 0, &test.err));
    plan = plan_of(&window);
    CHECK(has_text(plan.items[2].message, "Zero."));
    GIVES(PAL_CONFLICT,
            pal_window_compact(test.store, &window, &again, test.arena, &redone, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_window_diff(test.store, no_tenant(), session, 1, 99, test.arena, &diff, &test.err));
}

static char *export_of(pal_id session)
{
    pal_message_query load = {.hidden = true};
    pal_session record = get_session(session);
    pal_message_page messages = {0};
    pal_str json = {0};
    size_t len = 0, size;
    char *text;

    OK(pal_store_load(test.store, no_tenant(), session, &load, test.arena, &messages, &test.err));
    size = messages.len * 400 + 2000;
    text = pal_arena_alloc(test.arena, size);
    OK(pal_session_to_json(&record, test.arena, &json, &test.err));
    len = (size_t)snprintf(text, size, "%s\n", json.data);
    for (size_t i = 0; i < messages.len; i++) {
        OK(pal_message_to_json(&messages.items[i], test.arena, &json, &test.err));
        len += (size_t)snprintf(text + len, size - len, "%s\n", json.data);
    }
    return text;
}

static void ten_compactions_undone_leave_no_trace(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_strategy strategies[] = {
            PAL_STRATEGY_COMPACT, PAL_STRATEGY_SUMMARIZATION, PAL_STRATEGY_RESET};
    script s = {.answer = "We began."};
    char *session_before;
    const char *plan_before;

    say_as(session, PAL_ROLE_SYSTEM, "You are kind.", 5);
    say_turns(session, 20, 100);
    session_before = export_of(session);
    plan_before = plan_json(&window);
    for (int i = 0; i < 10; i++) {
        pal_compaction_result made;

        window.settings.strategy = strategies[i % 3];
        s.answer = i % 4 == 3 ? NULL : "We began.";
        made = compact(&window, &s);
        CHECK_THAT(made.number, >, 0);
        CHECK_DIFFER(plan_json(&window), plan_before);
        OK(pal_window_uncompact(test.store, no_tenant(), session, made.number, &test.err));
        window.settings.strategy = PAL_STRATEGY_COMPACT;
        CHECK_STR(export_of(session), session_before);
        CHECK_STR(plan_json(&window), plan_before);
    }
}

/* ---- Models that are of no help ---- */

static void falls_back(const char *answer, const char *note)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "Before."};
    pal_compaction_result made;
    pal_plan plan;

    say_turns(session, 10, 300);
    CHECK_THAT(compact(&window, &s).number, >, 0);
    say_turns(session, 12, 300);
    s.answer = answer;
    made = compact(&window, &s);
    CHECK_THAT(made.number, >, 0);
    CHECK(made.is_fallback);
    CHECK_THAT(made.tokens_after, <, made.tokens_before);
    if (!CHECK_BEGINS(made.note, note))
        printf("# %.*s\n", PAL_STR_ARG(made.note));
    plan = plan_of(&window);
    /* The old summary stays a summary. Dropped messages are mentioned in a notice, which is not a
     * summary. */
    CHECK_EQ(plan.items[0].kind, PAL_PLAN_ITEM_NOTICE);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK(has_text(plan.items[3].message, "Before."));
    if (CHECK(plan.items[4].message))
        CHECK_EQ(plan.items[4].message->role, PAL_ROLE_USER);
    CHECK_STR(made.summary, "Before.");
    /* The next summary replaces the last one. */
    s.answer = "After.";
    say_turns(session, 10, 300);
    if (CHECK(!compact(&window, &s).is_fallback))
        CHECK(asks_with(&s, "Before."));
}

static void a_model_that_fails_is_said_so(void)
{
    falls_back(NULL, "the model is asleep");
}

static void a_model_that_says_nothing_is_said_so(void)
{
    falls_back(" \n", "the model returned an empty answer");
}

static void a_model_that_shortens_nothing_is_said_so(void)
{
    char *text = pal_arena_alloc(test.arena, 200001);

    memset(text, ' ', 200000);
    for (size_t i = 0; i < 200000; i += 3)
        text[i] = (char)('a' + i % 26);
    falls_back(text, "the summary is not shorter");
}

static void without_a_model_turns_are_left_out(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_compaction_request compaction = {.reason = S("manual")};
    pal_compaction_result made = {0};
    pal_plan plan;

    say_turns(session, 20, 300);
    OK(pal_window_compact(test.store, &window, &compaction, test.arena, &made, &test.err));
    CHECK_THAT(made.number, >, 0);
    CHECK(made.is_fallback);
    CHECK_EQ(made.summary.len, 0);
    CHECK_STR(made.note, "no model is available for the summary");
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_THAT(plan.tokens, <=, 4100);
    CHECK_THAT(plan.tokens, >, 3000);
    CHECK_EQ(plan.items[1].disposition, PAL_DISPOSITION_DROPPED);
    CHECK_STR(plan.items[0].message->parts[0].text,
            "[Note: 28 older messages truncated to stay within token limit]");
}

static void there_may_be_nothing_to_compact(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We began."};
    pal_compaction_result made = compact(&window, &s);

    CHECK_EQ(made.number, 0);
    CHECK_THAT(made.note.len, >, 0);
    CHECK_EQ(s.calls, 0);
    say_as(session, PAL_ROLE_USER, "Hello", 100);
    made = compact(&window, &s);
    CHECK_EQ(made.number, 0);
    CHECK_THAT(made.note.len, >, 0);
    CHECK_EQ(s.calls, 0);
    say_as(session, PAL_ROLE_USER, "a book", 50000);
    made = compact(&window, &s);
    CHECK_EQ(made.number, 0);
    CHECK_STR(made.note, "not even the newest message fits");
}

static void the_cost_is_in_the_ledger(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We began.", .cost_input = 900};
    pal_ledger_sum sum = {0};
    pal_mark *marks = NULL;
    size_t len = 0;

    say_turns(session, 10, 300);
    compact(&window, &s);
    OK(pal_store_ledger_sum(test.store, &(pal_ledger_query){.session = session}, &sum, &test.err));
    CHECK_EQ(sum.calls, 1);
    CHECK_EQ(sum.usage.input, 900);
    CHECK_EQ(sum.cost_micros, 12);
    OK(pal_store_marks(test.store, no_tenant(), session, test.arena, &marks, &len, &test.err));
    if (CHECK_EQ(len, 1))
        CHECK_CONTAINS(marks[0].body.data, "\"cost_micros\":12");
    CHECK_CONTAINS(marks[0].body.data, "\"tokens_before\":6000");
    /* A useless answer costs tokens, too. */
    s.answer = "";
    compact(&window, &s);
    OK(pal_store_ledger_sum(test.store, &(pal_ledger_query){.session = session}, &sum, &test.err));
    CHECK_EQ(sum.calls, 2);
}

static void a_fresh_start_receives_the_last_message(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "never asked"};
    pal_compaction_result made;
    pal_plan plan;

    window.settings.strategy = PAL_STRATEGY_RESET;
    window.settings.compaction_threshold = 1000;
    say_turns(session, 4, 200);
    say_as(session, PAL_ROLE_USER, "Go on.", 100);
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_COMPACT);
    made = compact(&window, &s);
    CHECK_THAT(made.number, >, 0);
    CHECK_EQ(made.seq, 8);
    CHECK_EQ(s.calls, 0);
    plan = plan_of(&window);
    CHECK(sends(&plan, "sum 9"));
    CHECK_CONTAINS(plan.items[1].message->parts[0].text.data, "assistant: a7");
}

/* ---- Out of memory ---- */

static void every_allocation_may_fail(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_status status = PAL_NO_MEMORY;

    say_turns(session, 10, 300);
    for (uint64_t nth = 1; status != PAL_OK && nth < 5000; nth++) {
        script s = {.answer = "We began."};
        pal_compaction_request compaction = {.summarize = script_run, .user = &s};
        pal_compaction_result made = {0};
        pal_arena *small = pal_arena_new(0);
        bool fired;

        pal_memory_fail_at(nth, 1);
        status = pal_window_compact(test.store, &window, &compaction, small, &made, &test.err);
        fired = pal_memory_failed();
        pal_memory_fail_at(0, 0);
        pal_arena_free(small);
        if (!CHECK(status == PAL_OK || (fired && status == PAL_NO_MEMORY)))
            printf("# allocation %llu: %s\n", (unsigned long long)nth, test.err.message);
        if (status != PAL_OK) {
            pal_plan plan = plan_of(&window);

            CHECK(sends(&plan, "1-20")); /* nothing was kept */
        }
    }
    CHECK_STATUS(status, PAL_OK);
}

void window_compactions(void)
{
    RUN(the_question_follows_the_prefix_of_the_conversation);
    RUN(the_second_summary_takes_the_first_in);
    RUN(a_summary_counts_as_the_message_that_it_is);
    RUN(pins_question_and_pending_calls_stay);
    RUN(a_requested_cut_moves_to_the_start_of_a_turn);
    RUN(undo_brings_everything_back);
    RUN(a_compaction_is_found_by_its_request_id);
    RUN(a_request_id_in_the_reason_is_found_too);
    RUN(redo_summarizes_the_same_messages);
    RUN(ten_compactions_undone_leave_no_trace);
    RUN(a_model_that_fails_is_said_so);
    RUN(a_model_that_says_nothing_is_said_so);
    RUN(a_model_that_shortens_nothing_is_said_so);
    RUN(without_a_model_turns_are_left_out);
    RUN(there_may_be_nothing_to_compact);
    RUN(the_cost_is_in_the_ledger);
    RUN(a_fresh_start_receives_the_last_message);
    RUN(every_allocation_may_fail);
}
