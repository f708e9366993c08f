/* observe_trace_internal.h - what the observe_trace*.c files share. */
#ifndef PAL_OBSERVE_TRACE_INTERNAL_H
#define PAL_OBSERVE_TRACE_INTERNAL_H

#include <pthread.h>
#include "net/net_http.h"
#include "net/net_loop.h"
#include "server/observe/observe_trace.h"

struct pal_trace {
    pal_runtime *runtime;
    pal_loop *loop; /* a separate loop, because callbacks of the runtime must not call the
                       runtime */
    pal_http *http;
    pal_str url; /* owned by the trace */
    pal_timer timer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pal_buf spans; /* JSON, separated by commas */
    size_t spans_len;
    uint64_t dropped;
    bool is_sending;
    bool is_closing;
    struct pal_trace_turn *turns; /* the followed turns */
    size_t turns_len;
};

/* Stops following all turns, and waits until no more events are reported. */
void pal_trace_leave_turns(pal_trace *trace);

#endif
