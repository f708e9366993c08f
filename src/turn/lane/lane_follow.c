/* lane_follow.c - merges consecutive waiting turns into one. The first one leads and records the
 * messages of all of them. The others, its followers, get the same events. On the loop; merging
 * exists only in memory. */
#include "turn/lane/lane_follow.h"

#include "turn/turn.h"
#include "turn/turn_outbox.h"
#include "turn/turn_sender.h"

bool pal_follow_merge(pal_turn *turn, pal_turn *next)
{
    pal_id *inbox_ids;
    pal_message *messages;
    size_t len;

    if (!turn->lane->fence || pal_turn_is_note(turn) || turn->as_sent || next->as_sent ||
            turn->queue.origin == PAL_ORIGIN_STORE || next->queue.origin == PAL_ORIGIN_STORE ||
            turn->found.spent_tries > 0 || next->found.spent_tries > 0 ||
            !pal_sender_can_merge(&turn->request, &next->request, turn->arena))
        return false;
    inbox_ids = pal_arena_array(
            turn->arena, turn->queue.inbox_len + next->queue.inbox_len + 1, sizeof(*inbox_ids));
    messages = pal_sender_merge(&turn->request, &next->request, turn->arena, &len);
    if (!inbox_ids || !messages)
        return false;
    for (size_t i = 0; i < turn->queue.inbox_len; i++)
        inbox_ids[i] = turn->queue.inbox_ids[i];
    for (size_t i = 0; i < next->queue.inbox_len; i++)
        inbox_ids[turn->queue.inbox_len + i] = next->queue.inbox_ids[i];
    turn->queue.inbox_ids = inbox_ids;
    turn->queue.inbox_len += next->queue.inbox_len;
    turn->request.messages = messages;
    turn->request.messages_len = len;
    turn->request.channel =
            pal_outbox_merge(turn->request.channel, next->request.channel, turn->arena);
    next->queue.leader = turn;
    next->queue.next_follower = turn->queue.followers;
    turn->queue.followers = next;
    return true;
}

void pal_follow_end(pal_turn *turn)
{
    for (pal_turn *each = turn->queue.followers; each; each = each->queue.next_follower) {
        pal_id id = each->id;

        each->info = turn->info;
        each->info.turn = id;
        each->state = turn->state;
        each->outcome.usage = turn->outcome.usage;
        each->outcome.text = pal_arena_copy(each->arena, turn->outcome.text);
        pal_turn_enter(each, PAL_TURN_PHASE_ENDED);
        each->queue.leader = NULL;
    }
}

void pal_follow_leave(pal_turn *turn)
{
    pal_turn *each = turn->queue.followers;

    turn->queue.followers = NULL;
    while (each) {
        pal_turn *next = each->queue.next_follower;

        each->queue.next_follower = NULL;
        each->lane = NULL;
        pal_runtime_ended(each, false);
        each = next;
    }
}
