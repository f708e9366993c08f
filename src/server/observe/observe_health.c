/* observe_health.c - /healthz reports that the process responds. /readyz reports that it can work:
 * the store can be read and written, and the server is not stopping. After the disk refused a
 * commit, the server is not ready until a write succeeds.
 *
 * /api/v1/health has the members that Skillian (a chat assistant) sends. Members without a
 * counterpart in Palaver are 0. If keys exist, a request without a key gets only the status. */
#include "server/observe/observe_health.h"

#include "base/json/json.h"
#include "base/json/json_put.h"
#include "server/access/access_auth.h"
#include "server/server_call.h"

pal_status pal_health_live(pal_call *call, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    (void)err;
    pal_json_begin_object(writer);
    pal_put_text(writer, "status", "ok");
    pal_put_text(writer, "version", call->server->version);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

pal_status pal_health_ready(pal_call *call, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    bool is_draining = atomic_load(&call->server->is_draining);
    pal_status status = pal_store_ready(call->server->store, err);
    bool is_ready = status == PAL_OK && !is_draining;
    pal_json_begin_object(writer);
    pal_put_text(writer, "status", is_ready ? "ready" : is_draining ? "stopping" : "failing");
    pal_put_text(writer, "store", status == PAL_OK ? "ok" : pal_status_name(status));
    pal_json_end_object(writer);
    pal_call_send(call, is_ready ? 200 : 503);
    return PAL_OK;
}

pal_status pal_health_details(pal_call *call, pal_error *err)
{
    pal_str endpoint = {0}, model = {0};
    pal_tool *tools;
    size_t tools_len = 0;
    pal_json_writer *writer = pal_call_writer(call);
    bool has_store = pal_store_ready(call->server->store, err) == PAL_OK;
    pal_status status =
            pal_runtime_default(call->server->runtime, call->arena, &endpoint, &model, NULL, err);
    if (status == PAL_OK)
        status = pal_runtime_tools(call->server->runtime, call->arena, &tools, &tools_len, err);
    pal_json_begin_object(writer);
    pal_put_text(writer, "status", has_store && status == PAL_OK ? "healthy" : "degraded");
    if (!pal_auth_is_known(call)) {
        pal_json_end_object(writer);
        pal_call_send(call, 200);
        return PAL_OK;
    }
    pal_put_text(writer, "version", call->server->version);
    pal_put_text(writer, "environment", "production");
    pal_put_str(writer, "llm_provider", endpoint);
    pal_put_str(writer, "llm_model", model);
    pal_put_count(writer, "skills_count", 0);
    pal_put_count(writer, "tools_count", tools_len);
    pal_put_count(writer, "knowledge_documents", 0);
    pal_put_flag(writer, "business_db_healthy", has_store);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}
