/* api_openai_steer.h - steers: input that a client sends to a running response, over a WebSocket.
 *
 * An accepted steer waits for the end of the response. Then a successor of the response contains
 * its input. If the response ends with calls of the client's tools, it waits for the request
 * that brings their outputs. A steer ends with the `response.created` of the successor, or with
 * `response.steer.failed`, which returns its input.
 *
 * The functions only read and write JSON; api_openai_socket_steer.c decides what happens to a
 * steer, and guards the lists. */
#ifndef PAL_API_OPENAI_STEER_H
#define PAL_API_OPENAI_STEER_H

#include "base/buf.h"
#include "base/json/json.h"

#define PAL_OPENAI_STEERS_MAX 16         /* steers that wait for one response */
#define PAL_OPENAI_RESPONSE_ID_SIZE 80   /* ids of model services are longer than Palaver's */

/* One steer. Its input, a JSON value, follows the struct. */
typedef struct pal_openai_steer {
    struct pal_openai_steer *next;
    char id[PAL_OPENAI_RESPONSE_ID_SIZE];       /* "steer_..." */
    char previous[PAL_OPENAI_RESPONSE_ID_SIZE]; /* the response that it was sent to */
    size_t len;
} pal_openai_steer;

/* A list in the order of arrival. All zero: it is empty. */
typedef struct pal_openai_steers {
    pal_openai_steer *first, *last;
    size_t len, bytes;
} pal_openai_steers;

/* ---- Steers ---- */

/* Checks the message {"type":"response.steer",...}. PAL_INVALID: it is wrong. */
PAL_CHECKED pal_status pal_openai_steer_check(pal_json message, pal_arena *arena, pal_error *err);
/* Adds a steer with a new id to the list. NULL: out of memory. */
pal_openai_steer *pal_openai_steer_add(pal_openai_steers *steers, pal_str previous, pal_str input);
/* Returns the input, as JSON. */
pal_str pal_openai_steer_input(const pal_openai_steer *steer);
/* Moves all steers to the end of another list. */
void pal_openai_steers_move(pal_openai_steers *from, pal_openai_steers *to);
void pal_openai_steers_free(pal_openai_steers *steers);

/* ---- Requests ---- */

/* Writes the members of a request that its automatic successors inherit, as a JSON object. Writes
 * nothing if the response cannot be steered: it belongs to a conversation, runs in the background,
 * asks no model, or compacts by itself. */
void pal_openai_steer_settings(pal_json request, pal_arena *arena, pal_buf *out);
/* Writes the request of a successor with the input of the steers. */
void pal_openai_steer_successor(
        pal_str settings, pal_str previous, const pal_openai_steers *steers, pal_buf *out);
/* Writes a request of the client again, with the input of the steers. The outputs of tools come
 * first, since they must follow their calls; then the steers, then everything else. */
void pal_openai_steer_merge(
        pal_json request, const pal_openai_steers *steers, pal_arena *arena, pal_buf *out);
/* Writes what the client must send before the response can be continued, as a JSON array: an item
 * without its result for each call of the client's tools. Returns the number of items. */
size_t pal_openai_steer_required(pal_json response, pal_arena *arena, pal_buf *out);

/* ---- Events ---- */

void pal_openai_steer_accepted(const pal_openai_steer *steer, uint64_t number, pal_buf *out);
void pal_openai_steer_pending(
        const pal_openai_steer *steer, uint64_t number, pal_str required, pal_buf *out);

typedef struct pal_openai_steer_failure {
    pal_str id; /* empty: the steer was never accepted */
    pal_str previous;
    pal_str input; /* JSON; empty: there is none */
    const char *code;
    pal_str message;
} pal_openai_steer_failure;
void pal_openai_steer_failed(
        const pal_openai_steer_failure *failure, uint64_t number, pal_buf *out);

#endif
