/* api_root.c - routes that belong to no API: the page, health, metrics, and the description of all
 * routes. */
#include "server/api/api_object.h"
#include "server/observe/observe_health.h"
#include "server/observe/observe_metrics.h"
#include "server/page/page.h"
#include "server/server_call.h"

static const pal_api_object status_body = {"Status",
        .members = PAL_API_MEMBERS(
                {"status", PAL_API_TEXT, .is_required = true}, {"version", .type = PAL_API_TEXT},
                {"store", .type = PAL_API_TEXT})};
static const pal_api_object plain_text = {.name = "text/plain"};
static const pal_api_object page_html = {.name = "text/html"};
static const pal_api_object page_bytes = {.name = "application/octet-stream"};

static const pal_api_route root_routes[] = {
        {"GET", "/healthz", PAL_KEY_NONE, 0, pal_health_live,
                {"live", "check that the process answers", NULL, NULL, &status_body, 200}},
        {"GET", "/readyz", PAL_KEY_NONE, PAL_API_WORKER, pal_health_ready,
                {"ready",
                        "check that the server is ready: the store works, and the server is not "
                        "stopping", NULL,
                        NULL, &status_body, 200}},
        {"GET", "/metrics", PAL_KEY_ADMIN, PAL_API_WORKER | PAL_API_SCRAPE, pal_metrics_handle,
                {"metrics",
                        "read the metrics in Prometheus format", NULL, NULL, &plain_text, 200}},
        {"GET", "/openapi.json", PAL_KEY_NONE, 0, pal_openapi_handle,
                {"openapi", "read this description", NULL, NULL, &pal_api_any_object, 200}},
        {"GET", "/", PAL_KEY_NONE, PAL_API_PAGE, pal_page_index,
                {"page", "show the page", NULL, NULL, &page_html, 200}},
        {"GET", "/page/{hash}/{file}", PAL_KEY_NONE, PAL_API_PAGE, pal_page_file,
                {"pageFile", "read a file of the page", NULL, NULL, &page_bytes, 200}},
        {"GET", "/page/{hash}/{folder}/{file}", PAL_KEY_NONE, PAL_API_PAGE, pal_page_file,
                {"pageFolderFile", "read a file in a folder of the page", NULL, NULL, &page_bytes,
                        200}},
        {0},
};

static const pal_api_route *const routes[] = {root_routes, NULL};

const pal_api pal_api_root = {
        .name = "root",
        .prefix = "/",
        .routes = routes,
        .put_failure = pal_call_put_native_failure,
};
