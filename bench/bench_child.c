/* bench_child.c - see bench_child.h. */
#include "bench_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"

static void die(const char *what, const char *name)
{
    fprintf(stderr, "bench-server: %s: %s: %s\n", name, what, strerror(errno));
    exit(1);
}

static void become(const char *directory, const char *log, const char *const argv[])
{
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* no server survives when the benchmark is stopped */
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || chdir(directory) != 0)
        _exit(126);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

/* "... http://127.0.0.1:41234\n" */
static uint16_t read_port(int fd, const char *name)
{
    char line[256];
    size_t len = 0;

    while (len + 1 < sizeof(line)) {
        ssize_t got = read(fd, line + len, 1);

        if (got <= 0)
            die("it ended before it listened", name);
        if (line[len++] == '\n')
            break;
    }
    line[len] = 0;
    return (uint16_t)strtoul(strrchr(line, ':') ? strrchr(line, ':') + 1 : "0", NULL, 10);
}

void child_start(child *out_child, const char *directory, const char *log, const char *const argv[])
{
    int ends[2];
    int64_t start = pal_clock_monotonic_us();

    if (pipe(ends) != 0 || (out_child->pid = fork()) < 0)
        die("it could not be started", argv[0]);
    if (out_child->pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        become(directory, log, argv);
    }
    close(ends[1]);
    out_child->out = ends[0];
    out_child->port = read_port(ends[0], argv[0]);
    out_child->started_us = pal_clock_monotonic_us() - start;
}

void child_stop(child *self)
{
    kill(self->pid, SIGTERM);
    waitpid(self->pid, NULL, 0);
    close(self->out);
}

void child_run(const char *const argv[])
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        die("it failed", argv[0]);
}

static uint64_t status_bytes(const child *self, const char *name)
{
    char path[64], line[256];
    unsigned long long kib = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)self->pid);
    file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtoull(line + strlen(name), NULL, 10);
    if (file)
        fclose(file);
    return kib * 1024;
}

double child_cpu_us(const child *self)
{
    struct timespec spent = {0};
    clockid_t clock;

    if (clock_getcpuclockid(self->pid, &clock) != 0 || clock_gettime(clock, &spent) != 0) {
        perror("the clock of a process");
        exit(1);
    }
    return (double)spent.tv_sec * 1e6 + (double)spent.tv_nsec / 1e3;
}

uint64_t child_resident(const child *self)
{
    return status_bytes(self, "VmRSS:");
}

uint64_t child_anonymous(const child *self)
{
    return status_bytes(self, "RssAnon:");
}
