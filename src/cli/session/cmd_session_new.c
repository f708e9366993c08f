/* cmd_session_new.c - `palaver session new`, and the options that name a session, which fork
 * shares. */
#include "cli/cli.h"

#include <string.h>
#include "dialect/native/native.h"

typedef struct new_values {
    pal_cli_session_settings settings;
} new_values;

static pal_status check_metadata(pal_cli *cli, const char *metadata)
{
    pal_json value;
    pal_error why;
    pal_status status = pal_json_parse(cli->arena, pal_str_of(metadata), NULL, &value, &why);
    if (status == PAL_INVALID || status == PAL_LIMIT)
        return pal_cli_usage(cli, "use a JSON object, such as --metadata '{\"customer\":42}'",
                "--metadata is not JSON: %.180s", why.message);
    if (status != PAL_OK)
        return pal_error_set(&cli->err, status, "%s", why.message);
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_cli_usage(cli, "use a JSON object, such as --metadata '{\"customer\":42}'",
                "--metadata must be a JSON object, not %s",
                pal_json_type_name(pal_json_type_of(value)));
    return PAL_OK;
}

static pal_status name_aliases(pal_cli *cli, const pal_cli_list *list, pal_session *session)
{
    session->aliases = pal_arena_array(cli->arena, list->len, sizeof *session->aliases);
    if (!session->aliases)
        return pal_cli_no_memory(cli);
    for (size_t i = 0; i < list->len; i++)
        session->aliases[i] = pal_str_of(list->items[i]);
    session->aliases_len = list->len;
    return PAL_OK;
}

pal_status pal_cli_session_set(
        pal_cli *cli, const pal_cli_session_settings *settings, pal_session *session)
{
    pal_status status = PAL_OK;
    session->tenant = pal_cli_tenant(cli);
    if (settings->key)
        session->key = pal_str_of(settings->key);
    if (settings->title)
        session->title = pal_str_of(settings->title);
    if (settings->project)
        session->project = pal_str_of(settings->project);
    if (settings->agent)
        session->agent = pal_str_of(settings->agent);
    if (settings->metadata) {
        session->metadata = pal_str_of(settings->metadata);
        status = check_metadata(cli, settings->metadata);
    }
    if (status == PAL_OK && settings->aliases.len)
        status = name_aliases(cli, &settings->aliases, session);
    if (status == PAL_OK && settings->expires)
        status = pal_cli_time_option(cli, "expires", settings->expires, 1, &session->expires_at);
    return status;
}

pal_status pal_cli_session_print(pal_cli *cli, pal_id id, const char *head, const char *tail)
{
    pal_session session;
    pal_str text = pal_cli_id(cli, id);
    if (!cli->json) {
        pal_buf_format(&cli->out, "%s%.*s%s\n", head, PAL_STR_ARG(text), tail);
        return PAL_OK;
    }
    pal_status status = pal_store_find(cli->store, pal_cli_tenant(cli), PAL_SESSION_BY_ID, text,
            cli->arena, &session, &cli->err);
    if (status != PAL_OK)
        return status;
    pal_json_writer writer = pal_json_writer_make(&cli->out);
    status = pal_native_session_show(&writer, &session, &cli->err);
    pal_buf_append_char(&cli->out, '\n');
    return status;
}

static pal_status session_new(pal_cli *cli, void *values)
{
    const new_values *given = values;
    pal_session session = {0};
    pal_id id;
    pal_status status = pal_cli_session_set(cli, &given->settings, &session);
    if (status == PAL_OK)
        status = pal_store_create(cli->store, &session, &id, &cli->err);
    if (status == PAL_CONFLICT && given->settings.key)
        snprintf(cli->hint, sizeof cli->hint,
                "run 'palaver session show %.100s' to see the session with that key",
                given->settings.key);
    return status == PAL_OK ? pal_cli_session_print(cli, id, "", "") : status;
}

static const pal_cli_option options[] = {
        PAL_CLI_SESSION_OPTIONS(new_values),
        {0},
};

const pal_cli_command pal_cmd_session_new = {
        .name = "session new",
        .summary = "create a session",
        .usage = "",
        .about = "Creates a session and prints its id. --key gives the session a name of your "
                 "choice; all options can be omitted. If the store does not exist, it is created.",
        .examples = "palaver session new --key demo --title \"First steps\"\n"
                    "palaver session new --project support --expires 30d --json",
        .options = options,
        .values_size = sizeof(new_values),
        .access = PAL_CLI_CREATE,
        .run = session_new,
};
