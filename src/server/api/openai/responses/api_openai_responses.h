/* api_openai_responses.h - responses of OpenAI's API. Each response is one turn. It runs in the
 * session of a conversation, or in a session that belongs to a chain of responses.
 *
 * A response is a record of that session (kind "response", named by the response's id). It refers
 * to the messages of its input and output. It also contains the settings of the request, the
 * lengths of the deltas, and the progress of the service's own tools, so that a replay sends the
 * same events with the same numbers. The record is written in the commit of the answer. A
 * background response has a record from the start. */
#ifndef PAL_API_OPENAI_RESPONSES_H
#define PAL_API_OPENAI_RESPONSES_H

#include "base/buf.h"
#include "server/api/openai/api_openai.h"
#include "server/server_limits.h"

#define PAL_RESPONSE_KIND "response"

typedef enum pal_response_status {
    PAL_RESPONSE_QUEUED = 0,
    PAL_RESPONSE_IN_PROGRESS = 1,
    PAL_RESPONSE_COMPLETED = 2,
    PAL_RESPONSE_INCOMPLETE = 3,
    PAL_RESPONSE_FAILED = 4,
    PAL_RESPONSE_CANCELLED = 5,
} pal_response_status;

/* Texts are in the arena of the function that created the response. */
typedef struct pal_response {
    pal_id id;
    pal_id session;
    pal_id turn; /* empty if the turn has not started */
    pal_response_status status;
    int64_t created_at;   /* seconds since 1970 */
    int64_t completed_at; /* 0 if it is not completed */
    bool is_background;
    bool is_compaction;      /* shown as a compaction */
    bool is_in_conversation; /* the request named the conversation, which outlives the response */
    bool is_filtered;        /* INCOMPLETE because of a content filter; otherwise because of
                                max_output_tokens */
    bool is_last_whole;      /* INCOMPLETE, but the service completed the last item */
    pal_str error_code;      /* if FAILED */
    pal_str error_message;
    pal_str echo;       /* a JSON object with the settings of the request */
    pal_id input;       /* the first message of the input; the others have the next seqs */
    uint64_t input_len; /* number of messages of the input */
    pal_id *output;     /* ids of the messages of the output */
    size_t output_len;
    pal_usage usage;
    pal_str deltas;   /* a JSON array (api_openai_responses_event.c); empty if it was too large to
                         store */
    uint64_t version; /* version of the record; 0 if there is none */
    pal_str process;  /* name of the process that runs it in the background (base/process.h); may be
                         empty */
    pal_str socket;   /* name of the WebSocket that keeps it; empty: it is stored */
    pal_str additional; /* a JSON array of tools that came as items of the input; may be empty */
    bool has_items;     /* the service has this API, and its items are stored */
    pal_str approved;   /* a JSON array of the calls that the client has approved; may be empty */
    pal_str lists;      /* a JSON array of the lists of tools that the output begins with; may be
                           empty */
    pal_str listed;     /* a JSON array of the servers that were listed up to here; may be empty */
} pal_response;

/* The form in which an item of the output is shown. */
typedef enum pal_response_form {
    PAL_RESPONSE_TEXT = 0,
    PAL_RESPONSE_REFUSAL = 1,
    PAL_RESPONSE_REASONING = 2,
    PAL_RESPONSE_CALL = 3,
    PAL_RESPONSE_CUSTOM_CALL = 4,
    PAL_RESPONSE_MCP_CALL = 5, /* a tool server of this server runs it */
    PAL_RESPONSE_SUMMARY = 6,  /* a summary of reasoning */
    PAL_RESPONSE_ITEM = 7,     /* any other item of a service that has this API */
    PAL_RESPONSE_LIST = 8,     /* the tools of a tool server of this server */
} pal_response_form;

static inline bool pal_response_is_over(const pal_response *response)
{
    return response->status >= PAL_RESPONSE_COMPLETED;
}

/* Whether the last item of the output is incomplete. */
static inline bool pal_response_is_cut(const pal_response *response)
{
    return response->status == PAL_RESPONSE_INCOMPLETE && !response->is_last_whole;
}

static inline bool pal_response_is_answered(const pal_response *response)
{
    return response->status == PAL_RESPONSE_COMPLETED ||
            response->status == PAL_RESPONSE_INCOMPLETE;
}

/* ---- The object (api_openai_responses_record.c) ---- */

/* Writes the items of the output as elements of an array. */
typedef pal_status (*pal_response_put_output)(
        pal_json_writer *writer, const void *user, pal_error *err);

/* Writes {"id":"resp_...",...}. If `put_output` is NULL, the output is empty. */
PAL_CHECKED pal_status pal_response_put(pal_json_writer *writer, const pal_response *response,
        pal_response_put_output put_output, const void *user, pal_error *err);

/* Builds the record of the response in the arena. */
PAL_CHECKED pal_status pal_response_record(
        const pal_response *response, pal_arena *arena, pal_record *out_record, pal_error *err);

/* Finds the response that "resp_..." names, in the call's arena. 404 if there is none. If the turn
 * has ended, or no process runs it any more, the record is completed first. Calls the runtime, so
 * it must not run on the runtime's loop. */
PAL_CHECKED pal_status pal_response_find(
        pal_call *call, pal_str id, pal_response *out_response, pal_error *err);

/* Reads the stored items of the output, in the call's arena. */
PAL_CHECKED pal_status pal_response_output(pal_call *call, const pal_response *response,
        pal_openai_item **out_items, size_t *out_len, pal_error *err);

/* Responds with the object as it is stored. */
PAL_CHECKED pal_status pal_response_send(
        pal_call *call, const pal_response *response, pal_error *err);

/* Returns the error code of OpenAI for a failed turn: "server_error", "rate_limit_exceeded" ... */
pal_str pal_response_error_code(pal_status status, long code);

/* ---- The request (api_openai_responses_request.c) ---- */

/* The history that a response continues: a session, and the last of its messages to include. All
 * zero if there is none. */
typedef struct pal_response_context {
    pal_session session;
    uint64_t seq;   /* seq of the last message to include; 0: all messages */
    bool is_newest; /* there is no later message */
    bool is_own;    /* the session belongs to responses, so the response may run in it */
    pal_id last;    /* the message with that seq; empty if there is none */
    pal_str additional; /* tools that the previous response keeps; may be empty */
    pal_str listed;     /* the same member of the previous response */
} pal_response_context;

typedef struct pal_response_request {
    pal_call *call;
    pal_turn_request turn; /* everything except the session; in the call's arena */
    pal_str echo;
    pal_str previous;     /* "resp_..."; may be empty */
    pal_str conversation; /* "conv_..."; may be empty */
    pal_str additional;   /* a JSON array of additional tools; may be empty */
    bool has_service;     /* the model service has this API, so it gets the request's own members */
    pal_str approved;     /* a JSON array of the calls that the input approves; may be empty */
    pal_str lists;        /* the same member of the response */
    pal_str listed;       /* the same member of the response */
    pal_str left_out;     /* tools that no model is offered, for the metadata; may be empty */
    bool is_stream;
    bool is_background;
    bool is_stored;
    bool is_kept;       /* "store" is false, but the WebSocket keeps it while it is open */
    bool generates;     /* false: the input is stored, and no model is asked */
    bool is_compaction; /* the answer is a summary that replaces the history */
    /* The session to run in; set by api_openai_responses_create.c. */
    pal_response_context context;
    bool has_context; /* `context` has been filled */
    pal_id response;
    bool is_new;     /* the session was created for this response */
    bool is_passing; /* the session is temporary and is erased at the end */
    pal_id parent;   /* session to fork if another request was faster; empty if there is none */
    uint64_t fork_seq;
} pal_response_request;

/* Reads and checks the body. */
extern const pal_api_object pal_response_body;
PAL_CHECKED pal_status pal_response_read(pal_response_request *request, pal_error *err);

/* ---- Tools (api_openai_responses_tools.c) ---- */

/* Fills request->turn with "tools" and "tool_choice" of the body, and with the additional tools of
 * its input and of the previous response. */
PAL_CHECKED pal_status pal_response_read_tools(pal_response_request *request, pal_error *err);
/* Writes "tools" for a service that has this API: those of the request and the additional ones,
 * except for tool servers of this server. */
PAL_CHECKED pal_status pal_response_put_tools(
        const pal_response_request *request, pal_json_writer *writer, pal_error *err);
/* Returns the tool server that an entry of "tools" names; NULL if it names none of this server. */
const pal_tool_server *pal_response_server_of(pal_call *call, pal_json tool);
/* Returns the tool's name at its server. */
pal_str pal_response_tool_name(const pal_tool *tool, pal_arena *arena);
/* Whether "allowed_tools" of the entry includes the tool. */
bool pal_response_allows(pal_json entry, const pal_tool *tool, pal_arena *arena);
/* Whether the request names tool servers of this server in "tools". */
bool pal_response_uses_servers(pal_call *call);
/* How calls of a tool are shown. The caller initializes and frees the buffers. */
typedef struct pal_response_call {
    pal_response_form form; /* CALL or CUSTOM_CALL */
    pal_buf name_space;     /* the tool's namespace; may be empty */
    pal_buf extra;          /* extra of the part; may be empty */
} pal_response_call;

/* Finds how calls of the tool are shown: as custom calls if it was offered as a custom tool, and
 * with the namespace that it was offered in. */
PAL_CHECKED pal_status pal_response_call_form(
        const pal_response *response, pal_str name, pal_response_call *out_call);

/* ---- The session (api_openai_responses_create.c) ---- */

/* Fills request->context from `previous` or `conversation`. Does nothing if it is filled
 * already. */
PAL_CHECKED pal_status pal_response_context_find(pal_response_request *request, pal_error *err);

/* ---- Input and history (api_openai_responses_calls.c) ---- */

/* Checks that calls and outputs match. Removes outputs from the input that the history already
 * contains. */
PAL_CHECKED pal_status pal_response_check_calls(pal_response_request *request, pal_error *err);
/* For pal_openai_items_read(), with the request as `user`: a reference to an item of the context
 * adds nothing. */
pal_status pal_response_reference(pal_str id, pal_arena *arena, pal_message *out_message,
        size_t *out_index, void *user, pal_error *err);

/* ---- Approvals (api_openai_responses_approvals.c) ---- */

/* A call without a result. */
typedef struct pal_response_open_call {
    const pal_message *message;
    size_t part;
    bool is_stored; /* the history has the message; otherwise the input has it */
} pal_response_open_call;

/* Whether the call is the mcp_approval_request with this id. */
bool pal_response_is_request(const pal_response_open_call *call, pal_str id);
/* Fills turn.answers: each of the calls is approved by the input, or counts as denied. Also fills
 * request->approved. */
PAL_CHECKED pal_status pal_response_approve(pal_response_request *request,
        const pal_response_open_call *calls, size_t len, pal_error *err);

/* ---- Lists of tools (api_openai_responses_lists.c) ---- */

/* Fills request->lists and request->listed: the servers that the request names and that were not
 * listed before. Needs the context. Waits for starting tool servers, so it must run on a worker. */
PAL_CHECKED pal_status pal_response_list_tools(pal_response_request *request, pal_error *err);
/* Returns the lists of the response as a message in the arena, one part for each list. It is not
 * stored, and it has the id of the response. The name of a part is the server's, and is_error means
 * that the server was not listed. */
PAL_CHECKED pal_status pal_response_lists_message(
        const pal_response *response, pal_arena *arena, pal_message *out_message, pal_error *err);

/* Chooses the session, runs the turn and answers. Called on a worker. */
PAL_CHECKED pal_status pal_response_start(pal_response_request *request, pal_error *err);

/* Stores the input of a request with "generate": false, and answers. Called on a worker. In
 * api_openai_responses_prepare.c. */
PAL_CHECKED pal_status pal_response_prepare(pal_response_request *request, pal_error *err);

PAL_CHECKED pal_status pal_openai_create_response(pal_call *call, pal_error *err);

/* ---- Forwarding and recording (api_openai_responses_forward.c) ---- */

/* Forwards the call if it needs no state of the store and the model service has the Responses API.
 * The call must not be used after PAL_OK. PAL_CONFLICT: it cannot be forwarded. */
PAL_CHECKED pal_status pal_response_forward(pal_call *call, pal_error *err);

/* The same for a request to compact its input: requests with the result are forwarded too, and only
 * the service can read its own summaries. */
PAL_CHECKED pal_status pal_response_forward_compact(pal_call *call, pal_error *err);
/* The same for a request that continues a stored response. The service gets the history as items.
 * The request must have been read. */
PAL_CHECKED pal_status pal_response_forward_history(pal_response_request *request, pal_error *err);

/* Makes the record of a call that contains its whole history, or whose WebSocket keeps it.
 * *out_record is NULL if the call is not recorded. */
PAL_CHECKED pal_status pal_response_record_new(
        pal_call *call, struct pal_api_record **out_record, pal_error *err);

/* ---- Events (api_openai_responses_event.c) ---- */

typedef struct pal_response_piece pal_response_piece;

/* Writes the events of a response while the model answers, and collects the output. Used by one
 * thread at a time. */
typedef struct pal_response_events {
    const pal_response *response;
    /* Where events are written; both NULL: nowhere. The stream is NULL when the client has left. */
    pal_stream *const *stream;
    bool (*write)(pal_str frame, void *user); /* used if `stream` is NULL */
    void *user;
    uint64_t number;            /* number of the next event */
    uint64_t told_from;         /* events with smaller numbers are not written */
    bool is_cut;                /* writing has failed, so no more events are written */
    pal_response_piece *pieces; /* the items of the output */
    size_t len, cap;
    pal_id message; /* the message that the next parts belong to */
    pal_buf deltas;
    size_t run; /* the item that the next deltas belong to, from 1; 0: none yet */
    pal_status failure;
} pal_response_events;

void pal_response_events_init(pal_response_events *events, const pal_response *response);
void pal_response_events_done(pal_response_events *events);

/* Writes response.created and response.in_progress. */
void pal_response_events_begin(pal_response_events *events);
/* Adds the lists of tools that the response begins with. */
void pal_response_events_lists(pal_response_events *events);
/* Adds the approved calls of the response, which run before the model is called. */
void pal_response_events_approved(pal_response_events *events);
/* A new message begins. */
void pal_response_events_message(pal_response_events *events, pal_id message);
/* Adds text in the form TEXT, REFUSAL, REASONING or SUMMARY. `part` is its number in the message,
 * from 1. */
void pal_response_events_text(
        pal_response_events *events, pal_response_form form, uint64_t part, pal_str delta);
/* `extra` is that of the call's part. */
void pal_response_events_call(pal_response_events *events, uint64_t part, pal_str call_id,
        pal_str name, pal_str extra);
/* A call runs: it needed no approval, although its extra said that it may. */
void pal_response_events_runs(pal_response_events *events, pal_str call_id);
/* The result of a call. Does nothing for calls that the client runs. */
void pal_response_events_result(
        pal_response_events *events, pal_str call_id, pal_str text, bool is_error);
void pal_response_events_arguments(pal_response_events *events, pal_str call_id, pal_str delta);
/* A complete item of the service, as JSON, whose texts were added before. `part` is the number of
 * its first part. */
void pal_response_events_item(pal_response_events *events, uint64_t part, pal_str json);
/* An event of the service about an item that it has not completed, as JSON. The first one is the
 * item's response.output_item.added. `part` is the number of the item's first part. */
void pal_response_events_progress(pal_response_events *events, uint64_t part, pal_str json);
/* Completes the open items and writes the last event, which depends on response->status. */
void pal_response_events_end(pal_response_events *events);

/* For pal_response_put(): writes the collected output. */
pal_status pal_response_events_output(pal_json_writer *writer, const void *user, pal_error *err);
/* Returns the ids of the messages in the output, in the arena. NULL: out of memory. */
pal_id *pal_response_events_messages(
        const pal_response_events *events, pal_arena *arena, size_t *out_len);
/* Whether the service has completed the last item of the output. */
bool pal_response_events_end_whole(const pal_response_events *events);
/* Returns the lengths of the deltas as a JSON array. Empty if they are too large to store. */
pal_str pal_response_events_deltas(pal_response_events *events);

/* ---- Running (api_openai_responses_run.c) ---- */

/* Runs the turn in request->turn.session and answers. If the session has changed since, calls
 * `again` instead of answering. Can be called from any thread. */
PAL_CHECKED pal_status pal_response_run(pal_response_request *request,
        void (*again)(pal_response_request *request), pal_error *err);

/* Streams the events of a running response after number `after` (-1: all). Called on a worker. */
PAL_CHECKED pal_status pal_response_look_on(
        pal_call *call, const pal_response *response, int64_t after, pal_error *err);

/* Streams the events of an ended response after number `after` (-1: all). In
 * api_openai_responses_replay.c. */
PAL_CHECKED pal_status pal_response_replay(
        pal_call *call, const pal_response *response, int64_t after, pal_error *err);

/* ---- Token counts and summaries (api_openai_responses_tokens.c) ---- */

PAL_CHECKED pal_status pal_openai_count_input(pal_call *call, pal_error *err);
PAL_CHECKED pal_status pal_openai_compact_input(pal_call *call, pal_error *err);

#endif
