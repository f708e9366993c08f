/* turn_record.h - what marks hold for a context: the bodies of checkpoints, prunes and epochs, as
 * JSON. docs/context.md has their members. */
#ifndef PAL_TURN_RECORD_H
#define PAL_TURN_RECORD_H

#include "palaver/context.h"
#include "palaver/store.h"
#include "palaver/window.h"

typedef struct pal_checkpoint_record {
    pal_checkpoint checkpoint; /* number and seq are the mark's */
    const uint64_t *keep_seqs; /* before the cut, and sent all the same */
    size_t keep_len;
    uint64_t previous; /* the number of the checkpoint before; 0: none */
    uint64_t messages; /* how many it stands for, beside the previous one's */
    uint64_t tokens_before;
    uint64_t tokens_after;
    bool is_fallback;
    pal_str model;
    bool has_usage;
    pal_usage usage;
    int64_t cost_micros;
    pal_str reason;
    pal_str note;
} pal_checkpoint_record;

/* A body that is damaged reads as far as it goes: PAL_CORRUPT names the mark. */
PAL_CHECKED pal_status pal_checkpoint_read(const pal_mark *mark, pal_arena *arena,
        pal_checkpoint_record *out_record, pal_error *err);
PAL_CHECKED pal_status pal_checkpoint_write(const pal_checkpoint_record *record, pal_arena *arena,
        pal_str *out_body, pal_error *err);

/* The checkpoint of that number; NULL when there is none. */
const pal_mark *pal_checkpoint_find(const pal_mark *marks, size_t len, uint64_t number);

/* Sorted, each part once: the union of all the marks; and the tokens that all of them took out. */
PAL_CHECKED pal_status pal_prunes_read(const pal_mark *marks, size_t marks_len, pal_arena *arena,
        pal_pruned **out_pruned, size_t *out_len, uint64_t *out_tokens, pal_error *err);
PAL_CHECKED pal_status pal_prunes_write(const pal_pruned *pruned, size_t len, uint64_t tokens,
        pal_arena *arena, pal_str *out_body, pal_error *err);

/* What every request of an epoch begins with. */
typedef struct pal_epoch_record {
    pal_str system;
    bool is_own; /* a request brought this text with it: it holds for that one only */
    pal_tool *tools;
    size_t tools_len;
} pal_epoch_record;

PAL_CHECKED pal_status pal_epoch_read(
        const pal_mark *mark, pal_arena *arena, pal_epoch_record *out_record, pal_error *err);
PAL_CHECKED pal_status pal_epoch_write(
        const pal_epoch_record *record, pal_arena *arena, pal_str *out_body, pal_error *err);

#endif
