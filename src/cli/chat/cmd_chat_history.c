/* cmd_chat_history.c - shows, finds and writes what was said before: the last exchange of a
 * conversation, the output of a tool, a search in all conversations, an export to a file. */
#include "cli/chat/cmd_chat.h"

#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/text.h"
#include "transfer/transfer_export.h"

#define EXCHANGE_LOAD_MAX 200 /* messages that are searched for the last exchange */
#define EXCHANGE_LINES_MAX 20 /* lines of the last answer that are shown */
#define OUTPUT_LOAD_MAX 500   /* messages that are searched for the output of a tool */

/* ---- The last exchange ---- */

/* Cuts the text after some lines. Returns how many lines are left out. */
static size_t cut_lines(pal_str *text, size_t lines_max)
{
    size_t lines = 0, left = 0, end = text->len;
    for (size_t i = 0; i < text->len; i++) {
        if (text->data[i] != '\n')
            continue;
        if (++lines == lines_max)
            end = i;
        left += lines > lines_max;
    }
    left += lines >= lines_max && text->data[text->len - 1] != '\n';
    text->len = end;
    return left;
}

static void put_answer(pal_chat *chat, pal_str text)
{
    pal_cli *cli = chat->cli;
    pal_markdown markdown;
    size_t left = cut_lines(&text, EXCHANGE_LINES_MAX);
    pal_markdown_init(&markdown, &cli->out, (size_t)cli->width, chat->has_styles);
    pal_markdown_feed(&markdown, text);
    pal_markdown_finish(&markdown);
    pal_markdown_done(&markdown);
    if (!left)
        return;
    pal_cli_style(cli, 2);
    pal_buf_append_text(&cli->out, "  \xe2\x80\xa6 ");
    pal_cli_count(&cli->out, left, "more line");
    pal_cli_style(cli, 0);
    pal_buf_append_char(&cli->out, '\n');
}

static pal_str text_of(const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++) {
        if (message->parts[i].kind == PAL_PART_TEXT && message->parts[i].text.len)
            return message->parts[i].text;
    }
    return pal_str_make(NULL, 0);
}

pal_status pal_chat_show_last(pal_chat *chat)
{
    pal_cli *cli = chat->cli;
    pal_message_query load = {.limit = EXCHANGE_LOAD_MAX, .from_end = true};
    pal_message_page loaded;
    pal_str question = {0}, answer = {0};
    pal_status status = pal_store_load(
            cli->store, pal_cli_tenant(cli), chat->session, &load, chat->arena, &loaded, &cli->err);
    for (size_t i = loaded.len; status == PAL_OK && i > 0 && !question.len; i--) {
        const pal_message *message = &loaded.items[i - 1];
        if (message->flags & (PAL_MESSAGE_FLAG_SUMMARY | PAL_MESSAGE_FLAG_SYNTHETIC))
            continue;
        if (message->role == PAL_ROLE_USER)
            question = text_of(message);
        else if (message->role == PAL_ROLE_ASSISTANT && !answer.len)
            answer = text_of(message);
    }
    if (question.len) {
        pal_str line = pal_chat_first_line(chat, question, (size_t)cli->width - 2);
        pal_cli_style(cli, 2);
        pal_buf_format(&cli->out, "> %.*s", PAL_STR_ARG(line));
        pal_cli_style(cli, 0);
        pal_buf_append_char(&cli->out, '\n');
    }
    if (answer.len)
        put_answer(chat, answer);
    return status;
}

/* ---- The output of a tool ---- */

static void put_output(pal_chat *chat, const pal_part *result)
{
    pal_buf *out = &chat->cli->out;
    pal_str text = result->text;
    for (size_t i = 0; !text.len && i < result->parts_len; i++)
        text = result->parts[i].text;
    pal_cli_style(chat->cli, 1);
    pal_cli_clean(out, result->name.len ? result->name : pal_str_of("tool"), false);
    pal_cli_style(chat->cli, 0);
    pal_buf_append_char(out, '\n');
    pal_cli_clean(out, text, true);
    if (text.len == 0 || text.data[text.len - 1] != '\n')
        pal_buf_append_char(out, '\n');
    if (result->blob.len)
        pal_buf_append_text(out, "This is the part that the model received; the complete output "
                                 "is in the export with blobs.\n");
}

pal_status pal_chat_show_output(pal_chat *chat, uint64_t number)
{
    pal_cli *cli = chat->cli;
    pal_message_query load = {.limit = OUTPUT_LOAD_MAX, .from_end = true};
    pal_message_page loaded;
    uint64_t found = 0;
    pal_status status = pal_store_load(
            cli->store, pal_cli_tenant(cli), chat->session, &load, chat->arena, &loaded, &cli->err);
    if (status != PAL_OK)
        return status;
    for (size_t i = loaded.len; i > 0; i--) {
        const pal_message *message = &loaded.items[i - 1];
        for (size_t p = message->parts_len; p > 0; p--) {
            const pal_part *part = &message->parts[p - 1];
            if (part->kind != PAL_PART_TOOL_RESULT || ++found != number)
                continue;
            put_output(chat, part);
            return PAL_OK;
        }
    }
    return pal_error_set(&cli->err, PAL_NOT_FOUND,
            found ? "there are only %llu outputs of tools" : "no tool has run in this conversation",
            (unsigned long long)found);
}

/* ---- Search ---- */

/* Returns the number of the session for /open. */
static uint64_t list_session(pal_chat *chat, pal_id session)
{
    for (size_t i = 0; i < chat->listed_len; i++) {
        if (pal_id_equal(chat->listed[i], session))
            return i + 1;
    }
    chat->listed[chat->listed_len++] = session;
    return chat->listed_len;
}

static void put_hit(pal_chat *chat, pal_cli_table *table, const pal_search_hit *hit)
{
    pal_cli *cli = chat->cli;
    pal_buf when;
    pal_buf_init(&when, 256);
    pal_cli_table_cell_u64(cli, table, list_session(chat, hit->session));
    pal_cli_time_relative(&when, hit->created_at, pal_clock_now_ms());
    pal_cli_table_cell(cli, table, pal_buf_str(&when));
    pal_cli_table_cell(cli, table, pal_str_of(pal_role_name(hit->role)));
    pal_cli_table_cell(cli, table, hit->snippet);
    pal_buf_done(&when);
}

pal_status pal_chat_search(pal_chat *chat, pal_str text)
{
    pal_cli *cli = chat->cli;
    pal_search_page hits;
    pal_search_query query = {.tenant = pal_cli_tenant(cli),
            .text = text,
            .rank = PAL_RANK_QUESTIONS,
            .limit = PAL_CHAT_LISTED_MAX};
    pal_cli_table table = {.columns = 4,
            .heads = {"N", "WHEN", "ROLE", "TEXT"},
            .right = {true, false, false, false},
            .shrink = 3};
    if (text.len == 0)
        return pal_error_set(&cli->err, PAL_INVALID, "/search requires a question or words");
    pal_status status = pal_store_search(cli->store, &query, chat->arena, &hits, &cli->err);
    if (status != PAL_OK)
        return status;
    chat->listed_len = 0;
    for (size_t i = 0; i < hits.len; i++)
        put_hit(chat, &table, &hits.items[i]);
    if (hits.len == 0) {
        pal_buf_append_text(&cli->out, "No messages found.\n");
        return PAL_OK;
    }
    pal_cli_table_print(cli, &table);
    pal_buf_append_text(&cli->out, "/open N continues one of the conversations.\n");
    return PAL_OK;
}

/* ---- Export ---- */

/* The end of the name decides the format. */
static bool form_of(pal_str path, pal_export_form *out_form)
{
    static const struct {
        const char *end;
        pal_export_form form;
    } forms[] = {{".md", PAL_EXPORT_MARKDOWN}, {".html", PAL_EXPORT_HTML},
            {".jsonl", PAL_EXPORT_NATIVE}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t len = strlen(forms[i].end);
        if (path.len > len && memcmp(path.data + path.len - len, forms[i].end, len) == 0) {
            *out_form = forms[i].form;
            return true;
        }
    }
    return false;
}

static pal_status write_pages(pal_chat *chat, pal_export *export, const pal_session *session)
{
    pal_cli *cli = chat->cli;
    bool more = true;
    pal_status status = pal_export_begin(export, session, &cli->out, &cli->err);
    while (status == PAL_OK && more) {
        status = pal_export_page(export, &cli->out, &more, &cli->err);
        if (status == PAL_OK)
            status = pal_cli_flush_some(cli);
    }
    pal_export_end(export);
    return status == PAL_OK ? pal_cli_flush(cli) : status;
}

pal_status pal_chat_export(pal_chat *chat, const pal_session *session, pal_str path)
{
    pal_cli *cli = chat->cli;
    char cwd[4096];
    pal_cli_target file;
    pal_export export = {.store = cli->store, .tenant = pal_cli_tenant(cli)};
    pal_str name = pal_arena_copy(chat->arena, path);
    if (!form_of(path, &export.form))
        return pal_error_set(&cli->err, PAL_INVALID,
                "/export requires a file whose name ends with .md, .html or .jsonl");
    if (access(name.data, F_OK) == 0)
        return pal_error_set(
                &cli->err, PAL_CONFLICT, "'%.*s' exists already", PAL_EXCERPT(path, 160));
    export.cwd = pal_str_of(getcwd(cwd, sizeof cwd) ? cwd : "/");
    pal_status status = pal_cli_flush(cli);
    if (status == PAL_OK)
        status = pal_cli_target_open(cli, name.data, &file);
    if (status != PAL_OK)
        return status;
    cli->out_fd = file.fd;
    status = write_pages(chat, &export, session);
    cli->out_fd = STDOUT_FILENO;
    if (status != PAL_OK)
        pal_buf_clear(&cli->out);
    status = pal_cli_target_finish(cli, &file, status);
    if (status != PAL_OK)
        return status;
    pal_buf_append_text(&cli->out, "Wrote ");
    pal_cli_count(&cli->out, export.messages, "message");
    pal_buf_append_text(&cli->out, " to ");
    pal_cli_clean(&cli->out, path, false);
    pal_buf_append_text(&cli->out, ".\n");
    return PAL_OK;
}
