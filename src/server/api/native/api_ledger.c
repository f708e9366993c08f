/* api_ledger.c - reports model calls, and the sums of their tokens and cost.
 *
 * The store keeps sums by hour, so the groups of an hour or a day cost little. Other groups, such
 * as those of models, read the calls of the period, the newest first. */
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/sum.h"
#include "dialect/native/native.h"
#include "server/api/api_object.h"
#include "server/api/native/api_native.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"

#define HOUR_MS ((int64_t)3600 * 1000)
#define DAY_MS (24 * HOUR_MS)

/* ---- Sums ---- */

typedef enum usage_by {
    USAGE_BY_NOTHING = 0,
    USAGE_BY_HOUR = 1,
    USAGE_BY_DAY = 2,
    USAGE_BY_MODEL = 3,
    USAGE_BY_AGENT = 4,
    USAGE_BY_SESSION = 5,
    USAGE_BY_PURPOSE = 6,
    USAGE_BY_TURN = 7,
} usage_by;

typedef struct usage_request {
    pal_ledger_query query;
    int by; /* a usage_by */
} usage_request;

static const pal_api_object period_query = {
        .members = PAL_API_MEMBERS(
                {"from", PAL_API_TIME,
                        "at or after this time: RFC 3339, or milliseconds since 1970",
                        .offset = offsetof(usage_request, query.from)},
                {"to", PAL_API_TIME, "before this time",
                        .offset = offsetof(usage_request, query.to)},
                {"agent", PAL_API_TEXT, "only this agent",
                        .offset = offsetof(usage_request, query.agent)},
                {"turn", PAL_API_TEXT, "only this turn",
                        .offset = offsetof(usage_request, query.turn_id)})};

static const pal_api_object usage_query = {
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &period_query},
                {"by", PAL_API_WORD, "what is summed separately",
                        .offset = offsetof(usage_request, by), .min = USAGE_BY_HOUR,
                        .words = "hour day model agent session purpose turn"})};

static void put_sum(pal_json_writer *writer, const pal_ledger_sum *sum)
{
    pal_put_count(writer, "calls", sum->calls);
    pal_native_put_tokens(writer, &sum->usage);
    pal_put_number(writer, "cost_micros", sum->cost_micros);
}

/* ---- Groups of time ---- */

/* Writes the sum of each hour or day of the period that has any model calls. */
static pal_status put_times(pal_call *call, const usage_request *request, pal_error *err)
{
    pal_json_writer *writer = pal_call_writer(call);
    int64_t step = request->by == USAGE_BY_DAY ? DAY_MS : HOUR_MS;
    pal_ledger_query part = request->query;
    int64_t from = part.from - part.from % step, to = part.to;
    if (part.from <= 0 || to <= part.from) {
        call->fail_param = "from";
        return pal_error_set(err, PAL_INVALID, "'by' requires 'from' and a later 'to'");
    }
    if ((to - from + step - 1) / step > PAL_SERVER_USAGE_GROUPS_MAX) {
        call->fail_param = "from";
        return pal_error_set(err, PAL_LIMIT, "the period has more than %d %s",
                PAL_SERVER_USAGE_GROUPS_MAX, request->by == USAGE_BY_DAY ? "days" : "hours");
    }
    pal_json_name(writer, "groups");
    pal_json_begin_array(writer);
    for (int64_t at = from; at < to; at += step) {
        pal_ledger_sum sum = {0};
        part.from = at > request->query.from ? at : request->query.from;
        part.to = at + step < to ? at + step : to;
        pal_status status = pal_store_ledger_sum(call->server->store, &part, &sum, err);
        if (status != PAL_OK)
            return status;
        if (!sum.calls)
            continue;
        pal_json_begin_object(writer);
        pal_put_time(writer, "from", at);
        put_sum(writer, &sum);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
    return PAL_OK;
}

/* ---- Groups of names ---- */

typedef struct usage_group {
    pal_str name; /* empty: the calls that have none */
    pal_ledger_sum sum;
} usage_group;

typedef struct usage_groups {
    usage_group *items; /* PAL_SERVER_USAGE_GROUPS_MAX */
    size_t len;
    size_t rows;
    bool is_partial; /* calls or groups are missing */
    pal_map by_name;
} usage_groups;

static pal_str name_of(const pal_ledger_entry *entry, int by, char id[PAL_ID_TEXT_SIZE])
{
    switch (by) {
    case USAGE_BY_MODEL:
        return entry->row.model;
    case USAGE_BY_AGENT:
        return entry->row.agent;
    case USAGE_BY_PURPOSE:
        return entry->row.purpose;
    case USAGE_BY_TURN:
        return entry->row.turn_id;
    default:
        break;
    }
    if (pal_id_is_none(entry->session))
        return (pal_str){0};
    pal_id_to_text(entry->session, id);
    return pal_str_of(id);
}

static pal_status find_group(pal_call *call, usage_groups *groups, pal_str name,
        usage_group **out_group, pal_error *err)
{
    /* The empty name is no key of a map. */
    pal_str key = name.len ? name : pal_str_make("", 1);
    *out_group = pal_map_find(&groups->by_name, key);
    if (*out_group)
        return PAL_OK;
    if (groups->len == PAL_SERVER_USAGE_GROUPS_MAX) {
        groups->is_partial = true;
        return PAL_OK;
    }
    usage_group *group = &groups->items[groups->len++];
    group->name = pal_arena_copy(call->arena, name);
    *out_group = group;
    pal_status status = pal_map_set(
            &groups->by_name, name.len ? group->name : pal_str_make("", 1), group);
    return status == PAL_OK ? pal_arena_checked(call->arena, err) : pal_no_memory(err);
}

static void add_count(uint64_t *sum, uint64_t more)
{
    *sum = pal_sum_cap(*sum + pal_sum_cap(more));
}

static void add_row(pal_ledger_sum *sum, const pal_ledger_row *row)
{
    sum->calls++;
    add_count(&sum->usage.input, row->usage.input);
    add_count(&sum->usage.cache_read, row->usage.cache_read);
    add_count(&sum->usage.cache_write, row->usage.cache_write);
    add_count(&sum->usage.output, row->usage.output);
    add_count(&sum->usage.reasoning, row->usage.reasoning);
    pal_sum_i64(&sum->cost_micros, row->cost_micros);
}

static pal_status add_page(pal_call *call, const usage_request *request,
        const pal_ledger_page *page, usage_groups *groups, pal_error *err)
{
    char id[PAL_ID_TEXT_SIZE];
    for (size_t i = 0; i < page->len; i++) {
        usage_group *group;
        pal_status status = find_group(
                call, groups, name_of(&page->items[i], request->by, id), &group, err);
        if (status != PAL_OK)
            return status;
        if (group)
            add_row(&group->sum, &page->items[i].row);
    }
    groups->rows += page->len;
    return PAL_OK;
}

/* `pages` is an arena for one page at a time. */
static pal_status collect_groups(pal_call *call, const usage_request *request, pal_arena *pages,
        usage_groups *groups, pal_error *err)
{
    char kept[PAL_SERVER_LEDGER_CURSOR_SIZE];
    pal_str cursor = {0};
    do {
        pal_ledger_page page = {0};
        pal_arena_reset(pages);
        pal_status status = pal_store_ledger_list(call->server->store, &request->query, cursor,
                PAL_LEDGER_PAGE_MAX, pages, &page, err);
        if (status == PAL_OK)
            status = add_page(call, request, &page, groups, err);
        if (status != PAL_OK)
            return status;
        if (page.cursor.len > sizeof kept)
            return pal_error_set(err, PAL_LIMIT, "the store's cursor is too long");
        if (page.cursor.len)
            memcpy(kept, page.cursor.data, page.cursor.len);
        cursor = pal_str_make(kept, page.cursor.len);
    } while (cursor.len && groups->rows < PAL_SERVER_USAGE_CALLS_MAX);
    groups->is_partial = groups->is_partial || cursor.len > 0;
    return PAL_OK;
}

static void put_groups(pal_json_writer *writer, const usage_groups *groups)
{
    pal_json_name(writer, "groups");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < groups->len; i++) {
        pal_json_begin_object(writer);
        pal_put_str_or_null(writer, "name", groups->items[i].name);
        put_sum(writer, &groups->items[i].sum);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
    if (groups->is_partial)
        pal_put_flag(writer, "partial", true);
}

static pal_status put_names(pal_call *call, const usage_request *request, pal_error *err)
{
    usage_groups groups = {0};
    pal_arena *pages = pal_arena_new(0);
    groups.items =
            pal_arena_array(call->arena, PAL_SERVER_USAGE_GROUPS_MAX, sizeof *groups.items);
    pal_status status = pages && groups.items ? PAL_OK : pal_no_memory(err);
    pal_map_init(&groups.by_name);
    if (status == PAL_OK)
        status = collect_groups(call, request, pages, &groups, err);
    if (status == PAL_OK)
        put_groups(pal_call_writer(call), &groups);
    pal_map_done(&groups.by_name);
    pal_arena_free(pages);
    return status;
}

static pal_status send_usage(pal_call *call, usage_request *request, pal_error *err)
{
    pal_ledger_sum sum = {0};
    pal_status status = pal_api_query_read(call, &usage_query, request, err);
    bool is_time = request->by == USAGE_BY_HOUR || request->by == USAGE_BY_DAY;
    if (status == PAL_OK && is_time && !request->query.to)
        request->query.to = pal_clock_now_ms() + 1;
    if (status == PAL_OK)
        status = pal_store_ledger_sum(call->server->store, &request->query, &sum, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    put_sum(writer, &sum);
    if (is_time)
        status = put_times(call, request, err);
    else if (request->by)
        status = put_names(call, request, err);
    if (status != PAL_OK)
        return status;
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status usage_all(pal_call *call, pal_error *err)
{
    usage_request request = {.query.tenant = call->caller.tenant};
    return send_usage(call, &request, err);
}

static pal_status usage_session(pal_call *call, pal_error *err)
{
    pal_session session;
    usage_request request = {.query.tenant = call->caller.tenant};
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    request.query.session = session.id;
    return send_usage(call, &request, err);
}

/* ---- Model calls ---- */

typedef struct ledger_request {
    usage_request of; /* first, because the offsets of period_query are its members' */
    pal_str session;
    pal_str purpose;
    pal_str model;
    pal_str cursor;
    uint32_t limit;
} ledger_request;

static const pal_api_object ledger_query = {
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &period_query},
                {"session", PAL_API_TEXT, "only this session: its id, its key or an alias",
                        .offset = offsetof(ledger_request, session)},
                {"purpose", PAL_API_TEXT, "only this purpose, such as turn or compaction",
                        .offset = offsetof(ledger_request, purpose)},
                {"model", PAL_API_TEXT, "only this model",
                        .offset = offsetof(ledger_request, model)},
                {"limit", PAL_API_COUNT32, "maximum number of calls",
                        .offset = offsetof(ledger_request, limit), .min = 1,
                        .max = PAL_LEDGER_PAGE_MAX},
                {"cursor", PAL_API_TEXT, "cursor of the previous page",
                        .offset = offsetof(ledger_request, cursor)})};

static void put_entry(pal_json_writer *writer, const pal_ledger_entry *entry)
{
    char session[PAL_ID_TEXT_SIZE];
    pal_id_to_text(entry->session, session);
    pal_json_begin_object(writer);
    pal_put_id(writer, "id", entry->id);
    pal_put_time(writer, "created_at", entry->row.created_at);
    pal_put_str_or_null(writer, "session_id",
            pal_id_is_none(entry->session) ? (pal_str){0} : pal_str_of(session));
    pal_put_str_or_null(writer, "turn_id", entry->row.turn_id);
    pal_put_str_or_null(writer, "agent", entry->row.agent);
    pal_put_str(writer, "purpose", entry->row.purpose);
    pal_put_str(writer, "provider", entry->row.provider);
    pal_put_str(writer, "model", entry->row.model);
    pal_put_str_or_null(writer, "price_version", entry->row.price_version);
    pal_native_put_tokens(writer, &entry->row.usage);
    pal_put_number(writer, "cost_micros", entry->row.cost_micros);
    pal_json_end_object(writer);
}

static bool is_wanted(const ledger_request *request, const pal_ledger_row *row)
{
    return (!request->purpose.len || pal_str_equal(request->purpose, row->purpose)) &&
            (!request->model.len || pal_str_equal(request->model, row->model));
}

/* The store does not select by purpose or model. So with one of them, the response can have fewer
 * calls than `limit` although it has a cursor. */
static pal_status list_ledger(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_ledger_page page = {0};
    ledger_request request = {.of.query.tenant = call->caller.tenant};
    pal_status status = pal_api_query_read(call, &ledger_query, &request, err);
    if (status == PAL_OK && request.session.len) {
        status = pal_call_session(call, request.session, &session, err);
        if (status == PAL_OK)
            request.of.query.session = session.id;
    }
    if (status == PAL_OK)
        status = pal_store_ledger_list(call->server->store, &request.of.query, request.cursor,
                request.limit, call->arena, &page, err);
    if (status != PAL_OK)
        return pal_call_blame(call, status, err);
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "calls");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < page.len; i++)
        if (is_wanted(&request, &page.items[i].row))
            put_entry(writer, &page.items[i]);
    pal_json_end_array(writer);
    pal_put_flag(writer, "has_more", page.cursor.len > 0);
    pal_put_str_or_null(writer, "cursor", page.cursor);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Routes ---- */

static const pal_api_object usage_group_body = {
        .members = PAL_API_MEMBERS(
                {"from", .type = PAL_API_TIME},
                {"name", PAL_API_TEXT, .is_nullable = true},
                {"calls", PAL_API_COUNT, .is_required = true},
                {.type = PAL_API_INCLUDE, .of = &pal_api_token_usage},
                {"cost_micros", PAL_API_NUMBER, .is_required = true})};

static const pal_api_object usage_body = {"Usage",
        .members = PAL_API_MEMBERS(
                {"calls", PAL_API_COUNT, .is_required = true},
                {.type = PAL_API_INCLUDE, .of = &pal_api_token_usage},
                {"cost_micros", PAL_API_NUMBER, .is_required = true},
                {"groups", .type = PAL_API_LIST, .of = &usage_group_body},
                {"partial", .type = PAL_API_FLAG})};

static const pal_api_object ledger_entry_body = {"ModelCall",
        .members = PAL_API_MEMBERS(
                {"id", PAL_API_TEXT, .is_required = true},
                {"created_at", PAL_API_TIME, .is_required = true},
                {"session_id", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"turn_id", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"agent", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"purpose", PAL_API_TEXT, .is_required = true},
                {"provider", PAL_API_TEXT, .is_required = true},
                {"model", PAL_API_TEXT, .is_required = true},
                {"price_version", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {.type = PAL_API_INCLUDE, .of = &pal_api_token_usage},
                {"cost_micros", PAL_API_NUMBER, .is_required = true})};

static const pal_api_object ledger_body = {"ModelCallPage",
        .members = PAL_API_MEMBERS(
                {"calls", PAL_API_LIST, .of = &ledger_entry_body, .is_required = true},
                {"has_more", PAL_API_FLAG, .is_required = true},
                {"cursor", PAL_API_TEXT, .is_required = true, .is_nullable = true})};

const pal_api_route pal_ledger_routes[] = {
        {"GET", "/api/v1/ledger", PAL_KEY_READ, PAL_API_WORKER, list_ledger,
                {"listLedger", "list model calls with their tokens and cost, the newest first",
                        &ledger_query, NULL, &ledger_body, 200}},
        {"GET", "/api/v1/usage", PAL_KEY_READ, PAL_API_WORKER, usage_all,
                {"getUsage", "report tokens and cost of the tenant, an agent or a turn",
                        &usage_query, NULL, &usage_body, 200}},
        {"GET", "/api/v1/sessions/{id}/usage", PAL_KEY_READ, PAL_API_WORKER, usage_session,
                {"getSessionUsage",
                        "report tokens and cost of one session", &usage_query, NULL,
                        &usage_body, 200}},
        {0},
};
