/* disk_state.h - what a disk could hold after a power cut at some place of a trace.
 *
 * A sync covers what was written to its file before it. Anything else is there, or is not, or is
 * torn into sectors of which any may be there, with zeros between them, and the file may have
 * grown with its bytes or without. Names are covered by a sync of their directory. Of the others
 * either the first so many are there, as with a journal, or any of them. */
#ifndef PAL_TESTS_DISK_STATE_H
#define PAL_TESTS_DISK_STATE_H

#include "support/disk/disk_trace.h"

typedef struct disk_plan {
    uint64_t seed;   /* decides everything that is open */
    size_t cut;      /* how many events have happened */
    bool is_strict;  /* any subset of the names, not only a beginning */
    unsigned forget; /* one sync in so many is forgotten; 0: none */
} disk_plan;

/* Fills the empty directory `root` with it. */
void disk_state_make(const disk_trace *trace, const disk_plan *plan, const char *root);

/* A plain copy of one directory into another, which is made: other inodes, other times. */
void disk_copy(const char *from, const char *to);

#endif
