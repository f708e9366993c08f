/* oauth_metadata.c - where metadata is, and the metadata of an authorization server. Pure. */
#include <string.h>

#include "base/text.h"
#include "tool/oauth/oauth_internal.h"

#define RESOURCE_NAME "oauth-protected-resource"
#define ISSUER_NAME "oauth-authorization-server"
#define OPENID_NAME "openid-configuration"

/* ---- Places ---- */

/* Returns "ORIGIN[BEFORE]/.well-known/NAME[AFTER]", in the arena. */
static pal_str place(
        pal_str origin, pal_str before, const char *name, pal_str after, pal_arena *arena)
{
    pal_buf url;
    pal_buf_init(&url, 2 * PAL_OAUTH_URL_LEN_MAX);
    pal_buf_append_str(&url, origin);
    pal_buf_append_str(&url, before);
    pal_buf_append_text(&url, "/.well-known/");
    pal_buf_append_text(&url, name);
    pal_buf_append_str(&url, after);
    pal_str copy = url.failure ? (pal_str){0} : pal_arena_copy(arena, pal_buf_str(&url));
    pal_buf_done(&url);
    return copy;
}

/* Returns the path without a final '/'. */
static pal_str path_of(const pal_oauth_url *url)
{
    pal_str path = url->path;
    if (path.len && path.data[path.len - 1] == '/')
        path.len--;
    return path;
}

pal_str pal_oauth_resource_place(pal_str url, size_t index, pal_arena *arena)
{
    pal_oauth_url parts;
    const pal_str none = {0};
    if (!pal_oauth_url_read(url, &parts))
        return none;
    pal_str path = path_of(&parts);
    if (!path.len) /* only the root */
        index++;
    if (index == 0)
        return place(parts.origin, none, RESOURCE_NAME, path, arena);
    return index == 1 ? place(parts.origin, none, RESOURCE_NAME, none, arena) : none;
}

pal_str pal_oauth_issuer_place(pal_str issuer, size_t index, pal_arena *arena)
{
    pal_oauth_url parts;
    const pal_str none = {0};
    if (!pal_oauth_url_read(issuer, &parts))
        return none;
    pal_str path = path_of(&parts);
    if (index == 0)
        return place(parts.origin, none, ISSUER_NAME, path, arena);
    if (index == 1)
        return place(parts.origin, none, OPENID_NAME, path, arena);
    return index == 2 && path.len ? place(parts.origin, path, OPENID_NAME, none, arena) : none;
}

pal_status pal_oauth_check_url(const char *what, pal_str url, bool allow_local, pal_error *err)
{
    pal_oauth_url parts;
    if (pal_oauth_url_read(url, &parts) &&
            (parts.is_https || (allow_local && pal_oauth_url_is_local(&parts))))
        return PAL_OK;
    return pal_error_set(err, PAL_DENIED, "%s '%.*s' is not an https URL", what,
            PAL_EXCERPT(url, 100));
}

/* ---- Authorization servers ---- */

static const char *const method_names[] = {
        "none", "client_secret_basic", "client_secret_post", "private_key_jwt"};
#define METHODS (sizeof method_names / sizeof *method_names)

const char *pal_oauth_method_name(pal_oauth_method method)
{
    return method_names[method];
}

bool pal_oauth_method_read(pal_str name, pal_oauth_method *out_method)
{
    for (size_t i = 0; i < METHODS; i++) {
        if (pal_str_is(name, method_names[i])) {
            *out_method = (pal_oauth_method)i;
            return true;
        }
    }
    return false;
}

static unsigned read_methods(pal_json list, pal_arena *arena)
{
    unsigned methods = 0;
    pal_oauth_method method;
    pal_json one;
    for (pal_json_iter each = pal_json_each(list); pal_json_next(&each, NULL, &one);) {
        if (pal_oauth_method_read(pal_json_string(one, arena), &method))
            methods |= 1u << method;
    }
    return methods;
}

static bool list_contains(pal_json list, const char *text)
{
    pal_json one;
    for (pal_json_iter each = pal_json_each(list); pal_json_next(&each, NULL, &one);) {
        if (pal_json_string_is(one, text))
            return true;
    }
    return false;
}

static pal_str text_of(pal_json json, const char *name, pal_arena *arena)
{
    return pal_arena_copy(arena, pal_json_string(pal_json_find(json, name), arena));
}

/* Reads the URL of an endpoint, which may be missing. */
static pal_status read_endpoint(pal_json json, const char *name, bool allow_local,
        pal_arena *arena, pal_str *out_url, pal_error *err)
{
    *out_url = text_of(json, name, arena);
    return out_url->len ? pal_oauth_check_url(name, *out_url, allow_local, err) : PAL_OK;
}

pal_status pal_oauth_issuer_read(pal_json json, pal_str issuer, bool allow_local,
        pal_arena *arena, pal_oauth_issuer *out_issuer, pal_error *err)
{
    pal_oauth_issuer read = {.issuer = text_of(json, "issuer", arena)};
    /* Not normalized: another spelling can belong to another server (RFC 8414, section 3.3). */
    if (!pal_str_equal(read.issuer, issuer))
        return pal_error_set(err, PAL_DENIED,
                "the metadata of authorization server '%.*s' names another issuer, '%.*s'",
                PAL_EXCERPT(issuer, 80), PAL_EXCERPT(read.issuer, 80));
    pal_status status = read_endpoint(json, "authorization_endpoint", allow_local, arena,
            &read.authorization_endpoint, err);
    if (status == PAL_OK)
        status = read_endpoint(
                json, "token_endpoint", allow_local, arena, &read.token_endpoint, err);
    if (status == PAL_OK)
        status = read_endpoint(json, "registration_endpoint", allow_local, arena,
                &read.registration_endpoint, err);
    if (status != PAL_OK)
        return status;
    if (!read.token_endpoint.len)
        return pal_error_set(err, PAL_INVALID, "authorization server '%.*s' has no token endpoint",
                PAL_EXCERPT(issuer, 100));
    read.scopes = pal_oauth_scope_of_list(pal_json_find(json, "scopes_supported"), arena);
    read.methods =
            read_methods(pal_json_find(json, "token_endpoint_auth_methods_supported"), arena);
    read.has_pkce = list_contains(pal_json_find(json, "code_challenge_methods_supported"), "S256");
    read.takes_proofs =
            list_contains(pal_json_find(json, "dpop_signing_alg_values_supported"), "ES256");
    (void)pal_json_bool(
            pal_json_find(json, "authorization_response_iss_parameter_supported"), &read.has_iss);
    (void)pal_json_bool(
            pal_json_find(json, "client_id_metadata_document_supported"), &read.takes_documents);
    *out_issuer = read;
    return PAL_OK;
}

static pal_str join(pal_str origin, const char *path, pal_arena *arena)
{
    pal_buf url;
    pal_buf_init(&url, 2 * PAL_OAUTH_URL_LEN_MAX);
    pal_buf_append_str(&url, origin);
    pal_buf_append_text(&url, path);
    pal_str copy = url.failure ? (pal_str){0} : pal_arena_copy(arena, pal_buf_str(&url));
    pal_buf_done(&url);
    return copy;
}

void pal_oauth_issuer_default(pal_str url, pal_arena *arena, pal_oauth_issuer *out_issuer)
{
    pal_oauth_url parts = {0};
    (void)pal_oauth_url_read(url, &parts);
    *out_issuer = (pal_oauth_issuer){
            .issuer = pal_arena_copy(arena, parts.origin),
            .authorization_endpoint = join(parts.origin, "/authorize", arena),
            .token_endpoint = join(parts.origin, "/token", arena),
            .registration_endpoint = join(parts.origin, "/register", arena),
            .takes_proofs = true,
            .has_pkce = true,
    };
}
