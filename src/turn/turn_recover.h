/* turn_recover.h - what a turn finds when it begins. */
#ifndef PAL_TURN_RECOVER_H
#define PAL_TURN_RECOVER_H

#include "turn/turn_machine.h"

/* With how many results of calls the request's messages begin. */
size_t pal_recover_results(const pal_turn_request *request);

/* Makes the request's messages what will be recorded, which must not depend on anything but the
 * request: what is sent again is known by its bytes. As they came they are in turn->as_sent. */
PAL_CHECKED pal_status pal_recover_prepare(pal_turn *turn, pal_error *err);

/* On a worker: sets turn->messages to what is to be recorded, settled calls first, and leftover;
 * or is_taken, or must_wait. */
void pal_recover_work(pal_work_item *item);

#endif
