/* cmd_node.c - `palaver node list`: shows the servers that share the store. */
#include "cli/cli.h"

#include <stddef.h>
#include <stdio.h>
#include "base/clock.h"
#include "server/node/node.h"

typedef struct list_values {
    bool all;
} list_values;

static const pal_cli_option list_options[] = {
        {"all", 0, PAL_CLI_FLAG, offsetof(list_values, all), NULL,
                "also show nodes that have stopped, for a day"},
        {0},
};

static pal_str number_text(pal_cli *cli, uint32_t number)
{
    char text[16];
    snprintf(text, sizeof text, "%u", (unsigned)number);
    return pal_arena_copy(cli->arena, pal_str_of(text));
}

static pal_str time_text(pal_cli *cli, int64_t ms)
{
    char text[PAL_TIME_TEXT_SIZE];
    pal_time_to_text(ms, text);
    return pal_arena_copy(cli->arena, pal_str_of(text));
}

static void add_row(pal_cli *cli, pal_cli_table *table, const pal_node *node)
{
    pal_cli_table_cell(cli, table, number_text(cli, node->slot));
    pal_cli_table_cell(cli, table, pal_str_of(pal_node_state_name(node->state)));
    pal_cli_table_cell(cli, table, node->address);
    pal_cli_table_cell(cli, table, node->release);
    pal_cli_table_cell(cli, table, time_text(cli, node->started_at));
    pal_cli_table_cell(cli, table, time_text(cli, node->seen_at));
}

static pal_status list(pal_cli *cli, void *values)
{
    const list_values *given = values;
    pal_cli_table table = {.columns = 6,
            .heads = {"SLOT", "STATE", "ADDRESS", "VERSION", "STARTED", "SEEN"},
            .shrink = 2};
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_node *nodes;
    size_t len, shown = 0;
    pal_status status = pal_node_list(cli->store, cli->arena, &nodes, &len, &cli->err);
    if (status != PAL_OK)
        return status;
    if (cli->json)
        pal_json_begin_array(&writer);
    for (size_t i = 0; i < len; i++) {
        if (nodes[i].state == PAL_NODE_STOPPED && !given->all)
            continue;
        shown++;
        if (cli->json)
            pal_node_put(&nodes[i], &writer);
        else
            add_row(cli, &table, &nodes[i]);
    }
    if (cli->json) {
        pal_json_end_array(&writer);
        pal_buf_append_char(&cli->out, '\n');
    } else if (shown) {
        pal_cli_table_print(cli, &table);
    } else {
        fprintf(stderr, "No server uses this store. 'palaver serve' starts one.\n");
    }
    return PAL_OK;
}

const pal_cli_command pal_cmd_node_list = {
        .name = "node list",
        .summary = "list the servers that share the store",
        .usage = "",
        .about = "Lists the nodes: the servers that use the store now, and those that died in the "
                 "last ten minutes. The ids of a node's turns contain its slot.",
        .examples = "palaver node list\n"
                    "palaver node list --all --json",
        .options = list_options,
        .values_size = sizeof(list_values),
        .access = PAL_CLI_READ,
        .run = list,
};
