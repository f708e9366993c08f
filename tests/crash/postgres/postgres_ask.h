/* postgres_ask.h - runs statements on the server that tools/pg-test started. */
#ifndef PAL_TESTS_POSTGRES_ASK_H
#define PAL_TESTS_POSTGRES_ASK_H

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

#endif
