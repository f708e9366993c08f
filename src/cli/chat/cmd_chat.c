/* cmd_chat.c - `palaver chat`: a conversation in the terminal. If stdin or stdout is not a
 * terminal, it asks one question and prints the answer. */
#include "cli/chat/cmd_chat.h"

#include <string.h>
#include <unistd.h>
#include "base/json/json_put.h"
#include "base/text.h"
#include "dialect/native/native.h"

#define WORDS_MAX 10000 /* maximum words of a question on the command line */
#define DRAIN_MS 2000   /* how long a running turn may take to end when the user leaves */

typedef struct chat_values {
    pal_cli_runtime_values runtime;
    const char *session;
    const char *agent;
    bool new;
    pal_cli_list attach;
} chat_values;

/* ---- Which conversation ---- */

static pal_status find_last(pal_chat *chat, pal_session *out_session, bool *out_found)
{
    pal_cli *cli = chat->cli;
    pal_session_page page;
    pal_session_query query = {
            .tenant = pal_cli_tenant(cli), .agent = pal_str_of(chat->agent), .limit = 1};
    pal_status status = pal_store_list(cli->store, &query, cli->arena, &page, &cli->err);
    *out_found = status == PAL_OK && page.sessions_len > 0;
    if (*out_found)
        *out_session = page.sessions[0];
    return status;
}

static pal_status find_named(pal_chat *chat, const char *name, pal_session *out_session)
{
    pal_cli *cli = chat->cli;
    pal_status status = pal_cli_find(cli, name, PAL_CLI_AMONG_LIVE, out_session);
    if (status == PAL_OK && out_session->state != PAL_SESSION_ACTIVE)
        status = pal_error_set(&cli->err, PAL_CONFLICT, "session '%.100s' is %s", name,
                pal_session_state_name(out_session->state));
    return status;
}

static pal_status choose_session(
        pal_chat *chat, const chat_values *given, pal_session *out_session, bool *out_found)
{
    pal_status status = PAL_OK;
    *out_found = false;
    if (given->session && given->new)
        return pal_cli_usage(chat->cli, NULL, "--session and --new cannot be combined");
    if (given->session) {
        status = find_named(chat, given->session, out_session);
        *out_found = status == PAL_OK;
    } else if (!given->new) {
        status = find_last(chat, out_session, out_found);
    }
    if (*out_found)
        chat->session = out_session->id;
    return status;
}

/* ---- One question ---- */

/* Joins the words of the command line and, if stdin is not a terminal, all of stdin. */
static pal_status gather_question(pal_chat *chat, pal_buf *text)
{
    pal_cli *cli = chat->cli;
    pal_cli_input input;
    pal_str all;
    for (size_t i = 0; i < cli->args_len; i++) {
        pal_buf_append_text(text, i ? " " : "");
        pal_buf_append_text(text, cli->args[i]);
    }
    if (cli->args_len && isatty(STDIN_FILENO))
        return PAL_OK;
    pal_status status = pal_cli_input_open(cli, "-", &input);
    if (status != PAL_OK)
        return status;
    status = pal_cli_input_all(cli, &input, &all);
    if (status == PAL_OK) {
        while (all.len > 0 && (all.data[all.len - 1] == '\n' || all.data[all.len - 1] == '\r'))
            all.len--;
        if (text->len && all.len)
            pal_buf_append_text(text, "\n\n");
        pal_buf_append_str(text, all);
    }
    pal_cli_input_close(&input);
    return status;
}

static void put_json(pal_chat *chat, const pal_chat_answer *answer)
{
    pal_json_writer writer = pal_json_writer_make(&chat->cli->out);
    pal_json_begin_object(&writer);
    pal_put_id(&writer, "session_id", chat->session);
    pal_put_id(&writer, "turn_id", answer->turn);
    pal_put_text(&writer, "state", pal_turn_state_name(answer->state));
    pal_put_str(&writer, "text", answer->text);
    pal_native_put_usage(&writer, "usage", &answer->usage);
    pal_json_end_object(&writer);
    pal_buf_append_char(&chat->cli->out, '\n');
}

static pal_status attach_given(pal_chat *chat, const chat_values *given)
{
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < given->attach.len; i++)
        status = pal_chat_attach(chat, given->attach.items[i]);
    return status;
}

static pal_status ask_once(pal_chat *chat, const chat_values *given)
{
    pal_cli *cli = chat->cli;
    pal_chat_answer answer;
    pal_buf text;
    pal_buf_init(&text, PAL_CLI_INPUT_MAX);
    pal_status status = gather_question(chat, &text);
    if (status != PAL_OK)
        goto out;
    if (text.failure) {
        status = pal_cli_no_memory(cli);
        goto out;
    }
    if (text.len == 0) {
        status = pal_cli_usage(
                cli, "palaver chat \"What is a palaver?\"", "the question is missing");
        goto out;
    }
    status = attach_given(chat, given);
    if (status == PAL_OK)
        status = pal_chat_say(chat, pal_buf_str(&text), !cli->json, &answer);
    if (status != PAL_OK)
        goto out;
    if (cli->json)
        put_json(chat, &answer);
    if (answer.state == PAL_TURN_CANCELED)
        status = pal_error_set(
                &cli->err, PAL_CANCELED, "the answer was stopped before it was complete");
out:
    pal_buf_done(&text);
    return status;
}

/* ---- A conversation ---- */

static const char no_model[] =
        "No model is configured, so 'echo' answers: it only repeats your messages. Set "
        "OPENAI_API_KEY, ANTHROPIC_API_KEY or MISTRAL_API_KEY, start Ollama or a llama.cpp "
        "server, or configure a provider in palaver.yaml ('palaver config example' prints a file "
        "to start from).";

static void greet(pal_chat *chat)
{
    pal_cli *cli = chat->cli;
    pal_cli_style(cli, 1);
    pal_buf_append_text(&cli->out, "Palaver");
    pal_cli_style(cli, 0);
    pal_cli_style(cli, 2);
    pal_buf_append_text(&cli->out, "  ");
    pal_cli_clean(&cli->out,
            chat->runtime.model.len ? chat->runtime.model : pal_str_of("the first model"), false);
    pal_buf_append_text(&cli->out, " at ");
    pal_cli_clean(&cli->out, chat->runtime.endpoint, false);
    pal_buf_append_text(&cli->out, "\n/help lists the commands, Ctrl-D quits.");
    pal_cli_style(cli, 0);
    pal_buf_append_char(&cli->out, '\n');
    if (chat->runtime.is_stopgap)
        pal_cli_wrap(&cli->out, pal_str_of(no_model), 0, cli->width);
}

/* Reads a message: one line, plus the following lines while a line ends with a backslash. */
static pal_terminal_input read_message(pal_chat *chat, pal_buf *text)
{
    pal_terminal_input input;
    bool goes_on = true;
    pal_buf_clear(text);
    do {
        pal_str line;
        const char *prompt = text->len ? "\xe2\x80\xa6" : ">";
        input = pal_terminal_read(chat->terminal, prompt, chat->has_styles, &line);
        if (input != PAL_INPUT_LINE)
            break;
        goes_on = line.len > 0 && line.data[line.len - 1] == '\\';
        pal_buf_append(text, line.data, line.len - goes_on);
        if (goes_on)
            pal_buf_append_char(text, '\n');
    } while (goes_on);
    /* Ctrl-C discards all lines of the message. */
    return input == PAL_INPUT_EMPTY && text->len ? PAL_INPUT_INTERRUPTED : input;
}

/* Shows an error. The conversation continues. */
static void put_failure(pal_chat *chat)
{
    pal_cli *cli = chat->cli;
    char line[PAL_ERROR_MESSAGE_MAX + 2];
    snprintf(line, sizeof line, "! %s", cli->err.message);
    pal_cli_style(cli, 1);
    pal_cli_wrap(&cli->out, pal_str_of(line), 0, cli->width);
    pal_cli_style(cli, 0);
    pal_cli_wrap(&cli->out, pal_str_of(cli->hint), 2, cli->width);
    cli->err = (pal_error){0};
    cli->hint[0] = '\0';
    cli->is_usage = false;
}

static pal_status take_message(pal_chat *chat, pal_str text)
{
    pal_chat_answer answer;
    pal_status status = PAL_OK;
    if (pal_text_is_blank(text))
        return PAL_OK;
    pal_terminal_remember(chat->terminal, text);
    pal_arena_reset(chat->arena);
    chat->cli->width = pal_terminal_width(chat->terminal);
    if (text.data[0] == '/') {
        status = pal_chat_command(chat, text);
    } else {
        status = pal_chat_attach_mentioned(chat, text);
        if (status == PAL_OK)
            status = pal_chat_say(chat, text, true, &answer);
    }
    if (status != PAL_OK)
        put_failure(chat);
    return pal_cli_flush(chat->cli);
}

static pal_status talk(pal_chat *chat)
{
    pal_cli *cli = chat->cli;
    bool was_empty = false; /* the last input was Ctrl-C on an empty line */
    pal_buf text;
    pal_buf_init(&text, PAL_CLI_INPUT_MAX);
    pal_status status = pal_cli_flush(cli);
    while (status == PAL_OK && !chat->is_over) {
        pal_terminal_input input = read_message(chat, &text);
        if (input == PAL_INPUT_END || (input == PAL_INPUT_EMPTY && was_empty))
            break;
        was_empty = input == PAL_INPUT_EMPTY;
        if (was_empty)
            pal_buf_append_text(&cli->out, "Press Ctrl-C again, or Ctrl-D, to quit.\n");
        if (input == PAL_INPUT_LINE && text.failure)
            status = pal_cli_no_memory(cli);
        else if (input == PAL_INPUT_LINE)
            status = take_message(chat, pal_buf_str(&text));
        if (status == PAL_OK)
            status = pal_cli_flush(cli);
    }
    pal_buf_done(&text);
    return status;
}

static pal_status talk_at_terminal(
        pal_chat *chat, const pal_session *last, const chat_values *given)
{
    pal_cli *cli = chat->cli;
    if (cli->json)
        return pal_cli_usage(cli, "palaver chat --json \"What is a palaver?\"",
                "--json requires a question, or input from a pipe");
    pal_status status = pal_terminal_open(cli, pal_chat_words, &chat->terminal);
    if (status != PAL_OK)
        return status;
    greet(chat);
    if (last)
        status = pal_chat_introduce(chat, last);
    if (status == PAL_OK)
        status = attach_given(chat, given);
    if (status == PAL_OK)
        status = talk(chat);
    pal_terminal_close(chat->terminal);
    chat->terminal = NULL;
    return status;
}

/* ---- The command ---- */

static pal_status run_chat(pal_chat *chat, const chat_values *given)
{
    pal_cli *cli = chat->cli;
    pal_session last;
    bool found;
    bool is_talk = cli->args_len == 0 && isatty(STDIN_FILENO) && cli->is_terminal;
    pal_status status = choose_session(chat, given, &last, &found);
    if (status != PAL_OK)
        return status;
    status = pal_signals_open(cli);
    if (status != PAL_OK)
        return status;
    pal_cli_runtime_values values = given->runtime;
    values.can_ask = is_talk;
    status = pal_cli_runtime_open(cli, &values, &chat->runtime);
    if (status != PAL_OK)
        goto out;
    status = is_talk ? talk_at_terminal(chat, found ? &last : NULL, given)
                     : ask_once(chat, given);
    if (status == PAL_OK && chat->runtime.is_stopgap && !is_talk)
        pal_cli_print_error("no model is configured, so 'echo' answered",
                "set OPENAI_API_KEY or the key of another provider, or see 'palaver config "
                "example'");
out:
    pal_cli_runtime_close(&chat->runtime, DRAIN_MS);
    pal_signals_close();
    return status;
}

static pal_status chat_run(pal_cli *cli, void *values)
{
    const chat_values *given = values;
    pal_chat chat = {.cli = cli,
            .agent = given->agent ? given->agent : PAL_CHAT_AGENT,
            .has_styles = pal_cli_has_styles(cli),
            .arena = pal_arena_new(0)};
    if (!chat.arena)
        return pal_cli_no_memory(cli);
    pal_buf_init(&chat.endpoint, PAL_MODEL_LEN_MAX * 4);
    pal_buf_init(&chat.model, PAL_MODEL_LEN_MAX);
    pal_buf_init(&chat.system, PAL_CHAT_SYSTEM_MAX);
    pal_status status = run_chat(&chat, given);
    pal_buf_done(&chat.endpoint);
    pal_buf_done(&chat.model);
    pal_buf_done(&chat.system);
    pal_arena_free(chat.attached_arena);
    pal_arena_free(chat.arena);
    return status;
}

static const pal_cli_option options[] = {
        {"new", 'n', PAL_CLI_FLAG, offsetof(chat_values, new), NULL,
                "start a new conversation"},
        {"session", 's', PAL_CLI_TEXT, offsetof(chat_values, session), "SESSION",
                "continue this session (the last one)"},
        {"agent", 0, PAL_CLI_TEXT, offsetof(chat_values, agent), "NAME",
                "agent whose conversations are used (chat)"},
        {"attach", 'a', PAL_CLI_LIST, offsetof(chat_values, attach), "FILE",
                "send a text, an image or a PDF; can be repeated"},
        PAL_CLI_RUNTIME_OPTIONS(chat_values, runtime.),
        {0},
};

const pal_cli_command pal_cmd_chat = {
        .name = "chat",
        .summary = "talk to a model in the terminal",
        .usage = "[TEXT...]",
        .about = "Continues the last conversation, or starts a new one. Answers appear as they "
                 "arrive; Ctrl-C stops one, Ctrl-D quits, /help lists the commands. With TEXT, or "
                 "in a pipe, it asks one question and prints only the answer. All of stdin is one "
                 "message; if there is also a TEXT, stdin follows it. The exit code is 0 if there "
                 "was an answer. With --json the answer is printed with its session and its token "
                 "counts.",
        .examples = "palaver chat \"What is a palaver?\"\n"
                    "git diff | palaver chat --new \"Review this:\"",
        .options = options,
        .values_size = sizeof(chat_values),
        .args_max = WORDS_MAX,
        .access = PAL_CLI_CREATE,
        .run = chat_run,
};
