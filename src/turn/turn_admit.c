/* turn_admit.c - how a turn begins: what a dead process left open is settled, and the user's
 * messages are committed, together with the lease, before anything else happens. A crash before
 * that commit leaves the session as it was; the caller was told nothing. */
#include "turn/turn_machine.h"

#include "base/json.h"
#include "turn/turn_backlog.h"
#include "turn/turn_event.h"
#include "turn/turn_sender.h"

enum { RECOVER_MESSAGES = 64 };

static void tell_started(pal_turn *turn, const pal_error *err)
{
    pal_turn_started started = turn->started;

    turn->started = NULL;
    if (started)
        started(err ? NULL : &turn->info, err, turn->started_user);
}

static void admitted(pal_write *write)
{
    pal_turn *turn = pal_turn_of_write(write);
    pal_error err = {0};
    pal_status status = pal_turn_write_status(turn, &err);
    bool is_replay = false;

    turn->holds--;
    for (size_t i = 0; i < write->ops_len; i++) {
        if (turn->ops[i].kind == PAL_OP_LEASE_TAKE && turn->ops[i].status == PAL_OK)
            pal_lane_leased(turn->lane, turn->ops[i].u.lease.fence);
        if (turn->ops[i].kind == PAL_OP_APPEND && turn->ops[i].status == PAL_OK)
            is_replay = turn->ops[i].u.append.replayed;
    }
    if (status != PAL_OK) {
        if (turn->is_backlog)
            pal_backlog_again(turn->runtime);
        if (status == PAL_BUSY)
            pal_error_set(&err, PAL_BUSY, "session is busy: another process runs a turn in it");
        turn->info.status = status;
        pal_turn_set_reason(turn, err.message);
        tell_started(turn, &err);
        pal_turn_finish(turn, PAL_TURN_FAILED);
        return;
    }
    for (size_t i = 0; i < turn->request.messages_len; i++)
        if (turn->first_seq == 0)
            turn->first_seq = turn->request.messages[i].seq;
    turn->conversation.fresh_seq = turn->first_seq;
    turn->lane->has_backlog |= turn->has_more;
    turn->info.replayed = is_replay;
    if (is_replay) {
        /* It was admitted before, by a turn that nobody remembers; what came of it is in the
         * session. */
        turn->info.turn = (pal_id){{0}};
        tell_started(turn, NULL);
        pal_turn_finish(turn, PAL_TURN_DONE);
        return;
    }
    pal_runtime_know(turn);
    turn->lane->is_recovered = true;
    pal_turn_set_state(turn, PAL_TURN_RUNNING);
    tell_started(turn, NULL);
    pal_event_tell(turn, (pal_event){.kind = PAL_EVENT_STARTED, .text = turn->request.label});
    pal_turn_next_step(turn);
}

static void admit(pal_turn *turn)
{
    pal_lane_state *lane = turn->lane;
    bool has_messages = turn->messages_len > 0;

    turn->phase = PAL_PHASE_ADMIT;
    turn->write.ops_len = 0;
    if (!lane->fence)
        turn->ops[turn->write.ops_len++] = (pal_op){.kind = PAL_OP_LEASE_TAKE,
                .tenant = turn->request.tenant,
                .session = turn->request.session,
                .u.lease = {.owner = pal_str_of(turn->runtime->owner),
                        .ttl_ms = turn->runtime->options.lease_ms}};
    if (has_messages) {
        pal_turn_write_append(turn,
                &(pal_turn_append){.messages = turn->messages,
                        .messages_len = turn->messages_len,
                        .inbox_ids = turn->inbox_ids,
                        .inbox_len = turn->inbox_len,
                        .done = admitted});
        return;
    }
    turn->write.ops = turn->ops;
    turn->write.done = admitted;
    turn->holds++;
    if (turn->write.ops_len > 0) {
        pal_journal_write(&turn->runtime->journal, &turn->write);
        return;
    }
    turn->write.failure = (pal_error){0};
    admitted(&turn->write);
}

static bool is_waiting(const pal_message *answer, pal_str call_id, pal_arena *arena)
{
    pal_json extra, value;
    pal_json_iter each;

    if (answer->extra.len == 0 ||
            pal_json_parse(arena, answer->extra, NULL, &extra, NULL) != PAL_OK)
        return false;
    each = pal_json_each(pal_json_find(extra, "waits"));
    while (pal_json_next(&each, NULL, &value))
        if (pal_str_equal(pal_json_string(value, arena), call_id))
            return true;
    return false;
}

static bool has_result(const pal_messages *list, size_t from, pal_str call_id)
{
    for (size_t i = from; i < list->len; i++)
        for (size_t j = 0; j < list->items[i].parts_len; j++)
            if (list->items[i].parts[j].kind == PAL_PART_TOOL_RESULT &&
                    pal_str_equal(list->items[i].parts[j].call_id, call_id))
                return true;
    return false;
}

/* Calls of the newest answer that a dead process left without a result, unless the caller is to
 * give it. */
static size_t settle(const pal_messages *list, pal_arena *arena, pal_message *out_messages)
{
    size_t at = list->len, len = 0;

    while (at > 0 && list->items[at - 1].role == PAL_ROLE_TOOL)
        at--;
    if (at == 0 || list->items[at - 1].role != PAL_ROLE_ASSISTANT)
        return 0;
    for (size_t i = 0; i < list->items[at - 1].parts_len; i++) {
        const pal_part *call = &list->items[at - 1].parts[i];
        pal_part *part;

        if (call->kind != PAL_PART_TOOL_CALL || has_result(list, at, call->call_id) ||
                is_waiting(&list->items[at - 1], call->call_id, arena))
            continue;
        part = pal_arena_alloc(arena, sizeof(*part));
        if (!part)
            return 0;
        *part = (pal_part){.kind = PAL_PART_TOOL_RESULT,
                .call_id = call->call_id,
                .name = call->name,
                .text = pal_str_of(PAL_INTERRUPTED_TEXT),
                .is_error = true};
        out_messages[len++] = (pal_message){
                .role = PAL_ROLE_TOOL, .parts = part, .parts_len = 1, .flags = PAL_FLAG_SYNTHETIC};
    }
    return len;
}

static size_t calls_max(const pal_messages *list)
{
    size_t most = 0;

    for (size_t i = 0; i < list->len; i++)
        if (list->items[i].parts_len > most)
            most = list->items[i].parts_len;
    return most;
}

/* On a worker: what comes before the user's messages. */
static void recover(pal_work_item *item)
{
    pal_turn *turn = pal_turn_of_work(item);
    pal_load load = {.limit = RECOVER_MESSAGES, .from_end = true};
    pal_messages list;
    pal_message *messages;
    size_t len;

    turn->work_error = (pal_error){0};
    turn->work_status = PAL_OK;
    if (turn->is_backlog)
        turn->work_status = pal_backlog_take(turn, &turn->work_error);
    if (turn->work_status != PAL_OK || (turn->is_backlog && turn->request.messages_len == 0))
        return;
    turn->work_status = pal_store_load(turn->runtime->store, turn->request.tenant,
            turn->request.session, &load, turn->arena, &list, &turn->work_error);
    if (turn->work_status != PAL_OK)
        return;
    pal_sender_show(turn->request.messages, turn->request.messages_len, turn->arena);
    messages = pal_arena_array(
            turn->arena, calls_max(&list) + turn->request.messages_len + 1, sizeof(*messages));
    if (!messages) {
        turn->work_status = pal_error_set(&turn->work_error, PAL_NO_MEMORY, "out of memory");
        return;
    }
    len = turn->request.messages_len > 0 ? settle(&list, turn->arena, messages) : 0;
    memcpy(messages + len, turn->request.messages, turn->request.messages_len * sizeof(*messages));
    turn->messages = messages;
    turn->messages_len = len + turn->request.messages_len;
    turn->request.messages = messages + len;
}

static void recovered(pal_work_item *item)
{
    pal_turn *turn = pal_turn_of_work(item);

    turn->holds--;
    if (turn->is_backlog && turn->request.messages_len == 0) {
        if (turn->work_status != PAL_OK)
            pal_backlog_again(turn->runtime);
        pal_turn_finish(turn, PAL_TURN_DONE);
        return;
    }
    if (turn->work_status != PAL_OK) {
        turn->info.status = turn->work_status;
        pal_turn_set_reason(turn, turn->work_error.message);
        tell_started(turn, &turn->work_error);
        pal_turn_finish(turn, PAL_TURN_FAILED);
        return;
    }
    admit(turn);
}

static void too_late(pal_timer *timer)
{
    pal_turn *turn = (pal_turn *)((char *)timer - offsetof(pal_turn, deadline));

    turn->info.status = PAL_TIMEOUT;
    pal_turn_stop(turn, "the turn took longer than it may");
}

void pal_turn_begin(pal_turn *turn)
{
    int64_t turn_ms = turn->runtime->options.turn_ms;

    if (turn_ms > 0 && !pal_timer_start(turn->runtime->loop, &turn->deadline, turn_ms, too_late)) {
        turn->info.status = PAL_NO_MEMORY;
        tell_started(turn, &(pal_error){PAL_NO_MEMORY, "out of memory"});
        pal_turn_finish(turn, PAL_TURN_FAILED);
        return;
    }
    turn->messages = turn->request.messages;
    turn->messages_len = turn->request.messages_len;
    if (turn->lane->is_recovered && !turn->is_backlog) {
        pal_sender_show(turn->messages, turn->messages_len, turn->arena);
        admit(turn);
        return;
    }
    turn->phase = PAL_PHASE_ADMIT;
    turn->work.work = recover;
    turn->work.done = recovered;
    turn->holds++;
    pal_loop_work(turn->runtime->loop, &turn->work);
}
