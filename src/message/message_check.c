/* message_check.c - decides whether a message can be stored. Stored messages must be acceptable to
 * a model later, so text that no model service accepts is rejected on arrival. */
#include "message/message_check.h"

#include <stdio.h>

#include "base/json/json.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "palaver/limits.h"

pal_status pal_text_check(
        pal_str text, const char *what, size_t len_max, bool no_nul, pal_error *err)
{
    size_t valid;

    if (text.len > len_max)
        return pal_error_set(err, PAL_LIMIT, "'%s' of %zu bytes exceeds the limit of %zu", what,
                text.len, len_max);
    valid = pal_utf8_valid_len(text);
    if (valid < text.len)
        return pal_error_set(err, PAL_INVALID, "'%s' is not valid UTF-8 at byte %zu", what, valid);
    if (no_nul && text.len > 0 && memchr(text.data, 0, text.len))
        return pal_error_set(err, PAL_INVALID, "'%s' contains a NUL byte", what);
    return PAL_OK;
}

pal_status pal_tenant_check(pal_str *tenant, pal_error *err)
{
    if (tenant->len == 0)
        *tenant = pal_str_of(PAL_TENANT_DEFAULT);
    return pal_text_check(*tenant, "tenant", PAL_TENANT_LEN_MAX, true, err);
}

static pal_status check_json(
        pal_str json, const char *what, size_t len_max, bool is_object, pal_error *err)
{
    pal_arena *arena;
    pal_json value;
    pal_error inner;
    pal_status status;

    if (json.len > len_max)
        return pal_error_set(err, PAL_LIMIT, "'%s' of %zu bytes exceeds the limit of %zu", what,
                json.len, len_max);
    arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    status = pal_json_parse(arena, json, NULL, &value, &inner);
    if (status != PAL_OK)
        pal_error_set(err, status, "'%s' is not valid JSON: %s", what, inner.message);
    else if (is_object && pal_json_type_of(value) != PAL_JSON_OBJECT)
        status = pal_error_set(err, PAL_INVALID, "'%s' is not a JSON object", what);
    pal_arena_free(arena);
    return status;
}

pal_status pal_object_check(pal_str json, const char *what, size_t len_max, pal_error *err)
{
    return json.len == 0 ? PAL_OK : check_json(json, what, len_max, true, err);
}

pal_status pal_value_check(pal_str json, const char *what, size_t len_max, pal_error *err)
{
    return check_json(json, what, len_max, false, err);
}

static pal_status check_blob_name(pal_str name, size_t number, pal_error *err)
{
    bool good = name.len == PAL_BLOB_NAME_LEN && memcmp(name.data, "sha256:", 7) == 0;

    for (size_t i = 7; good && i < name.len; i++)
        good = (name.data[i] >= '0' && name.data[i] <= '9') ||
                (name.data[i] >= 'a' && name.data[i] <= 'f');
    if (!good)
        return pal_error_set(err, PAL_INVALID,
                "part %zu: 'blob' must be 'sha256:' and 64 lower-case hex digits", number);
    return PAL_OK;
}

static pal_status check_texts(const pal_part *part, size_t number, pal_error *err)
{
    const struct {
        const char *name;
        pal_str text;
    } members[] = {
            {"text", part->text},
            {"call_id", part->call_id},
            {"name", part->name},
            {"arguments", part->arguments},
            {"signature", part->signature},
            {"family", part->family},
            {"media_type", part->media_type},
            {"url", part->url},
    };

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        char what[48];
        pal_status status;

        if (pal_utf8_is_valid(members[i].text))
            continue;
        snprintf(what, sizeof(what), "%s' of part '%zu", members[i].name, number);
        status = pal_text_check(members[i].text, what, SIZE_MAX, false, err);
        if (status != PAL_OK)
            return status;
    }
    return PAL_OK;
}

static pal_status check_form(
        const pal_part *parts, size_t len, bool is_nested, size_t number, pal_error *err)
{
    if (len > PAL_MESSAGE_PARTS_MAX)
        return pal_error_set(err, PAL_LIMIT, "%zu parts are too many; at most %d are allowed", len,
                PAL_MESSAGE_PARTS_MAX);
    for (size_t i = 0; i < len; i++) {
        size_t at = is_nested ? number : i + 1;
        bool is_result = parts[i].kind == PAL_PART_TOOL_RESULT;
        pal_status status = PAL_OK;

        if (parts[i].kind <= PAL_PART_NONE || parts[i].kind > PAL_PART_COMPACTION)
            return pal_error_set(
                    err, PAL_INVALID, "part %zu has unknown kind %d", at, (int)parts[i].kind);
        if (is_result && is_nested)
            return pal_error_set(err, PAL_INVALID,
                    "part %zu: a tool_result must not contain a tool_result", at);
        if (is_result)
            status = check_form(parts[i].parts, parts[i].parts_len, true, at, err);
        if (status != PAL_OK)
            return status;
    }
    return PAL_OK;
}

pal_status pal_message_check_form(const pal_message *message, pal_error *err)
{
    if (message->role <= PAL_ROLE_NONE || message->role > PAL_ROLE_TOOL)
        return pal_error_set(err, PAL_INVALID,
                "a message has no role; expected one of system, user, assistant, tool");
    return check_form(message->parts, message->parts_len, false, 0, err);
}

static pal_status check_part(const pal_part *part, size_t number, pal_error *err)
{
    bool is_media = part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE;
    bool is_call = part->kind == PAL_PART_TOOL_CALL;
    pal_status status;

    if (part->parts_len > 0 && part->kind != PAL_PART_TOOL_RESULT)
        return pal_error_set(
                err, PAL_INVALID, "part %zu: 'parts' is only allowed in a tool result", number);
    if ((is_call || part->kind == PAL_PART_TOOL_RESULT) && part->call_id.len == 0)
        return pal_error_set(err, PAL_INVALID, "part %zu: 'call_id' is missing", number);
    if (is_call && part->name.len == 0)
        return pal_error_set(err, PAL_INVALID, "part %zu: 'name' is missing", number);
    if ((part->data.len > 0 || part->blob.len > 0) && !is_media &&
            part->kind != PAL_PART_TOOL_RESULT)
        return pal_error_set(err, PAL_INVALID,
                "part %zu: 'data' is only allowed in images, files and tool outputs", number);
    if (part->blob.len > 0 && part->data.len == 0) {
        status = check_blob_name(part->blob, number, err);
        if (status != PAL_OK)
            return status;
    }
    status = check_texts(part, number, err);
    for (size_t i = 0; status == PAL_OK && i < part->parts_len; i++)
        status = check_part(&part->parts[i], number, err);
    return status;
}

pal_status pal_message_check(const pal_message *message, pal_error *err)
{
    pal_status status = pal_message_check_form(message, err);

    if (status != PAL_OK)
        return status;
    status = pal_text_check(message->model, "model", PAL_MODEL_LEN_MAX, false, err);
    if (status == PAL_OK)
        status = pal_text_check(message->client_id, "client_id", PAL_CLIENT_ID_LEN_MAX, true, err);
    for (size_t i = 0; status == PAL_OK && i < message->parts_len; i++)
        status = check_part(&message->parts[i], i + 1, err);
    return status;
}
