/* provider_answer.h - an answer of a model, whatever service it came through. Collects the values
 * for `end`, numbers the tool calls, and passes everything else on to the sink. For the
 * provider_*.c files only.
 *
 * The readers of the formats, such as provider_openai_read.c, call it with everything they find.
 * After a failure or a cancel it passes nothing on. */
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
    pal_model_end end; /* `status` is the first failure; pal_answer_settle() sets the texts */
    pal_buf model, request_id, conversation, error, error_code;
    bool has_finish; /* the service said why the answer ended */
    bool is_done;    /* the answer is complete */
    bool is_silent;  /* canceled: nothing is reported */

    pal_arena *scratch; /* not owned */
    bool is_on_worker;  /* the limits of the loop do not apply */
    uint32_t half; /* of a character that the service divided; see pal_json_string_part() */
    size_t texts_len;   /* bytes of the texts read from the event, with their escapes */
    uint64_t item_said; /* `said` when the last item of the Responses API ended */
    uint64_t items_len; /* number of such items */
    bool has_open_item; /* the sink knows of an item that has not ended */
    int64_t open_key;   /* the service's number of that item */
    pal_buf open_item;  /* the item as JSON, when it began */
    pal_buf held;       /* events of later items, which wait for its end; separated by commas */
    uint64_t progress_len; /* bytes of the events that were reported as progress */
    pal_buf signature;  /* signature of the open reasoning block */
    pal_buf kept;       /* forwarding: the text of the answer up to a limit, for counting */
    uint64_t kept_len;  /* length of the whole text */
} pal_answer;

/* `scratch` holds the texts of one event, and is emptied for the next one. NULL if the answer does
 * not come from JSON. */
void pal_answer_init(
        pal_answer *answer, pal_arena *scratch, const pal_model_sink *sink, void *user);
void pal_answer_done(pal_answer *answer);

void pal_answer_text(pal_answer *answer, pal_str delta);
void pal_answer_refusal(pal_answer *answer, pal_str delta);
void pal_answer_reasoning(pal_answer *answer, pal_str delta);
void pal_answer_summary(pal_answer *answer, pal_str delta);
void pal_answer_signature(pal_answer *answer, pal_str signature, pal_str family);
void pal_answer_item(pal_answer *answer, pal_str json, size_t parts);
void pal_answer_progress(pal_answer *answer, pal_str json);

/* Returns the call that a service means by its number (-1: none given), its id and its name, each
 * of which may be empty. If none matches, a new call is made. PAL_ANSWER_NO_CALL if it fails. */
uint32_t pal_answer_call_of(pal_answer *answer, int64_t key, pal_str id, pal_str name);
void pal_answer_arguments(pal_answer *answer, uint32_t index, pal_str delta);

/* ---- Reading JSON values of any service ---- */

/* Returns the text of a string, or an empty text. The answer fails if the texts of the event are
 * too long for the loop. */
pal_str pal_answer_string(pal_answer *answer, pal_json value);
/* Returns the text of a member, as pal_answer_string() does. */
pal_str pal_answer_member(pal_answer *answer, pal_json object, const char *name);
/* Reports a string, or a list of chunks of text and thinking as Mistral writes them. */
void pal_answer_content(pal_answer *answer, pal_json content);
/* Reads {"prompt_tokens":...} and similar forms; replaces earlier values. */
void pal_answer_usage(pal_answer *answer, pal_json usage);
/* Forwarding: keeps a text of the answer in `kept`, for counting. */
void pal_answer_keep(pal_answer *answer, pal_str text);

/* Sets the finish from the word of any service. An unknown word counts as PAL_FINISH_STOP. */
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
void pal_answer_error_value(pal_answer *answer, pal_json value);
/* Does the same for a body with any content. `code` is the HTTP status. */
void pal_answer_error_body(pal_answer *answer, long code, pal_str body);
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
