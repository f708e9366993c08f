/* matrix_gap.c - completes a round before it is translated:
 *
 *   1. A limited timeline lacks events. They are read backwards, page by page, up to the cursor.
 *   2. A room that has messages, and that is not known since the start, is asked for its state.
 *   3. The sender of a message that is answered is asked for, unless we know it. Pictures and files
 *      are fetched if they are addressed to us. Without them the message goes on.
 *
 * The cursor moves only if all of that worked. A few requests run at a time. */
#include <stdio.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "channel/matrix/matrix.h"
#include "channel/matrix/matrix_url.h"

#define RUNNING_MAX 4u
#define GAP_EVENTS_MAX 500u /* events of one room; older ones are left out */

typedef enum gap_kind {
    GAP_TIMELINE = 1,
    GAP_ROOM = 2,
    GAP_REPLY = 3,
    GAP_MEDIA = 4,
} gap_kind;

typedef struct pal_matrix_gap {
    gap_kind kind;
    pal_matrix_room_news *news;
    pal_str from;               /* TIMELINE: where the next page begins */
    pal_matrix_event *older;    /* TIMELINE: newest first */
    size_t older_len, older_cap;
    const pal_matrix_event *event; /* REPLY, MEDIA */
    pal_matrix_extra *extra;       /* REPLY, MEDIA: the result */
} gap;

/* A request names its gap by numbers, because the round can be dropped before the response. */
#define INDEX_BITS 24

static void *ticket_of(const pal_matrix_round *round, const gap *running)
{
    return (void *)(uintptr_t)(round->number << INDEX_BITS | (uint64_t)(running - round->gaps));
}

/* Returns NULL if the round was dropped. */
static gap *gap_of(const pal_matrix *matrix, const void *ticket)
{
    uint64_t number = (uint64_t)(uintptr_t)ticket;
    pal_matrix_round *round = matrix->round;

    if (!round || round->number != number >> INDEX_BITS || round->has_failed)
        return NULL;
    return &round->gaps[number & ((1u << INDEX_BITS) - 1)];
}

static void start_gaps(pal_matrix *matrix, pal_matrix_round *round);

static void end_gap(pal_matrix *matrix, pal_status status, const char *why)
{
    pal_matrix_round *round = matrix->round;

    round->gaps_running--;
    if (status != PAL_OK) {
        round->has_failed = true;
        round->on_filled(matrix, status, why);
        return;
    }
    start_gaps(matrix, round);
}

/* ---- Timelines ---- */

/* Puts the older events, in order, before those of the response. */
static bool join_timeline(pal_matrix_round *round, gap *done)
{
    pal_matrix_room_news *news = done->news;
    size_t len = done->older_len + news->timeline_len;
    pal_matrix_event *all = pal_arena_array(round->arena, len ? len : 1, sizeof *all);

    if (!all)
        return false;
    for (size_t i = 0; i < done->older_len; i++)
        all[i] = done->older[done->older_len - 1 - i];
    if (news->timeline_len)
        memcpy(all + done->older_len, news->timeline, news->timeline_len * sizeof *all);
    news->timeline = all;
    news->timeline_len = len;
    return true;
}

/* Keeps the events of a page. Returns false at the first event from before we were in the room. */
static bool keep_page(pal_matrix_round *round, gap *running, const pal_matrix_page *page)
{
    for (size_t i = 0; i < page->events_len; i++) {
        const pal_matrix_event *event = &page->events[i];
        bool is_ours = !event->our_membership.len || pal_str_is(event->our_membership, "join");
        if (!is_ours || running->older_len == GAP_EVENTS_MAX)
            return false;
        if (!pal_arena_reserve(round->arena, &running->older, &running->older_cap,
                    running->older_len + 1, sizeof *running->older))
            return false;
        running->older[running->older_len++] = *event;
    }
    return true;
}

static void ask_page(pal_matrix *matrix, gap *running);

static void on_page(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    gap *running = gap_of(matrix, user);
    char why[320];
    pal_matrix_page page;
    pal_error err = {0};

    if (reply->status == PAL_CANCELED || !running)
        return;
    pal_matrix_round *round = matrix->round;
    pal_matrix_reply_describe(reply, why, sizeof why);
    if (reply->status != PAL_OK || reply->failure.fault) {
        bool is_gone = reply->failure.fault == PAL_MATRIX_FAULT_FORBIDDEN ||
                reply->failure.fault == PAL_MATRIX_FAULT_MISSING;
        end_gap(matrix, is_gone ? PAL_OK : PAL_IO, why);
        return;
    }
    /* The events point into the text, which is the caller's. */
    pal_str body = pal_arena_copy(round->arena, reply->body);
    pal_status status = pal_matrix_page_read(body, round->arena, &page, &err);
    if (status != PAL_OK) {
        end_gap(matrix, status, err.message);
        return;
    }
    bool goes_on = keep_page(round, running, &page) && page.end.len > 0 &&
            !pal_str_equal(page.end, running->from);
    if (pal_arena_failure(round->arena)) {
        end_gap(matrix, PAL_NO_MEMORY, "out of memory");
    } else if (goes_on) {
        running->from = page.end;
        ask_page(matrix, running);
    } else {
        if (running->older_len == GAP_EVENTS_MAX)
            pal_log(PAL_LOG_WARN,
                    "matrix account '%.*s': only the newest %u missed events of room '%.*s' were "
                    "read",
                    PAL_STR_ARG(matrix->settings->account), GAP_EVENTS_MAX,
                    PAL_STR_ARG(running->news->room));
        bool is_joined = join_timeline(round, running);
        end_gap(matrix, is_joined ? PAL_OK : PAL_NO_MEMORY, "out of memory");
    }
}

static void ask_page(pal_matrix *matrix, gap *running)
{
    pal_buf url, filter;

    pal_buf_init(&url, PAL_MATRIX_URL_LEN_MAX);
    pal_buf_init(&filter, PAL_MATRIX_URL_LEN_MAX);
    pal_matrix_filter_write_timeline(matrix->login.user, &filter);
    pal_matrix_url_write(&url, matrix->settings->url, "/_matrix/client/v3/rooms/{}/messages",
            &running->news->room, 1);
    pal_matrix_url_add(&url, "dir", pal_str_of("b"));
    pal_matrix_url_add(&url, "limit", pal_str_of("100"));
    pal_matrix_url_add(&url, "from", running->from);
    if (matrix->cursor.len && !matrix->round->is_repeated)
        pal_matrix_url_add(&url, "to", matrix->cursor);
    pal_matrix_url_add(&url, "filter", pal_buf_str(&filter));
    pal_matrix_request request = {.method = "GET", .url = pal_buf_str(&url)};
    pal_matrix_call(matrix, &request, on_page, ticket_of(matrix->round, running));
    pal_buf_done(&filter);
    pal_buf_done(&url);
}

/* ---- Rooms ---- */

static void on_known(pal_matrix *matrix, pal_status status, void *user)
{
    gap *running = gap_of(matrix, user);

    if (status == PAL_CANCELED || !running)
        return;
    /* A room that we are not in any more has no state for us, and its events are old news. */
    end_gap(matrix, status == PAL_DENIED ? PAL_OK : status, "the state of a room cannot be read");
}

/* ---- Replies ---- */

static void on_event(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    gap *running = gap_of(matrix, user);

    if (reply->status == PAL_CANCELED || !running)
        return;
    if (reply->status != PAL_OK || reply->failure.fault == PAL_MATRIX_FAULT_AGAIN ||
            reply->failure.fault == PAL_MATRIX_FAULT_RATE) {
        end_gap(matrix, PAL_IO, "the message that a reply answers cannot be read");
        return;
    }
    pal_arena *arena = pal_arena_new(0);
    if (arena && !reply->failure.fault)
        running->extra->answers_me = pal_str_equal(
                pal_matrix_answer_text(reply->body, "sender", arena), matrix->login.user);
    pal_arena_free(arena);
    end_gap(matrix, PAL_OK, "");
}

static void ask_event(pal_matrix *matrix, gap *running)
{
    pal_str texts[] = {running->news->room, running->event->reply_to};
    pal_matrix_call_path(matrix, "GET", "/_matrix/client/v3/rooms/{}/event/{}", texts, 2,
            (pal_str){0}, on_event, ticket_of(matrix->round, running));
}

/* ---- Media ---- */

static void on_media(pal_matrix *matrix, pal_str media_type, pal_str data, void *user)
{
    gap *running = gap_of(matrix, user);

    if (!running)
        return;
    running->extra->data = pal_arena_copy(matrix->round->arena, data);
    running->extra->media_type = pal_arena_copy(matrix->round->arena, media_type);
    end_gap(matrix, PAL_OK, "");
}

/* ---- Everything ---- */

static gap *add_gap(
        pal_matrix_round *round, gap_kind kind, size_t *cap, pal_matrix_room_news *news)
{
    if (round->gaps_len >> INDEX_BITS ||
            !pal_arena_reserve(
                    round->arena, &round->gaps, cap, round->gaps_len + 1, sizeof *round->gaps))
        return NULL;
    gap *added = &round->gaps[round->gaps_len++];
    *added = (gap){.kind = kind, .news = news};
    return added;
}

/* Finds the missing timelines and the unknown rooms. */
static bool find_first(pal_matrix *matrix, pal_matrix_round *round)
{
    size_t cap = 0;

    for (size_t i = 0; i < round->sync.rooms_len; i++) {
        pal_matrix_room_news *news = &round->rooms[i];
        pal_matrix_room *room = pal_matrix_room_get(matrix, news->room);
        gap *added = NULL;
        if (!room)
            return false;
        if (news->section != PAL_MATRIX_JOINED)
            continue;
        if (news->is_limited && news->prev_batch.len && !round->is_first) {
            added = add_gap(round, GAP_TIMELINE, &cap, news);
            if (!added)
                return false;
            added->from = news->prev_batch;
        }
        /* A first response has the whole state. */
        if (round->is_first || round->is_repeated)
            room->is_known = true;
        else if (!room->is_known && !add_gap(round, GAP_ROOM, &cap, news))
            return false;
    }
    return true;
}

/* Whether the file of a message is worth its bytes: probably the message gets an answer. */
static bool is_wanted(const pal_matrix *matrix, const pal_matrix_room_news *news,
        const pal_matrix_event *event)
{
    const pal_matrix_room *room = pal_matrix_room_find(matrix, news->room);
    uint64_t members = news->has_joined ? news->joined : room ? room->joined : 0;
    pal_str server, id;

    return event->has_media && event->media.bytes <= PAL_MATRIX_MEDIA_BYTES_MAX &&
            pal_matrix_url_media(event->media.url, &server, &id) &&
            (event->reply_to.len || members <= 2 ||
                    pal_matrix_mention_is(
                            event->mentions, event->text, event->html, matrix->login.user));
}

static bool find_about(pal_matrix *matrix, pal_matrix_round *round, pal_matrix_room_news *news,
        const pal_matrix_event *event, pal_matrix_extra *extra, size_t *cap)
{
    bool is_reply = event->kind == PAL_MATRIX_MESSAGE && event->reply_to.len > 0;
    gap *added;

    extra->answers_me = is_reply && pal_matrix_sent_has(matrix, event->reply_to);
    if (is_reply && !extra->answers_me) {
        added = add_gap(round, GAP_REPLY, cap, news);
        if (!added)
            return false;
        added->event = event;
        added->extra = extra;
    }
    if (is_wanted(matrix, news, event)) {
        added = add_gap(round, GAP_MEDIA, cap, news);
        if (!added)
            return false;
        added->event = event;
        added->extra = extra;
    }
    return true;
}

/* Finds out what is missing about messages. Now the timelines are complete. */
static bool find_second(pal_matrix *matrix, pal_matrix_round *round)
{
    size_t cap = 0, count = 0, at = 0;

    for (size_t i = 0; i < round->sync.rooms_len; i++)
        count += round->rooms[i].timeline_len;
    round->gaps = NULL;
    round->gaps_len = round->gaps_next = 0;
    round->extras = pal_arena_array(round->arena, count ? count : 1, sizeof *round->extras);
    if (!round->extras)
        return false;
    for (size_t i = 0; i < round->sync.rooms_len; i++) {
        pal_matrix_room_news *news = &round->rooms[i];
        for (size_t j = 0; j < news->timeline_len && !round->is_first; j++) {
            if (!find_about(matrix, round, news, &news->timeline[j], &round->extras[at + j], &cap))
                return false;
        }
        at += news->timeline_len;
    }
    return true;
}

/* Starts as many as may run. Each of them calls end_gap() later. */
static void start_gaps(pal_matrix *matrix, pal_matrix_round *round)
{
    uint64_t number = round->number;

    while (round->gaps_next < round->gaps_len && round->gaps_running < RUNNING_MAX) {
        gap *next = &round->gaps[round->gaps_next++];
        pal_matrix_room *room = pal_matrix_room_find(matrix, next->news->room);
        round->gaps_running++;
        if (next->kind == GAP_TIMELINE)
            ask_page(matrix, next);
        else if (next->kind == GAP_ROOM && room)
            pal_matrix_room_ask(matrix, room, on_known, ticket_of(round, next));
        else if (next->kind == GAP_REPLY)
            ask_event(matrix, next);
        else if (next->kind == GAP_MEDIA)
            pal_matrix_media_fetch(
                    matrix, next->event->media.url, on_media, ticket_of(round, next));
        else
            round->gaps_running--; /* there is no such room */
        if (matrix->round != round || round->number != number)
            return; /* it failed at once, and the round was dropped */
    }
    if (round->gaps_running || round->has_failed)
        return;
    if (!round->extras) {
        if (find_second(matrix, round))
            start_gaps(matrix, round);
        else
            round->on_filled(matrix, PAL_NO_MEMORY, "out of memory");
        return;
    }
    round->on_filled(matrix, PAL_OK, "");
}

void pal_matrix_gap_fill(
        pal_matrix *matrix, pal_matrix_round *round, pal_matrix_on_filled on_filled)
{
    size_t len = round->sync.rooms_len;

    round->on_filled = on_filled;
    round->rooms = pal_arena_array(round->arena, len ? len : 1, sizeof *round->rooms);
    if (round->rooms && len)
        memcpy(round->rooms, round->sync.rooms, len * sizeof *round->rooms);
    if (!round->rooms || !find_first(matrix, round)) {
        on_filled(matrix, PAL_NO_MEMORY, "out of memory");
        return;
    }
    start_gaps(matrix, round);
}
