/* fuzz_picoclaw.c - any bytes as a line, a meta file and an older file of PicoClaw: nothing
 * crashes, and accepted input is written so that it is read back unchanged. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/buf.h"
#include "dialect/picoclaw/picoclaw.h"
#include "support/message_random.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) require((condition), #condition, __LINE__)

static void require(bool held, const char *text, int line)
{
    if (held)
        return;
    fprintf(stderr, "fuzz_picoclaw.c:%d: %s\n", line, text);
    abort();
}

static pal_arena *arena;

/* Line ends in the text can have become blanks in an extra member. */
static void check_message(const pal_message *message, pal_str text)
{
    pal_message again;
    pal_buf buf;
    pal_buf_init(&buf, SIZE_MAX / 2);
    pal_picoclaw_line_write(&buf, message);
    REQUIRE(!buf.failure);
    REQUIRE(!memchr(buf.data, '\n', buf.len));
    REQUIRE(pal_picoclaw_line_read(pal_buf_str(&buf), arena, &again, NULL) == PAL_OK);
    if (!memchr(text.data, '\n', text.len))
        REQUIRE(message_same(message, &again));
    pal_picoclaw_is_transient(message);
    pal_buf_done(&buf);
}

static void try_line(pal_str text)
{
    pal_message message;
    pal_error err = {PAL_OK, ""};
    pal_status status = pal_picoclaw_line_read(text, arena, &message, &err);
    if (status != PAL_OK)
        REQUIRE(err.status == status && err.message[0]);
    else
        check_message(&message, text);
}

static void try_meta(pal_str text)
{
    pal_picoclaw_meta meta, again;
    pal_buf first, second;
    if (pal_picoclaw_meta_read(text, arena, &meta, NULL) != PAL_OK)
        return;
    pal_buf_init(&first, SIZE_MAX / 2);
    pal_buf_init(&second, SIZE_MAX / 2);
    pal_picoclaw_meta_write(&first, &meta);
    REQUIRE(!first.failure);
    REQUIRE(pal_picoclaw_meta_read(pal_buf_str(&first), arena, &again, NULL) == PAL_OK);
    pal_picoclaw_meta_write(&second, &again);
    REQUIRE(pal_str_equal(pal_buf_str(&first), pal_buf_str(&second)));
    REQUIRE(pal_str_equal(meta.key, again.key) && pal_str_equal(meta.summary, again.summary));
    REQUIRE(meta.skip == again.skip && meta.count == again.count);
    REQUIRE(meta.created_at_ms == again.created_at_ms && meta.aliases_len == again.aliases_len);
    pal_buf_done(&first);
    pal_buf_done(&second);
}

static void try_legacy(pal_str text)
{
    pal_picoclaw_legacy legacy;
    if (pal_picoclaw_legacy_read(text, arena, &legacy, NULL) != PAL_OK)
        return;
    for (size_t i = 0; i < legacy.messages_len; i++)
        check_message(&legacy.messages[i], text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pal_str text = pal_str_make(size ? (const char *)data : "", size);
    if (!arena)
        REQUIRE((arena = pal_arena_new(0)) != NULL);
    pal_arena_reset(arena);
    try_line(text);
    try_meta(text);
    try_legacy(text);
    pal_picoclaw_is_main_alias(text);
    REQUIRE(pal_picoclaw_base(text, arena).len == text.len);
    return 0;
}
