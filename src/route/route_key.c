/* route_key.c - session keys: opaque keys, which are hashes, and legacy keys, which are
 * readable. */
#include "base/digest.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "route/route_text.h"

#define OPAQUE "sk_v1_"
#define LEGACY "agent:"

pal_str pal_route_key_hash(pal_arena *arena, pal_str text)
{
    uint8_t digest[PAL_SHA256_SIZE];
    size_t prefix = sizeof OPAQUE - 1;
    char *key = pal_arena_alloc(arena, prefix + 2 * sizeof digest + 1);
    if (!key || pal_sha256(text, digest) != PAL_OK)
        return pal_str_make(NULL, 0);
    memcpy(key, OPAQUE, prefix);
    pal_hex(digest, sizeof digest, key + prefix);
    return pal_str_make(key, prefix + 2 * sizeof digest);
}

pal_status pal_route_key_from_alias(
        pal_str alias, pal_arena *arena, pal_str *out_key, pal_error *err)
{
    if (!pal_utf8_is_valid(alias))
        return pal_error_set(err, PAL_INVALID, "the alias is not valid UTF-8");
    pal_str text = pal_route_lower(arena, pal_unicode_trim(alias));
    pal_str key = {0};
    if (text.len)
        key = pal_route_key_hash(arena, text);
    pal_status failure = pal_arena_failure(arena);
    if (failure)
        return pal_error_set(err, failure, "out of memory");
    *out_key = key;
    return PAL_OK;
}

/* Returns whether the text in lower case begins with the prefix. A prefix has six bytes, and a
 * letter at most four, so the first 24 bytes of the text decide. */
static bool begins(pal_str text, const char *prefix)
{
    char lower[PAL_UNICODE_LOWER_SIZE(24)];
    size_t prefix_len = strlen(prefix);
    size_t len = pal_unicode_lower(pal_str_make(text.data, pal_utf8_cut(text, 24)), lower);
    return len >= prefix_len && memcmp(lower, prefix, prefix_len) == 0;
}

bool pal_route_key_is_explicit(pal_str key)
{
    if (!pal_utf8_is_valid(key))
        return false;
    pal_str trimmed = pal_unicode_trim(key);
    return begins(trimmed, OPAQUE) || begins(trimmed, LEGACY);
}

bool pal_route_key_split(pal_str key, pal_str *out_agent, pal_str *out_rest)
{
    if (!pal_utf8_is_valid(key))
        return false;
    pal_str text = pal_unicode_trim(key);
    size_t prefix = sizeof LEGACY - 1;
    if (text.len < prefix || memcmp(text.data, LEGACY, prefix) != 0)
        return false;
    text = pal_str_make(text.data + prefix, text.len - prefix);
    const char *colon = text.len ? memchr(text.data, ':', text.len) : NULL;
    if (!colon)
        return false;
    pal_str agent = pal_unicode_trim(pal_str_make(text.data, (size_t)(colon - text.data)));
    pal_str rest = pal_str_make(colon + 1, text.len - 1 - (size_t)(colon - text.data));
    if (agent.len == 0 || rest.len == 0)
        return false;
    *out_agent = agent;
    *out_rest = rest;
    return true;
}
