/* api_mistral_run_inside.h - a run as the files that make it see it: api_mistral_run.c starts and
 * watches its turns, api_mistral_handoff.c hands over between them, api_mistral_end.c ends it. */
#ifndef PAL_API_MISTRAL_RUN_INSIDE_H
#define PAL_API_MISTRAL_RUN_INSIDE_H

#include <pthread.h>
#include "server/api_mistral_run.h"

typedef struct pal_mistral_runner {
    pthread_mutex_t lock;
    unsigned holders; /* under the lock: the chain of turns, and the stream */
    pal_call *call;   /* NULL once a stream was begun */
    pal_server *server;
    char tenant[PAL_TENANT_LEN_MAX + 1];
    pal_mistral_run_options options;
    pal_arena *arena; /* of its own, or the call's */

    pthread_mutex_t turn_lock; /* guards these three, inside of the other */
    pal_id turn;
    bool can_abandon; /* the turn runs, for whoever waits for this answer */
    bool is_gone;     /* nobody waits for it any more */

    pal_stream *stream; /* NULL: none, or it is gone */
    bool is_refused;    /* there was no room for its stream or answer */
    pal_mistral_frames frames;

    size_t leg;
    uint32_t legs_run;
    uint64_t first_seq;  /* of the first message that it said; 0: nothing is recorded */
    uint64_t answer_seq; /* of the first answer */
    uint64_t last_seq;   /* of the newest */
    uint64_t kept_seq;   /* of the newest of earlier turns */
    pal_usage usage;
    bool is_cut;   /* the newest answer, by the limit of the output */
    pal_str calls; /* for the caller, a JSON array */
    pal_str asked; /* the call that waits for permission; empty: none */
    pal_turn_state state;
    bool is_parted; /* somebody else has spoken between two of its turns */
    pal_error error;
    long code; /* of HTTP, by the model's service */
    int64_t retry_after_ms;

    pal_op *ops; /* what is done at the end */
    size_t ops_len;
    pal_mark *marks;
    pal_erasure erasure;
    pal_record speaker;
    char speaker_name[PAL_ID_TEXT_SIZE];
} pal_mistral_runner;

static inline const pal_mistral_leg *pal_mistral_leg_of(const pal_mistral_runner *run)
{
    return &run->options.legs.items[run->leg];
}

bool pal_mistral_run_is_gone(pal_mistral_runner *run);

/* The last one who lets go frees it. */
void pal_mistral_run_release(pal_mistral_runner *run);

/* Under the lock: the stream begins, unless it did. */
void pal_mistral_run_open(pal_mistral_runner *run);
/* Under the lock: frames are written into `buf` between the two, then sent, where there is a
 * stream. */
void pal_mistral_run_begin_frames(pal_mistral_runner *run, pal_buf *buf);
void pal_mistral_run_write_frames(pal_mistral_runner *run, pal_buf *buf);

/* Under the lock: the results of the calls that hand over, for the turn of the next agent. False:
 * nothing is handed over. */
bool pal_mistral_run_hand_over(
        pal_mistral_runner *run, pal_message **out_messages, size_t *out_len);

/* All turns are over: tidies up, leaves the conversation, answers. On the loop, or wherever the
 * first turn could not be started. */
void pal_mistral_run_finish(pal_mistral_runner *run);

#endif
