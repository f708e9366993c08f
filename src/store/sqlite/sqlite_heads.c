/* sqlite_heads.c - a cache of the heads of recently written sessions, so that the next
 * operation does not have to read its head from the file. That read took a ninth of the writer's
 * work for an append, and a commit of a turn has three or more operations on one session.
 *
 * The cache is valid as long as no other connection has written to the file. SQLite counts the
 * states of the file that a connection has seen, to validate its own page cache. If a transaction
 * begins with the number that the last commit ended with, nothing was written in between. An append
 * updates the cache. The cache is emptied before any other operation that may change a head, and
 * after every rollback; during such an operation nothing is cached.
 *
 * Only the thread that holds the writer's connection calls these functions. */
#include "base/memory.h"
#include "store/sqlite/sqlite.h"

#define SLOTS 1024 /* a power of two */

typedef struct slot {
    uint64_t age; /* the slot is valid if this equals the table's age */
    pal_id id;
    pal_sqlite_head head;
} slot;

struct pal_sqlite_heads {
    uint64_t age;
    uint32_t version; /* version of the file after the last commit */
    slot slots[SLOTS];
};

/* The last bytes of an id are random. */
static slot *slot_of(pal_sqlite_heads *heads, pal_id id)
{
    size_t bits = (size_t)id.bytes[14] << 8 | id.bytes[15];

    return &heads->slots[bits % SLOTS];
}

/* Returns 0 if the version is not known: SQLite begins with 2. */
static uint32_t file_version(const pal_sql_conn *conn)
{
    unsigned version = 0;
    int code = sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_DATA_VERSION, &version);

    return code == SQLITE_OK ? version : 0;
}

void pal_sqlite_heads_begin(pal_sql_conn *conn)
{
    uint32_t version;

    if (!conn->heads)
        return;
    version = file_version(conn);
    if (version == 0 || version != conn->heads->version)
        pal_sqlite_heads_forget(conn);
}

void pal_sqlite_heads_committed(pal_sql_conn *conn)
{
    if (conn->heads)
        conn->heads->version = file_version(conn);
}

void pal_sqlite_heads_forget(pal_sql_conn *conn)
{
    if (conn->heads)
        conn->heads->age++;
}

bool pal_sqlite_heads_find(
        const pal_sql_conn *conn, pal_id id, int64_t tenant, pal_sqlite_head *out_head)
{
    const slot *found = conn->heads && conn->keeps_heads ? slot_of(conn->heads, id) : NULL;

    if (!found || found->age != conn->heads->age || !pal_id_equal(found->id, id) ||
            found->head.tenant != tenant)
        return false;
    *out_head = found->head;
    return true;
}

void pal_sqlite_heads_keep(pal_sql_conn *conn, pal_id id, const pal_sqlite_head *head)
{
    if (!conn->keeps_heads)
        return;
    if (!conn->heads) {
        conn->heads = pal_calloc(1, sizeof(*conn->heads));
        if (!conn->heads)
            return; /* the next head is looked up again */
        conn->heads->age = 1;
    }
    *slot_of(conn->heads, id) = (slot){.age = conn->heads->age, .id = id, .head = *head};
}

void pal_sqlite_heads_free(pal_sql_conn *conn)
{
    pal_free(conn->heads);
    conn->heads = NULL;
}
