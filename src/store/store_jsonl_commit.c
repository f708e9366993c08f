/* store_jsonl_commit.c - one batch: done in memory, then written.
 *
 * The new path of a session is chosen and logged before its file is moved; see store_jsonl.c for
 * the order in which things reach the disk. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "base/digest.h"
#include "base/memory.h"
#include "store/store_jsonl.h"

#define LOG_COMPACT_BYTES (4u << 20) /* beyond twice what it was when it was written anew */

bool pal_jl_touch(jl_batch *batch, jl_file *file)
{
    if (file->is_touched)
        return false;
    file->is_touched = true;
    file->next_touched = batch->touched;
    batch->touched = file;
    return true;
}

static void fail(jl_batch *batch, pal_status status)
{
    if (!batch->log.failure)
        batch->log.failure = status;
}

/* ---- Gathering ---- */

/* Chooses where the file belongs now. It moves at once in our books, on disk with the commit. */
static pal_status settle_path(jl_batch *batch, const mem_session *session, jl_file *file)
{
    char path[JL_PATH_MAX];
    pal_status status = pal_jl_place(batch->engine, session, file, batch->arena, path, NULL);

    if (status != PAL_OK || (file->path && strcmp(file->path, path) == 0))
        return status;
    if (file->path && !file->moved_from) {
        file->moved_from = pal_malloc(strlen(file->path) + 1);
        if (!file->moved_from)
            return PAL_NO_MEMORY;
        memcpy(file->moved_from, file->path, strlen(file->path) + 1);
        batch->has_moves = true;
    }
    return pal_jl_file_set_path(batch->engine, file, path, NULL);
}

/* The session is part of the batch. Its record is written if the log lacks it or it may have
 * changed. */
static mem_session *touch_session(jl_batch *batch, pal_id id, bool is_changed)
{
    mem_session *session = pal_jl_session(batch->engine, id);
    jl_file *file = session ? pal_jl_file_get(batch->engine, id) : NULL;
    pal_status status = PAL_OK;

    if (!session)
        return NULL;
    if (!file) {
        fail(batch, PAL_NO_MEMORY);
        return session;
    }
    pal_jl_touch(batch, file);
    if (is_changed || !file->is_logged) {
        status = settle_path(batch, session, file);
        if (status == PAL_OK)
            pal_jl_put_session(batch, session);
        else
            fail(batch, status);
    }
    if (file->is_unmarked)
        pal_jl_put_unmark(batch, id);
    file->is_unmarked = false;
    /* Those too that were read from PicoClaw's meta file, which is ours from now on. */
    for (size_t i = 0; i < session->marks_len; i++)
        if (session->marks[i].number > file->mark_logged)
            pal_jl_put_mark(batch, id, &session->marks[i]);
    return session;
}

static pal_status lines_of(jl_batch *batch, pal_work *work, jl_append *append)
{
    pal_status status = PAL_OK;

    append->from = batch->lines.len;
    append->lines = work->rows_len;
    for (size_t i = 0; status == PAL_OK && i < work->rows_len; i++)
        status = pal_jl_line_write(&batch->lines, &work->rows[i], batch->arena, &work->op->error);
    append->len = batch->lines.len - append->from;
    if (status != PAL_OK && !batch->lines.failure)
        batch->lines.len = append->from;
    return status;
}

/* A line that somebody left without its end gets one first. */
static void open_end(jl_batch *batch, jl_append *append)
{
    if (!append->file->is_open_ended)
        return;
    pal_buf_append_char(&batch->lines, '\n');
    if (batch->lines.failure)
        return;
    memmove(batch->lines.data + append->from + 1, batch->lines.data + append->from, append->len);
    batch->lines.data[append->from] = '\n';
    append->len++;
    append->file->is_open_ended = false;
}

static void gather_lines(jl_batch *batch, const pal_work *work, jl_append *append)
{
    append->file = pal_jl_file_get(batch->engine, work->op->session);
    if (!append->file ||
            !pal_mem_reserve((void **)&batch->appends, &batch->appends_cap, batch->appends_len, 1,
                    sizeof *batch->appends)) {
        fail(batch, PAL_NO_MEMORY);
        return;
    }
    append->at = append->file->size;
    open_end(batch, append);
    append->file->size += append->len;
    append->file->lines += append->lines;
    batch->appends[batch->appends_len++] = *append;
    pal_jl_put_append(batch, append, work->now_ms);
}

static void gather_ledger(jl_batch *batch, const pal_work *work, const pal_ledger_row *given)
{
    pal_ledger_row row = *given;

    if (row.created_at == 0)
        row.created_at = work->now_ms;
    pal_jl_put_ledger(batch, work->tenant, work->op->session, &row);
}

static void gather_blobs(jl_batch *batch, const pal_work *work)
{
    mem_tenant *tenant = pal_mem_tenant_find(batch->engine->mem, work->tenant);

    for (size_t i = 0; tenant && i < work->blobs_len; i++) {
        const mem_blob *blob =
                pal_map_find(&tenant->blobs, pal_str_make((const char *)work->blobs[i].hash, 32));

        if (blob && work->blobs[i].is_new)
            pal_jl_put_blob(batch, work->tenant, blob);
    }
}

static void gather_append(jl_batch *batch, pal_work *work, jl_append *append)
{
    const pal_op *op = work->op;

    touch_session(batch, op->session, false);
    if (!op->u.append.replayed) {
        gather_blobs(batch, work);
        gather_lines(batch, work, append);
    }
    for (size_t i = 0; i < op->u.append.ledger_len; i++)
        gather_ledger(batch, work, &op->u.append.ledger[i]);
    for (size_t i = 0; i < op->u.append.inbox_ids_len; i++)
        pal_jl_put_inbox_drop(batch, op->session, op->u.append.inbox_ids[i]);
}

/* Sessions whose names the operation may take away, because they have expired. */
typedef struct holders {
    mem_session *items[PAL_ALIASES_MAX + 1];
    size_t len;
} holders;

static void find_holders(jl_batch *batch, const pal_work *work, holders *out_holders)
{
    mem_tenant *tenant = pal_mem_tenant_find(batch->engine->mem, work->tenant);
    const pal_op *op = work->op;
    const pal_session *record = NULL;
    mem_session *session;

    out_holders->len = 0;
    if (op->kind == PAL_OP_CREATE)
        record = op->u.create.session;
    else if (op->kind == PAL_OP_FORK)
        record = op->u.fork.session;
    else if (op->kind == PAL_OP_UPDATE)
        record = op->u.update.session;
    else if (op->kind == PAL_OP_RESTORE && (session = pal_jl_session(batch->engine, op->session)))
        record = &session->info->record;
    for (size_t i = 0; tenant && record && i <= record->aliases_len && i <= PAL_ALIASES_MAX; i++) {
        session = i == 0 ? pal_mem_name_find(&tenant->keys, record->key)
                         : pal_mem_name_find(&tenant->aliases, record->aliases[i - 1]);
        if (session && pal_mem_session_expired(session, work->now_ms))
            out_holders->items[out_holders->len++] = session;
    }
}

static void gather_holders(jl_batch *batch, const holders *before)
{
    for (size_t i = 0; i < before->len; i++)
        if (before->items[i]->info->record.state == PAL_SESSION_TRASH)
            touch_session(batch, before->items[i]->id, true);
}

static void gather(jl_batch *batch, pal_work *work, jl_append *append)
{
    pal_op *op = work->op;
    mem_session *session;

    switch (op->kind) {
    case PAL_OP_CREATE:
        if (!op->u.create.existing)
            touch_session(batch, op->session, true);
        break;
    case PAL_OP_ADOPT:
        if (op->u.adopt.adopted)
            touch_session(batch, op->session, true);
        break;
    case PAL_OP_FORK:
    case PAL_OP_UPDATE:
    case PAL_OP_DELETE:
    case PAL_OP_RESTORE:
        touch_session(batch, op->session, true);
        break;
    case PAL_OP_APPEND:
        gather_append(batch, work, append);
        break;
    case PAL_OP_MARK:
        touch_session(batch, op->session, false);
        break;
    case PAL_OP_INBOX_ADD:
        touch_session(batch, op->session, false);
        pal_jl_put_inbox_drop(batch, op->session, op->u.inbox_item->id);
        pal_jl_put_inbox(batch, op->session, op->u.inbox_item);
        break;
    case PAL_OP_INBOX_DROP:
        pal_jl_put_inbox_drop(batch, op->session, op->u.inbox_id);
        break;
    case PAL_OP_LEASE_TAKE:
    case PAL_OP_LEASE_RELEASE:
        session = touch_session(batch, op->session, false);
        if (session)
            pal_jl_put_lease(batch, session);
        break;
    case PAL_OP_LEDGER_ADD:
        gather_ledger(batch, work, op->u.ledger_row);
        break;
    case PAL_OP_BLOB_PUT:
        gather_blobs(batch, work);
        break;
    case PAL_OP_ERASE:
        batch->is_erasing = true;
        pal_jl_put_erase(batch, work->tenant, op->session);
        touch_session(batch, op->session, true); /* there still, where forks share its rows */
        break;
    case PAL_OP_SWEEP:
    case PAL_OP_NONE:
        break;
    }
}

/* ---- Sweeping: what it did is seen by looking before and after ---- */

typedef struct sight {
    pal_id id;
    mem_tenant *tenant;
    pal_session_state state;
} sight;

static size_t look(jl_engine *engine, sight *out_sights)
{
    size_t len = 0;

    for (mem_tenant *tenant = engine->mem->tenant_list; tenant; tenant = tenant->next)
        for (mem_session *session = tenant->sessions; session; session = session->next) {
            if (out_sights)
                out_sights[len] = (sight){session->id, tenant, session->info->record.state};
            len++;
        }
    return len;
}

static void gather_sweep(jl_batch *batch, const sight *sights, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        mem_session *session = pal_jl_session(batch->engine, sights[i].id);

        if (!session || session->info->record.state == PAL_SESSION_ERASED) {
            if (sights[i].state != PAL_SESSION_ERASED)
                pal_jl_put_erase(batch, sights[i].tenant->name, sights[i].id);
            touch_session(batch, sights[i].id, true);
        } else if (session->info->record.state != sights[i].state) {
            touch_session(batch, sights[i].id, true);
        }
    }
    batch->is_erasing = true;
}

static void apply_sweep(jl_batch *batch, pal_work *work)
{
    size_t len = look(batch->engine, NULL);
    sight *sights = pal_arena_array(batch->arena, len + 1, sizeof *sights);

    if (!sights) {
        work->op->status = pal_error_set(&work->op->error, PAL_NO_MEMORY, "no memory to sweep");
        return;
    }
    look(batch->engine, sights);
    pal_store_memory.apply(batch->engine->memory, work, 1);
    gather_sweep(batch, sights, len);
}

void pal_jl_apply_one(jl_batch *batch, pal_work *work)
{
    pal_op *op = work->op;
    jl_append append = {0};
    holders before;

    if (op->kind == PAL_OP_SWEEP) {
        apply_sweep(batch, work);
        return;
    }
    op->status = op->kind == PAL_OP_APPEND ? lines_of(batch, work, &append) : PAL_OK;
    if (op->status != PAL_OK)
        return;
    find_holders(batch, work, &before);
    pal_store_memory.apply(batch->engine->memory, work, 1);
    if (op->status == PAL_OK) {
        gather_holders(batch, &before);
        gather(batch, work, &append);
    }
    if (op->kind == PAL_OP_APPEND && !batch->lines.failure &&
            (op->status != PAL_OK || op->u.append.replayed))
        batch->lines.len = append.from;
}

/* ---- Writing: what the log only names ---- */

static pal_status write_blob(
        jl_engine *engine, pal_str tenant, const mem_blob *blob, pal_error *err)
{
    char directory[JL_PATH_MAX], path[JL_PATH_MAX], hex[2 * PAL_SHA256_SIZE + 1];
    struct stat facts;
    pal_status status = pal_jl_tenant_dir(tenant, "blobs", directory, err);

    pal_hex(blob->hash, sizeof blob->hash, hex);
    snprintf(path, sizeof path, "%.900s%s", directory, hex);
    if (status == PAL_OK && fstatat(engine->dir_fd, path, &facts, 0) == 0 &&
            (uint64_t)facts.st_size == blob->data.len)
        return PAL_OK;
    if (status == PAL_OK)
        status = pal_jl_make_dirs(engine, path, err);
    if (status == PAL_OK)
        status = pal_jl_replace(engine, path, blob->data, err);
    if (status == PAL_OK)
        pal_jl_sync_dir(engine, path);
    return status;
}

static pal_status write_blobs(jl_engine *engine, const pal_work *work, pal_error *err)
{
    mem_tenant *tenant = pal_mem_tenant_find(engine->mem, work->tenant);
    pal_status status = PAL_OK;

    for (size_t i = 0; tenant && status == PAL_OK && i < work->blobs_len; i++) {
        const mem_blob *blob =
                pal_map_find(&tenant->blobs, pal_str_make((const char *)work->blobs[i].hash, 32));

        if (blob && work->blobs[i].is_new)
            status = write_blob(engine, work->tenant, blob, err);
    }
    return status;
}

/* ---- Writing: lines ---- */

/* Where the file is on disk until the moves are made. */
static void disk_path(const jl_file *file, char out_path[JL_PATH_MAX])
{
    jl_file at = *file;

    if (file->moved_from)
        at.path = file->moved_from;
    pal_jl_file_path(&at, ".jsonl", out_path);
}

/* A new file's name may still be that of one which is about to leave. */
static pal_status detour(jl_engine *engine, jl_file *file, pal_error *err)
{
    char id[PAL_ID_TEXT_SIZE], path[JL_PATH_MAX];

    pal_id_to_text(file->id, id);
    snprintf(path, sizeof path, JL_SIDE "/rows/%s", id);
    file->moved_from = pal_malloc(strlen(path) + 1);
    if (!file->moved_from)
        return pal_error_set(err, PAL_NO_MEMORY, "no memory for a file's name");
    memcpy(file->moved_from, path, strlen(path) + 1);
    return pal_jl_make_dirs(engine, path, err);
}

static pal_status open_lines(jl_batch *batch, jl_file *file, int *out_fd, pal_error *err)
{
    jl_engine *engine = batch->engine;
    bool is_new = file->inode == 0;
    char path[JL_PATH_MAX];
    pal_status status = PAL_OK;
    struct stat facts;

    if (is_new && batch->has_moves && !file->moved_from)
        status = detour(engine, file, err);
    disk_path(file, path);
    if (status == PAL_OK && is_new)
        status = pal_jl_make_dirs(engine, path, err);
    if (status != PAL_OK)
        return status;
    *out_fd = openat(
            engine->dir_fd, path, O_WRONLY | O_CLOEXEC | (is_new ? O_CREAT | O_EXCL : 0), 0644);
    if (*out_fd < 0 || fstat(*out_fd, &facts) != 0)
        return pal_jl_io(err, "could not open", path);
    file->inode = facts.st_ino;
    if (is_new)
        pal_jl_sync_dir(engine, path);
    return PAL_OK;
}

static pal_status append_lines(jl_batch *batch, const jl_append *append, pal_error *err)
{
    pal_str text = pal_str_make(batch->lines.data + append->from, append->len);
    char path[JL_PATH_MAX];
    struct stat facts;
    int fd = -1;
    pal_status status = open_lines(batch, append->file, &fd, err);

    disk_path(append->file, path);
    if (status == PAL_OK && (fstat(fd, &facts) != 0 || (uint64_t)facts.st_size != append->at))
        status = pal_error_set(err, PAL_BUSY, "'%.120s' was changed by another program", path);
    if (status == PAL_OK)
        status = pal_jl_write_at(fd, text, append->at, path, err);
    if (status == PAL_OK && fdatasync(fd) != 0)
        status = pal_jl_io(err, "could not sync", path);
    if (fd >= 0)
        close(fd);
    return status;
}

/* Takes back what the first `len` appends have written, the newest first. */
static void undo_lines(jl_batch *batch, size_t len)
{
    while (len-- > 0) {
        const jl_append *append = &batch->appends[len];
        char path[JL_PATH_MAX];
        struct stat facts;
        int fd;

        if (append->file->inode == 0)
            continue;
        disk_path(append->file, path);
        fd = openat(batch->engine->dir_fd, path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (fstat(fd, &facts) == 0 && (uint64_t)facts.st_size <= append->at + append->len &&
                (uint64_t)facts.st_size > append->at && ftruncate(fd, (off_t)append->at) == 0)
            fdatasync(fd);
        close(fd);
        /* An empty file would be a session of its own to whoever looks next. */
        if (append->at == 0 && fstatat(batch->engine->dir_fd, path, &facts, 0) == 0 &&
                facts.st_size == 0)
            unlinkat(batch->engine->dir_fd, path, 0);
    }
}

static pal_status write_log(jl_batch *batch, pal_error *err)
{
    jl_engine *engine = batch->engine;
    pal_status status =
            pal_jl_write_at(engine->log_fd, pal_buf_str(&batch->log), engine->log_len, JL_LOG, err);

    if (status == PAL_OK && fdatasync(engine->log_fd) != 0)
        status = pal_jl_io(err, "could not sync", JL_LOG);
    return status;
}

static void undo_log(jl_engine *engine)
{
    if (ftruncate(engine->log_fd, (off_t)engine->log_len) == 0)
        fdatasync(engine->log_fd);
}

static pal_status write_lines(jl_batch *batch, pal_error *err)
{
    pal_status status = PAL_OK;
    size_t done = 0;

    while (status == PAL_OK && done < batch->appends_len)
        status = append_lines(batch, &batch->appends[done++], err);
    if (status != PAL_OK)
        undo_lines(batch, done);
    return status;
}

/* ---- Writing: what can be made again from log and lines ---- */

static bool move_to(jl_engine *engine, const char *from, const char *to)
{
    pal_error ignored;

    if (pal_jl_make_dirs(engine, to, &ignored) != PAL_OK)
        return false;
    return renameat(engine->dir_fd, from, engine->dir_fd, to) == 0 || errno == ENOENT;
}

/* First all out of the way, then all in place, so that they may swap names. */
static bool make_moves(jl_batch *batch)
{
    char id[PAL_ID_TEXT_SIZE], from[JL_PATH_MAX], via[JL_PATH_MAX], to[JL_PATH_MAX];
    jl_engine *engine = batch->engine;
    bool moved = true;

    for (jl_file *file = batch->touched; file; file = file->next_touched) {
        jl_file before = *file;

        if (!file->moved_from)
            continue;
        pal_id_to_text(file->id, id);
        snprintf(via, sizeof via, JL_SIDE "/rows/%s", id);
        disk_path(file, from);
        moved = (strcmp(from, via) == 0 || move_to(engine, from, via)) && moved;
        before.path = file->moved_from;
        pal_jl_file_path(&before, ".meta.json", to);
        if (strcmp(to, from) != 0)
            unlinkat(engine->dir_fd, to, 0);
    }
    for (jl_file *file = batch->touched; file; file = file->next_touched) {
        if (!file->moved_from)
            continue;
        pal_id_to_text(file->id, id);
        snprintf(via, sizeof via, JL_SIDE "/rows/%s", id);
        pal_jl_file_path(file, ".jsonl", to);
        moved = (strcmp(to, via) == 0 || move_to(engine, via, to)) && moved;
        pal_jl_sync_dir(engine, to);
        pal_jl_sync_dir(engine, file->moved_from);
    }
    pal_jl_sync_dir(engine, JL_SIDE "/rows/");
    return moved;
}

static void write_metas(jl_batch *batch)
{
    pal_error ignored;

    for (jl_file *file = batch->touched; file; file = file->next_touched) {
        mem_session *session = pal_jl_session(batch->engine, file->id);
        pal_session_state state = session ? session->info->record.state : PAL_SESSION_ERASED;

        if (state == PAL_SESSION_ACTIVE || state == PAL_SESSION_QUARANTINED)
            (void)!pal_jl_meta_save(batch->engine, session, file, &ignored);
    }
}

/* ---- After an erasure ---- */

static bool blob_is_kept(jl_engine *engine, const char *tenant_dir, const char *name)
{
    char directory[JL_PATH_MAX];
    uint8_t hash[32];

    if (!pal_unhex(pal_str_of(name), hash, sizeof hash))
        return true;
    for (mem_tenant *tenant = engine->mem->tenant_list; tenant; tenant = tenant->next)
        if (pal_map_find(&tenant->blobs, pal_str_make((char *)hash, 32)) &&
                pal_jl_tenant_dir(tenant->name, "blobs", directory, NULL) == PAL_OK &&
                strcmp(directory, tenant_dir) == 0)
            return true;
    return false;
}

static void drop_blobs_of(jl_engine *engine, const char *directory)
{
    int fd = openat(engine->dir_fd, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    while (entries && (entry = readdir(entries)) != NULL)
        if (entry->d_name[0] != '.' && !blob_is_kept(engine, directory, entry->d_name))
            unlinkat(fd, entry->d_name, 0);
    if (entries)
        closedir(entries);
    else if (fd >= 0)
        close(fd);
}

/* Files whose session is gone, or is only there for its forks, which need less of it. */
static bool drop_files(jl_engine *engine)
{
    size_t position = 0;
    bool dropped = true;
    pal_error ignored;
    pal_str key;
    void *value;

    while (pal_map_next(&engine->files, &position, &key, &value)) {
        jl_file *file = value;
        mem_session *session = pal_jl_session(engine, file->id);

        if (!session) {
            pal_jl_file_unlink(engine, file);
            pal_jl_file_drop(engine, file);
            position = 0;
        } else if (session->info->record.state == PAL_SESSION_ERASED &&
                file->lines != session->rows_len) {
            dropped = pal_jl_rows_save(engine, session, file, &ignored) == PAL_OK && dropped;
        }
    }
    return dropped;
}

static bool clean_up(jl_engine *engine)
{
    char directory[JL_PATH_MAX];

    for (mem_tenant *tenant = engine->mem->tenant_list; tenant; tenant = tenant->next)
        if (pal_jl_tenant_dir(tenant->name, "blobs", directory, NULL) == PAL_OK)
            drop_blobs_of(engine, directory);
    return drop_files(engine);
}

/* ---- All of it ---- */

pal_status pal_jl_commit(jl_batch *batch, const pal_work *works, size_t works_len, pal_error *err)
{
    jl_engine *engine = batch->engine;
    pal_status status = batch->lines.failure ? batch->lines.failure : batch->log.failure;
    bool is_settled;
    pal_error ignored;

    pal_jl_log_finish(batch);
    if (status != PAL_OK)
        return pal_error_set(err, status, "no memory to write the batch");
    if (!batch->has_frames)
        return PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < works_len; i++)
        if (works[i].op->status == PAL_OK)
            status = write_blobs(engine, &works[i], err);
    if (status == PAL_OK)
        status = write_log(batch, err);
    if (status == PAL_OK)
        status = write_lines(batch, err);
    if (status != PAL_OK) {
        undo_log(engine);
        return status;
    }
    engine->log_len += batch->log.len;
    engine->batch++;
    is_settled = make_moves(batch);
    write_metas(batch);
    if (batch->is_erasing) {
        pal_jl_batch_untouch(batch);
        is_settled = clean_up(engine) && is_settled;
    }
    if (!is_settled)
        engine->is_stale = true;
    else if (batch->is_erasing || engine->log_len > 2 * engine->log_kept + LOG_COMPACT_BYTES)
        engine->is_stale = pal_jl_compact(engine, &ignored) != PAL_OK;
    return PAL_OK;
}
