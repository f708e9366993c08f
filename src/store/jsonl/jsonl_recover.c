/* jsonl_recover.c - completes the last batch after a crash.
 *
 * The process that wrote the batch may have been killed, or the machine may have lost power. The
 * log contains the whole batch: the lines, where each file was, where it belongs, and the length
 * and checksum of its earlier contents. A file is identified by these and not by its inode number,
 * so a copy of the directory is recovered as well as the original. The file is at one of three
 * places: its old path, its new path, or in between, in .palaver/rows under its session's id, where
 * no other file can be.
 *
 * After the earlier contents, a power cut can leave any sectors of the new lines, with zeros
 * between them. All of these are overwritten. Lines that PicoClaw has appended since are kept,
 * after the batch's lines; PicoClaw never writes a zero byte. If the earlier contents differ,
 * PicoClaw has rewritten the file, and it is left unchanged.
 *
 * Crash argument: a crash during the recovery is harmless. The log is synced first, nothing else is
 * written before the batch is finished, and every step can be repeated. A read-only process changes
 * nothing: it reads the lines from where they are. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "base/memory.h"
#include "store/jsonl/jsonl.h"

#define FILE_BYTES_MAX (SIZE_MAX / 4)

static pal_status text_copy(const char *text, char **out_copy, pal_error *err)
{
    size_t size = strlen(text) + 1;

    *out_copy = pal_malloc(size);
    if (!*out_copy)
        return pal_no_memory(err);
    memcpy(*out_copy, text, size);
    return PAL_OK;
}

/* ---- Reading the batch ---- */

void pal_jsonl_late_free(jsonl_file *file)
{
    if (!file->late)
        return;
    pal_free(file->late->from);
    pal_free(file->late->found);
    pal_buf_done(&file->late->lines);
    pal_buf_done(&file->late->text);
    pal_free(file->late);
    file->late = NULL;
}

static pal_status late_make(jsonl_file *file, const jsonl_record *record, pal_error *err)
{
    file->late = pal_calloc(1, sizeof *file->late);
    if (!file->late)
        return pal_no_memory(err);
    pal_buf_init(&file->late->lines, FILE_BYTES_MAX);
    pal_buf_init(&file->late->text, FILE_BYTES_MAX);
    file->late->at = pal_jsonl_record_u64(record, "at");
    file->late->inode = (ino_t)pal_jsonl_record_u64(record, "inode");
    file->late->has_sum =
            pal_json_type_of(pal_json_find(record->json, "sum")) != PAL_JSON_NONE;
    file->late->sum = pal_jsonl_record_u64(record, "sum");
    return PAL_OK;
}

pal_status pal_jsonl_late_note(
        jsonl_file *file, const jsonl_record *record, const char *from, pal_error *err)
{
    pal_status status = file->late ? PAL_OK : late_make(file, record, err);

    if (status != PAL_OK)
        return status;
    if (from)
        return file->late->from ? PAL_OK : text_copy(from, &file->late->from, err);
    file->late->now_ms = (int64_t)pal_jsonl_record_u64(record, "now");
    pal_buf_append_str(&file->late->lines, record->tail);
    return file->late->lines.failure ? pal_no_memory(err) : PAL_OK;
}

/* ---- Comparing with the disk ---- */

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

/* Returns how much of `after` belongs to the lines: their bytes, or zeros for bytes that never
 * reached the disk. All lines begin alike, so a line of PicoClaw after a torn line of ours may look
 * like its continuation. The end is where a complete object begins. */
static size_t len_there(pal_str lines, pal_str after)
{
    size_t common = 0, start, at;

    while (common < lines.len && common < after.len &&
            (lines.data[common] == after.data[common] || after.data[common] == '\0'))
        common++;
    if (common == lines.len || common == after.len)
        return common;
    for (start = common; start > 0 && after.data[start - 1] != '\n'; start--)
        ;
    for (at = common + 1; at-- > start;)
        if (is_object(after, at))
            return at;
    return common;
}

/* Returns whether the file begins as it did before the batch. */
static bool fits(const jsonl_late *late, pal_str text, ino_t inode)
{
    if (text.len < late->at)
        return false;
    if (!late->has_sum)
        return late->inode == 0 || late->inode == inode;
    return pal_jsonl_sum(JSONL_SUM_START, pal_str_make(text.data, late->at)) == late->sum;
}

/* A file that the batch wrote first is recognized by its beginning. */
static bool is_ours(const jsonl_late *late, pal_str text, ino_t inode)
{
    pal_str lines = pal_buf_str(&late->lines);

    if (!fits(late, text, inode))
        return false;
    return late->at > 0 || late->inode != 0 || text.len == 0 || len_there(lines, text) > 0 ||
            (lines.len > 0 && memmem(text.data, text.len, lines.data, lines.len) != NULL);
}

/* PicoClaw may have rewritten the file so that it begins as before but ends there: it has removed
 * the lines, and its meta file is newer than the lines. */
static bool is_cut(jsonl_engine *engine, const jsonl_file *file, pal_str text, ino_t inode)
{
    const jsonl_late *late = file->late;
    char path[JSONL_PATH_MAX];
    bool is_palavers = false;
    int64_t updated_at = 0;

    if (late->at == 0 || text.len != late->at || late->inode == inode)
        return false;
    pal_jsonl_file_path(file, ".meta.json", path);
    return pal_jsonl_meta_look(engine, path, &is_palavers, &updated_at) && !is_palavers &&
            updated_at >= late->now_ms;
}

/* Returns the content of the file when the batch is finished. Returns false if the file stays
 * unchanged. */
static bool completed(
        jsonl_engine *engine, const jsonl_file *file, pal_str text, ino_t inode, pal_buf *out_text)
{
    const jsonl_late *late = file->late;
    pal_str lines = pal_buf_str(&late->lines), after;
    size_t skip;

    if (lines.len == 0 || !is_ours(late, text, inode) || is_cut(engine, file, text, inode))
        return false;
    after = text.len > 0 ? pal_str_make(text.data + late->at, text.len - late->at) : text;
    if (after.len >= lines.len &&
            memmem(after.data, after.len, lines.data, lines.len) != NULL)
        return false;
    pal_buf_append(out_text, text.data, (size_t)late->at);
    pal_buf_append_str(out_text, lines);
    skip = len_there(lines, after);
    while (skip < after.len && after.data[skip] == '\0')
        skip++;
    if (skip < after.len)
        pal_buf_append(out_text, after.data + skip, after.len - skip);
    return true;
}

/* ---- Finding the file ---- */

/* One possible place of the file. */
typedef struct place {
    char path[JSONL_PATH_MAX]; /* path with its extension */
    pal_buf text;
    ino_t inode; /* 0: there is no file */
} place;

static pal_status look(jsonl_engine *engine, place *at, pal_error *err)
{
    struct stat facts = {0};
    pal_status status;

    at->text.len = 0;
    at->inode = 0;
    status = pal_jsonl_read_file(engine, at->path, FILE_BYTES_MAX, &at->text, &facts, err);
    if (status == PAL_OK)
        at->inode = facts.st_ino;
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

static void path_before(const jsonl_file *file, char out_path[JSONL_PATH_MAX])
{
    jsonl_file before = *file;

    before.path = file->late->from;
    pal_jsonl_file_path(&before, ".jsonl", out_path);
}

/* Returns whether another file of the batch was here and was not moved away yet. */
static bool is_anothers(jsonl_engine *engine, const jsonl_file *file, const char *path)
{
    char from[JSONL_PATH_MAX], via[JSONL_PATH_MAX];
    size_t position = 0;
    struct stat facts;
    pal_str key;
    void *value;

    while (pal_map_next(&engine->files, &position, &key, &value)) {
        const jsonl_file *other = value;

        if (other == file || !other->late || !other->late->from)
            continue;
        path_before(other, from);
        pal_jsonl_side_path(other->tenant, other->id, via);
        if (strcmp(from, path) == 0 && fstatat(engine->dir_fd, via, &facts, 0) != 0)
            return true;
    }
    return false;
}

/* Finds the file. No other file can be at the place in between, in .palaver/rows. Of the old and
 * the new path, the one with the expected contents is used; if both or neither have them, the inode
 * number decides. A file that does not exist is created in .palaver/rows. */
static pal_status locate(
        jsonl_engine *engine, const jsonl_file *file, place *out_place, pal_error *err)
{
    const jsonl_late *late = file->late;
    place *from = out_place + 1;
    pal_status status;
    bool is_there, was_there;

    pal_jsonl_side_path(file->tenant, file->id, out_place->path);
    status = look(engine, out_place, err);
    if (status != PAL_OK || out_place->inode != 0)
        return status;
    if (late->inode == 0 && late->lines.len == 0)
        return PAL_OK;
    if (late->from) {
        path_before(file, from->path);
        status = look(engine, from, err);
    }
    pal_jsonl_file_path(file, ".jsonl", out_place->path);
    if (status == PAL_OK)
        status = look(engine, out_place, err);
    if (status != PAL_OK)
        return status;
    if (out_place->inode != 0 && is_anothers(engine, file, out_place->path))
        out_place->inode = 0;
    was_there = from->inode != 0 &&
            (from->inode == late->inode || !late->has_sum ||
                    is_ours(late, pal_buf_str(&from->text), from->inode));
    is_there = out_place->inode != 0 &&
            is_ours(late, pal_buf_str(&out_place->text), out_place->inode);
    if (was_there && (!is_there || from->inode == late->inode)) {
        pal_buf text = out_place->text;

        *out_place = *from;
        from->text = text;
    }
    if (out_place->inode == 0) {
        out_place->text.len = 0;
        pal_jsonl_side_path(file->tenant, file->id, out_place->path);
    }
    return PAL_OK;
}

/* ---- Finishing the batch ---- */

/* Writes the missing bytes, if any, and syncs the file: existing bytes may be only in the system's
 * cache. */
static pal_status write_text(
        jsonl_engine *engine, const char *path, uint64_t at, const pal_buf *text, pal_error *err)
{
    int flags = O_RDWR | O_CREAT | O_CLOEXEC | pal_jsonl_open_flags(path), fd;
    pal_status status = pal_jsonl_make_dirs(engine, path, err);

    if (status != PAL_OK)
        return status;
    fd = openat(engine->dir_fd, path, flags, 0600);
    if (fd < 0)
        return pal_jsonl_refused(engine, err, path);
    if (text) {
        status = pal_jsonl_write_at(
                fd, pal_str_make(text->data + at, text->len - (size_t)at), at, path, err);
        if (status == PAL_OK && ftruncate(fd, (off_t)text->len) != 0)
            status = pal_jsonl_io(err, "could not cut", path);
    }
    if (status == PAL_OK && fsync(fd) != 0)
        status = pal_jsonl_io(err, "could not sync", path);
    close(fd);
    return status == PAL_OK ? pal_jsonl_sync_dir(engine, path, err) : status;
}

/* Records where the lines are, for the rest of this process's reading. */
static pal_status settle_reading(
        jsonl_engine *engine, jsonl_file *file, const place *at, pal_error *err)
{
    pal_str text = pal_buf_str(&at->text);
    char from[JSONL_PATH_MAX] = "";

    file->late->has_text = completed(engine, file, text, at->inode, &file->late->text);
    if (file->late->text.failure)
        return pal_no_memory(err);
    if (at->inode == 0)
        return PAL_OK;
    if (file->late->from)
        path_before(file, from);
    /* The file under the old name belongs to this session, not to another one that took the
     * name. */
    if (strcmp(at->path, from) == 0 &&
            pal_map_set(&engine->paths, pal_str_of(file->late->from), file) != PAL_OK)
        return pal_no_memory(err);
    return text_copy(at->path, &file->late->found, err);
}

/* Sets moved_from to the path without its extension. */
static pal_status note_move(jsonl_file *file, const char *path, pal_error *err)
{
    char to[JSONL_PATH_MAX], via[JSONL_PATH_MAX];

    pal_jsonl_file_path(file, ".jsonl", to);
    if (strcmp(path, to) == 0)
        return PAL_OK;
    pal_jsonl_side_path(file->tenant, file->id, via);
    return text_copy(strcmp(path, via) == 0 ? via : file->late->from, &file->moved_from, err);
}

static pal_status settle_writing(
        jsonl_engine *engine, jsonl_file *file, const place *at, pal_error *err)
{
    bool is_written =
            completed(engine, file, pal_buf_str(&at->text), at->inode, &file->late->text);
    pal_status status = PAL_OK;

    if (file->late->text.failure)
        return pal_no_memory(err);
    if (is_written || at->inode != 0)
        status = write_text(engine, at->path, file->late->at,
                is_written ? &file->late->text : NULL, err);
    if (status == PAL_OK && file->late->from)
        status = pal_jsonl_sync_dir(engine, file->late->from, err);
    if (status == PAL_OK && (is_written || at->inode != 0))
        status = note_move(file, at->path, err);
    return status;
}

/* Removes the session's meta file under its old name, unless PicoClaw has created one there since.
 * The meta file that belongs there now is written when its session is read. A session that comes
 * from the trash had no meta file: the path is that of its lines. */
static pal_status drop_old_meta(jsonl_engine *engine, const jsonl_file *file, pal_error *err)
{
    char path[JSONL_PATH_MAX], lines[JSONL_PATH_MAX];
    jsonl_file before = *file;
    bool is_palavers = false;
    int64_t updated_at;

    before.path = file->late->from;
    if (!before.path)
        return PAL_OK;
    pal_jsonl_file_path(&before, ".meta.json", path);
    pal_jsonl_file_path(&before, ".jsonl", lines);
    if (strcmp(path, lines) == 0 ||
            !pal_jsonl_meta_look(engine, path, &is_palavers, &updated_at) || !is_palavers)
        return PAL_OK;
    if (unlinkat(engine->dir_fd, path, 0) != 0 && errno != ENOENT)
        return pal_jsonl_io(err, "could not remove", path);
    return pal_jsonl_sync_dir(engine, path, err);
}

static pal_status settle_file(jsonl_engine *engine, jsonl_file *file, pal_error *err)
{
    place *places = pal_calloc(2, sizeof *places);
    pal_status status;

    if (!places)
        return pal_no_memory(err);
    pal_buf_init(&places[0].text, FILE_BYTES_MAX);
    pal_buf_init(&places[1].text, FILE_BYTES_MAX);
    status = locate(engine, file, places, err);
    if (status == PAL_OK)
        status = engine->options.read_only ? settle_reading(engine, file, places, err)
                                           : settle_writing(engine, file, places, err);
    pal_buf_done(&places[0].text);
    pal_buf_done(&places[1].text);
    pal_free(places);
    return status;
}

pal_status pal_jsonl_settle(jsonl_engine *engine, pal_error *err)
{
    jsonl_file *moved = NULL;
    pal_status status = PAL_OK;
    size_t position = 0;
    pal_str key;
    void *value;

    if (!engine->is_late)
        return PAL_OK;
    /* Nothing may reach the disk before the log that describes it. */
    if (!engine->options.read_only && fdatasync(engine->log_fd) != 0)
        return pal_jsonl_io(err, "could not sync", JSONL_LOG);
    while (status == PAL_OK && pal_map_next(&engine->files, &position, &key, &value)) {
        jsonl_file *file = value;

        if (!file->late || !file->path)
            continue;
        status = settle_file(engine, file, err);
        file->next_touched = moved;
        moved = file;
    }
    if (engine->options.read_only)
        return status;
    /* Files that are already in their places may have been moved without a sync. */
    if (status == PAL_OK && moved)
        status = pal_jsonl_sync_dir(engine, JSONL_SIDE "/rows/", err);
    for (jsonl_file *file = moved; status == PAL_OK && file; file = file->next_touched)
        status = drop_old_meta(engine, file, err);
    if (status == PAL_OK)
        status = pal_jsonl_make_moves(engine, moved, err);
    for (; moved; moved = moved->next_touched) {
        pal_free(moved->moved_from);
        moved->moved_from = NULL;
        pal_jsonl_late_free(moved);
    }
    return status;
}
