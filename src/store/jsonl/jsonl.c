/* jsonl.c - the backend "jsonl:DIR". DIR is the session directory of PicoClaw (a personal
 * assistant that keeps its sessions in JSONL files), and PicoClaw can continue to use it.
 *
 *   DIR/BASE.jsonl, DIR/BASE.meta.json   a session of the tenant "default", in PicoClaw's format
 *   DIR/.palaver/tenants/NAME/...        the same for another tenant
 *   DIR/.palaver/rows/ID                 lines of sessions in the trash, or kept for their forks
 *   DIR/.palaver/blobs/TENANT/SHA256     images and files
 *   DIR/.palaver/log                     everything that PicoClaw's format cannot express
 *   DIR/.palaver/lock                    locked while a process writes or reads others' changes
 *
 * The state is a "memory:" engine that is built from the log and the lines when the store is
 * opened. All reads use it. A batch is first run in memory, under the lock that readers also need.
 * Then it is written in these steps:
 *
 *   1. blobs, under the hash of their content; fsync
 *   2. the log: one append for the whole batch, including its new lines; fsync
 *   3. the lines: appended to each session's file, with one fsync per file
 *   4. moved files, meta files and removed files
 *   5. the record "done" in the log, without fsync; then the batch is acknowledged
 *
 * After an erasure, or when the log has grown long, step 5 replaces the log by a new one instead.
 *
 * Before the next step begins, the directories are synced too, so that new names are durable.
 *
 * Crash argument: the batch has happened when step 2 is complete. Its last frame ends the batch. A
 * last batch without this end, or with another frame missing, is ignored. If the next process that
 * reads the log finds no "done" after the last batch, it repeats the missing parts of steps 3 and 4
 * (jsonl_recover.c). So after a crash between the steps, the batch still takes effect
 * completely. All earlier batches were finished before it began. A torn line can therefore only be
 * PicoClaw's: a newline is added before the next line is appended, and only the torn line is lost.
 *
 * If step 2 or 3 fails, both are undone. If step 4 fails, the next process that reads the log
 * repeats it. In both cases the operations are reported as failed, and the state is loaded again.
 * A failure to write a meta file is ignored, because the log has its data.
 *
 * PicoClaw may have changed the files between a crash and the recovery. Lines that it appended are
 * kept, after those of the batch. A file that it rewrote is left unchanged. "done" makes this case
 * rare: files of a finished batch are never compared with PicoClaw's later changes.
 *
 * If a session's files cannot be used (a directory has their name, or permission is missing), the
 * session stays in the state together with the reason, and calls that use it fail with this reason.
 * Other sessions are not affected.
 *
 * Threads: apply() and catching up hold `lock` for writing, then the lock of the directory. Readers
 * hold `lock` for reading and first check whether the log or the directory has changed. One lock
 * covers all sessions, so a wrong lock order is impossible. */
#include "store/jsonl/jsonl.h"
#include "store/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"

#define LOG_LARGE_BYTES (1u << 20)
#define LOCK_WAIT_US 500

/* ---- The directory's lock ---- */

static pal_status lock_take(jsonl_engine *engine, pal_error *err)
{
    int64_t until = pal_clock_monotonic_us() + (int64_t)engine->options.busy_timeout_ms * 1000;
    int how = (engine->options.read_only ? LOCK_SH : LOCK_EX) | LOCK_NB;
    struct timespec wait = {.tv_nsec = LOCK_WAIT_US * 1000};

    if (engine->lock_fd < 0)
        return PAL_OK;
    while (flock(engine->lock_fd, how) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return pal_jsonl_io(err, "could not lock", JSONL_SIDE "/lock");
        if (pal_clock_monotonic_us() > until)
            return pal_error_set(err, PAL_BUSY, "another process holds the lock of the directory");
        nanosleep(&wait, NULL);
    }
    return PAL_OK;
}

static void lock_give(jsonl_engine *engine)
{
    if (engine->lock_fd >= 0)
        flock(engine->lock_fd, LOCK_UN);
}

/* Remembers the directory's time of modification after our own meta files changed it, so that the
 * directory is not scanned again. */
static void note_directory(jsonl_engine *engine)
{
    struct stat facts;

    if (fstat(engine->dir_fd, &facts) == 0)
        engine->scanned = facts.st_mtim;
}

/* ---- Opening and closing ---- */

static void engine_free(jsonl_engine *engine)
{
    pal_jsonl_files_clear(engine);
    pal_free(engine->erased);
    if (engine->memory)
        pal_store_memory.close(engine->memory);
    if (engine->log_fd >= 0)
        close(engine->log_fd);
    if (engine->lock_fd >= 0)
        close(engine->lock_fd);
    if (engine->dir_fd >= 0)
        close(engine->dir_fd);
    pthread_rwlock_destroy(&engine->lock);
    pal_free(engine);
}

static pal_status open_directory(jsonl_engine *engine, const char *location, pal_error *err)
{
    bool may_write = !engine->options.read_only;
    struct stat facts;

    snprintf(engine->location, sizeof engine->location, "%s", location);
    if (*location == '\0')
        return pal_error_set(err, PAL_INVALID, "the directory is missing; use jsonl:DIR");
    if (may_write && mkdir(location, 0700) != 0 && errno != EEXIST)
        return pal_jsonl_io(err, "could not create", location);
    engine->dir_fd = open(location, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (engine->dir_fd < 0)
        return pal_jsonl_refused(engine, err, "");
    if (may_write && mkdirat(engine->dir_fd, JSONL_SIDE, 0700) != 0 && errno != EEXIST)
        return pal_jsonl_refused(engine, err, JSONL_SIDE);
    if (fstatat(engine->dir_fd, JSONL_SIDE, &facts, 0) == 0 && !S_ISDIR(facts.st_mode)) {
        errno = ENOTDIR;
        return pal_jsonl_refused(engine, err, JSONL_SIDE);
    }
    engine->lock_fd = openat(engine->dir_fd, JSONL_SIDE "/lock",
            (may_write ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (engine->lock_fd < 0 && (may_write || errno != ENOENT))
        return pal_jsonl_refused(engine, err, JSONL_SIDE "/lock");
    if (!realpath(location, engine->real_path))
        engine->real_path[0] = '\0';
    return PAL_OK;
}

static pal_status load_first(jsonl_engine *engine, pal_error *err)
{
    pal_status status = lock_take(engine, err);

    if (status != PAL_OK)
        return status;
    if (!engine->options.read_only)
        unlinkat(engine->dir_fd, JSONL_SIDE "/new", 0); /* left by a writer that died */
    status = pal_jsonl_load(engine, err);
    if (status == PAL_OK && !engine->options.read_only && engine->log_len > LOG_LARGE_BYTES)
        engine->is_stale = pal_jsonl_compact(engine, NULL) != PAL_OK;
    lock_give(engine);
    return status;
}

static pal_status jsonl_open(const char *location, const pal_store_options *options,
        pal_engine **out_engine, pal_error *err)
{
    jsonl_engine *engine = pal_calloc(1, sizeof *engine);
    pal_status status;

    if (!engine || pal_memory_lock_init(&engine->lock) != 0) {
        pal_free(engine);
        return pal_no_memory(err);
    }
    engine->base.backend = &pal_store_jsonl;
    engine->options = *options;
    engine->dir_fd = engine->lock_fd = engine->log_fd = -1;
    status = pal_store_memory.open("", options, &engine->memory, err);
    engine->mem = (memory_engine *)engine->memory;
    if (status == PAL_OK)
        status = open_directory(engine, location, err);
    if (status == PAL_OK)
        status = load_first(engine, err);
    if (status != PAL_OK) {
        engine_free(engine);
        return status;
    }
    *out_engine = &engine->base;
    return PAL_OK;
}

static void jsonl_close(pal_engine *base)
{
    engine_free((jsonl_engine *)base);
}

/* ---- Writing ---- */

static void fail_all(pal_work *works, size_t works_len, pal_status status, const pal_error *err)
{
    for (size_t i = 0; i < works_len; i++)
        if (works[i].op->status == PAL_OK)
            works[i].op->status = pal_error_set(&works[i].op->error, status, "%s", err->message);
}

/* Returns whether PicoClaw has changed a file that is about to be written. PicoClaw does not use
 * our lock. */
static bool is_overtaken(jsonl_engine *engine, const pal_work *works, size_t works_len)
{
    for (size_t i = 0; i < works_len; i++) {
        const jsonl_file *file = pal_jsonl_file_find(engine, works[i].tenant, works[i].op->session);

        if (file && pal_jsonl_file_changed(engine, file))
            return true;
    }
    return false;
}

static pal_status apply_batch(
        jsonl_engine *engine, pal_work *works, size_t works_len, pal_error *err)
{
    jsonl_batch batch;
    pal_status status = pal_jsonl_catch_up(engine, err);

    if (status == PAL_OK && is_overtaken(engine, works, works_len))
        status = pal_jsonl_load(engine, err);
    if (status != PAL_OK)
        return status;
    status = pal_jsonl_batch_init(&batch, engine);
    if (status != PAL_OK)
        pal_error_set(err, status, "out of memory");
    for (size_t i = 0, len; status == PAL_OK && i < works_len; i += len) {
        len = works[i].all_len > 1 ? pal_work_group_len(&works[i], works_len - i) : 1;
        if (len > 1)
            pal_jsonl_apply_all(&batch, &works[i], len);
        else if (works[i].op->with_previous && works[i].op[-1].status != PAL_OK)
            pal_work_cancel(&works[i]);
        else
            pal_jsonl_apply_one(&batch, &works[i]);
    }
    if (status == PAL_OK)
        status = pal_jsonl_commit(&batch, works, works_len, err);
    if (status != PAL_OK)
        engine->is_stale = true;
    pal_jsonl_batch_done(&batch);
    note_directory(engine);
    return status;
}

static void jsonl_apply(pal_engine *base, pal_work *works, size_t works_len)
{
    jsonl_engine *engine = (jsonl_engine *)base;
    pal_error err = {0};
    pal_status status;

    pthread_rwlock_wrlock(&engine->lock);
    status = lock_take(engine, &err);
    if (status == PAL_OK) {
        status = pal_jsonl_still_there(engine, &err);
        if (status == PAL_OK)
            status = apply_batch(engine, works, works_len, &err);
        lock_give(engine);
    }
    pthread_rwlock_unlock(&engine->lock);
    if (status != PAL_OK)
        fail_all(works, works_len, status, &err);
}

/* ---- Reading ---- */

static pal_status refresh(jsonl_engine *engine, bool all, pal_error *err)
{
    pal_status status;

    pthread_rwlock_wrlock(&engine->lock);
    status = lock_take(engine, err);
    if (status == PAL_OK) {
        status = pal_jsonl_still_there(engine, err);
        if (status == PAL_OK)
            status = all ? pal_jsonl_load(engine, err) : pal_jsonl_catch_up(engine, err);
        lock_give(engine);
    }
    pthread_rwlock_unlock(&engine->lock);
    return status;
}

/* Takes the lock for reading, with a state that is as new as the disk. */
static pal_status read_begin(pal_engine *base, pal_error *err)
{
    jsonl_engine *engine = (jsonl_engine *)base;
    pal_status status = PAL_OK;

    pthread_rwlock_rdlock(&engine->lock);
    if (!pal_jsonl_is_behind(engine))
        return PAL_OK;
    pthread_rwlock_unlock(&engine->lock);
    status = refresh(engine, false, err);
    if (status == PAL_OK)
        pthread_rwlock_rdlock(&engine->lock);
    return status;
}

/* Returns why the session's lines cannot be read, or NULL if they can. */
static const pal_error *trouble_of(jsonl_engine *engine, pal_handle handle)
{
    const memory_session *session = pal_memory_session_by_handle(engine->mem, handle.number);
    const jsonl_file *file =
            session ? pal_jsonl_file_find(engine, session->tenant->name, session->id) : NULL;

    return file && file->is_unreadable ? file->trouble : NULL;
}

static pal_engine *memory_of(pal_engine *base)
{
    return ((jsonl_engine *)base)->memory;
}

static pal_status read_end(pal_engine *base, pal_status status)
{
    pthread_rwlock_unlock(&((jsonl_engine *)base)->lock);
    return status;
}

/* Makes one call of the memory backend under the lock, after other processes' changes are read. */
#define READ(call, ...)                                                                            \
    pal_status status = read_begin(base, err);                                                     \
    if (status != PAL_OK)                                                                          \
        return status;                                                                             \
    return read_end(base, pal_store_memory.call(memory_of(base), __VA_ARGS__))

static pal_status find_readable(pal_engine *base, pal_str tenant, pal_session_by by, pal_str name,
        pal_arena *arena, pal_session_row *out_row, pal_error *err)
{
    pal_session_row row;
    const pal_error *trouble;
    pal_status status =
            pal_store_memory.session_find(memory_of(base), tenant, by, name, arena, &row, err);

    if (status != PAL_OK)
        return status;
    trouble = trouble_of((jsonl_engine *)base, row.handle);
    if (trouble)
        return pal_error_set(err, trouble->status, "%s", trouble->message);
    *out_row = row;
    return PAL_OK;
}

/* A session whose lines cannot be read must not look like an empty one, so the call fails with the
 * reason. The obstacle may have been removed since, and only another attempt shows that. */
static pal_status jsonl_session_find(pal_engine *base, pal_str tenant, pal_session_by by,
        pal_str name, pal_arena *arena, pal_session_row *out_row, pal_error *err)
{
    jsonl_engine *engine = (jsonl_engine *)base;
    pal_status status = read_begin(base, err);

    if (status != PAL_OK)
        return status;
    status = read_end(base, find_readable(base, tenant, by, name, arena, out_row, err));
    if (status != PAL_IO && status != PAL_DENIED)
        return status;
    status = refresh(engine, true, err);
    if (status != PAL_OK)
        return status;
    pthread_rwlock_rdlock(&engine->lock);
    return read_end(base, find_readable(base, tenant, by, name, arena, out_row, err));
}

static pal_status jsonl_session_list(pal_engine *base, const pal_session_query *query,
        int64_t after_ms, pal_handle after, pal_arena *arena, pal_session_row *out_rows,
        size_t rows_max, size_t *out_len, pal_error *err)
{
    READ(session_list, query, after_ms, after, arena, out_rows, rows_max, out_len, err);
}

static pal_status jsonl_row_scan(
        pal_engine *base, const pal_row_scan *scan, pal_row_sink sink, void *user, pal_error *err)
{
    pal_status status = read_begin(base, err);
    const pal_error *trouble;

    if (status != PAL_OK)
        return status;
    trouble = trouble_of((jsonl_engine *)base, scan->handle);
    if (trouble)
        status = pal_error_set(err, trouble->status, "%s", trouble->message);
    else
        status = pal_store_memory.row_scan(memory_of(base), scan, sink, user, err);
    return read_end(base, status);
}

static pal_status jsonl_row_find(pal_engine *base, const pal_row_key *key, pal_arena *arena,
        pal_row *out_row, pal_id *out_session, pal_error *err)
{
    pal_status status = read_begin(base, err);
    const pal_error *trouble = NULL;

    if (status != PAL_OK)
        return status;
    if (key->client_id.len > 0)
        trouble = trouble_of((jsonl_engine *)base, key->handle);
    if (trouble)
        status = pal_error_set(err, trouble->status, "%s", trouble->message);
    else
        status = pal_store_memory.row_find(memory_of(base), key, arena, out_row, out_session, err);
    return read_end(base, status);
}

static pal_status jsonl_row_search(pal_engine *base, const pal_row_search *search,
        pal_found_sink sink, void *user, pal_error *err)
{
    READ(row_search, search, sink, user, err);
}

static pal_status jsonl_row_rank(pal_engine *base, const pal_row_rank *rank, pal_found_sink sink,
        void *user, pal_rank_counts *out_counts, pal_error *err)
{
    READ(row_rank, rank, sink, user, out_counts, err);
}

static pal_status jsonl_index_build(pal_engine *base, pal_str tenant, pal_arena *arena,
        const pal_index_part **out_part, bool *out_more, pal_error *err)
{
    READ(index_build, tenant, arena, out_part, out_more, err);
}

static pal_status jsonl_fork_list(pal_engine *base, pal_handle handle, uint64_t min_seq,
        pal_arena *arena, pal_id **out_ids, size_t *out_len, pal_error *err)
{
    READ(fork_list, handle, min_seq, arena, out_ids, out_len, err);
}

static pal_status jsonl_mark_list(pal_engine *base, const pal_mark_scan *scan, pal_arena *arena,
        pal_mark **out_marks, size_t *out_len, pal_error *err)
{
    READ(mark_list, scan, arena, out_marks, out_len, err);
}

static pal_status jsonl_inbox_list(pal_engine *base, pal_handle handle, pal_arena *arena,
        pal_inbox_item **out_items, size_t *out_len, pal_error *err)
{
    READ(inbox_list, handle, arena, out_items, out_len, err);
}

static pal_status jsonl_lease_find(
        pal_engine *base, pal_handle handle, pal_arena *arena, pal_lease *out_lease, pal_error *err)
{
    READ(lease_find, handle, arena, out_lease, err);
}

static pal_status jsonl_inbox_owners(pal_engine *base, const pal_inbox_owner *after, int64_t now_ms,
        pal_arena *arena, pal_inbox_owner *out_owners, size_t owners_max, size_t *out_len,
        pal_error *err)
{
    READ(inbox_owners, after, now_ms, arena, out_owners, owners_max, out_len, err);
}

static pal_status jsonl_ledger_sum(pal_engine *base, const pal_ledger_query *query,
        pal_handle handle, pal_ledger_sum *out_sum, pal_error *err)
{
    READ(ledger_sum, query, handle, out_sum, err);
}

static pal_status jsonl_ledger_list(pal_engine *base, const pal_ledger_query *query,
        pal_handle handle, const pal_ledger_place *before, pal_arena *arena,
        pal_ledger_entry *out_entries, size_t entries_max, size_t *out_len, pal_error *err)
{
    READ(ledger_list, query, handle, before, arena, out_entries, entries_max, out_len, err);
}

static pal_status jsonl_record_list(pal_engine *base, const pal_record_scan *scan, pal_arena *arena,
        pal_record *out_records, size_t *out_len, pal_error *err)
{
    READ(record_list, scan, arena, out_records, out_len, err);
}

static pal_status jsonl_blob_get(pal_engine *base, pal_str tenant, const uint8_t hash[32],
        pal_arena *arena, pal_blob_row *out_blob, pal_error *err)
{
    READ(blob_get, tenant, hash, arena, out_blob, err);
}

/* A session whose lines cannot be read would be copied as an empty one. */
static pal_status jsonl_export_scan(pal_engine *base, pal_export_kind kind, pal_str after,
        pal_arena *arena, pal_export_sink sink, void *user, pal_error *err)
{
    jsonl_engine *engine = (jsonl_engine *)base;
    pal_status status = read_begin(base, err);
    size_t position = 0;
    pal_str key;
    void *file;

    if (status != PAL_OK)
        return status;
    while (status == PAL_OK && pal_map_next(&engine->files, &position, &key, &file)) {
        const pal_error *trouble = ((jsonl_file *)file)->trouble;

        if (trouble && ((jsonl_file *)file)->is_unreadable)
            status = pal_error_set(err, trouble->status, "%s", trouble->message);
    }
    if (status == PAL_OK)
        status = pal_store_memory.export_scan(
                memory_of(base), kind, after, arena, sink, user, err);
    return read_end(base, status);
}

/* ---- Maintenance ---- */

static pal_status jsonl_stat(pal_engine *base, pal_store_stats *out_stats, pal_error *err)
{
    jsonl_engine *engine = (jsonl_engine *)base;
    pal_status status = read_begin(base, err);
    size_t position = 0;
    pal_str key;
    void *file;

    if (status != PAL_OK)
        return status;
    status = pal_store_memory.stat(engine->memory, out_stats, err);
    if (status == PAL_OK) {
        out_stats->disk_bytes = engine->log_len + out_stats->blob_bytes;
        while (pal_map_next(&engine->files, &position, &key, &file))
            out_stats->disk_bytes += ((jsonl_file *)file)->size + ((jsonl_file *)file)->meta_len;
    }
    return read_end(base, status);
}

static pal_status check_repair(
        jsonl_engine *engine, pal_store_on_finding sink, void *user, pal_error *err)
{
    pal_status status;

    pthread_rwlock_wrlock(&engine->lock);
    status = lock_take(engine, err);
    if (status == PAL_OK) {
        status = pal_jsonl_load(engine, err);
        if (status == PAL_OK)
            status = pal_jsonl_repair(engine, sink, user, err);
        lock_give(engine);
    }
    pthread_rwlock_unlock(&engine->lock);
    return status;
}

static pal_status jsonl_check(pal_engine *base, bool repair, pal_row_check row_check,
        pal_store_on_finding sink, pal_store_on_progress progress, void *user, pal_error *err)
{
    jsonl_engine *engine = (jsonl_engine *)base;
    pal_status status = PAL_OK;

    (void)row_check;
    if (repair)
        status = check_repair(engine, sink, user, err);
    if (status == PAL_OK)
        status = read_begin(base, err);
    if (status != PAL_OK)
        return status;
    pal_jsonl_check(engine, sink, progress, user);
    /* If other users cannot enter the directory, the modes of its files do not matter. */
    (void)pal_private_check(engine->location, repair, sink, user);
    return read_end(base, PAL_OK);
}

static pal_status jsonl_ready(pal_engine *base, pal_error *err)
{
    jsonl_engine *engine = (jsonl_engine *)base;
    pal_status status;

    pthread_rwlock_rdlock(&engine->lock);
    status = pal_jsonl_still_there(engine, err);
    pthread_rwlock_unlock(&engine->lock);
    return status;
}

const pal_store_backend pal_store_jsonl = {
        .scheme = "jsonl",
        .open = jsonl_open,
        .close = jsonl_close,
        .apply = jsonl_apply,
        .session_find = jsonl_session_find,
        .session_list = jsonl_session_list,
        .row_scan = jsonl_row_scan,
        .row_find = jsonl_row_find,
        .row_search = jsonl_row_search,
        .row_rank = jsonl_row_rank,
        .index_build = jsonl_index_build,
        .fork_list = jsonl_fork_list,
        .mark_list = jsonl_mark_list,
        .inbox_list = jsonl_inbox_list,
        .lease_find = jsonl_lease_find,
        .inbox_owners = jsonl_inbox_owners,
        .ledger_sum = jsonl_ledger_sum,
        .ledger_list = jsonl_ledger_list,
        .record_list = jsonl_record_list,
        .blob_get = jsonl_blob_get,
        .stat = jsonl_stat,
        .export_scan = jsonl_export_scan,
        .ready = jsonl_ready,
        .check = jsonl_check,
};
