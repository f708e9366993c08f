/* postgres_proxy.h - a proxy between a store and PostgreSQL that cuts the connection at a chosen message.
 *
 * It listens on a Unix socket in its own directory, and passes everything on to the server's. It
 * counts the messages that clients send, over all connections. */
#ifndef PAL_TESTS_POSTGRES_PROXY_H
#define PAL_TESTS_POSTGRES_PROXY_H

#include <stdbool.h>

typedef enum cut_kind {
    CUT_BEFORE, /* the message is not passed on */
    CUT_INSIDE, /* only the first half of the message is passed on */
    CUT_AFTER,  /* the message is passed on, but no answer comes back */
} cut_kind;

/* Starts the proxy for the server in `server_dir`. Returns false if it cannot. */
bool postgres_proxy_start(const char *directory, const char *server_dir);

/* Arms the proxy: the `nth` message from now (counted from 1) is cut. 0: none. */
void postgres_proxy_arm(unsigned nth, cut_kind kind);

/* Sets a function that the next cuts CUT_AFTER call instead of waiting for the server. NULL: none. */
void postgres_proxy_set_hook(void (*on_cut)(void));

/* From now on the server has this version, as far as clients see it: two digits. NULL: its own. */
void postgres_proxy_set_version(const char *major);

/* The next connections are refused, as by a server that recovers from a crash. */
void postgres_proxy_refuse(unsigned connections);

/* Returns whether the cut happened since the last call of postgres_proxy_arm(). */
bool postgres_proxy_fired(void);

#endif
