/* run_stream.c - opens streams: the headers of every stream, and the error if there are too many.
 */
#include "server/run/run.h"

#include "server/server_call.h"

#define RETRY_MS 1000 /* Retry-After of a refused stream */

pal_stream *pal_run_stream(pal_call *call, unsigned code, const char *content_type,
        void (*gone)(void *user), void *user)
{
    pal_exchange *x = call->exchange;
    pal_call_streaming(call);
    pal_exchange_add_header(x, "cache-control", pal_str_of("no-store"));
    /* Keeps nginx from buffering. */
    pal_exchange_add_header(x, "x-accel-buffering", pal_str_of("no"));
    return pal_exchange_stream(x, code, content_type, gone, user);
}

pal_status pal_run_refuse_stream(pal_call *call, pal_error *err)
{
    call->fail_retry_ms = RETRY_MS;
    if (call->exchange->is_owner_full)
        return pal_call_refuse(call, 429, "rate_limited", PAL_LIMIT, err,
                "too many open streams of this key; retry later, or raise server.streams_per_key");
    return pal_call_refuse(call, 503, "busy", PAL_BUSY, err,
            "too many open streams; retry later, or raise server.streams_max");
}
