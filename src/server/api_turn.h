/* api_turn.h - a turn that a request runs, from what it asks for to its answer. No thread waits
 * for it: the runtime's loop tells how it goes, and a worker answers. */
#ifndef PAL_API_TURN_H
#define PAL_API_TURN_H

#include "server/server.h"

typedef struct pal_api_turn pal_api_turn;

/* A tool call of the turn, as it was recorded. */
typedef struct pal_api_tool_call {
    pal_str call_id;
    pal_str name;
    pal_str arguments;
    pal_str output;
    bool has_output;
    bool is_error;
} pal_api_tool_call;

/* What came of it, up to a pause, a question or the end. */
typedef struct pal_api_outcome {
    uint64_t after;    /* events up to this number are known to decide nothing */
    uint64_t stop_at;  /* the event at which it stood still already; 0: it ran */
    uint64_t from_seq; /* of its first answer; 0: it has none */
    uint64_t seq;      /* of its newest answer */
    pal_id message;    /* likewise */
    bool is_cut;       /* the newest answer was cut off by the limit of the output */
    bool has_calls;    /* the newest answer calls tools */
    pal_turn_state state;
    pal_status status; /* FAILED: what with */
    pal_str reason;
    pal_str waiting;    /* PAUSED: the calls for the caller, a JSON array */
    pal_str asked_call; /* ASKING: about which call */
    pal_str asked_name;
    pal_str text; /* the newest answer's */
    pal_api_tool_call *calls;
    size_t calls_len;
    pal_ledger_sum sum;
} pal_api_outcome;

/* Lies in the call's arena and is the call's `user` while it runs. */
struct pal_api_turn {
    pal_call *call;
    pal_turn_request request;
    bool is_stream;
    bool is_background;
    uint64_t stream_after; /* events that a stream leaves out: they are known */
    /* Each may be NULL; they run on a worker. */
    void (*put_members)(const pal_api_turn *turn, pal_json_writer *writer); /* of its own, first */
    void (*send)(pal_api_turn *turn); /* instead of the native answer */
    void (*fail)(pal_api_turn *turn, pal_status status, const pal_error *err); /* likewise */
    void *user;

    pal_turn_info info; /* once it is started */
    pal_error start_error;
    pal_api_outcome outcome;
};

/* One for the session, with the caller's budget; NULL without memory. */
pal_api_turn *pal_api_turn_new(pal_call *call, const pal_session *session);

/* The settings that hold for a session: its own, over its agent's, over the configuration's. */
PAL_CHECKED pal_status pal_api_session_context(pal_call *call, const pal_session *session,
        pal_str agent, pal_context_settings *out_settings, pal_error *err);

/* Reads how it is to be run from the body: lane, model, tools, stream and so on; what is said is
 * the caller's to read. `has_context`: the member "context" has settings for the window. */
PAL_CHECKED pal_status pal_api_turn_read(
        pal_api_turn *turn, const pal_session *session, bool has_context, pal_error *err);

/* Reads who answers, before the rest: one of the configured agents, if there are any. */
PAL_CHECKED pal_status pal_api_agent_read(pal_api_turn *turn, pal_error *err);

/* Starts it; the call is answered when it is due. From any thread. */
PAL_CHECKED pal_status pal_api_turn_start(pal_api_turn *turn, pal_error *err);

/* On a worker: `info` says which turn; answers as the request wants it. */
void pal_api_turn_follow(pal_api_turn *turn);

/* On a worker: answers when the turn stands still. */
void pal_api_turn_await(pal_api_turn *turn);

/* On a worker: answers from what is recorded, where nobody knows which turn that was. */
void pal_api_turn_recall(pal_api_turn *turn);

/* On a worker: reads what was recorded, and answers with the outcome. */
void pal_api_turn_send(pal_api_turn *turn);

/* Answers 202: it runs on by itself. */
void pal_api_turn_send_state(pal_api_turn *turn);

/* Fails with what is known of the turn beside the error. */
void pal_api_turn_fail(pal_api_turn *turn, pal_status status, const pal_error *err);

/* On a worker: it was not started; `start_error` says why. */
void pal_api_turn_refuse(pal_api_turn *turn);

/* "turn_id" to "reason": what a turn does now. */
void pal_api_turn_put_info(pal_json_writer *writer, const pal_turn_info *info);

/* The turn that the path names. On a worker: it waits for the runtime. */
PAL_CHECKED pal_status pal_api_turn_find(pal_call *call, pal_turn_info *out_info, pal_error *err);

/* The session that the path names, where it takes part in turns: one in the trash is not found. */
PAL_CHECKED pal_status pal_api_active_session(
        pal_call *call, pal_str name, pal_session *out_session, pal_error *err);

/* Tools as chat completions have them. In the call's arena. */
PAL_CHECKED pal_status pal_api_tools_read(
        pal_call *call, pal_json array, pal_tool **out_tools, size_t *out_len, pal_error *err);
/* One by one: checks that it is an array, and makes room for all; reads one, as a function. */
PAL_CHECKED pal_status pal_api_tools_begin(
        pal_call *call, pal_json array, pal_tool **out_tools, pal_error *err);
PAL_CHECKED pal_status pal_api_tool_read(
        pal_call *call, pal_json value, pal_tool *out_tool, pal_error *err);

/* The text of a message: its text parts and plain outputs, one behind the other. In the arena. */
pal_str pal_api_message_text(const pal_message *message, pal_arena *arena);

#endif
