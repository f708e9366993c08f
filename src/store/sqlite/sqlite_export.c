/* sqlite_export.c - returns everything in the file, for a copy of the store. Every table is read in
 * the order of its numbers, so a place is a number. Messages are numbered as they arrive. */
#include <string.h>

#include "store/sqlite/sqlite.h"

typedef struct export {
    pal_sql sql;
    pal_arena *arena;
    pal_export_item item;
    pal_session_row session;
    pal_row row;
    pal_ledger_row ledger;
    pal_record record;
} export;

/* Each of these reads one row. Column 0 is the number, and column 1 the tenant. */
static void read_blob(export *self)
{
    pal_str hash = pal_sql_text(&self->sql, 2);

    if (hash.len == sizeof self->item.hash)
        memcpy(self->item.hash, hash.data, hash.len);
    self->item.put_at = pal_sql_int(&self->sql, 3);
}

static void read_session(export *self)
{
    pal_sqlite_session_read(&self->sql, 2, self->arena, &self->session);
    self->item.session = &self->session;
}

static void read_message(export *self)
{
    pal_sqlite_row_read(&self->sql, 3, &self->row);
    self->item.owner = pal_sql_uuid(&self->sql, 2);
    self->item.row = &self->row;
}

static void read_ledger(export *self)
{
    self->item.owner = pal_sql_uuid(&self->sql, 2);
    pal_sqlite_ledger_read(&self->sql, 3, &self->ledger);
    self->item.ledger = &self->ledger;
}

static void read_record(export *self)
{
    pal_sqlite_record_read(&self->sql, 2, self->arena, &self->record);
    self->item.record = &self->record;
}

static int64_t number_of(pal_str place)
{
    int64_t number = 0;

    if (place.len == sizeof number)
        memcpy(&number, place.data, sizeof number);
    return number;
}

pal_status pal_sqlite_export_scan(pal_engine *engine, pal_export_kind kind, pal_str after,
        pal_arena *arena, pal_export_sink sink, void *user, pal_error *err)
{
    static const struct {
        pal_sql_id statement;
        void (*read)(export *self);
    } kinds[] = {
            [PAL_EXPORT_BLOB] = {PAL_SQL_EXPORT_BLOBS, read_blob},
            [PAL_EXPORT_SESSION] = {PAL_SQL_EXPORT_SESSIONS, read_session},
            [PAL_EXPORT_ROW] = {PAL_SQL_EXPORT_MESSAGES, read_message},
            [PAL_EXPORT_LEDGER] = {PAL_SQL_EXPORT_LEDGER, read_ledger},
            [PAL_EXPORT_RECORD] = {PAL_SQL_EXPORT_RECORDS, read_record},
    };
    pal_sqlite *store = (pal_sqlite *)engine;
    export self = {.arena = arena};
    bool is_wanted = true;

    if (!store->has_records)
        return pal_error_set(err, PAL_INVALID,
                "%s has an older format; run 'palaver store migrate' first", store->path);
    self.sql = pal_sql_read(store, PAL_READ_LONG, kinds[kind].statement, err);
    pal_sql_bind_int(&self.sql, number_of(after));
    while (is_wanted && pal_sql_row(&self.sql)) {
        int64_t number = pal_sql_int(&self.sql, 0);

        self.item.place = pal_str_make((const char *)&number, sizeof number);
        self.item.tenant = pal_sql_text(&self.sql, 1);
        kinds[kind].read(&self);
        is_wanted = sink(&self.item, user);
    }
    return pal_sql_end_copied(&self.sql, arena, err);
}
