/* api_openai_socket_items.h - the items of responses that are not stored. A WebSocket keeps them in
 * memory while it is open, as the service does: the next request names such a response and contains
 * only the items after it. With the kept items the request is complete, so it can be forwarded or
 * recorded like one that came over HTTP.
 *
 * The items are kept as the text that arrived. A response refers to the one that it continues, so
 * nothing is kept twice. If a connection keeps too much, conversations that were not continued for
 * the longest time are dropped. Their clients get previous_response_not_found, and send everything
 * again.
 *
 * Threads: any thread can call every function; one thread at a time uses an entry. */
#ifndef PAL_API_OPENAI_SOCKET_ITEMS_H
#define PAL_API_OPENAI_SOCKET_ITEMS_H

#include "base/buf.h"
#include "base/json/json.h"
#include "palaver/error.h"

typedef struct pal_socket_items pal_socket_items;
typedef struct pal_socket_entry pal_socket_entry; /* a request, and the items of its response */

pal_socket_items *pal_socket_items_new(void); /* NULL: out of memory */
void pal_socket_items_free(pal_socket_items *items); /* accepts NULL */

/* Makes the entry of a request that continues `previous`, which may be empty. `input` is the
 * request's member. NULL: out of memory. */
pal_socket_entry *pal_socket_entry_new(pal_str previous, pal_json input);
void pal_socket_entry_free(pal_socket_entry *entry); /* accepts NULL */

/* Appends the items of the whole history, including the request's own, with commas between them.
 * PAL_NOT_FOUND: the response that it continues is not kept. With `is_replayed`, leaves out
 * reasoning that a service could not read again, because its content is not included. */
PAL_CHECKED pal_status pal_socket_items_history(pal_socket_items *items,
        const pal_socket_entry *entry, bool is_replayed, pal_buf *out, pal_error *err);

/* Reads an event of the response. Returns true if it was the last one: the response is kept from
 * now on, and `items` owns the entry. */
bool pal_socket_items_see(pal_socket_items *items, pal_socket_entry *entry, pal_str event);

/* Drops the response, because its continuation has failed. */
void pal_socket_items_forget(pal_socket_items *items, pal_str response);

#endif
