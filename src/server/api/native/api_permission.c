/* api_permission.c - the answers about tools that a session remembers: list and forget them. */
#include "base/json/json_put.h"
#include "server/api/api_object.h"
#include "server/api/native/api_native.h"
#include "server/server_call.h"

static pal_status list_permissions(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_permission_memory *memories;
    size_t len;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    status = pal_permission_list(call->server->store, call->caller.tenant, session.id, call->arena,
            &memories, &len, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "permissions");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < len; i++) {
        pal_json_begin_object(writer);
        pal_put_str(writer, "tool", memories[i].tool);
        pal_put_text(writer, "do", pal_permission_name(memories[i].permission));
        pal_put_time(writer, "created_at", memories[i].created_at);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status forget_permission(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    status = pal_permission_forget(
            call->server->store, call->caller.tenant, session.id, call->params[1], err);
    return status == PAL_OK ? list_permissions(call, err) : status;
}

static const pal_api_object permission_body = {"SessionPermission",
        .members = PAL_API_MEMBERS(
                {"tool", PAL_API_TEXT, .is_required = true},
                {"do", PAL_API_WORD, .words = "allow deny", .is_required = true},
                {"created_at", PAL_API_TIME, .is_required = true})};
static const pal_api_object permissions_body = {"SessionPermissions",
        .members = PAL_API_MEMBERS(
                {"permissions", PAL_API_LIST, .of = &permission_body, .is_required = true})};

const pal_api_route pal_permission_routes[] = {
        {"GET", "/api/v1/sessions/{id}/permissions", PAL_KEY_READ, PAL_API_WORKER, list_permissions,
                {"listPermissions", "list the answers about tools that the session remembers", NULL,
                        NULL, &permissions_body, 200}},
        {"DELETE", "/api/v1/sessions/{id}/permissions/{tool}", PAL_KEY_WRITE, PAL_API_WORKER,
                forget_permission,
                {"forgetPermission", "forget an answer, so that the next call of the tool asks",
                        NULL, NULL, &permissions_body, 200}},
        {0},
};
