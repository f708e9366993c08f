/* context_history.h - short notations for histories in tests of the context, and the messages that
 * a plan sends, as a text to compare. */
#ifndef PAL_TESTS_CONTEXT_HISTORY_H
#define PAL_TESTS_CONTEXT_HISTORY_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "palaver/context.h"
#include "support/tap.h"

#define HISTORY_MAX 8192

typedef struct history {
    pal_arena *arena;
    pal_message messages[HISTORY_MAX];
    size_t len;
} history;

static inline pal_str history_text(history *h, char letter, size_t len)
{
    char *text = pal_arena_alloc(h->arena, len + 1);
    if (text)
        memset(text, letter, len);
    return pal_str_make(text, text ? len : 0);
}

static inline pal_message *history_add(history *h, pal_role role, size_t parts_len)
{
    if (h->len == HISTORY_MAX) {
        printf("# a history of more than %d messages\n", HISTORY_MAX);
        exit(1);
    }
    pal_message *message = &h->messages[h->len];
    *message = (pal_message){.role = role, .seq = ++h->len, .parts_len = parts_len};
    message->parts = pal_arena_array(h->arena, parts_len, sizeof(*message->parts));
    return message;
}

/* A text of `len` letters that counts `tokens`; 0 means that it is counted. */
static inline pal_message *history_say(history *h, pal_role role, size_t len, uint32_t tokens)
{
    pal_message *message = history_add(h, role, 1);
    message->parts[0] = (pal_part){
            .kind = PAL_PART_TEXT, .text = history_text(h, role == PAL_ROLE_USER ? 'u' : 'a', len)};
    message->tokens = tokens;
    return message;
}

static inline pal_message *history_call(history *h, const char *id)
{
    pal_message *message = history_add(h, PAL_ROLE_ASSISTANT, 1);
    message->parts[0] = (pal_part){.kind = PAL_PART_TOOL_CALL,
            .call_id = pal_str_of(id),
            .name = pal_str_of("read"),
            .arguments = pal_str_of("{}")};
    return message;
}

static inline pal_message *history_result(history *h, const char *id, size_t len)
{
    pal_message *message = history_add(h, PAL_ROLE_TOOL, 1);
    message->parts[0] = (pal_part){.kind = PAL_PART_TOOL_RESULT,
            .call_id = pal_str_of(id),
            .name = pal_str_of("read"),
            .text = history_text(h, 'r', len)};
    return message;
}

static inline pal_message *history_image(history *h, size_t bytes)
{
    pal_message *message = history_add(h, PAL_ROLE_USER, 2);
    message->parts[0] = (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_of("look")};
    message->parts[1] = (pal_part){.kind = PAL_PART_IMAGE,
            .media_type = pal_str_of("image/png"),
            .data = history_text(h, 'i', bytes)};
    return message;
}

/* Adds turns with a question and an answer of that many tokens each. */
static inline void history_turns(history *h, size_t turns, uint32_t tokens)
{
    for (size_t i = 0; i < turns; i++) {
        history_say(h, PAL_ROLE_USER, 8, tokens);
        history_say(h, PAL_ROLE_ASSISTANT, 8, tokens);
    }
}

/* Adds turns with a tool output of that many letters. */
static inline void history_call_turns(history *h, size_t turns, size_t len)
{
    char id[16];
    for (size_t i = 0; i < turns; i++) {
        snprintf(id, sizeof id, "c%zu", h->len);
        pal_str kept = pal_arena_copy(h->arena, pal_str_of(id));
        history_say(h, PAL_ROLE_USER, 8, 0);
        history_call(h, kept.data);
        history_result(h, kept.data, len);
        history_say(h, PAL_ROLE_ASSISTANT, 8, 0);
    }
}

static inline pal_context_input history_input(history *h)
{
    return (pal_context_input){.messages = h->messages, .messages_len = h->len};
}

static inline pal_plan history_plan(history *h, const pal_context_input *input)
{
    pal_plan plan = {0};
    pal_error err = {PAL_OK, ""};
    if (!CHECK_STATUS(pal_context_plan(input, h->arena, &plan, &err), PAL_OK, &err))
        printf("# %s\n", err.message);
    return plan;
}

/* "sys tools sum sum note 3 4 5": the seq of each message; "made" for messages without a seq. */
static inline const char *plan_sent(const pal_plan *plan)
{
    static const char *const names[] = {"?", "sys", "tools", "sum", "note", "made", "range"};
    static char text[1 << 16];
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < plan->items_len && len < sizeof(text) - 32; i++) {
        const pal_plan_item *item = &plan->items[i];
        if (item->hash == 0)
            continue;
        if (len)
            text[len++] = ' ';
        if (item->kind == PAL_PLAN_ITEM_MESSAGE && item->seq)
            len += (size_t)snprintf(text + len, 32, "%" PRIu64, item->seq);
        else
            len += (size_t)snprintf(text + len, 32, "%s", names[item->kind]);
    }
    return text;
}

static inline bool plan_sends(const pal_plan *plan, const char *wanted)
{
    const char *sent = plan_sent(plan);
    if (strcmp(sent, wanted) == 0)
        return true;
    printf("# sends '%s', not '%s' (%s: %.*s %s)\n", sent, wanted,
            pal_plan_action_name(plan->action), PAL_STR_ARG(plan->reason), plan->refusal.message);
    return false;
}

static inline const pal_plan_item *plan_item(const pal_plan *plan, uint64_t seq)
{
    for (size_t i = 0; i < plan->items_len; i++) {
        const pal_plan_item *item = &plan->items[i];
        if (item->kind == PAL_PLAN_ITEM_MESSAGE && item->seq == seq)
            return item;
    }
    return NULL;
}

static inline pal_str plan_text(const pal_plan_item *item)
{
    return item && item->message && item->message->parts_len ? item->message->parts[0].text
                                                             : pal_str_make(NULL, 0);
}

static inline pal_context_last history_last(history *h, const pal_plan *plan)
{
    uint64_t *hashes = pal_arena_array(h->arena, plan->items_len, sizeof(*hashes));
    uint64_t *tokens = pal_arena_array(h->arena, plan->items_len, sizeof(*tokens));
    pal_context_last last = {.hashes = hashes, .tokens = tokens, .first_seq = plan->first_seq};
    for (size_t i = 0; i < plan->items_len; i++) {
        hashes[last.len] = plan->items[i].hash;
        tokens[last.len] = plan->items[i].tokens;
        last.len += plan->items[i].hash != 0;
    }
    return last;
}

static inline bool text_has(pal_str text, const char *part)
{
    return memmem(text.data, text.len, part, strlen(part)) != NULL;
}

#endif
