/* observe_notify.c - systemd's notifications without its library: the protocol is one datagram. */
#include "server/observe/observe_notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"

void pal_notify(const char *state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t len = path ? strlen(path) : 0;
    if (len < 2 || len >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(address.sun_path, path, len);
    if (path[0] == '@') /* an abstract socket */
        address.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, size) < 0)
        pal_log(PAL_LOG_DEBUG, "could not notify systemd of '%s'", state);
    close(fd);
}

void pal_notify_reloading(void)
{
    char state[64];
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%lld",
            (long long)pal_clock_monotonic_us());
    pal_notify(state);
}

int64_t pal_notify_watchdog_us(void)
{
    const char *text = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    if (!text || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    long long us = strtoll(text, NULL, 10);
    return us > 0 ? us : 0;
}
