/* runtime_forward_count.c - counts the tokens of a forwarded request and its response, if the
 * service does not report them. So no call is free. Pure functions. */
#include "turn/runtime/runtime_forward.h"

#include "base/buf.h"
#include "base/json/json.h"
#include "base/json/json_put.h"
#include "dialect/anthropic/anthropic.h"
#include "dialect/dialect_member.h"
#include "dialect/openai/openai_chat.h"
#include "dialect/openai/openai_items.h"

#define BYTES_PER_TOKEN 4 /* for texts that cannot be counted */

static pal_status read_messages(pal_forward_api api, pal_json request, pal_json list,
        pal_arena *arena, pal_message **out_messages, size_t *out_len)
{
    switch (api) {
    case PAL_FORWARD_MESSAGES:
        return pal_anthropic_read(request, arena, out_messages, out_len, NULL);
    case PAL_FORWARD_RESPONSES:
        return pal_openai_items_read(
                list, "input", NULL, NULL, arena, out_messages, out_len, NULL);
    default:
        return pal_openai_chat_read(list, arena, out_messages, out_len, NULL);
    }
}

static uint64_t count_messages(
        const pal_encoding *encoding, pal_forward_api api, pal_json request, pal_arena *arena)
{
    pal_json list =
            pal_json_find(request, api == PAL_FORWARD_RESPONSES ? "input" : "messages");
    pal_message *messages;
    size_t len;
    uint64_t sum = 0;
    pal_status status = read_messages(api, request, list, arena, &messages, &len);

    if (status != PAL_OK)
        return pal_json_raw(list).len / BYTES_PER_TOKEN;
    for (size_t i = 0; i < len; i++) {
        uint64_t tokens = 0;

        if (pal_tokens_message(encoding, &messages[i], &tokens, NULL) == PAL_OK)
            sum += tokens;
    }
    return sum;
}

uint64_t pal_forward_count_input(const pal_encoding *encoding, pal_forward_api api, pal_str body)
{
    pal_arena *arena = pal_arena_new(0);
    pal_json request;
    uint64_t tools = 0, sum = body.len / BYTES_PER_TOKEN;

    if (arena && pal_json_parse(arena, body, NULL, &request, NULL) == PAL_OK) {
        pal_json list = pal_json_find(request, "tools");

        sum = count_messages(encoding, api, request, arena);
        if (api == PAL_FORWARD_RESPONSES)
            sum += pal_json_raw(pal_json_find(request, "instructions")).len / BYTES_PER_TOKEN;
        if (pal_json_type_of(list) == PAL_JSON_ARRAY &&
                pal_tokens_count(encoding, pal_json_raw(list), &tools, NULL) == PAL_OK)
            sum += tools;
    }
    pal_arena_free(arena);
    return sum ? sum : 1;
}

uint64_t pal_forward_count_limit(pal_str body, uint64_t otherwise)
{
    pal_arena *arena = pal_arena_new(0);
    pal_json request;
    uint64_t limit = 0, choices = 1;

    if (arena && pal_json_parse(arena, body, NULL, &request, NULL) == PAL_OK) {
        if (!pal_json_u64(pal_json_find(request, "max_completion_tokens"), &limit) &&
                !pal_json_u64(pal_json_find(request, "max_output_tokens"), &limit))
            (void)pal_json_u64(pal_json_find(request, "max_tokens"), &limit);
        (void)pal_json_u64(pal_json_find(request, "n"), &choices);
    }
    pal_arena_free(arena);
    if (limit == 0 || limit > otherwise)
        limit = otherwise;
    return limit * (choices < 1 ? 1 : choices > 128 ? 128 : choices);
}

uint64_t pal_forward_count_output(const pal_encoding *encoding, pal_str text, uint64_t len)
{
    uint64_t tokens = 0;

    if (text.len == 0)
        return len / BYTES_PER_TOKEN;
    if (pal_tokens_count(encoding, text, &tokens, NULL) != PAL_OK)
        return len / BYTES_PER_TOKEN;
    return len > text.len ? (uint64_t)((double)tokens * (double)len / (double)text.len) : tokens;
}

pal_status pal_forward_ask_usage(pal_str body, pal_arena *arena, pal_str *out_body, pal_error *err)
{
    static const char *const options_name[] = {"stream_options", NULL};
    static const char *const usage_name[] = {"include_usage", NULL};
    pal_json request, options;
    pal_buf buf;
    pal_status status = pal_json_parse(arena, body, NULL, &request, err);

    *out_body = body;
    if (status != PAL_OK)
        return status;
    options = pal_json_find(request, "stream_options");
    if (pal_json_type_of(pal_json_find(request, "stream")) != PAL_JSON_TRUE ||
            pal_json_type_of(pal_json_find(options, "include_usage")) == PAL_JSON_TRUE)
        return PAL_OK;
    pal_buf_init(&buf, PAL_PROVIDER_REQUEST_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_member_put_others(&writer, request, options_name, NULL, arena);
    pal_json_name(&writer, "stream_options");
    pal_json_begin_object(&writer);
    if (pal_json_type_of(options) == PAL_JSON_OBJECT)
        pal_member_put_others(&writer, options, usage_name, NULL, arena);
    pal_put_flag(&writer, "include_usage", true);
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    status = pal_member_keep(&buf, arena, out_body, err);
    pal_buf_done(&buf);
    return status;
}
