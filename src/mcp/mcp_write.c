/* mcp_write.c - the tools that write: create and fork conversations, and append to them.
 * Each one returns after the change is durable. All functions can be called from any thread. */
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "mcp/mcp_internal.h"

#define TOPIC "memory" /* default topic of notes */

/* ---- Conversations ---- */

/* Writes the current state of the session as the complete result. */
static pal_status put_session(
        pal_mcp_ask *ask, pal_id id, const char *flag, bool is_set, pal_error *err)
{
    pal_session session;
    char text[PAL_ID_TEXT_SIZE];
    pal_id_to_text(id, text);
    pal_status status = pal_store_find(ask->host->options.store, ask->peer->tenant,
            PAL_SESSION_BY_ID, pal_str_of(text), ask->arena, &session, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(ask->writer);
    pal_json_name(ask->writer, "conversation");
    pal_json_begin_object(ask->writer);
    pal_mcp_put_conversation(ask->writer, &session);
    pal_json_end_object(ask->writer);
    if (flag)
        pal_put_flag(ask->writer, flag, is_set);
    pal_json_end_object(ask->writer);
    return PAL_OK;
}

static pal_status find_or_create(
        pal_mcp_ask *ask, const pal_session *session, pal_op *out_op, pal_error *err)
{
    *out_op = (pal_op){
            .kind = PAL_OP_CREATE,
            .tenant = ask->peer->tenant,
            .u.create = {.session = session, .or_find = session->key.len > 0},
    };
    pal_status status = pal_store_apply(ask->host->options.store, out_op, 1, err);
    if (status == PAL_OK && out_op->status != PAL_OK)
        return pal_error_set(err, out_op->status, "%s", out_op->error.message);
    return status;
}

pal_status pal_mcp_create_conversation(pal_mcp_ask *ask, pal_error *err)
{
    pal_op op;
    pal_session session = {
            .tenant = ask->peer->tenant,
            .key = pal_mcp_ask_text(ask, "key"),
            .title = pal_mcp_ask_text(ask, "title"),
            .project = pal_mcp_ask_text(ask, "project"),
            .agent = pal_mcp_ask_text(ask, "agent"),
    };
    pal_status status = pal_arena_checked(ask->arena, err);
    if (status == PAL_OK)
        status = find_or_create(ask, &session, &op, err);
    return status == PAL_OK ? put_session(ask, op.session, "created", !op.u.create.existing, err)
                            : status;
}

pal_status pal_mcp_fork_conversation(pal_mcp_ask *ask, pal_error *err)
{
    pal_id id;
    pal_session parent;
    uint64_t at = pal_mcp_ask_number(ask, "at_seq");
    pal_session session = {
            .tenant = ask->peer->tenant,
            .key = pal_mcp_ask_text(ask, "key"),
            .title = pal_mcp_ask_text(ask, "title"),
    };
    pal_status status = pal_mcp_ask_session(ask, &parent, err);
    if (status == PAL_OK)
        status = pal_arena_checked(ask->arena, err);
    if (status != PAL_OK)
        return status;
    session.project = parent.project;
    session.agent = parent.agent;
    session.metadata = parent.metadata;
    status = pal_store_fork(
            ask->host->options.store, &session, parent.id, at ? at : PAL_SEQ_ANY, &id, err);
    return status == PAL_OK ? put_session(ask, id, NULL, false, err) : status;
}

/* ---- Messages ---- */

static pal_status append(
        pal_mcp_ask *ask, pal_id session, pal_role role, pal_str client_id, pal_error *err)
{
    pal_message message = pal_message_text(ask->arena, role, pal_mcp_ask_text(ask, "text"));
    message.client_id = client_id;
    pal_status status = pal_arena_checked(ask->arena, err);
    if (status == PAL_OK)
        status = pal_store_append(ask->host->options.store, ask->peer->tenant, session, &message, 1,
                PAL_SEQ_ANY, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(ask->writer);
    pal_put_id(ask->writer, "conversation", session);
    pal_put_id(ask->writer, "message_id", message.id);
    pal_put_count(ask->writer, "seq", message.seq);
    pal_json_end_object(ask->writer);
    return PAL_OK;
}

pal_status pal_mcp_append_message(pal_mcp_ask *ask, pal_error *err)
{
    pal_session session;
    pal_str role = pal_mcp_ask_text(ask, "role");
    pal_status status = pal_mcp_ask_session(ask, &session, err);
    if (status != PAL_OK)
        return status;
    return append(ask, session.id, role.len ? pal_role_from_name(role) : PAL_ROLE_USER,
            pal_mcp_ask_text(ask, "client_id"), err);
}

pal_status pal_mcp_remember(pal_mcp_ask *ask, pal_error *err)
{
    pal_op op;
    pal_str topic = pal_mcp_ask_text(ask, "topic");
    pal_session session = {
            .tenant = ask->peer->tenant,
            .key = topic.len ? topic : pal_str_of(TOPIC),
    };
    session.title = session.key;
    pal_status status = pal_arena_checked(ask->arena, err);
    if (status == PAL_OK)
        status = find_or_create(ask, &session, &op, err);
    return status == PAL_OK ? append(ask, op.session, PAL_ROLE_USER, (pal_str){0}, err) : status;
}
