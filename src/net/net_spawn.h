/* net_spawn.h - starts a program with its three standard streams in our hands. Only for src/net. */
#ifndef PAL_NET_SPAWN_H
#define PAL_NET_SPAWN_H

#include <sys/types.h>
#include "net/net_process.h"

/* A started child: it leads a process group of its own. */
typedef struct pal_child {
    pid_t pid;
    int input;  /* we write; ours to close, as the others */
    int output; /* we read */
    int error;
} pal_child;

/* From any thread. */
PAL_CHECKED pal_status pal_child_start(
        const pal_process_spec *spec, pal_child *out_child, pal_error *err);

#endif
