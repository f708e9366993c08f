/* cmd_channel.c - `palaver channel ...`: shows the accounts on channels, what could not be stored
 * or delivered, and why a message did not get an answer. It reads the records of the store, so it
 * works next to a running server. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include "base/json/json_put.h"
#include "base/text.h"

/* ---- Accounts ---- */

/* Counts the records of a kind whose names begin with "NAME/". */
static pal_status count(
        pal_cli *cli, const char *kind, pal_str account, uint64_t *out_count)
{
    pal_buf buf;
    pal_record_page page = {.has_more = true};
    pal_status status = PAL_OK;

    pal_buf_init(&buf, PAL_RECORD_NAME_LEN_MAX);
    pal_buf_append_str(&buf, account);
    pal_buf_append_text(&buf, "/");
    pal_str prefix = pal_arena_copy(cli->arena, pal_buf_str(&buf)), after = prefix;
    pal_buf_done(&buf);
    *out_count = 0;
    while (status == PAL_OK && page.has_more) {
        pal_record_query query = {.tenant = pal_cli_tenant(cli), .kind = pal_str_of(kind),
                .after = after, .limit = PAL_RECORD_PAGE_MAX};
        status = pal_store_record_list(cli->store, &query, cli->arena, &page, &cli->err);
        for (size_t i = 0; status == PAL_OK && i < page.len; i++) {
            after = page.items[i].name;
            if (!pal_text_begins_str(after, prefix))
                return PAL_OK;
            ++*out_count;
        }
        page.has_more = page.has_more && page.len > 0;
    }
    return status;
}

static pal_str member(pal_cli *cli, const pal_record *record, const char *name)
{
    pal_json body;
    if (pal_json_parse(cli->arena, record->body, NULL, &body, NULL) != PAL_OK)
        return (pal_str){0};
    return pal_json_string(pal_json_find(body, name), cli->arena);
}

static pal_str time_of(pal_cli *cli, int64_t ms)
{
    pal_buf buf;
    pal_buf_init(&buf, 256);
    pal_cli_time(cli, &buf, ms);
    pal_str text = pal_arena_copy(cli->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return text;
}

static pal_status list(pal_cli *cli, void *values)
{
    pal_record_query query = {.tenant = pal_cli_tenant(cli), .kind = pal_str_of("channel"),
            .limit = PAL_RECORD_PAGE_MAX};
    pal_cli_table table = {.columns = 5,
            .heads = {"ACCOUNT", "OWNER", "WAITING", "DEAD", "SEEN"},
            .right = {false, false, true, true, false},
            .shrink = 1};
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_record_page page;
    pal_status status = pal_store_record_list(cli->store, &query, cli->arena, &page, &cli->err);

    (void)values;
    if (status == PAL_OK && cli->json)
        pal_json_begin_array(&writer);
    for (size_t i = 0; status == PAL_OK && i < page.len; i++) {
        const pal_record *record = &page.items[i];
        pal_str owner = member(cli, record, "owner");
        uint64_t waiting = 0, dead = 0;
        status = count(cli, PAL_OUTBOX_KIND, record->name, &waiting);
        if (status == PAL_OK)
            status = count(cli, "channel_dead", record->name, &dead);
        if (cli->json) {
            pal_json_begin_object(&writer);
            pal_put_str(&writer, "account", record->name);
            pal_put_str_or_null(&writer, "owner", owner);
            pal_put_count(&writer, "waiting", waiting);
            pal_put_count(&writer, "dead", dead);
            pal_put_time(&writer, "seen_at", record->updated_at);
            pal_json_end_object(&writer);
        } else {
            pal_cli_table_cell(cli, &table, record->name);
            pal_cli_table_cell(cli, &table, owner.len ? owner : pal_str_of("none"));
            pal_cli_table_cell_u64(cli, &table, waiting);
            pal_cli_table_cell_u64(cli, &table, dead);
            pal_cli_table_cell(cli, &table, time_of(cli, record->updated_at));
        }
    }
    if (status == PAL_OK && cli->json) {
        pal_json_end_array(&writer);
        pal_buf_append_char(&cli->out, '\n');
    } else if (status == PAL_OK && page.len > 0) {
        pal_cli_table_print(cli, &table);
    } else if (status == PAL_OK) {
        fprintf(stderr, "No account was used yet. 'channels' in the configuration names them.\n");
    }
    return status;
}

/* ---- Dead events and answers ---- */

static pal_status dead(pal_cli *cli, void *values)
{
    pal_record_query query = {.tenant = pal_cli_tenant(cli), .kind = pal_str_of("channel_dead"),
            .limit = PAL_RECORD_PAGE_MAX};
    pal_cli_table table = {.columns = 4, .heads = {"NAME", "CHAT", "REASON", "SINCE"}, .shrink = 2};
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_record_page page;
    pal_status status = pal_store_record_list(cli->store, &query, cli->arena, &page, &cli->err);

    (void)values;
    if (status != PAL_OK)
        return status;
    if (cli->json)
        pal_json_begin_array(&writer);
    for (size_t i = 0; i < page.len; i++) {
        const pal_record *record = &page.items[i];
        if (cli->json) {
            pal_json_begin_object(&writer);
            pal_put_str(&writer, "name", record->name);
            pal_put_time(&writer, "created_at", record->created_at);
            pal_json_put_members(&writer, record->body);
            pal_json_end_object(&writer);
            continue;
        }
        pal_cli_table_cell(cli, &table, record->name);
        pal_cli_table_cell(cli, &table, member(cli, record, "chat"));
        pal_cli_table_cell(cli, &table, member(cli, record, "reason"));
        pal_cli_table_cell(cli, &table, time_of(cli, record->created_at));
    }
    if (cli->json) {
        pal_json_end_array(&writer);
        pal_buf_append_char(&cli->out, '\n');
    } else if (page.len > 0) {
        pal_cli_table_print(cli, &table);
    } else {
        fprintf(stderr, "Nothing was given up.\n");
    }
    return PAL_OK;
}

/* Puts an answer back into the outbox. A server finds it within seconds. */
static pal_status retry(pal_cli *cli, void *values)
{
    pal_str name = pal_str_of(cli->args[0]), tenant = pal_cli_tenant(cli);
    pal_record record;
    pal_json body = {0};
    pal_status status = pal_store_record_find(
            cli->store, tenant, pal_str_of("channel_dead"), name, cli->arena, &record, &cli->err);

    (void)values;
    if (status == PAL_OK)
        status = pal_json_parse(cli->arena, record.body, NULL, &body, &cli->err);
    if (status != PAL_OK)
        return status;
    pal_json answer = pal_json_find(body, "answer");
    if (pal_json_type_of(answer) != PAL_JSON_OBJECT)
        return pal_error_set(&cli->err, PAL_INVALID,
                "'%s' is an event that could not be stored, not an answer", cli->args[0]);
    pal_record again = {.kind = pal_str_of(PAL_OUTBOX_KIND), .name = name,
            .session = record.session, .body = pal_json_raw(answer)};
    pal_op ops[] = {pal_op_record_put(tenant, &again, 0), pal_op_record_drop(tenant, &record)};
    status = pal_store_apply_all(cli->store, ops, 2, NULL, &cli->err);
    if (status == PAL_OK && !cli->json)
        pal_buf_append_text(&cli->out, "The answer is in the outbox again.\n");
    return status;
}

/* ---- Why ---- */

static void put_why(pal_cli *cli, const pal_session *session, const pal_message *message)
{
    pal_json extra = {0}, verdict;
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_str id = pal_cli_id(cli, session->id);

    if (message->extra.len > 0 &&
            pal_json_parse(cli->arena, message->extra, NULL, &extra, NULL) != PAL_OK)
        extra = (pal_json){0};
    verdict = pal_json_find(extra, "verdict");
    pal_str act = pal_json_string(pal_json_find(verdict, "act"), cli->arena);
    pal_str why = pal_json_string(pal_json_find(verdict, "why"), cli->arena);
    pal_str sender = pal_json_string(pal_json_find(extra, "sender"), cli->arena);
    if (cli->json) {
        pal_json_begin_object(&writer);
        pal_put_str(&writer, "session_id", id);
        pal_put_count(&writer, "seq", message->seq);
        pal_put_str(&writer, "sender", sender);
        pal_put_str(&writer, "act", act);
        pal_put_str(&writer, "why", why);
        pal_json_end_object(&writer);
        pal_buf_append_char(&cli->out, '\n');
        return;
    }
    pal_buf_format(&cli->out, "Verdict: %.*s (%.*s)\nSender:  ",
            PAL_STR_ARG(act.len ? act : pal_str_of("none")), PAL_STR_ARG(why));
    pal_cli_clean(&cli->out, sender, false);
    pal_buf_format(&cli->out, "\nSession: %.*s, message %llu\n", PAL_STR_ARG(id),
            (unsigned long long)message->seq);
}

/* The session of an event is not known, so all are asked. */
static pal_status why(pal_cli *cli, void *values)
{
    pal_session_query query = {.tenant = pal_cli_tenant(cli), .limit = PAL_SESSION_PAGE_MAX};
    pal_session_page page;
    pal_message message;

    (void)values;
    do {
        pal_status status = pal_store_list(cli->store, &query, cli->arena, &page, &cli->err);
        if (status != PAL_OK)
            return status;
        for (size_t i = 0; i < page.sessions_len; i++) {
            status = pal_store_find_client_id(cli->store, query.tenant, page.sessions[i].id,
                    pal_str_of(cli->args[0]), cli->arena, &message, &cli->err);
            if (status == PAL_OK)
                put_why(cli, &page.sessions[i], &message);
            if (status != PAL_NOT_FOUND)
                return status;
        }
        query.cursor = page.cursor;
    } while (page.cursor.len > 0);
    return pal_error_set(&cli->err, PAL_NOT_FOUND,
            "no session has the event '%s'; it was not recorded, or still waits", cli->args[0]);
}

/* ---- Commands ---- */

typedef struct no_values {
    bool unused;
} no_values;

static const pal_cli_option no_options[] = {{0}};

const pal_cli_command pal_cmd_channel_list = {
        .name = "channel list",
        .summary = "list the accounts on channels",
        .usage = "",
        .about = "Lists the accounts that were used: the process that has the account, the answers "
                 "that wait to be sent, and what was given up.",
        .examples = "palaver channel list\n"
                    "palaver channel list --json",
        .options = no_options,
        .values_size = sizeof(no_values),
        .access = PAL_CLI_READ,
        .run = list,
};

const pal_cli_command pal_cmd_channel_why = {
        .name = "channel why",
        .summary = "show why a message got an answer, or none",
        .usage = "KIND:EVENT",
        .about = "Shows the verdict about a message of a chat, with its reason.",
        .examples = "palaver channel why 'telegram:-100123:42'\n"
                    "palaver channel why webhook:e1 --json",
        .options = no_options,
        .values_size = sizeof(no_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_READ,
        .run = why,
};

const pal_cli_command pal_cmd_channel_dead = {
        .name = "channel dead",
        .summary = "list what could not be stored or delivered",
        .usage = "",
        .about = "Lists the events that could not be stored and the answers that could not be "
                 "delivered in the last 30 days.",
        .examples = "palaver channel dead\n"
                    "palaver channel dead --json",
        .options = no_options,
        .values_size = sizeof(no_values),
        .access = PAL_CLI_READ,
        .run = dead,
};

const pal_cli_command pal_cmd_channel_retry = {
        .name = "channel retry",
        .summary = "deliver an answer that was given up",
        .usage = "NAME",
        .about = "Puts an answer from 'palaver channel dead' back into the outbox. A running "
                 "server sends it within ten seconds.",
        .examples = "palaver channel dead\n"
                    "palaver channel retry telegram:default/ID",
        .options = no_options,
        .values_size = sizeof(no_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .run = retry,
};
