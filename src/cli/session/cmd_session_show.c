/* cmd_session_show.c - `palaver session show`: prints a conversation for people, or as JSON.
 *
 * Without a limit the messages are read page by page, so that a conversation of any length can
 * be shown. With --last or --tokens they are read in one load from the end. */
#include "cli/cli.h"

#include <string.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "dialect/native/native.h"

#define PAGE 500
#define WIDTH_MAX 100
#define OUTPUT_LINES 8 /* lines of a tool output that are shown without --full */
#define LABEL_WIDTH 10

typedef struct show_values {
    pal_cli_number last;
    pal_cli_number tokens;
    pal_cli_number after;
    bool hidden;
    bool marks;
    bool full;
} show_values;

typedef struct show {
    pal_cli *cli;
    const show_values *given;
    pal_session session;
    pal_mark *marks;
    size_t marks_len;
    pal_json_writer writer;
    bool has_more;
} show;

/* ---- For people ---- */

static void put_label(pal_cli *cli, const char *label)
{
    pal_cli_style(cli, 2);
    pal_buf_format(&cli->out, "%-*s", LABEL_WIDTH, label);
    pal_cli_style(cli, 0);
}

static void put_field(pal_cli *cli, const char *label, pal_str text)
{
    if (!text.len)
        return;
    put_label(cli, label);
    pal_cli_clean(&cli->out, text, false);
    pal_buf_append_char(&cli->out, '\n');
}

static void put_time(pal_cli *cli, const char *label, int64_t ms)
{
    if (!ms)
        return;
    put_label(cli, label);
    pal_cli_time(cli, &cli->out, ms);
    if (cli->is_terminal) {
        pal_buf_append_text(&cli->out, " (");
        pal_cli_time_relative(&cli->out, ms, pal_clock_now_ms());
        pal_buf_append_char(&cli->out, ')');
    }
    pal_buf_append_char(&cli->out, '\n');
}

static void put_header(show *s)
{
    pal_cli *cli = s->cli;
    const pal_session *session = &s->session;
    if (session->title.len) {
        pal_cli_style(cli, 1);
        pal_cli_clean(&cli->out, session->title, false);
        pal_cli_style(cli, 0);
        pal_buf_append_char(&cli->out, '\n');
    }
    put_field(cli, "id", pal_cli_id(cli, session->id));
    if (session->state != PAL_SESSION_ACTIVE)
        put_field(cli, "state", pal_str_of(pal_session_state_name(session->state)));
    put_field(cli, "key", session->key);
    for (size_t i = 0; i < session->aliases_len; i++)
        put_field(cli, "alias", session->aliases[i]);
    put_field(cli, "project", session->project);
    put_field(cli, "agent", session->agent);
    put_field(cli, "metadata", session->metadata);
    if (!pal_id_is_none(session->parent_id)) {
        put_label(cli, "fork of");
        pal_buf_append_str(&cli->out, pal_cli_id(cli, session->parent_id));
        pal_buf_format(&cli->out, " at %llu\n", (unsigned long long)session->fork_seq);
    }
    put_time(cli, "created", session->created_at);
    put_time(cli, "updated", session->updated_at);
    put_time(cli, "expires", session->expires_at);
    put_time(cli, "deleted", session->deleted_at);
    put_label(cli, "messages");
    pal_cli_number_text(&cli->out, session->last_seq);
    pal_buf_append_text(&cli->out, ", ");
    pal_cli_count(&cli->out, session->tokens, "token");
    pal_buf_append_char(&cli->out, '\n');
}

/* Returns the first lines of a text, and how many lines are left out. */
static pal_str first_lines(pal_str text, size_t lines_max, size_t *out_left)
{
    size_t lines = 0, at = 0;
    *out_left = 0;
    while (text.len > 0 && text.data[text.len - 1] == '\n')
        text.len--;
    while (at < text.len && lines < lines_max) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        at = end ? (size_t)(end - text.data) + 1 : text.len;
        lines++;
    }
    for (size_t i = at; i < text.len; i++)
        *out_left += text.data[i] == '\n';
    *out_left += at < text.len;
    return pal_str_make(text.data, at);
}

static int text_width(const show *s)
{
    return s->cli->width < WIDTH_MAX ? s->cli->width : WIDTH_MAX;
}

static void put_short(show *s, pal_str text, int indent)
{
    size_t left;
    pal_str shown = first_lines(text, s->given->full ? SIZE_MAX : OUTPUT_LINES, &left);
    pal_cli_wrap(&s->cli->out, shown, indent, text_width(s));
    if (left) {
        pal_buf_format(&s->cli->out, "%*s... ", indent, "");
        pal_cli_count(&s->cli->out, left, "more line");
        pal_buf_append_text(&s->cli->out, " (--full shows all)\n");
    }
}

static void put_tool_call(show *s, const pal_part *part)
{
    pal_cli *cli = s->cli;
    pal_buf line;
    pal_buf_init(&line, PAL_CLI_OUT_MAX);
    pal_cli_clean(&line, part->name, false);
    pal_buf_append_char(&line, ' ');
    pal_cli_clean(&line, part->arguments, false);
    pal_str text = pal_buf_str(&line);
    size_t room = (size_t)text_width(s) - 8;
    size_t cut = s->given->full ? text.len : pal_cli_columns_cut(text, room);
    pal_buf_append_text(&cli->out, "    -> ");
    pal_buf_append(&cli->out, text.data, cut);
    pal_buf_append_text(&cli->out, cut < text.len ? "...\n" : "\n");
    pal_buf_done(&line);
}

static void put_attachment(show *s, const pal_part *part)
{
    pal_buf *out = &s->cli->out;
    pal_buf_format(out, "    [%s", pal_part_kind_name(part->kind));
    const pal_str texts[] = {part->name, part->media_type, part->url.len ? part->url : part->blob};
    for (size_t i = 0; i < 3; i++) {
        if (texts[i].len) {
            pal_buf_append_char(out, ' ');
            pal_cli_clean(out, texts[i], false);
        }
    }
    pal_buf_append_text(out, "]\n");
}

static void put_part(show *s, const pal_part *part);

static void put_tool_result(show *s, const pal_part *part)
{
    pal_buf_append_text(&s->cli->out, part->is_error ? "    <- failed: " : "    <- ");
    pal_cli_clean(&s->cli->out, part->name.len ? part->name : part->call_id, false);
    pal_buf_append_char(&s->cli->out, '\n');
    put_short(s, part->text, 7);
    for (size_t i = 0; i < part->parts_len; i++)
        put_part(s, &part->parts[i]);
}

static void put_part(show *s, const pal_part *part)
{
    switch (part->kind) {
    case PAL_PART_TOOL_CALL:
        put_tool_call(s, part);
        break;
    case PAL_PART_TOOL_RESULT:
        put_tool_result(s, part);
        break;
    case PAL_PART_IMAGE:
    case PAL_PART_FILE:
        put_attachment(s, part);
        break;
    case PAL_PART_REASONING:
        pal_cli_style(s->cli, 2);
        pal_buf_append_text(&s->cli->out, "    (reasoning)\n");
        put_short(s, part->text, 4);
        pal_cli_style(s->cli, 0);
        break;
    default:
        pal_cli_wrap(&s->cli->out, part->text, 4, text_width(s));
    }
}

static void put_flags(pal_buf *out, uint32_t flags)
{
    static const char *const names[] = {"summary", "pruned", "synthetic", "pinned", "error"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (flags & (1u << i))
            pal_buf_format(out, "  [%s]", names[i]);
    }
}

/* Prints why an answer ended early. The reason is stored in the message's extra members. */
static void put_reason(show *s, const pal_message *message)
{
    static const char *const names[] = {"error", "interrupted"};
    pal_cli *cli = s->cli;
    pal_json extra;
    if (!(message->flags & PAL_MESSAGE_FLAG_ERROR) || !message->extra.len ||
            pal_json_parse(cli->arena, message->extra, NULL, &extra, NULL) != PAL_OK)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pal_str why = pal_json_string(pal_json_find(extra, names[i]), cli->arena);
        pal_buf line;
        if (!why.len)
            continue;
        pal_buf_init(&line, PAL_CLI_OUT_MAX);
        pal_buf_append_text(&line, i == 0 ? "! failed: " : "! stopped: ");
        pal_buf_append_str(&line, why);
        pal_cli_wrap(&cli->out, pal_buf_str(&line), 4, text_width(s));
        pal_buf_done(&line);
    }
}

static void put_message(show *s, const pal_message *message)
{
    pal_cli *cli = s->cli;
    pal_buf_append_char(&cli->out, '\n');
    pal_cli_style(cli, 1);
    pal_buf_format(
            &cli->out, "%llu  %s", (unsigned long long)message->seq, pal_role_name(message->role));
    pal_cli_style(cli, 0);
    pal_cli_style(cli, 2);
    if (message->model.len) {
        pal_buf_append_text(&cli->out, "  ");
        pal_cli_clean(&cli->out, message->model, false);
    }
    pal_buf_append_text(&cli->out, "  ");
    pal_cli_time(cli, &cli->out, message->created_at);
    put_flags(&cli->out, message->flags);
    pal_cli_style(cli, 0);
    pal_buf_append_char(&cli->out, '\n');
    for (size_t i = 0; i < message->parts_len; i++)
        put_part(s, &message->parts[i]);
    put_reason(s, message);
}

static void put_marks(show *s)
{
    pal_cli *cli = s->cli;
    pal_cli_table table = {
            .columns = 5,
            .heads = {"MARK", "KIND", "SEQ", "UNDOES", "NOTE"},
            .right = {true, false, true, true, false},
            .shrink = -1,
    };
    for (size_t i = 0; i < s->marks_len; i++) {
        const pal_mark *mark = &s->marks[i];
        bool undo = mark->kind == PAL_MARK_UNDO;
        pal_cli_table_cell_u64(cli, &table, mark->number);
        pal_cli_table_cell(cli, &table, pal_str_of(pal_native_mark_kind_name(mark->kind)));
        if (undo) {
            pal_cli_table_cell(cli, &table, pal_str_of(""));
            pal_cli_table_cell_u64(cli, &table, mark->target);
        } else {
            pal_cli_table_cell_u64(cli, &table, mark->seq);
            pal_cli_table_cell(cli, &table, pal_str_of(""));
        }
        pal_cli_table_cell(cli, &table,
                pal_str_of(mark->undone           ? "undone"
                                : mark->inherited ? "inherited"
                                                  : ""));
    }
    pal_buf_append_char(&cli->out, '\n');
    if (s->marks_len)
        pal_cli_table_print(cli, &table);
    else
        pal_buf_append_text(&cli->out, "No marks.\n");
}

/* ---- Loading ---- */

static pal_status put_page(show *s, const pal_message_page *page)
{
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < page->len; i++) {
        if (s->cli->json)
            status = pal_native_message_put(&s->writer, &page->items[i], &s->cli->err);
        else
            put_message(s, &page->items[i]);
    }
    s->has_more = page->has_more;
    return status == PAL_OK ? pal_cli_flush_some(s->cli) : status;
}

static pal_status put_messages(show *s)
{
    pal_cli *cli = s->cli;
    const show_values *given = s->given;
    bool bounded = given->last.given || given->tokens.given;
    pal_message_query load = {.after_seq = given->after.value, .hidden = given->hidden};
    pal_message_page page;
    pal_status status;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_cli_no_memory(cli);
    load.from_end = bounded;
    load.tokens_max = given->tokens.value;
    load.limit = !bounded ? PAGE : given->last.value > UINT32_MAX ? 0 : (uint32_t)given->last.value;
    do {
        pal_arena_reset(arena);
        status = pal_store_load(
                cli->store, pal_cli_tenant(cli), s->session.id, &load, arena, &page, &cli->err);
        if (status == PAL_OK && page.len)
            load.after_seq = page.items[page.len - 1].seq;
        if (status == PAL_OK)
            status = put_page(s, &page);
    } while (status == PAL_OK && !bounded && page.has_more);
    pal_arena_free(arena);
    return status;
}

static pal_status show_text(show *s)
{
    put_header(s);
    pal_status status = put_messages(s);
    if (status == PAL_OK && s->given->marks)
        put_marks(s);
    return status;
}

static pal_status show_json(show *s)
{
    pal_cli *cli = s->cli;
    pal_json_writer *writer = &s->writer;
    *writer = pal_json_writer_make(&cli->out);
    pal_json_begin_object(writer);
    pal_json_name(writer, "session");
    pal_status status = pal_native_session_show(writer, &s->session, &cli->err);
    if (status != PAL_OK)
        return status;
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    status = put_messages(s);
    pal_json_end_array(writer);
    if (status == PAL_OK && s->given->marks) {
        pal_json_name(writer, "marks");
        pal_json_begin_array(writer);
        for (size_t i = 0; status == PAL_OK && i < s->marks_len; i++)
            status = pal_native_mark_put(writer, &s->marks[i], &cli->err);
        pal_json_end_array(writer);
    }
    pal_put_flag(writer, "has_more", s->has_more);
    pal_json_end_object(writer);
    pal_buf_append_char(&cli->out, '\n');
    return status;
}

static pal_status session_show(pal_cli *cli, void *values)
{
    show s = {.cli = cli, .given = values};
    if ((s.given->last.given && !s.given->last.value) ||
            (s.given->tokens.given && !s.given->tokens.value))
        return pal_cli_usage(cli, NULL, "--last and --tokens must be at least 1");
    pal_status status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &s.session);
    if (status == PAL_OK && s.given->marks)
        status = pal_store_marks(cli->store, pal_cli_tenant(cli), s.session.id, cli->arena,
                &s.marks, &s.marks_len, &cli->err);
    if (status != PAL_OK)
        return status;
    return cli->json ? show_json(&s) : show_text(&s);
}

static const pal_cli_option options[] = {
        {"last", 0, PAL_CLI_NUMBER, offsetof(show_values, last), "N", "only the newest N messages"},
        {"tokens", 0, PAL_CLI_NUMBER, offsetof(show_values, tokens), "N",
                "only the newest messages that fit into N tokens"},
        {"after", 0, PAL_CLI_NUMBER, offsetof(show_values, after), "SEQ",
                "only messages after SEQ"},
        {"hidden", 0, PAL_CLI_FLAG, offsetof(show_values, hidden), NULL,
                "also show messages that a rewind or a reset hides"},
        {"marks", 0, PAL_CLI_FLAG, offsetof(show_values, marks), NULL,
                "also show the marks: rewinds, resets, pins"},
        {"full", 0, PAL_CLI_FLAG, offsetof(show_values, full), NULL,
                "show tool calls and outputs at full length"},
        {0},
};

const pal_cli_command pal_cmd_session_show = {
        .name = "session show",
        .summary = "read a conversation",
        .usage = "SESSION",
        .about = "Shows a session and its messages, oldest first. SESSION is an id or its unique "
                 "beginning, a key, an alias, or @last.",
        .examples = "palaver session show demo --last 10\n"
                    "palaver session show @last --json",
        .options = options,
        .values_size = sizeof(show_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_READ,
        .run = session_show,
};
