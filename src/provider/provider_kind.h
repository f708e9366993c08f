/* provider_kind.h - what the kinds of providers are made of. Only for the provider_*.c files.
 *
 * Most kinds are a way to write a request and a way to read an answer, over HTTP
 * (provider_http.c). Those without a network play steps (provider_play.c). All on the loop. */
#ifndef PAL_PROVIDER_KIND_H
#define PAL_PROVIDER_KIND_H

#include "base/buf.h"
#include "provider/provider.h"
#include "provider/provider_reader.h"

typedef struct pal_play_step pal_play_step;
typedef struct pal_script pal_script;

typedef enum pal_provider_auth {
    PAL_AUTH_BEARER = 0,    /* authorization: Bearer KEY */
    PAL_AUTH_ANTHROPIC = 1, /* x-api-key: KEY, and a version */
} pal_provider_auth;

typedef struct pal_provider_kind {
    const char *name;
    const char *url; /* its own; NULL: none, and no network */
    pal_profile profile;
    const char *family; /* whose reasoning it takes back; NULL: nobody's */
    pal_provider_auth auth;

    /* Over HTTP: the path behind the URL, and the body. PAL_INVALID names what can't be sent. */
    pal_status (*write)(const pal_provider *provider, const pal_model_request *request,
            pal_buf *out_path, pal_buf *out_body, pal_error *err);
    const pal_reader_kind *reader;
    /* Whether a failure means that the service's own conversation is lost; NULL: it keeps none. */
    bool (*is_stale)(const pal_model_end *end);

    /* Without: NULL where `write` is not. `open` may be NULL too. */
    pal_status (*open)(pal_provider *provider, const pal_provider_config *config, pal_error *err);
    pal_status (*start)(pal_provider *provider, const pal_model_request *request,
            const pal_model_sink *sink, void *user, pal_model_call **out_call, pal_error *err);
} pal_provider_kind;

extern const pal_provider_kind pal_provider_openai;
extern const pal_provider_kind pal_provider_mistral;
extern const pal_provider_kind pal_provider_anthropic;
extern const pal_provider_kind pal_provider_mistral_conversations;
extern const pal_provider_kind pal_provider_echo;
extern const pal_provider_kind pal_provider_script;

typedef struct pal_models_query pal_models_query;

struct pal_provider {
    const pal_provider_kind *kind;
    pal_http *http;
    pal_loop *loop;
    pal_arena *kept;    /* of all that is copied here */
    pal_arena *scratch; /* of the event that is being read */
    pal_str name;
    pal_str url;              /* without a slash at its end */
    pal_http_header *headers; /* all that are sent */
    size_t headers_len;
    pal_str *secrets; /* that no text may show */
    size_t secrets_len;
    int64_t connect_ms;
    int64_t idle_ms;
    pal_model_call *calls;
    pal_models_query *queries;
    pal_script *script; /* in `kept` */
    bool was_reached;   /* a call got through to the service since it was opened */
};

/* Every kind's own struct begins with this one. */
struct pal_model_call {
    pal_provider *provider;
    pal_model_call *previous, *next;
    void (*cancel)(pal_model_call *call);
};

void pal_model_call_list(pal_provider *provider, pal_model_call *call);
void pal_model_call_unlist(pal_model_call *call);

/* ---- provider_http.c ---- */

PAL_CHECKED pal_status pal_provider_http_start(pal_provider *provider,
        const pal_model_request *request, const pal_model_sink *sink, void *user,
        pal_model_call **out_call, pal_error *err);

/* ---- provider_models.c ---- */

void pal_models_query_cancel_all(pal_provider *provider);
/* The names in a list of models, as a JSON array; false where it is no such list. */
bool pal_models_read(pal_str body, pal_arena *scratch, pal_buf *out_json);

/* ---- What the writers of requests share: provider_request.c ---- */

/* The members of the caller's parameters but those in `own`, which ends with NULL. */
PAL_CHECKED pal_status pal_request_put_parameters(pal_json_writer *writer,
        const pal_model_request *request, const char *const *own, pal_error *err);
/* Finds a member of the parameters; PAL_JSON_NONE where there is none. In the arena. */
pal_json pal_request_parameter(
        const pal_model_request *request, const char *name, pal_arena *arena);
/* The tools as chat completions have them, with their choice. */
PAL_CHECKED pal_status pal_request_put_tools(
        pal_json_writer *writer, const pal_model_request *request, pal_error *err);
/* A schema as it goes out: an empty one is that of no arguments. PAL_INVALID where it is no JSON.
 */
PAL_CHECKED pal_status pal_request_put_schema(
        pal_json_writer *writer, const pal_tool *tool, pal_error *err);
/* PAL_INVALID where it is no JSON; NULL err is allowed. */
PAL_CHECKED pal_status pal_request_check_json(pal_str json, const char *what, pal_error *err);

#endif
