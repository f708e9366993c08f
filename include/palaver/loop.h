/* loop.h - detects a model that calls the same tool with the same arguments again and again. Turns
 * use it by themselves; it is here for programs that run tools on their own. */
#ifndef PALAVER_LOOP_H
#define PALAVER_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PAL_TOOL_LOOP_CALLS 3         /* equal calls in a row that are a loop */
#define PAL_TOOL_LOOP_NAME_LEN_MAX 79 /* of the tool's name that is kept; more is cut off */

/* Starts as zeros. Plain data of the caller: nothing to release. */
typedef struct pal_tool_loop {
    uint64_t last;  /* hash of the last call */
    uint32_t equal; /* so many in a row were that one */
    char last_name[PAL_TOOL_LOOP_NAME_LEN_MAX + 1]; /* the tool of the last call; empty: none yet */
} pal_tool_loop;

/* Records a call. True if it is the third equal one in a row, or a later one: names equal, and
 * arguments equal as JSON values (as bytes if they are not JSON). */
PAL_API bool pal_tool_loop_add(pal_tool_loop *loop, pal_str name, pal_str arguments);

/* Forgets all calls, as after an approval. */
PAL_API void pal_tool_loop_reset(pal_tool_loop *loop);

#ifdef __cplusplus
}
#endif
#endif
