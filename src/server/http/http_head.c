/* http_head.c - checks the head of a request before anything else does: its limits, and
 * whether two programs could disagree about where the request ends.
 *
 * libmicrohttpd is lenient. It uses the first of two lengths, prefers a transfer coding to a
 * length, accepts blanks before a colon, joins folded lines, and ends a value at a NUL. If a proxy
 * reads the same head differently, each of these lets a client smuggle a second request past the
 * proxy. So all of them are refused, and so is a CR within a line.
 *
 * Header lines stay in the buffer that received them. So a NUL or a folded line shows as a gap
 * between two header lines. */
#include <arpa/inet.h>
#include <string.h>
#include "base/text.h"
#include "server/http/http_internal.h"

typedef struct head_scan {
    pal_exchange *x;
    unsigned lines;
    unsigned lengths;
    unsigned codings;
    unsigned hosts;
    bool is_chunked;
    bool is_length_bad;
    bool is_name_bad;
    bool is_value_bad;
    bool has_gap;
    uint64_t length;
    const char *end;   /* the end of the previous line */
    const char *first; /* the beginning of the head in memory; NULL: not known */
    const char *last;
    pal_buf forwarded_for; /* the values of all lines, joined with commas */
    pal_buf forwarded;
} head_scan;

static bool is_name(const char *key, size_t len, const char *name)
{
    return pal_text_is_nocase(pal_str_make(key, len), name);
}

/* The first line with a name counts. Blanks around a value do not belong to it (RFC 9110, section
 * 5.5). */
static void note_header(pal_exchange_headers *headers, const char *key, size_t key_len,
        const char *value, size_t value_len)
{
#define PLACE(member, name) {name, sizeof name - 1, offsetof(pal_exchange_headers, member)},
    static const struct {
        const char *name;
        size_t len, offset;
    } places[] = {PAL_EXCHANGE_HEADERS(PLACE)};
#undef PLACE
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        pal_str *found = (pal_str *)((char *)headers + places[i].offset);
        if (key_len != places[i].len || !is_name(key, key_len, places[i].name))
            continue;
        if (!found->data)
            *found = pal_text_trim(pal_str_make(value, value_len));
        return;
    }
}

static void scan_length(head_scan *scan, const char *value, size_t len)
{
    scan->lengths++;
    scan->is_length_bad |= len == 0;
    for (size_t i = 0; i < len; i++) {
        if (value[i] < '0' || value[i] > '9') {
            scan->is_length_bad = true;
            return;
        }
        unsigned digit = (unsigned)(value[i] - '0');
        scan->length =
                scan->length > (UINT64_MAX - digit) / 10 ? UINT64_MAX : scan->length * 10 + digit;
    }
}

static void join(pal_buf *list, const char *value, size_t len)
{
    if (list->len)
        pal_buf_append_char(list, ',');
    pal_buf_append(list, value, len);
}

/* A line ends with CR LF, which libmicrohttpd has replaced by NULs, or with a single LF. */
static void scan_gap(head_scan *scan, const char *key, const char *value, size_t value_len)
{
    if (!scan->first || key < scan->first || key >= scan->last)
        return;
    if (scan->end && (key < scan->end + 1 || key > scan->end + 2))
        scan->has_gap = true;
    scan->end = value + value_len;
}

static enum MHD_Result scan_line(void *user, enum MHD_ValueKind kind, const char *key,
        size_t key_len, const char *value, size_t value_len)
{
    head_scan *scan = user;
    (void)kind;
    scan->lines++;
    scan->is_name_bad |= !pal_text_is_token(pal_str_make(key, key_len));
    if (!value)
        return MHD_YES;
    /* A program that reads a CR as the end of a line would see another header there. */
    scan->is_value_bad |= memchr(value, '\r', value_len) != NULL;
    scan_gap(scan, key, value, value_len);
    note_header(&scan->x->headers, key, key_len, value, value_len);
    if (is_name(key, key_len, "content-length")) {
        scan_length(scan, value, value_len);
    } else if (is_name(key, key_len, "transfer-encoding")) {
        scan->codings++;
        scan->is_chunked = is_name(value, value_len, "chunked");
    } else if (is_name(key, key_len, "host")) {
        scan->hosts++;
    } else if (is_name(key, key_len, "x-forwarded-for")) {
        join(&scan->forwarded_for, value, value_len);
    } else if (is_name(key, key_len, "forwarded")) {
        join(&scan->forwarded, value, value_len);
    }
    return MHD_YES;
}

/* Uses the client's id if it has 1 to PAL_SERVER_REQUEST_ID_LEN_MAX printable characters. */
static void choose_id(pal_exchange *x)
{
    pal_str id = x->headers.request_id;
    bool is_fit = id.len > 0 && id.len <= PAL_SERVER_REQUEST_ID_LEN_MAX;
    for (size_t i = 0; i < id.len && is_fit; i++)
        is_fit = id.data[i] > ' ' && id.data[i] <= '~';
    if (is_fit)
        x->id = pal_arena_copy(x->arena, id);
}

static void choose_peer(pal_exchange *x, const head_scan *scan)
{
    const pal_listener *listener = x->listener;
    if (!listener->proxies_len || scan->forwarded_for.failure || scan->forwarded.failure)
        return;
    char *peer = pal_arena_alloc(x->arena, INET6_ADDRSTRLEN);
    if (!peer)
        return;
    memcpy(peer, x->connection->peer, INET6_ADDRSTRLEN);
    pal_peer_resolve(listener->proxies, listener->proxies_len, pal_buf_str(&scan->forwarded_for),
            pal_buf_str(&scan->forwarded), peer);
    x->peer = pal_str_of(peer);
}

/* A target without blanks or NULs ends right before the version. */
static bool is_target_odd(const pal_exchange *x, const head_scan *scan, const char *version)
{
    if (x->path.len == 0 || (x->path.data[0] != '/' && !pal_str_is(x->path, "*")))
        return true;
    if (memchr(x->target.data, ' ', x->target.len))
        return true;
    return scan->first && version > scan->first && version < scan->last &&
            version != x->target_at + x->target.len + 1;
}

static unsigned because(const char **out_why, unsigned code, const char *why)
{
    *out_why = why;
    return code;
}

static unsigned judge(
        const head_scan *scan, size_t head_len, const char *version, const char **out_why)
{
    const pal_exchange *x = scan->x;
    const pal_config_server *config = &x->listener->config;
    bool is_1_1 = strcmp(version, "HTTP/1.1") == 0;
    size_t line_len = x->target.len + x->method.len + strlen(version) + 4;
    if (x->connection->crowd)
        return because(out_why, 503, x->connection->crowd);
    if (x->target.len > config->url_bytes_max)
        return because(out_why, 414, "the URL is longer than server.url_bytes_max");
    if (scan->lines > PAL_SERVER_HEADERS_MAX)
        return because(out_why, 431, "the request has too many header lines");
    if (head_len > line_len && head_len - line_len > config->header_bytes_max)
        return because(out_why, 431, "the headers are longer than server.header_bytes_max");
    if (is_target_odd(x, scan, version))
        return because(out_why, 400, "the request line is malformed");
    if (scan->is_name_bad || scan->is_value_bad || scan->has_gap)
        return because(out_why, 400, "a header line is malformed");
    if (scan->hosts > 1 || (is_1_1 && scan->hosts == 0))
        return because(out_why, 400, "the request must have exactly one Host header");
    if (scan->lengths > 1 || scan->is_length_bad || scan->codings > 1 ||
            (scan->codings && (scan->lengths || !is_1_1)))
        return because(out_why, 400,
                "the length of the body is ambiguous; send exactly one Content-Length or one "
                "'Transfer-Encoding: chunked'");
    if (scan->codings && !scan->is_chunked)
        return because(out_why, 501, "the transfer coding is not supported; use 'chunked'");
    if (scan->length > x->listener->limits.body_bytes_max)
        return because(out_why, 413, "the body is longer than server.body_bytes_max");
    return 0;
}

unsigned pal_head_check(pal_exchange *x, const char *method, const char *version,
        uint64_t *out_length, const char **out_why)
{
    head_scan scan = {.x = x};
    const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(x->connection->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    size_t head_len = info ? info->header_size : 0;
    if (head_len) {
        scan.first = method;
        scan.last = method + head_len;
    }
    x->method = pal_str_of(method);
    pal_buf_init(&scan.forwarded_for, x->listener->config.header_bytes_max);
    pal_buf_init(&scan.forwarded, x->listener->config.header_bytes_max);
    MHD_get_connection_values_n(x->connection->mhd, MHD_HEADER_KIND, scan_line, &scan);
    /* The last line is followed by its line end and the empty line. */
    if (scan.end && scan.last > scan.end + 4)
        scan.has_gap = true;
    choose_id(x);
    choose_peer(x, &scan);
    unsigned code = judge(&scan, head_len, version, out_why);
    *out_length = scan.length;
    x->is_chunked = scan.codings > 0;
    x->has_body = scan.length > 0 || x->is_chunked;
    pal_buf_done(&scan.forwarded_for);
    pal_buf_done(&scan.forwarded);
    return code;
}
