/* store_jsonl_load.c - the state from the disk: all of it, or what others have added since.
 *
 * The log says what there is, the files have the lines. Whoever wrote the last batch may have died
 * in the middle of it: what it lacks is in the log, and is done now, before anything is read. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <stdio.h>
#include "base/memory.h"
#include "store/store_jsonl.h"

#define LOG_BYTES_MAX (SIZE_MAX / 4)

/* ---- The last batch, once more ---- */

/* A file that was on its way to its place when its writer died. */
static pal_status fetch(jl_engine *engine, jl_file *file, pal_error *err)
{
    char path[JL_PATH_MAX], id[PAL_ID_TEXT_SIZE], via[JL_PATH_MAX];
    struct stat facts;

    if (!file->path || engine->options.read_only)
        return PAL_OK;
    pal_jl_file_path(file, ".jsonl", path);
    pal_id_to_text(file->id, id);
    snprintf(via, sizeof via, JL_SIDE "/rows/%s", id);
    if (strcmp(path, via) == 0 || fstatat(engine->dir_fd, path, &facts, 0) == 0 ||
            fstatat(engine->dir_fd, via, &facts, 0) != 0)
        return PAL_OK;
    if (renameat(engine->dir_fd, via, engine->dir_fd, path) != 0)
        return pal_jl_io(err, "could not move", via);
    pal_jl_sync_dir(engine, path);
    return PAL_OK;
}

static bool is_object(pal_str text, size_t at)
{
    const char *end = memchr(text.data + at, '\n', text.len - at);
    size_t len = end ? (size_t)(end - text.data) - at : text.len - at;
    pal_arena *arena = text.data[at] == '{' ? pal_arena_new(0) : NULL;
    pal_json line;
    bool is_one = arena &&
            pal_json_parse(arena, pal_str_make(text.data + at, len), NULL, &line, NULL) == PAL_OK;

    pal_arena_free(arena);
    return is_one;
}

/* All of it, perhaps behind what another program wrote at the same time. */
static bool is_there(pal_str lines, pal_str behind)
{
    return behind.len >= lines.len &&
            memmem(behind.data, behind.len, lines.data, lines.len) != NULL;
}

/* How much of the lines is there. Lines begin alike, so that PicoClaw's, which came behind a torn
 * one of ours, may look like more of it: its line begins where an object does. */
static size_t len_there(pal_str lines, pal_str behind)
{
    size_t common = 0, len;

    while (common < lines.len && common < behind.len && lines.data[common] == behind.data[common])
        common++;
    if (common == lines.len || common == behind.len)
        return common;
    for (len = common + 1; len-- > 0;)
        if (is_object(behind, len))
            return len;
    return common;
}

/* Puts the lines behind what the file has, in place of as much of them as is there already. */
static pal_status write_rest(
        jl_engine *engine, const char *path, pal_str lines, uint64_t at, pal_error *err)
{
    int fd = openat(engine->dir_fd, path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    pal_status status = PAL_OK;

    if (fd < 0)
        return pal_jl_io(err, "could not open", path);
    status = pal_jl_write_at(fd, lines, at, path, err);
    if (status == PAL_OK && fsync(fd) != 0)
        status = pal_jl_io(err, "could not sync", path);
    close(fd);
    pal_jl_sync_dir(engine, path);
    return status;
}

/* PAL_NOT_FOUND where there is no file, or one that is shorter than `at`. */
static pal_status read_lines(jl_engine *engine, const char *path, uint64_t at, pal_buf *out_text,
        struct stat *out_facts, pal_error *err)
{
    int fd = openat(engine->dir_fd, path, O_RDONLY | O_CLOEXEC);
    pal_status status = PAL_OK;

    memset(out_facts, 0, sizeof *out_facts);
    if (fd < 0 && errno == ENOENT)
        return PAL_NOT_FOUND;
    if (fd < 0 || fstat(fd, out_facts) != 0)
        status = pal_jl_refused(engine, err, path);
    else if ((uint64_t)out_facts->st_size < at)
        status = PAL_NOT_FOUND;
    while (status == PAL_OK && out_text->len < (uint64_t)out_facts->st_size) {
        char *room = pal_buf_reserve(out_text, 65536);
        ssize_t len = room ? pread(fd, room, 65536, (off_t)out_text->len) : 0;

        if (!room)
            status = pal_error_set(err, out_text->failure, "no memory for the log");
        else if (len < 0)
            status = pal_jl_refused(engine, err, path);
        else if (len == 0)
            break;
        else
            pal_buf_commit(out_text, (size_t)len);
    }
    if (fd >= 0)
        close(fd);
    return status == PAL_OK && out_text->len < at ? PAL_NOT_FOUND : status;
}

/* What was behind a torn line of ours comes behind the whole one. */
static pal_status redo_text(jl_engine *engine, const char *path, pal_str lines, uint64_t at,
        pal_str behind, pal_error *err)
{
    size_t there = len_there(lines, behind);
    pal_status status;
    pal_buf whole;

    if (there == lines.len)
        return PAL_OK;
    pal_buf_init(&whole, LOG_BYTES_MAX);
    pal_buf_append_str(&whole, lines);
    if (behind.len > there)
        pal_buf_append(&whole, behind.data + there, behind.len - there);
    status = whole.failure ? pal_error_set(err, whole.failure, "no memory for the log")
                           : write_rest(engine, path, pal_buf_str(&whole), at, err);
    pal_buf_done(&whole);
    return status;
}

static pal_str last_line(pal_str lines)
{
    size_t from = lines.len > 0 ? lines.len - 1 : 0;

    while (from > 0 && lines.data[from - 1] != '\n')
        from--;
    return pal_str_make(lines.data + from, lines.len - from);
}

/* A file that is another one by now was written anew by PicoClaw after it had the lines, or they
 * were never acknowledged: it stays as it is. One that the batch was the first to write to is
 * known by its beginning; one that got the old one's number, by a line that moved forward. */
static bool is_anew(
        const jl_record *record, const struct stat *facts, pal_str before, pal_str behind)
{
    uint64_t inode = pal_jl_record_u64(record, "inode");
    pal_str last = last_line(record->tail);

    if (inode == 0)
        return before.len == 0 && behind.len > 0 && len_there(record->tail, behind) == 0;
    return inode != facts->st_ino ||
            (before.len > 0 && memmem(before.data, before.len, last.data, last.len) != NULL);
}

static pal_status redo(jl_engine *engine, const jl_record *record, jl_file *file, pal_error *err)
{
    uint64_t at = pal_jl_record_u64(record, "at");
    char path[JL_PATH_MAX];
    pal_str before, behind;
    struct stat facts;
    pal_buf text;
    pal_status status = fetch(engine, file, err);

    if (status == PAL_OK)
        status = pal_jl_make_dirs(engine, file->path, err);
    if (status != PAL_OK || file->anew_batch == engine->batch)
        return status;
    pal_jl_file_path(file, ".jsonl", path);
    pal_buf_init(&text, LOG_BYTES_MAX);
    status = read_lines(engine, path, at, &text, &facts, err);
    before = pal_str_make(text.data, status == PAL_OK ? at : 0);
    behind = before.len > 0 ? pal_str_make(text.data + at, text.len - at) : pal_buf_str(&text);
    if (status == PAL_NOT_FOUND && at == 0)
        status = write_rest(engine, path, record->tail, 0, err);
    else if (status == PAL_NOT_FOUND ||
            (status == PAL_OK && is_anew(record, &facts, before, behind)))
        file->anew_batch = engine->batch;
    else if (status == PAL_OK && !is_there(record->tail, behind))
        status = redo_text(engine, path, record->tail, at, behind, err);
    pal_buf_done(&text);
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

static bool is_append(const jl_record *record)
{
    return pal_json_string_is(pal_json_find(record->json, "is"), "append");
}

static pal_status load_record(
        jl_engine *engine, const jl_record *record, pal_arena *arena, bool is_last, pal_error *err)
{
    pal_status status = pal_jl_state_apply(engine, record, arena, is_last, err);
    jl_file *file;

    if (status != PAL_OK || !is_last || engine->options.read_only || !is_append(record))
        return status;
    file = pal_jl_file_find(engine, pal_jl_record_session(record, arena));
    return file && file->path ? redo(engine, record, file, err) : PAL_OK;
}

/* ---- Everything ---- */

/* Where PicoClaw has written the file anew with less in it, the marks mean nothing any more. */
static void drop_marks(mem_session *session, jl_file *file)
{
    uint64_t last_seq = session->info->record.last_seq;

    for (size_t i = 0; i < session->marks_len && !file->is_unmarked; i++)
        file->is_unmarked = session->marks[i].through_seq > last_seq;
    if (file->is_unmarked)
        pal_jl_state_unmark(session);
}

static pal_status load_session(jl_engine *engine, mem_session *session, pal_error *err)
{
    pal_session_state state = session->info->record.state;
    jl_file *file = pal_jl_file_find(engine, session->id);
    pal_status status = PAL_OK;

    if (!file || !file->path)
        return PAL_OK;
    status = fetch(engine, file, err);
    if (status == PAL_OK)
        status = pal_jl_rows_load(engine, session, file, err);
    if (status != PAL_OK || file->is_unreadable)
        return status;
    if (state != PAL_SESSION_ERASED)
        drop_marks(session, file);
    if (state == PAL_SESSION_ACTIVE || state == PAL_SESSION_QUARANTINED)
        status = pal_jl_meta_load(engine, session, file, err);
    return status;
}

static pal_status load_sessions(jl_engine *engine, pal_error *err)
{
    pal_status status = PAL_OK;

    for (mem_tenant *tenant = engine->mem->tenant_list; tenant && status == PAL_OK;
            tenant = tenant->next)
        for (mem_session *session = tenant->sessions; session && status == PAL_OK;
                session = session->next)
            status = load_session(engine, session, err);
    return status;
}

static pal_status open_log(jl_engine *engine, pal_error *err)
{
    int flags = engine->options.read_only ? O_RDONLY : O_RDWR | O_CREAT;
    struct stat facts;

    if (engine->log_fd >= 0)
        close(engine->log_fd);
    engine->log_len = engine->log_kept = 0;
    engine->log_inode = 0;
    engine->log_fd = openat(engine->dir_fd, JL_LOG, flags | O_CLOEXEC, 0644);
    if (engine->log_fd < 0 && errno == ENOENT && engine->options.read_only)
        return PAL_OK;
    if (engine->log_fd < 0 || fstat(engine->log_fd, &facts) != 0)
        return pal_jl_refused(engine, err, JL_LOG);
    engine->log_dev = facts.st_dev;
    engine->log_inode = facts.st_ino;
    return PAL_OK;
}

static pal_status load_log(jl_engine *engine, pal_error *err)
{
    size_t len = 0;
    pal_buf text;
    pal_status status;

    pal_buf_init(&text, LOG_BYTES_MAX);
    status = pal_jl_read_file(engine, JL_LOG, LOG_BYTES_MAX, &text, NULL, err);
    if (status == PAL_OK)
        status = pal_jl_log_each(engine, pal_buf_str(&text), load_record, &len, err);
    else if (status == PAL_NOT_FOUND)
        status = PAL_OK;
    if (status == PAL_OK)
        engine->log_len = engine->log_kept = len;
    pal_buf_done(&text);
    return status;
}

static void clear(jl_engine *engine)
{
    pal_mem_engine_clear(engine->mem);
    engine->mem->handle_last = 0;
    engine->followed = NULL;
    pal_jl_files_clear(engine);
    engine->batch = engine->log_gaps = 0;
    engine->passed_over.status = PAL_OK;
}

pal_status pal_jl_load(jl_engine *engine, pal_error *err)
{
    pal_status status;

    engine->is_stale = true;
    clear(engine);
    status = open_log(engine, err);
    if (status == PAL_OK)
        status = load_log(engine, err);
    if (status == PAL_OK)
        status = load_sessions(engine, err);
    if (status == PAL_OK)
        status = pal_jl_scan(engine, err);
    if (status != PAL_OK)
        return status;
    engine->is_stale = false;
    return pal_jl_migrate(engine, err);
}

/* ---- What others have added ---- */

static void note_followed(jl_engine *engine, pal_id id)
{
    jl_file *file = pal_jl_file_find(engine, id);

    if (!file || file->is_followed)
        return;
    file->is_followed = true;
    file->next_touched = engine->followed;
    engine->followed = file;
}

/* Reads their meta files: they are the other process's, or PicoClaw's who came after it. */
static pal_status load_followed(jl_engine *engine, pal_error *err)
{
    pal_status status = PAL_OK;

    for (; engine->followed; engine->followed = engine->followed->next_touched) {
        jl_file *file = engine->followed;
        mem_session *session = pal_jl_session(engine, file->id);

        file->is_followed = false;
        if (status == PAL_OK && file->path && session && !file->is_unreadable &&
                session->info->record.state == PAL_SESSION_ACTIVE)
            status = pal_jl_meta_load(engine, session, file, err);
    }
    return status;
}

static pal_status follow_record(
        jl_engine *engine, const jl_record *record, pal_arena *arena, bool is_last, pal_error *err)
{
    pal_status status = load_record(engine, record, arena, is_last, err);
    mem_session *session;
    char path[JL_PATH_MAX];
    struct stat facts;
    pal_arena *lines;
    jl_file *file;
    pal_id id;

    if (pal_id_from_text(
                pal_json_string(pal_json_find(pal_json_find(record->json, "session"), "id"), arena),
                &id))
        note_followed(engine, id);
    else
        note_followed(engine, pal_jl_record_session(record, arena));
    if (status != PAL_OK || !is_append(record) || engine->is_stale)
        return status;
    session = pal_jl_session(engine, pal_jl_record_session(record, arena));
    file = session ? pal_jl_file_find(engine, session->id) : NULL;
    if (!file || !file->path || file->size != pal_jl_record_u64(record, "at")) {
        engine->is_stale = true;
        return PAL_OK;
    }
    lines = pal_arena_new(0);
    if (!lines)
        return pal_error_set(err, PAL_NO_MEMORY, "no memory for the log");
    status = pal_jl_rows_add(engine, session, file, record->tail, lines, err);
    pal_arena_free(lines);
    pal_jl_file_path(file, ".jsonl", path);
    if (file->inode == 0 && fstatat(engine->dir_fd, path, &facts, 0) == 0)
        file->inode = facts.st_ino;
    return status;
}

static pal_status follow(jl_engine *engine, pal_error *err)
{
    size_t len = 0;
    pal_buf text;
    pal_status status = PAL_OK;
    struct stat facts;

    pal_buf_init(&text, LOG_BYTES_MAX);
    if (fstat(engine->log_fd, &facts) != 0)
        status = pal_jl_io(err, "could not look at", JL_LOG);
    while (status == PAL_OK && engine->log_len + text.len < (uint64_t)facts.st_size) {
        char *room = pal_buf_reserve(&text, 65536);
        ssize_t got =
                room ? pread(engine->log_fd, room, 65536, (off_t)(engine->log_len + text.len)) : -1;

        if (!room)
            status = pal_error_set(err, text.failure, "no memory for the log");
        else if (got <= 0)
            break;
        else
            pal_buf_commit(&text, (size_t)got);
    }
    if (status == PAL_OK)
        status = pal_jl_log_each(engine, pal_buf_str(&text), follow_record, &len, err);
    if (status == PAL_OK)
        status = load_followed(engine, err);
    if (status == PAL_OK)
        engine->log_len += len;
    else
        engine->is_stale = true;
    pal_buf_done(&text);
    return status;
}

static bool same_log(jl_engine *engine, struct stat *out_facts)
{
    if (fstatat(engine->dir_fd, JL_LOG, out_facts, 0) != 0)
        return engine->log_inode == 0;
    return out_facts->st_ino == engine->log_inode && out_facts->st_dev == engine->log_dev &&
            (uint64_t)out_facts->st_size >= engine->log_len;
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool pal_jl_is_behind(jl_engine *engine)
{
    struct stat facts = {0};

    if (engine->is_stale || !same_log(engine, &facts) || (uint64_t)facts.st_size > engine->log_len)
        return true;
    return fstat(engine->dir_fd, &facts) != 0 || !same_time(facts.st_mtim, engine->scanned);
}

/* Whether PicoClaw, or anybody, wrote to a file that the log does not speak of. */
static bool any_changed(jl_engine *engine)
{
    size_t position = 0;
    pal_str key;
    void *file;

    while (pal_map_next(&engine->files, &position, &key, &file))
        if (pal_jl_file_changed(engine, file))
            return true;
    return false;
}

pal_status pal_jl_catch_up(jl_engine *engine, pal_error *err)
{
    struct stat facts = {0};
    pal_status status = PAL_OK;

    if (engine->is_stale || !same_log(engine, &facts))
        return pal_jl_load(engine, err);
    if ((uint64_t)facts.st_size > engine->log_len)
        status = follow(engine, err);
    if (status == PAL_OK && engine->is_stale)
        return pal_jl_load(engine, err);
    if (status == PAL_OK &&
            (fstat(engine->dir_fd, &facts) != 0 || !same_time(facts.st_mtim, engine->scanned))) {
        if (any_changed(engine))
            return pal_jl_load(engine, err);
        status = pal_jl_scan(engine, err);
        if (status == PAL_OK)
            status = pal_jl_migrate(engine, err);
    }
    return status;
}

/* ---- The log anew ---- */

pal_status pal_jl_compact(jl_engine *engine, pal_error *err)
{
    jl_batch batch;
    pal_status status = PAL_NO_MEMORY;

    if (pal_jl_batch_init(&batch, engine) == PAL_OK) {
        pal_jl_put_all(&batch);
        pal_jl_log_finish(&batch);
        status = batch.log.failure;
    }
    if (status == PAL_OK)
        status = pal_jl_replace(engine, JL_LOG, pal_buf_str(&batch.log), err);
    else
        pal_error_set(err, status, "no memory for the log");
    if (status == PAL_OK) {
        pal_jl_sync_dir(engine, JL_LOG);
        status = open_log(engine, err);
        engine->log_len = engine->log_kept = batch.log.len;
        engine->batch++;
    }
    pal_jl_batch_done(&batch);
    return status;
}
