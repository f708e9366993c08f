/* server_dispatch.h - the listener's callbacks: a request has arrived, could not be read, or has
 * ended. */
#ifndef PAL_SERVER_DISPATCH_H
#define PAL_SERVER_DISPATCH_H

#include "server/server.h"

/* For pal_listener_options; `user` is the server. */
bool pal_server_admit(pal_exchange *x, void *user);
void pal_server_handle(pal_exchange *x, void *user);
void pal_server_refuse(pal_exchange *x, unsigned code, const char *why, void *user);
void pal_server_ended(
        pal_exchange *x, unsigned code, uint64_t bytes_sent, int64_t duration_us, void *user);

#endif
