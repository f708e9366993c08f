/* test_recorder.c - the recorder over every backend: requests with whole histories become one
 * session, and rewritten histories become branches.
 *
 * Histories are texts with one message for each word: "u:hello a:hi" is a user message and an
 * answer. "c:X" is an answer that calls a tool with the arguments {"x":"X"}, and "t:X" its result
 * X. */
#include <stdlib.h>
#include "contract.h"
#include "palaver/store_batch.h"
#include "recorder/recorder.h"

#define HISTORY_MAX 64

static pal_message message_of(pal_str word)
{
    pal_str text = pal_arena_copy(test.arena, pal_str_make(word.data + 2, word.len - 2));
    pal_message message = pal_message_text(test.arena,
            word.data[0] == 'u'           ? PAL_ROLE_USER
                    : word.data[0] == 't' ? PAL_ROLE_TOOL
                    : word.data[0] == 's' ? PAL_ROLE_SYSTEM
                                          : PAL_ROLE_ASSISTANT,
            text);
    pal_part *part = message.parts;
    if (word.data[0] == 'c') {
        char arguments[128];
        snprintf(arguments, sizeof arguments, "{\"x\":\"%.*s\"}", PAL_STR_ARG(text));
        *part = (pal_part){.kind = PAL_PART_TOOL_CALL,
                .call_id = text,
                .name = pal_str_of("tool"),
                .arguments = pal_arena_copy(test.arena, pal_str_of(arguments))};
    } else if (word.data[0] == 't') {
        *part = (pal_part){.kind = PAL_PART_TOOL_RESULT, .call_id = text, .text = text};
    }
    return message;
}

static pal_recorder_history history_of(const char *words)
{
    pal_message *messages = pal_arena_array(test.arena, HISTORY_MAX, sizeof *messages);
    size_t len = 0;
    for (const char *at = words; *at && len < HISTORY_MAX;) {
        size_t word = strcspn(at, " ");
        messages[len++] = message_of(pal_str_make(at, word));
        at += word + strspn(at + word, " ");
    }
    return (pal_recorder_history){
            .key = pal_str_of("client:1"), .messages = messages, .messages_len = len};
}

/* Records a request, and then the same history with the answer if there is one. Returns the place
 * of the request, in the session that has the answer. */
static pal_recorder_place record(const char *words, const char *answer)
{
    pal_recorder_history history = history_of(words);
    pal_recorder_place place = {0}, end;
    OK(pal_recorder_request(test.store, &history, test.arena, &place, &test.err));
    if (answer) {
        history.messages[history.messages_len++] = message_of(pal_str_of(answer));
        OK(pal_recorder_request(test.store, &history, test.arena, &end, &test.err));
        place.session = end.session;
    }
    return place;
}

/* Records a history of one question and its answer. */
static void record_answered(const char *question, pal_message answer)
{
    pal_recorder_history history = history_of(question);
    pal_recorder_place place;
    history.messages[history.messages_len++] = answer;
    OK(pal_recorder_request(test.store, &history, test.arena, &place, &test.err));
}

/* The session's messages, in the form of the histories. */
static const char *content(pal_id session)
{
    static char text[4096];
    pal_message_page page;
    size_t len = 0;
    text[0] = '\0';
    if (!OK(pal_store_load(
                test.store, pal_str_of(""), session, NULL, test.arena, &page, &test.err)))
        return text;
    for (size_t i = 0; i < page.len; i++) {
        const pal_part *part = page.items[i].parts;
        char role = part->kind == PAL_PART_TOOL_CALL ? 'c' : pal_role_name(page.items[i].role)[0];
        pal_str word = part->kind == PAL_PART_TOOL_CALL ? part->call_id : part->text;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%c:%.*s", i ? " " : "", role,
                PAL_STR_ARG(word));
    }
    return text;
}

static uint64_t sessions(void)
{
    pal_session_query query = {0};
    pal_session_page page = {0};
    OK(pal_store_list(test.store, &query, test.arena, &page, &test.err));
    return page.sessions_len;
}

static pal_id root(void)
{
    pal_session session = {0};
    OK(pal_store_find(test.store, pal_str_of(""), PAL_SESSION_BY_KEY, pal_str_of("client:1"),
            test.arena, &session, &test.err));
    return session.id;
}

/* ---- One session ---- */

static void a_conversation_becomes_one_session(void)
{
    CHECK_EQ(record("u:1", "a:2").appended, 1);
    CHECK_EQ(record("u:1 a:2 u:3", "c:4").appended, 1);
    CHECK_EQ(record("u:1 a:2 u:3 c:4 t:4", "a:5").appended, 1);
    CHECK_STR(content(root()), "u:1 a:2 u:3 c:4 t:4 a:5");
    CHECK_EQ(sessions(), 1);
}

static void a_history_that_begins_late_is_recorded_completely(void)
{
    record("s:0 u:1 a:2 u:3", "a:4");
    CHECK_STR(content(root()), "s:0 u:1 a:2 u:3 a:4");
    record("s:0 u:1 a:2 u:3 a:4 u:5", NULL);
    CHECK_STR(content(root()), "s:0 u:1 a:2 u:3 a:4 u:5");
}

static void an_answer_that_was_not_recorded_comes_with_the_next_request(void)
{
    record("u:1", NULL);
    record("u:1 a:2 u:3", NULL);
    CHECK_STR(content(root()), "u:1 a:2 u:3");
    CHECK_EQ(sessions(), 1);
}

static void an_answer_that_comes_after_the_next_request_is_not_repeated(void)
{
    record("u:1", NULL);
    record("u:1 a:2 u:3", NULL);
    record_answered("u:1", message_of(pal_str_of("a:2")));
    CHECK_STR(content(root()), "u:1 a:2 u:3");
    CHECK_EQ(sessions(), 1);
}

static void a_request_that_failed_can_be_repeated(void)
{
    record("u:1", NULL);
    pal_recorder_place place = record("u:1", "a:2");
    CHECK_EQ(place.appended, 0);
    CHECK_STR(content(root()), "u:1 a:2");
    CHECK_EQ(sessions(), 1);
}

static void the_same_answer_again_adds_nothing(void)
{
    record("u:1", "a:2");
    record("u:1", "a:2");
    CHECK_STR(content(root()), "u:1 a:2");
    CHECK_EQ(sessions(), 1);
}

/* ---- Branches ---- */

static void another_answer_to_the_same_request_is_a_branch(void)
{
    record("u:1 a:2 u:3", "a:4");
    pal_recorder_place place = record("u:1 a:2 u:3", "a:5");
    CHECK_STR(content(place.session), "u:1 a:2 u:3 a:5");
    CHECK_STR(content(root()), "u:1 a:2 u:3 a:4");
    CHECK_EQ(sessions(), 2);
}

static void an_edited_history_is_a_branch_that_shares_its_beginning(void)
{
    pal_session branch;
    char id[PAL_ID_TEXT_SIZE];
    record("u:1", "a:2");
    record("u:1 a:2 u:3", "a:4");
    pal_recorder_place place = record("u:1 a:2 u:edited", "a:5");
    CHECK(place.is_branch);
    CHECK_STR(content(place.session), "u:1 a:2 u:edited a:5");
    CHECK_STR(content(root()), "u:1 a:2 u:3 a:4");
    pal_id_to_text(place.session, id);
    OK(pal_store_find(test.store, pal_str_of(""), PAL_SESSION_BY_ID, pal_str_of(id), test.arena,
            &branch, &test.err));
    CHECK_ID(branch.parent_id, root());
    CHECK_EQ(branch.fork_seq, 2);
}

/* A history of 40 messages, of which number `edited` is changed; -1: none. */
static const char *long_history(int edited)
{
    static char words[HISTORY_MAX * 8];
    size_t len = 0;
    for (int i = 0; i < 40; i++)
        len += (size_t)snprintf(words + len, sizeof words - len, "%c:%d%s ", i % 2 ? 'a' : 'u', i,
                i == edited ? "x" : "");
    return words;
}

static void an_edit_anywhere_in_a_long_history_is_found(void)
{
    record(long_history(-1), NULL);
    for (int i = 39; i > 0; i--) {
        CHECK_EQ(record(long_history(i), NULL).appended, (uint64_t)(40 - i));
        CHECK_EQ(record(long_history(i), NULL).appended, 0);
    }
    CHECK_EQ(record(long_history(-1), NULL).appended, 0);
    CHECK_EQ(sessions(), 40);
}

static void a_branch_continues_and_so_does_the_first_history(void)
{
    record("u:1 a:2 u:3", "a:4");
    pal_recorder_place branch = record("u:1 a:2 u:edited", "a:5");
    pal_recorder_place more = record("u:1 a:2 u:edited a:5 u:6", "a:7");
    CHECK_ID(more.session, branch.session);
    CHECK(!more.is_branch);
    CHECK_STR(content(branch.session), "u:1 a:2 u:edited a:5 u:6 a:7");
    record("u:1 a:2 u:3 a:4 u:8", NULL);
    CHECK_STR(content(root()), "u:1 a:2 u:3 a:4 u:8");
    CHECK_EQ(sessions(), 2);
}

static void a_compacted_history_is_a_session_of_the_same_family(void)
{
    record("u:1 a:2 u:3", "a:4");
    pal_recorder_place place = record("u:summary u:5", "a:6");
    CHECK(place.is_branch);
    CHECK_STR(content(place.session), "u:summary u:5 a:6");
    pal_recorder_place more = record("u:summary u:5 a:6 u:7", NULL);
    CHECK_ID(more.session, place.session);
    CHECK_EQ(sessions(), 2);
}

static void a_history_without_shared_messages_has_a_parent(void)
{
    pal_session session = {0};
    char id[PAL_ID_TEXT_SIZE];
    record("u:1", "a:2");
    pal_id first = root();
    pal_recorder_place place = record("u:title", "a:name");
    pal_id_to_text(place.session, id);
    OK(pal_store_find(test.store, pal_str_of(""), PAL_SESSION_BY_ID, pal_str_of(id), test.arena,
            &session, &test.err));
    CHECK(pal_id_equal(session.parent_id, first));
    CHECK_STR(content(place.session), "u:title a:name");
    CHECK_STR(content(first), "u:1 a:2");
    record("u:title a:name u:more", "a:end");
    CHECK_STR(content(place.session), "u:title a:name u:more a:end");
}

static void a_session_that_has_the_key_is_the_first_of_the_family(void)
{
    pal_session session = {.key = pal_str_of("client:1")};
    pal_message message = message_of(pal_str_of("u:before"));
    OK(pal_store_create(test.store, &session, NULL, &test.err));
    record("u:1", "a:2");
    CHECK_STR(content(root()), "u:1 a:2"); /* it was empty */
    CHECK_EQ(sessions(), 1);
    session.key = pal_str_of("client:2");
    OK(pal_store_create(test.store, &session, &session.id, &test.err));
    OK(pal_store_append(
            test.store, pal_str_of(""), session.id, &message, 1, PAL_SEQ_ANY, &test.err));
    pal_recorder_history history = history_of("u:1 a:2");
    pal_recorder_place place;
    history.key = session.key;
    OK(pal_recorder_request(test.store, &history, test.arena, &place, &test.err));
    CHECK(!pal_id_equal(place.session, session.id));
    CHECK_STR(content(place.session), "u:1 a:2");
    CHECK_STR(content(session.id), "u:before");
}

static void conversations_with_other_keys_stay_apart(void)
{
    pal_recorder_history other = history_of("u:1");
    pal_recorder_place place;
    record("u:1", "a:2");
    other.key = pal_str_of("client:2");
    OK(pal_recorder_request(test.store, &other, test.arena, &place, &test.err));
    CHECK(!pal_id_equal(place.session, root()));
    other = history_of("u:1");
    other.tenant = pal_str_of("other");
    OK(pal_recorder_request(test.store, &other, test.arena, &place, &test.err));
    CHECK_EQ(place.appended, 1);
    CHECK_EQ(sessions(), 2);
}

static void a_deleted_conversation_begins_again(void)
{
    record("u:1", "a:2");
    pal_id first = root();
    OK(pal_store_delete(test.store, pal_str_of(""), first, &test.err));
    record("u:1 a:2 u:3", "a:4");
    CHECK(!pal_id_equal(root(), first));
    CHECK_STR(content(root()), "u:1 a:2 u:3 a:4");
    record("u:1 a:2 u:3 a:4 u:5", NULL);
    CHECK_STR(content(root()), "u:1 a:2 u:3 a:4 u:5");
}

static void an_erased_conversation_begins_again(void)
{
    record("u:1", "a:2");
    OK(pal_store_erase(test.store, pal_str_of(""), root(), NULL, &test.err));
    record("u:1 a:2 u:3", NULL);
    CHECK_STR(content(root()), "u:1 a:2 u:3");
    CHECK_EQ(sessions(), 1);
}

/* ---- What counts ---- */

/* Records a request with one user message, then the same one with the message changed. Returns
 * whether both are the same to the recorder. */
static bool is_same(pal_part first, pal_part second)
{
    pal_message message = {.role = PAL_ROLE_USER, .parts = &first, .parts_len = 1};
    pal_recorder_history history = history_of("");
    pal_recorder_place place;
    history.messages = &message;
    history.messages_len = 1;
    OK(pal_recorder_request(test.store, &history, test.arena, &place, &test.err));
    message = (pal_message){.role = PAL_ROLE_USER, .parts = &second, .parts_len = 1};
    OK(pal_recorder_request(test.store, &history, test.arena, &place, &test.err));
    return place.appended == 0;
}

static pal_part call_with(const char *arguments)
{
    return (pal_part){.kind = PAL_PART_TOOL_CALL,
            .call_id = pal_str_of("1"),
            .name = pal_str_of("tool"),
            .arguments = pal_str_of(arguments)};
}

static void the_spelling_of_arguments_does_not_count(void)
{
    CHECK(is_same(call_with("{\"a\": 1.0, \"b\": \"\\u0041\"}"),
            call_with("{\"b\":\"A\",\"a\":1}")));
    CHECK(!is_same(call_with("{\"a\":1}"), call_with("{\"a\":2}")));
    CHECK(!is_same(call_with("{\"a\":[1,2]}"), call_with("{\"a\":[2,1]}")));
    CHECK(is_same(call_with("not JSON"), call_with("not JSON")));
}

static void a_cache_mark_does_not_count(void)
{
    pal_part with = {.kind = PAL_PART_FILE,
            .extra = pal_str_of("{\"anthropic\":{\"type\":\"new\",\"cache_control\":{}}}")};
    pal_part without = with, other = with;
    without.extra = pal_str_of("{\"anthropic\":{\"type\":\"new\"}}");
    other.extra = pal_str_of("{\"anthropic\":{\"type\":\"newer\"}}");
    CHECK(is_same(with, without));
    CHECK(!is_same(with, other));
}

static void blanks_at_the_end_do_not_count(void)
{
    pal_part text = {.kind = PAL_PART_TEXT, .text = pal_str_of("hello \n")}, other = text;
    other.text = pal_str_of("hello");
    CHECK(is_same(text, other));
    other.text = pal_str_of(" hello");
    CHECK(!is_same(text, other));
}

static void an_image_counts_by_its_content(void)
{
    pal_part image = {.kind = PAL_PART_IMAGE,
            .media_type = pal_str_of("image/png"),
            .data = pal_str_of("png")};
    pal_part other = image;
    CHECK(is_same(image, other));
    other.data = pal_str_of("gif");
    CHECK(!is_same(image, other));
}

static void reasoning_does_not_count(void)
{
    pal_part parts[2] = {{.kind = PAL_PART_REASONING, .text = pal_str_of("thinking")},
            {.kind = PAL_PART_TEXT, .text = pal_str_of("2")}};
    pal_message answer = {.role = PAL_ROLE_ASSISTANT, .parts = parts, .parts_len = 2};
    record_answered("u:1", answer);
    CHECK_EQ(record("u:1 a:2 u:3", NULL).appended, 1);
}

static void an_answer_can_be_divided_into_messages(void)
{
    pal_part parts[2] = {{.kind = PAL_PART_TEXT, .text = pal_str_of("2")}, call_with("{}")};
    pal_message answer = {.role = PAL_ROLE_ASSISTANT, .parts = parts, .parts_len = 2};
    pal_recorder_place place;
    record_answered("u:1", answer);
    pal_recorder_history history = history_of("u:1 a:2 c:1 t:1");
    history.messages[2].parts[0] = call_with("{}");
    OK(pal_recorder_request(test.store, &history, test.arena, &place, &test.err));
    CHECK_EQ(place.appended, 1);
    CHECK_EQ(sessions(), 1);
}

static void a_request_without_content_is_refused(void)
{
    pal_recorder_history history = history_of("");
    pal_recorder_place place;
    GIVES(PAL_INVALID, pal_recorder_request(test.store, &history, test.arena, &place, &test.err));
    CHECK_EQ(sessions(), 0);
}

int main(int argc, char **argv)
{
    if (!contract_begin(argc, argv, true))
        return 1;
    RUN(a_conversation_becomes_one_session);
    RUN(a_history_that_begins_late_is_recorded_completely);
    RUN(an_answer_that_was_not_recorded_comes_with_the_next_request);
    RUN(an_answer_that_comes_after_the_next_request_is_not_repeated);
    RUN(a_request_that_failed_can_be_repeated);
    RUN(the_same_answer_again_adds_nothing);
    RUN(another_answer_to_the_same_request_is_a_branch);
    RUN(an_edited_history_is_a_branch_that_shares_its_beginning);
    RUN(an_edit_anywhere_in_a_long_history_is_found);
    RUN(a_branch_continues_and_so_does_the_first_history);
    RUN(a_compacted_history_is_a_session_of_the_same_family);
    RUN(a_history_without_shared_messages_has_a_parent);
    RUN(a_session_that_has_the_key_is_the_first_of_the_family);
    RUN(conversations_with_other_keys_stay_apart);
    RUN(a_deleted_conversation_begins_again);
    RUN(an_erased_conversation_begins_again);
    RUN(the_spelling_of_arguments_does_not_count);
    RUN(a_cache_mark_does_not_count);
    RUN(blanks_at_the_end_do_not_count);
    RUN(an_image_counts_by_its_content);
    RUN(reasoning_does_not_count);
    RUN(an_answer_can_be_divided_into_messages);
    RUN(a_request_without_content_is_refused);
    return contract_end();
}
