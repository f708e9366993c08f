/* api_mistral_run.h - runs all turns of one request: the first one, and another one for every agent
 * that the conversation is handed to. No thread waits for them. */
#ifndef PAL_API_MISTRAL_RUN_H
#define PAL_API_MISTRAL_RUN_H

#include "server/api/mistral/api_mistral.h"
#include "server/api/mistral/api_mistral_lock.h"

typedef struct pal_mistral_format pal_mistral_format;

typedef struct pal_mistral_run_options {
    pal_id session;                 /* the session that the turns run in */
    pal_id conversation;            /* the conversation that the response names */
    const pal_mistral_format *format; /* format of the response */
    pal_mistral_hold *hold;         /* held for the conversation; NULL if no other request can use
                                       the session */
    pal_mistral_speakers speakers;          /* in the call's arena, like everything here */
    pal_message *messages;
    size_t messages_len;
    bool is_stream;
    bool is_clients; /* the client performs handoffs: they are reported like other calls */
    bool is_made;    /* the session was created for this request; it is erased if the request
                        fails */
    bool is_passing; /* the session is temporary; it is erased in any case, so that nothing is
                        stored */
    pal_id turn;     /* if set, a paused turn that continues after a confirmation */
    uint64_t after;  /* with `turn`: the number of its newest event */
} pal_mistral_run_options;

/* Starts the run. It answers the call and leaves the conversation when it ends. Can be called from
 * any thread. */
PAL_CHECKED pal_status pal_mistral_run(
        pal_call *call, const pal_mistral_run_options *options, pal_error *err);

/* ---- Frames of a stream; used on the loop ---- */

/* A call that the model makes. */
typedef struct pal_mistral_call {
    struct pal_mistral_call *next;
    pal_str id;
    pal_str name;
    pal_entry_kind kind; /* CALL, EXECUTION or HANDOFF */
    size_t number;       /* number of its part, from 0 */
    size_t output;
    bool has_arguments;
} pal_mistral_call;

typedef struct pal_mistral_frames {
    pal_arena *arena;           /* lives as long as the run */
    pal_buf *buf;               /* frames are written here */
    const pal_mistral_speaker *speaker; /* the speaker that runs now */
    pal_str agent_id;           /* the first agent that spoke; empty if a model is used directly */
    pal_id conversation;
    int64_t begun_at; /* start time in milliseconds since 1970 */
    bool is_clients;
    pal_id message;          /* id of the current answer */
    size_t outputs;          /* number of entries so far */
    bool is_said;            /* the newest entry is text or reasoning */
    size_t said_number;      /* number of the entry's part, from 0 */
    size_t content;          /* index of the current chunk in the entry */
    pal_event_kind saying;   /* kind of the current chunk: text or reasoning */
    pal_mistral_call *calls; /* calls of the current answer, newest first */
} pal_mistral_frames;

/* The result of a run. */
typedef struct pal_mistral_outcome {
    pal_json calls; /* the calls that end the run: an array of {"call_id", "name", "arguments"}, or
                       empty */
    pal_json asked; /* the calls that wait for permission: an array of {"call_id", ...}, or
                       empty */
    pal_usage usage;
    pal_finish finish; /* why the model stopped writing the newest answer */
} pal_mistral_outcome;

/* The format of the streams and responses of one kind of request. */
struct pal_mistral_format {
    bool begins_late; /* the stream begins with the first text, so that earlier failures get an HTTP
                         code */
    void (*started)(pal_mistral_frames *frames);
    /* Writes the frames of one event; may write none. */
    void (*event)(pal_mistral_frames *frames, const pal_event *event);
    /* The conversation is handed over; `message` contains the result of the handoff call. NULL if
     * the format does not show handoffs. */
    void (*handoff)(pal_mistral_frames *frames, pal_id message, const pal_mistral_speaker *from,
            const pal_mistral_speaker *to);
    void (*done)(pal_mistral_frames *frames, const pal_mistral_outcome *outcome);
    void (*failed)(pal_mistral_frames *frames, unsigned code, const char *message);
    /* Writes the complete response as the body of the call. `messages` are the recorded messages,
     * and `frames` has the other facts. Called on a worker. */
    pal_status (*answer)(pal_call *call, const pal_mistral_frames *frames,
            const pal_message_page *messages, const pal_mistral_outcome *outcome, pal_error *err);
};

extern const pal_mistral_format pal_mistral_conversation_format; /* api_mistral_frame.c */
extern const pal_mistral_format pal_mistral_chat_format;         /* api_mistral_chat_format.c */

/* Writes the member "usage". */
void pal_mistral_put_usage(pal_json_writer *writer, const pal_usage *usage);

#endif
