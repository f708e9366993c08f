/* api_mistral_settings.c - the settings of a conversation: reads them from requests, and stores
 * them in the session's metadata, next to the client's own members:
 *
 *   {"project":"x", "turn":{"model":"m","system":"Be brief."}, "mistral":{"tools":[...],...}}
 *
 * "turn" applies to every turn of the session, so the native API continues the conversation with
 * the same model and instructions. */
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"
#include "server/api/mistral/api_mistral.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"

static const char *const own_members[] = {"turn", "context", "mistral", NULL};

/* ---- Requests ---- */

pal_status pal_mistral_metadata_read(pal_call *call, pal_json *out_metadata, pal_error *err)
{
    pal_json metadata = pal_json_find(call->body, "metadata");
    if (pal_json_is_absent(metadata))
        return PAL_OK;
    if (pal_json_type_of(metadata) != PAL_JSON_OBJECT)
        return pal_mistral_wrong(call, "metadata", err, "'metadata' must be an object");
    for (size_t i = 0; own_members[i]; i++) {
        if (pal_json_type_of(pal_json_find(metadata, own_members[i])) != PAL_JSON_NONE)
            return pal_mistral_wrong(call, "metadata", err,
                    "'metadata' must not have a member '%s', which contains the session's settings",
                    own_members[i]);
    }
    *out_metadata = metadata;
    return PAL_OK;
}

pal_status pal_mistral_version_read(pal_call *call, pal_str *out_version, pal_error *err)
{
    uint64_t number;
    pal_json value = pal_json_find(call->body, "agent_version");
    if (pal_json_is_absent(value))
        return PAL_OK;
    if (pal_json_u64(value, &number))
        *out_version = pal_json_raw(value);
    else if (pal_json_type_of(value) == PAL_JSON_STRING)
        *out_version = pal_json_string(value, call->arena);
    else
        return pal_mistral_wrong(
                call, "agent_version", err, "'agent_version' must be a number or an alias");
    return pal_arena_checked(call->arena, err);
}

static pal_status check_tools(pal_call *call, pal_error *err)
{
    pal_tool *tools;
    size_t tools_len;
    return pal_api_tools_read(call, pal_json_find(call->body, "tools"), &tools, &tools_len, err);
}

const pal_api_object pal_mistral_settings_members = {
        .members = PAL_API_MEMBERS(
                {"model", PAL_API_TEXT, "the model, instead of an agent",
                        .offset = offsetof(pal_mistral_settings, model), .max = PAL_MODEL_LEN_MAX},
                {"agent_id", PAL_API_TEXT, "the agent, instead of a model",
                        .offset = offsetof(pal_mistral_settings, agent_id),
                        .max = PAL_MODEL_LEN_MAX},
                {"agent_version", PAL_API_VALUE,
                        .schema = "{\"type\":[\"string\",\"integer\"]}"},
                {"instructions", PAL_API_TEXT, "the system prompt",
                        .offset = offsetof(pal_mistral_settings, instructions),
                        .max = PAL_SYSTEM_LEN_MAX},
                {"name", PAL_API_TEXT, "the title of the conversation",
                        .offset = offsetof(pal_mistral_settings, name), .max = PAL_TITLE_LEN_MAX},
                {"description", PAL_API_TEXT, "a description for people",
                        .offset = offsetof(pal_mistral_settings, description),
                        .max = PAL_SYSTEM_LEN_MAX},
                {"tools", PAL_API_LIST, .of = &pal_api_any_object},
                {"guardrails", PAL_API_VALUE, .schema = "{}"},
                {"metadata", PAL_API_VALUE, .of = &pal_api_any_object})};

pal_status pal_mistral_settings_read(pal_call *call, pal_mistral_settings *settings, pal_error *err)
{
    if ((settings->model.len == 0) == (settings->agent_id.len == 0))
        return pal_mistral_wrong(call, settings->model.len ? "agent_id" : "model", err,
                settings->model.len ? "send either 'model' or 'agent_id', not both"
                                    : "'model' or 'agent_id' is missing; send one of them");
    pal_status status = pal_mistral_version_read(call, &settings->agent_version, err);
    if (status != PAL_OK)
        return status;
    status = check_tools(call, err);
    if (status != PAL_OK)
        return status;
    settings->tools = pal_json_find(call->body, "tools");
    settings->completion_args = pal_json_find(call->body, "completion_args");
    settings->guardrails = pal_json_find(call->body, "guardrails");
    return pal_mistral_metadata_read(call, &settings->metadata, err);
}

/* ---- Sessions ---- */

/* One table for each object, which is used in both directions. */
#define MEMBER(name, type, field)                                                                  \
    {name, PAL_MEMBER_##type, 1, .offset = offsetof(pal_mistral_settings, field)}
static const pal_member turn_members[] = {
        MEMBER("model", STRING, model),
        MEMBER("system", STRING, instructions),
};
static const pal_member_table turn_table = {turn_members, 2, NULL, NULL};
static const char *const turn_names[] = {"model", "system", NULL};

static const pal_member kept_members[] = {
        MEMBER("agent_id", STRING, agent_id),
        MEMBER("agent_version", STRING, agent_version),
        MEMBER("description", STRING, description),
        MEMBER("tools", VALUE, tools),
        MEMBER("completion_args", VALUE, completion_args),
        MEMBER("guardrails", VALUE, guardrails),
};
static const pal_member_table kept_table = {
        kept_members, sizeof kept_members / sizeof *kept_members, NULL, NULL};

pal_status pal_mistral_settings_keep(
        pal_call *call, const pal_mistral_settings *settings, pal_str *out_metadata, pal_error *err)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    if (!pal_json_is_absent(settings->metadata))
        pal_json_put_members(&writer, pal_json_raw(settings->metadata));
    pal_json_name(&writer, "turn");
    pal_json_begin_object(&writer);
    pal_members_write(&turn_table, 1, &writer, settings);
    pal_member_put_others(
            &writer, pal_json_find(settings->base, "turn"), turn_names, NULL, call->arena);
    pal_json_end_object(&writer);
    pal_json context = pal_json_find(settings->base, "context");
    if (!pal_json_is_absent(context))
        pal_put_raw(&writer, "context", pal_json_raw(context));
    pal_json_name(&writer, "mistral");
    pal_json_begin_object(&writer);
    pal_members_write(&kept_table, 1, &writer, settings);
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    pal_status status = pal_member_keep(&buf, call->arena, out_metadata, err);
    pal_buf_done(&buf);
    return status;
}

/* Returns the client's members; empty if there are none. */
static pal_status users_of(pal_call *call, pal_json all, pal_json *out_metadata, pal_error *err)
{
    pal_buf buf;
    pal_str json = {0};
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_member_put_others(&writer, all, own_members, NULL, call->arena);
    pal_json_end_object(&writer);
    pal_status status = pal_member_keep(&buf, call->arena, &json, err);
    pal_buf_done(&buf);
    if (status == PAL_OK && json.len > 2)
        status = pal_json_parse(call->arena, json, NULL, out_metadata, err);
    return status;
}

/* Reads the agent that the conversation was handed to, if any. */
static pal_status find_speaker(
        pal_call *call, pal_id session, pal_str *out_speaker_id, pal_error *err)
{
    pal_record record;
    pal_json value;
    char name[PAL_ID_TEXT_SIZE];
    pal_id_to_text(session, name);
    pal_status status = pal_store_record_find(call->server->store, call->caller.tenant,
            pal_str_of(PAL_MISTRAL_SPEAKER), pal_str_of(name), call->arena, &record, err);
    if (status == PAL_NOT_FOUND)
        return PAL_OK;
    if (status != PAL_OK)
        return status;
    status = pal_json_parse(call->arena, record.body, NULL, &value, err);
    if (status == PAL_OK)
        *out_speaker_id = pal_json_string(value, call->arena);
    return status;
}

pal_status pal_mistral_settings_of(pal_call *call, const pal_session *session,
        pal_mistral_settings *out_settings, pal_error *err)
{
    pal_json all = {0};
    pal_arena *arena = call->arena;
    pal_status status = PAL_OK;
    if (session->metadata.len)
        status = pal_json_parse(arena, session->metadata, NULL, &all, err);
    if (status != PAL_OK)
        return status;
    *out_settings = (pal_mistral_settings){.name = session->title, .base = all};
    status = pal_members_read_stored(
            &turn_table, 1, pal_json_find(all, "turn"), arena, out_settings, err);
    if (status != PAL_OK)
        return status;
    status = pal_members_read_stored(
            &kept_table, 1, pal_json_find(all, "mistral"), arena, out_settings, err);
    if (status != PAL_OK)
        return status;
    status = users_of(call, all, &out_settings->metadata, err);
    if (status != PAL_OK)
        return status;
    if (out_settings->agent_id.len)
        status = find_speaker(call, session->id, &out_settings->speaker_id, err);
    return status == PAL_OK ? pal_arena_checked(arena, err) : status;
}
