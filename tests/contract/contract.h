/* contract.h - what all files of the store's suite share.
 *
 * The suite runs over any backend: its URL is the first argument. For "sqlite:DIR/x.db" every test
 * gets a fresh directory; "memory:" is fresh by nature. Each test finds `store` open and empty,
 * `arena` empty, and the clock at NOW. Tests use the public interface only; the clock apart. */
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

extern pal_store *store;
extern pal_arena *arena;
extern pal_error err;

bool contract_gives(
        pal_status wanted, pal_status status, const char *text, const char *file, int line);
void contract_run(const char *name, void (*test)(void));

/* The call gives this status, and `err` (passed to it) says the same with a message. */
#define GIVES(wanted, call) contract_gives(wanted, (call), #call, __FILE__, __LINE__)
#define OK(call) GIVES(PAL_OK, call)
/* Every test gets an empty store. */
#undef RUN
#define RUN(test) contract_run(#test, test)

/* One function per file: runs its tests. */
void contract_sessions(void);
void contract_resolve(void);
void contract_lists(void);
void contract_messages(void);
void contract_loads(void);
void contract_forks(void);
void contract_model(void);
void contract_active_marks(void);
void contract_search(void);
void contract_trash(void);
void contract_erasure(void);
void contract_turns(void);
void contract_ledger(void);
void contract_records(void);
void contract_blobs(void);
void contract_batches(void);
void contract_tenants(void);
void contract_twins(void);
void contract_threads(void);
void contract_async(void);
void contract_reopen(void);
void contract_upkeep(void);

/* ---- The store under test ---- */

/* Where tests put files; made by contract_begin(), emptied before each test. */
extern const char *contract_dir;
/* The URL for the store of the running test. */
extern char contract_url[512];

/* `many_stores`: thousands of them are made, and nothing depends on the disk, so they may lie in
 * memory where the system offers such a place. */
bool contract_begin(int argc, char **argv, bool many_stores);
/* Ends the TAP output; returns the exit code. */
int contract_end(void);
/* Removes what the last test left, so that contract_url names a store that does not exist. */
void contract_clear(void);
/* Whether the backend keeps anything when it is closed. */
bool contract_is_durable(void);
/* Closes and opens again. */
void contract_reopen_store(void);
/* Closes, and opens anew with options. */
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

/* An empty session of the default tenant, or one with that key. */
pal_id new_session(void);
pal_id new_session_with_key(const char *key);
/* The session by its id, in whatever state. */
pal_session get_session(pal_id id);
/* The status of looking for it by id, key or alias. */
pal_status find_status(pal_session_by by, const char *name);
pal_status find_id_status(pal_id id);
/* Whether a key or alias leads to this session. */
bool leads_to(pal_session_by by, const char *name, pal_id id);

pal_message text_of(pal_role role, const char *text);
/* Appends one user message; 0 on failure. */
uint64_t say(pal_id session, const char *text);
/* Appends one for each word. */
void say_words(pal_id session, const char *words);
/* The texts that the session shows, joined by spaces; in the arena. */
const char *shown(pal_id session, const pal_message_query *load);
bool shows(pal_id session, const char *words);
/* Hides all messages after seq; the mark's number. */
uint64_t rewind_to(pal_id session, uint64_t seq);
pal_status undo(pal_id session, uint64_t target);
/* A fork at seq. */
pal_id fork_at(pal_id session, uint64_t seq);
pal_status fork_status(pal_id session, uint64_t seq);
uint64_t count_messages(void);

#endif
