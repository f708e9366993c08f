/* bench_fill.h - fills stores with thousands of sessions and messages. Ends the program if a store
 * fails. */
#ifndef PAL_BENCH_FILL_H
#define PAL_BENCH_FILL_H

#include "palaver/store.h"

#define FILL_MESSAGES 10000 /* messages in one commit, and at most in one session at once */
#define FILL_TEXT_MAX 1024

extern const pal_str fill_tenant;

/* Returns a number that looks random but depends only on x. */
uint64_t fill_hash(uint64_t x);

/* Returns the id of the session number `index`. */
pal_id fill_session_id(size_t index);

void fill_must(pal_status status, const pal_error *error);

void fill_sessions(pal_store *store, size_t from, size_t count);

/* Makes a message of one text. `part` must live as long as the message. */
pal_message fill_message(pal_part *part, size_t text_len);

/* Appends `each` messages to each of the sessions, many in one commit. */
void fill_messages(pal_store *store, size_t from, size_t count, size_t each, size_t text_len);

#endif
