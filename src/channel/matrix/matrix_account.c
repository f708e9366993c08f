/* matrix_account.c - logs in: with the token of the settings, or with a password. A password login
 * always names the same device, so the homeserver recognizes transaction ids of an earlier login.
 *
 * A login that expires is renewed in time. The new tokens are kept in memory only: the old ones
 * stay valid until the new ones are used, and a process that knows neither logs in with the
 * password. */
#include <stdio.h>
#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "channel/matrix/matrix.h"
#include "channel/matrix/matrix_url.h"

#define DEVICE_DIGITS 12
#define LOGIN_BYTES_MAX (64u << 10)
#define RENEW_BEFORE_MS 60000 /* at most; a short login is renewed after half of its time */

static void fail(pal_matrix *matrix, pal_status status, int64_t retry_ms, const char *what,
        const pal_matrix_reply *reply)
{
    char reason[256], text[400];

    matrix->is_logging_in = false;
    pal_matrix_reply_describe(reply, reason, sizeof reason);
    snprintf(text, sizeof text, "%s: %s", what, reason);
    pal_channel_failed(matrix->base.account, status, retry_ms, text);
}

/* Replaces the login by one whose texts are in another arena. */
static bool take_login(pal_matrix *matrix, pal_str body, bool is_whoami)
{
    pal_arena *arena = pal_arena_new(LOGIN_BYTES_MAX);
    pal_matrix_login login = matrix->login;
    pal_error err = {0};

    if (!arena)
        return false;
    login.user = pal_arena_copy(arena, login.user);
    login.device = pal_arena_copy(arena, login.device);
    login.access_token = pal_arena_copy(arena, login.access_token);
    login.refresh_token = pal_arena_copy(arena, login.refresh_token);
    int64_t now = pal_clock_now_ms();
    pal_status status = is_whoami ? pal_matrix_login_read_whoami(body, arena, &login, &err)
                                  : pal_matrix_login_read(body, now, arena, &login, &err);
    if (status == PAL_OK && !is_whoami) {
        int64_t half = login.expires_at > now ? (login.expires_at - now) / 2 : 0;
        matrix->renew_at = login.expires_at
                ? login.expires_at - (half < RENEW_BEFORE_MS ? half : RENEW_BEFORE_MS)
                : 0;
    }
    if (status != PAL_OK) {
        pal_log(PAL_LOG_ERROR, "matrix account '%.*s': %s",
                PAL_STR_ARG(matrix->settings->account), err.message);
        pal_arena_free(arena);
        return false;
    }
    pal_arena_free(matrix->arena);
    matrix->arena = arena;
    matrix->login = login;
    matrix->logins++;
    return true;
}

static void on_direct(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    pal_arena *arena = pal_arena_new(0);
    pal_json direct;

    if (arena && reply->status == PAL_OK && !reply->failure.fault &&
            pal_json_parse(arena, reply->body, NULL, &direct, NULL) == PAL_OK)
        pal_matrix_direct_keep(matrix, direct);
    pal_arena_free(arena);
    if (reply->status == PAL_CANCELED)
        return;
    /* A user without direct chats has no m.direct: then the response is M_NOT_FOUND. */
    if (reply->status != PAL_OK || (reply->failure.fault && reply->code != 404)) {
        fail(matrix, PAL_IO, reply->failure.retry_ms, "reading m.direct failed", reply);
        return;
    }
    matrix->is_logging_in = false;
    matrix->is_logged_in = true;
    pal_matrix_poll(matrix);
}

static void on_profile(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    pal_arena *arena = pal_arena_new(0);

    if (reply->status == PAL_CANCELED) {
        pal_arena_free(arena);
        return;
    }
    if (arena && reply->status == PAL_OK && !reply->failure.fault)
        pal_matrix_name_keep(matrix, matrix->login.user,
                pal_matrix_answer_text(reply->body, "displayname", arena));
    pal_arena_free(arena);
    pal_matrix_call_path(matrix, "GET", "/_matrix/client/v3/user/{}/account_data/m.direct",
            &matrix->login.user, 1, (pal_str){0}, on_direct, NULL);
}

static void on_whoami(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    pal_str wanted = matrix->settings->user;

    if (reply->status == PAL_CANCELED)
        return;
    if (reply->status != PAL_OK || reply->failure.fault) {
        if (reply->failure.fault == PAL_MATRIX_FAULT_TOKEN)
            return; /* pal_matrix_account_refused() was called */
        bool is_final = reply->failure.fault == PAL_MATRIX_FAULT_ACCOUNT ||
                reply->failure.fault == PAL_MATRIX_FAULT_FORBIDDEN;
        fail(matrix, is_final ? PAL_DENIED : PAL_IO, reply->failure.retry_ms,
                "asking who is logged in failed", reply);
        return;
    }
    if (!take_login(matrix, reply->body, true)) {
        matrix->is_logging_in = false;
        pal_channel_failed(matrix->base.account, PAL_IO, 0,
                "the homeserver's answer to /account/whoami cannot be used");
        return;
    }
    if (wanted.len && !pal_str_equal(wanted, matrix->login.user)) {
        char text[600];
        matrix->is_logging_in = false;
        snprintf(text, sizeof text, "the token belongs to '%.*s', and 'user' is '%.*s'",
                PAL_STR_ARG(matrix->login.user), PAL_STR_ARG(wanted));
        pal_channel_failed(matrix->base.account, PAL_DENIED, 0, text);
        return;
    }
    if (!matrix->login.device.len)
        pal_log(PAL_LOG_WARN,
                "matrix account '%.*s': the token has no device, so the homeserver recognizes a "
                "repeated message only for half an hour; log in with a password instead",
                PAL_STR_ARG(matrix->settings->account));
    pal_matrix_call_path(matrix, "GET", "/_matrix/client/v3/profile/{}/displayname",
            &matrix->login.user, 1, (pal_str){0}, on_profile, NULL);
}

static void ask_who(pal_matrix *matrix)
{
    pal_matrix_call_path(matrix, "GET", "/_matrix/client/v3/account/whoami", NULL, 0,
            (pal_str){0}, on_whoami, NULL);
}

static void on_login(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    if (reply->status == PAL_CANCELED)
        return;
    if (reply->status != PAL_OK || reply->failure.fault) {
        bool is_final = reply->failure.fault == PAL_MATRIX_FAULT_ACCOUNT ||
                reply->failure.fault == PAL_MATRIX_FAULT_FORBIDDEN ||
                reply->failure.fault == PAL_MATRIX_FAULT_REQUEST;
        fail(matrix, is_final ? PAL_DENIED : PAL_IO, reply->failure.retry_ms, "the login failed",
                reply);
        return;
    }
    if (!take_login(matrix, reply->body, false)) {
        matrix->is_logging_in = false;
        pal_channel_failed(matrix->base.account, PAL_IO, 0,
                "the homeserver's answer to the login cannot be used");
        return;
    }
    ask_who(matrix);
}

/* The device of an account is the same in each process. */
static void write_device(const pal_matrix *matrix, char *out_text, size_t size)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char hex[2 * PAL_SHA256_SIZE + 1] = "default";

    if (pal_sha256(matrix->settings->account, digest) == PAL_OK)
        pal_hex(digest, sizeof digest, hex);
    snprintf(out_text, size, "PALAVER-%.*s", DEVICE_DIGITS, hex);
}

/* Sends a request to a path that needs no token. */
static void post(pal_matrix *matrix, const char *path, const pal_buf *body,
        pal_matrix_on_reply on_reply)
{
    pal_buf url;

    pal_buf_init(&url, PAL_MATRIX_URL_LEN_MAX);
    pal_matrix_url_write(&url, matrix->settings->url, path, NULL, 0);
    pal_matrix_request request = {.method = "POST", .url = pal_buf_str(&url),
            .body = pal_buf_str(body), .no_token = true};
    pal_matrix_call(matrix, &request, on_reply, NULL);
    pal_buf_done(&url);
}

static void log_in(pal_matrix *matrix)
{
    const pal_channel_settings *settings = matrix->settings;
    char device[32];
    pal_buf body;

    write_device(matrix, device, sizeof device);
    matrix->login.refresh_token = (pal_str){0};
    pal_buf_init(&body, LOGIN_BYTES_MAX);
    pal_matrix_login_write(settings->user, settings->password, pal_str_of(device), &body);
    post(matrix, "/_matrix/client/v3/login", &body, on_login);
    pal_buf_done(&body);
}

/* A homeserver that does not know the token any more gets the password. */
static void on_renewed(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    bool is_refused = reply->status == PAL_OK && reply->failure.fault &&
            reply->failure.fault != PAL_MATRIX_FAULT_AGAIN &&
            reply->failure.fault != PAL_MATRIX_FAULT_RATE;

    if (reply->status == PAL_CANCELED)
        return;
    if (is_refused)
        log_in(matrix);
    else if (reply->status != PAL_OK || reply->failure.fault)
        fail(matrix, PAL_IO, reply->failure.retry_ms, "renewing the login failed", reply);
    else if (take_login(matrix, reply->body, false))
        ask_who(matrix);
    else
        log_in(matrix);
}

static void renew(pal_matrix *matrix)
{
    pal_buf body;

    pal_buf_init(&body, LOGIN_BYTES_MAX);
    pal_matrix_login_write_refresh(matrix->login.refresh_token, &body);
    post(matrix, "/_matrix/client/v3/refresh", &body, on_renewed);
    pal_buf_done(&body);
}

bool pal_matrix_account_is_due(const pal_matrix *matrix)
{
    return matrix->login.refresh_token.len && matrix->renew_at &&
            pal_clock_now_ms() >= matrix->renew_at;
}

void pal_matrix_account_begin(pal_matrix *matrix)
{
    if (matrix->is_logging_in)
        return;
    if (matrix->is_logged_in && !pal_matrix_account_is_due(matrix)) {
        pal_matrix_poll(matrix);
        return;
    }
    matrix->is_logging_in = true;
    if (matrix->settings->token.len) {
        matrix->login.access_token = matrix->settings->token;
        ask_who(matrix);
    } else if (matrix->login.refresh_token.len) {
        renew(matrix);
    } else {
        log_in(matrix);
    }
}

void pal_matrix_account_refused(pal_matrix *matrix, const pal_matrix_failure *failure)
{
    char text[400];
    bool was_logged_in = matrix->is_logged_in;

    matrix->logins++; /* other requests with this token are refused as well */
    matrix->is_logged_in = matrix->is_logging_in = false;
    if (matrix->is_closing)
        return;
    pal_matrix_poll_end(matrix);
    /* A password login that was just refused would be refused again. */
    if (!matrix->settings->token.len && was_logged_in) {
        pal_matrix_account_begin(matrix);
        return;
    }
    snprintf(text, sizeof text, "the homeserver does not accept the login: %s %s", failure->code,
            failure->text);
    pal_channel_failed(matrix->base.account, PAL_DENIED, 0, text);
}
