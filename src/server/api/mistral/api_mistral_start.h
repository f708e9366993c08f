/* api_mistral_start.h - prepares a request that makes a model answer: reads the request and creates
 * its session. */
#ifndef PAL_API_MISTRAL_START_H
#define PAL_API_MISTRAL_START_H

#include "server/api/mistral/api_mistral_run.h"

/* Allocated in the call's arena. */
typedef struct pal_mistral_start {
    pal_call *call;
    pal_mistral_run_options run;
    pal_mistral_settings settings;
    pal_json args;
    bool is_stored;
    int handoff_execution; /* 1: the client performs handoffs */
    uint64_t n;            /* number of answers to a chat completion; only 1 is possible */
    pal_str from_entry_id; /* only for a restart */
    pal_session session;       /* the session to create */
    pal_mistral_hold *parent_hold; /* held for the conversation that is forked; may be NULL */
    pal_record records[2];
    pal_op *ops;
    size_t ops_len;
} pal_mistral_start;

/* Returns NULL if out of memory, with the reason in *err. */
pal_mistral_start *pal_mistral_start_new(pal_call *call, pal_error *err);

/* The members of all requests that run turns in a conversation. */
extern const pal_api_object pal_mistral_start_members;
/* Reads the body of the call by the table `body`, which includes pal_mistral_start_members. */
PAL_CHECKED pal_status pal_mistral_start_read(pal_mistral_start *start, const pal_api_object *body,
        bool requires_inputs, pal_error *err);
/* Checks that every result in the request belongs to a call that waits for one. The call is in the
 * session before `before_seq` (0: up to the newest message), or earlier in the request if the
 * session is new. */
PAL_CHECKED pal_status pal_mistral_start_check(
        pal_mistral_start *start, pal_id session, uint64_t before_seq, pal_error *err);

/* ---- Creating the session ---- */

/* Begins the list of operations, with room for `more_ops` more. */
PAL_CHECKED pal_status pal_mistral_start_session(
        pal_mistral_start *start, size_t more_ops, pal_error *err);
/* Adds an operation, which is applied only if the one before it succeeds. */
void pal_mistral_start_add(pal_mistral_start *start, pal_op op);
void pal_mistral_start_record(pal_mistral_start *start, size_t at, const char *kind, pal_str body);
/* Applies the operations, then starts the run. */
PAL_CHECKED pal_status pal_mistral_start_make(pal_mistral_start *start, pal_error *err);

#endif
