/* api_context.c - shows the context that a model gets of a session, compacts and searches sessions,
 * and reports tokens and cost. */
#include <stdio.h>
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "server/api/native/api_message.h"
#include "server/api/native/api_native.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"

/* ---- The plan ---- */

/* Replaces the strategy alone. All other settings are the session's. */
static pal_status read_strategy(
        pal_call *call, const pal_session *session, pal_turn_request *request, pal_error *err)
{
    pal_str text;
    if (!pal_exchange_query(call->exchange, "strategy", &text))
        return PAL_OK;
    pal_status status =
            pal_api_session_context(call, session, session->agent, &request->context, err);
    if (status != PAL_OK)
        return status;
    request->has_context = true;
    if (pal_strategy_from_name(text, &request->context.strategy))
        return PAL_OK;
    call->fail_param = "strategy";
    return pal_error_set(err, PAL_INVALID,
            "'strategy' must be compact, summarization, sliding_window, reset or none");
}

static pal_status get_context(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_plan plan;
    pal_str json;
    pal_turn_request request = {.tenant = call->caller.tenant};
    (void)pal_exchange_query(call->exchange, "model", &request.model);
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = read_strategy(call, &session, &request, err);
    if (status != PAL_OK)
        return status;
    request.session = session.id;
    status = pal_turn_plan(call->server->runtime, &request, call->arena, &plan, err);
    if (status == PAL_OK)
        status = pal_plan_to_json(&plan, call->arena, &json, err);
    if (status != PAL_OK)
        return status;
    pal_json_put_raw(pal_call_writer(call), json);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Compactions ---- */

static void put_compacted(pal_json_writer *writer, const pal_compaction_result *compacted)
{
    pal_json_begin_object(writer);
    pal_put_count(writer, "number", compacted->number);
    pal_put_count(writer, "seq", compacted->seq);
    pal_put_count(writer, "messages", compacted->messages);
    pal_put_count(writer, "tokens_before", compacted->tokens_before);
    pal_put_count(writer, "tokens_after", compacted->tokens_after);
    pal_put_flag(writer, "fallback", compacted->is_fallback);
    pal_put_str(writer, "summary", compacted->summary);
    pal_put_str(writer, "note", compacted->note);
    pal_json_end_object(writer);
}

/* Returns the reason to store with the compaction. If the request has an idempotency key, the
 * reason contains an id derived from the key, so that a repeated request finds its compaction. */
static pal_str sign_reason(const pal_call *call)
{
    char text[PAL_ID_TEXT_SIZE + 32], id[PAL_ID_TEXT_SIZE];
    if (!call->idempotency_key.len)
        return pal_str_of("manual");
    pal_id_to_text(pal_call_derived_id(call, 0), id);
    snprintf(text, sizeof text, "manual, request %s", id);
    return pal_arena_copy(call->arena, pal_str_of(text));
}

static uint64_t number_of(pal_json object, const char *name)
{
    uint64_t number = 0;
    (void)pal_json_u64(pal_json_find(object, name), &number);
    return number;
}

/* Finds the compaction that an earlier attempt of this request made. Number 0 means that it made
 * none. */
static pal_status find_signed(pal_call *call, pal_id session, pal_str reason,
        pal_compaction_result *out_compacted, pal_error *err)
{
    pal_mark *marks = NULL;
    size_t len = 0;
    pal_status status = pal_store_marks(
            call->server->store, call->caller.tenant, session, call->arena, &marks, &len, err);
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        pal_json body;
        if (marks[i].kind != PAL_MARK_CHECKPOINT || marks[i].inherited)
            continue;
        status = pal_json_parse(call->arena, marks[i].body, NULL, &body, err);
        if (status != PAL_OK ||
                !pal_str_equal(pal_member_string(body, "reason", call->arena), reason))
            continue;
        *out_compacted = (pal_compaction_result){.number = marks[i].number,
                .seq = marks[i].seq,
                .messages = number_of(body, "messages"),
                .tokens_before = number_of(body, "tokens_before"),
                .tokens_after = number_of(body, "tokens_after"),
                .summary = pal_member_string(body, "summary", call->arena)};
        (void)pal_json_bool(pal_json_find(body, "fallback"), &out_compacted->is_fallback);
    }
    return status;
}

static pal_status compact_once(pal_call *call, pal_id session, pal_compaction_request *compaction,
        pal_compaction_result *out_compacted, pal_error *err)
{
    pal_status status = PAL_OK;
    compaction->reason = sign_reason(call);
    if (call->idempotency_key.len)
        status = find_signed(call, session, compaction->reason, out_compacted, err);
    if (status != PAL_OK || out_compacted->number)
        return status;
    return pal_turn_compact(call->server->runtime, call->caller.tenant, session, compaction,
            call->arena, out_compacted, err);
}

/* Stores the caller's summary even if there was nothing to compact. */
static pal_status keep_given(pal_call *call, pal_id session,
        const pal_compaction_request *compaction, pal_compaction_result *compacted, pal_error *err)
{
    pal_mark mark;
    if (compacted->number || !compaction->summary.len)
        return PAL_OK;
    pal_status status = pal_window_summary_set(call->server->store, call->caller.tenant, session,
            compaction->summary, &mark, err);
    if (status != PAL_OK)
        return status;
    compacted->number = mark.number;
    compacted->seq = mark.seq;
    compacted->summary = compaction->summary;
    return PAL_OK;
}

static pal_status read_given(pal_call *call, pal_compaction_request *compaction, pal_error *err)
{
    pal_json_type type = pal_json_type_of(pal_json_find(call->body, "summary"));
    pal_str *summary = &compaction->summary;
    pal_status status =
            pal_call_text(call, call->body, "summary", PAL_SYSTEM_LEN_MAX, summary, err);
    if (status != PAL_OK || type == PAL_JSON_NONE || type == PAL_JSON_NULL)
        return status;
    size_t blank = 0;
    while (blank < summary->len && strchr(" \t\r\n", summary->data[blank]))
        blank++;
    call->fail_param = "summary";
    if (blank == summary->len)
        return pal_error_set(
                err, PAL_INVALID,
                "'summary' is empty; leave it out to let the model write the summary");
    if (compaction->prompt.len || compaction->model.len)
        return pal_error_set(err, PAL_INVALID,
                "'summary' is not allowed together with 'prompt' or 'model'; leave it out to let "
                "the model write the summary");
    call->fail_param = NULL;
    return PAL_OK;
}

static pal_status compact_session(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_compaction_result compacted = {0};
    pal_compaction_request compaction = {.budget = &call->caller.budget};
    pal_json body = call->body;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_call_text(call, body, "prompt", PAL_SYSTEM_LEN_MAX, &compaction.prompt, err);
    if (status == PAL_OK)
        status = pal_call_text(call, body, "model", PAL_MODEL_LEN_MAX, &compaction.model, err);
    if (status == PAL_OK)
        status = pal_call_text(call, body, "system", PAL_SYSTEM_LEN_MAX, &compaction.system, err);
    if (status == PAL_OK)
        status = pal_call_object(call, body, "parameters", &compaction.parameters, err);
    if (status == PAL_OK)
        status = pal_call_count(call, body, "cut_seq", 0, INT64_MAX, &compaction.cut_seq, err);
    if (status == PAL_OK)
        status = pal_call_count(call, body, "redo", 0, INT64_MAX, &compaction.redo, err);
    if (status == PAL_OK)
        status = read_given(call, &compaction, err);
    if (status == PAL_OK)
        status = compact_once(call, session.id, &compaction, &compacted, err);
    if (status == PAL_OK)
        status = keep_given(call, session.id, &compaction, &compacted, err);
    if (status == PAL_BUSY) {
        call->fail_code = 409; /* the same code as for a turn that is rejected because another one
                                  runs */
        call->fail_name = "session_busy";
    }
    if (status != PAL_OK)
        return status;
    put_compacted(pal_call_writer(call), &compacted);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Search ---- */

static pal_status read_search(pal_call *call, pal_search_query *out_search, pal_error *err)
{
    uint64_t limit = PAL_SEARCH_HITS_DEFAULT;
    pal_str role;
    pal_search_query search = {.tenant = call->caller.tenant, .wait_ms = PAL_SEARCH_WAIT_MS};
    (void)pal_exchange_query(call->exchange, "q", &search.text);
    (void)pal_exchange_query(call->exchange, "cursor", &search.cursor);
    if (!search.text.len) {
        call->fail_param = "q";
        return pal_error_set(err, PAL_INVALID, "'q' is missing; send the words to search for");
    }
    if (pal_exchange_query(call->exchange, "role", &role)) {
        search.role = pal_role_from_name(role);
        if (search.role == PAL_ROLE_NONE) {
            call->fail_param = "role";
            return pal_error_set(
                    err, PAL_INVALID, "'role' must be system, user, assistant or tool");
        }
    }
    pal_status status = pal_call_query_count(call, "limit", 1, PAL_SEARCH_HITS_MAX, &limit, err);
    if (status == PAL_OK)
        status = pal_call_query_count(call, "after", 0, INT64_MAX, &search.after_seq, err);
    if (status == PAL_OK)
        status = pal_call_query_count(call, "before", 0, INT64_MAX, &search.before_seq, err);
    if (status == PAL_OK)
        status = pal_call_query_time(call, "from", &search.from, err);
    if (status == PAL_OK)
        status = pal_call_query_time(call, "to", &search.to, err);
    search.limit = (uint32_t)limit;
    *out_search = search;
    return status;
}

static void put_hit(pal_json_writer *writer, const pal_search_hit *hit)
{
    pal_json_begin_object(writer);
    pal_put_id(writer, "session_id", hit->session);
    pal_put_id(writer, "message_id", hit->message);
    pal_put_count(writer, "seq", hit->seq);
    pal_put_text(writer, "role", pal_role_name(hit->role));
    pal_put_time(writer, "created_at", hit->created_at);
    pal_put_str(writer, "snippet", hit->snippet);
    pal_json_end_object(writer);
}

static pal_status send_hits(pal_call *call, const pal_search_query *search, pal_error *err)
{
    pal_search_page hits;
    pal_status status = pal_store_search(call->server->store, search, call->arena, &hits, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "hits");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < hits.len; i++)
        put_hit(writer, &hits.items[i]);
    pal_json_end_array(writer);
    pal_put_flag(writer, "has_more", hits.cursor.len > 0);
    pal_put_str_or_null(writer, "cursor", hits.cursor);
    if (hits.partial)
        pal_put_flag(writer, "partial", true);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status search_all(pal_call *call, pal_error *err)
{
    pal_search_query search;
    pal_status status = read_search(call, &search, err);
    return status == PAL_OK ? send_hits(call, &search, err) : status;
}

static pal_status search_session(pal_call *call, pal_error *err)
{
    pal_search_query search;
    pal_session session;
    pal_status status = read_search(call, &search, err);
    if (status == PAL_OK)
        status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    search.session = session.id;
    return send_hits(call, &search, err);
}

/* ---- The summary ---- */

static pal_status send_summary(pal_call *call, const pal_session *session, pal_error *err)
{
    pal_str summary;
    pal_status status = pal_window_summary(call->server->store, call->caller.tenant, session->id,
            call->arena, &summary, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_id(writer, "session_id", session->id);
    pal_put_str(writer, "summary", summary);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status get_summary(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    return status == PAL_OK ? send_summary(call, &session, err) : status;
}

static pal_status set_summary(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_mark mark;
    pal_str summary = {0};
    pal_status status = PAL_OK;
    if (pal_json_type_of(pal_json_find(call->body, "summary")) != PAL_JSON_STRING) {
        call->fail_param = "summary";
        status = pal_error_set(
                err, PAL_INVALID,
                "'summary' must be a string; send an empty string to remove the summary");
    }
    if (status == PAL_OK)
        status = pal_call_text(call, call->body, "summary", PAL_SYSTEM_LEN_MAX, &summary, err);
    if (status == PAL_OK)
        status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_window_summary_set(
                call->server->store, call->caller.tenant, session.id, summary, &mark, err);
    return status == PAL_OK ? send_summary(call, &session, err) : status;
}

/* ---- Usage ---- */

static pal_status send_usage(pal_call *call, pal_ledger_query *query, pal_error *err)
{
    pal_ledger_sum sum = {0};
    (void)pal_exchange_query(call->exchange, "turn", &query->turn_id);
    (void)pal_exchange_query(call->exchange, "agent", &query->agent);
    pal_status status = pal_call_query_time(call, "from", &query->from, err);
    if (status == PAL_OK)
        status = pal_call_query_time(call, "to", &query->to, err);
    if (status == PAL_OK)
        status = pal_store_ledger_sum(call->server->store, query, &sum, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_count(writer, "calls", sum.calls);
    pal_put_count(writer, "input_tokens", sum.usage.input);
    pal_put_count(writer, "cache_read_tokens", sum.usage.cache_read);
    pal_put_count(writer, "cache_write_tokens", sum.usage.cache_write);
    pal_put_count(writer, "output_tokens", sum.usage.output);
    pal_put_count(writer, "reasoning_tokens", sum.usage.reasoning);
    pal_put_number(writer, "cost_micros", sum.cost_micros);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

static pal_status usage_all(pal_call *call, pal_error *err)
{
    pal_ledger_query query = {.tenant = call->caller.tenant};
    return send_usage(call, &query, err);
}

static pal_status usage_session(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_ledger_query query = {.tenant = call->caller.tenant};
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    query.session = session.id;
    return send_usage(call, &query, err);
}

const pal_api_route pal_context_routes[] = {
        {"GET", "/api/v1/sessions/{id}/context", PAL_KEY_READ, PAL_API_WORKER, get_context,
                {"getContext", "show the plan: every item that a model would get now, and why",
                        "model strategy", NULL, "Object", 200}},
        {"POST", "/api/v1/sessions/{id}/compact", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                compact_session,
                {"compactSession",
                        "replace the older messages by a summary; undo with 'undo'", NULL,
                        "CompactRequest", "Compacted", 200}},
        {"GET", "/api/v1/sessions/{id}/summary", PAL_KEY_READ, PAL_API_WORKER, get_summary,
                {"getSummary",
                        "read the summary that the model gets; empty if there is none", NULL, NULL,
                        "Summary", 200}},
        {"PUT", "/api/v1/sessions/{id}/summary", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                set_summary,
                {"setSummary",
                        "set the summary without calling a model and without hiding messages", NULL,
                        "SummaryRequest", "Summary", 200}},
        {"GET", "/api/v1/search", PAL_KEY_READ, PAL_API_WORKER, search_all,
                {"searchAll", "search the messages of all sessions",
                        "q role from to limit cursor", NULL, "HitPage", 200}},
        {"GET", "/api/v1/sessions/{id}/search", PAL_KEY_READ, PAL_API_WORKER, search_session,
                {"searchSession", "search the messages of one session",
                        "q role after before from to limit cursor", NULL, "HitPage", 200}},
        {"GET", "/api/v1/usage", PAL_KEY_READ, PAL_API_WORKER, usage_all,
                {"getUsage", "report tokens and cost of the tenant, an agent or a turn",
                        "from to agent turn", NULL, "Usage", 200}},
        {"GET", "/api/v1/sessions/{id}/usage", PAL_KEY_READ, PAL_API_WORKER, usage_session,
                {"getSessionUsage",
                        "report tokens and cost of one session", "from to agent turn", NULL,
                        "Usage", 200}},
        {0},
};
