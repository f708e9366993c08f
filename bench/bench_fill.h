/* bench_fill.h - sessions and messages by the thousand, for stores that are to be measured. Ends
 * the program when a store fails. */
#ifndef PAL_BENCH_FILL_H
#define PAL_BENCH_FILL_H

#include "palaver/store.h"

#define FILL_MESSAGES 10000 /* in one commit; so many at most in one session at once */
#define FILL_TEXT_MAX 1024

extern const pal_str fill_tenant;

/* A number that depends on x in no visible way. */
uint64_t fill_hash(uint64_t x);

/* The id of the session number `index`. */
pal_id fill_session_id(size_t index);

void fill_must(pal_status status, const pal_error *error);

void fill_sessions(pal_store *store, size_t from, size_t count);

/* A message of one text; `part` must live as long as it. */
pal_message fill_message(pal_part *part, size_t text_len);

/* `each` messages into each of the sessions, many of them in one commit. */
void fill_messages(pal_store *store, size_t from, size_t count, size_t each, size_t text_len);

#endif
