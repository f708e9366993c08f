/* api_anthropic_record.c - records a request and its answer into the session that the request's
 * headers name, or that keeps its thread.
 *
 * The request itself is not changed: the model gets what the client sent. Only successful requests
 * are recorded, so that a retry is recorded once. A response is recorded before the client gets its
 * end, so that the session contains everything that the client has.
 *
 * Threads: one thread at a time uses a record. A crash before the record is written is harmless,
 * because the client sends its history again. */
#include "server/api/anthropic/api_anthropic_record.h"

#include "base/clock.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/anthropic/anthropic.h"
#include "dialect/anthropic/anthropic_answer.h"
#include "dialect/dialect_member.h"
#include "server/server_background.h"
#include "server/server_call.h"

/* Prefixes of keys. An import of Claude Code's transcripts uses the first one too. */
#define CLAUDE_CODE "claude-code:"
#define THREAD "anthropic-thread:"

struct pal_anthropic_record {
    pal_background_task task;
    pal_server *server;
    pal_arena *arena; /* owns all texts */
    pal_str tenant;
    pal_str key;
    pal_str body;
    pal_buf answer;    /* the frames of a stream */
    bool is_stream;    /* `answer` contains frames */
    bool is_temporary; /* the session exists only for its thread */
    void (*resume)(void *relay); /* sends the last frame of a forwarded stream */
    void *relay;
};

/* ---- Making a record ---- */

static pal_str join(pal_arena *arena, const char *prefix, pal_str text)
{
    size_t len = strlen(prefix);
    char *data = pal_arena_alloc(arena, len + text.len + 1);
    if (!data)
        return (pal_str){0};
    memcpy(data, prefix, len);
    memcpy(data + len, text.data, text.len);
    return pal_str_make(data, len + text.len);
}

pal_str pal_anthropic_record_key(pal_call *call)
{
    pal_str key = pal_exchange_header(call->exchange, "x-palaver-session");
    if (key.len)
        return key;
    key = pal_exchange_header(call->exchange, "x-claude-code-session-id");
    return key.len ? join(call->arena, CLAUDE_CODE, key) : key;
}

pal_anthropic_record *pal_anthropic_record_new(pal_call *call, pal_str key, pal_str body)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_arena *arena = pal_arena_new(0);
    pal_anthropic_record *record = arena ? pal_calloc(1, sizeof *record) : NULL;
    if (!record) {
        pal_arena_free(arena);
        return NULL;
    }
    record->server = call->server;
    record->arena = arena;
    record->is_temporary = key.len == 0 || pal_text_begins(key, THREAD);
    record->tenant = pal_arena_copy(arena, call->caller.tenant);
    record->body = pal_arena_copy(arena, body);
    pal_id_to_text(pal_id_new(), id);
    record->key = key.len ? pal_arena_copy(arena, key) : join(arena, THREAD, pal_str_of(id));
    pal_buf_init(&record->answer, PAL_PROVIDER_ANSWER_BYTES_MAX);
    if (pal_arena_failure(arena) != PAL_OK) {
        pal_anthropic_record_free(record);
        return NULL;
    }
    return record;
}

void pal_anthropic_record_free(pal_anthropic_record *record)
{
    if (!record)
        return;
    pal_buf_done(&record->answer);
    pal_arena_free(record->arena);
    pal_free(record);
}

/* ---- Writing it ---- */

/* Reads the messages of the request. If it continues a thread, the stored messages come first. */
static pal_status read_messages(const pal_anthropic_record *record, pal_json request,
        pal_anthropic_thread *out_thread, pal_message **out_messages, size_t *out_len,
        pal_error *err)
{
    pal_message_page stored = {0};
    pal_message *own;
    size_t own_len;
    pal_json thread = pal_json_find(request, "thread");
    pal_status status = pal_anthropic_read(
            pal_json_find(request, "messages"), record->arena, &own, &own_len, err);
    if (status != PAL_OK)
        return status;
    if (pal_json_string_is(pal_json_find(thread, "type"), "continue")) {
        status = pal_anthropic_thread_find(record->server->store, record->tenant, request,
                record->arena, out_thread, err);
        if (status == PAL_OK)
            status = pal_anthropic_thread_load(record->server->store, record->tenant, out_thread,
                    record->arena, &stored, err);
    } else if (pal_json_type_of(thread) == PAL_JSON_OBJECT) {
        status = pal_anthropic_thread_settings(
                request, record->arena, &out_thread->settings, err);
    }
    if (status != PAL_OK)
        return status;
    pal_message *all = pal_arena_array(record->arena, stored.len + own_len + 1, sizeof *all);
    if (!all)
        return pal_arena_checked(record->arena, err);
    if (stored.len)
        memcpy(all, stored.items, stored.len * sizeof *all);
    for (size_t i = 0; i < stored.len; i++)
        all[i].id = (pal_id){{0}};
    memcpy(all + stored.len, own, own_len * sizeof *all);
    *out_messages = all;
    *out_len = stored.len + own_len;
    return PAL_OK;
}

static pal_status keep_thread(const pal_anthropic_record *record, const pal_recorder_place *place,
        pal_str settings, pal_str answer_id, pal_error *err)
{
    pal_anthropic_thread thread = {.key = record->key,
            .session = place->session,
            .seq = place->seq,
            .settings = settings};
    pal_session session = {.id = place->session,
            .tenant = record->tenant,
            .expires_at = pal_clock_now_ms() + PAL_ANTHROPIC_THREAD_MS};
    pal_status status = PAL_OK;
    if (record->is_temporary)
        status = pal_store_update(
                record->server->store, &session, PAL_SESSION_FIELD_EXPIRES_AT, err);
    if (status != PAL_OK)
        return status;
    return pal_anthropic_thread_keep(
            record->server->store, record->tenant, answer_id, &thread, record->arena, err);
}

static pal_status write_record(const pal_anthropic_record *record, pal_str answer, pal_error *err)
{
    pal_anthropic_thread thread = {0};
    pal_recorder_history history = {.tenant = record->tenant, .key = record->key};
    pal_recorder_place place;
    pal_json request, message;
    pal_status status = pal_json_parse(record->arena, record->body, NULL, &request, err);
    if (status != PAL_OK)
        return status;
    if (record->is_stream) {
        status = pal_anthropic_answer_join(answer, record->arena, &answer, err);
        if (status != PAL_OK)
            return status;
    }
    status = read_messages(
            record, request, &thread, &history.messages, &history.messages_len, err);
    if (status != PAL_OK)
        return status;
    /* The answer is part of the history: a repeated request with the same answer adds nothing. */
    status = pal_anthropic_answer_read(
            answer, record->arena, &history.messages[history.messages_len++], err);
    if (status != PAL_OK)
        return status;
    status = pal_recorder_request(record->server->store, &history, record->arena, &place, err);
    if (status != PAL_OK || thread.settings.len == 0)
        return status;
    status = pal_json_parse(record->arena, answer, NULL, &message, err);
    if (status != PAL_OK)
        return status;
    return keep_thread(record, &place, thread.settings,
            pal_member_string(message, "id", record->arena), err);
}

void pal_anthropic_record_write(pal_anthropic_record *record, pal_str answer)
{
    pal_error err = {0};
    if (write_record(record, answer, &err) != PAL_OK)
        pal_log(PAL_LOG_WARN, "could not record a request in session '%.*s': %s",
                PAL_EXCERPT(record->key, 80), err.message);
}

/* ---- Forwarded responses ---- */

static void observe_frames(void *user, pal_str frames)
{
    pal_anthropic_record *record = user;
    record->is_stream = true;
    pal_buf_append_str(&record->answer, frames);
}

static void write_in_background(pal_background_task *task)
{
    pal_anthropic_record *record = (pal_anthropic_record *)task; /* its first member */
    pal_anthropic_record_write(record, pal_buf_str(&record->answer));
    record->resume(record->relay); /* may free the record */
}

static void observe_complete(void *user, void (*resume)(void *relay), void *relay)
{
    pal_anthropic_record *record = user;
    record->task.run = write_in_background;
    record->resume = resume;
    record->relay = relay;
    if (!record->answer.failure && pal_background_add(record->server->background, &record->task))
        return;
    pal_log(PAL_LOG_WARN, "could not record a request in session '%.*s': too many are waiting",
            PAL_EXCERPT(record->key, 80));
    resume(relay);
}

static void observe_body(void *user, pal_str body)
{
    pal_anthropic_record_write(user, body);
}

static void free_observer(void *user)
{
    pal_anthropic_record_free(user);
}

const pal_forward_observer pal_anthropic_record_observer = {
        .frames = observe_frames,
        .complete = observe_complete,
        .body = observe_body,
        .free = free_observer,
};
