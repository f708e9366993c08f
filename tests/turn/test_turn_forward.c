/* test_turn_forward.c - forwarded requests: their cost is counted once, in the stats and in the
 * ledger, and a budget stops them before the service is called. Rows that are written after the end
 * of a request are checked after the runtime was closed, since they are there by then. */
#include "base/memory.h"
#include "service_fixture.h"
#include "support/on_loop.h"
#include "support/scratch.h"

#define USAGE "\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":10}"
#define COUNTED(model) "{\"model\":\"" model "\",\"choices\":[]," USAGE "}"
#define EVENT(json) "data: " json "\n\n"
#define STREAM "content-type: text/event-stream\r\n"

#define LONG_NAME_LEN (PAL_LABEL_LEN_MAX + 1)

/* ---- One that is passed on ---- */

typedef struct passed {
    pal_forward_call *forwarding;
    bool leaves; /* by its end, at the latest */
    unsigned code;
    char text[4096];
    bell came; /* a part of the body arrived */
    bell over;
    pal_status status;
    char why[PAL_ERROR_MESSAGE_MAX];
} passed;

static void on_head(unsigned code, void *user)
{
    ((passed *)user)->code = code;
}

static void on_bytes(pal_str bytes, void *user)
{
    passed *p = user;
    char text[4096];

    snprintf(text, sizeof(text), "%.*s", PAL_STR_ARG(bytes));
    add_text(p->text, sizeof(p->text), text);
    bell_ring(&p->came);
}

static void on_end(pal_status status, const pal_error *why, void *user)
{
    passed *p = user;

    p->status = status;
    snprintf(p->why, sizeof(p->why), "%s", why ? why->message : "");
    if (p->leaves)
        pal_forward_call_release(p->forwarding);
    bell_ring(&p->over);
}

static const pal_forward_sink sink = {.head = on_head, .bytes = on_bytes, .end = on_end};

static pal_forward chat(const char *tenant, const char *model)
{
    return (pal_forward){.model = S(model),
            .path = S("/chat/completions"),
            .body = S("{}"),
            .tenant = S(tenant)};
}

static pal_status start(passed *p, const pal_forward *request)
{
    *p = (passed){.came = BELL_INIT, .over = BELL_INIT};
    return pal_runtime_forward(test.runtime, request, &sink, p, &p->forwarding, &test.err);
}

/* Waits for the end. */
static pal_status pass(passed *p, pal_forward request)
{
    pal_status status = start(p, &request);

    if (status != PAL_OK)
        return status;
    CHECK(bell_wait(&p->over, 1));
    pal_forward_call_release(p->forwarding);
    return p->status;
}

/* ---- Beginning and end ---- */

static service *begin_kind(const service_reply *replies, size_t len, const char *kind,
        pal_runtime_options options, const char *location)
{
    service *s = service_open(replies, len);
    pal_endpoint endpoint = {.name = S("main"),
            .kind = S(kind),
            .url = S(s->url),
            .model = S("own"),
            .api_key = S("own-key-12345")};

    if (!test.arena)
        test.arena = pal_arena_new(0);
    if (!test.store)
        OK(pal_store_open(location, NULL, &test.store, &test.err));
    options.endpoints = &endpoint;
    options.endpoints_len = 1;
    open_runtime(NULL, options);
    return s;
}

static service *begin_options(
        const service_reply *replies, size_t len, pal_runtime_options options, const char *location)
{
    return begin_kind(replies, len, "openai", options, location);
}

/* NULL: the service must not be called. */
static service *begin_one(const service_reply *reply)
{
    return begin_options(reply, reply ? 1 : 0, (pal_runtime_options){0}, "memory:");
}

static pal_runtime_stats close_runtime(void)
{
    pal_runtime_stats stats;

    pal_runtime_stat(test.runtime, &stats);
    pal_runtime_close(test.runtime, 0);
    test.runtime = NULL;
    return stats;
}

static void end_all(service *s)
{
    end_service(s);
    test.runtime = NULL;
    test.store = NULL;
}

static pal_ledger_sum sum_of(const char *tenant)
{
    pal_ledger_query query = {.tenant = S(tenant)};
    pal_ledger_sum sum = {0};

    OK(pal_store_ledger_sum(test.store, &query, &sum, &test.err));
    return sum;
}

static bool is_counted(const pal_runtime_stats *stats, const char *tenant, uint64_t times)
{
    pal_ledger_sum sum = sum_of(tenant);

    return stats->usage.input == 100 * times && stats->usage.output == 10 * times &&
            sum.calls == times && sum.usage.input == 100 * times && sum.usage.output == 10 * times;
}

/* That many answers, all of that tenant. */
static bool ends_counted(const char *tenant, uint64_t times)
{
    pal_runtime_stats stats = close_runtime();

    return is_counted(&stats, tenant, times);
}

/* ---- Counted ---- */

static void a_body_is_counted_once(void)
{
    static const service_reply reply = {.body = COUNTED("m")};
    service *s = begin_one(&reply);
    pal_runtime_stats stats;
    passed p;

    CHECK_STATUS(pass(&p, chat("acme", "m")), PAL_OK);
    CHECK_EQ(p.code, 200);
    CHECK_STR(p.text, reply.body);
    stats = close_runtime();
    CHECK_EQ(stats.model_calls, 1);
    CHECK(is_counted(&stats, "acme", 1));
    CHECK_EQ(sum_of("").calls, 0);
    end_all(s);
}

static void a_forward_without_a_tenant_is_the_default_tenants(void)
{
    static const service_reply reply = {.body = COUNTED("m")};
    service *s = begin_one(&reply);
    passed p;

    CHECK_STATUS(pass(&p, chat("", "m")), PAL_OK);
    CHECK(ends_counted("default", 1));
    end_all(s);
}

/* Reads the log as one text, although there are other bytes between its lines. */
static void read_log(const char *dir, char *log, size_t size)
{
    char path[SCRATCH_PATH_MAX + 32];
    size_t len = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/store/.palaver/log", dir);
    file = fopen(path, "r");
    if (CHECK(file)) {
        len = fread(log, 1, size - 1, file);
        fclose(file);
    }
    for (size_t i = 0; i < len; i++)
        log[i] = log[i] ? log[i] : ' ';
    log[len] = '\0';
}

static void the_row_describes_the_request(void)
{
    static const service_reply replies[] = {
            {.body = COUNTED("m-2")}, {.body = "{" USAGE "}"}, {.body = "{" USAGE "}"}};
    pal_price price = {.pattern = S("m*"), .input = 1000000, .output = 2000000};
    pal_runtime_options options = {.prices = &price, .prices_len = 1, .price_version = S("v1")};
    char dir[SCRATCH_PATH_MAX], location[SCRATCH_PATH_MAX + 32], log[8192];
    service *s;
    passed p;

    scratch_make(false, dir);
    snprintf(location, sizeof(location), "jsonl:%s/store", dir);
    s = begin_options(replies, 3, options, location);
    CHECK_STATUS(pass(&p, chat("acme", "m-1")), PAL_OK);
    CHECK_STATUS(pass(&p, chat("acme", "m-1")), PAL_OK);
    CHECK_STATUS(pass(&p, chat("acme", "")), PAL_OK);
    close_runtime();
    read_log(dir, log, sizeof(log));
    HAS(log, "\"ledger\"", "\"tenant\":\"acme\"", "\"purpose\":\"forward\"",
            "\"provider\":\"main\"", "\"model\":\"m-2\"", "\"price_version\":\"v1\"",
            "\"cost_micros\":120", "\"model\":\"m-1\"", "\"model\":\"own\"");
    CHECK_LACKS(log, "\"session\"");
    CHECK_LACKS(log, "\"turn_id\"");
    end_all(s);
    scratch_clear(dir, true);
}

static void a_stream_is_counted_by_its_last_usage(void)
{
    static const service_reply reply = {.header = STREAM,
            .body = EVENT("{\"model\":\"m\",\"usage\":null}") EVENT("{\"choices\":[],\"usage\":"
                                                                    "{\"prompt_tokens\":100,"
                                                                    "\"completion_tokens\":1}}")
                    EVENT("{\"choices\":[]," USAGE "}") EVENT("[DONE]")};
    service *s = begin_one(&reply);
    passed p;

    if (CHECK_STATUS(pass(&p, chat("acme", "m")), PAL_OK))
        CHECK_STR(p.text, reply.body);
    CHECK(ends_counted("acme", 1));
    end_all(s);
}

/* Palaver counts request and answer itself, with the text of all choices. */
static void a_stream_without_usage_is_counted_by_its_text(void)
{
    static const service_reply reply = {.header = STREAM,
            .body = EVENT("{\"model\":\"m\",\"usage\":null,\"choices\":[{\"index\":0,\"delta\":"
                          "{\"content\":\"one two three\"}},{\"index\":1,\"delta\":{\"tool_calls\":"
                          "[{\"function\":{\"name\":\"f\",\"arguments\":\"four five six\"}}]}}]}")
                    EVENT("[DONE]")};
    service *s = begin_one(&reply);
    pal_forward request = chat("acme", "m");
    pal_runtime_stats stats;
    pal_ledger_sum sum;
    passed p;

    request.body = S("{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":"
                     "\"seven eight nine ten eleven twelve\"}]}");
    CHECK_STATUS(pass(&p, request), PAL_OK);
    stats = close_runtime();
    sum = sum_of("acme");
    CHECK_EQ(stats.model_calls, 1);
    CHECK_EQ(sum.calls, 1);
    CHECK_THAT(sum.usage.input, >=, 6);
    CHECK_THAT(sum.usage.input, <, 30);
    CHECK_THAT(sum.usage.output, >=, 6);
    CHECK_THAT(sum.usage.output, <, 15);
    end_all(s);
}

static void usage_is_requested_if_the_caller_requests_it(void)
{
    static const service_reply replies[] = {{.body = COUNTED("m")}, {.body = COUNTED("m")},
            {.body = COUNTED("m")}, {.body = COUNTED("m")}};
    service *s = begin_options(replies, 4, (pal_runtime_options){0}, "memory:");
    pal_forward request = chat("acme", "m");
    passed p;

    request.asks_usage = true;
    request.body = S("{\"stream\":true,\"a\":[1, 2]}");
    CHECK_STATUS(pass(&p, request), PAL_OK);
    CHECK_STR(s->bodies[0],
            "{\"stream\":true,\"a\":[1, 2],\"stream_options\":{\"include_usage\":true}}");
    request.body = S("{\"stream_options\":{\"include_usage\":false,\"x\":1},\"stream\":true}");
    CHECK_STATUS(pass(&p, request), PAL_OK);
    CHECK_STR(
            s->bodies[1], "{\"stream\":true,\"stream_options\":{\"x\":1,\"include_usage\":true}}");
    request.body = S("{\"stream\":false}");
    CHECK_STATUS(pass(&p, request), PAL_OK);
    CHECK_STR(s->bodies[2], "{\"stream\":false}");
    request.asks_usage = false;
    request.body = S("{\"stream\":true}");
    CHECK_STATUS(pass(&p, request), PAL_OK);
    CHECK_STR(s->bodies[3], "{\"stream\":true}");
    close_runtime();
    end_all(s);
}

#define MESSAGE_USAGE "\"usage\":{\"input_tokens\":100,\"output_tokens\":10}"

static void anthropic_messages_are_forwarded_with_the_headers_of_the_client(void)
{
    static const service_reply replies[] = {
            {.body = "{\"model\":\"m\",\"content\":[]," MESSAGE_USAGE "}"},
            {.header = STREAM,
                    .body = EVENT("{\"type\":\"message_start\",\"message\":{\"model\":\"m\","
                                  "\"usage\":{\"input_tokens\":100,\"output_tokens\":1}}}")
                            EVENT("{\"type\":\"message_delta\"," MESSAGE_USAGE "}")
                                    EVENT("{\"type\":\"message_stop\"}")},
            {.body = "{\"input_tokens\":7}"}};
    const pal_header version = {S("anthropic-version"), S("2026-10-21")};
    const pal_header key = {S("X-Api-Key"), S("of-the-client")};
    service *s = begin_kind(replies, 3, "anthropic", (pal_runtime_options){0}, "memory:");
    pal_forward request = {.model = S("m"),
            .path = S("/messages"),
            .body = S("{\"a\": [1, 2]}"),
            .tenant = S("acme"),
            .headers = &version,
            .headers_len = 1,
            .api = PAL_FORWARD_MESSAGES};
    pal_runtime_stats stats;
    passed p;

    CHECK_STATUS(pass(&p, request), PAL_OK);
    CHECK_STR(s->bodies[0], "{\"a\": [1, 2]}");
    CHECK(strstr(s->heads[0], "anthropic-version: 2026-10-21"));
    CHECK(!strstr(s->heads[0], "2023-06-01"));
    CHECK(strstr(s->heads[0], "own-key-12345"));
    CHECK_STATUS(pass(&p, request), PAL_OK);
    request.path = S("/messages/count_tokens");
    request.is_free = true;
    CHECK_STATUS(pass(&p, request), PAL_OK);
    CHECK_STR(p.text, "{\"input_tokens\":7}");
    request.headers = &key;
    CHECK_STATUS(pass(&p, request), PAL_INVALID);
    request.api = PAL_FORWARD_CHAT;
    CHECK_STATUS(start(&p, &request), PAL_CONFLICT);
    stats = close_runtime();
    CHECK(is_counted(&stats, "acme", 2));
    end_all(s);
}

static void a_cut_stream_counts_the_received_text(void)
{
    static const service_reply reply = {
            .header = STREAM, .body = EVENT("{" USAGE "}") "data: {\"half", .missing = 100};
    service *s = begin_one(&reply);
    passed p;

    CHECK_THAT(pass(&p, chat("acme", "m")), !=, PAL_OK);
    CHECK(ends_counted("acme", 1));
    end_all(s);
}

static void an_abandoned_forward_is_counted_too(void)
{
    static const service_reply reply = {
            .header = STREAM, .body = EVENT("{" USAGE "}"), .missing = 100, .is_stuck = true};
    service *s = begin_one(&reply);
    pal_forward request = chat("acme", "m");
    passed p;

    OK(start(&p, &request));
    CHECK(bell_wait(&p.came, 1));
    pal_forward_call_release(p.forwarding);
    if (CHECK(bell_wait(&p.over, 1)))
        CHECK_STATUS(p.status, PAL_CANCELED);
    CHECK(ends_counted("acme", 1));
    end_all(s);
}

static void errors_count_nothing(void)
{
    static const service_reply replies[] = {{.code = 429, .body = COUNTED("m")},
            {.code = 503, .body = "{\"error\":{}," USAGE "}"},
            {.body = "{\"error\":{\"message\":\"no\"}," USAGE "}"},
            {.body = "no JSON, and still \"usage\""}};
    service *s = begin_options(replies, 4, (pal_runtime_options){0}, "memory:");
    pal_runtime_stats stats;
    passed p;

    for (size_t i = 0; i < 4; i++) {
        CHECK_STATUS(pass(&p, chat("acme", "m")), PAL_OK);
        CHECK_STR(p.text, replies[i].body);
    }
    stats = close_runtime();
    CHECK_EQ(stats.model_calls, 4);
    CHECK(is_counted(&stats, "acme", 0));
    end_all(s);
}

/* ---- Prices ---- */

static void a_call_has_the_price_of_the_requested_or_the_used_model(void)
{
    static const service_reply replies[] = {
            {.body = COUNTED("m-2024")}, {.body = COUNTED("dear")}, {.body = COUNTED("unknown")}};
    pal_price prices[] = {{.pattern = S("m"), .input = 1000000, .output = 2000000},
            {.pattern = S("dear"), .input = 10000000, .output = 0}};
    pal_runtime_options options = {.prices = prices, .prices_len = 2};
    service *s = begin_options(replies, 3, options, "memory:");
    pal_runtime_stats stats;
    passed p;

    CHECK_STATUS(pass(&p, chat("a", "m")), PAL_OK);
    CHECK_STATUS(pass(&p, chat("b", "auto")), PAL_OK);
    CHECK_STATUS(pass(&p, chat("c", "auto")), PAL_OK);
    stats = close_runtime();
    CHECK_EQ(sum_of("a").cost_micros, 120);
    CHECK_EQ(sum_of("b").cost_micros, 1000);
    CHECK_EQ(sum_of("c").cost_micros, 0);
    CHECK_EQ(sum_of("c").calls, 1);
    CHECK_EQ(stats.cost_micros, 1120);
    end_all(s);
}

static void a_name_that_the_ledger_refuses_makes_no_call_free(void)
{
    static char name[LONG_NAME_LEN + 1], body[LONG_NAME_LEN + 200];
    service_reply replies[2] = {{.body = body}, {.body = "{\"model\":\"a\\u0000b\"," USAGE "}"}};
    service *s;
    passed p;

    memset(name, 'n', LONG_NAME_LEN);
    snprintf(body, sizeof(body), "{\"model\":\"%s\"," USAGE "}", name);
    s = begin_options(replies, 2, (pal_runtime_options){0}, "memory:");
    CHECK_STATUS(pass(&p, chat("acme", name)), PAL_OK);
    CHECK_STATUS(pass(&p, chat("acme", name)), PAL_OK);
    CHECK(ends_counted("acme", 2));
    end_all(s);
}

static void a_tenant_that_can_not_be_is_refused(void)
{
    service *s = begin_one(NULL);
    pal_forward request = chat("a\xff", "m");
    passed p;

    CHECK_STATUS(start(&p, &request), PAL_INVALID);
    CHECK_CONTAINS(test.err.message, "'tenant'");
    CHECK_EQ(close_runtime().model_calls, 0);
    CHECK_EQ(s->len, 0);
    end_all(s);
}

/* ---- Budgets ---- */

static void use_up(const char *tenant)
{
    pal_ledger_row row = {.request_id = S("r"),
            .usage = {.input = 100, .output = 10},
            .cost_micros = 50,
            .created_at = 1000};

    OK(pal_store_ledger_add(test.store, S(tenant), (pal_id){{0}}, &row, &test.err));
}

static void a_budget_refuses_before_the_service_is_called(void)
{
    service *s = begin_one(NULL);
    pal_forward request = chat("acme", "m");
    passed p;

    use_up("acme");
    request.budget.tenant_tokens = 110;
    if (CHECK_STATUS(pass(&p, request), PAL_BUDGET)) {
        CHECK_EQ(p.code, 0);
        CHECK_EQ(p.text[0], '\0');
    }
    CHECK_STR(p.why,
            "the budget of the tenant is used up: 110 of 110 tokens; raise the "
            "budget to continue");
    request.budget = (pal_budget){.tenant_cost_micros = 50};
    if (CHECK_STATUS(pass(&p, request), PAL_BUDGET))
        CHECK_CONTAINS(p.why, "0.0001 of 0.0001");
    CHECK_EQ(close_runtime().model_calls, 0);
    CHECK_EQ(s->len, 0);
    end_all(s);
}

static void the_rest_of_a_budget_can_be_spent(void)
{
    static const service_reply replies[] = {{.body = COUNTED("m")}, {.body = COUNTED("m")},
            {.body = COUNTED("m")}, {.body = COUNTED("m")}, {.body = COUNTED("m")}};
    service *s = begin_options(replies, 5, (pal_runtime_options){0}, "memory:");
    pal_forward request = chat("acme", "m");
    passed p;

    use_up("acme");
    request.budget = (pal_budget){.tenant_tokens = 111, .tenant_cost_micros = 51};
    CHECK_STATUS(pass(&p, request), PAL_OK);
    request.tenant = S("later");
    request.budget = (pal_budget){.tenant_tokens = 1, .since = INT64_MAX};
    use_up("later");
    CHECK_STATUS(pass(&p, request), PAL_OK);
    request.tenant = S("acme");
    /* There is no session that it could belong to. */
    request.budget = (pal_budget){.session_tokens = 1, .session_cost_micros = 1};
    CHECK_STATUS(pass(&p, request), PAL_OK);
    request.budget.tenant_tokens = 10000;
    CHECK_STATUS(pass(&p, request), PAL_OK);
    request = chat("other", "m");
    request.budget.tenant_tokens = 1;
    CHECK_STATUS(pass(&p, request), PAL_OK);
    close_runtime();
    CHECK_EQ(sum_of("acme").calls, 4);
    CHECK_EQ(sum_of("later").calls, 2);
    CHECK_EQ(sum_of("other").calls, 1);
    end_all(s);
}

/* ---- While the budget is looked up ---- */

typedef struct gate {
    bell reached;
    bell opened;
} gate;

static void stand_at(
        const char *call, size_t ops, int64_t duration_us, pal_status status, void *user)
{
    gate *g = user;

    (void)ops;
    (void)duration_us;
    (void)status;
    if (strcmp(call, "ledger_sum") != 0)
        return;
    bell_ring(&g->reached);
    CHECK(bell_wait(&g->opened, 1));
}

/* With a worker that is stopped inside of the store. */
static service *begin_gate(gate *g, passed *p)
{
    pal_store_options options = {.trace = stand_at, .trace_user = g};
    pal_forward request = chat("acme", "m");
    service *s;

    *g = (gate){BELL_INIT, BELL_INIT};
    OK(pal_store_open("memory:", &options, &test.store, &test.err));
    s = begin_one(NULL);
    request.budget.tenant_tokens = 1;
    OK(start(p, &request));
    CHECK(bell_wait(&g->reached, 1));
    return s;
}

static void one_can_be_left_while_its_budget_is_looked_up(void)
{
    gate g;
    passed p;
    service *s = begin_gate(&g, &p);

    pal_forward_call_release(p.forwarding);
    if (CHECK(bell_wait(&p.over, 1)))
        CHECK_STATUS(p.status, PAL_CANCELED);
    bell_ring(&g.opened);
    CHECK_EQ(close_runtime().model_calls, 0);
    CHECK_EQ(s->len, 0);
    end_all(s);
}

static void *close_it(void *user)
{
    (void)user;
    pal_runtime_close(test.runtime, 0);
    return NULL;
}

static void a_runtime_can_be_closed_meanwhile(void)
{
    gate g;
    passed p;
    service *s = begin_gate(&g, &p);
    pthread_t thread;

    p.leaves = true;
    pthread_create(&thread, NULL, close_it, NULL);
    if (CHECK(bell_wait(&p.over, 1)))
        CHECK_STATUS(p.status, PAL_CANCELED);
    CHECK_STR(p.why, "the server is stopping");
    bell_ring(&g.opened);
    pthread_join(thread, NULL);
    test.runtime = NULL;
    CHECK_EQ(s->len, 0);
    end_all(s);
}

/* ---- Without memory ---- */

static void memory_may_run_out(void)
{
    static service_reply replies[SERVICE_REQUESTS_MAX];
    pal_forward request = chat("acme", "m");
    uint64_t nth = 1;
    service *s;
    passed p;

    for (size_t i = 0; i < SERVICE_REQUESTS_MAX; i++)
        replies[i] = (service_reply){.header = i % 2 ? STREAM : NULL,
                .body = i % 2 ? EVENT("{" USAGE "}") EVENT("[DONE]") : COUNTED("m")};
    s = begin_options(replies, SERVICE_REQUESTS_MAX, (pal_runtime_options){0}, "memory:");
    request.budget.tenant_tokens = UINT64_MAX;
    for (bool failed = true; failed; nth++) {
        pal_status status;

        pal_memory_fail_at(nth, 1);
        status = pass(&p, request);
        failed = pal_memory_failed();
        pal_memory_fail_at(0, 0);
        CHECK_STATUS_EITHER(status, PAL_OK, PAL_NO_MEMORY);
    }
    CHECK_THAT(nth, >, 3);
    close_runtime();
    CHECK_THAT(sum_of("acme").calls, >, 0);
    end_all(s);
}

int main(void)
{
    RUN(a_body_is_counted_once);
    RUN(a_forward_without_a_tenant_is_the_default_tenants);
    RUN(the_row_describes_the_request);
    RUN(a_stream_is_counted_by_its_last_usage);
    RUN(a_stream_without_usage_is_counted_by_its_text);
    RUN(usage_is_requested_if_the_caller_requests_it);
    RUN(anthropic_messages_are_forwarded_with_the_headers_of_the_client);
    RUN(a_cut_stream_counts_the_received_text);
    RUN(an_abandoned_forward_is_counted_too);
    RUN(errors_count_nothing);
    RUN(a_call_has_the_price_of_the_requested_or_the_used_model);
    RUN(a_name_that_the_ledger_refuses_makes_no_call_free);
    RUN(a_tenant_that_can_not_be_is_refused);
    RUN(a_budget_refuses_before_the_service_is_called);
    RUN(the_rest_of_a_budget_can_be_spent);
    RUN(one_can_be_left_while_its_budget_is_looked_up);
    RUN(a_runtime_can_be_closed_meanwhile);
    RUN(memory_may_run_out);
    pal_arena_free(test.arena);
    return tap_done();
}
