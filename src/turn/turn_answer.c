/* turn_answer.c - the model's answer: collects it while it arrives, and records it before the turn
 * does anything else with it. On the loop.
 *
 * The answer is a list of parts in the order in which they began: texts, blocks of reasoning, and
 * calls. Every delta is added to its part and published to the readers of the turn. A signed block
 * of reasoning is complete; it must be sent back to the model unchanged and at the same place.
 *
 * One commit stores the answer, its ledger row and, if the service keeps the conversation, the id
 * of that conversation. Messages steered into a turn are taken between two model calls.
 *
 * A crash before the commit loses the answer; the turn then calls the model again
 * (recovery_resume.c). After the commit only the calls of the answer can be left open. */
#include "turn/turn.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "base/sum.h"
#include "base/text.h"
#include "dialect/native/native.h"
#include "dialect/openai/openai_items.h"
#include "palaver/limits.h"
#include "tokens/tokens_estimate.h"
#include "turn/lane/lane.h"
#include "turn/permission/permission.h"
#include "turn/turn_conversation.h"
#include "turn/turn_event.h"
#include "turn/turn_last_commit.h"
#include "turn/turn_sender.h"

enum { PARTS_MAX = PAL_MESSAGE_PARTS_MAX };

struct pal_answer_part {
    pal_part_kind kind;
    uint32_t index; /* index of a call */
    bool is_signed;
    bool is_refusal;
    pal_buf text; /* text, or the arguments of a call */
    pal_buf id;   /* id of a call, or the signature of reasoning */
    pal_buf name; /* name of a call, or the family of reasoning */
};

void pal_answer_clear(pal_answer_buffer *answer)
{
    for (size_t i = 0; i < answer->len; i++) {
        pal_buf_done(&answer->parts[i].text);
        pal_buf_done(&answer->parts[i].id);
        pal_buf_done(&answer->parts[i].name);
    }
    pal_free(answer->parts);
    pal_buf_done(&answer->items);
    *answer = (pal_answer_buffer){0};
}

/* ---- Parts ---- */

static pal_answer_part *add_part(pal_answer_buffer *answer, pal_part_kind kind)
{
    pal_answer_part *part;

    if (answer->len == PARTS_MAX) {
        answer->failure = PAL_LIMIT;
        return NULL;
    }
    if (!pal_reserve(&answer->parts, &answer->cap, answer->len + 1, sizeof(*answer->parts))) {
        answer->failure = PAL_NO_MEMORY;
        return NULL;
    }
    part = &answer->parts[answer->len++];
    *part = (pal_answer_part){.kind = kind};
    pal_buf_init(&part->text, PAL_MESSAGE_BYTES_MAX);
    pal_buf_init(
            &part->id, kind == PAL_PART_REASONING ? PAL_MESSAGE_BYTES_MAX : PAL_LABEL_LEN_MAX);
    pal_buf_init(&part->name, PAL_LABEL_LEN_MAX);
    return part;
}

/* Returns the last part if it has this kind and can still grow. */
static pal_answer_part *open_part(pal_answer_buffer *answer, pal_part_kind kind)
{
    pal_answer_part *last = answer->len ? &answer->parts[answer->len - 1] : NULL;

    return last && last->kind == kind && !last->is_signed ? last : NULL;
}

static void grow(pal_answer_buffer *answer, pal_part_kind kind, pal_str delta)
{
    pal_answer_part *part = open_part(answer, kind);

    if (!part && delta.len > 0)
        part = add_part(answer, kind);
    if (part)
        pal_buf_append_str(&part->text, delta);
}

/* A text keeps the kind with which it began, even if deltas of the other kind follow. */
static void add_refusal(pal_answer_buffer *answer, pal_str delta)
{
    bool begins = !open_part(answer, PAL_PART_TEXT) && delta.len > 0;
    size_t len = answer->len;

    grow(answer, PAL_PART_TEXT, delta);
    if (begins && answer->len > len)
        answer->parts[len].is_refusal = true;
}

/* Signs the reasoning since the last signature. If there was none, adds a block that consists only
 * of the signature. */
static void add_signature(pal_answer_buffer *answer, pal_str signature, pal_str family)
{
    pal_answer_part *part = open_part(answer, PAL_PART_REASONING);

    if (!part)
        part = add_part(answer, PAL_PART_REASONING);
    if (!part)
        return;
    pal_buf_append_str(&part->id, signature);
    pal_buf_append_str(&part->name, family);
    part->is_signed = true;
}

static pal_answer_part *find_call(const pal_answer_buffer *answer, uint32_t index)
{
    for (size_t i = answer->len; i-- > 0;)
        if (answer->parts[i].kind == PAL_PART_TOOL_CALL && answer->parts[i].index == index)
            return &answer->parts[i];
    return NULL;
}

static pal_answer_part *call_at(pal_answer_buffer *answer, uint32_t index)
{
    pal_answer_part *part = find_call(answer, index);

    if (!part)
        part = add_part(answer, PAL_PART_TOOL_CALL);
    if (part)
        part->index = index;
    return part;
}

/* For a service that sends no call ids. */
static void make_id(pal_buf *out_id)
{
    char text[5 + PAL_ID_TEXT_SIZE] = "call_";

    pal_id_to_text(pal_id_new(), text + 5);
    pal_buf_append_text(out_id, text);
}

/* Begins the call `index`, or adds to its id and name. A call without an id gets one. */
static void begin_call(pal_answer_buffer *answer, uint32_t index, pal_str id, pal_str name)
{
    pal_answer_part *call = call_at(answer, index);

    if (!call)
        return;
    if (id.len == 0 && call->id.len == 0)
        make_id(&call->id);
    pal_buf_append_str(&call->id, id);
    pal_buf_append_str(&call->name, name);
}

static void add_arguments(pal_answer_buffer *answer, uint32_t index, pal_str delta)
{
    pal_answer_part *call = call_at(answer, index);

    if (call)
        pal_buf_append_str(&call->text, delta);
}

/* Returns the number of the part that the newest delta belongs to, from 1. Items are stored with
 * the parts that they have when they are complete. */
static uint64_t part_number(const pal_answer_buffer *answer)
{
    return answer->has_items ? answer->items_len + 1 : answer->len;
}

/* Adds a complete item. The next delta begins another part. */
static void add_item(pal_answer_buffer *answer, pal_str json, size_t parts)
{
    if (!answer->items.len)
        pal_buf_init(&answer->items, PAL_MESSAGE_BYTES_MAX);
    pal_buf_append_text(&answer->items, answer->items.len ? "," : "[");
    pal_buf_append_str(&answer->items, json);
    if (answer->items.failure)
        answer->failure = answer->items.failure;
    if (answer->len)
        answer->parts[answer->len - 1].is_signed = true;
    answer->items_len += parts;
}

/* Borrowed until the next change. Empty if there is no such call, or it has no id. */
static pal_str call_id_of(const pal_answer_buffer *answer, uint32_t index)
{
    const pal_answer_part *call = find_call(answer, index);

    return call ? pal_buf_str(&call->id) : (pal_str){0};
}

static void put_text(const pal_answer_buffer *answer, pal_buf *out_text)
{
    for (size_t i = 0; i < answer->len; i++)
        if (answer->parts[i].kind == PAL_PART_TEXT)
            pal_buf_append_str(out_text, pal_buf_str(&answer->parts[i].text));
}

/* Estimates the tokens of all texts and arguments. */
static uint64_t tokens_of(const pal_answer_buffer *answer)
{
    uint64_t tokens = 0;

    for (size_t i = 0; i < answer->len; i++)
        tokens += pal_estimate_quickly(pal_buf_str(&answer->parts[i].text));
    return tokens;
}

/* ---- The message ---- */

static pal_part make_part(const pal_answer_part *from, pal_arena *arena)
{
    pal_part part = {.kind = from->kind};
    pal_str text = pal_arena_copy(arena, pal_buf_str(&from->text));
    pal_str id = pal_arena_copy(arena, pal_buf_str(&from->id));
    pal_str name = pal_arena_copy(arena, pal_buf_str(&from->name));

    if (from->kind == PAL_PART_TOOL_CALL) {
        part.call_id = id;
        part.name = name;
        part.arguments = text.len ? text : pal_str_of("{}");
    } else {
        part.text = text;
        part.extra = pal_str_of(from->is_refusal ? PAL_OPENAI_REFUSAL_EXTRA : NULL);
        part.signature = id;
        part.family = name;
    }
    return part;
}

/* The items are stored completely, so that the service can read them again. */
static pal_status items_message(const pal_answer_buffer *answer, pal_arena *arena,
        pal_message *out_message, pal_error *err)
{
    pal_buf array;
    pal_str copy;

    pal_buf_init(&array, PAL_MESSAGE_BYTES_MAX + 2);
    pal_buf_append_str(&array, answer->items.len ? pal_buf_str(&answer->items) : pal_str_of("["));
    pal_buf_append_text(&array, "]");
    copy = pal_arena_copy(arena, pal_buf_str(&array));
    if (array.failure || pal_arena_failure(arena) != PAL_OK) {
        pal_buf_done(&array);
        return pal_no_memory(err);
    }
    pal_buf_done(&array);
    return pal_openai_items_read_answer(copy, arena, out_message, err);
}

static pal_status failure_of(const pal_answer_buffer *answer)
{
    pal_status failure = answer->failure;

    for (size_t i = 0; failure == PAL_OK && i < answer->len; i++) {
        const pal_answer_part *part = &answer->parts[i];

        failure = part->text.failure ? part->text.failure : part->id.failure;
        if (failure == PAL_OK)
            failure = part->name.failure;
    }
    return failure;
}

pal_status pal_answer_message(
        const pal_answer_buffer *answer, pal_arena *arena, pal_message *out_message, pal_error *err)
{
    pal_message message = {.role = PAL_ROLE_ASSISTANT};
    pal_status failure = failure_of(answer);

    if (failure == PAL_NO_MEMORY)
        return pal_no_memory(err);
    if (failure != PAL_OK)
        return pal_error_set(err, PAL_LIMIT,
                "the answer exceeds the limit of %u bytes (PAL_MESSAGE_BYTES_MAX), or has too many "
                "parts",
                PAL_MESSAGE_BYTES_MAX);
    if (answer->has_items)
        return items_message(answer, arena, out_message, err);
    message.parts = pal_arena_array(arena, answer->len + 1, sizeof(*message.parts));
    for (size_t i = 0; message.parts && i < answer->len; i++) {
        const pal_answer_part *part = &answer->parts[i];

        if (part->kind != PAL_PART_TOOL_CALL || part->name.len > 0)
            message.parts[message.parts_len++] = make_part(part, arena);
    }
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    *out_message = message;
    return PAL_OK;
}

/* ---- Deltas ---- */

static void tell_text(pal_turn *turn, pal_str delta)
{
    const pal_answer_buffer *answer = &turn->step.answer;

    pal_event_publish(turn,
            (pal_event){.kind = PAL_EVENT_TEXT,
                    .text = delta,
                    .count = part_number(answer),
                    .is_refusal = answer->len && answer->parts[answer->len - 1].is_refusal});
}

static void see_output(pal_turn *turn)
{
    if (!turn->step.output_seen)
        turn->step.first_us = pal_clock_monotonic_us();
    turn->step.output_seen = true;
}

static void on_text(void *user, pal_str delta)
{
    pal_turn *turn = user;

    see_output(turn);
    grow(&turn->step.answer, PAL_PART_TEXT, delta);
    tell_text(turn, delta);
}

static void on_refusal(void *user, pal_str delta)
{
    pal_turn *turn = user;

    see_output(turn);
    add_refusal(&turn->step.answer, delta);
    tell_text(turn, delta);
}

static void add_reasoning(pal_turn *turn, pal_str delta, const char *form)
{
    see_output(turn);
    grow(&turn->step.answer, PAL_PART_REASONING, delta);
    pal_event_publish(turn,
            (pal_event){.kind = PAL_EVENT_REASONING,
                    .text = delta,
                    .call_id = pal_str_of(form),
                    .count = part_number(&turn->step.answer)});
}

static void on_reasoning(void *user, pal_str delta)
{
    add_reasoning(user, delta, NULL);
}

static void on_summary(void *user, pal_str delta)
{
    add_reasoning(user, delta, "summary");
}

static void on_item(void *user, pal_str json, size_t parts)
{
    pal_turn *turn = user;
    uint64_t number = part_number(&turn->step.answer);

    see_output(turn);
    add_item(&turn->step.answer, json, parts);
    pal_event_publish(turn, (pal_event){.kind = PAL_EVENT_ITEM, .text = json, .count = number});
}

static void on_progress(void *user, pal_str json)
{
    pal_turn *turn = user;

    see_output(turn);
    pal_event_publish(turn,
            (pal_event){.kind = PAL_EVENT_PROGRESS,
                    .text = json,
                    .count = part_number(&turn->step.answer)});
}

static void on_signature(void *user, pal_str signature, pal_str family)
{
    pal_turn *turn = user;

    add_signature(&turn->step.answer, signature, family);
}

/* Returns the extra of a call: that of its tool, with "asks" if the call may end the turn because
 * it needs approval. So readers know it before the call is complete. In the step's arena, or the
 * tool's. */
static pal_str extra_of(pal_turn *turn, const pal_tool *tool)
{
    static const char end[] = "}}", asks[] = ",\"asks\":true}}";
    pal_str extra = tool ? tool->call_extra : (pal_str){0};
    pal_arena *arena;
    pal_buf buf;

    if (!turn->request.asks_end_turn || !pal_text_ends(extra, end) || tool->server.len == 0 ||
            pal_permission_decide(&turn->settings.permissions, tool, PAL_PERMISSION_NONE) !=
                    PAL_PERMISSION_ASK ||
            !pal_permission_ends_turn(&turn->settings.permissions, tool->name,
                    turn->runtime->options.unasked_allowed))
        return extra;
    arena = pal_turn_step_arena(turn);
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    pal_buf_append_str(&buf, pal_str_make(extra.data, extra.len - strlen(end)));
    pal_buf_append_text(&buf, asks);
    if (arena)
        extra = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return extra;
}

static void on_call(void *user, uint32_t index, pal_str id, pal_str name)
{
    pal_turn *turn = user;

    see_output(turn);
    begin_call(&turn->step.answer, index, id, name);
    pal_event_publish(turn,
            (pal_event){.kind = PAL_EVENT_CALL,
                    .call_id = call_id_of(&turn->step.answer, index),
                    .name = name,
                    .text = extra_of(turn, pal_tools_find(turn, name)),
                    .count = part_number(&turn->step.answer)});
}

static void on_arguments(void *user, uint32_t index, pal_str delta)
{
    pal_turn *turn = user;
    pal_str id;

    add_arguments(&turn->step.answer, index, delta);
    id = call_id_of(&turn->step.answer, index);
    pal_event_publish(turn, (pal_event){.kind = PAL_EVENT_ARGUMENTS, .call_id = id, .text = delta});
}

static void on_end(void *user, const pal_model_end *end)
{
    pal_turn_called(user, end);
}

const pal_model_sink pal_answer_sink = {on_text, on_reasoning, on_signature, on_call, on_arguments,
        on_end, on_refusal, on_summary, on_item, on_progress};

/* ---- Recording ---- */

void pal_answer_keep_text(pal_turn *turn)
{
    pal_buf text;

    pal_buf_init(&text, PAL_MESSAGE_BYTES_MAX);
    put_text(&turn->step.answer, &text);
    if (text.len > 0 && !turn->outcome.arena)
        turn->outcome.arena = pal_arena_new(0);
    if (text.len > 0 && turn->outcome.arena) {
        pal_arena_reset(turn->outcome.arena);
        turn->outcome.text = pal_arena_copy(turn->outcome.arena, pal_buf_str(&text));
    }
    pal_buf_done(&text);
}

static bool has_calls(const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++)
        if (message->parts[i].kind == PAL_PART_TOOL_CALL)
            return true;
    return false;
}

static void on_steered(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);
    pal_steer *steer = turn->step.steer;
    pal_error err = {0};

    turn->holds--;
    turn->step.steer = NULL;
    if (pal_turn_write_status(turn, &err) != PAL_OK) {
        pal_lane_steer_free(steer);
        pal_turn_fail(turn, err.status, "%s", err.message);
        return;
    }
    for (size_t i = 0; i < steer->messages_len; i++)
        pal_event_publish(turn,
                (pal_event){.kind = PAL_EVENT_STEERED,
                        .message = steer->messages[i].id,
                        .seq = steer->messages[i].seq});
    pal_lane_steer_free(steer);
    turn->step.attempt = 0;
    pal_turn_next_step(turn);
}

bool pal_turn_take_steer(pal_turn *turn)
{
    pal_steer *steer = turn->summary.wait ? NULL : pal_lane_steer(turn->lane);

    if (!steer)
        return false;
    if (!turn->runtime->options.senders_off &&
            pal_sender_show(steer->messages, steer->messages_len, steer->arena) != PAL_OK)
        return false;
    pal_turn_enter(turn, PAL_TURN_PHASE_STEER);
    turn->step.steer = steer;
    turn->commit.write.ops_len = 0;
    turn->step.rounds = 0; /* a new message from the user allows more rounds */
    pal_turn_write_append(turn,
            &(pal_turn_append){.messages = steer->messages,
                    .messages_len = steer->messages_len,
                    .inbox_ids = &steer->inbox_id,
                    .inbox_len = 1,
                    .done = on_steered});
    return true;
}

static void on_recorded(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);
    pal_message *message = turn->commit.messages;
    pal_error err = {0};

    turn->holds--;
    if (pal_turn_write_status(turn, &err) != PAL_OK) {
        pal_lease_restore(turn);
        pal_turn_fail(turn, err.status, "could not store the answer: %.180s", err.message);
        return;
    }
    if (turn->commit.stage == PAL_COMMIT_LAST)
        turn->owed.state = PAL_OWED_NONE;
    turn->owed.told_seq = turn->info.seq = message->seq;
    turn->step.output_seen = false; /* readers have the recorded message */
    turn->info.message = message->id;
    pal_event_publish(turn,
            (pal_event){.kind = PAL_EVENT_MESSAGE,
                    .message = message->id,
                    .seq = message->seq,
                    .at = message->created_at,
                    .usage = message->usage,
                    .finish = turn->outcome.finish});
    turn->commit.epoch = (pal_mark){0};
    turn->step.attempt = 0;
    turn->step.plan_after = PAL_PLAN_AFTER_ANSWER;
    if (turn->owed.first_seq == 0)
        turn->owed.first_seq = message->seq;
    pal_conversation_answered(turn, message);
    if (has_calls(message))
        pal_tools_begin(turn, message);
    else if (turn->commit.stage == PAL_COMMIT_LAST)
        pal_turn_finish(turn, PAL_TURN_DONE);
    else if (turn->stop)
        pal_turn_finish(turn, PAL_TURN_CANCELED);
    else if (!pal_turn_take_steer(turn))
        pal_turn_finish(turn, PAL_TURN_DONE);
}

/* Returns true if nothing follows the answer: it has no calls, or only calls that the caller runs
 * after the turn. */
static bool is_last(const pal_turn *turn, const pal_message *answer)
{
    if (turn->stop || turn->lane->steers)
        return false;
    for (size_t i = 0; i < answer->parts_len; i++)
        if (answer->parts[i].kind == PAL_PART_TOOL_CALL &&
                (pal_tools_are_over(turn) || !turn->request.calls_end_turn ||
                        !pal_tools_is_callers(turn, answer->parts[i].name)))
            return false;
    return true;
}

/* Returns true if all calls of the answer are for the caller: the turn pauses, and holds no lease
 * while it waits. */
static bool pauses(const pal_turn *turn, const pal_message *answer)
{
    size_t calls = 0;

    if (turn->stop || turn->lane->steers || pal_tools_are_over(turn) ||
            turn->owed.state == PAL_OWED_NONE || turn->request.calls_end_turn ||
            turn->lane->holds > 0)
        return false;
    for (size_t i = 0; i < answer->parts_len; i++) {
        if (answer->parts[i].kind != PAL_PART_TOOL_CALL)
            continue;
        if (!pal_tools_is_callers(turn, answer->parts[i].name))
            return false;
        calls++;
    }
    return calls > 0;
}

/* `request_id` must have room for an id. */
static pal_ledger_row ledger_row(pal_turn *turn, const pal_usage *usage, char *request_id)
{
    pal_id_to_text(pal_id_new(), request_id);
    return (pal_ledger_row){
            .request_id = pal_str_of(request_id),
            .turn_id = pal_str_of(turn->id_text),
            .agent = turn->settings.agent,
            .purpose = pal_str_of("turn"),
            .provider = pal_provider_name(turn->step.provider),
            .model = turn->settings.model,
            .price_version = turn->runtime->options.price_version,
            .usage = *usage,
            .cost_micros = pal_budget_cost(turn->runtime, turn->settings.model, usage),
    };
}

void pal_answer_add_usage(pal_turn *turn, const pal_usage *usage, int64_t cost_micros)
{
    pal_runtime_sum_usage(&turn->outcome.usage, usage);
    pal_sum_i64(&turn->outcome.cost_micros, cost_micros);
    pal_runtime_add_usage(turn->runtime, usage, cost_micros);
}

/* A ledger row in a separate write, independent of what the turn does next. */
typedef struct spent {
    pal_write write;
    pal_turn *turn;
    pal_op op;
    pal_ledger_row row;
    char request_id[PAL_ID_TEXT_SIZE];
    char model[PAL_MODEL_LEN_MAX + 1];
} spent;

static void on_row_stored(pal_write *write)
{
    spent *s = (spent *)((char *)write - offsetof(spent, write));

    s->turn->holds--;
    pal_free(s);
}

void pal_answer_keep_row(pal_turn *turn, const pal_ledger_row *row)
{
    spent *s = pal_calloc(1, sizeof(*s));

    if (!s)
        return;
    s->turn = turn;
    s->row = *row;
    snprintf(s->request_id, sizeof(s->request_id), "%.*s", PAL_STR_ARG(row->request_id));
    s->row.request_id = pal_str_of(s->request_id);
    snprintf(s->model, sizeof(s->model), "%.*s", PAL_STR_ARG(row->model));
    s->row.model = pal_str_of(s->model);
    s->op = pal_op_ledger_add(turn->request.tenant, turn->request.session, &s->row);
    s->write = (pal_write){.ops = &s->op, .ops_len = 1, .done = on_row_stored};
    turn->holds++;
    pal_runtime_write(turn->runtime, &s->write);
}

/* For a call without reported usage: our count of what was sent, and an estimate of the output. The
 * calibration does not learn from it. */
static pal_usage guess_usage(const pal_turn *turn)
{
    return (pal_usage){.input = turn->step.sent.items > 0 ? turn->step.sent.tokens : 0,
            .output = tokens_of(&turn->step.answer)};
}

/* Fills turn->commit.ledger with the call's row, and adds its usage to the totals. */
static void count(pal_turn *turn, const pal_model_end *end)
{
    pal_usage usage = end->has_usage ? end->usage : guess_usage(turn);

    turn->commit.ledger = ledger_row(turn, &usage, turn->commit.ledger_id);
    pal_answer_add_usage(turn, &usage, turn->commit.ledger.cost_micros);
}

void pal_answer_record_usage(pal_turn *turn, const pal_model_end *end)
{
    /* A call that failed before any output is free. */
    if (!end->has_usage && (turn->phase != PAL_TURN_PHASE_CALL || !turn->step.output_seen))
        return;
    count(turn, end);
    pal_answer_keep_row(turn, &turn->commit.ledger);
}

void pal_answer_record_canceled(pal_turn *turn)
{
    const pal_model_end untold = {0};

    if (!turn->step.call)
        return;
    if (turn->phase == PAL_TURN_PHASE_SUMMARY) {
        pal_summary_spent(turn, &untold);
    } else if (turn->phase == PAL_TURN_PHASE_CALL) {
        count(turn, &untold);
        pal_answer_keep_row(turn, &turn->commit.ledger);
    }
}

/* Stores the extra members for calls of each tool: those that the caller has set, or the server of
 * the tool. An item of a tool that the caller runs has its own members. */
static void mark_calls(pal_turn *turn, pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++) {
        pal_part *part = &message->parts[i];
        const pal_tool *tool =
                part->kind == PAL_PART_TOOL_CALL ? pal_tools_find(turn, part->name) : NULL;
        bool has_own = turn->step.answer.has_items && part->extra.len;

        if (tool && (tool->server.len || !has_own))
            part->extra = extra_of(turn, tool);
    }
}

/* Returns NULL if the turn has failed. */
static pal_message *make_answer(pal_turn *turn, const pal_model_end *end)
{
    pal_arena *arena = pal_turn_step_arena(turn);
    pal_message *message = arena ? pal_arena_alloc(arena, sizeof(*message)) : NULL;
    pal_error err = {0};
    pal_status status = PAL_NO_MEMORY;

    if (message)
        status = pal_answer_message(&turn->step.answer, arena, message, &err);
    if (status != PAL_OK) {
        pal_turn_fail(turn, status, "%s", message ? err.message : "out of memory");
        return NULL;
    }
    if (message->parts_len == 0) {
        pal_answer_record_usage(turn, end);
        pal_turn_fail(turn, PAL_PROVIDER, "the model returned an empty answer");
        return NULL;
    }
    mark_calls(turn, message);
    message->id = turn->step.answer_id;
    /* the events before and after the commit report the same time */
    message->created_at = pal_store_clock_ms(turn->runtime->store);
    message->model = pal_arena_copy(arena, end->model.len ? end->model : turn->settings.model);
    message->has_usage = end->has_usage;
    message->usage = end->usage;
    message->sent = turn->step.sent.items > 0 ? &turn->step.sent : NULL;
    return message;
}

void pal_answer_record(pal_turn *turn, const pal_model_end *end)
{
    pal_record *conversation;
    pal_op also;
    pal_message *message = make_answer(turn, end);
    pal_turn_append append = {.messages = message, .messages_len = 1, .done = on_recorded};
    pal_error err = {0};
    pal_status status = PAL_OK;

    if (!message)
        return;
    pal_answer_keep_text(turn);
    turn->commit.answered = turn->commit.messages = message;
    turn->commit.messages_len = 1;
    pal_turn_enter(turn, PAL_TURN_PHASE_RECORD);
    turn->outcome.finish = end->finish;
    turn->commit.write.ops_len = 0;
    count(turn, end);
    append.ledger = &turn->commit.ledger;
    if (turn->commit.epoch.kind == PAL_MARK_EPOCH)
        append.epoch = &turn->commit.epoch;
    conversation = pal_conversation_record(turn, end, message);
    if (conversation) {
        also = pal_op_record_put(turn->request.tenant, conversation, PAL_RECORD_VERSION_ANY);
        append.also = &also;
    }
    if (pal_last_commit_is_wanted(turn) && is_last(turn, message))
        status = pal_last_commit_prepare(turn, &append, has_calls(message), &err);
    if (status != PAL_OK) {
        pal_answer_keep_row(turn, append.ledger);
        pal_turn_fail(turn, status, "could not finish the turn: %.180s", err.message);
        return;
    }
    if (!has_calls(message) && is_last(turn, message))
        append.gives_lease = pal_lease_can_release(turn->lane);
    if (turn->lane->fence && pauses(turn, message))
        append.gives_lease = true;
    pal_turn_write_append(turn, &append);
}
