/* test_dialect_native.c - the native form of messages, sessions and marks. */
#include "base/buf.h"
#include "base/memory.h"
#include "dialect/native/native.h"
#include "palaver/message.h"
#include "palaver/session.h"
#include "support/message_random.h"
#include "support/tap.h"

static pal_arena *arena;
static pal_error error;

static pal_status read_text(const char *json, pal_message *out)
{
    memset(&error, 0, sizeof(error));
    return pal_message_from_json(pal_str_of(json), arena, out, &error);
}

static pal_str written(const pal_message *message)
{
    pal_str json = {0};
    memset(&error, 0, sizeof(error));
    if (pal_message_to_json(message, arena, &json, &error) != PAL_OK)
        printf("# %s\n", error.message);
    return json;
}

/* Reads and writes; the result must be `expected`, or the same text if `expected` is NULL. */
static bool rewrites(const char *json, const char *expected)
{
    pal_message message;
    if (read_text(json, &message) != PAL_OK) {
        printf("# %s: %s\n", json, error.message);
        return false;
    }
    pal_str text = written(&message);
    if (pal_str_is(text, expected ? expected : json))
        return true;
    printf("# %s became %.*s\n", json, PAL_STR_ARG(text));
    return false;
}

static bool refused(const char *json, pal_status status, const char *text)
{
    pal_message message;
    pal_status found = read_text(json, &message);
    if (found == status && strstr(error.message, text))
        return true;
    printf("# %s: %s '%s'\n", json, pal_status_name(found), error.message);
    return false;
}

static void names_survive_a_round_trip(void)
{
    for (int i = 1; i <= 4; i++)
        CHECK_EQ((int)pal_role_from_name(pal_str_of(pal_role_name((pal_role)i))), i);
    for (int i = 1; i <= 7; i++) {
        pal_str name = pal_str_of(pal_part_kind_name((pal_part_kind)i));
        CHECK_EQ((int)pal_part_kind_from_name(name), i);
    }
    for (int i = 1; i <= 4; i++) {
        pal_str name = pal_str_of(pal_session_state_name((pal_session_state)i));
        CHECK_EQ((int)pal_session_state_from_name(name), i);
    }
    CHECK_STR(pal_role_name((pal_role)99), "none");
    CHECK_EQ(pal_role_from_name(pal_str_of("none")), PAL_ROLE_NONE);
    CHECK_EQ(pal_part_kind_from_name(pal_str_of("")), PAL_PART_NONE);
}

static void a_single_text_is_written_as_content(void)
{
    pal_message message = pal_message_text(arena, PAL_ROLE_USER, pal_str_of("hi \"there\""));
    CHECK_STR(written(&message), "{\"role\":\"user\",\"content\":\"hi \\\"there\\\"\"}");
    CHECK(rewrites("{\"role\":\"user\",\"content\":\"\"}", NULL));
    CHECK(rewrites("{\"role\":\"user\"}", NULL));
    CHECK(rewrites("{\"role\":\"user\",\"parts\":[]}", "{\"role\":\"user\"}"));
    CHECK(rewrites("{\"role\":\"user\",\"content\":null}", "{\"role\":\"user\"}"));
    CHECK(rewrites("{\"role\":\"tool\",\"parts\":[{\"type\":\"text\",\"text\":\"a\"}]}",
            "{\"role\":\"tool\",\"content\":\"a\"}"));
    CHECK(rewrites(
            "{\"role\":\"tool\",\"parts\":[{\"type\":\"text\",\"text\":\"a\",\"x\":1}]}", NULL));
}

/* A simple message is written without the table; with one more member it is written by the
 * table. */
static bool is_written_by_both(pal_message message)
{
    static const char more[] = ",\"x\":1}";
    pal_str bare = written(&message);
    message.extra = pal_str_of("{\"x\":1}");
    pal_str full = written(&message);
    size_t head = bare.len - 1;
    return bare.len > 1 && full.len == head + sizeof(more) - 1 &&
            memcmp(bare.data, full.data, head) == 0 && memcmp(full.data + head, more, 7) == 0;
}

static void bare_messages_are_written_like_all_others(void)
{
    static const char *const texts[] = {"", "plain", "\"\\\n\x01", "h\xc3\xa4\xff", "{}"};
    static const int64_t times[] = {0, 1, 1794775668123, 253402300799999, 253402300800000, -1};
    pal_message message = pal_message_text(arena, PAL_ROLE_USER, pal_str_of("x"));
    message.id = pal_id_new();
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (size_t j = 0; j < sizeof times / sizeof times[0]; j++) {
            message.parts[0].text = pal_str_of(texts[i]);
            message.role = (pal_role)(1 + j % 4);
            message.created_at = times[j];
            message.seq = i * j;
            message.tokens = (uint32_t)(j % 3 * 1000000000);
            CHECK(is_written_by_both(message));
        }
    }
}

static void every_member_is_kept(void)
{
    CHECK(rewrites(
            "{\"id\":\"01890000-0000-7000-8000-000000000001\",\"seq\":7,"
            "\"role\":\"assistant\",\"parts\":["
            "{\"type\":\"reasoning\",\"text\":\"hm\",\"signature\":\"s+/=\",\"family\":\"f\"},"
            "{\"type\":\"tool_call\",\"call_id\":\"c\",\"name\":\"n\",\"arguments\":\"{ bad\"},"
            "{\"type\":\"tool_result\",\"call_id\":\"c\",\"name\":\"n\",\"output\":\"o\","
            "\"error\":true},"
            "{\"type\":\"tool_result\",\"call_id\":\"d\",\"parts\":["
            "{\"type\":\"text\",\"text\":\"t\"},{\"type\":\"image\",\"url\":\"u\"}]},"
            "{\"type\":\"file\",\"name\":\"n\",\"media_type\":\"m\",\"blob\":\"b\"},"
            "{\"type\":\"compaction\",\"text\":\"t\",\"kept\":[ 1 ]}],"
            "\"parent_id\":\"01890000-0000-7000-8000-000000000002\","
            "\"created_at\":\"2026-11-15T20:47:48.123Z\",\"model\":\"m\","
            "\"usage\":{\"input_tokens\":1,\"cache_read_tokens\":2,"
            "\"cache_write_tokens\":3,\"output_tokens\":4,\"reasoning_tokens\":5,"
            "\"unknown\":[6]},"
            "\"flags\":[\"summary\",\"error\"],\"tokens\":9,\"client_id\":\"x\","
            "\"mine\":{\"deep\":[1.50]},\"other\":\"\\u0041\"}",
            NULL));
}

static void members_fill_their_fields(void)
{
    pal_message message;
    CHECK_STATUS(
            read_text(
                    "{\"seq\":7,\"role\":\"tool\",\"parts\":["
                    "{\"type\":\"reasoning\",\"text\":\"a\",\"signature\":\"b\",\"family\":\"c\"},"
                    "{\"type\":\"tool_call\",\"call_id\":\"a\",\"name\":\"b\",\"arguments\":\"c\"},"
                    "{\"type\":\"tool_result\",\"call_id\":\"a\",\"name\":\"b\",\"output\":\"c\","
                    "\"error\":true},"
                    "{\"type\":\"file\",\"media_type\":\"a\",\"url\":\"b\",\"blob\":\"c\","
                    "\"name\":\"d\"}],\"created_at\":5,\"model\":\"m\",\"usage\":{"
                    "\"input_tokens\":1,\"cache_read_tokens\":2,\"cache_write_tokens\":3,"
                    "\"output_tokens\":4,\"reasoning_tokens\":5},\"tokens\":6,\"client_id\":\"i\","
                    "\"flags\":[\"pinned\"]}",
                    &message),
            PAL_OK);
    const pal_part expected[] = {
            {.kind = PAL_PART_REASONING,
                    .text = pal_str_of("a"),
                    .signature = pal_str_of("b"),
                    .family = pal_str_of("c")},
            {.kind = PAL_PART_TOOL_CALL,
                    .call_id = pal_str_of("a"),
                    .name = pal_str_of("b"),
                    .arguments = pal_str_of("c")},
            {.kind = PAL_PART_TOOL_RESULT,
                    .call_id = pal_str_of("a"),
                    .name = pal_str_of("b"),
                    .text = pal_str_of("c"),
                    .is_error = true},
            {.kind = PAL_PART_FILE,
                    .media_type = pal_str_of("a"),
                    .url = pal_str_of("b"),
                    .blob = pal_str_of("c"),
                    .name = pal_str_of("d")},
    };
    CHECK(message_parts_same(message.parts, message.parts_len, expected, 4));
    CHECK_EQ(message.seq, 7);
    CHECK_EQ(message.role, PAL_ROLE_TOOL);
    CHECK_EQ(message.created_at, 5);
    CHECK_EQ(message.usage.input, 1);
    CHECK_EQ(message.usage.cache_read, 2);
    CHECK_EQ(message.usage.cache_write, 3);
    CHECK_EQ(message.usage.output, 4);
    CHECK_EQ(message.usage.reasoning, 5);
    CHECK(message.has_usage);
    CHECK_EQ(message.tokens, 6);
    CHECK_STR(message.model, "m");
    CHECK_STR(message.client_id, "i");
    CHECK_EQ(message.flags, PAL_MESSAGE_FLAG_PINNED);
    CHECK_EQ(message.extra.len, 0);
}

static void unknown_usage_members_are_kept_in_extra(void)
{
    pal_message message;
    CHECK_STATUS(read_text("{\"role\":\"user\",\"usage\":{\"input_tokens\":1,\"x\":2},\"y\":3}",
                         &message),
            PAL_OK);
    CHECK_STR(message.extra, "{\"usage_extra\":{\"x\":2},\"y\":3}");
    CHECK(rewrites("{\"role\":\"user\",\"usage\":{\"x\":2}}", NULL));
    CHECK(rewrites("{\"role\":\"user\",\"usage\":{}}", NULL));
    CHECK(rewrites("{\"role\":\"user\",\"usage_extra\":{\"x\":2}}", NULL));
    CHECK(refused("{\"role\":\"user\",\"usage\":{\"x\":2},\"usage_extra\":1}", PAL_INVALID,
            "'usage_extra'"));

    pal_buf body;
    pal_buf_init(&body, 1000);
    pal_message again = {0};
    pal_native_body_write(&body, &message);
    CHECK_STATUS(pal_native_body_read(pal_buf_str(&body), arena, &again, &error), PAL_OK, &error);
    CHECK(message_content_same(&message, &again));
    pal_buf_done(&body);
}

static void other_spellings_are_accepted(void)
{
    CHECK(rewrites("{\"role\":\"user\",\"created_at\":1500}",
            "{\"role\":\"user\",\"created_at\":\"1970-01-01T00:00:01.500Z\"}"));
    CHECK(rewrites("{\"role\":\"user\",\"created_at\":\"2026-01-01T01:00:00+01:00\"}",
            "{\"role\":\"user\",\"created_at\":\"2026-01-01T00:00:00.000Z\"}"));
    CHECK(rewrites("{\"role\":\"user\",\"parts\":[{\"type\":\"tool_call\","
                   "\"arguments\":{\"a\": [1,2.0] }}]}",
            "{\"role\":\"user\",\"parts\":[{\"type\":\"tool_call\","
            "\"arguments\":\"{\\\"a\\\": [1,2.0] }\"}]}"));
    pal_message message;
    CHECK_STATUS(
            read_text("{\"role\":\"user\",\"parts\":[{\"type\":\"image\",\"data\":\"AAEC/w==\"}]}",
                    &message),
            PAL_OK);
    CHECK_STR(message.parts[0].data, pal_str_make("\0\1\2\377", 4));
}

static void errors_name_the_member(void)
{
    CHECK(refused("{\"role\":\"usr\"}", PAL_INVALID,
            "member 'role' is 'usr'; expected one of system, user, assistant, tool"));
    CHECK(refused("{}", PAL_INVALID, "member 'role' is missing; expected one of"));
    CHECK(refused("{\"role\":3}", PAL_INVALID, "member 'role' is 3; expected"));
    CHECK(refused("{\"role\":\"user\",\"content\":[]}", PAL_INVALID,
            "member 'content' is an array; expected a string"));
    CHECK(refused("{\"role\":\"user\",\"id\":\"1\"}", PAL_INVALID, "'id' is '1'; expected a UUID"));
    CHECK(refused(
            "{\"role\":\"user\",\"seq\":-1}", PAL_INVALID, "'seq' is -1; expected an integer"));
    CHECK(refused("{\"role\":\"user\",\"tokens\":4294967296}", PAL_INVALID, "'tokens'"));
    CHECK(refused("{\"role\":\"user\",\"created_at\":\"yesterday\"}", PAL_INVALID, "RFC 3339"));
    CHECK(refused("{\"role\":\"user\",\"flags\":[\"shiny\"]}", PAL_INVALID, "'shiny'"));
    CHECK(refused("{\"role\":\"user\",\"usage\":{\"input_tokens\":\"1\"}}", PAL_INVALID,
            "'input_tokens' is '1'"));
    CHECK(refused("{\"role\":\"user\",\"content\":\"a\",\"parts\":[]}", PAL_INVALID,
            "both 'content' and 'parts'"));
    CHECK(refused("{\"role\":\"user\",\"parts\":[{\"type\":\"text\"},{\"type\":\"video\"}]}",
            PAL_INVALID, "parts[1]: member 'type' is 'video'; expected one of text,"));
    CHECK(refused("{\"role\":\"user\",\"parts\":[{\"type\":\"image\",\"data\":\"AAE\"}]}",
            PAL_INVALID, "base64"));
    CHECK(refused("{\"role\":\"user\",\"parts\":[{\"type\":\"tool_result\",\"parts\":"
                  "[{\"type\":\"tool_result\"}]}]}",
            PAL_INVALID, "no tool_result inside a tool_result"));
    CHECK(refused("[]", PAL_INVALID, "expected an object"));
    CHECK(refused("{\"role\":\"user\"", PAL_INVALID, ""));
}

static void limits_hold(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 1 << 20);
    pal_buf_append_text(&buf, "{\"role\":\"user\",\"parts\":[");
    for (int i = 0; i <= PAL_MESSAGE_PARTS_MAX; i++)
        pal_buf_append_text(&buf, i ? ",{\"type\":\"text\"}" : "{\"type\":\"text\"}");
    pal_buf_append_text(&buf, "]}");
    pal_message message;
    CHECK_FAILS(pal_message_from_json(pal_buf_str(&buf), arena, &message, &error), PAL_LIMIT,
            &error, "at most 4096");
    buf.len -= sizeof(",{\"type\":\"text\"}]}") - 1;
    pal_buf_append_text(&buf, "]}");
    CHECK_STATUS(pal_message_from_json(pal_buf_str(&buf), arena, &message, &error), PAL_OK, &error);
    CHECK_EQ(message.parts_len, PAL_MESSAGE_PARTS_MAX);

    pal_buf_clear(&buf);
    buf.len = 0;
    pal_buf_append_text(&buf, "{\"role\":\"user\",\"x\":");
    for (int i = 0; i < PAL_MESSAGE_DEPTH_MAX; i++)
        pal_buf_append_char(&buf, '[');
    for (int i = 0; i < PAL_MESSAGE_DEPTH_MAX; i++)
        pal_buf_append_char(&buf, ']');
    pal_buf_append_char(&buf, '}');
    CHECK_STATUS(
            pal_message_from_json(pal_buf_str(&buf), arena, &message, &error), PAL_LIMIT, &error);
    pal_buf_done(&buf);
}

static void bad_messages_are_not_written(void)
{
    static const char *const extras[] = {"[1]", "{\"role\":\"user\"}", "{", "nonsense", "{} {}"};
    pal_str json;
    pal_message message = pal_message_text(arena, PAL_ROLE_USER, pal_str_of("x"));
    for (size_t i = 0; i < sizeof(extras) / sizeof(extras[0]); i++) {
        message.extra = pal_str_of(extras[i]);
        CHECK_FAILS(pal_message_to_json(&message, arena, &json, &error), PAL_INVALID, &error,
                "'extra'");
        CHECK_STATUS(pal_native_message_check(&message, NULL), PAL_INVALID);
    }
    message.extra = pal_str_of(" { } ");
    CHECK_STATUS(pal_message_to_json(&message, arena, &json, &error), PAL_OK, &error);
    message.parts[0].extra = pal_str_of("{\"text\":1}");
    CHECK_STATUS(pal_message_to_json(&message, arena, &json, &error), PAL_INVALID, &error);
    message.parts[0].extra = pal_str_of("{\"output\":1}");
    CHECK_STATUS(pal_message_to_json(&message, arena, &json, &error), PAL_OK, &error);
    message.role = PAL_ROLE_NONE;
    CHECK_STATUS(pal_message_to_json(&message, arena, &json, &error), PAL_INVALID, &error);
    message.role = PAL_ROLE_USER;
    message.parts[0].kind = (pal_part_kind)70;
    CHECK_STATUS(pal_message_to_json(&message, arena, &json, &error), PAL_INVALID, &error);
}

static void broken_utf8_is_replaced(void)
{
    pal_message message = pal_message_text(arena, PAL_ROLE_USER, pal_str_make("a\xff\0b", 4));
    CHECK_STR(written(&message), "{\"role\":\"user\",\"content\":\"a\xef\xbf\xbd\\u0000b\"}");
}

static void bodies_are_short(void)
{
    pal_buf body;
    pal_buf_init(&body, 1000);
    pal_message message = pal_message_text(arena, PAL_ROLE_USER, pal_str_of("hello"));
    message.seq = 3;
    message.tokens = 4;
    message.created_at = 5;
    message.client_id = pal_str_of("c");
    message.flags = PAL_MESSAGE_FLAG_PINNED;
    pal_native_body_write(&body, &message);
    CHECK_STR(pal_buf_str(&body), "{\"content\":\"hello\"}");
    pal_message again = {.seq = 9, .role = PAL_ROLE_TOOL};
    CHECK_STATUS(pal_native_body_read(pal_buf_str(&body), arena, &again, &error), PAL_OK, &error);
    memset(body.data, 'x', body.len); /* nothing may point into the body */
    CHECK_EQ(again.seq, 9);
    CHECK_EQ(again.role, PAL_ROLE_TOOL);
    if (CHECK_EQ(again.parts_len, 1))
        CHECK_STR(again.parts[0].text, "hello");
    CHECK_STATUS(
            pal_native_body_read(pal_buf_str(&body), arena, &again, &error), PAL_INVALID, &error);
    pal_buf_done(&body);
}

static void drop_bytes(pal_part *parts, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        parts[i].data = pal_str_make(NULL, 0);
        drop_bytes(parts[i].parts, parts[i].parts_len);
    }
}

static void random_messages_survive(void)
{
    pal_buf body;
    pal_buf_init(&body, 1 << 20);
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        message_random random = {seed * UINT64_C(0x9e3779b97f4a7c15), arena};
        pal_message message = random_message(&random), again = {0};
        pal_str json = written(&message);
        pal_status status = pal_message_from_json(json, arena, &again, &error);
        if (!CHECK_STATUS(status, PAL_OK) || !CHECK(message_same(&message, &again))) {
            printf("# seed %d: %.*s %s\n", (int)seed, PAL_STR_ARG(json), error.message);
            break;
        }
        body.len = 0;
        pal_native_body_write(&body, &message);
        drop_bytes(message.parts, message.parts_len);
        status = pal_native_body_read(pal_buf_str(&body), arena, &again, &error);
        if (!CHECK_STATUS(status, PAL_OK) || !CHECK(message_content_same(&message, &again)))
            break;
        pal_arena_reset(arena);
    }
    pal_buf_done(&body);
}

static bool session_rewrites(const char *json)
{
    pal_session session;
    pal_str text = {0};
    if (pal_session_from_json(pal_str_of(json), arena, &session, &error) != PAL_OK ||
            pal_session_to_json(&session, arena, &text, &error) != PAL_OK)
        printf("# %s\n", error.message);
    if (!pal_str_is(text, json))
        printf("# became %.*s\n", PAL_STR_ARG(text));
    return pal_str_is(text, json);
}

static void sessions_are_kept(void)
{
    CHECK(session_rewrites("{}"));
    CHECK(session_rewrites(
            "{\"id\":\"01890000-0000-7000-8000-000000000001\",\"state\":\"active\","
            "\"tenant\":\"t\",\"key\":\"k\",\"aliases\":[\"a\",\"\",\"b\"],\"title\":\"T\","
            "\"project\":\"p\",\"agent\":\"g\",\"scope\":{\"a\": 1},\"metadata\":{},"
            "\"parent_id\":\"01890000-0000-7000-8000-000000000002\",\"fork_seq\":1,\"last_seq\":2,"
            "\"tokens\":3,\"bytes\":4,\"created_at\":\"2026-11-15T20:47:48.123Z\","
            "\"updated_at\":\"2026-11-15T20:47:48.124Z\",\"expires_at\":\"2026-11-15T20:47:48."
            "125Z\","
            "\"deleted_at\":\"2026-11-15T20:47:48.126Z\",\"more\":[1]}"));
    pal_session session;
    CHECK_FAILS(pal_session_from_json(pal_str_of("{\"state\":\"gone\"}"), arena, &session, &error),
            PAL_INVALID, &error, "member 'state' is 'gone'; expected one of active");
    CHECK_FAILS(pal_session_from_json(pal_str_of("{\"scope\":[]}"), arena, &session, &error),
            PAL_INVALID, &error, "member 'scope' is an array; expected an object");
    CHECK_STATUS(pal_session_from_json(pal_str_of("{\"aliases\":[1]}"), arena, &session, &error),
            PAL_INVALID, &error);
    memset(&session, 0, sizeof(session));
    session.metadata = pal_str_of("[]");
    pal_str text;
    CHECK_STATUS(pal_session_to_json(&session, arena, &text, &error), PAL_INVALID, &error);
}

/* Every allocation fails once: the call reports it, and nothing crashes or leaks. */
static void an_allocation_failure_is_reported(void)
{
    static const char json[] =
            "{\"role\":\"user\",\"parts\":[{\"type\":\"image\",\"data\":\"AAEC\",\"x\":\"\\n\"}],"
            "\"usage\":{\"x\":2},\"y\":3,\"model\":\"\\n\"}";
    bool done = false;
    for (uint64_t nth = 1; nth < 200 && !done; nth++) {
        pal_memory_fail_at(nth, 0);
        pal_arena *small = pal_arena_new(0);
        pal_message message;
        pal_str text;
        pal_status status = PAL_NO_MEMORY;
        if (small)
            status = pal_message_from_json(pal_str_of(json), small, &message, &error);
        if (status == PAL_OK)
            status = pal_message_to_json(&message, small, &text, &error);
        done = !pal_memory_failed();
        pal_memory_fail_at(0, 0);
        CHECK_EQ(status, (done ? PAL_OK : PAL_NO_MEMORY));
        pal_arena_free(small);
    }
    CHECK(done);
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(names_survive_a_round_trip);
    RUN(a_single_text_is_written_as_content);
    RUN(bare_messages_are_written_like_all_others);
    RUN(every_member_is_kept);
    RUN(members_fill_their_fields);
    RUN(unknown_usage_members_are_kept_in_extra);
    RUN(other_spellings_are_accepted);
    RUN(errors_name_the_member);
    RUN(limits_hold);
    RUN(bad_messages_are_not_written);
    RUN(broken_utf8_is_replaced);
    RUN(bodies_are_short);
    RUN(random_messages_survive);
    RUN(sessions_are_kept);
    RUN(an_allocation_failure_is_reported);
    pal_arena_free(arena);
    return tap_done();
}
