/* api_openai_forward.h - forwards a request to the model service unchanged. */
#ifndef PAL_API_OPENAI_FORWARD_H
#define PAL_API_OPENAI_FORWARD_H

#include "server/server.h"

/* Forwards the call and answers it with the response of the model service. Streams are forwarded
 * byte by byte as they arrive. The call must not be used after PAL_OK. PAL_CONFLICT: the endpoint
 * does not support chat completions. */
PAL_CHECKED pal_status pal_openai_forward(
        pal_call *call, const pal_forward *request, pal_error *err);

#endif
