/* window_compact.h - a compaction in two halves, so that a caller on an event loop can call the
 * model in between. */
#ifndef PAL_WINDOW_COMPACT_H
#define PAL_WINDOW_COMPACT_H

#include "window/window_load.h"

typedef struct pal_compact_job {
    pal_window window; /* the window to be compacted */
    pal_window_view view;
    pal_plan plan;
    pal_checkpoint_record record; /* the checkpoint that will be stored */
    pal_summary_request request;
    bool needs_model; /* the request has messages to summarize */
    bool is_again;
    bool is_given; /* the caller wrote the summary: it is stored unchanged */
    uint64_t undo; /* number of the session's own checkpoint that is made again; 0: none */
    uint64_t replaced_tokens; /* tokens of everything that the summary replaces */
} pal_compact_job;

/* Plans, and makes the request. If there is nothing to compact, *out_ready is false and
 * out_compacted->note says why. */
PAL_CHECKED pal_status pal_compact_begin(pal_store *store, const pal_window *window,
        const pal_compaction_request *compaction, pal_arena *arena, pal_compact_job *out_job,
        bool *out_ready, pal_compaction_result *out_compacted, pal_error *err);

/* Returns the reason why the job's request must not be sent. Empty if it is a reset, or can be
 * sent. */
pal_str pal_compact_no_model(const pal_compact_job *job);

/* Stores the answer as a checkpoint. If `answer` is NULL or cannot be used, leaves out whole turns
 * from the oldest on; `failure` says why there is no answer. */
PAL_CHECKED pal_status pal_compact_end(pal_store *store, pal_compact_job *job,
        const pal_summary_answer *answer, pal_str failure, pal_arena *arena,
        pal_compaction_result *out_compacted, pal_error *err);

#endif
