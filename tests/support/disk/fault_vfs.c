/* fault_vfs.c - see fault_vfs.h. Locks, file sizes and shared memory go directly to the real VFS.
 * The methods are those of version 2: without xFetch, all pages are read with xRead. */
#include "support/disk/fault_vfs.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <unistd.h>
#include "support/disk/disk.h"

typedef enum step {
    STEP_OPEN = 1 << 0,
    STEP_READ = 1 << 1,
    STEP_WRITE = 1 << 2,
    STEP_SYNC = 1 << 3,
    STEP_TRUNCATE = 1 << 4,
    STEP_DELETE = 1 << 5,
    STEP_SHM = 1 << 6,
    STEP_CHANGES = STEP_OPEN | STEP_WRITE | STEP_SYNC | STEP_TRUNCATE | STEP_DELETE | STEP_SHM,
} step;

static const int kind_steps[] = {
        [FAULT_IO] = STEP_CHANGES & ~STEP_SYNC,
        [FAULT_READ] = STEP_READ,
        [FAULT_SHORT_WRITE] = STEP_WRITE,
        [FAULT_SYNC] = STEP_SYNC,
        [FAULT_FULL] = STEP_WRITE,
        [FAULT_FULL_ONCE] = STEP_WRITE,
        [FAULT_KILL_BEFORE] = STEP_CHANGES,
        [FAULT_KILL_AFTER] = STEP_CHANGES,
        [FAULT_KILL_MIDDLE] = STEP_WRITE,
        [FAULT_POWER_CUT] = STEP_CHANGES,
        [FAULT_READ_PAGE] = STEP_READ,
};

typedef struct fault_file {
    sqlite3_file base;
    disk_file *disk;     /* NULL while files are not tracked, and for temporary files */
    sqlite3_file *inner; /* stored after this struct */
} fault_file;

/* Recursive, because a power cut can happen inside of a step. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static fault_kind armed;
static uint64_t armed_at, steps;
static bool fired, tracking;
static sqlite3_vfs *real;
static sqlite3_vfs vfs;

static sqlite3_file *inner_of(sqlite3_file *file)
{
    return ((fault_file *)file)->inner;
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

void fault_vfs_power_cut(void)
{
    pthread_mutex_lock(&lock);
    disk_cut();
    die();
    __builtin_unreachable();
}

/* Counts the step. Returns the fault that the caller must simulate now: one that fails the call, or
 * a kill after or in the middle of it. */
static fault_kind step_begin(step what)
{
    bool hit;

    if (armed == FAULT_NONE || !(kind_steps[armed] & what))
        return FAULT_NONE;
    steps++;
    hit = steps == armed_at || (armed == FAULT_FULL && steps > armed_at);
    if (!hit)
        return FAULT_NONE;
    fired = true;
    if (armed == FAULT_KILL_BEFORE)
        die();
    if (armed == FAULT_POWER_CUT)
        fault_vfs_power_cut();
    return armed;
}

static int step_end(fault_kind fault, int rc)
{
    if (fault == FAULT_KILL_AFTER)
        die();
    return rc;
}

static bool is_failing(fault_kind fault)
{
    return fault != FAULT_NONE && fault != FAULT_KILL_AFTER;
}

/* ---- File methods ---- */

static int file_close(sqlite3_file *file)
{
    sqlite3_file *inner = inner_of(file);
    int rc;

    rc = inner->pMethods->xClose(inner);
    file->pMethods = NULL;
    return rc;
}

static int file_read(sqlite3_file *file, void *data, int len, sqlite3_int64 offset)
{
    sqlite3_file *inner = inner_of(file);
    fault_kind fault;

    pthread_mutex_lock(&lock);
    fault = step_begin(STEP_READ);
    pthread_mutex_unlock(&lock);
    if (fault == FAULT_READ_PAGE) {
        errno = EIO;
        return SQLITE_IOERR_CORRUPTFS;
    }
    if (is_failing(fault))
        return SQLITE_IOERR_READ;
    return inner->pMethods->xRead(inner, data, len, offset);
}

static int write_through(fault_file *file, const void *data, int len, sqlite3_int64 offset)
{
    int rc = file->inner->pMethods->xWrite(file->inner, data, len, offset);

    if (rc == SQLITE_OK && file->disk)
        disk_write(file->disk, (uint64_t)offset, data, (size_t)len);
    return rc;
}

static int file_write(sqlite3_file *base, const void *data, int len, sqlite3_int64 offset)
{
    fault_file *file = (fault_file *)base;
    fault_kind fault;
    int rc = SQLITE_IOERR_WRITE;

    pthread_mutex_lock(&lock);
    fault = step_begin(STEP_WRITE);
    if (fault == FAULT_SHORT_WRITE || fault == FAULT_KILL_MIDDLE)
        write_through(file, data, len / 2, offset);
    if (fault == FAULT_KILL_MIDDLE)
        die();
    if (fault == FAULT_FULL || fault == FAULT_FULL_ONCE)
        rc = SQLITE_FULL;
    else if (!is_failing(fault))
        rc = step_end(fault, write_through(file, data, len, offset));
    pthread_mutex_unlock(&lock);
    return rc;
}

static int file_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    fault_file *file = (fault_file *)base;
    fault_kind fault;
    int rc = SQLITE_IOERR_TRUNCATE;

    pthread_mutex_lock(&lock);
    fault = step_begin(STEP_TRUNCATE);
    if (!is_failing(fault)) {
        rc = file->inner->pMethods->xTruncate(file->inner, size);
        if (rc == SQLITE_OK && file->disk)
            disk_truncate(file->disk, (uint64_t)size);
        step_end(fault, rc);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static int file_sync(sqlite3_file *base, int flags)
{
    fault_file *file = (fault_file *)base;
    fault_kind fault;
    int rc = SQLITE_IOERR_FSYNC;

    pthread_mutex_lock(&lock);
    fault = step_begin(STEP_SYNC);
    if (is_failing(fault)) {
        if (file->disk)
            disk_sync_failed(file->disk);
    } else {
        rc = file->inner->pMethods->xSync(file->inner, flags);
        if (rc == SQLITE_OK && file->disk)
            disk_sync(file->disk);
        step_end(fault, rc);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *out_size)
{
    return inner_of(file)->pMethods->xFileSize(inner_of(file), out_size);
}

static int file_lock(sqlite3_file *file, int level)
{
    return inner_of(file)->pMethods->xLock(inner_of(file), level);
}

static int file_unlock(sqlite3_file *file, int level)
{
    return inner_of(file)->pMethods->xUnlock(inner_of(file), level);
}

static int file_check_lock(sqlite3_file *file, int *out_held)
{
    return inner_of(file)->pMethods->xCheckReservedLock(inner_of(file), out_held);
}

/* Growing the file in advance and mapping it would be I/O that this VFS does not see. */
static int file_control(sqlite3_file *file, int op, void *arg)
{
    if (op == SQLITE_FCNTL_SIZE_HINT || op == SQLITE_FCNTL_CHUNK_SIZE)
        return SQLITE_OK;
    if (op == SQLITE_FCNTL_MMAP_SIZE) {
        *(sqlite3_int64 *)arg = 0;
        return SQLITE_OK;
    }
    return inner_of(file)->pMethods->xFileControl(inner_of(file), op, arg);
}

static int file_sector_size(sqlite3_file *file)
{
    return inner_of(file)->pMethods->xSectorSize(inner_of(file));
}

static int file_characteristics(sqlite3_file *file)
{
    return inner_of(file)->pMethods->xDeviceCharacteristics(inner_of(file));
}

static int file_shm_map(
        sqlite3_file *file, int region, int size, int extend, void volatile **out_memory)
{
    sqlite3_file *inner = inner_of(file);
    fault_kind fault;
    int rc = SQLITE_IOERR_SHMMAP;

    pthread_mutex_lock(&lock);
    fault = step_begin(STEP_SHM);
    if (is_failing(fault))
        *out_memory = NULL;
    else
        rc = step_end(fault, inner->pMethods->xShmMap(inner, region, size, extend, out_memory));
    pthread_mutex_unlock(&lock);
    return rc;
}

static int file_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    return inner_of(file)->pMethods->xShmLock(inner_of(file), offset, n, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
    inner_of(file)->pMethods->xShmBarrier(inner_of(file));
}

/* It cannot fail, but a process can die here. */
static int file_shm_unmap(sqlite3_file *file, int is_delete)
{
    sqlite3_file *inner = inner_of(file);
    fault_kind fault;
    int rc;

    pthread_mutex_lock(&lock);
    fault = step_begin(STEP_SHM);
    rc = step_end(fault, inner->pMethods->xShmUnmap(inner, is_delete));
    pthread_mutex_unlock(&lock);
    return rc;
}

static const sqlite3_io_methods methods = {
        .iVersion = 2,
        .xClose = file_close,
        .xRead = file_read,
        .xWrite = file_write,
        .xTruncate = file_truncate,
        .xSync = file_sync,
        .xFileSize = file_size,
        .xLock = file_lock,
        .xUnlock = file_unlock,
        .xCheckReservedLock = file_check_lock,
        .xFileControl = file_control,
        .xSectorSize = file_sector_size,
        .xDeviceCharacteristics = file_characteristics,
        .xShmMap = file_shm_map,
        .xShmLock = file_shm_lock,
        .xShmBarrier = file_shm_barrier,
        .xShmUnmap = file_shm_unmap,
};

/* ---- VFS methods ---- */

static int open_through(fault_file *file, sqlite3_filename name, int flags, int *out_flags)
{
    bool existed = name && access(name, F_OK) == 0;
    bool is_journal = flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL);
    int rc;

    rc = real->xOpen(real, name, file->inner, flags, out_flags);
    if (rc != SQLITE_OK)
        return rc;
    file->base.pMethods = &methods;
    if (tracking && name && !(flags & SQLITE_OPEN_DELETEONCLOSE))
        file->disk = existed ? disk_find(name) : disk_create(name, is_journal);
    return SQLITE_OK;
}

static int vfs_open(
        sqlite3_vfs *self, sqlite3_filename name, sqlite3_file *base, int flags, int *out_flags)
{
    fault_file *file = (fault_file *)base;
    fault_kind fault;
    int rc = SQLITE_CANTOPEN;

    file->base.pMethods = NULL;
    file->disk = NULL;
    file->inner = (sqlite3_file *)(file + 1);
    pthread_mutex_lock(&lock);
    fault = step_begin(STEP_OPEN);
    if (!is_failing(fault))
        rc = step_end(fault, open_through(file, name, flags, out_flags));
    pthread_mutex_unlock(&lock);
    return rc;
}

static int vfs_delete(sqlite3_vfs *self, const char *name, int sync_directory)
{
    fault_kind fault;
    int rc = SQLITE_IOERR_DELETE;

    pthread_mutex_lock(&lock);
    fault = step_begin(STEP_DELETE);
    if (!is_failing(fault)) {
        rc = real->xDelete(real, name, sync_directory);
        if (rc == SQLITE_OK && tracking)
            disk_delete(name, sync_directory);
        step_end(fault, rc);
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void fault_vfs_install(void)
{
    if (real)
        return;
    real = sqlite3_vfs_find(NULL);
    assert(real && real->iVersion >= 2);
    vfs = *real;
    /* The other methods are the real ones, which use only names and the clock. */
    vfs.iVersion = 2;
    vfs.zName = "fault";
    vfs.szOsFile = (int)sizeof(fault_file) + real->szOsFile;
    vfs.xOpen = vfs_open;
    vfs.xDelete = vfs_delete;
    sqlite3_vfs_register(&vfs, 1);
}

void fault_vfs_track(uint64_t seed)
{
    pthread_mutex_lock(&lock);
    tracking = true;
    disk_init(seed);
    pthread_mutex_unlock(&lock);
}

void fault_vfs_arm(fault_kind kind, uint64_t at)
{
    pthread_mutex_lock(&lock);
    armed = kind;
    armed_at = at;
    steps = 0;
    fired = false;
    pthread_mutex_unlock(&lock);
}

void fault_vfs_clear(void)
{
    pthread_mutex_lock(&lock);
    armed = FAULT_NONE;
    pthread_mutex_unlock(&lock);
}

bool fault_vfs_fired(void)
{
    bool has_fired;

    pthread_mutex_lock(&lock);
    has_fired = fired;
    pthread_mutex_unlock(&lock);
    return has_fired;
}
