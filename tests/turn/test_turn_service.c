/* test_turn_service.c - the requests that a model service receives turn after turn: their settings,
 * reasoning and conversation; and what is kept of the answers. */
#include "turn_fixture.h"
#include "turn_service.h"

#define ANSWER(text) "{\"choices\":[{\"message\":{\"content\":\"" text "\"}}]}"
#define COUNTED(text)                                                                              \
    "{\"choices\":[{\"message\":{\"content\":\"" text "\"}}],"                                     \
    "\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":10}}"
#define CONVERSATION(id, text)                                                                     \
    "{\"conversation_id\":\"" id                                                                   \
    "\",\"outputs\":[{\"type\":\"message.output\",\"content\":\"" text                             \
    "\"}],\"usage\":{\"prompt_tokens\":50,\"completion_tokens\":5,\"total_tokens\":55}}"

static bool has(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static pal_id session_of(const char *agent, const char *metadata)
{
    pal_session session = {.agent = S(agent), .metadata = S(metadata)};
    pal_id id = {{0}};

    OK(pal_store_create(test.store, &session, &id, &test.err));
    return id;
}

static pal_turn_state run(pal_turn_request request, pal_turn_info *out_info, pal_str *out_text)
{
    pal_turn_info info = {0};

    if (!OK(pal_turn_start(test.runtime, &request, &info, &test.err)))
        return PAL_TURN_NONE;
    return wait_for(info.turn, out_info ? out_info : &info, out_text);
}

static void begin_kind(service *s, const char *kind, pal_runtime_options options)
{
    pal_endpoint endpoint = {.name = S("main"), .kind = S(kind), .url = S(s->url), .model = S("m")};

    open_store();
    if (options.endpoints_len == 0) {
        options.endpoints = &endpoint;
        options.endpoints_len = 1;
    }
    open_runtime(NULL, options);
}

/* ---- Settings ---- */

static void request_goes_over_session_over_agent_over_runtime(void)
{
    static const service_reply replies[] = {{.body = ANSWER("1")}, {.body = ANSWER("2")},
            {.body = ANSWER("3")}, {.body = ANSWER("4")}};
    service *s = service_open(replies, 4);
    pal_endpoint endpoints[] = {{.name = S("echo"), .kind = S("echo")},
            {.name = S("main"), .kind = S("openai"), .url = S(s->url), .model = S("m")}};
    pal_str offered = S("re*");
    pal_agent_settings agents[] = {{.name = S("anna"),
            .system = S("agent says"),
            .endpoint = S("main"),
            .model = S("agent-model"),
            .tools = &offered,
            .tools_len = 1,
            .has_tools = true}};
    pal_runtime_options options = {.endpoints = endpoints,
            .endpoints_len = 2,
            .agents = agents,
            .agents_len = 1,
            .system = S("runtime says")};
    pal_turn_request request;
    pal_str text;
    pal_id session;

    begin_kind(s, "", options);
    CHECK_EQ(run(said(session_of("", ""), "a"), NULL, &text), PAL_TURN_DONE);
    CHECK_STR(text, "echo: a");
    CHECK_EQ(run(said(session_of("anna", ""), "a"), NULL, NULL), PAL_TURN_DONE);
    HAS(s->bodies[0], "\"agent-model\"", "agent says");
    CHECK(has(s->bodies[0], "read_output"));
    CHECK(has(s->bodies[0], "recall"));
    CHECK(!has(s->bodies[0], "search_output"));
    CHECK(!has(s->bodies[0], "runtime says"));
    session =
            session_of("anna", "{\"turn\":{\"model\":\"own-model\",\"system\":\"session says\"}}");
    CHECK_EQ(run(said(session, "a"), NULL, NULL), PAL_TURN_DONE);
    HAS(s->bodies[1], "\"own-model\"", "session says");
    request = said(session, "b");
    request.model = S("asked-model");
    request.system = S("request says");
    request.has_system = true;
    CHECK_EQ(run(request, NULL, NULL), PAL_TURN_DONE);
    HAS(s->bodies[2], "\"asked-model\"", "request says");
    request = said(session, "c");
    request.endpoint = S("echo"); /* the agent's model is not its model */
    if (CHECK_EQ(run(request, NULL, &text), PAL_TURN_DONE))
        CHECK_STR(text, "echo: c");
    request = said(session_of("", ""), "d");
    request.model = S("m"); /* belongs to main */
    if (CHECK_EQ(run(request, NULL, &text), PAL_TURN_DONE))
        CHECK_STR(text, "4");
    end();
    service_close(s);
}

static void an_agent_with_a_wrong_endpoint_is_refused(void)
{
    pal_agent_settings agent = {.name = S("anna"), .endpoint = S("nowhere")};
    pal_endpoint endpoint = {.kind = S("echo")};
    pal_runtime_options options = {
            .endpoints = &endpoint, .endpoints_len = 1, .agents = &agent, .agents_len = 1};
    pal_runtime *unopened = NULL;

    open_store();
    options.store = test.store;
    if (CHECK_STATUS(pal_runtime_open(&options, &unopened, &test.err), PAL_NOT_FOUND, &test.err))
        CHECK(!unopened);
    CHECK(has(test.err.message, "nowhere"));
    CHECK(has(test.err.message, "anna"));
    test.runtime = NULL;
    end();
}

static void a_session_with_a_wrong_endpoint_fails_and_keeps_the_message(void)
{
    pal_turn_info info;
    pal_id session;

    begin(NULL);
    session = session_of("", "{\"turn\":{\"endpoint\":\"nowhere\"}}");
    CHECK_EQ(run(said(session, "a"), &info, NULL), PAL_TURN_FAILED);
    CHECK_STATUS(info.status, PAL_NOT_FOUND);
    CHECK(has(info.reason, "nowhere"));
    CHECK_EQ(all_of(session).len, 2);
    end();
}

/* ---- Endpoints and models ---- */

#define MODELS "{\"data\":[{\"id\":\"first\"},{\"id\":\"second\"}]}"

static void a_service_without_a_named_model_is_queried_for_one(void)
{
    static const service_reply replies[] = {
            {.body = MODELS}, {.body = ANSWER("1")}, {.body = ANSWER("2")}};
    service *s = service_open(replies, 3);
    pal_endpoint endpoint = {.kind = S("openai"), .url = S(s->url)};
    pal_str name, model;
    bool is_stopgap = true;

    begin_kind(s, "", (pal_runtime_options){.endpoints = &endpoint, .endpoints_len = 1});
    CHECK_EQ(run(said(new_session(), "a"), NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(run(said(new_session(), "b"), NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(s->paths[0], "/v1/models");
    HAS(s->bodies[1], "\"first\"");
    HAS(s->bodies[2], "\"first\"");
    OK(pal_runtime_default(test.runtime, test.arena, &name, &model, &is_stopgap, &test.err));
    CHECK_STR(name, "openai");
    CHECK_STR(model, "first");
    CHECK(!is_stopgap);
    end();
    service_close(s);
}

static void a_service_that_lists_no_models_fails_the_turn(void)
{
    static const service_reply replies[] = {{.code = 404, .body = "{}"}};
    service *s = service_open(replies, 1);
    pal_endpoint endpoint = {.kind = S("openai"), .url = S(s->url)};
    pal_turn_info info;

    begin_kind(s, "", (pal_runtime_options){.endpoints = &endpoint, .endpoints_len = 1});
    CHECK_EQ(run(said(new_session(), "a"), &info, NULL), PAL_TURN_FAILED);
    CHECK(has(info.reason, "no model is configured for endpoint 'openai'"));
    end();
    service_close(s);
}

static void one_need_not_wait_for_the_name_of_a_model(void)
{
    static const service_reply replies[] = {{.body = MODELS, .is_held = true}};
    service *s = service_open(replies, 1);
    pal_endpoint endpoint = {.kind = S("openai"), .url = S(s->url)};
    pal_turn_request request;
    pal_turn_info info;

    begin_kind(s, "", (pal_runtime_options){.endpoints = &endpoint, .endpoints_len = 1});
    request = said(new_session(), "a");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    service_wait(s, 1);
    OK(pal_turn_cancel(test.runtime, S(""), info.turn, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_CANCELED);
    end(); /* while the call is still running */
    service_close(s);
}

static void models_and_tools_are_listed(void)
{
    static const service_reply replies[] = {{.body = MODELS}};
    service *s = service_open(replies, 1);
    pal_endpoint endpoints[] = {
            {.name = S("main"), .kind = S("openai"), .url = S(s->url), .model = S("second")},
            {.name = S("gone"),
                    .kind = S("openai"),
                    .url = S("http://127.0.0.1:1"),
                    .model = S("m")},
            {.kind = S("echo")}};
    pal_served_model *models = NULL;
    pal_tool *tools = NULL;
    size_t len = 0;

    begin_kind(s, "", (pal_runtime_options){.endpoints = endpoints, .endpoints_len = 3});
    OK(pal_runtime_models(test.runtime, 10000, test.arena, &models, &len, &test.err));
    if (CHECK_EQ(len, 3)) {
        CHECK_STR(models[0].endpoint, "main");
        CHECK_STR(models[0].model, "second");
        CHECK_STR(models[1].model, "first");
        CHECK_STR(models[2].model, "echo");
    }
    OK(pal_runtime_tools(test.runtime, test.arena, &tools, &len, &test.err));
    if (CHECK_EQ(len, 3))
        CHECK_STR(tools[0].name, "read_output");
    end();
    service_close(s);
}

static void a_service_that_hangs_is_left_out_of_the_list(void)
{
    static const service_reply replies[] = {{.body = MODELS, .is_held = true}};
    service *s = service_open(replies, 1);
    pal_served_model *models = NULL;
    size_t len = 9;

    begin_kind(s, "openai", (pal_runtime_options){0});
    if (OK(pal_runtime_models(test.runtime, 50, test.arena, &models, &len, &test.err)))
        CHECK_EQ(len, 0);
    end();
    service_close(s);
}

static void clear_environment(void)
{
    static const char *const names[] = {"OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL", "MISTRAL_API_KEY", "OPENROUTER_API_KEY", "GROQ_API_KEY"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    setenv("OLLAMA_HOST", "127.0.0.1:1", 1);
}

static void open_found(void)
{
    pal_runtime_options options = {0};

    open_store();
    options.store = test.store;
    OK(pal_runtime_open(&options, &test.runtime, &test.err));
}

static void endpoints_are_found_by_their_keys(void)
{
    static const service_reply replies[] = {{.body = MODELS}, {.body = ANSWER("1")}};
    service *s = service_open(replies, 2);
    pal_str name, model;
    bool is_stopgap = true;

    clear_environment();
    setenv("OPENAI_API_KEY", "a-secret-key", 1);
    setenv("OPENAI_BASE_URL", s->url, 1);
    setenv("ANTHROPIC_API_KEY", "another-key", 1);
    open_found();
    CHECK_EQ(s->len, 0); /* no service was called for it */
    OK(pal_runtime_default(test.runtime, test.arena, &name, &model, &is_stopgap, &test.err));
    CHECK_STR(name, "openai");
    CHECK(!is_stopgap);
    CHECK_EQ(run(said(new_session(), "a"), NULL, NULL), PAL_TURN_DONE);
    HAS(s->bodies[1], "\"first\"");
    end();
    clear_environment();
    service_close(s);
}

/* A service that takes longer than a moment to respond counts as missing: the test repeats the
 * discovery until the machine has time for both. */
static void a_server_on_this_machine_is_found(void)
{
    static const service_reply models = {.body = MODELS};
    service_reply replies[SERVICE_REQUESTS_MAX];
    service *s;
    pal_str name, model;
    bool is_stopgap = true;

    for (size_t i = 0; i < SERVICE_REQUESTS_MAX; i++)
        replies[i] = models;
    s = service_open(replies, SERVICE_REQUESTS_MAX);
    clear_environment();
    setenv("OPENAI_BASE_URL", s->url, 1);
    for (size_t tries = 0; is_stopgap && tries < SERVICE_REQUESTS_MAX; tries++) {
        if (tries > 0)
            end();
        open_found();
        OK(pal_runtime_default(test.runtime, test.arena, &name, &model, &is_stopgap, &test.err));
    }
    CHECK_STR(name, "openai");
    CHECK_STR(model, "first");
    CHECK(!is_stopgap);
    end();
    clear_environment();
    service_close(s);
}

static void without_any_model_echo_answers_and_it_is_said_so(void)
{
    pal_str name, model;
    bool is_stopgap = false;

    clear_environment();
    open_found();
    OK(pal_runtime_default(test.runtime, test.arena, &name, &model, &is_stopgap, &test.err));
    /* Another program may listen on the usual port of this machine. */
    CHECK_EQ(is_stopgap, pal_str_is(name, "echo"));
    end();
}

/* ---- Reasoning ---- */

static void blocks_of_reasoning_keep_their_place(void)
{
    static const service_reply replies[] = {
            {.body = "{\"type\":\"message\",\"content\":["
                     "{\"type\":\"thinking\",\"thinking\":\"one\",\"signature\":\"s+1/=\"},"
                     "{\"type\":\"text\",\"text\":\"Let me see.\"},"
                     "{\"type\":\"thinking\",\"thinking\":\"two\",\"signature\":\"s2\"},"
                     "{\"type\":\"thinking\",\"thinking\":\"three\",\"signature\":\"s3\"},"
                     "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"recall\","
                     "\"input\":{\"text\":\"x\"}},"
                     "{\"type\":\"redacted_thinking\",\"data\":\"zzz\"},"
                     "{\"type\":\"tool_use\",\"id\":\"t2\",\"name\":\"recall\","
                     "\"input\":{\"text\":\"y\"}}],\"stop_reason\":\"tool_use\"}"},
            {.body = "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"So.\"}]}"}};
    service *s = service_open(replies, 2);
    pal_message_page list;
    pal_id session;
    pal_str text;

    begin_kind(s, "anthropic", (pal_runtime_options){0});
    session = new_session();
    if (CHECK_EQ(run(said(session, "a"), NULL, &text), PAL_TURN_DONE))
        CHECK_STR(text, "So.");
    list = all_of(session);
    if (CHECK_EQ(list.len, 5) && CHECK_EQ(list.items[1].parts_len, 7)) {
        const pal_part *parts = list.items[1].parts;

        CHECK_STR(parts[0].text, "one");
        CHECK_STR(parts[0].signature, "s+1/=");
        CHECK_STR(parts[1].text, "Let me see.");
        CHECK_STR(parts[2].text, "two");
        CHECK_STR(parts[2].signature, "s2");
        CHECK_STR(parts[3].text, "three");
        CHECK_STR(parts[3].signature, "s3");
        CHECK_STR(parts[4].call_id, "t1");
        CHECK_STR(parts[6].call_id, "t2");
        CHECK_EQ(parts[5].kind, PAL_PART_REASONING);
        CHECK_THAT(parts[5].signature.len, >, 0);
    }
    HAS(s->bodies[1], "\"one\"", "\"s+1/=\"", "Let me see.", "\"two\"", "\"s2\"", "\"three\"",
            "\"s3\"", "\"t1\"", "\"zzz\"", "\"t2\"", "tool_result");
    end();
    service_close(s);
}

/* ---- Conversations that the service keeps ---- */

static pal_str mapping_of(pal_id session)
{
    char name[PAL_ID_TEXT_SIZE];
    pal_record record = {0};

    pal_id_to_text(session, name);
    if (pal_store_record_find(test.store, S("default"), S("mistral_conversation"), S(name),
                test.arena, &record, &test.err) != PAL_OK)
        return S("");
    return record.body;
}

static void reopen_kind(service *s, const char *kind)
{
    pal_endpoint endpoint = {.name = S("main"), .kind = S(kind), .url = S(s->url), .model = S("m")};

    pal_runtime_close(test.runtime, 0);
    open_runtime(NULL, (pal_runtime_options){.endpoints = &endpoint, .endpoints_len = 1});
}

static void a_kept_conversation_receives_only_new_messages(void)
{
    static const service_reply replies[] = {{.body = CONVERSATION("conv_1", "one")},
            {.body = CONVERSATION("conv_1", "two")}, {.body = CONVERSATION("conv_1", "three")}};
    service *s = service_open(replies, 3);
    pal_id session;

    begin_kind(s, "mistral_conversations", (pal_runtime_options){0});
    session = new_session();
    CHECK_EQ(run(said(session, "first question"), NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(s->paths[0], "/v1/conversations");
    HAS(mapping_of(session).data, "\"conv_1\"", "\"tokens\":55");
    CHECK_EQ(run(said(session, "second question"), NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(s->paths[1], "/v1/conversations/conv_1");
    CHECK(has(s->bodies[1], "second question"));
    CHECK(!has(s->bodies[1], "first question"));
    reopen_kind(s, "mistral_conversations");
    CHECK_EQ(run(said(session, "third question"), NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(s->paths[2], "/v1/conversations/conv_1");
    CHECK(!has(s->bodies[2], "second question"));
    end();
    service_close(s);
}

static void a_lost_conversation_is_restarted_with_its_complete_history(void)
{
    static const service_reply replies[] = {{.body = CONVERSATION("conv_1", "one")},
            {.code = 404, .body = "{\"message\":\"no such conversation\"}"},
            {.body = CONVERSATION("conv_2", "two")}, {.body = CONVERSATION("conv_2", "three")}};
    service *s = service_open(replies, 4);
    pal_id session;
    pal_str text;

    begin_kind(s, "mistral_conversations", (pal_runtime_options){0});
    session = new_session();
    CHECK_EQ(run(said(session, "first question"), NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(run(said(session, "second question"), NULL, &text), PAL_TURN_DONE);
    CHECK_STR(text, "two");
    CHECK_STR(s->paths[1], "/v1/conversations/conv_1");
    CHECK_STR(s->paths[2], "/v1/conversations");
    HAS(s->bodies[2], "first question", "one", "second question");
    HAS(mapping_of(session).data, "\"conv_2\"");
    CHECK_EQ(run(said(session, "third question"), NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(s->paths[3], "/v1/conversations/conv_2");
    CHECK(!has(s->bodies[3], "second question"));
    end();
    service_close(s);
}

static void a_conversation_is_not_continued_after_a_failure(void)
{
    static const service_reply replies[] = {{.body = CONVERSATION("conv_1", "one")},
            {.code = 401, .body = "{\"message\":\"who are you?\"}"},
            {.body = CONVERSATION("conv_2", "two")}};
    service *s = service_open(replies, 3);
    pal_turn_request request;
    pal_id session;

    begin_kind(s, "mistral_conversations", (pal_runtime_options){0});
    session = new_session();
    CHECK_EQ(run(said(session, "first question"), NULL, NULL), PAL_TURN_DONE);
    request = said(session, "second question");
    request.all_or_nothing = true;
    CHECK_EQ(run(request, NULL, NULL), PAL_TURN_FAILED);
    CHECK_EQ(mapping_of(session).len, 0);
    CHECK_EQ(run(said(session, "third question"), NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(s->paths[2], "/v1/conversations");
    HAS(s->bodies[2], "first question", "third question");
    CHECK(!has(s->bodies[2], "second question"));
    end();
    service_close(s);
}

/* The strategy makes room: it requests a summary, which the service must not keep, and a new
 * conversation begins with the summary. */
static void a_conversation_that_is_full_makes_room(void)
{
    static const service_reply replies[] = {{.body = CONVERSATION("conv_1", "one")},
            {.body = CONVERSATION("conv_1", "the summary")},
            {.body = CONVERSATION("conv_2", "two")}};
    service *s = service_open(replies, 3);
    pal_id session;

    begin_kind(
            s, "mistral_conversations", (pal_runtime_options){.context.compaction_threshold = 55});
    session = new_session();
    CHECK_EQ(run(said(session, "first question"), NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(run(said(session, "second question"), NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(s->paths[1], "/v1/conversations");
    HAS(s->bodies[1], "first question", "\"store\":false");
    CHECK_STR(s->paths[2], "/v1/conversations");
    HAS(s->bodies[2], "the summary", "second question", "\"store\":true");
    CHECK(!has(s->bodies[2], "first question"));
    end();
    service_close(s);
}

static void a_full_conversation_leaves_out_the_oldest(void)
{
    static const service_reply replies[] = {{.body = CONVERSATION("conv_1", "one")},
            {.body = CONVERSATION("conv_2", "two")}, {.body = CONVERSATION("conv_3", "three")}};
    service *s = service_open(replies, 3);
    pal_id session;

    begin_kind(s, "mistral_conversations",
            (pal_runtime_options){.context = {.compaction_threshold = 55,
                                          .strategy = PAL_STRATEGY_SLIDING_WINDOW}});
    session = new_session();
    CHECK_EQ(run(said(session, "first question"), NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(run(said(session, "second question"), NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(run(said(session, "third question"), NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(s->paths[2], "/v1/conversations");
    HAS(s->bodies[2], "third question");
    CHECK(!has(s->bodies[2], "first question"));
    end();
    service_close(s);
}

/* Whether a second turn begins another conversation, after a turn with that many tokens. */
static bool is_reset(uint64_t tokens)
{
    char first[256];
    const service_reply replies[] = {{.body = first}, {.body = CONVERSATION("conv_2", "two")}};
    service *s;
    pal_id session;
    bool reset;

    snprintf(first, sizeof(first),
            "{\"conversation_id\":\"conv_1\",\"outputs\":[{\"type\":\"message.output\","
            "\"content\":\"one\"}],\"usage\":{\"prompt_tokens\":%llu}}",
            (unsigned long long)tokens);
    s = service_open(replies, 2);
    begin_kind(s, "mistral_conversations",
            (pal_runtime_options){.context.strategy = PAL_STRATEGY_RESET});
    session = new_session();
    CHECK_EQ(run(said(session, "first question"), NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(run(said(session, "second question"), NULL, NULL), PAL_TURN_DONE);
    reset = strcmp(s->paths[1], "/v1/conversations") == 0;
    end();
    service_close(s);
    return reset;
}

static void a_conversation_is_reset_as_the_vectors_say(void)
{
    pal_arena *kept = pal_arena_new(0);
    pal_json row, rows = pal_json_find(vectors_load(kept, "sol_rust.json"), "compaction");
    size_t checked = 0;

    for (pal_json_iter each = pal_json_each(rows); pal_json_next(&each, NULL, &row);) {
        uint64_t tokens = 0;
        bool expected = false;

        CHECK(pal_json_u64(pal_json_find(row, "estimated_tokens"), &tokens));
        CHECK(pal_json_bool(pal_json_find(row, "reset"), &expected));
        CHECK_EQ(is_reset(tokens), expected);
        checked++;
    }
    CHECK_EQ(checked, 4);
    pal_arena_free(kept);
}

static void results_of_tools_go_into_the_conversation(void)
{
    static const service_reply replies[] = {
            {.body = "{\"conversation_id\":\"conv_1\",\"outputs\":[{\"type\":\"function.call\","
                     "\"tool_call_id\":\"t1\",\"name\":\"recall\","
                     "\"arguments\":\"{\\\"text\\\":\\\"x\\\"}\"}]}"},
            {.body = CONVERSATION("conv_1", "done")}};
    service *s = service_open(replies, 2);
    pal_id session;

    begin_kind(s, "mistral_conversations", (pal_runtime_options){0});
    session = new_session();
    CHECK_EQ(run(said(session, "first question"), NULL, NULL), PAL_TURN_DONE);
    CHECK_STR(s->paths[1], "/v1/conversations/conv_1");
    CHECK(has(s->bodies[1], "function.result"));
    CHECK(has(s->bodies[1], "\"t1\""));
    CHECK(!has(s->bodies[1], "first question"));
    end();
    service_close(s);
}

/* ---- Compaction, plans, the ledger ---- */

#define LONG                                                                                       \
    "a long sentence that is said so that there is something to make shorter, again and again, "   \
    "until nobody wants to read any more of it, and then some more of the same, for good measure"

static void fill(pal_id session)
{
    for (int i = 0; i < 6; i++) {
        pal_message messages[] = {pal_message_text(test.arena, PAL_ROLE_USER, S(LONG)),
                pal_message_text(test.arena, PAL_ROLE_ASSISTANT, S(LONG))};

        OK(pal_store_append(test.store, S(""), session, messages, 2, PAL_SEQ_ANY, &test.err));
    }
}

static pal_ledger_sum sum_of(pal_ledger_query query)
{
    pal_ledger_sum sum = {0};

    query.tenant = S("default");
    OK(pal_store_ledger_sum(test.store, &query, &sum, &test.err));
    return sum;
}

static void a_session_is_compacted_on_request(void)
{
    static const service_reply replies[] = {
            {.code = 429, .header = "retry-after-ms: 5\r\n", .body = "{\"error\":\"later\"}"},
            {.body = COUNTED("short"), .is_held = true}, {.body = ANSWER("on")}};
    service *s = service_open(replies, 3);
    pal_compaction_request compaction = {.reason = S("manual"), .prompt = S("SHORTEN THIS")};
    pal_runtime_options options = {.compaction_model = S("cheap"),
            .context.preserve_recent_tokens = 60,
            .context.strategy = PAL_STRATEGY_COMPACT};
    pal_compaction_result compacted = {0};
    pal_session made = {.agent = S("anna")};
    pal_id session = {{0}};

    begin_kind(s, "openai", options);
    OK(pal_store_create(test.store, &made, &session, &test.err));
    OK(pal_turn_compact(
            test.runtime, S(""), session, &compaction, test.arena, &compacted, &test.err));
    CHECK_EQ(compacted.number, 0);
    CHECK(has(compacted.note.data, "nothing to compact"));
    fill(session);
    service_release(s);
    OK(pal_turn_compact(
            test.runtime, S(""), session, &compaction, test.arena, &compacted, &test.err));
    CHECK_THAT(compacted.number, >, 0);
    CHECK_STR(compacted.summary, "short");
    CHECK(!compacted.is_fallback);
    CHECK_THAT(compacted.tokens_after, <, compacted.tokens_before);
    HAS(s->bodies[1], "\"cheap\"");
    HAS(s->bodies[1], "SHORTEN THIS");
    CHECK_EQ(sum_of((pal_ledger_query){.agent = S("anna")}).usage.output, 10);
    CHECK_EQ(sum_of((pal_ledger_query){.agent = S("other")}).calls, 0);
    CHECK_EQ(run(said(session, "b"), NULL, NULL), PAL_TURN_DONE);
    HAS(s->bodies[2], "\"m\"");
    HAS(s->bodies[2], "short", "\"b\"");
    end();
    service_close(s);
}

/* Another tool_choice would invalidate Anthropic's cache of the messages; the question has no cache
 * mark. */
static void anthropic_is_instructed_in_words_not_to_call_tools(void)
{
    static const service_reply replies[] = {
            {.body = "{\"type\":\"message\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t1\","
                     "\"name\":\"recall\",\"input\":{\"text\":\"x\"}}],"
                     "\"stop_reason\":\"tool_use\",\"usage\":{\"input_tokens\":9,"
                     "\"output_tokens\":3}}"},
            {.body = "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"short\"}],"
                     "\"stop_reason\":\"end_turn\",\"usage\":{\"input_tokens\":9,"
                     "\"output_tokens\":4}}"}};
    service *s = service_open(replies, 2);
    pal_compaction_request compaction = {.reason = S("manual"),
            .prompt = S("SHORTEN THIS"),
            .parameters = S("{\"temperature\":0.25}")};
    pal_compaction_result compacted = {0};
    pal_session made = {.agent = S("anna")};
    pal_id session = {{0}};
    const char *question;

    begin_kind(s, "anthropic",
            (pal_runtime_options){.context.preserve_recent_tokens = 60,
                    .compaction_system = S("You summarize.")});
    OK(pal_store_create(test.store, &made, &session, &test.err));
    fill(session);
    OK(pal_turn_compact(
            test.runtime, S(""), session, &compaction, test.arena, &compacted, &test.err));
    CHECK_THAT(compacted.number, >, 0);
    CHECK_STR(compacted.summary, "short");
    CHECK(!has(s->bodies[0], "\"tool_choice\""));
    HAS(s->bodies[0], "\"temperature\":0.25");
    HAS(s->bodies[0], "You summarize.");
    HAS(s->bodies[1], "\"tool_choice\":{\"type\":\"none\"}");
    question = strstr(s->bodies[0], "SHORTEN THIS");
    if (CHECK(question))
        CHECK_LACKS(question, "cache_control");
    CHECK_EQ(sum_of((pal_ledger_query){.agent = S("anna")}).usage.output, 7);
    end();
    service_close(s);
}

static void nothing_is_compacted_while_a_turn_runs(void)
{
    static const service_reply replies[] = {{.body = ANSWER("one"), .is_held = true}};
    service *s = service_open(replies, 1);
    pal_compaction_request compaction = {0};
    pal_compaction_result compacted;
    pal_turn_info info;
    pal_turn_request request;

    begin_kind(s, "openai", (pal_runtime_options){0});
    request = said(new_session(), "a");
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    service_wait(s, 1);
    CHECK_STATUS(pal_turn_compact(test.runtime, S(""), request.session, &compaction, test.arena,
                         &compacted, &test.err),
            PAL_BUSY, &test.err);
    CHECK_STATUS(pal_turn_compact(test.runtime, S(""), pal_id_new(), &compaction, test.arena,
                         &compacted, &test.err),
            PAL_NOT_FOUND, &test.err);
    service_release(s);
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_DONE);
    end();
    service_close(s);
}

static void a_plan_shows_the_next_request(void)
{
    pal_turn_request request;
    pal_message *messages;
    pal_plan plan;
    size_t len;
    pal_id session;

    begin(NULL);
    session = new_session();
    CHECK_EQ(run(said(session, "a"), NULL, NULL), PAL_TURN_DONE);
    request = said(session, "and then?");
    request.system = S("be brief");
    request.has_system = true;
    OK(pal_turn_plan(test.runtime, &request, test.arena, &plan, &test.err));
    CHECK_EQ(plan.action, PAL_PLAN_ACTION_SEND);
    OK(pal_plan_messages(&plan, test.arena, &messages, &len, &test.err));
    if (CHECK_EQ(len, 4)) {
        CHECK_STR(part_text(&messages[0], 0), "be brief");
        CHECK_STR(part_text(&messages[3], 0), "and then?");
    }
    CHECK_EQ(all_of(session).len, 2);
    request.session = pal_id_new();
    CHECK_STATUS(pal_turn_plan(test.runtime, &request, test.arena, &plan, &test.err), PAL_NOT_FOUND,
            &test.err);
    end();
}

static void the_ledger_knows_turn_and_agent(void)
{
    static const service_reply replies[] = {{.body = COUNTED("1")}, {.body = COUNTED("2")}};
    service *s = service_open(replies, 2);
    pal_price price = {.pattern = S("m*"), .input = 4000, .output = 10000};
    char turn[PAL_ID_TEXT_SIZE];
    pal_turn_info info;
    pal_id session;

    begin_kind(s, "openai", (pal_runtime_options){.prices = &price, .prices_len = 1});
    session = session_of("anna", "");
    CHECK_EQ(run(said(session, "a"), NULL, NULL), PAL_TURN_DONE);
    CHECK_EQ(run(said(session, "b"), &info, NULL), PAL_TURN_DONE);
    pal_id_to_text(info.turn, turn);
    CHECK_EQ(sum_of((pal_ledger_query){.agent = S("anna")}).calls, 2);
    CHECK_EQ(sum_of((pal_ledger_query){.turn_id = S(turn)}).calls, 1);
    /* 0.4 and 0.1, rounded once */
    CHECK_EQ(sum_of((pal_ledger_query){.turn_id = S(turn)}).cost_micros, 1);
    end();
    service_close(s);
}

static void a_tenants_money_is_a_budget_too(void)
{
    static const service_reply replies[] = {{.body = COUNTED("1")}, {.body = COUNTED("2")}};
    service *s = service_open(replies, 2);
    pal_price price = {.pattern = S("m"), .input = 1000000, .output = 1000000};
    pal_turn_request request;
    pal_turn_info info;

    begin_kind(s, "openai", (pal_runtime_options){.prices = &price, .prices_len = 1});
    CHECK_EQ(run(said(new_session(), "a"), NULL, NULL), PAL_TURN_DONE);
    request = said(new_session(), "b");
    request.budget.tenant_cost_micros = 110;
    if (CHECK_EQ(run(request, &info, NULL), PAL_TURN_FAILED))
        CHECK_STATUS(info.status, PAL_BUDGET);
    CHECK(has(info.reason, "budget of the tenant is used up: 0.0001 of 0.0001"));
    request.budget.tenant_cost_micros = 111;
    CHECK_EQ(run(request, NULL, NULL), PAL_TURN_DONE);
    end();
    service_close(s);
}

/* ---- What fails ---- */

static void a_model_that_calls_tools_without_end_is_ended(void)
{
    static const char call[] = "{\"choices\":[{\"message\":{\"tool_calls\":[{\"id\":\"c\","
                               "\"function\":{\"name\":\"recall\",\"arguments\":\"{}\"}}]}}]}";
    static const service_reply replies[] = {
            {.body = call}, {.body = call}, {.body = ANSWER("next")}};
    service *s = service_open(replies, 3);
    pal_message_page list;
    pal_str text;
    pal_id session;

    begin_kind(s, "openai", (pal_runtime_options){.max_tool_iterations = 1});
    session = new_session();
    CHECK_EQ(run(said(session, "a"), NULL, NULL), PAL_TURN_DONE);
    list = all_of(session);
    if (CHECK_EQ(list.len, 5)) {
        CHECK_EQ(list.items[4].role, PAL_ROLE_TOOL);
        CHECK(has(part_text(&list.items[4], 0).data, "No more tools"));
    }
    if (CHECK_EQ(run(said(session, "b"), NULL, &text), PAL_TURN_DONE))
        CHECK_STR(text, "next");
    end();
    service_close(s);
}

static void a_canceled_turn_of_all_or_nothing_leaves_nothing(void)
{
    static const service_reply replies[] = {{.body = ANSWER("one"), .is_held = true}};
    service *s = service_open(replies, 1);
    pal_turn_info info;
    pal_turn_request request;

    begin_kind(s, "openai", (pal_runtime_options){0});
    request = said(new_session(), "a");
    request.all_or_nothing = true;
    OK(pal_turn_start(test.runtime, &request, &info, &test.err));
    service_wait(s, 1);
    OK(pal_turn_cancel(test.runtime, S(""), info.turn, &test.err));
    CHECK_EQ(wait_for(info.turn, NULL, NULL), PAL_TURN_CANCELED);
    CHECK_EQ(all_of(request.session).len, 0);
    end();
    service_close(s);
}

static void a_turn_that_takes_too_long_has_failed(void)
{
    static const service_reply replies[] = {{.body = ANSWER("one"), .is_held = true}};
    service *s = service_open(replies, 1);
    pal_turn_info info;

    begin_kind(s, "openai", (pal_runtime_options){.turn_ms = 50});
    CHECK_EQ(run(said(new_session(), "a"), &info, NULL), PAL_TURN_FAILED);
    CHECK_STATUS(info.status, PAL_TIMEOUT);
    CHECK(has(info.reason, "exceeded its time limit"));
    end();
    service_close(s);
}

static bool keep_label(const pal_event *event, void *user)
{
    if (event->kind == PAL_EVENT_STARTED && event->text.len < 32)
        memcpy(user, event->text.data, event->text.len);
    return true;
}

static void a_label_is_reported(void)
{
    char label[32] = "";
    pal_turn_request request;
    pal_turn_info info;

    begin(NULL);
    request = said(new_session(), "a");
    request.label = S("nightly");
    CHECK_EQ(run(request, &info, NULL), PAL_TURN_DONE);
    OK(pal_turn_watch(test.runtime, S(""), info.turn, 0, keep_label, NULL, label, &test.err));
    CHECK_STR(label, "nightly");
    end();
}

int main(void)
{
    RUN(request_goes_over_session_over_agent_over_runtime);
    RUN(an_agent_with_a_wrong_endpoint_is_refused);
    RUN(a_session_with_a_wrong_endpoint_fails_and_keeps_the_message);
    RUN(a_service_without_a_named_model_is_queried_for_one);
    RUN(a_service_that_lists_no_models_fails_the_turn);
    RUN(one_need_not_wait_for_the_name_of_a_model);
    RUN(models_and_tools_are_listed);
    RUN(a_service_that_hangs_is_left_out_of_the_list);
    RUN(endpoints_are_found_by_their_keys);
    RUN(a_server_on_this_machine_is_found);
    RUN(without_any_model_echo_answers_and_it_is_said_so);
    RUN(blocks_of_reasoning_keep_their_place);
    RUN(a_kept_conversation_receives_only_new_messages);
    RUN(a_lost_conversation_is_restarted_with_its_complete_history);
    RUN(a_conversation_is_not_continued_after_a_failure);
    RUN(a_conversation_that_is_full_makes_room);
    RUN(a_full_conversation_leaves_out_the_oldest);
    RUN(a_conversation_is_reset_as_the_vectors_say);
    RUN(results_of_tools_go_into_the_conversation);
    RUN(a_session_is_compacted_on_request);
    RUN(anthropic_is_instructed_in_words_not_to_call_tools);
    RUN(nothing_is_compacted_while_a_turn_runs);
    RUN(a_plan_shows_the_next_request);
    RUN(the_ledger_knows_turn_and_agent);
    RUN(a_tenants_money_is_a_budget_too);
    RUN(a_model_that_calls_tools_without_end_is_ended);
    RUN(a_canceled_turn_of_all_or_nothing_leaves_nothing);
    RUN(a_turn_that_takes_too_long_has_failed);
    RUN(a_label_is_reported);
    pal_arena_free(test.arena);
    return tap_done();
}
