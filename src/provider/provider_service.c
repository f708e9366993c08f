/* provider_service.c - services that have the API of one of the kinds, and are known by name: those
 * with a key in the environment, and servers on this machine. */
#include <string.h>
#include "base/text.h"
#include "palaver/provider_info.h"

/* Services with a key come first, because they are preferred if they are found. */
static const pal_provider_service services[] = {
        {.name = "openrouter",
                .kind = "openai",
                .url = "https://openrouter.ai/api/v1",
                .key_variable = "OPENROUTER_API_KEY",
                .model = "openrouter/auto"},
        {.name = "groq",
                .kind = "openai",
                .url = "https://api.groq.com/openai/v1",
                .key_variable = "GROQ_API_KEY",
                .model = "llama-3.3-70b-versatile"},
        {.name = "ollama",
                .kind = "openai",
                .url = "http://127.0.0.1:11434",
                .url_variable = "OLLAMA_HOST"},
        {.name = "llama.cpp", .kind = "openai", .url = "http://127.0.0.1:8080/v1"},
};

const pal_provider_service *pal_provider_service_at(size_t index)
{
    return index < sizeof services / sizeof *services ? &services[index] : NULL;
}

const pal_provider_service *pal_provider_service_find(pal_str name)
{
    for (size_t i = 0; i < sizeof services / sizeof *services; i++) {
        if (pal_str_is(name, services[i].name))
            return &services[i];
    }
    return NULL;
}

static pal_str joined(pal_arena *arena, pal_str a, pal_str b, pal_str c)
{
    const pal_str pieces[] = {a, b, c};
    size_t len = 0;
    char *data = pal_arena_alloc(arena, a.len + b.len + c.len + 1);
    if (!data)
        return pal_str_make(NULL, 0);
    for (size_t i = 0; i < 3; i++) {
        if (pieces[i].len)
            memcpy(data + len, pieces[i].data, pieces[i].len);
        len += pieces[i].len;
    }
    return pal_str_make(data, len);
}

/* Ollama's environment variable contains its listen address: "0.0.0.0", ":11434", "host:port" or a
 * URL. */
static pal_str ollama_url(pal_str host, pal_arena *arena)
{
    static const char any[] = "0.0.0.0";
    const size_t any_len = sizeof any - 1;
    pal_str http = pal_str_of("http://"), port = {0}, here = {0};
    if (pal_text_is_http_url(host))
        return host;
    if (pal_text_begins(host, any)) {
        here = pal_str_of("127.0.0.1");
        host = pal_str_make(host.data + any_len, host.len - any_len);
    } else if (host.data[0] == ':') {
        here = pal_str_of("127.0.0.1");
    }
    if (host.len == 0 || !memchr(host.data, ':', host.len))
        port = pal_str_of(":11434");
    return joined(arena, http, joined(arena, here, host, port), pal_str_make(NULL, 0));
}

pal_str pal_provider_service_url(
        const pal_provider_service *service, pal_str address, pal_arena *arena)
{
    return address.len ? ollama_url(address, arena) : pal_str_of(service->url);
}
