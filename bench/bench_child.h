/* bench_child.h - servers as processes of their own. Ends the program when one does not start. */
#ifndef PAL_BENCH_CHILD_H
#define PAL_BENCH_CHILD_H

#include <stdint.h>
#include <sys/types.h>

typedef struct child {
    pid_t pid;
    int out;
    uint16_t port;
    int64_t started_us; /* how long it took to the line with its port */
} child;

/* Starts a program in the directory, whose first line of output ends with ":PORT". What it says to
 * the standard error output goes to the file `log`. */
void child_start(
        child *out_child, const char *directory, const char *log, const char *const argv[]);
void child_stop(child *self);
/* Runs a program to its end. */
void child_run(const char *const argv[]);

/* Resident memory: all of it, and without the pages of files. */
uint64_t child_resident(const child *self);
uint64_t child_anonymous(const child *self);

#endif
