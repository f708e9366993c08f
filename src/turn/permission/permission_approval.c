/* permission_approval.c - calls that ended an earlier turn because they need approval, and their
 * answers.
 *
 * With asks_end_turn, a turn whose only remaining calls need approval ends as DONE (turn_tools.c).
 * Its last commit stores the caller's record, and the calls stay open in the session. The turn of a
 * later request brings the answers. Its first commit records the request's messages, but no results
 * of the answered calls. Then it runs the allowed ones, and records all results before it calls the
 * model.
 *
 * Nothing runs between the two turns, so a crash there has no effect: any process can take the
 * answers. A crash while the calls run leaves an unfinished turn. It is continued or rewound like
 * any other (recovery_resume.c), and does not run its calls a second time. */
#include "turn/permission/permission_approval.h"

#include "base/memory.h"
#include "base/text.h"
#include "turn/permission/permission_question.h"

static const pal_part *find_in(const pal_message *message, pal_str call_id)
{
    for (size_t i = 0; message && i < message->parts_len; i++)
        if (message->parts[i].kind == PAL_PART_TOOL_CALL &&
                pal_str_equal(message->parts[i].call_id, call_id))
            return &message->parts[i];
    return NULL;
}

/* A client that keeps its history sends the call with the answer. */
static const pal_part *find_call(const pal_turn *turn, const pal_ending *end, pal_str call_id)
{
    const pal_turn_request *request = &turn->request;
    const pal_part *call = find_in(end->answer, call_id);

    if (pal_recovery_has_result(end->results, end->results_len, call_id) ||
            pal_recovery_has_result(request->messages, request->messages_len, call_id))
        return NULL;
    for (size_t i = request->messages_len; !call && i > 0; i--)
        call = find_in(&request->messages[i - 1], call_id);
    return call;
}

pal_status pal_approval_find(
        pal_turn *turn, const pal_ending *end, const pal_session *session, pal_error *err)
{
    size_t len = turn->request.answers_len;
    pal_part *calls = len ? pal_arena_array(turn->arena, len, sizeof(*calls)) : NULL;

    if (len == 0)
        return PAL_OK;
    for (size_t i = 0; calls && i < len; i++) {
        pal_str call_id = turn->request.answers[i].call_id;
        const pal_part *call = find_call(turn, end, call_id);

        if (!call)
            return pal_error_set(err, PAL_INVALID, "the call '%.*s' is not waiting for approval",
                    PAL_EXCERPT(call_id, 80));
        calls[i] = (pal_part){.kind = PAL_PART_TOOL_CALL,
                .call_id = pal_arena_copy(turn->arena, call->call_id),
                .name = pal_arena_copy(turn->arena, call->name),
                .arguments = pal_arena_copy(turn->arena, call->arguments)};
    }
    if (pal_arena_failure(turn->arena) != PAL_OK)
        return pal_no_memory(err);
    turn->found.answered = calls;
    return pal_turn_settings_find(
            turn->runtime, &turn->request, session, turn->arena, &turn->settings, err);
}

bool pal_approval_has_answer(const pal_turn_request *request, pal_str call_id)
{
    for (size_t i = 0; i < request->answers_len; i++)
        if (pal_str_equal(request->answers[i].call_id, call_id))
            return true;
    return false;
}

bool pal_approval_begin(pal_turn *turn)
{
    size_t len = turn->request.answers_len;

    turn->commit.messages = NULL; /* the first commit is over */
    turn->step.runs = pal_calloc(len, sizeof(*turn->step.runs));
    if (!turn->step.runs || !pal_turn_step_arena(turn))
        return false;
    for (size_t i = 0; i < len; i++) {
        const pal_part *call = &turn->found.answered[i];
        pal_tool_run *run = &turn->step.runs[turn->step.runs_len];

        *run = (pal_tool_run){.turn = turn,
                .id = call->call_id,
                .name = call->name,
                .arguments = call->arguments,
                .arena = pal_arena_new(0)};
        if (!run->arena)
            return false;
        turn->step.runs_len++;
        pal_question_take(run, &turn->request.answers[i]);
    }
    return true;
}
