/* test_process.c - names of processes, and which of them are dead. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "support/tap.h"

/* The name of a child that lives until the pipe is closed. */
static pid_t start_child(int *out_fd, char out_name[static PAL_PROCESS_NAME_SIZE])
{
    int down[2], up[2];
    pid_t child;
    char byte;

    CHECK_EQ(pipe(down), 0);
    CHECK_EQ(pipe(up), 0);
    child = fork();
    if (child == 0) {
        char name[PAL_PROCESS_NAME_SIZE] = {0};

        close(down[1]);
        pal_process_name(name);
        if (write(up[1], name, sizeof(name)) != (ssize_t)sizeof(name))
            _exit(1);
        _exit(read(down[0], &byte, 1) != 0);
    }
    close(down[0]);
    close(up[1]);
    CHECK_EQ(read(up[0], out_name, PAL_PROCESS_NAME_SIZE), PAL_PROCESS_NAME_SIZE);
    close(up[0]);
    *out_fd = down[1];
    return child;
}

static void a_living_process_is_not_dead(void)
{
    char name[PAL_PROCESS_NAME_SIZE], longer[PAL_PROCESS_NAME_SIZE + 8];

    pal_process_name(name);
    CHECK(!pal_process_is_dead(pal_str_of(name)));
    CHECK_EQ(pal_process_is_alive(pal_str_of(name)), (strchr(name, '@') != NULL));
    snprintf(longer, sizeof(longer), "%s:more", name);
    CHECK(!pal_process_is_dead(pal_str_of(longer)));
}

static void a_process_that_ended_is_dead(void)
{
    char name[PAL_PROCESS_NAME_SIZE], longer[PAL_PROCESS_NAME_SIZE + 8];
    int fd;
    pid_t child = start_child(&fd, name);

    CHECK(!pal_process_is_dead(pal_str_of(name)));
    close(fd);
    CHECK_EQ(waitpid(child, NULL, 0), child);
    /* If the name has no machine number, the answer is unknown. */
    CHECK_EQ(pal_process_is_dead(pal_str_of(name)), (strchr(name, '@') != NULL));
    CHECK(!pal_process_is_alive(pal_str_of(name)));
    snprintf(longer, sizeof(longer), "%s:more", name);
    CHECK_EQ(pal_process_is_dead(pal_str_of(longer)), (strchr(name, '@') != NULL));
}

static void a_reused_pid_is_a_different_process(void)
{
    char name[PAL_PROCESS_NAME_SIZE];
    size_t len;

    pal_process_name(name);
    len = strlen(name);
    if (!strchr(name, '@'))
        return;
    name[len - 1] = name[len - 1] == '0' ? '1' : '0';
    CHECK(pal_process_is_dead(pal_str_of(name)));
}

static void unknown_processes_are_not_reported_as_dead(void)
{
    char name[PAL_PROCESS_NAME_SIZE];
    char *at;

    CHECK(!pal_process_is_dead((pal_str){0}));
    CHECK(!pal_process_is_dead(pal_str_of("dead")));
    CHECK(!pal_process_is_dead(pal_str_of("1999999999")));
    CHECK(!pal_process_is_dead(pal_str_of("1999999999:01a1ea5c-afea-74b8-a4bb-5106708cbed4")));
    CHECK(!pal_process_is_dead(pal_str_of("1999999999@0123456789ab.f0000001.1f")));
    pal_process_name(name);
    at = strchr(name, '@');
    if (!at)
        return;
    at[1] = at[1] == 'f' ? 'e' : 'f';
    name[0] = '9'; /* another number on another machine */
    CHECK(!pal_process_is_dead(pal_str_of(name)));
}

int main(void)
{
    RUN(a_living_process_is_not_dead);
    RUN(a_process_that_ended_is_dead);
    RUN(a_reused_pid_is_a_different_process);
    RUN(unknown_processes_are_not_reported_as_dead);
    return tap_done();
}
