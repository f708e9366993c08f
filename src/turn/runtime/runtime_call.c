/* runtime_call.c - the public functions for other threads. Each call is carried out on the loop.
 * The calling thread waits for the result, except in pal_turn_start_async(). If a turn is not in
 * this process, the store is read on the calling thread. */
#include "turn/lane/lane.h"
#include "turn/lane/lane_join.h"
#include "turn/lane/lane_park.h"
#include "turn/permission/permission_question.h"
#include "turn/recovery/recovery_outcome.h"
#include "turn/runtime/runtime_ask.h"
#include "turn/runtime/runtime_copy.h"
#include "turn/turn.h"
#include "turn/turn_event.h"

#include "base/memory.h"
#include "store/store_tenant.h"

/* ---- Names ---- */

const char *pal_turn_state_name(pal_turn_state state)
{
    static const char *const names[] = {"none", "queued", "running", "retrying", "paused", "asking",
            "done", "failed", "canceled"};

    return (size_t)state < sizeof(names) / sizeof(names[0]) ? names[state] : "none";
}

const char *pal_event_kind_name(pal_event_kind kind)
{
    static const char *const names[] = {"none", "started", "step", "text", "reasoning", "call",
            "arguments", "message", "tool_started", "tool_ended", "retrying", "compacted",
            "steered", "paused", "asking", "ended", "tools_missing", "item", "progress"};

    return (size_t)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "none";
}

/* ---- Starting ---- */

typedef struct start {
    pal_task task;
    pal_runtime *runtime;
    pal_compact_wait *compact; /* NULL: an ordinary turn */
    pal_turn_answers answers;
    pal_arena *arena;
    pal_turn_request request;
    pal_turn_on_start on_start;
    void *user;
} start;

/* Returns the turn that acts: a merged turn is run by its leader. */
static pal_turn *acting(pal_turn *turn)
{
    return turn && turn->queue.leader ? turn->queue.leader : turn;
}

void pal_runtime_turn_info(pal_turn *turn, pal_turn_info *out_info)
{
    *out_info = acting(turn)->info;
    if (turn->queue.leader)
        out_info->turn = turn->id;
    out_info->events = turn->events.newest;
}

/* Returns true if the same request came before. The caller is then given that turn. */
static bool tell_known(start *s)
{
    pal_turn *known = pal_runtime_client_id_find(s->runtime, &s->request, s->arena);
    pal_turn_info info;

    /* A failed turn is tried again. If the messages differ, the store reports that. */
    if (!known || (known->phase == PAL_TURN_PHASE_ENDED && known->state == PAL_TURN_FAILED) ||
            !pal_join_says(known, &s->request, s->arena))
        return false;
    pal_runtime_turn_info(known, &info);
    info.replayed = true;
    s->on_start(&info, NULL, s->user);
    pal_arena_free(s->arena);
    pal_free(s);
    return true;
}

static void start_on_loop(pal_task *task)
{
    start *s = (start *)((char *)task - offsetof(start, task));
    pal_runtime *runtime = s->runtime;
    pal_error err = {0};
    pal_turn *turn = NULL;

    if (tell_known(s))
        return;
    if (runtime->is_closing)
        pal_error_set(&err, PAL_CANCELED, "the runtime is being closed");
    else if (runtime->turns_len >= runtime->options.turns_max)
        pal_error_set(&err, PAL_OVERLOADED, "%zu turns run or wait already; retry later",
                runtime->turns_len);
    else
        turn = pal_runtime_turn_new(runtime, s->arena, &s->request, &err);
    if (!turn) {
        if (s->on_start)
            s->on_start(NULL, &err, s->user);
        if (s->compact)
            pal_summary_refuse(s->compact, &err);
        pal_arena_free(s->arena);
        pal_free(s);
        return;
    }
    turn->on_start = s->on_start;
    turn->on_start_user = s->user;
    turn->summary.wait = s->compact;
    turn->answers = s->answers;
    pal_free(s);
    pal_lane_enter(turn);
}

static pal_status post_start(pal_runtime *runtime, const pal_turn_request *request,
        pal_turn_on_start on_start, void *user, pal_compact_wait *compact, pal_turn_answers answers,
        pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    start *s = pal_calloc(1, sizeof(*s));

    if (s && arena) {
        s->compact = compact;
        s->answers = (pal_turn_answers){
                pal_copy_answers(arena, answers.items, answers.len), answers.len};
        s->runtime = runtime;
        s->arena = arena;
        s->request = pal_copy_request(arena, request);
        s->request.tenant = pal_tenant_or_default(s->request.tenant);
        s->on_start = on_start;
        s->user = user;
        s->task.run = start_on_loop;
    }
    if (!s || !arena || pal_arena_failure(arena) != PAL_OK) {
        pal_arena_free(arena);
        pal_free(s);
        return pal_no_memory(err);
    }
    pal_loop_post(runtime->loop, &s->task);
    return PAL_OK;
}

pal_status pal_turn_start_async(pal_runtime *runtime, const pal_turn_request *request,
        pal_turn_on_start on_start, void *user, pal_error *err)
{
    return post_start(runtime, request, on_start, user, NULL, (pal_turn_answers){0}, err);
}

pal_status pal_turn_compact(pal_runtime *runtime, pal_str tenant, pal_id session,
        const pal_compaction_request *compaction, pal_arena *arena,
        pal_compaction_result *out_compacted, pal_error *err)
{
    pal_turn_request request = {.tenant = tenant, .session = session};
    pal_compaction_result compacted = {0};
    pal_compact_wait wait = {
            .compaction = compaction, .arena = arena, .out_compacted = &compacted, .err = err};
    pal_status status;

    if (compaction->budget && compaction->summary.len == 0)
        request.budget = *compaction->budget;
    pal_ask_begin(&wait.ask);
    status = post_start(runtime, &request, NULL, NULL, &wait, (pal_turn_answers){0}, err);
    if (status != PAL_OK)
        return status;
    pal_ask_wait(&wait.ask);
    if (wait.status == PAL_OK)
        *out_compacted = compacted;
    return wait.status;
}

typedef struct start_call {
    pal_ask ask;
    pal_turn_info info;
    pal_error err;
    bool is_started;
} start_call;

static void started_here(const pal_turn_info *info, const pal_error *err, void *user)
{
    start_call *s = user;

    s->is_started = info != NULL;
    if (info)
        s->info = *info;
    else
        s->err = *err;
    pal_ask_end(&s->ask);
}

static pal_status start_and_wait(pal_runtime *runtime, const pal_turn_request *request,
        pal_turn_answers answers, pal_turn_info *out_info, pal_error *err)
{
    start_call s = {.is_started = false};
    pal_status status;

    pal_ask_begin(&s.ask);
    status = post_start(runtime, request, started_here, &s, NULL, answers, err);
    if (status != PAL_OK)
        return status;
    pal_ask_wait(&s.ask);
    if (!s.is_started)
        return pal_error_set(err, s.err.status, "%s", s.err.message);
    *out_info = s.info;
    return PAL_OK;
}

pal_status pal_turn_start(pal_runtime *runtime, const pal_turn_request *request,
        pal_turn_info *out_info, pal_error *err)
{
    return start_and_wait(runtime, request, (pal_turn_answers){0}, out_info, err);
}

/* ---- Reading and controlling turns ---- */

typedef struct question {
    pal_ask ask;
    pal_runtime *runtime;
    pal_str tenant;
    pal_id turn, session;
    pal_turn_info *out_info;
    const pal_message *messages;
    size_t messages_len;
    uint64_t after;
    pal_turn_on_event on_event;
    void (*on_close)(void *user);
    void *user;
    pal_turn_answers answers;
    bool is_elsewhere; /* the store may have a newer state than this process */
    bool is_parked;
    pal_arena *arena;
    pal_str *out_text;
    pal_turn_waits *out_waits;
    pal_error *err;
    pal_status status;
} question;

static pal_turn *find_turn(question *q)
{
    pal_turn *turn = pal_map_find(
            &q->runtime->turns, pal_str_make((const char *)q->turn.bytes, sizeof(q->turn.bytes)));

    if (turn && pal_str_equal(turn->request.tenant, pal_tenant_or_default(q->tenant)))
        return turn;
    q->status = pal_error_set(q->err, PAL_NOT_FOUND, PAL_TURN_UNKNOWN_TEXT);
    return NULL;
}

static pal_status ask(pal_runtime *runtime, question *q, void (*run)(pal_ask *ask))
{
    q->runtime = runtime;
    q->ask.run = run;
    pal_ask_loop(runtime->loop, &q->ask);
    return q->status;
}

static void watch_on_loop(pal_ask *asked)
{
    question *q = (question *)asked;
    pal_turn *turn = find_turn(q);

    if (turn)
        q->status = pal_event_watch(turn, q->after, q->on_event, q->on_close, q->user, q->err);
}

pal_status pal_turn_watch(pal_runtime *runtime, pal_str tenant, pal_id turn, uint64_t after,
        pal_turn_on_event on_event, void (*on_close)(void *user), void *user, pal_error *err)
{
    question q = {.tenant = tenant,
            .turn = turn,
            .after = after,
            .on_event = on_event,
            .on_close = on_close,
            .user = user,
            .err = err};

    return ask(runtime, &q, watch_on_loop);
}

static void unwatch_on_loop(pal_ask *asked)
{
    question *q = (question *)asked;
    pal_turn *turn = pal_map_find(
            &q->runtime->turns, pal_str_make((const char *)q->turn.bytes, sizeof(q->turn.bytes)));

    if (turn)
        pal_event_unwatch(turn, q->user);
}

void pal_turn_unwatch(pal_runtime *runtime, pal_id turn, void *user)
{
    question q = {.turn = turn, .user = user};

    ask(runtime, &q, unwatch_on_loop);
}

typedef struct state_watch {
    pal_ask ask;
    pal_runtime *runtime;
    pal_turn_on_state on_state;
    void *user;
} state_watch;

static void set_watch(pal_ask *asked)
{
    state_watch *w = (state_watch *)asked;

    w->runtime->on_state = w->on_state;
    w->runtime->on_state_user = w->user;
}

void pal_runtime_watch(pal_runtime *runtime, pal_turn_on_state on_state, void *user)
{
    state_watch w = {.ask.run = set_watch, .runtime = runtime, .on_state = on_state, .user = user};

    pal_ask_loop(runtime->loop, &w.ask);
}

/* Without the lease, another process may run the session: a parked turn is a copy of what the store
 * has, and a waiting turn waits for the turn of that process. While the release of a parked turn's
 * lease is being written, the store still shows the turn as it was before. */
static bool may_be_elsewhere(const pal_turn *turn)
{
    return !turn->lane->fence && !(pal_lane_is_parked(turn) && turn->lane->holds > 0);
}

static void find_on_loop(pal_ask *asked)
{
    question *q = (question *)asked;
    pal_turn *turn = find_turn(q);

    if (!turn)
        return;
    pal_runtime_turn_info(turn, q->out_info);
    q->is_elsewhere = turn->phase == PAL_TURN_PHASE_AWAY || turn->state == PAL_TURN_FAILED ||
            (pal_lane_is_parked(turn) && may_be_elsewhere(turn));
}

/* Reads the state of a turn that is not in this process from the store. */
static pal_status find_stored(
        const pal_runtime *runtime, const question *q, pal_id session, pal_turn_info *out_info)
{
    pal_arena *arena = pal_arena_new(0);
    pal_outcome outcome;
    pal_status status;

    if (!arena)
        return pal_no_memory(q->err);
    if (pal_id_is_none(session))
        status = pal_outcome_find(runtime->store, q->tenant, q->turn, arena, &outcome, q->err);
    else
        status = pal_outcome_of_session(
                runtime->store, q->tenant, session, arena, &outcome, q->err);
    if (status == PAL_OK)
        pal_outcome_tell(
                &outcome, pal_id_is_none(session) ? q->turn : outcome.turn, out_info);
    pal_arena_free(arena);
    return status;
}

pal_status pal_turn_find(
        pal_runtime *runtime, pal_str tenant, pal_id turn, pal_turn_info *out_info, pal_error *err)
{
    question q = {.tenant = tenant, .turn = turn, .out_info = out_info, .err = err};
    pal_turn_info info = {.state = PAL_TURN_NONE};
    pal_status status = ask(runtime, &q, find_on_loop);

    if (pal_loop_is_on(runtime->loop))
        return status;
    if (status == PAL_NOT_FOUND) {
        status = find_stored(runtime, &q, (pal_id){{0}}, out_info);
        if (status == PAL_OK)
            out_info->is_elsewhere = true;
        /* In between, a stored note can have become a turn here, and nothing in the store names
         * it after its end. */
        return status == PAL_NOT_FOUND ? ask(runtime, &q, find_on_loop) : status;
    }
    /* Another process may run this turn, or may have continued it after it failed or paused
     * here. */
    q.err = NULL;
    if (status == PAL_OK && q.is_elsewhere &&
            find_stored(runtime, &q, (pal_id){{0}}, &info) == PAL_OK &&
            info.state != out_info->state)
        *out_info = info;
    return status;
}

static pal_turn *turn_of_lane(question *q)
{
    pal_lane_state *lane = pal_lane_find(q->runtime, pal_tenant_or_default(q->tenant), q->session);

    if (lane && lane->running && lane->running->queue.origin != PAL_ORIGIN_INBOX)
        return lane->running;
    if (lane && lane->first && lane->first->queue.origin != PAL_ORIGIN_INBOX && !lane->running)
        return lane->first;
    q->status = pal_error_set(q->err, PAL_NOT_FOUND, "no turn is running in the session");
    return NULL;
}

static void session_on_loop(pal_ask *asked)
{
    question *q = (question *)asked;
    pal_turn *turn = turn_of_lane(q);

    if (!turn)
        return;
    pal_runtime_turn_info(turn, q->out_info);
    q->turn = turn->owed.turn;
    q->is_elsewhere = may_be_elsewhere(turn);
    q->is_parked = pal_lane_is_parked(turn);
}

pal_status pal_turn_of_session(pal_runtime *runtime, pal_str tenant, pal_id session,
        pal_turn_info *out_info, pal_error *err)
{
    question q = {.tenant = tenant, .session = session, .out_info = out_info, .err = err};
    pal_status status = ask(runtime, &q, session_on_loop), found;
    pal_turn_info info;

    if ((status != PAL_OK && status != PAL_NOT_FOUND) || pal_loop_is_on(runtime->loop) ||
            (status == PAL_OK && !q.is_elsewhere))
        return status;
    found = find_stored(runtime, &q, session, &info);
    if (status == PAL_OK && found != PAL_OK && !(found == PAL_NOT_FOUND && q.is_parked))
        return PAL_OK; /* the turn has recorded nothing yet */
    if (found != PAL_OK)
        return found;
    if (status == PAL_OK && pal_id_equal(info.turn, q.turn) &&
            (!q.is_parked || info.state == out_info->state))
        return PAL_OK;
    *out_info = info;
    out_info->is_elsewhere = true;
    return PAL_OK;
}

static void cancel_on_loop(pal_ask *asked)
{
    question *q = (question *)asked;
    pal_turn *turn = find_turn(q);

    if (turn)
        pal_turn_stop(turn, "canceled");
}

pal_status pal_turn_cancel(pal_runtime *runtime, pal_str tenant, pal_id turn, pal_error *err)
{
    question q = {.tenant = tenant, .turn = turn, .err = err};
    pal_turn_info info;
    pal_status status = ask(runtime, &q, cancel_on_loop);
    pal_arena *arena;
    pal_str text;

    if (status != PAL_OK || pal_loop_is_on(runtime->loop))
        return status;
    arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    status = pal_turn_wait(runtime, tenant, turn, 10000, arena, &info, &text, err);
    pal_arena_free(arena);
    return status;
}

/* ---- Canceling without waiting ---- */

/* A thread that serves many clients cancels the turn of a client that has left. */
typedef struct cancel_job {
    pal_task task;
    pal_runtime *runtime;
    pal_id turn;
    char tenant[PAL_TENANT_LEN_MAX];
    size_t tenant_len;
} cancel_job;

static void cancel_later(pal_task *task)
{
    cancel_job *job = (cancel_job *)task;
    pal_status status = pal_turn_cancel(
            job->runtime, pal_str_make(job->tenant, job->tenant_len), job->turn, NULL);

    (void)status; /* a turn that has ended or is no longer in memory needs nothing */
    pal_free(job);
}

void pal_turn_cancel_async(pal_runtime *runtime, pal_str tenant, pal_id turn)
{
    cancel_job *job = tenant.len <= PAL_TENANT_LEN_MAX ? pal_malloc(sizeof(*job)) : NULL;

    if (!job)
        return; /* the turn continues to its end */
    *job = (cancel_job){.task.run = cancel_later, .runtime = runtime, .turn = turn};
    job->tenant_len = tenant.len;
    if (tenant.len)
        memcpy(job->tenant, tenant.data, tenant.len);
    pal_loop_post(runtime->loop, &job->task);
}

/* ---- Results and answers ---- */

static void results_on_loop(pal_ask *asked)
{
    question *q = (question *)asked;
    pal_turn *turn = pal_id_is_none(q->turn) ? turn_of_lane(q) : find_turn(q);

    if (turn && turn->phase == PAL_TURN_PHASE_AWAY)
        q->status = PAL_NOT_FOUND; /* the process that runs it may have released it */
    if (!turn || q->status == PAL_NOT_FOUND)
        return;
    if (turn->phase != PAL_TURN_PHASE_PAUSED) {
        q->status = pal_error_set(q->err, PAL_CONFLICT,
                "the turn is not waiting for results: its state is '%s'",
                pal_turn_state_name(turn->state));
        return;
    }
    q->status = pal_tools_results(turn, q->messages, q->messages_len, q->err);
    if (q->status == PAL_INVALID && pal_lane_is_parked(turn))
        q->status = PAL_NOT_FOUND; /* another process may have continued the turn */
    pal_runtime_turn_info(turn, q->out_info);
}

/* After a restart no turn in memory waits for the results, and a parked turn may be outdated. The
 * results are sent as ordinary messages, and a turn continues with them. */
static pal_status results_after_restart(pal_runtime *runtime, const question *q, pal_error *err)
{
    pal_turn_request request = {
            .tenant = q->tenant,
            .session = q->session,
            .messages = (pal_message *)q->messages,
            .messages_len = q->messages_len,
    };

    return pal_turn_start(runtime, &request, q->out_info, err);
}

pal_status pal_turn_results(pal_runtime *runtime, pal_str tenant, pal_id session, pal_id turn,
        pal_message *messages, size_t messages_len, pal_turn_info *out_info, pal_error *err)
{
    question q = {.tenant = tenant,
            .session = session,
            .turn = turn,
            .messages = messages,
            .messages_len = messages_len,
            .out_info = out_info,
            .err = err};
    pal_turn_info info;
    pal_status status = ask(runtime, &q, results_on_loop);

    if (status == PAL_NOT_FOUND && pal_id_is_none(session) &&
            find_stored(runtime, &q, (pal_id){{0}}, &info) == PAL_OK)
        q.session = info.session;
    if (status == PAL_NOT_FOUND && !pal_id_is_none(q.session))
        status = results_after_restart(runtime, &q, err);
    return status;
}

static void waiting_on_loop(pal_ask *asked)
{
    question *q = (question *)asked;
    pal_turn *turn = acting(find_turn(q));
    pal_buf buf;

    if (turn && turn->phase == PAL_TURN_PHASE_AWAY) {
        q->status = PAL_NOT_FOUND; /* the store knows what it waits for */
        return;
    }
    if (turn && turn->phase == PAL_TURN_PHASE_ASKING)
        q->status = pal_question_list(turn, q->arena, &q->out_waits->questions,
                &q->out_waits->questions_len, q->err);
    if (!turn || turn->state != PAL_TURN_PAUSED)
        return;
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    pal_tools_put_waiting(turn, &buf);
    q->out_waits->calls = pal_arena_copy(q->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
}

/* Reads from the store what a turn waits for that is not in this process. */
static pal_status waiting_stored(const pal_runtime *runtime, const question *q)
{
    pal_outcome outcome;
    pal_buf buf;
    pal_status status =
            pal_outcome_find(runtime->store, q->tenant, q->turn, q->arena, &outcome, q->err);

    if (status == PAL_OK) {
        q->out_waits->questions = outcome.questions;
        q->out_waits->questions_len = outcome.questions_len;
    }
    if (status != PAL_OK || !outcome.is_paused)
        return status;
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    pal_outcome_put_open(&outcome, &buf);
    q->out_waits->calls = pal_arena_copy(q->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return PAL_OK;
}

pal_status pal_turn_waiting(pal_runtime *runtime, pal_str tenant, pal_id turn, pal_arena *arena,
        pal_turn_waits *out_waits, pal_error *err)
{
    question q = {
            .tenant = tenant, .turn = turn, .arena = arena, .out_waits = out_waits, .err = err};
    pal_status status;

    *out_waits = (pal_turn_waits){.calls = {0}};
    status = ask(runtime, &q, waiting_on_loop);
    if (status == PAL_NOT_FOUND && !pal_loop_is_on(runtime->loop))
        status = waiting_stored(runtime, &q);
    if (status == PAL_OK && out_waits->questions_len > 0) {
        out_waits->asked_call_id = out_waits->questions[0].call_id;
        out_waits->asked_name = out_waits->questions[0].name;
        out_waits->asked_arguments = out_waits->questions[0].arguments;
    }
    if (status == PAL_OK && pal_arena_failure(arena) != PAL_OK)
        status = pal_no_memory(err);
    return status;
}

static pal_status not_asking(pal_turn_state state, pal_error *err)
{
    return pal_error_set(err, PAL_CONFLICT,
            "the turn is not waiting for answers: its state is '%s'", pal_turn_state_name(state));
}

static void answer_on_loop(pal_ask *asked)
{
    question *q = (question *)asked;
    pal_turn *turn = acting(find_turn(q));

    if (turn && turn->phase == PAL_TURN_PHASE_AWAY)
        q->status = PAL_NOT_FOUND;
    if (!turn || q->status == PAL_NOT_FOUND)
        return;
    if (turn->phase == PAL_TURN_PHASE_ASKING)
        q->status = pal_question_answer_all(turn, &q->answers, q->err);
    else
        q->status = not_asking(turn->state, q->err);
}

/* The turn's process is gone or is another one: this process continues it. */
static pal_status answer_stored(pal_runtime *runtime, question *q, pal_error *err)
{
    pal_turn_request request = {.tenant = q->tenant};
    pal_turn_info info;
    pal_status status = find_stored(runtime, q, (pal_id){{0}}, &info);

    if (status != PAL_OK)
        return status;
    if (info.state >= PAL_TURN_DONE)
        return not_asking(info.state, err);
    request.session = info.session;
    return start_and_wait(runtime, &request, q->answers, &info, err);
}

/* The answers are stored before the turn continues. If it does not continue, because another
 * client was faster, they are remembered nevertheless: a person gave them. */
static pal_status remember_answers(pal_runtime *runtime, question *q, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_turn_waits waits = {.questions_len = 0};
    pal_turn_info info;
    pal_status status;

    if (!arena)
        return pal_no_memory(err);
    status = pal_turn_waiting(runtime, q->tenant, q->turn, arena, &waits, err);
    if (status != PAL_OK)
        goto out;
    status = pal_turn_find(runtime, q->tenant, q->turn, &info, err);
    if (status != PAL_OK)
        goto out;
    if (waits.questions_len == 0) {
        status = not_asking(info.state, err);
        goto out;
    }
    status = pal_question_check(waits.questions, waits.questions_len, &q->answers, err);
    for (size_t i = 0; status == PAL_OK && i < waits.questions_len; i++) {
        const pal_question *asked = &waits.questions[i];
        const pal_question_answer *answer = pal_question_answer_to(&q->answers, asked->call_id);

        if (answer->remember && asked->kind == PAL_QUESTION_APPROVAL)
            status = pal_permission_remember(runtime->store, q->tenant, info.session, asked->name,
                    answer->allow ? PAL_PERMISSION_ALLOW : PAL_PERMISSION_DENY, err);
    }
out:
    pal_arena_free(arena);
    return status;
}

pal_status pal_turn_answer(pal_runtime *runtime, pal_str tenant, pal_id turn,
        const pal_question_answer *answers, size_t answers_len, pal_error *err)
{
    question q = {.tenant = tenant, .turn = turn, .answers = {answers, answers_len}, .err = err};
    bool remembers = false;
    pal_status status = PAL_OK;

    if (answers_len == 0)
        return pal_error_set(err, PAL_INVALID, "there are no answers");
    for (size_t i = 0; i < answers_len; i++)
        remembers |= answers[i].remember;
    if (remembers)
        status = remember_answers(runtime, &q, err);
    if (status != PAL_OK)
        return status;
    status = ask(runtime, &q, answer_on_loop);
    return status == PAL_NOT_FOUND ? answer_stored(runtime, &q, err) : status;
}

pal_status pal_turn_allow(
        pal_runtime *runtime, pal_str tenant, pal_id turn, bool allow, pal_error *err)
{
    return pal_turn_answer(
            runtime, tenant, turn, &(pal_question_answer){.allow = allow}, 1, err);
}

/* ---- Waiting ---- */

/* Returns true if the turn does nothing until a client acts, or has ended. */
static bool is_idle(pal_turn_state state)
{
    return state == PAL_TURN_PAUSED || state == PAL_TURN_ASKING || state >= PAL_TURN_DONE;
}

/* A question that is answered when the turn pauses, asks or ends. */
typedef struct wait_question {
    question q;      /* must be first, because it begins with the ask */
    bool is_watched; /* the turn still runs: the loop reports its state later through `still` */
    pal_ask still;
} wait_question;

static void text_on_loop(pal_ask *asked)
{
    question *q = (question *)asked;
    pal_turn *turn = find_turn(q);

    if (!turn)
        return;
    pal_runtime_turn_info(turn, q->out_info);
    *q->out_text = pal_arena_copy(q->arena, acting(turn)->outcome.text);
}

static bool wait_event(const pal_event *event, void *user)
{
    return event->kind != PAL_EVENT_ENDED && event->kind != PAL_EVENT_PAUSED &&
            event->kind != PAL_EVENT_ASKING;
}

static void tell_still(pal_task *task)
{
    wait_question *w = (wait_question *)((char *)task - offsetof(wait_question, still.task));

    text_on_loop(&w->q.ask);
    pal_ask_end(&w->still);
}

/* Called after the turn has left its lane: the waiting caller can rely on that. */
static void wait_gone(void *user)
{
    wait_question *w = user;

    w->still.task.run = tell_still;
    pal_loop_post(w->q.runtime->loop, &w->still.task);
}

static void wait_on_loop(pal_ask *asked)
{
    wait_question *w = (wait_question *)asked;
    pal_turn *turn = find_turn(&w->q);

    text_on_loop(asked);
    if (!turn || w->q.out_info->state >= PAL_TURN_DONE)
        return;
    /* A paused turn that is being canceled ends soon. */
    if (is_idle(w->q.out_info->state) && !acting(turn)->stop)
        return;
    w->q.status = pal_event_watch(turn, w->q.out_info->events, wait_event, wait_gone, w, w->q.err);
    w->is_watched = w->q.status == PAL_OK;
}

pal_status pal_turn_wait(pal_runtime *runtime, pal_str tenant, pal_id turn, int64_t timeout_ms,
        pal_arena *arena, pal_turn_info *out_info, pal_str *out_text, pal_error *err)
{
    wait_question w = {.q = {.tenant = tenant,
                         .turn = turn,
                         .arena = arena,
                         .out_info = out_info,
                         .out_text = out_text,
                         .err = err}};

    pal_ask_begin(&w.still);
    w.q.runtime = runtime;
    w.q.ask.run = wait_on_loop;
    pal_ask_loop(runtime->loop, &w.q.ask);
    if (!w.is_watched)
        return w.q.status;
    if (timeout_ms < 0) {
        pal_ask_wait(&w.still);
    } else if (!pal_ask_wait_for(&w.still, timeout_ms)) {
        pal_turn_unwatch(runtime, turn, &w); /* this calls wait_gone() */
        pal_ask_wait(&w.still);
    }
    if (w.q.status == PAL_OK && !is_idle(out_info->state))
        return pal_error_set(err, PAL_TIMEOUT, "the turn is still running");
    return w.q.status;
}
