/* bench_store_postgres.h - the store in PostgreSQL next to plain statements through libpq. */
#ifndef PAL_BENCH_STORE_POSTGRES_H
#define PAL_BENCH_STORE_POSTGRES_H

#include <stddef.h>
#include <stdint.h>

/* Prints the tables. Returns the exit code. Uses the schemas bench_ours and bench_raw of the
 * database and drops them. */
int bench_store_postgres(
        const char *url, size_t rounds, int64_t slice_us, size_t long_session);

#endif
