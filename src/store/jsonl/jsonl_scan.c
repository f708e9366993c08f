/* jsonl_scan.c - finds and reads sessions that PicoClaw created, without changing them.
 *
 * Such a session has an id that is derived from its tenant and path, and a handle that is derived
 * from the id. So every process uses the same values before they are recorded anywhere. The
 * session's record is added to the log when Palaver first writes to the session. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "dialect/picoclaw/picoclaw.h"
#include "message/message_check.h"
#include "store/jsonl/jsonl.h"

#define LEGACY_BYTES_MAX ((size_t)1 << 29)

/* Called for each name in one tenant's directory. */
typedef pal_status (*name_sink)(jsonl_engine *engine, pal_str tenant, const char *directory,
        const char *name, pal_error *err);

static bool has_ending(const char *name, const char *ending, size_t *out_len)
{
    size_t len = strlen(name), ending_len = strlen(ending);

    if (len < ending_len || strcmp(name + len - ending_len, ending) != 0)
        return false;
    *out_len = len - ending_len;
    return true;
}

/* ---- One session ---- */

static void take_names(const pal_picoclaw_meta *meta, pal_str base, const memory_tenant *tenant,
        pal_arena *arena, pal_session *record)
{
    pal_str key = meta->key.len > 0 ? meta->key : base;

    /* A copy of a session's files contains the same key. The copy exists, but without a key. */
    if (pal_text_check(key, "key", PAL_KEY_LEN_MAX, true, NULL) == PAL_OK &&
            !(tenant && pal_memory_name_find(&tenant->keys, key)))
        record->key = key;
    record->is_routed = true;
    record->aliases = pal_arena_array(arena, meta->aliases_len + 1, sizeof *record->aliases);
    for (size_t i = 0; record->aliases && i < meta->aliases_len; i++) {
        if (record->aliases_len == PAL_ALIASES_MAX || meta->aliases[i].len == 0 ||
                pal_text_check(meta->aliases[i], "alias", PAL_KEY_LEN_MAX, true, NULL) != PAL_OK)
            continue;
        record->aliases[record->aliases_len++] = meta->aliases[i];
        if (pal_picoclaw_is_main_alias(meta->aliases[i]))
            record->alias_apart = meta->aliases[i];
    }
    if (pal_object_check(meta->scope, "scope", PAL_SCOPE_LEN_MAX, NULL) == PAL_OK)
        record->scope = meta->scope;
}

static void take_times(
        jsonl_engine *engine, const char *path, const pal_picoclaw_meta *meta, pal_session *record)
{
    char name[JSONL_PATH_MAX];
    struct stat facts;
    int64_t ms = 0;

    snprintf(name, sizeof name, "%.1000s.jsonl", path);
    if (fstatat(engine->dir_fd, name, &facts, 0) == 0)
        ms = (int64_t)facts.st_mtim.tv_sec * 1000 + facts.st_mtim.tv_nsec / 1000000;
    record->created_at = meta->created_at_ms > 0 ? meta->created_at_ms : ms;
    record->updated_at = meta->updated_at_ms > 0 ? meta->updated_at_ms : ms;
    if (record->updated_at == 0)
        record->updated_at = record->created_at;
}

static uint64_t handle_of(pal_id id)
{
    uint64_t handle = 0;

    for (size_t i = 0; i < 8; i++)
        handle = handle << 8 | id.bytes[8 + i];
    return handle | (uint64_t)1 << 63;
}

static pal_status adopt(jsonl_engine *engine, pal_str tenant, const char *path, pal_str base,
        const pal_picoclaw_meta *meta, pal_arena *arena, pal_error *err)
{
    pal_session record = {.state = PAL_SESSION_ACTIVE, .tenant = tenant};
    memory_session *session = NULL;
    jsonl_file *file = NULL;
    char unique[JSONL_PATH_MAX + PAL_TENANT_LEN_MAX + 2];
    int len = snprintf(unique, sizeof unique, "%.*s/%s", PAL_STR_ARG(tenant), path);
    pal_status status =
            pal_jsonl_id_of("session", pal_str_make(unique, (size_t)len), &record.id, err);

    if (status != PAL_OK)
        return status;
    take_names(meta, base, pal_memory_tenant_find(engine->mem, tenant), arena, &record);
    take_times(engine, path, meta, &record);
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_no_memory(err);
    if (pal_jsonl_session(engine, tenant, record.id))
        return PAL_OK; /* the file was moved away meanwhile, and its old name belongs to a new
                          file */
    status = pal_jsonl_state_session(engine, &record, handle_of(record.id), 0, &session, err);
    if (status != PAL_OK)
        return status;
    file = pal_jsonl_file_get(engine, tenant, record.id);
    if (!file)
        return pal_no_memory(err);
    status = pal_jsonl_file_set_path(engine, file, path, err);
    if (status != PAL_OK)
        return status;
    status = pal_jsonl_rows_load(engine, session, file, err);
    if (status != PAL_OK || file->is_unreadable)
        return status;
    return pal_jsonl_meta_load(engine, session, file, err);
}

/* Returns whether this is a meta file of ours without lines, at a path for which the log has no
 * session. Its session was moved or erased, and the writer died before it removed the file. */
static bool is_left_over(jsonl_engine *engine, const char *path, const char *meta_path)
{
    char lines_path[JSONL_PATH_MAX];
    bool is_ours = false;
    int64_t updated_at;
    struct stat facts;

    snprintf(lines_path, sizeof lines_path, "%.1000s.jsonl", path);
    return engine->log_len > 0 && fstatat(engine->dir_fd, lines_path, &facts, 0) != 0 &&
            errno == ENOENT && pal_jsonl_meta_look(engine, meta_path, &is_ours, &updated_at) &&
            is_ours;
}

static pal_status found(jsonl_engine *engine, pal_str tenant, const char *directory,
        const char *name, pal_error *err)
{
    char path[JSONL_PATH_MAX], meta_path[JSONL_PATH_MAX];
    pal_picoclaw_meta meta = {0};
    pal_arena *arena;
    pal_status status;
    size_t base_len;
    pal_buf text;

    if (!has_ending(name, ".meta.json", &base_len) && !has_ending(name, ".jsonl", &base_len))
        return PAL_OK;
    snprintf(path, sizeof path, "%.500s%.*s", directory, (int)base_len, name);
    if (pal_map_find(&engine->paths, pal_str_of(path)))
        return PAL_OK;
    arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    pal_buf_init(&text, PAL_PICOCLAW_META_MAX);
    snprintf(meta_path, sizeof meta_path, "%.1000s.meta.json", path);
    status = pal_jsonl_read_file(engine, meta_path, PAL_PICOCLAW_META_MAX, &text, NULL, err);
    if (status == PAL_OK)
        status = pal_picoclaw_meta_read(pal_buf_str(&text), arena, &meta, err);
    if (status == PAL_OK && is_left_over(engine, path, meta_path)) {
        if (!engine->options.read_only)
            unlinkat(engine->dir_fd, meta_path, 0);
    } else if (status != PAL_NO_MEMORY) {
        if (status != PAL_OK)
            memset(&meta, 0, sizeof meta);
        status = adopt(engine, tenant, path, pal_str_make(name, base_len), &meta, arena, err);
    }
    pal_buf_done(&text);
    pal_arena_free(arena);
    /* An unreadable session must not hide the others. */
    return status == PAL_NO_MEMORY ? status : PAL_OK;
}

/* ---- All directories ---- */

static pal_status each_name(
        jsonl_engine *engine, pal_str tenant, const char *directory, name_sink sink, pal_error *err)
{
    int fd = openat(
            engine->dir_fd, *directory ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    pal_status status = PAL_OK;
    struct dirent *entry;

    if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
        pal_jsonl_refused(engine, &engine->passed_over, directory);
    if (fd >= 0 && !entries)
        close(fd);
    while (status == PAL_OK && entries && (entry = readdir(entries)) != NULL)
        status = sink(engine, tenant, directory, entry->d_name, err);
    if (entries)
        closedir(entries);
    return status;
}

static pal_status each_tenant(jsonl_engine *engine, name_sink sink, pal_error *err)
{
    int fd = openat(engine->dir_fd, JSONL_SIDE "/tenants", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    char tenant[PAL_TENANT_LEN_MAX], directory[JSONL_PATH_MAX];
    pal_status status = each_name(engine, pal_str_of("default"), "", sink, err);
    struct dirent *entry;
    size_t len;

    if (fd >= 0 && !entries)
        close(fd);
    while (status == PAL_OK && entries && (entry = readdir(entries)) != NULL) {
        if (!pal_jsonl_tenant_of(entry->d_name, tenant, &len))
            continue;
        snprintf(directory, sizeof directory, JSONL_SIDE "/tenants/%.300s/", entry->d_name);
        status = each_name(engine, pal_str_make(tenant, len), directory, sink, err);
    }
    if (entries)
        closedir(entries);
    return status;
}

pal_status pal_jsonl_scan(jsonl_engine *engine, pal_error *err)
{
    struct stat facts;
    bool is_known = fstat(engine->dir_fd, &facts) == 0;
    pal_status status = each_tenant(engine, found, err);

    if (status == PAL_OK && is_known)
        engine->scanned = facts.st_mtim;
    return status;
}

/* ---- Older files ---- */

static pal_status legacy_rows(const pal_store_options *options, const pal_picoclaw_legacy *legacy,
        int64_t now_ms, pal_arena *arena, pal_work *work, pal_error *err)
{
    int64_t otherwise_ms = legacy->updated_at_ms ? legacy->updated_at_ms : now_ms;
    pal_status status = PAL_OK;

    work->rows = pal_arena_array(arena, legacy->messages_len + 1, sizeof *work->rows);
    if (!work->rows)
        return pal_no_memory(err);
    for (size_t i = 0; status == PAL_OK && i < legacy->messages_len; i++) {
        pal_message message = legacy->messages[i];

        if (pal_picoclaw_is_transient(&message))
            continue;
        if (pal_id_is_none(message.id))
            message.id = pal_id_new();
        if (message.created_at == 0)
            message.created_at = otherwise_ms;
        status = pal_jsonl_row_of(options, &message, arena, &work->rows[work->rows_len++], err);
    }
    return status;
}

static pal_status legacy_apply(
        jsonl_engine *engine, pal_work *works, size_t works_len, pal_error *err)
{
    pal_status status = PAL_OK;
    jsonl_batch batch;

    if (pal_jsonl_batch_init(&batch, engine) != PAL_OK)
        return pal_no_memory(err);
    for (size_t i = 0; status == PAL_OK && i < works_len; i++) {
        pal_jsonl_apply_one(&batch, &works[i]);
        status = works[i].op->status;
        if (status != PAL_OK && err)
            *err = works[i].op->error;
    }
    if (status == PAL_OK)
        status = pal_jsonl_commit(&batch, works, works_len, err);
    if (status != PAL_OK)
        engine->is_stale = true;
    pal_jsonl_batch_done(&batch);
    return status;
}

/* Creates the session with all its messages in one batch. */
static pal_status import(jsonl_engine *engine, pal_str tenant, const pal_picoclaw_legacy *legacy,
        pal_str key, pal_arena *arena, pal_error *err)
{
    int64_t now_ms = pal_clock_now_ms();
    pal_session record = {.tenant = tenant, .key = key, .created_at = legacy->created_at_ms};
    pal_mark mark = {.kind = PAL_MARK_CHECKPOINT};
    pal_op create = {.kind = PAL_OP_CREATE, .u.create = {.session = &record}};
    pal_op append = {.kind = PAL_OP_APPEND, .u.append = {.expected_seq = PAL_SEQ_ANY}};
    pal_op checkpoint = {.kind = PAL_OP_MARK, .u.mark = &mark};
    pal_work works[3] = {{.op = &create}}, rows = {.op = &append};
    pal_status status = legacy_rows(&engine->options, legacy, now_ms, arena, &rows, err);
    size_t works_len = 1;
    pal_buf body;

    pal_buf_init(&body, PAL_MARK_BODY_LEN_MAX);
    works[0].new_id = append.session = checkpoint.session = pal_id_new();
    append.u.append.messages_len = rows.rows_len;
    if (rows.rows_len > 0)
        works[works_len++] = rows;
    if (legacy->summary.len > 0) {
        pal_jsonl_summary_write(&body, legacy->summary);
        mark.body = pal_buf_str(&body);
        works[works_len++] = (pal_work){.op = &checkpoint};
    }
    for (size_t i = 0; i < works_len; i++) {
        works[i].tenant = tenant;
        works[i].now_ms = now_ms;
    }
    if (status == PAL_OK && body.failure)
        status = pal_error_set(err, body.failure, "a summary is too large, or there is no memory");
    if (status == PAL_OK)
        status = legacy_apply(engine, works, works_len, err);
    pal_buf_done(&body);
    return status;
}

static pal_status migrate_text(jsonl_engine *engine, pal_str tenant, pal_str base, pal_str text,
        pal_arena *arena, pal_error *err)
{
    memory_tenant *known = pal_memory_tenant_find(engine->mem, tenant);
    pal_picoclaw_legacy legacy;
    memory_session *session;
    pal_str key;
    pal_status status = pal_picoclaw_legacy_read(text, arena, &legacy, err);

    if (status != PAL_OK)
        return status;
    key = legacy.key.len > 0 ? legacy.key : base;
    session = known ? pal_memory_name_find(&known->keys, key) : NULL;
    /* The file was imported before and only its renaming was lost, or the session is newer than the
     * file. */
    if (session)
        return PAL_OK;
    return import(engine, tenant, &legacy, key, arena, err);
}

static pal_status migrate_one(jsonl_engine *engine, pal_str tenant, const char *directory,
        const char *name, pal_error *err)
{
    char path[JSONL_PATH_MAX], migrated[JSONL_PATH_MAX];
    size_t base_len, ignored;
    pal_error why = {0};
    pal_arena *arena;
    pal_status status;
    pal_buf text;

    if (!has_ending(name, ".json", &base_len) || has_ending(name, ".meta.json", &ignored))
        return PAL_OK;
    arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    pal_buf_init(&text, LEGACY_BYTES_MAX);
    snprintf(path, sizeof path, "%.500s%.300s", directory, name);
    snprintf(migrated, sizeof migrated, "%.900s.migrated", path);
    status = pal_jsonl_read_file(engine, path, LEGACY_BYTES_MAX, &text, NULL, &why);
    if (status == PAL_OK) {
        status = migrate_text(
                engine, tenant, pal_str_make(name, base_len), pal_buf_str(&text), arena, err);
        if (status == PAL_OK && renameat(engine->dir_fd, path, engine->dir_fd, migrated) == 0)
            status = pal_jsonl_sync_dir(engine, path, err);
    } else if (status == PAL_NO_MEMORY) {
        pal_error_set(err, status, "%s", why.message);
    } else {
        if (status != PAL_NOT_FOUND)
            engine->passed_over = why;
        status = PAL_OK;
    }
    pal_buf_done(&text);
    pal_arena_free(arena);
    /* A file with unreadable content stays unchanged. */
    return status == PAL_NO_MEMORY || status == PAL_IO ? status : PAL_OK;
}

pal_status pal_jsonl_migrate(jsonl_engine *engine, pal_error *err)
{
    return engine->options.read_only ? PAL_OK : each_tenant(engine, migrate_one, err);
}
