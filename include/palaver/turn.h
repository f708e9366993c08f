/* turn.h - runs turns: admits a message durably, builds the context, calls the model, streams, runs
 * the tools, records, answers; whatever happens.
 *
 * One runtime has one event loop on a thread of its own and runs any number of turns on it. All
 * functions here may be called from any thread; callbacks run on the loop and must not block, so
 * that of this runtime's functions they may call only pal_turn_start_async(), pal_turn_watch(),
 * pal_turn_find() and pal_turn_abandon(). docs/turns.md tells the life of a turn. */
#ifndef PALAVER_TURN_H
#define PALAVER_TURN_H

#include "palaver/context.h"
#include "palaver/limits.h"
#include "palaver/store.h"
#include "palaver/window.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pal_runtime pal_runtime;

/* ---- What a runtime is made of ---- */

typedef struct pal_header {
    pal_str name;
    pal_str value;
} pal_header;

/* Where a model is. */
typedef struct pal_endpoint {
    pal_str name; /* the user's word for it; unique; empty: the kind's */
    pal_str kind; /* "openai", "anthropic", "mistral", "mistral_conversations", "echo", "script" */
    pal_str url;  /* empty: the kind's own */
    pal_str api_key;           /* may be empty */
    const pal_header *headers; /* sent with every request */
    size_t headers_len;
    pal_str path;        /* script: the recorded answers */
    pal_str model;       /* the one to use where none is named */
    pal_str api_key_env; /* the variable of the environment that api_key came from, so that it can
                            be named where the key is refused; may be empty */
} pal_endpoint;

/* An MCP server: a program, or a URL. */
typedef struct pal_tool_server {
    pal_str name; /* its tools are shown as NAME__TOOL */
    const pal_str *command;
    size_t command_len;
    const pal_str *environment; /* "NAME=value" */
    size_t environment_len;
    pal_str url;
    const pal_header *headers;
    size_t headers_len;
    int64_t call_ms; /* 0: 120000 */
} pal_tool_server;

/* Prices in millionths of the currency for a million tokens; `pattern` as in pal_model_rule. */
typedef struct pal_price {
    pal_str pattern;
    uint64_t input;
    uint64_t cache_read;
    uint64_t cache_write;
    uint64_t output;
} pal_price;

/* What the sessions of one agent get where neither the request nor the session's metadata says
 * otherwise. What is empty, NULL or 0 is the runtime's. docs/turns.md has the order. */
typedef struct pal_agent_settings {
    pal_str name;     /* pal_session.agent */
    pal_str system;   /* instead of the runtime's */
    pal_str endpoint; /* one of the runtime's */
    pal_str model;
    const pal_context_settings *context; /* as a whole; start from the runtime's */
    const pal_str *tools; /* of servers and built in, the only ones it is offered: names, or
                             beginnings of them with a '*' behind, as "files__*" */
    size_t tools_len;
    bool has_tools; /* `tools` counts, even with none in it */
    uint32_t max_tool_iterations;
    pal_str parameters; /* a JSON object: members for the provider's request; over the runtime's */
} pal_agent_settings;

/* Everything is copied, but for `store` and `models`, which must outlive the runtime. Zero means
 * the default named beside it. */
typedef struct pal_runtime_options {
    pal_store *store;
    const pal_models *models;      /* NULL: the built-in table */
    const pal_endpoint *endpoints; /* the first one is used where none is named */
    size_t endpoints_len;          /* 0: those that are found by themselves: by keys in the usual
                                      variables of the environment, then what answers on this
                                      machine; else "echo", which is no model and says so */
    const pal_tool_server *tool_servers;
    size_t tool_servers_len;
    const pal_price *prices;
    size_t prices_len;
    pal_str price_version;
    pal_str system; /* instructions for every session; may be empty */
    pal_context_settings context;
    uint32_t max_tool_iterations; /* 10 */
    uint32_t retries_max;         /* 5 */
    int64_t turn_ms;              /* 0: no bound */
    int64_t lease_ms;             /* 30000: how long a dead process blocks a session */
    uint32_t turns_max;           /* 100000: that run or wait at once */
    uint32_t events_max;          /* 10000: of one turn that are kept to be read again */
    uint64_t events_bytes_max;    /* 4 MiB, likewise */
    bool builtin_tools_off;       /* no read_output, search_output, recall */
    const pal_agent_settings *agents;
    size_t agents_len;
    pal_str compaction_model;  /* for summaries; empty: the turn's */
    pal_str compaction_prompt; /* instead of the built-in one; may be empty */
    bool leave_inbox; /* what waits in inboxes since before is left to another runtime; otherwise it
                         is run, in the background. For programs that end soon */
    pal_str model; /* the one to use where none is named: of the endpoint whose own it is, or of the
                      first; empty: the first endpoint's */
    int64_t tools_wait_ms; /* 10000: since it was opened, how long turns wait for tool servers that
                              are being started; then they go on without, and tell it */
    pal_str default_agent; /* one of `agents`: its settings are used in sessions whose agent is not
                              among them, or that have none; empty: the runtime's own are */
    pal_str parameters;    /* a JSON object: members for every request to a provider, such as
                              {"temperature": 0.7}; may be empty */
    pal_str compaction_system;     /* pal_compaction.system for all summaries; may be empty */
    pal_str compaction_parameters; /* pal_compaction.parameters, likewise */
    pal_pruned_text pruned_text;   /* instead of the built-in placeholders; NULL: those */
    void *pruned_user;             /* for pruned_text, which workers call at the same time */
    bool senders_off; /* a group's messages are sent and recorded without "<sender> " in front */
    uint32_t calls_max; /* HTTP calls to services that run at the same time, one open file each; the
                           others wait. 0: no bound */
} pal_runtime_options;

/* The settings that hold for the sessions of an agent: its own, or else those of the default agent.
 * Case does not matter. NULL if there are neither. They are those of `options`. */
PAL_API const pal_agent_settings *pal_agent_find(const pal_runtime_options *options, pal_str name);

/* Starts a runtime, which belongs to the caller: release it with pal_runtime_close(), before its
 * store. PAL_INVALID names the option that is wrong. */
PAL_API PAL_CHECKED pal_status pal_runtime_open(
        const pal_runtime_options *options, pal_runtime **out_runtime, pal_error *err);

/* No new turns; those that run may end within `drain_ms`. What has not ended by then is left to
 * another runtime on the same store, which goes on with it: it is told ENDED here, with the state
 * that it is in, and never called canceled. Only a turn with a `finish` is stopped, as nobody else
 * could end it. Everything else may still be asked. */
PAL_API void pal_runtime_drain(pal_runtime *runtime, int64_t drain_ms);

/* Drains it, and closes it. Accepts NULL. */
PAL_API void pal_runtime_close(pal_runtime *runtime, int64_t drain_ms);

/* The endpoint and model that a request without any would get; in the arena. `out_is_stopgap` (may
 * be NULL): nothing was configured and nothing was found, so "echo" answers, which is no model. */
PAL_API PAL_CHECKED pal_status pal_runtime_default(pal_runtime *runtime, pal_arena *arena,
        pal_str *out_endpoint, pal_str *out_model, bool *out_is_stopgap, pal_error *err);

/* The variable of the environment that the endpoint's key came from; empty: it has no key, or
 * nobody said. Borrowed, until the runtime is closed. */
PAL_API pal_str pal_runtime_key_variable(const pal_runtime *runtime, pal_str endpoint);

/* ---- Starting one ---- */

/* What to do where a turn runs in the session already, in this process or in another, or where
 * older messages wait there. */
typedef enum pal_lane {
    PAL_LANE_REJECT = 0, /* PAL_BUSY: "session is busy" */
    PAL_LANE_QUEUE = 1,  /* after all that, in order; those of a group that wait become one turn, as
                            docs/turns.md says */
    PAL_LANE_STEER = 2,  /* into it, at the next safe point */
    PAL_LANE_INTERRUPT = 3, /* stop it, then begin */
} pal_lane;

/* A budget stops a turn before the call that would begin over it, with PAL_BUDGET; 0: none. */
typedef struct pal_budget {
    uint64_t session_tokens;
    int64_t session_cost_micros;
    uint64_t tenant_tokens;
    int64_t tenant_cost_micros;
    int64_t since; /* counted from then, milliseconds since 1970 */
    char owner[PAL_OWNER_SIZE]; /* who spends it, for pal_runtime_owned(); may be empty */
} pal_budget;

/* How a turn is about to end; all of it is valid during the callback only. */
typedef struct pal_turn_end {
    pal_id turn;
    pal_id session;
    const pal_id *messages; /* all that the turn records, in order: what was said, answers, results;
                               those of this last commit too */
    size_t messages_len;
    const pal_message *answer; /* the last one; its seq is not known yet */
    bool has_calls;            /* of the caller's tools, which wait for results */
    bool finish_length;        /* the answer was cut off by the limit of the output */
    bool finish_filtered;      /* or by the service's content filter */
    pal_usage usage;           /* of the whole turn */
    int64_t cost_micros;
} pal_turn_end;

/* Fills a record that is written in the commit that ends the turn as DONE; an empty kind: none. On
 * the loop: it must not block. Told once for such a turn, unless that commit fails; a turn that
 * ends in any other way tells nothing and writes none. Anything but PAL_OK, and a record that the
 * store refuses, fail the turn. */
typedef pal_status (*pal_turn_finisher)(const pal_turn_end *end, pal_arena *arena,
        pal_record *out_record, void *user, pal_error *err);

typedef struct pal_turn_request {
    pal_str tenant;
    pal_id session;
    pal_message *messages; /* what is said; its id, seq and so on are set. None: go on from where
                              the session stands, as after tool results */
    size_t messages_len;
    pal_lane lane;
    pal_str endpoint; /* empty: the default, or the one that has the model */
    pal_str model;    /* empty: the endpoint's */
    pal_str system;   /* instead of the runtime's */
    bool has_system;
    const pal_tool *tools; /* that the caller runs: the turn pauses for them */
    size_t tools_len;
    bool no_server_tools; /* only the caller's */
    pal_str tool_choice;  /* JSON as OpenAI writes it; empty: auto */
    pal_str parameters;   /* a JSON object with members for the provider's request, over those of
                             session, agent and runtime; null takes one of theirs out */
    uint64_t output_max;
    bool has_context;
    pal_context_settings context; /* instead of the runtime's */
    uint32_t max_tool_iterations; /* 0: the runtime's */
    bool whole; /* all or nothing: a turn that fails is no part of the conversation */
    pal_budget budget;
    pal_str label;       /* the caller's word for it, told with STARTED; may be empty */
    bool no_retries;     /* a model call that failed is not made again: the caller does that */
    bool calls_end_turn; /* a call of one of `tools` ends the turn as DONE, with has_calls, instead
                            of pausing it. Results begin the `messages` of a later turn, role tool;
                            calls whose results it doesn't bring are settled as interrupted */
    pal_turn_finisher finish; /* NULL: none. Whoever waits in a queue with one does so in memory
                                 only: after a restart nobody could be told */
    void *finish_user;        /* good until the turn has ended, or was refused */
    uint64_t expected_seq;    /* not 0: PAL_CONFLICT unless this is the session's last_seq when the
                                 messages are recorded */
    const pal_op *opening; /* makes the session in the commit that records the messages: a create
                              with the id `session`, which nobody knows yet, and what belongs to it.
                              The turn is refused where one of them fails. Not copied: good until
                              `started` is told */
    size_t opening_len;    /* up to PAL_TURN_OPENING_MAX; 0: the session is there */
    pal_str agent; /* who answers this turn, instead of the session's agent; empty: that one. If the
                      runtime has agents, any other name is PAL_NOT_FOUND */
} pal_turn_request;

typedef enum pal_turn_state {
    PAL_TURN_NONE = 0,
    PAL_TURN_QUEUED = 1,
    PAL_TURN_RUNNING = 2,
    PAL_TURN_RETRYING = 3, /* waits to ask the model again */
    PAL_TURN_PAUSED = 4,   /* its result is tool calls for the caller */
    PAL_TURN_ASKING = 5,   /* waits for allow or deny */
    PAL_TURN_DONE = 6,
    PAL_TURN_FAILED = 7,
    PAL_TURN_CANCELED = 8,
} pal_turn_state;

PAL_API const char *pal_turn_state_name(pal_turn_state state); /* "retrying" */

typedef struct pal_turn_info {
    pal_id turn;
    pal_id session;
    pal_turn_state state;
    bool replayed; /* the client ids were known: this is the turn of the first time, whichever
                      process has it. `turn` is none for messages that name no turn */
    bool steered;  /* the messages went into that running turn */
    uint64_t events;                    /* number of the newest */
    uint32_t attempt;                   /* RETRYING: of the next try, from 2 */
    int64_t retry_at;                   /* RETRYING: milliseconds since 1970 */
    char reason[PAL_ERROR_MESSAGE_MAX]; /* RETRYING, FAILED, ASKING, CANCELED: why */
    pal_status status;                  /* FAILED: what it failed with */
    long code;                          /* FAILED: of HTTP, by the model's service; 0: none */
    int64_t retry_after_ms;             /* FAILED: when it wants to be asked again; 0: not said */
    bool has_calls; /* DONE: its result is tool calls for the caller, as PAUSED told */
    pal_id message; /* its newest answer; none: there is none yet */
    uint64_t seq;   /* that answer's; 0: there is none */
} pal_turn_info;

/* Waits until the messages are durable, and no longer. */
PAL_API PAL_CHECKED pal_status pal_turn_start(pal_runtime *runtime, const pal_turn_request *request,
        pal_turn_info *out_info, pal_error *err);

/* Likewise without waiting: everything is copied, and `started` is told once, on the loop. */
typedef void (*pal_turn_started)(const pal_turn_info *info, const pal_error *err, void *user);
PAL_API PAL_CHECKED pal_status pal_turn_start_async(pal_runtime *runtime,
        const pal_turn_request *request, pal_turn_started started, void *user, pal_error *err);

/* ---- While it runs ---- */

typedef enum pal_event_kind {
    PAL_EVENT_NONE = 0,
    PAL_EVENT_STARTED = 1,      /* the turn runs; `text`: the request's label */
    PAL_EVENT_STEP = 2,         /* a model call begins; `count`: its number, from 1; `message`: the
                                   id that its answer will have; `name`: the model */
    PAL_EVENT_TEXT = 3,         /* `text`: more of the answer; `count`: of which of its parts, from
                                   1 */
    PAL_EVENT_REASONING = 4,    /* `text`, `count` */
    PAL_EVENT_CALL = 5,         /* `call_id`, `name`, `count`: the model begins a tool call */
    PAL_EVENT_ARGUMENTS = 6,    /* `call_id`, `text`: more of its arguments */
    PAL_EVENT_MESSAGE = 7,      /* `message`, `seq`: an answer of `at` is recorded, with `usage` */
    PAL_EVENT_TOOL_STARTED = 8, /* `call_id`, `name`, `text`: the arguments */
    PAL_EVENT_TOOL_ENDED = 9,   /* `call_id`, `name`, `text`: the result; `status` */
    PAL_EVENT_RETRYING = 10,    /* `count`: attempt, `at`: when, `text`: why */
    PAL_EVENT_COMPACTED = 11,   /* `text`: what was done, `count`: tokens that went */
    PAL_EVENT_STEERED = 12,     /* `message`, `seq`: something was said into it */
    PAL_EVENT_PAUSED = 13,      /* `text`: the calls for the caller, a JSON array; with
                                   calls_end_turn the turn is over, and ENDED is next */
    PAL_EVENT_ASKING = 14,      /* `call_id`, `name`, `text`: what is asked */
    PAL_EVENT_ENDED = 15, /* the last one: `state`, `status`, `text`: the reason; `usage`: of the
                             whole turn; `name`: the endpoint that was asked, if one was chosen */
    PAL_EVENT_TOOLS_MISSING = 16, /* `name`: a tool server whose tools this turn lacks, as it did
                                     not start in time; `text`: why */
} pal_event_kind;

PAL_API const char *pal_event_kind_name(pal_event_kind kind); /* "tool_started" */

/* Valid during the callback only. */
typedef struct pal_event {
    uint64_t number; /* from 1 in each turn; a reader that comes late is told several events that
                        add to one text as one, with the number of the last */
    pal_event_kind kind;
    pal_id turn;
    pal_str text;
    pal_str call_id;
    pal_str name;
    pal_id message;
    uint64_t seq;
    uint64_t count;
    int64_t at;
    pal_usage usage;
    pal_turn_state state;
    pal_status status;
    bool finish_length;     /* MESSAGE: it was cut off by the limit of the output */
    long code;              /* ENDED: as in pal_turn_info */
    int64_t retry_after_ms; /* ENDED: likewise */
    bool finish_filtered;   /* MESSAGE: it was cut off by the service's content filter */
    bool is_refusal;        /* TEXT: it says that the model won't */
} pal_event;

/* False ends the watching. */
typedef bool (*pal_watch)(const pal_event *event, void *user);

/* Tells the events after number `after`, those that are past first, then each as it comes, until
 * ENDED (told to everyone). Of a long turn, older events that add to one text are one event by now,
 * so nothing that was said is missing; what else is no longer kept is left out. Both show as a
 * number that is larger than the one before + 1. ENDED with a state before DONE: the runtime was
 * closed, and another one goes on with the turn. `gone` is told once when no more will come,
 * whatever the reason; may be NULL. PAL_NOT_FOUND for a turn that nobody remembers: the session has
 * its messages. */
PAL_API PAL_CHECKED pal_status pal_turn_watch(pal_runtime *runtime, pal_str tenant, pal_id turn,
        uint64_t after, pal_watch watch, void (*gone)(void *user), void *user, pal_error *err);
/* No callback comes after it returned. */
PAL_API void pal_turn_unwatch(pal_runtime *runtime, pal_id turn, void *user);

/* How it stands. Of a turn that this runtime does not have, the store tells: whether it waits, runs
 * in another process or is about to be continued, or how it ended. PAL_NOT_FOUND for a turn that
 * has recorded nothing, or whose messages are gone. */
PAL_API PAL_CHECKED pal_status pal_turn_find(
        pal_runtime *runtime, pal_str tenant, pal_id turn, pal_turn_info *out_info, pal_error *err);
/* The turn that runs, waits for the caller or is first in the queue of a session. PAL_NOT_FOUND:
 * it is idle. */
PAL_API PAL_CHECKED pal_status pal_turn_of_session(pal_runtime *runtime, pal_str tenant,
        pal_id session, pal_turn_info *out_info, pal_error *err);

/* Stops it; what was said so far is kept and marked as interrupted. One that waits in the queue is
 * taken out of it, with its messages. Waits until that is durable. */
PAL_API PAL_CHECKED pal_status pal_turn_cancel(
        pal_runtime *runtime, pal_str tenant, pal_id turn, pal_error *err);

/* Likewise without waiting, for threads that must not: its events tell the end. Without memory it
 * goes on. */
PAL_API void pal_turn_abandon(pal_runtime *runtime, pal_str tenant, pal_id turn);

/* PAUSED: the results of the calls, one TOOL_RESULT part each in messages of role tool; the turn
 * goes on when all have come. Also after a restart, and in another process than the turn's own: by
 * turn, or by session with `turn` none. */
PAL_API PAL_CHECKED pal_status pal_turn_results(pal_runtime *runtime, pal_str tenant,
        pal_id session, pal_id turn, pal_message *messages, size_t messages_len,
        pal_turn_info *out_info, pal_error *err);

/* What a turn waits for; empty where it doesn't. In the arena. */
typedef struct pal_turn_waits {
    pal_str calls;         /* PAUSED: those for the caller, a JSON array as PAUSED tells it */
    pal_str asked_call_id; /* ASKING: the call that somebody is asked about */
    pal_str asked_name;
    pal_str asked_arguments;
} pal_turn_waits;

PAL_API PAL_CHECKED pal_status pal_turn_waiting(pal_runtime *runtime, pal_str tenant, pal_id turn,
        pal_arena *arena, pal_turn_waits *out_waits, pal_error *err);

/* ASKING: goes on, or gives the call an error as its result. After a restart, and in another
 * process than the turn's own, too. */
PAL_API PAL_CHECKED pal_status pal_turn_allow(
        pal_runtime *runtime, pal_str tenant, pal_id turn, bool allow, pal_error *err);

/* Waits for the end, a pause or a question; PAL_TIMEOUT after `timeout_ms` (negative: never). The
 * newest answer's text lies in the arena. */
PAL_API PAL_CHECKED pal_status pal_turn_wait(pal_runtime *runtime, pal_str tenant, pal_id turn,
        int64_t timeout_ms, pal_arena *arena, pal_turn_info *out_info, pal_str *out_text,
        pal_error *err);

/* Compacts a session by the runtime's model, as a turn would; `compaction` gives prompt, model,
 * reason, cut_seq, redo and summary. Waits for it. PAL_BUSY while a turn runs there. */
PAL_API PAL_CHECKED pal_status pal_turn_compact(pal_runtime *runtime, pal_str tenant,
        pal_id session, const pal_compaction *compaction, pal_arena *arena,
        pal_compacted *out_compacted, pal_error *err);

/* The plan of what the model would be sent now, by the runtime's settings; in the arena. `request`
 * gives tenant, session and whatever else bears on it; its messages, if any, are planned as if they
 * had been said. */
PAL_API PAL_CHECKED pal_status pal_turn_plan(pal_runtime *runtime, const pal_turn_request *request,
        pal_arena *arena, pal_plan *out_plan, pal_error *err);

/* A model that can be asked for, and where it is. */
typedef struct pal_served_model {
    pal_str endpoint;
    pal_str model;
} pal_served_model;

/* What the endpoints list, each one's own first; endpoints that don't answer within `timeout_ms`
 * are left out. Waits. In the arena. */
PAL_API PAL_CHECKED pal_status pal_runtime_models(pal_runtime *runtime, int64_t timeout_ms,
        pal_arena *arena, pal_served_model **out_models, size_t *out_len, pal_error *err);

/* The tools that a turn would offer beside the caller's own; in the arena. */
PAL_API PAL_CHECKED pal_status pal_runtime_tools(pal_runtime *runtime, pal_arena *arena,
        pal_tool **out_tools, size_t *out_len, pal_error *err);

/* ---- Passing on ---- */

/* A request that goes to an endpoint as it is. */
typedef struct pal_forward {
    pal_str endpoint;  /* empty: the one that has the model, or the default */
    pal_str model;     /* empty: the default's */
    pal_str path;      /* behind the endpoint's URL: "/chat/completions" */
    pal_str body;      /* JSON */
    pal_str tenant;    /* whose ledger has it, under the purpose "forward" and in no session */
    pal_budget budget; /* the tenant's limits, looked up before the call is made; those of a session
                          bind nobody here */
    bool asks_usage;   /* a stream's request gets stream_options.include_usage where the service
                          needs that to tell its usage */
} pal_forward;

/* The answer as it comes, on the loop. `header` may be NULL; names are in lower case. */
typedef struct pal_forward_sink {
    void (*header)(pal_str name, pal_str value, void *user);
    void (*head)(unsigned code, void *user); /* once, behind the headers */
    void (*bytes)(pal_str bytes, void *user);
    /* Once, last, in any case. PAL_OK: an answer came whole, whatever its code. PAL_BUDGET: the
     * budget is used up, and nobody was asked. */
    void (*end)(pal_status status, const pal_error *err, void *user);
} pal_forward_sink;

typedef struct pal_forwarding pal_forwarding;

/* Passes it on without waiting, and once: no session, no tools, no second try. Everything is
 * copied. PAL_CONFLICT where the endpoint does not speak chat completions. The sink may be told
 * before this returns.
 *
 * The usage that the answer reports is counted: at once in the runtime's stats, soon in the ledger,
 * at the latest when the runtime is closed. If it reports none, as a stream does whose request
 * doesn't ask for it, the request and as much of the answer as came are counted by the model's
 * encoding. An answer with an error counts nothing. */
PAL_API PAL_CHECKED pal_status pal_runtime_forward(pal_runtime *runtime, const pal_forward *request,
        const pal_forward_sink *sink, void *user, pal_forwarding **out_forwarding, pal_error *err);
/* Once for each, before the runtime is closed; from any thread, and from the sink too. One that
 * runs still is cancelled, which its `end` is told soon. Accepts NULL. */
PAL_API void pal_forwarding_leave(pal_forwarding *forwarding);

/* How many turns and passed-on calls of an owner (pal_budget.owner) run or wait now. From any
 * thread; never blocks for long. */
PAL_API uint64_t pal_runtime_owned(pal_runtime *runtime, pal_str owner);

/* ---- Looking at it ---- */

/* Called on the loop whenever the state of a turn changes; it must not block. Valid during the
 * callback only. */
typedef void (*pal_turn_sink)(pal_str tenant, const pal_turn_info *info, void *user);

/* Tells the states of all turns of this runtime from now on, instead of to the sink before. NULL
 * ends it: no callback is made after this function returns. */
PAL_API void pal_runtime_watch(pal_runtime *runtime, pal_turn_sink sink, void *user);

typedef struct pal_runtime_stats {
    uint64_t turns_running;
    uint64_t turns_queued;
    uint64_t turns_waiting; /* paused or asking */
    uint64_t turns_ended;
    uint64_t turns_failed;
    uint64_t model_calls;
    uint64_t model_retries;
    uint64_t tool_calls;
    uint64_t watchers;
    pal_usage usage; /* of all model calls that ended */
    int64_t cost_micros;
} pal_runtime_stats;

PAL_API void pal_runtime_stat(pal_runtime *runtime, pal_runtime_stats *out_stats);

#ifdef __cplusplus
}
#endif
#endif
