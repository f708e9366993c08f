/* repair_picoclaw.c - sends a history as PicoClaw does: it drops messages instead of
 * repairing them.
 *
 * System messages of the history are dropped; the first one is created for each request. An
 * assistant message with calls must follow a user or a tool, and all its results must follow it
 * directly; otherwise it is dropped together with them. Results without a call, or before it, are
 * dropped. Texts are not changed. */
#include "context/repair/repair.h"
#include "dialect/dialect_part.h"

typedef struct history {
    const pal_message **messages; /* the messages that are left after the first pass; in the
                                     scratch arena */
    size_t len;
} history;

static bool is_calling(const pal_message *message)
{
    return message->role == PAL_ROLE_ASSISTANT && pal_part_is_in(message, PAL_PART_TOOL_CALL);
}

static void drop(pal_repair_work *work, const pal_message *message, const char *reason)
{
    pal_repair_line(work, message->seq, "%s", reason);
    if (work->lines_len)
        work->lines[work->lines_len - 1].dropped = true;
}

/* Returns whether the message was created for this request and is not part of the history. */
static bool is_ours(const pal_message *message)
{
    return message->seq == 0 && message->flags & PAL_MESSAGE_FLAG_SYNTHETIC;
}

/* First pass: returns why the message before it makes this message invalid; NULL if it stays. */
static const char *reason_to_drop(const pal_message *message, pal_role last, bool in_round)
{
    if (message->role <= PAL_ROLE_NONE || message->role > PAL_ROLE_TOOL)
        return "message without a role left out";
    if (message->role == PAL_ROLE_SYSTEM && !is_ours(message))
        return "system message of the history left out";
    if (message->role == PAL_ROLE_TOOL && !in_round)
        return "orphan result: no call before it";
    if (is_calling(message) && last != PAL_ROLE_USER && last != PAL_ROLE_TOOL)
        return "calls that follow neither a user nor a tool left out";
    return NULL;
}

static void keep_followers(
        pal_repair_work *work, const pal_message *messages, size_t messages_len, history *left)
{
    pal_role last = PAL_ROLE_NONE;
    bool in_round = false; /* only tool messages since the last message with calls */
    for (size_t i = 0; i < messages_len; i++) {
        const char *reason = reason_to_drop(&messages[i], last, in_round);
        if (reason) {
            drop(work, &messages[i], reason);
            continue;
        }
        left->messages[left->len++] = &messages[i];
        if (messages[i].role == PAL_ROLE_SYSTEM)
            continue;
        last = messages[i].role;
        if (last != PAL_ROLE_TOOL)
            in_round = is_calling(&messages[i]);
    }
}

/* ---- Second pass: one message with calls and the tool messages after it ---- */

typedef struct call_round {
    const pal_message **messages;
    size_t len;
    size_t expected; /* number of expected ids */
    bool is_broken;  /* an id is empty */
} call_round;

/* Ids are marked with the address of the round, so that nothing has to be removed between
 * rounds. */
static void expect_calls(pal_repair_work *work, call_round *round)
{
    const pal_message *caller = round->messages[0];
    for (size_t i = 0; i < caller->parts_len; i++) {
        const pal_part *part = &caller->parts[i];
        if (part->kind != PAL_PART_TOOL_CALL)
            continue;
        if (part->call_id.len == 0) {
            round->is_broken = true;
        } else if (pal_map_find(&work->ids, part->call_id) != round->messages) {
            pal_repair_map(work, &work->ids, part->call_id, round->messages);
            round->expected++;
        }
    }
}

/* Returns whether the round waits for the result; true only once per result. */
static bool take_expected(pal_repair_work *work, const call_round *round, const pal_part *part)
{
    if (part->kind != PAL_PART_TOOL_RESULT || part->call_id.len == 0 ||
            pal_map_find(&work->ids, part->call_id) != round->messages ||
            pal_map_find(&work->calls, part->call_id) == round->messages)
        return false;
    pal_repair_map(work, &work->calls, part->call_id, round->messages);
    return true;
}

/* Returns the message with only its expected results, and counts them. */
static pal_message with_expected(pal_repair_work *work, const call_round *round,
        const pal_message *message, size_t *out_taken)
{
    pal_message kept = *message;
    size_t results = 0, taken = 0, len = 0;
    kept.parts = pal_arena_array(work->arena, message->parts_len + 1, sizeof(*kept.parts));
    for (size_t i = 0; kept.parts && i < message->parts_len; i++) {
        bool is_result = message->parts[i].kind == PAL_PART_TOOL_RESULT;
        bool is_taken = is_result && take_expected(work, round, &message->parts[i]);
        results += is_result;
        taken += is_taken;
        if (!is_result || is_taken)
            kept.parts[len++] = message->parts[i];
    }
    kept.parts_len = len;
    *out_taken = taken;
    return results == taken ? *message : kept;
}

static void drop_round(pal_repair_work *work, const call_round *round)
{
    drop(work, round->messages[0],
            round->is_broken ? "calls with an empty id left out"
                             : "calls without all their results left out");
    for (size_t i = 1; i < round->len; i++)
        drop(work, round->messages[i], "results left out with their call");
}

static void put_round(pal_repair_work *work, call_round *round)
{
    pal_message *kept = pal_arena_array(work->scratch, round->len, sizeof(*kept));
    size_t *taken = pal_arena_array(work->scratch, round->len, sizeof(*taken));
    size_t found = 0;
    if (!kept || !taken)
        return;
    expect_calls(work, round);
    for (size_t i = 1; i < round->len; i++) {
        kept[i] = with_expected(work, round, round->messages[i], &taken[i]);
        found += taken[i];
    }
    if (round->is_broken || found < round->expected) {
        drop_round(work, round);
        return;
    }
    pal_repair_put(work, round->messages[0]);
    for (size_t i = 1; i < round->len; i++) {
        if (taken[i])
            pal_repair_put(work, &kept[i]);
        if (!taken[i])
            drop(work, round->messages[i], "unexpected or second result left out");
        else if (kept[i].parts != round->messages[i]->parts)
            pal_repair_line(work, kept[i].seq, "unexpected or second result left out");
    }
}

void pal_repair_picoclaw(pal_repair_work *work, const pal_message *messages, size_t messages_len)
{
    history left = {pal_arena_array(work->scratch, messages_len + 1, sizeof(*left.messages)), 0};
    if (!left.messages)
        return;
    keep_followers(work, messages, messages_len, &left);
    for (size_t i = 0; i < left.len;) {
        call_round round = {.messages = &left.messages[i], .len = 1};
        if (!is_calling(left.messages[i])) {
            pal_repair_put(work, left.messages[i++]);
            continue;
        }
        while (i + round.len < left.len && left.messages[i + round.len]->role == PAL_ROLE_TOOL)
            round.len++;
        put_round(work, &round);
        i += round.len;
    }
}
