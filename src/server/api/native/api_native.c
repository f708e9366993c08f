/* api_native.c - the native API under /api/v1: collects the routes of the files that implement
 * them. */
#include "server/api/native/api_native.h"

#include <string.h>
#include "server/api/api_object.h"
#include "server/api/native/api_feed.h"
#include "server/api/native/api_session.h"
#include "server/api/native/api_turn.h"
#include "server/observe/observe_health.h"
#include "server/server_call.h"

static const pal_api_object health_body = {"ServerHealth",
        .members = PAL_API_MEMBERS(
                {"status", PAL_API_WORD, .words = "healthy degraded", .is_required = true},
                {"version", PAL_API_TEXT, .is_required = true},
                {"environment", PAL_API_TEXT, .is_required = true},
                {"llm_provider", PAL_API_TEXT, .is_required = true},
                {"llm_model", PAL_API_TEXT, .is_required = true},
                {"skills_count", PAL_API_COUNT, .is_required = true},
                {"tools_count", PAL_API_COUNT, .is_required = true},
                {"knowledge_documents", PAL_API_COUNT, .is_required = true},
                {"business_db_healthy", PAL_API_FLAG, .is_required = true})};

static const pal_api_route health_routes[] = {
        {"GET", "/api/v1/health", PAL_KEY_NONE, PAL_API_WORKER, pal_health_details,
                {"health", "show the version and state of the server's parts", NULL, NULL,
                        &health_body, 200}},
        {0},
};

static const pal_api_route *const routes[] = {
        health_routes,
        pal_about_routes,
        pal_key_routes,
        pal_login_routes,
        pal_session_routes,
        pal_message_routes,
        pal_branch_routes,
        pal_context_routes,
        pal_ledger_routes,
        pal_plan_routes,
        pal_transfer_routes,
        pal_turn_routes,
        pal_turn_look_routes,
        pal_permission_routes,
        pal_note_routes,
        pal_skillian_routes,
        pal_loom_routes,
        pal_inbound_routes,
        pal_inbox_routes,
        pal_feed_routes,
        pal_channel_routes,
        NULL,
};

static bool is_below(const pal_api_route *route, const char *path)
{
    return strncmp(route->path, path, strlen(path)) == 0;
}

static pal_status find_subject(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_turn_info info;
    pal_id id;
    if (is_below(call->route, "/api/v1/sessions/{id}/restore"))
        return pal_api_session_or_trash(call, &id, err);
    if (is_below(call->route, "/api/v1/sessions/{id}"))
        return pal_call_session(call, call->params[0], &session, err);
    if (is_below(call->route, "/api/v1/turns/{turn}"))
        return pal_api_turn_find(call, &info, err);
    return PAL_OK;
}

const pal_api pal_api_native = {
        .name = "native",
        .prefix = "/api/v1/",
        .routes = routes,
        .put_failure = pal_call_put_native_failure,
        .find_subject = find_subject,
        .is_strict = true,
};
