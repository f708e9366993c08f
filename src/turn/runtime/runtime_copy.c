/* runtime_copy.c - deep copies of messages, requests and options into an arena. */
#include "turn/runtime/runtime_copy.h"

#include "base/text.h"
#include "palaver/note.h"
#include "dialect/native/native.h"

static pal_part *copy_parts(pal_arena *arena, const pal_part *parts, size_t len)
{
    pal_part *copy = pal_arena_array(arena, len ? len : 1, sizeof(*copy));

    for (size_t i = 0; copy && i < len; i++) {
        pal_str *const texts[] = {&copy[i].text, &copy[i].call_id, &copy[i].name,
                &copy[i].arguments, &copy[i].signature, &copy[i].family, &copy[i].media_type,
                &copy[i].url, &copy[i].blob, &copy[i].data, &copy[i].extra};

        copy[i] = parts[i];
        for (size_t j = 0; j < sizeof(texts) / sizeof(texts[0]); j++)
            *texts[j] = pal_arena_copy(arena, *texts[j]);
        if (parts[i].parts_len > 0) /* one level deep, as the checks guarantee */
            copy[i].parts = copy_parts(arena, parts[i].parts, parts[i].parts_len);
    }
    return copy;
}

pal_message *pal_copy_messages(pal_arena *arena, const pal_message *messages, size_t len)
{
    pal_message *copy = pal_arena_array(arena, len ? len : 1, sizeof(*copy));

    for (size_t i = 0; copy && i < len; i++) {
        copy[i] = messages[i];
        copy[i].parts = copy_parts(arena, messages[i].parts, messages[i].parts_len);
        copy[i].model = pal_arena_copy(arena, messages[i].model);
        copy[i].client_id = pal_arena_copy(arena, messages[i].client_id);
        copy[i].extra = pal_arena_copy(arena, messages[i].extra);
        copy[i].sent = pal_native_sent_copy(arena, messages[i].sent);
    }
    return copy;
}

pal_tool *pal_copy_tools(pal_arena *arena, const pal_tool *tools, size_t len)
{
    pal_tool *copy = len ? pal_arena_array(arena, len, sizeof(*copy)) : NULL;

    for (size_t i = 0; copy && i < len; i++) {
        copy[i] = tools[i];
        copy[i].name = pal_arena_copy(arena, tools[i].name);
        copy[i].description = pal_arena_copy(arena, tools[i].description);
        copy[i].schema = pal_arena_copy(arena, tools[i].schema);
        copy[i].call_extra = pal_arena_copy(arena, tools[i].call_extra);
        copy[i].server = pal_arena_copy(arena, tools[i].server);
    }
    return copy;
}

static const pal_permission_rule *copy_rules(
        pal_arena *arena, const pal_permission_rule *rules, size_t len)
{
    pal_permission_rule *copy = pal_arena_array(arena, len ? len : 1, sizeof(*copy));

    for (size_t i = 0; copy && i < len; i++)
        copy[i] = (pal_permission_rule){.tool = pal_arena_copy(arena, rules[i].tool),
                .permission = rules[i].permission};
    return copy;
}

const pal_question_answer *pal_copy_answers(
        pal_arena *arena, const pal_question_answer *answers, size_t len)
{
    pal_question_answer *copy = pal_arena_array(arena, len ? len : 1, sizeof(*copy));

    for (size_t i = 0; copy && i < len; i++) {
        copy[i] = answers[i];
        copy[i].call_id = pal_arena_copy(arena, answers[i].call_id);
        copy[i].data = pal_arena_copy(arena, answers[i].data);
        copy[i].extra = pal_arena_copy(arena, answers[i].extra);
    }
    return copy;
}

static const pal_turn_channel *copy_channel(pal_arena *arena, const pal_turn_channel *channel)
{
    pal_turn_channel *copy = channel ? pal_arena_alloc(arena, sizeof(*copy)) : NULL;

    if (!copy)
        return NULL;
    *copy = (pal_turn_channel){.outbox = pal_arena_copy(arena, channel->outbox),
            .deliver = pal_arena_copy(arena, channel->deliver),
            .also = pal_arena_copy(arena, channel->also),
            .is_note = channel->is_note};
    return copy;
}

pal_turn_request pal_copy_request(pal_arena *arena, const pal_turn_request *request)
{
    pal_turn_request copy = *request;

    copy.tenant = pal_arena_copy(arena, request->tenant);
    copy.messages = pal_copy_messages(arena, request->messages, request->messages_len);
    copy.endpoint = pal_arena_copy(arena, request->endpoint);
    copy.model = pal_arena_copy(arena, request->model);
    copy.system = pal_arena_copy(arena, request->system);
    copy.tools = pal_copy_tools(arena, request->tools, request->tools_len);
    copy.tool_choice = pal_arena_copy(arena, request->tool_choice);
    copy.parameters = pal_arena_copy(arena, request->parameters);
    copy.items_request = pal_arena_copy(arena, request->items_request);
    copy.label = pal_arena_copy(arena, request->label);
    copy.agent = pal_arena_copy(arena, request->agent);
    copy.permissions = copy_rules(arena, request->permissions, request->permissions_len);
    copy.answers = pal_copy_answers(arena, request->answers, request->answers_len);
    copy.channel = copy_channel(arena, request->channel);
    return copy;
}

/* ---- Options ---- */

static pal_str *copy_texts(pal_arena *arena, const pal_str *texts, size_t len)
{
    pal_str *copy = pal_arena_array(arena, len ? len : 1, sizeof(*copy));

    for (size_t i = 0; copy && i < len; i++)
        copy[i] = pal_arena_copy(arena, texts[i]);
    return copy;
}

static pal_header *copy_headers(pal_arena *arena, const pal_header *headers, size_t len)
{
    pal_header *copy = pal_arena_array(arena, len ? len : 1, sizeof(*copy));

    for (size_t i = 0; copy && i < len; i++) {
        copy[i].name = pal_arena_copy(arena, headers[i].name);
        copy[i].value = pal_arena_copy(arena, headers[i].value);
    }
    return copy;
}

/* An endpoint without a network has one model, named like its kind. */
static pal_str own_model(const pal_endpoint *endpoint)
{
    bool is_alone = pal_str_is(endpoint->kind, "echo") || pal_str_is(endpoint->kind, "script");

    return endpoint->model.len == 0 && is_alone ? endpoint->kind : endpoint->model;
}

static pal_endpoint *copy_endpoints(pal_arena *arena, const pal_endpoint *endpoints, size_t len)
{
    pal_endpoint *copy = pal_arena_array(arena, len ? len : 1, sizeof(*copy));

    for (size_t i = 0; copy && i < len; i++) {
        const pal_endpoint *from = &endpoints[i];

        copy[i] = (pal_endpoint){
                .name = pal_arena_copy(arena, from->name.len ? from->name : from->kind),
                .kind = pal_arena_copy(arena, from->kind),
                .url = pal_arena_copy(arena, from->url),
                .api_key = pal_arena_copy(arena, from->api_key),
                .headers = copy_headers(arena, from->headers, from->headers_len),
                .headers_len = from->headers_len,
                .path = pal_arena_copy(arena, from->path),
                .model = pal_arena_copy(arena, own_model(from)),
                .api_key_env = pal_arena_copy(arena, from->api_key_env),
                .responses = from->responses,
                .affinity = from->affinity,
                .affinity_headers =
                        copy_texts(arena, from->affinity_headers, from->affinity_headers_len),
                .affinity_headers_len = from->affinity_headers_len,
        };
    }
    return copy;
}

/* Returns true for "claude-opus-4" and "claude-sonnet-4-5": the names are equal up to the first
 * dash. */
static bool is_same_family(pal_str a, pal_str b)
{
    const char *dash = a.len ? memchr(a.data, '-', a.len) : NULL;
    size_t len = dash ? (size_t)(dash - a.data) + 1 : 0;

    return len > 0 && pal_text_begins_str(b, pal_str_make(a.data, len));
}

/* Moves one endpoint to the front and gives it the model: the endpoint whose default model this is,
 * otherwise the first one with a model of the same family, otherwise the first one. */
static void prefer_model(pal_endpoint *endpoints, size_t len, pal_str model)
{
    size_t chosen = 0;
    pal_endpoint first;

    while (chosen < len && !pal_str_equal(endpoints[chosen].model, model))
        chosen++;
    for (size_t i = 0; chosen == len && i < len; i++)
        if (is_same_family(model, endpoints[i].model))
            chosen = i;
    if (chosen == len)
        chosen = 0;
    first = endpoints[chosen];
    memmove(endpoints + 1, endpoints, chosen * sizeof(*endpoints));
    if (!pal_str_is(first.kind, "echo"))
        first.model = model;
    endpoints[0] = first;
}

static const pal_tool_idp *copy_idp(pal_arena *arena, const pal_tool_idp *idp)
{
    pal_tool_idp *copy = idp ? pal_arena_alloc(arena, sizeof(*copy)) : NULL;

    if (!copy)
        return NULL;
    *copy = *idp;
    copy->token_url = pal_arena_copy(arena, idp->token_url);
    copy->client_id = pal_arena_copy(arena, idp->client_id);
    copy->client_secret = pal_arena_copy(arena, idp->client_secret);
    return copy;
}

static const pal_tool_auth *copy_auth(pal_arena *arena, const pal_tool_auth *auth)
{
    pal_tool_auth *copy = auth ? pal_arena_alloc(arena, sizeof(*copy)) : NULL;

    if (!copy)
        return NULL;
    *copy = *auth;
    copy->client_id = pal_arena_copy(arena, auth->client_id);
    copy->client_secret = pal_arena_copy(arena, auth->client_secret);
    copy->client_key = pal_arena_copy(arena, auth->client_key);
    copy->client_metadata_url = pal_arena_copy(arena, auth->client_metadata_url);
    copy->scope = pal_arena_copy(arena, auth->scope);
    copy->issuer = pal_arena_copy(arena, auth->issuer);
    copy->file = pal_arena_copy(arena, auth->file);
    copy->token_file = pal_arena_copy(arena, auth->token_file);
    copy->idp = copy_idp(arena, auth->idp);
    return copy;
}

static pal_tool_server *copy_servers(pal_arena *arena, const pal_tool_server *servers, size_t len)
{
    pal_tool_server *copy = pal_arena_array(arena, len ? len : 1, sizeof(*copy));

    for (size_t i = 0; copy && i < len; i++) {
        copy[i] = servers[i];
        copy[i].name = pal_arena_copy(arena, servers[i].name);
        copy[i].command = copy_texts(arena, servers[i].command, servers[i].command_len);
        copy[i].environment = copy_texts(arena, servers[i].environment, servers[i].environment_len);
        copy[i].url = pal_arena_copy(arena, servers[i].url);
        copy[i].headers = copy_headers(arena, servers[i].headers, servers[i].headers_len);
        copy[i].auth = copy_auth(arena, servers[i].auth);
    }
    return copy;
}

static pal_price *copy_prices(pal_arena *arena, const pal_price *prices, size_t len)
{
    pal_price *copy = pal_arena_array(arena, len ? len : 1, sizeof(*copy));

    for (size_t i = 0; copy && i < len; i++) {
        copy[i] = prices[i];
        copy[i].pattern = pal_arena_copy(arena, prices[i].pattern);
    }
    return copy;
}

static const pal_context_settings *copy_context(
        pal_arena *arena, const pal_context_settings *settings)
{
    pal_context_settings *copy = settings ? pal_arena_alloc(arena, sizeof(*copy)) : NULL;

    if (copy)
        *copy = *settings;
    return copy;
}

static pal_agent_settings *copy_agents(
        pal_arena *arena, const pal_agent_settings *agents, size_t len)
{
    pal_agent_settings *copy = pal_arena_array(arena, len ? len : 1, sizeof(*copy));

    for (size_t i = 0; copy && i < len; i++) {
        copy[i] = agents[i];
        copy[i].name = pal_arena_copy(arena, agents[i].name);
        copy[i].system = pal_arena_copy(arena, agents[i].system);
        copy[i].endpoint = pal_arena_copy(arena, agents[i].endpoint);
        copy[i].model = pal_arena_copy(arena, agents[i].model);
        copy[i].context = copy_context(arena, agents[i].context);
        copy[i].parameters = pal_arena_copy(arena, agents[i].parameters);
        copy[i].tools = copy_texts(arena, agents[i].tools, agents[i].tools_len);
        copy[i].permissions =
                copy_rules(arena, agents[i].permissions, agents[i].permissions_len);
    }
    return copy;
}

static const pal_memory_settings *copy_memory(
        pal_arena *arena, const pal_memory_settings *settings)
{
    pal_memory_settings *copy = settings ? pal_arena_alloc(arena, sizeof(*copy)) : NULL;

    if (!copy)
        return NULL;
    *copy = *settings;
    copy->model = pal_arena_copy(arena, settings->model);
    return copy;
}

pal_runtime_options pal_copy_options(pal_arena *arena, const pal_runtime_options *options)
{
    pal_runtime_options copy = *options;
    pal_endpoint *endpoints = copy_endpoints(arena, options->endpoints, options->endpoints_len);

    copy.model = pal_arena_copy(arena, options->model);
    if (endpoints && options->endpoints_len > 0 && copy.model.len > 0)
        prefer_model(endpoints, options->endpoints_len, copy.model);
    copy.endpoints = endpoints;
    copy.tool_servers = copy_servers(arena, options->tool_servers, options->tool_servers_len);
    copy.prices = copy_prices(arena, options->prices, options->prices_len);
    copy.price_version = pal_arena_copy(arena, options->price_version);
    copy.affinity_key = pal_arena_copy(arena, options->affinity_key);
    copy.system = pal_arena_copy(arena, options->system);
    copy.permissions = copy_rules(arena, options->permissions, options->permissions_len);
    copy.agents = copy_agents(arena, options->agents, options->agents_len);
    copy.memory = copy_memory(arena, options->memory);
    copy.compaction_model = pal_arena_copy(arena, options->compaction_model);
    copy.compaction_prompt = pal_arena_copy(arena, options->compaction_prompt);
    copy.default_agent = pal_arena_copy(arena, options->default_agent);
    copy.parameters = pal_arena_copy(arena, options->parameters);
    copy.compaction_system = pal_arena_copy(arena, options->compaction_system);
    copy.compaction_parameters = pal_arena_copy(arena, options->compaction_parameters);
    if (copy.max_tool_iterations == 0)
        copy.max_tool_iterations = 10;
    if (copy.retries_max == 0)
        copy.retries_max = 5;
    if (copy.tools_wait_ms == 0)
        copy.tools_wait_ms = PAL_TOOLS_WAIT_MS;
    if (copy.lease_ms == 0)
        copy.lease_ms = 30000;
    if (copy.turns_max == 0)
        copy.turns_max = 100000;
    if (copy.events_max == 0)
        copy.events_max = 10000;
    if (copy.events_bytes_max == 0)
        copy.events_bytes_max = 4u << 20;
    return copy;
}
