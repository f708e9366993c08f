/* test_dialect_openai_chat.c - converts chat completions to our messages and back. */
#include "base/json/json.h"
#include "base/memory.h"
#include "dialect/native/native.h"
#include "dialect/openai/openai_chat.h"
#include "support/dialect_read.h"
#include "support/json_check.h"
#include "support/message_random.h"
#include "support/tap.h"

static pal_arena *arena;
static pal_error error;

static pal_message *messages;
static size_t messages_len;

static bool reads(const char *json)
{
    memset(&error, 0, sizeof(error));
    pal_status status = dialect_read(
            pal_openai_chat_read, pal_str_of(json), arena, &messages, &messages_len, &error);
    if (status != PAL_OK)
        printf("# %s: %s\n", json, error.message);
    return status == PAL_OK;
}

/* Reads one message and writes it. The result must be equal to `expected`, or to the input if that
 * is NULL. In between, the message is converted to the native form and back, as in a store. */
static bool rewrites(const char *json, const char *expected)
{
    char array[4096];
    pal_str native, text = {0};
    pal_message again;
    snprintf(array, sizeof(array), "[%s]", expected ? expected : json);
    if (!reads(json) || messages_len != 1)
        return false;
    if (pal_message_to_json(messages, arena, &native, &error) != PAL_OK ||
            pal_message_from_json(native, arena, &again, &error) != PAL_OK ||
            pal_openai_chat_write(&again, 1, arena, &text, &error) != PAL_OK)
        printf("# %s\n", error.message);
    return json_same(arena, text, array);
}

static bool refused(const char *json, const char *text)
{
    pal_status status = dialect_read(
            pal_openai_chat_read, pal_str_of(json), arena, &messages, &messages_len, &error);
    if (status == PAL_INVALID && strstr(error.message, text))
        return true;
    printf("# %s: %s '%s'\n", json, pal_status_name(status), error.message);
    return false;
}

static void three_input_shapes_are_accepted(void)
{
    CHECK(reads("{\"role\":\"user\",\"content\":\"a\"}"));
    CHECK_EQ(messages_len, 1);
    CHECK(reads(
            "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]"));
    if (CHECK_EQ(messages_len, 2))
        CHECK_EQ(messages[1].role, PAL_ROLE_ASSISTANT);
    CHECK(reads("{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"a\"}]}"));
    if (CHECK_EQ(messages_len, 1))
        CHECK_EQ(messages[0].role, PAL_ROLE_SYSTEM);
    CHECK(reads("[]"));
    CHECK_EQ(messages_len, 0);
}

static void roles_and_names_survive(void)
{
    CHECK(rewrites("{\"role\":\"developer\",\"content\":\"be brief\"}", NULL));
    CHECK_EQ(messages[0].role, PAL_ROLE_SYSTEM);
    CHECK_STR(messages[0].extra, "{\"openai\":{\"role\":\"developer\"}}");
    CHECK(rewrites("{\"role\":\"user\",\"content\":\"a\",\"name\":\"bob\"}", NULL));
    CHECK(rewrites("{\"role\":\"user\",\"content\":\"a\",\"id\":\"x\",\"seq\":[1],\"model\":7,"
                   "\"tool_calls\":1}",
            NULL));
    CHECK(rewrites("{\"role\":\"user\",\"content\":\"\"}", NULL));
    CHECK(rewrites("{\"role\":\"user\"}", "{\"role\":\"user\",\"content\":\"\"}"));
    CHECK_EQ(messages[0].parts_len, 0);
}

static void tool_calls_survive(void)
{
    CHECK(rewrites(
            "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":["
            "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\","
            "\"arguments\":\"{\\\"a\\\": 1}\",\"strict\":true},\"index\":0},"
            "{\"id\":\"c2\",\"type\":\"custom\",\"custom\":{\"name\":\"g\",\"input\":\"free\","
            "\"more\":1},\"index\":1},"
            "{\"id\":\"c3\",\"type\":\"strange\",\"strange\":{\"x\":1}}]}",
            NULL));
    CHECK_EQ(messages[0].parts_len, 3);
    CHECK_STR(messages[0].parts[0].arguments, "{\"a\": 1}");
    CHECK_STR(messages[0].parts[1].name, "g");
    CHECK_STR(messages[0].parts[2].call_id, "c3");
    CHECK(rewrites(
            "{\"role\":\"assistant\",\"content\":\"so\",\"reasoning_content\":\"hm\","
            "\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\","
            "\"arguments\":\"not json\"}}],\"annotations\":[],\"audio\":null}",
            NULL));
    CHECK_EQ(messages[0].parts[0].kind, PAL_PART_REASONING);
    CHECK(rewrites("{\"role\":\"assistant\",\"content\":null,"
                   "\"function_call\":{\"name\":\"f\",\"arguments\":\"{}\",\"x\":1}}",
            NULL));
    CHECK_STR(messages[0].parts[0].call_id, "f");
}

static void results_survive(void)
{
    CHECK(rewrites("{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"42\"}", NULL));
    if (CHECK_EQ(messages[0].parts_len, 1))
        CHECK_EQ(messages[0].parts[0].kind, PAL_PART_TOOL_RESULT);
    CHECK(rewrites(
            "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"name\":\"f\",\"content\":["
            "{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}],\"x\":1}",
            NULL));
    CHECK_EQ(messages[0].parts[0].parts_len, 2);
    CHECK(rewrites("{\"role\":\"function\",\"name\":\"f\",\"content\":\"42\"}", NULL));
    CHECK_STR(messages[0].parts[0].call_id, "f");
}

static void refusals_survive(void)
{
    CHECK(rewrites("{\"role\":\"assistant\",\"content\":null,\"refusal\":\"no\"}", NULL));
    if (CHECK_EQ(messages[0].parts_len, 1))
        CHECK_STR(messages[0].parts[0].text, "no");
    CHECK(rewrites(
            "{\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"}]}",
            NULL));
    CHECK(rewrites("{\"role\":\"assistant\",\"content\":\"a\",\"refusal\":null}",
            "{\"role\":\"assistant\",\"content\":\"a\"}"));
}

static void media_survive(void)
{
    CHECK(rewrites(
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"see\","
            "\"cache_control\":{\"type\":\"ephemeral\"}},"
            "{\"type\":\"image_url\",\"image_url\":{\"url\":\"https://example.org/a.png\","
            "\"detail\":\"low\"}},"
            "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AAEC\"}},"
            "{\"type\":\"image_url\",\"image_url\":\"https://example.org/b.png\",\"x\":1},"
            "{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"AAEC\",\"format\":\"wav\"}},"
            "{\"type\":\"file\",\"file\":{\"filename\":\"a.pdf\","
            "\"file_data\":\"data:application/pdf;base64,AAE=\"}},"
            "{\"type\":\"file\",\"file\":{\"file_id\":\"file-1\"}},"
            "{\"type\":\"file\",\"file\":{\"file_data\":\"not a url\"}},"
            "{\"type\":\"video_url\",\"video_url\":{\"url\":\"u\"}}]}",
            NULL));
    CHECK_EQ(messages[0].parts_len, 9);
    CHECK_STR(messages[0].parts[2].data, pal_str_make("\0\1\2", 3));
    CHECK_STR(messages[0].parts[2].media_type, "image/png");
    CHECK_EQ(messages[0].parts[2].url.len, 0);
    CHECK_STR(messages[0].parts[4].media_type, "audio/wav");
    CHECK_STR(messages[0].parts[5].name, "a.pdf");
    CHECK_EQ(messages[0].parts[8].kind, PAL_PART_FILE);
    /* Data that could not be written in the same way again stays a URL. */
    CHECK(rewrites("{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":"
                   "{\"url\":\"data:image/png;base64,AAF=\"}}]}",
            NULL));
    CHECK_EQ(messages[0].parts[0].data.len, 0);
    /* A media type can be any text. */
    CHECK(rewrites("{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":"
                   "{\"url\":\"data:a\\n\\\"b;base64,AAEC\"}}]}",
            NULL));
}

static pal_str write_one(const pal_message *message)
{
    pal_str text = {0};
    if (pal_openai_chat_write(message, 1, arena, &text, &error) != PAL_OK)
        printf("# %s\n", error.message);
    return text;
}

static void foreign_parts_are_written_as_far_as_possible(void)
{
    pal_part parts[] = {
            {.kind = PAL_PART_TOOL_RESULT, .call_id = pal_str_of("a"), .text = pal_str_of("1")},
            {.kind = PAL_PART_TOOL_RESULT, .call_id = pal_str_of("b"), .text = pal_str_of("2")},
            {.kind = PAL_PART_TEXT, .text = pal_str_of("and")},
            {.kind = PAL_PART_IMAGE,
                    .blob = pal_str_of("sha256:00"),
                    .media_type = pal_str_of("image/png")},
    };
    pal_message message = {.role = PAL_ROLE_USER, .parts = parts, .parts_len = 4};
    message.extra = pal_str_of("{\"not\":\"sent\"}");
    CHECK(json_same(arena, write_one(&message),
            "[{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"1\"},"
            "{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":\"2\"},"
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"and\"},"
            "{\"type\":\"text\",\"text\":\"[image image/png sha256:00]\"}]}]"));
    message.parts_len = 2;
    message.role = PAL_ROLE_TOOL;
    CHECK(json_same(arena, write_one(&message),
            "[{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"1\"},"
            "{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":\"2\"}]"));
    parts[0] = (pal_part){.kind = PAL_PART_REASONING, .text = pal_str_of("x")};
    parts[1] = (pal_part){.kind = PAL_PART_REASONING, .text = pal_str_of("y")};
    message.role = PAL_ROLE_ASSISTANT;
    message.parts_len = 3;
    CHECK(json_same(arena, write_one(&message),
            "[{\"role\":\"assistant\",\"content\":\"and\",\"reasoning_content\":\"x\\ny\"}]"));
    message.role = PAL_ROLE_NONE;
    pal_str text;
    CHECK_STATUS(pal_openai_chat_write(&message, 1, arena, &text, &error), PAL_INVALID, &error);
}

static void errors_name_the_place(void)
{
    CHECK(refused(
            "{\"role\":\"usr\",\"content\":\"a\"}", "member 'role' is 'usr'; expected one of"));
    CHECK(refused("[{\"role\":\"user\",\"content\":\"a\"},{\"content\":\"a\"}]",
            "messages[1]: member 'role' is missing"));
    CHECK(refused("{\"role\":\"user\",\"content\":7}", "member 'content' is 7; expected a string"));
    CHECK(refused(
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"text\":1}]}",
            "content[1]: member 'type' is missing"));
    CHECK(refused("{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}", "'text' is missing"));
    CHECK(refused("{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}",
            "'url' is missing"));
    CHECK(refused("{\"role\":\"assistant\",\"tool_calls\":{}}", "'tool_calls' is an object"));
    CHECK(refused("{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c\"}]}",
            "tool_calls[0]: member 'function' is missing"));
    CHECK(refused("7", "expected a message"));
}

/* ---- Random messages of the kinds that the form can express ---- */

static pal_str any_kept(message_random *random)
{
    static const char *const kept[] = {
            "", "", "{\"openai\":{\"x\":[1]}}", "{\"openai\":{\"y\":{}}}"};
    return pal_str_of(kept[random_below(random, 4)]);
}

static pal_part expressible_content(message_random *random)
{
    pal_part part = {.extra = any_kept(random)};
    switch (random_below(random, 4)) {
    case 0:
        part.kind = PAL_PART_IMAGE;
        part.url = pal_str_of("https://example.org/\"x\"");
        break;
    case 1:
        part.kind = PAL_PART_IMAGE;
        part.media_type = pal_str_of("image/jpeg");
        part.data = random_bytes(random);
        break;
    case 2:
        part.kind = PAL_PART_FILE;
        part.media_type = pal_str_of(random_below(random, 2) ? "audio/mp3" : "text/plain");
        part.name = pal_str_equal(part.media_type, pal_str_of("audio/mp3")) ? pal_str_of("")
                                                                            : random_text(random);
        part.data = random_bytes(random);
        break;
    default:
        part.kind = PAL_PART_TEXT;
        part.text = random_filled_text(random);
        break;
    }
    return part;
}

static void expressible_calls(message_random *random, pal_message *message)
{
    for (size_t i = random_below(random, 3); i > 0; i--) {
        pal_part *part = &message->parts[message->parts_len++];
        part->kind = PAL_PART_TOOL_CALL;
        part->call_id = random_text(random);
        part->name = random_text(random);
        part->arguments = random_text(random);
        part->extra = any_kept(random);
    }
}

static pal_message expressible_message(message_random *random)
{
    pal_message message = {.role = (pal_role)(1 + random_below(random, 4))};
    message.parts = pal_arena_array(arena, 16, sizeof(pal_part));
    message.extra = any_kept(random);
    if (message.role == PAL_ROLE_TOOL) {
        pal_part *result = &message.parts[message.parts_len++];
        result->kind = PAL_PART_TOOL_RESULT;
        result->call_id = random_text(random);
        result->name = random_text(random);
        result->text = random_text(random);
        return message;
    }
    if (message.role == PAL_ROLE_ASSISTANT && random_below(random, 2)) {
        message.parts[0].kind = PAL_PART_REASONING;
        message.parts[message.parts_len++].text = random_filled_text(random);
    }
    for (size_t i = random_below(random, 4); i > 0; i--)
        message.parts[message.parts_len++] = expressible_content(random);
    if (message.role == PAL_ROLE_ASSISTANT)
        expressible_calls(random, &message);
    return message;
}

static void random_messages_survive(void)
{
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        message_random random = {seed * UINT64_C(0x9e3779b97f4a7c15), arena};
        pal_message message = expressible_message(&random);
        pal_str json = write_one(&message);
        pal_status status = dialect_read(
                pal_openai_chat_read, json, arena, &messages, &messages_len, &error);
        if (!CHECK_STATUS(status, PAL_OK) || !CHECK_EQ(messages_len, 1) ||
                !CHECK(message_same(&message, &messages[0]))) {
            printf("# seed %d: %.*s %s\n", (int)seed, PAL_STR_ARG(json), error.message);
            break;
        }
        pal_arena_reset(arena);
    }
}

/* ---- What is written reads back, and is written the same again ---- */

static bool settles(const pal_message *message)
{
    pal_str first = write_one(message), second = {0};
    memset(&error, 0, sizeof(error));
    if (dialect_read(pal_openai_chat_read, first, arena, &messages, &messages_len, &error) ==
                    PAL_OK &&
            pal_openai_chat_write(messages, messages_len, arena, &second, &error) == PAL_OK &&
            pal_str_equal(first, second))
        return true;
    printf("# first  %.*s\n# second %.*s %s\n", PAL_STR_ARG(first), PAL_STR_ARG(second),
            error.message);
    return false;
}

static void a_lone_part_without_content_is_a_string(void)
{
    pal_part part = {.kind = PAL_PART_FILE, .name = pal_str_of("a.pdf")};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    CHECK(json_same(
            arena, write_one(&message), "[{\"role\":\"user\",\"content\":\"[file a.pdf]\"}]"));
    CHECK(settles(&message));
    part = (pal_part){.kind = PAL_PART_IMAGE, .media_type = pal_str_of("image/png")};
    message.role = PAL_ROLE_ASSISTANT;
    CHECK(json_same(arena, write_one(&message),
            "[{\"role\":\"assistant\",\"content\":\"[image image/png]\"}]"));
    CHECK(settles(&message));
}

static void empty_parts_are_not_content(void)
{
    pal_part parts[] = {
            {.kind = PAL_PART_REASONING, .text = pal_str_of("x")}, {.kind = PAL_PART_TEXT}};
    pal_message message = {.role = PAL_ROLE_ASSISTANT, .parts = parts, .parts_len = 2};
    CHECK(json_same(arena, write_one(&message),
            "[{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"x\"}]"));
    CHECK(settles(&message));
    parts[0].text.len = 0;
    CHECK(json_same(arena, write_one(&message), "[{\"role\":\"assistant\",\"content\":\"\"}]"));
    CHECK(settles(&message));
}

/* A stored message can have any extra members. */
static pal_str any_extra(message_random *random)
{
    static const char *const extras[] = {"", "", "", "{\"x\":1}", "{\"openai\":{\"x\":[1]}}",
            "{\"openai\":7}", "{\"openai\":{\"type\":\"text\",\"text\":1}}",
            "{\"openai\":{\"type\":\"function\"}}", "{\"openai\":{\"type\":\"custom\"}}",
            "{\"openai\":{\"type\":\"refusal\"}}", "{\"openai\":{\"type\":\"other\",\"y\":2}}",
            "{\"openai\":{\"type\":\"message_refusal\",\"x\":1}}",
            "{\"openai\":{\"type\":\"function_call\",\"function\":{\"name\":1,\"z\":2}}}",
            "{\"openai\":{\"type\":\"file\",\"file\":1}}",
            "{\"openai\":{\"file\":{\"file_id\":\"f\",\"filename\":2}}}",
            "{\"openai\":{\"file\":1,\"image_url\":2,\"input_audio\":3}}",
            "{\"openai\":{\"image_url\":\"\",\"function\":\"\",\"custom\":[]}}",
            "{\"openai\":{\"role\":\"function\",\"tool_calls\":[],\"refusal\":\"no\"}}",
            "{\"openai\":{\"role\":\"developer\",\"tool_calls\":7,\"name\":8}}",
            "{\"openai\":{\"reasoning_content\":\"r\",\"function_call\":{\"name\":\"f\"}}}",
            "{\"openai\":{\"content\":\"c\",\"tool_call_id\":\"i\",\"messages\":[]}}"};
    return pal_str_of(extras[random_below(random, sizeof(extras) / sizeof(extras[0]))]);
}

static void set_any_extras(message_random *random, pal_part *parts, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        parts[i].extra = any_extra(random);
        if (random_below(random, 3) == 0)
            parts[i].text = parts[i].name = pal_str_make(NULL, 0);
        set_any_extras(random, parts[i].parts, parts[i].parts_len);
    }
}

static void any_message_is_stable_after_one_round_trip(void)
{
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        message_random random = {seed * UINT64_C(0x9e3779b97f4a7c15), arena};
        pal_message message = random_message(&random);
        message.extra = any_extra(&random);
        set_any_extras(&random, message.parts, message.parts_len);
        if (!CHECK(settles(&message))) {
            printf("# seed %d\n", (int)seed);
            break;
        }
        pal_arena_reset(arena);
    }
}

static void an_allocation_failure_is_reported(void)
{
    static const char json[] =
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\\n\",\"x\":1},"
            "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AAEC\","
            "\"detail\":\"low\"}}],\"y\":2}";
    bool done = false;
    for (uint64_t nth = 1; nth < 200 && !done; nth++) {
        pal_memory_fail_at(nth, 0);
        pal_arena *small = pal_arena_new(0);
        pal_message *found;
        size_t found_len;
        pal_str text;
        pal_status status = PAL_NO_MEMORY;
        if (small)
            status = dialect_read(
                    pal_openai_chat_read, pal_str_of(json), small, &found, &found_len, &error);
        if (status == PAL_OK)
            status = pal_openai_chat_write(found, found_len, small, &text, &error);
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
    RUN(three_input_shapes_are_accepted);
    RUN(roles_and_names_survive);
    RUN(tool_calls_survive);
    RUN(results_survive);
    RUN(refusals_survive);
    RUN(media_survive);
    RUN(foreign_parts_are_written_as_far_as_possible);
    RUN(errors_name_the_place);
    RUN(random_messages_survive);
    RUN(a_lone_part_without_content_is_a_string);
    RUN(empty_parts_are_not_content);
    RUN(any_message_is_stable_after_one_round_trip);
    RUN(an_allocation_failure_is_reported);
    pal_arena_free(arena);
    return tap_done();
}
