/* http_peer.c - finds the client's address if there are proxies between the client and the
 * server.
 *
 * Each proxy appends the address that it received the request from. A client can send such a header
 * too, so only addresses that a trusted proxy appended are used. The search begins at the right,
 * skips all trusted addresses, and stops at the first one that is not trusted. These functions are
 * pure, so tests need no connection. */
#include <arpa/inet.h>
#include <string.h>
#include "base/text.h"
#include "server/http/http_internal.h"

#define ADDRESS_LEN_MAX (INET6_ADDRSTRLEN - 1)

/* Accepts only what inet_pton() accepts. IPv4 is mapped to IPv6, so that there is one form to
 * compare. */
static bool read_address(pal_str text, struct in6_addr *out, bool *out_is_v4)
{
    char copy[ADDRESS_LEN_MAX + 1];
    struct in_addr v4;
    if (text.len == 0 || text.len > ADDRESS_LEN_MAX || memchr(text.data, 0, text.len))
        return false;
    memcpy(copy, text.data, text.len);
    copy[text.len] = 0;
    *out_is_v4 = inet_pton(AF_INET, copy, &v4) == 1;
    if (!*out_is_v4)
        return inet_pton(AF_INET6, copy, out) == 1;
    memset(out, 0, sizeof *out);
    out->s6_addr[10] = out->s6_addr[11] = 0xff;
    memcpy(&out->s6_addr[12], &v4, sizeof v4);
    return true;
}

pal_status pal_peer_proxy_parse(pal_str text, pal_proxy *out_proxy, pal_error *err)
{
    const char *slash = text.len ? memchr(text.data, '/', text.len) : NULL;
    pal_str address = pal_str_make(text.data, slash ? (size_t)(slash - text.data) : text.len);
    pal_proxy proxy;
    bool is_v4;
    if (!read_address(address, &proxy.address, &is_v4))
        return pal_error_set(err, PAL_INVALID,
                "trusted proxy '%.*s' is not an address; use a form such as '10.0.0.1' or "
                "'10.0.0.0/8'",
                PAL_STR_ARG(text));
    unsigned bits_max = is_v4 ? 32 : 128, bits = bits_max;
    if (slash) {
        const char *digit = slash + 1, *end = text.data + text.len;
        bits = 0;
        bool is_number = digit < end && end - digit <= 3;
        for (; is_number && digit < end; digit++) {
            is_number = *digit >= '0' && *digit <= '9';
            bits = bits * 10 + (unsigned)(*digit - '0');
        }
        if (!is_number || bits > bits_max)
            return pal_error_set(err, PAL_INVALID,
                    "trusted proxy '%.*s' must have a number from 0 to %u after the '/'",
                    PAL_STR_ARG(text), bits_max);
    }
    proxy.bits = bits + (128 - bits_max);
    *out_proxy = proxy;
    return PAL_OK;
}

_Static_assert(PAL_PEER_SIZE == INET6_ADDRSTRLEN, "an address fits");

void pal_peer_block(pal_str peer, char out[PAL_PEER_SIZE])
{
    struct in6_addr address;
    size_t len = peer.len < INET6_ADDRSTRLEN ? peer.len : INET6_ADDRSTRLEN - 1;
    if (len > 0)
        memcpy(out, peer.data, len);
    out[len] = 0;
    if (inet_pton(AF_INET6, out, &address) != 1)
        return;
    memset(&address.s6_addr[8], 0, 8);
    inet_ntop(AF_INET6, &address, out, INET6_ADDRSTRLEN);
}

static bool matches(const pal_proxy *proxy, const struct in6_addr *address)
{
    unsigned bytes = proxy->bits / 8, rest = proxy->bits % 8;
    if (memcmp(&proxy->address, address, bytes) != 0)
        return false;
    unsigned mask = 0xff00u >> rest & 0xff;
    return rest == 0 || ((proxy->address.s6_addr[bytes] ^ address->s6_addr[bytes]) & mask) == 0;
}

static bool is_trusted(const pal_proxy *proxies, size_t len, const struct in6_addr *address)
{
    for (size_t i = 0; i < len; i++) {
        if (matches(&proxies[i], address))
            return true;
    }
    return false;
}

bool pal_peer_is_trusted(const pal_proxy *proxies, size_t proxies_len, pal_str peer)
{
    struct in6_addr address;
    bool is_v4;
    return read_address(peer, &address, &is_v4) && is_trusted(proxies, proxies_len, &address);
}

/* Removes and returns the part after the last comma. */
static pal_str take_last(pal_str *list)
{
    size_t at = list->len;
    while (at && list->data[at - 1] != ',')
        at--;
    pal_str last = pal_str_make(list->data + at, list->len - at);
    list->len = at ? at - 1 : 0;
    return pal_text_trim(last);
}

/* The value of `for=` in one element of Forwarded, without quotes. */
static pal_str for_value(pal_str element)
{
    while (element.len) {
        const char *semicolon = memchr(element.data, ';', element.len);
        size_t len = semicolon ? (size_t)(semicolon - element.data) : element.len;
        pal_str pair = pal_text_trim(pal_str_make(element.data, len));
        if (pal_text_begins_nocase(pair, "for=")) {
            pal_str value = pal_text_trim(pal_text_after(pair, 4));
            bool is_quoted =
                    value.len >= 2 && value.data[0] == '"' && value.data[value.len - 1] == '"';
            return is_quoted ? pal_str_make(value.data + 1, value.len - 2) : value;
        }
        len += semicolon != NULL;
        element = pal_str_make(element.data + len, element.len - len);
    }
    return pal_str_make(NULL, 0);
}

/* Removes brackets and port: "[2001:db8::1]:4711", "192.0.2.1:80". */
static pal_str without_port(pal_str text)
{
    if (text.len && text.data[0] == '[') {
        const char *end = memchr(text.data, ']', text.len);
        return end ? pal_str_make(text.data + 1, (size_t)(end - text.data - 1)) : text;
    }
    const char *colon = text.len ? memchr(text.data, ':', text.len) : NULL;
    if (colon && !memchr(colon + 1, ':', (size_t)(text.data + text.len - colon - 1)))
        text.len = (size_t)(colon - text.data);
    return text;
}

void pal_peer_resolve(const pal_proxy *proxies, size_t proxies_len, pal_str forwarded_for,
        pal_str forwarded, char out[INET6_ADDRSTRLEN])
{
    struct in6_addr address;
    bool is_v4, is_plain = forwarded_for.len > 0;
    pal_str list = is_plain ? forwarded_for : forwarded;
    if (!read_address(pal_str_of(out), &address, &is_v4))
        return;
    for (unsigned i = 0; i < PAL_SERVER_PROXIES_MAX && list.len; i++) {
        if (!is_trusted(proxies, proxies_len, &address))
            return;
        pal_str last = take_last(&list);
        pal_str text = without_port(is_plain ? last : for_value(last));
        /* For "unknown" and similar values, the nearest known address is the result. */
        if (!read_address(text, &address, &is_v4))
            return;
        if (is_v4)
            inet_ntop(AF_INET, &address.s6_addr[12], out, INET6_ADDRSTRLEN);
        else
            inet_ntop(AF_INET6, &address, out, INET6_ADDRSTRLEN);
    }
}
