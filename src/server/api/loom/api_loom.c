/* api_loom.c - conversations of work items in the formats, codes and texts of Loom. Loom is a
 * program that sends agents to work items, which it calls beads.
 *
 * A conversation is a session. A session that was created here has the key of its work item, as
 * routing derives it (api_loom_bead.h). If the client chose a session id, that id becomes an alias,
 * so that every other route finds the session by it too. A second alias, "loom:ID", marks it as the
 * id to show. An imported session may have "loom:ID" as its key. All other sessions are shown too,
 * under their own ids.
 *
 * The token count only grows. It is the sum of three numbers: the tokens of the conversation's
 * model calls, the counts that the client sent with its messages, and the count of an imported row.
 * While the sum is 0, the count is that of the visible messages. The client's number is stored in a
 * record of kind "loom", named by the session's id. The record is written after the session. After
 * a crash between the two, the request has failed, and a repeated request returns the session
 * without that number. */
#include <stdio.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_text.h"
#include "server/api/api_object.h"
#include "server/api/loom/api_loom_bead.h"
#include "server/api/native/api_message.h"
#include "server/api/native/api_native.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"

#define LOOM_ALIAS "loom:"
#define LOOM_RECORD "loom"

/* ---- Showing sessions and messages ---- */

static bool take_loom_id(pal_str name, pal_str *out_id)
{
    size_t len = sizeof LOOM_ALIAS - 1;
    if (name.len == len || !pal_text_begins(name, LOOM_ALIAS))
        return false;
    *out_id = pal_text_after(name, len);
    return true;
}

static void put_session_id(pal_json_writer *writer, const pal_session *session)
{
    pal_str id;
    bool is_found = take_loom_id(session->key, &id);
    /* From the end, because the client's id comes first and may begin with "loom:" itself. */
    for (size_t i = session->aliases_len; !is_found && i > 0; i--)
        is_found = take_loom_id(session->aliases[i - 1], &id);
    if (is_found)
        pal_put_str(writer, "session_id", id);
    else
        pal_put_id(writer, "session_id", session->id);
}

/* The metadata of an imported row has Loom's metadata as a member, next to other columns. */
static bool read_metadata(const pal_session *session, pal_arena *arena, pal_json *out_value)
{
    *out_value = (pal_json){0};
    if (session->metadata.len)
        (void)!pal_json_parse(arena, session->metadata, NULL, out_value, NULL);
    return pal_json_string_is(pal_json_find(*out_value, "source"), "loom");
}

static void put_metadata(pal_json_writer *writer, const pal_session *session, pal_arena *arena)
{
    pal_json value;
    if (read_metadata(session, arena, &value))
        value = pal_json_find(value, "metadata");
    bool is_object = pal_json_type_of(value) == PAL_JSON_OBJECT;
    pal_put_raw(writer, "metadata", is_object ? pal_json_raw(value) : pal_str_of("{}"));
}

/* Returns the token count that the client sent with the message; 0 if it sent none. */
static uint64_t given_tokens(const pal_message *message, pal_arena *arena)
{
    pal_json extra = {0};
    uint64_t tokens = 0;
    if (message->extra.len &&
            pal_json_parse(arena, message->extra, NULL, &extra, NULL) == PAL_OK)
        (void)pal_json_u64(pal_json_find(extra, "token_count"), &tokens);
    return tokens;
}

static uint64_t put_messages(
        pal_json_writer *writer, const pal_message_page *list, pal_arena *arena)
{
    uint64_t sum = 0;
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < list->len; i++) {
        const pal_message *message = &list->items[i];
        uint64_t tokens = given_tokens(message, arena);
        pal_json_begin_object(writer);
        pal_put_text(writer, "role", pal_role_name(message->role));
        pal_put_str(writer, "content", pal_dialect_text(message, arena));
        pal_put_time(writer, "timestamp", message->created_at);
        if (!tokens)
            tokens = message->tokens;
        if (tokens)
            pal_put_count(writer, "token_count", tokens);
        pal_json_end_object(writer);
        sum += tokens;
    }
    pal_json_end_array(writer);
    return sum;
}

/* ---- Counting tokens ---- */

static pal_status find_given(pal_call *call, pal_id session, uint64_t *out_tokens, pal_error *err)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_record record;
    pal_json body = {0};
    pal_id_to_text(session, id);
    pal_status status = pal_store_record_find(call->server->store, call->caller.tenant,
            pal_str_of(LOOM_RECORD), pal_str_of(id), call->arena, &record, err);
    if (status == PAL_OK)
        status = pal_json_parse(call->arena, record.body, NULL, &body, err);
    if (status == PAL_OK)
        (void)pal_json_u64(pal_json_find(body, "token_count"), out_tokens);
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

static pal_status keep_given(pal_call *call, pal_id session, uint64_t tokens, pal_error *err)
{
    char id[PAL_ID_TEXT_SIZE], body[48];
    pal_id_to_text(session, id);
    snprintf(body, sizeof body, "{\"token_count\":%llu}", (unsigned long long)tokens);
    pal_record record = {.kind = pal_str_of(LOOM_RECORD),
            .name = pal_str_of(id),
            .session = session,
            .body = pal_str_of(body)};
    return pal_store_record_put(
            call->server->store, call->caller.tenant, &record, PAL_RECORD_VERSION_ANY, err);
}

static uint64_t imported_tokens(const pal_session *session, pal_arena *arena)
{
    pal_json metadata;
    uint64_t tokens = 0;
    if (read_metadata(session, arena, &metadata))
        (void)pal_json_u64(pal_json_find(metadata, "token_count"), &tokens);
    return tokens;
}

/* Sums up all tokens that were ever used, including those of hidden messages. 0 means that none
 * were used. */
static pal_status count_tokens(
        pal_call *call, const pal_session *session, uint64_t *out_tokens, pal_error *err)
{
    pal_ledger_query query = {.tenant = call->caller.tenant, .session = session->id};
    pal_ledger_sum sum = {0};
    uint64_t given = 0;
    pal_status status = find_given(call, session->id, &given, err);
    if (status == PAL_OK)
        status = pal_store_ledger_sum(call->server->store, &query, &sum, err);
    *out_tokens = imported_tokens(session, call->arena) + given + sum.usage.input +
            sum.usage.cache_read + sum.usage.cache_write + sum.usage.output;
    return status;
}

/* ---- One conversation ---- */

/* Writes one ConversationContext. `room` is how many more messages the response can contain. */
static pal_status put_conversation(
        pal_call *call, const pal_session *session, uint32_t *room, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    pal_message_page list = {.has_more = true};
    pal_message_query load = {.limit = *room, .from_end = true};
    pal_str project = session->project;
    uint64_t tokens = 0;
    pal_status status = count_tokens(call, session, &tokens, err);
    if (status == PAL_OK && *room > 0)
        status = pal_store_load(call->server->store, call->caller.tenant, session->id, &load,
                call->arena, &list, err);
    if (status != PAL_OK)
        return status;
    *room -= (uint32_t)list.len;
    pal_json_begin_object(writer);
    put_session_id(writer, session);
    pal_put_str(writer, "bead_id", pal_bead_value(call, session, "bead_id"));
    if (!project.len)
        project = pal_bead_value(call, session, "project_id");
    pal_put_str(writer, "project_id", project);
    uint64_t shown = put_messages(writer, &list, call->arena);
    pal_put_time(writer, "created_at", session->created_at);
    pal_put_time(writer, "updated_at", session->updated_at);
    if (session->expires_at)
        pal_put_time(writer, "expires_at", session->expires_at);
    else
        pal_put_str_or_null(writer, "expires_at", (pal_str){0});
    pal_put_count(writer, "token_count",
            tokens              ? tokens
                    : list.has_more ? session->tokens
                                    : shown);
    put_metadata(writer, session, call->arena);
    pal_put_raw(writer, "entity_metadata", pal_str_of("{\"schema_version\":\"1.0\"}"));
    if (list.has_more)
        pal_put_flag(writer, "truncated", true);
    pal_json_end_object(writer);
    return pal_arena_checked(call->arena, err);
}

static pal_status send_conversation(
        pal_call *call, const pal_session *session, unsigned code, pal_error *err)
{
    uint32_t room = PAL_SERVER_CONVERSATION_MESSAGES_MAX;
    pal_status status = put_conversation(call, session, &room, err);
    if (status == PAL_OK)
        pal_call_send(call, code);
    return status;
}

/* ---- Finding conversations ---- */

static pal_status not_found(const char *what, pal_str id, pal_error *err)
{
    return pal_error_set(err, PAL_NOT_FOUND, "%s: %.*s", what, PAL_EXCERPT(id, 120));
}

/* Like Loom, shows an expired conversation until it is cleaned up. */
static pal_status find_conversation(pal_call *call, pal_session *out_session, pal_error *err)
{
    pal_str id = call->params[0];
    pal_status status = pal_call_session(call, id, out_session, err);
    bool is_deleted = status == PAL_OK && out_session->state == PAL_SESSION_TRASH &&
            out_session->deleted_at != 0;
    if (status == PAL_NOT_FOUND || is_deleted)
        return not_found("Conversation session not found", id, err);
    return status;
}

/* ---- Routes ---- */

static pal_status get_conversation(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_status status = find_conversation(call, &session, err);
    return status == PAL_OK ? send_conversation(call, &session, 200, err) : status;
}

static pal_status get_bead(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_status status = pal_bead_find_any(call, call->params[0], &session, err);
    if (status == PAL_NOT_FOUND)
        return not_found("No conversation found for bead", call->params[0], err);
    return status == PAL_OK ? send_conversation(call, &session, 200, err) : status;
}

static void put_done(pal_call *call, const char *message)
{
    pal_json_writer *writer = pal_call_writer(call);
    pal_put_flag(writer, "success", true);
    pal_put_text(writer, "message", message);
    pal_put_str(writer, "session_id", call->params[0]);
}

static pal_status delete_conversation(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_status status = find_conversation(call, &session, err);
    if (status == PAL_OK)
        status = pal_store_delete(call->server->store, call->caller.tenant, session.id, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(pal_call_writer(call));
    put_done(call, "Conversation deleted successfully");
    pal_json_end_object(pal_call_writer(call));
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status reset_conversation(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_mark mark;
    bool keep = true;
    (void)pal_json_bool(pal_json_find(call->body, "keep_system_message"), &keep);
    pal_status status = find_conversation(call, &session, err);
    if (status == PAL_OK)
        status = pal_store_reset(
                call->server->store, call->caller.tenant, session.id, keep, &mark, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(pal_call_writer(call));
    put_done(call, "Conversation reset successfully");
    pal_put_flag(pal_call_writer(call), "keep_system_message", keep);
    pal_json_end_object(pal_call_writer(call));
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status wrong(pal_call *call, const char *param, const char *text, pal_error *err)
{
    call->fail_param = param;
    return pal_error_set(err, PAL_INVALID, "%s", text);
}

static bool is_number(pal_str text)
{
    size_t at = text.len && text.data[0] == '-';
    for (size_t i = at; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    }
    return text.len > at;
}

static pal_status read_limit(pal_call *call, uint64_t *out_limit, pal_error *err)
{
    pal_str text;
    if (!pal_exchange_query(call->exchange, "limit", &text) || text.len == 0)
        return PAL_OK;
    if (!is_number(text))
        return wrong(call, "limit", "Invalid limit parameter", err);
    if (!pal_call_number(text, out_limit) || *out_limit < 1 ||
            *out_limit > PAL_SERVER_CONVERSATIONS_MAX)
        return wrong(call, "limit", "Limit must be between 1 and 1000", err);
    return PAL_OK;
}

static pal_status list_conversations(pal_call *call, pal_error *err)
{
    uint64_t limit = PAL_SERVER_CONVERSATIONS_DEFAULT;
    uint32_t room = PAL_SERVER_CONVERSATION_MESSAGES_MAX;
    pal_session_page page;
    pal_session_query query = {.tenant = call->caller.tenant};
    pal_status status = read_limit(call, &limit, err);
    if (status != PAL_OK)
        return status;
    if (!pal_exchange_query(call->exchange, "project_id", &query.project) || !query.project.len)
        return wrong(call, "project_id", "project_id parameter is required", err);
    query.limit = (uint32_t)limit;
    status = pal_store_list(call->server->store, &query, call->arena, &page, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_str(writer, "project_id", query.project);
    pal_put_count(writer, "limit", limit);
    pal_json_name(writer, "conversations");
    if (page.sessions_len == 0)
        pal_json_put_null(writer); /* Loom's clients expect null instead of an empty array */
    else
        pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < page.sessions_len; i++)
        status = put_conversation(call, &page.sessions[i], &room, err);
    if (page.sessions_len)
        pal_json_end_array(writer);
    pal_json_end_object(writer);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

/* ---- Creating conversations ---- */

static pal_status name_session(pal_call *call, pal_str id, pal_session *given, pal_error *err)
{
    char alias[PAL_KEY_LEN_MAX + 1];
    snprintf(alias, sizeof alias, LOOM_ALIAS "%.*s", PAL_STR_ARG(id));
    given->aliases = pal_arena_array(call->arena, 2, sizeof *given->aliases);
    if (given->aliases) {
        given->aliases[0] = id;
        given->aliases[1] = pal_arena_copy(call->arena, pal_str_of(alias));
        given->aliases_len = 2;
    }
    return pal_arena_checked(call->arena, err);
}

typedef struct conversation_request {
    pal_route_context context;
    pal_str session_id;
    pal_str metadata;
} conversation_request;

#define ID_LEN_MAX (PAL_KEY_LEN_MAX - sizeof LOOM_ALIAS)

static const pal_api_object conversation_request_body = {"ConversationRequest",
        .members = PAL_API_MEMBERS(
                {"project_id", PAL_API_TEXT, "the project",
                        .offset = offsetof(conversation_request, context.project_id),
                        .max = ID_LEN_MAX,
                        .is_required = true},
                {"bead_id", PAL_API_TEXT, "the work item",
                        .offset = offsetof(conversation_request, context.bead_id),
                        .max = ID_LEN_MAX,
                        .is_required = true},
                {"session_id", PAL_API_TEXT, "an id for a new conversation",
                        .offset = offsetof(conversation_request, session_id), .max = ID_LEN_MAX},
                {"agent_id", PAL_API_TEXT, "the agent that answers",
                        .offset = offsetof(conversation_request, context.agent_id),
                        .max = ID_LEN_MAX},
                {"metadata", PAL_API_JSON_OBJECT, "data of the client",
                        .offset = offsetof(conversation_request, metadata)},
                {.type = PAL_API_INCLUDE, .of = &pal_api_messages_members})};

static bool is_missing(pal_json body, const char *name)
{
    pal_json value = pal_json_find(body, name);
    pal_json_type type = pal_json_type_of(value);
    return type == PAL_JSON_NONE || type == PAL_JSON_NULL || pal_json_string_is(value, "");
}

static pal_status read_new(pal_call *call, pal_inbound *inbound, pal_session *given, pal_error *err)
{
    conversation_request request = {.context.kind = PAL_ROUTE_WORK_ITEM};
    /* Loom's clients expect these texts. */
    if (is_missing(call->body, "project_id"))
        return wrong(call, "project_id", "project_id is required", err);
    if (is_missing(call->body, "bead_id"))
        return wrong(call, "bead_id", "bead_id is required", err);
    pal_status status =
            pal_api_object_read(call, call->body, &conversation_request_body, &request, err);
    if (status != PAL_OK)
        return status;
    inbound->context = request.context;
    given->metadata = request.metadata;
    return request.session_id.len ? name_session(call, request.session_id, given, err) : PAL_OK;
}

/* Whether the session belongs to the work item of the request. */
static bool is_item(pal_call *call, const pal_session *session, const pal_route_context *context)
{
    return session->state == PAL_SESSION_ACTIVE &&
            pal_str_equal(pal_bead_value(call, session, "bead_id"), context->bead_id) &&
            pal_str_equal(session->project, context->project_id);
}

static pal_status taken(pal_call *call, pal_str id, pal_error *err)
{
    call->fail_param = "session_id";
    return pal_error_set(err, PAL_CONFLICT, "session_id '%.*s' belongs to another session",
            PAL_EXCERPT(id, 120));
}

/* Checks that the id chosen by the client is free or names this session. PAL_CONFLICT if it names
 * another session. */
static pal_status check_id(
        pal_call *call, const pal_session *given, const pal_route_context *context, pal_error *err)
{
    pal_session other;
    if (given->aliases_len == 0)
        return PAL_OK;
    pal_status status = pal_call_session(call, given->aliases[0], &other, err);
    if (status == PAL_NOT_FOUND)
        return PAL_OK;
    bool is_gone = status == PAL_OK && other.state == PAL_SESSION_TRASH;
    if (status != PAL_OK || is_gone || is_item(call, &other, context))
        return status;
    return taken(call, given->aliases[0], err);
}

/* Two concurrent requests may have chosen the same id for two work items. */
static pal_status check_made(
        pal_call *call, const pal_session *given, const pal_inbound *inbound, pal_error *err)
{
    pal_session named;
    if (given->aliases_len == 0)
        return PAL_OK;
    pal_status status = pal_call_session(call, given->aliases[0], &named, err);
    if (status != PAL_OK || pal_id_equal(named.id, inbound->resolution.session))
        return status;
    if (inbound->resolution.created)
        status = pal_store_delete(
                call->server->store, call->caller.tenant, inbound->resolution.session, err);
    return status == PAL_OK ? taken(call, given->aliases[0], err) : status;
}

/* Time and token count of a message are the client's, if it sends them. */
static pal_status take_given(
        pal_call *call, pal_message *messages, size_t len, uint64_t *out_tokens, pal_error *err)
{
    for (size_t i = 0; i < len; i++) {
        pal_json extra = {0}, time;
        *out_tokens += given_tokens(&messages[i], call->arena);
        if (messages[i].extra.len &&
                pal_json_parse(call->arena, messages[i].extra, NULL, &extra, NULL) != PAL_OK)
            continue;
        time = pal_json_find(extra, "timestamp");
        if (pal_json_type_of(time) == PAL_JSON_NONE || pal_json_type_of(time) == PAL_JSON_NULL)
            continue;
        if (!pal_time_from_text(pal_json_string(time, call->arena), &messages[i].created_at))
            return wrong(call, "messages", "Invalid timestamp: use RFC 3339", err);
    }
    return PAL_OK;
}

static pal_status add_messages(pal_call *call, pal_id session, pal_message *messages, size_t len,
        uint64_t tokens, pal_error *err)
{
    pal_status status = pal_store_append(call->server->store, call->caller.tenant, session,
            messages, len, PAL_SEQ_ANY, err);
    return status == PAL_OK && tokens ? keep_given(call, session, tokens, err) : status;
}

/* Finds the session of a work item, or creates it. */
static pal_status create_conversation(pal_call *call, pal_error *err)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_inbound inbound = {0};
    pal_session given = {0}, session;
    pal_message *messages = NULL;
    size_t len = 0;
    uint64_t tokens = 0;
    pal_status status = read_new(call, &inbound, &given, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_messages_read(call, call->body, false, &messages, &len, err);
    if (status != PAL_OK)
        return status;
    status = take_given(call, messages, len, &tokens, err);
    if (status != PAL_OK)
        return status;
    status = check_id(call, &given, &inbound.context, err);
    if (status != PAL_OK)
        return status;
    status = pal_inbound_resolve(call, &given, &inbound, err);
    if (status != PAL_OK)
        return status;
    status = check_made(call, &given, &inbound, err);
    if (status != PAL_OK)
        return status;
    if (inbound.resolution.created && len > 0)
        status = add_messages(call, inbound.resolution.session, messages, len, tokens, err);
    if (status != PAL_OK)
        return status;
    pal_id_to_text(inbound.resolution.session, id);
    status = pal_store_find(call->server->store, call->caller.tenant, PAL_SESSION_BY_ID,
            pal_str_of(id), call->arena, &session, err);
    return status == PAL_OK
            ? send_conversation(call, &session, inbound.resolution.created ? 201 : 200, err)
            : status;
}

static pal_status no_id(pal_call *call, pal_error *err)
{
    return wrong(call, NULL, "Session ID is required", err);
}

static pal_status no_path(pal_call *call, pal_error *err)
{
    return wrong(call, NULL, "Invalid path", err);
}

/* ---- Routes ---- */

/* Read by read_limit() and its caller, with the texts that Loom's clients expect. */
static const pal_api_object list_query = {
        .members = PAL_API_MEMBERS(
                {"project_id", PAL_API_TEXT, "the project", .is_required = true},
                {"limit", PAL_API_COUNT, "maximum number of conversations", .min = 1,
                        .max = PAL_SERVER_CONVERSATIONS_MAX})};

static const pal_api_object conversation_message = {
        .members = PAL_API_MEMBERS(
                {"role", PAL_API_TEXT, .is_required = true},
                {"content", PAL_API_TEXT, .is_required = true},
                {"timestamp", PAL_API_TIME, .is_required = true},
                {"token_count", .type = PAL_API_COUNT})};

static const pal_api_object conversation_body = {"Conversation",
        .members = PAL_API_MEMBERS(
                {"session_id", PAL_API_TEXT, .is_required = true},
                {"bead_id", PAL_API_TEXT, .is_required = true},
                {"project_id", PAL_API_TEXT, .is_required = true},
                {"messages", PAL_API_LIST, .of = &conversation_message, .is_required = true},
                {"created_at", PAL_API_TIME, .is_required = true},
                {"updated_at", PAL_API_TIME, .is_required = true},
                {"expires_at", PAL_API_TIME, .is_required = true},
                {"token_count", PAL_API_COUNT, .is_required = true},
                {"metadata", PAL_API_JSON_OBJECT, .is_required = true},
                {"entity_metadata", PAL_API_JSON_OBJECT, .is_required = true},
                {"truncated", .type = PAL_API_FLAG})};

static const pal_api_object conversation_list_body = {"ConversationList",
        .members = PAL_API_MEMBERS(
                {"project_id", PAL_API_TEXT, .is_required = true},
                {"limit", PAL_API_COUNT, .is_required = true},
                {"conversations", PAL_API_LIST, .of = &conversation_body, .is_required = true,
                        .is_nullable = true})};

static const pal_api_object conversation_done_body = {"ConversationDone",
        .members = PAL_API_MEMBERS(
                {"success", PAL_API_FLAG, .is_required = true},
                {"message", PAL_API_TEXT, .is_required = true},
                {"session_id", PAL_API_TEXT, .is_required = true},
                {"keep_system_message", .type = PAL_API_FLAG})};

const pal_api_route pal_loom_routes[] = {
        {"GET", "/api/v1/conversations", PAL_KEY_READ, PAL_API_WORKER, list_conversations,
                {"listConversations", "list a project's conversations, newest update first",
                        &list_query, NULL, &conversation_list_body, 200}},
        {"POST", "/api/v1/conversations", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_TURN | PAL_API_WORKER,
                create_conversation,
                {"createConversation",
                        "get the conversation of a work item; create it if there is none",
                        NULL, &conversation_request_body, &conversation_body, 201}},
        {"GET", "/api/v1/conversations/", PAL_KEY_READ, 0, no_id,
                {"getNoConversation", "always fails: the id is missing", NULL, NULL,
                        &pal_api_error_object, 400}},
        {"GET", "/api/v1/conversations/{id}", PAL_KEY_READ, PAL_API_WORKER, get_conversation,
                {"getConversation", "read one conversation with its messages", NULL, NULL,
                        &conversation_body, 200}},
        {"DELETE", "/api/v1/conversations/{id}", PAL_KEY_WRITE, PAL_API_WORKER,
                delete_conversation,
                {"deleteConversation",
                        "move a conversation to the trash", NULL, NULL,
                        &conversation_done_body, 200}},
        {"POST", "/api/v1/conversations/{id}/reset", PAL_KEY_WRITE,
                PAL_API_ANY_JSON | PAL_API_WORKER, reset_conversation,
                {"resetConversation", "hide all messages of a conversation", NULL,
                        &pal_api_reset_body, &conversation_done_body, 200}},
        {"GET", "/api/v1/beads/{id}", PAL_KEY_READ, 0, no_path,
                {"getBead",
                        "always fails: only the conversation itself can be requested",
                        NULL, NULL,
                        &pal_api_error_object, 400}},
        {"GET", "/api/v1/beads/{id}/conversation", PAL_KEY_READ, PAL_API_WORKER, get_bead,
                {"getBeadConversation", "read the conversation of a work item", NULL, NULL,
                        &conversation_body, 200}},
        {0},
};
