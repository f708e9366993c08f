/* matrix_join.c - accepts invitations and leaves rooms. The host learns the result from the next
 * response to /sync, so a crash in between loses nothing: an invitation that was not accepted is
 * in the host's hands, and joining or leaving twice is harmless. */
#include <stdio.h>
#include "base/json/json_put.h"
#include "base/log.h"
#include "base/memory.h"
#include "channel/matrix/matrix.h"
#include "channel/matrix/matrix_url.h"

#define TRIES_MAX 5u
#define RETRY_MS 5000
#define DIRECT_BYTES_MAX (4u << 20)
#define ENCRYPTED_REASON                                                                           \
    "I can't read encrypted rooms. Please invite me to a room without encryption."

typedef struct pal_matrix_joining {
    pal_matrix *matrix;
    unsigned tries;
    pal_timer timer;
    struct pal_matrix_joining *previous, *next; /* those that wait for their timer */
    char room[PAL_MATRIX_ID_LEN_MAX + 1];
    char server[PAL_MATRIX_ID_LEN_MAX + 1];
} joining;

static void try_join(joining *j);

static void on_again(pal_timer *timer)
{
    try_join((joining *)((char *)timer - offsetof(joining, timer)));
}

static void on_joined(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    joining *j = user;
    char why[320];
    pal_matrix_fault fault = reply->failure.fault;
    bool is_temporary = reply->status != PAL_OK || fault == PAL_MATRIX_FAULT_RATE ||
            fault == PAL_MATRIX_FAULT_AGAIN;
    int64_t wait = reply->failure.retry_ms ? reply->failure.retry_ms : RETRY_MS << j->tries;

    if (reply->status == PAL_OK && !fault) {
        pal_free(j);
        return;
    }
    if (is_temporary && reply->status != PAL_CANCELED && !matrix->is_closing &&
            ++j->tries < TRIES_MAX &&
            pal_loop_timer_start(matrix->loop, &j->timer, wait, on_again)) {
        j->next = matrix->joins;
        if (j->next)
            j->next->previous = j;
        matrix->joins = j;
        return;
    }
    pal_matrix_reply_describe(reply, why, sizeof why);
    if (reply->status != PAL_CANCELED)
        pal_log(PAL_LOG_WARN, "matrix account '%.*s': joining room '%s' failed: %s",
                PAL_STR_ARG(matrix->settings->account), j->room, why);
    pal_free(j);
}

static void unlink_join(joining *j)
{
    if (j->previous)
        j->previous->next = j->next;
    else if (j->matrix->joins == j)
        j->matrix->joins = j->next;
    if (j->next)
        j->next->previous = j->previous;
    j->previous = j->next = NULL;
}

static void try_join(joining *j)
{
    pal_str room = pal_str_of(j->room);
    pal_buf url;

    unlink_join(j);
    pal_buf_init(&url, PAL_MATRIX_URL_LEN_MAX);
    pal_matrix_url_write(&url, j->matrix->settings->url, "/_matrix/client/v3/join/{}", &room, 1);
    if (j->server[0]) {
        pal_matrix_url_add(&url, "via", pal_str_of(j->server));
        pal_matrix_url_add(&url, "server_name", pal_str_of(j->server)); /* older homeservers */
    }
    pal_matrix_request request = {.method = "POST", .url = pal_buf_str(&url),
            .body = pal_str_of("{}")};
    pal_matrix_call(j->matrix, &request, on_joined, j);
    pal_buf_done(&url);
}

void pal_matrix_join(pal_channel *channel, pal_str chat, pal_str inviter)
{
    joining *j = pal_calloc(1, sizeof *j);
    pal_str server = pal_matrix_id_server(inviter);

    if (!j || chat.len > PAL_MATRIX_ID_LEN_MAX || server.len > PAL_MATRIX_ID_LEN_MAX) {
        pal_free(j);
        return;
    }
    j->matrix = pal_matrix_of(channel);
    memcpy(j->room, chat.data, chat.len);
    if (server.len)
        memcpy(j->server, server.data, server.len);
    try_join(j);
}

void pal_matrix_join_end(pal_matrix *matrix)
{
    while (matrix->joins) {
        joining *j = matrix->joins;
        pal_loop_timer_stop(matrix->loop, &j->timer);
        unlink_join(j);
        pal_free(j);
    }
}

/* ---- Leaving ---- */

static void on_left(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    char why[320];

    if (reply->status == PAL_CANCELED || (reply->status == PAL_OK && !reply->failure.fault))
        return;
    pal_matrix_reply_describe(reply, why, sizeof why);
    pal_log(PAL_LOG_WARN, "matrix account '%.*s': leaving a room failed: %s",
            PAL_STR_ARG(matrix->settings->account), why);
}

void pal_matrix_leave(pal_channel *channel, pal_str chat, pal_str reason)
{
    pal_buf body;

    pal_buf_init(&body, 8192);
    pal_json_writer json = pal_json_writer_make(&body);
    pal_json_begin_object(&json);
    pal_put_str_if(&json, "reason", reason);
    pal_json_end_object(&json);
    pal_matrix_call_path(pal_matrix_of(channel), "POST", "/_matrix/client/v3/rooms/{}/leave",
            &chat, 1, pal_buf_str(&body), on_left, NULL);
    pal_buf_done(&body);
}

void pal_matrix_leave_encrypted(pal_matrix *matrix, pal_str room)
{
    pal_matrix_leave(&matrix->base, room, pal_str_of(ENCRYPTED_REASON));
}

/* ---- Direct chats ---- */

static void on_direct(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    char why[320];

    if (reply->status == PAL_CANCELED || (reply->status == PAL_OK && !reply->failure.fault))
        return;
    pal_matrix_reply_describe(reply, why, sizeof why);
    pal_log(PAL_LOG_WARN, "matrix account '%.*s': writing m.direct failed: %s",
            PAL_STR_ARG(matrix->settings->account), why);
}

void pal_matrix_join_direct(pal_matrix *matrix, pal_str user, pal_str room)
{
    pal_arena *arena = pal_arena_new(0);
    pal_json direct = {0};
    pal_buf body;

    pal_buf_init(&body, DIRECT_BYTES_MAX);
    if (arena && matrix->direct.len)
        (void)!pal_json_parse(arena, pal_buf_str(&matrix->direct), NULL, &direct, NULL);
    pal_matrix_direct_add(direct, user, room, &body);
    if (arena && !body.failure &&
            !pal_str_equal(pal_buf_str(&body), pal_buf_str(&matrix->direct))) {
        if (pal_json_parse(arena, pal_buf_str(&body), NULL, &direct, NULL) == PAL_OK)
            pal_matrix_direct_keep(matrix, direct);
        pal_matrix_call_path(matrix, "PUT", "/_matrix/client/v3/user/{}/account_data/m.direct",
                &matrix->login.user, 1, pal_buf_str(&body), on_direct, NULL);
    }
    pal_buf_done(&body);
    pal_arena_free(arena);
}
