/* api_anthropic_record.c - reads the requests and answers of Anthropic's API for the recorder, and
 * keeps message threads. api_record.h describes records. */
#include "server/api/anthropic/api_anthropic_record.h"

#include "base/text.h"
#include "dialect/anthropic/anthropic.h"
#include "dialect/dialect_member.h"
#include "server/server_call.h"

#define THREAD "anthropic-thread:" /* prefix of the keys of sessions that exist for a thread */

/* Reads the messages of the request. If it continues a thread, the stored messages come first. */
static pal_status read_request(pal_api_record *record, pal_json request,
        pal_message **out_messages, size_t *out_len, pal_error *err)
{
    pal_anthropic_thread *out_thread = record->user;
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
    if (own_len)
        memcpy(all + stored.len, own, own_len * sizeof *all);
    *out_messages = all;
    *out_len = stored.len + own_len;
    return PAL_OK;
}

static pal_status keep_thread(const pal_api_record *record, const pal_recorder_place *place,
        pal_str settings, pal_str answer_id, pal_error *err)
{
    pal_anthropic_thread thread = {.key = record->key,
            .session = place->session,
            .seq = place->seq,
            .settings = settings};
    pal_session session = {.id = place->session,
            .tenant = record->tenant,
            .expires_at = pal_store_clock_ms(record->server->store) + PAL_ANTHROPIC_THREAD_MS};
    pal_status status = PAL_OK;
    if (record->is_temporary)
        status = pal_store_update(
                record->server->store, &session, PAL_SESSION_FIELD_EXPIRES_AT, err);
    if (status != PAL_OK)
        return status;
    return pal_anthropic_thread_keep(
            record->server->store, record->tenant, answer_id, &thread, record->arena, err);
}

static pal_status read_answer(pal_api_record *record, pal_str answer, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    pal_message *message = pal_arena_alloc(record->arena, sizeof *message);
    if (!message)
        return pal_arena_checked(record->arena, err);
    *out_messages = message;
    *out_len = 1;
    return pal_anthropic_answer_read(answer, record->arena, message, err);
}

static pal_status recorded(pal_api_record *record, pal_str answer,
        const pal_recorder_place *place, pal_error *err)
{
    const pal_anthropic_thread *thread = record->user;
    pal_json message;
    if (thread->settings.len == 0)
        return PAL_OK;
    pal_status status = pal_json_parse(record->arena, answer, NULL, &message, err);
    if (status != PAL_OK)
        return status;
    return keep_thread(record, place, thread->settings,
            pal_member_string(message, "id", record->arena), err);
}

static const pal_api_record_format format = {
        .read_request = read_request,
        .read_answer = read_answer,
        .join = pal_anthropic_answer_join,
        .recorded = recorded,
};

pal_api_record *pal_anthropic_record_new(pal_call *call, pal_str key, pal_str body)
{
    char text[sizeof THREAD + PAL_ID_TEXT_SIZE] = THREAD;
    if (key.len == 0) {
        pal_id_to_text(pal_id_new(), text + sizeof THREAD - 1);
        key = pal_str_of(text);
    }
    pal_api_record *record = pal_api_record_new(call, &format, key, body);
    if (!record)
        return NULL;
    record->is_temporary = pal_text_begins(key, THREAD);
    record->user = pal_arena_alloc(record->arena, sizeof(pal_anthropic_thread));
    if (!record->user) {
        pal_api_record_free(record);
        return NULL;
    }
    return record;
}
