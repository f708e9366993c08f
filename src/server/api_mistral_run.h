/* api_mistral_run.h - one request's turns, from the first to the answer: a turn, and one more for
 * every agent that the conversation is handed to. No thread waits for them. */
#ifndef PAL_API_MISTRAL_RUN_H
#define PAL_API_MISTRAL_RUN_H

#include "server/api_mistral.h"

typedef struct pal_mistral_run_options {
    pal_id session;        /* that it runs in */
    pal_id conversation;   /* that the answer names */
    pal_mistral_legs legs; /* in the call's arena, as all of it */
    pal_message *messages;
    size_t messages_len;
    bool is_stream;
    bool is_clients; /* handoffs are the client's to do: they are calls like any */
    bool is_made;    /* the session was made for this: it goes where nothing comes of it */
    bool is_passing; /* it goes in any case: nothing is to be stored */
    pal_id turn;     /* not none: a turn that asked, and was answered, goes on */
    uint64_t after;  /* with a turn: the newest of its events */
} pal_mistral_run_options;

/* Begins it; the call is answered when it is due. From any thread. */
PAL_CHECKED pal_status pal_mistral_run(
        pal_call *call, const pal_mistral_run_options *options, pal_error *err);

/* ---- What a stream says of it (api_mistral_frame.c); on the loop ---- */

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
    pal_arena *arena; /* lives as long as the run */
    pal_buf *buf;     /* where they are written */
    const pal_mistral_leg *leg;
    bool is_clients;
    pal_id message;          /* the answer that comes */
    size_t outputs;          /* entries so far */
    bool is_said;            /* the newest of them is something said */
    size_t said_number;      /* of its part, from 0 */
    size_t content;          /* its chunk */
    pal_event_kind saying;   /* what that chunk is */
    pal_mistral_call *calls; /* of the answer, the newest first */
} pal_mistral_frames;

/* Writes what the event says, none or more. */
void pal_mistral_frames_event(pal_mistral_frames *frames, const pal_event *event);
void pal_mistral_frames_started(pal_mistral_frames *frames, pal_id conversation);
void pal_mistral_frames_handoff(pal_mistral_frames *frames, pal_id message,
        const pal_mistral_leg *from, const pal_mistral_leg *to);
/* A call whose arguments are known as a whole. `confirmation` may be NULL. */
void pal_mistral_frames_call(pal_mistral_frames *frames, const pal_mistral_call *call,
        pal_str arguments, const char *confirmation);
void pal_mistral_frames_done(pal_mistral_frames *frames, const pal_usage *usage);
void pal_mistral_frames_failed(pal_mistral_frames *frames, unsigned code, const char *message);

/* "usage", as a member. */
void pal_mistral_put_usage(pal_json_writer *writer, const pal_usage *usage);

#endif
