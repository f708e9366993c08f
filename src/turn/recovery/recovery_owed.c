/* recovery_owed.c - makes sure that every admitted turn is answered or fails visibly, even if its
 * process dies.
 *
 * Invariant: from the commit that admits a turn to the commit that ends it, the session's inbox has
 * an item with the delivery "owed". The item has the turn's id, its settings and the number of
 * tries. The first commit adds the item and the last one drops it. So a crash at any point leaves
 * either a turn that has ended, or an item that marks it as unfinished.
 *
 * A process holds the session's lease while it answers. If there is an owed item without a lease,
 * the turn's process died, or the turn waits for a client; the open calls show which
 * (recovery_resume.c). A process that continues such a turn replaces the item in the same commit.
 * If two processes try, one of them finds the old item gone.
 *
 * The item has the client id of the request, as a waiting item does, and an inbox has each client
 * id only once. If two processes receive the same request at the same time, one adds its item,
 * waiting or owed. The other finds that item and joins the turn. A turn that did not wait adds its
 * owed item before its messages, and the messages are recorded only if that succeeds. If a turn has
 * waited, its waiting item has the client id already: the messages replace that item, and the owed
 * item follows them.
 *
 * The id of a turn's first message is derived from the turn's id. So a turn can be found by its id
 * without a separate index, for as long as its messages exist. */
#include "turn/recovery/recovery_owed.h"

#include "turn/lane/lane_inbox.h"
#include "turn/input/input.h"
#include "turn/turn_outbox.h"

pal_id pal_owed_first(pal_id turn)
{
    turn.bytes[sizeof(turn.bytes) - 1] ^= 1;
    return turn;
}

void pal_owed_name_first(pal_turn *turn)
{
    if (turn->request.messages_len > 0 && pal_id_is_none(turn->request.messages[0].id))
        turn->request.messages[0].id = pal_owed_first(turn->id);
}

/* The item holds only the settings, because the messages are recorded. */
static bool write_item(pal_turn *turn, bool is_handed, pal_inbox_item *out_item)
{
    pal_turn_request settings = turn->request;
    pal_inbox_head head = {
            .turn = turn->owed.turn,
            .first = turn->owed.first_id,
            .tries = turn->owed.tries ? turn->owed.tries : 1,
            .is_final = turn->request.on_done != NULL,
            .on_seq = turn->owed.on_seq,
            .is_handed = is_handed,
            .questions = turn->owed.questions,
            .handles = turn->step.runs ? pal_input_handles(turn) : turn->owed.handles,
    };

    if (turn->commit.messages_len > turn->commit.settled_len && pal_id_is_none(head.first))
        head.first = turn->commit.messages[turn->commit.settled_len].id;
    settings.messages_len = 0;
    settings.expected_seq = 0; /* it was checked when the messages were recorded */
    turn->owed.tries = head.tries;
    turn->owed.first_id = head.first;
    if (pal_inbox_write(&settings, &head, PAL_DELIVERY_OWED, turn->arena, out_item, NULL) != PAL_OK)
        return false;
    out_item->client_id = pal_runtime_turn_client_id(turn);
    return true;
}

void pal_owed_add(pal_turn *turn)
{
    if (turn->summary.wait)
        return;
    if (write_item(turn, false, &turn->owed.item))
        pal_turn_add_op(turn,
                pal_op_inbox_add(
                        turn->request.tenant, turn->request.session, &turn->owed.item));
    else
        turn->commit.ops_failure = PAL_NO_MEMORY;
}

void pal_owed_replace(pal_turn *turn, pal_id old)
{
    pal_turn_add_op(turn, pal_op_inbox_drop(turn->request.tenant, turn->request.session, old));
    pal_owed_add(turn);
}

void pal_owed_added(pal_turn *turn)
{
    turn->owed.state = pal_id_is_none(turn->owed.item.id) ? PAL_OWED_NONE : PAL_OWED_STORED;
}

void pal_owed_renew(pal_turn *turn)
{
    turn->owed.previous_id = turn->owed.item.id;
    pal_owed_replace(turn, turn->owed.previous_id);
}

void pal_owed_renewed(pal_turn *turn, pal_status status)
{
    if (status == PAL_OK)
        pal_owed_added(turn);
    else
        turn->owed.item.id = turn->owed.previous_id;
}

void pal_owed_end(pal_turn *turn, pal_turn_append *append)
{
    if (turn->owed.state == PAL_OWED_NONE)
        return;
    append->inbox_ids = &turn->owed.item.id;
    append->inbox_len = 1;
}

bool pal_owed_settle(pal_turn *turn, pal_turn_state state, void (*then)(pal_write *write))
{
    pal_record *outbox;

    if (turn->owed.state == PAL_OWED_NONE || !turn->lane->fence)
        return false;
    /* only one try: if this write fails, the next process that looks finds the item */
    turn->owed.state = PAL_OWED_NONE;
    turn->commit.write.ops_len = 0;
    outbox = state != PAL_TURN_NONE ? pal_outbox_make(turn, state, turn->info.message) : NULL;
    if (outbox)
        pal_turn_add_outbox(turn, outbox);
    pal_turn_add_op(turn,
            pal_op_inbox_drop(turn->request.tenant, turn->request.session, turn->owed.item.id));
    pal_turn_write(turn, then);
    return true;
}

/* ---- Handing over ---- */

typedef struct hand_over {
    pal_write write;
    pal_op ops[2];
    pal_inbox_item item;
    pal_turn *turn;
    void (*then)(pal_turn *turn);
} hand_over;

static void on_handed(pal_write *write)
{
    hand_over *h = (hand_over *)((char *)write - offsetof(hand_over, write));

    h->turn->holds--;
    if (h->turn->phase == PAL_TURN_PHASE_CLOSE)
        h->then(h->turn); /* if the write failed, the next process counts this try */
}

bool pal_owed_hand_over(pal_turn *turn, void (*then)(pal_turn *turn))
{
    hand_over *h = turn->owed.state == PAL_OWED_STORED && turn->lane->fence
            ? pal_arena_alloc(turn->arena, sizeof(*h))
            : NULL;

    if (!h)
        return false;
    *h = (hand_over){.turn = turn, .then = then};
    if (!write_item(turn, true, &h->item))
        return false;
    h->ops[0] = pal_op_inbox_drop(
            turn->request.tenant, turn->request.session, turn->owed.item.id);
    h->ops[1] = pal_op_inbox_add(turn->request.tenant, turn->request.session, &h->item);
    h->ops[1].with_previous = true;
    h->ops[0].fence = h->ops[1].fence = turn->lane->fence;
    h->write = (pal_write){.ops = h->ops, .ops_len = 2, .done = on_handed};
    turn->holds++;
    pal_runtime_write(turn->runtime, &h->write);
    return true;
}

const pal_inbox_item *pal_owed_find(const pal_inbox_item *items, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (pal_str_is(items[i].delivery, PAL_DELIVERY_OWED))
            return &items[i];
    return NULL;
}
