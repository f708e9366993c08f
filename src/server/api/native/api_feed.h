/* api_feed.h - reports changes of a tenant's sessions as Server-Sent Events. */
#ifndef PAL_API_FEED_H
#define PAL_API_FEED_H

#include "server/server.h"

typedef struct pal_feed pal_feed;

/* Starts to watch the server's store and runtime. Returns NULL if out of memory. */
pal_feed *pal_feed_new(pal_server *server);
/* Call it after the listener is closed, and before the runtime and the store are. Accepts NULL. */
void pal_feed_free(pal_feed *feed);

/* Ends the streams of keys that were revoked, also by another process. Reads the store. */
void pal_feed_end_revoked(pal_feed *feed);

extern const pal_api_route pal_feed_routes[];

#endif
