/* api_mistral_start.c - the routes start and append, which make a model answer in a conversation.
 * Also contains what they share with restart (api_mistral_restart.c) and chat completions.
 *
 * Each request is read and checked completely. Then its session is created, and its turns run there
 * (api_mistral_run.h). With store:false the session is temporary; if the conversation exists, it is
 * a fork of it. Everything that depends on the state of the conversation is read after the gate has
 * admitted the request. */
#include "server/api/mistral/api_mistral_start.h"

#include "base/clock.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"
#include "server/api/native/api_session.h"
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
    start->run.shape = &pal_mistral_conversation_shape;
    start->args = pal_json_find(call->body, "completion_args");
    return start;
}

static pal_status read_execution(pal_mistral_start *start, pal_error *err)
{
    pal_json value = pal_json_find(start->call->body, "handoff_execution");
    if (pal_json_is_absent(value) || pal_json_string_is(value, "server"))
        return PAL_OK;
    if (!pal_json_string_is(value, "client"))
        return pal_mistral_wrong(start->call, "handoff_execution", err,
                "'handoff_execution' must be server or client");
    start->run.is_clients = true;
    return PAL_OK;
}

/* A repeated request with the same idempotency key gets the same client ids. */
static void give_client_ids(pal_call *call, pal_message *messages, size_t len)
{
    for (size_t i = 0; call->idempotency_key.len && i < len; i++) {
        char text[PAL_ID_TEXT_SIZE];
        pal_id_to_text(pal_call_derived_id(call, (uint32_t)i + 2), text);
        messages[i].client_id = pal_arena_copy(call->arena, pal_str_of(text));
    }
}

static pal_status read_inputs(pal_mistral_start *start, bool is_required, pal_error *err)
{
    pal_call *call = start->call;
    pal_json inputs = pal_json_find(call->body, "inputs");
    if (pal_json_is_absent(inputs) && !is_required)
        return PAL_OK;
    call->fail_param = "inputs";
    pal_status status = pal_mistral_inputs_read(
            inputs, call->arena, &start->run.messages, &start->run.messages_len, err);
    if (status == PAL_OK && is_required && start->run.messages_len == 0)
        return pal_error_set(err, PAL_INVALID, "'inputs' is empty; send at least one input");
    if (status != PAL_OK)
        return status;
    call->fail_param = NULL;
    give_client_ids(call, start->run.messages, start->run.messages_len);
    return pal_arena_checked(call->arena, err);
}

pal_status pal_mistral_start_read(pal_mistral_start *start, bool is_required, pal_error *err)
{
    pal_call *call = start->call;
    pal_status status = read_inputs(start, is_required, err);
    if (status == PAL_OK)
        status = pal_call_flag(call, call->body, "stream", &start->run.is_stream, err);
    if (status == PAL_OK)
        status = pal_call_flag(call, call->body, "store", &start->is_stored, err);
    if (status == PAL_OK)
        status = pal_mistral_args_check(call, start->args, "completion_args", err);
    if (status == PAL_OK)
        status = read_execution(start, err);
    return status;
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

pal_status pal_mistral_start_check(
        pal_mistral_start *start, pal_id session, uint64_t before_seq, pal_error *err)
{
    pal_call *call = start->call;
    pal_message_page before = {0};
    const pal_message_query load = {
            .before_seq = before_seq, .limit = OPEN_CALLS_MESSAGES, .from_end = true};
    pal_status status = PAL_OK;
    bool is_loaded = pal_id_is_none(session);
    for (size_t i = 0; status == PAL_OK && i < start->run.messages_len; i++) {
        const pal_message *message = &start->run.messages[i];
        for (size_t k = 0; status == PAL_OK && k < message->parts_len; k++) {
            if (message->parts[k].kind != PAL_PART_TOOL_RESULT)
                continue;
            if (!is_loaded)
                status = pal_store_load(call->server->store, call->caller.tenant, session, &load,
                        call->arena, &before, err);
            is_loaded = true;
            if (status == PAL_OK)
                status = check_result(start, &before, i, &message->parts[k], err);
        }
    }
    return status;
}

/* ---- Creating the session ---- */

/* Called on the store's writer, or immediately. */
static void made(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    pal_mistral_start *start = call->user;
    pal_error own = {0};
    pal_mistral_gate_leave(start->parents); /* The fork exists now, and later messages of its parent
                                               do not concern it. */
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status == PAL_OK) {
        status = pal_mistral_run(call, &start->run, &own);
        err = &own;
    }
    if (status == PAL_OK)
        return;
    pal_mistral_gate_leave(start->run.pass);
    pal_call_fail(call, pal_mistral_checked(call, status), err);
}

pal_op *pal_mistral_start_op(pal_mistral_start *start, pal_op_kind kind)
{
    pal_op *op = &start->ops[start->ops_len];
    *op = (pal_op){.kind = kind,
            .tenant = start->call->caller.tenant,
            .session = start->session.id,
            .with_previous = start->ops_len > 0};
    start->ops_len++;
    return op;
}

void pal_mistral_start_record(pal_mistral_start *start, size_t at, const char *kind, pal_str body)
{
    char name[PAL_ID_TEXT_SIZE];
    pal_op *op = pal_mistral_start_op(start, PAL_OP_RECORD_PUT);
    pal_id_to_text(start->session.id, name);
    start->records[at] = (pal_record){.kind = pal_str_of(kind),
            .name = pal_arena_copy(start->call->arena, pal_str_of(name)),
            .session = start->session.id,
            .body = body};
    op->u.record.record = &start->records[at];
    op->u.record.expected_version = PAL_RECORD_VERSION_ANY;
}

pal_status pal_mistral_start_session(pal_mistral_start *start, size_t more_ops, pal_error *err)
{
    pal_call *call = start->call;
    start->ops = pal_arena_array(call->arena, more_ops + 3, sizeof *start->ops);
    if (!start->ops)
        return pal_arena_checked(call->arena, err);
    start->session.id = pal_call_derived_id(call, 0);
    start->session.tenant = call->caller.tenant;
    if (!start->is_stored)
        start->session.expires_at = pal_clock_now_ms() + PASSING_MS;
    start->run.session = start->session.id;
    start->run.is_made = true;
    start->run.is_passing = !start->is_stored;
    return PAL_OK;
}

static pal_status make(pal_call *call, pal_mistral_pass *pass, pal_error *err)
{
    pal_mistral_start *start = call->user;
    start->run.pass = pass;
    if (start->ops[0].kind == PAL_OP_FORK)
        return pal_call_apply(call, start->ops, start->ops_len, made, err);
    return pal_call_open(
            call, start->ops, start->ops_len, &start->run.legs.items[0].request, made, err);
}

/* Other requests can find a stored session, so it has a gate from the start. */
pal_status pal_mistral_start_make(pal_mistral_start *start, pal_error *err)
{
    pal_call *call = start->call;
    if (start->is_stored)
        pal_mistral_start_record(start, 0, PAL_MISTRAL_CONVERSATION, pal_str_of("{}"));
    pal_status status = pal_arena_checked(call->arena, err);
    call->user = start;
    if (status != PAL_OK)
        return status;
    return start->is_stored ? pal_mistral_gate_enter(call, start->session.id, make, err)
                            : make(call, NULL, err);
}

/* ---- Starting a conversation ---- */

static pal_status start_conversation(pal_call *call, pal_error *err)
{
    pal_mistral_start *start = pal_mistral_start_new(call, err);
    if (!start)
        return err->status;
    pal_status status = pal_mistral_settings_read(call, &start->settings, err);
    if (status == PAL_OK)
        status = pal_mistral_start_read(start, true, err);
    if (status == PAL_OK)
        status = pal_mistral_start_check(start, (pal_id){{0}}, 0, err);
    if (status == PAL_OK)
        status =
                pal_mistral_legs_make(call, &start->settings, (pal_json){0}, &start->run.legs, err);
    if (status == PAL_OK)
        status = pal_mistral_settings_keep(call, &start->settings, &start->session.metadata, err);
    if (status == PAL_OK)
        status = pal_mistral_start_session(start, 0, err);
    if (status != PAL_OK)
        return status;
    start->session.title = start->settings.name;
    start->run.conversation = start->session.id;
    pal_mistral_start_op(start, PAL_OP_CREATE)->u.create.session = &start->session;
    return pal_mistral_start_make(start, err);
}

/* ---- Appending to a conversation ---- */

static pal_status append_passing(
        pal_mistral_start *start, const pal_session *parent, pal_mistral_pass *pass, pal_error *err)
{
    pal_status status = pal_mistral_start_session(start, 0, err);
    if (status != PAL_OK)
        return status;
    start->parents = pass;
    start->session.metadata = parent->metadata;
    pal_op *op = pal_mistral_start_op(start, PAL_OP_FORK);
    op->u.fork.session = &start->session;
    op->u.fork.parent = parent->id;
    op->u.fork.at_seq = PAL_SEQ_ANY;
    return pal_mistral_start_make(start, err);
}

/* Continues the turn that waits for permission. */
static pal_status confirm(
        pal_mistral_start *start, const pal_turn_info *info, pal_str asked, pal_error *err)
{
    pal_call *call = start->call;
    bool allow = false;
    pal_status status = pal_mistral_confirmation(call, asked, &allow, err);
    if (status == PAL_OK && start->run.messages_len)
        return pal_mistral_wrong(
                call, "inputs", err,
                "'inputs' is not allowed together with 'tool_confirmations'; send it after the "
                "confirmed call has ended");
    if (status == PAL_OK)
        status = pal_turn_allow(call->server->runtime, call->caller.tenant, info->turn, allow, err);
    start->run.turn = info->turn;
    start->run.after = info->events;
    return status == PAL_OK ? pal_mistral_run(call, &start->run, err) : status;
}

static pal_status append_stored(pal_mistral_start *start, pal_mistral_pass *pass, pal_error *err)
{
    pal_call *call = start->call;
    pal_turn_info info;
    pal_str asked = {0};
    bool confirms = !pal_json_is_absent(pal_json_find(call->body, "tool_confirmations"));
    pal_status status = pal_mistral_asked(call, start->run.session, &info, &asked, err);
    start->run.pass = pass;
    if (status == PAL_OK && confirms)
        return confirm(start, &info, asked, err);
    if (status == PAL_OK && asked.len)
        return pal_mistral_wrong(call, "tool_confirmations", err,
                "call '%.*s' is waiting for a confirmation; send 'tool_confirmations'",
                PAL_EXCERPT(asked, 80));
    return status == PAL_OK ? pal_mistral_run(call, &start->run, err) : status;
}

/* No other request is in the conversation now, so its state cannot change. */
static pal_status append_inside(pal_call *call, pal_mistral_pass *pass, pal_error *err)
{
    pal_mistral_start *start = call->user;
    pal_session session;
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, &session, err);
    if (status == PAL_OK)
        status = pal_mistral_settings_of(call, &session, &start->settings, err);
    if (status == PAL_OK)
        status = pal_mistral_start_check(start, session.id, 0, err);
    if (status == PAL_OK)
        status = pal_mistral_legs_make(call, &start->settings, start->args, &start->run.legs, err);
    if (status != PAL_OK)
        return status;
    start->run.conversation = start->run.session = session.id;
    return start->is_stored ? append_stored(start, pass, err)
                            : append_passing(start, &session, pass, err);
}

static pal_status append(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_mistral_start *start = pal_mistral_start_new(call, err);
    if (!start)
        return err->status;
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, &session, err);
    if (status == PAL_OK)
        status = pal_mistral_start_read(start, false, err);
    call->user = start;
    return status == PAL_OK ? pal_mistral_gate_enter(call, session.id, append_inside, err) : status;
}

PAL_MISTRAL_HANDLER(start_conversation)
PAL_MISTRAL_HANDLER(append)

const pal_api_route pal_mistral_start_routes[] = {
        {"POST", "/mistral/v1/conversations", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_TURN | PAL_API_WORKER,
                handle_start_conversation,
                {"mistralStartConversation",
                        "start a conversation and get the answer", NULL, &pal_api_any_object,
                        &pal_api_any_object, 200}},
        {"POST", "/mistral/v1/conversations/{id}", PAL_KEY_WRITE,
                PAL_API_JSON | PAL_API_TURN | PAL_API_WORKER,
                handle_append,
                {"mistralAppendConversation",
                        "continue a conversation and get the answer", NULL, &pal_api_any_object,
                        &pal_api_any_object, 200}},
        {0},
};
