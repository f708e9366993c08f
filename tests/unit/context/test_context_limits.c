/* test_context_limits.c - the limits of a plan other than tokens, the prefix that it shares with
 * the last request, errors in its input, and its output. */
#include "base/json/json.h"
#include "base/memory.h"
#include "context/context_draft.h"
#include "support/context_history.h"

static pal_arena *arena;
static history h;

static void begin(void)
{
    pal_arena_reset(arena);
    h.len = 0;
    h.arena = arena;
}

/* ---- Limits other than tokens ---- */

static void the_oldest_images_over_the_limit_are_removed(void)
{
    begin();
    for (size_t i = 0; i < 6; i++)
        history_image(&h, 30);
    h.messages[0].flags |= PAL_MESSAGE_FLAG_PINNED;
    pal_context_input input = history_input(&h);
    input.limits.images = 3;
    pal_plan plan = history_plan(&h, &input);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_EQ(plan.images, 3);
    if (CHECK_EQ(plan_item(&plan, 1)->images, 1))
        CHECK_EQ(plan_item(&plan, 2)->images, 0);
    if (CHECK_EQ(plan_item(&plan, 4)->images, 0))
        CHECK_EQ(plan_item(&plan, 5)->images, 1);
    CHECK_EQ(plan_item(&plan, 2)->disposition, PAL_DISPOSITION_SENT_PRUNED);
    CHECK(text_has(plan_item(&plan, 2)->reason, "more than the provider accepts"));

    /* In quarters of a larger limit, so that the prefix stays the same for some turns. */
    begin();
    for (size_t i = 0; i < 23; i++)
        history_image(&h, 30);
    input = history_input(&h);
    input.limits.images = 20;
    plan = history_plan(&h, &input);
    CHECK_EQ(plan.images, 18);
    input.messages_len = 21;
    plan = history_plan(&h, &input);
    CHECK_EQ(plan.images, 16);

    /* Images inside of results count, too. */
    begin();
    history_call_turns(&h, 2, 10);
    pal_part nested[2] = {
            {.kind = PAL_PART_TEXT, .text = pal_str_of("seen")}, {.kind = PAL_PART_IMAGE}};
    nested[1].media_type = pal_str_of("image/png");
    nested[1].url = pal_str_of("https://example.org/a.png");
    for (size_t i = 2; i < 8; i += 4) {
        h.messages[i].parts[0].parts = nested;
        h.messages[i].parts[0].parts_len = 2;
        h.messages[i].parts[0].text = pal_str_make(NULL, 0);
    }
    input = history_input(&h);
    input.limits.images = 1;
    input.profile = PAL_PROFILE_ANTHROPIC;
    plan = history_plan(&h, &input);
    CHECK_EQ(plan.images, 1);
    CHECK_EQ(plan_item(&plan, 3)->images, 0);
    CHECK_STR(plan_item(&plan, 3)->message->parts[0].parts[1].text, "[Image removed from context]");
    CHECK_EQ(nested[1].kind, PAL_PART_IMAGE);
}

static void unset_limits_come_from_the_provider(void)
{
    pal_context_limits limits = {.context = 1000, .images = 3};
    pal_profile_limits(PAL_PROFILE_ANTHROPIC, &limits);
    CHECK_EQ(limits.images, 3);
    CHECK_EQ(limits.bytes, 32000000);
    CHECK_EQ(limits.context, 1000);
    CHECK_EQ((limits.image_bytes + 2) / 3 * 4, 5 << 20);
    limits = (pal_context_limits){0};
    pal_profile_limits(PAL_PROFILE_PICOCLAW, &limits);
    CHECK_EQ(limits.images, 0);
    CHECK_EQ(limits.bytes, 0);
    pal_profile_limits(PAL_PROFILE_MISTRAL, &limits);
    CHECK_EQ(limits.images, 8);
    CHECK_EQ(limits.bytes, 0);
}

static void large_old_outputs_are_removed_over_the_byte_limit(void)
{
    begin();
    history_call_turns(&h, 1, 3000);
    history_call_turns(&h, 1, 30000);
    history_call_turns(&h, 1, 3000);
    history_call_turns(&h, 1, 30000);
    pal_context_input input = history_input(&h);
    input.limits.bytes = 64000;
    pal_plan plan = history_plan(&h, &input);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_THAT(plan.bytes, <=, 64000);
    CHECK_EQ(plan_item(&plan, 7)->disposition, PAL_DISPOSITION_SENT_PRUNED);
    CHECK_EQ(plan_item(&plan, 3)->disposition, PAL_DISPOSITION_SENT);
    CHECK_EQ(plan_item(&plan, 15)->disposition, PAL_DISPOSITION_SENT); /* of the newest turn */
    input.limits.bytes = 20000;
    plan = history_plan(&h, &input);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_COMPACT);
    input.after_compaction = true;
    plan = history_plan(&h, &input);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_THAT(plan.bytes, <=, 20000);
    CHECK(plan_sends(&plan, "note 13 16")); /* the call was removed with its result */
    input.limits.bytes = 300;
    plan = history_plan(&h, &input);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_REFUSE);
    CHECK_CONTAINS(plan.refusal.message, "over the limit of 300");
}

static void bytes_are_counted_as_json(void)
{
    begin();
    history_say(&h, PAL_ROLE_USER, 100, 0);
    pal_context_input input = history_input(&h);
    uint64_t plain = history_plan(&h, &input).bytes;
    char *text = (char *)h.messages[0].parts[0].text.data;
    memset(text, '\n', 10);
    memset(text + 10, '\1', 10);
    memset(text + 20, '"', 10);
    memset(text + 30, '\\', 10);
    CHECK_EQ(history_plan(&h, &input).bytes, plain + 10 + 50 + 10 + 10);
}

/* The bytes of a blob are not here, and count as they will be sent. */
static void blobs_count_with_their_bytes(void)
{
    begin();
    for (size_t i = 0; i < 3; i++)
        history_image(&h, 30);
    pal_context_input input = history_input(&h);
    uint64_t plain = history_plan(&h, &input).bytes;
    for (size_t i = 0; i < 3; i++) {
        pal_part *image = &h.messages[i].parts[1];
        image->data = pal_str_make(NULL, 0);
        image->blob = pal_str_of("sha256:00");
        image->bytes = 3001;
    }
    pal_plan plan = history_plan(&h, &input);
    CHECK_EQ(plan.bytes, plain + 3 * (4004 - 40));
    input.limits.bytes = plan.bytes;
    plan = history_plan(&h, &input);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_EQ(plan.images, 3);
    input.limits.bytes--;
    plan = history_plan(&h, &input);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_EQ(plan.images, 2);
    CHECK_THAT(plan.bytes, <=, input.limits.bytes);
    CHECK_EQ(plan_item(&plan, 1)->disposition, PAL_DISPOSITION_SENT_PRUNED);

    /* Text that was cut from an output is stored, but not sent. */
    begin();
    history_call_turns(&h, 1, 100);
    input = history_input(&h);
    plain = history_plan(&h, &input).bytes;
    h.messages[2].parts[0].blob = pal_str_of("sha256:00");
    h.messages[2].parts[0].bytes = 100000;
    h.messages[2].parts[0].data = pal_str_of("the whole of it");
    CHECK_EQ(history_plan(&h, &input).bytes, plain);
}

static void usage_reports_of_the_provider_calibrate_counts(void)
{
    begin();
    history_turns(&h, 10, 100);
    pal_context_input input = history_input(&h);
    input.limits.input = 2000;
    input.calibration = (pal_calibration){.ratio = 1.5, .reports = 1};
    pal_plan plan = history_plan(&h, &input);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_COMPACT);
    CHECK_EQ(plan.tokens, 3000);
    CHECK_EQ(plan.tokens_plain, 2000);
    input.after_compaction = true;
    plan = history_plan(&h, &input);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_THAT(plan.tokens, <=, 1000);
    CHECK_THAT(plan.tokens, >, 700);
}

static void the_maximum_of_a_request_can_be_set(void)
{
    begin();
    history_turns(&h, 10, 100);
    pal_context_input input = history_input(&h);
    input.settings.max_tokens = 1999;
    CHECK_EQ(history_plan(&h, &input).action, PAL_PLAN_ACTION_COMPACT);
    input.settings.max_tokens = 2000;
    pal_plan plan = history_plan(&h, &input);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_EQ(plan.usable, 2000);
    input.limits.input = 1000;
    CHECK_EQ(history_plan(&h, &input).usable, 1000);
}

/* ---- The prefix ---- */

static void the_plan_explains_a_changed_prefix(void)
{
    begin();
    history_call_turns(&h, 2, 100);
    pal_tool tools[] = {{.name = pal_str_of("read")}};
    pal_context_input input = history_input(&h);
    input.system = pal_str_of("Be brief.");
    input.tools = tools;
    input.tools_len = 1;
    pal_plan plan = history_plan(&h, &input);
    pal_context_last last = history_last(&h, &plan);
    CHECK_EQ(plan.prefix_items, 0);
    CHECK_EQ(last.len, 10);
    input.last = &last;

    history_say(&h, PAL_ROLE_USER, 8, 10);
    input.messages_len = h.len;
    plan = history_plan(&h, &input);
    CHECK_EQ(plan.prefix_items, 10);
    CHECK_EQ(plan.prefix_break.len, 0);
    CHECK_EQ(plan.prefix_tokens, plan.tokens - 10);
    /* Entries for messages that were not sent do not matter. */
    uint64_t hashes[12] = {0, last.hashes[0], 0};
    memcpy(hashes + 3, last.hashes + 1, 9 * sizeof(*hashes));
    pal_context_last gaps = {.hashes = hashes, .tokens = hashes, .len = 12};
    input.last = &gaps;
    CHECK_EQ(history_plan(&h, &input).prefix_items, 10);
    input.last = &last;

    input.system = pal_str_of("Be very brief.");
    plan = history_plan(&h, &input);
    CHECK_EQ(plan.prefix_items, 0);
    CHECK_STR(plan.prefix_break, "the system text changed");
    input.system = pal_str_of("Be brief.");
    tools[0].description = pal_str_of("Reads.");
    plan = history_plan(&h, &input);
    CHECK_EQ(plan.prefix_items, 1);
    CHECK_STR(plan.prefix_break, "the tools changed");
    tools[0].description = pal_str_make(NULL, 0);

    pal_pruned_part pruned = {3, 0};
    input.pruned = &pruned;
    input.pruned_len = 1;
    plan = history_plan(&h, &input);
    CHECK_EQ(plan.prefix_items, 4);
    CHECK(text_has(plan.prefix_break, "message 3 is shown without"));
    input.pruned_len = 0;

    input.messages_len = 4;
    plan = history_plan(&h, &input);
    CHECK_EQ(plan.prefix_items, 6);
    CHECK(text_has(plan.prefix_break, "continued"));
}

static void a_hash_covers_every_part(void)
{
    begin();
    history_call(&h, "a");
    history_result(&h, "a", 20);
    pal_context_input input = history_input(&h);
    uint64_t hash = history_plan(&h, &input).items[0].hash;
    pal_part *part = &h.messages[0].parts[0];
    part->arguments = pal_str_of("{ }");
    CHECK_THAT(history_plan(&h, &input).items[0].hash, !=, hash);
    part->arguments = pal_str_of("{}");
    CHECK_EQ(history_plan(&h, &input).items[0].hash, hash);
    part->name = pal_str_of("rea");
    part->arguments = pal_str_of("d{}");
    CHECK_THAT(history_plan(&h, &input).items[0].hash, !=, hash);
    pal_tool named = {.name = pal_str_of("a")}, described = {.description = pal_str_of("a")};
    CHECK_THAT(pal_prefix_hash_tools(&named, 1), !=, pal_prefix_hash_tools(&described, 1));
}

/* ---- Input and output ---- */

static bool is_invalid(const pal_context_input *input, const char *text)
{
    pal_plan plan = {.items_len = 77};
    pal_error err = {PAL_OK, ""};
    pal_status status = pal_context_plan(input, arena, &plan, &err);
    if (status == PAL_INVALID && plan.items_len == 77 && strstr(err.message, text))
        return true;
    printf("# %d: %s\n", status, err.message);
    return false;
}

static void errors_name_wrong_input(void)
{
    begin();
    history_turns(&h, 2, 10);
    pal_context_input input = history_input(&h);
    input.settings.threshold_percent = 101;
    CHECK(is_invalid(&input, "threshold_percent"));
    input = history_input(&h);
    input.settings.low_water_percent = 101;
    CHECK(is_invalid(&input, "low_water_percent"));
    input = history_input(&h);
    input.settings.strategy = (pal_strategy)9;
    CHECK(is_invalid(&input, "strategy 9"));
    input = history_input(&h);
    input.profile = (pal_profile)9;
    CHECK(is_invalid(&input, "profile 9"));
    input = history_input(&h);
    input.checkpoint = (pal_checkpoint){.number = 1, .seq = 1};
    CHECK(is_invalid(&input, "'messages' are not ascending: seq 1"));
    input = history_input(&h);
    input.kept = h.messages + 1;
    input.kept_len = 1;
    CHECK(is_invalid(&input, "seq 1 comes after 2"));
    pal_pruned_part pruned[] = {{2, 0}, {2, 0}};
    input = history_input(&h);
    input.pruned = pruned;
    input.pruned_len = 2;
    CHECK(is_invalid(&input, "'pruned' is not sorted"));
}

static void names_convert_both_ways(void)
{
    pal_strategy strategy = PAL_STRATEGY_NONE;
    CHECK_STR(pal_strategy_name(PAL_STRATEGY_SLIDING_WINDOW), "sliding_window");
    CHECK(pal_strategy_from_name(pal_str_of("summarization"), &strategy));
    CHECK_EQ(strategy, PAL_STRATEGY_SUMMARIZATION);
    CHECK(!pal_strategy_from_name(pal_str_of("magic"), &strategy));
    CHECK_STR(pal_disposition_name(PAL_DISPOSITION_SUMMARIZED), "summarized");
    CHECK_STR(pal_plan_action_name(PAL_PLAN_ACTION_REFUSE), "refuse");
    CHECK_STR(pal_plan_action_name((pal_plan_action)9), "unknown");
}

static void small_models_share_the_context_with_the_answer(void)
{
    pal_context_limits limits = {.context = 8192};
    CHECK_EQ(pal_context_usable(&limits), 4096);
    limits.output = 1024;
    CHECK_EQ(pal_context_usable(&limits), 7168);
    limits = (pal_context_limits){.context = 1};
    CHECK_EQ(pal_context_usable(&limits), 1);
    limits = (pal_context_limits){.output = 4096};
    CHECK_EQ(pal_context_usable(&limits), 0);
}

static void a_plan_is_readable_json(void)
{
    begin();
    history_turns(&h, 50, 500);
    h.messages[3].flags = PAL_MESSAGE_FLAG_PINNED;
    pal_context_input input = history_input(&h);
    input.limits.input = 40000;
    pal_plan plan = history_plan(&h, &input);
    pal_str text = {0};
    pal_json json = {0}, item = {0};
    uint64_t number = 0;
    CHECK_STATUS(pal_plan_to_json(&plan, arena, &text, NULL), PAL_OK);
    CHECK_STATUS(pal_json_parse(arena, text, NULL, &json, NULL), PAL_OK);
    CHECK(pal_json_string_is(pal_json_find(json, "action"), "compact"));
    CHECK(pal_json_u64(pal_json_find(pal_json_find(json, "cut"), "seq"), &number));
    CHECK_EQ(number, plan.cut_seq);
    CHECK_EQ(pal_json_count(pal_json_find(pal_json_find(json, "cut"), "keep")), 1);
    CHECK_EQ(pal_json_count(pal_json_find(json, "items")), 100);
    pal_json_iter iter = pal_json_each(pal_json_find(json, "items"));
    for (size_t i = 0; i < 4; i++)
        pal_json_next(&iter, NULL, &item);
    CHECK(pal_json_string_is(pal_json_find(item, "disposition"), "sent"));
    CHECK(pal_json_string_is(pal_json_find(item, "role"), "assistant"));
    CHECK_EQ(pal_json_type_of(pal_json_find(item, "pinned")), PAL_JSON_TRUE);
    CHECK_EQ(pal_json_raw(pal_json_find(item, "hash")).len, 18);
    plan.action = PAL_PLAN_ACTION_REFUSE;
    pal_error_set(&plan.refusal, PAL_LIMIT, "too \"much\"");
    CHECK_STATUS(pal_plan_to_json(&plan, arena, &text, NULL), PAL_OK);
    CHECK_STATUS(pal_json_parse(arena, text, NULL, &json, NULL), PAL_OK);
    CHECK(pal_json_string_is(pal_json_find(json, "refusal"), "too \"much\""));
}

/* ---- Without memory ---- */

static pal_status plan_once(const pal_context_input *input, pal_plan *out_plan)
{
    pal_arena *own = pal_arena_new(0);
    pal_str json;
    pal_message *messages;
    size_t len;
    pal_status status = own ? pal_context_plan(input, own, out_plan, NULL) : PAL_NO_MEMORY;
    if (status == PAL_OK)
        status = pal_plan_to_json(out_plan, own, &json, NULL);
    if (status == PAL_OK)
        status = pal_plan_messages(out_plan, own, &messages, &len, NULL);
    pal_arena_free(own);
    return status;
}

static void torture(const pal_context_input *input, pal_plan_action wanted)
{
    pal_plan plan = {0};
    uint64_t nth = 1;
    for (;; nth++) {
        pal_memory_fail_at(nth, 1);
        pal_status status = plan_once(input, &plan);
        bool failed = pal_memory_failed();
        pal_memory_fail_at(0, 0);
        if (!failed) {
            CHECK_STATUS(status, PAL_OK);
            CHECK_EQ(plan.action, wanted);
            break;
        }
        if (!CHECK_STATUS(status, PAL_NO_MEMORY))
            break;
    }
    CHECK_THAT(nth, >, 3);
}

static void running_out_of_memory_is_reported(void)
{
    begin();
    history_call_turns(&h, 30, 20000);
    history_image(&h, 3000);
    history_image(&h, 3000);
    pal_str pending = pal_str_of("nobody");
    pal_context_input input = history_input(&h);
    input.limits = (pal_context_limits){.input = 120000, .images = 1, .bytes = 700000};
    input.pending = &pending;
    input.pending_len = 1;
    input.system = pal_str_of("Be brief.");
    torture(&input, PAL_PLAN_ACTION_PRUNE);
    input.settings.prune_off = true;
    torture(&input, PAL_PLAN_ACTION_COMPACT);
    input.after_compaction = true;
    torture(&input, PAL_PLAN_ACTION_SEND);
    input.settings.strategy = PAL_STRATEGY_SLIDING_WINDOW;
    torture(&input, PAL_PLAN_ACTION_SEND);
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(the_oldest_images_over_the_limit_are_removed);
    RUN(unset_limits_come_from_the_provider);
    RUN(large_old_outputs_are_removed_over_the_byte_limit);
    RUN(bytes_are_counted_as_json);
    RUN(blobs_count_with_their_bytes);
    RUN(usage_reports_of_the_provider_calibrate_counts);
    RUN(the_maximum_of_a_request_can_be_set);
    RUN(the_plan_explains_a_changed_prefix);
    RUN(a_hash_covers_every_part);
    RUN(errors_name_wrong_input);
    RUN(names_convert_both_ways);
    RUN(small_models_share_the_context_with_the_answer);
    RUN(a_plan_is_readable_json);
    RUN(running_out_of_memory_is_reported);
    pal_arena_free(arena);
    return tap_done();
}
