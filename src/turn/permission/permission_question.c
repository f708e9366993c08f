/* permission_question.c - asks about tool calls: whether they may run, and whether a repeated
 * call makes sense.
 *
 * The questions are stored in the turn's owed item (recovery_owed.c) before they are published, and
 * the turn then releases its session. So any process can take the answers, also after a crash. The
 * commit that takes the session again removes the questions. If a process dies after that commit,
 * the calls have begun to run as far as the store knows, and they get "interrupted" as their
 * results. Answers to be remembered are stored before (runtime_call.c).
 *
 * On the loop, except for look() and the functions that permission_question.h lists for any
 * thread. */
#include "turn/permission/permission_question.h"

#include <stdio.h>

#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/native/native.h"
#include "turn/lane/lane_park.h"
#include "turn/recovery/recovery_owed.h"
#include "turn/turn_event.h"
#include "turn/input/input.h"

/* ---- Sentences ---- */

static pal_str sentence_of(const pal_tool_run *run, pal_question_kind kind)
{
    char text[PAL_ERROR_MESSAGE_MAX];

    snprintf(text, sizeof(text),
            kind == PAL_QUESTION_INPUT
                    ? "the server of '%.*s' requires input"
                    : kind == PAL_QUESTION_REPEAT
                    ? "the model called '%.*s' three times in a row with the same arguments"
                    : "the model calls '%.*s', which needs approval",
            PAL_EXCERPT(run->name, 80));
    return pal_arena_copy(run->arena, pal_str_of(text));
}

void pal_question_set(pal_tool_run *run, pal_question_kind kind, pal_str server, pal_str data)
{
    run->question = (pal_question){.kind = kind,
            .call_id = run->id,
            .name = run->name,
            .arguments = run->arguments,
            .server = pal_arena_copy(run->arena, server),
            .text = sentence_of(run, kind),
            .data = pal_arena_copy(run->arena, data)};
}

/* ---- JSON ---- */

static bool is_asked(const pal_tool_run *run)
{
    return run->question.kind != PAL_QUESTION_NONE;
}

static void put_questions(const pal_turn *turn, pal_native_form form, pal_buf *buf)
{
    pal_json_writer writer = pal_json_writer_make(buf);

    pal_json_begin_array(&writer);
    for (size_t i = 0; i < turn->step.runs_len; i++) {
        if (is_asked(&turn->step.runs[i]))
            pal_native_question_put(&writer, form, &turn->step.runs[i].question);
    }
    pal_json_end_array(&writer);
}

static const pal_part *call_of(const pal_message *answer, pal_str call_id)
{
    for (size_t i = 0; answer && i < answer->parts_len; i++)
        if (answer->parts[i].kind == PAL_PART_TOOL_CALL &&
                pal_str_equal(answer->parts[i].call_id, call_id))
            return &answer->parts[i];
    return NULL;
}

pal_status pal_question_read(pal_str json, const pal_message *answer, pal_arena *arena,
        pal_question **out_questions, size_t *out_len, pal_error *err)
{
    pal_question *questions;
    pal_json list, value;
    pal_json_iter each;
    size_t len = 0;

    *out_questions = NULL;
    *out_len = 0;
    if (json.len == 0 || pal_json_parse(arena, json, NULL, &list, NULL) != PAL_OK)
        return PAL_OK;
    questions = pal_arena_array(arena, pal_json_count(list) + 1, sizeof(*questions));
    if (!questions)
        return pal_no_memory(err);
    each = pal_json_each(list);
    while (pal_json_next(&each, NULL, &value)) {
        pal_question *question = &questions[len];
        const pal_part *call;
        pal_status status = pal_native_question_read(value, arena, question, err);

        if (status != PAL_OK)
            return status;
        call = call_of(answer, question->call_id);
        if (!call)
            continue;
        question->name = call->name;
        question->arguments = call->arguments;
        len++;
    }
    *out_questions = questions;
    *out_len = len;
    return PAL_OK;
}

pal_status pal_question_list(const pal_turn *turn, pal_arena *arena,
        const pal_question **out_questions, size_t *out_len, pal_error *err)
{
    pal_question *list = pal_arena_array(arena, turn->step.runs_len + 1, sizeof(*list));
    size_t len = 0;

    if (!list)
        return pal_no_memory(err);
    for (size_t i = 0; i < turn->step.runs_len; i++) {
        const pal_question *from = &turn->step.runs[i].question;

        if (from->kind == PAL_QUESTION_NONE)
            continue;
        list[len++] = (pal_question){.kind = from->kind,
                .call_id = pal_arena_copy(arena, from->call_id),
                .name = pal_arena_copy(arena, from->name),
                .server = pal_arena_copy(arena, from->server),
                .arguments = pal_arena_copy(arena, from->arguments),
                .text = pal_arena_copy(arena, from->text),
                .data = pal_arena_copy(arena, from->data)};
    }
    *out_questions = list;
    *out_len = len;
    return PAL_OK;
}

/* ---- Asking ---- */

static size_t count_asked(const pal_turn *turn)
{
    size_t count = 0;

    for (size_t i = 0; i < turn->step.runs_len; i++)
        count += is_asked(&turn->step.runs[i]);
    return count;
}

void pal_question_tell(pal_turn *turn)
{
    const pal_question *first = NULL;
    pal_buf buf;

    for (size_t i = 0; !first && i < turn->step.runs_len; i++)
        if (is_asked(&turn->step.runs[i]))
            first = &turn->step.runs[i].question;
    if (!first)
        return;
    pal_buf_init(&buf, SIZE_MAX);
    put_questions(turn, PAL_NATIVE_SHOWN, &buf);
    snprintf(turn->info.reason, sizeof(turn->info.reason), "%.*s", PAL_STR_ARG(first->text));
    pal_event_publish(turn,
            (pal_event){.kind = PAL_EVENT_ASKING,
                    .call_id = first->call_id,
                    .name = first->name,
                    .text = first->text,
                    .questions = pal_buf_str(&buf)});
    pal_buf_done(&buf);
}

/* A call that asks while it runs needs this process. */
static bool runs_calls(const pal_turn *turn)
{
    for (size_t i = 0; i < turn->step.runs_len; i++)
        if (turn->step.runs[i].state == PAL_TOOL_RUNNING)
            return true;
    return false;
}

static void begin_asking(pal_turn *turn)
{
    pal_turn_enter(turn, PAL_TURN_PHASE_ASKING);
    pal_turn_set_state(turn, PAL_TURN_ASKING);
    pal_question_tell(turn);
    if (!runs_calls(turn))
        pal_lane_park(turn);
}

static void on_stored(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);
    pal_error err = {0};
    pal_status status = pal_turn_write_status(turn, &err);

    turn->holds--;
    turn->step.asking = PAL_ASK_IDLE;
    pal_owed_renewed(turn, status);
    if (turn->phase != PAL_TURN_PHASE_TOOLS)
        return;
    if (status != PAL_OK)
        pal_turn_fail(turn, status, "could not store the questions: %.180s", err.message);
    else if (turn->stop || count_asked(turn) == 0)
        pal_tools_go_on(turn);
    else
        begin_asking(turn);
}

static void store_questions(pal_turn *turn)
{
    pal_buf buf;

    if (turn->owed.state != PAL_OWED_STORED || runs_calls(turn)) {
        begin_asking(turn); /* no other process can continue the turn */
        return;
    }
    pal_buf_init(&buf, SIZE_MAX);
    put_questions(turn, PAL_NATIVE_STORED, &buf);
    turn->owed.questions = pal_arena_copy(turn->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    turn->step.asking = PAL_ASK_STORES;
    turn->commit.write.ops_len = 0;
    pal_owed_renew(turn);
    pal_turn_write(turn, on_stored);
}

/* ---- Deciding without asking ---- */

static void deny_unasked(pal_tool_run *run)
{
    char text[512];

    if (run->question.kind == PAL_QUESTION_REPEAT)
        snprintf(text, sizeof(text),
                "Not run: this call repeats the previous ones with the same arguments.");
    else
        snprintf(text, sizeof(text),
                "Not run: '%.*s' needs approval, and this client cannot be asked. To run it "
                "without approval, the operator adds {tool: \"%.*s\", do: allow} to 'permissions' "
                "in the configuration.",
                PAL_EXCERPT(run->name, 80), PAL_EXCERPT(run->name, 80));
    pal_tools_end(run, text);
}

/* Returns true if a later turn brings the answer. `unasked_allowed` is about callers that cannot be
 * asked, but this request requires approval itself. */
static bool can_wait(const pal_tool_run *run)
{
    const pal_turn *turn = run->turn;

    return turn->request.asks_end_turn && run->question.kind == PAL_QUESTION_APPROVAL &&
            pal_permission_ends_turn(&turn->settings.permissions, run->name,
                    turn->runtime->options.unasked_allowed);
}

/* The caller cannot answer, so the configuration does. A repeated call is never run this way. */
static void decide_unasked(pal_turn *turn)
{
    for (size_t i = 0; i < turn->step.runs_len; i++) {
        pal_tool_run *run = &turn->step.runs[i];

        if (!is_asked(run) || can_wait(run))
            continue;
        if (run->question.kind == PAL_QUESTION_APPROVAL && turn->runtime->options.unasked_allowed) {
            run->is_permitted = true;
            run->question.kind = PAL_QUESTION_NONE;
        } else {
            deny_unasked(run);
        }
    }
}

static void resolve(pal_turn *turn)
{
    if (turn->request.cannot_ask)
        decide_unasked(turn);
    if (count_asked(turn) == 0)
        pal_tools_go_on(turn);
    else if (turn->request.asks_end_turn)
        pal_tools_end_asking(turn);
    else
        store_questions(turn);
}

/* Looks for answers that the session remembers. */
typedef struct memory_look {
    pal_work_item item;
    pal_turn *turn;
    pal_arena *arena;
    pal_permission_memory *memories;
    size_t len;
} memory_look;

/* Runs on a worker. If the answers cannot be read, the turn asks. */
static void look(pal_work_item *item)
{
    memory_look *l = (memory_look *)((char *)item - offsetof(memory_look, item));
    const pal_turn *turn = l->turn;

    if (pal_permission_list(turn->runtime->store, turn->request.tenant, turn->request.session,
                l->arena, &l->memories, &l->len, NULL) != PAL_OK)
        l->len = 0;
}

static void apply_memories(pal_turn *turn, const memory_look *l)
{
    for (size_t i = 0; i < turn->step.runs_len; i++) {
        pal_tool_run *run = &turn->step.runs[i];

        for (size_t j = 0; j < l->len && run->question.kind == PAL_QUESTION_APPROVAL; j++) {
            if (!pal_str_equal(l->memories[j].tool, run->name))
                continue;
            if (l->memories[j].permission == PAL_PERMISSION_ALLOW) {
                run->is_permitted = true;
                run->question.kind = PAL_QUESTION_NONE;
            } else {
                pal_tools_end(run, "The user denied all calls of this tool in this session.");
            }
        }
    }
}

static void on_looked(pal_work_item *item)
{
    memory_look *l = (memory_look *)((char *)item - offsetof(memory_look, item));
    pal_turn *turn = l->turn;

    turn->holds--;
    turn->step.asking = PAL_ASK_IDLE;
    if (turn->phase == PAL_TURN_PHASE_TOOLS) {
        apply_memories(turn, l);
        if (turn->stop)
            pal_tools_go_on(turn);
        else
            resolve(turn);
    }
    pal_arena_free(l->arena);
    pal_free(l);
}

void pal_question_ask(pal_turn *turn)
{
    memory_look *l = NULL;

    for (size_t i = 0; !l && i < turn->step.runs_len; i++)
        if (turn->step.runs[i].question.kind == PAL_QUESTION_APPROVAL)
            l = pal_calloc(1, sizeof(*l));
    if (l)
        l->arena = pal_arena_new(0);
    if (!l || !l->arena) { /* nothing to look for; out of memory: the turn asks */
        pal_free(l);
        resolve(turn);
        return;
    }
    l->turn = turn;
    l->item.work = look;
    l->item.done = on_looked;
    turn->step.asking = PAL_ASK_LOOKS;
    turn->holds++;
    pal_loop_work(turn->runtime->loop, &l->item);
}

/* ---- Answers ---- */

const pal_question_answer *pal_question_answer_to(const pal_turn_answers *answers, pal_str call_id)
{
    const pal_question_answer *general = NULL;

    for (size_t i = 0; i < answers->len; i++) {
        if (pal_str_equal(answers->items[i].call_id, call_id))
            return &answers->items[i];
        if (answers->items[i].call_id.len == 0 && !general)
            general = &answers->items[i];
    }
    return general;
}

static bool asks_about(const pal_question *questions, size_t len, pal_str call_id)
{
    for (size_t i = 0; i < len; i++)
        if (pal_str_equal(questions[i].call_id, call_id))
            return true;
    return false;
}

pal_status pal_question_check(const pal_question *questions, size_t len,
        const pal_turn_answers *answers, pal_error *err)
{
    for (size_t i = 0; i < answers->len; i++)
        if (answers->items[i].call_id.len > 0 &&
                !asks_about(questions, len, answers->items[i].call_id))
            return pal_error_set(err, PAL_INVALID, "the call '%.*s' is not waiting for an answer",
                    PAL_EXCERPT(answers->items[i].call_id, 80));
    for (size_t i = 0; i < len; i++)
        if (!pal_question_answer_to(answers, questions[i].call_id))
            return pal_error_set(err, PAL_INVALID,
                    "the call '%.*s' has no answer; answer all questions at the same time",
                    PAL_EXCERPT(questions[i].call_id, 80));
    for (size_t i = 0; i < len; i++) {
        const pal_question_answer *answer = pal_question_answer_to(answers, questions[i].call_id);
        pal_status status = questions[i].kind == PAL_QUESTION_INPUT
                ? pal_input_check(&questions[i], answer, err)
                : PAL_OK;

        if (status != PAL_OK)
            return status;
    }
    return PAL_OK;
}

static void end_denied(pal_tool_run *run, const pal_question_answer *answer)
{
    bool is_repeat = run->question.kind == PAL_QUESTION_REPEAT;
    pal_json data = {0};
    pal_str reason = {0};
    pal_buf text;

    if (answer->data.len && pal_json_parse(run->arena, answer->data, NULL, &data, NULL) == PAL_OK)
        reason = pal_json_string(pal_json_find(data, "reason"), run->arena);
    pal_buf_init(&text, PAL_MESSAGE_BYTES_MAX);
    pal_buf_append_text(&text,
            is_repeat ? "The user denied this call because it repeats the previous ones"
                      : "The user denied this call");
    pal_buf_append_text(&text, reason.len ? ": " : ".");
    pal_buf_append_str(&text, reason);
    pal_tools_end(run, pal_arena_copy(run->arena, pal_buf_str(&text)).data);
    pal_buf_done(&text);
}

void pal_question_take(pal_tool_run *run, const pal_question_answer *answer)
{
    run->extra = answer->extra;
    run->result_id = answer->result;
    if (run->question.kind == PAL_QUESTION_INPUT) {
        pal_input_take(run, answer);
        return;
    }
    if (run->is_repeat)
        pal_tool_loop_reset(&run->turn->step.doom);
    if (answer->allow) {
        run->is_allowed = true;
        run->question.kind = PAL_QUESTION_NONE;
    } else {
        end_denied(run, answer);
    }
}

pal_status pal_question_answer_all(
        pal_turn *turn, const pal_turn_answers *answers, pal_error *err)
{
    const pal_question *questions;
    size_t len;
    pal_status status = pal_question_list(turn, turn->arena, &questions, &len, err);

    if (status == PAL_OK)
        status = pal_question_check(questions, len, answers, err);
    if (status != PAL_OK)
        return status;
    turn->info.reason[0] = '\0';
    pal_turn_set_state(turn, PAL_TURN_RUNNING);
    for (size_t i = 0; i < turn->step.runs_len; i++) {
        pal_tool_run *run = &turn->step.runs[i];

        if (is_asked(run))
            pal_question_take(run, pal_question_answer_to(answers, run->id));
    }
    pal_lane_unpark(turn, pal_tools_go_on);
    return PAL_OK;
}
