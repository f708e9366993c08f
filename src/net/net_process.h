/* net_process.h - a child process that is written to and read from line by line. All functions must
 * be called on the loop, and all callbacks run on it. */
#ifndef PAL_NET_PROCESS_H
#define PAL_NET_PROCESS_H

#include "net/net_loop.h"
#include "palaver/str.h"

typedef struct pal_process pal_process;

/* The code of `exit` if the child was killed because of a line that was too long. It is neither an
 * exit code nor a signal. */
#define PAL_PROCESS_LINE_TOO_LONG 1000

typedef struct pal_process_events {
    void (*line)(void *user, pal_str line); /* a line of its standard output, without the newline */
    void (*error_line)(void *user, pal_str line); /* a line of its standard error */
    /* Called once, last, after all lines: the exit code, or the negative number of the signal. All
     * other processes in the child's process group are dead by then. The process is freed
     * afterwards. */
    void (*exit)(void *user, int code);
} pal_process_events;

typedef struct pal_process_spec {
    const char *const *arguments;   /* [0] is looked up in PATH; ends with NULL */
    const char *const *environment; /* "NAME=value", in addition to a small safe set; ends with
                                       NULL */
    const char *directory;          /* NULL: the current directory */
    /* Maximum length of a line; 0: 16 MiB. A longer line on standard output is reported cut, and
     * the process is killed. On standard error the rest of the line is left out. */
    size_t line_bytes_max;
} pal_process_spec;

PAL_CHECKED pal_status pal_process_start(pal_loop *loop, const pal_process_spec *spec,
        const pal_process_events *events, void *user, pal_process **out_process, pal_error *err);
/* Queues bytes, which are written as fast as the child reads them. PAL_LIMIT: more than 64 MiB are
 * waiting. */
PAL_CHECKED pal_status pal_process_write(pal_process *process, pal_str bytes, pal_error *err);
/* Closes the child's input after all queued bytes were written. Sends SIGTERM after `grace_ms`, and
 * SIGKILL after the same time again. `exit` is still called. */
void pal_process_stop(pal_process *process, int64_t grace_ms);

#endif
