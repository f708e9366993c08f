/* test_turn_permission.c - which tools a turn runs, about which it asks, and what a session
 * remembers. A real MCP server writes a line into a file for every call that it gets. */
#include "turn/permission/permission.h"

#include "turn_fixture.h"

static const char *tool_program;
static char notes_path[64];

#define CALL(id, tool) "{\"call\":{\"id\":\"" id "\",\"name\":\"fx__" tool                          \
                       "\",\"arguments\":{\"id\":\"" id "\"}}}\n"
#define NEXT "{\"next\":true}\n"
#define SAY(text) "{\"text\":\"" text "\"}\n"

static pal_runtime_options with_server(
        const pal_permission_rule *rules, size_t len, pal_tool_server *server, pal_str *command)
{
    command[0] = S(tool_program);
    command[1] = S(notes_path);
    *server = (pal_tool_server){.name = S("fx"), .command = command, .command_len = 2};
    return (pal_runtime_options){.tool_servers = server,
            .tool_servers_len = 1,
            .permissions = rules,
            .permissions_len = len,
            .max_tool_iterations = 9};
}

static void begin_with(const char *script, const pal_permission_rule *rules, size_t len)
{
    pal_str command[2];
    pal_tool_server server;

    snprintf(notes_path, sizeof(notes_path), "/tmp/palaver-notes-%ld", (long)getpid());
    unlink(notes_path);
    open_store();
    open_runtime(script, with_server(rules, len, &server, command));
}

/* Another process takes the store: here, another runtime. */
static void begin_again(const char *script, const pal_permission_rule *rules, size_t len)
{
    pal_str command[2];
    pal_tool_server server;

    pal_runtime_close(test.runtime, 0);
    open_runtime(script, with_server(rules, len, &server, command));
}

static void end_all(void)
{
    end();
    unlink(notes_path);
}

static const char *notes(void)
{
    static char text[1024];
    FILE *file = fopen(notes_path, "r");
    size_t len = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

    text[len] = '\0';
    if (file)
        fclose(file);
    return text;
}

static pal_turn_info start(pal_turn_request request)
{
    pal_turn_info info = {0};

    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    return info;
}

static pal_turn_waits waits_of(pal_id turn)
{
    pal_turn_waits waits = {.calls = {0}};

    OK(pal_turn_waiting(test.runtime, S(""), turn, test.arena, &waits, &test.err));
    return waits;
}

/* ---- Decisions ---- */

#define RULES(...) {(const pal_permission_rule[]){__VA_ARGS__},                                    \
        sizeof((const pal_permission_rule[]){__VA_ARGS__}) / sizeof(pal_permission_rule)}
#define ALLOW(pattern) {.tool = {pattern, sizeof(pattern) - 1}, .permission = PAL_PERMISSION_ALLOW}
#define ASK(pattern) {.tool = {pattern, sizeof(pattern) - 1}, .permission = PAL_PERMISSION_ASK}
#define DENY(pattern) {.tool = {pattern, sizeof(pattern) - 1}, .permission = PAL_PERMISSION_DENY}

static void hints_only_lower_the_default(void)
{
    pal_tool builtin = {.name = S("recall")};
    pal_tool plain = {.name = S("fx__note"), .server = S("fx")};
    pal_tool hinted = {.name = S("fx__peek"), .server = S("fx"), .is_read_only = true};
    pal_permission_set none = {.agent = {0}};
    pal_permission_set strict = {.runtime = RULES(ASK("fx__*"))};

    CHECK_EQ(pal_permission_decide(&none, &builtin, 0), PAL_PERMISSION_ALLOW);
    CHECK_EQ(pal_permission_decide(&none, &plain, 0), PAL_PERMISSION_ASK);
    CHECK_EQ(pal_permission_decide(&none, &hinted, 0), PAL_PERMISSION_ALLOW);
    CHECK_EQ(pal_permission_decide(&strict, &hinted, 0), PAL_PERMISSION_ASK);
}

static void the_first_rule_wins_and_the_agent_comes_first(void)
{
    pal_tool tool = {.name = S("fx__note"), .server = S("fx")};
    pal_permission_set set = {.runtime = RULES(DENY("fx__note"), ALLOW("*"))};

    CHECK_EQ(pal_permission_decide(&set, &tool, 0), PAL_PERMISSION_DENY);
    set.agent = (pal_permission_rules)RULES(ASK("*note"));
    CHECK_EQ(pal_permission_decide(&set, &tool, 0), PAL_PERMISSION_ASK);
    tool.name = S("fx__other");
    CHECK_EQ(pal_permission_decide(&set, &tool, 0), PAL_PERMISSION_ALLOW);
}

static void sessions_and_requests_only_restrict(void)
{
    pal_tool tool = {.name = S("fx__note"), .server = S("fx")};
    pal_permission_set set = {.runtime = RULES(DENY("fx__note")), .session = RULES(ALLOW("*"))};

    CHECK_EQ(pal_permission_decide(&set, &tool, PAL_PERMISSION_ALLOW), PAL_PERMISSION_DENY);
    set.runtime = (pal_permission_rules)RULES(ASK("*"));
    CHECK_EQ(pal_permission_decide(&set, &tool, 0), PAL_PERMISSION_ASK);
    CHECK_EQ(pal_permission_decide(&set, &tool, PAL_PERMISSION_ALLOW), PAL_PERMISSION_ALLOW);
    set.session = (pal_permission_rules)RULES(DENY("*"));
    CHECK_EQ(pal_permission_decide(&set, &tool, PAL_PERMISSION_ALLOW), PAL_PERMISSION_DENY);
    set.session.len = 0;
    set.request = (pal_permission_rules)RULES(ASK("*"));
    CHECK_EQ(pal_permission_decide(&set, &tool, PAL_PERMISSION_ALLOW), PAL_PERMISSION_ASK);
}

static void unreadable_rules_of_a_session_deny(void)
{
    pal_arena *arena = pal_arena_new(0);
    pal_json list;
    pal_permission_rules rules;

    OK(pal_json_parse(arena, S("[{\"tool\":\"a\",\"do\":\"ask\"},{\"do\":\"maybe\"},7]"), NULL,
            &list, &test.err));
    rules = pal_permission_read_rules(list, arena);
    if (CHECK_EQ(rules.len, 3)) {
        CHECK_EQ(rules.items[0].permission, PAL_PERMISSION_ASK);
        CHECK_EQ(rules.items[1].permission, PAL_PERMISSION_DENY);
        CHECK_STR(rules.items[1].tool, "*");
        CHECK_EQ(rules.items[2].permission, PAL_PERMISSION_DENY);
    }
    pal_arena_free(arena);
}

/* ---- Turns ---- */

static const char two_calls[] = CALL("a", "note") CALL("b", "peek") CALL("c", "note") NEXT
        SAY("Done.");

static void a_turn_asks_about_several_calls_at_once(void)
{
    pal_turn_info info;
    pal_turn_waits waits;
    pal_turn_request request;
    pal_message_page list;

    begin_with(two_calls, NULL, 0);
    request = said(new_session(), "go");
    info = start(request);
    CHECK_EQ(wait_for(info.turn, &info, NULL), PAL_TURN_ASKING);
    CHECK_CONTAINS(info.reason, "fx__note");
    CHECK_STR(S(notes()), "b\n"); /* the tool that declares readOnlyHint has run */
    waits = waits_of(info.turn);
    if (CHECK_EQ(waits.questions_len, 2)) {
        CHECK_EQ(waits.questions[0].kind, PAL_QUESTION_APPROVAL);
        CHECK_STR(waits.questions[0].call_id, "a");
        CHECK_STR(waits.questions[0].server, "fx");
        CHECK_STR(waits.questions[0].arguments, "{\"id\":\"a\"}");
        CHECK_STR(waits.questions[1].call_id, "c");
    }
    CHECK_EQ(pal_turn_answer(test.runtime, S(""), info.turn,
                     &(pal_question_answer){.call_id = S("a"), .allow = true}, 1, &test.err),
            PAL_INVALID); /* "c" has no answer */
    CHECK_EQ(pal_turn_answer(test.runtime, S(""), info.turn,
                     (pal_question_answer[]){{.call_id = S("b"), .allow = true}, {.allow = true}},
                     2, &test.err),
            PAL_INVALID);
    OK(pal_turn_answer(test.runtime, S(""), info.turn,
            (pal_question_answer[]){{.call_id = S("c"), .allow = true}, {.allow = false}}, 2,
            &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(S(notes()), "b\nc\n");
    list = all_of(request.session);
    if (CHECK_EQ(list.len, 6)) {
        CHECK_STR(list.items[2].parts[0].call_id, "b");
        CHECK_STR(list.items[3].parts[0].call_id, "a");
        CHECK_STR(part_text(&list.items[3], 0), "The user denied this call.");
        CHECK(list.items[3].parts[0].is_error);
        CHECK_STR(list.items[4].parts[0].call_id, "c");
    }
    end_all();
}

static void a_remembered_answer_is_used_until_it_is_forgotten(void)
{
    static const char script[] = CALL("a", "note") NEXT CALL("b", "note") NEXT SAY("One.") NEXT
            CALL("c", "note") NEXT SAY("Two.") NEXT CALL("d", "note") NEXT SAY("Three.");
    pal_permission_memory *memories;
    pal_turn_info info;
    pal_turn_request request;
    size_t len = 0;

    begin_with(script, NULL, 0);
    request = said(new_session(), "go");
    info = start(request);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_ASKING);
    OK(pal_turn_answer(test.runtime, S(""), info.turn,
            &(pal_question_answer){.allow = true, .remember = true}, 1, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(S(notes()), "a\nb\n");
    OK(pal_permission_list(
            test.store, S(""), request.session, test.arena, &memories, &len, &test.err));
    if (CHECK_EQ(len, 1)) {
        CHECK_STR(memories[0].tool, "fx__note");
        CHECK_EQ(memories[0].permission, PAL_PERMISSION_ALLOW);
    }
    CHECK_EQ(pal_permission_forget(test.store, S("other"), request.session, S("fx__note"),
                     &test.err),
            PAL_NOT_FOUND);
    OK(pal_permission_forget(test.store, S(""), request.session, S("fx__note"), &test.err));
    info = start(said(request.session, "again"));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_ASKING);
    OK(pal_turn_answer(test.runtime, S(""), info.turn,
            &(pal_question_answer){.allow = false, .remember = true}, 1, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    info = start(said(request.session, "and again"));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE); /* denied without a question */
    CHECK_STR(S(notes()), "a\nb\n");
    end_all();
}

static void denied_tools_are_neither_offered_nor_run(void)
{
    static const pal_permission_rule rules[] = {DENY("fx__note"), ALLOW("*")};
    pal_turn_request request;
    pal_turn_info info;
    pal_plan plan;

    begin_with(CALL("a", "note") NEXT SAY("Done."), rules, 2);
    request = said(new_session(), "go");
    info = start(request);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(S(notes()), "");
    CHECK_CONTAINS(part_text(&all_of(request.session).items[2], 0).data, "is denied by");
    OK(pal_turn_plan(test.runtime, &request, test.arena, &plan, &test.err));
    end_all();
}

static void a_session_can_deny_a_tool_that_the_configuration_allows(void)
{
    static const pal_permission_rule rules[] = {ALLOW("*")};
    pal_session session = {
            .metadata = S("{\"turn\":{\"permissions\":[{\"tool\":\"fx__*\",\"do\":\"ask\"}]}}")};
    pal_turn_info info;
    pal_id id;

    begin_with(CALL("a", "note") NEXT SAY("Done."), rules, 1);
    OK(pal_store_create(test.store, &session, &id, &test.err));
    info = start(said(id, "go"));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_ASKING);
    OK(pal_turn_allow(test.runtime, S(""), info.turn, true, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(S(notes()), "a\n");
    end_all();
}

static void a_caller_that_cannot_be_asked_gets_the_rule(void)
{
    pal_turn_request request;
    pal_turn_info info;
    pal_message_page list;

    begin_with(CALL("a", "note") NEXT SAY("Done."), NULL, 0);
    request = said(new_session(), "go");
    request.cannot_ask = true;
    info = start(request);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(S(notes()), "");
    list = all_of(request.session);
    if (CHECK_EQ(list.len, 4))
        CHECK_CONTAINS(part_text(&list.items[2], 0).data, "{tool: \"fx__note\", do: allow}");
    end_all();
}

static void an_asking_turn_continues_in_another_process(void)
{
    pal_turn_info info;
    pal_turn_waits waits;
    pal_turn_request request;

    begin_with(two_calls, NULL, 0);
    request = said(new_session(), "go");
    info = start(request);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_ASKING);
    begin_again(SAY("Done."), NULL, 0);
    waits = waits_of(info.turn);
    CHECK_EQ(waits.questions_len, 2);
    OK(pal_turn_answer(test.runtime, S(""), info.turn,
            (pal_question_answer[]){{.call_id = S("c"), .allow = true, .remember = true},
                    {.allow = false}},
            2, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(S(notes()), "b\nc\n");
    CHECK_EQ(all_of(request.session).len, 6);
    end_all();
}

static void an_approval_does_not_overrule_a_new_configuration(void)
{
    static const pal_permission_rule rules[] = {DENY("fx__note")};
    pal_turn_info info;
    pal_turn_request request;

    begin_with(CALL("a", "note") NEXT SAY("Done."), NULL, 0);
    request = said(new_session(), "go");
    info = start(request);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_ASKING);
    begin_again(SAY("Done."), rules, 1);
    OK(pal_turn_allow(test.runtime, S(""), info.turn, true, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(S(notes()), "");
    end_all();
}

static void an_asking_turn_can_be_canceled(void)
{
    pal_turn_info info;
    pal_turn_request request;

    begin_with(two_calls, NULL, 0);
    request = said(new_session(), "go");
    info = start(request);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_ASKING);
    OK(pal_turn_cancel(test.runtime, S(""), info.turn, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_CANCELED);
    CHECK_EQ(pal_turn_allow(test.runtime, S(""), info.turn, true, &test.err), PAL_CONFLICT);
    CHECK_STR(S(notes()), "b\n");
    end_all();
}

static void server_names_cannot_be_confused(void)
{
    pal_str command[] = {S("/bin/true")};
    pal_tool_server servers[] = {{.name = S("a"), .command = command, .command_len = 1},
            {.name = S("a__b"), .command = command, .command_len = 1}};
    pal_endpoint endpoint = {.kind = S("echo")};
    pal_runtime_options options = {.endpoints = &endpoint,
            .endpoints_len = 1,
            .tool_servers = servers,
            .tool_servers_len = 2};

    open_store();
    options.store = test.store;
    CHECK_EQ(pal_runtime_open(&options, &test.runtime, &test.err), PAL_INVALID);
    CHECK_CONTAINS(test.err.message, "'a' and 'a__b'");
    pal_store_close(test.store);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    tool_program = argv[1];
    RUN(hints_only_lower_the_default);
    RUN(the_first_rule_wins_and_the_agent_comes_first);
    RUN(sessions_and_requests_only_restrict);
    RUN(unreadable_rules_of_a_session_deny);
    RUN(a_turn_asks_about_several_calls_at_once);
    RUN(a_remembered_answer_is_used_until_it_is_forgotten);
    RUN(denied_tools_are_neither_offered_nor_run);
    RUN(a_session_can_deny_a_tool_that_the_configuration_allows);
    RUN(a_caller_that_cannot_be_asked_gets_the_rule);
    RUN(an_asking_turn_continues_in_another_process);
    RUN(an_approval_does_not_overrule_a_new_configuration);
    RUN(an_asking_turn_can_be_canceled);
    RUN(server_names_cannot_be_confused);
    return tap_done();
}
