/* api_mistral_start.c - start, append, restart: what makes a model speak in a conversation.
 *
 * Each reads and checks everything, makes the session that it needs, and runs in it
 * (api_mistral_run.h). With store:false that session is one that passes: a fork, where there is a
 * conversation already. */
#include "base/clock.h"
#include "dialect/dialect_member.h"
#include "server/api_mistral_run.h"
#include "server/api_session.h"
#include "server/server_call.h"

#define PASSING_MS (24 * 3600 * 1000) /* after which a session that passes is swept in any case */
#define OPEN_CALLS_MESSAGES 256       /* from the end, in which calls wait for results */
#define RESULTS_MESSAGES 64           /* that follow a call */

typedef struct mistral_start {
    pal_call *call;
    pal_mistral_run_options run;
    pal_mistral_settings settings;
    pal_json args;
    bool is_stored;
    pal_session session; /* to be made */
    pal_record records[2];
    pal_op *ops;
    size_t ops_len;
} mistral_start;

/* ---- What all three read ---- */

static mistral_start *new_start(pal_call *call, pal_error *err)
{
    mistral_start *start = pal_arena_alloc(call->arena, sizeof *start);
    if (!start) {
        (void)!pal_arena_checked(call->arena, err);
        return NULL;
    }
    start->call = call;
    start->is_stored = true;
    start->args = pal_json_find(call->body, "completion_args");
    return start;
}

static pal_status read_execution(mistral_start *start, pal_error *err)
{
    pal_json value = pal_json_find(start->call->body, "handoff_execution");
    if (pal_mistral_is_absent(value) || pal_json_string_is(value, "server"))
        return PAL_OK;
    if (!pal_json_string_is(value, "client"))
        return pal_mistral_wrong(start->call, "handoff_execution", err,
                "'handoff_execution' must be server or client");
    start->run.is_clients = true;
    return PAL_OK;
}

static pal_status read_inputs(mistral_start *start, bool is_required, pal_error *err)
{
    pal_call *call = start->call;
    pal_json inputs = pal_json_find(call->body, "inputs");
    if (pal_mistral_is_absent(inputs) && !is_required)
        return PAL_OK;
    call->fail_param = "inputs";
    pal_status status = pal_mistral_inputs_read(
            inputs, call->arena, &start->run.messages, &start->run.messages_len, err);
    if (status == PAL_OK && is_required && start->run.messages_len == 0)
        return pal_error_set(err, PAL_INVALID, "'inputs' is empty: say something");
    if (status == PAL_OK)
        call->fail_param = NULL;
    return status;
}

static pal_status read_common(mistral_start *start, bool is_required, pal_error *err)
{
    pal_call *call = start->call;
    pal_status status = read_inputs(start, is_required, err);
    if (status == PAL_OK)
        status = pal_call_flag(call, call->body, "stream", &start->run.is_stream, err);
    if (status == PAL_OK)
        status = pal_call_flag(call, call->body, "store", &start->is_stored, err);
    if (status == PAL_OK)
        status = pal_mistral_args_check(call, start->args, err);
    if (status == PAL_OK)
        status = read_execution(start, err);
    return status;
}

/* ---- Results belong to calls ---- */

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

static pal_status check_result(const mistral_start *start, const pal_messages *before, size_t at,
        const pal_part *part, pal_error *err)
{
    const pal_message *own = start->run.messages;
    bool is_called = has_part(own, at, PAL_PART_TOOL_CALL, part->call_id) ||
            has_part(before->items, before->len, PAL_PART_TOOL_CALL, part->call_id);
    bool is_known = has_part(own, at, PAL_PART_TOOL_RESULT, part->call_id) ||
            has_part(before->items, before->len, PAL_PART_TOOL_RESULT, part->call_id);
    if (is_called && !is_known)
        return PAL_OK;
    return pal_mistral_wrong(start->call, "inputs", err,
            is_called ? "the call '%.*s' has its result already"
                      : "there is no call '%.*s' that waits for a result",
            (int)(part->call_id.len < 80 ? part->call_id.len : 80), part->call_id.data);
}

/* In the session up to `before_seq` (0: the newest), or none where it is new. */
static pal_status check_results(
        mistral_start *start, pal_id session, uint64_t before_seq, pal_error *err)
{
    pal_call *call = start->call;
    pal_messages before = {0};
    const pal_load load = {
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

/* ---- Making the session ---- */

/* Runs on the writer's thread. */
static void made(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    mistral_start *start = call->user;
    pal_error own = {0};
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status != PAL_OK) {
        pal_call_fail(call, pal_mistral_checked(call, status), err);
        return;
    }
    status = pal_mistral_run(call, &start->run, &own);
    if (status != PAL_OK)
        pal_call_fail(call, status, &own);
}

static pal_op *add_op(mistral_start *start, pal_op_kind kind)
{
    pal_op *op = &start->ops[start->ops_len];
    *op = (pal_op){.kind = kind,
            .tenant = start->call->caller.tenant,
            .session = start->session.id,
            .with_previous = start->ops_len > 0};
    start->ops_len++;
    return op;
}

static void add_record(mistral_start *start, size_t at, const char *kind, pal_str body)
{
    char name[PAL_ID_TEXT_SIZE];
    pal_op *op = add_op(start, PAL_OP_RECORD_PUT);
    pal_id_to_text(start->session.id, name);
    start->records[at] = (pal_record){.kind = pal_str_of(kind),
            .name = pal_arena_copy(start->call->arena, pal_str_of(name)),
            .session = start->session.id,
            .body = body};
    op->u.record.record = &start->records[at];
    op->u.record.expected_version = PAL_VERSION_ANY;
}

static pal_status begin_session(mistral_start *start, size_t more_ops, pal_error *err)
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

static pal_status make_session(mistral_start *start, pal_error *err)
{
    if (start->is_stored)
        add_record(start, 0, PAL_MISTRAL_CONVERSATION, pal_str_of("{}"));
    pal_status status = pal_arena_checked(start->call->arena, err);
    start->call->user = start;
    if (status == PAL_OK)
        status = pal_call_apply(start->call, start->ops, start->ops_len, made, err);
    return status;
}

/* ---- Start ---- */

static pal_status start_conversation(pal_call *call, pal_error *err)
{
    mistral_start *start = new_start(call, err);
    if (!start)
        return err->status;
    pal_status status = pal_mistral_settings_read(call, &start->settings, err);
    if (status == PAL_OK)
        status = read_common(start, true, err);
    if (status == PAL_OK)
        status = check_results(start, (pal_id){{0}}, 0, err);
    if (status == PAL_OK)
        status =
                pal_mistral_legs_make(call, &start->settings, (pal_json){0}, &start->run.legs, err);
    if (status == PAL_OK)
        status = pal_mistral_settings_keep(call, &start->settings, &start->session.metadata, err);
    if (status == PAL_OK)
        status = begin_session(start, 0, err);
    if (status != PAL_OK)
        return status;
    start->session.title = start->settings.name;
    start->run.conversation = start->session.id;
    add_op(start, PAL_OP_CREATE)->u.create.session = &start->session;
    return make_session(start, err);
}

/* ---- Append ---- */

static pal_status append_passing(mistral_start *start, const pal_session *parent, pal_error *err)
{
    pal_status status = begin_session(start, 0, err);
    if (status != PAL_OK)
        return status;
    start->session.metadata = parent->metadata;
    pal_op *op = add_op(start, PAL_OP_FORK);
    op->u.fork.session = &start->session;
    op->u.fork.parent = parent->id;
    op->u.fork.at_seq = PAL_SEQ_ANY;
    return make_session(start, err);
}

/* The turn that asks goes on. */
static pal_status confirm(
        mistral_start *start, const pal_turn_info *info, pal_str asked, pal_error *err)
{
    pal_call *call = start->call;
    bool allow = false;
    pal_status status = pal_mistral_confirmation(call, asked, &allow, err);
    if (status == PAL_OK && start->run.messages_len)
        return pal_mistral_wrong(
                call, "inputs", err, "give 'inputs' after the confirmed call has ended");
    if (status == PAL_OK)
        status = pal_turn_allow(call->server->runtime, call->caller.tenant, info->turn, allow, err);
    start->run.turn = info->turn;
    start->run.after = info->events;
    return status == PAL_OK ? pal_mistral_run(call, &start->run, err) : status;
}

static pal_status append_stored(mistral_start *start, pal_error *err)
{
    pal_call *call = start->call;
    pal_turn_info info;
    pal_str asked = {0};
    bool confirms = !pal_mistral_is_absent(pal_json_find(call->body, "tool_confirmations"));
    pal_status status = pal_mistral_asked(call, start->run.session, &info, &asked, err);
    if (status == PAL_OK && confirms)
        return confirm(start, &info, asked, err);
    if (status == PAL_OK && asked.len)
        return pal_mistral_wrong(call, "tool_confirmations", err,
                "the call '%.*s' waits for a confirmation: give 'tool_confirmations'",
                (int)(asked.len < 80 ? asked.len : 80), asked.data);
    return status == PAL_OK ? pal_mistral_run(call, &start->run, err) : status;
}

static pal_status append(pal_call *call, pal_error *err)
{
    pal_session session;
    mistral_start *start = new_start(call, err);
    if (!start)
        return err->status;
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, &session, err);
    if (status == PAL_OK)
        status = read_common(start, false, err);
    if (status == PAL_OK)
        status = pal_mistral_settings_of(call, &session, &start->settings, err);
    if (status == PAL_OK)
        status = check_results(start, session.id, 0, err);
    if (status == PAL_OK)
        status = pal_mistral_legs_make(call, &start->settings, start->args, &start->run.legs, err);
    if (status != PAL_OK)
        return status;
    start->run.conversation = start->run.session = session.id;
    return start->is_stored ? append_stored(start, err) : append_passing(start, &session, err);
}

/* ---- Restart ---- */

typedef struct restart_point {
    uint64_t seq;                    /* the last message that stays */
    const pal_mistral_entry *hidden; /* behind its parts the rest of its message is hidden */
} restart_point;

static pal_status no_entry(pal_call *call, pal_str id, pal_error *err)
{
    call->fail_param = "from_entry_id";
    return pal_error_set(err, PAL_NOT_FOUND, "there is no entry '%.*s' in the conversation",
            (int)(id.len < 80 ? id.len : 80), id.data ? id.data : "");
}

/* Up to where messages of tools follow: a call stays with its results. */
static uint64_t end_of_results(const pal_messages *list)
{
    size_t i = 1;
    while (i < list->len && list->items[i].role == PAL_ROLE_TOOL)
        i++;
    return list->items[i - 1].seq;
}

static pal_status find_point(
        pal_call *call, pal_id session, pal_str id, restart_point *out_point, pal_error *err)
{
    pal_store *store = call->server->store;
    pal_id message_id, owner;
    pal_message message;
    pal_messages list;
    pal_mistral_entry *entries;
    size_t len = 0, i = 0;
    if (!pal_mistral_entry_parse(id, &message_id))
        return no_entry(call, id, err);
    pal_status status = pal_store_message(
            store, call->caller.tenant, message_id, call->arena, &message, &owner, err);
    if (status == PAL_NOT_FOUND)
        return no_entry(call, id, err);
    const pal_load load = {.after_seq = message.seq - 1, .limit = RESULTS_MESSAGES};
    if (status == PAL_OK)
        status =
                pal_store_load(store, call->caller.tenant, session, &load, call->arena, &list, err);
    if (status == PAL_OK && (list.len == 0 || !pal_id_equal(list.items[0].id, message_id)))
        return no_entry(call, id, err);
    if (status == PAL_OK)
        status = pal_mistral_entries(call, &list, (pal_str){0}, &entries, &len, err);
    for (; i < len; i++) {
        char own[PAL_MISTRAL_ENTRY_ID_SIZE];
        pal_mistral_entry_id(entries[i].kind, entries[i].message->id, entries[i].number, own);
        if (pal_str_is(id, own))
            break;
    }
    if (status == PAL_OK && i == len)
        return no_entry(call, id, err);
    if (status != PAL_OK)
        return status;
    bool is_execution = entries[i].kind == PAL_ENTRY_EXECUTION;
    out_point->seq = is_execution ? end_of_results(&list) : list.items[0].seq;
    out_point->hidden = is_execution ? NULL : &entries[i];
    return PAL_OK;
}

/* Who spoke there, where it had been handed over. */
static pal_status find_speaker(mistral_start *start, pal_id session, uint64_t seq, pal_error *err)
{
    pal_call *call = start->call;
    pal_mistral_settings *settings = &start->settings;
    pal_messages list = {0};
    pal_mistral_entry *entries;
    size_t len = 0;
    const pal_load load = {.before_seq = seq + 1};
    pal_status status = PAL_OK;
    if (settings->speaker_id.len == 0)
        return PAL_OK;
    settings->speaker_id = (pal_str){0};
    status = pal_store_load(
            call->server->store, call->caller.tenant, session, &load, call->arena, &list, err);
    if (status == PAL_OK)
        status = pal_mistral_entries(call, &list, settings->agent_id, &entries, &len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        if (entries[i].kind == PAL_ENTRY_HANDOFF)
            settings->speaker_id = pal_member_string(entries[i].kept, "next_agent_id", call->arena);
    }
    return status;
}

static pal_status add_speaker(mistral_start *start, pal_error *err)
{
    pal_buf buf;
    pal_str body = {0};
    if (start->settings.speaker_id.len == 0)
        return PAL_OK;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_quote(&buf, start->settings.speaker_id);
    pal_status status = pal_member_keep(&buf, start->call->arena, &body, err);
    pal_buf_done(&buf);
    if (status == PAL_OK)
        add_record(start, 1, PAL_MISTRAL_SPEAKER, body);
    return status;
}

static pal_status add_hiding(mistral_start *start, const restart_point *point, pal_error *err)
{
    const pal_mistral_entry *entry = point->hidden;
    size_t first = entry ? entry->first + entry->len : 0;
    for (size_t i = first; entry && i < entry->message->parts_len; i++) {
        const pal_part *part = &entry->message->parts[i];
        pal_mark *mark = pal_arena_alloc(start->call->arena, sizeof *mark);
        if (!mark)
            return pal_arena_checked(start->call->arena, err);
        *mark = (pal_mark){.kind = PAL_MARK_HIDE,
                .seq = point->seq,
                .target = part->number ? part->number : i + 1};
        add_op(start, PAL_OP_MARK)->u.mark = mark;
    }
    return PAL_OK;
}

static pal_status fork_session(
        mistral_start *start, const pal_session *parent, const restart_point *point, pal_error *err)
{
    size_t parts = point->hidden ? point->hidden->message->parts_len : 0;
    pal_status status = begin_session(start, parts, err);
    if (status == PAL_OK)
        status = pal_mistral_settings_keep(
                start->call, &start->settings, &start->session.metadata, err);
    if (status != PAL_OK)
        return status;
    start->session.title = parent->title;
    start->run.conversation = start->session.id;
    pal_op *op = add_op(start, PAL_OP_FORK);
    op->u.fork.session = &start->session;
    op->u.fork.parent = parent->id;
    op->u.fork.at_seq = point->seq;
    status = add_hiding(start, point, err);
    if (status == PAL_OK)
        status = add_speaker(start, err);
    return status == PAL_OK ? make_session(start, err) : status;
}

static pal_status read_restart(
        mistral_start *start, const pal_session *parent, restart_point *out_point, pal_error *err)
{
    pal_call *call = start->call;
    pal_str entry = {0};
    pal_status status =
            pal_call_text(call, call->body, "from_entry_id", PAL_NAME_LEN_MAX, &entry, err);
    if (status == PAL_OK && entry.len == 0)
        return pal_mistral_wrong(call, "from_entry_id", err, "'from_entry_id' is missing");
    if (status == PAL_OK)
        status = read_common(start, false, err);
    if (status == PAL_OK)
        status = find_point(call, parent->id, entry, out_point, err);
    if (status == PAL_OK)
        status = pal_mistral_settings_of(call, parent, &start->settings, err);
    if (status == PAL_OK)
        status = pal_mistral_metadata_read(call, &start->settings.metadata, err);
    if (status == PAL_OK)
        status = pal_mistral_version_read(call, &start->settings.agent_version, err);
    return status;
}

static pal_status restart(pal_call *call, pal_error *err)
{
    pal_session parent;
    restart_point point = {0};
    mistral_start *start = new_start(call, err);
    if (!start)
        return err->status;
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, &parent, err);
    if (status == PAL_OK)
        status = read_restart(start, &parent, &point, err);
    if (status == PAL_OK)
        status = check_results(start, parent.id, point.seq + 1, err);
    if (status == PAL_OK)
        status = find_speaker(start, parent.id, point.seq, err);
    if (status == PAL_OK)
        status = pal_mistral_legs_make(call, &start->settings, start->args, &start->run.legs, err);
    return status == PAL_OK ? fork_session(start, &parent, &point, err) : status;
}

PAL_MISTRAL_HANDLER(start_conversation)
PAL_MISTRAL_HANDLER(append)
PAL_MISTRAL_HANDLER(restart)

const pal_api_route pal_mistral_start_routes[] = {
        {"POST", "/mistral/v1/conversations", PAL_KEY_WRITE, PAL_ROUTE_JSON | PAL_ROUTE_WORKER,
                handle_start_conversation,
                {"mistralStartConversation", "begin one, and get the answer", NULL, "Object",
                        "Object", 200}},
        {"POST", "/mistral/v1/conversations/{id}", PAL_KEY_WRITE, PAL_ROUTE_JSON | PAL_ROUTE_WORKER,
                handle_append,
                {"mistralAppendConversation", "go on with one, and get the answer", NULL, "Object",
                        "Object", 200}},
        {"POST", "/mistral/v1/conversations/{id}/restart", PAL_KEY_WRITE,
                PAL_ROUTE_JSON | PAL_ROUTE_WORKER, handle_restart,
                {"mistralRestartConversation", "begin another from one of its entries", NULL,
                        "Object", "Object", 200}},
        {0},
};
