/* test_dialect_picoclaw.c - PicoClaw's lines, meta files, older files and names. */
#include "base/buf.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "dialect/native/native.h"
#include "dialect/picoclaw/picoclaw.h"
#include "support/message_random.h"
#include "support/tap.h"
#include "support/vectors.h"

static pal_arena *arena;
static pal_error error;

static pal_status read_line(const char *line, pal_message *out)
{
    memset(&error, 0, sizeof(error));
    return pal_picoclaw_line_read(pal_str_of(line), arena, out, &error);
}

static pal_str written(const pal_message *message)
{
    pal_buf buf;
    pal_buf_init(&buf, SIZE_MAX / 2);
    pal_picoclaw_line_write(&buf, message);
    pal_str line = buf.failure ? pal_str_make(NULL, 0) : pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return line;
}

/* Reads and writes; the result must be `expected`, or the same line if `expected` is NULL. */
static bool rewrites(const char *line, const char *expected)
{
    pal_message message;
    if (read_line(line, &message) != PAL_OK) {
        printf("# %s: %s\n", line, error.message);
        return false;
    }
    pal_str text = written(&message);
    if (pal_str_is(text, expected ? expected : line))
        return true;
    printf("# %s became %.*s\n", line, PAL_STR_ARG(text));
    return false;
}

static bool refused(const char *line, const char *text)
{
    pal_message message;
    pal_status status = read_line(line, &message);
    if (status == PAL_INVALID && strstr(error.message, text))
        return true;
    printf("# %s: %s '%s'\n", line, pal_status_name(status), error.message);
    return false;
}

static bool has(pal_str text, const char *piece)
{
    return memmem(text.data, text.len, piece, strlen(piece)) != NULL;
}

/* ---- Lines ---- */

static void plain_lines_stay_plain(void)
{
    CHECK(rewrites("{\"role\":\"user\",\"content\":\"hi <b>\"}", NULL));
    CHECK(rewrites("{\"role\":\"user\",\"content\":\"\"}", NULL));
    CHECK(rewrites("{\"role\":\"user\",\"content\":null}", "{\"role\":\"user\",\"content\":\"\"}"));
    CHECK(rewrites("{\"content\":\"\\u003cb\\u003e\",\"role\":\"system\"}",
            "{\"role\":\"system\",\"content\":\"<b>\"}"));
    CHECK(rewrites("{\"role\":\"assistant\",\"content\":\"a\",\"model_name\":\"m\","
                   "\"created_at\":\"2026-11-15T18:45:57.959Z\",\"reasoning_content\":\"why\","
                   "\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{"
                   "\"name\":\"f\",\"arguments\":\"{}\"}}]}",
            NULL));
    CHECK(rewrites("{\"role\":\"tool\",\"content\":\"out\",\"tool_call_id\":\"c1\"}", NULL));
    CHECK(rewrites("{\"role\":\"user\",\"content\":\"see\",\"media\":[\"media://1\",\"\"],"
                   "\"attachments\":[{\"type\":\"image\",\"ref\":\"media://1\",\"url\":\"u\","
                   "\"filename\":\"f.png\",\"content_type\":\"image/png\"},{}]}",
            "{\"role\":\"user\",\"content\":\"see\",\"media\":[\"media://1\"],"
            "\"attachments\":[{\"type\":\"image\",\"ref\":\"media://1\",\"url\":\"u\","
            "\"filename\":\"f.png\",\"content_type\":\"image/png\"},{}],"
            "\"palaver\":{\"message\":{\"role\":\"user\",\"parts\":["
            "{\"type\":\"text\",\"text\":\"\"},{\"type\":\"image\",\"url\":\"media://1\"},"
            "{\"type\":\"image\"},{\"type\":\"file\",\"name\":\"f.png\",\"media_type\":"
            "\"image/png\",\"url\":\"u\",\"picoclaw\":{\"type\":\"image\",\"ref\":"
            "\"media://1\"}},{\"type\":\"file\"}]},\"parts\":true,\"content\":0,"
            "\"calls\":true}}"));
}

static void signatures_of_calls_are_kept(void)
{
    CHECK(rewrites("{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"c\","
                   "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\","
                   "\"thought_signature\":\"s\"},\"extra_content\":{\"google\":{"
                   "\"thought_signature\":\"s\"},\"tool_feedback_explanation\":\"t\"},"
                   "\"index\":0}]}",
            NULL));
    CHECK(rewrites("{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"c\","
                   "\"type\":\"custom\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}",
            NULL));
}

static void unknown_members_are_kept(void)
{
    pal_message message;
    CHECK(rewrites("{\"role\":\"user\",\"content\":\"a\",\"mine\":[1.50,{}],\"mine\":2}", NULL));
    CHECK(rewrites("{\"role\":\"user\",\"content\":\"a\",\"id\":7,\"model\":null,\"x\":1}", NULL));
    CHECK(rewrites("{\"role\":\"user\",\"content\":\"a\",\"picoclaw\":{\"deep\":1}}", NULL));
    CHECK(rewrites("{\"role\":\"developer\",\"content\":\"a\",\"x\":1}", NULL));
    CHECK(rewrites("{\"role\":\"system\",\"content\":\"ab\",\"system_parts\":[{\"type\":\"text\","
                   "\"text\":\"a\",\"cache_control\":{\"type\":\"ephemeral\"}},"
                   "{\"type\":\"text\",\"text\":\"b\"}]}",
            NULL));
    CHECK_STATUS(read_line("{\"role\":\"user\",\"content\":\"a\",\"flags\":7,\"x\":1}", &message),
            PAL_OK);
    CHECK_STR(message.extra, "{\"picoclaw\":{\"flags\":7},\"x\":1}");
    CHECK_EQ(message.flags, 0);
}

/* PicoClaw's decoder would fail at, or believe, members that look like PicoClaw's own. */
static void extra_members_never_replace_known_members(void)
{
    static const char *const extras[] = {"{\"Role\":\"system\"}", "{\"system_parts\":5}",
            "{\"system_parts\":[{\"type\":\"text\",\"text\":1}]}", "{\"TOOL_CALLS\":1,\"x\":1}",
            "{\"tool_calls\":1}", "{\"palaver\":{}}", "{\"picoclaw\":{\"role\":\"user\"}}",
            "{\"media\":[]}", "{\"tool_call_\\u0131d\":1}", "{\"picoclaw\":5}"};
    for (size_t i = 0; i < sizeof(extras) / sizeof(extras[0]); i++) {
        pal_message message = pal_message_text(arena, PAL_ROLE_USER, pal_str_of("a")), again;
        pal_json line, name, value;
        message.extra = pal_str_of(extras[i]);
        pal_str text = written(&message);
        CHECK_STATUS(pal_json_parse(arena, text, NULL, &line, NULL), PAL_OK);
        for (pal_json_iter iter = pal_json_each(line); pal_json_next(&iter, &name, &value);)
            CHECK(pal_json_string_is(name, "role") || pal_json_string_is(name, "content") ||
                    pal_json_string_is(name, "palaver") || pal_json_string_is(name, "x"));
        CHECK_STATUS(pal_picoclaw_line_read(text, arena, &again, &error), PAL_OK, &error);
        CHECK(message_same(&message, &again));
    }
}

static void texts_are_written_once(void)
{
    pal_part parts[] = {
            {.kind = PAL_PART_REASONING,
                    .text = pal_str_of("THOUGHT"),
                    .signature = pal_str_of("sig")},
            {.kind = PAL_PART_TEXT, .text = pal_str_of("ANSWER")},
            {.kind = PAL_PART_TOOL_CALL,
                    .call_id = pal_str_of("c"),
                    .name = pal_str_of("f"),
                    .arguments = pal_str_of("ARGUMENTS")},
    };
    pal_message message = {.role = PAL_ROLE_ASSISTANT, .parts = parts, .parts_len = 3};
    pal_message again;
    pal_str line = written(&message);
    static const char *const texts[] = {"THOUGHT", "ANSWER", "ARGUMENTS"};
    for (size_t i = 0; i < 3; i++) {
        const char *first = memmem(line.data, line.len, texts[i], strlen(texts[i]));
        size_t rest = first ? line.len - (size_t)(first + 1 - line.data) : 0;
        if (CHECK(first))
            CHECK(!memmem(first + 1, rest, texts[i], strlen(texts[i])));
    }
    CHECK_STATUS(pal_picoclaw_line_read(line, arena, &again, &error), PAL_OK, &error);
    CHECK(message_same(&message, &again));
}

static void results_have_the_role_tool(void)
{
    pal_part parts[] = {
            {.kind = PAL_PART_TOOL_RESULT,
                    .call_id = pal_str_of("c1"),
                    .text = pal_str_of("one"),
                    .name = pal_str_of("f"),
                    .is_error = true},
            {.kind = PAL_PART_TOOL_RESULT, .call_id = pal_str_of("c2"), .text = pal_str_of("two")},
    };
    pal_message message = {.role = PAL_ROLE_USER, .parts = parts, .parts_len = 2}, again;
    pal_str line = written(&message);
    CHECK(has(line, "{\"role\":\"tool\",\"content\":\"one\\n\\ntwo\",\"tool_call_id\":\"c1\""));
    CHECK_STATUS(pal_picoclaw_line_read(line, arena, &again, &error), PAL_OK, &error);
    CHECK(message_same(&message, &again));
}

static void random_messages_survive_a_round_trip(void)
{
    message_random random = {.state = 20261115, .arena = arena};
    for (int i = 0; i < 5000; i++) {
        pal_message message = random_message(&random), again;
        pal_str line = written(&message);
        if (memchr(line.data, '\n', line.len) ||
                pal_picoclaw_line_read(line, arena, &again, &error) != PAL_OK ||
                !message_same(&message, &again)) {
            printf("# message %d, %s: %.*s\n", i, error.message, PAL_STR_ARG(line));
            CHECK(!"came back");
            return;
        }
        pal_arena_reset(arena);
    }
    CHECK(true);
}

static void a_written_line_has_no_line_break(void)
{
    CHECK(rewrites("{\"role\":\"user\",\n\"content\":\"a\",\"x\":[1,\n2]}",
            "{\"role\":\"user\",\"content\":\"a\",\"x\":[1, 2]}"));
}

static void times_are_read_as_go_writes_them(void)
{
    pal_message message;
    CHECK_STATUS(read_line("{\"role\":\"user\",\"content\":\"\","
                           "\"created_at\":\"2026-11-15T18:45:57.959653442+08:00\"}",
                         &message),
            PAL_OK);
    CHECK_EQ(message.created_at, INT64_C(1794739557959));
    CHECK_STATUS(read_line("{\"role\":\"user\",\"created_at\":\"0001-01-01T00:00:00Z\"}", &message),
            PAL_OK);
    CHECK_EQ(message.created_at, 0);
}

static void wrong_lines_are_refused(void)
{
    CHECK(refused("", ""));
    CHECK(refused("[]", "expected an object"));
    CHECK(refused("{\"role\":\"user\",\"content\":\"a\"", ""));
    CHECK(refused("{\"content\":\"a\"}", "member 'role'"));
    CHECK(refused("{\"role\":1}", "member 'role'"));
    CHECK(refused("{\"role\":\"user\",\"content\":[]}", "member 'content'"));
    CHECK(refused("{\"role\":\"user\",\"media\":[1]}", "media[1]"));
    CHECK(refused("{\"role\":\"user\",\"media\":\"x\"}", "member 'media'"));
    CHECK(refused("{\"role\":\"user\",\"attachments\":[1]}", "an array of objects"));
    CHECK(refused("{\"role\":\"user\",\"tool_calls\":{}}", "an array"));
    CHECK(refused("{\"role\":\"user\",\"tool_calls\":[{\"function\":1}]}", "an object"));
    CHECK(refused("{\"role\":\"user\",\"created_at\":\"yesterday\"}", "created_at"));
}

static void invalid_palaver_members_are_ignored(void)
{
    CHECK(rewrites("{\"role\":\"user\",\"content\":\"a\",\"palaver\":5}",
            "{\"role\":\"user\",\"content\":\"a\"}"));
    CHECK(rewrites("{\"role\":\"user\",\"content\":\"a\",\"palaver\":{\"message\":{\"role\":9}}}",
            "{\"role\":\"user\",\"content\":\"a\"}"));
    CHECK(rewrites("{\"role\":\"user\",\"content\":\"a\",\"palaver\":{\"message\":{\"role\":"
                   "\"user\"},\"content\":99}}",
            "{\"role\":\"user\",\"content\":\"a\"}"));
}

static bool is_transient(const char *line)
{
    pal_message message;
    return read_line(line, &message) == PAL_OK && pal_picoclaw_is_transient(&message);
}

static void transient_thoughts_are_recognized(void)
{
#define THOUGHT "{\"role\":\"assistant\",\"content\":\" \\n\",\"reasoning_content\":\"hm\""
    CHECK(is_transient(THOUGHT "}"));
    CHECK(!is_transient(THOUGHT ",\"tool_call_id\":\"c\"}"));
    CHECK(!is_transient(THOUGHT ",\"media\":[\"m\"]}"));
    CHECK(!is_transient(THOUGHT ",\"attachments\":[{}]}"));
    CHECK(!is_transient(THOUGHT ",\"tool_calls\":[{\"id\":\"c\"}]}"));
    CHECK(!is_transient("{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":\"hm\"}"));
    CHECK(!is_transient("{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\" \"}"));
    CHECK(!is_transient("{\"role\":\"user\",\"content\":\"\",\"reasoning_content\":\"hm\"}"));
}

/* ---- Meta files ---- */

static bool meta_rewrites(const char *json, const char *expected)
{
    pal_picoclaw_meta meta;
    pal_buf buf;
    memset(&error, 0, sizeof(error));
    if (pal_picoclaw_meta_read(pal_str_of(json), arena, &meta, &error) != PAL_OK) {
        printf("# %s\n", error.message);
        return false;
    }
    pal_buf_init(&buf, 1 << 20);
    pal_picoclaw_meta_write(&buf, &meta);
    bool same = pal_str_is(pal_buf_str(&buf), expected ? expected : json);
    if (!same)
        printf("# became %.*s\n", PAL_STR_ARG(pal_buf_str(&buf)));
    pal_buf_done(&buf);
    return same;
}

static void meta_files_survive_a_round_trip(void)
{
    CHECK(meta_rewrites("{\n  \"key\": \"agent:main:x\",\n  \"summary\": \"a \\\"b\\\" {c, d}\",\n"
                        "  \"skip\": 2,\n  \"count\": 5,\n"
                        "  \"created_at\": \"2026-11-15T18:45:57.959653442Z\",\n"
                        "  \"updated_at\": \"2026-11-15T18:45:57.959653442+08:00\",\n"
                        "  \"scope\": {\n    \"version\": 1,\n    \"empty\": {},\n"
                        "    \"values\": [\n      1,\n      []\n    ]\n  },\n"
                        "  \"aliases\": [\n    \"x\",\n    \"y\"\n  ],\n  \"mine\": true\n}",
            NULL));
    CHECK(meta_rewrites("{\"key\":\"k\"}",
            "{\n  \"key\": \"k\",\n  \"summary\": \"\",\n  \"skip\": 0,\n  \"count\": 0,\n"
            "  \"created_at\": \"0001-01-01T00:00:00Z\",\n"
            "  \"updated_at\": \"0001-01-01T00:00:00Z\"\n}"));
    pal_picoclaw_meta meta;
    CHECK_STATUS(
            pal_picoclaw_meta_read(pal_str_of("{\"created_at\":\"2026-11-15T18:45:57.959653442Z\","
                                              "\"updated_at\":\"0001-01-01T00:00:00Z\","
                                              "\"aliases\":null}"),
                    arena, &meta, &error),
            PAL_OK, &error);
    CHECK_EQ(meta.created_at_ms, INT64_C(1794768357959));
    CHECK_EQ(meta.updated_at_ms, 0);
    CHECK_EQ(meta.aliases_len, 0);
    CHECK_EQ(meta.extra.len, 0);
}

static void wrong_meta_files_are_refused(void)
{
    static const char *const wrong[] = {"", "[]", "{\"key\":", "{\"key\":1}", "{\"skip\":-1}",
            "{\"aliases\":\"x\"}", "{\"aliases\":[1]}", "{\"created_at\":\"soon\"}"};
    pal_picoclaw_meta meta;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        CHECK_STATUS(pal_picoclaw_meta_read(pal_str_of(wrong[i]), arena, &meta, &error),
                PAL_INVALID, &error);
}

static void older_files_are_read(void)
{
    pal_picoclaw_legacy legacy;
    CHECK_STATUS(
            pal_picoclaw_legacy_read(
                    pal_str_of("{\"key\":\"cli:x\",\"messages\":[{\"role\":\"user\",\"content\":"
                               "\"a\"},5,{\"role\":\"assistant\",\"content\":\"b\"}],\"summary\":"
                               "\"s\",\"created\":\"2026-11-15T18:45:57.959653442Z\","
                               "\"updated\":\"2026-11-15T18:45:58Z\",\"other\":1}"),
                    arena, &legacy, &error),
            PAL_OK, &error);
    CHECK_STR(legacy.key, "cli:x");
    CHECK_STR(legacy.summary, "s");
    CHECK_EQ(legacy.messages_len, 2);
    CHECK_EQ(legacy.skipped, 1);
    CHECK_EQ(legacy.created_at_ms, INT64_C(1794768357959));
    CHECK_EQ(legacy.updated_at_ms, INT64_C(1794768358000));
    CHECK_STR(legacy.messages[1].parts[0].text, "b");
    CHECK_STATUS(pal_picoclaw_legacy_read(pal_str_of("{\"messages\":1}"), arena, &legacy, &error),
            PAL_INVALID, &error);
    CHECK_STATUS(
            pal_picoclaw_legacy_read(pal_str_of("{}"), arena, &legacy, &error), PAL_OK, &error);
    CHECK_EQ(legacy.messages_len, 0);
}

/* ---- Names ---- */

static void file_names_equal_those_of_picoclaw(void)
{
    pal_json root = vectors_load(arena, "picoclaw_filenames.json"), item;
    size_t count = 0;
    for (pal_json_iter iter = pal_json_each(pal_json_find(root, "cases"));
            pal_json_next(&iter, NULL, &item); count++) {
        pal_str key = pal_json_string(pal_json_find(item, "key"), arena);
        pal_str base = pal_json_string(pal_json_find(item, "base"), arena);
        CHECK_STR(pal_picoclaw_base(key, arena), base);
    }
    CHECK_THAT(count, >=, 10);
    CHECK_STR(pal_picoclaw_base(pal_str_of("a\\b"), arena), "a_b");
}

static void main_aliases_are_recognized(void)
{
    CHECK(pal_picoclaw_is_main_alias(pal_str_of("agent:main:main")));
    CHECK(pal_picoclaw_is_main_alias(pal_str_of("agent:sales:main")));
    CHECK(!pal_picoclaw_is_main_alias(pal_str_of("agent:sales:direct:main")));
    CHECK(!pal_picoclaw_is_main_alias(pal_str_of("agent:main")));
    CHECK(!pal_picoclaw_is_main_alias(pal_str_of("AGENT:MAIN:MAIN")));
    CHECK(!pal_picoclaw_is_main_alias(pal_str_of("")));
    CHECK(pal_picoclaw_is_main_alias(
            pal_str_of("sk_v1_6d9217fe77c7f11d9cc992aabe81a2d09604e9c48babbda8fdad3791f9c19f3b")));
    CHECK(!pal_picoclaw_is_main_alias(
            pal_str_of("sk_v1_6d9217fe77c7f11d9cc992aabe81a2d09604e9c48babbda8fdad3791f9c19f3c")));
}

/* ---- Without memory ---- */

static void an_allocation_failure_is_reported(void)
{
    message_random random = {.state = 7, .arena = arena};
    pal_message message = random_message(&random);
    while (message.parts_len < 2 || !message.extra.len)
        message = random_message(&random);
    for (uint64_t nth = 1;; nth++) {
        pal_buf buf;
        pal_buf_init(&buf, SIZE_MAX / 2);
        pal_memory_fail_at(nth, 0);
        pal_picoclaw_line_write(&buf, &message);
        pal_memory_fail_at(0, 0);
        pal_status failure = buf.failure;
        pal_buf_done(&buf);
        if (failure == PAL_OK)
            break;
        CHECK_STATUS(failure, PAL_NO_MEMORY);
    }
}

static void reading_without_memory_loses_nothing(void)
{
    message_random random = {.state = 11, .arena = arena};
    pal_message message = random_message(&random), again;
    while (message.parts_len < 2 || !message.extra.len)
        message = random_message(&random);
    pal_str line = written(&message);
    for (uint64_t nth = 1;; nth++) {
        pal_arena *own = pal_arena_new(0);
        pal_memory_fail_at(nth, 0);
        pal_status status = pal_picoclaw_line_read(line, own, &again, &error);
        pal_memory_fail_at(0, 0);
        bool good = status == PAL_OK ? message_same(&message, &again) : status == PAL_NO_MEMORY;
        pal_arena_free(own);
        CHECK(good);
        if (status == PAL_OK || !good)
            break;
    }
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(plain_lines_stay_plain);
    RUN(signatures_of_calls_are_kept);
    RUN(unknown_members_are_kept);
    RUN(extra_members_never_replace_known_members);
    RUN(texts_are_written_once);
    RUN(results_have_the_role_tool);
    RUN(random_messages_survive_a_round_trip);
    RUN(a_written_line_has_no_line_break);
    RUN(times_are_read_as_go_writes_them);
    RUN(wrong_lines_are_refused);
    RUN(invalid_palaver_members_are_ignored);
    RUN(transient_thoughts_are_recognized);
    RUN(meta_files_survive_a_round_trip);
    RUN(wrong_meta_files_are_refused);
    RUN(older_files_are_read);
    RUN(file_names_equal_those_of_picoclaw);
    RUN(main_aliases_are_recognized);
    RUN(an_allocation_failure_is_reported);
    RUN(reading_without_memory_loses_nothing);
    pal_arena_free(arena);
    return tap_done();
}
