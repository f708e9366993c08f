/* cmd_memory.c - `palaver memory ...`: notes of the long-term memory. The user of the command is an
 * admin, so it is shown every note of the tenant. */
#include "cli/cli.h"

#include <string.h>

#define KINDS "fact, preference, instruction, event or context"

/* ---- Output ---- */

static pal_status put_json(pal_cli *cli, const pal_note *note)
{
    pal_str json;
    pal_status status = pal_note_to_json(note, cli->arena, &json, &cli->err);
    if (status == PAL_OK)
        pal_buf_append_str(&cli->out, json);
    return status;
}

static void put_line(pal_cli *cli, const char *name, pal_str text)
{
    if (text.len == 0)
        return;
    pal_buf_format(&cli->out, "%-12s", name);
    pal_cli_clean(&cli->out, text, false);
    pal_buf_append_char(&cli->out, '\n');
}

static pal_str time_of(pal_cli *cli, int64_t ms)
{
    pal_buf buf;
    pal_str text;
    pal_buf_init(&buf, 256);
    pal_cli_time(cli, &buf, ms);
    text = pal_arena_copy(cli->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return text;
}

static void put_sources(pal_cli *cli, const pal_note *note)
{
    for (size_t i = 0; i < note->sources_len; i++) {
        const pal_note_source *source = &note->sources[i];
        pal_str id = pal_cli_id(cli, note->session), at = time_of(cli, source->said_at);
        pal_buf_format(&cli->out, "%-12s%.*s message %llu, %.*s: \"", "source", PAL_STR_ARG(id),
                (unsigned long long)source->seq, PAL_STR_ARG(at));
        pal_cli_clean(&cli->out, source->quote, false);
        pal_buf_append_text(&cli->out, "\"\n");
    }
}

static void put_changes(pal_cli *cli, const pal_note *note)
{
    for (size_t i = 0; i < note->changes_len; i++) {
        const pal_note_change *change = &note->changes[i];
        pal_str at = time_of(cli, change->at);
        pal_buf_format(&cli->out, "%-12s%.*s %.*s by %s", "change", PAL_STR_ARG(at),
                PAL_STR_ARG(change->act), pal_note_by_name(change->by));
        if (change->reason.len) {
            pal_buf_append_text(&cli->out, ": ");
            pal_cli_clean(&cli->out, change->reason, false);
        }
        pal_buf_append_char(&cli->out, '\n');
    }
}

static pal_status print_note(pal_cli *cli, const pal_note *note)
{
    if (cli->json) {
        pal_status status = put_json(cli, note);
        pal_buf_append_char(&cli->out, '\n');
        return status;
    }
    put_line(cli, "id", note->id);
    put_line(cli, "text", note->text);
    put_line(cli, "kind", pal_str_of(pal_note_kind_name(note->kind)));
    put_line(cli, "state", pal_str_of(pal_note_state_name(note->state)));
    put_line(cli, "pending", note->pending);
    put_line(cli, "subject", note->subject);
    put_line(cli, "circle", note->circle);
    put_line(cli, "replaces", note->replaces);
    put_line(cli, "replaced by", note->replaced_by);
    if (note->expires_at)
        put_line(cli, "expires", time_of(cli, note->expires_at));
    put_sources(cli, note);
    put_changes(cli, note);
    return PAL_OK;
}

/* ---- list ---- */

typedef struct list_values {
    const char *subject;
    const char *session;
    const char *state;
    const char *kind;
    pal_cli_number limit;
    const char *cursor;
} list_values;

static pal_status read_kind(pal_cli *cli, const char *name, pal_note_kind *out_kind)
{
    *out_kind = pal_note_kind_from_name(pal_str_of(name));
    return *out_kind || !name
            ? PAL_OK
            : pal_cli_usage(cli, NULL, "--kind must be " KINDS ", not '%.40s'", name);
}

/* Limits the list to notes that may be shown in a session. */
static pal_status read_circles(pal_cli *cli, const char *name, pal_note_query *query)
{
    pal_session session;
    pal_note_place place;
    pal_status status = pal_cli_find(cli, name, PAL_CLI_AMONG_LIVE, &session);
    if (status == PAL_OK)
        status = pal_note_place_of(&session, cli->arena, &place, &cli->err);
    if (status != PAL_OK)
        return status;
    query->circles = place.circles;
    query->circles_len = place.circles_len;
    return PAL_OK;
}

static pal_status make_query(pal_cli *cli, const list_values *given, pal_note_query *query)
{
    query->tenant = pal_cli_tenant(cli);
    query->subject = pal_str_of(given->subject);
    query->after = pal_str_of(given->cursor);
    query->text = pal_str_of(cli->args_len ? cli->args[0] : NULL);
    query->limit = (uint32_t)given->limit.value;
    if (given->limit.given && (given->limit.value < 1 || given->limit.value > PAL_NOTE_PAGE_MAX))
        return pal_cli_usage(cli, NULL, "--limit must be from 1 to %d", PAL_NOTE_PAGE_MAX);
    query->state = pal_note_state_from_name(pal_str_of(given->state));
    if (given->state && !query->state)
        return pal_cli_usage(cli, NULL,
                "--state must be active, pending, superseded or retracted, not '%.40s'",
                given->state);
    pal_status status = read_kind(cli, given->kind, &query->kind);
    if (status == PAL_OK && given->session)
        status = read_circles(cli, given->session, query);
    return status;
}

static pal_status print_page_json(pal_cli *cli, const pal_note_page *page, bool has_cursor)
{
    pal_status status = PAL_OK;
    pal_buf_append_text(&cli->out, "{\"notes\":[");
    for (size_t i = 0; status == PAL_OK && i < page->len; i++) {
        pal_buf_append_text(&cli->out, i ? "," : "");
        status = put_json(cli, &page->items[i]);
    }
    pal_buf_format(&cli->out, "],\"has_more\":%s,\"cursor\":", page->has_more ? "true" : "false");
    if (has_cursor)
        pal_buf_format(&cli->out, "\"%.*s\"}\n", PAL_STR_ARG(page->items[page->len - 1].id));
    else
        pal_buf_append_text(&cli->out, "null}\n");
    return status;
}

static pal_status print_page(pal_cli *cli, const pal_note_page *page, bool has_cursor)
{
    pal_cli_table table = {.columns = 5,
            .heads = {"ID", "SUBJECT", "KIND", "STATE", "TEXT"},
            .shrink = 4};
    for (size_t i = 0; i < page->len; i++) {
        const pal_note *note = &page->items[i];
        pal_cli_table_cell(cli, &table, note->id);
        pal_cli_table_cell(cli, &table, note->subject);
        pal_cli_table_cell(cli, &table, pal_str_of(pal_note_kind_name(note->kind)));
        pal_cli_table_cell(cli, &table, pal_str_of(pal_note_state_name(note->state)));
        pal_cli_table_cell(cli, &table, note->text);
    }
    if (page->len)
        pal_cli_table_print(cli, &table);
    pal_status status = pal_cli_flush(cli);
    if (status == PAL_OK && !page->len)
        fprintf(stderr, "No notes found.\n");
    else if (status == PAL_OK && has_cursor)
        fprintf(stderr, "More notes follow: use --limit, or --cursor %.*s\n",
                PAL_STR_ARG(page->items[page->len - 1].id));
    return status;
}

static pal_status list(pal_cli *cli, void *values)
{
    pal_note_query query = {.limit = 0};
    pal_note_page page;
    pal_status status = make_query(cli, values, &query);
    if (status == PAL_OK)
        status = pal_note_list(cli->store, &query, cli->arena, &page, &cli->err);
    if (status != PAL_OK)
        return status;
    bool has_cursor = page.has_more && query.text.len == 0;
    return cli->json ? print_page_json(cli, &page, has_cursor) : print_page(cli, &page, has_cursor);
}

/* ---- One note ---- */

static pal_status show(pal_cli *cli, void *values)
{
    pal_note note;
    (void)values;
    pal_status status = pal_note_find(cli->store, pal_cli_tenant(cli), pal_str_of(cli->args[0]),
            cli->arena, &note, &cli->err);
    return status == PAL_OK ? print_note(cli, &note) : status;
}

typedef struct add_values {
    const char *kind;
    const char *subject;
    const char *circle;
    const char *session;
    pal_cli_number seq;
    const char *quote;
    const char *replaces;
    const char *expires;
} add_values;

static pal_status make_request(
        pal_cli *cli, const add_values *given, pal_note_request *out_request)
{
    pal_session session;
    pal_note_request request = {.text = pal_str_of(cli->args[0]),
            .by = PAL_NOTE_BY_ADMIN,
            .seq = given->seq.value,
            .quote = pal_str_of(given->quote),
            .subject = pal_str_of(given->subject),
            .circle = pal_str_of(given->circle),
            .replaces = pal_str_of(given->replaces)};
    pal_status status = read_kind(cli, given->kind ? given->kind : "fact", &request.kind);
    if (status == PAL_OK && !given->session && !given->subject)
        status = pal_cli_usage(cli, NULL, "--subject, or --session with --seq, is required");
    if (status == PAL_OK && given->session && !given->seq.given)
        status = pal_cli_usage(cli, NULL, "--session requires --seq");
    if (status == PAL_OK && given->expires)
        status = pal_cli_time_option(cli, "expires", given->expires, 1, &request.expires_at);
    if (status == PAL_OK && given->session)
        status = pal_cli_find(cli, given->session, PAL_CLI_AMONG_LIVE, &session);
    if (status == PAL_OK && given->session)
        request.session = session.id;
    *out_request = request;
    return status;
}

static pal_status add(pal_cli *cli, void *values)
{
    pal_note_request request;
    pal_note_added added;
    pal_status status = make_request(cli, values, &request);
    if (status == PAL_OK)
        status = pal_note_add(
                cli->store, pal_cli_tenant(cli), &request, cli->arena, &added, &cli->err);
    return status == PAL_OK ? print_note(cli, &added.note) : status;
}

typedef struct change_values {
    const char *reason;
} change_values;

static pal_status change(pal_cli *cli, const change_values *given, pal_note_act act)
{
    pal_note note;
    pal_status status = pal_note_change_state(cli->store, pal_cli_tenant(cli),
            pal_str_of(cli->args[0]), act, PAL_NOTE_BY_ADMIN, pal_str_of(given->reason), cli->arena,
            &note, &cli->err);
    return status == PAL_OK ? print_note(cli, &note) : status;
}

static pal_status retract(pal_cli *cli, void *values)
{
    return change(cli, values, PAL_NOTE_RETRACT);
}

static pal_status restore(pal_cli *cli, void *values)
{
    return change(cli, values, PAL_NOTE_RESTORE);
}

static pal_status confirm(pal_cli *cli, void *values)
{
    return change(cli, values, PAL_NOTE_CONFIRM);
}

/* ---- erase ---- */

typedef struct erase_values {
    const char *subject;
    bool yes;
} erase_values;

static pal_status erase(pal_cli *cli, void *values)
{
    const erase_values *given = values;
    uint64_t erased = 1;
    pal_status status;
    if ((cli->args_len == 0) == (given->subject == NULL))
        return pal_cli_usage(cli, NULL, "give the ID of a note, or --subject");
    if (!given->yes)
        return pal_error_set(
                &cli->err, PAL_INVALID, "erasing cannot be undone; add --yes to confirm");
    if (given->subject)
        status = pal_note_erase_subject(cli->store, pal_cli_tenant(cli),
                pal_str_of(given->subject), &erased, &cli->err);
    else
        status = pal_note_erase(
                cli->store, pal_cli_tenant(cli), pal_str_of(cli->args[0]), &cli->err);
    if (status != PAL_OK)
        return status;
    if (cli->json) {
        pal_buf_format(&cli->out, "{\"erased\":%llu}\n", (unsigned long long)erased);
        return PAL_OK;
    }
    pal_buf_append_text(&cli->out, "erased ");
    pal_cli_count(&cli->out, erased, "note");
    pal_buf_append_char(&cli->out, '\n');
    return PAL_OK;
}

/* ---- Commands ---- */

static const pal_cli_option list_options[] = {
        {"subject", 0, PAL_CLI_TEXT, offsetof(list_values, subject), "SUBJECT",
                "only notes about this subject"},
        {"session", 0, PAL_CLI_TEXT, offsetof(list_values, session), "SESSION",
                "only notes that may be shown in this session"},
        {"state", 0, PAL_CLI_TEXT, offsetof(list_values, state), "STATE",
                "only active, pending, superseded or retracted notes"},
        {"kind", 0, PAL_CLI_TEXT, offsetof(list_values, kind), "KIND",
                "only notes of this kind"},
        {"limit", 0, PAL_CLI_NUMBER, offsetof(list_values, limit), "N",
                "maximum number of notes (50)"},
        {"cursor", 0, PAL_CLI_TEXT, offsetof(list_values, cursor), "C",
                "continue after the previous page"},
        {0},
};

const pal_cli_command pal_cmd_memory_list = {
        .name = "memory list",
        .summary = "list notes, or search them",
        .usage = "[TEXT]",
        .about = "Lists the notes of the tenant by circle. With TEXT, it lists notes with any of "
                 "the words, the best first.",
        .examples = "palaver memory list --subject person:telegram:7\n"
                    "palaver memory list \"what does she eat\" --session demo --json",
        .options = list_options,
        .values_size = sizeof(list_values),
        .args_max = 1,
        .access = PAL_CLI_READ,
        .run = list,
};

const pal_cli_command pal_cmd_memory_show = {
        .name = "memory show",
        .summary = "show a note with its sources and changes",
        .usage = "ID",
        .about = "Shows a note: the messages that it rests on with the quoted words, and all "
                 "changes.",
        .examples = "palaver memory show ID\n"
                    "palaver memory show ID --json",
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_READ,
        .run = show,
};

static const pal_cli_option add_options[] = {
        {"kind", 0, PAL_CLI_TEXT, offsetof(add_values, kind), "KIND", KINDS " (fact)"},
        {"subject", 0, PAL_CLI_TEXT, offsetof(add_values, subject), "SUBJECT",
                "tenant, person:NAME, room:NAME or session:ID (the sender)"},
        {"circle", 0, PAL_CLI_TEXT, offsetof(add_values, circle), "CIRCLE",
                "who may be shown it (where it was said, or the subject)"},
        {"session", 0, PAL_CLI_TEXT, offsetof(add_values, session), "SESSION",
                "session of the message that the note rests on"},
        {"seq", 0, PAL_CLI_NUMBER, offsetof(add_values, seq), "N", "seq of that message"},
        {"quote", 0, PAL_CLI_TEXT, offsetof(add_values, quote), "TEXT",
                "words of that message (TEXT itself)"},
        {"replaces", 0, PAL_CLI_TEXT, offsetof(add_values, replaces), "ID",
                "note that this one supersedes"},
        {"expires", 0, PAL_CLI_TEXT, offsetof(add_values, expires), "WHEN",
                "when the note expires: 30d, or a time"},
        {0},
};

const pal_cli_command pal_cmd_memory_add = {
        .name = "memory add",
        .summary = "add a note",
        .usage = "TEXT",
        .about = "Adds a note and prints it. With --session and --seq the note rests on that "
                 "message, and the rules decide whether it becomes active, pending or is "
                 "rejected.",
        .examples = "palaver memory add \"Ann is vegetarian.\" --session demo --seq 3 --quote "
                    "\"I am vegetarian\"\n"
                    "palaver memory add \"The office is closed on Fridays.\" --subject tenant",
        .options = add_options,
        .values_size = sizeof(add_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .run = add,
};

static const pal_cli_option change_options[] = {
        {"reason", 0, PAL_CLI_TEXT, offsetof(change_values, reason), "TEXT",
                "why, for the history of the note"},
        {0},
};

const pal_cli_command pal_cmd_memory_retract = {
        .name = "memory retract",
        .summary = "retract a note; undo with 'memory restore'",
        .usage = "ID",
        .about = "Retracts an active or pending note, so that it is not shown any more. It can be "
                 "restored.",
        .examples = "palaver memory retract ID --reason \"she moved\"\n"
                    "palaver memory retract ID --json",
        .options = change_options,
        .values_size = sizeof(change_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .run = retract,
};

const pal_cli_command pal_cmd_memory_restore = {
        .name = "memory restore",
        .summary = "make a superseded or retracted note active again",
        .usage = "ID",
        .about = "Makes a superseded or retracted note active again. If another note superseded "
                 "it, that one is retracted.",
        .examples = "palaver memory restore ID\n"
                    "palaver memory restore ID --reason \"it was right\"",
        .options = change_options,
        .values_size = sizeof(change_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .run = restore,
};

const pal_cli_command pal_cmd_memory_confirm = {
        .name = "memory confirm",
        .summary = "make a pending note active",
        .usage = "ID",
        .about = "Makes a pending note active. If it supersedes another note, that happens now.",
        .examples = "palaver memory list --state pending\n"
                    "palaver memory confirm ID",
        .options = change_options,
        .values_size = sizeof(change_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .run = confirm,
};

static const pal_cli_option erase_options[] = {
        {"subject", 0, PAL_CLI_TEXT, offsetof(erase_values, subject), "SUBJECT",
                "erase all notes about this subject"},
        {"yes", 0, PAL_CLI_FLAG, offsetof(erase_values, yes), NULL, "erase without asking"},
        {0},
};

const pal_cli_command pal_cmd_memory_erase = {
        .name = "memory erase",
        .summary = "erase notes for good",
        .usage = "[ID] --yes",
        .about = "Erases a note, or all notes about a subject, with their quotes and their "
                 "history. This cannot be undone.",
        .examples = "palaver memory erase ID --yes\n"
                    "palaver memory erase --subject person:telegram:7 --yes",
        .options = erase_options,
        .values_size = sizeof(erase_values),
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .is_destructive = true,
        .run = erase,
};
