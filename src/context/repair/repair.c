/* repair.c - turns any list of messages into one that a service accepts, and reports the
 * changes. The rules of each service are here; docs/context.md explains them.
 *
 * Messages are taken one by one: calls get their ids, and results are paired with calls.
 * A result belongs to the newest call with its id. So ids can be reused in later rounds, as many
 * models do. If a message has an id twice, the first result belongs to the first call.
 *
 * Stored messages are never changed: what must differ is copied. Time and memory are linear in the
 * parts and their texts. Pure functions that use only the caller's memory: any thread. */
#include "context/repair/repair.h"

#include <stdarg.h>
#include <stdio.h>
#include "base/memory.h"
#include "base/utf8.h"
#include "dialect/dialect_part.h"

#define LINE_SIZE 256
#define LABEL_BYTES_MAX 48

static const pal_repair_rules profiles[] = {
        [PAL_PROFILE_OPENAI_CHAT] = {.name = "openai_chat",
                .id_len_max = PAL_CALL_ID_OPENAI_CHAT,
                .openai_forms = true},
        [PAL_PROFILE_OPENAI_RESPONSES] = {.name = "openai_responses",
                .id_len_max = PAL_CALL_ID_MAX,
                .unique_ids = true, /* outputs identify their call only by its id */
                .signed_reasoning = true,
                .reasoning_not_last = true,
                .result_media = true,
                .items = true,
                .openai_forms = true},
        [PAL_PROFILE_ANTHROPIC] = {.name = "anthropic",
                .id_charset = PAL_ID_WORD,
                .id_len_max = PAL_CALL_ID_MAX,
                .unique_ids = true,
                .object_arguments = true,
                /* The system text is a separate field. A later system message is sent at its
                 * place, because a change of the field would change the request from its first
                 * byte on. */
                .system_leads = true,
                .user_first = true,
                .user_last = true, /* newer models do not continue an answer that has begun */
                .blank_is_empty = true,
                .signed_reasoning = true,
                .reasoning_not_last = true,
                .result_media = true,
                .error_text_only = true},
        [PAL_PROFILE_MISTRAL] = {.name = "mistral",
                .id_charset = PAL_ID_ALPHANUM,
                .id_len_min = PAL_CALL_ID_MISTRAL,
                .id_len_max = PAL_CALL_ID_MISTRAL,
                .object_arguments = true,
                .system_leads = true,
                .user_first = true,
                .user_last = true,
                .merge_assistants = true,
                .bridge_tool_to_user = true,
                .openai_forms = true},
        [PAL_PROFILE_PICOCLAW] = {.name = "picoclaw", .drops = true},
};

#define PROFILES_LEN (sizeof(profiles) / sizeof(profiles[0]))

const char *pal_profile_name(pal_profile profile)
{
    return (size_t)profile < PROFILES_LEN ? profiles[profile].name : "none";
}

bool pal_profile_from_name(pal_str name, pal_profile *out_profile)
{
    for (size_t i = 0; i < PROFILES_LEN; i++) {
        if (!pal_str_is(name, profiles[i].name))
            continue;
        *out_profile = (pal_profile)i;
        return true;
    }
    return false;
}

/* ---- Reports of changes ---- */

static const char *const change_texts[PAL_REPAIR_CHANGES] = {
        "invalid characters replaced",
        "empty text left out",
        "reasoning of another model left out",
        "reasoning without a signature left out",
        "reasoning with nothing after it left out",
        "image of an unsupported type replaced by a placeholder",
        "image over the limit replaced by a placeholder",
        "image or file without its bytes replaced by a placeholder",
        "image or file that only a user can send replaced by a placeholder",
        "media type corrected",
        "media of a tool result moved after the results",
        "compaction mark sent as a question",
        "part left out that is not allowed for its role",
        "old or unknown form sent as a plain one",
        "later system message sent as a user message",
        "tool message without a result sent as a user message",
        "results sent as a separate tool message",
        "failure without output given a text",
        "tool name changed to letters, digits, '_' and '-'",
        "arguments made a JSON object",
        "results moved after their call",
        "results sent under the new id of their call",
        "results sent in more than one message",
};

enum { ROOM_SPARE = 16 };

static void add_line(pal_repair_work *work, uint64_t seq, pal_str text)
{
    if (pal_arena_reserve(work->scratch, &work->lines, &work->lines_cap, work->lines_len + 1,
                sizeof(*work->lines)))
        work->lines[work->lines_len++] = (pal_repair){.seq = seq, .text = text};
}

void pal_repair_line(pal_repair_work *work, uint64_t seq, const char *format, ...)
{
    char text[LINE_SIZE];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len > 0)
        add_line(work, seq, pal_arena_copy(work->arena, pal_str_of(text)));
}

void pal_repair_line_changes(pal_repair_work *work, uint64_t seq, unsigned changes)
{
    for (size_t i = 0; i < PAL_REPAIR_CHANGES; i++) {
        if (changes & 1u << i)
            add_line(work, seq, pal_str_of(change_texts[i]));
    }
}

const char *pal_repair_label(pal_repair_work *work, pal_str id)
{
    unsigned ignored = 0;
    bool is_long = id.len > LABEL_BYTES_MAX;
    pal_str start = pal_str_make(id.data, is_long ? pal_utf8_cut(id, LABEL_BYTES_MAX) : id.len);
    start = pal_repair_text(work, start, &ignored);
    char *label = pal_arena_alloc(work->scratch, start.len + sizeof("..."));
    if (!label)
        return "";
    for (size_t i = 0; i < start.len; i++)
        label[i] = (unsigned char)start.data[i] < 0x20 ? '?' : start.data[i];
    if (is_long)
        memcpy(label + start.len, "...", 3);
    return label;
}

void pal_repair_map(pal_repair_work *work, pal_map *map, pal_str key, void *value)
{
    if (work->failure == PAL_OK && value)
        work->failure = pal_map_set(map, key, value);
}

/* ---- The repair ---- */

/* ---- Messages, one by one ---- */

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

/* Takes the content of a message apart from its results. Returns false if there is none. */
static bool take_content(pal_repair_work *work, const pal_message *message, unsigned *changes)
{
    pal_repair_piece *piece = pal_arena_alloc(work->scratch, sizeof(*piece));
    if (!piece)
        return false;
    piece->source = message;
    bool is_late = message->role == PAL_ROLE_SYSTEM && work->rules->system_leads && work->has_turn;
    piece->role = is_late || message->role == PAL_ROLE_TOOL ? PAL_ROLE_USER : message->role;
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
    if (merged) {
        if (unit->first == unit->last)
            pal_repair_line(work, unit->first->source->seq,
                    "sent together with the assistant message after it");
        pal_repair_line(
                work, piece->source->seq, "sent together with the assistant message before it");
    }
    if (unit->last)
        unit->last->next = piece;
    else
        unit->first = piece;
    unit->last = piece;
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

static bool take_parts(pal_repair_work *work, const pal_message *message, unsigned *changes)
{
    bool results = pal_part_is_in(message, PAL_PART_TOOL_RESULT);
    bool result_sent = false, content_sent = false;
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

static void take_message(pal_repair_work *work, const pal_message *message)
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

/* ---- The complete list ---- */

static bool has_failed(const pal_repair_work *work)
{
    return work->failure != PAL_OK || pal_arena_failure(work->scratch) != PAL_OK ||
            pal_arena_failure(work->arena) != PAL_OK;
}

static void run(pal_repair_work *work, const pal_message *messages, size_t messages_len)
{
    if (work->rules->drops) {
        pal_repair_picoclaw(work, messages, messages_len);
        return;
    }
    const pal_context_input *input = work->input;
    for (size_t i = 0; input->pending && i < input->pending_len; i++)
        pal_repair_map(work, &work->pending, input->pending[i], (void *)&input->pending[i]);
    for (size_t i = 0; i < messages_len && !has_failed(work); i++)
        take_message(work, &messages[i]);
    if (messages_len && !has_failed(work))
        pal_repair_put_units(work);
}

/* Returns a copy in the arena, without spare room. */
static void *keep(pal_arena *arena, const void *array, size_t len, size_t size)
{
    void *copy = len ? pal_arena_array(arena, len, size) : NULL;
    if (copy)
        memcpy(copy, array, len * size);
    return copy;
}

static pal_status finish(pal_repair_work *work, pal_repair_result *out_repaired, pal_error *err)
{
    pal_repair_result result = {
            .messages =
                    keep(work->arena, work->messages, work->messages_len, sizeof(*work->messages)),
            .len = work->messages_len,
            .repairs = keep(work->arena, work->lines, work->lines_len, sizeof(*work->lines)),
            .repairs_len = work->lines_len,
    };
    pal_status status = work->failure;
    if (status == PAL_OK)
        status = pal_arena_failure(work->scratch);
    if (status == PAL_OK)
        status = pal_arena_failure(work->arena);
    if (status == PAL_LIMIT)
        return pal_error_set(err, status, "the repaired messages exceed the limit of the arena");
    if (status != PAL_OK)
        return pal_error_set(err, status, "out of memory");
    *out_repaired = result;
    return PAL_OK;
}

pal_status pal_context_repair(const pal_message *messages, size_t messages_len,
        const pal_context_input *input, pal_arena *arena, pal_repair_result *out_repaired,
        pal_error *err)
{
    static const pal_context_input none = {0};
    if (!input)
        input = &none;
    if (!arena || !out_repaired || (!messages && messages_len))
        return pal_error_set(err, PAL_INVALID, "messages, arena and result must not be NULL");
    if ((size_t)input->profile >= PROFILES_LEN)
        return pal_error_set(err, PAL_INVALID, "unknown profile %d", (int)input->profile);
    pal_repair_work work = {.input = input, .rules = &profiles[input->profile], .arena = arena};
    work.scratch = pal_arena_new(0);
    if (!work.scratch)
        return pal_no_memory(err);
    /* Allocates room for all messages at once: doubling would touch three times as much memory. */
    work.messages = pal_arena_array(work.scratch, messages_len + ROOM_SPARE, sizeof(pal_message));
    work.messages_cap = work.messages ? messages_len + ROOM_SPARE : 0;
    run(&work, messages, messages_len);
    pal_status status = finish(&work, out_repaired, err);
    pal_map_done(&work.calls);
    pal_map_done(&work.ids);
    pal_map_done(&work.pending);
    pal_arena_free(work.scratch);
    return status;
}
