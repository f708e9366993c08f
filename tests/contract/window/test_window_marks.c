/* test_window_marks.c - the effect of marks on a plan: pins, prunes and epochs; rewinds, resets and
 * forks of a compacted session. */
#include "contract_window.h"

/* ---- Pins ---- */

static void pins_are_kept_before_a_checkpoint(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "All was said."};
    pal_mark unpin = {.kind = PAL_MARK_UNPIN, .seq = 3};
    pal_plan plan;

    say_turns(session, 10, 300);
    pin(session, 3);
    plan = plan_of(&window);
    if (CHECK(sends(&plan, "1-20"))) {
        CHECK(plan.items[2].is_pinned);
        CHECK(!plan.items[3].is_pinned);
    }
    CHECK_THAT(compact(&window, &s).number, >, 0);
    plan = plan_of(&window);
    CHECK_BEGINS(sent_text(&plan), "sum sum 3 ");
    OK(pal_store_mark(test.store, no_tenant(), session, &unpin, &test.err));
    plan = plan_of(&window);
    CHECK_LACKS(sent_text(&plan), " 3 ");
    pin(session, 4); /* also messages that were hidden already */
    plan = plan_of(&window);
    CHECK_BEGINS(sent_text(&plan), "sum sum 4 ");
}

static void a_pin_keeps_the_other_half_of_its_pair(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "All was said."};
    uint64_t call, result;
    char wanted[64];
    pal_plan plan;

    say_turns(session, 2, 300);
    call = say_call(session, "c1", 20);
    result = say_result(session, "c1", "text", 20);
    say_turns(session, 10, 300);
    CHECK_THAT(compact(&window, &s).seq, >, result);
    pin(session, result);
    plan = plan_of(&window);
    snprintf(wanted, sizeof wanted, "sum sum %llu-%llu ", (unsigned long long)call,
            (unsigned long long)result);
    if (CHECK_BEGINS(sent_text(&plan), wanted))
        CHECK_EQ(plan.repairs, 0);
    OK(undo(session, 0));
    pin(session, call);
    plan = plan_of(&window);
    if (CHECK_BEGINS(sent_text(&plan), wanted))
        CHECK_EQ(plan.repairs, 0);
}

/* ---- Prunes ---- */

static uint64_t say_tool_turns(pal_id session, int turns, uint32_t tokens)
{
    uint64_t seq = 0;

    for (int i = 0; i < turns; i++) {
        char id[16];

        snprintf(id, sizeof id, "call%d", i);
        say_as(session, PAL_ROLE_USER, "Next.", 10);
        say_call(session, id, 10);
        say_result(session, id, "a long text", tokens);
        seq = say_as(session, PAL_ROLE_ASSISTANT, "Done.", 10);
    }
    return seq;
}

static void a_prune_is_kept_as_a_mark(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_plan plan;
    const char *before;

    say_tool_turns(session, 9, 1000);
    window.settings.prune_protect_tokens = 1000;
    window.settings.prune_minimum_tokens = 1000;
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_PRUNE);
    CHECK_EQ(plan.prune_len, 6);
    OK(pal_window_prune(test.store, &window, &plan, test.arena, &test.err));
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_THAT(plan.tokens, <, 4000);
    CHECK_EQ(plan.items[2].disposition, PAL_DISPOSITION_SENT_PRUNED);
    CHECK_EQ(plan.items[34].disposition, PAL_DISPOSITION_SENT);
    /* Only the messages of the next turn differ then. */
    before = plan_json(&window);
    say_as(session, PAL_ROLE_USER, "More.", 10);
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_EQ(plan.items[2].disposition, PAL_DISPOSITION_SENT_PRUNED);
    rewind_to(session, 36);
    CHECK_STR(plan_json(&window), before);
    OK(undo(session, 1));
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_PRUNE);
}

/* ---- Epochs ---- */

static const char schema[] = "{ \"type\":\"object\",\n  \"properties\":{\"b\":{},\"a\":{}}\t}";

static void an_epoch_is_replayed_byte_for_byte(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_tool tool = {.name = S("read"), .description = S("Reads \"it\".\n"), .schema = S(schema)};
    pal_tool other = {.name = S("write")};
    pal_mark *marks;
    pal_plan plan;
    uint64_t hash;
    size_t len;

    window.system = S("It is Monday, 09:00.\n");
    window.tools = &tool;
    window.tools_len = 1;
    plan = plan_of(&window);
    hash = plan.items[1].hash;
    OK(pal_window_epoch(test.store, &window, test.arena, &test.err));
    say_turns(session, 2, 10);
    window.system = S("It is Monday, 09:05.\n");
    /* The same tool, written differently by another program. */
    tool.schema = S("{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}}}");
    OK(pal_window_epoch(test.store, &window, test.arena, &test.err));
    OK(pal_store_marks(test.store, no_tenant(), session, test.arena, &marks, &len, &test.err));
    CHECK_EQ(len, 1);
    plan = plan_of(&window);
    CHECK_STR(plan.items[0].message->parts[0].text, "It is Monday, 09:00.\n");
    CHECK_EQ(plan.items[1].hash, hash); /* depends on every byte of the tools */
    window.system_exact = true;
    plan = plan_of(&window);
    CHECK_STR(plan.items[0].message->parts[0].text, "It is Monday, 09:05.\n");
    window.system_exact = false;
    /* New tools break the cache anyway. */
    window.tools = &other;
    OK(pal_window_epoch(test.store, &window, test.arena, &test.err));
    plan = plan_of(&window);
    CHECK_STR(plan.items[0].message->parts[0].text, "It is Monday, 09:05.\n");
}

static void a_compaction_ends_the_epoch(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We counted."};
    pal_plan plan;

    window.system = S("old");
    OK(pal_window_epoch(test.store, &window, test.arena, &test.err));
    say_turns(session, 10, 300);
    window.system = S("new");
    CHECK_THAT(compact(&window, &s).number, >, 0);
    CHECK_STR(s.request.messages[0].parts[0].text, "old");
    plan = plan_of(&window);
    CHECK_STR(plan.items[0].message->parts[0].text, "new");
}

static void a_lost_lease_writes_no_mark(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We counted."};
    pal_compaction_request compaction = {.summarize = script_run, .user = &s};
    pal_compaction_result compacted;
    uint64_t fence = 0;

    say_turns(session, 10, 300);
    OK(pal_store_lease_take(test.store, no_tenant(), session, S("me"), 1000, &fence, &test.err));
    window.system = S("text");
    window.fence = fence + 1;
    GIVES(PAL_DENIED, pal_window_epoch(test.store, &window, test.arena, &test.err));
    GIVES(PAL_DENIED,
            pal_window_compact(
                    test.store, &window, &compaction, test.arena, &compacted, &test.err));
    window.fence = fence;
    OK(pal_window_epoch(test.store, &window, test.arena, &test.err));
    OK(pal_window_compact(test.store, &window, &compaction, test.arena, &compacted, &test.err));
}

/* ---- Other ways through a compacted session ---- */

static void a_rewind_after_the_cut_leaves_the_checkpoint(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "First part."};
    const char *before;
    pal_compaction_result made;
    pal_plan plan;

    say_turns(session, 10, 300);
    before = plan_json(&window);
    made = compact(&window, &s);
    CHECK_THAT(made.seq, >, 2);
    CHECK_THAT(made.seq, <, 20);
    say_turns(session, 2, 300);
    rewind_to(session, 22);
    plan = plan_of(&window);
    CHECK_BEGINS(sent_text(&plan), "sum sum ");
    CHECK_EQ(plan.items[plan.items_len - 1].seq, 22);
    /* Before the cut: the summary would mention messages that are hidden now. */
    rewind_to(session, 2);
    plan = plan_of(&window);
    CHECK(sends(&plan, "1-2"));
    OK(undo(session, 0));
    OK(undo(session, 0));
    OK(pal_window_uncompact(test.store, no_tenant(), session, made.number, &test.err));
    rewind_to(session, 20);
    CHECK_STR(plan_json(&window), before);
}

static void a_reset_starts_an_empty_history(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "First part."};
    pal_mark mark;
    pal_plan plan;

    say_as(session, PAL_ROLE_SYSTEM, "You are kind.", 5);
    say_turns(session, 10, 300);
    CHECK_THAT(compact(&window, &s).number, >, 0);
    OK(pal_store_reset(test.store, no_tenant(), session, true, &mark, &test.err));
    plan = plan_of(&window);
    if (CHECK(sends(&plan, "sys")))
        CHECK_EQ(plan.items_len, 1);
    say_turns(session, 1, 300);
    plan = plan_of(&window);
    CHECK(sends(&plan, "sys 22-23"));
    OK(undo(session, mark.number));
    plan = plan_of(&window);
    CHECK_BEGINS(sent_text(&plan), "sys sum sum ");
}

static void a_fork_has_its_parents_checkpoint(void)
{
    pal_id session = new_session(), fork, early;
    pal_window window = window_of(session);
    script s = {.answer = "First part."};
    pal_compaction_result made;
    pal_plan plan;

    say_turns(session, 10, 300);
    made = compact(&window, &s);
    fork = fork_at(session, 20);
    early = fork_at(session, 4);
    window.session = fork;
    plan = plan_of(&window);
    CHECK_BEGINS(sent_text(&plan), "sum sum ");
    say_turns(fork, 5, 300);
    s.answer = "First part, and more.";
    CHECK_THAT(compact(&window, &s).number, >, 0);
    if (CHECK(asks_with(&s, "First part.")))
        CHECK(!asks_with(&s, "q1"));
    /* Once more: the summary of the fork is reverted, and then the parent's applies. */
    OK(pal_window_uncompact(test.store, no_tenant(), fork, 0, &test.err));
    plan = plan_of(&window);
    CHECK_STR(plan.items[2].message->parts[0].text, "First part.");
    CHECK_THAT(pal_window_uncompact(test.store, no_tenant(), fork, 0, &test.err), !=, PAL_OK);
    /* A summary of the parent can be made again for the fork alone. */
    pal_compaction_request again = {
            .summarize = script_run, .user = &s, .redo = made.number, .reason = S("manual")};
    pal_compaction_result redone = {0};
    s.answer = "Another first part.";
    OK(pal_window_compact(test.store, &window, &again, test.arena, &redone, &test.err));
    CHECK_THAT(redone.number, >, 0);
    CHECK_EQ(redone.seq, made.seq);
    plan = plan_of(&window);
    CHECK_STR(plan.items[2].message->parts[0].text, "Another first part.");
    window.session = session;
    plan = plan_of(&window);
    CHECK_STR(plan.items[2].message->parts[0].text, "First part.");
    window.session = early;
    plan = plan_of(&window);
    CHECK(sends(&plan, "1-4"));
}

/* ---- The past, and other marks ---- */

/* At every moment, the JSON of the plan is remembered with the seq of the next message. Later each
 * of them must come out the same. */
enum { MOMENTS_MAX = 16 };

typedef struct moments {
    uint64_t at[MOMENTS_MAX];
    const char *json[MOMENTS_MAX];
    size_t len;
} moments;

static void remember(moments *past, const pal_window *window, uint64_t next_seq)
{
    past->at[past->len] = next_seq;
    past->json[past->len++] = plan_json(window);
}

static void check_past(const moments *past, pal_window window)
{
    for (size_t i = 0; i < past->len; i++) {
        window.at_seq = past->at[i];
        CHECK_STR(plan_json(&window), past->json[i]);
    }
}

static void an_earlier_state_can_be_planned(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "All was said."};
    moments past = {0};

    remember(&past, &window, 1);
    say_turns(session, 10, 300);
    remember(&past, &window, 21);
    say_turns(session, 1, 300);
    pin(session, 3);
    compact(&window, &s);
    remember(&past, &window, 23);
    say_as(session, PAL_ROLE_USER, "Once more.", 50);
    pin(session, 5);
    say_turns(session, 1, 50);
    rewind_to(session, 24);
    remember(&past, &window, 26);
    say_turns(session, 1, 50);
    OK(undo(session, 0));
    say_turns(session, 1, 50);
    check_past(&past, window);
}

static void a_fork_remembers_its_parents_past(void)
{
    pal_id parent = new_session(), fork;
    pal_window window = window_of(parent);
    script s = {.answer = "All was said."};
    pal_session child = {0};
    moments past = {0};

    say_turns(parent, 3, 300);
    remember(&past, &window, 7);
    say_turns(parent, 7, 300);
    compact(&window, &s);
    remember(&past, &window, 21);
    say_turns(parent, 1, 300);
    OK(pal_store_fork(test.store, &child, parent, 22, &fork, &test.err));
    window.session = fork;
    say_turns(fork, 1, 300);
    rewind_to(fork, 2);
    check_past(&past, window);
}

static void a_plan_without_marks_ignores_them(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "All was said."};
    uint64_t number;
    const char *before, *after;

    say_turns(session, 10, 300);
    before = plan_json(&window);
    number = compact(&window, &s).number;
    after = plan_json(&window);
    window.without = &number;
    window.without_len = 1;
    CHECK_STR(plan_json(&window), before);
    window.without_len = 0;
    CHECK_STR(plan_json(&window), after); /* nothing was recorded */
    number = rewind_to(session, 4);
    window.without_len = 1;
    CHECK_STR(plan_json(&window), after);
}

static void a_wrong_past_is_refused(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    uint64_t number = 1;
    pal_plan plan;

    say_turns(session, 1, 10);
    window.at_seq = 4;
    CHECK_EQ(pal_window_plan(test.store, &window, test.arena, &plan, &test.err), PAL_INVALID);
    CHECK_BEGINS(test.err.message, "'at_seq' must be from 1 to 3");
    window.at_seq = 3;
    OK(pal_window_plan(test.store, &window, test.arena, &plan, &test.err));
    window.without = &number;
    window.without_len = 1;
    CHECK_EQ(pal_window_plan(test.store, &window, test.arena, &plan, &test.err), PAL_INVALID);
    CHECK_BEGINS(test.err.message, "'without' has 1");
}

void window_marks(void)
{
    RUN(pins_are_kept_before_a_checkpoint);
    RUN(a_pin_keeps_the_other_half_of_its_pair);
    RUN(a_prune_is_kept_as_a_mark);
    RUN(an_epoch_is_replayed_byte_for_byte);
    RUN(a_compaction_ends_the_epoch);
    RUN(a_lost_lease_writes_no_mark);
    RUN(a_rewind_after_the_cut_leaves_the_checkpoint);
    RUN(a_reset_starts_an_empty_history);
    RUN(a_fork_has_its_parents_checkpoint);
    RUN(an_earlier_state_can_be_planned);
    RUN(a_fork_remembers_its_parents_past);
    RUN(a_plan_without_marks_ignores_them);
    RUN(a_wrong_past_is_refused);
}
