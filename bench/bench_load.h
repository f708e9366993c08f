/* bench_load.h - clients of a server that is to be measured: one thread asks over many connections,
 * each of which sends its next request as soon as it has the last one's answer. Ends the program
 * when a connection fails or an answer has another code than was expected. */
#ifndef PAL_BENCH_LOAD_H
#define PAL_BENCH_LOAD_H

#include <stddef.h>
#include <stdint.h>

#define LOAD_REQUEST_MAX 4096

typedef struct load load;

typedef struct load_plan {
    uint16_t port;
    size_t connections;
    unsigned code; /* that every answer must have */
    /* Writes request number `n` to `out`, which has LOAD_REQUEST_MAX bytes; its length. */
    size_t (*request)(uint64_t n, char *out, void *user);
    void *user;
} load_plan;

load *load_open(const load_plan *plan);
/* Asks for that long; answers a second. */
double load_slice(load *self, int64_t slice_us);
/* Asks `count` times; seconds. */
double load_count(load *self, uint64_t count);
void load_close(load *self);

/* One request on a connection of its own; writes the beginning of the answer's body, with a NUL. */
void load_ask(uint16_t port, const char *request, unsigned code, char *out_body, size_t out_size);

/* Sends the request and waits for the first bytes of the answer; the connection, which is left
 * open. */
int load_hold(uint16_t port, const char *request);

#endif
