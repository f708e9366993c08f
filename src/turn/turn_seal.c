/* turn_seal.c - prepares the last commit of a turn. It stores what must exist if and only if the
 * turn has ended: the caller's record, and the removal of the inbox item that marks the turn as
 * unfinished.
 *
 * The commit must be known to be the last one before it is made. From then on is_sealed is set: a
 * message sent to the turn starts a separate turn, and a cancel comes too late. A crash before the
 * commit leaves an unfinished turn, which another process continues. On the loop. */
#include "turn/turn_seal.h"

#include "base/memory.h"
#include "turn/recovery/recovery_owed.h"

bool pal_seal_is_wanted(const pal_turn *turn)
{
    return turn->owes || turn->request.finish;
}

static bool make_room(pal_turn *turn, size_t len)
{
    size_t cap = turn->said_cap ? turn->said_cap : 8;
    pal_id *said;

    if (turn->said_len + len <= turn->said_cap)
        return true;
    while (cap < turn->said_len + len)
        cap *= 2;
    said = pal_arena_array(turn->arena, cap, sizeof(*said));
    if (!said)
        return false;
    for (size_t i = 0; i < turn->said_len; i++)
        said[i] = turn->said[i];
    turn->said = said;
    turn->said_cap = cap;
    return true;
}

void pal_seal_note(pal_turn *turn, pal_message *messages, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (pal_id_is_none(messages[i].id))
            messages[i].id = pal_id_new();
    if (!turn->request.finish || !make_room(turn, len))
        return; /* if there was no memory, the arena has failed, and so pal_seal() fails */
    for (size_t i = 0; i < len; i++)
        turn->said[turn->said_len++] = messages[i].id;
}

static pal_status tell_finish(pal_turn *turn, bool has_calls, pal_error *err)
{
    pal_record *record = pal_arena_alloc(turn->step_arena, sizeof(*record));
    pal_turn_end end = {.turn = turn->id,
            .session = turn->request.session,
            .messages = turn->said,
            .messages_len = turn->said_len,
            .answer = turn->answered,
            .has_calls = has_calls,
            .finish = turn->finish,
            .usage = turn->usage,
            .cost_micros = turn->cost_micros};
    pal_status status = PAL_OK;

    if (!record || pal_arena_failure(turn->arena) != PAL_OK)
        return pal_no_memory(err);
    *record = (pal_record){0};
    status = turn->request.finish(&end, turn->step_arena, record, turn->request.finish_user, err);
    if (status == PAL_OK && pal_arena_failure(turn->step_arena) != PAL_OK)
        status = pal_no_memory(err);
    if (status == PAL_OK)
        turn->seal_record = record->kind.len > 0 ? record : NULL;
    return status;
}

pal_status pal_seal(pal_turn *turn, pal_turn_append *append, bool has_calls, pal_error *err)
{
    pal_status status = PAL_OK;

    pal_seal_note(turn, append->messages, append->messages_len);
    if (turn->request.finish)
        status = tell_finish(turn, has_calls, err);
    if (status != PAL_OK)
        return status;
    append->record = turn->seal_record;
    pal_owed_end(turn, append);
    turn->is_sealed = true;
    return PAL_OK;
}
