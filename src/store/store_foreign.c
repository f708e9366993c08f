/* store_foreign.c - reads SQLite files of other programs, read-only. Its statements and connections
 * are separate from those of our store. Any thread can call it. */
#include "base/buf.h"
#include "base/json/json.h"
#include "palaver/foreign.h"
#include <sqlite3.h>

#define BUSY_TIMEOUT_MS 5000

static pal_status failed(sqlite3 *db, const char *path, const char *whose, pal_error *err)
{
    int code = db ? sqlite3_errcode(db) : SQLITE_NOMEM;
    pal_status status = code == SQLITE_NOMEM ? PAL_NO_MEMORY
            : code == SQLITE_BUSY            ? PAL_BUSY
            : code == SQLITE_CANTOPEN        ? PAL_IO
                                             : PAL_INVALID;
    return pal_error_set(err, status, "could not read '%.120s' as %s database: %.80s", path, whose,
            db ? sqlite3_errmsg(db) : "out of memory");
}

static void put_column(pal_json_writer *writer, sqlite3_stmt *statement, int column)
{
    int type = sqlite3_column_type(statement, column);
    if (type == SQLITE_NULL)
        return;
    pal_json_name(writer, sqlite3_column_name(statement, column));
    if (type == SQLITE_INTEGER) {
        pal_json_put_i64(writer, sqlite3_column_int64(statement, column));
        return;
    }
    const char *text = (const char *)sqlite3_column_text(statement, column);
    pal_json_put_str(
            writer, pal_str_make(text, text ? (size_t)sqlite3_column_bytes(statement, column) : 0));
}

static pal_status tell_row(
        sqlite3_stmt *statement, pal_buf *buf, pal_foreign_on_row row, void *user, pal_error *err)
{
    pal_buf_clear(buf);
    pal_json_writer writer = pal_json_writer_make(buf);
    pal_json_begin_object(&writer);
    for (int i = 0; i < sqlite3_column_count(statement); i++)
        put_column(&writer, statement, i);
    pal_json_end_object(&writer);
    if (buf->failure)
        return pal_error_set(err, buf->failure, "a row is too large, or there is no memory");
    return row(pal_buf_str(buf), user);
}

static pal_status each(const char *path, const char *whose, const char *sql, pal_foreign_on_row row,
        void *user, pal_error *err)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    pal_buf buf;
    pal_status status = PAL_OK;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    int code = sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW)
            status = tell_row(statement, &buf, row, user, err);
        if (status != PAL_OK)
            break;
    }
    if (status == PAL_OK && code != SQLITE_DONE)
        status = failed(db, path, whose, err);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    pal_buf_done(&buf);
    return status;
}

pal_status pal_foreign_loom_each(
        const char *path, pal_foreign_on_row row, void *user, pal_error *err)
{
    static const char sql[] = "SELECT session_id, bead_id, project_id, messages, created_at,"
                              " updated_at, expires_at, token_count, metadata"
                              " FROM conversation_contexts ORDER BY created_at, session_id";
    return each(path, "Loom's", sql, row, user, err);
}

pal_status pal_foreign_sol_each(
        const char *path, pal_foreign_on_row row, void *user, pal_error *err)
{
    static const char sql[] = "SELECT room_id, conversation_id, estimated_tokens, created_at"
                              " FROM conversations ORDER BY created_at, room_id";
    return each(path, "Sol's", sql, row, user, err);
}
