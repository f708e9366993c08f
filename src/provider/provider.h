/* provider.h - the one small interface to every model: a request and a sink. A provider never sees
 * a session. Everything runs on the loop. */
#ifndef PAL_PROVIDER_H
#define PAL_PROVIDER_H

#include "base/buf.h"
#include "net/net_http.h"
#include "palaver/context.h"
#include "palaver/message.h"
#include "palaver/retry.h"

/* Borrowed until pal_provider_start() returns. */
typedef struct pal_model_request {
    pal_str model;
    const pal_message *messages; /* valid for the provider's profile; system first; bytes of images
                                    and files are in `data` */
    size_t messages_len;
    size_t stable_len; /* so many of them will begin the next request too */
    const pal_tool *tools;
    size_t tools_len;
    pal_str tool_choice; /* JSON as OpenAI writes it, or empty */
    pal_str parameters;  /* a JSON object: members for the request's body; or empty */
    uint64_t output_max; /* tokens; 0: the provider's */
    bool stream;
    pal_str conversation; /* a stable name, for caches; for a service that keeps the
                             conversation itself its own id of it, or empty to begin one */
    int64_t timeout_ms;   /* for all of it; 0: none */
    bool is_aside;        /* a question beside the conversation, which the service must not keep */
} pal_model_request;

typedef enum pal_finish {
    PAL_FINISH_NONE = 0,
    PAL_FINISH_STOP = 1,
    PAL_FINISH_LENGTH = 2,
    PAL_FINISH_TOOL_CALLS = 3,
    PAL_FINISH_FILTERED = 4,
} pal_finish;

/* How a call ended. Views are valid during the call of `end` only. */
typedef struct pal_model_end {
    pal_status status; /* PAL_OK, PAL_PROVIDER (the service answered with an error, or nonsense),
                          PAL_IO, PAL_TIMEOUT, PAL_INVALID (the request can't be made) */
    pal_finish finish;
    bool has_usage;
    pal_usage usage;      /* of the whole call: streams tell it cumulatively, it is counted once */
    pal_str model;        /* as the service names it */
    pal_str request_id;   /* the service's */
    pal_str conversation; /* the id of one that the service keeps; empty: it keeps none */
    bool is_stale;        /* the request's conversation can't be gone on with: begin another */
    long code;            /* of HTTP; 0: none */
    pal_str error;        /* what the service said, or what failed */
    pal_str error_code;   /* "context_length_exceeded", where it named one */
    bool is_overflow;     /* the request was too long for the model */
    bool is_retryable;
    int64_t retry_after_ms; /* -1: not said */
    bool is_unreachable;    /* nothing listens there, or no such host, and it never was reached */
} pal_model_end;

/* Told in order, as it arrives. All may be called many times but `end`, which comes once, last, and
 * not after a cancel. `index` numbers tool calls of the answer from 0. */
typedef struct pal_model_sink {
    void (*text)(void *user, pal_str delta);
    void (*reasoning)(void *user, pal_str delta);
    /* The signature of the reasoning since the last one, which is complete now; where none came
     * since, a block that is opaque as a whole, as JSON. A part's `signature` holds either. */
    void (*signature)(void *user, pal_str signature, pal_str family);
    void (*call)(void *user, uint32_t index, pal_str id, pal_str name);
    void (*arguments)(void *user, uint32_t index, pal_str delta);
    void (*end)(void *user, const pal_model_end *end);
    void (*refusal)(void *user, pal_str delta); /* that the model won't; NULL: told as text */
} pal_model_sink;

typedef struct pal_provider pal_provider;
typedef struct pal_model_call pal_model_call;

typedef struct pal_provider_config {
    pal_str name;    /* the user's word for it; unique */
    pal_str kind;    /* "openai", "anthropic", "mistral", "mistral_conversations", "echo",
                        "script" */
    pal_str url;     /* "https://api.openai.com/v1"; empty: the kind's own */
    pal_str api_key; /* may be empty */
    const pal_http_header *headers; /* further ones */
    size_t headers_len;
    pal_str path; /* script: the recorded stream */
    int64_t connect_ms;
    int64_t idle_ms;
} pal_provider_config;

/* Everything is copied. `http` outlives it. PAL_INVALID names what is wrong. */
PAL_CHECKED pal_status pal_provider_open(pal_http *http, pal_loop *loop,
        const pal_provider_config *config, pal_provider **out_provider, pal_error *err);
void pal_provider_close(pal_provider *provider); /* no call is running; accepts NULL */

pal_str pal_provider_name(const pal_provider *provider);
pal_profile pal_provider_profile(const pal_provider *provider);
/* Whose reasoning blocks this model takes back; empty: nobody's. */
pal_str pal_provider_family(const pal_provider *provider, pal_str model);

/* Whether the service keeps conversations by itself, and takes only what is new. */
bool pal_provider_keeps(const pal_provider *provider);

/* `end` is never called before this returns. On failure nothing will be told. */
PAL_CHECKED pal_status pal_provider_start(pal_provider *provider, const pal_model_request *request,
        const pal_model_sink *sink, void *user, pal_model_call **out_call, pal_error *err);
/* Stops it without a word; the connection is closed at once. */
void pal_model_call_cancel(pal_model_call *call);

/* The models that the service lists: told once, names in a JSON array, or NULL and why not. */
typedef void (*pal_models_told)(void *user, pal_str json, const pal_error *err);
PAL_CHECKED pal_status pal_provider_models(
        pal_provider *provider, pal_models_told told, void *user, pal_error *err);

/* ---- Somebody else's requests: provider_forward.c ---- */

/* Whether the service takes chat completions as OpenAI writes them. */
bool pal_provider_speaks_chat(const pal_provider *provider);
/* Whether a stream of it tells its usage only where the request's stream_options ask for that. */
bool pal_provider_hides_usage(const pal_provider *provider);
/* Sends the body as it is to `path` behind the service's URL; what comes is told as it is. The call
 * must be over before the provider is closed. */
PAL_CHECKED pal_status pal_provider_forward(pal_provider *provider, pal_str path, pal_str body,
        const pal_http_events *events, void *user, pal_http_call **out_call, pal_error *err);

/* Reads along with an answer that passes, for its model and usage; keeps one event of a stream at a
 * time. NULL without memory. */
typedef struct pal_meter pal_meter;
pal_meter *pal_meter_new(pal_provider *provider);
void pal_meter_free(pal_meter *meter); /* accepts NULL */
void pal_meter_header(pal_meter *meter, pal_str name, pal_str value);
void pal_meter_code(pal_meter *meter, long code);
void pal_meter_feed(pal_meter *meter, pal_str bytes);
/* Once, before the provider is closed. `http` says how it ended, NULL that we ended it. Valid until
 * the meter is freed; what a stream told before it broke off is in it too. */
const pal_model_end *pal_meter_finish(pal_meter *meter, const pal_http_end *http);
/* The text of the answer so far, or its beginning where it is very long; returns the length of all
 * of it. Valid until more is fed, or the meter is freed. */
uint64_t pal_meter_said(const pal_meter *meter, pal_str *out_text);

/* Takes keys out of a text that will be shown. */
void pal_provider_redact(const pal_provider *provider, pal_buf *text);

#endif
