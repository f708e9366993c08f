/* repair_round.c - takes messages one by one, gives calls their ids, and pairs results with
 * calls.
 *
 * A result belongs to the newest call with its id. So ids can be reused in later rounds, as many
 * models do. If a message has an id twice, the first result belongs to the first call. */
#include "context/repair/repair.h"

/* The data pointer of a map key must not be NULL. */
static pal_str key_of(pal_str id)
{
    return id.len ? id : pal_str_of("");
}

/* ---- Calls ---- */

static pal_part *own_parts(pal_repair_work *work, pal_repair_piece *piece)
{
    if (piece->own)
        return piece->own;
    piece->own = pal_arena_array(work->arena, piece->parts_len, sizeof(*piece->own));
    if (!piece->own)
        return NULL;
    memcpy(piece->own, piece->parts, piece->parts_len * sizeof(*piece->own));
    piece->parts = piece->own;
    return piece->own;
}

static void chain_call(pal_repair_work *work, pal_repair_call *first, pal_repair_call *call)
{
    if (!first || first->unit != call->unit) {
        call->chain_last = call->chain_open = call;
        pal_repair_map(work, &work->calls, call->stored_id, call);
        return;
    }
    first->chain_last->chain_next = call;
    first->chain_last = call;
}

static void link_call(pal_repair_unit *unit, pal_repair_call *call)
{
    if (unit->calls_last)
        unit->calls_last->next = call;
    else
        unit->calls = call;
    unit->calls_last = call;
    unit->calls_len++;
}

/* Broken streams can contain the same call twice. No provider accepts that, and the tool did not
 * run twice. */
static bool is_repeated(
        const pal_repair_call *first, const pal_repair_unit *unit, const pal_part *part)
{
    return first && first->unit == unit && first->stored_id.len &&
            pal_str_equal(first->stored_name, part->name) &&
            pal_str_equal(first->stored_arguments, part->arguments);
}

static void send_call(pal_repair_work *work, pal_repair_piece *piece, size_t at,
        pal_repair_call *call, unsigned *changes)
{
    pal_part part = piece->parts[at];
    uint64_t seq = piece->source->seq;
    bool is_changed = pal_repair_call_form(work, &part, changes);
    call->sent_name = part.name;
    call->sent_id = pal_repair_call_id(work, call, seq);
    pal_repair_map(work, &work->ids, key_of(call->sent_id), call->unit);
    if (!pal_str_equal(call->sent_id, part.call_id)) {
        pal_repair_line(work, seq, "call id '%s' sent as '%.*s'",
                pal_repair_label(work, part.call_id), PAL_STR_ARG(call->sent_id));
        part.call_id = call->sent_id;
        is_changed = true;
    }
    if (is_changed && own_parts(work, piece))
        piece->own[at] = part;
}

static void take_call(pal_repair_work *work, pal_repair_unit *unit, pal_repair_piece *piece,
        size_t at, unsigned *changes)
{
    const pal_part *part = &piece->parts[at];
    pal_str id = key_of(part->call_id);
    pal_repair_call *first = pal_map_find(&work->calls, id);
    if (is_repeated(first, unit, part)) {
        pal_repair_line(work, piece->source->seq,
                "call '%s' appears twice: the second one left out",
                pal_repair_label(work, id));
        if (own_parts(work, piece))
            piece->own[at].kind = PAL_PART_NONE;
        return;
    }
    pal_repair_call *call = pal_arena_alloc(work->scratch, sizeof(*call));
    if (!call)
        return;
    call->unit = unit;
    call->index = unit->calls_len;
    call->stored_id = id;
    call->stored_name = part->name;
    call->stored_arguments = part->arguments;
    chain_call(work, first, call);
    link_call(unit, call);
    send_call(work, piece, at, call, changes);
}

static void take_calls(
        pal_repair_work *work, pal_repair_unit *unit, pal_repair_piece *piece, unsigned *changes)
{
    size_t len = 0;
    for (size_t i = 0; i < piece->parts_len; i++) {
        if (piece->parts[i].kind == PAL_PART_TOOL_CALL)
            take_call(work, unit, piece, i, changes);
    }
    for (size_t i = 0; piece->own && i < piece->parts_len; i++) {
        if (piece->own[i].kind != PAL_PART_NONE)
            piece->own[len++] = piece->own[i];
    }
    if (!piece->own || len == piece->parts_len)
        return;
    /* Reasoning before a call that is not sent is not sent either. */
    while (len && piece->own[len - 1].kind == PAL_PART_REASONING)
        len--;
    piece->parts_len = len;
}

/* ---- Units ---- */

static bool has_calls(const pal_repair_piece *piece)
{
    for (size_t i = 0; i < piece->parts_len; i++) {
        if (piece->parts[i].kind == PAL_PART_TOOL_CALL)
            return true;
    }
    return false;
}

/* Calls of one step that were stored as separate messages ran in parallel. Otherwise a result
 * would be between them. */
static bool is_merged(const pal_repair_work *work, const pal_repair_piece *piece)
{
    const pal_repair_unit *last = work->units_last;
    if (!last || last->role != PAL_ROLE_ASSISTANT || piece->role != PAL_ROLE_ASSISTANT)
        return false;
    if (!last->calls)
        return work->rules->merge_assistants;
    return last->results_len == 0 && has_calls(piece);
}

static pal_repair_unit *add_unit(pal_repair_work *work, pal_role role)
{
    pal_repair_unit *unit = pal_arena_alloc(work->scratch, sizeof(*unit));
    if (!unit)
        return NULL;
    unit->role = role;
    if (work->units_last)
        work->units_last->next = unit;
    else
        work->units = unit;
    work->units_last = unit;
    work->has_turn |= role != PAL_ROLE_SYSTEM;
    return unit;
}

static void link_piece(pal_repair_unit *unit, pal_repair_piece *piece)
{
    if (unit->last)
        unit->last->next = piece;
    else
        unit->first = piece;
    unit->last = piece;
}

static pal_role sent_role(const pal_repair_work *work, pal_role role)
{
    bool is_late = role == PAL_ROLE_SYSTEM && work->rules->system_leads && work->has_turn;
    return is_late || role == PAL_ROLE_TOOL ? PAL_ROLE_USER : role;
}

static void tell_merged(
        pal_repair_work *work, const pal_repair_unit *unit, const pal_repair_piece *piece)
{
    if (unit->first == unit->last)
        pal_repair_line(work, unit->first->source->seq,
                "sent together with the assistant message after it");
    pal_repair_line(work, piece->source->seq, "sent together with the assistant message before it");
}

/* Takes the content of a message apart from its results. Returns false if there is none. */
static bool take_content(pal_repair_work *work, const pal_message *message, unsigned *changes)
{
    pal_repair_piece *piece = pal_arena_alloc(work->scratch, sizeof(*piece));
    if (!piece)
        return false;
    piece->source = message;
    piece->role = sent_role(work, message->role);
    pal_repair_clean(work, piece, changes);
    if (piece->parts_len == 0)
        return false;
    if (message->role == PAL_ROLE_SYSTEM && piece->role != PAL_ROLE_SYSTEM)
        *changes |= PAL_CHANGE_SYSTEM;
    bool merged = is_merged(work, piece);
    pal_repair_unit *unit = merged ? work->units_last : add_unit(work, piece->role);
    if (!unit)
        return false;
    take_calls(work, unit, piece, changes);
    if (piece->parts_len == 0)
        return false;
    if (merged)
        tell_merged(work, unit, piece);
    link_piece(unit, piece);
    return true;
}

/* ---- Results ---- */

static void miss(
        pal_repair_work *work, const pal_message *message, const pal_part *result, bool is_second)
{
    const char *label = pal_repair_label(work, result->call_id);
    if (is_second)
        pal_repair_line(work, message->seq, "second result of call '%s' left out", label);
    else
        pal_repair_line(work, message->seq, "orphan result: no call '%s' before it", label);
}

static const pal_part *with_id(
        pal_repair_work *work, const pal_part *result, pal_str id, unsigned *changes)
{
    if (pal_str_equal(result->call_id, id))
        return result;
    pal_part *copy = pal_arena_alloc(work->arena, sizeof(*copy));
    if (!copy)
        return result;
    *changes |= PAL_CHANGE_RESULT_ID;
    *copy = *result;
    copy->call_id = id;
    return copy;
}

/* Returns the call that the result belongs to; NULL if there is none. */
static const pal_repair_call *take_result(pal_repair_work *work, const pal_message *message,
        const pal_part *result, unsigned *changes)
{
    pal_repair_call *first = pal_map_find(&work->calls, key_of(result->call_id));
    pal_repair_call *call = first ? first->chain_open : NULL;
    if (!call) {
        miss(work, message, result, first != NULL);
        return NULL;
    }
    pal_repair_unit *unit = call->unit;
    first->chain_open = call->chain_next;
    if (unit != work->units_last || (unit->results_len && call->index < unit->result_index))
        *changes |= PAL_CHANGE_MOVED;
    unit->result_index = call->index;
    unit->results_len++;
    call->source = message;
    result = pal_repair_clean_result(work, result, unit, changes);
    call->result = with_id(work, result, call->sent_id, changes);
    return call;
}

static bool take_results(pal_repair_work *work, const pal_message *message, unsigned *changes)
{
    const pal_repair_call *last = NULL;
    for (size_t i = 0; i < message->parts_len; i++) {
        if (message->parts[i].kind != PAL_PART_TOOL_RESULT)
            continue;
        const pal_repair_call *call = take_result(work, message, &message->parts[i], changes);
        if (call && last && (call->unit != last->unit || call->index > last->index + 1))
            *changes |= PAL_CHANGE_APART; /* the result of another call will be between them */
        last = call ? call : last;
    }
    return last != NULL;
}

/* ---- Messages ---- */

static bool has_results(const pal_message *message)
{
    for (size_t i = 0; message->parts && i < message->parts_len; i++) {
        if (message->parts[i].kind == PAL_PART_TOOL_RESULT)
            return true;
    }
    return false;
}

static bool take_parts(pal_repair_work *work, const pal_message *message, unsigned *changes)
{
    bool results = has_results(message), result_sent = false, content_sent = false;
    /* The results in an assistant message belong to the calls in it; those in other messages
     * belong to earlier calls. */
    if (results && message->role != PAL_ROLE_ASSISTANT)
        result_sent = take_results(work, message, changes);
    content_sent = take_content(work, message, changes);
    if (results && message->role == PAL_ROLE_ASSISTANT)
        result_sent = take_results(work, message, changes);
    if (result_sent && (content_sent || message->role != PAL_ROLE_TOOL))
        *changes |= PAL_CHANGE_SPLIT;
    if (content_sent && !results && message->role == PAL_ROLE_TOOL)
        *changes |= PAL_CHANGE_TOOL_ROLE;
    return result_sent || content_sent;
}

void pal_repair_take(pal_repair_work *work, const pal_message *message)
{
    size_t lines_before = work->lines_len;
    unsigned changes = 0;
    bool has_role = message->role > PAL_ROLE_NONE && message->role <= PAL_ROLE_TOOL;
    bool is_sent = has_role && take_parts(work, message, &changes);
    pal_repair_line_changes(work, message->seq, changes);
    if (is_sent)
        return;
    if (!has_role)
        pal_repair_line(work, message->seq, "message without a role left out");
    else if (work->lines_len == lines_before)
        pal_repair_line(work, message->seq, "message without content left out");
    for (size_t i = lines_before; i < work->lines_len; i++)
        work->lines[i].dropped = true;
}
