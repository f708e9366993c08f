/* http_exchange.c - one exchange for its handler: the parts of the request, and its one response.
 *
 * If the handler responds while it runs on the connection's thread, the response is queued when the
 * handler returns. Otherwise the connection is suspended. The response resumes it, and the
 * connection's thread then queues the response. libmicrohttpd would accept a response from other
 * threads too. But then it works on the connection there while the connection's thread may still
 * use it.
 *
 * A few refusals are made when libmicrohttpd accepts no response: within a body, or after a
 * timeout. They are written to the socket directly (is_raw), and the connection is closed. Over
 * TLS, the connection is closed without a response after a timeout, because GnuTLS sends nothing
 * once reading has failed. */
#include "server/http/http.h"

#include <assert.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "base/memory.h"
#include "base/text.h"
#include "palaver/id.h"
#include "server/http/http_internal.h"

#define RAW_ANSWER_BYTES_MAX ((size_t)64 << 10)

/* ---- The request ---- */

void pal_exchange_free_body(pal_exchange *x)
{
    atomic_fetch_sub(&x->listener->bodies_len, x->body_held);
    x->body_held = 0;
    pal_buf_done(&x->body);
}

void pal_exchange_set_id(pal_exchange *x)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_id_to_text(pal_id_new(), id);
    x->id = pal_arena_copy(x->arena, pal_str_make(id, PAL_ID_TEXT_LEN));
}

pal_str pal_exchange_header(const pal_exchange *x, const char *name)
{
    const char *value = NULL;
    size_t len = 0;
    if (x->carried)
        return pal_carried_header(x, name);
    if (MHD_lookup_connection_value_n(
                x->connection->mhd, MHD_HEADER_KIND, name, strlen(name), &value, &len) == MHD_NO ||
            !value)
        return pal_str_make(NULL, 0);
    /* Blanks around a value do not belong to it (RFC 9110, section 5.5). */
    return pal_text_trim(pal_str_make(value, len));
}

typedef struct header_visit {
    bool (*each)(pal_str name, pal_str value, void *user);
    void *user;
} header_visit;

static enum MHD_Result visit_header(void *user, enum MHD_ValueKind kind, const char *name,
        size_t name_len, const char *value, size_t value_len)
{
    const header_visit *visit = user;
    (void)kind;
    return visit->each(pal_str_make(name, name_len), pal_str_make(value, value_len), visit->user)
            ? MHD_YES
            : MHD_NO;
}

void pal_exchange_each_header(
        pal_exchange *x, bool (*each)(pal_str name, pal_str value, void *user), void *user)
{
    header_visit visit = {each, user};
    MHD_get_connection_values_n(x->connection->mhd, MHD_HEADER_KIND, visit_header, &visit);
}

/* Decodes a form value: '+' is a blank. An invalid escape stays unchanged. */
static size_t decode(pal_str text, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        int high = -1, low = -1;
        if (text.data[i] == '%' && text.len - i > 2) {
            high = pal_text_hex(text.data[i + 1]);
            low = pal_text_hex(text.data[i + 2]);
        }
        if (high >= 0 && low >= 0) {
            out[len++] = (char)(high << 4 | low);
            i += 2;
        } else {
            out[len++] = text.data[i] == '+' ? ' ' : text.data[i];
        }
    }
    return len;
}

static pal_str decoded(pal_exchange *x, pal_str text)
{
    char *out = pal_arena_alloc(x->arena, text.len + 1);
    return pal_str_make(out, out ? decode(text, out) : 0);
}

/* One query parameter. */
typedef struct parameter {
    pal_str name; /* decoded */
    pal_str value;
} parameter;

static bool next_parameter(pal_exchange *x, size_t *at, parameter *out)
{
    if (*at >= x->query.len)
        return false;
    pal_str rest = pal_str_make(x->query.data + *at, x->query.len - *at);
    const char *end = memchr(rest.data, '&', rest.len);
    size_t len = end ? (size_t)(end - rest.data) : rest.len;
    const char *equal = memchr(rest.data, '=', len);
    size_t name_len = equal ? (size_t)(equal - rest.data) : len;
    size_t skip = name_len + (equal != NULL);
    out->name = pal_str_make(rest.data, name_len);
    out->value = pal_str_make(rest.data + skip, len - skip);
    /* Names are rarely escaped, so memory is allocated only for those that are. */
    if (memchr(out->name.data, '%', name_len) || memchr(out->name.data, '+', name_len))
        out->name = decoded(x, out->name);
    *at += len + (end != NULL);
    return true;
}

bool pal_exchange_query(pal_exchange *x, const char *name, pal_str *out_value)
{
    parameter found;
    for (size_t at = 0; next_parameter(x, &at, &found);) {
        if (!pal_str_is(found.name, name))
            continue;
        *out_value = decoded(x, found.value);
        return true;
    }
    return false;
}

bool pal_exchange_query_next(pal_exchange *x, size_t *at, pal_str *out_name)
{
    parameter found;
    if (!next_parameter(x, at, &found))
        return false;
    *out_name = found.name;
    return true;
}

/* ---- The response ---- */

void pal_exchange_add_header(pal_exchange *x, const char *name, pal_str value)
{
    pal_exchange_line *line = pal_arena_alloc(x->arena, sizeof *line);
    pal_str name_copy = pal_arena_copy(x->arena, pal_str_of(name));
    pal_str value_copy = pal_arena_copy(x->arena, value);
    if (!line || !name_copy.data || !value_copy.data)
        return; /* the arena keeps the failure, so that no incomplete response is sent */
    *line = (pal_exchange_line){NULL, name_copy.data, value_copy.data};
    pal_exchange_line **last = &x->lines;
    while (*last)
        last = &(*last)->next;
    *last = line;
}

void pal_exchange_decorate(
        const pal_exchange *x, struct MHD_Response *response, const char *content_type)
{
    if (content_type)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    /* The page has the same origin. A browser must not take data for a script or a style of it. */
    MHD_add_response_header(response, "x-content-type-options", "nosniff");
    MHD_add_response_header(response, "cross-origin-resource-policy", "same-origin");
    if (x->id.len)
        MHD_add_response_header(response, "x-request-id", x->id.data);
    if (x->connection->crowd || atomic_load(&x->listener->is_quiet))
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    for (pal_exchange_line *line = x->lines; line; line = line->next)
        MHD_add_response_header(response, line->name, line->value);
}

void pal_exchange_hand_over(pal_exchange *x, struct MHD_Response *response, unsigned code)
{
    struct MHD_Connection *mhd = x->connection->mhd;
    x->response = response;
    x->code = code;
    /* From here on x belongs to the connection's thread. */
    int before = atomic_exchange(&x->state, PAL_EXCHANGE_ANSWERED);
    assert(before != PAL_EXCHANGE_ANSWERED);
    if (before == PAL_EXCHANGE_SUSPENDED)
        MHD_resume_connection(mhd);
}

static void put_line(pal_buf *out, const char *name, const char *value)
{
    pal_buf_append_text(out, name);
    pal_buf_append_text(out, ": ");
    pal_buf_append_text(out, value);
    pal_buf_append_text(out, "\r\n");
}

/* Tries once. The socket's buffer has room for a refusal, because nothing else was sent before. */
static void send_raw(const pal_connection *connection, pal_str bytes)
{
    if (connection->listener->is_tls) {
        const union MHD_ConnectionInfo *info =
                MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
        if (info && info->tls_session)
            (void)gnutls_record_send(info->tls_session, bytes.data, bytes.len);
        return;
    }
    (void)!send(connection->fd, bytes.data, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void answer_raw(pal_exchange *x, unsigned code, const char *content_type, pal_str body)
{
    pal_buf out;
    pal_buf_init(&out, RAW_ANSWER_BYTES_MAX);
    pal_buf_format(&out, "HTTP/1.1 %u %s\r\n", code, MHD_get_reason_phrase_for(code));
    if (content_type)
        put_line(&out, "Content-Type", content_type);
    if (x->id.len)
        put_line(&out, "x-request-id", x->id.data);
    for (pal_exchange_line *line = x->lines; line; line = line->next)
        put_line(&out, line->name, line->value);
    pal_buf_format(&out, "Content-Length: %zu\r\nConnection: close\r\n\r\n", body.len);
    if (!pal_str_is(x->method, "HEAD"))
        pal_buf_append_str(&out, body);
    if (!out.failure)
        send_raw(x->connection, pal_buf_str(&out));
    x->bytes = body.len;
    pal_buf_done(&out);
    pal_exchange_hand_over(x, NULL, code);
}

/* `response` is NULL if memory is missing. */
static void answer_response(pal_exchange *x, unsigned code, const char *content_type,
        struct MHD_Response *response, size_t body_len)
{
    if (response)
        pal_exchange_decorate(x, response, content_type);
    x->bytes = pal_str_is(x->method, "HEAD") ? 0 : body_len;
    pal_exchange_hand_over(x, response, code);
}

void pal_exchange_answer(pal_exchange *x, unsigned code, const char *content_type, pal_str body)
{
    pal_exchange_unwatch(x);
    if (x->carried) {
        pal_carried_answer(x, code, body);
        return;
    }
    if (x->is_raw) {
        answer_raw(x, code, content_type, body);
        return;
    }
    struct MHD_Response *response = NULL;
    if (pal_arena_failure(x->arena) != PAL_NO_MEMORY)
        response = MHD_create_response_from_buffer(
                body.len, (void *)(uintptr_t)body.data, MHD_RESPMEM_MUST_COPY);
    answer_response(x, code, content_type, response, body.len);
}

void pal_exchange_answer_with(
        pal_exchange *x, unsigned code, const char *content_type, pal_buf *body)
{
    struct MHD_Response *response = NULL;
    size_t len = body->len;
    if (x->is_raw || x->carried) {
        pal_buf taken = *body; /* `body` may be in the exchange's arena, which the answer frees */
        pal_buf_init(body, body->len_max);
        pal_exchange_answer(x, code, content_type, pal_buf_str(&taken));
        pal_buf_done(&taken);
        return;
    }
    pal_exchange_unwatch(x);
    if (pal_arena_failure(x->arena) != PAL_NO_MEMORY)
        response = MHD_create_response_from_buffer_with_free_callback(len, body->data, pal_free);
    if (response)
        pal_buf_init(body, body->len_max);
    else
        pal_buf_done(body);
    answer_response(x, code, content_type, response, len);
}

void pal_exchange_refuse(pal_exchange *x, unsigned code, const char *why)
{
    atomic_fetch_add(&x->listener->refused, 1);
    x->listener->options.refuse(x, code, why, x->listener->options.user);
}

void pal_exchange_uncount(pal_exchange *x)
{
    if (!x->is_counted)
        return;
    x->is_counted = false;
    atomic_fetch_sub(&x->listener->handled_len, 1);
    pal_listener_notify(x->listener);
}

enum MHD_Result pal_exchange_settle(pal_exchange *x)
{
    struct MHD_Connection *mhd = x->connection->mhd;
    if (atomic_load(&x->state) == PAL_EXCHANGE_OPEN) {
        int open = PAL_EXCHANGE_OPEN;
        MHD_suspend_connection(mhd);
        /* The response was given just now, so only this thread will resume the connection. */
        if (!atomic_compare_exchange_strong(&x->state, &open, PAL_EXCHANGE_SUSPENDED))
            MHD_resume_connection(mhd);
        return MHD_YES;
    }
    assert(atomic_load(&x->state) == PAL_EXCHANGE_ANSWERED);
    /* MHD_NO closes the connection: there was no memory for a response. */
    enum MHD_Result queued = MHD_NO;
    if (x->response) {
        queued = MHD_queue_response(mhd, x->code, x->response);
        MHD_destroy_response(x->response);
        x->response = NULL;
    }
    pal_exchange_uncount(x);
    return queued;
}
