/* cmd_context.c - `palaver context`: shows what the model would receive from a session now, what
 * it would not receive, and why. */
#include "cli/cli.h"

#include <string.h>

#define WIDTH_MIN 20
#define BAR_WIDTH_MAX 240
#define TEXT_WIDTH_MAX 80 /* longer lines are hard to read */

/* The parts of the bar. */
typedef enum share {
    SHARE_SYSTEM,
    SHARE_TOOLS,
    SHARE_SUMMARY, /* summaries and notices */
    SHARE_NOTES,
    SHARE_PINNED,
    SHARE_MESSAGES,
    SHARES,
} share;

static const char letters[SHARES] = {'s', 't', '=', 'n', 'p', '#'};
static const char *const share_names[SHARES] = {
        "system", "tools", "summary", "notes", "pinned", "messages"};

static size_t width_of(const pal_cli *cli)
{
    if (cli->width < WIDTH_MIN)
        return WIDTH_MIN;
    return cli->width < BAR_WIDTH_MAX ? (size_t)cli->width : BAR_WIDTH_MAX;
}

static size_t text_width_of(const pal_cli *cli)
{
    return width_of(cli) < TEXT_WIDTH_MAX ? width_of(cli) : TEXT_WIDTH_MAX;
}

/* ---- The bar ---- */

static share share_of(const pal_plan_item *item)
{
    switch (item->kind) {
    case PAL_PLAN_ITEM_SYSTEM:
        return SHARE_SYSTEM;
    case PAL_PLAN_ITEM_TOOLS:
        return SHARE_TOOLS;
    case PAL_PLAN_ITEM_SUMMARY:
    case PAL_PLAN_ITEM_NOTICE:
        return SHARE_SUMMARY;
    case PAL_PLAN_ITEM_NOTES:
    case PAL_PLAN_ITEM_NOTE:
        return SHARE_NOTES;
    default:
        return item->is_pinned ? SHARE_PINNED : SHARE_MESSAGES;
    }
}

/* Tokens as the provider would count them. Each share gets its part of the corrected sum.
 * Running totals are rounded, so that the shares add up to the sum. */
typedef struct shares {
    uint64_t tokens[SHARES];
    uint64_t sum;
} shares;

static shares shares_of(const pal_plan *plan)
{
    uint64_t plain[SHARES] = {0}, seen = 0, given = 0;
    shares all = {.sum = plan->tokens};
    for (size_t i = 0; i < plan->items_len; i++) {
        if (plan->items[i].hash)
            plain[share_of(&plan->items[i])] += plan->items[i].tokens;
    }
    for (size_t i = 0; i < SHARES && plan->tokens_plain; i++) {
        seen += plain[i];
        double end = (double)plan->tokens * (double)seen / (double)plan->tokens_plain;
        uint64_t until = seen == plan->tokens_plain ? plan->tokens : (uint64_t)(end + 0.5);
        all.tokens[i] = until - given;
        given = until;
    }
    return all;
}

static void put_bar(pal_cli *cli, const shares *all, uint64_t whole)
{
    uint64_t seen = 0;
    size_t at = 0, cells = width_of(cli) - 2;
    pal_buf_append_char(&cli->out, '[');
    for (size_t i = 0; i < SHARES; i++) {
        seen += all->tokens[i];
        size_t until = (size_t)((double)seen / (double)whole * (double)cells + 0.5);
        if (all->tokens[i] && until <= at)
            until = at + 1; /* every share that is not empty is visible */
        for (; at < until && at < cells; at++)
            pal_buf_append_char(&cli->out, letters[i]);
    }
    for (; at < cells; at++)
        pal_buf_append_char(&cli->out, '.');
    pal_buf_append_text(&cli->out, "]\n");
}

/* Prints one entry of the legend, on a new line if the current line is full. */
static void put_entry(pal_cli *cli, char letter, const char *name, uint64_t tokens, size_t *column)
{
    pal_buf entry;
    pal_buf_init(&entry, 128);
    pal_buf_format(&entry, "%c %s ", letter, name);
    pal_cli_number_text(&entry, tokens);
    bool is_next = *column && *column + 2 + entry.len <= width_of(cli);
    if (*column)
        pal_buf_append_text(&cli->out, is_next ? "  " : "\n");
    *column = is_next ? *column + 2 + entry.len : entry.len;
    pal_buf_append_str(&cli->out, pal_buf_str(&entry));
    pal_buf_done(&entry);
}

static void put_legend(pal_cli *cli, const shares *all, const pal_plan *plan)
{
    size_t column = 0;
    for (size_t i = 0; i < SHARES; i++) {
        if (all->tokens[i])
            put_entry(cli, letters[i], share_names[i], all->tokens[i], &column);
    }
    if (plan->usable > plan->tokens)
        put_entry(cli, '.', "free", plan->usable - plan->tokens, &column);
    if (column)
        pal_buf_append_char(&cli->out, '\n');
}

static void put_percent(pal_cli *cli, const pal_plan *plan)
{
    double percent = 100 * (double)plan->tokens / (double)plan->usable;
    if (plan->tokens && percent < 1)
        pal_buf_append_text(&cli->out, ", <1 %");
    else
        pal_buf_format(&cli->out, ", %.0f %%", percent);
}

/* Explains why the numbers differ from those counted here. */
static void put_correction(pal_cli *cli, const pal_plan *plan)
{
    pal_buf text;
    if (plan->tokens == plan->tokens_plain || plan->tokens_plain == 0)
        return;
    pal_buf_init(&text, 256);
    pal_buf_format(&text, "The provider reports %.2f times as many tokens as are counted here, ",
            (double)plan->tokens / (double)plan->tokens_plain);
    pal_cli_number_text(&text, plan->tokens_plain);
    pal_buf_append_text(&text, "; all numbers above are the provider's.");
    pal_cli_wrap(&cli->out, pal_buf_str(&text), 0, (int)text_width_of(cli));
    pal_buf_done(&text);
}

static void put_window(pal_cli *cli, const pal_plan *plan)
{
    shares all = shares_of(plan);
    pal_buf_append_text(&cli->out, plan->is_estimate ? "About " : "");
    pal_cli_number_text(&cli->out, plan->tokens);
    if (plan->usable) {
        pal_buf_append_text(&cli->out, " of ");
        pal_cli_number_text(&cli->out, plan->usable);
    }
    pal_buf_append_text(&cli->out, " tokens");
    if (plan->usable)
        put_percent(cli, plan);
    pal_buf_append_text(&cli->out, ":\n");
    uint64_t whole = plan->usable > plan->tokens ? plan->usable : plan->tokens;
    put_bar(cli, &all, whole ? whole : 1);
    put_legend(cli, &all, plan);
    put_correction(cli, plan);
}

/* ---- The items ---- */

static bool is_same_line(const pal_plan_item *a, const pal_plan_item *b)
{
    return a->kind == b->kind && a->disposition == b->disposition &&
            (a->hash == 0) == (b->hash == 0) && a->is_pinned == b->is_pinned &&
            b->kind != PAL_PLAN_ITEM_RANGE && pal_str_equal(a->reason, b->reason) &&
            (a->seq != 0) == (b->seq != 0);
}

static pal_str messages_text(pal_cli *cli, const pal_plan_item *first, const pal_plan_item *last)
{
    static const char *const names[] = {"", "system", "tools", "summary", "notice", "created"};
    char text[64];
    if (first->kind == PAL_PLAN_ITEM_NOTES || first->kind == PAL_PLAN_ITEM_NOTE)
        return pal_str_of(first->kind == PAL_PLAN_ITEM_NOTES ? "notes" : "note");
    if (first->seq == 0 && first->kind < PAL_PLAN_ITEM_RANGE)
        return pal_str_of(names[first->kind]);
    if (first->first_seq == last->seq)
        snprintf(text, sizeof text, "%llu", (unsigned long long)last->seq);
    else
        snprintf(text, sizeof text, "%llu-%llu", (unsigned long long)first->first_seq,
                (unsigned long long)last->seq);
    return pal_arena_copy(cli->arena, pal_str_of(text));
}

/* The reason may contain untrusted text: the id of a call, the name of a file. */
static pal_str clean_reason(pal_cli *cli, pal_str reason)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_CLI_OUT_MAX);
    pal_cli_clean(&buf, reason, false);
    pal_str clean = pal_arena_copy(cli->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return clean;
}

/* Prints the items. Neighbors with the same properties share one line. */
static void put_items(pal_cli *cli, const pal_plan *plan)
{
    pal_cli_table table = {.columns = 5,
            .heads = {"MESSAGES", "COUNT", "TOKENS", "WHAT", "WHY"},
            .right = {false, true, true, false, false},
            .shrink = 4};
    for (size_t i = 0; i < plan->items_len; i++) {
        const pal_plan_item *first = &plan->items[i];
        uint64_t count = 0, tokens = 0;
        size_t last = i;
        while (last + 1 < plan->items_len && is_same_line(first, &plan->items[last + 1]))
            last++;
        for (size_t j = i; j <= last; j++) {
            count += plan->items[j].count;
            tokens += plan->items[j].tokens;
        }
        pal_cli_table_cell(cli, &table, messages_text(cli, first, &plan->items[last]));
        pal_cli_table_cell_u64(cli, &table, count);
        pal_cli_table_cell_u64(cli, &table, tokens);
        pal_cli_table_cell(cli, &table, pal_str_of(pal_disposition_name(first->disposition)));
        pal_cli_table_cell(cli, &table, clean_reason(cli, first->reason));
        i = last;
    }
    if (plan->items_len == 0)
        return;
    pal_buf_append_char(&cli->out, '\n');
    pal_cli_table_print(cli, &table);
}

static void put_next(pal_cli *cli, const pal_plan *plan)
{
    pal_buf text;
    pal_buf_init(&text, 4096);
    pal_buf_format(&text, "Next: %s, strategy %s: %.*s", pal_plan_action_name(plan->action),
            pal_strategy_name(plan->strategy), PAL_STR_ARG(plan->reason));
    if (plan->action == PAL_PLAN_ACTION_REFUSE)
        pal_buf_format(&text, "; %s", plan->refusal.message);
    pal_buf_append_char(&text, '.');
    if (plan->action == PAL_PLAN_ACTION_COMPACT)
        pal_buf_format(&text, " A summary would replace the messages up to %llu, %llu tokens.",
                (unsigned long long)plan->cut_seq, (unsigned long long)plan->cut_tokens);
    if (plan->action == PAL_PLAN_ACTION_PRUNE)
        pal_buf_format(&text, " Clearing %zu old outputs frees %llu tokens.", plan->prune_len,
                (unsigned long long)plan->prune_tokens);
    if (plan->repairs)
        pal_buf_format(&text, " %u %s made to meet the provider's rules.", plan->repairs,
                plan->repairs == 1 ? "change is" : "changes are");
    pal_buf_append_char(&cli->out, '\n');
    pal_cli_wrap(&cli->out, pal_buf_str(&text), 0, (int)text_width_of(cli));
    if (text.failure)
        cli->out.failure = text.failure;
    pal_buf_done(&text);
}

void pal_cli_context_print(pal_cli *cli, const pal_plan *plan)
{
    put_window(cli, plan);
    put_items(cli, plan);
    put_next(cli, plan);
}

/* ---- The command ---- */

static pal_status print_plan(pal_cli *cli, const pal_window *window, const pal_plan *plan)
{
    pal_str json;
    if (cli->json) {
        pal_status status = pal_plan_to_json(plan, cli->arena, &json, &cli->err);
        if (status != PAL_OK)
            return status;
        pal_buf_append_str(&cli->out, json);
        pal_buf_append_char(&cli->out, '\n');
        return PAL_OK;
    }
    if (window->model.len) {
        pal_buf_append_text(&cli->out, "Model ");
        pal_cli_clean(&cli->out, window->model, false);
        pal_buf_format(&cli->out, ", profile %s.\n", pal_profile_name(window->profile));
    }
    pal_cli_context_print(cli, plan);
    return PAL_OK;
}

static pal_status context(pal_cli *cli, void *values)
{
    const pal_cli_window_values *given = values;
    pal_cli_window window = {0};
    pal_session session;
    pal_plan plan;
    pal_status status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &session);
    if (status != PAL_OK)
        return status;
    status = pal_cli_window_open(cli, &session, given, &window);
    if (status != PAL_OK)
        goto out;
    status = pal_window_plan(cli->store, &window.window, cli->arena, &plan, &cli->err);
    if (status == PAL_OK)
        status = print_plan(cli, &window.window, &plan);
out:
    pal_cli_window_close(&window);
    return status;
}

static const pal_cli_option options[] = {
        PAL_CLI_WINDOW_OPTIONS(pal_cli_window_values, ),
        {0},
};

const pal_cli_command pal_cmd_context = {
        .name = "context",
        .summary = "show what the model would receive, and why",
        .usage = "SESSION",
        .about = "Prints the plan of the next request: how full the window is, what is in it, "
                 "what is left out and why, and what must happen first (prune, compact), if "
                 "anything. Nothing is changed. Settings and model come from the options, then "
                 "the session's metadata ({\"context\": {\"token_strategy\": ...}}), then its "
                 "agent, then the configuration. If none of them names a model, it is the one "
                 "that answered last. Tools are not counted. With --json the plan is printed as "
                 "docs/context.md describes it.",
        .examples = "palaver context demo --model gpt-4.1\n"
                    "palaver context demo --strategy sliding_window --max-tokens 4000 --json",
        .options = options,
        .values_size = sizeof(pal_cli_window_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_READ,
        .run = context,
};
