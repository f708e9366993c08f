/* cmd_session_search.c - `palaver session search`: finds messages by a question or by words.
 *
 * If the store has a search index, the store is opened for writing, so that the index can be
 * updated. Without write access the search works too, but takes longer. */
#include "cli/cli.h"

#include <string.h>
#include "base/clock.h"
#include "base/json/json_put.h"

#define WORDS_MAX 1000 /* maximum words of a text on the command line */

typedef struct search_values {
    const char *order;
    const char *role;
    const char *sender;
    const char *since;
    pal_cli_number neighbors;
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

static pal_status read_order(pal_cli *cli, const search_values *given, pal_search_query *search)
{
    search->rank = PAL_RANK_QUESTIONS;
    if (given->order && strcmp(given->order, "best") == 0)
        search->rank = PAL_RANK_ALWAYS;
    else if (given->order && strcmp(given->order, "newest") == 0)
        search->rank = PAL_RANK_NEVER;
    else if (given->order && strcmp(given->order, "auto") != 0)
        return pal_cli_usage(
                cli, NULL, "--order must be best, newest or auto, not '%.60s'", given->order);
    if (given->neighbors.given && given->neighbors.value > PAL_SEARCH_NEIGHBORS_MAX)
        return pal_cli_usage(
                cli, NULL, "--neighbors must be from 0 to %d", PAL_SEARCH_NEIGHBORS_MAX);
    if (given->neighbors.value > 0 && search->rank == PAL_RANK_NEVER)
        return pal_cli_usage(cli, NULL, "--neighbors is not possible with --order newest");
    search->neighbors = given->neighbors.value;
    return PAL_OK;
}

static pal_status make_search(pal_cli *cli, const search_values *given, pal_search_query *search)
{
    search->tenant = pal_cli_tenant(cli);
    search->cursor = pal_str_of(given->cursor);
    search->sender = pal_str_of(given->sender);
    pal_status status = read_order(cli, given, search);
    if (status != PAL_OK)
        return status;
    if (given->role) {
        search->role = pal_role_from_name(pal_str_of(given->role));
        if (search->role == PAL_ROLE_NONE)
            return pal_cli_usage(cli, NULL,
                    "--role must be system, user, assistant or tool, not '%.60s'", given->role);
    }
    if (given->limit.given && (given->limit.value < 1 || given->limit.value > PAL_SEARCH_HITS_MAX))
        return pal_cli_usage(cli, NULL, "--limit must be from 1 to %d", PAL_SEARCH_HITS_MAX);
    search->limit = (uint32_t)given->limit.value;
    if (given->since)
        status = pal_cli_time_option(cli, "since", given->since, -1, &search->from);
    if (status == PAL_OK)
        status = open_store(cli);
    return status == PAL_OK ? read_words(cli, search) : status;
}

/* The row of a neighbor has no session. */
static void add_row(pal_cli *cli, pal_cli_table *table, pal_str session,
        const pal_search_neighbor *message)
{
    pal_buf when;
    pal_buf_init(&when, 256);
    if (cli->is_terminal)
        pal_cli_time_relative(&when, message->created_at, pal_clock_now_ms());
    else
        pal_cli_time(cli, &when, message->created_at);
    pal_cli_table_cell(cli, table, session);
    pal_cli_table_cell_u64(cli, table, message->seq);
    pal_cli_table_cell(cli, table, pal_str_of(pal_role_name(message->role)));
    pal_cli_table_cell(cli, table, pal_buf_str(&when));
    pal_cli_table_cell(cli, table, message->text);
    pal_buf_done(&when);
}

/* Adds a hit between its neighbors. */
static void add_hit(pal_cli *cli, pal_cli_table *table, const pal_search_hit *hit)
{
    size_t at = 0, len = hit->rank ? hit->rank->neighbors_len : 0;
    pal_search_neighbor itself = {.seq = hit->seq,
            .role = hit->role,
            .created_at = hit->created_at,
            .text = hit->snippet};
    for (; at < len && hit->rank->neighbors[at].seq < hit->seq; at++)
        add_row(cli, table, (pal_str){0}, &hit->rank->neighbors[at]);
    add_row(cli, table, pal_cli_id(cli, hit->session), &itself);
    for (; at < len; at++)
        add_row(cli, table, (pal_str){0}, &hit->rank->neighbors[at]);
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
        add_hit(cli, &table, &hits->items[i]);
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

static void put_rank(pal_json_writer *writer, const pal_search_rank *rank)
{
    pal_put_f64(writer, "score", rank->score);
    if (rank->neighbors_len == 0)
        return;
    pal_json_name(writer, "neighbors");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < rank->neighbors_len; i++) {
        const pal_search_neighbor *neighbor = &rank->neighbors[i];
        pal_json_begin_object(writer);
        pal_put_count(writer, "seq", neighbor->seq);
        pal_put_id(writer, "message_id", neighbor->message);
        pal_put_text(writer, "role", pal_role_name(neighbor->role));
        pal_put_time(writer, "created_at", neighbor->created_at);
        pal_put_str(writer, "text", neighbor->text);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
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
        if (hit->rank)
            put_rank(&writer, hit->rank);
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
        {"order", 0, PAL_CLI_TEXT, offsetof(search_values, order), "ORDER",
                "best, newest, or auto: newest with a phrase or word* (auto)"},
        {"neighbors", 0, PAL_CLI_NUMBER, offsetof(search_values, neighbors), "N",
                "show messages before and after each of the best hits"},
        {"role", 0, PAL_CLI_TEXT, offsetof(search_values, role), "ROLE",
                "only of this role: system, user, assistant or tool"},
        {"sender", 0, PAL_CLI_TEXT, offsetof(search_values, sender), "SENDER",
                "only messages of this sender"},
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
        .summary = "find messages by a question or words",
        .usage = "[SESSION] TEXT",
        .about = "Finds messages by a question or by words, in any script, ignoring case. Any of "
                 "the words may occur, rare words weigh more, and the best hits come first. If "
                 "TEXT contains \"a phrase\" in quotes or a beginning such as word*, everything "
                 "must occur, and the newest hits come first. It searches all sessions, or one "
                 "session including the messages that it shares with its parents. Tool calls and "
                 "tool outputs are searched too; hidden messages are not.",
        .examples = "palaver session search where does Ann live --neighbors 1\n"
                    "palaver session search @last 'parser \"off by one\" test*' --json",
        .options = options,
        .values_size = sizeof(search_values),
        .args_min = 1,
        .args_max = WORDS_MAX,
        .access = PAL_CLI_NO_STORE,
        .run = session_search,
};
