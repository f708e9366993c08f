/* lane_join.c - handles repeated requests. The sender of a repeat gets the first turn, with its
 * answer or its failure, no matter which process has it. Turns in this process's memory are found
 * earlier (runtime_call.c). Here the store is searched: a message names its turn, and so does an
 * inbox item. On the loop, unless a comment says otherwise.
 *
 * A failed turn is continued from its last commit if its messages are the last ones in the session
 * and the repeat does not have to wait. Otherwise the answer would come at a place that the
 * conversation has left. Then the repeat becomes a separate turn, and records the same messages
 * again at the end.
 *
 * The store would recognize the client ids of the first request. So the second try of the client id
 * "a" is recorded as "a#2", in all processes alike. An all-or-nothing turn that failed was rewound
 * (turn_last_commit.c). Its messages are always recorded again. While such a try waits, its inbox
 * item has the number of the try. So the commit that removes the item also records the message
 * under the right client id. */
#include "turn/lane/lane_join.h"

#include <stdio.h>

#include "base/memory.h"
#include "store/store_snapshot.h"
#include "turn/lane/lane.h"
#include "turn/lane/lane_inbox.h"
#include "turn/lane/lane_park.h"
#include "turn/recovery/recovery_inspect.h"
#include "turn/recovery/recovery_outcome.h"
#include "turn/recovery/recovery_owed.h"
#include "turn/recovery/recovery_resume.h"
#include "turn/turn_event.h"
#include "turn/turn_sender.h"

/* ---- Client ids ---- */

bool pal_join_may_look(const pal_turn *turn)
{
    return !turn->summary.wait && turn->queue.origin != PAL_ORIGIN_INBOX &&
            turn->request.messages_len > 0 && turn->request.messages[0].client_id.len > 0;
}

static pal_str name_of_try(pal_str client_id, uint32_t number, pal_arena *arena)
{
    char *name = pal_arena_alloc(arena, client_id.len + 12);
    int len;

    if (!name)
        return client_id; /* the arena has failed, which is checked later */
    len = snprintf(name, client_id.len + 12, "%.*s#%u", PAL_STR_ARG(client_id), number);
    return pal_str_make(name, (size_t)len);
}

void pal_join_name(const pal_turn *turn, pal_message *messages)
{
    const pal_message *sent = turn->as_sent ? turn->as_sent : turn->request.messages;

    for (size_t i = 0; turn->found.spent_tries > 0 && i < turn->request.messages_len; i++)
        if (sent[i].client_id.len > 0)
            messages[i].client_id =
                    name_of_try(sent[i].client_id, turn->found.spent_tries + 1, turn->arena);
}

pal_status pal_join_rename(pal_turn *turn, pal_error *err)
{
    size_t len = turn->request.messages_len;
    pal_message *messages;
    pal_status status = pal_recovery_recorded(turn, &messages, err);

    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < len; i++) {
        messages[i].id = (pal_id){{0}}; /* the ids of the first request were set */
        messages[i].seq = 0;
    }
    messages[0].id = pal_owed_first(turn->id);
    memcpy(turn->request.messages, messages, len * sizeof(*messages));
    turn->commit.messages = turn->request.messages;
    turn->commit.messages_len = len;
    turn->commit.settled_len = 0;
    return pal_arena_failure(turn->arena) == PAL_OK
            ? PAL_OK
            : pal_no_memory(err);
}

/* ---- Finding the first turn: on a worker ---- */

bool pal_join_is_found(const pal_turn *turn)
{
    return turn->found.outcome || !pal_id_is_none(turn->found.id);
}

static pal_status read_outcome(pal_turn *turn, pal_id id, pal_id first, pal_error *err)
{
    pal_outcome *outcome = pal_arena_alloc(turn->arena, sizeof(*outcome));
    pal_status status = PAL_NO_MEMORY;

    if (outcome)
        status = pal_outcome_read_from(turn->runtime->store, turn->request.tenant,
                turn->request.session, id, first, turn->arena, outcome, err);
    if (status == PAL_OK)
        turn->found.outcome = outcome;
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

static pal_status other_message(pal_str client_id, pal_error *err)
{
    return pal_error_set(err, PAL_CONFLICT, "client id '%.*s' was used for another message",
            PAL_STR_ARG(client_id));
}

/* Compares the request's messages with those that were recorded under the same client ids. Sets
 * *out_is_known if any of the ids is known, and *out_is_repeat if all messages are. `out_first` is
 * the recorded form of the first message. */
static pal_status compare(pal_turn *turn, const pal_message *messages, pal_message *out_first,
        bool *out_is_known, bool *out_is_repeat, pal_error *err)
{
    pal_snapshot snapshot;
    size_t same_len = 0;
    pal_status status = pal_snapshot_begin(turn->runtime->store, turn->request.tenant,
            turn->request.session, turn->arena, &snapshot, err);

    *out_is_known = *out_is_repeat = false;
    if (status != PAL_OK)
        return status;
    for (size_t i = 0; i < turn->request.messages_len; i++) {
        pal_message found;
        bool is_same = false;

        status = pal_snapshot_find_client_id(
                &snapshot, messages[i].client_id, turn->arena, &found, err);
        if (status == PAL_NOT_FOUND)
            continue;
        if (status == PAL_OK)
            status = pal_snapshot_is_repeat(&snapshot, &found, &messages[i], &is_same, err);
        if (status != PAL_OK)
            return status;
        *out_is_known = true;
        same_len += is_same;
        if (i == 0)
            *out_first = found;
    }
    *out_is_repeat = same_len > 0 && same_len == turn->request.messages_len;
    return PAL_OK;
}

/* Messages that were merged with others are recorded with a mark, so both forms are compared. */
static pal_status look_for_repeat(
        pal_turn *turn, pal_message *out_first, bool *out_is_repeat, pal_error *err)
{
    pal_message *messages = NULL;
    bool is_known;
    pal_status status = pal_recovery_recorded(turn, &messages, err);

    *out_is_repeat = false;
    if (status == PAL_OK)
        status = compare(turn, messages, out_first, &is_known, out_is_repeat, err);
    if (status != PAL_OK || !is_known || *out_is_repeat)
        return status;
    if (pal_sender_mark(messages, turn->request.messages_len, turn->arena))
        status = compare(turn, messages, out_first, &is_known, out_is_repeat, err);
    if (status == PAL_OK && !*out_is_repeat)
        status = other_message(pal_runtime_turn_client_id(turn), err);
    return status;
}

bool pal_join_is_repeat(pal_turn *turn)
{
    pal_message first;
    bool is_repeat;

    return pal_join_may_look(turn) && look_for_repeat(turn, &first, &is_repeat, NULL) == PAL_OK &&
            is_repeat;
}

/* Sets *out_hidden if the message `seq` is hidden. Then its all-or-nothing turn has failed. */
static pal_status is_hidden(pal_turn *turn, uint64_t seq, bool *out_hidden, pal_error *err)
{
    pal_message_query load = {.after_seq = seq - 1, .before_seq = seq + 1};
    pal_message_page list;
    pal_status status = pal_store_load(turn->runtime->store, turn->request.tenant,
            turn->request.session, &load, turn->arena, &list, err);

    if (status == PAL_OK)
        *out_hidden = list.len == 0;
    return status;
}

/* Returns whether the turn that was found is over without an answer, and cannot be continued. */
static pal_status look_whether_spent(
        pal_turn *turn, bool may_go_on, bool *out_spent, pal_error *err)
{
    const pal_outcome *outcome = turn->found.outcome;

    if (turn->request.all_or_nothing)
        return is_hidden(turn, turn->found.seq, out_spent, err);
    *out_spent = outcome && outcome->state == PAL_TURN_FAILED &&
            !(may_go_on && outcome->is_last && !outcome->is_hidden);
    return PAL_OK;
}

pal_status pal_join_find(pal_turn *turn, bool may_go_on, pal_error *err)
{
    bool is_repeat = false, is_spent = false;
    pal_message first;
    pal_status status;

    do {
        turn->found.outcome = NULL;
        turn->found.id = (pal_id){{0}};
        turn->found.spent_tries += is_spent;
        is_spent = false;
        status = look_for_repeat(turn, &first, &is_repeat, err);
        if (status != PAL_OK || !is_repeat)
            return status;
        turn->found.id = first.id;
        turn->found.seq = first.seq;
        if (!pal_id_is_none(first.turn_id))
            status = read_outcome(turn, first.turn_id, first.id, err);
        if (status == PAL_OK)
            status = look_whether_spent(turn, may_go_on, &is_spent, err);
        if (status != PAL_OK)
            return status;
    } while (is_spent);
    return PAL_OK;
}

static pal_str plain_json(const pal_message *message, pal_arena *arena)
{
    pal_message plain = *message;
    pal_str json = {0};

    plain.id = plain.turn_id = (pal_id){{0}};
    plain.seq = 0;
    plain.created_at = 0;
    plain.tokens = 0;
    if (pal_message_to_json(&plain, arena, &json, NULL) != PAL_OK)
        return (pal_str){0};
    return json;
}

bool pal_join_says(const pal_turn *turn, const pal_turn_request *request, pal_arena *scratch)
{
    const pal_message *own = turn->as_sent ? turn->as_sent : turn->request.messages;

    if (request->messages_len > turn->request.messages_len)
        return false;
    for (size_t i = 0; i < request->messages_len; i++)
        if (!pal_str_equal(plain_json(&own[i], scratch),
                    plain_json(&request->messages[i], scratch)))
            return false;
    return true;
}

/* The request may wait in the inbox as a turn of another process. The item of an admitted turn has
 * no messages, because they are recorded. */
static pal_status look_into_inbox(pal_turn *turn, pal_error *err)
{
    pal_str client_id = pal_runtime_turn_client_id(turn);
    pal_inbox_item *items;
    size_t len = 0;
    pal_status status = pal_store_inbox_list(turn->runtime->store, turn->request.tenant,
            turn->request.session, turn->arena, &items, &len, err);

    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        pal_turn_request request = {.tenant = turn->request.tenant};
        pal_inbox_head head;

        if (!pal_str_equal(items[i].client_id, client_id) ||
                pal_inbox_read(&items[i], turn->arena, &request, &head, NULL) != PAL_OK ||
                pal_id_is_none(head.turn))
            continue;
        if (request.messages_len == 0)
            return PAL_OK;
        if (request.messages_len != turn->request.messages_len ||
                !pal_join_says(turn, &request, turn->arena))
            return other_message(client_id, err);
        return read_outcome(turn, head.turn, pal_owed_first(head.turn), err);
    }
    return status;
}

/* Reads the inbox first: an item that has left it in the meantime is recorded. */
static void look(pal_work_item *item)
{
    pal_turn *turn = PAL_TURN_OF(item, work);
    pal_error *err = &turn->work_error;

    turn->found.outcome = NULL;
    turn->found.id = (pal_id){{0}};
    turn->work_error = (pal_error){0};
    turn->work_status = look_into_inbox(turn, err);
    if (turn->work_status == PAL_OK && !pal_join_is_found(turn))
        turn->work_status = pal_join_find(turn, false, err);
}

static void on_looked(pal_work_item *item)
{
    pal_turn *turn = PAL_TURN_OF(item, work);
    pal_lane_state *lane = turn->lane;

    turn->holds--;
    lane->guards--;
    if (turn->work_status == PAL_OK && pal_join_is_found(turn))
        pal_join(turn);
    else
        turn->then(turn);
}

bool pal_join_look(pal_turn *turn, void (*unknown)(pal_turn *turn))
{
    if (turn->found.is_looked_up || !pal_join_may_look(turn))
        return false;
    turn->found.is_looked_up = true;
    turn->then = unknown;
    turn->lane->guards++;
    turn->holds++;
    turn->work.work = look;
    turn->work.done = on_looked;
    pal_loop_work(turn->runtime->loop, &turn->work);
    return true;
}

/* ---- Joining ---- */

static void tell(pal_turn *turn, pal_turn_info info)
{
    pal_turn_on_start on_start = turn->on_start;

    info.replayed = true;
    turn->on_start = NULL;
    if (on_start)
        on_start(&info, NULL, turn->on_start_user);
}

/* If the first turn is in this process, the caller follows that turn. The exception: it ended here
 * in another state than in the store, because another process has continued it since. */
static bool tell_other(pal_turn *turn, const pal_outcome *outcome)
{
    pal_turn *other = pal_map_find(&turn->runtime->turns,
            pal_str_make((const char *)outcome->turn.bytes, sizeof(outcome->turn.bytes)));
    pal_turn_info info;

    if (!other || other == turn || !turn->on_start ||
            (other->phase == PAL_TURN_PHASE_ENDED && other->state != outcome->state))
        return false;
    pal_runtime_turn_info(other, &info);
    tell(turn, info);
    pal_turn_finish(turn, PAL_TURN_DONE);
    return true;
}

/* The request was recorded before, but its turn is not known. Any answer is in the session. */
static void tell_lost(pal_turn *turn)
{
    turn->info.replayed = true;
    turn->info.turn = (pal_id){{0}};
    turn->info.status = PAL_CONFLICT;
    pal_turn_set_reason(turn,
            "the message was sent before, and its turn is no longer in memory; read the session's "
            "messages");
    pal_lane_tell_started(turn, NULL);
    pal_turn_finish(turn, PAL_TURN_FAILED);
}

void pal_join(pal_turn *turn)
{
    pal_outcome *outcome = turn->found.outcome;
    pal_lane_state *lane = turn->lane;
    pal_turn_info info;

    turn->found.outcome = NULL;
    turn->owed.state = PAL_OWED_NONE;
    if (!outcome) {
        tell_lost(turn);
        return;
    }
    if (tell_other(turn, outcome))
        return;
    if (turn->on_start)
        pal_runtime_turn_rename(turn, outcome->turn);
    turn->owed.turn = outcome->turn;
    turn->info.replayed = true;
    lane->guards++;
    pal_away_begin(turn);
    info = turn->info;
    if (outcome->state >= PAL_TURN_DONE)
        pal_outcome_tell(outcome, turn->id, &info);
    tell(turn, info);
    if (outcome->state >= PAL_TURN_DONE)
        pal_away_end(turn, outcome);
    lane->guards--;
    pal_lane_dispatch(lane);
}
