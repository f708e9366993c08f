/* api_about.c - shows the caller and what the server has: models, tools, agents and numbers. */
#include <stdio.h>
#include "base/json/json_put.h"
#include "base/text.h"
#include "dialect/native/native.h"
#include "server/access/access_auth.h"
#include "server/access/access_key.h"
#include "server/api/api_object.h"
#include "server/api/native/api_native.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"

#define DAY_MS (24 * 3600 * (int64_t)1000)
#define MODELS_WAIT_MS 2000 /* how long model services may take to list their models */

/* ---- The caller ---- */

/* Parts of the API that clients can test for before they use them. */
static const char *const features[] = {"events", "watch", "so_far", "turns",
        "plan", "past", "lists", "login", "usage_by", "ledger"};

/* The beginning of the next day or month, in UTC. */
static int64_t next_period(int64_t since, bool is_monthly)
{
    char text[PAL_TIME_TEXT_SIZE];
    int64_t ms = since;
    if (!is_monthly)
        return since + DAY_MS;
    /* 31 days after the first of a month is a day of the next month. */
    pal_time_to_text(since + 31 * DAY_MS, text);
    memcpy(text + 8, "01T00:00:00Z", 13);
    (void)pal_time_from_text(pal_str_of(text), &ms);
    return ms;
}

static pal_status put_budget(
        pal_call *call, const pal_key *key, pal_json_writer *writer, pal_error *err)
{
    const pal_budget *budget = &call->caller.budget;
    pal_ledger_sum sum = {0};
    pal_ledger_query query = {.tenant = call->caller.tenant, .from = budget->since};
    if (!budget->tenant_tokens && !budget->tenant_cost_micros) {
        pal_put_null(writer, "budget");
        return PAL_OK;
    }
    pal_status status = pal_store_ledger_sum(call->server->store, &query, &sum, err);
    if (status != PAL_OK)
        return status;
    pal_json_name(writer, "budget");
    pal_json_begin_object(writer);
    pal_put_count(writer, "tokens", budget->tenant_tokens);
    pal_put_count(writer, "used_tokens", sum.usage.input + sum.usage.cache_read +
            sum.usage.cache_write + sum.usage.output);
    pal_put_number(writer, "cost_micros", budget->tenant_cost_micros);
    pal_put_number(writer, "used_cost_micros", sum.cost_micros);
    pal_put_text(writer, "period", key->is_monthly ? "month" : "day");
    pal_put_time(writer, "resets_at", next_period(budget->since, key->is_monthly));
    pal_json_end_object(writer);
    return PAL_OK;
}

/* The key of a client that this process has started is in no store. */
static pal_status find_key(pal_call *call, pal_key *out_key, pal_error *err)
{
    *out_key = (pal_key){.role = call->caller.role};
    if (call->caller.key_id.len == 0)
        return PAL_OK;
    pal_status status =
            pal_key_get(call->server->store, call->caller.key_id, call->arena, out_key, err);
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

static pal_status get_me(pal_call *call, pal_error *err)
{
    pal_key key;
    pal_str endpoint, model;
    bool is_stopgap;
    pal_status status = find_key(call, &key, err);
    if (status == PAL_OK)
        status = pal_runtime_default(
                call->server->runtime, call->arena, &endpoint, &model, &is_stopgap, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_flag(writer, "open", call->caller.key_id.len == 0);
    pal_put_str(writer, "tenant", call->caller.tenant);
    pal_put_text(writer, "role", pal_key_role_name(call->caller.role));
    pal_put_str_or_null(writer, "key_id", call->caller.key_id);
    pal_put_str(writer, "label", key.label);
    status = put_budget(call, &key, writer, err);
    if (status != PAL_OK)
        return status;
    pal_json_name(writer, "model");
    pal_json_begin_object(writer);
    pal_put_str(writer, "endpoint", endpoint);
    pal_put_str(writer, "model", model);
    pal_put_flag(writer, "is_stopgap", is_stopgap);
    pal_json_end_object(writer);
    pal_put_text(writer, "version", call->server->version);
    pal_json_name(writer, "features");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        pal_json_put_text(writer, features[i]);
    pal_json_end_array(writer);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Models ---- */

static void put_price(pal_json_writer *writer, const pal_price *price)
{
    if (!price) {
        pal_put_null(writer, "price");
        return;
    }
    pal_json_name(writer, "price");
    pal_json_begin_object(writer);
    pal_put_count(writer, "input", price->input);
    pal_put_count(writer, "cache_read", price->cache_read);
    pal_put_count(writer, "cache_write", price->cache_write);
    pal_put_count(writer, "output", price->output);
    pal_json_end_object(writer);
}

static void put_model(pal_call *call, const pal_served_model *served, bool is_default)
{
    pal_json_writer *writer = pal_call_writer(call);
    const pal_runtime_options *options = call->server->config->runtime;
    pal_model model = pal_models_find(call->server->models, served->model);
    pal_json_begin_object(writer);
    pal_put_str(writer, "endpoint", served->endpoint);
    pal_put_str(writer, "model", served->model);
    pal_put_count(writer, "context", model.context);
    pal_put_count(writer, "output", model.output);
    pal_put_flag(writer, "is_exact", model.is_exact);
    put_price(writer, pal_price_find(options->prices, options->prices_len, served->model));
    pal_put_flag(writer, "is_default", is_default);
    pal_json_end_object(writer);
}

/* The default model comes first, also if its service lists no models. */
static pal_status list_models(pal_call *call, pal_error *err)
{
    pal_served_model *models, own;
    size_t len;
    pal_status status = pal_runtime_models(
            call->server->runtime, MODELS_WAIT_MS, call->arena, &models, &len, err);
    if (status == PAL_OK)
        status = pal_runtime_default(
                call->server->runtime, call->arena, &own.endpoint, &own.model, NULL, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "models");
    pal_json_begin_array(writer);
    if (own.model.len)
        put_model(call, &own, true);
    for (size_t i = 0; i < len; i++) {
        if (!pal_str_equal(models[i].model, own.model) ||
                !pal_str_equal(models[i].endpoint, own.endpoint))
            put_model(call, &models[i], false);
    }
    pal_json_end_array(writer);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Tools ---- */

static pal_status put_tool(pal_call *call, const pal_tool *tool, pal_error *err)
{
    uint64_t tokens = tool->tokens;
    pal_json_writer *writer = pal_call_writer(call);
    if (!tokens) {
        pal_status status = pal_tokens_tool(
                NULL, tool->name, tool->description, tool->schema, &tokens, err);
        if (status != PAL_OK)
            return status;
    }
    pal_json_begin_object(writer);
    pal_put_str(writer, "name", tool->name);
    pal_put_str(writer, "description", tool->description);
    pal_put_str_or_null(writer, "server", tool->server);
    pal_put_count(writer, "tokens", tokens);
    pal_put_flag(writer, "is_read_only", tool->is_read_only);
    pal_put_text(writer, "permission", pal_permission_name((pal_permission)tool->permission));
    pal_json_end_object(writer);
    return PAL_OK;
}

static pal_status list_tools(pal_call *call, pal_error *err)
{
    pal_tool *tools;
    pal_tool_server_info *servers;
    size_t tools_len, servers_len;
    pal_runtime *runtime = call->server->runtime;
    pal_status status = pal_runtime_tools(runtime, call->arena, &tools, &tools_len, err);
    if (status == PAL_OK)
        status = pal_runtime_tool_servers(runtime, call->arena, &servers, &servers_len, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "tools");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < tools_len; i++)
        status = put_tool(call, &tools[i], err);
    if (status != PAL_OK)
        return status;
    pal_json_end_array(writer);
    pal_json_name(writer, "servers");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < servers_len; i++) {
        pal_json_begin_object(writer);
        pal_put_str(writer, "server", servers[i].name);
        pal_put_text(writer, "state", pal_tool_server_state_name(servers[i].state));
        pal_put_str(writer, "reason", servers[i].reason);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Agents ---- */

/* Instructions are not shown: they may be meant for the model only. */
static pal_status list_agents(pal_call *call, pal_error *err)
{
    const pal_runtime_options *options = call->server->config->runtime;
    pal_json_writer *writer = pal_call_writer(call);
    (void)err;
    pal_json_begin_object(writer);
    pal_json_name(writer, "agents");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < options->agents_len; i++) {
        const pal_agent_settings *agent = &options->agents[i];
        pal_json_begin_object(writer);
        pal_put_str(writer, "name", agent->name);
        pal_put_str_or_null(writer, "endpoint", agent->endpoint);
        pal_put_str_or_null(writer, "model", agent->model);
        pal_put_flag(
                writer, "is_default", pal_text_equal_nocase(agent->name, options->default_agent));
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Numbers ---- */

static void put_store(pal_json_writer *writer, const pal_store_stats *stats)
{
    pal_json_name(writer, "store");
    pal_json_begin_object(writer);
    pal_put_str(writer, "backend", stats->backend);
    pal_put_count(writer, "sessions_active", stats->sessions_active);
    pal_put_count(writer, "sessions_trash", stats->sessions_trash);
    pal_put_count(writer, "sessions_quarantined", stats->sessions_quarantined);
    pal_put_count(writer, "messages", stats->messages);
    pal_put_count(writer, "content_bytes", stats->content_bytes);
    pal_put_count(writer, "blobs", stats->blobs);
    pal_put_count(writer, "blob_bytes", stats->blob_bytes);
    pal_put_count(writer, "disk_bytes", stats->disk_bytes);
    pal_put_count(writer, "tenants", stats->tenants);
    pal_put_count(writer, "commits", stats->commits);
    pal_put_count(writer, "operations", stats->ops);
    if (stats->is_estimated)
        pal_put_flag(writer, "is_estimated", true);
    pal_json_end_object(writer);
}

static void put_turns(pal_json_writer *writer, const pal_runtime_stats *stats)
{
    pal_json_name(writer, "turns");
    pal_json_begin_object(writer);
    pal_put_count(writer, "running", stats->turns_running);
    pal_put_count(writer, "queued", stats->turns_queued);
    pal_put_count(writer, "waiting", stats->turns_waiting);
    pal_put_count(writer, "ended", stats->turns_ended);
    pal_put_count(writer, "failed", stats->turns_failed);
    pal_put_count(writer, "model_calls", stats->model_calls);
    pal_put_count(writer, "model_retries", stats->model_retries);
    pal_put_count(writer, "tool_calls", stats->tool_calls);
    pal_put_count(writer, "watchers", stats->watchers);
    pal_native_put_usage(writer, "usage", &stats->usage);
    pal_put_number(writer, "cost_micros", stats->cost_micros);
    pal_json_end_object(writer);
}

static pal_status get_stats(pal_call *call, pal_error *err)
{
    pal_store_stats store;
    pal_runtime_stats turns;
    pal_status status = pal_store_stat(call->server->store, call->arena, &store, err);
    if (status != PAL_OK)
        return status;
    pal_runtime_stat(call->server->runtime, &turns);
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_text(writer, "version", call->server->version);
    pal_put_time(writer, "started_at", call->server->started_at);
    put_store(writer, &store);
    put_turns(writer, &turns);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Routes ---- */

static const pal_api_object me_budget = {
        .members = PAL_API_MEMBERS(
                {"tokens", PAL_API_COUNT, .is_required = true},
                {"used_tokens", PAL_API_COUNT, .is_required = true},
                {"cost_micros", PAL_API_NUMBER, .is_required = true},
                {"used_cost_micros", PAL_API_NUMBER, .is_required = true},
                {"period", PAL_API_WORD, .words = "day month", .is_required = true},
                {"resets_at", PAL_API_TIME, .is_required = true})};

static const pal_api_object me_model = {
        .members = PAL_API_MEMBERS(
                {"endpoint", PAL_API_TEXT, .is_required = true},
                {"model", PAL_API_TEXT, .is_required = true},
                {"is_stopgap", PAL_API_FLAG, "whether no model was found, and 'echo' repeats the "
                        "messages", .is_required = true})};

static const pal_api_object me_body = {"Me",
        .members = PAL_API_MEMBERS(
                {"open", PAL_API_FLAG, "whether the server needs no key", .is_required = true},
                {"tenant", PAL_API_TEXT, .is_required = true},
                {"role", PAL_API_WORD, .words = "metrics read write admin", .is_required = true},
                {"key_id", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"label", PAL_API_TEXT, .is_required = true},
                {"budget", PAL_API_NESTED, .of = &me_budget, .is_required = true,
                        .is_nullable = true},
                {"model", PAL_API_NESTED, "the model that answers if a request names none",
                        .of = &me_model, .is_required = true},
                {"version", PAL_API_TEXT, .is_required = true},
                {"features", PAL_API_LIST, .is_required = true})};

static const pal_api_object price_object = {
        .members = PAL_API_MEMBERS(
                {"input", PAL_API_COUNT, .is_required = true},
                {"cache_read", PAL_API_COUNT, .is_required = true},
                {"cache_write", PAL_API_COUNT, .is_required = true},
                {"output", PAL_API_COUNT, .is_required = true})};

static const pal_api_object model_object = {"ServedModel",
        .members = PAL_API_MEMBERS(
                {"endpoint", PAL_API_TEXT, .is_required = true},
                {"model", PAL_API_TEXT, .is_required = true},
                {"context", PAL_API_COUNT, "tokens of input and output; 0: unknown",
                        .is_required = true},
                {"output", PAL_API_COUNT, "tokens of an answer; 0: unknown", .is_required = true},
                {"is_exact", PAL_API_FLAG, "whether tokens are counted with the model's vocabulary",
                        .is_required = true},
                {"price", PAL_API_NESTED, "millionths of the currency for a million tokens",
                        .of = &price_object, .is_required = true, .is_nullable = true},
                {"is_default", PAL_API_FLAG, .is_required = true})};

static const pal_api_object models_body = {"ServedModels",
        .members = PAL_API_MEMBERS(
                {"models", PAL_API_LIST, .of = &model_object, .is_required = true})};

static const pal_api_object tool_object = {"ServerTool",
        .members = PAL_API_MEMBERS(
                {"name", PAL_API_TEXT, .is_required = true},
                {"description", PAL_API_TEXT, .is_required = true},
                {"server", PAL_API_TEXT, "null: a built-in tool", .is_required = true,
                        .is_nullable = true},
                {"tokens", PAL_API_COUNT, .is_required = true},
                {"is_read_only", PAL_API_FLAG, .is_required = true},
                {"permission", PAL_API_TEXT, "allow, ask or deny, for the default agent",
                        .is_required = true})};

static const pal_api_object tool_server_object = {"ToolServer",
        .members = PAL_API_MEMBERS(
                {"server", PAL_API_TEXT, .is_required = true},
                {"state", PAL_API_WORD, .words = "starting ready restarting failed",
                        .is_required = true},
                {"reason", PAL_API_TEXT, "the last failure", .is_required = true})};

static const pal_api_object tools_body = {"ServerTools",
        .members = PAL_API_MEMBERS(
                {"tools", PAL_API_LIST, .of = &tool_object, .is_required = true},
                {"servers", PAL_API_LIST, .of = &tool_server_object, .is_required = true})};

static const pal_api_object agent_object = {"ServerAgent",
        .members = PAL_API_MEMBERS(
                {"name", PAL_API_TEXT, .is_required = true},
                {"endpoint", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"model", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"is_default", PAL_API_FLAG, .is_required = true})};

static const pal_api_object agents_body = {"ServerAgents",
        .members = PAL_API_MEMBERS(
                {"agents", PAL_API_LIST, .of = &agent_object, .is_required = true})};

static const pal_api_object store_stats_object = {
        .members = PAL_API_MEMBERS(
                {"backend", PAL_API_TEXT, .is_required = true},
                {"sessions_active", PAL_API_COUNT, .is_required = true},
                {"sessions_trash", PAL_API_COUNT, .is_required = true},
                {"sessions_quarantined", PAL_API_COUNT, .is_required = true},
                {"messages", PAL_API_COUNT, .is_required = true},
                {"content_bytes", PAL_API_COUNT, .is_required = true},
                {"blobs", PAL_API_COUNT, .is_required = true},
                {"blob_bytes", PAL_API_COUNT, .is_required = true},
                {"disk_bytes", PAL_API_COUNT, .is_required = true},
                {"tenants", PAL_API_COUNT, .is_required = true},
                {"commits", PAL_API_COUNT, .is_required = true},
                {"operations", PAL_API_COUNT, .is_required = true},
                {"is_estimated", PAL_API_FLAG, .help = "true if the store is in PostgreSQL and so "
                        "large that it is not counted exactly"})};

static const pal_api_object usage_object = {
        .members = PAL_API_MEMBERS({.type = PAL_API_INCLUDE, .of = &pal_api_token_usage})};

static const pal_api_object turn_stats_object = {
        .members = PAL_API_MEMBERS(
                {"running", PAL_API_COUNT, .is_required = true},
                {"queued", PAL_API_COUNT, .is_required = true},
                {"waiting", PAL_API_COUNT, .is_required = true},
                {"ended", PAL_API_COUNT, .is_required = true},
                {"failed", PAL_API_COUNT, .is_required = true},
                {"model_calls", PAL_API_COUNT, .is_required = true},
                {"model_retries", PAL_API_COUNT, .is_required = true},
                {"tool_calls", PAL_API_COUNT, .is_required = true},
                {"watchers", PAL_API_COUNT, .is_required = true},
                {"usage", PAL_API_NESTED, .of = &usage_object, .is_required = true},
                {"cost_micros", PAL_API_NUMBER, .is_required = true})};

static const pal_api_object stats_body = {"Stats",
        .members = PAL_API_MEMBERS(
                {"version", PAL_API_TEXT, .is_required = true},
                {"started_at", PAL_API_TIME, .is_required = true},
                {"store", PAL_API_NESTED, .of = &store_stats_object, .is_required = true},
                {"turns", PAL_API_NESTED, .of = &turn_stats_object, .is_required = true})};

const pal_api_route pal_about_routes[] = {
        {"GET", "/api/v1/me", PAL_KEY_READ, PAL_API_WORKER, get_me,
                {"getMe", "show the caller's tenant, role and budget, and the default model", NULL,
                        NULL, &me_body, 200}},
        {"GET", "/api/v1/models", PAL_KEY_READ, PAL_API_WORKER, list_models,
                {"listServedModels", "list the models of all endpoints, with limits and prices",
                        NULL, NULL, &models_body, 200}},
        {"GET", "/api/v1/tools", PAL_KEY_READ, PAL_API_WORKER, list_tools,
                {"listTools", "list the server's tools and the states of its tool servers", NULL,
                        NULL, &tools_body, 200}},
        {"GET", "/api/v1/agents", PAL_KEY_READ, 0, list_agents,
                {"listAgents", "list the configured agents", NULL, NULL, &agents_body, 200}},
        {"GET", "/api/v1/stats", PAL_KEY_ADMIN, PAL_API_WORKER, get_stats,
                {"getStats", "count everything that is stored and run, over all tenants", NULL,
                        NULL, &stats_body, 200}},
        {0},
};
