/* cli_signals.c - records signals for a thread that waits. A handler only sets a flag and writes
 * to an eventfd, which stays readable, so a signal between the check and the wait is not lost.
 * The state is global, because signals belong to the process. */
#include "cli/terminal/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted, ended;
static int wake_fd = -1;

void pal_signals_wake(void)
{
    uint64_t one = 1;
    ssize_t written = write(wake_fd, &one, sizeof one);
    (void)written; /* if the counter is full, the waiting thread is awake already */
}

static void note(int number)
{
    int kept = errno;
    if (number == SIGINT)
        interrupted = 1;
    else
        ended = 1;
    pal_signals_wake();
    errno = kept;
}

pal_status pal_signals_open(pal_cli *cli)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = note};
    wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake_fd < 0)
        return pal_error_set(&cli->err, PAL_IO, "could not wait for signals: %s", strerror(errno));
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
    return PAL_OK;
}

void pal_signals_close(void)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    if (wake_fd >= 0)
        close(wake_fd);
    wake_fd = -1;
}

bool pal_signals_wait(int fd, int timeout_ms)
{
    struct pollfd waited[2] = {{.fd = wake_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    uint64_t count;
    if (poll(waited, 2, timeout_ms) <= 0)
        return false;
    if (waited[0].revents) {
        ssize_t len = read(wake_fd, &count, sizeof count);
        (void)len; /* only resets the counter, so that the next wait blocks */
    }
    return waited[1].revents != 0;
}

bool pal_signals_interrupted(void)
{
    bool was = interrupted;
    interrupted = 0;
    return was;
}

bool pal_signals_ended(void)
{
    return ended;
}
