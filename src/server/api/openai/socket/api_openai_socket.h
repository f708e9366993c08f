/* api_openai_socket.h - responses over a WebSocket. */
#ifndef PAL_API_OPENAI_SOCKET_H
#define PAL_API_OPENAI_SOCKET_H

#include "server/api/openai/responses/api_openai_responses.h"
#include "server/server_call.h"

typedef struct pal_openai_socket pal_openai_socket;

/* GET /v1/responses: opens the WebSocket. */
PAL_CHECKED pal_status pal_openai_socket_open(pal_call *call, pal_error *err);

/* Returns the WebSocket that a request came over, or NULL if it came by HTTP. Valid until the call
 * is answered. */
pal_openai_socket *pal_openai_socket_of(const pal_call *call);
/* Whether that WebSocket keeps the response, and its continuation has not failed. */
bool pal_openai_socket_keeps(const pal_call *call, const pal_response *response);
/* Returns the name of that WebSocket; empty for a request by HTTP. Valid as long. */
pal_str pal_openai_socket_name(const pal_call *call);
/* The session of a response with "store": false is erased when the WebSocket closes. */
void pal_openai_socket_keep(const pal_call *call, pal_id session);

/* If the request came over a WebSocket and its response is not stored, its items are kept from the
 * end of the response on. Call it before the response begins. */
PAL_CHECKED pal_status pal_openai_socket_expect(const pal_call *call, pal_error *err);
/* Appends the items of the request's whole history; see pal_socket_items_history(). PAL_NOT_FOUND:
 * the request came by HTTP, is stored, or continues a response that is not kept. */
PAL_CHECKED pal_status pal_openai_socket_history(
        const pal_call *call, bool is_replayed, pal_buf *out, pal_error *err);

#endif
