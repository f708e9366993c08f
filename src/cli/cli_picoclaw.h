/* cli_picoclaw.h - imports and exports directories of PicoClaw, a personal assistant that keeps
 * its sessions in JSONL files. */
#ifndef PAL_CLI_PICOCLAW_H
#define PAL_CLI_PICOCLAW_H

#include "cli/cli.h"
#include "dialect/picoclaw/picoclaw.h"
#include "transfer/transfer_import.h"

/* The state and the results of an import. */
typedef struct pal_picoclaw_import {
    pal_cli *cli;
    pal_import *store;
    pal_import_problem problem;
    void *user;
    const char **file; /* set to the file that is being read, for problem reports */
    pal_cli_progress *progress;
    const char *project; /* project of all sessions; NULL: none */
    uint64_t verified_sessions;
    uint64_t verified_messages;
} pal_picoclaw_import;

/* Imports every session of the directory, then reads it again and compares it with the store:
 * PAL_CORRUPT if they differ. */
PAL_CHECKED pal_status pal_cli_picoclaw_import(pal_picoclaw_import *import, const char *dir);

/* PAL_INVALID if the directory belongs to the open store: it would be read or replaced while the
 * store writes to it. */
PAL_CHECKED pal_status pal_cli_picoclaw_check(pal_cli *cli, const char *dir);

typedef struct pal_picoclaw_export {
    pal_cli *cli;
    const char *dir;
    bool force; /* replace existing files */
    uint64_t sessions;
    uint64_t messages;
    pal_cli_progress *progress;
} pal_picoclaw_export;

/* Creates the directory if it is missing, then checks that it can be used. */
PAL_CHECKED pal_status pal_cli_picoclaw_prepare(pal_picoclaw_export *export);
/* Writes the two files of one session. */
PAL_CHECKED pal_status pal_cli_picoclaw_export(
        pal_picoclaw_export *export, const pal_session *session);

#endif
