/* bench_raw_postgres.h - the reference for the store on PostgreSQL: the same rows in the same
 * tables, through libpq, with the least statements that could count as the same work. Ends the
 * program if something fails. Used by one thread. */
#ifndef PAL_BENCH_RAW_POSTGRES_H
#define PAL_BENCH_RAW_POSTGRES_H

#include <stddef.h>
#include <stdint.h>

typedef struct raw_postgres raw_postgres;

/* Uses a schema that a store has created and filled. */
raw_postgres *raw_postgres_open(const char *url, const char *schema, size_t body_len);
void raw_postgres_close(raw_postgres *self);

/* Adds `count` rows to the message table in one implicit transaction, one for each session, and
 * updates the heads. The seqs are known, and nothing is checked. */
void raw_postgres_append(raw_postgres *self, size_t sessions_len, size_t count);

/* Copies the bodies of the newest `limit` messages of the session. Returns their bytes. */
size_t raw_postgres_tail(raw_postgres *self, size_t session, int limit);

/* Runs a statement without parameters. */
void raw_postgres_exec(raw_postgres *self, const char *text);

#endif
