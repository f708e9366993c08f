/* api_inbound.c - messages from channels. The message's context determines its session, as in
 * `palaver route`, and the turn runs in that session. */
#include "server/api/native/api_native.h"

#include <string.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/text.h"
#include "base/unicode.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_route.h"
#include "server/api/api_object.h"
#include "server/api/loom/api_loom_bead.h"
#include "server/api/native/api_message.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"
#include "server/server_settings.h"

/* ---- Finding the session ---- */

static void add_alias(pal_session *session, pal_str alias)
{
    for (size_t i = 0; i < session->aliases_len; i++) {
        if (pal_str_equal(session->aliases[i], alias))
            return;
    }
    session->aliases[session->aliases_len++] = alias;
}

/* Sets the session's aliases: first those of the route or the stored ones, then the given ones.
 * Each name is kept once. */
static pal_status gather_aliases(pal_call *call, const pal_str *first, size_t first_len,
        const pal_session *given, pal_session *session)
{
    session->aliases =
            pal_arena_array(call->arena, first_len + given->aliases_len + 1, sizeof(pal_str));
    session->aliases_len = 0;
    if (!session->aliases)
        return PAL_NO_MEMORY;
    for (size_t i = 0; i < first_len; i++)
        add_alias(session, first[i]);
    for (size_t i = 0; i < given->aliases_len; i++)
        add_alias(session, given->aliases[i]);
    return PAL_OK;
}

/* ---- Sessions of work items ---- */

/* Adds new aliases to a stored session. Also changes its agent if the message names another one. */
static pal_status change_item(pal_call *call, const pal_session *given, const pal_inbound *inbound,
        pal_session *stored, pal_error *err)
{
    uint32_t fields = 0;
    pal_session changed = *stored;
    if (gather_aliases(call, stored->aliases, stored->aliases_len, given, &changed) != PAL_OK)
        return pal_arena_checked(call->arena, err);
    if (changed.aliases_len != stored->aliases_len)
        fields |= PAL_SESSION_FIELD_ALIASES;
    if (inbound->context.agent_id.len && !pal_str_equal(stored->agent, inbound->route.agent)) {
        changed.agent = inbound->route.agent;
        fields |= PAL_SESSION_FIELD_AGENT;
    }
    return fields ? pal_store_update(call->server->store, &changed, fields, err) : PAL_OK;
}

static pal_status find_item(
        pal_call *call, const pal_session *given, pal_inbound *inbound, pal_error *err)
{
    pal_session stored;
    pal_status status =
            pal_bead_find(call, &inbound->context, &inbound->route, &stored, err);
    if (status == PAL_OK)
        status = change_item(call, given, inbound, &stored, err);
    if (status == PAL_OK)
        inbound->resolution = (pal_resolve_result){.session = stored.id};
    return status;
}

/* ---- An explicit key ---- */

/* Trims the key and converts it to lower case, as routing writes keys. The id of a Matrix room
 * keeps its case. */
static pal_str plain_key(pal_call *call, pal_str key)
{
    pal_str text = pal_unicode_trim(key);
    const char *room = text.len ? memchr(text.data, '!', text.len) : NULL;
    size_t len = room ? (size_t)(room - text.data) : text.len;
    pal_str lower = pal_call_lower(call, pal_str_make(text.data, len));
    char *plain = pal_arena_alloc(call->arena, lower.len + text.len - len + 1);
    if (!plain)
        return key;
    memcpy(plain, lower.data, lower.len);
    memcpy(plain + lower.len, text.data + len, text.len - len);
    return pal_str_make(plain, lower.len + text.len - len);
}

/* Normalizes an explicit key, unless a session has exactly this key or alias: another program may
 * have chosen that name. */
static pal_status fold_key(pal_call *call, pal_route_context *context, pal_error *err)
{
    static const pal_session_by names[] = {PAL_SESSION_BY_ALIAS, PAL_SESSION_BY_KEY};
    pal_str key = context->session_key;
    pal_session found;
    pal_status status = PAL_NOT_FOUND;
    if (!pal_route_key_is_explicit(key) || key.len > PAL_KEY_LEN_MAX)
        return PAL_OK;
    pal_str plain = plain_key(call, key);
    if (pal_str_equal(plain, key))
        return PAL_OK;
    for (size_t i = 0; status == PAL_NOT_FOUND && i < 2; i++)
        status = pal_store_find(call->server->store, call->caller.tenant, names[i], key,
                call->arena, &found, err);
    if (status == PAL_NOT_FOUND) {
        context->session_key = plain;
        status = pal_arena_checked(call->arena, err);
    }
    return status;
}

/* ---- All sessions ---- */

/* The main session has two names: its key and "agent:ID:main". Both names find it. */
static pal_status name_main(
        pal_call *call, const pal_route *route, pal_resolve_request *resolve, pal_error *err)
{
    pal_str agent, rest;
    if (pal_str_equal(route->key, route->main_key)) {
        resolve->is_main = true;
        resolve->routed_key = route->main_key;
        return PAL_OK;
    }
    if (!pal_route_key_split(route->key, &agent, &rest) || !pal_str_is(rest, "main"))
        return PAL_OK;
    resolve->is_main = true;
    resolve->main_alias = route->key;
    return pal_route_key_from_alias(route->key, call->arena, &resolve->routed_key, err);
}

pal_status pal_inbound_resolve(
        pal_call *call, const pal_session *given, pal_inbound *inbound, pal_error *err)
{
    const pal_route *route = &inbound->route;
    bool is_item = inbound->context.kind == PAL_ROUTE_WORK_ITEM;
    int64_t lasts_ms = call->server->settings->session_expiration;
    pal_status status = fold_key(call, &inbound->context, err);
    if (status == PAL_OK)
        status = pal_route_decide(call->server->route_settings, &inbound->context, call->arena,
                &inbound->route, err);
    if (status != PAL_OK)
        return status;
    pal_session session = {
            .tenant = call->caller.tenant,
            .key = route->key,
            .agent = route->agent,
            .scope = route->scope,
            .metadata = given->metadata,
            .project = is_item ? inbound->context.project_id : inbound->context.project_path,
    };
    if (is_item && lasts_ms > 0) {
        session.created_at = pal_clock_now_ms();
        session.expires_at = session.created_at + lasts_ms;
    }
    if (is_item && !route->is_explicit) {
        status = find_item(call, given, inbound, err);
        if (status != PAL_NOT_FOUND)
            return status;
    }
    if (gather_aliases(call, route->aliases, route->aliases_len, given, &session) != PAL_OK)
        return pal_arena_checked(call->arena, err);
    pal_resolve_request resolve = {
            .session = &session,
            .main_alias = route->main_alias,
            .is_explicit = route->is_explicit,
            .earlier_keys = route->earlier_keys,
            .earlier_keys_len = route->earlier_keys_len,
            .routed_key = route->is_own_alias ? route->scope_key : (pal_str){0},
    };
    status = route->is_explicit ? name_main(call, route, &resolve, err) : PAL_OK;
    if (status == PAL_OK)
        status = pal_store_resolve(call->server->store, &resolve, &inbound->resolution, err);
    if (status == PAL_OK && is_item && inbound->resolution.created)
        pal_bead_note(call, route->values[1].value, inbound->resolution.session);
    return status;
}

/* ---- The sender ---- */

/* In a chat of two people the model does not need the sender's name. A Matrix room without a chat
 * type can have any number of people. */
static bool is_direct(const pal_route_context *context)
{
    pal_str type = context->chat_type;
    bool is_room = pal_text_is_nocase(context->channel, "matrix") && context->chat_id.len &&
            context->chat_id.data[0] == '!';
    if (type.len == 0)
        return context->kind == PAL_ROUTE_CHAT && !is_room;
    return pal_text_is_nocase(type, "direct");
}

static pal_str with_sender(pal_call *call, const pal_route_context *context, pal_str extra)
{
    pal_json value;
    pal_str made = extra;
    pal_buf buf;
    if (extra.len &&
            (pal_json_parse(call->arena, extra, NULL, &value, NULL) != PAL_OK ||
                    pal_json_type_of(pal_json_find(value, "sender")) != PAL_JSON_NONE))
        return extra;
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_str(&writer, "sender", context->sender_id);
    if (is_direct(context))
        pal_put_flag(&writer, "direct", true);
    pal_json_put_members(&writer, extra);
    pal_json_end_object(&writer);
    if (buf.failure == PAL_OK)
        made = pal_arena_copy(call->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return made;
}

/* Adds the sender to the user's messages, unless a message names its sender. In a group an empty
 * name is added too, so that such a text is not mistaken for another speaker's. */
static void name_sender(pal_call *call, const pal_route_context *context, pal_turn_request *request)
{
    bool is_chat = context->kind == PAL_ROUTE_CHAT || context->kind == PAL_ROUTE_MATRIX_ROOM;
    if (!is_chat || (context->sender_id.len == 0 && is_direct(context)))
        return;
    for (size_t i = 0; i < request->messages_len; i++) {
        pal_message *message = &request->messages[i];
        if (message->role == PAL_ROLE_USER)
            message->extra = with_sender(call, context, message->extra);
    }
}

/* ---- The route ---- */

static void put_inbound(const pal_api_turn *turn, pal_json_writer *writer)
{
    const pal_inbound *inbound = turn->user;
    pal_put_str(writer, "key", inbound->route.key);
    pal_put_str(writer, "agent", inbound->route.agent);
    pal_put_flag(writer, "created", inbound->resolution.created);
    pal_put_flag(writer, "adopted", inbound->resolution.adopted);
}

static pal_status read_said(pal_api_turn *turn, pal_error *err)
{
    pal_call *call = turn->call;
    pal_status status = pal_api_messages_read(
            call, call->body, false, &turn->request.messages, &turn->request.messages_len, err);
    if (status == PAL_OK && turn->request.messages_len == 0) {
        call->fail_param = "message";
        return pal_error_set(err, PAL_INVALID,
                "'message' is missing; send a string or a message object");
    }
    return status;
}

static pal_status receive(pal_call *call, pal_error *err)
{
    pal_session session = {0};
    pal_inbound *inbound = pal_arena_alloc(call->arena, sizeof *inbound);
    pal_api_turn *turn = pal_api_turn_new(call, &session);
    if (!inbound || !turn)
        return pal_arena_checked(call->arena, err);
    turn->user = inbound;
    turn->put_members = put_inbound;
    pal_status status = pal_route_context_read(call->body, call->arena, &inbound->context, err);
    status = pal_call_blame(call, status, err);
    if (status != PAL_OK)
        return status;
    status = read_said(turn, err);
    if (status != PAL_OK)
        return status;
    /* Everything is checked before a session is created, so that an invalid request changes
     * nothing. */
    status = pal_api_turn_read(turn, &session, false, err);
    if (status != PAL_OK)
        return status;
    status = pal_inbound_resolve(call, &session, inbound, err);
    if (status != PAL_OK)
        return status;
    turn->request.session = inbound->resolution.session;
    name_sender(call, &inbound->context, &turn->request);
    status = pal_arena_checked(call->arena, err);
    return status == PAL_OK ? pal_api_turn_start(turn, err) : status;
}

/* The members of the context are read by pal_route_context_read(). */
static const pal_api_object inbound_context = {
        .is_open = true,
        .members = PAL_API_MEMBERS(
                {"channel", .type = PAL_API_TEXT},
                {"account", .type = PAL_API_TEXT},
                {"space_id", .type = PAL_API_TEXT},
                {"space_type", .type = PAL_API_TEXT},
                {"chat_id", .type = PAL_API_TEXT},
                {"chat_type", .type = PAL_API_TEXT},
                {"topic_id", .type = PAL_API_TEXT},
                {"sender_id", .type = PAL_API_TEXT},
                {"mentioned", .type = PAL_API_FLAG})};

static const pal_api_object inbound_body = {"InboundRequest",
        .members = PAL_API_MEMBERS(
                {"context", PAL_API_VALUE, .of = &inbound_context},
                {"agent_id", .type = PAL_API_TEXT},
                {"session_key", .type = PAL_API_TEXT},
                {"matrix_room", .type = PAL_API_TEXT},
                {"project_id", .type = PAL_API_TEXT},
                {"bead_id", .type = PAL_API_TEXT},
                {"project_path", .type = PAL_API_TEXT},
                {"branch", .type = PAL_API_TEXT},
                {.type = PAL_API_INCLUDE, .of = &pal_api_messages_members},
                {.type = PAL_API_INCLUDE, .of = &pal_api_turn_settings})};

static const pal_api_object inbound_answer = {"InboundAnswer",
        .members = PAL_API_MEMBERS(
                {"key", PAL_API_TEXT, .is_required = true},
                {"agent", .type = PAL_API_TEXT},
                {"created", PAL_API_FLAG, .is_required = true},
                {"adopted", PAL_API_FLAG, .is_required = true},
                {.type = PAL_API_INCLUDE, .of = &pal_api_turn_answer})};

const pal_api_route pal_inbound_routes[] = {
        {"POST", "/api/v1/inbound", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_TURN | PAL_API_WORKER, receive,
                {"receive", "route a message from a channel to its session, and answer it", NULL,
                        &inbound_body, &inbound_answer, 200}},
        {0},
};
