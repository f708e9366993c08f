/* oauth_token.c - requests to the authorization server: how the client identifies itself, responses
 * with tokens, and registrations. Texts of the server are not repeated in errors, except for its
 * short error code: they could contain secrets. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/sign/sign.h"
#include "base/text.h"
#include "dialect/dialect_base64.h"
#include "tool/oauth/oauth_internal.h"

#define ASSERTION_S 300 /* how long an assertion of the client is valid */
#define ASSERTION_BYTES_MAX (64u << 10)

/* ---- The client ---- */

pal_oauth_method pal_oauth_client_method(const pal_oauth_client *client, unsigned supported)
{
    if (client->key.len)
        return PAL_OAUTH_METHOD_KEY;
    if (!client->secret.len)
        return PAL_OAUTH_METHOD_NONE;
    /* RFC 8414: without a list, only client_secret_basic is supported. */
    if (supported && !(supported & 1u << PAL_OAUTH_METHOD_BASIC) &&
            (supported & 1u << PAL_OAUTH_METHOD_POST))
        return PAL_OAUTH_METHOD_POST;
    return PAL_OAUTH_METHOD_BASIC;
}

/* Returns "Basic ...", in the arena. */
static pal_str make_basic(const pal_oauth_client *client, pal_arena *arena)
{
    pal_buf pair, header;
    pal_buf_init(&pair, PAL_OAUTH_FILE_BYTES_MAX);
    pal_buf_init(&header, 2 * PAL_OAUTH_FILE_BYTES_MAX);
    pal_oauth_form_encode(&pair, client->id);
    pal_buf_append_char(&pair, ':');
    pal_oauth_form_encode(&pair, client->secret);
    pal_buf_append_text(&header, "Basic ");
    pal_base64_encode(&header, pal_buf_str(&pair));
    pal_str copy = pair.failure || header.failure ? (pal_str){0}
                                                  : pal_arena_copy(arena, pal_buf_str(&header));
    pal_buf_done(&pair);
    pal_buf_done(&header);
    return copy;
}

static void put_claims(pal_buf *out, pal_str client_id, pal_str audience)
{
    uint8_t id[16];
    char text[2 * sizeof id + 1];
    int64_t now = pal_clock_now_ms() / 1000;
    pal_random_bytes(id, sizeof id);
    pal_hex(id, sizeof id, text);
    pal_json_writer json = pal_json_writer_make(out);
    pal_json_begin_object(&json);
    pal_put_str(&json, "iss", client_id);
    pal_put_str(&json, "sub", client_id);
    pal_put_str(&json, "aud", audience);
    pal_put_text(&json, "jti", text);
    pal_put_number(&json, "iat", now);
    pal_put_number(&json, "exp", now + ASSERTION_S);
    pal_json_end_object(&json);
}

/* Writes a JWT that is signed with the client's key (RFC 7523). */
static pal_status write_assertion(
        const pal_oauth_client *client, pal_str audience, pal_buf *out, pal_error *err)
{
    uint8_t signature[PAL_SIGNATURE_MAX];
    size_t len;
    const char *algorithm;
    pal_buf json;
    pal_status status = pal_sign_algorithm(client->key, &algorithm, err);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&json, ASSERTION_BYTES_MAX);
    pal_buf_format(&json, "{\"alg\":\"%s\",\"typ\":\"JWT\"}", algorithm);
    pal_base64_encode_for_url(out, pal_buf_str(&json));
    pal_buf_append_char(out, '.');
    pal_buf_clear(&json);
    put_claims(&json, client->id, audience);
    pal_base64_encode_for_url(out, pal_buf_str(&json));
    pal_status failure = json.failure ? json.failure : out->failure;
    pal_buf_done(&json);
    if (failure)
        return pal_error_set(err, failure, "the client's assertion is too long");
    status = pal_sign(client->key, pal_buf_str(out), signature, &len, err);
    if (status != PAL_OK)
        return status;
    pal_buf_append_char(out, '.');
    pal_base64_encode_for_url(out, pal_str_make((const char *)signature, len));
    return out->failure ? pal_no_memory(err) : PAL_OK;
}

static pal_status add_assertion(
        const pal_oauth_client *client, pal_str audience, pal_buf *form, pal_error *err)
{
    pal_buf assertion;
    pal_buf_init(&assertion, ASSERTION_BYTES_MAX);
    pal_status status = write_assertion(client, audience, &assertion, err);
    if (status == PAL_OK) {
        pal_oauth_form_add(form, "client_id", client->id);
        pal_oauth_form_add(form, "client_assertion_type",
                pal_str_of("urn:ietf:params:oauth:client-assertion-type:jwt-bearer"));
        pal_oauth_form_add(form, "client_assertion", pal_buf_str(&assertion));
    }
    pal_buf_done(&assertion);
    return status;
}

pal_status pal_oauth_client_add(const pal_oauth_client *client, pal_str audience, pal_buf *form,
        pal_arena *arena, pal_str *out_header, pal_error *err)
{
    *out_header = (pal_str){0};
    switch (client->method) {
    case PAL_OAUTH_METHOD_BASIC:
        *out_header = make_basic(client, arena);
        return out_header->len ? PAL_OK : pal_no_memory(err);
    case PAL_OAUTH_METHOD_KEY:
        return add_assertion(client, audience, form, err);
    case PAL_OAUTH_METHOD_POST:
        pal_oauth_form_add(form, "client_secret", client->secret);
        break;
    case PAL_OAUTH_METHOD_NONE:
        break;
    }
    pal_oauth_form_add(form, "client_id", client->id);
    return PAL_OK;
}

/* ---- Responses ---- */

/* The error code of RFC 6749, if it is one; otherwise "HTTP code". */
static pal_status refusal(
        const char *what, long code, pal_json json, pal_arena *arena, pal_error *err)
{
    pal_str error = pal_json_string(pal_json_find(json, "error"), arena);
    if (pal_text_is_token(error) && error.len <= 60)
        return pal_error_set(err, PAL_DENIED, "the authorization server refused %s: %.*s", what,
                PAL_STR_ARG(error));
    return pal_error_set(
            err, PAL_DENIED, "the authorization server refused %s: HTTP code %ld", what, code);
}

pal_status pal_oauth_answer_read(const char *what, long code, pal_str body, pal_arena *arena,
        pal_json *out_json, pal_error *err)
{
    pal_json json = {0};
    bool is_object = pal_json_parse(arena, body, NULL, &json, NULL) == PAL_OK &&
            pal_json_type_of(json) == PAL_JSON_OBJECT;
    if (code < 200 || code > 299)
        return refusal(what, code, is_object ? json : (pal_json){0}, arena, err);
    if (!is_object)
        return pal_error_set(err, PAL_PROVIDER,
                "the authorization server's response to %s is not a JSON object", what);
    *out_json = json;
    return PAL_OK;
}

static bool is_header_safe(pal_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] <= ' ' || text.data[i] > '~')
            return false;
    }
    return text.len > 0;
}

pal_status pal_oauth_token_read(long code, pal_str body, int64_t now_ms, pal_arena *arena,
        pal_oauth_login *login, pal_error *err)
{
    pal_json json;
    double seconds;
    pal_status status = pal_oauth_answer_read("a token", code, body, arena, &json, err);
    if (status != PAL_OK)
        return status;
    pal_str token = pal_json_string(pal_json_find(json, "access_token"), arena);
    pal_str refresh = pal_json_string(pal_json_find(json, "refresh_token"), arena);
    pal_str type = pal_json_string(pal_json_find(json, "token_type"), arena);
    bool is_bound = pal_text_is_nocase(type, "dpop");
    if (is_bound != (login->proof_key.len > 0) && (is_bound || pal_text_is_nocase(type, "bearer")))
        return pal_error_set(err, PAL_PROVIDER,
                "the authorization server returned a token that is %s to a key (DPoP)",
                is_bound ? "bound" : "not bound");
    if (!is_header_safe(token) || (!is_bound && !pal_text_is_nocase(type, "bearer")))
        return pal_error_set(
                err, PAL_PROVIDER, "the authorization server returned no bearer token");
    login->access_token = pal_arena_copy(arena, token);
    if (refresh.len) /* otherwise the old one stays valid */
        login->refresh_token = pal_arena_copy(arena, refresh);
    login->expires_ms = 0;
    if (pal_json_f64(pal_json_find(json, "expires_in"), &seconds) && seconds > 0 && seconds < 1e9)
        login->expires_ms = now_ms + (int64_t)(seconds * 1000);
    return PAL_OK;
}

/* ---- Registrations ---- */

static pal_oauth_method preferred_method(unsigned supported)
{
    if (!supported || supported & 1u << PAL_OAUTH_METHOD_NONE)
        return PAL_OAUTH_METHOD_NONE;
    return supported & 1u << PAL_OAUTH_METHOD_BASIC ? PAL_OAUTH_METHOD_BASIC
                                                    : PAL_OAUTH_METHOD_POST;
}

static void put_list(pal_json_writer *json, const char *name, const char *const *texts)
{
    pal_json_name(json, name);
    pal_json_begin_array(json);
    for (; *texts; texts++)
        pal_json_put_text(json, *texts);
    pal_json_end_array(json);
}

void pal_oauth_register_write(
        const pal_oauth_issuer *issuer, pal_str redirect_uri, pal_str scope, pal_buf *out)
{
    static const char *const grants[] = {"authorization_code", "refresh_token", NULL};
    static const char *const responses[] = {"code", NULL};
    pal_json_writer json = pal_json_writer_make(out);
    pal_json_begin_object(&json);
    pal_put_text(&json, "client_name", "Palaver");
    pal_put_text(&json, "application_type", "native");
    pal_json_name(&json, "redirect_uris");
    pal_json_begin_array(&json);
    pal_json_put_str(&json, redirect_uri);
    pal_json_end_array(&json);
    put_list(&json, "grant_types", grants);
    put_list(&json, "response_types", responses);
    pal_put_text(&json, "token_endpoint_auth_method",
            pal_oauth_method_name(preferred_method(issuer->methods)));
    pal_put_str_if(&json, "scope", scope);
    pal_json_end_object(&json);
}

pal_status pal_oauth_register_read(long code, pal_str body, const pal_oauth_issuer *issuer,
        pal_arena *arena, pal_oauth_client *out_client, pal_error *err)
{
    pal_json json;
    pal_oauth_client client = {0};
    pal_status status = pal_oauth_answer_read("a registration", code, body, arena, &json, err);
    if (status != PAL_OK)
        return status;
    client.id = pal_arena_copy(arena, pal_json_string(pal_json_find(json, "client_id"), arena));
    client.secret =
            pal_arena_copy(arena, pal_json_string(pal_json_find(json, "client_secret"), arena));
    if (!client.id.len)
        return pal_error_set(
                err, PAL_PROVIDER, "the authorization server's registration has no client id");
    if (!pal_oauth_method_read(
                pal_json_string(pal_json_find(json, "token_endpoint_auth_method"), arena),
                &client.method))
        client.method = client.secret.len && !(issuer->methods & 1u << PAL_OAUTH_METHOD_NONE)
                ? pal_oauth_client_method(&client, issuer->methods)
                : PAL_OAUTH_METHOD_NONE;
    if (client.method == PAL_OAUTH_METHOD_KEY ||
            (client.method != PAL_OAUTH_METHOD_NONE && !client.secret.len))
        return pal_error_set(err, PAL_PROVIDER,
                "the authorization server registered the client with '%s', which is not supported",
                pal_oauth_method_name(client.method));
    *out_client = client;
    return PAL_OK;
}
