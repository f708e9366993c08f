/* server_idempotency.c - the same request, sent again under the same `Idempotency-Key`, does its
 * work once, whatever happened to the first one.
 *
 * A key belongs to a tenant. What is known of it is a record (kind "idempotency", named by the
 * SHA-256 of the key) that holds the SHA-256 of the request (method, path, body, and the query and
 * headers that choose something), and once the work is done the code of its answer. The answer is a
 * record of its own under the same name (kind "idempotency_answer"): it belongs to the session that
 * it tells of and is erased with it, while the first record stays, so that the repeat is not taken
 * for a first time. Both expire by server.idempotency_ms.
 *
 * Ids that a repeat must find again are an HMAC of tenant, route, key and a number under the
 * store's secret (server_secret.h): no other tenant and no other store can tell or choose them.
 *
 *   first time   no record. The handler runs; its operations are committed together with a record
 *                that says "applied". Then the answer is put into the record, and only then sent.
 *   again        there is an answer: it is sent again, with `idempotent-replayed: true`.
 *   erased       the session is gone, and the answer with it: 409, nothing runs.
 *   meanwhile    the first one is still being worked on by this process: 409.
 *   another      request under the same key: 422.
 *
 * A crash
 *   before the commit        leaves nothing: the repeat is a first time.
 *   between commit, answer   leaves "applied": the repeat runs the handler in a mode where creates
 *                            and forks with derived ids that exist, and appends whose messages all
 *                            have client ids, count as what they were the first time (the store
 * finds the first ones). Anything else can't be found again: 409 says that it was done, and that
 * its answer is lost. after the answer         leaves the answer. Work that doesn't go through
 * pal_call_apply(), as turns do, has no "applied": its handler takes client ids from
 * pal_call_derived_id(), by which the runtime finds the first turn.
 *
 * A failure has changed nothing and is not remembered. Two processes that get the same new key at
 * the same moment both run; ids that are derived make them one for creates, appends and turns.
 *
 * Threads: any. The table of what runs has one lock, which is held for a look-up only. */
#include "server/server_idempotency.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/map.h"
#include "base/memory.h"
#include "server/server_call.h"
#include "server/server_metrics.h"
#include "server/server_secret.h"
#include "server/server_settings.h"

#define KIND "idempotency"
#define ANSWER_KIND "idempotency_answer"
#define DIGEST_TEXT_SIZE (2 * PAL_SHA256_SIZE + 1)
#define RUNNING_RETRY_MS 1000

struct pal_idempotency {
    pthread_mutex_t lock;
    pal_map running; /* by pal_idempotent.id */
    bool has_secret;
    uint8_t secret[PAL_SECRET_SIZE]; /* the store's; never changes once it is there */
};

/* One key while its request is worked on. */
typedef struct pal_idempotent {
    char id[DIGEST_TEXT_SIZE];      /* of tenant and key */
    char name[DIGEST_TEXT_SIZE];    /* of the key: the record's */
    char request[DIGEST_TEXT_SIZE]; /* of everything that says what to do */
} pal_idempotent;

struct pal_idempotency *pal_idempotency_new(void)
{
    struct pal_idempotency *idempotency = pal_calloc(1, sizeof *idempotency);
    if (idempotency)
        pthread_mutex_init(&idempotency->lock, NULL);
    return idempotency;
}

void pal_idempotency_free(struct pal_idempotency *idempotency)
{
    if (!idempotency)
        return;
    pal_map_done(&idempotency->running);
    pthread_mutex_destroy(&idempotency->lock);
    pal_free(idempotency);
}

/* ---- Names ---- */

/* Texts with their lengths before them, so that no two lists are hashed alike. `secret` NULL: by
 * SHA-256, else by HMAC. */
static pal_status digest(const pal_str *texts, size_t texts_len, const uint8_t *secret,
        uint8_t out[PAL_SHA256_SIZE])
{
    pal_buf buf;
    pal_buf_init(&buf, SIZE_MAX);
    for (size_t i = 0; i < texts_len; i++) {
        pal_buf_append_u64(&buf, texts[i].len);
        pal_buf_append_char(&buf, ':');
        pal_buf_append_str(&buf, texts[i]);
    }
    pal_status status = buf.failure;
    if (status == PAL_OK && secret)
        status = pal_hmac_sha256(
                pal_str_make((const char *)secret, PAL_SECRET_SIZE), pal_buf_str(&buf), out);
    else if (status == PAL_OK)
        status = pal_sha256(pal_buf_str(&buf), out);
    pal_buf_done(&buf);
    return status;
}

static pal_status digest_text(const pal_str *texts, size_t texts_len, char out[DIGEST_TEXT_SIZE])
{
    uint8_t bytes[PAL_SHA256_SIZE];
    pal_status status = digest(texts, texts_len, NULL, bytes);
    if (status == PAL_OK)
        pal_hex(bytes, sizeof bytes, out);
    return status;
}

/* The tenant is no part of it: each tenant has keys of its own. A request with neither a query nor
 * such a header has the digest that earlier versions gave it. */
static pal_status digest_request(const pal_exchange *x, char out[DIGEST_TEXT_SIZE])
{
    const pal_str texts[] = {pal_exchange_method(x), pal_exchange_path(x), pal_exchange_body(x),
            pal_exchange_query_text(x), pal_exchange_header(x, "x-palaver-session"),
            pal_exchange_header(x, "mcp-session-id")};
    bool is_plain = texts[3].len == 0 && texts[4].len == 0 && texts[5].len == 0;
    return digest_text(texts, is_plain ? 3 : sizeof texts / sizeof *texts, out);
}

static pal_status name_all(const pal_call *call, pal_idempotent *out)
{
    const pal_str id[] = {call->caller.tenant, call->idempotency_key};
    pal_status status = digest_text(id, 2, out->id);
    if (status == PAL_OK)
        status = digest_text(&call->idempotency_key, 1, out->name);
    if (status == PAL_OK)
        status = digest_request(call->exchange, out->request);
    return status;
}

/* Before the first id is derived. The secret is the same for all who come at once. */
static pal_status learn_secret(pal_call *call, pal_error *err)
{
    struct pal_idempotency *table = call->server->idempotency;
    uint8_t secret[PAL_SECRET_SIZE];
    pthread_mutex_lock(&table->lock);
    bool is_known = table->has_secret;
    pthread_mutex_unlock(&table->lock);
    if (is_known)
        return PAL_OK;
    pal_status status = pal_secret_get(call->server->store, secret, err);
    if (status != PAL_OK)
        return status;
    pthread_mutex_lock(&table->lock);
    if (!table->has_secret)
        memcpy(table->secret, secret, sizeof secret);
    table->has_secret = true;
    pthread_mutex_unlock(&table->lock);
    return PAL_OK;
}

pal_id pal_call_derived_id(const pal_call *call, uint32_t n)
{
    char number[16];
    uint8_t bytes[PAL_SHA256_SIZE];
    pal_id id;
    snprintf(number, sizeof number, "%" PRIu32, n);
    const pal_api_route *route = call->route;
    const pal_str texts[] = {call->caller.tenant, pal_str_of(route ? route->method : NULL),
            pal_str_of(route ? route->path : NULL), call->idempotency_key, pal_str_of(number)};
    if (call->idempotency_key.len == 0 ||
            digest(texts, sizeof texts / sizeof *texts, call->server->idempotency->secret, bytes) !=
                    PAL_OK)
        return pal_id_new();
    memcpy(id.bytes, bytes, sizeof id.bytes);
    id.bytes[6] = (uint8_t)(0x80 | (id.bytes[6] & 0x0f)); /* version 8: made by a rule of ours */
    id.bytes[8] = (uint8_t)(0x80 | (id.bytes[8] & 0x3f));
    return id;
}

/* ---- What runs ---- */

static pal_status refuse_other(pal_call *call, pal_error *err)
{
    return pal_call_refuse(call, 422, "idempotency_key_reused", PAL_INVALID, err,
            "this idempotency key was used for another request; send this one under a new key");
}

static pal_status enter(pal_call *call, pal_idempotent *entry, pal_error *err)
{
    struct pal_idempotency *table = call->server->idempotency;
    bool is_same = true;
    pthread_mutex_lock(&table->lock);
    const pal_idempotent *other = pal_map_find(&table->running, pal_str_of(entry->id));
    pal_status status =
            other ? PAL_CONFLICT : pal_map_set(&table->running, pal_str_of(entry->id), entry);
    if (other)
        is_same = strcmp(other->request, entry->request) == 0;
    pthread_mutex_unlock(&table->lock);
    if (status == PAL_NO_MEMORY)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    if (status == PAL_CONFLICT && !is_same)
        return refuse_other(call, err);
    if (status == PAL_CONFLICT) {
        call->fail_retry_ms = RUNNING_RETRY_MS;
        return pal_call_refuse(call, 409, "request_in_progress", PAL_CONFLICT, err,
                "the request with this idempotency key is still being worked on");
    }
    pal_frame_of(call)->idempotent = entry;
    return PAL_OK;
}

void pal_idempotency_end(pal_call *call)
{
    pal_frame *frame = pal_frame_of(call);
    struct pal_idempotency *table = call->server->idempotency;
    if (!frame->idempotent)
        return;
    pthread_mutex_lock(&table->lock);
    pal_map_remove(&table->running, pal_str_of(frame->idempotent->id));
    pthread_mutex_unlock(&table->lock);
    frame->idempotent = NULL;
}

/* ---- The record ---- */

static pal_status write_body(const pal_call *call, pal_buf *buf, pal_record *out_record)
{
    out_record->body = pal_arena_copy(call->arena, pal_buf_str(buf));
    out_record->expires_at = pal_clock_now_ms() + call->server->settings->idempotency_ms;
    pal_status status = buf->failure ? buf->failure : pal_arena_failure(call->arena);
    pal_buf_done(buf);
    return status;
}

/* The record of the request; code 0: not answered yet. */
static pal_status make_record(
        const pal_call *call, const pal_idempotent *entry, unsigned code, pal_record *out_record)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "request");
    pal_json_put_text(&writer, entry->request);
    if (code) {
        pal_json_name(&writer, "code");
        pal_json_put_u64(&writer, code);
    }
    pal_json_end_object(&writer);
    *out_record = (pal_record){.kind = pal_str_of(KIND), .name = pal_str_of(entry->name)};
    return write_body(call, &buf, out_record);
}

static pal_status make_answer(
        const pal_call *call, const pal_idempotent *entry, pal_str body, pal_record *out_record)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "body");
    pal_json_put_str(&writer, body);
    pal_json_end_object(&writer);
    *out_record = (pal_record){.kind = pal_str_of(ANSWER_KIND),
            .name = pal_str_of(entry->name),
            .session = pal_frame_of((pal_call *)call)->owner};
    return write_body(call, &buf, out_record);
}

/* Both in one commit. The answer of a session that was erased meanwhile is refused, and that is
 * right: only the first record stays. */
static pal_status save(pal_call *call, unsigned code, pal_str body, pal_error *err)
{
    pal_record records[2];
    pal_op ops[2];
    size_t len = 0;
    const pal_idempotent *entry = pal_frame_of(call)->idempotent;
    pal_status status = make_record(call, entry, code, &records[0]);
    if (status == PAL_OK)
        status = make_answer(call, entry, body, &records[1]);
    if (status != PAL_OK)
        return status;
    for (; len < (pal_frame_of(call)->is_mixed ? 1 : 2); len++)
        ops[len] = (pal_op){.kind = PAL_OP_RECORD_PUT,
                .tenant = call->caller.tenant,
                .u.record = {.record = &records[len], .expected_version = PAL_VERSION_ANY}};
    status = pal_store_apply(call->server->store, ops, len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        status = ops[i].status == PAL_NOT_FOUND ? PAL_OK : ops[i].status;
        *err = ops[i].error;
    }
    return status;
}

void pal_idempotency_forget(pal_call *call)
{
    pal_frame_of(call)->is_forgotten = true;
}

void pal_idempotency_save(pal_call *call, unsigned code, pal_str body)
{
    pal_error err = {0};
    if (!pal_frame_of(call)->idempotent || body.len > PAL_SERVER_REMEMBERED_BYTES_MAX ||
            pal_frame_of(call)->is_forgotten)
        return;
    pal_status status = save(call, code, body, &err);
    if (status != PAL_OK)
        pal_log(PAL_LOG_WARN, "request %.*s: its answer is not remembered: %s",
                PAL_STR_ARG(pal_exchange_id(call->exchange)),
                err.message[0] ? err.message : pal_status_name(status));
}

/* The text of the answer; PAL_NOT_FOUND if it was erased. Earlier versions had it in the record of
 * the request. */
static pal_status find_answer(pal_call *call, pal_json record, pal_str *out_text, pal_error *err)
{
    pal_record answer;
    pal_json body = record;
    pal_status status = PAL_OK;
    if (pal_json_type_of(pal_json_find(record, "body")) != PAL_JSON_STRING) {
        status = pal_store_record_find(call->server->store, call->caller.tenant,
                pal_str_of(ANSWER_KIND), pal_str_of(pal_frame_of(call)->idempotent->name),
                call->arena, &answer, err);
        if (status == PAL_OK)
            status = pal_json_parse(call->arena, answer.body, NULL, &body, err);
    }
    if (status != PAL_OK)
        return status;
    *out_text = pal_json_string(pal_json_find(body, "body"), call->arena);
    if (pal_arena_failure(call->arena) != PAL_OK)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    return PAL_OK;
}

static pal_status answer_again(
        pal_call *call, const pal_record *record, bool *out_answered, pal_error *err)
{
    pal_json body;
    uint64_t code;
    pal_str text;
    const pal_idempotent *entry = pal_frame_of(call)->idempotent;
    pal_status status = pal_json_parse(call->arena, record->body, NULL, &body, err);
    if (status != PAL_OK)
        return status;
    if (!pal_json_string_is(pal_json_find(body, "request"), entry->request))
        return refuse_other(call, err);
    if (!pal_json_u64(pal_json_find(body, "code"), &code)) {
        pal_frame_of(call)->is_repeat = true;
        return PAL_OK;
    }
    status = find_answer(call, body, &text, err);
    if (status == PAL_NOT_FOUND)
        return pal_idempotency_lost(call, err);
    if (status != PAL_OK)
        return status;
    *out_answered = true;
    pal_metrics_replayed(call->server->metrics);
    pal_idempotency_end(call);
    pal_exchange_add_header(call->exchange, "idempotent-replayed", pal_str_of("true"));
    pal_exchange_answer(call->exchange, (unsigned)code, "application/json", text);
    return PAL_OK;
}

static bool is_write(pal_str method)
{
    return !pal_str_is(method, "GET") && !pal_str_is(method, "HEAD") &&
            !pal_str_is(method, "OPTIONS");
}

pal_status pal_idempotency_begin(pal_call *call, bool *out_answered, pal_error *err)
{
    pal_record record;
    pal_str key = pal_exchange_header(call->exchange, "idempotency-key");
    *out_answered = false;
    if (key.len == 0 || !is_write(pal_exchange_method(call->exchange)))
        return PAL_OK;
    if (key.len > PAL_SERVER_IDEMPOTENCY_KEY_LEN_MAX) {
        call->fail_param = "Idempotency-Key";
        return pal_error_set(err, PAL_INVALID,
                "the header Idempotency-Key of %zu bytes is over the limit of %d", key.len,
                PAL_SERVER_IDEMPOTENCY_KEY_LEN_MAX);
    }
    pal_status status = learn_secret(call, err);
    if (status != PAL_OK)
        return status;
    call->idempotency_key = key;
    pal_idempotent *entry = pal_arena_alloc(call->arena, sizeof *entry);
    if (!entry || name_all(call, entry) != PAL_OK)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    status = enter(call, entry, err);
    if (status != PAL_OK)
        return status;
    status = pal_store_record_find(call->server->store, call->caller.tenant, pal_str_of(KIND),
            pal_str_of(entry->name), call->arena, &record, err);
    if (status == PAL_NOT_FOUND)
        return PAL_OK;
    return status == PAL_OK ? answer_again(call, &record, out_answered, err) : status;
}

/* ---- The operations of a handler ---- */

static bool have_client_ids(const pal_op *op)
{
    for (size_t i = 0; i < op->u.append.messages_len; i++) {
        if (op->u.append.messages[i].client_id.len == 0)
            return false;
    }
    return true;
}

pal_status pal_idempotency_lost(pal_call *call, pal_error *err)
{
    return pal_call_refuse(call, 409, "answer_lost", PAL_CONFLICT, err,
            "the request with this idempotency key was carried out, but its answer was lost; "
            "read what is there");
}

/* Whether an operation of a repeat is there already; else it must be an append that the store
 * itself finds again. */
static pal_status find_again(pal_call *call, pal_op *op, bool *out_found, pal_error *err)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_session session;
    pal_status status = PAL_NOT_FOUND;
    bool makes = op->kind == PAL_OP_CREATE || op->kind == PAL_OP_FORK;
    *out_found = false;
    if (op->kind == PAL_OP_APPEND && have_client_ids(op))
        return PAL_OK;
    if (makes && !pal_id_is_none(op->session)) {
        pal_id_to_text(op->session, text);
        status = pal_store_find(call->server->store, op->tenant, PAL_FIND_ID, pal_str_of(text),
                call->arena, &session, err);
    }
    if (status == PAL_NOT_FOUND)
        return pal_idempotency_lost(call, err);
    if (status == PAL_OK) {
        *out_found = true;
        op->status = PAL_OK;
    }
    return status;
}

static pal_status add_record(pal_call *call, pal_idempotent_batch *batch, pal_error *err)
{
    pal_record *record = pal_arena_alloc(call->arena, sizeof *record);
    const pal_idempotent *entry = pal_frame_of(call)->idempotent;
    if (!record || make_record(call, entry, 0, record) != PAL_OK)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    batch->from[batch->len] = SIZE_MAX;
    batch->ops[batch->len++] = (pal_op){
            .kind = PAL_OP_RECORD_PUT,
            .tenant = call->caller.tenant,
            .with_previous = true,
            .u.record = {.record = record, .expected_version = PAL_VERSION_ANY},
    };
    return PAL_OK;
}

/* A record that was put in one commit with what was found is there, too. */
static bool was_written_with(const pal_op *op)
{
    return op->kind == PAL_OP_RECORD_PUT && op->with_previous;
}

pal_status pal_idempotency_batch(pal_call *call, pal_op *ops, size_t ops_len,
        pal_idempotent_batch *out_batch, pal_error *err)
{
    pal_idempotent_batch batch = {
            .ops = pal_arena_array(call->arena, ops_len + 1, sizeof(pal_op)),
            .from = pal_arena_array(call->arena, ops_len + 1, sizeof(size_t)),
    };
    pal_status status = PAL_OK;
    bool is_repeat = pal_frame_of(call)->is_repeat;
    bool was_found = false;
    if (!batch.ops || !batch.from)
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < ops_len; i++) {
        bool found = is_repeat && was_found && was_written_with(&ops[i]);
        if (is_repeat && !found)
            status = find_again(call, &ops[i], &found, err);
        was_found = found;
        if (status != PAL_OK)
            return status;
        if (found)
            continue;
        batch.from[batch.len] = i;
        batch.ops[batch.len] = ops[i];
        if (is_repeat)
            batch.ops[batch.len].with_previous = false;
        batch.len++;
    }
    if (!is_repeat)
        status = add_record(call, &batch, err);
    if (status == PAL_OK)
        *out_batch = batch;
    return status;
}
