/* api_mistral_run_internal.h - the struct of a run, for the files that implement it.
 * api_mistral_run.c starts and watches its turns, api_mistral_handoff.c hands over between them,
 * and api_mistral_end.c ends it. */
#ifndef PAL_API_MISTRAL_RUN_INTERNAL_H
#define PAL_API_MISTRAL_RUN_INTERNAL_H

#include "server/api/mistral/api_mistral_run.h"
#include "server/run/run.h"

typedef struct pal_mistral_runner {
    pal_run run;
    pal_mistral_run_options options;
    bool is_refused; /* there was no room for the stream or for a worker */
    pal_mistral_frames frames;

    size_t speaker; /* index of the speaker that runs now */
    uint32_t turns_run; /* turns so far, one for each handoff and the first one */
    uint64_t first_seq;  /* seq of the request's first message; 0 if nothing is recorded */
    uint64_t answer_seq; /* seq of the first answer */
    uint64_t last_seq;   /* seq of the newest message */
    uint64_t kept_seq;   /* seq of the newest message of earlier turns */
    pal_usage usage;
    pal_finish finish; /* why the model stopped writing the newest answer */
    pal_str calls; /* calls for the caller, as a JSON array */
    pal_str asked; /* the calls that wait for permission, as a JSON array; may be empty */
    pal_turn_state state;
    bool is_parted; /* another request has written between two turns */
    pal_error error;
    long code; /* HTTP code of the model service */
    int64_t retry_after_ms;

    pal_op *ops; /* operations at the end of the run */
    size_t ops_len;
    pal_mark *marks;
    pal_erase_result erasure;
    pal_record speaker_record;
    char speaker_name[PAL_ID_TEXT_SIZE];
} pal_mistral_runner;

static inline const pal_mistral_speaker *pal_mistral_speaker_of(const pal_mistral_runner *run)
{
    return &run->options.speakers.items[run->speaker];
}

/* The run's lock must be held for all of these. */

/* Begins the stream, unless it has begun. */
void pal_mistral_run_open(pal_mistral_runner *run);
/* Frames are written into `buf` between these two calls and are then sent, if there is a stream. */
void pal_mistral_run_begin_frames(pal_mistral_runner *run, pal_buf *buf);
void pal_mistral_run_write_frames(pal_mistral_runner *run, pal_buf *buf);

/* Returns the results of the handoff calls, for the turn of the next agent. False if there is no
 * handoff. */
bool pal_mistral_run_hand_over(
        pal_mistral_runner *run, pal_message **out_messages, size_t *out_len);

/* Called after the last turn, or if a turn could not be started. Cleans up, leaves the conversation
 * and answers. */
void pal_mistral_run_finish(pal_mistral_runner *run);

#endif
