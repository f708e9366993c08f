/* window_record.c - reads and writes the bodies of checkpoints, prunes and epochs. Pure
 * functions. */
#include "window/window_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json/json.h"
#include "base/json/json_put.h"

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

static pal_str text_of(pal_json object, const char *name, pal_arena *arena)
{
    return pal_json_string(pal_json_find(object, name), arena);
}

static uint64_t number_of(pal_json object, const char *name)
{
    uint64_t number = 0;

    pal_json_u64(pal_json_find(object, name), &number);
    return number;
}

static void put_number(pal_json_writer *writer, const char *name, uint64_t number)
{
    if (number == 0)
        return;
    pal_put_count(writer, name, number);
}

/* ---- Checkpoints ---- */

static void read_keeps(pal_json list, pal_arena *arena, pal_checkpoint_record *record)
{
    pal_json_iter each = pal_json_each(list);
    uint64_t *seqs = pal_arena_array(arena, pal_json_count(list), sizeof(*seqs));
    pal_json value;

    if (!seqs)
        return;
    while (pal_json_next(&each, NULL, &value))
        if (pal_json_u64(value, &seqs[record->keep_len]))
            record->keep_len++;
    record->keep_seqs = seqs;
}

static void read_usage(pal_json usage, pal_checkpoint_record *record)
{
    if (pal_json_type_of(usage) != PAL_JSON_OBJECT)
        return;
    record->has_usage = true;
    record->usage = (pal_usage){
            .input = number_of(usage, "input"),
            .cache_read = number_of(usage, "cache_read"),
            .cache_write = number_of(usage, "cache_write"),
            .output = number_of(usage, "output"),
            .reasoning = number_of(usage, "reasoning"),
    };
}

/* Before request_id existed, the server wrote the id into the reason. */
static pal_str id_in_reason(pal_str reason)
{
    static const char prefix[] = "manual, request ";
    size_t len = sizeof prefix - 1;

    if (reason.len <= len || memcmp(reason.data, prefix, len) != 0)
        return (pal_str){0};
    return pal_str_make(reason.data + len, reason.len - len);
}

pal_status pal_window_checkpoint_read(const pal_mark *mark, pal_arena *arena,
        pal_checkpoint_record *out_record, pal_error *err)
{
    pal_checkpoint_record record = {.checkpoint = {.number = mark->number, .seq = mark->seq}};
    pal_checkpoint *checkpoint = &record.checkpoint;
    pal_json body;
    pal_status status = body_parse(mark, "checkpoint", arena, &body, err);

    if (status != PAL_OK)
        return status;
    pal_strategy_from_name(text_of(body, "strategy", arena), &checkpoint->strategy);
    checkpoint->summary = text_of(body, "summary", arena);
    checkpoint->hint = text_of(body, "hint", arena);
    checkpoint->dropped = number_of(body, "dropped");
    checkpoint->tokens = number_of(body, "tokens");
    checkpoint->hidden_tokens = number_of(body, "hidden_tokens");
    record.previous = number_of(body, "previous");
    record.messages = number_of(body, "messages");
    record.tokens_before = number_of(body, "tokens_before");
    record.tokens_after = number_of(body, "tokens_after");
    pal_json_bool(pal_json_find(body, "fallback"), &record.is_fallback);
    record.model = text_of(body, "model", arena);
    record.reason = text_of(body, "reason", arena);
    record.request_id = text_of(body, "request_id", arena);
    if (record.request_id.len == 0)
        record.request_id = id_in_reason(record.reason);
    record.note = text_of(body, "note", arena);
    pal_json_i64(pal_json_find(body, "cost_micros"), &record.cost_micros);
    read_usage(pal_json_find(body, "usage"), &record);
    read_keeps(pal_json_find(body, "keep"), arena, &record);
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    *out_record = record;
    return PAL_OK;
}

static void write_usage(pal_json_writer *writer, const pal_checkpoint_record *record)
{
    if (!record->has_usage)
        return;
    pal_json_name(writer, "usage");
    pal_json_begin_object(writer);
    put_number(writer, "input", record->usage.input);
    put_number(writer, "cache_read", record->usage.cache_read);
    put_number(writer, "cache_write", record->usage.cache_write);
    put_number(writer, "output", record->usage.output);
    put_number(writer, "reasoning", record->usage.reasoning);
    pal_json_end_object(writer);
    pal_put_number(writer, "cost_micros", record->cost_micros);
}

pal_status pal_window_checkpoint_write(const pal_checkpoint_record *record, pal_arena *arena,
        pal_str *out_body, pal_error *err)
{
    const pal_checkpoint *checkpoint = &record->checkpoint;
    pal_buf buf;
    pal_json_writer writer;

    pal_buf_init(&buf, PAL_MARK_BODY_LEN_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_str_if(&writer, "strategy", pal_str_of(pal_strategy_name(checkpoint->strategy)));
    pal_put_str_if(&writer, "summary", checkpoint->summary);
    pal_put_str_if(&writer, "hint", checkpoint->hint);
    put_number(&writer, "dropped", checkpoint->dropped);
    put_number(&writer, "tokens", checkpoint->tokens);
    put_number(&writer, "hidden_tokens", checkpoint->hidden_tokens);
    put_number(&writer, "previous", record->previous);
    put_number(&writer, "messages", record->messages);
    put_number(&writer, "tokens_before", record->tokens_before);
    put_number(&writer, "tokens_after", record->tokens_after);
    if (record->is_fallback) {
        pal_put_flag(&writer, "fallback", true);
    }
    pal_put_str_if(&writer, "model", record->model);
    write_usage(&writer, record);
    pal_put_str_if(&writer, "reason", record->reason);
    pal_put_str_if(&writer, "request_id", record->request_id);
    pal_put_str_if(&writer, "note", record->note);
    pal_json_name(&writer, "keep");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < record->keep_len; i++)
        pal_json_put_u64(&writer, record->keep_seqs[i]);
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    return body_done(&buf, arena, out_body, err);
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
        pal_json body;
        pal_status status = body_parse(&marks[i], "prune", arena, &body, err);

        if (status != PAL_OK)
            return status;
        lists[i] = pal_json_find(body, "pruned");
        room += pal_json_count(lists[i]);
        if (number_of(body, "tokens") < PRUNED_TOKENS_MAX)
            tokens += number_of(body, "tokens");
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
    put_number(&writer, "tokens", tokens);
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

pal_status pal_window_epoch_read(
        const pal_mark *mark, pal_arena *arena, pal_epoch_record *out_record, pal_error *err)
{
    pal_epoch_record record = {0};
    pal_json body, tools, tool;
    pal_json_iter each;
    pal_status status = body_parse(mark, "epoch", arena, &body, err);

    if (status != PAL_OK)
        return status;
    (void)pal_json_bool(pal_json_find(body, "own"), &record.is_own);
    record.system = text_of(body, "system", arena);
    tools = pal_json_find(body, "tools");
    record.tools = pal_arena_array(arena, pal_json_count(tools) + 1, sizeof(*record.tools));
    each = pal_json_each(tools);
    while (record.tools && pal_json_next(&each, NULL, &tool))
        record.tools[record.tools_len++] = (pal_tool){
                .name = text_of(tool, "name", arena),
                .description = text_of(tool, "description", arena),
                .schema = pal_json_raw(pal_json_find(tool, "schema")),
                .tokens = number_of(tool, "tokens"),
        };
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    *out_record = record;
    return PAL_OK;
}

pal_status pal_window_epoch_write(
        const pal_epoch_record *record, pal_arena *arena, pal_str *out_body, pal_error *err)
{
    pal_buf buf;
    pal_json_writer writer;

    pal_buf_init(&buf, PAL_MARK_BODY_LEN_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_str_if(&writer, "system", record->system);
    if (record->is_own) {
        pal_put_flag(&writer, "own", true);
    }
    pal_json_name(&writer, "tools");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < record->tools_len; i++) {
        const pal_tool *tool = &record->tools[i];

        pal_json_begin_object(&writer);
        pal_put_str_if(&writer, "name", tool->name);
        pal_put_str_if(&writer, "description", tool->description);
        if (tool->schema.len > 0) {
            pal_put_raw(&writer, "schema", tool->schema);
        }
        put_number(&writer, "tokens", tool->tokens);
        pal_json_end_object(&writer);
    }
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    return body_done(&buf, arena, out_body, err);
}
