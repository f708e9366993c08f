/* api_loom.c - conversations of work items ("beads"), in Loom's shapes, codes and words.
 *
 * A conversation is a session. One that was made here has the key of its work item, as routing
 * makes it, and a record of the kind "bead" leads to it; a session id that the client chose is the
 * alias "loom:ID", and so is the key of one that was imported. Any other session is shown as well,
 * by its own id. */
#include <stdio.h>
#include "base/clock.h"
#include "dialect/dialect_member.h"
#include "server/api_inbound.h"
#include "server/api_message.h"
#include "server/api_native.h"
#include "server/api_turn.h"
#include "server/server_call.h"
#include "server/server_put.h"

#define LOOM_ALIAS "loom:"

/* ---- Showing ---- */

/* The member of the scope's values, or of the metadata. */
static pal_str value_of(const pal_session *session, const char *name, pal_arena *arena)
{
    pal_json scope = {0}, metadata = {0};
    pal_str text = {0};
    if (session->scope.len && pal_json_parse(arena, session->scope, NULL, &scope, NULL) == PAL_OK)
        text = pal_member_string(pal_json_find(scope, "values"), name, arena);
    if (!text.len && session->metadata.len &&
            pal_json_parse(arena, session->metadata, NULL, &metadata, NULL) == PAL_OK)
        text = pal_member_string(metadata, name, arena);
    return text;
}

static bool take_loom_id(pal_str name, pal_str *out_id)
{
    size_t len = sizeof LOOM_ALIAS - 1;
    if (name.len <= len || memcmp(name.data, LOOM_ALIAS, len) != 0)
        return false;
    *out_id = pal_str_make(name.data + len, name.len - len);
    return true;
}

static void put_session_id(pal_json_writer *writer, const pal_session *session)
{
    pal_str id;
    bool is_found = take_loom_id(session->key, &id);
    for (size_t i = 0; !is_found && i < session->aliases_len; i++)
        is_found = take_loom_id(session->aliases[i], &id);
    if (is_found)
        pal_put_str(writer, "session_id", id);
    else
        pal_put_id(writer, "session_id", session->id);
}

/* An imported row has Loom's own metadata inside of ours. */
static void put_metadata(pal_json_writer *writer, const pal_session *session, pal_arena *arena)
{
    pal_json value = {0};
    if (session->metadata.len)
        (void)!pal_json_parse(arena, session->metadata, NULL, &value, NULL);
    if (pal_json_string_is(pal_json_find(value, "source"), "loom"))
        value = pal_json_find(value, "metadata");
    bool is_object = pal_json_type_of(value) == PAL_JSON_OBJECT;
    pal_json_name(writer, "metadata");
    pal_json_put_raw(writer, is_object ? pal_json_raw(value) : pal_str_of("{}"));
}

static uint64_t put_messages(pal_json_writer *writer, const pal_messages *list, pal_arena *arena)
{
    uint64_t tokens = 0;
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < list->len; i++) {
        const pal_message *message = &list->items[i];
        pal_json_begin_object(writer);
        pal_put_text(writer, "role", pal_role_name(message->role));
        pal_put_str(writer, "content", pal_api_message_text(message, arena));
        pal_put_time(writer, "timestamp", message->created_at);
        if (message->tokens)
            pal_put_count(writer, "token_count", message->tokens);
        pal_json_end_object(writer);
        tokens += message->tokens;
    }
    pal_json_end_array(writer);
    return tokens;
}

/* One ConversationContext; `room` is how many messages the answer still takes. */
static pal_status put_conversation(
        pal_call *call, const pal_session *session, uint32_t *room, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    pal_messages list = {.has_more = true};
    pal_load load = {.limit = *room, .from_end = true};
    pal_str project = session->project;
    pal_status status = PAL_OK;
    if (*room > 0)
        status = pal_store_load(call->server->store, call->caller.tenant, session->id, &load,
                call->arena, &list, err);
    if (status != PAL_OK)
        return status;
    *room -= (uint32_t)list.len;
    pal_json_begin_object(writer);
    put_session_id(writer, session);
    pal_put_str(writer, "bead_id", value_of(session, "bead_id", call->arena));
    if (!project.len)
        project = value_of(session, "project_id", call->arena);
    pal_put_str(writer, "project_id", project);
    uint64_t tokens = put_messages(writer, &list, call->arena);
    pal_put_time(writer, "created_at", session->created_at);
    pal_put_time(writer, "updated_at", session->updated_at);
    if (session->expires_at)
        pal_put_time(writer, "expires_at", session->expires_at);
    else
        pal_put_str_or_null(writer, "expires_at", (pal_str){0});
    pal_put_count(writer, "token_count", list.has_more ? session->tokens : tokens);
    put_metadata(writer, session, call->arena);
    pal_json_name(writer, "entity_metadata");
    pal_json_put_raw(writer, pal_str_of("{\"schema_version\":\"1.0\"}"));
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

/* ---- Finding ---- */

static pal_status not_found(const char *what, pal_str id, pal_error *err)
{
    return pal_error_set(err, PAL_NOT_FOUND, "%s: %.*s", what, (int)(id.len < 120 ? id.len : 120),
            id.data ? id.data : "");
}

static pal_status find(pal_call *call, pal_str name, pal_session *out_session, pal_error *err)
{
    return pal_store_find(call->server->store, call->caller.tenant, PAL_FIND_ANY, name, call->arena,
            out_session, err);
}

static pal_status find_loom(pal_call *call, pal_str id, pal_session *out_session, pal_error *err)
{
    char alias[PAL_KEY_LEN_MAX + 1];
    if (id.len > PAL_KEY_LEN_MAX - sizeof LOOM_ALIAS)
        return PAL_NOT_FOUND;
    snprintf(alias, sizeof alias, LOOM_ALIAS "%.*s", PAL_STR_ARG(id));
    return find(call, pal_str_of(alias), out_session, err);
}

/* One that has expired is still shown until it is swept, as Loom does. */
static pal_status find_conversation(pal_call *call, pal_session *out_session, pal_error *err)
{
    pal_str id = call->params[0];
    pal_status status = find(call, id, out_session, err);
    if (status == PAL_NOT_FOUND)
        status = find_loom(call, id, out_session, err);
    bool is_deleted = status == PAL_OK && out_session->state == PAL_SESSION_TRASH &&
            out_session->deleted_at != 0;
    if (status == PAL_NOT_FOUND || is_deleted)
        return not_found("Conversation session not found", id, err);
    return status;
}

/* The session that the work item's record names; one in the trash is none. */
static pal_status find_noted(pal_call *call, pal_str bead, pal_session *out_session, pal_error *err)
{
    pal_record record;
    char id[PAL_ID_TEXT_SIZE];
    if (bead.len > PAL_RECORD_NAME_LEN_MAX)
        return PAL_NOT_FOUND;
    pal_status status = pal_store_record_find(call->server->store, call->caller.tenant,
            pal_str_of(PAL_BEAD_RECORD), bead, call->arena, &record, err);
    if (status != PAL_OK)
        return status;
    pal_id_to_text(record.session, id);
    status = find(call, pal_str_of(id), out_session, err);
    return status == PAL_OK && out_session->state == PAL_SESSION_TRASH ? PAL_NOT_FOUND : status;
}

/* The newest of those that have no record, as imported ones. */
static pal_status look_for_bead(
        pal_call *call, pal_str bead, pal_session *out_session, pal_error *err)
{
    pal_session_query query = {.tenant = call->caller.tenant, .limit = PAL_SESSION_PAGE_MAX};
    pal_session_page page;
    size_t seen = 0;
    do {
        pal_status status = pal_store_list(call->server->store, &query, call->arena, &page, err);
        if (status != PAL_OK)
            return status;
        for (size_t i = 0; i < page.sessions_len; i++) {
            if (pal_str_equal(value_of(&page.sessions[i], "bead_id", call->arena), bead)) {
                *out_session = page.sessions[i];
                return PAL_OK;
            }
        }
        seen += page.sessions_len;
        query.cursor = page.cursor;
    } while (page.cursor.len && seen < PAL_SERVER_BEAD_SESSIONS_MAX);
    return not_found("No conversation found for bead", bead, err);
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
    pal_status status = find_noted(call, call->params[0], &session, err);
    if (status == PAL_NOT_FOUND)
        status = look_for_bead(call, call->params[0], &session, err);
    return status == PAL_OK ? send_conversation(call, &session, 200, err) : status;
}

static void put_done(pal_call *call, const char *message)
{
    pal_json_writer *writer = pal_call_writer(call);
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
        pal_json_put_null(writer); /* as Loom's clients know it */
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

/* ---- Making one ---- */

static pal_status read_new(pal_call *call, pal_inbound *inbound, pal_session *given, pal_error *err)
{
    pal_route_context *context = &inbound->context;
    pal_str id = {0};
    context->kind = PAL_ROUTE_WORK_ITEM;
    const struct {
        const char *name;
        pal_str *text;
    } texts[] = {
            {"project_id", &context->project_id},
            {"bead_id", &context->bead_id},
            {"agent_id", &context->agent_id},
            {"session_id", &id},
    };
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < sizeof texts / sizeof *texts; i++)
        status = pal_call_text(call, call->body, texts[i].name, PAL_KEY_LEN_MAX - sizeof LOOM_ALIAS,
                texts[i].text, err);
    if (status == PAL_OK)
        status = pal_call_object(call, call->body, "metadata", &given->metadata, err);
    if (status != PAL_OK)
        return status;
    if (!context->project_id.len)
        return wrong(call, "project_id", "project_id is required", err);
    if (!context->bead_id.len)
        return wrong(call, "bead_id", "bead_id is required", err);
    if (!id.len)
        return PAL_OK;
    char alias[PAL_KEY_LEN_MAX + 1];
    snprintf(alias, sizeof alias, LOOM_ALIAS "%.*s", PAL_STR_ARG(id));
    given->aliases = pal_arena_array(call->arena, 1, sizeof *given->aliases);
    if (given->aliases) {
        given->aliases[0] = pal_arena_copy(call->arena, pal_str_of(alias));
        given->aliases_len = 1;
    }
    return pal_arena_checked(call->arena, err);
}

/* The session of a work item: the one that there is, or a new one. */
static pal_status create_conversation(pal_call *call, pal_error *err)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_inbound inbound = {0};
    pal_session given = {0}, session;
    pal_message *messages;
    size_t len;
    pal_status status = read_new(call, &inbound, &given, err);
    if (status == PAL_OK)
        status = pal_api_messages_read(call, call->body, false, &messages, &len, err);
    if (status == PAL_OK)
        status = pal_inbound_resolve(call, &given, &inbound, err);
    if (status == PAL_OK && inbound.resolution.created && len > 0)
        status = pal_store_append(call->server->store, call->caller.tenant,
                inbound.resolution.session, messages, len, PAL_SEQ_ANY, err);
    if (status != PAL_OK)
        return status;
    pal_id_to_text(inbound.resolution.session, id);
    status = pal_store_find(call->server->store, call->caller.tenant, PAL_FIND_ID, pal_str_of(id),
            call->arena, &session, err);
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

const pal_api_route pal_loom_routes[] = {
        {"GET", "/api/v1/conversations", PAL_KEY_READ, PAL_ROUTE_WORKER, list_conversations,
                {"listConversations", "a project's conversations, the newest update first",
                        "project_id limit", NULL, "ConversationList", 200}},
        {"POST", "/api/v1/conversations", PAL_KEY_WRITE, PAL_ROUTE_JSON | PAL_ROUTE_WORKER,
                create_conversation,
                {"createConversation", "the conversation of a work item, made if there is none",
                        NULL, "ConversationRequest", "Conversation", 201}},
        {"GET", "/api/v1/conversations/", PAL_KEY_READ, 0, no_id,
                {"getNoConversation", "says that an id is missing", NULL, NULL, "Error", 400}},
        {"GET", "/api/v1/conversations/{id}", PAL_KEY_READ, PAL_ROUTE_WORKER, get_conversation,
                {"getConversation", "one conversation with its messages", NULL, NULL,
                        "Conversation", 200}},
        {"DELETE", "/api/v1/conversations/{id}", PAL_KEY_WRITE, PAL_ROUTE_WORKER,
                delete_conversation,
                {"deleteConversation", "move it to the trash", NULL, NULL, "ConversationDone",
                        200}},
        {"POST", "/api/v1/conversations/{id}/reset", PAL_KEY_WRITE,
                PAL_ROUTE_ANY_JSON | PAL_ROUTE_WORKER, reset_conversation,
                {"resetConversation", "take its messages out of sight", NULL, "ResetRequest",
                        "ConversationDone", 200}},
        {"GET", "/api/v1/beads/{id}", PAL_KEY_READ, 0, no_path,
                {"getBead", "says that there is only the conversation", NULL, NULL, "Error", 400}},
        {"GET", "/api/v1/beads/{id}/conversation", PAL_KEY_READ, PAL_ROUTE_WORKER, get_bead,
                {"getBeadConversation", "the conversation of a work item", NULL, NULL,
                        "Conversation", 200}},
        {0},
};
