/* server_http_address.c - how many connections each address has, so that one client alone can't
 * take all that there are. Addresses of IPv6 are counted by their first 64 bits, since one client
 * has all others of those. A trusted proxy stands for many clients and is not counted.
 *
 * Threads: any; under the listener's lock. */
#include <arpa/inet.h>
#include <string.h>
#include "base/memory.h"
#include "server/server_http_inside.h"

struct pal_address {
    uint64_t connections;
    char name[INET6_ADDRSTRLEN]; /* its key in the map */
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
static struct pal_address *find(pal_listener *listener, const char *name)
{
    struct pal_address *address = pal_map_find(&listener->addresses, pal_str_of(name));
    if (address)
        return address;
    address = pal_calloc(1, sizeof *address);
    if (!address)
        return NULL;
    memcpy(address->name, name, strlen(name) + 1);
    if (pal_map_set(&listener->addresses, pal_str_of(address->name), address) == PAL_OK)
        return address;
    pal_free(address);
    return NULL;
}

bool pal_address_enter(pal_connection *connection)
{
    pal_listener *listener = connection->listener;
    char name[INET6_ADDRSTRLEN];
    pal_str peer = pal_str_of(connection->peer);
    if (pal_peer_is_trusted(listener->proxies, listener->proxies_len, peer))
        return true;
    pal_peer_block(peer, name);
    pthread_mutex_lock(&listener->lock);
    struct pal_address *address = find(listener, name);
    uint64_t len = address ? ++address->connections : 0;
    pthread_mutex_unlock(&listener->lock);
    connection->address = address;
    if (len > listener->address_max)
        connection->crowd = "too many connections from this address; try again";
    return address && len <= (uint64_t)listener->address_max + PAL_SERVER_ADDRESS_SPARE;
}

void pal_address_leave(pal_connection *connection)
{
    pal_listener *listener = connection->listener;
    struct pal_address *address = connection->address;
    if (!address)
        return;
    pthread_mutex_lock(&listener->lock);
    bool is_last = --address->connections == 0;
    if (is_last)
        pal_map_remove(&listener->addresses, pal_str_of(address->name));
    pthread_mutex_unlock(&listener->lock);
    if (is_last)
        pal_free(address);
}
