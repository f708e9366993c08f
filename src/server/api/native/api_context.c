/* api_context.c - compacts and searches sessions. */
#include "base/json/json_put.h"
#include "dialect/native/native.h"
#include "server/api/api_object.h"
#include "server/api/native/api_message.h"
#include "server/api/native/api_native.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"

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

/* A repeated request with the same idempotency key gets the result of the first one. */
static pal_status compact_once(pal_call *call, pal_id session, pal_compaction_request *compaction,
        pal_compaction_result *out_compacted, pal_error *err)
{
    char id[PAL_ID_TEXT_SIZE];
    compaction->reason = pal_str_of("manual");
    if (call->idempotency_key.len) {
        pal_id_to_text(pal_call_derived_id(call, 0), id);
        compaction->request_id = pal_arena_copy(call->arena, pal_str_of(id));
        pal_status status = pal_window_compaction_find(call->server->store, call->caller.tenant,
                session, compaction->request_id, call->arena, out_compacted, err);
        if (status != PAL_NOT_FOUND)
            return status;
    }
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

static const pal_api_object compact_body = {"CompactRequest",
        .members = PAL_API_MEMBERS(
                {"prompt", PAL_API_TEXT, "an instruction that replaces the usual one",
                        .offset = offsetof(pal_compaction_request, prompt),
                        .max = PAL_SYSTEM_LEN_MAX},
                {"model", PAL_API_TEXT, "the model that writes the summary",
                        .offset = offsetof(pal_compaction_request, model),
                        .max = PAL_MODEL_LEN_MAX},
                {"cut_seq", PAL_API_COUNT, "the seq of the last message to replace",
                        .offset = offsetof(pal_compaction_request, cut_seq)},
                {"redo", PAL_API_COUNT, "the number of a compaction to replace",
                        .offset = offsetof(pal_compaction_request, redo)},
                {"summary", PAL_API_TEXT, "the summary, instead of one by a model",
                        .offset = offsetof(pal_compaction_request, summary),
                        .max = PAL_SYSTEM_LEN_MAX},
                {"system", PAL_API_TEXT, "the system prompt of the following turns",
                        .offset = offsetof(pal_compaction_request, system),
                        .max = PAL_SYSTEM_LEN_MAX},
                {"parameters", PAL_API_JSON_OBJECT, "parameters of the model",
                        .offset = offsetof(pal_compaction_request, parameters)})};

/* A summary of the caller must not be blank, and no model is needed for it. */
static pal_status check_summary(
        pal_call *call, const pal_compaction_request *compaction, pal_error *err)
{
    pal_str summary = compaction->summary;
    pal_json_type type = pal_json_type_of(pal_json_find(call->body, "summary"));
    size_t blank = 0;
    if (type == PAL_JSON_NONE || type == PAL_JSON_NULL)
        return PAL_OK;
    while (blank < summary.len && strchr(" \t\r\n", summary.data[blank]))
        blank++;
    call->fail_param = "summary";
    if (blank == summary.len)
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
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_object_read(call, call->body, &compact_body, &compaction, err);
    if (status != PAL_OK)
        return status;
    status = check_summary(call, &compaction, err);
    if (status != PAL_OK)
        return status;
    status = compact_once(call, session.id, &compaction, &compacted, err);
    if (status == PAL_OK)
        status = keep_given(call, session.id, &compaction, &compacted, err);
    if (status == PAL_BUSY) {
        /* The same code as for a turn that is rejected because another one runs. */
        call->fail_code = 409;
        call->fail_name = "session_busy";
    }
    if (status != PAL_OK)
        return status;
    put_compacted(pal_call_writer(call), &compacted);
    pal_call_send(call, 200);
    return PAL_OK;
}

typedef struct diff_query {
    uint64_t old_number;
    uint64_t new_number;
} diff_query;

static const pal_api_object diff_query_table = {
        .members = PAL_API_MEMBERS(
                {"old", PAL_API_COUNT, "the number of a compaction",
                        .offset = offsetof(diff_query, old_number), .min = 1, .is_required = true},
                {"new", PAL_API_COUNT, "the number of another compaction",
                        .offset = offsetof(diff_query, new_number), .min = 1,
                        .is_required = true})};

static pal_status diff_summaries(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_str diff;
    diff_query query = {0};
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_api_query_read(call, &diff_query_table, &query, err);
    if (status == PAL_OK)
        status = pal_window_diff(call->server->store, call->caller.tenant, session.id,
                query.old_number, query.new_number, call->arena, &diff, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_put_count(writer, "old", query.old_number);
    pal_put_count(writer, "new", query.new_number);
    pal_put_str(writer, "diff", diff);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Search ---- */

typedef struct search_request {
    pal_search_query query; /* the offsets in the table are those of its members */
    bool hidden;
    uint32_t neighbors;
    int order; /* PAL_RANK_... */
} search_request;

static const pal_api_object search_query = {
        .members = PAL_API_MEMBERS(
                {"q", PAL_API_TEXT,
                        "words or a question; use quotes for a phrase and word* for a prefix",
                        .offset = offsetof(pal_search_query, text), .is_required = true},
                {"order", PAL_API_WORD,
                        "best: any of the words may occur, the best hits first; newest: all must "
                        "occur; auto: best, unless q contains a phrase or a prefix",
                        .offset = offsetof(search_request, order), .min = PAL_RANK_NEVER,
                        .words = "newest best auto"},
                {"neighbors", PAL_API_COUNT32,
                        "messages before and after each hit to show, if the best hits come first",
                        .offset = offsetof(search_request, neighbors),
                        .max = PAL_SEARCH_NEIGHBORS_MAX},
                {"sender", PAL_API_TEXT, "only messages of this sender",
                        .offset = offsetof(pal_search_query, sender)},
                {"role", PAL_API_WORD, "only messages of this role",
                        .offset = offsetof(pal_search_query, role), .min = PAL_ROLE_SYSTEM,
                        .words = "system user assistant tool"},
                {"from", PAL_API_TIME,
                        "at or after this time: RFC 3339, or milliseconds since 1970",
                        .offset = offsetof(pal_search_query, from)},
                {"to", PAL_API_TIME, "before this time", .offset = offsetof(pal_search_query, to)},
                {"limit", PAL_API_COUNT32, "maximum number of results",
                        .offset = offsetof(pal_search_query, limit), .min = 1,
                        .max = PAL_SEARCH_HITS_MAX},
                {"cursor", PAL_API_TEXT, "cursor of the previous page",
                        .offset = offsetof(pal_search_query, cursor)},
                {"hidden", PAL_API_FLAG, "find messages that a rewind or a reset hides, too",
                        .offset = offsetof(search_request, hidden)})};

static const pal_api_object session_search_query = {
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &search_query},
                {"after", PAL_API_COUNT, "only messages with a larger seq",
                        .offset = offsetof(pal_search_query, after_seq)},
                {"before", PAL_API_COUNT, "only messages with a smaller seq",
                        .offset = offsetof(pal_search_query, before_seq)})};

/* Reads the query parameters. */
static pal_status read_search(pal_call *call, const pal_api_object *table,
        pal_search_query *out_search, pal_error *err)
{
    search_request request = {.query.tenant = call->caller.tenant,
            .query.limit = PAL_SEARCH_HITS_DEFAULT,
            .query.wait_ms = PAL_SEARCH_WAIT_MS,
            .order = PAL_RANK_QUESTIONS};
    pal_status status = pal_api_query_read(call, table, &request, err);
    *out_search = request.query;
    out_search->hidden = request.hidden;
    out_search->rank = (uint64_t)request.order;
    out_search->neighbors = request.neighbors;
    return status;
}

/* Finds the session of a hit. Hits of one session follow one another, so the last session is
 * remembered. */
static pal_status find_hit_session(
        pal_call *call, pal_id id, pal_session *session, pal_error *err)
{
    char text[PAL_ID_TEXT_SIZE];
    if (pal_id_equal(session->id, id))
        return PAL_OK;
    pal_id_to_text(id, text);
    pal_status status = pal_store_find(call->server->store, call->caller.tenant, PAL_SESSION_BY_ID,
            pal_str_of(text), call->arena, session, err);
    if (status == PAL_OK)
        return pal_store_title(call->server->store, session, call->arena, &session->title, err);
    if (status != PAL_NOT_FOUND)
        return status;
    *session = (pal_session){.id = id}; /* it was erased meanwhile */
    return PAL_OK;
}

static pal_status is_hit_hidden(
        pal_call *call, const pal_search_hit *hit, bool *out_is_hidden, pal_error *err)
{
    pal_message_query load = {.after_seq = hit->seq - 1, .before_seq = hit->seq + 1};
    pal_message_page found = {0};
    pal_status status = pal_store_load(call->server->store, call->caller.tenant, hit->session,
            &load, call->arena, &found, err);
    *out_is_hidden = status == PAL_OK && found.len == 0;
    return status == PAL_NOT_FOUND ? PAL_OK : status;
}

static void put_rank(pal_json_writer *writer, const pal_search_rank *rank)
{
    pal_put_f64(writer, "score", rank->score);
    if (rank->neighbors_len == 0)
        return;
    pal_json_name(writer, "neighbors");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < rank->neighbors_len; i++) {
        const pal_search_neighbor *neighbor = &rank->neighbors[i];
        pal_json_begin_object(writer);
        pal_put_count(writer, "seq", neighbor->seq);
        pal_put_id(writer, "message_id", neighbor->message);
        pal_put_text(writer, "role", pal_role_name(neighbor->role));
        pal_put_time(writer, "created_at", neighbor->created_at);
        pal_put_str(writer, "text", neighbor->text);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

static void put_hit(pal_json_writer *writer, const pal_search_hit *hit, const pal_session *session,
        bool is_hidden)
{
    pal_json_begin_object(writer);
    pal_put_id(writer, "session_id", hit->session);
    pal_put_id(writer, "message_id", hit->message);
    pal_put_count(writer, "seq", hit->seq);
    pal_put_text(writer, "role", pal_role_name(hit->role));
    pal_put_time(writer, "created_at", hit->created_at);
    pal_put_str(writer, "snippet", hit->snippet);
    pal_json_name(writer, "matches");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < hit->matches_len; i++) {
        pal_json_begin_array(writer);
        pal_json_put_u64(writer, hit->matches[i].start);
        pal_json_put_u64(writer, hit->matches[i].len);
        pal_json_end_array(writer);
    }
    pal_json_end_array(writer);
    pal_put_str(writer, "title", session->title);
    pal_put_str_or_null(writer, "key", session->key);
    if (is_hidden)
        pal_put_flag(writer, "hidden", true);
    if (hit->rank)
        put_rank(writer, hit->rank);
    pal_json_end_object(writer);
}

static pal_status send_hits(pal_call *call, const pal_search_query *search, pal_error *err)
{
    pal_search_page hits;
    pal_session session = {0};
    pal_status status = pal_store_search(call->server->store, search, call->arena, &hits, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "hits");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < hits.len; i++) {
        bool is_hidden = false;
        status = find_hit_session(call, hits.items[i].session, &session, err);
        if (status == PAL_OK && search->hidden)
            status = is_hit_hidden(call, &hits.items[i], &is_hidden, err);
        put_hit(writer, &hits.items[i], &session, is_hidden);
    }
    if (status != PAL_OK)
        return status;
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
    pal_status status = read_search(call, &search_query, &search, err);
    return status == PAL_OK ? send_hits(call, &search, err) : status;
}

static pal_status search_session(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_search_query search;
    pal_status status = read_search(call, &session_search_query, &search, err);
    if (status != PAL_OK)
        return status;
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

typedef struct summary_request {
    pal_str summary;
} summary_request;

static const pal_api_object summary_request_body = {"SummaryRequest",
        .members = PAL_API_MEMBERS(
                {"summary", PAL_API_TEXT, "an empty string to remove the summary",
                .offset = offsetof(summary_request, summary), .max = PAL_SYSTEM_LEN_MAX,
                .is_required = true})};

static pal_status set_summary(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_mark mark;
    summary_request request = {0};
    pal_status status = pal_api_object_read(call, call->body, &summary_request_body, &request, err);
    if (status != PAL_OK)
        return status;
    status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    status = pal_window_summary_set(call->server->store, call->caller.tenant, session.id,
            request.summary, &mark, err);
    return status == PAL_OK ? send_summary(call, &session, err) : status;
}

/* ---- Routes ---- */

static const pal_api_object summary_body = {"Summary",
        .members = PAL_API_MEMBERS(
                {"session_id", PAL_API_TEXT, .is_required = true},
                {"summary", PAL_API_TEXT, .is_required = true})};

static const pal_api_object compacted_body = {"Compacted",
        .members = PAL_API_MEMBERS(
                {"number", PAL_API_COUNT, .is_required = true},
                {"seq", .type = PAL_API_COUNT},
                {"messages", .type = PAL_API_COUNT},
                {"tokens_before", PAL_API_COUNT, .is_required = true},
                {"tokens_after", PAL_API_COUNT, .is_required = true},
                {"fallback", .type = PAL_API_FLAG},
                {"summary", .type = PAL_API_TEXT},
                {"note", .type = PAL_API_TEXT})};

static const pal_api_object diff_body = {"SummaryDiff",
        .members = PAL_API_MEMBERS(
                {"old", PAL_API_COUNT, .is_required = true},
                {"new", PAL_API_COUNT, .is_required = true},
                {"diff", PAL_API_TEXT, .is_required = true})};

static const pal_api_object neighbor_body = {"HitNeighbor",
        .members = PAL_API_MEMBERS(
                {"seq", PAL_API_COUNT, .is_required = true},
                {"message_id", PAL_API_TEXT, .is_required = true},
                {"role", PAL_API_TEXT, .is_required = true},
                {"created_at", PAL_API_TIME, .is_required = true},
                {"text", PAL_API_TEXT, "the beginning of its text", .is_required = true})};

static const pal_api_object hit_body = {"Hit",
        .members = PAL_API_MEMBERS(
                {"session_id", PAL_API_TEXT, .is_required = true},
                {"message_id", PAL_API_TEXT, .is_required = true},
                {"seq", PAL_API_COUNT, .is_required = true},
                {"role", .type = PAL_API_TEXT},
                {"created_at", .type = PAL_API_TIME},
                {"snippet", PAL_API_TEXT, .is_required = true},
                {"matches", PAL_API_VALUE, .is_required = true,
                        .schema = "{\"type\":\"array\",\"items\":{\"type\":\"array\","
                                  "\"items\":{\"type\":\"integer\"}}}"},
                {"title", PAL_API_TEXT, .is_required = true},
                {"key", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"hidden", .type = PAL_API_FLAG},
                {"score", PAL_API_VALUE, "comparable only within one search",
                        .schema = "{\"type\":\"number\"}"},
                {"neighbors", PAL_API_LIST, "the messages before and after it, by seq",
                        .of = &neighbor_body})};

static const pal_api_object hit_page_body = {"HitPage",
        .members = PAL_API_MEMBERS(
                {"hits", PAL_API_LIST, .of = &hit_body, .is_required = true},
                {"has_more", PAL_API_FLAG, .is_required = true},
                {"cursor", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"partial", .type = PAL_API_FLAG})};

const pal_api_route pal_context_routes[] = {
        {"POST", "/api/v1/sessions/{id}/compact", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                compact_session,
                {"compactSession",
                        "replace the older messages by a summary; undo with 'undo'", NULL,
                        &compact_body, &compacted_body, 200}},
        {"GET", "/api/v1/sessions/{id}/compact/diff", PAL_KEY_READ, PAL_API_WORKER,
                diff_summaries,
                {"diffSummaries", "compare the summaries of two compactions line by line",
                        &diff_query_table, NULL, &diff_body, 200}},
        {"GET", "/api/v1/sessions/{id}/summary", PAL_KEY_READ, PAL_API_WORKER, get_summary,
                {"getSummary",
                        "read the summary that the model gets; empty if there is none", NULL, NULL,
                        &summary_body, 200}},
        {"PUT", "/api/v1/sessions/{id}/summary", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                set_summary,
                {"setSummary",
                        "set the summary without calling a model and without hiding messages", NULL,
                        &summary_request_body, &summary_body, 200}},
        {"GET", "/api/v1/search", PAL_KEY_READ, PAL_API_WORKER, search_all,
                {"searchAll", "search the messages of all sessions",
                        &search_query, NULL, &hit_page_body, 200}},
        {"GET", "/api/v1/sessions/{id}/search", PAL_KEY_READ, PAL_API_WORKER, search_session,
                {"searchSession", "search the messages of one session",
                        &session_search_query, NULL, &hit_page_body, 200}},
        {0},
};
