/* api_anthropic.h - functions that the routes of Anthropic's Messages API share.
 *
 * A request goes to an endpoint that speaks Anthropic's API byte for byte. For any other endpoint
 * it becomes a turn, in a temporary session that is erased with it. */
#ifndef PAL_API_ANTHROPIC_H
#define PAL_API_ANTHROPIC_H

#include "server/server.h"

#define PAL_ANTHROPIC_ID_SIZE (PAL_ID_TEXT_SIZE + 4) /* "msg_" and an id */

extern const pal_api_route pal_anthropic_message_routes[]; /* api_anthropic_messages.c */

/* Returns Anthropic's name for errors with this HTTP code. */
const char *pal_anthropic_error_type(unsigned code);
/* Writes the event that ends a broken stream. */
void pal_anthropic_put_error_event(pal_buf *out, const char *type, pal_str message);

/* ---- A request that runs as a turn (api_anthropic_request.c) ---- */

typedef struct pal_anthropic_request {
    pal_call *call;
    pal_turn_request turn; /* in the call's arena */
    pal_str model;         /* the model that the client named */
    pal_str left_out;      /* a JSON array that names what the model service cannot do */
    struct pal_api_record *record; /* NULL: the request is not recorded */
    bool is_stream;
    bool shows_thinking; /* the client wants to see the reasoning */
} pal_anthropic_request;

/* Reads the body of a call. Members, tools and blocks that a turn cannot use are left out.
 * `is_count`: the request only counts tokens, and needs no max_tokens. PAL_INVALID: `err` says what
 * is wrong. */
PAL_CHECKED pal_status pal_anthropic_request_read(
        pal_call *call, bool is_count, pal_anthropic_request *out_request, pal_error *err);

/* ---- Running it (api_anthropic_run.c) ---- */

/* Runs the turn and answers the call with a message or with its events. If the client leaves, the
 * turn is stopped. Takes the record, also if it fails. Can be called from any thread. */
PAL_CHECKED pal_status pal_anthropic_run(const pal_anthropic_request *request, pal_error *err);

#endif
