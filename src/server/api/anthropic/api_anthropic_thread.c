/* api_anthropic_thread.c - message threads: the client sends only its new messages and names the
 * answer that they continue.
 *
 * A thread is a recorded session. A record of kind "anthropic_thread" is kept under the id of each
 * answer and says where that answer is. The instructions and tools of a thread come only with its
 * first request. They are kept once, in a record that is named by their hash. Records expire, and
 * are erased with their session. A crash between the session and its record loses the thread: the
 * client then sends its whole history. */
#include "server/api/anthropic/api_anthropic_record.h"

#include "base/digest.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/anthropic/anthropic.h"
#include "dialect/dialect_member.h"

#define KIND "anthropic_thread"

static pal_str kind(void)
{
    return pal_str_of(KIND);
}

/* ---- Finding ---- */

static pal_status no_thread(pal_error *err)
{
    return pal_error_set(err, PAL_NOT_FOUND,
            "thread: no such thread; send the whole history of the conversation");
}

/* The record of an answer: its `settings` are the hash that names the record of the settings. */
static const pal_member thread_members[] = {
        {"key", PAL_MEMBER_TEXT, 1, .offset = offsetof(pal_anthropic_thread, key)},
        {"session", PAL_MEMBER_ID, 1, .offset = offsetof(pal_anthropic_thread, session)},
        {"seq", PAL_MEMBER_U64, 1, .offset = offsetof(pal_anthropic_thread, seq)},
        {"settings", PAL_MEMBER_STRING, 1, .offset = offsetof(pal_anthropic_thread, settings)},
};

static const pal_member_table thread_table = {
        thread_members, sizeof thread_members / sizeof *thread_members, NULL, NULL};

static pal_status read_thread(
        pal_str json, pal_arena *arena, pal_anthropic_thread *out, pal_error *err)
{
    pal_json value;
    *out = (pal_anthropic_thread){0};
    pal_status status = pal_json_parse(arena, json, NULL, &value, err);
    if (status == PAL_OK)
        status = pal_members_read_stored(&thread_table, 1, value, arena, out, err);
    if (status != PAL_OK)
        return status;
    return pal_id_is_none(out->session) || out->seq == 0 ? no_thread(err) : PAL_OK;
}

pal_status pal_anthropic_thread_find(pal_store *store, pal_str tenant, pal_json request,
        pal_arena *arena, pal_anthropic_thread *out_thread, pal_error *err)
{
    pal_record record;
    pal_str id =
            pal_member_string(pal_json_find(request, "thread"), "previous_message_id", arena);
    if (id.len == 0 || id.len > PAL_CLIENT_ID_LEN_MAX)
        return no_thread(err);
    pal_status status = pal_store_record_find(store, tenant, kind(), id, arena, &record, err);
    if (status != PAL_OK)
        return status == PAL_NOT_FOUND ? no_thread(err) : status;
    status = read_thread(record.body, arena, out_thread, err);
    if (status != PAL_OK || out_thread->settings.len == 0)
        return status;
    status = pal_store_record_find(
            store, tenant, kind(), out_thread->settings, arena, &record, err);
    if (status != PAL_OK)
        return status == PAL_NOT_FOUND ? no_thread(err) : status;
    out_thread->settings = record.body;
    return PAL_OK;
}

static pal_status fetch_parts(
        pal_store *store, pal_str tenant, pal_part *parts, size_t len, pal_arena *arena)
{
    for (size_t i = 0; i < len; i++) {
        pal_part *part = &parts[i];
        pal_str type;
        bool is_media = part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE;
        if (is_media && part->blob.len) {
            pal_status status =
                    pal_store_blob_get(store, tenant, part->blob, arena, &type, &part->data, NULL);
            if (status != PAL_OK && status != PAL_NOT_FOUND)
                return status;
        }
        pal_status status = fetch_parts(store, tenant, part->parts, part->parts_len, arena);
        if (status != PAL_OK)
            return status;
    }
    return PAL_OK;
}

pal_status pal_anthropic_thread_load(pal_store *store, pal_str tenant,
        const pal_anthropic_thread *thread, pal_arena *arena, pal_message_page *out_messages,
        pal_error *err)
{
    const pal_message_query query = {.before_seq = thread->seq + 1};
    pal_status status =
            pal_store_load(store, tenant, thread->session, &query, arena, out_messages, err);
    if (status == PAL_NOT_FOUND || (status == PAL_OK && out_messages->len == 0))
        return no_thread(err);
    for (size_t i = 0; status == PAL_OK && i < out_messages->len; i++) {
        pal_message *message = &out_messages->items[i];
        status = fetch_parts(store, tenant, message->parts, message->parts_len, arena);
    }
    return status;
}

/* ---- Keeping ---- */

pal_status pal_anthropic_thread_settings(
        pal_json request, pal_arena *arena, pal_str *out_settings, pal_error *err)
{
    static const char *const names[] = {"system", "tools"};
    pal_buf buf;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pal_json value = pal_json_find(request, names[i]);
        if (pal_json_type_of(value) > PAL_JSON_NULL)
            pal_put_raw(&writer, names[i], pal_json_raw(value));
    }
    pal_json_end_object(&writer);
    pal_status status = pal_member_keep(&buf, arena, out_settings, err);
    pal_buf_done(&buf);
    return status;
}

static pal_status put_record(pal_store *store, pal_str tenant, pal_str name, pal_id session,
        pal_str body, pal_error *err)
{
    pal_record record = {.kind = kind(),
            .name = name,
            .session = session,
            .body = body,
            .expires_at = pal_store_clock_ms(store) + PAL_ANTHROPIC_THREAD_MS};
    return pal_store_record_put(store, tenant, &record, PAL_RECORD_VERSION_ANY, err);
}

pal_status pal_anthropic_thread_keep(pal_store *store, pal_str tenant, pal_str answer,
        const pal_anthropic_thread *thread, pal_arena *arena, pal_error *err)
{
    uint8_t digest[PAL_SHA256_SIZE];
    char hash[2 * PAL_SHA256_SIZE + 1];
    pal_str body;
    pal_buf buf;
    pal_status status = pal_sha256(thread->settings, digest);
    if (status != PAL_OK)
        return pal_error_set(err, status, "could not hash the settings of a thread");
    pal_hex(digest, sizeof digest, hash);
    status = put_record(store, tenant, pal_str_of(hash), thread->session, thread->settings, err);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_anthropic_thread record = *thread;
    record.settings = pal_str_of(hash);
    pal_json_begin_object(&writer);
    pal_members_write(&thread_table, 1, &writer, &record);
    pal_json_end_object(&writer);
    status = pal_member_keep(&buf, arena, &body, err);
    pal_buf_done(&buf);
    if (status != PAL_OK)
        return status;
    return put_record(store, tenant, answer, thread->session, body, err);
}

/* ---- Expanding ---- */

/* Writes the members of the settings that the request does not set itself. */
static void put_settings(pal_json_writer *writer, pal_json request, pal_json settings)
{
    static const char *const names[] = {"system", "tools"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pal_json value = pal_json_find(request, names[i]);
        if (pal_json_type_of(value) <= PAL_JSON_NULL)
            value = pal_json_find(settings, names[i]);
        if (pal_json_type_of(value) > PAL_JSON_NULL)
            pal_put_raw(writer, names[i], pal_json_raw(value));
    }
}

/* Writes the stored messages and those of the request as one array. */
static pal_status put_messages(pal_json_writer *writer, pal_json request,
        const pal_message_page *messages, pal_arena *arena, pal_error *err)
{
    pal_json stored, item, list = pal_json_find(request, "messages");
    pal_str json;
    pal_status status = pal_anthropic_write(messages->items, messages->len, arena, &json, err);
    if (status == PAL_OK)
        status = pal_json_parse(arena, json, NULL, &stored, err);
    if (status != PAL_OK)
        return status;
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    stored = pal_json_find(stored, "messages");
    for (pal_json_iter iter = pal_json_each(stored); pal_json_next(&iter, NULL, &item);)
        pal_json_put_raw(writer, pal_json_raw(item));
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &item);)
        pal_json_put_raw(writer, pal_json_raw(item));
    pal_json_end_array(writer);
    return PAL_OK;
}

pal_status pal_anthropic_thread_expand(pal_json request, const pal_anthropic_thread *thread,
        const pal_message_page *messages, pal_arena *arena, pal_str *out_body, pal_error *err)
{
    static const char *const own[] = {"messages", "system", "tools", "thread", NULL};
    pal_json settings = {0};
    pal_buf buf;
    if (pal_json_type_of(pal_json_find(request, "messages")) != PAL_JSON_ARRAY)
        return pal_error_set(err, PAL_INVALID, "messages: Input should be a valid list");
    pal_status status = PAL_OK;
    if (thread->settings.len)
        status = pal_json_parse(arena, thread->settings, NULL, &settings, err);
    if (status != PAL_OK)
        return status;
    pal_buf_init(&buf, PAL_PROVIDER_REQUEST_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_member_put_others(&writer, request, own, NULL, arena);
    pal_put_raw(&writer, "thread", pal_str_of("{\"type\":\"create\"}"));
    if (pal_json_type_of(settings) == PAL_JSON_OBJECT)
        put_settings(&writer, request, settings);
    status = put_messages(&writer, request, messages, arena, err);
    if (status == PAL_OK) {
        pal_json_end_object(&writer);
        status = pal_member_keep(&buf, arena, out_body, err);
    }
    pal_buf_done(&buf);
    return status;
}
