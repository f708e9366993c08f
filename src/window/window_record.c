/* window_record.c - reads and writes the bodies of checkpoints, prunes and epochs. One table of
 * members is used in both directions. Members that are zero are left out. Pure functions. */
#include "window/window_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json/json.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"

static pal_status body_done(pal_buf *buf, pal_arena *arena, pal_str *out_body, pal_error *err)
{
    pal_status status = buf->failure;

    if (status == PAL_OK) {
        *out_body = pal_arena_copy(arena, pal_buf_str(buf));
        status = pal_arena_failure(arena);
    }
    pal_buf_done(buf);
    if (status == PAL_LIMIT)
        return pal_error_set(err, status, "the body of the mark exceeds the limit of %u bytes",
                PAL_MARK_BODY_LEN_MAX);
    return status == PAL_OK ? status : pal_error_set(err, status, "out of memory");
}

static pal_status write_body(const pal_member_table *table, const void *record, pal_arena *arena,
        pal_str *out_body, pal_error *err)
{
    pal_buf buf;
    pal_json_writer writer;

    pal_buf_init(&buf, PAL_MARK_BODY_LEN_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_members_write(table, 1, &writer, record);
    pal_json_end_object(&writer);
    return body_done(&buf, arena, out_body, err);
}

static pal_status body_parse(const pal_mark *mark, const char *what, pal_arena *arena,
        pal_json *out_body, pal_error *err)
{
    pal_error inner;
    pal_status status = pal_json_parse(arena, mark->body, NULL, out_body, &inner);

    if (status == PAL_NO_MEMORY)
        return pal_error_set(err, status, "out of memory");
    if (status != PAL_OK || pal_json_type_of(*out_body) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_CORRUPT, "the body of %s %llu cannot be read: %s", what,
                (unsigned long long)mark->number,
                status != PAL_OK ? inner.message : "not an object");
    return PAL_OK;
}

#define LEN(list) (sizeof(list) / sizeof((list)[0]))

/* ---- Checkpoints ---- */

#define USAGE(name) {#name, PAL_MEMBER_U64, 1, .offset = offsetof(pal_usage, name)}
static const pal_member usage_members[] = {
        USAGE(input), USAGE(cache_read), USAGE(cache_write), USAGE(output), USAGE(reasoning)};
static const pal_member_table usage_table = {usage_members, LEN(usage_members), NULL, NULL};
static const pal_member_record usage_record = {
        &usage_table, 1, offsetof(pal_checkpoint_record, has_usage), 0};

static pal_status read_keeps(
        pal_json list, pal_arena *arena, pal_checkpoint_record *record, pal_error *err)
{
    pal_json_iter each = pal_json_each(list);
    uint64_t *seqs = pal_arena_array(arena, pal_json_count(list), sizeof(*seqs));
    pal_json value;

    if (!seqs)
        return pal_no_memory(err);
    record->keep_len = 0;
    while (pal_json_next(&each, NULL, &value))
        if (pal_json_u64(value, &seqs[record->keep_len]))
            record->keep_len++;
    record->keep_seqs = seqs;
    return PAL_OK;
}

static pal_status read_other(
        const pal_member *member, pal_json value, pal_arena *arena, void *body, pal_error *err)
{
    pal_checkpoint_record *record = body;

    switch (member->offset) {
    case offsetof(pal_checkpoint_record, checkpoint.strategy):
        pal_strategy_from_name(pal_json_string(value, arena), &record->checkpoint.strategy);
        return PAL_OK;
    default:
        return read_keeps(value, arena, record, err);
    }
}

static void write_other(const pal_member *member, pal_json_writer *writer, const void *body)
{
    const pal_checkpoint_record *record = body;

    switch (member->offset) {
    case offsetof(pal_checkpoint_record, checkpoint.strategy):
        pal_put_str_if(
                writer, member->name, pal_str_of(pal_strategy_name(record->checkpoint.strategy)));
        break;
    default:
        pal_json_name(writer, member->name);
        pal_json_begin_array(writer);
        for (size_t i = 0; i < record->keep_len; i++)
            pal_json_put_u64(writer, record->keep_seqs[i]);
        pal_json_end_array(writer);
        break;
    }
}

#define CHECKPOINT(name, type, field)                                                              \
    {name, PAL_MEMBER_##type, 1, .offset = offsetof(pal_checkpoint_record, field)}
static const pal_member checkpoint_members[] = {
        CHECKPOINT("strategy", OTHER, checkpoint.strategy),
        CHECKPOINT("summary", STRING, checkpoint.summary),
        CHECKPOINT("hint", STRING, checkpoint.hint),
        CHECKPOINT("dropped", U64, checkpoint.dropped),
        CHECKPOINT("tokens", U64, checkpoint.tokens),
        CHECKPOINT("hidden_tokens", U64, checkpoint.hidden_tokens),
        CHECKPOINT("previous", U64, previous),
        CHECKPOINT("messages", U64, messages),
        CHECKPOINT("tokens_before", U64, tokens_before),
        CHECKPOINT("tokens_after", U64, tokens_after),
        CHECKPOINT("fallback", BOOL, is_fallback),
        CHECKPOINT("model", STRING, model),
        {"usage", PAL_MEMBER_RECORD, 1, .offset = offsetof(pal_checkpoint_record, usage),
                .of = &usage_record},
        CHECKPOINT("cost_micros", I64, cost_micros),
        CHECKPOINT("reason", STRING, reason),
        CHECKPOINT("request_id", STRING, request_id),
        CHECKPOINT("note", STRING, note),
        CHECKPOINT("keep", OTHER, keep_seqs),
};
static const pal_member_table checkpoint_table = {
        checkpoint_members, LEN(checkpoint_members), read_other, write_other};

/* Before request_id existed, the server wrote the id into the reason. */
static pal_str id_in_reason(pal_str reason)
{
    static const char prefix[] = "manual, request ";
    size_t len = sizeof(prefix) - 1;

    if (reason.len <= len || memcmp(reason.data, prefix, len) != 0)
        return (pal_str){0};
    return pal_str_make(reason.data + len, reason.len - len);
}

pal_status pal_window_checkpoint_read(const pal_mark *mark, pal_arena *arena,
        pal_checkpoint_record *out_record, pal_error *err)
{
    pal_checkpoint_record record = {.checkpoint = {.number = mark->number, .seq = mark->seq}};
    pal_json body;
    pal_status status = body_parse(mark, "checkpoint", arena, &body, err);

    if (status != PAL_OK)
        return status;
    status = pal_members_read_stored(&checkpoint_table, 1, body, arena, &record, err);
    if (status != PAL_OK)
        return status;
    if (record.request_id.len == 0)
        record.request_id = id_in_reason(record.reason);
    *out_record = record;
    return PAL_OK;
}

pal_status pal_window_checkpoint_write(const pal_checkpoint_record *record, pal_arena *arena,
        pal_str *out_body, pal_error *err)
{
    return write_body(&checkpoint_table, record, arena, out_body, err);
}

/* ---- Prunes ---- */

#define PRUNED_TOKENS_MAX ((uint64_t)1 << 40) /* a larger number is not a count */

static int pruned_compare(const void *left, const void *right)
{
    const pal_pruned_part *a = left, *b = right;

    if (a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    return a->part < b->part ? -1 : a->part > b->part;
}

static size_t unique(pal_pruned_part *pruned, size_t len)
{
    size_t kept = 0;

    for (size_t i = 0; i < len; i++)
        if (kept == 0 || pruned_compare(&pruned[kept - 1], &pruned[i]) != 0)
            pruned[kept++] = pruned[i];
    return kept;
}

/* Each entry is [seq, part]. */
static size_t read_pruned(pal_json list, pal_pruned_part *out_pruned)
{
    pal_json_iter each = pal_json_each(list);
    size_t len = 0;
    pal_json entry;

    while (pal_json_next(&each, NULL, &entry)) {
        pal_json_iter pair = pal_json_each(entry);
        pal_json seq, part;
        uint64_t number;

        if (!pal_json_next(&pair, NULL, &seq) || !pal_json_next(&pair, NULL, &part) ||
                !pal_json_u64(seq, &out_pruned[len].seq) || !pal_json_u64(part, &number) ||
                number > UINT32_MAX)
            continue;
        out_pruned[len++].part = (uint32_t)number;
    }
    return len;
}

pal_status pal_window_prunes_read(const pal_mark *marks, size_t marks_len, pal_arena *arena,
        pal_pruned_part **out_pruned, size_t *out_len, uint64_t *out_tokens, pal_error *err)
{
    pal_json *lists = pal_arena_array(arena, marks_len + 1, sizeof(*lists));
    size_t room = 0, len = 0;
    uint64_t tokens = 0;
    pal_pruned_part *pruned;

    if (!lists)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    for (size_t i = 0; i < marks_len; i++) {
        uint64_t removed = 0;
        pal_json body;
        pal_status status = body_parse(&marks[i], "prune", arena, &body, err);

        if (status != PAL_OK)
            return status;
        lists[i] = pal_json_find(body, "pruned");
        room += pal_json_count(lists[i]);
        pal_json_u64(pal_json_find(body, "tokens"), &removed);
        if (removed < PRUNED_TOKENS_MAX)
            tokens += removed;
    }
    pruned = pal_arena_array(arena, room + 1, sizeof(*pruned));
    if (!pruned)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    for (size_t i = 0; i < marks_len; i++)
        len += read_pruned(lists[i], pruned + len);
    qsort(pruned, len, sizeof(*pruned), pruned_compare);
    *out_pruned = pruned;
    *out_len = unique(pruned, len);
    *out_tokens = tokens;
    return PAL_OK;
}

pal_status pal_window_prunes_write(const pal_pruned_part *pruned, size_t len, uint64_t tokens,
        pal_arena *arena, pal_str *out_body, pal_error *err)
{
    pal_buf buf;
    pal_json_writer writer;

    pal_buf_init(&buf, PAL_MARK_BODY_LEN_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    if (tokens > 0)
        pal_put_count(&writer, "tokens", tokens);
    pal_json_name(&writer, "pruned");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < len; i++) {
        pal_json_begin_array(&writer);
        pal_json_put_u64(&writer, pruned[i].seq);
        pal_json_put_u64(&writer, pruned[i].part);
        pal_json_end_array(&writer);
    }
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    return body_done(&buf, arena, out_body, err);
}

/* ---- Epochs ---- */

#define TOOL(name, type) {#name, PAL_MEMBER_##type, 1, .offset = offsetof(pal_tool, name)}
static const pal_member tool_members[] = {
        TOOL(name, STRING), TOOL(description, STRING), TOOL(schema, JSON), TOOL(tokens, U64)};
static const pal_member_table tool_table = {tool_members, LEN(tool_members), NULL, NULL};

static const pal_member_list tool_list = {
        &tool_table, sizeof(pal_tool), offsetof(pal_epoch_record, tools_len)};

#define EPOCH(name, type, field)                                                                   \
    {name, PAL_MEMBER_##type, 1, .offset = offsetof(pal_epoch_record, field)}
static const pal_member epoch_members[] = {
        EPOCH("system", STRING, system),
        EPOCH("own", BOOL, is_own),
        {"tools", PAL_MEMBER_LIST, 1, .offset = offsetof(pal_epoch_record, tools),
                .of = &tool_list},
        EPOCH("notes", JSON, notes),
        EPOCH("notes_more", U64, notes_more),
        EPOCH("notes_at", I64, notes_at),
};
static const pal_member_table epoch_table = {epoch_members, LEN(epoch_members), NULL, NULL};

pal_status pal_window_epoch_read(
        const pal_mark *mark, pal_arena *arena, pal_epoch_record *out_record, pal_error *err)
{
    pal_epoch_record record;
    pal_json body;
    pal_status status = body_parse(mark, "epoch", arena, &body, err);

    if (status != PAL_OK)
        return status;
    status = pal_members_read_stored(&epoch_table, 1, body, arena, &record, err);
    if (status == PAL_OK)
        *out_record = record;
    return status;
}

pal_status pal_window_epoch_write(
        const pal_epoch_record *record, pal_arena *arena, pal_str *out_body, pal_error *err)
{
    return write_body(&epoch_table, record, arena, out_body, err);
}
