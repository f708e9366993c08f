/* cmd_key.c - `palaver key`: creates, lists and revokes API keys. A running server notices a
 * change within seconds. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include "base/clock.h"
#include "server/access/access_key.h"

#define MICROS 1000000

typedef struct create_values {
    const char *role;
    const char *label;
    pal_cli_number rate;
    pal_cli_number tokens;
    const char *cost;
    const char *period;
} create_values;

static const pal_cli_option create_options[] = {
        {"role", 0, PAL_CLI_TEXT, offsetof(create_values, role), "ROLE",
                "admin, write, read or metrics (write)"},
        {"label", 0, PAL_CLI_TEXT, offsetof(create_values, label), "TEXT",
                "a note on what the key is for"},
        {"rate", 0, PAL_CLI_NUMBER, offsetof(create_values, rate), "N",
                "maximum requests per minute"},
        {"max-tokens", 0, PAL_CLI_NUMBER, offsetof(create_values, tokens), "N",
                "maximum tokens of its tenant per period"},
        {"max-cost", 0, PAL_CLI_TEXT, offsetof(create_values, cost), "AMOUNT",
                "maximum cost per period, in the currency of the prices"},
        {"period", 0, PAL_CLI_TEXT, offsetof(create_values, period), "P",
                "day or month, in UTC (day)"},
        {0},
};

/* Reads "2.50" as millionths. */
static bool read_amount(const char *text, int64_t *out_micros)
{
    uint64_t micros = 0, unit = MICROS;
    bool is_fraction = false, any = false;
    for (; *text; text++) {
        if (*text == '.' && !is_fraction) {
            is_fraction = true;
            continue;
        }
        if (*text < '0' || *text > '9')
            return false;
        any = true;
        unsigned digit = (unsigned)(*text - '0');
        if (is_fraction) {
            unit /= 10;
            micros += digit * unit;
        } else {
            micros = micros * 10 + digit * (uint64_t)MICROS;
        }
        if (micros > INT64_MAX / 16)
            return false;
    }
    *out_micros = (int64_t)micros;
    return any;
}

static pal_status read_values(pal_cli *cli, const create_values *v, pal_key *key)
{
    key->tenant = pal_str_of(cli->tenant ? cli->tenant : "default");
    key->label = pal_str_of(v->label);
    key->role = pal_key_role_from_name(pal_str_of(v->role ? v->role : "write"));
    if (key->role == PAL_KEY_NONE)
        return pal_cli_usage(cli, NULL,
                "--role must be admin, write, read or metrics, not '%.40s'", v->role);
    if (v->rate.value > PAL_SERVER_KEY_RATE_MAX)
        return pal_cli_usage(cli, NULL, "--rate must be at most %d", PAL_SERVER_KEY_RATE_MAX);
    if (v->tokens.value > INT64_MAX)
        return pal_cli_usage(cli, NULL, "--max-tokens is too large");
    if (v->cost && !read_amount(v->cost, &key->budget_cost_micros))
        return pal_cli_usage(cli, NULL,
                "--max-cost must be an amount such as 2.50, not '%.40s'", v->cost);
    key->requests_per_minute = (uint32_t)v->rate.value;
    key->budget_tokens = v->tokens.value;
    key->is_monthly = v->period && strcmp(v->period, "month") == 0;
    if (v->period && !key->is_monthly && strcmp(v->period, "day") != 0)
        return pal_cli_usage(cli, NULL, "--period must be day or month, not '%.40s'", v->period);
    return PAL_OK;
}

static pal_status create(pal_cli *cli, void *values)
{
    char secret[PAL_KEY_SECRET_SIZE];
    pal_key given = {0}, key;
    pal_status status = read_values(cli, values, &given);
    if (status == PAL_OK)
        status = pal_key_create(cli->store, &given, cli->arena, secret, &key, &cli->err);
    if (status != PAL_OK)
        return status;
    if (cli->json) {
        pal_json_writer writer = pal_json_writer_make(&cli->out);
        pal_key_put(&key, secret, &writer);
        pal_buf_append_char(&cli->out, '\n');
        return PAL_OK;
    }
    pal_buf_format(&cli->out, "%s\n", secret);
    if (cli->is_terminal)
        pal_buf_format(&cli->out, "The id of this key is %.*s. The secret is shown only now.\n",
                PAL_STR_ARG(key.id));
    return PAL_OK;
}

/* ---- Listing ---- */

static pal_str day_of(pal_cli *cli, int64_t ms)
{
    char text[PAL_TIME_TEXT_SIZE];
    if (ms == 0)
        return (pal_str){0};
    pal_time_to_text(ms, text);
    return pal_arena_copy(cli->arena, pal_str_make(text, 10));
}

static void add_row(pal_cli *cli, pal_cli_table *table, const pal_key *key)
{
    pal_cli_table_cell(cli, table, key->id);
    pal_cli_table_cell(cli, table, key->tenant);
    pal_cli_table_cell(cli, table, pal_str_of(pal_key_role_name(key->role)));
    pal_cli_table_cell(cli, table, day_of(cli, key->created_at));
    pal_cli_table_cell(cli, table, key->used_on);
    pal_cli_table_cell(cli, table, day_of(cli, key->revoked_at));
    pal_cli_table_cell(cli, table, key->label);
}

static pal_status list(pal_cli *cli, void *values)
{
    pal_cli_table table = {.columns = 7,
            .heads = {"ID", "TENANT", "ROLE", "CREATED", "USED", "REVOKED", "LABEL"},
            .shrink = 6};
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    pal_key_page page = {0};
    pal_str after = {0};
    (void)values;
    if (cli->json)
        pal_json_begin_array(&writer);
    do {
        pal_status status = pal_key_list(
                cli->store, after, PAL_SERVER_KEY_PAGE_MAX, cli->arena, &page, &cli->err);
        if (status != PAL_OK)
            return status;
        for (size_t i = 0; i < page.keys_len; i++) {
            if (cli->json)
                pal_key_put(&page.keys[i], NULL, &writer);
            else
                add_row(cli, &table, &page.keys[i]);
            after = page.keys[i].id;
        }
    } while (page.has_more);
    if (cli->json) {
        pal_json_end_array(&writer);
        pal_buf_append_char(&cli->out, '\n');
    } else if (after.len) {
        pal_cli_table_print(cli, &table);
    } else {
        fprintf(stderr,
                "There are no API keys: the server answers only requests from this machine.\n"
                "'palaver key create' creates a key.\n");
    }
    return PAL_OK;
}

static pal_status revoke(pal_cli *cli, void *values)
{
    pal_key key;
    (void)values;
    pal_status status =
            pal_key_revoke(cli->store, pal_str_of(cli->args[0]), cli->arena, &key, &cli->err);
    if (status == PAL_NOT_FOUND)
        snprintf(cli->hint, sizeof cli->hint, "run 'palaver key list' to see the ids");
    if (status != PAL_OK)
        return status;
    if (cli->json) {
        pal_json_writer writer = pal_json_writer_make(&cli->out);
        pal_key_put(&key, NULL, &writer);
        pal_buf_append_char(&cli->out, '\n');
    } else {
        pal_buf_format(&cli->out, "revoked %.*s\n", PAL_STR_ARG(key.id));
    }
    return PAL_OK;
}

const pal_cli_command pal_cmd_key_create = {
        .name = "key create",
        .summary = "create a key and print its secret",
        .usage = "",
        .about = "Creates an API key for the tenant of --tenant and prints its secret, which is "
                 "not stored. Role 'read' can only read, 'write' can also change things, and "
                 "'admin' can do so for every tenant and can create and revoke keys.",
        .examples = "palaver key create --label \"my laptop\"\n"
                    "palaver key create --tenant acme --role read --rate 600",
        .options = create_options,
        .values_size = sizeof(create_values),
        .access = PAL_CLI_CREATE,
        .run = create,
};

const pal_cli_command pal_cmd_key_list = {
        .name = "key list",
        .summary = "list all keys, including revoked ones",
        .usage = "",
        .about = "Lists the keys of all tenants, with their ids. Secrets are never shown.",
        .examples = "palaver key list\n"
                    "palaver key list --json",
        .access = PAL_CLI_READ,
        .run = list,
};

const pal_cli_command pal_cmd_key_revoke = {
        .name = "key revoke",
        .summary = "revoke a key",
        .usage = "ID",
        .about = "Revokes a key for good. Running servers reject it within seconds.",
        .examples = "palaver key revoke key_0123456789abcdef\n"
                    "palaver key revoke key_0123456789abcdef --json",
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .is_destructive = true,
        .run = revoke,
};
