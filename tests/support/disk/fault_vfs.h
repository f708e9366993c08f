/* fault_vfs.h - a SQLite VFS over the real one that counts I/O steps and fails, kills or cuts the
 * power at one of them. Installed as the default, so whatever opens a database afterwards uses it.
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
    FAULT_SYNC = 4,        /* a sync fails, and what it should have kept may be lost for good */
    FAULT_FULL = 5,        /* writes fail with "disk full" from that step on */
    FAULT_FULL_ONCE = 6,
    FAULT_KILL_BEFORE = 7, /* SIGKILL before the step */
    FAULT_KILL_AFTER = 8,
    FAULT_KILL_MIDDLE = 9, /* SIGKILL with half of a write done */
    FAULT_POWER_CUT = 10,  /* before the step; needs tracking */
    FAULT_READ_PAGE = 11,  /* a read fails as the system's VFS reports EIO */
} fault_kind;

/* Makes it the process's default VFS; a second call does nothing. */
void fault_vfs_install(void);

/* From now on, keep what a power cut would leave; before any database is opened. */
void fault_vfs_track(uint64_t seed);

/* Fires at the step `at`, counting from 1 those steps that the kind can hit. */
void fault_vfs_arm(fault_kind kind, uint64_t at);
void fault_vfs_clear(void);

bool fault_vfs_fired(void);     /* since it was armed */
uint64_t fault_vfs_steps(void); /* likewise, of that kind */

/* Cuts the power now; does not return. */
void fault_vfs_power_cut(void) __attribute__((noreturn));

#endif
