/* input.c - input that tool servers require from a person, and the handles that continue their
 * calls.
 *
 * A server can ask in two ways. Either the call ends with a handle that has the questions. Then
 * handle and questions are stored, the turn is parked, and any process can take the answer. Or the
 * server asks while the call runs. Such a question exists only in the memory of this process, and a
 * crash interrupts the call.
 *
 * The handle of a task is stored as soon as it is known (turn_tools.c). If the process dies, the
 * next one continues to poll the task instead of recording "interrupted". Before the replies to
 * other questions are sent, their handle is removed from the store: the tool may run then, and must
 * not run a second time.
 *
 * The data of a question:  {"inputs":[{"id":"1","mode":"form","message":"...","schema":{...}}]}
 * The data of an answer:   {"action":"accept","content":{...}}, for all inputs, or
 *                          {"replies":{"1":{"action":"accept","content":{...}}}} */
#include "turn/input/input.h"

#include <stdio.h>

#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "turn/permission/permission_question.h"

/* ---- Questions ---- */

static void put_input(pal_json_writer *json, const pal_tool_question *question)
{
    pal_json_begin_object(json);
    pal_put_str(json, "id", question->id);
    pal_put_text(json, "mode", question->url.len ? "url" : "form");
    pal_put_str(json, "message", question->message);
    if (question->url.len)
        pal_put_str(json, "url", question->url);
    else
        pal_put_raw(json, "schema", question->schema);
    pal_json_end_object(json);
}

static bool set_question(pal_tool_run *run, const pal_tool_question *questions, size_t len)
{
    pal_buf data;

    pal_buf_init(&data, PAL_MESSAGE_BYTES_MAX);
    pal_json_writer json = pal_json_writer_make(&data);
    pal_json_begin_object(&json);
    pal_json_name(&json, "inputs");
    pal_json_begin_array(&json);
    for (size_t i = 0; i < len; i++)
        put_input(&json, &questions[i]);
    pal_json_end_array(&json);
    pal_json_end_object(&json);
    if (data.failure == PAL_OK)
        pal_question_set(run, PAL_QUESTION_INPUT, run->server, pal_buf_str(&data));
    pal_buf_done(&data);
    return pal_arena_failure(run->arena) == PAL_OK && run->question.data.len > 0;
}

bool pal_input_keep(pal_tool_run *run, const pal_tool_outcome *outcome)
{
    pal_tool_question *questions;
    size_t len;

    run->handle = run->kept = pal_arena_copy(run->arena, outcome->handle);
    run->replies = (pal_str){0};
    if (!outcome->has_questions)
        return run->handle.len > 0;
    run->state = PAL_TOOL_WAITING;
    return pal_tool_mcp_questions(run->handle, run->arena, &questions, &len, NULL) == PAL_OK &&
            set_question(run, questions, len);
}

void pal_input_add(pal_tool_run *run, const pal_tool_question *question)
{
    if (!run->asked)
        run->asked = pal_arena_array(run->arena, PAL_QUESTIONS_MAX, sizeof(*run->asked));
    if (!run->asked || run->asked_len == PAL_QUESTIONS_MAX)
        return; /* the question is canceled when its time is over */
    run->asked[run->asked_len] = (pal_tool_question){.id = pal_arena_copy(run->arena, question->id),
            .message = pal_arena_copy(run->arena, question->message),
            .schema = pal_arena_copy(run->arena, question->schema),
            .url = pal_arena_copy(run->arena, question->url)};
    run->asked_len++;
    (void)set_question(run, run->asked, run->asked_len);
}

void pal_input_remove(pal_tool_run *run, pal_str id)
{
    size_t len = 0;

    for (size_t i = 0; i < run->asked_len; i++)
        if (!pal_str_equal(run->asked[i].id, id))
            run->asked[len++] = run->asked[i];
    run->asked_len = len;
    if (len == 0)
        run->question.kind = PAL_QUESTION_NONE;
    else
        (void)set_question(run, run->asked, len);
}

/* ---- Answers ---- */

static pal_str text_of(pal_json object, const char *name, pal_arena *arena)
{
    return pal_arena_copy(arena, pal_json_string(pal_json_find(object, name), arena));
}

static pal_status check_one(const pal_tool_question *question, const pal_question_answer *answer,
        pal_json data, pal_arena *arena, pal_str *out_reply, pal_error *err)
{
    pal_json replies = pal_json_find(data, "replies");
    pal_json mine = pal_json_type_of(replies) == PAL_JSON_OBJECT
            ? pal_json_find(replies, question->id.data)
            : data;
    pal_str action = text_of(mine, "action", arena);
    pal_error why = {0};

    if (!answer->allow)
        action = pal_str_of(pal_str_is(action, "cancel") ? "cancel" : "decline");
    else if (action.len == 0 && pal_json_type_of(replies) == PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "input '%.*s' has no reply with an 'action'",
                PAL_EXCERPT(question->id, 80));
    else if (action.len == 0)
        action = pal_str_of("accept");
    pal_status status = pal_tool_question_reply(question, action,
            pal_json_raw(pal_json_find(mine, "content")), arena, out_reply, &why);
    return status == PAL_OK ? PAL_OK
                            : pal_error_set(err, status, "input '%.*s': %.160s",
                                      PAL_EXCERPT(question->id, 80), why.message);
}

/* Writes the replies as an object, with the ids of the questions as names. */
static pal_status make_replies(const pal_question *question, const pal_question_answer *answer,
        pal_arena *arena, pal_str *out_replies, pal_error *err)
{
    pal_json root, data = {0}, input;
    pal_buf replies;
    pal_status status = pal_json_parse(arena, question->data, NULL, &root, err);

    if (status != PAL_OK)
        return status;
    if (answer->data.len)
        status = pal_json_parse(arena, answer->data, NULL, &data, err);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&replies, PAL_MESSAGE_BYTES_MAX);
    pal_json_writer json = pal_json_writer_make(&replies);
    pal_json_iter each = pal_json_each(pal_json_find(root, "inputs"));
    pal_json_begin_object(&json);
    while (pal_json_next(&each, NULL, &input)) {
        pal_tool_question asked = {.id = text_of(input, "id", arena),
                .schema = pal_json_raw(pal_json_find(input, "schema")),
                .url = text_of(input, "url", arena)};
        pal_str reply = {0};

        status = asked.id.data ? check_one(&asked, answer, data, arena, &reply, err)
                               : pal_no_memory(err);
        if (status != PAL_OK)
            goto out;
        pal_json_name_str(&json, asked.id);
        pal_json_put_raw(&json, reply);
    }
    pal_json_end_object(&json);
    status = pal_member_keep(&replies, arena, out_replies, err);
out:
    pal_buf_done(&replies);
    return status;
}

pal_status pal_input_check(
        const pal_question *question, const pal_question_answer *answer, pal_error *err)
{
    pal_arena *arena = pal_arena_new(0);
    pal_str replies;
    pal_status status = arena ? make_replies(question, answer, arena, &replies, err)
                              : pal_no_memory(err);

    pal_arena_free(arena);
    return status;
}

static void reply_to_call(pal_tool_run *run, pal_str replies)
{
    pal_json root, key, reply;
    pal_json_iter each;

    if (pal_json_parse(run->arena, replies, NULL, &root, NULL) != PAL_OK)
        return;
    each = pal_json_each(root);
    while (pal_json_next(&each, &key, &reply))
        pal_tool_mcp_call_reply(
                run->call, pal_json_string(key, run->arena), pal_json_raw(reply));
    run->asked_len = 0;
}

void pal_input_take(pal_tool_run *run, const pal_question_answer *answer)
{
    pal_str replies = {0};

    if (make_replies(&run->question, answer, run->arena, &replies, NULL) != PAL_OK) {
        pal_tools_end(run, "The answer of the user could not be read.");
        return;
    }
    run->question.kind = PAL_QUESTION_NONE;
    if (run->call) {
        reply_to_call(run, replies);
        return;
    }
    run->replies = replies;
    run->kept = pal_tool_mcp_handle_answered(run->handle, run->arena);
}

/* ---- Handles ---- */

typedef struct handle_record {
    pal_str call_id;
    pal_str server;
    pal_str handle;
} handle_record;

static const pal_member handle_members[] = {
        {"call_id", PAL_MEMBER_STRING, 1, .offset = offsetof(handle_record, call_id)},
        {"server", PAL_MEMBER_STRING, 1, .offset = offsetof(handle_record, server)},
        {"handle", PAL_MEMBER_STRING, 1, .offset = offsetof(handle_record, handle)},
};
static const pal_member_table handle_table = {handle_members, 3, NULL, NULL};

pal_str pal_input_handles(const pal_turn *turn)
{
    pal_buf buf;
    size_t len = 0;
    pal_str text = {0};

    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    pal_json_writer json = pal_json_writer_make(&buf);
    pal_json_begin_array(&json);
    for (size_t i = 0; i < turn->step.runs_len; i++) {
        const pal_tool_run *run = &turn->step.runs[i];
        const handle_record record = {run->id, run->server, run->kept};

        if (run->kept.len == 0 || run->state >= PAL_TOOL_ENDED)
            continue;
        pal_json_begin_object(&json);
        pal_members_write(&handle_table, 1, &json, &record);
        pal_json_end_object(&json);
        len++;
    }
    pal_json_end_array(&json);
    if (len > 0 && buf.failure == PAL_OK)
        text = pal_arena_copy(turn->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return text;
}

bool pal_input_restore(pal_tool_run *run, pal_str handles)
{
    pal_json list, one;
    pal_json_iter each;

    if (handles.len == 0 || pal_json_parse(run->arena, handles, NULL, &list, NULL) != PAL_OK)
        return false;
    each = pal_json_each(list);
    while (pal_json_next(&each, NULL, &one)) {
        handle_record record;

        if (pal_members_read_stored(&handle_table, 1, one, run->arena, &record, NULL) != PAL_OK ||
                !pal_str_equal(record.call_id, run->id))
            continue;
        run->server = pal_arena_copy(run->arena, record.server);
        run->handle = run->kept = pal_arena_copy(run->arena, record.handle);
        return run->handle.len > 0;
    }
    return false;
}
