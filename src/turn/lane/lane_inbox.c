/* lane_inbox.c - writes and reads a request that waits in the inbox. The item has no lane, and no
 * `on_done`, which could not be called after a restart. An item has the same size limit as a
 * message. Pure functions. */
#include "turn/lane/lane_inbox.h"

#include "base/buf.h"
#include "base/json/json.h"
#include "base/json/json_put.h"
#include "base/memory.h"

static void put_number(pal_json_writer *writer, const char *name, uint64_t number)
{
    if (number == 0)
        return;
    pal_put_count(writer, name, number);
}

static void put_budget(pal_json_writer *writer, const pal_budget *budget)
{
    pal_json_name(writer, "budget");
    pal_json_begin_object(writer);
    put_number(writer, "session_tokens", budget->session_tokens);
    put_number(writer, "session_cost_micros", (uint64_t)budget->session_cost_micros);
    put_number(writer, "tenant_tokens", budget->tenant_tokens);
    put_number(writer, "tenant_cost_micros", (uint64_t)budget->tenant_cost_micros);
    put_number(writer, "since", (uint64_t)budget->since);
    pal_put_str_if(writer, "owner", pal_str_of(budget->owner));
    pal_json_end_object(writer);
}

static void put_context(pal_json_writer *writer, const pal_context_settings *settings)
{
    pal_json_name(writer, "context");
    pal_json_begin_object(writer);
    pal_put_str_if(writer, "strategy", pal_str_of(pal_strategy_name(settings->strategy)));
    put_number(writer, "auto_off", settings->auto_off);
    put_number(writer, "prune_off", settings->prune_off);
    put_number(writer, "max_tokens", settings->max_tokens);
    put_number(writer, "threshold_percent", settings->threshold_percent);
    put_number(writer, "keep_recent_messages", settings->keep_recent_messages);
    put_number(writer, "compaction_threshold", settings->compaction_threshold);
    put_number(writer, "low_water_percent", settings->low_water_percent);
    put_number(writer, "preserve_recent_tokens", settings->preserve_recent_tokens);
    put_number(writer, "summary_tokens_max", settings->summary_tokens_max);
    put_number(writer, "prune_protect_tokens", settings->prune_protect_tokens);
    put_number(writer, "prune_minimum_tokens", settings->prune_minimum_tokens);
    put_number(writer, "prune_protect_turns", settings->prune_protect_turns);
    pal_json_end_object(writer);
}

static void put_tools(pal_json_writer *writer, const pal_tool *tools, size_t len)
{
    pal_json_name(writer, "tools");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < len; i++) {
        pal_json_begin_object(writer);
        pal_put_str_if(writer, "name", tools[i].name);
        pal_put_str_if(writer, "description", tools[i].description);
        pal_put_str_if(writer, "schema", tools[i].schema);
        put_number(writer, "tokens", tools[i].tokens);
        put_number(writer, "strict", tools[i].is_strict);
        pal_put_str_if(writer, "call_extra", tools[i].call_extra);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

static pal_status put_messages(
        pal_json_writer *writer, const pal_turn_request *request, pal_arena *arena, pal_error *err)
{
    pal_status status = PAL_OK;

    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < request->messages_len; i++) {
        pal_str json = {0};

        status = pal_message_to_json(&request->messages[i], arena, &json, err);
        if (status == PAL_OK)
            pal_json_put_raw(writer, json);
    }
    pal_json_end_array(writer);
    return status;
}

static void put_settings(pal_json_writer *writer, const pal_turn_request *request)
{
    pal_put_str_if(writer, "endpoint", request->endpoint);
    pal_put_str_if(writer, "model", request->model);
    if (request->has_system) {
        pal_put_str(writer, "system", request->system);
    }
    pal_put_str_if(writer, "tool_choice", request->tool_choice);
    pal_put_str_if(writer, "parameters", request->parameters);
    pal_put_str_if(writer, "label", request->label);
    pal_put_str_if(writer, "agent", request->agent);
    put_number(writer, "output_max", request->output_max);
    put_number(writer, "max_tool_iterations", request->max_tool_iterations);
    put_number(writer, "whole", request->all_or_nothing);
    put_number(writer, "no_server_tools", request->no_server_tools);
    put_number(writer, "no_retries", request->no_retries);
    put_number(writer, "calls_end_turn", request->calls_end_turn);
    put_number(writer, "expected_seq", request->expected_seq);
    put_budget(writer, &request->budget);
    if (request->has_context)
        put_context(writer, &request->context);
    if (request->tools_len > 0)
        put_tools(writer, request->tools, request->tools_len);
}

static void put_id(pal_json_writer *writer, const char *name, pal_id id)
{
    char text[PAL_ID_TEXT_SIZE];

    if (pal_id_is_none(id))
        return;
    pal_id_to_text(id, text);
    pal_put_text(writer, name, text);
}

static void put_head(pal_json_writer *writer, const pal_inbox_head *head)
{
    put_id(writer, "turn", head->turn);
    put_id(writer, "first", head->first);
    put_number(writer, "tries", head->tries);
    put_number(writer, "final", head->is_final);
    put_number(writer, "on", head->on_seq);
    put_number(writer, "handed", head->is_handed);
    put_number(writer, "spent", head->spent);
}

pal_status pal_inbox_write(const pal_turn_request *request, const pal_inbox_head *head,
        const char *delivery, pal_arena *arena, pal_inbox_item *out_item, pal_error *err)
{
    pal_buf buf;
    pal_json_writer writer;
    pal_status status;

    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    put_head(&writer, head);
    put_settings(&writer, request);
    status = request->messages_len ? put_messages(&writer, request, arena, err) : PAL_OK;
    pal_json_end_object(&writer);
    if (status == PAL_OK && buf.failure != PAL_OK)
        status = pal_error_set(
                err, buf.failure, "the messages and tools are too large for the inbox");
    if (status == PAL_OK)
        *out_item = (pal_inbox_item){
                .client_id = request->messages_len ? request->messages[0].client_id : (pal_str){0},
                .delivery = pal_str_of(delivery),
                .body = pal_arena_copy(arena, pal_buf_str(&buf)),
        };
    pal_buf_done(&buf);
    if (status == PAL_OK && pal_arena_failure(arena) != PAL_OK)
        status = pal_no_memory(err);
    return status;
}

static pal_status read_messages(
        pal_json list, pal_arena *arena, pal_turn_request *request, pal_error *err)
{
    pal_json_iter each = pal_json_each(list);
    pal_status status = PAL_OK;
    pal_json value;

    request->messages =
            pal_arena_array(arena, pal_json_count(list) + 1, sizeof(*request->messages));
    request->messages_len = 0;
    if (!request->messages)
        return pal_no_memory(err);
    while (status == PAL_OK && pal_json_next(&each, NULL, &value))
        status = pal_message_from_json(
                pal_json_raw(value), arena, &request->messages[request->messages_len++], err);
    return status;
}

static uint64_t number_of(pal_json object, const char *name)
{
    uint64_t number = 0;

    pal_json_u64(pal_json_find(object, name), &number);
    return number;
}

static pal_budget read_budget(pal_json json, pal_arena *arena)
{
    pal_str owner = pal_json_string(pal_json_find(json, "owner"), arena);
    pal_budget budget = {
            .session_tokens = number_of(json, "session_tokens"),
            .session_cost_micros = (int64_t)number_of(json, "session_cost_micros"),
            .tenant_tokens = number_of(json, "tenant_tokens"),
            .tenant_cost_micros = (int64_t)number_of(json, "tenant_cost_micros"),
            .since = (int64_t)number_of(json, "since"),
    };

    if (owner.len > 0 && owner.len < sizeof(budget.owner))
        memcpy(budget.owner, owner.data, owner.len);
    return budget;
}

static uint32_t small_of(pal_json object, const char *name)
{
    uint64_t number = number_of(object, name);

    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static pal_context_settings read_context(pal_json context, pal_arena *arena)
{
    pal_context_settings settings = {
            .auto_off = number_of(context, "auto_off") != 0,
            .prune_off = number_of(context, "prune_off") != 0,
            .max_tokens = number_of(context, "max_tokens"),
            .threshold_percent = small_of(context, "threshold_percent"),
            .keep_recent_messages = small_of(context, "keep_recent_messages"),
            .compaction_threshold = number_of(context, "compaction_threshold"),
            .low_water_percent = small_of(context, "low_water_percent"),
            .preserve_recent_tokens = number_of(context, "preserve_recent_tokens"),
            .summary_tokens_max = number_of(context, "summary_tokens_max"),
            .prune_protect_tokens = number_of(context, "prune_protect_tokens"),
            .prune_minimum_tokens = number_of(context, "prune_minimum_tokens"),
            .prune_protect_turns = small_of(context, "prune_protect_turns"),
    };

    pal_strategy_from_name(
            pal_json_string(pal_json_find(context, "strategy"), arena), &settings.strategy);
    return settings;
}

static pal_status read_tools(
        pal_json list, pal_arena *arena, pal_turn_request *request, pal_error *err)
{
    pal_json_iter each = pal_json_each(list);
    pal_tool *tools = pal_arena_array(arena, pal_json_count(list) + 1, sizeof(*tools));
    pal_json tool;

    if (!tools)
        return pal_no_memory(err);
    request->tools = tools;
    request->tools_len = 0;
    while (pal_json_next(&each, NULL, &tool))
        tools[request->tools_len++] = (pal_tool){
                .name = pal_json_string(pal_json_find(tool, "name"), arena),
                .description = pal_json_string(pal_json_find(tool, "description"), arena),
                .schema = pal_json_string(pal_json_find(tool, "schema"), arena),
                .tokens = number_of(tool, "tokens"),
                .is_strict = number_of(tool, "strict") != 0,
                .call_extra = pal_json_string(pal_json_find(tool, "call_extra"), arena),
        };
    return PAL_OK;
}

static pal_id id_of(pal_json object, const char *name, pal_arena *arena)
{
    pal_id id;

    return pal_id_from_text(pal_json_string(pal_json_find(object, name), arena), &id)
            ? id
            : (pal_id){{0}};
}

static pal_inbox_head read_head(pal_json body, pal_arena *arena)
{
    return (pal_inbox_head){
            .turn = id_of(body, "turn", arena),
            .first = id_of(body, "first", arena),
            .tries = small_of(body, "tries"),
            .is_final = number_of(body, "final") != 0,
            .on_seq = number_of(body, "on"),
            .is_handed = number_of(body, "handed") != 0,
            .spent = small_of(body, "spent"),
    };
}

bool pal_inbox_read_head(const pal_inbox_item *item, pal_arena *scratch, pal_inbox_head *out_head)
{
    pal_json body;

    if (pal_json_parse(scratch, item->body, NULL, &body, NULL) != PAL_OK)
        return false;
    *out_head = read_head(body, scratch);
    return true;
}

pal_status pal_inbox_read(const pal_inbox_item *item, pal_arena *arena, pal_turn_request *request,
        pal_inbox_head *out_head, pal_error *err)
{
    pal_json body, system, context;
    pal_status status = pal_json_parse(arena, item->body, NULL, &body, err);

    if (status != PAL_OK)
        return status;
    if (out_head)
        *out_head = read_head(body, arena);
    request->endpoint = pal_json_string(pal_json_find(body, "endpoint"), arena);
    request->model = pal_json_string(pal_json_find(body, "model"), arena);
    system = pal_json_find(body, "system");
    request->has_system = pal_json_type_of(system) == PAL_JSON_STRING;
    request->system = pal_json_string(system, arena);
    request->tool_choice = pal_json_string(pal_json_find(body, "tool_choice"), arena);
    request->parameters = pal_json_string(pal_json_find(body, "parameters"), arena);
    request->label = pal_json_string(pal_json_find(body, "label"), arena);
    request->agent = pal_json_string(pal_json_find(body, "agent"), arena);
    request->output_max = number_of(body, "output_max");
    request->max_tool_iterations = small_of(body, "max_tool_iterations");
    request->all_or_nothing = number_of(body, "whole") != 0;
    request->no_server_tools = number_of(body, "no_server_tools") != 0;
    request->no_retries = number_of(body, "no_retries") != 0;
    request->calls_end_turn = number_of(body, "calls_end_turn") != 0;
    request->budget = read_budget(pal_json_find(body, "budget"), arena);
    request->expected_seq = number_of(body, "expected_seq");
    context = pal_json_find(body, "context");
    request->has_context = pal_json_type_of(context) == PAL_JSON_OBJECT;
    if (request->has_context)
        request->context = read_context(context, arena);
    status = read_tools(pal_json_find(body, "tools"), arena, request, err);
    if (status != PAL_OK)
        return status;
    return read_messages(pal_json_find(body, "messages"), arena, request, err);
}
