/* cmd_run.h - the parts of `palaver run`: the clients that it knows, the server that the client
 * uses, and the client's process. One thread uses them. */
#ifndef PAL_CMD_RUN_H
#define PAL_CMD_RUN_H

#include "cli/cli.h"

#define PAL_RUN_SESSIONS_MAX 32 /* sessions that are reported at the end */

/* The server that a client uses. All texts are in cli->arena. */
typedef struct pal_run_service {
    pal_str url;   /* "http://127.0.0.1:41234" */
    pal_str key;   /* the API key for it; empty: none is required */
    pal_str model; /* its default model */
    bool is_model_given; /* the user named the model on the command line */
} pal_run_service;

/* ---- Clients (cmd_run_client.c) ---- */

/* The environment and the arguments of a client's process. Both end with NULL. */
typedef struct pal_run_setup {
    const char **args;
    const char **environment;
} pal_run_setup;

typedef struct pal_run_client {
    const char *program;   /* its name in PATH */
    const char *name;      /* its name for people */
    const char *install;   /* command that installs it */
    const char *label;     /* prefix of its keys in the recorder: "codex:" */
    const char *provider;  /* kind of provider that suits it best; NULL: any */
    /* Adds arguments and variables for a service. */
    pal_status (*set_up)(pal_cli *cli, const pal_run_service *service, pal_run_setup *setup);
} pal_run_client;

/* Returns NULL if there is no such client. */
const pal_run_client *pal_run_client_find(const char *program);
/* Makes the environment and the arguments of the client. The arguments of the user come last. */
PAL_CHECKED pal_status pal_run_client_set_up(pal_cli *cli, const pal_run_client *client,
        const pal_run_service *service, pal_run_setup *out_setup);

/* ---- A running server (cmd_run_service.c) ---- */

/* A session that the client used. */
typedef struct pal_run_session {
    pal_str key; /* empty: a branch */
    pal_str id;
    uint64_t messages;
} pal_run_session;

/* True for the key of a part of a conversation, "codex:ID:side" or "claude-code:ID:AGENT". Parts
 * (titles and sub-agents) are not reported. */
bool pal_run_session_is_part(pal_str key);

/* Looks for a Palaver server at the configured address. PAL_NOT_FOUND: there is none, or something
 * else is there. PAL_DENIED: it refuses the key of the environment. */
PAL_CHECKED pal_status pal_run_service_find(pal_cli *cli, pal_run_service *out_service);

/* Lists sessions of the service whose key begins with `label`, if they were updated after the
 * time. */
PAL_CHECKED pal_status pal_run_service_sessions(pal_cli *cli, const pal_run_service *service,
        const char *label, int64_t since_ms, pal_run_session out[PAL_RUN_SESSIONS_MAX],
        size_t *out_len);

/* ---- The process (cmd_run_process.c) ---- */

/* Returns the path of a program in PATH, in cli->arena; NULL if it is not there. */
const char *pal_run_program_find(pal_cli *cli, const char *program);
/* Runs the program in the foreground until it ends. Its exit status becomes cli->exit_code. */
PAL_CHECKED pal_status pal_run_process(pal_cli *cli, const char *path, const pal_run_setup *setup);

#endif
