/* server_trace_inside.h - what the files of traces share. */
#ifndef PAL_SERVER_TRACE_INSIDE_H
#define PAL_SERVER_TRACE_INSIDE_H

#include <pthread.h>
#include "net/net_http.h"
#include "net/net_loop.h"
#include "server/server_trace.h"

struct pal_trace {
    pal_runtime *runtime;
    pal_loop *loop; /* of its own: the runtime's callbacks may not ask the runtime */
    pal_http *http;
    pal_str url; /* its own */
    pal_timer timer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pal_buf spans; /* JSON, with commas between */
    size_t spans_len;
    uint64_t dropped;
    bool is_sending;
    bool is_closing;
    struct pal_trace_turn *turns; /* that are followed */
    size_t turns_len;
};

/* Lets go of all turns, and waits until nothing is told of them any more. */
void pal_trace_leave_turns(pal_trace *trace);

#endif
