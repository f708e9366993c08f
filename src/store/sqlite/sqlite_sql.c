/* sqlite_sql.c - connections, the pool of readers, and prepared statements.
 *
 * A connection belongs to one thread at a time. Statements are prepared once and reset after every
 * use, so that no statement keeps a read transaction open. */
#include "store/sqlite/sqlite_sql.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/sum.h"
#include "store/sqlite/sqlite.h"

enum { BUSY_PAUSE_US_MIN = 100, BUSY_PAUSE_US_MAX = 10000 };

static const char *const texts[PAL_SQL_COUNT] = {
#define PAL_SQL_TEXT(name, text) [PAL_SQL_##name] = text,
        PAL_SQL_STATEMENTS(PAL_SQL_TEXT)
#undef PAL_SQL_TEXT
};

void pal_sql_close(pal_sql_conn *conn)
{
    for (int i = 0; i < PAL_SQL_COUNT; i++) {
        sqlite3_finalize(conn->statements[i]);
        conn->statements[i] = NULL;
    }
    sqlite3_close(conn->db);
    conn->db = NULL;
}

/* ---- Waiting ---- */

static int on_busy(void *user, int tries)
{
    pal_sql_conn *conn = user;
    int64_t now_us = pal_clock_monotonic_us();
    uint32_t pause_us = BUSY_PAUSE_US_MIN << (tries < 7 ? tries : 7);
    struct timespec pause = {0};
    uint32_t random;

    if (tries == 0)
        conn->busy_since_us = now_us;
    if (now_us - conn->busy_since_us > (int64_t)conn->busy_timeout_ms * 1000)
        return 0;
    if (pause_us > BUSY_PAUSE_US_MAX)
        pause_us = BUSY_PAUSE_US_MAX;
    /* The delay is random over the complete range, so that processes that collided once do not
     * collide again. */
    pal_random_bytes(&random, sizeof(random));
    pause.tv_nsec = (long)(1 + random % pause_us) * 1000;
    nanosleep(&pause, NULL);
    return 1;
}

void pal_sql_set_busy_handler(pal_sql_conn *conn, uint32_t busy_timeout_ms)
{
    conn->busy_timeout_ms = busy_timeout_ms;
    sqlite3_busy_handler(conn->db, on_busy, conn);
}

/* ---- Failing ---- */

static pal_status status_of_code(int code)
{
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return PAL_NO_MEMORY;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return PAL_BUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return PAL_CORRUPT;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return PAL_DENIED;
    case SQLITE_CONSTRAINT:
        return PAL_CONFLICT;
    case SQLITE_TOOBIG:
        return PAL_LIMIT;
    case SQLITE_FULL:
        return PAL_FULL;
    default:
        return PAL_IO;
    }
}

/* SQLite reports a page that could not be read as damaged, and an exceeded quota or full shared
 * memory as a disk error. errno is set to 0 when a statement starts, so it shows the difference. */
static int code_by_errno(int code)
{
    if ((code & 0xff) == SQLITE_CORRUPT && (errno == EIO || errno == ENXIO))
        return SQLITE_IOERR_READ;
    if ((code & 0xff) == SQLITE_IOERR && (errno == ENOSPC || errno == EDQUOT))
        return SQLITE_FULL;
    return code;
}

pal_status pal_sql_failed(pal_sql_conn *conn, int sqlite_code, pal_error *err)
{
    int code = code_by_errno(sqlite_code);
    pal_status status = status_of_code(code);

    conn->failed = true;
    switch (code & 0xff) {
    case SQLITE_FULL:
        return pal_error_set(err, status, "'%.120s': the disk is full", conn->path);
    case SQLITE_BUSY:
        return pal_error_set(err, status,
                "'%.120s' is locked: another process has been writing for %u ms; retry later",
                conn->path, conn->busy_timeout_ms);
    case SQLITE_READONLY:
        return pal_error_set(err, status,
                "no permission to write '%.120s' or its directory; SQLite needs write access even "
                "for reading",
                conn->path);
    case SQLITE_CORRUPT:
        return pal_error_set(
                err, status, "'%.120s' is damaged; run 'palaver fsck'", conn->path);
    default:
        return pal_error_set(
                err, status, "'%.120s': %s (SQLite %d)", conn->path, sqlite3_errstr(code), code);
    }
}

/* ---- The pool of readers ---- */

static bool borrow_writer(pal_sqlite *self)
{
    if (atomic_load(&self->writer_wanted) || pthread_mutex_trylock(&self->writer_lock) != 0)
        return false;
    if (sqlite3_get_autocommit(self->writer.db))
        return true;
    /* A rollback has failed for lack of memory. Inside that transaction a reader would see
     * uncommitted data. */
    pthread_mutex_unlock(&self->writer_lock);
    return false;
}

pal_status pal_sqlite_reader_take(
        pal_sqlite *self, pal_read_kind kind, pal_sql_conn **out_conn, pal_error *err)
{
    pal_status status = PAL_OK;
    uint32_t i;

    if (kind == PAL_READ_SHORT && borrow_writer(self)) {
        *out_conn = &self->writer;
        return PAL_OK;
    }
    pthread_mutex_lock(&self->readers_lock);
    for (;;) {
        for (i = 0; i < self->options.readers_max && self->reader_taken[i]; i++)
            continue;
        if (i < self->options.readers_max)
            break;
        pthread_cond_wait(&self->reader_idle, &self->readers_lock);
    }
    self->reader_taken[i] = true;
    pthread_mutex_unlock(&self->readers_lock);
    if (!self->readers[i].db)
        status = pal_sqlite_connect(self, true, NULL, &self->readers[i], err);
    if (status == PAL_OK) {
        *out_conn = &self->readers[i];
        return PAL_OK;
    }
    pal_sql_close(&self->readers[i]);
    pal_sqlite_reader_give(self, &self->readers[i]);
    return status;
}

void pal_sqlite_reader_give(pal_sqlite *self, pal_sql_conn *conn)
{
    if (conn == &self->writer) {
        pthread_mutex_unlock(&self->writer_lock);
        return;
    }
    /* The end of a snapshot has failed for lack of memory. It would show the same state forever. */
    if (conn->db && !sqlite3_get_autocommit(conn->db))
        pal_sql_close(conn);
    pthread_mutex_lock(&self->readers_lock);
    self->reader_taken[conn - self->readers] = false;
    pthread_cond_signal(&self->reader_idle);
    pthread_mutex_unlock(&self->readers_lock);
}

/* ---- Statements ---- */

pal_sql pal_sql_start(pal_sql_conn *conn, pal_sql_id id)
{
    pal_sql sql = {.conn = conn, .next = 1};

    errno = 0;
    if (!conn->statements[id])
        sql.code = sqlite3_prepare_v3(
                conn->db, texts[id], -1, SQLITE_PREPARE_PERSISTENT, &conn->statements[id], NULL);
    sql.stmt = conn->statements[id];
    return sql;
}

pal_sql pal_sql_read(pal_sqlite *pool, pal_read_kind kind, pal_sql_id id, pal_error *err)
{
    pal_sql_conn *conn;
    pal_sql sql;
    pal_status status = pal_sqlite_reader_take(pool, kind, &conn, err);

    if (status != PAL_OK)
        return (pal_sql){.not_taken = status, .code = SQLITE_CANTOPEN};
    sql = pal_sql_start(conn, id);
    sql.pool = pool;
    return sql;
}

pal_status pal_sql_prepare(pal_sql_conn *conn, pal_sql_id id, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, id);

    return pal_sql_end(&sql, err);
}

static void note(pal_sql *sql, int code)
{
    if (code != SQLITE_OK && sql->code == SQLITE_OK)
        sql->code = code;
}

void pal_sql_bind_int(pal_sql *sql, int64_t number)
{
    if (sql->code == SQLITE_OK)
        note(sql, sqlite3_bind_int64(sql->stmt, sql->next++, number));
}

void pal_sql_bind_count(pal_sql *sql, uint64_t count)
{
    pal_sql_bind_int(sql, (int64_t)pal_sum_cap(count));
}

void pal_sql_bind_int_or_null(pal_sql *sql, int64_t number)
{
    if (number != 0)
        pal_sql_bind_int(sql, number);
    else if (sql->code == SQLITE_OK)
        note(sql, sqlite3_bind_null(sql->stmt, sql->next++));
}

void pal_sql_bind_updated_at(pal_sql *sql, const pal_work *work)
{
    pal_sql_bind_int_or_null(sql, work->copied ? 0 : work->now_ms);
}

void pal_sql_bind_usage(pal_sql *sql, const pal_usage *usage)
{
    pal_sql_bind_count(sql, usage->input);
    pal_sql_bind_count(sql, usage->cache_read);
    pal_sql_bind_count(sql, usage->cache_write);
    pal_sql_bind_count(sql, usage->output);
    pal_sql_bind_count(sql, usage->reasoning);
}

void pal_sql_bind_text(pal_sql *sql, pal_str text)
{
    if (text.len == 0)
        pal_sql_bind_int_or_null(sql, 0);
    else if (sql->code == SQLITE_OK)
        note(sql,
                sqlite3_bind_text64(
                        sql->stmt, sql->next++, text.data, text.len, SQLITE_STATIC, SQLITE_UTF8));
}

void pal_sql_bind_blob(pal_sql *sql, pal_str data)
{
    if (sql->code == SQLITE_OK)
        note(sql,
                sqlite3_bind_blob64(sql->stmt, sql->next++, data.data ? data.data : "", data.len,
                        SQLITE_STATIC));
}

void pal_sql_bind_body(pal_sql *sql, pal_str body, bool is_text)
{
    if (!is_text)
        pal_sql_bind_blob(sql, body);
    else if (sql->code == SQLITE_OK)
        note(sql,
                sqlite3_bind_text64(sql->stmt, sql->next++, body.data ? body.data : "", body.len,
                        SQLITE_STATIC, SQLITE_UTF8));
}

void pal_sql_bind_id(pal_sql *sql, const pal_id *id)
{
    if (pal_id_is_none(*id))
        pal_sql_bind_int_or_null(sql, 0);
    else if (sql->code == SQLITE_OK)
        note(sql,
                sqlite3_bind_blob64(
                        sql->stmt, sql->next++, id->bytes, sizeof(id->bytes), SQLITE_STATIC));
}

bool pal_sql_row(pal_sql *sql)
{
    int code;

    if (sql->code != SQLITE_OK)
        return false;
    code = sqlite3_step(sql->stmt);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        note(sql, code);
    if (code == SQLITE_ROW)
        sql->has_row = true;
    return code == SQLITE_ROW;
}

int64_t pal_sql_int(pal_sql *sql, int column)
{
    return sqlite3_column_int64(sql->stmt, column);
}

pal_str pal_sql_text(pal_sql *sql, int column)
{
    const char *data = sqlite3_column_blob(sql->stmt, column);

    if (!data && sqlite3_errcode(sql->conn->db) == SQLITE_NOMEM)
        note(sql, SQLITE_NOMEM);
    return pal_str_make(data, data ? (size_t)sqlite3_column_bytes(sql->stmt, column) : 0);
}

bool pal_sql_is_text(pal_sql *sql, int column)
{
    return sqlite3_column_type(sql->stmt, column) == SQLITE_TEXT;
}

pal_id pal_sql_uuid(pal_sql *sql, int column)
{
    pal_str bytes = pal_sql_text(sql, column);
    pal_id id = {{0}};

    if (bytes.len == sizeof(id.bytes))
        memcpy(id.bytes, bytes.data, sizeof(id.bytes));
    return id;
}

pal_status pal_sql_end(pal_sql *sql, pal_error *err)
{
    pal_status status = sql->not_taken;

    if (sql->stmt)
        sqlite3_reset(sql->stmt);
    if (status == PAL_OK && sql->code != SQLITE_OK)
        status = pal_sql_failed(sql->conn, sql->code, err);
    if (sql->pool)
        pal_sqlite_reader_give(sql->pool, sql->conn);
    return status;
}

pal_str pal_sql_copy(pal_sql *sql, int column, pal_arena *arena)
{
    pal_str text = pal_sql_text(sql, column);

    return text.len > 0 ? pal_arena_copy(arena, text) : pal_str_make(NULL, 0);
}

pal_status pal_sql_end_copied(pal_sql *sql, pal_arena *arena, pal_error *err)
{
    pal_status status = pal_sql_end(sql, err);

    if (status == PAL_OK && pal_arena_failure(arena))
        status = pal_error_set(err, pal_arena_failure(arena),
                "the result is too large, or there is no memory");
    return status;
}

pal_status pal_sql_end_found(pal_sql *sql, pal_arena *arena, pal_error *err)
{
    pal_status status = arena ? pal_sql_end_copied(sql, arena, err) : pal_sql_end(sql, err);

    return status == PAL_OK && !sql->has_row ? PAL_NOT_FOUND : status;
}

pal_status pal_sql_run(pal_sql *sql, pal_error *err)
{
    while (pal_sql_row(sql))
        continue;
    return pal_sql_end(sql, err);
}

pal_status pal_sql_run_int(pal_sql_conn *conn, pal_sql_id id, int64_t number, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, id);

    pal_sql_bind_int(&sql, number);
    return pal_sql_run(&sql, err);
}

pal_status pal_sql_exec(pal_sql_conn *conn, const char *text, pal_error *err)
{
    int code;

    errno = 0;
    code = sqlite3_exec(conn->db, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? PAL_OK : pal_sql_failed(conn, code, err);
}
