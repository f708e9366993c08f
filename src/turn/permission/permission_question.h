/* permission_question.h - the questions of a turn about its tool calls, and their answers.
 *
 * A call asks if its run has a question (pal_tool_run.question.kind is not NONE). Every kind of
 * question uses the same way: when the turn's other calls have ended, pal_question_ask() stores all
 * questions and publishes ASKING. The answers arrive in any process at pal_question_answer(), which
 * continues the turn. */
#ifndef PAL_PERMISSION_QUESTION_H
#define PAL_PERMISSION_QUESTION_H

#include "turn/turn.h"

/* ---- On the loop ---- */

/* Asks the questions of the turn's calls. Questions that the session remembers an answer for, or
 * that the caller cannot answer, are decided without asking. Calls pal_tools_go_on() when no
 * question is left. */
void pal_question_ask(pal_turn *turn);
/* Publishes the questions of an ASKING turn. */
void pal_question_tell(pal_turn *turn);
/* Answers all questions of the turn, which must be ASKING, and continues. PAL_INVALID: the answers
 * do not fit the questions, and nothing was changed. */
PAL_CHECKED pal_status pal_question_answer_all(
        pal_turn *turn, const pal_turn_answers *answers, pal_error *err);
/* Gives the answer to one call: the call may run, or ends with a denial as its result. Does not
 * continue the turn. */
void pal_question_take(pal_tool_run *run, const pal_question_answer *answer);
/* Copies the questions of the turn into the arena, in the order of the calls. */
PAL_CHECKED pal_status pal_question_list(const pal_turn *turn, pal_arena *arena,
        const pal_question **out_questions, size_t *out_len, pal_error *err);

/* ---- On any thread ---- */

/* Sets run->question: the kind, the server and the sentence that a person reads; in the arena. */
void pal_question_set(pal_tool_run *run, pal_question_kind kind, pal_str server, pal_str data);

/* Reads stored questions. Names and arguments are those of the calls in `answer`. Questions about
 * calls that are not in `answer` are left out. */
PAL_CHECKED pal_status pal_question_read(pal_str json, const pal_message *answer, pal_arena *arena,
        pal_question **out_questions, size_t *out_len, pal_error *err);

/* Returns PAL_INVALID unless every question has an answer and every answer a question. */
PAL_CHECKED pal_status pal_question_check(const pal_question *questions, size_t len,
        const pal_turn_answers *answers, pal_error *err);
/* Returns the answer to the question about a call, or NULL. */
const pal_question_answer *pal_question_answer_to(
        const pal_turn_answers *answers, pal_str call_id);

#endif
