/* scratch.c - see scratch.h. */
#include "support/scratch.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void scratch_make(bool in_memory, char out_path[SCRATCH_PATH_MAX])
{
    const char *parent = getenv("TMPDIR");

    if (in_memory && access("/dev/shm", W_OK) == 0)
        parent = "/dev/shm";
    snprintf(out_path, SCRATCH_PATH_MAX, "%s/palaver-test-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(out_path)) {
        perror(out_path);
        exit(1);
    }
}

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *walk)
{
    (void)facts;
    (void)kind;
    return walk->level > 0 ? remove(path) : 0;
}

void scratch_clear(const char *path, bool itself)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (itself)
        rmdir(path);
}
