/* net_spawn.h - starts a program with pipes for its three standard streams. For src/net only. */
#ifndef PAL_NET_SPAWN_H
#define PAL_NET_SPAWN_H

#include <sys/types.h>
#include "net/net_process.h"

/* A started child. It leads a new process group. */
typedef struct pal_child {
    pid_t pid;
    int input;  /* we write to it; the caller must close all three */
    int output; /* we read from it */
    int error;
} pal_child;

/* Can be called from any thread. */
PAL_CHECKED pal_status pal_child_start(
        const pal_process_spec *spec, pal_child *out_child, pal_error *err);

#endif
