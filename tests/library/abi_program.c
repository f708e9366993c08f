/* abi_program.c - a program that is compiled against the headers of an earlier release and runs
 * with today's library. It passes and receives structs of every kind: options and queries, results
 * that the caller allocates, arrays in both directions, structs in structs, and return values. A
 * canary after each result shows whether the library wrote past it. With the address sanitizer, the
 * library's own reads and writes are checked too. */
#include <palaver/palaver.h>
#include <stdlib.h>
#include "support/tap.h"

#define CANARY 0x5ac0ffee5ac0ffeeu

/* A result with a canary directly after it. The result is filled with garbage, because a program
 * need not zero results. */
#define RESULT(type, name) \
    struct { \
        type it; \
        uint64_t canary; \
    } name; \
    memset(&name, 0xaa, sizeof name); \
    name.canary = CANARY

static const pal_str tenant; /* the default tenant */
static pal_arena *arena;
static pal_store *store;
static pal_runtime *runtime;
static pal_id session;
static pal_error err;

static pal_str str(const char *text)
{
    return pal_str_of(text);
}

/* ---- The store ---- */

static void traced(const char *call, size_t ops, int64_t us, pal_status status, void *user)
{
    (void)call, (void)ops, (void)us, (void)status;
    ++*(int *)user;
}

static void options_are_read(void)
{
    int calls = 0;
    pal_store_options options = {.message_bytes_max = 1000, .trace = traced, .trace_user = &calls};
    pal_store *small = NULL;
    char *text = calloc(1, 2000);
    memset(text, 'x', 1999);
    pal_session created = {.title = str("small")};
    pal_message message = pal_message_text(arena, PAL_ROLE_USER, str(text));
    CHECK_STATUS(pal_store_open("memory:", &options, &small, &err), PAL_OK, &err);
    CHECK_STATUS(pal_store_create(small, &created, &created.id, &err), PAL_OK, &err);
    CHECK_STATUS(pal_store_append(small, tenant, created.id, &message, 1, PAL_SEQ_ANY, &err),
            PAL_LIMIT, &err);
    CHECK_THAT(calls, >, 0);
    pal_store_close(small);
    free(text);
}

static void sessions_are_listed(void)
{
    RESULT(pal_session, found);
    RESULT(pal_session_page, page);
    pal_str alias = str("other-name");
    pal_session second = {.key = str("second"), .aliases = &alias, .aliases_len = 1};
    pal_session_query query = {.limit = 10};
    CHECK_STATUS(pal_store_create(store, &second, NULL, &err), PAL_OK, &err);
    CHECK_STATUS(pal_store_find(store, tenant, PAL_SESSION_BY_ALIAS, alias, arena, &found.it, &err),
            PAL_OK, &err);
    CHECK_EQ(found.canary, CANARY);
    CHECK_STR(found.it.key, "second");
    CHECK_EQ(found.it.aliases_len, 1);
    CHECK_STATUS(pal_store_list(store, &query, arena, &page.it, &err), PAL_OK, &err);
    CHECK_EQ(page.canary, CANARY);
    if (CHECK_EQ(page.it.sessions_len, 2)) {
        CHECK_STR(page.it.sessions[0].key, "second");
        CHECK_STR(page.it.sessions[1].key, "first");
    }
}

static void messages_are_appended_and_loaded(void)
{
    RESULT(pal_message_page, shown);
    pal_part parts[2] = {{.kind = PAL_PART_TEXT, .text = str("one")},
            {.kind = PAL_PART_TEXT, .text = str("two")}};
    pal_message messages[2] = {{.role = PAL_ROLE_USER, .parts = parts, .parts_len = 2},
            {.role = PAL_ROLE_ASSISTANT,
                    .parts = &parts[1],
                    .parts_len = 1,
                    .has_usage = true,
                    .usage = {.input = 3, .output = 4},
                    .extra = str("{\"mine\":true}")}};
    pal_message_query load = {.from_end = true, .limit = 5};
    CHECK_STATUS(pal_store_append(store, tenant, session, messages, 2, 0, &err), PAL_OK, &err);
    CHECK_EQ(messages[1].seq, 2);
    CHECK_STATUS(
            pal_store_load(store, tenant, session, &load, arena, &shown.it, &err), PAL_OK, &err);
    CHECK_EQ(shown.canary, CANARY);
    if (!CHECK_EQ(shown.it.len, 2))
        return;
    CHECK_EQ(shown.it.items[0].parts_len, 2);
    CHECK_STR(shown.it.items[0].parts[1].text, "two");
    CHECK_EQ(shown.it.items[1].usage.output, 4);
    CHECK_STR(shown.it.items[1].extra, "{\"mine\":true}");
}

static void marks_are_listed(void)
{
    RESULT(pal_active_marks, active);
    RESULT(pal_mark, reset);
    pal_mark pin = {.kind = PAL_MARK_PIN, .seq = 1}, undo = {.kind = PAL_MARK_UNDO};
    pal_mark *marks = NULL;
    size_t len = 0;
    CHECK_STATUS(pal_store_mark(store, tenant, session, &pin, &err), PAL_OK, &err);
    CHECK_STATUS(
            pal_store_active_marks(store, tenant, session, arena, &active.it, &err), PAL_OK, &err);
    CHECK_EQ(active.canary, CANARY);
    CHECK_EQ(active.it.pins_len, 1);
    CHECK_EQ(active.it.checkpoint.number, 0);
    CHECK_STATUS(pal_store_reset(store, tenant, session, false, &reset.it, &err), PAL_OK, &err);
    CHECK_EQ(reset.canary, CANARY);
    CHECK_STATUS(pal_store_mark(store, tenant, session, &undo, &err), PAL_OK, &err);
    CHECK_STATUS(pal_store_marks(store, tenant, session, arena, &marks, &len, &err), PAL_OK, &err);
    if (CHECK_EQ(len, 3)) {
        CHECK_EQ(marks[0].kind, PAL_MARK_PIN);
        CHECK(marks[1].undone);
        CHECK_EQ(marks[2].target, marks[1].number);
    }
}

static void messages_are_searched(void)
{
    RESULT(pal_search_page, hits);
    pal_search_query search = {.session = session, .text = str("two")};
    CHECK_STATUS(pal_store_search(store, &search, arena, &hits.it, &err), PAL_OK, &err);
    CHECK_EQ(hits.canary, CANARY);
    if (CHECK_EQ(hits.it.len, 2)) {
        CHECK_EQ(hits.it.items[0].seq, 2);
        CHECK_EQ(hits.it.items[1].seq, 1);
    }
}

static void operations_are_applied(void)
{
    pal_op ops[2];
    memset(ops, 0, sizeof ops);
    pal_record record = {.kind = str("abi"), .name = str("a"), .body = str("{}")};
    pal_ledger_row row = {.request_id = str("r1"), .purpose = str("turn"), .usage = {.output = 7}};
    RESULT(pal_ledger_sum, sum);
    RESULT(pal_record_page, records);
    RESULT(pal_sweep_result, sweep);
    RESULT(pal_store_stats, stats);
    pal_ledger_query ledger = {.session = session};
    pal_record_query query = {.kind = str("abi")};
    ops[0].kind = PAL_OP_RECORD_PUT;
    ops[0].u.record.record = &record;
    ops[0].u.record.expected_version = PAL_RECORD_VERSION_ANY;
    ops[1].kind = PAL_OP_LEDGER_ADD;
    ops[1].session = session;
    ops[1].u.ledger_row = &row;
    CHECK_STATUS(pal_store_apply(store, ops, 2, &err), PAL_OK, &err);
    CHECK_STATUS(ops[0].status, PAL_OK);
    CHECK_STATUS(ops[1].status, PAL_OK);
    CHECK_STATUS(pal_store_ledger_sum(store, &ledger, &sum.it, &err), PAL_OK, &err);
    CHECK_EQ(sum.canary, CANARY);
    CHECK_EQ(sum.it.usage.output, 7);
    CHECK_STATUS(pal_store_record_list(store, &query, arena, &records.it, &err), PAL_OK, &err);
    CHECK_EQ(records.canary, CANARY);
    CHECK_EQ(records.it.len, 1);
    CHECK_STATUS(pal_store_sweep(store, -1, 10, &sweep.it, &err), PAL_OK, &err);
    CHECK_EQ(sweep.canary, CANARY);
    CHECK_STATUS(pal_store_stat(store, arena, &stats.it, &err), PAL_OK, &err);
    CHECK_EQ(stats.canary, CANARY);
    CHECK_EQ(stats.it.sessions_active, 2);
}

static void leases_are_found(void)
{
    RESULT(pal_lease, lease);
    uint64_t fence = 0;
    CHECK_STATUS(pal_store_lease_take(store, tenant, session, str("abi"), 60000, &fence, &err),
            PAL_OK, &err);
    CHECK_STATUS(
            pal_store_lease_find(store, tenant, session, arena, &lease.it, &err), PAL_OK, &err);
    CHECK_EQ(lease.canary, CANARY);
    CHECK_EQ(lease.it.fence, fence);
    CHECK_EQ(lease.it.ttl_ms, 60000);
    CHECK_STATUS(pal_store_lease_release(store, tenant, session, fence, &err), PAL_OK, &err);
}

static void sessions_are_resolved_and_erased(void)
{
    RESULT(pal_resolve_result, found);
    RESULT(pal_erase_result, erased);
    pal_session chat = {.key = str("third")};
    pal_resolve_request request = {.session = &chat, .main_alias = str("agent:main:main")};
    CHECK_STATUS(pal_store_resolve(store, &request, &found.it, &err), PAL_OK, &err);
    CHECK_EQ(found.canary, CANARY);
    CHECK(found.it.created);
    CHECK_STATUS(
            pal_store_erase(store, tenant, found.it.session, &erased.it, &err), PAL_OK, &err);
    CHECK_EQ(erased.canary, CANARY);
    CHECK_EQ(erased.it.messages, 0);
}

/* ---- Decisions ---- */

static void models_are_found(void)
{
    pal_model_rule rules[2] = {{.pattern = str("first"), .context = 1000},
            {.pattern = str("second"), .context = 2000}};
    pal_models *models = NULL;
    RESULT(pal_model_rule, builtin);
    CHECK_STATUS(pal_models_new(rules, 2, &models, &err), PAL_OK, &err);
    pal_model model = pal_models_find(models, str("second"));
    CHECK_EQ(model.context, 2000);
    CHECK(pal_models_builtin(0, &builtin.it));
    CHECK_EQ(builtin.canary, CANARY);
    pal_models_free(models);
}

static void messages_are_routed(void)
{
    static const pal_str dimensions[] = {{"chat", 4}};
    pal_route_agent agents[2] = {{.id = str("one")}, {.id = str("two"), .is_default = true}};
    pal_route_config config = {.dimensions = dimensions,
            .dimensions_len = 1,
            .agents = agents,
            .agents_len = 2};
    pal_route_context context = {.channel = str("irc"), .chat_id = str("#c")};
    pal_route_settings *settings = NULL;
    RESULT(pal_route, route);
    CHECK_STATUS(pal_route_settings_new(&config, &settings, &err), PAL_OK, &err);
    CHECK_STATUS(pal_route_decide(settings, &context, arena, &route.it, &err), PAL_OK, &err);
    CHECK_EQ(route.canary, CANARY);
    CHECK_STR(route.it.agent, "two");
    pal_route_settings_free(settings);
}

static void a_context_is_planned(void)
{
    pal_message messages[2] = {pal_message_text(arena, PAL_ROLE_USER, str("hello")),
            pal_message_text(arena, PAL_ROLE_ASSISTANT, str("good day"))};
    messages[0].seq = 1;
    messages[1].seq = 2;
    pal_tool tools[2] = {{.name = str("a"), .description = str("first")},
            {.name = str("b"), .description = str("second")}};
    pal_context_input input = {.messages = messages,
            .messages_len = 2,
            .tools = tools,
            .tools_len = 2,
            .limits = {.context = 10000}};
    RESULT(pal_plan, plan);
    CHECK_STATUS(pal_context_plan(&input, arena, &plan.it, &err), PAL_OK, &err);
    CHECK_EQ(plan.canary, CANARY);
    CHECK_EQ(plan.it.action, PAL_PLAN_ACTION_SEND);
    if (CHECK_EQ(plan.it.items_len, 3)) {
        CHECK_EQ(plan.it.items[0].kind, PAL_PLAN_ITEM_TOOLS);
        CHECK_EQ(plan.it.items[2].seq, 2);
    }
}

static void a_configuration_is_read(void)
{
    pal_config *config = NULL;
    RESULT(pal_config_key, key);
    RESULT(pal_runtime_options, options);
    pal_str text = str("providers:\n  - {name: one, kind: echo}\n  - {name: two, kind: echo}\n"
                       "server: {streams_max: 77}\n");
    CHECK_STATUS(pal_config_parse(text, "abi", &config, &err), PAL_OK, &err);
    CHECK_EQ(pal_config_get(config)->server.streams_max, 77);
    CHECK_STATUS(pal_config_runtime(config, arena, &options.it, &err), PAL_OK, &err);
    CHECK_EQ(options.canary, CANARY);
    if (CHECK_EQ(options.it.endpoints_len, 2))
        CHECK_STR(options.it.endpoints[1].name, "two");
    CHECK(pal_config_key_at(0, &key.it));
    CHECK_EQ(key.canary, CANARY);
    pal_config_free(config);
}

/* ---- Turns ---- */

typedef struct heard {
    char text[256];
    size_t len;
    pal_turn_state state;
    uint64_t output;
} heard;

static bool hear(const pal_event *event, void *user)
{
    heard *h = user;
    if (event->kind == PAL_EVENT_TEXT && h->len + event->text.len < sizeof h->text) {
        memcpy(h->text + h->len, event->text.data, event->text.len);
        h->len += event->text.len;
    }
    if (event->kind == PAL_EVENT_ENDED) {
        h->state = event->state;
        h->output = event->usage.output;
    }
    return true;
}

static void a_runtime_runs_turns(void)
{
    pal_endpoint endpoints[2] = {{.name = str("unused"), .kind = str("echo")},
            {.name = str("second"), .kind = str("echo"), .model = str("echo-2")}};
    pal_context_settings context = {.strategy = PAL_STRATEGY_SLIDING_WINDOW};
    pal_agent_settings agents[2] = {
            {.name = str("plain")}, {.name = str("slider"), .context = &context}};
    pal_runtime_options options = {.store = store,
            .endpoints = endpoints,
            .endpoints_len = 2,
            .agents = agents,
            .agents_len = 2};
    pal_message said = pal_message_text(arena, PAL_ROLE_USER, str("is anybody there"));
    pal_turn_request request = {.session = session,
            .messages = &said,
            .messages_len = 1,
            .endpoint = str("second"),
            .agent = str("slider")};
    RESULT(pal_turn_info, info);
    RESULT(pal_plan, plan);
    RESULT(pal_runtime_stats, stats);
    pal_str answer = {0};
    heard h = {0};
    if (!CHECK_STATUS(pal_runtime_open(&options, &runtime, &err), PAL_OK, &err))
        return;
    CHECK_STATUS(pal_turn_plan(runtime, &request, arena, &plan.it, &err), PAL_OK, &err);
    CHECK_EQ(plan.canary, CANARY);
    CHECK_EQ(plan.it.strategy, PAL_STRATEGY_SLIDING_WINDOW);
    CHECK_STATUS(pal_turn_start(runtime, &request, &info.it, &err), PAL_OK, &err);
    CHECK_EQ(info.canary, CANARY);
    pal_id turn = info.it.turn;
    CHECK_STATUS(pal_turn_watch(runtime, tenant, turn, 0, hear, NULL, &h, &err), PAL_OK, &err);
    CHECK_STATUS(
            pal_turn_wait(runtime, tenant, turn, -1, arena, &info.it, &answer, &err), PAL_OK, &err);
    CHECK_EQ(info.canary, CANARY);
    CHECK_EQ(info.it.state, PAL_TURN_DONE);
    pal_turn_unwatch(runtime, turn, &h);
    CHECK_CONTAINS(h.text, "is anybody there");
    CHECK_EQ(h.state, PAL_TURN_DONE);
    pal_runtime_stat(runtime, &stats.it);
    CHECK_EQ(stats.canary, CANARY);
    CHECK_EQ(stats.it.turns_ended, 1);
    pal_runtime_close(runtime, 1000);
}

int main(void)
{
    pal_session first = {.key = str("first"), .metadata = str("{\"abi\":true}")};
    arena = pal_arena_new(0);
    if (pal_store_open("memory:", NULL, &store, &err) != PAL_OK ||
            pal_store_create(store, &first, &session, &err) != PAL_OK)
        return 1;
    RUN(options_are_read);
    RUN(sessions_are_listed);
    RUN(messages_are_appended_and_loaded);
    RUN(marks_are_listed);
    RUN(messages_are_searched);
    RUN(operations_are_applied);
    RUN(leases_are_found);
    RUN(sessions_are_resolved_and_erased);
    RUN(models_are_found);
    RUN(messages_are_routed);
    RUN(a_context_is_planned);
    RUN(a_configuration_is_read);
    RUN(a_runtime_runs_turns);
    pal_store_close(store);
    pal_arena_free(arena);
    return tap_done();
}
