/* test_store_active_marks.c - which checkpoints, prunes, epochs and pins count, after whatever. */
#include "contract/contract.h"

#include <string.h>

static pal_id of_words(const char *words)
{
    pal_id session = new_session();

    say_words(session, words);
    return session;
}

static uint64_t add_mark(pal_id session, pal_mark_kind kind, uint64_t seq, const char *body)
{
    pal_mark mark = {.kind = kind, .seq = seq, .body = S(body)};

    OK(pal_store_mark(test.store, no_tenant(), session, &mark, &test.err));
    return mark.number;
}

static uint64_t checkpoint(pal_id session, uint64_t seq, const char *body)
{
    return add_mark(session, PAL_MARK_CHECKPOINT, seq, body);
}

static pal_active_marks active_of(pal_id session)
{
    pal_active_marks active = {0};

    OK(pal_store_active_marks(test.store, no_tenant(), session, test.arena, &active, &test.err));
    return active;
}

/* Whether the checkpoint with this body applies. NULL: no checkpoint applies. */
static bool stands(pal_id session, const char *body)
{
    pal_active_marks active = active_of(session);

    if (!body)
        return active.checkpoint.number == 0;
    return active.checkpoint.number != 0 && pal_str_is(active.checkpoint.body, body);
}

static bool pinned(pal_id session, const char *seqs)
{
    pal_active_marks active = active_of(session);
    char text[256] = "";

    for (size_t i = 0; i < active.pins_len; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", i ? " " : "",
                (int)active.pins[i]);
    return strcmp(text, seqs) == 0;
}

static void no_mark_applies_at_first(void)
{
    pal_active_marks active = active_of(of_words("a b"));

    CHECK_EQ(active.checkpoint.number, 0);
    CHECK_EQ(active.epoch.number, 0);
    CHECK_EQ(active.prunes_len, 0);
    CHECK_EQ(active.pins_len, 0);
    GIVES(PAL_NOT_FOUND,
            pal_store_active_marks(test.store, no_tenant(), pal_id_new(), test.arena, &active, &test.err));
}

static void the_newest_of_each_kind_counts(void)
{
    pal_id session = of_words("a b c d e f");
    pal_active_marks active;

    add_mark(session, PAL_MARK_EPOCH, 0, "\"e1\"");
    add_mark(session, PAL_MARK_PRUNE, 1, "\"p1\"");
    checkpoint(session, 1, "\"c1\"");
    add_mark(session, PAL_MARK_PRUNE, 2, "\"p2\"");
    checkpoint(session, 3, "\"c2\"");
    active = active_of(session);
    CHECK_STR(active.checkpoint.body, "\"c2\"");
    CHECK_EQ(active.checkpoint.seq, 3);
    CHECK_EQ(active.checkpoint.number, 5);
    CHECK_EQ(active.checkpoint.through_seq, 6);
    CHECK_EQ(active.prunes_len, 0);
    CHECK_EQ(active.epoch.number, 0);
    add_mark(session, PAL_MARK_PRUNE, 4, "\"p3\"");
    add_mark(session, PAL_MARK_EPOCH, 0, "\"e2\"");
    add_mark(session, PAL_MARK_EPOCH, 0, "\"e3\"");
    add_mark(session, PAL_MARK_PRUNE, 5, "\"p4\"");
    active = active_of(session);
    CHECK_STR(active.epoch.body, "\"e3\"");
    if (CHECK_EQ(active.prunes_len, 2)) {
        CHECK_STR(active.prunes[0].body, "\"p3\"");
        CHECK_STR(active.prunes[1].body, "\"p4\"");
        CHECK_EQ(active.prunes[1].seq, 5);
    }
}

static void an_epoch_needs_a_body(void)
{
    pal_id session = of_words("a");
    pal_mark bare = {.kind = PAL_MARK_EPOCH}, unknown = {.kind = (pal_mark_kind)10};

    GIVES(PAL_INVALID, pal_store_mark(test.store, no_tenant(), session, &bare, &test.err));
    GIVES(PAL_INVALID, pal_store_mark(test.store, no_tenant(), session, &unknown, &test.err));
}

static void an_undone_checkpoint_yields_to_the_one_before(void)
{
    pal_id session = of_words("a b c d");
    uint64_t second;

    checkpoint(session, 1, "\"c1\"");
    add_mark(session, PAL_MARK_PRUNE, 2, "\"p1\"");
    second = checkpoint(session, 3, "\"c2\"");
    CHECK(stands(session, "\"c2\""));
    OK(undo(session, second));
    CHECK(stands(session, "\"c1\""));
    CHECK_EQ(active_of(session).prunes_len, 1);
    OK(undo(session, 4)); /* the undo */
    CHECK(stands(session, "\"c2\""));
    CHECK_EQ(active_of(session).prunes_len, 0);
    OK(undo(session, 5));
    CHECK(stands(session, "\"c1\""));
}

static void a_rewind_below_it_ends_it(void)
{
    pal_id session = of_words("a b c d e");
    uint64_t rewind;

    checkpoint(session, 3, "\"c\"");
    add_mark(session, PAL_MARK_PRUNE, 4, "\"p\"");
    add_mark(session, PAL_MARK_EPOCH, 5, "\"e\"");
    rewind_to(session, 4);
    CHECK(stands(session, "\"c\""));
    CHECK_EQ(active_of(session).prunes_len, 1);
    CHECK_EQ(active_of(session).epoch.number, 0);
    rewind_to(session, 3);
    CHECK(stands(session, "\"c\""));
    CHECK_EQ(active_of(session).prunes_len, 0);
    rewind = rewind_to(session, 2);
    CHECK(stands(session, NULL));
    say_words(session, "f g h");
    CHECK(stands(session, NULL));
    OK(undo(session, rewind));
    CHECK(stands(session, "\"c\""));
}

static void hiding_a_message_below_it_ends_it(void)
{
    pal_id session = of_words("a b c d");
    pal_mark part = {.kind = PAL_MARK_HIDE, .seq = 1, .target = 1};

    checkpoint(session, 2, "\"c1\"");
    add_mark(session, PAL_MARK_HIDE, 3, "");
    CHECK(stands(session, "\"c1\""));
    OK(pal_store_mark(test.store, no_tenant(), session, &part, &test.err));
    CHECK_EQ(active_of(session).checkpoint.number, 0);
    OK(undo(session, part.number));
    CHECK(stands(session, "\"c1\""));
    add_mark(session, PAL_MARK_HIDE, 2, "");
    CHECK_EQ(active_of(session).checkpoint.number, 0);
}

static void a_reset_ends_it_and_undoing_brings_it_back(void)
{
    pal_id session = new_session();
    pal_message system = text_of(PAL_ROLE_SYSTEM, "be brief");
    pal_mark reset;

    OK(pal_store_append(test.store, no_tenant(), session, &system, 1, 0, &test.err));
    say_words(session, "a b c");
    checkpoint(session, 3, "\"c\"");
    OK(pal_store_reset(test.store, no_tenant(), session, true, &reset, &test.err));
    CHECK(stands(session, NULL));
    say_words(session, "d e");
    checkpoint(session, 5, "\"late\"");
    CHECK(stands(session, "\"late\""));
    OK(undo(session, reset.number)); /* now the late mark hides messages that it does not know */
    CHECK(stands(session, "\"c\""));
    OK(undo(session, 4));
    CHECK(stands(session, "\"late\""));
}

static void earlier_hidden_messages_do_not_matter(void)
{
    pal_id session = of_words("a b c d");
    uint64_t first = rewind_to(session, 1);

    say_words(session, "e f");
    checkpoint(session, 5, "\"c\""); /* a and e */
    CHECK(stands(session, "\"c\""));
    rewind_to(session, 5);
    CHECK(stands(session, "\"c\""));
    OK(undo(session, first)); /* b, c and d are visible again, and not in the summary */
    CHECK(stands(session, NULL));
    OK(undo(session, 4));
    CHECK(stands(session, "\"c\""));
    rewind_to(session, 1);
    CHECK(stands(session, NULL));
}

static void a_rewind_over_hidden_messages_changes_nothing(void)
{
    pal_id session = of_words("a b c d");

    rewind_to(session, 2);
    checkpoint(session, 4, "\"c\""); /* of a and b, whatever its seq */
    say(session, "e");
    rewind_to(session, 2);
    CHECK(stands(session, "\"c\""));
    rewind_to(session, 1);
    CHECK(stands(session, NULL));
}

static void undoing_an_undo_of_an_old_rewind_counts(void)
{
    pal_id session = of_words("a b c d");
    uint64_t rewind = rewind_to(session, 1);

    OK(undo(session, rewind));       /* 2 */
    checkpoint(session, 4, "\"c\""); /* 3, of a to d */
    CHECK(stands(session, "\"c\""));
    OK(undo(session, 2)); /* 4: b to d are hidden again */
    if (CHECK(shows(session, "a")))
        CHECK(stands(session, NULL));
    OK(undo(session, 4));
    if (CHECK(shows(session, "a b c d")))
        CHECK(stands(session, "\"c\""));
}

static void pins_follow_the_newest_word(void)
{
    pal_id session = of_words("a b c d e");
    uint64_t unpin;

    add_mark(session, PAL_MARK_PIN, 4, NULL);
    add_mark(session, PAL_MARK_PIN, 2, NULL);
    add_mark(session, PAL_MARK_PIN, 2, NULL);
    add_mark(session, PAL_MARK_PIN, 1, NULL);
    CHECK(pinned(session, "1 2 4"));
    unpin = add_mark(session, PAL_MARK_UNPIN, 2, NULL);
    CHECK(pinned(session, "1 4"));
    checkpoint(session, 5, "\"c\"");
    CHECK(pinned(session, "1 4")); /* pins outlive checkpoints */
    rewind_to(session, 3);
    CHECK(pinned(session, "1"));
    OK(undo(session, unpin));
    CHECK(pinned(session, "1 2"));
}

static void a_fork_inherits_shared_messages(void)
{
    pal_id parent = of_words("a b c d e"), child, late;
    pal_active_marks active;

    checkpoint(parent, 2, "\"c1\"");
    add_mark(parent, PAL_MARK_PIN, 1, NULL);
    add_mark(parent, PAL_MARK_PIN, 4, NULL);
    checkpoint(parent, 4, "\"c2\"");
    child = fork_at(parent, 3); /* the second is about more than it has */
    active = active_of(child);
    CHECK_STR(active.checkpoint.body, "\"c1\"");
    CHECK(active.checkpoint.inherited);
    CHECK(pinned(child, "1"));
    checkpoint(parent, 3, "\"c3\""); /* later than the fork */
    CHECK(stands(child, "\"c1\""));
    CHECK(stands(parent, "\"c3\""));
    add_mark(child, PAL_MARK_UNPIN, 1, NULL);
    say_words(child, "x y");
    checkpoint(child, 5, "\"own\"");
    CHECK(pinned(child, ""));
    CHECK(pinned(parent, "1 4"));
    active = active_of(child);
    CHECK_STR(active.checkpoint.body, "\"own\"");
    CHECK(!active.checkpoint.inherited);
    rewind_to(child, 3);
    CHECK(stands(child, "\"c1\""));
    rewind_to(child, 1);
    CHECK(stands(child, NULL));
    CHECK(stands(parent, "\"c3\""));
    late = fork_at(child, 4);
    if (CHECK(shows(late, "a b c x")))
        CHECK(stands(late, "\"c1\""));
}

static void a_fork_does_not_follow_its_parent(void)
{
    pal_id parent = of_words("a b c d"), child;
    uint64_t number = checkpoint(parent, 3, "\"c\"");

    child = fork_at(parent, 4);
    OK(undo(parent, number));
    CHECK(stands(parent, NULL));
    CHECK(stands(child, "\"c\""));
    rewind_to(parent, 1);
    CHECK(stands(child, "\"c\""));
    child = fork_at(parent, 4); /* a hidden message, as it was when it was appended */
    CHECK(stands(child, NULL));
}

static void a_fork_at_a_hidden_message_keeps_the_message(void)
{
    pal_id parent = of_words("a b c d"), child;

    rewind_to(parent, 1);
    checkpoint(parent, 3, "\"c\""); /* summarizes only a */
    CHECK(stands(parent, "\"c\""));
    child = fork_at(parent, 3);
    if (CHECK(shows(child, "a b c")))
        CHECK(stands(child, NULL));
    OK(pal_store_erase(test.store, no_tenant(), parent, NULL, &test.err));
    if (CHECK(shows(child, "a b c")))
        CHECK(stands(child, NULL));
}

static void an_erased_parent_leaves_the_messages_of_its_forks(void)
{
    pal_id parent = of_words("a b c d"), child;

    checkpoint(parent, 2, "\"c\"");
    add_mark(parent, PAL_MARK_PIN, 1, NULL);
    child = fork_at(parent, 3);
    OK(pal_store_erase(test.store, no_tenant(), parent, NULL, &test.err));
    CHECK(stands(child, "\"c\""));
    CHECK(pinned(child, "1"));
}

static void many_checkpoints_cost_little(void)
{
    enum { MARKS = 2000, LEN = 10000 };
    static char body[LEN + 1];
    static pal_mark marks[MARKS];
    static pal_op ops[MARKS];
    pal_id session = of_words("a b");
    pal_arena *small = pal_arena_new(2 << 20);
    pal_message_page loaded;
    pal_active_marks active;

    memset(body, 'x', LEN);
    body[0] = body[LEN - 1] = '"';
    for (size_t i = 0; i < MARKS; i++) {
        marks[i] = (pal_mark){.kind = PAL_MARK_CHECKPOINT, .seq = 1, .body = S(body)};
        ops[i] = (pal_op){.kind = PAL_OP_MARK, .session = session, .u.mark = &marks[i]};
    }
    OK(pal_store_apply(test.store, ops, MARKS, &test.err));
    OK(pal_store_load(test.store, no_tenant(), session, NULL, small, &loaded, &test.err));
    CHECK_EQ(loaded.len, 2);
    /* Twenty megabytes of bodies: only one of them is read. */
    OK(pal_store_active_marks(test.store, no_tenant(), session, small, &active, &test.err));
    CHECK_EQ(active.checkpoint.number, MARKS);
    CHECK_EQ(active.checkpoint.body.len, LEN);
    OK(undo(session, 0));
    CHECK_EQ(active_of(session).checkpoint.number, MARKS - 1);
    pal_arena_free(small);
}

static void a_tenant_sees_only_its_sessions(void)
{
    pal_id session = of_words("a");
    pal_active_marks active;

    checkpoint(session, 1, "\"c\"");
    GIVES(PAL_NOT_FOUND, pal_store_active_marks(test.store, S("other"), session, test.arena, &active, &test.err));
}

void contract_active_marks(void)
{
    RUN(no_mark_applies_at_first);
    RUN(the_newest_of_each_kind_counts);
    RUN(an_epoch_needs_a_body);
    RUN(an_undone_checkpoint_yields_to_the_one_before);
    RUN(a_rewind_below_it_ends_it);
    RUN(hiding_a_message_below_it_ends_it);
    RUN(a_reset_ends_it_and_undoing_brings_it_back);
    RUN(earlier_hidden_messages_do_not_matter);
    RUN(a_rewind_over_hidden_messages_changes_nothing);
    RUN(undoing_an_undo_of_an_old_rewind_counts);
    RUN(pins_follow_the_newest_word);
    RUN(a_fork_inherits_shared_messages);
    RUN(a_fork_does_not_follow_its_parent);
    RUN(a_fork_at_a_hidden_message_keeps_the_message);
    RUN(an_erased_parent_leaves_the_messages_of_its_forks);
    RUN(many_checkpoints_cost_little);
    RUN(a_tenant_sees_only_its_sessions);
}
