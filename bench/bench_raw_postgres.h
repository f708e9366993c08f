/* bench_raw_postgres.h - the reference for the store on PostgreSQL: the same rows in the same
 * tables, through libpq, with the least statements that could count as the same work. Ends the
 * program if something fails. Used by one thread. */
#ifndef PAL_BENCH_RAW_POSTGRES_H
#define PAL_BENCH_RAW_POSTGRES_H

#include <stddef.h>
#include <stdint.h>

typedef struct raw_postgres raw_postgres;

/* `schema` is one that a store has created and filled. */
raw_postgres *raw_postgres_open(const char *url, const char *schema, size_t body_len);
void raw_postgres_close(raw_postgres *self);

/* In one implicit transaction: `count` rows into the message table, one for each session in turn,
 * and an update of their heads. The seqs are known, and nothing is checked. */
void raw_postgres_append(raw_postgres *self, size_t sessions_len, size_t count);

/* Copies the bodies of the newest `limit` messages of the session; returns their bytes. */
size_t raw_postgres_tail(raw_postgres *self, size_t session, int limit);

/* Runs a statement without parameters. */
void raw_postgres_exec(raw_postgres *self, const char *text);

#endif
