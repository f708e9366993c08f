/* turn_models.h - which models the endpoints have. On the loop. */
#ifndef PAL_TURN_MODELS_H
#define PAL_TURN_MODELS_H

#include "turn/turn_runtime.h"

/* Finds out the first model of the turn's endpoint, which has none of its own, and plans on; or
 * fails the turn. */
void pal_models_ask(pal_turn *turn);
/* The turn does not wait for it any more. */
void pal_models_leave(pal_turn *turn);

/* Lets go of questions that nobody waits for any more; the providers are closed. */
void pal_models_done(pal_runtime *runtime);

#endif
