/* turn_recover.h - what a turn finds when it begins. */
#ifndef PAL_TURN_RECOVER_H
#define PAL_TURN_RECOVER_H

#include "turn/turn_machine.h"

/* With how many results of calls the request's messages begin. */
size_t pal_recover_results(const pal_turn_request *request);

/* On a worker: sets turn->messages to what is to be recorded, settled calls first, and leftover. */
void pal_recover_work(pal_work_item *item);

#endif
