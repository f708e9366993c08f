/* matrix_room.c - what rooms are like, and what people are called. Kept in memory only: after a
 * restart it is asked for when a room has news, with one request for its state. */
#include <stdio.h>
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "channel/matrix/matrix.h"

#define NAMES_MAX 20000u /* display names that are kept; then all are forgotten */
#define NAME_LEN_MAX 256
#define DIRECT_BYTES_MAX (4u << 20)

static char *copy_text(pal_str text)
{
    char *copy = pal_malloc(text.len + 1);
    if (!copy)
        return NULL;
    if (text.len)
        memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return copy;
}

pal_matrix_room *pal_matrix_room_find(const pal_matrix *matrix, pal_str id)
{
    return pal_map_find(&matrix->rooms, id);
}

pal_matrix_room *pal_matrix_room_get(pal_matrix *matrix, pal_str id)
{
    pal_matrix_room *room = pal_matrix_room_find(matrix, id);

    if (room)
        return room;
    room = pal_calloc(1, sizeof *room);
    if (room)
        room->id = copy_text(id);
    if (room && room->id && pal_map_set(&matrix->rooms, pal_str_of(room->id), room) == PAL_OK)
        return room;
    if (room)
        pal_free(room->id);
    pal_free(room);
    return NULL;
}

void pal_matrix_room_free_all(pal_matrix *matrix)
{
    size_t position = 0;
    pal_str key;
    void *value;

    while (pal_map_next(&matrix->rooms, &position, &key, &value)) {
        pal_matrix_room *room = value;
        pal_free(room->name);
        pal_free(room->id);
        pal_free(room);
    }
    pal_map_done(&matrix->rooms);
    position = 0;
    while (pal_map_next(&matrix->names, &position, &key, &value))
        pal_free(value);
    pal_map_done(&matrix->names);
    pal_buf_done(&matrix->direct);
}

/* ---- Names. An entry is the user and the name, each with a NUL. ---- */

static void forget_names(pal_matrix *matrix)
{
    size_t position = 0;
    pal_str key;
    void *value;

    while (pal_map_next(&matrix->names, &position, &key, &value))
        pal_free(value);
    pal_map_done(&matrix->names);
}

pal_str pal_matrix_name_of(const pal_matrix *matrix, pal_str user)
{
    const char *entry = pal_map_find(&matrix->names, user);
    return entry ? pal_str_of(entry + user.len + 1) : (pal_str){0};
}

void pal_matrix_name_keep(pal_matrix *matrix, pal_str user, pal_str name)
{
    if (pal_str_equal(pal_matrix_name_of(matrix, user), name))
        return;
    if (matrix->names.len >= NAMES_MAX)
        forget_names(matrix);
    name.len = pal_utf8_cut(name, NAME_LEN_MAX);
    char *entry = pal_malloc(user.len + name.len + 2);
    if (!entry)
        return; /* a name is only shown */
    memcpy(entry, user.data, user.len);
    entry[user.len] = '\0';
    if (name.len)
        memcpy(entry + user.len + 1, name.data, name.len);
    entry[user.len + 1 + name.len] = '\0';
    char *old = pal_map_remove(&matrix->names, user);
    pal_free(old);
    if (pal_map_set(&matrix->names, pal_str_make(entry, user.len), entry) != PAL_OK)
        pal_free(entry);
}

/* ---- State ---- */

static void set_name(pal_matrix_room *room, pal_str name, bool is_alias)
{
    if (is_alias && room->name)
        return; /* a name counts more */
    pal_free(room->name);
    room->name = name.len ? copy_text(name) : NULL;
}

void pal_matrix_room_take(
        pal_matrix *matrix, pal_matrix_room *room, const pal_matrix_event *event)
{
    switch (event->kind) {
    case PAL_MATRIX_NAME:
        set_name(room, event->text, false);
        break;
    case PAL_MATRIX_ALIAS:
        set_name(room, event->text, true);
        break;
    case PAL_MATRIX_ENCRYPTION:
        room->is_encrypted = true; /* it cannot be switched off */
        break;
    case PAL_MATRIX_CREATE:
        room->is_space = pal_str_is(event->text, "m.space");
        break;
    case PAL_MATRIX_MEMBER:
        if (pal_str_equal(event->state_key, matrix->login.user))
            room->is_joined = pal_str_is(event->membership, "join");
        if (event->text.len)
            pal_matrix_name_keep(matrix, event->state_key, event->text);
        break;
    default:
        break;
    }
}

/* Reads the response to /rooms/ID/state: everything is known afterwards. False: it is not one. */
static bool read_room(pal_matrix *matrix, pal_matrix_room *room, pal_str body)
{
    pal_arena *arena = pal_arena_new(0);
    pal_json json, value;
    pal_matrix_event event;
    bool is_read = arena && pal_json_parse(arena, body, NULL, &json, NULL) == PAL_OK &&
            pal_json_type_of(json) == PAL_JSON_ARRAY;
    pal_json_iter iter = pal_json_each(is_read ? json : (pal_json){0});

    if (is_read)
        room->joined = room->invited = 0;
    while (is_read && pal_json_next(&iter, NULL, &value)) {
        is_read = pal_matrix_event_read(value, arena, &event, NULL) == PAL_OK;
        if (!is_read)
            break;
        pal_matrix_room_take(matrix, room, &event);
        room->joined += pal_str_is(event.membership, "join");
        room->invited += pal_str_is(event.membership, "invite");
    }
    room->is_known = is_read;
    pal_arena_free(arena);
    return is_read;
}

/* ---- Asking ---- */

typedef struct question {
    pal_matrix_on_known on_known;
    void *user;
    char room[PAL_MATRIX_ID_LEN_MAX + 1];
} question;

static void on_state(pal_matrix *matrix, const pal_matrix_reply *reply, void *user)
{
    question *asked = user;
    pal_matrix_room *room = pal_matrix_room_find(matrix, pal_str_of(asked->room));
    pal_status status = reply->status;

    if (status == PAL_OK && reply->failure.fault)
        status = reply->failure.fault == PAL_MATRIX_FAULT_FORBIDDEN ||
                        reply->failure.fault == PAL_MATRIX_FAULT_MISSING
                ? PAL_DENIED
                : reply->failure.fault == PAL_MATRIX_FAULT_RATE ? PAL_BUSY
                                                                : PAL_IO;
    if (status == PAL_OK && (!room || !read_room(matrix, room, reply->body)))
        status = PAL_IO;
    asked->on_known(matrix, status, asked->user);
    pal_free(asked);
}

void pal_matrix_room_ask(
        pal_matrix *matrix, pal_matrix_room *room, pal_matrix_on_known on_known, void *user)
{
    pal_str id = pal_str_of(room->id);
    question *asked = pal_calloc(1, sizeof *asked);

    if (!asked) {
        on_known(matrix, PAL_NO_MEMORY, user);
        return;
    }
    asked->on_known = on_known;
    asked->user = user;
    snprintf(asked->room, sizeof asked->room, "%s", room->id);
    pal_matrix_call_path(matrix, "GET", "/_matrix/client/v3/rooms/{}/state", &id, 1, (pal_str){0},
            on_state, asked);
}

/* ---- Direct chats ---- */

void pal_matrix_direct_keep(pal_matrix *matrix, pal_json direct)
{
    if (pal_json_type_of(direct) != PAL_JSON_OBJECT)
        return;
    pal_buf_done(&matrix->direct);
    pal_buf_init(&matrix->direct, DIRECT_BYTES_MAX);
    pal_buf_append_str(&matrix->direct, pal_json_raw(direct));
    if (matrix->direct.failure)
        pal_buf_clear(&matrix->direct);
}

/* A chat of two is direct if one of them says so, or if nobody has given it a name. */
bool pal_matrix_room_is_direct(
        const pal_matrix *matrix, const pal_matrix_room *room, uint64_t members)
{
    pal_arena *arena;
    pal_json direct;
    bool is_listed = false;

    if (members > 2)
        return false;
    if (!room->name)
        return true;
    arena = pal_arena_new(0);
    if (arena && matrix->direct.len &&
            pal_json_parse(arena, pal_buf_str(&matrix->direct), NULL, &direct, NULL) == PAL_OK)
        is_listed = pal_matrix_direct_has(direct, pal_str_of(room->id));
    pal_arena_free(arena);
    return is_listed;
}
