/* oauth_url.c - URLs and forms. Pure. */
#include <string.h>

#include "base/text.h"
#include "tool/oauth/oauth_internal.h"

/* ---- URLs ---- */

static pal_str part(const char *from, const char *to)
{
    return pal_str_make(from, (size_t)(to - from));
}

/* Splits "host:8443" or "[::1]:8443". */
static bool read_authority(pal_str text, pal_oauth_url *out)
{
    const char *end = text.data + text.len, *colon = NULL;
    const char *close = text.len && text.data[0] == '[' ? memchr(text.data, ']', text.len) : NULL;
    if (text.len && text.data[0] == '[' && !close)
        return false;
    for (const char *at = close ? close : text.data; at < end; at++) {
        if (*at == ':')
            colon = at;
        if (*at == '@')
            return false;
    }
    out->host = part(text.data, colon ? colon : end);
    out->port = colon ? part(colon + 1, end) : (pal_str){0};
    for (size_t i = 0; i < out->port.len; i++) {
        if (out->port.data[i] < '0' || out->port.data[i] > '9')
            return false;
    }
    return out->host.len > 0;
}

bool pal_oauth_url_read(pal_str text, pal_oauth_url *out_url)
{
    pal_oauth_url url = {.is_https = pal_text_begins_nocase(text, "https://")};
    if (!pal_text_is_http_url(text) || text.len > PAL_OAUTH_URL_LEN_MAX ||
            memchr(text.data, '#', text.len) || pal_text_has_control(text) ||
            memchr(text.data, ' ', text.len))
        return false;
    const char *from = text.data + (url.is_https ? 8 : 7), *end = text.data + text.len, *at = from;
    while (at < end && *at != '/' && *at != '?')
        at++;
    const char *query = memchr(at, '?', (size_t)(end - at));
    url.origin = part(text.data, at);
    url.path = part(at, query ? query : end);
    if (!read_authority(part(from, at), &url))
        return false;
    *out_url = url;
    return true;
}

/* "127.0.0.1", but not "127.example.com". */
static bool is_loopback_number(pal_str host)
{
    for (size_t i = 0; i < host.len; i++) {
        if (host.data[i] != '.' && (host.data[i] < '0' || host.data[i] > '9'))
            return false;
    }
    return pal_text_begins(host, "127.");
}

bool pal_oauth_url_is_local(const pal_oauth_url *url)
{
    return pal_text_is_nocase(url->host, "localhost") || is_loopback_number(url->host) ||
            pal_str_is(url->host, "[::1]");
}

static pal_str port_of(const pal_oauth_url *url)
{
    return url->port.len ? url->port : pal_str_of(url->is_https ? "443" : "80");
}

bool pal_oauth_url_same_origin(const pal_oauth_url *a, const pal_oauth_url *b)
{
    return a->is_https == b->is_https && pal_text_equal_nocase(a->host, b->host) &&
            pal_str_equal(port_of(a), port_of(b));
}

bool pal_oauth_url_covers(pal_str resource, pal_str url)
{
    pal_oauth_url outer, inner;
    if (!pal_oauth_url_read(resource, &outer) || !pal_oauth_url_read(url, &inner) ||
            !pal_oauth_url_same_origin(&outer, &inner))
        return false;
    pal_str path = outer.path;
    if (path.len && path.data[path.len - 1] == '/')
        path.len--;
    return pal_text_begins_str(inner.path, path) &&
            (inner.path.len == path.len || inner.path.data[path.len] == '/');
}

/* ---- Forms ---- */

void pal_oauth_form_encode(pal_buf *out, pal_str text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                (c && strchr("-._~", c))) {
            pal_buf_append_char(out, (char)c);
        } else {
            pal_buf_append_char(out, '%');
            pal_buf_append_char(out, digits[c >> 4]);
            pal_buf_append_char(out, digits[c & 15]);
        }
    }
}

void pal_oauth_form_add(pal_buf *form, const char *name, pal_str value)
{
    if (form->len && form->data[form->len - 1] != '?')
        pal_buf_append_char(form, '&');
    pal_buf_append_text(form, name);
    pal_buf_append_char(form, '=');
    pal_oauth_form_encode(form, value);
}

static pal_str decode(pal_str text, pal_arena *arena)
{
    char *out = pal_arena_alloc(arena, text.len + 1);
    size_t len = 0;
    for (size_t i = 0; out && i < text.len; i++) {
        char c = text.data[i];
        if (c == '%' && i + 2 < text.len && pal_text_hex(text.data[i + 1]) >= 0 &&
                pal_text_hex(text.data[i + 2]) >= 0) {
            c = (char)(pal_text_hex(text.data[i + 1]) << 4 | pal_text_hex(text.data[i + 2]));
            i += 2;
        } else if (c == '+') {
            c = ' ';
        }
        out[len++] = c;
    }
    return out ? pal_str_make(out, len) : (pal_str){0};
}

pal_str pal_oauth_form_find(pal_str form, const char *name, pal_arena *arena)
{
    pal_str found = {0};
    size_t count = 0, name_len = strlen(name);
    if (form.len == 0)
        return found;
    for (const char *at = form.data, *end = form.data + form.len; at < end;) {
        const char *next = memchr(at, '&', (size_t)(end - at));
        pal_str pair = part(at, next ? next : end);
        at = next ? next + 1 : end;
        if (pair.len > name_len && pal_text_begins(pair, name) && pair.data[name_len] == '=') {
            found = pal_text_after(pair, name_len + 1);
            count++;
        }
    }
    return count == 1 ? decode(found, arena) : (pal_str){0};
}
