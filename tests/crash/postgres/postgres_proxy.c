/* postgres_proxy.c - see postgres_proxy.h. One thread per connection. */
#include "postgres_proxy.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MESSAGE_MAX (8u << 20)
#define ANSWER_WAIT_MS 60 /* the server works on what it got before the cut */

static struct sockaddr_un server_at;
static atomic_uint cut_at, cut_how, refusals;
static atomic_bool fired;
static void (*_Atomic hook)(void);
static const char *_Atomic version;

void postgres_proxy_arm(unsigned nth, cut_kind kind)
{
    atomic_store(&fired, false);
    atomic_store(&cut_how, kind);
    atomic_store(&cut_at, nth);
}

void postgres_proxy_set_hook(void (*on_cut)(void))
{
    atomic_store(&hook, on_cut);
}

void postgres_proxy_set_version(const char *major)
{
    atomic_store(&version, major);
}

void postgres_proxy_refuse(unsigned connections)
{
    atomic_store(&refusals, connections);
}

bool postgres_proxy_fired(void)
{
    return atomic_load(&fired);
}

static bool read_all(int fd, unsigned char *data, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t got = read(fd, data + at, len - at);

        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const unsigned char *data, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t put = send(fd, data + at, len - at, MSG_NOSIGNAL);

        if (put <= 0)
            return false;
        at += (size_t)put;
    }
    return true;
}

static bool is_cut(void)
{
    unsigned left = atomic_load(&cut_at);

    if (left == 0 || atomic_fetch_sub(&cut_at, 1) != 1)
        return false;
    atomic_store(&fired, true);
    return true;
}

/* Reads one message of the client: a type, unless it is the first, and a length that counts
 * itself. Returns false if the connection must end. */
static bool pass_message(int client, int server, bool *is_first, unsigned char *data)
{
    size_t head = *is_first ? 4 : 5, len;

    if (!read_all(client, data, head))
        return false;
    len = (size_t)data[head - 4] << 24 | (size_t)data[head - 3] << 16 |
            (size_t)data[head - 2] << 8 | data[head - 1];
    len += head - 4;
    if (len < head || len > MESSAGE_MAX || !read_all(client, data + head, len - head))
        return false;
    if (!*is_first && is_cut()) {
        if (atomic_load(&cut_how) == CUT_INSIDE)
            write_all(server, data, len / 2);
        if (atomic_load(&cut_how) == CUT_AFTER && write_all(server, data, len)) {
            if (atomic_load(&hook))
                atomic_load(&hook)();
            else
                usleep(ANSWER_WAIT_MS * 1000);
        }
        return false;
    }
    *is_first = false;
    return write_all(server, data, len);
}

/* The answer to a new connection has the name and then the value, each with a zero byte. */
static void change_version(unsigned char *data, size_t len)
{
    static const char name[] = "server_version";
    unsigned char *at = atomic_load(&version) ? memmem(data, len, name, sizeof name) : NULL;

    if (at && at + sizeof name + 2 <= data + len)
        memcpy(at + sizeof name, atomic_load(&version), 2);
}

/* Answers the first message of a connection with an error, whose last byte ends the list of its
 * fields. */
static bool refuse(int client)
{
    static const unsigned char error[] = "E\0\0\0\x2d" "SFATAL\0" "VFATAL\0" "C57P03\0"
                                         "Mnot yet accepting\0";
    unsigned left = atomic_load(&refusals);

    if (left == 0)
        return false;
    atomic_store(&refusals, left - 1);
    write_all(client, error, sizeof error);
    return true;
}

static void *serve(void *argument)
{
    int client = (int)(intptr_t)argument;
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unsigned char *data = malloc(MESSAGE_MAX);
    bool is_open = data && connect(server, (struct sockaddr *)&server_at, sizeof server_at) == 0;
    bool is_first = true;

    while (is_open) {
        struct pollfd fds[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        ssize_t len;

        poll(fds, 2, -1);
        if (fds[0].revents && is_first && refuse(client))
            is_open = false;
        else if (fds[0].revents)
            is_open = pass_message(client, server, &is_first, data);
        else if (fds[1].revents) {
            len = read(server, data, MESSAGE_MAX);
            if (len > 0)
                change_version(data, (size_t)len);
            is_open = len > 0 && write_all(client, data, (size_t)len);
        }
    }
    free(data);
    close(client);
    close(server);
    return NULL;
}

static void *listen_for(void *argument)
{
    int listener = (int)(intptr_t)argument;

    for (;;) {
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        pthread_t thread;

        if (client >= 0 && pthread_create(&thread, NULL, serve, (void *)(intptr_t)client) == 0)
            pthread_detach(thread);
    }
    return NULL;
}

bool postgres_proxy_start(const char *directory, const char *server_dir)
{
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un here = {.sun_family = AF_UNIX};
    pthread_t thread;

    server_at.sun_family = AF_UNIX;
    snprintf(here.sun_path, sizeof here.sun_path, "%.80s/.s.PGSQL.5432", directory);
    snprintf(server_at.sun_path, sizeof server_at.sun_path, "%.80s/.s.PGSQL.5432", server_dir);
    return bind(listener, (struct sockaddr *)&here, sizeof here) == 0 && listen(listener, 64) == 0 &&
            pthread_create(&thread, NULL, listen_for, (void *)(intptr_t)listener) == 0 &&
            pthread_detach(thread) == 0;
}
