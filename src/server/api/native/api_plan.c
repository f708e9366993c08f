/* api_plan.c - shows the context that a model gets of a session: now, at an earlier message,
 * without some marks, or for a request that was not sent. */
#include "base/json/json_put.h"
#include "base/text.h"
#include "dialect/native/native.h"
#include "server/api/api_object.h"
#include "server/api/native/api_native.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"

/* ---- The request ---- */

typedef struct plan_query {
    pal_str model;
    int strategy; /* -1: the session's */
    uint32_t text_max;
    uint64_t at_seq;
    pal_str without;
    bool before_compaction;
} plan_query;

/* The state of the session that the plan is made for. */
static const pal_api_object state_query = {
        .members = PAL_API_MEMBERS(
                {"text", PAL_API_COUNT32, "characters of the text that each item shows",
                        .offset = offsetof(plan_query, text_max),
                        .max = PAL_SERVER_PLAN_TEXT_MAX},
                {"at_seq", PAL_API_COUNT,
                        "the seq of a message: the context before it was appended",
                        .offset = offsetof(plan_query, at_seq), .min = 1},
                {"without", PAL_API_TEXT, "numbers of marks that do not count, such as 3,5",
                        .offset = offsetof(plan_query, without)},
                {"compact", PAL_API_FLAG, "what a compaction would replace (false)",
                        .offset = offsetof(plan_query, before_compaction)})};

static const pal_api_object plan_query_table = {
        .members = PAL_API_MEMBERS(
                {"model", PAL_API_TEXT, "the model whose context is shown",
                        .offset = offsetof(plan_query, model)},
                {"strategy", PAL_API_WORD, "the strategy, instead of the session's",
                        .offset = offsetof(plan_query, strategy),
                        .words = "compact summarization sliding_window reset none"},
                {.type = PAL_API_INCLUDE, .of = &state_query})};

static pal_status read_without(
        pal_call *call, pal_str text, pal_plan_state *state, pal_error *err)
{
    uint64_t *numbers = pal_arena_array(call->arena, PAL_SERVER_PLAN_MARKS_MAX, sizeof *numbers);
    if (!numbers)
        return pal_arena_checked(call->arena, err);
    state->without = numbers;
    call->fail_param = "without";
    while (text.len) {
        const char *comma = memchr(text.data, ',', text.len);
        size_t len = comma ? (size_t)(comma - text.data) : text.len;
        if (state->without_len == PAL_SERVER_PLAN_MARKS_MAX)
            return pal_error_set(err, PAL_LIMIT, "'without' has more than %d marks",
                    PAL_SERVER_PLAN_MARKS_MAX);
        if (!pal_call_number(pal_str_make(text.data, len), &numbers[state->without_len++]))
            return pal_error_set(err, PAL_INVALID,
                    "'without' must be numbers of marks, separated by commas");
        text = pal_text_after(text, comma ? len + 1 : len);
    }
    call->fail_param = NULL;
    return PAL_OK;
}

/* Makes the plan. If it fails because of a query parameter, the error begins with its name. */
static pal_status make_plan(pal_call *call, const plan_query *query,
        const pal_turn_request *request, pal_turn_preview *out_preview, pal_error *err)
{
    pal_plan_state state = {
            .at_seq = query->at_seq, .before_compaction = query->before_compaction};
    pal_status status = read_without(call, query->without, &state, err);
    if (status != PAL_OK)
        return status;
    status = pal_turn_plan_state(
            call->server->runtime, request, &state, call->arena, out_preview, err);
    return status == PAL_OK ? status : pal_call_blame(call, status, err);
}

static pal_status plan_by_query(pal_call *call, const plan_query *query,
        const pal_session *session, pal_turn_preview *out_preview, pal_error *err)
{
    pal_turn_request request = {.tenant = call->caller.tenant,
            .session = session->id,
            .model = query->model,
            .has_context = query->strategy >= 0};
    if (request.has_context) {
        pal_status status =
                pal_api_session_context(call, session, session->agent, &request.context, err);
        if (status != PAL_OK)
            return status;
        request.context.strategy = (pal_strategy)query->strategy;
    }
    return make_plan(call, query, &request, out_preview, err);
}

/* ---- The plan ---- */

static pal_status send_plan(pal_call *call, const plan_query *query,
        const pal_turn_preview *preview, pal_error *err)
{
    pal_plan_extras extras = {.endpoint = preview->endpoint,
            .model = preview->model,
            .text_max = query->text_max};
    pal_str json;
    pal_status status = pal_plan_show(&preview->plan, &extras, call->arena, &json, err);
    if (status != PAL_OK)
        return status;
    pal_json_put_raw(pal_call_writer(call), json);
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status get_context(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_turn_preview preview;
    plan_query query = {.strategy = -1};
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_api_query_read(call, &plan_query_table, &query, err);
    if (status == PAL_OK)
        status = plan_by_query(call, &query, &session, &preview, err);
    return status == PAL_OK ? send_plan(call, &query, &preview, err) : status;
}

static pal_status plan_context(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_turn_preview preview;
    plan_query query = {.strategy = -1};
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_query_read(call, &state_query, &query, err);
    if (status != PAL_OK)
        return status;
    pal_api_turn *turn = pal_api_turn_new(call, &session);
    if (!turn)
        return pal_arena_checked(call->arena, err);
    status = pal_api_turn_body_read(turn, &session, err);
    if (status == PAL_OK)
        status = make_plan(call, &query, &turn->request, &preview, err);
    return status == PAL_OK ? send_plan(call, &query, &preview, err) : status;
}

/* ---- One item ---- */

/* The message as it is stored, or null: tools, summaries and notices are not stored. */
static pal_status put_stored(
        pal_call *call, pal_id session, const pal_plan_item *item, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    pal_message_page found = {0};
    pal_message_query load = {
            .after_seq = item->seq - 1, .before_seq = item->seq + 1, .hidden = true};
    pal_status status = PAL_OK;
    if (item->seq && item->kind != PAL_PLAN_ITEM_RANGE)
        status = pal_store_load(call->server->store, call->caller.tenant, session, &load,
                call->arena, &found, err);
    if (status != PAL_OK)
        return status;
    pal_json_name(writer, "stored");
    if (found.len)
        return pal_native_message_put(writer, &found.items[0], err);
    pal_json_put_null(writer);
    return PAL_OK;
}

static pal_status put_sent(pal_json_writer *writer, const pal_plan_item *item, pal_error *err)
{
    pal_json_name(writer, "sent");
    if (item->message)
        return pal_native_message_put(writer, item->message, err);
    pal_json_put_null(writer);
    return PAL_OK;
}

static void put_tools(pal_json_writer *writer, const pal_plan *plan, const pal_plan_item *item)
{
    if (item->kind != PAL_PLAN_ITEM_TOOLS)
        return;
    pal_json_name(writer, "tools");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < item->count; i++) {
        const pal_tool *tool = &plan->tools[i];
        pal_json_begin_object(writer);
        pal_put_str(writer, "name", tool->name);
        pal_put_str(writer, "description", tool->description);
        pal_put_raw(writer, "parameters",
                tool->schema.len ? tool->schema : pal_str_of("{}"));
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

static void put_repairs(pal_json_writer *writer, const pal_plan *plan, const pal_plan_item *item)
{
    pal_json_name(writer, "repairs");
    pal_json_begin_array(writer);
    for (size_t i = 0; item->seq && i < plan->repairs; i++) {
        const pal_repair *repair = &plan->repairs_made[i];
        if (repair->seq != item->seq || item->kind == PAL_PLAN_ITEM_RANGE)
            continue;
        pal_json_begin_object(writer);
        pal_put_flag(writer, "dropped", repair->dropped);
        pal_put_str(writer, "text", repair->text);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

static pal_status send_item(pal_call *call, pal_id session, const pal_plan *plan, uint64_t index,
        pal_error *err)
{
    pal_str json;
    pal_json_writer *writer = pal_call_writer(call);
    pal_status status = pal_plan_item_to_json(plan, (size_t)index, call->arena, &json, err);
    if (status != PAL_OK)
        return status;
    const pal_plan_item *item = &plan->items[index];
    pal_json_begin_object(writer);
    pal_put_raw(writer, "item", json);
    status = put_stored(call, session, item, err);
    if (status == PAL_OK)
        status = put_sent(writer, item, err);
    if (status != PAL_OK)
        return status;
    put_tools(writer, plan, item);
    put_repairs(writer, plan, item);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status get_context_item(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_turn_preview preview;
    uint64_t index;
    plan_query query = {.strategy = -1};
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_api_query_read(call, &plan_query_table, &query, err);
    if (status != PAL_OK)
        return status;
    if (!pal_call_number(call->params[1], &index))
        return pal_error_set(err, PAL_INVALID,
                "the path must end in the number of an item, counted from 0");
    status = plan_by_query(call, &query, &session, &preview, err);
    return status == PAL_OK ? send_item(call, session.id, &preview.plan, index, err) : status;
}

/* ---- Routes ---- */

#define DISPOSITIONS "sent pruned summarized dropped repaired synthesized"

static const pal_api_object prefix_body = {
        .members = PAL_API_MEMBERS(
                {"items", PAL_API_COUNT, .is_required = true},
                {"tokens", PAL_API_COUNT, .is_required = true},
                {"break", PAL_API_TEXT, .is_required = true})};

static const pal_api_object limits_body = {
        .members = PAL_API_MEMBERS(
                {"context", PAL_API_COUNT, .is_required = true},
                {"output", PAL_API_COUNT, .is_required = true},
                {"usable", PAL_API_COUNT, .is_required = true},
                {"threshold", PAL_API_COUNT, .is_required = true},
                {"low_water", PAL_API_COUNT, .is_required = true})};

static const pal_api_object item_body = {"PlanItem",
        .members = PAL_API_MEMBERS(
                {"kind", PAL_API_WORD, .words = "system tools summary notice message range notes "
                        "note",
                        .is_required = true},
                {"disposition", PAL_API_WORD, .words = DISPOSITIONS, .is_required = true},
                {"role", .type = PAL_API_TEXT},
                {"first_seq", .type = PAL_API_COUNT},
                {"seq", .type = PAL_API_COUNT},
                {"count", .type = PAL_API_COUNT},
                {"tokens", PAL_API_COUNT, .is_required = true},
                {"bytes", PAL_API_COUNT, .is_required = true},
                {"images", PAL_API_COUNT, .is_required = true},
                {"pinned", .type = PAL_API_FLAG},
                {"hash", .type = PAL_API_TEXT},
                {"note", PAL_API_TEXT, .help = "id of the note"},
                {"reason", PAL_API_TEXT, .is_required = true},
                {"text", .type = PAL_API_TEXT})};

static const pal_api_object plan_body = {"Plan",
        .members = PAL_API_MEMBERS(
                {"action", PAL_API_WORD, .words = "send prune compact refuse",
                        .is_required = true},
                {"reason", PAL_API_TEXT, .is_required = true},
                {"strategy", PAL_API_TEXT, .is_required = true},
                {"refusal", .type = PAL_API_TEXT},
                {"prune", .type = PAL_API_JSON_OBJECT},
                {"cut", .type = PAL_API_JSON_OBJECT},
                {"tokens", PAL_API_COUNT, .is_required = true},
                {"tokens_plain", PAL_API_COUNT, .is_required = true},
                {"usable", PAL_API_COUNT, .is_required = true},
                {"bytes", PAL_API_COUNT, .is_required = true},
                {"images", PAL_API_COUNT, .is_required = true},
                {"is_estimate", PAL_API_FLAG, .is_required = true},
                {"repairs", PAL_API_COUNT, .is_required = true},
                {"first_seq", PAL_API_COUNT, .is_required = true},
                {"prefix", PAL_API_VALUE, .of = &prefix_body, .is_required = true},
                {"endpoint", .type = PAL_API_TEXT},
                {"model", .type = PAL_API_TEXT},
                {"limits", PAL_API_VALUE, .of = &limits_body, .is_required = true},
                {"items", PAL_API_LIST, .of = &item_body, .is_required = true})};

static const pal_api_object repair_body = {
        .members = PAL_API_MEMBERS(
                {"dropped", PAL_API_FLAG, .is_required = true},
                {"text", PAL_API_TEXT, .is_required = true})};

static const pal_api_object tool_body = {
        .members = PAL_API_MEMBERS(
                {"name", PAL_API_TEXT, .is_required = true},
                {"description", PAL_API_TEXT, .is_required = true},
                {"parameters", PAL_API_JSON_OBJECT, .is_required = true})};

static const pal_api_object shown_item_body = {"ShownPlanItem",
        .members = PAL_API_MEMBERS(
                {"item", PAL_API_VALUE, .of = &item_body, .is_required = true},
                {"stored", PAL_API_JSON_OBJECT, .is_required = true, .is_nullable = true},
                {"sent", PAL_API_JSON_OBJECT, .is_required = true, .is_nullable = true},
                {"tools", PAL_API_LIST, .of = &tool_body},
                {"repairs", PAL_API_LIST, .of = &repair_body, .is_required = true})};

const pal_api_route pal_plan_routes[] = {
        {"GET", "/api/v1/sessions/{id}/context", PAL_KEY_READ, PAL_API_WORKER, get_context,
                {"getContext", "show the plan: every item that a model would get, and why",
                        &plan_query_table, NULL, &plan_body, 200}},
        {"POST", "/api/v1/sessions/{id}/context", PAL_KEY_READ, PAL_API_JSON | PAL_API_WORKER,
                plan_context,
                {"planContext", "show the plan for a turn that is not started", &state_query,
                        &pal_api_turn_body, &plan_body, 200}},
        {"GET", "/api/v1/sessions/{id}/context/{n}", PAL_KEY_READ, PAL_API_WORKER,
                get_context_item,
                {"getContextItem", "show one item of the plan as it is stored and as it is sent",
                        &plan_query_table, NULL, &shown_item_body, 200}},
        {0},
};
