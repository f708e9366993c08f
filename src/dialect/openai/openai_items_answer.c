/* openai_items_answer.c - reads a response, and finds it in the events of a stream. The last event
 * contains the complete response. Some services leave its output empty; then the items are
 * collected from the events that complete them. */

#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_text.h"
#include "dialect/openai/openai_items.h"

/* ---- Reading ---- */

static void read_usage(pal_json usage, pal_message *message)
{
    pal_usage *out = &message->usage;
    pal_json input = pal_json_find(usage, "input_tokens_details");
    pal_json output = pal_json_find(usage, "output_tokens_details");
    message->has_usage = pal_json_type_of(usage) == PAL_JSON_OBJECT;
    (void)pal_json_u64(pal_json_find(usage, "input_tokens"), &out->input);
    (void)pal_json_u64(pal_json_find(usage, "output_tokens"), &out->output);
    (void)pal_json_u64(pal_json_find(input, "cached_tokens"), &out->cache_read);
    (void)pal_json_u64(pal_json_find(output, "reasoning_tokens"), &out->reasoning);
    if (out->cache_read <= out->input) /* here, cached tokens are not part of the input */
        out->input -= out->cache_read;
}

pal_status pal_openai_items_answer_read(pal_str json, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err)
{
    pal_json response;
    pal_status status = pal_member_parse(json, NULL, arena, &response, err);
    if (status != PAL_OK)
        return status;
    status = pal_openai_items_read_all(
            pal_json_find(response, "output"), "output", arena, out_messages, out_len, err);
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < *out_len; i++)
        (*out_messages)[i].model = pal_member_string(response, "model", arena);
    if (*out_len)
        read_usage(pal_json_find(response, "usage"), &(*out_messages)[*out_len - 1]);
    return pal_arena_checked(arena, err);
}

/* ---- Joining ---- */

static bool is_type(pal_json event, const char *type)
{
    return pal_json_string_is(pal_json_find(event, "type"), type);
}

/* Adds the items of the events to a response whose output is empty. */
static pal_status put_items(pal_json response, const pal_buf *items, pal_arena *arena,
        pal_str *out_json, pal_error *err)
{
    static const char *const own[] = {"output", NULL};
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_member_put_others(&writer, response, own, NULL, arena);
    pal_put_raw(&writer, "output", pal_buf_str(items));
    pal_json_end_object(&writer);
    pal_status status = items->failure
            ? pal_error_set(err, items->failure, "the output is too long")
            : pal_member_keep(&buf, arena, out_json, err);
    pal_buf_done(&buf);
    return status;
}

static pal_status join_events(
        pal_str stream, pal_arena *arena, pal_buf *items, pal_json *out_response, pal_error *err)
{
    pal_json event;
    pal_str data;
    while (pal_dialect_data_next(&stream, &data)) {
        if (pal_str_is(data, "[DONE]"))
            continue;
        pal_status status = pal_json_parse(arena, data, NULL, &event, err);
        if (status != PAL_OK)
            return status;
        if (is_type(event, "response.completed") || is_type(event, "response.incomplete"))
            *out_response = pal_json_find(event, "response");
        if (!is_type(event, "response.output_item.done"))
            continue;
        pal_buf_append_text(items, items->len > 1 ? "," : "");
        pal_buf_append_str(items, pal_json_raw(pal_json_find(event, "item")));
    }
    return PAL_OK;
}

pal_status pal_openai_items_answer_join(
        pal_str stream, pal_arena *arena, pal_str *out_json, pal_error *err)
{
    pal_json response = {0};
    pal_buf items;
    pal_buf_init(&items, PAL_JSON_BYTES_MAX);
    pal_buf_append_text(&items, "[");
    pal_status status = join_events(stream, arena, &items, &response, err);
    pal_buf_append_text(&items, "]");
    if (status != PAL_OK)
        goto out;
    if (pal_json_type_of(response) != PAL_JSON_OBJECT)
        status = pal_error_set(err, PAL_INVALID, "the stream is not complete");
    else if (pal_json_count(pal_json_find(response, "output")) == 0)
        status = put_items(response, &items, arena, out_json, err);
    else
        *out_json = pal_json_raw(response);
out:
    pal_buf_done(&items);
    return status;
}
