/* provider_answer.h - what a model says, whichever service it came through: gathers what `end` will
 * tell, numbers the tool calls, and passes the rest on to the sink. Only for the provider_*.c
 * files.
 *
 * The services' readers call it with whatever they find; after a failure, or once nobody listens
 * any more, it passes nothing on. */
#ifndef PAL_PROVIDER_ANSWER_H
#define PAL_PROVIDER_ANSWER_H

#include "base/buf.h"
#include "base/json.h"
#include "provider/provider.h"

#define PAL_ANSWER_NO_CALL UINT32_MAX

typedef struct pal_answer_call {
    pal_buf id;
    pal_buf held;  /* arguments that came before the name */
    int64_t key;   /* the service's own number; -1: none */
    bool is_named; /* and so told to the sink */
    bool has_arguments;
} pal_answer_call;

typedef struct pal_answer {
    pal_model_sink sink;
    void *user;
    pal_answer_call *calls;
    size_t calls_len;
    size_t calls_cap;
    pal_model_end end; /* its views are made by pal_answer_settle() */
    pal_buf model, request_id, conversation, error, error_code;
    bool has_finish; /* the service said why it ended */
    bool is_done;    /* nothing more is to come */
    bool is_silent;  /* nobody listens */
} pal_answer;

void pal_answer_init(pal_answer *answer, const pal_model_sink *sink, void *user);
void pal_answer_done(pal_answer *answer);

static inline bool pal_answer_failed(const pal_answer *answer)
{
    return answer->end.status != PAL_OK;
}

void pal_answer_text(pal_answer *answer, pal_str delta);
void pal_answer_refusal(pal_answer *answer, pal_str delta);
void pal_answer_reasoning(pal_answer *answer, pal_str delta);
void pal_answer_signature(pal_answer *answer, pal_str signature, pal_str family);

/* The call that is meant by what a service said of it: its number (-1: none was given), its id and
 * its name, each maybe empty; a new one where none fits. PAL_ANSWER_NO_CALL on failure. */
uint32_t pal_answer_call_of(pal_answer *answer, int64_t key, pal_str id, pal_str name);
void pal_answer_arguments(pal_answer *answer, uint32_t index, pal_str delta);

/* By any service's word for it. */
void pal_answer_finish(pal_answer *answer, pal_str reason);

/* The first failure stays. */
void pal_answer_fail(pal_answer *answer, pal_status status, const char *format, ...)
        PAL_PRINTF(3, 4);
/* Sets a name or an id that is not known yet. */
void pal_answer_learn(pal_buf *fact, pal_str value);

/* A count, which some services write as a string; false leaves *out_number untouched. */
bool pal_answer_number(pal_json value, uint64_t *out_number);

/* ---- provider_error.c ---- */

/* Fails with what an error of any service says: {"error":{...}} and its many cousins. */
void pal_answer_fail_value(pal_answer *answer, pal_json value, pal_arena *scratch);
/* The same of a body that may be anything. `code` is HTTP's. */
void pal_answer_fail_body(pal_answer *answer, long code, pal_str body, pal_arena *scratch);
/* A few words of anything: one line of valid UTF-8, without the tags of a page. */
void pal_answer_excerpt(pal_buf *out, pal_str bytes);
/* Takes a secret out of a text that will be shown. */
void pal_answer_redact(pal_buf *text, pal_str secret);

/* ---- At the end ---- */

/* Nothing more comes: makes what is left right, and fills in the views and judgements of
 * answer->end, which then is what to tell. Retry is judged here, unless it was before. */
void pal_answer_settle(pal_answer *answer);

#endif
