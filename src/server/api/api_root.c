/* api_root.c - routes that belong to no API: health, metrics, and the description of all routes. */
#include "server/api/api_openapi.h"
#include "server/observe/observe_health.h"
#include "server/observe/observe_metrics.h"
#include "server/server_call.h"

static const pal_api_route root_routes[] = {
        {"GET", "/healthz", PAL_KEY_NONE, 0, pal_health_live,
                {"live", "check that the process answers", NULL, NULL, "Status", 200}},
        {"GET", "/readyz", PAL_KEY_NONE, PAL_API_WORKER, pal_health_ready,
                {"ready",
                        "check that the server is ready: the store works, and the server is not "
                        "stopping", NULL,
                        NULL, "Status", 200}},
        {"GET", "/metrics", PAL_KEY_ADMIN, PAL_API_WORKER, pal_metrics_handle,
                {"metrics",
                        "read the metrics in Prometheus format", NULL, NULL, "text/plain", 200}},
        {"GET", "/openapi.json", PAL_KEY_NONE, 0, pal_openapi_handle,
                {"openapi", "read this description", NULL, NULL, "Object", 200}},
        {0},
};

static const pal_api_route *const routes[] = {root_routes, NULL};

const pal_api pal_api_root = {
        .name = "root",
        .prefix = "/",
        .routes = routes,
        .put_failure = pal_call_put_native_failure,
};
