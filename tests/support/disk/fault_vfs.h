/* fault_vfs.h - a SQLite VFS that wraps the real one, counts I/O steps, and fails, kills the
 * process or cuts the power at one of them. It is installed as the default VFS, so it is used for
 * every database that is opened afterwards.
 *
 * Threads: all calls from any thread. Every step that changes something runs under one lock. */
#ifndef PAL_TESTS_FAULT_VFS_H
#define PAL_TESTS_FAULT_VFS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum fault_kind {
    FAULT_NONE = 0,
    FAULT_IO = 1,          /* the step (open, write, truncate, delete, shm) fails */
    FAULT_READ = 2,        /* a read fails */
    FAULT_SHORT_WRITE = 3, /* half of the bytes reach the file, then the write fails */
    FAULT_SYNC = 4,        /* a sync fails, and the data that it covers may be lost permanently */
    FAULT_FULL = 5,        /* writes fail with "disk full" from that step on */
    FAULT_FULL_ONCE = 6,
    FAULT_KILL_BEFORE = 7, /* SIGKILL before the step */
    FAULT_KILL_AFTER = 8,
    FAULT_KILL_MIDDLE = 9, /* SIGKILL after half of a write */
    FAULT_POWER_CUT = 10,  /* before the step; requires tracking */
    FAULT_READ_PAGE = 11,  /* a read fails as the system's VFS reports EIO */
} fault_kind;

/* Makes it the default VFS of the process; a second call does nothing. */
void fault_vfs_install(void);

/* From now on, tracks what a power cut would leave. Call it before any database is opened. */
void fault_vfs_track(uint64_t seed);

/* Fires at step `at`, counted from 1 among the steps that this kind can hit. */
void fault_vfs_arm(fault_kind kind, uint64_t at);
void fault_vfs_clear(void);

/* Returns true if the fault has fired since it was armed. */
bool fault_vfs_fired(void);

/* Cuts the power now; does not return. */
void fault_vfs_power_cut(void) __attribute__((noreturn));

#endif
