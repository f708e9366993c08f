/* test_http_peer.c - clients of the listener that use proxies, IPv6 or TLS. */
#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "server/http/http_internal.h"
#include "server/unit/http_toy.h"
#include "support/scratch.h"
#include "support/tap.h"

/* ---- Proxies ---- */

static bool resolves(
        const char *peer, const char *forwarded_for, const char *forwarded, const char *wanted)
{
    static const char *const texts[] = {"10.0.0.0/8", "192.168.1.1", "fd00::/16", "::1"};
    pal_proxy proxies[4];
    char out[INET6_ADDRSTRLEN];
    for (size_t i = 0; i < 4; i++) {
        if (pal_peer_proxy_parse(pal_str_of(texts[i]), &proxies[i], NULL))
            return CHECK(false);
    }
    snprintf(out, sizeof out, "%s", peer);
    pal_peer_resolve(proxies, 4, pal_str_of(forwarded_for), pal_str_of(forwarded), out);
    bool held = CHECK_STR(out, wanted);
    if (!held)
        printf("# %s, '%s', '%s': %s and not %s\n", peer, forwarded_for, forwarded, out, wanted);
    return held;
}

static void the_rightmost_untrusted_address_is_the_client(void)
{
    resolves("10.1.2.3", "", "", "10.1.2.3");
    resolves("10.1.2.3", "1.2.3.4", "", "1.2.3.4");
    resolves("10.1.2.3", "6.6.6.6, 1.2.3.4", "", "1.2.3.4");
    resolves("10.1.2.3", "1.2.3.4, 10.9.9.9 ,192.168.1.1", "", "1.2.3.4");
    resolves("10.1.2.3", "10.4.4.4, 10.9.9.9", "", "10.4.4.4");
    resolves("11.1.2.3", "1.2.3.4", "", "11.1.2.3");
    resolves("192.168.1.2", "1.2.3.4", "", "192.168.1.2");
    resolves("10.1.2.3", "1.2.3.4, unknown", "", "10.1.2.3");
    resolves("10.1.2.3", "1.2.3.4, unknown, 10.0.0.7", "", "10.0.0.7");
    resolves("10.1.2.3", "1.2.3.4:5678", "", "1.2.3.4");
    resolves("10.1.2.3", "2001:DB8::1", "", "2001:db8::1");
    resolves("10.1.2.3", "[2001:db8::1]:80", "", "2001:db8::1");
    resolves("::1", "fd00:1::2, 1.2.3.4, fd00::5", "", "1.2.3.4");
    resolves("10.1.2.3", ",,", "", "10.1.2.3");
    resolves("10.1.2.3", "1.2.3.4,", "", "10.1.2.3");
}

static void the_newer_header_is_read_too(void)
{
    resolves("10.1.2.3", "", "for=1.2.3.4", "1.2.3.4");
    resolves("10.1.2.3", "", "for=6.6.6.6, For=\"1.2.3.4:99\";proto=https;by=10.0.0.1", "1.2.3.4");
    resolves("10.1.2.3", "", "proto=https; for=\"[2001:db8::17]:4711\"", "2001:db8::17");
    resolves("10.1.2.3", "", "for=unknown", "10.1.2.3");
    resolves("10.1.2.3", "", "for=_hidden, for=10.5.5.5", "10.5.5.5");
    resolves("10.1.2.3", "", "proto=http", "10.1.2.3");
    resolves("10.1.2.3", "5.5.5.5", "for=1.2.3.4", "5.5.5.5");
    resolves("11.1.2.3", "", "for=1.2.3.4", "11.1.2.3");
}

static void proxies_must_be_addresses(void)
{
    static const char *const texts[] = {"", "proxy", "10.0.0", "10.0.0.1/", "10.0.0.1/33",
            "10.0.0.1/x", "10.0.0.1/-1", "::1/129", "::1/1000", "10.0.0.1 "};
    pal_proxy proxy;
    pal_error err;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pal_status status = pal_peer_proxy_parse(pal_str_of(texts[i]), &proxy, &err);
        if (!CHECK_STATUS(status, PAL_INVALID, &err))
            printf("# '%s'\n", texts[i]);
        CHECK_CONTAINS(err.message, "trusted proxy");
    }
}

static bool peer_is(toy *it, const char *headers, const char *wanted)
{
    char request[512];
    client_answer answer;
    snprintf(request, sizeof request, "GET /peer HTTP/1.1\r\nHost: toy\r\n%s\r\n", headers);
    bool held = CHECK(client_ask(toy_port(it), request, &answer)) && CHECK_STR(answer.body, wanted);
    client_answer_done(&answer);
    return held;
}

static void forwarded_headers_count_from_trusted_proxies_only(void)
{
    pal_config_server config = toy_config();
    pal_str proxies[] = {pal_str_of("127.0.0.1")};
    toy *it = toy_open(&config);
    peer_is(it, "", "127.0.0.1");
    peer_is(it, "X-Forwarded-For: 1.2.3.4\r\n", "127.0.0.1");
    toy_close(it);
    config.trusted_proxies = proxies;
    config.trusted_proxies_len = 1;
    it = toy_open(&config);
    peer_is(it, "", "127.0.0.1");
    peer_is(it, "X-Forwarded-For: 1.2.3.4\r\n", "1.2.3.4");
    peer_is(it, "X-Forwarded-For: 6.6.6.6\r\nx-forwarded-for: 1.2.3.4\r\n", "1.2.3.4");
    peer_is(it, "Forwarded: for=1.2.3.4\r\n", "1.2.3.4");
    toy_close(it);
}

/* ---- IPv6 ---- */

static void it_listens_on_ipv6_too(void)
{
    pal_config_server config = toy_config();
    client_answer answer;
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        printf("# this machine has no IPv6\n");
        return;
    }
    close(fd);
    config.listen = pal_str_of("[::1]:0");
    toy *it = toy_open(&config);
    address.sin6_port = htons(toy_port(it));
    fd = socket(AF_INET6, SOCK_STREAM, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    CHECK(client_say(fd, "GET /peer HTTP/1.1\r\nHost: toy\r\n\r\n"));
    if (CHECK(client_read(fd, false, &answer)))
        CHECK_STR(answer.body, "::1");
    client_answer_done(&answer);
    close(fd);
    toy_close(it);
}

/* ---- TLS ---- */

typedef struct tls_client {
    int fd;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
} tls_client;

static bool tls_open(tls_client *client, uint16_t port)
{
    client->fd = client_open(port);
    gnutls_certificate_allocate_credentials(&client->credentials);
    gnutls_init(&client->session, GNUTLS_CLIENT);
    gnutls_set_default_priority(client->session);
    gnutls_credentials_set(client->session, GNUTLS_CRD_CERTIFICATE, client->credentials);
    gnutls_transport_set_int(client->session, client->fd);
    int rc;
    do
        rc = gnutls_handshake(client->session);
    while (rc < 0 && !gnutls_error_is_fatal(rc));
    return rc == 0;
}

static void tls_close(tls_client *client)
{
    gnutls_deinit(client->session);
    gnutls_certificate_free_credentials(client->credentials);
    close(client->fd);
}

/* Sends, then reads until `wanted` has been received. */
static bool tls_gets(tls_client *client, const char *request, size_t len, const char *wanted)
{
    static char answer[1 << 16];
    size_t have = 0;
    ssize_t got = 1;
    while (len > 0 && got > 0) {
        got = gnutls_record_send(client->session, request, len);
        request += got > 0 ? got : 0;
        len -= got > 0 ? (size_t)got : 0;
    }
    answer[0] = 0;
    while (!strstr(answer, wanted)) {
        got = gnutls_record_recv(client->session, answer + have, sizeof answer - 1 - have);
        if (got <= 0)
            return false;
        have += (size_t)got;
        answer[have] = 0;
    }
    return true;
}

static bool make_certificate(const char *directory, char *certificate, char *key, size_t size)
{
    char command[2048];
    snprintf(certificate, size, "%s/certificate.pem", directory);
    snprintf(key, size, "%s/key.pem", directory);
    snprintf(command, sizeof command,
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
            "-subj /CN=localhost -keyout %s -out %s 2>/dev/null",
            key, certificate);
    return system(command) == 0;
}

static void requests_over_tls(const pal_config_server *config)
{
    static const char hello[] = "GET /hello HTTP/1.1\r\nHost: toy\r\n\r\n";
    static const char stream[] = "GET /stream HTTP/1.1\r\nHost: toy\r\n\r\n";
    static char chunk[150000] = "POST /echo HTTP/1.1\r\nHost: toy\r\n"
                                "Transfer-Encoding: chunked\r\n\r\n20000\r\n";
    toy *it = toy_open(config);
    tls_client client;
    if (CHECK(tls_open(&client, toy_port(it)))) {
        CHECK(tls_gets(&client, hello, strlen(hello), "hello"));
        CHECK(tls_gets(&client, stream, strlen(stream), "data: 1\n\n"));
        CHECK_EQ(toy_stream_write(it, "data: 2\n\n"), 1);
        CHECK(tls_gets(&client, "", 0, "data: 2\n\n"));
    }
    tls_close(&client);
    toy_await_gone(it, 1);
    /* Refused by our check inside of TLS, not by libmicrohttpd. */
    memset(chunk + strlen(chunk), 'a', 140000);
    if (CHECK(tls_open(&client, toy_port(it))))
        CHECK(tls_gets(&client, chunk, 140000, "413: the body"));
    tls_close(&client);
    /* A client that does not use TLS. */
    int fd = client_open(toy_port(it));
    if (CHECK(client_say(fd, hello)))
        CHECK(client_is_closed(fd));
    close(fd);
    toy_close(it);
}

/* A stuck connection is closed without an alert: GnuTLS sends nothing after a failed read. Returns
 * false if the handshake alone took longer than allowed. */
static bool is_cut_over_tls(pal_config_server config, int64_t request_ms)
{
    static const char begun[] = "POST /echo HTTP/1.1\r\nHost: toy\r\nContent-Length: 5\r\n\r\nab";
    tls_client client;
    config.request_ms = request_ms;
    toy *it = toy_open(&config);
    bool is_open = tls_open(&client, toy_port(it));
    if (is_open)
        CHECK(!tls_gets(&client, begun, strlen(begun), "never"));
    tls_close(&client);
    toy_close(it);
    return is_open;
}

static void it_speaks_tls(void)
{
    char directory[SCRATCH_PATH_MAX], certificate[512], key[512];
    pal_config_server config = toy_config();
    pal_listener_options options = {.config = &config};
    pal_listener *listener;
    pal_error err;
    scratch_make(true, directory);
    if (CHECK(make_certificate(directory, certificate, key, sizeof key))) {
        config.tls_certificate = pal_str_of(certificate);
        config.tls_key = pal_str_of(key);
        requests_over_tls(&config);
        CHECK(is_cut_over_tls(config, 400) || is_cut_over_tls(config, 10000));
        config.tls_key = config.tls_certificate;
        CHECK_FAILS(
                pal_listener_open(&options, &listener, &err), PAL_INVALID, &err, "certificate.pem");
    }
    scratch_clear(directory, true);
}

int main(void)
{
    RUN(the_rightmost_untrusted_address_is_the_client);
    RUN(the_newer_header_is_read_too);
    RUN(proxies_must_be_addresses);
    RUN(forwarded_headers_count_from_trusted_proxies_only);
    RUN(it_listens_on_ipv6_too);
    RUN(it_speaks_tls);
    return tap_done();
}
