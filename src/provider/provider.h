/* provider.h - the interface to all model services: a request, and a sink for the answer. A
 * provider knows nothing about sessions. All functions must be called on the loop, and all
 * callbacks run on it. */
#ifndef PAL_PROVIDER_H
#define PAL_PROVIDER_H

#include "base/buf.h"
#include "net/net_http.h"
#include "palaver/context.h"
#include "palaver/message.h"
#include "palaver/retry.h"
#include "palaver/turn.h"

/* A request. It must stay valid only until pal_provider_start() returns. */
typedef struct pal_model_request {
    pal_str model;
    const pal_message *messages; /* valid for the provider's profile; system messages first; the
                                    content of images and files is in `data` */
    size_t messages_len;
    size_t stable_len; /* number of messages that the next request will also begin with */
    const pal_tool *tools;
    size_t tools_len;
    bool tools_checked;  /* the schemas are known to be JSON, and are not parsed again */
    pal_str tool_choice; /* JSON in OpenAI's format; may be empty */
    pal_str parameters;  /* a JSON object whose members are added to the body of the request; may be
                            empty */
    uint64_t output_max; /* maximum tokens of the answer; 0: the service's default */
    bool stream;
    pal_str conversation; /* a stable name for caches. If the service keeps the conversation: its id
                             of the conversation, or empty to begin a new one */
    int64_t timeout_ms;   /* timeout of the whole call; 0: none */
    pal_str secret;       /* the tenant's secret, with which the id of the prefix is made; empty: no
                             such id is sent */
    uint32_t slot;        /* set by the provider: the number of a slot, from 1; 0: none */
    pal_str items_request; /* members of a request of OpenAI's Responses, as a JSON object; used in
                              place of tool_choice and parameters, if the service has that API.
                              Empty: another API is used */
    bool is_aside;        /* a question outside the conversation, which the service must not keep */
} pal_model_request;

/* The result of a call. The texts are valid during `end` only. */
typedef struct pal_model_end {
    pal_status status; /* PAL_OK; PAL_PROVIDER: the service responded with an error or with an
                          invalid response; PAL_IO; PAL_TIMEOUT; PAL_INVALID: the request cannot be
                          sent */
    pal_finish finish;
    bool has_usage;
    pal_usage usage;    /* total of the call. Streams report it cumulatively; it is counted once */
    pal_str model;      /* the name that the service reports */
    pal_str request_id; /* the service's id of the request */
    pal_str conversation; /* id of the conversation that the service keeps; empty: it keeps none */
    bool is_stale;        /* the conversation cannot be continued; begin a new one */
    long code;            /* HTTP status; 0: none */
    pal_str error;        /* the message of the service, or what failed */
    pal_str error_code; /* for example "context_length_exceeded"; empty if the service gave none */
    bool is_overflow;   /* the request was too long for the model */
    bool is_retryable;
    int64_t retry_after_ms; /* the delay that the service requested; -1: none */
    bool is_unreachable;    /* there is probably no such server (pal_http_end.unreachable), and the
                               service was never reached */
} pal_model_end;

/* Receives the answer in order, as it arrives. `end` is called once, last, and not after a cancel.
 * All other functions can be called many times. `index` numbers the tool calls of the answer from
 * 0. */
typedef struct pal_model_sink {
    void (*text)(void *user, pal_str delta);
    void (*reasoning)(void *user, pal_str delta);
    /* The signature of the reasoning since the last signature; that reasoning is now complete. If
     * there was none since, it is a block that is completely opaque, as JSON. A part's `signature`
     * holds either. */
    void (*signature)(void *user, pal_str signature, pal_str family);
    void (*call)(void *user, uint32_t index, pal_str id, pal_str name);
    void (*arguments)(void *user, uint32_t index, pal_str delta);
    void (*end)(void *user, const pal_model_end *end);
    void (*refusal)(void *user, pal_str delta); /* NULL: reported as text */
    void (*summary)(void *user,
            pal_str delta); /* part of a summary of reasoning; NULL: reported as reasoning */
    /* A complete item of OpenAI's Responses, as JSON. The deltas since the last item are its texts.
     * `parts` is the number of parts that it has in a message. NULL: not reported */
    void (*item)(void *user, pal_str json, size_t parts);
    /* An event about the next item, as JSON. The item is of a type that has no deltas, such as
     * web_search_call. The first event is its response.output_item.added. NULL: not reported */
    void (*progress)(void *user, pal_str json);
} pal_model_sink;

typedef struct pal_provider pal_provider;
typedef struct pal_model_call pal_model_call;

typedef struct pal_provider_config {
    pal_str name; /* the name of the endpoint; unique */
    pal_str kind; /* one of pal_provider_info_at(), for example "openai" */
    pal_str url;  /* for example "https://api.openai.com/v1"; if empty, the usual URL of the kind */
    pal_str api_key;                /* may be empty */
    const pal_header *headers; /* additional headers */
    size_t headers_len;
    pal_str path; /* kind "script" only: the file with the recorded answers */
    int64_t connect_ms;
    int64_t idle_ms;
    int64_t models_ms; /* timeout of the request for the list of models; 0: 30000 */
    pal_endpoint_responses responses; /* whether the service has OpenAI's Responses API */
    pal_endpoint_affinity affinity;   /* these three members are those of pal_endpoint */
    const pal_str *affinity_headers;
    size_t affinity_headers_len;
} pal_provider_config;

/* Opens a provider. Everything is copied. `http` must outlive it. PAL_INVALID: `err` says what is
 * wrong. */
PAL_CHECKED pal_status pal_provider_open(pal_http *http, pal_loop *loop,
        const pal_provider_config *config, pal_provider **out_provider, pal_error *err);
void pal_provider_close(pal_provider *provider); /* no call may be running; accepts NULL */

pal_str pal_provider_name(const pal_provider *provider);
pal_profile pal_provider_profile(const pal_provider *provider);
/* Returns the family whose reasoning this model accepts; empty: none. */
pal_str pal_provider_family(const pal_provider *provider, pal_str model);

/* Returns true if the service keeps conversations and receives only new messages. */
bool pal_provider_keeps(const pal_provider *provider);

/* Starts a call. `end` is never called before this function returns. If it fails, no callback is
 * made. */
PAL_CHECKED pal_status pal_provider_start(pal_provider *provider, const pal_model_request *request,
        const pal_model_sink *sink, void *user, pal_model_call **out_call, pal_error *err);
/* Cancels a call. No callback is made after this. The connection is closed at once. */
void pal_provider_cancel(pal_model_call *call);

/* Called once with the models that the service lists, as a JSON array of names; or with an empty
 * text and an error. The provider can be closed in the callback. */
typedef void (*pal_provider_on_models)(void *user, pal_str json, const pal_error *err);
PAL_CHECKED pal_status pal_provider_models(
        pal_provider *provider, pal_provider_on_models on_models, void *user, pal_error *err);

/* ---- Forwarded requests: provider_forward.c ---- */

/* Return true if the service accepts chat completions in OpenAI's format, messages in Anthropic's,
 * or responses in OpenAI's. */
bool pal_provider_speaks_chat(const pal_provider *provider);
bool pal_provider_speaks_messages(const pal_provider *provider);
bool pal_provider_speaks_responses(const pal_provider *provider);
/* Returns true if the request is sent as one of OpenAI's Responses. */
bool pal_provider_sends_items(const pal_provider *provider, const pal_model_request *request);
/* Returns true if a stream of the service reports its usage only if the request's stream_options
 * ask for it. */
bool pal_provider_hides_usage(const pal_provider *provider);
/* A request to forward. It must stay valid only until pal_provider_forward() returns. */
typedef struct pal_provider_forwarded {
    pal_str path; /* appended to the service's URL */
    pal_str body; /* sent unchanged */
    const pal_header *headers; /* replace the service's headers with the same names, except for
                                       those that carry its key */
    size_t headers_len;             /* up to PAL_FORWARD_HEADERS_MAX */
    pal_str conversation; /* the id for headers of affinity; may be empty */
} pal_provider_forwarded;

#define PAL_FORWARD_HEADERS_MAX 8
#define PAL_AFFINITY_HEADERS_MAX 8
#define PAL_AFFINITY_ID_BYTES 16 /* an id has twice as many hex digits */

/* Sends a request. The response is reported unchanged. The call must be over before the provider is
 * closed. PAL_INVALID: a header is invalid or there are too many. */
PAL_CHECKED pal_status pal_provider_forward(pal_provider *provider,
        const pal_provider_forwarded *forwarded, const pal_http_events *events, void *user,
        pal_http_call **out_call, pal_error *err);

/* ---- The usage of forwarded responses: provider_meter.c ---- */

/* Reads a forwarded response for its model and usage, and keeps only one event of a stream at a
 * time. pal_meter_new() returns NULL if there is no memory. The service must accept requests of
 * that API. */
typedef struct pal_meter pal_meter;
pal_meter *pal_meter_new(pal_provider *provider, pal_forward_api api);
void pal_meter_free(pal_meter *meter); /* accepts NULL */
void pal_meter_head(pal_meter *meter, const pal_http_head *head);
void pal_meter_feed(pal_meter *meter, pal_str bytes);
/* Call it once, before the provider is closed. `http` says how the call ended; NULL: we ended it.
 * The result is valid until the meter is freed. If a stream broke off, it includes what was
 * reported until then. */
const pal_model_end *pal_meter_finish(pal_meter *meter, const pal_http_end *http);
/* Whether pal_meter_finish() would block the loop for long. Then call pal_meter_finish_apart() on a
 * worker instead. */
bool pal_meter_is_long(const pal_meter *meter);
/* Like pal_meter_finish(), on any thread, while no other thread uses the meter. Does not use the
 * provider. */
const pal_model_end *pal_meter_finish_apart(pal_meter *meter, const pal_http_end *http);
/* Returns the length of the answer so far. *out_text is its text, or the beginning of a very long
 * one. Valid until more is fed or the meter is freed. */
uint64_t pal_meter_said(const pal_meter *meter, pal_str *out_text);

/* Removes keys from a text that will be shown. */
void pal_provider_redact(const pal_provider *provider, pal_buf *text);

#endif
