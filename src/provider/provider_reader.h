/* provider_reader.h - takes a service's answer apart, a stream or one JSON text, fed in pieces cut
 * anywhere. Knows HTTP's code and headers, but no network: bytes in, sink out. Only for the
 * provider_*.c files and the tests. */
#ifndef PAL_PROVIDER_READER_H
#define PAL_PROVIDER_READER_H

#include "net/net_sse.h"
#include "provider/provider_answer.h"

typedef struct pal_reader pal_reader;

/* One service's language. `value` is an object; it lies in reader->scratch. */
typedef struct pal_reader_kind {
    void (*event)(pal_reader *reader, pal_str name, pal_json value);
    void (*whole)(pal_reader *reader, pal_json value);
} pal_reader_kind;

typedef enum pal_reader_form {
    PAL_READER_UNKNOWN = 0, /* no byte that tells came yet */
    PAL_READER_STREAM = 1,
    PAL_READER_WHOLE = 2,
} pal_reader_form;

struct pal_reader {
    const pal_reader_kind *kind;
    pal_answer answer;
    pal_arena *scratch; /* borrowed; emptied with each event */
    pal_reader_form form;
    long code;
    bool is_event_stream; /* the service says so */
    bool has_events;
    bool is_last; /* what is being read was left at the end without an end of its own */
    pal_sse sse;
    pal_buf body;            /* of an answer that is no stream; else its first bytes */
    pal_buf said;            /* passing: the text of the answer, up to a bound; to be counted */
    uint64_t said_len;       /* all of it */
    pal_buf signature;       /* of the reasoning block that is open */
    pal_buf asked_ms, asked; /* retry-after-ms, retry-after */
};

extern const pal_reader_kind pal_reader_openai;
/* The same without what is said: only who said it, and its usage. Tells the sink nothing. */
extern const pal_reader_kind pal_reader_openai_passing;
extern const pal_reader_kind pal_reader_anthropic;
extern const pal_reader_kind pal_reader_mistral_conversations;

/* `scratch` may be shared by readers that are fed one after the other. */
void pal_reader_init(pal_reader *reader, const pal_reader_kind *kind, pal_arena *scratch,
        const pal_model_sink *sink, void *user);
void pal_reader_done(pal_reader *reader);

void pal_reader_header(pal_reader *reader, pal_str name, pal_str value);
void pal_reader_code(pal_reader *reader, long code);
/* Tells the sink what is in it. Failures show in reader->answer; nothing is read after one. */
void pal_reader_feed(pal_reader *reader, pal_str bytes);

/* No more comes; `http` says how it ended, NULL that we ended it ourselves. What to tell is in
 * reader->answer.end afterwards, unless the sink stopped listening. */
void pal_reader_finish(pal_reader *reader, const pal_http_end *http);

/* ---- What services have in common ---- */

/* A string, or a list of chunks of text and thinking, as Mistral writes both. */
void pal_reader_content(pal_reader *reader, pal_json content);
/* {"prompt_tokens":...} and its cousins: replaces what was told before. */
void pal_reader_usage(pal_reader *reader, pal_json usage);
/* A member's text, or the empty view. */
pal_str pal_reader_string(pal_reader *reader, pal_json object, const char *name);

#endif
