/* test_sqlite_outside.c - the engine notices every commit of others, and no commit of its own. */
#include "store/sqlite/sqlite.h"
#include "support/sqlite_file.h"

static pal_store *other;
static pal_id session;

static pal_sqlite *engine(void)
{
    return (pal_sqlite *)*pal_store_engine(test.store);
}

static uint64_t number(void)
{
    return pal_sqlite_outside(&engine()->engine);
}

static void append_to(pal_store *store)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("words")};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};

    OK(pal_store_append(store, (pal_str){0}, session, &message, 1, PAL_SEQ_ANY, &test.err));
}

static void begin(void)
{
    pal_session record = {0};

    open_store(false);
    OK(pal_store_open(test.url, NULL, &other, &test.err));
    OK(pal_store_create(test.store, &record, &session, &test.err));
    append_to(test.store);
}

static void end(void)
{
    pal_store_close(other);
    close_store();
    file_clear();
}

static void own_commits_change_nothing(void)
{
    uint64_t before;

    begin();
    before = number();
    CHECK_THAT(before, >, 0);
    for (int i = 0; i < 50; i++) {
        append_to(test.store);
        CHECK_EQ(number(), before);
    }
    OK(pal_store_sweep(test.store, -1, 1, NULL, &test.err)); /* commits nothing */
    CHECK_EQ(number(), before);
    end();
}

static void commits_of_others_change_the_number(void)
{
    uint64_t before, after;

    begin();
    before = number();
    append_to(other);
    after = number();
    CHECK(after != before);
    CHECK_EQ(number(), after);
    append_to(other);
    append_to(test.store); /* the writer notices it first */
    CHECK(number() != after);
    after = number();
    append_to(test.store);
    CHECK_EQ(number(), after);
    end();
}

static int commit_of_other(void *user, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    (void)pages;
    sqlite3_wal_hook(engine()->writer.db, NULL, NULL);
    *(uint64_t *)user = number();
    append_to(other);
    return SQLITE_OK;
}

/* SQLite calls the hook after the commit, when the write lock is free. The engine has not looked at
 * the new state yet. */
static void a_commit_directly_after_its_own_is_noticed(void)
{
    uint64_t before, between = 1;

    begin();
    before = number();
    sqlite3_wal_hook(engine()->writer.db, commit_of_other, &between);
    append_to(test.store);
    CHECK_EQ(between, 0);
    CHECK(number() != before);
    end();
}

static void a_rollback_changes_nothing_that_is_seen(void)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("words")};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    uint64_t before;

    begin();
    before = number();
    CHECK_STATUS(pal_store_append(
                         test.store, (pal_str){0}, session, &message, 1, 77, &test.err),
            PAL_CONFLICT);
    CHECK_EQ(number(), before);
    append_to(test.store);
    CHECK_EQ(number(), before);
    end();
}

/* The WAL begins again from its start, with other salts. */
static void a_new_wal_is_no_commit(void)
{
    uint64_t before;

    begin();
    before = number();
    CHECK_EQ(sqlite3_wal_checkpoint_v2(
                     engine()->writer.db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL),
            SQLITE_OK);
    append_to(test.store);
    CHECK_EQ(number(), before);
    append_to(other);
    CHECK(number() != before);
    end();
}

static void a_store_that_was_opened_for_reading_knows_nothing(void)
{
    begin();
    close_store();
    OK(pal_store_open(
            test.url, &(pal_store_options){.read_only = true}, &test.store, &test.err));
    CHECK_EQ(number(), 0);
    end();
}

int main(void)
{
    file_begin();
    RUN(own_commits_change_nothing);
    RUN(commits_of_others_change_the_number);
    RUN(a_commit_directly_after_its_own_is_noticed);
    RUN(a_rollback_changes_nothing_that_is_seen);
    RUN(a_new_wal_is_no_commit);
    RUN(a_store_that_was_opened_for_reading_knows_nothing);
    return file_done();
}
