/* test_openai_items.c - converts OpenAI's items to our messages and back. */
#include "base/json/json.h"
#include "base/memory.h"
#include "dialect/openai/openai_chat.h"
#include "dialect/openai/openai_items.h"
#include "support/json_check.h"
#include "support/message_random.h"
#include "support/tap.h"

static pal_arena *arena;
static pal_error error;
static pal_message *messages;
static size_t messages_len;
static pal_openai_item_find find_item;

static pal_status read_items(const char *json)
{
    pal_json value;
    memset(&error, 0, sizeof error);
    if (pal_json_parse(arena, pal_str_of(json), NULL, &value, &error) != PAL_OK)
        printf("# %s: %s\n", json, error.message);
    return pal_openai_items_read(
            value, "input", find_item, NULL, arena, &messages, &messages_len, &error);
}

static bool reads(const char *json)
{
    pal_status status = read_items(json);
    if (status != PAL_OK)
        printf("# %s: %s\n", json, error.message);
    return status == PAL_OK;
}

static bool refused(const char *json, const char *text)
{
    pal_status status = read_items(json);
    if (status == PAL_INVALID && strstr(error.message, text))
        return true;
    printf("# %s: %s '%s'\n", json, pal_status_name(status), error.message);
    return false;
}

static pal_str write_items(const pal_message *list, size_t len)
{
    pal_str json = {0};
    pal_buf buf;
    pal_buf_init(&buf, 1 << 24);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < len; i++) {
        for (size_t k = 0; k < pal_openai_items_count(&list[i]); k++)
            CHECK_STATUS(
                    pal_openai_item_put(&writer, &list[i], k, NULL, "completed", &error), PAL_OK, &error);
    }
    pal_json_end_array(&writer);
    CHECK(!buf.failure);
    json = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return json;
}

/* Without the ids, which Palaver creates. */
static pal_str without_ids(pal_str json)
{
    char *text = pal_arena_alloc(arena, json.len + 1);
    size_t len = 0;
    for (size_t i = 0; i < json.len; i++) {
        if (json.len - i > 6 && memcmp(json.data + i, "{\"id\":", 6) == 0) {
            text[len++] = '{';
            while (json.data[i] != ',')
                i++;
            continue;
        }
        text[len++] = json.data[i];
    }
    return pal_str_make(text, len);
}

/* Reads, converts to the native form and back as a store would, and writes: the result is the same,
 * or `expected`. */
static bool rewrites(const char *json, const char *expected)
{
    pal_str native;
    if (!reads(json))
        return false;
    for (size_t i = 0; i < messages_len; i++) {
        if (pal_message_to_json(&messages[i], arena, &native, &error) != PAL_OK ||
                pal_message_from_json(native, arena, &messages[i], &error) != PAL_OK) {
            printf("# %s\n", error.message);
            return false;
        }
    }
    return json_same(
            arena, without_ids(write_items(messages, messages_len)), expected ? expected : json);
}

#define DONE ",\"status\":\"completed\"}"
#define USER(parts) "{\"type\":\"message\",\"role\":\"user\",\"content\":[" parts "]" DONE
#define SAID(parts) "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[" parts "]" DONE
#define CALL(id)                                                                                   \
    "{\"type\":\"function_call\",\"call_id\":\"" id "\",\"name\":\"f\",\"arguments\":\"{ }\"" DONE
#define OUTPUT(id)                                                                                 \
    "{\"type\":\"function_call_output\",\"call_id\":\"" id "\",\"output\":\"42\"" DONE
#define REASONING "{\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":\"b3A=\"}"
#define IN(text) "{\"type\":\"input_text\",\"text\":\"" text "\"}"
#define OUT(text) "{\"type\":\"output_text\",\"text\":\"" text "\",\"annotations\":[]}"

static void texts_become_parts(void)
{
    CHECK(rewrites("\"hi\"", "[" USER(IN("hi")) "]"));
    CHECK(rewrites("[{\"role\":\"user\",\"content\":\"a\"}]", "[" USER(IN("a")) "]"));
    CHECK(rewrites("[{\"role\":\"assistant\",\"content\":\"a\"}]", "[" SAID(OUT("a")) "]"));
    CHECK(rewrites("[{\"role\":\"developer\",\"content\":\"d\"}]",
            "[{\"type\":\"message\",\"role\":\"developer\",\"content\":[" IN("d") "]" DONE "]"));
    CHECK_EQ(messages[0].role, PAL_ROLE_SYSTEM);
    CHECK(rewrites("[{\"role\":\"user\",\"content\":[]}]", "[" USER("") "]"));
    CHECK(rewrites("[]", NULL));
    CHECK_EQ(messages_len, 0);
    /* Text of an assistant is output, whatever its type was. */
    CHECK(rewrites("[{\"role\":\"assistant\",\"content\":[" IN("a") "]}]", "[" SAID(OUT("a")) "]"));
}

static void pieces_of_an_answer_are_merged(void)
{
    CHECK(rewrites("[" USER(IN("q")) "," REASONING "," SAID(OUT("a")) "," CALL("1") "," CALL(
                           "2") "," OUTPUT("1") "," OUTPUT("2") "," SAID(OUT("b")) "]",
            NULL));
    if (CHECK_EQ(messages_len, 5))
        CHECK_EQ(messages[1].parts_len, 4);
    CHECK_EQ(messages[1].role, PAL_ROLE_ASSISTANT);
    CHECK_EQ(messages[2].role, PAL_ROLE_TOOL);
    CHECK_STR(messages[1].parts[2].arguments, "{ }");
    /* Two messages stay two, and reasoning belongs to the item after it. */
    CHECK(reads("[" SAID(OUT("a")) "," SAID(OUT("b")) "]"));
    CHECK_EQ(messages_len, 2);
    CHECK(reads("[" SAID(OUT("a")) "," REASONING "," SAID(OUT("b")) "]"));
    CHECK_EQ(messages_len, 2);
    if (CHECK_EQ(messages[1].parts_len, 2))
        CHECK_EQ(messages[1].parts[0].kind, PAL_PART_REASONING);
    CHECK(reads("[" CALL("1") "," REASONING "," CALL("2") "]"));
    CHECK_EQ(messages_len, 1);
    CHECK(reads("[" CALL("1") "," USER(IN("x")) "," CALL("2") "]"));
    CHECK_EQ(messages_len, 3);
}

static void all_content_survives_a_round_trip(void)
{
    CHECK(rewrites("[" USER(IN("a") ",{\"type\":\"input_image\",\"image_url\":\"data:image/"
                                    "png;base64,iVBORw0KGgo=\",\"detail\":\"low\"},{\"type\":"
                                    "\"input_image\",\"image_url\":\"https://x/y\",\"detail\":"
                                    "\"auto\"},{\"type\":\"input_image\",\"file_id\":\"file-1\","
                                    "\"detail\":\"high\"}") "]",
            NULL));
    CHECK_EQ(messages[0].parts[1].data.len, 8);
    CHECK(rewrites("[" USER("{\"type\":\"input_file\",\"filename\":\"a.pdf\",\"file_data\":"
                            "\"data:application/pdf;base64,UERG\"},{\"type\":\"input_file\","
                            "\"file_url\":\"https://x\"},{\"type\":\"input_file\",\"file_id\":"
                            "\"file-2\"},{\"type\":\"input_file\",\"file_data\":\"UERG\"}") "]",
            NULL));
    CHECK(reads("[" SAID(OUT("a")) "]"));
    CHECK_EQ(messages[0].parts[0].extra.len, 0);
    CHECK(rewrites("[" SAID("{\"type\":\"refusal\",\"refusal\":\"no\"},{\"type\":\"output_text\","
                            "\"text\":\"x\",\"annotations\":[{\"a\":1}],\"new\":2}") "]",
            NULL));
    CHECK(rewrites("[{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":"
                   "\"s\"}],\"content\":[{\"type\":\"reasoning_text\",\"text\":\"a\"},{\"type\":"
                   "\"reasoning_text\",\"text\":\"b\"}]}]",
            NULL));
    CHECK_STR(messages[0].parts[0].text, "a\nb");
    CHECK(rewrites("[{\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"type\":"
                   "\"reasoning_text\",\"text\":\"t\"}]}]",
            NULL));
    CHECK_EQ(messages[0].parts[0].extra.len, 0);
    CHECK(rewrites("[{\"type\":\"function_call_output\",\"call_id\":\"1\",\"output\":[" IN(
                           "a") "," IN("b") "]" DONE "]",
            NULL));
    CHECK(rewrites("[{\"type\":\"custom_tool_call\",\"call_id\":\"1\",\"name\":\"f\",\"input\":"
                   "\"x\"" DONE ",{\"type\":\"custom_tool_call_output\",\"call_id\":\"1\","
                   "\"output\":\"y\"" DONE "]",
            NULL));
    CHECK(rewrites("[{\"type\":\"message\",\"role\":\"assistant\",\"content\":[" OUT(
                           "a") "],\"phase\":\"final\"" DONE "]",
            NULL));
}

/* Whether the only item of the message has this. */
static bool item_has(const pal_message *message, const char *text)
{
    pal_buf buf;
    pal_buf_init(&buf, 10000);
    pal_json_writer writer = pal_json_writer_make(&buf);
    bool has = pal_openai_item_put(&writer, message, 0, NULL, "completed", &error) == PAL_OK &&
            memmem(buf.data, buf.len, text, strlen(text));
    pal_buf_done(&buf);
    return has;
}

static bool input_is(const char *arguments, const char *input)
{
    return pal_str_is(pal_openai_custom_input(pal_str_of(arguments), arena), input);
}

/* Services have functions only. A client of chat completions may have marked a call itself. */
static void custom_calls_are_function_calls_for_models(void)
{
    static const char chat[] = "{\"openai\":{\"type\":\"custom\"}}";
    pal_str json;
    CHECK(reads("[{\"type\":\"custom_tool_call\",\"call_id\":\"1\",\"name\":\"f\",\"input\":"
                "\"a \\\"b\\\"\",\"new\":2}]"));
    CHECK_STR(messages[0].parts[0].arguments, "{\"input\":\"a \\\"b\\\"\"}");
    CHECK_STATUS(
            pal_openai_chat_write(messages, messages_len, arena, &json, &error), PAL_OK, &error);
    CHECK(json_same(arena, json,
            "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":"
            "\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
            "\"{\\\"input\\\":\\\"a \\\\\\\"b\\\\\\\"\\\"}\"}}]}]"));
    CHECK(input_is("{\"input\":\"a\\nb\"}", "a\nb"));
    CHECK(input_is("{}", ""));
    CHECK(input_is("", ""));
    CHECK(input_is("print(1)", "print(1)"));
    CHECK(input_is("{\"input\":1}", "{\"input\":1}"));
    pal_part part = {.kind = PAL_PART_TOOL_CALL,
            .call_id = pal_str_of("1"),
            .name = pal_str_of("f"),
            .arguments = pal_str_of("{\"input\":\"x\"}"),
            .extra = pal_str_of("{\"openai_items\":{\"type\":\"custom_tool_call\"}}")};
    const pal_message message = {.role = PAL_ROLE_ASSISTANT, .parts = &part, .parts_len = 1};
    if (CHECK(item_has(&message, "\"type\":\"custom_tool_call\"")))
        CHECK(item_has(&message, "\"input\":\"x\""));
    part.extra = pal_str_of(chat);
    part.arguments = pal_str_of("raw");
    if (CHECK(item_has(&message, "\"type\":\"custom_tool_call\"")))
        CHECK(item_has(&message, "\"input\":\"raw\""));
}

static void refusals_are_recognized(void)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("no")};
    const pal_message message = {.role = PAL_ROLE_ASSISTANT, .parts = &part, .parts_len = 1};
    CHECK(!pal_openai_part_is_refusal(&part));
    part.extra = pal_str_of(PAL_OPENAI_REFUSAL_EXTRA);
    CHECK(pal_openai_part_is_refusal(&part));
    CHECK(item_has(&message, "[{\"type\":\"refusal\",\"refusal\":\"no\"}]"));
    CHECK(reads(
            "[{\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"}]}]"));
    CHECK(pal_openai_part_is_refusal(&messages[0].parts[0]));
}

/* Members that only items have never reach a model. */
static void chat_completions_get_all_members_that_they_know(void)
{
    pal_str json;
    CHECK(reads("[{\"role\":\"user\",\"phase\":\"x\",\"content\":[{\"type\":\"input_text\","
                "\"text\":\"a\",\"new\":1},{\"type\":\"input_image\",\"image_url\":\"https://x\","
                "\"detail\":\"low\"}]}]"));
    CHECK_STATUS(
            pal_openai_chat_write(messages, messages_len, arena, &json, &error), PAL_OK, &error);
    CHECK(json_same(arena, json,
            "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":"
            "\"image_url\",\"image_url\":{\"url\":\"https://x\",\"detail\":\"low\"}}]}]"));
}

/* The Agents SDK throws if it gets anything else. */
static void assistant_messages_contain_only_texts(void)
{
    pal_part parts[] = {{.kind = PAL_PART_TEXT, .text = pal_str_of("a")},
            {.kind = PAL_PART_IMAGE, .url = pal_str_of("https://x")},
            {.kind = PAL_PART_FILE, .url = pal_str_of("https://x"), .name = pal_str_of("b.txt")}};
    const pal_message message = {.role = PAL_ROLE_ASSISTANT, .parts = parts, .parts_len = 3};
    CHECK(json_same(arena, without_ids(write_items(&message, 1)),
            "[" SAID(OUT("a") "," OUT("[image]") "," OUT("[file b.txt]")) "]"));
}

static void wrong_items_are_reported(void)
{
    CHECK(refused("7", "'input'"));
    CHECK(refused("[7]", "input[0]: is number"));
    CHECK(refused("[{\"type\":\"nonsense\"}]", "input[0]: member 'type' is 'nonsense'"));
    CHECK(refused("[{}]", "'type' is missing"));
    CHECK(refused("[{\"role\":\"robot\",\"content\":\"x\"}]", "'role'"));
    CHECK(refused("[{\"role\":\"user\"}]", "'content' is missing"));
    CHECK(refused("[{\"role\":\"user\",\"content\":7}]", "'content' is 7"));
    CHECK(refused("[{\"role\":\"user\",\"content\":[{\"type\":\"x\"}]}]", "input[0]: content[0]"));
    CHECK(refused("[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\"}]}]", "'text'"));
    CHECK(refused("[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]", "image_url"));
    CHECK(refused("[{\"role\":\"user\",\"content\":[{\"type\":\"input_file\"}]}]", "file_data"));
    CHECK(refused("[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\"}]", "arguments"));
    CHECK(refused("[{\"type\":\"function_call\",\"call_id\":\"\",\"name\":\"f\",\"arguments\":"
                  "\"\"}]",
            "'call_id' is empty"));
    CHECK(refused("[{\"type\":\"function_call_output\",\"call_id\":\"c\"}]", "'output'"));
    CHECK(refused("[{\"type\":\"reasoning\",\"summary\":7}]", "'summary'"));
    CHECK(refused("[{\"type\":\"item_reference\",\"id\":\"msg_1\"}]", "item_reference"));
}

static pal_message stored;

static pal_status find_stored(pal_str id, pal_arena *where, pal_message *out_message,
        size_t *out_index, void *user, pal_error *err)
{
    (void)where;
    (void)user;
    if (!pal_openai_item_index(&stored, id, out_index))
        return pal_error_set(err, PAL_NOT_FOUND, "none");
    *out_message = stored;
    return PAL_OK;
}

static void references_are_replaced_by_their_items(void)
{
    pal_part parts[] = {{.kind = PAL_PART_TEXT, .text = pal_str_of("a")},
            {.kind = PAL_PART_TOOL_CALL,
                    .call_id = pal_str_of("1"),
                    .name = pal_str_of("f"),
                    .arguments = pal_str_of("{}")}};
    char id[PAL_OPENAI_ITEM_ID_SIZE], json[400];
    stored = (pal_message){
            .id = pal_id_new(), .role = PAL_ROLE_ASSISTANT, .parts = parts, .parts_len = 2};
    pal_openai_item_id(&stored, 1, id);
    snprintf(json, sizeof json, "[{\"type\":\"item_reference\",\"id\":\"%s\"}]", id);
    find_item = find_stored;
    CHECK(reads(json));
    if (CHECK_EQ(messages_len, 1))
        CHECK_EQ(messages[0].parts_len, 1);
    CHECK_EQ(messages[0].parts[0].kind, PAL_PART_TOOL_CALL);
    CHECK(pal_id_is_none(messages[0].id));
    snprintf(json, sizeof json, "[{\"id\":\"%s\"}]", id);
    CHECK(reads(json));
    CHECK_EQ(messages_len, 1);
    CHECK(refused("[{\"type\":\"item_reference\",\"id\":\"msg_1\"}]", "unknown item 'msg_1'"));
    stored.role = PAL_ROLE_NONE;
    CHECK(reads(json));
    CHECK_EQ(messages_len, 0);
    find_item = NULL;
}

static void ids_of_items_are_stable(void)
{
    pal_part parts[] = {{.kind = PAL_PART_REASONING, .text = pal_str_of("r")},
            {.kind = PAL_PART_TEXT, .text = pal_str_of("a")},
            {.kind = PAL_PART_TEXT, .text = pal_str_of("b")},
            {.kind = PAL_PART_TOOL_CALL, .call_id = pal_str_of("1"), .name = pal_str_of("f")}};
    pal_message message = {
            .id = pal_id_new(), .role = PAL_ROLE_ASSISTANT, .parts = parts, .parts_len = 4};
    char ids[3][PAL_OPENAI_ITEM_ID_SIZE];
    pal_id owner;
    size_t index = 9, first, len;
    CHECK_EQ(pal_openai_items_count(&message), 3);
    for (size_t i = 0; i < 3; i++) {
        pal_openai_item_id(&message, i, ids[i]);
        if (CHECK(pal_openai_item_parse(pal_str_of(ids[i]), &owner)))
            CHECK_ID(owner, message.id);
        if (CHECK(pal_openai_item_index(&message, pal_str_of(ids[i]), &index)))
            CHECK_EQ(index, i);
    }
    CHECK_BEGINS(ids[0], "rs_");
    CHECK_BEGINS(ids[1], "msg_");
    CHECK_BEGINS(ids[2], "fc_");
    CHECK_STR(ids[2] + strlen(ids[2]) - 2, "_3");
    pal_openai_item_parts(&message, 1, &first, &len);
    CHECK_EQ(first, 1);
    CHECK_EQ(len, 2);
    /* The reasoning is hidden: the other items keep their ids. */
    for (uint32_t i = 0; i < 4; i++)
        parts[i].number = i + 1;
    message.parts++;
    message.parts_len--;
    if (CHECK(pal_openai_item_index(&message, pal_str_of(ids[1]), &index)))
        CHECK_EQ(index, 0);
    if (CHECK(pal_openai_item_index(&message, pal_str_of(ids[2]), &index)))
        CHECK_EQ(index, 1);
    CHECK(!pal_openai_item_index(&message, pal_str_of(ids[0]), &index));
    CHECK(!pal_openai_item_parse(pal_str_of("msg_1"), &owner));
    CHECK(!pal_openai_item_parse(pal_str_of("resp_00000000000000000000000000000001"), &owner));
    CHECK(!pal_openai_item_parse(pal_str_of("fc_0000000000000000000000000000000100"), &owner));
}

/* For any message, the output can be read, and is then written the same. */
static void any_message_can_be_shown(void)
{
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        message_random random = {.state = seed, .arena = arena};
        pal_message message = random_message(&random);
        pal_str first = write_items(&message, 1); /* terminated, as all copies are */
        if (!CHECK(reads(first.data)))
            return;
        pal_str second = write_items(messages, messages_len);
        if (!CHECK(json_same(arena, without_ids(first), without_ids(second).data)))
            return;
        pal_arena_reset(arena);
    }
}

static void a_record_keeps_items_without_a_counterpart(void)
{
    static const char json[] =
            "[{\"type\":\"web_search_call\",\"action\":{\"query\":\"q\"},\"status\":\"completed\"},"
            "{\"type\":\"compaction\",\"encrypted_content\":\"?!\",\"status\":\"completed\"}]";
    pal_json value;
    CHECK_STATUS(pal_json_parse(arena, pal_str_of(json), NULL, &value, &error), PAL_OK, &error);
    CHECK_STATUS(pal_openai_items_read_all(
                         value, "input", arena, &messages, &messages_len, &error),
            PAL_OK, &error);
    CHECK_EQ(messages_len, 1);
    CHECK_EQ(messages[0].parts_len, 2);
    CHECK_EQ(messages[0].parts[0].kind, PAL_PART_FILE);
    CHECK_STR(without_ids(write_items(messages, messages_len)), json);
    CHECK(reads("[{\"type\":\"web_search_call\",\"id\":\"ws_1\"}]"));
    CHECK_EQ(messages_len, 0); /* a model gets only what it can read */
    CHECK(refused("[{\"type\":\"compaction\",\"encrypted_content\":\"?!\"}]", "compaction"));
}

/* The summary of a service can be base64 of a text too. Only ours has the mark. */
static void a_record_keeps_summaries_of_a_service(void)
{
    static const char theirs[] =
            "[{\"type\":\"compaction\",\"encrypted_content\":\"b3BlbiBzdW1tYXJ5\"}]";
    static const char ours[] =
            "[{\"type\":\"compaction\",\"encrypted_content\":\"cGFsYXZlcjoKb3BlbiBzdW1tYXJ5\"}]";
    const char *texts[] = {theirs, ours};
    for (size_t i = 0; i < 2; i++) {
        pal_json value;
        CHECK_STATUS(
                pal_json_parse(arena, pal_str_of(texts[i]), NULL, &value, &error), PAL_OK, &error);
        CHECK_STATUS(pal_openai_items_read_all(
                             value, "input", arena, &messages, &messages_len, &error),
                PAL_OK, &error);
        CHECK_EQ(messages[0].parts[0].kind, i == 0 ? PAL_PART_FILE : PAL_PART_COMPACTION);
        CHECK(reads(texts[i]));
        CHECK_EQ(messages[0].parts[0].kind, PAL_PART_COMPACTION);
        CHECK_STR(messages[0].parts[0].text, "open summary");
    }
}

static void a_record_leaves_out_additional_tools(void)
{
    pal_json value;
    static const char json[] = "[{\"type\":\"additional_tools\",\"tools\":[]},"
                               "{\"role\":\"user\",\"content\":\"hi\"}]";
    CHECK_STATUS(pal_json_parse(arena, pal_str_of(json), NULL, &value, &error), PAL_OK, &error);
    CHECK_STATUS(pal_openai_items_read_all(
                         value, "input", arena, &messages, &messages_len, &error),
            PAL_OK, &error);
    CHECK_EQ(messages_len, 1);
}

/* A service gets back what it sent: the same items in the same order. */
static void a_service_can_read_its_answer_again(void)
{
    static const char json[] =
            "[{\"type\":\"reasoning\",\"encrypted_content\":\"x\",\"summary\":[{\"text\":\"Hm\"}]},"
            "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
            "\"text\":\"a\",\"annotations\":[{\"n\":1}]}],\"phase\":\"one\"},"
            "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\","
            "\"refusal\":\"b\"},{\"type\":\"output_text\",\"text\":\"c\",\"annotations\":[]}]},"
            "{\"type\":\"web_search_call\",\"id\":\"ws\",\"status\":\"failed\"},"
            "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
            "\"text\":\"d\",\"annotations\":[]}],\"phase\":\"two\"},"
            "{\"type\":\"custom_tool_call\",\"call_id\":\"c\",\"name\":\"f\",\"input\":\"y\"}]";
    pal_message message;
    pal_buf buf;
    pal_buf_init(&buf, 1 << 16);
    pal_json_writer writer = pal_json_writer_make(&buf);
    CHECK_STATUS(pal_openai_items_read_answer(pal_str_of(json), arena, &message, &error), PAL_OK,
            &error);
    CHECK_EQ(message.parts_len, 7);
    CHECK_EQ(pal_openai_items_count(&message), 6);
    pal_json_begin_array(&writer);
    CHECK_STATUS(pal_openai_items_put_input(&writer, &message, &error), PAL_OK, &error);
    pal_json_end_array(&writer);
    CHECK_STR(pal_buf_str(&buf), json);
    pal_buf_done(&buf);
}

static void a_stream_is_joined_to_its_response(void)
{
    pal_str answer;
    static const char done[] =
            "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"item\":"
            "{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"Hi.\"}}\n\n";
    static const char end[] =
            "data:{\"type\":\"response.completed\",\"response\":{\"model\":\"m\",\"output\":[],"
            "\"usage\":{\"input_tokens\":9,\"input_tokens_details\":{\"cached_tokens\":4},"
            "\"output_tokens\":2}}}\r\n\r\ndata: [DONE]\n\n";
    char stream[1024];
    snprintf(stream, sizeof stream, "%s%s", done, end);
    CHECK_STATUS(pal_openai_items_answer_join(pal_str_of(stream), arena, &answer, &error), PAL_OK,
            &error);
    CHECK_STATUS(
            pal_openai_items_answer_read(answer, arena, &messages, &messages_len, &error), PAL_OK,
            &error);
    CHECK_EQ(messages_len, 1);
    CHECK_STR(messages[0].parts[0].text, "Hi.");
    CHECK_STR(messages[0].model, "m");
    CHECK_EQ(messages[0].usage.input, 5);
    CHECK_EQ(messages[0].usage.cache_read, 4);
    CHECK_EQ(pal_openai_items_answer_join(pal_str_of(done), arena, &answer, &error), PAL_INVALID);
    CHECK_EQ(pal_openai_items_answer_join(pal_str_of("data: {\n\n"), arena, &answer, &error),
            PAL_INVALID);
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(texts_become_parts);
    RUN(pieces_of_an_answer_are_merged);
    RUN(all_content_survives_a_round_trip);
    RUN(custom_calls_are_function_calls_for_models);
    RUN(refusals_are_recognized);
    RUN(chat_completions_get_all_members_that_they_know);
    RUN(assistant_messages_contain_only_texts);
    RUN(wrong_items_are_reported);
    RUN(references_are_replaced_by_their_items);
    RUN(ids_of_items_are_stable);
    RUN(any_message_can_be_shown);
    RUN(a_record_keeps_items_without_a_counterpart);
    RUN(a_record_keeps_summaries_of_a_service);
    RUN(a_record_leaves_out_additional_tools);
    RUN(a_service_can_read_its_answer_again);
    RUN(a_stream_is_joined_to_its_response);
    pal_arena_free(arena);
    return tap_done();
}
