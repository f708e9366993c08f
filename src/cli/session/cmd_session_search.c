/* cmd_session_search.c - `palaver session search`: finds messages by their words.
 *
 * If the store has a search index, the store is opened for writing, so that the index can be
 * updated. Without write access the search works too, but takes longer. */
#include "cli/cli.h"

#include <string.h>
#include "base/clock.h"
#include "base/json/json_put.h"

#define WORDS_MAX 1000 /* maximum words of a text on the command line */

typedef struct search_values {
    const char *role;
    const char *since;
    pal_cli_number limit;
    const char *cursor;
} search_values;

static pal_status open_store(pal_cli *cli)
{
    bool has_index = pal_cli_store_path(cli->store_url) != NULL;
    pal_status status = pal_cli_store_open(cli, has_index ? PAL_CLI_WRITE : PAL_CLI_READ);
    if (has_index && (status == PAL_DENIED || status == PAL_IO)) {
        cli->hint[0] = 0;
        status = pal_cli_store_open(cli, PAL_CLI_READ);
    }
    return status;
}

/* If there are several words, the first one may name a session; the others are the text. Words
 * that the shell has split are joined again. */
static pal_status read_words(pal_cli *cli, pal_search_query *search)
{
    size_t first = 0;
    pal_session session;
    pal_buf text;
    pal_status status = PAL_NOT_FOUND;
    if (cli->args_len > 1)
        status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &session);
    if (status == PAL_OK) {
        search->session = session.id;
        first = 1;
    } else if (status != PAL_NOT_FOUND) {
        return status;
    }
    cli->err = (pal_error){0};
    cli->hint[0] = '\0';
    pal_buf_init(&text, PAL_CLI_OUT_MAX);
    for (size_t i = first; i < cli->args_len; i++) {
        pal_buf_append_text(&text, i > first ? " " : "");
        pal_buf_append_text(&text, cli->args[i]);
    }
    search->text = pal_arena_copy(cli->arena, pal_buf_str(&text));
    status = text.failure ? pal_cli_no_memory(cli) : PAL_OK;
    pal_buf_done(&text);
    return status;
}

static pal_status make_search(pal_cli *cli, const search_values *given, pal_search_query *search)
{
    search->tenant = pal_cli_tenant(cli);
    search->cursor = pal_str_of(given->cursor);
    if (given->role) {
        search->role = pal_role_from_name(pal_str_of(given->role));
        if (search->role == PAL_ROLE_NONE)
            return pal_cli_usage(cli, NULL,
                    "--role must be system, user, assistant or tool, not '%.60s'", given->role);
    }
    if (given->limit.given && (given->limit.value < 1 || given->limit.value > PAL_SEARCH_HITS_MAX))
        return pal_cli_usage(cli, NULL, "--limit must be from 1 to %d", PAL_SEARCH_HITS_MAX);
    search->limit = (uint32_t)given->limit.value;
    pal_status status = PAL_OK;
    if (given->since)
        status = pal_cli_time_option(cli, "since", given->since, -1, &search->from);
    if (status == PAL_OK)
        status = open_store(cli);
    return status == PAL_OK ? read_words(cli, search) : status;
}

static void add_row(pal_cli *cli, pal_cli_table *table, const pal_search_hit *hit)
{
    pal_buf when;
    pal_buf_init(&when, 256);
    if (cli->is_terminal)
        pal_cli_time_relative(&when, hit->created_at, pal_clock_now_ms());
    else
        pal_cli_time(cli, &when, hit->created_at);
    pal_cli_table_cell(cli, table, pal_cli_id(cli, hit->session));
    pal_cli_table_cell_u64(cli, table, hit->seq);
    pal_cli_table_cell(cli, table, pal_str_of(pal_role_name(hit->role)));
    pal_cli_table_cell(cli, table, pal_buf_str(&when));
    pal_cli_table_cell(cli, table, hit->snippet);
    pal_buf_done(&when);
}

static pal_status print_table(pal_cli *cli, const pal_search_page *hits)
{
    pal_cli_table table = {
            .columns = 5,
            .heads = {"SESSION", "SEQ", "ROLE", "WHEN", "TEXT"},
            .right = {false, true, false, false, false},
            .shrink = 4,
    };
    for (size_t i = 0; i < hits->len; i++)
        add_row(cli, &table, &hits->items[i]);
    if (hits->len)
        pal_cli_table_print(cli, &table);
    pal_status status = pal_cli_flush(cli);
    if (status == PAL_OK && !hits->len)
        fprintf(stderr, "No messages found.\n");
    else if (status == PAL_OK && hits->cursor.len)
        fprintf(stderr,
                "More messages follow: use --limit, or --cursor %.*s\n", PAL_STR_ARG(hits->cursor));
    return status;
}

static void print_json(pal_cli *cli, const pal_search_page *hits)
{
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "hits");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < hits->len; i++) {
        const pal_search_hit *hit = &hits->items[i];
        pal_json_begin_object(&writer);
        pal_put_id(&writer, "session_id", hit->session);
        pal_put_id(&writer, "message_id", hit->message);
        pal_put_count(&writer, "seq", hit->seq);
        pal_put_text(&writer, "role", pal_role_name(hit->role));
        pal_put_time(&writer, "created_at", hit->created_at);
        pal_put_str(&writer, "snippet", hit->snippet);
        pal_json_end_object(&writer);
    }
    pal_json_end_array(&writer);
    pal_json_name(&writer, "has_more");
    pal_json_put_bool(&writer, hits->cursor.len > 0);
    pal_json_name(&writer, "cursor");
    if (hits->cursor.len)
        pal_json_put_str(&writer, hits->cursor);
    else
        pal_json_put_null(&writer);
    pal_json_end_object(&writer);
    pal_buf_append_char(&cli->out, '\n');
}

static pal_status session_search(pal_cli *cli, void *values)
{
    pal_search_query search = {0};
    pal_search_page hits;
    pal_status status = make_search(cli, values, &search);
    if (status == PAL_OK)
        status = pal_store_search(cli->store, &search, cli->arena, &hits, &cli->err);
    if (status != PAL_OK)
        return status;
    if (!cli->json)
        return print_table(cli, &hits);
    print_json(cli, &hits);
    return PAL_OK;
}

static const pal_cli_option options[] = {
        {"role", 0, PAL_CLI_TEXT, offsetof(search_values, role), "ROLE",
                "only of this role: system, user, assistant or tool"},
        {"since", 0, PAL_CLI_TEXT, offsetof(search_values, since), "WHEN",
                "only messages since: 2h, 7d, or a time"},
        {"limit", 0, PAL_CLI_NUMBER, offsetof(search_values, limit), "N",
                "maximum number of messages (20)"},
        {"cursor", 0, PAL_CLI_TEXT, offsetof(search_values, cursor), "C",
                "continue after the previous page"},
        {0},
};

const pal_cli_command pal_cmd_session_search = {
        .name = "session search",
        .summary = "find messages by their words",
        .usage = "[SESSION] TEXT",
        .about = "Finds messages that contain all words of TEXT, in any script, ignoring case, "
                 "newest first. It searches all sessions, or one session including the messages "
                 "that it shares with its parents. \"a phrase\" in quotes must match exactly; "
                 "word* matches all words with that beginning. Tool calls and tool outputs are "
                 "searched too; hidden messages are not.",
        .examples = "palaver session search \"connection refused\" --role tool\n"
                    "palaver session search @last 'parser \"off by one\" test*' --json",
        .options = options,
        .values_size = sizeof(search_values),
        .args_min = 1,
        .args_max = WORDS_MAX,
        .access = PAL_CLI_NO_STORE,
        .run = session_search,
};
