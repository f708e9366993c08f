/* cli_picoclaw.h - PicoClaw's directories of sessions, in and out. */
#ifndef PAL_CLI_PICOCLAW_H
#define PAL_CLI_PICOCLAW_H

#include "cli/cli.h"
#include "dialect/dialect_picoclaw.h"
#include "server/server_import.h"

/* What an import reports to, and what came of it. */
typedef struct pal_picoclaw_import {
    pal_cli *cli;
    pal_import *store;
    pal_import_problem problem;
    void *user;
    const char **file; /* set to the file that is being read, for problems */
    pal_cli_progress *progress;
    const char *project; /* of all sessions; NULL: none */
    uint64_t verified_sessions;
    uint64_t verified_messages;
} pal_picoclaw_import;

/* Imports every session of the directory, then reads it again and compares it with the store:
 * PAL_CORRUPT where they differ. */
PAL_CHECKED pal_status pal_cli_picoclaw_import(pal_picoclaw_import *import, const char *dir);

/* PAL_INVALID where the directory is the open store's own: it would be read, or replaced, while it
 * is written. */
PAL_CHECKED pal_status pal_cli_picoclaw_check(pal_cli *cli, const char *dir);

typedef struct pal_picoclaw_export {
    pal_cli *cli;
    const char *dir;
    bool force; /* files that are there already are replaced */
    uint64_t sessions;
    uint64_t messages;
    pal_cli_progress *progress;
} pal_picoclaw_export;

/* Makes the directory if it is missing, then checks that it can be used. */
PAL_CHECKED pal_status pal_cli_picoclaw_prepare(pal_picoclaw_export *export);
/* Writes the two files of one session. */
PAL_CHECKED pal_status pal_cli_picoclaw_export(
        pal_picoclaw_export *export, const pal_session *session);

#endif
