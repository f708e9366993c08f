/* turn_speech.h - builds a message from the deltas of a model's answer. On the loop. */
#ifndef PAL_TURN_SPEECH_H
#define PAL_TURN_SPEECH_H

#include "turn/turn.h"

/* pal_speech_init() frees nothing. pal_speech_done() and pal_speech_clear() free all pieces; the
 * answer can be used again. */
void pal_speech_init(pal_speech *answer);
void pal_speech_done(pal_speech *answer);
void pal_speech_clear(pal_speech *answer);

void pal_speech_text(pal_speech *answer, pal_str delta);
/* Adds text with which the model refuses to answer. A text keeps the kind with which it began, even
 * if deltas of the other kind follow. */
void pal_speech_refusal(pal_speech *answer, pal_str delta);
bool pal_speech_is_refusal(const pal_speech *answer); /* whether the last piece is a refusal */
void pal_speech_reasoning(pal_speech *answer, pal_str delta);
/* Signs the reasoning since the last signature. If there was none, adds a block that consists only
 * of the signature. */
void pal_speech_signature(pal_speech *answer, pal_str signature, pal_str family);
/* Begins the call `index`, or adds to its id and name. A call without an id gets one. */
void pal_speech_call_begin(pal_speech *answer, uint32_t index, pal_str id, pal_str name);
void pal_speech_arguments(pal_speech *answer, uint32_t index, pal_str delta);

/* Borrowed until the next change. Empty if there is no such call, or it has no id. */
pal_str pal_speech_call_id(const pal_speech *answer, uint32_t index);

/* Appends all texts of the answer. */
void pal_speech_put_text(const pal_speech *answer, pal_buf *out_text);

/* Estimates the tokens of all texts and arguments. */
uint64_t pal_speech_tokens(const pal_speech *answer);

/* Makes the message, with copies of everything in the arena, in the order in which it arrived.
 * Calls without a name are left out. */
PAL_CHECKED pal_status pal_speech_message(
        const pal_speech *answer, pal_arena *arena, pal_message *out_message, pal_error *err);

#endif
