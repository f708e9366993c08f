/* repair_out.c - writes the units: every call with its result, which is created if there is
 * none, and roles in an order that the service accepts. */
#include "context/repair/repair.h"

#include "base/memory.h"
#include "context/context_text.h"

void pal_repair_put(pal_repair_work *work, const pal_message *message)
{
    if (pal_arena_reserve(work->scratch, &work->messages, &work->messages_cap,
                work->messages_len + 1, sizeof(*work->messages)))
        work->messages[work->messages_len++] = *message;
}

static pal_role last_role(const pal_repair_work *work)
{
    return work->messages_len ? work->messages[work->messages_len - 1].role : PAL_ROLE_NONE;
}

static void put_made(pal_repair_work *work, pal_role role, const char *text)
{
    pal_message message = pal_message_text(work->arena, role, pal_str_of(text));
    message.flags = PAL_MESSAGE_FLAG_SYNTHETIC;
    pal_repair_put(work, &message);
}

/* Puts a message, and before it any message that the provider requires there. */
static void put_message(pal_repair_work *work, const pal_message *message)
{
    const pal_repair_rules *rules = work->rules;
    pal_role last = last_role(work);
    bool is_first = last == PAL_ROLE_NONE || last == PAL_ROLE_SYSTEM;
    if (rules->user_first && is_first && message->role == PAL_ROLE_ASSISTANT) {
        put_made(work, PAL_ROLE_USER, PAL_TEXT_CONTINUES);
        pal_repair_line(work, 0,
                "user message created: the first message must not be the assistant's");
    }
    if (rules->bridge_tool_to_user && last == PAL_ROLE_TOOL && message->role == PAL_ROLE_USER) {
        put_made(work, PAL_ROLE_ASSISTANT, PAL_TEXT_DONE);
        pal_repair_line(work, 0, "assistant message created: the user must not follow a tool");
    }
    pal_repair_put(work, message);
}

/* ---- Units ---- */

static pal_part *join_pieces(pal_repair_work *work, const pal_repair_unit *unit, size_t *out_len)
{
    size_t len = 0;
    for (const pal_repair_piece *piece = unit->first; piece; piece = piece->next)
        len += piece->parts_len;
    pal_part *parts = pal_arena_array(work->arena, len, sizeof(*parts));
    *out_len = parts ? len : 0;
    len = 0;
    for (const pal_repair_piece *piece = unit->first; parts && piece; piece = piece->next) {
        memcpy(parts + len, piece->parts, piece->parts_len * sizeof(*parts));
        len += piece->parts_len;
    }
    return parts;
}

static void put_content(pal_repair_work *work, const pal_repair_unit *unit)
{
    const pal_repair_piece *piece = unit->first;
    pal_message message = *piece->source;
    message.role = unit->role;
    if (piece->next) {
        message.parts = join_pieces(work, unit, &message.parts_len);
        message.tokens = 0; /* the count is that of the stored message */
    } else if (piece->own) {
        message.parts = piece->own;
        message.parts_len = piece->parts_len;
        message.tokens = 0;
    }
    put_message(work, &message);
}

/* ---- Results ---- */

static void put_missing(pal_repair_work *work, const pal_repair_call *call)
{
    const pal_repair_call *newest = pal_map_find(&work->calls, call->stored_id);
    bool is_pending =
            pal_map_find(&work->pending, call->stored_id) && newest && newest->unit == call->unit;
    pal_part *part = pal_arena_alloc(work->arena, sizeof(*part));
    if (!part)
        return;
    part->kind = PAL_PART_TOOL_RESULT;
    part->call_id = call->sent_id;
    part->name = call->sent_name;
    part->text = pal_str_of(is_pending ? PAL_TEXT_RUNNING : PAL_TEXT_INTERRUPTED);
    part->is_error = !is_pending;
    put_message(work,
            &(pal_message){.role = PAL_ROLE_TOOL,
                    .parts = part,
                    .parts_len = 1,
                    .flags = PAL_MESSAGE_FLAG_SYNTHETIC});
    pal_repair_line(work, 0, "result created for call '%s': %s",
            pal_repair_label(work, call->stored_id), is_pending ? "it still runs" :
            "no result exists");
}

/* A tool message in the old form has no member for an id. */
static void set_form(pal_repair_work *work, pal_message *message)
{
    if (!message->extra.len || !work->rules->openai_forms)
        return;
    pal_json kept = pal_repair_kept(work, message->extra);
    if (pal_json_type_of(pal_json_find(kept, "role")) == PAL_JSON_NONE)
        return;
    message->extra = pal_str_make(NULL, 0);
    pal_repair_line_changes(work, message->seq, PAL_CHANGE_FORM);
}

/* Puts the results from `call` on that came in one message; they are sent in one message.
 * Returns the next call. */
static const pal_repair_call *put_results(pal_repair_work *work, const pal_repair_call *call)
{
    const pal_message *source = call->source;
    const pal_repair_call *next = call;
    pal_message message = *source;
    size_t len = 0;
    bool is_whole = true;
    for (; next && next->source == source; next = next->next, len++)
        is_whole &= len < source->parts_len && next->result == &source->parts[len];
    message.role = PAL_ROLE_TOOL;
    if (!is_whole || len != source->parts_len) {
        message.parts = pal_arena_array(work->arena, len, sizeof(*message.parts));
        message.parts_len = message.parts ? len : 0;
        message.tokens = 0;
        for (size_t i = 0; i < message.parts_len; i++, call = call->next)
            message.parts[i] = *call->result;
    }
    set_form(work, &message);
    put_message(work, &message);
    return next;
}

static void put_all_results(pal_repair_work *work, const pal_repair_unit *unit)
{
    for (const pal_repair_call *call = unit->calls; call;) {
        if (call->result) {
            call = put_results(work, call);
        } else {
            put_missing(work, call);
            call = call->next;
        }
    }
    if (unit->media_len == 0)
        return;
    put_message(work,
            &(pal_message){.role = PAL_ROLE_USER,
                    .parts = unit->media,
                    .parts_len = unit->media_len,
                    .flags = PAL_MESSAGE_FLAG_SYNTHETIC});
    pal_repair_line(work, 0, "user message created for the media of results");
}

void pal_repair_put_units(pal_repair_work *work)
{
    for (const pal_repair_unit *unit = work->units; unit; unit = unit->next) {
        put_content(work, unit);
        put_all_results(work, unit);
    }
    pal_role last = last_role(work);
    bool is_empty = last == PAL_ROLE_NONE;
    bool is_turnless = last == PAL_ROLE_SYSTEM && !work->has_turn && work->rules->user_first;
    if (!is_empty && !is_turnless && !(last == PAL_ROLE_ASSISTANT && work->rules->user_last))
        return;
    put_made(work, PAL_ROLE_USER, PAL_TEXT_CONTINUES);
    pal_repair_line(work, 0, "user message created: the model must have one to answer");
}
