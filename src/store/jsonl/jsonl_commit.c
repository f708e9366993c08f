/* jsonl_commit.c - writes one batch. jsonl.c describes the order of the writes, and
 * jsonl_gather.c collects the batch. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "base/digest.h"
#include "base/memory.h"
#include "store/jsonl/jsonl.h"

#define LOG_COMPACT_BYTES (4u << 20) /* the log is rewritten when it is longer than twice its length
                                        at the last load or rewrite, plus this */

/* ---- Blobs and other data that the log refers to ---- */

static pal_status write_blob(
        jsonl_engine *engine, pal_str tenant, const memory_blob *blob, pal_error *err)
{
    char directory[JSONL_PATH_MAX], path[JSONL_PATH_MAX], hex[2 * PAL_SHA256_SIZE + 1];
    struct stat facts;
    pal_status status = pal_jsonl_tenant_dir(tenant, "blobs", directory, err);

    if (status != PAL_OK)
        return status;
    pal_hex(blob->hash, sizeof blob->hash, hex);
    snprintf(path, sizeof path, "%.900s%s", directory, hex);
    status = pal_jsonl_make_dirs(engine, path, err);
    if (status != PAL_OK)
        return status;
    if (fstatat(engine->dir_fd, path, &facts, 0) != 0 ||
            (uint64_t)facts.st_size != blob->data.len) {
        status = pal_jsonl_replace(engine, path, blob->data, err);
        if (status != PAL_OK)
            return status;
    }
    /* An existing file may come from a process that died before it synced the directory. */
    return pal_jsonl_sync_dir(engine, path, err);
}

static pal_status write_blobs(jsonl_engine *engine, const pal_work *work, pal_error *err)
{
    memory_tenant *tenant = pal_memory_tenant_find(engine->mem, work->tenant);
    pal_status status = PAL_OK;

    for (size_t i = 0; tenant && status == PAL_OK && i < work->blobs_len; i++) {
        const memory_blob *blob =
                pal_map_find(&tenant->blobs, pal_str_make((const char *)work->blobs[i].hash, 32));

        if (blob && work->blobs[i].is_new)
            status = write_blob(engine, work->tenant, blob, err);
    }
    return status;
}

/* ---- Lines ---- */

/* Returns where the file is on disk until the moves are made. */
static void disk_path(const jsonl_file *file, char out_path[JSONL_PATH_MAX])
{
    jsonl_file at = *file;

    if (file->moved_from)
        at.path = file->moved_from;
    pal_jsonl_file_path(&at, ".jsonl", out_path);
}

/* Another file, which is about to be moved away, may still have the name of a new file. So the new
 * file is created in .palaver/rows and moved later. */
static pal_status detour(jsonl_engine *engine, jsonl_file *file, pal_error *err)
{
    char path[JSONL_PATH_MAX];

    pal_jsonl_side_path(file->tenant, file->id, path);
    file->moved_from = pal_malloc(strlen(path) + 1);
    if (!file->moved_from)
        return pal_no_memory(err);
    memcpy(file->moved_from, path, strlen(path) + 1);
    return pal_jsonl_make_dirs(engine, path, err);
}

static pal_status open_lines(jsonl_batch *batch, jsonl_file *file, int *out_fd, pal_error *err)
{
    jsonl_engine *engine = batch->engine;
    bool is_new = file->inode == 0;
    int flags = O_WRONLY | O_APPEND | O_CLOEXEC;
    char path[JSONL_PATH_MAX];
    pal_status status = PAL_OK;
    struct stat facts;

    if (is_new && batch->has_moves && !file->moved_from)
        status = detour(engine, file, err);
    disk_path(file, path);
    if (status == PAL_OK && is_new)
        status = pal_jsonl_make_dirs(engine, path, err);
    if (status != PAL_OK)
        return status;
    if (is_new) /* an existing file of ours is left over from a failed batch */
        flags |= pal_jsonl_open_flags(path) ? O_CREAT | O_TRUNC : O_CREAT | O_EXCL;
    *out_fd = openat(engine->dir_fd, path, flags | pal_jsonl_open_flags(path), 0600);
    if (*out_fd < 0 || fstat(*out_fd, &facts) != 0)
        return pal_jsonl_refused(engine, err, path);
    file->inode = facts.st_ino;
    if (engine->is_doubtful && fdatasync(*out_fd) != 0)
        status = pal_jsonl_io(err, "could not sync", path);
    /* PicoClaw does not sync the name of a file that it has created or rewritten. */
    if (status == PAL_OK && file->named_inode != file->inode)
        status = pal_jsonl_sync_dir(engine, path, err);
    if (status == PAL_OK)
        file->named_inode = file->inode;
    else if (is_new)
        unlinkat(engine->dir_fd, path, 0);
    return status;
}

/* Writes all lines that the batch appends to one file, followed by one sync. */
static pal_status append_lines(jsonl_batch *batch, jsonl_append *first, pal_error *err)
{
    char path[JSONL_PATH_MAX];
    int fd = -1;
    pal_status status = open_lines(batch, first->file, &fd, err);

    disk_path(first->file, path);
    for (jsonl_append *append = first; append && status == PAL_OK;
            append = append->next ? &batch->appends[append->next - 1] : NULL) {
        pal_str text = pal_str_make(batch->lines.data + append->from, append->len);

        status = pal_jsonl_append_at(fd, text, append->at, path, err);
        append->is_begun = status != PAL_BUSY;
    }
    if (status == PAL_OK && fdatasync(fd) != 0)
        status = pal_jsonl_io(err, "could not sync", path);
    if (fd >= 0)
        close(fd);
    return status;
}

/* Undoes the writes of the appends, newest first. If another program has written after them, its
 * bytes stay, and so do ours. */
static void undo_lines(jsonl_batch *batch)
{
    for (size_t len = batch->appends_len; len-- > 0;) {
        const jsonl_append *append = &batch->appends[len];
        char path[JSONL_PATH_MAX];
        struct stat facts;
        int fd;

        if (!append->is_begun)
            continue;
        disk_path(append->file, path);
        fd = openat(
                batch->engine->dir_fd, path, O_WRONLY | O_CLOEXEC | pal_jsonl_open_flags(path));
        if (fd < 0)
            continue;
        if (fstat(fd, &facts) == 0 && (uint64_t)facts.st_size <= append->at + append->len &&
                (uint64_t)facts.st_size > append->at &&
                (ftruncate(fd, (off_t)append->at) != 0 || fdatasync(fd) != 0))
            batch->engine->is_doubtful = true;
        close(fd);
        /* Other processes would read an empty file as a separate session. */
        if (append->at == 0 && fstatat(batch->engine->dir_fd, path, &facts, 0) == 0 &&
                facts.st_size == 0)
            unlinkat(batch->engine->dir_fd, path, 0);
    }
}

/* Remains of a batch that never happened must not come after the next batch. Nor may they come
 * between its parts if only some of the next batch reaches the disk. */
static pal_status cut_log(jsonl_engine *engine, pal_error *err)
{
    struct stat facts;

    if (fstat(engine->log_fd, &facts) != 0)
        return pal_jsonl_io(err, "could not look at", JSONL_LOG);
    if ((uint64_t)facts.st_size <= engine->log_len && !engine->is_doubtful)
        return PAL_OK;
    if (ftruncate(engine->log_fd, (off_t)engine->log_len) != 0 || fdatasync(engine->log_fd) != 0)
        return pal_jsonl_io(err, "could not cut", JSONL_LOG);
    return PAL_OK;
}

static pal_status write_log(jsonl_batch *batch, pal_error *err)
{
    jsonl_engine *engine = batch->engine;
    pal_str tail = pal_str_make(engine->log_tail, engine->log_tail_len);
    pal_status status = cut_log(engine, err);

    if (status != PAL_OK)
        return status;
    status = pal_jsonl_write_at(engine->log_fd, tail, engine->log_len - tail.len, JSONL_LOG, err);
    if (status != PAL_OK)
        return status;
    status = pal_jsonl_write_at(
            engine->log_fd, pal_buf_str(&batch->log), engine->log_len, JSONL_LOG, err);
    if (status == PAL_OK && fdatasync(engine->log_fd) != 0)
        status = pal_jsonl_io(err, "could not sync", JSONL_LOG);
    return status;
}

static void undo_log(jsonl_engine *engine)
{
    if (ftruncate(engine->log_fd, (off_t)engine->log_len) != 0 || fdatasync(engine->log_fd) != 0)
        engine->is_doubtful = true;
}

static pal_status write_lines(jsonl_batch *batch, pal_error *err)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < batch->appends_len; i++)
        if (!batch->appends[i].is_follower)
            status = append_lines(batch, &batch->appends[i], err);
    if (status != PAL_OK)
        undo_lines(batch);
    return status;
}

/* ---- Files that can be rebuilt from the log and the lines ---- */

static pal_status move_to(jsonl_engine *engine, const char *from, const char *to, pal_error *err)
{
    pal_status status = pal_jsonl_make_dirs(engine, to, err);

    if (status != PAL_OK || strcmp(from, to) == 0)
        return status;
    if (renameat(engine->dir_fd, from, engine->dir_fd, to) != 0 && errno != ENOENT)
        return pal_jsonl_io(err, "could not move", from);
    return PAL_OK;
}

static pal_status move_out(jsonl_engine *engine, const jsonl_file *file, pal_error *err)
{
    char from[JSONL_PATH_MAX], via[JSONL_PATH_MAX], meta[JSONL_PATH_MAX];
    jsonl_file before = *file;
    pal_status status;

    before.path = file->moved_from;
    pal_jsonl_side_path(file->tenant, file->id, via);
    pal_jsonl_file_path(&before, ".jsonl", from);
    pal_jsonl_file_path(&before, ".meta.json", meta);
    status = move_to(engine, from, via, err);
    if (status == PAL_OK && strcmp(meta, from) != 0 && unlinkat(engine->dir_fd, meta, 0) != 0 &&
            errno != ENOENT)
        status = pal_jsonl_io(err, "could not remove", meta);
    return status;
}

static pal_status move_in(
        jsonl_engine *engine, const jsonl_file *file, bool *in_out_moved, pal_error *err)
{
    char via[JSONL_PATH_MAX], to[JSONL_PATH_MAX];

    pal_jsonl_side_path(file->tenant, file->id, via);
    pal_jsonl_file_path(file, ".jsonl", to);
    *in_out_moved = *in_out_moved || strcmp(via, to) != 0;
    return move_to(engine, via, to, err);
}

/* Makes the moves between .palaver/rows and the old or the new places durable. Most files are in
 * one directory, which is synced once. */
static pal_status sync_moves(
        jsonl_engine *engine, const jsonl_file *files, bool is_out, pal_error *err)
{
    pal_status status = pal_jsonl_sync_dir(engine, JSONL_SIDE "/rows/", err);
    char last[JSONL_PATH_MAX] = JSONL_SIDE "/rows/";

    for (const jsonl_file *file = files; status == PAL_OK && file; file = file->next_touched) {
        const char *path = is_out ? file->moved_from : file->path;
        const char *slash = path ? strrchr(path, '/') : NULL;
        size_t len = slash ? (size_t)(slash - path) + 1 : 0;

        if (!file->moved_from || (strlen(last) == len && memcmp(last, path, len) == 0))
            continue;
        status = pal_jsonl_sync_dir(engine, path, err);
        snprintf(last, sizeof last, "%.*s", (int)len, path);
    }
    return status;
}

/* First moves all files out of the way and makes that durable, then moves all of them to their
 * places. Files may swap names, and no file may overwrite another. */
pal_status pal_jsonl_make_moves(jsonl_engine *engine, jsonl_file *files, pal_error *err)
{
    pal_status status = PAL_OK;
    bool has_moves = false, is_moved_in = false;

    for (jsonl_file *file = files; file && !has_moves; file = file->next_touched)
        has_moves = file->moved_from != NULL;
    if (!has_moves)
        return PAL_OK;
    /* The process that created .palaver/rows may have died before the directory was durable. */
    status = pal_jsonl_make_dirs(engine, JSONL_SIDE "/rows/", err);
    if (status == PAL_OK)
        status = pal_jsonl_sync_dir(engine, JSONL_SIDE "/rows", err);
    for (jsonl_file *file = files; status == PAL_OK && file; file = file->next_touched)
        if (file->moved_from)
            status = move_out(engine, file, err);
    if (status == PAL_OK)
        status = sync_moves(engine, files, true, err);
    for (jsonl_file *file = files; status == PAL_OK && file; file = file->next_touched)
        if (file->moved_from)
            status = move_in(engine, file, &is_moved_in, err);
    return status == PAL_OK && is_moved_in ? sync_moves(engine, files, false, err) : status;
}

static void write_metas(jsonl_batch *batch)
{
    pal_error ignored;

    for (jsonl_file *file = batch->touched; file; file = file->next_touched) {
        memory_session *session = pal_jsonl_session(batch->engine, file->tenant, file->id);
        pal_session_state state = session ? session->info->record.state : PAL_SESSION_ERASED;

        if (state == PAL_SESSION_ACTIVE || state == PAL_SESSION_QUARANTINED)
            (void)!pal_jsonl_meta_save(batch->engine, session, file, &ignored);
    }
}

/* ---- After an erasure ---- */

static bool blob_is_kept(jsonl_engine *engine, const char *tenant_dir, const char *name)
{
    char directory[JSONL_PATH_MAX];
    uint8_t hash[32];

    if (!pal_unhex(pal_str_of(name), hash, sizeof hash))
        return true;
    for (memory_tenant *tenant = engine->mem->tenant_list; tenant; tenant = tenant->next)
        if (pal_map_find(&tenant->blobs, pal_str_make((char *)hash, 32)) &&
                pal_jsonl_tenant_dir(tenant->name, "blobs", directory, NULL) == PAL_OK &&
                strcmp(directory, tenant_dir) == 0)
            return true;
    return false;
}

/* Files that are already gone may have been removed in the system's cache only. So the directory is
 * synced even if nothing is removed here. */
static pal_status drop_blobs_of(jsonl_engine *engine, const char *directory, pal_error *err)
{
    int fd = openat(engine->dir_fd, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    bool is_there = fd >= 0;
    struct dirent *entry;

    while (entries && (entry = readdir(entries)) != NULL)
        if (entry->d_name[0] != '.' && !blob_is_kept(engine, directory, entry->d_name))
            unlinkat(fd, entry->d_name, 0);
    if (entries)
        closedir(entries);
    else if (fd >= 0)
        close(fd);
    return is_there ? pal_jsonl_sync_dir(engine, directory, err) : PAL_OK;
}

/* Drops files of sessions that no longer exist, shortens files that only their forks need, and
 * writes files without their erased messages. */
static pal_status drop_files(jsonl_engine *engine, pal_error *err)
{
    pal_status status = PAL_OK;
    size_t position = 0;
    pal_str key;
    void *value;

    while (status == PAL_OK && pal_map_next(&engine->files, &position, &key, &value)) {
        jsonl_file *file = value;
        memory_session *session = pal_jsonl_session(engine, file->tenant, file->id);

        if (!session) {
            status = pal_jsonl_file_unlink(engine, file, err);
            if (status == PAL_OK)
                pal_jsonl_file_drop(engine, file);
            position = 0;
        } else if (file->has_erased && file->path) {
            status = pal_jsonl_rows_save(engine, session, file, err);
            file->has_erased = status != PAL_OK;
        } else if (session->info->record.state == PAL_SESSION_ERASED) {
            pal_memory_shell_trim(engine->mem, session);
            status = pal_jsonl_aside_unlink(engine, file, err);
            if (status == PAL_OK && file->lines != session->rows_len)
                status = pal_jsonl_rows_save(engine, session, file, err);
        }
    }
    return status;
}

static pal_status clean_up(jsonl_engine *engine, pal_error *err)
{
    pal_status status = PAL_OK;
    char directory[JSONL_PATH_MAX];

    for (memory_tenant *tenant = engine->mem->tenant_list; tenant && status == PAL_OK;
            tenant = tenant->next)
        if (pal_jsonl_tenant_dir(tenant->name, "blobs", directory, NULL) == PAL_OK)
            status = drop_blobs_of(engine, directory, err);
    if (status == PAL_OK)
        status = drop_files(engine, err);
    return status == PAL_OK ? pal_jsonl_sync_dir(engine, JSONL_SIDE "/rows/", err) : status;
}

/* ---- The complete commit ---- */

/* Records that the batch needs no recovery, so that later changes by PicoClaw are not mistaken for
 * missing parts. It needs no sync and may fail: recovery then finds that everything is already
 * there. */
static void log_done(jsonl_engine *engine)
{
    jsonl_batch batch;

    engine->log_tail_len = 0;
    if (pal_jsonl_batch_init(&batch, engine) == PAL_OK) {
        pal_jsonl_put_done(&batch);
        pal_jsonl_log_finish(&batch);
        if (!batch.log.failure && batch.log.len <= sizeof engine->log_tail &&
                pal_jsonl_write_at(engine->log_fd, pal_buf_str(&batch.log), engine->log_len,
                        JSONL_LOG, NULL) == PAL_OK) {
            engine->log_len += batch.log.len;
            engine->log_tail_len = batch.log.len;
            memcpy(engine->log_tail, batch.log.data, batch.log.len);
            engine->batch++;
            engine->is_late = false;
        }
    }
    pal_jsonl_batch_done(&batch);
}

pal_status pal_jsonl_finish(jsonl_engine *engine, bool is_erasing, pal_error *err)
{
    pal_status status = is_erasing ? clean_up(engine, err) : PAL_OK;

    if (status != PAL_OK)
        return status;
    if (is_erasing)
        return pal_jsonl_compact(engine, err);
    if (engine->log_len <= 2 * engine->log_kept + LOG_COMPACT_BYTES ||
            pal_jsonl_compact(engine, NULL) != PAL_OK)
        log_done(engine);
    return PAL_OK;
}

pal_status pal_jsonl_commit(
        jsonl_batch *batch, const pal_work *works, size_t works_len, pal_error *err)
{
    jsonl_engine *engine = batch->engine;
    pal_status status = batch->lines.failure ? batch->lines.failure : batch->log.failure;
    bool is_erasing = batch->is_erasing;

    pal_jsonl_log_finish(batch);
    if (status != PAL_OK)
        return pal_error_set(err, status, "out of memory");
    if (batch->frames == 0)
        return PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < works_len; i++)
        if (works[i].op->status == PAL_OK)
            status = write_blobs(engine, &works[i], err);
    if (status == PAL_OK)
        status = write_log(batch, err);
    if (status == PAL_OK)
        status = write_lines(batch, err);
    if (status != PAL_OK) {
        if (status != PAL_BUSY)
            engine->is_doubtful = true;
        undo_log(engine);
        return status;
    }
    engine->log_len += batch->log.len;
    engine->batch++;
    engine->log_tail_len = 0;
    /* The batch is committed. If this step fails, the next reader of the log repeats it. */
    status = pal_jsonl_make_moves(engine, batch->touched, err);
    if (status != PAL_OK)
        return status;
    write_metas(batch);
    if (is_erasing)
        pal_jsonl_batch_untouch(batch);
    return pal_jsonl_finish(engine, is_erasing, err);
}
