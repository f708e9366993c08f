/* http_share.c - the share of all connections that one address gets, and the share of all streams
 * that one key gets. There are connections_max places, and one address gets no more than its share,
 * so that one client alone cannot take all places. Streams are counted the same way, by key. IPv6
 * addresses are counted by their first 64 bits, because one client has all addresses with these
 * bits. A trusted proxy represents many clients and has no share.
 *
 * If no place is left, the connection that has been idle longest loses its place and is closed. If
 * the share of the address is full, this is a connection of the same address; otherwise it can be
 * any connection. If no connection is idle, the new connection gets no place. It gets a 503, is
 * closed soon, and counts in neither number.
 *
 * Threads: any; the functions take the listener's lock. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "base/memory.h"
#include "server/http/http_internal.h"

struct pal_share {
    uint64_t len;             /* places or streams in use */
    uint64_t len_without;     /* open connections without a place */
    char name[PAL_PEER_SIZE]; /* the key in the map */
};

/* Call it under the lock. NULL: out of memory. */
static struct pal_share *find(pal_map *shares, const char *name)
{
    struct pal_share *share = pal_map_find(shares, pal_str_of(name));
    if (share)
        return share;
    share = pal_calloc(1, sizeof *share);
    if (!share)
        return NULL;
    snprintf(share->name, sizeof share->name, "%s", name);
    if (pal_map_set(shares, pal_str_of(share->name), share) == PAL_OK)
        return share;
    pal_free(share);
    return NULL;
}

/* Call it under the lock. */
static void drop_unused(pal_map *shares, struct pal_share *share)
{
    if (share->len || share->len_without)
        return;
    pal_map_remove(shares, pal_str_of(share->name));
    pal_free(share);
}

/* ---- Connections ---- */

static void link_newest(pal_listener *listener, pal_connection *connection)
{
    connection->prev = NULL;
    connection->next = listener->connections;
    if (connection->next)
        connection->next->prev = connection;
    else
        listener->oldest = connection;
    listener->connections = connection;
}

static void unlink_connection(pal_listener *listener, pal_connection *connection)
{
    if (connection->prev)
        connection->prev->next = connection->next;
    else
        listener->connections = connection->next;
    if (connection->next)
        connection->next->prev = connection->prev;
    else
        listener->oldest = connection->prev;
}

static void take_place(pal_connection *connection)
{
    connection->has_place = true;
    connection->listener->places_len++;
    if (connection->address)
        connection->address->len++;
}

static void leave_place(pal_connection *connection)
{
    connection->has_place = false;
    connection->listener->places_len--;
    if (connection->address)
        connection->address->len--;
}

/* A client keeps its connection for the next request. For PAL_SERVER_KEPT_MS that does not count as
 * idle. */
static bool is_idle(pal_connection *connection, int64_t now_us)
{
    int64_t deadline_us = atomic_load(&connection->deadline_us);
    int64_t idle_us = now_us - (deadline_us - connection->listener->config.idle_ms * 1000);
    return deadline_us && !atomic_load(&connection->has_request) &&
            (!atomic_load(&connection->was_used) || idle_us >= PAL_SERVER_KEPT_MS * 1000);
}

/* Finds the connection that has been idle longest, among the oldest. The inspected connections
 * become the newest ones, so that busy connections don't hide idle ones from the next search. */
static pal_connection *find_idle(pal_listener *listener, const struct pal_share *share)
{
    int64_t now_us = pal_clock_monotonic_us();
    pal_connection *found = NULL, *last = listener->connections;
    for (int i = 0; i < PAL_SERVER_IDLE_LOOKS_MAX && listener->oldest; i++) {
        pal_connection *c = listener->oldest;
        if (c->has_place && (!share || c->address == share) && is_idle(c, now_us) &&
                (!found || atomic_load(&c->deadline_us) < atomic_load(&found->deadline_us)))
            found = c;
        unlink_connection(listener, c);
        link_newest(listener, c);
        if (c == last)
            break;
    }
    return found;
}

/* Closes an idle connection. False: none is idle, or its request has just arrived. */
static bool make_place(pal_listener *listener, const struct pal_share *share)
{
    pal_connection *c = find_idle(listener, share);
    int64_t deadline_us = c ? atomic_load(&c->deadline_us) : 0;
    if (deadline_us == 0 || atomic_load(&c->has_request) ||
            !atomic_compare_exchange_strong(
                    &c->deadline_us, &deadline_us, pal_clock_monotonic_us()))
        return false;
    leave_place(c);
    if (c->address)
        c->address->len_without++;
    atomic_store(&c->is_cut, true);
    shutdown(c->fd, SHUT_RDWR);
    return true;
}

/* Gives the connection a place, or sets the reason why there is none. Call it under the lock. */
static void settle(pal_connection *connection)
{
    pal_listener *listener = connection->listener;
    struct pal_share *share = connection->address;
    if (share && share->len >= listener->address_max && !make_place(listener, share))
        connection->crowd = "too many connections from this address; retry later";
    else if (listener->places_len >= listener->config.connections_max &&
            !make_place(listener, NULL))
        connection->crowd = "too many connections; retry later";
    else
        take_place(connection);
}

bool pal_share_enter(pal_connection *connection)
{
    pal_listener *listener = connection->listener;
    pal_str peer = pal_str_of(connection->peer);
    bool is_proxy = pal_peer_is_trusted(listener->proxies, listener->proxies_len, peer);
    bool is_welcome = true;
    char name[PAL_PEER_SIZE];
    pal_peer_block(peer, name);
    pthread_mutex_lock(&listener->lock);
    connection->address = is_proxy ? NULL : find(&listener->addresses, name);
    if (is_proxy || connection->address)
        settle(connection);
    else
        is_welcome = false;
    if (connection->address && !connection->has_place)
        is_welcome = ++connection->address->len_without <= PAL_SERVER_ADDRESS_SPARE;
    link_newest(listener, connection);
    pthread_mutex_unlock(&listener->lock);
    return is_welcome;
}

void pal_share_leave(pal_connection *connection)
{
    pal_listener *listener = connection->listener;
    struct pal_share *share = connection->address;
    pthread_mutex_lock(&listener->lock);
    unlink_connection(listener, connection);
    if (connection->has_place)
        leave_place(connection);
    else if (share)
        share->len_without--;
    if (share)
        drop_unused(&listener->addresses, share);
    pthread_mutex_unlock(&listener->lock);
}

/* ---- Streams ---- */

/* Counts one more stream; returns the new number. */
static uint64_t enter(pal_listener *listener, const char *name, struct pal_share **out_share)
{
    pthread_mutex_lock(&listener->lock);
    struct pal_share *share = find(&listener->owners, name);
    uint64_t len = share ? ++share->len : 0;
    pthread_mutex_unlock(&listener->lock);
    *out_share = share;
    return len;
}

static void leave(pal_listener *listener, struct pal_share *share)
{
    if (!share)
        return;
    pthread_mutex_lock(&listener->lock);
    share->len--;
    drop_unused(&listener->owners, share);
    pthread_mutex_unlock(&listener->lock);
}

bool pal_share_claim_stream(pal_exchange *x, struct pal_share **out_owner)
{
    pal_listener *listener = x->listener;
    char name[PAL_PEER_SIZE];
    *out_owner = NULL;
    if (x->owner.len && x->owner_streams_max) {
        snprintf(name, sizeof name, "%.*s", PAL_STR_ARG(x->owner));
        uint64_t len = enter(listener, name, out_owner);
        x->is_owner_full = len > x->owner_streams_max;
    }
    if (!x->is_owner_full &&
            atomic_fetch_add(&listener->streams_len, 1) < listener->limits.streams_max)
        return true;
    if (!x->is_owner_full)
        atomic_fetch_sub(&listener->streams_len, 1);
    leave(listener, *out_owner);
    *out_owner = NULL;
    return false;
}

void pal_share_release_stream(pal_listener *listener, struct pal_share *owner)
{
    leave(listener, owner);
    atomic_fetch_sub(&listener->streams_len, 1);
    pal_listener_notify(listener);
}
