/* turn_compact.h - a compaction in two halves, so that whoever runs on an event loop can ask the
 * model in between. */
#ifndef PAL_TURN_COMPACT_H
#define PAL_TURN_COMPACT_H

#include "turn/turn_window.h"

typedef struct pal_compact_job {
    pal_window window; /* as the compaction sees it */
    pal_window_view view;
    pal_plan plan;
    pal_checkpoint_record record; /* what will be kept */
    pal_summary_request request;
    bool needs_model; /* the request has messages to summarise */
    bool is_again;
    bool is_given; /* the caller wrote the summary: it is taken as it is */
    uint64_t undo; /* the checkpoint that is made again, where it is the session's own; 0: none */
    uint64_t replaced_tokens; /* of all that the summary stands for */
} pal_compact_job;

/* Plans, and makes the request. With nothing to compact, out_compacted->note says so and
 * *out_ready is false. */
PAL_CHECKED pal_status pal_compact_begin(pal_store *store, const pal_window *window,
        const pal_compaction *compaction, pal_arena *arena, pal_compact_job *out_job,
        bool *out_ready, pal_compacted *out_compacted, pal_error *err);

/* Why the job's request must not be sent; empty: it is a reset, or can be sent. */
pal_str pal_compact_no_model(const pal_compact_job *job);

/* Keeps the answer as a checkpoint, or, where `answer` is NULL or of no use, leaves whole oldest
 * turns out; `failure` says why there is none. */
PAL_CHECKED pal_status pal_compact_end(pal_store *store, pal_compact_job *job,
        const pal_summary_answer *answer, pal_str failure, pal_arena *arena,
        pal_compacted *out_compacted, pal_error *err);

#endif
