/* jsonl_check.c - fsck for "jsonl:DIR": reports damage and repairs it.
 *
 * Most effects of a crash are repaired when the store is opened for writing, before fsck can see
 * them. The remaining findings are damage: lost records of the log, zeros in the lines, lines that
 * are not messages, a fork whose parent has lost shared messages, and unusable files. Lines that
 * are not messages are moved to .palaver/aside, under the session's id, until the session is
 * erased.
 *
 * Crash argument: each file is replaced atomically, after everything that it says about other files
 * is durable. So a crash during a repair loses nothing. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include "base/memory.h"
#include "store/jsonl/jsonl.h"

#define FILE_BYTES_MAX (SIZE_MAX / 4)

/* The receiver of the findings. */
typedef struct report {
    pal_store_on_finding sink;
    void *user;
} report;

PAL_PRINTF(4, 5)
static void tell(const report *to, pal_id session, bool repaired, const char *format, ...)
{
    pal_store_finding finding = {.session = session, .repaired = repaired};
    va_list args;

    va_start(args, format);
    vsnprintf(finding.text, sizeof finding.text, format, args);
    va_end(args);
    to->sink(&finding, to->user);
}

/* ---- Finding damage ---- */

static void check_log(jsonl_engine *engine, const report *to)
{
    uint64_t places = engine->log_gaps + engine->log_lost;

    if (engine->passed_over.status != PAL_OK)
        tell(to, (pal_id){{0}}, false, "%s", engine->passed_over.message);
    if (places > 0)
        tell(to, (pal_id){{0}}, false, "the log has lost records in %llu damaged places",
                (unsigned long long)places);
}

static void check_file(const jsonl_file *file, const report *to)
{
    if (file->trouble)
        tell(to, file->id, false, "%s", file->trouble->message);
    if (file->zeros > 0)
        tell(to, file->id, false, "'%.160s.jsonl' has %llu zeros in its lines", file->path,
                (unsigned long long)file->zeros);
    for (size_t i = 0; i < file->bad_len; i++)
        tell(to, file->id, false, "line %llu of '%.160s.jsonl' is not a message",
                (unsigned long long)file->bad[i], file->path);
}

/* If the parent's lines cannot be read at all, only that is reported. */
static void check_fork(jsonl_engine *engine, const memory_session *session, const report *to)
{
    const pal_session *record = &session->info->record;
    const jsonl_file *file = pal_jsonl_file_find(engine, session->tenant->name, record->parent_id);
    uint64_t there = session->parent ? session->parent->info->record.last_seq : 0;
    char parent[PAL_ID_TEXT_SIZE];

    if (there >= record->fork_seq || (file && file->is_unreadable))
        return;
    pal_id_to_text(record->parent_id, parent);
    tell(to, session->id, false, "the session shares %llu messages of session %s, which has %llu",
            (unsigned long long)record->fork_seq, parent, (unsigned long long)there);
}

void pal_jsonl_check(
        jsonl_engine *engine, pal_store_on_finding sink, pal_store_on_progress progress, void *user)
{
    report to = {sink, user};
    size_t position = 0;
    pal_str key;
    void *value;

    check_log(engine, &to);
    for (const memory_tenant *tenant = engine->mem->tenant_list; tenant; tenant = tenant->next)
        for (const memory_session *session = tenant->sessions; session; session = session->next)
            check_fork(engine, session, &to);
    while (pal_map_next(&engine->files, &position, &key, &value)) {
        check_file(value, &to);
        if (progress)
            progress(position, engine->files.cap, user);
    }
}

/* ---- Repairing ---- */

/* Divides the text of a file as it was when it was read: lines to keep, without the zeros before
 * them, and lines that are not messages. */
static void divide(const jsonl_file *file, pal_str text, pal_buf *kept, pal_buf *aside)
{
    uint64_t number = 0;
    size_t bad = 0;

    for (size_t at = 0; at < text.len;) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        pal_str line = pal_str_make(text.data + at,
                end ? (size_t)(end - text.data) - at + 1 : text.len - at);

        at += line.len;
        pal_jsonl_zeros_pass(&line);
        number += !pal_jsonl_line_is_blank(line);
        if (bad < file->bad_len && file->bad[bad] == number) {
            pal_buf_append_str(aside, line);
            bad++;
        } else {
            pal_buf_append_str(kept, line);
        }
    }
}

static pal_status set_aside(
        jsonl_engine *engine, const jsonl_file *file, pal_str lines, pal_error *err)
{
    char path[JSONL_PATH_MAX];
    pal_status status;
    int fd;

    if (lines.len == 0)
        return PAL_OK;
    pal_jsonl_aside_path(file, path);
    status = pal_jsonl_make_dirs(engine, path, err);
    if (status != PAL_OK)
        return status;
    fd = openat(
            engine->dir_fd, path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return pal_jsonl_refused(engine, err, path);
    if (write(fd, lines.data, lines.len) != (ssize_t)lines.len || fsync(fd) != 0)
        status = pal_jsonl_io(err, "could not write", path);
    close(fd);
    return status == PAL_OK ? pal_jsonl_sync_dir(engine, path, err) : status;
}

/* The log and the meta file are written first. From then on they determine which lines are hidden,
 * however many lines there are before them. */
static pal_status mend_lines(jsonl_engine *engine, jsonl_file *file, pal_error *err)
{
    memory_session *session = pal_jsonl_session(engine, file->tenant, file->id);
    pal_buf text, kept, aside;
    char path[JSONL_PATH_MAX];
    pal_status status;

    pal_buf_init(&text, FILE_BYTES_MAX);
    pal_buf_init(&kept, FILE_BYTES_MAX);
    pal_buf_init(&aside, FILE_BYTES_MAX);
    pal_jsonl_file_path(file, ".jsonl", path);
    status = pal_jsonl_read_file(engine, path, FILE_BYTES_MAX, &text, NULL, err);
    if (status != PAL_OK)
        goto out;
    divide(file, pal_buf_str(&text), &kept, &aside);
    if (kept.failure || aside.failure) {
        status = pal_no_memory(err);
        goto out;
    }
    status = set_aside(engine, file, pal_buf_str(&aside), err);
    if (status != PAL_OK)
        goto out;
    if (session && session->info->record.state == PAL_SESSION_ACTIVE) {
        status = pal_jsonl_meta_save(engine, session, file, err);
        if (status != PAL_OK)
            goto out;
    }
    status = pal_jsonl_replace(engine, path, pal_buf_str(&kept), err);
    if (status == PAL_OK)
        status = pal_jsonl_sync_dir(engine, path, err);
out:
    pal_buf_done(&text);
    pal_buf_done(&kept);
    pal_buf_done(&aside);
    return status;
}

static void tell_mended(const jsonl_file *file, const report *to)
{
    if (file->zeros > 0)
        tell(to, file->id, true, "'%.160s.jsonl' had %llu zeros in its lines", file->path,
                (unsigned long long)file->zeros);
    for (size_t i = 0; i < file->bad_len; i++)
        tell(to, file->id, true,
                "line %llu of '%.160s.jsonl' was not a message; it was moved aside",
                (unsigned long long)file->bad[i], file->path);
}

/* Lost records of the log cannot be restored. They are reported for the last time. */
static pal_status forget_lost(jsonl_engine *engine, const report *to, pal_error *err)
{
    uint64_t lost = engine->log_lost;
    pal_status status;

    if (lost == 0)
        return PAL_OK;
    tell(to, (pal_id){{0}}, false,
            "the log had lost records in %llu damaged places; they cannot be restored",
            (unsigned long long)lost);
    engine->log_lost = 0;
    status = pal_jsonl_compact(engine, err);
    if (status != PAL_OK)
        engine->log_lost = lost;
    return status;
}

pal_status pal_jsonl_repair(
        jsonl_engine *engine, pal_store_on_finding sink, void *user, pal_error *err)
{
    report to = {sink, user};
    pal_status status = forget_lost(engine, &to, err);
    bool is_mended = false;
    size_t position = 0;
    pal_str key;
    void *value;

    while (status == PAL_OK && pal_map_next(&engine->files, &position, &key, &value)) {
        jsonl_file *file = value;

        if ((file->zeros == 0 && file->bad_len == 0) || file->trouble)
            continue;
        if (!is_mended)
            status = pal_jsonl_compact(engine, err);
        is_mended = true;
        if (status == PAL_OK)
            status = mend_lines(engine, file, err);
        if (status == PAL_OK)
            tell_mended(file, &to);
    }
    if (is_mended)
        engine->is_stale = true;
    return status;
}
