/* runtime_models.h - the models of the endpoints. On the loop. */
#ifndef PAL_RUNTIME_MODELS_H
#define PAL_RUNTIME_MODELS_H

#include "turn/runtime/runtime.h"

/* Requests the first model of the turn's endpoint, which has no configured model. Then continues
 * with the plan, or fails the turn. */
void pal_models_ask(pal_turn *turn);
/* Called when the turn does not wait for the model any more. */
void pal_models_leave(pal_turn *turn);

/* Frees requests that no caller waits for any more. The providers must be closed. */
void pal_models_done(pal_runtime *runtime);

#endif
