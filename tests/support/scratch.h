/* scratch.h - a directory for the files of one test. */
#ifndef PAL_TESTS_SCRATCH_H
#define PAL_TESTS_SCRATCH_H

#include <stdbool.h>

#define SCRATCH_PATH_MAX 256

/* Creates a directory; with `in_memory`, on a file system in memory if there is one, for tests that
 * simulate the disk. Ends the program if it cannot. */
void scratch_make(bool in_memory, char out_path[SCRATCH_PATH_MAX]);

/* Removes the files in it; with `itself`, also the directory. */
void scratch_clear(const char *path, bool itself);

#endif
