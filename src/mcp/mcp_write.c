/* mcp_write.c - the tools that write: create and fork conversations, and append to them.
 * Each one returns after the change is durable. All functions can be called from any thread. */
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "mcp/mcp_internal.h"

#define TOPIC "memory" /* default topic of notes */

/* ---- Conversations ---- */

/* Writes the current state of the session as the complete result. */
static pal_status put_session(
        pal_mcp_call *call, pal_id id, const char *flag, bool is_set, pal_error *err)
{
    pal_session session;
    char text[PAL_ID_TEXT_SIZE];
    pal_id_to_text(id, text);
    pal_status status = pal_store_find(call->host->options.store, call->peer->tenant,
            PAL_SESSION_BY_ID, pal_str_of(text), call->arena, &session, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(call->writer);
    pal_json_name(call->writer, "conversation");
    pal_json_begin_object(call->writer);
    pal_mcp_put_conversation(call->writer, &session);
    pal_json_end_object(call->writer);
    if (flag)
        pal_put_flag(call->writer, flag, is_set);
    pal_json_end_object(call->writer);
    return PAL_OK;
}

static pal_status find_or_create(
        pal_mcp_call *call, const pal_session *session, pal_op *out_op, pal_error *err)
{
    *out_op = session->key.len ? pal_op_find_or_create(session) : pal_op_create(session);
    pal_status status = pal_store_apply(call->host->options.store, out_op, 1, err);
    if (status == PAL_OK && out_op->status != PAL_OK)
        return pal_error_set(err, out_op->status, "%s", out_op->error.message);
    return status;
}

pal_status pal_mcp_create_conversation(pal_mcp_call *call, pal_error *err)
{
    pal_op op;
    pal_session session = {
            .tenant = call->peer->tenant,
            .key = pal_mcp_call_text(call, "key"),
            .title = pal_mcp_call_text(call, "title"),
            .project = pal_mcp_call_text(call, "project"),
            .agent = pal_mcp_call_text(call, "agent"),
    };
    pal_status status = pal_arena_checked(call->arena, err);
    if (status == PAL_OK)
        status = find_or_create(call, &session, &op, err);
    return status == PAL_OK ? put_session(call, op.session, "created", !op.u.create.existing, err)
                            : status;
}

pal_status pal_mcp_fork_conversation(pal_mcp_call *call, pal_error *err)
{
    pal_id id;
    pal_session parent;
    uint64_t at = pal_mcp_call_number(call, "at_seq");
    pal_session session = {
            .tenant = call->peer->tenant,
            .key = pal_mcp_call_text(call, "key"),
            .title = pal_mcp_call_text(call, "title"),
    };
    pal_status status = pal_mcp_call_session(call, &parent, err);
    if (status == PAL_OK)
        status = pal_arena_checked(call->arena, err);
    if (status != PAL_OK)
        return status;
    session.project = parent.project;
    session.agent = parent.agent;
    session.metadata = parent.metadata;
    status = pal_store_fork(
            call->host->options.store, &session, parent.id, at ? at : PAL_SEQ_ANY, &id, err);
    return status == PAL_OK ? put_session(call, id, NULL, false, err) : status;
}

/* ---- Messages ---- */

static pal_status append(
        pal_mcp_call *call, pal_id session, pal_role role, pal_str client_id, pal_error *err)
{
    pal_message message = pal_message_text(call->arena, role, pal_mcp_call_text(call, "text"));
    message.client_id = client_id;
    pal_status status = pal_arena_checked(call->arena, err);
    if (status == PAL_OK)
        status = pal_store_append(call->host->options.store, call->peer->tenant, session, &message,
                1, PAL_SEQ_ANY, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(call->writer);
    pal_put_id(call->writer, "conversation", session);
    pal_put_id(call->writer, "message_id", message.id);
    pal_put_count(call->writer, "seq", message.seq);
    pal_json_end_object(call->writer);
    return PAL_OK;
}

pal_status pal_mcp_append_message(pal_mcp_call *call, pal_error *err)
{
    pal_session session;
    pal_str role = pal_mcp_call_text(call, "role");
    pal_status status = pal_mcp_call_session(call, &session, err);
    if (status != PAL_OK)
        return status;
    return append(call, session.id, role.len ? pal_role_from_name(role) : PAL_ROLE_USER,
            pal_mcp_call_text(call, "client_id"), err);
}

pal_status pal_mcp_remember(pal_mcp_call *call, pal_error *err)
{
    pal_op op;
    pal_str topic = pal_mcp_call_text(call, "topic");
    pal_session session = {
            .tenant = call->peer->tenant,
            .key = topic.len ? topic : pal_str_of(TOPIC),
    };
    session.title = session.key;
    pal_status status = pal_arena_checked(call->arena, err);
    if (status == PAL_OK)
        status = find_or_create(call, &session, &op, err);
    return status == PAL_OK ? append(call, op.session, PAL_ROLE_USER, (pal_str){0}, err) : status;
}
