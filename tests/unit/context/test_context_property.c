/* test_context_property.c - random histories, repaired and planned for every provider: an
 * independent check (support/context_check.h) accepts the result. A repair loses no user message,
 * reports all that it did, gives the same result again, and leaves the history unchanged. A plan is
 * within every limit or fails, and ends.
 *
 * PAL_TEST_SEED chooses another run, PAL_CONTEXT_PLANS the number of plans; a failure prints the
 * seed. */
#include <stdlib.h>
#include "palaver/context.h"
#include "support/context_check.h"
#include "support/history_random.h"
#include "support/tap.h"

#define PLANS 20000
#define IMAGE_BYTES 40
#define PROFILES (PAL_PROFILE_PICOCLAW + 1)

static message_random source;
static history_random history;

static unsigned long number_from(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoul(text, NULL, 10) : otherwise;
}

/* ---- One repair ---- */

static uint64_t hash_of(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Compares the structures, not the texts, which are const. */
static uint64_t history_hash(void)
{
    uint64_t hash = hash_of(1, history.messages, history.len * sizeof(pal_message));
    for (size_t i = 0; i < history.len; i++) {
        const pal_message *message = &history.messages[i];
        hash = hash_of(hash, message->parts, message->parts_len * sizeof(pal_part));
        for (size_t k = 0; k < message->parts_len; k++)
            hash = hash_of(
                    hash, message->parts[k].parts, message->parts[k].parts_len * sizeof(pal_part));
    }
    return hash;
}

static bool is_question(const pal_message *message)
{
    return message->role == PAL_ROLE_USER && message->parts_len &&
            message->parts[0].kind == PAL_PART_TEXT && message->parts[0].text.len > 9 &&
            memcmp(message->parts[0].text.data, "question ", 9) == 0;
}

/* All questions are in the result, in their original order. */
static bool keeps_questions(const pal_repair_result *repaired)
{
    size_t at = 0;
    for (size_t i = 0; i < history.len; i++) {
        if (!is_question(&history.messages[i]))
            continue;
        while (at < repaired->len && repaired->messages[at].seq != history.messages[i].seq)
            at++;
        while (at < repaired->len && repaired->messages[at].role != PAL_ROLE_USER)
            at++;
        if (at == repaired->len ||
                !pal_str_equal(
                        repaired->messages[at].parts[0].text, history.messages[i].parts[0].text))
            return SAME(!"a question is lost");
    }
    return true;
}

/* Whether the result is equal to the input. */
static bool is_as_it_was(const pal_repair_result *repaired, const pal_message *message)
{
    for (size_t i = 0; i < repaired->len; i++) {
        if (repaired->messages[i].seq == message->seq)
            return repaired->messages[i].parts == message->parts &&
                    repaired->messages[i].parts_len == message->parts_len &&
                    repaired->messages[i].role == message->role;
    }
    return false;
}

/* Nothing is changed, left out or added without a note about it. */
static bool tells_all(const pal_repair_result *repaired)
{
    bool told = SAME(repaired->repairs_len || repaired->len == history.len);
    for (size_t i = 0; told && i < history.len; i++) {
        bool has_line = false;
        for (size_t k = 0; k < repaired->repairs_len; k++)
            has_line |= repaired->repairs[k].seq == history.messages[i].seq;
        told = SAME(has_line || is_as_it_was(repaired, &history.messages[i]));
        if (repaired->repairs_len == 0)
            told = told && SAME(repaired->messages[i].seq == history.messages[i].seq);
    }
    return told;
}

static bool is_unchanged(const pal_repair_result *first, const pal_repair_result *second)
{
    bool same = SAME(second->repairs_len == 0) && SAME(first->len == second->len);
    for (size_t i = 0; i < second->repairs_len; i++)
        printf("# repaired again: %.*s\n", PAL_STR_ARG(second->repairs[i].text));
    for (size_t i = 0; same && i < first->len; i++)
        same = message_same(&first->messages[i], &second->messages[i]) &&
                SAME(first->messages[i].parts == second->messages[i].parts);
    return same;
}

static pal_context_input random_input(pal_profile profile)
{
    pal_context_input input = {.profile = profile, .family = history_family(&source)};
    if (random_below(&source, 2))
        input.limits.image_bytes = IMAGE_BYTES;
    if (random_below(&source, 4) == 0) {
        pal_str *pending = pal_arena_array(source.arena, 2, sizeof(*pending));
        pending[0] = history_number(&source, "call_%zu", random_below(&source, 9));
        pending[1] = history_number(&source, "call_%zu", random_below(&source, 3));
        input.pending = pending;
        input.pending_len = 2;
    }
    return input;
}

static bool repair_holds(pal_profile profile)
{
    pal_context_input input = random_input(profile);
    pal_repair_result first = {0}, second = {0};
    uint64_t before = history_hash();
    if (pal_context_repair(history.messages, history.len, &input, source.arena, &first, NULL) ||
            pal_context_repair(first.messages, first.len, &input, source.arena, &second, NULL))
        return SAME(!"the repair failed");
    context_check check = {.profile = profile,
            .family = input.family,
            .image_bytes = input.limits.image_bytes,
            .messages = first.messages,
            .len = first.len,
            .arena = source.arena};
    return check_is_taken(&check) && is_unchanged(&first, &second) && keeps_questions(&first) &&
            tells_all(&first) && SAME(before == history_hash()) &&
            SAME(first.len || history.len == 0 || profile == PAL_PROFILE_PICOCLAW);
}

/* ---- One plan, and what it asks for, until it can be sent ---- */

#define PLAN_STEPS_MAX 5

static bool one_in(size_t count)
{
    return random_below(&source, count) == 0;
}

static uint64_t up_to(size_t count)
{
    return 1 + random_below(&source, count);
}

static void random_settings(pal_context_input *input)
{
    static const pal_tool tools[] = {{.name = {"ls", 2}, .description = {"lists files", 11}}};
    pal_context_settings *settings = &input->settings;
    settings->strategy = (pal_strategy)random_below(&source, PAL_STRATEGY_NONE + 1);
    settings->auto_off = one_in(12);
    settings->prune_off = one_in(6);
    settings->max_tokens = one_in(6) ? up_to(3000) : 0;
    settings->threshold_percent = one_in(4) ? (uint32_t)up_to(100) : 0;
    settings->keep_recent_messages = one_in(3) ? (uint32_t)up_to(12) : 0;
    settings->compaction_threshold = one_in(2) ? up_to(2000) : 0;
    settings->low_water_percent = one_in(4) ? (uint32_t)up_to(100) : 0;
    settings->prune_protect_tokens = one_in(2) ? up_to(200) : 0;
    settings->prune_minimum_tokens = one_in(2) ? up_to(100) : 0;
    settings->prune_protect_turns = one_in(3) ? (uint32_t)up_to(3) : 0;
    input->limits.context = one_in(4) ? 0 : 10 + up_to(one_in(2) ? 300 : 4000);
    input->limits.input = one_in(8) ? up_to(input->limits.context + 1) - 1 : 0;
    input->limits.output = one_in(2) ? up_to(200) : 0;
    input->limits.bytes = one_in(3) ? up_to(20000) : 0;
    input->limits.images = one_in(3) ? (uint32_t)up_to(4) : 0;
    input->system = one_in(2) ? pal_str_of("Be brief.") : pal_str_make(NULL, 0);
    input->tools = one_in(3) ? tools : NULL;
    input->tools_len = input->tools ? 1 : 0;
    input->calibration.ratio = one_in(4) ? 0.5 + (double)random_below(&source, 100) / 40 : 0;
    input->after_overflow = one_in(10);
    input->after_compaction = one_in(8);
}

/* Messages of the history up to `seq` that stay: those of the list, and those that were kept
 * before. */
static void keep(pal_context_input *input, const uint64_t *seqs, size_t seqs_len, uint64_t seq)
{
    pal_message *kept = pal_arena_array(source.arena, history.len + 1, sizeof(*kept));
    size_t len = 0;
    for (size_t i = 0; i < history.len && history.messages[i].seq <= seq; i++) {
        bool stays = false;
        for (size_t k = 0; k < seqs_len; k++)
            stays |= seqs[k] == history.messages[i].seq;
        for (size_t k = 0; k < input->kept_len; k++)
            stays |= input->kept[k].seq == history.messages[i].seq;
        if (stays)
            kept[len++] = history.messages[i];
    }
    input->kept = kept;
    input->kept_len = len;
}

/* The history after `seq`, with a summary of the messages before. */
static void cut_at(pal_context_input *input, const uint64_t *seqs, size_t seqs_len, uint64_t seq)
{
    keep(input, seqs, seqs_len, seq);
    input->checkpoint.number++;
    input->checkpoint.seq = seq;
    input->checkpoint.strategy = input->settings.strategy;
    input->checkpoint.summary = pal_str_of("They talked.");
    input->messages = history.messages + seq;
    input->messages_len = history.len - (size_t)seq;
}

static pal_context_input random_plan_input(pal_profile profile)
{
    pal_context_input input = random_input(profile);
    random_settings(&input);
    input.messages = history.messages;
    input.messages_len = history.len;
    if (one_in(4) && history.len > 2) {
        uint64_t seq = up_to(history.len - 1), pin = up_to((size_t)seq);
        cut_at(&input, &pin, 1, seq);
    }
    return input;
}

static bool has_seq(const pal_message *messages, size_t len, uint64_t seq)
{
    for (size_t i = 0; i < len; i++) {
        if (messages[i].seq == seq && messages[i].role == PAL_ROLE_USER)
            return true;
    }
    return false;
}

/* The last question of the user is sent while it waits for its answer. */
static bool keeps_newest(const pal_context_input *input, const pal_message *messages, size_t len)
{
    size_t at = input->messages_len;
    if (at == 0 || input->messages[at - 1].role == PAL_ROLE_ASSISTANT)
        return true;
    while (at > 0 && input->messages[at - 1].role != PAL_ROLE_USER)
        at--;
    return at == 0 || !is_question(&input->messages[at - 1]) ||
            SAME(has_seq(messages, len, input->messages[at - 1].seq));
}

static bool is_within(const pal_context_input *input, const pal_plan *plan,
        const pal_message *messages, size_t len)
{
    const pal_context_limits *limits = &input->limits;
    size_t images = 0;
    for (size_t i = 0; i < len; i++) {
        for (size_t k = 0; k < messages[i].parts_len; k++) {
            const pal_part *part = &messages[i].parts[k];
            images += part->kind == PAL_PART_IMAGE;
            for (size_t n = 0; n < part->parts_len; n++)
                images += part->parts[n].kind == PAL_PART_IMAGE;
        }
    }
    return SAME(!plan->usable || plan->tokens <= plan->usable) &&
            SAME(!limits->context || plan->tokens <= limits->context) &&
            SAME(!limits->bytes || plan->bytes <= limits->bytes) &&
            SAME(!limits->images || images <= limits->images);
}

static bool is_sendable(const pal_context_input *input, const pal_plan *plan)
{
    pal_message *messages = NULL;
    size_t len = 0;
    if (pal_plan_messages(plan, source.arena, &messages, &len, NULL) != PAL_OK)
        return SAME(!"the plan has no messages");
    context_check check = {.profile = input->profile,
            .family = input->family,
            .image_bytes = input->limits.image_bytes,
            .messages = messages,
            .len = len,
            .arena = source.arena};
    if (!check_is_taken(&check))
        return false;
    return plan->action != PAL_PLAN_ACTION_SEND ||
            (is_within(input, plan, messages, len) && keeps_newest(input, messages, len));
}

/* Performs the action that the plan requests. */
static bool follow(pal_context_input *input, const pal_plan *plan)
{
    if (plan->action == PAL_PLAN_ACTION_PRUNE) {
        bool is_more = plan->prune_len > input->pruned_len;
        input->pruned = plan->prune;
        input->pruned_len = plan->prune_len;
        return SAME(is_more);
    }
    if (!SAME(plan->cut_seq > input->checkpoint.seq && plan->cut_seq <= history.len))
        return false;
    cut_at(input, plan->keep_seqs, plan->keep_len, plan->cut_seq);
    input->after_compaction = true;
    return true;
}

static bool plan_holds(pal_profile profile)
{
    pal_context_input input = random_plan_input(profile);
    uint64_t before = history_hash();
    for (int step = 0; step < PLAN_STEPS_MAX; step++) {
        pal_plan plan = {0};
        pal_error err = {PAL_OK, ""};
        if (pal_context_plan(&input, source.arena, &plan, &err) != PAL_OK) {
            printf("# %s\n", err.message);
            return SAME(!"there is no plan");
        }
        if (!is_sendable(&input, &plan))
            return false;
        if (plan.action == PAL_PLAN_ACTION_REFUSE)
            return SAME(plan.refusal.status == PAL_LIMIT) && SAME(plan.refusal.message[0]) &&
                    SAME(plan.reason.len);
        if (plan.action == PAL_PLAN_ACTION_SEND)
            return SAME(before == history_hash());
        if (!follow(&input, &plan))
            return false;
    }
    return SAME(!"the plan does not come to an end");
}

/* ---- All of them ---- */

/* Runs `holds` on random histories until one fails. */
static void run_many(bool (*holds)(pal_profile profile), uint64_t salt)
{
    unsigned long seed = number_from("PAL_TEST_SEED", 1);
    unsigned long plans = number_from("PAL_CONTEXT_PLANS", PLANS);
    bool good = true;
    for (unsigned long done = 0; good && done < plans; done += PROFILES, seed++) {
        source.state = (seed + salt) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        for (int i = 0; i < 4; i++)
            random_next(&source);
        history_make(&history, &source);
        for (int profile = 0; good && profile < PROFILES; profile++) {
            good = CHECK(holds((pal_profile)profile));
            if (!good)
                printf("# PAL_TEST_SEED=%lu, profile %s\n", seed,
                        pal_profile_name((pal_profile)profile));
        }
        pal_arena_reset(source.arena);
    }
}

static void repairs_hold(void)
{
    run_many(repair_holds, 0);
}

static void plans_hold(void)
{
    run_many(plan_holds, 1u << 30);
}

int main(void)
{
    source.arena = pal_arena_new(0);
    RUN(repairs_hold);
    RUN(plans_hold);
    pal_arena_free(source.arena);
    return tap_done();
}
