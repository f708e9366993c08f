/* net_http_call.c - the libcurl side of one request: its options, the response and the result.
 *
 * A call uses little memory, because thousands of them can stream at the same time. The body of the
 * request is freed when the server has received it and responds. The head of the response is freed
 * after it was reported. On the loop. */
#include <ctype.h>
#include <errno.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "net/net_http_internal.h"

#define LAP_BYTES_MAX 65536 /* bytes that one call can receive before the other calls are served */
#define UPLOAD_BYTES 16384L /* the smallest size that libcurl accepts */
#define HEAD_BYTES_MAX (256u << 10)
#define HEADER_BYTES_MAX (64u << 10) /* bytes of a request's headers */

/* ---- Reading the response ---- */

static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    pal_http_call *call = user;
    (void)purpose;
    pal_http_found(call);
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    call->open_errno = fd < 0 ? errno : 0;
    return fd;
}

static int before_sending(void *user, char *ip, char *local_ip, int port, int local_port)
{
    pal_http_call *call = user;
    pal_http_sent(call);
    return call->doomed ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* Reads a status line such as "HTTP/1.1 200 OK" or "HTTP/2 200". */
static void begin_head(pal_http_call *call, pal_str line)
{
    const char *space = memchr(line.data, ' ', line.len);
    size_t at = space ? (size_t)(space - line.data) + 1 : line.len;
    pal_buf_clear(&call->head);
    call->code = 0;
    for (size_t i = at; i < line.len && i < at + 3 && isdigit((unsigned char)line.data[i]); i++)
        call->code = call->code * 10 + (line.data[i] - '0');
}

/* Appends the origin of a parsed URL, such as "https://host:443". Fails if the URL is not an http
 * URL or there is no memory. */
static CURLUcode append_host(CURLU *address, pal_buf *out_name)
{
    char *scheme = NULL, *host = NULL, *port = NULL;
    CURLUcode rc = curl_url_get(address, CURLUPART_SCHEME, &scheme, 0);
    if (rc == CURLUE_OK)
        rc = curl_url_get(address, CURLUPART_HOST, &host, 0);
    if (rc == CURLUE_OK)
        rc = curl_url_get(address, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    if (rc == CURLUE_OK && strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)
        rc = CURLUE_UNSUPPORTED_SCHEME;
    if (rc == CURLUE_OK)
        pal_buf_format(out_name, "%s://%s:%s", scheme, host, port);
    curl_free(port);
    curl_free(host);
    curl_free(scheme);
    return rc;
}

/* Keeps the scheme, host and port of a redirect. The rest of the URL may contain a secret. */
static void learn_target(pal_http_call *call, pal_str location)
{
    CURLU *address = curl_url();
    pal_buf text, host;
    pal_buf_init(&text, HEADER_BYTES_MAX);
    pal_buf_init(&host, sizeof call->target);
    pal_buf_append_str(&text, location);
    pal_buf_append_char(&text, '\0');
    call->target[0] = '\0';
    if (address && !text.failure && !curl_url_set(address, CURLUPART_URL, call->host->name, 0) &&
            !curl_url_set(address, CURLUPART_URL, text.data, 0) && !append_host(address, &host)) {
        pal_buf_append_char(&host, '\0');
        if (!host.failure)
            memcpy(call->target, host.data, host.len);
    }
    curl_url_cleanup(address);
    pal_buf_done(&text);
    pal_buf_done(&host);
}

static void add_header(pal_http_call *call, pal_str line)
{
    const char *colon = memchr(line.data, ':', line.len);
    if (!colon || pal_text_is_space(*line.data))
        return;
    pal_str name = pal_text_trim(pal_str_make(line.data, (size_t)(colon - line.data)));
    size_t value_at = (size_t)(colon - line.data) + 1;
    size_t start = call->head.len;
    pal_buf_append_str(&call->head, name);
    for (size_t i = start; i < call->head.len; i++)
        call->head.data[i] = (char)tolower((unsigned char)call->head.data[i]);
    pal_str value = pal_text_trim(pal_str_make(line.data + value_at, line.len - value_at));
    if (!call->head.failure && call->code / 100 == 3 &&
            pal_str_is(pal_str_make(call->head.data + start, name.len), "location"))
        learn_target(call, value);
    pal_buf_append_char(&call->head, ':');
    pal_buf_append_str(&call->head, value);
    pal_buf_append_char(&call->head, '\n');
}

/* The request's body is no longer needed, because an answered request is never sent again. */
static void release_body(pal_http_call *call)
{
    curl_off_t sent = 0;
    curl_easy_getinfo(call->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    if (!call->body || (size_t)sent < call->body_len)
        return;
    /* This also releases libcurl's upload buffer. */
    curl_easy_setopt(call->easy, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BYTES);
    pal_free(call->body);
    call->body = NULL;
}

/* A header line cannot contain a newline, and a header name cannot contain a colon. */
static void tell_head(pal_http_call *call)
{
    pal_http_head head = {.code = call->code};
    pal_header *headers = NULL;
    size_t cap = 0;
    pal_str left = pal_buf_str(&call->head);
    for (; call->events.head && left.len; head.headers_len++) {
        const char *end = memchr(left.data, '\n', left.len);
        const char *colon = memchr(left.data, ':', left.len);
        if (!pal_reserve(&headers, &cap, head.headers_len + 1, sizeof *headers)) {
            pal_http_doom(call, PAL_NO_MEMORY);
            goto out;
        }
        headers[head.headers_len] = (pal_header){
                .name = pal_str_make(left.data, (size_t)(colon - left.data)),
                .value = pal_str_make(colon + 1, (size_t)(end - colon) - 1)};
        left = pal_str_make(end + 1, left.len - (size_t)(end + 1 - left.data));
    }
    head.headers = headers;
    if (call->events.head)
        call->events.head(call->user, &head);
out:
    pal_free(headers);
    pal_buf_done(&call->head);
}

static void end_head(pal_http_call *call)
{
    if (call->code < 200)
        return;
    if (call->head.failure) {
        pal_http_doom(call, call->head.failure);
        return;
    }
    call->headed = true;
    release_body(call);
    tell_head(call);
}

static size_t take_header(char *data, size_t one, size_t len, void *user)
{
    pal_http_call *call = user;
    pal_str line = pal_str_make(data, len);
    call->heard_ms = call->http->lap_ms;
    /* Lines after the head are trailers. */
    if (!call->headed && !call->doomed) {
        if (pal_text_begins(line, "HTTP/"))
            begin_head(call, pal_text_trim(line));
        else if (pal_text_trim(line).len)
            add_header(call, line);
        else
            end_head(call);
    }
    return call->doomed ? 0 : len;
}

/* libcurl continues to read as long as bytes arrive. Without a limit, a service that never stops
 * sending would starve all other calls. */
static bool has_its_share(pal_http_call *call, size_t len)
{
    pal_http *http = call->http;
    if (call->lap != http->lap)
        call->lap_bytes = 0;
    call->lap = http->lap;
    call->lap_bytes += len;
    http->lap_bytes += len;
    if (call->lap_bytes <= LAP_BYTES_MAX)
        return false;
    call->paused = http->has_paused = true;
    return true;
}

static size_t take_body(char *data, size_t one, size_t len, void *user)
{
    pal_http_call *call = user;
    if (!call->doomed && has_its_share(call, len))
        return CURL_WRITEFUNC_PAUSE;
    call->heard_ms = call->http->lap_ms;
    if (len > call->bytes_max - call->bytes)
        pal_http_doom(call, PAL_LIMIT);
    call->bytes += len;
    if (len && !call->doomed)
        call->events.body(call->user, pal_str_make(data, len));
    return call->doomed ? 0 : len;
}

/* ---- Building the request ---- */

pal_status pal_http_url_host(pal_str url, pal_buf *out_name, pal_error *err)
{
    pal_status status = PAL_NO_MEMORY;
    CURLU *parsed = curl_url();
    char *text = pal_malloc(url.len + 1);
    if (!parsed || !text) {
        (void)pal_no_memory(err);
        goto out;
    }
    if (url.len)
        memcpy(text, url.data, url.len);
    text[url.len] = '\0';
    CURLUcode rc = strlen(text) == url.len ? curl_url_set(parsed, CURLUPART_URL, text, 0)
                                           : CURLUE_MALFORMED_INPUT;
    if (rc == CURLUE_OK)
        rc = append_host(parsed, out_name);
    if (rc == CURLUE_OUT_OF_MEMORY || out_name->failure == PAL_NO_MEMORY)
        status = pal_no_memory(err);
    else if (rc)
        status = pal_error_set(err, PAL_INVALID, "'%s' is not an http or https URL", text);
    else if (out_name->failure)
        status = pal_error_set(err, out_name->failure, "the URL is too long");
    else
        status = PAL_OK;
out:
    curl_url_cleanup(parsed);
    pal_free(text);
    return status;
}

static bool has_control(pal_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return true;
    }
    return false;
}

static bool add_line(pal_http_call *call, const char *line)
{
    struct curl_slist *list = curl_slist_append(call->headers, line);
    if (list)
        call->headers = list;
    return list != NULL;
}

static pal_status add_request_header(
        pal_http_call *call, const pal_header *header, pal_error *err)
{
    if (!pal_text_is_token(header->name) || has_control(header->value))
        return pal_error_set(
                err, PAL_INVALID, "'%.*s' is not a valid header", PAL_STR_ARG(header->name));
    pal_buf line;
    pal_buf_init(&line, HEADER_BYTES_MAX);
    pal_buf_append_str(&line, header->name);
    /* For libcurl "name:" means that the header is not sent. */
    pal_buf_append_text(&line, header->value.len ? ": " : ";");
    pal_buf_append_str(&line, header->value);
    pal_buf_append_char(&line, '\0');
    pal_status status = line.failure;
    if (status == PAL_OK && !add_line(call, line.data))
        status = PAL_NO_MEMORY;
    pal_buf_done(&line);
    if (status == PAL_LIMIT)
        return pal_error_set(err, status, "header '%.*s' is too long", PAL_STR_ARG(header->name));
    return status ? pal_no_memory(err) : PAL_OK;
}

static pal_status set_headers(pal_http_call *call, const pal_http_request *request, pal_error *err)
{
    bool has_type = false;
    for (size_t i = 0; i < request->headers_len; i++) {
        const pal_header *header = &request->headers[i];
        pal_status status = add_request_header(call, header, err);
        if (status)
            return status;
        has_type = has_type || pal_text_is_nocase(header->name, "content-type");
    }
    /* Removes headers that libcurl adds by default: "Expect: 100-continue" and the content type of
     * a form. */
    if (!add_line(call, "Expect:") || (!has_type && !add_line(call, "Content-Type:")))
        return pal_no_memory(err);
    return curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers) ? pal_no_memory(err)
                                                                           : PAL_OK;
}

static pal_status set_body(pal_http_call *call, const pal_http_request *request, pal_error *err)
{
    bool is_head = strcmp(request->method, "HEAD") == 0;
    if (is_head)
        curl_easy_setopt(call->easy, CURLOPT_NOBODY, 1L);
    if ((is_head || strcmp(request->method, "GET") == 0) && request->body.len == 0)
        return PAL_OK;
    call->body_len = request->body.len;
    call->body = pal_malloc(request->body.len);
    if (!call->body)
        return pal_no_memory(err);
    if (request->body.len)
        memcpy(call->body, request->body.data, request->body.len);
    curl_easy_setopt(call->easy, CURLOPT_POST, 1L);
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, call->body);
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
    if (curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, request->method))
        return pal_no_memory(err);
    return PAL_OK;
}

/* libcurl copies the URL. It has no NUL: pal_http_url_host() has checked that. */
static bool set_url(pal_http_call *call, pal_str url)
{
    char *text = pal_malloc(url.len + 1);
    if (!text)
        return false;
    if (url.len)
        memcpy(text, url.data, url.len);
    text[url.len] = '\0';
    CURLcode rc = curl_easy_setopt(call->easy, CURLOPT_URL, text);
    pal_free(text);
    return rc == CURLE_OK;
}

static void set_callbacks(pal_http_call *call)
{
    CURL *easy = call->easy;
    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, call);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, before_sending);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, call);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
}

static bool set_options(pal_http_call *call)
{
    CURL *easy = call->easy;
    curl_easy_setopt(easy, CURLOPT_SHARE, call->http->share);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /* Canceling must not wait for the thread that looks up a name. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)PAL_HTTP_RECEIVE_BYTES);
    curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BYTES);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    /* With HTTP/2, libcurl 7.88 reports a canceled stream to the server only with the next frame
     * that it sends, and that may never happen. */
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)call->connect_ms);
    /* A redirect would send headers with secrets to any host, and it could lead to addresses that
     * only this machine can reach. */
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    /* A certificate file is read once and cached. A directory would be read again for each
     * connection. */
    return curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK &&
            (!call->http->ca_file ||
                    curl_easy_setopt(easy, CURLOPT_CAINFO, call->http->ca_file) == CURLE_OK) &&
            curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
            curl_easy_setopt(easy, CURLOPT_USERAGENT, "palaver/" PAL_VERSION) == CURLE_OK;
}

pal_status pal_http_call_setup(pal_http_call *call, const pal_http_request *request, pal_error *err)
{
    pal_buf_init(&call->head, HEAD_BYTES_MAX);
    if (!pal_text_is_token(pal_str_of(request->method)))
        return pal_error_set(err, PAL_INVALID, "'%s' is not a valid method",
                request->method ? request->method : "");
    call->easy = curl_easy_init();
    if (!call->easy || !set_options(call) || !set_url(call, request->url))
        return pal_no_memory(err);
    set_callbacks(call);
    if (request->once)
        curl_easy_setopt(call->easy, CURLOPT_FRESH_CONNECT, 1L);
    pal_status status = set_headers(call, request, err);
    return status ? status : set_body(call, request, err);
}

void pal_http_call_free(pal_http_call *call)
{
    if (call->easy)
        curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->headers);
    pal_buf_done(&call->head);
    pal_free(call->body);
    pal_free(call);
}

/* ---- Describing the end ---- */

static pal_status status_of(const pal_http_call *call, CURLcode result)
{
    if (call->failure)
        return call->failure;
    switch (result) {
    case CURLE_OK:
        return PAL_OK;
    case CURLE_OUT_OF_MEMORY:
        return PAL_NO_MEMORY;
    case CURLE_OPERATION_TIMEDOUT:
        return PAL_TIMEOUT;
    default:
        return PAL_IO;
    }
}

static void describe_timeout(const pal_http_call *call, pal_error *out_text)
{
    int64_t now = pal_clock_monotonic_ms();
    const char *host = call->host->name;
    if (now - call->started_ms >= call->total_ms)
        (void)pal_error_set(out_text, PAL_TIMEOUT, "no complete response from '%s' within %lld ms",
                host, (long long)call->total_ms);
    else if (call->stage == PAL_HTTP_SENT)
        (void)pal_error_set(out_text, PAL_TIMEOUT, "'%s' sent nothing for %lld ms", host,
                (long long)call->idle_ms);
    else
        (void)pal_error_set(out_text, PAL_TIMEOUT, "could not connect to '%s' within %lld ms", host,
                (long long)call->connect_ms);
}

static int os_error(const pal_http_call *call)
{
    long os_errno = 0;
    curl_easy_getinfo(call->easy, CURLINFO_OS_ERRNO, &os_errno);
    return call->open_errno ? call->open_errno : (int)os_errno;
}

static void describe_curl(const pal_http_call *call, CURLcode result, pal_error *out_text)
{
    const char *text = call->error[0] ? call->error : curl_easy_strerror(result);
    if (result == CURLE_COULDNT_CONNECT && os_error(call))
        text = strerror(os_error(call));
    (void)pal_error_set(out_text, PAL_IO,
            call->stage == PAL_HTTP_SENT ? "the call to '%s' failed: %s"
                                         : "could not connect to '%s': %s",
            call->host->name, text);
}

/* Whether there is probably no such server. A lack of local resources, such as file descriptors,
 * says nothing about the server. */
static bool is_unreachable(const pal_http_call *call, CURLcode result)
{
    int error = os_error(call);
    if (call->stage == PAL_HTTP_WAITING || call->stage == PAL_HTTP_SENT)
        return false;
    switch (result) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR: /* for example https:// at a port that speaks http */
    case CURLE_PEER_FAILED_VERIFICATION:
        return true;
    case CURLE_COULDNT_CONNECT:
        return error == ECONNREFUSED || error == ENETUNREACH || error == EHOSTUNREACH;
    default:
        return false;
    }
}

void pal_http_call_describe(const pal_http_call *call, CURLcode result, pal_http_end *out_end)
{
    pal_error text = {PAL_OK, ""};
    pal_http_end end = {.status = status_of(call, result)};
    end.code = call->headed ? call->code : 0;
    end.sent = call->stage == PAL_HTTP_SENT;
    end.unreachable = is_unreachable(call, result);
    if (end.status == PAL_TIMEOUT)
        describe_timeout(call, &text);
    else if (end.status == PAL_LIMIT)
        (void)pal_error_set(
                &text, PAL_LIMIT, "the response of '%s' exceeds the limit", call->host->name);
    else if (end.status == PAL_NO_MEMORY)
        (void)pal_no_memory(&text);
    else if (end.status)
        describe_curl(call, result, &text);
    else if (call->code / 100 == 3 && call->target[0])
        (void)pal_error_set(&text, PAL_PROVIDER,
                "'%s' redirects to '%s': redirects are not followed; set the final URL",
                call->host->name, call->target);
    _Static_assert(sizeof text.message <= sizeof end.error, "it fits");
    memcpy(end.error, text.message, sizeof text.message);
    *out_end = end;
}
