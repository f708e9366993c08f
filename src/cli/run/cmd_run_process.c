/* cmd_run_process.c - runs a client in the foreground.
 *
 * The client stays in the process group of this command, so that the terminal sends its signals
 * (Ctrl-C, Ctrl-Z, a changed size) to the client directly. This process ignores those, and forwards
 * signals that another process sends to it alone. If the client stops, this process stops too, so
 * that the shell can continue both.
 *
 * The handler runs on any thread and only calls kill(). */
#include "cli/run/cmd_run.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIGNAL_BASE 128 /* a shell adds this to the number of the signal that ended a program */

static const int forwarded[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
static const int ignored[] = {SIGTSTP, SIGTTIN, SIGTTOU};
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static atomic_int client_pid;   /* 0: not started yet */
static atomic_int early_signal; /* arrived before the client was started; 0: none */

/* ---- Finding the program ---- */

static bool is_program(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

const char *pal_run_program_find(pal_cli *cli, const char *program)
{
    const char *rest = getenv("PATH");
    char path[PATH_MAX];
    while (rest && *rest) {
        size_t len = strcspn(rest, ":");
        int written = snprintf(path, sizeof path, "%.*s/%s", len ? (int)len : 1, len ? rest : ".",
                program);
        if (written > 0 && (size_t)written < sizeof path && is_program(path))
            return pal_arena_copy(cli->arena, pal_str_of(path)).data;
        rest += len + (rest[len] == ':');
    }
    return NULL;
}

/* ---- Signals ---- */

/* The kernel sends the signals of a terminal to the client as well. */
static void forward(int number, siginfo_t *info, void *context)
{
    int kept = errno, pid = atomic_load(&client_pid);
    (void)context;
    if (info->si_code > 0)
        return;
    if (pid)
        kill(pid, number);
    else
        atomic_store(&early_signal, number);
    errno = kept;
}

static void watch_signals(void)
{
    struct sigaction action = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < COUNT_OF(forwarded); i++)
        sigaction(forwarded[i], &action, NULL);
    for (size_t i = 0; i < COUNT_OF(ignored); i++)
        signal(ignored[i], SIG_IGN);
}

/* ---- Running ---- */

/* The client begins with the default actions of all signals that this process ignores. */
static int spawn(const char *path, const pal_run_setup *setup, pid_t *out_pid)
{
    posix_spawnattr_t attributes;
    sigset_t reset;
    int failed = posix_spawnattr_init(&attributes);
    if (failed)
        return failed;
    sigemptyset(&reset);
    sigaddset(&reset, SIGPIPE);
    sigaddset(&reset, SIGXFSZ);
    for (size_t i = 0; i < COUNT_OF(ignored); i++)
        sigaddset(&reset, ignored[i]);
    posix_spawnattr_setsigdefault(&attributes, &reset);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    failed = posix_spawn(out_pid, path, NULL, &attributes, (char *const *)setup->args,
            (char *const *)setup->environment);
    posix_spawnattr_destroy(&attributes);
    return failed;
}

static int wait_for(pid_t pid)
{
    int status = 0;
    for (;;) {
        if (waitpid(pid, &status, WUNTRACED) < 0) {
            if (errno != EINTR)
                return EXIT_FAILURE;
        } else if (WIFSTOPPED(status)) {
            kill(getpid(), SIGSTOP);
            kill(pid, SIGCONT);
        } else {
            return WIFSIGNALED(status) ? SIGNAL_BASE + WTERMSIG(status) : WEXITSTATUS(status);
        }
    }
}

pal_status pal_run_process(pal_cli *cli, const char *path, const pal_run_setup *setup)
{
    pid_t pid = 0;
    watch_signals();
    int failed = spawn(path, setup, &pid);
    if (failed)
        return pal_error_set(
                &cli->err, PAL_IO, "could not start '%.160s': %s", path, strerror(failed));
    atomic_store(&client_pid, pid);
    if (atomic_load(&early_signal))
        kill(pid, atomic_load(&early_signal));
    cli->exit_code = wait_for(pid);
    atomic_store(&client_pid, 0);
    return PAL_OK;
}
