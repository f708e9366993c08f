/* disk.h - what a disk would hold after a power cut.
 *
 * Each file has an image, which is what certainly is on the disk, and the changes since its last
 * sync, of which a power cut may keep any, in whole sectors. A file's name is as volatile as its
 * content: a new file may be gone, a removed one may be back. The seed decides all of it.
 *
 * One thread at a time; fault_vfs holds its lock around every call. */
#ifndef PAL_TESTS_DISK_H
#define PAL_TESTS_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct disk_file disk_file;

/* Forgets everything. The seed also picks the temper: one in four loses all that was not synced,
 * one in four keeps it, the others mix. */
void disk_init(uint64_t seed);

/* The file `path`, which is there already and was durably so. Valid until disk_delete(). */
disk_file *disk_find(const char *path);
/* The file `path`, which was made just now. With `is_journal`, its first sync is followed by one of
 * the directory, as SQLite does for journals and logs; else it makes its own name durable only. */
disk_file *disk_create(const char *path, bool is_journal);

void disk_write(disk_file *file, uint64_t offset, const void *data, size_t len);
void disk_truncate(disk_file *file, uint64_t size);
void disk_sync(disk_file *file);
/* The kernel reported the failure once and now holds the pages for clean: what did not reach the
 * disk never will, however often the file is synced again. */
void disk_sync_failed(disk_file *file);
void disk_delete(const char *path, bool is_synced);

/* Rewrites the real files as the disk would hold them. The process must end without more I/O. */
void disk_cut(void);

#endif
