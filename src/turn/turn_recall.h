/* turn_recall.h - finds what a conversation said and the model does not see any more. Reads only;
 * any thread. */
#ifndef PAL_TURN_RECALL_H
#define PAL_TURN_RECALL_H

#include "base/buf.h"
#include "palaver/store.h"

typedef struct pal_recall {
    pal_store *store;
    pal_str tenant;
    pal_id session;
    pal_str text;     /* what is looked for, as pal_search.text */
    size_t limit;     /* messages that are shown, at most */
    size_t bytes_max; /* about so much is written, at most */
} pal_recall;

/* Appends the hidden messages that have all the words, each with the text around them. */
PAL_CHECKED pal_status pal_recall_run(
        const pal_recall *recall, pal_arena *arena, pal_buf *out, pal_error *err);

#endif
