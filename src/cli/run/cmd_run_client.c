/* cmd_run_client.c - the clients that `palaver run` knows, and how each of them is pointed at a
 * server. Everything is passed in the client's environment and arguments; the client's own
 * configuration is neither read nor written. */
#include "cli/run/cmd_run.h"

#include <string.h>
#include "base/json/json_put.h"
#include "base/text.h"

#define TEXT_BYTES_MAX 65536
#define ADDED_MAX 8 /* arguments or variables that a client needs */
#define KEY_VARIABLE "PALAVER_API_KEY"
#define NO_KEY "none" /* sent to a server that requires no key, because clients require one */

extern char **environ;

/* ---- Arguments and variables ---- */

/* Returns `buf` as a text in the arena, and frees the buffer. NULL after a failure. */
static const char *take(pal_cli *cli, pal_buf *buf)
{
    const char *text = buf->failure ? NULL : pal_arena_copy(cli->arena, pal_buf_str(buf)).data;
    pal_buf_done(buf);
    return text;
}

static const char *joined(pal_cli *cli, const char *first, pal_str second, const char *third)
{
    pal_buf buf;
    pal_buf_init(&buf, TEXT_BYTES_MAX);
    pal_buf_append_text(&buf, first);
    pal_buf_append_str(&buf, second);
    pal_buf_append_text(&buf, third);
    return take(cli, &buf);
}

static size_t count(const char *const *list)
{
    size_t len = 0;
    while (list[len])
        len++;
    return len;
}

/* `text` NULL: there is no memory. */
static pal_status add(pal_cli *cli, const char **list, const char *text)
{
    if (!text)
        return pal_cli_no_memory(cli);
    list[count(list)] = text;
    return PAL_OK;
}

static bool is_variable(const char *text, const char *name)
{
    size_t len = strlen(name);
    return strncmp(text, name, len) == 0 && text[len] == '=';
}

static void unset(pal_run_setup *setup, const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; setup->environment[i]; i++) {
        if (!is_variable(setup->environment[i], name))
            setup->environment[kept++] = setup->environment[i];
    }
    setup->environment[kept] = NULL;
}

static pal_status set(pal_cli *cli, pal_run_setup *setup, const char *name, pal_str value)
{
    const char *text = joined(cli, name, pal_str_of("="), "");
    unset(setup, name);
    return add(cli, setup->environment, text ? joined(cli, text, value, "") : NULL);
}

static pal_str key_of(const pal_run_service *service)
{
    return service->key.len ? service->key : pal_str_of(NO_KEY);
}

/* ---- Claude Code ---- */

/* A token is used without a question. Claude Code asks the user about an API key, and stores the
 * answer. The other variables would select another service. */
static pal_status set_up_claude(
        pal_cli *cli, const pal_run_service *service, pal_run_setup *setup)
{
    unset(setup, "ANTHROPIC_API_KEY");
    unset(setup, "CLAUDE_CODE_USE_BEDROCK");
    unset(setup, "CLAUDE_CODE_USE_FOUNDRY");
    unset(setup, "CLAUDE_CODE_USE_VERTEX");
    pal_status status = set(cli, setup, "ANTHROPIC_BASE_URL", service->url);
    if (status == PAL_OK)
        status = set(cli, setup, "ANTHROPIC_AUTH_TOKEN", key_of(service));
    if (status == PAL_OK && service->is_model_given)
        status = set(cli, setup, "ANTHROPIC_MODEL", service->model);
    return status;
}

/* ---- Codex ---- */

static pal_status add_setting(pal_cli *cli, pal_run_setup *setup, const char *text)
{
    pal_status status = add(cli, setup->args, "-c");
    return status == PAL_OK ? add(cli, setup->args, text) : status;
}

/* A TOML string has the escapes of a JSON string. */
static const char *setting(pal_cli *cli, const char *name, pal_str value, const char *path)
{
    pal_buf buf;
    const char *whole = joined(cli, "", value, path);
    pal_buf_init(&buf, TEXT_BYTES_MAX);
    pal_buf_append_text(&buf, name);
    pal_buf_append_text(&buf, "=");
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_put_text(&writer, whole ? whole : "");
    return take(cli, &buf);
}

/* Codex knows the names of OpenAI's models, and chooses one of them by default. */
static bool names_model(const pal_run_service *service)
{
    return service->model.len &&
            (service->is_model_given || !pal_text_begins(service->model, "gpt-"));
}

/* A provider of its own needs no login, unlike Codex's default one at another URL. */
static pal_status set_up_codex(
        pal_cli *cli, const pal_run_service *service, pal_run_setup *setup)
{
    const char *const settings[] = {
            "model_provider=\"palaver\"",
            "model_providers.palaver.name=\"Palaver\"",
            setting(cli, "model_providers.palaver.base_url", service->url, "/v1"),
            "model_providers.palaver.wire_api=\"responses\"",
            "model_providers.palaver.env_key=\"" KEY_VARIABLE "\"",
            names_model(service) ? setting(cli, "model", service->model, "") : "",
    };
    pal_status status = set(cli, setup, KEY_VARIABLE, key_of(service));
    for (size_t i = 0; i < sizeof settings / sizeof *settings && status == PAL_OK; i++) {
        if (!settings[i] || *settings[i])
            status = add_setting(cli, setup, settings[i]);
    }
    return status;
}

/* ---- opencode ---- */

static void put_provider(
        pal_json_writer *writer, const char *name, const char *url, const pal_run_service *service)
{
    pal_json_name(writer, name);
    pal_json_begin_object(writer);
    if (strcmp(name, "palaver") == 0) {
        pal_put_text(writer, "name", "Palaver");
        pal_put_text(writer, "npm", "@ai-sdk/openai-compatible");
        pal_json_name(writer, "models");
        pal_json_begin_object(writer);
        pal_json_name_str(writer, service->model);
        pal_json_begin_object(writer);
        pal_json_end_object(writer);
        pal_json_end_object(writer);
    }
    pal_json_name(writer, "options");
    pal_json_begin_object(writer);
    pal_put_text(writer, "baseURL", url);
    pal_put_text(writer, "apiKey", "{env:" KEY_VARIABLE "}");
    pal_json_end_object(writer);
    pal_json_end_object(writer);
}

/* A model of Anthropic is called with Anthropic's API, so that a request can be forwarded. */
static pal_status set_up_opencode(
        pal_cli *cli, const pal_run_service *service, pal_run_setup *setup)
{
    bool is_claude = pal_text_begins(service->model, "claude-");
    const char *provider = is_claude ? "anthropic/" : "palaver/";
    const char *url = joined(cli, "", service->url, "/v1");
    const char *model = joined(cli, provider, service->model, "");
    pal_buf buf;
    if (!url || !model)
        return pal_cli_no_memory(cli);
    pal_buf_init(&buf, TEXT_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, "model", model);
    pal_json_name(&writer, "provider");
    pal_json_begin_object(&writer);
    put_provider(&writer, "anthropic", url, service);
    put_provider(&writer, "palaver", url, service);
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    const char *config = take(cli, &buf);
    if (!config)
        return pal_cli_no_memory(cli);
    pal_status status = set(cli, setup, "OPENCODE_CONFIG_CONTENT", pal_str_of(config));
    return status == PAL_OK ? set(cli, setup, KEY_VARIABLE, key_of(service)) : status;
}

/* ---- All clients ---- */

static const pal_run_client clients[] = {
        {"codex", "Codex", "npm install -g @openai/codex", "codex:", "openai", set_up_codex},
        {"claude", "Claude Code", "npm install -g @anthropic-ai/claude-code", "claude-code:",
                "anthropic", set_up_claude},
        {"opencode", "opencode", "npm install -g opencode-ai", "opencode:", NULL, set_up_opencode},
};

const pal_run_client *pal_run_client_find(const char *program)
{
    for (size_t i = 0; i < sizeof clients / sizeof *clients; i++) {
        if (strcmp(clients[i].program, program) == 0)
            return &clients[i];
    }
    return NULL;
}

pal_status pal_run_client_set_up(pal_cli *cli, const pal_run_client *client,
        const pal_run_service *service, pal_run_setup *out_setup)
{
    const char *const *inherited = (const char *const *)environ;
    size_t environment_len = count(inherited);
    /* Codex gets two arguments for each setting. */
    out_setup->args =
            pal_arena_array(cli->arena, cli->args_len + 2 * ADDED_MAX + 1, sizeof(char *));
    out_setup->environment =
            pal_arena_array(cli->arena, environment_len + ADDED_MAX + 1, sizeof(char *));
    if (!out_setup->args || !out_setup->environment)
        return pal_cli_no_memory(cli);
    memcpy(out_setup->environment, inherited, environment_len * sizeof *inherited);
    out_setup->args[0] = client->program;
    pal_status status = client->set_up(cli, service, out_setup);
    if (status == PAL_OK)
        memcpy(out_setup->args + count(out_setup->args), cli->args + 1,
                (cli->args_len - 1) * sizeof *cli->args);
    return status;
}
