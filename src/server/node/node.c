/* node.c - this process among the nodes. A thread renews the record of this process, and reads the
 * records of the others every LOOK_MS, so that no request has to read them.
 *
 * A process that is alone renews its record rarely. When it finds another node, it renews the
 * record at once and then every PAL_NODE_RENEW_MS. The thread is not shared with other maintenance,
 * because a long sweep must not make the node look dead.
 *
 * Locks: `lock` protects the list and the flags. Only the thread writes the record, except before
 * it starts and after it has ended. */
#include "server/node/node.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/server_limits.h"

#define LOOK_MS 2000
#define HOST_SIZE 256

struct pal_nodes {
    pal_server *server;
    pal_node own;
    char address[PAL_NODE_ADDRESS_SIZE];
    _Atomic uint16_t slot;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_stopping; /* the thread must end */
    bool is_leaving;
    pal_arena *arena; /* has the list */
    pal_node *list;   /* without this process */
    size_t len;
    size_t next; /* the position where pal_nodes_find_any() continues */
};

/* ---- The record of this process ---- */

static bool take_slot(pal_nodes *nodes, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_status status = arena ? pal_node_claim(nodes->server->store, arena, &nodes->own, err)
                              : pal_no_memory(err);
    pal_arena_free(arena);
    if (status != PAL_OK)
        return false;
    atomic_store(&nodes->slot, (uint16_t)nodes->own.slot);
    pal_runtime_set_slot(nodes->server->runtime, (uint16_t)nodes->own.slot);
    return true;
}

static void renew(pal_nodes *nodes)
{
    pal_error err = {0};
    pal_status status = pal_node_write(nodes->server->store, &nodes->own, &err);
    /* This process did not renew its record for a day, or a write was reported as failed although
     * it was made. */
    if (status == PAL_CONFLICT && take_slot(nodes, &err))
        return;
    if (status != PAL_OK)
        pal_log(PAL_LOG_WARN, "could not renew the record of this node: %s", err.message);
}

/* ---- The other nodes ---- */

/* Returns whether another node is running or stopping. Can be called from any thread. */
static bool look(pal_nodes *nodes)
{
    pal_error err;
    pal_node *list = NULL;
    size_t len = 0, kept = 0;
    bool has_others = false;
    pal_arena *arena = pal_arena_new(0);
    if (!arena || pal_node_list(nodes->server->store, arena, &list, &len, &err) != PAL_OK) {
        pal_arena_free(arena);
        return pal_nodes_has_others(nodes); /* only nodes that are known so far */
    }
    for (size_t i = 0; i < len; i++) {
        if (list[i].slot == atomic_load(&nodes->slot))
            continue;
        has_others = has_others || list[i].state <= PAL_NODE_STOPPING;
        list[kept++] = list[i];
    }
    pthread_mutex_lock(&nodes->lock);
    pal_arena *old = nodes->arena;
    nodes->arena = arena;
    nodes->list = list;
    nodes->len = kept;
    pthread_mutex_unlock(&nodes->lock);
    pal_arena_free(old);
    return has_others;
}

/* Waits up to LOOK_MS. False: the thread must end. */
static bool wait_tick(pal_nodes *nodes)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += LOOK_MS / 1000;
    pthread_mutex_lock(&nodes->lock);
    bool was_leaving = nodes->own.state == PAL_NODE_STOPPING;
    while (!nodes->is_stopping && nodes->is_leaving == was_leaving &&
            pthread_cond_timedwait(&nodes->changed, &nodes->lock, &until) == 0)
        ;
    bool go_on = !nodes->is_stopping;
    if (nodes->is_leaving)
        nodes->own.state = PAL_NODE_STOPPING;
    pthread_mutex_unlock(&nodes->lock);
    return go_on;
}

static void *run(void *user)
{
    pal_nodes *nodes = user;
    pal_node_state written = nodes->own.state;
    int64_t renewed_us = pal_clock_monotonic_us();
    do {
        uint32_t every = look(nodes) ? PAL_NODE_RENEW_MS : PAL_NODE_ALONE_RENEW_MS;
        int64_t now_us = pal_clock_monotonic_us();
        /* A tick may come late, and the next one must not be too late. */
        bool is_due = now_us - renewed_us >= ((int64_t)every - LOOK_MS) * 1000;
        if (!is_due && every >= nodes->own.renew_ms && nodes->own.state == written)
            continue;
        nodes->own.renew_ms = every;
        written = nodes->own.state;
        renew(nodes);
        renewed_us = now_us;
    } while (wait_tick(nodes));
    return NULL;
}

/* ---- The address ---- */

/* Writes the address that other nodes use: the configured one, or the one that the server listens
 * on. An address that means every interface is replaced by the name of this machine. */
static void find_address(pal_nodes *nodes)
{
    const pal_config_server *config = &nodes->server->config->server;
    pal_listener *listener = nodes->server->listener;
    pal_str host = config->listen;
    char name[HOST_SIZE] = "localhost";
    if (config->advertise.len) {
        size_t len = config->advertise.len;
        while (len && config->advertise.data[len - 1] == '/')
            len--;
        snprintf(nodes->address, sizeof nodes->address, "%.*s", (int)len, config->advertise.data);
        return;
    }
    while (host.len && host.data[host.len - 1] != ':')
        host.len--;
    host.len = host.len ? host.len - 1 : 0;
    if (pal_str_is(host, "0.0.0.0") || pal_str_is(host, "[::]") || host.len == 0) {
        (void)gethostname(name, sizeof name - 1);
        host = pal_str_of(name);
    }
    snprintf(nodes->address, sizeof nodes->address, "%s://%.*s:%u",
            pal_listener_is_tls(listener) ? "https" : "http", PAL_STR_ARG(host),
            (unsigned)pal_listener_port(listener));
}

/* ---- Opening and closing ---- */

pal_status pal_nodes_open(pal_server *server, pal_nodes **out_nodes, pal_error *err)
{
    pthread_condattr_t attr;
    pal_nodes *nodes = pal_calloc(1, sizeof *nodes);
    if (!nodes)
        return pal_no_memory(err);
    nodes->server = server;
    nodes->own = (pal_node){.owner = pal_runtime_name(server->runtime),
            .release = pal_str_of(server->version),
            .started_at = server->started_at,
            .renew_ms = PAL_NODE_RENEW_MS};
    pthread_mutex_init(&nodes->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&nodes->changed, &attr);
    pthread_condattr_destroy(&attr);
    *out_nodes = nodes;
    return take_slot(nodes, err) ? PAL_OK : err->status;
}

pal_status pal_nodes_start(pal_nodes *nodes, pal_error *err)
{
    find_address(nodes);
    nodes->own.address = pal_str_of(nodes->address);
    pal_status status = pal_node_write(nodes->server->store, &nodes->own, err);
    if (status != PAL_OK)
        return status;
    if (pthread_create(&nodes->thread, NULL, run, nodes) != 0)
        return pal_error_set(err, PAL_NO_MEMORY, "could not start a thread");
    nodes->has_thread = true;
    pal_log(PAL_LOG_INFO, "node %u at %s", (unsigned)nodes->own.slot, nodes->address);
    return PAL_OK;
}

void pal_nodes_leave(pal_nodes *nodes)
{
    if (!nodes)
        return;
    pthread_mutex_lock(&nodes->lock);
    nodes->is_leaving = true;
    pthread_cond_signal(&nodes->changed);
    pthread_mutex_unlock(&nodes->lock);
}

void pal_nodes_close(pal_nodes *nodes)
{
    pal_error err;
    if (!nodes)
        return;
    pthread_mutex_lock(&nodes->lock);
    nodes->is_stopping = true;
    pthread_cond_signal(&nodes->changed);
    pthread_mutex_unlock(&nodes->lock);
    if (nodes->has_thread)
        pthread_join(nodes->thread, NULL);
    nodes->own.state = PAL_NODE_STOPPED;
    if (nodes->own.version && pal_node_write(nodes->server->store, &nodes->own, &err) != PAL_OK)
        pal_log(PAL_LOG_WARN, "could not write that this node has stopped: %s", err.message);
    pal_runtime_set_slot(nodes->server->runtime, 0);
    pal_arena_free(nodes->arena);
    pthread_cond_destroy(&nodes->changed);
    pthread_mutex_destroy(&nodes->lock);
    pal_free(nodes);
}

/* ---- Questions ---- */

uint16_t pal_nodes_slot(const pal_nodes *nodes)
{
    return nodes ? atomic_load(&nodes->slot) : 0;
}

size_t pal_nodes_count(pal_nodes *nodes, pal_node_state state)
{
    size_t count = 0;
    if (!nodes)
        return 0;
    pthread_mutex_lock(&nodes->lock);
    for (size_t i = 0; i < nodes->len; i++)
        count += nodes->list[i].state == state;
    count += state == (nodes->is_leaving ? PAL_NODE_STOPPING : PAL_NODE_RUNNING);
    pthread_mutex_unlock(&nodes->lock);
    return count;
}

bool pal_nodes_has_others(pal_nodes *nodes)
{
    bool is_running = false;
    if (!nodes)
        return false;
    pthread_mutex_lock(&nodes->lock);
    for (size_t i = 0; i < nodes->len; i++)
        is_running = is_running || nodes->list[i].state == PAL_NODE_RUNNING;
    pthread_mutex_unlock(&nodes->lock);
    return is_running;
}

/* Copies the address of a node that accepts requests. The lock must be held. */
static bool use(const pal_node *node, char out_address[static PAL_NODE_ADDRESS_SIZE])
{
    if (node->state > PAL_NODE_STOPPING || node->address.len == 0 ||
            node->address.len >= PAL_NODE_ADDRESS_SIZE)
        return false;
    memcpy(out_address, node->address.data, node->address.len);
    out_address[node->address.len] = '\0';
    return true;
}

bool pal_nodes_find(pal_nodes *nodes, uint16_t slot, pal_str owner,
        char out_address[static PAL_NODE_ADDRESS_SIZE])
{
    bool is_found = false;
    if (!nodes)
        return false;
    pthread_mutex_lock(&nodes->lock);
    for (size_t i = 0; i < nodes->len && !is_found; i++) {
        const pal_node *node = &nodes->list[i];
        if (slot ? node->slot == slot : pal_str_equal(node->owner, owner))
            is_found = use(node, out_address);
    }
    pthread_mutex_unlock(&nodes->lock);
    return is_found;
}

bool pal_nodes_find_any(pal_nodes *nodes, char out_address[static PAL_NODE_ADDRESS_SIZE])
{
    bool is_found = false;
    if (!nodes)
        return false;
    pthread_mutex_lock(&nodes->lock);
    for (size_t i = 0; i < nodes->len && !is_found; i++) {
        const pal_node *node = &nodes->list[nodes->next++ % nodes->len];
        is_found = node->state == PAL_NODE_RUNNING && use(node, out_address);
    }
    pthread_mutex_unlock(&nodes->lock);
    return is_found;
}

/* Mixes a session and a slot. The node with the largest value is the home of the session, so a node
 * that comes or goes moves only its own share of the sessions. */
static uint64_t weigh(pal_id session, uint32_t slot)
{
    uint64_t h = 0xcbf29ce484222325u ^ slot;
    for (size_t i = 0; i < sizeof session.bytes; i++)
        h = (h ^ session.bytes[i]) * 0x100000001b3u;
    h = (h ^ (h >> 32)) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

bool pal_nodes_find_home(
        pal_nodes *nodes, pal_id session, char out_address[static PAL_NODE_ADDRESS_SIZE])
{
    bool is_found = false;
    if (!nodes)
        return false;
    pthread_mutex_lock(&nodes->lock);
    uint64_t best = nodes->is_leaving ? 0 : weigh(session, atomic_load(&nodes->slot));
    for (size_t i = 0; i < nodes->len; i++) {
        const pal_node *node = &nodes->list[i];
        uint64_t weight = weigh(session, node->slot);
        if (node->state == PAL_NODE_RUNNING && weight > best && use(node, out_address)) {
            best = weight;
            is_found = true;
        }
    }
    pthread_mutex_unlock(&nodes->lock);
    return is_found;
}

void pal_nodes_refresh(pal_nodes *nodes)
{
    if (nodes)
        (void)look(nodes);
}
