/* memory_export.c - returns everything in "memory:", for a copy of the store.
 *
 * The order must be the same in every process that reads the same data, because an interrupted copy
 * continues from a place in it. "jsonl:" uses these functions too, and its lists depend on the
 * order of files in a directory. So objects are sorted by tenant and by id or name. Entries of the
 * ledger have neither; their order is that of the log. */
#include <stdlib.h>

#include "base/memory.h"
#include "store/memory/memory_store.h"

/* An object, and the bytes that it is sorted by. */
typedef struct sorted {
    pal_str key; /* the tenant, a NUL, and the id or name */
    const memory_tenant *tenant;
    const void *object;
} sorted;

typedef struct export {
    memory_engine *engine;
    pal_str after;
    pal_arena *arena;
    pal_export_sink sink;
    void *user;
    sorted *items;
    size_t len, cap;
    bool failed;
} export;

static int compare(const void *left, const void *right)
{
    return pal_text_compare(((const sorted *)left)->key, ((const sorted *)right)->key);
}

static pal_str make_key(export *self, const memory_tenant *tenant, pal_str kind, pal_str name)
{
    size_t len = tenant->name.len + 1 + kind.len + name.len;
    char *key = pal_arena_alloc(self->arena, len), *cursor = key;

    if (!key)
        return pal_str_make(NULL, 0);
    pal_memory_put(&cursor, tenant->name);
    *cursor++ = 0;
    pal_memory_put(&cursor, kind);
    pal_memory_put(&cursor, name);
    return pal_str_make(key, len);
}

static void add(export *self, const memory_tenant *tenant, pal_str key, const void *object)
{
    if (!pal_reserve(&self->items, &self->cap, self->len + 1, sizeof *self->items))
        self->failed = true;
    else
        self->items[self->len++] = (sorted){key, tenant, object};
}

/* Adds the object if the scan does not begin after it. */
static void add_after(export *self, const memory_tenant *tenant, pal_str key, const void *object)
{
    if (self->after.len == 0 || pal_text_compare(key, self->after) > 0)
        add(self, tenant, key, object);
}

static pal_status finish(
        export *self, bool (*put)(export *self, const sorted *one), pal_error *err)
{
    if (pal_arena_failure(self->arena))
        self->failed = true;
    if (!self->failed && self->len > 1)
        qsort(self->items, self->len, sizeof *self->items, compare);
    for (size_t i = 0; !self->failed && i < self->len; i++)
        if (!put(self, &self->items[i]))
            break;
    pal_free(self->items);
    return self->failed ? pal_no_memory(err) : pal_memory_arena_status(self->arena, err);
}

/* ---- Blobs and sessions ---- */

static bool put_blob(export *self, const sorted *one)
{
    const memory_blob *blob = one->object;
    pal_export_item item = {
            .place = one->key, .tenant = one->tenant->name, .put_at = blob->put_at};

    memcpy(item.hash, blob->hash, sizeof item.hash);
    return self->sink(&item, self->user);
}

static pal_status export_blobs(export *self, pal_error *err)
{
    for (const memory_tenant *tenant = self->engine->tenant_list; tenant; tenant = tenant->next)
        for (const memory_blob *blob = tenant->blob_list; blob; blob = blob->next) {
            pal_str hash = pal_str_make((const char *)blob->hash, sizeof blob->hash);

            add_after(self, tenant, make_key(self, tenant, hash, pal_str_make(NULL, 0)), blob);
        }
    return finish(self, put_blob, err);
}

static pal_str session_key(export *self, const memory_session *session)
{
    return make_key(self, session->tenant, mem_id_key(&session->id), pal_str_make(NULL, 0));
}

static bool put_session(export *self, const sorted *one)
{
    pal_session_row row;
    pal_export_item item = {.place = one->key, .tenant = one->tenant->name, .session = &row};

    pal_memory_session_copy(one->object, self->arena, &row);
    return self->sink(&item, self->user);
}

static pal_status export_sessions(export *self, pal_error *err)
{
    for (const memory_tenant *tenant = self->engine->tenant_list; tenant; tenant = tenant->next)
        for (const memory_session *one = tenant->sessions; one; one = one->next)
            add_after(self, tenant, session_key(self, one), one);
    return finish(self, put_session, err);
}

/* ---- Rows: the place is that of the session, and the seq ---- */

static void put_number(uint64_t number, char out_bytes[8])
{
    for (int i = 0; i < 8; i++)
        out_bytes[i] = (char)(number >> (56 - 8 * i));
}

static uint64_t get_number(const char *bytes)
{
    uint64_t number = 0;

    for (int i = 0; i < 8; i++)
        number = number << 8 | (unsigned char)bytes[i];
    return number;
}

static bool put_rows(export *self, const sorted *one)
{
    const memory_session *session = one->object;
    uint64_t after_seq = 0;
    char place[PAL_EXPORT_PLACE_MAX];

    if (self->after.len == one->key.len + 8 && pal_text_begins_str(self->after, one->key))
        after_seq = get_number(self->after.data + one->key.len);
    memcpy(place, one->key.data, one->key.len);
    for (size_t i = 0; i < session->rows_len; i++) {
        const pal_row *row = &session->rows[session->rows_skip + i]->row;
        pal_export_item item = {.place = pal_str_make(place, one->key.len + 8),
                .tenant = one->tenant->name,
                .row = row,
                .owner = session->id};

        put_number(row->seq, place + one->key.len);
        if (row->seq > after_seq && !self->sink(&item, self->user))
            return false;
    }
    return true;
}

static pal_status export_rows(export *self, pal_error *err)
{
    for (const memory_tenant *tenant = self->engine->tenant_list; tenant; tenant = tenant->next)
        for (const memory_session *one = tenant->sessions; one; one = one->next) {
            pal_str key = session_key(self, one);

            if (pal_text_compare(key, self->after) > 0 || pal_text_begins_str(self->after, key))
                add(self, tenant, key, one);
        }
    return finish(self, put_rows, err);
}

/* ---- The ledger: the place is the tenant and a number ---- */

static bool put_entries(export *self, const sorted *one)
{
    const memory_tenant *tenant = one->object;
    uint64_t number = 0, after = 0;
    char place[PAL_EXPORT_PLACE_MAX];

    if (self->after.len == one->key.len + 8 && pal_text_begins_str(self->after, one->key))
        after = get_number(self->after.data + one->key.len);
    memcpy(place, one->key.data, one->key.len);
    for (const memory_entry *entry = tenant->ledger; entry; entry = entry->next) {
        pal_export_item item = {.place = pal_str_make(place, one->key.len + 8),
                .tenant = tenant->name,
                .ledger = &entry->row};

        if (entry->session)
            item.owner = entry->session->id;
        put_number(++number, place + one->key.len);
        if (number > after && !self->sink(&item, self->user))
            return false;
    }
    return true;
}

static pal_status export_ledger(export *self, pal_error *err)
{
    pal_str none = {NULL, 0};

    for (const memory_tenant *tenant = self->engine->tenant_list; tenant; tenant = tenant->next) {
        pal_str key = make_key(self, tenant, none, none);

        if (pal_text_compare(key, self->after) > 0 || pal_text_begins_str(self->after, key))
            add(self, tenant, key, tenant);
    }
    return finish(self, put_entries, err);
}

/* ---- Records ---- */

static bool put_record(export *self, const sorted *one)
{
    pal_export_item item = {
            .place = one->key, .tenant = one->tenant->name, .record = one->object};

    return self->sink(&item, self->user);
}

static pal_status export_records(export *self, pal_error *err)
{
    for (const memory_tenant *tenant = self->engine->tenant_list; tenant; tenant = tenant->next)
        for (const memory_kind *kind = tenant->kind_list; kind; kind = kind->next) {
            /* The NUL after the kind keeps "ab" + "c" and "a" + "bc" apart. */
            pal_str prefix = make_key(self, tenant, kind->name, pal_str_make("", 1));

            for (size_t i = 0; prefix.data && i < kind->len; i++) {
                const pal_record *record = &kind->items[i]->record;
                pal_str name = pal_str_make(prefix.data + tenant->name.len + 1,
                        prefix.len - tenant->name.len - 1);

                add_after(self, tenant, make_key(self, tenant, name, record->name), record);
            }
        }
    return finish(self, put_record, err);
}

pal_status pal_memory_export_scan(pal_engine *base, pal_export_kind kind, pal_str after,
        pal_arena *arena, pal_export_sink sink, void *user, pal_error *err)
{
    static pal_status (*const scans[])(export *, pal_error *) = {
            [PAL_EXPORT_BLOB] = export_blobs,
            [PAL_EXPORT_SESSION] = export_sessions,
            [PAL_EXPORT_ROW] = export_rows,
            [PAL_EXPORT_LEDGER] = export_ledger,
            [PAL_EXPORT_RECORD] = export_records,
    };
    export self = {.engine = (memory_engine *)base,
            .after = after,
            .arena = arena,
            .sink = sink,
            .user = user};
    pal_status status;

    pthread_rwlock_rdlock(&self.engine->lock);
    status = scans[kind](&self, err);
    pthread_rwlock_unlock(&self.engine->lock);
    return status;
}
