/* disk_trace.h - records all that this process does to the files below one directory.
 *
 * The disk calls of a program that links disk_trace.c go through it, including those of shared
 * libraries. It makes the calls and, while a trace is open, records them: each write, truncation,
 * sync, new name, rename and removal, in order. disk_state.c produces the possible contents of a
 * disk after a power cut at any point of the trace.
 *
 * Files have numbers in the trace; 0 is the directory itself. There is one trace at a time; the
 * calls of several threads are recorded one after the other. */
#ifndef PAL_TESTS_DISK_TRACE_H
#define PAL_TESTS_DISK_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum trace_kind {
    TRACE_NOTE, /* by trace_note() */
    TRACE_WRITE,
    TRACE_CUT, /* to `offset` bytes */
    TRACE_SYNC,
    TRACE_SYNC_FAILED,
    TRACE_NAME, /* `node` is called `name` in `dir` */
    TRACE_RENAME,
    TRACE_REMOVE,
} trace_kind;

typedef struct trace_event {
    trace_kind kind;
    int node;
    int dir, to_dir;
    char *name, *to_name; /* allocated */
    uint64_t offset;      /* the value of a note */
    size_t len;
    char *data; /* allocated */
} trace_event;

typedef struct disk_trace {
    trace_event *events;
    size_t len, cap;
    size_t first; /* the events before it are the initial contents, which are durable */
    int nodes;
    bool *is_dir; /* by node */
} disk_trace;

/* Begins with the contents of `root`. The trace stays valid until trace_free(). */
void trace_begin(const char *root);
/* Ends the trace. */
const disk_trace *trace_end(void);
void trace_free(void);
/* Adds a note to the trace. */
void trace_note(uint64_t value);
/* One in that many syncs fails with EIO from now on; 0: none. Syncs of directories fail only with
 * `of_directories`, since SQLite ignores their failures. */
void trace_fail_syncs(unsigned one_in, bool of_directories);

/* Simulates the death of the process at one in that many calls: its calls fail and do nothing until
 * trace_revive(). 0: never. */
void trace_die(unsigned one_in);
/* The same at its `call`-th call, from 1. */
void trace_die_at(uint64_t call);
bool trace_is_dead(void);
void trace_revive(void);

/* The number of disk calls below the root since trace_begin(). */
uint64_t trace_calls(void);
/* The process is killed instead of its `call`-th call, from 1; 0: never. */
void trace_kill_at(uint64_t call);

#endif
