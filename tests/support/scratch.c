/* scratch.c - see scratch.h. */
#include "support/scratch.h"

#include <dirent.h>
#include <fcntl.h>
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

void scratch_clear(const char *path, bool itself)
{
    DIR *directory = opendir(path);
    struct dirent *entry;

    if (!directory)
        return;
    while ((entry = readdir(directory)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    if (itself)
        rmdir(path);
}
