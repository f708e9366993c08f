/* window_checkpoint.c - finds and undoes checkpoints, and compares their summaries. */
#include "window/window_record.h"

#include "base/buf.h"
#include "base/memory.h"
#include "palaver/window.h"

#define DIFF_LINES_MAX 2000 /* lines of each summary; the rest after them counts as one line */

/* Searches from the newest mark back: a fork's own marks come before those of its parents, whose
 * numbers can be the same. */
const pal_mark *pal_window_checkpoint_find(const pal_mark *marks, size_t len, uint64_t number)
{
    for (size_t i = len; i-- > 0;)
        if (marks[i].kind == PAL_MARK_CHECKPOINT && marks[i].number == number)
            return &marks[i];
    return NULL;
}

static pal_status not_found(uint64_t number, pal_error *err)
{
    return pal_error_set(
            err, PAL_NOT_FOUND, "checkpoint %llu does not exist", (unsigned long long)number);
}

static pal_status find_target(pal_store *store, pal_str tenant, pal_id session, uint64_t number,
        pal_arena *arena, uint64_t *out_target, pal_error *err)
{
    pal_active_marks active;
    pal_mark *marks;
    size_t len;
    pal_status status;

    if (number == 0) {
        status = pal_store_active_marks(store, tenant, session, arena, &active, err);
        if (status == PAL_OK && active.checkpoint.number == 0)
            return pal_error_set(err, PAL_NOT_FOUND, "there is no checkpoint to undo");
        *out_target = active.checkpoint.number;
    } else {
        status = pal_store_marks(store, tenant, session, arena, &marks, &len, err);
        if (status == PAL_OK && !pal_window_checkpoint_find(marks, len, number))
            return not_found(number, err);
        *out_target = number;
    }
    return status;
}

pal_status pal_window_uncompact(
        pal_store *store, pal_str tenant, pal_id session, uint64_t number, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_mark undo = {.kind = PAL_MARK_UNDO};
    pal_status status;

    if (!arena)
        return pal_no_memory(err);
    status = find_target(store, tenant, session, number, arena, &undo.target, err);
    if (status == PAL_OK)
        status = pal_store_mark(store, tenant, session, &undo, err);
    pal_arena_free(arena);
    return status;
}

pal_status pal_window_compaction_find(pal_store *store, pal_str tenant, pal_id session,
        pal_str request_id, pal_arena *arena, pal_compaction_result *out_compacted, pal_error *err)
{
    pal_mark *marks;
    size_t len;
    pal_status status = pal_store_marks(store, tenant, session, arena, &marks, &len, err);

    if (status != PAL_OK)
        return status;
    for (size_t i = len; i-- > 0;) {
        pal_checkpoint_record record;

        if (marks[i].kind != PAL_MARK_CHECKPOINT || marks[i].inherited)
            continue;
        status = pal_window_checkpoint_read(&marks[i], arena, &record, err);
        if (status != PAL_OK)
            return status;
        if (request_id.len == 0 || !pal_str_equal(record.request_id, request_id))
            continue;
        *out_compacted = (pal_compaction_result){.number = marks[i].number,
                .seq = marks[i].seq,
                .is_fallback = record.is_fallback,
                .messages = record.messages,
                .tokens_before = record.tokens_before,
                .tokens_after = record.tokens_after,
                .summary = record.checkpoint.summary};
        return PAL_OK;
    }
    return pal_error_set(err, PAL_NOT_FOUND, "no checkpoint was made by request '%.*s'",
            (int)(request_id.len < 80 ? request_id.len : 80), request_id.data);
}

/* ---- Diff ---- */

typedef struct line_list {
    pal_str *lines;
    size_t len;
} line_list;

static line_list split_lines(pal_str text, pal_arena *arena)
{
    line_list list = {pal_arena_array(arena, DIFF_LINES_MAX, sizeof(*list.lines)), 0};

    while (list.lines && text.len > 0 && list.len < DIFF_LINES_MAX) {
        const char *end = memchr(text.data, '\n', text.len);
        bool is_last = !end || list.len + 1 == DIFF_LINES_MAX;
        size_t len = is_last ? text.len : (size_t)(end - text.data);

        list.lines[list.len++] = pal_str_make(text.data, len);
        len += !is_last;
        text = pal_str_make(text.data + len, text.len - len);
    }
    return list;
}

static void put_line(pal_buf *buf, char sign, pal_str line)
{
    pal_buf_append_char(buf, sign);
    pal_buf_append_str(buf, line);
    pal_buf_append_char(buf, '\n');
}

/* common[i * (new.len + 1) + j] is the number of lines that the rests from i and j have in
 * common. */
static uint16_t *common_lines(line_list old_list, line_list new_list, pal_arena *arena)
{
    size_t width = new_list.len + 1;
    uint16_t *common = pal_arena_array(arena, (old_list.len + 1) * width, sizeof(*common));

    if (!common)
        return NULL;
    for (size_t i = old_list.len; i-- > 0;) {
        for (size_t j = new_list.len; j-- > 0;) {
            uint16_t down = common[(i + 1) * width + j], right = common[i * width + j + 1];

            common[i * width + j] = pal_str_equal(old_list.lines[i], new_list.lines[j])
                    ? (uint16_t)(common[(i + 1) * width + j + 1] + 1)
                    : (down > right ? down : right);
        }
    }
    return common;
}

static void write_diff(
        pal_buf *buf, line_list old_list, line_list new_list, const uint16_t *common)
{
    size_t width = new_list.len + 1, i = 0, j = 0;

    while (i < old_list.len || j < new_list.len) {
        if (i < old_list.len && j < new_list.len &&
                pal_str_equal(old_list.lines[i], new_list.lines[j])) {
            put_line(buf, ' ', old_list.lines[i]);
            i++, j++;
        } else if (j == new_list.len ||
                (i < old_list.len && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
            put_line(buf, '-', old_list.lines[i++]);
        } else {
            put_line(buf, '+', new_list.lines[j++]);
        }
    }
}

static pal_status summary_of(const pal_mark *marks, size_t len, uint64_t number, pal_arena *arena,
        pal_str *out_summary, pal_error *err)
{
    const pal_mark *mark = pal_window_checkpoint_find(marks, len, number);
    pal_checkpoint_record record;
    pal_status status;

    if (!mark)
        return not_found(number, err);
    status = pal_window_checkpoint_read(mark, arena, &record, err);
    if (status == PAL_OK)
        *out_summary = record.checkpoint.summary;
    return status;
}

pal_status pal_window_diff(pal_store *store, pal_str tenant, pal_id session, uint64_t old_number,
        uint64_t new_number, pal_arena *arena, pal_str *out_diff, pal_error *err)
{
    pal_str old_summary = {0}, new_summary = {0};
    line_list old_list, new_list;
    uint16_t *common;
    pal_mark *marks;
    size_t len;
    pal_buf buf;
    pal_status status = pal_store_marks(store, tenant, session, arena, &marks, &len, err);

    if (status != PAL_OK)
        return status;
    status = summary_of(marks, len, old_number, arena, &old_summary, err);
    if (status != PAL_OK)
        return status;
    status = summary_of(marks, len, new_number, arena, &new_summary, err);
    if (status != PAL_OK)
        return status;
    old_list = split_lines(old_summary, arena);
    new_list = split_lines(new_summary, arena);
    common = common_lines(old_list, new_list, arena);
    if (!common)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    pal_buf_init(&buf, PAL_MARK_BODY_LEN_MAX);
    write_diff(&buf, old_list, new_list, common);
    status = buf.failure;
    if (status == PAL_OK)
        *out_diff = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    if (status == PAL_OK)
        status = pal_arena_failure(arena);
    return status == PAL_OK
            ? status
            : pal_error_set(err, status, "the difference of the summaries is too large");
}
