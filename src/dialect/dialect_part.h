/* dialect_part.h - parts of messages as APIs name them that know no parts: each item or entry is a
 * run of a message's parts, and is called PREFIX, the message's 32 hex digits and, unless it begins
 * the message, "_" and the number of its first part. So it has the same name before its message is
 * recorded as ever after, whatever of that is out of sight. Pure functions: any thread. */
#ifndef PAL_DIALECT_PART_H
#define PAL_DIALECT_PART_H

#include <stdbool.h>
#include <stddef.h>
#include "palaver/id.h"
#include "palaver/message.h"
#include "palaver/str.h"

/* The part's own number, from 0, whatever of its message is out of sight. */
static inline size_t pal_part_number(const pal_message *message, size_t part)
{
    return message->parts[part].number ? message->parts[part].number - 1 : part;
}

/* Behind the run of parts from `first` on that `joins` says belong together. What stands apart
 * stays apart: a run must not grow when something between it and the next goes out of sight. */
size_t pal_part_run_end(
        const pal_message *message, size_t first, bool (*joins)(const pal_part *part));

/* `number` from 0. */
void pal_part_id_text(
        const char *prefix, pal_id message, size_t number, char *out_id, size_t out_size);
/* The message that an id with one of the prefixes names; false where it is none. */
bool pal_part_id_parse(
        pal_str id, const char *const *prefixes, size_t prefixes_len, pal_id *out_message);

#endif
