/* webhook.h - the channel "webhook": any program that can make HTTP requests connects a chat
 * service with it. docs/write-a-channel.md describes the requests. */
#ifndef PAL_WEBHOOK_H
#define PAL_WEBHOOK_H

#include "channel/channel_kind.h"
#include "palaver/arena.h"

extern const pal_channel_kind pal_channel_webhook;

/* ---- Signatures, as Standard Webhooks describes them (webhook_sign.c) ---- */

#define PAL_WEBHOOK_SIGNATURE_SIZE 64 /* "v1," and base64 */

/* Returns the key of a secret: "whsec_" and base64, or any other text as it is. PAL_INVALID: it is
 * too short. */
PAL_CHECKED pal_status pal_webhook_key(
        pal_str secret, pal_arena *arena, pal_str *out_key, pal_error *err);
/* Signs a request. `timestamp` is in seconds since 1970. */
PAL_CHECKED pal_status pal_webhook_sign(pal_str key, pal_str id, int64_t timestamp, pal_str body,
        char out_signature[PAL_WEBHOOK_SIGNATURE_SIZE], pal_error *err);
/* Checks the headers of a request. PAL_DENIED: `err` says why. */
PAL_CHECKED pal_status pal_webhook_check(
        pal_str key, const pal_channel_hook *hook, int64_t now_ms, pal_error *err);

/* ---- Events (webhook_event.c) ---- */

/* Reads {"events": [...]} into the arena. PAL_INVALID and PAL_LIMIT: `err` names the member. */
PAL_CHECKED pal_status pal_webhook_events(pal_str body, pal_arena *arena,
        pal_incoming **out_events, size_t *out_len, pal_error *err);

#endif
