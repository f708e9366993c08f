/* cmd_bench_cache.c - `palaver bench cache`: compares what the context strategies cost, in tokens
 * and in money, over conversations of a thousand turns.
 *
 * No model is called and nothing is stored: a generated conversation is planned request by
 * request, and a simulated provider caches the beginning that a request shares with the previous
 * one. For comparison there are two other methods with the same limits: a plain sliding window,
 * which leaves out the oldest messages until the rest fits, each time; and the method of
 * opencode, which clears old tool outputs in place after every turn and summarizes everything
 * when the window is full. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/json/json_put.h"

#define TURNS 1000
#define TURNS_MAX 100000
#define CONTEXT 200000
#define OUTPUT 32000
#define SYSTEM_LEN 6000   /* bytes: 1,500 tokens */
#define TOOLS_TOKENS 3000 /* tokens of all tools together */
#define SUMMARY_TOKENS 1200
#define QUESTION_TOKENS 300 /* tokens of the prompt for a summary */
#define STEPS_MAX 8
#define RUNS 7

typedef struct cache_values {
    pal_cli_number turns;
    pal_cli_number context;
    pal_cli_number seed;
    const char *price_input;
    const char *price_cached;
    const char *price_output;
} cache_values;

typedef struct prices {
    double input, cached, output; /* price per million tokens */
} prices;

/* ---- The conversation ---- */

typedef struct talk {
    const char *name;
    pal_message *messages;
    size_t len;
    size_t *requests; /* how many messages each request contains */
    size_t requests_len;
    uint64_t tokens; /* tokens of all messages */
} talk;

typedef struct talk_maker {
    pal_arena *arena;
    talk *talk;
    uint64_t state;
} talk_maker;

/* splitmix64: creates the same conversation on every machine. */
static uint64_t next_random(talk_maker *maker)
{
    uint64_t z = maker->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Many messages are short and few are long: exponential around the mean, within limits. */
static uint32_t some_tokens(talk_maker *maker, double mean, double most)
{
    double share = ((double)(next_random(maker) >> 11) + 1) / 9007199254740993.0;
    double tokens = 8 - mean * log(share);
    return (uint32_t)(tokens < most ? tokens : most);
}

static pal_part *add_message(talk_maker *maker, pal_role role, pal_part_kind kind, uint32_t tokens)
{
    talk *t = maker->talk;
    char text[32];
    pal_message *message = &t->messages[t->len];
    pal_part *part = pal_arena_alloc(maker->arena, sizeof *part);
    if (!part)
        return NULL;
    snprintf(text, sizeof text, "m%zu", t->len);
    part->kind = kind;
    part->text = pal_arena_copy(maker->arena, pal_str_of(text));
    *message = (pal_message){
            .seq = ++t->len, .role = role, .parts = part, .parts_len = 1, .tokens = tokens};
    t->tokens += tokens;
    return part;
}

static void add_request(talk_maker *maker)
{
    maker->talk->requests[maker->talk->requests_len++] = maker->talk->len;
}

static void add_step(talk_maker *maker)
{
    add_request(maker);
    pal_part *call =
            add_message(maker, PAL_ROLE_ASSISTANT, PAL_PART_TOOL_CALL, some_tokens(maker, 80, 600));
    pal_part *result = add_message(
            maker, PAL_ROLE_TOOL, PAL_PART_TOOL_RESULT, some_tokens(maker, 1500, 12000));
    if (!call || !result)
        return;
    call->call_id = result->call_id = call->text;
    call->name = result->name = pal_str_of("read");
    call->arguments = pal_str_of("{}");
    call->text = pal_str_of(NULL);
}

static void add_turn(talk_maker *maker, bool has_tools)
{
    size_t steps = has_tools ? 1 + next_random(maker) % STEPS_MAX : 0;
    add_message(maker, PAL_ROLE_USER, PAL_PART_TEXT, some_tokens(maker, 60, 1000));
    for (size_t i = 0; i < steps; i++)
        add_step(maker);
    add_request(maker);
    add_message(maker, PAL_ROLE_ASSISTANT, PAL_PART_TEXT, some_tokens(maker, 250, 2000));
}

static pal_status make_talk(pal_cli *cli, const cache_values *given, bool has_tools, talk *out_talk)
{
    size_t turns = given->turns.given ? (size_t)given->turns.value : TURNS;
    size_t room = turns * (2 + (has_tools ? 2 * STEPS_MAX : 0));
    talk_maker maker = {.arena = cli->arena,
            .talk = out_talk,
            .state = given->seed.given ? given->seed.value : 1};
    *out_talk = (talk){.name = has_tools ? "tools" : "chat",
            .messages = pal_arena_array(cli->arena, room, sizeof(pal_message)),
            .requests = pal_arena_array(cli->arena, room, sizeof(size_t))};
    if (!out_talk->messages || !out_talk->requests)
        return pal_cli_no_memory(cli);
    for (size_t i = 0; i < turns; i++)
        add_turn(&maker, has_tools);
    return pal_arena_failure(cli->arena) == PAL_OK ? PAL_OK : pal_cli_no_memory(cli);
}

/* ---- A run ---- */

typedef enum way {
    WAY_STRATEGY,
    WAY_NAIVE,
    WAY_OPENCODE,
} way;

typedef struct run {
    const char *name;
    way way;
    pal_cli *cli;
    const talk *talk;
    pal_context_input input; /* the marks in effect: checkpoint, prunes, and the rest */
    pal_context_last last;   /* the last request; its arrays are the two below */
    uint64_t *hashes, *tokens;
    pal_message *kept;
    pal_pruned_part *pruned;
    size_t cuts; /* compactions, prunes, and moves of a window */
    bool is_cut; /* there was a cut since the last request */
    uint64_t sent, cached, output;
    uint64_t between_sent, between_cached; /* tokens of requests without a cut before them */
    size_t requests;
    bool refused;
} run;

/* Sets up everything that each request begins with. */
static pal_status run_init(run *r, pal_cli *cli, const talk *t, const cache_values *given)
{
    static const pal_tool tool = {.name = {"read", 4}, .tokens = TOOLS_TOKENS};
    char *system = pal_arena_alloc(cli->arena, SYSTEM_LEN);
    size_t items = t->len + 16;
    r->cli = cli;
    r->talk = t;
    r->hashes = pal_arena_array(cli->arena, items, sizeof *r->hashes);
    r->tokens = pal_arena_array(cli->arena, items, sizeof *r->tokens);
    r->kept = pal_arena_array(cli->arena, items, sizeof *r->kept);
    r->pruned = pal_arena_array(cli->arena, items, sizeof *r->pruned);
    if (!system || !r->hashes || !r->tokens || !r->kept || !r->pruned)
        return pal_cli_no_memory(cli);
    memset(system, 's', SYSTEM_LEN);
    r->last = (pal_context_last){.hashes = r->hashes, .tokens = r->tokens};
    r->input.system = pal_str_make(system, SYSTEM_LEN);
    r->input.tools = &tool;
    r->input.tools_len = 1;
    r->input.limits.context = given->context.given ? given->context.value : CONTEXT;
    r->input.limits.output = OUTPUT;
    r->input.last = &r->last;
    r->input.pruned = r->pruned;
    r->input.kept = r->kept;
    return PAL_OK;
}

/* Sets the tail up to message number `end`. For a sliding window it begins at the previous
 * beginning. */
static void set_tail(run *r, size_t end)
{
    size_t from = (size_t)r->input.checkpoint.seq;
    if (r->last.first_seq > from + 1 && r->input.settings.strategy == PAL_STRATEGY_SLIDING_WINDOW)
        from = (size_t)r->last.first_seq - 1;
    r->input.older_messages = from - r->input.checkpoint.seq;
    r->input.messages = r->talk->messages + from;
    r->input.messages_len = end - from;
}

/* Sets a summary that replaces all messages up to `seq`. The request for the summary begins like
 * the last request. */
static void set_checkpoint(run *r, uint64_t seq, const pal_plan *plan)
{
    pal_checkpoint *checkpoint = &r->input.checkpoint;
    bool is_reset = r->input.settings.strategy == PAL_STRATEGY_RESET;
    uint64_t asked = plan->tokens > plan->cut_tokens ? plan->cut_tokens : plan->tokens;
    if (!is_reset) {
        r->cached += asked;
        r->sent += asked + QUESTION_TOKENS;
        r->output += SUMMARY_TOKENS;
    }
    *checkpoint = (pal_checkpoint){.number = checkpoint->number + 1,
            .seq = seq,
            .strategy = r->input.settings.strategy,
            .tokens = SUMMARY_TOKENS};
    char text[32];
    snprintf(text, sizeof text, "summary %zu", r->cuts);
    checkpoint->summary = pal_arena_copy(r->cli->arena, pal_str_of(text));
    checkpoint->hint = is_reset ? checkpoint->summary : pal_str_of(NULL);
    r->input.kept_len = 0;
    for (size_t i = 0; i < plan->keep_len; i++)
        r->kept[r->input.kept_len++] = r->talk->messages[plan->keep_seqs[i] - 1];
    r->input.pruned_len = 0;
}

/* Simulates a request: the beginning that it shares with the last request comes from the cache. */
static void send(run *r, const pal_plan *plan, size_t answer)
{
    bool is_between = r->requests > 0 && !r->is_cut;
    if (r->requests > 0 && plan->first_seq != r->last.first_seq && !r->is_cut) {
        r->cuts++;
        is_between = false;
    }
    r->requests++;
    r->sent += plan->tokens;
    r->cached += plan->prefix_tokens;
    r->output += r->talk->messages[answer].tokens;
    if (is_between) {
        r->between_sent += plan->tokens;
        r->between_cached += plan->prefix_tokens;
    }
    r->last.len = 0;
    for (size_t i = 0; i < plan->items_len; i++) {
        if (plan->items[i].hash == 0 || r->last.len == r->talk->len + 16)
            continue;
        r->hashes[r->last.len] = plan->items[i].hash;
        r->tokens[r->last.len++] = plan->items[i].tokens;
    }
    r->last.first_seq = plan->first_seq;
    r->is_cut = false;
}

static pal_status plan(run *r, pal_arena *arena, pal_plan *out_plan)
{
    return pal_context_plan(&r->input, arena, out_plan, &r->cli->err);
}

static pal_status request_planned(run *r, size_t end, pal_arena *arena)
{
    pal_plan p;
    pal_status status = PAL_OK;
    set_tail(r, end);
    r->input.after_compaction = false;
    for (int round = 0; status == PAL_OK && round < 3; round++) {
        status = plan(r, arena, &p);
        if (status != PAL_OK ||
                (p.action != PAL_PLAN_ACTION_PRUNE && p.action != PAL_PLAN_ACTION_COMPACT))
            break;
        r->cuts++;
        r->is_cut = true;
        if (p.action == PAL_PLAN_ACTION_PRUNE) {
            memmove(r->pruned, p.prune, p.prune_len * sizeof *p.prune);
            r->input.pruned_len = p.prune_len;
        } else {
            set_checkpoint(r, p.cut_seq, &p);
            r->input.after_compaction = true;
            set_tail(r, end);
        }
    }
    if (status != PAL_OK)
        return status;
    r->refused = p.action == PAL_PLAN_ACTION_REFUSE;
    if (!r->refused)
        send(r, &p, end);
    return PAL_OK;
}

/* ---- The other methods ---- */

/* Plans all messages from a position on, without a strategy. */
static pal_status plan_from(run *r, size_t from, size_t end, pal_arena *arena, pal_plan *out_plan)
{
    pal_context_limits limits = r->input.limits;
    r->input.messages = r->talk->messages + from;
    r->input.messages_len = end - from;
    r->input.limits.context = 0;
    pal_status status = plan(r, arena, out_plan);
    r->input.limits = limits;
    return status;
}

static uint64_t tail_tokens(const run *r, size_t from, size_t end)
{
    uint64_t tokens = TOOLS_TOKENS + SYSTEM_LEN / 4 + 64;
    for (size_t i = from; i < end; i++)
        tokens += r->talk->messages[i].tokens;
    return tokens;
}

static pal_status request_naive(run *r, size_t end, pal_arena *arena)
{
    uint64_t usable = pal_context_usable(&r->input.limits);
    size_t from = r->last.first_seq ? (size_t)r->last.first_seq - 1 : 0;
    uint64_t tokens = tail_tokens(r, from, end);
    pal_plan p;
    while (from + 1 < end && (tokens > usable || r->talk->messages[from].role == PAL_ROLE_TOOL))
        tokens -= r->talk->messages[from++].tokens;
    pal_status status = plan_from(r, from, end, arena, &p);
    if (status == PAL_OK)
        send(r, &p, end);
    return status;
}

static pal_status request_opencode(run *r, size_t end, pal_arena *arena)
{
    pal_plan p;
    size_t from = (size_t)r->input.checkpoint.seq;
    pal_status status = plan_from(r, from, end, arena, &p);
    if (status == PAL_OK && p.tokens > pal_context_usable(&r->input.limits)) {
        size_t question = end - 1;
        while (question > from && r->talk->messages[question].role != PAL_ROLE_USER)
            question--;
        r->cuts++;
        r->is_cut = true;
        p.cut_tokens = p.tokens;
        p.keep_len = 0;
        set_checkpoint(r, question > from ? question : end - 1, &p);
        status = plan_from(r, (size_t)r->input.checkpoint.seq, end, arena, &p);
    }
    if (status == PAL_OK)
        send(r, &p, end);
    return status;
}

/* Runs after every turn, whether it is needed or not. */
static pal_status prune_opencode(run *r, size_t end, pal_arena *arena)
{
    pal_pruned_part *added = NULL;
    size_t len = 0;
    uint64_t tokens = 0;
    r->input.messages = r->talk->messages + r->input.checkpoint.seq;
    r->input.messages_len = end - (size_t)r->input.checkpoint.seq;
    pal_status status = pal_context_prune(&r->input, arena, &added, &len, &tokens, &r->cli->err);
    if (status != PAL_OK || len == 0)
        return status;
    /* Newly pruned messages are newer than those pruned before. */
    memcpy(r->pruned + r->input.pruned_len, added, len * sizeof *added);
    r->input.pruned_len += len;
    r->cuts++;
    r->is_cut = true;
    return PAL_OK;
}

static pal_status run_all(run *r)
{
    pal_arena *arena = pal_arena_new(0);
    pal_status status = arena ? PAL_OK : pal_cli_no_memory(r->cli);
    for (size_t i = 0; status == PAL_OK && !r->refused && i < r->talk->requests_len; i++) {
        size_t end = r->talk->requests[i];
        bool is_first = r->talk->messages[end - 1].role == PAL_ROLE_USER;
        pal_arena_reset(arena);
        if (r->way == WAY_OPENCODE && is_first)
            status = prune_opencode(r, end - 1, arena);
        if (status != PAL_OK)
            break;
        status = r->way == WAY_NAIVE     ? request_naive(r, end, arena)
                : r->way == WAY_OPENCODE ? request_opencode(r, end, arena)
                                         : request_planned(r, end, arena);
    }
    pal_arena_free(arena);
    return status;
}

/* ---- The report ---- */

static double cost(const run *r, const prices *p)
{
    return ((double)(r->sent - r->cached) * p->input + (double)r->cached * p->cached +
                   (double)r->output * p->output) /
            1e6;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static void put_cell(pal_cli *cli, pal_cli_table *table, const char *format, double number)
{
    char text[48];
    snprintf(text, sizeof text, format, number);
    pal_cli_table_cell(cli, table, pal_str_of(text));
}

static void print_text(pal_cli *cli, const talk *t, const run *runs, const prices *p)
{
    pal_cli_table table = {.columns = 8,
            .heads = {"STRATEGY", "SENT", "CACHED", "HIT", "BETWEEN CUTS", "CUTS", "COST", "RATIO"},
            .right = {false, true, true, true, true, true, true, true},
            .shrink = -1};
    pal_buf_format(&cli->out, "%s: %zu requests, ", t->name, t->requests_len);
    pal_cli_number_text(&cli->out, t->tokens);
    pal_buf_append_text(&cli->out,
            " tokens in the conversation; tokens sent in millions, cost in USD\n");
    for (size_t i = 0; i < RUNS; i++) {
        const run *r = &runs[i];
        pal_cli_table_cell(cli, &table, pal_str_of(r->name));
        put_cell(cli, &table, "%.1f", (double)r->sent / 1e6);
        put_cell(cli, &table, "%.1f", (double)r->cached / 1e6);
        put_cell(cli, &table, "%.1f %%", 100 * share(r->cached, r->sent));
        put_cell(cli, &table, "%.1f %%", 100 * share(r->between_cached, r->between_sent));
        pal_cli_table_cell_u64(cli, &table, r->cuts);
        put_cell(cli, &table, "%.2f", cost(r, p));
        if (r->refused)
            put_cell(cli, &table, "full at %.0f", (double)r->requests);
        else
            put_cell(cli, &table, "%.3f", cost(r, p) / cost(&runs[0], p));
    }
    pal_cli_table_print(cli, &table);
}

static void print_json(pal_json_writer *writer, const talk *t, const run *runs, const prices *p)
{
    for (size_t i = 0; i < RUNS; i++) {
        const run *r = &runs[i];
        pal_json_begin_object(writer);
        pal_put_text(writer, "conversation", t->name);
        pal_put_text(writer, "strategy", r->name);
        pal_put_count(writer, "requests", r->requests);
        pal_put_count(writer, "sent", r->sent);
        pal_put_count(writer, "cached", r->cached);
        pal_put_count(writer, "output", r->output);
        pal_put_count(writer, "cuts", r->cuts);
        pal_put_f64(writer, "hit", share(r->cached, r->sent));
        pal_put_f64(writer, "hit_between_cuts", share(r->between_cached, r->between_sent));
        pal_put_f64(writer, "cost", cost(r, p));
        pal_put_f64(writer, "ratio", cost(r, p) / cost(&runs[0], p));
        pal_put_flag(writer, "refused", r->refused);
        pal_json_end_object(writer);
    }
}

static pal_status measure_talk(pal_cli *cli, const cache_values *given, bool has_tools,
        const prices *p, pal_json_writer *writer)
{
    run runs[RUNS] = {
            {.name = "naive window", .way = WAY_NAIVE}, {.name = "opencode", .way = WAY_OPENCODE}};
    talk t;
    pal_status status = make_talk(cli, given, has_tools, &t);
    for (size_t i = 0; status == PAL_OK && i < RUNS; i++) {
        run *r = &runs[i];
        if (i >= 2) {
            r->input.settings.strategy = (pal_strategy)(i - 2);
            r->name = pal_strategy_name((pal_strategy)(i - 2));
        }
        status = run_init(r, cli, &t, given);
        if (status == PAL_OK)
            status = run_all(r);
    }
    if (status != PAL_OK)
        return status;
    if (cli->json)
        print_json(writer, &t, runs, p);
    else
        print_text(cli, &t, runs, p);
    return PAL_OK;
}

/* ---- The command ---- */

static pal_status read_price(pal_cli *cli, const char *name, const char *text, double *price)
{
    char *end;
    double number;
    if (!text)
        return PAL_OK;
    number = strtod(text, &end);
    if (end == text || *end || !(number >= 0 && number <= 1e6))
        return pal_cli_usage(cli, NULL,
                "--%s must be a price per million tokens, such as 0.30", name);
    *price = number;
    return PAL_OK;
}

static pal_status bench_cache(pal_cli *cli, void *values)
{
    const cache_values *given = values;
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    prices p = {3.00, 0.30, 15.00};
    pal_status status = read_price(cli, "price-input", given->price_input, &p.input);
    if (status != PAL_OK)
        return status;
    status = read_price(cli, "price-cached", given->price_cached, &p.cached);
    if (status != PAL_OK)
        return status;
    status = read_price(cli, "price-output", given->price_output, &p.output);
    if (status != PAL_OK)
        return status;
    if (given->turns.given && (given->turns.value < 1 || given->turns.value > TURNS_MAX))
        return pal_cli_usage(cli, NULL, "--turns must be from 1 to %d", TURNS_MAX);
    if (given->context.given && (given->context.value < 40000 || given->context.value > 10000000))
        return pal_cli_usage(cli, NULL, "--context must be from 40000 to 10000000");
    if (cli->json)
        pal_json_begin_array(&writer);
    status = measure_talk(cli, given, false, &p, &writer);
    if (status != PAL_OK)
        return status;
    if (!cli->json)
        pal_buf_append_char(&cli->out, '\n');
    status = measure_talk(cli, given, true, &p, &writer);
    if (status != PAL_OK)
        return status;
    if (cli->json) {
        pal_json_end_array(&writer);
        pal_buf_append_char(&cli->out, '\n');
    }
    return PAL_OK;
}

static const pal_cli_option options[] = {
        {"turns", 0, PAL_CLI_NUMBER, offsetof(cache_values, turns), "N",
                "turns of each conversation (1000)"},
        {"context", 0, PAL_CLI_NUMBER, offsetof(cache_values, context), "N",
                "context window of the model in tokens (200000)"},
        {"seed", 0, PAL_CLI_NUMBER, offsetof(cache_values, seed), "N",
                "seed of the generated conversations (1)"},
        {"price-input", 0, PAL_CLI_TEXT, offsetof(cache_values, price_input), "USD",
                "price per million input tokens (3.00)"},
        {"price-cached", 0, PAL_CLI_TEXT, offsetof(cache_values, price_cached), "USD",
                "price per million cached input tokens (0.30)"},
        {"price-output", 0, PAL_CLI_TEXT, offsetof(cache_values, price_output), "USD",
                "price per million output tokens (15.00)"},
        {0},
};

const pal_cli_command pal_cmd_bench_cache = {
        .name = "bench cache",
        .summary = "compare what strategies send and what the provider caches",
        .usage = "",
        .about = "Plans two generated conversations, one of plain talk and one full of tool "
                 "calls, request by request with each strategy. It prints the tokens sent, how "
                 "many of them the provider had in its cache because the previous request began "
                 "with them, and the cost. A cut is a compaction, a prune, or a move of the "
                 "window; between cuts, tokens that were sent before should not change. For "
                 "comparison it includes a plain sliding window, which RATIO refers to, and the "
                 "method of opencode, with the same limits. No model is called, and no store is "
                 "used.",
        .examples = "palaver bench cache\n"
                    "palaver bench cache --context 64000 --price-input 1.25 --price-cached 0.125",
        .options = options,
        .values_size = sizeof(cache_values),
        .run = bench_cache,
};
