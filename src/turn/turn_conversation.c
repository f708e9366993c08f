/* turn_conversation.c - sessions whose conversation is also kept by the model service, for example
 * by Mistral's Conversations: which conversation it is, how many tokens it has, and whether it can
 * be continued.
 *
 * The state is a record of the session with the kind "mistral_conversation". It is written in the
 * same commit as the answer:
 * {"endpoint","model","conversation","message","tokens","prefix","checkpoint"}; "message" is the id
 * of that answer.
 *
 * Invariant: the next request continues the conversation only if it is known what the service has
 * seen. The answer must be the last one in the plan, and this turn must have recorded all messages
 * after it, so that they were never sent before. In all other cases a new conversation begins and
 * receives the complete plan: after a turn that failed, was interrupted or died, after an undone or
 * new compaction, and with other instructions, tools, models or endpoints. A turn that ends without
 * an answer also drops the record, because rewound messages leave no trace in the plan. So nothing
 * has to be written before a call, and a crash at any time costs one longer request.
 *
 * A conversation is full at compaction_threshold tokens, as the service reports them. The plan then
 * makes room by the session's strategy, and a new conversation begins with the rest.
 *
 * An imported record, {"conversation","tokens","imported":true}, has no answer here. The first
 * answered turn of the session continues it; until then no failure drops it. */
#include "turn/turn_conversation.h"

#include "base/json/json.h"
#include "dialect/dialect_member.h"
#include "store/store_backend.h"
#include "turn/turn.h"

#define RECORD_KIND PAL_CONVERSATION_RECORD

enum { BODY_LEN_MAX = 4096 };

/* ---- The record ---- */

/* The contents of the record. */
typedef struct stored {
    pal_str endpoint;
    pal_str model;
    pal_str conversation;
    pal_id message; /* the answer that the record was written with */
    uint64_t tokens;
    uint64_t prefix;
    uint64_t checkpoint;
    bool is_imported;
} stored;

#define MEMBER(name, type, field) {name, PAL_MEMBER_##type, 1, .offset = offsetof(stored, field)}
static const pal_member members[] = {
        MEMBER("endpoint", STRING, endpoint),
        MEMBER("model", STRING, model),
        MEMBER("conversation", STRING, conversation),
        MEMBER("message", ID, message),
        MEMBER("tokens", U64, tokens),
        MEMBER("prefix", U64, prefix),
        MEMBER("checkpoint", U64, checkpoint),
        MEMBER("imported", BOOL, is_imported),
};
static const pal_member_table table = {members, sizeof(members) / sizeof(members[0]), NULL, NULL};

pal_record *pal_conversation_record(
        pal_turn *turn, const pal_model_end *end, const pal_message *answer)
{
    const pal_usage *usage = &end->usage;
    pal_arena *arena = turn->step.arena;
    pal_conversation *conversation = &turn->step.conversation;
    pal_record *record = NULL;
    pal_json_writer writer;
    pal_buf body;
    char session[PAL_ID_TEXT_SIZE];
    stored state;

    if (!turn->step.is_kept || end->conversation.len == 0)
        return NULL;
    if (end->has_usage)
        conversation->tokens =
                usage->input + usage->cache_read + usage->cache_write + usage->output;
    state = (stored){.endpoint = pal_provider_name(turn->step.provider),
            .model = turn->settings.model,
            .conversation = end->conversation,
            .message = answer->id,
            .tokens = conversation->tokens,
            .prefix = conversation->prefix,
            .checkpoint = conversation->checkpoint};
    pal_id_to_text(turn->request.session, session);
    pal_buf_init(&body, BODY_LEN_MAX);
    writer = pal_json_writer_make(&body);
    pal_json_begin_object(&writer);
    pal_members_write(&table, 1, &writer, &state);
    pal_json_end_object(&writer);
    if (body.failure == PAL_OK)
        record = pal_arena_alloc(arena, sizeof(*record));
    if (record)
        *record = (pal_record){.kind = pal_str_of(RECORD_KIND),
                .name = pal_arena_copy(arena, pal_str_of(session)),
                .session = turn->request.session,
                .body = pal_arena_copy(arena, pal_buf_str(&body))};
    pal_buf_done(&body);
    return record && pal_arena_failure(arena) == PAL_OK ? record : NULL;
}

bool pal_conversation_drop(pal_turn *turn, pal_op *out_op)
{
    char session[PAL_ID_TEXT_SIZE];
    pal_record *record;

    if (!turn->step.is_kept || !turn->step.arena ||
            (turn->step.conversation.is_imported && !turn->step.conversation.is_lost))
        return false;
    record = pal_arena_alloc(turn->step.arena, sizeof(*record));
    if (!record)
        return false;
    pal_id_to_text(turn->request.session, session);
    *record = (pal_record){.kind = pal_str_of(RECORD_KIND),
            .name = pal_arena_copy(turn->step.arena, pal_str_of(session))};
    *out_op = pal_op_record_drop(turn->request.tenant, record);
    out_op->session = turn->request.session;
    out_op->fence = turn->lane->fence;
    return true;
}

/* ---- Continuing ---- */

static uint64_t prefix_of(const pal_plan *plan)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < plan->items_len; i++)
        if (plan->items[i].kind == PAL_PLAN_ITEM_SYSTEM ||
                plan->items[i].kind == PAL_PLAN_ITEM_TOOLS ||
                plan->items[i].kind == PAL_PLAN_ITEM_NOTES)
            hash = hash * 31 + plan->items[i].hash;
    return hash;
}

/* Returns the number of tokens at which the service's conversation is full. A context size that is
 * only assumed does not override what the service reports. */
static uint64_t threshold_of(const pal_turn *turn, const pal_context_input *input)
{
    uint64_t threshold = input->settings.compaction_threshold;
    uint64_t sendable = pal_context_sendable(input);

    return turn->step.model.context && sendable < threshold ? sendable : threshold;
}

/* An unreadable record is ignored. */
static pal_status find_record(
        const pal_turn *turn, stored *out_state, bool *out_is_known, pal_error *err)
{
    char session[PAL_ID_TEXT_SIZE];
    pal_record record;
    pal_json body;
    pal_status status;

    *out_is_known = false;

    pal_id_to_text(turn->request.session, session);
    status = pal_store_record_find(turn->runtime->store, turn->request.tenant,
            pal_str_of(RECORD_KIND), pal_str_of(session), turn->step.arena, &record, err);
    if (status == PAL_NOT_FOUND)
        return PAL_OK;
    if (status != PAL_OK)
        return status;
    if (pal_json_parse(turn->step.arena, record.body, NULL, &body, NULL) != PAL_OK)
        return PAL_OK;
    *out_is_known = true;
    return pal_members_read_stored(&table, 1, body, turn->step.arena, out_state, err);
}

/* Returns true if the record has an answer of this endpoint and model. */
static bool is_from_here(const pal_turn *turn, const stored *state)
{
    return pal_str_equal(state->endpoint, pal_provider_name(turn->step.provider)) &&
            pal_str_equal(state->model, turn->settings.model) && !pal_id_is_none(state->message);
}

/* Returns true if the record belongs to the newest answer that the plan can contain. */
static bool is_newest(const pal_turn *turn, const pal_context_input *input, const stored *state)
{
    size_t at = input->messages_len;

    while (at > 0 && input->messages[at - 1].role != PAL_ROLE_ASSISTANT)
        at--;
    return at > 0 && is_from_here(turn, state) &&
            state->checkpoint == input->checkpoint.number &&
            pal_id_equal(input->messages[at - 1].id, state->message);
}

pal_status pal_conversation_full(
        const pal_turn *turn, const pal_context_input *input, uint64_t *out_tokens, pal_error *err)
{
    bool is_known;
    stored state;
    pal_status status;

    *out_tokens = 0;
    if (!turn->step.is_kept)
        return PAL_OK;
    status = find_record(turn, &state, &is_known, err);
    if (status == PAL_OK && is_known && is_newest(turn, input, &state) &&
            state.tokens >= threshold_of(turn, input))
        *out_tokens = state.tokens;
    return status;
}

/* Returns true if the service has seen everything up to the answer `message`, and nothing after
 * it. */
static bool has_seen(const pal_turn *turn, pal_id message)
{
    size_t at = turn->step.messages_len;

    while (at > 0 && turn->step.messages[at - 1].role != PAL_ROLE_ASSISTANT) {
        at--;
        if (turn->step.conversation.fresh_seq == 0 ||
                (turn->step.messages[at].seq > 0 &&
                        turn->step.messages[at].seq < turn->step.conversation.fresh_seq))
            return false;
    }
    return at > 0 && at < turn->step.messages_len &&
            pal_id_equal(turn->step.messages[at - 1].id, message);
}

/* An imported conversation contains messages from elsewhere. So all messages here are new to it
 * until the first answer. A message of a failed turn is sent again: twice is better than never. */
static bool is_unanswered(const pal_turn *turn)
{
    for (size_t i = 0; i < turn->step.messages_len; i++)
        if (turn->step.messages[i].role == PAL_ROLE_ASSISTANT)
            return false;
    return turn->step.messages_len > 0;
}

/* Returns true if endpoint, model and instructions are the same, and the record's answer is the
 * last one. */
static bool is_same(const pal_turn *turn, const stored *state)
{
    return is_from_here(turn, state) && state->prefix == turn->step.conversation.prefix &&
            has_seen(turn, state->message);
}

static bool can_go_on(
        const pal_turn *turn, const pal_context_input *input, const stored *state)
{
    const pal_conversation *conversation = &turn->step.conversation;

    return !conversation->is_lost && state->checkpoint == conversation->checkpoint &&
            state->tokens < threshold_of(turn, input) &&
            (conversation->is_imported ? is_unanswered(turn) : is_same(turn, state));
}

static const pal_part *next_call(const pal_message *message, size_t *at)
{
    while (*at < message->parts_len)
        if (message->parts[(*at)++].kind == PAL_PART_TOOL_CALL)
            return &message->parts[*at - 1];
    return NULL;
}

static void rename_results(pal_turn *turn, size_t first, pal_str from, pal_str to)
{
    for (size_t i = first; i < turn->step.messages_len; i++)
        for (size_t j = 0; j < turn->step.messages[i].parts_len; j++) {
            pal_part *part = &turn->step.messages[i].parts[j];

            if (part->kind == PAL_PART_TOOL_RESULT && pal_str_equal(part->call_id, from))
                part->call_id = to;
        }
}

/* A plan changes call ids to a form that every service accepts. This service knows the calls by the
 * original ids. */
static void restore_ids(pal_turn *turn, const pal_context_input *input)
{
    size_t at = turn->step.messages_len, sent_at = 0, own_at = 0;
    const pal_message *own = NULL;
    const pal_part *sent, *original;

    while (at > 0 && turn->step.messages[at - 1].role != PAL_ROLE_ASSISTANT)
        at--;
    for (size_t i = 0; at > 0 && i < input->messages_len; i++)
        if (pal_id_equal(input->messages[i].id, turn->step.messages[at - 1].id))
            own = &input->messages[i];
    while (own && (sent = next_call(&turn->step.messages[at - 1], &sent_at)) != NULL &&
            (original = next_call(own, &own_at)) != NULL)
        rename_results(turn, at, sent->call_id, original->call_id);
}

pal_status pal_conversation_find(pal_turn *turn, const pal_context_input *input, pal_error *err)
{
    pal_conversation *conversation = &turn->step.conversation;
    bool is_known;
    stored state;
    pal_status status;

    if (!turn->step.is_kept)
        return PAL_OK;
    conversation->id = (pal_str){0};
    conversation->checkpoint = input->checkpoint.number;
    conversation->prefix = prefix_of(&turn->step.plan);
    conversation->tokens = turn->step.plan.tokens;
    status = find_record(turn, &state, &is_known, err);
    conversation->is_imported = status == PAL_OK && is_known && state.is_imported;
    if (status != PAL_OK || !is_known || !can_go_on(turn, input, &state))
        return status;
    conversation->id = state.conversation;
    restore_ids(turn, input);
    return PAL_OK;
}

void pal_conversation_answered(pal_turn *turn, const pal_message *answer)
{
    turn->step.conversation.fresh_seq = answer->seq + 1;
    turn->step.conversation.is_lost = false;
    turn->step.conversation.is_imported = false;
}

bool pal_conversation_failed(pal_turn *turn, const pal_model_end *end)
{
    if (turn->step.conversation.id.len == 0)
        return false;
    /* After 429 the service has not processed the request; after any other failure it may have. The
     * contents of an imported conversation exist only at the service, so it is lost only if the
     * service says so. */
    turn->step.conversation.is_lost = turn->step.conversation.is_imported
            ? end->is_stale || end->is_overflow
            : end->code != 429;
    return end->is_stale || end->is_overflow;
}
