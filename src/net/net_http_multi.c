/* net_http_multi.c - a multi handle of libcurl on the loop: libuv watches its sockets and its
 * timer.
 *
 * A client has several of them. libcurl examines every connection to a host when it looks for one
 * to use, so many calls to one host would make each start more expensive. A multi therefore takes a
 * limited number of calls; further calls go to the next multi. While there are few calls, they
 * share one multi and its idle connections. On the loop. */
#include <assert.h>
#include "base/memory.h"
#include "net/net_http_internal.h"
#include "net/net_loop_internal.h"

#define CALLS_MAX 256 /* calls of one multi handle */
#define READS_MAX 8   /* reads of one socket before the others are served */

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
        pal_http_finish(call, result);
    }
}

static void drive(pal_http_multi *multi, curl_socket_t fd, int events)
{
    pal_http *http = multi->http;
    int running;
    assert(!http->in_curl);
    http->in_curl = true;
    http->lap++;
    http->lap_bytes = 0;
    curl_multi_socket_action(multi->curl, fd, events, &running);
    http->in_curl = false;
    pal_http_settle(http);
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

static void on_timer(uv_timer_t *timer)
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
        uv_timer_start(&multi->timer, on_timer, (uint64_t)timeout_ms, 0);
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

void pal_http_multi_close_all(pal_http *http)
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

pal_status pal_http_multi_add(pal_http_call *call)
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

void pal_http_multi_remove(pal_http_call *call)
{
    assert(!call->http->in_curl);
    if (!call->multi)
        return;
    curl_multi_remove_handle(call->multi->curl, call->easy);
    count(call->multi, -1);
    call->multi = NULL;
}
