/* api_picoclaw.c - the session routes of PicoClaw's launcher, in its formats, codes and texts:
 * list, detail, delete. PicoClaw is a personal assistant that keeps its sessions in JSONL files.
 * The launcher is its web page.
 *
 * Only sessions of the page's own channel, "pico", are shown. The id of such a session is the text
 * after "pico:" in the scope or in a legacy key. A chat and the legacy session that it continues
 * have the same id, and are one session here. Deleting a session moves it to the trash. */
#include <stdio.h>
#include <string.h>
#include "base/json/json_put.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_part.h"
#include "dialect/dialect_text.h"
#include "server/api/api_object.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"

#define PICO "pico:"
#define LEGACY_START "agent:"
#define LEGACY_MIDDLE ":pico:direct:pico:"
#define TITLE_CHARS 60
#define LIMIT_DEFAULT 20

/* ---- Sessions of the page ---- */

static pal_str trimmed(pal_str text)
{
    while (text.len && strchr(" \t\r\n", text.data[0]))
        text = pal_str_make(text.data + 1, text.len - 1);
    while (text.len && strchr(" \t\r\n", text.data[text.len - 1]))
        text.len--;
    return text;
}

/* Returns the text after the first `mark`; empty if the mark does not occur. */
static pal_str text_after(pal_str text, const char *mark)
{
    size_t len = strlen(mark);
    for (size_t i = 0; i + len <= text.len; i++) {
        if (memcmp(text.data + i, mark, len) == 0)
            return trimmed(pal_str_make(text.data + i + len, text.len - i - len));
    }
    return (pal_str){0};
}

/* Reads the id from a legacy key: "agent:A:pico:direct:pico:ID". */
static pal_str legacy_id(pal_str key)
{
    bool is_legacy = key.len > sizeof LEGACY_START - 1 &&
            memcmp(key.data, LEGACY_START, sizeof LEGACY_START - 1) == 0;
    return is_legacy ? text_after(key, LEGACY_MIDDLE) : (pal_str){0};
}

/* Returns the page's id of a session, in the arena. Empty if the session does not belong to the
 * page. */
static pal_str pico_id(const pal_session *session, pal_arena *arena)
{
    pal_json scope = {0};
    pal_str id = {0};
    if (session->scope.len)
        (void)!pal_json_parse(arena, session->scope, NULL, &scope, NULL);
    pal_str channel = trimmed(pal_member_string(scope, "channel", arena));
    if (pal_text_is_nocase(channel, "pico")) {
        pal_json values = pal_json_find(scope, "values");
        id = text_after(pal_member_string(values, "sender", arena), PICO);
        if (!id.len)
            id = text_after(pal_member_string(values, "chat", arena), PICO);
    } else if (channel.len) {
        return id;
    }
    if (!id.len)
        id = legacy_id(session->key);
    for (size_t i = 0; !id.len && i < session->aliases_len; i++)
        id = legacy_id(session->aliases[i]);
    return id;
}

/* ---- Entries of messages ---- */

static bool is_media(const pal_part *part)
{
    return part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE;
}

static bool is_said(const pal_message *message, pal_arena *arena)
{
    return trimmed(pal_dialect_text(message, arena)).len > 0 ||
            pal_part_is_in(message, PAL_PART_IMAGE) || pal_part_is_in(message, PAL_PART_FILE);
}

/* Returns how many entries of the list the message counts as. Tool calls are one entry, reasoning
 * is not counted. */
static size_t count_entries(const pal_message *message, pal_arena *arena)
{
    if (message->role == PAL_ROLE_USER)
        return is_said(message, arena);
    if (message->role != PAL_ROLE_ASSISTANT)
        return 0;
    return (size_t)pal_part_is_in(message, PAL_PART_TOOL_CALL) + is_said(message, arena);
}

static void put_seconds(pal_json_writer *writer, const char *name, int64_t ms)
{
    char text[PAL_TIME_TEXT_SIZE];
    size_t len = pal_time_to_text(ms - ms % 1000, text);
    pal_str shown = pal_str_make(text, len);
    if (len > 5 && memcmp(text + len - 5, ".000Z", 5) == 0) {
        text[len - 5] = 'Z';
        shown.len = len - 4;
    }
    pal_put_str(writer, name, shown);
}

static void put_media(pal_json_writer *writer, const pal_message *message)
{
    bool is_begun = false;
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        char url[PAL_BLOB_NAME_SIZE + 32];
        if (!is_media(part) || (!part->url.len && !part->blob.len))
            continue;
        if (!is_begun) {
            pal_json_name(writer, "media");
            pal_json_begin_array(writer);
        }
        is_begun = true;
        snprintf(url, sizeof url, "/api/v1/blobs/%.*s", PAL_STR_ARG(part->blob));
        pal_json_put_str(writer, part->url.len ? part->url : pal_str_of(url));
    }
    if (is_begun)
        pal_json_end_array(writer);
}

static void begin_entry(pal_json_writer *writer, const pal_message *message, pal_str content)
{
    pal_json_begin_object(writer);
    pal_put_text(writer, "role", pal_role_name(message->role));
    pal_put_str(writer, "content", content);
    put_seconds(writer, "created_at", message->created_at);
}

static void put_calls(pal_json_writer *writer, const pal_message *message)
{
    begin_entry(writer, message, (pal_str){0});
    pal_put_text(writer, "kind", "tool_calls");
    pal_json_name(writer, "tool_calls");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        if (part->kind != PAL_PART_TOOL_CALL)
            continue;
        pal_json_begin_object(writer);
        pal_put_str(writer, "id", part->call_id);
        pal_put_text(writer, "type", "function");
        pal_json_name(writer, "function");
        pal_json_begin_object(writer);
        pal_put_str(writer, "name", part->name);
        pal_put_str(writer, "arguments", part->arguments);
        pal_json_end_object(writer);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
    pal_json_end_object(writer);
}

static void put_thoughts(pal_json_writer *writer, const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        if (part->kind != PAL_PART_REASONING || !trimmed(part->text).len)
            continue;
        begin_entry(writer, message, part->text);
        pal_put_text(writer, "kind", "thought");
        pal_json_end_object(writer);
    }
}

static void put_entries(pal_json_writer *writer, const pal_message *message, pal_arena *arena)
{
    bool is_assistant = message->role == PAL_ROLE_ASSISTANT;
    if (!is_assistant && message->role != PAL_ROLE_USER)
        return;
    if (is_assistant)
        put_thoughts(writer, message);
    if (is_assistant && pal_part_is_in(message, PAL_PART_TOOL_CALL))
        put_calls(writer, message);
    if (!is_said(message, arena))
        return;
    begin_entry(writer, message, pal_dialect_text(message, arena));
    put_media(writer, message);
    pal_json_end_object(writer);
}

static pal_status load_shown(
        pal_call *call, const pal_session *session, pal_message_page *out_list, pal_error *err)
{
    pal_message_query load = {.limit = PAL_SERVER_CONVERSATION_MESSAGES_MAX, .from_end = true};
    return pal_store_load(call->server->store, call->caller.tenant, session->id, &load, call->arena,
            out_list, err);
}

/* ---- The list ---- */

static size_t cut_chars(pal_str text, size_t chars)
{
    size_t at = 0;
    for (size_t seen = 0; at < text.len; at++) {
        if (((unsigned char)text.data[at] & 0xc0) != 0x80 && seen++ == chars)
            break;
    }
    return at;
}

static pal_str preview_of(const pal_message_page *list, pal_arena *arena)
{
    for (size_t i = 0; i < list->len; i++) {
        const pal_message *message = &list->items[i];
        if (message->role != PAL_ROLE_USER)
            continue;
        pal_str text = trimmed(pal_dialect_text(message, arena));
        size_t cut = cut_chars(text, TITLE_CHARS);
        char title[4 * TITLE_CHARS + 4];
        if (cut < text.len) {
            snprintf(title, sizeof title, "%.*s...", (int)cut, text.data);
            return pal_arena_copy(arena, pal_str_of(title));
        }
        if (text.len)
            return text;
        if (pal_part_is_in(message, PAL_PART_IMAGE))
            return pal_str_of("[image]");
        if (pal_part_is_in(message, PAL_PART_FILE))
            return pal_str_of("[attachment]");
    }
    return pal_str_of("(empty)");
}

static pal_status put_item(
        pal_call *call, const pal_session *session, pal_str id, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    pal_message_page list;
    uint64_t count = 0;
    pal_status status = load_shown(call, session, &list, err);
    if (status != PAL_OK)
        return status;
    pal_str preview = preview_of(&list, call->arena);
    for (size_t i = 0; i < list.len; i++)
        count += count_entries(&list.items[i], call->arena);
    pal_json_begin_object(writer);
    pal_put_str(writer, "id", id);
    pal_put_str(writer, "title", preview);
    pal_put_str(writer, "preview", preview);
    pal_put_count(writer, "message_count", count);
    put_seconds(writer, "created", session->created_at);
    put_seconds(writer, "updated", session->updated_at);
    pal_json_end_object(writer);
    return pal_arena_checked(call->arena, err);
}

/* The page does not list sessions that have neither visible messages nor a summary. */
static pal_status is_empty(
        pal_call *call, const pal_session *session, bool *out_empty, pal_error *err)
{
    uint64_t count = 0;
    pal_str summary = {0};
    pal_status status = pal_store_count(
            call->server->store, call->caller.tenant, session->id, 0, 0, &count, err);
    if (status == PAL_OK && count == 0)
        status = pal_window_summary(call->server->store, call->caller.tenant, session->id,
                call->arena, &summary, err);
    *out_empty = count == 0 && trimmed(summary).len == 0;
    return status;
}

/* A value that is not a valid number is ignored. */
static uint64_t query_number(pal_call *call, const char *name, uint64_t min, uint64_t otherwise)
{
    pal_str text;
    uint64_t number;
    bool is_given = pal_exchange_query(call->exchange, name, &text) &&
            pal_call_number(text, &number) && number >= min;
    return is_given ? number : otherwise;
}

/* The newest session with an id, ignoring case. */
typedef struct pico_newest {
    pal_str id;
    pal_id parent;
} pico_newest;

/* Sets *out_is_old if a newer session has the same id, or continues this session. `newest` has the
 * sessions so far by their ids in lower case. */
static pal_status compare_newest(pal_call *call, pal_map *newest, const pal_session *session,
        pal_str id, bool *out_is_old, pal_error *err)
{
    pal_str lower = pal_call_lower(call, id);
    pico_newest *first = pal_map_find(newest, lower);
    *out_is_old = first &&
            (pal_str_equal(first->id, id) || pal_id_equal(first->parent, session->id));
    if (first)
        return PAL_OK;
    first = pal_arena_alloc(call->arena, sizeof *first);
    if (!first || pal_map_set(newest, lower, first) != PAL_OK)
        return pal_no_memory(err);
    *first = (pico_newest){id, session->parent_id};
    return PAL_OK;
}

/* Called for each session of the page, newest update first. Iteration ends if it sets *go_on to
 * false. */
typedef pal_status (*pico_sink)(
        pal_call *call, const pal_session *session, pal_str id, bool *go_on, pal_error *err);

static pal_status visit_session(pal_call *call, const pal_session *session, pal_map *newest,
        pico_sink sink, bool *go_on, pal_error *err)
{
    pal_str id = pico_id(session, call->arena);
    bool is_left_out = false;
    if (id.len == 0)
        return PAL_OK;
    pal_status status = is_empty(call, session, &is_left_out, err);
    if (status != PAL_OK || is_left_out)
        return status;
    status = compare_newest(call, newest, session, id, &is_left_out, err);
    if (status != PAL_OK || is_left_out)
        return status;
    return sink(call, session, id, go_on, err);
}

static pal_status each_session(pal_call *call, pico_sink sink, pal_error *err)
{
    pal_session_query query = {.tenant = call->caller.tenant, .limit = PAL_SESSION_PAGE_MAX};
    pal_session_page page;
    pal_map newest;
    pal_status status;
    size_t seen = 0;
    bool go_on = true;
    pal_map_init(&newest);
    do {
        status = pal_store_list(call->server->store, &query, call->arena, &page, err);
        for (size_t i = 0; status == PAL_OK && go_on && i < page.sessions_len; i++)
            status = visit_session(call, &page.sessions[i], &newest, sink, &go_on, err);
        if (status != PAL_OK)
            break;
        seen += page.sessions_len;
        query.cursor = page.cursor;
    } while (go_on && page.cursor.len && seen < PAL_SERVER_PICO_SESSIONS_MAX);
    pal_map_done(&newest);
    return status;
}

typedef struct pico_list {
    uint64_t skip;
    uint64_t left;
} pico_list;

static pal_status list_one(
        pal_call *call, const pal_session *session, pal_str id, bool *go_on, pal_error *err)
{
    pico_list *list = call->user;
    if (list->skip > 0) {
        list->skip--;
        return PAL_OK;
    }
    pal_status status = put_item(call, session, id, err);
    *go_on = --list->left > 0;
    return status;
}

static pal_status list_sessions(pal_call *call, pal_error *err)
{
    pico_list list = {.skip = query_number(call, "offset", 0, 0),
            .left = query_number(call, "limit", 1, LIMIT_DEFAULT)};
    if (list.left > PAL_SESSION_PAGE_MAX)
        list.left = PAL_SESSION_PAGE_MAX;
    call->user = &list;
    pal_json_begin_array(pal_call_writer(call));
    pal_status status = each_session(call, list_one, err);
    pal_json_end_array(pal_call_writer(call));
    call->user = NULL;
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

/* ---- One session ---- */

/* Routing converts the id of a chat to lower case, but the page uses the original id. An exact
 * match is preferred to one that differs in case. */
typedef struct pico_search {
    pal_str id;
    pal_str lower;
    pal_session session;
    bool is_found;
} pico_search;

static pal_status compare_one(
        pal_call *call, const pal_session *session, pal_str id, bool *go_on, pal_error *err)
{
    pico_search *search = call->user;
    bool is_same = pal_str_equal(id, search->id);
    if (is_same ||
            (!search->is_found && pal_str_equal(pal_call_lower(call, id), search->lower))) {
        search->session = *session;
        search->is_found = true;
    }
    *go_on = !is_same;
    return pal_arena_checked(call->arena, err);
}

static pal_status find_session(pal_call *call, pal_session *out_session, pal_error *err)
{
    pico_search search = {.id = call->params[0],
            .lower = pal_call_lower(call, call->params[0])};
    call->user = &search;
    pal_status status = each_session(call, compare_one, err);
    call->user = NULL;
    *out_session = search.session;
    return status == PAL_OK && !search.is_found ? PAL_NOT_FOUND : status;
}

/* Fails with the launcher's texts, which are plain text. */
static pal_status not_found(pal_call *call)
{
    pal_exchange_answer(call->exchange, 404, "text/plain; charset=utf-8",
            pal_str_of("session not found\n"));
    return PAL_OK;
}

static pal_status get_session(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_message_page list;
    pal_str summary = {0};
    pal_status status = find_session(call, &session, err);
    if (status == PAL_NOT_FOUND)
        return not_found(call);
    if (status != PAL_OK)
        return status;
    status = load_shown(call, &session, &list, err);
    if (status != PAL_OK)
        return status;
    status = pal_window_summary(call->server->store, call->caller.tenant, session.id,
            call->arena, &summary, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_str(writer, "id", call->params[0]);
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < list.len; i++)
        put_entries(writer, &list.items[i], call->arena);
    pal_json_end_array(writer);
    pal_put_str(writer, "summary", summary);
    put_seconds(writer, "created", session.created_at);
    put_seconds(writer, "updated", session.updated_at);
    pal_json_end_object(writer);
    status = pal_arena_checked(call->arena, err);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

/* Finds the legacy session that a chat continues. PAL_NOT_FOUND if there is none. */
static pal_status find_continued(
        pal_call *call, const pal_session *session, pal_session *out_session, pal_error *err)
{
    pal_arena *arena = call->arena;
    char id[PAL_ID_TEXT_SIZE];
    if (pal_id_is_none(session->parent_id))
        return PAL_NOT_FOUND;
    pal_id_to_text(session->parent_id, id);
    pal_status status = pal_store_find(call->server->store, call->caller.tenant, PAL_SESSION_BY_ID,
            pal_str_of(id), arena, out_session, err);
    if (status != PAL_OK)
        return status;
    pal_str one = pal_call_lower(call, pico_id(session, arena));
    pal_str other = pal_call_lower(call, pico_id(out_session, arena));
    return pal_str_equal(one, other) ? PAL_OK : PAL_NOT_FOUND;
}

/* The legacy session that a chat continues is deleted too. Otherwise it would be shown again. After
 * a crash in between, it is found and deleted when the request is repeated. */
static pal_status delete_session(pal_call *call, pal_error *err)
{
    pal_session session, continued;
    pal_status status = find_session(call, &session, err);
    if (status == PAL_NOT_FOUND)
        return not_found(call);
    while (status == PAL_OK) {
        status = pal_store_delete(call->server->store, call->caller.tenant, session.id, err);
        if (status == PAL_OK)
            status = find_continued(call, &session, &continued, err);
        if (status == PAL_OK)
            session = continued;
    }
    if (status != PAL_NOT_FOUND) /* PAL_NOT_FOUND: everything is deleted */
        return status;
    pal_exchange_answer(call->exchange, 204, NULL, (pal_str){0});
    return PAL_OK;
}

/* ---- Routes ---- */

/* Read by query_number(), which ignores invalid values as PicoClaw does. */
static const pal_api_object pico_query = {
        .members = PAL_API_MEMBERS(
                {"offset", PAL_API_COUNT, .help = "number of sessions to skip"},
                {"limit", PAL_API_COUNT, "maximum number of sessions", .min = 1})};

static const pal_api_object pico_listed = {
        .members = PAL_API_MEMBERS(
                {"id", PAL_API_TEXT, .is_required = true},
                {"title", PAL_API_TEXT, .is_required = true},
                {"preview", PAL_API_TEXT, .is_required = true},
                {"message_count", PAL_API_COUNT, .is_required = true},
                {"created", PAL_API_TEXT, .is_required = true},
                {"updated", PAL_API_TEXT, .is_required = true})};
static const pal_api_object pico_list_body = {"PicoSessionList", .items = &pico_listed};

static const pal_api_object pico_message = {
        .is_open = true,
        .members = PAL_API_MEMBERS(
                {"role", PAL_API_TEXT, .is_required = true},
                {"content", PAL_API_TEXT, .is_required = true})};

static const pal_api_object pico_session_body = {"PicoSession",
        .members = PAL_API_MEMBERS(
                {"id", PAL_API_TEXT, .is_required = true},
                {"messages", PAL_API_LIST, .of = &pico_message, .is_required = true},
                {"summary", PAL_API_TEXT, .is_required = true},
                {"created", PAL_API_TEXT, .is_required = true},
                {"updated", PAL_API_TEXT, .is_required = true})};

static const pal_api_route pico_routes[] = {
        {"GET", "/api/sessions", PAL_KEY_READ, PAL_API_WORKER, list_sessions,
                {"listPicoSessions", "list the sessions of PicoClaw's page, newest update first",
                        &pico_query, NULL, &pico_list_body, 200}},
        {"GET", "/api/sessions/{id}", PAL_KEY_READ, PAL_API_WORKER, get_session,
                {"getPicoSession", "read one session with its messages", NULL, NULL,
                        &pico_session_body, 200}},
        {"DELETE", "/api/sessions/{id}", PAL_KEY_WRITE, PAL_API_WORKER, delete_session,
                {"deletePicoSession", "move a session to the trash", NULL, NULL, NULL, 204}},
        {0},
};

static const pal_api_route *const routes[] = {pico_routes, NULL};

const pal_api pal_api_picoclaw = {
        .name = "picoclaw",
        .prefix = "/api/sessions",
        .routes = routes,
        .put_failure = pal_call_put_native_failure,
};
