/* store_copy.c - copies a whole store into an empty one, of any backend.
 *
 * Objects are read with export_scan(), and written as operations with `copied` values. So a backend
 * needs no second way of writing, and everything that holds for a batch holds for a copy: its
 * tables agree with each other, and it survives a crash.
 *
 * Crash argument: the last operation of every batch writes a record that says how far the copy is.
 * All operations of a batch are joined, so they are one transaction. Whenever the process dies, the
 * record is exactly as far as the objects, and the next call continues there. While the record
 * exists, pal_store_open() refuses the store. It is removed after both stores were compared.
 *
 * The order of the steps: a message needs its blobs and its session, a fork needs its parent, and
 * all other objects need their session. */
#include "store/store_copy.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/json/json.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "palaver/limits.h"
#include "palaver/store_admin.h"
#include "palaver/store_batch.h"

#define PAGE_BYTES_MAX ((size_t)8 << 20)
#define BLOB_NAME_PREFIX "sha256:"
#define STATE_BODY_MAX 4096

const pal_str pal_copy_tenant = {"\001copy", 5};

static const pal_str state_kind = {"copy", 4}, state_name = {"state", 5};

/* ---- Reading pages ---- */

typedef struct page_state {
    pal_copy_page *page;
    pal_arena *arena;
    size_t bytes;
} page_state;

static void *keep(pal_arena *arena, const void *object, size_t size)
{
    void *copy = pal_arena_alloc(arena, size);

    if (copy)
        memcpy(copy, object, size);
    return copy;
}

static const pal_row *keep_row(pal_arena *arena, const pal_row *row)
{
    pal_row *copy = keep(arena, row, sizeof *row);

    if (copy) {
        copy->client_id = pal_arena_copy(arena, row->client_id);
        copy->body = pal_arena_copy(arena, row->body);
    }
    return copy;
}

static const pal_ledger_row *keep_ledger(pal_arena *arena, const pal_ledger_row *row)
{
    pal_ledger_row *copy = keep(arena, row, sizeof *row);

    if (copy) {
        copy->request_id = pal_arena_copy(arena, row->request_id);
        copy->turn_id = pal_arena_copy(arena, row->turn_id);
        copy->agent = pal_arena_copy(arena, row->agent);
        copy->purpose = pal_arena_copy(arena, row->purpose);
        copy->provider = pal_arena_copy(arena, row->provider);
        copy->model = pal_arena_copy(arena, row->model);
        copy->price_version = pal_arena_copy(arena, row->price_version);
    }
    return copy;
}

static const pal_record *keep_record(pal_arena *arena, const pal_record *record)
{
    pal_record *copy = keep(arena, record, sizeof *record);

    if (copy) {
        copy->kind = pal_arena_copy(arena, record->kind);
        copy->name = pal_arena_copy(arena, record->name);
        copy->body = pal_arena_copy(arena, record->body);
    }
    return copy;
}

static bool take_item(const pal_export_item *item, void *user)
{
    page_state *state = user;
    pal_copy_page *page = state->page;
    pal_export_item *kept = &page->items[page->len];

    *kept = *item;
    kept->place = pal_arena_copy(state->arena, item->place);
    kept->tenant = pal_arena_copy(state->arena, item->tenant);
    if (item->row) {
        kept->row = keep_row(state->arena, item->row);
        state->bytes += item->row->body.len;
    }
    if (item->ledger)
        kept->ledger = keep_ledger(state->arena, item->ledger);
    if (item->record) {
        kept->record = keep_record(state->arena, item->record);
        state->bytes += item->record->body.len;
    }
    if (item->session) /* its texts are in the arena already */
        kept->session = keep(state->arena, item->session, sizeof *item->session);
    page->len++;
    page->is_last = page->len < PAL_COPY_PAGE_ITEMS && state->bytes < PAGE_BYTES_MAX;
    return page->is_last && !pal_arena_failure(state->arena);
}

pal_status pal_copy_page_read(pal_engine *engine, pal_export_kind kind, pal_str after,
        pal_arena *arena, pal_copy_page *out_page, pal_error *err)
{
    page_state state = {.page = out_page, .arena = arena};
    pal_status status;

    out_page->len = 0;
    out_page->is_last = true;
    status = engine->backend->export_scan(engine, kind, after, arena, take_item, &state, err);
    if (status == PAL_OK && pal_arena_failure(arena))
        status = pal_no_memory(err);
    return status;
}

pal_status pal_copy_details_read(pal_engine *engine, const pal_session_row *session,
        pal_arena *arena, pal_copy_details *out_details, pal_error *err)
{
    const pal_store_backend *backend = engine->backend;
    pal_mark_scan scan = {
            .handle = session->handle, .last = INT64_MAX, .wanted = PAL_MARKS_WHOLE};
    pal_status status = PAL_OK;

    *out_details = (pal_copy_details){0};
    if (session->mark_number > 0)
        status = backend->mark_list(
                engine, &scan, arena, &out_details->marks, &out_details->marks_len, err);
    if (status != PAL_OK || session->session.state == PAL_SESSION_ERASED)
        return status;
    status = backend->inbox_list(engine, session->handle, arena, &out_details->inbox,
            &out_details->inbox_len, err);
    if (status == PAL_OK)
        status = backend->lease_find(engine, session->handle, arena, &out_details->lease, err);
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

void pal_copy_advance(pal_copy_progress *progress, uint64_t count)
{
    progress->done += count;
    if (progress->done > progress->total)
        progress->total = progress->done;
    if (progress->sink)
        progress->sink(progress->done, progress->total, progress->user);
}

/* ---- The state of a copy ---- */

typedef enum copy_step {
    STEP_BLOBS,
    STEP_SESSIONS,
    STEP_PARENTS,
    STEP_ROWS,
    STEP_DETAILS, /* marks, inbox, lease */
    STEP_LEDGER,
    STEP_RECORDS,
    STEP_VERIFY,
} copy_step;

typedef struct copy {
    pal_engine *from, *to;
    copy_step step;
    char place[PAL_EXPORT_PLACE_MAX]; /* place of the last object that was copied in this step */
    size_t place_len;
    char source[2 * PAL_SHA256_SIZE + 1]; /* hash of the URL of the source */
    uint64_t version;                     /* version of the record with the state */
    pal_arena *arena;                     /* for one page */
    pal_op *ops;
    pal_work *works;
    size_t len, ops_cap, works_cap;
    bool failed; /* there was no memory for an operation */
    pal_copy_page page;
    pal_copy_progress progress;
} copy;

/* The state of the copy, as a record. */
typedef struct copy_state {
    pal_str source; /* hex digits that identify the source */
    uint32_t step;  /* copy_step */
    pal_str place;  /* the place in that step, in hex */
} copy_state;

static const pal_member state_members[] = {
        {"source", PAL_MEMBER_TEXT, 1, .offset = offsetof(copy_state, source)},
        {"step", PAL_MEMBER_U32, 1, .offset = offsetof(copy_state, step)},
        {"place", PAL_MEMBER_TEXT, 1, .offset = offsetof(copy_state, place)},
};

static const pal_member_table state_table = {
        state_members, sizeof state_members / sizeof *state_members, NULL, NULL};

static pal_status state_find(
        pal_engine *engine, pal_arena *arena, pal_record *out_record, pal_error *err)
{
    pal_record_scan scan = {.tenant = pal_copy_tenant,
            .kind = state_kind,
            .name = state_name,
            .records_max = 1};
    size_t len = 0;
    pal_status status =
            engine->backend->record_list(engine, &scan, arena, out_record, &len, err);

    return status == PAL_OK && len == 0 ? PAL_NOT_FOUND : status;
}

pal_status pal_copy_check_complete(pal_engine *engine, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_record record;
    pal_status status = arena ? state_find(engine, arena, &record, err) : pal_no_memory(err);

    pal_arena_free(arena);
    if (status == PAL_OK)
        return pal_error_set(err, PAL_CONFLICT,
                "the store is an incomplete copy; continue it with 'palaver store copy'");
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

static pal_status state_read(copy *self, const pal_record *record, pal_error *err)
{
    copy_state state;
    pal_json body;
    pal_status status = pal_json_parse(self->arena, record->body, NULL, &body, err);

    if (status == PAL_OK)
        status = pal_members_read_stored(&state_table, 1, body, self->arena, &state, err);
    if (status != PAL_OK)
        return status;
    if (!pal_str_equal(state.source, pal_str_of(self->source)))
        return pal_error_set(err, PAL_CONFLICT,
                "the target is an incomplete copy of another store; name the same source as "
                "before, or begin with an empty target");
    if (state.step > STEP_VERIFY || state.place.len / 2 > sizeof self->place ||
            !pal_unhex(state.place, (uint8_t *)self->place, state.place.len / 2))
        return pal_error_set(err, PAL_CORRUPT,
                "the state of the copy is damaged; begin again with an empty target");
    self->step = (copy_step)state.step;
    self->place_len = state.place.len / 2;
    self->version = record->version;
    return PAL_OK;
}

/* ---- Batches ---- */

static pal_work *add_work(copy *self, pal_op op, pal_str tenant)
{
    static pal_work none;

    if (!pal_reserve(&self->ops, &self->ops_cap, self->len + 1, sizeof *self->ops) ||
            !pal_reserve(&self->works, &self->works_cap, self->len + 1, sizeof *self->works)) {
        self->failed = true;
        return &none;
    }
    op.with_previous = self->len > 0;
    self->ops[self->len] = op;
    self->works[self->len] = (pal_work){.tenant = tenant};
    return &self->works[self->len++];
}

static void add_copied(copy *self, pal_work *work, pal_copied copied)
{
    work->copied = keep(self->arena, &copied, sizeof copied);
}

/* Applies the batch. The first operation that failed is the reason for those after it. */
static pal_status apply(copy *self, pal_error *err)
{
    if (self->failed || pal_arena_failure(self->arena))
        return pal_no_memory(err);
    for (size_t i = 0; i < self->len; i++)
        self->works[i].op = &self->ops[i];
    self->to->backend->apply(self->to, self->works, self->len);
    for (size_t i = 0; i < self->len; i++)
        if (self->ops[i].status != PAL_OK)
            return pal_error_set(
                    err, self->ops[i].status, "%s", self->ops[i].error.message);
    self->len = 0;
    return PAL_OK;
}

/* Adds the operation that writes the state, then applies the batch. */
static pal_status commit(copy *self, pal_error *err)
{
    char place[2 * PAL_EXPORT_PLACE_MAX + 1];
    copy_state state = {.source = pal_str_of(self->source), .step = (uint32_t)self->step};
    pal_record record = {.kind = state_kind, .name = state_name};
    pal_status status;
    pal_buf buf;

    pal_hex((const uint8_t *)self->place, self->place_len, place);
    state.place = pal_str_of(place);
    pal_buf_init(&buf, STATE_BODY_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_members_write(&state_table, 1, &writer, &state);
    pal_json_end_object(&writer);
    status = pal_member_keep(&buf, self->arena, &record.body, err);
    pal_buf_done(&buf);
    if (status != PAL_OK)
        return status;
    add_work(self, pal_op_record_put(pal_copy_tenant, &record, self->version), pal_copy_tenant);
    status = apply(self, err);
    if (status == PAL_OK)
        self->version = record.version;
    else if (status == PAL_CANCELED || (status == PAL_CONFLICT && self->len == 1))
        status = pal_error_set(err, PAL_CONFLICT, "another process copies into the same store");
    return status;
}

/* ---- The steps ---- */

static pal_status copy_blob(copy *self, const pal_export_item *item, pal_error *err)
{
    pal_work_blob *blob = pal_arena_alloc(self->arena, sizeof *blob);
    pal_blob_row row;
    pal_op op = {.kind = PAL_OP_BLOB_PUT, .tenant = item->tenant};
    pal_work *work;
    pal_status status = self->from->backend->blob_get(
            self->from, item->tenant, item->hash, self->arena, &row, err);

    if (status != PAL_OK || !blob)
        return status == PAL_NOT_FOUND || !blob ? pal_error_set(err, PAL_CORRUPT,
                "the data of a blob is missing; run 'palaver fsck' on the source")
                                                : status;
    memcpy(blob->hash, item->hash, sizeof blob->hash);
    blob->is_new = true;
    blob->media_type = row.media_type;
    blob->data = row.data;
    work = add_work(self, op, item->tenant);
    work->now_ms = item->put_at;
    work->blobs = blob;
    work->blobs_len = 1;
    return PAL_OK;
}

/* A routed session can list an alias that leads to another session. */
static pal_status find_leads(
        copy *self, const pal_session *session, bool *out_leads, pal_error *err)
{
    for (size_t i = 0; session->state == PAL_SESSION_ACTIVE && i < session->aliases_len; i++) {
        pal_session_row row;
        pal_status status = self->from->backend->session_find(self->from, session->tenant,
                PAL_SESSION_BY_ALIAS, session->aliases[i], self->arena, &row, err);

        if (status != PAL_OK && status != PAL_NOT_FOUND)
            return status;
        out_leads[i] = status == PAL_OK && pal_id_equal(row.session.id, session->id);
    }
    return PAL_OK;
}

static pal_status copy_session(copy *self, const pal_export_item *item, pal_error *err)
{
    const pal_session *session = &item->session->session;
    bool *leads = pal_arena_array(self->arena, session->aliases_len + 1, sizeof *leads);
    pal_op op = pal_op_create(session);
    pal_copied copied = {.alias_leads = leads};
    pal_mark_scan marks = {.handle = item->session->handle, .last = INT64_MAX};
    pal_mark *list = NULL;
    size_t len = 0;
    pal_work *work;
    pal_status status = leads ? find_leads(self, session, leads, err) : pal_no_memory(err);

    /* If there is a mark, the last one sets the number. */
    if (status == PAL_OK && item->session->mark_number > 0) {
        marks.wanted = PAL_MARKS_BRIEF;
        status = self->from->backend->mark_list(
                self->from, &marks, self->arena, &list, &len, err);
    }
    if (status != PAL_OK)
        return status;
    copied.mark_number = len == 0 ? item->session->mark_number : 0;
    work = add_work(self, op, item->tenant);
    work->now_ms = session->updated_at;
    add_copied(self, work, copied);
    return PAL_OK;
}

static pal_status copy_parent(copy *self, const pal_export_item *item, pal_error *err)
{
    const pal_session *session = &item->session->session;
    pal_op op = pal_op_adopt(item->tenant, session->id, session->parent_id);
    pal_work *work;

    (void)err;
    if (pal_id_is_none(session->parent_id))
        return PAL_OK;
    work = add_work(self, op, item->tenant);
    work->fork_parent = session->parent_id;
    work->fork_seq = session->fork_seq;
    work->fork_mark = session->fork_mark;
    add_copied(self, work, (pal_copied){0});
    return PAL_OK;
}

/* Adds the blobs that the parts refer to. */
static pal_status find_blobs(
        const pal_part *parts, size_t len, pal_arena *arena, pal_work *work, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        if (parts[i].blob.len > 0) {
            pal_work_blob *blobs =
                    pal_arena_array(arena, work->blobs_len + 1, sizeof *work->blobs);

            if (!blobs)
                return pal_no_memory(err);
            if (work->blobs_len > 0)
                memcpy(blobs, work->blobs, work->blobs_len * sizeof *blobs);
            work->blobs = blobs;
            if (!pal_unhex(pal_text_after(parts[i].blob, sizeof BLOB_NAME_PREFIX - 1),
                        blobs[work->blobs_len++].hash, PAL_SHA256_SIZE))
                return pal_error_set(err, PAL_CORRUPT, "'%.*s' is not the name of a blob",
                        PAL_EXCERPT(parts[i].blob, 80));
        }
        status = find_blobs(parts[i].parts, parts[i].parts_len, arena, work, err);
    }
    return status;
}

static bool may_have_blobs(const pal_row *row)
{
    return !row->is_text && row->body.len > 0 &&
            memmem(row->body.data, row->body.len, BLOB_NAME_PREFIX, sizeof BLOB_NAME_PREFIX - 1);
}

/* Returns whether the row can be in the same append as the row before it. */
static bool follows(const pal_export_item *before, const pal_export_item *item)
{
    return pal_id_equal(before->owner, item->owner) &&
            pal_str_equal(before->tenant, item->tenant) &&
            item->row->seq == before->row->seq + 1 && !may_have_blobs(before->row) &&
            !may_have_blobs(item->row);
}

static pal_status copy_rows(copy *self, pal_error *err)
{
    const pal_export_item *items = self->page.items;
    pal_row *rows = pal_arena_array(self->arena, self->page.len, sizeof *rows);
    pal_work *work = NULL;
    pal_status status = PAL_OK;

    if (!rows)
        return pal_no_memory(err);
    for (size_t i = 0; status == PAL_OK && i < self->page.len; i++) {
        pal_message message = {0};

        rows[i] = *items[i].row;
        if (i > 0 && follows(&items[i - 1], &items[i])) {
            work->rows_len++;
            continue;
        }
        work = add_work(self,
                pal_op_append(items[i].tenant, items[i].owner, NULL, 0, items[i].row->seq - 1),
                items[i].tenant);
        work->rows = &rows[i];
        work->rows_len = 1;
        add_copied(self, work, (pal_copied){0});
        if (may_have_blobs(&rows[i]))
            status = pal_native_body_read(rows[i].body, self->arena, &message, err);
        if (status == PAL_OK)
            status = find_blobs(message.parts, message.parts_len, self->arena, work, err);
    }
    return status;
}

static pal_status copy_details(copy *self, const pal_export_item *item, pal_error *err)
{
    pal_id id = item->session->session.id;
    pal_copy_details details;
    pal_status status =
            pal_copy_details_read(self->from, item->session, self->arena, &details, err);
    pal_work *work;

    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < details.marks_len; i++) {
        bool is_last = i + 1 == details.marks_len;

        work = add_work(self, pal_op_mark(item->tenant, id, &details.marks[i]), item->tenant);
        add_copied(self, work,
                (pal_copied){.mark_number = is_last ? item->session->mark_number
                                                    : details.marks[i].number});
    }
    for (size_t i = 0; i < details.inbox_len; i++) {
        work = add_work(self, pal_op_inbox_add(item->tenant, id, &details.inbox[i]), item->tenant);
        work->new_id = details.inbox[i].id;
        work->now_ms = details.inbox[i].created_at;
        add_copied(self, work, (pal_copied){0});
    }
    if (details.lease.fence > 0) {
        pal_lease *lease = keep(self->arena, &details.lease, sizeof details.lease);

        work = add_work(self,
                pal_op_lease_take(item->tenant, id, details.lease.owner, details.lease.ttl_ms),
                item->tenant);
        add_copied(self, work, (pal_copied){.lease = lease});
    }
    return PAL_OK;
}

static pal_status copy_ledger(copy *self, const pal_export_item *item, pal_error *err)
{
    pal_work *work = add_work(
            self, pal_op_ledger_add(item->tenant, item->owner, item->ledger), item->tenant);

    (void)err;
    add_copied(self, work, (pal_copied){0});
    return PAL_OK;
}

static pal_status copy_record(copy *self, const pal_export_item *item, pal_error *err)
{
    pal_record *record = keep(self->arena, item->record, sizeof *item->record);
    pal_work *work;

    if (!record)
        return pal_no_memory(err);
    if (pal_str_equal(item->tenant, pal_copy_tenant))
        return PAL_OK;
    work = add_work(self,
            pal_op_record_put(item->tenant, record, PAL_RECORD_VERSION_ANY), item->tenant);
    add_copied(self, work, (pal_copied){0});
    return PAL_OK;
}

static const struct {
    pal_export_kind kind;
    pal_status (*one)(copy *self, const pal_export_item *item, pal_error *err);
} steps[STEP_VERIFY] = {
        [STEP_BLOBS] = {PAL_EXPORT_BLOB, copy_blob},
        [STEP_SESSIONS] = {PAL_EXPORT_SESSION, copy_session},
        [STEP_PARENTS] = {PAL_EXPORT_SESSION, copy_parent},
        [STEP_ROWS] = {PAL_EXPORT_ROW, NULL},
        [STEP_DETAILS] = {PAL_EXPORT_SESSION, copy_details},
        [STEP_LEDGER] = {PAL_EXPORT_LEDGER, copy_ledger},
        [STEP_RECORDS] = {PAL_EXPORT_RECORD, copy_record},
};

/* Copies one page, or a part of it if that is large enough for a commit. */
static pal_status copy_page(copy *self, pal_error *err)
{
    copy_step step = self->step;
    const pal_export_item *last = NULL;
    size_t bytes = 0, i = 0;
    pal_status status;

    pal_arena_reset(self->arena);
    status = pal_copy_page_read(self->from, steps[step].kind,
            pal_str_make(self->place, self->place_len), self->arena, &self->page, err);
    if (status == PAL_OK && step == STEP_ROWS && self->page.len > 0) {
        status = copy_rows(self, err);
        i = self->page.len;
    }
    for (; status == PAL_OK && i < self->page.len && bytes < PAGE_BYTES_MAX; i++) {
        status = steps[step].one(self, &self->page.items[i], err);
        if (step == STEP_BLOBS && status == PAL_OK)
            bytes += self->works[self->len - 1].blobs->data.len;
    }
    if (status != PAL_OK)
        return status;
    if (i > 0) {
        last = &self->page.items[i - 1];
        memcpy(self->place, last->place.data, last->place.len);
        self->place_len = last->place.len;
    }
    if (i == self->page.len && self->page.is_last) {
        self->step++;
        self->place_len = 0;
    }
    pal_copy_advance(&self->progress, i);
    return commit(self, err);
}

/* ---- The copy ---- */

static pal_status check_source(copy *self, pal_error *err)
{
    pal_store_stats stats = {0};
    pal_status status = self->from->backend->stat(self->from, &stats, err);

    if (status != PAL_OK)
        return status;
    if (stats.sessions_quarantined > 0)
        return pal_error_set(err, PAL_CORRUPT,
                "%llu damaged sessions of the source are quarantined and cannot be copied; "
                "export and erase them first", (unsigned long long)stats.sessions_quarantined);
    /* Sessions are read three times, and everything is read twice more to compare it. */
    self->progress.total = 5 * (stats.sessions_active + stats.sessions_trash) +
            3 * (stats.messages + stats.blobs);
    return PAL_OK;
}

static pal_status check_empty(copy *self, pal_error *err)
{
    static const pal_export_kind kinds[] = {
            PAL_EXPORT_BLOB, PAL_EXPORT_SESSION, PAL_EXPORT_LEDGER, PAL_EXPORT_RECORD};
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < sizeof kinds / sizeof kinds[0]; i++) {
        status = pal_copy_page_read(
                self->to, kinds[i], pal_str_make(NULL, 0), self->arena, &self->page, err);
        if (status == PAL_OK && self->page.len > 0)
            status = pal_error_set(
                    err, PAL_CONFLICT, "the target is not empty; copy into a new store");
    }
    return status;
}

/* Continues a copy, or begins one. */
static pal_status begin(copy *self, pal_error *err)
{
    pal_record record;
    pal_status status = state_find(self->to, self->arena, &record, err);

    if (status == PAL_OK)
        return state_read(self, &record, err);
    if (status == PAL_NOT_FOUND)
        status = check_empty(self, err);
    return status == PAL_OK ? commit(self, err) : status;
}

static pal_status finish(copy *self, pal_error *err)
{
    pal_record record = {.kind = state_kind, .name = state_name};

    add_work(self, pal_op_record_drop(pal_copy_tenant, &record), pal_copy_tenant);
    return apply(self, err);
}

static pal_status run(copy *self, pal_copy_result *out_result, pal_error *err)
{
    pal_status status = check_source(self, err);

    if (status == PAL_OK)
        status = begin(self, err);
    while (status == PAL_OK && self->step < STEP_VERIFY)
        status = copy_page(self, err);
    if (status == PAL_OK)
        status = pal_copy_verify(self->from, self->to, &self->progress, out_result, err);
    return status == PAL_OK ? finish(self, err) : status;
}

static pal_status open_both(
        copy *self, const char *from_url, const char *to_url, pal_error *err)
{
    pal_store_options source = {.read_only = true}, target = {0};
    uint8_t hash[PAL_SHA256_SIZE];
    pal_status status;

    if (pal_sha256(pal_str_of(from_url), hash) != PAL_OK)
        return pal_no_memory(err);
    pal_hex(hash, sizeof hash, self->source);
    status = pal_store_engine_open(from_url, &source, &self->from, err);
    if (status == PAL_OK)
        status = pal_copy_check_complete(self->from, err);
    if (status == PAL_OK)
        status = pal_store_engine_open(to_url, &target, &self->to, err);
    return status;
}

pal_status pal_store_copy(const char *from_url, const char *to_url, pal_store_on_progress progress,
        void *user, pal_copy_result *out_result, pal_error *err)
{
    pal_copy_result ignored;
    copy *self;
    pal_status status;

    if (!from_url || !to_url)
        return pal_error_set(err, PAL_INVALID, "a copy requires the URLs of two stores");
    if (strcmp(from_url, to_url) == 0)
        return pal_error_set(err, PAL_INVALID, "the source and the target are the same store");
    self = pal_calloc(1, sizeof *self);
    if (!self)
        return pal_no_memory(err);
    self->progress = (pal_copy_progress){.sink = progress, .user = user};
    self->arena = pal_arena_new(0);
    status = self->arena ? open_both(self, from_url, to_url, err) : pal_no_memory(err);
    if (status == PAL_OK)
        status = run(self, out_result ? out_result : &ignored, err);
    if (self->to)
        self->to->backend->close(self->to);
    if (self->from)
        self->from->backend->close(self->from);
    pal_arena_free(self->arena);
    pal_free(self->ops);
    pal_free(self->works);
    pal_free(self);
    return status;
}
