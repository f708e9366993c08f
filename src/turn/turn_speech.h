/* turn_speech.h - gathers what a model says into a message. On the loop. */
#ifndef PAL_TURN_SPEECH_H
#define PAL_TURN_SPEECH_H

#include "turn/turn_runtime.h"

void pal_speech_init(pal_speech *answer);
void pal_speech_done(pal_speech *answer);
void pal_speech_clear(pal_speech *answer);

void pal_speech_text(pal_speech *answer, pal_str delta);
/* That the model won't. A text stays what it began as: either goes on with the other. */
void pal_speech_refusal(pal_speech *answer, pal_str delta);
bool pal_speech_is_refusal(const pal_speech *answer); /* what was said last */
void pal_speech_reasoning(pal_speech *answer, pal_str delta);
/* Of the reasoning since the last one; where none came since, of a block that is nothing else. */
void pal_speech_signature(pal_speech *answer, pal_str signature, pal_str family);
void pal_speech_call_begin(pal_speech *answer, uint32_t index, pal_str id, pal_str name);
void pal_speech_arguments(pal_speech *answer, uint32_t index, pal_str delta);

/* Borrowed until the next change; empty: there is no such call, or it has none. */
pal_str pal_speech_call_id(const pal_speech *answer, uint32_t index);

/* Its texts, one behind the other. */
void pal_speech_put_text(const pal_speech *answer, pal_buf *out_text);

/* The message, with copies of everything in the arena, in the order in which it was said. Calls
 * without a name are left out; those without an id are given one. */
PAL_CHECKED pal_status pal_speech_message(
        const pal_speech *answer, pal_arena *arena, pal_message *out_message, pal_error *err);

#endif
