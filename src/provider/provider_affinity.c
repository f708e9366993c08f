/* provider_affinity.c - shows a service, or the router in front of it, which requests belong
 * together, so that they reach the server that has their beginning in its cache. docs/affinity.md
 * describes the ids and the settings. On the loop. */
#include "base/digest.h"
#include "base/memory.h"
#include "base/text.h"
#include "provider/provider_kind.h"

#define ID_SIZE (2 * PAL_AFFINITY_ID_BYTES + 1)

static const char *const default_names[] = {"x-session-id", "x-session-affinity"};
static const char prefix_name[] = "x-prefix-id";

/* ---- Settings ---- */

/* Services at their usual URL need no headers. */
static pal_endpoint_affinity choose(const pal_provider *provider)
{
    const pal_provider_info *info = &provider->kind->info;
    if (!pal_str_is(provider->url, info->url))
        return PAL_AFFINITY_HEADERS;
    return provider->kind->has_cache_key ? PAL_AFFINITY_PROMPT_CACHE_KEY : PAL_AFFINITY_OFF;
}

static pal_status take_names(
        pal_provider *provider, const pal_provider_config *config, pal_error *err)
{
    size_t len = sizeof default_names / sizeof *default_names;
    if (config->affinity_headers_len > PAL_AFFINITY_HEADERS_MAX)
        return pal_error_set(err, PAL_INVALID,
                "'affinity_headers' of provider '%.*s' has more than %d names",
                PAL_STR_ARG(provider->name), PAL_AFFINITY_HEADERS_MAX);
    for (size_t i = 0; i < len && !config->affinity_headers_len; i++)
        provider->affinity_names[provider->affinity_len++] = pal_str_of(default_names[i]);
    for (size_t i = 0; i < config->affinity_headers_len; i++) {
        pal_str name = config->affinity_headers[i];
        if (!pal_text_is_token(name))
            return pal_error_set(err, PAL_INVALID,
                    "'affinity_headers' of provider '%.*s' contains '%.*s', which is not the name "
                    "of a header",
                    PAL_STR_ARG(provider->name), PAL_EXCERPT(name, 80));
        provider->affinity_names[provider->affinity_len++] = pal_arena_copy(provider->kept, name);
    }
    return PAL_OK;
}

pal_status pal_affinity_open(
        pal_provider *provider, const pal_provider_config *config, pal_error *err)
{
    const pal_provider_kind *kind = provider->kind;
    provider->affinity = PAL_AFFINITY_OFF;
    if (!kind->info.url || kind->info.keeps_conversations)
        return PAL_OK;
    if (config->affinity >= PAL_AFFINITY_PROMPT_CACHE_KEY && !kind->has_cache_key)
        return pal_error_set(err, PAL_INVALID,
                "'affinity' of provider '%.*s' must be auto, off or headers for kind '%s'",
                PAL_STR_ARG(provider->name), kind->info.kind);
    provider->affinity =
            config->affinity == PAL_AFFINITY_AUTO ? choose(provider) : config->affinity;
    pal_status status = take_names(provider, config, err);
    if (status == PAL_OK && provider->affinity == PAL_AFFINITY_LLAMA_CPP)
        pal_slots_refresh(provider);
    return status;
}

/* ---- Ids ---- */

static void add_text(pal_buf *buf, pal_str text)
{
    pal_buf_append_u64(buf, text.len);
    pal_buf_append_char(buf, ':');
    pal_buf_append_str(buf, text);
}

/* Everything that requests with the same instructions and tools begin with. Each text is preceded
 * by its length, so that different requests never have the same bytes. */
static void put_prefix(const pal_model_request *request, pal_buf *out)
{
    add_text(out, request->model);
    for (size_t i = 0; i < request->tools_len; i++) {
        add_text(out, request->tools[i].name);
        add_text(out, request->tools[i].description);
        add_text(out, request->tools[i].schema);
    }
    for (size_t i = 0; i < request->messages_len; i++) {
        const pal_message *message = &request->messages[i];
        if (message->role != PAL_ROLE_SYSTEM)
            break;
        for (size_t k = 0; k < message->parts_len; k++)
            add_text(out, message->parts[k].text);
    }
}

/* Returns the id in the arena; empty if there is no secret or no memory. */
static pal_str prefix_id(const pal_model_request *request, pal_arena *arena)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char *text = pal_arena_alloc(arena, ID_SIZE);
    pal_buf buf;
    if (!request->secret.len || !text)
        return (pal_str){0};
    pal_buf_init(&buf, PAL_PROVIDER_REQUEST_BYTES_MAX);
    put_prefix(request, &buf);
    bool is_made = !buf.failure &&
            pal_hmac_sha256(request->secret, pal_buf_str(&buf), digest) == PAL_OK;
    pal_buf_done(&buf);
    if (!is_made)
        return (pal_str){0};
    pal_hex(digest, PAL_AFFINITY_ID_BYTES, text);
    return pal_str_of(text);
}

/* ---- Headers ---- */

static bool has_header(const pal_header *headers, size_t len, pal_str name)
{
    for (size_t i = 0; i < len; i++) {
        if (pal_text_equal_nocase(headers[i].name, name))
            return true;
    }
    return false;
}

/* A configured header, or one of the client, is not replaced. */
static void add(pal_header *headers, size_t *len, pal_str name, pal_str value)
{
    if (value.len && !has_header(headers, *len, name))
        headers[(*len)++] = (pal_header){name, value};
}

size_t pal_affinity_put(const pal_provider *provider, pal_str conversation,
        const pal_model_request *request, pal_arena *arena, pal_header *headers, size_t len)
{
    if (provider->affinity != PAL_AFFINITY_HEADERS && provider->affinity != PAL_AFFINITY_LLAMA_CPP)
        return len;
    for (size_t i = 0; i < provider->affinity_len; i++)
        add(headers, &len, provider->affinity_names[i], conversation);
    if (request)
        add(headers, &len, pal_str_of(prefix_name), prefix_id(request, arena));
    return len;
}
