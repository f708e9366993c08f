/* cli_store.c - opens the store that the user names and finds the session that the user names. */
#include "cli/cli.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define PREFIX_LEN_MIN 4
#define CURSOR_MAX 4096

pal_str pal_cli_tenant(const pal_cli *cli)
{
    return pal_str_of(cli->tenant);
}

const char *pal_cli_store_path(const char *url)
{
    if (strncmp(url, "sqlite:", 7) == 0)
        return url + 7;
    /* A path without a scheme may have a colon only after a slash. */
    size_t scheme = strcspn(url, ":/");
    return url[scheme] == ':' ? NULL : url;
}

static pal_status missing_store(pal_cli *cli, const char *path, bool is_empty)
{
    snprintf(cli->hint, sizeof cli->hint,
            "create a store with 'palaver session new', or select another one with --store or "
            "PALAVER_STORE");
    return pal_error_set(&cli->err, PAL_NOT_FOUND, "store '%.160s' does not exist%s", path,
            is_empty ? ": the file is empty" : "");
}

static void hint_for_open(pal_cli *cli, pal_status status)
{
    const char *hint = "";
    if (strncmp(cli->store_url, "postgres", 8) == 0)
        ; /* the error has the remedy, and there is no file */
    else if (status == PAL_CORRUPT)
        hint = "the file was not changed";
    else if (status == PAL_DENIED)
        hint = "check the permissions of the file and its directory";
    else if (status == PAL_BUSY)
        hint = "another process is writing; retry later";
    snprintf(cli->hint, sizeof cli->hint, "%s", hint);
}

pal_status pal_cli_store_open(pal_cli *cli, pal_cli_access access)
{
    struct stat info;
    pal_store_options options = {
            .read_only = access == PAL_CLI_READ,
            .trace = cli->store_trace,
            .trace_user = cli->store_trace_user,
            .upgrade = cli->store_upgrade,
    };
    if (cli->config) {
        const pal_config_values *values = pal_config_get(cli->config);
        options.sessions_max = values->limits.sessions_per_tenant;
        options.cache_bytes = values->store_cache > 0 ? values->store_cache : PAL_CACHE_BYTES_NONE;
    }
    const char *path = pal_cli_store_path(cli->store_url);
    pal_status status = PAL_OK;
    if (path && access != PAL_CLI_CREATE) {
        bool found = stat(path, &info) == 0;
        if (found ? S_ISREG(info.st_mode) && info.st_size == 0
                  : errno == ENOENT || errno == ENOTDIR)
            return missing_store(cli, path, found);
    }
    if (access == PAL_CLI_CREATE)
        status = pal_cli_store_default_make(cli);
    if (status != PAL_OK)
        return status;
    status = pal_store_open(cli->store_url, &options, &cli->store, &cli->err);
    if (status != PAL_OK)
        hint_for_open(cli, status);
    return status;
}

pal_status pal_cli_each_session(pal_cli *cli, pal_session_state state,
        void (*sink)(const pal_session *session, void *user), void *user)
{
    pal_session_query query = {
            .tenant = pal_cli_tenant(cli), .state = state, .limit = PAL_SESSION_PAGE_MAX};
    pal_buf cursor;
    pal_status status;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_cli_no_memory(cli);
    pal_buf_init(&cursor, CURSOR_MAX);
    do {
        pal_session_page page;
        pal_arena_reset(arena);
        query.cursor = pal_buf_str(&cursor);
        status = pal_store_list(cli->store, &query, arena, &page, &cli->err);
        if (status != PAL_OK)
            break;
        for (size_t i = 0; i < page.sessions_len; i++)
            sink(&page.sessions[i], user);
        pal_buf_clear(&cursor);
        pal_buf_append_str(&cursor, page.cursor);
        if (cursor.failure)
            status = pal_cli_no_memory(cli);
    } while (status == PAL_OK && cursor.len > 0);
    pal_buf_done(&cursor);
    pal_arena_free(arena);
    return status;
}

/* ---- Finding a session ---- */

typedef struct lookup {
    pal_str name;
    bool is_prefix; /* the name could be the beginning of an id */
    size_t matches;
    char id[PAL_ID_TEXT_SIZE]; /* the id of the first match */
} lookup;

static bool could_begin_id(pal_str name)
{
    if (name.len < PREFIX_LEN_MIN || name.len > PAL_ID_TEXT_LEN)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        bool dash_here = i == 8 || i == 13 || i == 18 || i == 23;
        bool hex = strchr("0123456789abcdefABCDEF", name.data[i]) != NULL && name.data[i];
        if (dash_here ? name.data[i] != '-' : !hex)
            return false;
    }
    return true;
}

static bool session_matches(const lookup *search, const pal_session *session, const char *id)
{
    if (search->is_prefix && strncasecmp(id, search->name.data, search->name.len) == 0)
        return true;
    if (pal_str_equal(session->key, search->name))
        return true;
    for (size_t i = 0; i < session->aliases_len; i++) {
        if (pal_str_equal(session->aliases[i], search->name) &&
                !pal_str_equal(session->alias_apart, search->name))
            return true;
    }
    return false;
}

/* The names of active sessions were tried before, so for these only beginnings of ids are left
 * to compare. Sessions in the trash can be found only here. */
static void try_session(const pal_session *session, void *user)
{
    lookup *search = user;
    char id[PAL_ID_TEXT_SIZE];
    pal_id_to_text(session->id, id);
    if (session_matches(search, session, id) && search->matches++ == 0)
        memcpy(search->id, id, sizeof id);
}

static pal_status unknown_session(pal_cli *cli, const char *name, pal_cli_among among)
{
    snprintf(cli->hint, sizeof cli->hint, "run 'palaver session list%s' to see the sessions",
            among == PAL_CLI_AMONG_TRASH ? " --state trash" : "");
    return pal_error_set(&cli->err, PAL_NOT_FOUND, "session '%.160s' %s", name,
            among == PAL_CLI_AMONG_TRASH ? "is not in the trash" : "does not exist");
}

static pal_status find_by_scan(
        pal_cli *cli, const char *name, pal_cli_among among, pal_session *out_session)
{
    static const pal_session_state live[] = {PAL_SESSION_ACTIVE, PAL_SESSION_QUARANTINED};
    lookup search = {.name = pal_str_of(name)};
    pal_status status = PAL_OK;
    search.is_prefix = could_begin_id(search.name);
    for (size_t i = 0; status == PAL_OK && among == PAL_CLI_AMONG_LIVE && i < 2; i++)
        status = pal_cli_each_session(cli, live[i], try_session, &search);
    if (status == PAL_OK && search.matches == 0)
        status = pal_cli_each_session(cli, PAL_SESSION_TRASH, try_session, &search);
    if (status != PAL_OK)
        return status;
    if (search.matches == 0)
        return unknown_session(cli, name, among);
    if (search.matches > 1) {
        snprintf(cli->hint, sizeof cli->hint,
                "type more characters of the id");
        return pal_error_set(
                &cli->err, PAL_CONFLICT,
                "'%.160s' is ambiguous: it matches %zu sessions", name, search.matches);
    }
    return pal_store_find(cli->store, pal_cli_tenant(cli), PAL_SESSION_BY_ID, pal_str_of(search.id),
            cli->arena, out_session, &cli->err);
}

static pal_status find_last(pal_cli *cli, pal_cli_among among, pal_session *out_session)
{
    pal_session_query query = {.tenant = pal_cli_tenant(cli), .limit = 1};
    pal_session_page page;
    if (among == PAL_CLI_AMONG_TRASH)
        query.state = PAL_SESSION_TRASH;
    pal_status status = pal_store_list(cli->store, &query, cli->arena, &page, &cli->err);
    if (status != PAL_OK)
        return status;
    if (page.sessions_len == 0) {
        snprintf(cli->hint, sizeof cli->hint, "create a session with 'palaver session new'");
        return pal_error_set(&cli->err, PAL_NOT_FOUND, "there are no sessions yet");
    }
    *out_session = page.sessions[0];
    return PAL_OK;
}

pal_status pal_cli_find(
        pal_cli *cli, const char *name, pal_cli_among among, pal_session *out_session)
{
    if (strcmp(name, "@last") == 0)
        return find_last(cli, among, out_session);
    if (!*name)
        return pal_cli_usage(cli, NULL, "the name of the session is empty");
    pal_status status = pal_store_find(cli->store, pal_cli_tenant(cli),
            among == PAL_CLI_AMONG_TRASH ? PAL_SESSION_BY_ID : PAL_SESSION_BY_ANY, pal_str_of(name),
            cli->arena, out_session, &cli->err);
    if (status == PAL_NOT_FOUND || (status == PAL_INVALID && among == PAL_CLI_AMONG_TRASH))
        status = find_by_scan(cli, name, among, out_session);
    return status;
}
