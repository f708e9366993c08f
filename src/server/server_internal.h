/* server_internal.h - functions that the server_*.c files use among each other: the listener's
 * callbacks, routes, missing objects, and maintenance. */
#ifndef PAL_SERVER_INTERNAL_H
#define PAL_SERVER_INTERNAL_H

#include "server/server_call.h"

/* ---- The listener's callbacks (server_dispatch.c); `user` is the server ---- */

bool pal_server_admit(pal_exchange *x, void *user);
void pal_server_handle(pal_exchange *x, void *user);
void pal_server_refuse(pal_exchange *x, unsigned code, const char *why, void *user);
void pal_server_ended(
        pal_exchange *x, unsigned code, uint64_t bytes_sent, int64_t duration_us, void *user);

/* ---- Finding the route (server_match.c) ---- */

#define PAL_METHODS_SIZE 64 /* "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" */

typedef struct pal_match {
    const pal_api_route *route;         /* NULL: no route accepts the method, or the path */
    pal_str params[PAL_API_PARAMS_MAX]; /* not decoded */
    /* If there is no route: the methods that the path accepts, if any. */
    char allowed[PAL_METHODS_SIZE];
} pal_match;

/* If several patterns match, the one with the most literal characters is used: "/sessions/search"
 * before "/sessions/{id}". A parameter matches one segment that is not empty. HEAD is matched as
 * GET. */
void pal_match_route(const pal_api *api, pal_str method, pal_str path, pal_match *out_match);

/* Decodes the %XX escapes of a segment; the result is in the arena. False: the result is not valid
 * UTF-8, contains a NUL, or a '%' is not followed by two hex digits. */
bool pal_match_decode(pal_arena *arena, pal_str segment, pal_str *out_text);

/* ---- Failing (server_subject.c) ---- */

/* Fails a request whose caller was admitted. An invalid request fails with PAL_NOT_FOUND instead if
 * the object that its path names does not exist. */
void pal_subject_fail(pal_call *call, pal_status status, const pal_error *err);

/* ---- Maintenance (server_maintenance.c) ---- */

typedef struct pal_maintenance pal_maintenance;

/* Starts the thread. NULL: out of memory, or the thread could not be started. */
pal_maintenance *pal_maintenance_start(pal_server *server);
/* Waits for the running step. Accepts NULL. */
void pal_maintenance_stop(pal_maintenance *maintenance);

#endif
