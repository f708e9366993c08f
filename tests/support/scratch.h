/* scratch.h - a directory for one test's files. */
#ifndef PAL_TESTS_SCRATCH_H
#define PAL_TESTS_SCRATCH_H

#include <stdbool.h>

#define SCRATCH_PATH_MAX 256

/* Makes a new directory; with `in_memory`, on a file system without a disk where there is one: for
 * tests that bring their own disk. Ends the program when it can't. */
void scratch_make(bool in_memory, char out_path[SCRATCH_PATH_MAX]);

/* Removes the files in it, and the directory itself with `itself`. */
void scratch_clear(const char *path, bool itself);

#endif
