/* resident.h - the memory and the open files of this process. */
#ifndef PAL_TESTS_RESIDENT_H
#define PAL_TESTS_RESIDENT_H

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

/* Private memory only: mapped files, above all the program itself, are shared. */
static inline long resident_bytes(void)
{
    long pages = 0, shared = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file && fscanf(file, "%*s %ld %ld", &pages, &shared) != 2)
        pages = shared = 0;
    if (file)
        fclose(file);
    return (pages - shared) * sysconf(_SC_PAGESIZE);
}

static inline int open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;

    while (directory && readdir(directory))
        count++;
    if (directory)
        closedir(directory);
    return count - 3; /* ".", ".." and the directory itself */
}

/* A sanitizer uses memory that must not count. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RESIDENT_IS_OURS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RESIDENT_IS_OURS 0
#else
#define RESIDENT_IS_OURS 1
#endif
#else
#define RESIDENT_IS_OURS 1
#endif

#endif
