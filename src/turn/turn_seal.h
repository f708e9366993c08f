/* turn_seal.h - the commit that ends a turn as DONE, where something depends on its being the last.
 * On the loop. */
#ifndef PAL_TURN_SEAL_H
#define PAL_TURN_SEAL_H

#include "turn/turn_machine.h"

/* False: nobody cares which commit is the last. */
bool pal_seal_is_wanted(const pal_turn *turn);

/* Keeps the ids of what the turn records, and gives them to messages that have none. */
void pal_seal_note(pal_turn *turn, pal_message *messages, size_t len);

/* Makes this the turn's last commit: what the caller's `finish` fills goes along, and whatever says
 * that the turn is half done goes away. */
PAL_CHECKED pal_status pal_seal(
        pal_turn *turn, pal_turn_append *append, bool has_calls, pal_error *err);

#endif
