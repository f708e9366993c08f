/* openai_chat_answer.c - reads a chat completion, and joins the chunks of a stream to one. Each
 * chunk has a delta, whose texts are appended to those of the chunks before. Calls of tools are
 * told apart by their index. */

#include "base/json/json_part.h"
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_text.h"
#include "dialect/openai/openai_chat.h"

/* ---- Reading ---- */

static pal_json first_choice(pal_json value)
{
    pal_json choice = {0};
    pal_json_iter iter = pal_json_each(pal_json_find(value, "choices"));
    return pal_json_next(&iter, NULL, &choice) ? choice : (pal_json){0};
}

static void read_usage(pal_json usage, pal_message *message)
{
    pal_usage *out = &message->usage;
    pal_json prompt = pal_json_find(usage, "prompt_tokens_details");
    pal_json completion = pal_json_find(usage, "completion_tokens_details");
    message->has_usage = pal_json_type_of(usage) == PAL_JSON_OBJECT;
    (void)pal_json_u64(pal_json_find(usage, "prompt_tokens"), &out->input);
    (void)pal_json_u64(pal_json_find(usage, "completion_tokens"), &out->output);
    (void)pal_json_u64(pal_json_find(prompt, "cached_tokens"), &out->cache_read);
    (void)pal_json_u64(pal_json_find(completion, "reasoning_tokens"), &out->reasoning);
    if (out->cache_read <= out->input) /* here, cached tokens are not part of the input */
        out->input -= out->cache_read;
}

pal_status pal_openai_chat_answer_read(
        pal_str json, pal_arena *arena, pal_message *out_message, pal_error *err)
{
    pal_message *messages;
    size_t len;
    pal_json value;
    pal_status status = pal_member_parse(json, NULL, arena, &value, err);
    if (status != PAL_OK)
        return status;
    pal_json message = pal_json_find(first_choice(value), "message");
    if (pal_json_type_of(message) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "the completion has no message");
    status = pal_openai_chat_read(message, arena, &messages, &len, err);
    if (status != PAL_OK)
        return status;
    if (len != 1)
        return pal_error_set(err, PAL_INVALID, "the completion has no message");
    messages[0].model = pal_member_string(value, "model", arena);
    read_usage(pal_json_find(value, "usage"), &messages[0]);
    *out_message = messages[0];
    return pal_arena_checked(arena, err);
}

/* ---- Joining ---- */

typedef struct joined_call {
    struct joined_call *next;
    uint64_t index;
    pal_str id;
    pal_str name;
    pal_buf arguments;
} joined_call;

typedef struct joiner {
    pal_arena *arena; /* holds the parsed chunks */
    uint32_t half;    /* of a character that was divided between two chunks */
    pal_str model;
    pal_json usage;
    pal_buf content;
    pal_buf reasoning;
    pal_buf refusal;
    joined_call *calls, **calls_end;
    bool has_end; /* the first choice has a reason to finish */
} joiner;

/* The first delta of a call has its id. Some services send no index. */
static joined_call *find_call(joiner *j, pal_json value)
{
    uint64_t index = 0;
    pal_str id = pal_member_string(value, "id", j->arena);
    bool has_index = pal_json_u64(pal_json_find(value, "index"), &index);
    joined_call *found = NULL;
    for (joined_call *call = j->calls; call; call = call->next) {
        bool is_same = has_index ? call->index == index
                                 : id.len == 0 || pal_str_equal(call->id, id);
        found = is_same ? call : found;
    }
    if (found)
        return found;
    found = pal_arena_alloc(j->arena, sizeof *found);
    if (!found)
        return NULL;
    found->index = index;
    found->id = id;
    pal_buf_init(&found->arguments, PAL_JSON_BYTES_MAX);
    *j->calls_end = found;
    j->calls_end = &found->next;
    return found;
}

static void join_call(joiner *j, pal_json value)
{
    pal_json function = pal_json_find(value, "function");
    pal_str name = pal_member_string(function, "name", j->arena);
    joined_call *call = find_call(j, value);
    if (!call)
        return; /* the arena has failed, which the caller checks */
    if (call->name.len == 0)
        call->name = name;
    pal_buf_append_str(&call->arguments, pal_member_string(function, "arguments", j->arena));
}

static void join_text(joiner *j, pal_json delta, const char *name, pal_buf *text)
{
    pal_buf_append_str(text, pal_json_string_part(pal_json_find(delta, name), &j->half, j->arena));
}

static void join_delta(joiner *j, pal_json delta)
{
    pal_json call;
    size_t before = j->reasoning.len;
    join_text(j, delta, "reasoning_content", &j->reasoning);
    if (j->reasoning.len == before)
        join_text(j, delta, "reasoning", &j->reasoning);
    join_text(j, delta, "content", &j->content);
    join_text(j, delta, "refusal", &j->refusal);
    for (pal_json_iter iter = pal_json_each(pal_json_find(delta, "tool_calls"));
            pal_json_next(&iter, NULL, &call);)
        join_call(j, call);
}

static pal_status join_chunk(joiner *j, pal_str data, pal_error *err)
{
    pal_json chunk, choice;
    pal_status status = pal_json_parse(j->arena, data, NULL, &chunk, err);
    if (status != PAL_OK)
        return status;
    if (pal_json_type_of(pal_json_find(chunk, "error")) == PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "the stream ended with an error");
    if (j->model.len == 0)
        j->model = pal_member_string(chunk, "model", j->arena);
    if (pal_json_type_of(pal_json_find(chunk, "usage")) == PAL_JSON_OBJECT)
        j->usage = pal_json_find(chunk, "usage");
    for (pal_json_iter iter = pal_json_each(pal_json_find(chunk, "choices"));
            pal_json_next(&iter, NULL, &choice);) {
        uint64_t index = 0;
        (void)pal_json_u64(pal_json_find(choice, "index"), &index);
        if (index != 0)
            continue;
        join_delta(j, pal_json_find(choice, "delta"));
        if (pal_json_type_of(pal_json_find(choice, "finish_reason")) == PAL_JSON_STRING)
            j->has_end = true;
    }
    return PAL_OK;
}

static pal_status join_chunks(joiner *j, pal_str stream, pal_error *err)
{
    pal_str data;
    while (pal_dialect_data_next(&stream, &data)) {
        pal_status status = pal_str_is(data, "[DONE]") ? PAL_OK : join_chunk(j, data, err);
        if (status != PAL_OK)
            return status;
    }
    if (!j->has_end)
        return pal_error_set(err, PAL_INVALID, "the stream is not complete");
    return PAL_OK;
}

static void put_calls(pal_json_writer *writer, const joined_call *calls)
{
    pal_json_name(writer, "tool_calls");
    pal_json_begin_array(writer);
    for (const joined_call *call = calls; call; call = call->next) {
        if (call->arguments.failure)
            writer->buf->failure = call->arguments.failure;
        pal_json_begin_object(writer);
        pal_put_str(writer, "id", call->id);
        pal_put_text(writer, "type", "function");
        pal_json_name(writer, "function");
        pal_json_begin_object(writer);
        pal_put_str(writer, "name", call->name);
        pal_put_str(writer, "arguments", pal_buf_str(&call->arguments));
        pal_json_end_object(writer);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

static void put_message(const joiner *j, pal_json_writer *writer)
{
    pal_json_begin_object(writer);
    pal_put_text(writer, "role", "assistant");
    pal_put_str_or_null(writer, "content", pal_buf_str(&j->content));
    if (j->reasoning.len)
        pal_put_str(writer, "reasoning_content", pal_buf_str(&j->reasoning));
    if (j->refusal.len)
        pal_put_str(writer, "refusal", pal_buf_str(&j->refusal));
    if (j->calls)
        put_calls(writer, j->calls);
    pal_json_end_object(writer);
}

static pal_status put_joined(const joiner *j, pal_arena *arena, pal_str *out_json, pal_error *err)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    if (j->content.failure || j->reasoning.failure || j->refusal.failure)
        buf.failure = PAL_LIMIT;
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "model", j->model);
    pal_json_name(&writer, "choices");
    pal_json_begin_array(&writer);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "message");
    put_message(j, &writer);
    pal_json_end_object(&writer);
    pal_json_end_array(&writer);
    if (pal_json_type_of(j->usage) == PAL_JSON_OBJECT)
        pal_put_raw(&writer, "usage", pal_json_raw(j->usage));
    pal_json_end_object(&writer);
    pal_status status = pal_member_keep(&buf, arena, out_json, err);
    pal_buf_done(&buf);
    return status;
}

pal_status pal_openai_chat_answer_join(
        pal_str stream, pal_arena *arena, pal_str *out_json, pal_error *err)
{
    joiner j = {.arena = arena};
    j.calls_end = &j.calls;
    pal_buf_init(&j.content, PAL_JSON_BYTES_MAX);
    pal_buf_init(&j.reasoning, PAL_JSON_BYTES_MAX);
    pal_buf_init(&j.refusal, PAL_JSON_BYTES_MAX);
    pal_status status = join_chunks(&j, stream, err);
    if (status == PAL_OK)
        status = pal_arena_checked(arena, err);
    if (status == PAL_OK)
        status = put_joined(&j, arena, out_json, err);
    for (joined_call *call = j.calls; call; call = call->next)
        pal_buf_done(&call->arguments);
    pal_buf_done(&j.refusal);
    pal_buf_done(&j.reasoning);
    pal_buf_done(&j.content);
    return status;
}
