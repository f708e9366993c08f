/* test_idempotency.c - a request that is repeated with the same idempotency key does its work once,
 * also after a crash at any of its steps. The test uses a small API:
 *
 *   POST /create   creates a session with a derived id, and two messages with derived client ids
 *   POST /mark     adds a rewind, which has no id that a repeated request could find
 *   POST /fail     fails the first time
 *   POST /hold     responds when the test releases it */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "http_toy.h"
#include "server/observe/observe_metrics.h"
#include "server/server_idempotency.h"
#include "server/server_internal.h"
#include "server/server_settings.h"
#include "support/tap.h"

static pal_server server;
static pal_config_values config;
static atomic_int runs; /* runs of handlers */
static pal_id marked;   /* the session of /mark */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pal_call *held;

/* ---- The API ---- */

static void created(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    char id[PAL_ID_TEXT_SIZE];
    for (size_t i = 0; i < ops_len && status == PAL_OK; i++) {
        status = ops[i].status;
        err = &ops[i].error;
    }
    if (status != PAL_OK) {
        pal_call_fail(call, status, err);
        return;
    }
    pal_id_to_text(ops[0].session, id);
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "id");
    pal_json_put_text(writer, id);
    pal_json_name(writer, "seq");
    pal_json_put_u64(writer, ops[1].u.append.messages[1].seq);
    pal_json_end_object(writer);
    pal_call_send(call, 201);
}

static pal_message *two_messages(pal_call *call)
{
    pal_message *messages = pal_arena_array(call->arena, 2, sizeof *messages);
    pal_part *parts = pal_arena_array(call->arena, 2, sizeof *parts);
    for (uint32_t i = 0; i < 2; i++) {
        char id[PAL_ID_TEXT_SIZE];
        pal_id_to_text(pal_call_derived_id(call, i + 1), id);
        parts[i].kind = PAL_PART_TEXT;
        parts[i].text = pal_str_of("hello");
        messages[i].role = PAL_ROLE_USER;
        messages[i].parts = &parts[i];
        messages[i].parts_len = 1;
        messages[i].client_id = pal_arena_copy(call->arena, pal_str_of(id));
    }
    return messages;
}

static pal_status create(pal_call *call, pal_error *err)
{
    pal_op *ops = pal_arena_array(call->arena, 2, sizeof *ops);
    pal_session *session = pal_arena_alloc(call->arena, sizeof *session);
    session->tenant = call->caller.tenant;
    ops[0] = (pal_op){.kind = PAL_OP_CREATE,
            .tenant = call->caller.tenant,
            .session = pal_call_derived_id(call, 0),
            .u.create = {.session = session}};
    ops[1] = (pal_op){.kind = PAL_OP_APPEND,
            .tenant = call->caller.tenant,
            .session = ops[0].session,
            .with_previous = true,
            .u.append = {.messages = two_messages(call),
                    .messages_len = 2,
                    .expected_seq = PAL_SEQ_ANY}};
    return pal_call_apply(call, ops, 2, created, err);
}

static void was_marked(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    (void)ops_len;
    if (status == PAL_OK) {
        status = ops[0].status;
        err = &ops[0].error;
    }
    if (status != PAL_OK) {
        pal_call_fail(call, status, err);
        return;
    }
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "number");
    pal_json_put_u64(writer, ops[0].u.mark->number);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
}

static pal_status mark(pal_call *call, pal_error *err)
{
    pal_op *op = pal_arena_alloc(call->arena, sizeof *op);
    pal_mark *body = pal_arena_alloc(call->arena, sizeof *body);
    *body = (pal_mark){.kind = PAL_MARK_REWIND, .seq = 1};
    *op = (pal_op){
            .kind = PAL_OP_MARK, .tenant = call->caller.tenant, .session = marked, .u.mark = body};
    return pal_call_apply(call, op, 1, was_marked, err);
}

static pal_status fail(pal_call *call, pal_error *err)
{
    if (atomic_load(&runs) == 1)
        return pal_error_set(err, PAL_IO, "the first time fails");
    pal_json_begin_object(pal_call_writer(call));
    pal_json_end_object(pal_call_writer(call));
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status hold(pal_call *call, pal_error *err)
{
    (void)err;
    pthread_mutex_lock(&lock);
    held = call;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return PAL_OK;
}

static pal_handler handler_of(pal_str path)
{
    if (pal_str_is(path, "/create"))
        return create;
    if (pal_str_is(path, "/mark"))
        return mark;
    return pal_str_is(path, "/fail") ? fail : hold;
}

static void handle(pal_exchange *x, void *user)
{
    pal_error err = {0};
    bool answered;
    pal_call *call = pal_call_begin(user, x);
    call->caller.tenant = pal_str_of("default");
    pal_status status = pal_idempotency_begin(call, &answered, &err);
    if (status == PAL_OK && answered)
        return;
    if (status == PAL_OK) {
        atomic_fetch_add(&runs, 1);
        status = handler_of(x->path)(call, &err);
    }
    if (status != PAL_OK)
        pal_call_fail(call, status, &err);
}

/* ---- The client ---- */

/* Returns the code. The body is copied to `out`, up to its size. */
static unsigned ask(const char *path, const char *key, const char *body, char out[512])
{
    char request[1024];
    client_answer answer;
    snprintf(request, sizeof request,
            "POST %s HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: %s\r\nContent-Length: "
            "%zu\r\n\r\n%s",
            path, key, strlen(body), body);
    if (!client_ask(pal_listener_port(server.listener), request, &answer))
        return 0;
    snprintf(out, 512, "%s%s", *client_header(&answer, "idempotent-replayed") ? "again " : "",
            answer.body);
    unsigned code = answer.code;
    client_answer_done(&answer);
    return code;
}

/* Simulates a crash between the commit and the response: the record exists without the response. */
static bool lose_answers(void)
{
    pal_record_page records;
    bool lost = false;
    pal_error err;
    pal_arena *arena = pal_arena_new(0);
    pal_record_query query = {.tenant = pal_str_of("default"),
            .kind = pal_str_of("idempotency"),
            .limit = PAL_RECORD_PAGE_MAX};
    if (pal_store_record_list(server.store, &query, arena, &records, &err) == PAL_OK) {
        for (size_t i = 0; i < records.len; i++) {
            pal_record record = records.items[i];
            const char *comma = memchr(record.body.data, ',', record.body.len);
            char body[256];
            snprintf(body, sizeof body, "%.*s}", (int)(comma - record.body.data), record.body.data);
            record.body = pal_str_of(body);
            lost = pal_store_record_put(server.store, query.tenant, &record, PAL_RECORD_VERSION_ANY,
                           &err) == PAL_OK;
        }
    }
    pal_arena_free(arena);
    return lost;
}

static uint64_t count_messages(void)
{
    pal_store_stats stats = {0};
    pal_arena *arena = pal_arena_new(0);
    pal_error err;
    if (pal_store_stat(server.store, arena, &stats, &err) != PAL_OK)
        stats.messages = UINT64_MAX;
    pal_arena_free(arena);
    return stats.messages;
}

/* ---- The tests ---- */

static bool open_server(void)
{
    pal_error err = {0};
    config = (pal_config_values){.server = toy_config()};
    config.server.idempotency_ms = 60000;
    server = (pal_server){.config = &config,
            .settings = pal_server_settings_new(&config),
            .metrics = pal_metrics_new(),
            .idempotency = pal_idempotency_new(),
            .version = "test"};
    pal_listener_options options = {.config = &config.server,
            .handle = handle,
            .refuse = pal_server_refuse,
            .ended = pal_server_ended,
            .user = &server};
    pal_listener *listener = NULL;
    bool is_open = pal_store_open("memory:", NULL, &server.store, &err) == PAL_OK &&
            pal_listener_open(&options, &listener, &err) == PAL_OK;
    atomic_store(&server.listener, listener);
    return is_open;
}

static void begin(void)
{
    atomic_store(&runs, 0);
    if (!open_server())
        exit(1);
}

static void end(void)
{
    pal_listener_close(server.listener);
    pal_store_close(server.store);
    pal_idempotency_free(server.idempotency);
    pal_metrics_free(server.metrics);
    pal_server_settings_free(server.settings);
}

static void a_repeat_gets_the_first_answer(void)
{
    char first[512], again[512];
    begin();
    CHECK_EQ(ask("/create", "k1", "{}", first), 201);
    CHECK_EQ(ask("/create", "k1", "{}", again), 201);
    CHECK_BEGINS(again, "again ");
    CHECK_STR(again + 6, first);
    CHECK_EQ(atomic_load(&runs), 1);
    CHECK_EQ(count_messages(), 2);
    CHECK_EQ(ask("/create", "k2", "{}", again), 201);
    CHECK_DIFFER(again, first);
    CHECK_EQ(count_messages(), 4);
    end();
}

static void another_request_under_the_key_is_refused(void)
{
    char text[512];
    begin();
    CHECK_EQ(ask("/create", "k", "{}", text), 201);
    CHECK_EQ(ask("/create", "k", "{\"a\":1}", text), 422);
    CHECK_CONTAINS(text, "idempotency_key_reused");
    CHECK_EQ(ask("/fail", "k", "{}", text), 422);
    CHECK_EQ(count_messages(), 2);
    end();
}

static void a_failure_is_tried_again(void)
{
    char text[512];
    begin();
    CHECK_EQ(ask("/fail", "k", "{}", text), 500);
    CHECK_EQ(ask("/fail", "k", "{}", text), 200);
    CHECK_STR(text, "{}\n");
    CHECK_EQ(ask("/fail", "k", "{}", text), 200);
    CHECK_BEGINS(text, "again ");
    CHECK_EQ(atomic_load(&runs), 2);
    end();
}

static void creates_and_appends_are_found_after_a_crash(void)
{
    char first[512], again[512];
    begin();
    CHECK_EQ(ask("/create", "k", "{}", first), 201);
    CHECK(lose_answers());
    CHECK_EQ(ask("/create", "k", "{}", again), 201);
    CHECK_STR(again, first);
    CHECK_EQ(atomic_load(&runs), 2);
    CHECK_EQ(count_messages(), 2);
    CHECK_EQ(ask("/create", "k", "{}", again), 201);
    CHECK_BEGINS(again, "again ");
    CHECK_STR(again + 6, first);
    end();
}

static void work_that_cannot_be_found_again_is_not_repeated(void)
{
    char text[512], id[64];
    pal_mark *marks;
    size_t marks_len = 0;
    pal_error err;
    pal_arena *arena = pal_arena_new(0);
    begin();
    CHECK_EQ(ask("/create", "k0", "{}", text), 201);
    CHECK_EQ(sscanf(text, "{\"id\":\"%36s", id), 1);
    CHECK(pal_id_from_text(pal_str_of(id), &marked));
    CHECK_EQ(ask("/mark", "k", "{}", text), 200);
    CHECK(lose_answers());
    CHECK_EQ(ask("/mark", "k", "{}", text), 409);
    CHECK_CONTAINS(text, "answer_lost");
    CHECK_EQ(ask("/mark", "k", "{}", text), 409);
    CHECK_CONTAINS(text, "answer_lost");
    CHECK_STATUS(pal_store_marks(server.store, pal_str_of("default"), marked, arena, &marks,
                         &marks_len, &err),
            PAL_OK, &err);
    CHECK_EQ(marks_len, 1);
    pal_arena_free(arena);
    end();
}

static void *ask_hold(void *user)
{
    char *text = user;
    CHECK_EQ(ask("/hold", "k", "{}", text), 200);
    return NULL;
}

static void a_running_request_blocks_its_repetition(void)
{
    char text[512], first[512];
    pthread_t thread;
    begin();
    pthread_create(&thread, NULL, ask_hold, first);
    pthread_mutex_lock(&lock);
    while (!held)
        pthread_cond_wait(&changed, &lock);
    pal_call *call = held;
    held = NULL;
    pthread_mutex_unlock(&lock);
    CHECK_EQ(ask("/hold", "k", "{}", text), 409);
    CHECK_CONTAINS(text, "request_in_progress");
    CHECK_EQ(ask("/hold", "k", "{\"b\":2}", text), 422);
    pal_json_begin_object(pal_call_writer(call));
    pal_json_end_object(pal_call_writer(call));
    pal_call_send(call, 200);
    pthread_join(thread, NULL);
    CHECK_EQ(ask("/hold", "k", "{}", text), 200);
    CHECK_STR(text, "again {}\n");
    end();
}

static void keys_have_a_bound(void)
{
    char key[PAL_SERVER_IDEMPOTENCY_KEY_LEN_MAX + 2], text[512];
    begin();
    memset(key, 'k', sizeof key);
    key[PAL_SERVER_IDEMPOTENCY_KEY_LEN_MAX + 1] = 0;
    CHECK_EQ(ask("/create", key, "{}", text), 400);
    CHECK_CONTAINS(text, "Idempotency-Key");
    key[PAL_SERVER_IDEMPOTENCY_KEY_LEN_MAX] = 0;
    CHECK_EQ(ask("/create", key, "{}", text), 201);
    end();
}

int main(void)
{
    RUN(a_repeat_gets_the_first_answer);
    RUN(another_request_under_the_key_is_refused);
    RUN(a_failure_is_tried_again);
    RUN(creates_and_appends_are_found_after_a_crash);
    RUN(work_that_cannot_be_found_again_is_not_repeated);
    RUN(a_running_request_blocks_its_repetition);
    RUN(keys_have_a_bound);
    return tap_done();
}
