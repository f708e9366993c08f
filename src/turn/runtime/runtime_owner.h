/* runtime_owner.h - counts how many turns and forwards of a runtime each budget owner has at the
 * same time. */
#ifndef PAL_RUNTIME_OWNER_H
#define PAL_RUNTIME_OWNER_H

#include "turn/runtime/runtime.h"

/* Add or remove one turn or forwarded call of the owner. A budget without an owner is not
 * counted. */
void pal_owner_enter(pal_runtime *runtime, const pal_budget *budget);
void pal_owner_leave(pal_runtime *runtime, const pal_budget *budget);

#endif
