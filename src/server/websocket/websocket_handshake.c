/* websocket_handshake.c - checks the headers that ask for a WebSocket (RFC 6455, 4.2). Pure
 * functions: any thread. */
#include "server/websocket/websocket.h"

#include <stdio.h>
#include <string.h>
#include "base/digest.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_base64.h"

#define KEY_LEN 24 /* 16 bytes in base64 */
#define SUFFIX "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Whether a list of words with commas contains the word. */
static bool has_word(pal_str list, const char *word)
{
    while (list.len) {
        const char *comma = memchr(list.data, ',', list.len);
        size_t len = comma ? (size_t)(comma - list.data) : list.len;
        pal_str item = pal_str_make(list.data, len);
        while (item.len && is_blank(item.data[0]))
            item = pal_str_make(item.data + 1, item.len - 1);
        while (item.len && is_blank(item.data[item.len - 1]))
            item.len--;
        if (pal_text_is_nocase(item, word))
            return true;
        len += comma != NULL;
        list = pal_str_make(list.data + len, list.len - len);
    }
    return false;
}

bool pal_websocket_is_offered(const pal_websocket_offer *offer)
{
    return has_word(offer->upgrade, "websocket");
}

static bool is_base64(pal_str text)
{
    size_t digits = strspn(text.data,
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    return digits == KEY_LEN - 2 && text.data[KEY_LEN - 2] == '=' && text.data[KEY_LEN - 1] == '=';
}

pal_status pal_websocket_accept(const pal_websocket_offer *offer,
        char out_accept[PAL_WEBSOCKET_ACCEPT_SIZE], pal_error *err)
{
    char text[KEY_LEN + sizeof SUFFIX];
    uint8_t digest[PAL_SHA1_SIZE];
    if (!has_word(offer->connection, "upgrade"))
        return pal_error_set(err, PAL_INVALID, "the header 'Connection' must contain 'Upgrade'");
    if (!pal_str_is(offer->version, "13"))
        return pal_error_set(
                err, PAL_INVALID, "the header 'Sec-WebSocket-Version' must be 13");
    memset(text, 0, sizeof text);
    if (offer->key.len == KEY_LEN)
        memcpy(text, offer->key.data, KEY_LEN);
    if (!is_base64(pal_str_make(text, strlen(text))))
        return pal_error_set(err, PAL_INVALID,
                "the header 'Sec-WebSocket-Key' must be 16 bytes in base64");
    memcpy(text + KEY_LEN, SUFFIX, sizeof SUFFIX);
    if (pal_sha1(pal_str_of(text), digest) != PAL_OK)
        return pal_no_memory(err);
    pal_buf accept;
    pal_buf_init(&accept, PAL_WEBSOCKET_ACCEPT_SIZE);
    pal_base64_encode(&accept, pal_str_make((const char *)digest, sizeof digest));
    pal_status status = accept.failure;
    if (status == PAL_OK)
        snprintf(out_accept, PAL_WEBSOCKET_ACCEPT_SIZE, "%.*s", PAL_STR_ARG(pal_buf_str(&accept)));
    pal_buf_done(&accept);
    return status == PAL_OK ? PAL_OK : pal_no_memory(err);
}
