/* cmd_session_list.c - `palaver session list`: lists sessions, the newest update first. */
#include "cli/cli.h"

#include <string.h>
#include "base/clock.h"
#include "dialect/native/native.h"

/* The first 13 characters of a UUIDv7 are its time in milliseconds. */
#define SHORT_ID_MIN 13

typedef struct list_values {
    const char *state;
    const char *project;
    const char *agent;
    const char *since;
    pal_cli_number limit;
    const char *cursor;
    bool all;
} list_values;

static pal_status make_query(pal_cli *cli, const list_values *given, pal_session_query *query)
{
    query->tenant = pal_cli_tenant(cli);
    query->project = pal_str_of(given->project);
    query->agent = pal_str_of(given->agent);
    query->cursor = pal_str_of(given->cursor);
    if (given->state) {
        query->state = pal_session_state_from_name(pal_str_of(given->state));
        if (query->state == PAL_SESSION_NONE || query->state == PAL_SESSION_ERASED)
            return pal_cli_usage(cli, NULL,
                    "--state must be active, trash or quarantined, not '%.60s'", given->state);
    }
    if (given->limit.given && (given->limit.value < 1 || given->limit.value > PAL_SESSION_PAGE_MAX))
        return pal_cli_usage(
                cli, "use --all to list everything",
                "--limit must be from 1 to %d", PAL_SESSION_PAGE_MAX);
    query->limit = (uint32_t)given->limit.value;
    if (given->all && !given->limit.given)
        query->limit = PAL_SESSION_PAGE_MAX;
    if (given->since)
        return pal_cli_time_option(cli, "since", given->since, -1, &query->updated_from);
    return PAL_OK;
}

/* Returns how many characters of each id distinguish it from the other ids on the page. */
static size_t short_id_len(const pal_session_page *page)
{
    size_t len = SHORT_ID_MIN;
    for (size_t i = 0; i < page->sessions_len; i++) {
        for (size_t j = i + 1; j < page->sessions_len; j++) {
            char a[PAL_ID_TEXT_SIZE], b[PAL_ID_TEXT_SIZE];
            if (memcmp(page->sessions[i].id.bytes, page->sessions[j].id.bytes, 6) != 0)
                continue;
            pal_id_to_text(page->sessions[i].id, a);
            pal_id_to_text(page->sessions[j].id, b);
            while (len < PAL_ID_TEXT_LEN && strncmp(a, b, len) == 0)
                len++;
        }
    }
    return len;
}

static void add_row(pal_cli *cli, pal_cli_table *table, const pal_session *session, size_t id_len)
{
    pal_buf when;
    pal_str id = pal_cli_id(cli, session->id);
    pal_buf_init(&when, 256);
    if (cli->is_terminal)
        pal_cli_time_relative(&when, session->updated_at, pal_clock_now_ms());
    else
        pal_cli_time(cli, &when, session->updated_at);
    if (id.len > id_len)
        id.len = id_len;
    pal_cli_table_cell(cli, table, id);
    pal_cli_table_cell(cli, table, session->key);
    pal_cli_table_cell(cli, table, session->title);
    pal_cli_table_cell_u64(cli, table, session->last_seq);
    pal_cli_table_cell(cli, table, pal_buf_str(&when));
    pal_buf_done(&when);
}

static pal_status list_table(pal_cli *cli, pal_session_query *query, bool all)
{
    pal_cli_table table = {
            .columns = 5,
            .heads = {"ID", "KEY", "TITLE", "MESSAGES", "UPDATED"},
            .right = {false, false, false, true, false},
            .shrink = 2,
    };
    pal_session_page page;
    pal_status status;
    do {
        status = pal_store_list(cli->store, query, cli->arena, &page, &cli->err);
        if (status != PAL_OK)
            return status;
        size_t id_len = cli->is_terminal ? short_id_len(&page) : PAL_ID_TEXT_LEN;
        for (size_t i = 0; i < page.sessions_len; i++)
            add_row(cli, &table, &page.sessions[i], id_len);
        query->cursor = page.cursor;
    } while (all && page.cursor.len);
    if (table.cells_len)
        pal_cli_table_print(cli, &table);
    status = pal_cli_flush(cli);
    /* Messages for people go to stderr: stdout contains only the sessions. */
    if (status == PAL_OK && !table.cells_len)
        fprintf(stderr, "No sessions found. 'palaver session new' creates one.\n");
    else if (status == PAL_OK && page.cursor.len)
        fprintf(stderr,
                "More sessions follow: use --all, or --cursor %.*s\n", PAL_STR_ARG(page.cursor));
    return status;
}

/* Lists page by page, so that a store of any size can be listed. */
static pal_status list_json(pal_cli *cli, pal_session_query *query, bool all)
{
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_session_page page;
    pal_buf cursor;
    pal_status status;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_cli_no_memory(cli);
    pal_buf_init(&cursor, 4096);
    pal_buf_append_str(&cursor, query->cursor);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "sessions");
    pal_json_begin_array(&writer);
    do {
        pal_arena_reset(arena);
        query->cursor = pal_buf_str(&cursor);
        status = pal_store_list(cli->store, query, arena, &page, &cli->err);
        for (size_t i = 0; status == PAL_OK && i < page.sessions_len; i++)
            status = pal_native_session_show(&writer, &page.sessions[i], &cli->err);
        if (status == PAL_OK) {
            pal_buf_clear(&cursor);
            pal_buf_append_str(&cursor, page.cursor);
            status = pal_cli_flush_some(cli);
        }
    } while (status == PAL_OK && all && cursor.len);
    pal_json_end_array(&writer);
    pal_json_name(&writer, "has_more");
    pal_json_put_bool(&writer, cursor.len > 0);
    pal_json_name(&writer, "cursor");
    if (cursor.len)
        pal_json_put_str(&writer, pal_buf_str(&cursor));
    else
        pal_json_put_null(&writer);
    pal_json_end_object(&writer);
    pal_buf_append_char(&cli->out, '\n');
    pal_buf_done(&cursor);
    pal_arena_free(arena);
    return status;
}

static pal_status session_list(pal_cli *cli, void *values)
{
    const list_values *given = values;
    pal_session_query query = {0};
    pal_status status = make_query(cli, given, &query);
    if (status != PAL_OK)
        return status;
    return cli->json ? list_json(cli, &query, given->all) : list_table(cli, &query, given->all);
}

static const pal_cli_option options[] = {
        {"state", 0, PAL_CLI_TEXT, offsetof(list_values, state), "STATE",
                "active, trash or quarantined (active)"},
        {"project", 0, PAL_CLI_TEXT, offsetof(list_values, project), "NAME",
                "only sessions of this project"},
        {"agent", 0, PAL_CLI_TEXT, offsetof(list_values, agent), "NAME",
                "only sessions of this agent"},
        {"since", 0, PAL_CLI_TEXT, offsetof(list_values, since), "WHEN",
                "only sessions updated since: 2h, 7d, or a time"},
        {"limit", 0, PAL_CLI_NUMBER, offsetof(list_values, limit), "N",
                "maximum number of sessions (50)"},
        {"cursor", 0, PAL_CLI_TEXT, offsetof(list_values, cursor), "C",
                "continue after the previous page"},
        {"all", 0, PAL_CLI_FLAG, offsetof(list_values, all), NULL, "list all pages"},
        {0},
};

const pal_cli_command pal_cmd_session_list = {
        .name = "session list",
        .summary = "list sessions, newest first",
        .usage = "",
        .about = "Lists sessions, the newest update first. On a terminal, each id is shortened to "
                 "a unique beginning, which every command accepts as SESSION.",
        .examples = "palaver session list --since 7d\n"
                    "palaver session list --state trash --all --json",
        .options = options,
        .values_size = sizeof(list_values),
        .access = PAL_CLI_READ,
        .run = session_list,
};
