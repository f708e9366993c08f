/* contract.h - the fixture and the shorthand of the store's test suite.
 *
 * The suite runs on any backend: the store's URL is the first argument of the program. Each test
 * starts with an empty `test.store`, an empty arena, and the clock at NOW. "sqlite:" and "jsonl:"
 * get a fresh directory for each test. The tests use only the public interface and the clock. */
#ifndef PAL_TESTS_CONTRACT_H
#define PAL_TESTS_CONTRACT_H

#include <stdbool.h>
#include <stdio.h>
#include "base/clock.h"
#include "palaver/limits.h"
#include "palaver/palaver.h"
#include "support/tap.h"

#define NOW INT64_C(1800000000000)
#define DAY INT64_C(86400000)

typedef struct fixture {
    pal_store *store; /* open and empty when a test begins */
    pal_arena *arena;
    pal_error err;   /* filled in by the last call that failed */
    char dir[256];   /* tests put files here; emptied before each test */
    char url[512];   /* names the store of the running test */
    char scheme[32]; /* names the backend: "memory", "sqlite", "jsonl" */
} fixture;

extern fixture test;

bool contract_gives(
        pal_status wanted, pal_status status, const char *text, const char *file, int line);
void contract_run(const char *name, void (*run)(void));

/* The call returns this status, and fills in test.err with the same status and a message. */
#define GIVES(wanted, call)                                                                        \
    contract_gives(wanted, (call), "GIVES(" #wanted ", " #call ")", __FILE__, __LINE__)
/* Every test gets an empty store. */
#undef RUN
#define RUN(test) contract_run(#test, test)

/* Each file has one function that runs its tests. */
void contract_sessions(void);
void contract_resolve(void);
void contract_lists(void);
void contract_messages(void);
void contract_loads(void);
void contract_forks(void);
void contract_model(void);
void contract_active_marks(void);
void contract_search(void);
void contract_best(void);
void contract_trash(void);
void contract_erasure(void);
void contract_erase_message(void);
void contract_turns(void);
void contract_ledger(void);
void contract_records(void);
void contract_blobs(void);
void contract_batches(void);
void contract_all(void);
void contract_tenants(void);
void contract_twins(void);
void contract_threads(void);
void contract_async(void);
void contract_reopen(void);
void contract_upkeep(void);

/* ---- The store under test ---- */

/* `many_stores`: the program creates thousands of stores and no test depends on the disk, so the
 * stores are kept in memory if the system has /dev/shm. */
bool contract_begin(int argc, char **argv, bool many_stores);
/* Ends the TAP output; returns the exit code. */
int contract_end(void);
/* Removes the files of the last test. Afterwards test.url names a store that does not exist. */
void contract_clear(void);
/* Whether the backend keeps its contents when the store is closed. */
bool contract_is_durable(void);
/* Closes test.store and opens it again. */
void contract_reopen_store(void);
/* Closes test.store and opens it again with options. */
void contract_open_with(const pal_store_options *options);

/* ---- Shorthand ---- */

static inline pal_str S(const char *text)
{
    return pal_str_of(text);
}

static inline pal_str no_tenant(void)
{
    return pal_str_of(NULL);
}

/* Create an empty session of the default tenant, without or with a key. */
pal_id new_session(void);
pal_id new_session_with_key(const char *key);
/* Finds a session by its id, whatever its state. */
pal_session get_session(pal_id id);
/* Look for a session by its id, key or alias, and return the status. */
pal_status find_status(pal_session_by by, const char *name);
pal_status find_id_status(pal_id id);
/* Whether a key or alias leads to this session; if not, prints where it leads. */
bool leads_to(pal_session_by by, const char *name, pal_id id);

pal_message text_of(pal_role role, const char *text);
/* Appends one user message. Returns its seq, 0 if that failed. */
uint64_t say(pal_id session, const char *text);
/* Appends one user message per word. */
void say_words(pal_id session, const char *words);
/* The visible texts of the session, joined by spaces; in the arena. */
const char *shown(pal_id session, const pal_message_query *load);
/* Whether these are the visible texts of the session; if not, prints both. */
bool shows(pal_id session, const char *words);
/* Hides all messages after seq. Returns the number of the mark. */
uint64_t rewind_to(pal_id session, uint64_t seq);
pal_status undo(pal_id session, uint64_t target);
/* Creates a fork at seq. */
pal_id fork_at(pal_id session, uint64_t seq);
pal_status fork_status(pal_id session, uint64_t seq);
uint64_t count_messages(void);

#endif
