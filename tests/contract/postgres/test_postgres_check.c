/* test_postgres_check.c - fsck in PostgreSQL: each kind of damage is found, and what can be derived
 * is repaired. Plain SQL statements make the damage, without the store. The server is that of
 * tools/pg-test. */
#include "postgres_store.h"

#include "store/search/search_block.h"

enum { ROWS = PAL_BLOCK_ROWS, TEXTS_MAX = 20 };

static struct findings {
    size_t len, repaired;
    char texts[TEXTS_MAX][PAL_ERROR_MESSAGE_MAX];
    pal_id sessions[TEXTS_MAX];
} found;

static void keep_finding(const pal_store_finding *finding, void *user)
{
    (void)user;
    if (found.len < TEXTS_MAX) {
        snprintf(found.texts[found.len], sizeof found.texts[0], "%s", finding->text);
        found.sessions[found.len] = finding->session;
    }
    found.len++;
    found.repaired += finding->repaired;
}

static uint64_t check(bool repair)
{
    uint64_t findings = 99;

    memset(&found, 0, sizeof found);
    OK(pal_store_check(test.store, repair, keep_finding, NULL, NULL, &findings, &test.err));
    CHECK_EQ(findings, found.len);
    return findings;
}

static bool print_found(void)
{
    for (size_t i = 0; i < found.len && i < TEXTS_MAX; i++)
        printf("#   found: %s\n", found.texts[i]);
    return false;
}

/* Exactly one finding, with this text. */
static void finds(const char *text)
{
    if (!CHECK_EQ(check(false), 1) || !CHECK_CONTAINS(found.texts[0], text))
        print_found();
}

/* Makes the damage, sees that it is found, and that a repair is complete. */
static void breaks_and_heals(const char *damage, const char *text)
{
    ask(damage);
    finds(text);
    CHECK_EQ(check(false), 1); /* nothing was changed */
    CHECK_EQ(check(true), 1);
    CHECK_EQ(found.repaired, 1);
    if (!CHECK_EQ(check(false), 0))
        print_found();
}

static void breaks(const char *damage, const char *text)
{
    ask(damage);
    finds(text);
    check(true);
    CHECK_EQ(found.repaired, 0);
}

/* A store with something in every table. */
static void fill(pal_id *out_session, pal_id *out_fork)
{
    pal_str aliases[] = {S("first"), S("second")};
    pal_session session = {.tenant = S("default"),
            .key = S("key"),
            .aliases = aliases,
            .aliases_len = 2};
    pal_session fork = {.tenant = S("default")};
    pal_part part = {.kind = PAL_PART_IMAGE};
    pal_message image = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_ledger_row row = {.request_id = S("r"), .agent = S("a"), .usage = {.input = 7}};
    pal_record record = {.kind = S("kind"), .name = S("name"), .body = S("{}")};
    pal_op op;

    open_empty();
    OK(pal_store_create(test.store, &session, out_session, &test.err));
    say_many(test.store, "default", *out_session, 1, 20, "word");
    part.media_type = S("image/png");
    part.data = S("an image");
    OK(pal_store_append(test.store, S(""), *out_session, &image, 1, PAL_SEQ_ANY, &test.err));
    OK(pal_store_fork(test.store, &fork, *out_session, 10, out_fork, &test.err));
    say_many(test.store, "default", *out_fork, 1, 5, "more");
    op = pal_op_ledger_add(S(""), *out_session, &row);
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    record.session = *out_session;
    OK(pal_store_record_put(test.store, S(""), &record, PAL_RECORD_VERSION_ANY, &test.err));
    if (!CHECK_EQ(check(false), 0))
        print_found();
}

#define OF_KEY " WHERE session = (SELECT session FROM session WHERE key = 'key')"
#define OF_FORK " WHERE session = (SELECT session FROM session WHERE parent IS NOT NULL)"

/* ---- Sessions ---- */

static void counts_are_corrected(void)
{
    pal_id session, fork;

    fill(&session, &fork);
    breaks_and_heals("UPDATE head SET tokens = tokens + 1" OF_KEY, "its counts were wrong");
    CHECK(pal_id_equal(found.sessions[0], session) || found.len == 0);
    breaks_and_heals("UPDATE head SET bytes = 0" OF_FORK, "its counts were wrong");
    breaks_and_heals("UPDATE head SET minute = minute - 9" OF_KEY, "its counts were wrong");
    breaks_and_heals("INSERT INTO mark(tenant, session, number, seq, through_seq, target,"
                     " created_at, kind, is_hiding) SELECT tenant, session, 1, 1, 1, 0, 1, 4, false"
                     " FROM head" OF_KEY, "its counts were wrong");
    /* A message that the head does not know is counted. */
    breaks_and_heals("UPDATE head SET last_seq = last_seq - 1" OF_FORK, "its counts were wrong");
    CHECK_EQ(ask("SELECT last_seq FROM head" OF_FORK), 15);
    close_store();
}

static void damaged_sessions_are_quarantined(void)
{
    static const struct damage {
        const char *statement, *text;
    } damages[] = {
            {"DELETE FROM message" OF_KEY " AND seq = 15", "messages 15 to 15 are missing"},
            {"DELETE FROM message" OF_KEY " AND seq > 18", "messages 19 to 21 are missing"},
            {"UPDATE message SET role = 9" OF_KEY " AND seq = 3", "message 3 is damaged"},
            {"UPDATE message SET body = '{\"parts\":', is_text = false" OF_KEY " AND seq = 4",
                    "message 4 is damaged"},
            {"UPDATE head SET last_seq = 30" OF_FORK, "messages 16 to 30 are missing"},
            {"INSERT INTO mark(tenant, session, number, seq, through_seq, target, created_at, kind,"
             " is_hiding) SELECT tenant, session, 2, 1, 1, 0, 1, 4, false FROM head" OF_KEY,
                    "marks are missing"},
            {"UPDATE session SET fork_seq = 9" OF_FORK, "messages 10 to 10 are missing"},
    };
    pal_id session, fork;

    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        fill(&session, &fork);
        if (strstr(damages[i].statement, "AND seq = 15") ||
                strstr(damages[i].statement, "AND seq > 18"))
            ask("DELETE FROM blob_ref; DELETE FROM blob; DELETE FROM blob_part");
        breaks_and_heals(damages[i].statement, damages[i].text);
        CHECK_EQ(ask("SELECT count(*) FROM head WHERE state = 3"), 1);
        close_store();
    }
}

static void a_fork_without_its_parent_is_found(void)
{
    pal_id session, fork;

    fill(&session, &fork);
    ask("DELETE FROM blob_ref; DELETE FROM blob; DELETE FROM blob_part");
    ask("DELETE FROM message" OF_KEY " AND seq > 5; UPDATE head SET last_seq = 5, tokens ="
        " (SELECT sum(tokens) FROM message" OF_KEY "), bytes ="
        " (SELECT sum(octet_length(body)) FROM message" OF_KEY ")" OF_KEY);
    finds("the messages that it shares are missing");
    CHECK(pal_id_equal(found.sessions[0], fork));
    close_store();
}

static void a_missing_head_is_added(void)
{
    pal_id session, fork;

    fill(&session, &fork);
    ask("DELETE FROM head" OF_FORK);
    finds("its state was missing");
    check(true);
    CHECK_EQ(found.repaired, found.len);
    if (!CHECK_EQ(check(false), 0))
        print_found();
    CHECK_EQ(ask("SELECT last_seq FROM head" OF_FORK), 15);
    close_store();
}

static void names_are_compared(void)
{
    pal_id session, fork;

    fill(&session, &fork);
    breaks("DELETE FROM alias WHERE alias = 'second'", "alias 'second' is in its list, but");
    ask("INSERT INTO alias SELECT tenant, 'second', session FROM session" OF_FORK);
    CHECK_EQ(check(false), 2); /* of both sessions */
    ask("UPDATE alias SET session = (SELECT session FROM session WHERE key = 'key')");
    CHECK_EQ(check(false), 0);
    breaks("UPDATE alias SET alias = 'third' WHERE alias = 'second'", "alias 'third' leads to it");
    ask("UPDATE alias SET alias = 'second' WHERE alias = 'third'");
    ask("DELETE FROM alias; UPDATE head SET state = 2" OF_KEY);
    finds("its key leads to it, but it is not in use");
    close_store();
}

/* ---- Rows of no session ---- */

static void rows_without_a_session_are_found(void)
{
    static const char *const tables[] = {"head", "message", "mark", "inbox"};
    static const char gone[] = "00000000-0000-4000-8000-00000000dead";
    char text[500];
    pal_id session, fork;

    fill(&session, &fork);
    ask("INSERT INTO inbox(tenant, session, number, item, created_at, body) SELECT tenant, session,"
        " 1, gen_random_uuid(), 1, '{}' FROM head" OF_KEY);
    ask("INSERT INTO mark(tenant, session, number, seq, through_seq, target, created_at, kind,"
        " is_hiding) SELECT tenant, session, 1, 1, 1, 0, 1, 4, false FROM head" OF_KEY
        "; UPDATE head SET mark_number = 1" OF_KEY);
    CHECK_EQ(check(false), 0);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        snprintf(text, sizeof text,
                "CREATE TEMP TABLE copy AS SELECT * FROM %s LIMIT 1; UPDATE copy SET session ="
                " '%s'", tables[i], gone);
        ask(text);
        if (strcmp(tables[i], "message") == 0)
            ask("UPDATE copy SET id = gen_random_uuid(), client_id = NULL");
        snprintf(text, sizeof text, "INSERT INTO %s SELECT * FROM copy; DROP TABLE copy",
                tables[i]);
        breaks(text, "does not exist, but has");
        snprintf(text, sizeof text, "DELETE FROM %s WHERE session = '%s'", tables[i], gone);
        ask(text);
    }
    ask("INSERT INTO blob_ref SELECT tenant, hash, '00000000-0000-4000-8000-00000000dead', 1"
        " FROM blob");
    CHECK_EQ(check(false), 2); /* also a reference without a message */
    CHECK_CONTAINS(found.texts[0], "does not exist, but has references to blobs");
    CHECK_CONTAINS(found.texts[1], "is kept for a message that does not exist");
    ask("DELETE FROM blob_ref WHERE seq = 1");
    breaks_and_heals("INSERT INTO alias SELECT tenant, 'stray',"
                     " '00000000-0000-4000-8000-00000000dead' FROM tenant WHERE name = 'default'",
            "does not exist, but has aliases");
    breaks_and_heals("UPDATE record SET session = '00000000-0000-4000-8000-00000000dead'",
            "does not exist, but has records");
    close_store();
}

/* ---- Blobs ---- */

static void blobs_are_compared_with_their_hash(void)
{
    pal_id session, fork;

    fill(&session, &fork);
    breaks("UPDATE blob_part SET data = 'an imagf'", "is damaged");
    breaks("UPDATE blob_part SET data = 'an imag'", "is damaged");
    breaks("DELETE FROM blob_part", "is damaged");
    breaks("INSERT INTO blob_part SELECT tenant, hash, 0, 'an image' FROM blob; DELETE FROM blob;"
           " DELETE FROM blob_ref", "does not exist, but has data");
    ask("DELETE FROM blob_part");
    CHECK_EQ(check(false), 0);
    breaks("INSERT INTO blob_ref SELECT tenant, '\\x00', session, 21 FROM head" OF_KEY,
            "is missing, and a message refers to it");
    close_store();
    fill(&session, &fork);
    breaks("UPDATE blob_ref SET seq = 99", "is kept for a message that does not exist");
    close_store();
}

/* ---- The ledger ---- */

static void sums_are_corrected(void)
{
    pal_ledger_query query = {.tenant = S("default"), .to = INT64_MAX};
    pal_ledger_sum sum = {0};
    pal_id session, fork;

    fill(&session, &fork);
    breaks_and_heals("UPDATE ledger_hour SET input = input + 5 WHERE agent = ''",
            "the sums of the ledger of tenant 'default' were wrong");
    OK(pal_store_ledger_sum(test.store, &query, &sum, &test.err));
    CHECK_EQ(sum.usage.input, 7);
    breaks_and_heals("UPDATE ledger_hour SET calls = 0 WHERE agent = 'a'",
            "the sums of the ledger of tenant 'default' were wrong");
    breaks_and_heals("DELETE FROM ledger_hour", "the sums of the ledger");
    breaks_and_heals("INSERT INTO ledger_hour SELECT tenant, 'a', 5, 3, 1, 1, 1, 1, 1, 1, 1"
                     " FROM tenant WHERE name = 'default'", "the sums of the ledger");
    OK(pal_store_ledger_sum(test.store, &query, &sum, &test.err));
    CHECK_EQ(sum.usage.input, 7);
    CHECK_EQ(sum.calls, 1);
    close_store();
}

/* ---- The search index ---- */

static void the_index_is_compared(void)
{
    static const struct damage {
        const char *statement, *text;
    } damages[] = {
            {"UPDATE search SET chunk = '\\xff' WHERE level = 0 AND block = 3 AND term = ''",
                    "a block of the search index"},
            {"DELETE FROM search WHERE level = 0 AND block = 4 AND term <> ''",
                    "a block of the search index"},
            {"UPDATE search_block SET positions = '\\x01' WHERE level = 0 AND block = 5",
                    "a block of the search index"},
            {"UPDATE search_block SET wide = '\\x01' WHERE level = 0 AND block = 5",
                    "a block of the search index"},
            {"DELETE FROM search WHERE level = 1 AND term = ''", "a summary of the search index"},
            {"DELETE FROM search_block WHERE level = 1", "the list of blocks"},
            {"UPDATE search_block SET first_pos = first_pos + 1 WHERE level = 0 AND block = 2",
                    "the list of blocks"},
            {"UPDATE search_tenant SET indexed_pos = indexed_pos + 1", "the list of blocks"},
            {"INSERT INTO search SELECT tenant, 0, 99, '', '' FROM search_tenant",
                    "words of a block that does not exist"},
    };
    pal_id session;

    open_empty();
    session = session_of("default");
    say_many(test.store, "default", session, 1, 17 * ROWS + 3, "common");
    index_all();
    CHECK_EQ(check(false), 0);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        ask(damages[i].statement);
        /* A damaged block has another summary, and a missing summary leaves its words. */
        CHECK_THAT(check(false), <=, 2);
        CHECK_CONTAINS(found.texts[0], damages[i].text);
        check(true);
        CHECK_EQ(found.repaired, found.len);
        if (!CHECK_EQ(check(false), 0))
            print_found();
        index_all();
        CHECK_EQ(ask("SELECT count(*) FROM search_block WHERE is_built"), 18);
        CHECK_EQ(hits_of("n4000"), 1);
    }
    close_store();
}

/* A program of the version before erases messages, but knows nothing of the index. */
static void words_of_an_older_program_are_found(void)
{
    pal_id session;

    open_empty();
    session = session_of("default");
    say_many(test.store, "default", session, 1, ROWS, "zzgoneword");
    index_all();
    ask("DELETE FROM message; DELETE FROM head; DELETE FROM session");
    finds("a block of the search index");
    CHECK_EQ(check(true), 1);
    CHECK_EQ(ask("SELECT count(*) FROM search"), 0);
    index_all();
    CHECK_EQ(check(false), 0);
    close_store();
}

/* ---- While the store is in use ---- */

static void pages_fit_together(void)
{
    static pal_op ops[300];
    static pal_session sessions[300];
    pal_message messages[2];

    open_empty();
    for (size_t i = 0; i < 300; i++) {
        sessions[i] = (pal_session){.tenant = S(i % 3 == 0 ? "default" : "other")};
        ops[i] = pal_op_create(&sessions[i]);
    }
    OK(pal_store_apply(test.store, ops, 300, &test.err));
    for (size_t i = 0; i < 300; i++) {
        messages[0] = pal_message_text(test.arena, PAL_ROLE_USER, S("one"));
        messages[1] = pal_message_text(test.arena, PAL_ROLE_ASSISTANT, S("two"));
        OK(pal_store_append(test.store, sessions[i].tenant, ops[i].session, messages, 2,
                PAL_SEQ_ANY, &test.err));
    }
    say_many(test.store, "default", ops[0].session, 1, 700, "many");
    CHECK_EQ(check(false), 0);
    ask("UPDATE head SET tokens = 0");
    CHECK_EQ(check(false), 300);
    CHECK_EQ(check(true), 300);
    CHECK_EQ(check(false), 0);
    close_store();
}

int main(void)
{
    if (!postgres_begin("check"))
        return 0;
    RUN(counts_are_corrected);
    RUN(damaged_sessions_are_quarantined);
    RUN(a_fork_without_its_parent_is_found);
    RUN(a_missing_head_is_added);
    RUN(names_are_compared);
    RUN(rows_without_a_session_are_found);
    RUN(blobs_are_compared_with_their_hash);
    RUN(sums_are_corrected);
    RUN(the_index_is_compared);
    RUN(words_of_an_older_program_are_found);
    RUN(pages_fit_together);
    return postgres_end();
}
