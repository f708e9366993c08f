/* postgres_single.h - a batch that needs only one flight. */
#ifndef PAL_POSTGRES_SINGLE_H
#define PAL_POSTGRES_SINGLE_H

#include "store/postgres/postgres.h"

typedef struct pal_postgres_single pal_postgres_single;

/* Returns NULL if the works need two flights, or if there is no memory. */
pal_postgres_single *pal_postgres_single_new(pal_work *works, size_t works_len);
void pal_postgres_single_free(pal_postgres_single *single);

/* Sends the batch. PAL_OK: the batch is committed, and every work that was written has its results.
 * If the connection is lost, the commit is in doubt. After any other failure nothing was
 * written. */
PAL_CHECKED pal_status pal_postgres_single_run(pal_postgres *store, pal_postgres_single *single,
        pal_postgres_failure *out_failure, pal_error *err);

/* Reads the results of a batch that was committed, if the answer was lost. */
PAL_CHECKED pal_status pal_postgres_single_recall(pal_postgres *store, pal_postgres_single *single,
        pal_postgres_failure *out_failure, pal_error *err);

/* Returns the works that were not written, in their order: they must run in two flights, which find
 * the reason. The array belongs to `single`. */
pal_work *pal_postgres_single_rest(pal_postgres_single *single, size_t *out_len);

#endif
