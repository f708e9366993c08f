/* server_idempotency.c - a request that is repeated with the same `Idempotency-Key` does its work
 * once, whatever happened to the first attempt.
 *
 * Records: a key belongs to a tenant. Its record (kind "idempotency", named by the SHA-256 of the
 * key) contains the SHA-256 of the request: method, path, body, query, and the headers that select
 * a session. After the work is done, it also contains the code of the response. The response is a
 * separate record with the same name (kind "idempotency_answer"). It belongs to the session that it
 * shows and is erased with that session. The first record stays, so that a repeated request is not
 * mistaken for a new one. Both records expire after server.idempotency_ms.
 *
 * Derived ids: a repeated request must use the same ids as the first attempt. They are an HMAC of
 * tenant, route, key and a number, with the store's secret (access_secret.c). So no other tenant
 * and no other store can predict or choose them.
 *
 * The tables below show what a request finds, and what a crash leaves.
 *
 * Turns and other work that does not use pal_call_apply() have no "applied" record. Their handlers
 * take client ids from pal_call_derived_id(), by which the runtime finds the first turn.
 *
 * A failed request has changed nothing, and its response is not stored. If two processes get the
 * same new key at the same time, the operations of the second one are refused: the commit begins
 * with a "begun" record that must not exist. It stays alone if the operations after it are refused.
 * Turns are merged by their derived ids instead.
 *
 * Threads: all functions can be called from any thread. The table of running requests has one lock,
 * which is held only for a look-up. */

/* clang-format off */
/* The states that a request can find, and what happens then:
 *
 *   no record                     First attempt. The handler runs. Its operations and an "applied"
 *                                 record (a record without a code) are committed together. Then
 *                                 the response is stored, and only then is it sent.
 *   a "begun" record              An earlier attempt was refused. The same as no record.
 *   a record and its response     The response is sent again, with `idempotent-replayed: true`.
 *   a record, response erased     409: the session was erased, and the response with it.
 *   an "applied" record           The process crashed before the response was stored; see below.
 *   the first attempt is running  409. In another process, it is found by the commit.
 *   a different request           422: the key was used for a request with another digest.
 *
 * The time of a crash, and what the repeated request finds and does:
 *
 *   before the commit             There is no record. It runs as a first attempt.
 *   after the commit, before      There is an "applied" record. The handler runs again:
 *   the response was stored         - creates and forks whose derived id exists are left out, with
 *                                     the records that were written in the same commit;
 *                                   - appends whose messages all have client ids are applied, and
 *                                     the store finds the first ones;
 *                                   - anything else cannot be found again: 409 reports that the
 *                                     work was done and that its response is lost. If there are
 *                                     other nodes, it first says for 10 s that the request runs.
 *   after the response was        The stored response is sent.
 *   stored
 */
/* clang-format on */

#include "server/server_idempotency.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include "base/digest.h"
#include "base/json/json_put.h"
#include "base/log.h"
#include "base/map.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "server/access/access_key.h"
#include "server/node/node.h"
#include "server/observe/observe_metrics.h"
#include "server/server_call.h"
#include "server/server_settings.h"

#define KIND "idempotency"
#define ANSWER_KIND "idempotency_answer"
#define DIGEST_TEXT_SIZE (2 * PAL_SHA256_SIZE + 1)
#define RUNNING_RETRY_MS 1000
#define ANSWER_WAIT_MS 10000 /* after the commit; another node may still store the response */

struct pal_idempotency {
    pthread_mutex_t lock;
    pal_map running; /* by pal_idempotent.id */
    bool has_secret;
    uint8_t secret[PAL_SECRET_SIZE]; /* the store's secret; never changes after it is set */
};

/* A key whose request is running. */
typedef struct pal_idempotent {
    char id[DIGEST_TEXT_SIZE];      /* digest of tenant and key */
    char name[DIGEST_TEXT_SIZE];    /* digest of the key: the name of the record */
    char request[DIGEST_TEXT_SIZE]; /* digest of everything that determines what the request does */
    uint64_t version;               /* of the "begun" record; 0: there is no record */
    int64_t applied_at;             /* time of the "applied" record */
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

/* Hashes texts, each preceded by its length, so that two different lists never have the same input.
 * Uses SHA-256 if `secret` is NULL, otherwise HMAC. */
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

/* Does not include the tenant, because each tenant has separate keys. The digest of a request with
 * neither a query nor one of these headers is the same as in earlier versions. */
static pal_status digest_request(const pal_exchange *x, char out[DIGEST_TEXT_SIZE])
{
    const pal_str texts[] = {x->method, x->path, pal_buf_str(&x->body),
            x->query, x->headers.session,
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

/* Must be called before the first id is derived. Concurrent callers get the same secret. */
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

bool pal_idempotency_derive_id(const pal_call *call, uint32_t n, pal_id *out_id)
{
    char number[16];
    uint8_t bytes[PAL_SHA256_SIZE];
    const pal_api_route *route = call->route;
    if (call->idempotency_key.len == 0)
        return false;
    snprintf(number, sizeof number, "%" PRIu32, n);
    const pal_str texts[] = {call->caller.tenant, pal_str_of(route ? route->method : NULL),
            pal_str_of(route ? route->path : NULL), call->idempotency_key, pal_str_of(number)};
    const uint8_t *secret = call->server->idempotency->secret;
    if (digest(texts, sizeof texts / sizeof *texts, secret, bytes) != PAL_OK)
        return false;
    memcpy(out_id->bytes, bytes, sizeof out_id->bytes);
    /* UUID version 8: derived by a rule of this project. */
    out_id->bytes[6] = (uint8_t)(0x80 | (out_id->bytes[6] & 0x0f));
    out_id->bytes[8] = (uint8_t)(0x80 | (out_id->bytes[8] & 0x3f));
    return true;
}

/* ---- Running requests ---- */

static pal_status refuse_other(pal_call *call, pal_error *err)
{
    return pal_call_refuse(call, 422, "idempotency_key_reused", PAL_INVALID, err,
            "the idempotency key was used for a different request; use a new key");
}

pal_status pal_idempotency_running(pal_call *call, pal_error *err)
{
    call->fail_retry_ms = RUNNING_RETRY_MS;
    return pal_call_refuse(call, 409, "request_in_progress", PAL_CONFLICT, err,
            "a request with this idempotency key is still running; retry later");
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
        return pal_no_memory(err);
    if (status == PAL_CONFLICT && !is_same)
        return refuse_other(call, err);
    if (status == PAL_CONFLICT)
        return pal_idempotency_running(call, err);
    call->idempotent = entry;
    return PAL_OK;
}

void pal_idempotency_end(pal_call *call)
{
    struct pal_idempotency *table = call->server->idempotency;
    if (!call->idempotent)
        return;
    pthread_mutex_lock(&table->lock);
    pal_map_remove(&table->running, pal_str_of(call->idempotent->id));
    pthread_mutex_unlock(&table->lock);
    call->idempotent = NULL;
}

/* ---- The record ---- */

static pal_status write_body(const pal_call *call, pal_buf *buf, pal_record *out_record)
{
    out_record->body = pal_arena_copy(call->arena, pal_buf_str(buf));
    out_record->expires_at =
            pal_store_clock_ms(call->server->store) + call->server->settings->idempotency_ms;
    pal_status status = buf->failure ? buf->failure : pal_arena_failure(call->arena);
    pal_buf_done(buf);
    return status;
}

/* The record of a request. */
typedef struct request_body {
    pal_str request; /* digest of the request */
    bool is_begun;
    uint32_t code; /* code of the response; 0: there is none yet */
    pal_json body; /* the response; only in records of earlier versions */
} request_body;

static const pal_member request_members[] = {
        {"request", PAL_MEMBER_TEXT, 1, .offset = offsetof(request_body, request)},
        {"begun", PAL_MEMBER_BOOL, 1, .offset = offsetof(request_body, is_begun)},
        {"code", PAL_MEMBER_U32, 1, .offset = offsetof(request_body, code)},
        {"body", PAL_MEMBER_VALUE, 1, .offset = offsetof(request_body, body)},
};

static const pal_member_table request_table = {
        request_members, sizeof request_members / sizeof *request_members, NULL, NULL};

static pal_status make_record(const pal_call *call, const pal_idempotent *entry, bool is_begun,
        unsigned code, pal_record *out_record)
{
    const request_body body = {
            .request = pal_str_of(entry->request), .is_begun = is_begun, .code = code};
    pal_buf buf;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_members_write(&request_table, 1, &writer, &body);
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
    pal_put_str(&writer, "body", body);
    pal_json_end_object(&writer);
    *out_record = (pal_record){.kind = pal_str_of(ANSWER_KIND),
            .name = pal_str_of(entry->name),
            .session = call->owner};
    return write_body(call, &buf, out_record);
}

/* Writes both records in one commit. If the session was erased meanwhile, the store refuses the
 * response, as intended, and only the first record is written. */
static pal_status save(pal_call *call, unsigned code, pal_str body, pal_error *err)
{
    pal_record records[2];
    pal_op ops[2];
    size_t len = 0;
    const pal_idempotent *entry = call->idempotent;
    pal_status status = make_record(call, entry, false, code, &records[0]);
    if (status == PAL_OK)
        status = make_answer(call, entry, body, &records[1]);
    if (status != PAL_OK)
        return status;
    for (; len < (call->is_mixed ? 1 : 2); len++)
        ops[len] = pal_op_record_put(
                call->caller.tenant, &records[len], PAL_RECORD_VERSION_ANY);
    status = pal_store_apply(call->server->store, ops, len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        status = ops[i].status == PAL_NOT_FOUND ? PAL_OK : ops[i].status;
        *err = ops[i].error;
    }
    return status;
}

void pal_idempotency_forget(pal_call *call)
{
    call->is_forgotten = true;
}

void pal_idempotency_save(pal_call *call, unsigned code, pal_str body)
{
    pal_error err = {0};
    if (!call->idempotent || body.len > PAL_SERVER_REMEMBERED_BYTES_MAX || call->is_forgotten)
        return;
    pal_status status = save(call, code, body, &err);
    if (status != PAL_OK)
        pal_log(PAL_LOG_WARN,
                "request %.*s: could not store the response for its idempotency key: %s",
                PAL_STR_ARG(call->exchange->id),
                err.message[0] ? err.message : pal_status_name(status));
}

/* Returns the text of the response. PAL_NOT_FOUND if it was erased. Earlier versions stored it in
 * the record of the request. */
static pal_status find_answer(
        pal_call *call, const request_body *stored, pal_str *out_text, pal_error *err)
{
    pal_record answer;
    pal_json text = stored->body, value;
    if (pal_json_type_of(text) != PAL_JSON_STRING) {
        pal_status status = pal_store_record_find(call->server->store, call->caller.tenant,
                pal_str_of(ANSWER_KIND), pal_str_of(call->idempotent->name), call->arena, &answer,
                err);
        if (status == PAL_OK)
            status = pal_json_parse(call->arena, answer.body, NULL, &value, err);
        if (status != PAL_OK)
            return status;
        text = pal_json_find(value, "body");
    }
    *out_text = pal_json_string(text, call->arena);
    if (pal_arena_failure(call->arena) != PAL_OK)
        return pal_no_memory(err);
    return PAL_OK;
}

static pal_status answer_again(
        pal_call *call, const pal_record *record, bool *out_answered, pal_error *err)
{
    pal_json body;
    request_body stored;
    pal_str text;
    pal_idempotent *entry = call->idempotent;
    pal_status status = pal_json_parse(call->arena, record->body, NULL, &body, err);
    if (status == PAL_OK)
        status = pal_members_read_stored(&request_table, 1, body, call->arena, &stored, err);
    if (status != PAL_OK)
        return status;
    if (!pal_str_is(stored.request, entry->request))
        return refuse_other(call, err);
    if (stored.is_begun) {
        entry->version = record->version;
        return PAL_OK;
    }
    if (!stored.code) {
        call->is_repeat = true;
        entry->applied_at = record->updated_at;
        return PAL_OK;
    }
    status = find_answer(call, &stored, &text, err);
    if (status == PAL_NOT_FOUND)
        return pal_idempotency_lost(call, err);
    if (status != PAL_OK)
        return status;
    *out_answered = true;
    pal_metrics_replayed(call->server->metrics);
    pal_idempotency_end(call);
    pal_exchange_add_header(call->exchange, "idempotent-replayed", pal_str_of("true"));
    pal_exchange_answer(call->exchange, stored.code, "application/json", text);
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
    pal_str key = call->exchange->headers.idempotency_key;
    *out_answered = false;
    if (key.len == 0 || !is_write(call->exchange->method))
        return PAL_OK;
    if (key.len > PAL_SERVER_IDEMPOTENCY_KEY_LEN_MAX) {
        call->fail_param = "Idempotency-Key";
        return pal_error_set(err, PAL_INVALID,
                "header Idempotency-Key of %zu bytes exceeds the limit of %d", key.len,
                PAL_SERVER_IDEMPOTENCY_KEY_LEN_MAX);
    }
    pal_status status = learn_secret(call, err);
    if (status != PAL_OK)
        return status;
    call->idempotency_key = key;
    pal_idempotent *entry = pal_arena_alloc(call->arena, sizeof *entry);
    if (!entry || name_all(call, entry) != PAL_OK)
        return pal_no_memory(err);
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
            "the request with this idempotency key was completed, but its response was lost; read "
            "the current state before you send it again");
}

/* Another node may be about to store the response. */
static bool may_be_running(const pal_call *call)
{
    return pal_nodes_has_others(call->server->nodes) &&
            pal_store_clock_ms(call->server->store) - call->idempotent->applied_at <
                    ANSWER_WAIT_MS;
}

/* Whether an operation of a repeated request was applied before. If not, it must be an append,
 * because the store recognizes repeated appends by their client ids. */
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
        status = pal_store_find(call->server->store, op->tenant, PAL_SESSION_BY_ID,
                pal_str_of(text), call->arena, &session, err);
    }
    if (status == PAL_NOT_FOUND && may_be_running(call))
        return pal_idempotency_running(call, err);
    if (status == PAL_NOT_FOUND)
        return pal_idempotency_lost(call, err);
    if (status == PAL_OK) {
        *out_found = true;
        op->status = PAL_OK;
    }
    return status;
}

static pal_status add_record(pal_call *call, pal_idempotent_batch *batch, bool is_begun,
        uint64_t expected_version, pal_error *err)
{
    pal_record *record = pal_arena_alloc(call->arena, sizeof *record);
    const pal_idempotent *entry = call->idempotent;
    if (!record || make_record(call, entry, is_begun, 0, record) != PAL_OK)
        return pal_no_memory(err);
    batch->from[batch->len] = SIZE_MAX;
    pal_op *op = &batch->ops[batch->len++];
    *op = pal_op_record_put(call->caller.tenant, record, expected_version);
    op->with_previous = !is_begun;
    return PAL_OK;
}

/* Whether each operation depends on the one before, so that all of them depend on the first. */
static bool is_chain(const pal_op *ops, size_t ops_len)
{
    for (size_t i = 1; i < ops_len; i++) {
        if (!ops[i].with_previous)
            return false;
    }
    return true;
}

pal_status pal_idempotency_batch(pal_call *call, pal_op *ops, size_t ops_len,
        pal_idempotent_batch *out_batch, pal_error *err)
{
    pal_idempotent_batch batch = {
            .ops = pal_arena_array(call->arena, ops_len + 2, sizeof(pal_op)),
            .from = pal_arena_array(call->arena, ops_len + 2, sizeof(size_t)),
            .begins = !call->is_repeat && is_chain(ops, ops_len),
    };
    pal_status status = PAL_OK;
    bool is_repeat = call->is_repeat;
    bool was_found = false;
    if (!batch.ops || !batch.from)
        return pal_no_memory(err);
    if (batch.begins)
        status = add_record(call, &batch, true, call->idempotent->version, err);
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < ops_len; i++) {
        /* A record that was written in the same commit as a found operation exists too. */
        bool found =
                is_repeat && was_found && ops[i].kind == PAL_OP_RECORD_PUT && ops[i].with_previous;
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
        if (batch.begins)
            batch.ops[batch.len].with_previous = true;
        batch.len++;
    }
    if (!is_repeat)
        status = add_record(call, &batch, false, PAL_RECORD_VERSION_ANY, err);
    if (status == PAL_OK)
        *out_batch = batch;
    return status;
}
