/* page.c - the routes of the page. Neither needs a key: the files are the same for everybody, and
 * the page asks the API for everything that it shows. */
#include "server/page/page.h"

#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "base/text.h"
#include "server/server_call.h"

/* No inline script or style, nothing from other origins, no HTML from text, and no frame. */
#define POLICY \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; " \
    "connect-src 'self'; font-src 'self'; frame-src 'self'; manifest-src 'self'; " \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " \
    "require-trusted-types-for 'script'; trusted-types 'none'"

/* The frame runs what a model wrote, without an origin and without a network. The header has the
 * sandbox too, because the URL of the frame can be opened by itself. */
#define FRAME "frame.html"
#define FRAME_POLICY \
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; " \
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; media-src data: blob:; " \
    "connect-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"

static const char *const headers[][2] = {
        {"referrer-policy", "no-referrer"},
        {"x-dns-prefetch-control", "off"},
        {"cross-origin-opener-policy", "same-origin"},
        {"permissions-policy", "camera=(), microphone=(), geolocation=(), usb=()"},
        {"vary", "accept-encoding"},
};

/* NULL: there is no such file. */
static const pal_page_entry *find_entry(pal_str name)
{
    for (const pal_page_entry *entry = pal_page_entries; entry->name; entry++) {
        if (pal_str_is(name, entry->name))
            return entry;
    }
    return NULL;
}

static pal_str take_item(pal_str *rest)
{
    const char *comma = memchr(rest->data, ',', rest->len);
    size_t len = comma ? (size_t)(comma - rest->data) : rest->len;
    pal_str item = pal_text_trim(pal_str_make(rest->data, len));
    *rest = pal_text_after(*rest, len + 1);
    return item;
}

/* True for "gzip" and "br, gzip;q=0.5", but not for "gzip;q=0". */
static bool takes_gzip(pal_str header)
{
    while (header.len) {
        pal_str item = take_item(&header);
        if (!pal_text_begins_nocase(item, "gzip"))
            continue;
        pal_str rest = pal_text_trim(pal_text_after(item, 4));
        if (rest.len == 0)
            return true;
        if (*rest.data != ';')
            continue;
        rest = pal_text_trim(pal_text_after(rest, 1));
        return !pal_str_is(rest, "q=0") && !pal_text_begins(rest, "q=0.0");
    }
    return false;
}

static bool has_tag(pal_str header, const char *tag)
{
    while (header.len) {
        pal_str item = take_item(&header);
        if (pal_str_is(item, tag) || pal_str_is(item, "*"))
            return true;
    }
    return false;
}

static void add_headers(pal_exchange *x, const pal_page_entry *entry, const char *caching)
{
    bool is_frame = strcmp(entry->name, FRAME) == 0;
    pal_exchange_add_header(
            x, "content-security-policy", pal_str_of(is_frame ? FRAME_POLICY : POLICY));
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        pal_exchange_add_header(x, headers[i][0], pal_str_of(headers[i][1]));
    pal_exchange_add_header(x, "cache-control", pal_str_of(caching));
}

/* The tag is weak, because it is the same for the plain and the compressed form. */
static void answer_entry(pal_exchange *x, const pal_page_entry *entry, const char *caching)
{
    char tag[80];
    snprintf(tag, sizeof tag, "W/\"%s\"", pal_page_hash);
    add_headers(x, entry, caching);
    pal_exchange_add_header(x, "etag", pal_str_of(tag));
    if (has_tag(pal_exchange_header(x, "if-none-match"), tag)) {
        pal_exchange_answer(x, 304, NULL, (pal_str){0});
        return;
    }
    if (!takes_gzip(x->headers.accept_encoding)) {
        pal_exchange_answer(x, 200, entry->type,
                pal_str_make((const char *)entry->plain, entry->plain_len));
        return;
    }
    pal_exchange_add_header(x, "content-encoding", pal_str_of("gzip"));
    pal_exchange_answer(
            x, 200, entry->type, pal_str_make((const char *)entry->gzip, entry->gzip_len));
}

/* Runs on a worker. */
static void answer_from_dir(pal_exchange *x)
{
    pal_str text;
    pal_error err;
    pal_call *call = x->call;
    const pal_page_entry *entry = call->user;
    pal_status status = pal_page_dir_read(
            call->server->config->server.page_dir, entry, call->arena, &text, &err);
    if (status != PAL_OK) {
        pal_call_fail(call, status, &err);
        return;
    }
    add_headers(x, entry, "no-store");
    pal_exchange_answer(x, 200, entry->type, text);
}

static pal_status answer(
        pal_call *call, const pal_page_entry *entry, const char *caching, pal_error *err)
{
    (void)err;
    if (call->server->config->server.page_dir.len) {
        call->user = (void *)entry;
        pal_exchange_to_worker(call->exchange, answer_from_dir);
        return PAL_OK;
    }
    answer_entry(call->exchange, entry, caching);
    return PAL_OK;
}

/* A program that asks for JSON gets the same error as for other paths without a route. */
static bool wants_page(const pal_call *call)
{
    pal_str accept = pal_exchange_header(call->exchange, "accept");
    while (accept.len) {
        if (pal_text_begins_nocase(take_item(&accept), "application/json"))
            return false;
    }
    return true;
}

pal_status pal_page_index(pal_call *call, pal_error *err)
{
    if (call->server->config->server.page_off || !wants_page(call))
        return pal_error_set(
                err, PAL_NOT_FOUND, "no route for GET /; GET /openapi.json lists all routes");
    return answer(call, pal_page_entries, "no-cache", err);
}

/* "app.js", or "place/usage.js". */
static pal_str file_of(pal_call *call)
{
    pal_str folder = call->params[1], file = call->params[2];
    if (!file.len)
        return folder;
    char *name = pal_arena_alloc(call->arena, folder.len + 1 + file.len);
    if (!name)
        return (pal_str){0};
    memcpy(name, folder.data, folder.len);
    name[folder.len] = '/';
    memcpy(name + folder.len + 1, file.data, file.len);
    return pal_str_make(name, folder.len + 1 + file.len);
}

pal_status pal_page_file(pal_call *call, pal_error *err)
{
    const pal_config_server *config = &call->server->config->server;
    const pal_page_entry *entry = find_entry(file_of(call));
    /* The directory may lack the HTML; the built-in HTML has the other hash. */
    bool is_version = pal_str_is(call->params[0], pal_page_hash) ||
            (config->page_dir.len && pal_str_is(call->params[0], PAL_PAGE_DIR_HASH));
    if (config->page_off || !entry || !is_version)
        return pal_error_set(err, PAL_NOT_FOUND,
                "this version of the page has no such file; reload the page");
    return answer(call, entry, "public, max-age=31536000, immutable", err);
}
