/* cmd_usage.c - `palaver usage`: adds up the calls of models by day, month, model, session, agent
 * or purpose. The ledger is read page by page; only the sums are kept. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/map.h"
#include "dialect/native/native.h"

#define GROUPS_MAX 10000 /* more groups are one row, "other" */
#define DAY_LEN 10
#define MONTH_LEN 7

typedef struct usage_values {
    const char *by;
    const char *since;
    const char *until;
} usage_values;

typedef enum usage_by {
    BY_DAY = 0,
    BY_MONTH,
    BY_MODEL,
    BY_SESSION,
    BY_AGENT,
    BY_PURPOSE,
} usage_by;

static const char *const by_names[] = {
        "day", "month", "model", "session", "agent", "purpose", NULL};

typedef struct group {
    pal_str key;
    pal_ledger_sum sum;
    uint64_t unpriced; /* calls with tokens whose cost is unknown */
} group;

typedef struct usage {
    pal_cli *cli;
    usage_by by;
    pal_map map; /* key: group */
    group **groups;
    size_t len, cap;
    group other;
    group total;
} usage;

/* ---- Adding up ---- */

static uint64_t input_of(const pal_usage *u)
{
    return u->input + u->cache_read + u->cache_write;
}

static pal_str key_of(const usage *u, const pal_ledger_entry *entry, char text[PAL_ID_TEXT_SIZE])
{
    char time[PAL_TIME_TEXT_SIZE];
    text[0] = '\0';
    switch (u->by) {
    case BY_DAY:
    case BY_MONTH:
        pal_time_to_text(entry->row.created_at, time);
        snprintf(text, PAL_ID_TEXT_SIZE, "%.*s", u->by == BY_DAY ? DAY_LEN : MONTH_LEN, time);
        break;
    case BY_SESSION:
        if (!pal_id_is_none(entry->session))
            pal_id_to_text(entry->session, text);
        break;
    case BY_MODEL:
        return entry->row.model;
    case BY_AGENT:
        return entry->row.agent;
    case BY_PURPOSE:
        return entry->row.purpose;
    }
    return pal_str_of(text);
}

/* Returns the group of the key, or NULL without memory. */
static group *find_group(usage *u, pal_str key)
{
    pal_cli *cli = u->cli;
    group *found = pal_map_find(&u->map, key);
    if (found || u->len == GROUPS_MAX)
        return found ? found : &u->other;
    found = pal_arena_alloc(cli->arena, sizeof *found);
    pal_str copy = pal_arena_copy(cli->arena, key);
    if (!found || pal_arena_failure(cli->arena) ||
            !pal_arena_reserve(cli->arena, &u->groups, &u->cap, u->len + 1, sizeof *u->groups) ||
            pal_map_set(&u->map, copy, found) != PAL_OK)
        return NULL;
    found->key = copy;
    u->groups[u->len++] = found;
    return found;
}

static void add(group *to, const pal_ledger_row *row, bool is_priced)
{
    to->sum.calls++;
    to->sum.usage.input += row->usage.input;
    to->sum.usage.cache_read += row->usage.cache_read;
    to->sum.usage.cache_write += row->usage.cache_write;
    to->sum.usage.output += row->usage.output;
    to->sum.usage.reasoning += row->usage.reasoning;
    to->sum.cost_micros += row->cost_micros;
    to->unpriced += !is_priced && input_of(&row->usage) + row->usage.output > 0;
}

static pal_status add_entry(usage *u, const pal_ledger_entry *entry)
{
    char text[PAL_ID_TEXT_SIZE];
    const pal_runtime_options *options = pal_config_get(u->cli->config)->runtime;
    group *to = find_group(u, key_of(u, entry, text));
    /* 'echo' is not a model, and costs nothing. */
    bool is_priced = entry->row.cost_micros != 0 || pal_str_is(entry->row.provider, "echo") ||
            pal_price_find(options->prices, options->prices_len, entry->row.model);
    if (!to)
        return pal_cli_no_memory(u->cli);
    add(to, &entry->row, is_priced);
    add(&u->total, &entry->row, is_priced);
    return PAL_OK;
}

static pal_status add_all(usage *u, const pal_ledger_query *query)
{
    pal_cli *cli = u->cli;
    pal_status status;
    pal_buf cursor;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_cli_no_memory(cli);
    pal_buf_init(&cursor, PAL_CLI_OUT_MAX);
    do {
        pal_ledger_page page;
        pal_arena_reset(arena);
        status = pal_store_ledger_list(cli->store, query, pal_buf_str(&cursor),
                PAL_LEDGER_PAGE_MAX, arena, &page, &cli->err);
        for (size_t i = 0; status == PAL_OK && i < page.len; i++)
            status = add_entry(u, &page.items[i]);
        pal_buf_clear(&cursor);
        if (status == PAL_OK)
            pal_buf_append_str(&cursor, page.cursor);
    } while (status == PAL_OK && cursor.len > 0);
    if (status == PAL_OK && cursor.failure)
        status = pal_cli_no_memory(cli);
    pal_buf_done(&cursor);
    pal_arena_free(arena);
    return status;
}

/* Times in order; everything else by cost, then by tokens. */
static int by_time(const void *a, const void *b)
{
    const group *x = *(group *const *)a, *y = *(group *const *)b;
    return strcmp(x->key.data, y->key.data);
}

static int by_size(const void *a, const void *b)
{
    const group *x = *(group *const *)a, *y = *(group *const *)b;
    uint64_t left = input_of(&x->sum.usage) + x->sum.usage.output;
    uint64_t right = input_of(&y->sum.usage) + y->sum.usage.output;
    if (x->sum.cost_micros != y->sum.cost_micros)
        return x->sum.cost_micros < y->sum.cost_micros ? 1 : -1;
    return left != right ? (left < right ? 1 : -1) : by_time(a, b);
}

/* ---- Output ---- */

/* Returns what a person calls the group: the title or the key of a session. */
static pal_str name_of(const usage *u, const group *g)
{
    pal_cli *cli = u->cli;
    pal_session session;
    pal_error ignored;
    if (g == &u->other)
        return pal_str_of("other");
    if (u->by != BY_SESSION || g->key.len == 0)
        return g->key.len ? g->key : pal_str_of("none");
    if (pal_store_find(cli->store, pal_cli_tenant(cli), PAL_SESSION_BY_ID, g->key, cli->arena,
                &session, &ignored) != PAL_OK)
        return g->key;
    return session.key.len ? session.key : session.title.len ? session.title : g->key;
}

static void add_cost(pal_cli *cli, pal_cli_table *table, const group *g)
{
    char text[64];
    double dollars = (double)g->sum.cost_micros / 1e6;
    if (g->unpriced && g->sum.cost_micros == 0)
        snprintf(text, sizeof text, "unknown");
    else
        snprintf(text, sizeof text, "%s$%.4f", g->unpriced ? "over " : "", dollars);
    pal_cli_table_cell(cli, table, pal_str_of(text));
}

static void add_number(pal_cli *cli, pal_cli_table *table, uint64_t number)
{
    pal_buf text;
    pal_buf_init(&text, 64);
    pal_cli_number_text(&text, number);
    pal_cli_table_cell(cli, table, pal_buf_str(&text));
    pal_buf_done(&text);
}

static void add_row(usage *u, pal_cli_table *table, const group *g, pal_str name)
{
    pal_cli *cli = u->cli;
    pal_cli_table_cell(cli, table, name);
    add_number(cli, table, g->sum.calls);
    add_number(cli, table, input_of(&g->sum.usage));
    add_number(cli, table, g->sum.usage.cache_read);
    add_number(cli, table, g->sum.usage.output);
    add_cost(cli, table, g);
}

static void print_table(usage *u)
{
    static const char *const heads[] = {"DAY", "MONTH", "MODEL", "SESSION", "AGENT", "PURPOSE"};
    pal_cli_table table = {.columns = 6,
            .heads = {heads[u->by], "CALLS", "INPUT", "CACHED", "OUTPUT", "COST"},
            .right = {false, true, true, true, true, true},
            .shrink = 0};
    for (size_t i = 0; i < u->len; i++)
        add_row(u, &table, u->groups[i], name_of(u, u->groups[i]));
    if (u->other.sum.calls)
        add_row(u, &table, &u->other, name_of(u, &u->other));
    add_row(u, &table, &u->total, pal_str_of("total"));
    pal_cli_table_print(u->cli, &table);
    if (u->total.unpriced) {
        pal_buf_append_text(&u->cli->out, "The cost of ");
        pal_cli_count(&u->cli->out, u->total.unpriced, "call");
        pal_buf_append_text(&u->cli->out,
                " is unknown: set prices with 'models' in the configuration.\n");
    }
}

static void put_sum(pal_json_writer *writer, const group *g)
{
    pal_put_count(writer, "calls", g->sum.calls);
    pal_native_put_usage(writer, "usage", &g->sum.usage);
    if (g->unpriced && g->sum.cost_micros == 0)
        pal_put_null(writer, "cost_micros");
    else
        pal_put_number(writer, "cost_micros", g->sum.cost_micros);
    pal_put_count(writer, "calls_without_price", g->unpriced);
}

static void put_group(usage *u, pal_json_writer *writer, const group *g)
{
    pal_json_begin_object(writer);
    pal_put_str_or_null(writer, by_names[u->by], g->key);
    put_sum(writer, g);
    pal_json_end_object(writer);
}

static void print_json(usage *u)
{
    pal_json_writer writer = pal_json_writer_make(&u->cli->out);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "by", by_names[u->by]);
    pal_json_name(&writer, "rows");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < u->len; i++)
        put_group(u, &writer, u->groups[i]);
    if (u->other.sum.calls)
        put_group(u, &writer, &u->other);
    pal_json_end_array(&writer);
    pal_json_name(&writer, "total");
    pal_json_begin_object(&writer);
    put_sum(&writer, &u->total);
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    pal_buf_append_char(&u->cli->out, '\n');
}

/* ---- The command ---- */

static pal_status read_by(pal_cli *cli, const char *name, usage_by *out_by)
{
    *out_by = BY_DAY;
    for (int i = 0; name && by_names[i]; i++) {
        *out_by = (usage_by)i;
        if (strcmp(by_names[i], name) == 0)
            return PAL_OK;
    }
    return name ? pal_cli_usage(cli, NULL,
                          "--by must be day, month, model, session, agent or purpose, not '%.60s'",
                          name)
                : PAL_OK;
}

static pal_status run_usage(pal_cli *cli, void *values)
{
    const usage_values *given = values;
    usage u = {.cli = cli};
    pal_ledger_query query = {.tenant = pal_cli_tenant(cli)};
    pal_session session;
    pal_status status = read_by(cli, given->by, &u.by);
    if (status == PAL_OK && given->since)
        status = pal_cli_time_option(cli, "since", given->since, -1, &query.from);
    if (status == PAL_OK && given->until)
        status = pal_cli_time_option(cli, "until", given->until, -1, &query.to);
    if (status == PAL_OK && cli->args_len) {
        status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &session);
        query.session = session.id;
    }
    if (status != PAL_OK)
        return status;
    pal_map_init(&u.map);
    status = add_all(&u, &query);
    if (status == PAL_OK && u.len > 1)
        qsort(u.groups, u.len, sizeof *u.groups, u.by <= BY_MONTH ? by_time : by_size);
    if (status == PAL_OK && cli->json)
        print_json(&u);
    else if (status == PAL_OK && u.total.sum.calls)
        print_table(&u);
    else if (status == PAL_OK)
        fprintf(stderr, "No model was called in this time.\n");
    pal_map_done(&u.map);
    return status;
}

static const pal_cli_option options[] = {
        {"by", 0, PAL_CLI_TEXT, offsetof(usage_values, by), "WHAT",
                "day, month, model, session, agent or purpose (day)"},
        {"since", 0, PAL_CLI_TEXT, offsetof(usage_values, since), "WHEN",
                "only calls since: 24h, 7d, or a time"},
        {"until", 0, PAL_CLI_TEXT, offsetof(usage_values, until), "WHEN",
                "only calls before this time"},
        {0},
};

const pal_cli_command pal_cmd_usage = {
        .name = "usage",
        .summary = "add up tokens and costs by day, model or session",
        .usage = "[SESSION]",
        .about = "Adds up the calls of models: how many, their tokens, and what they cost by the "
                 "prices that applied when they were made. INPUT includes CACHED. Days and months "
                 "are those of UTC. The cost of a model without a price is unknown; 'models' in "
                 "the configuration sets prices.",
        .examples = "palaver usage --since 7d\n"
                    "palaver usage --by model --json",
        .options = options,
        .values_size = sizeof(usage_values),
        .args_max = 1,
        .access = PAL_CLI_READ,
        .run = run_usage,
};
