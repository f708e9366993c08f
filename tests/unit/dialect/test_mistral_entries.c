/* test_mistral_entries.c - converts Mistral's entries to our messages and back. */
#include "base/json/json.h"
#include "base/memory.h"
#include "dialect/mistral/mistral_entries.h"
#include "support/tap.h"

static pal_arena *arena;
static pal_error error;
static pal_message *messages;
static size_t messages_len;

static pal_status read_inputs(const char *json)
{
    pal_json value;
    memset(&error, 0, sizeof error);
    if (pal_json_parse(arena, pal_str_of(json), NULL, &value, &error) != PAL_OK)
        printf("# %s: %s\n", json, error.message);
    return pal_mistral_inputs_read(value, arena, &messages, &messages_len, &error);
}

static bool reads(const char *json)
{
    pal_status status = read_inputs(json);
    if (status != PAL_OK)
        printf("# %s: %s\n", json, error.message);
    return status == PAL_OK;
}

static bool refused(const char *json, const char *text)
{
    pal_status status = read_inputs(json);
    if (status == PAL_INVALID && strstr(error.message, text))
        return true;
    printf("# %s: %s '%s'\n", json, pal_status_name(status), error.message);
    return false;
}

static size_t entries_of(const pal_mistral_view *view, pal_mistral_entry **out_entries)
{
    size_t len = 0;
    for (size_t i = 0; i < messages_len; i++)
        messages[i].id.bytes[15] = (uint8_t)(i + 1);
    CHECK_STATUS(
            pal_mistral_entries_of(messages, messages_len, view, arena, out_entries, &len, &error),
            PAL_OK, &error);
    return len;
}

/* The messages as entries, without members that were not in the input. */
static pal_json shown(void)
{
    const pal_mistral_view view = {0};
    pal_mistral_entry *entries;
    pal_json value = {0};
    pal_buf buf;
    pal_buf_init(&buf, 1 << 20);
    pal_json_writer writer = pal_json_writer_make(&buf);
    size_t len = entries_of(&view, &entries);
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < len; i++)
        pal_mistral_entry_put(&writer, &entries[i], arena);
    pal_json_end_array(&writer);
    pal_str json = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    CHECK_STATUS(pal_json_parse(arena, json, NULL, &value, &error), PAL_OK, &error);
    return value;
}

/* Every member of every entry is written again, in the same order. */
static bool survives(const char *json)
{
    pal_json read, written, entry, again, name, value;
    if (!reads(json) || pal_json_parse(arena, pal_str_of(json), NULL, &read, NULL) != PAL_OK)
        return false;
    written = shown();
    if (pal_json_count(read) != pal_json_count(written)) {
        printf("# %.*s\n", PAL_STR_ARG(pal_json_raw(written)));
        return false;
    }
    pal_json_iter in = pal_json_each(read), out = pal_json_each(written);
    while (pal_json_next(&in, NULL, &entry) && pal_json_next(&out, NULL, &again)) {
        for (pal_json_iter each = pal_json_each(entry); pal_json_next(&each, &name, &value);) {
            pal_str text = pal_arena_copy(arena, pal_json_string(name, arena));
            if (!pal_json_equal(pal_json_find(again, text.data), value)) {
                printf("# '%s' of %.*s\n", text.data, PAL_STR_ARG(pal_json_raw(again)));
                return false;
            }
        }
    }
    return true;
}

static void a_text_becomes_one_user_message(void)
{
    CHECK(reads("\"hi\""));
    if (CHECK_EQ(messages_len, 1))
        CHECK_EQ(messages[0].role, PAL_ROLE_USER);
    CHECK_STR(messages[0].parts[0].text, "hi");
}

static void entries_survive_a_round_trip(void)
{
    CHECK(survives("[{\"type\":\"message.input\",\"role\":\"user\",\"content\":\"a\"},"
                   "{\"type\":\"message.output\",\"content\":\"b\"},"
                   "{\"type\":\"message.input\",\"role\":\"assistant\",\"content\":\"c\","
                   "\"prefix\":true}]"));
    CHECK(survives("[{\"type\":\"message.input\",\"role\":\"user\",\"content\":["
                   "{\"type\":\"text\",\"text\":\"a\"},"
                   "{\"type\":\"image_url\",\"image_url\":\"http://x/y.png\"},"
                   "{\"type\":\"document_url\",\"document_url\":\"http://x/y.pdf\","
                   "\"document_name\":\"y\"},"
                   "{\"type\":\"tool_reference\",\"tool\":\"web_search\",\"title\":\"T\",\"n\":1}"
                   "]}]"));
    CHECK(survives("[{\"type\":\"message.output\",\"content\":[{\"type\":\"thinking\",\"thinking\":"
                   "[{\"type\":\"text\",\"text\":\"hm\"}]},{\"type\":\"text\",\"text\":\"a\"}]}]"));
    CHECK(survives("[{\"type\":\"function.call\",\"tool_call_id\":\"c\",\"name\":\"f\","
                   "\"arguments\":\"{ }\"},{\"type\":\"function.call\",\"tool_call_id\":\"d\","
                   "\"name\":\"g\",\"arguments\":\"\\u0000\"},"
                   "{\"type\":\"function.result\",\"tool_call_id\":\"c\",\"result\":\"r\"}]"));
    CHECK(survives("[{\"type\":\"tool.execution\",\"name\":\"s\",\"arguments\":\"{}\","
                   "\"info\":{\"a\":[1]}},{\"type\":\"agent.handoff\",\"previous_agent_id\":\"a\","
                   "\"previous_agent_name\":\"A\",\"next_agent_id\":\"b\","
                   "\"next_agent_name\":\"B\"}]"));
}

static void calls_join_the_assistants_message(void)
{
    CHECK(reads("[{\"type\":\"message.output\",\"content\":\"a\"},"
                "{\"type\":\"function.call\",\"tool_call_id\":\"c\",\"name\":\"f\","
                "\"arguments\":{\"x\":1}},"
                "{\"type\":\"function.call\",\"tool_call_id\":\"d\",\"name\":\"f\","
                "\"arguments\":\"{}\"},"
                "{\"type\":\"function.result\",\"tool_call_id\":\"c\",\"result\":\"r\"}]"));
    if (CHECK_EQ(messages_len, 2))
        CHECK_EQ(messages[0].parts_len, 3);
    CHECK_STR(messages[0].parts[1].arguments, "{\"x\":1}");
    CHECK_EQ(messages[1].role, PAL_ROLE_TOOL);
}

static void wrong_entries_are_reported(void)
{
    CHECK(refused("7", "'inputs'"));
    CHECK(refused("[{\"type\":\"x\"}]", "inputs[0]: member 'type'"));
    CHECK(refused("[\"x\"]", "inputs[0]: an entry must be an object"));
    CHECK(refused("[{\"role\":\"tool\",\"content\":\"\"}]", "inputs[0]: member 'role'"));
    CHECK(refused("[{\"role\":\"user\",\"content\":1}]", "member 'content'"));
    CHECK(refused("[{\"role\":\"user\",\"content\":[{\"type\":\"input_audio\"}]}]",
            "inputs[0]: content[0]: member 'type'"));
    CHECK(refused("[{\"type\":\"function.call\",\"tool_call_id\":\"\",\"name\":\"f\","
                  "\"arguments\":\"\"}]",
            "'tool_call_id' is empty"));
    CHECK(refused("[{\"type\":\"function.result\",\"tool_call_id\":\"c\",\"result\":{}}]",
            "member 'result'"));
    CHECK(refused("[{\"type\":\"agent.handoff\"}]", "'previous_agent_id'"));
}

/* An answer of a model: reasoning without text, a text, two calls, a text. */
static void an_entry_id_comes_from_its_first_visible_part(void)
{
    pal_part parts[] = {
            {.kind = PAL_PART_REASONING, .signature = pal_str_of("s")},
            {.kind = PAL_PART_TEXT, .text = pal_str_of("a")},
            {.kind = PAL_PART_TOOL_CALL, .call_id = pal_str_of("c"), .name = pal_str_of("own")},
            {.kind = PAL_PART_TOOL_CALL, .call_id = pal_str_of("d"), .name = pal_str_of("f")},
            {.kind = PAL_PART_TEXT, .text = pal_str_of("b")},
    };
    pal_part results[] = {
            {.kind = PAL_PART_TOOL_RESULT, .call_id = pal_str_of("c"), .text = pal_str_of("r")}};
    pal_message list[] = {
            {.role = PAL_ROLE_ASSISTANT, .parts = parts, .parts_len = 5},
            {.role = PAL_ROLE_TOOL, .parts = results, .parts_len = 1},
    };
    const pal_tool tool = {.name = pal_str_of("own")};
    const pal_mistral_view view = {.tools = &tool, .tools_len = 1};
    const struct {
        pal_entry_kind kind;
        const char *id;
    } wanted[] = {
            {PAL_ENTRY_MESSAGE, "msg_00000000000000000000000000000001_1"},
            {PAL_ENTRY_EXECUTION, "tool_exec_00000000000000000000000000000001_2"},
            {PAL_ENTRY_CALL, "fc_00000000000000000000000000000001_3"},
            {PAL_ENTRY_MESSAGE, "msg_00000000000000000000000000000001_4"},
    };
    pal_mistral_entry *entries;
    messages = list;
    messages_len = 2;
    size_t len = entries_of(&view, &entries);
    CHECK_EQ(len, 4);
    for (size_t i = 0; i < len && i < 4; i++) {
        char id[PAL_MISTRAL_ENTRY_ID_SIZE];
        pal_id message;
        pal_mistral_entry_id(entries[i].kind, entries[i].message->id, entries[i].number, id);
        CHECK_EQ(entries[i].kind, wanted[i].kind);
        CHECK_STR(id, wanted[i].id);
        CHECK(pal_mistral_entry_parse(pal_str_of(id), &message));
        CHECK_ID(message, list[0].id);
    }
    if (CHECK_EQ(len, 4))
        CHECK_PTR(entries[1].result, &results[0]);

    /* If the text is hidden, the other entries keep their names. */
    pal_part seen[] = {parts[2], parts[4]};
    seen[0].number = 3;
    seen[1].number = 5;
    list[0].parts = seen;
    list[0].parts_len = 2;
    CHECK_EQ(entries_of(&view, &entries), 2);
    CHECK_EQ(entries[0].number, 2);
    CHECK_EQ(entries[1].number, 4);
}

static void foreign_ids_are_not_entry_ids(void)
{
    static const char *const texts[] = {"", "msg_", "msg_1", "x_00000000000000000000000000000001",
            "msg_0000000000000000000000000000000g", "msg_00000000000000000000000000000001x"};
    pal_id id;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK(!pal_mistral_entry_parse(pal_str_of(texts[i]), &id));
}

static void an_allocation_failure_is_reported(void)
{
    static const char json[] = "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":"
                               "\"\\u0041\"}]},{\"type\":\"tool.execution\",\"name\":\"s\","
                               "\"arguments\":\"{}\",\"info\":{}},{\"type\":\"agent.handoff\","
                               "\"previous_agent_id\":\"a\",\"previous_agent_name\":\"A\","
                               "\"next_agent_id\":\"b\",\"next_agent_name\":\"B\"}]";
    pal_status status = PAL_NO_MEMORY;
    for (uint64_t nth = 1; nth < 1000 && status != PAL_OK; nth++) {
        pal_json value;
        pal_mistral_entry *entries;
        size_t len;
        const pal_mistral_view view = {0};
        pal_memory_fail_at(nth, 0);
        pal_arena *own = pal_arena_new(0);
        status = own ? pal_json_parse(own, pal_str_of(json), NULL, &value, &error) : PAL_NO_MEMORY;
        if (status == PAL_OK)
            status = pal_mistral_inputs_read(value, own, &messages, &messages_len, &error);
        if (status == PAL_OK)
            status = pal_mistral_entries_of(
                    messages, messages_len, &view, own, &entries, &len, &error);
        pal_memory_fail_at(0, 0);
        CHECK_STATUS_EITHER(status, PAL_OK, PAL_NO_MEMORY);
        pal_arena_free(own);
    }
    CHECK_STATUS(status, PAL_OK);
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(a_text_becomes_one_user_message);
    RUN(entries_survive_a_round_trip);
    RUN(calls_join_the_assistants_message);
    RUN(wrong_entries_are_reported);
    RUN(an_entry_id_comes_from_its_first_visible_part);
    RUN(foreign_ids_are_not_entry_ids);
    RUN(an_allocation_failure_is_reported);
    pal_arena_free(arena);
    return tap_done();
}
