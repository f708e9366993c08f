/* api_turn.h - runs a turn for a request, from reading the request to the response. No thread waits
 * for the turn: the runtime's loop reports its events, and a worker sends the response. */
#ifndef PAL_API_TURN_H
#define PAL_API_TURN_H

#include "server/server.h"

typedef struct pal_api_turn pal_api_turn;

/* The words of a pal_turn_state. */
#define PAL_API_TURN_STATES "idle queued running retrying paused asking done failed canceled"

extern const pal_api_object pal_api_turn_settings;    /* what pal_api_turn_read() reads */
extern const pal_api_object pal_api_context_settings; /* the member "context" of a turn */
extern const pal_api_object pal_api_turn_answer;
extern const pal_api_object pal_api_token_usage;
extern const pal_api_object pal_api_turn_state;

/* Writes the members that say what a paused or asking turn waits for. `info` is updated if the turn
 * has continued meanwhile. */
PAL_CHECKED pal_status pal_api_turn_put_waits(
        pal_call *call, pal_turn_info *info, pal_json_writer *writer, pal_error *err);
/* Writes the member "so_far": the unfinished answer and the number of its last event, or null if
 * the turn is not in this process (api_turn_look.c). */
PAL_CHECKED pal_status pal_api_turn_put_so_far(
        pal_call *call, const pal_turn_info *info, pal_json_writer *writer, pal_error *err);

/* A tool call of the turn, as it was recorded. */
typedef struct pal_api_tool_call {
    pal_str call_id;
    pal_str name;
    pal_str arguments;
    pal_str output;
    bool has_output;
    bool is_error;
} pal_api_tool_call;

/* The result of a turn until it stops. A turn stops when it is paused, asks for permission, or
 * ends. */
typedef struct pal_api_outcome {
    uint64_t after;    /* events up to this number are old and do not count as a stop */
    uint64_t stop_at;  /* the event with which the turn had stopped already; 0: it was running */
    uint64_t from_seq; /* seq of the turn's first answer; 0 if it has none */
    uint64_t seq;      /* seq of the turn's newest answer */
    pal_id message;    /* id of the turn's newest answer */
    pal_finish finish; /* why the model stopped writing the newest answer */
    bool has_calls;    /* the newest answer calls tools */
    pal_turn_state state;
    pal_status status; /* if FAILED: the cause */
    pal_str reason;
    pal_str waiting;    /* if PAUSED: the calls for the caller, as a JSON array */
    pal_str asked_call; /* if ASKING: the call that needs permission */
    pal_str asked_name;
    pal_str questions; /* if ASKING: all questions, as a JSON array */
    pal_str text; /* text of the newest answer */
    pal_api_tool_call *calls;
    size_t calls_len;
    pal_ledger_sum sum;
} pal_api_outcome;

/* Allocated in the call's arena. It is the call's `user` while the turn runs. */
struct pal_api_turn {
    pal_call *call;
    pal_turn_request request;
    bool is_stream;
    bool is_background;
    pal_str strategy;      /* the name of the context strategy; empty: the session's */
    uint64_t stream_after; /* a stream skips events up to this number, which the client knows */
    /* Optional callbacks; they run on a worker. */
    /* Writes additional members first. */
    void (*put_members)(const pal_api_turn *turn, pal_json_writer *writer);
    void (*send)(pal_api_turn *turn); /* replaces the native response */
    /* Replaces the native error. */
    void (*fail)(pal_api_turn *turn, pal_status status, const pal_error *err);
    void *user;

    pal_turn_info info; /* set after the turn has started */
    pal_error start_error;
    pal_api_outcome outcome;
};

/* Creates a turn for the session, with the caller's budget. Returns NULL if out of memory. */
pal_api_turn *pal_api_turn_new(pal_call *call, const pal_session *session);

/* Reads the context settings of a session. The session's settings override its agent's, which
 * override the configuration's. */
PAL_CHECKED pal_status pal_api_session_context(pal_call *call, const pal_session *session,
        pal_str agent, pal_context_settings *out_settings, pal_error *err);

/* Reads the settings of the turn from the body: lane, model, tools, stream and so on, but not the
 * messages. If `has_context`, the member "context" contains context settings. */
PAL_CHECKED pal_status pal_api_turn_read(
        pal_api_turn *turn, const pal_session *session, bool has_context, pal_error *err);

/* Reads the body of a turn: its messages, its agent and all settings. */
PAL_CHECKED pal_status pal_api_turn_body_read(
        pal_api_turn *turn, const pal_session *session, pal_error *err);
extern const pal_api_object pal_api_turn_body;

/* Reads the agent before the other settings. If agents are configured, it must be one of them. */
PAL_CHECKED pal_status pal_api_agent_read(pal_api_turn *turn, pal_error *err);

/* Starts the turn. The call is answered later. Can be called from any thread. */
PAL_CHECKED pal_status pal_api_turn_start(pal_api_turn *turn, pal_error *err);

/* Call it on a worker, with `info` set. Answers in the way that the request wants: as a stream, in
 * the background, or when the turn stops. */
void pal_api_turn_follow(pal_api_turn *turn);

/* Responds with a stream of the turn's events after number `after`: past events first, then each
 * new one. If the reader leaves, the turn continues. The call must not be used after PAL_OK. If it
 * fails, nothing was sent. Call it on a worker. */
PAL_CHECKED pal_status pal_api_turn_stream(
        pal_call *call, const pal_turn_info *info, uint64_t after, pal_error *err);

/* Call it on a worker. Reads the recorded messages and responds with the outcome. */
void pal_api_turn_send(pal_api_turn *turn);

/* Responds with 202; the turn continues. */
void pal_api_turn_send_state(pal_api_turn *turn);

/* Fails, and adds the known facts about the turn to the error. */
void pal_api_turn_fail(pal_api_turn *turn, pal_status status, const pal_error *err);

/* Call it on a worker. The turn was not started, for the reason in `start_error`. */
void pal_api_turn_refuse(pal_api_turn *turn);

/* Finds the turn that the path names. Call it on a worker, because it waits for the runtime. */
PAL_CHECKED pal_status pal_api_turn_find(pal_call *call, pal_turn_info *out_info, pal_error *err);

/* Finds the session that the path names. A session in the trash is not found. */
PAL_CHECKED pal_status pal_api_active_session(
        pal_call *call, pal_str name, pal_session *out_session, pal_error *err);

/* Reads tools in the format of chat completions, in the call's arena. */
PAL_CHECKED pal_status pal_api_tools_read(
        pal_call *call, pal_json array, pal_tool **out_tools, size_t *out_len, pal_error *err);
/* Reads tools one by one. The first function checks the array and allocates all tools. The second
 * one reads one tool of type function. */
PAL_CHECKED pal_status pal_api_tools_begin(
        pal_call *call, pal_json array, pal_tool **out_tools, pal_error *err);
PAL_CHECKED pal_status pal_api_tool_read(
        pal_call *call, pal_json value, pal_tool *out_tool, pal_error *err);

#endif
