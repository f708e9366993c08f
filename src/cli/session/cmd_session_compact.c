/* cmd_session_compact.c - `palaver session compact`: replaces the older part of a conversation
 * by a summary in what the model receives. A compaction can be undone, repeated and compared.
 * Nothing is deleted. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include "base/json/json_put.h"

typedef struct compact_values {
    pal_cli_window_values window;
    pal_cli_runtime_values runtime; /* the model is that of the window */
    const char *prompt;
    const char *summary;
    bool undo;
    bool redo;
    bool diff;
    bool dry_run;
} compact_values;

typedef struct compacter {
    pal_cli *cli;
    const compact_values *given;
    pal_session session;
    pal_cli_window window;
    pal_str summary; /* written by the user */
} compacter;

static pal_status read_number(pal_cli *cli, const char *text, uint64_t *out_number)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || number == 0)
        return pal_cli_usage(cli,
                "run 'palaver session show SESSION --marks' to see the checkpoints",
                "'%.60s' is not the number of a checkpoint", text);
    *out_number = number;
    return PAL_OK;
}

/* ---- Undo, diff ---- */

static pal_status undo(compacter *c)
{
    pal_cli *cli = c->cli;
    uint64_t number = 0;
    pal_status status = cli->args_len > 1 ? read_number(cli, cli->args[1], &number) : PAL_OK;
    if (status == PAL_OK)
        status = pal_window_uncompact(
                cli->store, pal_cli_tenant(cli), c->session.id, number, &cli->err);
    if (status != PAL_OK)
        return status;
    if (cli->json)
        pal_buf_append_text(&cli->out, "{\"undone\":true}\n");
    else
        pal_buf_append_text(&cli->out,
                "Undone. The messages that the checkpoint replaced are sent to the model again.\n");
    return PAL_OK;
}

static pal_status diff(compacter *c)
{
    pal_cli *cli = c->cli;
    uint64_t numbers[2] = {0};
    pal_str text;
    if (cli->args_len != 3)
        return pal_cli_usage(
                cli, "palaver session compact SESSION --diff 1 3",
                "--diff requires the numbers of two checkpoints");
    pal_status status = read_number(cli, cli->args[1], &numbers[0]);
    if (status != PAL_OK)
        return status;
    status = read_number(cli, cli->args[2], &numbers[1]);
    if (status != PAL_OK)
        return status;
    status = pal_window_diff(cli->store, pal_cli_tenant(cli), c->session.id, numbers[0],
            numbers[1], cli->arena, &text, &cli->err);
    if (status != PAL_OK)
        return status;
    if (cli->json) {
        pal_json_writer writer = pal_json_writer_make(&cli->out);
        pal_json_begin_object(&writer);
        pal_put_str(&writer, "diff", text);
        pal_json_end_object(&writer);
        pal_buf_append_char(&cli->out, '\n');
    } else {
        pal_cli_clean(&cli->out, text, true);
    }
    return PAL_OK;
}

/* ---- Compaction ---- */

static pal_status read_summary(compacter *c)
{
    pal_cli *cli = c->cli;
    pal_cli_input input;
    pal_str text;
    if (strcmp(c->given->summary, "-") != 0) {
        c->summary = pal_str_of(c->given->summary);
        return PAL_OK;
    }
    pal_status status = pal_cli_input_open(cli, "-", &input);
    if (status != PAL_OK)
        return status;
    status = pal_cli_input_all(cli, &input, &text);
    if (status == PAL_OK) {
        c->summary = pal_arena_copy(cli->arena, text);
        status = pal_arena_failure(cli->arena) == PAL_OK ? PAL_OK : pal_cli_no_memory(cli);
    }
    pal_cli_input_close(&input);
    return status;
}

static void print_json(pal_cli *cli, const pal_compaction_result *made)
{
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_json_begin_object(&writer);
    pal_put_count(&writer, "number", made->number);
    pal_put_count(&writer, "seq", made->seq);
    pal_put_flag(&writer, "fallback", made->is_fallback);
    pal_put_count(&writer, "messages", made->messages);
    pal_put_count(&writer, "tokens_before", made->tokens_before);
    pal_put_count(&writer, "tokens_after", made->tokens_after);
    pal_put_str(&writer, "summary", made->summary);
    pal_put_str(&writer, "note", made->note);
    pal_json_end_object(&writer);
    pal_buf_append_char(&cli->out, '\n');
}

static void print_text(pal_cli *cli, const pal_compaction_result *made)
{
    if (made->number == 0) {
        pal_buf_format(&cli->out, "Nothing was changed: %.*s.\n", PAL_STR_ARG(made->note));
        return;
    }
    if (made->seq == 0 && !made->is_fallback) {
        pal_buf_format(&cli->out,
                "Checkpoint %llu: the summary is sent before all messages; no messages were "
                "replaced.\n",
                (unsigned long long)made->number);
        return;
    }
    if (made->is_fallback)
        pal_buf_format(&cli->out, "No summary was written: %.*s.\n", PAL_STR_ARG(made->note));
    pal_buf_format(&cli->out, "Checkpoint %llu: %s ", (unsigned long long)made->number,
            made->is_fallback ? "left out" : "a summary replaces");
    pal_cli_count(&cli->out, made->messages, "message");
    pal_buf_format(&cli->out, " up to %llu, ", (unsigned long long)made->seq);
    pal_cli_number_text(&cli->out, made->tokens_before);
    pal_buf_append_text(&cli->out, " tokens became ");
    pal_cli_number_text(&cli->out, made->tokens_after);
    pal_buf_append_text(&cli->out,
            ".\nNo message was removed: 'palaver session compact SESSION --undo' reverses this.\n");
}

/* Plans as a compaction would. The action of the plan is PAL_PLAN_ACTION_COMPACT if there is
 * something to compact. */
static pal_status plan_cut(compacter *c, pal_plan *out_plan)
{
    pal_cli *cli = c->cli;
    pal_window window = c->window.window;
    window.after_overflow = true;
    window.settings.auto_off = false;
    window.settings.prune_off = true;
    if (window.settings.strategy == PAL_STRATEGY_SLIDING_WINDOW ||
            window.settings.strategy == PAL_STRATEGY_NONE)
        window.settings.strategy = PAL_STRATEGY_COMPACT;
    return pal_window_plan(cli->store, &window, cli->arena, out_plan, &cli->err);
}

/* Computes where to cut. A runtime uses its own settings, so the settings of the command line
 * are passed as a cut position. */
static pal_status place_cut(compacter *c, pal_compaction_request *compaction, bool *out_is_some)
{
    pal_plan plan;
    *out_is_some = true;
    if (compaction->redo || (!c->given->window.strategy && !c->given->window.max_tokens.given))
        return PAL_OK;
    pal_status status = plan_cut(c, &plan);
    if (status != PAL_OK)
        return status;
    *out_is_some = plan.action == PAL_PLAN_ACTION_COMPACT;
    compaction->cut_seq = plan.cut_seq;
    return PAL_OK;
}

/* Compacts with the model that is configured or found. 'echo' is not a model; with it, complete
 * turns are left out instead. */
static pal_status compact_by_model(
        compacter *c, pal_compaction_request *compaction, pal_compaction_result *out_made)
{
    pal_cli *cli = c->cli;
    pal_cli_runtime runtime;
    bool is_some = true;
    pal_cli_runtime_values values = c->given->runtime;
    values.model = c->given->window.model;
    pal_status status = pal_cli_runtime_open(cli, &values, &runtime);
    if (status != PAL_OK)
        goto out;
    if (c->window.kind.len ? pal_str_is(c->window.kind, "echo") : runtime.is_echo) {
        status = pal_window_compact(
                cli->store, &c->window.window, compaction, cli->arena, out_made, &cli->err);
        if (status == PAL_OK && out_made->is_fallback)
            out_made->note = pal_str_of(runtime.is_stopgap
                            ? "no model is configured and none was found"
                            : "'echo' is not a model and cannot write summaries; configure a "
                              "provider");
        goto out;
    }
    status = place_cut(c, compaction, &is_some);
    if (status != PAL_OK)
        goto out;
    if (is_some)
        status = pal_turn_compact(runtime.runtime, pal_cli_tenant(cli), c->session.id, compaction,
                cli->arena, out_made, &cli->err);
    else
        *out_made = (pal_compaction_result){.note = pal_str_of("nothing to compact")};
out:
    pal_cli_runtime_close(&runtime, 0);
    return status;
}

static pal_status compact_by_hand(
        compacter *c, pal_compaction_request *compaction, pal_compaction_result *out_made)
{
    pal_cli *cli = c->cli;
    pal_mark mark;
    pal_status status = read_summary(c);
    if (status != PAL_OK)
        return status;
    compaction->summary = c->summary;
    status = pal_window_compact(
            cli->store, &c->window.window, compaction, cli->arena, out_made, &cli->err);
    if (status != PAL_OK || out_made->number || c->summary.len == 0)
        return status;
    /* No message can be cut, so the summary is sent before all messages. */
    status = pal_window_summary_set(
            cli->store, pal_cli_tenant(cli), c->session.id, c->summary, &mark, &cli->err);
    out_made->number = mark.number;
    out_made->seq = mark.seq;
    out_made->summary = c->summary;
    return status;
}

static pal_status compact(compacter *c)
{
    pal_cli *cli = c->cli;
    const compact_values *given = c->given;
    const pal_runtime_options *options = pal_config_get(cli->config)->runtime;
    pal_compaction_request compaction = {
            .prompt = given->prompt ? pal_str_of(given->prompt) : options->compaction_prompt,
            .model = given->window.model ? pal_str_of(given->window.model)
                                         : options->compaction_model,
            .reason = pal_str_of("manual")};
    pal_compaction_result made;
    pal_status status;
    if (given->redo && cli->args_len < 2)
        return pal_cli_usage(cli, NULL, "--redo requires the number of a checkpoint");
    if (given->redo) {
        status = read_number(cli, cli->args[1], &compaction.redo);
        if (status != PAL_OK)
            return status;
    }
    status = given->summary ? compact_by_hand(c, &compaction, &made)
                            : compact_by_model(c, &compaction, &made);
    if (status != PAL_OK)
        return status;
    if (cli->json)
        print_json(cli, &made);
    else
        print_text(cli, &made);
    return PAL_OK;
}

static pal_status dry_run(compacter *c)
{
    pal_cli *cli = c->cli;
    pal_compaction_result made = {.note = pal_str_of("nothing to compact")};
    pal_plan plan;
    pal_status status = plan_cut(c, &plan);
    if (status != PAL_OK)
        return status;
    bool is_some = plan.action == PAL_PLAN_ACTION_COMPACT;
    if (is_some) {
        made.seq = plan.cut_seq;
        made.tokens_before = plan.tokens;
        made.tokens_after = plan.tokens - plan.cut_tokens;
        made.note = pal_str_of("dry run");
    }
    if (cli->json) {
        print_json(cli, &made);
    } else if (is_some) {
        pal_buf_format(&cli->out, "A summary would replace the messages up to %llu: ",
                (unsigned long long)plan.cut_seq);
        pal_cli_number_text(&cli->out, plan.cut_tokens);
        pal_buf_append_text(&cli->out, " of ");
        pal_cli_number_text(&cli->out, plan.tokens);
        pal_buf_append_text(&cli->out, " tokens.\n");
    } else {
        print_text(cli, &made);
    }
    return PAL_OK;
}

/* ---- The command ---- */

static pal_status check_options(pal_cli *cli, const compact_values *given)
{
    int ways = given->undo + given->redo + given->diff + given->dry_run;
    if (ways > 1)
        return pal_cli_usage(cli, NULL, "--undo, --redo, --diff and --dry-run cannot be combined");
    if ((given->undo || given->diff || given->dry_run) && (given->summary || given->prompt))
        return pal_cli_usage(cli, NULL,
                "--summary and --prompt are only allowed if a checkpoint is created");
    if (cli->args_len > 1 && !given->undo && !given->redo && !given->diff)
        return pal_cli_usage(cli, NULL, "unexpected argument '%.60s'", cli->args[1]);
    if (cli->args_len > 2 && !given->diff)
        return pal_cli_usage(cli, NULL, "unexpected argument '%.60s'", cli->args[2]);
    return PAL_OK;
}

static pal_status session_compact(pal_cli *cli, void *values)
{
    compacter c = {.cli = cli, .given = values};
    pal_status status = check_options(cli, c.given);
    if (status == PAL_OK)
        status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &c.session);
    if (status != PAL_OK)
        return status;
    if (c.given->undo)
        return undo(&c);
    if (c.given->diff)
        return diff(&c);
    status = pal_cli_runtime_choose(cli, &c.given->runtime);
    if (status != PAL_OK)
        return status;
    status = pal_cli_window_open(cli, &c.session, &c.given->window, &c.window);
    if (status == PAL_OK)
        status = c.given->dry_run ? dry_run(&c) : compact(&c);
    pal_cli_window_close(&c.window);
    return status;
}

static pal_cli_access access_for(const void *values)
{
    const compact_values *given = values;
    return given->diff || given->dry_run ? PAL_CLI_READ : PAL_CLI_WRITE;
}

static const pal_cli_option options[] = {
        {"summary", 0, PAL_CLI_TEXT, offsetof(compact_values, summary), "TEXT",
                "the summary; '-' reads it from stdin"},
        {"prompt", 0, PAL_CLI_TEXT, offsetof(compact_values, prompt), "TEXT",
                "prompt for the model, instead of the built-in one"},
        {"undo", 0, PAL_CLI_FLAG, offsetof(compact_values, undo), NULL,
                "undo checkpoint NUMBER (the newest)"},
        {"redo", 0, PAL_CLI_FLAG, offsetof(compact_values, redo), NULL,
                "write the summary of checkpoint NUMBER again"},
        {"diff", 0, PAL_CLI_FLAG, offsetof(compact_values, diff), NULL,
                "compare two checkpoints by their NUMBERs"},
        {"dry-run", 0, PAL_CLI_FLAG, offsetof(compact_values, dry_run), NULL,
                "only show what would be summarized"},
        PAL_CLI_WINDOW_OPTIONS(compact_values, window.),
        PAL_CLI_PROVIDER_OPTIONS(compact_values, runtime.),
        {0},
};

const pal_cli_command pal_cmd_session_compact = {
        .name = "session compact",
        .summary = "replace older messages by a summary",
        .usage = "SESSION [NUMBER]...",
        .about = "Creates a checkpoint: for the model, a summary replaces the older part of the "
                 "conversation. --summary sets the text. Otherwise a model writes it: the one "
                 "that --provider and --model name, or the one that is configured or found. "
                 "Without a model the oldest turns are left out instead, and a note reports this. "
                 "Pinned messages, the last user message and pending calls are kept. No message "
                 "is removed or changed, and every checkpoint can be undone. A new summary "
                 "replaces the earlier one, so repeat what still matters.",
        .examples = "palaver session compact demo --summary \"We chose blue.\"\n"
                    "palaver session compact demo --undo",
        .options = options,
        .values_size = sizeof(compact_values),
        .args_min = 1,
        .args_max = 3,
        .access = PAL_CLI_WRITE,
        .access_for = access_for,
        .run = session_compact,
};
