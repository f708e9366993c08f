/* api_login.c - the login of a browser: exchanges a key or a code for a cookie and a half, and ends
 * a login. access_login.h explains why there are two parts. */
#include <stdio.h>
#include "base/json/json_put.h"
#include "base/text.h"
#include "server/access/access_auth.h"
#include "server/access/access_login.h"
#include "server/api/api_object.h"
#include "server/api/native/api_native.h"
#include "server/server_call.h"

#define COOKIE_SECONDS (30 * 24 * 3600)
#define COOKIE_SIZE 256

typedef struct login_request {
    pal_str key;
    pal_str code;
} login_request;

static const pal_api_object login_body = {"LoginRequest",
        .members = PAL_API_MEMBERS(
                {"key", PAL_API_TEXT, "an API key", .offset = offsetof(login_request, key)},
                {"code", PAL_API_TEXT, "the code of a link from 'palaver page'",
                        .offset = offsetof(login_request, code)})};

/* The cookie has no Path, so browsers send it below the directory of this route only, also behind a
 * proxy that serves it under another path. */
static void set_cookie(pal_call *call, const char *value, int seconds)
{
    char text[COOKIE_SIZE];
    const pal_config_server *config = &call->server->config->server;
    pal_str origin = call->exchange->headers.origin;
    bool is_secure = config->tls_certificate.len || config->tls_key.len ||
            pal_text_begins(origin, "https://");
    snprintf(text, sizeof text, "%s=%s; HttpOnly; SameSite=Strict; Max-Age=%d%s", PAL_LOGIN_COOKIE,
            value, seconds, is_secure ? "; Secure" : "");
    pal_exchange_add_header(
            call->exchange, "set-cookie", pal_arena_copy(call->arena, pal_str_of(text)));
}

/* Finds the key that the request names, directly or by a code. */
static pal_status find_key(
        pal_call *call, const login_request *request, pal_key *out_key, pal_error *err)
{
    pal_str key_id;
    pal_store *store = call->server->store;
    if (request->key.len)
        return pal_key_find(store, request->key, call->arena, out_key, err);
    pal_status status = pal_login_code_take(store, request->code, call->arena, &key_id, err);
    return status == PAL_OK ? pal_key_get(store, key_id, call->arena, out_key, err) : status;
}

static pal_status check_request(pal_call *call, const login_request *request, pal_error *err)
{
    bool any;
    pal_status status = pal_auth_has_keys(call->server->auth, &any, err);
    if (status != PAL_OK)
        return status;
    if (!any)
        return pal_error_set(
                err, PAL_CONFLICT, "the server has no keys; a login is not necessary");
    if (!request->key.len == !request->code.len)
        return pal_error_set(err, PAL_INVALID, "send either 'key' or 'code'");
    return pal_auth_own_page(call, err);
}

static pal_status log_in(pal_call *call, pal_error *err)
{
    pal_key key;
    pal_login login;
    login_request request = {0};
    pal_status status = pal_api_object_read(call, call->body, &login_body, &request, err);
    if (status == PAL_OK)
        status = check_request(call, &request, err);
    if (status != PAL_OK)
        return status;
    status = find_key(call, &request, &key, err);
    if (status == PAL_NOT_FOUND)
        return pal_auth_refuse_wrong(call,
                request.key.len ? "the API key is not known"
                                : "the code is not valid, was used, or is older than a minute",
                err);
    if (status == PAL_OK && key.revoked_at)
        return pal_auth_refuse_wrong(call, "the API key was revoked", err);
    if (status == PAL_OK)
        status = pal_login_create(call->server->store, key.id, &login, err);
    if (status != PAL_OK)
        return status;
    pal_call_streaming(call); /* an idempotency key would store the secrets */
    set_cookie(call, login.cookie, COOKIE_SECONDS);
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_text(writer, "half", login.half);
    pal_put_time(writer, "expires_at", login.expires_at);
    pal_put_str(writer, "key_id", key.id);
    pal_put_text(writer, "role", pal_key_role_name(key.role));
    pal_put_str(writer, "tenant", key.tenant);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status log_out(pal_call *call, pal_error *err)
{
    pal_str cookie = pal_login_cookie_of(call->exchange->headers.cookie);
    if (!call->caller.is_login)
        return pal_error_set(err, PAL_NOT_FOUND, "the request does not belong to a login");
    pal_status status = pal_login_end(call->server->store, cookie, err);
    if (status != PAL_OK)
        return status;
    pal_auth_forget(call->server->auth);
    set_cookie(call, "", 0);
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_text(writer, "status", "ended");
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- The logins of a key ---- */

static pal_status list_logins(pal_call *call, pal_error *err)
{
    char mine[PAL_LOGIN_SECRET_SIZE] = "";
    pal_login_entry *items = NULL;
    size_t len = 0;
    pal_status status = PAL_OK;
    /* Without keys, nobody has logged in. */
    if (call->caller.key_id.len)
        status = pal_login_list(call->server->store, call->caller.key_id, call->arena, &items, &len,
                err);
    if (status == PAL_OK && call->caller.is_login)
        status = pal_login_id(
                pal_login_cookie_of(pal_exchange_header(call->exchange, "cookie")), mine, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "logins");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < len; i++) {
        pal_json_begin_object(writer);
        pal_put_str(writer, "id", items[i].id);
        pal_put_time(writer, "created_at", items[i].created_at);
        pal_put_time(writer, "used_at", items[i].used_at);
        pal_put_time(writer, "expires_at", items[i].expires_at);
        pal_put_flag(writer, "is_current", pal_str_is(items[i].id, mine));
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status end_login(pal_call *call, pal_error *err)
{
    pal_status status = pal_login_drop(
            call->server->store, call->caller.key_id, call->params[0], call->arena, err);
    if (status != PAL_OK)
        return status;
    pal_auth_forget(call->server->auth);
    return list_logins(call, err);
}

/* ---- Routes ---- */

static const pal_api_object login_entry = {
        .members = PAL_API_MEMBERS(
                {"id", PAL_API_TEXT, .is_required = true},
                {"created_at", PAL_API_TIME, .is_required = true},
                {"used_at", PAL_API_TIME, "the last use; not updated with every request",
                        .is_required = true},
                {"expires_at", PAL_API_TIME, .is_required = true},
                {"is_current", PAL_API_FLAG, "whether the request belongs to this login",
                        .is_required = true})};

static const pal_api_object logins_body = {"Logins",
        .members = PAL_API_MEMBERS(
                {"logins", PAL_API_LIST, .of = &login_entry, .is_required = true})};

static const pal_api_object login_answer = {"Login",
        .members = PAL_API_MEMBERS(
                {"half", PAL_API_TEXT, .is_required = true},
                {"expires_at", PAL_API_TIME, .is_required = true},
                {"key_id", PAL_API_TEXT, .is_required = true},
                {"role", PAL_API_TEXT, .is_required = true},
                {"tenant", PAL_API_TEXT, .is_required = true})};

static const pal_api_object logout_answer = {"Logout",
        .members = PAL_API_MEMBERS({"status", PAL_API_TEXT, .is_required = true})};

const pal_api_route pal_login_routes[] = {
        {"POST", "/api/v1/login", PAL_KEY_NONE, PAL_API_JSON | PAL_API_WORKER, log_in,
                {"logIn", "exchange a key or a code for the login of a browser", NULL, &login_body,
                        &login_answer, 200}},
        {"DELETE", "/api/v1/login", PAL_KEY_READ, PAL_API_WORKER, log_out,
                {"logOut", "end the login of this browser", NULL, NULL, &logout_answer, 200}},
        {"GET", "/api/v1/logins", PAL_KEY_READ, PAL_API_WORKER, list_logins,
                {"listLogins", "list the logins of the caller's key", NULL, NULL, &logins_body,
                        200}},
        {"DELETE", "/api/v1/logins/{id}", PAL_KEY_READ, PAL_API_WORKER, end_login,
                {"endLogin", "end a login of the caller's key", NULL, NULL, &logins_body, 200}},
        {0},
};
