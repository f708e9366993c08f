/* webhook_sign.c - signatures of requests, as Standard Webhooks describes them: HMAC-SHA-256 of the
 * id, the time and the body. */
#include "channel/webhook/webhook.h"

#include <stdio.h>
#include "base/buf.h"
#include "base/digest.h"
#include "base/text.h"
#include "channel/channel_limits.h"
#include "dialect/dialect_base64.h"

#define TOLERANCE_S 300
#define KEY_LEN_MIN 16

pal_status pal_webhook_key(pal_str secret, pal_arena *arena, pal_str *out_key, pal_error *err)
{
    pal_str key = secret;

    if (pal_text_begins(secret, "whsec_") &&
            !pal_base64_decode(pal_text_after(secret, 6), arena, &key))
        return pal_error_set(err, PAL_INVALID, "the secret is not base64 after 'whsec_'");
    if (key.len < KEY_LEN_MIN)
        return pal_error_set(
                err, PAL_INVALID, "the secret must have at least %d bytes", KEY_LEN_MIN);
    *out_key = pal_arena_copy(arena, key);
    return pal_arena_failure(arena);
}

pal_status pal_webhook_sign(pal_str key, pal_str id, int64_t timestamp, pal_str body,
        char out_signature[PAL_WEBHOOK_SIGNATURE_SIZE], pal_error *err)
{
    uint8_t digest[PAL_SHA256_SIZE];
    pal_buf buf, text;
    pal_status status;

    pal_buf_init(&buf, PAL_CHANNEL_REQUEST_BYTES_MAX + 1024);
    pal_buf_init(&text, PAL_WEBHOOK_SIGNATURE_SIZE - 1);
    pal_buf_append_str(&buf, id);
    pal_buf_format(&buf, ".%lld.", (long long)timestamp);
    pal_buf_append_str(&buf, body);
    status = buf.failure ? buf.failure : pal_hmac_sha256(key, pal_buf_str(&buf), digest);
    pal_buf_append_text(&text, "v1,");
    if (status == PAL_OK)
        pal_base64_encode(&text, pal_str_make((const char *)digest, sizeof digest));
    if (status == PAL_OK)
        status = text.failure;
    if (status == PAL_OK)
        snprintf(out_signature, PAL_WEBHOOK_SIGNATURE_SIZE, "%.*s",
                PAL_STR_ARG(pal_buf_str(&text)));
    pal_buf_done(&buf);
    pal_buf_done(&text);
    return status == PAL_OK ? PAL_OK : pal_error_set(err, status, "the request cannot be signed");
}

static pal_str header(const pal_channel_hook *hook, const char *name)
{
    for (size_t i = 0; i < hook->headers_len; i++)
        if (pal_str_is(hook->headers[i].name, name))
            return hook->headers[i].value;
    return (pal_str){0};
}

/* Takes the same time for each pair of texts with the same length. */
static bool is_same(pal_str a, pal_str b)
{
    unsigned char difference = 0;

    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        difference |= (unsigned char)(a.data[i] ^ b.data[i]);
    return difference == 0;
}

/* The header has one signature for each key that the sender uses, separated by spaces. */
static bool has_signature(pal_str given, pal_str wanted)
{
    while (given.len > 0) {
        const char *space = memchr(given.data, ' ', given.len);
        size_t len = space ? (size_t)(space - given.data) : given.len;
        if (is_same(pal_str_make(given.data, len), wanted))
            return true;
        given = pal_text_after(given, len + 1);
    }
    return false;
}

static bool read_seconds(pal_str text, int64_t *out_seconds)
{
    int64_t seconds = 0;

    if (text.len == 0 || text.len > 12)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        seconds = seconds * 10 + (text.data[i] - '0');
    }
    *out_seconds = seconds;
    return true;
}

pal_status pal_webhook_check(
        pal_str key, const pal_channel_hook *hook, int64_t now_ms, pal_error *err)
{
    char wanted[PAL_WEBHOOK_SIGNATURE_SIZE];
    pal_str id = header(hook, "webhook-id"), signature = header(hook, "webhook-signature");
    int64_t seconds = 0, now = now_ms / 1000;

    if (id.len == 0 || id.len > 256 || signature.len == 0)
        return pal_error_set(err, PAL_DENIED,
                "the request has no header webhook-id or webhook-signature");
    if (!read_seconds(header(hook, "webhook-timestamp"), &seconds))
        return pal_error_set(err, PAL_DENIED,
                "the header webhook-timestamp must be the time in seconds since 1970");
    if (seconds < now - TOLERANCE_S || seconds > now + TOLERANCE_S)
        return pal_error_set(err, PAL_DENIED,
                "webhook-timestamp is more than %d s away from the server's time", TOLERANCE_S);
    pal_status status = pal_webhook_sign(key, id, seconds, hook->body, wanted, err);
    if (status != PAL_OK)
        return status;
    if (!has_signature(signature, pal_str_of(wanted)))
        return pal_error_set(err, PAL_DENIED, "the signature is wrong");
    return PAL_OK;
}
