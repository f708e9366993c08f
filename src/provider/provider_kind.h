/* provider_kind.h - the definition of a kind of provider. For the provider_*.c files only.
 *
 * A kind is one constant, in its own file, and one line in PAL_PROVIDER_KINDS. The configuration,
 * the discovery, the command and the error messages read everything else from the constant. Most
 * kinds have one function that writes a request and one that reads an answer, and use HTTP
 * (provider_http.c). Kinds without a network replay steps (provider_play.c). Everything runs on the
 * loop. docs/write-a-provider.md explains how to write one. */
#ifndef PAL_PROVIDER_KIND_H
#define PAL_PROVIDER_KIND_H

#include "base/buf.h"
#include "palaver/provider_info.h"
#include "provider/provider.h"
#include "provider/provider_reader.h"

typedef struct pal_play_step pal_play_step;
typedef struct pal_script pal_script;

typedef struct pal_provider_kind {
    pal_provider_info info;
    const char *family;      /* the family whose reasoning it accepts; NULL: none */
    const char *key_header;  /* the header with the API key; NULL: authorization: Bearer KEY */
    const char *header[2];   /* name and value of another header of every request; may be NULL */
    const char *models_path; /* appended to the URL to list the models; NULL: "/models" */
    bool has_chat;     /* requests for OpenAI's chat completions can be forwarded to it */
    bool has_messages; /* requests for Anthropic's messages can be forwarded to it */
    bool has_cache_key; /* requests can have a prompt_cache_key, or name a slot of llama.cpp */
    bool hides_usage;  /* a stream reports usage only if stream_options ask for it */

    /* Kinds that use HTTP: writes the path, which is appended to the URL, and the body.
     * PAL_INVALID: `err` names what cannot be sent. */
    pal_status (*write)(const pal_provider *provider, const pal_model_request *request,
            pal_buf *out_path, pal_buf *out_body, pal_error *err);
    const pal_reader_kind *reader;
    const pal_reader_kind *counter; /* reads only the usage of a forwarded request; NULL unless
                                       has_chat or has_messages */
    const pal_reader_kind *responses_counter; /* the same for OpenAI's responses; NULL: no service
                                                 of this kind has them */
    const pal_reader_kind *responses_reader;  /* reads an answer of the Responses API; NULL unless
                                                 responses_counter is set */
    /* Returns true if a failure means that the service's conversation is lost. NULL unless
     * info.keeps_conversations. */
    bool (*is_stale)(const pal_model_end *end);

    /* Kinds without a network; NULL if `write` is set. `open` may be NULL as well. */
    pal_status (*open)(pal_provider *provider, const pal_provider_config *config, pal_error *err);
    pal_status (*start)(pal_provider *provider, const pal_model_request *request,
            const pal_model_sink *sink, void *user, pal_model_call **out_call, pal_error *err);
} pal_provider_kind;

/* All kinds, in the order in which messages list them. If several services have a key, the first
 * one is used by default. */
#define PAL_PROVIDER_KINDS(KIND) \
    KIND(openai)                 \
    KIND(anthropic)              \
    KIND(mistral)                \
    KIND(mistral_conversations)  \
    KIND(echo)                   \
    KIND(script)

#define PAL_PROVIDER_DECLARE(name) extern const pal_provider_kind pal_provider_##name;
PAL_PROVIDER_KINDS(PAL_PROVIDER_DECLARE)

typedef struct pal_models_query pal_models_query;
typedef struct pal_slots pal_slots; /* defined in provider_slots.c */

struct pal_provider {
    const pal_provider_kind *kind;
    pal_http *http;
    pal_loop *loop;
    pal_arena *kept;    /* holds everything that is copied */
    pal_arena *scratch; /* reset after each event */
    pal_str name;
    pal_str url;              /* without a slash at its end */
    pal_header *headers; /* all headers that are sent */
    size_t headers_len;
    pal_str *secrets; /* values that must not be shown in any text */
    size_t secrets_len;
    int64_t connect_ms;
    int64_t idle_ms;
    int64_t models_ms;
    pal_model_call *calls;
    pal_models_query *queries;
    pal_script *script; /* in the arena `kept` */
    bool has_responses; /* the service has OpenAI's Responses API */
    pal_endpoint_affinity affinity; /* AUTO has been resolved */
    pal_str affinity_names[PAL_AFFINITY_HEADERS_MAX]; /* headers with the session's id */
    size_t affinity_len;
    pal_slots *slots;   /* NULL unless LLAMA_CPP */
    bool was_reached;   /* a call reached the service since it was opened */
};

/* Must be the first member of the struct of every kind. */
struct pal_model_call {
    pal_provider *provider;
    pal_model_call *previous, *next;
    void (*cancel)(pal_model_call *call);
};

void pal_provider_call_add(pal_provider *provider, pal_model_call *call);
void pal_provider_call_remove(pal_model_call *call);

/* ---- provider_http.c ---- */

PAL_CHECKED pal_status pal_provider_http_start(pal_provider *provider,
        const pal_model_request *request, const pal_model_sink *sink, void *user,
        pal_model_call **out_call, pal_error *err);

/* ---- provider_responses_write.c ---- */

/* Writes a request of OpenAI's Responses, like pal_provider_kind.write. */
PAL_CHECKED pal_status pal_responses_write(const pal_provider *provider,
        const pal_model_request *request, pal_buf *out_path, pal_buf *out_body, pal_error *err);

/* ---- provider_affinity.c ---- */

/* Reads the settings. */
PAL_CHECKED pal_status pal_affinity_open(
        pal_provider *provider, const pal_provider_config *config, pal_error *err);
/* Adds up to PAL_AFFINITY_HEADERS_MAX + 1 headers to `headers`, which has `len`. Returns the new
 * number. `request` is NULL for a forwarded request, which has no id of the prefix. */
size_t pal_affinity_put(const pal_provider *provider, pal_str conversation,
        const pal_model_request *request, pal_arena *arena, pal_header *headers, size_t len);

/* ---- provider_slots.c ---- */

/* Asks the server for the number of its slots, unless it was asked recently. */
void pal_slots_refresh(pal_provider *provider);
void pal_slots_close(pal_provider *provider);
/* Returns the number of a slot for the conversation, from 1; 0: the server chooses. */
uint32_t pal_slots_take(pal_provider *provider, pal_str conversation);
void pal_slots_release(const pal_provider *provider, uint32_t number);

/* ---- provider_models.c ---- */

void pal_models_query_cancel_all(pal_provider *provider);
/* Writes the names in a list of models as a JSON array. Returns false if the body is not such a
 * list. */
bool pal_models_read(pal_str body, pal_arena *scratch, pal_buf *out_json);

/* ---- Functions that the writers of requests share: provider_request.c ---- */

/* Writes the members of the caller's parameters, except those in `own`, which ends with NULL. */
PAL_CHECKED pal_status pal_request_put_parameters(pal_json_writer *writer,
        const pal_model_request *request, const char *const *own, pal_error *err);
/* Finds a member of the parameters, or PAL_JSON_NONE. In the arena. */
pal_json pal_request_parameter(
        const pal_model_request *request, const char *name, pal_arena *arena);
/* Writes the request as an object whose members `put` writes. The arena is freed afterwards. */
typedef pal_status (*pal_request_put)(pal_json_writer *writer, const pal_model_request *request,
        pal_arena *arena, pal_error *err);
PAL_CHECKED pal_status pal_request_write(
        const pal_model_request *request, pal_request_put put, pal_buf *out_body, pal_error *err);
/* Writes the member "tools", an array whose elements `put` writes. Errors name the tool. */
typedef pal_status (*pal_request_put_tool)(pal_json_writer *writer,
        const pal_model_request *request, const pal_tool *tool, pal_error *err);
PAL_CHECKED pal_status pal_request_put_tool_list(pal_json_writer *writer,
        const pal_model_request *request, pal_request_put_tool put, pal_error *err);
/* Writes the tools and the tool choice in the format of chat completions. */
PAL_CHECKED pal_status pal_request_put_tools(
        pal_json_writer *writer, const pal_model_request *request, pal_error *err);
/* Writes the members of one tool: name, description, and its schema under the name `schema`. An
 * empty schema becomes one without arguments. PAL_INVALID: the schema is not JSON. */
PAL_CHECKED pal_status pal_request_put_function(pal_json_writer *writer,
        const pal_model_request *request, const pal_tool *tool, const char *schema, pal_error *err);
/* PAL_INVALID: the text is not JSON. `err` may be NULL. */
PAL_CHECKED pal_status pal_request_check_json(pal_str json, const char *what, pal_error *err);

#endif
