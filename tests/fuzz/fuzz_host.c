/* fuzz_host.c - starts and stops the server of fuzz targets. */
#include "fuzz_host.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include "base/digest.h"
#include "base/log.h"

#define INPUTS_MAX 500 /* inputs per server */

const char *__lsan_default_suppressions(void);

/* The process ends while the threads of the listener run, and OpenSSL keeps a state for each
 * thread. */
const char *__lsan_default_suppressions(void)
{
    return "leak:CRYPTO_zalloc\n";
}

fuzz_host_state fuzz_host;

void fuzz_require(bool held, const char *text, const char *file, int line)
{
    if (held)
        return;
    fprintf(stderr, "%s:%d: %s\n", file, line, text);
    abort();
}

/* An input may have revoked the key that was created before. */
static void want_key(void)
{
    pal_key given = {.tenant = pal_str_of("default"), .role = PAL_KEY_ADMIN}, key;
    if (fuzz_host.secret[0] &&
            pal_key_find(fuzz_host.store, pal_str_of(fuzz_host.secret), fuzz_host.arena, &key, NULL) ==
                    PAL_OK &&
            !key.revoked_at)
        return;
    REQUIRE(pal_key_create(fuzz_host.store, &given, fuzz_host.arena, fuzz_host.secret, &key, NULL) ==
            PAL_OK);
}

static void open_server(void)
{
    static const char yaml[] = "provider: echo\nserver:\n  listen: 127.0.0.1:0\n  threads: 1\n"
                               "  body_bytes_max: 65536\n";
    pal_error err = {0};
    pal_runtime_options runtime;
    REQUIRE((fuzz_host.arena = pal_arena_new(0)) != NULL);
    REQUIRE((fuzz_host.metrics = pal_metrics_new()) != NULL);
    REQUIRE(pal_config_parse(pal_str_of(yaml), "fuzz", &fuzz_host.config, &err) == PAL_OK);
    fuzz_host.values = *pal_config_get(fuzz_host.config);
    /* Less than a file can request: no client sends the rest of an incomplete request. */
    fuzz_host.values.server.idle_ms = 20;
    fuzz_host.values.server.request_ms = 200;
    REQUIRE(pal_store_open("memory:", NULL, &fuzz_host.store, &err) == PAL_OK);
    REQUIRE(pal_models_new(NULL, 0, &fuzz_host.models, &err) == PAL_OK);
    REQUIRE(pal_config_runtime(fuzz_host.config, fuzz_host.arena, &runtime, &err) == PAL_OK);
    runtime.store = fuzz_host.store;
    runtime.models = fuzz_host.models;
    REQUIRE(pal_runtime_open(&runtime, &fuzz_host.runtime, &err) == PAL_OK);
    REQUIRE(pal_route_settings_new(&fuzz_host.values.session, &fuzz_host.routes, &err) == PAL_OK);
    fuzz_host.secret[0] = 0;
    want_key();
    pal_server_options options = {
            .store = fuzz_host.store,
            .runtime = fuzz_host.runtime,
            .models = fuzz_host.models,
            .config = &fuzz_host.values,
            .route_settings = fuzz_host.routes,
            .metrics = fuzz_host.metrics,
    };
    REQUIRE(pal_server_open(&options, &fuzz_host.server, &err) == PAL_OK);
    fuzz_host.inputs = 0;
}

static void close_server(void)
{
    if (!fuzz_host.server)
        return;
    pal_server_quiesce(fuzz_host.server);
    pal_runtime_drain(fuzz_host.runtime, 0);
    pal_server_close(fuzz_host.server);
    pal_runtime_close(fuzz_host.runtime, 0);
    pal_route_settings_free(fuzz_host.routes);
    pal_models_free(fuzz_host.models);
    pal_store_close(fuzz_host.store);
    pal_metrics_free(fuzz_host.metrics);
    pal_config_free(fuzz_host.config);
    pal_arena_free(fuzz_host.arena);
    fuzz_host.server = NULL;
}

int fuzz_host_connect(void)
{
    uint16_t port = pal_listener_port(fuzz_host.server->listener);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval patience = {.tv_sec = FUZZ_PATIENCE_S};
    struct linger gone = {.l_onoff = 1};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    /* There are many ports, but fewer than inputs. */
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &gone, sizeof gone);
    REQUIRE(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

void fuzz_host_want(void)
{
    static bool is_ready;
    if (!is_ready) {
        signal(SIGPIPE, SIG_IGN);
        pal_log_setup(fopen("/dev/null", "w"), PAL_LOG_DEBUG, true);
        /* OpenSSL frees its tables at the end, after the server has been closed: functions that are
         * registered later are called earlier. */
        uint8_t digest[PAL_SHA256_SIZE];
        REQUIRE(pal_sha256(pal_str_of("x"), digest) == PAL_OK);
        atexit(close_server);
        is_ready = true;
    }
    if (fuzz_host.server && ++fuzz_host.inputs > INPUTS_MAX)
        close_server();
    if (!fuzz_host.server)
        open_server();
    want_key();
}
