/* cli_config.c - chooses the configuration file, then applies the environment and the command
 * line, which override the file. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "palaver.yaml"

/* Returns the path of the user's configuration file, in the arena; NULL if there is no home
 * directory. */
static const char *user_file(pal_cli *cli)
{
    const char *dir = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    char *path;
    /* The XDG specification says that a relative path counts as not set. */
    bool has_dir = dir && *dir == '/';
    if (!has_dir && (!home || *home != '/'))
        return NULL;
    const char *base = has_dir ? dir : home;
    const char *rest = has_dir ? "/palaver/" FILE_NAME : "/.config/palaver/" FILE_NAME;
    size_t size = strlen(base) + strlen(rest) + 1;
    path = pal_arena_alloc(cli->arena, size);
    if (path)
        snprintf(path, size, "%s%s", base, rest);
    return path;
}

/* Returns the file to read, or NULL for none. If the user names a file, it must exist. Otherwise
 * the first existing default file is used. */
static const char *choose_file(pal_cli *cli)
{
    const char *named = cli->config_file ? cli->config_file : getenv("PALAVER_CONFIG");
    if (named && (*named || cli->config_file))
        return named;
    if (access(FILE_NAME, F_OK) == 0)
        return FILE_NAME;
    const char *own = user_file(cli);
    return own && access(own, F_OK) == 0 ? own : NULL;
}

/* The store depends on the directory and the user if nothing names one. */
static pal_status choose_store(pal_cli *cli)
{
    const char *url;
    if (cli->store_given)
        return pal_config_set(
                cli->config, "store", pal_str_of(cli->store_url), PAL_CONFIG_FLAG, &cli->err);
    cli->store_is_default = pal_config_source_of(cli->config, "store") == PAL_CONFIG_DEFAULT;
    if (!cli->store_is_default)
        return PAL_OK;
    pal_status status = pal_cli_store_default(cli, &url);
    if (status != PAL_OK)
        return status;
    return pal_config_set(
            cli->config, "store", pal_str_of(url), PAL_CONFIG_DEFAULT, &cli->err);
}

pal_status pal_cli_config_load(pal_cli *cli)
{
    pal_status status = pal_config_load(choose_file(cli), &cli->config, &cli->err);
    if (status != PAL_OK)
        return status;
    status = pal_config_read_environment(cli->config, &cli->err);
    if (status == PAL_OK)
        status = choose_store(cli);
    if (status != PAL_OK)
        return status;
    cli->store_url = pal_config_get(cli->config)->store.data;
    return PAL_OK;
}
