/* turn_answer_buffer.h - builds a message from the deltas of a model's answer. On the loop. */
#ifndef PAL_TURN_ANSWER_BUFFER_H
#define PAL_TURN_ANSWER_BUFFER_H

#include "turn/turn.h"

/* pal_answer_buffer_init() frees nothing. pal_answer_buffer_done() and pal_answer_buffer_clear()
 * free all parts; the answer can be used again. */
void pal_answer_buffer_init(pal_answer_buffer *answer);
void pal_answer_buffer_done(pal_answer_buffer *answer);
void pal_answer_buffer_clear(pal_answer_buffer *answer);

void pal_answer_buffer_text(pal_answer_buffer *answer, pal_str delta);
/* Adds text with which the model refuses to answer. A text keeps the kind with which it began, even
 * if deltas of the other kind follow. */
void pal_answer_buffer_refusal(pal_answer_buffer *answer, pal_str delta);
/* Returns true if the last part is a refusal. */
bool pal_answer_buffer_is_refusal(const pal_answer_buffer *answer);
void pal_answer_buffer_reasoning(pal_answer_buffer *answer, pal_str delta);
/* Signs the reasoning since the last signature. If there was none, adds a block that consists only
 * of the signature. */
void pal_answer_buffer_signature(pal_answer_buffer *answer, pal_str signature, pal_str family);
/* Begins the call `index`, or adds to its id and name. A call without an id gets one. */
void pal_answer_buffer_call_begin(pal_answer_buffer *answer, uint32_t index, pal_str id,
        pal_str name);
void pal_answer_buffer_arguments(pal_answer_buffer *answer, uint32_t index, pal_str delta);

/* Borrowed until the next change. Empty if there is no such call, or it has no id. */
pal_str pal_answer_buffer_call_id(const pal_answer_buffer *answer, uint32_t index);

/* Appends all texts of the answer. */
void pal_answer_buffer_put_text(const pal_answer_buffer *answer, pal_buf *out_text);

/* Estimates the tokens of all texts and arguments. */
uint64_t pal_answer_buffer_tokens(const pal_answer_buffer *answer);

/* Makes the message, with copies of everything in the arena, in the order in which it arrived.
 * Calls without a name are left out. */
PAL_CHECKED pal_status pal_answer_buffer_message(
        const pal_answer_buffer *answer, pal_arena *arena, pal_message *out_message,
                pal_error *err);

#endif
