/* bench_raw.c - see bench_raw.h. The rows are those that the store writes, column by column. The
 * work of a store is left out: checks, encoding, idempotency and the queue. */
#include "bench_raw.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "palaver/id.h"

#define BODY_MAX 65536

struct raw {
    sqlite3 *db;
    sqlite3_stmt *begin, *commit, *head, *insert, *update, *tail;
    size_t body_len;
    size_t next; /* index of the next session */
    char body[BODY_MAX];
};

static void must(bool held, sqlite3 *db, const char *what)
{
    if (held)
        return;
    fprintf(stderr, "bench: %s: %s\n", what, db ? sqlite3_errmsg(db) : "failed");
    exit(1);
}

static sqlite3_stmt *prepare(raw *self, const char *sql)
{
    sqlite3_stmt *statement = NULL;

    must(sqlite3_prepare_v3(self->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) ==
                    SQLITE_OK,
            self->db, sql);
    return statement;
}

raw *raw_open(const char *path, size_t body_len)
{
    raw *self = pal_calloc(1, sizeof(*self));

    must(self && body_len <= BODY_MAX, NULL, "raw_open");
    must(sqlite3_open(path, &self->db) == SQLITE_OK, self->db, path);
    sqlite3_busy_timeout(self->db, 30000);
    must(sqlite3_exec(self->db,
                 "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-65536;"
                 "PRAGMA mmap_size=0; PRAGMA wal_autocheckpoint=8000",
                 NULL, NULL, NULL) == SQLITE_OK,
            self->db, "pragma");
    self->body_len = body_len;
    memset(self->body, 'x', sizeof(self->body));
    self->begin = prepare(self, "BEGIN IMMEDIATE");
    self->commit = prepare(self, "COMMIT");
    self->head = prepare(self, "SELECT last_seq FROM head WHERE session = ?1");
    self->insert = prepare(self,
            "INSERT INTO message(session, seq, id, role, flags, tokens, created_at, body)"
            " VALUES (?1, ?2, ?3, 2, 0, ?4, ?5, ?6)");
    self->update = prepare(self,
            "UPDATE head SET last_seq = ?2, tokens = tokens + ?3, bytes = bytes + ?4,"
            " updated_at = ?5 WHERE session = ?1");
    self->tail = prepare(self,
            "SELECT seq, id, role, tokens, created_at, body FROM message"
            " WHERE session = ?1 ORDER BY seq DESC LIMIT ?2");
    return self;
}

void raw_close(raw *self)
{
    if (!self)
        return;
    sqlite3_finalize(self->begin);
    sqlite3_finalize(self->commit);
    sqlite3_finalize(self->head);
    sqlite3_finalize(self->insert);
    sqlite3_finalize(self->update);
    sqlite3_finalize(self->tail);
    sqlite3_close(self->db);
    pal_free(self);
}

static void run(raw *self, sqlite3_stmt *statement)
{
    must(sqlite3_step(statement) == SQLITE_DONE, self->db, sqlite3_sql(statement));
    sqlite3_reset(statement);
}

static int64_t last_seq(raw *self, int64_t handle)
{
    int64_t seq;

    sqlite3_bind_int64(self->head, 1, handle);
    must(sqlite3_step(self->head) == SQLITE_ROW, self->db, "no such session");
    seq = sqlite3_column_int64(self->head, 0);
    sqlite3_reset(self->head);
    return seq;
}

static void append_one(raw *self, int64_t handle, size_t count)
{
    int64_t seq = last_seq(self, handle), now = pal_clock_now_ms();
    int64_t tokens = (int64_t)self->body_len / 4;

    for (size_t i = 0; i < count; i++) {
        pal_id id = pal_id_new();
        sqlite3_bind_int64(self->insert, 1, handle);
        sqlite3_bind_int64(self->insert, 2, ++seq);
        sqlite3_bind_blob(self->insert, 3, id.bytes, sizeof(id.bytes), SQLITE_TRANSIENT);
        sqlite3_bind_int64(self->insert, 4, tokens);
        sqlite3_bind_int64(self->insert, 5, now);
        sqlite3_bind_blob(self->insert, 6, self->body, (int)self->body_len, SQLITE_STATIC);
        run(self, self->insert);
    }
    sqlite3_bind_int64(self->update, 1, handle);
    sqlite3_bind_int64(self->update, 2, seq);
    sqlite3_bind_int64(self->update, 3, tokens * (int64_t)count);
    sqlite3_bind_int64(self->update, 4, (int64_t)(self->body_len * count));
    sqlite3_bind_int64(self->update, 5, now);
    run(self, self->update);
}

void raw_append(
        raw *self, const int64_t *handles, size_t handles_len, size_t count, size_t per_session)
{
    run(self, self->begin);
    for (size_t done = 0; done < count; done += per_session) {
        append_one(self, handles[self->next % handles_len], per_session);
        self->next++;
    }
    run(self, self->commit);
}

size_t raw_tail(raw *self, int64_t handle, int limit)
{
    size_t sum = 0;
    int rc;

    sqlite3_bind_int64(self->tail, 1, handle);
    sqlite3_bind_int(self->tail, 2, limit);
    while ((rc = sqlite3_step(self->tail)) == SQLITE_ROW) {
        size_t len = (size_t)sqlite3_column_bytes(self->tail, 5);
        memcpy(self->body, sqlite3_column_blob(self->tail, 5), len < BODY_MAX ? len : BODY_MAX);
        sum += len;
    }
    must(rc == SQLITE_DONE, self->db, "tail");
    sqlite3_reset(self->tail);
    return sum;
}

void raw_handles(raw *self, int64_t *out_handles, size_t len)
{
    sqlite3_stmt *query = prepare(self, "SELECT id FROM session ORDER BY id LIMIT ?1");

    sqlite3_bind_int64(query, 1, (int64_t)len);
    for (size_t i = 0; i < len; i++) {
        must(sqlite3_step(query) == SQLITE_ROW, self->db, "too few sessions");
        out_handles[i] = sqlite3_column_int64(query, 0);
    }
    sqlite3_finalize(query);
}

int raw_file_open(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

    must(fd >= 0, NULL, path);
    return fd;
}

void raw_file_append(int fd, size_t len)
{
    static char line[BODY_MAX];

    must(len <= sizeof(line) && write(fd, line, len) == (ssize_t)len && fdatasync(fd) == 0, NULL,
            "a plain file");
}
