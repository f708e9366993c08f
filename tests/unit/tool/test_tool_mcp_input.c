/* test_tool_mcp_input.c - calls that need more than one request: questions to a person in both eras
 * of the protocol, tasks, and handles that continue a call. */
#include "tool/mcp_fake.h"

#define REPLY "{\\\"action\\\": \\\"accept\\\", \\\"content\\\": {\\\"color\\\": \\\"red\\\", " \
              "\\\"name\\\": \\\"Ada\\\"}}"
#define DECLINED "{\\\"action\\\": \\\"decline\\\"}"

/* Opens a server of an era, as a child or over HTTP. */
typedef struct fixture {
    child_config child;
    http_child http;
    bool is_http;
    mcp_client client;
} fixture;

static bool open_fixture(fixture *f, bool is_http, const char *era, bool can_ask)
{
    pal_tool_mcp_config *config = &f->http.config;
    *f = (fixture){.is_http = is_http};
    if (is_http && !CHECK(http_child_start(&f->http, "--era", era, "--no-changes")))
        return false;
    if (!is_http)
        config = child(&f->child, "--era", era, NULL);
    config->can_ask = can_ask;
    return CHECK(mcp_client_open(&f->client, config)) &&
            CHECK(mcp_client_wait(&f->client, PAL_TOOL_MCP_READY, NULL));
}

static void close_fixture(fixture *f)
{
    mcp_client_close(&f->client);
    if (f->is_http)
        http_child_stop(&f->http);
}

/* Runs a call whose members are set. */
static bool gives(fixture *f, mcp_client_call *call, const char *expected)
{
    (void)mcp_client_start_call(call, &f->client);
    char *outcome = mcp_client_finish(call);
    bool held = strstr(outcome, expected) != NULL;
    if (!held)
        printf("# %s: %.400s\n", call->name, outcome);
    free(outcome);
    return held;
}

static mcp_client_call accepting(const char *name, const char *arguments)
{
    return (mcp_client_call){.name = name,
            .arguments = arguments,
            .action = "accept",
            .content = "{\"name\":\"Ada\"}"};
}

/* ---- The new era ---- */

static void ask_in_rounds(bool is_http)
{
    fixture f;
    if (!open_fixture(&f, is_http, "new", true))
        return;
    mcp_client_call call = accepting("s__input", "{}");
    /* The state is returned unchanged, and members that the person left out have defaults. */
    CHECK(gives(&f, &call,
            TEXT("[{\\\"a\\\": " REPLY ", \\\"b\\\": {\\\"action\\\": \\\"accept\\\"}}, "
                 "\\\"opaque \\\\u00e4\\\\\\\"\\\"]")));
    CHECK_STR(call.asked, "Who are you?\nPlease log inhttps://example.com/login\n");
    CHECK_EQ(call.handles, 1);
    call = (mcp_client_call){.name = "s__input", .arguments = "{}", .action = "cancel"};
    CHECK(gives(&f, &call, "{\\\"action\\\": \\\"cancel\\\"}"));
    call = (mcp_client_call){.name = "s__input", .arguments = "{}"};
    CHECK(gives(&f, &call, DECLINED));
    CHECK_STR(call.asked, "");
    call = accepting("s__sampling", "{}");
    CHECK(gives(&f, &call, "the tool requests 'sampling/createMessage', which is not supported"));
    close_fixture(&f);
}

static void questions_are_asked_in_rounds(void)
{
    ask_in_rounds(false);
    ask_in_rounds(true);
}

static void a_handle_continues_the_call_of_another_client(void)
{
    fixture f;
    pal_arena *arena = pal_arena_new(0);
    pal_json outcome;
    if (!open_fixture(&f, true, "new", true))
        return;
    mcp_client_call call = accepting("s__task", "{\"polls\":3}");
    call.stops = true;
    (void)mcp_client_start_call(&call, &f.client);
    char *text = mcp_client_finish(&call);
    mcp_client_close(&f.client);
    CHECK_STATUS(pal_json_parse(arena, pal_str_of(text), NULL, &outcome, NULL), PAL_OK);
    pal_str handle =
            pal_arena_copy(arena, pal_json_string(pal_json_find(outcome, "handle"), arena));
    CHECK(mcp_client_open(&f.client, &f.http.config));
    /* The server need not be ready yet. */
    mcp_client_call next = {.name = "s__task", .arguments = "{}", .handle = handle.data};
    CHECK(gives(&f, &next, TEXT("task done")));
    CHECK(answers(&f.client, "s__facts", "{}", "\\\"calls\\\": 2,"));
    close_fixture(&f);
    free(text);
    pal_arena_free(arena);
}

static void only_true_capabilities_are_announced(void)
{
    fixture f;
    if (!open_fixture(&f, true, "new", true))
        return;
    mcp_client_call call = {.name = "s__capabilities", .arguments = "{}"};
    CHECK(gives(&f, &call,
            TEXT("{\\\"extensions\\\": {\\\"io.modelcontextprotocol/tasks\\\": {}}}")));
    call = accepting("s__capabilities", "{}");
    CHECK(gives(&f, &call, "\\\"elicitation\\\": {\\\"form\\\": {}, \\\"url\\\": {}}"));
    close_fixture(&f);
    for (int can_ask = 0; can_ask < 2; can_ask++) {
        if (!open_fixture(&f, true, "old", can_ask))
            return;
        CHECK(answers(&f.client, "s__capabilities", "{}",
                can_ask ? TEXT("{\\\"elicitation\\\": {\\\"form\\\": {}, \\\"url\\\": {}}}")
                        : TEXT("{}")));
        close_fixture(&f);
    }
}

static void a_refused_revision_is_sent_again(void)
{
    child_config c;
    mcp_client client;
    CHECK(mcp_client_open(&client, child(&c, "--era", "new", "--refuse-once", NULL)));
    CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, "s__echo"));
    mcp_client_close(&client);
}

/* ---- The old era ---- */

static void ask_while_running(bool is_http)
{
    fixture f;
    if (!open_fixture(&f, is_http, "old", true))
        return;
    mcp_client_call call = accepting("s__elicit", "{}");
    CHECK(gives(&f, &call, TEXT(REPLY)));
    CHECK_STR(call.asked, "Who are you?\n");
    CHECK_EQ(call.handles, 0);
    call = (mcp_client_call){.name = "s__elicit", .arguments = "{}"};
    CHECK(gives(&f, &call, TEXT(DECLINED)));
    call = accepting("s__withdraw", "{}");
    CHECK(gives(&f, &call, TEXT("withdrawn")));
    call = accepting("s__page", "{}");
    CHECK(gives(&f, &call, TEXT("logged in")));
    CHECK_STR(call.asked, "Please log inhttps://example.com/login\n");
    close_fixture(&f);
}

static void questions_are_asked_while_the_tool_runs(void)
{
    ask_while_running(false);
    ask_while_running(true);
}

static void a_page_that_is_not_opened_fails_the_call(void)
{
    fixture f;
    if (!open_fixture(&f, false, "old", true))
        return;
    mcp_client_call call = {.name = "s__page", .arguments = "{}", .action = "decline"};
    CHECK(gives(&f, &call, "the tool requires a page that the user did not open"));
    close_fixture(&f);
    if (!open_fixture(&f, false, "old", false))
        return;
    call = (mcp_client_call){.name = "s__page", .arguments = "{}"};
    CHECK(gives(&f, &call, "log in first"));
    close_fixture(&f);
}

/* A question on the common stream must not reach the wrong person. */
static void a_question_without_a_known_person_is_declined(void)
{
    fixture f;
    if (!open_fixture(&f, false, "old", true))
        return;
    mcp_client_call other = accepting("s__hang", "{}"), call = accepting("s__elicit", "{}");
    other.person = &other;
    call.person = &call;
    CHECK(mcp_client_start_call(&other, &f.client));
    CHECK(gives(&f, &call, TEXT(DECLINED)));
    call = accepting("s__elicit", "{}");
    call.person = &other;
    CHECK(gives(&f, &call, TEXT(REPLY)) || strlen(other.asked) > 0);
    on_loop(f.client.loop, mcp_client_cancel_run, &other);
    pal_buf_done(&other.outcome);
    close_fixture(&f);
}

/* ---- Tasks ---- */

static void run_tasks(bool is_http, const char *era)
{
    fixture f;
    if (!open_fixture(&f, is_http, era, true))
        return;
    mcp_client_call call = accepting("s__task", "{\"polls\":3}");
    CHECK(gives(&f, &call, TEXT("task done")));
    CHECK_EQ(call.handles, 1);
    call = accepting("s__task", "{\"fail\":true}");
    CHECK(gives(&f, &call, FAILED("task failed\"}],\"is_error\":true}")));
    call = accepting("s__task", "{\"ask\":true}");
    CHECK(gives(&f, &call, REPLY));
    CHECK_STR(call.asked, "Who are you?\n");
    call = (mcp_client_call){.name = "s__task", .arguments = "{\"ask\":true}"};
    CHECK(gives(&f, &call, DECLINED));
    close_fixture(&f);
}

static void tasks_are_polled_until_they_end(void)
{
    run_tasks(false, "new");
    run_tasks(true, "new");
    run_tasks(false, "old");
    run_tasks(true, "old");
}

static void a_canceled_call_cancels_its_task(void)
{
    for (int is_new = 0; is_new < 2; is_new++) {
        fixture f;
        if (!open_fixture(&f, true, is_new ? "new" : "old", true))
            return;
        mcp_client_call call = accepting("s__task", "{\"polls\":100000}");
        CHECK(mcp_client_start_call(&call, &f.client));
        CHECK(answers_in_time(&f.client, "s__facts", "{}", "\\\"last_task\\\": \\\"tasks/get"));
        on_loop(f.client.loop, mcp_client_cancel_run, &call);
        CHECK(answers_in_time(&f.client, "s__facts", "{}", "\\\"task_cancels\\\": 1"));
        pal_buf_done(&call.outcome);
        close_fixture(&f);
    }
}

static void a_task_survives_the_death_of_its_server(void)
{
    char path[] = "/tmp/palaver-tasks-XXXXXX";
    child_config c;
    fixture f = {0};
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQ(close(fd), 0);
    CHECK_EQ(unlink(path), 0);
    CHECK(mcp_client_open(&f.client, child(&c, "--era", "new", "--tasks", path, NULL)));
    CHECK(mcp_client_wait(&f.client, PAL_TOOL_MCP_READY, NULL));
    mcp_client_call call = accepting("s__task", "{\"polls\":30}");
    CHECK(mcp_client_start_call(&call, &f.client));
    CHECK(answers_in_time(&f.client, "s__facts", "{}", "\\\"last_task\\\": \\\"tasks/get"));
    CHECK(answers(&f.client, "s__die", "{}", "\"is_error\":true"));
    char *outcome = mcp_client_finish(&call);
    CHECK_STR(outcome, TEXT("task done"));
    free(outcome);
    mcp_client_close(&f.client);
    char runs[sizeof(path) + 8];
    snprintf(runs, sizeof(runs), "%s.runs", path);
    unlink(path);
    unlink(runs);
}

static void a_tool_that_needs_a_task_is_hidden_without_tasks(void)
{
    child_config c;
    mcp_client client;
    CHECK(mcp_client_open(&client, child(&c, "--no-tasks", NULL)));
    CHECK(mcp_client_wait(&client, PAL_TOOL_MCP_READY, NULL));
    CHECK(!mcp_client_see(&client, "s__task").has_name);
    mcp_client_close(&client);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    RUN(questions_are_asked_in_rounds);
    RUN(a_handle_continues_the_call_of_another_client);
    RUN(only_true_capabilities_are_announced);
    RUN(a_refused_revision_is_sent_again);
    RUN(questions_are_asked_while_the_tool_runs);
    RUN(a_page_that_is_not_opened_fails_the_call);
    RUN(a_question_without_a_known_person_is_declined);
    RUN(tasks_are_polled_until_they_end);
    RUN(a_canceled_call_cancels_its_task);
    RUN(a_task_survives_the_death_of_its_server);
    RUN(a_tool_that_needs_a_task_is_hidden_without_tasks);
    return tap_done();
}
