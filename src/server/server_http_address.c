/* server_http_address.c - how many connections each address has, and how many streams each key, so
 * that one client alone can't take all that there are. Addresses of IPv6 are counted by their first
 * 64 bits, since one client has all others of those. A trusted proxy stands for many clients and is
 * not counted.
 *
 * Threads: any; under the listener's lock. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "server/server_http_inside.h"

struct pal_share {
    uint64_t len;
    char name[PAL_PEER_SIZE]; /* its key in the map */
};

_Static_assert(PAL_PEER_SIZE == INET6_ADDRSTRLEN, "an address fits");

void pal_peer_block(pal_str peer, char out[PAL_PEER_SIZE])
{
    struct in6_addr address;
    size_t len = peer.len < INET6_ADDRSTRLEN ? peer.len : INET6_ADDRSTRLEN - 1;
    if (len > 0)
        memcpy(out, peer.data, len);
    out[len] = 0;
    if (inet_pton(AF_INET6, out, &address) != 1)
        return;
    memset(&address.s6_addr[8], 0, 8);
    inet_ntop(AF_INET6, &address, out, INET6_ADDRSTRLEN);
}

/* Under the lock. NULL without memory. */
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

/* Takes one; returns how many there are now. */
static uint64_t enter(
        pal_listener *listener, pal_map *shares, const char *name, struct pal_share **out_share)
{
    pthread_mutex_lock(&listener->lock);
    struct pal_share *share = find(shares, name);
    uint64_t len = share ? ++share->len : 0;
    pthread_mutex_unlock(&listener->lock);
    *out_share = share;
    return len;
}

static void leave(pal_listener *listener, pal_map *shares, struct pal_share *share)
{
    if (!share)
        return;
    pthread_mutex_lock(&listener->lock);
    bool is_last = --share->len == 0;
    if (is_last)
        pal_map_remove(shares, pal_str_of(share->name));
    pthread_mutex_unlock(&listener->lock);
    if (is_last)
        pal_free(share);
}

bool pal_address_enter(pal_connection *connection)
{
    pal_listener *listener = connection->listener;
    char name[PAL_PEER_SIZE];
    pal_str peer = pal_str_of(connection->peer);
    if (pal_peer_is_trusted(listener->proxies, listener->proxies_len, peer))
        return true;
    pal_peer_block(peer, name);
    uint64_t len = enter(listener, &listener->addresses, name, &connection->address);
    if (len > listener->address_max)
        connection->crowd = "too many connections from this address; try again";
    return len && len <= (uint64_t)listener->address_max + PAL_SERVER_ADDRESS_SPARE;
}

void pal_address_leave(pal_connection *connection)
{
    leave(connection->listener, &connection->listener->addresses, connection->address);
}

/* ---- Streams ---- */

void pal_exchange_set_owner(pal_exchange *x, pal_str owner, uint32_t streams_max)
{
    x->owner = owner;
    x->owner_streams_max = streams_max;
}

bool pal_exchange_is_owner_full(const pal_exchange *x)
{
    return x->is_owner_full;
}

bool pal_streams_claim(pal_exchange *x, struct pal_share **out_owner)
{
    pal_listener *listener = x->listener;
    char name[PAL_PEER_SIZE];
    *out_owner = NULL;
    if (x->owner.len && x->owner_streams_max) {
        snprintf(name, sizeof name, "%.*s", PAL_STR_ARG(x->owner));
        uint64_t len = enter(listener, &listener->owners, name, out_owner);
        x->is_owner_full = len > x->owner_streams_max;
    }
    if (!x->is_owner_full &&
            atomic_fetch_add(&listener->streams_len, 1) < listener->limits.streams_max)
        return true;
    if (!x->is_owner_full)
        atomic_fetch_sub(&listener->streams_len, 1);
    leave(listener, &listener->owners, *out_owner);
    *out_owner = NULL;
    return false;
}

void pal_streams_release(pal_listener *listener, struct pal_share *owner)
{
    leave(listener, &listener->owners, owner);
    atomic_fetch_sub(&listener->streams_len, 1);
    pal_listener_tell(listener);
}
