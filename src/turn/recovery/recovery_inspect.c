/* recovery_inspect.c - inspects the session when a turn begins: older waiting requests, calls
 * without a result, and an unfinished all-or-nothing turn. On a worker; it uses only the members of
 * the turn that the loop does not touch meanwhile.
 *
 * Calls of the newest answer can be open for two reasons: a process died, or the caller delivers
 * the results now, as messages of role tool at the beginning of the request. Delivered results are
 * matched with their calls. Calls that the request approves or denies stay open until they have run
 * (permission_approval.c). All other open calls get "interrupted" as their result, before any new
 * message is recorded. Nothing is written here: turn_first_commit.c commits the result, so a crash
 * leaves the session unchanged. */
#include "turn/recovery/recovery_inspect.h"

#include "base/memory.h"
#include "base/text.h"
#include "context/context_text.h"
#include "store/store_snapshot.h"
#include "turn/lane/lane_backlog.h"
#include "turn/lane/lane_inbox.h"
#include "turn/lane/lane_join.h"
#include "turn/permission/permission_approval.h"
#include "turn/permission/permission_question.h"
#include "turn/recovery/recovery_resume.h"
#include "turn/turn_sender.h"
#include "window/window_load.h"

enum { MESSAGES_FIRST = 1, MESSAGES_MAX = 4 * PAL_ANSWER_CALLS_MAX };

bool pal_recovery_has_result(const pal_message *messages, size_t len, pal_str call_id)
{
    for (size_t i = 0; i < len; i++)
        for (size_t j = 0; j < messages[i].parts_len; j++)
            if (messages[i].parts[j].kind == PAL_PART_TOOL_RESULT &&
                    pal_str_equal(messages[i].parts[j].call_id, call_id))
                return true;
    return false;
}

/* ---- The newest answer ---- */

static pal_ending ending_of(const pal_message_page *list)
{
    size_t at = list->len;

    while (at > 0 && list->items[at - 1].role == PAL_ROLE_TOOL)
        at--;
    if (at == 0 || list->items[at - 1].role != PAL_ROLE_ASSISTANT)
        return (pal_ending){0};
    return (pal_ending){&list->items[at - 1], list->items + at, list->len - at};
}

/* The newest message is enough, unless it is a result. */
pal_status pal_recovery_ending(const pal_snapshot *snapshot, uint64_t before_seq, pal_arena *arena,
        pal_ending *out_ending, pal_error *err)
{
    pal_message_query load = {.limit = MESSAGES_FIRST, .from_end = true, .before_seq = before_seq};
    pal_message_page list = {.has_more = true};
    pal_status status = PAL_OK;

    do {
        status = pal_snapshot_load(snapshot, &load, arena, &list, err);
        load.limit *= 8;
    } while (status == PAL_OK && list.has_more && load.limit <= MESSAGES_MAX && list.len > 0 &&
            list.items[0].role == PAL_ROLE_TOOL);
    if (status == PAL_OK)
        *out_ending = ending_of(&list);
    return status;
}

static const pal_part *find_call(const pal_ending *end, pal_str call_id)
{
    for (size_t i = 0; end->answer && i < end->answer->parts_len; i++)
        if (end->answer->parts[i].kind == PAL_PART_TOOL_CALL &&
                pal_str_equal(end->answer->parts[i].call_id, call_id))
            return &end->answer->parts[i];
    return NULL;
}

/* ---- Results in the request ---- */

size_t pal_recovery_results(const pal_turn_request *request)
{
    size_t len = 0;

    while (len < request->messages_len && request->messages[len].role == PAL_ROLE_TOOL)
        len++;
    return len;
}

static pal_status refuse(size_t message, pal_str call_id, const char *why, pal_error *err)
{
    return pal_error_set(err, PAL_INVALID, "message %zu: the call '%.*s' %s", message,
            PAL_EXCERPT(call_id, 80), why);
}

static pal_status check_result(const pal_turn *turn, const pal_ending *end, size_t at,
        const pal_part *part, pal_error *err)
{
    const pal_message *messages = turn->request.messages;

    if (part->kind != PAL_PART_TOOL_RESULT)
        return pal_error_set(err, PAL_INVALID,
                "message %zu has role tool, so it may contain only results of tools", at);
    if (!find_call(end, part->call_id))
        return refuse(at, part->call_id, "is not waiting for a result", err);
    if (pal_recovery_has_result(end->results, end->results_len, part->call_id) ||
            pal_recovery_has_result(messages, at, part->call_id))
        return refuse(at, part->call_id, "already has a result", err);
    return PAL_OK;
}

/* If the results do not match, the request may be a repeat whose results were recorded before. Such
 * a request is accepted here and recognized later. */
static pal_status check_results(pal_turn *turn, const pal_ending *end, pal_error *err)
{
    size_t len = pal_recovery_results(&turn->request);
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        const pal_message *message = &turn->request.messages[i];

        for (size_t j = 0; status == PAL_OK && j < message->parts_len; j++)
            status = check_result(turn, end, i, &message->parts[j], err);
    }
    return status == PAL_INVALID && pal_join_is_repeat(turn) ? PAL_OK : status;
}

pal_status pal_recovery_recorded(const pal_turn *turn, pal_message **out_messages, pal_error *err)
{
    size_t results = pal_recovery_results(&turn->request);
    size_t len = turn->request.messages_len;
    pal_message *messages = pal_arena_array(turn->arena, len, sizeof(*messages));
    pal_status status = PAL_OK;
    uint32_t spilled;

    if (!messages)
        return pal_no_memory(err);
    memcpy(messages, turn->request.messages, len * sizeof(*messages));
    *out_messages = messages;
    pal_join_name(turn, messages);
    /* Messages that were prepared before are not prepared again, except for the client ids. */
    for (size_t i = 0; !turn->as_sent && status == PAL_OK && i < results; i++)
        status = pal_context_spill(&messages[i], turn->arena, &spilled, err);
    if (status == PAL_OK && !turn->as_sent && !turn->runtime->options.senders_off)
        status = pal_sender_show(messages, len, turn->arena);
    if (status == PAL_OK)
        status = pal_arena_failure(turn->arena);
    return status == PAL_NO_MEMORY ? pal_no_memory(err) : status;
}

pal_status pal_recovery_prepare(pal_turn *turn, pal_error *err)
{
    pal_message *recorded;
    pal_status status;

    if (turn->as_sent || turn->request.messages_len == 0)
        return PAL_OK;
    status = pal_recovery_recorded(turn, &recorded, err);
    if (status != PAL_OK)
        return status;
    turn->as_sent = turn->request.messages;
    turn->request.messages = recorded;
    return PAL_OK;
}

/* ---- Open calls ---- */

static bool is_open(const pal_turn *turn, const pal_ending *end, const pal_part *call)
{
    const pal_turn_request *request = &turn->request;

    return call->kind == PAL_PART_TOOL_CALL && !pal_approval_has_answer(request, call->call_id) &&
            !pal_recovery_has_result(end->results, end->results_len, call->call_id) &&
            !pal_recovery_has_result(request->messages, request->messages_len, call->call_id);
}

size_t pal_recovery_settle(pal_turn *turn, const pal_part *call, pal_message *out_message)
{
    pal_part *part = pal_arena_alloc(turn->arena, sizeof(*part));

    if (!part)
        return 0;
    *part = (pal_part){.kind = PAL_PART_TOOL_RESULT,
            .call_id = pal_arena_copy(turn->arena, call->call_id),
            .name = pal_arena_copy(turn->arena, call->name),
            .text = pal_str_of(PAL_TEXT_INTERRUPTED),
            .is_error = true};
    *out_message = (pal_message){.role = PAL_ROLE_TOOL,
            .parts = part,
            .parts_len = 1,
            .flags = PAL_MESSAGE_FLAG_SYNTHETIC};
    return 1;
}

/* Ends a dead turn visibly, if this runtime does not continue it. */
static size_t end_dead(pal_turn *turn, pal_message *out_message)
{
    turn->found.leftover_answer = pal_id_new();
    *out_message = (pal_message){.id = turn->found.leftover_answer,
            .role = PAL_ROLE_ASSISTANT,
            .flags = PAL_MESSAGE_FLAG_ERROR,
            .turn_id = turn->found.resume->head.turn,
            .extra = pal_str_of("{\"error\":\"the process died while it answered\"}")};
    return 1;
}

static pal_status settle(pal_turn *turn, const pal_ending *end, pal_error *err)
{
    size_t calls = end->answer && !turn->summary.wait ? end->answer->parts_len : 0;
    size_t len = 0;
    size_t cap = calls + (turn->found.resume != NULL) + turn->request.messages_len;
    pal_message *messages = pal_arena_array(turn->arena, cap, sizeof(*messages));

    for (size_t i = 0; messages && i < calls; i++)
        if (is_open(turn, end, &end->answer->parts[i]))
            len += pal_recovery_settle(turn, &end->answer->parts[i], &messages[len]);
    if (messages && turn->found.resume) {
        len += end_dead(turn, &messages[len]);
        turn->found.resume = NULL;
    }
    if (pal_arena_failure(turn->arena) != PAL_OK)
        return pal_no_memory(err);
    turn->commit.settled_len = len;
    for (size_t i = 0; i < turn->request.messages_len; i++)
        messages[len++] = turn->request.messages[i];
    turn->commit.messages = messages;
    turn->commit.messages_len = len;
    return PAL_OK;
}

/* ---- Other requests and turns ---- */

static bool is_there(pal_id id, const pal_inbox_item *items, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (pal_id_equal(items[i].id, id))
            return true;
    return false;
}

/* Returns true if another process has run the request while this one waited: then its item is no
 * longer in the inbox. */
static bool is_taken(const pal_turn *turn, const pal_inbox_item *items, size_t len)
{
    if (turn->queue.origin == PAL_ORIGIN_STORE)
        return true; /* it was admitted before */
    return turn->queue.origin != PAL_ORIGIN_INBOX && turn->queue.inbox_len > 0 &&
            !is_there(turn->queue.inbox_ids[0], items, len);
}

/* A turn yields only once: a request that could not be run must not block the later ones. */
static bool gives_way(
        const pal_turn *turn, const pal_inbox_item *items, size_t len, pal_arena *scratch)
{
    return turn->queue.place != PAL_PLACE_YIELDED && turn->queue.origin != PAL_ORIGIN_INBOX &&
            !turn->runtime->options.leave_inbox && turn->request.lane != PAL_TURN_LANE_INTERRUPT &&
            turn->request.messages_len > 0 && pal_recovery_results(&turn->request) == 0 &&
            pal_backlog_is_there(turn, items, len, scratch);
}

/* A program that ends soon (`leave_inbox`) does not continue other turns: a dead turn is over. The
 * same holds for a turn that was reported as failed if the failure could not be stored. */
static bool ends_dead(pal_turn *turn)
{
    const pal_resume *found = turn->found.resume;

    if ((!turn->runtime->options.leave_inbox &&
                !pal_id_equal(found->head.turn, turn->found.failed_turn)) ||
            found->kind != PAL_RESUME_DEAD)
        return false;
    turn->found.leftover = found->item;
    turn->found.leftover_turn = found->head.turn;
    turn->found.leftover_channel = found->request.channel;
    turn->found.leftover_seq = found->request.all_or_nothing ? found->first_seq : 0;
    if (found->request.all_or_nothing)
        turn->found.resume = NULL;
    return true;
}

/* Handles an unfinished turn that no process runs: this turn continues it, or waits until it is
 * over. */
static pal_status meet_resume(pal_turn *turn, pal_error *err)
{
    const pal_resume *found = turn->found.resume;
    bool is_wanted = found && pal_resume_is_wanted(turn);
    pal_ending end;

    if (turn->answers.len > 0 && !is_wanted)
        return pal_error_set(err, PAL_CONFLICT, "the turn is not waiting for answers");
    if (!found || (!is_wanted && ends_dead(turn)))
        return PAL_OK;
    if (!is_wanted) {
        if (turn->queue.verdict == PAL_TURN_MAY_BEGIN)
            turn->queue.verdict = PAL_TURN_MUST_WAIT;
        return PAL_OK;
    }
    turn->queue.verdict = PAL_TURN_MAY_BEGIN;
    if (turn->answers.len > 0)
        return pal_question_check(found->questions, found->questions_len, &turn->answers, err);
    end = (pal_ending){found->answer, found->results, found->results_len};
    return pal_recovery_results(&turn->request) > 0 && turn->queue.origin != PAL_ORIGIN_INBOX &&
                    !pal_id_equal(found->head.turn, turn->owed.turn)
            ? check_results(turn, &end, err)
            : PAL_OK;
}

/* Sets *out_seq to 0 if there is no such message: the turn died before it recorded one, or it was a
 * repeat. */
static pal_status find_leftover_seq(
        pal_turn *turn, const pal_inbox_item *item, uint64_t *out_seq, pal_error *err)
{
    pal_inbox_head head;
    pal_id session;
    pal_message message;
    pal_status status;

    *out_seq = 0;
    if (!pal_inbox_read_head(item, turn->arena, &head) || pal_id_is_none(head.first))
        return PAL_OK;
    status = pal_store_message(turn->runtime->store, turn->request.tenant, head.first, turn->arena,
            &message, &session, err);
    if (status == PAL_OK && pal_id_equal(session, turn->request.session))
        *out_seq = message.seq;
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

/* Looks for the item of an all-or-nothing turn of version 0.1.0, which died. That version kept an
 * item with the delivery "whole" in the inbox: {"first":"<the message's id>"}. The first commit of
 * this turn rewinds that turn, and drops the item. */
static pal_status find_leftover(
        pal_turn *turn, const pal_inbox_item *items, size_t len, pal_error *err)
{
    turn->found.leftover = turn->found.leftover_answer = (pal_id){{0}};
    turn->found.leftover_channel = NULL;
    turn->found.leftover_seq = 0;
    for (size_t i = 0; i < len; i++) {
        if (!pal_str_is(items[i].delivery, "whole"))
            continue;
        turn->found.leftover = items[i].id;
        return find_leftover_seq(turn, &items[i], &turn->found.leftover_seq, err);
    }
    return PAL_OK;
}

static pal_status look_into_inbox(
        pal_turn *turn, const pal_snapshot *snapshot, pal_arena *scratch, pal_error *err)
{
    bool takes = turn->queue.origin == PAL_ORIGIN_INBOX && !turn->queue.inbox_ids;
    pal_inbox_item *items;
    size_t len;
    pal_status status =
            pal_snapshot_inbox_list(snapshot, takes ? turn->arena : scratch, &items, &len, err);

    if (status != PAL_OK)
        return status;
    status = find_leftover(turn, items, len, err);
    if (status != PAL_OK)
        return status;
    status = pal_resume_look(turn, snapshot, items, len, err);
    if (status == PAL_OK && takes && !turn->found.resume)
        status = pal_backlog_take(turn, items, len, err);
    if (status != PAL_OK)
        return status;
    turn->queue.verdict = is_taken(turn, items, len) ? PAL_TURN_IS_TAKEN
            : gives_way(turn, items, len, scratch)   ? PAL_TURN_MUST_WAIT
                                                     : PAL_TURN_MAY_BEGIN;
    return meet_resume(turn, err);
}

/* If the plan follows at once, reads what it needs in the same round trip, and keeps it. */
static pal_status read_session(
        pal_turn *turn, pal_arena *scratch, pal_snapshot *out_snapshot, pal_error *err)
{
    pal_snapshot *kept = turn->found.session;
    pal_ahead_wants wants = {.rows_max = MESSAGES_FIRST + 1, .marks = true};
    pal_status status;

    if (kept)
        wants = pal_window_ahead;
    wants.inbox = true;
    status = pal_snapshot_begin_ahead(turn->runtime->store, turn->request.tenant,
            turn->request.session, &wants, kept ? turn->arena : scratch, out_snapshot, err);
    if (status == PAL_OK && kept)
        *kept = *out_snapshot;
    return status;
}

static pal_status recover(pal_turn *turn, pal_arena *scratch, pal_error *err)
{
    pal_ending end = {0};
    pal_snapshot snapshot;
    pal_status status = read_session(turn, scratch, &snapshot, err);

    if (status != PAL_OK)
        return status;
    status = look_into_inbox(turn, &snapshot, scratch, err);
    if (status != PAL_OK || turn->queue.verdict != PAL_TURN_MAY_BEGIN)
        return status;
    if (turn->found.resume && pal_id_is_none(turn->found.leftover))
        return PAL_OK;
    if (turn->queue.origin == PAL_ORIGIN_INBOX && turn->request.messages_len == 0) {
        turn->commit.messages_len = 0;
        return PAL_OK; /* no request waits, but an obsolete item may be left */
    }
    status = pal_recovery_ending(&snapshot, turn->found.leftover_seq, scratch, &end, err);
    if (status != PAL_OK)
        return status;
    status = pal_recovery_prepare(turn, err);
    if (status != PAL_OK)
        return status;
    status = check_results(turn, &end, err);
    if (status == PAL_OK)
        status = pal_approval_find(turn, &end, &snapshot.row.session, err);
    if (status != PAL_OK)
        return status;
    return settle(turn, &end, err);
}

void pal_recovery_inspect(pal_work_item *item)
{
    pal_turn *turn = PAL_TURN_OF(item, work);
    pal_arena *scratch = pal_arena_new(0);

    turn->work_error = (pal_error){0};
    turn->work_status = scratch ? recover(turn, scratch, &turn->work_error)
                                : pal_no_memory(&turn->work_error);
    pal_arena_free(scratch);
}
