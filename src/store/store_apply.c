/* store_apply.c - takes batches of operations: checks them, fills in defaults, encodes messages,
 * and passes them to the writer, blocking or not.
 *
 * Operations are checked and encoded on the caller's thread, so that the write lock is held only
 * while rows are written. An operation that fails its checks never reaches the writer; its status
 * is set when the batch is reported. */
#include "store/store_prepare.h"

#include "base/clock.h"
#include "base/digest.h"
#include "base/map.h"
#include "base/memory.h"
#include "dialect/native/native.h"
#include "message/message_check.h"
#include "palaver/limits.h"
#include "palaver/store.h"
#include "palaver/store_batch.h"
#include "store/store_front.h"
#include "store/view/view.h"

/* ---- Sessions ---- */

static pal_status check_session_texts(const pal_session *session, pal_error *err)
{
    const struct {
        const char *name;
        pal_str text;
        size_t len_max;
        bool no_nul;
    } texts[] = {
            {"key", session->key, PAL_KEY_LEN_MAX, true},
            {"title", session->title, PAL_TITLE_LEN_MAX, false},
            {"project", session->project, PAL_NAME_LEN_MAX, true},
            {"agent", session->agent, PAL_NAME_LEN_MAX, true},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        pal_status status = pal_text_check(
                texts[i].text, texts[i].name, texts[i].len_max, texts[i].no_nul, err);

        if (status != PAL_OK)
            return status;
    }
    return PAL_OK;
}

static pal_status check_session_objects(const pal_session *session, pal_error *err)
{
    const struct {
        const char *name;
        pal_str json;
        size_t len_max;
    } objects[] = {
            {"metadata", session->metadata, PAL_METADATA_LEN_MAX},
            {"scope", session->scope, PAL_SCOPE_LEN_MAX},
            {"extra", session->extra, PAL_METADATA_LEN_MAX},
    };

    for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++) {
        pal_status status =
                pal_object_check(objects[i].json, objects[i].name, objects[i].len_max, err);

        if (status != PAL_OK)
            return status;
    }
    return PAL_OK;
}

static pal_status check_aliases(const pal_session *session, pal_error *err)
{
    if (session->alias_apart.len > PAL_KEY_LEN_MAX)
        return pal_error_set(err, PAL_LIMIT, "'alias_apart' of %zu bytes exceeds the limit of %d",
                session->alias_apart.len, PAL_KEY_LEN_MAX);
    if (session->aliases_len > PAL_ALIASES_MAX)
        return pal_error_set(err, PAL_LIMIT, "%zu aliases exceed the limit of %d",
                session->aliases_len, PAL_ALIASES_MAX);
    for (size_t i = 0; i < session->aliases_len; i++) {
        pal_status status =
                pal_text_check(session->aliases[i], "alias", PAL_KEY_LEN_MAX, true, err);

        if (status != PAL_OK)
            return status;
        if (session->aliases[i].len == 0)
            return pal_error_set(err, PAL_INVALID, "alias %zu is empty", i + 1);
        for (size_t j = 0; j < i; j++)
            if (pal_str_equal(session->aliases[i], session->aliases[j]))
                return pal_error_set(err, PAL_INVALID, "alias '%.*s' occurs twice",
                        PAL_STR_ARG(session->aliases[i]));
    }
    return PAL_OK;
}

static pal_status check_session(const pal_session *session, pal_error *err)
{
    pal_status status;

    if (!session)
        return pal_error_set(err, PAL_INVALID, "the operation has no session record");
    status = check_session_texts(session, err);
    if (status != PAL_OK)
        return status;
    status = check_aliases(session, err);
    if (status != PAL_OK)
        return status;
    status = check_session_objects(session, err);
    if (status != PAL_OK)
        return status;
    if (session->expires_at < 0)
        return pal_error_set(err, PAL_INVALID, "'expires_at' is before 1970");
    return PAL_OK;
}

/* ---- Messages ---- */

static size_t count_media(const pal_part *parts, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i < len; i++) {
        count += parts[i].data.len > 0 || parts[i].blob.len > 0;
        count += count_media(parts[i].parts, parts[i].parts_len);
    }
    return count;
}

static pal_status collect_blob(const pal_store_options *options, pal_arena *arena, pal_part *part,
        pal_work *work, pal_error *err)
{
    pal_work_blob *blob = &work->blobs[work->blobs_len];
    char name[PAL_BLOB_NAME_SIZE] = "sha256:";

    if (part->data.len > options->blob_bytes_max)
        return pal_error_set(err, PAL_LIMIT, "a blob of %zu bytes exceeds the limit of %llu",
                part->data.len, (unsigned long long)options->blob_bytes_max);
    if (part->data.len > 0) {
        if (pal_sha256(part->data, blob->hash) != PAL_OK)
            return pal_no_memory(err);
        pal_hex(blob->hash, sizeof(blob->hash), name + 7);
        part->blob = pal_arena_copy(arena, pal_str_of(name));
        blob->is_new = true;
        blob->media_type = part->media_type;
        blob->data = part->data;
    } else if (!pal_unhex(pal_str_make(part->blob.data + 7, 64), blob->hash, 32)) {
        return pal_error_set(err, PAL_INVALID,
                "'%.*s' is not the name of a blob", PAL_STR_ARG(part->blob));
    }
    work->blobs_len++;
    return PAL_OK;
}

/* Copies the parts and puts the names of blobs into the media parts. The caller's parts stay
 * unchanged. */
static pal_status copy_parts(const pal_store_options *options, pal_arena *arena,
        const pal_part *parts, size_t len, pal_work *work, pal_part **out_parts, pal_error *err)
{
    pal_part *copy = pal_arena_array(arena, len, sizeof(*copy));
    pal_status status = PAL_OK;

    if (!copy)
        return pal_no_memory(err);
    if (len > 0)
        memcpy(copy, parts, len * sizeof(*copy));
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        if (copy[i].data.len > 0 || copy[i].blob.len > 0)
            status = collect_blob(options, arena, &copy[i], work, err);
        if (status == PAL_OK && copy[i].parts_len > 0)
            status = copy_parts(
                    options, arena, copy[i].parts, copy[i].parts_len, work, &copy[i].parts, err);
    }
    *out_parts = copy;
    return status;
}

/* Appends the row's body to the others. Its address is set after all bodies are written. */
static pal_status encode_row(const pal_store_options *options, pal_prepared_batch *prepared,
        const pal_message *message, pal_row *row, pal_error *err)
{
    size_t before = prepared->bodies.len;

    row->is_text = pal_native_is_plain(message);
    if (row->is_text)
        pal_buf_append_str(&prepared->bodies, message->parts[0].text);
    else
        pal_native_body_write(&prepared->bodies, message);
    row->body.len = prepared->bodies.len - before;
    if (prepared->bodies.failure)
        return pal_error_set(err, prepared->bodies.failure,
                "the messages are too large, or there is no memory");
    if (row->body.len <= options->message_bytes_max)
        return PAL_OK;
    prepared->bodies.len = before;
    return pal_error_set(err, PAL_LIMIT, "a message of %zu bytes exceeds the limit of %llu",
            row->body.len, (unsigned long long)options->message_bytes_max);
}

pal_status pal_store_count_tokens(const pal_store_options *options, const pal_message *message,
        uint32_t *out_tokens, pal_error *err)
{
    uint64_t tokens = message->tokens;
    pal_status status = PAL_OK;

    if (tokens == 0)
        status = pal_tokens_message(options->encoding, message, &tokens, err);
    if (status == PAL_OK)
        *out_tokens = tokens > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens;
    return status;
}

static pal_status prepare_row(const pal_store_options *options, pal_prepared_batch *prepared,
        pal_work *work, const pal_message *message, pal_row *row, pal_error *err)
{
    pal_message copy = *message;
    pal_status status = pal_native_message_check(message, err);

    if (status == PAL_OK && work->blobs)
        status = copy_parts(options, prepared->arena, message->parts, message->parts_len, work,
                &copy.parts, err);
    if (status != PAL_OK)
        return status;
    row->is_named = !pal_id_is_none(message->id);
    row->id = row->is_named ? message->id : pal_id_new();
    row->role = message->role;
    row->flags = message->flags;
    row->created_at = message->created_at ? message->created_at : work->now_ms;
    row->client_id = message->client_id;
    row->turn_id = message->turn_id;
    status = pal_store_count_tokens(options, message, &row->tokens, err);
    return status == PAL_OK ? encode_row(options, prepared, &copy, row, err) : status;
}

static pal_status check_client_ids(pal_row *rows, size_t len, pal_error *err)
{
    pal_status status = PAL_OK;
    pal_map seen;

    pal_map_init(&seen);
    for (size_t i = 0; len > 1 && status == PAL_OK && i < len; i++) {
        if (rows[i].client_id.len == 0)
            continue;
        if (pal_map_find(&seen, rows[i].client_id))
            status = pal_error_set(err, PAL_INVALID, "client id '%.*s' occurs twice",
                    PAL_STR_ARG(rows[i].client_id));
        else if (pal_map_set(&seen, rows[i].client_id, &rows[i]) != PAL_OK)
            status = pal_no_memory(err);
    }
    pal_map_done(&seen);
    return status;
}

static pal_status check_ledger_row(const pal_ledger_row *row, pal_error *err)
{
    const pal_str texts[] = {row->request_id, row->turn_id, row->purpose, row->provider, row->model,
            row->price_version};
    const char *const names[] = {
            "request_id", "turn_id", "purpose", "provider", "model", "price_version"};

    if (row->request_id.len == 0)
        return pal_error_set(err, PAL_INVALID, "a ledger row requires a 'request_id'");
    if (row->created_at < 0)
        return pal_error_set(err, PAL_INVALID, "'created_at' is before 1970");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        pal_status status = pal_text_check(texts[i], names[i], PAL_LABEL_LEN_MAX, true, err);

        if (status != PAL_OK)
            return status;
    }
    return pal_text_check(row->agent, "agent", PAL_NAME_LEN_MAX, true, err);
}

static pal_status prepare_append(const pal_store_options *options, pal_prepared_batch *prepared,
        pal_op *op, pal_work *work, pal_error *err)
{
    size_t bodies_before = prepared->bodies.len, media = 0;
    size_t len = op->u.append.messages_len;
    pal_status status = PAL_OK;

    if (len == 0)
        return pal_error_set(err, PAL_INVALID, "the append has no messages");
    if (len > PAL_APPEND_MESSAGES_MAX)
        return pal_error_set(err, PAL_LIMIT, "%zu messages in one append exceed the limit of %d",
                len, PAL_APPEND_MESSAGES_MAX);
    for (size_t i = 0; i < len; i++)
        media += count_media(op->u.append.messages[i].parts, op->u.append.messages[i].parts_len);
    work->rows = pal_arena_array(prepared->arena, len, sizeof(*work->rows));
    if (media > 0)
        work->blobs = pal_arena_array(prepared->arena, media, sizeof(*work->blobs));
    if (!work->rows || (media > 0 && !work->blobs))
        return pal_no_memory(err);
    work->rows_len = len;
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        status = prepare_row(
                options, prepared, work, &op->u.append.messages[i], &work->rows[i], err);
    if (status == PAL_OK)
        status = check_client_ids(work->rows, len, err);
    for (size_t i = 0; status == PAL_OK && i < op->u.append.ledger_len; i++)
        status = check_ledger_row(&op->u.append.ledger[i], err);
    if (status != PAL_OK && !prepared->bodies.failure)
        prepared->bodies.len = bodies_before;
    return status;
}

/* ---- Other operations ---- */

static pal_status prepare_mark(pal_op *op, pal_error *err)
{
    const pal_mark *mark = op->u.mark;

    if (!mark || mark->kind <= PAL_MARK_NONE || mark->kind > PAL_MARK_HIDE)
        return pal_error_set(err, PAL_INVALID, "unknown kind of mark");
    if ((mark->kind == PAL_MARK_PIN || mark->kind == PAL_MARK_UNPIN) && mark->seq == 0)
        return pal_error_set(err, PAL_INVALID, "a pin requires the 'seq' of a message");
    if (mark->kind == PAL_MARK_HIDE && mark->seq == 0)
        return pal_error_set(err, PAL_INVALID, "hiding requires the 'seq' of a message");
    if (mark->kind == PAL_MARK_EPOCH && mark->body.len == 0)
        return pal_error_set(err, PAL_INVALID, "an epoch requires a body");
    return pal_text_check(mark->body, "body", PAL_MARK_BODY_LEN_MAX, false, err);
}

static pal_status prepare_inbox_item(
        const pal_store_options *options, pal_op *op, pal_work *work, pal_error *err)
{
    const pal_inbox_item *item = op->u.inbox_item;
    pal_status status;

    if (!item || item->body.len == 0)
        return pal_error_set(err, PAL_INVALID, "an inbox item requires a body");
    work->new_id = pal_id_new();
    status = pal_text_check(item->body, "body", options->message_bytes_max, false, err);
    if (status == PAL_OK)
        status = pal_text_check(item->client_id, "client_id", PAL_CLIENT_ID_LEN_MAX, true, err);
    if (status == PAL_OK)
        status = pal_text_check(item->delivery, "delivery", PAL_LABEL_LEN_MAX, true, err);
    return status;
}

static pal_status prepare_lease(pal_op *op, pal_error *err)
{
    if (op->u.lease.owner.len == 0)
        return pal_error_set(err, PAL_INVALID, "a lease requires an owner");
    if (op->u.lease.ttl_ms <= 0 || op->u.lease.ttl_ms > PAL_LEASE_TTL_MS_MAX)
        return pal_error_set(err, PAL_INVALID, "a lease must last from 1 to %d ms, not %lld",
                PAL_LEASE_TTL_MS_MAX, (long long)op->u.lease.ttl_ms);
    return pal_text_check(op->u.lease.owner, "owner", PAL_LABEL_LEN_MAX, true, err);
}

static pal_status prepare_blob(const pal_store_options *options, pal_prepared_batch *prepared,
        pal_op *op, pal_work *work, pal_error *err)
{
    pal_work_blob *blob;

    if (op->u.blob.data.len > options->blob_bytes_max)
        return pal_error_set(err, PAL_LIMIT, "a blob of %zu bytes exceeds the limit of %llu",
                op->u.blob.data.len, (unsigned long long)options->blob_bytes_max);
    blob = pal_arena_alloc(prepared->arena, sizeof(*blob));
    if (!blob || pal_sha256(op->u.blob.data, blob->hash) != PAL_OK)
        return pal_no_memory(err);
    blob->is_new = true;
    blob->media_type = op->u.blob.media_type;
    blob->data = op->u.blob.data;
    work->blobs = blob;
    work->blobs_len = 1;
    memcpy(op->u.blob.name, "sha256:", 7);
    pal_hex(blob->hash, sizeof(blob->hash), op->u.blob.name + 7);
    return pal_text_check(blob->media_type, "media_type", PAL_LABEL_LEN_MAX, true, err);
}

static bool needs_session(pal_op_kind kind)
{
    return kind != PAL_OP_CREATE && kind != PAL_OP_FORK && kind != PAL_OP_LEDGER_ADD &&
            kind != PAL_OP_BLOB_PUT && kind != PAL_OP_SWEEP && kind != PAL_OP_RECORD_PUT &&
            kind != PAL_OP_RECORD_DROP;
}

static pal_status prepare_op(const pal_store_options *options, pal_prepared_batch *prepared,
        pal_op *op, pal_work *work, pal_error *err)
{
    if (needs_session(op->kind) && pal_id_is_none(op->session))
        return pal_error_set(err, PAL_INVALID, "the operation has no session");
    switch (op->kind) {
    case PAL_OP_CREATE:
        work->new_id = pal_id_new();
        return check_session(op->u.create.session, err);
    case PAL_OP_FORK:
        work->new_id = pal_id_new();
        return check_session(op->u.fork.session, err);
    case PAL_OP_UPDATE:
        return check_session(op->u.update.session, err);
    case PAL_OP_APPEND:
        return prepare_append(options, prepared, op, work, err);
    case PAL_OP_MARK:
        return prepare_mark(op, err);
    case PAL_OP_INBOX_ADD:
        return prepare_inbox_item(options, op, work, err);
    case PAL_OP_LEASE_TAKE:
        return prepare_lease(op, err);
    case PAL_OP_LEDGER_ADD:
        return check_ledger_row(op->u.ledger_row, err);
    case PAL_OP_BLOB_PUT:
        return prepare_blob(options, prepared, op, work, err);
    case PAL_OP_RECORD_PUT:
    case PAL_OP_RECORD_DROP:
        return pal_record_check(op, err);
    case PAL_OP_ERASE_MESSAGE:
        if (op->u.erase_message.seq == 0)
            return pal_error_set(err, PAL_INVALID, "the first message has the seq 1, not 0");
        return PAL_OK;
    case PAL_OP_ADOPT:
    case PAL_OP_DELETE:
    case PAL_OP_RESTORE:
    case PAL_OP_ERASE:
    case PAL_OP_INBOX_DROP:
    case PAL_OP_LEASE_RELEASE:
    case PAL_OP_SWEEP:
        return PAL_OK;
    case PAL_OP_NONE:
        break;
    }
    return pal_error_set(err, PAL_INVALID, "unknown kind of operation: %d", (int)op->kind);
}

/* The bodies no longer move, so every row gets the address of its body. */
static void settle_bodies(pal_prepared_batch *prepared)
{
    const char *at = prepared->bodies.data ? prepared->bodies.data : ""; /* all bodies may be
                                                                            empty */

    for (size_t i = 0; i < prepared->works_len; i++) {
        for (size_t j = 0; j < prepared->works[i].rows_len; j++) {
            prepared->works[i].rows[j].body.data = at;
            at += prepared->works[i].rows[j].body.len;
        }
    }
}

pal_status pal_store_prepare(const pal_store_options *options, int64_t now_ms, pal_op *ops,
        size_t ops_len, pal_prepared_batch *out_prepared, pal_error *err)
{
    pal_prepared_batch *prepared = out_prepared;

    memset(prepared, 0, sizeof(*prepared));
    pal_buf_init(&prepared->bodies, PAL_BATCH_BYTES_MAX);
    prepared->arena = pal_arena_new(0);
    if (prepared->arena)
        prepared->works = pal_arena_array(prepared->arena, ops_len, sizeof(pal_work));
    if (!prepared->works)
        return pal_no_memory(err);
    for (size_t i = 0; i < ops_len; i++) {
        pal_work *work = &prepared->works[prepared->works_len];
        const pal_work *before = prepared->works_len > 0 ? work - 1 : NULL;
        bool is_checked = before && before->op->tenant.data == ops[i].tenant.data &&
                before->op->tenant.len == ops[i].tenant.len;

        memset(work, 0, sizeof(*work));
        work->op = &ops[i];
        work->tenant = is_checked ? before->tenant : ops[i].tenant;
        work->now_ms = now_ms;
        work->sessions_max = options->sessions_max;
        ops[i].status = is_checked ? PAL_OK : pal_tenant_check(&work->tenant, &ops[i].error);
        if (i == 0 && ops[i].with_previous)
            ops[i].status = pal_error_set(
                    &ops[i].error, PAL_INVALID,
                    "the first operation cannot depend on a previous one");
        if (ops[i].status == PAL_OK)
            ops[i].status = prepare_op(options, prepared, &ops[i], work, &ops[i].error);
        if (prepared->bodies.failure)
            return pal_error_set(err, prepared->bodies.failure,
                    "the batch is too large, or there is no memory");
        if (ops[i].status == PAL_OK)
            prepared->works_len++;
    }
    settle_bodies(prepared);
    return PAL_OK;
}

void pal_store_prepared_done(pal_prepared_batch *prepared)
{
    pal_buf_done(&prepared->bodies);
    pal_arena_free(prepared->arena);
}

/* Copies the values that the backend assigned to the rows into the callers' messages. */
static void publish(pal_prepared_batch *prepared)
{
    for (size_t i = 0; i < prepared->works_len; i++) {
        pal_work *work = &prepared->works[i];

        if (work->op->kind != PAL_OP_APPEND || work->op->status != PAL_OK)
            continue;
        for (size_t j = 0; j < work->rows_len; j++) {
            pal_message *message = &work->op->u.append.messages[j];

            message->id = work->rows[j].id;
            message->seq = work->rows[j].seq;
            message->created_at = work->rows[j].created_at;
            message->tokens = work->rows[j].tokens;
        }
    }
}

/* ---- Batches ---- */

/* Forks are resolved here, against the current rows. Rows never change, so the result stays valid.
 * Returns false if nothing is left to do. */
static bool resolve_fork(pal_store *store, pal_work *work, pal_arena *arena)
{
    pal_op *op = work->op;

    if (op->kind == PAL_OP_FORK) {
        bool keeps = op->u.fork.keep_mark;
        op->status = pal_view_fork(store->engine, work, op->u.fork.parent, op->u.fork.at_seq,
                keeps ? op->u.fork.session->fork_mark : UINT64_MAX, arena, &op->error);
    }
    if (op->kind == PAL_OP_ERASE_MESSAGE)
        op->status = pal_view_owner(store->engine, work, op->u.erase_message.seq, arena,
                &op->error);
    if (op->kind == PAL_OP_ADOPT) {
        op->u.adopt.adopted = false;
        op->status = pal_view_fork(store->engine, work, op->u.adopt.from, PAL_SEQ_ANY, UINT64_MAX,
                arena, &op->error);
        if (work->fork_seq == 0)
            return false;
    }
    return op->status == PAL_OK;
}

static void resolve_forks(pal_store *store, pal_prepared_batch *prepared)
{
    size_t kept = 0;

    for (size_t i = 0; i < prepared->works_len; i++)
        if (resolve_fork(store, &prepared->works[i], prepared->arena))
            prepared->works[kept++] = prepared->works[i];
    prepared->works_len = kept;
}

int64_t pal_store_now_ms(pal_engine *engine)
{
    return engine->backend->now_ms ? engine->backend->now_ms(engine) : pal_clock_now_ms();
}

static pal_status check_batch(const pal_store *store, size_t ops_len, pal_error *err)
{
    if (store->options.read_only)
        return pal_error_set(err, PAL_DENIED, "the store was opened for reading only");
    if (ops_len > PAL_BATCH_OPS_MAX)
        return pal_error_set(err, PAL_LIMIT, "%zu operations in one batch exceed the limit of %d",
                ops_len, PAL_BATCH_OPS_MAX);
    return PAL_OK;
}

static pal_status prepare(pal_store *store, pal_op *ops, size_t ops_len,
        pal_prepared_batch *out_prepared, pal_error *err)
{
    pal_status status = pal_store_prepare(
            &store->options, pal_store_now_ms(store->engine), ops, ops_len, out_prepared, err);

    if (status == PAL_OK)
        resolve_forks(store, out_prepared);
    return status;
}

/* The other callers need not wait for large blobs of this one. */
static void store_blobs(pal_store *store, pal_prepared_batch *prepared)
{
    pal_blob_ahead_fn *blob_ahead = store->engine->backend->blob_ahead;

    for (size_t i = 0; blob_ahead && i < prepared->works_len; i++)
        for (size_t j = 0; j < prepared->works[i].blobs_len; j++)
            (void)!blob_ahead(
                    store->engine, prepared->works[i].tenant, &prepared->works[i].blobs[j], NULL);
}

pal_status pal_store_apply(pal_store *store, pal_op *ops, size_t ops_len, pal_error *err)
{
    pal_prepared_batch prepared;
    pal_status status = check_batch(store, ops_len, err);

    if (status != PAL_OK || ops_len == 0)
        return status;
    status = prepare(store, ops, ops_len, &prepared, err);
    if (status == PAL_OK) {
        store_blobs(store, &prepared);
        pal_writer_run(store->writer, prepared.works, prepared.works_len);
        publish(&prepared);
        pal_store_changed(store, ops, ops_len);
    }
    pal_store_prepared_done(&prepared);
    return status;
}

/* ---- All or none ---- */

/* Of the other kinds, the backend "memory:" cannot take back what they did. */
static bool can_be_taken_back(const pal_op *op)
{
    switch (op->kind) {
    case PAL_OP_CREATE:
    case PAL_OP_FORK:
    case PAL_OP_MARK:
    case PAL_OP_INBOX_ADD:
    case PAL_OP_INBOX_DROP:
    case PAL_OP_BLOB_PUT:
    case PAL_OP_RECORD_PUT:
    case PAL_OP_RECORD_DROP:
        return true;
    case PAL_OP_APPEND:
        return op->u.append.ledger_len == 0;
    default:
        return false;
    }
}

static void cancel_others(pal_op *ops, size_t ops_len, size_t failed)
{
    for (size_t i = 0; i < ops_len; i++)
        if (i != failed)
            ops[i].status = pal_error_set(&ops[i].error, PAL_CANCELED,
                    "another operation of the batch failed: %.180s", ops[failed].error.message);
}

/* Returns the status of the operation that failed, and its index, or PAL_OK. If all have the same
 * failure, the commit has failed. */
static pal_status all_status(const pal_op *ops, size_t ops_len, size_t *out_failed, pal_error *err)
{
    size_t failed = ops_len, canceled = 0;

    for (size_t i = 0; i < ops_len; i++) {
        if (ops[i].status == PAL_CANCELED)
            canceled++;
        else if (ops[i].status != PAL_OK && failed == ops_len)
            failed = i;
    }
    if (failed == ops_len && canceled == 0)
        return PAL_OK;
    if (out_failed)
        *out_failed = failed < ops_len && canceled == ops_len - 1 ? failed : ops_len;
    if (failed == ops_len)
        failed = 0;
    return pal_error_set(err, ops[failed].status, "%s", ops[failed].error.message);
}

static pal_status prepare_all(pal_store *store, pal_op *ops, size_t ops_len,
        pal_prepared_batch *out_prepared, size_t *out_failed, pal_error *err)
{
    pal_status status;

    memset(out_prepared, 0, sizeof(*out_prepared));
    for (size_t i = 0; i < ops_len; i++) {
        if (can_be_taken_back(&ops[i]))
            continue;
        ops[i].status = pal_error_set(&ops[i].error, PAL_INVALID,
                "an operation of kind %d cannot be applied all or none", (int)ops[i].kind);
        cancel_others(ops, ops_len, i);
        return all_status(ops, ops_len, out_failed, err);
    }
    status = prepare(store, ops, ops_len, out_prepared, err);
    if (status != PAL_OK) {
        if (out_failed)
            *out_failed = ops_len;
        return status;
    }
    for (size_t i = 0; i < ops_len; i++) {
        if (ops[i].status == PAL_OK)
            continue;
        cancel_others(ops, ops_len, i);
        return all_status(ops, ops_len, out_failed, err);
    }
    out_prepared->works[0].all_len = out_prepared->works_len;
    return PAL_OK;
}

pal_status pal_store_apply_all(
        pal_store *store, pal_op *ops, size_t ops_len, size_t *out_failed, pal_error *err)
{
    pal_prepared_batch prepared;
    pal_status status = check_batch(store, ops_len, err);

    if (status != PAL_OK && out_failed)
        *out_failed = ops_len;
    if (status != PAL_OK || ops_len == 0)
        return status;
    status = prepare_all(store, ops, ops_len, &prepared, out_failed, err);
    if (status == PAL_OK) {
        store_blobs(store, &prepared);
        pal_writer_run(store->writer, prepared.works, prepared.works_len);
        status = all_status(ops, ops_len, out_failed, err);
    }
    if (status == PAL_OK) {
        publish(&prepared);
        pal_store_changed(store, ops, ops_len);
    }
    pal_store_prepared_done(&prepared);
    return status;
}

pal_status pal_store_apply_one(pal_store *store, pal_op *op, pal_error *err)
{
    pal_status status = pal_store_apply(store, op, 1, err);

    if (status == PAL_OK && op->status != PAL_OK)
        status = pal_error_set(err, op->status, "%s", op->error.message);
    return status;
}

/* ---- Asynchronous batches ---- */

/* A batch without a waiting caller; it lives until its callback is called. */
typedef struct batch {
    pal_writer_task task; /* must be the first member, because the writer knows only the task */
    pal_prepared_batch prepared;
    pal_store *store;
    pal_op *ops;
    size_t ops_len;
    bool is_all; /* all or none */
    pal_store_on_applied applied;
    void *user;
} batch;

/* The batch is freed before its callback, so that the callback's receiver can close the store soon
 * after. */
static void batch_told(pal_writer_task *task)
{
    batch *self = (batch *)task;
    batch copy = *self;
    pal_error err;
    pal_status status =
            self->is_all ? all_status(self->ops, self->ops_len, NULL, &err) : PAL_OK;

    publish(&self->prepared);
    pal_store_prepared_done(&self->prepared);
    pal_free(self);
    pal_store_changed(copy.store, copy.ops, copy.ops_len);
    copy.applied(copy.ops, copy.ops_len, status, status == PAL_OK ? NULL : &err, copy.user);
}

static pal_status batch_new(pal_store *store, pal_op *ops, size_t ops_len, bool is_all,
        batch **out_batch, pal_error *err)
{
    batch *self = pal_calloc(1, sizeof(*self));
    pal_status status;

    if (!self)
        return pal_no_memory(err);
    self->store = store;
    self->ops = ops;
    self->ops_len = ops_len;
    self->task.done = batch_told;
    self->is_all = is_all;
    status = ops_len == 0 ? PAL_OK
            : is_all      ? prepare_all(store, ops, ops_len, &self->prepared, NULL, err)
                          : prepare(store, ops, ops_len, &self->prepared, err);
    if (status != PAL_OK) {
        pal_store_prepared_done(&self->prepared);
        pal_free(self);
        return status;
    }
    self->task.works = self->prepared.works;
    self->task.works_len = self->prepared.works_len;
    *out_batch = self;
    return PAL_OK;
}

static pal_status apply_async(pal_store *store, pal_op *ops, size_t ops_len, bool is_all,
        pal_store_on_applied applied, void *user, pal_error *err)
{
    batch *self = NULL;
    pal_status status = check_batch(store, ops_len, err);

    if (status == PAL_OK)
        status = batch_new(store, ops, ops_len, is_all, &self, err);
    if (status != PAL_OK)
        return status;
    self->applied = applied;
    self->user = user;
    status = pal_writer_hand(store->writer, &self->task, err);
    if (status != PAL_OK) {
        pal_store_prepared_done(&self->prepared);
        pal_free(self);
    }
    return status;
}

pal_status pal_store_apply_async(pal_store *store, pal_op *ops, size_t ops_len,
        pal_store_on_applied applied, void *user, pal_error *err)
{
    return apply_async(store, ops, ops_len, false, applied, user, err);
}

pal_status pal_store_apply_all_async(pal_store *store, pal_op *ops, size_t ops_len,
        pal_store_on_applied applied, void *user, pal_error *err)
{
    return apply_async(store, ops, ops_len, true, applied, user, err);
}
