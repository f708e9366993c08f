/* dialect_part.h - ids of runs of parts, a search by kind, and a line in place of a part that
 * cannot be sent.
 *
 * The ids are for APIs that have no parts: each item or entry is a run of a message's parts. Its id
 * is PREFIX, the message's 32 hex digits and, unless it begins the message, "_" and the number of
 * its first part. So the id is the same before and after its message is recorded, even if some
 * parts are hidden. Pure functions: any thread. */
#ifndef PAL_DIALECT_PART_H
#define PAL_DIALECT_PART_H

#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"
#include "palaver/id.h"
#include "palaver/message.h"
#include "palaver/str.h"

/* Returns the part's number, from 0, even if other parts of its message are hidden. */
size_t pal_part_number(const pal_message *message, size_t part);

/* Returns whether nothing is hidden between the part and its predecessor. Only then may they be in
 * one run: a run must not grow when something between it and the next one is hidden. */
bool pal_part_follows(const pal_message *message, size_t part);

/* Returns whether the message has a part of this kind. */
bool pal_part_is_in(const pal_message *message, pal_part_kind kind);

/* Writes an id. `number` is counted from 0. */
void pal_part_id_text(
        const char *prefix, pal_id message, size_t number, char *out_id, size_t out_size);
/* Sets *out_message to the message that an id with one of the prefixes names. Returns false if it
 * is not such an id. */
bool pal_part_id_parse(
        pal_str id, const char *const *prefixes, size_t prefixes_len, pal_id *out_message);

/* Appends a line that describes a part that cannot be sent: "[image image/png photo.png]". */
void pal_part_placeholder(pal_buf *out, const pal_part *part);

#endif
