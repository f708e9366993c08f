/* turn_conversation.h - the conversation that a service keeps of a session by itself. */
#ifndef PAL_TURN_CONVERSATION_H
#define PAL_TURN_CONVERSATION_H

#include "turn/turn_runtime.h"

/* On a worker, before the plan is made from `input`: how many tokens the service reports for the
 * conversation, if that is so many that room must be made; otherwise 0. */
PAL_CHECKED pal_status pal_conversation_full(
        const pal_turn *turn, const pal_context_input *input, uint64_t *out_tokens, pal_error *err);

/* On a worker, after the request was made from `input`: the conversation to go on with, if there is
 * one that has seen all but what is new. */
PAL_CHECKED pal_status pal_conversation_find(
        pal_turn *turn, const pal_context_input *input, pal_error *err);

/* The record of an answer, to be written with it; NULL: there is none to write, or no memory. */
pal_record *pal_conversation_record(
        pal_turn *turn, const pal_model_end *end, const pal_message *answer);

/* The answer was recorded: everything after it is new to the service. */
void pal_conversation_answered(pal_turn *turn, const pal_message *answer);

/* The turn ends without an answer, so nobody knows what the service has: the operation that forgets
 * the conversation; false: there is none. */
bool pal_conversation_drop(pal_turn *turn, pal_op *out_op);

/* A call has failed. True: it failed only for the conversation that it went on with; another one
 * is begun at the next call, which may be made at once. */
bool pal_conversation_failed(pal_turn *turn, const pal_model_end *end);

#endif
