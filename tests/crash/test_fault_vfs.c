/* test_fault_vfs.c - tests the fault VFS itself with plain SQLite: a sound setup must pass, and an
 * unsound one must be detected. Otherwise the results of the other tests would mean nothing. */
#include "support/disk/fault_vfs.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "support/scratch.h"
#include "support/tap.h"

#define INSERTS 8
#define STEPS_MAX 2000

static char directory[SCRATCH_PATH_MAX];
static char path[SCRATCH_PATH_MAX + 16];

typedef struct run {
    int acknowledged; /* inserts that were reported as done */
    bool was_killed;
    bool fired;
} run;

static sqlite3 *open_file(const char *synchronous)
{
    sqlite3 *db = NULL;
    char sql[128];

    if (sqlite3_open(path, &db) == SQLITE_OK) {
        snprintf(sql, sizeof(sql), "pragma synchronous=%s; pragma journal_mode=wal;", synchronous);
        sqlite3_exec(db, sql, NULL, NULL, NULL);
    }
    return db;
}

/* Inserts 1, 2, ... and reports each insert to the parent. Runs in the child. */
static void insert_all(int fd, const char *synchronous)
{
    sqlite3 *db = open_file(synchronous);
    char sql[64];
    char fired;

    sqlite3_exec(db, "create table if not exists t (n integer primary key, x)", NULL, NULL, NULL);
    for (int i = 1; i <= INSERTS; i++) {
        snprintf(sql, sizeof(sql), "insert into t values (%d, randomblob(3000))", i);
        if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
            break;
        if (write(fd, "+", 1) != 1)
            _exit(2);
    }
    fired = fault_vfs_fired() ? '!' : '.';
    if (write(fd, &fired, 1) != 1)
        _exit(2);
    fault_vfs_clear();
    sqlite3_close(db);
}

static run run_child(fault_kind kind, uint64_t at, uint64_t seed, const char *synchronous)
{
    run result = {0};
    int fds[2], status;
    char c;
    pid_t pid;

    if (pipe(fds) != 0)
        abort();
    pid = fork();
    if (pid == 0) {
        fault_vfs_install();
        if (kind == FAULT_POWER_CUT)
            fault_vfs_track(seed);
        fault_vfs_arm(kind, at);
        insert_all(fds[1], synchronous);
        _exit(0);
    }
    close(fds[1]);
    while (read(fds[0], &c, 1) == 1) {
        result.acknowledged += c == '+';
        result.fired |= c == '!';
    }
    close(fds[0]);
    waitpid(pid, &status, 0);
    result.was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    result.fired |= result.was_killed;
    return result;
}

static int query_int(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *query = NULL;
    int number = -1;

    if (sqlite3_prepare_v2(db, sql, -1, &query, NULL) == SQLITE_OK &&
            sqlite3_step(query) == SQLITE_ROW)
        number = sqlite3_column_int(query, 0);
    sqlite3_finalize(query);
    return number;
}

/* The number of inserted rows; -1 if the file is damaged or a row is missing. */
static int rows_kept(void)
{
    sqlite3 *db = open_file("full");
    int count, sound;

    sound = query_int(db,
            "select count(*) = 1 from pragma_integrity_check"
            " where integrity_check = 'ok'");
    count = query_int(db, "select count(*) from t where n <= (select count(*) from t)");
    if (count < 0)
        count = 0; /* the table was not created */
    if (sound != 1)
        count = -1;
    sqlite3_close(db);
    return count;
}

/* Returns the number of steps that lost or invented a row. */
static int sweep(fault_kind kind, uint64_t seed, const char *synchronous, uint64_t *out_steps)
{
    int wrong = 0;
    uint64_t at;

    for (at = 1; at < STEPS_MAX; at++) {
        run result;
        int kept;

        scratch_clear(directory, false);
        result = run_child(kind, at, seed, synchronous);
        if (!result.fired)
            break;
        kept = rows_kept();
        if (kept < result.acknowledged || kept > result.acknowledged + 1)
            wrong++;
    }
    *out_steps = at - 1;
    return wrong;
}

static void faults_and_kills_are_survived(void)
{
    static const fault_kind kinds[] = {FAULT_IO, FAULT_READ, FAULT_SHORT_WRITE, FAULT_SYNC,
            FAULT_FULL, FAULT_FULL_ONCE, FAULT_KILL_BEFORE, FAULT_KILL_AFTER, FAULT_KILL_MIDDLE};
    uint64_t steps;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        CHECK_EQ(sweep(kinds[i], 0, "full", &steps), 0);
        CHECK_THAT(steps, >=, 4);
        CHECK_THAT(steps, <, STEPS_MAX);
        printf("# kind %d: %d steps\n", kinds[i], (int)steps);
    }
}

static void power_cuts_are_survived(void)
{
    uint64_t steps;

    for (uint64_t seed = 0; seed < 8; seed++)
        CHECK_EQ(sweep(FAULT_POWER_CUT, seed, "full", &steps), 0);
}

static void power_cuts_are_fatal_without_syncs(void)
{
    uint64_t steps;
    int wrong = 0;

    for (uint64_t seed = 0; seed < 4; seed++)
        wrong += sweep(FAULT_POWER_CUT, seed, "off", &steps);
    CHECK_THAT(wrong, >, 10);
}

int main(void)
{
    scratch_make(true, directory);
    snprintf(path, sizeof(path), "%s/t.db", directory);
    RUN(faults_and_kills_are_survived);
    RUN(power_cuts_are_survived);
    RUN(power_cuts_are_fatal_without_syncs);
    scratch_clear(directory, true);
    return tap_done();
}
