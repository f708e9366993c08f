/* postgres_ask.h - runs statements on the server that tools/pg-test started. */
#ifndef PAL_TESTS_POSTGRES_ASK_H
#define PAL_TESTS_POSTGRES_ASK_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Runs a statement and reads a number from its answer; 0 if there is none. */
static inline long postgres_ask(const char *statement)
{
    char command[1024];
    long number = 0;
    FILE *out;

    snprintf(command, sizeof command, "psql -qAtX '%s' -c \"%s\" 2>/dev/null",
            getenv("PALAVER_TEST_POSTGRES"), statement);
    out = popen(command, "r");
    if (out && fscanf(out, "%ld", &number) != 1)
        number = 0;
    if (out)
        pclose(out);
    return number;
}

/* Crashes the server and waits until it accepts connections again: "immediate" ends its processes
 * without a checkpoint, "kill" sends SIGKILL to the postmaster. */
static inline bool postgres_restart(const char *how)
{
    char command[512];

    snprintf(command, sizeof command, "'%s/restart' %s >/dev/null 2>&1",
            getenv("PALAVER_TEST_POSTGRES_DIR"), how);
    return system(command) == 0;
}

#endif
