/* turn_conversation.h - the conversation that a model service keeps for a session. */
#ifndef PAL_TURN_CONVERSATION_H
#define PAL_TURN_CONVERSATION_H

#include "turn/turn.h"

/* On a worker, before the plan is made from `input`: sets *out_tokens to the number of tokens that
 * the service reports, if the conversation is so full that room must be made; otherwise to 0. */
PAL_CHECKED pal_status pal_conversation_full(
        const pal_turn *turn, const pal_context_input *input, uint64_t *out_tokens, pal_error *err);

/* On a worker, after the request was made from `input`: finds the conversation to continue, if
 * there is one that has seen everything except the new messages. */
PAL_CHECKED pal_status pal_conversation_find(
        pal_turn *turn, const pal_context_input *input, pal_error *err);

/* Returns the record to be written with the answer. NULL if there is none to write, or no
 * memory. */
pal_record *pal_conversation_record(
        pal_turn *turn, const pal_model_end *end, const pal_message *answer);

/* Called when the answer was recorded: all later messages are new to the service. */
void pal_conversation_answered(pal_turn *turn, const pal_message *answer);

/* For a turn that ends without an answer: it is not known what the service has seen. Sets *out_op
 * to an operation that drops the record. Returns false if there is none. */
bool pal_conversation_drop(pal_turn *turn, pal_op *out_op);

/* Called when a call has failed. Returns true if only the conversation was the reason. The next
 * call begins a new one, and can be made at once. */
bool pal_conversation_failed(pal_turn *turn, const pal_model_end *end);

#endif
