/* tool_mcp.c - the life of an MCP server: it is started, completes the handshake, lists its tools,
 * and is restarted when it dies, after growing pauses.
 *
 * States (pal_tool_mcp_state):
 *   STARTING -> READY    the handshake is done and the tools are listed
 *   READY -> STARTING    the server has forgotten the session; only the handshake is repeated
 *   STARTING, READY -> WAITING -> STARTING    the server died; it starts again after a pause
 *   STARTING, READY, WAITING -> FAILED        it died too often, or a restart would not help
 *
 * Everything runs on the loop. A callback can close the server: pal_tool_mcp_enter() and
 * pal_tool_mcp_leave() keep its memory until it is off the stack. Code that continues after a
 * callback checks `closed` first. */
#include "tool/mcp/tool_mcp.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "tool/mcp/tool_mcp_internal.h"

#define START_MS 30000
#define CALL_MS 120000
#define RESTARTS 5
#define PAUSE_MS 500 /* delay before the first restart; it doubles with each further restart */
#define PAUSE_MS_MAX 30000
#define STEADY_MS 60000 /* after running this long, earlier failures are forgotten */

void pal_tool_mcp_enter(pal_tool_mcp *mcp)
{
    mcp->busy++;
}

static void free_mcp(pal_tool_mcp *mcp)
{
    pal_tool_mcp_toolbox_done(&mcp->tools);
    pal_tool_mcp_toolbox_done(&mcp->draft);
    pal_map_done(&mcp->by_id);
    pal_free(mcp->cursor);
    pal_arena_free(mcp->scratch);
    pal_arena_free(mcp->arena);
    pal_free(mcp);
}

void pal_tool_mcp_leave(pal_tool_mcp *mcp)
{
    if (--mcp->busy == 0 && mcp->closed)
        free_mcp(mcp);
}

void pal_tool_mcp_set_failure(pal_tool_mcp *mcp, const char *format, ...)
{
    char why[PAL_ERROR_MESSAGE_MAX]; /* an argument can be the old failure */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    size_t len = pal_utf8_valid_len(pal_str_of(why));
    memcpy(mcp->failure, why, len);
    mcp->failure[len] = '\0';
}

static void notify_change(pal_tool_mcp *mcp)
{
    if (!mcp->closed && mcp->on_change)
        mcp->on_change(mcp, mcp->user);
}

/* ---- Start and restart ---- */

static void start(pal_tool_mcp *mcp)
{
    pal_error err;
    mcp->state = PAL_TOOL_MCP_STARTING;
    pal_status status = mcp->transport->open(mcp, &err);
    if (status == PAL_OK)
        pal_tool_mcp_handshake_start(mcp);
    else
        pal_tool_mcp_on_disconnect(mcp,
                status == PAL_NOT_FOUND || status == PAL_DENIED || status == PAL_INVALID, "%s",
                err.message);
}

static void on_start(pal_timer *timer)
{
    pal_tool_mcp *mcp = (pal_tool_mcp *)((char *)timer - offsetof(pal_tool_mcp, timer));
    pal_tool_mcp_enter(mcp);
    bool is_first = mcp->failures == 0;
    start(mcp);
    if (!is_first && mcp->state == PAL_TOOL_MCP_STARTING)
        notify_change(mcp);
    pal_tool_mcp_leave(mcp);
}

static int64_t pause_ms(uint32_t failures)
{
    int64_t pause = PAUSE_MS;
    for (uint32_t i = 1; i < failures && pause < PAUSE_MS_MAX; i++)
        pause *= 2;
    return pause < PAUSE_MS_MAX ? pause : PAUSE_MS_MAX;
}

/* Ends all requests that the client itself has made. */
static void stop_own_requests(pal_tool_mcp *mcp)
{
    pal_tool_mcp_request_drop(&mcp->discover, false);
    pal_tool_mcp_request_drop(&mcp->initialize, false);
    pal_tool_mcp_request_drop(&mcp->initialized, false);
    pal_tool_mcp_list_stop(mcp);
    pal_tool_mcp_listen_stop(mcp);
}

static void give_up(pal_tool_mcp *mcp)
{
    char text[sizeof mcp->failure + 32];
    mcp->state = PAL_TOOL_MCP_FAILED;
    pal_tool_mcp_toolbox_done(&mcp->tools);
    snprintf(text, sizeof text, "MCP server failed: %s", mcp->failure);
    if (mcp->config.on_warning)
        mcp->config.on_warning(mcp->user, pal_str_of(text));
    notify_change(mcp);
    if (!mcp->closed)
        pal_tool_mcp_calls_fail_waiting(mcp, pal_str_of(mcp->failure));
}

void pal_tool_mcp_on_disconnect(pal_tool_mcp *mcp, bool for_good, const char *format, ...)
{
    char why[PAL_ERROR_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    pal_tool_mcp_set_failure(mcp, "%s", why);
    /* Some old servers exit when they receive an unknown request. */
    if (mcp->state == PAL_TOOL_MCP_STARTING)
        mcp->last_era = mcp->discover.id || mcp->probe_was_late ? PAL_TOOL_MCP_ERA_OLD
                                                                : PAL_TOOL_MCP_ERA_UNKNOWN;
    stop_own_requests(mcp);
    if (mcp->state == PAL_TOOL_MCP_READY && pal_clock_monotonic_ms() - mcp->ready_ms >= STEADY_MS)
        mcp->failures = 0;
    mcp->failures++;
    /* Set before the callbacks: calls that they make must wait. */
    mcp->state = PAL_TOOL_MCP_WAITING;
    pal_tool_mcp_calls_fail_sent(mcp, pal_str_of(why));
    if (mcp->closed)
        return;
    mcp->transport->close(mcp);
    if (for_good || mcp->failures > mcp->config.restarts_max ||
            !pal_loop_timer_start(mcp->loop, &mcp->timer, pause_ms(mcp->failures), on_start))
        give_up(mcp);
    else
        notify_change(mcp);
}

bool pal_tool_mcp_session_is_lost(const pal_tool_mcp *mcp, const pal_tool_mcp_answer *answer)
{
    if (mcp->era != PAL_TOOL_MCP_ERA_OLD || mcp->sessions == 0)
        return false;
    /* Not standard, but many servers send it: "Bad Request: No valid session ID provided". */
    return answer->http_code == 404 ||
            (answer->http_code == 400 && answer->error.len &&
                    memmem(answer->error.data, answer->error.len, "ession", 6));
}

void pal_tool_mcp_session_renew(pal_tool_mcp *mcp)
{
    if (mcp->state != PAL_TOOL_MCP_READY)
        return;
    mcp->session[0] = '\0';
    stop_own_requests(mcp);
    mcp->state = PAL_TOOL_MCP_STARTING;
    notify_change(mcp);
    if (!mcp->closed)
        pal_tool_mcp_handshake_start(mcp);
}

/* ---- Becoming ready ---- */

void pal_tool_mcp_on_handshake_done(pal_tool_mcp *mcp)
{
    if (mcp->has_tools) {
        pal_tool_mcp_list_start(mcp);
        return;
    }
    pal_tool_mcp_toolbox_done(&mcp->tools);
    pal_tool_mcp_on_list_done(mcp, false);
}

void pal_tool_mcp_on_list_done(pal_tool_mcp *mcp, bool has_changed)
{
    bool is_new = mcp->state != PAL_TOOL_MCP_READY;
    if (is_new) {
        mcp->state = PAL_TOOL_MCP_READY;
        mcp->last_era = mcp->era;
        mcp->ready_ms = pal_clock_monotonic_ms();
        mcp->failure[0] = '\0';
        pal_tool_mcp_listen_start(mcp);
    }
    if (is_new || has_changed)
        notify_change(mcp);
    if (!mcp->closed && mcp->state == PAL_TOOL_MCP_READY)
        pal_tool_mcp_calls_send(mcp);
}

/* ---- Configuration ---- */

static pal_str *copy_texts(
        pal_arena *arena, const pal_str *from, size_t len, const char ***out_plain)
{
    pal_str *to = pal_arena_array(arena, len + 1, sizeof(*to));
    const char **plain = pal_arena_array(arena, len + 1, sizeof(*plain));
    for (size_t i = 0; to && plain && i < len; i++) {
        to[i] = pal_arena_copy(arena, from[i]);
        plain[i] = to[i].data;
    }
    *out_plain = plain;
    return to;
}

static void copy_config(pal_tool_mcp *mcp, const pal_tool_mcp_config *from)
{
    pal_arena *arena = mcp->arena;
    pal_tool_mcp_config *to = &mcp->config;
    pal_header *headers = pal_arena_array(arena, from->headers_len + 1, sizeof(*headers));
    *to = *from;
    to->name = pal_arena_copy(arena, from->name);
    to->url = pal_arena_copy(arena, from->url);
    to->command = copy_texts(arena, from->command, from->command_len, &mcp->arguments);
    to->environment =
            copy_texts(arena, from->environment, from->environment_len, &mcp->environment);
    to->redirect_uri = pal_arena_copy(arena, from->redirect_uri);
    to->auth = NULL; /* pal_oauth has a copy */
    for (size_t i = 0; headers && i < from->headers_len; i++) {
        headers[i].name = pal_arena_copy(arena, from->headers[i].name);
        headers[i].value = pal_arena_copy(arena, from->headers[i].value);
    }
    to->headers = headers;
    to->start_ms = from->start_ms ? from->start_ms : START_MS;
    to->call_ms = from->call_ms ? from->call_ms : CALL_MS;
    to->restarts_max = from->restarts_max ? from->restarts_max : RESTARTS;
}

static pal_status check_config(const pal_tool_mcp_config *config, pal_http *http, pal_error *err)
{
    if (config->name.len == 0)
        return pal_error_set(err, PAL_INVALID, "the name of an MCP server is missing");
    if (config->command_len == 0 && config->url.len == 0)
        return pal_error_set(err, PAL_INVALID, "MCP server '%.*s' must have a command or a url",
                PAL_STR_ARG(config->name));
    if (config->command_len && config->url.len)
        return pal_error_set(err, PAL_INVALID,
                "MCP server '%.*s' must not have both a command and a url",
                PAL_STR_ARG(config->name));
    if (config->command_len == 0 && !http)
        return pal_error_set(
                err, PAL_INVALID, "MCP server '%.*s' requires HTTP", PAL_STR_ARG(config->name));
    return PAL_OK;
}

/* ---- Access tokens ---- */

static bool has_authorization(const pal_tool_mcp_config *config)
{
    for (size_t i = 0; i < config->headers_len; i++) {
        if (pal_text_is_nocase(config->headers[i].name, "authorization"))
            return true;
    }
    return false;
}

static void on_oauth_authorize(void *user, pal_str url)
{
    const pal_tool_mcp *mcp = user;
    mcp->config.on_authorize(mcp->user, url);
}

static void on_oauth_warning(void *user, pal_str text)
{
    const pal_tool_mcp *mcp = user;
    if (mcp->config.on_warning)
        mcp->config.on_warning(mcp->user, text);
}

/* A person has logged in after the server failed for the lack of a login. */
static void on_oauth_login(void *user)
{
    pal_tool_mcp *mcp = user;
    if (mcp->state != PAL_TOOL_MCP_FAILED)
        return;
    mcp->failures = 0;
    pal_tool_mcp_enter(mcp);
    start(mcp);
    if (mcp->state == PAL_TOOL_MCP_STARTING)
        notify_change(mcp);
    pal_tool_mcp_leave(mcp);
}

/* A configured header comes before OAuth. */
static pal_status open_oauth(pal_tool_mcp *mcp, const pal_tool_mcp_config *config, pal_error *err)
{
    const pal_oauth_config oauth = {.name = config->name,
            .url = config->url,
            .auth = config->auth,
            .on_authorize = config->on_authorize ? on_oauth_authorize : NULL,
            .redirect_uri = config->redirect_uri,
            .on_login = on_oauth_login,
            .on_warning = on_oauth_warning,
            .user = mcp};
    if (!config->auth || !config->url.len || has_authorization(config))
        return PAL_OK;
    /* Without TLS no token could be sent, but many such servers need none. */
    if (!pal_oauth_is_possible(config->url) && !config->auth->client_id.len)
        return PAL_OK;
    return pal_oauth_open(mcp->loop, mcp->client, &oauth, &mcp->oauth, err);
}

bool pal_tool_mcp_redirected(pal_tool_mcp *mcp, pal_str query)
{
    pal_tool_mcp_enter(mcp);
    bool is_ours = mcp->oauth && pal_oauth_redirected(mcp->oauth, query);
    pal_tool_mcp_leave(mcp);
    return is_ours;
}

/* ---- Opening and closing ---- */

pal_status pal_tool_mcp_open(pal_loop *loop, pal_http *http, const pal_tool_mcp_config *config,
        pal_tool_mcp_on_change on_change, void *user, pal_tool_mcp **out_mcp, pal_error *err)
{
    assert(pal_loop_is_on(loop));
    pal_status status = check_config(config, http, err);
    if (status)
        return status;
    pal_tool_mcp *mcp = pal_calloc(1, sizeof(*mcp));
    if (!mcp)
        return pal_no_memory(err);
    mcp->loop = loop;
    mcp->client = http;
    mcp->on_change = on_change;
    mcp->user = user;
    mcp->arena = pal_arena_new(0);
    mcp->scratch = pal_arena_new(0);
    mcp->transport = config->command_len ? &pal_tool_mcp_stdio : &pal_tool_mcp_http;
    if (mcp->arena)
        copy_config(mcp, config);
    status = open_oauth(mcp, config, err);
    if (status == PAL_OK &&
            (!mcp->arena || !mcp->scratch || pal_arena_failure(mcp->arena) ||
                    !pal_loop_timer_start(loop, &mcp->timer, 0, on_start)))
        status = pal_no_memory(err);
    if (status != PAL_OK) {
        pal_oauth_close(mcp->oauth);
        free_mcp(mcp);
        return status;
    }
    *out_mcp = mcp;
    return PAL_OK;
}

void pal_tool_mcp_close(pal_tool_mcp *mcp)
{
    if (!mcp)
        return;
    assert(pal_loop_is_on(mcp->loop) && !mcp->closed);
    pal_tool_mcp_enter(mcp);
    mcp->closed = true;
    pal_loop_timer_stop(mcp->loop, &mcp->timer);
    stop_own_requests(mcp);
    pal_tool_mcp_calls_drop(mcp);
    mcp->transport->close(mcp);
    pal_oauth_close(mcp->oauth);
    mcp->oauth = NULL;
    pal_tool_mcp_leave(mcp);
}

/* ---- Properties ---- */

pal_str pal_tool_mcp_name(const pal_tool_mcp *mcp)
{
    return mcp->config.name;
}

pal_tool_mcp_state pal_tool_mcp_state_of(const pal_tool_mcp *mcp)
{
    return mcp->state;
}

pal_str pal_tool_mcp_failure(const pal_tool_mcp *mcp)
{
    return pal_str_of(mcp->failure);
}

const pal_tool *pal_tool_mcp_tools(const pal_tool_mcp *mcp, size_t *out_len)
{
    *out_len = mcp->tools.len;
    return mcp->tools.tools;
}
