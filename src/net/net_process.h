/* net_process.h - a child process that is spoken to line by line. All on the loop. */
#ifndef PAL_NET_PROCESS_H
#define PAL_NET_PROCESS_H

#include "net/net_loop.h"
#include "palaver/str.h"

typedef struct pal_process pal_process;

/* What `exit` tells where we killed it because a line was too long: no exit code nor signal. */
#define PAL_PROCESS_LINE_TOO_LONG 1000

typedef struct pal_process_events {
    void (*line)(void *user, pal_str line); /* from its standard output, without the newline */
    void (*error_line)(void *user, pal_str line); /* from its standard error */
    /* Once, last, after all its lines: the exit code, or minus the signal's number. What the child
     * left behind in its process group is dead by then. The process is gone afterwards. */
    void (*exit)(void *user, int code);
} pal_process_events;

typedef struct pal_process_spec {
    const char *const *arguments;   /* [0] is looked up in PATH; NULL at the end */
    const char *const *environment; /* "NAME=value" added to a small safe set; NULL at the end */
    const char *directory;          /* NULL: ours */
    /* 0: 16 MiB. A longer line is told cut, and the process killed; on its standard error the rest
     * is only left out. */
    size_t line_bytes_max;
} pal_process_spec;

PAL_CHECKED pal_status pal_process_start(pal_loop *loop, const pal_process_spec *spec,
        const pal_process_events *events, void *user, pal_process **out_process, pal_error *err);
/* Queued and written as the child takes it; PAL_LIMIT when more than 64 MiB wait. */
PAL_CHECKED pal_status pal_process_write(pal_process *process, pal_str bytes, pal_error *err);
/* Closes its input behind what was written; SIGTERM after `grace_ms`, SIGKILL after as much again.
 * `exit` still comes. */
void pal_process_stop(pal_process *process, int64_t grace_ms);
/* Kills it without a word: no callback comes any more. */
void pal_process_kill(pal_process *process);

#endif
