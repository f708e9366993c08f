/* api_record.c - names conversations, and records requests and their answers.
 *
 * The request itself is not changed: the model gets what the client sent. Only successful requests
 * are recorded, so that a retry is recorded once. A response is recorded before the client gets its
 * end, so that the session contains everything that the client has.
 *
 * Threads: one thread at a time uses a record. A crash before the record is written is harmless,
 * because the client sends its history again. */
#include "server/api/api_record.h"

#include "base/digest.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "server/server_call.h"
#include "server/server_settings.h"

/* Prefixes of keys. An import of a client's transcripts uses the same ones. */
#define CACHE "cache:"
#define HISTORY "history:"
#define SIDE ":side"

#define CLAUDE_CODE_HEADER "x-claude-code-session-id" /* of the first row below */

/* ---- Names ---- */

/* A header that names a conversation. */
typedef struct name_row {
    const char *header;
    const char *label;  /* prefix of the key */
    const char *begins; /* the value begins with this text; "": any value */
    const char *agent;  /* the client's name begins with this text; "": any client */
    /* Requests of clients whose name begins with this text are side requests if they have no tools;
     * NULL: there are no side requests. */
    const char *side_agent;
    bool side_has_schema; /* a side request also asks for an answer with a JSON schema */
    /* A request with this member is not a side request; NULL: any can be one. */
    const char *main_member;
    /* Names a sub-agent of the conversation, which has a history of its own; NULL: none. */
    const char *agent_header;
} name_row;

/* Sub-agents of Codex have the session-id of the conversation, and a thread-id of their own. */
static const name_row name_rows[] = {
        {CLAUDE_CODE_HEADER, "claude-code:", "", "", "claude-cli/", false,
                "context_management", "x-claude-code-agent-id"},
        {"thread-id", "codex:", "", "codex", "codex", true, NULL, NULL},
        {"session-id", "codex:", "", "codex", "codex", true, NULL, NULL},
        {"conversation_id", "codex:", "", "codex", "codex", true, NULL, NULL}, /* of old versions */
        {"session_id", "codex:", "", "codex", "codex", true, NULL, NULL},
        {"x-session-id", "opencode:", "ses_", "", "", false, NULL, NULL},
        {"x-session-affinity", "opencode:", "ses_", "", "", false, NULL, NULL},
};

static pal_str join(pal_arena *arena, pal_str a, pal_str b, pal_str c)
{
    char *data = pal_arena_alloc(arena, a.len + b.len + c.len + 1);
    if (!data)
        return (pal_str){0};
    memcpy(data, a.data, a.len);
    if (b.len)
        memcpy(data + a.len, b.data, b.len);
    if (c.len)
        memcpy(data + a.len + b.len, c.data, c.len);
    return pal_str_make(data, a.len + b.len + c.len);
}

static bool is_client(pal_call *call, const char *name)
{
    return pal_text_begins(pal_exchange_header(call->exchange, "user-agent"), name) ||
            pal_text_begins(pal_exchange_header(call->exchange, "originator"), name);
}

/* Codex sends the tools of some models as an item of the input. A request that continues a response
 * does not send that item again, so the complete request is searched. */
static bool has_tools(const pal_call *call, pal_str body)
{
    static const char item[] = "\"additional_tools\"";
    return pal_json_count(pal_json_find(call->body, "tools")) > 0 ||
            memmem(body.data, body.len, item, sizeof item - 1);
}

/* Clients ask for a title, some of them under the name of the conversation. Such a request has no
 * tools. It is recorded apart, so that it does not become a branch of the conversation. */
static bool is_side_request(pal_call *call, pal_str body, const name_row *row)
{
    pal_json format = pal_json_find(pal_json_find(call->body, "text"), "format");
    bool has_schema = pal_json_string_is(pal_json_find(format, "type"), "json_schema");
    if (row->main_member &&
            pal_json_type_of(pal_json_find(call->body, row->main_member)) != PAL_JSON_NONE)
        return false;
    return row->side_agent && is_client(call, row->side_agent) &&
            (has_schema || !row->side_has_schema) && !has_tools(call, body);
}

/* Returns the key of the conversation that `name` names, of its sub-agent or its side requests. */
static pal_str key_of(pal_call *call, pal_str body, const name_row *row, pal_str name)
{
    pal_str key = join(call->arena, pal_str_of(row->label), name, (pal_str){0});
    pal_str agent = row->agent_header ? pal_exchange_header(call->exchange, row->agent_header)
                                      : (pal_str){0};
    if (agent.len)
        return join(call->arena, key, pal_str_of(":"), agent);
    if (is_side_request(call, body, row))
        return join(call->arena, key, pal_str_of(SIDE), (pal_str){0});
    return key;
}

/* Versions of Claude Code without the header have the id in metadata.user_id, as the end of a text
 * "..._session_ID" or as a member of JSON. */
static pal_str claude_code_session(pal_call *call)
{
    static const char before[] = "_session_";
    pal_json value;
    pal_str user = pal_member_string(
            pal_json_find(call->body, "metadata"), "user_id", call->arena);
    if (!user.len || !is_client(call, "claude-cli/"))
        return (pal_str){0};
    if (pal_json_parse(call->arena, user, NULL, &value, NULL) == PAL_OK)
        return pal_member_string(value, "session_id", call->arena);
    const char *at = memmem(user.data, user.len, before, sizeof before - 1);
    return at ? pal_text_after(user, (size_t)(at - user.data) + sizeof before - 1) : (pal_str){0};
}

pal_str pal_api_conversation_name(pal_call *call, pal_str body)
{
    pal_str name = call->exchange->headers.session;
    if (name.len)
        return name;
    for (size_t i = 0; i < sizeof name_rows / sizeof *name_rows; i++) {
        const name_row *row = &name_rows[i];
        name = pal_exchange_header(call->exchange, row->header);
        if (name.len && pal_text_begins(name, row->begins) && is_client(call, row->agent))
            return key_of(call, body, row, name);
    }
    name = claude_code_session(call);
    if (name.len)
        return key_of(call, body, &name_rows[0], name);
    name = pal_member_string(call->body, "prompt_cache_key", call->arena);
    return name.len ? join(call->arena, pal_str_of(CACHE), name, (pal_str){0}) : name;
}

pal_str pal_api_record_key(pal_call *call, pal_str body)
{
    pal_config_recorder setting = call->server->settings->recorder;
    if (setting == PAL_CONFIG_RECORDER_OFF)
        return call->exchange->headers.session;
    pal_str name = pal_api_conversation_name(call, body);
    if (name.len)
        return name;
    return setting == PAL_CONFIG_RECORDER_ON ? pal_str_of(HISTORY) : (pal_str){0};
}

/* Completes the key with the hash of the messages up to the first one of the user. */
static pal_status name_by_history(
        pal_api_record *record, const pal_recorder_history *history, pal_error *err)
{
    pal_recorder_hash hash = {{0}};
    char text[2 * PAL_RECORDER_HASH_SIZE + 1];
    bool counts, is_found = false;
    for (size_t i = 0; i < history->messages_len && !is_found; i++) {
        pal_status status = pal_recorder_hash_add(
                &hash, &history->messages[i], record->arena, &counts, err);
        if (status != PAL_OK)
            return status;
        is_found = counts && history->messages[i].role == PAL_ROLE_USER;
    }
    pal_hex(hash.bytes, PAL_RECORDER_HASH_SIZE / 2, text);
    record->key = join(record->arena, pal_str_of(HISTORY), pal_str_of(text), (pal_str){0});
    return pal_arena_checked(record->arena, err);
}

/* ---- Making a record ---- */

static bool is_side_key(pal_str key)
{
    size_t len = sizeof SIDE - 1;
    return key.len > len && memcmp(key.data + key.len - len, SIDE, len) == 0;
}

pal_api_record *pal_api_record_new(
        pal_call *call, const pal_api_record_format *format, pal_str key, pal_str body)
{
    pal_arena *arena = pal_arena_new(0);
    pal_api_record *record = arena ? pal_calloc(1, sizeof *record) : NULL;
    if (!record) {
        pal_arena_free(arena);
        return NULL;
    }
    record->format = format;
    record->server = call->server;
    record->arena = arena;
    record->tenant = pal_arena_copy(arena, call->caller.tenant);
    record->key = pal_arena_copy(arena, key);
    record->body = pal_arena_copy(arena, body);
    record->is_side = is_side_key(key) &&
            !pal_exchange_header(call->exchange, "x-palaver-session").len;
    pal_buf_init(&record->answer, PAL_PROVIDER_ANSWER_BYTES_MAX);
    if (pal_arena_failure(arena) != PAL_OK) {
        pal_api_record_free(record);
        return NULL;
    }
    return record;
}

void pal_api_record_free(pal_api_record *record)
{
    if (!record)
        return;
    pal_buf_done(&record->answer);
    pal_arena_free(record->arena);
    pal_free(record);
}

/* ---- Writing it ---- */

/* The answer is part of the history: a repeated request with the same answer adds nothing. */
static pal_status read_history(
        pal_api_record *record, pal_str answer, pal_recorder_history *out, pal_error *err)
{
    pal_message *asked, *answered;
    size_t asked_len, answered_len;
    pal_json request;
    pal_status status = pal_json_parse(record->arena, record->body, NULL, &request, err);
    if (status != PAL_OK)
        return status;
    status = record->format->read_request(record, request, &asked, &asked_len, err);
    if (status != PAL_OK)
        return status;
    status = record->format->read_answer(record, answer, &answered, &answered_len, err);
    if (status != PAL_OK)
        return status;
    out->messages =
            pal_arena_array(record->arena, asked_len + answered_len + 1, sizeof *out->messages);
    if (!out->messages)
        return pal_arena_checked(record->arena, err);
    if (asked_len)
        memcpy(out->messages, asked, asked_len * sizeof *asked);
    if (answered_len)
        memcpy(out->messages + asked_len, answered, answered_len * sizeof *answered);
    out->messages_len = asked_len + answered_len;
    return PAL_OK;
}

static pal_status write_record(
        pal_api_record *record, pal_str answer, pal_id *out_session, pal_error *err)
{
    pal_recorder_history history = {.tenant = record->tenant, .is_log = record->is_side};
    pal_recorder_place place;
    pal_status status = PAL_OK;
    if (record->is_stream)
        status = record->format->join(answer, record->arena, &answer, err);
    if (status != PAL_OK)
        return status;
    status = read_history(record, answer, &history, err);
    if (status != PAL_OK)
        return status;
    if (pal_str_is(record->key, HISTORY))
        status = name_by_history(record, &history, err);
    if (status != PAL_OK)
        return status;
    history.key = record->key;
    status = pal_recorder_request(record->server->store, &history, record->arena, &place, err);
    if (status != PAL_OK)
        return status;
    *out_session = place.session;
    if (record->server->client)
        record->server->client->on_recorded(
                record->server->client->user, record->tenant, record->key, place.session);
    if (!record->format->recorded)
        return PAL_OK;
    return record->format->recorded(record, answer, &place, err);
}

pal_id pal_api_record_write(pal_api_record *record, pal_str answer)
{
    pal_error err = {0};
    pal_id session = {{0}};
    if (write_record(record, answer, &session, &err) != PAL_OK)
        pal_log(PAL_LOG_WARN, "could not record a request in session '%.*s': %s",
                PAL_EXCERPT(record->key, 80), err.message);
    return session;
}

/* ---- The end of a run ---- */

/* Blocks. */
static void record_answer(pal_run *run, const pal_api_record_end *end)
{
    pal_buf answer;
    pal_buf_init(&answer, PAL_PROVIDER_ANSWER_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&answer);
    if (end->put_answer(run, &writer) && !answer.failure)
        pal_api_record_write(end->record_of(run), pal_buf_str(&answer));
    pal_buf_done(&answer);
}

void pal_api_record_send(pal_run *run, const pal_api_record_end *end)
{
    pal_call *call = pal_run_take_call(run);
    if (end->put_answer(run, pal_call_writer(call))) {
        pal_call_send(call, 200);
        return;
    }
    pal_error err;
    pal_error_set(&err, PAL_NO_MEMORY, "the answer could not be kept in memory");
    pal_call_fail(call, PAL_NO_MEMORY, &err);
}

void pal_api_record_and_send(pal_run *run, const pal_api_record_end *end)
{
    record_answer(run, end);
    pal_run_lock(run);
    pal_api_record_send(run, end);
    pal_run_unlock(run);
}

static void record_stream(pal_background_task *task)
{
    const pal_api_record *record = (pal_api_record *)task; /* its first member */
    pal_run *run = record->run;
    record_answer(run, record->end);
    pal_run_lock(run);
    record->end->write_last(run);
    pal_run_end(run);
    pal_run_unlock(run);
    pal_run_release(run); /* may free the record */
}

void pal_api_record_end_stream(pal_run *run, const pal_api_record_end *end)
{
    pal_api_record *record = end->record_of(run);
    if (!record || !run->stream) {
        end->write_last(run);
        return;
    }
    record->run = run;
    record->end = end;
    record->task.run = record_stream;
    if (!pal_background_add(run->server->background, &record->task)) {
        end->write_last(run);
        return;
    }
    pal_run_hold(run); /* the task cannot release the run before: it needs the lock */
    run->keeps_stream = true;
}

/* ---- Forwarded responses ---- */

static void observe_frames(void *user, pal_str frames)
{
    pal_api_record *record = user;
    record->is_stream = true;
    pal_buf_append_str(&record->answer, frames);
}

static void write_in_background(pal_background_task *task)
{
    pal_api_record *record = (pal_api_record *)task; /* its first member */
    pal_id session = pal_api_record_write(record, pal_buf_str(&record->answer));
    record->resume(record->relay, session); /* may free the record */
}

static void observe_complete(void *user, pal_forward_resume resume, void *relay)
{
    pal_api_record *record = user;
    record->task.run = write_in_background;
    record->resume = resume;
    record->relay = relay;
    if (!record->answer.failure && pal_background_add(record->server->background, &record->task))
        return;
    pal_log(PAL_LOG_WARN, "could not record a request in session '%.*s': too many are waiting",
            PAL_EXCERPT(record->key, 80));
    resume(relay, (pal_id){{0}});
}

static pal_id observe_body(void *user, pal_str body)
{
    return pal_api_record_write(user, body);
}

static void free_observer(void *user)
{
    pal_api_record_free(user);
}

const pal_forward_observer pal_api_record_observer = {
        .frames = observe_frames,
        .complete = observe_complete,
        .body = observe_body,
        .free = free_observer,
};
