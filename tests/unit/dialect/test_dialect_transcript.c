/* test_dialect_transcript.c - transcripts of other programs and of Palaver, line by line. */
#include <stdlib.h>
#include "base/memory.h"
#include "dialect/native/native.h"
#include "dialect/transcript/transcript.h"
#include "support/message_random.h"
#include "support/tap.h"

#define ITEMS_MAX 200

static pal_arena *arena;
static pal_error error;
static pal_transcript *transcript;
static pal_transcript_item items[ITEMS_MAX];
static size_t items_len;

static void take(pal_status status, const pal_transcript_items *more)
{
    CHECK_STATUS(status, PAL_OK);
    for (size_t i = 0; status == PAL_OK && i < more->len && items_len < ITEMS_MAX; i++)
        items[items_len++] = more->items[i];
}

static void begin(pal_transcript_kind kind)
{
    pal_transcript_close(transcript);
    transcript = pal_transcript_open(kind);
    items_len = 0;
}

static void feed(pal_str line)
{
    pal_transcript_items more = {0};
    take(pal_transcript_feed(transcript, line, arena, &more, &error), &more);
}

static void finish(void)
{
    pal_transcript_items more = {0};
    take(pal_transcript_finish(transcript, arena, &more, &error), &more);
}

/* Feeds a file, each line in separate memory that is freed afterwards. */
static void feed_file(const char *name)
{
    char path[512], *line = NULL;
    size_t cap = 0;
    ssize_t len;
    snprintf(path, sizeof(path), "%s/transcripts/%s", TEST_DATA, name);
    FILE *file = fopen(path, "r");
    if (!CHECK(file != NULL))
        return;
    while ((len = getline(&line, &cap, file)) >= 0) {
        feed(pal_str_make(line, (size_t)len));
        memset(line, '!', (size_t)len);
    }
    free(line);
    fclose(file);
    finish();
}

/* The nth item of a kind, from 0; an item of kind NONE if there are fewer. */
static const pal_transcript_item *nth(pal_transcript_item_kind kind, size_t n)
{
    static const pal_transcript_item none;
    for (size_t i = 0; i < items_len; i++) {
        if (items[i].kind == kind && n-- == 0)
            return &items[i];
    }
    CHECK(!"there are too few items");
    return &none;
}

static const pal_message *message(size_t n)
{
    return &nth(PAL_ENTRY_MESSAGE, n)->u.message;
}

static size_t count(pal_transcript_item_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < items_len; i++)
        n += items[i].kind == kind;
    return n;
}

static bool text_is(const pal_message *m, size_t part, pal_part_kind kind, const char *text)
{
    return part < m->parts_len && m->parts[part].kind == kind &&
            pal_str_is(m->parts[part].text, text);
}

static bool warned(uint64_t line, const char *text)
{
    for (size_t i = 0; i < items_len; i++) {
        if (items[i].kind == PAL_ENTRY_WARNING && items[i].line == line &&
                strstr(items[i].u.warning, text))
            return true;
    }
    return false;
}

static void show_warnings(void)
{
    for (size_t i = 0; i < items_len; i++) {
        if (items[i].kind == PAL_ENTRY_WARNING)
            printf("# warning, line %d: %s\n", (int)items[i].line, items[i].u.warning);
    }
}

/* ---- Claude Code ---- */

static void claude_code_facts_are_found(void)
{
    begin(PAL_TRANSCRIPT_AUTO);
    feed_file("claude_code.jsonl");
    CHECK_EQ(pal_transcript_kind_of(transcript), PAL_TRANSCRIPT_CLAUDE_CODE);
    const pal_transcript_facts *facts = pal_transcript_session(transcript);
    CHECK_STR(facts->original_id, "11111111-2222-4333-8444-555555555555");
    CHECK_STR(facts->session.key, "claude-code:11111111-2222-4333-8444-555555555555");
    CHECK_STR(facts->session.title, "Counting lines");
    CHECK_STR(facts->session.project, "/home/ada/engine");
    CHECK_STR(facts->session.agent, "claude-code");
    CHECK_STR(facts->branch, "main");
    CHECK_STR(facts->session.metadata,
            "{\"source\":\"claude-code\",\"original_id\":"
            "\"11111111-2222-4333-8444-555555555555\",\"branch\":\"main\"}");
    CHECK_EQ(facts->session.created_at, INT64_C(1772359200000));
    CHECK_EQ(items[0].kind, PAL_ENTRY_SESSION);
    CHECK_STR(items[0].u.facts->session.title, "Older title");
    CHECK_EQ(count(PAL_ENTRY_SESSION), 1);
    CHECK_EQ(count(PAL_ENTRY_MESSAGE), 12);
    CHECK_EQ(count(PAL_ENTRY_MARK), 1);
}

static void pieces_of_an_answer_become_one(void)
{
    const pal_message *answer = message(1);
    CHECK_EQ(answer->role, PAL_ROLE_ASSISTANT);
    CHECK_EQ(answer->parts_len, 4);
    CHECK(text_is(answer, 0, PAL_PART_REASONING, "Two tools at once."));
    CHECK_STR(answer->parts[0].signature, "c2lnbmF0dXJl+/==");
    CHECK_STR(answer->parts[0].family, "anthropic");
    CHECK(text_is(answer, 1, PAL_PART_TEXT, "Looking."));
    CHECK_STR(answer->parts[2].arguments, "{\"command\": \"ls\"}");
    CHECK_STR(answer->parts[3].call_id, "toolu_2");
    CHECK_STR(answer->model, "claude-example-1");
    CHECK_STR(answer->client_id, "00000000-0000-4000-8000-000000000002");
    CHECK(answer->has_usage);
    CHECK_EQ(answer->usage.input, 10);
    CHECK_EQ(answer->usage.cache_write, 200);
    CHECK_EQ(answer->usage.cache_read, 3000);
    CHECK_EQ(answer->usage.output, 77);
    CHECK_STR(answer->extra, "{\"claude_code\":{\"requestId\":\"req_1\"}}");
    CHECK_EQ(answer->created_at, INT64_C(1772359201000));
    CHECK_EQ(nth(PAL_ENTRY_MESSAGE, 1)->line, 3);
}

static void results_follow_their_calls(void)
{
    const pal_message *first = message(2), *second = message(3);
    CHECK_EQ(first->role, PAL_ROLE_TOOL);
    CHECK(text_is(first, 0, PAL_PART_TOOL_RESULT, "a.c\nb.c"));
    CHECK_STR(first->parts[0].call_id, "toolu_1");
    CHECK(!first->parts[0].is_error);
    CHECK_EQ(second->role, PAL_ROLE_TOOL);
    CHECK_EQ(second->parts[0].parts_len, 2);
    CHECK(second->parts[0].is_error);
    CHECK_EQ(second->parts[0].parts[1].kind, PAL_PART_IMAGE);
    CHECK_STR(second->parts[0].parts[1].media_type, "image/png");
    CHECK_EQ(second->parts[0].parts[1].data.len, 8);
    const pal_message *late = message(10), *said = message(11);
    CHECK_EQ(late->role, PAL_ROLE_TOOL);
    CHECK(text_is(late, 0, PAL_PART_TOOL_RESULT, "late"));
    CHECK_EQ(said->role, PAL_ROLE_USER);
    CHECK(text_is(said, 0, PAL_PART_TEXT, "and go on"));
    CHECK_STR(said->client_id, "00000000-0000-4000-8000-000000000011:said");
}

static void odd_records_are_reported(void)
{
    CHECK_EQ(message(4)->parts_len, 3);
    CHECK_STR(message(4)->parts[1].signature, "b3BhcXVl");
    CHECK_STR(message(4)->parts[1].extra, "{\"anthropic\":{\"type\":\"redacted_thinking\"}}");
    CHECK_STR(message(4)->parts[2].extra, "{\"anthropic\":{\"type\":\"brand_new\",\"x\":1}}");
    CHECK_EQ(message(6)->flags, (PAL_MESSAGE_FLAG_ERROR | PAL_MESSAGE_FLAG_SYNTHETIC));
    CHECK_EQ(message(6)->model.len, 0);
    CHECK_EQ(message(8)->flags, PAL_MESSAGE_FLAG_SUMMARY);
    CHECK(text_is(message(8), 0, PAL_PART_COMPACTION, "They looked at two files."));
    CHECK_EQ(message(9)->flags, PAL_MESSAGE_FLAG_SYNTHETIC);
    CHECK(warned(10, "sub-agents"));
    CHECK(warned(13, "skipped"));
    CHECK(warned(14, "from-the-future"));
    CHECK(warned(23, "skipped"));
    CHECK_EQ(count(PAL_ENTRY_WARNING), 5); /* and the block of the type brand_new */
}

static void going_back_becomes_a_rewind(void)
{
    CHECK_EQ(count(PAL_ENTRY_MARK), 1);
    const pal_mark *mark = &nth(PAL_ENTRY_MARK, 0)->u.mark;
    CHECK_EQ(mark->kind, PAL_MARK_REWIND);
    CHECK_EQ(mark->seq, 5);
    CHECK_EQ(nth(PAL_ENTRY_MARK, 0)->line, 17);
    CHECK(text_is(message(7), 0, PAL_PART_TEXT, "No: count them."));
    CHECK_PTR(nth(PAL_ENTRY_MESSAGE, 7), nth(PAL_ENTRY_MARK, 0) + 1);
}

static void a_sub_agents_file_is_a_session(void)
{
    begin(PAL_TRANSCRIPT_AUTO);
    feed(pal_str_of("{\"type\":\"user\",\"uuid\":\"a\",\"isSidechain\":true,\"sessionId\":\"s\","
                    "\"message\":{\"role\":\"user\",\"content\":\"x\"}}"));
    finish();
    CHECK_EQ(count(PAL_ENTRY_MESSAGE), 1);
    CHECK_EQ(count(PAL_ENTRY_WARNING), 0);
    CHECK_STR(pal_transcript_session(transcript)->session.key, "claude-code:s");
    /* Newer files name the sub-agent. Its session is not the one that started it. */
    begin(PAL_TRANSCRIPT_AUTO);
    feed(pal_str_of("{\"type\":\"user\",\"uuid\":\"a\",\"isSidechain\":true,\"sessionId\":\"s\","
                    "\"agentId\":\"a0b1\",\"message\":{\"role\":\"user\",\"content\":\"x\"}}"));
    finish();
    CHECK_STR(pal_transcript_session(transcript)->session.key, "claude-code:s:a0b1");
}

/* Parallel calls have adjacent results; a prompt follows one of them. */
static void parallel_results_are_not_a_rewind(void)
{
    static const char *const lines[] = {
            "{\"type\":\"user\",\"uuid\":\"a\",\"message\":{\"content\":\"go\"}}",
            "{\"type\":\"assistant\",\"uuid\":\"b\",\"parentUuid\":\"a\",\"message\":{\"content\":["
            "{\"type\":\"tool_use\",\"id\":\"1\",\"name\":\"f\",\"input\":{}},"
            "{\"type\":\"tool_use\",\"id\":\"2\",\"name\":\"f\",\"input\":{}}]}}",
            "{\"type\":\"user\",\"uuid\":\"c\",\"parentUuid\":\"b\",\"message\":{\"content\":["
            "{\"type\":\"tool_result\",\"tool_use_id\":\"1\",\"content\":\"x\"}]}}",
            "{\"type\":\"user\",\"uuid\":\"d\",\"parentUuid\":\"b\",\"message\":{\"content\":["
            "{\"type\":\"tool_result\",\"tool_use_id\":\"2\",\"content\":\"y\"}]}}",
            "{\"type\":\"user\",\"uuid\":\"e\",\"parentUuid\":\"c\",\"message\":{\"content\":"
            "\"on\"}}"};
    begin(PAL_TRANSCRIPT_AUTO);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        feed(pal_str_of(lines[i]));
    finish();
    CHECK_EQ(count(PAL_ENTRY_MESSAGE), 5);
    CHECK_EQ(count(PAL_ENTRY_MARK), 0);
}

static void messages_that_cannot_be_stored_are_reported(void)
{
    static const char line[] = "{\"type\":\"user\",\"uuid\":\"a\",\"sessionId\":\"s\",\"message\":{"
                               "\"content\":\"x\"}}";
    begin(PAL_TRANSCRIPT_AUTO);
    feed(pal_str_of(line));
    feed(pal_str_of(line)); /* a repeated record */
    feed(pal_str_of("{\"type\":\"user\",\"message\":{\"content\":\"y\"}}"));
    feed(pal_str_of("{\"type\":\"user\",\"uuid\":\"b\",\"message\":{\"content\":"
                    "[{\"type\":\"tool_result\",\"content\":\"x\"}]}}"));
    finish();
    CHECK_EQ(count(PAL_ENTRY_MESSAGE), 2);
    CHECK_EQ(count(PAL_ENTRY_WARNING), 1);
    CHECK_STR(message(1)->client_id, "claude-code:3");
    CHECK(warned(4, "'call_id' is missing"));
}

/* A recorded message cannot be refused any more, as it would be in a request. */
static void wrong_blocks_are_kept_unchanged(void)
{
    static const char line[] =
            "{\"type\":\"user\",\"uuid\":\"a\",\"sessionId\":\"s\",\"message\":{\"content\":["
            "\"no block\",{\"type\":\"text\",\"text\":7},{\"type\":\"tool_result\","
            "\"tool_use_id\":\"c\",\"content\":[null,{\"type\":\"text\",\"text\":\"in\"},{}]}]}}";
    begin(PAL_TRANSCRIPT_AUTO);
    feed(pal_str_of(line));
    finish();
    if (!CHECK_EQ(count(PAL_ENTRY_MESSAGE), 2) || !CHECK_EQ(count(PAL_ENTRY_WARNING), 3))
        return;
    CHECK(warned(1, "'content' is not an object"));
    CHECK(warned(1, "'content[1]' has an unknown type"));
    const pal_part *result = message(0)->parts;
    CHECK_EQ(result->kind, PAL_PART_TOOL_RESULT);
    CHECK_EQ(result->parts_len, 2);
    CHECK_STR(result->parts[0].text, "in");
    CHECK_EQ(result->parts[1].kind, PAL_PART_FILE);
    CHECK_EQ(message(1)->parts_len, 1);
    CHECK_EQ(message(1)->parts->kind, PAL_PART_FILE);
    CHECK_STR(message(1)->parts->extra, "{\"anthropic\":{\"type\":\"text\",\"text\":7}}");
}

/* ---- Codex ---- */

static void unusual_parts_of_codex_are_kept(void)
{
    static const char line[] =
            "{\"timestamp\":\"2026-01-01T00:00:00Z\",\"type\":\"response_item\",\"payload\":{"
            "\"type\":\"message\",\"role\":\"user\",\"content\":[\"stray\","
            "{\"type\":\"refusal\",\"refusal\":\"No.\"},{\"type\":\"input_file\",\"filename\":\"a.txt\","
            "\"file_data\":\"data:text/plain;base64,aGk=\"},{\"type\":\"smell\",\"of\":\"roses\"}]}}";
    begin(PAL_TRANSCRIPT_AUTO);
    feed(pal_str_of(line));
    finish();
    if (!CHECK_EQ(count(PAL_ENTRY_MESSAGE), 1) || !CHECK_EQ(message(0)->parts_len, 3))
        return;
    CHECK(text_is(message(0), 0, PAL_PART_TEXT, "No."));
    CHECK_STR(message(0)->parts[1].name, "a.txt");
    CHECK_STR(message(0)->parts[1].data, "hi");
    CHECK_STR(message(0)->parts[2].extra, "{\"codex\":{\"type\":\"smell\",\"of\":\"roses\"}}");
    CHECK_EQ(count(PAL_ENTRY_WARNING), 2);
    CHECK(warned(1, "'content' is not an object"));
    CHECK(warned(1, "'content[2]' has an unknown type"));
}

static void codex_is_read(void)
{
    begin(PAL_TRANSCRIPT_AUTO);
    feed_file("codex.jsonl");
    CHECK_EQ(pal_transcript_kind_of(transcript), PAL_TRANSCRIPT_CODEX);
    const pal_transcript_facts *facts = pal_transcript_session(transcript);
    CHECK_STR(facts->session.key, "codex:019aaaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee");
    CHECK_STR(facts->session.project, "/home/ada/engine");
    CHECK_STR(facts->branch, "topic");
    CHECK_STR(facts->session.title, "The cat");
    CHECK_EQ(facts->session.created_at, INT64_C(1775030400000));
    CHECK_EQ(count(PAL_ENTRY_MESSAGE), 11);
    CHECK_EQ(message(0)->role, PAL_ROLE_SYSTEM);
    CHECK_STR(message(0)->extra, "{\"openai\":{\"role\":\"developer\"}}");
    CHECK_STR(message(0)->client_id, "codex:2");
    CHECK_EQ(message(1)->flags, PAL_MESSAGE_FLAG_SYNTHETIC);
    CHECK_EQ(message(2)->flags, 0);
    CHECK_EQ(message(2)->parts_len, 2);
    CHECK_EQ(message(2)->parts[1].data.len, 8);
    CHECK(warned(19, "unknown type"));
    CHECK_EQ(count(PAL_ENTRY_WARNING), 1);
}

static void pieces_of_codex_answers_are_merged(void)
{
    const pal_message *answer = message(3);
    CHECK_EQ(answer->role, PAL_ROLE_ASSISTANT);
    CHECK_EQ(answer->parts_len, 4);
    CHECK(text_is(answer, 0, PAL_PART_REASONING, "First.\n\nSecond."));
    CHECK_STR(answer->parts[0].signature, "gAAAAB==");
    CHECK_STR(answer->parts[0].family, "openai");
    CHECK_STR(answer->parts[0].extra, "{\"codex\":{\"id\":\"rs_1\"}}");
    CHECK(text_is(answer, 1, PAL_PART_TEXT, "Let me look."));
    CHECK_STR(answer->parts[1].extra, "{\"codex\":{\"phase\":\"commentary\"}}");
    CHECK_STR(answer->parts[2].arguments, "{\"command\":[\"ls\"]}");
    CHECK_STR(answer->parts[3].arguments, "*** Begin Patch");
    CHECK_STR(answer->model, "gpt-example");
    CHECK_STR(answer->client_id, "codex:7");
    CHECK(answer->has_usage);
    CHECK_EQ(answer->usage.input, 400);
    CHECK_EQ(answer->usage.cache_read, 600);
    CHECK_EQ(answer->usage.output, 50);
    CHECK_EQ(answer->usage.reasoning, 20);
    CHECK(text_is(message(4), 0, PAL_PART_TOOL_RESULT, "a.c\nb.c"));
    CHECK(text_is(message(5), 0, PAL_PART_TOOL_RESULT, "failed"));
    CHECK(message(5)->parts[0].is_error);
    CHECK_EQ(message(6)->parts_len, 2);
    CHECK_STR(message(6)->parts[0].name, "local_shell");
    CHECK_STR(message(6)->parts[1].call_id, "ws_1");
    CHECK_EQ(message(7)->parts[0].parts_len, 1);
    CHECK(text_is(message(8), 0, PAL_PART_TEXT, "A cat."));
}

static void codex_rollbacks_become_rewinds(void)
{
    CHECK_EQ(count(PAL_ENTRY_MARK), 1);
    CHECK_EQ(nth(PAL_ENTRY_MARK, 0)->u.mark.kind, PAL_MARK_REWIND);
    CHECK_EQ(nth(PAL_ENTRY_MARK, 0)->u.mark.seq, 9);
    CHECK(text_is(message(10), 0, PAL_PART_COMPACTION, "A picture of a cat was seen."));
    CHECK_EQ(message(10)->flags, (PAL_MESSAGE_FLAG_SUMMARY | PAL_MESSAGE_FLAG_SYNTHETIC));
}

static void counted_tokens_end_an_answer(void)
{
    static const char said[] = "{\"type\":\"response_item\",\"payload\":{\"type\":\"message\","
                               "\"role\":\"assistant\",\"content\":\"x\"}}";
    begin(PAL_TRANSCRIPT_AUTO);
    feed(pal_str_of(said));
    feed(pal_str_of(said));
    feed(pal_str_of("{\"type\":\"event_msg\",\"payload\":{\"type\":\"token_count\",\"info\":"
                    "{\"last_token_usage\":{\"input_tokens\":3,\"output_tokens\":1}}}}"));
    feed(pal_str_of(said));
    finish();
    CHECK_EQ(count(PAL_ENTRY_MESSAGE), 2);
    CHECK_EQ(message(0)->parts_len, 2);
    CHECK_EQ(message(0)->usage.input, 3);
    CHECK_EQ(message(1)->parts_len, 1);
    CHECK(!message(1)->has_usage);
}

static void old_codex_is_read(void)
{
    begin(PAL_TRANSCRIPT_AUTO);
    feed_file("codex_old.jsonl");
    CHECK_EQ(pal_transcript_kind_of(transcript), PAL_TRANSCRIPT_CODEX);
    CHECK_STR(pal_transcript_session(transcript)->branch, "main");
    CHECK_EQ(count(PAL_ENTRY_MESSAGE), 2);
    CHECK_EQ(count(PAL_ENTRY_WARNING), 0);
    CHECK(text_is(message(1), 1, PAL_PART_TEXT, "hi"));
}

/* ---- OpenAI and our own ---- */

static void openai_lines_are_sessions(void)
{
    begin(PAL_TRANSCRIPT_AUTO);
    feed_file("openai.jsonl");
    CHECK_EQ(pal_transcript_kind_of(transcript), PAL_TRANSCRIPT_OPENAI_CHAT);
    CHECK_EQ(count(PAL_ENTRY_SESSION), 2);
    CHECK_EQ(count(PAL_ENTRY_MESSAGE), 5);
    CHECK_EQ(items[4].kind, PAL_ENTRY_SESSION);
    CHECK_EQ(items[4].line, 2);
    CHECK_STR(message(4)->client_id, "line:2.2");
    CHECK(warned(3, "messages[0]: member 'role' is 'nobody'"));
    begin(PAL_TRANSCRIPT_AUTO);
    feed(pal_str_of("{\"role\":\"user\",\"content\":\"a\"}\n"));
    feed(pal_str_of("{\"role\":\"assistant\",\"content\":\"b\"}\n"));
    finish();
    CHECK_EQ(count(PAL_ENTRY_SESSION), 1);
    CHECK_EQ(count(PAL_ENTRY_MESSAGE), 2);
    CHECK_STR(message(1)->client_id, "line:2");
}

static void exports_of_palaver_are_read(void)
{
    begin(PAL_TRANSCRIPT_AUTO);
    feed_file("native.jsonl");
    CHECK_EQ(pal_transcript_kind_of(transcript), PAL_TRANSCRIPT_NATIVE);
    CHECK_EQ(count(PAL_ENTRY_SESSION), 2);
    CHECK_EQ(count(PAL_ENTRY_MESSAGE), 4);
    CHECK_STR(items[0].u.facts->session.title, "Small talk");
    CHECK(!pal_id_is_none(items[0].u.facts->session.id));
    CHECK_EQ(message(0)->seq, 1);
    CHECK_STR(message(0)->client_id, "c1");
    CHECK_STR(message(1)->extra, "{\"palaver\":\"not a record\"}");
    CHECK_EQ(nth(PAL_ENTRY_MARK, 0)->u.mark.through_seq, 3);
    CHECK(warned(6, "unknown type"));
    CHECK(warned(7, "version 2"));
    CHECK_STR(pal_transcript_session(transcript)->session.title, "Another");
}

static pal_mark random_mark(message_random *random)
{
    pal_mark mark = {.kind = (pal_mark_kind)(1 + random_below(random, 7))};
    mark.number = random_next(random);
    mark.seq = random_below(random, 3);
    mark.through_seq = random_below(random, 3);
    mark.target = random_below(random, 3);
    mark.undone = random_below(random, 2);
    mark.inherited = random_below(random, 2);
    mark.body = pal_str_of(random_below(random, 2) ? "{\"a\":[1]}" : "[ 1 ]");
    mark.created_at = (int64_t)random_below(random, 1000000000);
    return mark;
}

static bool mark_same(const pal_mark *a, const pal_mark *b)
{
    return SAME(a->kind == b->kind) && SAME(a->number == b->number) && SAME(a->seq == b->seq) &&
            SAME(a->through_seq == b->through_seq) && SAME(a->target == b->target) &&
            SAME(a->undone == b->undone) && SAME(a->inherited == b->inherited) &&
            SAME(pal_str_equal(a->body, b->body)) && SAME(a->created_at == b->created_at);
}

/* Feeds the contents of `buf`, line by line. */
static void feed_lines(const pal_buf *buf)
{
    for (size_t at = 0; at < buf->len;) {
        const char *end = memchr(buf->data + at, '\n', buf->len - at);
        size_t len = end ? (size_t)(end - buf->data) + 1 - at : buf->len - at;
        feed(pal_str_make(buf->data + at, len));
        at += len;
    }
}

static void written_transcripts_survive_a_round_trip(void)
{
    static const size_t counted = 50;
    pal_buf buf;
    pal_buf_init(&buf, 1 << 20);
    message_random random = {77, arena};
    pal_session session = {.title = pal_str_of("t"), .metadata = pal_str_of("{\"a\":\n1}\r\n")};
    pal_message *written = pal_arena_array(arena, counted, sizeof(*written));
    CHECK_STATUS(pal_transcript_write_session(&buf, &session, &error), PAL_OK, &error);
    for (size_t i = 0; i < counted; i++) {
        written[i] = random_message(&random);
        CHECK_STATUS(pal_transcript_write_message(&buf, &written[i], &error), PAL_OK, &error);
    }
    pal_mark mark = random_mark(&random);
    CHECK_STATUS(pal_transcript_write_mark(&buf, &mark, &error), PAL_OK, &error);
    begin(PAL_TRANSCRIPT_AUTO);
    feed_lines(&buf);
    finish();
    CHECK_EQ(count(PAL_ENTRY_SESSION), 1);
    CHECK_EQ(count(PAL_ENTRY_MESSAGE), counted);
    CHECK_STR(items[0].u.facts->session.metadata, "{\"a\": 1}");
    for (size_t i = 0; i < counted; i++)
        CHECK(message_same(&written[i], message(i)));
    CHECK(mark_same(&mark, &nth(PAL_ENTRY_MARK, 0)->u.mark));
    show_warnings();
    pal_buf_done(&buf);
}

/* A message outlives its line: the next line is in the same memory. */
static void the_messages_sent_to_a_model_are_kept(void)
{
    char line[512];
    begin(PAL_TRANSCRIPT_NATIVE);
    feed(pal_str_of("{\"palaver\":\"session\",\"version\":1,\"session\":{\"key\":\"k\"}}"));
    for (int i = 1; i < 9; i++) {
        snprintf(line, sizeof(line),
                "{\"seq\":%d,\"role\":\"assistant\",\"content\":\"a\",\"palaver_sent\":{\"tokens\":%d,"
                "\"items\":2,\"first_seq\":1,\"hashes\":\"9f3a000%d\"}}",
                i, i, i);
        feed(pal_str_of(line));
    }
    finish();
    for (int i = 1; i < 9; i++) {
        const pal_sent *sent = message((size_t)i - 1)->sent;
        if (CHECK(sent) && CHECK_EQ(sent->hashes_len, 2)) {
            CHECK_EQ(sent->tokens, (uint64_t)i);
            CHECK_EQ(sent->hashes[1], i);
        }
    }
}

static void a_bad_message_leaves_no_half_line(void)
{
    pal_buf buf;
    pal_buf_init(&buf, 1 << 20);
    pal_message good = pal_message_text(arena, PAL_ROLE_USER, pal_str_of("x"));
    pal_message bad = good;
    bad.extra = pal_str_of("[");
    pal_session session = {.scope = pal_str_of("7")};
    pal_mark mark = {.kind = PAL_MARK_PIN, .body = pal_str_of("{")};
    CHECK_STATUS(pal_transcript_write_message(&buf, &good, &error), PAL_OK, &error);
    size_t len = buf.len;
    if (CHECK_STATUS(pal_transcript_write_message(&buf, &bad, &error), PAL_INVALID, &error))
        CHECK_EQ(buf.len, len);
    if (CHECK_STATUS(pal_transcript_write_session(&buf, &session, &error), PAL_INVALID, &error))
        CHECK_EQ(buf.len, len);
    if (CHECK_STATUS(pal_transcript_write_mark(&buf, &mark, &error), PAL_INVALID, &error))
        CHECK_EQ(buf.len, len);
    pal_buf_done(&buf);
    pal_buf_init(&buf, 10);
    CHECK_STATUS(pal_transcript_write_message(&buf, &good, &error), PAL_LIMIT, &error);
    pal_buf_done(&buf);
}

/* ---- Bad input ---- */

static void no_content_of_a_file_is_an_error(void)
{
    static const char *const lines[] = {"\xef\xbb\xbf", "", "\r\n", "{", "7", "null", "[]", "{}",
            "{\"type\":1}", "{\"type\":\"user\"}", "{\"type\":\"user\",\"message\":7}",
            "{\"type\":\"assistant\",\"message\":{\"content\":7}}",
            "{\"type\":\"user\",\"message\":{\"content\":[7,{},{\"type\":\"text\",\"text\":1},"
            "{\"type\":\"image\"},{\"type\":\"tool_result\",\"content\":{}},null]}}",
            "{\"type\":\"user\",\"uuid\":1,\"message\":{}}",
            "{\"type\":\"response_item\",\"payload\":7}",
            "{\"type\":\"response_item\",\"payload\":{\"type\":\"message\"}}",
            "{\"type\":\"response_item\",\"payload\":{\"type\":\"message\",\"role\":\"user\","
            "\"content\":{\"a\":1}}}",
            "{\"type\":\"response_item\",\"payload\":{\"type\":\"reasoning\",\"summary\":{}}}",
            "{\"type\":\"response_item\",\"payload\":{\"type\":\"function_call_output\"}}",
            "{\"type\":\"event_msg\",\"payload\":{\"type\":\"thread_rolled_back\",\"num_turns\":9}"
            "}",
            "{\"type\":\"event_msg\",\"payload\":{\"type\":\"token_count\",\"info\":null}}",
            "{\"type\":\"session_meta\",\"payload\":[]}", "{\"palaver\":\"session\"}",
            "{\"palaver\":\"mark\"}", "{\"role\":\"user\",\"content\":7}", "{\"messages\":7}",
            "\xff\xfe", "{\"role\":\"user\",\"content\":\"torn"};
    for (int kind = PAL_TRANSCRIPT_AUTO; kind <= PAL_TRANSCRIPT_CODEX; kind++) {
        begin((pal_transcript_kind)kind);
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
            feed(pal_str_of(lines[i]));
        finish();
        CHECK(warned(4, "skipped"));
        CHECK(warned(sizeof(lines) / sizeof(lines[0]), "skipped"));
    }
    begin(PAL_TRANSCRIPT_AUTO);
    feed(pal_str_of("{\"a\":1}"));
    finish();
    CHECK_EQ(pal_transcript_kind_of(transcript), PAL_TRANSCRIPT_AUTO);
}

static void a_byte_order_mark_is_skipped(void)
{
    begin(PAL_TRANSCRIPT_AUTO);
    feed(pal_str_of("\xef\xbb\xbf{\"role\":\"user\",\"content\":\"a\"}\r\n"));
    finish();
    CHECK_EQ(count(PAL_ENTRY_MESSAGE), 1);
    CHECK_EQ(count(PAL_ENTRY_WARNING), 0);
}

static void kinds_have_names(void)
{
    pal_transcript_kind kind = PAL_TRANSCRIPT_AUTO;
    for (int i = PAL_TRANSCRIPT_AUTO; i <= PAL_TRANSCRIPT_CODEX; i++) {
        pal_str name = pal_str_of(pal_transcript_kind_name((pal_transcript_kind)i));
        CHECK(pal_transcript_kind_from_name(name, &kind));
        CHECK_EQ((int)kind, i);
    }
    CHECK(!pal_transcript_kind_from_name(pal_str_of("word"), &kind));
}

/* Feeds a short conversation while the nth allocation fails. Returns true if none failed. */
static bool survives_failure(uint64_t allocation, int once)
{
    static const char *const lines[] = {
            "{\"type\":\"user\",\"uuid\":\"a\",\"cwd\":\"/x\",\"sessionId\":\"s\","
            "\"message\":{\"role\":\"user\",\"content\":\"x\\n\"},\"y\":1}",
            "{\"type\":\"assistant\",\"uuid\":\"b\",\"parentUuid\":\"a\",\"message\":{\"id\":\"m\","
            "\"content\":[{\"type\":\"text\",\"text\":\"x\",\"y\":1}]}}",
            "{\"type\":\"assistant\",\"uuid\":\"c\",\"parentUuid\":\"b\",\"message\":{\"id\":\"m\","
            "\"content\":[{\"type\":\"text\",\"text\":\"z\"}]}}",
            "{\"type\":\"user\",\"uuid\":\"d\",\"parentUuid\":\"a\",\"message\":{\"content\":\"x\"}"
            "}"};
    pal_memory_fail_at(allocation, once);
    pal_transcript *in = pal_transcript_open(PAL_TRANSCRIPT_AUTO);
    pal_arena *out = pal_arena_new(0);
    pal_status status = in && out ? PAL_OK : PAL_NO_MEMORY;
    pal_transcript_items more;
    uint64_t messages = 0;
    for (size_t i = 0; status == PAL_OK && i < 5; i++) {
        status = i < 4 ? pal_transcript_feed(in, pal_str_of(lines[i]), out, &more, &error)
                       : pal_transcript_finish(in, out, &more, &error);
        for (size_t at = 0; status == PAL_OK && at < more.len; at++)
            messages += more.items[at].kind == PAL_ENTRY_MESSAGE;
    }
    bool failed = pal_memory_failed();
    pal_memory_fail_at(0, 0);
    CHECK_EQ(status, (failed ? PAL_NO_MEMORY : PAL_OK));
    CHECK(failed || messages == 3);
    pal_transcript_close(in);
    pal_arena_free(out);
    return !failed;
}

static void an_allocation_failure_is_reported(void)
{
    for (int once = 0; once <= 1; once++) {
        uint64_t allocation = 1;
        while (allocation < 500 && !survives_failure(allocation, once))
            allocation++;
        CHECK_THAT(allocation, >, 3);
        CHECK_THAT(allocation, <, 500);
    }
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(claude_code_facts_are_found);
    RUN(pieces_of_an_answer_become_one);
    RUN(results_follow_their_calls);
    RUN(odd_records_are_reported);
    RUN(going_back_becomes_a_rewind);
    RUN(a_sub_agents_file_is_a_session);
    RUN(parallel_results_are_not_a_rewind);
    RUN(messages_that_cannot_be_stored_are_reported);
    RUN(wrong_blocks_are_kept_unchanged);
    RUN(unusual_parts_of_codex_are_kept);
    RUN(codex_is_read);
    RUN(pieces_of_codex_answers_are_merged);
    RUN(codex_rollbacks_become_rewinds);
    RUN(counted_tokens_end_an_answer);
    RUN(old_codex_is_read);
    RUN(openai_lines_are_sessions);
    RUN(exports_of_palaver_are_read);
    RUN(written_transcripts_survive_a_round_trip);
    RUN(the_messages_sent_to_a_model_are_kept);
    RUN(a_bad_message_leaves_no_half_line);
    RUN(no_content_of_a_file_is_an_error);
    RUN(a_byte_order_mark_is_skipped);
    RUN(kinds_have_names);
    RUN(an_allocation_failure_is_reported);
    pal_transcript_close(transcript);
    pal_arena_free(arena);
    return tap_done();
}
