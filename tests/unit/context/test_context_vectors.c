/* test_context_vectors.c - the rules of the context, compared with the systems that they come from
 * (tests/data/vectors), and the rows in which ours differ, with the reason. */
#include "base/json/json.h"
#include "context/context_draft.h"
#include "context/context_text.h"
#include "support/context_history.h"
#include "support/vectors.h"

#define LIST_MAX 64

static pal_arena *arena;
static history h;

static void begin(void)
{
    h.len = 0;
    h.arena = arena;
}

static pal_str text_of(pal_json object, const char *name)
{
    return pal_json_string(pal_json_find(object, name), arena);
}

static uint64_t number_of(pal_json object, const char *name)
{
    uint64_t number = 0;
    pal_json_u64(pal_json_find(object, name), &number);
    return number;
}

static bool flag_of(pal_json object, const char *name)
{
    bool flag = false;
    pal_json_bool(pal_json_find(object, name), &flag);
    return flag;
}

static bool says(bool held, pal_json row, const char *member)
{
    if (!CHECK(held))
        printf("# in the row '%.*s'\n", PAL_STR_ARG(text_of(row, member)));
    return held;
}

/* ---- Overflow ---- */

static void overflow_matches_sol_plus_cache_writes(void)
{
    pal_json_iter iter =
            pal_json_each(pal_json_find(vectors_load(arena, "overflow.json"), "cases"));
    pal_json row;
    size_t rows = 0, differing = 0;
    while (pal_json_next(&iter, NULL, &row)) {
        pal_json l = pal_json_find(row, "limits"), t = pal_json_find(row, "tokens");
        pal_context_limits limits = {.context = number_of(l, "context"),
                .input = number_of(l, "input"),
                .output = number_of(l, "output")};
        pal_usage usage = {.input = number_of(t, "input"),
                .cache_read = number_of(t, "cache_read"),
                .cache_write = number_of(t, "cache_write"),
                .output = number_of(t, "output")};
        bool is = flag_of(row, "auto") && pal_context_overflow(&limits, &usage);
        bool is_sol = is == flag_of(row, "sol");
        /* Text that was written to the cache was sent: opencode is right here. */
        if (usage.cache_write) {
            differing++;
            is_sol = is == flag_of(row, "opencode");
        }
        says(is_sol, row, "note");
        rows++;
    }
    CHECK_THAT(rows, >=, 11);
    CHECK_THAT(differing, >=, 1);
}

static void overflow_is_exact_at_its_limits(void)
{
    static const struct {
        pal_context_limits limits;
        pal_usage usage;
        bool is_over;
    } rows[] = {
            {{.context = 100000, .output = 32000}, {.input = 68000}, false},
            {{.context = 100000, .output = 32000}, {.input = 60000, .output = 8001}, true},
            {{.context = 100000, .output = 64000}, {.input = 68000}, false},
            {{.context = 100000, .output = 64000}, {.input = 68001}, true},
            {{.context = 100000, .output = 4096}, {.input = 95904}, false},
            {{.context = 100000, .output = 4096}, {.input = 95904, .cache_read = 1}, true},
            {{.context = 100000, .input = 90000, .output = 50000}, {.input = 90000}, false},
            {{.context = 100000, .input = 90000}, {.input = 90000, .output = 1}, true},
            {{.context = 32000}, {.input = 0}, false},
            {{.context = 32000}, {.input = 1}, true},
            {{.context = 16000}, {.input = 0}, true},
            {{.context = 0, .input = 1000}, {.input = 2000}, false},
            {{.context = 0}, {.input = UINT64_MAX}, false},
            {{.context = UINT64_MAX}, {.input = UINT64_MAX, .output = UINT64_MAX}, true},
            {{.context = 100000}, {.input = 0, .reasoning = 90000}, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!CHECK_EQ(pal_context_overflow(&rows[i].limits, &rows[i].usage), rows[i].is_over))
            printf("# row %zu\n", i);
}

/* ---- Prune ---- */

/* Rows have up to LIST_MAX parts that are pending, or were compacted before. */
typedef struct prune_case {
    pal_str pending[LIST_MAX];
    size_t pending_len;
    pal_pruned_part before[LIST_MAX];
    size_t before_len;
} prune_case;

static void add_prune_part(pal_json row, pal_part *part, prune_case *c)
{
    pal_str type = text_of(row, "type"), status = text_of(row, "status");
    char id[32];
    snprintf(id, sizeof id, "call-%zu-%p", h.len, (void *)part);
    part->kind = PAL_PART_TOOL_RESULT;
    if (pal_str_is(type, "image"))
        part->kind = PAL_PART_IMAGE;
    if (pal_str_is(type, "file"))
        part->kind = PAL_PART_FILE;
    part->name = text_of(row, "name");
    if (text_of(row, "filename").len)
        part->name = text_of(row, "filename");
    part->text = history_text(&h, 'x', number_of(row, "output_len"));
    part->call_id = pal_arena_copy(arena, pal_str_of(id));
    part->is_error = pal_str_is(status, "error");
    if (pal_str_is(status, "running") || pal_str_is(status, "pending"))
        c->pending[c->pending_len++] = part->call_id;
}

static void build_prune(pal_json messages, prune_case *c)
{
    pal_json_iter iter = pal_json_each(messages);
    pal_json row, part;
    begin();
    while (pal_json_next(&iter, NULL, &row)) {
        pal_json parts = pal_json_find(row, "parts");
        pal_json_iter each = pal_json_each(parts);
        pal_message *message =
                history_add(&h, pal_role_from_name(text_of(row, "role")), pal_json_count(parts));
        message->flags = flag_of(row, "summary") ? PAL_MESSAGE_FLAG_SUMMARY : 0;
        for (uint32_t i = 0; pal_json_next(&each, NULL, &part); i++) {
            add_prune_part(part, &message->parts[i], c);
            if (flag_of(part, "compacted"))
                c->before[c->before_len++] = (pal_pruned_part){message->seq, i};
        }
    }
}

static const char *part_after(const pal_part *part, bool is_pruned)
{
    static char text[1024];
    if (part->kind == PAL_PART_TOOL_RESULT)
        return is_pruned ? "tool:compacted" : "tool";
    if (!is_pruned)
        return part->kind == PAL_PART_IMAGE ? "image" : "file";
    snprintf(text, sizeof text, "text:%.*s", PAL_STR_ARG(pal_text_placeholder(arena, part)));
    return text;
}

static bool is_among(const pal_pruned_part *list, size_t len, size_t message, size_t part)
{
    for (size_t i = 0; i < len; i++)
        if (list[i].seq == message + 1 && list[i].part == part)
            return true;
    return false;
}

static void check_prune(pal_json row)
{
    prune_case c = {.pending_len = 0};
    size_t len = 0, seen = 0;
    pal_pruned_part *pruned = NULL;
    uint64_t tokens;
    build_prune(pal_json_find(row, "messages"), &c);
    pal_context_input input = history_input(&h);
    input.pending = c.pending;
    input.pending_len = c.pending_len;
    input.pruned = c.before;
    input.pruned_len = c.before_len;
    input.settings.prune_off = !flag_of(row, "prune_enabled");
    CHECK_STATUS(pal_context_prune(&input, arena, &pruned, &len, &tokens, NULL), PAL_OK);
    says(len == number_of(row, "expect_returned"), row, "note");
    pal_json_iter iter = pal_json_each(pal_json_find(row, "expect_parts"));
    pal_json parts, part;
    for (size_t i = 0; pal_json_next(&iter, NULL, &parts); i++) {
        pal_json_iter each = pal_json_each(parts);
        for (size_t j = 0; pal_json_next(&each, NULL, &part); j++) {
            bool is_now = is_among(pruned, len, i, j);
            bool is_pruned = is_now || is_among(c.before, c.before_len, i, j);
            seen += is_now;
            says(pal_json_string_is(part, part_after(&h.messages[i].parts[j], is_pruned)), row,
                    "note");
        }
    }
    CHECK_EQ(seen, len);
}

/* Rows like those of the file, for cases that the file does not have. */
static void prune_is_exact_at_its_limits(void)
{
    static const char rows[] =
            "[{\"note\":\"off\",\"prune_enabled\":false,\"expect_returned\":0,\"messages\":"
            "[{\"role\":\"user\"},{\"role\":\"tool\",\"parts\":[{\"type\":\"tool\","
            "\"output_len\":400000}]},{\"role\":\"user\"},{\"role\":\"user\"}],"
            "\"expect_parts\":[[],[\"tool\"],[],[]]},"
            "{\"note\":\"one went before: what is older went with it\",\"prune_enabled\":true,"
            "\"expect_returned\":0,\"messages\":[{\"role\":\"user\"},{\"role\":\"tool\","
            "\"parts\":[{\"type\":\"tool\",\"output_len\":400000}]},{\"role\":\"tool\",\"parts\":"
            "[{\"type\":\"tool\",\"output_len\":400000,\"compacted\":true}]},"
            "{\"role\":\"user\"},{\"role\":\"user\"}],"
            "\"expect_parts\":[[],[\"tool\"],[\"tool:compacted\"],[],[]]},"
            "{\"note\":\"files, with a name and without\",\"prune_enabled\":true,"
            "\"expect_returned\":3,\"messages\":[{\"role\":\"user\",\"parts\":["
            "{\"type\":\"file\",\"name\":\"a.pdf\"},{\"type\":\"file\"},"
            "{\"type\":\"tool\",\"output_len\":160004}]},{\"role\":\"user\"},"
            "{\"role\":\"user\"}],\"expect_parts\":[[\"text:[File a.pdf removed from context]\","
            "\"text:[File removed from context]\",\"tool:compacted\"],[],[]]},"
            "{\"note\":\"the second last user's own parts are looked at\",\"prune_enabled\":true,"
            "\"expect_returned\":1,\"messages\":[{\"role\":\"user\",\"parts\":[{\"type\":"
            "\"tool\",\"output_len\":160004}]},{\"role\":\"user\"}],"
            "\"expect_parts\":[[\"tool:compacted\"],[]]},"
            "{\"note\":\"one turn\",\"prune_enabled\":true,\"expect_returned\":0,\"messages\":"
            "[{\"role\":\"user\",\"parts\":[{\"type\":\"tool\",\"output_len\":400000}]}],"
            "\"expect_parts\":[[\"tool\"]]},"
            "{\"note\":\"nothing\",\"prune_enabled\":true,\"expect_returned\":0,"
            "\"messages\":[],\"expect_parts\":[]}]";
    pal_json list, row;
    CHECK_STATUS(pal_json_parse(arena, pal_str_of(rows), NULL, &list, NULL), PAL_OK);
    pal_json_iter iter = pal_json_each(list);
    size_t count = 0;
    for (; pal_json_next(&iter, NULL, &row); count++)
        check_prune(row);
    CHECK_EQ(count, 6);
}

static void prune_matches_sol(void)
{
    pal_json_iter iter = pal_json_each(pal_json_find(vectors_load(arena, "prune.json"), "cases"));
    pal_json row;
    size_t rows = 0;
    for (; pal_json_next(&iter, NULL, &row); rows++)
        check_prune(row);
    CHECK_THAT(rows, >=, 10);
}

/* ---- Loom ---- */

/* If Loom's request begins with the assistant, ours begins with the question before it, because
 * some services refuse the other. That is one message less in the notice. Returns the number of
 * such rows. */
static size_t find_opening(const pal_plan *plan)
{
    const pal_plan_item *first = NULL, *second = NULL;
    for (size_t i = 0; i < plan->items_len && !second; i++) {
        const pal_plan_item *item = &plan->items[i];
        if (item->hash == 0 || item->kind != PAL_PLAN_ITEM_MESSAGE)
            continue;
        second = first ? item : NULL;
        first = first ? first : item;
    }
    return second && first->message->role == PAL_ROLE_USER &&
                    pal_str_is(first->reason, "kept")
            ? 1
            : 0;
}

/* "system#0", a notice unchanged, "user#3": the notation of Loom's results. */
static void check_loom_items(const pal_plan *plan, pal_json row)
{
    pal_json_iter iter = pal_json_each(pal_json_find(row, "result"));
    pal_json wanted;
    size_t at = 0, opening = find_opening(plan);
    while (pal_json_next(&iter, NULL, &wanted)) {
        char label[128] = "nothing";
        while (at < plan->items_len && plan->items[at].hash == 0)
            at++;
        if (at < plan->items_len) {
            const pal_plan_item *item = &plan->items[at++];
            if (item->kind == PAL_PLAN_ITEM_NOTICE && opening) {
                unsigned left_out = 0;
                const char *number = plan_text(item).data + strlen("[Note: ");
                CHECK_EQ(sscanf(number, "%u", &left_out), 1);
                snprintf(label, sizeof label,
                        "[Note: %u older messages dropped to fit context window]", left_out + 1);
                while (at < plan->items_len && plan->items[at].hash == 0)
                    at++;
                CHECK_EQ(plan->items[at++].message->role, PAL_ROLE_USER);
            } else if (item->kind == PAL_PLAN_ITEM_NOTICE)
                snprintf(label, sizeof label, "%.*s", PAL_STR_ARG(plan_text(item)));
            else if (item->kind == PAL_PLAN_ITEM_SYSTEM)
                snprintf(label, sizeof label, "system#0");
            else
                snprintf(label, sizeof label, "%s#%" PRIu64, pal_role_name(item->message->role),
                        item->seq - 1);
        }
        if (!CHECK(pal_json_string_is(wanted, label)))
            printf("# is '%s', not %.*s\n", label, PAL_STR_ARG(pal_json_raw(wanted)));
    }
    while (at < plan->items_len && plan->items[at].hash == 0)
        at++;
    says(at == plan->items_len, row, "note");
}

/* Message 0 is the head; message n has seq n + 1. */
static pal_context_input loom_input(const uint64_t *sizes, size_t len, pal_message *head)
{
    begin();
    history_say(&h, PAL_ROLE_SYSTEM, sizes[0], (uint32_t)(sizes[0] / 4));
    for (size_t i = 1; i < len; i++)
        history_say(
                &h, i % 2 ? PAL_ROLE_USER : PAL_ROLE_ASSISTANT, sizes[i], (uint32_t)(sizes[i] / 4));
    for (size_t i = 0; i < h.len; i++)
        h.messages[i].seq = i + 1;
    *head = h.messages[0];
    pal_context_input input = history_input(&h);
    input.head = head;
    input.messages++;
    input.messages_len--;
    input.settings.strategy = PAL_STRATEGY_SLIDING_WINDOW;
    return input;
}

static bool loom_loses_last(pal_json row, size_t len)
{
    pal_json_iter iter = pal_json_each(pal_json_find(row, "result"));
    pal_json wanted;
    pal_str last = {0};
    char end[32];
    snprintf(end, sizeof end, "#%zu", len - 1);
    while (pal_json_next(&iter, NULL, &wanted))
        last = pal_json_string(wanted, arena);
    return last.len < strlen(end) ||
            memcmp(last.data + last.len - strlen(end), end, strlen(end)) != 0;
}

static void sliding_window_matches_loom(void)
{
    pal_json_iter iter =
            pal_json_each(pal_json_find(vectors_load(arena, "loom.json"), "handleTokenLimits"));
    pal_json row, size;
    size_t rows = 0, refused = 0;
    for (; pal_json_next(&iter, NULL, &row); rows++) {
        uint64_t sizes[LIST_MAX];
        size_t len = 0;
        pal_message head;
        pal_json_iter each = pal_json_each(pal_json_find(row, "sizes_chars"));
        while (len < LIST_MAX && pal_json_next(&each, NULL, &size))
            pal_json_u64(size, &sizes[len++]);
        pal_context_input input = loom_input(sizes, len, &head);
        input.limits.context = number_of(row, "model_limit");
        pal_plan plan = history_plan(&h, &input);
        /* Loom loses the newest message if it alone is over Loom's 80 %. We send it as long as the
         * model accepts it; otherwise the plan fails with an error. */
        if (len > 1 && loom_loses_last(row, len)) {
            uint64_t least = sizes[0] / 4 + sizes[len - 1] / 4;
            char words[80];
            refused++;
            snprintf(words, sizeof words, "%" PRIu64 " tokens, %" PRIu64 " over the limit", least,
                    least - input.limits.context);
            if (least > input.limits.context)
                says(plan.action == PAL_PLAN_ACTION_REFUSE && strstr(plan.refusal.message, words),
                        row, "note");
            else
                says(plan_item(&plan, len)->hash != 0, row, "note");
            continue;
        }
        check_loom_items(&plan, row);
        says((plan.action == PAL_PLAN_ACTION_REFUSE) == (plan.tokens > input.limits.context), row,
                "note");
    }
    CHECK_THAT(rows, >=, 6);
    CHECK_THAT(refused, >=, 1);
}

/* The shares of the rows are the percentages that the function takes; the plan uses a half. */
static void retry_matches_loom(void)
{
    pal_json_iter iter = pal_json_each(
            pal_json_find(vectors_load(arena, "loom.json"), "truncateMessages_retry"));
    pal_json row;
    size_t rows = 0;
    for (; pal_json_next(&iter, NULL, &row); rows++) {
        uint64_t sizes[LIST_MAX], len = number_of(row, "messages");
        double fraction = 0;
        pal_message head;
        pal_json_f64(pal_json_find(row, "fraction"), &fraction);
        size_t left_out = pal_context_retry_left_out(len, (uint32_t)(fraction * 100));
        size_t wanted = pal_json_count(pal_json_find(row, "result"));
        CHECK_EQ(len - left_out + (left_out > 0), wanted);
        if (fraction != 0.5)
            continue;
        for (size_t i = 0; i < len; i++)
            sizes[i] = 40;
        pal_context_input input = loom_input(sizes, len, &head);
        input.after_overflow = true;
        pal_plan plan = history_plan(&h, &input);
        check_loom_items(&plan, row);
        if (!CHECK_EQ((plan.action == PAL_PLAN_ACTION_REFUSE), (left_out == 0)))
            printf("# %" PRIu64 ": %s\n", len, plan_sent(&plan));
    }
    CHECK_THAT(rows, >=, 7);
}

/* ---- What a checkpoint stands for ---- */

typedef struct stored {
    pal_str id;
    bool is_compaction;
    pal_str tail;
    bool is_summary; /* it counts: finished, without an error */
} stored;

static stored read_stored(pal_json row, bool needs_finish)
{
    stored s = {.id = pal_json_string(row, arena)};
    if (pal_json_type_of(row) != PAL_JSON_OBJECT)
        return s;
    pal_json compaction = pal_json_find(row, "compaction");
    s.id = text_of(row, "id");
    s.is_compaction = pal_json_type_of(compaction) == PAL_JSON_OBJECT;
    s.tail = text_of(compaction, "tail");
    s.is_summary = flag_of(row, "summary") && !flag_of(row, "error") &&
            (!needs_finish || text_of(row, "finish").len);
    return s;
}

static const pal_str none;

static size_t find_id(const stored *list, size_t len, pal_str id)
{
    for (size_t i = 0; i < len; i++) {
        if (pal_str_equal(list[i].id, id))
            return i;
    }
    return len;
}

/* The rows of a compaction are separate rows here, not messages: the messages that the newest valid
 * compaction hides are before the checkpoint, and the pair of it and its summary replaces them. */
static void check_filter(pal_json row, bool is_sol)
{
    stored list[LIST_MAX];
    size_t len = 0, summary = LIST_MAX, tail = 0;
    pal_json_iter iter = pal_json_each(pal_json_find(row, "messages"));
    pal_json item;
    while (len < LIST_MAX && pal_json_next(&iter, NULL, &item))
        list[len++] = read_stored(item, !is_sol);
    for (size_t i = 0; i < len; i++)
        summary = list[i].is_summary ? i : summary;
    if (summary < len) {
        pal_str start = is_sol ? none : list[summary - 1].tail;
        tail = start.len ? find_id(list, len, start) : summary + 1;
    }
    pal_message messages[LIST_MAX];
    pal_str ids[LIST_MAX] = {{0}};
    size_t messages_len = 0;
    begin();
    for (size_t i = tail; i < len; i++) {
        bool is_old = i < summary && summary < len && (list[i].is_compaction || list[i].is_summary);
        if (i == summary || (!is_sol && summary < len && i + 1 == summary) || is_old)
            continue;
        bool is_user = list[i].id.data[0] == 'u' || list[i].id.data[0] == 'c';
        pal_message *message = history_say(&h, is_user ? PAL_ROLE_USER : PAL_ROLE_ASSISTANT, 8, 0);
        message->seq = i + 1;
        ids[messages_len] = list[i].id;
        messages[messages_len++] = *message;
    }
    pal_context_input input = {.messages = messages, .messages_len = messages_len};
    if (summary < len)
        input.checkpoint =
                (pal_checkpoint){.number = 1, .seq = tail, .summary = pal_str_of("the summary")};
    pal_plan plan = history_plan(&h, &input);
    pal_json wanted;
    size_t at = 0, message = 0;
    iter = pal_json_each(pal_json_find(row, "result"));
    for (size_t i = 0; pal_json_next(&iter, NULL, &wanted); i++) {
        while (at < plan.items_len && plan.items[at].hash == 0)
            at++;
        if (is_sol && i == 0 && summary < len)
            at++; /* the question that it answers */
        pal_str id = at < plan.items_len && plan.items[at].kind == PAL_PLAN_ITEM_SUMMARY
                ? list[is_sol || i == 1 ? summary : summary - 1].id
                : ids[message++];
        at++;
        says(pal_str_equal(pal_json_string(wanted, arena), id), row, "note");
    }
    while (at < plan.items_len && (plan.items[at].hash == 0 || plan.items[at].seq == 0))
        at++;
    says(at == plan.items_len && message == messages_len, row, "note");
}

static void checkpoints_match_opencode(void)
{
    pal_json file = vectors_load(arena, "compaction_filter.json"), row;
    pal_json_iter iter = pal_json_each(pal_json_find(file, "cases"));
    size_t rows = 0;
    for (; pal_json_next(&iter, NULL, &row); rows++)
        check_filter(row, false);
    iter = pal_json_each(pal_json_find(file, "sol_filter_compacted"));
    for (; pal_json_next(&iter, NULL, &row); rows++)
        check_filter(row, true);
    CHECK_THAT(rows, >=, 12);
}

/* ---- Which tail a compaction keeps ---- */

/* "x*2000" is 2000 letters. */
static pal_str tail_text(pal_str said)
{
    if (said.len > 2 && said.data[1] == '*')
        return history_text(&h, said.data[0], (size_t)strtoul(said.data + 2, NULL, 10));
    return said;
}

/* "recent turn -> assistant z*2000 -> assistant 'keep tail'": a turn of several messages. */
static void add_tail_turn(pal_str turn)
{
    static const char arrow[] = " -> ", by[] = "assistant ";
    while (turn.len) {
        const char *end = memmem(turn.data, turn.len, arrow, strlen(arrow));
        pal_str said = pal_str_make(turn.data, end ? (size_t)(end - turn.data) : turn.len);
        turn.data += said.len + (end ? strlen(arrow) : 0);
        turn.len -= said.len + (end ? strlen(arrow) : 0);
        bool is_answer = said.len > strlen(by) && memcmp(said.data, by, strlen(by)) == 0;
        if (is_answer)
            said = pal_str_make(said.data + strlen(by), said.len - strlen(by));
        pal_message *message =
                history_say(&h, is_answer ? PAL_ROLE_ASSISTANT : PAL_ROLE_USER, 1, 0);
        message->parts[0].text = tail_text(said);
    }
}

/* Without opencode's limit of turns: a row that needs it is left out, and counted. If opencode
 * keeps no tail at all, we keep the last user message. */
static void tails_match_opencode(void)
{
    pal_json file = vectors_load(arena, "compaction_filter.json"), row;
    pal_json_iter iter =
            pal_json_each(pal_json_find(pal_json_find(file, "tail_selection"), "cases"));
    size_t rows = 0, checked = 0;
    for (; pal_json_next(&iter, NULL, &row); rows++) {
        pal_json_iter users = pal_json_each(pal_json_find(row, "users"));
        pal_json user;
        pal_str start = text_of(row, "tail_start");
        bool is_split = start.len > 10 && memcmp(start.data, "assistant ", 10) == 0;
        begin();
        while (pal_json_next(&users, NULL, &user))
            add_tail_turn(pal_json_string(user, arena));
        if (h.len == 0 || number_of(row, "preserve_recent_tokens") > 100)
            continue;
        if (memmem(h.messages[1].parts[0].text.data, h.messages[1].parts[0].text.len, "image", 5))
            h.messages[1].tokens = 1500;
        pal_context_input input = history_input(&h);
        input.after_overflow = true;
        input.settings.preserve_recent_tokens = number_of(row, "preserve_recent_tokens");
        pal_plan plan = history_plan(&h, &input);
        if (!says(plan.action == PAL_PLAN_ACTION_COMPACT && plan.cut_seq == h.len - 1, row, "note"))
            printf("# cut at %" PRIu64 " of %zu\n", plan.cut_seq, h.len);
        if (is_split) {
            if (CHECK_EQ(plan.keep_len, 1))
                CHECK_EQ(plan.keep_seqs[0], 2);
        } else {
            CHECK_EQ(plan.keep_len, 0);
            CHECK_EQ(h.messages[h.len - 1].role, PAL_ROLE_USER);
        }
        checked++;
    }
    CHECK_THAT(rows, >=, 7);
    CHECK_THAT(checked, >=, 4);
}

/* ---- PicoClaw's boundaries ---- */

static void boundaries_match_picoclaw(void)
{
    pal_json_iter iter = pal_json_each(
            pal_json_find(vectors_load(arena, "picoclaw_history.json"), "find_safe_boundary"));
    pal_json row;
    size_t rows = 0;
    for (; pal_json_next(&iter, NULL, &row); rows++) {
        pal_str words = text_of(row, "history");
        begin();
        for (size_t i = 0; i < words.len; i++) {
            if (i > 0 && words.data[i - 1] != ' ')
                continue;
            pal_role role = words.data[i] == 'u' ? PAL_ROLE_USER : PAL_ROLE_ASSISTANT;
            history_say(&h, words.data[i] == 't' ? PAL_ROLE_TOOL : role, 1, 0);
        }
        size_t is = pal_context_boundary(h.messages, h.len, number_of(row, "target"));
        if (!says(is == number_of(row, "want"), row, "history"))
            printf("# is %zu\n", is);
    }
    CHECK_THAT(rows, >=, 10);
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(overflow_matches_sol_plus_cache_writes);
    RUN(overflow_is_exact_at_its_limits);
    RUN(prune_matches_sol);
    RUN(prune_is_exact_at_its_limits);
    RUN(sliding_window_matches_loom);
    RUN(retry_matches_loom);
    RUN(checkpoints_match_opencode);
    RUN(tails_match_opencode);
    RUN(boundaries_match_picoclaw);
    pal_arena_free(arena);
    return tap_done();
}
