/* check_postgres.h - what the files of fsck share, for check_*.c only. */
#ifndef PAL_CHECK_POSTGRES_H
#define PAL_CHECK_POSTGRES_H

#include "store/postgres/postgres.h"

typedef struct pal_postgres_check_state {
    pal_postgres *store;
    pal_postgres_conn conn; /* for repairs, which the writer's thread must not wait for */
    bool repair;
    pal_row_check row_check;
    pal_store_on_finding sink;
    pal_store_on_progress progress;
    void *user;
} pal_postgres_check_state;

/* Reports a problem; `session` may be none. */
void pal_postgres_check_report(
        pal_postgres_check_state *check, pal_id session, bool repaired, const char *text);
/* Runs one statement that repairs something. Frees the parameters. Returns whether it was done. */
bool pal_postgres_check_repair(
        pal_postgres_check_state *check, pal_postgres_sql sql, pal_postgres_params *params);

/* check_data.c: everything that belongs to sessions or to no session. */
PAL_CHECKED pal_status pal_postgres_check_strays(pal_postgres_check_state *check, pal_error *err);
PAL_CHECKED pal_status pal_postgres_check_blobs(pal_postgres_check_state *check, pal_error *err);
PAL_CHECKED pal_status pal_postgres_check_ledger(
        pal_postgres_check_state *check, int64_t tenant, pal_str name, pal_error *err);

/* check_index.c: the search index of a tenant, then chunks without a block. */
PAL_CHECKED pal_status pal_postgres_check_index(
        pal_postgres_check_state *check, int64_t tenant, pal_str name, pal_error *err);
PAL_CHECKED pal_status pal_postgres_check_chunks(pal_postgres_check_state *check, pal_error *err);

#endif
