/* provider_call.c - makes calls to a provider, for tests that have a server:
 *
 *   provider_call KIND URL [NAME: VALUE]...     (the key is in PROVIDER_KEY, the
 *                                              longest silence in PROVIDER_IDLE_MS)
 *
 * Each line of standard input is a call: {"messages":[...]} in the format of chat completions, with
 * optional "model", "tools", "tool_choice", "parameters", "stream", "output_max", "conversation",
 * "timeout_ms", "stable_len", "cancel_after" (pieces of text) and "times" (that many at once).
 * {"models": true} requests the list of models, and {"discover":{...}} looks for a service with
 * these variables. The outcome of each call is printed as one line. */
#include <stdlib.h>
#include "base/clock.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "dialect/openai/openai_chat.h"
#include "provider/provider.h"
#include "provider/provider_discover.h"
#include "support/answer_log.h"
#include "support/on_loop.h"

#define HEADERS_MAX 16
#define TOOLS_MAX 64

static pal_loop *loop;
static pal_http *http;
static pal_provider *provider;
static pal_provider_config config;
static pal_error error;
static bell rung = BELL_INIT;

static void fail(const char *what)
{
    fprintf(stderr, "provider_call: %s: %s\n", what, error.message);
    exit(2);
}

typedef struct asked {
    pal_model_request request;
    int64_t cancel_after;
    answer_log log;
    int64_t pieces;
    pal_model_call *call;
    int64_t started_us, first_us, ended_us;
} asked;

static void on_text(void *user, pal_str delta)
{
    asked *in = user;
    if (in->pieces == 0)
        in->first_us = pal_clock_monotonic_us();
    log_text(&in->log, delta);
    if (++in->pieces == in->cancel_after) {
        pal_provider_cancel(in->call);
        log_close(&in->log);
        pal_buf_append_text(&in->log.text, "canceled");
        bell_ring(&rung);
    }
}

static void on_reasoning(void *user, pal_str delta)
{
    log_reasoning(&((asked *)user)->log, delta);
}

static void on_signature(void *user, pal_str signature, pal_str family)
{
    log_signature(&((asked *)user)->log, signature, family);
}

static void on_call(void *user, uint32_t index, pal_str id, pal_str name)
{
    log_call(&((asked *)user)->log, index, id, name);
}

static void on_arguments(void *user, uint32_t index, pal_str delta)
{
    log_arguments(&((asked *)user)->log, index, delta);
}

static void on_end(void *user, const pal_model_end *end)
{
    asked *in = user;
    in->ended_us = pal_clock_monotonic_us();
    log_end(&in->log, end);
    bell_ring(&rung);
}

static const pal_model_sink sink = {
        on_text, on_reasoning, on_signature, on_call, on_arguments, on_end, NULL, NULL,
        NULL, NULL};

static void start(void *user)
{
    asked *in = user;
    in->started_us = pal_clock_monotonic_us();
    pal_status status = pal_provider_start(provider, &in->request, &sink, in, &in->call, &error);
    if (status == PAL_OK)
        return;
    pal_buf_format(&in->log.text, "refused(%s: %s)", pal_status_name(status), error.message);
    bell_ring(&rung);
}

static size_t read_tools(pal_json list, pal_arena *arena, pal_tool *out)
{
    size_t len = 0;
    pal_json tool;
    for (pal_json_iter iter = pal_json_each(list);
            pal_json_next(&iter, NULL, &tool) && len < TOOLS_MAX; len++)
        out[len] = (pal_tool){.name = pal_member_string(tool, "name", arena),
                .description = pal_member_string(tool, "description", arena),
                .schema = pal_json_raw(pal_json_find(tool, "schema"))};
    return len;
}

static int64_t number(pal_json line, const char *name)
{
    int64_t value = 0;
    pal_json_i64(pal_json_find(line, name), &value);
    return value;
}

static void read_request(pal_json line, pal_arena *arena, pal_tool *tools, asked *out)
{
    pal_message *messages = NULL;
    size_t len = 0;
    if (pal_openai_chat_read(line, arena, &messages, &len, &error) != PAL_OK)
        fail("messages");
    out->request = (pal_model_request){
            .model = pal_member_string(line, "model", arena),
            .messages = messages,
            .messages_len = len,
            .stable_len = (size_t)number(line, "stable_len"),
            .tools = tools,
            .tools_len = read_tools(pal_json_find(line, "tools"), arena, tools),
            .tool_choice = pal_json_raw(pal_json_find(line, "tool_choice")),
            .parameters = pal_json_raw(pal_json_find(line, "parameters")),
            .output_max = (uint64_t)number(line, "output_max"),
            .conversation = pal_member_string(line, "conversation", arena),
            .timeout_ms = number(line, "timeout_ms"),
    };
    pal_json_bool(pal_json_find(line, "stream"), &out->request.stream);
    if (out->request.model.len == 0)
        out->request.model = pal_str_of("mock-model");
    out->cancel_after = number(line, "cancel_after");
}

static void run_calls(pal_json line, pal_arena *arena)
{
    static pal_tool tools[TOOLS_MAX];
    int64_t times = number(line, "times");
    times = times ? times : 1;
    asked *all = calloc((size_t)times, sizeof(*all));
    if (!all)
        fail("memory");
    for (int64_t i = 0; i < times; i++) {
        read_request(line, arena, tools, &all[i]);
        log_init(&all[i].log);
        on_loop(loop, start, &all[i]);
    }
    if (!bell_wait(&rung, (int)times))
        fail("waiting");
    for (int64_t i = 0; i < times; i++) {
        printf("%.*s\n", PAL_STR_ARG(pal_buf_str(&all[i].log.text)));
        log_done(&all[i].log);
    }
    free(all);
}

static void on_models(void *user, pal_str json, const pal_error *err)
{
    (void)user;
    printf("%.*s%s\n", PAL_STR_ARG(json), err ? err->message : "");
    bell_ring(&rung);
}

static void ask_models(void *user)
{
    (void)user;
    if (pal_provider_models(provider, on_models, NULL, &error) != PAL_OK)
        fail("models");
}

/* The best of them. */
static void on_found(void *user, const pal_discovered *found, size_t len)
{
    (void)user;
    (void)len;
    printf("%.*s %.*s %.*s\n", PAL_STR_ARG(found->config.name), PAL_STR_ARG(found->config.url),
            PAL_STR_ARG(found->model));
    bell_ring(&rung);
}

/* The environment of one line of the input. */
typedef struct environment {
    pal_json object;
    pal_arena *arena;
} environment;

static const char *variable(void *user, const char *name)
{
    const environment *env = user;
    return pal_arena_copy(env->arena, pal_member_string(env->object, name, env->arena)).data;
}

static void discover(void *user)
{
    if (pal_discover_start(http, loop, variable, on_found, user, &error) != PAL_OK)
        fail("discover");
}

static void run_discover(pal_json env, pal_arena *arena)
{
    environment values = {env, arena};
    on_loop(loop, discover, &values);
    bell_wait(&rung, 1);
}

static void run_line(pal_str text)
{
    pal_arena *arena = pal_arena_new(0);
    pal_json line;
    if (pal_json_parse(arena, text, NULL, &line, &error) != PAL_OK)
        fail("line");
    pal_json env = pal_json_find(line, "discover");
    if (pal_json_type_of(env) == PAL_JSON_OBJECT) {
        run_discover(env, arena);
    } else if (pal_json_type_of(pal_json_find(line, "models")) == PAL_JSON_TRUE) {
        on_loop(loop, ask_models, NULL);
        bell_wait(&rung, 1);
    } else {
        run_calls(line, arena);
    }
    fflush(stdout);
    pal_arena_free(arena);
}

static void open_all(void *user)
{
    (void)user;
    if (pal_http_open(loop, NULL, &http, &error) != PAL_OK ||
            pal_provider_open(http, loop, &config, &provider, &error) != PAL_OK)
        fail("open");
}

static void close_all(void *user)
{
    (void)user;
    pal_provider_close(provider);
    pal_http_close(http);
}

int main(int argc, char **argv)
{
    pal_header headers[HEADERS_MAX];
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    if (argc < 3 || argc - 3 > HEADERS_MAX)
        return 2;
    config = (pal_provider_config){.name = pal_str_of("test"),
            .kind = pal_str_of(argv[1]),
            .url = pal_str_of(argv[2]),
            .path = pal_str_of(argv[2]),
            .api_key = pal_str_of(getenv("PROVIDER_KEY")),
            .headers = headers,
            .idle_ms = getenv("PROVIDER_IDLE_MS") ? atoi(getenv("PROVIDER_IDLE_MS")) : 0};
    for (int i = 3; i < argc; i++) {
        const char *colon = strstr(argv[i], ": ");
        if (!colon)
            return 2;
        headers[config.headers_len++] = (pal_header){
                pal_str_make(argv[i], (size_t)(colon - argv[i])), pal_str_of(colon + 2)};
    }
    if (pal_loop_open(0, &loop, &error) != PAL_OK)
        fail("loop");
    on_loop(loop, open_all, NULL);
    while ((len = getline(&line, &cap, stdin)) > 0)
        run_line(pal_str_make(line, (size_t)len));
    free(line);
    on_loop(loop, close_all, NULL);
    pal_loop_close(loop);
    return 0;
}
