/* provider_anthropic_read.c - reads the answers of Anthropic's Messages API.
 *
 * A stream consists of a message that starts, blocks that start, grow and stop, and changes of the
 * message. Token counts are cumulative, so the last ones replace the others. The signature of a
 * block of thinking is reported when the block is complete. A block that is completely opaque is
 * reported in its place as JSON, and is sent back byte for byte. On the loop. */
#include "dialect/anthropic/anthropic.h"
#include "provider/provider_reader.h"

static pal_str family(void)
{
    return pal_str_of(PAL_ANTHROPIC_FAMILY);
}

/* ---- Facts ---- */

static void replace(pal_json usage, const char *name, uint64_t *out)
{
    pal_answer_number(pal_json_find(usage, name), out);
}

static void read_usage(pal_answer *answer, pal_json usage)
{
    pal_usage *out = &answer->end.usage;
    if (pal_json_type_of(usage) != PAL_JSON_OBJECT)
        return;
    answer->end.has_usage = true;
    replace(usage, "input_tokens", &out->input);
    replace(usage, "cache_read_input_tokens", &out->cache_read);
    replace(usage, "cache_creation_input_tokens", &out->cache_write);
    replace(usage, "output_tokens", &out->output);
    replace(pal_json_find(usage, "output_tokens_details"), "thinking_tokens", &out->reasoning);
}

static void read_facts(pal_answer *answer, pal_json message)
{
    pal_answer_learn(&answer->request_id, pal_answer_member(answer, message, "id"));
    pal_answer_learn(&answer->model, pal_answer_member(answer, message, "model"));
    read_usage(answer, pal_json_find(message, "usage"));
}

/* ---- Blocks ---- */

static bool is_type(pal_json object, const char *type)
{
    return pal_json_string_is(pal_json_find(object, "type"), type);
}

static int64_t key_of(pal_json value)
{
    uint64_t number;
    bool has_number = pal_answer_number(pal_json_find(value, "index"), &number);
    return has_number && number <= INT32_MAX ? (int64_t)number : -1;
}

/* A stream begins a call with {} as its input and sends the real input in pieces. */
static void start_call(pal_answer *answer, int64_t key, pal_json block, bool is_whole)
{
    pal_json input = pal_json_find(block, "input");
    uint32_t index = pal_answer_call_of(answer, key,
            pal_answer_member(answer, block, "id"), pal_answer_member(answer, block, "name"));
    if (pal_json_type_of(input) == PAL_JSON_OBJECT && (is_whole || pal_json_count(input)))
        pal_answer_arguments(answer, index, pal_json_raw(input));
}

static void start_block(pal_answer *answer, int64_t key, pal_json block, bool is_whole)
{
    pal_buf_clear(&answer->signature);
    if (is_type(block, "text")) {
        pal_answer_text(answer, pal_answer_member(answer, block, "text"));
    } else if (is_type(block, "thinking")) {
        pal_answer_reasoning(answer, pal_answer_member(answer, block, "thinking"));
        pal_buf_append_str(&answer->signature, pal_answer_member(answer, block, "signature"));
    } else if (is_type(block, "redacted_thinking")) {
        pal_answer_signature(answer, pal_json_raw(block), family());
    } else if (is_type(block, "tool_use")) {
        start_call(answer, key, block, is_whole);
    }
}

static void grow_block(pal_answer *answer, int64_t key, pal_json delta)
{
    if (is_type(delta, "text_delta")) {
        pal_answer_text(answer, pal_answer_member(answer, delta, "text"));
    } else if (is_type(delta, "thinking_delta")) {
        pal_answer_reasoning(answer, pal_answer_member(answer, delta, "thinking"));
    } else if (is_type(delta, "signature_delta")) {
        pal_buf_append_str(&answer->signature, pal_answer_member(answer, delta, "signature"));
    } else if (is_type(delta, "input_json_delta")) {
        pal_str none = {0};
        uint32_t index = pal_answer_call_of(answer, key, none, none);
        pal_answer_arguments(
                answer, index, pal_answer_member(answer, delta, "partial_json"));
    }
}

static void stop_block(pal_answer *answer)
{
    if (answer->signature.failure)
        pal_answer_fail(answer,
                answer->signature.failure == PAL_LIMIT ? PAL_PROVIDER : PAL_NO_MEMORY,
                "the signature of a reasoning block is too long, or there is no memory");
    pal_answer_signature(answer, pal_buf_str(&answer->signature), family());
    pal_buf_clear(&answer->signature);
}

/* ---- Events ---- */

static bool read_error(pal_answer *answer, pal_json value)
{
    if (!is_type(value, "error"))
        return false;
    pal_answer_error_value(answer, value);
    return true;
}

static void anthropic_event(pal_answer *answer, pal_str name, pal_json value)
{
    (void)name; /* the data contains the event's type too */
    if (read_error(answer, value))
        return;
    if (is_type(value, "message_start")) {
        read_facts(answer, pal_json_find(value, "message"));
    } else if (is_type(value, "content_block_start")) {
        start_block(answer, key_of(value), pal_json_find(value, "content_block"), false);
    } else if (is_type(value, "content_block_delta")) {
        grow_block(answer, key_of(value), pal_json_find(value, "delta"));
    } else if (is_type(value, "content_block_stop")) {
        stop_block(answer);
    } else if (is_type(value, "message_delta")) {
        pal_json delta = pal_json_find(value, "delta");
        read_usage(answer, pal_json_find(value, "usage"));
        pal_answer_finish(answer, pal_answer_member(answer, delta, "stop_reason"));
    } else if (is_type(value, "message_stop")) {
        answer->is_done = true;
    }
}

static void anthropic_whole(pal_answer *answer, pal_json value)
{
    pal_json block, content = pal_json_find(value, "content");
    if (read_error(answer, value))
        return;
    if (pal_json_type_of(content) != PAL_JSON_ARRAY) {
        pal_answer_fail(answer, PAL_PROVIDER, "the answer has no 'content'");
        return;
    }
    int64_t key = 0;
    read_facts(answer, value);
    for (pal_json_iter iter = pal_json_each(content); pal_json_next(&iter, NULL, &block); key++) {
        start_block(answer, key, block, true);
        stop_block(answer);
    }
    pal_answer_finish(answer, pal_answer_member(answer, value, "stop_reason"));
}

const pal_reader_kind pal_reader_anthropic = {.event = anthropic_event, .whole = anthropic_whole};

/* ---- Passing on ---- */

/* Keeps the texts of a block or of its delta. Each has at most one of these members. */
static void keep_block(pal_answer *answer, pal_json block)
{
    static const char *const names[] = {"text", "thinking", "name", "partial_json"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        pal_str text = pal_answer_member(answer, block, names[i]);
        if (text.len)
            pal_answer_keep(answer, text);
    }
}

static void passing_event(pal_answer *answer, pal_str name, pal_json value)
{
    (void)name;
    if (read_error(answer, value))
        return;
    if (is_type(value, "content_block_delta"))
        keep_block(answer, pal_json_find(value, "delta"));
    else if (is_type(value, "content_block_start"))
        keep_block(answer, pal_json_find(value, "content_block"));
    else if (is_type(value, "message_start"))
        read_facts(answer, pal_json_find(value, "message"));
    else if (is_type(value, "message_delta"))
        read_usage(answer, pal_json_find(value, "usage"));
    else if (is_type(value, "message_stop"))
        answer->is_done = true;
}

static void passing_whole(pal_answer *answer, pal_json value)
{
    pal_json block, content = pal_json_find(value, "content");
    if (read_error(answer, value))
        return;
    read_facts(answer, value);
    for (pal_json_iter iter = pal_json_each(content); pal_json_next(&iter, NULL, &block);) {
        keep_block(answer, block);
        pal_answer_keep(answer, pal_json_raw(pal_json_find(block, "input")));
    }
}

/* The text of a skipped event is estimated by its length. */
static void passing_skip(pal_answer *answer, pal_str data)
{
    answer->kept_len += data.len;
}

const pal_reader_kind pal_reader_anthropic_passing = {
        .event = passing_event, .whole = passing_whole, .skip = passing_skip};
