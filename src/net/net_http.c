/* net_http.c - the client: when a call can start, and how it ends.
 *
 * A call waits at its host. Only a limited number of calls look up the host's name at the same
 * time, because libcurl starts a thread for each name that is not in its cache. Only a limited
 * number connect at the same time, so that many calls do not slow each other down until all of them
 * time out. Other calls start as soon as these are done. The time limit for connecting does not run
 * while a call waits, unless no call to the host gets through.
 *
 * The stages of a call are those of pal_http_stage, in this order; it can end in each of them. A
 * call that is to end early is doomed: it is ended as soon as libcurl is off the stack. Everything
 * runs on the loop.
 *
 * libcurl must not be called from its own callbacks. If a callback starts or cancels a call, this
 * is noted, and done when libcurl is off the stack. A canceled call gets no more callbacks from
 * that moment on. */
#include "net/net_http.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include "base/memory.h"
#include "net/net_http_internal.h"

#define FINDING_MAX 16  /* calls of one host that can look up its name at the same time */
#define OPENING_MAX 256 /* calls of one host that can look up its name or connect at the same
                           time */
#define IDLE_CONNECTIONS 64
#define CONNECT_MS 10000
#define IDLE_MS 120000
#define HOST_NAME_MAX_LEN 4096

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void init_curl(void)
{
    curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- Hosts ---- */

static pal_http_host *find_host(pal_http *http, pal_str url, pal_error *err)
{
    pal_buf name;
    pal_buf_init(&name, HOST_NAME_MAX_LEN);
    pal_http_host *host = NULL;
    if (pal_http_url_host(url, &name, err))
        goto out;
    host = pal_map_find(&http->hosts, pal_buf_str(&name));
    if (host)
        goto out;
    host = pal_calloc(1, sizeof *host + name.len + 1);
    if (host) {
        memcpy(host->name, name.data, name.len);
        host->name_len = name.len;
        if (pal_map_set(&http->hosts, pal_str_make(host->name, host->name_len), host)) {
            pal_free(host);
            host = NULL;
        }
    }
    if (!host)
        (void)pal_no_memory(err);
out:
    pal_buf_done(&name);
    return host;
}

static void enqueue(pal_http_call *call)
{
    pal_http_host *host = call->host;
    call->wait_previous = host->last;
    call->wait_next = NULL;
    if (host->last)
        host->last->wait_next = call;
    else
        host->first = call;
    host->last = call;
}

static void dequeue(pal_http_call *call)
{
    pal_http_host *host = call->host;
    if (call->wait_previous)
        call->wait_previous->wait_next = call->wait_next;
    else
        host->first = call->wait_next;
    if (call->wait_next)
        call->wait_next->wait_previous = call->wait_previous;
    else
        host->last = call->wait_previous;
    call->wait_previous = call->wait_next = NULL;
}

static bool is_full(const pal_http *http, const pal_http_host *host)
{
    return (http->connections_max && host->running >= http->connections_max) ||
            (http->calls_max && http->running >= http->calls_max);
}

static void start_first(pal_http *http, pal_http_host *host)
{
    pal_http_call *call = host->first;
    dequeue(call);
    call->stage = PAL_HTTP_FINDING;
    call->given_ms = pal_loop_now_ms(http->loop);
    host->running++;
    http->running++;
    host->finding++;
    host->opening++;
    pal_status status = pal_http_multi_add(call);
    if (status) {
        call->failure = status;
        pal_http_finish(call, CURLE_FAILED_INIT);
    }
}

static void look_at(pal_http *http, pal_http_host *host)
{
    while (host->first && host->finding < FINDING_MAX && host->opening < OPENING_MAX &&
            !is_full(http, host))
        start_first(http, host);
}

static void run_task(pal_task *task);

static void post_soon(pal_http *http)
{
    if (http->posted)
        return;
    http->posted = true;
    http->task.run = run_task;
    pal_loop_post(http->loop, &http->task);
}

void pal_http_host_touch(pal_http *http, pal_http_host *host)
{
    if (!host->dirty) {
        host->dirty = true;
        host->dirty_next = http->dirty;
        http->dirty = host;
    }
    if (!http->in_curl)
        post_soon(http);
}

void pal_http_found(pal_http_call *call)
{
    if (call->stage != PAL_HTTP_FINDING)
        return;
    call->stage = PAL_HTTP_CONNECTING;
    call->host->finding--;
    if (call->host->first)
        pal_http_host_touch(call->http, call->host);
}

static void look_at_hosts(pal_http *http)
{
    while (http->dirty) {
        pal_http_host *host = http->dirty;
        http->dirty = host->dirty_next;
        look_at(http, host);
        host->dirty = false;
        if (host->calls)
            continue;
        pal_map_remove(&http->hosts, pal_str_make(host->name, host->name_len));
        pal_free(host);
    }
}

/* ---- Calls ---- */

void pal_http_doom(pal_http_call *call, pal_status failure)
{
    if (!call->failure)
        call->failure = failure;
    if (call->doomed)
        return;
    call->doomed = true;
    call->doomed_next = call->http->doomed;
    call->http->doomed = call;
}

static void end_doomed(pal_http *http)
{
    while (http->doomed) {
        pal_http_call *call = http->doomed;
        http->doomed = call->doomed_next;
        call->doomed = false;
        pal_http_finish(call, CURLE_ABORTED_BY_CALLBACK);
    }
}

void pal_http_settle(pal_http *http)
{
    end_doomed(http);
    if (http->dirty || http->has_paused)
        post_soon(http);
}

/* Resumes calls that received more than their share, after all other ready calls were served. */
static void resume_paused(pal_http *http)
{
    http->has_paused = false;
    http->lap++;
    http->in_curl = true;
    for (pal_http_call *call = http->calls; call; call = call->next) {
        if (!call->paused || call->doomed)
            continue;
        call->paused = false;
        curl_easy_pause(call->easy, CURLPAUSE_CONT);
    }
    http->in_curl = false;
    pal_http_settle(http);
}

static void run_task(pal_task *task)
{
    pal_http *http = (pal_http *)((char *)task - offsetof(pal_http, task));
    http->posted = false;
    if (http->closed) {
        pal_free(http);
        return;
    }
    look_at_hosts(http);
    if (http->has_paused)
        resume_paused(http);
}

static void unlist(pal_http_call *call)
{
    if (call->previous)
        call->previous->next = call->next;
    else
        call->http->calls = call->next;
    if (call->next)
        call->next->previous = call->previous;
}

/* A call has connected or has failed to connect. `moves` restarts the time limit of waiting calls;
 * a timeout does not, because it says nothing about the next call. */
static void leave_opening(pal_http_call *call, bool moves)
{
    call->host->finding -= call->stage == PAL_HTTP_FINDING;
    call->host->opening--;
    if (moves)
        call->host->moved_ms = pal_loop_now_ms(call->http->loop);
}

/* A call has ended. If the limit of all calls was reached, calls of any host may have waited for
 * this. */
static void leave_running(pal_http *http)
{
    size_t position = 0;
    pal_str name;
    void *host;
    bool was_full = http->calls_max && http->running >= http->calls_max;
    http->running--;
    while (was_full && pal_map_next(&http->hosts, &position, &name, &host)) {
        if (((pal_http_host *)host)->first)
            pal_http_host_touch(http, host);
    }
}

static void leave_host(pal_http_call *call)
{
    pal_http_host *host = call->host;
    if (call->stage == PAL_HTTP_WAITING) {
        dequeue(call);
    } else {
        host->running--;
        leave_running(call->http);
    }
    if (call->stage == PAL_HTTP_FINDING || call->stage == PAL_HTTP_CONNECTING)
        leave_opening(call, call->failure != PAL_TIMEOUT);
    host->calls--;
    if (host->first || host->calls == 0)
        pal_http_host_touch(call->http, host);
}

static void undoom(pal_http_call *call)
{
    pal_http_call **place = &call->http->doomed;
    while (*place != call)
        place = &(*place)->doomed_next;
    *place = call->doomed_next;
}

void pal_http_finish(pal_http_call *call, CURLcode result)
{
    pal_http_end end;
    bool silent = call->silent;
    pal_http_events events = call->events;
    void *user = call->user;
    if (!silent)
        pal_http_call_describe(call, result, &end);
    if (call->doomed)
        undoom(call);
    pal_timer_stop(call->http->loop, &call->timer);
    pal_http_multi_remove(call);
    leave_host(call);
    unlist(call);
    pal_http_call_free(call);
    if (!silent)
        events.end(user, &end);
}

void pal_http_cancel(pal_http_call *call)
{
    assert(pal_loop_is_on(call->http->loop) && !call->silent);
    call->silent = true;
    if (call->http->in_curl)
        pal_http_doom(call, PAL_CANCELED);
    else
        pal_http_finish(call, CURLE_ABORTED_BY_CALLBACK);
}

static int64_t sum(int64_t from, int64_t more)
{
    return more > INT64_MAX - from ? INT64_MAX : from + more;
}

/* Returns when the current stage of the call times out. */
static int64_t stage_deadline(const pal_http_call *call)
{
    int64_t moved_ms = call->host->moved_ms;
    if (call->stage == PAL_HTTP_SENT)
        return sum(call->heard_ms, call->idle_ms);
    if (call->stage != PAL_HTTP_WAITING)
        return sum(call->given_ms, call->connect_ms);
    return sum(call->started_ms > moved_ms ? call->started_ms : moved_ms, call->connect_ms);
}

static int64_t deadline(const pal_http_call *call)
{
    int64_t total = sum(call->started_ms, call->total_ms), stage = stage_deadline(call);
    return total < stage ? total : stage;
}

/* The timer is not restarted for every byte. When it fires, it is set to the remaining time. */
static void on_timer(pal_timer *timer)
{
    pal_http_call *call = (pal_http_call *)((char *)timer - offsetof(pal_http_call, timer));
    int64_t now = pal_loop_now_ms(call->http->loop);
    /* Waiting for a free connection does not count as a failure to connect. */
    if (call->stage == PAL_HTTP_WAITING && is_full(call->http, call->host))
        call->host->moved_ms = now;
    int64_t at = deadline(call);
    if (now >= at)
        call->failure = PAL_TIMEOUT;
    else if (!pal_timer_start(call->http->loop, timer, at - now, on_timer))
        call->failure = PAL_NO_MEMORY;
    if (call->failure)
        pal_http_finish(call, CURLE_OPERATION_TIMEDOUT);
}

void pal_http_sent(pal_http_call *call)
{
    pal_http_found(call);
    if (call->stage == PAL_HTTP_CONNECTING)
        leave_opening(call, true);
    call->stage = PAL_HTTP_SENT;
    call->heard_ms = pal_loop_now_ms(call->http->loop);
    if (call->host->first)
        pal_http_host_touch(call->http, call->host);
    /* From here on the idle timeout counts, which may end sooner. The timer is running, so
     * restarting it cannot fail. */
    bool moved = pal_timer_start(
            call->http->loop, &call->timer, deadline(call) - call->heard_ms, on_timer);
    assert(moved);
    (void)moved;
}

static void set_limits(pal_http_call *call, const pal_http_request *request)
{
    call->connect_ms = request->connect_ms > 0 ? request->connect_ms : CONNECT_MS;
    call->idle_ms = request->idle_ms > 0 ? request->idle_ms : IDLE_MS;
    if (request->idle_ms < 0)
        call->idle_ms = INT64_MAX;
    call->total_ms = request->total_ms > 0 ? request->total_ms : INT64_MAX;
    call->started_ms = call->heard_ms = pal_loop_now_ms(call->http->loop);
    call->bytes_max = request->response_bytes_max ? request->response_bytes_max : UINT64_MAX;
}

/* Initializes libcurl with the first call: libcurl and its TLS library take 2 MB, and many servers
 * never make a call. */
static pal_status make_ready(pal_http *http, pal_error *err)
{
    pthread_once(&curl_once, init_curl);
    if (curl_ready)
        return pal_error_set(err, PAL_IO, "libcurl: %s", curl_easy_strerror(curl_ready));
    if (http->share)
        return PAL_OK;
    /* Only one thread uses the shared names and TLS sessions, so they need no locks. */
    http->share = curl_share_init();
    if (!http->share)
        return pal_no_memory(err);
    curl_share_setopt(http->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
    curl_share_setopt(http->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    return PAL_OK;
}

pal_status pal_http_start(pal_http *http, const pal_http_request *request,
        const pal_http_events *events, void *user, pal_http_call **out_call, pal_error *err)
{
    assert(pal_loop_is_on(http->loop));
    pal_http_host *host = NULL;
    pal_error ours = {PAL_OK, ""};
    pal_http_call *call = pal_calloc(1, sizeof *call);
    pal_status status = PAL_NO_MEMORY;
    if (!call) {
        (void)pal_error_set(&ours, status, "out of memory");
        goto out;
    }
    call->http = http;
    call->events = *events;
    call->user = user;
    set_limits(call, request);
    status = make_ready(http, &ours);
    if (status == PAL_OK)
        status = pal_http_call_setup(call, request, &ours);
    if (status)
        goto out;
    host = find_host(http, request->url, &ours);
    status = ours.status;
    call->host = host;
    if (host &&
            !pal_timer_start(http->loop, &call->timer, deadline(call) - call->started_ms, on_timer))
        status = pal_no_memory(&ours);
out:
    if (host)
        pal_http_host_touch(http, host);
    if (status) {
        if (call)
            pal_http_call_free(call);
        return pal_error_set(err, status, "%s", ours.message);
    }
    host->calls++;
    enqueue(call);
    call->next = http->calls;
    if (http->calls)
        http->calls->previous = call;
    http->calls = call;
    *out_call = call;
    return PAL_OK;
}

/* ---- The client ---- */

static void free_parts(pal_http *http)
{
    if (http->share)
        curl_share_cleanup(http->share);
    pal_map_done(&http->hosts);
    pal_free(http->ca_file);
}

static bool copy_ca_file(pal_http *http, const char *path)
{
    /* The same search as that of the curl command. */
    if (!path)
        path = secure_getenv("SSL_CERT_FILE");
    if (!path || !*path)
        return true;
    size_t size = strlen(path) + 1;
    http->ca_file = pal_malloc(size);
    if (http->ca_file)
        memcpy(http->ca_file, path, size);
    return http->ca_file != NULL;
}

pal_status pal_http_open(
        pal_loop *loop, const pal_http_options *options, pal_http **out_http, pal_error *err)
{
    static const pal_http_options defaults;
    options = options ? options : &defaults;
    pal_http *http = pal_calloc(1, sizeof *http);
    if (!http)
        return pal_no_memory(err);
    http->loop = loop;
    http->connections_max = options->connections_max;
    http->calls_max = options->calls_max;
    http->idle_max =
            options->idle_connections_max ? options->idle_connections_max : IDLE_CONNECTIONS;
    if (!copy_ca_file(http, options->ca_file)) {
        free_parts(http);
        pal_free(http);
        return pal_no_memory(err);
    }
    *out_http = http;
    return PAL_OK;
}

void pal_http_close(pal_http *http)
{
    if (!http)
        return;
    assert(pal_loop_is_on(http->loop) && !http->in_curl);
    while (http->calls)
        pal_http_cancel(http->calls);
    look_at_hosts(http);
    pal_http_multi_close_all(http);
    free_parts(http);
    http->closed = true;
    if (!http->posted)
        pal_free(http);
}
