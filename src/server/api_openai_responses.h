/* api_openai_responses.h - responses of OpenAI's API: one turn each, in a session that is the
 * conversation, or that the chain of responses has to itself.
 *
 * A response is a record (kind "response", named by its id) of that session. It refers to the
 * messages of its input and output, says what the request asked for, and how its answer was cut
 * into deltas: a replay tells the same events with the same numbers. The record is written in the
 * commit of the answer; a background response has one from its beginning on. */
#ifndef PAL_API_OPENAI_RESPONSES_H
#define PAL_API_OPENAI_RESPONSES_H

#include "base/buf.h"
#include "server/api_openai.h"
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

/* Texts lie in the arena of whoever made it. */
typedef struct pal_response {
    pal_id id;
    pal_id session;
    pal_id turn; /* none: it is not started yet */
    pal_response_status status;
    int64_t created_at;   /* seconds since 1970 */
    int64_t completed_at; /* 0: it isn't */
    bool is_background;
    bool is_compaction;      /* shown as one */
    bool is_in_conversation; /* that the request named, and that outlives the response */
    bool is_filtered;        /* INCOMPLETE: by a content filter; otherwise by max_output_tokens */
    pal_str error_code;      /* FAILED */
    pal_str error_message;
    pal_str echo;       /* a JSON object: members that say what was asked for */
    pal_id input;       /* the first message of the input; those after it have the next seqs */
    uint64_t input_len; /* messages */
    pal_id *output;     /* messages */
    size_t output_len;
    pal_usage usage;
    pal_str deltas;   /* a JSON array, api_openai_responses_event.c; empty: not kept */
    uint64_t version; /* of the record; 0: there is none */
} pal_response;

/* What an item of the output is told as. */
typedef enum pal_response_form {
    PAL_RESPONSE_TEXT = 0,
    PAL_RESPONSE_REFUSAL = 1,
    PAL_RESPONSE_REASONING = 2,
    PAL_RESPONSE_CALL = 3,
    PAL_RESPONSE_CUSTOM_CALL = 4,
} pal_response_form;

static inline bool pal_response_is_over(const pal_response *response)
{
    return response->status >= PAL_RESPONSE_COMPLETED;
}

/* ---- The object (api_openai_responses_record.c) ---- */

/* Writes the items of its output, elements of an array. */
typedef pal_status (*pal_response_put_output)(
        pal_json_writer *writer, const void *user, pal_error *err);

/* Writes {"id":"resp_...",...}; without a `put_output` it has none. */
PAL_CHECKED pal_status pal_response_put(pal_json_writer *writer, const pal_response *response,
        pal_response_put_output put_output, const void *user, pal_error *err);

/* The record, in the arena. */
PAL_CHECKED pal_status pal_response_record(
        const pal_response *response, pal_arena *arena, pal_record *out_record, pal_error *err);

/* The response that "resp_..." names, in the call's arena; 404. One whose turn has ended, or is
 * nobody's any more, is settled first. Asks the runtime: not on its loop. */
PAL_CHECKED pal_status pal_response_find(
        pal_call *call, pal_str id, pal_response *out_response, pal_error *err);

/* Its items that are stored, in the call's arena. */
PAL_CHECKED pal_status pal_response_output(pal_call *call, const pal_response *response,
        pal_openai_item **out_items, size_t *out_len, pal_error *err);

/* Answers with the object as it is stored. */
PAL_CHECKED pal_status pal_response_send(
        pal_call *call, const pal_response *response, pal_error *err);

/* ---- Failures (api_openai_responses_failure.c) ---- */

/* "server_error", "rate_limit_exceeded", ... */
pal_str pal_response_error_code(pal_status status, long code);
/* `event` is the turn's last. */
void pal_response_set_failure(pal_response *response, const pal_event *event, pal_arena *arena);
void pal_response_fail_call(pal_call *call, const pal_event *event);

/* ---- The request (api_openai_responses_request.c) ---- */

/* What it goes on with: the session, and its newest message that counts. None: nothing. */
typedef struct pal_response_context {
    pal_session session;
    uint64_t seq;   /* of the newest; 0: all that there is */
    bool is_newest; /* nothing was said after it */
    bool is_own;    /* the session is the responses' own: it may be gone on with */
} pal_response_context;

typedef struct pal_response_request {
    pal_call *call;
    pal_turn_request turn; /* all but its session; in the call's arena */
    pal_str echo;
    pal_str previous;     /* "resp_..."; empty: none */
    pal_str conversation; /* "conv_..."; empty: none */
    bool is_stream;
    bool is_background;
    bool is_stored;
    bool is_compaction; /* its answer stands for what was said so far */
    /* Where it goes; api_openai_responses_create.c. */
    pal_response_context context;
    bool has_context; /* it has been looked for */
    pal_id response;
    bool is_new;     /* the session is made for it */
    bool is_passing; /* and erased at its end */
    pal_id parent;   /* what to fork where somebody was faster; none: nothing */
    uint64_t fork_seq;
} pal_response_request;

/* Reads and checks the body. */
PAL_CHECKED pal_status pal_response_read(pal_response_request *request, pal_error *err);

/* ---- Its tools (api_openai_responses_tools.c) ---- */

/* Fills request->turn with "tools" and "tool_choice" of the body. */
PAL_CHECKED pal_status pal_response_read_tools(pal_response_request *request, pal_error *err);
/* How calls of the tool are told: as a custom one's, where it was offered as one. */
PAL_CHECKED pal_status pal_response_tool_form(
        const pal_response *response, pal_str name, pal_response_form *out_form);

/* ---- Where it goes (api_openai_responses_create.c) ---- */

/* Fills request->context, once, with what `previous` or `conversation` name. */
PAL_CHECKED pal_status pal_response_context_find(pal_response_request *request, pal_error *err);

/* ---- What it says of what was said (api_openai_responses_calls.c) ---- */

/* Checks that calls and outputs match. Outputs that were given before are left out. */
PAL_CHECKED pal_status pal_response_check_calls(pal_response_request *request, pal_error *err);
/* For pal_openai_items_read(), with the request as its user: what is in the context stands for
 * nothing. */
pal_status pal_response_reference(pal_str id, pal_arena *arena, pal_message *out_message,
        size_t *out_index, void *user, pal_error *err);

/* Goes there, runs it and answers. On a worker. */
PAL_CHECKED pal_status pal_response_start(pal_response_request *request, pal_error *err);

PAL_CHECKED pal_status pal_openai_create_response(pal_call *call, pal_error *err);

/* ---- Events (api_openai_responses_event.c) ---- */

typedef struct pal_response_piece pal_response_piece;

/* Tells a response's events as they come of what the model says, and gathers its output. Used by
 * one thread at a time. */
typedef struct pal_response_events {
    const pal_response *response;
    bool (*write)(pal_str frame, void *user); /* NULL: nobody reads */
    void *user;
    uint64_t number;            /* of the next event */
    uint64_t told_from;         /* events before this number are not told */
    bool is_cut;                /* the reader takes no more */
    pal_response_piece *pieces; /* each an item of the output */
    size_t len, cap;
    pal_id message; /* whose parts come now */
    pal_buf deltas;
    size_t run; /* the item whose deltas come now, from 1; 0: none yet */
    pal_status failure;
} pal_response_events;

void pal_response_events_init(pal_response_events *events, const pal_response *response);
void pal_response_events_done(pal_response_events *events);

/* response.created and response.in_progress. */
void pal_response_events_begin(pal_response_events *events);
/* Another message begins. */
void pal_response_events_message(pal_response_events *events, pal_id message);
/* TEXT, REFUSAL or REASONING; `part` is its number in the message, from 1. */
void pal_response_events_text(
        pal_response_events *events, pal_response_form form, uint64_t part, pal_str delta);
void pal_response_events_call(
        pal_response_events *events, uint64_t part, pal_str call_id, pal_str name);
void pal_response_events_arguments(pal_response_events *events, pal_str call_id, pal_str delta);
/* Closes what is open, and the last event; response->status says which. */
void pal_response_events_end(pal_response_events *events);

/* For pal_response_put(): what was gathered. */
pal_status pal_response_events_output(pal_json_writer *writer, const void *user, pal_error *err);
/* The messages that it is of. In the arena; NULL without memory. */
pal_id *pal_response_events_messages(
        const pal_response_events *events, pal_arena *arena, size_t *out_len);
/* How it was cut, as a JSON array; the empty view: too much to be kept. */
pal_str pal_response_events_deltas(pal_response_events *events);

/* Whether a stored item is shown: blocks of reasoning that say nothing are not. */
bool pal_response_item_is_shown(const pal_openai_item *item);

/* ---- Running (api_openai_responses_run.c) ---- */

/* Runs the turn in request->turn.session and answers. `again` is called where the session is not
 * as it was, instead of an answer. From any thread. */
PAL_CHECKED pal_status pal_response_run(pal_response_request *request,
        void (*again)(pal_response_request *request), pal_error *err);

/* Answers with the events after number `after` (-1: all) of one that runs, as they come. On a
 * worker. */
PAL_CHECKED pal_status pal_response_look_on(
        pal_call *call, const pal_response *response, int64_t after, pal_error *err);

/* Likewise of one that is over (api_openai_responses_replay.c). */
PAL_CHECKED pal_status pal_response_replay(
        pal_call *call, const pal_response *response, int64_t after, pal_error *err);

/* ---- Tokens, and summaries (api_openai_responses_tokens.c) ---- */

PAL_CHECKED pal_status pal_openai_count_input(pal_call *call, pal_error *err);
PAL_CHECKED pal_status pal_openai_compact_input(pal_call *call, pal_error *err);

#endif
