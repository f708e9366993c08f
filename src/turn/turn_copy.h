/* turn_copy.h - deep copies of what callers hand in. */
#ifndef PAL_TURN_COPY_H
#define PAL_TURN_COPY_H

#include "palaver/turn.h"

/* Everything that they point to is in the arena afterwards. Failure shows in the arena. */
pal_message *pal_copy_messages(pal_arena *arena, const pal_message *messages, size_t len);
pal_tool *pal_copy_tools(pal_arena *arena, const pal_tool *tools, size_t len);
pal_turn_request pal_copy_request(pal_arena *arena, const pal_turn_request *request);
pal_runtime_options pal_copy_options(pal_arena *arena, const pal_runtime_options *options);

#endif
