/* turn_whole.c - turns that are all or nothing. If such a turn fails, the commit that ends it
 * contains a rewind, which hides everything that the turn has recorded.
 *
 * If the process dies, the turn is continued like any other (recovery_resume.c). Version 0.1.0
 * rewound such a turn instead. It kept an item with the delivery "whole" in the session's inbox:
 * {"first":"<the message's id>"}. A turn that begins still settles such an item.
 *
 * If the client sends the request of a failed turn again, a new turn records it again
 * (lane_join.c). */
#include "turn/turn_whole.h"

#include "base/json/json.h"
#include "turn/recovery/recovery_owed.h"

static const char delivery[] = "whole";

/* ---- Rolling back this turn ---- */

/* Hides the messages from `first_seq` to `last_seq`; 0: to the end. */
static void take_back(pal_turn *turn, uint64_t first_seq, uint64_t last_seq)
{
    turn->mark = (pal_mark){.kind = PAL_MARK_REWIND, .seq = first_seq - 1, .target = last_seq};
    pal_turn_add_op(turn, (pal_op){.kind = PAL_OP_MARK, .u.mark = &turn->mark});
}

/* Before the first answer, the turn has recorded only the request's messages, without gaps. Later
 * messages belong to other writers and stay visible. */
void pal_whole_undo(pal_turn *turn)
{
    bool is_said_only =
            !turn->answered && turn->messages_len > 0 && turn->messages[0].seq == turn->first_seq;

    take_back(turn, turn->first_seq, is_said_only ? turn->first_seq + turn->messages_len - 1 : 0);
    if (turn->owes)
        pal_turn_add_op(
                turn, (pal_op){.kind = PAL_OP_INBOX_DROP, .u.inbox_id = turn->owed_item.id});
}

/* ---- Rolling back a turn of an older version ---- */

/* Sets *out_seq to 0 if there is no such message: the turn died before it recorded one, or it was a
 * repeat. */
static pal_status find_first(pal_turn *turn, pal_str body, uint64_t *out_seq, pal_error *err)
{
    pal_id id, session;
    pal_message message;
    pal_json value;
    pal_status status;

    *out_seq = 0;
    if (pal_json_parse(turn->arena, body, NULL, &value, NULL) != PAL_OK ||
            !pal_id_from_text(pal_json_string(pal_json_find(value, "first"), turn->arena), &id))
        return PAL_OK;
    status = pal_store_message(
            turn->runtime->store, turn->request.tenant, id, turn->arena, &message, &session, err);
    if (status == PAL_OK && pal_id_equal(session, turn->request.session))
        *out_seq = message.seq;
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

pal_status pal_whole_find(pal_turn *turn, const pal_inbox_item *items, size_t len, pal_error *err)
{
    turn->leftover = (pal_id){{0}};
    turn->leftover_seq = 0;
    for (size_t i = 0; i < len; i++) {
        if (!pal_str_is(items[i].delivery, delivery))
            continue;
        turn->leftover = items[i].id;
        return find_first(turn, items[i].body, &turn->leftover_seq, err);
    }
    return PAL_OK;
}

void pal_whole_settle(pal_turn *turn)
{
    if (pal_id_is_none(turn->leftover))
        return;
    if (turn->leftover_seq > 0)
        take_back(turn, turn->leftover_seq, 0);
    pal_turn_add_op(turn, (pal_op){.kind = PAL_OP_INBOX_DROP, .u.inbox_id = turn->leftover});
}

/* ---- Repeated requests ---- */

pal_status pal_whole_is_hidden(pal_turn *turn, uint64_t seq, bool *out_hidden, pal_error *err)
{
    pal_load load = {.after_seq = seq - 1, .before_seq = seq + 1};
    pal_messages list;
    pal_status status = pal_store_load(turn->runtime->store, turn->request.tenant,
            turn->request.session, &load, turn->arena, &list, err);

    if (status == PAL_OK)
        *out_hidden = list.len == 0;
    return status;
}
