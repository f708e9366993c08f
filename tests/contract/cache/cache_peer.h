/* cache_peer.h - another process that changes the same SQLite file at random, and the comparison of
 * two stores, of which one has a cache. */
#ifndef PAL_TESTS_CACHE_PEER_H
#define PAL_TESTS_CACHE_PEER_H

#include <stdatomic.h>
#include <sys/types.h>

#include "contract/contract.h"

enum { PEER_SESSIONS = 12, PEER_TENANTS = 2 };

/* What the processes share. */
typedef struct peer_shared {
    _Atomic uint64_t acknowledged; /* messages of one session that were acknowledged to anybody */
    atomic_bool stops;
    atomic_bool failed;
} peer_shared;

typedef struct peer {
    pid_t pid;
    int to, from; /* pipes: a seed for a step, and one byte when it is done */
} peer;

extern const pal_str peer_tenants[PEER_TENANTS];

/* The sessions are the same in every process and tenant. */
pal_id peer_session(uint64_t number);
uint64_t peer_random(uint64_t *state, uint64_t bound);
/* Changes a session at random. */
void peer_step(pal_store *store, uint64_t seed);

/* Starts a process that makes steps. It must be called before the store is opened. */
peer peer_start(const pal_store_options *options);
void peer_order(const peer *other, uint64_t seed);
void peer_stop(peer *other);

/* Whether both stores show the same session. */
bool peer_same(pal_store *a, pal_store *b, uint64_t tenant, uint64_t session, uint64_t seed);

#endif
