/* sqlite_check.c - fsck.
 *
 * First it checks the file and its indexes with SQLite's own check; an index can be rebuilt from
 * its table. Then it checks every session: its rows have no gap, each row can be decoded, and its
 * counts are right. Counts and the sums of the ledger are derived data and are corrected. A session
 * with damaged rows is quarantined, so that the remaining rows can be read but nothing new is added
 * to them. No message is ever removed. Records of sessions that no longer exist are removed.
 *
 * It uses a separate connection and takes the write lock only for single corrections. */
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "store/sqlite/sqlite.h"
#include "store/store_private.h"

enum { LINES_MAX = 20 };

typedef struct check_state {
    const pal_sqlite *self;
    pal_sql_conn conn;
    bool repair;
    pal_row_check row_check;
    pal_store_on_finding sink;
    pal_store_on_progress progress;
    void *user;
    uint64_t findings; /* number of findings reported so far */
} check_state;

static void report(check_state *check, pal_id session, bool repaired, const char *text)
{
    pal_store_finding finding = {.session = session, .repaired = repaired};

    snprintf(finding.text, sizeof(finding.text), "%.*s", (int)sizeof(finding.text) - 1, text);
    check->findings++;
    check->sink(&finding, check->user);
}

/* ---- The file ---- */

/* If SQLite has no memory for a page, its check reports the page as damaged. */
static bool is_want_of_memory(const char *line)
{
    const char *code = strstr(line, "error code=7");

    return code && (code[12] < '0' || code[12] > '9');
}

static int integrity_lines(check_state *check, char lines[LINES_MAX][PAL_ERROR_MESSAGE_MAX],
        pal_status *out_status, pal_error *err)
{
    sqlite3_stmt *stmt = NULL;
    int len = 0;
    int code = sqlite3_prepare_v2(check->conn.db, "PRAGMA integrity_check(20)", -1, &stmt, NULL);

    while (code == SQLITE_OK || code == SQLITE_ROW) {
        const char *text;

        code = sqlite3_step(stmt);
        if (code != SQLITE_ROW)
            break;
        text = (const char *)sqlite3_column_text(stmt, 0);
        if (text && strcmp(text, "ok") != 0 && len < LINES_MAX)
            snprintf(lines[len++], PAL_ERROR_MESSAGE_MAX, "%s", text);
        if (text && is_want_of_memory(text))
            code = SQLITE_NOMEM;
    }
    sqlite3_finalize(stmt);
    if (code == SQLITE_CORRUPT || code == SQLITE_DONE)
        *out_status = PAL_OK;
    else
        *out_status = pal_sql_failed(&check->conn, code, err);
    if (code == SQLITE_CORRUPT && len < LINES_MAX)
        snprintf(lines[len++], PAL_ERROR_MESSAGE_MAX, "the file is damaged");
    return len;
}

static pal_status check_file(check_state *check, pal_error *err)
{
    char lines[LINES_MAX][PAL_ERROR_MESSAGE_MAX];
    pal_status status;
    bool repaired = false;
    int len = integrity_lines(check, lines, &status, err);

    if (status != PAL_OK)
        return status;
    if (len > 0 && check->repair && pal_sqlite_reindex(&check->conn)) {
        char again[LINES_MAX][PAL_ERROR_MESSAGE_MAX];

        repaired = integrity_lines(check, again, &status, err) == 0 && status == PAL_OK;
        if (status == PAL_OK && !repaired && pal_sqlite_search_replace(&check->conn))
            repaired = integrity_lines(check, again, &status, err) == 0 && status == PAL_OK;
    }
    for (int i = 0; i < len; i++)
        report(check, (pal_id){{0}}, repaired, lines[i]);
    return status;
}

/* ---- One session ---- */

/* One step of fsck. It reports damage as findings. A failure ends the check. */
typedef pal_status check_step(check_state *check, pal_error *err);

typedef struct tally {
    uint64_t last_seq;
    uint64_t tokens;
    uint64_t bytes;
    char damage[PAL_ERROR_MESSAGE_MAX]; /* empty: no damage */
} tally;

/* Returns PAL_OK even if the row is damaged; the tally describes the damage. Any other status ends
 * the check. */
static pal_status check_row(check_state *check, const pal_row *row, tally *sum, pal_error *err)
{
    pal_error why;
    pal_status status = check->row_check(row, &why);

    if (status == PAL_NO_MEMORY)
        return pal_error_set(err, status, "%s", why.message);
    if (row->seq != sum->last_seq + 1)
        snprintf(sum->damage, sizeof(sum->damage), "messages %llu to %llu are missing",
                (unsigned long long)sum->last_seq + 1, (unsigned long long)row->seq - 1);
    else if (status != PAL_OK)
        snprintf(sum->damage, sizeof(sum->damage), "message %llu is damaged: %.180s",
                (unsigned long long)row->seq, why.message);
    sum->last_seq = row->seq;
    sum->tokens += row->tokens;
    sum->bytes += row->body.len;
    return PAL_OK;
}

/* Reads the rows up to the first damage, which it records. PAL_CORRUPT counts as damage, not as a
 * failure of the check. */
static pal_status tally_rows(
        check_state *check, const pal_sqlite_head *head, tally *out_sum, pal_error *err)
{
    pal_sql sql = pal_sql_start(&check->conn, PAL_SQL_MESSAGE_UP);
    pal_status status = PAL_OK, ended;

    memset(out_sum, 0, sizeof(*out_sum));
    out_sum->last_seq = head->fork_seq;
    pal_sql_bind_int(&sql, head->handle);
    pal_sql_bind_int(&sql, 0);
    pal_sql_bind_int(&sql, INT64_MAX);
    while (status == PAL_OK && !out_sum->damage[0] && pal_sql_row(&sql)) {
        pal_row row;

        pal_sqlite_row_read(&sql, 0, &row);
        if (sql.code == SQLITE_OK)
            status = check_row(check, &row, out_sum, err);
    }
    ended = pal_sql_end(&sql, status == PAL_OK ? err : NULL);
    if (status != PAL_OK || ended != PAL_CORRUPT)
        return status != PAL_OK ? status : ended;
    snprintf(out_sum->damage, sizeof(out_sum->damage),
            "the messages after message %llu cannot be read",
            (unsigned long long)out_sum->last_seq);
    return PAL_OK;
}

static pal_status read_pair(pal_sql_conn *conn, pal_sql_id id, int64_t handle, uint64_t *out_first,
        uint64_t *out_second, pal_error *err)
{
    pal_sql sql = pal_sql_start(conn, id);

    *out_first = *out_second = 0;
    pal_sql_bind_int(&sql, handle);
    if (pal_sql_row(&sql)) {
        *out_first = (uint64_t)pal_sql_int(&sql, 0);
        *out_second = (uint64_t)pal_sql_int(&sql, 1);
    }
    return pal_sql_end(&sql, err);
}

static bool quarantine(check_state *check, int64_t handle)
{
    pal_error ignored;

    return check->repair &&
            pal_sql_run_int(&check->conn, PAL_SQL_CHECK_QUARANTINE, handle, &ignored) == PAL_OK;
}

static bool correct_counts(check_state *check, int64_t handle, const tally *sum)
{
    pal_sql sql;
    pal_error ignored;

    if (!check->repair)
        return false;
    sql = pal_sql_start(&check->conn, PAL_SQL_CHECK_FIX_HEAD);
    pal_sql_bind_int(&sql, handle);
    pal_sql_bind_int(&sql, (int64_t)sum->last_seq);
    pal_sql_bind_int(&sql, (int64_t)sum->tokens);
    pal_sql_bind_int(&sql, (int64_t)sum->bytes);
    return pal_sql_run(&sql, &ignored) == PAL_OK;
}

static pal_status check_parent(
        check_state *check, const pal_sqlite_head *head, tally *sum, pal_error *err)
{
    pal_sqlite_head parent = {0};
    pal_status status = PAL_OK;

    if (head->parent != 0)
        status = pal_sqlite_head_by_handle(&check->conn, head->parent, &parent, err);
    if (status == PAL_OK && head->parent != 0 && parent.last_seq < head->fork_seq)
        snprintf(sum->damage, sizeof(sum->damage), "the messages that it shares are missing");
    return status;
}

static pal_status check_counts(
        check_state *check, const pal_sqlite_head *head, pal_id id, tally *sum, pal_error *err)
{
    uint64_t tokens, bytes, newest_mark, marks;
    pal_status status =
            read_pair(&check->conn, PAL_SQL_CHECK_COUNTS, head->handle, &tokens, &bytes, err);

    if (status == PAL_OK)
        status = read_pair(
                &check->conn, PAL_SQL_CHECK_MARKS, head->handle, &newest_mark, &marks, err);
    if (status != PAL_OK)
        return status;
    /* An erased session keeps only the marks that its forks need. */
    if (newest_mark != marks && head->state != PAL_SESSION_ERASED)
        report(check, id, quarantine(check, head->handle), "marks are missing");
    else if (tokens != sum->tokens || bytes != sum->bytes || head->last_seq != sum->last_seq ||
            head->mark_number < newest_mark)
        report(check, id, correct_counts(check, head->handle, sum), "its counts were wrong");
    return PAL_OK;
}

/* Adds a missing head. *out_head has handle 0 if there is still none. */
static pal_status find_or_add_head(
        check_state *check, int64_t handle, pal_id id, pal_sqlite_head *out_head, pal_error *err)
{
    pal_status status = pal_sqlite_head_by_handle(&check->conn, handle, out_head, err);
    pal_error ignored;
    bool repaired;

    if (status != PAL_OK || out_head->handle != 0)
        return status;
    repaired = check->repair &&
            pal_sql_run_int(&check->conn, PAL_SQL_CHECK_ADD_HEAD, handle, &ignored) == PAL_OK;
    report(check, id, repaired, "its state was missing");
    return pal_sqlite_head_by_handle(&check->conn, handle, out_head, err);
}

static pal_status check_session(check_state *check, int64_t handle, pal_id id, pal_error *err)
{
    pal_sqlite_head head = {0};
    tally sum;
    pal_status status = find_or_add_head(check, handle, id, &head, err);

    if (status != PAL_OK || head.handle == 0)
        return status;
    status = tally_rows(check, &head, &sum, err);
    if (status == PAL_OK && !sum.damage[0])
        status = check_parent(check, &head, &sum, err);
    if (status != PAL_OK)
        return status;
    if (!sum.damage[0] && sum.last_seq < head.last_seq)
        snprintf(sum.damage, sizeof(sum.damage), "messages %llu to %llu are missing",
                (unsigned long long)sum.last_seq + 1, (unsigned long long)head.last_seq);
    if (!sum.damage[0])
        return check_counts(check, &head, id, &sum, err);
    if (head.state != PAL_SESSION_QUARANTINED)
        report(check, id, quarantine(check, handle), sum.damage);
    return PAL_OK;
}

/* ---- All sessions ---- */

/* Finds the next session after *handle and returns its number; 0 at the end. */
static pal_status next_session(check_state *check, int64_t *handle, pal_id *out_id, pal_error *err)
{
    pal_sql sql = pal_sql_start(&check->conn, PAL_SQL_CHECK_SESSIONS);

    pal_sql_bind_int(&sql, *handle);
    *handle = 0;
    if (pal_sql_row(&sql)) {
        *handle = pal_sql_int(&sql, 0);
        *out_id = pal_sql_uuid(&sql, 1);
    }
    return pal_sql_end(&sql, err);
}

static pal_status check_sessions(check_state *check, pal_error *err)
{
    uint64_t done = 0;
    int64_t handle = 0, total = 0;
    pal_id id;
    pal_sql sql = pal_sql_start(&check->conn, PAL_SQL_CHECK_TOTAL);
    pal_status status;

    if (pal_sql_row(&sql))
        total = pal_sql_int(&sql, 0);
    status = pal_sql_end(&sql, err);
    if (status == PAL_OK)
        status = next_session(check, &handle, &id, err);
    while (status == PAL_OK && handle != 0) {
        pal_error why;
        pal_status one = check_session(check, handle, id, &why);

        if (one == PAL_CORRUPT)
            report(check, id, quarantine(check, handle), "its records are damaged");
        else if (one != PAL_OK)
            return pal_error_set(err, one, "%s", why.message);
        check->progress(++done, (uint64_t)total, check->user);
        status = next_session(check, &handle, &id, err);
    }
    return status;
}

static pal_status check_orphans(check_state *check, pal_error *err)
{
    pal_sql sql = pal_sql_start(&check->conn, PAL_SQL_CHECK_ORPHANS);
    int64_t count = 0;
    char text[96];
    pal_status status;

    if (pal_sql_row(&sql))
        count = pal_sql_int(&sql, 0);
    status = pal_sql_end(&sql, err);
    if (status == PAL_OK && count > 0) {
        snprintf(text, sizeof(text), "%lld messages belong to no session", (long long)count);
        report(check, (pal_id){{0}}, false, text);
    }
    return status == PAL_CORRUPT ? PAL_OK : status;
}

static void check_blob(check_state *check, pal_str hash, pal_str data)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char name[PAL_SHA256_SIZE * 2 + 1], text[PAL_ERROR_MESSAGE_MAX];

    if (pal_sha256(data, digest) != PAL_OK)
        return;
    if (pal_str_equal(hash, pal_str_make((const char *)digest, sizeof(digest))))
        return;
    pal_hex((const uint8_t *)hash.data, hash.len < sizeof(digest) ? hash.len : sizeof(digest),
            name);
    snprintf(text, sizeof(text), "blob 'sha256:%s' is damaged", name);
    report(check, (pal_id){{0}}, false, text);
}

static pal_status check_blobs(check_state *check, pal_error *err)
{
    pal_status status = PAL_OK;
    int64_t blob = 0;
    bool found = true;

    while (status == PAL_OK && found) {
        pal_sql sql = pal_sql_start(&check->conn, PAL_SQL_CHECK_BLOBS);

        pal_sql_bind_int(&sql, blob);
        found = pal_sql_row(&sql);
        if (found) {
            blob = pal_sql_int(&sql, 0);
            check_blob(check, pal_sql_text(&sql, 1), pal_sql_text(&sql, 2));
        }
        status = pal_sql_end(&sql, err);
    }
    if (status != PAL_CORRUPT)
        return status;
    report(check, (pal_id){{0}}, false, "the table of blobs is damaged");
    return PAL_OK;
}

/* ---- Records and the ledger ---- */

static pal_status read_one(check_state *check, pal_sql_id id, int64_t *out_number, pal_error *err)
{
    pal_sql sql = pal_sql_start(&check->conn, id);

    *out_number = pal_sql_row(&sql) ? pal_sql_int(&sql, 0) : 0;
    return pal_sql_end(&sql, err);
}

static bool run_one(check_state *check, pal_sql_id id)
{
    pal_sql sql = pal_sql_start(&check->conn, id);
    pal_error ignored;

    return pal_sql_run(&sql, &ignored) == PAL_OK;
}

/* Records of a session that no longer exists should have been removed with it. */
static pal_status check_records(check_state *check, pal_error *err)
{
    char text[96];
    int64_t count;
    pal_status status = read_one(check, PAL_SQL_CHECK_RECORDS, &count, err);

    if (status == PAL_OK && count > 0) {
        snprintf(text, sizeof(text), "%lld records belong to a session that no longer exists",
                (long long)count);
        report(check, (pal_id){{0}}, check->repair && run_one(check, PAL_SQL_CHECK_DROP_RECORDS),
                text);
    }
    return status == PAL_CORRUPT ? PAL_OK : status;
}

static bool rebuild_hours(check_state *check)
{
    bool done = run_one(check, PAL_SQL_BEGIN) && run_one(check, PAL_SQL_CHECK_CLEAR_HOURS) &&
            run_one(check, PAL_SQL_CHECK_FILL_HOURS) && run_one(check, PAL_SQL_COMMIT);

    if (!done && !sqlite3_get_autocommit(check->conn.db))
        run_one(check, PAL_SQL_ROLLBACK);
    return done;
}

static pal_status check_ledger(check_state *check, pal_error *err)
{
    int64_t differs;
    pal_status status = read_one(check, PAL_SQL_CHECK_LEDGER, &differs, err);

    if (status == PAL_OK && differs)
        report(check, (pal_id){{0}}, check->repair && rebuild_hours(check),
                "the sums of the ledger were wrong");
    return status == PAL_CORRUPT ? PAL_OK : status;
}

/* ---- The totals ---- */

/* This check comes last: other damage and its repair change the contents without counting. If there
 * were such findings, the totals are corrected without a finding. */
static pal_status compare_totals(check_state *check, pal_error *err)
{
    pal_store_stats kept = {0}, counted = {0};
    pal_status status = pal_sqlite_counts_read(&check->conn, PAL_SQL_COUNTER_GET, &kept, err);
    bool repaired;

    if (status == PAL_OK)
        status = pal_sqlite_counts_read(&check->conn, PAL_SQL_STAT_ALL, &counted, err);
    if (status != PAL_OK || memcmp(&kept, &counted, sizeof(kept)) == 0)
        return status;
    repaired = check->repair && run_one(check, PAL_SQL_COUNTER_SET);
    if (check->findings == 0)
        report(check, (pal_id){{0}}, repaired, "the counts of the store were wrong");
    return PAL_OK;
}

/* Both reads happen in one transaction, because other processes may write meanwhile. */
static pal_status check_totals(check_state *check, pal_error *err)
{
    const char *begin = check->repair ? "BEGIN IMMEDIATE" : "BEGIN";
    pal_status status = pal_sql_exec(&check->conn, begin, err);

    if (status == PAL_OK)
        status = compare_totals(check, err);
    pal_sqlite_snapshot_end(&check->conn);
    return status == PAL_CORRUPT ? PAL_OK : status;
}

/* ---- The search index ---- */

/* Reports the block. Returns false if it could not be repaired. */
static bool report_block(check_state *check, int64_t block)
{
    pal_error ignored;
    bool repaired = check->repair &&
            pal_sqlite_index_repair(&check->conn, block, &ignored) == PAL_OK;

    report(check, (pal_id){{0}}, repaired, "a part of the search index is damaged");
    return repaired;
}

static pal_status check_blocks(check_state *check, pal_error *err)
{
    int64_t block = INT64_MAX;
    pal_status status = pal_sqlite_index_check(&check->conn, &block, err);

    while (status == PAL_OK && block >= 0) {
        report_block(check, block--);
        status = pal_sqlite_index_check(&check->conn, &block, err);
    }
    return status;
}

/* Checks the summaries of blocks, then looks for entries of blocks that do not exist. */
static pal_status check_groups(check_state *check, pal_error *err)
{
    int64_t key = 0, block = -1;
    pal_status status = pal_sqlite_index_check_groups(&check->conn, &key, err);

    while (status == PAL_OK && key != 0) {
        report_block(check, key);
        status = pal_sqlite_index_check_groups(&check->conn, &key, err);
    }
    while (status == PAL_OK) {
        status = pal_sqlite_index_stray(&check->conn, &block, err);
        if (status != PAL_OK || block == -1 || !report_block(check, block))
            break;
    }
    return status;
}

static pal_status check_index(check_state *check, pal_error *err)
{
    pal_status status = check_blocks(check, err);

    if (status == PAL_OK && check->self->has_counts)
        status = check_groups(check, err);
    /* Unreadable pages were already reported by the check of the file. */
    return status == PAL_CORRUPT ? PAL_OK : status;
}

/* SQLite gives the WAL and the shared memory the mode of the database file. So they are reported
 * only if the database file itself is private. */
static void check_modes(const check_state *check, const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char name[PAL_SQLITE_PATH_SIZE];
    bool reported = false;

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if ((size_t)snprintf(name, sizeof(name), "%s%s", path, ends[i]) < sizeof(name) &&
                pal_private_check(name, check->repair, reported ? NULL : check->sink, check->user))
            reported = true;
}

pal_status pal_sqlite_check(pal_engine *engine, bool repair, pal_row_check row_check,
        pal_store_on_finding sink, pal_store_on_progress progress, void *user, pal_error *err)
{
    pal_sqlite *self = (pal_sqlite *)engine;
    check_state check = {.self = self,
            .repair = repair,
            .row_check = row_check,
            .sink = sink,
            .progress = progress,
            .user = user};
    const struct {
        check_step *run;
        bool is_possible; /* the file's version has what the step checks */
    } steps[] = {
            {check_file, true},
            {check_sessions, true},
            {check_orphans, true},
            {check_blobs, true},
            {check_records, self->has_records},
            {check_ledger, self->has_records},
            {check_index, self->has_search},
            {check_totals, self->has_counts},
    };
    pal_status status = pal_sqlite_connect(self, !repair, NULL, &check.conn, err);

    for (size_t i = 0; status == PAL_OK && i < sizeof(steps) / sizeof(steps[0]); i++)
        if (steps[i].is_possible)
            status = steps[i].run(&check, err);
    if (status == PAL_OK)
        check_modes(&check, self->path);
    pal_sql_close(&check.conn);
    return status;
}
