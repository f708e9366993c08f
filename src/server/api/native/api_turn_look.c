/* api_turn_look.c - shows what turns are doing: the answer of a turn so far, and the turns of all
 * sessions of a tenant.
 *
 * The answer so far is put together from the events of the turn, which the runtime keeps complete:
 * old events that add to one text are merged, not dropped. They come before pal_turn_watch()
 * returns. */
#include "server/api/native/api_turn.h"

#include <stdio.h>
#include "base/json/json_put.h"
#include "dialect/native/native.h"
#include "server/api/api_object.h"
#include "server/api/native/api_native.h"
#include "server/server_call.h"

/* ---- The answer so far ---- */

#define PARTS_MAX 2048 /* parts of the answer so far; more are left out */

typedef struct so_far_part {
    pal_event_kind kind; /* TEXT, REASONING or CALL */
    uint64_t count;      /* the event's number of the part */
    pal_str call_id;
    pal_str name;
    pal_buf text;
} so_far_part;

typedef struct so_far_tool {
    pal_str call_id;
    pal_str name;
    const char *state;
    int64_t since;
} so_far_tool;

typedef struct so_far {
    pal_arena *arena;
    uint64_t number;
    uint64_t step;
    pal_id message;
    so_far_part *parts;
    size_t parts_len;
    so_far_tool *tools;
    size_t tools_len;
} so_far;

/* A new step begins a new answer. */
static void clear_parts(so_far *now)
{
    for (size_t i = 0; i < now->parts_len; i++)
        pal_buf_done(&now->parts[i].text);
    now->parts_len = 0;
}

static bool is_same(const so_far_part *part, const pal_event *event)
{
    if (event->kind == PAL_EVENT_ARGUMENTS)
        return part->kind == PAL_EVENT_CALL && pal_str_equal(part->call_id, event->call_id);
    return part->kind == event->kind && part->count == event->count;
}

static so_far_part *find_part(so_far *now, const pal_event *event)
{
    for (size_t i = now->parts_len; i > 0; i--) {
        if (is_same(&now->parts[i - 1], event))
            return &now->parts[i - 1];
    }
    if (now->parts_len == PARTS_MAX || event->kind == PAL_EVENT_ARGUMENTS)
        return NULL;
    so_far_part *part = &now->parts[now->parts_len++];
    *part = (so_far_part){.kind = event->kind,
            .count = event->count,
            .call_id = event->kind == PAL_EVENT_CALL ? pal_arena_copy(now->arena, event->call_id)
                                                     : (pal_str){0},
            .name = pal_arena_copy(now->arena, event->name)};
    pal_buf_init(&part->text, PAL_SERVER_ANSWER_BYTES_MAX);
    return part;
}

static void note_tool(so_far *now, const pal_event *event)
{
    bool is_end = event->kind == PAL_EVENT_TOOL_ENDED;
    for (size_t i = 0; i < now->tools_len; i++) {
        if (!pal_str_equal(now->tools[i].call_id, event->call_id))
            continue;
        now->tools[i].state = !is_end ? "running" : event->status == PAL_OK ? "done" : "failed";
        return;
    }
    if (is_end || now->tools_len == PAL_ANSWER_CALLS_MAX)
        return;
    now->tools[now->tools_len++] = (so_far_tool){
            .call_id = pal_arena_copy(now->arena, event->call_id),
            .name = pal_arena_copy(now->arena, event->name),
            .state = "running",
            .since = event->at};
}

/* Called on the runtime's loop. */
static bool collect(const pal_event *event, void *user)
{
    so_far *now = user;
    so_far_part *part = NULL;
    now->number = event->number;
    switch (event->kind) {
    case PAL_EVENT_STEP:
        clear_parts(now);
        now->tools_len = 0;
        now->step = event->count;
        now->message = event->message;
        break;
    case PAL_EVENT_MESSAGE:
        /* The answer is recorded, so its text is no longer only here. */
        clear_parts(now);
        now->message = (pal_id){{0}};
        break;
    case PAL_EVENT_TEXT:
    case PAL_EVENT_REASONING:
    case PAL_EVENT_ARGUMENTS:
        part = find_part(now, event);
        if (part)
            pal_buf_append_str(&part->text, event->text);
        break;
    case PAL_EVENT_CALL:
        (void)find_part(now, event);
        break;
    case PAL_EVENT_TOOL_STARTED:
    case PAL_EVENT_TOOL_ENDED:
        note_tool(now, event);
        break;
    default:
        break;
    }
    return true;
}

static void put_part(pal_json_writer *writer, const so_far_part *part)
{
    pal_json_begin_object(writer);
    if (part->kind == PAL_EVENT_CALL) {
        pal_put_text(writer, "type", "tool_call");
        pal_put_str(writer, "call_id", part->call_id);
        pal_put_str(writer, "name", part->name);
        pal_put_str(writer, "arguments", pal_buf_str(&part->text));
    } else {
        pal_put_text(writer, "type", part->kind == PAL_EVENT_TEXT ? "text" : "reasoning");
        pal_put_str(writer, "text", pal_buf_str(&part->text));
    }
    pal_json_end_object(writer);
}

static void put_tool(pal_json_writer *writer, const so_far_tool *tool)
{
    pal_json_begin_object(writer);
    pal_put_str(writer, "call_id", tool->call_id);
    pal_put_str(writer, "name", tool->name);
    pal_put_text(writer, "state", tool->state);
    pal_put_time(writer, "since", tool->since);
    pal_json_end_object(writer);
}

static void put_so_far(pal_json_writer *writer, const so_far *now)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_id_to_text(now->message, id);
    pal_json_name(writer, "so_far");
    pal_json_begin_object(writer);
    pal_put_count(writer, "number", now->number);
    pal_put_count(writer, "step", now->step);
    pal_put_str_or_null(writer, "message_id",
            pal_id_is_none(now->message) ? (pal_str){0} : pal_str_of(id));
    pal_json_name(writer, "parts");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < now->parts_len; i++)
        put_part(writer, &now->parts[i]);
    pal_json_end_array(writer);
    pal_json_name(writer, "tools");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < now->tools_len; i++)
        put_tool(writer, &now->tools[i]);
    pal_json_end_array(writer);
    pal_json_end_object(writer);
}

pal_status pal_api_turn_put_so_far(
        pal_call *call, const pal_turn_info *info, pal_json_writer *writer, pal_error *err)
{
    so_far now = {.arena = call->arena};
    pal_runtime *runtime = call->server->runtime;
    now.parts = pal_arena_array(call->arena, PARTS_MAX, sizeof *now.parts);
    now.tools = pal_arena_array(call->arena, PAL_ANSWER_CALLS_MAX, sizeof *now.tools);
    if (!now.parts || !now.tools)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_turn_watch(
            runtime, call->caller.tenant, info->turn, 0, collect, NULL, &now, err);
    if (status == PAL_OK) {
        pal_turn_unwatch(runtime, info->turn, &now);
        put_so_far(writer, &now);
    } else if (status == PAL_NOT_FOUND) {
        pal_put_null(writer, "so_far");
        status = PAL_OK;
    }
    for (size_t i = 0; status == PAL_OK && i < now.parts_len; i++) {
        if (now.parts[i].text.failure)
            status = pal_error_set(err, now.parts[i].text.failure, "the answer so far is too long");
    }
    clear_parts(&now);
    return status == PAL_OK ? pal_arena_checked(call->arena, err) : status;
}

/* ---- Turns of all sessions ---- */

typedef struct turns_query {
    pal_str state;
    uint32_t limit;
    pal_str cursor;
} turns_query;

#define TURNS_DEFAULT 100 /* turns in one response if no limit is sent */

static const pal_api_object turns_query_table = {
        .members = PAL_API_MEMBERS(
                {"state", PAL_API_TEXT,
                        "states, separated by commas, such as running,asking; default: all turns "
                        "that have not ended",
                        .offset = offsetof(turns_query, state)},
                {"limit", PAL_API_COUNT32, "maximum number of turns",
                        .offset = offsetof(turns_query, limit), .min = 1, .max = PAL_TURN_LIST_MAX},
                {"cursor", PAL_API_TEXT, "cursor of the previous page",
                        .offset = offsetof(turns_query, cursor)})};

static bool read_state(pal_str name, uint32_t *states)
{
    for (int state = PAL_TURN_QUEUED; state <= PAL_TURN_CANCELED; state++) {
        if (pal_str_is(name, pal_turn_state_name((pal_turn_state)state))) {
            *states |= 1u << state;
            return true;
        }
    }
    return false;
}

static pal_status read_states(pal_call *call, pal_str text, uint32_t *out_states, pal_error *err)
{
    *out_states = 0;
    for (size_t at = 0; at < text.len;) {
        const char *comma = memchr(text.data + at, ',', text.len - at);
        size_t end = comma ? (size_t)(comma - text.data) : text.len;
        if (!read_state(pal_str_make(text.data + at, end - at), out_states)) {
            call->fail_param = "state";
            return pal_error_set(err, PAL_INVALID,
                    "'state' must be a list of queued, running, retrying, paused, asking, done, "
                    "failed and canceled, separated by commas");
        }
        at = end + 1;
    }
    for (int state = PAL_TURN_QUEUED; text.len == 0 && state < PAL_TURN_DONE; state++)
        *out_states |= 1u << state;
    return PAL_OK;
}

static pal_status put_entry(pal_call *call, pal_turn_entry *entry, pal_error *err)
{
    pal_session session;
    pal_str title;
    char id[PAL_ID_TEXT_SIZE];
    pal_json_writer *writer = pal_call_writer(call);
    pal_id_to_text(entry->info.session, id);
    pal_status status = pal_store_find(call->server->store, call->caller.tenant, PAL_SESSION_BY_ID,
            pal_str_of(id), call->arena, &session, err);
    if (status == PAL_NOT_FOUND) {
        session = (pal_session){0};
        status = PAL_OK;
    }
    if (status == PAL_OK)
        status = pal_store_title(call->server->store, &session, call->arena, &title, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(writer);
    pal_native_turn_put(writer, &entry->info);
    pal_put_str(writer, "title", title);
    pal_put_count(writer, "step", entry->step);
    pal_put_str_or_null(writer, "tool", entry->tool);
    pal_put_str_or_null(writer, "model", entry->model);
    pal_put_str_or_null(writer, "label", entry->label);
    status = pal_api_turn_put_waits(call, &entry->info, writer, err);
    pal_json_end_object(writer);
    return status;
}

static pal_status list_turns(pal_call *call, pal_error *err)
{
    pal_turn_entry *entries;
    size_t len;
    bool has_more;
    char cursor[PAL_ID_TEXT_SIZE] = "";
    turns_query asked = {.limit = TURNS_DEFAULT};
    pal_turn_query query = {.tenant = call->caller.tenant};
    pal_status status = pal_api_query_read(call, &turns_query_table, &asked, err);
    if (status == PAL_OK)
        status = read_states(call, asked.state, &query.states, err);
    if (status != PAL_OK)
        return status;
    if (asked.cursor.len && !pal_id_from_text(asked.cursor, &query.after)) {
        call->fail_param = "cursor";
        return pal_error_set(
                err, PAL_INVALID, "'cursor' must be the cursor that the previous page returned");
    }
    query.limit = asked.limit;
    status = pal_turn_list(
            call->server->runtime, &query, call->arena, &entries, &len, &has_more, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "turns");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        status = put_entry(call, &entries[i], err);
    if (status != PAL_OK)
        return status;
    pal_json_end_array(writer);
    if (has_more)
        pal_id_to_text(entries[len - 1].info.turn, cursor);
    pal_put_flag(writer, "has_more", has_more);
    pal_put_str_or_null(writer, "cursor", pal_str_of(cursor));
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

static const pal_api_object entry_object = {"TurnEntry",
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &pal_api_turn_state},
                {"title", PAL_API_TEXT, "the title of the session", .is_required = true},
                {"step", PAL_API_COUNT, "the number of the model call", .is_required = true},
                {"tool", PAL_API_TEXT, "the running tool", .is_required = true,
                        .is_nullable = true},
                {"model", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"label", PAL_API_TEXT, .is_required = true, .is_nullable = true})};

static const pal_api_object turns_body = {"TurnList",
        .members = PAL_API_MEMBERS(
                {"turns", PAL_API_LIST, .of = &entry_object, .is_required = true},
                {"has_more", PAL_API_FLAG, .is_required = true},
                {"cursor", PAL_API_TEXT, .is_required = true, .is_nullable = true})};

const pal_api_route pal_turn_look_routes[] = {
        {"GET", "/api/v1/turns", PAL_KEY_READ, PAL_API_WORKER, list_turns,
                {"listTurns", "list the turns of all sessions that this server runs, the oldest "
                        "first", &turns_query_table, NULL, &turns_body, 200}},
        {0},
};
