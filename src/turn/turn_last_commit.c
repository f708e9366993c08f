/* turn_last_commit.c - the last commit of a turn. It stores what must exist if and only if the turn
 * has ended: the caller's record, and the removal of the inbox item that marks the turn as
 * unfinished.
 *
 * With an answer, the commit must be known to be the last one before it is made. From then on
 * turn->commit.stage is LAST: a message sent to the turn starts a separate turn, and a cancel
 * comes too late. Without an answer, the commit records the part of the answer that has arrived,
 * with the reason of the end. If an all-or-nothing turn fails, the commit hides everything that the
 * turn has recorded.
 *
 * A crash before the commit leaves an unfinished turn, which another process continues
 * (recovery_owed.c). On the loop. */
#include "turn/turn_last_commit.h"

#include "base/json/json_put.h"
#include "base/memory.h"
#include "turn/lane/lane.h"
#include "turn/lane/lane_backlog.h"
#include "turn/lane/lane_park.h"
#include "turn/recovery/recovery_owed.h"
#include "turn/runtime/runtime_memory.h"
#include "turn/turn_conversation.h"
#include "turn/turn_outbox.h"

/* ---- With an answer ---- */

bool pal_last_commit_is_wanted(const pal_turn *turn)
{
    return turn->owed.state != PAL_OWED_NONE || turn->request.on_done;
}

void pal_last_commit_note(pal_turn *turn, pal_message *messages, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (pal_id_is_none(messages[i].id))
            messages[i].id = pal_id_new();
    if (!turn->request.on_done ||
            !pal_arena_reserve(turn->arena, &turn->commit.said, &turn->commit.said_cap,
                    turn->commit.said_len + len, sizeof(*turn->commit.said)))
        return; /* out of memory: the arena has failed, and so pal_last_commit_prepare() fails */
    for (size_t i = 0; i < len; i++)
        turn->commit.said[turn->commit.said_len++] = messages[i].id;
}

static pal_status tell_finish(pal_turn *turn, bool has_calls, pal_error *err)
{
    pal_record *record = pal_arena_alloc(turn->step.arena, sizeof(*record));
    pal_turn_end end = {.turn = turn->id,
            .session = turn->request.session,
            .messages = turn->commit.said,
            .messages_len = turn->commit.said_len,
            .answer = turn->commit.answered,
            .has_calls = has_calls,
            .finish = turn->outcome.finish,
            .usage = turn->outcome.usage,
            .cost_micros = turn->outcome.cost_micros};
    pal_status status = PAL_OK;

    if (!record || pal_arena_failure(turn->arena) != PAL_OK)
        return pal_no_memory(err);
    *record = (pal_record){0};
    status = turn->request.on_done(&end, turn->step.arena, record, turn->request.on_done_user, err);
    if (status == PAL_OK && pal_arena_failure(turn->step.arena) != PAL_OK)
        status = pal_no_memory(err);
    if (status == PAL_OK)
        turn->commit.record = record->kind.len > 0 ? record : NULL;
    return status;
}

pal_status pal_last_commit_prepare(
        pal_turn *turn, pal_turn_append *append, bool has_calls, pal_error *err)
{
    pal_status status = PAL_OK;

    pal_last_commit_note(turn, append->messages, append->messages_len);
    if (turn->request.on_done)
        status = tell_finish(turn, has_calls, err);
    if (status != PAL_OK)
        return status;
    append->record = turn->commit.record;
    append->due = pal_memory_expect(turn);
    append->outbox = pal_outbox_make(turn, PAL_TURN_DONE,
            turn->commit.answered ? turn->commit.answered->id : (pal_id){{0}});
    pal_owed_end(turn, append);
    turn->commit.stage = PAL_COMMIT_LAST;
    return PAL_OK;
}

/* ---- Without an answer ---- */

/* A turn that was stopped with an error status, for example by the time limit, has failed. */
static pal_turn_state end_state(const pal_turn *turn)
{
    return turn->stop && turn->info.status == PAL_OK ? PAL_TURN_CANCELED : PAL_TURN_FAILED;
}

/* Before the first answer, the turn has recorded only the request's messages, without gaps. Later
 * messages belong to other writers and stay visible. */
static void undo(pal_turn *turn)
{
    bool is_said_only = !turn->commit.answered && turn->commit.messages_len > 0 &&
            turn->commit.messages[0].seq == turn->owed.first_seq;

    pal_turn_add_rewind(turn, turn->owed.first_seq,
            is_said_only ? turn->owed.first_seq + turn->commit.messages_len - 1 : 0);
    if (turn->owed.state != PAL_OWED_NONE)
        pal_turn_add_op(turn,
                pal_op_inbox_drop(
                        turn->request.tenant, turn->request.session, turn->owed.item.id));
}

static void on_closed(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);
    pal_error err = {0};
    pal_status status = pal_turn_write_status(turn, &err);
    bool owes = turn->owed.state != PAL_OWED_NONE;

    turn->holds--;
    turn->owed.state = PAL_OWED_NONE;
    if (owes && status == PAL_DENIED) {
        pal_lease_lost(turn->lane);
        pal_away_begin(turn);
        return;
    }
    if (status != PAL_OK)
        pal_lease_restore(turn);
    if (owes && status != PAL_OK)
        pal_backlog_again(turn->runtime); /* the turn is still unfinished in the store */
    pal_turn_finish(turn, end_state(turn));
}

/* All or nothing: hides everything that the turn has recorded. */
static void close_with_rewind(pal_turn *turn, const pal_op *also)
{
    pal_record *outbox;

    undo(turn);
    outbox = pal_outbox_make(turn, end_state(turn), (pal_id){{0}});
    if (outbox)
        pal_turn_add_outbox(turn, outbox);
    if (pal_lease_can_release(turn->lane))
        pal_lease_add_release(turn);
    if (also && pal_turn_make_ops(turn))
        turn->commit.ops[turn->commit.write.ops_len++] =
                *also; /* applied even if the other operations fail */
    pal_turn_write(turn, on_closed);
}

/* Makes a message with the part of the answer that has arrived, and the reason of the end. Returns
 * NULL if there is no memory. */
static pal_message *make_record(pal_turn *turn)
{
    pal_arena *arena = pal_turn_step_arena(turn);
    pal_message *message = arena ? pal_arena_alloc(arena, sizeof(*message)) : NULL;
    pal_buf buf;
    pal_json_writer writer;
    pal_error ignored;

    if (!message || pal_answer_message(&turn->step.answer, arena, message,
            &ignored) != PAL_OK)
        return NULL;
    for (size_t i = 0; i < message->parts_len; i++)
        if (message->parts[i].kind == PAL_PART_TOOL_CALL)
            message->parts_len = i; /* a call that was cut off in the middle was never run */
    message->flags = PAL_MESSAGE_FLAG_ERROR;
    message->model = turn->settings.model;
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_text(&writer, turn->stop ? "interrupted" : "error", turn->info.reason);
    pal_json_end_object(&writer);
    message->extra = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return message;
}

void pal_turn_close(pal_turn *turn)
{
    pal_turn_append append = {.messages_len = 1, .done = on_closed};
    pal_op also;

    if (turn->stop == PAL_STOP_HAND_OVER) {
        pal_turn_leave(turn);
        return;
    }
    if (pal_conversation_drop(turn, &also))
        append.also = &also;
    pal_turn_enter(turn, PAL_TURN_PHASE_CLOSE);
    turn->commit.write.ops_len = 0;
    if (turn->request.all_or_nothing && turn->owed.first_seq > 0) {
        close_with_rewind(turn, append.also);
        return;
    }
    append.messages = turn->owed.first_seq > 0 || turn->owed.state != PAL_OWED_NONE
            ? make_record(turn)
            : NULL;
    if (!append.messages) {
        pal_turn_finish(turn, end_state(turn));
        return;
    }
    pal_answer_keep_text(turn);
    append.messages->id = pal_id_new();
    append.outbox = pal_outbox_make(turn, end_state(turn), append.messages->id);
    append.due = pal_memory_expect(turn);
    pal_owed_end(turn, &append);
    append.gives_lease = pal_lease_can_release(turn->lane);
    pal_turn_write_append(turn, &append);
}
