/* test_cache.c - sessions in memory: which reads need the backend, and what another process does to
 * the same file. */
#include "contract/contract.h"

/* ---- Counting calls ---- */

static unsigned calls; /* reads that reached the backend */
static const char *hooked; /* after the next call of this name, `hook` is called once */
static void (*hook)(void);

static void on_call(const char *name, size_t ops, int64_t us, pal_status status, void *user)
{
    (void)ops;
    (void)us;
    (void)status;
    (void)user;
    if (hooked && strcmp(name, hooked) == 0) {
        hooked = NULL;
        hook();
    }
    calls += strcmp(name, "session_find") == 0 || strcmp(name, "row_scan") == 0 ||
            strcmp(name, "mark_list") == 0;
}

static void open_traced(uint64_t cache_bytes)
{
    contract_open_with(&(pal_store_options){.trace = on_call, .cache_bytes = cache_bytes});
}

static unsigned calls_of(pal_id session, const pal_message_query *load)
{
    pal_message_page page;

    calls = 0;
    OK(pal_store_load(test.store, no_tenant(), session, load, test.arena, &page, &test.err));
    return calls;
}

static const pal_message_query tail = {.limit = 50, .from_end = true};

/* A session that was read often enough to be in memory. */
static pal_id hot_session(const char *words)
{
    pal_id session = new_session();

    say_words(session, words);
    (void)calls_of(session, &tail);
    (void)calls_of(session, &tail);
    CHECK_EQ(calls_of(session, &tail), 0);
    return session;
}

static pal_store_stats stats(void)
{
    pal_store_stats found = {0};

    OK(pal_store_stat(test.store, test.arena, &found, &test.err));
    return found;
}

/* Whether a message of the session has this text. An erased message has no parts. */
static bool says(pal_id session, const char *word)
{
    pal_message_page page = {0};

    OK(pal_store_load(test.store, no_tenant(), session, &tail, test.arena, &page, &test.err));
    for (size_t i = 0; i < page.len; i++)
        if (page.items[i].parts_len > 0 && pal_str_is(page.items[i].parts[0].text, word))
            return true;
    return false;
}

/* ---- What needs the backend ---- */

static void one_read_keeps_nothing(void)
{
    pal_id session = new_session();

    say_words(session, "a b c");
    open_traced(0);
    CHECK_EQ(calls_of(session, &tail), 2);
    CHECK_EQ(stats().cache_bytes, 0);
    CHECK_EQ(calls_of(session, &tail), 2);
    CHECK_THAT(stats().cache_bytes, >, 0);
    CHECK_EQ(calls_of(session, &tail), 0);
    CHECK_EQ(stats().cache_hits, 2);
    CHECK_EQ(stats().cache_misses, 4);
}

static void nothing_is_kept_without_a_cache(void)
{
    pal_id session = new_session();

    say_words(session, "a b c");
    open_traced(PAL_CACHE_BYTES_NONE);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(calls_of(session, &tail), 2);
    CHECK_EQ(stats().cache_bytes, 0);
}

static void appends_and_marks_stay_in_memory(void)
{
    pal_active_marks active;
    pal_mark mark = {.kind = PAL_MARK_PIN, .seq = 2};
    pal_id session;

    open_traced(0);
    session = hot_session("a b c");
    say_words(session, "d e");
    CHECK_EQ(calls_of(session, &tail), 0);
    CHECK(shows(session, "a b c d e"));
    CHECK_EQ(get_session(session).last_seq, 5);
    OK(pal_store_mark(test.store, no_tenant(), session, &mark, &test.err));
    CHECK_EQ(calls_of(session, &tail), 1); /* the list of marks */
    CHECK_EQ(calls_of(session, &tail), 0);
    CHECK_EQ(rewind_to(session, 4), 2);
    CHECK_EQ(calls_of(session, &tail), 0);
    CHECK(shows(session, "a b c d"));
    calls = 0;
    OK(pal_store_active_marks(test.store, no_tenant(), session, test.arena, &active, &test.err));
    CHECK_EQ(calls, 1);
    CHECK_EQ(active.pins_len, 1);
}

static void older_rows_join_the_newest_ones(void)
{
    pal_message_query two = {.limit = 2, .from_end = true}, from_start = {.limit = 9};
    pal_id session;

    open_traced(0);
    session = new_session();
    say_words(session, "a b c d e f g");
    (void)calls_of(session, &two);
    (void)calls_of(session, &two);
    CHECK_EQ(calls_of(session, &two), 0);
    CHECK_EQ(calls_of(session, &tail), 1);
    CHECK_EQ(calls_of(session, &tail), 0);
    CHECK_EQ(calls_of(session, &from_start), 0);
    CHECK(shows(session, "a b c d e f g"));
}

static void a_bounded_walk_goes_back_only_as_far_as_it_must(void)
{
    pal_message_query last = {.limit = 1, .from_end = true};
    pal_message_query some = {.bytes_max = 3, .from_end = true};
    pal_message_page page;
    pal_id session;

    open_traced(0);
    session = new_session();
    say_words(session, "a b c d e f g");
    for (int i = 0; i < 3; i++)
        (void)calls_of(session, &last);
    CHECK_EQ(calls_of(session, &some), 1);
    CHECK_EQ(calls_of(session, &some), 0);
    OK(pal_store_load(test.store, no_tenant(), session, &some, test.arena, &page, &test.err));
    CHECK_EQ(page.len, 3);
    CHECK(page.has_more);
    CHECK(shows(session, "a b c d e f g"));
}

static void an_erased_word_is_gone(void)
{
    pal_id session, other;

    open_traced(0);
    session = hot_session("a secret c");
    other = hot_session("x y");
    OK(pal_store_erase_message(test.store, no_tenant(), session, 2, NULL, &test.err));
    CHECK_EQ(stats().cache_bytes, 0);
    CHECK(!says(session, "secret"));
    CHECK(!says(session, "secret"));
    CHECK(says(session, "c"));
    OK(pal_store_erase(test.store, no_tenant(), session, NULL, &test.err));
    GIVES(PAL_NOT_FOUND, find_id_status(session));
    CHECK(shows(other, "x y"));
}

static void a_sweep_of_nothing_keeps_everything(void)
{
    pal_id session;

    open_traced(0);
    session = hot_session("a b");
    OK(pal_store_sweep(test.store, -1, 10, NULL, &test.err));
    CHECK_EQ(calls_of(session, &tail), 0);
    OK(pal_store_delete(test.store, no_tenant(), session, &test.err));
    CHECK_EQ(get_session(session).state, PAL_SESSION_TRASH);
    pal_clock_set_ms(NOW + DAY);
    OK(pal_store_sweep(test.store, 0, 10, NULL, &test.err));
    GIVES(PAL_NOT_FOUND, find_id_status(session));
}

/* The new session takes the key of the expired one, which is moved to the trash. */
static void a_name_is_taken_from_an_expired_session(void)
{
    pal_session session = {.key = S("k"), .expires_at = NOW + 10};
    pal_id id, other;

    OK(pal_store_create(test.store, &session, &id, &test.err));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(get_session(id).state, PAL_SESSION_ACTIVE);
    pal_clock_set_ms(NOW + 20);
    CHECK_EQ(get_session(id).state, PAL_SESSION_TRASH);
    OK(pal_store_create(test.store, &(pal_session){.key = S("k")}, &other, &test.err));
    pal_clock_set_ms(NOW); /* a clock can be set back */
    CHECK_EQ(get_session(id).state, PAL_SESSION_TRASH);
    CHECK_EQ(get_session(id).deleted_at, NOW + 20);
    pal_clock_set_ms(NOW);
}

static void memory_is_bounded(void)
{
    enum { SESSIONS = 200, BYTES_MAX = 16 * 4096 };
    pal_id sessions[SESSIONS];

    open_traced(BYTES_MAX);
    for (size_t i = 0; i < SESSIONS; i++) {
        sessions[i] = new_session();
        say_words(sessions[i], "one two three four five six seven");
        for (int j = 0; j < 3; j++)
            CHECK(shows(sessions[i], "one two three four five six seven"));
        CHECK_THAT(stats().cache_bytes, <=, BYTES_MAX);
        pal_arena_reset(test.arena);
    }
    CHECK_THAT(stats().cache_bytes, >, BYTES_MAX / 4);
    for (size_t i = 0; i < SESSIONS; i++)
        CHECK(shows(sessions[i], "one two three four five six seven"));
}

static void a_walk_over_many_sessions_replaces_nothing(void)
{
    enum { WALKED = 1000, HOT = 16 };
    static pal_id walked[WALKED], hot[HOT];
    unsigned read = 0;

    open_traced(16 * 65536);
    for (size_t i = 0; i < WALKED; i++) {
        walked[i] = new_session();
        say_words(walked[i], "one two three four five six seven");
        pal_arena_reset(test.arena);
    }
    for (size_t i = 0; i < HOT; i++)
        hot[i] = hot_session("a b c");
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < WALKED; i++) {
            (void)calls_of(walked[i], &tail);
            pal_arena_reset(test.arena);
        }
    for (size_t i = 0; i < HOT; i++)
        read += calls_of(hot[i], &tail);
    CHECK_THAT(read, <=, HOT / 2); /* ids are random, so some parts of the memory get few sessions */
}

static void a_long_session_keeps_its_newest_rows(void)
{
    pal_id session;
    char text[400];

    open_traced(16 * 8192);
    session = hot_session("a");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < 300; i++)
        CHECK_EQ(say(session, text), (uint64_t)i + 2);
    CHECK_THAT(stats().cache_bytes, <=, 8192);
    CHECK_EQ(calls_of(session, &(pal_message_query){.limit = 3, .from_end = true}), 0);
    CHECK_EQ(calls_of(session, &(pal_message_query){.limit = 100, .from_end = true}), 1);
}

static pal_status load_only_memory(pal_id session, uint32_t limit)
{
    pal_message_query load = {.limit = limit, .from_end = true, .only_memory = 1};
    pal_message_page page = {0};
    pal_status status = pal_store_load(
            test.store, no_tenant(), session, &load, test.arena, &page, &test.err);

    if (status == PAL_OK)
        CHECK_EQ(page.len, limit);
    return status;
}

static void a_load_from_memory_asks_no_backend(void)
{
    pal_message_query two = {.limit = 2, .from_end = true};
    pal_store_stats before;
    pal_id session;

    open_traced(0);
    session = new_session();
    for (int i = 0; i < 3; i++)
        GIVES(PAL_BUSY, load_only_memory(session, 2));
    say_words(session, "a b c d e");
    calls = 0;
    GIVES(PAL_BUSY, load_only_memory(session, 2));
    CHECK_EQ(calls, 0);
    (void)calls_of(session, &two);
    (void)calls_of(session, &two);
    before = stats();
    calls = 0;
    GIVES(PAL_BUSY, load_only_memory(session, 4)); /* its session is there, and not all its rows */
    OK(load_only_memory(session, 2));
    CHECK_EQ(calls, 0);
    CHECK_EQ(stats().cache_misses, before.cache_misses);
    CHECK_THAT(stats().cache_hits, >, before.cache_hits);
    GIVES(PAL_BUSY, load_only_memory((pal_id){{9}}, 1)); /* it does not know what does not exist */
    open_traced(PAL_CACHE_BYTES_NONE);
    GIVES(PAL_BUSY, load_only_memory(session, 2));
}

/* ---- Reads during commits ---- */

static pal_id raced;

static void append_one(void)
{
    say(raced, "late");
}

/* The message is committed after the backend has answered, and before the answer is kept. */
static void a_commit_during_a_read_is_not_forgotten(void)
{
    static const char *const reads[] = {"session_find", "row_scan", "mark_list"};

    for (size_t i = 0; i < 3; i++) {
        open_traced(0);
        raced = new_session();
        say_words(raced, "a b");
        CHECK_EQ(rewind_to(raced, 1), 1);
        hook = append_one;
        hooked = reads[i];
        (void)shown(raced, NULL);
        CHECK(!hooked);
        CHECK(shows(raced, "a late"));
        CHECK(shows(raced, "a late"));
    }
}

static void read_one(void)
{
    CHECK(shows(raced, "a late"));
}

/* The commit is durable, and its caller does not know it yet. Another process may. */
static void a_commit_is_shown_as_soon_as_it_is_durable(void)
{
    open_traced(0);
    raced = hot_session("a");
    hook = read_one;
    hooked = "apply";
    say(raced, "late");
    CHECK(!hooked);
    CHECK(shows(raced, "a late"));
}

/* ---- Another process ---- */

static void the_other_process_is_noticed(void)
{
    pal_id session;
    pal_mark mark = {.kind = PAL_MARK_REWIND, .seq = 3};
    pal_store *other = NULL;
    pal_message message = text_of(PAL_ROLE_USER, "d");

    open_traced(0);
    session = hot_session("a b c");
    OK(pal_store_open(test.url, NULL, &other, &test.err));
    CHECK_EQ(calls_of(session, &tail), 0);
    OK(pal_store_append(other, no_tenant(), session, &message, 1, PAL_SEQ_ANY, &test.err));
    CHECK(shows(session, "a b c d"));
    CHECK_EQ(say(session, "e"), 5);
    CHECK(shows(session, "a b c d e"));
    CHECK(shows(session, "a b c d e"));
    OK(pal_store_mark(other, no_tenant(), session, &mark, &test.err));
    CHECK(shows(session, "a b c"));
    OK(pal_store_erase_message(other, no_tenant(), session, 2, NULL, &test.err));
    CHECK(!says(session, "b"));
    CHECK(says(session, "c"));
    OK(pal_store_delete(other, no_tenant(), session, &test.err));
    CHECK_EQ(get_session(session).state, PAL_SESSION_TRASH);
    OK(pal_store_erase(other, no_tenant(), session, NULL, &test.err));
    GIVES(PAL_NOT_FOUND, find_id_status(session));
    pal_store_close(other);
}

int main(int argc, char **argv)
{
    char url[] = "sqlite:";
    char *own[] = {argv[0], url, NULL};

    (void)argc;
    if (!contract_begin(2, own, true))
        return 1;
    RUN(one_read_keeps_nothing);
    RUN(nothing_is_kept_without_a_cache);
    RUN(appends_and_marks_stay_in_memory);
    RUN(older_rows_join_the_newest_ones);
    RUN(a_bounded_walk_goes_back_only_as_far_as_it_must);
    RUN(an_erased_word_is_gone);
    RUN(a_sweep_of_nothing_keeps_everything);
    RUN(a_name_is_taken_from_an_expired_session);
    RUN(memory_is_bounded);
    RUN(a_walk_over_many_sessions_replaces_nothing);
    RUN(a_long_session_keeps_its_newest_rows);
    RUN(a_load_from_memory_asks_no_backend);
    RUN(a_commit_during_a_read_is_not_forgotten);
    RUN(a_commit_is_shown_as_soon_as_it_is_durable);
    RUN(the_other_process_is_noticed);
    return contract_end();
}
