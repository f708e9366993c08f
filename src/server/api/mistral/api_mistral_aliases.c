/* api_mistral_aliases.c - aliases: names for versions of an agent. They are stored in the agent's
 * record: [{"alias":"live","version":1,"created_at":MS,"updated_at":MS}]. */
#include "base/clock.h"
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"
#include "server/api/mistral/api_mistral.h"
#include "server/api/native/api_session.h"
#include "server/server_call.h"

typedef struct alias_change {
    pal_str name;
    uint64_t version;
    int64_t created_at; /* creation time of the existing alias with this name; 0 if there is none */
    int64_t now;
    bool is_drop;
} alias_change;

static int64_t time_of(pal_json alias, const char *name)
{
    int64_t ms = 0;
    (void)pal_json_i64(pal_json_find(alias, name), &ms);
    return ms;
}

static void show(pal_json_writer *writer, pal_str name, uint64_t version, int64_t created_at,
        int64_t updated_at)
{
    pal_json_begin_object(writer);
    pal_put_str(writer, "alias", name);
    pal_put_count(writer, "version", version);
    pal_put_time(writer, "created_at", created_at);
    pal_put_time(writer, "updated_at", updated_at);
    pal_json_end_object(writer);
}

/* ---- Changing ---- */

/* Copies the other aliases, and adds the new one unless it is to be removed. *out_found reports
 * whether the alias existed. */
static void put_aliases(pal_call *call, pal_json_writer *writer, const pal_mistral_agent *agent,
        alias_change *change, bool *out_found)
{
    pal_json alias;
    *out_found = false;
    pal_json_begin_array(writer);
    for (pal_json_iter iter = pal_json_each(agent->aliases); pal_json_next(&iter, NULL, &alias);) {
        pal_str name = pal_member_string(alias, "alias", call->arena);
        if (!pal_str_equal(name, change->name)) {
            pal_json_put_raw(writer, pal_json_raw(alias));
            continue;
        }
        *out_found = true;
        change->created_at = time_of(alias, "created_at");
    }
    if (!change->is_drop) {
        if (!change->created_at)
            change->created_at = change->now;
        pal_json_begin_object(writer);
        pal_put_str(writer, "alias", change->name);
        pal_put_count(writer, "version", change->version);
        pal_put_number(writer, "created_at", change->created_at);
        pal_put_number(writer, "updated_at", change->now);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

static pal_status change_aliases(
        pal_call *call, pal_mistral_agent *agent, alias_change *change, pal_error *err)
{
    pal_buf buf;
    bool was_there;
    pal_str json = {0};
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    put_aliases(call, &writer, agent, change, &was_there);
    pal_status status = pal_member_keep(&buf, call->arena, &json, err);
    pal_buf_done(&buf);
    if (status != PAL_OK)
        return status;
    status = pal_json_parse(call->arena, json, NULL, &agent->aliases, err);
    if (status != PAL_OK)
        return status;
    if (change->is_drop && !was_there)
        return pal_error_set(
                err, PAL_NOT_FOUND, "the agent has no alias '%.*s'", PAL_STR_ARG(change->name));
    if (status != PAL_OK)
        return status;
    if (pal_json_count(agent->aliases) > PAL_MISTRAL_ALIASES_MAX)
        return pal_mistral_wrong(
                call, "alias", err, "an agent can have at most %d aliases",
                PAL_MISTRAL_ALIASES_MAX);
    return status;
}

static void changed(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    const alias_change *change = call->user;
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status != PAL_OK) {
        pal_call_fail(call, status, err);
    } else if (change->is_drop) {
        pal_exchange_answer(call->exchange, 204, NULL, (pal_str){0});
    } else {
        show(pal_call_writer(call), change->name, change->version, change->created_at, change->now);
        pal_call_send(call, 200);
    }
}

static pal_status write_change(
        pal_call *call, pal_mistral_agent *agent, alias_change *change, pal_error *err)
{
    pal_record *record;
    pal_op *op = pal_arena_alloc(call->arena, sizeof *op);
    pal_status status = change_aliases(call, agent, change, err);
    if (status == PAL_OK)
        status = pal_mistral_agent_record(call, agent, &record, err);
    if (status != PAL_OK || !op)
        return op ? status : pal_arena_checked(call->arena, err);
    *op = pal_op_record_put(call->caller.tenant, record, agent->record_version);
    call->user = change;
    return pal_call_apply(call, op, 1, changed, err);
}

static const pal_api_object drop_query = {
        .members = PAL_API_MEMBERS(
                {"alias", PAL_API_TEXT, "the alias, of 1 to 64 bytes",
                        .offset = offsetof(alias_change, name), .is_required = true})};

static const pal_api_object put_query = {
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &drop_query},
                {"version", PAL_API_COUNT, "the number of the version",
                        .offset = offsetof(alias_change, version),
                        .max = PAL_MISTRAL_VERSIONS_MAX - 1, .is_required = true})};

/* A number would be mistaken for a version. */
static pal_status read_change(pal_call *call, alias_change *change, pal_error *err)
{
    uint64_t unused;
    pal_status status =
            pal_api_query_read(call, change->is_drop ? &drop_query : &put_query, change, err);
    if (status != PAL_OK)
        return status;
    if (change->name.len > 64 || pal_call_number(change->name, &unused))
        return pal_mistral_wrong(
                call, "alias", err, "'alias' must have 1 to 64 bytes and must not be a number");
    return PAL_OK;
}

static pal_status change_alias(pal_call *call, bool is_drop, pal_error *err)
{
    pal_mistral_agent *agent = pal_arena_alloc(call->arena, sizeof *agent);
    alias_change *change = pal_arena_alloc(call->arena, sizeof *change);
    if (!agent || !change)
        return pal_arena_checked(call->arena, err);
    *change = (alias_change){.is_drop = is_drop, .now = pal_clock_now_ms()};
    pal_status status = read_change(call, change, err);
    if (status != PAL_OK)
        return status;
    status = pal_mistral_agent_find(call, call->params[0], (pal_str){0}, agent, err);
    if (status != PAL_OK)
        return status;
    if (!is_drop && change->version >= agent->count)
        return pal_mistral_wrong(
                call, "version", err, "'version' must be a version of the agent");
    return write_change(call, agent, change, err);
}

static pal_status put(pal_call *call, pal_error *err)
{
    return change_alias(call, false, err);
}

static pal_status drop(pal_call *call, pal_error *err)
{
    return change_alias(call, true, err);
}

static pal_status list(pal_call *call, pal_error *err)
{
    pal_mistral_agent agent;
    pal_json alias;
    pal_status status = pal_mistral_agent_find(call, call->params[0], (pal_str){0}, &agent, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_array(writer);
    for (pal_json_iter iter = pal_json_each(agent.aliases); pal_json_next(&iter, NULL, &alias);) {
        uint64_t version = 0;
        (void)pal_json_u64(pal_json_find(alias, "version"), &version);
        show(writer, pal_member_string(alias, "alias", call->arena), version,
                time_of(alias, "created_at"), time_of(alias, "updated_at"));
    }
    pal_json_end_array(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

PAL_MISTRAL_HANDLER(put)
PAL_MISTRAL_HANDLER(drop)
PAL_MISTRAL_HANDLER(list)

const pal_api_route pal_mistral_alias_routes[] = {
        {"PUT", "/mistral/v1/agents/{id}/aliases", PAL_KEY_WRITE, PAL_API_WORKER, handle_put,
                {"mistralPutAlias", "set an alias for a version", &put_query, NULL,
                        &pal_api_any_object, 200}},
        {"DELETE", "/mistral/v1/agents/{id}/aliases", PAL_KEY_WRITE, PAL_API_WORKER, handle_drop,
                {"mistralDropAlias", "remove an alias", &drop_query, NULL, NULL, 204}},
        {"GET", "/mistral/v1/agents/{id}/aliases", PAL_KEY_READ, PAL_API_WORKER, handle_list,
                {"mistralListAliases", "list the aliases of an agent", NULL, NULL,
                        &pal_api_any_object, 200}},
        {0},
};
