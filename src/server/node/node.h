/* node.h - the nodes: server processes that share one store. Each has a record in the store with
 * its slot, a number that the ids of its turns contain, and with the address where the others reach
 * it.
 *
 * node_record.c reads and writes the records, node.c keeps this process's record up to date and
 * knows the others. */
#ifndef PAL_NODE_H
#define PAL_NODE_H

#include "base/json/json.h"
#include "server/server.h"

#define PAL_NODE_RENEW_MS 3000        /* time between renewals of a record */
#define PAL_NODE_ALONE_RENEW_MS 30000 /* the same, if no other node is there */
#define PAL_NODE_MISSES_MAX 4         /* a node that missed so many renewals is dead */
#define PAL_NODE_DEAD_MS (600 * 1000) /* after this time, a dead node counts as stopped */
/* A record, and with it the slot, stays reserved for so long after its last renewal. */
#define PAL_NODE_KEPT_MS (24 * 3600 * 1000)
#define PAL_NODE_SLOT_MAX 65535
#define PAL_NODE_ADDRESS_SIZE 512

typedef enum pal_node_state {
    PAL_NODE_RUNNING = 0,
    PAL_NODE_STOPPING = 1, /* takes no new requests, and ends its turns */
    PAL_NODE_STOPPED = 2,
    PAL_NODE_DEAD = 3, /* has not renewed its record, or its process on this machine is gone */
} pal_node_state;

const char *pal_node_state_name(pal_node_state state); /* "running" */

/* ---- Records (node_record.c) ---- */

typedef struct pal_node {
    uint32_t slot;
    pal_str address; /* "http://10.0.0.5:7077"; empty: the node does not accept requests yet */
    pal_str owner;   /* its name in leases (pal_runtime_name()) */
    pal_str release; /* the version of Palaver */
    int64_t started_at;
    int64_t seen_at;    /* time of the last renewal, by the store's clock */
    uint32_t renew_ms;  /* the next renewal comes after this time */
    pal_node_state state;
    uint64_t version; /* version of the record */
} pal_node;

/* Lists the nodes of the last PAL_NODE_KEPT_MS by slot. The result is in the arena. */
PAL_CHECKED pal_status pal_node_list(pal_store *store, pal_arena *arena, pal_node **out_nodes,
        size_t *out_len, pal_error *err);
/* Takes a free slot for the node and writes its record. Sets slot and version. */
PAL_CHECKED pal_status pal_node_claim(
        pal_store *store, pal_arena *arena, pal_node *node, pal_error *err);
/* Writes the record, whose time of the last renewal is then now. Sets version. PAL_CONFLICT:
 * another process has taken the slot. */
PAL_CHECKED pal_status pal_node_write(pal_store *store, pal_node *node, pal_error *err);
/* Writes the JSON form that `palaver node list --json` prints. */
void pal_node_put(const pal_node *node, pal_json_writer *writer);

/* ---- This process and the others (node.c) ---- */

typedef struct pal_nodes pal_nodes;

/* Takes a slot, and sets it in the server's runtime. */
PAL_CHECKED pal_status pal_nodes_open(pal_server *server, pal_nodes **out_nodes, pal_error *err);
/* Publishes the address of this process, and keeps the record and the list of nodes up to date from
 * now on. Call it when the server accepts requests. */
PAL_CHECKED pal_status pal_nodes_start(pal_nodes *nodes, pal_error *err);
/* The server stops: the record says so, and no other node passes new work to this process. */
void pal_nodes_leave(pal_nodes *nodes);
/* Writes that the process has stopped. Accepts NULL. */
void pal_nodes_close(pal_nodes *nodes);

/* The functions below can be called from any thread and accept NULL. */

uint16_t pal_nodes_slot(const pal_nodes *nodes);
/* Counts the nodes in a state, including this one. */
size_t pal_nodes_count(pal_nodes *nodes, pal_node_state state);
/* Finds the address of another node that runs or stops: by its slot, or if that is 0, by its name
 * in leases. False: there is no such node. */
bool pal_nodes_find(pal_nodes *nodes, uint16_t slot, pal_str owner,
        char out_address[static PAL_NODE_ADDRESS_SIZE]);
/* Finds the address of any other node that runs, in turn. */
bool pal_nodes_find_any(pal_nodes *nodes, char out_address[static PAL_NODE_ADDRESS_SIZE]);
/* Finds the address of the node where a session is at home: each session has one of the running
 * nodes, and all nodes find the same one while they know the same nodes. False: it is this one. */
bool pal_nodes_find_home(
        pal_nodes *nodes, pal_id session, char out_address[static PAL_NODE_ADDRESS_SIZE]);
/* Reads the records of the nodes now. Reads the store. */
void pal_nodes_refresh(pal_nodes *nodes);
/* Whether other nodes are running. */
bool pal_nodes_has_others(pal_nodes *nodes);

/* ---- Periodic work that one node does for all (node_duty.c) ---- */

/* Takes the duty for `ttl_ms`, or renews it. Returns true if this process must do the work: it has
 * the duty now, or no other node is there. Reads and writes the store. */
bool pal_duty_take(pal_server *server, const char *name, int64_t ttl_ms);

#endif
