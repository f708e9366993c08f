/* runtime.h - the private types of a runtime: writes, events, turns, lanes and the runtime
 * itself.
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
#include "tool/tool_mcp.h"
#include "turn/runtime/runtime_ask.h"
#include "turn/runtime/runtime_budget.h"
#include "window/window_compact.h"
#include "turn/runtime/runtime_settings.h"

enum { PAL_RUNTIME_WORKERS = 8 };

typedef struct pal_turn pal_turn;
typedef struct pal_lane_state pal_lane_state;
typedef struct pal_steer pal_steer;
typedef struct pal_backlog pal_backlog;

/* The answer of a client to the approval question of a turn that does not run in this process. */
typedef enum pal_allowing { PAL_ALLOW_NONE = 0, PAL_ALLOW_YES, PAL_ALLOW_NO } pal_allowing;

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

/* ---- One turn ---- */

/* The parts of the model's answer that have arrived. */
typedef struct pal_speech_piece pal_speech_piece; /* defined in turn_speech.c */

typedef struct pal_speech {
    pal_speech_piece *pieces; /* in the order in which they began */
    size_t len, cap;
    pal_status failure;
} pal_speech;

typedef enum pal_tool_state {
    PAL_TOOL_WAITING = 0,
    PAL_TOOL_RUNNING = 1,
    PAL_TOOL_ENDED = 2,
    PAL_TOOL_RECORDED = 3,
} pal_tool_state;

typedef struct pal_tool_run {
    pal_turn *turn;
    pal_tool_state state;
    bool is_callers;             /* the caller runs this tool */
    bool is_allowed;             /* a person has approved this call */
    bool is_counted;             /* counted toward three identical calls in a row */
    pal_str id, name, arguments; /* in the step's arena */
    pal_mcp_call *call;
    pal_work_item item; /* a built-in tool runs on a worker */
    pal_arena *arena;   /* owns the result */
    pal_message result; /* a message with role tool */
    bool is_error;
} pal_tool_run;

/* A caller that waits for a compaction; on the caller's stack. */
typedef struct pal_compact_wait {
    pal_ask ask;
    const pal_compaction *compaction;
    pal_arena *arena;
    pal_compacted *out_compacted;
    pal_error *err;
    pal_status status;
} pal_compact_wait;

/* The conversation that a model service keeps for this session; see turn_conversation.c. */
typedef struct pal_conversation {
    /* the conversation to continue, in the step's arena; empty: the call begins a new one */
    pal_str id;
    uint64_t tokens;     /* tokens in the conversation, as far as is known */
    uint64_t prefix;     /* hash of its beginning: the instructions and tools */
    /* number of the checkpoint that was in effect when the conversation began */
    uint64_t checkpoint;
    uint64_t fresh_seq;  /* messages from this seq on were never sent; 0: unknown */
    /* another program began it, and this runtime has not recorded an answer of it yet */
    bool is_imported;
    bool is_lost;        /* it cannot be continued: the next call begins a new one */
} pal_conversation;

typedef enum pal_turn_phase {
    PAL_TURN_PHASE_NEW = 0,
    PAL_TURN_PHASE_ADMIT,
    PAL_TURN_PHASE_SERVERS, /* waits until the tool servers have started */
    PAL_TURN_PHASE_PLAN,
    PAL_TURN_PHASE_MODEL,   /* requests the first model of the endpoint */
    PAL_TURN_PHASE_SUMMARY, /* requests a summary from the model */
    PAL_TURN_PHASE_CALL,
    PAL_TURN_PHASE_WAIT, /* waits before the next try */
    PAL_TURN_PHASE_RECORD,
    PAL_TURN_PHASE_TOOLS,
    PAL_TURN_PHASE_PAUSED,
    PAL_TURN_PHASE_ASKING,
    PAL_TURN_PHASE_STEER,
    PAL_TURN_PHASE_UNPARK, /* acquires the lease again after waiting for a client */
    PAL_TURN_PHASE_CLOSE,
    PAL_TURN_PHASE_AWAY, /* another process runs the turn; this one follows it in the store */
    PAL_TURN_PHASE_ENDED,
} pal_turn_phase;

#define PAL_TURN_OPS_MAX (6 + PAL_TURN_OPENING_MAX) /* operations in one write of a turn */

struct pal_turn {
    pal_runtime *runtime;
    pal_lane_state *lane;
    pal_turn *next; /* next turn in the lane's queue, or in the list of ended turns */
    pal_id id;
    /* works, writes and calls in flight; an ended turn is freed only when this is 0 */
    uint32_t holds;
    pal_arena *arena; /* owns the request */
    pal_turn_request request;
    pal_id *inbox_ids; /* inbox items with its messages, if they wait in the inbox */
    size_t inbox_len;
    bool is_backlog;   /* takes its messages from the inbox when it begins */
    bool has_more;     /* the inbox has more requests that are not turns in this process */
    pal_id *known_ids; /* inbox items that belong to turns waiting in this process */
    size_t known_len;
    bool is_taken;       /* another process runs the waiting request, or has run it */
    bool must_wait;      /* an older request waits in the inbox */
    bool gave_way;       /* it has already yielded to that request */
    bool goes_first;     /* goes to the head of the queue, because it had begun before */
    /* waiting turns that were merged into this one; they get the same events */
    pal_turn *followers;
    pal_turn *next_follower;
    pal_turn *leader; /* the turn that a follower was merged into */
    pal_turn_phase phase;
    pal_turn_state state;
    pal_turn_info info;
    pal_event_log events;

    uint64_t fence;  /* the fence of the lease, for writes by workers */
    /* fence of a dead process's lease that can be taken, with the end of that lease; 0: none */
    uint64_t stale_fence;
    int64_t stale_expires_at;
    uint32_t lease_tries; /* how often acquiring the lease was retried at once */
    bool is_entered; /* a worker has made its first commit */
    bool is_planned; /* the same worker has also made the first plan */
    pal_str known_key; /* its key in the runtime's map `known`; empty: it is not in the map */

    /* The commit that ends the turn (turn_seal.c). */
    bool is_sealed; /* the last commit is being made, or was made */
    pal_id *said;   /* ids of all recorded messages, for the `finish` callback; in `arena` */
    size_t said_len, said_cap;
    const pal_message *answered; /* the last answer, in the step's arena */
    pal_record *seal_record;     /* the record that `finish` has filled; in the step's arena */

    /* The inbox item of an unfinished turn (recovery_owed.c). */
    pal_id acting; /* the turn's id in the store; the first turn's id if this request is a repeat */
    pal_id first_id; /* id of its first message; none: not recorded yet */
    /* the item that marks the turn as unfinished; its id is none if there is no item */
    pal_inbox_item owed_item;
    bool owes;                /* the item is in the inbox */
    uint32_t tries;           /* processes that began to answer it, including this one */
    uint64_t told_seq;        /* seq of the newest answer that its readers were notified of */

    /* State that the turn finds when it begins. */
    pal_id leftover;       /* an obsolete inbox item, to be dropped */
    /* seq of the first message of the turn that left that item, to be rewound; or 0 */
    uint64_t leftover_seq;
    struct pal_resume *resume;   /* an unfinished turn that no process runs; recovery_resume.c */
    bool is_looked_up;     /* it is known whether the same request came before; lane_join.c */
    bool was_said; /* the request was recorded before, and this turn does not record it again */
    pal_id found_id;       /* id of the first message of the earlier request */
    uint64_t found_seq;    /* seq of that message */
    /* turns with the same request that failed; this turn records the request once more */
    uint32_t spent_tries;
    struct pal_outcome *outcome; /* outcome of the turn that recorded the request; NULL: unknown */
    pal_allowing allowing;       /* the client's answer to an approval; recovery_resume.c */

    bool is_parked;  /* PAUSED or ASKING, and the lease was released */
    bool hands_over; /* the turn stops in this process, and another process continues it */
    void (*then)(pal_turn *turn); /* the next step after unparking or after the lookup */
    pal_turn_state end_state;     /* the state that the turn is about to end in */
    pal_id parked_item; /* the previous item, while it is replaced */
    uint64_t on_seq;    /* seq of the answer whose calls it was last unparked for; 0: none */
    pal_str said_again; /* client id of the earlier request that this turn continues */
    bool ends_found;    /* the turn that it found failed in this process: that turn is over */
    int64_t visits;     /* how often it has tried to deliver results or approvals to another turn */
    bool is_again;      /* it was followed in the store, and begins again with the same request */

    pal_turn_started started;
    void *started_user;

    /* reservation of its budget, while a call is planned or runs */
    _Atomic(pal_reservation *) held;
    pal_turn_settings settings; /* valid from the first plan on */
    bool is_settled;
    pal_turn *next_waiter; /* next turn that waits for the name of a model, or for tool servers */
    pal_provider *provider;
    pal_model_call *call;
    pal_arena *step_arena; /* owns the plan and the model's answer */
    pal_plan plan;
    pal_message *request_messages;
    size_t request_len;
    pal_tool *tools; /* all tools that the model is shown; the caller's come first */
    size_t tools_len;
    pal_conversation conversation;
    pal_speech answer;
    pal_id answer_id;      /* the id that the answer will have */
    pal_finish finish;     /* why the model stopped writing its newest answer */
    uint32_t step;         /* number of model calls */
    uint32_t rounds;       /* rounds of tool calls */
    uint32_t attempt;      /* try of the current call, from 1 */
    uint32_t call_attempt; /* `attempt` of the call, saved while a summary is requested before it */
    /* when the first try could not reach the service, by the loop's clock */
    int64_t unreachable_ms;
    bool output_seen;      /* readers have seen a part of this call's answer */
    bool after_overflow, after_compaction;
    bool last_call; /* the model must not call tools: there were too many rounds */
    bool is_cancelled;
    uint64_t first_seq;  /* seq of its first message */
    pal_tool_loop doom;
    pal_usage usage;
    int64_t cost_micros;
    pal_timer timer;
    pal_timer deadline;

    pal_compact_wait *compact; /* a caller wants only a compaction; NULL for ordinary turns */
    pal_provider *summary_provider;
    pal_compact_job *job;
    pal_arena *job_arena;
    pal_buf summary;
    struct pal_summary_end *summary_end; /* how the request for the summary ended */
    pal_steer *steer;                    /* the steer that is being recorded */

    pal_tool_run *runs;
    size_t runs_len;
    pal_message *messages; /* messages of the current write */
    size_t messages_len;
    /* how many of them are results of open calls; these come before the request's messages */
    size_t settled_len;
    /* the request's messages before they were changed for recording; NULL: they are unchanged */
    pal_message *as_sent;

    pal_work_item work;
    pal_error work_error;
    pal_status work_status;
    pal_write write;
    pal_op *ops; /* room for PAL_TURN_OPS_MAX operations; NULL if there is nothing to write */
    bool is_write_starved; /* there was no memory for an operation */
    pal_ledger_row ledger;
    char ledger_id[PAL_ID_TEXT_SIZE];
    char id_text[PAL_ID_TEXT_SIZE];
    /* what the model was sent, to be stored with the answer's message; items 0: nothing yet */
    pal_sent sent;
    uint16_t sent_hashes[PAL_SENT_HASHES_MAX];
    pal_mark mark;
    /* a new epoch that the request began, stored with the answer; kind NONE: no new epoch */
    pal_mark epoch;

    pal_str text; /* the newest answer, for pal_turn_wait() */
    pal_arena *text_arena;
};

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
    bool is_renewed;       /* the lease had another end before: its owner was alive */
    bool is_stale;         /* the lease belongs to a dead process; recovery_holder.c */
    uint64_t fence;    /* 0: this process does not hold the lease */
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

struct pal_runtime {
    pal_turn_sink watch; /* called on the loop when the state of a turn changes, or NULL */
    void *watch_user;
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
    pal_forwarding *forwards; /* running forwards */
    pal_mcp **servers;
    size_t servers_len;
    pal_turn *server_waiters;
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
    bool is_closing;
    pal_backlog *backlog; /* the running search for waiting requests, or NULL */
    pal_timer backlog_timer;

    /* protects the members below; `changed` is signaled when turns or forwards end, pause or
     * resume */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pal_runtime_stats stats;
    size_t forwards_len; /* running forwards, including those that are about to begin */
    pal_map owners;      /* number of turns and forwards of each owner */
};

#endif
