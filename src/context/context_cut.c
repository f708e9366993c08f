/* context_cut.c - finds where a history can be cut.
 *
 * A place is safe if no call before it has its result after it. Some messages must be sent wherever
 * the cut is: pinned messages with the other half of their pair, the last user message, and
 * messages with pending calls. Costs are sums from the end, so that a place is found in one
 * pass. */
#include "context/context_draft.h"

#include "base/map.h"
#include "base/memory.h"

#define PRESERVE_TOKENS_MIN 2000
#define PRESERVE_TOKENS_MAX 15000

size_t pal_context_boundary(const pal_message *messages, size_t messages_len, size_t target)
{
    if (target >= messages_len)
        return messages_len;
    for (size_t i = target; i > 0; i--) {
        if (messages[i].role == PAL_ROLE_USER)
            return i;
    }
    if (target == 0)
        return 0;
    for (size_t i = target + 1; i < messages_len; i++) {
        if (messages[i].role == PAL_ROLE_USER)
            return i;
    }
    return messages[0].role == PAL_ROLE_USER ? 0 : target;
}

size_t pal_context_retry_left_out(size_t len, uint32_t percent)
{
    size_t middle = len > 2 ? len - 2 : 0;
    return middle - (size_t)pal_context_percent(middle, percent);
}

/* ---- Pairs ---- */

typedef struct pair {
    size_t call;
    size_t result;
} pair;

typedef struct pair_list {
    pair *items;
    size_t len;
    pal_map calls;   /* id -> the newest line so far that calls it */
    pal_map pending; /* ids */
} pair_list;


static pal_status pairs_init(pal_draft *draft, pair_list *pairs, pal_error *err)
{
    const pal_context_input *input = draft->input;
    size_t parts = 0;
    for (size_t i = 0; i < draft->tail_len; i++)
        parts += pal_draft_tail(draft, i)->message->parts_len;
    pairs->items = pal_arena_array(draft->arena, parts, sizeof(*pairs->items));
    if (!pairs->items)
        return pal_draft_failure(draft, err);
    for (size_t i = 0; i < input->pending_len; i++) {
        if (pal_map_set(&pairs->pending, input->pending[i], pairs) != PAL_OK)
            return pal_no_memory(err);
    }
    return PAL_OK;
}

static pal_status pairs_add(pal_draft *draft, pair_list *pairs, size_t place, pal_error *err)
{
    pal_line *line = pal_draft_tail(draft, place);
    for (size_t i = 0; i < line->message->parts_len; i++) {
        const pal_part *part = &line->message->parts[i];
        if (part->kind == PAL_PART_TOOL_CALL) {
            if (pal_map_set(&pairs->calls, part->call_id, line) != PAL_OK)
                return pal_no_memory(err);
            if (pal_map_find(&pairs->pending, part->call_id)) {
                line->must = true;
                draft->pending = place < draft->pending ? place : draft->pending;
            }
        }
        if (part->kind != PAL_PART_TOOL_RESULT)
            continue;
        pal_line *call = pal_map_find(&pairs->calls, part->call_id);
        if (call)
            pairs->items[pairs->len++] = (pair){(size_t)(call - draft->lines) - draft->tail, place};
    }
    return PAL_OK;
}

/* A call and its result are kept together. */
static void keep_pairs(pal_draft *draft, const pair_list *pairs)
{
    for (size_t i = 0; i < pairs->len; i++) {
        if (pal_draft_tail(draft, pairs->items[i].result)->must)
            pal_draft_tail(draft, pairs->items[i].call)->must = true;
    }
    for (size_t i = 0; i < pairs->len; i++) {
        if (pal_draft_tail(draft, pairs->items[i].call)->must)
            pal_draft_tail(draft, pairs->items[i].result)->must = true;
    }
}

/* Results are in the order of their places, so the last result of a call is the farthest. */
static pal_status mark_unsafe(pal_draft *draft, const pair_list *pairs, pal_error *err)
{
    size_t *reach = pal_arena_array(draft->arena, draft->tail_len + 1, sizeof(*reach));
    size_t farthest = 0;
    if (!reach)
        return pal_draft_failure(draft, err);
    for (size_t i = 0; i < pairs->len; i++)
        reach[pairs->items[i].call] = pairs->items[i].result;
    for (size_t i = 0; i <= draft->tail_len; i++) {
        draft->unsafe[i] = i > 0 && farthest >= i;
        farthest = reach[i] > farthest ? reach[i] : farthest;
    }
    return PAL_OK;
}

/* ---- Places ---- */

/* `sliding_window` and `reset` may leave out an answered question; the other strategies never
 * do. */
static void mark_must(pal_draft *draft)
{
    pal_strategy strategy = draft->settings.strategy;
    bool may_forget = strategy == PAL_STRATEGY_SLIDING_WINDOW || strategy == PAL_STRATEGY_RESET;
    for (size_t i = 0; i < draft->tail_len; i++) {
        pal_line *line = pal_draft_tail(draft, i);
        line->must = line->message->flags & PAL_MESSAGE_FLAG_PINNED;
    }
    if (draft->last_user < draft->tail_len && (draft->is_open || !may_forget))
        pal_draft_tail(draft, draft->last_user)->must = true;
}

void pal_cut_add_up(pal_draft *draft)
{
    size_t len = draft->tail_len;
    draft->fixed = (pal_size){0};
    for (size_t i = 0; i < draft->tail; i++) {
        const pal_line *line = &draft->lines[i];
        if (line->kind == PAL_PLAN_ITEM_RANGE || i == draft->notice)
            continue;
        draft->fixed.tokens += line->size.tokens;
        draft->fixed.bytes += line->size.bytes;
    }
    draft->rest_tokens[len] = 0;
    draft->cost_tokens[len] = 0;
    draft->cost_bytes[len] = 0;
    for (size_t i = 0; i < len; i++) {
        const pal_line *line = pal_draft_tail(draft, i);
        draft->cost_tokens[len] += line->must ? line->cost.tokens : 0;
        draft->cost_bytes[len] += line->must ? line->cost.bytes : 0;
    }
    for (size_t i = len; i > 0; i--) {
        const pal_line *line = pal_draft_tail(draft, i - 1);
        draft->rest_tokens[i - 1] = draft->rest_tokens[i] + line->cost.tokens;
        draft->cost_tokens[i - 1] = draft->cost_tokens[i] + (line->must ? 0 : line->cost.tokens);
        draft->cost_bytes[i - 1] = draft->cost_bytes[i] + (line->must ? 0 : line->cost.bytes);
    }
}

static pal_status alloc_places(pal_draft *draft, pal_error *err)
{
    size_t len = draft->tail_len + 1;
    draft->unsafe = pal_arena_array(draft->arena, len, sizeof(*draft->unsafe));
    draft->rest_tokens = pal_arena_array(draft->arena, len, sizeof(*draft->rest_tokens));
    draft->cost_tokens = pal_arena_array(draft->arena, len, sizeof(*draft->cost_tokens));
    draft->cost_bytes = pal_arena_array(draft->arena, len, sizeof(*draft->cost_bytes));
    draft->pending = draft->tail_len;
    return pal_draft_failure(draft, err);
}

pal_status pal_cut_find_places(pal_draft *draft, pal_error *err)
{
    pair_list pairs = {0};
    pal_status status = alloc_places(draft, err);
    if (status != PAL_OK)
        return status;
    status = pairs_init(draft, &pairs, err);
    if (status != PAL_OK)
        goto out;
    mark_must(draft);
    for (size_t i = 0; i < draft->tail_len; i++) {
        status = pairs_add(draft, &pairs, i, err);
        if (status != PAL_OK)
            goto out;
    }
    status = mark_unsafe(draft, &pairs, err);
    if (status != PAL_OK)
        goto out;
    keep_pairs(draft, &pairs);
    pal_cut_add_up(draft);
out:
    pal_map_done(&pairs.calls);
    pal_map_done(&pairs.pending);
    return status;
}

size_t pal_cut_after(const pal_draft *draft, size_t place)
{
    while (place < draft->tail_len && draft->unsafe[place])
        place++;
    return place;
}

/* Returns the last safe place at or before `place`. */
static size_t safe_before(const pal_draft *draft, size_t place)
{
    while (place > 0 && draft->unsafe[place])
        place--;
    return place;
}

size_t pal_cut_at_turn(const pal_draft *draft, size_t place)
{
    while (place < draft->tail_len &&
            (draft->unsafe[place] || pal_draft_tail(draft, place)->message->role != PAL_ROLE_USER))
        place++;
    return place;
}

size_t pal_cut_before_newest(const pal_draft *draft)
{
    return draft->tail_len ? safe_before(draft, draft->tail_len - 1) : 0;
}

size_t pal_cut_to_fit(const pal_draft *draft, uint64_t tokens_max, pal_size extra)
{
    uint64_t tokens = draft->fixed.tokens + extra.tokens;
    uint64_t bytes = draft->fixed.bytes + extra.bytes;
    size_t place = draft->tail_len + 1;
    while (place > 0 &&
            pal_context_size_fits(draft, tokens + draft->cost_tokens[place - 1],
                    bytes + draft->cost_bytes[place - 1], tokens_max))
        place--;
    return place;
}

/* ---- Compaction ---- */

static uint64_t calibrated(const pal_draft *draft, uint64_t tokens)
{
    return pal_calibration_apply(&draft->input->calibration, tokens);
}

pal_size pal_cut_lasting_size(const pal_draft *draft)
{
    pal_size size = {0};
    for (size_t i = 0; i < draft->tail; i++) {
        const pal_line *line = &draft->lines[i];
        if (!pal_cut_line_lasts(draft, i))
            continue;
        size.tokens += line->size.tokens;
        size.bytes += line->size.bytes;
    }
    return size;
}

bool pal_cut_line_lasts(const pal_draft *draft, size_t index)
{
    const pal_line *line = &draft->lines[index];
    if (line->kind == PAL_PLAN_ITEM_MESSAGE)
        return line->message->flags & PAL_MESSAGE_FLAG_PINNED ||
                draft->last_user == draft->tail_len;
    return line->kind == PAL_PLAN_ITEM_SYSTEM || line->kind == PAL_PLAN_ITEM_TOOLS;
}

/* Returns the tokens before the tail: the old summary becomes part of the new one, which gets
 * its room. */
static uint64_t top_tokens(const pal_draft *draft)
{
    uint64_t room = draft->settings.summary_tokens_max;
    if (draft->soft && draft->soft / 4 < room)
        room = draft->soft / 4;
    return calibrated(draft, pal_cut_lasting_size(draft).tokens) + room;
}

static uint64_t recent_tokens(const pal_draft *draft)
{
    uint64_t tokens = draft->settings.preserve_recent_tokens;
    if (!tokens) {
        tokens = draft->soft ? draft->soft / 4 : PRESERVE_TOKENS_MAX;
        tokens = tokens < PRESERVE_TOKENS_MIN ? PRESERVE_TOKENS_MIN : tokens;
        tokens = tokens > PRESERVE_TOKENS_MAX ? PRESERVE_TOKENS_MAX : tokens;
    }
    if (draft->soft) {
        uint64_t low = pal_context_percent(draft->soft, draft->settings.low_water_percent);
        uint64_t top = top_tokens(draft);
        uint64_t room = low > top ? low - top : 0;
        tokens = tokens < room ? tokens : room;
    }
    return tokens;
}

static bool fits_after(const pal_draft *draft, size_t place)
{
    return !draft->soft ||
            top_tokens(draft) + calibrated(draft, draft->cost_tokens[place]) <= draft->soft;
}

/* Returns `place`, or the last safe place before it that leaves pending calls in the tail. */
static size_t before_pending(const pal_draft *draft, size_t place)
{
    return place > draft->pending ? safe_before(draft, draft->pending) : place;
}

/* Keeps complete newest turns within the budget. If they fill less than half of it, the end of
 * the turn before is kept too. */
static size_t cut_within(const pal_draft *draft, uint64_t budget)
{
    size_t place = draft->tail_len;
    while (place > 0 && calibrated(draft, draft->rest_tokens[place - 1]) <= budget)
        place--;
    size_t turn = pal_cut_at_turn(draft, place);
    if (turn == draft->tail_len || calibrated(draft, draft->rest_tokens[turn]) < budget / 2)
        turn = pal_cut_after(draft, place);
    if (turn == draft->tail_len) {
        size_t newest = pal_cut_before_newest(draft);
        /* The last user message is kept anyway; it is better at its place than among the kept
         * messages. */
        if (newest == draft->last_user || fits_after(draft, newest))
            turn = newest;
    }
    return before_pending(draft, turn);
}

size_t pal_cut_for_compact(const pal_draft *draft)
{
    uint64_t budget = recent_tokens(draft), half = draft->rest_tokens[0] / 2;
    size_t place = cut_within(draft, budget);
    /* Everything is recent, but still too long. */
    while (place == 0 && budget > 0) {
        budget = half < budget ? half : budget / 2;
        half = budget;
        place = cut_within(draft, budget);
    }
    return place;
}

size_t pal_cut_for_summarization(const pal_draft *draft)
{
    size_t len = draft->tail_len, recent = draft->settings.keep_recent_messages;
    if (len <= recent)
        return pal_cut_for_compact(draft);
    const pal_message *messages =
            draft->input->messages + (draft->input->messages_len - draft->tail_len);
    size_t place = pal_context_boundary(messages, len, len - recent);
    if (place == 0 || draft->unsafe[place])
        place = safe_before(draft, len - recent);
    if (place == 0)
        place = pal_cut_after(draft, len - recent);
    place = before_pending(draft, place);
    return place == 0 || !fits_after(draft, place) ? pal_cut_for_compact(draft) : place;
}

size_t pal_cut_for_reset(const pal_draft *draft)
{
    size_t place = draft->is_open && draft->last_user < draft->tail_len ? draft->last_user
                                                                        : draft->tail_len;
    place = before_pending(draft, safe_before(draft, place));
    return fits_after(draft, place) ? place : pal_cut_for_compact(draft);
}
