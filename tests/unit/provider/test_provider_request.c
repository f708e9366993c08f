/* test_provider_request.c - the requests to each kind of service. */
#include "base/json/json.h"
#include "provider/provider_kind.h"
#include "support/tap.h"

static pal_arena *arena;
static pal_buf path, body;
static pal_error error;

static pal_part part_text(const char *text)
{
    return (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_of(text)};
}

/* A conversation with everything in it. */
static pal_part system_parts[1], user_parts[2], answer_parts[3], result_parts[1], last_parts[1];
static pal_message messages[5];

static void make_messages(void)
{
    system_parts[0] = part_text("Be brief.");
    user_parts[0] = part_text("What is this?");
    user_parts[1] = (pal_part){.kind = PAL_PART_IMAGE,
            .media_type = pal_str_of("image/png"),
            .data = pal_str_of("PNG")};
    answer_parts[0] = (pal_part){.kind = PAL_PART_REASONING,
            .text = pal_str_of("hm"),
            .signature = pal_str_of("Sig+/="),
            .family = pal_str_of("anthropic")};
    answer_parts[1] = part_text("I look.");
    answer_parts[2] = (pal_part){.kind = PAL_PART_TOOL_CALL,
            .call_id = pal_str_of("c1"),
            .name = pal_str_of("look"),
            .arguments = pal_str_of("{\"at\": 1}")};
    result_parts[0] = (pal_part){.kind = PAL_PART_TOOL_RESULT,
            .call_id = pal_str_of("c1"),
            .name = pal_str_of("look"),
            .text = pal_str_of("a cat"),
            .is_error = true};
    last_parts[0] = part_text("And?");
    messages[0] = (pal_message){.role = PAL_ROLE_SYSTEM, .parts = system_parts, .parts_len = 1};
    messages[1] = (pal_message){.role = PAL_ROLE_USER, .parts = user_parts, .parts_len = 2};
    messages[2] = (pal_message){.role = PAL_ROLE_ASSISTANT, .parts = answer_parts, .parts_len = 3};
    messages[3] = (pal_message){.role = PAL_ROLE_TOOL, .parts = result_parts, .parts_len = 1};
    messages[4] = (pal_message){.role = PAL_ROLE_USER, .parts = last_parts, .parts_len = 1};
}

static const pal_tool tools[] = {
        {.name = {"look", 4},
                .description = {"Looks.", 6},
                .schema = {"{\"type\":\"object\"}", 17}},
        {.name = {"wait", 4}},
};

static pal_model_request plain_request(void)
{
    return (pal_model_request){
            .model = pal_str_of("m"), .messages = messages + 4, .messages_len = 1};
}

static pal_model_request full_request(void)
{
    return (pal_model_request){.model = pal_str_of("m"),
            .messages = messages,
            .messages_len = 5,
            .stable_len = 3,
            .tools = tools,
            .tools_len = 2,
            .stream = true};
}

static pal_status write_to(
        const pal_provider_kind *kind, const char *url, const pal_model_request *request)
{
    const pal_provider_config config = {0};
    pal_provider provider = {.kind = kind, .url = pal_str_of(url ? url : kind->info.url)};
    CHECK_STATUS(pal_affinity_open(&provider, &config, &error), PAL_OK);
    pal_buf_clear(&path);
    pal_buf_clear(&body);
    memset(&error, 0, sizeof error);
    return kind->write(&provider, request, &path, &body, &error);
}

static bool sends(const pal_provider_kind *kind, const pal_model_request *request,
        const char *expected_path, const char *expected)
{
    pal_json ours, theirs;
    if (!CHECK_STATUS(write_to(kind, NULL, request), PAL_OK) || !CHECK(!body.failure))
        return false;
    if (!pal_str_is(pal_buf_str(&path), expected_path))
        printf("# path %.*s\n", PAL_STR_ARG(pal_buf_str(&path)));
    bool same = pal_json_parse(arena, pal_buf_str(&body), NULL, &ours, &error) == PAL_OK &&
            pal_json_parse(arena, pal_str_of(expected), NULL, &theirs, &error) == PAL_OK &&
            pal_json_equal(ours, theirs) && pal_str_is(pal_buf_str(&path), expected_path);
    if (!same)
        printf("# %s\n# expected %s\n# found    %.*s\n", error.message, expected,
                PAL_STR_ARG(pal_buf_str(&body)));
    return same;
}

static bool body_has(const char *text)
{
    bool found = memmem(body.data, body.len, text, strlen(text)) != NULL;
    if (!found)
        printf("# no %s in %.*s\n", text, PAL_STR_ARG(pal_buf_str(&body)));
    return found;
}

#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"description\":\"Looks."   \
    "\","                                                                                          \
    "\"parameters\":{\"type\":\"object\"}}},{\"type\":\"function\",\"function\":{\"name\":"        \
    "\"wait\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]"

static void a_chat_completion_has_all_members(void)
{
    pal_model_request request = full_request();
    request.tool_choice = pal_str_of("\"required\"");
    request.parameters = pal_str_of("{\"temperature\":0.5,\"model\":\"other\",\"stream\":false}");
    CHECK(sends(&pal_provider_openai, &request, "/chat/completions",
            "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"What is this?\"},"
            "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,UE5H\"}}]},"
            "{\"role\":\"assistant\",\"content\":\"I look.\",\"reasoning_content\":\"hm\","
            "\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"look\","
            "\"arguments\":\"{\\\"at\\\": 1}\"}}]},"
            "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"name\":\"look\",\"content\":\"a cat\"},"
            "{\"role\":\"user\",\"content\":\"And?\"}]," TOOLS ",\"tool_choice\":\"required\","
            "\"stream\":true,\"stream_options\":{\"include_usage\":true},\"temperature\":0.5}"));
}

static void unset_members_are_not_sent(void)
{
    pal_model_request request = plain_request();
    CHECK(sends(&pal_provider_openai, &request, "/chat/completions",
            "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"And?\"}]}"));
    /* Services refuse a tool choice without tools. */
    request.tool_choice = pal_str_of("\"auto\"");
    CHECK(sends(&pal_provider_openai, &request, "/chat/completions",
            "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"And?\"}]}"));
    request.stream = true;
    request.output_max = 9;
    CHECK(sends(&pal_provider_mistral, &request, "/chat/completions",
            "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"And?\"}],"
            "\"stream\":true,\"max_tokens\":9}"));
}

static bool max_is_new(const char *model)
{
    pal_model_request request = plain_request();
    request.model = pal_str_of(model);
    request.output_max = 9;
    CHECK_STATUS(write_to(&pal_provider_openai, NULL, &request), PAL_OK);
    return memmem(body.data, body.len, "\"max_completion_tokens\":9", 25) != NULL;
}

static void the_limit_has_two_names(void)
{
    CHECK(max_is_new("o1"));
    CHECK(max_is_new("o3-mini"));
    CHECK(max_is_new("gpt-5"));
    CHECK(max_is_new("gpt-5.1-codex"));
    CHECK(max_is_new("openai/o4-mini"));
    CHECK(max_is_new("gpt-10"));
    CHECK(!max_is_new("gpt-4o"));
    CHECK(!max_is_new("gpt-4.1"));
    CHECK(!max_is_new("llama3"));
    CHECK(!max_is_new("olmo"));
    CHECK(!max_is_new("gpt-oss-20b"));
    CHECK(!max_is_new("gpt-3.5-turbo"));
    pal_model_request request = plain_request();
    request.parameters = pal_str_of("{\"max_tokens\":5}");
    CHECK_STATUS(write_to(&pal_provider_openai, NULL, &request), PAL_OK);
    CHECK(body_has("\"max_tokens\":5"));
    request.output_max = 9;
    CHECK_STATUS(write_to(&pal_provider_openai, NULL, &request), PAL_OK);
    CHECK(body_has("\"max_tokens\":9"));
    CHECK_LACKS(pal_buf_str(&body), "\"max_tokens\":5");
}

static void the_cache_key_is_sent_to_services_that_know_it(void)
{
    pal_model_request request = plain_request();
    request.conversation = pal_str_of("s-1");
    CHECK_STATUS(write_to(&pal_provider_openai, NULL, &request), PAL_OK);
    CHECK(body_has("\"prompt_cache_key\":\"s-1\""));
    CHECK_STATUS(write_to(&pal_provider_openai, "http://127.0.0.1:8080/v1", &request), PAL_OK);
    CHECK_LACKS(pal_buf_str(&body), "s-1");
    CHECK_LACKS(pal_buf_str(&body), "id_slot");
    request.slot = 3;
    CHECK_STATUS(write_to(&pal_provider_openai, "http://127.0.0.1:8080/v1", &request), PAL_OK);
    CHECK(body_has("\"id_slot\":2,\"cache_prompt\":true"));
}

#define MARK "\"cache_control\":{\"type\":\"ephemeral\"}"

static void an_anthropic_request_has_all_members_and_cache_marks(void)
{
    pal_model_request request = full_request();
    request.tool_choice = pal_str_of("{\"type\":\"function\",\"function\":{\"name\":\"look\"}}");
    request.parameters =
            pal_str_of("{\"top_k\":5,\"stop\":\"X\",\"parallel_tool_calls\":false,\"seed\":1,"
                       "\"user\":\"u\",\"system\":\"no\"}");
    request.output_max = 100;
    CHECK(sends(&pal_provider_anthropic, &request, "/messages",
            "{\"model\":\"m\",\"max_tokens\":100,\"stream\":true,\"top_k\":5,"
            "\"stop_sequences\":[\"X\"],\"metadata\":{\"user_id\":\"u\"},"
            "\"system\":[{\"type\":\"text\",\"text\":\"Be brief.\"," MARK "}],"
            "\"tools\":[{\"name\":\"look\",\"description\":\"Looks.\",\"input_schema\":"
            "{\"type\":\"object\"}},{\"name\":\"wait\",\"input_schema\":{\"type\":\"object\","
            "\"properties\":{}}," MARK "}],"
            "\"tool_choice\":{\"type\":\"tool\",\"name\":\"look\",\"disable_parallel_tool_use\":"
            "true},\"messages\":["
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"What is this?\"},"
            "{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\","
            "\"data\":\"UE5H\"}}]},"
            "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\","
            "\"signature\":\"Sig+/=\"},{\"type\":\"text\",\"text\":\"I look.\"},"
            "{\"type\":\"tool_use\",\"id\":\"c1\",\"name\":\"look\",\"input\":{\"at\": 1}," MARK
            "}]},"
            "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"c1\","
            "\"content\":\"a cat\",\"is_error\":true},"
            "{\"type\":\"text\",\"text\":\"And?\"}]}]}"));
    /* If the next request begins with all of it, its end is marked, too. */
    request.stable_len = request.messages_len;
    CHECK_STATUS(write_to(&pal_provider_anthropic, NULL, &request), PAL_OK);
    CHECK(body_has("{\"type\":\"text\",\"text\":\"And?\"," MARK "}]}]"));
}

static void cache_marks_are_never_set_on_thinking(void)
{
    pal_model_request request = full_request();
    pal_part only[] = {part_text("so"), answer_parts[0]};
    messages[2].parts = only;
    messages[2].parts_len = 2;
    CHECK_STATUS(write_to(&pal_provider_anthropic, NULL, &request), PAL_OK);
    CHECK(body_has("{\"type\":\"text\",\"text\":\"so\"," MARK "},{\"type\":\"thinking\","));
    make_messages();
}

static bool max_is(const char *model, const char *parameters, const char *expected)
{
    pal_model_request request = plain_request();
    request.model = pal_str_of(model);
    request.parameters = pal_str_of(parameters);
    CHECK_STATUS(write_to(&pal_provider_anthropic, NULL, &request), PAL_OK);
    return body_has(expected);
}

static void anthropic_requests_always_have_an_output_limit(void)
{
    CHECK(max_is("claude-sonnet-4-5", NULL, "\"max_tokens\":32000,"));
    CHECK(max_is("claude-3-5-haiku-latest", NULL, "\"max_tokens\":8192,"));
    CHECK(max_is("claude-3-opus-20240229", NULL, "\"max_tokens\":4096,"));
    CHECK(max_is("m", "{\"max_tokens\":7}", "\"max_tokens\":7,"));
    CHECK(max_is("m", "{\"max_completion_tokens\":8}", "\"max_tokens\":8,"));
    CHECK(max_is("m", "{\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":40000}}",
            "\"max_tokens\":72000,"));
}

static bool choice_is(const char *choice, const char *expected)
{
    pal_model_request request = full_request();
    request.tool_choice = pal_str_of(choice);
    CHECK_STATUS(write_to(&pal_provider_anthropic, NULL, &request), PAL_OK);
    return body_has(expected);
}

static void tool_choices_are_translated(void)
{
    CHECK(choice_is("\"auto\"", "\"tool_choice\":{\"type\":\"auto\"}"));
    CHECK(choice_is("\"none\"", "\"tool_choice\":{\"type\":\"none\"}"));
    CHECK(choice_is("\"required\"", "\"tool_choice\":{\"type\":\"any\"}"));
    CHECK(choice_is("{\"type\":\"function\",\"name\":\"f\"}",
            "\"tool_choice\":{\"type\":\"tool\",\"name\":\"f\"}"));
}

static void a_new_conversation_gets_all_messages(void)
{
    pal_model_request request = full_request();
    request.output_max = 50;
    request.tool_choice = pal_str_of("\"any\"");
    request.parameters = pal_str_of("{\"temperature\":0,\"seed\":7,\"metadata\":{\"a\":\"b\"}}");
    CHECK(sends(&pal_provider_mistral_conversations, &request, "/conversations",
            "{\"model\":\"m\",\"instructions\":\"Be brief.\"," TOOLS ",\"metadata\":{\"a\":\"b\"},"
            "\"inputs\":[{\"object\":\"entry\",\"type\":\"message.input\",\"role\":\"user\","
            "\"content\":[{\"type\":\"text\",\"text\":\"What is this?\"},{\"type\":\"image_url\","
            "\"image_url\":\"data:image/png;base64,UE5H\"}]},"
            "{\"object\":\"entry\",\"type\":\"message.output\",\"role\":\"assistant\",\"content\":"
            "\"I look.\"},{\"object\":\"entry\",\"type\":\"function.call\",\"tool_call_id\":\"c1\","
            "\"name\":\"look\",\"arguments\":\"{\\\"at\\\": 1}\"},"
            "{\"object\":\"entry\",\"type\":\"function.result\",\"tool_call_id\":\"c1\",\"result\":"
            "\"a cat\"},{\"object\":\"entry\",\"type\":\"message.input\",\"role\":\"user\","
            "\"content\":\"And?\"}],\"stream\":true,\"store\":true,\"handoff_execution\":"
            "\"server\","
            "\"completion_args\":{\"max_tokens\":50,\"random_seed\":7,\"tool_choice\":\"any\","
            "\"temperature\":0}}"));
}

static void a_known_conversation_gets_only_new_messages(void)
{
    pal_model_request request = full_request();
    request.conversation = pal_str_of("conv_1/../x");
    CHECK(sends(&pal_provider_mistral_conversations, &request, "/conversations/conv_1%2F%2E%2E%2Fx",
            "{\"inputs\":[{\"object\":\"entry\",\"type\":\"function.result\",\"tool_call_id\":"
            "\"c1\",\"result\":\"a "
            "cat\"},{\"object\":\"entry\",\"type\":\"message.input\",\"role\":"
            "\"user\",\"content\":\"And?\"}],\"stream\":true,\"store\":true,\"handoff_execution\":"
            "\"server\",\"completion_args\":{}}"));
    request.messages_len = 3;
    CHECK_STATUS(write_to(&pal_provider_mistral_conversations, NULL, &request), PAL_INVALID);
}

static void an_agent_gets_no_instructions(void)
{
    pal_model_request request = full_request();
    request.model = pal_str_of("ag_123");
    request.messages_len = 2;
    CHECK_STATUS(write_to(&pal_provider_mistral_conversations, NULL, &request), PAL_OK);
    CHECK(body_has("\"agent_id\":\"ag_123\""));
    CHECK_LACKS(pal_buf_str(&body), "\"model\"");
    CHECK_LACKS(pal_buf_str(&body), "Be brief");
    CHECK_LACKS(pal_buf_str(&body), "\"tools\"");
}

static void invalid_json_is_refused(void)
{
    static const pal_provider_kind *const kinds[] = {&pal_provider_openai, &pal_provider_mistral,
            &pal_provider_anthropic, &pal_provider_mistral_conversations};
    const pal_tool bad[] = {{.name = {"f", 1}, .schema = {"{", 1}}};
    for (size_t i = 0; i < 4; i++) {
        pal_model_request request = full_request();
        request.parameters = pal_str_of("[1]");
        CHECK_STATUS(write_to(kinds[i], NULL, &request), PAL_INVALID);
        CHECK_CONTAINS(error.message, "parameters");
        request = full_request();
        request.tool_choice = pal_str_of("auto");
        CHECK_STATUS(write_to(kinds[i], NULL, &request), PAL_INVALID);
        CHECK_CONTAINS(error.message, "choice");
        request = full_request();
        request.tools = bad;
        request.tools_len = 1;
        CHECK_STATUS(write_to(kinds[i], NULL, &request), PAL_INVALID);
        CHECK_CONTAINS(error.message, "tools[0]");
    }
}

int main(void)
{
    arena = pal_arena_new(0);
    pal_buf_init(&path, 4096);
    pal_buf_init(&body, 1 << 20);
    make_messages();
    RUN(a_chat_completion_has_all_members);
    RUN(unset_members_are_not_sent);
    RUN(the_limit_has_two_names);
    RUN(the_cache_key_is_sent_to_services_that_know_it);
    RUN(an_anthropic_request_has_all_members_and_cache_marks);
    RUN(cache_marks_are_never_set_on_thinking);
    RUN(anthropic_requests_always_have_an_output_limit);
    RUN(tool_choices_are_translated);
    RUN(a_new_conversation_gets_all_messages);
    RUN(a_known_conversation_gets_only_new_messages);
    RUN(an_agent_gets_no_instructions);
    RUN(invalid_json_is_refused);
    pal_buf_done(&path);
    pal_buf_done(&body);
    pal_arena_free(arena);
    return tap_done();
}
