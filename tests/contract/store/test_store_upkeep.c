/* test_store_upkeep.c - opening, statistics, the check, and the trace. */
#include "contract/contract.h"

static void the_statistics_count(void)
{
    pal_session other = {.tenant = S("other")};
    pal_store_stats stats = {0};
    pal_id a = new_session(), b = new_session(), c;
    char name[PAL_BLOB_NAME_SIZE];

    OK(pal_store_create(test.store, &other, &c, &test.err));
    say_words(a, "x y");
    say(b, "z");
    OK(pal_store_delete(test.store, no_tenant(), b, &test.err));
    OK(pal_store_blob_put(test.store, no_tenant(), S("t"), S("12345"), name, &test.err));
    OK(pal_store_stat(test.store, test.arena, &stats, &test.err));
    CHECK_EQ(stats.sessions_active, 2);
    CHECK_EQ(stats.sessions_trash, 1);
    CHECK_EQ(stats.sessions_quarantined, 0);
    CHECK_EQ(stats.messages, 3);
    CHECK_EQ(stats.tenants, 2);
    CHECK_EQ(stats.content_bytes, get_session(a).bytes + get_session(b).bytes);
    CHECK_EQ(stats.blobs, 1);
    CHECK_EQ(stats.blob_bytes, 5);
    CHECK_EQ(stats.ops, 8);
    CHECK_THAT(stats.commits, >, 0);
    CHECK_THAT(stats.backend.len, >, 0);
    CHECK_BEGINS(test.url, stats.backend);
}

static void a_sound_store_has_no_findings(void)
{
    pal_id a = new_session(), b;
    uint64_t findings = 99;

    say_words(a, "x y z");
    rewind_to(a, 1);
    b = fork_at(a, 2);
    say(b, "w");
    OK(pal_store_erase(test.store, no_tenant(), a, NULL, &test.err));
    OK(pal_store_check(test.store, false, NULL, NULL, NULL, &findings, &test.err));
    CHECK_EQ(findings, 0);
    OK(pal_store_check(test.store, true, NULL, NULL, NULL, &findings, &test.err));
    CHECK_EQ(findings, 0);
    CHECK(shows(b, "x y w"));
}

static unsigned traced;

static void trace(const char *call, size_t ops, int64_t duration_us, pal_status status, void *user)
{
    traced++;
    if (strcmp(call, "apply") == 0 && (ops != 1 || duration_us < 0 || status != PAL_OK))
        *(unsigned *)user += 1;
}

static void calls_are_traced(void)
{
    unsigned wrong = 0;
    pal_store_options options = {.trace = trace, .trace_user = &wrong};
    pal_id id;

    traced = 0;
    contract_open_with(&options);
    id = new_session();
    say(id, "x");
    CHECK_THAT(traced, >=, 2);
    CHECK_EQ(wrong, 0);
    traced = 0;
    CHECK(shows(id, "x"));
    CHECK_THAT(traced, >=, 2);
    CHECK_EQ(wrong, 0);
}

static void an_invalid_url_is_refused(void)
{
    pal_store *other = NULL;

    GIVES(PAL_INVALID, pal_store_open("nonsense:x", NULL, &other, &test.err));
    GIVES(PAL_INVALID, pal_store_open("", NULL, &other, &test.err));
    GIVES(PAL_INVALID, pal_store_open(NULL, NULL, &other, &test.err));
    GIVES(PAL_INVALID, pal_store_open("memory:?cap=0", NULL, &other, &test.err));
    GIVES(PAL_INVALID, pal_store_open("memory:?cap=-1", NULL, &other, &test.err));
    GIVES(PAL_INVALID, pal_store_open("memory:?cap=5x", NULL, &other, &test.err));
    GIVES(PAL_INVALID, pal_store_open("memory:elsewhere", NULL, &other, &test.err));
    CHECK_PTR(other, NULL);
    pal_store_close(NULL);
}

/* `err` may be NULL in every call. */
static void an_error_may_be_ignored(void)
{
    pal_id id = new_session(), owner;
    pal_message message = {.role = PAL_ROLE_USER};
    pal_session found;

    CHECK_STATUS(pal_store_append(test.store, no_tenant(), id, &message, 1, 7, NULL), PAL_CONFLICT);
    CHECK_STATUS(pal_store_delete(test.store, no_tenant(), pal_id_new(), NULL), PAL_NOT_FOUND);
    CHECK_STATUS(pal_store_find(test.store, no_tenant(), PAL_SESSION_BY_KEY, S("k"), test.arena,
                         &found, NULL),
            PAL_NOT_FOUND);
    CHECK_STATUS(pal_store_message(
                         test.store, no_tenant(), pal_id_new(), test.arena, &message, &owner, NULL),
            PAL_NOT_FOUND);
}

static void a_capped_session_keeps_its_newest(void)
{
    pal_store_options options = {0};
    char saved[sizeof test.url];
    pal_message again = text_of(PAL_ROLE_USER, "e");
    pal_id id;

    memcpy(saved, test.url, sizeof saved);
    snprintf(test.url, sizeof test.url, "memory:?cap=3");
    contract_open_with(&options);
    memcpy(test.url, saved, sizeof saved);
    id = new_session();
    say_words(id, "a b c d");
    CHECK(shows(id, "b c d"));
    again.client_id = S("c");
    OK(pal_store_append(test.store, no_tenant(), id, &again, 1, 4, &test.err));
    CHECK_EQ(again.seq, 5);
    if (CHECK(shows(id, "c d e")))
        CHECK_EQ(get_session(id).last_seq, 5);
    for (int i = 0; i < 50; i++)
        say(id, "x");
    CHECK_EQ(say(id, "y"), 56);
    CHECK(shows(id, "x x y"));
    CHECK_EQ(count_messages(), 3);
    OK(pal_store_erase(test.store, no_tenant(), id, NULL, &test.err));
    CHECK_EQ(count_messages(), 0);
}

void contract_upkeep(void)
{
    RUN(the_statistics_count);
    RUN(a_sound_store_has_no_findings);
    RUN(calls_are_traced);
    RUN(an_invalid_url_is_refused);
    RUN(an_error_may_be_ignored);
    RUN(a_capped_session_keeps_its_newest);
}
