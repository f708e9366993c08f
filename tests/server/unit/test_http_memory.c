/* test_http_memory.c - the memory of many open streams: 10,000 streams need less than 150 MB, so
 * that a server has memory for other work. The readers run in another process. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include "server/http/http_internal.h"
#include "server/unit/http_toy.h"
#include "support/tap.h"

#define STREAMS 10000
#define RESIDENT_KB_MAX (150 * 1024)
#define IDLE_KB_MAX (15 * 1024)

/* The headers that a common client sends today. */
static const char hello[] = "GET /hello HTTP/1.1\r\nHost: toy\r\n\r\n";
static const char ask[] = "GET /stream HTTP/1.1\r\nHost: 127.0.0.1:7077\r\n"
                          "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\r\n"
                          "Accept: text/event-stream\r\nAccept-Language: en-US,en;q=0.9\r\n"
                          "Authorization: Bearer pal_0123456789abcdefghijklmnopqrstuvwxyz\r\n"
                          "Cache-Control: no-cache\r\nLast-Event-ID: 42\r\n"
                          "Accept-Encoding: gzip, deflate, br\r\n\r\n";

static long resident_kb(void)
{
    long pages = 0, unused = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld %ld", &unused, &pages) != 2)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void raise_files(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Half of them are the second request of their connection. */
static void read_streams(int from, int to, unsigned count)
{
    uint16_t port;
    char done = 'd';
    raise_files();
    if (read(from, &port, sizeof port) != sizeof port)
        _exit(1);
    for (unsigned i = 0; i < count; i++) {
        int fd = client_open(port);
        if (i % 2 && !(client_say(fd, hello) && client_read_until(fd, "hello")))
            _exit(1);
        if (!client_say(fd, ask) || !client_read_until(fd, "data: 1\n\n"))
            _exit(1);
    }
    if (write(to, &done, 1) != 1 || read(from, &done, 1) != 0)
        _exit(1);
    _exit(0);
}

static void ten_thousand_streams_are_cheap(void)
{
    struct rlimit limit;
    unsigned count = STREAMS;
    int to_child[2], to_parent[2];
    char done;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < count + 512)
        count = (unsigned)limit.rlim_max - 512;
    if (!CHECK_EQ(pipe(to_child), 0) || !CHECK_EQ(pipe(to_parent), 0))
        return;
    pid_t child = fork();
    if (child == 0) {
        close(to_child[1]);
        read_streams(to_child[0], to_parent[1], count);
    }
    close(to_child[0]);
    pal_config_server config = toy_config();
    config.header_bytes_max = 16384;
    config.url_bytes_max = 8192;
    toy *it = toy_open(&config);
    uint16_t port = toy_port(it);
    long idle = resident_kb();
    CHECK_THAT(idle, <, IDLE_KB_MAX);
    CHECK_EQ(write(to_child[1], &port, sizeof port), sizeof port);
    CHECK_EQ(read(to_parent[0], &done, 1), 1);
    toy_await_streams(it, count);
    CHECK_EQ(toy_stream_write(it, "data: 2\n\n"), count);
    long resident = resident_kb();
    printf("# idle %ld KB, with %u streams %ld KB\n", idle, count, resident);
    CHECK_THAT(resident, <, RESIDENT_KB_MAX / STREAMS * (long)count + IDLE_KB_MAX);
    CHECK_THAT(resident, <, RESIDENT_KB_MAX);
    close(to_child[1]);
    waitpid(child, NULL, 0);
    toy_await_gone(it, count);
    toy_close(it);
}

/* The pages of a buffer are released only if the library's version is known to allow it. */
static void only_known_versions_release_pages(void)
{
    CHECK(pal_stream_can_release_pages("0.9.75"));
    CHECK(pal_stream_can_release_pages("0.9.77"));
    CHECK(pal_stream_can_release_pages("1.0.1"));
    CHECK(!pal_stream_can_release_pages("0.9.74"));
    CHECK(!pal_stream_can_release_pages("1.1.0"));
    CHECK(!pal_stream_can_release_pages("2.0.0"));
    CHECK(!pal_stream_can_release_pages("next"));
}

/* A sanitizer has memory of its own, so the numbers mean nothing. */
static bool is_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return true;
#endif
#endif
    return false;
}

int main(void)
{
    RUN(only_known_versions_release_pages);
    if (!is_sanitized())
        RUN(ten_thousand_streams_are_cheap);
    return tap_done();
}
