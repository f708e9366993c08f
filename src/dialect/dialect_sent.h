/* dialect_sent.h - the record of the request that led to an answer, as a member of the native
 * format:
 *
 *   "palaver_sent": {"tokens": 12034, "items": 41, "first_seq": 3, "hashes": "9f3a..."}
 *
 * A hash has four hex digits. Pure functions that use only the caller's memory. */
#ifndef PAL_DIALECT_SENT_H
#define PAL_DIALECT_SENT_H

#include "base/json/json.h"
#include "palaver/message.h"

#define PAL_SENT_MEMBER "palaver_sent"

/* Reads the value of the member into the arena. If the number of hashes is wrong, they are left
 * out. */
PAL_CHECKED pal_status pal_sent_read(
        pal_json value, pal_arena *arena, const pal_sent **out_sent, pal_error *err);

/* Copies the record into the arena. Returns NULL if `sent` is NULL or there is no memory. */
const pal_sent *pal_sent_copy(pal_arena *arena, const pal_sent *sent);

/* Writes the member with its name. Writes nothing if `sent` is NULL. */
void pal_sent_write(pal_json_writer *writer, const pal_sent *sent);

#endif
