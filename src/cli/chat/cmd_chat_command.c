/* cmd_chat_command.c - the commands in a chat: lines that begin with a slash. */
#include "cli/chat/cmd_chat.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

#define MODELS_MS 3000       /* time limit for endpoints to list their models */
#define REWIND_LOAD_MAX 2000 /* messages that are searched for the one to go back to */

typedef struct command {
    const char *name;
    const char *usage; /* the argument */
    const char *help;
    pal_status (*run)(pal_chat *chat, pal_str argument);
    bool wants_session;
} command;

static pal_status run_help(pal_chat *chat, pal_str argument);

/* ---- Shared parts ---- */

pal_str pal_chat_first_line(pal_chat *chat, pal_str text, size_t columns)
{
    pal_buf clean;
    while (text.len > 0 && (text.data[0] == '\n' || text.data[0] == ' '))
        text = pal_str_make(text.data + 1, text.len - 1);
    const char *end = text.len ? memchr(text.data, '\n', text.len) : NULL;
    if (end)
        text.len = (size_t)(end - text.data);
    pal_buf_init(&clean, PAL_CLI_OUT_MAX);
    pal_cli_clean(&clean, text, false);
    pal_str line = pal_buf_str(&clean);
    if (columns && pal_cli_columns(line) > columns) {
        clean.len = pal_cli_columns_cut(line, columns - 1);
        pal_buf_append_text(&clean, "\xe2\x80\xa6");
    }
    line = pal_arena_copy(chat->arena, pal_buf_str(&clean));
    if (clean.failure)
        chat->cli->out.failure = clean.failure;
    pal_buf_done(&clean);
    return line;
}

pal_status pal_chat_introduce(pal_chat *chat, const pal_session *session)
{
    pal_cli *cli = chat->cli;
    pal_str title = pal_chat_first_line(chat, session->title, (size_t)cli->width / 2);
    pal_cli_style(cli, 2);
    pal_buf_append_text(&cli->out, "Continuing ");
    if (title.len)
        pal_buf_format(&cli->out, "\"%.*s\" (", PAL_STR_ARG(title));
    else
        pal_buf_append_text(&cli->out, "a conversation (");
    pal_cli_count(&cli->out, session->last_seq, "message");
    pal_buf_append_text(&cli->out, ", ");
    pal_cli_time_relative(&cli->out, session->updated_at, pal_clock_now_ms());
    pal_buf_append_text(&cli->out, ").");
    pal_cli_style(cli, 0);
    pal_buf_append_char(&cli->out, '\n');
    return pal_chat_show_last(chat);
}

static pal_status find_session(pal_chat *chat, pal_session *out_session)
{
    pal_cli *cli = chat->cli;
    return pal_store_find(cli->store, pal_cli_tenant(cli), PAL_SESSION_BY_ID,
            pal_cli_id(cli, chat->session), chat->arena, out_session, &cli->err);
}

/* Reads a number from 1. If there is no argument, returns `otherwise`. */
static pal_status read_number(
        pal_chat *chat, pal_str text, uint64_t otherwise, uint64_t *out_number)
{
    uint64_t number = 0;
    for (size_t i = 0; i < text.len; i++) {
        bool is_digit = text.data[i] >= '0' && text.data[i] <= '9';
        if (!is_digit || number > UINT32_MAX)
            return pal_error_set(&chat->cli->err, PAL_INVALID, "'%.*s' is not a number",
                    (int)pal_cli_columns_cut(text, 40), text.data);
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    }
    *out_number = text.len ? number : otherwise;
    return PAL_OK;
}

/* ---- Conversations ---- */

static pal_status run_new(pal_chat *chat, pal_str argument)
{
    (void)argument;
    chat->session = (pal_id){0};
    pal_buf_append_text(&chat->cli->out, "A new conversation. The last one stays in /sessions.\n");
    return PAL_OK;
}

static pal_status run_fork(pal_chat *chat, pal_str argument)
{
    pal_cli *cli = chat->cli;
    pal_session parent;
    uint64_t at = 0;
    pal_id id;
    pal_status status = read_number(chat, argument, PAL_SEQ_ANY, &at);
    if (status == PAL_OK)
        status = find_session(chat, &parent);
    if (status != PAL_OK)
        return status;
    pal_session fork = {.tenant = pal_cli_tenant(cli),
            .title = parent.title,
            .project = parent.project,
            .agent = parent.agent,
            .metadata = parent.metadata};
    status = pal_store_fork(cli->store, &fork, parent.id, at, &id, &cli->err);
    if (status != PAL_OK)
        return status;
    chat->session = id;
    pal_buf_append_text(&cli->out,
            "This is a fork: new messages are added only here. /sessions also lists the "
            "original.\n");
    return PAL_OK;
}

/* Finds the user's `count`th message from the end. */
static pal_status find_said(pal_chat *chat, uint64_t count, pal_message *out_message)
{
    pal_cli *cli = chat->cli;
    pal_message_query load = {.limit = REWIND_LOAD_MAX, .from_end = true};
    pal_message_page loaded;
    uint64_t found = 0;
    pal_status status = pal_store_load(
            cli->store, pal_cli_tenant(cli), chat->session, &load, chat->arena, &loaded, &cli->err);
    if (status != PAL_OK)
        return status;
    for (size_t i = loaded.len; i > 0; i--) {
        const pal_message *message = &loaded.items[i - 1];
        if (message->role != PAL_ROLE_USER ||
                (message->flags & (PAL_MESSAGE_FLAG_SUMMARY | PAL_MESSAGE_FLAG_SYNTHETIC)))
            continue;
        *out_message = *message;
        if (++found == count)
            return PAL_OK;
    }
    return pal_error_set(&cli->err, PAL_NOT_FOUND,
            found ? "you have sent only %llu message%s in this session"
                  : "you have not sent a message in this session yet",
            (unsigned long long)found, found == 1 ? "" : "s");
}

static pal_str text_of(const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++) {
        if (message->parts[i].kind == PAL_PART_TEXT)
            return message->parts[i].text;
    }
    return pal_str_make(NULL, 0);
}

static pal_status run_rewind(pal_chat *chat, pal_str argument)
{
    pal_cli *cli = chat->cli;
    pal_message message = {0};
    uint64_t count = 1;
    pal_status status = read_number(chat, argument, 1, &count);
    if (status == PAL_OK && count == 0)
        status = pal_error_set(&cli->err, PAL_INVALID, "the number for /rewind must be at least 1");
    if (status == PAL_OK)
        status = find_said(chat, count, &message);
    if (status != PAL_OK)
        return status;
    pal_mark mark = {.kind = PAL_MARK_REWIND, .seq = message.seq - 1};
    status = pal_store_mark(cli->store, pal_cli_tenant(cli), chat->session, &mark, &cli->err);
    if (status != PAL_OK)
        return status;
    pal_str said = pal_chat_first_line(chat, text_of(&message), (size_t)cli->width / 2);
    pal_buf_format(
            &cli->out, "Went back to before \"%.*s\". /undo reverses this.\n", PAL_STR_ARG(said));
    return PAL_OK;
}

/* Returns the newest mark that the user made. Other marks are made by the engine. */
static uint64_t newest_mark(const pal_mark *marks, size_t len)
{
    for (size_t i = len; i > 0; i--) {
        const pal_mark *mark = &marks[i - 1];
        bool is_theirs = mark->kind == PAL_MARK_REWIND || mark->kind == PAL_MARK_RESET ||
                mark->kind == PAL_MARK_CHECKPOINT;
        if (is_theirs && !mark->undone && !mark->inherited)
            return mark->number;
    }
    return 0;
}

static pal_status run_undo(pal_chat *chat, pal_str argument)
{
    pal_cli *cli = chat->cli;
    pal_mark *marks;
    size_t len;
    (void)argument;
    pal_status status = pal_store_marks(
            cli->store, pal_cli_tenant(cli), chat->session, chat->arena, &marks, &len, &cli->err);
    if (status != PAL_OK)
        return status;
    pal_mark mark = {.kind = PAL_MARK_UNDO, .target = newest_mark(marks, len)};
    if (mark.target == 0)
        return pal_error_set(&cli->err, PAL_NOT_FOUND, "there is no rewind or compaction to undo");
    status = pal_store_mark(cli->store, pal_cli_tenant(cli), chat->session, &mark, &cli->err);
    if (status == PAL_OK)
        pal_buf_append_text(&cli->out, "Undone. The hidden messages are visible again.\n");
    return status;
}

static void put_session(pal_chat *chat, pal_cli_table *table, const pal_session *session)
{
    pal_cli *cli = chat->cli;
    pal_buf when;
    pal_buf_init(&when, 256);
    pal_cli_table_cell_u64(cli, table, chat->listed_len);
    pal_cli_time_relative(&when, session->updated_at, pal_clock_now_ms());
    pal_cli_table_cell(cli, table, pal_buf_str(&when));
    pal_cli_table_cell_u64(cli, table, session->last_seq);
    pal_cli_table_cell(cli, table, session->title);
    pal_cli_table_cell(
            cli, table, pal_str_of(pal_id_equal(session->id, chat->session) ? "this one" : ""));
    pal_buf_done(&when);
}

static pal_status run_sessions(pal_chat *chat, pal_str argument)
{
    pal_cli *cli = chat->cli;
    pal_session_page page;
    pal_session_query query = {.tenant = pal_cli_tenant(cli),
            .agent = pal_str_of(chat->agent),
            .limit = PAL_CHAT_LISTED_MAX};
    pal_cli_table table = {.columns = 5,
            .heads = {"N", "UPDATED", "MESSAGES", "TITLE", ""},
            .right = {true, false, true, false, false},
            .shrink = 3};
    (void)argument;
    pal_status status = pal_store_list(cli->store, &query, chat->arena, &page, &cli->err);
    if (status != PAL_OK)
        return status;
    chat->listed_len = 0;
    for (size_t i = 0; i < page.sessions_len; i++) {
        chat->listed[chat->listed_len++] = page.sessions[i].id;
        put_session(chat, &table, &page.sessions[i]);
    }
    if (page.sessions_len == 0)
        pal_buf_append_text(&cli->out, "There are no conversations yet.\n");
    else
        pal_cli_table_print(cli, &table);
    if (page.sessions_len)
        pal_buf_append_text(&cli->out, "/open N continues one of them.\n");
    return PAL_OK;
}

static pal_status run_open(pal_chat *chat, pal_str argument)
{
    pal_cli *cli = chat->cli;
    pal_session session;
    pal_str name = pal_arena_copy(chat->arena, argument);
    pal_error ignored = cli->err;
    uint64_t number = 0;
    if (argument.len == 0)
        return pal_error_set(
                &cli->err, PAL_INVALID, "/open requires a number from /sessions, or a name");
    if (argument.len < 3 && read_number(chat, argument, 0, &number) == PAL_OK && number > 0 &&
            number <= chat->listed_len)
        name = pal_cli_id(cli, chat->listed[number - 1]);
    cli->err = ignored;
    pal_status status = pal_cli_find(cli, name.data, PAL_CLI_AMONG_LIVE, &session);
    if (status == PAL_OK && session.state != PAL_SESSION_ACTIVE)
        status = pal_error_set(&cli->err, PAL_CONFLICT, "the session is %s",
                pal_session_state_name(session.state));
    if (status != PAL_OK)
        return status;
    chat->session = session.id;
    return pal_chat_introduce(chat, &session);
}

/* ---- The context and the model ---- */

static pal_status run_compact(pal_chat *chat, pal_str argument)
{
    pal_cli *cli = chat->cli;
    pal_compaction_request compaction = {.prompt = argument, .reason = pal_str_of("manual")};
    pal_compaction_result made;
    pal_status status = pal_turn_compact(chat->runtime.runtime, pal_cli_tenant(cli), chat->session,
            &compaction, chat->arena, &made, &cli->err);
    if (status != PAL_OK)
        return status;
    if (made.number == 0) {
        pal_buf_format(&cli->out, "Nothing was changed: %.*s.\n", PAL_STR_ARG(made.note));
        return PAL_OK;
    }
    if (made.is_fallback)
        pal_buf_format(&cli->out, "No summary was written: %.*s.\n", PAL_STR_ARG(made.note));
    pal_buf_append_text(&cli->out, made.is_fallback ? "Left out " : "A summary replaces ");
    pal_cli_count(&cli->out, made.messages, "message");
    pal_buf_append_text(&cli->out, " now: ");
    pal_cli_number_text(&cli->out, made.tokens_before);
    pal_buf_append_text(&cli->out, " tokens became ");
    pal_cli_number_text(&cli->out, made.tokens_after);
    pal_buf_append_text(&cli->out, ". /undo reverses this.\n");
    return PAL_OK;
}

static pal_status run_context(pal_chat *chat, pal_str argument)
{
    pal_plan plan;
    pal_turn_request request = pal_chat_request(chat);
    (void)argument;
    pal_status status =
            pal_turn_plan(chat->runtime.runtime, &request, chat->arena, &plan, &chat->cli->err);
    if (status == PAL_OK)
        pal_cli_context_print(chat->cli, &plan);
    return status;
}

static pal_status run_tools(pal_chat *chat, pal_str argument)
{
    pal_cli *cli = chat->cli;
    pal_cli_table table = {
            .columns = 3, .heads = {"TOOL", "PERMISSION", "DESCRIPTION"}, .shrink = 2};
    pal_tool *tools;
    size_t len;
    (void)argument;
    pal_status status =
            pal_runtime_tools(chat->runtime.runtime, chat->arena, &tools, &len, &cli->err);
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < len; i++) {
        const char *permission = pal_permission_name((pal_permission)tools[i].permission);
        pal_cli_table_cell(cli, &table, tools[i].name);
        pal_cli_table_cell(cli, &table, pal_str_of(permission));
        pal_cli_table_cell(cli, &table, pal_chat_first_line(chat, tools[i].description, 0));
    }
    if (len)
        pal_cli_table_print(cli, &table);
    else
        pal_buf_append_text(&cli->out,
                "There are no tools. Configure MCP servers in 'mcp_servers' to add some.\n");
    return PAL_OK;
}

/* Without an argument, lists the answers that the session remembers; otherwise forgets one. */
static pal_status run_permissions(pal_chat *chat, pal_str tool)
{
    pal_cli *cli = chat->cli;
    pal_cli_table table = {.columns = 2, .heads = {"TOOL", "ANSWER"}, .shrink = 0};
    pal_permission_memory *memories;
    size_t len;
    pal_status status = PAL_OK;
    if (tool.len > 0)
        status = pal_permission_forget(
                cli->store, pal_cli_tenant(cli), chat->session, tool, &cli->err);
    if (status == PAL_OK)
        status = pal_permission_list(cli->store, pal_cli_tenant(cli), chat->session, chat->arena,
                &memories, &len, &cli->err);
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < len; i++) {
        pal_cli_table_cell(cli, &table, memories[i].tool);
        pal_cli_table_cell(cli, &table,
                pal_str_of(memories[i].permission == PAL_PERMISSION_ALLOW ? "always" : "never"));
    }
    if (len)
        pal_cli_table_print(cli, &table);
    else
        pal_buf_append_text(&cli->out, "This conversation remembers no answers about tools.\n");
    return PAL_OK;
}

static void put_model(pal_chat *chat)
{
    pal_cli *cli = chat->cli;
    bool is_chosen = chat->model.len > 0;
    pal_str endpoint = is_chosen ? pal_buf_str(&chat->endpoint) : chat->runtime.endpoint;
    pal_cli_clean(&cli->out, is_chosen ? pal_buf_str(&chat->model) : chat->runtime.model, false);
    if (endpoint.len) {
        pal_buf_append_text(&cli->out, " at ");
        pal_cli_clean(&cli->out, endpoint, false);
    }
    pal_buf_append_text(&cli->out, " answers.\n");
}

static pal_status list_models(pal_chat *chat, const pal_served_model *models, size_t len)
{
    pal_cli *cli = chat->cli;
    pal_cli_table table = {.columns = 2, .heads = {"MODEL", "AT"}, .shrink = 0};
    put_model(chat);
    for (size_t i = 0; i < len; i++) {
        pal_cli_table_cell(cli, &table, models[i].model);
        pal_cli_table_cell(cli, &table, models[i].endpoint);
    }
    if (len)
        pal_cli_table_print(cli, &table);
    pal_buf_append_text(&cli->out, "/model NAME selects one.\n");
    return PAL_OK;
}

static void set_text(pal_buf *buf, pal_str text)
{
    pal_buf_clear(buf);
    pal_buf_append_str(buf, text);
}

static pal_status run_model(pal_chat *chat, pal_str argument)
{
    pal_cli *cli = chat->cli;
    pal_served_model *models;
    pal_str endpoint = {0};
    bool is_listed = false;
    size_t len;
    pal_status status = pal_runtime_models(
            chat->runtime.runtime, MODELS_MS, chat->arena, &models, &len, &cli->err);
    if (status != PAL_OK)
        return status;
    if (argument.len == 0)
        return list_models(chat, models, len);
    if (argument.len > PAL_MODEL_LEN_MAX)
        return pal_error_set(&cli->err, PAL_LIMIT, "the name of the model is too long");
    for (size_t i = 0; i < len && !is_listed; i++) {
        is_listed = pal_str_equal(models[i].model, argument);
        if (is_listed)
            endpoint = models[i].endpoint;
    }
    set_text(&chat->endpoint, endpoint);
    set_text(&chat->model, argument);
    put_model(chat);
    if (!is_listed)
        pal_buf_append_text(&cli->out, "No endpoint lists this model, so it may not exist.\n");
    return PAL_OK;
}

/* ---- Other commands ---- */

/* Finds the newest visible message. Its role is PAL_ROLE_NONE if there is none. */
static pal_status find_newest(pal_chat *chat, pal_message *out_message)
{
    pal_cli *cli = chat->cli;
    pal_message_query load = {.limit = 1, .from_end = true};
    pal_message_page loaded;
    pal_status status = pal_store_load(
            cli->store, pal_cli_tenant(cli), chat->session, &load, chat->arena, &loaded, &cli->err);
    *out_message = (pal_message){0};
    if (status == PAL_OK && loaded.len)
        *out_message = loaded.items[0];
    return status;
}

static pal_status run_title(pal_chat *chat, pal_str argument)
{
    pal_cli *cli = chat->cli;
    pal_session session;
    pal_status status = find_session(chat, &session);
    if (status != PAL_OK)
        return status;
    if (argument.len) {
        session.title = argument;
        status = pal_store_update(cli->store, &session, PAL_SESSION_FIELD_TITLE, &cli->err);
    }
    if (status != PAL_OK)
        return status;
    pal_buf_append_text(&cli->out, "The title is \"");
    pal_cli_clean(&cli->out, session.title, false);
    pal_buf_append_text(&cli->out, "\".\n");
    return PAL_OK;
}

static pal_status run_system(pal_chat *chat, pal_str argument)
{
    pal_buf *out = &chat->cli->out;
    if (argument.len > PAL_CHAT_SYSTEM_MAX)
        return pal_error_set(&chat->cli->err, PAL_LIMIT,
                "the instructions are longer than %u bytes", PAL_CHAT_SYSTEM_MAX);
    if (pal_str_is(argument, "off")) {
        pal_buf_clear(&chat->system);
    } else if (argument.len) {
        set_text(&chat->system, argument);
        if (chat->system.failure)
            return pal_cli_no_memory(chat->cli);
    }
    if (chat->system.len) {
        pal_buf_append_text(out, "Instructions until you quit: ");
        pal_cli_clean(out, pal_buf_str(&chat->system), true);
        pal_buf_append_text(out, "\n'/system off' removes them.\n");
    } else {
        pal_buf_append_text(out, "The configuration decides the instructions.\n");
    }
    return PAL_OK;
}

static pal_status run_attach(pal_chat *chat, pal_str argument)
{
    pal_cli *cli = chat->cli;
    if (pal_str_is(argument, "off")) {
        pal_chat_drop_attached(chat);
        pal_buf_append_text(&cli->out, "Nothing is attached.\n");
        return PAL_OK;
    }
    if (argument.len == 0)
        return pal_error_set(&cli->err, PAL_INVALID, "/attach requires a file");
    pal_str path = pal_arena_copy(chat->arena, argument);
    return path.data ? pal_chat_attach(chat, path.data) : pal_cli_no_memory(cli);
}

static pal_status run_show(pal_chat *chat, pal_str argument)
{
    uint64_t number = 1;
    pal_status status = read_number(chat, argument, 1, &number);
    return status == PAL_OK ? pal_chat_show_output(chat, number) : status;
}

static pal_status run_search(pal_chat *chat, pal_str argument)
{
    return pal_chat_search(chat, argument);
}

static pal_status run_export(pal_chat *chat, pal_str argument)
{
    pal_session session;
    pal_status status = find_session(chat, &session);
    return status == PAL_OK ? pal_chat_export(chat, &session, argument) : status;
}

/* Hides a complete answer, so that the same question can get a new one. */
static pal_status take_answer_back(pal_chat *chat)
{
    pal_cli *cli = chat->cli;
    pal_message newest, said;
    pal_status status = find_newest(chat, &newest);
    if (status != PAL_OK || newest.role != PAL_ROLE_ASSISTANT ||
            (newest.flags & PAL_MESSAGE_FLAG_ERROR))
        return status;
    status = find_said(chat, 1, &said);
    if (status != PAL_OK)
        return status;
    pal_mark mark = {.kind = PAL_MARK_REWIND, .seq = said.seq};
    status = pal_store_mark(cli->store, pal_cli_tenant(cli), chat->session, &mark, &cli->err);
    if (status == PAL_OK)
        pal_buf_append_text(&cli->out,
                "The last answer is hidden; /undo makes it visible again.\n");
    return status == PAL_OK ? pal_cli_flush(cli) : status;
}

static pal_status run_retry(pal_chat *chat, pal_str argument)
{
    pal_chat_answer answer;
    (void)argument;
    pal_status status = take_answer_back(chat);
    if (status != PAL_OK)
        return status;
    return pal_chat_say(chat, pal_str_make(NULL, 0), true, &answer);
}

static pal_status run_quit(pal_chat *chat, pal_str argument)
{
    (void)argument;
    chat->is_over = true;
    return PAL_OK;
}

static const command commands[] = {
        {"/new", "", "start a new conversation", run_new, false},
        {"/sessions", "", "list your conversations", run_sessions, false},
        {"/open", "N", "continue one of them", run_open, false},
        {"/search", "TEXT", "find messages in all conversations", run_search, false},
        {"/title", "[TEXT]", "show or set the title", run_title, true},
        {"/attach", "FILE", "send a file with the next message; @FILE does it too", run_attach,
                false},
        {"/show", "[N]", "show the output of the last tool, or of the Nth from the end", run_show,
                true},
        {"/export", "FILE", "write the conversation to FILE.md, .html or .jsonl", run_export, true},
        {"/system", "[TEXT]", "show or set the instructions; 'off' removes them", run_system,
                false},
        {"/fork", "", "branch off a new conversation here; this one stays", run_fork, true},
        {"/rewind", "[N]", "hide your last N messages and their answers (1)", run_rewind, true},
        {"/undo", "", "undo the last rewind or compaction", run_undo, true},
        {"/retry", "", "request a new answer, or retry after a failure", run_retry, true},
        {"/compact", "", "replace older messages by a summary", run_compact, true},
        {"/context", "", "show what the model receives", run_context, true},
        {"/tools", "", "list the tools, and whether they may run", run_tools, false},
        {"/permissions", "[TOOL]", "list remembered answers about tools, or forget one",
                run_permissions, true},
        {"/memory", "[forget N]", "list what is remembered about you; also: yes N, no N",
                pal_chat_memory, false},
        {"/remember", "TEXT", "note something for all conversations", pal_chat_remember, false},
        {"/model", "[NAME]", "show or select the model", run_model, false},
        {"/help", "", "show this list", run_help, false},
        {"/quit", "", "quit", run_quit, false},
        {0},
};

static pal_status run_help(pal_chat *chat, pal_str argument)
{
    pal_buf *out = &chat->cli->out;
    (void)argument;
    for (const command *c = commands; c->name; c++) {
        char left[32];
        snprintf(left, sizeof left, "%s %s", c->name, c->usage);
        pal_buf_format(out, "  %-21s%s\n", left, c->help);
    }
    pal_buf_append_text(out,
            "A line that ends with \\ continues on the next one. Pasted text is one message.\n"
            "Ctrl-C stops the answer, Ctrl-D quits. Arrow up shows your earlier messages.\n");
    return PAL_OK;
}

const char *const pal_chat_words[] = {"/new", "/sessions", "/open ", "/search ", "/title ",
        "/attach ", "/show ", "/export ", "/system ", "/fork", "/rewind", "/undo",
        "/retry", "/compact", "/context", "/tools", "/permissions",
        "/memory", "/remember ", "/model ", "/help", "/quit", NULL};

static const command *find_command(pal_str name)
{
    if (pal_str_is(name, "/exit"))
        name = pal_str_of("/quit");
    for (const command *c = commands; c->name; c++) {
        if (pal_str_is(name, c->name))
            return c;
    }
    return NULL;
}

static pal_status unknown(pal_chat *chat, pal_str name)
{
    pal_cli *cli = chat->cli;
    const char *names[sizeof commands / sizeof *commands] = {0};
    pal_str text = pal_arena_copy(chat->arena, name);
    size_t len = 0;
    /* A command that hides messages is never suggested. */
    for (const command *c = commands; c->name; c++) {
        if (c->run != run_rewind && c->run != run_retry && c->run != run_compact)
            names[len++] = c->name;
    }
    const char *near = text.data ? pal_cli_nearest(text.data, names) : NULL;
    if (near)
        snprintf(cli->hint, sizeof cli->hint, "did you mean %s?", near);
    else
        snprintf(cli->hint, sizeof cli->hint,
                "type /help for a list; to send it as a message, begin the line with a space");
    return pal_error_set(&cli->err, PAL_INVALID, "unknown command '%.*s'",
            (int)pal_cli_columns_cut(name, 40), name.data);
}

pal_status pal_chat_command(pal_chat *chat, pal_str line)
{
    const char *space = memchr(line.data, ' ', line.len);
    pal_str name = pal_str_make(line.data, space ? (size_t)(space - line.data) : line.len);
    pal_str argument = pal_str_make(line.data + name.len, line.len - name.len);
    while (argument.len > 0 && argument.data[0] == ' ')
        argument = pal_str_make(argument.data + 1, argument.len - 1);
    while (argument.len > 0 && argument.data[argument.len - 1] == ' ')
        argument.len--;
    const command *found = find_command(name);
    if (!found)
        return unknown(chat, name);
    if (found->wants_session && pal_id_is_none(chat->session))
        return pal_error_set(
                &chat->cli->err, PAL_NOT_FOUND, "this conversation has no messages yet");
    return found->run(chat, argument);
}
