/* http_toy.h - a small API on the listener, for tests of the listener alone, and a client that
 * sends raw bytes.
 *
 *   /hello          "hello", at once
 *   /echo           the body of the request; /worker/echo does the same on a worker
 *   /later          "later", by a separate thread
 *   /hold           answered by toy_release()
 *   /peer           the address of the client; /id the id of the request
 *   /query          the member "q" of the query
 *   /header         the header "x-test"
 *   /bytes/N        N bytes
 *   /stream         "data: 1\n\n", then the text of toy_stream_write(), in all streams
 *   /short-stream   three pieces, then the end
 *   /flood          bytes until the stream accepts no more
 *   /pull/N         N pieces of TOY_PIECE_BYTES, each made when the client has read the one before
 *   /pull-fails     the same, but it fails after two pieces
 *
 * Error responses are "CODE: REASON". */
#ifndef PAL_TESTS_HTTP_TOY_H
#define PAL_TESTS_HTTP_TOY_H

#include <stdbool.h>
#include <stdint.h>
#include "server/http/http.h"

/* Limits that suit tests; see http_toy.c. Port 0 on 127.0.0.1. */
pal_config_server toy_config(void);

typedef struct toy toy;

toy *toy_open(const pal_config_server *config); /* ends the program if it cannot start */
toy *toy_try_open(void);                        /* with toy_config(); NULL if there is no memory */
void toy_close(toy *it);
pal_listener *toy_listener(toy *it);
uint16_t toy_port(const toy *it);

void toy_release(toy *it);                       /* answers all requests of /hold */
void toy_await_held(toy *it, unsigned count);    /* waits until that many requests hold */
unsigned toy_held(toy *it);                      /* the number of requests that hold now */
void toy_await_streams(toy *it, unsigned count); /* waits until that many streams are open */
void toy_await_gone(toy *it, unsigned count);    /* waits for that many ended streams and pulls */
void toy_await_ended(toy *it, unsigned count);   /* waits for that many ended exchanges */
unsigned toy_stream_write(toy *it, const char *text); /* the number of streams that took the text */
void toy_stream_end(toy *it);
#define TOY_PIECE_BYTES 65536
unsigned toy_pieces(toy *it);    /* pieces made since the start */
unsigned toy_last_code(toy *it); /* the code of the last exchange that ended */
uint64_t toy_last_bytes(toy *it);

/* ---- The client ---- */

/* Opens one connection. Ends the program if it cannot. */
int client_open(uint16_t port);
bool client_try(uint16_t port);                          /* whether a connection is accepted */
bool client_send(int fd, const char *bytes, size_t len); /* false if the other side is gone */
bool client_say(int fd, const char *text);
/* Reads one response with head and body; chunks are joined. Returns false if the connection ended
 * before. */
typedef struct client_answer {
    unsigned code;
    char head[8192];
    char *body; /* followed by NUL */
    size_t body_len;
    bool is_closing; /* "Connection: close" */
} client_answer;
bool client_read(int fd, bool is_head, client_answer *out_answer);
void client_answer_done(client_answer *answer);
/* Reads until `text` has been received. Returns false if the connection ended before. */
bool client_read_until(int fd, const char *text);
/* Whether the other side closes the connection, whatever it sends before. */
bool client_is_closed(int fd);
/* The value of a header, in a buffer of this thread; "" if the header is missing. */
const char *client_header(const client_answer *answer, const char *name);

/* One connection, one request, one response. */
bool client_ask(uint16_t port, const char *request, client_answer *out_answer);

#endif
