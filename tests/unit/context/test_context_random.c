/* test_context_random.c - a plan keeps its promises for any history: it is within every limit and
 * valid, or it fails; nothing is left out without a note; cuts do not separate a call from its
 * result; and it ends: a prune or a compaction is never requested twice.
 *
 *   test_context_random [ROUNDS [SEED]] */
#include "support/context_history.h"
#include "support/message_random.h"

#define ROUNDS 3000

static pal_arena *arena;
static history h;
static message_random dice;

static size_t below(size_t bound)
{
    return random_below(&dice, bound);
}

static bool one_in(size_t bound)
{
    return below(bound) == 0;
}

/* ---- Histories ---- */

static pal_str random_call_id(void)
{
    char id[24];
    snprintf(id, sizeof id, "call_%zu", one_in(6) ? below(4) : h.len * 8 + below(3));
    return pal_arena_copy(arena, pal_str_of(id));
}

static void add_result(pal_str id)
{
    pal_message *message = history_result(&h, id.data, one_in(8) ? below(8000) : below(200));
    pal_part *part = &message->parts[0];
    if (!one_in(10))
        return;
    part->parts = pal_arena_array(arena, 2, sizeof(*part->parts));
    part->parts[0] = (pal_part){.kind = PAL_PART_TEXT, .text = part->text};
    part->parts[1] = (pal_part){.kind = PAL_PART_IMAGE,
            .media_type = pal_str_of("image/png"),
            .data = history_text(&h, 'p', below(500))};
    part->parts_len = 2;
    part->text = pal_str_make(NULL, 0);
}

static void add_calls(pal_str *pending, size_t *pending_len)
{
    size_t len = 1 + below(3);
    pal_str ids[3];
    pal_message *message = history_add(&h, PAL_ROLE_ASSISTANT, len);
    for (size_t i = 0; i < len; i++) {
        ids[i] = random_call_id();
        message->parts[i] = (pal_part){.kind = PAL_PART_TOOL_CALL,
                .call_id = ids[i],
                .name = pal_str_of("read"),
                .arguments = pal_str_of("{\"path\":\"a\"}")};
    }
    for (size_t i = 0; i < len; i++) {
        if (one_in(12))
            history_say(&h, PAL_ROLE_USER, below(40), 0);
        if (!one_in(10))
            add_result(ids[one_in(20) ? 0 : i]);
        else if (one_in(2) && *pending_len < 4)
            pending[(*pending_len)++] = ids[i];
    }
}

static void make_history(pal_str *pending, size_t *pending_len)
{
    size_t steps = below(one_in(8) ? 120 : 30);
    for (size_t i = 0; i < steps; i++) {
        switch (below(7)) {
        case 0:
        case 1:
            history_say(&h, PAL_ROLE_USER, one_in(10) ? below(4000) : below(100), 0);
            break;
        case 2:
            history_say(&h, PAL_ROLE_ASSISTANT, below(300), 0);
            break;
        case 3:
            history_image(&h, below(2000));
            break;
        case 4:
            if (one_in(6))
                add_result(random_call_id());
            break;
        default:
            add_calls(pending, pending_len);
        }
    }
    if (one_in(2))
        history_say(&h, PAL_ROLE_USER, 1 + below(100), 0);
    for (size_t i = 0; i < h.len; i++)
        h.messages[i].flags |= one_in(25) ? PAL_MESSAGE_FLAG_PINNED : 0;
}

/* A request that began anywhere, and may have nothing in common. */
static void add_last(pal_context_input *input)
{
    pal_sent *sent = pal_arena_alloc(arena, sizeof(*sent));
    pal_context_last *last = pal_arena_alloc(arena, sizeof(*last));
    sent->items = 1 + below(400);
    sent->first_seq = below(h.len + 4);
    last->sent = sent;
    input->last = last;
}

static void add_pruned(pal_context_input *input)
{
    pal_pruned_part *pruned = pal_arena_array(arena, h.len + 1, sizeof(*pruned));
    for (size_t i = 0; i < h.len; i++) {
        if (h.messages[i].role == PAL_ROLE_TOOL && one_in(2))
            pruned[input->pruned_len++] = (pal_pruned_part){h.messages[i].seq, 0};
    }
    input->pruned = pruned;
}

static pal_context_input make_input(pal_str *pending, size_t *pending_len)
{
    make_history(pending, pending_len);
    pal_context_input input = history_input(&h);
    input.pending = pending;
    input.pending_len = *pending_len;
    input.profile = (pal_profile)below(5);
    input.settings.strategy = (pal_strategy)below(5);
    input.settings.low_water_percent = one_in(3) ? 1 + (uint32_t)below(100) : 0;
    input.settings.prune_protect_tokens = one_in(2) ? 1 + below(1000) : 0;
    input.settings.prune_minimum_tokens = one_in(2) ? 1 + below(500) : 0;
    input.settings.compaction_threshold = one_in(2) ? 1 + below(3000) : 0;
    input.settings.keep_recent_messages = one_in(2) ? 1 + (uint32_t)below(20) : 0;
    input.limits.context = one_in(4) ? 0 : 20 + below(one_in(3) ? 40000 : 4000);
    input.limits.output = one_in(2) ? 0 : below(2000);
    input.limits.bytes = one_in(3) ? 200 + below(60000) : 0;
    input.limits.images = one_in(3) ? 1 + (uint32_t)below(8) : 0;
    input.calibration.ratio = one_in(4) ? 0.5 + (double)below(100) / 40 : 0;
    input.after_overflow = one_in(10);
    input.after_compaction = one_in(6);
    input.system = one_in(2) ? pal_str_of("Be brief.") : pal_str_make(NULL, 0);
    input.full_tokens = one_in(8) ? 1 + below(200000) : 0;
    if (one_in(2))
        add_last(&input);
    if (one_in(3))
        add_pruned(&input);
    return input;
}

/* ---- Promises ---- */

static bool is_valid(const pal_plan *plan, const pal_context_input *input)
{
    pal_message *messages;
    size_t len;
    pal_repair_result repaired;
    if (pal_plan_messages(plan, arena, &messages, &len, NULL) != PAL_OK ||
            pal_context_repair(messages, len, input, arena, &repaired, NULL) != PAL_OK)
        return false;
    if (repaired.repairs_len)
        printf("# not valid: %.*s\n", PAL_STR_ARG(repaired.repairs[0].text));
    return repaired.repairs_len == 0;
}

/* Counts the messages that are sent, independently. */
static uint64_t count_sent(const pal_plan *plan, const pal_context_input *input)
{
    uint64_t sum = 0, tokens;
    for (size_t i = 0; i < plan->items_len; i++) {
        const pal_plan_item *item = &plan->items[i];
        tokens = item->hash ? item->tokens : 0;
        if (item->message &&
                pal_tokens_message(input->encoding, item->message, &tokens, NULL) != PAL_OK)
            return UINT64_MAX;
        sum += tokens;
    }
    return sum;
}

static bool has_user(const pal_context_input *input)
{
    for (size_t i = 0; i < input->messages_len; i++) {
        if (input->messages[i].role == PAL_ROLE_USER)
            return true;
    }
    return false;
}

/* Notes of the engine come first, and a window that slid begins with a user message. */
static bool begins_well(const pal_plan *plan, const pal_context_input *input)
{
    bool is_begun = false, has_slid = false;
    for (size_t i = 0; i < plan->items_len; i++) {
        const pal_plan_item *item = &plan->items[i];
        has_slid |= item->kind == PAL_PLAN_ITEM_NOTICE;
        if (!item->message)
            continue;
        bool is_made = item->kind == PAL_PLAN_ITEM_NOTICE || item->kind == PAL_PLAN_ITEM_SYSTEM;
        if (is_made && is_begun)
            return false;
        if (item->kind == PAL_PLAN_ITEM_MESSAGE && !is_begun && has_slid &&
                input->profile != PAL_PROFILE_PICOCLAW &&
                input->settings.strategy == PAL_STRATEGY_SLIDING_WINDOW &&
                input->messages[input->messages_len - 1].role == PAL_ROLE_USER &&
                has_user(input) && item->message->role != PAL_ROLE_USER)
            return false;
        is_begun |= item->kind == PAL_PLAN_ITEM_MESSAGE || item->kind == PAL_PLAN_ITEM_SUMMARY;
    }
    return true;
}

static bool is_within(const pal_plan *plan, const pal_context_input *input)
{
    const pal_context_limits *limits = &input->limits;
    return (!plan->usable || count_sent(plan, input) <= plan->usable) &&
            (!plan->usable || plan->tokens <= plan->usable) &&
            (!limits->context || plan->tokens <= limits->context) &&
            (!limits->bytes || plan->bytes <= limits->bytes) &&
            (!limits->images || plan->images <= limits->images);
}

/* Every message is among the items, whether it is sent or not. */
static bool tells_all(const pal_plan *plan, const pal_context_input *input)
{
    uint64_t tokens = 0;
    for (size_t i = 0; i < plan->items_len; i++) {
        tokens += plan->items[i].hash ? plan->items[i].tokens : 0;
        if (plan->items[i].hash == 0 && plan->items[i].reason.len == 0)
            return false;
    }
    for (size_t i = 0; i < input->messages_len; i++) {
        if (!plan_item(plan, input->messages[i].seq))
            return false;
    }
    return tokens == plan->tokens_plain;
}

static bool is_same(const pal_plan *a, const pal_plan *b)
{
    bool same = a->action == b->action && a->items_len == b->items_len && a->tokens == b->tokens &&
            a->cut_seq == b->cut_seq && a->prune_len == b->prune_len;
    for (size_t i = 0; same && i < a->items_len; i++)
        same = a->items[i].hash == b->items[i].hash &&
                pal_str_equal(a->items[i].reason, b->items[i].reason);
    return same;
}

static bool keeps(const pal_plan *plan, uint64_t seq)
{
    for (size_t i = 0; i < plan->keep_len; i++) {
        if (plan->keep_seqs[i] == seq)
            return true;
    }
    return false;
}

static bool is_pending(const pal_context_input *input, pal_str id)
{
    for (size_t i = 0; i < input->pending_len; i++) {
        if (pal_str_equal(input->pending[i], id))
            return true;
    }
    return false;
}

/* The newest call with that id before the message. */
static const pal_message *find_call(
        const pal_context_input *input, const pal_message *before, pal_str id)
{
    while (before-- > input->messages) {
        for (size_t i = 0; i < before->parts_len; i++) {
            if (before->parts[i].kind == PAL_PART_TOOL_CALL &&
                    pal_str_equal(before->parts[i].call_id, id))
                return before;
        }
    }
    return NULL;
}

static bool is_cut_safe(const pal_plan *plan, const pal_context_input *input)
{
    bool safe = true;
    for (size_t i = 0; i < input->messages_len; i++) {
        const pal_message *message = &input->messages[i];
        bool is_cut = message->seq <= plan->cut_seq;
        if (message->flags & PAL_MESSAGE_FLAG_PINNED && is_cut)
            safe = safe && keeps(plan, message->seq);
        for (size_t j = 0; j < message->parts_len; j++) {
            const pal_part *part = &message->parts[j];
            if (part->kind == PAL_PART_TOOL_CALL && is_cut)
                safe = safe && !is_pending(input, part->call_id);
            if (part->kind != PAL_PART_TOOL_RESULT)
                continue;
            const pal_message *call = find_call(input, message, part->call_id);
            safe = safe && (!call || is_cut == (call->seq <= plan->cut_seq));
        }
    }
    return safe;
}

/* A question that waits for its answer is sent, whatever else is left out. */
static bool has_question(const pal_plan *plan, const pal_context_input *input)
{
    if (input->messages_len == 0)
        return true;
    const pal_message *newest = &input->messages[input->messages_len - 1];
    if (newest->role != PAL_ROLE_USER || newest->parts[0].text.len == 0 ||
            input->profile == PAL_PROFILE_PICOCLAW)
        return true;
    const pal_plan_item *item = plan_item(plan, newest->seq);
    return item && item->hash;
}

/* As the turn does it: the summary is short, and the kept messages are those of the plan. */
static pal_context_input compacted(const pal_context_input *input, const pal_plan *plan)
{
    pal_context_input next = *input;
    pal_message *kept = pal_arena_array(arena, plan->keep_len + 1, sizeof(*kept));
    size_t cut = 0;
    next.kept = kept;
    while (cut < input->messages_len && input->messages[cut].seq <= plan->cut_seq) {
        if (keeps(plan, input->messages[cut].seq))
            kept[next.kept_len++] = input->messages[cut];
        cut++;
    }
    next.messages += cut;
    next.messages_len -= cut;
    next.checkpoint = (pal_checkpoint){.number = 1,
            .seq = plan->cut_seq,
            .strategy = input->settings.strategy,
            .summary = pal_str_of("s"),
            .hint = pal_str_of("h")};
    next.after_compaction = true;
    next.after_overflow = false;
    return next;
}

static bool follow(const pal_context_input *input, int depth);

static bool follow_action(const pal_context_input *input, const pal_plan *plan, int depth)
{
    pal_context_input next = *input;
    switch (plan->action) {
    case PAL_PLAN_ACTION_SEND:
        return CHECK(is_within(plan, input)) && CHECK(has_question(plan, input)) &&
                CHECK(begins_well(plan, input));
    case PAL_PLAN_ACTION_PRUNE:
        next.pruned = plan->prune;
        next.pruned_len = plan->prune_len;
        next.after_overflow = false;
        return CHECK_THAT(plan->prune_len, >, input->pruned_len) && follow(&next, depth + 1);
    case PAL_PLAN_ACTION_COMPACT:
        next = compacted(input, plan);
        return CHECK(!input->after_compaction) && CHECK(is_cut_safe(plan, input)) &&
                CHECK_THAT(next.messages_len, <, input->messages_len) &&
                CHECK_EQ(next.kept_len, plan->keep_len) && follow(&next, depth + 1);
    default:
        return CHECK_STATUS(plan->refusal.status, PAL_LIMIT) && CHECK(plan->refusal.message[0]);
    }
}

static bool follow(const pal_context_input *input, int depth)
{
    pal_plan plan = history_plan(&h, input), again = history_plan(&h, input);
    return CHECK_THAT(depth, <, 4) && CHECK(is_same(&plan, &again)) &&
            CHECK(tells_all(&plan, input)) && CHECK(is_valid(&plan, input)) &&
            follow_action(input, &plan, depth);
}

static uint64_t rounds = ROUNDS, seed = 1;

static void plans_keep_their_promises(void)
{
    for (uint64_t i = 0; i < rounds; i++) {
        pal_str pending[4];
        size_t pending_len = 0;
        pal_arena_reset(arena);
        h.len = 0;
        h.arena = arena;
        dice = (message_random){.state = (seed + i) * UINT64_C(0x9e3779b97f4a7c15), .arena = arena};
        for (int j = 0; j < 4; j++)
            random_next(&dice);
        pal_context_input input = make_input(pending, &pending_len);
        if (!follow(&input, 0)) {
            printf("# seed %" PRIu64 ": %zu messages, %s, %s\n", seed + i, h.len,
                    pal_strategy_name(input.settings.strategy), pal_profile_name(input.profile));
            break;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        rounds = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    arena = pal_arena_new(0);
    RUN(plans_keep_their_promises);
    pal_arena_free(arena);
    return tap_done();
}
