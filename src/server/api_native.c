/* api_native.c - the native API under /api/v1, gathered from the files that have its routes. */
#include "server/api_native.h"

#include "server/server_call.h"
#include "server/server_health.h"

static const pal_api_route health_routes[] = {
        {"GET", "/api/v1/health", PAL_KEY_NONE, PAL_ROUTE_WORKER, pal_health_details,
                {"health", "what the server consists of, and whether it works", NULL, NULL,
                        "ServerHealth", 200}},
        {0},
};

static const pal_api_route *const routes[] = {
        health_routes,
        pal_key_routes,
        pal_session_routes,
        pal_message_routes,
        pal_branch_routes,
        pal_context_routes,
        pal_transfer_routes,
        pal_turn_routes,
        pal_skillian_routes,
        pal_loom_routes,
        pal_inbound_routes,
        NULL,
};

const pal_api pal_api_native = {
        .name = "native",
        .prefix = "/api/v1/",
        .routes = routes,
        .put_failure = pal_put_native_failure,
};
