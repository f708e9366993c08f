/* api_openai_forward.h - a request that is passed on to the model's service as it is. */
#ifndef PAL_API_OPENAI_FORWARD_H
#define PAL_API_OPENAI_FORWARD_H

#include "server/server.h"

/* Passes the call on and answers it with what comes, streams byte for byte as they arrive. The call
 * must not be used after PAL_OK. PAL_CONFLICT: the endpoint does not speak chat completions. */
PAL_CHECKED pal_status pal_openai_forward(
        pal_call *call, const pal_forward *request, pal_error *err);

#endif
