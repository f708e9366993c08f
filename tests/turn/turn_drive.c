/* turn_drive.c - lets a script run turns through the library.
 *
 *   turn_drive < REQUESTS > EVENTS
 *
 * The first line names the things to open:
 * {"store":URL,"endpoints":[{"name","kind","url","key","path",
 * "model"}],"servers":[{"name","command":[...],"call_ms"}],"retries_max","max_tool_iterations",
 * "lease_ms","turn_ms"}. Each further line is one of
 *
 *   {"start":TURN,"session":KEY,"text":...}  optional: "lane", "tools":[{"name","schema"}],
 *                                            "client_id", "whole", "model", "endpoint", "label"
 *   {"cancel":TURN}  {"allow":TURN,"yes":true}
 *   {"results":TURN,"session":KEY,"outputs":{CALL:TEXT,...}}
 *   {"tools":N}      waits until the servers offer N tools
 *   {"log":KEY}  {"ledger":KEY}  {"stats":true}  {"check":true}  {"close":DRAIN_MS}
 *
 * and is answered by one line with the same first member, after the awaited event. The events of
 * all turns, {"turn":TURN,"event":KIND,...}, are printed in between when they happen. TURN is the
 * script's name for a turn, KEY the key of a session, which is created if it is new. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/buf.h"
#include "base/json/json.h"
#include "dialect/dialect_member.h"
#include "palaver/palaver.h"

enum { TURNS_MAX = 4096, LIST_MAX = 64, POLL_MS = 5 };

typedef struct named_turn {
    pal_str name; /* in `kept` */
    pal_id id;
} named_turn;

static pal_store *store;
static pal_runtime *runtime;
static pal_arena *kept; /* lives as long as the program */
static named_turn turns[TURNS_MAX];
static size_t turns_len;
static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;

static void fail(const char *what, const pal_error *err)
{
    fprintf(stderr, "turn_drive: %s: %s\n", what, err ? err->message : "");
    exit(2);
}

/* ---- Lines out ---- */

typedef struct line {
    pal_buf buf;
    pal_json_writer json;
} line;

static void line_begin(line *out)
{
    pal_buf_init(&out->buf, SIZE_MAX / 2);
    out->json = pal_json_writer_make(&out->buf);
    pal_json_begin_object(&out->json);
}

static void put_str(line *out, const char *name, pal_str text)
{
    pal_json_name(&out->json, name);
    pal_json_put_str(&out->json, text);
}

static void put_text(line *out, const char *name, const char *text)
{
    put_str(out, name, pal_str_of(text));
}

static void put_number(line *out, const char *name, uint64_t number)
{
    pal_json_name(&out->json, name);
    pal_json_put_u64(&out->json, number);
}

static void put_bool(line *out, const char *name, bool value)
{
    pal_json_name(&out->json, name);
    pal_json_put_bool(&out->json, value);
}

/* Writes complete lines, from any thread. */
static void line_end(line *out)
{
    pal_json_end_object(&out->json);
    pal_buf_append_char(&out->buf, '\n');
    if (out->buf.failure)
        fail("out of memory", NULL);
    pthread_mutex_lock(&out_lock);
    fwrite(out->buf.data, 1, out->buf.len, stdout);
    fflush(stdout);
    pthread_mutex_unlock(&out_lock);
    pal_buf_done(&out->buf);
}

static void put_outcome(line *out, pal_status status, const pal_error *err)
{
    put_text(out, "status", pal_status_name(status));
    if (status != PAL_OK)
        put_text(out, "reason", err->message);
}

/* ---- Lines in ---- */

static uint64_t number_of(pal_json object, const char *name)
{
    uint64_t number = 0;

    pal_json_u64(pal_json_find(object, name), &number);
    return number;
}

static bool flag_of(pal_json object, const char *name)
{
    bool value = false;

    pal_json_bool(pal_json_find(object, name), &value);
    return value;
}

static size_t read_endpoints(pal_json list, pal_endpoint *out)
{
    pal_json_iter each = pal_json_each(list);
    size_t len = 0;
    pal_json value;

    while (len < LIST_MAX && pal_json_next(&each, NULL, &value))
        out[len++] = (pal_endpoint){.name = pal_member_string(value, "name", kept),
                .kind = pal_member_string(value, "kind", kept),
                .url = pal_member_string(value, "url", kept),
                .api_key = pal_member_string(value, "key", kept),
                .path = pal_member_string(value, "path", kept),
                .model = pal_member_string(value, "model", kept)};
    return len;
}

static size_t read_servers(pal_json list, pal_tool_server *out)
{
    pal_json_iter each = pal_json_each(list), words;
    size_t len = 0;
    pal_json value, word;

    while (len < LIST_MAX && pal_json_next(&each, NULL, &value)) {
        pal_json command = pal_json_find(value, "command");
        pal_str *texts = pal_arena_array(kept, pal_json_count(command) + 1, sizeof(*texts));
        pal_tool_server *server = &out[len++];

        if (!texts)
            fail("out of memory", NULL);
        *server = (pal_tool_server){.name = pal_member_string(value, "name", kept),
                .command = texts,
                .call_ms = (int64_t)number_of(value, "call_ms")};
        words = pal_json_each(command);
        while (pal_json_next(&words, NULL, &word))
            texts[server->command_len++] = pal_json_string(word, kept);
    }
    return len;
}

static void open_all(pal_json in)
{
    static pal_endpoint endpoints[LIST_MAX];
    static pal_tool_server servers[LIST_MAX];
    static const pal_permission_rule all = {
            .tool = {"*", 1}, .permission = PAL_PERMISSION_ALLOW};
    pal_runtime_options options = {.endpoints = endpoints,
            .tool_servers = servers,
            .permissions = &all,
            .permissions_len = 1,
            .builtin_tools_off = true,
            .retries_max = (uint32_t)number_of(in, "retries_max"),
            .max_tool_iterations = (uint32_t)number_of(in, "max_tool_iterations"),
            .lease_ms = (int64_t)number_of(in, "lease_ms"),
            .turn_ms = (int64_t)number_of(in, "turn_ms")};
    pal_str url = pal_arena_copy(kept, pal_member_string(in, "store", kept)); /* terminated */
    pal_error err = {0};
    line out;

    if (pal_store_open(url.data, NULL, &store, &err) != PAL_OK)
        fail("store", &err);
    options.store = store;
    options.endpoints_len = read_endpoints(pal_json_find(in, "endpoints"), endpoints);
    options.tool_servers_len = read_servers(pal_json_find(in, "servers"), servers);
    if (pal_runtime_open(&options, &runtime, &err) != PAL_OK)
        fail("runtime", &err);
    line_begin(&out);
    put_bool(&out, "open", true);
    line_end(&out);
}

static pal_id session_named(pal_str key)
{
    pal_session session = {.key = key};
    pal_arena *arena = pal_arena_new(0);
    pal_error err = {0};
    pal_status status = pal_store_create(store, &session, &session.id, &err);

    if (status == PAL_CONFLICT)
        status = pal_store_find(
                store, pal_str_of(""), PAL_SESSION_BY_KEY, key, arena, &session, &err);
    if (status != PAL_OK)
        fail("session", &err);
    pal_arena_free(arena);
    return session.id;
}

/* Returns the empty id if the name is unknown: it may be the name of an earlier process. */
static pal_id turn_named(pal_str name)
{
    for (size_t i = turns_len; i > 0; i--)
        if (pal_str_equal(turns[i - 1].name, name))
            return turns[i - 1].id;
    return (pal_id){{0}};
}

/* ---- Turns ---- */

static bool told(const pal_event *event, void *user)
{
    const named_turn *turn = user;
    line out;

    line_begin(&out);
    put_str(&out, "turn", turn->name);
    put_text(&out, "event", pal_event_kind_name(event->kind));
    put_number(&out, "number", event->number);
    put_str(&out, "text", event->text);
    put_str(&out, "call_id", event->call_id);
    put_str(&out, "name", event->name);
    put_number(&out, "count", event->count);
    put_number(&out, "seq", event->seq);
    put_text(&out, "state", pal_turn_state_name(event->state));
    put_text(&out, "status", pal_status_name(event->status));
    put_number(&out, "input", event->usage.input);
    put_number(&out, "output", event->usage.output);
    put_bool(&out, "length", event->finish == PAL_FINISH_LENGTH);
    line_end(&out);
    return true;
}

static pal_turn_lane lane_of(pal_json in)
{
    static const char *const names[] = {"reject", "queue", "steer", "interrupt"};

    for (int i = 0; i < 4; i++)
        if (pal_json_string_is(pal_json_find(in, "lane"), names[i]))
            return (pal_turn_lane)i;
    return PAL_TURN_LANE_REJECT;
}

static size_t read_tools(pal_json list, pal_arena *arena, pal_tool *out)
{
    pal_json_iter each = pal_json_each(list);
    size_t len = 0;
    pal_json value;

    while (len < LIST_MAX && pal_json_next(&each, NULL, &value))
        out[len++] = (pal_tool){.name = pal_member_string(value, "name", arena),
                .schema = pal_json_raw(pal_json_find(value, "schema"))};
    return len;
}

static void watch(pal_str name, pal_id id)
{
    named_turn *turn = &turns[turns_len];
    pal_error err = {0};

    if (turns_len++ == TURNS_MAX)
        fail("too many turns", NULL);
    *turn = (named_turn){.name = pal_arena_copy(kept, name), .id = id};
    if (pal_turn_watch(runtime, pal_str_of(""), id, 0, told, NULL, turn, &err) != PAL_OK)
        fail("watch", &err);
}

static void start(pal_json in, pal_arena *arena)
{
    pal_tool tools[LIST_MAX];
    pal_str name = pal_member_string(in, "start", arena);
    pal_str text = pal_member_string(in, "text", arena);
    pal_message message = pal_message_text(arena, PAL_ROLE_USER, text);
    pal_turn_request request = {.session = session_named(pal_member_string(in, "session", arena)),
            .messages = &message,
            .messages_len = pal_json_type_of(pal_json_find(in, "text")) == PAL_JSON_STRING,
            .lane = lane_of(in),
            .endpoint = pal_member_string(in, "endpoint", arena),
            .model = pal_member_string(in, "model", arena),
            .label = pal_member_string(in, "label", arena),
            .tools = tools,
            .tools_len = read_tools(pal_json_find(in, "tools"), arena, tools),
            .all_or_nothing = flag_of(in, "whole")};
    pal_turn_info info = {0};
    pal_error err = {0};
    pal_status status;
    line out;

    message.client_id = pal_member_string(in, "client_id", arena);
    status = pal_turn_start(runtime, &request, &info, &err);
    line_begin(&out);
    put_str(&out, "start", name);
    put_outcome(&out, status, &err);
    put_text(&out, "state", pal_turn_state_name(info.state));
    put_bool(&out, "replayed", info.replayed);
    put_bool(&out, "steered", info.steered);
    line_end(&out);
    if (status == PAL_OK && !info.steered && !pal_id_is_none(info.turn))
        watch(name, info.turn);
}

static void cancel(pal_json in, pal_arena *arena)
{
    pal_str name = pal_member_string(in, "cancel", arena);
    pal_error err = {0};
    pal_status status = pal_turn_cancel(runtime, pal_str_of(""), turn_named(name), &err);
    line out;

    line_begin(&out);
    put_str(&out, "cancel", name);
    put_outcome(&out, status, &err);
    line_end(&out);
}

static void allow(pal_json in, pal_arena *arena)
{
    pal_str name = pal_member_string(in, "allow", arena);
    pal_error err = {0};
    pal_status status =
            pal_turn_allow(runtime, pal_str_of(""), turn_named(name), flag_of(in, "yes"), &err);
    line out;

    line_begin(&out);
    put_str(&out, "allow", name);
    put_outcome(&out, status, &err);
    line_end(&out);
}

static void results(pal_json in, pal_arena *arena)
{
    pal_json outputs = pal_json_find(in, "outputs"), call, text;
    pal_json_iter each = pal_json_each(outputs);
    pal_part *parts = pal_arena_array(arena, pal_json_count(outputs) + 1, sizeof(*parts));
    pal_message message = {.role = PAL_ROLE_TOOL, .parts = parts};
    pal_str name = pal_member_string(in, "results", arena);
    pal_id known = turn_named(name);
    pal_turn_info info = {0};
    pal_error err = {0};
    pal_status status;
    line out;

    while (parts && pal_json_next(&each, &call, &text))
        parts[message.parts_len++] = (pal_part){.kind = PAL_PART_TOOL_RESULT,
                .call_id = pal_json_string(call, arena),
                .text = pal_json_string(text, arena)};
    status = pal_turn_results(runtime, pal_str_of(""),
            session_named(pal_member_string(in, "session", arena)), known, &message, 1, &info,
            &err);
    line_begin(&out);
    put_str(&out, "results", name);
    put_outcome(&out, status, &err);
    line_end(&out);
    if (status == PAL_OK && !pal_id_equal(info.turn, known))
        watch(name, info.turn); /* after a restart it is another one */
}

/* ---- Looking ---- */

static void show_log(pal_json in, pal_arena *arena)
{
    pal_str key = pal_member_string(in, "log", arena);
    pal_message_page list = {0};
    pal_error err = {0};
    line out;

    if (pal_store_load(store, pal_str_of(""), session_named(key), NULL, arena, &list, &err))
        fail("log", &err);
    line_begin(&out);
    put_str(&out, "log", key);
    pal_json_name(&out.json, "messages");
    pal_json_begin_array(&out.json);
    for (size_t i = 0; i < list.len; i++) {
        pal_str json = {0};

        if (pal_message_to_json(&list.items[i], arena, &json, &err))
            fail("message", &err);
        pal_json_put_raw(&out.json, json);
    }
    pal_json_end_array(&out.json);
    line_end(&out);
}

static void show_ledger(pal_json in, pal_arena *arena)
{
    pal_str key = pal_member_string(in, "ledger", arena);
    pal_ledger_query query = {.session = session_named(key)};
    pal_ledger_sum sum = {0};
    pal_error err = {0};
    line out;

    if (pal_store_ledger_sum(store, &query, &sum, &err))
        fail("ledger", &err);
    line_begin(&out);
    put_str(&out, "ledger", key);
    put_number(&out, "calls", sum.calls);
    put_number(&out, "input", sum.usage.input);
    put_number(&out, "output", sum.usage.output);
    line_end(&out);
}

static void show_stats(void)
{
    pal_runtime_stats stats;
    line out;

    pal_runtime_stat(runtime, &stats);
    line_begin(&out);
    put_bool(&out, "stats", true);
    put_number(&out, "running", stats.turns_running);
    put_number(&out, "queued", stats.turns_queued);
    put_number(&out, "ended", stats.turns_ended);
    put_number(&out, "failed", stats.turns_failed);
    put_number(&out, "calls", stats.model_calls);
    put_number(&out, "retries", stats.model_retries);
    put_number(&out, "tool_calls", stats.tool_calls);
    line_end(&out);
}

static void print_finding(const pal_store_finding *finding, void *user)
{
    (void)user;
    fprintf(stderr, "turn_drive: found: %s\n", finding->text);
}

static void check(void)
{
    uint64_t findings = 0;
    pal_error err = {0};
    pal_status status = pal_store_check(store, false, print_finding, NULL, NULL, &findings, &err);
    line out;

    line_begin(&out);
    put_bool(&out, "check", true);
    put_outcome(&out, status, &err);
    put_number(&out, "findings", findings);
    line_end(&out);
}

static void wait_tools(pal_json in)
{
    static const struct timespec moment = {.tv_nsec = POLL_MS * 1000000};
    uint64_t wanted = number_of(in, "tools");
    pal_error err = {0};
    size_t len = 0;
    line out;

    while (len < wanted) {
        pal_arena *arena = pal_arena_new(0);
        pal_tool *tools;

        if (pal_runtime_tools(runtime, arena, &tools, &len, &err) != PAL_OK)
            fail("tools", &err);
        pal_arena_free(arena);
        if (len < wanted)
            nanosleep(&moment, NULL); /* servers start in the background and do not report it */
    }
    line_begin(&out);
    put_number(&out, "tools", len);
    line_end(&out);
}

static void close_runtime(pal_json in)
{
    line out;

    pal_runtime_close(runtime, (int64_t)number_of(in, "close"));
    runtime = NULL;
    line_begin(&out);
    put_bool(&out, "close", true);
    line_end(&out);
}

static bool has(pal_json in, const char *name)
{
    return pal_json_type_of(pal_json_find(in, name)) > PAL_JSON_NULL;
}

static void run(pal_json in, pal_arena *arena)
{
    if (!store)
        open_all(in);
    else if (has(in, "start"))
        start(in, arena);
    else if (has(in, "cancel"))
        cancel(in, arena);
    else if (has(in, "allow"))
        allow(in, arena);
    else if (has(in, "results"))
        results(in, arena);
    else if (has(in, "tools"))
        wait_tools(in);
    else if (has(in, "log"))
        show_log(in, arena);
    else if (has(in, "ledger"))
        show_ledger(in, arena);
    else if (has(in, "stats"))
        show_stats();
    else if (has(in, "check"))
        check();
    else if (has(in, "close"))
        close_runtime(in);
    else
        fail("what?", NULL);
}

int main(void)
{
    char *text = NULL;
    size_t cap = 0;
    ssize_t len;

    kept = pal_arena_new(0);
    while ((len = getline(&text, &cap, stdin)) > 0) {
        pal_arena *arena = pal_arena_new(0);
        pal_error err = {0};
        pal_json in;

        if (pal_json_parse(arena, pal_str_make(text, (size_t)len), NULL, &in, &err) != PAL_OK)
            fail("a line", &err);
        run(in, arena);
        pal_arena_free(arena);
    }
    pal_runtime_close(runtime, 0);
    pal_store_close(store);
    pal_arena_free(kept);
    free(text);
    return 0;
}
