/* dialect_sent.h - what a model was sent for an answer, as a member of the native form:
 *
 *   "palaver_sent": {"tokens": 12034, "items": 41, "first_seq": 3, "hashes": "9f3a..."}
 *
 * Four hex digits a hash. Pure functions over the caller's memory. */
#ifndef PAL_DIALECT_SENT_H
#define PAL_DIALECT_SENT_H

#include "base/json.h"
#include "palaver/message.h"

#define PAL_SENT_MEMBER "palaver_sent"

/* Reads the member's value into the arena. Hashes that are not one for each place are left out. */
PAL_CHECKED pal_status pal_sent_read(
        pal_json value, pal_arena *arena, const pal_sent **out_sent, pal_error *err);

/* Writes the member with its name; nothing if `sent` is NULL. */
void pal_sent_write(pal_json_writer *writer, const pal_sent *sent);

#endif
