/* test_window.c - the window's suite, for any backend: which messages of a session are loaded and
 * planned. */
#include "contract_window.h"

/* ---- Shared ---- */

pal_window window_of(pal_id session)
{
    return (pal_window){.session = session,
            .limits = {.context = 10000, .output = 2000},
            .settings = {.summary_tokens_max = 500}};
}

static uint64_t append(pal_id session, pal_message *message, uint32_t tokens)
{
    message->tokens = tokens;
    OK(pal_store_append(test.store, no_tenant(), session, message, 1, PAL_SEQ_ANY, &test.err));
    return message->seq;
}

uint64_t say_as(pal_id session, pal_role role, const char *text, uint32_t tokens)
{
    pal_message message = text_of(role, text);

    return append(session, &message, tokens);
}

void say_turns(pal_id session, size_t turns, uint32_t tokens)
{
    uint64_t seq = get_session(session).last_seq;
    pal_message *messages = pal_arena_array(test.arena, 2 * turns, sizeof *messages);

    for (size_t i = 0; i < turns; i++, seq += 2) {
        char text[32];

        snprintf(text, sizeof text, "q%llu", (unsigned long long)seq + 1);
        messages[2 * i] = text_of(PAL_ROLE_USER, pal_arena_copy(test.arena, S(text)).data);
        text[0] = 'a';
        messages[2 * i + 1] = text_of(PAL_ROLE_ASSISTANT, pal_arena_copy(test.arena, S(text)).data);
        messages[2 * i].tokens = messages[2 * i + 1].tokens = tokens;
    }
    OK(pal_store_append(
            test.store, no_tenant(), session, messages, 2 * turns, PAL_SEQ_ANY, &test.err));
}

uint64_t say_call(pal_id session, const char *id, uint32_t tokens)
{
    pal_part part = {.kind = PAL_PART_TOOL_CALL,
            .call_id = S(id),
            .name = S("read"),
            .arguments = S("{}")};
    pal_message message = {.role = PAL_ROLE_ASSISTANT, .parts = &part, .parts_len = 1};

    return append(session, &message, tokens);
}

uint64_t say_result(pal_id session, const char *id, const char *text, uint32_t tokens)
{
    pal_part part = {.kind = PAL_PART_TOOL_RESULT,
            .call_id = S(id),
            .name = S("read"),
            .text = S(text)};
    pal_message message = {.role = PAL_ROLE_TOOL, .parts = &part, .parts_len = 1};

    return append(session, &message, tokens);
}

uint64_t pin(pal_id session, uint64_t seq)
{
    pal_mark mark = {.kind = PAL_MARK_PIN, .seq = seq};

    OK(pal_store_mark(test.store, no_tenant(), session, &mark, &test.err));
    return mark.number;
}

pal_plan plan_of(const pal_window *window)
{
    pal_plan plan = {0};

    OK(pal_window_plan(test.store, window, test.arena, &plan, &test.err));
    return plan;
}

static size_t put_item(char *text, size_t size, const pal_plan *plan, size_t *at)
{
    static const char *const names[] = {"", "sys", "tools", "sum", "note", "made"};
    const pal_plan_item *items = plan->items;
    size_t first = *at, last = first;

    if (items[first].seq == 0)
        return (size_t)snprintf(text, size, "%s ", names[items[first].kind]);
    while (last + 1 < plan->items_len && items[last + 1].hash &&
            items[last + 1].kind == items[last].kind &&
            items[last + 1].seq == items[last].seq + 1)
        last++;
    *at = last;
    if (items[first].kind == PAL_PLAN_ITEM_SYSTEM)
        return (size_t)snprintf(text, size, "sys ");
    if (first == last)
        return (size_t)snprintf(text, size, "%llu ", (unsigned long long)items[first].seq);
    return (size_t)snprintf(text, size, "%llu-%llu ", (unsigned long long)items[first].seq,
            (unsigned long long)items[last].seq);
}

const char *sent_text(const pal_plan *plan)
{
    size_t size = plan->items_len * 32 + 1, len = 0;
    char *text = pal_arena_alloc(test.arena, size);

    for (size_t i = 0; i < plan->items_len; i++)
        if (plan->items[i].hash)
            len += put_item(text + len, size - len, plan, &i);
    if (len > 0)
        text[len - 1] = '\0';
    return text;
}

bool sends(const pal_plan *plan, const char *wanted)
{
    const char *text = sent_text(plan);

    if (strcmp(text, wanted) == 0)
        return true;
    printf("# sends '%s', not '%s'\n", text, wanted);
    return false;
}

const char *plan_json(const pal_window *window)
{
    pal_plan plan = plan_of(window);
    pal_str json = {0};

    OK(pal_plan_to_json(&plan, test.arena, &json, &test.err));
    return json.data;
}

/* ---- Plans ---- */

static void a_short_session_is_sent_completely(void)
{
    pal_id session = new_session();
    pal_tool tool = {.name = S("read"), .description = S("Reads a file.")};
    pal_window window = window_of(session);
    pal_plan plan;

    say_as(session, PAL_ROLE_SYSTEM, "You are kind.", 5);
    say_turns(session, 3, 10);
    window.system = S("Be brief.");
    window.tools = &tool;
    window.tools_len = 1;
    plan = plan_of(&window);
    CHECK(sends(&plan, "sys sys tools 2-7"));
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_EQ(plan.usable, 8000);
    CHECK_EQ(plan.first_seq, 2);
    CHECK_THAT(plan.tokens, >, 65);
    CHECK_THAT(plan.tokens, <, 150);
}

static void an_empty_session_has_a_plan(void)
{
    pal_window window = window_of(new_session());
    pal_plan plan = plan_of(&window);

    if (CHECK(sends(&plan, ""))) {
        CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
        CHECK_EQ(plan.tokens, 0);
    }
    window.session = pal_id_new();
    GIVES(PAL_NOT_FOUND, pal_window_plan(test.store, &window, test.arena, &plan, &test.err));
}

static void only_the_window_is_loaded(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_plan plan;

    say_as(session, PAL_ROLE_SYSTEM, "You are kind.", 5);
    say_turns(session, 1000, 100);
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_COMPACT);
    CHECK_THAT(plan.cut_seq, >, 1900);
    CHECK_THAT(plan.items_len, <, 200); /* two windows of 80 messages each */
    CHECK_EQ(plan.items[0].kind, PAL_PLAN_ITEM_SYSTEM);
    CHECK_EQ(plan.items[0].seq, 1);
    CHECK_EQ(plan.items[1].kind, PAL_PLAN_ITEM_NOTICE);
    CHECK_EQ(plan.items[2].kind, PAL_PLAN_ITEM_RANGE);
    CHECK_THAT(plan.items[2].count, >, 1800);
    CHECK_EQ(plan.items[2].tokens, plan.items[2].count * 100);
    window.settings.strategy = PAL_STRATEGY_SLIDING_WINDOW;
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_THAT(plan.tokens, <=, 8000);
    CHECK_THAT(plan.tokens, >, 7000);
    CHECK_EQ(plan.items[plan.items_len - 1].seq, 2001);
    window.settings.strategy = PAL_STRATEGY_NONE;
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_REFUSE);
    CHECK_STATUS(plan.refusal.status, PAL_LIMIT);
}

/* One turn of many steps: its question is before the loaded messages. */
static void the_question_is_found_before_the_tail(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_plan plan;

    say_turns(session, 1, 10);
    say_as(session, PAL_ROLE_USER, "Read them all.", 10);
    for (int i = 0; i < 60; i++) {
        char id[16];

        snprintf(id, sizeof id, "c%d", i);
        say_call(session, id, 50);
        say_result(session, id, "text", 450);
    }
    window.settings.strategy = PAL_STRATEGY_SLIDING_WINDOW;
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_THAT(plan.tokens, <=, 8000);
    CHECK_BEGINS(sent_text(&plan), "note 3 ");
}

static void the_newest_message_alone_can_be_too_long(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_plan plan;

    say_turns(session, 5, 100);
    say_as(session, PAL_ROLE_USER, "a book", 50000);
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_REFUSE);
    CHECK_STATUS(plan.refusal.status, PAL_LIMIT);
    CHECK_CONTAINS(plan.refusal.message, "50000 tokens, 42000 over the limit of 8000");
}

static void settings_and_limits_take_effect(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_plan plan;

    say_turns(session, 20, 100);
    window.settings.max_tokens = 1000;
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_COMPACT);
    CHECK_EQ(plan.usable, 1000);
    window.settings.auto_off = true;
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_REFUSE);
    window = window_of(session);
    window.limits = (pal_context_limits){0};
    plan = plan_of(&window);
    CHECK_EQ(plan.usable, PAL_CONTEXT_TOKENS_DEFAULT / 4 * 3);
    window.model = S("gpt-4o");
    plan = plan_of(&window);
    CHECK_EQ(plan.usable, 128000 - 16384);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
}

static void a_model_is_counted_with_its_vocabulary(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_model model = pal_models_find(NULL, S("gpt-4"));
    pal_message message = text_of(PAL_ROLE_USER, "naïve Straßenbahnhaltestelle 東京都庁舎");
    uint64_t wanted = 0;
    pal_plan plan;

    OK(pal_store_append(test.store, no_tenant(), session, &message, 1, PAL_SEQ_ANY, &test.err));
    window.model = S("gpt-4");
    plan = plan_of(&window);
    if (!model.encoding || !model.is_exact) {
        CHECK(plan.is_estimate); /* built without vocabularies */
        return;
    }
    OK(pal_tokens_message(model.encoding, &message, &wanted, &test.err));
    CHECK_EQ(plan.tokens_plain, wanted);
    CHECK_THAT(wanted, !=, message.tokens);
    CHECK(!plan.is_estimate);
}

/* ---- Images ---- */

static uint64_t say_image(pal_id session, pal_str data, bool is_nested)
{
    pal_part image = {.kind = PAL_PART_IMAGE, .media_type = S("image/png"), .data = data};
    pal_part result = {.kind = PAL_PART_TOOL_RESULT,
            .call_id = S("c"),
            .name = S("read"),
            .parts = &image,
            .parts_len = 1};
    pal_message message = {.role = is_nested ? PAL_ROLE_TOOL : PAL_ROLE_USER,
            .parts = is_nested ? &result : &image,
            .parts_len = 1};

    return append(session, &message, 100);
}

static const pal_plan_item *item_at(const pal_plan *plan, uint64_t seq)
{
    for (size_t i = 0; i < plan->items_len; i++)
        if (plan->items[i].seq == seq && plan->items[i].kind == PAL_PLAN_ITEM_MESSAGE)
            return &plan->items[i];
    return NULL;
}

/* Only their names are loaded. */
static void images_count_the_bytes_of_their_blobs(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    char *bytes = pal_arena_alloc(test.arena, 30000);
    pal_plan plan;

    memset(bytes, 'x', 30000);
    window.profile = PAL_PROFILE_ANTHROPIC;
    say_image(session, pal_str_make(bytes, 30000), false);
    say_call(session, "c", 10);
    say_image(session, pal_str_make(bytes, 15000), true);
    say_turns(session, 1, 10);
    plan = plan_of(&window);
    CHECK_EQ(plan.images, 2);
    CHECK_THAT(item_at(&plan, 1)->bytes, >, 40000);
    CHECK_THAT(item_at(&plan, 1)->bytes, <, 40500);
    if (CHECK_THAT(item_at(&plan, 3)->bytes, >, 20000))
        CHECK_THAT(item_at(&plan, 3)->bytes, <, 20500);
    CHECK_EQ(item_at(&plan, 1)->message->parts[0].data.len, 0);
    window.limits.bytes = plan.bytes - 1000;
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_EQ(plan.images, 1);
    CHECK_THAT(plan.bytes, <, window.limits.bytes);
    CHECK_EQ(item_at(&plan, 1)->disposition, PAL_DISPOSITION_SENT_PRUNED);
    window.limits.bytes = 0;
    window.limits.image_bytes = 15000;
    plan = plan_of(&window);
    CHECK_EQ(plan.images, 1);
    CHECK_EQ(item_at(&plan, 1)->disposition, PAL_DISPOSITION_SENT_REPAIRED);
    window.limits.image_bytes = 14999;
    plan = plan_of(&window);
    CHECK_EQ(plan.images, 0);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
}

static void images_over_the_limit_of_the_provider_are_removed(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_plan plan;

    for (int i = 0; i < 12; i++)
        say_image(session, S("png"), false);
    plan = plan_of(&window);
    CHECK_EQ(plan.images, 12);
    window.profile = PAL_PROFILE_MISTRAL;
    plan = plan_of(&window);
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    CHECK_EQ(plan.images, 8);
    CHECK_EQ(item_at(&plan, 4)->images, 0);
    window.limits.images = 20;
    plan = plan_of(&window);
    CHECK_EQ(plan.images, 12);
}

/* ---- What is out of sight ---- */

static void rewound_messages_are_not_among_the_omitted_ones(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We began."};
    pal_compaction_result made;
    pal_plan plan;

    say_turns(session, 50, 100); /* 1 to 100 */
    rewind_to(session, 10);
    say_turns(session, 150, 100); /* 101 to 400 */
    pin(session, 3);
    pin(session, 103);
    window.settings.strategy = PAL_STRATEGY_SLIDING_WINDOW;
    plan = plan_of(&window);
    CHECK_EQ(plan.items[1].kind, PAL_PLAN_ITEM_RANGE);
    CHECK_EQ(plan.items[1].first_seq, 1);
    /* Ten at the beginning without the pins, and from 101 on up to the start of the tail. */
    CHECK_EQ(plan.items[1].count, 10 - 2 + (plan.items[1].seq - 100));
    CHECK_THAT(plan.items[1].tokens, >, 0);
    window.settings.strategy = PAL_STRATEGY_COMPACT;
    made = compact(&window, &s);
    CHECK_THAT(made.number, >, 0);
    CHECK_THAT(made.seq, >, 300);
    plan = plan_of(&window);
    for (size_t i = 0; i < plan.items_len; i++)
        if (plan.items[i].kind == PAL_PLAN_ITEM_RANGE)
            plan.items[0] = plan.items[i];
    CHECK_EQ(plan.items[0].kind, PAL_PLAN_ITEM_RANGE);
    CHECK_EQ(plan.items[0].disposition, PAL_DISPOSITION_SUMMARIZED);
    CHECK_EQ(plan.items[0].count, 10 - 2 + (made.seq - 100));
    CHECK_EQ(plan.items[0].seq, made.seq);
}

static void the_head_counts_in_its_place(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We began."};
    pal_plan plan;

    say_as(session, PAL_ROLE_SYSTEM, "You are kind.", 5);
    say_turns(session, 10, 300);
    CHECK_THAT(compact(&window, &s).number, >, 0);
    say_turns(session, 100, 100);
    window.settings.strategy = PAL_STRATEGY_SLIDING_WINDOW;
    plan = plan_of(&window);
    for (size_t i = 0; i < plan.items_len; i++)
        if (plan.items[i].kind == PAL_PLAN_ITEM_RANGE &&
                plan.items[i].disposition == PAL_DISPOSITION_DROPPED)
            CHECK_EQ(plan.items[i].count, plan.items[i].seq + 1 - plan.items[i].first_seq);
    CHECK_EQ(plan.items[0].seq, 1);
    CHECK_EQ(plan.items[1].kind, PAL_PLAN_ITEM_NOTICE);
    CHECK_EQ(plan.items[2].kind, PAL_PLAN_ITEM_RANGE);
    CHECK_EQ(plan.items[2].count, plan.items[2].seq - 1); /* all but the head */
    CHECK_EQ(plan.items[2].tokens, plan.items[2].count * 300);
}

/* ---- Calibration ---- */

/* An answer to the planned request. */
static void say_reported(pal_id session, const pal_plan *plan, uint64_t input, const char *model)
{
    pal_message message = text_of(PAL_ROLE_ASSISTANT, "yes");

    OK(pal_plan_sent(plan, test.arena, &message.sent, &test.err));
    message.has_usage = true;
    message.usage = (pal_usage){.input = input / 4, .cache_read = input - input / 4, .output = 5};
    message.model = S(model);
    append(session, &message, 100);
}

static void reported_usage_calibrates(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_plan plan;

    say_turns(session, 10, 100);
    say_as(session, PAL_ROLE_USER, "?", 100);
    plan = plan_of(&window);
    CHECK_EQ(plan.tokens, 2100);
    CHECK_EQ(plan.tokens_plain, 2100);
    say_reported(session, &plan, 4200, "m"); /* twice as many as we count */
    say_as(session, PAL_ROLE_USER, "?", 100);
    plan = plan_of(&window);
    CHECK_EQ(plan.tokens_plain, 2300);
    CHECK_EQ(plan.tokens, 4600);
}

/* Nothing is learned from an answer whose request is unknown, and a small usage does not mean more
 * room. */
static void only_sent_messages_calibrate(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    pal_plan plan;
    pal_message imported = text_of(PAL_ROLE_ASSISTANT, "yes");

    say_turns(session, 10, 100);
    say_as(session, PAL_ROLE_USER, "?", 100);
    imported.has_usage = true;
    imported.usage.input = 9000;
    append(session, &imported, 100);
    say_as(session, PAL_ROLE_USER, "?", 100);
    plan = plan_of(&window);
    CHECK_EQ(plan.tokens, plan.tokens_plain);
    say_reported(session, &plan, 500, "m");
    say_as(session, PAL_ROLE_USER, "?", 100);
    plan = plan_of(&window);
    CHECK_EQ(plan.tokens, plan.tokens_plain);
}

/* ---- The last request ---- */

static void answer_plan(pal_id session, const pal_plan *plan)
{
    pal_message answer = text_of(PAL_ROLE_ASSISTANT, "yes");

    OK(pal_plan_sent(plan, test.arena, &answer.sent, &test.err));
    append(session, &answer, 100);
}

static void the_prefix_is_that_of_the_last_request(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    script s = {.answer = "We began."};
    pal_plan plan;

    window.system = S("Be kind.");
    say_turns(session, 10, 100);
    say_as(session, PAL_ROLE_USER, "?", 100);
    plan = plan_of(&window);
    CHECK_EQ(plan.prefix_items, 0);
    CHECK_EQ(plan.prefix_break.len, 0);
    answer_plan(session, &plan);
    uint64_t sent = plan.tokens_plain;
    say_as(session, PAL_ROLE_USER, "?", 100);
    plan = plan_of(&window);
    CHECK_EQ(plan.prefix_items, 22);
    CHECK_EQ(plan.prefix_tokens, sent);
    CHECK_EQ(plan.prefix_break.len, 0);
    window.system = S("Be brief.");
    plan = plan_of(&window);
    CHECK_EQ(plan.prefix_items, 0);
    CHECK_STR(plan.prefix_break, "the system text changed");
    window.system = S("Be kind.");
    answer_plan(session, &plan);
    CHECK_THAT(compact(&window, &s).number, >, 0);
    plan = plan_of(&window);
    CHECK_EQ(plan.prefix_items, 0); /* of the short request */
}

/* Down to the low-water mark, and then not again before the window is full. */
static void a_sliding_window_does_not_move_every_turn(void)
{
    pal_id session = new_session();
    pal_window window = window_of(session);
    uint64_t first_seq = 0;
    size_t moves = 0;

    window.settings.strategy = PAL_STRATEGY_SLIDING_WINDOW;
    for (int i = 0; i < 200; i++) {
        say_as(session, PAL_ROLE_USER, "?", 100);
        pal_plan plan = plan_of(&window);
        CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
        CHECK_THAT(plan.tokens, <=, 8000);
        moves += plan.first_seq != first_seq;
        if (first_seq && plan.first_seq == first_seq) {
            CHECK_THAT(plan.prefix_items, >, 0);
            CHECK_EQ(plan.prefix_break.len, 0);
        }
        first_seq = plan.first_seq;
        answer_plan(session, &plan);
    }
    if (!CHECK_THAT(moves, >, 5) || !CHECK_THAT(moves, <, 15))
        printf("# moved %zu times\n", moves);
}

void window_plans(void)
{
    RUN(a_short_session_is_sent_completely);
    RUN(an_empty_session_has_a_plan);
    RUN(only_the_window_is_loaded);
    RUN(the_question_is_found_before_the_tail);
    RUN(the_newest_message_alone_can_be_too_long);
    RUN(settings_and_limits_take_effect);
    RUN(a_model_is_counted_with_its_vocabulary);
    RUN(images_count_the_bytes_of_their_blobs);
    RUN(images_over_the_limit_of_the_provider_are_removed);
    RUN(rewound_messages_are_not_among_the_omitted_ones);
    RUN(the_head_counts_in_its_place);
    RUN(reported_usage_calibrates);
    RUN(only_sent_messages_calibrate);
    RUN(the_prefix_is_that_of_the_last_request);
    RUN(a_sliding_window_does_not_move_every_turn);
}

int main(int argc, char **argv)
{
    if (!contract_begin(argc, argv, false))
        return 1;
    window_plans();
    window_marks();
    window_compactions();
    window_tools();
    return contract_end();
}
