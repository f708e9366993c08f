/* net_http.c - the client: when a call can start, which multi handle runs it, and how it ends.
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
 * libuv watches the sockets and timers of libcurl's multi handles. A client has several of them:
 * libcurl examines every connection to a host when it looks for one to use, so many calls to one
 * host would make each start more expensive. A multi therefore takes a limited number of calls;
 * further calls go to the next multi. While there are few calls, they share one multi and its idle
 * connections.
 *
 * libcurl must not be called from its own callbacks. If a callback starts or cancels a call, this
 * is noted, and done when libcurl is off the stack. A canceled call gets no more callbacks from
 * that moment on. */
#include "net/net_http.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/memory.h"
#include "net/net_http_internal.h"
#include "net/net_loop_internal.h"

#define FINDING_MAX 16  /* calls of one host that can look up its name at the same time */
#define OPENING_MAX 256 /* calls of one host that can look up its name or connect at the same
                           time */
#define IDLE_CONNECTIONS 64
#define CONNECT_MS 10000
#define IDLE_MS 120000
#define HOST_NAME_MAX_LEN 4096
#define CALLS_MAX 256   /* calls of one multi handle */
#define READS_MAX 8     /* reads of one socket before the others are served */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void init_curl(void)
{
    curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- Multis ---- */

static void finish(pal_http_call *call, CURLcode result);
static void settle(pal_http *http);

struct pal_http_multi {
    pal_http *http;
    pal_http_multi *next;
    CURLM *curl;
    uv_timer_t timer;
    uint32_t calls;
};

/* A socket that libcurl watches. It is freed one round of the loop after its multi. */
typedef struct socket_watch {
    uv_poll_t poll;
    pal_http_multi *multi;
    curl_socket_t fd;
    int events;
} socket_watch;

static void tell_ended(pal_http_multi *multi)
{
    int left;
    for (CURLMsg *message; (message = curl_multi_info_read(multi->curl, &left)) != NULL;) {
        pal_http_call *call = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        /* The message is freed together with its call. */
        CURLcode result = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
        finish(call, result);
    }
}

static void drive(pal_http_multi *multi, curl_socket_t fd, int events)
{
    pal_http *http = multi->http;
    int running;
    assert(!http->in_curl);
    http->in_curl = true;
    http->lap++;
    http->lap_ms = pal_clock_monotonic_ms();
    http->lap_bytes = 0;
    curl_multi_socket_action(multi->curl, fd, events, &running);
    http->in_curl = false;
    settle(http);
    tell_ended(multi);
}

/* libcurl reads once per notification. If its buffer was full, there is usually more to read, and
 * another round of the loop costs more than the read. */
static void read_on(uv_poll_t *poll)
{
    const socket_watch *watch = poll->data;
    for (int reads = 1; reads < READS_MAX && !uv_is_closing((uv_handle_t *)poll) &&
            (watch->events & UV_READABLE) &&
            watch->multi->http->lap_bytes > PAL_HTTP_RECEIVE_BYTES / 2;
            reads++)
        drive(watch->multi, watch->fd, CURL_CSELECT_IN);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    socket_watch *watch = poll->data;
    int flags = 0;
    if (status < 0) {
        /* libuv has stopped watching the socket. There may be bytes to read before the error, and
         * libcurl finds the error by itself. */
        uv_poll_start(poll, watch->events, on_ready);
        flags = CURL_CSELECT_IN;
    }
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    drive(watch->multi, watch->fd, flags);
    read_on(poll);
}

static void on_multi_timer(uv_timer_t *timer)
{
    drive(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int set_timer(CURLM *curl, long timeout_ms, void *user)
{
    pal_http_multi *multi = user;
    (void)curl;
    if (timeout_ms < 0)
        uv_timer_stop(&multi->timer);
    else
        uv_timer_start(&multi->timer, on_multi_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

static void free_watch(uv_handle_t *handle)
{
    pal_free(handle->data);
}

static socket_watch *new_watch(pal_http_multi *multi, curl_socket_t fd)
{
    socket_watch *watch = pal_calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    if (uv_poll_init_socket(&multi->http->loop->uv, &watch->poll, fd)) {
        pal_free(watch);
        return NULL;
    }
    watch->poll.data = watch;
    watch->multi = multi;
    watch->fd = fd;
    curl_multi_assign(multi->curl, fd, watch);
    return watch;
}

static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *socket_user)
{
    socket_watch *watch = socket_user;
    pal_http_multi *multi = user;
    pal_http_call *call = NULL;
    if (what == CURL_POLL_REMOVE) {
        if (watch)
            uv_close((uv_handle_t *)&watch->poll, free_watch);
        return 0;
    }
    if (!watch)
        watch = new_watch(multi, fd);
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    if (watch) {
        watch->events = events;
        if (uv_poll_start(&watch->poll, events, on_ready) == 0)
            return 0;
    }
    /* A failure here would end every call of the multi, so only this call fails. */
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &call);
    if (call)
        pal_http_doom(call, PAL_NO_MEMORY);
    return 0;
}

static void free_multi(uv_handle_t *handle)
{
    pal_free(handle->data);
}

static pal_http_multi *new_multi(pal_http *http)
{
    pal_http_multi *multi = pal_calloc(1, sizeof *multi);
    if (!multi)
        return NULL;
    multi->curl = curl_multi_init();
    if (!multi->curl) {
        pal_free(multi);
        return NULL;
    }
    multi->http = http;
    uv_timer_init(&http->loop->uv, &multi->timer);
    multi->timer.data = multi;
    curl_multi_setopt(multi->curl, CURLMOPT_SOCKETFUNCTION, watch_socket);
    curl_multi_setopt(multi->curl, CURLMOPT_SOCKETDATA, multi);
    curl_multi_setopt(multi->curl, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(multi->curl, CURLMOPT_TIMERDATA, multi);
    return multi;
}

static void close_multis(pal_http *http)
{
    for (pal_http_multi *next, *multi = http->multis; multi; multi = next) {
        assert(multi->calls == 0);
        next = multi->next;
        curl_multi_cleanup(multi->curl);
        uv_close((uv_handle_t *)&multi->timer, free_multi);
    }
    http->multis = NULL;
}

/* Returns the first multi with room. A few calls then share one multi and its connections. */
static pal_http_multi *find_multi(pal_http *http)
{
    pal_http_multi **place = &http->multis;
    while (*place && (*place)->calls >= CALLS_MAX)
        place = &(*place)->next;
    if (!*place)
        *place = new_multi(http);
    return *place;
}

/* libcurl counts connections in use as cached connections. */
static void count(pal_http_multi *multi, int change)
{
    multi->calls += (uint32_t)change;
    curl_multi_setopt(
            multi->curl, CURLMOPT_MAXCONNECTS, (long)multi->calls + (long)multi->http->idle_max);
}

static pal_status add_to_multi(pal_http_call *call)
{
    pal_http_multi *multi = find_multi(call->http);
    assert(!call->http->in_curl && !call->multi);
    if (!multi)
        return PAL_NO_MEMORY;
    count(multi, 1);
    CURLMcode rc = curl_multi_add_handle(multi->curl, call->easy);
    if (rc) {
        count(multi, -1);
        return rc == CURLM_OUT_OF_MEMORY ? PAL_NO_MEMORY : PAL_IO;
    }
    call->multi = multi;
    return PAL_OK;
}

static void remove_from_multi(pal_http_call *call)
{
    assert(!call->http->in_curl);
    if (!call->multi)
        return;
    curl_multi_remove_handle(call->multi->curl, call->easy);
    count(call->multi, -1);
    call->multi = NULL;
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
    call->given_ms = pal_clock_monotonic_ms();
    host->running++;
    http->running++;
    host->finding++;
    host->opening++;
    pal_status status = add_to_multi(call);
    if (status) {
        call->failure = status;
        finish(call, CURLE_FAILED_INIT);
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

/* Marks a host to be checked as soon as libcurl is off the stack, or soon after. */
static void touch_host(pal_http *http, pal_http_host *host)
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
        touch_host(call->http, call->host);
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
        finish(call, CURLE_ABORTED_BY_CALLBACK);
    }
}

/* Does everything that had to wait until libcurl was off the stack. */
static void settle(pal_http *http)
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
    http->lap_ms = pal_clock_monotonic_ms();
    http->in_curl = true;
    for (pal_http_call *call = http->calls; call; call = call->next) {
        if (!call->paused || call->doomed)
            continue;
        call->paused = false;
        curl_easy_pause(call->easy, CURLPAUSE_CONT);
    }
    http->in_curl = false;
    settle(http);
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
        call->host->moved_ms = pal_clock_monotonic_ms();
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
            touch_host(http, host);
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
        touch_host(call->http, host);
}

static void undoom(pal_http_call *call)
{
    pal_http_call **place = &call->http->doomed;
    while (*place != call)
        place = &(*place)->doomed_next;
    *place = call->doomed_next;
}

/* Removes the call from all lists, calls `end` unless the call is silent, and frees it. */
static void finish(pal_http_call *call, CURLcode result)
{
    pal_http_end end;
    bool silent = call->silent;
    pal_http_events events = call->events;
    void *user = call->user;
    if (!silent)
        pal_http_call_describe(call, result, &end);
    if (call->doomed)
        undoom(call);
    pal_loop_timer_stop(call->http->loop, &call->timer);
    remove_from_multi(call);
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
        finish(call, CURLE_ABORTED_BY_CALLBACK);
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
    int64_t now = pal_clock_monotonic_ms();
    /* Waiting for a free connection does not count as a failure to connect. */
    if (call->stage == PAL_HTTP_WAITING && is_full(call->http, call->host))
        call->host->moved_ms = now;
    int64_t at = deadline(call);
    if (now >= at)
        call->failure = PAL_TIMEOUT;
    else if (!pal_loop_timer_start(call->http->loop, timer, at - now, on_timer))
        call->failure = PAL_NO_MEMORY;
    if (call->failure)
        finish(call, CURLE_OPERATION_TIMEDOUT);
}

void pal_http_sent(pal_http_call *call)
{
    pal_http_found(call);
    if (call->stage == PAL_HTTP_CONNECTING)
        leave_opening(call, true);
    call->stage = PAL_HTTP_SENT;
    call->heard_ms = call->http->lap_ms; /* called by libcurl, so a lap is running */
    if (call->host->first)
        touch_host(call->http, call->host);
    /* From here on the idle timeout counts, which may end sooner. The timer is running, so
     * restarting it cannot fail. */
    bool moved = pal_loop_timer_start(
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
    call->started_ms = call->heard_ms = pal_clock_monotonic_ms();
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
            !pal_loop_timer_start(
                    http->loop, &call->timer, deadline(call) - call->started_ms, on_timer))
        status = pal_no_memory(&ours);
out:
    if (host)
        touch_host(http, host);
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
    close_multis(http);
    free_parts(http);
    http->closed = true;
    if (!http->posted)
        pal_free(http);
}
