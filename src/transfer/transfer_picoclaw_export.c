/* transfer_picoclaw_export.c - writes sessions as PicoClaw's files: the visible messages, one per
 * line, and a meta file next to them. Each file appears complete or not at all. The lines are
 * written first, because a meta file without lines would look like a session that lost them.
 *
 * PicoClaw stores each tool result as a separate message, so a message with several results
 * becomes several lines. */
#include "transfer/transfer_picoclaw_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/json/json.h"
#include "base/utf8.h"

#define PAGE 500
#define PAGE_BYTES ((uint64_t)32 << 20)
#define NAME_SHOWN 100
#define FLUSH_AT ((size_t)1 << 20)    /* bytes that are written at once */
#define PENDING_MAX ((size_t)1 << 30) /* bytes that wait to be written */
#define LINES ".jsonl"
#define META ".meta.json"

/* A file that gets its name when it is complete. */
typedef struct target {
    char path[PATH_MAX];
    char temporary[PATH_MAX];
    int fd;
    pal_buf buf;
} target;

typedef struct job {
    pal_picoclaw_export *export;
    const pal_session *session;
    pal_str key;
    pal_arena *arena;
    target file;
    uint64_t lines;
} job;

static void show_name(pal_str name, char out_text[NAME_SHOWN + 1])
{
    snprintf(out_text, NAME_SHOWN + 1, "%.*s", (int)pal_utf8_cut(name, NAME_SHOWN),
            name.len ? name.data : "");
}

/* ---- Files ---- */

static pal_status file_failed(pal_error *err, const char *path)
{
    return pal_error_set(err, errno == EACCES || errno == EROFS ? PAL_DENIED : PAL_IO,
            "could not write '%.160s': %s", path, strerror(errno));
}

static pal_status path_of(const job *j, const char *end, char out_path[PATH_MAX])
{
    pal_str base = pal_picoclaw_base(j->key, j->arena);
    char name[NAME_SHOWN + 1];
    show_name(j->key, name);
    if (base.len + strlen(META) > NAME_MAX || memchr(base.data, 0, base.len))
        return pal_error_set(
                j->export->err, PAL_LIMIT, "key '%s' cannot be used as a file name", name);
    int len = snprintf(out_path, PATH_MAX, "%s/%.*s%s", j->export->dir, PAL_STR_ARG(base), end);
    if (len >= PATH_MAX)
        return pal_error_set(
                j->export->err, PAL_LIMIT, "the path for '%s' is too long", name);
    return PAL_OK;
}

static pal_status target_open(job *j, const char *end)
{
    target *file = &j->file;
    int len = snprintf(file->temporary, PATH_MAX, "%s/.tmp-XXXXXX", j->export->dir);
    pal_status status = path_of(j, end, file->path);
    if (status != PAL_OK || len >= PATH_MAX)
        return status;
    file->fd = mkostemp(file->temporary, O_CLOEXEC);
    return file->fd < 0 ? file_failed(j->export->err, file->path) : PAL_OK;
}

static pal_status target_write(job *j)
{
    pal_buf *buf = &j->file.buf;
    size_t at = 0;
    if (buf->failure)
        return pal_error_set(j->export->err, buf->failure, "out of memory while writing '%.160s'",
                j->file.path);
    while (at < buf->len) {
        ssize_t written = write(j->file.fd, buf->data + at, buf->len - at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return file_failed(j->export->err, j->file.path);
        at += (size_t)written;
    }
    pal_buf_clear(buf);
    return PAL_OK;
}

static pal_status target_finish(job *j, pal_status status)
{
    target *file = &j->file;
    if (status == PAL_OK)
        status = target_write(j);
    if (status == PAL_OK &&
            (fchmod(file->fd, 0644) != 0 || fsync(file->fd) != 0 ||
                    rename(file->temporary, file->path) != 0))
        status = file_failed(j->export->err, file->path);
    if (file->fd >= 0) {
        close(file->fd);
        if (status != PAL_OK)
            unlink(file->temporary);
    }
    file->fd = -1;
    pal_buf_clear(&file->buf);
    return status;
}

/* A rename is durable only after its directory is synced. */
static void sync_directory(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

/* ---- Lines ---- */

/* Hidden messages are left out, so the positions of the others change. */
static pal_status put_line(job *j, const pal_message *message)
{
    pal_buf *buf = &j->file.buf;
    size_t start = buf->len;
    pal_message placed = *message;
    placed.seq = 0;
    pal_picoclaw_line_write(buf, &placed);
    pal_buf_append_char(buf, '\n');
    if (buf->len - start > PAL_PICOCLAW_LINE_MAX) {
        char name[NAME_SHOWN + 1];
        show_name(j->key, name);
        return pal_error_set(j->export->err, PAL_LIMIT,
                "message %llu of '%s' has %zu bytes; PicoClaw cannot read lines over %u bytes",
                (unsigned long long)message->seq, name, buf->len - start, PAL_PICOCLAW_LINE_MAX);
    }
    j->lines++;
    return buf->failure || buf->len >= FLUSH_AT ? target_write(j) : PAL_OK;
}

static bool is_result(const pal_part *part)
{
    return part->kind == PAL_PART_TOOL_RESULT;
}

/* Writes each result as a separate line, together with the parts after it. These lines do not have
 * the id of the message. */
static pal_status put_message(job *j, const pal_message *message)
{
    pal_status status = PAL_OK;
    size_t start = 0;
    pal_message piece = *message;
    for (size_t i = 1; status == PAL_OK && i < message->parts_len; i++) {
        if (!is_result(&message->parts[i]) || !is_result(&message->parts[start]))
            continue;
        piece = (pal_message){.role = message->role,
                .seq = message->seq,
                .created_at = message->created_at,
                .model = message->model,
                .parts = message->parts + start,
                .parts_len = i - start};
        status = put_line(j, &piece);
        start = i;
    }
    piece.parts = start ? message->parts + start : message->parts;
    piece.parts_len = message->parts_len - start;
    return status == PAL_OK ? put_line(j, &piece) : status;
}

static pal_status put_messages(job *j)
{
    pal_picoclaw_export *export = j->export;
    pal_message_query load = {.limit = PAGE, .bytes_max = PAGE_BYTES};
    pal_message_page page;
    pal_status status;
    do {
        pal_arena_reset(j->arena);
        status = pal_store_load(
                export->store, export->tenant, j->session->id, &load, j->arena, &page, export->err);
        for (size_t i = 0; status == PAL_OK && i < page.len; i++) {
            load.after_seq = page.items[i].seq;
            status = put_message(j, &page.items[i]);
            export->messages++;
            if (export->on_progress)
                export->on_progress(export->messages, export->user);
        }
        /* A single message can exceed the byte limit of a page; then it is loaded alone. */
        bool is_big = status == PAL_OK && page.has_more && page.len == 0;
        load.bytes_max = is_big ? 0 : PAGE_BYTES;
        load.limit = is_big ? 1 : PAGE;
    } while (status == PAL_OK && page.has_more);
    return status;
}

/* ---- Meta ---- */

static pal_status find_summary(job *j, pal_str *out_summary)
{
    pal_picoclaw_export *export = j->export;
    pal_mark *marks;
    size_t len;
    pal_json body;
    pal_status status = pal_store_marks(
            export->store, export->tenant, j->session->id, j->arena, &marks, &len, export->err);
    while (status == PAL_OK && len > 0 &&
            (marks[len - 1].kind != PAL_MARK_CHECKPOINT || marks[len - 1].undone))
        len--;
    if (status == PAL_OK && len > 0 && marks[len - 1].body.len &&
            pal_json_parse(j->arena, marks[len - 1].body, NULL, &body, NULL) == PAL_OK)
        *out_summary = pal_json_string(pal_json_find(body, "summary"), j->arena);
    return status;
}

/* Returns the members of the meta file that an import stored because they have no field here. */
static pal_str kept_members(job *j)
{
    pal_json metadata;
    pal_str text = j->session->metadata;
    if (!text.len || pal_json_parse(j->arena, text, NULL, &metadata, NULL) != PAL_OK ||
            !pal_json_string_is(pal_json_find(metadata, "source"), "picoclaw"))
        return pal_str_make(NULL, 0);
    pal_json kept = pal_json_find(metadata, "picoclaw");
    return pal_json_type_of(kept) == PAL_JSON_OBJECT ? pal_json_raw(kept) : pal_str_make(NULL, 0);
}

static pal_status put_meta(job *j)
{
    const pal_session *session = j->session;
    pal_picoclaw_meta meta = {.key = j->key,
            .count = j->lines,
            .created_at_ms = session->created_at,
            .updated_at_ms = session->updated_at,
            .scope = session->scope,
            .aliases = session->aliases,
            .aliases_len = session->aliases_len};
    pal_arena_reset(j->arena);
    pal_status status = find_summary(j, &meta.summary);
    meta.extra = kept_members(j);
    if (status == PAL_OK)
        status = target_open(j, META);
    if (status == PAL_OK)
        pal_picoclaw_meta_write(&j->file.buf, &meta);
    return target_finish(j, status);
}

/* ---- Sessions ---- */

/* Two keys can have the same file name. A file of another session is never replaced. */
static pal_status check_owner(job *j, const char *path)
{
    pal_picoclaw_export *export = j->export;
    pal_picoclaw_meta meta;
    pal_transfer_input input;
    pal_str text;
    char ours[NAME_SHOWN + 1], theirs[NAME_SHOWN + 1];
    pal_status status = PAL_OK;
    if (access(path, F_OK) != 0)
        return PAL_OK;
    status = pal_transfer_input_open(path, &input, export->err);
    if (status != PAL_OK)
        return status;
    status = pal_transfer_input_all(&input, &text, export->err);
    if (status == PAL_OK && pal_picoclaw_meta_read(text, j->arena, &meta, NULL) == PAL_OK &&
            meta.key.len && !pal_str_equal(meta.key, j->key)) {
        show_name(j->key, ours);
        show_name(meta.key, theirs);
        status = pal_error_set(export->err, PAL_CONFLICT,
                "'%s' would use the same file as '%s', which already exists", ours, theirs);
    }
    pal_transfer_input_close(&input);
    return status;
}

static pal_status check_free(job *j)
{
    pal_picoclaw_export *export = j->export;
    char meta[PATH_MAX], lines[PATH_MAX];
    pal_status status = path_of(j, META, meta);
    if (status == PAL_OK)
        status = path_of(j, LINES, lines);
    if (status == PAL_OK)
        status = check_owner(j, meta);
    if (status != PAL_OK || j->export->force)
        return status;
    const char *taken = access(meta, F_OK) == 0 ? meta : access(lines, F_OK) == 0 ? lines : NULL;
    if (!taken)
        return PAL_OK;
    export->has_existing = true;
    return pal_error_set(export->err, PAL_CONFLICT, "'%.200s' already exists", taken);
}

pal_status pal_picoclaw_export_session(pal_picoclaw_export *export, const pal_session *session)
{
    char id[PAL_ID_TEXT_SIZE];
    job j = {.export = export, .session = session, .key = session->key, .file = {.fd = -1}};
    pal_id_to_text(session->id, id);
    if (!j.key.len)
        j.key = pal_str_of(id);
    j.arena = pal_arena_new(0);
    if (!j.arena)
        return pal_no_memory(export->err);
    pal_buf_init(&j.file.buf, PENDING_MAX);
    pal_status status = check_free(&j);
    if (status != PAL_OK)
        goto out;
    status = target_open(&j, LINES);
    if (status == PAL_OK)
        status = put_messages(&j);
    status = target_finish(&j, status);
    if (status != PAL_OK)
        goto out;
    status = put_meta(&j);
    if (status != PAL_OK)
        goto out;
    sync_directory(export->dir);
    export->sessions++;
out:
    pal_buf_done(&j.file.buf);
    pal_arena_free(j.arena);
    return status;
}

pal_status pal_picoclaw_export_prepare(pal_picoclaw_export *export)
{
    struct stat info;
    if (mkdir(export->dir, 0755) != 0 && errno != EEXIST)
        return file_failed(export->err, export->dir);
    if (stat(export->dir, &info) == 0 && !S_ISDIR(info.st_mode))
        return pal_error_set(export->err, PAL_INVALID, "'%.160s' is not a directory", export->dir);
    return pal_picoclaw_dir_check(export->store_url, export->dir, export->err);
}
