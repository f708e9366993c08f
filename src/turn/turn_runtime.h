/* turn_runtime.h - the inside of a runtime. Everything here lives on the loop and is touched only
 * there, but for what says otherwise. */
#ifndef PAL_TURN_RUNTIME_H
#define PAL_TURN_RUNTIME_H

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
#include "turn/turn_ask.h"
#include "turn/turn_budget.h"
#include "turn/turn_compact.h"
#include "turn/turn_settings.h"

enum { PAL_RUNTIME_WORKERS = 8 };

typedef struct pal_turn pal_turn;
typedef struct pal_lane_state pal_lane_state;
typedef struct pal_steer pal_steer;
typedef struct pal_backlog pal_backlog;

/* What somebody outside says to the question of a turn that is not here. */
typedef enum pal_allowing { PAL_ALLOW_NONE = 0, PAL_ALLOW_YES, PAL_ALLOW_NO } pal_allowing;

/* ---- Writes (turn_journal.c) ---- */

typedef struct pal_write pal_write;

/* A list of operations, with what they point to, that is committed together with those of other
 * turns. It lies in its owner and is told once, on the loop. */
struct pal_write {
    pal_op *ops;
    size_t ops_len;
    void (*done)(pal_write *write); /* each op has its status; `failure` where none was applied */
    pal_error failure;
    pal_write *next;
};

typedef struct pal_journal {
    pal_runtime *runtime;
    pal_write *first, **last; /* waiting */
    pal_write *running;       /* in the commit that runs now */
    pal_work_item item;
    pal_op *ops; /* of that commit, copied together */
    size_t ops_cap;
    bool busy;
} pal_journal;

void pal_journal_init(pal_journal *journal, pal_runtime *runtime);
void pal_journal_done(pal_journal *journal);
void pal_journal_write(pal_journal *journal, pal_write *write);

/* ---- Events (turn_event.c) ---- */

typedef struct pal_event_entry pal_event_entry;
typedef struct pal_watcher pal_watcher;

typedef struct pal_event_log {
    pal_event_entry **entries; /* a ring */
    size_t cap, first, len;
    uint64_t newest; /* number of the newest */
    bool is_over;    /* the last one was told */
    uint64_t bytes;
    uint64_t merge_at; /* the number from which on it is tried again to have fewer entries */
    pal_watcher *watchers;
} pal_event_log;

/* ---- One turn ---- */

/* What the model is saying. */
typedef struct pal_speech_piece pal_speech_piece; /* turn_speech.c */

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
    bool is_callers;             /* the caller runs it */
    bool is_allowed;             /* a person said so */
    bool is_counted;             /* towards three equal ones in a row */
    pal_str id, name, arguments; /* in the step's arena */
    pal_mcp_call *call;
    pal_work_item item; /* a built-in, on a worker */
    pal_arena *arena;   /* of its result */
    pal_message result; /* role tool */
    bool is_error;
} pal_tool_run;

/* Who waits for a compaction, on its own stack. */
typedef struct pal_compact_wait {
    pal_ask ask;
    const pal_compaction *compaction;
    pal_arena *arena;
    pal_compacted *out_compacted;
    pal_error *err;
    pal_status status;
} pal_compact_wait;

/* The conversation that a service keeps of the session; turn_conversation.c. */
typedef struct pal_conversation {
    pal_str id;          /* to go on with, in the step's arena; empty: one is begun */
    uint64_t tokens;     /* that it has, as far as is known */
    uint64_t prefix;     /* hash of what it begins with: instructions and tools */
    uint64_t checkpoint; /* that stood when it was begun */
    uint64_t fresh_seq;  /* from here on nothing was ever sent; 0: nobody knows */
    bool is_imported;    /* begun by another program, and not answered here yet */
    bool is_lost;        /* it can't be gone on with: the next call begins another */
} pal_conversation;

typedef enum pal_phase {
    PAL_PHASE_NEW = 0,
    PAL_PHASE_ADMIT,
    PAL_PHASE_SERVERS, /* waits until they have started */
    PAL_PHASE_PLAN,
    PAL_PHASE_MODEL,   /* asks the endpoint for its first model */
    PAL_PHASE_SUMMARY, /* asks the model for a summary */
    PAL_PHASE_CALL,
    PAL_PHASE_WAIT, /* for the next try */
    PAL_PHASE_RECORD,
    PAL_PHASE_TOOLS,
    PAL_PHASE_PAUSED,
    PAL_PHASE_ASKING,
    PAL_PHASE_STEER,
    PAL_PHASE_UNPARK, /* takes the session again, after it has waited for somebody outside */
    PAL_PHASE_CLOSE,
    PAL_PHASE_AWAY, /* another process has it: it is followed in the store */
    PAL_PHASE_ENDED,
} pal_phase;

#define PAL_TURN_OPS_MAX (6 + PAL_TURN_OPENING_MAX) /* in one write of a turn */

struct pal_turn {
    pal_runtime *runtime;
    pal_lane_state *lane;
    pal_turn *next; /* in the lane's queue, or in the list of those that ended */
    pal_id id;
    uint32_t holds;   /* works, writes and calls in flight; freed at 0 when it has ended */
    pal_arena *arena; /* of the request */
    pal_turn_request request;
    pal_id *inbox_ids; /* of its messages, where they wait in the inbox */
    size_t inbox_len;
    bool is_backlog;   /* takes its messages from the inbox when it begins */
    bool has_more;     /* in the inbox, as old */
    pal_id *known_ids; /* in the inbox, of turns that wait here */
    size_t known_len;
    bool is_taken;       /* another process has run what waits, or does so */
    bool must_wait;      /* something older waits in the inbox */
    bool gave_way;       /* to that */
    bool goes_first;     /* before all that wait: it had begun already */
    pal_turn *followers; /* turns that are one with this, and are told what it is told */
    pal_turn *next_follower;
    pal_turn *leader; /* of a follower */
    pal_phase phase;
    pal_turn_state state;
    pal_turn_info info;
    pal_event_log events;

    uint64_t fence;  /* the lease's, for what workers write */
    uint64_t stale_fence; /* a dead process's lease, which may be taken, and its end; 0: none */
    int64_t stale_expires_at;
    uint32_t lease_tries; /* how often it was tried again at once to take the lease */
    bool is_entered; /* its first commit was made by a worker */
    bool is_planned; /* and the first plan with it */
    pal_str known_key; /* in the runtime's map of them; empty: it is not there */

    /* The commit that ends it (turn_seal.c). */
    bool is_sealed; /* it is being made, or was */
    pal_id *said;   /* of all that was recorded, for `finish`; in `arena` */
    size_t said_len, said_cap;
    const pal_message *answered; /* the last answer, in the step's arena */
    pal_record *seal_record;     /* by `finish`, likewise */

    /* That it is owed its end (turn_owed.c). */
    pal_id acting;   /* its id in the store: another turn's, where this is the same again */
    pal_id first_id; /* of its first message; none: it is not recorded yet */
    pal_inbox_item owed_item; /* says that it is half done; its id is none while there is none */
    bool owes;                /* that item is in the inbox */
    uint32_t tries;           /* processes that began to answer it, this one included */
    uint64_t told_seq;        /* of the newest answer that its readers were told of */

    /* What it finds when it begins. */
    pal_id leftover;       /* an item that says nothing any more, to be dropped */
    uint64_t leftover_seq; /* of the first message of a turn that left it, to be rewound; or 0 */
    struct pal_resume *resume;   /* a turn that nobody runs; turn_resume.c */
    bool is_looked_up;     /* whether the same was said before, is known; turn_join.c */
    bool was_said;         /* it was, and this turn doesn't say it once more */
    pal_id found_id;       /* of the first message that says so */
    uint64_t found_seq;    /* its place */
    uint32_t spent_tries;  /* turns that said the same and failed: this one says it once more */
    struct pal_outcome *outcome; /* of the turn that said it; NULL: none is known */
    pal_allowing allowing;       /* what it is to do with a question; turn_resume.c */

    bool is_parked;  /* PAUSED, ASKING: the lease was given back */
    bool hands_over; /* it stops here, and another process goes on */
    void (*then)(pal_turn *turn); /* what comes when it is unparked, or looked up */
    pal_turn_state end_state;     /* it is about to end as */
    pal_id parked_item; /* the item of before, while it is replaced */
    uint64_t on_seq;    /* of the answer whose calls it was last unparked for; 0: none */
    pal_str said_again; /* the client id of what was said before, and is gone on with */
    bool ends_found;    /* the turn that it finds has failed here: it is over */
    int64_t visits;     /* how often it has come with what another turn waits for */
    bool is_again;      /* it was away, and begins again as what it was */

    pal_turn_started started;
    void *started_user;

    _Atomic(pal_reservation *) held; /* of its budget, while a call is planned or runs */
    pal_settings settings; /* of the first plan on */
    bool is_settled;
    pal_turn *next_waiter; /* for the name of a model, or for servers */
    pal_provider *provider;
    pal_model_call *call;
    pal_arena *step_arena; /* of the plan and of what the model said */
    pal_plan plan;
    pal_message *request_messages;
    size_t request_len;
    pal_tool *tools; /* all that the model is shown; the caller's first */
    size_t tools_len;
    pal_conversation conversation;
    pal_speech answer;
    pal_id answer_id;      /* that it will have */
    uint32_t step;         /* model calls, from 1 */
    uint32_t rounds;       /* of tools */
    uint32_t attempt;      /* of this call, from 1 */
    uint32_t call_attempt; /* kept meanwhile, where a summary is asked for before it */
    int64_t unreachable_ms; /* when its first try found nobody; of the loop's clock */
    bool output_seen;      /* readers have seen some of this call's answer */
    bool after_overflow, after_compaction;
    bool last_call; /* no tool may be called: there were too many rounds */
    bool is_cancelled;
    bool is_interrupted; /* by another turn */
    uint64_t first_seq;  /* of its first message */
    pal_tool_loop doom;
    pal_usage usage;
    int64_t cost_micros;
    pal_timer timer;
    pal_timer deadline;

    pal_compact_wait *compact; /* somebody wants a compaction, and nothing else */
    pal_provider *summary_provider;
    pal_compact_job *job;
    pal_arena *job_arena;
    pal_buf summary;
    struct pal_summary_end *summary_end; /* how the question for it ended */
    pal_steer *steer;                    /* that is being recorded */

    pal_tool_run *runs;
    size_t runs_len;
    pal_message *messages; /* of the write that runs */
    size_t messages_len;
    size_t settled_len;   /* of them: results of open calls, before what was said */
    pal_message *as_sent; /* what was said, before it became what is recorded; NULL: it is that */

    pal_work_item work;
    pal_error work_error;
    pal_status work_status;
    pal_write write;
    pal_op *ops;           /* room for PAL_TURN_OPS_MAX; NULL where nothing is to be written */
    bool is_write_starved; /* there was no memory for it */
    pal_ledger_row ledger;
    char ledger_id[PAL_ID_TEXT_SIZE];
    char id_text[PAL_ID_TEXT_SIZE];
    pal_sent sent; /* what the model was sent, for the answer's message; items 0: nothing yet */
    uint16_t sent_hashes[PAL_SENT_HASHES_MAX];
    pal_mark mark;
    pal_mark epoch; /* begun by what was sent, and kept with the answer; kind NONE: no new one */

    pal_str text; /* the newest answer, for pal_turn_wait() */
    pal_arena *text_arena;
};

/* ---- One session's lane (turn_lane.c) ---- */

struct pal_steer {
    pal_steer *next;
    pal_arena *arena;
    pal_message *messages;
    size_t messages_len;
    pal_id inbox_id;
};

struct pal_lane_state {
    pal_runtime *runtime;
    char *key; /* tenant and session, of the map */
    size_t key_len;
    pal_str tenant;
    pal_id session;
    pal_turn *running;
    pal_turn *first, **last; /* waiting */
    pal_steer *steers, **steers_last;
    pal_turn *away; /* another process has them, or had */
    pal_timer look; /* until the store is looked at again for these, and for one that is parked */
    int64_t look_ms;
    bool is_looking;
    uint64_t seen_fence; /* of another process's lease, and its end, for as long as they stay */
    int64_t seen_expires_at;
    int64_t seen_since_us; /* by the monotonic clock */
    bool is_renewed;       /* there was another end before: its owner was alive */
    bool is_stale;         /* that lease is a dead process's; turn_holder.c */
    uint64_t fence;    /* 0: the lease is not held */
    bool has_backlog;  /* requests that are no turns here wait in the inbox */
    bool is_waiting;   /* until another process has given its lease back, or is gone */
    int64_t wait_ms;   /* the last time */
    uint32_t changes;  /* of the inbox, under way */
    pal_timer renew;
    pal_timer wait;
    pal_write write;
    pal_op op;
    uint32_t holds;
    uint32_t guards; /* somebody looks at it still */
};

struct pal_runtime {
    pal_turn_sink watch; /* on the loop; NULL: nobody is told of turns' states */
    void *watch_user;
    pal_runtime_options options; /* in `arena` */
    pal_arena *arena;
    pal_store *store;
    pal_loop *loop;
    pal_http *http;
    pal_provider **providers;
    pal_str *provider_models; /* the one of each where none is named; empty: not known yet */
    size_t providers_len;
    bool is_stopgap;                             /* nothing was configured, and nothing was found */
    struct pal_model_question **model_questions; /* by endpoint; NULL: none is asked */
    pal_turn *model_waiters;
    struct pal_models_list *model_lists;
    pal_forwarding *forwards; /* that run */
    pal_mcp **servers;
    size_t servers_len;
    pal_turn *server_waiters;
    pal_timer servers_timer; /* as long as it runs, turns wait for servers that start */
    pal_journal journal;
    pal_budget_book budgets;
    pal_map lanes; /* by tenant and session */
    pal_map turns; /* by id; all that are remembered */
    pal_map known; /* those of them whose messages are durable, by session and client id */
    pal_turn *ended_first, **ended_last;
    size_t ended_len;
    size_t turns_len;   /* that run or wait */
    size_t entries_len; /* that are being entered by workers */
    char owner[PAL_PROCESS_NAME_SIZE + PAL_ID_TEXT_SIZE]; /* of leases */
    bool is_closing;
    pal_backlog *backlog; /* it is being looked for */
    pal_timer backlog_timer;

    pthread_mutex_t lock; /* stats, and waiting for the last turn */
    pthread_cond_t changed;
    pal_runtime_stats stats;
    size_t forwards_len; /* with those that are about to begin */
    pal_map owners;      /* how many turns and forwards each has */
};

#endif
