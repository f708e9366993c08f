/* matrix.c - the kind "matrix": opens and closes an account. */
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "channel/matrix/matrix.h"
#include "channel/matrix/matrix_channel.h"

#define PIECE_BYTES_MAX 24000u /* an edit has the text twice, each with HTML; an event has 65536 */
#define PIECE_UNITS_MAX 8000u

static pal_status check(const pal_channel_settings *settings, pal_error *err)
{
    if (!pal_text_is_http_url(settings->url))
        return pal_error_set(err, PAL_INVALID,
                "the Matrix account '%.*s' needs 'url': the address of its homeserver, such as "
                "https://matrix.example.org",
                PAL_STR_ARG(settings->account));
    if (!settings->token.len && !settings->password.len)
        return pal_error_set(err, PAL_INVALID,
                "the Matrix account '%.*s' needs a token or a password",
                PAL_STR_ARG(settings->account));
    if (!settings->token.len && !settings->user.len)
        return pal_error_set(err, PAL_INVALID,
                "the Matrix account '%.*s' needs 'user' to log in with a password",
                PAL_STR_ARG(settings->account));
    if (settings->user.len && !pal_matrix_id_is_valid(settings->user, '@'))
        return pal_error_set(err, PAL_INVALID,
                "the user of the Matrix account '%.*s' must be an id such as @sol:example.org",
                PAL_STR_ARG(settings->account));
    return PAL_OK;
}

static pal_status open_matrix(const pal_channel_settings *settings, pal_channel_account *account,
        pal_channel **out_channel, pal_error *err)
{
    pal_status status = check(settings, err);
    if (status != PAL_OK)
        return status;
    pal_matrix *matrix = pal_calloc(1, sizeof *matrix);
    if (!matrix)
        return pal_no_memory(err);
    matrix->base = (pal_channel){.kind = &pal_channel_matrix, .account = account};
    matrix->settings = settings;
    matrix->loop = pal_channel_loop(account);
    matrix->http = pal_channel_http(account);
    matrix->login.user = settings->user;
    *out_channel = &matrix->base;
    return PAL_OK;
}

static void start(pal_channel *channel, pal_str cursor)
{
    pal_matrix *matrix = pal_matrix_of(channel);

    pal_matrix_poll_end(matrix);
    matrix->is_started = false;
    if (!pal_matrix_poll_from(matrix, cursor))
        pal_channel_failed(channel->account, PAL_NO_MEMORY, 0, "out of memory");
    else
        pal_matrix_account_begin(matrix);
}

static void taken(pal_channel *channel, pal_status status)
{
    pal_matrix_poll_taken(pal_matrix_of(channel), status);
}

static void close_matrix(pal_channel *channel)
{
    pal_matrix *matrix = pal_matrix_of(channel);

    matrix->is_closing = true;
    pal_matrix_poll_end(matrix);
    pal_matrix_call_cancel_all(matrix);
    pal_matrix_join_end(matrix);
    pal_loop_timer_stop(matrix->loop, &matrix->typing_timer);
    pal_matrix_sent_free(matrix);
    pal_matrix_room_free_all(matrix);
    pal_arena_free(matrix->arena);
    pal_free((char *)matrix->cursor.data);
    pal_free(matrix);
}

const pal_channel_kind pal_channel_matrix = {
        .name = "matrix",
        .can = PAL_CHANNEL_CAN_EDIT | PAL_CHANNEL_CAN_REACT | PAL_CHANNEL_CAN_THREAD |
                PAL_CHANNEL_CAN_TYPE | PAL_CHANNEL_CAN_REDACT | PAL_CHANNEL_CAN_MEDIA |
                PAL_CHANNEL_CAN_ONCE,
        .command_sign = '!',
        .piece_bytes_max = PIECE_BYTES_MAX,
        .piece_units_max = PIECE_UNITS_MAX,
        .has_html = true,
        .open = open_matrix,
        .start = start,
        .taken = taken,
        .send = pal_matrix_send,
        .typing = pal_matrix_send_typing,
        .find_sent = pal_matrix_send_find,
        .join = pal_matrix_join,
        .leave = pal_matrix_leave,
        .close = close_matrix,
};
