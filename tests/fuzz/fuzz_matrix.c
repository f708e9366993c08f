/* fuzz_matrix.c - texts as homeservers and people in rooms send them: responses to /sync and
 * /messages, single events, errors and logins. The readers never crash. What they
 * return has usable ids, and everything that is written from it is valid JSON or a URL of one
 * line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/text.h"
#include "channel/matrix/matrix_answer.h"
#include "channel/matrix/matrix_content.h"
#include "channel/matrix/matrix_sync.h"
#include "channel/matrix/matrix_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition) require((condition), #condition, __LINE__)
#define TEXT_LEN_MAX (64u << 10)

static void require(bool held, const char *text, int line)
{
    if (held)
        return;
    fprintf(stderr, "fuzz_matrix.c:%d: %s\n", line, text);
    abort();
}

static void require_json(const pal_buf *buf, pal_arena *arena)
{
    pal_json json;
    REQUIRE(buf->failure == PAL_OK);
    REQUIRE(pal_json_parse(arena, pal_buf_str(buf), NULL, &json, NULL) == PAL_OK);
    REQUIRE(pal_json_type_of(json) == PAL_JSON_OBJECT);
}

/* An answer to the event is valid JSON, whatever the event contains. */
static void answer_event(const pal_matrix_event *event, pal_arena *arena)
{
    pal_buf out;
    pal_matrix_message message = {.text = event->text, .html = event->html,
            .thread = event->thread, .reply_to = event->id, .edits = event->target,
            .mentions = &event->sender, .mentions_len = 1};
    pal_buf_init(&out, SIZE_MAX / 2);
    pal_matrix_content_message(&message, &out);
    require_json(&out, arena);
    REQUIRE(!memmem(out.data, out.len, "@room", 5) || memmem(event->sender.data,
            event->sender.len, "@room", 5));
    pal_buf_clear(&out);
    pal_matrix_content_reaction(event->id, event->key, event->marker, &out);
    require_json(&out, arena);
    pal_buf_clear(&out);
    pal_matrix_url_write(&out, pal_str_of("https://hs"), "/{}/{}",
            (pal_str[]){event->id, event->media.url}, 2);
    REQUIRE(!pal_text_has_control(pal_buf_str(&out)) && !memchr(out.data, ' ', out.len));
    pal_buf_done(&out);
}

static void require_event(const pal_matrix_event *event, pal_arena *arena)
{
    pal_str server, id, user = pal_str_of("@bot:hs");

    REQUIRE(pal_matrix_id_is_valid(event->sender, '@'));
    REQUIRE(!event->id.len || pal_matrix_id_is_valid(event->id, '$'));
    if (event->kind == PAL_MATRIX_EDIT || event->kind == PAL_MATRIX_REACTION ||
            event->kind == PAL_MATRIX_REDACTION)
        REQUIRE(pal_matrix_id_is_valid(event->target, '$'));
    if (event->kind == PAL_MATRIX_MEMBER)
        REQUIRE(pal_matrix_id_is_valid(event->state_key, '@') && event->membership.len > 0);
    if (pal_matrix_url_media(event->media.url, &server, &id))
        REQUIRE(!memchr(id.data, '/', id.len) && !memchr(id.data, '.', id.len));
    (void)pal_matrix_mention_is(event->mentions, event->text, event->html, user);
    REQUIRE(pal_matrix_mention_strip(event->text, user, event->key).len <= event->text.len);
    REQUIRE(pal_matrix_reply_strip(event->text).len <= event->text.len);
    answer_event(event, arena);
}

static void require_events(const pal_matrix_event *events, size_t len, pal_arena *arena)
{
    for (size_t i = 0; i < len; i++) {
        REQUIRE(events[i].kind != PAL_MATRIX_OTHER);
        require_event(&events[i], arena);
    }
}

static void read_sync(pal_str text, pal_arena *arena)
{
    pal_matrix_sync sync;
    pal_error err = {0};
    pal_buf out;

    if (pal_matrix_sync_read(text, arena, &sync, &err) != PAL_OK) {
        REQUIRE(err.message[0] && pal_utf8_is_valid(pal_str_of(err.message)));
        return;
    }
    for (size_t i = 0; i < sync.rooms_len; i++) {
        REQUIRE(pal_matrix_id_is_valid(sync.rooms[i].room, '!'));
        require_events(sync.rooms[i].state, sync.rooms[i].state_len, arena);
        require_events(sync.rooms[i].timeline, sync.rooms[i].timeline_len, arena);
    }
    pal_buf_init(&out, SIZE_MAX / 2);
    pal_matrix_direct_add(sync.direct, pal_str_of("@a:hs"), pal_str_of("!r:hs"), &out);
    require_json(&out, arena);
    pal_json direct;
    REQUIRE(pal_json_parse(arena, pal_buf_str(&out), NULL, &direct, NULL) == PAL_OK);
    REQUIRE(pal_matrix_direct_has(direct, pal_str_of("!r:hs")));
    pal_buf_done(&out);
}

static void read_others(pal_str text, pal_arena *arena)
{
    static const long codes[] = {200, 400, 401, 429, 502};
    pal_matrix_page page;
    pal_matrix_failure failure;
    pal_matrix_login login = {0};
    pal_matrix_event event;
    pal_json json;

    if (pal_matrix_page_read(text, arena, &page, NULL) == PAL_OK)
        require_events(page.events, page.events_len, arena);
    if (pal_json_parse(arena, text, NULL, &json, NULL) == PAL_OK) {
        REQUIRE(pal_matrix_event_read(json, arena, &event, NULL) == PAL_OK);
        if (event.kind != PAL_MATRIX_OTHER)
            require_event(&event, arena);
    }
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        pal_matrix_failure_read(codes[i], text, text, &failure);
        REQUIRE((failure.fault == PAL_MATRIX_FAULT_NONE) == (codes[i] == 200));
        REQUIRE(failure.retry_ms >= 0 && failure.retry_ms <= PAL_MATRIX_RETRY_MS_MAX);
        REQUIRE(!pal_text_has_control(pal_str_of(failure.text)));
    }
    if (pal_matrix_login_read(text, 0, arena, &login, NULL) == PAL_OK)
        REQUIRE(login.access_token.len > 0 && !pal_text_has_control(login.access_token));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pal_str text = pal_str_make((const char *)data, size);
    pal_arena *arena = pal_arena_new(0);

    if (arena && size <= TEXT_LEN_MAX) {
        read_sync(text, arena);
        read_others(text, arena);
    }
    pal_arena_free(arena);
    return 0;
}
