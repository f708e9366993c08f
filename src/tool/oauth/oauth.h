/* oauth.h - access tokens for an MCP server on the network: finds its authorization server, gets
 * tokens, keeps them in a file and renews them.
 *
 * The rules are those of MCP's authorization, revisions 2025-03-26 to 2026-07-28:
 *
 *   metadata of the MCP server (RFC 9728) and of the authorization server (RFC 8414)
 *   dynamic registration (RFC 7591), or client id metadata documents
 *   PKCE, resource indicators (RFC 8707) and `iss` (RFC 9207)
 *   the extensions for client credentials, workload identities, enterprise-managed authorization
 *   and tokens that are bound to a key (DPoP)
 *
 * A token is sent only to the URL of the configuration. Tokens, secrets and codes are never part of
 * an error text. All functions must be called on the loop, and all callbacks run on it. */
#ifndef PAL_OAUTH_H
#define PAL_OAUTH_H

#include "net/net_http.h"
#include "palaver/turn.h"

typedef struct pal_oauth pal_oauth;

typedef struct pal_oauth_config {
    pal_str name;              /* the server's name, for error texts */
    pal_str url;               /* the server's URL */
    const pal_tool_auth *auth; /* NULL: nothing is configured */
    bool is_login; /* a person logs in again, even if there is a usable token */
    /* A person must open `url`; then call pal_oauth_redirected(). NULL: there is no person. */
    void (*on_authorize)(void *user, pal_str url);
    pal_str redirect_uri; /* required with on_authorize */
    /* Another process has stored a login, after this one could not get a token. May be NULL. */
    void (*on_login)(void *user);
    void (*on_warning)(void *user, pal_str text); /* may be NULL */
    void *user;
} pal_oauth_config;

/* Whether tokens can be sent to the URL: it is https, or on this machine. */
bool pal_oauth_is_possible(pal_str url);

/* Everything is copied. PAL_INVALID: the URL is neither https nor on this machine. */
PAL_CHECKED pal_status pal_oauth_open(pal_loop *loop, pal_http *http,
        const pal_oauth_config *config, pal_oauth **out_oauth, pal_error *err);
/* No callback is made afterwards. Accepts NULL. Can be called from a callback. */
void pal_oauth_close(pal_oauth *oauth);

/* The value of the header Authorization. Empty: there is no token. Valid until the next event. */
pal_str pal_oauth_header(const pal_oauth *oauth);
/* The value of the header DPoP for a request to the server, in the arena. Empty: the token is not
 * bound to a key. */
PAL_CHECKED pal_status pal_oauth_prove(const pal_oauth *oauth, const char *method,
        pal_arena *arena, pal_str *out_proof, pal_error *err);
/* Takes the header DPoP-Nonce of a response of the server. */
void pal_oauth_take_nonce(pal_oauth *oauth, pal_str value);
/* A number that changes with the token. */
uint32_t pal_oauth_serial(const pal_oauth *oauth);
/* False: the token has expired, or the file was not read yet. Call pal_oauth_prepare(). */
bool pal_oauth_is_ready(const pal_oauth *oauth);

/* Waits for a token; a member of its owner's struct. A zeroed one does not wait. */
typedef struct pal_oauth_wait pal_oauth_wait;
struct pal_oauth_wait {
    /* Called once. PAL_OK: repeat the request. Otherwise `error` is one line that says why there is
     * no token. The owner can close the server in it. */
    void (*on_done)(pal_oauth_wait *wait, pal_status status, pal_str error);
    pal_oauth *oauth; /* NULL: it does not wait */
    pal_oauth_wait *previous, *next;
};

/* Both return false if there is no memory; then on_done is not called. */
PAL_CHECKED bool pal_oauth_prepare(pal_oauth *oauth, pal_oauth_wait *wait);
/* The server has refused a request with `code` 401 or 403, and the header WWW-Authenticate.
 * `serial` is that of the token which was sent. If the token has changed since, the wait ends
 * at once. */
PAL_CHECKED bool pal_oauth_challenge(pal_oauth *oauth, long code, pal_str header, uint32_t serial,
        pal_oauth_wait *wait);
void pal_oauth_leave(pal_oauth_wait *wait); /* stops waiting, without a callback */

/* Whether a response is a challenge that pal_oauth_challenge() can help with. */
bool pal_oauth_is_challenge(long code, pal_str header);

/* The person was redirected to redirect_uri with this query: "code=...&state=...". False: it does
 * not belong to the login, and is ignored. */
bool pal_oauth_redirected(pal_oauth *oauth, pal_str query);

#endif
