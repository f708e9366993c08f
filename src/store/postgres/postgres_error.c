/* postgres_error.c - the meaning of each failure of the server, by its SQLSTATE, and the remedy. */
#include <stdio.h>
#include <string.h>

#include "store/postgres/postgres.h"

#define EXCERPT_MAX 100 /* bytes of the server's message after a remedy */
#define MESSAGE_MAX 160 /* bytes of the server's message alone */

typedef struct known_failure {
    const char *code; /* an SQLSTATE, or its first characters */
    pal_postgres_failure failure;
    pal_status status;
    const char *text; /* NULL: the server's message */
} known_failure;

/* The first row that matches counts. */
static const known_failure known[] = {
        {"40001", PAL_POSTGRES_RACE, PAL_BUSY, "other processes write the same rows; retry later"},
        {"40P01", PAL_POSTGRES_RACE, PAL_BUSY, "other processes write the same rows; retry later"},
        {"55P03", PAL_POSTGRES_RACE, PAL_BUSY, "another process holds the rows; retry later"},
        {"23505", PAL_POSTGRES_RACE, PAL_CONFLICT, NULL},
        {"25P03", PAL_POSTGRES_LOST, PAL_IO, "the server ended an idle transaction"},
        {"25006", PAL_POSTGRES_LOST, PAL_IO,
                "the server is read-only; name the primary in the URL, or reset"
                " default_transaction_read_only"},
        {"26000", PAL_POSTGRES_POOLER, PAL_IO, "a pooler is in between; add '?prepare=no'"},
        {"42P05", PAL_POSTGRES_POOLER, PAL_IO, "a pooler is in between; add '?prepare=no'"},
        {"28P01", PAL_POSTGRES_REFUSED, PAL_DENIED,
                "the password is wrong; correct the URL, PGPASSWORD or ~/.pgpass"},
        {"28", PAL_POSTGRES_REFUSED, PAL_DENIED,
                "the server does not let this user in; look at pg_hba.conf"},
        {"3D000", PAL_POSTGRES_REFUSED, PAL_NOT_FOUND,
                "the database does not exist; create it with createdb"},
        {"42501", PAL_POSTGRES_REFUSED, PAL_DENIED,
                "the user lacks rights; use the role that owns the schema, or run GRANT CREATE ON"
                " DATABASE if there is none"},
        {"53100", PAL_POSTGRES_REFUSED, PAL_FULL,
                "the server's disk is full; nothing was written"},
        {"53200", PAL_POSTGRES_REFUSED, PAL_IO, "the server is out of memory; nothing was written"},
        {"53300", PAL_POSTGRES_WAIT, PAL_OVERLOADED,
                "the server has too many connections; raise max_connections"},
        {"57014", PAL_POSTGRES_REFUSED, PAL_TIMEOUT, "the statement took too long"},
        {"57P03", PAL_POSTGRES_WAIT, PAL_IO, "the server is stopping or starting"},
        {"57P", PAL_POSTGRES_LOST, PAL_IO, "the server is stopping or starting"},
        {"08", PAL_POSTGRES_LOST, PAL_IO, "the connection was lost"},
        {"22021", PAL_POSTGRES_REFUSED, PAL_INVALID, "a name is not valid UTF-8"},
        {"22", PAL_POSTGRES_REFUSED, PAL_INVALID, NULL},
        {"42", PAL_POSTGRES_REFUSED, PAL_CORRUPT, NULL},
        {"XX", PAL_POSTGRES_REFUSED, PAL_CORRUPT, NULL},
        {"58", PAL_POSTGRES_REFUSED, PAL_IO, NULL},
};

static const known_failure *find(const char *code)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strncmp(code, known[i].code, strlen(known[i].code)) == 0)
            return &known[i];
    return NULL;
}

pal_postgres_failure pal_postgres_failure_of(const char *code)
{
    const known_failure *found = find(code);

    return found ? found->failure : PAL_POSTGRES_REFUSED;
}

pal_status pal_postgres_error(
        const pal_postgres *store, const char *code, const char *text, pal_error *err)
{
    const known_failure *found = find(code);
    size_t len = strcspn(text, "\n");

    if (found && found->text)
        return pal_error_set(err, found->status, "%s: %s (%.*s)", store->place, found->text,
                (int)(len < EXCERPT_MAX ? len : EXCERPT_MAX), text);
    return pal_error_set(err, found ? found->status : PAL_IO, "%s: %.*s (%s)", store->place,
            (int)(len < MESSAGE_MAX ? len : MESSAGE_MAX), text, code);
}
