/* test_sqlite_gather.c - what a commit writes to the WAL goes there at once; and what was kept back
 * for that is never written after its transaction. */
#include "store/sqlite/sqlite.h"
#include "support/sqlite_file.h"

#define MESSAGES 40

static sqlite3_io_methods counting;
static const sqlite3_io_methods *real;
static int writes;
static bool is_full;

static int count_write(sqlite3_file *file, const void *data, int len, sqlite3_int64 at)
{
    writes++;
    return is_full ? SQLITE_FULL : real->xWrite(file, data, len, at);
}

static pal_sqlite *engine(void)
{
    return (pal_sqlite *)*pal_store_engine(store);
}

/* A store with one session, whose writes to the WAL are counted below the gathering. */
static pal_id begin(void)
{
    pal_session session = {0};
    pal_id id = {{0}};

    open_store(false);
    CHECK(fine(pal_store_create(store, &session, &id, &err)));
    real = engine()->gather.real;
    CHECK(real != NULL);
    counting = *real;
    counting.xWrite = count_write;
    engine()->gather.real = &counting;
    writes = 0;
    is_full = false;
    return id;
}

/* SQLite closes the file by the methods that it was opened with. */
static void end(void)
{
    engine()->gather.real = real;
    close_store();
    file_clear();
}

static pal_status append(pal_id session, size_t len)
{
    static char text[3000];
    pal_part parts[MESSAGES];
    pal_message messages[MESSAGES];

    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < len; i++) {
        parts[i] = (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_make(text, sizeof text)};
        messages[i] = (pal_message){.role = PAL_ROLE_USER, .parts = &parts[i], .parts_len = 1};
    }
    return pal_store_append(store, (pal_str){0}, session, messages, len, PAL_SEQ_ANY, &err);
}

static void a_commit_is_written_at_once(void)
{
    pal_id session = begin();

    CHECK(fine(append(session, 4)));
    CHECK_EQ(writes, 1);
    writes = 0;
    CHECK(fine(append(session, MESSAGES))); /* more than is kept */
    CHECK_EQ(writes, 2);
    CHECK_EQ(ask("SELECT count(*) FROM message"), 4 + MESSAGES);
    end();
}

static void what_cannot_be_written_fails_the_commit(void)
{
    pal_id session = begin();

    CHECK(fine(append(session, 1)));
    is_full = true;
    CHECK_STATUS(append(session, 4), PAL_FULL);
    CHECK_STATUS(append(session, MESSAGES), PAL_FULL);
    CHECK_EQ(ask("SELECT count(*) FROM message"), 1);
    is_full = false;
    CHECK(fine(append(session, 2)));
    CHECK_EQ(ask("SELECT count(*) FROM message"), 3);
    CHECK_EQ(ask("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check != 'ok'"), 0);
    end();
}

/* Even if the disk takes the next write again. */
static void nothing_is_written_behind_what_failed(void)
{
    static const char page[4096];
    pal_id session = begin();
    sqlite3_file *file = NULL;
    sqlite3 *db = engine()->writer.db;

    CHECK(fine(append(session, 1)));
    CHECK_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file), SQLITE_OK);
    CHECK_EQ(file->pMethods->xWrite(file, page, sizeof page, 1 << 20), SQLITE_OK); /* kept */
    is_full = true;
    CHECK_EQ(file->pMethods->xWrite(file, page, sizeof page, 0), SQLITE_FULL);
    is_full = false;
    CHECK_EQ(file->pMethods->xWrite(file, page, sizeof page, 1 << 20), SQLITE_FULL);
    CHECK_EQ(file->pMethods->xSync(file, SQLITE_SYNC_NORMAL), SQLITE_FULL);
    CHECK_EQ(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    CHECK(fine(append(session, 1)));
    CHECK_EQ(ask("SELECT count(*) FROM message"), 2);
    end();
}

/* With hardly a cache SQLite writes pages to the WAL long before the commit. To roll back it reads
 * nothing of a WAL that was empty before. */
static void what_is_rolled_back_is_forgotten(void)
{
    pal_id session = begin();
    sqlite3 *db = engine()->writer.db;

    CHECK(fine(append(session, 1)));
    CHECK_EQ(sqlite3_exec(db,
                     "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA cache_size = 20; BEGIN IMMEDIATE;"
                     "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)"
                     "INSERT INTO blob_data SELECT i, zeroblob(3000) FROM n",
                     NULL, NULL, NULL),
            SQLITE_OK);
    CHECK_THAT(engine()->gather.len, >, 0);
    CHECK_EQ(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQ(engine()->gather.len, 0);
    /* Another's frames lie there now. */
    CHECK(run("INSERT INTO blob_data SELECT pos, zeroblob(300000) FROM message"));
    CHECK_EQ(sqlite3_exec(db, "SELECT data FROM blob_data", NULL, NULL, NULL), SQLITE_OK);
    CHECK(fine(append(session, 1)));
    CHECK_EQ(ask("SELECT length(data) FROM blob_data"), 300000);
    CHECK_EQ(ask("SELECT count(*) FROM message"), 2);
    CHECK_EQ(ask("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check != 'ok'"), 0);
    end();
}

int main(void)
{
    file_begin();
    RUN(a_commit_is_written_at_once);
    RUN(what_cannot_be_written_fails_the_commit);
    RUN(nothing_is_written_behind_what_failed);
    RUN(what_is_rolled_back_is_forgotten);
    return file_done();
}
