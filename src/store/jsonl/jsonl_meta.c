/* jsonl_meta.c - the meta file: PicoClaw's data about a session. It is written from the
 * state, and read to find PicoClaw's changes.
 *
 * A meta file that Palaver wrote has a member "palaver", which PicoClaw drops when it writes the
 * file. If the member is there, the file is Palaver's, and the log wins if the two differ. If it is
 * missing, PicoClaw wrote the file: skipped lines become a reset of these lines, and its summary
 * becomes a checkpoint. */
#include <stdio.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/picoclaw/picoclaw.h"
#include "store/jsonl/jsonl.h"
#include "store/view/view_marks.h"

#define OURS "palaver"

/* ---- Lines that are hidden from the start ---- */

/* Returns the number of the line, counted from 1, that contains the session's row `row`. */
static uint64_t line_of_row(const jsonl_file *file, uint64_t row)
{
    uint64_t line = row;

    for (size_t i = 0; i < file->bad_len && file->bad[i] <= line; i++)
        line++;
    return line;
}

/* Returns how many rows are among the first `line` lines. */
static uint64_t rows_until(const jsonl_file *file, uint64_t line)
{
    uint64_t rows = line < file->lines ? line : file->lines;

    for (size_t i = 0; i < file->bad_len && file->bad[i] <= line; i++)
        rows--;
    return rows;
}

/* Returns how many of the session's own rows are hidden without a gap from the first row on. */
static pal_status hidden_rows(
        memory_session *session, pal_arena *arena, uint64_t *out_rows, pal_error *err)
{
    uint64_t first = session->info->record.fork_seq + 1;
    pal_view_span *spans;
    size_t len;

    *out_rows = 0;
    if (session->marks_len == 0)
        return PAL_OK;
    spans = pal_arena_array(arena, session->marks_len, sizeof *spans);
    if (!spans)
        return pal_no_memory(err);
    pal_marks_resolve(session->marks, session->marks_len);
    len = pal_marks_hidden(session->marks, session->marks_len, UINT64_MAX, false, spans);
    len = pal_view_spans_merge(spans, len);
    for (size_t i = 0; i < len; i++)
        if (spans[i].first <= first && spans[i].last >= first)
            *out_rows = spans[i].last - first + 1;
    return PAL_OK;
}

/* ---- The summary ---- */

static pal_str summary_in(const pal_mark *mark, pal_arena *arena)
{
    pal_json body;

    if (mark->kind != PAL_MARK_CHECKPOINT || mark->undone ||
            pal_json_parse(arena, mark->body, NULL, &body, NULL) != PAL_OK)
        return pal_str_make(NULL, 0);
    return pal_json_string(pal_json_find(body, "summary"), arena);
}

void pal_jsonl_summary_write(pal_buf *body, pal_str summary)
{
    pal_json_writer json = pal_json_writer_make(body);

    pal_json_begin_object(&json);
    pal_put_str(&json, "summary", summary);
    pal_json_end_object(&json);
}

static pal_str summary_of(memory_session *session, pal_arena *arena)
{
    pal_str summary = {NULL, 0};

    pal_marks_resolve(session->marks, session->marks_len);
    for (size_t i = session->marks_len; i-- > 0 && summary.len == 0;)
        summary = summary_in(&session->marks[i], arena);
    return summary;
}

/* PicoClaw may have written a summary that is no mark here. An erasure takes it away, too. */
static bool has_erased(const memory_session *session)
{
    for (size_t i = 0; i < session->marks_len; i++)
        if (session->marks[i].kind == PAL_MARK_CHECKPOINT &&
                session->marks[i].target == PAL_MARK_ERASED)
            return true;
    return false;
}

/* ---- Writing ---- */

/* Returns the unknown members, with the member "palaver" set to true. */
static pal_str with_ours(pal_str extra, pal_arena *arena)
{
    pal_json object, name, value;
    pal_json_iter iter;
    pal_json_writer json;
    pal_str text;
    pal_buf buf;

    pal_buf_init(&buf, PAL_PICOCLAW_META_MAX);
    json = pal_json_writer_make(&buf);
    pal_json_begin_object(&json);
    if (extra.len > 0 && pal_json_parse(arena, extra, NULL, &object, NULL) == PAL_OK)
        for (iter = pal_json_each(object); pal_json_next(&iter, &name, &value);) {
            if (pal_json_string_is(name, OURS))
                continue;
            pal_json_name_str(&json, pal_json_string(name, arena));
            pal_json_put_raw(&json, pal_json_raw(value));
        }
    pal_put_flag(&json, OURS, true);
    pal_json_end_object(&json);
    text = buf.failure ? pal_str_make(NULL, 0) : pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return text;
}

static pal_status keep_text(jsonl_file *file, pal_str text, pal_error *err)
{
    char *copy = pal_malloc(text.len), *cursor = copy;

    if (!copy)
        return pal_no_memory(err);
    pal_memory_put(&cursor, text);
    pal_free(file->meta);
    file->meta = copy;
    file->meta_len = text.len;
    return PAL_OK;
}

static pal_status fill(memory_session *session, const jsonl_file *file, pal_arena *arena,
        pal_picoclaw_meta *meta, pal_error *err)
{
    const pal_session *record = &session->info->record;
    char id[PAL_ID_TEXT_SIZE];
    uint64_t hidden;
    pal_str summary = summary_of(session, arena);
    pal_status status = hidden_rows(session, arena, &hidden, err);

    if (status != PAL_OK)
        return status;
    pal_id_to_text(session->id, id);
    meta->key = record->key.len > 0 ? record->key : pal_arena_copy(arena, pal_str_of(id));
    if (summary.len > 0 || has_erased(session))
        meta->summary = summary;
    meta->skip = hidden > 0 ? line_of_row(file, hidden) : 0;
    meta->count = file->lines;
    if (meta->created_at_ms != record->created_at)
        meta->created_at = pal_str_make(NULL, 0);
    if (meta->updated_at_ms != record->updated_at)
        meta->updated_at = pal_str_make(NULL, 0);
    meta->created_at_ms = record->created_at;
    meta->updated_at_ms = record->updated_at;
    meta->scope = record->scope;
    meta->aliases = record->aliases;
    meta->aliases_len = record->aliases_len;
    meta->extra = with_ours(meta->extra, arena);
    return pal_arena_failure(arena) == PAL_OK ? PAL_OK : pal_no_memory(err);
}

/* Remembers which meta file was read or written last. */
static void note_meta(jsonl_engine *engine, jsonl_file *file)
{
    char path[JSONL_PATH_MAX];
    struct stat facts;

    pal_jsonl_file_path(file, ".meta.json", path);
    if (fstatat(engine->dir_fd, path, &facts, 0) != 0)
        memset(&facts, 0, sizeof facts);
    file->meta_inode = facts.st_ino;
    file->meta_time = facts.st_mtim;
}

pal_status pal_jsonl_meta_save(
        jsonl_engine *engine, memory_session *session, jsonl_file *file, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_picoclaw_meta meta = {0};
    char path[JSONL_PATH_MAX];
    pal_status status;
    pal_buf text;

    if (!arena)
        return pal_no_memory(err);
    pal_buf_init(&text, PAL_PICOCLAW_META_MAX);
    if (file->meta_len > 0 &&
            pal_picoclaw_meta_read(pal_str_make(file->meta, file->meta_len), arena, &meta, err) !=
                    PAL_OK)
        memset(&meta, 0, sizeof meta);
    status = fill(session, file, arena, &meta, err);
    if (status != PAL_OK)
        goto out;
    pal_picoclaw_meta_write(&text, &meta);
    if (text.failure) {
        status = pal_error_set(
                err, text.failure, "a meta file is too large, or there is no memory");
        goto out;
    }
    pal_jsonl_file_path(file, ".meta.json", path);
    status = pal_jsonl_make_dirs(engine, path, err);
    if (status != PAL_OK)
        goto out;
    status = pal_jsonl_replace(engine, path, pal_buf_str(&text), err);
    if (status != PAL_OK)
        goto out;
    note_meta(engine, file);
    status = keep_text(file, pal_buf_str(&text), err);
out:
    pal_buf_done(&text);
    pal_arena_free(arena);
    return status;
}

/* ---- Reading ---- */

static pal_status add_summary(memory_session *session, const jsonl_file *file,
        const pal_picoclaw_meta *meta, pal_arena *arena, pal_error *err)
{
    uint64_t first = session->info->record.fork_seq;
    pal_mark mark = {.number = session->mark_number + 1,
            .kind = PAL_MARK_CHECKPOINT,
            .seq = first + rows_until(file, meta->skip),
            .through_seq = session->info->record.last_seq,
            .created_at = meta->updated_at_ms};
    pal_status status;
    pal_buf body;

    if (meta->summary.len == 0 || pal_str_equal(meta->summary, summary_of(session, arena)))
        return PAL_OK;
    pal_buf_init(&body, PAL_MARK_BODY_LEN_MAX);
    pal_jsonl_summary_write(&body, meta->summary);
    mark.body = pal_buf_str(&body);
    status = body.failure ? pal_error_set(err, body.failure,
            "a summary is too large, or there is no memory")
                          : pal_jsonl_state_mark(session, &mark, err);
    pal_buf_done(&body);
    return status;
}

/* Adopts changes that PicoClaw made. They are not in the log until the session is written to or the
 * log is rewritten. Until then every reader derives the same marks. */
static pal_status take_over(memory_session *session, jsonl_file *file,
        const pal_picoclaw_meta *meta, pal_arena *arena, pal_error *err)
{
    pal_mark mark = {.kind = PAL_MARK_RESET, .created_at = meta->updated_at_ms};
    pal_session *record = &session->info->record;
    uint64_t hidden;
    uint64_t skipped = rows_until(file, meta->skip);
    pal_status status = hidden_rows(session, arena, &hidden, err);

    if (status != PAL_OK)
        return status;
    /* PicoClaw skips fewer lines than we hide, and its file is newer: it has rewritten the lines
     * too. */
    if (hidden > skipped && meta->updated_at_ms >= record->updated_at) {
        pal_jsonl_state_unmark(session);
        file->is_unmarked = true;
        hidden = 0;
    }
    if (meta->updated_at_ms > record->updated_at)
        record->updated_at = meta->updated_at_ms;
    if (meta->skip > 0 && skipped > hidden) {
        mark.number = session->mark_number + 1;
        mark.seq = record->fork_seq;
        mark.through_seq = record->fork_seq + skipped;
        status = pal_jsonl_state_mark(session, &mark, err);
        if (status != PAL_OK)
            return status;
    }
    return add_summary(session, file, meta, arena, err);
}

static bool is_ours(const pal_picoclaw_meta *meta, pal_arena *arena)
{
    pal_json extra;

    return meta->extra.len > 0 &&
            pal_json_parse(arena, meta->extra, NULL, &extra, NULL) == PAL_OK &&
            pal_json_type_of(pal_json_find(extra, OURS)) != PAL_JSON_NONE;
}

bool pal_jsonl_meta_look(
        jsonl_engine *engine, const char *path, bool *out_is_ours, int64_t *out_updated_at_ms)
{
    pal_arena *arena = pal_arena_new(0);
    pal_picoclaw_meta meta = {0};
    bool is_read;
    pal_buf text;

    if (!arena)
        return false;
    pal_buf_init(&text, PAL_PICOCLAW_META_MAX);
    is_read =
            pal_jsonl_read_file(engine, path, PAL_PICOCLAW_META_MAX, &text, NULL, NULL) == PAL_OK &&
            pal_picoclaw_meta_read(pal_buf_str(&text), arena, &meta, NULL) == PAL_OK;
    if (is_read) {
        *out_is_ours = is_ours(&meta, arena);
        *out_updated_at_ms = meta.updated_at_ms;
    }
    pal_buf_done(&text);
    pal_arena_free(arena);
    return is_read;
}

static pal_status compare(jsonl_engine *engine, memory_session *session, jsonl_file *file,
        pal_str text, pal_arena *arena, pal_error *err)
{
    pal_picoclaw_meta meta = {0};
    pal_status status = pal_picoclaw_meta_read(text, arena, &meta, err);
    bool is_stale = status != PAL_OK;

    if (status == PAL_NO_MEMORY)
        return status;
    if (!is_stale) {
        status = keep_text(file, text, err);
        if (status != PAL_OK)
            return status;
        if (!is_ours(&meta, arena))
            return take_over(session, file, &meta, arena, err);
        is_stale = meta.count != file->lines;
    }
    /* A meta file of ours that is unreadable or has a wrong count of lines is written again.
     * Nothing else is affected. */
    if (is_stale && !engine->options.read_only)
        (void)!pal_jsonl_meta_save(engine, session, file, NULL);
    return PAL_OK;
}

pal_status pal_jsonl_meta_load(
        jsonl_engine *engine, memory_session *session, jsonl_file *file, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    char path[JSONL_PATH_MAX];
    pal_error why = {0};
    pal_status status;
    pal_buf text;

    if (!arena)
        return pal_no_memory(err);
    pal_buf_init(&text, PAL_PICOCLAW_META_MAX);
    pal_jsonl_file_path(file, ".meta.json", path);
    note_meta(engine, file);
    status = pal_jsonl_read_file(engine, path, PAL_PICOCLAW_META_MAX, &text, NULL, &why);
    if (status == PAL_OK) {
        status = compare(engine, session, file, pal_buf_str(&text), arena, err);
        if (status != PAL_NO_MEMORY)
            status = PAL_OK;
    } else if (status == PAL_NOT_FOUND) {
        status = PAL_OK;
        if (file->is_logged && !engine->options.read_only)
            (void)!pal_jsonl_meta_save(engine, session, file, NULL);
    } else if (status == PAL_NO_MEMORY) {
        pal_error_set(err, status, "%s", why.message);
    } else {
        status = pal_jsonl_file_fault(file, &why, err);
    }
    pal_buf_done(&text);
    pal_arena_free(arena);
    return status;
}
