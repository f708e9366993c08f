/* anthropic_answer.c - reads an answer of Anthropic's Messages API, and joins the events of a
 * stream to one. A stream consists of a message that starts, blocks that start, grow and stop, and
 * a change of the message. Blocks do not overlap. */
#include "dialect/anthropic/anthropic.h"

#include "base/json/json_part.h"
#include "base/json/json_put.h"
#include "dialect/anthropic/anthropic_block.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_text.h"

/* ---- Reading ---- */

static void read_usage(pal_json usage, pal_message *message)
{
    pal_usage *out = &message->usage;
    message->has_usage = pal_json_type_of(usage) == PAL_JSON_OBJECT;
    (void)pal_json_u64(pal_json_find(usage, "input_tokens"), &out->input);
    (void)pal_json_u64(pal_json_find(usage, "cache_read_input_tokens"), &out->cache_read);
    (void)pal_json_u64(pal_json_find(usage, "cache_creation_input_tokens"), &out->cache_write);
    (void)pal_json_u64(pal_json_find(usage, "output_tokens"), &out->output);
}

pal_status pal_anthropic_answer_read(
        pal_str json, pal_arena *arena, pal_message *out_message, pal_error *err)
{
    const pal_block_reader in = {.arena = arena, .err = err, .is_history = true};
    pal_message message = {.role = PAL_ROLE_ASSISTANT};
    pal_json value;
    pal_status status = pal_member_parse(json, NULL, arena, &value, err);
    if (status != PAL_OK)
        return status;
    pal_json content = pal_json_find(value, "content");
    if (pal_json_type_of(content) != PAL_JSON_ARRAY)
        return pal_member_wrong(err, "content", content, "an array of blocks");
    status = pal_blocks_read(&in, content, "content", &message.parts, &message.parts_len);
    if (status != PAL_OK)
        return status;
    message.model = pal_member_string(value, "model", arena);
    read_usage(pal_json_find(value, "usage"), &message);
    *out_message = message;
    return pal_arena_checked(arena, err);
}

/* ---- Joining ---- */

typedef struct joiner {
    pal_arena *arena; /* holds the parsed events */
    pal_json message; /* the message in message_start */
    pal_json usage;   /* the usage in message_delta, which replaces earlier counts */
    pal_json delta;
    pal_json block; /* the block that is open */
    pal_buf text;   /* its text, thinking or input so far */
    uint32_t half; /* of a character that was divided between two deltas */
    pal_buf signature;
    pal_buf content;
    pal_json_writer writer; /* writes `content` */
    bool has_end;
} joiner;

static bool is_type(pal_json object, const char *type)
{
    return pal_json_string_is(pal_json_find(object, "type"), type);
}

static void grow_block(joiner *j, pal_json delta)
{
    static const char *const names[] = {"text", "thinking", "partial_json"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        pal_buf_append_str(&j->text,
                pal_json_string_part(pal_json_find(delta, names[i]), &j->half, j->arena));
    pal_buf_append_str(&j->signature, pal_member_string(delta, "signature", j->arena));
}

/* The member of a block that its deltas add to; NULL: the block is complete in its start. */
static const char *growing_member(pal_json block)
{
    return is_type(block, "text")                                        ? "text"
            : is_type(block, "thinking")                                 ? "thinking"
            : pal_json_type_of(pal_json_find(block, "input")) != PAL_JSON_NONE ? "input"
                                                                         : NULL;
}

static void stop_block(joiner *j)
{
    const char *name = growing_member(j->block);
    const char *const own[] = {name ? name : "", "signature", NULL};
    pal_json input;
    if (pal_json_type_of(j->block) != PAL_JSON_OBJECT)
        return;
    pal_json_begin_object(&j->writer);
    pal_member_put_others(&j->writer, j->block, own, NULL, j->arena);
    if (name && strcmp(name, "input") == 0) {
        bool is_json =
                pal_json_parse(j->arena, pal_buf_str(&j->text), NULL, &input, NULL) == PAL_OK;
        pal_put_raw(&j->writer, "input", is_json ? pal_json_raw(input) : pal_str_of("{}"));
    } else if (name) {
        pal_put_str(&j->writer, name, pal_buf_str(&j->text));
    }
    if (j->signature.len)
        pal_put_str(&j->writer, "signature", pal_buf_str(&j->signature));
    pal_json_end_object(&j->writer);
    j->block = (pal_json){0};
}

static void start_block(joiner *j, pal_json block)
{
    j->block = block;
    pal_buf_clear(&j->text);
    pal_buf_clear(&j->signature);
    grow_block(j, block); /* a block can start with a text */
}

static pal_status join_event(joiner *j, pal_str data, pal_error *err)
{
    pal_json event;
    pal_status status = pal_json_parse(j->arena, data, NULL, &event, err);
    if (status != PAL_OK)
        return status;
    if (is_type(event, "message_start"))
        j->message = pal_json_find(event, "message");
    else if (is_type(event, "content_block_start"))
        start_block(j, pal_json_find(event, "content_block"));
    else if (is_type(event, "content_block_delta"))
        grow_block(j, pal_json_find(event, "delta"));
    else if (is_type(event, "content_block_stop"))
        stop_block(j);
    else if (is_type(event, "message_delta")) {
        j->delta = pal_json_find(event, "delta");
        j->usage = pal_json_find(event, "usage");
    } else if (is_type(event, "message_stop"))
        j->has_end = true;
    return PAL_OK;
}

static pal_status join_events(joiner *j, pal_str stream, pal_error *err)
{
    pal_str data;
    while (pal_dialect_data_next(&stream, &data)) {
        pal_status status = join_event(j, data, err);
        if (status != PAL_OK)
            return status;
    }
    if (!j->has_end || pal_json_type_of(j->message) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "the stream is not complete");
    return PAL_OK;
}

static void put_members(pal_json_writer *writer, pal_json object)
{
    if (pal_json_type_of(object) == PAL_JSON_OBJECT)
        pal_json_put_members(writer, pal_json_raw(object));
}

static pal_status put_joined(joiner *j, pal_arena *arena, pal_str *out_json, pal_error *err)
{
    static const char *const own[] = {"content", "usage", "stop_reason", "stop_sequence", NULL};
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_member_put_others(&writer, j->message, own, NULL, j->arena);
    pal_put_raw(&writer, "content", pal_buf_str(&j->content));
    put_members(&writer, j->delta);
    pal_json_name(&writer, "usage");
    pal_json_begin_object(&writer);
    put_members(&writer, pal_json_find(j->message, "usage"));
    put_members(&writer, j->usage); /* the last of equal members counts */
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    pal_status status = j->content.failure
            ? pal_error_set(err, j->content.failure, "the answer is too long")
            : pal_member_keep(&buf, arena, out_json, err);
    pal_buf_done(&buf);
    return status;
}

pal_status pal_anthropic_answer_join(
        pal_str stream, pal_arena *arena, pal_str *out_json, pal_error *err)
{
    joiner j = {.arena = arena};
    pal_buf_init(&j.text, PAL_JSON_BYTES_MAX);
    pal_buf_init(&j.signature, PAL_JSON_BYTES_MAX);
    pal_buf_init(&j.content, PAL_JSON_BYTES_MAX);
    j.writer = pal_json_writer_make(&j.content);
    pal_json_begin_array(&j.writer);
    pal_status status = join_events(&j, stream, err);
    if (status == PAL_OK) {
        pal_json_end_array(&j.writer);
        status = put_joined(&j, arena, out_json, err);
    }
    pal_buf_done(&j.content);
    pal_buf_done(&j.signature);
    pal_buf_done(&j.text);
    return status;
}
