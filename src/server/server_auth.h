/* server_auth.h - who asks: the caller behind a key, or behind none where the server is open. */
#ifndef PAL_SERVER_AUTH_H
#define PAL_SERVER_AUTH_H

#include "server/server.h"
#include "server/server_limits.h"

typedef struct pal_keys pal_keys;

/* NULL without memory. `is_local`: only this machine can connect. */
pal_keys *pal_keys_new(pal_store *store, bool is_local);
void pal_keys_free(pal_keys *keys); /* accepts NULL */

/* Whether there is, or was, any key. */
PAL_CHECKED pal_status pal_keys_any(pal_keys *keys, bool *out_any, pal_error *err);
/* What pal_keys_any() found last. Never blocks. */
bool pal_keys_were_any(pal_keys *keys);
/* Everything is read anew. */
void pal_keys_forget(pal_keys *keys);
/* Writes down which keys were used for the first time today. Blocks. */
void pal_keys_note_used(pal_keys *keys);

/* An address as it is listened on, "127.0.0.1:7077", "[::1]:0", "localhost:80", is this machine's
 * own. */
bool pal_address_is_local(pal_str listen);

/* Fills call->caller, or refuses: 401 without a key that counts, 403 where it may not do this.
 * 429 where its address has sent too many wrong ones. *out_rate: how many requests a minute; 0: no
 * bound. */
PAL_CHECKED pal_status pal_auth_caller(pal_call *call, uint32_t *out_rate, pal_error *err);

/* Whether it has a key that counts, or needs none. Refuses nothing, counts nothing. */
bool pal_auth_is_known(pal_call *call);

/* Whether an Origin is the one that the request was sent to, by its Host; `any_scheme`: a proxy may
 * speak TLS in our place. */
bool pal_origin_is_own(const pal_call *call, pal_str origin, bool any_scheme);

/* Where the server is open, a page of somebody else's that a browser shows must not reach it: the
 * request must name this machine, and come from the server's own page or one of a configured
 * origin. */
PAL_CHECKED pal_status pal_auth_local(pal_call *call, pal_error *err);

#endif
