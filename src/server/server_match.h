/* server_match.h - which route a path means. */
#ifndef PAL_SERVER_MATCH_H
#define PAL_SERVER_MATCH_H

#include "server/server.h"

#define PAL_METHODS_SIZE 64 /* "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" */

typedef struct pal_match {
    const pal_api_route *route;           /* NULL: none takes the method, or the path */
    pal_str params[PAL_ROUTE_PARAMS_MAX]; /* as they were sent */
    char allowed[PAL_METHODS_SIZE];       /* without a route: methods that the path takes, if any */
} pal_match;

/* Of several patterns, the one with the most of its own characters counts: "/sessions/search"
 * before
 * "/sessions/{id}". A parameter stands for one segment that is not empty. HEAD is GET. */
void pal_match_route(const pal_api *api, pal_str method, pal_str path, pal_match *out_match);

/* A segment with its %XX decoded, in the arena. False where it is no valid UTF-8, has a NUL, or a
 * '%' without two hex digits. */
bool pal_path_decode(pal_arena *arena, pal_str segment, pal_str *out_text);

#endif
