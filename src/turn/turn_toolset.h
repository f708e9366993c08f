/* turn_toolset.h - gathers, checks and counts the tools that a model is offered. */
#ifndef PAL_TURN_TOOLSET_H
#define PAL_TURN_TOOLSET_H

#include "turn/turn.h"

/* On the loop: returns the caller's tools, then the built-in ones, then those of the servers; in
 * the arena. NULL if there is no memory. */
pal_tool *pal_toolset_gather(const pal_runtime *runtime, const pal_turn_request *request,
        pal_arena *arena, size_t *out_len);

/* Checks whether the caller's tools can be offered. Tools of servers were checked when they were
 * listed. */
PAL_CHECKED pal_status pal_toolset_check(
        const pal_turn_request *request, pal_arena *arena, pal_error *err);

/* Counts the tokens of each tool, in the arena. A definition that was counted before with this
 * encoding is not counted again. On any thread; takes long for new tools. */
PAL_CHECKED pal_status pal_toolset_count(pal_runtime *runtime, const pal_encoding *encoding,
        const pal_tool *tools, size_t len, pal_arena *arena, uint64_t **out_tokens,
        pal_error *err);
/* Frees the counts. */
void pal_toolset_done(pal_runtime *runtime);

#endif
