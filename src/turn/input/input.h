/* input.h - input that tool servers require from a person, and the handles that continue their
 * calls (tool_mcp.h). Questions use the way of all questions of a turn: permission_question.h. */
#ifndef PAL_INPUT_H
#define PAL_INPUT_H

#include "turn/turn.h"

/* ---- On the loop ---- */

/* The call ended with a handle. Keeps it, and sets run->question if the handle has questions.
 * Returns false if there is no memory. */
bool pal_input_keep(pal_tool_run *run, const pal_tool_outcome *outcome);
/* The server asks while the call runs: sets run->question. */
void pal_input_add(pal_tool_run *run, const pal_tool_question *question);
/* The question is obsolete. */
void pal_input_remove(pal_tool_run *run, pal_str id);
/* Takes a checked answer: replies to the running call, or keeps the replies until the call is
 * continued. */
void pal_input_take(pal_tool_run *run, const pal_question_answer *answer);

/* Returns the handles of all calls that have not ended, as JSON in the turn's arena; empty if there
 * are none. */
pal_str pal_input_handles(const pal_turn *turn);
/* Finds the handle of the call in stored handles. Returns false if it has none. */
bool pal_input_restore(pal_tool_run *run, pal_str handles);

/* ---- On any thread ---- */

/* Returns PAL_INVALID if the answer does not fit the question, whose kind is INPUT. */
PAL_CHECKED pal_status pal_input_check(
        const pal_question *question, const pal_question_answer *answer, pal_error *err);

#endif
