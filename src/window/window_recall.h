/* window_recall.h - finds messages that the model does not see any more. Reads only; on any
 * thread. */
#ifndef PAL_WINDOW_RECALL_H
#define PAL_WINDOW_RECALL_H

#include "base/buf.h"
#include "palaver/store.h"

typedef struct pal_recall {
    pal_store *store;
    pal_str tenant;
    pal_id session;
    pal_str text;     /* the search text, as in pal_search_query.text */
    size_t limit;     /* maximum number of messages that are shown */
    size_t bytes_max; /* approximate maximum size of the output */
} pal_recall;

/* Appends the hidden messages that contain all the words, each with the text around them. */
PAL_CHECKED pal_status pal_recall_run(
        const pal_recall *recall, pal_arena *arena, pal_buf *out, pal_error *err);

#endif
