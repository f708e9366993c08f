/* api_inbox.c - the messages that wait in a session: list them and take them back. */
#include "base/json/json_put.h"
#include "dialect/dialect_text.h"
#include "dialect/native/native.h"
#include "server/api/api_object.h"
#include "server/api/native/api_message.h"
#include "server/api/native/api_native.h"
#include "server/server_call.h"

static pal_status put_waiting(
        pal_call *call, const pal_waiting_request *waiting, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    pal_status status = PAL_OK;
    pal_json_begin_object(writer);
    pal_put_id(writer, "id", waiting->item);
    if (pal_id_is_none(waiting->turn))
        pal_put_null(writer, "turn_id");
    else
        pal_put_id(writer, "turn_id", waiting->turn);
    pal_put_str(writer, "delivery", waiting->delivery);
    pal_put_time(writer, "created_at", waiting->created_at);
    pal_put_str(writer, "text", waiting->messages_len
            ? pal_dialect_text(&waiting->messages[0], call->arena) : (pal_str){0});
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < waiting->messages_len; i++)
        status = pal_native_message_put(writer, &waiting->messages[i], err);
    pal_json_end_array(writer);
    pal_json_end_object(writer);
    return status;
}

static pal_status list_inbox(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_waiting_request *waiting;
    size_t len;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_turn_inbox(call->server->runtime, call->caller.tenant, session.id,
                call->arena, &waiting, &len, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "items");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        status = put_waiting(call, &waiting[i], err);
    pal_json_end_array(writer);
    pal_json_end_object(writer);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

static pal_status drop_inbox_item(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_id item;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    if (!pal_id_from_text(call->params[1], &item))
        return pal_error_set(err, PAL_INVALID, "the path must end in the id of an item");
    status = pal_turn_inbox_drop(
            call->server->runtime, call->caller.tenant, session.id, item, err);
    return status == PAL_OK ? list_inbox(call, err) : status;
}

static const pal_api_object item_body = {"InboxItem",
        .members = PAL_API_MEMBERS(
                {"id", PAL_API_TEXT, .is_required = true},
                {"turn_id", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"delivery", PAL_API_TEXT, .is_required = true},
                {"created_at", PAL_API_TIME, .is_required = true},
                {"text", PAL_API_TEXT, .is_required = true},
                {"messages", PAL_API_LIST, .of = &pal_api_message_body, .is_required = true})};

static const pal_api_object inbox_body = {"Inbox",
        .members = PAL_API_MEMBERS(
                {"items", PAL_API_LIST, .of = &item_body, .is_required = true})};

const pal_api_route pal_inbox_routes[] = {
        {"GET", "/api/v1/sessions/{id}/inbox", PAL_KEY_READ, PAL_API_WORKER, list_inbox,
                {"listInbox", "list the messages that wait in a session, the oldest first", NULL,
                        NULL, &inbox_body, 200}},
        {"DELETE", "/api/v1/sessions/{id}/inbox/{item}", PAL_KEY_WRITE, PAL_API_WORKER,
                drop_inbox_item,
                {"dropInboxItem", "take a waiting message back", NULL, NULL, &inbox_body, 200}},
        {0},
};
