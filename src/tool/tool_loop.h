/* tool_loop.h - sees a model that calls the same tool with the same arguments again and again. */
#ifndef PAL_TOOL_LOOP_H
#define PAL_TOOL_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include "palaver/str.h"

#define PAL_TOOL_LOOP_CALLS 3

/* Zeroed: nothing seen yet. Plain data. */
typedef struct pal_tool_loop {
    uint64_t last;  /* hash of the last call */
    uint32_t equal; /* so many in a row were that one */
} pal_tool_loop;

/* True when this is the third equal call in a row: names equal, and arguments equal as JSON values
 * (as bytes where they are no JSON). */
bool pal_tool_loop_add(pal_tool_loop *loop, pal_str name, pal_str arguments);
void pal_tool_loop_reset(pal_tool_loop *loop);

#endif
