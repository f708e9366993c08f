/* disk_state.h - the possible contents of a disk after a power cut at some point of a trace.
 *
 * A sync covers the earlier writes to its file. Any other write is present, missing, or torn into
 * sectors, any of which can be present, with zeros between them. The file can have grown with or
 * without its bytes. Names are covered by a sync of their directory. Of the other changes of names
 * either the first ones are present, as with a journal, or any subset. */
#ifndef PAL_TESTS_DISK_STATE_H
#define PAL_TESTS_DISK_STATE_H

#include "support/disk/disk_trace.h"

typedef struct disk_plan {
    uint64_t seed;   /* decides everything that is not certain */
    size_t cut;      /* how many events have happened */
    bool is_strict;  /* any subset of the names is present, not only the first ones */
    unsigned forget; /* one sync in `forget` is ignored; 0: none */
} disk_plan;

/* Fills the empty directory `root` with the state. */
void disk_state_make(const disk_trace *trace, const disk_plan *plan, const char *root);

/* Makes a plain copy of a directory: it has other inodes and other times. */
void disk_copy(const char *from, const char *to);

#endif
