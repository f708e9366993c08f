/* turn_whole.c - turns that are all or nothing: when one fails, a rewind takes out all that it
 * recorded, in the commit that ends it. One whose process died goes on like any other
 * (turn_resume.c). Version 0.1.0 rewound it, by an item of the delivery "whole" in the session's
 * inbox: {"first":"<the message's id>"}. Such an item is still heeded when a turn begins.
 *
 * A turn that failed is said once more when it is sent again (turn_join.c). */
#include "turn/turn_whole.h"

#include "base/json.h"
#include "turn/turn_owed.h"

static const char delivery[] = "whole";

/* ---- One's own ---- */

/* `last_seq` 0: all that is there. */
static void take_back(pal_turn *turn, uint64_t first_seq, uint64_t last_seq)
{
    turn->mark = (pal_mark){.kind = PAL_MARK_REWIND, .seq = first_seq - 1, .target = last_seq};
    pal_turn_add_op(turn, (pal_op){.kind = PAL_OP_MARK, .u.mark = &turn->mark});
}

/* Until the model has answered, the turn has recorded what was said, in one piece; what others have
 * appended since is theirs. */
void pal_whole_undo(pal_turn *turn)
{
    bool is_said_only =
            !turn->answered && turn->messages_len > 0 && turn->messages[0].seq == turn->first_seq;

    take_back(turn, turn->first_seq, is_said_only ? turn->first_seq + turn->messages_len - 1 : 0);
    if (turn->owes)
        pal_turn_add_op(
                turn, (pal_op){.kind = PAL_OP_INBOX_DROP, .u.inbox_id = turn->owed_item.id});
}

/* ---- What another left ---- */

/* 0: there is no such message; the turn died before, or it was a repetition. */
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

/* ---- The same again ---- */

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
