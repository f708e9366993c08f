/* provider_info.h - the kinds of model services that Palaver can call. The list is part of the
 * library and never changes while a program runs, so any thread can read it. */
#ifndef PALAVER_PROVIDER_INFO_H
#define PALAVER_PROVIDER_INFO_H

#include <stdint.h>
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/context.h"
#include "palaver/str.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One kind of model service. */
typedef struct pal_provider_info {
    const char *kind;         /* the value of pal_endpoint.kind, for example "openai" */
    const char *url;          /* the usual URL; its path is added to a configured URL without one.
                                 NULL: the kind uses no network */
    const char *key_variable; /* environment variable that usually contains the API key; NULL: the
                                 kind has no key */
    const char *url_variable; /* environment variable that can contain another URL; NULL: none */
    const char *model; /* the default model of a service that is found by its key; NULL: services of
                          this kind are not searched for */
    pal_profile profile;      /* the rules for valid messages */
    bool has_clones;          /* other services have the same API, but other models */
    bool keeps_conversations; /* the service stores the messages and receives only new ones */
    bool needs_path;          /* an endpoint must have a `path` */
    PAL_RESERVED(4);
} pal_provider_info;

/* Returns the kind at `index`, which counts from 0; NULL after the last one. */
PAL_API const pal_provider_info *pal_provider_info_at(size_t index);
/* Returns NULL if there is no such kind. */
PAL_API const pal_provider_info *pal_provider_info_find(pal_str kind);

/* A service that has the API of one of the kinds. Its name can be used in place of a kind. */
typedef struct pal_provider_service {
    const char *name;         /* for example "ollama" */
    const char *kind;         /* "openai" */
    const char *url;          /* its usual URL */
    const char *key_variable; /* environment variable with the API key; NULL: it needs no key */
    const char *url_variable; /* environment variable with its address; NULL: none */
    const char *model;        /* the default model; NULL: the first one that it lists */
    PAL_RESERVED(4);
} pal_provider_service;

/* Returns the service at `index`, which counts from 0; NULL after the last one. */
PAL_API const pal_provider_service *pal_provider_service_at(size_t index);
/* Returns NULL if there is no such service. */
PAL_API const pal_provider_service *pal_provider_service_find(pal_str name);
/* Returns the URL of the service. `address` is the value of its variable; if it is empty, the usual
 * URL is returned. A new text is in the arena; empty if that has no memory. */
PAL_API pal_str pal_provider_service_url(
        const pal_provider_service *service, pal_str address, pal_arena *arena);

#ifdef __cplusplus
}
#endif
#endif
