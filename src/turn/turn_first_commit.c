/* turn_first_commit.c - begins a turn, up to its first commit. The commit contains the lease, the
 * cleanup after a dead turn, the turn's messages, and the item that marks the turn as unfinished
 * (recovery_owed.c). Nothing else happens before it.
 *
 * Steps: acquire the lease if it is needed, inspect the session, commit, run. A turn can also wait
 * for another process's lease, yield to an older request, join the first turn of a repeated
 * request, or continue an unfinished turn.
 *
 * Inspecting the session, committing and planning are three pieces of work, and the loop can start
 * each of them. But waking a thread costs more than any of them. So one worker does all three and
 * notifies the loop once, unless other writes in the session forbid it. If the worker meets an
 * obstacle, it leaves the rest to the loop. Turns that arrive while ENTRIES_MAX workers are busy
 * this way also go through the loop: their writes share commits.
 *
 * Invariant: while the worker has the turn, the loop does not touch it. The lane's fence belongs to
 * the running turn. A crash before the commit leaves the session unchanged, and the caller has
 * received no response. */
#include "turn/turn.h"

#include "turn/lane/lane.h"
#include "turn/lane/lane_backlog.h"
#include "turn/lane/lane_join.h"
#include "turn/lane/lane_park.h"
#include "turn/lane/lane_visit.h"
#include "turn/permission/permission_approval.h"
#include "turn/recovery/recovery_holder.h"
#include "turn/recovery/recovery_inspect.h"
#include "turn/recovery/recovery_outcome.h"
#include "turn/recovery/recovery_owed.h"
#include "turn/runtime/runtime_servers.h"
#include "turn/turn_event.h"
#include "turn/turn_outbox.h"

enum { ENTRIES_MAX = PAL_RUNTIME_WORKERS / 2 };

/* ---- The contents of the commit ---- */

/* Rewinds an all-or-nothing turn that an older version left, and drops its item. If the item
 * belongs to a turn that this one ends, its end is put into its outbox. */
static void settle_leftover(pal_turn *turn)
{
    pal_record *outbox;

    if (pal_id_is_none(turn->found.leftover))
        return;
    outbox = pal_outbox_make_for(turn, turn->found.leftover_turn, turn->found.leftover_channel,
            PAL_TURN_FAILED, pal_str_of("the process died while it answered"),
            turn->found.leftover_answer);
    if (outbox)
        pal_turn_add_outbox(turn, outbox);
    if (turn->found.leftover_seq > 0)
        pal_turn_add_rewind(turn, turn->found.leftover_seq, 0);
    pal_turn_add_op(turn,
            pal_op_inbox_drop(
                    turn->request.tenant, turn->request.session, turn->found.leftover));
}

/* Returns true if the lease is required first: an open call may belong to a turn that another
 * process runs. */
static bool needs_lease(const pal_turn *turn)
{
    return !turn->lane->fence &&
            (turn->commit.settled_len > 0 || !pal_id_is_none(turn->found.leftover) ||
                    (turn->found.resume && turn->queue.verdict != PAL_TURN_IS_TAKEN));
}

/* Puts the complete commit into turn->commit.write; it may have no operations. */
static void make_commit(pal_turn *turn)
{
    bool owes = (turn->commit.messages_len > 0 || turn->queue.origin != PAL_ORIGIN_INBOX) &&
            !pal_turn_is_note(turn); /* the first commit of a note is also its last */
    bool owes_first = owes && turn->queue.inbox_len == 0 &&
            pal_runtime_turn_client_id(turn).len > 0;

    turn->commit.write.ops_len = 0;
    turn->commit.said_len = 0;
    for (size_t i = 0; i < turn->request.create_ops_len; i++)
        pal_turn_add_op(turn, turn->request.create_ops[i]);
    pal_lease_add_take(turn);
    settle_leftover(turn);
    if (owes_first)
        pal_owed_add(turn); /* before the messages; see recovery_owed.c */
    if (turn->commit.messages_len > 0)
        pal_turn_add_append(turn,
                &(pal_turn_append){.messages = turn->commit.messages,
                        .messages_len = turn->commit.messages_len,
                        .settled_len = turn->commit.settled_len,
                        .inbox_ids = turn->queue.inbox_ids,
                        .inbox_len = turn->queue.inbox_len,
                        .expected_seq = turn->request.expected_seq});
    if (owes && !owes_first)
        pal_owed_add(turn);
}

/* For a successful commit: returns true if its messages had been recorded before. */
static bool is_replay(const pal_turn *turn)
{
    bool replayed = false;

    for (size_t i = 0; i < turn->commit.write.ops_len; i++)
        if (turn->commit.ops[i].kind == PAL_OP_APPEND && turn->commit.ops[i].status == PAL_OK)
            replayed = turn->commit.ops[i].u.append.replayed;
    return replayed;
}

/* For a successful commit: notes the turn's first message and its seq. */
static void note_seq(pal_turn *turn)
{
    if (turn->commit.messages_len > 0)
        turn->owed.first_seq =
                turn->commit.messages[0].seq; /* a rollback also hides the settled results */
    if (turn->commit.messages_len > turn->commit.settled_len)
        turn->owed.first_id = turn->commit.messages[turn->commit.settled_len].id;
    turn->step.conversation.fresh_seq = turn->owed.first_seq;
}

/* ---- All steps on one worker ---- */

/* Returns true if one worker can do all steps. `on_worker_done` must be called when the worker is
 * done. */
static bool takes_one_worker(pal_turn *turn)
{
    const pal_lane_state *lane = turn->lane;
    pal_runtime *runtime = turn->runtime;

    turn->commit.stage = PAL_COMMIT_OPEN;
    if (turn->summary.wait || turn->queue.origin == PAL_ORIGIN_INBOX || turn->queue.inbox_len > 0 ||
            lane->holds > 0 || lane->changes > 0 || runtime->entries_len >= ENTRIES_MAX ||
            pal_servers_are_awaited(turn) || !pal_turn_step_arena(turn) ||
            !pal_servers_gather(turn))
        return false;
    runtime->entries_len++;
    return true;
}

/* Returns the fence of the lease. If this commit has acquired the lease, the loop does not know the
 * fence yet. */
static uint64_t fence_of(const pal_turn *turn)
{
    for (size_t i = 0; i < turn->commit.write.ops_len; i++)
        if (turn->commit.ops[i].kind == PAL_OP_LEASE_TAKE)
            return turn->commit.ops[i].u.lease.fence;
    return turn->lane->fence;
}

/* Returns the session as it is after the commit, or NULL if it must be read again. */
static pal_snapshot *advance(pal_turn *turn, pal_snapshot *session)
{
    const pal_op *append = NULL;

    for (size_t i = 0; i < turn->commit.write.ops_len; i++)
        if (turn->commit.ops[i].kind == PAL_OP_APPEND)
            append = &turn->commit.ops[i];
    return session && append && pal_snapshot_advance(session, append, turn->arena) ? session : NULL;
}

static void commit_and_plan(pal_turn *turn)
{
    pal_error err = {0};

    make_commit(turn);
    if (turn->commit.write.ops_len == 0 || turn->commit.ops_failure != PAL_OK)
        return; /* the loop tries again, and reports the error */
    turn->commit.write.failure = (pal_error){0};
    if (pal_store_apply(turn->runtime->store, turn->commit.ops, turn->commit.write.ops_len, &err) !=
            PAL_OK)
        turn->commit.write.failure = err;
    turn->commit.stage = PAL_COMMIT_FIRST_MADE;
    if (pal_turn_write_status(turn, &err) != PAL_OK || is_replay(turn))
        return;
    note_seq(turn);
    if (turn->request.answers_len > 0 || pal_turn_is_note(turn))
        return; /* the answered calls run first, and a note needs no plan */
    turn->commit.fence = fence_of(turn);
    turn->found.session = advance(turn, turn->found.session);
    pal_plan_work(&turn->work);
    turn->commit.stage = PAL_COMMIT_FIRST_PLANNED;
}

/* Runs on a worker. Afterwards turn->commit.stage says whether turn->commit.write was applied,
 * and whether pal_plan_work() was done. If it was not applied, everything is as
 * pal_recovery_inspect() leaves it. */
static void inspect_and_commit(pal_work_item *item)
{
    pal_turn *turn = PAL_TURN_OF(item, work);
    pal_snapshot session;

    turn->found.session = &session;
    pal_recovery_inspect(item);
    if (turn->work_status == PAL_OK && turn->queue.verdict == PAL_TURN_MAY_BEGIN &&
            !turn->found.resume && !needs_lease(turn))
        commit_and_plan(turn);
    turn->found.session = NULL;
}

/* A new session has only what the request brings. */
static pal_status prepare_new(pal_turn *turn, pal_error *err)
{
    const pal_session session = {.id = turn->request.session, .tenant = turn->request.tenant};
    pal_status status = pal_recovery_prepare(turn, err);

    return status == PAL_OK ? pal_approval_find(turn, &(pal_ending){0}, &session, err) : status;
}

/* The same for a new session, which needs no look. Runs on a worker. */
static void prepare_and_commit(pal_work_item *item)
{
    pal_turn *turn = PAL_TURN_OF(item, work);

    turn->work_error = (pal_error){0};
    turn->work_status = prepare_new(turn, &turn->work_error);
    if (turn->work_status == PAL_OK)
        commit_and_plan(turn);
}

/* ---- Refusing ---- */

static void admit(pal_turn *turn);
static void inspect(pal_turn *turn);

/* Another process has the lease, or a dead process left it: the lease lasts for a while. */
static bool wait_for_lease(pal_turn *turn, pal_status status)
{
    if (status != PAL_BUSY || !pal_lane_may_wait(turn) || turn->runtime->is_closing ||
            !pal_lease_await(turn->lane))
        return false;
    pal_lane_requeue(turn);
    return true;
}

static void refuse(pal_turn *turn, pal_error *err);

/* The lookup did not find a first turn of this request. */
static void refuse_unknown(pal_turn *turn)
{
    pal_error why = turn->commit.write.failure;

    refuse(turn, turn->work_status != PAL_OK ? &turn->work_error : &why);
}

static void on_refusal_stored(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);

    turn->holds--;
    refuse(turn, &turn->work_error);
}

/* Returns true if the messages themselves were refused, and would be refused again. */
static bool is_for_good(const pal_turn *turn, pal_status status)
{
    if (status == PAL_CONFLICT || status == PAL_INVALID)
        return true;
    for (size_t i = 0; status == PAL_LIMIT && i < turn->commit.write.ops_len; i++)
        if (turn->commit.ops[i].kind == PAL_OP_APPEND && turn->commit.ops[i].status == PAL_LIMIT)
            return true;
    return false;
}

/* Messages that can never be admitted are removed from the inbox before the error is reported, and
 * are not tried again. Returns true if the removal is in progress. */
static bool drop_waiting(pal_turn *turn, pal_status status)
{
    pal_record *outbox;

    if (turn->queue.inbox_len == 0 || !is_for_good(turn, status) || !pal_turn_make_ops(turn))
        return false;
    turn->commit.write.ops_len = 0;
    outbox = pal_outbox_make_for(turn, turn->owed.turn, turn->request.channel, PAL_TURN_FAILED,
            pal_str_of(turn->work_error.message), (pal_id){{0}});
    if (outbox)
        pal_turn_add_outbox(turn, outbox);
    while (turn->queue.inbox_len > 0 && turn->commit.write.ops_len < PAL_TURN_OPS_MAX) {
        pal_turn_add_op(turn,
                pal_op_inbox_drop(turn->request.tenant, turn->request.session,
                        turn->queue.inbox_ids[--turn->queue.inbox_len]));
        turn->commit.ops[turn->commit.write.ops_len - 1].with_previous =
                false; /* an item may be gone already */
    }
    pal_turn_write(turn, on_refusal_stored);
    return true;
}

static void refuse(pal_turn *turn, pal_error *err)
{
    pal_error why = *err;

    if (wait_for_lease(turn, err->status))
        return;
    turn->work_error = why;
    if (pal_owed_settle(turn, PAL_TURN_NONE, on_refusal_stored))
        return; /* the item is removed first: a client that gets the error may retry at once */
    if (err->status == PAL_DENIED && turn->lane->fence) {
        /* the turn begins again, and waits for the process that has the session now */
        pal_lease_lost(turn->lane);
        pal_turn_begin(turn);
        return;
    }
    /* PAL_BUSY: the running turn may be the first turn of this request. PAL_CONFLICT: the first
     * request may have been merged with others. */
    turn->commit.write.failure = why;
    if ((err->status == PAL_BUSY || err->status == PAL_CONFLICT) &&
            pal_join_look(turn, refuse_unknown))
        return;
    if (drop_waiting(turn, err->status))
        return;
    if (turn->queue.origin == PAL_ORIGIN_INBOX)
        pal_backlog_again(turn->runtime);
    if (err->status == PAL_BUSY)
        pal_error_set(err, PAL_BUSY, "session is busy: %s",
                turn->queue.verdict == PAL_TURN_MUST_WAIT
                        ? "older messages are waiting in its inbox"
                        : "another process is running a turn in it");
    turn->info.status = err->status;
    pal_turn_set_reason(turn, err->message);
    pal_lane_tell_started(turn, err);
    pal_turn_finish(turn, PAL_TURN_FAILED);
}

/* ---- Another process's lease ---- */

enum { SUSPECT_MS = 50, LEASE_TRIES_MAX = 3, VISIT_LOOKS_MAX = 40 };

static void look_at_holder(pal_turn *turn);

static void on_look_time(pal_timer *timer)
{
    pal_turn *turn = PAL_TURN_OF(timer, timer);

    turn->holds--;
    look_at_holder(turn);
}

/* A holder that has just published its question or its calls is about to release the lease. */
static bool may_look_again(pal_turn *turn, pal_holder_view view)
{
    if (pal_lane_may_wait(turn))
        return false;
    return view == PAL_HOLDER_SUSPECT ||
            (pal_visit_is(turn) && turn->queue.visits++ < VISIT_LOOKS_MAX);
}

/* A turn that may not wait is refused while the holder is alive. If that is not known yet, the turn
 * waits until it is known, at most for the ttl of a lease. */
static void on_holder_seen(pal_lane_state *lane, pal_turn *turn, pal_holder_view view)
{
    bool is_stopping = lane->runtime->is_closing || turn->stop;

    if (view == PAL_HOLDER_NONE && !is_stopping && turn->queue.lease_tries < LEASE_TRIES_MAX) {
        turn->queue.lease_tries++;
        pal_turn_begin(turn);
    } else if (!is_stopping && may_look_again(turn, view) &&
            pal_loop_timer_start(lane->runtime->loop, &turn->timer, SUSPECT_MS, on_look_time)) {
        turn->holds++;
    } else {
        refuse(turn, &(pal_error){.status = PAL_BUSY});
    }
}

static void look_at_holder(pal_turn *turn)
{
    pal_holder_look(turn->lane, turn, on_holder_seen);
}

/* ---- Repeated requests ---- */

/* The first turn of this request failed: this turn continues it from its last commit. */
static void continue_failed(pal_turn *turn)
{
    pal_id id = turn->found.outcome->turn;

    turn->found.outcome = NULL;
    if (turn->on_start)
        pal_runtime_turn_rename(turn, id);
    turn->owed.turn = id;
    turn->info.replayed = true;
    turn->owed.first_id = turn->found.id;
    turn->owed.first_seq = turn->found.seq;
    turn->found.client_id = turn->as_sent[0].client_id;
    turn->request.messages_len = turn->commit.messages_len = turn->commit.settled_len = 0;
    inspect(turn);
}

static void on_replay_settled(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);
    pal_error err = {0};
    pal_status status = pal_turn_write_status(turn, &err);

    turn->holds--;
    if (status != PAL_OK)
        refuse(turn, &err);
    else if (!pal_join_is_found(turn))
        inspect(turn);
    else if (turn->found.outcome && turn->found.outcome->state == PAL_TURN_FAILED &&
            !turn->request.all_or_nothing)
        continue_failed(turn);
    else
        pal_join(turn);
}

/* Runs on a worker. If the turn has waited, its id was reported already. Then it cannot take the id
 * of another turn. */
static void find_first(pal_work_item *item)
{
    pal_turn *turn = PAL_TURN_OF(item, work);
    pal_error *err = &turn->work_error;

    turn->work_error = (pal_error){0};
    turn->work_status = pal_join_find(turn, turn->on_start != NULL, err);
    if (turn->work_status == PAL_OK && !pal_join_is_found(turn))
        turn->work_status = pal_join_rename(turn, err);
}

static void on_first_found(pal_work_item *item)
{
    pal_turn *turn = PAL_TURN_OF(item, work);

    turn->holds--;
    if (turn->work_status != PAL_OK) {
        refuse(turn, &turn->work_error);
        return;
    }
    turn->commit.write.ops_len = 0;
    settle_leftover(turn);
    pal_turn_write(turn, on_replay_settled);
}

static void work(pal_turn *turn, void (*run)(pal_work_item *), void (*done)(pal_work_item *))
{
    turn->work.work = run;
    turn->work.done = done;
    turn->holds++;
    pal_loop_work(turn->runtime->loop, &turn->work);
}

static void begin_replay(pal_turn *turn)
{
    /* This try is over, and its inbox item is obsolete. */
    turn->found.leftover = turn->owed.item.id;
    turn->found.leftover_seq = 0;
    turn->owed.item = (pal_inbox_item){0};
    turn->owed.state = PAL_OWED_NONE;
    turn->owed.first_id = (pal_id){{0}};
    turn->queue.inbox_len = 0; /* the commit removed the items from the inbox */
    work(turn, find_first, on_first_found);
}

/* ---- Admission ---- */

static void run(pal_turn *turn)
{
    pal_runtime_client_id_add(turn);
    pal_turn_set_state(turn, PAL_TURN_RUNNING);
    pal_lane_tell_started(turn, NULL);
    pal_event_publish(turn, (pal_event){.kind = PAL_EVENT_STARTED, .text = turn->request.label});
    if (turn->commit.stage == PAL_COMMIT_FIRST_PLANNED) {
        pal_turn_enter(turn, PAL_TURN_PHASE_PLAN);
        pal_turn_planned(turn);
    } else if (turn->request.answers_len > 0 && !pal_approval_begin(turn)) {
        pal_turn_fail(turn, PAL_NO_MEMORY, "out of memory");
    } else {
        pal_servers_await(turn);
    }
}

/* The messages of a note are recorded, and nothing else is to be done. */
static void end_note(pal_turn *turn)
{
    pal_runtime_client_id_add(turn);
    pal_turn_set_state(turn, PAL_TURN_RUNNING);
    pal_lane_tell_started(turn, NULL);
    pal_event_publish(turn, (pal_event){.kind = PAL_EVENT_STARTED, .text = turn->request.label});
    pal_turn_finish(turn, PAL_TURN_DONE);
}

/* One of several notes conflicts with what the session has, perhaps because it was recorded before.
 * They are recorded one by one, so that the others are not refused with it. */
static bool try_one_note(pal_turn *turn, pal_status status)
{
    if (status != PAL_CONFLICT || !pal_turn_is_note(turn) || turn->queue.inbox_len < 2)
        return false;
    turn->queue.takes_one = true;
    turn->queue.inbox_ids = NULL;
    turn->queue.inbox_len = 0;
    turn->request.messages_len = 0;
    turn->request.channel = NULL;
    turn->as_sent = NULL;
    inspect(turn);
    return true;
}

/* Applies the effects of the committed operations, even if others failed. */
static void apply_effects(pal_turn *turn)
{
    for (size_t i = 0; i < turn->commit.write.ops_len; i++) {
        const pal_op *op = &turn->commit.ops[i];

        if (op->status != PAL_OK || turn->commit.write.failure.status != PAL_OK)
            continue;
        if (op->kind == PAL_OP_LEASE_TAKE)
            pal_lease_taken(turn->lane, op->u.lease.fence);
        if (op->kind == PAL_OP_INBOX_DROP)
            turn->found.leftover = (pal_id){{0}};
        if (op->kind == PAL_OP_INBOX_ADD)
            pal_owed_added(turn);
    }
}

/* Results of open calls are new even if the rest was recorded before. Together they are neither new
 * nor a repeat, so the append conflicts. */
static bool try_without_settled(pal_turn *turn, pal_status status)
{
    if (status != PAL_CONFLICT || turn->commit.settled_len == 0 || turn->request.messages_len == 0)
        return false;
    turn->commit.messages += turn->commit.settled_len;
    turn->commit.messages_len -= turn->commit.settled_len;
    turn->commit.settled_len = 0;
    admit(turn);
    return true;
}

/* The same request waits in the inbox or is being answered: another process received it. */
static bool is_clash(const pal_turn *turn)
{
    for (size_t i = 0; i < turn->commit.write.ops_len; i++)
        if (turn->commit.ops[i].kind == PAL_OP_INBOX_ADD)
            return turn->commit.write.failure.status == PAL_OK &&
                    turn->commit.ops[i].status == PAL_CONFLICT;
    return false;
}

/* The first request is gone in the meantime. */
static void inspect_again(pal_turn *turn)
{
    if (turn->work_status == PAL_OK)
        inspect(turn);
    else
        refuse(turn, &turn->work_error);
}

static void on_admitted(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);
    pal_error err = {0};
    pal_status status = pal_turn_write_status(turn, &err);

    turn->owed.state = PAL_OWED_NONE;
    apply_effects(turn);
    turn->holds--;
    if (status != PAL_OK && is_clash(turn)) {
        turn->found.is_looked_up = false;
        if (!pal_join_look(turn, inspect_again))
            refuse(turn, &err);
        return;
    }
    if (status != PAL_OK) {
        if (status == PAL_BUSY)
            look_at_holder(turn);
        else if (!try_one_note(turn, status) && !try_without_settled(turn, status))
            refuse(turn, &err);
        return;
    }
    turn->lane->has_backlog |= turn->queue.has_more;
    if (is_replay(turn) && pal_turn_is_note(turn)) {
        turn->info.replayed = true;
        end_note(turn);
        return;
    }
    if (is_replay(turn)) {
        begin_replay(turn);
        return;
    }
    if (turn->queue.origin == PAL_ORIGIN_INBOX && turn->request.messages_len == 0) {
        pal_turn_finish(turn, PAL_TURN_DONE);
        return;
    }
    note_seq(turn);
    turn->queue.origin = PAL_ORIGIN_REQUEST; /* from now on it is a turn like any other */
    if (pal_turn_is_note(turn))
        end_note(turn);
    else
        run(turn);
}

static void admit(pal_turn *turn)
{
    make_commit(turn);
    if (turn->commit.write.ops_len > 0 || turn->commit.ops_failure != PAL_OK) {
        pal_turn_write(turn, on_admitted);
        return;
    }
    turn->holds++;
    turn->commit.write.failure = (pal_error){0};
    on_admitted(&turn->commit.write);
}

/* ---- Recovery ---- */

static void on_leased(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);
    pal_error err = {0};
    pal_status status = pal_turn_write_status(turn, &err);

    apply_effects(turn);
    turn->holds--;
    if (status == PAL_OK)
        inspect(turn);
    else if (status == PAL_BUSY)
        look_at_holder(turn);
    else
        refuse(turn, &err);
}

static void take_lease(pal_turn *turn)
{
    turn->commit.write.ops_len = 0;
    pal_lease_add_take(turn);
    pal_turn_write(turn, on_leased);
}

/* Yields to an older request. */
static void yield(pal_turn *turn)
{
    /* The older request could not be run the first time. It is tried again after a delay. */
    if (turn->queue.place == PAL_PLACE_YIELDED)
        (void)pal_lease_await(turn->lane);
    turn->queue.place = PAL_PLACE_YIELDED;
    turn->lane->has_backlog = true;
    if (pal_lane_may_wait(turn))
        pal_lane_requeue(turn);
    else
        refuse(turn, &(pal_error){.status = PAL_BUSY});
}

/* A turn that was found in the inbox takes the id under which it was sent. */
static void take_name(pal_turn *turn)
{
    pal_id id = turn->owed.turn;
    const pal_turn *other;

    if (turn->queue.origin != PAL_ORIGIN_INBOX || pal_id_equal(turn->id, id))
        return;
    other = pal_map_find(
            &turn->runtime->turns, pal_str_make((const char *)id.bytes, sizeof(id.bytes)));
    if (!other || other->phase == PAL_TURN_PHASE_ENDED)
        pal_runtime_turn_rename(turn, id);
    else
        turn->info.turn = id; /* readers in this process follow it by that id */
}

/* Returns true if the unfinished turn that was found failed in this process, and the failure could
 * not be stored. */
static bool finds_failed(const pal_turn *turn)
{
    const pal_resume *found = turn->found.resume;
    const pal_turn *other = found && !pal_id_equal(found->head.turn, turn->found.failed_turn)
            ? pal_map_find(&turn->runtime->turns,
                      pal_str_make((const char *)found->head.turn.bytes, sizeof(pal_id)))
            : NULL;

    return other && other->phase == PAL_TURN_PHASE_ENDED && other->state == PAL_TURN_FAILED;
}

static void on_inspected(pal_work_item *item)
{
    pal_turn *turn = PAL_TURN_OF(item, work);

    turn->holds--;
    if (turn->work_status != PAL_OK) {
        refuse(turn, &turn->work_error);
    } else if (turn->queue.verdict == PAL_TURN_IS_TAKEN) {
        pal_away_begin(turn);
    } else if (needs_lease(turn)) {
        take_lease(turn);
    } else if (turn->queue.verdict == PAL_TURN_MUST_WAIT && finds_failed(turn)) {
        turn->found.failed_turn = turn->found.resume->head.turn;
        inspect(turn);
    } else if (turn->queue.verdict == PAL_TURN_MUST_WAIT) {
        yield(turn);
    } else if (turn->found.resume) {
        pal_resume_begin(turn);
    } else if (turn->queue.origin == PAL_ORIGIN_INBOX && turn->commit.messages_len == 0 &&
            pal_id_is_none(turn->found.leftover)) {
        pal_turn_finish(turn, PAL_TURN_DONE);
    } else {
        take_name(turn);
        admit(turn);
    }
}

static void on_worker_done(pal_work_item *item)
{
    pal_turn *turn = PAL_TURN_OF(item, work);

    turn->runtime->entries_len--;
    if (turn->commit.stage != PAL_COMMIT_OPEN)
        on_admitted(&turn->commit.write);
    else
        on_inspected(item);
}

static void inspect(pal_turn *turn)
{
    if (!pal_lane_note_known(turn)) {
        refuse(turn, &(pal_error){PAL_NO_MEMORY, "out of memory"});
        return;
    }
    if (takes_one_worker(turn))
        work(turn, inspect_and_commit, on_worker_done);
    else
        work(turn, pal_recovery_inspect, on_inspected);
}

/* The session is new, so there is nothing to inspect. */
static void begin_at_once(pal_turn *turn)
{
    pal_error err;

    if (takes_one_worker(turn))
        work(turn, prepare_and_commit, on_worker_done);
    else if (prepare_new(turn, &err) == PAL_OK)
        admit(turn);
    else
        refuse(turn, &err);
}

static void on_deadline(pal_timer *timer)
{
    pal_turn *turn = PAL_TURN_OF(timer, deadline);

    if (turn->commit.stage == PAL_COMMIT_LAST)
        return; /* only the last commit is missing */
    turn->info.status = PAL_TIMEOUT;
    pal_turn_stop(turn, "the turn exceeded its time limit (turn.timeout)");
}

void pal_turn_begin(pal_turn *turn)
{
    int64_t turn_ms = turn->runtime->options.turn_ms;

    if (turn_ms > 0 && !pal_loop_timer_start(turn->runtime->loop, &turn->deadline, turn_ms,
            on_deadline)) {
        turn->info.status = PAL_NO_MEMORY;
        pal_lane_tell_started(turn, &(pal_error){PAL_NO_MEMORY, "out of memory"});
        pal_turn_finish(turn, PAL_TURN_FAILED);
        return;
    }
    pal_turn_enter(turn, PAL_TURN_PHASE_ADMIT);
    pal_lease_note_stale(turn);
    turn->commit.messages = turn->request.messages;
    turn->commit.messages_len = turn->request.messages_len;
    if ((turn->queue.origin == PAL_ORIGIN_INBOX || turn->queue.inbox_len > 0) &&
            !turn->lane->fence) {
        /* another process may be about to run the waiting request, or has run it */
        take_lease(turn);
    } else if (turn->request.create_ops_len > 0) {
        begin_at_once(turn);
    } else {
        inspect(turn); /* a request that another process received in the meantime is older */
    }
}
