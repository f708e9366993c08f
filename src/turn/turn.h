/* turn.h - one turn: its phases, its types, and the functions that the files of turn/ share. All
 * functions run on the loop, unless a comment says otherwise.
 *
 * Where to look:
 *
 *   a request arrives, waits, joins or is refused   lane/lane.c, lane/lane_wait.c
 *   the turn begins: inspection and first commit    turn_first_commit.c
 *   what the model is sent                          turn_plan.c
 *   the model call, and the retry after a 429       turn_call.c, pal_turn_retry()
 *   the answer is stored                            turn_answer.c
 *   tool calls and pauses                           turn_tools.c
 *   whether a tool may run                          permission/permission.c
 *   questions about calls, and their answers        permission/permission_question.c
 *   answers that come with a later turn             permission/permission_approval.c
 *   a cancel, the time limit, a failure             turn_end.c, pal_turn_stop(), pal_turn_fail()
 *   events, and readers that resume a stream        turn_event.c, pal_event_watch()
 *   a crash: another process continues the turn     recovery/recovery_resume.c
 *   the public functions of palaver/turn.h          runtime/runtime_call.c
 *
 * Names: on_EVENT() is a callback. It runs on the loop when a write, a worker, a call or a timer is
 * done. A function for a worker says "Runs on a worker". */
#ifndef PAL_TURN_H
#define PAL_TURN_H

#include "turn/runtime/runtime.h"

/* ---- Phases ---- */

/* The phases of a turn. turn->state is what clients see; turn->phase is what the turn waits for.
 * This table is complete: pal_turn_enter() accepts no other change of the phase.
 *
 *   X(phase, thread, waits for, cancel, crash, phases that may follow)
 *
 * `thread` has the turn while it waits; everything else runs on the loop. Every write carries the
 * fence of the lease, so a process that is considered dead cannot write late. From CLOSE and AWAY
 * on, a cancel has no effect. An admitted turn that a crash interrupts is unfinished in the store
 * (recovery_owed.c), and another process continues it from its last commit
 * (recovery_resume.c). */
#define PAL_TURN_PHASES(X)                                                                         \
    X(NEW, "loop", "its place in the session's queue (lane.c)",                                    \
            "leaves the queue and the inbox (lane_wait.c)",                                        \
            "the request waits in the inbox, or was never acknowledged",                           \
            PAL_PHASE(ADMIT) | PAL_PHASE(AWAY) | PAL_PHASE(ENDED))                                 \
    X(ADMIT, "worker", "the inspection of the session and the first commit (turn_first_commit.c)", \
            "seen after the commit",                                                               \
            "before the commit nothing has happened; after it the turn is unfinished",             \
            PAL_PHASE(NEW) | PAL_PHASE(ADMIT) | PAL_PHASE(SERVERS) | PAL_PHASE(PLAN) |             \
                    PAL_PHASE(STEER) | PAL_PHASE(TOOLS) | PAL_PHASE(PAUSED) | PAL_PHASE(ASKING) |  \
                    PAL_PHASE(UNPARK) | PAL_PHASES_OF_ENDS)                                        \
    X(SERVERS, "loop", "the start of the tool servers (runtime_servers.c)",                        \
            "closes the turn; a turn with calls, as in TOOLS", "the turn is unfinished",           \
            PAL_PHASE(PLAN) | PAL_PHASE(STEER) | PAL_PHASE(TOOLS) | PAL_PHASES_OF_ENDS)            \
    X(PLAN, "worker", "the plan of the next model call (turn_plan.c)",                             \
            "seen after the plan", "the turn is unfinished; at most a prune is stored",            \
            PAL_PHASE(PLAN) | PAL_PHASE(MODEL) | PAL_PHASE(SUMMARY) | PAL_PHASE(CALL) |            \
                    PAL_PHASE(STEER) | PAL_PHASES_OF_ENDS)                                         \
    X(MODEL, "loop", "the name of the endpoint's first model (runtime_models.c)",                  \
            "closes the turn", "the turn is unfinished",                                           \
            PAL_PHASE(PLAN) | PAL_PHASE(STEER) | PAL_PHASES_OF_ENDS)                               \
    X(SUMMARY, "loop", "a summary from a model, and its commit (turn_summary.c)",                  \
            "drops the call and closes the turn, or is seen after the commit",                     \
            "the turn is unfinished; the next one compacts again",                                 \
            PAL_PHASE(PLAN) | PAL_PHASE(SUMMARY) | PAL_PHASE(WAIT) | PAL_PHASE(STEER) |            \
                    PAL_PHASES_OF_ENDS)                                                            \
    X(CALL, "loop", "the model's answer (turn_call.c)",                                            \
            "drops the call, and records the part that has arrived",                               \
            "the answer is lost; the turn is unfinished, and calls the model again",               \
            PAL_PHASE(PLAN) | PAL_PHASE(WAIT) | PAL_PHASE(RECORD) | PAL_PHASE(STEER) |             \
                    PAL_PHASES_OF_ENDS)                                                            \
    X(WAIT, "loop", "the delay before the next try, for example after a 429 (turn_call.c)",        \
            "closes the turn", "the turn is unfinished",                                           \
            PAL_PHASE(PLAN) | PAL_PHASE(SUMMARY) | PAL_PHASE(STEER) | PAL_PHASES_OF_ENDS)          \
    X(RECORD, "loop", "the commit of the answer (turn_answer.c)",                                  \
            "seen after the commit; no effect if the commit ends the turn",                        \
            "the answer is stored or lost, as a whole",                                            \
            PAL_PHASE(TOOLS) | PAL_PHASE(STEER) | PAL_PHASES_OF_ENDS)                              \
    X(TOOLS, "loop", "results of tools, and their commits (turn_tools.c)",                         \
            "ends the calls with \"interrupted\" as their results",                                \
            "a task is polled again; other calls get \"interrupted\" and are not run again",      \
            PAL_PHASE(TOOLS) | PAL_PHASE(PLAN) | PAL_PHASE(STEER) | PAL_PHASE(PAUSED) |            \
                    PAL_PHASE(ASKING) | PAL_PHASES_OF_ENDS)                                        \
    X(PAUSED, "loop", "results from the client (lane_park.c)",                                     \
            "unparks, then as in TOOLS", "no effect: any process can take the results",            \
            PAL_PHASE(TOOLS) | PAL_PHASE(UNPARK) | PAL_PHASES_OF_ENDS)                             \
    X(ASKING, "loop", "answers from the client (permission_question.c)",                           \
            "unparks, then as in TOOLS", "no effect: any process can take the answers",            \
            PAL_PHASE(TOOLS) | PAL_PHASE(UNPARK) | PAL_PHASES_OF_ENDS)                             \
    X(STEER, "loop", "the commit of a message steered into the turn (turn_answer.c)",              \
            "seen after the commit", "the message is recorded, or waits in the inbox",             \
            PAL_PHASE(PLAN) | PAL_PHASE(STEER) | PAL_PHASES_OF_ENDS)                               \
    X(UNPARK, "loop", "the commit that takes the session again (lane_park.c)",                     \
            "seen after the commit", "no effect, or the turn is unfinished",                       \
            PAL_PHASE(TOOLS) | PAL_PHASE(SERVERS) | PAL_PHASES_OF_ENDS)                            \
    X(CLOSE, "loop", "the commit of a turn that ends without an answer (turn_last_commit.c)",      \
            "no effect", "the turn is unfinished, or has ended",                                   \
            PAL_PHASES_OF_ENDS)                                                                    \
    X(AWAY, "loop", "the end of a turn that another process runs (recovery_away.c)",               \
            "no effect here", "no effect: the turn belongs to the other process",                  \
            PAL_PHASE(NEW) | PAL_PHASE(ENDED))                                                     \
    X(ENDED, "loop", "nothing; it is kept in memory for late readers", "no effect", "no effect", 0)

#define PAL_TURN_PHASE_VALUE(phase, thread, waits, cancel, crash, next) PAL_TURN_PHASE_##phase,
typedef enum pal_turn_phase {
    PAL_TURN_PHASES(PAL_TURN_PHASE_VALUE) PAL_TURN_PHASES_LEN
} pal_turn_phase;
#undef PAL_TURN_PHASE_VALUE

#define PAL_PHASE(phase) (1u << PAL_TURN_PHASE_##phase)
/* A turn can fail, lose its session or end in every phase after its first commit. */
#define PAL_PHASES_OF_ENDS (PAL_PHASE(CLOSE) | PAL_PHASE(AWAY) | PAL_PHASE(ENDED))

typedef struct pal_turn_phase_row {
    const char *name, *thread, *waits_for, *on_cancel, *on_crash;
    uint32_t next; /* bits of the phases that may follow */
} pal_turn_phase_row;

extern const pal_turn_phase_row pal_turn_phase_rows[PAL_TURN_PHASES_LEN];

/* ---- The types of a turn ---- */

/* The answers of a client to the questions of a turn (permission_question.c). */
typedef struct pal_turn_answers {
    const pal_question_answer *items;
    size_t len; /* 0: the client does not answer */
} pal_turn_answers;

/* The steps before a turn asks. */
typedef enum pal_ask_stage {
    PAL_ASK_IDLE = 0,
    PAL_ASK_LOOKS,  /* a worker reads the answers that the session remembers */
    PAL_ASK_STORES, /* the questions are being stored */
} pal_ask_stage;

/* The parts of the model's answer that have arrived. */
typedef struct pal_answer_part pal_answer_part; /* defined in turn_answer.c */

typedef struct pal_answer_buffer {
    pal_answer_part *parts; /* in the order in which they began */
    size_t len, cap;
    pal_status failure;
    bool has_items;   /* the answer comes as items of OpenAI's Responses */
    size_t items_len; /* number of parts of the complete items */
    pal_buf items;    /* complete items, a JSON array without its end */
} pal_answer_buffer;

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
    bool is_permitted;           /* approval is not needed: by a remembered answer, for example */
    bool is_counted;             /* counted toward three identical calls in a row */
    bool is_repeat;              /* the third identical call in a row, or a later one */
    pal_question question;       /* what it waits for before it runs; kind NONE: nothing */
    pal_str id, name, arguments; /* in the step's arena */
    pal_tool_mcp_call *call;
    pal_str server;  /* name of the tool server; in the arena, like the next four members */
    pal_str handle;  /* continues the call at its server (input.c); empty: it has not begun */
    pal_str kept;    /* the part of the handle that is stored */
    pal_str replies; /* the replies to the questions of the handle */
    pal_tool_question *asked; /* open questions of the running call; room for PAL_QUESTIONS_MAX */
    size_t asked_len;
    pal_work_item item; /* a built-in tool runs on a worker */
    pal_arena *arena;   /* owns the result */
    pal_message result; /* a message with role tool */
    pal_id result_id;   /* the id that the result's message gets; none: a new one */
    pal_str extra;      /* the extra of the result; empty: that of the tool */
    bool is_error;
} pal_tool_run;

/* A caller that waits for a compaction; on the caller's stack. */
typedef struct pal_compact_wait {
    pal_ask ask;
    const pal_compaction_request *compaction;
    pal_arena *arena;
    pal_compaction_result *out_compacted;
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

#define PAL_TURN_OPS_MAX (7 + PAL_TURN_CREATE_OPS_MAX) /* operations in one write of a turn */

/* Whether the turn may begin now, by what it has found in the session (recovery_inspect.c). */
typedef enum pal_turn_verdict {
    PAL_TURN_MAY_BEGIN = 0,
    PAL_TURN_MUST_WAIT, /* an older request waits in the inbox, or an older turn is unfinished */
    PAL_TURN_IS_TAKEN,  /* another process runs the waiting request, or has run it */
} pal_turn_verdict;

/* Where the request comes from. */
typedef enum pal_turn_origin {
    PAL_ORIGIN_REQUEST = 0, /* a caller; also the inbox, from the first commit on */
    PAL_ORIGIN_INBOX,       /* the turn takes its messages from the inbox when it begins */
    PAL_ORIGIN_STORE, /* the turn was followed in the store, and begins again with the same request
                       */
} pal_turn_origin;

/* Where the turn goes in the queue if it has to wait. */
typedef enum pal_turn_place {
    PAL_PLACE_LAST = 0, /* it has not begun yet */
    PAL_PLACE_FIRST,    /* it had begun before, and is the next to begin */
    PAL_PLACE_YIELDED,  /* like FIRST; it had begun, and yielded once to an older request */
} pal_turn_place;

/* The turn's place in its lane: how it waits, and who waits with it. */
typedef struct pal_turn_queue {
    pal_id *inbox_ids; /* inbox items with its messages, if they wait in the inbox */
    size_t inbox_len;
    bool takes_one;    /* only one item is taken from the inbox; see turn_first_commit.c */
    bool has_more;     /* the inbox has more requests that are not turns in this process */
    pal_id *known_ids; /* inbox items that belong to turns waiting in this process */
    size_t known_len;
    pal_turn_verdict verdict;
    pal_turn_origin origin;
    pal_turn_place place;
    int64_t visits; /* how often it has tried to deliver results or approvals to another turn */
    bool has_checked; /* the store was read for the parked turn of the session: pal_away_check() */
    /* waiting turns that were merged into this one; they get the same events */
    pal_turn *followers;
    pal_turn *next_follower;
    pal_turn *leader; /* the turn that a follower was merged into */
    /* fence of a dead process's lease that can be taken, with the end of that lease; 0: none */
    uint64_t stale_fence;
    int64_t stale_expires_at;
    uint32_t lease_tries; /* how often acquiring the lease was retried at once */
} pal_turn_queue;

/* The state of the session when the turn began. */
typedef struct pal_turn_found {
    pal_id leftover; /* an obsolete inbox item, to be dropped */
    /* seq of the first message of the turn that left that item, to be rewound; or 0 */
    uint64_t leftover_seq;
    /* a turn that this one ends because its process died: its id, its channel, and the message that
     * says so; no channel: there is none */
    pal_id leftover_turn;
    const pal_turn_channel *leftover_channel;
    pal_id leftover_answer;
    struct pal_resume *resume; /* an unfinished turn that no process runs; recovery_resume.c */
    pal_id failed_turn; /* an unfinished turn that failed in this process, so it is over; or none */
    bool is_looked_up;  /* the store was searched for the same request; lane_join.c */
    pal_id id;          /* first message of the same, earlier request; none: it was not recorded */
    uint64_t seq;       /* seq of that message */
    pal_str client_id;         /* client id of the earlier request that this turn continues */
    /* turns with the same request that failed; this turn records the request once more */
    uint32_t spent_tries;
    struct pal_outcome *outcome; /* outcome of the turn that recorded the request; NULL: unknown */
    pal_part *answered; /* the calls that request.answers is about, in the same order */
    /* the session as the first plan sees it; NULL: the plan reads the session again */
    struct pal_snapshot *session;
} pal_turn_found;

typedef enum pal_owed_state {
    PAL_OWED_NONE = 0, /* the inbox has no item of this turn, or it belongs to another process */
    PAL_OWED_STORED,   /* the item is in the inbox, and this process has the session */
    PAL_OWED_PARKED,   /* the item is in the inbox; the turn is PAUSED or ASKING, and needs no lease
                        */
} pal_owed_state;

/* The inbox item of an unfinished turn (recovery_owed.c). */
typedef struct pal_turn_owed {
    pal_id turn;        /* the turn's id in the store; the first turn's id if this is a repeat */
    pal_id first_id;    /* id of its first message; none: not recorded yet */
    uint64_t first_seq; /* seq of its first message */
    /* the item that marks the turn as unfinished; its id is none if there is no item */
    pal_inbox_item item;
    pal_owed_state state;
    pal_id previous_id; /* the previous item, while it is replaced */
    uint32_t tries;     /* processes that began to answer it, including this one */
    uint64_t told_seq;  /* seq of the newest answer that its readers were notified of */
    uint64_t on_seq;    /* seq of the answer whose calls it was last unparked for; 0: none */
    pal_str questions;  /* the questions in the item, as JSON; empty: the turn does not ask */
    pal_str handles;    /* the handles of calls that were found in the item, as JSON */
} pal_turn_owed;

/* Why the next plan is made. The last two can hold together: the request was too long, and nothing
 * was left to compact. */
typedef enum pal_plan_after {
    PAL_PLAN_AFTER_ANSWER = 0, /* or after the turn's first commit */
    PAL_PLAN_AFTER_OVERFLOW = 1,
    PAL_PLAN_AFTER_COMPACTION = 2,
} pal_plan_after;

/* One model call with the calls of its answer. */
typedef struct pal_turn_step {
    uint32_t number;  /* number of model calls */
    uint32_t rounds;  /* rounds of tool calls */
    uint32_t attempt; /* try of the current call, from 1 */
    /* when the first try could not reach the service, by the loop's clock */
    int64_t unreachable_ms;
    /* reservation of its budget, while a call is planned or runs */
    _Atomic(pal_reservation *) held;
    pal_arena *arena; /* owns the plan and the model's answer */
    pal_plan plan;
    unsigned plan_after;   /* bits of pal_plan_after */
    pal_message *messages; /* what the model is sent */
    size_t messages_len;
    /* the same as numbers, to be stored with the answer's message; items 0: nothing yet */
    pal_sent sent;
    uint16_t *sent_hashes; /* as many as `sent` has */
    pal_tool *tools; /* all tools that the model is shown; the caller's come first */
    size_t tools_len;
    pal_model model;       /* entry of settings.model; the name is empty until the first plan */
    uint64_t *tool_tokens; /* tokens of `tools` by the model's count; set with `model` */
    pal_provider *provider; /* NULL: the turn has not chosen its settings yet */
    bool is_kept;           /* the service keeps the conversation; set with `provider` */
    pal_conversation conversation;
    pal_model_call *call;
    pal_answer_buffer answer;
    pal_id answer_id; /* the id that the answer will have */
    bool output_seen; /* readers have seen a part of this call's answer */
    int64_t called_us; /* when the call began, by the monotonic clock */
    int64_t first_us;  /* when its first output came; 0: none yet */
    pal_tool_run *runs;
    size_t runs_len;
    pal_ask_stage asking;
    bool has_new_handle; /* the handle of a task is not stored yet */
    pal_tool_loop doom;
    pal_steer *steer; /* the steer that is being recorded */
} pal_turn_step;

/* How far the commits of the turn have come. */
typedef enum pal_commit_stage {
    PAL_COMMIT_OPEN = 0,      /* other commits can follow */
    PAL_COMMIT_FIRST_MADE,    /* a worker has made the first commit (turn_first_commit.c) */
    PAL_COMMIT_FIRST_PLANNED, /* and also the first plan */
    PAL_COMMIT_LAST,          /* the last commit is being made, or was made (turn_last_commit.c) */
} pal_commit_stage;

/* The write in flight, and what the last commit needs. */
typedef struct pal_turn_commit {
    pal_write write;
    pal_op *ops;     /* room for PAL_TURN_OPS_MAX operations; NULL if there is nothing to write */
    pal_status ops_failure; /* PAL_NO_MEMORY: an operation could not be added */
    pal_commit_stage stage;
    uint64_t fence;        /* the fence of the lease, for writes by workers */
    pal_message *messages; /* messages of the current write */
    size_t messages_len;
    /* how many of them are results of open calls; these come before the request's messages */
    size_t settled_len;
    pal_ledger_row ledger;
    char ledger_id[PAL_ID_TEXT_SIZE];
    pal_mark mark;
    /* a new epoch that the request began, stored with the answer; kind NONE: no new epoch */
    pal_mark epoch;
    pal_id *said; /* ids of all recorded messages, for the `on_done` callback; in turn->arena */
    size_t said_len, said_cap;
    const pal_message *answered; /* the last answer, in the step's arena */
    pal_record *record;          /* the record that `on_done` has filled; in the step's arena */
    pal_record *outbox;          /* the record of turn_outbox.c; in the turn's arena */
} pal_turn_commit;

/* A compaction (turn_summary.c). */
typedef struct pal_turn_summary {
    pal_compact_wait *wait; /* a caller wants only a compaction; NULL for ordinary turns */
    pal_compact_job *job;
    pal_arena *arena;
    pal_provider *provider;
    pal_buf text;
    uint32_t call_attempt;       /* attempt of the call, saved while a summary is requested */
    struct pal_summary_end *end; /* how the request for the summary ended */
    struct memory_job *extraction; /* the turn waits for it: runtime_memory.c */
    bool is_extracted;             /* an extraction has come before the compaction */
} pal_turn_summary;

/* The result of the turn so far. */
typedef struct pal_turn_outcome {
    pal_finish finish;    /* why the model stopped writing its newest answer */
    pal_turn_state state; /* the state that the turn is about to end in */
    pal_usage usage;
    int64_t cost_micros;
    pal_str text; /* the newest answer, for pal_turn_wait() */
    pal_arena *arena;
} pal_turn_outcome;

/* Why the turn stops before its end. */
typedef enum pal_turn_stop_reason {
    PAL_STOP_NONE = 0,
    PAL_STOP_CANCEL,    /* a client or a time limit cancels it */
    PAL_STOP_HAND_OVER, /* it stops only in this process, and another process continues it */
} pal_turn_stop_reason;

struct pal_turn {
    pal_runtime *runtime;
    pal_lane_state *lane;
    pal_turn *next;        /* next turn in the lane's queue, or in the list of ended turns */
    pal_turn *next_waiter; /* next turn that waits for the name of a model, or for tool servers */
    pal_id id;
    char id_text[PAL_ID_TEXT_SIZE];
    pal_str known_key; /* its key in the runtime's map `known`; empty: it is not in the map */
    /* works, writes and calls in flight; an ended turn is freed only when this is 0 */
    uint32_t holds;
    pal_turn_phase phase;
    pal_turn_state state;
    pal_turn_stop_reason stop;
    void (*then)(pal_turn *turn); /* the next step after unparking or after the lookup */
    pal_turn_info info;
    pal_event_log events;

    pal_arena *arena; /* owns the request */
    pal_turn_request request;
    /* the request's messages before they were changed for recording; NULL: they are unchanged */
    pal_message *as_sent;
    pal_turn_answers answers; /* the turn may be in another process: recovery_resume.c */
    pal_turn_on_start on_start;
    void *on_start_user;
    pal_turn_settings settings; /* valid once step.provider is set, at the first plan */

    pal_turn_queue queue;
    pal_turn_found found;
    pal_turn_owed owed;
    pal_turn_step step;
    pal_turn_commit commit;
    pal_turn_summary summary;
    pal_turn_outcome outcome;

    pal_work_item work;
    pal_error work_error;
    pal_status work_status;
    pal_timer timer;
    pal_timer deadline;
};

/* ---- turn_phase.c ---- */

/* Changes the phase. A change that PAL_TURN_PHASES does not list is a bug. It is logged, and with
 * PAL_STRICT (debug builds, and builds with tests) it ends the process. */
void pal_turn_enter(pal_turn *turn, pal_turn_phase phase);
/* Sets the state, and calls the runtime's on_state unless the turn is a compaction. In every state
 * except RUNNING and RETRYING, also releases the budget reservation. */
void pal_turn_set_state(pal_turn *turn, pal_turn_state state);
/* Copies the reason, cut to PAL_ERROR_MESSAGE_MAX. */
void pal_turn_set_reason(pal_turn *turn, const char *reason);

/* ---- turn_call.c ---- */

/* Takes messages that were steered into the turn, plans, and calls the model. */
void pal_turn_next_step(pal_turn *turn);
/* Called when a plan was made, or has failed: calls the model, or does whatever else is next. */
void pal_turn_planned(pal_turn *turn);
/* Returns turn->step.arena, and creates it if needed; NULL if there is no memory. */
pal_arena *pal_turn_step_arena(pal_turn *turn);

/* If the failed call can be retried, waits and calls the model again. Returns false if it
 * cannot. */
bool pal_turn_retry(pal_turn *turn, const pal_model_end *end);
/* The turn's model call has ended. */
void pal_turn_called(pal_turn *turn, const pal_model_end *end);
/* Reports the ended call of a model, which began at step.called_us. */
void pal_turn_report_call(pal_turn *turn, const char *purpose, pal_str endpoint, pal_str model,
        const pal_model_end *end);

/* ---- turn_answer.c ---- */

/* Collects the answer of a turn's model call in turn->step.answer, and publishes it. `user` is the
 * turn. */
extern const pal_model_sink pal_answer_sink;
/* Frees all parts. The answer can be used again. */
void pal_answer_clear(pal_answer_buffer *answer);
/* Makes the message, with copies of everything in the arena, in the order in which it arrived.
 * Calls without a name are left out. */
PAL_CHECKED pal_status pal_answer_message(const pal_answer_buffer *answer, pal_arena *arena,
        pal_message *out_message, pal_error *err);

/* Records the model's answer, and continues with its calls or ends the turn. */
void pal_answer_record(pal_turn *turn, const pal_model_end *end);
/* Stores the cost of a call that brought no answer. */
void pal_answer_record_usage(pal_turn *turn, const pal_model_end *end);
/* Stores the estimated cost of a call that is about to be canceled: the service charges for what
 * was sent. */
void pal_answer_record_canceled(pal_turn *turn);
/* Writes one row of the ledger in a separate write, independent of the turn's other writes. Copies
 * the id and the model; the other texts must live as long as the turn. */
void pal_answer_keep_row(pal_turn *turn, const pal_ledger_row *row);
/* Adds usage and cost to the totals of the turn and of the runtime. */
void pal_answer_add_usage(pal_turn *turn, const pal_usage *usage, int64_t cost_micros);
/* Keeps the text of the answer for pal_turn_wait(). */
void pal_answer_keep_text(pal_turn *turn);
/* Returns true if a message was steered into the turn. The turn then records it and continues. */
bool pal_turn_take_steer(pal_turn *turn);

/* ---- turn_last_commit.c ---- */

/* Ends the turn. The part of the answer that has arrived is recorded first. */
void pal_turn_close(pal_turn *turn);

/* ---- turn_end.c ---- */

/* Ends the turn in this process. It stays unfinished in the store, and the next process continues
 * it. */
void pal_turn_leave(pal_turn *turn);
/* Ends the turn as FAILED. If the status means that the failure cannot be recorded, no message is
 * written. If a write was denied because another process took the session, follows the turn in the
 * store instead. Does nothing if the turn is ending or already followed. */
void pal_turn_fail(pal_turn *turn, pal_status status, const char *format, ...) PAL_PRINTF(3, 4);
/* Cancels the turn, or its leader if it was merged. Does nothing if its last commit is being
 * made. */
void pal_turn_stop(pal_turn *turn, const char *reason);
/* The runtime is closing: leaves the turn unfinished in the store, so that another process can
 * continue it. */
void pal_turn_hand_over(pal_turn *turn);
/* Stops the turn's call, timer and tools. None of them calls back afterwards. */
void pal_turn_stop_waiting(pal_turn *turn);
/* Publishes the end of the turn, and lets the next turn begin. */
void pal_turn_finish(pal_turn *turn, pal_turn_state state);

/* The turn whose member a callback has received, for example PAL_TURN_OF(timer, deadline). */
#define PAL_TURN_OF(pointer, member)                                                               \
    ((pal_turn *)((char *)(pointer) - offsetof(pal_turn, member)))

/* ---- turn_write.c ---- */

/* Appends messages, after the operations that turn->commit.write already has. The same commit
 * removes the inbox items `inbox_ids` and stores `ledger` (or NULL) and `also`. `done` is called
 * when everything is durable, or has failed. */
typedef struct pal_turn_append {
    pal_message *messages;
    size_t messages_len;
    size_t settled_len; /* how many messages at the beginning are not the turn's own */
    const pal_id *inbox_ids;
    size_t inbox_len;
    const pal_ledger_row *ledger;
    /* committed before the messages, or NULL; its failure does not fail the rest */
    pal_mark *epoch;
    uint64_t expected_seq; /* 0: any */
    pal_record *record;    /* stored in the same commit, and fails with it; NULL: none */
    pal_record *outbox;    /* turn_outbox.c; the messages are stored only if it is; NULL: none */
    const pal_op *also; /* puts or drops a record, or NULL; its failure does not fail the rest */
    const pal_record *due; /* runtime_memory.c; its failure does not fail the rest; NULL: none */
    bool gives_lease;   /* this is the turn's last commit, and no turn waits for the session */
    void (*done)(pal_write *write);
} pal_turn_append;
/* without starting the write */
void pal_turn_add_append(pal_turn *turn, const pal_turn_append *append);
/* The same, and starts the write. */
void pal_turn_write_append(pal_turn *turn, const pal_turn_append *append);
/* Allocates turn->commit.ops if needed. Returns false if there is no memory. */
bool pal_turn_make_ops(pal_turn *turn);
/* Adds an operation to turn->commit.write. Operations that are added later are applied only if this
 * one succeeds. */
void pal_turn_add_op(pal_turn *turn, pal_op op);
/* Adds a record of turn_outbox.c. */
void pal_turn_add_outbox(pal_turn *turn, pal_record *record);
/* Adds a rewind to turn->commit.write, which hides the messages from `first_seq` to `last_seq`; 0:
 * to the end. On the loop, or on the worker that has the turn. */
void pal_turn_add_rewind(pal_turn *turn, uint64_t first_seq, uint64_t last_seq);
/* Starts turn->commit.write. */
void pal_turn_write(pal_turn *turn, void (*done)(pal_write *write));
/* Returns the failure of turn->commit.write, or PAL_OK. */
pal_status pal_turn_write_status(const pal_turn *turn, pal_error *out_error);

/* ---- turn_first_commit.c ---- */

/* The turn has its lane now: records its messages and runs it. */
void pal_turn_begin(pal_turn *turn);

/* ---- turn_summary.c ---- */

/* Requests the summary that turn->summary.job needs, stores it, and continues with the next step.
 */
void pal_summary_ask(pal_turn *turn);
/* Returns false if the summary is being stored; the turn then continues when that is done. */
bool pal_summary_stop(pal_turn *turn);
/* Counts a call for a summary, and stores its ledger row. Called only if no checkpoint stores the
 * row. */
void pal_summary_spent(pal_turn *turn, const pal_model_end *model_end);
/* Reports the end of the compaction to its waiting caller, if there is one. */
void pal_summary_tell(pal_turn *turn);
/* Reports an error to a caller that waits for a compaction. `wait` must not be used afterwards. */
void pal_summary_refuse(pal_compact_wait *wait, const pal_error *why);

/* ---- turn_tools.c ---- */

/* Runs the calls of the recorded answer. Continues with the next step when all calls have ended. */
void pal_tools_begin(pal_turn *turn, const pal_message *answer);
/* Stops running calls. Calls without a result get `text` as their result, and all results are
 * recorded. */
void pal_tools_stop(pal_turn *turn, const char *text);
/* Takes the results of the caller's tools. */
PAL_CHECKED pal_status pal_tools_results(
        pal_turn *turn, const pal_message *messages, size_t len, pal_error *err);
/* Ends a call that is not run, with an error as its result. Does not continue the turn. */
void pal_tools_end(pal_tool_run *run, const char *text);
/* Continues with the calls, after the turn was unparked or its questions were decided. */
void pal_tools_go_on(pal_turn *turn);
/* Ends the turn with the calls that need approval, because request.asks_end_turn is set. */
void pal_tools_end_asking(pal_turn *turn);
/* Publishes the calls that wait for the caller. */
void pal_tools_tell_paused(pal_turn *turn);
/* Writes the calls that wait for the caller as JSON. */
void pal_tools_put_waiting(const pal_turn *turn, pal_buf *buf);
/* Returns true if the model must not call tools any more, because there were too many rounds. */
bool pal_tools_are_over(const pal_turn *turn);
/* Returns the tool that the model is offered under this name, or NULL. */
const pal_tool *pal_tools_find(const pal_turn *turn, pal_str name);
/* Returns true if every call is for the caller, also of a tool that nobody offered: models make up
 * names, and only the caller can tell the model so in its own way. */
static inline bool pal_turn_passes_calls(const pal_turn_request *request)
{
    return request->no_server_tools && request->calls_end_turn;
}

/* Returns true if the caller runs the tool with this name. */
bool pal_tools_is_callers(const pal_turn *turn, pal_str name);
/* Stops running calls; they do not call back. Tasks of tool servers continue, so that another
 * process can poll them. */
void pal_tools_cancel(pal_turn *turn);
void pal_tools_cancel_tasks(pal_turn *turn); /* cancels them at their servers */
void pal_tools_done(pal_turn *turn);   /* frees the calls */

/* ---- turn_plan.c ---- */

/* Runs on a worker: plans, prunes, and prepares everything that the model is sent. */
void pal_plan_work(pal_work_item *item);

#endif
