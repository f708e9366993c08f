/* turn.h - runs turns. A turn is one exchange with a model: it begins with the user's message,
 * includes any number of model calls and tools, and ends when the answer is recorded.
 *
 * Durability: the user's message is committed before the model is called, each answer before its
 * tools run, and their results before the next call. If a process dies, the next runtime on the
 * same store continues its turns. docs/turns.md describes the life of a turn.
 *
 * Threads: a runtime runs all its turns on one event loop, which has a thread of its own. Every
 * function here can be called from any thread. Callbacks run on the loop and must not block. A
 * callback can call only these functions of its runtime: pal_turn_start_async(), pal_turn_watch(),
 * pal_turn_find(), pal_turn_cancel_async() and pal_forward_call_release().
 *
 * Ownership: a function copies its arguments unless its comment says otherwise. Results are
 * allocated in the arena that the caller passes. An id is empty if pal_id_is_none() says so.
 *
 * Errors: every function that can fail returns a pal_status and fills `err`, which may be NULL.
 * Outputs are meaningful only after PAL_OK. Any of these functions can return PAL_NO_MEMORY or an
 * error of the store; their comments list the other errors. */
#ifndef PALAVER_TURN_H
#define PALAVER_TURN_H

#include "palaver/context.h"
#include "palaver/header.h"
#include "palaver/limits.h"
#include "palaver/permission.h"
#include "palaver/store_batch.h"
#include "palaver/store_records.h"
#include "palaver/window.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pal_runtime pal_runtime;

/* ---- Configuration ---- */

/* Whether a service has OpenAI's Responses API, so that such requests can be forwarded to it. */
typedef enum pal_endpoint_responses {
    PAL_RESPONSES_AUTO = 0, /* only if its URL is OpenAI's */
    PAL_RESPONSES_ON = 1,
    PAL_RESPONSES_OFF = 2,
} pal_endpoint_responses;

/* How the requests of a session are kept together, so that they reach the server that has their
 * beginning in its cache (docs/affinity.md). */
typedef enum pal_endpoint_affinity {
    PAL_AFFINITY_AUTO = 0, /* PROMPT_CACHE_KEY at OpenAI's URL, HEADERS at a URL that is not the
                              usual one of the kind, otherwise OFF */
    PAL_AFFINITY_OFF = 1,
    PAL_AFFINITY_HEADERS = 2,          /* ids of the session and of the prefix, in headers */
    PAL_AFFINITY_PROMPT_CACHE_KEY = 3, /* the session's id as a member of the request */
    PAL_AFFINITY_LLAMA_CPP = 4,        /* HEADERS, and a slot of a llama.cpp server */
} pal_endpoint_affinity;

/* A model service that the runtime can call. */
typedef struct pal_endpoint {
    pal_str name; /* unique; if empty, the kind is used as the name */
    pal_str kind; /* one of pal_provider_info_at(), for example "openai" */
    pal_str url;  /* if empty, the usual URL of the kind */
    pal_str api_key;           /* may be empty */
    const pal_header *headers; /* sent with every request */
    size_t headers_len;
    pal_str path;        /* kind "script" only: the file with the recorded answers */
    pal_str model;       /* the default model, for requests that name none */
    pal_str api_key_env; /* the environment variable that api_key was read from, for error messages
                            about a rejected key; may be empty */
    pal_endpoint_responses responses; /* ON only for kind "openai" */
    pal_endpoint_affinity affinity;   /* PROMPT_CACHE_KEY and LLAMA_CPP only for kind "openai" */
    const pal_str *affinity_headers;  /* headers with the session's id; if there are none,
                                         x-session-id and x-session-affinity */
    size_t affinity_headers_len;      /* up to 8 */
    PAL_RESERVED(5);
} pal_endpoint;

/* A company's identity provider, which decides who may use an MCP server. */
typedef struct pal_tool_idp {
    pal_str token_url; /* its token endpoint */
    pal_str client_id; /* the client that is registered with it */
    pal_str client_secret; /* may be empty */
    PAL_RESERVED(4);
} pal_tool_idp;

/* How a runtime gets access tokens (OAuth) for an MCP server with a URL. docs/mcp-login.md explains
 * it. All members may be empty. */
typedef struct pal_tool_auth {
    pal_str client_id;     /* a client that is registered with the authorization server */
    pal_str client_secret; /* the secret of client_id */
    pal_str client_key;    /* instead of a secret: the path of the client's private key in PEM, for
                              private_key_jwt */
    pal_str client_metadata_url; /* the https URL of a client id metadata document */
    pal_str scope;               /* scopes to request, separated by blanks */
    pal_str issuer;              /* the only authorization server to use */
    pal_str file;                /* keeps the login of a person; readable by its owner only */
    bool client_credentials;     /* the client gets tokens for itself, without a person */
    pal_str token_file;          /* a file with a token of the platform on which the program runs,
                                    or with an ID token of `idp`; read for each access token */
    const pal_tool_idp *idp;     /* exchanges the ID token; NULL: none does */
    PAL_RESERVED(5);
} pal_tool_auth;

/* An MCP server: either a command to start, or a URL. */
typedef struct pal_tool_server {
    pal_str name; /* its tools are shown to the model as NAME__TOOL */
    const pal_str *command;
    size_t command_len;
    const pal_str *environment; /* "NAME=value" */
    size_t environment_len;
    pal_str url;
    const pal_header *headers;
    size_t headers_len;
    int64_t call_ms; /* timeout of one tool call; 0: 120000 */
    const pal_tool_auth *auth; /* NULL: only `headers` */
    PAL_RESERVED(7);
} pal_tool_server;

/* Prices of a model, in millionths of the currency per million tokens. `pattern` selects the models
 * as in pal_model_rule. */
typedef struct pal_price {
    pal_str pattern;
    uint64_t input;
    uint64_t cache_read;
    uint64_t cache_write;
    uint64_t output;
    PAL_RESERVED(4);
} pal_price;

/* Settings for all sessions of one agent. The request and the session's metadata override them.
 * Members that are empty, NULL or 0 fall back to the runtime's. docs/turns.md has the order. */
typedef struct pal_agent_settings {
    pal_str name;     /* matches pal_session.agent; case does not matter */
    pal_str system;   /* replaces the runtime's instructions */
    pal_str endpoint; /* the name of one of the runtime's endpoints */
    pal_str model;
    const pal_context_settings *context; /* replaces the runtime's settings completely, so start
                                            from a copy of those */
    const pal_str *tools; /* the server tools and built-in tools that the agent may use: names, or
                             prefixes that end in '*', such as "files__*" */
    size_t tools_len;
    bool has_tools; /* apply `tools`, even if it is empty; otherwise all server tools and built-in
                       tools are allowed */
    uint32_t max_tool_iterations;
    pal_str parameters; /* a JSON object whose members are added to requests to the model service;
                           they override those of the runtime */
    const pal_permission_rule *permissions; /* they come before those of the runtime */
    size_t permissions_len;
    PAL_RESERVED(6);
} pal_agent_settings;

/* Called on the loop with one line about a problem that does not stop the runtime, such as a tool
 * that is not shown to the model. The text is valid during the call. Must not block. */
typedef void (*pal_runtime_on_warning)(pal_str text, void *user);

/* Called on the loop when a turn with an outbox (pal_turn_channel) has ended here, or in another
 * process while this one followed it. `name` is the name of its record. The record is missing if
 * the end could not be stored, or if it was removed already. Must not block. */
typedef void (*pal_runtime_on_outbox)(pal_str tenant, pal_str name, pal_id session, void *user);

/* One call of a model, after it has ended. The texts are valid during the callback. */
typedef struct pal_model_report {
    pal_str endpoint;
    pal_str model;
    const char *purpose; /* "turn", "compaction" or "forward" */
    pal_status status;   /* PAL_OK, or why the call failed */
    pal_usage usage;     /* zero if the service did not report it */
    int64_t cost_micros;
    int64_t duration_us;
    int64_t first_us; /* time to the first output; 0: there was none, or it is not known */
    PAL_RESERVED(6);
} pal_model_report;

/* Called on the loop after each call of a model, also if it failed and is retried. Must not
 * block. */
typedef void (*pal_runtime_on_model_call)(const pal_model_report *report, void *user);

/* Options of a runtime. Everything is copied except `store` and `models`, which must outlive the
 * runtime. A number that is 0 means the default in its comment. */
typedef struct pal_runtime_options {
    pal_store *store;
    const pal_models *models;      /* NULL: the built-in table */
    const pal_endpoint *endpoints; /* the first one is the default */
    size_t endpoints_len;          /* 0: find endpoints by API keys in the environment, otherwise by
                                      asking servers on this machine. If none is found, "echo" is
                                      used, which is not a model: it repeats the message */
    const pal_tool_server *tool_servers;
    size_t tool_servers_len;
    const pal_price *prices;
    size_t prices_len;
    pal_str price_version;
    pal_str system; /* instructions for every session; may be empty */
    pal_context_settings context;
    uint32_t max_tool_iterations; /* rounds of tools in one turn; 10 */
    uint32_t retries_max;         /* retries of one model call; 5 */
    int64_t turn_ms;              /* maximum duration of a turn; 0: no limit */
    int64_t lease_ms;             /* how long a process that died blocks a session; 30000 */
    uint32_t turns_max;           /* turns that run or wait at the same time; 100000 */
    uint32_t events_max;          /* events of one turn that are kept for late readers; 10000 */
    uint64_t events_bytes_max;    /* bytes of those events; 4 MiB */
    bool builtin_tools_off;       /* do not offer read_output, search_output and recall */
    const pal_agent_settings *agents;
    size_t agents_len;
    pal_str compaction_model;  /* model for summaries; if empty, the model of the turn */
    pal_str compaction_prompt; /* replaces the built-in prompt; may be empty */
    bool leave_inbox; /* do not run messages that were waiting before this runtime was opened; by
                         default they run in the background. For programs that exit soon */
    pal_str model;    /* the default model, at the endpoint whose default model it is, otherwise at
                         the first endpoint; if empty, the first endpoint's default model */
    int64_t tools_wait_ms;         /* how long after opening turns wait for tool servers that are
                                      starting; 10000. Then turns run without the missing tools, and
                                      a TOOLS_MISSING event reports each missing server */
    pal_str default_agent;         /* the name of one of `agents`, whose settings apply to sessions
                                      that have no agent or an agent that is not in `agents`; if
                                      empty, the runtime's settings apply */
    pal_str parameters;            /* a JSON object whose members are added to every request to a
                                      model service, such as {"temperature": 0.7}; may be empty */
    pal_str compaction_system; /* pal_compaction_request.system for all summaries; may be empty */
    pal_str compaction_parameters; /* pal_compaction_request.parameters for all summaries; may be
                                      empty */
    pal_context_on_pruned
            pruned_text;         /* replaces the built-in placeholders for pruned content; NULL: use
                              those. Several worker threads can call it at the same time */
    void *pruned_user;           /* passed to pruned_text */
    bool senders_off;            /* do not put "<sender> " in front of the messages of a group,
                                    neither for the model nor in the record */
    uint32_t calls_max;          /* HTTP calls to services that run at the same time, each with one
                                    open file; further calls wait. 0: no limit */
    pal_str affinity_key;        /* a secret with which the ids for routers are made; the same in
                                    all processes that share a store. If it is empty, no id of the
                                    prefix is sent */
    const pal_permission_rule *permissions; /* if no rule matches, built-in tools and tools that
                                               declare readOnlyHint are allowed, and turns ask
                                               before they run other tools */
    size_t permissions_len;
    bool unasked_allowed; /* if the caller cannot be asked (pal_turn_request.cannot_ask), run calls
                             that need approval; by default they are denied */
    bool cannot_ask;      /* pal_turn_request.cannot_ask for all turns. Tool servers then know that
                             they cannot ask */
    pal_runtime_on_warning on_warning; /* may be NULL */
    void *warning_user;                /* passed to on_warning */
    pal_runtime_on_outbox on_outbox;   /* may be NULL */
    void *outbox_user;                 /* passed to on_outbox */
    const struct pal_memory_settings *memory; /* settings of the long-term memory (note.h); NULL: it
                                                 is off */
    pal_runtime_on_model_call on_model_call; /* may be NULL */
    void *model_call_user;                   /* passed to on_model_call */
    PAL_RESERVED(12);
} pal_runtime_options;

/* Returns the price of a model: that with the longest pattern that matches. NULL if no pattern
 * matches. The result points into `prices`. */
PAL_API const pal_price *pal_price_find(const pal_price *prices, size_t prices_len, pal_str model);

/* Returns the settings for sessions of the agent `name`: the agent's own, otherwise those of the
 * default agent. Case does not matter. NULL if there is neither. The result points into
 * `options`. */
PAL_API const pal_agent_settings *pal_agent_find(const pal_runtime_options *options, pal_str name);

/* Starts a runtime. The caller owns it and must release it with pal_runtime_close(), before it
 * closes the store. If no endpoint is given, this blocks until endpoints were searched for.
 * PAL_INVALID: `err` names the option that is wrong. PAL_NOT_FOUND: an agent's endpoint or the
 * default agent does not exist. */
PAL_API PAL_CHECKED pal_status pal_runtime_open(
        const pal_runtime_options *options, pal_runtime **out_runtime, pal_error *err);

/* Stops accepting turns and waits up to `drain_ms` for running turns and forwarded requests to end.
 * Blocks.
 *
 * Turns that have not ended by then are left to the next runtime on the same store, which continues
 * them. Here they get an ENDED event with their current state; they are not canceled. A turn with
 * `on_done` is an exception, because no other runtime can end it: it is canceled if it runs, and
 * fails if it is queued. Compactions and forwarded requests that still run are canceled.
 *
 * All functions that read can still be called afterwards. */
PAL_API void pal_runtime_drain(pal_runtime *runtime, int64_t drain_ms);

/* Drains the runtime and frees it. Events that wait for pal_runtime_dispatch() are dropped, and
 * each `on_close` that was not called yet is called on the calling thread. Blocks. Accepts NULL. */
PAL_API void pal_runtime_close(pal_runtime *runtime, int64_t drain_ms);

/* Reports the endpoint and the model that a request gets if it names neither. `out_is_stopgap` (may
 * be NULL) is set to true if no endpoint was configured and none was found, so that "echo"
 * answers. */
PAL_API PAL_CHECKED pal_status pal_runtime_default(pal_runtime *runtime, pal_arena *arena,
        pal_str *out_endpoint, pal_str *out_model, bool *out_is_stopgap, pal_error *err);

/* Returns the name of the environment variable that the endpoint's API key was read from. Empty if
 * the endpoint has no key or its variable is unknown. Valid until the runtime is closed. */
PAL_API pal_str pal_runtime_key_variable(const pal_runtime *runtime, pal_str endpoint);

/* ---- Starting a turn ---- */

/* Decides what happens to a message if the session is not idle. A session is idle if no turn runs
 * in it, in any process, and no older messages are waiting. */
typedef enum pal_turn_lane {
    PAL_TURN_LANE_REJECT = 0, /* fail with PAL_BUSY, "session is busy" */
    PAL_TURN_LANE_QUEUE = 1,  /* wait for all older messages; waiting messages of a group are merged
                            into one turn, see docs/turns.md */
    PAL_TURN_LANE_STEER = 2,  /* join the running turn at the next safe point */
    PAL_TURN_LANE_INTERRUPT = 3, /* stop the running turn, then run */
} pal_turn_lane;

/* Limits on the tokens and the cost of model calls since `since`. If a call would begin over a
 * limit, it is not made, and the turn fails with PAL_BUDGET. 0: no limit. */
typedef struct pal_budget {
    uint64_t session_tokens;
    int64_t session_cost_micros;
    uint64_t tenant_tokens;
    int64_t tenant_cost_micros;
    int64_t since;              /* milliseconds since 1970 */
    char owner[PAL_OWNER_SIZE]; /* the name that pal_runtime_owned() counts the turn under; may be
                                   empty */
    PAL_RESERVED(2);
} pal_budget;

/* Describes a turn that is about to end as DONE. Valid during the callback only. */
typedef struct pal_turn_end {
    pal_id turn;
    pal_id session;
    const pal_id *messages; /* everything that the turn records, in order: the request's messages,
                               answers and results, including those of this last commit */
    size_t messages_len;
    const pal_message *answer; /* the last answer; its seq is not known yet */
    bool has_calls;            /* calls of the caller's tools are waiting for results, or calls
                                  need approval */
    pal_finish finish;         /* why the model stopped writing the answer */
    pal_usage usage;           /* total of the turn */
    int64_t cost_micros;
    PAL_RESERVED(8);
} pal_turn_end;

/* Called once, on the loop, just before the commit that ends a turn as DONE. Not called for turns
 * that end in any other way. The callback can fill `out_record`, allocating from `arena`. The
 * record is written in that same commit, so it exists if and only if the answer does. Leave the
 * record's kind empty to write none.
 *
 * The turn fails if the callback returns anything but PAL_OK, or if the store rejects the record.
 * If the commit itself fails, the turn fails after the callback has been called. */
typedef pal_status (*pal_turn_on_done)(const pal_turn_end *end, pal_arena *arena,
        pal_record *out_record, void *user, pal_error *err);

/* The answer to a question. */
typedef struct pal_question_answer {
    pal_str call_id; /* empty: the answer to all questions that no other answer names */
    bool allow;      /* true: the call is run; false: it gets an error as its result */
    bool remember;   /* APPROVAL: use this answer for all later calls of the tool in the session;
                        see palaver/permission.h */
    pal_str data;    /* a JSON object, for kinds of questions that need one; may be empty. For a
                        call that is not allowed: {"reason": TEXT}, which its result contains */
    pal_str extra;   /* the `extra` of the call's result; if empty, that of its tool */
    pal_id result;   /* the id of the message with the result; empty: a new one */
    PAL_RESERVED(4);
} pal_question_answer;

#define PAL_OUTBOX_KIND "outbox" /* the kind of records in outboxes */

/* For a request from a channel, for example a chat room: what becomes of its answer. Zero it, then
 * set the members that are needed.
 *
 * The commit that ends the turn also puts a record into the outbox: its kind is PAL_OUTBOX_KIND,
 * its name is the name of the outbox, '/' and the turn's id, and its session is the turn's. So
 * there is exactly one record for each turn that has ended, whichever process dies, and the record
 * stays until the program removes it. docs/turns.md describes its body. No record is written for a
 * request that is taken back before its turn begins. */
typedef struct pal_turn_channel {
    pal_str outbox;  /* the name of the outbox, up to PAL_OUTBOX_LEN_MAX bytes without '/'; for
                        example "matrix:default". Empty: none. Not with `on_done`, and not with the
                        lane STEER */
    pal_str deliver; /* where the answer must be delivered: a JSON object of up to
                        PAL_DELIVER_BYTES_MAX bytes, which is copied into the record. Required if
                        there is an outbox */
    pal_str also;    /* a JSON array with the `deliver` of other requests that the same answer is
                        for. The runtime sets it when it merges waiting requests */
    uint64_t is_note; /* 1: the messages are recorded after all older ones, and the turn ends as
                         DONE without calling the model. Waiting notes that follow each other become
                         one commit. Without an outbox; the lane must be REJECT or QUEUE */
    PAL_RESERVED(8);
} pal_turn_channel;

/* A request for a turn. Zero a request, then set `session` and `messages`. Members that are empty
 * or 0 fall back to the session's metadata, the agent's settings and the runtime's options, in that
 * order. docs/turns.md lists them. */
typedef struct pal_turn_request {
    pal_str tenant;
    pal_id session;
    pal_message *messages; /* the user's messages; copies get an id and a seq when they are
                              recorded. None: continue the session, for example after tool
                              results */
    size_t messages_len;
    pal_turn_lane lane;
    pal_str endpoint; /* if empty, the endpoint whose default model is `model`, or the default
                         endpoint */
    pal_str model;    /* if empty, the endpoint's default model */
    pal_str system;   /* replaces all other instructions, if has_system is set */
    bool has_system;
    const pal_tool *tools; /* tools that the caller runs; a call of one pauses the turn */
    size_t tools_len;
    bool no_server_tools; /* offer only the caller's tools */
    pal_str tool_choice;  /* JSON in OpenAI's format; empty: auto */
    pal_str parameters;   /* a JSON object whose members are added to requests to the model service.
                             They override those of session, agent and runtime; null removes a
                             member */
    uint64_t output_max;  /* maximum tokens of one answer; 0: the model's limit */
    bool has_context;
    pal_context_settings context; /* replaces all other context settings, if has_context is set */
    uint32_t max_tool_iterations; /* rounds of tools; 0: the session's, the agent's or the
                                     runtime's */
    bool all_or_nothing;          /* if the turn fails or is canceled, everything that it recorded
                                     is hidden again */
    pal_budget budget;
    pal_str label;            /* free text, returned in the STARTED event; may be empty */
    bool no_retries;          /* do not retry failed model calls, because the caller does */
    bool calls_end_turn;      /* a call of one of `tools` ends the turn as DONE with has_calls,
                                 instead of pausing it; with no_server_tools also a call of any
                                 other tool. A later turn brings the results, as messages
                                 of role tool before its other messages. Calls that get no result
                                 there are recorded as interrupted */
    pal_turn_on_done on_done; /* may be NULL. A queued request with `on_done` is kept in memory
                                 only, because the callback could not be made after a restart */
    void *on_done_user;       /* must stay valid until the turn has ended or was refused */
    uint64_t expected_seq;    /* not 0: fail with PAL_CONFLICT unless this is the session's last_seq
                                 when the messages are recorded */
    const pal_op *create_ops; /* operations that create the session, in the commit that records the
                              messages: a create with the id `session`, which must be new, and any
                              others. If one of them fails, the turn is refused. Not copied: must
                              stay valid until pal_turn_start() returns or `on_start` is called */
    size_t create_ops_len;    /* up to PAL_TURN_CREATE_OPS_MAX; 0: the session exists */
    pal_str agent;         /* the agent for this turn; if empty, the session's agent. If the runtime
                              has agents, a name that is not one of them fails with
                              PAL_NOT_FOUND */
    const pal_permission_rule *permissions; /* they can only restrict what the configuration
                                               allows; a tool that no rule matches is not
                                               restricted */
    size_t permissions_len;
    bool cannot_ask; /* the caller cannot answer questions. Calls that need approval are denied,
                        or run if unasked_allowed is set; a third identical call is denied */
    bool cannot_input; /* the caller can approve calls, but cannot answer PAL_QUESTION_INPUT; such
                          questions are declined */
    bool asks_end_turn; /* calls that need approval end the turn as DONE with has_calls, after an
                           ASKING event. A later turn brings `answers`. With unasked_allowed, only
                           calls that `permissions` says ASK for end the turn; the others run */
    pal_str items_request; /* members of a request of OpenAI's Responses, a JSON object. If the
                              endpoint has that API, the model is called by it, with these members
                              in place of tool_choice and parameters. The caller runs calls of
                              tools that are not offered here. Kept in memory only; may be
                              empty */
    const pal_question_answer *answers; /* answers to the questions that ended the session's newest
                                           turn, or about open calls in `messages`. Allowed calls
                                           run before the model is called. Requires `on_done`, or
                                           the lane REJECT */
    size_t answers_len;
    const pal_turn_channel *channel; /* NULL: the request does not come from a channel */
} pal_turn_request;

typedef enum pal_turn_state {
    PAL_TURN_NONE = 0,
    PAL_TURN_QUEUED = 1, /* waits until the session is free */
    PAL_TURN_RUNNING = 2,
    PAL_TURN_RETRYING = 3, /* waits before it calls the model again */
    PAL_TURN_PAUSED = 4,   /* waits for results of the caller's tools: pal_turn_results() */
    PAL_TURN_ASKING = 5,   /* waits for answers to its questions: pal_turn_answer() */
    PAL_TURN_DONE = 6,
    PAL_TURN_FAILED = 7,
    PAL_TURN_CANCELED = 8,
} pal_turn_state;

/* Returns the lower-case name, for example "retrying". "none" for an unknown value. */
PAL_API const char *pal_turn_state_name(pal_turn_state state);

typedef struct pal_turn_info {
    pal_id turn;
    pal_id session;
    pal_turn_state state;
    bool replayed;    /* the client ids were used before: this is the turn of the first request, in
                         whichever process it runs. `turn` is empty if those messages do not belong
                         to a turn */
    bool steered;     /* the messages joined the running turn `turn` */
    uint64_t events;  /* number of the newest event */
    uint32_t attempt; /* RETRYING: the number of the next attempt, from 2 */
    int64_t retry_at; /* RETRYING: time of the next attempt, in milliseconds since 1970 */
    char reason[PAL_ERROR_MESSAGE_MAX]; /* RETRYING, FAILED, ASKING, CANCELED: why */
    pal_status status;                  /* FAILED: the error */
    long code;                          /* FAILED: the HTTP status of the model service; 0: none */
    int64_t retry_after_ms;             /* FAILED: the delay that the service requested; 0: none */
    bool has_calls; /* DONE: the caller's tools were called, and the PAUSED event carried the calls;
                       or calls need approval, and the ASKING event carried the questions */
    pal_id message; /* the newest answer; empty if there is none yet */
    uint64_t seq;   /* the seq of that answer; 0: none */
    bool is_elsewhere; /* the turn is not in this process: another process runs it, will continue it
                          or has ended it. It cannot be watched or canceled here */
    PAL_RESERVED(4);
} pal_turn_info;

/* Starts a turn and waits until its messages are durable. Does not wait for the model: use
 * pal_turn_watch() or pal_turn_wait() for the answer.
 *
 *   PAL_BUSY       the session is not idle, and the lane is REJECT or there are no messages
 *   PAL_CONFLICT   expected_seq does not match, or a client id was used for a different message
 *   PAL_INVALID    a message, tool or result is not valid
 *   PAL_NOT_FOUND  there is no such session, endpoint or agent
 *   PAL_LIMIT      the session's inbox is full
 *   PAL_OVERLOADED turns_max turns run or wait already
 *   PAL_CANCELED   the runtime is being closed */
PAL_API PAL_CHECKED pal_status pal_turn_start(pal_runtime *runtime, const pal_turn_request *request,
        pal_turn_info *out_info, pal_error *err);

/* Like pal_turn_start(), but does not wait. If this function returns PAL_OK, `on_start` is called
 * exactly once, on the loop: with `info`, or with `err` and `info` NULL if the turn was refused. */
typedef void (*pal_turn_on_start)(const pal_turn_info *info, const pal_error *err, void *user);
PAL_API PAL_CHECKED pal_status pal_turn_start_async(pal_runtime *runtime,
        const pal_turn_request *request, pal_turn_on_start on_start, void *user, pal_error *err);

/* ---- Events ---- */

/* Each comment lists the members of pal_event that are set, in addition to number, kind and
 * turn. */
typedef enum pal_event_kind {
    PAL_EVENT_NONE = 0,
    PAL_EVENT_STARTED = 1,   /* the turn runs. text: the request's label */
    PAL_EVENT_STEP = 2,      /* a model call begins. count: its number, from 1; message: the id that
                                its answer will have; name: the model */
    PAL_EVENT_TEXT = 3,      /* text: more of the answer; count: the part that it belongs to, from
                                1; is_refusal */
    PAL_EVENT_REASONING = 4, /* text: more of the reasoning; count: the part that it belongs to,
                                from 1; call_id: "summary" if it is a summary, otherwise empty */
    PAL_EVENT_CALL = 5, /* the model begins a tool call. call_id, name; count: the part, from 1;
                           text: the `extra` that the call will have */
    PAL_EVENT_ARGUMENTS = 6,    /* call_id; text: more of the call's arguments */
    PAL_EVENT_MESSAGE = 7,      /* an answer was recorded. message, seq, at, usage, finish */
    PAL_EVENT_TOOL_STARTED = 8, /* call_id, name; text: the arguments */
    PAL_EVENT_TOOL_ENDED = 9,   /* call_id, name; text: the result; status */
    PAL_EVENT_RETRYING = 10,  /* count: the number of the attempt; at: its time; text: the reason */
    PAL_EVENT_COMPACTED = 11, /* text: what was done; count: tokens saved */
    PAL_EVENT_STEERED = 12,   /* a message joined the turn. message, seq */
    PAL_EVENT_PAUSED = 13,    /* text: the calls for the caller, a JSON array. With calls_end_turn
                                 the turn is over and ENDED is next */
    PAL_EVENT_ASKING = 14,    /* questions; call_id, name and text are those of the first one. With
                                 asks_end_turn the turn is over and ENDED is next */
    PAL_EVENT_ENDED = 15,     /* always the last event. state, status; text: the reason; usage:
                                 total of the turn; name: the endpoint, if one was chosen; code;
                                 retry_after_ms */
    PAL_EVENT_TOOLS_MISSING = 16, /* a tool server did not start in time, so this turn runs without
                                     its tools. name: the server; text: the reason */
    PAL_EVENT_ITEM = 17, /* with items_request: text: a complete item of the answer, as JSON; count:
                            its first part, from 1. The texts of the item came before it */
    PAL_EVENT_PROGRESS = 18, /* with items_request: text: an event of the service about an item that
                                it has not completed, as JSON; count: the first part of the item */
} pal_event_kind;

/* Returns the lower-case name, for example "tool_started". "none" for an unknown value. */
PAL_API const char *pal_event_kind_name(pal_event_kind kind);

/* One event of a turn. Valid during the callback only. */
typedef struct pal_event {
    uint64_t number; /* counted from 1 in each turn. Late readers get several events that add to one
                        text as one event, with the number of the last */
    pal_event_kind kind;
    pal_id turn;
    pal_str text;
    pal_str call_id;
    pal_str name;
    pal_id message;
    uint64_t seq;
    uint64_t count;
    int64_t at; /* when it happened, in milliseconds since 1970; RETRYING: when the next attempt
                   begins; 0: TEXT, REASONING and ARGUMENTS */
    pal_usage usage;
    pal_turn_state state;
    pal_status status;
    pal_finish finish;      /* MESSAGE: why the model stopped writing the answer */
    long code;              /* ENDED: as in pal_turn_info */
    int64_t retry_after_ms; /* ENDED: as in pal_turn_info */
    bool is_refusal;        /* TEXT: the model declines to answer */
    pal_str questions;      /* ASKING: a JSON array with an object for each pal_question */
    PAL_RESERVED(6);
} pal_event;

/* Receives one event, on the loop. Return false to stop watching. */
typedef bool (*pal_turn_on_event)(const pal_event *event, void *user);

/* Watches a turn. Calls `on_event` for each event after number `after`: first for past events that
 * are still kept, before this function returns, then for new events up to and including ENDED. A
 * turn can have any number of watchers.
 *
 * If a turn has many events, older events that add to one text are merged into one, so that no text
 * is lost. If this does not make enough room, the oldest events are dropped. In both cases an event
 * has a number that is larger than the previous one + 1.
 *
 * An ENDED event with a state other than DONE, FAILED or CANCELED means that this runtime was
 * closed. Another runtime continues the turn and numbers its events from 1 again. If `after` is
 * larger than the newest number, all events are sent.
 *
 * `on_close` (may be NULL) is called once, on the loop, when no more events will come, for whatever
 * reason. If this function fails, neither callback is called.
 *
 * PAL_NOT_FOUND: the turn is not in this runtime's memory; read the session's messages. */
PAL_API PAL_CHECKED pal_status pal_turn_watch(pal_runtime *runtime, pal_str tenant, pal_id turn,
        uint64_t after, pal_turn_on_event on_event, void (*on_close)(void *user), void *user,
        pal_error *err);
/* Stops the watchers of the turn that were added with `user`, and calls their `on_close`. No
 * callback is made after this function returns. */
PAL_API void pal_turn_unwatch(pal_runtime *runtime, pal_id turn, void *user);

/* ---- Events on the caller's thread ---- */

/* Like pal_turn_watch(), but both callbacks run in pal_runtime_dispatch(), on the thread that calls
 * it. For programs with an event loop. Such a callback can call every function of the runtime
 * except pal_runtime_dispatch() and pal_runtime_close(). To stop the watch, return false from
 * `on_event`.
 *
 * Events wait until they are dispatched. If more than PAL_DISPATCH_BYTES_MAX bytes wait, or there
 * is no memory for an event, the watch ends after the waiting events: `on_close` is called, and
 * ENDED was not reported. Watch the turn again, after the last number, to get the others. */
PAL_API PAL_CHECKED pal_status pal_turn_watch_queued(pal_runtime *runtime, pal_str tenant,
        pal_id turn, uint64_t after, pal_turn_on_event on_event, void (*on_close)(void *user),
        void *user, pal_error *err);

/* Returns a file descriptor that is readable while callbacks of pal_turn_watch_queued() wait, for
 * poll(), epoll and event loops. Do not read it, write it or close it: pal_runtime_close() closes
 * it. -1 if the system has no more file descriptors. */
PAL_API int pal_runtime_fd(pal_runtime *runtime);

/* Makes up to `callbacks_max` waiting callbacks (0: all that wait now), in order, on the calling
 * thread. Returns how many were made. Does not wait for events. Must be called by one thread at a
 * time. */
PAL_API size_t pal_runtime_dispatch(pal_runtime *runtime, size_t callbacks_max);

/* ---- While a turn runs ---- */

/* Reports the current state of a turn. For a turn that is not in this runtime's memory, the store
 * is read: the turn is waiting, runs in another process, will be continued, or has ended. On the
 * loop the store is not read. PAL_NOT_FOUND: the turn has recorded nothing, or its messages do not
 * exist any more. */
PAL_API PAL_CHECKED pal_status pal_turn_find(
        pal_runtime *runtime, pal_str tenant, pal_id turn, pal_turn_info *out_info, pal_error *err);
/* Reports the active turn of a session: the one that runs or waits for the caller, otherwise the
 * first in the queue. Turns of other processes are found in the store. PAL_NOT_FOUND: the session
 * is idle. */
PAL_API PAL_CHECKED pal_status pal_turn_of_session(pal_runtime *runtime, pal_str tenant,
        pal_id session, pal_turn_info *out_info, pal_error *err);

/* A turn in a list, with what it is doing. */
typedef struct pal_turn_entry {
    pal_turn_info info;
    uint32_t step; /* number of the current or last model call; 0: none yet */
    pal_str tool;  /* the tool that runs; empty: none */
    pal_str model; /* empty: not chosen yet */
    pal_str label; /* the label of the request */
    PAL_RESERVED(4);
} pal_turn_entry;

typedef struct pal_turn_query {
    pal_str tenant;
    uint32_t states; /* bits 1 << PAL_TURN_...; 0: all */
    pal_id after;    /* begin after this turn; empty: at the oldest */
    uint32_t limit;  /* turns in the result, up to PAL_TURN_LIST_MAX; 0: PAL_TURN_LIST_MAX */
    PAL_RESERVED(4);
} pal_turn_query;

/* Lists the turns of a tenant in this runtime's memory, the oldest first. Turns that have ended are
 * kept in memory for a while. *out_more is set to true if there are more. Turns of other processes
 * are not listed. Can be called from any thread; waits for the loop. */
PAL_API PAL_CHECKED pal_status pal_turn_list(pal_runtime *runtime, const pal_turn_query *query,
        pal_arena *arena, pal_turn_entry **out_turns, size_t *out_len, bool *out_more,
        pal_error *err);

/* A request that waits in a session's inbox. */
typedef struct pal_waiting_request {
    pal_id item;      /* its id in the inbox */
    pal_id turn;      /* the turn that will answer it; for a steer, the running turn */
    pal_str delivery; /* "queue", "note" or "steer" */
    const pal_message *messages;
    size_t messages_len;
    int64_t created_at;
    PAL_RESERVED(4);
} pal_waiting_request;

/* Lists the requests that wait in a session, the oldest first. Blocks. */
PAL_API PAL_CHECKED pal_status pal_turn_inbox(pal_runtime *runtime, pal_str tenant, pal_id session,
        pal_arena *arena, pal_waiting_request **out_requests, size_t *out_len, pal_error *err);
/* Makes the inbox item of a request, for a program that stores requests together with other data in
 * one batch. Add the item to the inbox of request->session (PAL_OP_INBOX_ADD), then call
 * pal_runtime_wake(). The turn then runs as if pal_turn_start() had been called with the lane
 * QUEUE. The request must have messages, and none of on_done, create_ops, answers and
 * items_request. The client id of the item is that of the first message. `out_turn` (may be NULL)
 * is the id of the turn, unless the messages were recorded before. PAL_INVALID: the request cannot
 * wait in an inbox. */
PAL_API PAL_CHECKED pal_status pal_turn_to_item(const pal_turn_request *request, pal_arena *arena,
        pal_inbox_item *out_item, pal_id *out_turn, pal_error *err);
/* Runs the requests that wait in the inbox of a session, even with `leave_inbox`. Does not wait,
 * and can be called from any thread and as often as needed. Without this call they are found within
 * PAL_BACKLOG_MS. */
PAL_API PAL_CHECKED pal_status pal_runtime_wake(
        pal_runtime *runtime, pal_str tenant, pal_id session, pal_error *err);
/* Withdraws a waiting request: its messages are not recorded, and its turn is canceled. Blocks.
 *
 *   PAL_NOT_FOUND  the request is no longer waiting
 *   PAL_CONFLICT   it is a steer that the running turn already has, or its turn has begun */
PAL_API PAL_CHECKED pal_status pal_turn_inbox_drop(
        pal_runtime *runtime, pal_str tenant, pal_id session, pal_id item, pal_error *err);

/* Stops a turn. The answer so far is recorded and marked as interrupted. If the turn is queued, its
 * messages are removed from the inbox. A turn that runs in another process is not stopped. Waits
 * until the end is durable, up to 10 seconds; then it returns PAL_TIMEOUT. PAL_NOT_FOUND: the turn
 * is not in this runtime's memory. */
PAL_API PAL_CHECKED pal_status pal_turn_cancel(
        pal_runtime *runtime, pal_str tenant, pal_id turn, pal_error *err);

/* Like pal_turn_cancel(), but does not wait, for threads that must not block. The ENDED event
 * reports the end. If there is no memory, the turn is not stopped. */
PAL_API void pal_turn_cancel_async(pal_runtime *runtime, pal_str tenant, pal_id turn);

/* Sends results of the caller's tools to a PAUSED turn: messages of role tool with one TOOL_RESULT
 * part for each call. The turn continues when it has all results. This also works after a restart
 * and in another process than the turn's: then send all results at once. Name the turn, or name the
 * session and leave `turn` empty. Waits until the results are accepted.
 *
 *   PAL_CONFLICT   the turn is not paused
 *   PAL_INVALID    a result does not belong to a call that waits for one
 *   PAL_NOT_FOUND  there is no such turn or session */
PAL_API PAL_CHECKED pal_status pal_turn_results(pal_runtime *runtime, pal_str tenant,
        pal_id session, pal_id turn, pal_message *messages, size_t messages_len,
        pal_turn_info *out_info, pal_error *err);

/* Why a turn asks. */
typedef enum pal_question_kind {
    PAL_QUESTION_NONE = 0,
    PAL_QUESTION_APPROVAL = 1, /* the permission of the tool is ASK */
    PAL_QUESTION_REPEAT = 2,   /* the model made the same call three times in a row */
    PAL_QUESTION_INPUT = 3,    /* the tool server requires input from a person. data: the inputs;
                                  docs/turns.md describes them and the data of the answer */
} pal_question_kind;

/* Returns the lower-case name, for example "approval". "none" for an unknown value. */
PAL_API const char *pal_question_kind_name(pal_question_kind kind);

/* A question of an ASKING turn about one tool call. The turn asks all its questions at the same
 * time, after its other calls have ended. */
typedef struct pal_question {
    pal_question_kind kind;
    pal_str call_id;
    pal_str name;      /* the tool */
    pal_str server;    /* the tool server that runs the call; empty: a built-in tool */
    pal_str arguments; /* the JSON that the model wrote */
    pal_str text;      /* the question, one sentence */
    pal_str data;      /* a JSON object with further details of the kind; may be empty */
    PAL_RESERVED(4);
} pal_question;

/* The calls or the question that a turn waits for. Members that do not apply are empty. */
typedef struct pal_turn_waits {
    pal_str calls; /* PAUSED: the calls for the caller, the JSON array of the PAUSED event */
    pal_str asked_call_id;   /* ASKING: the call of the first question */
    pal_str asked_name;      /* ASKING: its tool */
    pal_str asked_arguments; /* ASKING: its arguments */
    const pal_question *questions; /* ASKING */
    size_t questions_len;
    PAL_RESERVED(2);
} pal_turn_waits;

/* Reports what a turn waits for, from memory or from the store. PAL_NOT_FOUND: there is no such
 * turn. */
PAL_API PAL_CHECKED pal_status pal_turn_waiting(pal_runtime *runtime, pal_str tenant, pal_id turn,
        pal_arena *arena, pal_turn_waits *out_waits, pal_error *err);

/* Answers all questions of an ASKING turn, which then continues. This also works after a restart
 * and in another process than the turn's. Remembered answers are durable before the turn continues.
 *
 *   PAL_CONFLICT   the turn is not asking
 *   PAL_INVALID    a question has no answer, or an answer has no question; nothing was answered
 *   PAL_NOT_FOUND  there is no such turn */
PAL_API PAL_CHECKED pal_status pal_turn_answer(pal_runtime *runtime, pal_str tenant, pal_id turn,
        const pal_question_answer *answers, size_t answers_len, pal_error *err);

/* Gives the same answer to all questions, and remembers nothing. The errors are those of
 * pal_turn_answer(). */
PAL_API PAL_CHECKED pal_status pal_turn_allow(
        pal_runtime *runtime, pal_str tenant, pal_id turn, bool allow, pal_error *err);

/* Waits until a turn ends, pauses or asks. `out_text` is the text of its newest answer. A turn that
 * FAILED is not an error here: check out_info->state.
 *
 *   PAL_TIMEOUT    `timeout_ms` have passed; a negative value waits without limit
 *   PAL_NOT_FOUND  the turn is not in this runtime's memory */
PAL_API PAL_CHECKED pal_status pal_turn_wait(pal_runtime *runtime, pal_str tenant, pal_id turn,
        int64_t timeout_ms, pal_arena *arena, pal_turn_info *out_info, pal_str *out_text,
        pal_error *err);

/* ---- Context, models and tools ---- */

/* Compacts a session with the runtime's model, as a turn does. All members of `compaction` are used
 * except `summarize` and `user`; if prompt, model, system or parameters are empty, those of the
 * runtime's options are used. Blocks until it is done. PAL_BUSY: a turn is running in the
 * session. */
PAL_API PAL_CHECKED pal_status pal_turn_compact(pal_runtime *runtime, pal_str tenant,
        pal_id session, const pal_compaction_request *compaction, pal_arena *arena,
        pal_compaction_result *out_compacted, pal_error *err);

/* Plans what the model would receive for `request` now, with the runtime's settings. Messages of
 * the request are planned as if they were already recorded. Changes nothing. Reads the store on the
 * caller's thread. */
PAL_API PAL_CHECKED pal_status pal_turn_plan(pal_runtime *runtime, const pal_turn_request *request,
        pal_arena *arena, pal_plan *out_plan, pal_error *err);

/* The state of the session that a plan is made for. Zero it, then set the members that are
 * needed. */
typedef struct pal_plan_state {
    uint64_t at_seq; /* not 0: the session as it was when the message `at_seq` was appended, with
                        the messages before it and the marks of that time, but with the present
                        settings and tools. If that message is an answer, the prefix of the plan
                        compares the plan with the request for this answer */
    const uint64_t *without; /* numbers of the session's own marks that do not count */
    size_t without_len;
    bool before_compaction; /* as pal_turn_compact() would plan: the action is COMPACT, with the
                               cut, unless there is nothing that a summary could replace */
    PAL_RESERVED(3);
} pal_plan_state;

/* A plan and the model that it was made for. */
typedef struct pal_turn_preview {
    pal_plan plan;
    pal_str endpoint;
    pal_str model;
    PAL_RESERVED(4);
} pal_turn_preview;

/* As pal_turn_plan(), for another state of the session. `state` may be NULL: now. PAL_INVALID: the
 * session has not had as many messages, or has no such mark. */
PAL_API PAL_CHECKED pal_status pal_turn_plan_state(pal_runtime *runtime,
        const pal_turn_request *request, const pal_plan_state *state, pal_arena *arena,
        pal_turn_preview *out_preview, pal_error *err);

/* A model that an endpoint offers. */
typedef struct pal_served_model {
    pal_str endpoint;
    pal_str model;
    PAL_RESERVED(4);
} pal_served_model;

/* Lists the models of all endpoints; each endpoint's default model comes first. Endpoints that do
 * not answer within `timeout_ms` are left out. Blocks. */
PAL_API PAL_CHECKED pal_status pal_runtime_models(pal_runtime *runtime, int64_t timeout_ms,
        pal_arena *arena, pal_served_model **out_models, size_t *out_len, pal_error *err);

/* Returns the tool server with this name; NULL if there is none. With an empty name, returns any
 * server. Valid until the runtime is closed; can be called from any thread. */
PAL_API const pal_tool_server *pal_runtime_tool_server(const pal_runtime *runtime, pal_str name);

/* Lists the server tools and built-in tools, also those that the configuration denies. A turn of
 * the default agent offers the model all that are not denied, in addition to the caller's. */
PAL_API PAL_CHECKED pal_status pal_runtime_tools(pal_runtime *runtime, pal_arena *arena,
        pal_tool **out_tools, size_t *out_len, pal_error *err);

typedef enum pal_tool_server_state {
    PAL_TOOL_SERVER_NONE = 0,
    PAL_TOOL_SERVER_STARTING = 1,
    PAL_TOOL_SERVER_READY = 2,
    PAL_TOOL_SERVER_RESTARTING = 3, /* the server died or cannot be reached; it is tried again */
    PAL_TOOL_SERVER_FAILED = 4,     /* the server died too often and is not tried again */
} pal_tool_server_state;

/* Returns the lower-case name, for example "ready". "none" for an unknown value. */
PAL_API const char *pal_tool_server_state_name(pal_tool_server_state state);

/* The current state of a tool server. */
typedef struct pal_tool_server_info {
    pal_str name;
    pal_tool_server_state state;
    pal_str reason; /* the last failure; may be empty */
    PAL_RESERVED(4);
} pal_tool_server_info;

/* Reports the states of all tool servers, in the order of the options. Can be called from any
 * thread; waits for the loop. */
PAL_API PAL_CHECKED pal_status pal_runtime_tool_servers(pal_runtime *runtime, pal_arena *arena,
        pal_tool_server_info **out_servers, size_t *out_len, pal_error *err);

/* Waits until the tool servers have listed their tools or failed, as a turn does: at most for
 * `tools_wait_ms` after the runtime was opened. Must not be called on the runtime's loop. */
PAL_API void pal_runtime_tools_await(pal_runtime *runtime);

/* ---- Forwarding ---- */

/* The API that a forwarded request is written for. */
typedef enum pal_forward_api {
    PAL_FORWARD_CHAT = 0,     /* OpenAI's chat completions */
    PAL_FORWARD_MESSAGES = 1, /* Anthropic's Messages */
    PAL_FORWARD_RESPONSES = 2, /* OpenAI's Responses */
} pal_forward_api;

/* A request that is sent to an endpoint unchanged. */
typedef struct pal_forward {
    pal_str endpoint;  /* if empty, the endpoint whose default model is `model`, or the default
                          endpoint */
    pal_str model;     /* if empty, the default model */
    pal_str path;      /* appended to the endpoint's URL, for example "/chat/completions" */
    pal_str body;      /* JSON */
    pal_str tenant;    /* the ledger row is written for this tenant, with the purpose "forward" */
    pal_budget budget; /* only the tenant's limits apply; they are checked before the call */
    bool asks_usage;   /* add stream_options.include_usage to the request of a stream if the service
                          needs it to report its usage */
    const pal_header *headers; /* sent in place of the endpoint's headers with the same names; its
                                  API key cannot be replaced */
    size_t headers_len;
    pal_forward_api api;
    bool is_free; /* the response contains no answer, for example a count of tokens: nothing is
                     counted, and the budget is not checked */
    pal_str conversation; /* the client's name of the conversation, for the headers by which a
                             router keeps its requests together; may be empty */
    uint64_t has_late_session; /* 1: the ledger row is not written before the call is released, so
                                  that pal_forward_call_set_session() can name its session */
    PAL_RESERVED(2);
} pal_forward;

/* Receives the response, on the loop, in this order: header (any number of times), head, bytes (any
 * number of times), end. */
typedef struct pal_forward_sink {
    void (*header)(pal_str name, pal_str value, void *user); /* may be NULL; names are in lower
                                                                case */
    void (*head)(unsigned code, void *user); /* once, after the headers; the HTTP status */
    void (*bytes)(pal_str bytes, void *user);
    /* Always called, once and last. PAL_OK: the response is complete, whatever its HTTP status.
     * PAL_BUDGET: the budget is used up, and no request was sent. */
    void (*end)(pal_status status, const pal_error *err, void *user);
    PAL_RESERVED(4);
} pal_forward_sink;

typedef struct pal_forward_call pal_forward_call;

/* Forwards a request without waiting: no session, no tools, no retries. The sink may be called
 * before this function returns. The caller must release *out_call with
 * pal_forward_call_release().
 *
 * The usage in the response is added to the runtime's stats at once, and to the ledger soon after.
 * Closing the runtime writes what is missing. Streams report usage only if the request asks for it.
 * If a response reports no usage, the tokens of the request and of the response so far are counted
 * with the model's encoding. An error response counts nothing.
 *
 *   PAL_CONFLICT   the endpoint does not speak the request's API
 *   PAL_NOT_FOUND  there is no such endpoint */
PAL_API PAL_CHECKED pal_status pal_runtime_forward(pal_runtime *runtime, const pal_forward *request,
        const pal_forward_sink *sink, void *user, pal_forward_call **out_call, pal_error *err);
/* Returns true if the endpoint that a turn with this endpoint and model uses speaks the API; both
 * may be empty. Can be called from any thread. */
PAL_API bool pal_runtime_speaks(
        const pal_runtime *runtime, pal_str endpoint, pal_str model, pal_forward_api api);
/* Releases a forwarded request. Call it once for each, before the runtime is closed, from any
 * thread or from the sink. If the call is still running, it is canceled, and `end` reports that
 * soon after. Accepts NULL. */
PAL_API void pal_forward_call_release(pal_forward_call *forwarding);
/* Sets the session that the ledger row names; without it, the row names none. Only with
 * pal_forward.has_late_session. Call it after `end` and before the release, from any thread. */
PAL_API void pal_forward_call_set_session(pal_forward_call *forwarding, pal_id session);

/* Counts the turns and forwarded requests of an owner (pal_budget.owner) that run or wait now. Can
 * be called from any thread; does not wait for the loop. */
PAL_API uint64_t pal_runtime_owned(pal_runtime *runtime, pal_str owner);

/* ---- Several processes on one store ---- */

/* Returns the name of this runtime in leases (pal_lease.owner). It is valid until the runtime is
 * closed. */
PAL_API pal_str pal_runtime_name(const pal_runtime *runtime);

/* Puts this number into the ids of turns that start from now on. Processes that share a store have
 * different numbers, so that the id of a turn shows which of them has started it. 0: no number,
 * which is the default. */
PAL_API void pal_runtime_set_slot(pal_runtime *runtime, uint16_t slot);
/* Returns the number in the id of a turn. 0: it has none. The ids of other versions of Palaver have
 * random numbers. */
PAL_API uint16_t pal_turn_slot(pal_id turn);

/* ---- Statistics ---- */

/* Called on the loop when the state of a turn changes. Must not block. `info` is valid during the
 * callback only. */
typedef void (*pal_turn_on_state)(pal_str tenant, const pal_turn_info *info, void *user);

/* Reports the states of all turns of this runtime to `on_state` from now on, and no longer to the
 * previous sink. NULL ends it. No callback of the previous sink is made after this function
 * returns. */
PAL_API void pal_runtime_watch(pal_runtime *runtime, pal_turn_on_state on_state, void *user);

typedef struct pal_runtime_stats {
    uint64_t turns_running;
    uint64_t turns_queued;
    uint64_t turns_waiting; /* PAUSED or ASKING */
    uint64_t turns_ended;
    uint64_t turns_failed;
    uint64_t model_calls;
    uint64_t model_retries;
    uint64_t tool_calls;
    uint64_t watchers;
    pal_usage usage; /* total of all model calls that have ended */
    int64_t cost_micros;
    PAL_RESERVED(8);
} pal_runtime_stats;

/* Reports the runtime's counters. Can be called from any thread. */
PAL_API void pal_runtime_stat(pal_runtime *runtime, pal_runtime_stats *out_stats);

#ifdef __cplusplus
}
#endif
#endif
