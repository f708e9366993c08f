/* api_mistral_start.c - the routes start and append, which make a model answer in a conversation.
 * Also contains what they share with restart (api_mistral_restart.c) and chat completions.
 *
 * Each request is read and checked completely. Then its session is created, and its turns run there
 * (api_mistral_run.h). With store:false the session is temporary; if the conversation exists, it is
 * a fork of it. Everything that depends on the state of the conversation is read while the request
 * holds the lock of the conversation. */
#include "server/api/mistral/api_mistral_start.h"

#include "base/text.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"
#include "server/api/native/api_session.h"
#include "server/node/node_pass.h"
#include "server/server_call.h"

#define PASSING_MS (24 * 3600 * 1000) /* a temporary session that was not erased expires after this
                                         time */
#define OPEN_CALLS_MESSAGES 256       /* newest messages that are searched for calls without
                                         results */

/* ---- Members of all three requests ---- */

pal_mistral_start *pal_mistral_start_new(pal_call *call, pal_error *err)
{
    pal_mistral_start *start = pal_arena_alloc(call->arena, sizeof *start);
    if (!start) {
        (void)!pal_arena_checked(call->arena, err);
        return NULL;
    }
    start->call = call;
    start->is_stored = true;
    start->run.format = &pal_mistral_conversation_format;
    start->args = pal_json_find(call->body, "completion_args");
    return start;
}

const pal_api_object pal_mistral_start_members = {
        .members = PAL_API_MEMBERS(
                {"inputs", PAL_API_VALUE,
                        .schema = "{\"type\":[\"string\",\"array\"],\"items\":{}}"},
                {"stream", PAL_API_FLAG, "whether the response is a stream of events",
                        .offset = offsetof(pal_mistral_start, run.is_stream)},
                {"store", PAL_API_FLAG, "whether the conversation is stored (true)",
                        .offset = offsetof(pal_mistral_start, is_stored)},
                {"completion_args", PAL_API_VALUE, .of = &pal_api_any_object},
                {"handoff_execution", PAL_API_WORD, "the side that performs handoffs (server)",
                        .offset = offsetof(pal_mistral_start, handoff_execution),
                        .words = "server client"})};

static pal_status read_inputs(pal_mistral_start *start, bool is_required, pal_error *err)
{
    pal_call *call = start->call;
    pal_json inputs = pal_json_find(call->body, "inputs");
    if (pal_json_is_absent(inputs) && !is_required)
        return PAL_OK;
    call->fail_param = "inputs";
    pal_status status = pal_mistral_inputs_read(
            inputs, call->arena, &start->run.messages, &start->run.messages_len, err);
    if (status != PAL_OK)
        return status;
    if (is_required && start->run.messages_len == 0)
        return pal_error_set(err, PAL_INVALID, "'inputs' is empty; send at least one input");
    call->fail_param = NULL;
    pal_call_give_client_ids(call, start->run.messages, start->run.messages_len, 2);
    return pal_arena_checked(call->arena, err);
}

pal_status pal_mistral_start_read(pal_mistral_start *start, const pal_api_object *body,
        bool requires_inputs, pal_error *err)
{
    pal_call *call = start->call;
    pal_status status = read_inputs(start, requires_inputs, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_object_read(call, call->body, body, start, err);
    if (status != PAL_OK)
        return status;
    start->run.is_clients = start->handoff_execution;
    return pal_mistral_args_check(call, start->args, "completion_args", err);
}

/* ---- Checking results ---- */

static bool has_part(const pal_message *messages, size_t len, pal_part_kind kind, pal_str call_id)
{
    for (size_t i = 0; i < len; i++) {
        for (size_t k = 0; k < messages[i].parts_len; k++) {
            const pal_part *part = &messages[i].parts[k];
            if (part->kind == kind && pal_str_equal(part->call_id, call_id))
                return true;
        }
    }
    return false;
}

static pal_status check_result(const pal_mistral_start *start, const pal_message_page *before,
        size_t at, const pal_part *part, pal_error *err)
{
    const pal_message *own = start->run.messages;
    bool is_called = has_part(own, at, PAL_PART_TOOL_CALL, part->call_id) ||
            has_part(before->items, before->len, PAL_PART_TOOL_CALL, part->call_id);
    bool is_known = has_part(own, at, PAL_PART_TOOL_RESULT, part->call_id) ||
            has_part(before->items, before->len, PAL_PART_TOOL_RESULT, part->call_id);
    if (is_called && !is_known)
        return PAL_OK;
    return pal_mistral_wrong(start->call, "inputs", err,
            is_called ? "call '%.*s' already has a result"
                      : "call '%.*s' is not waiting for a result",
            PAL_EXCERPT(part->call_id, 80));
}

/* Loads the newest messages once a result is found; most requests have none. */
pal_status pal_mistral_start_check(
        pal_mistral_start *start, pal_id session, uint64_t before_seq, pal_error *err)
{
    pal_call *call = start->call;
    pal_message_page before = {0};
    const pal_message_query load = {
            .before_seq = before_seq, .limit = OPEN_CALLS_MESSAGES, .from_end = true};
    bool is_loaded = pal_id_is_none(session);
    for (size_t i = 0; i < start->run.messages_len; i++) {
        const pal_message *message = &start->run.messages[i];
        for (size_t k = 0; k < message->parts_len; k++) {
            pal_status status = PAL_OK;
            if (message->parts[k].kind != PAL_PART_TOOL_RESULT)
                continue;
            if (!is_loaded)
                status = pal_store_load(call->server->store, call->caller.tenant, session, &load,
                        call->arena, &before, err);
            if (status != PAL_OK)
                return status;
            is_loaded = true;
            status = check_result(start, &before, i, &message->parts[k], err);
            if (status != PAL_OK)
                return status;
        }
    }
    return PAL_OK;
}

/* ---- Creating the session ---- */

/* Called on the store's writer, or immediately. */
static void made(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    pal_mistral_start *start = call->user;
    pal_error own = {0};
    /* The fork exists now, and later messages of its parent do not concern it. */
    pal_mistral_lock_release(start->parent_hold);
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status == PAL_OK) {
        status = pal_mistral_run(call, &start->run, &own);
        err = &own;
    }
    if (status == PAL_OK)
        return;
    pal_mistral_lock_release(start->run.hold);
    pal_call_fail(call, pal_mistral_checked(call, status), err);
}

void pal_mistral_start_add(pal_mistral_start *start, pal_op op)
{
    op.with_previous = start->ops_len > 0;
    start->ops[start->ops_len++] = op;
}

void pal_mistral_start_record(pal_mistral_start *start, size_t at, const char *kind, pal_str body)
{
    char name[PAL_ID_TEXT_SIZE];
    pal_id_to_text(start->session.id, name);
    start->records[at] = (pal_record){.kind = pal_str_of(kind),
            .name = pal_arena_copy(start->call->arena, pal_str_of(name)),
            .session = start->session.id,
            .body = body};
    pal_mistral_start_add(start,
            pal_op_record_put(start->session.tenant, &start->records[at], PAL_RECORD_VERSION_ANY));
}

pal_status pal_mistral_start_session(pal_mistral_start *start, size_t more_ops, pal_error *err)
{
    pal_call *call = start->call;
    start->ops = pal_arena_array(call->arena, more_ops + 3, sizeof *start->ops);
    if (!start->ops)
        return pal_arena_checked(call->arena, err);
    start->session.id = pal_pass_id_here(call, 0);
    start->session.tenant = call->caller.tenant;
    if (!start->is_stored)
        start->session.expires_at = pal_store_clock_ms(call->server->store) + PASSING_MS;
    start->run.session = start->session.id;
    start->run.is_made = true;
    start->run.is_passing = !start->is_stored;
    return PAL_OK;
}

static pal_status make(pal_call *call, pal_mistral_hold *hold, pal_error *err)
{
    pal_mistral_start *start = call->user;
    start->run.hold = hold;
    if (start->ops[0].kind == PAL_OP_FORK)
        return pal_call_apply(call, start->ops, start->ops_len, made, err);
    return pal_call_open(
            call, start->ops, start->ops_len, &start->run.speakers.items[0].request, made, err);
}

/* Other requests can find a stored session, so it is locked from the start. */
pal_status pal_mistral_start_make(pal_mistral_start *start, pal_error *err)
{
    pal_call *call = start->call;
    if (start->is_stored)
        pal_mistral_start_record(start, 0, PAL_MISTRAL_CONVERSATION, pal_str_of("{}"));
    pal_status status = pal_arena_checked(call->arena, err);
    call->user = start;
    if (status != PAL_OK)
        return status;
    return start->is_stored ? pal_mistral_lock_acquire(call, start->session.id, make, err)
                            : make(call, NULL, err);
}

/* ---- Starting a conversation ---- */

static const pal_api_object start_body = {"MistralStartRequest", .is_open = true,
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &pal_mistral_start_members},
                {.type = PAL_API_INCLUDE, .of = &pal_mistral_settings_members,
                        .offset = offsetof(pal_mistral_start, settings)})};

static pal_status start_conversation(pal_call *call, pal_error *err)
{
    pal_mistral_start *start = pal_mistral_start_new(call, err);
    if (!start)
        return err->status;
    pal_status status = pal_mistral_start_read(start, &start_body, true, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_settings_read(call, &start->settings, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_start_check(start, (pal_id){{0}}, 0, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_speakers_make(
            call, &start->settings, (pal_json){0}, &start->run.speakers, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_settings_keep(call, &start->settings, &start->session.metadata, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_start_session(start, 0, err);
    if (status != PAL_OK)
        return status;
    start->session.title = start->settings.name;
    start->run.conversation = start->session.id;
    pal_mistral_start_add(start, pal_op_create(&start->session));
    return pal_mistral_start_make(start, err);
}

/* ---- Confirmations ----
 *
 * A turn pauses before calls that need permission, and "tool_confirmations" of a later request
 * allows or denies each of them. */

/* Finds the turn of the session that waits for permission. *out_waits has no questions if there is
 * none. */
static pal_status find_asking(pal_call *call, pal_id session, pal_turn_info *out_info,
        pal_turn_waits *out_waits, pal_error *err)
{
    pal_runtime *runtime = call->server->runtime;
    pal_str tenant = call->caller.tenant;
    pal_status status = pal_turn_of_session(runtime, tenant, session, out_info, err);
    if (status == PAL_NOT_FOUND || (status == PAL_OK && out_info->state != PAL_TURN_ASKING))
        return PAL_OK;
    if (status != PAL_OK)
        return status;
    return pal_turn_waiting(runtime, tenant, out_info->turn, call->arena, out_waits, err);
}

static bool is_asked(const pal_turn_waits *waits, pal_str call_id)
{
    for (size_t i = 0; i < waits->questions_len; i++) {
        if (pal_str_equal(waits->questions[i].call_id, call_id))
            return true;
    }
    return false;
}

static pal_status read_confirmations(pal_call *call, const pal_turn_waits *waits,
        pal_question_answer **out_answers, size_t *out_len, pal_error *err)
{
    pal_json each = {0}, list = pal_json_find(call->body, "tool_confirmations");
    pal_json_iter iter = pal_json_each(list);
    size_t len = 0;
    if (pal_json_type_of(list) != PAL_JSON_ARRAY || pal_json_count(list) == 0)
        return pal_mistral_wrong(call, "tool_confirmations", err,
                "'tool_confirmations' must be an array of {\"tool_call_id\", \"confirmation\"}");
    pal_question_answer *answers =
            pal_arena_array(call->arena, pal_json_count(list), sizeof *answers);
    if (!answers)
        return pal_no_memory(err);
    while (pal_json_next(&iter, NULL, &each)) {
        pal_str id = pal_member_string(each, "tool_call_id", call->arena);
        pal_json answer = pal_json_find(each, "confirmation");
        bool allow = pal_json_string_is(answer, "allow");
        if (!allow && !pal_json_string_is(answer, "deny"))
            return pal_mistral_wrong(call, "tool_confirmations", err,
                    "'tool_confirmations': 'confirmation' must be allow or deny");
        if (!is_asked(waits, id))
            return pal_mistral_wrong(call, "tool_confirmations", err,
                    "call '%.*s' is not waiting for a confirmation",
                    PAL_EXCERPT(id, 80));
        answers[len++] = (pal_question_answer){.call_id = id, .allow = allow};
    }
    *out_answers = answers;
    *out_len = len;
    return PAL_OK;
}

/* ---- Appending to a conversation ---- */

static pal_status append_passing(
        pal_mistral_start *start, const pal_session *parent, pal_mistral_hold *hold, pal_error *err)
{
    pal_status status = pal_mistral_start_session(start, 0, err);
    if (status != PAL_OK)
        return status;
    start->parent_hold = hold;
    start->session.metadata = parent->metadata;
    pal_mistral_start_add(start, pal_op_fork(&start->session, parent->id, PAL_SEQ_ANY));
    return pal_mistral_start_make(start, err);
}

/* Continues the turn that waits for permission. */
static pal_status confirm(pal_mistral_start *start, const pal_turn_info *info,
        const pal_turn_waits *waits, pal_error *err)
{
    pal_call *call = start->call;
    pal_question_answer *answers = NULL;
    size_t answers_len = 0;
    pal_status status = read_confirmations(call, waits, &answers, &answers_len, err);
    if (status != PAL_OK)
        return status;
    if (start->run.messages_len)
        return pal_mistral_wrong(
                call, "inputs", err,
                "'inputs' is not allowed together with 'tool_confirmations'; send it after the "
                "confirmed calls have ended");
    status = pal_turn_answer(call->server->runtime, call->caller.tenant, info->turn, answers,
            answers_len, err);
    if (status == PAL_INVALID)
        return pal_mistral_wrong(call, "tool_confirmations", err,
                "'tool_confirmations' must name each call that waits for a confirmation once");
    if (status != PAL_OK)
        return status;
    start->run.turn = info->turn;
    start->run.after = info->events;
    return pal_mistral_run(call, &start->run, err);
}

static pal_status append_stored(pal_mistral_start *start, pal_mistral_hold *hold, pal_error *err)
{
    pal_call *call = start->call;
    pal_turn_info info;
    pal_turn_waits waits = {0};
    start->run.hold = hold;
    pal_status status = find_asking(call, start->run.session, &info, &waits, err);
    if (status != PAL_OK)
        return status;
    if (!pal_json_is_absent(pal_json_find(call->body, "tool_confirmations")))
        return confirm(start, &info, &waits, err);
    if (waits.questions_len)
        return pal_mistral_wrong(call, "tool_confirmations", err,
                "call '%.*s' is waiting for a confirmation; send 'tool_confirmations'",
                PAL_EXCERPT(waits.questions[0].call_id, 80));
    return pal_mistral_run(call, &start->run, err);
}

/* No other request runs in the conversation now, so its state cannot change. */
static pal_status append_locked(pal_call *call, pal_mistral_hold *hold, pal_error *err)
{
    pal_mistral_start *start = call->user;
    pal_session session;
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, &session, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_settings_of(call, &session, &start->settings, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_start_check(start, session.id, 0, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_speakers_make(
            call, &start->settings, start->args, &start->run.speakers, err);
    if (status != PAL_OK)
        return status;
    start->run.conversation = start->run.session = session.id;
    return start->is_stored ? append_stored(start, hold, err)
                            : append_passing(start, &session, hold, err);
}

static const pal_api_object append_body = {"MistralAppendRequest", .is_open = true,
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &pal_mistral_start_members},
                {"tool_confirmations", PAL_API_LIST, .of = &pal_api_any_object})};

static pal_status append(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_mistral_start *start = pal_mistral_start_new(call, err);
    if (!start)
        return err->status;
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, &session, err);
    if (status != PAL_OK)
        return status;
    if (pal_pass_to_home(call, session.id)) /* the lock is there */
        return PAL_OK;
    status = pal_mistral_start_read(start, &append_body, false, err);
    if (status != PAL_OK)
        return status;
    call->user = start;
    return pal_mistral_lock_acquire(call, session.id, append_locked, err);
}

PAL_MISTRAL_HANDLER(start_conversation)
PAL_MISTRAL_HANDLER(append)

const pal_api_route pal_mistral_start_routes[] = {
        {"POST", "/mistral/v1/conversations", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_TURN | PAL_API_WORKER,
                handle_start_conversation,
                {"mistralStartConversation",
                        "start a conversation and get the answer", NULL, &start_body,
                        &pal_api_any_object, 200}},
        {"POST", "/mistral/v1/conversations/{id}", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_TURN | PAL_API_WORKER,
                handle_append,
                {"mistralAppendConversation",
                        "continue a conversation and get the answer", NULL, &append_body,
                        &pal_api_any_object, 200}},
        {0},
};
