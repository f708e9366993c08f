/* api_mistral_run.h - one request's turns, from the first to the answer: a turn, and one more for
 * every agent that the conversation is handed to. No thread waits for them. */
#ifndef PAL_API_MISTRAL_RUN_H
#define PAL_API_MISTRAL_RUN_H

#include "server/api_mistral.h"
#include "server/api_mistral_gate.h"

typedef struct pal_mistral_shape pal_mistral_shape;

typedef struct pal_mistral_run_options {
    pal_id session;                 /* that it runs in */
    pal_id conversation;            /* that the answer names */
    const pal_mistral_shape *shape; /* of the answer */
    pal_mistral_pass *pass;         /* into the conversation; NULL: the session is nobody else's */
    pal_mistral_legs legs;          /* in the call's arena, as all of it */
    pal_message *messages;
    size_t messages_len;
    bool is_stream;
    bool is_clients; /* handoffs are the client's to do: they are calls like any */
    bool is_made;    /* the session was made for this: it goes where nothing comes of it */
    bool is_passing; /* it goes in any case: nothing is to be stored */
    pal_id turn;     /* not none: a turn that asked, and was answered, goes on */
    uint64_t after;  /* with a turn: the newest of its events */
} pal_mistral_run_options;

/* Begins it; the call is answered when it is due, and the conversation left then. From any thread.
 */
PAL_CHECKED pal_status pal_mistral_run(
        pal_call *call, const pal_mistral_run_options *options, pal_error *err);

/* ---- What a stream says of it; on the loop ---- */

/* A call that the model makes. */
typedef struct pal_mistral_call {
    struct pal_mistral_call *next;
    pal_str id;
    pal_str name;
    pal_entry_kind kind; /* CALL, EXECUTION or HANDOFF */
    size_t number;       /* of its part, from 0 */
    size_t output;
    bool has_arguments;
} pal_mistral_call;

typedef struct pal_mistral_frames {
    pal_arena *arena;           /* lives as long as the run */
    pal_buf *buf;               /* where they are written */
    const pal_mistral_leg *leg; /* that speaks */
    pal_str agent_id;           /* of the first that spoke; empty: a model's */
    pal_id conversation;
    int64_t begun_at; /* milliseconds since 1970 */
    bool is_clients;
    pal_id message;          /* the answer that comes */
    size_t outputs;          /* entries so far */
    bool is_said;            /* the newest of them is something said */
    size_t said_number;      /* of its part, from 0 */
    size_t content;          /* its chunk */
    pal_event_kind saying;   /* what that chunk is */
    pal_mistral_call *calls; /* of the answer, the newest first */
} pal_mistral_frames;

/* What came of it. */
typedef struct pal_mistral_outcome {
    pal_json calls; /* that end it: an array of {"call_id", "name", "arguments"}, or none */
    pal_str asked;  /* the call that waits for permission; empty: none */
    pal_usage usage;
    bool is_cut; /* by the limit of the output */
} pal_mistral_outcome;

/* How a run is told: the streams and answers of one kind of requests. */
struct pal_mistral_shape {
    bool begins_late; /* with the first word: what fails before is answered with a code */
    void (*started)(pal_mistral_frames *frames);
    /* Writes what the event says, none or more. */
    void (*event)(pal_mistral_frames *frames, const pal_event *event);
    /* The conversation is handed over; `message` stands for it. NULL: not told. */
    void (*handoff)(pal_mistral_frames *frames, pal_id message, const pal_mistral_leg *from,
            const pal_mistral_leg *to);
    void (*done)(pal_mistral_frames *frames, const pal_mistral_outcome *outcome);
    void (*failed)(pal_mistral_frames *frames, unsigned code, const char *message);
    /* Writes the whole answer, as the body of the call. The messages are what was recorded,
     * `frames` has what else is known. On a worker. */
    pal_status (*answer)(pal_call *call, const pal_mistral_frames *frames,
            const pal_messages *messages, const pal_mistral_outcome *outcome, pal_error *err);
};

extern const pal_mistral_shape pal_mistral_conversation_shape; /* api_mistral_frame.c */
extern const pal_mistral_shape pal_mistral_chat_shape;         /* api_mistral_chat_shape.c */

/* "usage", as a member. */
void pal_mistral_put_usage(pal_json_writer *writer, const pal_usage *usage);

#endif
