/* api_message.h - messages as requests give them and as answers show them. */
#ifndef PAL_API_MESSAGE_H
#define PAL_API_MESSAGE_H

#include "server/server.h"
#include "server/server_limits.h"

/* Reads what is said from `object`: "messages", an array; "message", an object or a text of the
 * user's; or, with neither and where `or_itself`, the object as a message. Each is in the native
 * form or in that of chat completions. Those without a client id get one from the request's
 * idempotency key, if it has one. None is no error: *out_len is 0. In the call's arena. */
PAL_CHECKED pal_status pal_api_messages_read(pal_call *call, pal_json object, bool or_itself,
        pal_message **out_messages, size_t *out_len, pal_error *err);

/* Gives images and files that are kept as blobs their bytes, for forms that carry them. One whose
 * blob is gone stays without. */
PAL_CHECKED pal_status pal_api_parts_fetch(
        pal_call *call, pal_part *parts, size_t len, pal_error *err);

#endif
