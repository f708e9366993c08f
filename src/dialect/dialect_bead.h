/* dialect_bead.h - the record that leads from a bead to its session. Loom, a program that sends
 * agents to work items, calls a work item a bead. */
#ifndef PAL_DIALECT_BEAD_H
#define PAL_DIALECT_BEAD_H

#include <stdbool.h>
#include "palaver/id.h"
#include "palaver/limits.h"
#include "palaver/str.h"

#define PAL_BEAD_RECORD "bead" /* the kind of these records */
#define PAL_BEAD_BODY_SIZE 40

/* Returns the beginning that the names of all records of a bead share. False: the bead's id is too
 * long for a name. */
bool pal_bead_record_begin(pal_str bead, char out_name[PAL_RECORD_NAME_LEN_MAX + 1]);

/* Returns the name of the record that leads from the bead to the session. False: the bead's id is
 * too long for a name. */
bool pal_bead_record_name(
        pal_str bead, pal_id session, char out_name[PAL_RECORD_NAME_LEN_MAX + 1]);

/* Writes the record's body. `untimed_at`: the time of the import if the session had no time of its
 * own, otherwise 0. */
void pal_bead_record_body(int64_t untimed_at, char out_body[PAL_BEAD_BODY_SIZE]);

#endif
