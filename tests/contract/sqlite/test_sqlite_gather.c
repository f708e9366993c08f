/* test_sqlite_gather.c - a commit reaches the WAL in one write, and data that was kept for that is
 * never written after its transaction. */
#include "store/sqlite/sqlite.h"
#include "support/sqlite_file.h"

#define MESSAGES 40

/* The default VFS counts the writes to every WAL. The store's VFS wraps it. */
static sqlite3_vfs counting_vfs, *real_vfs;
static sqlite3_io_methods counting_methods;
static const sqlite3_io_methods *real_methods;
static int writes;
static bool is_full;

static int count_write(sqlite3_file *file, const void *data, int len, sqlite3_int64 at)
{
    writes++;
    return is_full ? SQLITE_FULL : real_methods->xWrite(file, data, len, at);
}

static int count_open(
        sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags, int *out_flags)
{
    int code = real_vfs->xOpen(real_vfs, name, file, flags, out_flags);

    (void)vfs;
    if (code != SQLITE_OK || !(flags & SQLITE_OPEN_WAL))
        return code;
    real_methods = file->pMethods;
    counting_methods = *real_methods;
    counting_methods.xWrite = count_write;
    file->pMethods = &counting_methods;
    return SQLITE_OK;
}

static void count_writes(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    counting_vfs = *real_vfs;
    counting_vfs.zName = "counting";
    counting_vfs.xOpen = count_open;
    CHECK_EQ(sqlite3_vfs_register(&counting_vfs, 1), SQLITE_OK);
}

static pal_sqlite *engine(void)
{
    return (pal_sqlite *)*pal_store_engine(test.store);
}

/* Opens a store with one session. */
static pal_id begin(void)
{
    pal_session session = {0};
    pal_id id = {{0}};

    open_store(false);
    OK(pal_store_create(test.store, &session, &id, &test.err));
    CHECK(engine()->gather.is_open);
    writes = 0;
    is_full = false;
    return id;
}

static void end(void)
{
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
    return pal_store_append(
            test.store, (pal_str){0}, session, messages, len, PAL_SEQ_ANY, &test.err);
}

static void a_commit_is_written_at_once(void)
{
    pal_id session = begin();

    OK(append(session, 4));
    CHECK_EQ(writes, 1);
    writes = 0;
    OK(append(session, MESSAGES)); /* more than is gathered */
    CHECK_EQ(writes, 2);
    CHECK_EQ(ask("SELECT count(*) FROM message"), 4 + MESSAGES);
    end();
}

static void a_failed_write_fails_the_commit(void)
{
    pal_id session = begin();

    OK(append(session, 1));
    is_full = true;
    CHECK_STATUS(append(session, 4), PAL_FULL);
    CHECK_STATUS(append(session, MESSAGES), PAL_FULL);
    CHECK_EQ(ask("SELECT count(*) FROM message"), 1);
    is_full = false;
    OK(append(session, 2));
    CHECK_EQ(ask("SELECT count(*) FROM message"), 3);
    CHECK_EQ(ask("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check != 'ok'"), 0);
    end();
}

/* Also if the disk accepts the next write again. */
static void nothing_is_written_after_a_failed_write(void)
{
    static const char page[4096];
    pal_id session = begin();
    sqlite3_file *file = NULL;
    sqlite3 *db = engine()->writer.db;

    OK(append(session, 1));
    CHECK_EQ(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQ(sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file), SQLITE_OK);
    CHECK_EQ(file->pMethods->xWrite(file, page, sizeof page, 1 << 20), SQLITE_OK); /* gathered */
    is_full = true;
    CHECK_EQ(file->pMethods->xWrite(file, page, sizeof page, 0), SQLITE_FULL);
    is_full = false;
    CHECK_EQ(file->pMethods->xWrite(file, page, sizeof page, 1 << 20), SQLITE_FULL);
    CHECK_EQ(file->pMethods->xSync(file, SQLITE_SYNC_NORMAL), SQLITE_FULL);
    CHECK_EQ(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    OK(append(session, 1));
    CHECK_EQ(ask("SELECT count(*) FROM message"), 2);
    end();
}

/* With hardly a cache SQLite writes pages to the WAL long before the commit. To roll back it reads
 * nothing of a WAL that was empty before. */
static void kept_data_is_dropped_by_a_rollback(void)
{
    pal_id session = begin();
    sqlite3 *db = engine()->writer.db;

    OK(append(session, 1));
    CHECK_EQ(sqlite3_exec(db,
                     "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA cache_size = 20; BEGIN IMMEDIATE;"
                     "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)"
                     "INSERT INTO blob_data SELECT i, zeroblob(3000) FROM n",
                     NULL, NULL, NULL),
            SQLITE_OK);
    CHECK_THAT(engine()->gather.len, >, 0);
    CHECK_EQ(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQ(engine()->gather.len, 0);
    /* The WAL contains another writer's frames now. */
    CHECK(run("INSERT INTO blob_data SELECT pos, zeroblob(300000) FROM message"));
    CHECK_EQ(sqlite3_exec(db, "SELECT data FROM blob_data", NULL, NULL, NULL), SQLITE_OK);
    OK(append(session, 1));
    CHECK_EQ(ask("SELECT length(data) FROM blob_data"), 300000);
    CHECK_EQ(ask("SELECT count(*) FROM message"), 2);
    CHECK_EQ(ask("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check != 'ok'"), 0);
    end();
}

/* The VFS of a store exists exactly while the store is open. */
static void two_stores_have_separate_vfs(void)
{
    char names[2][sizeof engine()->gather.name];

    (void)begin();
    snprintf(names[0], sizeof names[0], "%s", engine()->gather.name);
    CHECK_PTR(sqlite3_vfs_find(names[0]), &engine()->gather.vfs);
    CHECK_PTR(sqlite3_vfs_find(NULL), &counting_vfs);
    {
        pal_store *first = test.store;

        open_store(false);
        snprintf(names[1], sizeof names[1], "%s", engine()->gather.name);
        CHECK(strcmp(names[0], names[1]) != 0);
        close_store();
        test.store = first;
    }
    CHECK_PTR(sqlite3_vfs_find(names[1]), NULL);
    end();
    CHECK_PTR(sqlite3_vfs_find(names[0]), NULL);
}

int main(void)
{
    file_begin();
    count_writes();
    RUN(a_commit_is_written_at_once);
    RUN(a_failed_write_fails_the_commit);
    RUN(nothing_is_written_after_a_failed_write);
    RUN(kept_data_is_dropped_by_a_rollback);
    RUN(two_stores_have_separate_vfs);
    return file_done();
}
