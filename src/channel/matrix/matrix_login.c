/* matrix_login.c - the bodies of logins and renewals. */
#include "base/json/json_put.h"
#include "base/text.h"
#include "channel/matrix/matrix_answer.h"
#include "channel/matrix/matrix_event.h"

#define LOGIN_MS_MAX INT64_C(315360000000) /* ten years */

static pal_status parse(
        const char *what, pal_str body, pal_arena *arena, pal_json *out_json, pal_error *err)
{
    pal_status status = pal_json_parse(arena, body, NULL, out_json, NULL);
    if (status == PAL_NO_MEMORY)
        return pal_error_set(err, status, "no memory for %s", what);
    if (status != PAL_OK || pal_json_type_of(*out_json) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_PROVIDER, "%s is not a JSON object", what);
    return PAL_OK;
}

static bool is_token(pal_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] <= ' ' || text.data[i] > '~')
            return false; /* it could not be sent in a header */
    }
    return text.len > 0;
}

static void take(pal_json json, const char *name, pal_arena *arena, pal_str *member)
{
    pal_str text = pal_json_string(pal_json_find(json, name), arena);
    if (text.len)
        *member = pal_arena_copy(arena, text);
}

static pal_status take_all(
        pal_json json, pal_arena *arena, pal_matrix_login *login, const char *what, pal_error *err)
{
    take(json, "access_token", arena, &login->access_token);
    take(json, "refresh_token", arena, &login->refresh_token);
    take(json, "user_id", arena, &login->user);
    take(json, "device_id", arena, &login->device);
    if (pal_arena_failure(arena))
        return pal_error_set(err, pal_arena_failure(arena), "no memory for %s", what);
    if (!is_token(login->access_token) ||
            (login->refresh_token.len && !is_token(login->refresh_token)))
        return pal_error_set(err, PAL_PROVIDER, "%s has no usable 'access_token'", what);
    if (login->user.len && !pal_matrix_id_is_valid(login->user, '@'))
        return pal_error_set(err, PAL_PROVIDER, "%s has a 'user_id' that is not one", what);
    return PAL_OK;
}

pal_status pal_matrix_login_read(pal_str body, int64_t now, pal_arena *arena,
        pal_matrix_login *login, pal_error *err)
{
    static const char what[] = "the response to the login";
    pal_json json;
    int64_t ms = 0;
    pal_status status = parse(what, body, arena, &json, err);

    if (status != PAL_OK)
        return status;
    if (pal_json_type_of(pal_json_find(json, "access_token")) != PAL_JSON_STRING)
        return pal_error_set(err, PAL_PROVIDER, "%s has no usable 'access_token'", what);
    login->expires_at = 0;
    if (pal_json_i64(pal_json_find(json, "expires_in_ms"), &ms) && ms > 0 && ms < LOGIN_MS_MAX)
        login->expires_at = now + ms;
    return take_all(json, arena, login, what, err);
}

pal_status pal_matrix_login_read_whoami(
        pal_str body, pal_arena *arena, pal_matrix_login *login, pal_error *err)
{
    static const char what[] = "the response to /account/whoami";
    pal_json json;
    pal_status status = parse(what, body, arena, &json, err);

    if (status != PAL_OK)
        return status;
    pal_str user = pal_json_string(pal_json_find(json, "user_id"), arena);
    if (!pal_matrix_id_is_valid(user, '@'))
        return pal_error_set(err, PAL_PROVIDER, "%s has no 'user_id'", what);
    take(json, "user_id", arena, &login->user);
    take(json, "device_id", arena, &login->device);
    return pal_arena_failure(arena) ? pal_error_set(err, PAL_NO_MEMORY, "no memory for %s", what)
                                    : PAL_OK;
}

void pal_matrix_login_write(pal_str user, pal_str password, pal_str device, pal_buf *out)
{
    pal_json_writer json = pal_json_writer_make(out);

    pal_json_begin_object(&json);
    pal_put_text(&json, "type", "m.login.password");
    pal_json_name(&json, "identifier");
    pal_json_begin_object(&json);
    pal_put_text(&json, "type", "m.id.user");
    pal_put_str(&json, "user", user);
    pal_json_end_object(&json);
    pal_put_str(&json, "password", password);
    pal_put_str_if(&json, "device_id", device);
    pal_put_text(&json, "initial_device_display_name", "Palaver");
    pal_put_flag(&json, "refresh_token", true);
    pal_json_end_object(&json);
}

void pal_matrix_login_write_refresh(pal_str refresh_token, pal_buf *out)
{
    pal_json_writer json = pal_json_writer_make(out);

    pal_json_begin_object(&json);
    pal_put_str(&json, "refresh_token", refresh_token);
    pal_json_end_object(&json);
}

pal_str pal_matrix_answer_text(pal_str body, const char *name, pal_arena *arena)
{
    pal_json json;
    if (pal_json_parse(arena, body, NULL, &json, NULL) != PAL_OK)
        return (pal_str){0};
    return pal_arena_copy(arena, pal_json_string(pal_json_find(json, name), arena));
}
