/* history_random.h - random histories from a seed: conversations with tools, parallel calls, images
 * and reasoning of several models. Then the histories are damaged: crashes, truncations,
 * duplicated, lost and moved messages, and parts without any sense. */
#ifndef PAL_TESTS_HISTORY_RANDOM_H
#define PAL_TESTS_HISTORY_RANDOM_H

#include "support/message_random.h"

#define HISTORY_MAX 160
#define HISTORY_FAMILIES 3

typedef struct history_random {
    message_random *random;
    pal_message messages[HISTORY_MAX];
    size_t len;
    size_t calls; /* created so far */
} history_random;

static inline pal_str history_family(message_random *random)
{
    static const char *const families[HISTORY_FAMILIES + 1] = {"anthropic", "openai", "other", ""};
    return pal_str_of(families[random_below(random, HISTORY_FAMILIES + 1)]);
}

static inline pal_str history_number(message_random *random, const char *format, size_t number)
{
    char text[64];
    int len = snprintf(text, sizeof text, format, number);
    return pal_arena_copy(random->arena, pal_str_make(text, (size_t)len));
}

/* Mostly ids as providers create them; some are repeated, some are garbage. */
static inline pal_str history_call_id(history_random *history)
{
    static const char *const garbage[] = {"", "a b", "\xff\xfe", "x\n", "functions.ls:0", "null",
            "0123456789012345678901234567890123456789x",
            "01234567890123456789012345678901234567890123456789012345678901234", "call_1",
            "\xe6\xbc\xa2", "abcDEF123"};
    message_random *random = history->random;
    size_t number = history->calls++;
    switch (random_below(random, 8)) {
    case 0:
        return pal_str_of(garbage[random_below(random, sizeof(garbage) / sizeof(garbage[0]))]);
    case 1:
        return history_number(random, "call_%zu", random_below(random, 3));
    case 2:
        return history_number(random, "c%08zu", number);
    default:
        return history_number(random, "call_%zu", number);
    }
}

#define HISTORY_HEX "00112233445566778899aabbccddeeff"

static inline pal_part history_image(message_random *random)
{
    static const char *const types[] = {
            "image/png", "image/jpeg", "image/webp", "image/jpg", "image/tiff", ""};
    pal_part part = {.kind = PAL_PART_IMAGE};
    part.media_type = pal_str_of(types[random_below(random, sizeof(types) / sizeof(types[0]))]);
    if (random_below(random, 4) == 0) {
        part.blob = pal_str_of("sha256:" HISTORY_HEX HISTORY_HEX);
        part.bytes = random_below(random, random_below(random, 2) ? 100 : 20000);
    } else if (random_below(random, 4)) {
        part.data = random_bytes(random);
    } else if (random_below(random, 3)) {
        part.url = pal_str_of("https://example.org/a.png");
    }
    return part;
}

static inline pal_part history_text(message_random *random)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = random_text(random)};
    if (random_below(random, 4))
        part.text = pal_str_of("The quick brown fox jumps over the lazy dog.");
    else if (random_below(random, 8) == 0)
        part.text = pal_str_of("\xff\xc0\x80 broken \xed\xa0\x80");
    return part;
}

static inline pal_message *history_add(
        history_random *history, pal_role role, const pal_part *parts, size_t parts_len)
{
    static pal_message rest;
    if (history->len == HISTORY_MAX)
        return &rest;
    pal_message *message = &history->messages[history->len++];
    *message = (pal_message){.role = role, .parts_len = parts_len};
    message->parts = pal_arena_array(history->random->arena, parts_len + 1, sizeof(*parts));
    if (message->parts && parts_len)
        memcpy(message->parts, parts, parts_len * sizeof(*parts));
    return message;
}

/* The first part numbers the user messages, so that each can be found again. */
static inline void history_user(history_random *history)
{
    message_random *random = history->random;
    pal_part parts[4];
    size_t len = 1 + random_below(random, 3);
    for (size_t i = 0; i < len; i++)
        parts[i] = random_below(random, 4) ? history_text(random) : history_image(random);
    parts[0] = (pal_part){
            .kind = PAL_PART_TEXT, .text = history_number(random, "question %zu", history->len)};
    history_add(history, PAL_ROLE_USER, parts, len);
}

static inline pal_part history_result(message_random *random, pal_str call_id)
{
    pal_part part = {.kind = PAL_PART_TOOL_RESULT, .call_id = call_id, .name = pal_str_of("ls")};
    part.is_error = random_below(random, 6) == 0;
    part.text = history_text(random).text;
    if (random_below(random, 4))
        return part;
    part.parts_len = random_below(random, 3);
    part.parts = pal_arena_array(random->arena, part.parts_len + 1, sizeof(*part.parts));
    for (size_t i = 0; part.parts && i < part.parts_len; i++)
        part.parts[i] = random_below(random, 2) ? history_text(random) : history_image(random);
    return part;
}

static inline pal_part history_call(history_random *history)
{
    static const char *const names[] = {"ls", "read_file", "mcp.fs/ls", "", "\xe6\xbc\xa2"};
    static const char *const arguments[] = {
            "{\"path\":\".\"}", "{}", "", "[1]", "{\"a\":", "\xff", "{\"a\":\"\\ud800\"}", "null"};
    message_random *random = history->random;
    pal_part part = {.kind = PAL_PART_TOOL_CALL, .call_id = history_call_id(history)};
    bool is_odd = random_below(random, 6) == 0;
    part.name = pal_str_of(names[is_odd ? random_below(random, 5) : 0]);
    part.arguments = pal_str_of(arguments[is_odd ? random_below(random, 8) : 0]);
    return part;
}

static inline pal_part history_reasoning(message_random *random)
{
    pal_part part = {.kind = PAL_PART_REASONING, .text = pal_str_of("Let me think.")};
    part.family = history_family(random);
    if (random_below(random, 2))
        part.signature = pal_str_of("c2lnbmVk");
    return part;
}

/* An assistant message with up to four parallel calls, and their results. Any of it can be missing,
 * as after a crash. */
static inline void history_step(history_random *history)
{
    message_random *random = history->random;
    pal_part parts[8], results[4];
    size_t len = 0, calls = random_below(random, 5);
    bool apart = random_below(random, 6) == 0, together = random_below(random, 4) == 0;
    if (random_below(random, 3) == 0)
        parts[len++] = history_reasoning(random);
    if (random_below(random, 2) || calls == 0)
        parts[len++] = history_text(random);
    for (size_t i = 0; i < calls; i++) {
        parts[len] = history_call(history);
        results[i] = history_result(random, parts[len++].call_id);
        if (apart)
            history_add(history, PAL_ROLE_ASSISTANT, parts, len);
        len = apart ? 0 : len;
    }
    if (len)
        history_add(history, PAL_ROLE_ASSISTANT, parts, len);
    if (random_below(random, 12) == 0 && calls)
        calls--;
    if (together && calls)
        history_add(history, PAL_ROLE_TOOL, results, calls);
    for (size_t i = 0; i < calls && !together; i++)
        history_add(history, PAL_ROLE_TOOL, &results[i], 1);
}

/* ---- What happens to it ---- */

static inline void history_remove(history_random *history, size_t at, size_t count)
{
    memmove(&history->messages[at], &history->messages[at + count],
            (history->len - at - count) * sizeof(pal_message));
    history->len -= count;
}

static inline void history_damage(history_random *history)
{
    message_random *random = history->random;
    if (history->len < 2)
        return;
    size_t at = random_below(random, history->len), other = random_below(random, history->len);
    pal_message kept = history->messages[at];
    switch (random_below(random, 8)) {
    case 0: /* lost */
        history_remove(history, at, 1);
        break;
    case 1: /* there twice */
        if (history->len < HISTORY_MAX)
            history->messages[history->len++] = kept;
        break;
    case 2: /* in another place */
        history->messages[at] = history->messages[other];
        history->messages[other] = kept;
        break;
    case 3: /* of another conversation */
        history->messages[at].role = (pal_role)random_below(random, 5);
        break;
    case 4: /* without its end */
        history->messages[at].parts_len = random_below(random, kept.parts_len + 1);
        break;
    case 5: /* the beginning is not loaded */
        history_remove(history, 0, at);
        break;
    case 6: /* rolled back, or crashed */
        history->len = at + 1;
        break;
    case 7: /* anything */
        history->messages[at] = random_message(random);
        break;
    }
}

/* Fills a history; one in three is not damaged. Messages get ascending seqs. */
static inline void history_make(history_random *history, message_random *random)
{
    size_t turns = random_below(random, 6);
    history->random = random;
    history->len = history->calls = 0;
    if (random_below(random, 3) == 0) {
        pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("Be brief.")};
        history_add(history, PAL_ROLE_SYSTEM, &part, 1);
    }
    for (size_t i = 0; i <= turns; i++) {
        history_user(history);
        for (size_t steps = random_below(random, 4); steps > 0; steps--)
            history_step(history);
        if (random_below(random, 8) == 0) {
            pal_part part = history_text(random);
            history_add(history, PAL_ROLE_SYSTEM, &part, 1);
        }
    }
    if (random_below(random, 3)) {
        for (size_t damages = 1 + random_below(random, 5); damages > 0; damages--)
            history_damage(history);
    }
    for (size_t i = 0; i < history->len; i++)
        history->messages[i].seq = i + 1;
}

#endif
