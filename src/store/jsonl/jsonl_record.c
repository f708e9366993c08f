/* jsonl_record.c - the records of the log: each is the present state of one object. A record
 * is a JSON object whose member "is" names its kind; a body of any size is its tail. A later record
 * of the same object replaces an earlier one, so the log can be rewritten from the state alone. */
#include "base/digest.h"
#include "base/json/json_put.h"
#include "dialect/native/native.h"
#include "store/jsonl/jsonl.h"

#define RECORD_BYTES_MAX (64u << 20)

typedef struct record {
    jsonl_batch *batch;
    pal_buf buf;
    pal_json_writer json;
} record;

static void begin(record *r, jsonl_batch *batch, const char *kind)
{
    r->batch = batch;
    pal_buf_init(&r->buf, RECORD_BYTES_MAX);
    r->json = pal_json_writer_make(&r->buf);
    pal_json_begin_object(&r->json);
    pal_put_text(&r->json, "is", kind);
}

static void end(record *r, pal_str tail)
{
    pal_json_end_object(&r->json);
    if (r->buf.failure && !r->batch->log.failure)
        r->batch->log.failure = r->buf.failure;
    else
        pal_jsonl_log_put(r->batch, pal_buf_str(&r->buf), tail);
    pal_buf_done(&r->buf);
}

static void put_str(record *r, const char *name, pal_str text)
{
    if (text.len == 0)
        return;
    pal_put_str(&r->json, name, text);
}

static void put_u64(record *r, const char *name, uint64_t number)
{
    pal_put_count(&r->json, name, number);
}

static void put_i64(record *r, const char *name, int64_t number)
{
    pal_put_number(&r->json, name, number);
}

static void put_id(record *r, const char *name, pal_id id)
{
    char text[PAL_ID_TEXT_SIZE];

    if (pal_id_is_none(id))
        return;
    pal_id_to_text(id, text);
    put_str(r, name, pal_str_of(text));
}

/* ---- Record kinds ---- */

/* Writes where a file comes from and how it begins. Recovery recognizes the file by this after a
 * crash, even in a copy of the directory. */
static void put_move(record *r, const jsonl_file *file)
{
    put_str(r, "from", pal_str_of(file->moved_from));
    put_u64(r, "at", file->size);
    put_u64(r, "sum", file->sum);
}

void pal_jsonl_put_session(jsonl_batch *batch, memory_session *session)
{
    jsonl_file *file = pal_jsonl_file_find(batch->engine, session->tenant->name, session->id);
    pal_status status;
    record r;

    begin(&r, batch, "session");
    put_u64(&r, "handle", session->handle);
    put_u64(&r, "fork_mark", session->fork_mark);
    put_u64(&r, "mark_number", session->mark_number);
    if (file && file->path) {
        put_str(&r, "path", pal_str_of(file->path));
        put_u64(&r, "inode", file->inode);
        if (file->moved_from)
            put_move(&r, file);
    }
    pal_json_name(&r.json, "session");
    status = pal_native_session_put(&r.json, &session->info->record, NULL);
    if (status != PAL_OK) {
        pal_json_put_null(&r.json);
        if (!batch->log.failure)
            batch->log.failure = status;
    }
    end(&r, pal_str_make(NULL, 0));
    if (file)
        file->is_logged = true;
}

void pal_jsonl_put_erase(jsonl_batch *batch, pal_str tenant, pal_id id)
{
    record r;

    begin(&r, batch, "erase");
    put_str(&r, "tenant", tenant);
    put_id(&r, "session", id);
    end(&r, pal_str_make(NULL, 0));
}

void pal_jsonl_put_erase_message(jsonl_batch *batch, pal_str tenant, pal_id owner, uint64_t seq)
{
    record r;

    begin(&r, batch, "erase_message");
    put_str(&r, "tenant", tenant);
    put_id(&r, "session", owner);
    put_u64(&r, "seq", seq);
    end(&r, pal_str_make(NULL, 0));
}

void pal_jsonl_put_append(jsonl_batch *batch, const jsonl_append *append, int64_t now_ms)
{
    record r;

    begin(&r, batch, "append");
    put_str(&r, "tenant", append->file->tenant);
    put_id(&r, "session", append->file->id);
    put_u64(&r, "at", append->at);
    put_u64(&r, "sum", append->sum);
    put_u64(&r, "inode", append->file->inode);
    put_i64(&r, "now", now_ms);
    end(&r, pal_str_make(batch->lines.data + append->from, append->len));
}

void pal_jsonl_put_mark(jsonl_batch *batch, const memory_session *session, const pal_mark *mark)
{
    jsonl_file *file = pal_jsonl_file_find(batch->engine, session->tenant->name, session->id);
    record r;

    if (file)
        file->mark_logged = mark->number;
    begin(&r, batch, "mark");
    put_str(&r, "tenant", session->tenant->name);
    put_id(&r, "session", session->id);
    put_u64(&r, "number", mark->number);
    put_u64(&r, "kind", mark->kind);
    put_u64(&r, "seq", mark->seq);
    put_u64(&r, "through_seq", mark->through_seq);
    put_u64(&r, "target", mark->target);
    put_i64(&r, "created_at", mark->created_at);
    put_i64(&r, "updated_at", session->info->record.updated_at);
    end(&r, mark->body);
}

void pal_jsonl_put_unmark(jsonl_batch *batch, const memory_session *session)
{
    record r;

    begin(&r, batch, "unmark");
    put_str(&r, "tenant", session->tenant->name);
    put_id(&r, "session", session->id);
    end(&r, pal_str_make(NULL, 0));
}

void pal_jsonl_put_inbox(
        jsonl_batch *batch, pal_str tenant, pal_id session, const pal_inbox_item *item)
{
    record r;

    begin(&r, batch, "inbox");
    put_str(&r, "tenant", tenant);
    put_id(&r, "session", session);
    put_id(&r, "id", item->id);
    put_str(&r, "client_id", item->client_id);
    put_str(&r, "delivery", item->delivery);
    put_i64(&r, "created_at", item->created_at);
    end(&r, item->body);
}

void pal_jsonl_put_inbox_drop(jsonl_batch *batch, pal_str tenant, pal_id session, pal_id item)
{
    record r;

    begin(&r, batch, "inbox_drop");
    put_str(&r, "tenant", tenant);
    put_id(&r, "session", session);
    put_id(&r, "id", item);
    end(&r, pal_str_make(NULL, 0));
}

void pal_jsonl_put_lease(jsonl_batch *batch, const memory_session *session)
{
    record r;

    begin(&r, batch, "lease");
    put_str(&r, "tenant", session->tenant->name);
    put_id(&r, "session", session->id);
    put_str(&r, "owner", pal_str_make(session->lease_owner, session->lease_owner_len));
    put_u64(&r, "fence", session->lease_fence);
    put_i64(&r, "expires_at", session->lease_expires_at);
    put_i64(&r, "ttl_ms", session->lease_ttl_ms);
    end(&r, pal_str_make(NULL, 0));
}

void pal_jsonl_put_ledger(
        jsonl_batch *batch, pal_str tenant, pal_id session, const pal_ledger_row *row)
{
    record r;

    begin(&r, batch, "ledger");
    put_str(&r, "tenant", tenant);
    put_id(&r, "session", session);
    put_str(&r, "request_id", row->request_id);
    put_str(&r, "turn_id", row->turn_id);
    put_str(&r, "agent", row->agent);
    put_str(&r, "purpose", row->purpose);
    put_str(&r, "provider", row->provider);
    put_str(&r, "model", row->model);
    put_str(&r, "price_version", row->price_version);
    put_u64(&r, "input", row->usage.input);
    put_u64(&r, "cache_read", row->usage.cache_read);
    put_u64(&r, "cache_write", row->usage.cache_write);
    put_u64(&r, "output", row->usage.output);
    put_u64(&r, "reasoning", row->usage.reasoning);
    put_i64(&r, "cost_micros", row->cost_micros);
    put_i64(&r, "created_at", row->created_at);
    end(&r, pal_str_make(NULL, 0));
}

void pal_jsonl_put_record(jsonl_batch *batch, pal_str tenant, const pal_record *given)
{
    record r;

    begin(&r, batch, "record");
    put_str(&r, "tenant", tenant);
    put_str(&r, "kind", given->kind);
    put_str(&r, "name", given->name);
    put_id(&r, "session", given->session);
    put_u64(&r, "version", given->version);
    put_i64(&r, "created_at", given->created_at);
    put_i64(&r, "updated_at", given->updated_at);
    put_i64(&r, "expires_at", given->expires_at);
    end(&r, given->body);
}

void pal_jsonl_put_record_drop(jsonl_batch *batch, pal_str tenant, pal_str kind, pal_str name)
{
    record r;

    begin(&r, batch, "record_drop");
    put_str(&r, "tenant", tenant);
    put_str(&r, "kind", kind);
    put_str(&r, "name", name);
    end(&r, pal_str_make(NULL, 0));
}

void pal_jsonl_put_blob(jsonl_batch *batch, pal_str tenant, const memory_blob *blob)
{
    char hex[2 * PAL_SHA256_SIZE + 1];
    record r;

    pal_hex(blob->hash, sizeof blob->hash, hex);
    begin(&r, batch, "blob");
    put_str(&r, "tenant", tenant);
    put_str(&r, "hash", pal_str_of(hex));
    put_str(&r, "media_type", blob->media_type);
    put_i64(&r, "put_at", blob->put_at);
    end(&r, pal_str_make(NULL, 0));
}

void pal_jsonl_put_done(jsonl_batch *batch)
{
    pal_jsonl_log_put(batch, pal_str_of(JSONL_DONE), pal_str_make(NULL, 0));
}

/* ---- The complete record ---- */

static void put_start(jsonl_batch *batch)
{
    record r;

    begin(&r, batch, "start");
    put_u64(&r, "handle_last", batch->engine->mem->handle_last);
    if (batch->engine->log_lost > 0)
        put_u64(&r, "lost", batch->engine->log_lost);
    end(&r, pal_str_make(NULL, 0));
}

static void put_tenant(jsonl_batch *batch, const memory_tenant *tenant)
{
    record r;

    begin(&r, batch, "tenant");
    put_str(&r, "tenant", tenant->name);
    end(&r, pal_str_make(NULL, 0));
    for (const memory_blob *blob = tenant->blob_list; blob; blob = blob->next)
        pal_jsonl_put_blob(batch, tenant->name, blob);
    for (memory_session *session = tenant->sessions; session; session = session->next) {
        pal_jsonl_put_session(batch, session);
        for (size_t i = 0; i < session->marks_len; i++)
            pal_jsonl_put_mark(batch, session, &session->marks[i]);
        for (const memory_item *item = session->inbox; item; item = item->next)
            pal_jsonl_put_inbox(batch, tenant->name, session->id, &item->item);
        if (session->lease_fence > 0)
            pal_jsonl_put_lease(batch, session);
    }
    for (const memory_entry *entry = tenant->ledger; entry; entry = entry->next)
        pal_jsonl_put_ledger(batch, tenant->name,
                entry->session ? entry->session->id : (pal_id){{0}}, &entry->row);
    for (const memory_kind *kind = tenant->kind_list; kind; kind = kind->next)
        for (size_t i = 0; i < kind->len; i++)
            pal_jsonl_put_record(batch, tenant->name, &kind->items[i]->record);
}

void pal_jsonl_put_all(jsonl_batch *batch)
{
    put_start(batch);
    for (const memory_tenant *tenant = batch->engine->mem->tenant_list; tenant;
            tenant = tenant->next)
        put_tenant(batch, tenant);
}
