/* oauth_flow.c - a flow gets a token. It is a chain of steps, each of which waits for one thing:
 *
 *   LOAD       the login is read from its file; not a step of a flow, but flows wait for it
 *   RESOURCE   metadata of the MCP server, which name its authorization server
 *   ISSUER     metadata of the authorization server
 *   REGISTER   the client registers itself, if no client is configured
 *   AUTHORIZE  a person allows the access, and is redirected with a code
 *   SUBJECT    instead: a file of the platform is read (oauth_assertion.c)
 *   EXCHANGE   the identity provider exchanges its content for an assertion
 *   TOKEN      the code, the assertion, or the client's own credentials, are exchanged for a token
 *   REFRESH    instead of all of these: the refresh token is exchanged for a token
 *   RELOAD     the refresh token was refused: perhaps another process has used it, and stored
 *              others; otherwise the flow begins with RESOURCE
 *   SAVE       the login is written to its file
 *
 * A step ends in the on_... function of its name, which starts the next one. Every flow ends with
 * pal_oauth_finish(). On the loop. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "dialect/dialect_base64.h"
#include "tool/oauth/oauth_internal.h"

#define CALL_MS 30000  /* one request to an authorization server */
#define FORM_TYPE "application/x-www-form-urlencoded"
#define SECRET_SIZE 32 /* bytes of `state` and of the PKCE verifier */

/* ---- HTTP ---- */

static void on_body(void *user, pal_str bytes)
{
    pal_oauth *o = user;
    pal_buf_append_str(&o->body, bytes);
}

static void on_end(void *user, const pal_http_end *end);

static void on_head(void *user, const pal_http_head *head)
{
    pal_oauth *o = user;
    for (size_t i = 0; i < head->headers_len; i++) {
        if (pal_str_is(head->headers[i].name, "dpop-nonce"))
            o->flow.is_nonce_new =
                    pal_oauth_nonce_take(&o->issuer_nonce, head->headers[i].value);
    }
}

/* The proof of the key to which the token shall be bound, or is; empty: none. */
static pal_status prove(pal_oauth *o, pal_oauth_step step, pal_str url, pal_str *out_proof,
        pal_error *err)
{
    const pal_oauth_proof proof = {
            .key = step == PAL_OAUTH_STEP_REFRESH ? o->login.proof_key : o->flow.proof_key,
            .method = "POST",
            .url = url,
            .nonce = pal_buf_str(&o->issuer_nonce)};
    bool is_token = step == PAL_OAUTH_STEP_TOKEN || step == PAL_OAUTH_STEP_REFRESH;
    *out_proof = (pal_str){0};
    return is_token && proof.key.len
            ? pal_oauth_proof_write(&proof, o->flow.arena, out_proof, err)
            : PAL_OK;
}

/* Starts a request of the current step. Without a body it is a GET. */
static void send_request(pal_oauth *o, pal_oauth_step step, pal_str url, const char *type,
        pal_str body, pal_str authorization)
{
    static const pal_http_events events = {on_head, on_body, on_end};
    pal_str proof;
    pal_header headers[4] = {{pal_str_of("Accept"), pal_str_of("application/json")}};
    pal_http_request request = {.method = type ? "POST" : "GET",
            .url = url,
            .headers = headers,
            .headers_len = 1,
            .body = body,
            .total_ms = CALL_MS,
            .response_bytes_max = PAL_OAUTH_RESPONSE_BYTES_MAX};
    pal_error err;
    if (type)
        headers[request.headers_len++] =
                (pal_header){pal_str_of("Content-Type"), pal_str_of(type)};
    if (authorization.len)
        headers[request.headers_len++] = (pal_header){pal_str_of("Authorization"), authorization};
    o->flow.step = step;
    o->flow.is_nonce_new = false;
    pal_buf_clear(&o->body);
    if (prove(o, step, url, &proof, &err)) {
        pal_oauth_fail_with(o, &err);
        return;
    }
    if (proof.len)
        headers[request.headers_len++] = (pal_header){pal_str_of("DPoP"), proof};
    if (pal_http_start(o->client, &request, &events, o, &o->http, &err))
        pal_oauth_fail_with(o, &err);
}

static bool read_json(pal_oauth *o, const pal_http_end *end, pal_json *out_json)
{
    return end->code == 200 &&
            pal_json_parse(o->flow.arena, pal_buf_str(&o->body), NULL, out_json, NULL) == PAL_OK &&
            pal_json_type_of(*out_json) == PAL_JSON_OBJECT;
}

/* ---- RESOURCE ---- */

static void find_issuer(pal_oauth *o);

/* A server without metadata is its own authorization server (revision 2025-03-26). */
static void use_own_issuer(pal_oauth *o)
{
    pal_oauth_url url = {0};
    (void)pal_oauth_url_read(o->config.url, &url);
    o->flow.resource = o->config.url;
    o->flow.issuer_url = pal_arena_copy(o->flow.arena, url.origin);
    o->flow.has_resource = false;
    find_issuer(o);
}

static void find_resource(pal_oauth *o)
{
    pal_oauth_flow *f = &o->flow;
    pal_str url = f->challenge.resource_metadata;
    pal_error err;
    if (!url.len)
        url = pal_oauth_resource_place(o->config.url, f->place, f->arena);
    if (!url.len)
        use_own_issuer(o);
    else if (pal_oauth_check_url("resource_metadata", url, o->allow_local, &err))
        pal_oauth_fail_with(o, &err);
    else
        send_request(o, PAL_OAUTH_STEP_RESOURCE, url, NULL, (pal_str){0}, (pal_str){0});
}

/* Chooses the configured authorization server if it is in the list, otherwise the first one. */
static pal_str choose_issuer(pal_oauth *o, pal_json list)
{
    pal_json one;
    for (pal_json_iter each = pal_json_each(list); pal_json_next(&each, NULL, &one);) {
        pal_str issuer = pal_json_string(one, o->flow.arena);
        if (!o->auth.issuer.len || pal_str_equal(issuer, o->auth.issuer))
            return issuer;
    }
    return (pal_str){0};
}

static void take_resource(pal_oauth *o, pal_json json)
{
    pal_oauth_flow *f = &o->flow;
    pal_error err;
    pal_json servers = pal_json_find(json, "authorization_servers");
    f->resource = pal_arena_copy(
            f->arena, pal_json_string(pal_json_find(json, "resource"), f->arena));
    f->resource_scopes = pal_oauth_scope_of_list(pal_json_find(json, "scopes_supported"), f->arena);
    f->has_resource = true;
    f->place = 0;
    if (!pal_oauth_url_covers(f->resource, o->config.url)) {
        pal_oauth_fail(o, PAL_DENIED, "its metadata describe another server, '%.*s'",
                PAL_EXCERPT(f->resource, 100));
        return;
    }
    f->wants_proof |= pal_json_type_of(pal_json_find(
                              json, "dpop_bound_access_tokens_required")) == PAL_JSON_TRUE;
    f->issuer_url = pal_arena_copy(f->arena, choose_issuer(o, servers));
    if (!f->issuer_url.len)
        pal_oauth_fail(o, PAL_DENIED, "its metadata name no authorization server that can be used");
    else if (pal_oauth_check_url("authorization server", f->issuer_url, o->allow_local, &err))
        pal_oauth_fail_with(o, &err);
    else
        find_issuer(o);
}

static void on_resource(pal_oauth *o, const pal_http_end *end)
{
    pal_json json;
    if (read_json(o, end, &json)) {
        take_resource(o, json);
    } else if (o->flow.challenge.resource_metadata.len) {
        pal_oauth_fail(o, PAL_PROVIDER, "could not read its metadata: HTTP code %ld", end->code);
    } else {
        o->flow.place++;
        find_resource(o);
    }
}

/* ---- ISSUER ---- */

static void choose_client(pal_oauth *o);

static void find_issuer(pal_oauth *o)
{
    pal_oauth_flow *f = &o->flow;
    if (o->flow.step != PAL_OAUTH_STEP_ISSUER)
        f->place = 0;
    pal_str url = pal_oauth_issuer_place(f->issuer_url, f->place, f->arena);
    if (url.len) {
        send_request(o, PAL_OAUTH_STEP_ISSUER, url, NULL, (pal_str){0}, (pal_str){0});
    } else if (f->has_resource) {
        pal_oauth_fail(o, PAL_PROVIDER, "authorization server '%.*s' has no metadata",
                PAL_EXCERPT(f->issuer_url, 100));
    } else {
        pal_oauth_issuer_default(o->config.url, f->arena, &f->issuer);
        choose_client(o);
    }
}

static void on_issuer(pal_oauth *o, const pal_http_end *end)
{
    pal_oauth_flow *f = &o->flow;
    pal_json json;
    pal_error err;
    if (!read_json(o, end, &json)) {
        f->place++;
        find_issuer(o);
    } else if (pal_oauth_issuer_read(
                       json, f->issuer_url, o->allow_local, f->arena, &f->issuer, &err)) {
        pal_oauth_fail_with(o, &err);
    } else {
        choose_client(o);
    }
}

/* ---- REGISTER ---- */

static void get_token(pal_oauth *o);

static void choose_scope(pal_oauth *o)
{
    pal_oauth_flow *f = &o->flow;
    pal_str scope = f->challenge.scope.len ? f->challenge.scope : f->resource_scopes;
    if (o->auth.scope.len)
        scope = f->is_step_up ? pal_oauth_scope_join(o->auth.scope, scope, f->arena)
                              : o->auth.scope;
    /* Scopes that were allowed before must stay allowed. */
    if (pal_str_equal(o->login.issuer, f->issuer.issuer))
        scope = pal_oauth_scope_join(o->login.scope, scope, f->arena);
    /* Some servers return a refresh token only for this scope. */
    if (!pal_oauth_is_unattended(o) &&
            pal_oauth_scope_contains(f->issuer.scopes, pal_str_of("offline_access")))
        scope = pal_oauth_scope_join(scope, pal_str_of("offline_access"), f->arena);
    f->scope = scope;
}

static void register_client(pal_oauth *o)
{
    pal_oauth_flow *f = &o->flow;
    pal_buf body;
    pal_buf_init(&body, PAL_OAUTH_RESPONSE_BYTES_MAX);
    pal_oauth_register_write(&f->issuer, o->config.redirect_uri, f->scope, &body);
    send_request(o, PAL_OAUTH_STEP_REGISTER, f->issuer.registration_endpoint, "application/json",
            pal_buf_str(&body), (pal_str){0});
    pal_buf_done(&body);
}

static void choose_client(pal_oauth *o)
{
    pal_oauth_flow *f = &o->flow;
    pal_error err;
    choose_scope(o);
    if (pal_oauth_proof_begin(o, &err)) {
        pal_oauth_fail_with(o, &err);
    } else if (o->auth.client_id.len) {
        f->client = (pal_oauth_client){
                .id = o->auth.client_id, .secret = o->auth.client_secret, .key = o->key};
        f->client.method = pal_oauth_client_method(&f->client, f->issuer.methods);
        get_token(o);
    } else if (o->auth.client_metadata_url.len && f->issuer.takes_documents) {
        f->client = (pal_oauth_client){.id = o->auth.client_metadata_url};
        get_token(o);
    } else if (o->login.is_registered && pal_str_equal(o->login.issuer, o->flow.issuer.issuer) &&
            pal_str_equal(o->login.redirect_uri, o->config.redirect_uri)) {
        f->client = (pal_oauth_client){.id = o->login.client_id,
                .secret = o->login.client_secret,
                .method = o->login.method};
        f->is_registered = true;
        get_token(o);
    } else if (f->issuer.registration_endpoint.len) {
        register_client(o);
    } else {
        pal_oauth_fail(o, PAL_DENIED,
                "authorization server '%.*s' does not register clients; set 'auth.client_id'",
                PAL_EXCERPT(f->issuer.issuer, 80));
    }
}

static void on_registered(pal_oauth *o, const pal_http_end *end)
{
    pal_oauth_flow *f = &o->flow;
    pal_error err;
    f->is_registered = true;
    if (pal_oauth_register_read(
                end->code, pal_buf_str(&o->body), &f->issuer, f->arena, &f->client, &err))
        pal_oauth_fail_with(o, &err);
    else
        get_token(o);
}

/* ---- AUTHORIZE ---- */

static bool make_secret(char out_text[static PAL_OAUTH_SECRET_TEXT], pal_error *err)
{
    uint8_t bytes[SECRET_SIZE];
    pal_buf text;
    if (pal_random_secret(bytes, sizeof bytes, err))
        return false;
    pal_buf_init(&text, PAL_OAUTH_SECRET_TEXT);
    pal_base64_encode_for_url(&text, pal_str_make((const char *)bytes, sizeof bytes));
    bool is_ok = !text.failure && text.len < PAL_OAUTH_SECRET_TEXT;
    if (is_ok)
        snprintf(out_text, PAL_OAUTH_SECRET_TEXT, "%.*s", PAL_STR_ARG(pal_buf_str(&text)));
    else
        (void)pal_no_memory(err);
    pal_buf_done(&text);
    return is_ok;
}

static void add_pkce(pal_buf *url, const char *verifier)
{
    uint8_t digest[PAL_SHA256_SIZE];
    pal_buf text;
    pal_buf_init(&text, PAL_OAUTH_SECRET_TEXT);
    if (pal_sha256(pal_str_of(verifier), digest) == PAL_OK)
        pal_base64_encode_for_url(&text, pal_str_make((const char *)digest, sizeof digest));
    pal_oauth_form_add(url, "code_challenge", pal_buf_str(&text));
    pal_oauth_form_add(url, "code_challenge_method", pal_str_of("S256"));
    pal_buf_done(&text);
}

static void ask_person(pal_oauth *o)
{
    pal_oauth_flow *f = &o->flow;
    pal_error err;
    pal_buf url;
    if (!f->issuer.has_pkce || !f->issuer.authorization_endpoint.len) {
        pal_oauth_fail(o, PAL_DENIED, "authorization server '%.*s' does not support PKCE with S256",
                PAL_EXCERPT(f->issuer.issuer, 80));
        return;
    }
    if (!make_secret(f->state, &err) || !make_secret(f->verifier, &err)) {
        pal_oauth_fail_with(o, &err);
        return;
    }
    pal_str endpoint = f->issuer.authorization_endpoint;
    pal_buf_init(&url, 8 * PAL_OAUTH_URL_LEN_MAX);
    pal_buf_append_str(&url, endpoint);
    pal_buf_append_text(&url, memchr(endpoint.data, '?', endpoint.len) ? "" : "?");
    pal_oauth_form_add(&url, "response_type", pal_str_of("code"));
    pal_oauth_form_add(&url, "client_id", f->client.id);
    pal_oauth_form_add(&url, "redirect_uri", o->config.redirect_uri);
    pal_oauth_form_add(&url, "state", pal_str_of(f->state));
    add_pkce(&url, f->verifier);
    pal_oauth_form_add(&url, "resource", f->resource);
    if (f->scope.len)
        pal_oauth_form_add(&url, "scope", f->scope);
    f->step = PAL_OAUTH_STEP_AUTHORIZE;
    if (url.failure)
        pal_oauth_fail(o, url.failure, "the URL of the login is too long");
    else
        o->config.on_authorize(o->config.user, pal_buf_str(&url));
    pal_buf_done(&url);
}

static void send_code(pal_oauth *o)
{
    pal_buf form;
    pal_buf_init(&form, PAL_OAUTH_RESPONSE_BYTES_MAX);
    pal_oauth_form_add(&form, "grant_type", pal_str_of("authorization_code"));
    pal_oauth_form_add(&form, "code", o->flow.code);
    pal_oauth_form_add(&form, "redirect_uri", o->config.redirect_uri);
    pal_oauth_form_add(&form, "code_verifier", pal_str_of(o->flow.verifier));
    pal_oauth_send_grant(o, &form);
    pal_buf_done(&form);
}

static void use_code(pal_oauth *o, pal_str code)
{
    o->flow.code = pal_arena_copy(o->flow.arena, code);
    send_code(o);
}

/* Another authorization server could have sent the person (RFC 9207). */
static bool is_issuer_right(const pal_oauth_issuer *issuer, pal_str iss)
{
    return iss.len ? pal_str_equal(iss, issuer->issuer) : !issuer->has_iss;
}

bool pal_oauth_redirected(pal_oauth *oauth, pal_str query)
{
    pal_oauth_flow *f = &oauth->flow;
    if (f->step != PAL_OAUTH_STEP_AUTHORIZE ||
            !pal_str_is(pal_oauth_form_find(query, "state", f->arena), f->state))
        return false;
    pal_str code = pal_oauth_form_find(query, "code", f->arena);
    pal_str error = pal_oauth_form_find(query, "error", f->arena);
    pal_oauth_enter(oauth);
    if (!is_issuer_right(&f->issuer, pal_oauth_form_find(query, "iss", f->arena)))
        pal_oauth_fail(oauth, PAL_DENIED, "the redirect came from another authorization server");
    else if (error.len)
        pal_oauth_fail(oauth, PAL_DENIED, "the authorization server refused the login: %.*s",
                PAL_EXCERPT(pal_text_is_token(error) ? error : pal_str_of("error"), 60));
    else if (!code.len)
        pal_oauth_fail(oauth, PAL_PROVIDER, "the authorization server returned no code");
    else
        use_code(oauth, code);
    pal_oauth_release(oauth);
    return true;
}

/* ---- TOKEN and REFRESH ---- */

void pal_oauth_send_form(pal_oauth *o, pal_oauth_step step, pal_str url, pal_str form,
        pal_str authorization)
{
    send_request(o, step, url, FORM_TYPE, form, authorization);
}

void pal_oauth_send_grant(pal_oauth *o, pal_buf *form)
{
    pal_oauth_flow *f = &o->flow;
    pal_error err;
    pal_str header;
    pal_oauth_form_add(form, "resource", f->resource);
    pal_status status = pal_oauth_client_add(
            &f->client, f->issuer.issuer, form, f->arena, &header, &err);
    if (status == PAL_OK && form->failure)
        status = pal_no_memory(&err);
    if (status != PAL_OK)
        pal_oauth_fail_with(o, &err);
    else
        pal_oauth_send_form(o, PAL_OAUTH_STEP_TOKEN, f->issuer.token_endpoint, pal_buf_str(form),
                header);
}

bool pal_oauth_is_unattended(const pal_oauth *o)
{
    return o->auth.client_credentials || o->auth.token_file.len;
}

static void send_credentials(pal_oauth *o)
{
    pal_buf form;
    pal_buf_init(&form, PAL_OAUTH_RESPONSE_BYTES_MAX);
    pal_oauth_form_add(&form, "grant_type", pal_str_of("client_credentials"));
    if (o->flow.scope.len)
        pal_oauth_form_add(&form, "scope", o->flow.scope);
    pal_oauth_send_grant(o, &form);
    pal_buf_done(&form);
}

static void get_token(pal_oauth *o)
{
    if (o->auth.token_file.len)
        pal_oauth_use_file(o, PAL_OAUTH_STEP_SUBJECT, false);
    else if (o->auth.client_credentials)
        send_credentials(o);
    else
        ask_person(o);
}

static void keep_login(pal_oauth *o, const pal_oauth_login *login)
{
    if (!pal_oauth_adopt(o, login))
        pal_oauth_fail(o, PAL_NO_MEMORY, "out of memory");
    else if (o->auth.file.len && !pal_oauth_is_unattended(o))
        pal_oauth_use_file(o, PAL_OAUTH_STEP_SAVE, true);
    else
        pal_oauth_finish(o, PAL_OK, (pal_str){0});
}

static void refresh(pal_oauth *o);

/* The authorization server requires its nonce in the proof, and has sent it: the request is sent
 * again, once. Returns false for any other response. */
static bool repeats(pal_oauth *o, const pal_http_end *end)
{
    pal_oauth_flow *f = &o->flow;
    pal_json json;
    if (end->code < 400 || f->is_repeated || !f->is_nonce_new ||
            pal_json_parse(f->arena, pal_buf_str(&o->body), NULL, &json, NULL) != PAL_OK ||
            !pal_json_string_is(pal_json_find(json, "error"), "use_dpop_nonce"))
        return false;
    f->is_repeated = true;
    if (f->step == PAL_OAUTH_STEP_REFRESH)
        refresh(o);
    else if (f->assertion.len)
        pal_oauth_send_assertion(o, f->assertion);
    else if (f->code.len)
        send_code(o);
    else
        send_credentials(o);
    return true;
}

static void on_token(pal_oauth *o, const pal_http_end *end)
{
    const pal_oauth_flow *f = &o->flow;
    pal_oauth_login login = {.url = o->config.url,
            .resource = f->resource,
            .issuer = f->issuer.issuer,
            .token_endpoint = f->issuer.token_endpoint,
            .client_id = f->client.id,
            .client_secret = f->is_registered ? f->client.secret : (pal_str){0},
            .method = f->client.method,
            .redirect_uri = o->config.redirect_uri,
            .is_registered = f->is_registered,
            .scope = f->scope,
            .proof_key = f->proof_key};
    pal_error err;
    if (repeats(o, end))
        return;
    if (pal_oauth_token_read(end->code, pal_buf_str(&o->body), pal_clock_now_ms(), f->arena, &login,
                &err))
        pal_oauth_fail_with(o, &err);
    else
        keep_login(o, &login);
}

static void refresh(pal_oauth *o)
{
    pal_oauth_flow *f = &o->flow;
    pal_oauth_client client = {.id = o->login.client_id,
            .secret = o->login.is_registered ? o->login.client_secret : o->auth.client_secret,
            .key = o->key,
            .method = o->login.method};
    pal_buf form;
    pal_str header;
    pal_error err;
    pal_buf_init(&form, PAL_OAUTH_RESPONSE_BYTES_MAX);
    pal_oauth_form_add(&form, "grant_type", pal_str_of("refresh_token"));
    pal_oauth_form_add(&form, "refresh_token", o->login.refresh_token);
    pal_oauth_form_add(&form, "resource", o->login.resource);
    pal_status status =
            pal_oauth_client_add(&client, o->login.issuer, &form, f->arena, &header, &err);
    if (status == PAL_OK && form.failure)
        status = pal_no_memory(&err);
    if (status != PAL_OK)
        pal_oauth_fail_with(o, &err);
    else
        send_request(o, PAL_OAUTH_STEP_REFRESH, o->login.token_endpoint, FORM_TYPE,
                pal_buf_str(&form), header);
    pal_buf_done(&form);
}

static void on_refreshed(pal_oauth *o, const pal_http_end *end)
{
    pal_oauth_login login = o->login;
    pal_error err;
    if (repeats(o, end))
        return;
    pal_status status = pal_oauth_token_read(end->code, pal_buf_str(&o->body), pal_clock_now_ms(),
            o->flow.arena, &login, &err);
    if (status == PAL_OK) {
        o->refreshed = o->serial + 1;
        keep_login(o, &login);
    } else if (end->code >= 400 && end->code < 500) {
        pal_oauth_use_file(o, PAL_OAUTH_STEP_RELOAD, false);
    } else {
        pal_oauth_fail_with(o, &err);
    }
}

/* ---- Flows ---- */

static void on_end(void *user, const pal_http_end *end)
{
    pal_oauth *o = user;
    o->http = NULL;
    pal_oauth_enter(o);
    if (end->status != PAL_OK || o->body.failure) {
        pal_oauth_fail(o, end->status ? end->status : o->body.failure, "%s",
                end->status ? end->error : "the response is too long");
    } else {
        switch (o->flow.step) {
        case PAL_OAUTH_STEP_RESOURCE:
            on_resource(o, end);
            break;
        case PAL_OAUTH_STEP_ISSUER:
            on_issuer(o, end);
            break;
        case PAL_OAUTH_STEP_REGISTER:
            on_registered(o, end);
            break;
        case PAL_OAUTH_STEP_EXCHANGE:
            pal_oauth_on_exchanged(o, end);
            break;
        case PAL_OAUTH_STEP_TOKEN:
            on_token(o, end);
            break;
        case PAL_OAUTH_STEP_REFRESH:
            on_refreshed(o, end);
            break;
        default:
            break;
        }
    }
    pal_oauth_release(o);
}

/* Finds the authorization server and gets a token from it. */
void pal_oauth_flow_discover(pal_oauth *o)
{
    if (!o->config.on_authorize && !pal_oauth_is_unattended(o)) {
        pal_oauth_fail_no_login(o);
        return;
    }
    o->flow.place = 0;
    o->flow.is_repeated = false;
    o->flow.wants_proof = o->flow.challenge.is_bound;
    find_resource(o);
}

void pal_oauth_flow_start(pal_oauth *o)
{
    bool was_refused = o->serial == o->refreshed && !pal_oauth_is_expired(o);
    const pal_oauth_flow *f = &o->flow;
    if (f->is_step_up && pal_oauth_scope_contains(o->login.scope, f->challenge.scope))
        pal_oauth_fail(o, PAL_DENIED,
                "the server refuses the token, although scope '%.*s' was requested",
                PAL_EXCERPT(f->challenge.scope, 80));
    else if (o->login.refresh_token.len && !f->is_step_up && !was_refused &&
            !o->config.is_login && (o->login.proof_key.len || !f->challenge.is_bound))
        refresh(o);
    else
        pal_oauth_flow_discover(o);
}
