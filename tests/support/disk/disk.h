/* disk.h - the contents of a disk after a power cut.
 *
 * Each file has an image, which is certainly on the disk, and the changes since its last sync. A
 * power cut keeps any of these changes, in units of sectors. The name of a file is as volatile as
 * its contents: a new file can be gone, and a removed file can be back. The seed decides.
 *
 * Used by one thread at a time; fault_vfs holds its lock during every call. */
#ifndef PAL_TESTS_DISK_H
#define PAL_TESTS_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct disk_file disk_file;

/* Forgets everything. The seed also chooses the mode: one in four seeds loses everything that was
 * not synced, one in four keeps everything, and the others mix. */
void disk_init(uint64_t seed);

/* The file `path`, which exists and is durable. Valid until disk_delete(). */
disk_file *disk_find(const char *path);
/* The file `path`, which was created just now. With `is_journal`, its first sync is followed by a
 * sync of the directory, as SQLite does for journals and logs; otherwise a sync makes only this
 * name durable. */
disk_file *disk_create(const char *path, bool is_journal);

void disk_write(disk_file *file, uint64_t offset, const void *data, size_t len);
void disk_truncate(disk_file *file, uint64_t size);
void disk_sync(disk_file *file);
/* Simulates a failed sync. The kernel reported the failure once and considers the pages clean now:
 * data that did not reach the disk never will, however often the file is synced again. */
void disk_sync_failed(disk_file *file);
void disk_delete(const char *path, bool is_synced);

/* Rewrites the real files to the contents of the disk. The process must end without more I/O. */
void disk_cut(void);

#endif
