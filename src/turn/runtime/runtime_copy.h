/* runtime_copy.h - deep copies of the caller's data. */
#ifndef PAL_RUNTIME_COPY_H
#define PAL_RUNTIME_COPY_H

#include "palaver/turn.h"

/* Everything that the copy points to is in the arena. A failure is visible in the arena. */
pal_message *pal_copy_messages(pal_arena *arena, const pal_message *messages, size_t len);
pal_tool *pal_copy_tools(pal_arena *arena, const pal_tool *tools, size_t len);
const pal_question_answer *pal_copy_answers(
        pal_arena *arena, const pal_question_answer *answers, size_t len);
pal_turn_request pal_copy_request(pal_arena *arena, const pal_turn_request *request);
pal_runtime_options pal_copy_options(pal_arena *arena, const pal_runtime_options *options);

#endif
