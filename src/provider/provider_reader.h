/* provider_reader.h - parses a service's answer, a stream or one JSON text, which can be fed in
 * pieces of any size. It knows the HTTP status and headers but uses no network. For the
 * provider_*.c files and the tests only. */
#ifndef PAL_PROVIDER_READER_H
#define PAL_PROVIDER_READER_H

#include "net/net_sse.h"
#include "provider/provider_answer.h"

typedef struct pal_reader pal_reader;

/* The format of one service. `value` is an object in answer->scratch. */
typedef struct pal_reader_kind {
    void (*event)(pal_answer *answer, pal_str name, pal_json value);
    void (*whole)(pal_answer *answer, pal_json value);
    /* An event that is too large to be read on the loop; NULL: the answer fails then. */
    void (*skip)(pal_answer *answer, pal_str data);
} pal_reader_kind;

typedef enum pal_reader_form {
    PAL_READER_UNKNOWN = 0, /* no byte has shown the kind of answer yet */
    PAL_READER_STREAM = 1,
    PAL_READER_WHOLE = 2,
} pal_reader_form;

struct pal_reader {
    const pal_reader_kind *kind;
    pal_answer answer;
    pal_reader_form form;
    long code;
    bool is_event_stream; /* the service says that it is an event stream */
    bool has_events;
    bool is_busy; /* bytes are being read; the reader must not be freed */
    /* Called when nothing more is read, after each piece of the response; NULL: not called. */
    void (*on_over)(pal_reader *reader);
    bool is_last; /* the text that is being read was left at the end without a terminator */
    pal_sse sse;
    pal_buf body;      /* the body of an answer that is not a stream; otherwise its first bytes */
    pal_buf asked_ms, asked; /* the headers retry-after-ms and retry-after */
};

extern const pal_reader_kind pal_reader_openai;
/* Reads only the model and the usage, and reports nothing to the sink. */
extern const pal_reader_kind pal_reader_openai_passing;
extern const pal_reader_kind pal_reader_anthropic;
extern const pal_reader_kind pal_reader_anthropic_passing; /* the same for Anthropic's messages */
extern const pal_reader_kind pal_reader_responses_passing; /* the same for OpenAI's responses */
extern const pal_reader_kind pal_reader_responses;
extern const pal_reader_kind pal_reader_mistral_conversations;

/* `scratch` can be shared by readers that are fed one after the other. */
void pal_reader_init(pal_reader *reader, const pal_reader_kind *kind, pal_arena *scratch,
        const pal_model_sink *sink, void *user);
void pal_reader_done(pal_reader *reader);

void pal_reader_head(pal_reader *reader, const pal_http_head *head);
/* Parses bytes and reports the result to the sink. Failures are in reader->answer; nothing is read
 * after one. */
void pal_reader_feed(pal_reader *reader, pal_str bytes);
/* The same for a reader that receives the body of an HTTP response: `user` is the reader. */
void pal_reader_take(void *user, pal_str bytes);

/* Ends the answer. `http` says how the call ended; NULL: we ended it. The result is in
 * reader->answer.end, unless the call was canceled. */
void pal_reader_finish(pal_reader *reader, const pal_http_end *http);

#endif
