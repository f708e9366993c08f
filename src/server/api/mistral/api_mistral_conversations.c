/* api_mistral_conversations.c - operations that call no model: read, list and delete conversations.
 * api_mistral_start.c has the routes that call a model. */
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"
#include "server/api/mistral/api_mistral.h"
#include "server/api/native/api_message.h"
#include "server/api/native/api_session.h"
#include "server/server_call.h"

#define PAGE_DEFAULT 100
#define SCAN_STEP 200 /* records that are read at a time */

/* ---- One conversation ---- */

/* A version that is a number is written as a number. */
static void put_version(pal_json_writer *writer, pal_str version)
{
    uint64_t number;
    pal_json_name(writer, "agent_version");
    if (version.len == 0)
        pal_json_put_null(writer);
    else if (pal_call_number(version, &number))
        pal_json_put_u64(writer, number);
    else
        pal_json_put_str(writer, version);
}

static void put_value_or_null(pal_json_writer *writer, const char *name, pal_json value)
{
    pal_json_name(writer, name);
    if (pal_json_is_absent(value))
        pal_json_put_null(writer);
    else
        pal_json_put_raw(writer, pal_json_raw(value));
}

static pal_status put_model(pal_call *call, pal_json_writer *writer,
        const pal_mistral_settings *settings, pal_error *err)
{
    pal_str endpoint, model = settings->model;
    pal_status status = PAL_OK;
    if (model.len == 0)
        status = pal_runtime_default(
                call->server->runtime, call->arena, &endpoint, &model, NULL, err);
    pal_put_str(writer, "model", model);
    pal_put_str_or_null(writer, "instructions", settings->instructions);
    put_value_or_null(writer, "guardrails", settings->guardrails);
    if (!pal_json_is_absent(settings->tools))
        put_value_or_null(writer, "tools", settings->tools);
    if (!pal_json_is_absent(settings->completion_args))
        put_value_or_null(writer, "completion_args", settings->completion_args);
    return status;
}

static pal_status put_conversation(pal_call *call, const pal_session *session,
        const pal_mistral_settings *settings, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    char id[PAL_OPENAI_ID_SIZE];
    pal_status status = PAL_OK;
    pal_openai_id_text("conv_", session->id, id);
    pal_json_begin_object(writer);
    pal_put_text(writer, "object", "conversation");
    pal_put_text(writer, "id", id);
    pal_put_time(writer, "created_at", session->created_at);
    pal_put_time(writer, "updated_at", session->updated_at);
    pal_put_str_or_null(writer, "name", settings->name);
    pal_put_str_or_null(writer, "description", settings->description);
    put_value_or_null(writer, "metadata", settings->metadata);
    if (settings->agent_id.len) {
        pal_put_str(writer, "agent_id", settings->agent_id);
        put_version(writer, settings->agent_version);
    } else {
        status = put_model(call, writer, settings, err);
    }
    pal_json_end_object(writer);
    return status;
}

static pal_status get(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_mistral_settings settings;
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, &session, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_settings_of(call, &session, &settings, err);
    if (status != PAL_OK)
        return status;
    status = put_conversation(call, &session, &settings, err);
    if (status != PAL_OK)
        return status;
    pal_call_send(call, 200);
    return PAL_OK;
}

static void deleted(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status == PAL_OK)
        pal_exchange_answer(call->exchange, 204, NULL, (pal_str){0});
    else
        pal_call_fail(call, status, err);
}

static pal_status erase(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_op *op = pal_arena_alloc(call->arena, sizeof *op);
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, &session, err);
    if (status != PAL_OK || !op)
        return op ? status : pal_arena_checked(call->arena, err);
    *op = pal_op_delete(call->caller.tenant, session.id);
    return pal_call_apply(call, op, 1, deleted, err);
}

/* ---- Lists of conversations ---- */

typedef struct conversation_scan {
    pal_json filter;
    uint64_t skip;
    uint64_t left;
} conversation_scan;

/* Conversations in the trash are skipped. */
static pal_status take_conversation(
        pal_call *call, conversation_scan *scan, const pal_record *record, pal_error *err)
{
    pal_session session;
    pal_mistral_settings settings = {0};
    pal_status status = pal_store_find(call->server->store, call->caller.tenant, PAL_SESSION_BY_ID,
            record->name, call->arena, &session, err);
    if (status == PAL_NOT_FOUND || (status == PAL_OK && session.state != PAL_SESSION_ACTIVE))
        return PAL_OK;
    bool needs_settings = scan->skip == 0 || !pal_json_is_absent(scan->filter);
    if (status == PAL_OK && needs_settings)
        status = pal_mistral_settings_of(call, &session, &settings, err);
    if (status != PAL_OK || !pal_mistral_filter_fits(scan->filter, settings.metadata, call->arena))
        return status;
    if (scan->skip) {
        scan->skip--;
        return PAL_OK;
    }
    scan->left--;
    return put_conversation(call, &session, &settings, err);
}

/* Lists the newest first: the names of records sort by the creation time of their sessions. */
static pal_status scan_conversations(pal_call *call, conversation_scan *scan, pal_error *err)
{
    pal_record_query query = {.tenant = call->caller.tenant,
            .kind = pal_str_of(PAL_MISTRAL_CONVERSATION),
            .descending = true,
            .limit = SCAN_STEP};
    pal_record_page page = {.has_more = true};
    pal_status status = PAL_OK;
    while (status == PAL_OK && page.has_more && scan->left) {
        status = pal_store_record_list(call->server->store, &query, call->arena, &page, err);
        for (size_t i = 0; status == PAL_OK && scan->left && i < page.len; i++) {
            query.after = page.items[i].name;
            status = take_conversation(call, scan, &page.items[i], err);
        }
    }
    return status;
}

static const pal_api_object list_query = {
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &pal_mistral_page_query},
                {"metadata", PAL_API_VALUE, "JSON object that the metadata must contain",
                        .schema = "{\"type\":\"string\"}"})};

static pal_status list(pal_call *call, pal_error *err)
{
    pal_mistral_page page = {.size = PAGE_DEFAULT};
    pal_status status = pal_api_query_read(call, &list_query, &page, err);
    if (status != PAL_OK)
        return status;
    conversation_scan scan = {.skip = page.number * page.size, .left = page.size};
    status = pal_mistral_filter_read(call, &scan.filter, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_array(pal_call_writer(call));
    status = scan_conversations(call, &scan, err);
    if (status != PAL_OK)
        return status;
    pal_json_end_array(pal_call_writer(call));
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Entries and messages ---- */

static pal_status put_entries(pal_call *call, const pal_session *session, pal_str agent_id,
        bool messages_only, pal_error *err)
{
    pal_message_page messages;
    pal_mistral_entry *entries;
    size_t len = 0;
    pal_status status = pal_store_load(call->server->store, call->caller.tenant, session->id, NULL,
            call->arena, &messages, err);
    for (size_t i = 0; status == PAL_OK && i < messages.len; i++)
        status = pal_api_parts_fetch(
                call, messages.items[i].parts, messages.items[i].parts_len, err);
    if (status == PAL_OK)
        status = pal_mistral_entries(call, &messages, agent_id, &entries, &len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        if (!messages_only || entries[i].kind == PAL_ENTRY_MESSAGE)
            pal_mistral_entry_put(pal_call_writer(call), &entries[i], call->arena);
    }
    return status == PAL_OK ? pal_arena_checked(call->arena, err) : status;
}

static pal_status show_entries(pal_call *call, bool messages_only, pal_error *err)
{
    pal_session session;
    pal_mistral_settings settings;
    pal_json_writer *writer = pal_call_writer(call);
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, &session, err);
    if (status == PAL_OK)
        status = pal_mistral_settings_of(call, &session, &settings, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(writer);
    pal_put_text(
            writer, "object", messages_only ? "conversation.messages" : "conversation.history");
    pal_put_str(writer, "conversation_id", call->params[0]);
    pal_json_name(writer, messages_only ? "messages" : "entries");
    pal_json_begin_array(writer);
    status = put_entries(call, &session, settings.agent_id, messages_only, err);
    pal_json_end_array(writer);
    pal_json_end_object(writer);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

static pal_status get_history(pal_call *call, pal_error *err)
{
    return show_entries(call, false, err);
}

static pal_status get_messages(pal_call *call, pal_error *err)
{
    return show_entries(call, true, err);
}

PAL_MISTRAL_HANDLER(get)
PAL_MISTRAL_HANDLER(erase)
PAL_MISTRAL_HANDLER(list)
PAL_MISTRAL_HANDLER(get_history)
PAL_MISTRAL_HANDLER(get_messages)

const pal_api_route pal_mistral_conversation_routes[] = {
        {"GET", "/mistral/v1/conversations", PAL_KEY_READ, PAL_API_WORKER, handle_list,
                {"mistralListConversations", "list conversations, newest first", &list_query, NULL,
                        &pal_api_any_object, 200}},
        {"GET", "/mistral/v1/conversations/{id}", PAL_KEY_READ, PAL_API_WORKER, handle_get,
                {"mistralGetConversation",
                        "read the settings of a conversation", NULL, NULL, &pal_api_any_object,
                        200}},
        {"DELETE", "/mistral/v1/conversations/{id}", PAL_KEY_WRITE, 0, handle_erase,
                {"mistralDeleteConversation",
                        "move a conversation to the trash", NULL, NULL, NULL, 204}},
        {"GET", "/mistral/v1/conversations/{id}/history", PAL_KEY_READ, PAL_API_WORKER,
                handle_get_history,
                {"mistralGetHistory",
                        "list all entries of a conversation, oldest first", NULL, NULL,
                        &pal_api_any_object,
                        200}},
        {"GET", "/mistral/v1/conversations/{id}/messages", PAL_KEY_READ, PAL_API_WORKER,
                handle_get_messages,
                {"mistralGetMessages",
                        "list the messages of a conversation, without calls and results",
                        NULL, NULL,
                        &pal_api_any_object, 200}},
        {0},
};
