/* jsonl_load.c - loads the state from the disk: all of it, or only the changes that others
 * have made.
 *
 * The log says which sessions exist, and the files contain the lines. The process that wrote the
 * last batch may have died before the batch was finished. jsonl_recover.c completes it before
 * anything is read. If a power cut left holes in the log, the log is then replaced atomically by a
 * new one. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <stdio.h>
#include "base/memory.h"
#include "dialect/native/native.h"
#include "store/jsonl/jsonl.h"

#define LOG_BYTES_MAX (SIZE_MAX / 4)

static bool is_kind(const jsonl_record *record, const char *kind)
{
    return pal_json_string_is(pal_json_find(record->json, "is"), kind);
}

/* A batch that only marks the previous one as finished needs no recovery. Neither does a rewritten
 * log. */
static void note_last(jsonl_engine *engine, const jsonl_record *record)
{
    if (is_kind(record, "done") || is_kind(record, "start"))
        engine->is_settled = true;
    engine->is_log_new = engine->is_log_new || is_kind(record, "start");
    engine->is_late = !engine->is_settled;
    if (engine->is_late && (is_kind(record, "erase") || is_kind(record, "erase_message")))
        engine->is_late_erasing = true;
}

static memory_session *record_session(
        jsonl_engine *engine, const jsonl_record *record, pal_arena *arena)
{
    return pal_jsonl_session(engine, pal_jsonl_record_tenant(record, arena),
            pal_jsonl_record_session(record, arena));
}

static jsonl_file *record_file(jsonl_engine *engine, const jsonl_record *record, pal_arena *arena)
{
    const memory_session *session = record_session(engine, record, arena);

    return session ? pal_jsonl_file_find(engine, session->tenant->name, session->id) : NULL;
}

/* The message is erased when the lines have been read. */
static pal_status note_erased(jsonl_engine *engine, jsonl_file *file,
        const jsonl_record *record, pal_error *err)
{
    if (!file)
        return PAL_OK;
    if (!pal_reserve(&engine->erased, &engine->erased_cap, engine->erased_len + 1,
                sizeof *engine->erased))
        return pal_no_memory(err);
    engine->erased[engine->erased_len++] =
            (jsonl_erased){.file = file, .seq = pal_jsonl_record_u64(record, "seq")};
    return PAL_OK;
}

static pal_status load_record(jsonl_engine *engine, const jsonl_record *record, pal_arena *arena,
        bool is_last, pal_error *err)
{
    pal_status status;
    jsonl_file *file;

    if (is_last)
        note_last(engine, record);
    status = pal_jsonl_state_apply(engine, record, arena, is_last && engine->is_late, err);
    if (status == PAL_OK && is_last && engine->is_late && is_kind(record, "erase_message"))
        return note_erased(engine, record_file(engine, record, arena), record, err);
    if (status != PAL_OK || !is_kind(record, "append"))
        return status;
    file = record_file(engine, record, arena);
    if (!file || !file->path)
        return PAL_OK;
    file->named_inode = (ino_t)pal_jsonl_record_u64(record, "inode");
    return is_last && engine->is_late ? pal_jsonl_late_note(file, record, NULL, err) : PAL_OK;
}

/* ---- Loading everything ---- */

/* If PicoClaw has rewritten the file with fewer lines, the marks are no longer valid. */
static void drop_marks(memory_session *session, jsonl_file *file)
{
    uint64_t last_seq = session->info->record.last_seq;

    for (size_t i = 0; i < session->marks_len && !file->is_unmarked; i++)
        file->is_unmarked = session->marks[i].through_seq > last_seq;
    if (file->is_unmarked)
        pal_jsonl_state_unmark(session);
}

static pal_status load_session(jsonl_engine *engine, memory_session *session, pal_error *err)
{
    pal_session_state state = session->info->record.state;
    jsonl_file *file = pal_jsonl_file_find(engine, session->tenant->name, session->id);
    pal_status status = PAL_OK;

    if (!file || !file->path)
        return PAL_OK;
    status = pal_jsonl_rows_load(engine, session, file, err);
    if (status != PAL_OK || file->is_unreadable)
        return status;
    if (state != PAL_SESSION_ERASED)
        drop_marks(session, file);
    if (state == PAL_SESSION_ACTIVE || state == PAL_SESSION_QUARANTINED)
        status = pal_jsonl_meta_load(engine, session, file, err);
    return status;
}

static pal_status load_sessions(jsonl_engine *engine, pal_error *err)
{
    pal_status status = PAL_OK;

    for (memory_tenant *tenant = engine->mem->tenant_list; tenant && status == PAL_OK;
            tenant = tenant->next)
        for (memory_session *session = tenant->sessions; session && status == PAL_OK;
                session = session->next)
            status = load_session(engine, session, err);
    return status;
}

/* A session's meta file has its last summary, which may quote an erased message. */
static void save_metas(jsonl_engine *engine, memory_session *session, uint64_t seq)
{
    jsonl_file *file = pal_jsonl_file_find(engine, session->tenant->name, session->id);
    pal_session_state state = session->info->record.state;
    pal_error ignored;

    if (file && file->path && (state == PAL_SESSION_ACTIVE || state == PAL_SESSION_QUARANTINED))
        (void)!pal_jsonl_meta_save(engine, session, file, &ignored);
    for (memory_session *child = session->children; child; child = child->next_child)
        if (child->info->record.fork_seq >= seq)
            save_metas(engine, child, seq);
}

/* Erases the messages that the last batch erases: their lines were read again. */
static void erase_late(jsonl_engine *engine)
{
    for (size_t i = 0; i < engine->erased_len; i++) {
        const jsonl_erased *erased = &engine->erased[i];
        memory_session *owner =
                pal_jsonl_session(engine, erased->file->tenant, erased->file->id);
        pal_erase_result ignored = {0};

        if (!owner)
            continue;
        pal_memory_message_erase(engine->mem, owner, erased->seq, &ignored);
        erased->file->has_erased = true;
        if (!engine->options.read_only)
            save_metas(engine, owner, erased->seq);
    }
}

static pal_status open_log(jsonl_engine *engine, pal_error *err)
{
    int flags = engine->options.read_only ? O_RDONLY : O_RDWR | O_CREAT;
    struct stat facts;

    if (engine->log_fd >= 0)
        close(engine->log_fd);
    engine->log_len = engine->log_kept = 0;
    engine->log_inode = 0;
    engine->log_fd = openat(engine->dir_fd, JSONL_LOG, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (engine->log_fd < 0 && errno == ENOENT && engine->options.read_only)
        return PAL_OK;
    if (engine->log_fd < 0 || fstat(engine->log_fd, &facts) != 0)
        return pal_jsonl_refused(engine, err, JSONL_LOG);
    engine->log_dev = facts.st_dev;
    engine->log_inode = facts.st_ino;
    return PAL_OK;
}

static pal_status load_log(jsonl_engine *engine, pal_error *err)
{
    size_t len = 0;
    pal_buf text;
    pal_status status;

    pal_buf_init(&text, LOG_BYTES_MAX);
    status = pal_jsonl_read_file(engine, JSONL_LOG, LOG_BYTES_MAX, &text, NULL, err);
    if (status == PAL_OK)
        status = pal_jsonl_log_each(engine, pal_buf_str(&text), load_record, &len, err);
    else if (status == PAL_NOT_FOUND)
        status = PAL_OK;
    if (status == PAL_OK)
        engine->log_len = engine->log_kept = len;
    pal_buf_done(&text);
    return status;
}

static void clear(jsonl_engine *engine)
{
    pal_memory_engine_clear(engine->mem);
    engine->mem->handle_last = 0;
    engine->followed = NULL;
    pal_jsonl_files_clear(engine);
    engine->batch = engine->log_gaps = engine->log_holes = engine->log_lost = 0;
    engine->log_tail_len = engine->orphans = engine->erased_len = 0;
    engine->is_late = engine->is_settled = engine->is_late_erasing = false;
    engine->is_log_new = false;
    engine->passed_over.status = PAL_OK;
}

static bool same_log(jsonl_engine *engine, struct stat *out_facts)
{
    if (fstatat(engine->dir_fd, JSONL_LOG, out_facts, 0) != 0)
        return engine->log_inode == 0;
    return out_facts->st_ino == engine->log_inode && out_facts->st_dev == engine->log_dev &&
            (uint64_t)out_facts->st_size >= engine->log_len;
}

/* Finishes the last batch and rewrites a damaged log. */
static pal_status mend(jsonl_engine *engine, pal_error *err)
{
    pal_status status = PAL_OK;
    struct stat facts;

    if (engine->options.read_only)
        return PAL_OK;
    /* The process that created or replaced the log may have died before its name was durable.
     * Nothing was appended to it since. */
    if (engine->log_len == 0 || engine->is_log_new)
        status = pal_jsonl_sync_store(engine, err);
    engine->is_log_new = false;
    if (status == PAL_OK && engine->is_late)
        status = pal_jsonl_finish(engine, engine->is_late_erasing, err);
    if (status != PAL_OK || engine->log_gaps + engine->log_holes == 0)
        return status;
    engine->log_lost += engine->log_gaps;
    status = pal_jsonl_compact(engine, err);
    if (status == PAL_OK || !same_log(engine, &facts))
        return status;
    /* There may be no space for a new log. The old log can still be read and written. */
    engine->log_lost -= engine->log_gaps;
    return PAL_OK;
}

pal_status pal_jsonl_load(jsonl_engine *engine, pal_error *err)
{
    pal_status status;

    engine->is_stale = true;
    clear(engine);
    status = open_log(engine, err);
    if (status != PAL_OK)
        return status;
    status = load_log(engine, err);
    if (status != PAL_OK)
        return status;
    status = pal_jsonl_settle(engine, err);
    if (status != PAL_OK)
        return status;
    status = load_sessions(engine, err);
    if (status != PAL_OK)
        return status;
    erase_late(engine);
    status = pal_jsonl_scan(engine, err);
    if (status != PAL_OK)
        return status;
    status = mend(engine, err);
    if (status != PAL_OK)
        return status;
    engine->is_stale = false;
    return pal_jsonl_migrate(engine, err);
}

/* ---- Changes by other processes ---- */

static void note_followed(jsonl_engine *engine, jsonl_file *file)
{
    if (!file || file->is_followed)
        return;
    file->is_followed = true;
    file->next_touched = engine->followed;
    engine->followed = file;
}

/* Reads the meta files of changed sessions. The other process has written them, or PicoClaw has
 * written them later. */
static pal_status load_followed(jsonl_engine *engine, pal_error *err)
{
    pal_status status = PAL_OK;

    for (; engine->followed; engine->followed = engine->followed->next_touched) {
        jsonl_file *file = engine->followed;
        memory_session *session = pal_jsonl_session(engine, file->tenant, file->id);

        file->is_followed = false;
        if (status == PAL_OK && file->path && session && !file->is_unreadable &&
                session->info->record.state == PAL_SESSION_ACTIVE)
            status = pal_jsonl_meta_load(engine, session, file, err);
    }
    return status;
}

static pal_status follow_record(jsonl_engine *engine, const jsonl_record *record, pal_arena *arena,
        bool is_last, pal_error *err)
{
    pal_status status;
    memory_session *session;
    char path[JSONL_PATH_MAX];
    struct stat facts;
    pal_arena *lines;
    jsonl_file *file;
    pal_session made;

    /* The writer died before the batch was finished, or could not record that it is finished. */
    if (is_last && !is_kind(record, "done"))
        engine->is_stale = true;
    if (engine->is_stale)
        return PAL_OK;
    status = load_record(engine, record, arena, false, err);
    if (is_kind(record, "session") &&
            pal_native_session_read(
                    pal_json_find(record->json, "session"), arena, &made, NULL) == PAL_OK)
        note_followed(engine, pal_jsonl_file_find(engine, made.tenant, made.id));
    else
        note_followed(engine, record_file(engine, record, arena));
    if (status != PAL_OK || !is_kind(record, "append"))
        return status;
    session = record_session(engine, record, arena);
    file = session ? pal_jsonl_file_find(engine, session->tenant->name, session->id) : NULL;
    if (!file || !file->path || file->size != pal_jsonl_record_u64(record, "at")) {
        engine->is_stale = true;
        return PAL_OK;
    }
    lines = pal_arena_new(0);
    if (!lines)
        return pal_no_memory(err);
    status = pal_jsonl_rows_add(engine, session, file, record->tail, lines, err);
    pal_arena_free(lines);
    pal_jsonl_file_path(file, ".jsonl", path);
    if (file->inode == 0 && fstatat(engine->dir_fd, path, &facts, 0) == 0)
        file->inode = facts.st_ino;
    return status;
}

/* Reads the part of the log that was added since. */
static pal_status read_added(jsonl_engine *engine, pal_buf *text, pal_error *err)
{
    struct stat facts;

    if (fstat(engine->log_fd, &facts) != 0)
        return pal_jsonl_io(err, "could not look at", JSONL_LOG);
    while (engine->log_len + text->len < (uint64_t)facts.st_size) {
        char *room = pal_buf_reserve(text, 65536);
        ssize_t got;

        if (!room)
            return pal_error_set(err, text->failure, "out of memory");
        got = pread(engine->log_fd, room, 65536, (off_t)(engine->log_len + text->len));
        if (got <= 0)
            break;
        pal_buf_commit(text, (size_t)got);
    }
    return PAL_OK;
}

static pal_status follow(jsonl_engine *engine, pal_error *err)
{
    size_t len = 0;
    pal_buf text;
    pal_status status;

    pal_buf_init(&text, LOG_BYTES_MAX);
    status = read_added(engine, &text, err);
    if (status != PAL_OK)
        goto out;
    status = pal_jsonl_log_each(engine, pal_buf_str(&text), follow_record, &len, err);
    if (status != PAL_OK)
        goto out;
    status = load_followed(engine, err);
    if (status == PAL_OK)
        engine->log_len += len;
out:
    if (status != PAL_OK)
        engine->is_stale = true;
    pal_buf_done(&text);
    return status;
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool pal_jsonl_is_behind(jsonl_engine *engine)
{
    struct stat facts = {0};

    if (engine->is_stale || !same_log(engine, &facts) || (uint64_t)facts.st_size > engine->log_len)
        return true;
    return fstat(engine->dir_fd, &facts) != 0 || !same_time(facts.st_mtim, engine->scanned);
}

/* Returns whether PicoClaw or another program has written to a file without the log. */
static bool any_changed(jsonl_engine *engine)
{
    size_t position = 0;
    pal_str key;
    void *file;

    while (pal_map_next(&engine->files, &position, &key, &file))
        if (pal_jsonl_file_changed(engine, file))
            return true;
    return false;
}

pal_status pal_jsonl_catch_up(jsonl_engine *engine, pal_error *err)
{
    struct stat facts = {0};
    pal_status status = PAL_OK;

    if (engine->is_stale || !same_log(engine, &facts))
        return pal_jsonl_load(engine, err);
    if ((uint64_t)facts.st_size > engine->log_len)
        status = follow(engine, err);
    if (status != PAL_OK)
        return status;
    if (engine->is_stale)
        return pal_jsonl_load(engine, err);
    if (fstat(engine->dir_fd, &facts) == 0 && same_time(facts.st_mtim, engine->scanned))
        return PAL_OK;
    if (any_changed(engine))
        return pal_jsonl_load(engine, err);
    status = pal_jsonl_scan(engine, err);
    return status == PAL_OK ? pal_jsonl_migrate(engine, err) : status;
}

/* ---- Rewriting the log ---- */

pal_status pal_jsonl_compact(jsonl_engine *engine, pal_error *err)
{
    jsonl_batch batch;
    pal_status status = pal_jsonl_batch_init(&batch, engine);

    if (status == PAL_OK) {
        pal_jsonl_put_all(&batch);
        pal_jsonl_log_finish(&batch);
        status = batch.log.failure;
    }
    if (status != PAL_OK) {
        pal_error_set(err, status, "out of memory");
        goto out;
    }
    status = pal_jsonl_replace(engine, JSONL_LOG, pal_buf_str(&batch.log), err);
    if (status != PAL_OK)
        goto out;
    status = pal_jsonl_sync_dir(engine, JSONL_LOG, err);
    if (status != PAL_OK)
        goto out;
    status = open_log(engine, err);
    if (status != PAL_OK)
        goto out;
    engine->log_len = engine->log_kept = batch.log.len;
    engine->log_gaps = engine->log_holes = 0;
    engine->log_tail_len = 0;
    engine->is_late = false;
    engine->batch++;
out:
    pal_jsonl_batch_done(&batch);
    return status;
}
