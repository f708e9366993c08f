/* runtime.h - the private types of a runtime: writes, events, lanes and the runtime itself. turn.h
 * has those of a turn.
 *
 * Threads: everything here belongs to the loop and is used only there, unless a comment says
 * otherwise. A worker may use a turn while turn->work runs. Workers also read `options`, `store`
 * and `providers`, which never change after the runtime has opened. `lock` protects the members
 * after it, which any thread may use.
 *
 * Nothing here survives a crash. Messages, waiting requests and unfinished turns are stored in the
 * session and its inbox. */
#ifndef PAL_RUNTIME_H
#define PAL_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/process.h"
#include "net/net_http.h"
#include "net/net_loop.h"
#include "palaver/turn.h"
#include "provider/provider.h"
#include "palaver/loop.h"
#include "tool/mcp/tool_mcp.h"
#include "turn/runtime/runtime_ask.h"
#include "turn/runtime/runtime_budget.h"
#include "turn/permission/permission.h"
#include "window/window_compact.h"

enum { PAL_RUNTIME_WORKERS = 8 };

typedef struct pal_turn pal_turn;
typedef struct pal_lane_state pal_lane_state;
typedef struct pal_steer pal_steer;
typedef struct pal_backlog pal_backlog;

/* ---- The settings of a turn (runtime_settings.c) ---- */

typedef struct pal_turn_settings {
    /* the agent of the request, of the session, or the default agent; may be empty */
    pal_str agent;
    pal_str system;
    bool system_exact; /* the request brought the text: it is sent unchanged */
    size_t endpoint;   /* its index in the runtime's list */
    pal_str model;     /* empty: the endpoint's first model, which must be requested */
    pal_context_settings context;
    uint32_t rounds_max;
    const pal_agent_settings *own; /* the agent's settings; NULL: none */
    pal_str parameters;            /* merged from all levels; a JSON object, or empty */
    pal_permission_set permissions;
    bool has_memory; /* notes are extracted from the session, if a model is configured for it */
} pal_turn_settings;

/* Determines the settings. The request overrides the session, the session its agent, and the agent
 * the runtime. From any thread. Texts are in the arena, or belong to the session, the request or
 * the runtime. PAL_NOT_FOUND if a named endpoint or the request's agent does not exist. */
PAL_CHECKED pal_status pal_turn_settings_find(const pal_runtime *runtime,
        const pal_turn_request *request, const pal_session *session, pal_arena *arena,
        pal_turn_settings *out_settings, pal_error *err);

/* Checks that the options' agents have names and existing endpoints, and that the default agent
 * exists. */
PAL_CHECKED pal_status pal_turn_settings_check(const pal_runtime_options *options, pal_error *err);

/* PAL_NOT_FOUND if there are agents and none has this name. An empty name is valid. */
PAL_CHECKED pal_status pal_turn_settings_check_agent(
        const pal_runtime_options *options, pal_str name, pal_error *err);

/* Finds the endpoint with this name. Returns false if there is none. */
bool pal_turn_settings_endpoint(
        const pal_runtime_options *options, pal_str name, size_t *out_endpoint);
/* Returns the endpoint whose default model this is, or `otherwise` if there is none. */
size_t pal_turn_settings_endpoint_of_model(
        const pal_runtime_options *options, pal_str model, size_t otherwise);

/* Moves the tools that the model is offered to the front, and returns how many there are: those of
 * the agent that are not denied. The first `callers` tools are the caller's, and always stay. */
size_t pal_turn_settings_tools(
        const pal_turn_settings *settings, pal_tool *tools, size_t len, size_t callers);

/* Returns what the configuration decides about a tool for the default agent. Tools that the agent
 * does not have are denied. On the runtime's loop. */
pal_permission pal_turn_settings_permission(
        const pal_runtime_options *options, const pal_tool *tool);

/* Returns the window without the fence, and without what the turn has learned since. */
pal_window pal_turn_settings_window(
        pal_runtime *runtime, const pal_turn_settings *settings, const pal_turn_request *request);

/* ---- Writes (turn_write.c) ---- */

typedef struct pal_write pal_write;

/* A list of operations, with the data that they point to. The owner keeps all of it unchanged until
 * `done` is called, exactly once, on the loop. */
struct pal_write {
    pal_op *ops;
    size_t ops_len;
    /* each operation has its status; `failure` is set if none was applied */
    void (*done)(pal_write *write);
    pal_error failure;
    pal_runtime *runtime;
    pal_work_item item;
    pal_write *next;
};

/* Passes the write to the store, which commits it together with the writes of other turns and with
 * appends. Writes are committed in the order of these calls. */
void pal_runtime_write(pal_runtime *runtime, pal_write *write);

/* ---- Events (turn_event.c) ---- */

typedef struct pal_event_entry pal_event_entry;
typedef struct pal_watcher pal_watcher;

typedef struct pal_event_log {
    pal_event_entry **entries; /* a ring buffer */
    size_t cap, first, len;
    uint64_t newest; /* number of the newest event */
    bool is_over;    /* the last event was published */
    uint64_t bytes;
    uint64_t merge_at; /* the event number at which merging entries is tried again */
    pal_watcher *watchers;
} pal_event_log;

/* ---- One session's lane (lane.c) ---- */

struct pal_steer {
    pal_steer *next;
    pal_arena *arena;
    pal_message *messages;
    size_t messages_len;
    pal_id inbox_id;
};

struct pal_lane_state {
    pal_runtime *runtime;
    char *key; /* key in the runtime's map: session and tenant */
    size_t key_len;
    pal_str tenant;
    pal_id session;
    pal_turn *running;
    pal_turn *first, **last; /* waiting turns */
    pal_steer *steers, **steers_last;
    pal_turn *away; /* turns that another process runs, or ran */
    pal_timer look; /* next look at the store for the turns in `away` and for a parked turn */
    int64_t look_ms;
    bool is_looking;
    uint64_t seen_fence; /* fence and end of another process's lease, as last seen */
    int64_t seen_expires_at;
    /* when that lease was first seen with this end, by the monotonic clock */
    int64_t seen_since_us;
    int64_t seen_last_us; /* when the lease was read last, by the monotonic clock; 0: never */
    bool is_renewed;       /* the lease had another end before: its owner was alive */
    bool is_stale;         /* the lease belongs to a dead process; recovery_holder.c */
    uint64_t fence;    /* 0: this process does not hold the lease */
    bool is_renewing;  /* a renewal of the lease is in flight */
    bool has_backlog;  /* the inbox has requests that are not turns in this process */
    bool is_waiting;   /* no turn begins until another process has released its lease, or is dead */
    int64_t wait_ms;   /* the last delay */
    uint32_t changes;  /* changes of the inbox in flight */
    pal_timer renew;
    pal_timer wait;
    pal_write write;
    pal_op op;
    uint32_t holds;
    uint32_t guards; /* code on the stack still uses the lane: it must not be freed */
};

/* Callbacks that wait for pal_runtime_dispatch(): runtime_dispatch.c. */
typedef struct pal_dispatch {
    pthread_mutex_t lock; /* protects all members */
    struct pal_dispatch_item *first, *last;
    size_t len;
    int fd; /* an eventfd, which is readable while there are items; -1: not requested yet */
} pal_dispatch;

struct pal_runtime {
    pal_turn_on_state on_state; /* called on the loop when the state of a turn changes, or NULL */
    void *on_state_user;
    pal_runtime_options options; /* copied into `arena` */
    pal_arena *arena;
    pal_store *store;
    pal_loop *loop;
    pal_http *http;
    pal_provider **providers;
    pal_str *provider_models; /* default model of each endpoint; empty: not known yet */
    size_t providers_len;
    bool is_stopgap; /* nothing was configured, and no service was found */
    /* running requests for the first model, by endpoint; NULL: none runs */
    struct pal_model_question **model_questions;
    pal_turn *model_waiters;
    struct pal_models_list *model_lists;
    pal_forward_call *forwards; /* running forwards */
    pal_tool_mcp **servers;
    size_t servers_len;
    pal_turn *server_waiters;
    struct pal_server_ask *server_asks; /* other threads that wait (runtime_servers.c) */
    pal_timer servers_timer; /* while it runs, turns wait for starting servers */
    pal_write *writes_first, **writes_last; /* writes that are not passed to the store yet */
    size_t writes_passed;     /* writes that the store has, or that wait for room in its queue */
    pal_write *blocked_write; /* the write that waits for room, on a worker; NULL: none */
    pal_budget_book budgets;
    pal_map lanes; /* by session and tenant */
    pal_map turns; /* by id; all turns in memory */
    pal_map known; /* turns whose messages are durable, by session, client id and tenant */
    pal_turn *ended_first, **ended_last;
    size_t ended_len;
    size_t turns_len;   /* turns that run or wait */
    size_t entries_len; /* turns whose first commit is being made by a worker */
    char owner[PAL_PROCESS_NAME_SIZE + PAL_ID_TEXT_SIZE]; /* owner name in leases */
    _Atomic uint16_t slot; /* in the ids of new turns; 0: none */
    bool is_closing;
    struct pal_memory_runner *memory; /* runtime_memory.c; NULL: no notes are extracted */
    pal_backlog *backlog; /* the running search for waiting requests, or NULL */
    pal_timer backlog_timer;

    /* protects the members below; `changed` is signaled when turns or forwards end, pause or
     * resume */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pal_runtime_stats stats;
    size_t forwards_len; /* running forwards, including those that are about to begin */
    pal_map owners;      /* number of turns and forwards of each owner */
    pal_map tool_counts; /* tokens of tool definitions; turn_toolset.c */
    size_t tool_counts_bytes;

    pal_dispatch dispatch;
};

/* ---- runtime.c ---- */

/* Returns the id of a new turn. `slot` is that of pal_runtime_set_slot(). */
pal_id pal_runtime_turn_id(uint16_t slot);
/* Creates a turn in its lane without beginning it. The turn takes the arena, which holds the
 * request. On failure returns NULL, and the caller keeps the arena. */
pal_turn *pal_runtime_turn_new(
        pal_runtime *runtime, pal_arena *arena, const pal_turn_request *request, pal_error *err);

/* Returns the client id of the request's first message as the client sent it, even if the message
 * is recorded in a changed form. Empty if there was none. */
pal_str pal_runtime_turn_client_id(const pal_turn *turn);
/* Called when the turn's messages are durable: from now on, a request that repeats them gets this
 * turn. */
void pal_runtime_client_id_add(pal_turn *turn);
void pal_runtime_client_id_remove(pal_turn *turn); /* the messages are not durable after all */
/* Returns the turn that already runs this request, or NULL if it is not in memory. */
pal_turn *pal_runtime_client_id_find(
        pal_runtime *runtime, const pal_turn_request *request, pal_arena *arena);

/* Called when the turn has ended. It stays in memory for a while, so that late readers still find
 * it. */
void pal_runtime_ended(pal_turn *turn, bool has_run);

/* Gives the turn another id. From now on readers find it by that id. */
void pal_runtime_turn_rename(pal_turn *turn, pal_id id);

/* Adds usage and cost to the totals of the runtime. From any thread. */
void pal_runtime_add_usage(pal_runtime *runtime, const pal_usage *usage, int64_t cost_micros);
void pal_runtime_sum_usage(pal_usage *sum, const pal_usage *usage); /* adds each member */
/* Calls pal_runtime_options.on_model_call, if it is set. On the loop. */
void pal_runtime_report_call(const pal_runtime *runtime, const pal_model_report *report);

/* ---- runtime_call.c ---- */

/* Fills in the public state of the turn. */
void pal_runtime_turn_info(pal_turn *turn, pal_turn_info *out_info);

/* ---- runtime_discover.c ---- */

/* Sets the options' endpoints to those that were found; they are in the runtime's arena. Called by
 * the thread that opens the runtime, and blocks it. */
PAL_CHECKED pal_status pal_discover_endpoints(
        pal_runtime *runtime, pal_runtime_options *options, pal_error *err);

/* ---- runtime_dispatch.c ---- */

void pal_dispatch_init(pal_dispatch *dispatch);

/* Call it after the loop was closed. Drops waiting events, and calls `gone` of each reader. */
void pal_dispatch_done(pal_dispatch *dispatch);

#endif
