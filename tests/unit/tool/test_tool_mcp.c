/* test_tool_mcp.c - a scripted MCP server, as a child process and over HTTP, in both eras of the
 * protocol: its responses reach the caller, and any other behavior becomes an error result. */
#include "base/clock.h"
#include "base/memory.h"
#include "tool/mcp_fake.h"

#define Y52 "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"

/* Checks that hold for all transports. */
static void check_plain(mcp_client *client)
{
    CHECK(answers(client, "s__echo", "{\"a\":\n[1,\r\n\"x\\ny\"]}",
            TEXT("{\\\"a\\\": [1, \\\"x\\\\ny\\\"]}")));
    CHECK(answers(client, "s__echo", "", TEXT("{}")));
    CHECK(answers(client, "s__fails", "{}", FAILED("it is broken\"}],\"is_error\":true}")));
    CHECK(answers(client, "s__error", "{}", FAILED("no such thing\"}],\"is_error\":true}")));
    CHECK(answers(client, "s__structured", "{}", TEXT("{\\\"n\\\": 1}")));
    CHECK(answers(client, "s__kinds", "{}", "{\"parts\":[{\"kind\":\"text\",\"text\":\"one\"},"
            "{\"kind\":\"image\",\"media_type\":\"image/png\",\"bytes\":4},"
            "{\"kind\":\"file\",\"media_type\":\"audio/wav\",\"bytes\":4},"
            "{\"kind\":\"text\",\"text\":\"[file:///a]\\ntwo\"},"
            "{\"kind\":\"file\",\"media_type\":\"application/octet-stream\",\"bytes\":3,"
            "\"name\":\"file:///b\"},"
            "{\"kind\":\"text\",\"text\":\"[c](file:///c): the third\"},"
            "{\"kind\":\"text\",\"text\":\"[bytes of type image/png that could not be read]\"},"
            "{\"kind\":\"text\",\"text\":\"{\\\"type\\\": \\\"hologram\\\", \\\"depth\\\": 3}\"}],"
            "\"is_error\":false}"));
    CHECK(answers(client, "s__twice", "{}", TEXT("first")));
    CHECK(answers(client, "s__nonsense", "{}", "\"is_error\":true"));
    CHECK(answers(client, "s__nothing", "{}", "not_found: unknown tool 's__nothing'"));
    CHECK(answers(client, "s__echo", "[1]", "invalid: the arguments are not a JSON object"));
    CHECK(answers(client, "s__echo", "{", "invalid: the arguments are not a JSON object"));
}

/* All providers accept every name, and no two tools have the same name. */
static void look_at_names(void *user)
{
    mcp_client *client = user;
    size_t len, longest = 0;
    const pal_tool *tools = pal_tool_mcp_tools(client->mcp, &len);
    for (size_t i = 0; i < len; i++) {
        pal_str name = tools[i].name;
        longest = name.len > longest ? name.len : longest;
        for (size_t at = 0; at < name.len; at++) {
            if (CHECK(name.data[at]))
                CHECK(strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "0123456789_-",
                        name.data[at]));
        }
        for (size_t other = 0; other < i; other++)
            CHECK_DIFFER(name, tools[other].name);
        if (CHECK_THAT(name.len, >=, 3))
            CHECK_BYTES(name.data, "s__", 3);
    }
    CHECK_EQ(longest, 64);
    CHECK_THAT(len, >, 20);
}

static void check_names(mcp_client *client)
{
    on_loop(client->loop, look_at_names, client);
    CHECK(answers(client, "s__get_user", "{}", TEXT("get_user")));
    CHECK(answers(client, "s__get_user_404fa159", "{}", TEXT("get.user")));
    /* Of two names that are too long, neither depends on the other. */
    CHECK(answers(client, "s__" Y52 "_fc83744c", "{}", TEXT(Y52 "yyyyyyyyyyyyyyyyyyyyyyyyyyyy1")));
    CHECK(answers(client, "s__" Y52 "_ff837905", "{}", TEXT(Y52 "yyyyyyyyyyyyyyyyyyyyyyyyyyyy2")));
    CHECK(mcp_client_see(client, "s__region").has_name);
}

static void check_change(mcp_client *client)
{
    CHECK(!mcp_client_see(client, "s__new").has_name);
    CHECK(answers(client, "s__change", "{}", TEXT("changed")));
    CHECK(mcp_client_wait(client, PAL_TOOL_MCP_READY, "s__new"));
    CHECK(answers(client, "s__new", "{}", TEXT("new")));
}

/* ---- A child ---- */

static void a_stdio_server_of_the_old_protocol_works(void)
{
    child_config c;
    mcp_client client;
    if (!CHECK(mcp_client_open(&client, child(&c, NULL))))
        return;
    CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
    check_plain(&client);
    check_names(&client);
    CHECK(answers(&client, "s__stranger", "{}", TEXT("yours")));
    CHECK(answers(&client, "s__ask", "{}", TEXT("asked")));
    CHECK(answers_in_time(&client, "s__facts", "{}",
            "\\\"answers\\\": {\\\"p1\\\": \\\"result\\\", \\\"r1\\\": -32601}"));
    CHECK(answers(&client, "s__bytes", "{}", TEXT("a\xef\xbf\xbd\xef\xbf\xbd" "b")));
    CHECK(answers(&client, "s__mute", "{}", "neither a result nor an error"));
    check_change(&client);
    mcp_client_close(&client);
}

static void a_stdio_server_of_the_new_protocol_works(void)
{
    child_config c;
    mcp_client client;
    if (!CHECK(mcp_client_open(&client, child(&c, "--era", "new", NULL))))
        return;
    CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
    check_plain(&client);
    CHECK(answers(&client, "s__state", "{}", TEXT("after two rounds")));
    CHECK(answers(&client, "s__input", "{}",
            FAILED("[{\\\"a\\\": {\\\"action\\\": \\\"decline\\\"}")));
    /* The server gets no responses in this era. */
    CHECK(answers(&client, "s__ask", "{}", TEXT("asked")));
    CHECK(answers(&client, "s__facts", "{}", "\\\"answers\\\": {}"));
    check_change(&client);
    mcp_client_close(&client);
}

static void becomes_ready(const char *first, const char *second, const char *third)
{
    child_config c;
    mcp_client client;
    pal_tool_mcp_config *config = child(&c, first, second, third, NULL);
    config->start_ms = 6000;
    if (!CHECK(mcp_client_open(&client, config)))
        return;
    if (!CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, "s__echo")))
        printf("# %s %s %s: %s\n", first, second ? second : "", third ? third : "",
                mcp_client_see(&client, NULL).failure);
    CHECK(answers(&client, "s__echo", "{}", TEXT("{}")));
    mcp_client_close(&client);
}

static void versions_are_negotiated(void)
{
    becomes_ready("--version", "2025-06-18", NULL);
    becomes_ready("--version", "2025-03-26", NULL);
    becomes_ready("--version", "2024-11-05", NULL);
    becomes_ready("--era", "both", NULL);
    becomes_ready("--silent", NULL, NULL);  /* does not respond to unknown requests */
    becomes_ready("--fatal", NULL, NULL);   /* dies of it */
    becomes_ready("--garbage", NULL, NULL); /* prints more than messages */
}

static void fails(pal_tool_mcp_config *config, const char *why)
{
    mcp_client client;
    if (!CHECK(mcp_client_open(&client, config)))
        return;
    CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_FAILED, NULL));
    mcp_client_look look = mcp_client_see(&client, NULL);
    if (!CHECK_CONTAINS(look.failure, why) || !CHECK_EQ(look.tools, 0))
        printf("# %s\n", look.failure);
    CHECK(answers(&client, "s__echo", "{}", "io: the MCP server failed"));
    mcp_client_close(&client);
}

static void unusable_servers_fail(void)
{
    child_config c;
    fails(child(&c, "--version", "1999-01-01", NULL), "revision '1999-01-01'");
    fails(child(&c, "--era", "new", "--version", "2999-01-01", NULL), "2999-01-01");
    pal_str nothing = pal_str_of("/nonexistent/server");
    pal_tool_mcp_config config = {.name = pal_str_of("s"), .command = &nothing, .command_len = 1};
    fails(&config, "/nonexistent/server");
    pal_str command[] = {pal_str_of("sh"), pal_str_of("-c"), pal_str_of("echo why >&2; exit 4")};
    pal_tool_mcp_config dies = {
            .name = pal_str_of("s"), .command = command, .command_len = 3, .restarts_max = 1};
    fails(&dies, "exited with code 4: why");
    pal_tool_mcp_config refused = {
            .name = pal_str_of("s"), .url = pal_str_of("http://127.0.0.1:9/"), .restarts_max = 1};
    fails(&refused, "could not connect");
}

static void configurations_are_checked(void)
{
    mcp_client client;
    pal_str command = pal_str_of("true");
    const pal_tool_mcp_config wrong[] = {
            {.name = pal_str_of(""), .command = &command, .command_len = 1},
            {.name = pal_str_of("s")},
            {.name = pal_str_of("s"),
                    .command = &command,
                    .command_len = 1,
                    .url = pal_str_of("u")},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        if (CHECK(!mcp_client_open(&client, &wrong[i])))
            CHECK_STATUS(client.status, PAL_INVALID);
        mcp_client_close(&client);
    }
}

/* ---- Trouble ---- */

static void a_child_that_dies_is_restarted(void)
{
    child_config c;
    mcp_client client;
    mcp_client_call hanging, waiting;
    if (!CHECK(mcp_client_open(&client, child(&c, NULL))))
        return;
    CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
    CHECK(mcp_client_start(&hanging, &client, "s__hang", "{}"));
    CHECK(answers(&client, "s__die", "{}",
            FAILED("the MCP server failed while the tool was running: "
                   "'s' exited with code 3: out of cheese")));
    char *outcome = mcp_client_finish(&hanging);
    CHECK_CONTAINS(outcome, "exited with code 3");
    free(outcome);
    CHECK(mcp_client_see(&client, "s__echo").has_name);
    /* It waits for the new server, and the dead calls are not repeated. */
    CHECK(mcp_client_start(&waiting, &client, "s__facts", "{}"));
    outcome = mcp_client_finish(&waiting);
    if (!CHECK_CONTAINS(outcome, "\\\"calls\\\": 1,"))
        printf("# %s\n", outcome);
    free(outcome);
    mcp_client_close(&client);
}

static void failed_starts_are_retried(void)
{
    char path[] = "/tmp/test_tool_mcp.XXXXXX";
    child_config c;
    mcp_client client;
    int fd = mkstemp(path);
    CHECK_THAT(fd, >=, 0);
    CHECK_EQ(write(fd, "1\n2\n", 4), 4);
    close(fd);
    if (CHECK(mcp_client_open(&client, child(&c, "--die-at-start", path, NULL)))) {
        CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
        CHECK_EQ(mcp_client_see(&client, NULL).failure[0], '\0');
        mcp_client_close(&client);
    }
    fd = open(path, O_WRONLY | O_TRUNC);
    CHECK_THAT(fd, >=, 0);
    CHECK_EQ(write(fd, "1\n2\n3\n4\n", 8), 8);
    close(fd);
    pal_tool_mcp_config *config = child(&c, "--die-at-start", path, NULL);
    fails(config, "not today");
    unlink(path);
}

static void too_much_output_ends_only_the_child(void)
{
    child_config c;
    mcp_client client;
    if (!CHECK(mcp_client_open(&client, child(&c, NULL))))
        return;
    CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
    CHECK(answers(&client, "s__huge", "{}", "wrote more than 16 MiB in one line"));
    CHECK(answers(&client, "s__echo", "{}", TEXT("{}")));
    mcp_client_close(&client);
}

static void large_results_are_refused_or_cut(void)
{
    child_config c;
    mcp_client client;
    if (!CHECK(mcp_client_open(&client, child(&c, NULL))))
        return;
    CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
    CHECK(answers(&client, "s__large", "{\"what\":\"values\"}",
            "the response has more than 500000 JSON values"));
    CHECK(answers(&client, "s__large", "{\"what\":\"text\"}",
            "[6291458 bytes of text were left out because the result is too long]\"},"
            "{\"kind\":\"text\",\"text\":\"y\"}"));
    CHECK(answers(&client, "s__large", "{\"what\":\"parts\"}",
            "[500 parts were left out because the result has too many]"));
    CHECK(answers(&client, "s__large", "{\"what\":\"bytes\"}", "is too long and not UTF-8"));
    CHECK(answers(&client, "s__echo", "{}", TEXT("{}")));
    mcp_client_close(&client);
}

static bool open_late(mcp_client *client, child_config *c, int64_t call_ms)
{
    pal_tool_mcp_config *config = child(c, NULL);
    config->call_ms = call_ms;
    return CHECK(mcp_client_open(client, config)) &&
            CHECK(mcp_client_wait(client, PAL_TOOL_MCP_READY, NULL));
}

static void late_calls_fail(void)
{
    child_config c;
    mcp_client client;
    if (!open_late(&client, &c, 1000))
        return;
    CHECK(answers(
            &client, "s__hang", "{}", FAILED("the tool did not return a result within 1000 ms")));
    CHECK(answers_in_time(&client, "s__facts", "{}", "\\\"cancels\\\": 1,"));
    CHECK(answers(&client, "s__progress", "{\"steps\":1,\"ms\":600000}", "did not return"));
    mcp_client_close(&client);
}

/* Whether a call with progress reports may take twice as long as its limit. */
static bool is_waited_for(int64_t call_ms)
{
    child_config c;
    mcp_client client;
    char arguments[64];
    if (!open_late(&client, &c, call_ms))
        return false;
    snprintf(arguments, sizeof(arguments), "{\"steps\":8,\"ms\":%d}", (int)call_ms / 4);
    bool held = answers(&client, "s__progress", arguments, TEXT("done"));
    mcp_client_close(&client);
    return held;
}

/* The machine decides how long a server can be stopped between two words. */
static void progress_extends_the_time_limit(void)
{
    CHECK(is_waited_for(1000) || is_waited_for(4000) || is_waited_for(16000));
}

static void a_cancel_reports_nothing_and_notifies_the_server(void)
{
    child_config c;
    mcp_client client;
    mcp_client_call call;
    if (!CHECK(mcp_client_open(&client, child(&c, NULL))))
        return;
    CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
    CHECK(mcp_client_start(&call, &client, "s__hang", "{}"));
    on_loop(client.loop, mcp_client_cancel_run, &call);
    CHECK(lacks(&client, "s__facts", "{}", "\\\"canceled\\\": []"));
    CHECK_EQ(call.told, 0);
    pal_buf_done(&call.outcome);
    mcp_client_close(&client);
}

static void closing_ends_calls_without_a_callback(void)
{
    child_config c;
    mcp_client client;
    mcp_client_call sent, waiting;
    if (!CHECK(mcp_client_open(&client, child(&c, NULL))))
        return;
    CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
    CHECK(mcp_client_start(&sent, &client, "s__hang", "{}"));
    CHECK(answers(&client, "s__die", "{}", "\"is_error\":true"));
    CHECK(mcp_client_start(&waiting, &client, "s__echo", "{}"));
    CHECK_EQ(sent.told, 1);
    CHECK_EQ(waiting.told, 0);
    mcp_client_close(&client);
    CHECK_EQ(waiting.told, 0);
    pal_buf_done(&sent.outcome);
    pal_buf_done(&waiting.outcome);
}

static void close_at_once(void *user)
{
    mcp_client *client = user;
    pal_tool_mcp_close(client->mcp);
    client->mcp = NULL;
}

static void told_and_close(void *user, const pal_tool_outcome *outcome)
{
    mcp_client_call *call = user;
    call->told++;
    close_at_once(call->client);
    bell_ring(&call->ended);
}

static void start_to_close(void *user)
{
    mcp_client_call *call = user;
    const pal_tool_mcp_order order = {
            .name = pal_str_of(call->name), .on_outcome = told_and_close, .user = call};
    call->status = pal_tool_mcp_call_start(call->client->mcp, &order, &call->call, &call->err);
}

static void closes_when_told(const pal_tool_mcp_config *config, const char *tool)
{
    mcp_client client;
    if (!CHECK(mcp_client_open(&client, config)))
        return;
    CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
    mcp_client_call call = {.client = &client, .name = tool, .ended = BELL_INIT}, other;
    CHECK(mcp_client_start(&other, &client, "s__hang", "{}"));
    on_loop(client.loop, start_to_close, &call);
    CHECK_STATUS(call.status, PAL_OK);
    CHECK(bell_wait(&call.ended, 1));
    CHECK_EQ(call.told, 1);
    CHECK_EQ(other.told, 0);
    CHECK(!client.mcp);
    mcp_client_close(&client);
    pal_buf_done(&other.outcome);
}

static void a_callback_can_close_the_client(void)
{
    child_config c;
    http_child h;
    closes_when_told(child(&c, NULL), "s__echo");
    closes_when_told(child(&c, "--era", "new", NULL), "s__change");
    closes_when_told(child(&c, "--garbage", NULL), "s__error");
    if (CHECK(http_child_start(&h, "--era", "old", NULL))) {
        closes_when_told(&h.config, "s__echo");
        closes_when_told(&h.config, "s__stream");
        http_child_stop(&h);
    }
}

static void the_client_can_be_closed_at_any_time(void)
{
    child_config c;
    mcp_client client;
    static const int delays_ms[] = {0, 20, 60, 120};
    for (size_t i = 0; i < sizeof(delays_ms) / sizeof(*delays_ms); i++) {
        if (!CHECK(mcp_client_open(&client, child(&c, NULL))))
            return;
        usleep((useconds_t)delays_ms[i] * 1000);
        mcp_client_close(&client);
    }
}

static void many_calls_can_run_at_once(void)
{
    enum { CALLS = 200 };
    static mcp_client_call calls[CALLS];
    static char arguments[CALLS][32];
    child_config c;
    mcp_client client;
    if (!CHECK(mcp_client_open(&client, child(&c, NULL))))
        return;
    CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
    for (int i = 0; i < CALLS; i++) {
        snprintf(arguments[i], sizeof(arguments[i]), "{\"n\":%d}", i);
        CHECK(mcp_client_start(&calls[i], &client, "s__echo", arguments[i]));
    }
    for (int i = 0; i < CALLS; i++) {
        char expected[32], *outcome = mcp_client_finish(&calls[i]);
        snprintf(expected, sizeof(expected), "\\\"n\\\": %d}", i);
        CHECK_CONTAINS(outcome, expected);
        free(outcome);
    }
    mcp_client_close(&client);
}

/* ---- HTTP ---- */

/* Several calls notice it at the same time; all are repeated, each once. */
static void check_lost_session(mcp_client *client)
{
    mcp_client_call calls[5];
    CHECK(answers(client, "s__forget", "{}", TEXT("who are you?")));
    for (int i = 0; i < 5; i++)
        CHECK(mcp_client_start(&calls[i], client, "s__echo", "{\"b\":2}"));
    for (int i = 0; i < 5; i++) {
        char *outcome = mcp_client_finish(&calls[i]);
        if (!CHECK_STR(outcome, TEXT("{\\\"b\\\": 2}")))
            printf("# %s\n", outcome);
        free(outcome);
    }
}

static void an_http_server_of_the_old_protocol_works(void)
{
    http_child h;
    mcp_client client;
    if (!CHECK(http_child_start(&h, "--era", "old", NULL)))
        return;
    if (CHECK(mcp_client_open(&client, &h.config)))
        CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
    check_plain(&client);
    check_names(&client);
    CHECK(answers(&client, "s__stream", "{}", TEXT("streamed")));
    CHECK(answers(&client, "s__broken", "{}", TEXT("mended")));
    CHECK(answers(&client, "s__ask", "{}", TEXT("asked")));
    CHECK(answers_in_time(&client, "s__facts", "{}",
            "\\\"answers\\\": {\\\"p1\\\": \\\"result\\\", \\\"r1\\\": -32601}"));
    check_change(&client);
    /* Two sessions: the server forgets both, and the second call notices it. */
    CHECK(answers(&client, "s__forget", "{}", TEXT("who are you?")));
    CHECK(answers(&client, "s__echo", "{\"a\":1}", TEXT("{\\\"a\\\": 1}")));
    CHECK(answers(&client, "s__facts", "{}", "\\\"deleted\\\": 0, \\\"forgotten\\\": 1"));
    check_lost_session(&client);
    on_loop(client.loop, mcp_client_close_mcp_run, &client);
    on_loop(client.loop, mcp_client_open_run, &client);
    CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
    CHECK(answers_in_time(&client, "s__facts", "{}", "\\\"deleted\\\": 1"));
    mcp_client_close(&client);
    http_child_stop(&h);
}

/* A change between the listing and the subscription to changes is still noticed. */
static void a_missed_change_is_noticed(void)
{
    static const char *const eras[] = {"--era=old", "--era=new"};

    for (size_t i = 0; i < 2; i++) {
        http_child h;
        mcp_client client;
        if (!CHECK(http_child_start(&h, eras[i], "--change-early", NULL)))
            return;
        CHECK(mcp_client_open(&client, &h.config));
        CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, "s__new"));
        mcp_client_close(&client);
        http_child_stop(&h);
    }
}

typedef struct warnings {
    int len;
    char last[PAL_ERROR_MESSAGE_MAX];
} warnings;

static warnings warned; /* written on the loop, read after the client was closed */

static void on_warning(void *user, pal_str text)
{
    (void)user;
    warned.len++;
    snprintf(warned.last, sizeof warned.last, "%.*s", PAL_STR_ARG(text));
}

/* The tool is listed again after the change, and still reported once. */
static void an_unusable_tool_is_reported_once(void)
{
    http_child h;
    mcp_client client;
    warned = (warnings){0};
    if (!CHECK(http_child_start(&h, "--era=new", "--change-early", NULL)))
        return;
    h.config.on_warning = on_warning;
    CHECK(mcp_client_open(&client, &h.config));
    CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, "s__new"));
    CHECK(!mcp_client_see(&client, "s__wrong").has_name);
    mcp_client_close(&client);
    http_child_stop(&h);
    CHECK_EQ(warned.len, 1);
    CHECK_CONTAINS(warned.last,
            "tool 'wrong' of MCP server 's' is not shown: its schema breaks the rules of "
            "'x-mcp-header'");
}

static void an_http_server_of_the_new_protocol_works(void)
{
    http_child h;
    mcp_client client;
    if (!CHECK(http_child_start(&h, "--era", "new", NULL)))
        return;
    const pal_header header = {pal_str_of("Mcp-Test"), pal_str_of("mine")};
    h.config.headers = &header;
    h.config.headers_len = 1;
    if (CHECK(mcp_client_open(&client, &h.config)))
        CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
    check_plain(&client);
    CHECK(!mcp_client_see(&client, "s__wrong").has_name);
    CHECK(answers(&client, "s__region", "{\"region\":\"us west\",\"place\":{\"floor\":7.0}}",
            TEXT("{\\\"mcp-method\\\": \\\"tools/call\\\", \\\"mcp-name\\\": \\\"region\\\", "
                 "\\\"mcp-param-floor\\\": \\\"7\\\", \\\"mcp-param-region\\\": \\\"us west\\\", "
                 "\\\"mcp-protocol-version\\\": \\\"2026-07-28\\\", \\\"mcp-test\\\": \\\"mine\\\"}")));
    CHECK(answers(&client, "s__region", "{\"region\":\"Hello, \xe4\xb8\x96\xe7\x95\x8c\"}",
            "\\\"mcp-param-region\\\": \\\"=?base64?SGVsbG8sIOS4lueVjA==?=\\\""));
    CHECK(answers(&client, "s__region", "{\"region\":\" padded \"}", "=?base64?IHBhZGRlZCA=?="));
    CHECK(answers(&client, "s__region", "{\"region\":\"=?base64?literal?=\"}",
            "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="));
    CHECK(lacks(&client, "s__region", "{\"region\":null}", "mcp-param"));
    CHECK(answers(&client, "s__state", "{}", TEXT("after two rounds")));
    check_change(&client);
    mcp_client_close(&client);
    http_child_stop(&h);
}

static void the_death_of_an_http_server_is_noticed(void)
{
    http_child h;
    mcp_client client;
    mcp_client_call call;
    if (!CHECK(http_child_start(&h, "--era", "old", "--no-changes")))
        return;
    if (CHECK(mcp_client_open(&client, &h.config)))
        CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
    CHECK(answers(&client, "s__huge", "{}", "\"is_error\":true"));
    CHECK(mcp_client_start(&call, &client, "s__die", "{}"));
    char *outcome = mcp_client_finish(&call);
    if (!CHECK_CONTAINS(outcome, "the MCP server failed: "))
        printf("# %s\n", outcome);
    free(outcome);
    CHECK(answers(&client, "s__echo", "{}", "the MCP server failed: "));
    mcp_client_close(&client);
    http_child_stop(&h);
}

/* ---- Memory ---- */

/* Whichever allocation fails: the server becomes ready or fails, and nothing is leaked. */
static void an_allocation_failure_is_survived(void)
{
    child_config c;
    mcp_client client;
    for (uint64_t nth = 1; nth < 400; nth += 1 + nth / 3) {
        pal_tool_mcp_config *config = child(&c, "--no-changes", NULL);
        if (!CHECK_STATUS(pal_loop_open(1, &client.loop, NULL), PAL_OK))
            return;
        pal_loop *loop = client.loop;
        client = (mcp_client){.loop = loop, .config = config, .changed = BELL_INIT};
        pal_memory_fail_at(nth, 1);
        on_loop(client.loop, mcp_client_open_run, &client);
        if (client.mcp) {
            while (mcp_client_see(&client, NULL).state == PAL_TOOL_MCP_STARTING &&
                    bell_wait(&client.changed, 1))
                continue;
            free(mcp_client_call_tool(&client, "s__kinds", "{}"));
        } else {
            CHECK_STATUS(client.status, PAL_NO_MEMORY);
        }
        pal_memory_fail_at(0, 0);
        mcp_client_close(&client);
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    RUN(a_stdio_server_of_the_old_protocol_works);
    RUN(a_stdio_server_of_the_new_protocol_works);
    RUN(versions_are_negotiated);
    RUN(unusable_servers_fail);
    RUN(configurations_are_checked);
    RUN(a_child_that_dies_is_restarted);
    RUN(failed_starts_are_retried);
    RUN(too_much_output_ends_only_the_child);
    RUN(large_results_are_refused_or_cut);
    RUN(late_calls_fail);
    RUN(progress_extends_the_time_limit);
    RUN(a_cancel_reports_nothing_and_notifies_the_server);
    RUN(closing_ends_calls_without_a_callback);
    RUN(a_callback_can_close_the_client);
    RUN(the_client_can_be_closed_at_any_time);
    RUN(many_calls_can_run_at_once);
    RUN(an_http_server_of_the_old_protocol_works);
    RUN(an_http_server_of_the_new_protocol_works);
    RUN(a_missed_change_is_noticed);
    RUN(an_unusable_tool_is_reported_once);
    RUN(the_death_of_an_http_server_is_noticed);
    RUN(an_allocation_failure_is_survived);
    return tap_done();
}
