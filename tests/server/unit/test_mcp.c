/* test_mcp.c - the MCP server without a transport: every message is answered, whichever allocation
 * fails, and the sessions of clients are limited. mcp.test.mjs tests it with clients. */
#include <pthread.h>
#include <stdio.h>
#include "base/memory.h"
#include "mcp/mcp.h"
#include "server/api/mcp/api_mcp.h"
#include "server/server_limits.h"
#include "support/tap.h"

#define NTH_MAX 100000

/* ---- Jobs that wait for a turn ---- */

typedef struct stop_signal {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned answers;
    bool has_ended;
} stop_signal;

static void say(void *user, pal_str message, bool is_last)
{
    stop_signal *w = user;
    pthread_mutex_lock(&w->lock);
    w->answers += is_last && message.len > 0;
    pthread_mutex_unlock(&w->lock);
}

static void end(void *user)
{
    stop_signal *w = user;
    pthread_mutex_lock(&w->lock);
    w->has_ended = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static const pal_mcp_events events = {.on_message = say, .on_end = end};

static void wait_for_end(stop_signal *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->has_ended)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

/* ---- Messages ---- */

static pal_runtime *give_runtime(void *user, pal_error *err)
{
    (void)err;
    return user;
}

static bool is_message(pal_str text)
{
    pal_json message;
    pal_arena *arena = pal_arena_new(0);
    bool is = arena && pal_json_parse(arena, text, NULL, &message, NULL) == PAL_OK &&
            pal_json_string_is(pal_json_find(message, "jsonrpc"), "2.0");
    pal_arena_free(arena);
    return is;
}

/* Whether the message was answered, or there was no memory for a response. */
static bool take(pal_mcp_host *host, const char *text)
{
    int code = 0;
    pal_error err;
    pal_buf buf;
    pal_rpc_message message;
    stop_signal w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, false};
    pal_mcp_peer peer = {.tenant = pal_str_of("default"), .can_write = true};
    pal_mcp_outcome taken = PAL_MCP_ANSWERED;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return true;
    pal_buf_init(&buf, 1 << 20);
    pal_json_writer writer = pal_json_writer_make(&buf);
    if (pal_mcp_rpc_read(arena, pal_str_of(text), &message, &err) == 0)
        taken = pal_mcp_host_handle(host, &peer, &message, &events, &w, arena, &writer, &code);
    else
        pal_mcp_rpc_put_error(&writer, message.id, PAL_RPC_INTERNAL_ERROR, err.message);
    if (taken == PAL_MCP_LATER)
        wait_for_end(&w);
    pal_memory_fail_at(0, 0);
    bool is_fine = taken == PAL_MCP_LATER ? w.answers <= 1
                                          : buf.failure != PAL_OK || is_message(pal_buf_str(&buf));
    pal_buf_done(&buf);
    pal_arena_free(arena);
    return is_fine;
}

#define CALL(name, arguments)                                                                      \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"" name         \
    "\",\"_meta\":{\"progressToken\":1},\"arguments\":{" arguments "}}}"

static void every_message_is_answered_without_memory(void)
{
    static const char *const messages[] = {
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
            "\"protocolVersion\":\"2025-06-18\"}}",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}",
            CALL("list_conversations", "\"since\":\"2026-01-01T00:00:00Z\""),
            CALL("read_conversation", "\"conversation\":\"memory\",\"limit\":5"),
            CALL("read_conversation", "\"conversation\":\"nob\\u006fdy\""),
            CALL("search_conversations", "\"query\":\"c\\u0061t\""),
            CALL("create_conversation", "\"title\":\"t\\u0069tle\""),
            CALL("append_message", "\"conversation\":\"memory\",\"text\":\"a\\nb\""),
            CALL("remember", "\"text\":\"the cat\",\"topic\":\"t\\u006fpic\""),
            CALL("continue_conversation", "\"conversation\":\"memory\",\"text\":\"hi\""),
            CALL("fork_conversation", "\"conversation\":\"memory\",\"title\":\"x\\ty\""),
    };
    pal_store *store = NULL;
    pal_runtime *runtime = NULL;
    pal_endpoint echo = {.kind = pal_str_of("echo")};
    if (!CHECK_STATUS(pal_store_open("memory:", NULL, &store, NULL), PAL_OK))
        return;
    pal_runtime_options options = {.store = store, .endpoints = &echo, .endpoints_len = 1};
    CHECK_STATUS(pal_runtime_open(&options, &runtime, NULL), PAL_OK);
    pal_mcp_host_options host_options = {.store = store, .runtime = give_runtime, .user = runtime};
    pal_mcp_host *host = pal_mcp_host_new(&host_options);
    if (CHECK(host))
        CHECK(take(host, CALL("remember", "\"text\":\"the cat is called Mo\"")));
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        bool has_failed = true;
        uint64_t nth = 1;
        for (; has_failed && nth < NTH_MAX; nth++) {
            pal_memory_fail_at(nth, 1);
            if (!CHECK(take(host, messages[i])))
                printf("# message %zu, allocation %llu\n", i, (unsigned long long)nth);
            has_failed = pal_memory_failed();
            pal_memory_fail_at(0, 0);
        }
        CHECK_THAT(nth, >, 2);
        CHECK_THAT(nth, <, NTH_MAX);
    }
    pal_mcp_host_free(host);
    pal_runtime_close(runtime, 0);
    pal_store_close(store);
}

/* ---- Sessions ---- */

static void sessions_belong_to_their_tenants(void)
{
    char id[PAL_MCP_SESSION_ID_SIZE];
    pal_str ours = pal_str_of("ours"), theirs = pal_str_of("theirs");
    pal_mcp_sessions *sessions = pal_mcp_sessions_new();
    CHECK(pal_mcp_sessions_add(sessions, ours, id));
    CHECK_EQ(strlen(id), PAL_MCP_SESSION_ID_SIZE - 1);
    CHECK(pal_mcp_sessions_use(sessions, ours, pal_str_of(id)));
    CHECK(!pal_mcp_sessions_use(sessions, theirs, pal_str_of(id)));
    CHECK(!pal_mcp_sessions_remove(sessions, theirs, pal_str_of(id)));
    CHECK(pal_mcp_sessions_remove(sessions, ours, pal_str_of(id)));
    CHECK(!pal_mcp_sessions_use(sessions, ours, pal_str_of(id)));
    pal_mcp_sessions_free(sessions);
}

static void the_session_that_was_not_used_for_longest_ends(void)
{
    char first[PAL_MCP_SESSION_ID_SIZE], second[PAL_MCP_SESSION_ID_SIZE];
    char last[PAL_MCP_SESSION_ID_SIZE];
    pal_str tenant = pal_str_of("ours");
    pal_mcp_sessions *sessions = pal_mcp_sessions_new();
    CHECK(pal_mcp_sessions_add(sessions, tenant, first));
    CHECK(pal_mcp_sessions_add(sessions, tenant, second));
    for (size_t i = 2; i < PAL_SERVER_MCP_SESSIONS_MAX; i++)
        CHECK(pal_mcp_sessions_add(sessions, tenant, last));
    CHECK(pal_mcp_sessions_use(sessions, tenant, pal_str_of(first)));
    CHECK(pal_mcp_sessions_add(sessions, tenant, last));
    CHECK(pal_mcp_sessions_use(sessions, tenant, pal_str_of(first)));
    CHECK(!pal_mcp_sessions_use(sessions, tenant, pal_str_of(second)));
    CHECK(pal_mcp_sessions_use(sessions, tenant, pal_str_of(last)));
    pal_mcp_sessions_free(sessions);
}

int main(void)
{
    RUN(every_message_is_answered_without_memory);
    RUN(sessions_belong_to_their_tenants);
    RUN(the_session_that_was_not_used_for_longest_ends);
    return tap_done();
}
