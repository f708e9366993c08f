/* cmd_session_edit.c - `palaver session edit`: changes the names and settings of a session. Its
 * messages do not change. */
#include "cli/cli.h"

#include <string.h>

typedef struct edit_values {
    pal_cli_session_settings settings;
    pal_cli_list unaliases;
} edit_values;

/* Returns the fields that the options set. An empty text clears a field. */
static uint32_t fields_of(const edit_values *given)
{
    const pal_cli_session_settings *settings = &given->settings;
    uint32_t fields = 0;
    fields |= settings->key ? PAL_SESSION_FIELD_KEY : 0;
    fields |= settings->title ? PAL_SESSION_FIELD_TITLE : 0;
    fields |= settings->project ? PAL_SESSION_FIELD_PROJECT : 0;
    fields |= settings->agent ? PAL_SESSION_FIELD_AGENT : 0;
    fields |= settings->metadata ? PAL_SESSION_FIELD_METADATA : 0;
    fields |= settings->expires ? PAL_SESSION_FIELD_EXPIRES_AT : 0;
    fields |= settings->aliases.len || given->unaliases.len ? PAL_SESSION_FIELD_ALIASES : 0;
    return fields;
}

static size_t find_alias(const pal_session *session, const char *name)
{
    size_t at = 0;
    while (at < session->aliases_len && !pal_str_is(session->aliases[at], name))
        at++;
    return at;
}

static pal_status remove_alias(pal_cli *cli, pal_session *session, const char *name)
{
    size_t at = find_alias(session, name);
    if (at == session->aliases_len)
        return pal_error_set(&cli->err, PAL_NOT_FOUND,
                "'%.100s' is not an alias of the session", name);
    session->aliases_len--;
    memmove(&session->aliases[at], &session->aliases[at + 1],
            (session->aliases_len - at) * sizeof *session->aliases);
    return PAL_OK;
}

/* Computes the new aliases: those of the session, plus --alias, minus --unalias. */
static pal_status edit_aliases(pal_cli *cli, const edit_values *given, pal_session *session)
{
    const pal_cli_list *added = &given->settings.aliases;
    pal_status status = PAL_OK;
    pal_str *aliases = pal_arena_array(
            cli->arena, session->aliases_len + added->len + 1, sizeof *aliases);
    if (!aliases)
        return pal_cli_no_memory(cli);
    if (session->aliases_len)
        memcpy(aliases, session->aliases, session->aliases_len * sizeof *aliases);
    session->aliases = aliases;
    for (size_t i = 0; i < added->len; i++)
        if (find_alias(session, added->items[i]) == session->aliases_len)
            aliases[session->aliases_len++] = pal_str_of(added->items[i]);
    for (size_t i = 0; status == PAL_OK && i < given->unaliases.len; i++)
        status = remove_alias(cli, session, given->unaliases.items[i]);
    return status;
}

static pal_status session_edit(pal_cli *cli, void *values)
{
    const edit_values *given = values;
    pal_cli_session_settings settings = given->settings;
    uint32_t fields = fields_of(given);
    pal_session session;
    if (fields == 0)
        return pal_cli_usage(cli, "run 'palaver session edit --help' to see what can be changed",
                "'session edit' requires at least one option");
    pal_status status = pal_cli_find(cli, cli->args[0], PAL_CLI_AMONG_LIVE, &session);
    if (status == PAL_OK)
        status = edit_aliases(cli, given, &session);
    settings.aliases = (pal_cli_list){0};
    if (settings.expires && strcmp(settings.expires, "never") == 0) {
        settings.expires = NULL;
        session.expires_at = 0;
    }
    if (settings.metadata && !*settings.metadata)
        settings.metadata = "{}";
    if (status == PAL_OK)
        status = pal_cli_session_set(cli, &settings, &session);
    if (status == PAL_OK)
        status = pal_store_update(cli->store, &session, fields, &cli->err);
    return status == PAL_OK ? pal_cli_session_print(cli, session.id, "Changed ", ".") : status;
}

static const pal_cli_option options[] = {
        PAL_CLI_SESSION_OPTIONS(edit_values),
        {"unalias", 0, PAL_CLI_LIST, offsetof(edit_values, unaliases), "NAME",
                "remove an alias; can be repeated"},
        {0},
};

const pal_cli_command pal_cmd_session_edit = {
        .name = "session edit",
        .summary = "change its title, key, aliases, metadata or expiry",
        .usage = "SESSION",
        .about = "Changes only what the options name. An empty value clears a field; '--expires "
                 "never' removes the expiry. --alias adds an alias, --unalias removes one. "
                 "--metadata replaces the complete object.",
        .examples = "palaver session edit demo --title \"A better title\"\n"
                    "palaver session edit @last --key support:42 --expires 30d",
        .options = options,
        .values_size = sizeof(edit_values),
        .args_min = 1,
        .args_max = 1,
        .access = PAL_CLI_WRITE,
        .run = session_edit,
};
