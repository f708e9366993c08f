/* turn_join.c - the same request again: whoever sends it gets the turn of the first time, its
 * answer or its failure, whichever process has it. Turns of this process that are remembered are
 * found before (turn_call.c); here it is the store that knows: a message names its turn, and so
 * does an item in the inbox. On the loop, but for what says otherwise. */
#include "turn/turn_join.h"

#include "store/store_reading.h"
#include "turn/turn_event.h"
#include "turn/turn_inbox.h"
#include "turn/turn_outcome.h"
#include "turn/turn_park.h"
#include "turn/turn_recover.h"
#include "turn/turn_resume.h"

/* ---- Looking: on a worker ---- */

static pal_status read_outcome(pal_turn *turn, pal_id id, pal_error *err)
{
    pal_outcome *outcome = pal_arena_alloc(turn->arena, sizeof(*outcome));
    pal_status status = PAL_NO_MEMORY;

    if (outcome)
        status = pal_outcome_read(turn->runtime->store, turn->request.tenant,
                turn->request.session, id, turn->arena, outcome, err);
    if (status == PAL_OK)
        turn->outcome = outcome;
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

pal_status pal_join_read(pal_turn *turn, pal_id id, pal_error *err)
{
    pal_message message;
    pal_id session;
    pal_status status = pal_store_message(turn->runtime->store, turn->request.tenant, id,
            turn->arena, &message, &session, err);

    turn->outcome = NULL;
    if (status != PAL_OK || pal_id_is_none(message.turn_id))
        return status;
    return read_outcome(turn, message.turn_id, err);
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

static bool says_the_same(const pal_turn *turn, const pal_turn_request *other)
{
    const pal_message *own = turn->as_sent ? turn->as_sent : turn->request.messages;

    if (other->messages_len != turn->request.messages_len)
        return false;
    for (size_t i = 0; i < other->messages_len; i++)
        if (!pal_str_equal(plain_json(&own[i], turn->arena),
                    plain_json(&other->messages[i], turn->arena)))
            return false;
    return true;
}

/* It may wait in the inbox, as a turn of another process. */
static pal_status look_into_inbox(pal_turn *turn, pal_error *err)
{
    pal_str client_id = turn->request.messages[0].client_id;
    pal_inbox_item *items;
    size_t len;
    pal_status status = pal_store_inbox_list(turn->runtime->store, turn->request.tenant,
            turn->request.session, turn->arena, &items, &len, err);

    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        pal_turn_request request = {.tenant = turn->request.tenant};
        pal_inbox_head head;

        if (!pal_str_equal(items[i].client_id, client_id) ||
                pal_inbox_read(&items[i], turn->arena, &request, &head, NULL) != PAL_OK ||
                pal_id_is_none(head.turn))
            continue;
        if (!says_the_same(turn, &request))
            return pal_error_set(err, PAL_CONFLICT, "client id '%.*s' was used for another message",
                    PAL_STR_ARG(client_id));
        return read_outcome(turn, head.turn, err);
    }
    return status;
}

static void look(pal_work_item *item)
{
    pal_turn *turn = pal_turn_of_work(item);
    pal_error *err = &turn->work_error;
    pal_id message;

    turn->outcome = NULL;
    turn->work_error = (pal_error){0};
    turn->work_status = pal_recover_prepare(turn, err);
    if (turn->work_status == PAL_OK && pal_recover_is_repetition(turn, &message))
        turn->work_status = pal_join_read(turn, message, err);
    else if (turn->work_status == PAL_OK)
        turn->work_status = look_into_inbox(turn, err);
}

static void looked(pal_work_item *item)
{
    pal_turn *turn = pal_turn_of_work(item);
    pal_lane_state *lane = turn->lane;

    turn->holds--;
    lane->guards--;
    if (turn->outcome && turn->work_status == PAL_OK && turn->outcome->state != PAL_TURN_FAILED)
        pal_join(turn);
    else
        turn->then(turn);
}

bool pal_join_look(pal_turn *turn, void (*unknown)(pal_turn *turn))
{
    if (turn->is_looked_up || turn->compact || turn->is_backlog ||
            turn->request.messages_len == 0 || turn->request.messages[0].client_id.len == 0)
        return false;
    turn->is_looked_up = true;
    turn->then = unknown;
    turn->lane->guards++;
    turn->holds++;
    turn->work.work = look;
    turn->work.done = looked;
    pal_loop_work(turn->runtime->loop, &turn->work);
    return true;
}

/* ---- Joining ---- */

static void tell(pal_turn *turn, const pal_turn_info *info)
{
    pal_turn_started started = turn->started;

    turn->started = NULL;
    if (started)
        started(info, NULL, turn->started_user);
}

/* The turn itself is here: it is the one that is followed. */
static bool tell_other(pal_turn *turn, pal_id id)
{
    pal_turn *other = pal_map_find(&turn->runtime->turns,
            pal_str_make((const char *)id.bytes, sizeof(id.bytes)));
    pal_turn_info info;

    if (!other || other == turn || !turn->started)
        return false;
    pal_turn_fill_info(other, &info);
    info.replayed = true;
    tell(turn, &info);
    pal_turn_finish(turn, PAL_TURN_DONE);
    return true;
}

void pal_join(pal_turn *turn)
{
    pal_outcome *outcome = turn->outcome;
    pal_lane_state *lane = turn->lane;

    turn->outcome = NULL;
    turn->owes = false;
    if (tell_other(turn, outcome->turn))
        return;
    if (turn->started)
        pal_turn_rename(turn, outcome->turn);
    turn->acting = outcome->turn;
    turn->info.replayed = true;
    lane->guards++;
    pal_away_begin(turn);
    tell(turn, &turn->info);
    if (outcome->state >= PAL_TURN_DONE)
        pal_away_end(turn, outcome);
    lane->guards--;
    pal_lane_rest(lane);
}
