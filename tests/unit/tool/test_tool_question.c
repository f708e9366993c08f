/* test_tool_question.c - reads questions of tool servers, and checks the replies to them. */
#include "base/memory.h"
#include "support/tap.h"
#include "tool/tool_question.h"

static pal_arena *arena;

static pal_status read_question(const char *params, pal_tool_question *out, pal_error *err)
{
    pal_json value;
    if (pal_json_parse(arena, pal_str_of(params), NULL, &value, err) != PAL_OK)
        return PAL_IO;
    return pal_tool_question_read(value, arena, out, err);
}

#define FORM                                                                                       \
    "{\"message\":\"Who?\",\"requestedSchema\":{\"type\":\"object\",\"required\":[\"age\"],"         \
    "\"properties\":{\"age\":{\"type\":\"integer\",\"minimum\":1},"                                \
    "\"color\":{\"type\":\"string\",\"enum\":[\"red\",\"blue\"],\"default\":\"red\"}}}}"

static void questions_are_read(void)
{
    pal_tool_question question = {0};
    pal_error err = {0};
    CHECK_EQ(read_question(FORM, &question, &err), PAL_OK);
    CHECK_STR(question.message, "Who?");
    CHECK_EQ(question.url.len, 0);
    CHECK_EQ(read_question("{\"mode\":\"url\",\"message\":\"m\",\"url\":\"https://a.b\"}",
                     &question, &err),
            PAL_OK);
    CHECK_STR(question.url, "https://a.b");
    CHECK_EQ(read_question("{\"mode\":\"url\",\"message\":\"m\"}", &question, &err), PAL_INVALID);
    CHECK_STR(err.message, "the question has no URL");
    CHECK_EQ(read_question("{\"mode\":\"dream\"}", &question, &err), PAL_INVALID);
    CHECK_EQ(read_question("{\"message\":\"m\",\"requestedSchema\":{\"type\":\"string\"}}",
                     &question, &err),
            PAL_INVALID);
}

static void long_questions_and_replies_are_refused(void)
{
    size_t len = PAL_QUESTION_BYTES_MAX + 1;
    char *text = pal_calloc(1, len + 64);
    pal_tool_question question = {0};
    pal_str reply;
    pal_error err = {0};
    memset(text, 'x', len + 32);
    memcpy(text, "{\"message\":\"", 12);
    memcpy(text + len + 30, "\"}", 3);
    CHECK_EQ(read_question(text, &question, &err), PAL_LIMIT);
    CHECK_EQ(read_question(FORM, &question, &err), PAL_OK);
    CHECK_EQ(pal_tool_question_reply(
                     &question, pal_str_of("accept"), pal_str_of(text), arena, &reply, &err),
            PAL_LIMIT);
    pal_free(text);
}

static void replies(const char *action, const char *content, const char *expected)
{
    pal_tool_question question = {0};
    pal_error err = {0};
    pal_str reply = {0};
    CHECK_EQ(read_question(FORM, &question, &err), PAL_OK);
    pal_status status = pal_tool_question_reply(
            &question, pal_str_of(action), pal_str_of(content), arena, &reply, &err);
    if (status == PAL_OK)
        CHECK_STR(pal_arena_copy(arena, reply).data, expected);
    else
        CHECK_STR(err.message, expected);
}

static void replies_are_checked_and_completed(void)
{
    replies("accept", "{\"age\":3}",
            "{\"action\":\"accept\",\"content\":{\"age\":3,\"color\":\"red\"}}");
    replies("accept", "{\"age\":3,\"color\":\"blue\"}",
            "{\"action\":\"accept\",\"content\":{\"age\":3,\"color\":\"blue\"}}");
    replies("decline", "{\"age\":\"ignored\"}", "{\"action\":\"decline\"}");
    replies("cancel", "", "{\"action\":\"cancel\"}");
    replies("accept", "{\"age\":0}", "at '/age': 0 does not satisfy the minimum 1");
    replies("accept", "{}", "'age' is missing");
    replies("accept", "7", "'content' must be an object");
    replies("perhaps", "{}", "the action must be 'accept', 'decline' or 'cancel'");
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(questions_are_read);
    RUN(long_questions_and_replies_are_refused);
    RUN(replies_are_checked_and_completed);
    pal_arena_free(arena);
    return tap_done();
}
