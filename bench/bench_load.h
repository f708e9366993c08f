/* bench_load.h - clients of a measured server. One thread uses many connections; each connection
 * sends its next request as soon as it has the response to the last one. Ends the program if a
 * connection fails or a response has an unexpected code. */
#ifndef PAL_BENCH_LOAD_H
#define PAL_BENCH_LOAD_H

#include <stddef.h>
#include <stdint.h>

#define LOAD_REQUEST_MAX 4096

typedef struct load load;

typedef struct load_plan {
    uint16_t port;
    size_t connections;
    unsigned code; /* the code that every response must have */
    /* Writes request number `n` to `out`, which has LOAD_REQUEST_MAX bytes. Returns its length. */
    size_t (*request)(uint64_t n, char *out, void *user);
    void *user;
} load_plan;

load *load_open(const load_plan *plan);
/* Sends requests for that time. Returns responses per second. */
double load_slice(load *self, int64_t slice_us);
/* Sends `count` requests. Returns the seconds that this took. */
double load_count(load *self, uint64_t count);
void load_close(load *self);

/* Sends one request on a new connection. Writes the beginning of the response's body, and a NUL. */
void load_ask(uint16_t port, const char *request, unsigned code, char *out_body, size_t out_size);

/* Sends the request and waits for the first bytes of the response. Returns the connection, which
 * stays open. */
int load_hold(uint16_t port, const char *request);

#endif
