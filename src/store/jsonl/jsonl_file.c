/* jsonl_file.c - the file of a session's lines, and the lines as rows.
 *
 * The lines of an active session are in the file that PicoClaw uses for it. The lines of all other
 * sessions are in .palaver/rows, under the session's id. PicoClaw does not see them there, and they
 * do not conflict with a new session that uses the same key. If the file name that PicoClaw would
 * use belongs to another session, a hash of the key is appended to the name. The key in the meta
 * file says to which session the file belongs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "base/digest.h"
#include "base/memory.h"
#include "dialect/picoclaw/picoclaw.h"
#include "store/jsonl/jsonl.h"
#include "store/view/view.h"

#define BASE_LEN_MAX 180
#define FILE_BYTES_MAX (SIZE_MAX / 4)

/* ---- The files by session and by path ---- */

enum { KEY_SIZE = sizeof(pal_id) + PAL_TENANT_LEN_MAX };

/* The key is the id followed by the tenant, because two tenants may have the same id. */
static pal_str key_of(pal_str tenant, pal_id id, char out_key[KEY_SIZE])
{
    size_t len = tenant.len < PAL_TENANT_LEN_MAX ? tenant.len : PAL_TENANT_LEN_MAX;

    memcpy(out_key, id.bytes, sizeof id.bytes);
    if (len > 0)
        memcpy(out_key + sizeof id.bytes, tenant.data, len);
    return pal_str_make(out_key, sizeof id.bytes + len);
}

jsonl_file *pal_jsonl_file_find(jsonl_engine *engine, pal_str tenant, pal_id id)
{
    char key[KEY_SIZE];

    return pal_map_find(&engine->files, key_of(tenant, id, key));
}

jsonl_file *pal_jsonl_file_get(jsonl_engine *engine, pal_str tenant, pal_id id)
{
    jsonl_file *file = pal_jsonl_file_find(engine, tenant, id);
    char *cursor, key[KEY_SIZE];

    if (file)
        return file;
    file = pal_memory_alloc(sizeof *file, KEY_SIZE, &cursor);
    if (!file)
        return NULL;
    file->id = id;
    file->sum = JSONL_SUM_START;
    file->key = pal_memory_put(&cursor, key_of(tenant, id, key));
    file->tenant = pal_str_make(file->key.data + sizeof id.bytes, file->key.len - sizeof id.bytes);
    if (pal_map_set(&engine->files, file->key, file) != PAL_OK) {
        pal_free(file);
        return NULL;
    }
    return file;
}

static void file_free(jsonl_file *file)
{
    pal_free(file->path);
    pal_free(file->moved_from);
    pal_free(file->bad);
    pal_free(file->meta);
    pal_free(file->trouble);
    pal_jsonl_late_free(file);
    pal_free(file);
}

void pal_jsonl_file_drop(jsonl_engine *engine, jsonl_file *file)
{
    if (file->path && pal_map_find(&engine->paths, pal_str_of(file->path)) == file)
        pal_map_remove(&engine->paths, pal_str_of(file->path));
    pal_map_remove(&engine->files, file->key);
    file_free(file);
}

void pal_jsonl_files_clear(jsonl_engine *engine)
{
    size_t position = 0;
    pal_str key;
    void *file;

    while (pal_map_next(&engine->files, &position, &key, &file))
        file_free(file);
    pal_map_done(&engine->files);
    pal_map_done(&engine->paths);
}

pal_status pal_jsonl_file_set_path(
        jsonl_engine *engine, jsonl_file *file, const char *path, pal_error *err)
{
    size_t size = strlen(path) + 1;
    char *copy = pal_malloc(size);

    if (!copy)
        return pal_no_memory(err);
    memcpy(copy, path, size);
    if (pal_map_set(&engine->paths, pal_str_of(copy), file) != PAL_OK) {
        pal_free(copy);
        return pal_no_memory(err);
    }
    if (file->path && strcmp(file->path, path) != 0 &&
            pal_map_find(&engine->paths, pal_str_of(file->path)) == file)
        pal_map_remove(&engine->paths, pal_str_of(file->path));
    pal_free(file->path);
    file->path = copy;
    return PAL_OK;
}

void pal_jsonl_file_path(const jsonl_file *file, const char *ending, char out_path[JSONL_PATH_MAX])
{
    /* Files that PicoClaw must not see have no extension that it knows. */
    bool is_side = strncmp(file->path, JSONL_SIDE "/rows/", sizeof JSONL_SIDE "/rows/" - 1) == 0;

    snprintf(out_path, JSONL_PATH_MAX, "%s%s", file->path, is_side ? "" : ending);
}

/* The name is the id. For tenants other than the first it includes a hash of the tenant, because
 * two tenants may have the same id. */
static void side_name(const char *folder, pal_str tenant, pal_id id, char out_path[JSONL_PATH_MAX])
{
    char text[PAL_ID_TEXT_SIZE], hex[17] = "";
    uint8_t digest[PAL_SHA256_SIZE];

    pal_id_to_text(id, text);
    if (!pal_str_is(tenant, "default") && pal_sha256(tenant, digest) == PAL_OK)
        pal_hex(digest, 8, hex);
    snprintf(out_path, JSONL_PATH_MAX, JSONL_SIDE "/%s/%s%s%s", folder, text, hex[0] ? "." : "",
            hex);
}

void pal_jsonl_side_path(pal_str tenant, pal_id id, char out_path[JSONL_PATH_MAX])
{
    side_name("rows", tenant, id, out_path);
}

void pal_jsonl_aside_path(const jsonl_file *file, char out_path[JSONL_PATH_MAX])
{
    side_name("aside", file->tenant, file->id, out_path);
}

pal_status pal_jsonl_file_fault(jsonl_file *file, const pal_error *why, pal_error *err)
{
    if (!file->trouble)
        file->trouble = pal_malloc(sizeof *file->trouble);
    if (!file->trouble)
        return pal_no_memory(err);
    *file->trouble = *why;
    return PAL_OK;
}

/* ---- Places of files ---- */

/* Returns whether the path is free or belongs to this session. The directory must have been
 * scanned. */
static bool is_free(jsonl_engine *engine, const char *path, const jsonl_file *file)
{
    const jsonl_file *holder = pal_map_find(&engine->paths, pal_str_of(path));

    return !holder || holder == file;
}

static pal_status place_active(jsonl_engine *engine, const memory_session *session,
        const jsonl_file *file, pal_arena *arena, char out_path[JSONL_PATH_MAX], pal_error *err)
{
    const pal_session *record = &session->info->record;
    char id[PAL_ID_TEXT_SIZE], directory[JSONL_PATH_MAX / 2] = "", hex[2 * PAL_SHA256_SIZE + 1];
    char found[JSONL_PATH_MAX];
    uint8_t digest[PAL_SHA256_SIZE];
    pal_str key = record->key, base;
    pal_status status;

    pal_id_to_text(session->id, id);
    if (key.len == 0)
        key = pal_str_of(id);
    if (!pal_str_is(session->tenant->name, "default")) {
        status = pal_jsonl_tenant_dir(session->tenant->name, "tenants", found, err);
        if (status != PAL_OK)
            return status;
        snprintf(directory, sizeof directory, "%.400s", found);
    }
    base = pal_picoclaw_base(key, arena);
    if (pal_arena_failure(arena) != PAL_OK || pal_sha256(key, digest) != PAL_OK)
        return pal_no_memory(err);
    snprintf(out_path, JSONL_PATH_MAX, "%s%.*s", directory, PAL_STR_ARG(base));
    if (base.len <= BASE_LEN_MAX && is_free(engine, out_path, file))
        return PAL_OK;
    pal_hex(digest, 8, hex);
    if (base.len > BASE_LEN_MAX)
        base.len = BASE_LEN_MAX;
    snprintf(out_path, JSONL_PATH_MAX, "%s%.*s-%s", directory, PAL_STR_ARG(base), hex);
    if (!is_free(engine, out_path, file))
        snprintf(out_path, JSONL_PATH_MAX, "%s%.*s-%s-%s", directory,
                (int)(base.len > 100 ? 100 : base.len), base.data, hex, id);
    return PAL_OK;
}

pal_status pal_jsonl_place(jsonl_engine *engine, const memory_session *session,
        const jsonl_file *file, pal_arena *arena, char out_path[JSONL_PATH_MAX], pal_error *err)
{
    pal_session_state state = session->info->record.state;

    if (state == PAL_SESSION_ACTIVE || state == PAL_SESSION_QUARANTINED)
        return place_active(engine, session, file, arena, out_path, err);
    pal_jsonl_side_path(session->tenant->name, session->id, out_path);
    return PAL_OK;
}

pal_status pal_jsonl_file_unlink(jsonl_engine *engine, const jsonl_file *file, pal_error *err)
{
    char path[JSONL_PATH_MAX];
    pal_status status;

    if (!file->path)
        return PAL_OK;
    pal_jsonl_file_path(file, ".jsonl", path);
    if (unlinkat(engine->dir_fd, path, 0) != 0 && errno != ENOENT)
        return pal_jsonl_io(err, "could not remove", path);
    pal_jsonl_file_path(file, ".meta.json", path);
    if (unlinkat(engine->dir_fd, path, 0) != 0 && errno != ENOENT)
        return pal_jsonl_io(err, "could not remove", path);
    status = pal_jsonl_sync_dir(engine, path, err);
    return status == PAL_OK ? pal_jsonl_aside_unlink(engine, file, err) : status;
}

pal_status pal_jsonl_aside_unlink(jsonl_engine *engine, const jsonl_file *file, pal_error *err)
{
    char path[JSONL_PATH_MAX];

    pal_jsonl_aside_path(file, path);
    if (unlinkat(engine->dir_fd, path, 0) == 0)
        return pal_jsonl_sync_dir(engine, path, err);
    return errno == ENOENT ? PAL_OK : pal_jsonl_io(err, "could not remove", path);
}

/* ---- Lines as rows ---- */

/* Returns the existing blobs that the row's message refers to. A lost blob must not make the
 * session unreadable. */
static pal_status row_blobs(const pal_row *row, const memory_tenant *tenant, pal_arena *arena,
        pal_work *work, pal_error *err);

static size_t collect(
        const pal_part *parts, size_t len, const memory_tenant *tenant, pal_work_blob *out_blobs)
{
    size_t count = 0;

    for (size_t i = 0; i < len; i++) {
        pal_work_blob blob = {.is_new = false};

        if (parts[i].blob.len == 71 &&
                pal_unhex(pal_str_make(parts[i].blob.data + 7, 64), blob.hash, 32) &&
                pal_map_find(&tenant->blobs, pal_str_make((char *)blob.hash, 32))) {
            if (out_blobs)
                out_blobs[count] = blob;
            count++;
        }
        count += collect(
                parts[i].parts, parts[i].parts_len, tenant, out_blobs ? out_blobs + count : NULL);
    }
    return count;
}

static pal_status row_blobs(const pal_row *row, const memory_tenant *tenant, pal_arena *arena,
        pal_work *work, pal_error *err)
{
    pal_message message;
    pal_status status;

    if (row->is_text || tenant->blobs.len == 0)
        return PAL_OK;
    status = pal_view_decode(row, arena, &message, err);
    if (status != PAL_OK)
        return status;
    work->blobs_len = collect(message.parts, message.parts_len, tenant, NULL);
    if (work->blobs_len == 0)
        return PAL_OK;
    work->blobs = pal_arena_array(arena, work->blobs_len, sizeof *work->blobs);
    if (!work->blobs)
        return pal_no_memory(err);
    collect(message.parts, message.parts_len, tenant, work->blobs);
    return PAL_OK;
}

/* Adds the row as it is in the file, even if the session's state does not allow writing. */
static pal_status row_add(jsonl_engine *engine, memory_session *session, pal_row *row,
        pal_arena *arena, pal_error *err)
{
    pal_session *record = &session->info->record, before = *record;
    pal_op op = {.kind = PAL_OP_APPEND, .session = session->id};
    pal_work work = {.op = &op, .tenant = session->tenant->name, .rows = row, .rows_len = 1};
    pal_status status = row_blobs(row, session->tenant, arena, &work, err);

    if (status != PAL_OK)
        return status;
    op.u.append.expected_seq = PAL_SEQ_ANY;
    record->state = PAL_SESSION_ACTIVE;
    record->expires_at = 0;
    status = pal_memory_append(engine->mem, &work);
    record->state = before.state;
    record->expires_at = before.expires_at;
    record->updated_at = before.updated_at;
    if (status != PAL_OK && err)
        *err = op.error;
    return status;
}

static pal_status line_is_bad(jsonl_file *file, pal_error *err)
{
    if (!pal_reserve(&file->bad, &file->bad_cap, file->bad_len + 1, sizeof *file->bad))
        return pal_no_memory(err);
    file->bad[file->bad_len++] = file->lines;
    return PAL_OK;
}

/* A duplicate line, for example after a manual copy, counts as one message. */
static pal_status line_add(jsonl_engine *engine, memory_session *session, jsonl_file *file,
        pal_str line, pal_arena *arena, pal_error *err)
{
    const pal_session *record = &session->info->record;
    pal_row row;
    pal_status status = pal_jsonl_line_read(&engine->options, line, session->id,
            record->last_seq + 1, record->created_at, arena, &row, err);

    if (status == PAL_OK)
        status = row_add(engine, session, &row, arena, err);
    file->lines++;
    if (status == PAL_OK || status == PAL_NO_MEMORY)
        return status;
    return line_is_bad(file, err);
}

bool pal_jsonl_line_is_blank(pal_str line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.data[i] != ' ' && line.data[i] != '\t' && line.data[i] != '\r' &&
                line.data[i] != '\n')
            return false;
    return true;
}

void pal_jsonl_zeros_pass(pal_str *line)
{
    while (line->len > 0 && *line->data == '\0') {
        line->data++;
        line->len--;
    }
}

static uint64_t zeros_in(pal_str line)
{
    uint64_t zeros = 0;

    for (size_t i = 0; i < line.len; i++)
        zeros += line.data[i] == '\0';
    return zeros;
}

pal_status pal_jsonl_rows_add(jsonl_engine *engine, memory_session *session, jsonl_file *file,
        pal_str lines, pal_arena *arena, pal_error *err)
{
    pal_status status = PAL_OK;
    size_t at = 0;

    while (status == PAL_OK && at < lines.len) {
        const char *end = memchr(lines.data + at, '\n', lines.len - at);
        size_t len = end ? (size_t)(end - lines.data) - at : lines.len - at;
        pal_str line = pal_str_make(lines.data + at, len);

        file->is_open_ended = end == NULL;
        file->zeros += zeros_in(line);
        pal_jsonl_zeros_pass(&line);
        if (!pal_jsonl_line_is_blank(line))
            status = line_add(engine, session, file, line, arena, err);
        pal_arena_reset(arena);
        at += len + 1;
    }
    file->size += lines.len;
    file->sum = pal_jsonl_sum(file->sum, lines);
    return status;
}

/* Returns where the lines are. If the last batch is not finished, they are not in their final place
 * yet. */
static void lines_path(const jsonl_file *file, char out_path[JSONL_PATH_MAX])
{
    if (file->late && file->late->found)
        snprintf(out_path, JSONL_PATH_MAX, "%s", file->late->found);
    else
        pal_jsonl_file_path(file, ".jsonl", out_path);
}

pal_status pal_jsonl_rows_load(
        jsonl_engine *engine, memory_session *session, jsonl_file *file, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    char path[JSONL_PATH_MAX];
    pal_error why = {0};
    struct stat facts;
    pal_buf text;
    pal_status status;

    if (!arena)
        return pal_no_memory(err);
    pal_buf_init(&text, FILE_BYTES_MAX);
    lines_path(file, path);
    file->size = file->lines = file->bad_len = file->inode = file->zeros = 0;
    file->sum = JSONL_SUM_START;
    file->is_open_ended = false;
    status = pal_jsonl_read_file(engine, path, FILE_BYTES_MAX, &text, &facts, &why);
    if (file->late && file->late->has_text && (status == PAL_OK || status == PAL_NOT_FOUND)) {
        if (status == PAL_NOT_FOUND)
            memset(&facts, 0, sizeof facts);
        text.len = 0;
        pal_buf_append_str(&text, pal_buf_str(&file->late->text));
        status = text.failure;
    }
    file->is_unreadable = status != PAL_OK && status != PAL_NOT_FOUND && status != PAL_NO_MEMORY;
    if (status == PAL_OK) {
        file->inode = facts.st_ino;
        status = pal_jsonl_rows_add(engine, session, file, pal_buf_str(&text), arena, err);
    } else if (status == PAL_NOT_FOUND) {
        status = PAL_OK;
    } else if (file->is_unreadable) {
        status = pal_jsonl_file_fault(file, &why, err);
    } else {
        pal_error_set(err, status, "%s", why.message);
    }
    pal_buf_done(&text);
    pal_arena_free(arena);
    return status;
}

pal_status pal_jsonl_rows_save(
        jsonl_engine *engine, memory_session *session, jsonl_file *file, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    char path[JSONL_PATH_MAX];
    pal_status status = PAL_OK;
    pal_buf text;

    if (!arena)
        return pal_no_memory(err);
    pal_buf_init(&text, FILE_BYTES_MAX);
    pal_jsonl_file_path(file, ".jsonl", path);
    for (size_t i = 0; status == PAL_OK && i < session->rows_len; i++) {
        status = pal_jsonl_line_write(
                &text, &session->rows[session->rows_skip + i]->row, arena, err);
        pal_arena_reset(arena);
    }
    if (status == PAL_OK)
        status = pal_jsonl_replace(engine, path, pal_buf_str(&text), err);
    if (status == PAL_OK) {
        struct stat facts;

        file->size = text.len;
        file->sum = pal_jsonl_sum(JSONL_SUM_START, pal_buf_str(&text));
        file->lines = session->rows_len;
        file->bad_len = 0;
        file->is_open_ended = false;
        file->inode = fstatat(engine->dir_fd, path, &facts, 0) == 0 ? facts.st_ino : 0;
        status = pal_jsonl_sync_dir(engine, path, err);
    }
    pal_buf_done(&text);
    pal_arena_free(arena);
    return status;
}

bool pal_jsonl_file_changed(jsonl_engine *engine, const jsonl_file *file)
{
    char path[JSONL_PATH_MAX], meta[JSONL_PATH_MAX];
    struct stat facts;

    if (file->trouble)
        return true;
    if (!file->path)
        return false;
    lines_path(file, path);
    if (fstatat(engine->dir_fd, path, &facts, 0) != 0)
        facts.st_ino = 0;
    else if ((uint64_t)facts.st_size != file->size)
        return true;
    if (facts.st_ino != file->inode)
        return true;
    pal_jsonl_file_path(file, ".meta.json", meta);
    if (strcmp(path, meta) == 0)
        return false;
    if (fstatat(engine->dir_fd, meta, &facts, 0) != 0)
        return false; /* the file is created again with the next write */
    return facts.st_ino != file->meta_inode || facts.st_mtim.tv_sec != file->meta_time.tv_sec ||
            facts.st_mtim.tv_nsec != file->meta_time.tv_nsec;
}
