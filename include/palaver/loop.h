/* loop.h - detects a model that calls the same tool with the same arguments again and again. Turns
 * use it automatically. It is public for programs that run tools themselves. */
#ifndef PALAVER_LOOP_H
#define PALAVER_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include "palaver/api.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PAL_TOOL_LOOP_CALLS 3         /* equal calls in a row that count as a loop */
#define PAL_TOOL_LOOP_NAME_LEN_MAX 79 /* bytes of the tool's name that are kept; the rest is cut
                                         off */

/* Remembers the last call. Zero it before the first use. Plain data of the caller: there is nothing
 * to release. Must be used by one thread at a time. */
typedef struct pal_tool_loop {
    uint64_t last;                                  /* hash of the last call */
    uint32_t equal;                                 /* how many equal calls in a row there were */
    char last_name[PAL_TOOL_LOOP_NAME_LEN_MAX + 1]; /* the tool of the last call; empty: there was
                                                       no call */
    PAL_RESERVED(2);
} pal_tool_loop;

/* Records a call. Returns true if it is the third equal call in a row, or a later one. Calls are
 * equal if their names are equal and their arguments are equal as JSON values (as bytes if they are
 * not JSON). */
PAL_API bool pal_tool_loop_add(pal_tool_loop *loop, pal_str name, pal_str arguments);

/* Forgets all calls, for example after an approval. */
PAL_API void pal_tool_loop_reset(pal_tool_loop *loop);

#ifdef __cplusplus
}
#endif
#endif
