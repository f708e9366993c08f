/* sqlite_reindex.c - rebuilds damaged indexes from their tables.
 *
 * REINDEX first empties the old index, and fails if the index is too damaged to be read. In that
 * case the index is removed from the schema without being read and created again from its own text.
 * VACUUM then frees the pages that no longer belong to anything. The tables of the search index are
 * treated in the same way and stay empty: the next search builds the missing parts.
 *
 * Crash argument: an index is replaced in one transaction, and VACUUM is another. A crash between
 * them leaves, at worst, unused pages. */
#include <string.h>

#include "store/sqlite/sqlite.h"

enum { INDEXES_MAX = 64 };

typedef struct index_text {
    char *name;
    char *text;
} index_text;

static bool run(sqlite3 *db, const char *text)
{
    return sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK;
}

/* Lists the indexes with an SQL text. Those that UNIQUE and PRIMARY KEY create have none. */
static size_t list_indexes(sqlite3 *db, index_text *out_indexes)
{
    sqlite3_stmt *stmt = NULL;
    size_t len = 0;

    sqlite3_prepare_v2(db,
            "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL", -1,
            &stmt, NULL);
    while (len < INDEXES_MAX && sqlite3_step(stmt) == SQLITE_ROW) {
        out_indexes[len].name = sqlite3_mprintf("%s", sqlite3_column_text(stmt, 0));
        out_indexes[len].text = sqlite3_mprintf("%s", sqlite3_column_text(stmt, 1));
        if (!out_indexes[len].name || !out_indexes[len].text)
            break;
        len++;
    }
    sqlite3_finalize(stmt);
    return len;
}

static bool reindex_one(sqlite3 *db, const char *name)
{
    char *text = sqlite3_mprintf("REINDEX \"%w\"", name);
    bool done = text && run(db, text);

    sqlite3_free(text);
    return done;
}

/* Runs in one transaction, so that no crash leaves the schema without the index. */
static bool replace_one(sqlite3 *db, const index_text *index)
{
    char *removal = sqlite3_mprintf("DELETE FROM sqlite_schema WHERE name = %Q", index->name);
    bool done = removal && run(db, "PRAGMA writable_schema = ON") && run(db, "BEGIN IMMEDIATE") &&
            run(db, removal) && run(db, "PRAGMA writable_schema = RESET") && run(db, index->text) &&
            run(db, "COMMIT");

    if (!sqlite3_get_autocommit(db))
        run(db, "ROLLBACK");
    run(db, "PRAGMA writable_schema = RESET");
    sqlite3_free(removal);
    return done;
}

bool pal_sqlite_reindex(pal_sql_conn *conn)
{
    index_text indexes[INDEXES_MAX];
    size_t len;
    bool done = true, replaced = false;

    if (run(conn->db, "REINDEX"))
        return true;
    len = list_indexes(conn->db, indexes);
    for (size_t i = 0; i < len; i++) {
        if (!reindex_one(conn->db, indexes[i].name)) {
            done = replace_one(conn->db, &indexes[i]) && done;
            replaced = true;
        }
        sqlite3_free(indexes[i].name);
        sqlite3_free(indexes[i].text);
    }
    if (replaced && done)
        done = run(conn->db, "VACUUM");
    return done;
}

bool pal_sqlite_search_replace(pal_sql_conn *conn)
{
    static const char *const names[] = {"search", "search_block", "search_group"};
    bool done = true;

    for (size_t i = 0; done && i < sizeof(names) / sizeof(names[0]); i++) {
        index_text table = {.name = (char *)names[i]};
        sqlite3_stmt *stmt = NULL;

        sqlite3_prepare_v2(
                conn->db, "SELECT sql FROM sqlite_schema WHERE name = ?1", -1, &stmt, NULL);
        sqlite3_bind_text(stmt, 1, names[i], -1, SQLITE_STATIC);
        if (sqlite3_step(stmt) == SQLITE_ROW)
            table.text = sqlite3_mprintf("%s", sqlite3_column_text(stmt, 0));
        sqlite3_finalize(stmt);
        done = table.text && replace_one(conn->db, &table);
        sqlite3_free(table.text);
    }
    /* The index is empty now. */
    done = done && run(conn->db, "UPDATE search_state SET blocks = 0, groups_1 = 0, groups_2 = 0");
    return done && run(conn->db, "VACUUM");
}
