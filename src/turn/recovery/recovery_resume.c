/* recovery_resume.c - continues an unfinished turn that no process runs. Its process died, or the
 * turn waits for a client and its process is gone or was another one.
 *
 * The turn is recognized by its owed item (recovery_owed.c), read with the session's lease. If the
 * item has questions about open calls, the turn waits for answers. If calls of the caller's tools
 * are open, it waits for results. In all other cases the process died.
 *
 * A waiting turn is restored to its state in memory, without a write. For a turn whose process
 * died, one commit stores "interrupted" as the result of its open calls and replaces the item by
 * one that counts another try. Then it calls the model again, under the same id. After
 * PAL_TURN_TRIES_MAX tries it fails durably. A process that shuts down normally notes this in the
 * item, and that try is not counted. Calls that run as tasks of their servers are restored, and
 * continue to poll the task (input.c). */
#include "turn/recovery/recovery_resume.h"

#include <stdio.h>

#include "base/memory.h"
#include "context/context_text.h"
#include "turn/lane/lane.h"
#include "turn/lane/lane_backlog.h"
#include "turn/lane/lane_park.h"
#include "turn/lane/lane_visit.h"
#include "turn/permission/permission_question.h"
#include "turn/recovery/recovery_inspect.h"
#include "turn/recovery/recovery_owed.h"
#include "turn/recovery/recovery_retell.h"
#include "turn/runtime/runtime_owner.h"
#include "turn/runtime/runtime_servers.h"
#include "turn/turn_event.h"

/* ---- Finding the turn: on a worker ---- */

bool pal_resume_is_callers(const pal_turn_request *request, pal_str name)
{
    for (size_t i = 0; i < request->tools_len; i++)
        if (pal_str_equal(request->tools[i].name, name))
            return true;
    return pal_turn_passes_calls(request);
}

static bool is_open(const pal_resume *found, const pal_part *part)
{
    return part->kind == PAL_PART_TOOL_CALL &&
            !pal_recovery_has_result(found->results, found->results_len, part->call_id);
}

/* Counts the calls of the turn in order, in the same way as the turn itself did. */
static void count_calls(pal_resume *found, const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];

        if (part->kind == PAL_PART_TOOL_CALL &&
                pal_tool_loop_add(&found->doom, part->name, part->arguments) &&
                !pal_resume_is_callers(&found->request, part->name))
            pal_tool_loop_reset(&found->doom); /* this call was approved or denied */
    }
}

/* Reads the questions about calls that are still open. */
static pal_status find_questions(pal_arena *arena, pal_resume *found, pal_error *err)
{
    size_t len = 0;
    pal_status status = pal_question_read(found->head.questions, found->answer, arena,
            &found->questions, &found->questions_len, err);

    for (size_t i = 0; status == PAL_OK && i < found->questions_len; i++)
        if (!pal_recovery_has_result(
                    found->results, found->results_len, found->questions[i].call_id))
            found->questions[len++] = found->questions[i];
    found->questions_len = len;
    return status;
}

static pal_status count_all_calls(
        const pal_snapshot *snapshot, pal_arena *arena, pal_resume *found, pal_error *err)
{
    pal_message_query load = {.after_seq = found->first_seq - 1};
    pal_message_page list;
    pal_status status = pal_snapshot_load(snapshot, &load, arena, &list, err);

    for (size_t i = 0; status == PAL_OK && i < list.len; i++)
        if (list.items[i].role == PAL_ROLE_ASSISTANT &&
                pal_id_equal(list.items[i].turn_id, found->head.turn))
            count_calls(found, &list.items[i]);
    return status;
}

static bool waits_for_results(const pal_snapshot *snapshot, const pal_resume *found)
{
    int64_t now_ms = pal_store_clock_ms(snapshot->store);

    if (found->request.calls_end_turn ||
            now_ms - found->answer->created_at > PAL_TURN_PAUSE_MS_MAX)
        return false;
    for (size_t i = 0; i < found->answer->parts_len; i++)
        if (is_open(found, &found->answer->parts[i]) &&
                pal_resume_is_callers(&found->request, found->answer->parts[i].name))
            return true;
    return false;
}

static bool has_open(const pal_resume *found)
{
    for (size_t i = 0; found->answer && i < found->answer->parts_len; i++)
        if (is_open(found, &found->answer->parts[i]))
            return true;
    return false;
}

pal_status pal_resume_judge(
        const pal_snapshot *snapshot, pal_arena *arena, pal_resume *found, pal_error *err)
{
    pal_ending end;
    pal_status status = pal_recovery_ending(snapshot, 0, arena, &end, err);

    if (status != PAL_OK)
        return status;
    if (end.answer && pal_id_equal(end.answer->turn_id, found->head.turn)) {
        found->answer = end.answer;
        found->results = end.results;
        found->results_len = end.results_len;
    }
    if (!has_open(found) || found->first_seq == 0)
        return PAL_OK;
    status = count_all_calls(snapshot, arena, found, err);
    if (status == PAL_OK)
        status = find_questions(arena, found, err);
    if (status == PAL_OK)
        found->kind = found->questions_len > 0       ? PAL_RESUME_ASKING
                : waits_for_results(snapshot, found) ? PAL_RESUME_PAUSED
                                                     : PAL_RESUME_DEAD;
    return status;
}

/* Leaves found->first_seq at 0 if there is no such message. */
static pal_status find_first(pal_turn *turn, pal_resume *found, pal_error *err)
{
    pal_id id = pal_id_is_none(found->head.first) ? pal_owed_first(found->head.turn)
                                                  : found->head.first;
    pal_message message;
    pal_id session;
    pal_status status = pal_store_message(turn->runtime->store, turn->request.tenant, id,
            turn->arena, &message, &session, err);

    if (status == PAL_OK && pal_id_equal(session, turn->request.session)) {
        found->first_id = id;
        found->first_seq = message.seq;
        if (found->client_id.len == 0)
            found->client_id = message.client_id; /* an item of an older version has no client id */
    }
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

/* Loads the messages that readers in this process have not seen. */
static pal_status load_recorded(const pal_snapshot *snapshot, pal_arena *arena, pal_resume *found,
        pal_error *err)
{
    pal_message_query load = {.after_seq = found->first_seq - 1};
    pal_message_page list = {0};
    size_t len = 0;
    pal_status status = pal_snapshot_load(snapshot, &load, arena, &list, err);

    for (size_t i = 0; status == PAL_OK && i < list.len; i++)
        if (pal_id_equal(list.items[i].turn_id, found->head.turn) &&
                list.items[i].role != PAL_ROLE_USER)
            list.items[len++] = list.items[i];
    found->recorded = list.items;
    found->recorded_len = len;
    return status;
}

pal_status pal_resume_look(pal_turn *turn, const pal_snapshot *snapshot,
        const pal_inbox_item *items, size_t len, pal_error *err)
{
    const pal_inbox_item *item = pal_owed_find(items, len);
    pal_inbox_item kept;
    pal_resume *found;
    pal_status status;

    turn->found.resume = NULL;
    if (!item)
        return PAL_OK;
    found = pal_arena_alloc(turn->arena, sizeof(*found));
    kept = *item;
    kept.body = pal_arena_copy(turn->arena, item->body); /* the settings point into the body */
    if (!found || !kept.body.data)
        return pal_no_memory(err);
    *found = (pal_resume){.item = item->id,
            .client_id = pal_arena_copy(turn->arena, item->client_id),
            .request = {.tenant = turn->request.tenant, .session = turn->request.session}};
    status = pal_inbox_read(&kept, turn->arena, &found->request, &found->head, err);
    if (status == PAL_NO_MEMORY)
        return status;
    if (status != PAL_OK || pal_id_is_none(found->head.turn)) {
        turn->found.leftover = item->id;
        return PAL_OK;
    }
    status = find_first(turn, found, err);
    if (status != PAL_OK)
        return status;
    if (found->first_seq == 0 && !pal_id_is_none(found->head.first)) {
        turn->found.leftover = item->id; /* the request was a repeat, and its turn died at once */
        return PAL_OK;
    }
    status = pal_resume_judge(snapshot, turn->arena, found, err);
    if (status == PAL_OK && found->first_seq > 0)
        status = load_recorded(snapshot, turn->arena, found, err);
    if (status == PAL_OK && (found->kind != PAL_RESUME_DEAD || found->head.handles.len))
        status = pal_turn_settings_find(turn->runtime, &found->request, &snapshot->row.session,
                turn->arena, &found->settings, err);
    if (status != PAL_OK)
        return status;
    turn->found.resume = found;
    turn->queue.has_more = pal_backlog_is_there(turn, items, len, turn->arena);
    return PAL_OK;
}

/* ---- Continuing the turn: on the loop ---- */

bool pal_resume_is_wanted(const pal_turn *turn)
{
    const pal_resume *found = turn->found.resume;

    if (turn->queue.origin == PAL_ORIGIN_INBOX || pal_id_equal(found->head.turn, turn->owed.turn))
        return true;
    if (turn->answers.len > 0)
        return found->kind == PAL_RESUME_ASKING;
    return pal_recovery_results(&turn->request) > 0 && found->kind == PAL_RESUME_PAUSED;
}

/* Results or answers that the request delivers to the unfinished turn. */
typedef struct brought {
    const pal_message *results;
    size_t results_len;
    pal_turn_answers answers;
} brought;

/* Takes the id and the settings of the turn that was found. */
static void become(pal_turn *turn)
{
    const pal_resume *found = turn->found.resume;
    pal_turn_on_done on_done = turn->request.on_done;
    void *on_done_user = turn->request.on_done_user;

    if (turn->on_start || turn->queue.origin == PAL_ORIGIN_INBOX)
        pal_runtime_turn_rename(turn, found->head.turn);
    else
        turn->owed.turn = found->head.turn;
    pal_owner_leave(turn->runtime, &turn->request.budget);
    pal_owner_enter(turn->runtime, &found->request.budget);
    turn->request = found->request;
    turn->request.on_done = on_done;
    turn->request.on_done_user = on_done_user;
    turn->request.lane = PAL_TURN_LANE_QUEUE;
    turn->queue.origin = PAL_ORIGIN_REQUEST;
    turn->queue.inbox_len = 0;
    turn->commit.messages = NULL;
    turn->commit.messages_len = turn->commit.settled_len = 0;
    turn->owed.first_id = found->first_id;
    turn->owed.first_seq = found->first_seq;
    turn->step.conversation.fresh_seq = 0;
    turn->owed.tries = found->head.tries;
    turn->owed.item = (pal_inbox_item){.id = found->item};
    turn->owed.state = PAL_OWED_STORED;
    turn->owed.questions = found->head.questions;
    turn->owed.handles = found->head.handles;
    turn->settings = found->settings;
    turn->step.tools = NULL; /* they were gathered for another request */
    turn->step.tools_len = 0;
    turn->step.doom = found->doom;
    turn->found.client_id = found->client_id;
    pal_runtime_client_id_add(turn);
}

static void tell_started(pal_turn *turn)
{
    pal_turn_on_start on_start = turn->on_start;

    turn->on_start = NULL;
    if (on_start)
        on_start(&turn->info, NULL, turn->on_start_user);
}

static void tell_recorded(pal_turn *turn)
{
    const pal_resume *found = turn->found.resume;

    if (turn->events.newest == 0)
        pal_event_publish(turn, (pal_event){.kind = PAL_EVENT_STARTED,
                .text = turn->request.label});
    for (size_t i = 0; i < found->recorded_len; i++)
        pal_retell(turn, &found->recorded[i]);
}

/* Returns true if open calls can be continued at their servers. */
static bool has_tasks(const pal_resume *found)
{
    return found->head.handles.len > 0 && has_open(found);
}

static void run_on(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);
    pal_error err = {0};
    pal_status status = pal_turn_write_status(turn, &err);

    turn->holds--;
    if (status != PAL_OK) {
        if (status == PAL_DENIED)
            pal_lease_lost(turn->lane);
        /* the item may be the old or the new one; the next look at the store finds it */
        pal_away_begin(turn);
        return;
    }
    pal_owed_added(turn);
    tell_recorded(turn);
    if (has_tasks(turn->found.resume) && !pal_lane_park_restore(turn, turn->found.resume)) {
        pal_turn_fail(turn, PAL_NO_MEMORY, "out of memory");
        return;
    }
    turn->found.resume = NULL;
    if (turn->stop && turn->step.runs)
        pal_tools_stop(turn, PAL_TEXT_INTERRUPTED);
    else if (turn->stop)
        pal_turn_close(turn);
    else
        pal_servers_await(turn);
}

/* Makes results for open calls, before anything else is done. */
static size_t settle_open(pal_turn *turn, pal_message *messages)
{
    const pal_resume *found = turn->found.resume;
    size_t len = 0;

    for (size_t i = 0; found->answer && i < found->answer->parts_len; i++)
        if (is_open(found, &found->answer->parts[i]))
            len += pal_recovery_settle(turn, &found->answer->parts[i], &messages[len]);
    return len;
}

static pal_message *make_results(pal_turn *turn, size_t *out_len)
{
    const pal_resume *found = turn->found.resume;
    size_t cap = found->answer ? found->answer->parts_len : 0;
    pal_message *messages = pal_arena_array(turn->arena, cap + 1, sizeof(*messages));

    *out_len = messages ? settle_open(turn, messages) : 0;
    if (messages && pal_arena_failure(turn->arena) == PAL_OK)
        return messages;
    pal_turn_fail(turn, PAL_NO_MEMORY, "out of memory");
    return NULL;
}

static void go_on(pal_turn *turn)
{
    size_t len = 0;
    pal_message *messages = NULL;

    /* If there are tasks, all calls are restored, and the others get their results later. */
    if (!has_tasks(turn->found.resume)) {
        messages = make_results(turn, &len);
        if (!messages)
            return;
    }
    turn->owed.tries += !turn->found.resume->head.is_handed;
    turn->commit.write.ops_len = 0;
    pal_owed_replace(turn, turn->found.resume->item);
    if (len > 0)
        pal_turn_add_append(turn, &(pal_turn_append){.messages = messages, .messages_len = len});
    pal_turn_write(turn, run_on);
}

static void on_close_settled(pal_write *write)
{
    pal_turn *turn = PAL_TURN_OF(write, commit.write);
    pal_error err = {0};
    pal_status status = pal_turn_write_status(turn, &err);

    turn->holds--;
    if (status == PAL_OK) {
        turn->found.resume = NULL;
        pal_turn_close(turn);
        return;
    }
    if (status == PAL_DENIED)
        pal_lease_lost(turn->lane);
    pal_away_begin(turn);
}

/* Ends the turn as failed. Its open calls get results first, as in every other end of a turn. If
 * the process dies in between, the next one finds the item and ends the turn. */
static void give_up(pal_turn *turn)
{
    size_t len;
    pal_message *messages = make_results(turn, &len);

    if (!messages)
        return;
    turn->info.status = PAL_PROVIDER;
    if (len == 0 ||
            turn->request.all_or_nothing) { /* the messages of such a turn are hidden anyway */
        turn->found.resume = NULL;
        pal_turn_close(turn);
        return;
    }
    turn->commit.write.ops_len = 0;
    pal_turn_add_append(turn, &(pal_turn_append){.messages = messages, .messages_len = len});
    pal_turn_write(turn, on_close_settled);
}

static bool may_try(pal_turn *turn)
{
    if (turn->found.resume->head.is_final)
        pal_turn_set_reason(turn, "the process died while it answered");
    else if (turn->owed.tries >= PAL_TURN_TRIES_MAX && !turn->found.resume->head.is_handed)
        snprintf(turn->info.reason, sizeof(turn->info.reason),
                "the process died %u times while answering", turn->owed.tries);
    else
        return true;
    return false;
}

static void wait_again(pal_turn *turn, const brought *with)
{
    const pal_resume *found = turn->found.resume;
    pal_error err;

    tell_recorded(turn);
    if (!pal_lane_park_restore(turn, found)) {
        pal_turn_fail(turn, PAL_NO_MEMORY, "out of memory");
        return;
    }
    turn->found.resume = NULL;
    /* The client that delivers results already follows the turn, so PAUSED or ASKING is not
     * published again. The turn is taken with a new item, so that other processes see that their
     * item is obsolete. */
    turn->owed.state = PAL_OWED_PARKED;
    /* Answers and results were checked when the turn was found. */
    if (with->answers.len > 0
                    ? pal_question_answer_all(turn, &with->answers, &err) != PAL_OK
                    : with->results_len == 0 ||
                            pal_tools_results(turn, with->results, with->results_len, &err) !=
                                    PAL_OK)
        pal_lane_park_again(turn, found);
}

static const char interrupted[] = "interrupted by a new message";

/* If a turn in this process already follows the unfinished turn, that turn continues it: its
 * readers watch it under its id. */
static bool leave_to_follower(pal_turn *turn)
{
    if (!(turn->queue.origin == PAL_ORIGIN_INBOX || pal_visit_is(turn)) ||
            !pal_away_take(turn->lane, turn->found.resume->head.turn))
        return false;
    if (turn->queue.origin == PAL_ORIGIN_INBOX)
        pal_turn_finish(turn, PAL_TURN_DONE);
    else
        pal_visit_after(turn);
    return true;
}

void pal_resume_begin(pal_turn *turn)
{
    pal_lane_state *lane = turn->lane;
    brought with = {.results = turn->request.messages,
            .results_len = pal_recovery_results(&turn->request),
            .answers = turn->answers};

    lane->has_backlog |= turn->queue.has_more;
    if (leave_to_follower(turn))
        return;
    turn->answers.len = 0;
    become(turn);
    pal_turn_set_state(turn, PAL_TURN_RUNNING);
    lane->guards++;
    if (turn->found.resume->kind != PAL_RESUME_DEAD) {
        tell_started(turn);
        wait_again(turn, &with);
    } else if (may_try(turn)) {
        tell_started(turn);
        go_on(turn);
    } else {
        tell_started(turn);
        give_up(turn);
    }
    if (lane->running == turn && lane->first &&
            lane->first->request.lane == PAL_TURN_LANE_INTERRUPT)
        pal_turn_stop(turn, interrupted);
    lane->guards--;
}
