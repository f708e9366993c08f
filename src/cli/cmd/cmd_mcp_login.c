/* cmd_mcp_login.c - `palaver mcp login` and `palaver mcp logout`: the login of a person at an MCP
 * server of the configuration. The tokens are kept in a file, and never shown. */
#include "cli/cli.h"

#include <stddef.h>
#include "base/json/json_put.h"
#include "palaver/login.h"

#define PORT_MAX 65535
#define SECONDS_MAX 86400

typedef struct login_values {
    pal_cli_number port;
    pal_cli_number wait;
} login_values;

static const pal_cli_option login_options[] = {
        {"port", 0, PAL_CLI_NUMBER, offsetof(login_values, port), "N",
                "port of 127.0.0.1 for the redirect (any free one)"},
        {"wait", 0, PAL_CLI_NUMBER, offsetof(login_values, wait), "N",
                "seconds to wait for the login (300)"},
        {0},
};

/* Finds the server in the configuration. */
static pal_status find_server(pal_cli *cli, pal_tool_server *out_server)
{
    pal_runtime_options options;
    pal_str name = pal_str_of(cli->args[0]);
    pal_status status = pal_config_runtime(cli->config, cli->arena, &options, &cli->err);
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < options.tool_servers_len; i++) {
        if (pal_str_equal(options.tool_servers[i].name, name)) {
            *out_server = options.tool_servers[i];
            return PAL_OK;
        }
    }
    return pal_error_set(&cli->err, PAL_NOT_FOUND,
            "MCP server '%s' is not in 'mcp_servers' of the configuration", cli->args[0]);
}

/* Called on another thread while the main thread waits, so nothing else is written. */
static void show_url(pal_str url, void *user)
{
    pal_cli *cli = user;
    if (cli->json) {
        pal_json_writer writer = pal_json_writer_make(&cli->out);
        pal_json_begin_object(&writer);
        pal_put_str(&writer, "url", url);
        pal_json_end_object(&writer);
        pal_buf_append_char(&cli->out, '\n');
    } else {
        pal_buf_append_text(&cli->out, "Open this page in a browser on this machine:\n\n  ");
        pal_buf_append_str(&cli->out, url);
        pal_buf_append_text(&cli->out, "\n\n");
    }
    (void)!pal_cli_flush(cli);
}

static pal_status login(pal_cli *cli, void *values)
{
    const login_values *given = values;
    pal_tool_server server;
    pal_login_options options = {.server = &server, .on_url = show_url, .user = cli};
    if (given->port.value > PORT_MAX)
        return pal_cli_usage(cli, NULL, "--port must be at most %d", PORT_MAX);
    if (given->wait.value > SECONDS_MAX)
        return pal_cli_usage(cli, NULL, "--wait must be at most %d", SECONDS_MAX);
    options.port = (uint16_t)given->port.value;
    options.wait_ms = (int64_t)given->wait.value * 1000;
    pal_status status = find_server(cli, &server);
    if (status == PAL_OK)
        status = pal_login_run(&options, &cli->err);
    if (status != PAL_OK)
        return status;
    if (cli->json)
        pal_buf_append_text(&cli->out, "{\"logged_in\":true}\n");
    else
        pal_buf_format(&cli->out,
                "Logged in to '%s'. Running servers use the login within seconds.\n", cli->args[0]);
    return PAL_OK;
}

const pal_cli_command pal_cmd_mcp_login = {
        .name = "mcp login",
        .summary = "log in to an MCP server of the configuration",
        .usage = "NAME",
        .about = "Logs in to the server NAME of 'mcp_servers', which requires OAuth. Prints a page "
                 "to open in a browser, waits for the browser on a port of 127.0.0.1, and keeps "
                 "the tokens in a file that only you can read. Chats and servers then use and "
                 "renew them.",
        .examples = "palaver mcp login maps\n"
                    "palaver mcp login maps --port 7078",
        .options = login_options,
        .values_size = sizeof(login_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_NO_STORE,
        .run = login,
};

static pal_status logout(pal_cli *cli, void *values)
{
    pal_tool_server server;
    (void)values;
    pal_status status = find_server(cli, &server);
    if (status == PAL_OK)
        status = pal_login_forget(&server, &cli->err);
    if (status == PAL_OK && cli->json)
        pal_buf_append_text(&cli->out, "{\"logged_out\":true}\n");
    else if (status == PAL_OK)
        pal_buf_format(&cli->out, "Removed the login of '%s'.\n", cli->args[0]);
    return status;
}

const pal_cli_command pal_cmd_mcp_logout = {
        .name = "mcp logout",
        .summary = "remove the login of an MCP server",
        .usage = "NAME",
        .about = "Removes the file with the tokens of 'palaver mcp login'. The authorization "
                 "server is not notified, and a running server keeps its token until it expires.",
        .examples = "palaver mcp logout maps\n"
                    "palaver mcp logout maps --json",
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_NO_STORE,
        .is_destructive = true,
        .run = logout,
};
