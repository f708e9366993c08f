/* dialect.c - reads and writes messages in the format of any API, with one pair of functions. */
#include "palaver/dialect.h"

#include "base/buf.h"
#include "dialect/anthropic/anthropic.h"
#include "dialect/dialect_member.h"
#include "dialect/mistral/mistral_chat.h"
#include "dialect/native/native.h"
#include "dialect/openai/openai_chat.h"
#include "palaver/limits.h"

static const char *const names[] = {
        [PAL_DIALECT_NATIVE] = "native",
        [PAL_DIALECT_OPENAI_CHAT] = "openai",
        [PAL_DIALECT_ANTHROPIC] = "anthropic",
        [PAL_DIALECT_MISTRAL_CHAT] = "mistral",
};

#define NAMES_LEN (sizeof names / sizeof *names)

const char *pal_dialect_name(pal_dialect dialect)
{
    return (size_t)dialect < NAMES_LEN ? names[dialect] : "unknown";
}

bool pal_dialect_from_name(pal_str name, pal_dialect *out_dialect)
{
    for (size_t i = 0; i < NAMES_LEN; i++) {
        if (pal_str_is(name, names[i])) {
            *out_dialect = (pal_dialect)i;
            return true;
        }
    }
    return false;
}

static pal_status unknown(pal_error *err)
{
    return pal_error_set(err, PAL_INVALID, "unknown dialect");
}

/* ---- Reading ---- */

/* Returns the member "messages" of an object, or the object itself if it has no such member. */
static pal_json messages_in(pal_json value)
{
    pal_json messages = pal_json_find(value, "messages");
    return pal_json_type_of(messages) == PAL_JSON_ARRAY ? messages : value;
}

static pal_status read_native(pal_json value, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    bool is_array = pal_json_type_of(value) == PAL_JSON_ARRAY;
    size_t count = is_array ? pal_json_count(value) : 1, at = 0;
    pal_message *messages = pal_arena_array(arena, count ? count : 1, sizeof *messages);
    pal_status status = PAL_OK;
    pal_json one;
    if (!messages)
        return pal_arena_checked(arena, err);
    if (!is_array)
        status = pal_native_message_read(value, arena, messages, err);
    for (pal_json_iter iter = pal_json_each(value);
            is_array && status == PAL_OK && pal_json_next(&iter, NULL, &one); at++) {
        status = pal_native_message_read(one, arena, &messages[at], err);
        status = pal_member_within(err, status, "messages", at);
    }
    *out_messages = messages;
    *out_len = count;
    return status;
}

/* Mistral's reader accepts only an array. */
static pal_status read_mistral(pal_json value, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    pal_buf buf;
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_mistral_chat_read(value, arena, out_messages, out_len, err);
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    pal_buf_append_char(&buf, '[');
    pal_buf_append_str(&buf, pal_json_raw(value));
    pal_buf_append_char(&buf, ']');
    pal_status status = buf.failure ? pal_error_set(err, buf.failure, "the message is too long")
                                    : PAL_OK;
    pal_str text = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    if (status == PAL_OK)
        status = pal_arena_checked(arena, err);
    if (status == PAL_OK)
        status = pal_json_parse(arena, text, NULL, &value, err);
    return status == PAL_OK ? pal_mistral_chat_read(value, arena, out_messages, out_len, err)
                            : status;
}

pal_status pal_dialect_read(pal_dialect dialect, pal_str json, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err)
{
    pal_json value;
    pal_str text = pal_arena_copy(arena, json); /* a copy, because the messages refer to it */
    pal_status status = pal_arena_checked(arena, err);
    if (status == PAL_OK)
        status = pal_json_parse(arena, text, NULL, &value, err);
    if (status != PAL_OK)
        return status;
    switch (dialect) {
    case PAL_DIALECT_NATIVE:
        return read_native(messages_in(value), arena, out_messages, out_len, err);
    case PAL_DIALECT_OPENAI_CHAT:
        return pal_openai_chat_read(value, arena, out_messages, out_len, err);
    case PAL_DIALECT_ANTHROPIC:
        return pal_anthropic_read(value, arena, out_messages, out_len, err);
    case PAL_DIALECT_MISTRAL_CHAT:
        return read_mistral(messages_in(value), arena, out_messages, out_len, err);
    }
    return unknown(err);
}

/* ---- Writing ---- */

static pal_status write_native(const pal_message *messages, size_t messages_len, pal_arena *arena,
        pal_str *out_json, pal_error *err)
{
    pal_buf buf;
    pal_status status = PAL_OK;
    pal_buf_init(&buf, PAL_BATCH_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < messages_len; i++) {
        pal_str one = {0};
        status = pal_message_to_json(&messages[i], arena, &one, err);
        if (status != PAL_OK)
            goto out;
        pal_json_put_raw(&writer, one);
    }
    pal_json_end_array(&writer);
    if (buf.failure) {
        status = pal_error_set(err, buf.failure, "the messages are too long");
        goto out;
    }
    *out_json = pal_arena_copy(arena, pal_buf_str(&buf));
    status = pal_arena_checked(arena, err);
out:
    pal_buf_done(&buf);
    return status;
}

/* A request to Mistral's service has the same form as one to OpenAI. */
pal_status pal_dialect_write(pal_dialect dialect, const pal_message *messages, size_t messages_len,
        pal_arena *arena, pal_str *out_json, pal_error *err)
{
    switch (dialect) {
    case PAL_DIALECT_NATIVE:
        return write_native(messages, messages_len, arena, out_json, err);
    case PAL_DIALECT_OPENAI_CHAT:
    case PAL_DIALECT_MISTRAL_CHAT:
        return pal_openai_chat_write(messages, messages_len, arena, out_json, err);
    case PAL_DIALECT_ANTHROPIC:
        return pal_anthropic_write(messages, messages_len, arena, out_json, err);
    }
    return unknown(err);
}
