/* provider_answer.h - an answer of a model, whatever service it came through. Collects the values
 * for `end`, numbers the tool calls, and passes everything else on to the sink. For the
 * provider_*.c files only.
 *
 * The readers of the services call it with everything they find. After a failure or a cancel it
 * passes nothing on. */
#ifndef PAL_PROVIDER_ANSWER_H
#define PAL_PROVIDER_ANSWER_H

#include "base/buf.h"
#include "base/json/json.h"
#include "provider/provider.h"

#define PAL_ANSWER_NO_CALL UINT32_MAX

typedef struct pal_answer_call {
    pal_buf id;
    pal_buf held;  /* arguments that came before the name */
    int64_t key;   /* the service's number; -1: none */
    bool is_named; /* the name is known, and the sink knows the call */
    bool has_arguments;
} pal_answer_call;

typedef struct pal_answer {
    pal_model_sink sink;
    void *user;
    pal_answer_call *calls;
    size_t calls_len;
    size_t calls_cap;
    uint64_t said;     /* bytes of all texts and tool arguments */
    pal_model_end end; /* its texts are set by pal_answer_settle() */
    pal_buf model, request_id, conversation, error, error_code;
    bool has_finish; /* the service said why the answer ended */
    bool is_done;    /* the answer is complete */
    bool is_silent;  /* canceled: nothing is reported */
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

/* Returns the call that a service means by its number (-1: none given), its id and its name, each
 * of which may be empty. If none matches, a new call is made. PAL_ANSWER_NO_CALL if it fails. */
uint32_t pal_answer_call_of(pal_answer *answer, int64_t key, pal_str id, pal_str name);
void pal_answer_arguments(pal_answer *answer, uint32_t index, pal_str delta);

/* Accepts the reason of any service. */
void pal_answer_finish(pal_answer *answer, pal_str reason);

/* Only the first failure is kept. */
void pal_answer_fail(pal_answer *answer, pal_status status, const char *format, ...)
        PAL_PRINTF(3, 4);
/* Sets a name or an id that is not known yet. */
void pal_answer_learn(pal_buf *fact, pal_str value);

/* Reads a count, which some services write as a string. If it returns false, *out_number is
 * unchanged. */
bool pal_answer_number(pal_json value, uint64_t *out_number);

/* ---- provider_error.c ---- */

/* Fails with the message in an error object of any service: {"error":{...}} and similar forms. */
void pal_answer_error_value(pal_answer *answer, pal_json value, pal_arena *scratch);
/* Does the same for a body with any content. `code` is the HTTP status. */
void pal_answer_error_body(pal_answer *answer, long code, pal_str body, pal_arena *scratch);
/* Writes a short excerpt of any bytes: one line of valid UTF-8, without the tags of a page. */
void pal_provider_excerpt(pal_buf *out, pal_str bytes);
/* Removes a secret from a text that will be shown. */
void pal_provider_redact_secret(pal_buf *text, pal_str secret);

/* ---- At the end ---- */

/* Completes the answer when nothing more comes, and sets the texts and decisions in answer->end,
 * which is then ready to be reported. Decides whether a retry is possible, unless that was decided
 * before. */
void pal_answer_settle(pal_answer *answer);

#endif
