/* server_match.h - finds the route for a path. */
#ifndef PAL_SERVER_MATCH_H
#define PAL_SERVER_MATCH_H

#include "server/server.h"

#define PAL_METHODS_SIZE 64 /* "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" */

typedef struct pal_match {
    const pal_api_route *route;           /* NULL: no route accepts the method, or the path */
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

#endif
