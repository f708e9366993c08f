/* api_transfer.c - exports and imports conversations, like `session export` and `session import` of
 * the command.
 *
 * An export is written as fast as its reader takes it, one page of messages at a time, so it needs
 * the memory of one page. The body of an import has arrived completely, within
 * server.body_bytes_max. An import is committed in batches. If it is interrupted, it can be
 * repeated: sessions and messages that were stored before are found again. */
#include "base/json/json_put.h"
#include "base/log.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"
#include "server/api/native/api_native.h"
#include "server/run/run.h"
#include "server/server_call.h"
#include "transfer/transfer_export.h"
#include "transfer/transfer_import_reader.h"

/* ---- Export ---- */

typedef struct export_job {
    pal_str request_id;
    pal_session session;
    pal_export lines;
    bool is_begun;
} export_job;

/* Called on a worker for each piece. */
static pal_pulled write_piece(pal_buf *out, void *user)
{
    export_job *it = user;
    pal_error err = {0};
    bool more = true;
    pal_status status = PAL_OK;
    if (!it->is_begun) {
        it->is_begun = true;
        status = pal_export_begin(&it->lines, &it->session, out, &err);
    }
    if (status == PAL_OK)
        status = pal_export_page(&it->lines, out, &more, &err);
    if (status == PAL_OK)
        return more ? PAL_PULLED_MORE : PAL_PULLED_END;
    pal_log(PAL_LOG_ERROR,
            "request %.*s: could not complete the export: %s", PAL_STR_ARG(it->request_id),
            err.message);
    return PAL_PULLED_FAILED;
}

static void export_done(void *user)
{
    export_job *it = user;
    pal_export_end(&it->lines);
}

typedef struct export_query {
    pal_export_form form;
    bool with_blobs;
} export_query;

static const char *const export_types[] = {
        [PAL_EXPORT_NATIVE] = "application/x-ndjson",
        [PAL_EXPORT_OPENAI] = "application/json",
        [PAL_EXPORT_SKILLIAN] = "application/json",
        [PAL_EXPORT_CLAUDE_CODE] = "application/x-ndjson",
        [PAL_EXPORT_CODEX] = "application/x-ndjson",
        [PAL_EXPORT_MARKDOWN] = "text/markdown; charset=utf-8",
        [PAL_EXPORT_HTML] = "text/html; charset=utf-8",
};

static const pal_api_object export_query_table = {
        .members = PAL_API_MEMBERS(
                {"format", PAL_API_WORD, "format of the conversation (native)",
                        .offset = offsetof(export_query, form), .min = PAL_EXPORT_NATIVE,
                        .words = "native openai skillian claude-code codex markdown html"},
                {"blobs", PAL_API_FLAG, "include the bytes of images and files, as base64",
                        .offset = offsetof(export_query, with_blobs)})};

static pal_status export_session(pal_call *call, pal_error *err)
{
    export_query query = {.form = PAL_EXPORT_NATIVE};
    export_job *it = pal_arena_array(call->arena, 1, sizeof *it);
    if (!it)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_api_query_read(call, &export_query_table, &query, err);
    if (status != PAL_OK)
        return status;
    status = pal_call_session(call, call->params[0], &it->session, err);
    if (status != PAL_OK)
        return status;
    it->request_id = call->exchange->id;
    it->lines.store = call->server->store;
    it->lines.tenant = call->caller.tenant;
    it->lines.form = query.form;
    it->lines.with_blobs = query.with_blobs;
    if (pal_exchange_pull(
                call->exchange, 200, export_types[query.form], write_piece, export_done, it))
        return PAL_OK;
    return pal_run_refuse_stream(call, err);
}

/* ---- Import ---- */

typedef struct problem {
    uint64_t line;
    pal_str text; /* in the call's arena */
} problem;

typedef struct import_job {
    pal_call *call;
    pal_str key;
    pal_str project;
    pal_import *import;
    pal_import_reader reader;
    problem problems[PAL_SERVER_IMPORT_PROBLEMS_MAX];
    uint64_t problems_len; /* the number of all problems, including those that are not kept */
    pal_id *ids;           /* in the call's arena; room for PAL_SERVER_IMPORT_IDS_MAX ids */
    size_t ids_len;
    uint32_t nameless;
} import_job;

static void on_problem(uint64_t line, const char *text, void *user)
{
    import_job *it = user;
    if (it->problems_len++ < PAL_SERVER_IMPORT_PROBLEMS_MAX)
        it->problems[it->problems_len - 1] =
                (problem){line, pal_arena_copy(it->call->arena, pal_str_of(text))};
}

/* Stores the id of the previous session, which is final now. */
static void note_session(import_job *it)
{
    pal_id id = {{0}};
    if (pal_import_has_session(it->import))
        id = pal_import_session(it->import);
    bool is_new = it->ids_len == 0 || !pal_id_equal(it->ids[it->ids_len - 1], id);
    if (!pal_id_is_none(id) && is_new && it->ids_len < PAL_SERVER_IMPORT_IDS_MAX)
        it->ids[it->ids_len++] = id;
}

/* A session without a name gets a derived id, so that a repeated request with the same idempotency
 * key finds it. */
static pal_status on_begin(pal_import_begun *begun, void *user)
{
    import_job *it = user;
    pal_session *session = &begun->session;
    note_session(it);
    if (it->key.len && begun->number > 1) {
        it->call->fail_param = "key";
        return pal_error_set(it->reader.err, PAL_INVALID,
                "'key' is not allowed: the body contains several sessions; leave it out");
    }
    if (it->key.len) {
        session->key = it->key;
        session->id = session->parent_id = (pal_id){{0}};
        begun->is_native = false;
        begun->is_renamed = true;
    }
    if (it->project.len)
        session->project = it->project;
    if (!begun->is_native && !session->key.len) {
        session->id = pal_call_derived_id(it->call, it->nameless++);
        begun->is_native = true;
        begun->is_renamed = true;
    }
    return PAL_OK;
}

typedef struct import_query {
    pal_str format;
    pal_str key;
    pal_str project;
} import_query;

static const pal_api_object import_query_table = {
        .members = PAL_API_MEMBERS(
                {"format", PAL_API_TEXT, "format of the conversations; auto detects it (auto)",
                        .offset = offsetof(import_query, format)},
                {"key", PAL_API_TEXT, "key of the session, if there is only one",
                        .offset = offsetof(import_query, key), .max = PAL_KEY_LEN_MAX},
                {"project", PAL_API_TEXT, "project of the sessions",
                        .offset = offsetof(import_query, project), .max = PAL_NAME_LEN_MAX})};

static pal_status read_transcript(import_job *it, pal_transcript_kind kind, pal_error *err)
{
    it->reader = (pal_import_reader){.import = it->import,
            .begins = on_begin,
            .problem = on_problem,
            .user = it,
            .routes = it->call->server->route_settings,
            .err = err};
    pal_status status = pal_import_reader_open(&it->reader, kind);
    if (status != PAL_OK)
        goto out;
    status = pal_import_reader_text(&it->reader, pal_buf_str(&it->call->exchange->body));
    if (status != PAL_OK)
        goto out;
    status = pal_import_reader_finish(&it->reader);
    if (status != PAL_OK)
        goto out;
    if (it->reader.sessions == 0)
        status = kind == PAL_TRANSCRIPT_AUTO
                ? pal_error_set(err, PAL_INVALID,
                          "the body is not a conversation in a known format; set 'format' to one "
                          "of: " PAL_TRANSCRIPT_KINDS)
                : pal_error_set(err, PAL_INVALID,
                          "the body contains no conversation in the format '%s'",
                          pal_transcript_kind_name(kind));
    else
        status = pal_import_flush(it->import);
out:
    pal_import_reader_close(&it->reader);
    return status;
}

static void put_problems(import_job *it, pal_json_writer *writer)
{
    pal_put_count(writer, "problems_total", it->problems_len);
    pal_json_name(writer, "problems");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < it->problems_len && i < PAL_SERVER_IMPORT_PROBLEMS_MAX; i++) {
        pal_json_begin_object(writer);
        pal_put_count(writer, "line", it->problems[i].line);
        pal_put_str(writer, "text", it->problems[i].text);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

static void put_report(import_job *it, pal_json_writer *writer)
{
    pal_import_counts counts = pal_import_count(it->import);
    pal_json_begin_object(writer);
    pal_put_count(writer, "sessions", counts.sessions);
    pal_put_count(writer, "sessions_known", counts.sessions_known);
    pal_put_count(writer, "messages", counts.messages);
    pal_put_count(writer, "messages_known", counts.messages_known);
    pal_put_count(writer, "messages_failed", counts.failed);
    pal_put_count(writer, "marks", counts.marks);
    pal_json_name(writer, "session_ids");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < it->ids_len; i++) {
        char text[PAL_ID_TEXT_SIZE];
        pal_id_to_text(it->ids[i], text);
        pal_json_put_text(writer, text);
    }
    pal_json_end_array(writer);
    put_problems(it, writer);
    pal_json_end_object(writer);
}

static pal_status import_sessions(pal_call *call, pal_error *err)
{
    pal_transcript_kind kind;
    import_query query = {.format = pal_str_of("auto")};
    pal_status status = pal_api_query_read(call, &import_query_table, &query, err);
    if (status != PAL_OK)
        return status;
    if (!pal_transcript_kind_from_name(query.format, &kind)) {
        call->fail_param = "format";
        return pal_error_set(err, PAL_INVALID, "'format' must be auto, " PAL_TRANSCRIPT_KINDS);
    }
    import_job it = {.call = call, .key = query.key, .project = query.project};
    it.ids = pal_arena_array(call->arena, PAL_SERVER_IMPORT_IDS_MAX, sizeof *it.ids);
    if (!it.ids)
        return pal_no_memory(err);
    it.import = pal_import_new(call->server->store, call->caller.tenant, on_problem, &it, err);
    if (!it.import)
        return pal_no_memory(err);
    status = read_transcript(&it, kind, err);
    if (status != PAL_OK)
        goto out;
    note_session(&it);
    if (it.ids_len == 1)
        call->owner = it.ids[0];
    else if (it.problems_len > 0) /* problems quote names of several sessions */
        call->is_mixed = true;
    put_report(&it, pal_call_writer(call));
    status = pal_arena_checked(call->arena, err);
    if (status == PAL_OK)
        pal_call_send(call, 200);
out:
    pal_import_free(it.import);
    return status;
}

/* ---- Routes ---- */

static const pal_api_object imported_problem = {
        .members = PAL_API_MEMBERS(
                {"line", .type = PAL_API_COUNT}, {"text", .type = PAL_API_TEXT})};

static const pal_api_object imported_body = {"Imported",
        .members = PAL_API_MEMBERS(
                {"sessions", PAL_API_COUNT, .is_required = true},
                {"sessions_known", .type = PAL_API_COUNT},
                {"messages", PAL_API_COUNT, .is_required = true},
                {"messages_known", .type = PAL_API_COUNT},
                {"messages_failed", .type = PAL_API_COUNT},
                {"marks", .type = PAL_API_COUNT},
                {"session_ids", PAL_API_LIST, .is_required = true},
                {"problems_total", .type = PAL_API_COUNT},
                {"problems", PAL_API_LIST, .of = &imported_problem, .is_required = true})};

const pal_api_route pal_transfer_routes[] = {
        {"GET", "/api/v1/sessions/{id}/export", PAL_KEY_READ, 0, export_session,
                {"exportSession",
                        "export a session as JSON lines, or its messages in OpenAI's format",
                        &export_query_table, NULL, &pal_api_json_lines_body, 200}},
        {"POST", "/api/v1/import", PAL_KEY_WRITE, PAL_API_WORKER, import_sessions,
                {"importSessions",
                        "import conversations from exports of Palaver or transcripts of other "
                        "programs",
                        &import_query_table, &pal_api_json_lines_body,
                        &imported_body, 200}},
        {0},
};
