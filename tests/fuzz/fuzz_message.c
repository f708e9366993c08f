/* fuzz_message.c - any bytes as a message, as chat completions, as items and as a transcript:
 * nothing crashes, accepted input can be stored, and it is read back unchanged. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/buf.h"
#include "dialect/native/native.h"
#include "dialect/openai/openai_chat.h"
#include "dialect/openai/openai_items.h"
#include "dialect/transcript/transcript.h"
#include "support/dialect_read.h"
#include "support/message_random.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) require((condition), #condition, __LINE__)

static void require(bool held, const char *text, int line)
{
    if (held)
        return;
    fprintf(stderr, "fuzz_message.c:%d: %s\n", line, text);
    abort();
}

static pal_arena *arena;

/* Input just below the reader's depth limit can exceed the limit of stored messages. */
static bool is_too_deep(const pal_message *message)
{
    return pal_native_message_check_form(message, NULL) == PAL_LIMIT;
}

static void clear_data(pal_part *parts, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        parts[i].data = pal_str_make(NULL, 0);
        clear_data(parts[i].parts, parts[i].parts_len);
    }
}

static void check_stored(pal_message message)
{
    pal_message again = {0};
    pal_buf buf;
    pal_buf_init(&buf, SIZE_MAX / 2);
    pal_native_body_write(&buf, &message);
    REQUIRE(!buf.failure);
    REQUIRE(pal_native_body_read(pal_buf_str(&buf), arena, &again, NULL) == PAL_OK);
    clear_data(message.parts, message.parts_len);
    REQUIRE(message_content_same(&message, &again));
    pal_buf_done(&buf);
}

static void check_message(const pal_message *message)
{
    pal_str json;
    pal_message again = {0};
    if (is_too_deep(message))
        return;
    REQUIRE(pal_message_to_json(message, arena, &json, NULL) == PAL_OK);
    REQUIRE(pal_message_from_json(json, arena, &again, NULL) == PAL_OK);
    REQUIRE(message_same(message, &again));
    check_stored(again);
}

/* Written, read and written again, the output is the same. */
static void check_openai(const pal_message *messages, size_t len)
{
    pal_message *again;
    size_t again_len;
    pal_str first, second;
    REQUIRE(pal_openai_chat_write(messages, len, arena, &first, NULL) == PAL_OK);
    pal_status status = dialect_read(pal_openai_chat_read, first, arena, &again, &again_len, NULL);
    if (status == PAL_LIMIT)
        return; /* data that a message keeps can nest deeper once it is inside of another message */
    REQUIRE(status == PAL_OK);
    REQUIRE(pal_openai_chat_write(again, again_len, arena, &second, NULL) == PAL_OK);
    REQUIRE(pal_str_equal(first, second));
}

static void try_native(pal_str text)
{
    pal_message message;
    pal_session session;
    pal_str json;
    pal_error err = {PAL_OK, ""};
    pal_status status = pal_message_from_json(text, arena, &message, &err);
    if (status == PAL_OK && message.role != PAL_ROLE_NONE)
        check_openai(&message, 1);
    if (status == PAL_OK)
        check_message(&message);
    else
        REQUIRE(err.status == status && err.message[0]);
    if (pal_session_from_json(text, arena, &session, NULL) == PAL_OK &&
            pal_session_to_json(&session, arena, &json, NULL) == PAL_OK)
        REQUIRE(pal_session_from_json(json, arena, &session, NULL) == PAL_OK);
}

static void try_openai(pal_str text)
{
    pal_message *messages;
    size_t len;
    if (dialect_read(pal_openai_chat_read, text, arena, &messages, &len, NULL) != PAL_OK)
        return;
    check_openai(messages, len);
    for (size_t i = 0; i < len; i++)
        check_message(&messages[i]);
}

static pal_str write_items(const pal_message *messages, size_t len)
{
    pal_str json;
    pal_buf buf;
    pal_buf_init(&buf, SIZE_MAX / 2);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < len; i++) {
        for (size_t k = 0; k < pal_openai_items_count(&messages[i]); k++)
            REQUIRE(pal_openai_item_put(&writer, &messages[i], k, NULL, "completed", NULL) == PAL_OK);
    }
    pal_json_end_array(&writer);
    REQUIRE(!buf.failure);
    json = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return json;
}

static pal_status read_items(
        pal_json value, bool keeps_all, pal_message **out_messages, size_t *out_len)
{
    if (keeps_all)
        return pal_openai_items_read_all(value, "items", arena, out_messages, out_len, NULL);
    return pal_openai_items_read(value, "items", NULL, NULL, arena, out_messages, out_len, NULL);
}

/* Written, read and written again, the output is the same, with its ids, which are empty here. */
static void try_items(pal_str text, bool keeps_all)
{
    pal_message *messages;
    size_t len;
    pal_json value;
    if (pal_json_parse(arena, text, NULL, &value, NULL) != PAL_OK ||
            read_items(value, keeps_all, &messages, &len) != PAL_OK)
        return;
    for (size_t i = 0; i < len; i++)
        check_message(&messages[i]);
    pal_str first = write_items(messages, len);
    REQUIRE(pal_json_parse(arena, first, NULL, &value, NULL) == PAL_OK);
    REQUIRE(read_items(value, keeps_all, &messages, &len) == PAL_OK);
    REQUIRE(pal_str_equal(first, write_items(messages, len)));
}

static void check_items(pal_status status, const pal_transcript_items *items)
{
    REQUIRE(status == PAL_OK);
    for (size_t i = 0; i < items->len; i++) {
        if (items->items[i].kind == PAL_ENTRY_MESSAGE)
            check_message(&items->items[i].u.message);
    }
}

static void try_transcript(pal_str text)
{
    pal_transcript_items items;
    pal_transcript *transcript = pal_transcript_open(PAL_TRANSCRIPT_AUTO);
    REQUIRE(transcript != NULL);
    for (size_t at = 0; at < text.len;) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        size_t len = end ? (size_t)(end - text.data) + 1 - at : text.len - at;
        pal_str line = pal_str_make(text.data + at, len);
        check_items(pal_transcript_feed(transcript, line, arena, &items, NULL), &items);
        at += len;
    }
    check_items(pal_transcript_finish(transcript, arena, &items, NULL), &items);
    pal_transcript_close(transcript);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pal_str text = pal_str_make((const char *)data, size);
    if (!arena)
        REQUIRE((arena = pal_arena_new(0)) != NULL);
    pal_arena_reset(arena);
    try_native(text);
    try_openai(text);
    try_items(text, false);
    try_items(text, true);
    try_transcript(text);
    return 0;
}
