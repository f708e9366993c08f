/* provider_reader.h - parses a service's answer, a stream or one JSON text, which can be fed in
 * pieces of any size. It knows the HTTP status and headers but uses no network. For the
 * provider_*.c files and the tests only. */
#ifndef PAL_PROVIDER_READER_H
#define PAL_PROVIDER_READER_H

#include "net/net_sse.h"
#include "provider/provider_answer.h"

typedef struct pal_reader pal_reader;

/* The format of one service. `value` is an object in reader->scratch. */
typedef struct pal_reader_kind {
    void (*event)(pal_reader *reader, pal_str name, pal_json value);
    void (*whole)(pal_reader *reader, pal_json value);
    /* An event that is too large to be read on the loop; NULL: the answer fails then. */
    void (*skip)(pal_reader *reader, pal_str data);
} pal_reader_kind;

typedef enum pal_reader_form {
    PAL_READER_UNKNOWN = 0, /* no byte has shown the kind of answer yet */
    PAL_READER_STREAM = 1,
    PAL_READER_WHOLE = 2,
} pal_reader_form;

struct pal_reader {
    const pal_reader_kind *kind;
    pal_answer answer;
    pal_arena *scratch; /* not owned; emptied for each event */
    pal_reader_form form;
    long code;
    bool is_event_stream; /* the service says that it is an event stream */
    bool has_events;
    bool is_on_worker; /* the limits of the loop do not apply */
    size_t texts_len;  /* bytes of the texts that were read from the event, with their escapes */
    bool is_last; /* the text that is being read was left at the end without a terminator */
    pal_sse sse;
    pal_buf body;      /* the body of an answer that is not a stream; otherwise its first bytes */
    pal_buf said;      /* forwarding: the text of the answer up to a limit, for counting */
    uint64_t said_len; /* length of the whole text */
    pal_buf signature; /* signature of the open reasoning block */
    pal_buf asked_ms, asked; /* the headers retry-after-ms and retry-after */
};

extern const pal_reader_kind pal_reader_openai;
/* Reads only the model and the usage, and reports nothing to the sink. */
extern const pal_reader_kind pal_reader_openai_passing;
extern const pal_reader_kind pal_reader_anthropic;
extern const pal_reader_kind pal_reader_anthropic_passing; /* the same for Anthropic's messages */
extern const pal_reader_kind pal_reader_responses_passing; /* the same for OpenAI's responses */
extern const pal_reader_kind pal_reader_mistral_conversations;

/* `scratch` can be shared by readers that are fed one after the other. */
void pal_reader_init(pal_reader *reader, const pal_reader_kind *kind, pal_arena *scratch,
        const pal_model_sink *sink, void *user);
void pal_reader_done(pal_reader *reader);

void pal_reader_header(pal_reader *reader, pal_str name, pal_str value);
void pal_reader_code(pal_reader *reader, long code);
/* Parses bytes and reports the result to the sink. Failures are in reader->answer; nothing is read
 * after one. */
void pal_reader_feed(pal_reader *reader, pal_str bytes);

/* Ends the answer. `http` says how the call ended; NULL: we ended it. The result is in
 * reader->answer.end, unless the call was canceled. */
void pal_reader_finish(pal_reader *reader, const pal_http_end *http);

/* ---- Functions for several services ---- */

/* Forwarding: keeps a text of the answer in `said`, for counting. */
void pal_reader_keep_said(pal_reader *reader, pal_str text);

/* Reads a string, or a list of chunks of text and thinking as Mistral writes them. */
void pal_reader_content(pal_reader *reader, pal_json content);
/* Reads {"prompt_tokens":...} and similar forms; replaces earlier values. */
void pal_reader_usage(pal_reader *reader, pal_json usage);
/* Returns the text of a string, or an empty text. The answer fails if the texts of the event are
 * too long for the loop. */
pal_str pal_reader_text(pal_reader *reader, pal_json value);

/* Returns the text of a member, as pal_reader_text() does. Most members are absent in most pieces
 * of a stream, so this is decided here. */
static inline pal_str pal_reader_string(pal_reader *reader, pal_json object, const char *name)
{
    pal_json value = pal_json_find(object, name);
    return pal_json_type_of(value) == PAL_JSON_STRING ? pal_reader_text(reader, value)
                                                      : pal_str_make(NULL, 0);
}

/* Sets a fact that is not known yet to the text of a member. Every piece of a stream repeats it. */
static inline void pal_reader_learn(
        pal_reader *reader, pal_buf *fact, pal_json object, const char *name)
{
    if (fact->len == 0)
        pal_answer_learn(fact, pal_reader_string(reader, object, name));
}

#endif
