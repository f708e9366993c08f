/* test_provider_play.c - the providers that need no network, how providers are opened, and how one
 * is discovered. */
#include <stdlib.h>
#include <unistd.h>
#include "base/memory.h"
#include "provider/provider_discover.h"
#include "provider/provider_kind.h"
#include "support/answer_log.h"
#include "support/on_loop.h"
#include "support/tap.h"

static pal_loop *loop;
static pal_http *http;
static pal_provider *provider;
static pal_error error;
static bell told_bell = BELL_INIT;

/* Runs a function on the loop, and waits until the bell rings. */
static void run_and_wait(void (*run)(void *user), void *user)
{
    on_loop(loop, run, user);
    CHECK(bell_wait(&told_bell, 1));
}

/* ---- Opening ---- */

static pal_provider_config config;
static pal_status opened;

static void open_on_loop(void *user)
{
    (void)user;
    opened = pal_provider_open(http, loop, &config, &provider, &error);
    bell_ring(&told_bell);
}

static void close_on_loop(void *user)
{
    (void)user;
    pal_provider_close(provider);
    provider = NULL;
    bell_ring(&told_bell);
}

static pal_status opens(pal_provider_config wanted)
{
    config = wanted;
    memset(&error, 0, sizeof error);
    run_and_wait(open_on_loop, NULL);
    return opened;
}

static void closes(void)
{
    run_and_wait(close_on_loop, NULL);
}

static pal_str header(const char *name)
{
    for (size_t i = 0; i < provider->headers_len; i++) {
        if (pal_str_is(provider->headers[i].name, name))
            return provider->headers[i].value;
    }
    return pal_str_make(NULL, 0);
}

static void configurations_are_checked(void)
{
    CHECK_STATUS(opens((pal_provider_config){.kind = pal_str_of("gpt")}), PAL_INVALID);
    CHECK_CONTAINS(error.message, "'gpt'");
    CHECK_CONTAINS(error.message, "mistral_conversations");
    CHECK_STATUS(opens((pal_provider_config){.name = pal_str_of("p"),
                         .kind = pal_str_of("openai"),
                         .url = pal_str_of("ftp://x")}),
            PAL_INVALID);
    CHECK_CONTAINS(error.message, "'p'");
    CHECK_STATUS(opens((pal_provider_config){
                         .kind = pal_str_of("openai"), .api_key = pal_str_of("secret\nkey")}),
            PAL_INVALID);
    CHECK_LACKS(error.message, "secret");
    const pal_header bad = {pal_str_of("a:b"), pal_str_of("c")};
    CHECK_STATUS(opens((pal_provider_config){
                         .kind = pal_str_of("openai"), .headers = &bad, .headers_len = 1}),
            PAL_INVALID);
    CHECK_STATUS(opens((pal_provider_config){.kind = pal_str_of("script")}), PAL_INVALID);
    CHECK_STATUS(opens((pal_provider_config){
                         .kind = pal_str_of("script"), .path = pal_str_of("/nowhere/script")}),
            PAL_IO);
}

static bool url_becomes(const char *kind, const char *url, const char *expected)
{
    CHECK_STATUS(
            opens((pal_provider_config){.kind = pal_str_of(kind), .url = pal_str_of(url)}), PAL_OK);
    bool same = pal_str_is(provider->url, expected);
    closes();
    return same;
}

static void urls_are_completed(void)
{
    CHECK(url_becomes("openai", "", "https://api.openai.com/v1"));
    CHECK(url_becomes("anthropic", "", "https://api.anthropic.com/v1"));
    CHECK(url_becomes("mistral_conversations", "", "https://api.mistral.ai/v1"));
    CHECK(url_becomes("anthropic", "https://proxy", "https://proxy/v1"));
    CHECK(url_becomes("openai", "http://127.0.0.1:11434/", "http://127.0.0.1:11434/v1"));
    CHECK(url_becomes("openai", " https://x/openai/v1/ ", "https://x/openai/v1"));
}

static void keys_are_sent_in_the_right_header(void)
{
    CHECK_STATUS(opens((pal_provider_config){.kind = pal_str_of("anthropic"),
                         .api_key = pal_str_of(" sk-ant-123456\n")}),
            PAL_OK);
    CHECK_STR(header("x-api-key"), "sk-ant-123456");
    CHECK_STR(header("anthropic-version"), "2023-06-01");
    CHECK_EQ(header("authorization").len, 0);
    CHECK_STR(pal_provider_family(provider, pal_str_of("m")), "anthropic");
    CHECK_EQ(pal_provider_profile(provider), PAL_PROFILE_ANTHROPIC);
    closes();
    const pal_header own = {pal_str_of("Authorization"), pal_str_of("Basic abcdefghij")};
    CHECK_STATUS(opens((pal_provider_config){.kind = pal_str_of("openai"),
                         .api_key = pal_str_of("sk-123456"),
                         .headers = &own,
                         .headers_len = 1}),
            PAL_OK);
    CHECK_STR(header("Authorization"), "Basic abcdefghij");
    CHECK_EQ(header("authorization").len, 0);
    CHECK_EQ(provider->secrets_len, 3);
    CHECK_EQ(pal_provider_family(provider, pal_str_of("m")).len, 0);
    closes();
}

static void secrets_are_not_shown(void)
{
    pal_buf text;
    pal_buf_init(&text, 1000);
    pal_buf_append_text(&text, "bad key sk-12345678, sk-12345678!");
    pal_provider_redact_secret(&text, pal_str_of("sk-12345678"));
    CHECK_STR(pal_buf_str(&text), "bad key ***, ***!");
    pal_provider_redact_secret(&text, pal_str_of(""));
    CHECK_STR(pal_buf_str(&text), "bad key ***, ***!");
    pal_buf_done(&text);
    pal_buf_init(&text, 4u << 20);
    for (int i = 0; i < 200000; i++)
        pal_buf_append_text(&text, "sk-12345678,");
    pal_provider_redact_secret(&text, pal_str_of("sk-12345678"));
    if (CHECK_EQ(text.len, 200000 * 4))
        CHECK_BYTES(text.data + text.len - 8, "***,***,", 8);
    pal_buf_done(&text);
}

/* ---- Calls ---- */

static answer_log told;
static pal_model_request request;
static pal_model_call *call;
static pal_status started;
static int cancel_at; /* number of a piece of text; 0: none */
static int pieces;

static void on_text(void *user, pal_str delta)
{
    log_text(user, delta);
    if (++pieces == cancel_at) {
        pal_provider_cancel(call);
        bell_ring(&told_bell);
    }
}

static void on_end(void *user, const pal_model_end *end)
{
    log_end(user, end);
    bell_ring(&told_bell);
}

static void start_on_loop(void *user)
{
    (void)user;
    pal_model_sink sink = log_sink;
    sink.text = on_text;
    sink.end = on_end;
    started = pal_provider_start(provider, &request, &sink, &told, &call, &error);
    CHECK(!told.ended);
    if (started != PAL_OK)
        bell_ring(&told_bell);
}

static void asks(void)
{
    log_done(&told);
    log_init(&told);
    pieces = 0;
    run_and_wait(start_on_loop, NULL);
}

static bool tells(const char *expected)
{
    asks();
    bool same = pal_str_is(pal_buf_str(&told.text), expected);
    if (!same)
        printf("# expected %s\n# found    %.*s %s\n", expected,
                PAL_STR_ARG(pal_buf_str(&told.text)), error.message);
    return same;
}

static pal_message said(pal_part *part, pal_role role, const char *text)
{
    *part = (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_of(text)};
    return (pal_message){.role = role, .parts = part, .parts_len = 1};
}

static void echo_repeats_the_message(void)
{
    pal_part parts[3];
    pal_message messages[3] = {said(&parts[0], PAL_ROLE_SYSTEM, "Be brief."),
            said(&parts[1], PAL_ROLE_USER, "first"), said(&parts[2], PAL_ROLE_USER, "hi there")};
    CHECK_STATUS(opens((pal_provider_config){.kind = pal_str_of("echo")}), PAL_OK);
    request = (pal_model_request){.messages = messages, .messages_len = 3};
    asks();
    CHECK_STATUS(told.end.status, PAL_OK);
    CHECK_EQ(told.end.finish, PAL_FINISH_STOP);
    CHECK(told.end.has_usage);
    CHECK_THAT(told.end.usage.input, >, 0);
    CHECK_EQ(told.end.usage.output, 4);
    pal_str text = pal_buf_str(&told.text);
    CHECK_CONTAINS(text, "text(echo: hi there) end(ok stop ");
    CHECK_CONTAINS(text, "model=echo");
    /* The same again, and in more pieces if it is long. */
    char before[512];
    size_t len = text.len;
    memcpy(before, text.data, len);
    asks();
    CHECK_STR(pal_buf_str(&told.text), pal_str_make(before, len));
    CHECK_EQ(pieces, 1);
    messages[2] = said(&parts[2], PAL_ROLE_USER,
            "\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2"
            "\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2\xe6\xbc\xa2");
    asks();
    CHECK_THAT(pieces, >, 2);
    CHECK_THAT(pieces, <=, 8);
    request.output_max = 2;
    asks();
    CHECK_EQ(told.end.finish, PAL_FINISH_LENGTH);
    CHECK_THAT(told.end.usage.output, <=, 2);
    closes();
}

static void requests_are_checked(void)
{
    pal_part part;
    pal_message message = said(&part, PAL_ROLE_USER, "hi");
    const pal_tool nameless = {0};
    CHECK_STATUS(opens((pal_provider_config){.kind = pal_str_of("openai")}), PAL_OK);
    request = (pal_model_request){.messages = &message, .messages_len = 1};
    asks();
    CHECK_STATUS(started, PAL_INVALID);
    CHECK_CONTAINS(error.message, "model");
    request.model = pal_str_of("m");
    request.messages_len = 0;
    asks();
    CHECK_STATUS(started, PAL_INVALID);
    CHECK_CONTAINS(error.message, "messages");
    request.messages_len = 1;
    request.tools = &nameless;
    request.tools_len = 1;
    asks();
    CHECK_STATUS(started, PAL_INVALID);
    CHECK_CONTAINS(error.message, "tools[0]");
    closes();
}

static char script_path[] = "/tmp/palaver-script-XXXXXX";

static pal_status opens_script(const char *text)
{
    FILE *file = fopen(script_path, "wb");
    if (CHECK(file))
        CHECK_THAT(fputs(text, file), >=, 0);
    fclose(file);
    return opens(
            (pal_provider_config){.kind = pal_str_of("script"), .path = pal_str_of(script_path)});
}

static void scripts_are_replayed(void)
{
    pal_part part;
    pal_message message = said(&part, PAL_ROLE_USER, "hi");
    request = (pal_model_request){.messages = &message, .messages_len = 1};
    CHECK_STATUS(
            opens_script(
                    "{\"reasoning\":\"hm\"}\n{\"signature\":\"S\",\"family\":\"anthropic\"}\n\n"
                    "{\"text\":\"a\"}\n{\"delay_ms\":2}\n{\"text\":\"b\"}\n"
                    "{\"call\":{\"id\":\"c1\",\"name\":\"f\",\"arguments\":{\"x\":1}}}\n"
                    "{\"call\":{\"name\":\"g\",\"arguments\":\"{}\"}}\n"
                    "{\"usage\":{\"input\":3,\"cache_read\":1,\"output\":2}}\n{\"next\":true}\n"
                    "{\"text\":\"c\"}\r\n{\"finish\":\"length\"}\n{\"next\":true}\n"
                    "{\"text\":\"d\"}\n{\"error\":{\"message\":\"busy\",\"code\":529,"
                    "\"error_code\":\"overloaded_error\",\"retry_after_ms\":7}}\n{\"next\":true}\n"
                    "{\"error\":{\"message\":\"slow\",\"status\":\"timeout\"}}"),
            PAL_OK);
    CHECK(tells("think(hm) sign(S,anthropic) text(ab) call0(c1,f) args0({\"x\":1}) call1(*,g) "
                "args1({}) end(ok tool_calls 3+1+0>2/0 model=script)"));
    CHECK(tells("text(c) end(ok length model=script)"));
    CHECK(tells("text(d) end(provider model=script HTTP=529 code=overloaded_error retryable "
                "after=7: busy)"));
    CHECK(tells("end(timeout model=script retryable: slow)"));
    CHECK(tells("end(provider model=script: no more recorded responses)"));
    closes();
    CHECK_STATUS(opens_script("{\"text\":\"a\"}\n{\"tex\":1}\n"), PAL_INVALID);
    CHECK_CONTAINS(error.message, "line 2");
    CHECK_STATUS(opens_script("{\"text\":\"a\"\n"), PAL_INVALID);
    CHECK_CONTAINS(error.message, "line 1");
}

static void a_callback_can_cancel_its_call(void)
{
    CHECK_STATUS(opens_script("{\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"text\":\"c\"}\n"), PAL_OK);
    cancel_at = 2;
    asks();
    cancel_at = 0;
    closes(); /* asserts that no call is left */
    CHECK_STR(pal_buf_str(&told.text), "text(ab");
    CHECK(!told.ended);
}

static void a_call_has_a_time_limit(void)
{
    CHECK_STATUS(
            opens_script("{\"text\":\"a\"}\n{\"delay_ms\":60000}\n{\"text\":\"b\"}\n"), PAL_OK);
    request.timeout_ms = 30;
    CHECK(tells("text(a) end(timeout model=script retryable: the model exceeded the time limit)"));
    request.timeout_ms = 0;
    closes();
}

/* ---- Models ---- */

static char models[256];

static void on_models(void *user, pal_str json, const pal_error *err)
{
    (void)user;
    snprintf(models, sizeof models, "%.*s%s", PAL_STR_ARG(json), err ? err->message : "");
    bell_ring(&told_bell);
}

static void models_on_loop(void *user)
{
    (void)user;
    CHECK_STATUS(pal_provider_models(provider, on_models, NULL, &error), PAL_OK, &error);
}

static void echo_lists_itself(void)
{
    CHECK_STATUS(opens((pal_provider_config){.kind = pal_str_of("echo")}), PAL_OK);
    run_and_wait(models_on_loop, NULL);
    CHECK_STR(models, "[\"echo\"]");
    closes();
}

static bool lists(const char *body, const char *expected)
{
    pal_arena *scratch = pal_arena_new(0);
    pal_buf json;
    pal_buf_init(&json, 1000);
    bool read = pal_models_read(pal_str_of(body), scratch, &json);
    bool same = expected ? read && pal_str_is(pal_buf_str(&json), expected) : !read;
    pal_buf_done(&json);
    pal_arena_free(scratch);
    return same;
}

static void lists_of_models_are_read(void)
{
    CHECK(lists("{\"data\":[{\"id\":\"a\"},{\"id\":\"b/c\"},{\"x\":1}]}", "[\"a\",\"b/c\"]"));
    CHECK(lists("{\"models\":[{\"name\":\"a\"}],\"data\":null}", "[\"a\"]"));
    CHECK(lists("[\"a\",{\"model\":\"b\"}]", "[\"a\",\"b\"]"));
    CHECK(lists("{\"data\":[]}", "[]"));
    CHECK(lists("{}", NULL));
    CHECK(lists("<html>", NULL));
    CHECK(lists("7", NULL));
}

/* ---- Finding one ---- */

/* `user` is a list of names and values that ends with NULL. */
static const char *variable(void *user, const char *name)
{
    for (const char *const *pair = user; *pair; pair += 2) {
        if (strcmp(pair[0], name) == 0)
            return pair[1];
    }
    return NULL;
}

#define ENVIRONMENT(...) ((void *)(const char *const[]){__VA_ARGS__, NULL})
#define NO_ENVIRONMENT ((void *)(const char *const[]){NULL})

static void discovery_tries_candidates_in_order(void)
{
    pal_arena *arena = pal_arena_new(0);
    pal_discovered list[PAL_DISCOVERED_MAX];
    void *all = ENVIRONMENT("OPENAI_API_KEY", "k1", "OPENAI_BASE_URL", "", "ANTHROPIC_API_KEY",
            "k2", "MISTRAL_API_KEY", "k3", "OPENROUTER_API_KEY", "k4", "GROQ_API_KEY", "k5");
    static const char *const names[] = {
            "openai", "anthropic", "mistral", "openrouter", "groq", "ollama", "llama.cpp", "echo"};
    CHECK_EQ(pal_discover_list(variable, all, arena, list), 8);
    for (size_t i = 0; i < 8; i++) {
        CHECK_STR(list[i].config.name, names[i]);
        CHECK_EQ(list[i].is_local, (i == 5 || i == 6));
    }
    CHECK_STR(list[0].model, "gpt-5-mini");
    CHECK_STR(list[1].key_variable, "ANTHROPIC_API_KEY");
    CHECK_STR(list[3].config.kind, "openai");
    CHECK_STR(list[5].config.url, "http://127.0.0.1:11434");
    CHECK_EQ(pal_discover_list(variable, NO_ENVIRONMENT, arena, list), 3);
    CHECK_STR(list[2].model, "echo");
    pal_arena_free(arena);
}

static void a_url_in_the_environment_names_another_service(void)
{
    pal_arena *arena = pal_arena_new(0);
    pal_discovered list[PAL_DISCOVERED_MAX];
    void *without_key = ENVIRONMENT("OPENAI_BASE_URL", "http://p/v1");
    if (CHECK_EQ(pal_discover_list(variable, without_key, arena, list), 4))
        CHECK(list[0].is_local);
    /* Its models are not known. */
    void *with_key = ENVIRONMENT("OPENAI_BASE_URL", "http://p/v1", "OPENAI_API_KEY", "k");
    if (CHECK_EQ(pal_discover_list(variable, with_key, arena, list), 4)) {
        CHECK_STR(list[0].config.url, "http://p/v1");
        CHECK_EQ(list[0].model.len, 0);
    }
    /* A proxy for Anthropic's API has the same models. */
    void *proxy = ENVIRONMENT("ANTHROPIC_BASE_URL", "http://p/v1", "ANTHROPIC_API_KEY", "k");
    if (CHECK_EQ(pal_discover_list(variable, proxy, arena, list), 4)) {
        CHECK_STR(list[0].config.url, "http://p/v1");
        CHECK_STR(list[0].model, "claude-sonnet-4-5");
    }
    pal_arena_free(arena);
}

static bool ollama_is(const char *host, const char *url)
{
    pal_arena *arena = pal_arena_new(0);
    pal_discovered list[PAL_DISCOVERED_MAX];
    pal_discover_list(variable, ENVIRONMENT("OLLAMA_HOST", host), arena, list);
    bool same = pal_str_is(list[0].config.url, url);
    pal_arena_free(arena);
    return same;
}

static void ollamas_address_has_many_forms(void)
{
    CHECK(ollama_is("0.0.0.0", "http://127.0.0.1:11434"));
    CHECK(ollama_is("0.0.0.0:99", "http://127.0.0.1:99"));
    CHECK(ollama_is(":99", "http://127.0.0.1:99"));
    CHECK(ollama_is("box", "http://box:11434"));
    CHECK(ollama_is("box:99", "http://box:99"));
    CHECK(ollama_is("https://box", "https://box"));
}

static char found[256];

static void on_found(void *user, const pal_discovered *discovered, size_t len)
{
    (void)user;
    CHECK_THAT(len, >=, 1);
    snprintf(found, sizeof found, "%.*s %.*s", PAL_STR_ARG(discovered->config.name),
            PAL_STR_ARG(discovered->model));
    bell_ring(&told_bell);
}

static void discover_on_loop(void *user)
{
    found[0] = '\0';
    CHECK_STATUS(pal_discover_start(http, loop, variable, on_found, user, &error), PAL_OK, &error);
    CHECK_EQ(found[0], '\0');
}

static void a_service_with_a_key_is_not_probed(void)
{
    run_and_wait(discover_on_loop, ENVIRONMENT("MISTRAL_API_KEY", "k"));
    CHECK_STR(found, "mistral mistral-medium-latest");
}

/* ---- Without memory ---- */

static uint64_t fail_at;

static void starve_on_loop(void *user)
{
    pal_model_sink sink = log_sink;
    (void)user;
    sink.end = on_end;
    call = NULL;
    pal_memory_fail_at(fail_at, 0);
    pal_status status = pal_provider_open(http, loop, &config, &provider, NULL);
    if (status == PAL_OK)
        status = pal_provider_start(provider, &request, &sink, &told, &call, NULL);
    if (status == PAL_OK && pal_memory_failed())
        status = PAL_NO_MEMORY; /* it failed where the allocation was optional */
    pal_memory_fail_at(0, 0);
    CHECK_STATUS_EITHER(status, PAL_OK, PAL_NO_MEMORY);
    started = status;
    if (call)
        pal_provider_cancel(call);
    pal_provider_close(provider);
    provider = NULL;
    bell_ring(&told_bell);
}

static void an_allocation_failure_is_reported(void)
{
    static const char *const kinds[] = {"echo", "script", "openai", "anthropic"};
    const pal_header own = {pal_str_of("x-a"), pal_str_of("b")};
    pal_part part;
    pal_message message = said(&part, PAL_ROLE_USER, "hi");
    CHECK_STATUS(opens_script("{\"text\":\"a\"}\n"), PAL_OK);
    closes();
    request =
            (pal_model_request){.model = pal_str_of("m"), .messages = &message, .messages_len = 1};
    for (size_t i = 0; i < 4; i++) {
        config = (pal_provider_config){.kind = pal_str_of(kinds[i]),
                .url = pal_str_of("http://127.0.0.1:9"),
                .api_key = pal_str_of("0123456789"),
                .path = pal_str_of(script_path),
                .headers = &own,
                .headers_len = 1};
        started = PAL_NO_MEMORY;
        for (fail_at = 1; started != PAL_OK && fail_at < 300; fail_at++)
            run_and_wait(starve_on_loop, NULL);
        CHECK_STATUS(started, PAL_OK);
        CHECK_THAT(fail_at, >, 3);
    }
}

/* ---- All of it ---- */

static void open_http(void *user)
{
    (void)user;
    CHECK_STATUS(pal_http_open(loop, NULL, &http, &error), PAL_OK, &error);
    bell_ring(&told_bell);
}

static void close_http(void *user)
{
    (void)user;
    pal_http_close(http);
    bell_ring(&told_bell);
}

int main(void)
{
    int fd = mkstemp(script_path);
    if (fd < 0 || pal_loop_open(0, &loop, &error) != PAL_OK)
        return 1;
    close(fd);
    log_init(&told);
    run_and_wait(open_http, NULL);
    RUN(configurations_are_checked);
    RUN(urls_are_completed);
    RUN(keys_are_sent_in_the_right_header);
    RUN(secrets_are_not_shown);
    RUN(echo_repeats_the_message);
    RUN(requests_are_checked);
    RUN(scripts_are_replayed);
    RUN(a_callback_can_cancel_its_call);
    RUN(a_call_has_a_time_limit);
    RUN(echo_lists_itself);
    RUN(lists_of_models_are_read);
    RUN(discovery_tries_candidates_in_order);
    RUN(a_url_in_the_environment_names_another_service);
    RUN(ollamas_address_has_many_forms);
    RUN(a_service_with_a_key_is_not_probed);
    RUN(an_allocation_failure_is_reported);
    run_and_wait(close_http, NULL);
    pal_loop_close(loop);
    log_done(&told);
    unlink(script_path);
    return tap_done();
}
