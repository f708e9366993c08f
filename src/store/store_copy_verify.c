/* store_copy_verify.c - compares two stores by the number and the content of their objects.
 *
 * Backends return objects in different orders. So the hash of a store is the sum of the SHA-256 of
 * its objects, as one number of 256 bits: it does not depend on the order, and an object that is
 * missing or doubled changes it. The data of blobs is compared with their names. Not compared are
 * values that a backend derives or that have no meaning for users: the order of arrival, the sums
 * of the ledger, when an unused blob was stored, and to which of several routed sessions an alias
 * leads. */
#include "store/store_copy.h"

#include <string.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/memory.h"
#include "palaver/store_admin.h"

enum { SUM_WORDS = PAL_SHA256_SIZE / 4 };

#define OBJECT_BYTES_MAX ((size_t)1 << 30)

typedef enum sum_kind {
    SUM_BLOBS,
    SUM_SESSIONS,
    SUM_MESSAGES,
    SUM_MARKS,
    SUM_INBOX,
    SUM_LEASES,
    SUM_LEDGER,
    SUM_RECORDS,
    SUMS,
} sum_kind;

static const char *const names[SUMS] = {[SUM_BLOBS] = "blobs",
        [SUM_SESSIONS] = "sessions",
        [SUM_MESSAGES] = "messages",
        [SUM_MARKS] = "marks",
        [SUM_INBOX] = "items of inboxes",
        [SUM_LEASES] = "leases",
        [SUM_LEDGER] = "ledger rows",
        [SUM_RECORDS] = "records"};

typedef struct sum {
    uint64_t count;
    uint32_t words[SUM_WORDS]; /* the least significant word first */
} sum;

typedef struct verify {
    pal_engine *engine;
    pal_arena *arena;
    pal_buf object; /* the canonical form of one object */
    pal_copy_page page;
    pal_copy_progress *progress;
    sum sums[SUMS];
} verify;

/* ---- The canonical form of an object ---- */

static void put_int(verify *self, int64_t number)
{
    pal_buf_append(&self->object, (const char *)&number, sizeof number);
}

static void put_str(verify *self, pal_str text)
{
    put_int(self, (int64_t)text.len);
    pal_buf_append_str(&self->object, text);
}

static void put_id(verify *self, pal_id id)
{
    pal_buf_append(&self->object, (const char *)id.bytes, sizeof id.bytes);
}

/* Begins an object with what it belongs to. */
static void begin(verify *self, pal_str tenant, pal_id session)
{
    self->object.len = 0;
    put_str(self, tenant);
    put_id(self, session);
}

static pal_status end(verify *self, sum_kind kind, pal_error *err)
{
    uint8_t hash[PAL_SHA256_SIZE];
    sum *total = &self->sums[kind];
    uint64_t carry = 0;

    if (self->object.failure || pal_sha256(pal_buf_str(&self->object), hash) != PAL_OK)
        return pal_no_memory(err);
    for (size_t i = 0; i < SUM_WORDS; i++) {
        uint32_t word;

        memcpy(&word, hash + 4 * i, sizeof word);
        carry += (uint64_t)total->words[i] + word;
        total->words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    total->count++;
    return PAL_OK;
}

/* ---- Objects ---- */

static pal_status add_blob(verify *self, const pal_export_item *item, pal_error *err)
{
    uint8_t hash[PAL_SHA256_SIZE];
    char name[2 * PAL_SHA256_SIZE + 1];
    pal_blob_row blob;
    pal_status status = self->engine->backend->blob_get(
            self->engine, item->tenant, item->hash, self->arena, &blob, err);

    if (status == PAL_OK && pal_sha256(blob.data, hash) != PAL_OK)
        status = pal_no_memory(err);
    if (status != PAL_OK)
        return status;
    if (memcmp(hash, item->hash, sizeof hash) != 0) {
        pal_hex(item->hash, sizeof hash, name);
        return pal_error_set(err, PAL_CORRUPT,
                "the blob 'sha256:%s' has different content in the two stores", name);
    }
    begin(self, item->tenant, (pal_id){{0}});
    put_str(self, pal_str_make((const char *)hash, sizeof hash));
    put_str(self, blob.media_type);
    return end(self, SUM_BLOBS, err);
}

static pal_status add_mark(
        verify *self, const pal_export_item *item, const pal_mark *mark, pal_error *err)
{
    begin(self, item->tenant, item->session->session.id);
    put_int(self, (int64_t)mark->number);
    put_int(self, mark->kind);
    put_int(self, (int64_t)mark->seq);
    put_int(self, (int64_t)mark->through_seq);
    put_int(self, (int64_t)mark->target);
    put_int(self, mark->created_at);
    put_str(self, mark->body);
    return end(self, SUM_MARKS, err);
}

static pal_status add_item(verify *self, const pal_export_item *item, size_t place,
        const pal_inbox_item *waiting, pal_error *err)
{
    begin(self, item->tenant, item->session->session.id);
    put_int(self, (int64_t)place);
    put_id(self, waiting->id);
    put_str(self, waiting->client_id);
    put_str(self, waiting->delivery);
    put_str(self, waiting->body);
    put_int(self, waiting->created_at);
    return end(self, SUM_INBOX, err);
}

static pal_status add_lease(
        verify *self, const pal_export_item *item, const pal_lease *lease, pal_error *err)
{
    begin(self, item->tenant, item->session->session.id);
    put_str(self, lease->owner);
    put_int(self, (int64_t)lease->fence);
    put_int(self, lease->expires_at);
    put_int(self, lease->ttl_ms);
    return end(self, SUM_LEASES, err);
}

static pal_status add_details(verify *self, const pal_export_item *item, pal_error *err)
{
    pal_copy_details details;
    pal_status status =
            pal_copy_details_read(self->engine, item->session, self->arena, &details, err);

    for (size_t i = 0; status == PAL_OK && i < details.marks_len; i++)
        status = add_mark(self, item, &details.marks[i], err);
    for (size_t i = 0; status == PAL_OK && i < details.inbox_len; i++)
        status = add_item(self, item, i, &details.inbox[i], err);
    if (status == PAL_OK && details.lease.fence > 0)
        status = add_lease(self, item, &details.lease, err);
    return status;
}

static pal_status add_session(verify *self, const pal_export_item *item, pal_error *err)
{
    const pal_session *session = &item->session->session;
    bool is_erased = session->state == PAL_SESSION_ERASED;
    pal_status status;

    begin(self, item->tenant, session->id);
    put_int(self, session->state);
    put_str(self, session->key);
    put_int(self, (int64_t)session->aliases_len);
    for (size_t i = 0; i < session->aliases_len; i++)
        put_str(self, session->aliases[i]);
    /* An erased session has no names, so these have no meaning for it. */
    put_int(self, session->is_routed && !is_erased);
    put_str(self, is_erased ? pal_str_make(NULL, 0) : session->alias_apart);
    put_str(self, session->title);
    put_str(self, session->project);
    put_str(self, session->agent);
    put_str(self, session->scope);
    put_str(self, session->metadata);
    put_str(self, session->extra);
    put_id(self, session->parent_id);
    put_int(self, (int64_t)session->fork_seq);
    put_int(self, (int64_t)session->fork_mark);
    put_int(self, (int64_t)session->last_seq);
    put_int(self, (int64_t)session->tokens);
    put_int(self, (int64_t)session->bytes);
    put_int(self, session->created_at);
    put_int(self, session->updated_at);
    put_int(self, session->expires_at);
    put_int(self, session->deleted_at);
    put_int(self, (int64_t)item->session->mark_number);
    status = end(self, SUM_SESSIONS, err);
    return status == PAL_OK ? add_details(self, item, err) : status;
}

static pal_status add_message(verify *self, const pal_export_item *item, pal_error *err)
{
    const pal_row *row = item->row;

    begin(self, item->tenant, item->owner);
    put_int(self, (int64_t)row->seq);
    put_id(self, row->id);
    put_int(self, row->role);
    put_int(self, row->flags);
    put_int(self, row->tokens);
    put_int(self, row->created_at);
    put_str(self, row->client_id);
    put_id(self, row->turn_id);
    put_int(self, row->is_text);
    put_str(self, row->body);
    return end(self, SUM_MESSAGES, err);
}

static pal_status add_ledger(verify *self, const pal_export_item *item, pal_error *err)
{
    const pal_ledger_row *row = item->ledger;

    begin(self, item->tenant, item->owner);
    put_str(self, row->request_id);
    put_str(self, row->turn_id);
    put_str(self, row->agent);
    put_str(self, row->purpose);
    put_str(self, row->provider);
    put_str(self, row->model);
    put_str(self, row->price_version);
    put_int(self, (int64_t)row->usage.input);
    put_int(self, (int64_t)row->usage.cache_read);
    put_int(self, (int64_t)row->usage.cache_write);
    put_int(self, (int64_t)row->usage.output);
    put_int(self, (int64_t)row->usage.reasoning);
    put_int(self, row->cost_micros);
    put_int(self, row->created_at);
    return end(self, SUM_LEDGER, err);
}

static pal_status add_record(verify *self, const pal_export_item *item, pal_error *err)
{
    const pal_record *record = item->record;

    if (pal_str_equal(item->tenant, pal_copy_tenant))
        return PAL_OK;
    begin(self, item->tenant, record->session);
    put_str(self, record->kind);
    put_str(self, record->name);
    put_str(self, record->body);
    put_int(self, (int64_t)record->version);
    put_int(self, record->created_at);
    put_int(self, record->updated_at);
    put_int(self, record->expires_at);
    return end(self, SUM_RECORDS, err);
}

/* ---- Stores ---- */

static pal_status sum_kind_of(verify *self, pal_export_kind kind,
        pal_status (*add)(verify *self, const pal_export_item *item, pal_error *err),
        pal_error *err)
{
    char place[PAL_EXPORT_PLACE_MAX];
    pal_str after = {place, 0};
    pal_status status = PAL_OK;

    self->page.is_last = false;
    while (status == PAL_OK && !self->page.is_last) {
        pal_arena_reset(self->arena);
        status = pal_copy_page_read(self->engine, kind, after, self->arena, &self->page, err);
        for (size_t i = 0; status == PAL_OK && i < self->page.len; i++)
            status = add(self, &self->page.items[i], err);
        if (status == PAL_OK && self->page.len > 0) {
            pal_str last = self->page.items[self->page.len - 1].place;

            memcpy(place, last.data, last.len);
            after.len = last.len;
        }
        pal_copy_advance(self->progress, self->page.len);
    }
    return status;
}

static pal_status sum_store(verify *self, pal_engine *engine, pal_error *err)
{
    pal_status status;

    self->engine = engine;
    memset(self->sums, 0, sizeof self->sums);
    status = sum_kind_of(self, PAL_EXPORT_BLOB, add_blob, err);
    if (status == PAL_OK)
        status = sum_kind_of(self, PAL_EXPORT_SESSION, add_session, err);
    if (status == PAL_OK)
        status = sum_kind_of(self, PAL_EXPORT_ROW, add_message, err);
    if (status == PAL_OK)
        status = sum_kind_of(self, PAL_EXPORT_LEDGER, add_ledger, err);
    if (status == PAL_OK)
        status = sum_kind_of(self, PAL_EXPORT_RECORD, add_record, err);
    return status;
}

static pal_status compare(const sum *from, const sum *to, pal_error *err)
{
    for (int i = 0; i < SUMS; i++) {
        if (from[i].count != to[i].count)
            return pal_error_set(err, PAL_CONFLICT,
                    "the source has %llu %s, the copy has %llu; the source was changed during the "
                    "copy: stop its writers and begin with an empty target",
                    (unsigned long long)from[i].count, names[i], (unsigned long long)to[i].count);
        if (memcmp(from[i].words, to[i].words, sizeof from[i].words) != 0)
            return pal_error_set(err, PAL_CONFLICT,
                    "the %s of the copy differ from the source; the source was changed during the "
                    "copy: stop its writers and begin with an empty target", names[i]);
    }
    return PAL_OK;
}

static void report(const sum *sums, pal_copy_result *out_result)
{
    *out_result = (pal_copy_result){.sessions = sums[SUM_SESSIONS].count,
            .messages = sums[SUM_MESSAGES].count,
            .marks = sums[SUM_MARKS].count,
            .blobs = sums[SUM_BLOBS].count,
            .inbox = sums[SUM_INBOX].count,
            .ledger = sums[SUM_LEDGER].count,
            .records = sums[SUM_RECORDS].count};
}

pal_status pal_copy_verify(pal_engine *from, pal_engine *to, pal_copy_progress *progress,
        pal_copy_result *out_result, pal_error *err)
{
    verify *self = pal_calloc(1, sizeof *self);
    sum before[SUMS];
    pal_status status;

    if (!self)
        return pal_no_memory(err);
    self->progress = progress;
    self->arena = pal_arena_new(0);
    pal_buf_init(&self->object, OBJECT_BYTES_MAX);
    status = self->arena ? sum_store(self, from, err) : pal_no_memory(err);
    if (status == PAL_OK) {
        memcpy(before, self->sums, sizeof before);
        status = sum_store(self, to, err);
    }
    if (status == PAL_OK)
        status = compare(before, self->sums, err);
    if (status == PAL_OK)
        report(self->sums, out_result);
    pal_buf_done(&self->object);
    pal_arena_free(self->arena);
    pal_free(self);
    return status;
}
