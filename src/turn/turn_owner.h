/* turn_owner.h - how much of a runtime each owner of a budget uses at once. */
#ifndef PAL_TURN_OWNER_H
#define PAL_TURN_OWNER_H

#include "turn/turn_runtime.h"

/* One more turn or passed-on call of that owner, or one less. Nobody's are not counted. */
void pal_owner_enter(pal_runtime *runtime, const pal_budget *budget);
void pal_owner_leave(pal_runtime *runtime, const pal_budget *budget);

#endif
