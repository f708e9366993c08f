/* api_branch.c - operations on a session's history: forks, rewinds, resets, pins and undo, and the
 * lists of the marks and the forks that they leave. No operation in this file removes a message. */
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "server/api/api_object.h"
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

static const pal_api_object fork_body = {"ForkRequest",
        .members = PAL_API_MEMBERS(
                {"at_seq", PAL_API_COUNT, "the seq of the last shared message",
                        .offset = offsetof(pal_api_session_request, at_seq)},
                {.type = PAL_API_INCLUDE, .of = &pal_api_session_settings})};

static pal_status fork_session(pal_call *call, pal_error *err)
{
    pal_session parent;
    pal_api_session_request *request = pal_arena_array(call->arena, 1, sizeof *request);
    pal_op *op = pal_arena_array(call->arena, 1, sizeof *op);
    if (!request || !op)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_call_session(call, call->params[0], &parent, err);
    if (status != PAL_OK)
        return status;
    request->at_seq = PAL_SEQ_ANY;
    status = pal_api_session_read(call, &fork_body, request, err);
    if (status != PAL_OK)
        return status;
    pal_session *session = &request->session;
    if (!session->title.len)
        session->title = parent.title;
    if (!session->agent.len)
        session->agent = parent.agent;
    if (!session->project.len)
        session->project = parent.project;
    session->id = pal_call_derived_id(call, 0);
    *op = pal_op_fork(session, parent.id, request->at_seq);
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
    *op = pal_op_mark(call->caller.tenant, session.id, mark);
    return pal_call_apply(call, op, 1, marked, err);
}

/* Adds a mark with the fields that the request sets. */
static pal_status read_mark(
        pal_call *call, const pal_api_object *body, pal_mark mark, pal_error *err)
{
    pal_status status = pal_api_object_read(call, call->body, body, &mark, err);
    return status == PAL_OK ? add_mark(call, mark, err) : status;
}

static const pal_api_object rewind_body = {"RewindRequest",
        .members = PAL_API_MEMBERS(
                {"to_seq", PAL_API_COUNT, "the seq of a message", .offset = offsetof(pal_mark, seq),
                .is_required = true})};

static pal_status rewind_session(pal_call *call, pal_error *err)
{
    return read_mark(call, &rewind_body, (pal_mark){.kind = PAL_MARK_REWIND}, err);
}

static const pal_api_object undo_body = {"UndoRequest",
        .members = PAL_API_MEMBERS(
                {"number", PAL_API_COUNT, "the number of a mark; the newest if absent",
                .offset = offsetof(pal_mark, target), .min = 1})};

static pal_status undo_mark(pal_call *call, pal_error *err)
{
    return read_mark(call, &undo_body, (pal_mark){.kind = PAL_MARK_UNDO}, err);
}

static const pal_api_object pin_body = {"PinRequest",
        .members = PAL_API_MEMBERS(
                {"seq", PAL_API_COUNT, "the seq of a message", .offset = offsetof(pal_mark, seq),
                .min = 1, .is_required = true})};

static pal_status pin_message(pal_call *call, pal_error *err)
{
    return read_mark(call, &pin_body, (pal_mark){.kind = PAL_MARK_PIN}, err);
}

static pal_status unpin_message(pal_call *call, pal_error *err)
{
    pal_mark mark = {.kind = PAL_MARK_UNPIN};
    if (!pal_call_number(call->params[1], &mark.seq))
        return pal_error_set(err, PAL_INVALID, "the path must end in the seq of a message");
    return add_mark(call, mark, err);
}

typedef struct reset_request {
    bool keep_system;
} reset_request;

const pal_api_object pal_api_reset_body = {"ResetRequest",
        .members = PAL_API_MEMBERS(
                {"keep_system_message", PAL_API_FLAG,
                "whether a system message at the start stays visible (true)",
                .offset = offsetof(reset_request, keep_system)})};

/* Like pal_store_reset(), but does not wait for the commit. */
static pal_status reset_session(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_message_page first = {0};
    pal_message_query load = {.limit = 1};
    pal_mark mark = {.kind = PAL_MARK_RESET};
    reset_request request = {.keep_system = true};
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_object_read(call, call->body, &pal_api_reset_body, &request, err);
    if (status == PAL_OK && request.keep_system)
        status = pal_store_load(call->server->store, call->caller.tenant, session.id, &load,
                call->arena, &first, err);
    if (status != PAL_OK)
        return status;
    if (first.len && first.items[0].role == PAL_ROLE_SYSTEM)
        mark.seq = first.items[0].seq;
    return add_mark(call, mark, err);
}

typedef struct truncate_request {
    uint32_t keep;
} truncate_request;

static const pal_api_object truncate_body = {"TruncateRequest",
        .members = PAL_API_MEMBERS(
                {"keep", PAL_API_COUNT32, "the number of messages to keep",
                .offset = offsetof(truncate_request, keep), .is_required = true})};

static pal_status truncate_session(pal_call *call, pal_error *err)
{
    pal_session session;
    truncate_request request;
    pal_mark mark = {.kind = PAL_MARK_REWIND};
    pal_status status = pal_api_object_read(call, call->body, &truncate_body, &request, err);
    if (status != PAL_OK)
        return status;
    status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    status = pal_store_truncate(call->server->store, call->caller.tenant, session.id,
            request.keep, &mark, err);
    if (status != PAL_OK)
        return status;
    if (mark.number)
        status = pal_native_mark_put(pal_call_writer(call), &mark, err);
    else
        pal_json_put_raw(pal_call_writer(call), pal_str_of("{\"number\":0,\"kind\":\"rewind\"}"));
    if (status != PAL_OK)
        return status;
    pal_call_send(call, 200);
    return PAL_OK;
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
    if (status != PAL_OK)
        return status;
    for (size_t i = len; i-- > 0;) {
        const pal_mark *mark = &marks[i];
        bool is_it = *number ? mark->number == *number && !mark->inherited : !mark->undone;
        if (is_it && mark->kind == PAL_MARK_CHECKPOINT) {
            *number = mark->number;
            return PAL_OK;
        }
    }
    call->fail_param = "number";
    return pal_error_set(err, PAL_NOT_FOUND, "the session has no such compaction");
}

static const pal_api_object compaction_query = {
        .members = PAL_API_MEMBERS(
                {"number", PAL_API_COUNT,
                "number of the compaction; the newest if absent", .offset = offsetof(pal_mark,
                target),
                .min = 1})};

static pal_status undo_compaction(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_mark mark = {.kind = PAL_MARK_UNDO};
    pal_status status = pal_api_query_read(call, &compaction_query, &mark, err);
    if (status != PAL_OK)
        return status;
    status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    status = find_checkpoint(call, &session, &mark.target, err);
    return status == PAL_OK ? add_mark(call, mark, err) : status;
}

/* ---- Lists of marks ---- */

/* Writes a mark, and whether it is in effect now. */
static pal_status put_mark(
        pal_call *call, const pal_mark *mark, bool is_standing, pal_error *err)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_SERVER_ANSWER_BYTES_MAX);
    pal_json_writer native = pal_json_writer_make(&buf), *writer = pal_call_writer(call);
    pal_status status = pal_native_mark_put(&native, mark, err);
    if (status == PAL_OK && buf.failure)
        status = pal_error_set(err, buf.failure, "out of memory");
    if (status == PAL_OK) {
        pal_json_begin_object(writer);
        pal_json_put_members(writer, pal_buf_str(&buf));
        if (is_standing)
            pal_put_flag(writer, "standing", true);
        pal_json_end_object(writer);
    }
    pal_buf_done(&buf);
    return status;
}

static const pal_api_object marks_query = {
        .members = PAL_API_MEMBERS(
                {"after", PAL_API_COUNT, "how many of the oldest marks are left out",
                        .offset = offsetof(pal_mark_query, after)},
                {"limit", PAL_API_COUNT32, "maximum number of marks",
                        .offset = offsetof(pal_mark_query, limit), .min = 1,
                        .max = PAL_SERVER_MARK_PAGE_MAX},
                {"bodies", PAL_API_FLAG, "whether the marks have their bodies (true)",
                        .offset = offsetof(pal_mark_query, bodies)})};

static pal_status read_marks(
        pal_call *call, const pal_mark_query *query, pal_mark_page *out_page, pal_error *err)
{
    pal_session session;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    return pal_store_mark_page(call->server->store, call->caller.tenant, session.id, query,
            call->arena, out_page, err);
}

static pal_status list_marks(pal_call *call, pal_error *err)
{
    pal_mark_page page;
    pal_mark_query query = {.bodies = true};
    pal_status status = pal_api_query_read(call, &marks_query, &query, err);
    if (status == PAL_OK)
        status = read_marks(call, &query, &page, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "marks");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < page.len; i++)
        status = put_mark(call, &page.items[i], page.standing[i], err);
    pal_json_end_array(writer);
    pal_put_flag(writer, "has_more", page.has_more);
    pal_json_end_object(writer);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

static pal_status get_mark(pal_call *call, pal_error *err)
{
    pal_mark_page page;
    pal_mark_query query = {.bodies = true};
    if (!pal_call_number(call->params[1], &query.number) || query.number == 0)
        return pal_error_set(err, PAL_INVALID, "the path must end in the number of a mark");
    pal_status status = read_marks(call, &query, &page, err);
    if (status == PAL_OK)
        status = put_mark(call, &page.items[0], page.standing[0], err);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

/* ---- The family of forks ---- */

/* The turns of this server that have not ended. */
typedef struct current_turns {
    pal_turn_entry *items;
    size_t len;
} current_turns;

static pal_status find_turns(pal_call *call, current_turns *out_turns, pal_error *err)
{
    pal_turn_query query = {.tenant = call->caller.tenant};
    bool has_more;
    for (int state = PAL_TURN_QUEUED; state < PAL_TURN_DONE; state++)
        query.states |= 1u << state;
    return pal_turn_list(call->server->runtime, &query, call->arena, &out_turns->items,
            &out_turns->len, &has_more, err);
}

/* Writes the state of the session's oldest turn, or null. */
static void put_turn(pal_json_writer *writer, const current_turns *turns, pal_id session)
{
    for (size_t i = 0; i < turns->len; i++) {
        if (pal_id_equal(turns->items[i].info.session, session)) {
            pal_put_text(writer, "turn", pal_turn_state_name(turns->items[i].info.state));
            return;
        }
    }
    pal_put_null(writer, "turn");
}

static pal_status put_node(pal_call *call, const pal_session *session, const current_turns *turns,
        pal_error *err)
{
    pal_str title;
    pal_json_writer *writer = pal_call_writer(call);
    pal_status status = pal_store_title(call->server->store, session, call->arena, &title, err);
    if (status != PAL_OK)
        return status;
    pal_json_begin_object(writer);
    pal_put_id(writer, "id", session->id);
    pal_put_str_or_null(writer, "key", session->key);
    pal_put_str(writer, "title", title);
    if (pal_id_is_none(session->parent_id))
        pal_put_null(writer, "parent_id");
    else
        pal_put_id(writer, "parent_id", session->parent_id);
    pal_put_count(writer, "fork_seq", session->fork_seq);
    pal_put_count(writer, "last_seq", session->last_seq);
    pal_put_text(writer, "state", pal_session_state_name(session->state));
    pal_put_time(writer, "updated_at", session->updated_at);
    put_turn(writer, turns, session->id);
    pal_json_end_object(writer);
    return PAL_OK;
}

static pal_status get_tree(pal_call *call, pal_error *err)
{
    pal_session session, *family;
    current_turns turns = {0};
    size_t len;
    bool has_more;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_store_family(call->server->store, call->caller.tenant, session.id,
                call->arena, &family, &len, &has_more, err);
    if (status == PAL_OK)
        status = find_turns(call, &turns, err);
    if (status != PAL_OK)
        return status;
    call->is_mixed = true;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_id(writer, "root", len ? family[0].id : session.id);
    pal_json_name(writer, "nodes");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < len; i++)
        status = put_node(call, &family[i], &turns, err);
    pal_json_end_array(writer);
    pal_put_flag(writer, "has_more", has_more);
    pal_json_end_object(writer);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

/* ---- Routes ---- */

static const pal_api_object mark_body = {"Mark", .written = &pal_native_mark_table,
        .members = PAL_API_MEMBERS(
                {"number", PAL_API_COUNT, .is_required = true},
                {"kind", PAL_API_TEXT, .is_required = true},
                {"standing", .type = PAL_API_FLAG})};

static const pal_api_object mark_list_body = {"MarkList",
        .members = PAL_API_MEMBERS(
                {"marks", PAL_API_LIST, .of = &mark_body, .is_required = true},
                {"has_more", PAL_API_FLAG, .is_required = true})};

static const pal_api_object node_body = {"TreeNode",
        .members = PAL_API_MEMBERS(
                {"id", PAL_API_TEXT, .is_required = true},
                {"key", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"title", PAL_API_TEXT, .is_required = true},
                {"parent_id", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"fork_seq", PAL_API_COUNT, .is_required = true},
                {"last_seq", PAL_API_COUNT, .is_required = true},
                {"state", PAL_API_TEXT, .is_required = true},
                {"updated_at", PAL_API_TIME, .is_required = true},
                {"turn", PAL_API_TEXT, .is_required = true, .is_nullable = true})};

static const pal_api_object tree_body = {"Tree",
        .members = PAL_API_MEMBERS(
                {"root", PAL_API_TEXT, .is_required = true},
                {"nodes", PAL_API_LIST, .of = &node_body, .is_required = true},
                {"has_more", PAL_API_FLAG, .is_required = true})};

const pal_api_route pal_branch_routes[] = {
        {"POST", "/api/v1/sessions/{id}/fork", PAL_KEY_WRITE, PAL_API_JSON, fork_session,
                {"forkSession",
                        "fork a session: the new session shares its messages up to a seq", NULL,
                        &fork_body, &pal_api_session_body, 201}},
        {"POST", "/api/v1/sessions/{id}/rewind", PAL_KEY_WRITE, PAL_API_JSON, rewind_session,
                {"rewindSession", "hide all messages after a seq", NULL,
                        &rewind_body, &mark_body, 200}},
        {"POST", "/api/v1/sessions/{id}/reset", PAL_KEY_WRITE, PAL_API_ANY_JSON, reset_session,
                {"resetSession", "hide all messages", NULL, &pal_api_reset_body, &mark_body,
                        200}},
        {"POST", "/api/v1/sessions/{id}/truncate", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                truncate_session,
                {"truncateSession", "hide all but the newest messages", NULL,
                        &truncate_body, &mark_body, 200}},
        {"POST", "/api/v1/sessions/{id}/undo", PAL_KEY_WRITE, PAL_API_JSON, undo_mark,
                {"undoMark", "undo a rewind, a reset, a compaction or a pin", NULL,
                        &undo_body, &mark_body, 200}},
        {"DELETE", "/api/v1/sessions/{id}/compact", PAL_KEY_WRITE, PAL_API_WORKER,
                undo_compaction,
                {"undoCompaction", "undo the newest compaction, or the one with the given number",
                        &compaction_query, NULL, &mark_body, 200}},
        {"POST", "/api/v1/sessions/{id}/pins", PAL_KEY_WRITE, PAL_API_JSON, pin_message,
                {"pinMessage", "keep a message in every context", NULL, &pin_body, &mark_body,
                        200}},
        {"DELETE", "/api/v1/sessions/{id}/pins/{seq}", PAL_KEY_WRITE, 0, unpin_message,
                {"unpinMessage", "remove the pin of a message", NULL, NULL, &mark_body, 200}},
        {"GET", "/api/v1/sessions/{id}/marks", PAL_KEY_READ, PAL_API_WORKER, list_marks,
                {"listMarks", "list the marks of a session, oldest first", &marks_query, NULL,
                        &mark_list_body, 200}},
        {"GET", "/api/v1/sessions/{id}/marks/{n}", PAL_KEY_READ, PAL_API_WORKER, get_mark,
                {"getMark", "read one mark of the session itself", NULL, NULL, &mark_body, 200}},
        {"GET", "/api/v1/sessions/{id}/tree", PAL_KEY_READ, PAL_API_WORKER, get_tree,
                {"getTree", "list the session, its parents and all their forks", NULL, NULL,
                        &tree_body, 200}},
        {0},
};
