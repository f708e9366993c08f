/* access_auth.h - identifies the caller by its key, or without a key if the server is open. */
#ifndef PAL_ACCESS_AUTH_H
#define PAL_ACCESS_AUTH_H

#include "server/server.h"
#include "server/server_limits.h"

typedef struct pal_auth pal_auth;

/* NULL: out of memory. `client` may be NULL. `is_local`: only this machine can connect. */
pal_auth *pal_auth_new(pal_store *store, const pal_server_client *client, bool is_local);
void pal_auth_free(pal_auth *auth); /* accepts NULL */

/* Reports whether a key is required: one exists or ever existed, or the server has a client. */
PAL_CHECKED pal_status pal_auth_has_keys(pal_auth *auth, bool *out_any, pal_error *err);
/* Empties the cache, so that everything is read again. */
void pal_auth_forget(pal_auth *auth);
/* Records which keys were used for the first time today. Blocks. */
void pal_auth_note_used(pal_auth *auth);

/* True if an address to listen on is local: "127.0.0.1:7077", "[::1]:0", "localhost:80". */
bool pal_auth_address_is_local(pal_str listen);

/* Fills call->caller, or refuses the request: 401 without a valid key, 403 if the key's role does
 * not allow the operation, 429 if the address has sent too many wrong keys. *out_rate is the limit
 * of requests per minute; 0: no limit. */
PAL_CHECKED pal_status pal_auth_caller(pal_call *call, uint32_t *out_rate, pal_error *err);

/* True if the request has a valid key or needs none. Refuses nothing and counts nothing. */
bool pal_auth_is_known(pal_call *call);

/* True if an Origin is the origin that the request was sent to, according to its Host header.
 * `any_scheme`: http and https both match, because a proxy may handle TLS. */
bool pal_auth_origin_is_own(const pal_call *call, pal_str origin, bool any_scheme);

/* Refuses the request unless it comes from the server's own page, or from a program that is not a
 * browser. */
PAL_CHECKED pal_status pal_auth_own_page(pal_call *call, pal_error *err);
/* Refuses a wrong key or code, and counts it for the address. */
pal_status pal_auth_refuse_wrong(pal_call *call, const char *why, pal_error *err);

/* Protects an open server from pages of other sites in a browser. The request must name this
 * machine, and come from the server's own page or from an origin in server.cors_origins. */
PAL_CHECKED pal_status pal_auth_local(pal_call *call, pal_error *err);

#endif
