/* matrix_poll.c - asks for events, again and again. A round is one response: it is completed
 * (matrix_gap.c), translated (matrix_incoming.c), and handed to the host together with the cursor
 * behind it. The next request is sent only after the host has stored the round. */
#include <stdio.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "channel/channel_limits.h"
#include "channel/matrix/matrix.h"
#include "channel/matrix/matrix_url.h"

#define WAIT_MS 30000            /* how long the homeserver waits for events */
#define SYNC_MS 120000           /* maximum time of a request */
#define FIRST_SYNC_MS 1800000    /* the same for the first one, which is long */
#define CURSOR_MS INT64_C(60000) /* a cursor without events is stored as often as this */

static void free_round(pal_matrix_round *round)
{
    if (!round)
        return;
    pal_arena_free(round->arena);
    pal_free(round->body);
    pal_free(round->events);
    pal_free(round);
}

void pal_matrix_poll_end(pal_matrix *matrix)
{
    free_round(matrix->round);
    matrix->round = NULL;
}

static void fail(pal_matrix *matrix, pal_status status, int64_t retry_ms, const char *why)
{
    pal_matrix_poll_end(matrix);
    pal_channel_failed(matrix->base.account, status, retry_ms, why);
}

/* ---- Handing over ---- */

bool pal_matrix_poll_from(pal_matrix *matrix, pal_str cursor)
{
    char *copy = pal_malloc(cursor.len + 1);

    if (!copy)
        return false;
    if (cursor.len)
        memcpy(copy, cursor.data, cursor.len);
    copy[cursor.len] = '\0';
    pal_free((char *)matrix->cursor.data);
    matrix->cursor = pal_str_make(copy, cursor.len);
    return true;
}

/* Goes on after a round. */
static void next_round(pal_matrix *matrix)
{
    bool is_kept = pal_matrix_poll_from(matrix, matrix->round->sync.next_batch);

    pal_matrix_poll_end(matrix);
    if (!is_kept)
        fail(matrix, PAL_NO_MEMORY, 0, "out of memory");
    else
        pal_matrix_poll(matrix);
}

/* Hands over as many events as fit into a batch. Only the last batch has the cursor: until then
 * everything is delivered again after a crash, and the host recognizes it. */
static void hand_part(pal_matrix *matrix)
{
    pal_matrix_round *round = matrix->round;
    size_t left = round->events_len - round->handed;
    size_t len = left < PAL_CHANNEL_BATCH_MAX ? left : PAL_CHANNEL_BATCH_MAX;
    const pal_incoming *events = round->events ? round->events + round->handed : NULL;

    round->handed += len;
    pal_channel_take(matrix->base.account, events, len,
            round->handed == round->events_len ? round->sync.next_batch : (pal_str){0});
}

static void hand_over(pal_matrix *matrix, pal_status status, const char *why)
{
    pal_matrix_round *round = matrix->round;
    pal_error err = {0};

    if (status == PAL_OK) {
        status = pal_matrix_incoming_write(matrix, round, &err);
        why = err.message;
    }
    if (status != PAL_OK) {
        fail(matrix, status, 0, why);
        return;
    }
    matrix->is_started = true;
    pal_channel_ready(matrix->base.account);
    int64_t now = pal_clock_monotonic_ms();
    bool is_due = round->is_first || now - matrix->cursor_at >= CURSOR_MS;
    if (round->events_len == 0 && !is_due) {
        next_round(matrix);
        return;
    }
    matrix->cursor_at = now;
    hand_part(matrix);
}

void pal_matrix_poll_taken(pal_matrix *matrix, pal_status status)
{
    pal_matrix_round *round = matrix->round;

    if (!round)
        return;
    if (status != PAL_OK)
        pal_matrix_poll_end(matrix); /* the host starts again */
    else if (round->handed < round->events_len)
        hand_part(matrix);
    else
        next_round(matrix);
}

/* ---- Asking ---- */

static void on_sync(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    pal_matrix_round *round = matrix->round;
    char why[320];
    pal_error err = {0};

    if (!round || round->number != (uint64_t)(uintptr_t)user || reply->status == PAL_CANCELED)
        return;
    pal_matrix_reply_describe(reply, why, sizeof why);
    if (reply->status != PAL_OK) {
        fail(matrix, PAL_IO, 0, why);
        return;
    }
    switch (reply->failure.fault) {
    case PAL_MATRIX_FAULT_NONE:
        break;
    case PAL_MATRIX_FAULT_REQUEST:
    case PAL_MATRIX_FAULT_MISSING:
        if (matrix->cursor.len && reply->code == 400) {
            /* The homeserver does not know the cursor, for example after it was rolled back. The
             * host knows the events that come a second time. */
            pal_log(PAL_LOG_WARN, "matrix account '%.*s': reading everything again: %s",
                    PAL_STR_ARG(matrix->settings->account), why);
            matrix->is_cursor_refused = true;
            pal_matrix_poll_end(matrix);
            pal_matrix_poll(matrix);
            return;
        }
        fail(matrix, PAL_IO, 0, why);
        return;
    case PAL_MATRIX_FAULT_ACCOUNT:
        fail(matrix, PAL_DENIED, 0, why);
        return;
    default:
        fail(matrix, PAL_IO, reply->failure.retry_ms, why);
        return;
    }
    round->body = pal_malloc(reply->body.len + 1);
    round->arena = pal_arena_new(0);
    if (!round->body || !round->arena) {
        fail(matrix, PAL_NO_MEMORY, 0, "out of memory");
        return;
    }
    memcpy(round->body, reply->body.data, reply->body.len);
    pal_status status = pal_matrix_sync_read(
            pal_str_make(round->body, reply->body.len), round->arena, &round->sync, &err);
    if (status != PAL_OK) {
        fail(matrix, PAL_IO, 0, err.message);
        return;
    }
    matrix->is_cursor_refused = false;
    pal_matrix_direct_keep(matrix, round->sync.direct);
    pal_matrix_gap_fill(matrix, round, hand_over);
}

void pal_matrix_poll(pal_matrix *matrix)
{
    pal_buf url, filter;
    char wait[24];

    if (matrix->round || matrix->is_closing)
        return;
    if (pal_matrix_account_is_due(matrix)) {
        pal_matrix_account_begin(matrix);
        return;
    }
    matrix->round = pal_calloc(1, sizeof *matrix->round);
    if (!matrix->round) {
        pal_channel_failed(matrix->base.account, PAL_NO_MEMORY, 0, "out of memory");
        return;
    }
    bool is_all = matrix->cursor.len == 0 || matrix->is_cursor_refused;
    matrix->round->number = ++matrix->rounds;
    matrix->round->is_first = matrix->cursor.len == 0;
    matrix->round->is_repeated = matrix->is_cursor_refused;
    pal_buf_init(&url, PAL_MATRIX_URL_LEN_MAX);
    pal_buf_init(&filter, PAL_MATRIX_URL_LEN_MAX);
    /* The first response after a start comes at once, so that it is known whether all works. */
    snprintf(wait, sizeof wait, "%d", is_all || !matrix->is_started ? 0 : WAIT_MS);
    pal_matrix_url_write(&url, matrix->settings->url, "/_matrix/client/v3/sync", NULL, 0);
    pal_matrix_url_add(&url, "timeout", pal_str_of(wait));
    pal_matrix_url_add(&url, "set_presence", pal_str_of("offline"));
    pal_matrix_url_add(&url, "use_state_after", pal_str_of("true"));
    if (!is_all)
        pal_matrix_url_add(&url, "since", matrix->cursor);
    pal_matrix_filter_write(matrix->login.user, matrix->round->is_first, &filter);
    pal_matrix_url_add(&url, "filter", pal_buf_str(&filter));
    pal_matrix_request request = {.method = "GET", .url = pal_buf_str(&url),
            .bytes_max = PAL_MATRIX_SYNC_BYTES_MAX, .total_ms = is_all ? FIRST_SYNC_MS : SYNC_MS};
    pal_matrix_call(matrix, &request, on_sync, (void *)(uintptr_t)matrix->round->number);
    pal_buf_done(&filter);
    pal_buf_done(&url);
}
