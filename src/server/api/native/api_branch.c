/* api_branch.c - operations on a session's history: forks, rewinds, resets, pins and undo, and the
 * list of the marks that they leave. No operation in this file removes a message. */
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "server/api/native/api_native.h"
#include "server/api/native/api_session.h"
#include "server/server_call.h"

/* ---- Forks ---- */

static void forked(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status == PAL_OK)
        pal_api_session_send(call, ops[0].session, 201);
    else
        pal_call_fail(call, status, err);
}

static pal_status fork_session(pal_call *call, pal_error *err)
{
    pal_session parent;
    uint64_t at_seq = PAL_SEQ_ANY;
    pal_session *session = pal_arena_array(call->arena, 1, sizeof *session);
    pal_op *op = pal_arena_array(call->arena, 1, sizeof *op);
    if (!session || !op)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_call_session(call, call->params[0], &parent, err);
    if (status == PAL_OK)
        status = pal_api_session_read(call, call->body, session, err);
    if (status == PAL_OK)
        status = pal_call_count(call, call->body, "at_seq", 0, INT64_MAX, &at_seq, err);
    if (status != PAL_OK)
        return status;
    if (!session->title.len)
        session->title = parent.title;
    if (!session->agent.len)
        session->agent = parent.agent;
    if (!session->project.len)
        session->project = parent.project;
    op->kind = PAL_OP_FORK;
    op->tenant = call->caller.tenant;
    op->session = pal_call_derived_id(call, 0);
    op->u.fork.session = session;
    op->u.fork.parent = parent.id;
    op->u.fork.at_seq = at_seq;
    return pal_call_apply(call, op, 1, forked, err);
}

/* ---- Marks ---- */

static void marked(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    pal_error put_error = {0};
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status == PAL_OK) {
        err = &put_error;
        status = pal_native_mark_put(pal_call_writer(call), ops[0].u.mark, &put_error);
    }
    if (status == PAL_OK)
        pal_call_send(call, 200);
    else
        pal_call_fail(call, status, err);
}

static pal_status add_mark(pal_call *call, pal_mark given, pal_error *err)
{
    pal_session session;
    pal_mark *mark = pal_arena_array(call->arena, 1, sizeof *mark);
    pal_op *op = pal_arena_array(call->arena, 1, sizeof *op);
    if (!mark || !op)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    *mark = given;
    op->kind = PAL_OP_MARK;
    op->tenant = call->caller.tenant;
    op->session = session.id;
    op->u.mark = mark;
    return pal_call_apply(call, op, 1, marked, err);
}

/* Reads a seq that the request must contain. */
static pal_status read_seq(
        pal_call *call, const char *name, uint64_t min, uint64_t *out_seq, pal_error *err)
{
    *out_seq = UINT64_MAX;
    pal_status status = pal_call_count(call, call->body, name, min, INT64_MAX, out_seq, err);
    if (status != PAL_OK || *out_seq != UINT64_MAX)
        return status;
    call->fail_param = name;
    return pal_error_set(err, PAL_INVALID, "'%s' is missing; send the seq of a message", name);
}

static pal_status rewind_session(pal_call *call, pal_error *err)
{
    pal_mark mark = {.kind = PAL_MARK_REWIND};
    pal_status status = read_seq(call, "to_seq", 0, &mark.seq, err);
    return status == PAL_OK ? add_mark(call, mark, err) : status;
}

static pal_status undo_mark(pal_call *call, pal_error *err)
{
    pal_mark mark = {.kind = PAL_MARK_UNDO};
    pal_status status = pal_call_count(call, call->body, "number", 1, INT64_MAX, &mark.target, err);
    return status == PAL_OK ? add_mark(call, mark, err) : status;
}

static pal_status pin_message(pal_call *call, pal_error *err)
{
    pal_mark mark = {.kind = PAL_MARK_PIN};
    pal_status status = read_seq(call, "seq", 1, &mark.seq, err);
    return status == PAL_OK ? add_mark(call, mark, err) : status;
}

static pal_status unpin_message(pal_call *call, pal_error *err)
{
    pal_mark mark = {.kind = PAL_MARK_UNPIN};
    if (!pal_call_number(call->params[1], &mark.seq))
        return pal_error_set(err, PAL_INVALID, "the path must end in the seq of a message");
    return add_mark(call, mark, err);
}

/* Like pal_store_reset(), but does not wait for the commit. */
static pal_status reset_session(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_message_page first = {0};
    pal_message_query load = {.limit = 1};
    pal_mark mark = {.kind = PAL_MARK_RESET};
    bool keep_system = true;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_call_flag(call, call->body, "keep_system_message", &keep_system, err);
    if (status == PAL_OK && keep_system)
        status = pal_store_load(call->server->store, call->caller.tenant, session.id, &load,
                call->arena, &first, err);
    if (status != PAL_OK)
        return status;
    if (first.len && first.items[0].role == PAL_ROLE_SYSTEM)
        mark.seq = first.items[0].seq;
    return add_mark(call, mark, err);
}

static pal_status truncate_session(pal_call *call, pal_error *err)
{
    pal_session session;
    uint64_t keep = UINT64_MAX;
    pal_mark mark = {.kind = PAL_MARK_REWIND};
    pal_status status = pal_call_count(call, call->body, "keep", 0, UINT32_MAX, &keep, err);
    if (status == PAL_OK && keep == UINT64_MAX) {
        call->fail_param = "keep";
        status = pal_error_set(err, PAL_INVALID,
                "'keep' is missing; send the number of messages to keep");
    }
    if (status == PAL_OK)
        status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_store_truncate(call->server->store, call->caller.tenant, session.id,
                (uint32_t)keep, &mark, err);
    if (status == PAL_OK && mark.number)
        status = pal_native_mark_put(pal_call_writer(call), &mark, err);
    else if (status == PAL_OK)
        pal_json_put_raw(pal_call_writer(call), pal_str_of("{\"number\":0,\"kind\":\"rewind\"}"));
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

/* ---- Compactions ---- */

/* If the request names no compaction, this is the newest one that is in effect. */
static pal_status find_checkpoint(
        pal_call *call, const pal_session *session, uint64_t *number, pal_error *err)
{
    pal_mark *marks = NULL;
    size_t len = 0;
    pal_status status = pal_store_marks(
            call->server->store, call->caller.tenant, session->id, call->arena, &marks, &len, err);
    for (size_t i = len; status == PAL_OK && i-- > 0;) {
        const pal_mark *mark = &marks[i];
        bool is_it = *number ? mark->number == *number && !mark->inherited : !mark->undone;
        if (is_it && mark->kind == PAL_MARK_CHECKPOINT) {
            *number = mark->number;
            return PAL_OK;
        }
    }
    if (status != PAL_OK)
        return status;
    call->fail_param = "number";
    return pal_error_set(err, PAL_NOT_FOUND, "the session has no such compaction");
}

static pal_status undo_compaction(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_mark mark = {.kind = PAL_MARK_UNDO};
    pal_status status = pal_call_query_count(call, "number", 1, INT64_MAX, &mark.target, err);
    if (status == PAL_OK)
        status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = find_checkpoint(call, &session, &mark.target, err);
    return status == PAL_OK ? add_mark(call, mark, err) : status;
}

static pal_status list_marks(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_mark *marks = NULL;
    size_t len = 0;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_store_marks(call->server->store, call->caller.tenant, session.id, call->arena,
                &marks, &len, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "marks");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        status = pal_native_mark_put(writer, &marks[i], err);
    pal_json_end_array(writer);
    pal_json_end_object(writer);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

const pal_api_route pal_branch_routes[] = {
        {"POST", "/api/v1/sessions/{id}/fork", PAL_KEY_WRITE, PAL_API_JSON, fork_session,
                {"forkSession",
                        "fork a session: the new session shares its messages up to a seq", NULL,
                        "ForkRequest", "Session", 201}},
        {"POST", "/api/v1/sessions/{id}/rewind", PAL_KEY_WRITE, PAL_API_JSON, rewind_session,
                {"rewindSession", "hide all messages after a seq", NULL,
                        "RewindRequest", "Mark", 200}},
        {"POST", "/api/v1/sessions/{id}/reset", PAL_KEY_WRITE, PAL_API_ANY_JSON, reset_session,
                {"resetSession", "hide all messages", NULL, "ResetRequest", "Mark",
                        200}},
        {"POST", "/api/v1/sessions/{id}/truncate", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                truncate_session,
                {"truncateSession", "hide all but the newest messages", NULL,
                        "TruncateRequest", "Mark", 200}},
        {"POST", "/api/v1/sessions/{id}/undo", PAL_KEY_WRITE, PAL_API_JSON, undo_mark,
                {"undoMark", "undo a rewind, a reset, a compaction or a pin", NULL,
                        "UndoRequest", "Mark", 200}},
        {"DELETE", "/api/v1/sessions/{id}/compact", PAL_KEY_WRITE, PAL_API_WORKER,
                undo_compaction,
                {"undoCompaction", "undo the newest compaction, or the one with the given number",
                        "number", NULL, "Mark", 200}},
        {"POST", "/api/v1/sessions/{id}/pins", PAL_KEY_WRITE, PAL_API_JSON, pin_message,
                {"pinMessage", "keep a message in every context", NULL, "PinRequest", "Mark", 200}},
        {"DELETE", "/api/v1/sessions/{id}/pins/{seq}", PAL_KEY_WRITE, 0, unpin_message,
                {"unpinMessage", "remove the pin of a message", NULL, NULL, "Mark", 200}},
        {"GET", "/api/v1/sessions/{id}/marks", PAL_KEY_READ, PAL_API_WORKER, list_marks,
                {"listMarks", "list the marks of a session, oldest first", NULL, NULL,
                        "MarkList", 200}},
        {0},
};
