/* server_feed.h - what changes in a tenant's sessions, as Server-Sent Events. */
#ifndef PAL_SERVER_FEED_H
#define PAL_SERVER_FEED_H

#include "server/server.h"

typedef struct pal_feed pal_feed;

/* Watches the server's store and runtime from now on. NULL without memory. */
pal_feed *pal_feed_new(pal_server *server);
/* After the listener was closed, before the runtime and the store are. Accepts NULL. */
void pal_feed_free(pal_feed *feed);

extern const pal_api_route pal_feed_routes[];

#endif
