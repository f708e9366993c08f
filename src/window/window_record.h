/* window_record.h - the bodies of checkpoints, prunes and epochs, as JSON. docs/context.md
 * describes their members. */
#ifndef PAL_WINDOW_RECORD_H
#define PAL_WINDOW_RECORD_H

#include "palaver/context.h"
#include "palaver/store_marks.h"
#include "palaver/window.h"

typedef struct pal_checkpoint_record {
    pal_checkpoint checkpoint; /* `number` and `seq` are those of the mark */
    const uint64_t *keep_seqs; /* messages before the cut that are still sent */
    size_t keep_len;
    uint64_t previous; /* number of the previous checkpoint; 0: none */
    uint64_t messages; /* how many messages it replaces, in addition to those of the previous one */
    uint64_t tokens_before;
    uint64_t tokens_after;
    bool is_fallback;
    pal_str model;
    bool has_usage;
    pal_usage usage;
    int64_t cost_micros;
    pal_str reason;
    pal_str request_id; /* the id in the pal_compaction_request; empty: none */
    pal_str note;
} pal_checkpoint_record;

/* Reads the body of a mark. Unknown or invalid members are ignored. If the body is not a JSON
 * object, returns PAL_CORRUPT, and the error names the mark. */
PAL_CHECKED pal_status pal_window_checkpoint_read(const pal_mark *mark, pal_arena *arena,
        pal_checkpoint_record *out_record, pal_error *err);
/* Writes the body of a mark, in the arena. PAL_LIMIT if it exceeds PAL_MARK_BODY_LEN_MAX. */
PAL_CHECKED pal_status pal_window_checkpoint_write(const pal_checkpoint_record *record,
        pal_arena *arena,
        pal_str *out_body, pal_error *err);

/* Returns the checkpoint with this number, or NULL. */
const pal_mark *pal_window_checkpoint_find(const pal_mark *marks, size_t len, uint64_t number);

/* Returns the union of all marks, sorted, with each part once, and the sum of the tokens that they
 * removed. */
PAL_CHECKED pal_status pal_window_prunes_read(const pal_mark *marks, size_t marks_len,
        pal_arena *arena,
        pal_pruned_part **out_pruned, size_t *out_len, uint64_t *out_tokens, pal_error *err);
PAL_CHECKED pal_status pal_window_prunes_write(const pal_pruned_part *pruned, size_t len,
        uint64_t tokens,
        pal_arena *arena, pal_str *out_body, pal_error *err);

/* The beginning of every request of an epoch. */
typedef struct pal_epoch_record {
    pal_str system;
    bool is_own; /* a request brought this text: it is valid only for that request */
    pal_tool *tools;
    size_t tools_len;
    pal_str notes; /* JSON array with the ids of the notes that it begins with; empty: it was made
                      without the long-term memory */
    uint64_t notes_more; /* notes that were not sent for lack of room */
    int64_t notes_at;    /* when the notes were chosen */
} pal_epoch_record;

PAL_CHECKED pal_status pal_window_epoch_read(
        const pal_mark *mark, pal_arena *arena, pal_epoch_record *out_record, pal_error *err);
PAL_CHECKED pal_status pal_window_epoch_write(
        const pal_epoch_record *record, pal_arena *arena, pal_str *out_body, pal_error *err);

#endif
