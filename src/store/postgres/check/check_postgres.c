/* check_postgres.c - fsck.
 *
 * It checks every session: its messages have no gap, each can be decoded, and its counts, marks and
 * names are right. Then come rows without a session, blobs, the sums of the ledger and the search
 * index. PostgreSQL itself checks its pages and indexes (data checksums, amcheck).
 *
 * Everything is read in pages along the primary keys, while servers can use the store. A session
 * that seems to be wrong is read again: it may have been erased or changed between two statements.
 *
 * Repairs are the same as in SQLite. Counts, sums and the search index are derived data and are
 * corrected. A session with damaged messages is quarantined, so that the remaining messages can be
 * read but nothing new is added to them. No message is ever removed. */
#include "store/postgres/check/check_postgres.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum {
    SESSIONS_PAGE = 64,
    MESSAGES_PAGE = 256,
    TENANTS_PAGE = 64,
    PAGE_BYTES = 4 << 20, /* a page of messages ends after the message that reaches this */
};

void pal_postgres_check_report(
        pal_postgres_check_state *check, pal_id session, bool repaired, const char *text)
{
    pal_store_finding finding = {.session = session, .repaired = repaired};

    snprintf(finding.text, sizeof finding.text, "%s", text);
    check->sink(&finding, check->user);
}

bool pal_postgres_check_repair(
        pal_postgres_check_state *check, pal_postgres_sql sql, pal_postgres_params *params)
{
    PGresult *result = NULL;
    bool is_done = check->repair && pal_postgres_connect(&check->conn, NULL, NULL) == PAL_OK;

    if (!is_done)
        pal_postgres_params_done(params);
    else
        is_done = pal_postgres_run(&check->conn, sql, params, &result, NULL, NULL) == PAL_OK &&
                strcmp(PQcmdTuples(result), "0") != 0;
    PQclear(result);
    return is_done;
}

/* ---- One session ---- */

/* The columns PAL_POSTGRES_CHECK_COLUMNS of a row. */
typedef struct session_row {
    int64_t tenant;
    pal_id id;
    int64_t fork_seq;
    bool has_key;
    pal_str aliases; /* each ends with a NUL; borrowed from the result */
    pal_str alias_apart;
    bool is_routed;
    bool has_head;
    pal_session_state state;
    int64_t last_seq, mark_number, tokens, bytes, minute, updated_at, expires_at;
    int64_t newest_seq, newest_mark, marks;
    int64_t parent_seq; /* the parent's last seq */
    int64_t alias_rows;
} session_row;

static void read_session(const PGresult *result, int line, session_row *out_row)
{
    *out_row = (session_row){.tenant = pal_postgres_int(result, line, 0),
            .id = pal_postgres_id(result, line, 1),
            .fork_seq = pal_postgres_int(result, line, 2),
            .has_key = pal_postgres_int(result, line, 3) != 0,
            .aliases = pal_postgres_str(result, line, 4),
            .alias_apart = pal_postgres_str(result, line, 5),
            .is_routed = pal_postgres_int(result, line, 6) != 0,
            .has_head = !PQgetisnull(result, line, 7),
            .state = (pal_session_state)pal_postgres_int(result, line, 7),
            .last_seq = pal_postgres_int(result, line, 8),
            .mark_number = pal_postgres_int(result, line, 9),
            .tokens = pal_postgres_int(result, line, 10),
            .bytes = pal_postgres_int(result, line, 11),
            .minute = pal_postgres_int(result, line, 12),
            .updated_at = pal_postgres_int(result, line, 13),
            .expires_at = pal_postgres_int(result, line, 14),
            .newest_seq = pal_postgres_int(result, line, 15),
            .newest_mark = pal_postgres_int(result, line, 16),
            .marks = pal_postgres_int(result, line, 17),
            .parent_seq = pal_postgres_int(result, line, 18),
            .alias_rows = pal_postgres_int(result, line, 19)};
}

typedef enum problem_kind {
    NO_PROBLEM,
    NO_HEAD,
    WRONG_COUNTS,
    WRONG_NAMES, /* cannot be repaired: it is not known which session should have the name */
    DAMAGED,     /* to be quarantined */
} problem_kind;

typedef struct problem {
    problem_kind kind;
    int64_t last_seq, tokens, bytes; /* counted */
    char text[PAL_ERROR_MESSAGE_MAX];
} problem;

/* Checks one message. A damaged one is a problem. Any status but PAL_OK ends the check. */
static pal_status check_row(
        pal_postgres_check_state *check, const pal_row *row, problem *sum, pal_error *err)
{
    pal_error why = {0};
    pal_status status = check->row_check(row, &why);

    if (status == PAL_NO_MEMORY)
        return pal_error_set(err, status, "%s", why.message);
    if ((int64_t)row->seq != sum->last_seq + 1)
        snprintf(sum->text, sizeof sum->text, "messages %lld to %llu are missing",
                (long long)sum->last_seq + 1, (unsigned long long)row->seq - 1);
    else if (status != PAL_OK)
        snprintf(sum->text, sizeof sum->text, "message %llu is damaged: %.180s",
                (unsigned long long)row->seq, why.message);
    if (sum->text[0])
        sum->kind = DAMAGED;
    sum->last_seq = (int64_t)row->seq;
    sum->tokens += row->tokens;
    sum->bytes += (int64_t)row->body.len;
    return PAL_OK;
}

/* Reads the messages that existed when the session was read, up to the first damage. */
static pal_status check_messages(
        pal_postgres_check_state *check, const session_row *session, problem *sum, pal_error *err)
{
    int64_t last_seq = session->last_seq > session->newest_seq ? session->last_seq
                                                               : session->newest_seq;
    pal_status status = PAL_OK;
    int len = 1;

    sum->last_seq = session->fork_seq;
    while (status == PAL_OK && len > 0 && sum->kind == NO_PROBLEM) {
        pal_postgres_params params = {0};
        PGresult *rows = NULL;

        pal_postgres_put_int(&params, session->tenant);
        pal_postgres_put_id(&params, session->id);
        pal_postgres_put_int(&params, sum->last_seq);
        pal_postgres_put_int(&params, last_seq);
        pal_postgres_put_int(&params, MESSAGES_PAGE);
        pal_postgres_put_int(&params, PAGE_BYTES);
        status = pal_postgres_read(
                check->store, PAL_POSTGRES_CHECK_MESSAGES, &params, &rows, err);
        if (status != PAL_OK)
            return status;
        len = PQntuples(rows);
        for (int i = 0; status == PAL_OK && i < len && sum->kind == NO_PROBLEM; i++) {
            pal_row row;

            pal_postgres_row_read(rows, i, &row);
            status = check_row(check, &row, sum, err);
        }
        PQclear(rows);
    }
    return status;
}

static void check_counts(const session_row *session, problem *sum)
{
    /* An erased session keeps only the marks that its forks need. */
    if (session->state != PAL_SESSION_ERASED && session->newest_mark != session->marks) {
        sum->kind = DAMAGED;
        snprintf(sum->text, sizeof sum->text, "marks are missing");
    } else if (session->tokens != sum->tokens || session->bytes != sum->bytes ||
            session->newest_seq > session->last_seq ||
            session->mark_number < session->newest_mark ||
            session->minute != pal_postgres_minute(session->updated_at)) {
        sum->kind = WRONG_COUNTS;
        snprintf(sum->text, sizeof sum->text, "its counts were wrong");
    }
}

/* ---- Names ---- */

static void name_problem(problem *found, pal_str alias, const char *what)
{
    found->kind = WRONG_NAMES;
    snprintf(found->text, sizeof found->text, "alias '%.*s' %s", PAL_EXCERPT(alias, 80), what);
}

/* Takes the next alias from the list. */
static bool next_alias(pal_str *list, pal_str *out_alias)
{
    const char *end = list->len > 0 ? memchr(list->data, 0, list->len) : NULL;

    if (!end)
        return false;
    *out_alias = pal_str_make(list->data, (size_t)(end - list->data));
    *list = pal_text_after(*list, out_alias->len + 1);
    return true;
}

static bool lists_alias(const session_row *session, pal_str alias)
{
    pal_str list = session->aliases, each;

    while (next_alias(&list, &each))
        if (pal_str_equal(each, alias))
            return true;
    return false;
}

/* Every alias that leads to the session is in its list, and only sessions in use have any. */
static void check_leading(const session_row *session, const PGresult *leading, problem *found)
{
    for (int i = 0; found->kind == NO_PROBLEM && i < PQntuples(leading); i++) {
        pal_str alias = pal_postgres_str(leading, i, 0);

        if (session->state != PAL_SESSION_ACTIVE && session->state != PAL_SESSION_QUARANTINED)
            name_problem(found, alias, "leads to it, but it is not in use");
        else if (!lists_alias(session, alias))
            name_problem(found, alias, "leads to it, but is not in its list");
    }
}

/* Every alias of the list leads to the session. A routed session shares aliases with others, and an
 * expired one can have lost them. Columns of `held`: tenant, alias, session. */
static void check_listed(const session_row *session, const PGresult *held, problem *found)
{
    pal_str list = session->aliases, alias;

    if (session->state != PAL_SESSION_ACTIVE || session->expires_at != 0)
        return;
    while (found->kind == NO_PROBLEM && next_alias(&list, &alias)) {
        bool is_ours = false, is_held = false;

        for (int i = 0; i < PQntuples(held); i++) {
            if (!pal_str_equal(pal_postgres_str(held, i, 1), alias))
                continue;
            is_held = true;
            is_ours = pal_id_equal(pal_postgres_id(held, i, 2), session->id);
        }
        if (!is_ours &&
                !(session->is_routed &&
                        (is_held || pal_str_equal(alias, session->alias_apart))))
            name_problem(found, alias, "is in its list, but does not lead to it");
    }
}

static pal_status check_names(
        pal_postgres_check_state *check, const session_row *session, problem *found, pal_error *err)
{
    pal_postgres_params leading = {0}, held = {0};
    pal_postgres_read_one reads[2] = {{PAL_POSTGRES_CHECK_ALIASES, &leading},
            {PAL_POSTGRES_ALIAS_LOAD, &held}};
    pal_postgres_param *tenants, *names;
    PGresult *results[2] = {0};
    pal_str list = session->aliases, alias;
    pal_status status;

    if (session->has_key && session->state != PAL_SESSION_ACTIVE &&
            session->state != PAL_SESSION_QUARANTINED) {
        found->kind = WRONG_NAMES;
        snprintf(found->text, sizeof found->text, "its key leads to it, but it is not in use");
    }
    if (found->kind != NO_PROBLEM || (session->alias_rows == 0 && session->aliases.len == 0))
        return PAL_OK;
    pal_postgres_put_int(&leading, session->tenant);
    pal_postgres_put_id(&leading, session->id);
    tenants = pal_postgres_put_array(&held, PAL_POSTGRES_INT8);
    names = pal_postgres_put_array(&held, PAL_POSTGRES_TEXT);
    while (next_alias(&list, &alias)) {
        pal_postgres_add_int(tenants, session->tenant);
        pal_postgres_add_text(names, alias);
    }
    status = pal_postgres_read_all(check->store, reads, 2, results, err);
    if (status == PAL_OK) {
        check_leading(session, results[0], found);
        check_listed(session, results[1], found);
    }
    PQclear(results[0]);
    PQclear(results[1]);
    return status;
}

/* ---- All sessions ---- */

static pal_status examine(
        pal_postgres_check_state *check, const session_row *session, problem *out, pal_error *err)
{
    pal_status status;

    memset(out, 0, sizeof *out);
    if (!session->has_head) {
        out->kind = NO_HEAD;
        snprintf(out->text, sizeof out->text, "its state was missing");
        return PAL_OK;
    }
    status = check_messages(check, session, out, err);
    if (status != PAL_OK || out->kind != NO_PROBLEM)
        return status;
    if (session->fork_seq > 0 && session->parent_seq < session->fork_seq)
        snprintf(out->text, sizeof out->text, "the messages that it shares are missing");
    else if (out->last_seq < session->last_seq)
        snprintf(out->text, sizeof out->text, "messages %lld to %lld are missing",
                (long long)out->last_seq + 1, (long long)session->last_seq);
    if (out->text[0]) {
        out->kind = DAMAGED;
        return PAL_OK;
    }
    check_counts(session, out);
    return out->kind == NO_PROBLEM ? check_names(check, session, out, err) : PAL_OK;
}

static bool repair_session(
        pal_postgres_check_state *check, const session_row *session, const problem *found)
{
    pal_postgres_params params = {0};

    pal_postgres_put_int(&params, session->tenant);
    pal_postgres_put_id(&params, session->id);
    switch (found->kind) {
    case NO_HEAD:
        return pal_postgres_check_repair(check, PAL_POSTGRES_CHECK_ADD_HEAD, &params);
    case WRONG_COUNTS:
        pal_postgres_put_int(&params, found->last_seq);
        pal_postgres_put_int(&params, found->tokens);
        pal_postgres_put_int(&params, found->bytes);
        pal_postgres_put_int(&params, session->last_seq);
        pal_postgres_put_int(&params, session->tokens);
        return pal_postgres_check_repair(check, PAL_POSTGRES_CHECK_FIX_HEAD, &params);
    case DAMAGED:
        return pal_postgres_check_repair(check, PAL_POSTGRES_CHECK_QUARANTINE, &params);
    case NO_PROBLEM:
    case WRONG_NAMES:
        break;
    }
    pal_postgres_params_done(&params);
    return false;
}

/* A session that was quarantined before is not reported again. */
static void report_problem(
        pal_postgres_check_state *check, const session_row *session, const problem *found)
{
    if (found->kind == NO_PROBLEM ||
            (found->kind == DAMAGED && session->state == PAL_SESSION_QUARANTINED))
        return;
    pal_postgres_check_report(
            check, session->id, repair_session(check, session, found), found->text);
}

/* Reads the session again and reports what is still wrong. If counts were missing together with the
 * head, the new head gets them. */
static pal_status confirm(
        pal_postgres_check_state *check, int64_t tenant, pal_id id, pal_error *err)
{
    bool again = true;
    pal_status status = PAL_OK;

    for (int i = 0; status == PAL_OK && again && i < 2; i++) {
        pal_postgres_params params = {0};
        PGresult *result = NULL;
        session_row session;
        problem found = {0};

        pal_postgres_put_int(&params, tenant);
        pal_postgres_put_id(&params, id);
        status = pal_postgres_read(
                check->store, PAL_POSTGRES_CHECK_SESSION, &params, &result, err);
        again = status == PAL_OK && PQntuples(result) == 1;
        if (again) {
            read_session(result, 0, &session);
            status = examine(check, &session, &found, err);
        }
        if (again && status == PAL_OK)
            report_problem(check, &session, &found);
        again = again && found.kind == NO_HEAD && check->repair;
        PQclear(result);
    }
    return status;
}

/* A session that the server cannot read is not quarantined: the cause may be elsewhere. */
static pal_status check_session(
        pal_postgres_check_state *check, const session_row *session, pal_error *err)
{
    char text[PAL_ERROR_MESSAGE_MAX];
    pal_error why = {0};
    problem found;
    pal_status status = examine(check, session, &found, &why);

    if (status == PAL_OK && found.kind != NO_PROBLEM)
        status = confirm(check, session->tenant, session->id, &why);
    if (status == PAL_CORRUPT) {
        snprintf(text, sizeof text, "its records cannot be read: %.180s", why.message);
        pal_postgres_check_report(check, session->id, false, text);
        return PAL_OK;
    }
    return status == PAL_OK ? PAL_OK : pal_error_set(err, status, "%s", why.message);
}

static pal_status check_sessions(pal_postgres_check_state *check, pal_error *err)
{
    static const char none[16];
    char last[16] = {0};
    int64_t tenant = INT64_MIN;
    pal_status status = PAL_OK;
    uint64_t done = 0;
    int len = SESSIONS_PAGE;

    while (status == PAL_OK && len == SESSIONS_PAGE) {
        pal_postgres_params params = {0};
        PGresult *page = NULL;

        pal_postgres_put_int(&params, tenant);
        pal_postgres_put_bytes(
                &params, pal_str_make(tenant == INT64_MIN ? none : last, sizeof last));
        pal_postgres_put_int(&params, SESSIONS_PAGE);
        status = pal_postgres_read(
                check->store, PAL_POSTGRES_CHECK_SESSIONS, &params, &page, err);
        if (status != PAL_OK)
            return status;
        len = PQntuples(page);
        for (int i = 0; status == PAL_OK && i < len; i++) {
            session_row session;

            read_session(page, i, &session);
            tenant = session.tenant;
            memcpy(last, session.id.bytes, sizeof last);
            status = check_session(check, &session, err);
            check->progress(++done, 0, check->user);
        }
        PQclear(page);
    }
    return status;
}

/* ---- Tenants ---- */

static pal_status check_tenant(
        pal_postgres_check_state *check, int64_t tenant, pal_str name, pal_error *err)
{
    char text[PAL_ERROR_MESSAGE_MAX];
    pal_status status;

    if (pal_postgres_tenant(name) != tenant) {
        snprintf(text, sizeof text, "tenant '%.*s' has the number of another name",
                PAL_EXCERPT(name, 80));
        pal_postgres_check_report(check, (pal_id){{0}}, false, text);
    }
    status = pal_postgres_check_ledger(check, tenant, name, err);
    return status == PAL_OK ? pal_postgres_check_index(check, tenant, name, err) : status;
}

static pal_status check_tenants(pal_postgres_check_state *check, pal_error *err)
{
    int64_t tenant = INT64_MIN;
    pal_status status = PAL_OK;
    int len = TENANTS_PAGE;

    while (status == PAL_OK && len == TENANTS_PAGE) {
        pal_postgres_params params = {0};
        PGresult *page = NULL;

        pal_postgres_put_int(&params, tenant);
        pal_postgres_put_int(&params, TENANTS_PAGE);
        status = pal_postgres_read(
                check->store, PAL_POSTGRES_CHECK_TENANTS, &params, &page, err);
        if (status != PAL_OK)
            return status;
        len = PQntuples(page);
        for (int i = 0; status == PAL_OK && i < len; i++) {
            tenant = pal_postgres_int(page, i, 0);
            status = check_tenant(check, tenant, pal_postgres_str(page, i, 1), err);
        }
        PQclear(page);
        if (tenant == INT64_MAX)
            break;
        tenant++;
    }
    return status;
}

pal_status pal_postgres_check(pal_engine *engine, bool repair, pal_row_check row_check,
        pal_store_on_finding sink, pal_store_on_progress progress, void *user, pal_error *err)
{
    pal_postgres *store = (pal_postgres *)engine;
    pal_postgres_check_state check = {.store = store,
            .conn = {.store = store},
            .repair = repair,
            .row_check = row_check,
            .sink = sink,
            .progress = progress,
            .user = user};
    pal_status status = check_sessions(&check, err);

    if (status == PAL_OK)
        status = pal_postgres_check_strays(&check, err);
    if (status == PAL_OK)
        status = pal_postgres_check_blobs(&check, err);
    if (status == PAL_OK)
        status = check_tenants(&check, err);
    if (status == PAL_OK)
        status = pal_postgres_check_chunks(&check, err);
    pal_postgres_disconnect(&check.conn);
    return status;
}
