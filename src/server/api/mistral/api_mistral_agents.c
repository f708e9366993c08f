/* api_mistral_agents.c - agents. An agent is a name with a model, instructions and tools, and has
 * versions.
 *
 * An agent is a record of kind "agent", named by the hex digits of its id, which sort by creation
 * time: {"version":1,"count":2,"aliases":[...],"fields":{...}}. Every version is a record of kind
 * "agent_version", named ID/0000000001, which contains only the fields. Both records are written in
 * one commit, the agent first. If two updates run concurrently, one of them fails and changes
 * nothing. */
#include <inttypes.h>
#include <stdio.h>
#include "base/json/json_put.h"
#include "base/utf8.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"
#include "server/api/mistral/api_mistral.h"
#include "server/api/native/api_session.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"

#define AGENT_VERSION "agent_version"
#define PAGE_DEFAULT 20

static const char *const field_names[] = {"name", "model", "description", "instructions", "tools",
        "completion_args", "handoffs", "metadata", "guardrails", "version_message", NULL};

/* ---- Records ---- */

static pal_str hex_of(pal_str id)
{
    return pal_str_make(id.data + 3, id.len - 3);
}

static pal_str version_name(pal_call *call, pal_str id, uint64_t version)
{
    char name[80];
    snprintf(name, sizeof name, "%.*s/%010" PRIu64, PAL_STR_ARG(hex_of(id)), version);
    return pal_arena_copy(call->arena, pal_str_of(name));
}

static pal_status no_agent(pal_str id, pal_error *err)
{
    return pal_error_set(err, PAL_NOT_FOUND, "unknown agent '%.*s'",
            (int)pal_utf8_cut(id, id.len < 80 ? id.len : 80), id.data ? id.data : "");
}

static pal_status no_version(pal_str version, pal_error *err)
{
    return pal_error_set(err, PAL_NOT_FOUND, "the agent has no version '%.*s'",
            (int)pal_utf8_cut(version, version.len < 80 ? version.len : 80),
            version.data ? version.data : "");
}

/* Reads the agent from the body of its record. Its id is derived from the record's name. */
pal_status pal_mistral_agent_take(
        pal_call *call, const pal_record *record, pal_mistral_agent *out_agent, pal_error *err)
{
    pal_json body;
    char id[PAL_OPENAI_ID_SIZE];
    pal_mistral_agent agent = {.record_version = record->version,
            .created_at = record->created_at,
            .updated_at = record->updated_at};
    pal_status status = pal_json_parse(call->arena, record->body, NULL, &body, err);
    snprintf(id, sizeof id, "ag_%.*s", PAL_STR_ARG(record->name));
    if (status != PAL_OK || !pal_openai_id_read(pal_str_of(id), "ag_", &agent.id) ||
            !pal_json_u64(pal_json_find(body, "version"), &agent.current) ||
            !pal_json_u64(pal_json_find(body, "count"), &agent.count))
        return pal_error_set(err, PAL_CORRUPT, "the record of agent '%s' is damaged", id);
    agent.id_text = pal_arena_copy(call->arena, pal_str_of(id));
    agent.version = agent.current;
    agent.fields = pal_json_find(body, "fields");
    agent.aliases = pal_json_find(body, "aliases");
    *out_agent = agent;
    return pal_arena_checked(call->arena, err);
}

static bool find_alias(const pal_mistral_agent *agent, pal_str name, uint64_t *out_version)
{
    pal_json alias;
    for (pal_json_iter iter = pal_json_each(agent->aliases); pal_json_next(&iter, NULL, &alias);) {
        if (pal_json_string_is(pal_json_find(alias, "alias"), name.data))
            return pal_json_u64(pal_json_find(alias, "version"), out_version);
    }
    return false;
}

static pal_status load_version(
        pal_call *call, pal_mistral_agent *agent, pal_str version, pal_error *err)
{
    pal_record record;
    uint64_t number;
    version = pal_arena_copy(call->arena, version);
    if (!pal_call_number(version, &number) && !find_alias(agent, version, &number))
        return no_version(version, err);
    if (number == agent->current)
        return PAL_OK;
    if (number >= agent->count)
        return no_version(version, err);
    pal_status status = pal_store_record_find(call->server->store, call->caller.tenant,
            pal_str_of(AGENT_VERSION), version_name(call, agent->id_text, number), call->arena,
            &record, err);
    if (status == PAL_NOT_FOUND)
        return no_version(version, err);
    if (status == PAL_OK)
        status = pal_json_parse(call->arena, record.body, NULL, &agent->fields, err);
    agent->version = number;
    return status;
}

pal_status pal_mistral_agent_find(
        pal_call *call, pal_str id, pal_str version, pal_mistral_agent *out_agent, pal_error *err)
{
    pal_record record;
    pal_id unused;
    if (!pal_openai_id_read(id, "ag_", &unused))
        return no_agent(id, err);
    pal_status status = pal_store_record_find(call->server->store, call->caller.tenant,
            pal_str_of(PAL_MISTRAL_AGENT), hex_of(id), call->arena, &record, err);
    if (status == PAL_NOT_FOUND)
        return no_agent(id, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_agent_take(call, &record, out_agent, err);
    if (status != PAL_OK)
        return status;
    if (version.len)
        status = load_version(call, out_agent, version, err);
    return status;
}

static pal_record *new_record(pal_call *call, const char *kind, pal_str name, pal_str body)
{
    pal_record *record = pal_arena_alloc(call->arena, sizeof *record);
    if (record)
        *record = (pal_record){.kind = pal_str_of(kind), .name = name, .body = body};
    return record;
}

pal_status pal_mistral_agent_record(
        pal_call *call, const pal_mistral_agent *agent, pal_record **out_record, pal_error *err)
{
    pal_buf buf;
    pal_str body = {0};
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_count(&writer, "version", agent->current);
    pal_put_count(&writer, "count", agent->count);
    if (!pal_json_is_absent(agent->aliases)) {
        pal_put_raw(&writer, "aliases", pal_json_raw(agent->aliases));
    }
    pal_put_raw(&writer, "fields", pal_json_raw(agent->fields));
    pal_json_end_object(&writer);
    pal_status status = pal_member_keep(&buf, call->arena, &body, err);
    pal_buf_done(&buf);
    if (status != PAL_OK)
        return status;
    *out_record = new_record(call, PAL_MISTRAL_AGENT, pal_mistral_agent_name(agent), body);
    return pal_arena_checked(call->arena, err);
}

/* ---- Showing ---- */

void pal_mistral_agent_put(pal_json_writer *writer, const pal_mistral_agent *agent)
{
    static const char *const nullable[] = {"description", "instructions", "handoffs", "metadata",
            "guardrails", "version_message", "owner_id"};
    static const char *const required[] = {"name", "model", "tools", "completion_args"};
    pal_json_begin_object(writer);
    pal_put_text(writer, "object", "agent");
    pal_put_str(writer, "id", agent->id_text);
    pal_put_count(writer, "version", agent->version);
    pal_json_name(writer, "versions");
    pal_json_begin_array(writer);
    for (uint64_t i = 0; i < agent->count; i++)
        pal_json_put_u64(writer, i);
    pal_json_end_array(writer);
    pal_put_time(writer, "created_at", agent->created_at);
    pal_put_time(writer, "updated_at", agent->updated_at);
    pal_put_flag(writer, "deployment_chat", false);
    pal_put_text(writer, "source", "api");
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        pal_mistral_put_raw(writer, agent->fields, required[i]);
    for (size_t i = 0; i < sizeof nullable / sizeof *nullable; i++)
        pal_mistral_put_raw_or_null(writer, agent->fields, nullable[i]);
    pal_json_end_object(writer);
}

static void send_agent(pal_call *call, const pal_mistral_agent *agent)
{
    pal_mistral_agent_put(pal_call_writer(call), agent);
    pal_call_send(call, 200);
}

/* ---- Reading ---- */

/* The request is stored as it is, so the fields are read only to check them. */
typedef struct agent_request {
    pal_str name;
    pal_str model;
    pal_str description;
    pal_str instructions;
    pal_str version_message;
    pal_str metadata;
} agent_request;

static const pal_api_object agent_body = {"MistralAgentRequest", .is_open = true,
        .members = PAL_API_MEMBERS(
                {"name", PAL_API_TEXT, "the name", .offset = offsetof(agent_request, name),
                        .max = PAL_NAME_LEN_MAX},
                {"model", PAL_API_TEXT, "the model", .offset = offsetof(agent_request, model),
                        .max = PAL_MODEL_LEN_MAX},
                {"description", PAL_API_TEXT, "when to hand over to the agent",
                        .offset = offsetof(agent_request, description),
                        .max = PAL_SYSTEM_LEN_MAX},
                {"instructions", PAL_API_TEXT, "the system prompt",
                        .offset = offsetof(agent_request, instructions),
                        .max = PAL_SYSTEM_LEN_MAX},
                {"version_message", PAL_API_TEXT, "what has changed in the version",
                        .offset = offsetof(agent_request, version_message),
                        .max = PAL_SYSTEM_LEN_MAX},
                {"metadata", PAL_API_JSON_OBJECT, "data of the client",
                        .offset = offsetof(agent_request, metadata)},
                {"tools", PAL_API_LIST, .of = &pal_api_any_object},
                {"completion_args", PAL_API_VALUE, .of = &pal_api_any_object},
                {"handoffs", PAL_API_LIST, "ids of agents that it can hand over to",
                        .max = PAL_MISTRAL_HANDOFFS_MAX},
                {"guardrails", PAL_API_LIST, .of = &pal_api_any_object})};

static pal_status check_handoffs(pal_call *call, pal_error *err)
{
    pal_id unused;
    pal_json value, handoffs = pal_json_find(call->body, "handoffs");
    if (pal_json_is_absent(handoffs))
        return PAL_OK;
    if (pal_json_type_of(handoffs) != PAL_JSON_ARRAY ||
            pal_json_count(handoffs) > PAL_MISTRAL_HANDOFFS_MAX)
        return pal_mistral_wrong(call, "handoffs", err,
                "'handoffs' must be an array of at most %d agent ids",
                PAL_MISTRAL_HANDOFFS_MAX);
    for (pal_json_iter iter = pal_json_each(handoffs); pal_json_next(&iter, NULL, &value);) {
        if (!pal_openai_id_read(pal_json_string(value, call->arena), "ag_", &unused))
            return pal_mistral_wrong(
                    call, "handoffs", err, "'handoffs' must contain agent ids: \"ag_...\"");
    }
    return pal_arena_checked(call->arena, err);
}

static pal_status check_body(pal_call *call, agent_request *request, pal_error *err)
{
    pal_tool *tools;
    size_t tools_len;
    pal_json guardrails = pal_json_find(call->body, "guardrails");
    pal_status status = pal_api_object_read(call, call->body, &agent_body, request, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_tools_read(
            call, pal_json_find(call->body, "tools"), &tools, &tools_len, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_args_check(
            call, pal_json_find(call->body, "completion_args"), "completion_args", err);
    if (status != PAL_OK)
        return status;
    if (!pal_json_is_absent(guardrails) && pal_json_type_of(guardrails) != PAL_JSON_ARRAY)
        return pal_mistral_wrong(call, "guardrails", err, "'guardrails' must be an array");
    return check_handoffs(call, err);
}

/* Merges the request's fields into the existing ones. null removes a field, except for fields that
 * an agent must have. */
static pal_json choose_field(pal_json body, pal_json old, const char *name, bool is_required)
{
    pal_json value = pal_json_find(body, name);
    bool keeps = pal_json_type_of(value) == PAL_JSON_NONE ||
            (is_required && pal_json_type_of(value) == PAL_JSON_NULL);
    return keeps ? pal_json_find(old, name) : value;
}

static pal_status make_fields(pal_call *call, pal_json old, pal_json *out_fields, pal_error *err)
{
    pal_buf buf;
    pal_str json = {0};
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    for (size_t i = 0; field_names[i]; i++) {
        pal_json value = choose_field(call->body, old, field_names[i], i < 2);
        if (pal_json_is_absent(value))
            continue;
        pal_put_raw(&writer, field_names[i], pal_json_raw(value));
    }
    pal_json_end_object(&writer);
    pal_status status = pal_member_keep(&buf, call->arena, &json, err);
    pal_buf_done(&buf);
    if (status == PAL_OK)
        status = pal_json_parse(call->arena, json, NULL, out_fields, err);
    return status;
}

/* ---- Writing ---- */

/* The call's `user` is the agent, and its record belongs to the first operation. */
static void agent_written(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    pal_mistral_agent *agent = call->user;
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status != PAL_OK) {
        pal_call_fail(call, status, err);
        return;
    }
    agent->created_at = ops[0].u.record.record->created_at;
    agent->updated_at = ops[0].u.record.record->updated_at;
    send_agent(call, agent);
}

/* Writes the agent. If `is_new`, also writes a new version. */
static pal_status write_agent(pal_call *call, pal_mistral_agent *agent, bool is_new, pal_error *err)
{
    pal_record *record, *version = NULL;
    pal_op *ops = pal_arena_array(call->arena, 2, sizeof *ops);
    pal_status status = pal_mistral_agent_record(call, agent, &record, err);
    if (status != PAL_OK)
        return status;
    if (is_new)
        version = new_record(call, AGENT_VERSION,
                version_name(call, agent->id_text, agent->current), pal_json_raw(agent->fields));
    if (!ops || pal_arena_failure(call->arena) != PAL_OK)
        return pal_arena_checked(call->arena, err);
    ops[0] = pal_op_record_put(call->caller.tenant, record, agent->record_version);
    if (version) {
        ops[1] = pal_op_record_put(call->caller.tenant, version, 0);
        ops[1].with_previous = true;
    }
    call->user = agent;
    return pal_call_apply(call, ops, version ? 2 : 1, agent_written, err);
}

static pal_mistral_agent *new_agent(pal_call *call)
{
    char text[PAL_OPENAI_ID_SIZE];
    pal_mistral_agent *agent = pal_arena_alloc(call->arena, sizeof *agent);
    if (!agent)
        return NULL;
    agent->id = pal_call_derived_id(call, 0);
    pal_openai_id_text("ag_", agent->id, text);
    agent->id_text = pal_arena_copy(call->arena, pal_str_of(text));
    agent->count = 1;
    return agent;
}

static pal_status create(pal_call *call, pal_error *err)
{
    agent_request request = {0};
    pal_mistral_agent *agent = new_agent(call);
    if (!agent)
        return pal_arena_checked(call->arena, err);
    pal_status status = check_body(call, &request, err);
    if (status != PAL_OK)
        return status;
    if (!request.model.len || !request.name.len) {
        const char *missing = request.model.len ? "name" : "model";
        return pal_mistral_wrong(
                call, missing, err, "'%s' is missing; an agent requires it", missing);
    }
    status = make_fields(call, (pal_json){0}, &agent->fields, err);
    return status == PAL_OK ? write_agent(call, agent, true, err) : status;
}

/* Finds the agent that the path names, in the call's arena. Returns NULL on failure, with the
 * reason in `err`. */
static pal_mistral_agent *agent_of(pal_call *call, pal_str version, pal_error *err)
{
    pal_mistral_agent *agent = pal_arena_alloc(call->arena, sizeof *agent);
    if (!agent) {
        (void)!pal_arena_checked(call->arena, err);
        return NULL;
    }
    pal_status status = pal_mistral_agent_find(call, call->params[0], version, agent, err);
    return status == PAL_OK ? agent : NULL;
}

static pal_status update(pal_call *call, pal_error *err)
{
    agent_request request = {0};
    pal_mistral_agent *agent = agent_of(call, (pal_str){0}, err);
    if (!agent)
        return err->status;
    pal_status status = check_body(call, &request, err);
    if (status != PAL_OK)
        return status;
    if (agent->count >= PAL_MISTRAL_VERSIONS_MAX)
        return pal_mistral_wrong(call, NULL, err,
                "the agent has %d versions, which is the maximum; create a new agent",
                PAL_MISTRAL_VERSIONS_MAX);
    status = make_fields(call, agent->fields, &agent->fields, err);
    if (status != PAL_OK)
        return status;
    agent->version = agent->current = agent->count++;
    return write_agent(call, agent, true, err);
}

typedef struct version_query {
    pal_str version; /* a number or an alias */
} version_query;

static const pal_api_object switch_query = {
        .members = PAL_API_MEMBERS(
                {"version", PAL_API_TEXT, "the number or the alias of a version",
                        .offset = offsetof(version_query, version), .is_required = true})};

static pal_status update_version(pal_call *call, pal_error *err)
{
    version_query query;
    pal_status status = pal_api_query_read(call, &switch_query, &query, err);
    if (status != PAL_OK)
        return status;
    pal_mistral_agent *agent = agent_of(call, query.version, err);
    if (!agent)
        return err->status;
    agent->current = agent->version;
    return write_agent(call, agent, false, err);
}

static void dropped(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    (void)ops_len;
    status = pal_api_ops_failure(ops, 1, status, err, &err);
    if (status == PAL_OK)
        pal_exchange_answer(call->exchange, 204, NULL, (pal_str){0});
    else
        pal_call_fail(call, status, err);
}

static pal_status erase(pal_call *call, pal_error *err)
{
    pal_mistral_agent *agent = agent_of(call, (pal_str){0}, err);
    if (!agent)
        return err->status;
    size_t len = (size_t)agent->count + 1;
    pal_op *ops = pal_arena_array(call->arena, len, sizeof *ops);
    for (size_t i = 0; ops && i < len; i++) {
        pal_str name =
                i ? version_name(call, agent->id_text, i - 1) : pal_mistral_agent_name(agent);
        ops[i] = pal_op_record_drop(call->caller.tenant,
                new_record(call, i ? AGENT_VERSION : PAL_MISTRAL_AGENT, name, (pal_str){0}));
    }
    if (pal_arena_failure(call->arena) != PAL_OK)
        return pal_arena_checked(call->arena, err);
    return pal_call_apply(call, ops, len, dropped, err);
}

/* ---- Reading agents and versions ---- */

static const pal_api_object agent_query = {
        .members = PAL_API_MEMBERS(
                {"agent_version", PAL_API_TEXT, "the number or the alias of a version",
                        .offset = offsetof(version_query, version)})};

static pal_status get(pal_call *call, pal_error *err)
{
    version_query query = {0};
    pal_status status = pal_api_query_read(call, &agent_query, &query, err);
    if (status != PAL_OK)
        return status;
    pal_mistral_agent *agent = agent_of(call, query.version, err);
    if (!agent)
        return err->status;
    send_agent(call, agent);
    return PAL_OK;
}

static pal_status get_version(pal_call *call, pal_error *err)
{
    pal_mistral_agent *agent = agent_of(call, call->params[1], err);
    if (!agent)
        return err->status;
    send_agent(call, agent);
    return PAL_OK;
}

static pal_status list_versions(pal_call *call, pal_error *err)
{
    pal_mistral_page page = {.size = PAGE_DEFAULT};
    pal_status status = pal_api_query_read(call, &pal_mistral_page_query, &page, err);
    if (status != PAL_OK)
        return status;
    pal_mistral_agent *agent = agent_of(call, (pal_str){0}, err);
    if (!agent)
        return err->status;
    uint64_t skip = page.number * page.size;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_array(writer);
    /* Lists the versions, newest first. */
    for (uint64_t i = skip; i < agent->count && i < skip + page.size; i++) {
        char number[24];
        pal_mistral_agent version = *agent;
        snprintf(number, sizeof number, "%" PRIu64, agent->count - 1 - i);
        status = load_version(call, &version, pal_str_of(number), err);
        if (status != PAL_OK)
            return status;
        pal_mistral_agent_put(writer, &version);
    }
    pal_json_end_array(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Routes ---- */

PAL_MISTRAL_HANDLER(create)
PAL_MISTRAL_HANDLER(get)
PAL_MISTRAL_HANDLER(update)
PAL_MISTRAL_HANDLER(erase)
PAL_MISTRAL_HANDLER(update_version)
PAL_MISTRAL_HANDLER(list_versions)
PAL_MISTRAL_HANDLER(get_version)

const pal_api_route pal_mistral_agent_routes[] = {
        {"POST", "/mistral/v1/agents", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                handle_create,
                {"mistralCreateAgent", "create an agent", NULL, &agent_body,
                        &pal_api_any_object, 200}},
        {"GET", "/mistral/v1/agents/{id}", PAL_KEY_READ, PAL_API_WORKER, handle_get,
                {"mistralGetAgent",
                        "read one agent, in its current or another version", &agent_query, NULL,
                        &pal_api_any_object,
                        200}},
        {"PATCH", "/mistral/v1/agents/{id}", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                handle_update,
                {"mistralUpdateAgent",
                        "create a new version of an agent", NULL, &agent_body,
                        &pal_api_any_object, 200}},
        {"DELETE", "/mistral/v1/agents/{id}", PAL_KEY_WRITE, PAL_API_WORKER, handle_erase,
                {"mistralDeleteAgent",
                        "delete an agent with all its versions", NULL, NULL, NULL, 204}},
        {"PATCH", "/mistral/v1/agents/{id}/version", PAL_KEY_WRITE, PAL_API_WORKER,
                handle_update_version,
                {"mistralSwitchAgent", "make another version the current one", &switch_query, NULL,
                        &pal_api_any_object,
                        200}},
        {"GET", "/mistral/v1/agents/{id}/versions", PAL_KEY_READ, PAL_API_WORKER,
                handle_list_versions,
                {"mistralListVersions",
                        "list the versions of an agent, newest first", &pal_mistral_page_query,
                        NULL, &pal_api_any_object,
                        200}},
        {"GET", "/mistral/v1/agents/{id}/versions/{version}", PAL_KEY_READ, PAL_API_WORKER,
                handle_get_version,
                {"mistralGetVersion", "read one version of an agent", NULL, NULL,
                        &pal_api_any_object, 200}},
        {0},
};
