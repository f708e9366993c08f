/* runtime_forward.h - forwarded requests of a runtime, and our own token counts of them. */
#ifndef PAL_RUNTIME_FORWARD_H
#define PAL_RUNTIME_FORWARD_H

#include "turn/runtime/runtime.h"

/* On the loop: ends all running forwards, and reports their end. */
void pal_forwards_stop(pal_runtime *runtime);

/* ---- runtime_forward_count.c ---- */

/* Counts the tokens of a request's messages and tools with `encoding`; NULL estimates. An
 * unreadable body is estimated by its length. Can take long, so it must not run on the loop. */
uint64_t pal_forward_count_input(
        const pal_encoding *encoding, pal_forward_api api, pal_str body);
/* Returns the maximum output of all choices together. `otherwise` is used if the request sets no
 * limit or a higher one. */
uint64_t pal_forward_count_limit(pal_str body, uint64_t otherwise);
/* Counts the tokens of a response of `len` bytes that begins with `text`. Can take long, so it must
 * not run on the loop. */
uint64_t pal_forward_count_output(const pal_encoding *encoding, pal_str text, uint64_t len);

/* Returns the request with stream_options.include_usage, in the arena; unchanged if it is not a
 * stream. */
PAL_CHECKED pal_status pal_forward_ask_usage(
        pal_str body, pal_arena *arena, pal_str *out_body, pal_error *err);

#endif
