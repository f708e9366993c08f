/* api_mistral_agent_list.c - lists agents, newest first, in pages and with filters. */
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"
#include "server/api/mistral/api_mistral.h"
#include "server/server_call.h"

#define PAGE_DEFAULT 20
#define SCAN_STEP 200 /* records that are read at a time */

typedef struct agent_filter {
    pal_mistral_page page;
    pal_str page_token; /* the last agent of the previous page */
    pal_str name;
    pal_str search;
    pal_str id;
    pal_json metadata;
    bool is_deployed; /* filter for agents that are deployed to a chat; no agent of this server
                         is */
} agent_filter;

static const pal_api_object filter_query = {
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &pal_mistral_page_query,
                        .offset = offsetof(agent_filter, page)},
                {"name", PAL_API_TEXT, "only the agent with this name",
                        .offset = offsetof(agent_filter, name)},
                {"search", PAL_API_TEXT, "text in the name or the description",
                        .offset = offsetof(agent_filter, search)},
                {"id", PAL_API_TEXT, "only the agent with this id",
                        .offset = offsetof(agent_filter, id)},
                {"deployment_chat", PAL_API_FLAG, "only agents that are deployed to a chat",
                        .offset = offsetof(agent_filter, is_deployed)},
                {"metadata", PAL_API_VALUE, "JSON object that the metadata must contain",
                        .schema = "{\"type\":\"string\"}"})};

static const pal_api_object token_query = {
        .members = PAL_API_MEMBERS(
                {"page_token", PAL_API_TEXT, "the 'next_page_token' of the previous page",
                        .offset = offsetof(agent_filter, page_token)},
                {.type = PAL_API_INCLUDE, .of = &filter_query})};

static pal_status read_filter(
        pal_call *call, const pal_api_object *query, agent_filter *out_filter, pal_error *err)
{
    *out_filter = (agent_filter){.page.size = PAGE_DEFAULT};
    pal_status status = pal_api_query_read(call, query, out_filter, err);
    return status == PAL_OK ? pal_mistral_filter_read(call, &out_filter->metadata, err) : status;
}

static bool has_text(pal_str text, pal_str part)
{
    return part.len == 0 || (text.len && memmem(text.data, text.len, part.data, part.len));
}

static bool fits(pal_call *call, const pal_mistral_agent *agent, const agent_filter *filter)
{
    pal_str name = pal_member_string(agent->fields, "name", call->arena);
    pal_str description = pal_member_string(agent->fields, "description", call->arena);
    if (filter->is_deployed || (filter->name.len && !pal_str_equal(name, filter->name)) ||
            (filter->id.len && !pal_str_equal(agent->id_text, filter->id)))
        return false;
    if (!has_text(name, filter->search) && !has_text(description, filter->search))
        return false;
    return pal_mistral_filter_fits(
            filter->metadata, pal_json_find(agent->fields, "metadata"), call->arena);
}

typedef struct agent_scan {
    const agent_filter *filter;
    uint64_t skip;
    uint64_t left;
    pal_str after; /* the last agent that was shown */
    bool has_more;
} agent_scan;

/* Returns false if the agent does not fit into the page. */
static bool take_agent(pal_call *call, agent_scan *scan, const pal_mistral_agent *agent)
{
    if (!fits(call, agent, scan->filter))
        return true;
    if (scan->skip) {
        scan->skip--;
        return true;
    }
    scan->has_more = scan->left == 0;
    if (scan->has_more)
        return false;
    pal_mistral_agent_put(pal_call_writer(call), agent);
    scan->left--;
    scan->after = pal_mistral_agent_name(agent);
    return true;
}

/* Writes agents that match the filter, newest first, until `left` is 0. */
static pal_status scan_agents(pal_call *call, agent_scan *scan, pal_error *err)
{
    pal_record_query query = {.tenant = call->caller.tenant,
            .kind = pal_str_of(PAL_MISTRAL_AGENT),
            .after = scan->after,
            .descending = true,
            .limit = SCAN_STEP};
    pal_record_page page = {.has_more = true};
    pal_status status = PAL_OK;
    while (status == PAL_OK && page.has_more) {
        status = pal_store_record_list(call->server->store, &query, call->arena, &page, err);
        for (size_t i = 0; status == PAL_OK && i < page.len; i++) {
            pal_mistral_agent agent;
            query.after = page.items[i].name;
            status = pal_mistral_agent_take(call, &page.items[i], &agent, err);
            if (status == PAL_OK && !take_agent(call, scan, &agent))
                return PAL_OK;
        }
    }
    return status;
}

static pal_status list(pal_call *call, pal_error *err)
{
    agent_filter filter;
    pal_json_writer *writer = pal_call_writer(call);
    pal_status status = read_filter(call, &filter_query, &filter, err);
    if (status != PAL_OK)
        return status;
    agent_scan scan = {.filter = &filter,
            .skip = filter.page.number * filter.page.size,
            .left = filter.page.size};
    pal_json_begin_array(writer);
    status = scan_agents(call, &scan, err);
    if (status != PAL_OK)
        return status;
    pal_json_end_array(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status list_pages(pal_call *call, pal_error *err)
{
    agent_filter filter;
    pal_json_writer *writer = pal_call_writer(call);
    pal_status status = read_filter(call, &token_query, &filter, err);
    if (status != PAL_OK)
        return status;
    agent_scan scan = {.filter = &filter, .left = filter.page.size, .after = filter.page_token};
    pal_json_begin_object(writer);
    pal_put_text(writer, "object", "list");
    pal_json_name(writer, "data");
    pal_json_begin_array(writer);
    status = scan_agents(call, &scan, err);
    if (status != PAL_OK)
        return status;
    pal_json_end_array(writer);
    pal_put_str_or_null(writer, "next_page_token", scan.has_more ? scan.after : (pal_str){0});
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

PAL_MISTRAL_HANDLER(list)
PAL_MISTRAL_HANDLER(list_pages)

const pal_api_route pal_mistral_agent_list_routes[] = {
        {"GET", "/mistral/v1/agents", PAL_KEY_READ, PAL_API_WORKER, handle_list,
                {"mistralListAgents", "list agents, newest first", &filter_query, NULL,
                        &pal_api_any_object, 200}},
        {"GET", "/mistral/v1/agents/pages", PAL_KEY_READ, PAL_API_WORKER, handle_list_pages,
                {"mistralPageAgents",
                        "list agents, newest first, from the end of the previous page",
                        &token_query, NULL, &pal_api_any_object, 200}},
        {0},
};
