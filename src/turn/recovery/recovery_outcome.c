/* recovery_outcome.c - reads the state of a turn from the store: whether it waits or runs, or how
 * it ended.
 *
 * Turns of one session never overlap. So the messages of a turn lie between its first message and
 * the first message of another turn; messages that were appended by other means may lie between
 * them.
 *
 * Invariant: the inbox is read before the messages, because the commit that removes a turn from the
 * inbox also records the turn's end. Runs on any thread except the loop, and writes nothing. */
#include "turn/recovery/recovery_outcome.h"

#include <stdio.h>

#include "base/json/json.h"
#include "base/memory.h"
#include "dialect/native/native.h"
#include "store/store_snapshot.h"
#include "store/store_tenant.h"
#include "turn/lane/lane_inbox.h"
#include "turn/recovery/recovery_owed.h"
#include "turn/recovery/recovery_resume.h"
#include "turn/turn.h"

enum { PAGE = 256 };

/* ---- The inbox ---- */

/* Sets *out_owed to the item of an admitted turn. */
static pal_status look_into_inbox(const pal_snapshot *snapshot, pal_arena *arena,
        pal_outcome *outcome, const pal_inbox_item **out_owed, pal_error *err)
{
    pal_inbox_item *items;
    size_t len;
    pal_status status = pal_snapshot_inbox_list(snapshot, arena, &items, &len, err);

    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        pal_inbox_head head;

        if (!pal_inbox_read_head(&items[i], arena, &head) ||
                !pal_id_equal(head.turn, outcome->turn))
            continue;
        outcome->item = items[i].id;
        if (pal_str_is(items[i].delivery, PAL_DELIVERY_OWED)) {
            outcome->state = PAL_TURN_RUNNING;
            *out_owed = &items[i];
        } else {
            outcome->state = PAL_TURN_QUEUED;
        }
    }
    return status;
}

static void look_at_lease(pal_store *store, pal_str tenant, pal_arena *arena, pal_outcome *outcome)
{
    outcome->is_held = pal_holder_read(store, tenant, outcome->session, arena, &outcome->holder,
                               NULL) == PAL_OK &&
            outcome->holder.fence > 0 && !outcome->holder.is_dead;
}

/* ---- The messages ---- */

typedef struct outcome_reader {
    pal_outcome *outcome;
    pal_arena *arena;
    size_t cap;
    pal_message *last; /* last message of the turn; copied */
    size_t calls;      /* calls of the newest answer */
    bool is_over;      /* a message of another turn was seen */
    bool is_note;      /* the first message belongs to no turn: it was recorded as a note */
} outcome_reader;

static size_t count_calls(const pal_message *message)
{
    size_t count = 0;

    for (size_t i = 0; i < message->parts_len; i++)
        count += message->parts[i].kind == PAL_PART_TOOL_CALL;
    return count;
}

static bool add_said(outcome_reader *g, const pal_message *message)
{
    pal_outcome *outcome = g->outcome;

    if (!pal_arena_reserve(
                g->arena, &outcome->said, &g->cap, outcome->said_len + 1, sizeof(*outcome->said)))
        return false;
    outcome->said[outcome->said_len++] = *message;
    g->calls = count_calls(message);
    outcome->results_len = 0;
    outcome->results = pal_arena_array(g->arena, g->calls + 1, sizeof(*outcome->results));
    return true;
}

static void gather(outcome_reader *g, pal_message *message)
{
    if (pal_id_is_none(message->turn_id))
        return;
    if (!pal_id_equal(message->turn_id, g->outcome->turn)) {
        g->is_over = true;
        return;
    }
    g->last = message;
    if (message->role == PAL_ROLE_ASSISTANT)
        (void)add_said(g, message); /* if there is no memory, the arena has failed */
    for (size_t i = 0; message->role == PAL_ROLE_TOOL && i < message->parts_len; i++)
        if (message->parts[i].kind == PAL_PART_TOOL_RESULT && g->outcome->results &&
                g->outcome->results_len < g->calls)
            g->outcome->results[g->outcome->results_len++] = message->parts[i].call_id;
}

/* If the answer is an error message, it says how the turn ended. */
static pal_turn_state read_end(const pal_message *answer, pal_arena *arena, pal_outcome *outcome)
{
    pal_json extra, why;
    bool is_canceled;

    if (!(answer->flags & PAL_MESSAGE_FLAG_ERROR))
        return PAL_TURN_DONE;
    if (pal_json_parse(arena, answer->extra, NULL, &extra, NULL) != PAL_OK)
        return PAL_TURN_FAILED;
    why = pal_json_find(extra, "interrupted");
    is_canceled = pal_json_type_of(why) == PAL_JSON_STRING;
    if (!is_canceled)
        why = pal_json_find(extra, "error");
    snprintf(outcome->reason, sizeof(outcome->reason), "%.*s",
            PAL_STR_ARG(pal_json_string(why, arena)));
    return is_canceled ? PAL_TURN_CANCELED : PAL_TURN_FAILED;
}

static void decide(outcome_reader *g)
{
    pal_outcome *outcome = g->outcome;
    const pal_message *answer = outcome->said_len ? &outcome->said[outcome->said_len - 1] : NULL;

    outcome->has_open_calls = answer && g->calls > outcome->results_len;
    if (outcome->state != PAL_TURN_NONE)
        return; /* the inbox is more recent */
    /* An all-or-nothing turn that failed was rewound before it had its answer. */
    if (answer && !(outcome->is_hidden && count_calls(answer) > 0)) {
        outcome->state = read_end(answer, g->arena, outcome);
        return;
    }
    if (g->is_note && !g->last) {
        outcome->state = PAL_TURN_DONE;
        return;
    }
    outcome->state = PAL_TURN_FAILED;
    snprintf(outcome->reason, sizeof(outcome->reason), "%s",
            outcome->is_hidden ? "the turn failed, and its messages were hidden"
                               : "the turn ended without an answer");
}

static pal_status look_whether_hidden(
        const pal_snapshot *snapshot, const outcome_reader *g, pal_error *err)
{
    pal_message_query load = {0};
    pal_message_page list = {0};
    pal_status status = PAL_OK;

    if (!g->last)
        return PAL_OK;
    load.after_seq = g->last->seq - 1;
    load.before_seq = g->last->seq + 1;
    status = pal_snapshot_load(snapshot, &load, g->arena, &list, err);
    g->outcome->is_hidden = list.len == 0;
    return status;
}

static pal_status look_at_messages(const pal_snapshot *snapshot, uint64_t first_seq,
        pal_arena *arena, pal_outcome *outcome, pal_error *err)
{
    outcome_reader g = {.outcome = outcome, .arena = arena};
    pal_message_query load = {.after_seq = first_seq - 1, .limit = PAGE, .hidden = true};
    pal_message_page list = {.has_more = true};
    pal_status status = PAL_OK;

    while (status == PAL_OK && list.has_more && !g.is_over) {
        status = pal_snapshot_load(snapshot, &load, arena, &list, err);
        for (size_t i = 0; status == PAL_OK && i < list.len && !g.is_over; i++) {
            g.is_note = g.is_note || (list.items[i].seq == first_seq &&
                                             pal_id_is_none(list.items[i].turn_id));
            gather(&g, &list.items[i]);
            outcome->is_last = g.last == &list.items[i];
        }
        if (list.len == 0)
            break;
        load.after_seq = list.items[list.len - 1].seq;
    }
    if (status != PAL_OK)
        return status;
    status = look_whether_hidden(snapshot, &g, err);
    if (status != PAL_OK)
        return status;
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_no_memory(err);
    decide(&g);
    return PAL_OK;
}

/* ---- What the turn waits for ---- */

static bool has_result(const pal_outcome *outcome, pal_str call_id)
{
    for (size_t i = 0; i < outcome->results_len; i++)
        if (pal_str_equal(outcome->results[i], call_id))
            return true;
    return false;
}

/* Returns true if the process that holds the session may still be running its own tools. */
static bool is_at_tools(const pal_outcome *outcome, const pal_turn_request *request)
{
    const pal_message *answer = &outcome->said[outcome->said_len - 1];

    for (size_t i = 0; i < answer->parts_len; i++)
        if (answer->parts[i].kind == PAL_PART_TOOL_CALL &&
                !has_result(outcome, answer->parts[i].call_id) &&
                !pal_resume_is_callers(request, answer->parts[i].name))
            return true;
    return false;
}

/* The open calls show what the turn waits for, unless a process is already working on results or
 * answers. */
static pal_status look_whom_it_waits_for(const pal_snapshot *snapshot, const pal_inbox_item *owed,
        uint64_t first_seq, pal_arena *arena, pal_outcome *outcome, pal_error *err)
{
    pal_resume found = {.first_seq = first_seq};
    pal_status status = pal_inbox_read(owed, arena, &found.request, &found.head, err);

    if (status != PAL_OK)
        return status == PAL_NO_MEMORY ? status : PAL_OK;
    if (outcome->is_held && found.head.on_seq == outcome->said[outcome->said_len - 1].seq)
        return PAL_OK;
    status = pal_resume_judge(snapshot, arena, &found, err);
    if (status != PAL_OK)
        return status;
    outcome->tools = found.request.tools;
    outcome->tools_len = found.request.tools_len;
    outcome->is_paused = found.kind == PAL_RESUME_PAUSED &&
            !(outcome->is_held && is_at_tools(outcome, &found.request));
    outcome->questions = found.questions;
    outcome->questions_len = found.questions_len;
    return PAL_OK;
}

/* ---- Inbox and messages ---- */

static pal_status no_turn(pal_error *err)
{
    return pal_error_set(err, PAL_NOT_FOUND, PAL_TURN_UNKNOWN_TEXT);
}

/* Finds the turn's first message. Sets *out_seq to 0 if none is recorded. */
static pal_status find_first(pal_store *store, pal_str tenant, pal_id first, pal_arena *arena,
        pal_outcome *outcome, uint64_t *out_seq, pal_error *err)
{
    pal_message message;
    pal_id session;
    pal_status status = pal_store_message(store, tenant, first, arena, &message, &session, err);

    *out_seq = 0;
    if (status == PAL_NOT_FOUND)
        return PAL_OK;
    if (status != PAL_OK || (!pal_id_is_none(outcome->session) &&
                                    !pal_id_equal(session, outcome->session)))
        return status;
    outcome->session = session;
    if (!pal_id_is_none(message.turn_id))
        outcome->turn = message.turn_id;
    *out_seq = message.seq;
    return PAL_OK;
}

pal_status pal_outcome_read(pal_store *store, pal_str tenant, pal_id session, pal_id turn,
        pal_arena *arena, pal_outcome *out_outcome, pal_error *err)
{
    return pal_outcome_read_from(
            store, tenant, session, turn, pal_owed_first(turn), arena, out_outcome, err);
}

pal_status pal_outcome_read_from(pal_store *store, pal_str tenant, pal_id session, pal_id turn,
        pal_id first, pal_arena *arena, pal_outcome *out_outcome, pal_error *err)
{
    pal_outcome outcome = {.turn = turn, .session = session};
    uint64_t first_seq = 0, acting_seq = 0;
    const pal_inbox_item *owed = NULL;
    pal_snapshot snapshot;
    pal_status status = find_first(store, tenant, first, arena, &outcome, &first_seq, err);

    if (status != PAL_OK)
        return status;
    status = pal_snapshot_begin(store, tenant, session, arena, &snapshot, err);
    if (status != PAL_OK)
        return status;
    status = look_into_inbox(&snapshot, arena, &outcome, &owed, err);
    if (status != PAL_OK)
        return status;
    /* Read the first message again after the inbox: an item that was in the inbox is recorded by
     * now, or is still there. A reading shows the state at its beginning. */
    status = find_first(store, tenant, first, arena, &outcome, &first_seq, err);
    if (status == PAL_OK && !pal_id_equal(outcome.turn, turn))
        status = find_first(store, tenant, pal_owed_first(outcome.turn), arena, &outcome,
                &acting_seq, err);
    if (status != PAL_OK)
        return status;
    if (acting_seq)
        first_seq = acting_seq;
    if (first_seq) {
        status = pal_snapshot_begin(store, tenant, session, arena, &snapshot, err);
        if (status != PAL_OK)
            return status;
        status = look_at_messages(&snapshot, first_seq, arena, &outcome, err);
        if (status != PAL_OK)
            return status;
    }
    if (outcome.state == PAL_TURN_NONE)
        return no_turn(err);
    outcome.is_gone = snapshot.row.session.state != PAL_SESSION_ACTIVE;
    look_at_lease(store, tenant, arena, &outcome);
    if (owed && outcome.has_open_calls && !outcome.is_hidden)
        status = look_whom_it_waits_for(&snapshot, owed, first_seq, arena, &outcome, err);
    *out_outcome = outcome;
    return status;
}

/* A turn that has recorded nothing is known only by its item in an inbox. */
static pal_status find_in_inboxes(
        pal_store *store, pal_str tenant, pal_id turn, pal_arena *arena, pal_id *out_session)
{
    pal_inbox_owner after = {.session = {{0}}};
    pal_inbox_owner *owners;
    size_t len = 0;

    for (size_t looked = 0; looked < PAL_TURN_LOOK_SESSIONS_MAX; looked += len) {
        pal_status status = pal_store_inbox_owners(
                store, &after, PAL_INBOX_OWNERS_MAX, arena, &owners, &len, NULL);

        if (status != PAL_OK)
            return PAL_NOT_FOUND;
        for (size_t i = 0; i < len; i++) {
            pal_outcome outcome = {.turn = turn};
            const pal_inbox_item *owed;
            pal_snapshot snapshot;

            if (!pal_str_equal(owners[i].tenant, pal_tenant_or_default(tenant)) ||
                    pal_snapshot_begin(store, tenant, owners[i].session, arena, &snapshot, NULL) !=
                            PAL_OK ||
                    look_into_inbox(&snapshot, arena, &outcome, &owed, NULL) != PAL_OK ||
                    outcome.state == PAL_TURN_NONE)
                continue;
            *out_session = owners[i].session;
            return PAL_OK;
        }
        if (len < PAL_INBOX_OWNERS_MAX)
            break;
        after = owners[len - 1];
    }
    return PAL_NOT_FOUND;
}

pal_status pal_outcome_find(pal_store *store, pal_str tenant, pal_id turn, pal_arena *arena,
        pal_outcome *out_outcome, pal_error *err)
{
    pal_outcome found = {.turn = turn};
    uint64_t seq;
    pal_status status =
            find_first(store, tenant, pal_owed_first(turn), arena, &found, &seq, err);

    if (status == PAL_OK && seq == 0)
        status = find_in_inboxes(store, tenant, turn, arena, &found.session);
    if (status == PAL_NOT_FOUND)
        return no_turn(err);
    if (status == PAL_OK)
        status = pal_outcome_read(store, tenant, found.session, turn, arena, out_outcome, err);
    return status;
}

pal_status pal_outcome_of_session(pal_store *store, pal_str tenant, pal_id session,
        pal_arena *arena, pal_outcome *out_outcome, pal_error *err)
{
    pal_inbox_item *items;
    const pal_inbox_item *item;
    pal_inbox_head head;
    size_t len;
    pal_status status = pal_store_inbox_list(store, tenant, session, arena, &items, &len, err);

    if (status != PAL_OK)
        return status;
    item = pal_owed_find(items, len);
    if (!item && len > 0)
        item = &items[0];
    if (!item || !pal_inbox_read_head(item, arena, &head) || pal_id_is_none(head.turn))
        return pal_error_set(err, PAL_NOT_FOUND, "no turn is running in the session");
    return pal_outcome_read(store, tenant, session, head.turn, arena, out_outcome, err);
}

void pal_outcome_put_open(const pal_outcome *outcome, pal_buf *buf)
{
    const pal_message *answer = outcome->said_len ? &outcome->said[outcome->said_len - 1] : NULL;
    const pal_turn_request callers = {.tools = outcome->tools, .tools_len = outcome->tools_len};
    pal_json_writer writer = pal_json_writer_make(buf);

    pal_json_begin_array(&writer);
    for (size_t i = 0; answer && i < answer->parts_len; i++) {
        const pal_part *part = &answer->parts[i];

        if (part->kind == PAL_PART_TOOL_CALL && !has_result(outcome, part->call_id) &&
                pal_resume_is_callers(&callers, part->name))
            pal_native_call_put(&writer, part->call_id, part->name, part->arguments);
    }
    pal_json_end_array(&writer);
}

void pal_outcome_tell(const pal_outcome *outcome, pal_id turn, pal_turn_info *out_info)
{
    const pal_message *answer =
            outcome->said_len ? &outcome->said[outcome->said_len - 1] : NULL;

    *out_info = (pal_turn_info){.turn = turn, .session = outcome->session, .state = outcome->state};
    snprintf(out_info->reason, sizeof(out_info->reason), "%s", outcome->reason);
    if (outcome->state == PAL_TURN_FAILED)
        out_info->status = PAL_PROVIDER;
    if (outcome->is_paused) {
        out_info->state = PAL_TURN_PAUSED;
    } else if (outcome->questions_len > 0) {
        out_info->state = PAL_TURN_ASKING;
        snprintf(out_info->reason, sizeof(out_info->reason), "%.*s",
                PAL_STR_ARG(outcome->questions[0].text));
    } else if (outcome->state == PAL_TURN_RUNNING && !outcome->is_held) {
        out_info->state = PAL_TURN_QUEUED; /* it is about to be continued */
    }
    if (answer) {
        out_info->message = answer->id;
        out_info->seq = answer->seq;
    }
    out_info->has_calls = outcome->state == PAL_TURN_DONE && outcome->has_open_calls;
}
