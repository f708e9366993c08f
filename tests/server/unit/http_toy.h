/* http_toy.h - a small API on the listener, for tests of the listener alone, and a client that
 * sends bytes as they are.
 *
 *   /hello          "hello", at once
 *   /echo           the request's body; /worker/echo likewise, by a worker
 *   /later          "later", by a thread of its own
 *   /hold           answered by toy_release()
 *   /peer           the client's address; /id the request's id
 *   /query          the member "q" of the query
 *   /header         the header "x-test"
 *   /bytes/N        N bytes
 *   /stream         "data: 1\n\n", then toy_stream_write() goes to all of them
 *   /short-stream   three pieces, then the end
 *   /flood          as many bytes as it takes until it takes no more
 *   /pull/N         N pieces of TOY_PIECE_BYTES, each made when the one before was taken
 *   /pull-fails     likewise, but it fails after two
 *
 * Refusals are "CODE: WHY". */
#ifndef PAL_TESTS_HTTP_TOY_H
#define PAL_TESTS_HTTP_TOY_H

#include <stdbool.h>
#include <stdint.h>
#include "server/http/http.h"

/* Limits that suit tests: see http_toy.c. Port 0 on 127.0.0.1. */
pal_config_server toy_config(void);

typedef struct toy toy;

toy *toy_open(const pal_config_server *config); /* ends the program when it can't */
toy *toy_try_open(void);                        /* with toy_config(); NULL without memory */
void toy_close(toy *it);
pal_listener *toy_listener(toy *it);
uint16_t toy_port(const toy *it);

void toy_release(toy *it);                            /* answers all that /hold */
void toy_await_held(toy *it, unsigned count);         /* that many do */
unsigned toy_held(toy *it);                           /* how many do now */
void toy_await_streams(toy *it, unsigned count);      /* that many are open */
void toy_await_gone(toy *it, unsigned count);         /* that many have ended, ever; pulls too */
void toy_await_ended(toy *it, unsigned count);        /* that many exchanges have, ever */
unsigned toy_stream_write(toy *it, const char *text); /* how many took it */
void toy_stream_end(toy *it);
#define TOY_PIECE_BYTES 65536
unsigned toy_pieces(toy *it);    /* that were made, ever */
unsigned toy_last_code(toy *it); /* of the last exchange that ended */
uint64_t toy_last_bytes(toy *it);

/* ---- The client ---- */

/* One connection; ends the program when it can't. */
int client_open(uint16_t port);
bool client_try(uint16_t port);                          /* whether one is taken */
bool client_send(int fd, const char *bytes, size_t len); /* false: the other side is gone */
bool client_say(int fd, const char *text);
/* Reads one answer, head and body; a body in chunks is put together. False: it ended before. */
typedef struct client_answer {
    unsigned code;
    char head[8192];
    char *body; /* NUL behind it */
    size_t body_len;
    bool is_closing; /* "Connection: close" */
} client_answer;
bool client_read(int fd, bool is_head, client_answer *out_answer);
void client_answer_done(client_answer *answer);
/* Reads until `text` has been seen, or the end (false). */
bool client_read_until(int fd, const char *text);
/* Whether the other side closes it, whatever is sent before. */
bool client_is_closed(int fd);
/* The value of a header, in a buffer of the thread's; "" where there is none. */
const char *client_header(const client_answer *answer, const char *name);

/* One connection, one request, one answer. */
bool client_ask(uint16_t port, const char *request, client_answer *out_answer);

#endif
