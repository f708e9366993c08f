/* tool_mcp_handshake.c - finds out which era of the protocol a server uses, and makes the
 * handshake.
 *
 * `server/discover` comes first; only servers of the new era know it. Anything but an answer or an
 * error of the new era means the old era, and so does silence: then `initialize` is sent. A server
 * of the new era that was only slow to start rejects that, and gets `server/discover` once more.
 * The result is remembered over restarts. On the loop. */
#include "tool/mcp/tool_mcp_internal.h"

#define PROBE_MS 5000

/* Revisions of the old era, newest first. */
static const char *const old_versions[] = {
        PAL_TOOL_MCP_OLD_VERSION, "2025-06-18", "2025-03-26", "2024-11-05"};

/* Versions of the old era. */
static bool is_known_version(pal_str version, const char **out_version)
{
    for (size_t i = 0; i < sizeof(old_versions) / sizeof(*old_versions); i++) {
        if (pal_str_is(version, old_versions[i])) {
            *out_version = old_versions[i];
            return true;
        }
    }
    return false;
}

static void read_capabilities(pal_tool_mcp *mcp, pal_json result)
{
    pal_json tools = pal_json_find(pal_json_find(result, "capabilities"), "tools");
    mcp->has_tools = pal_json_type_of(tools) == PAL_JSON_OBJECT;
    mcp->reports_changes = false;
    (void)pal_json_bool(pal_json_find(tools, "listChanged"), &mcp->reports_changes);
    pal_json requests = pal_json_find(
            pal_json_find(pal_json_find(result, "capabilities"), "tasks"), "requests");
    mcp->runs_tasks = pal_json_type_of(pal_json_find(pal_json_find(requests, "tools"), "call")) ==
            PAL_JSON_OBJECT;
}

/* Without a token, a restart would fail again. If a person logs in, pal_oauth reports it. */
static bool lacks_token(const pal_tool_mcp *mcp, const pal_tool_mcp_answer *answer)
{
    return mcp->oauth && answer->http_code == 401;
}

static void fail_handshake(pal_tool_mcp *mcp, const pal_tool_mcp_answer *answer)
{
    pal_tool_mcp_on_disconnect(mcp, lacks_token(mcp, answer), "'%.*s' failed the handshake: %.*s",
            PAL_STR_ARG(mcp->config.name), PAL_STR_ARG(answer->error));
}

static void fail_unsent(pal_tool_mcp *mcp, const pal_error *err)
{
    const pal_tool_mcp_answer answer = {.status = err->status, .error = pal_str_of(err->message)};
    fail_handshake(mcp, &answer);
}

static void discover(pal_tool_mcp *mcp, int64_t wait_ms);

/* ---- The old era ---- */

static void on_initialized(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer)
{
    if (answer->status == PAL_OK)
        pal_tool_mcp_on_handshake_done(request->mcp);
    else
        fail_handshake(request->mcp, answer);
}

static void on_initialize(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer)
{
    pal_tool_mcp *mcp = request->mcp;
    pal_error err;
    if (answer->status == PAL_PROVIDER && mcp->probe_was_late) {
        mcp->probe_was_late = false;
        discover(mcp, mcp->config.start_ms);
        return;
    }
    if (answer->status) {
        fail_handshake(mcp, answer);
        return;
    }
    pal_str version =
            pal_json_string(pal_json_find(answer->result, "protocolVersion"), mcp->scratch);
    if (!is_known_version(version, &mcp->version)) {
        pal_tool_mcp_on_disconnect(mcp, true,
                "'%.*s' uses MCP revision '%.*s', which is not supported",
                PAL_STR_ARG(mcp->config.name), PAL_STR_ARG(version));
        return;
    }
    read_capabilities(mcp, answer->result);
    mcp->initialized = (pal_tool_mcp_request){.method = "notifications/initialized",
            .on_answer = on_initialized,
            .is_notification = true};
    if (pal_tool_mcp_request_send(mcp, &mcp->initialized, (pal_str){0}, mcp->config.start_ms, &err))
        fail_unsent(mcp, &err);
    else if (mcp->transport->is_ordered)
        pal_tool_mcp_request_end(&mcp->initialized, &(pal_tool_mcp_answer){.status = PAL_OK});
}

static void initialize(pal_tool_mcp *mcp, const char *version)
{
    pal_error err;
    pal_buf params;
    mcp->era = PAL_TOOL_MCP_ERA_OLD;
    mcp->version = version;
    pal_buf_init(&params, 512);
    pal_buf_format(&params,
            "{\"protocolVersion\":\"%s\",\"capabilities\":{%s},"
            "\"clientInfo\":{\"name\":\"palaver\",\"version\":\"" PAL_VERSION "\"}}",
            version, mcp->config.can_ask ? PAL_TOOL_MCP_ELICITATION : "");
    mcp->initialize = (pal_tool_mcp_request){.method = "initialize", .on_answer = on_initialize};
    pal_status status = params.failure ? pal_error_set(&err, params.failure, "out of memory")
                                       : pal_tool_mcp_request_send(mcp, &mcp->initialize,
                                                 pal_buf_str(&params), mcp->config.start_ms, &err);
    pal_buf_done(&params);
    if (status)
        fail_unsent(mcp, &err);
}

/* ---- The new era ---- */

/* Continues with the newest version that both sides support. */
static void choose(pal_tool_mcp *mcp, pal_json versions)
{
    pal_json_iter each = pal_json_each(versions);
    const char *old = NULL, *known;
    pal_json one;
    while (pal_json_type_of(versions) == PAL_JSON_ARRAY && pal_json_next(&each, NULL, &one)) {
        if (pal_json_string_is(one, PAL_TOOL_MCP_NEW_VERSION)) {
            pal_tool_mcp_on_handshake_done(mcp);
            return;
        }
        /* Versions are dates, so the later one compares greater. */
        if (is_known_version(pal_json_string(one, mcp->scratch), &known) &&
                (!old || strcmp(known, old) > 0))
            old = known;
    }
    if (old)
        initialize(mcp, old);
    else
        pal_tool_mcp_on_disconnect(mcp, true,
                "'%.*s' uses only MCP revisions that are not supported: %.*s",
                PAL_STR_ARG(mcp->config.name), PAL_STR_ARG(pal_json_raw(versions)));
}

/* The server refused the request for its revision, and lists those that it supports. If it lists
 * the new one, the request is repeated once: only its answer has the capabilities. */
static void choose_again(pal_tool_mcp *mcp, pal_json versions)
{
    pal_json_iter each = pal_json_each(versions);
    pal_json one;
    while (!mcp->was_refused && pal_json_next(&each, NULL, &one)) {
        if (pal_json_string_is(one, PAL_TOOL_MCP_NEW_VERSION)) {
            mcp->was_refused = true;
            discover(mcp, mcp->config.start_ms);
            return;
        }
    }
    choose(mcp, versions);
}

static void on_discover(pal_tool_mcp_request *request, const pal_tool_mcp_answer *answer)
{
    pal_tool_mcp *mcp = request->mcp;
    pal_json versions = pal_json_find(answer->result, "supportedVersions");
    if (answer->status == PAL_OK && pal_json_type_of(versions) == PAL_JSON_ARRAY) {
        read_capabilities(mcp, answer->result);
        choose(mcp, versions);
    } else if (answer->code == PAL_TOOL_MCP_WRONG_VERSION) {
        choose_again(mcp, pal_json_find(answer->data, "supported"));
    } else if (answer->code == PAL_TOOL_MCP_HEADER_MISMATCH ||
            answer->code == PAL_TOOL_MCP_LACKS_CAPABILITY || lacks_token(mcp, answer)) {
        fail_handshake(mcp, answer);
    } else if (answer->status == PAL_OK || answer->status == PAL_PROVIDER) {
        initialize(mcp, PAL_TOOL_MCP_OLD_VERSION);
    } else if (answer->status == PAL_TIMEOUT) {
        mcp->probe_was_late = true;
        initialize(mcp, PAL_TOOL_MCP_OLD_VERSION);
    } else {
        fail_handshake(mcp, answer);
    }
}

static void discover(pal_tool_mcp *mcp, int64_t wait_ms)
{
    pal_error err;
    mcp->era = PAL_TOOL_MCP_ERA_NEW;
    mcp->version = PAL_TOOL_MCP_NEW_VERSION;
    mcp->discover = (pal_tool_mcp_request){.method = "server/discover",
            .on_answer = on_discover,
            .can_ask = mcp->config.can_ask};
    if (pal_tool_mcp_request_send(mcp, &mcp->discover, (pal_str){0}, wait_ms, &err))
        fail_unsent(mcp, &err);
}

void pal_tool_mcp_handshake_start(pal_tool_mcp *mcp)
{
    int64_t wait_ms = mcp->config.start_ms / 3 < PROBE_MS ? mcp->config.start_ms / 3 : PROBE_MS;
    mcp->probe_was_late = mcp->was_refused = false;
    if (mcp->last_era == PAL_TOOL_MCP_ERA_OLD)
        initialize(mcp, PAL_TOOL_MCP_OLD_VERSION);
    else
        discover(mcp, wait_ms + 1);
}
