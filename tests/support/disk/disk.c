/* disk.c - see disk.h. Test files are small, so an image is simply the file's bytes in memory. */
#include "support/disk/disk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/memory.h"

#define SECTOR 512

typedef struct change {
    struct change *next;
    bool is_truncate;
    uint64_t offset; /* truncate: the new size */
    size_t len;
    char data[];
} change;

struct disk_file {
    struct disk_file *next;
    char *path;
    char *image;
    size_t size;
    change *first, *last; /* since the last sync, in order */
    bool is_named;        /* the directory entry is on the disk */
    bool is_removed;      /* removed, but perhaps not on the disk */
    bool is_journal;
};

static disk_file *files;
static uint64_t random_state;
static unsigned temper;

static void must(bool held, const char *what)
{
    if (!held) {
        perror(what);
        abort();
    }
}

static uint64_t random_next(void)
{
    uint64_t x = random_state += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Whether one change that was not synced reaches the disk. */
static bool survives(void)
{
    if (temper == 0)
        return false;
    return temper == 1 || random_next() % 2;
}

static void changes_free(disk_file *file)
{
    change *next;

    for (change *c = file->first; c; c = next) {
        next = c->next;
        pal_free(c);
    }
    file->first = file->last = NULL;
}

static void file_free(disk_file *file)
{
    changes_free(file);
    pal_free(file->path);
    pal_free(file->image);
    pal_free(file);
}

void disk_init(uint64_t seed)
{
    while (files) {
        disk_file *next = files->next;
        file_free(files);
        files = next;
    }
    random_state = seed;
    temper = seed % 4;
}

static void image_resize(disk_file *file, uint64_t size)
{
    if (size > file->size) {
        file->image = pal_realloc(file->image, size);
        must(file->image, "memory");
        memset(file->image + file->size, 0, size - file->size);
    }
    file->size = size;
}

static void image_write(disk_file *file, uint64_t offset, const char *data, size_t len)
{
    if (offset + len > file->size)
        image_resize(file, offset + len);
    memcpy(file->image + offset, data, len);
}

/* Each sector of a torn write is there or not. */
static void image_write_torn(disk_file *file, const change *c)
{
    size_t len;

    for (size_t at = 0; at < c->len; at += len) {
        len = SECTOR - (c->offset + at) % SECTOR;
        if (len > c->len - at)
            len = c->len - at;
        if (random_next() % 2)
            image_write(file, c->offset + at, c->data + at, len);
    }
}

static void change_apply(disk_file *file, const change *c)
{
    if (c->is_truncate)
        image_resize(file, c->offset);
    else
        image_write(file, c->offset, c->data, c->len);
}

/* Decides at random about every change since the last sync. */
static void changes_resolve(disk_file *file)
{
    for (change *c = file->first; c; c = c->next) {
        if (temper > 1 && !c->is_truncate && random_next() % 3 == 0)
            image_write_torn(file, c);
        else if (survives())
            change_apply(file, c);
    }
    changes_free(file);
}

static void image_read(disk_file *file)
{
    struct stat status;
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);

    must(fd >= 0 && fstat(fd, &status) == 0, file->path);
    image_resize(file, (uint64_t)status.st_size);
    must(pread(fd, file->image, file->size, 0) == (ssize_t)file->size, file->path);
    close(fd);
}

static disk_file *file_new(const char *path)
{
    disk_file *file = pal_calloc(1, sizeof(*file));
    size_t path_size = strlen(path) + 1;

    must(file, "memory");
    file->path = pal_malloc(path_size);
    must(file->path, "memory");
    memcpy(file->path, path, path_size);
    file->next = files;
    files = file;
    return file;
}

disk_file *disk_find(const char *path)
{
    disk_file *file = files;

    while (file && (file->is_removed || strcmp(file->path, path) != 0))
        file = file->next;
    if (!file) {
        file = file_new(path);
        file->is_named = true;
        image_read(file);
    }
    return file;
}

disk_file *disk_create(const char *path, bool is_journal)
{
    disk_file *file = file_new(path);

    file->is_journal = is_journal;
    return file;
}

static void change_add(
        disk_file *file, bool is_truncate, uint64_t offset, const void *data, size_t len)
{
    change *c = pal_malloc(sizeof(*c) + len);

    must(c, "memory");
    c->next = NULL;
    c->is_truncate = is_truncate;
    c->offset = offset;
    c->len = len;
    if (len)
        memcpy(c->data, data, len);
    if (file->last)
        file->last->next = c;
    else
        file->first = c;
    file->last = c;
}

void disk_write(disk_file *file, uint64_t offset, const void *data, size_t len)
{
    change_add(file, false, offset, data, len);
}

void disk_truncate(disk_file *file, uint64_t size)
{
    change_add(file, true, size, NULL, 0);
}

/* Permanently removes deleted files: those with this name, or all of them if it is NULL. */
static void ghosts_forget(const char *path)
{
    disk_file **link = &files;

    while (*link) {
        disk_file *file = *link;
        if (file->is_removed && (!path || strcmp(file->path, path) == 0)) {
            *link = file->next;
            file_free(file);
        } else {
            link = &file->next;
        }
    }
}

/* All files are in one directory. */
static void directory_sync(void)
{
    ghosts_forget(NULL);
    for (disk_file *file = files; file; file = file->next)
        file->is_named = true;
}

void disk_sync(disk_file *file)
{
    for (change *c = file->first; c; c = c->next)
        change_apply(file, c);
    changes_free(file);
    if (!file->is_named && file->is_journal)
        directory_sync();
    file->is_named = true;
    ghosts_forget(file->path);
}

void disk_sync_failed(disk_file *file)
{
    changes_resolve(file);
}

void disk_delete(const char *path, bool is_synced)
{
    for (disk_file *file = files; file; file = file->next)
        if (strcmp(file->path, path) == 0)
            file->is_removed = true;
    if (is_synced)
        directory_sync();
}

static void image_store(const disk_file *file)
{
    int fd = open(file->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    must(fd >= 0, file->path);
    must(write(fd, file->image, file->size) == (ssize_t)file->size, file->path);
    close(fd);
}

/* The first process that opens the store rebuilds the shared memory file, so its contents must not
 * matter. */
static void scribble_shm(const disk_file *file)
{
    char path[4096];
    char noise[SECTOR];
    int fd;

    snprintf(path, sizeof(path), "%s-shm", file->path);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    for (int i = 0; i < 64; i++) {
        memset(noise, (int)random_next(), sizeof(noise));
        must(write(fd, noise, sizeof(noise)) == sizeof(noise), path);
    }
    close(fd);
}

void disk_cut(void)
{
    for (disk_file *file = files; file; file = file->next) {
        if (!file->is_removed)
            scribble_shm(file);
        changes_resolve(file);
        unlink(file->path);
    }
    for (disk_file *file = files; file; file = file->next)
        if ((file->is_named && !file->is_removed) || survives())
            image_store(file);
}
