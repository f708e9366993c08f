/* transfer_picoclaw.h - imports and exports directories of PicoClaw, a personal assistant that
 * keeps its sessions in JSONL files. Blocks. One thread at a time. */
#ifndef PAL_TRANSFER_PICOCLAW_H
#define PAL_TRANSFER_PICOCLAW_H

#include "palaver/palaver.h"
#include "transfer/transfer_import.h"

/* The state and the results of an import. Everything in it is borrowed. */
typedef struct pal_picoclaw_import {
    pal_store *store;
    const char *store_url; /* a directory of the store is refused; NULL: not checked */
    pal_str tenant;
    pal_import *import;   /* an import into the same store and tenant */
    pal_arena *arena;     /* names are kept here until the import ends */
    const char *project;  /* project of all sessions; NULL: none */
    pal_import_problem problem;
    /* Called after each session, with the bytes so far and in total. May be NULL. */
    void (*on_progress)(uint64_t done, uint64_t total, void *user);
    void *user;
    const char **file; /* set to the file that is being read, for problem reports */
    pal_error *err;
    uint64_t verified_sessions;
    uint64_t verified_messages;
} pal_picoclaw_import;

/* Imports every session of the directory, then reads it again and compares it with the store:
 * PAL_CORRUPT if they differ. */
PAL_CHECKED pal_status pal_picoclaw_import_all(pal_picoclaw_import *import, const char *dir);

typedef struct pal_picoclaw_export {
    pal_store *store;
    const char *store_url; /* a directory of the store is refused; NULL: not checked */
    pal_str tenant;
    const char *dir;
    bool force; /* replace existing files */
    /* Called after each message, with the number of messages so far. May be NULL. */
    void (*on_progress)(uint64_t messages, void *user);
    void *user;
    pal_error *err;
    bool has_existing; /* a session failed because its files exist, and `force` is not set */
    uint64_t sessions;
    uint64_t messages;
} pal_picoclaw_export;

/* Creates the directory if it is missing, then checks that it can be used. */
PAL_CHECKED pal_status pal_picoclaw_export_prepare(pal_picoclaw_export *export);
/* Writes the two files of one session. */
PAL_CHECKED pal_status pal_picoclaw_export_session(
        pal_picoclaw_export *export, const pal_session *session);

#endif
