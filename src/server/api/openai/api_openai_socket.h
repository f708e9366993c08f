/* api_openai_socket.h - responses over a WebSocket. */
#ifndef PAL_API_OPENAI_SOCKET_H
#define PAL_API_OPENAI_SOCKET_H

#include "server/server_call.h"

typedef struct pal_openai_socket pal_openai_socket;

/* GET /v1/responses: opens the WebSocket. */
PAL_CHECKED pal_status pal_openai_socket_open(pal_call *call, pal_error *err);

/* Returns the WebSocket that a request came over, or NULL if it came by HTTP. Valid until the call
 * is answered. */
pal_openai_socket *pal_openai_socket_of(const pal_call *call);

#endif
