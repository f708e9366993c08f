/* runtime.c - opens and closes a runtime, and keeps its turns in memory.
 *
 * A runtime opens, runs, drains and closes. While it drains, it refuses new turns and hands waiting
 * turns over to other processes through the store. It waits for running turns up to the time limit.
 * Then it also hands these over, or stops those that no other process can continue. The 1000 turns
 * that ended last stay in memory for late readers.
 *
 * Threads: the public functions can be called from any thread. They run their work on the loop
 * through pal_ask_loop() and wait for it. A crash loses only the objects in memory: waiting and
 * unfinished turns are stored in inboxes. */
#include "turn/runtime/runtime.h"

#include <stdio.h>

#include "base/json/json.h"
#include "base/memory.h"
#include "base/sum.h"
#include "base/text.h"
#include "turn/runtime/runtime_copy.h"
#include "turn/turn_event.h"
#include "turn/lane/lane.h"
#include "turn/turn.h"
#include "turn/runtime/runtime_memory.h"
#include "turn/runtime/runtime_ask.h"
#include "turn/lane/lane_backlog.h"
#include "turn/runtime/runtime_forward.h"
#include "turn/runtime/runtime_models.h"
#include "turn/turn_outbox.h"
#include "turn/turn_toolset.h"
#include "turn/runtime/runtime_owner.h"
#include "turn/recovery/recovery_owed.h"
#include "turn/runtime/runtime_servers.h"

enum { ENDED_MAX = 1000, HAND_OVER_MS = 1000 };

/* ---- Turns in memory ---- */

static void free_turn(pal_turn *turn)
{
    pal_budget_release(atomic_load(&turn->step.held));
    pal_event_done(turn);
    pal_answer_clear(&turn->step.answer);
    pal_tools_done(turn);
    pal_buf_done(&turn->summary.text);
    pal_arena_free(turn->summary.arena);
    pal_arena_free(turn->step.arena);
    pal_arena_free(turn->outcome.arena);
    pal_arena_free(turn->arena);
    pal_free(turn->step.sent_hashes);
    pal_free(turn->commit.ops);
    pal_free(turn);
}

static pal_str known_key(const pal_turn_request *request, pal_arena *arena)
{
    pal_str client_id = request->messages_len ? request->messages[0].client_id : (pal_str){0};
    pal_str tenant = request->tenant;
    size_t len = sizeof(pal_id) + 1 + tenant.len + client_id.len;
    char *key = client_id.len ? pal_arena_alloc(arena, len) : NULL;

    if (!key)
        return (pal_str){0};
    memcpy(key, request->session.bytes, sizeof(pal_id));
    memcpy(key + sizeof(pal_id), client_id.data, client_id.len);
    /* a byte that neither the client id nor the tenant contains */
    key[sizeof(pal_id) + client_id.len] = 0;
    memcpy(key + len - tenant.len, tenant.data, tenant.len);
    return pal_str_make(key, len);
}

pal_str pal_runtime_turn_client_id(const pal_turn *turn)
{
    const pal_message *sent = turn->as_sent ? turn->as_sent : turn->request.messages;

    return turn->request.messages_len > 0 ? sent[0].client_id : turn->found.client_id;
}

void pal_runtime_client_id_add(pal_turn *turn)
{
    pal_message message = {.client_id = pal_runtime_turn_client_id(turn)};
    pal_turn_request request = {.tenant = turn->request.tenant,
            .session = turn->request.session,
            .messages = &message,
            .messages_len = 1};
    pal_str key = known_key(&request, turn->arena);

    /* If there is no memory for the key, the store still recognizes a repeated request. */
    if (key.len > 0 && pal_map_set(&turn->runtime->known, key, turn) == PAL_OK)
        turn->known_key = key;
}

pal_turn *pal_runtime_client_id_find(pal_runtime *runtime, const pal_turn_request *request,
        pal_arena *arena)
{
    pal_str key = known_key(request, arena);
    pal_turn *turn = key.len ? pal_map_find(&runtime->known, key) : NULL;

    return turn && pal_str_equal(turn->request.tenant, request->tenant) ? turn : NULL;
}

void pal_runtime_client_id_remove(pal_turn *turn)
{
    pal_map *known = &turn->runtime->known;

    if (turn->known_key.len > 0 && pal_map_find(known, turn->known_key) == turn)
        pal_map_remove(known, turn->known_key);
    turn->known_key = (pal_str){0};
}

static void forget(pal_runtime *runtime, pal_turn *turn)
{
    pal_str id = pal_str_make((const char *)turn->id.bytes, sizeof(turn->id.bytes));

    pal_runtime_client_id_remove(turn);
    if (pal_map_find(&runtime->turns, id) == turn)
        pal_map_remove(&runtime->turns, id); /* otherwise another turn now has this id */
    free_turn(turn);
}

/* Frees the oldest ended turns first. A turn with work in flight is skipped until a later call. */
static void forget_oldest(pal_runtime *runtime, size_t keep)
{
    pal_turn **at = &runtime->ended_first;

    while (*at && runtime->ended_len > keep) {
        pal_turn *turn = *at;

        if (turn->holds > 0) {
            at = &turn->next;
            continue;
        }
        *at = turn->next;
        if (!*at)
            runtime->ended_last = at;
        runtime->ended_len--;
        forget(runtime, turn);
    }
}

/* Frees what only a running turn needs. */
static void slim(pal_turn *turn)
{
    if (turn->holds > 0)
        return;
    pal_tools_done(turn);
    pal_answer_clear(&turn->step.answer);
    pal_arena_free(turn->step.arena);
    turn->step.arena = NULL;
    turn->step.messages = NULL;
    pal_free(turn->commit.ops);
    turn->commit.ops = NULL;
    turn->commit.write.ops_len = 0;
}

void pal_runtime_ended(pal_turn *turn, bool has_run)
{
    pal_runtime *runtime = turn->runtime;

    runtime->turns_len--;
    pal_owner_leave(runtime, &turn->request.budget);
    slim(turn);
    turn->next = NULL;
    *runtime->ended_last = turn;
    runtime->ended_last = &turn->next;
    runtime->ended_len++;
    pthread_mutex_lock(&runtime->lock);
    runtime->stats.turns_ended += has_run;
    runtime->stats.turns_failed += has_run && turn->state == PAL_TURN_FAILED;
    pthread_cond_broadcast(&runtime->changed);
    pthread_mutex_unlock(&runtime->lock);
    forget_oldest(runtime, ENDED_MAX);
}

/* ---- Starting a turn ---- */

/* Only an endpoint named by the request is checked here. One that comes from a session or an agent
 * is looked up when the turn runs. */
static pal_status check_endpoint(const pal_runtime *runtime, pal_str name, pal_error *err)
{
    size_t unused;

    if (name.len == 0 || pal_turn_settings_endpoint(&runtime->options, name, &unused))
        return PAL_OK;
    return pal_error_set(err, PAL_NOT_FOUND, "unknown endpoint '%.*s'", PAL_EXCERPT(name, 80));
}

static pal_status check_opening(const pal_turn_request *request, pal_error *err)
{
    if (request->create_ops_len > PAL_TURN_CREATE_OPS_MAX)
        return pal_error_set(err, PAL_LIMIT, "'create_ops' has more than %u operations",
                PAL_TURN_CREATE_OPS_MAX);
    if (request->create_ops_len > 0 &&
            (request->create_ops[0].kind != PAL_OP_CREATE || pal_id_is_none(request->session)))
        return pal_error_set(err, PAL_INVALID,
                "'create_ops' must begin with a create, and requires a session id");
    return PAL_OK;
}

static pal_status check_request(pal_runtime *runtime, pal_arena *arena,
        const pal_turn_request *request, pal_error *err)
{
    pal_status status = check_endpoint(runtime, request->endpoint, err);

    if (status != PAL_OK)
        return status;
    status = pal_turn_settings_check_agent(&runtime->options, request->agent, err);
    if (status != PAL_OK)
        return status;
    status = check_opening(request, err);
    if (status != PAL_OK)
        return status;
    status = pal_outbox_check(request, arena, err);
    if (status != PAL_OK)
        return status;
    if (request->answers_len > 0 && !request->on_done && request->lane != PAL_TURN_LANE_REJECT)
        return pal_error_set(err, PAL_INVALID,
                "a request with answers cannot wait in the inbox; use lane=reject");
    return pal_toolset_check(request, arena, err);
}

/* The two bytes are random in other ids. 26 bits that count and 32 random bits are left. */
enum { SLOT_AT = 10 };

pal_id pal_runtime_turn_id(uint16_t slot)
{
    pal_id id = pal_id_new();

    id.bytes[SLOT_AT] = (uint8_t)(slot >> 8);
    id.bytes[SLOT_AT + 1] = (uint8_t)slot;
    return id;
}

pal_str pal_runtime_name(const pal_runtime *runtime)
{
    return pal_str_of(runtime->owner);
}

void pal_runtime_set_slot(pal_runtime *runtime, uint16_t slot)
{
    atomic_store(&runtime->slot, slot);
}

uint16_t pal_turn_slot(pal_id turn)
{
    return (uint16_t)(turn.bytes[SLOT_AT] << 8 | turn.bytes[SLOT_AT + 1]);
}

pal_turn *pal_runtime_turn_new(
        pal_runtime *runtime, pal_arena *arena, const pal_turn_request *request, pal_error *err)
{
    pal_turn *turn;

    if (check_request(runtime, arena, request, err) != PAL_OK)
        return NULL;
    turn = pal_calloc(1, sizeof(*turn));
    if (!turn) {
        pal_no_memory(err);
        return NULL;
    }
    turn->runtime = runtime;
    turn->arena = arena;
    turn->request = *request;
    turn->id = turn->owed.turn = turn->info.turn = pal_runtime_turn_id(atomic_load(&runtime->slot));
    pal_id_to_text(turn->id, turn->id_text);
    pal_owed_name_first(turn);
    turn->info.session = request->session;
    pal_buf_init(&turn->summary.text, PAL_MESSAGE_BYTES_MAX);
    turn->lane = pal_lane_of(runtime, request->tenant, request->session);
    if (!turn->lane ||
            pal_map_set(&runtime->turns,
                    pal_str_make((const char *)turn->id.bytes, sizeof(turn->id.bytes)),
                    turn) != PAL_OK) {
        pal_no_memory(err);
        turn->arena = NULL; /* the caller keeps it */
        free_turn(turn);
        return NULL;
    }
    runtime->turns_len++;
    pal_owner_enter(runtime, &turn->request.budget);
    return turn;
}

void pal_runtime_turn_rename(pal_turn *turn, pal_id id)
{
    pal_map *turns = &turn->runtime->turns;
    pal_str key = pal_str_make((const char *)turn->id.bytes, sizeof(turn->id.bytes));

    turn->owed.turn = id;
    if (pal_id_equal(turn->id, id))
        return;
    if (pal_map_find(turns, key) == turn)
        pal_map_remove(turns, key);
    turn->id = turn->info.turn = id;
    pal_id_to_text(id, turn->id_text);
    /* an ended turn with the same id: the map's key belongs to that turn */
    pal_map_remove(turns, key);
    if (pal_map_set(turns, key, turn) != PAL_OK)
        return; /* if there is no memory, the turn can only be found in the store */
}

/* ---- Totals ---- */

void pal_runtime_sum_usage(pal_usage *sum, const pal_usage *usage)
{
    pal_sum_u64(&sum->input, usage->input);
    pal_sum_u64(&sum->cache_read, usage->cache_read);
    pal_sum_u64(&sum->cache_write, usage->cache_write);
    pal_sum_u64(&sum->output, usage->output);
    pal_sum_u64(&sum->reasoning, usage->reasoning);
}

void pal_runtime_add_usage(pal_runtime *runtime, const pal_usage *usage, int64_t cost_micros)
{
    pthread_mutex_lock(&runtime->lock);
    pal_runtime_sum_usage(&runtime->stats.usage, usage);
    pal_sum_i64(&runtime->stats.cost_micros, cost_micros);
    pthread_mutex_unlock(&runtime->lock);
}

void pal_runtime_report_call(const pal_runtime *runtime, const pal_model_report *report)
{
    if (runtime->options.on_model_call)
        runtime->options.on_model_call(report, runtime->options.model_call_user);
}

/* ---- Opening and closing ---- */

static pal_status open_providers(pal_runtime *runtime, pal_error *err)
{
    const pal_runtime_options *options = &runtime->options;
    pal_status status = PAL_OK;

    runtime->providers =
            pal_arena_array(runtime->arena, options->endpoints_len, sizeof(*runtime->providers));
    runtime->provider_models = pal_arena_array(
            runtime->arena, options->endpoints_len, sizeof(*runtime->provider_models));
    runtime->model_questions = pal_arena_array(
            runtime->arena, options->endpoints_len, sizeof(*runtime->model_questions));
    if (!runtime->providers || !runtime->provider_models || !runtime->model_questions)
        return pal_no_memory(err);
    for (size_t i = 0; status == PAL_OK && i < options->endpoints_len; i++) {
        const pal_endpoint *endpoint = &options->endpoints[i];
        pal_provider_config config = {
                .name = endpoint->name,
                .kind = endpoint->kind,
                .url = endpoint->url,
                .api_key = endpoint->api_key,
                .headers = endpoint->headers,
                .headers_len = endpoint->headers_len,
                .path = endpoint->path,
                .affinity = endpoint->affinity,
                .affinity_headers = endpoint->affinity_headers,
                .affinity_headers_len = endpoint->affinity_headers_len,
                .responses = endpoint->responses,
        };

        status = pal_provider_open(
                runtime->http, runtime->loop, &config, &runtime->providers[i], err);
        runtime->provider_models[i] = endpoint->model;
        runtime->providers_len += status == PAL_OK;
    }
    return status;
}

typedef struct loop_task {
    pal_ask ask;
    pal_runtime *runtime;
    uint32_t calls_max;
    pal_status status;
    pal_error *err;
} loop_task;

static void open_http(pal_ask *ask)
{
    loop_task *o = (loop_task *)ask;

    pal_http_options options = {.calls_max = o->calls_max};

    o->status = pal_http_open(o->runtime->loop, &options, &o->runtime->http, o->err);
}

static void open_on_loop(pal_ask *ask)
{
    loop_task *o = (loop_task *)ask;

    o->status = open_providers(o->runtime, o->err);
    if (o->status == PAL_OK)
        o->status = pal_servers_open(o->runtime, o->err);
    if (o->status == PAL_OK && !o->runtime->options.leave_inbox)
        pal_backlog_start(o->runtime);
    if (o->status == PAL_OK)
        pal_memory_start(o->runtime);
}

/* Waiting requests stay in the inbox for the next start. */
static void free_waiting(pal_runtime *runtime)
{
    size_t position = 0;
    pal_str key;
    void *value;

    while (pal_map_next(&runtime->lanes, &position, &key, &value))
        pal_lane_empty(value);
}

static void close_on_loop(pal_ask *ask)
{
    pal_runtime *runtime = ((loop_task *)ask)->runtime;

    pal_backlog_stop(runtime);
    pal_memory_stop(runtime);
    free_waiting(runtime);
    forget_oldest(runtime, 0);
    pal_servers_close(runtime);
    for (size_t i = 0; i < runtime->providers_len; i++)
        pal_provider_close(runtime->providers[i]);
    pal_models_done(runtime);
    pal_http_close(runtime->http);
}

static void free_runtime(pal_runtime *runtime)
{
    pal_loop_close(runtime->loop);
    pal_memory_done(runtime);
    pal_lanes_done(runtime);
    pal_dispatch_done(&runtime->dispatch);
    pal_map_done(&runtime->turns);
    pal_map_done(&runtime->known);
    pal_map_done(&runtime->owners);
    pal_toolset_done(runtime);
    pal_budget_book_done(&runtime->budgets);
    pthread_cond_destroy(&runtime->changed);
    pthread_mutex_destroy(&runtime->lock);
    pal_arena_free(runtime->arena);
    pal_free(runtime);
}

static void set_owner(pal_runtime *runtime)
{
    char process[PAL_PROCESS_NAME_SIZE], id[PAL_ID_TEXT_SIZE];

    pal_process_name(process);
    pal_id_to_text(pal_id_new(), id);
    snprintf(runtime->owner, sizeof(runtime->owner), "%s:%s", process, id);
}

/* Opens the loop, and discovers endpoints if none are configured. */
static pal_status open_endpoints(
        pal_runtime *runtime, const pal_runtime_options *options, pal_error *err)
{
    loop_task o = {.ask.run = open_http,
            .runtime = runtime,
            .calls_max = options->calls_max,
            .err = err};
    pal_runtime_options given = *options;
    pal_status status = pal_loop_open(PAL_RUNTIME_WORKERS, &runtime->loop, err);

    if (status == PAL_OK) {
        pal_ask_loop(runtime->loop, &o.ask);
        status = o.status;
    }
    if (status == PAL_OK && given.endpoints_len == 0)
        status = pal_discover_endpoints(runtime, &given, err);
    if (status != PAL_OK)
        return status;
    runtime->options = pal_copy_options(runtime->arena, &given);
    if (pal_arena_failure(runtime->arena) != PAL_OK)
        return pal_no_memory(err);
    return pal_turn_settings_check(&runtime->options, err);
}

pal_status pal_runtime_open(
        const pal_runtime_options *options, pal_runtime **out_runtime, pal_error *err)
{
    pal_runtime *runtime = pal_calloc(1, sizeof(*runtime));
    loop_task o = {.ask.run = open_on_loop, .runtime = runtime, .err = err};

    if (!runtime)
        return pal_no_memory(err);
    pthread_mutex_init(&runtime->lock, NULL);
    pal_dispatch_init(&runtime->dispatch);
    pthread_cond_init(&runtime->changed, NULL);
    pal_map_init(&runtime->lanes);
    pal_map_init(&runtime->turns);
    pal_map_init(&runtime->known);
    pal_map_init(&runtime->tool_counts);
    runtime->writes_last = &runtime->writes_first;
    pal_budget_book_init(&runtime->budgets);
    runtime->ended_last = &runtime->ended_first;
    runtime->store = options->store;
    runtime->arena = pal_arena_new(0);
    set_owner(runtime);
    o.status = runtime->arena ? PAL_OK : pal_no_memory(err);
    if (o.status == PAL_OK)
        o.status = open_endpoints(runtime, options, err);
    if (o.status == PAL_OK)
        pal_ask_loop(runtime->loop, &o.ask);
    if (o.status == PAL_OK) {
        *out_runtime = runtime;
        return PAL_OK;
    }
    if (runtime->loop) {
        o.ask = (pal_ask){.run = close_on_loop};
        pal_ask_loop(runtime->loop, &o.ask);
    }
    free_runtime(runtime);
    return o.status;
}

static void stop_all(pal_ask *ask)
{
    pal_runtime *runtime = ((loop_task *)ask)->runtime;
    size_t position = 0;
    pal_str key;
    void *value;

    while (pal_map_next(&runtime->turns, &position, &key, &value)) {
        pal_turn *turn = value;

        if (turn->phase != PAL_TURN_PHASE_ENDED && turn->state != PAL_TURN_QUEUED)
            pal_turn_hand_over(turn);
    }
    pal_forwards_stop(runtime);
}

static void refuse_new(pal_ask *ask)
{
    pal_runtime *runtime = ((loop_task *)ask)->runtime;
    size_t position = 0;
    pal_str key;
    void *value;

    runtime->is_closing = true;
    pal_backlog_stop(runtime);
    pal_memory_stop(runtime);
    while (pal_map_next(&runtime->lanes, &position, &key, &value))
        pal_lane_hand_over(value);
}

/* Which turns wait_idle() waits for: running turns without paused ones, all running turns, or
 * queued turns that another process may run. A paused turn can wait for its client without
 * limit. */
typedef enum idle_kind { WITHOUT_WAITING, WITH_WAITING, WITH_QUEUED } idle_kind;

static bool is_idle(const pal_runtime *runtime, idle_kind what)
{
    uint64_t left_out = what == WITHOUT_WAITING ? runtime->stats.turns_waiting : 0;

    if (what == WITH_QUEUED)
        return runtime->stats.turns_queued == 0;
    return runtime->stats.turns_running <= left_out && runtime->forwards_len == 0;
}

static void wait_idle(pal_runtime *runtime, idle_kind what, int64_t timeout_ms)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&runtime->lock);
    while (!is_idle(runtime, what) &&
            pthread_cond_timedwait(&runtime->changed, &runtime->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&runtime->lock);
}

static void leave_waiting(pal_ask *ask)
{
    free_waiting(((loop_task *)ask)->runtime);
}

void pal_runtime_drain(pal_runtime *runtime, int64_t drain_ms)
{
    loop_task o = {.ask.run = refuse_new, .runtime = runtime};

    pal_ask_loop(runtime->loop, &o.ask);
    wait_idle(runtime, WITHOUT_WAITING, drain_ms);
    o.ask = (pal_ask){.run = stop_all};
    pal_ask_loop(runtime->loop, &o.ask);
    wait_idle(runtime, WITH_WAITING, 10000);
    wait_idle(runtime, WITH_QUEUED, drain_ms < HAND_OVER_MS ? drain_ms : HAND_OVER_MS);
    /* Callers that wait for these turns are notified that this process does not run them any
     * more. */
    o.ask = (pal_ask){.run = leave_waiting};
    pal_ask_loop(runtime->loop, &o.ask);
}

void pal_runtime_close(pal_runtime *runtime, int64_t drain_ms)
{
    loop_task o = {.ask.run = close_on_loop, .runtime = runtime};

    if (!runtime)
        return;
    pal_runtime_drain(runtime, drain_ms);
    pal_ask_loop(runtime->loop, &o.ask);
    free_runtime(runtime);
}

void pal_runtime_stat(pal_runtime *runtime, pal_runtime_stats *out_stats)
{
    pthread_mutex_lock(&runtime->lock);
    *out_stats = runtime->stats;
    pthread_mutex_unlock(&runtime->lock);
}

pal_str pal_runtime_key_variable(const pal_runtime *runtime, pal_str endpoint)
{
    size_t at;

    if (!pal_turn_settings_endpoint(&runtime->options, endpoint, &at))
        return (pal_str){0};
    return runtime->options.endpoints[at].api_key_env;
}

typedef struct model_question {
    pal_ask ask;
    const pal_runtime *runtime;
    pal_arena *arena;
    pal_str *out_model;
} model_question;

static void look_on_loop(pal_ask *ask)
{
    const model_question *l = (const model_question *)ask;

    *l->out_model = pal_arena_copy(l->arena, l->runtime->provider_models[0]);
}

pal_status pal_runtime_default(pal_runtime *runtime, pal_arena *arena, pal_str *out_endpoint,
        pal_str *out_model, bool *out_is_stopgap, pal_error *err)
{
    model_question l = {
            .ask.run = look_on_loop, .runtime = runtime, .arena = arena, .out_model = out_model};

    pal_ask_loop(runtime->loop, &l.ask);
    *out_endpoint = pal_arena_copy(arena, pal_provider_name(runtime->providers[0]));
    if (out_is_stopgap)
        *out_is_stopgap = runtime->is_stopgap;
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_no_memory(err);
    return PAL_OK;
}
