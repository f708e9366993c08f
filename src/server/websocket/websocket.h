/* websocket.h - WebSocket connections (RFC 6455) after their handshake: text messages in both
 * directions, pings, and a close that both sides agree on. libwslay reads and writes the frames.
 *
 * Threads: one thread, the loop, reads all connections and makes all callbacks. Any thread can
 * send. Reference counts keep a connection in memory while another thread may still send to it.
 *
 * Limits: a longer message than `message_bytes_max` closes the connection with 1009. A client that
 * reads so slowly that more than `pending_bytes_max` wait, or that does not answer pings, is
 * disconnected without a close frame. */
#ifndef PAL_WEBSOCKET_H
#define PAL_WEBSOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include "palaver/error.h"
#include "palaver/str.h"

/* ---- The handshake (websocket_handshake.c) ---- */

#define PAL_WEBSOCKET_ACCEPT_SIZE 29 /* 28 characters of base64 and a NUL */

/* The headers of a request that asks for a WebSocket. */
typedef struct pal_websocket_offer {
    pal_str upgrade;    /* "websocket" */
    pal_str connection; /* "Upgrade", possibly with others */
    pal_str version;    /* Sec-WebSocket-Version: "13" */
    pal_str key;        /* Sec-WebSocket-Key: 16 bytes in base64 */
} pal_websocket_offer;

/* Whether the request asks for a WebSocket at all. */
bool pal_websocket_is_offered(const pal_websocket_offer *offer);
/* Writes the value of Sec-WebSocket-Accept. PAL_INVALID: the offer is wrong. */
PAL_CHECKED pal_status pal_websocket_accept(const pal_websocket_offer *offer,
        char out_accept[PAL_WEBSOCKET_ACCEPT_SIZE], pal_error *err);

/* ---- Connections (websocket.c) ---- */

/* Codes of a close (RFC 6455, 7.4.1). */
typedef enum pal_websocket_code {
    PAL_WEBSOCKET_NORMAL = 1000,
    PAL_WEBSOCKET_GOING_AWAY = 1001, /* the server stops, or the client has disappeared */
    PAL_WEBSOCKET_UNSUPPORTED = 1003,
    PAL_WEBSOCKET_POLICY = 1008,
    PAL_WEBSOCKET_TOO_LARGE = 1009,
    PAL_WEBSOCKET_ERROR = 1011,
} pal_websocket_code;

typedef struct pal_websocket pal_websocket;
typedef struct pal_websocket_loop pal_websocket_loop;

/* All are called on the loop's thread. */
typedef struct pal_websocket_handlers {
    /* A text message has arrived. It is valid UTF-8, and valid during the call. */
    void (*message)(pal_websocket *socket, pal_str text, void *user);
    /* Called after pal_websocket_poke(). May be NULL. */
    void (*poked)(pal_websocket *socket, void *user);
    /* Called once, last: nothing arrives and nothing is sent any more. */
    void (*closed)(pal_websocket *socket, void *user);
    /* Called after `closed`: gives the descriptor back to its owner, which closes it. */
    void (*release)(void *connection);
} pal_websocket_handlers;

typedef struct pal_websocket_options {
    int fd;           /* a connected socket; the loop makes it nonblocking */
    void *connection; /* passed to `release` */
    pal_str early;    /* bytes that arrived together with the handshake */
    uint64_t message_bytes_max;
    uint64_t pending_bytes_max;
    int64_t heartbeat_ms; /* a ping is sent if nothing arrived for so long */
    const pal_websocket_handlers *handlers;
    void *user;
} pal_websocket_options;

/* Starts the loop. */
PAL_CHECKED pal_status pal_websocket_loop_open(pal_websocket_loop **out_loop, pal_error *err);
/* Closes all connections with 1001, waits up to `wait_ms` for clients to agree, then stops the
 * loop. From then on no connection can be added, and no handler is called. Accepts NULL. */
void pal_websocket_loop_close(pal_websocket_loop *loop, int64_t wait_ms);
/* Frees a closed loop. No other thread may use it or one of its connections any more, except to
 * release the connection. Accepts NULL. */
void pal_websocket_loop_free(pal_websocket_loop *loop);

/* Adds a connection whose handshake was answered. *out_socket is a reference for the caller. It is
 * set before the first handler is called, which can be before this function returns. Returns false
 * if out of memory, and if the loop was closed: then nothing was called, and the caller still owns
 * the descriptor. */
bool pal_websocket_new(pal_websocket_loop *loop, const pal_websocket_options *options,
        pal_websocket **out_socket);
/* Ends the reference of the opener. A connection that has not ended holds one itself. Accepts
 * NULL. */
void pal_websocket_release(pal_websocket *socket);

/* Sends a text message. Returns false if the connection has ended or is ending. */
bool pal_websocket_send(pal_websocket *socket, pal_str text);
/* Makes the loop call `poked` soon, unless the connection ends first. Several pokes can lead to one
 * call. Can be called under locks that `poked` takes. */
void pal_websocket_poke(pal_websocket *socket);
/* Sends everything that waits, then closes the connection. `reason` has fewer than 123 bytes. */
void pal_websocket_close(pal_websocket *socket, pal_websocket_code code, const char *reason);

#endif
