/* mcp_job.c - turns that MCP clients wait for: a job, from its start to its response.
 *
 * No thread waits for a job. The runtime's loop reports that it has started, its events, and its
 * end; the transport can do this instead. Its messages go to the transport's callbacks. All turns
 * are all-or-nothing: if a turn fails or is canceled, the conversation is unchanged. A job is in
 * the host's list from its start to its end. The lock guards the list and the members that say
 * whether a job is canceled; the loop owns all other members. */
#include "mcp/mcp_internal.h"

#include <stdio.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"

#define PROGRESS_US                                                                                \
    1000000 /* minimum time between two progress messages about the length of the                  \
               answer */
#define MESSAGE_BYTES_MAX ((size_t)32 << 20)

struct pal_mcp_job {
    pal_mcp_host *host;
    pal_mcp_job *previous, *next;
    const pal_mcp_events *events;
    void *events_user;
    pal_runtime *runtime;
    pal_arena *arena; /* owns the texts of the next members */
    pal_str tenant;
    pal_str scope;
    pal_str id;    /* JSON text of the request id */
    pal_str token; /* JSON text of the progress token; empty if the client wants no progress
                      messages */
    bool is_new;
    pal_id session;

    pal_id turn;      /* guarded by the lock; set after the turn has started */
    bool is_canceled; /* guarded by the lock; the client does not wait for a response */

    pal_buf text; /* text of the newest step, up to the limit */
    uint64_t text_bytes;
    pal_id message;
    uint64_t seq;
    pal_finish finish; /* why the model stopped writing the newest answer */
    uint64_t tool_calls;
    uint64_t progress;
    int64_t told_us;
    bool has_asked;       /* it was stopped because it asked for permission */
    pal_turn_state state; /* set after the turn has ended, like the next members */
    pal_status status;
    pal_usage usage;
    char reason[PAL_ERROR_MESSAGE_MAX];
};

/* ---- The host ---- */

pal_mcp_host *pal_mcp_host_new(const pal_mcp_host_options *options)
{
    pal_mcp_host *host = pal_calloc(1, sizeof *host);
    if (!host)
        return NULL;
    host->options = *options;
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->is_idle, NULL);
    return host;
}

/* The lock must be held. If the turn could not be abandoned because of missing memory, it runs to
 * its end. */
static void cancel(pal_mcp_job *job)
{
    bool is_first = !job->is_canceled;
    job->is_canceled = true;
    if (is_first && !pal_id_is_none(job->turn))
        pal_turn_cancel_async(job->runtime, job->tenant, job->turn);
}

void pal_mcp_host_free(pal_mcp_host *host)
{
    if (!host)
        return;
    pthread_mutex_lock(&host->lock);
    for (pal_mcp_job *job = host->jobs; job; job = job->next)
        cancel(job);
    while (host->jobs)
        pthread_cond_wait(&host->is_idle, &host->lock);
    pthread_mutex_unlock(&host->lock);
    pthread_cond_destroy(&host->is_idle);
    pthread_mutex_destroy(&host->lock);
    pal_free(host);
}

void pal_mcp_host_cancel(pal_mcp_host *host, pal_str scope)
{
    pthread_mutex_lock(&host->lock);
    for (pal_mcp_job *job = host->jobs; job; job = job->next) {
        if (pal_str_equal(job->scope, scope))
            cancel(job);
    }
    pthread_mutex_unlock(&host->lock);
}

void pal_mcp_jobs_cancel(pal_mcp_host *host, pal_str scope, pal_str id)
{
    pthread_mutex_lock(&host->lock);
    for (pal_mcp_job *job = host->jobs; job; job = job->next) {
        if (pal_str_equal(job->scope, scope) && pal_str_equal(job->id, id))
            cancel(job);
    }
    pthread_mutex_unlock(&host->lock);
}

bool pal_mcp_job_is_new(const pal_mcp_job *job)
{
    return job->is_new;
}

void pal_mcp_job_set_user(pal_mcp_job *job, void *events_user)
{
    job->events_user = events_user;
}

/* ---- Creating and freeing jobs ---- */

static void free_job(pal_mcp_job *job)
{
    pal_buf_done(&job->text);
    pal_arena_free(job->arena);
    pal_free(job);
}

static pal_status enlist(pal_mcp_job *job, pal_error *err)
{
    pal_mcp_host *host = job->host;
    pthread_mutex_lock(&host->lock);
    bool has_room = host->jobs_len < PAL_MCP_HOST_JOBS_MAX;
    if (has_room) {
        job->next = host->jobs;
        if (job->next)
            job->next->previous = job;
        host->jobs = job;
        host->jobs_len++;
    }
    pthread_mutex_unlock(&host->lock);
    return has_room ? PAL_OK
                    : pal_error_set(err, PAL_BUSY, "%d turns are already running; retry later",
                              PAL_MCP_HOST_JOBS_MAX);
}

static void unlist(pal_mcp_job *job)
{
    pal_mcp_host *host = job->host;
    pthread_mutex_lock(&host->lock);
    if (job->previous)
        job->previous->next = job->next;
    else
        host->jobs = job->next;
    if (job->next)
        job->next->previous = job->previous;
    host->jobs_len--;
    if (!host->jobs)
        pthread_cond_broadcast(&host->is_idle);
    pthread_mutex_unlock(&host->lock);
}

static bool is_canceled(pal_mcp_job *job)
{
    pthread_mutex_lock(&job->host->lock);
    bool is = job->is_canceled;
    pthread_mutex_unlock(&job->host->lock);
    return is;
}

/* ---- Messages ---- */

static void say(pal_mcp_job *job, pal_buf *message, bool is_last)
{
    if (!message->failure)
        job->events->on_message(job->events_user, pal_buf_str(message), is_last);
    else if (is_last)
        pal_log(PAL_LOG_ERROR, "could not send an MCP response: out of memory");
}

static void tell_progress(pal_mcp_job *job, const char *words)
{
    pal_buf message;
    if (job->token.len == 0)
        return;
    pal_buf_init(&message, MESSAGE_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&message);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "jsonrpc", "2.0");
    pal_put_text(&writer, "method", "notifications/progress");
    pal_json_name(&writer, "params");
    pal_json_begin_object(&writer);
    pal_put_raw(&writer, "progressToken", job->token);
    pal_put_count(&writer, "progress", ++job->progress);
    pal_put_text(&writer, "message", words);
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    say(job, &message, false);
    pal_buf_done(&message);
}

static void put_answer(pal_mcp_job *job, pal_json_writer *writer)
{
    pal_json_begin_object(writer);
    pal_put_id(writer, "conversation", job->session);
    pal_put_id(writer, "turn_id", job->turn);
    pal_put_str(writer, "text", pal_buf_str(&job->text));
    if (job->text_bytes > job->text.len)
        pal_put_flag(writer, "text_is_cut", true);
    if (job->seq) {
        pal_put_id(writer, "message_id", job->message);
        pal_put_count(writer, "seq", job->seq);
    }
    pal_put_text(writer, "finish_reason", job->finish == PAL_FINISH_LENGTH ? "length" : "stop");
    pal_put_count(writer, "tool_calls", job->tool_calls);
    pal_native_put_usage(writer, "usage", &job->usage);
    pal_json_end_object(writer);
}

static void write_answer(pal_mcp_job *job, pal_json_writer *writer)
{
    pal_buf object;
    pal_buf_init(&object, MESSAGE_BYTES_MAX);
    pal_json_writer inner = pal_json_writer_make(&object);
    put_answer(job, &inner);
    if (object.failure || job->text.failure)
        pal_mcp_put_failure(writer, job->id, job->is_new, pal_str_of("out of memory"));
    else
        pal_mcp_put_success(
                writer, job->id, job->is_new, pal_buf_str(&object), pal_buf_str(&job->text));
    pal_buf_done(&object);
}

static void write_failure(pal_mcp_job *job, pal_json_writer *writer)
{
    char text[PAL_ERROR_MESSAGE_MAX + 80];
    const char *what = job->state == PAL_TURN_CANCELED ? "the turn was canceled"
                                                       : "the model "
                                                         "returned no "
                                                         "answer";
    snprintf(text, sizeof text, "%s%s%s; the conversation is unchanged", what,
            job->reason[0] ? ": " : "", job->reason);
    pal_mcp_put_failure(writer, job->id, job->is_new, pal_str_of(text));
}

/* Sends the response and frees the job. It is the last function that uses the job. */
static void end_job(pal_mcp_job *job)
{
    pal_buf message;
    pal_buf_init(&message, MESSAGE_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&message);
    if (job->state == PAL_TURN_DONE)
        write_answer(job, &writer);
    else
        write_failure(job, &writer);
    if (!is_canceled(job))
        say(job, &message, true);
    pal_buf_done(&message);
    job->events->on_end(job->events_user);
    unlist(job);
    free_job(job);
}

/* ---- Events, on the loop ---- */

static void take_text(pal_mcp_job *job, pal_str text)
{
    char words[80];
    size_t room = PAL_MCP_HOST_ANSWER_BYTES_MAX - job->text.len;
    int64_t now = pal_clock_monotonic_us();
    bool is_cut = job->text_bytes > job->text.len;
    job->text_bytes += text.len;
    /* A piece can end within a character. The JSON writer repairs a character that is cut here. */
    if (!is_cut)
        pal_buf_append(&job->text, text.data, text.len < room ? text.len : room);
    if (now - job->told_us < PROGRESS_US)
        return;
    job->told_us = now;
    snprintf(words, sizeof words, "received %llu bytes of the answer",
            (unsigned long long)job->text_bytes);
    tell_progress(job, words);
}

static void take_step(pal_mcp_job *job, const pal_event *event)
{
    char words[80];
    pal_buf_clear(&job->text);
    job->text_bytes = 0;
    job->told_us = pal_clock_monotonic_us();
    snprintf(
            words, sizeof words, "calling the model (call %llu)", (unsigned long long)event->count);
    tell_progress(job, words);
}

static void take_tool(pal_mcp_job *job, const pal_event *event)
{
    char words[160];
    job->tool_calls++;
    snprintf(words, sizeof words, "running '%.*s'", PAL_EXCERPT(event->name, 100));
    tell_progress(job, words);
}

static void take_end(pal_mcp_job *job, const pal_event *event)
{
    job->state = event->state;
    job->status = event->status;
    job->usage = event->usage;
    if (!job->has_asked)
        snprintf(job->reason, sizeof job->reason, "%.*s",
                (int)(event->text.len < sizeof job->reason ? event->text.len
                                                           : sizeof job->reason - 1),
                event->text.data ? event->text.data : "");
}

/* A client of MCP cannot give permission, so the turn is stopped. */
static void take_question(pal_mcp_job *job, const pal_event *event)
{
    job->has_asked = true;
    snprintf(job->reason, sizeof job->reason, "%.*s",
            (int)(event->text.len < sizeof job->reason ? event->text.len : sizeof job->reason - 1),
            event->text.data ? event->text.data : "");
    pal_turn_cancel_async(job->runtime, job->tenant, job->turn);
}

void pal_mcp_job_event(pal_mcp_job *job, const pal_event *event)
{
    switch (event->kind) {
    case PAL_EVENT_STEP:
        take_step(job, event);
        break;
    case PAL_EVENT_TEXT:
        take_text(job, event->text);
        break;
    case PAL_EVENT_TOOL_STARTED:
        take_tool(job, event);
        break;
    case PAL_EVENT_RETRYING:
        tell_progress(job, "the model service failed; retrying");
        break;
    case PAL_EVENT_MESSAGE:
        job->message = event->message;
        job->seq = event->seq;
        job->finish = event->finish;
        break;
    case PAL_EVENT_PAUSED:
    case PAL_EVENT_ASKING:
        take_question(job, event);
        break;
    case PAL_EVENT_ENDED:
        take_end(job, event);
        break;
    default:
        break;
    }
}

void pal_mcp_job_end(pal_mcp_job *job, const pal_event *end)
{
    take_end(job, end);
    end_job(job);
}

bool pal_mcp_job_begin(pal_mcp_job *job, const pal_turn_info *info)
{
    pthread_mutex_lock(&job->host->lock);
    job->turn = info->turn;
    bool is_wanted = !job->is_canceled;
    pthread_mutex_unlock(&job->host->lock);
    return is_wanted;
}

/* ---- Jobs that run their turn themselves ---- */

static bool watch(const pal_event *event, void *user)
{
    pal_mcp_job_event(user, event);
    return event->kind != PAL_EVENT_ENDED;
}

static void watched(void *user)
{
    end_job(user);
}

static void fail_job(pal_mcp_job *job, const pal_error *err)
{
    const pal_event end = {
            .state = PAL_TURN_FAILED, .status = err->status, .text = pal_str_of(err->message)};
    pal_mcp_job_end(job, &end);
}

static void started(const pal_turn_info *info, const pal_error *err, void *user)
{
    pal_mcp_job *job = user;
    pal_error inner = {0};
    if (!info) {
        fail_job(job, err);
        return;
    }
    if (!pal_mcp_job_begin(job, info))
        pal_turn_cancel_async(job->runtime, job->tenant, info->turn);
    if (pal_turn_watch(job->runtime, job->tenant, info->turn, 0, watch, watched, job, &inner) !=
            PAL_OK)
        fail_job(job, &inner);
}

/* ---- Starting ---- */

static pal_mcp_job *new_job(pal_mcp_call *call, const pal_session *session)
{
    pal_mcp_job *job = pal_calloc(1, sizeof *job);
    pal_json token = pal_json_find(call->message->meta, "progressToken");
    pal_json_type type = pal_json_type_of(token);
    if (!job)
        return NULL;
    pal_buf_init(&job->text, PAL_MCP_HOST_ANSWER_BYTES_MAX);
    job->arena = pal_arena_new(0);
    if (!job->arena) {
        free_job(job);
        return NULL;
    }
    job->host = call->host;
    job->session = session->id;
    job->is_new = call->message->is_new;
    job->tenant = pal_arena_copy(job->arena, call->peer->tenant);
    job->scope = pal_arena_copy(job->arena, call->peer->scope);
    job->id = pal_arena_copy(job->arena, call->message->id);
    if (type == PAL_JSON_STRING || type == PAL_JSON_NUMBER)
        job->token = pal_arena_copy(job->arena, pal_json_raw(token));
    if (pal_arena_failure(job->arena) == PAL_OK)
        return job;
    free_job(job);
    return NULL;
}

static pal_status start(pal_mcp_job *job, pal_mcp_call *call, pal_error *err)
{
    pal_message message =
            pal_message_text(call->arena, PAL_ROLE_USER, pal_mcp_call_text(call, "text"));
    pal_turn_request request = {
            .tenant = job->tenant,
            .session = job->session,
            .messages = &message,
            .messages_len = 1,
            .lane = PAL_TURN_LANE_QUEUE,
            .model = pal_mcp_call_text(call, "model"),
            .all_or_nothing = true,
            .budget = call->peer->budget,
            .label = pal_str_of("mcp"),
            .cannot_ask = true,
    };
    pal_status status = pal_arena_checked(call->arena, err);
    if (status == PAL_OK)
        status = enlist(job, err);
    if (status != PAL_OK)
        return status;
    if (job->events->start)
        status = job->events->start(job->events_user, job, &request, err);
    else
        status = pal_turn_start_async(job->runtime, &request, started, job, err);
    if (status != PAL_OK)
        unlist(job);
    return status;
}

pal_status pal_mcp_job_start(
        pal_mcp_call *call, const pal_mcp_events *events, void *events_user, pal_error *err)
{
    pal_session session;
    pal_status status = pal_mcp_call_session(call, &session, err);
    if (status != PAL_OK)
        return status;
    pal_runtime *runtime = call->host->options.runtime(call->host->options.user, err);
    if (!runtime)
        return err->status;
    pal_mcp_job *job = new_job(call, &session);
    if (!job)
        return pal_no_memory(err);
    job->events = events;
    job->events_user = events_user;
    job->runtime = runtime;
    status = start(job, call, err);
    if (status != PAL_OK)
        free_job(job);
    return status;
}
