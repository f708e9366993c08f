/* test_sqlite_claim.c - a program can declare that only stores use SQLite; if it is too late for
 * that, nothing changes. The setting is per process, so each case runs in a separate process. */
#include <sys/wait.h>
#include <unistd.h>

#include "support/sqlite_file.h"

/* Whether SQLite counts the memory of an open store. */
static bool is_counted(void)
{
    bool counted;

    OK(pal_store_open(test.url, NULL, &test.store, &test.err));
    counted = sqlite3_memory_used() > 0;
    close_store();
    return counted;
}

static bool in_a_process(bool (*held)(void))
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(held() ? 0 : 1);
    waitpid(pid, &status, 0);
    file_clear();
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool it_counts_by_itself(void)
{
    return is_counted();
}

static bool it_does_not_when_claimed(void)
{
    pal_store_claim_sqlite();
    return !is_counted();
}

static bool it_does_when_in_use(void)
{
    sqlite3 *other = NULL;
    bool counted;

    CHECK_EQ(sqlite3_open(":memory:", &other), SQLITE_OK);
    pal_store_claim_sqlite();
    counted = is_counted();
    sqlite3_close(other);
    return counted;
}

static void memory_is_counted_unless_claimed(void)
{
    CHECK(in_a_process(it_counts_by_itself));
    CHECK(in_a_process(it_does_not_when_claimed));
    CHECK(in_a_process(it_does_when_in_use));
}

int main(void)
{
    file_begin();
    RUN(memory_is_counted_unless_claimed);
    return file_done();
}
