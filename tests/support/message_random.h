/* message_random.h - random messages that a store accepts, from a seed, and a comparison of two
 * messages: for tests that check that a format loses nothing. */
#ifndef PAL_TESTS_MESSAGE_RANDOM_H
#define PAL_TESTS_MESSAGE_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include "palaver/message.h"

typedef struct message_random {
    uint64_t state; /* not 0 */
    pal_arena *arena;
} message_random;

static inline uint64_t random_next(message_random *random)
{
    random->state ^= random->state << 13;
    random->state ^= random->state >> 7;
    random->state ^= random->state << 17;
    return random->state * UINT64_C(0x2545f4914f6cdd1d);
}

/* 0 to bound - 1. */
static inline size_t random_below(message_random *random, size_t bound)
{
    return (size_t)((random_next(random) >> 32) % bound);
}

static inline pal_str random_text(message_random *random)
{
    static const char *const pieces[] = {"a", "Z9", " ", "\n", "\t", "\"", "\\", "/", "{\"x\":1}",
            "\xc3\xa9", "\xe6\xbc\xa2", "\xf0\x9f\x98\x80", "\x01", "\x7f", "\xe2\x80\xa8", "</b>",
            "\r\n", "[]", "null", "\xef\xbf\xbd"};
    char text[256];
    size_t len = 0, count = random_below(random, 12);
    for (size_t i = 0; i < count; i++) {
        const char *piece = pieces[random_below(random, sizeof(pieces) / sizeof(pieces[0]))];
        memcpy(text + len, piece, strlen(piece));
        len += strlen(piece);
    }
    if (random_below(random, 8) == 0)
        text[len++] = '\0';
    return pal_arena_copy(random->arena, pal_str_make(text, len));
}

static inline pal_str random_filled_text(message_random *random)
{
    pal_str text = random_text(random);
    return text.len ? text : pal_str_of("filled");
}

static inline pal_str random_bytes(message_random *random)
{
    char data[64];
    size_t len = 1 + random_below(random, sizeof(data) - 1);
    for (size_t i = 0; i < len; i++)
        data[i] = (char)random_next(random);
    return pal_arena_copy(random->arena, pal_str_make(data, len));
}

/* Mostly empty; never a name that Palaver uses. */
static inline pal_str random_extra(message_random *random)
{
    static const char *const extras[] = {"", "", "", "{\"x\":1}", "{\"x\":[1,2.50,{\"y\":null}]}",
            "{\"x_y\":\"\\u00e9\",\"z\":1e400}", "{\"x\":{}}", "{\"x\":1,\"x\":2}"};
    return pal_str_of(extras[random_below(random, sizeof(extras) / sizeof(extras[0]))]);
}

static inline pal_id random_id(message_random *random)
{
    pal_id id = {{0}};
    if (random_below(random, 3) == 0)
        return id;
    for (size_t i = 0; i < sizeof(id.bytes); i++)
        id.bytes[i] = (uint8_t)(1 + random_below(random, 255));
    return id;
}

static inline void random_parts(
        message_random *random, pal_part **out_parts, size_t *out_len, bool nested);

static inline void random_media(message_random *random, pal_part *part)
{
    part->media_type = pal_str_of(random_below(random, 2) ? "image/png" : "audio/wav");
    part->name = random_text(random);
    if (random_below(random, 2))
        part->url = pal_str_of("https://example.org/x?a=1&b=\"2\"");
    if (random_below(random, 2))
        part->blob = pal_str_of(
                "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    if (random_below(random, 2))
        part->data = random_bytes(random);
}

static inline void random_result(message_random *random, pal_part *part)
{
    part->call_id = random_filled_text(random);
    part->name = random_text(random);
    part->is_error = random_below(random, 2);
    if (random_below(random, 2))
        part->text = random_text(random);
    else
        random_parts(random, &part->parts, &part->parts_len, true);
}

static inline pal_part random_part(message_random *random, bool nested)
{
    pal_part part = {.kind = (pal_part_kind)(1 + random_below(random, 7))};
    if (nested && part.kind == PAL_PART_TOOL_RESULT)
        part.kind = PAL_PART_TEXT;
    if (part.kind == PAL_PART_TOOL_CALL) {
        part.call_id = random_filled_text(random);
        part.name = random_filled_text(random);
        part.arguments = random_text(random);
    } else if (part.kind == PAL_PART_TOOL_RESULT) {
        random_result(random, &part);
    } else if (part.kind == PAL_PART_IMAGE || part.kind == PAL_PART_FILE) {
        random_media(random, &part);
    } else {
        part.text = random_text(random);
    }
    if (part.kind == PAL_PART_REASONING) {
        part.signature = random_text(random);
        part.family = random_text(random);
    }
    part.extra = random_extra(random);
    return part;
}

static inline void random_parts(
        message_random *random, pal_part **out_parts, size_t *out_len, bool nested)
{
    size_t len = random_below(random, 4);
    pal_part *parts = len ? pal_arena_array(random->arena, len, sizeof(*parts)) : NULL;
    for (size_t i = 0; i < len; i++)
        parts[i] = random_part(random, nested);
    *out_parts = parts;
    *out_len = len;
}

static inline pal_message random_message(message_random *random)
{
    pal_message message = {.role = (pal_role)(1 + random_below(random, 4))};
    message.id = random_id(random);
    message.parent_id = random_id(random);
    message.seq = random_below(random, 2) ? random_next(random) : 0;
    random_parts(random, &message.parts, &message.parts_len, false);
    message.created_at = (int64_t)random_next(random) >> random_below(random, 40);
    message.model = random_text(random);
    message.has_usage = random_below(random, 2);
    if (message.has_usage) {
        message.usage.input = random_next(random) >> random_below(random, 64);
        message.usage.cache_read = random_below(random, 3);
        message.usage.cache_write = random_below(random, 3);
        message.usage.output = random_below(random, 3);
        message.usage.reasoning = random_next(random);
    }
    message.flags = (uint32_t)random_below(random, 32);
    message.tokens = (uint32_t)random_below(random, 3);
    message.client_id = random_text(random);
    if (memchr(message.client_id.data, 0, message.client_id.len))
        message.client_id.len--; /* it is the last character, which no name contains */
    message.extra = random_extra(random);
    return message;
}

static inline bool message_parts_same(
        const pal_part *a, size_t a_len, const pal_part *b, size_t b_len);

/* Prints the member that differs, so that a failure can be understood. */
#define SAME(condition) ((condition) || (printf("# differs: %s\n", #condition), false))

static inline bool message_part_same(const pal_part *a, const pal_part *b)
{
    return SAME(a->kind == b->kind) && SAME(pal_str_equal(a->text, b->text)) &&
            SAME(pal_str_equal(a->call_id, b->call_id)) && SAME(pal_str_equal(a->name, b->name)) &&
            SAME(pal_str_equal(a->arguments, b->arguments)) &&
            SAME(pal_str_equal(a->signature, b->signature)) &&
            SAME(pal_str_equal(a->family, b->family)) &&
            SAME(pal_str_equal(a->media_type, b->media_type)) &&
            SAME(pal_str_equal(a->url, b->url)) && SAME(pal_str_equal(a->blob, b->blob)) &&
            SAME(pal_str_equal(a->data, b->data)) && SAME(a->is_error == b->is_error) &&
            SAME(pal_str_equal(a->extra, b->extra)) &&
            message_parts_same(a->parts, a->parts_len, b->parts, b->parts_len);
}

static inline bool message_parts_same(
        const pal_part *a, size_t a_len, const pal_part *b, size_t b_len)
{
    bool same = SAME(a_len == b_len);
    for (size_t i = 0; same && i < a_len; i++)
        same = message_part_same(&a[i], &b[i]);
    return same;
}

/* The members that the body keeps. */
static inline bool message_content_same(const pal_message *a, const pal_message *b)
{
    return message_parts_same(a->parts, a->parts_len, b->parts, b->parts_len) &&
            SAME(pal_id_equal(a->parent_id, b->parent_id)) &&
            SAME(pal_str_equal(a->model, b->model)) && SAME(a->has_usage == b->has_usage) &&
            SAME(memcmp(&a->usage, &b->usage, sizeof(a->usage)) == 0) &&
            SAME(pal_str_equal(a->extra, b->extra));
}

static inline bool message_same(const pal_message *a, const pal_message *b)
{
    return message_content_same(a, b) && SAME(pal_id_equal(a->id, b->id)) &&
            SAME(a->seq == b->seq) && SAME(a->role == b->role) &&
            SAME(a->created_at == b->created_at) && SAME(a->flags == b->flags) &&
            SAME(a->tokens == b->tokens) && SAME(pal_str_equal(a->client_id, b->client_id));
}

#endif
