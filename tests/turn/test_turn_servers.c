/* test_turn_servers.c - turns that begin while their tool servers are being started.
 *
 *   test_turn_servers TOOL
 *
 * TOOL is tests/crash/turn_tool.c: an MCP server with one tool, "note". */
#include <sys/stat.h>

#include "turn_fixture.h"
#include "turn_service.h"

#define ANSWER "{\"choices\":[{\"message\":{\"content\":\"fine\"}}]}"

static const service_reply replies[] = {{.body = ANSWER}, {.body = ANSWER}};
static const char *tool_program;
static char gate_path[64]; /* the server starts when the test opens it for writing */

/* A runtime with a tool server that waits at the gate. */
static service *begin_gated(int64_t tools_wait_ms)
{
    service *s = service_open(replies, 2);
    pal_endpoint endpoint = {.kind = S("openai"), .url = S(s->url), .model = S("m")};
    pal_str command[] = {S("/bin/sh"), S("-c"), S("read line < \"$0\"; exec \"$1\" /dev/null"),
            S(gate_path), S(tool_program)};
    pal_tool_server server = {.name = S("fx"), .command = command, .command_len = 5};
    pal_runtime_options options = {.endpoints = &endpoint,
            .endpoints_len = 1,
            .tool_servers = &server,
            .tool_servers_len = 1,
            .tools_wait_ms = tools_wait_ms};

    snprintf(gate_path, sizeof(gate_path), "/tmp/palaver-gate-%ld", (long)getpid());
    command[3] = S(gate_path);
    CHECK_EQ(mkfifo(gate_path, 0600), 0);
    open_store();
    open_runtime(NULL, options);
    return s;
}

static void open_gate(void)
{
    FILE *gate = fopen(gate_path, "w");

    if (CHECK(gate != NULL)) {
        fputs("go\n", gate);
        fclose(gate);
    }
}

static void end_gated(service *s)
{
    end();
    unlink(gate_path);
    service_close(s);
}

static void a_turn_waits_for_starting_servers(void)
{
    heard h = {.in_order = true};
    service *s = begin_gated(60000);
    pal_turn_info info;
    pal_turn_request request = said(new_session(), "a");

    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    OK(pal_turn_watch(test.runtime, S(""), info.turn, 0, hear, gone, &h, &test.err));
    open_gate();
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    HAS(s->bodies[0], "fx__note");
    CHECK_LACKS(h.kinds, "tools_missing");
    end_gated(s);
}

static bool keep_missing(const pal_event *event, void *user)
{
    if (event->kind == PAL_EVENT_TOOLS_MISSING)
        snprintf(user, 256, "%.*s: %.*s", PAL_STR_ARG(event->name), PAL_STR_ARG(event->text));
    return true;
}

static void a_turn_continues_without_tools_and_reports_it(void)
{
    char missing[256] = "";
    service *s = begin_gated(50);
    pal_turn_info info;
    pal_turn_request request = said(new_session(), "a");

    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_LACKS(s->bodies[0], "fx__note");
    OK(pal_turn_watch(test.runtime, S(""), info.turn, 0, keep_missing, NULL, missing, &test.err));
    CHECK_STR(missing, "fx: the server is still starting");
    /* The next turn does not wait again. */
    missing[0] = '\0';
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    OK(pal_turn_watch(test.runtime, S(""), info.turn, 0, keep_missing, NULL, missing, &test.err));
    CHECK_EQ(missing[0], '\0');
    end_gated(s);
}

static void a_turn_that_waits_for_tools_can_be_stopped(void)
{
    service *s = begin_gated(60000);
    pal_turn_info info;
    pal_turn_request request = said(new_session(), "a"), stopped = request;

    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    OK(pal_turn_cancel(test.runtime, S(""), info.turn, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_CANCELED);
    request = said(new_session(), "b");
    request.no_server_tools = true; /* it has nothing to wait for */
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    request = said(new_session(), "c");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    open_gate();
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(s->len, 2);
    CHECK_EQ(all_of(stopped.session).len, 2); /* "a", and the note that it was stopped */
    end_gated(s);
}

static void a_runtime_is_closed_while_turns_wait_for_tools(void)
{
    service *s = begin_gated(60000);
    pal_turn_info info;
    pal_turn_request request = said(new_session(), "a");

    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    pal_runtime_drain(test.runtime, 0);
    OK(pal_turn_find(test.runtime, S(""), info.turn, &info, &test.err));
    CHECK_EQ(info.state, PAL_TURN_QUEUED); /* the next runtime continues it */
    end_gated(s);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    tool_program = argv[1];
    RUN(a_turn_waits_for_starting_servers);
    RUN(a_turn_continues_without_tools_and_reports_it);
    RUN(a_turn_that_waits_for_tools_can_be_stopped);
    RUN(a_runtime_is_closed_while_turns_wait_for_tools);
    pal_arena_free(test.arena);
    return tap_done();
}
