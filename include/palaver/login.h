/* login.h - logs a person in to an MCP server that requires OAuth, and keeps the tokens in a file.
 * A runtime with the same file then uses and renews them (docs/mcp-login.md). */
#ifndef PALAVER_LOGIN_H
#define PALAVER_LOGIN_H

#include "palaver/turn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A number that is 0 means the default in its comment. */
typedef struct pal_login_options {
    const pal_tool_server *server; /* has a url, and `auth` with a file */
    uint16_t port;   /* port of 127.0.0.1 to which the browser is redirected; any free port */
    int64_t wait_ms; /* how long to wait for the person; 300000 */
    /* Called once, on another thread: the person must open this page in a browser on this machine.
     * The text is valid during the call. */
    void (*on_url)(pal_str url, void *user);
    void *user;
    PAL_RESERVED(8);
} pal_login_options;

/* Blocks until the person has logged in, and the tokens are in the file. PAL_INVALID: the server
 * cannot have a login. PAL_DENIED: the access was refused. PAL_NOT_FOUND: the server requires no
 * login. PAL_TIMEOUT: the person did not log in within `wait_ms`. */
PAL_API PAL_CHECKED pal_status pal_login_run(const pal_login_options *options, pal_error *err);

/* Removes the file with the tokens. PAL_NOT_FOUND: there is none. */
PAL_API PAL_CHECKED pal_status pal_login_forget(const pal_tool_server *server, pal_error *err);

#ifdef __cplusplus
}
#endif
#endif
