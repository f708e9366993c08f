/* http_unfinished.c - replaces the response of libmicrohttpd to requests that it refuses by
 * itself.
 *
 * libmicrohttpd responds with HTML to a request that it cannot parse. Version 0.9.75 sends two
 * heads for a wrong length, and 500 for a long chunk extension. It has no hook for this, but it
 * first writes a log line, on the connection's thread. The line does not name the connection.
 *
 * So every thread keeps a list of its incomplete requests and looks for the refused request there.
 * It is the only request whose complete head was not passed to us yet, or the only request in the
 * matching phase. The response is written past libmicrohttpd, and nothing more can be written to
 * the connection afterwards. If several requests match, or if the request line itself is malformed,
 * the client gets the response of libmicrohttpd. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "base/memory.h"
#include "server/http/http_internal.h"

struct pal_unfinished {
    struct pal_unfinished *next; /* the next list of the listener */
    pal_exchange *first;
};

static _Thread_local struct pal_unfinished *own;

/* ---- The list ---- */

static struct pal_unfinished *list_of_thread(pal_listener *listener)
{
    if (own)
        return own;
    own = pal_calloc(1, sizeof *own);
    if (!own)
        return NULL;
    pthread_mutex_lock(&listener->lock);
    own->next = listener->unfinished;
    listener->unfinished = own;
    pthread_mutex_unlock(&listener->lock);
    return own;
}

void pal_unfinished_add(pal_exchange *x)
{
    struct pal_unfinished *list = list_of_thread(x->listener);
    if (!list)
        return;
    x->unfinished = list;
    x->later = list->first;
    if (x->later)
        x->later->earlier = x;
    list->first = x;
}

void pal_unfinished_remove(pal_exchange *x)
{
    if (!x->unfinished)
        return;
    if (x->earlier)
        x->earlier->later = x->later;
    else
        x->unfinished->first = x->later;
    if (x->later)
        x->later->earlier = x->earlier;
    x->unfinished = NULL;
    x->earlier = x->later = NULL;
}

void pal_unfinished_free(pal_listener *listener)
{
    while (listener->unfinished) {
        struct pal_unfinished *next = listener->unfinished->next;
        pal_free(listener->unfinished);
        listener->unfinished = next;
    }
}

/* ---- Finding the refused request ---- */

/* libmicrohttpd reports the size of a head only when the head is complete. */
static bool has_whole_head(const pal_exchange *x)
{
    return x->phase == PAL_EXCHANGE_PHASE_HEAD &&
            MHD_get_connection_info(x->connection->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
}

static pal_exchange *find(bool is_body, bool is_head_whole)
{
    pal_exchange *found = NULL;
    for (pal_exchange *x = own ? own->first : NULL; x; x = x->later) {
        bool is_meant = is_body ? x->phase == PAL_EXCHANGE_PHASE_BODY && x->is_chunked
                : is_head_whole ? has_whole_head(x)
                                : x->phase == PAL_EXCHANGE_PHASE_HEAD;
        if (is_meant && found)
            return NULL;
        if (is_meant)
            found = x;
    }
    return found;
}

void pal_unfinished_refuse(unsigned code, const char *message)
{
    static const char length[] = "the length of the body is ambiguous; send exactly one "
                                 "Content-Length or one 'Transfer-Encoding: chunked'";
    pal_exchange *x = NULL;
    const char *why = NULL;
    if (strstr(message, "Content-Length")) {
        x = find(false, true);
        why = code == 413 ? "the body is longer than server.body_bytes_max" : length;
    } else if (strstr(message, "chunk") || code == 500) {
        x = find(true, false);
        why = code == 413 ? "the body is longer than server.body_bytes_max"
                          : "the chunks of the body are malformed";
        code = code == 500 ? 400 : code;
    } else if (code == 431) {
        x = find(false, false);
        why = "the headers are longer than server.header_bytes_max";
    } else if (code == 400) {
        x = find(false, true);
        why = "the request is malformed";
    }
    if (!x || x->listener->is_closing)
        return;
    (void)pal_request_refuse_raw(x, code, why);
    shutdown(x->connection->fd, SHUT_WR);
}
