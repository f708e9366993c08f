/* turn_sender.c - the senders of messages, if several people write in one session. A message has
 * these members, which are stored like any unknown member:
 *
 *   "sender": "@sienna:sunbeam.pt"   the sender; "": an unnamed person in a group
 *   "direct": true                   from a chat of two people: the name is not shown
 *   "merged": true                   set here: continues the previous message
 *
 * Stored messages stay separate, each with its own id and client id, so that repeats are
 * recognized. Only the model is shown one message. Pure functions. */
#include "turn/turn_sender.h"

#include "turn/turn_outbox.h"

#include "base/buf.h"
#include "base/json/json.h"
#include "base/json/json_put.h"
#include "palaver/limits.h"
#include "turn/runtime/runtime_copy.h"

/* Indenting can make a text of line breaks three times as long, and a name is added. The store
 * refuses a text that is too long. Such a text must not be shown without its speaker. */
#define SHOWN_BYTES_MAX (5u * PAL_MESSAGE_BYTES_MAX)

typedef struct origin {
    pal_str sender;
    bool has_sender; /* the member exists, even if it is empty */
    bool is_direct;
    bool is_merged;
} origin;

static origin origin_of(const pal_message *message, pal_arena *arena)
{
    origin from = {0};
    pal_json extra;

    if (message->role != PAL_ROLE_USER || message->extra.len == 0 ||
            pal_json_parse(arena, message->extra, NULL, &extra, NULL) != PAL_OK)
        return from;
    from.sender = pal_json_string(pal_json_find(extra, "sender"), arena);
    from.has_sender = pal_json_type_of(pal_json_find(extra, "sender")) == PAL_JSON_STRING;
    pal_json_bool(pal_json_find(extra, "direct"), &from.is_direct);
    pal_json_bool(pal_json_find(extra, "merged"), &from.is_merged);
    return from;
}

/* ---- Showing the sender ---- */

static pal_str joined(pal_arena *arena, const pal_str *pieces, size_t len)
{
    pal_buf buf;
    pal_str text = {0};

    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    for (size_t i = 0; i < len; i++)
        pal_buf_append_str(&buf, pieces[i]);
    if (buf.failure == PAL_OK)
        text = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return text;
}

/* Returns a text of the message as it is shown. The first text comes after the speaker's name, if
 * there is one. */
static pal_str shown_text(pal_str name, pal_str text, bool comes_first, pal_arena *arena)
{
    pal_buf buf;
    pal_str made = {0};

    pal_buf_init(&buf, SHOWN_BYTES_MAX);
    if (comes_first && name.len > 0) {
        pal_buf_append_text(&buf, "<");
        pal_speaker_put_name(&buf, name);
        pal_buf_append_text(&buf, text.len > 0 ? "> " : ">");
    }
    pal_speaker_put_text(&buf, text, comes_first);
    if (buf.failure == PAL_OK)
        made = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return made;
}

static pal_status show(pal_message *message, pal_str sender, pal_arena *arena)
{
    bool has_text = message->parts_len > 0 && message->parts[0].kind == PAL_PART_TEXT;
    size_t added = !has_text && sender.len > 0;
    pal_part *parts = pal_arena_array(arena, message->parts_len + added, sizeof(*parts));

    if (!parts)
        return PAL_NO_MEMORY;
    for (size_t i = 0; i < message->parts_len; i++)
        parts[i + added] = message->parts[i];
    if (added)
        parts[0].kind = PAL_PART_TEXT;
    for (size_t i = 0; i < message->parts_len + added; i++) {
        if (parts[i].kind != PAL_PART_TEXT)
            continue;
        parts[i].text = shown_text(sender, parts[i].text, i == 0, arena);
        if (!parts[i].text.data)
            return PAL_NO_MEMORY;
    }
    message->parts = parts;
    message->parts_len += added;
    message->tokens = 0; /* the text is longer now, and must be counted again */
    return PAL_OK;
}

pal_status pal_sender_show(pal_message *messages, size_t len, pal_arena *arena)
{
    pal_status status = PAL_OK;

    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        origin from = origin_of(&messages[i], arena);

        if (from.has_sender && !from.is_direct)
            status = show(&messages[i], from.sender, arena);
    }
    return status;
}

/* ---- Merging ---- */

/* Returns true if every message has a named sender, and all of them are direct or none is, as
 * `is_direct` says. */
static bool all_named(const pal_turn_request *request, bool is_direct, pal_arena *scratch)
{
    for (size_t i = 0; i < request->messages_len; i++) {
        origin from = origin_of(&request->messages[i], scratch);

        if (from.sender.len == 0 || from.is_direct != is_direct)
            return false;
    }
    return request->messages_len > 0;
}

/* A direct text has no speaker in front. Between lines with speakers it could be taken for part of
 * another person's message. */
static bool same_chat(
        const pal_turn_request *first, const pal_turn_request *second, pal_arena *scratch)
{
    return (all_named(first, true, scratch) && all_named(second, true, scratch)) ||
            (all_named(first, false, scratch) && all_named(second, false, scratch));
}

static bool same_budget(const pal_budget *a, const pal_budget *b)
{
    return a->session_tokens == b->session_tokens &&
            a->session_cost_micros == b->session_cost_micros &&
            a->tenant_tokens == b->tenant_tokens &&
            a->tenant_cost_micros == b->tenant_cost_micros && a->since == b->since &&
            strcmp(a->owner, b->owner) == 0;
}

/* What a guest says must not get into a turn that may use more tools. */
static bool same_permissions(const pal_turn_request *a, const pal_turn_request *b)
{
    if (a->permissions_len != b->permissions_len || a->cannot_ask != b->cannot_ask ||
            a->cannot_input != b->cannot_input)
        return false;
    for (size_t i = 0; i < a->permissions_len; i++)
        if (a->permissions[i].permission != b->permissions[i].permission ||
                !pal_str_equal(a->permissions[i].tool, b->permissions[i].tool))
            return false;
    return true;
}

bool pal_sender_can_merge(
        const pal_turn_request *first, const pal_turn_request *second, pal_arena *scratch)
{
    if (!pal_outbox_can_merge(first->channel, second->channel))
        return false;
    if (first->channel && first->channel->is_note)
        return true; /* nothing else of the requests is used */
    return first->tools_len == 0 && second->tools_len == 0 && !first->has_context &&
            !second->has_context && !first->on_done && !second->on_done &&
            first->lane == second->lane && first->all_or_nothing == second->all_or_nothing &&
            first->expected_seq == 0 && second->expected_seq == 0 &&
            first->no_retries == second->no_retries && first->has_system == second->has_system &&
            first->no_server_tools == second->no_server_tools &&
            first->output_max == second->output_max &&
            first->max_tool_iterations == second->max_tool_iterations &&
            pal_str_equal(first->endpoint, second->endpoint) &&
            pal_str_equal(first->model, second->model) &&
            pal_str_equal(first->system, second->system) &&
            pal_str_equal(first->agent, second->agent) &&
            pal_str_equal(first->tool_choice, second->tool_choice) &&
            pal_str_equal(first->parameters, second->parameters) &&
            same_budget(&first->budget, &second->budget) && same_permissions(first, second) &&
            same_chat(first, second, scratch);
}

static pal_str mark_merged(pal_str extra, pal_arena *arena)
{
    pal_buf buf;
    pal_json_writer writer;
    pal_str marked = extra;

    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_put_members(&writer, extra);
    pal_put_flag(&writer, "merged", true);
    pal_json_end_object(&writer);
    if (buf.failure == PAL_OK)
        marked = pal_arena_copy(arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return marked;
}

bool pal_sender_mark(pal_message *messages, size_t len, pal_arena *arena)
{
    for (size_t i = 0; i < len; i++) {
        origin from = origin_of(&messages[i], arena);

        if (from.sender.len == 0 || from.is_merged)
            return false;
        messages[i].extra = mark_merged(messages[i].extra, arena);
    }
    return len > 0;
}

pal_message *pal_sender_merge(const pal_turn_request *first, const pal_turn_request *second,
        pal_arena *arena, size_t *out_len)
{
    bool is_note = first->channel && first->channel->is_note;
    size_t len = first->messages_len;
    pal_message *all = pal_arena_array(arena, len + second->messages_len, sizeof(*all));
    const pal_message *more = pal_copy_messages(arena, second->messages, second->messages_len);

    if (!all || !more)
        return NULL;
    for (size_t i = 0; i < len; i++)
        all[i] = first->messages[i];
    for (size_t i = 0; i < second->messages_len; i++) {
        all[len + i] = more[i];
        if (!is_note && !origin_of(&more[i], arena).is_merged)
            all[len + i].extra = mark_merged(more[i].extra, arena);
    }
    *out_len = len + second->messages_len;
    return pal_arena_failure(arena) == PAL_OK ? all : NULL;
}

/* ---- Joining messages for the model ---- */

/* If a text meets a text, they become one part, on separate lines. */
static bool join(pal_message *into, const pal_message *next, pal_arena *arena)
{
    bool meets = into->parts_len > 0 && next->parts_len > 0 && next->parts[0].kind == PAL_PART_TEXT;
    pal_part *parts = pal_arena_array(arena, into->parts_len + next->parts_len + 1, sizeof(*parts));
    size_t len = into->parts_len;

    if (!parts)
        return false;
    for (size_t i = 0; i < len; i++)
        parts[i] = into->parts[i];
    meets = meets && parts[len - 1].kind == PAL_PART_TEXT;
    if (meets) {
        const pal_str pieces[] = {parts[len - 1].text, pal_str_of("\n"), next->parts[0].text};

        parts[len - 1].text = joined(arena, pieces, 3);
    }
    for (size_t i = meets; i < next->parts_len; i++)
        parts[len++] = next->parts[i];
    into->parts = parts;
    into->parts_len = len;
    return true;
}

size_t pal_sender_join(pal_message *messages, size_t len, pal_arena *arena)
{
    size_t kept = 0;

    for (size_t i = 0; i < len; i++) {
        bool goes_on = kept > 0 && messages[kept - 1].role == PAL_ROLE_USER &&
                origin_of(&messages[i], arena).is_merged;

        if (!goes_on || !join(&messages[kept - 1], &messages[i], arena))
            messages[kept++] = messages[i];
        else
            messages[kept - 1].seq = messages[i].seq;
    }
    return kept;
}
