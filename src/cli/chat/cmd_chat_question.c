/* cmd_chat_question.c - asks the user whether tool calls may run, one after the other, and sends
 * the answers to the turn. Names and arguments come from the model, so they are indented and
 * control characters are made visible: a model cannot imitate the prompt. */
#include "cli/chat/cmd_chat.h"

#include "base/text.h"

#define INDENT 4
#define ARGUMENTS_SHOWN_MAX ((size_t)64 << 10) /* bytes */

static void put_question(pal_chat *chat, const pal_question *question, size_t number, size_t count)
{
    pal_cli *cli = chat->cli;
    pal_str arguments = question->arguments;
    if (count > 1)
        pal_buf_format(&cli->out, "%zu of %zu: ", number, count);
    pal_cli_wrap(&cli->out, question->text, 0, cli->width);
    if (question->server.len) {
        pal_buf_append_text(&cli->out, "    server: ");
        pal_cli_clean(&cli->out, question->server, false);
        pal_buf_append_char(&cli->out, '\n');
    }
    pal_buf_append_text(&cli->out, "    tool: ");
    pal_cli_clean(&cli->out, question->name, false);
    pal_buf_append_text(&cli->out, "\n    arguments:\n");
    if (arguments.len > ARGUMENTS_SHOWN_MAX)
        arguments.len = pal_utf8_cut(arguments, ARGUMENTS_SHOWN_MAX);
    pal_cli_wrap(&cli->out, arguments, INDENT + 2, cli->width);
    if (arguments.len < question->arguments.len)
        pal_buf_format(&cli->out, "    (%zu more bytes are not shown)\n",
                question->arguments.len - arguments.len);
}

/* Everything that is not clearly a yes is a no. */
static pal_question_answer answer_of(const pal_question *question, pal_str line)
{
    bool is_always = pal_text_is_nocase(line, "always") || pal_text_is_nocase(line, "a");
    bool is_yes = pal_text_is_nocase(line, "y") || pal_text_is_nocase(line, "yes");
    return (pal_question_answer){.call_id = question->call_id,
            .allow = is_yes || is_always,
            .remember = is_always || pal_text_is_nocase(line, "never")};
}

/* Asks one question. */
static pal_status ask_one(pal_chat *chat, const pal_question *question,
        pal_question_answer *out_answer, bool *out_is_stopped)
{
    pal_str line;
    bool is_repeat = question->kind == PAL_QUESTION_REPEAT;
    if (question->kind == PAL_QUESTION_INPUT)
        return pal_chat_ask_input(chat, question, out_answer, out_is_stopped);
    pal_status status = pal_cli_flush(chat->cli);
    if (status != PAL_OK)
        return status;
    if (pal_terminal_read(chat->terminal,
                is_repeat ? "allow this call? [y/N]" : "allow this call? [y/n/always/never]",
                chat->has_styles, &line) != PAL_INPUT_LINE)
        *out_is_stopped = true;
    else
        *out_answer = answer_of(question, line);
    return PAL_OK;
}

static pal_status ask_all(pal_chat *chat, pal_id turn, bool *out_is_stopped)
{
    pal_cli *cli = chat->cli;
    pal_turn_waits waits;
    *out_is_stopped = false;
    pal_status status = pal_turn_waiting(chat->runtime.runtime, pal_cli_tenant(cli), turn,
            chat->arena, &waits, &cli->err);
    if (status != PAL_OK)
        return status;
    pal_question_answer *answers =
            pal_arena_array(chat->arena, waits.questions_len + 1, sizeof *answers);
    if (!answers)
        return pal_cli_no_memory(cli);
    for (size_t i = 0; i < waits.questions_len; i++) {
        const pal_question *question = &waits.questions[i];
        put_question(chat, question, i + 1, waits.questions_len);
        status = ask_one(chat, question, &answers[i], out_is_stopped);
        if (status != PAL_OK || *out_is_stopped)
            return status;
    }
    if (waits.questions_len == 0)
        return PAL_OK; /* another client was faster */
    status = pal_turn_answer(chat->runtime.runtime, pal_cli_tenant(cli), turn, answers,
            waits.questions_len, &cli->err);
    return status == PAL_CONFLICT ? PAL_OK : status;
}

/* An answer that does not fit the question is asked for again. */
pal_status pal_chat_ask(pal_chat *chat, pal_id turn, bool *out_is_stopped)
{
    pal_cli *cli = chat->cli;
    pal_status status;
    while ((status = ask_all(chat, turn, out_is_stopped)) == PAL_INVALID) {
        pal_cli_clean(&cli->out, pal_str_of(cli->err.message), false);
        pal_buf_append_text(&cli->out, "; please answer again\n");
    }
    return status;
}
