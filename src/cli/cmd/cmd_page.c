/* cmd_page.c - `palaver page`: prints the address of the server's page, with a code for a login if
 * the server has keys, and opens it in a browser. */
#include "cli/cli.h"

#include <fcntl.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/wait.h>
#include "base/json/json_put.h"
#include "base/text.h"
#include "server/access/access_login.h"

#define KEYS_MAX 1000 /* keys that are searched for one that can be used */
#define ALL_ADDRESSES "0.0.0.0:"

extern char **environ;

typedef struct page_values {
    const char *key;
    const char *url;
    bool no_open;
} page_values;

static const pal_cli_option page_options[] = {
        {"key", 0, PAL_CLI_TEXT, offsetof(page_values, key), "ID",
                "log in with this key (an admin's)"},
        {"url", 0, PAL_CLI_TEXT, offsetof(page_values, url), "URL",
                "address of the server (from server.listen)"},
        {"no-open", 0, PAL_CLI_FLAG, offsetof(page_values, no_open), NULL,
                "only print the address"},
        {0},
};

/* Chooses a key of the tenant with the highest role. *out_any: there are keys, even if none can be
 * used. */
static pal_status choose_key(pal_cli *cli, pal_str *out_id, bool *out_any)
{
    pal_key_page page;
    pal_str tenant = pal_str_of(cli->tenant ? cli->tenant : "default");
    pal_key_role best = PAL_KEY_NONE;
    pal_status status = pal_key_list(
            cli->store, (pal_str){0}, KEYS_MAX, cli->arena, &page, &cli->err);
    if (status != PAL_OK)
        return status;
    *out_any = page.keys_len > 0;
    for (size_t i = 0; i < page.keys_len; i++) {
        const pal_key *key = &page.keys[i];
        if (key->revoked_at || !pal_str_equal(key->tenant, tenant) || key->role <= best)
            continue;
        best = key->role;
        *out_id = key->id;
    }
    return PAL_OK;
}

static pal_status find_key(pal_cli *cli, const page_values *given, pal_str *out_id, bool *out_any)
{
    pal_key key;
    if (!given->key)
        return choose_key(cli, out_id, out_any);
    *out_any = true;
    pal_status status = pal_key_get(
            cli->store, pal_str_of(given->key), cli->arena, &key, &cli->err);
    if (status == PAL_OK && key.revoked_at)
        return pal_error_set(&cli->err, PAL_CONFLICT, "key '%.40s' was revoked", given->key);
    if (status == PAL_OK)
        *out_id = key.id;
    return status;
}

/* A server that listens on all addresses is reached by the name of this machine. */
static void write_address(pal_cli *cli, const page_values *given, pal_buf *out)
{
    const pal_config_server *server = &pal_config_get(cli->config)->server;
    pal_str listen = server->listen;
    if (given->url) {
        pal_buf_append_text(out, given->url);
        if (out->len == 0 || out->data[out->len - 1] != '/')
            pal_buf_append_char(out, '/');
        return;
    }
    pal_buf_append_text(out, server->tls_certificate.len ? "https://" : "http://");
    if (pal_text_begins(listen, ALL_ADDRESSES)) {
        pal_buf_append_text(out, "localhost:");
        listen = pal_text_after(listen, sizeof ALL_ADDRESSES - 1);
    }
    pal_buf_append_str(out, listen);
    pal_buf_append_char(out, '/');
}

/* Without a browser the address is enough, so failures are not reported. */
static void open_browser(const char *url)
{
    char *const words[] = {(char *)"xdg-open", (char *)url, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return;
    if (posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0) == 0 &&
            posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) == 0 &&
            posix_spawnp(&child, words[0], &actions, NULL, words, environ) == 0)
        (void)waitpid(child, NULL, 0);
    posix_spawn_file_actions_destroy(&actions);
}

static void print_url(pal_cli *cli, pal_str url, bool has_code)
{
    if (cli->json) {
        pal_json_writer writer = pal_json_writer_make(&cli->out);
        pal_json_begin_object(&writer);
        pal_put_str(&writer, "url", url);
        pal_put_flag(&writer, "has_code", has_code);
        pal_json_end_object(&writer);
    } else {
        pal_buf_append_str(&cli->out, url);
    }
    pal_buf_append_char(&cli->out, '\n');
}

static pal_status page(pal_cli *cli, void *values)
{
    const page_values *given = values;
    pal_str key_id = {0};
    bool any = false;
    char code[PAL_LOGIN_SECRET_SIZE];
    pal_buf url;
    pal_status status = find_key(cli, given, &key_id, &any);
    if (status == PAL_OK && any && !key_id.len)
        status = pal_error_set(&cli->err, PAL_NOT_FOUND,
                "the tenant has no API key; create one with 'palaver key create'");
    if (status == PAL_OK && key_id.len)
        status = pal_login_code_create(cli->store, key_id, code, &cli->err);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&url, PAL_ERROR_MESSAGE_MAX);
    write_address(cli, given, &url);
    if (key_id.len)
        pal_buf_format(&url, "#/login?code=%s", code);
    pal_str text = pal_arena_copy(cli->arena, pal_buf_str(&url));
    pal_buf_done(&url);
    if (!text.len)
        return pal_cli_no_memory(cli);
    print_url(cli, text, key_id.len > 0);
    status = pal_cli_flush(cli);
    if (status == PAL_OK && cli->is_terminal && !cli->json && !given->no_open)
        open_browser(text.data);
    return status;
}

const pal_cli_command pal_cmd_page = {
        .name = "page",
        .summary = "open the server's page in a browser",
        .usage = "",
        .about = "Prints the address of the page that 'palaver serve' shows, and opens it in a "
                 "browser. If the server has keys, the address contains a code that logs the "
                 "browser in. The code can be used once, within a minute.",
        .examples = "palaver page\n"
                    "palaver page --key key_0123456789abcdef --no-open",
        .options = page_options,
        .values_size = sizeof(page_values),
        .access = PAL_CLI_CREATE,
        .run = page,
};
