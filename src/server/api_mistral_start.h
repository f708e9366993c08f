/* api_mistral_start.h - what makes a model speak, up to the moment when it does: what was asked,
 * and the session that it is said in. */
#ifndef PAL_API_MISTRAL_START_H
#define PAL_API_MISTRAL_START_H

#include "server/api_mistral_run.h"

/* Lies in the call's arena. */
typedef struct pal_mistral_start {
    pal_call *call;
    pal_mistral_run_options run;
    pal_mistral_settings settings;
    pal_json args;
    bool is_stored;
    pal_session session;       /* to be made */
    pal_mistral_pass *parents; /* into the conversation that it is forked from; NULL: none */
    pal_record records[2];
    pal_op *ops;
    size_t ops_len;
} pal_mistral_start;

/* NULL without memory: *err says so. */
pal_mistral_start *pal_mistral_start_new(pal_call *call, pal_error *err);

/* Reads what all requests have that make a model speak in a conversation. */
PAL_CHECKED pal_status pal_mistral_start_read(
        pal_mistral_start *start, bool is_required, pal_error *err);
/* Whether the results among what is said belong to calls that wait for one: in the session up to
 * `before_seq` (0: the newest), or among what is said before, where it is new. */
PAL_CHECKED pal_status pal_mistral_start_check(
        pal_mistral_start *start, pal_id session, uint64_t before_seq, pal_error *err);

/* ---- Making the session ---- */

/* Begins the list of what is done for it: room for `more_ops`. */
PAL_CHECKED pal_status pal_mistral_start_session(
        pal_mistral_start *start, size_t more_ops, pal_error *err);
pal_op *pal_mistral_start_op(pal_mistral_start *start, pal_op_kind kind);
void pal_mistral_start_record(pal_mistral_start *start, size_t at, const char *kind, pal_str body);
/* Does it, and runs. */
PAL_CHECKED pal_status pal_mistral_start_make(pal_mistral_start *start, pal_error *err);

#endif
