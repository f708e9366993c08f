/* postgres_export.c - returns everything in the schema, for a copy of the store.
 *
 * Each table is read along an index that begins with the number of the tenant, in pages. A place is
 * that number, followed by the rest of the key. */
#include <string.h>

#include "base/memory.h"
#include "store/postgres/postgres.h"

enum { PAGE_ROWS = 64 };

typedef struct export {
    const PGresult *result;
    int line;
    pal_arena *arena;
    pal_export_item item;
    char place[PAL_EXPORT_PLACE_MAX];
    size_t place_len;
    pal_session_row session;
    pal_row row;
    pal_ledger_row ledger;
    pal_record record;
} export;

static void add_place(export *self, pal_str bytes)
{
    if (bytes.len > sizeof self->place - self->place_len)
        return;
    memcpy(self->place + self->place_len, bytes.data, bytes.len);
    self->place_len += bytes.len;
}

/* Takes the tenant's name and number from two columns. */
static void read_tenant(export *self, int column)
{
    self->item.tenant = pal_postgres_str(self->result, self->line, column);
    self->place_len = 0;
    add_place(self, pal_postgres_str(self->result, self->line, column + 1));
}

static void read_blob(export *self)
{
    pal_str hash = pal_postgres_str(self->result, self->line, 0);

    if (hash.len == sizeof self->item.hash)
        memcpy(self->item.hash, hash.data, hash.len);
    self->item.put_at = pal_postgres_int(self->result, self->line, 1);
    read_tenant(self, 2);
    add_place(self, hash);
}

static void read_session(export *self)
{
    read_tenant(self, 23);
    pal_postgres_session_read(
            self->result, self->line, self->item.tenant, self->arena, &self->session);
    self->item.session = &self->session;
    add_place(self, pal_postgres_str(self->result, self->line, 0));
}

static void read_message(export *self)
{
    pal_postgres_row_read(self->result, self->line, &self->row);
    self->item.row = &self->row;
    self->item.owner = pal_postgres_id(self->result, self->line, 10);
    read_tenant(self, 11);
    add_place(self, pal_postgres_str(self->result, self->line, 13));
}

static void read_ledger(export *self)
{
    self->item.owner = pal_postgres_id(self->result, self->line, 1);
    pal_postgres_ledger_read(self->result, self->line, &self->ledger);
    self->item.ledger = &self->ledger;
    read_tenant(self, 16);
    add_place(self, pal_postgres_str(self->result, self->line, 0));
}

static void read_record(export *self)
{
    pal_postgres_record_read(self->result, self->line, self->arena, &self->record);
    self->item.record = &self->record;
    read_tenant(self, 8);
    add_place(self, self->record.kind);
    add_place(self, pal_str_make("", 1)); /* separates the kind from the name */
    add_place(self, self->record.name);
}

static int64_t number_of(pal_str bytes)
{
    uint64_t number = 0;

    for (size_t i = 0; i < 8 && i < bytes.len; i++)
        number = number << 8 | (unsigned char)bytes.data[i];
    return (int64_t)number;
}

/* Puts the beginning of a page: the number of a tenant and the rest of the key. */
static void put_place(pal_postgres_params *params, pal_export_kind kind, pal_str place)
{
    static const char none[16];
    pal_str key = pal_text_after(place, 8);
    const char *end;

    pal_postgres_put_int(params, place.len > 0 ? number_of(place) : INT64_MIN);
    switch (kind) {
    case PAL_EXPORT_BLOB:
        pal_postgres_put_bytes(params, key);
        break;
    case PAL_EXPORT_ROW:
        pal_postgres_put_int(params, number_of(key));
        break;
    case PAL_EXPORT_SESSION:
    case PAL_EXPORT_LEDGER:
        pal_postgres_put_bytes(params, key.len > 0 ? key : pal_str_make(none, sizeof none));
        break;
    case PAL_EXPORT_RECORD:
        end = key.len > 0 ? memchr(key.data, 0, key.len) : NULL;
        pal_postgres_put_bytes(
                params, pal_str_make(key.data, end ? (size_t)(end - key.data) : key.len));
        pal_postgres_put_bytes(params,
                end ? pal_text_after(key, (size_t)(end - key.data) + 1) : pal_str_make("", 0));
        break;
    }
    pal_postgres_put_int(params, PAGE_ROWS);
}

pal_status pal_postgres_export_scan(pal_engine *engine, pal_export_kind kind, pal_str after,
        pal_arena *arena, pal_export_sink sink, void *user, pal_error *err)
{
    static const struct {
        pal_postgres_sql statement;
        void (*read)(export *self);
    } kinds[] = {
            [PAL_EXPORT_BLOB] = {PAL_POSTGRES_EXPORT_BLOBS, read_blob},
            [PAL_EXPORT_SESSION] = {PAL_POSTGRES_EXPORT_SESSIONS, read_session},
            [PAL_EXPORT_ROW] = {PAL_POSTGRES_EXPORT_MESSAGES, read_message},
            [PAL_EXPORT_LEDGER] = {PAL_POSTGRES_EXPORT_LEDGER, read_ledger},
            [PAL_EXPORT_RECORD] = {PAL_POSTGRES_EXPORT_RECORDS, read_record},
    };
    export self = {.arena = arena};
    bool is_wanted = true;
    int len = PAGE_ROWS;

    while (is_wanted && len == PAGE_ROWS) {
        pal_postgres_params params = {0};
        PGresult *result = NULL;
        pal_status status;

        put_place(&params, kind, after);
        status = pal_postgres_read(
                (pal_postgres *)engine, kinds[kind].statement, &params, &result, err);
        if (status != PAL_OK)
            return status;
        self.result = result;
        len = PQntuples(result);
        for (self.line = 0; is_wanted && self.line < len; self.line++) {
            kinds[kind].read(&self);
            self.item.place = pal_str_make(self.place, self.place_len);
            is_wanted = sink(&self.item, user);
        }
        after = self.item.place;
        PQclear(result);
    }
    return pal_arena_checked(arena, err);
}
