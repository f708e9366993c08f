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
#include "server/api/native/api_native.h"
#include "server/run/run.h"
#include "server/server_call.h"
#include "transfer/transfer_export.h"
#include "transfer/transfer_import_reader.h"

/* ---- Export ---- */

typedef struct exporting {
    pal_str request_id;
    pal_session session;
    pal_export lines;
    bool is_begun;
} exporting;

/* Called on a worker for each piece. */
static pal_pulled write_piece(pal_buf *out, void *user)
{
    exporting *it = user;
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
    exporting *it = user;
    pal_export_end(&it->lines);
}

static pal_status read_format(pal_call *call, pal_export_form *out_form, pal_error *err)
{
    pal_str format = pal_str_of("native");
    (void)pal_exchange_query(call->exchange, "format", &format);
    if (pal_export_form_from_name(format, out_form))
        return PAL_OK;
    call->fail_param = "format";
    return pal_error_set(err, PAL_INVALID, "'format' must be " PAL_EXPORT_FORMS);
}

static pal_status export_session(pal_call *call, pal_error *err)
{
    exporting *it = pal_arena_array(call->arena, 1, sizeof *it);
    if (!it)
        return pal_arena_checked(call->arena, err);
    it->request_id = pal_exchange_id(call->exchange);
    it->lines.store = call->server->store;
    it->lines.tenant = call->caller.tenant;
    pal_status status = read_format(call, &it->lines.form, err);
    if (status == PAL_OK)
        status = pal_call_query_flag(call, "blobs", &it->lines.with_blobs, err);
    if (status == PAL_OK)
        status = pal_call_session(call, call->params[0], &it->session, err);
    if (status != PAL_OK)
        return status;
    bool is_native = it->lines.form == PAL_EXPORT_NATIVE;
    const char *type = is_native ? "application/x-ndjson" : "application/json";
    if (pal_exchange_pull(call->exchange, 200, type, write_piece, export_done, it))
        return PAL_OK;
    return pal_run_refuse_stream(call, err);
}

/* ---- Import ---- */

typedef struct problem {
    uint64_t line;
    pal_str text; /* in the call's arena */
} problem;

typedef struct importing {
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
} importing;

static void on_problem(uint64_t line, const char *text, void *user)
{
    importing *it = user;
    if (it->problems_len++ < PAL_SERVER_IMPORT_PROBLEMS_MAX)
        it->problems[it->problems_len - 1] =
                (problem){line, pal_arena_copy(it->call->arena, pal_str_of(text))};
}

/* Stores the id of the previous session, which is final now. */
static void note_session(importing *it)
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
    importing *it = user;
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

static pal_status read_kind(pal_call *call, pal_transcript_kind *out_kind, pal_error *err)
{
    pal_str format = pal_str_of("auto");
    (void)pal_exchange_query(call->exchange, "format", &format);
    if (pal_transcript_kind_from_name(format, out_kind))
        return PAL_OK;
    call->fail_param = "format";
    return pal_error_set(err, PAL_INVALID,
            "'format' must be auto, " PAL_TRANSCRIPT_KINDS);
}

static pal_status read_transcript(importing *it, pal_transcript_kind kind, pal_error *err)
{
    it->reader = (pal_import_reader){.import = it->import,
            .begins = on_begin,
            .problem = on_problem,
            .user = it,
            .routes = it->call->server->route_settings,
            .err = err};
    pal_status status = pal_import_reader_open(&it->reader, kind);
    if (status == PAL_OK)
        status = pal_import_reader_text(&it->reader, pal_exchange_body(it->call->exchange));
    if (status == PAL_OK)
        status = pal_import_reader_finish(&it->reader);
    if (status == PAL_OK && kind != PAL_TRANSCRIPT_AUTO && it->reader.sessions == 0)
        status = pal_error_set(err, PAL_INVALID,
                "the body contains no conversation in the format '%s'",
                pal_transcript_kind_name(kind));
    else if (status == PAL_OK && it->reader.sessions == 0)
        status = pal_error_set(err, PAL_INVALID,
                "the body is not a conversation in a known format; set 'format' to one "
                "of: " PAL_TRANSCRIPT_KINDS);
    if (status == PAL_OK)
        status = pal_import_flush(it->import);
    pal_import_reader_close(&it->reader);
    return status;
}

static void put_problems(importing *it, pal_json_writer *writer)
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

static void put_report(importing *it, pal_json_writer *writer)
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

static pal_status read_names(pal_call *call, importing *it, pal_error *err)
{
    const struct {
        const char *name;
        pal_str *value;
        size_t len_max;
    } names[] = {{"key", &it->key, PAL_KEY_LEN_MAX}, {"project", &it->project, PAL_NAME_LEN_MAX}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)pal_exchange_query(call->exchange, names[i].name, names[i].value);
        if (names[i].value->len <= names[i].len_max)
            continue;
        call->fail_param = names[i].name;
        return pal_error_set(err, PAL_LIMIT, "'%s' of %zu bytes exceeds the limit of %zu",
                names[i].name, names[i].value->len, names[i].len_max);
    }
    return PAL_OK;
}

static pal_status import_sessions(pal_call *call, pal_error *err)
{
    pal_transcript_kind kind;
    importing it = {.call = call};
    pal_status status = read_kind(call, &kind, err);
    if (status == PAL_OK)
        status = read_names(call, &it, err);
    if (status != PAL_OK)
        return status;
    it.ids = pal_arena_array(call->arena, PAL_SERVER_IMPORT_IDS_MAX, sizeof *it.ids);
    it.import = pal_import_new(call->server->store, call->caller.tenant, on_problem, &it, err);
    if (!it.ids || !it.import)
        status = pal_no_memory(err);
    if (status == PAL_OK)
        status = read_transcript(&it, kind, err);
    if (status == PAL_OK) {
        note_session(&it);
        if (it.ids_len == 1)
            pal_call_belongs(call, it.ids[0]);
        else if (it.problems_len > 0) /* problems quote names of several sessions */
            pal_call_is_mixed(call);
        put_report(&it, pal_call_writer(call));
        status = pal_arena_checked(call->arena, err);
    }
    pal_import_free(it.import);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

const pal_api_route pal_transfer_routes[] = {
        {"GET", "/api/v1/sessions/{id}/export", PAL_KEY_READ, 0, export_session,
                {"exportSession",
                        "export a session as JSON lines, or its messages in OpenAI's format",
                        "format blobs", NULL, "application/x-ndjson", 200}},
        {"POST", "/api/v1/import", PAL_KEY_WRITE, PAL_API_WORKER, import_sessions,
                {"importSessions",
                        "import conversations from exports of Palaver or transcripts of other "
                        "programs",
                        "format key project", "application/x-ndjson", "Imported", 200}},
        {0},
};
