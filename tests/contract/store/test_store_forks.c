/* test_store_forks.c - forks, rewinds, resets and other marks. */
#include "contract/contract.h"

static pal_id of_words(const char *words)
{
    pal_id session = new_session();

    say_words(session, words);
    return session;
}

static pal_status mark(pal_id session, pal_mark *given)
{
    return pal_store_mark(test.store, no_tenant(), session, given, &test.err);
}

/* ---- Rewinds ---- */

static void a_rewind_hides_and_undo_shows(void)
{
    pal_id session = of_words("a b c d");
    pal_message_query all = {.hidden = true};
    uint64_t first;

    first = rewind_to(session, 2);
    CHECK(shows(session, "a b"));
    CHECK_EQ(get_session(session).last_seq, 4);
    CHECK_STR(shown(session, &all), "a b c d");
    CHECK_EQ(say(session, "e"), 5);
    CHECK(shows(session, "a b e"));
    OK(undo(session, first));
    CHECK(shows(session, "a b c d e"));
    rewind_to(session, 0);
    CHECK(shows(session, ""));
    OK(undo(session, 0));
    CHECK(shows(session, "a b c d e"));
}

static void a_rewind_may_leave_the_newest(void)
{
    pal_id session = of_words("a b c d");
    pal_mark some = {.kind = PAL_MARK_REWIND, .seq = 1, .target = 3};
    pal_mark more = {.kind = PAL_MARK_REWIND, .seq = 3, .target = 9};

    OK(pal_store_mark(test.store, no_tenant(), session, &some, &test.err));
    CHECK_EQ(some.through_seq, 3);
    CHECK(shows(session, "a d"));
    CHECK_EQ(say(session, "e"), 5);
    CHECK(shows(session, "a d e"));
    OK(pal_store_mark(test.store, no_tenant(), session, &more, &test.err));
    CHECK_EQ(more.through_seq, 5);
    CHECK(shows(session, "a"));
    OK(undo(session, some.number));
    CHECK(shows(session, "a b c"));
}

static void truncating_keeps_the_newest_visible(void)
{
    pal_id session = of_words("a b c d e");
    pal_mark made;

    OK(pal_store_truncate(test.store, no_tenant(), session, 2, &made, &test.err));
    CHECK_EQ(made.number, 1);
    CHECK_EQ(made.target, 3);
    CHECK(shows(session, "d e"));
    OK(pal_store_truncate(test.store, no_tenant(), session, 2, &made, &test.err));
    CHECK_EQ(made.number, 0);
    CHECK(shows(session, "d e"));
    CHECK_EQ(say(session, "f"), 6);
    OK(pal_store_truncate(test.store, no_tenant(), session, 1, &made, &test.err));
    CHECK(shows(session, "f"));
    OK(undo(session, 0));
    CHECK(shows(session, "d e f"));
    OK(pal_store_truncate(test.store, no_tenant(), session, 0, &made, &test.err));
    CHECK(shows(session, ""));
    OK(undo(session, 0));
    OK(undo(session, 1));
    CHECK(shows(session, "a b c d e f"));
}

static void a_history_is_replaced_in_one_step(void)
{
    pal_id session = of_words("a b");
    pal_message new[2] = {text_of(PAL_ROLE_USER, "x"), text_of(PAL_ROLE_USER, "y")};
    pal_message wrong = {.role = PAL_ROLE_NONE};
    pal_mark made;
    uint64_t first;

    OK(pal_store_replace(test.store, no_tenant(), session, new, 2, &made, &test.err));
    CHECK(shows(session, "x y"));
    CHECK_EQ(new[0].seq, 3);
    CHECK_EQ(new[1].seq, 4);
    first = made.number;
    CHECK_EQ(first, 1);
    CHECK_THAT(pal_store_replace(test.store, no_tenant(), session, &wrong, 1, &made, &test.err), !=,
            PAL_OK);
    CHECK(shows(session, "x y"));
    CHECK_EQ(say(session, "z"), 5);
    OK(pal_store_replace(test.store, no_tenant(), session, NULL, 0, &made, &test.err));
    CHECK(shows(session, ""));
    OK(undo(session, made.number));
    OK(undo(session, first));
    CHECK(shows(session, "a b x y z"));
    session = new_session();
    new[0] = text_of(PAL_ROLE_USER, "x");
    OK(pal_store_replace(test.store, no_tenant(), session, new, 1, &made, &test.err));
    CHECK_EQ(made.number, 0);
    CHECK(shows(session, "x"));
}

static uint64_t count(pal_id session, uint64_t after_seq, uint64_t before_seq)
{
    uint64_t found = 99;

    OK(pal_store_count(test.store, no_tenant(), session, after_seq, before_seq, &found, &test.err));
    return found;
}

static void visible_messages_are_counted(void)
{
    pal_id session = of_words("a b c d"), fork;
    uint64_t found = 99;

    CHECK_EQ(count(session, 0, 0), 4);
    CHECK_EQ(count(new_session(), 0, 0), 0);
    rewind_to(session, 2);
    say_words(session, "e f g"); /* 5 to 7 */
    CHECK_EQ(count(session, 0, 0), 5);
    CHECK_EQ(count(session, 0, 5), 2);
    CHECK_EQ(count(session, 1, 7), 3);
    CHECK_EQ(count(session, 4, 5), 0);
    CHECK_EQ(count(session, 7, 0), 0);
    CHECK_EQ(count(session, 9, 3), 0);
    fork = fork_at(session, 6);
    say_words(fork, "h");
    CHECK_EQ(count(fork, 0, 0), 5);
    CHECK_EQ(count(fork, 5, 0), 2);
    CHECK_EQ(count(fork, 0, 6), 3);
    rewind_to(fork, 1);
    CHECK_EQ(count(fork, 0, 0), 1);
    CHECK_EQ(count(session, 0, 0), 5);
    GIVES(PAL_NOT_FOUND,
            pal_store_count(test.store, no_tenant(), pal_id_new(), 0, 0, &found, &test.err));
    CHECK_EQ(found, 99);
}

/* ---- Hiding ---- */

static void hide(pal_id session, uint64_t seq, uint64_t part)
{
    pal_mark given = {.kind = PAL_MARK_HIDE, .seq = seq, .target = part};

    OK(mark(session, &given));
}

static void one_message_is_hidden(void)
{
    pal_id session = of_words("a b c d"), fork;
    pal_message_query back = {.from_end = true, .limit = 2}, all = {.hidden = true};

    hide(session, 2, 0);
    CHECK(shows(session, "a c d"));
    CHECK_STR(shown(session, &back), "c d");
    CHECK_STR(shown(session, &all), "a b c d");
    CHECK_EQ(count(session, 0, 0), 3);
    fork = fork_at(session, 4); /* messages that were hidden stay hidden */
    CHECK(shows(fork, "a c d"));
    hide(fork, 1, 0);
    CHECK(shows(fork, "c d"));
    CHECK(shows(session, "a c d"));
    hide(session, 4, 0);
    if (CHECK(shows(session, "a c"))) {
        CHECK_EQ(say(session, "e"), 5);
        CHECK(shows(session, "a c e"));
    }
    OK(undo(session, 0));
    CHECK(shows(session, "a c d e"));
    rewind_to(session, 1);
    CHECK(shows(session, "a"));
}

static void wrong_hides_are_refused(void)
{
    pal_id session = of_words("a b");
    pal_mark none = {.kind = PAL_MARK_HIDE}, far = {.kind = PAL_MARK_HIDE, .seq = 3};

    GIVES(PAL_INVALID, mark(session, &none));
    GIVES(PAL_INVALID, mark(session, &far));
    CHECK(shows(session, "a b"));
}

/* Appends an answer with a text and two calls. */
static void append_parts(pal_id session)
{
    pal_part parts[3] = {{.kind = PAL_PART_TEXT, .text = pal_str_of("word")},
            {.kind = PAL_PART_TOOL_CALL, .call_id = pal_str_of("c1"), .name = pal_str_of("f")},
            {.kind = PAL_PART_TOOL_CALL, .call_id = pal_str_of("c2"), .name = pal_str_of("g")}};
    pal_message message = {.role = PAL_ROLE_ASSISTANT, .parts = parts, .parts_len = 3};

    OK(pal_store_append(test.store, no_tenant(), session, &message, 1, PAL_SEQ_ANY, &test.err));
}

static void parts_of_a_message_are_hidden(void)
{
    pal_id session = of_words("a");
    pal_message_page found = {0};
    pal_search_query search = {
            .tenant = no_tenant(), .session = session, .text = pal_str_of("word")};
    pal_search_page hits = {0};

    append_parts(session);
    OK(pal_store_search(test.store, &search, test.arena, &hits, &test.err));
    CHECK_EQ(hits.len, 1);
    hide(session, 2, 2);
    OK(pal_store_load(test.store, no_tenant(), session, NULL, test.arena, &found, &test.err));
    if (CHECK_EQ(found.len, 2)) {
        CHECK_EQ(found.items[1].parts_len, 2);
        CHECK_STR(found.items[1].parts[1].call_id, "c2");
    }
    OK(pal_store_search(test.store, &search, test.arena, &hits, &test.err));
    CHECK_EQ(hits.len, 0);
    CHECK_EQ(count(session, 0, 0), 2);
    hide(session, 2, 1);
    hide(session, 2, 3);
    CHECK(shows(session, "a"));
    OK(undo(session, 0));
    OK(pal_store_load(test.store, no_tenant(), session, NULL, test.arena, &found, &test.err));
    if (CHECK_EQ(found.len, 2))
        CHECK_EQ(found.items[1].parts_len, 1);
}

static void an_undo_can_be_undone(void)
{
    pal_id session = of_words("a b c");

    rewind_to(session, 1); /* 1 */
    OK(undo(session, 1));  /* 2 */
    CHECK(shows(session, "a b c"));
    OK(undo(session, 2)); /* 3: redo */
    CHECK(shows(session, "a"));
    OK(undo(session, 3)); /* 4: undone again */
    CHECK(shows(session, "a b c"));
    GIVES(PAL_CONFLICT, undo(session, 1));
    GIVES(PAL_CONFLICT, undo(session, 3));
    GIVES(PAL_NOT_FOUND, undo(session, 9));
    GIVES(PAL_NOT_FOUND, undo(session, 0));
    CHECK_CONTAINS(test.err.message, "nothing to undo");
}

static void undo_takes_the_newest_that_counts(void)
{
    pal_id session = of_words("a b c d");

    rewind_to(session, 3);
    rewind_to(session, 2);
    rewind_to(session, 1);
    CHECK(shows(session, "a"));
    OK(undo(session, 0));
    CHECK(shows(session, "a b"));
    OK(undo(session, 0));
    CHECK(shows(session, "a b c"));
    OK(undo(session, 0));
    CHECK(shows(session, "a b c d"));
    GIVES(PAL_NOT_FOUND, undo(session, 0));
}

static void undo_reports_the_undone_mark(void)
{
    pal_id session = of_words("a b");
    pal_mark given = {.kind = PAL_MARK_UNDO};

    rewind_to(session, 1);
    rewind_to(session, 0);
    pal_clock_set_ms(NOW + 3);
    OK(mark(session, &given));
    CHECK_EQ(given.number, 3);
    CHECK_EQ(given.target, 2);
    CHECK_EQ(given.created_at, NOW + 3);
    CHECK_EQ(get_session(session).updated_at, NOW + 3);
}

static void a_reset_may_keep_the_system_message(void)
{
    pal_message system = text_of(PAL_ROLE_SYSTEM, "sys");
    pal_id session = new_session();
    pal_mark made = {0};

    OK(pal_store_append(test.store, no_tenant(), session, &system, 1, 0, &test.err));
    say_words(session, "a b");
    OK(pal_store_reset(test.store, no_tenant(), session, true, &made, &test.err));
    CHECK_EQ(made.kind, PAL_MARK_RESET);
    CHECK_EQ(made.seq, 1);
    CHECK_EQ(made.through_seq, 3);
    CHECK(shows(session, "sys"));
    say(session, "c");
    CHECK(shows(session, "sys c"));
    OK(pal_store_reset(test.store, no_tenant(), session, false, NULL, &test.err));
    CHECK(shows(session, ""));
    OK(undo(session, 0));
    OK(undo(session, 0));
    CHECK(shows(session, "sys a b c"));
    session = of_words("a b");
    OK(pal_store_reset(test.store, no_tenant(), session, true, &made, &test.err));
    CHECK_EQ(made.seq, 0);
    CHECK(shows(session, ""));
}

/* ---- Marks ---- */

static void marks_are_numbered_and_kept(void)
{
    pal_id session = of_words("a b c");
    pal_mark checkpoint = {.kind = PAL_MARK_CHECKPOINT, .seq = 2, .body = S("{\"s\":\"sum\"}")};
    pal_mark prune = {.kind = PAL_MARK_PRUNE, .seq = 3, .body = S("[1]")};
    pal_mark pin = {.kind = PAL_MARK_PIN, .seq = 1};
    pal_mark *marks;
    size_t len;

    OK(mark(session, &checkpoint));
    say(session, "d");
    OK(mark(session, &prune));
    pal_clock_set_ms(NOW + 7);
    OK(mark(session, &pin));
    OK(undo(session, 2));
    CHECK_EQ(checkpoint.number, 1);
    CHECK_EQ(checkpoint.through_seq, 3);
    CHECK_EQ(prune.number, 2);
    CHECK_EQ(prune.through_seq, 4);
    CHECK_EQ(pin.created_at, NOW + 7);
    OK(pal_store_marks(test.store, no_tenant(), session, test.arena, &marks, &len, &test.err));
    if (!CHECK_EQ(len, 4))
        return;
    CHECK_EQ(marks[0].kind, PAL_MARK_CHECKPOINT);
    CHECK_EQ(marks[0].seq, 2);
    CHECK(!marks[0].undone);
    CHECK_STR(marks[0].body, "{\"s\":\"sum\"}");
    CHECK_EQ(marks[0].created_at, NOW);
    CHECK_EQ(marks[1].kind, PAL_MARK_PRUNE);
    CHECK(marks[1].undone);
    CHECK_EQ(marks[1].number, 2);
    CHECK_EQ(marks[2].kind, PAL_MARK_PIN);
    CHECK_EQ(marks[2].seq, 1);
    CHECK_EQ(marks[2].body.len, 0);
    CHECK_EQ(marks[3].kind, PAL_MARK_UNDO);
    CHECK_EQ(marks[3].target, 2);
    CHECK(!marks[3].inherited);
    CHECK(shows(session, "a b c d"));
}

static void bad_marks_are_refused(void)
{
    pal_id session = of_words("a b");
    pal_mark beyond = {.kind = PAL_MARK_REWIND, .seq = 3}, nothing = {.kind = PAL_MARK_NONE};
    pal_mark no_pin = {.kind = PAL_MARK_PIN}, no_unpin = {.kind = PAL_MARK_UNPIN};
    pal_mark *marks;
    size_t len;

    GIVES(PAL_INVALID, mark(session, &beyond));
    GIVES(PAL_INVALID, mark(session, &nothing));
    GIVES(PAL_INVALID, mark(session, &no_pin));
    GIVES(PAL_INVALID, mark(session, &no_unpin));
    GIVES(PAL_NOT_FOUND, mark(pal_id_new(), &(pal_mark){.kind = PAL_MARK_REWIND}));
    OK(pal_store_marks(test.store, no_tenant(), session, test.arena, &marks, &len, &test.err));
    CHECK_EQ(len, 0);
}

/* ---- Forks ---- */

static void a_fork_shares_its_beginning(void)
{
    pal_id parent = of_words("a b c d"), child = fork_at(parent, 2);
    pal_session found = get_session(child);

    CHECK_ID(found.parent_id, parent);
    CHECK_EQ(found.fork_seq, 2);
    CHECK_EQ(found.last_seq, 2);
    CHECK_EQ(found.tokens, 0);
    CHECK_EQ(found.bytes, 0);
    CHECK(shows(child, "a b"));
    CHECK_EQ(say(child, "x"), 3);
    CHECK_EQ(say(parent, "e"), 5);
    CHECK(shows(child, "a b x"));
    CHECK(shows(parent, "a b c d e"));
    CHECK_EQ(count_messages(), 6);
}

static void a_fork_has_separate_fields(void)
{
    pal_str alias = S("other");
    pal_session given = {.id = pal_id_new(),
            .key = S("k"),
            .aliases = &alias,
            .aliases_len = 1,
            .title = S("t"),
            .metadata = S("{\"a\":1}")};
    pal_id parent = of_words("a"), id;
    pal_session found;

    OK(pal_store_fork(test.store, &given, parent, PAL_SEQ_ANY, &id, &test.err));
    CHECK_ID(id, given.id);
    found = get_session(id);
    CHECK_STR(found.key, "k");
    CHECK_STR(found.title, "t");
    CHECK_EQ(found.aliases_len, 1);
    CHECK(leads_to(PAL_SESSION_BY_KEY, "k", id));
    CHECK(leads_to(PAL_SESSION_BY_ALIAS, "other", id));
    given.id = pal_id_new();
    GIVES(PAL_CONFLICT, pal_store_fork(test.store, &given, parent, PAL_SEQ_ANY, &id, &test.err));
    GIVES(PAL_NOT_FOUND, find_id_status(given.id));
}

static void a_fork_may_begin_anywhere(void)
{
    pal_id parent = of_words("a b c");

    CHECK(shows(fork_at(parent, 0), ""));
    CHECK(pal_id_is_none(get_session(fork_at(parent, 0)).parent_id));
    CHECK(shows(fork_at(parent, 3), "a b c"));
    CHECK(shows(fork_at(parent, PAL_SEQ_ANY), "a b c"));
    CHECK(shows(fork_at(new_session(), PAL_SEQ_ANY), ""));
    GIVES(PAL_INVALID, fork_status(parent, 4));
    GIVES(PAL_NOT_FOUND, fork_status(pal_id_new(), 1));
}

static void forks_of_forks_share_all_the_way(void)
{
    pal_id a = of_words("1 2 3 4"), b = fork_at(a, 3), c, d, e;

    say_words(b, "b4 b5 b6");
    c = fork_at(b, 5);
    say_words(c, "c6");
    d = fork_at(c, 2); /* in the grandparent */
    say_words(d, "d3");
    e = fork_at(c, 4); /* in the parent */
    CHECK(shows(b, "1 2 3 b4 b5 b6"));
    CHECK(shows(c, "1 2 3 b4 b5 c6"));
    if (CHECK(shows(d, "1 2 d3")))
        CHECK_ID(get_session(d).parent_id, a);
    if (CHECK(shows(e, "1 2 3 b4")))
        CHECK_ID(get_session(e).parent_id, b);
    CHECK_EQ(count_messages(), 9);
}

static void a_deep_chain_of_forks_loads(void)
{
    pal_id session = new_session();
    pal_message_query tail = {.limit = 3, .from_end = true};
    pal_message_page loaded;
    char text[16];

    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "%d", i);
        say(session, pal_arena_copy(test.arena, S(text)).data);
        session = fork_at(session, PAL_SEQ_ANY);
    }
    OK(pal_store_load(test.store, no_tenant(), session, NULL, test.arena, &loaded, &test.err));
    CHECK_EQ(loaded.len, 100);
    CHECK_STR(shown(session, &tail), "97 98 99");
}

static void a_fork_shows_messages_that_were_visible(void)
{
    pal_id parent = of_words("a b c"), child;

    rewind_to(parent, 1);
    say_words(parent, "d e");
    child = fork_at(parent, PAL_SEQ_ANY);
    CHECK(shows(child, "a d e"));
    OK(undo(parent, 0)); /* later than the fork, so it does not move */
    CHECK(shows(parent, "a b c d e"));
    CHECK(shows(child, "a d e"));
    rewind_to(parent, 0);
    CHECK(shows(parent, ""));
    CHECK(shows(child, "a d e"));
    say(child, "f");
    CHECK(shows(child, "a d e f"));
}

static void a_fork_may_end_at_a_hidden_message(void)
{
    pal_id parent = of_words("a b c d");

    rewind_to(parent, 1);
    say(parent, "e");
    CHECK(shows(parent, "a e"));
    CHECK(shows(fork_at(parent, 3), "a b c"));
    CHECK(shows(fork_at(parent, 5), "a e"));
    CHECK(shows(fork_at(parent, PAL_SEQ_ANY), "a e"));
    rewind_to(parent, 1);
    CHECK(shows(fork_at(parent, PAL_SEQ_ANY), "a"));
}

static void a_fork_rewinds_into_shared_messages(void)
{
    pal_id parent = of_words("a b c"), child = fork_at(parent, 3), grandchild;

    say_words(child, "x y");
    rewind_to(child, 1);
    CHECK(shows(child, "a"));
    CHECK(shows(parent, "a b c"));
    say(child, "z");
    grandchild = fork_at(child, PAL_SEQ_ANY);
    CHECK(shows(grandchild, "a z"));
    OK(undo(child, 0));
    CHECK(shows(child, "a b c x y z"));
    CHECK(shows(grandchild, "a z"));
    GIVES(PAL_NOT_FOUND, undo(grandchild, 0));
}

static void inherited_marks_are_distinguished(void)
{
    pal_id parent = of_words("a b c"), child;
    pal_mark pin = {.kind = PAL_MARK_PIN, .seq = 2}, *marks;
    size_t len;

    OK(mark(parent, &pin));
    child = fork_at(parent, 3);
    OK(mark(child, &(pal_mark){.kind = PAL_MARK_PIN, .seq = 1}));
    OK(pal_store_marks(test.store, no_tenant(), child, test.arena, &marks, &len, &test.err));
    if (!CHECK_EQ(len, 2))
        return;
    CHECK(marks[0].inherited);
    CHECK_EQ(marks[0].seq, 2);
    CHECK_EQ(marks[0].number, 1);
    CHECK(!marks[1].inherited);
    CHECK_EQ(marks[1].seq, 1);
    CHECK_EQ(marks[1].number, 1);
    OK(undo(child, 1));
    OK(pal_store_marks(test.store, no_tenant(), child, test.arena, &marks, &len, &test.err));
    if (CHECK_EQ(len, 3)) {
        CHECK(!marks[0].undone);
        CHECK(marks[1].undone);
    }
}

static void a_message_is_found_in_its_session(void)
{
    pal_id parent = of_words("a b"), child = fork_at(parent, 2), owner;
    pal_message_page loaded;
    pal_message found;

    OK(pal_store_load(test.store, no_tenant(), child, NULL, test.arena, &loaded, &test.err));
    OK(pal_store_message(
            test.store, no_tenant(), loaded.items[0].id, test.arena, &found, &owner, &test.err));
    CHECK_ID(owner, parent);
    CHECK_EQ(found.seq, 1);
}

void contract_forks(void)
{
    RUN(a_rewind_hides_and_undo_shows);
    RUN(a_rewind_may_leave_the_newest);
    RUN(visible_messages_are_counted);
    RUN(one_message_is_hidden);
    RUN(wrong_hides_are_refused);
    RUN(parts_of_a_message_are_hidden);
    RUN(an_undo_can_be_undone);
    RUN(undo_takes_the_newest_that_counts);
    RUN(undo_reports_the_undone_mark);
    RUN(a_reset_may_keep_the_system_message);
    RUN(truncating_keeps_the_newest_visible);
    RUN(a_history_is_replaced_in_one_step);
    RUN(marks_are_numbered_and_kept);
    RUN(bad_marks_are_refused);
    RUN(a_fork_shares_its_beginning);
    RUN(a_fork_has_separate_fields);
    RUN(a_fork_may_begin_anywhere);
    RUN(forks_of_forks_share_all_the_way);
    RUN(a_deep_chain_of_forks_loads);
    RUN(a_fork_shows_messages_that_were_visible);
    RUN(a_fork_may_end_at_a_hidden_message);
    RUN(a_fork_rewinds_into_shared_messages);
    RUN(inherited_marks_are_distinguished);
    RUN(a_message_is_found_in_its_session);
}
