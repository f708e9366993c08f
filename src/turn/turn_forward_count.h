/* turn_forward_count.h - what a request that is passed on comes to, by our own count. */
#ifndef PAL_TURN_FORWARD_COUNT_H
#define PAL_TURN_FORWARD_COUNT_H

#include "palaver/tokens.h"
#include "palaver/turn.h"

/* Tokens of a request's messages and tools, as counted by `encoding`; NULL estimates. A body that
 * can't be read is estimated by its length. May take long: not on the loop. */
uint64_t pal_forward_count_input(const pal_encoding *encoding, pal_str body);
/* What its answer may have at most, all choices together; `otherwise` where it doesn't say. */
uint64_t pal_forward_count_limit(pal_str body, uint64_t otherwise);
/* Tokens of an answer of `len` bytes that begins with `text`. Likewise. */
uint64_t pal_forward_count_output(const pal_encoding *encoding, pal_str text, uint64_t len);

/* The request with stream_options.include_usage, in the arena; as it is where it is no stream. */
PAL_CHECKED pal_status pal_forward_ask_usage(
        pal_str body, pal_arena *arena, pal_str *out_body, pal_error *err);

#endif
