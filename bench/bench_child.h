/* bench_child.h - starts servers as separate processes. Ends the program if one does not start. */
#ifndef PAL_BENCH_CHILD_H
#define PAL_BENCH_CHILD_H

#include <stdint.h>
#include <sys/types.h>

typedef struct child {
    pid_t pid;
    int out;
    uint16_t port;
    int64_t started_us; /* time until it printed the line with its port */
} child;

/* Starts a program in the directory. Its first line of output must end with ":PORT". Its standard
 * error output is written to the file `log`. */
void child_start(
        child *out_child, const char *directory, const char *log, const char *const argv[]);
void child_stop(child *self);
/* Runs a program and waits for its end. */
void child_run(const char *const argv[]);

/* CPU time of the process so far, in microseconds. */
double child_cpu_us(const child *self);

/* Resident memory: all of it, and the part that does not belong to files. */
uint64_t child_resident(const child *self);
uint64_t child_anonymous(const child *self);

#endif
