/* api_message.h - reads messages from requests, and writes them into responses. */
#ifndef PAL_API_MESSAGE_H
#define PAL_API_MESSAGE_H

#include "server/server.h"
#include "server/server_limits.h"

extern const pal_api_object pal_api_message_body;
/* The members "message" and "messages", which pal_api_messages_read() reads. */
extern const pal_api_object pal_api_messages_members;

/* Reads messages from `object`: the array "messages", or "message", which is an object or a string
 * with the user's text. If both are absent and `or_itself` is true, `object` itself is the message.
 * Each message is in the native format or in that of chat completions. If the request has an
 * idempotency key, messages without a client id get one derived from it. An absent message is not
 * an error: *out_len is 0. Results are allocated in the call's arena. */
PAL_CHECKED pal_status pal_api_messages_read(pal_call *call, pal_json object, bool or_itself,
        pal_message **out_messages, size_t *out_len, pal_error *err);

/* Loads the bytes of images and files that are stored as blobs, for formats that contain the bytes.
 * A part whose blob no longer exists stays without bytes. */
PAL_CHECKED pal_status pal_api_parts_fetch(
        pal_call *call, pal_part *parts, size_t len, pal_error *err);

#endif
