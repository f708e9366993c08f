/* matrix_sync.c - reads responses with events. A room or an event that is damaged is left out:
 * otherwise one event that a stranger wrote could stop an account for ever. */
#include "base/text.h"
#include "channel/matrix/matrix_sync.h"

static pal_str text_of(pal_json object, const char *name, pal_arena *arena)
{
    return pal_json_string(pal_json_find(object, name), arena);
}

static pal_status parse(const char *what, pal_str text, pal_arena *arena, pal_json *out_json,
        pal_error *err)
{
    pal_error inner = {0};
    pal_status status = pal_json_parse(arena, text, NULL, out_json, &inner);

    if (status == PAL_NO_MEMORY)
        return pal_error_set(err, status, "no memory for %s", what);
    if (status != PAL_OK)
        return pal_error_set(err, PAL_PROVIDER, "%s is not JSON: %s", what, inner.message);
    if (pal_json_type_of(*out_json) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_PROVIDER, "%s is not a JSON object", what);
    return PAL_OK;
}

static pal_status finish(const char *what, pal_arena *arena, pal_error *err)
{
    pal_status failure = pal_arena_failure(arena);
    return failure ? pal_error_set(err, failure, "no memory for %s", what) : PAL_OK;
}

/* Reads the events of a list that mean something. */
static pal_status read_events(pal_json list, pal_arena *arena, const pal_matrix_event **out_events,
        size_t *out_len, pal_error *err)
{
    pal_json_iter iter = pal_json_each(list);
    pal_json value;
    size_t len = 0, count = iter.is_object ? 0 : pal_json_count(list);
    pal_matrix_event *events = count ? pal_arena_array(arena, count, sizeof *events) : NULL;

    *out_events = events;
    *out_len = 0;
    while (events && len < count && pal_json_next(&iter, NULL, &value)) {
        pal_status status = pal_matrix_event_read(value, arena, &events[len], err);
        if (status != PAL_OK)
            return status;
        len += events[len].kind != PAL_MATRIX_OTHER;
    }
    *out_len = len;
    return finish("the events of a room", arena, err);
}

/* ---- /sync ---- */

static pal_json state_of(pal_json room, pal_matrix_section section)
{
    if (section == PAL_MATRIX_INVITED)
        return pal_json_find(pal_json_find(room, "invite_state"), "events");
    pal_json after = pal_json_find(room, "state_after");
    if (pal_json_is_absent(after))
        after = pal_json_find(room, "org.matrix.msc4222.state_after");
    if (pal_json_is_absent(after))
        after = pal_json_find(room, "state");
    return pal_json_find(after, "events");
}

static pal_status read_room(pal_json room, pal_arena *arena, pal_matrix_room_news *news,
        pal_error *err)
{
    pal_json timeline = pal_json_find(room, "timeline");
    pal_json summary = pal_json_find(room, "summary");

    (void)pal_json_bool(pal_json_find(timeline, "limited"), &news->is_limited);
    news->prev_batch = text_of(timeline, "prev_batch", arena);
    news->has_joined =
            pal_json_u64(pal_json_find(summary, "m.joined_member_count"), &news->joined);
    news->has_invited =
            pal_json_u64(pal_json_find(summary, "m.invited_member_count"), &news->invited);
    pal_status status = read_events(state_of(room, news->section), arena, &news->state,
            &news->state_len, err);
    return status != PAL_OK ? status
                            : read_events(pal_json_find(timeline, "events"), arena,
                                      &news->timeline, &news->timeline_len, err);
}

static pal_status read_rooms(pal_json rooms, pal_matrix_section section, pal_arena *arena,
        pal_matrix_room_news *all, size_t *len, pal_error *err)
{
    pal_json_iter iter = pal_json_each(rooms);
    pal_json name, value;

    while (iter.is_object && pal_json_next(&iter, &name, &value)) {
        pal_matrix_room_news *news = &all[*len];
        *news = (pal_matrix_room_news){.room = pal_json_string(name, arena), .section = section};
        if (!pal_matrix_id_is_valid(news->room, '!') ||
                pal_json_type_of(value) != PAL_JSON_OBJECT)
            continue;
        pal_status status = read_room(value, arena, news, err);
        if (status != PAL_OK)
            return status;
        ++*len;
    }
    return PAL_OK;
}

static void read_account_data(pal_json list, pal_matrix_sync *sync)
{
    pal_json_iter iter = pal_json_each(list);
    pal_json event;

    while (!iter.is_object && pal_json_next(&iter, NULL, &event)) {
        pal_json type = pal_json_find(event, "type"), content = pal_json_find(event, "content");
        if (pal_json_string_is(type, "m.direct"))
            sync->direct = content;
        else if (pal_json_string_is(type, "m.ignored_user_list"))
            sync->ignored = pal_json_find(content, "ignored_users");
    }
}

pal_status pal_matrix_sync_read(
        pal_str text, pal_arena *arena, pal_matrix_sync *out_sync, pal_error *err)
{
    static const char *const names[] = {"join", "invite", "leave"};
    pal_json json, rooms, sections[3];
    size_t count = 0;
    pal_status status = parse("the response to /sync", text, arena, &json, err);

    *out_sync = (pal_matrix_sync){0};
    if (status != PAL_OK)
        return status;
    out_sync->next_batch = text_of(json, "next_batch", arena);
    if (!out_sync->next_batch.len)
        return pal_error_set(err, PAL_PROVIDER, "the response to /sync has no 'next_batch'");
    rooms = pal_json_find(json, "rooms");
    for (size_t i = 0; i < 3; i++) {
        sections[i] = pal_json_find(rooms, names[i]);
        count += pal_json_count(sections[i]);
    }
    pal_matrix_room_news *all = count ? pal_arena_array(arena, count, sizeof *all) : NULL;
    for (size_t i = 0; all && i < 3; i++) {
        status = read_rooms(sections[i], (pal_matrix_section)(i + 1), arena, all,
                &out_sync->rooms_len, err);
        if (status != PAL_OK)
            return status;
    }
    out_sync->rooms = all;
    read_account_data(pal_json_find(pal_json_find(json, "account_data"), "events"), out_sync);
    return finish("the response to /sync", arena, err);
}

/* ---- /messages ---- */

pal_status pal_matrix_page_read(
        pal_str text, pal_arena *arena, pal_matrix_page *out_page, pal_error *err)
{
    pal_json json;
    pal_status status = parse("the response to /messages", text, arena, &json, err);

    *out_page = (pal_matrix_page){0};
    if (status != PAL_OK)
        return status;
    pal_json chunk = pal_json_find(json, "chunk");
    if (pal_json_type_of(chunk) != PAL_JSON_ARRAY)
        return pal_error_set(err, PAL_PROVIDER, "the response to /messages has no 'chunk'");
    out_page->end = text_of(json, "end", arena);
    out_page->raw_len = pal_json_count(chunk);
    return read_events(chunk, arena, &out_page->events, &out_page->events_len, err);
}

/* ---- Direct chats ---- */

static bool list_has(pal_json list, pal_str room)
{
    pal_json_iter iter = pal_json_each(list);
    pal_json value;

    while (!iter.is_object && pal_json_next(&iter, NULL, &value)) {
        pal_str raw = pal_json_raw(value);
        if (pal_json_type_of(value) == PAL_JSON_STRING && raw.len >= 2 &&
                pal_str_equal(pal_str_make(raw.data + 1, raw.len - 2), room))
            return true;
    }
    return false;
}

bool pal_matrix_direct_has(pal_json direct, pal_str room)
{
    pal_json_iter iter = pal_json_each(direct);
    pal_json name, value;

    while (iter.is_object && pal_json_next(&iter, &name, &value)) {
        if (list_has(value, room))
            return true;
    }
    return false;
}

void pal_matrix_direct_add(pal_json direct, pal_str user, pal_str room, pal_buf *out)
{
    pal_json_iter iter = pal_json_each(direct), rooms;
    pal_json name, value, element;
    pal_str raw, key;
    pal_json_writer json = pal_json_writer_make(out);
    bool is_there = false;

    pal_json_begin_object(&json);
    while (iter.is_object && pal_json_next(&iter, &name, &value)) {
        raw = pal_json_raw(name);
        key = pal_str_make(raw.data + 1, raw.len - 2);
        if (!pal_str_equal(key, user)) {
            pal_json_name_str(&json, key);
            pal_json_put_raw(&json, pal_json_raw(value));
            continue;
        }
        if (is_there)
            continue;
        is_there = true;
        pal_json_name_str(&json, user);
        pal_json_begin_array(&json);
        rooms = pal_json_each(value);
        while (!rooms.is_object && pal_json_next(&rooms, NULL, &element))
            pal_json_put_raw(&json, pal_json_raw(element));
        if (!list_has(value, room))
            pal_json_put_str(&json, room);
        pal_json_end_array(&json);
    }
    if (!is_there) {
        pal_json_name_str(&json, user);
        pal_json_begin_array(&json);
        pal_json_put_str(&json, room);
        pal_json_end_array(&json);
    }
    pal_json_end_object(&json);
}
