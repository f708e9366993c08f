/* test_search_groups.c - the summaries of the search index: a word that does not occur costs few
 * lookups, all other words are found through the summaries, and summaries are removed with the
 * messages that they describe. */
#include <stdlib.h>
#include <string.h>

#include "store/sqlite/sqlite.h"
#include "support/sqlite_file.h"

enum { ROWS = PAL_BLOCK_ROWS, BLOCKS = 36, BATCH = 1024, WIDE_LEN = 300 << 10 };

static const pal_str default_tenant = {NULL, 0};

static void begin(void)
{
    pal_store_options options = {.estimate = true};

    file_clear();
    OK(pal_store_open(test.url, &options, &test.store, &test.err));
}

static pal_id new_session(const char *tenant)
{
    pal_session session = {.tenant = pal_str_of(tenant)};
    pal_id id = {{0}};

    OK(pal_store_create(test.store, &session, &id, &test.err));
    return id;
}

/* Appends messages "n<number> <word>". */
static void say_many(const char *tenant, pal_id session, int first, int count, const char *word)
{
    static char texts[BATCH][64];
    static pal_part parts[BATCH];
    static pal_message messages[BATCH];

    for (int done = 0; done < count;) {
        int len = 0;

        for (; len < BATCH && done < count; len++, done++) {
            snprintf(texts[len], sizeof texts[len], "n%d %s", first + done, word);
            parts[len] = (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_of(texts[len])};
            messages[len] = (pal_message){
                    .role = PAL_ROLE_USER, .parts = &parts[len], .parts_len = 1};
        }
        OK(pal_store_append(test.store, pal_str_of(tenant), session, messages, (size_t)len,
                PAL_SEQ_ANY, &test.err));
    }
}

static size_t count_in(const char *tenant, const char *text)
{
    pal_search_query search = {
            .tenant = pal_str_of(tenant), .text = pal_str_of(text), .limit = PAL_SEARCH_HITS_MAX};
    pal_search_page hits = {0};

    OK(pal_store_search(test.store, &search, test.arena, &hits, &test.err));
    return hits.len;
}

static size_t count_of(const char *text)
{
    return count_in("default", text);
}

static uint64_t check(bool repair)
{
    uint64_t findings = 99;

    OK(pal_store_check(test.store, repair, NULL, NULL, NULL, &findings, &test.err));
    return findings;
}

/* The number of index lookups by all readers since the last call. */
static int looks(void)
{
    pal_sqlite *self = (pal_sqlite *)*pal_store_engine(test.store);
    int runs = 0;

    for (uint32_t i = 0; i < self->options.readers_max; i++) {
        sqlite3_stmt *stmt = self->readers[i].statements[PAL_SQL_SEARCH_TERM];

        if (stmt)
            runs += sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_RUN, 1);
    }
    return runs;
}

static void a_word_that_is_nowhere_costs_a_few_looks(void)
{
    pal_id session;

    begin();
    session = new_session("default");
    say_many("default", session, 1, BLOCKS * ROWS, "common");
    OK(pal_store_index(test.store, UINT32_MAX, NULL, &test.err));
    CHECK_EQ(ask("SELECT count(*) FROM search_group"), BLOCKS / 16);
    looks();
    CHECK_EQ(count_of("nowhere"), 0);
    CHECK_THAT(looks(), <=, 2 * (BLOCKS / 16) + BLOCKS % 16);
    CHECK_EQ(count_of("n5000"), 1);
    CHECK_THAT(looks(), <=, 2 * (BLOCKS / 16) + BLOCKS % 16 + 4);
    close_store();
}

static void all_others_are_found(void)
{
    bool found = true;
    pal_id session, other;

    begin();
    session = new_session("default");
    other = new_session("other");
    say_many("default", session, 1, 20 * ROWS, "common");
    say_many("other", other, 1, 3 * ROWS, "theirs");
    say_many("default", session, 20 * ROWS + 1, 14 * ROWS, "later");
    for (int i = 1; i <= 34 * ROWS && found; i += 997) {
        char text[64];

        snprintf(text, sizeof text, "n%d", i);
        found = CHECK_EQ(count_of(text), 1);
        snprintf(text, sizeof text, "\"n%d %s\"", i, i > 20 * ROWS ? "later" : "common");
        found = found && CHECK_EQ(count_of(text), 1);
    }
    CHECK_EQ(count_of("n1777*"), 11);
    CHECK_EQ(count_of("theirs"), 0);
    CHECK_EQ(count_in("other", "later"), 0);
    CHECK_EQ(count_in("other", "theirs n3000"), 1);
    CHECK_EQ(check(false), 0);
    close_store();
}

/* Every search reads a text that is too long for the index. */
static void long_texts_are_found(void)
{
    char *text = malloc(WIDE_LEN + 1);
    pal_part part = {.kind = PAL_PART_TEXT};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_id session;

    begin();
    session = new_session("default");
    memset(text, 'x', WIDE_LEN);
    memcpy(text + WIDE_LEN - 8, " needle ", 8);
    text[WIDE_LEN] = 0;
    part.text = pal_str_of(text);
    say_many("default", session, 1, 3000, "common");
    OK(pal_store_append(test.store, default_tenant, session, &message, 1, PAL_SEQ_ANY, &test.err));
    say_many("default", session, 3001, 16 * ROWS, "common");
    OK(pal_store_index(test.store, UINT32_MAX, NULL, &test.err));
    CHECK_EQ(ask("SELECT count(*) FROM search_group"), 1);
    CHECK_EQ(count_of("needle"), 1);
    CHECK_EQ(check(false), 0);
    close_store();
    free(text);
}

static void erased_words_are_in_no_summary(void)
{
    static const char has_word[] =
            "SELECT count(*) FROM search WHERE instr(chunk, CAST('zzgoneword' AS BLOB))";
    pal_id kept, gone;

    begin();
    kept = new_session("default");
    gone = new_session("default");
    say_many("default", kept, 1, 5 * ROWS, "kept");
    say_many("default", gone, 1, 10, "zzgoneword");
    say_many("default", kept, 5 * ROWS + 1, 30 * ROWS, "kept");
    CHECK_EQ(count_of("zzgoneword"), 10);
    CHECK_EQ(ask("SELECT count(*) FROM search_group"), 2);
    CHECK_THAT(ask(has_word), >, 1); /* in its block and in its group */
    OK(pal_store_erase(test.store, default_tenant, gone, NULL, &test.err));
    CHECK_EQ(ask(has_word), 0);
    CHECK_EQ(ask("SELECT count(*) FROM search_group"), 1);
    CHECK_EQ(count_of("zzgoneword"), 0);
    CHECK_EQ(count_of("n700"), 1);
    CHECK_EQ(count_of("n35000"), 1);
    CHECK_EQ(ask("SELECT count(*) FROM search_group"), 2);
    CHECK_EQ(check(false), 0);
    close_store();
}

static void damage_hides_nothing_and_is_repaired(void)
{
    pal_id session;

    begin();
    session = new_session("default");
    say_many("default", session, 1, 20 * ROWS, "common");
    CHECK_EQ(count_of("n7"), 1);
    CHECK_EQ(ask("UPDATE search SET chunk = x'ffffffffff' WHERE block < 0"), 0);
    CHECK_EQ(count_of("n700"), 1);
    CHECK_EQ(count_of("n19000"), 1);
    CHECK_EQ(count_of("nowhere"), 0);
    CHECK_EQ(check(false), 1);
    CHECK_EQ(check(true), 1);
    CHECK_EQ(check(false), 0);
    CHECK_EQ(count_of("n700"), 1);
    CHECK_EQ(ask("SELECT count(*) FROM search_group"), 1);
    CHECK(run("DELETE FROM search_group"));
    CHECK_THAT(check(true), >, 0);
    CHECK_EQ(check(false), 0);
    CHECK_EQ(count_of("n700"), 1);
    close_store();
}

static void parts_can_be_added_bit_by_bit(void)
{
    bool more = false;
    pal_id session;

    begin();
    session = new_session("default");
    say_many("default", session, 1, 5 * ROWS, "common");
    if (OK(pal_store_index(test.store, 2, &more, &test.err)))
        CHECK(more);
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), 2);
    if (OK(pal_store_index(test.store, 100, &more, &test.err)))
        CHECK(!more);
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), 5);
    CHECK_EQ(ask("SELECT blocks FROM search_state"), 5);
    close_store();
}

/* ---- Counts ---- */

static pal_store_stats stats_now(void)
{
    pal_store_stats stats = {0};

    OK(pal_store_stat(test.store, test.arena, &stats, &test.err));
    CHECK_EQ(check(false), 0); /* which counts all of it */
    return stats;
}

static void counts_follow_every_change(void)
{
    pal_session with_key = {.key = pal_str_of("k")}, fork = {.tenant = default_tenant};
    pal_record record = {
            .kind = pal_str_of("key"), .name = pal_str_of("k"), .body = pal_str_of("{}")};
    pal_store_stats stats;
    pal_id one, two, three;

    begin();
    stats = stats_now();
    CHECK_EQ(stats.tenants, 0);
    CHECK_EQ(stats.messages, 0);
    OK(pal_store_record_put(test.store, pal_str_of("\001own"), &record, 0, &test.err));
    CHECK_EQ(stats_now().tenants, 0);
    one = new_session("default");
    two = new_session("acme");
    say_many("default", one, 1, 10, "word");
    say_many("acme", two, 1, 5, "word");
    OK(pal_store_fork(test.store, &fork, one, 5, &three, &test.err));
    OK(pal_store_blob_put(test.store, default_tenant, pal_str_of("text/plain"), pal_str_of("bytes"),
            NULL, &test.err));
    OK(pal_store_create(test.store, &with_key, NULL, &test.err));
    CHECK_STATUS(pal_store_create(test.store, &with_key, NULL, &test.err), PAL_CONFLICT, &test.err);
    stats = stats_now();
    CHECK_EQ(stats.tenants, 2);
    CHECK_EQ(stats.messages, 15);
    CHECK_EQ(stats.sessions_active, 4);
    CHECK_EQ(stats.blobs, 1);
    CHECK_EQ(stats.blob_bytes, 5);
    CHECK_EQ(stats.content_bytes, 9 * 7 + 8 + 5 * 7);
    OK(pal_store_delete(test.store, default_tenant, three, &test.err));
    stats = stats_now();
    CHECK_EQ(stats.sessions_active, 3);
    CHECK_EQ(stats.sessions_trash, 1);
    OK(pal_store_restore(test.store, default_tenant, three, &test.err));
    OK(pal_store_erase(test.store, default_tenant, one, NULL, &test.err));
    stats = stats_now();
    CHECK_EQ(stats.sessions_active, 3);
    CHECK_EQ(stats.messages, 10);
    CHECK_EQ(stats.content_bytes, 10 * 7);
    OK(pal_store_erase(test.store, default_tenant, three, NULL, &test.err));
    close_store();
    begin();
    close_store();
}

static void wrong_counts_are_found_and_repaired(void)
{
    begin();
    new_session("default");
    CHECK(run("UPDATE counter SET messages = 7"));
    CHECK_EQ(check(false), 1);
    CHECK_EQ(check(true), 1);
    CHECK_EQ(check(false), 0);
    close_store();
}

int main(void)
{
    file_begin();
    RUN(a_word_that_is_nowhere_costs_a_few_looks);
    RUN(all_others_are_found);
    RUN(long_texts_are_found);
    RUN(erased_words_are_in_no_summary);
    RUN(damage_hides_nothing_and_is_repaired);
    RUN(parts_can_be_added_bit_by_bit);
    RUN(counts_follow_every_change);
    RUN(wrong_counts_are_found_and_repaired);
    return file_done();
}
