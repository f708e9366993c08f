/* postgres_conn.c - connections and flights.
 *
 * A flight is a list of statements that are sent together with one Sync after them, in libpq's
 * pipeline mode. The server answers all of them at once. Without BEGIN they are one implicit
 * transaction, so a read is one statement with nothing to roll back, and a pooler in transaction
 * mode can give the next flight to another server process.
 *
 * libpq never waits here without a deadline: the socket is non-blocking, and poll() ends when the
 * flight's time is up. Then the connection is closed. A running statement is never canceled: a
 * cancel request during COMMIT lets the commit succeed without its replica. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "store/postgres/postgres.h"

#define RETRY_PAUSE_MS 100
#define SECOND_TRY_MS_MAX 1000
#define PROBE_WAIT_MS 1000
#define SETTING_SIZE 64 /* bytes of a name or a value */
#define REASON_MAX 130  /* bytes of libpq's reason in an error */

/* ---- Connecting ---- */

/* One index per statement. Nested loops also keep the order in which rows are locked. A bitmap scan
 * loses the order of the index, so that a page of a list would need a sort of the whole list. To
 * start parallel workers takes longer than to read a page. */
#define PLANNER                                                                                    \
    "-c jit=off -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off"              \
    " -c enable_bitmapscan=off -c max_parallel_workers_per_gather=0"                               \
    " -c plan_cache_mode=force_generic_plan"                                                       \
    " -c idle_in_transaction_session_timeout=30s -c default_transaction_isolation=read\\ committed"

/* A pooler does not pass options on. There the role must have them (ALTER ROLE ... SET). */
const char *pal_postgres_settings(const pal_postgres_conn *conn)
{
    if (!conn->store->prepares)
        return "";
    return conn->is_writer ? PLANNER " -c lock_timeout=10s" : PLANNER " -c statement_timeout=60s";
}

static bool has_value(PGconn *pg, const char *name, const char *value)
{
    const char *const values[] = {name, value};
    PGresult *result = PQexecParams(pg,
            "SELECT 1 WHERE current_setting($1::text) = $2::text OR ($1 = 'synchronous_commit' AND"
            " current_setting($1) = 'remote_apply')", 2, NULL, values, NULL, NULL, 0);
    bool found = PQntuples(result) == 1;

    PQclear(result);
    return found;
}

/* Writes "ALTER ROLE r SET name = 'value';" for each "-c name=value" in the options. With `pg`,
 * only for those that have another value there. */
static void put_settings(const char *options, const char *role, PGconn *pg, pal_buf *out)
{
    for (const char *at = strstr(options, "-c "); at; at = strstr(at, "-c ")) {
        size_t name_len = strcspn(at += 3, "="), len = 0;
        char name[SETTING_SIZE], value[SETTING_SIZE];

        snprintf(name, sizeof name, "%.*s", (int)name_len, at);
        for (at += name_len + 1; *at && *at != ' ' && len < sizeof value - 1; at++) {
            if (*at == '\\')
                at++; /* before a space */
            value[len++] = *at;
        }
        value[len] = 0;
        if (!pg || !has_value(pg, name, value))
            pal_buf_format(out, "ALTER ROLE %s SET %s = '%s';\n", role, name, value);
    }
}

void pal_postgres_settings_write(pal_postgres *store, bool only_missing, pal_buf *out)
{
    PGconn *pg = store->writer.pg;
    char *role = PQescapeIdentifier(pg, PQuser(pg), strlen(PQuser(pg)));

    if (!only_missing || (PQexitPipelineMode(pg) && PQsetnonblocking(pg, 0) == 0))
        put_settings(PLANNER " -c lock_timeout=10s -c synchronous_commit=on", role ? role : "",
                only_missing ? pg : NULL, out);
    PQfreemem(role);
    if (only_missing && (PQsetnonblocking(pg, 1) != 0 || !PQenterPipelineMode(pg)))
        pal_postgres_disconnect(&store->writer);
}

static void on_notice(void *user, const PGresult *result)
{
    pal_postgres_conn *conn = user;
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);

    if (severity && strcmp(severity, "WARNING") == 0)
        conn->was_warned = true;
}

void pal_postgres_disconnect(pal_postgres_conn *conn)
{
    if (conn->pg)
        PQfinish(conn->pg);
    conn->pg = NULL;
    conn->was_checked = false;
    memset(conn->is_prepared, 0, sizeof conn->is_prepared);
    if (conn->is_writer && !atomic_exchange(&conn->store->is_lost, true))
        atomic_fetch_add(&conn->store->losses, 1);
}

/* Looks for "SEVERITY:  CODE: MESSAGE" in a verbose text of libpq. The severity and the message can
 * be in any language. With several hosts, the last one counts. */
static bool find_code(const char *text, char out_code[6], const char **out_message)
{
    bool found = false;

    for (const char *at = strstr(text, ":  "); at; at = strstr(at + 3, ":  ")) {
        if (strspn(at + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != 5 || at[8] != ':')
            continue;
        snprintf(out_code, 6, "%.5s", at + 3);
        *out_message = at + 8 + strspn(at + 8, ": ");
        found = true;
    }
    return found;
}

static bool is_on(const PGconn *pg, const char *parameter)
{
    const char *value = PQparameterStatus(pg, parameter);

    return value && strcmp(value, "on") == 0;
}

/* libpq refuses a value in the URL when it connects, with this text. */
static bool is_wrong_value(const PGconn *pg)
{
    return pg && strncmp(PQerrorMessage(pg), "invalid ", 8) == 0;
}

/* libpq could not connect, and no server said why. With several hosts, its first line is about the
 * first one. */
static pal_status not_reached(const pal_postgres_conn *conn, const char *text, pal_error *err)
{
    size_t len = strcspn(text, "\n");

    return pal_error_set(err, PAL_IO,
            "%s: could not connect (%.*s); check the host, the port, and that the server runs",
            conn->store->place, (int)(len < REASON_MAX ? len : REASON_MAX), text);
}

/* Skips "connection to server at HOST failed: ". */
static const char *skip_place(const char *text)
{
    static const char end[] = " failed: ";
    const char *found = strstr(text, end);

    return found ? found + strlen(end) : text;
}

static pal_status refuse(pal_postgres_conn *conn, pal_postgres_failure *out_failure, pal_error *err)
{
    const char *text = conn->pg ? PQerrorMessage(conn->pg) : "out of memory";
    char code[6] = "";
    pal_status status;

    if (is_wrong_value(conn->pg)) {
        status = pal_error_set(err, PAL_INVALID, "'%s' is not valid: %.*s", conn->store->place,
                (int)strcspn(text, "\n"), text);
        if (out_failure)
            *out_failure = PAL_POSTGRES_REFUSED;
        pal_postgres_disconnect(conn);
        return status;
    }
    if (!find_code(text, code, &text)) {
        /* libpq itself refuses these, without an SQLSTATE. */
        if (PQconnectionNeedsPassword(conn->pg))
            snprintf(code, sizeof code, "28P01");
        else if (is_on(conn->pg, "default_transaction_read_only") ||
                is_on(conn->pg, "in_hot_standby"))
            snprintf(code, sizeof code, "25006");
        if (code[0])
            text = skip_place(text);
    }
    if (strstr(text, "unsupported startup parameter")) { /* pgbouncer refuses our options */
        atomic_store(&conn->store->prepares, false);
        snprintf(code, sizeof code, "26000");
    }
    status = code[0] ? pal_postgres_error(conn->store, code, text, err)
                     : not_reached(conn, text, err);
    if (out_failure)
        *out_failure = code[0] ? pal_postgres_failure_of(code) : PAL_POSTGRES_LOST;
    pal_postgres_disconnect(conn);
    return status;
}

/* The text of a failed connection has the SQLSTATE only if it is verbose, and that can be set only
 * after the first try. So a server that refused at once is tried again. */
static void open_verbosely(
        pal_postgres_conn *conn, const char *const *words, const char *const *values)
{
    int64_t until_us = pal_clock_monotonic_us() + SECOND_TRY_MS_MAX * 1000;

    conn->pg = PQconnectdbParams(words, values, 1);
    if (!conn->pg || PQstatus(conn->pg) == CONNECTION_OK || is_wrong_value(conn->pg) ||
            pal_clock_monotonic_us() > until_us)
        return;
    PQsetErrorVerbosity(conn->pg, PQERRORS_VERBOSE);
    PQreset(conn->pg);
    PQsetErrorVerbosity(conn->pg, PQERRORS_DEFAULT);
}

/* Makes COMMIT wait for the disk, also if the server, the database or the role says otherwise. The
 * value of the session also protects against a later change of the server's configuration. Behind
 * a pooler the next transaction may run in another session, so there the value must be right
 * already. */
static pal_status make_durable(
        pal_postgres_conn *conn, pal_postgres_failure *out_failure, pal_error *err)
{
    pal_postgres *store = conn->store;
    pal_postgres_params params = {0};
    pal_postgres_failure failure;
    PGresult *result = NULL;
    pal_str value = {0};
    pal_status status = pal_postgres_run(
            conn, PAL_POSTGRES_DURABILITY_FIND, NULL, &result, &failure, err);
    bool is_durable;

    if (status == PAL_OK && PQntuples(result) == 1)
        value = pal_postgres_str(result, 0, 0);
    is_durable = pal_str_equal(value, pal_str_of("on")) ||
            pal_str_equal(value, pal_str_of("remote_apply"));
    if (status == PAL_OK && store->prepares) {
        pal_postgres_put_text(&params, is_durable ? value : pal_str_of("on"));
        status = pal_postgres_run(
                conn, PAL_POSTGRES_DURABILITY_SET, &params, NULL, &failure, err);
    } else if (status == PAL_OK && !is_durable) {
        failure = PAL_POSTGRES_REFUSED;
        status = pal_error_set(err, PAL_INVALID,
                "%s: synchronous_commit is '%.*s', so a crash would lose acknowledged writes; run"
                " ALTER ROLE ... SET synchronous_commit = on",
                store->place, PAL_EXCERPT(value, 20));
    }
    PQclear(result);
    if (status != PAL_OK)
        pal_postgres_disconnect(conn);
    if (out_failure)
        *out_failure = failure;
    return status;
}

/* A reader connects again if the writer lost its connection meanwhile. The reader's server may be
 * an old primary, which can answer but does not get the new writes. */
pal_status pal_postgres_connect(
        pal_postgres_conn *conn, pal_postgres_failure *out_failure, pal_error *err)
{
    pal_postgres *store = conn->store;
    /* Words before the URL are defaults, words after it override it. */
    const char *const words[] = {"connect_timeout", "tcp_user_timeout", "keepalives_idle",
            "keepalives_interval", "keepalives_count", "target_session_attrs",
            "fallback_application_name", "dbname", "client_encoding", "options", NULL};
    const char *const values[] = {"3", "5000", "5", "2", "3",
            store->options.read_only ? "any" : "read-write", "palaver", store->url, "UTF8",
            pal_postgres_settings(conn), NULL};
    pal_status status;

    if (conn->pg && PQstatus(conn->pg) == CONNECTION_OK &&
            conn->losses == atomic_load(&store->losses))
        return PAL_OK;
    pal_postgres_disconnect(conn);
    conn->losses = atomic_load(&store->losses);
    open_verbosely(conn, words, values);
    if (PQstatus(conn->pg) != CONNECTION_OK)
        return refuse(conn, out_failure, err);
    if (PQserverVersion(conn->pg) < PAL_POSTGRES_SERVER_MIN) {
        int version = PQserverVersion(conn->pg) / 10000;

        pal_postgres_disconnect(conn);
        if (out_failure)
            *out_failure = PAL_POSTGRES_REFUSED;
        return pal_error_set(err, PAL_INVALID,
                "%s: the server is PostgreSQL %d; version %d or newer is needed", store->place,
                version, PAL_POSTGRES_SERVER_MIN / 10000);
    }
    PQsetNoticeReceiver(conn->pg, on_notice, conn);
    if (PQsetnonblocking(conn->pg, 1) != 0 || !PQenterPipelineMode(conn->pg))
        return refuse(conn, out_failure, err);
    if (!conn->is_writer)
        return PAL_OK;
    atomic_store(&store->is_lost, false);
    status = pal_postgres_run(conn, PAL_POSTGRES_CLOCK_READ, NULL, NULL, out_failure, err);
    if (status != PAL_OK)
        pal_postgres_disconnect(conn);
    return status != PAL_OK || store->options.read_only ? status
                                                        : make_durable(conn, out_failure, err);
}

/* ---- Flights ---- */

void pal_postgres_flight_begin(pal_postgres_flight *flight, pal_postgres_conn *conn)
{
    flight->conn = conn;
    flight->len = 0;
    flight->begun_us = pal_clock_monotonic_us();
    flight->is_broken = conn->pg == NULL;
    flight->is_short = false;
    flight->failure = PAL_POSTGRES_FINE;
    conn->was_warned = false;
}

void pal_postgres_flight_done(pal_postgres_flight *flight)
{
    for (size_t i = 0; i < flight->len; i++)
        PQclear(flight->results[i]);
    flight->len = 0;
}

static void statement_name(pal_postgres_sql sql, char out_name[16])
{
    snprintf(out_name, 16, "palaver%d", (int)sql);
}

/* Adds a statement, and leaves the parameters to the caller. */
static size_t add_statement(
        pal_postgres_flight *flight, pal_postgres_sql sql, const pal_postgres_params *params)
{
    static const int binary[PAL_POSTGRES_PARAMS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
            1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    pal_postgres_conn *conn = flight->conn;
    const char *values[PAL_POSTGRES_PARAMS_MAX] = {0};
    Oid types[PAL_POSTGRES_PARAMS_MAX] = {0};
    int lengths[PAL_POSTGRES_PARAMS_MAX] = {0};
    int len = params ? (int)params->len : 0;
    size_t index = flight->len++;
    bool prepares = conn->store->prepares;
    char name[16];

    flight->sent[index] = sql;
    flight->results[index] = NULL;
    flight->prepares[index] = false;
    for (int i = 0; i < len; i++) {
        const pal_postgres_param *param = &params->items[i];

        types[i] = pal_postgres_param_type(param);
        if (param->bytes.failure)
            flight->is_broken = flight->is_short = true;
        if (param->is_null)
            continue;
        values[i] = param->bytes.data ? param->bytes.data : "";
        lengths[i] = (int)param->bytes.len;
    }
    statement_name(sql, name);
    if (!flight->is_broken && prepares && !conn->is_prepared[sql]) {
        flight->prepares[index] = true;
        conn->is_prepared[sql] = true; /* taken back if it fails */
        flight->is_broken = !PQsendPrepare(conn->pg, name, conn->store->texts[sql], len, types);
    }
    if (!flight->is_broken)
        flight->is_broken = prepares
                ? !PQsendQueryPrepared(conn->pg, name, len, values, lengths, binary, 1)
                : !PQsendQueryParams(conn->pg, conn->store->texts[sql], len, types, values,
                          lengths, binary, 1);
    return index;
}

size_t pal_postgres_flight_add(
        pal_postgres_flight *flight, pal_postgres_sql sql, pal_postgres_params *params)
{
    size_t index = add_statement(flight, sql, params);

    if (params)
        pal_postgres_params_done(params);
    return index;
}

static pal_status lose(pal_postgres_flight *flight, const char *why, pal_error *err)
{
    char text[160];

    snprintf(text, sizeof text, "%.*s", (int)strcspn(why, "\n"), why);
    pal_postgres_disconnect(flight->conn);
    flight->failure = PAL_POSTGRES_LOST;
    return pal_postgres_error(flight->conn->store, "08006", text, err);
}

/* Waits until the socket can be read, or written if there is something left to send. */
static bool wait_for(PGconn *pg, bool writes, int64_t until_us)
{
    struct pollfd fd = {.fd = PQsocket(pg), .events = (short)(POLLIN | (writes ? POLLOUT : 0))};
    int64_t left_us = until_us - pal_clock_monotonic_us();

    if (left_us <= 0 || fd.fd < 0)
        return false;
    if (poll(&fd, 1, (int)(left_us / 1000) + 1) < 0 && errno != EINTR)
        return false;
    return true;
}

/* Returns the next result; *out_result is NULL between two statements. */
static bool next_result(PGconn *pg, int64_t until_us, PGresult **out_result)
{
    int unsent = PQflush(pg);

    while (unsent > 0 || PQisBusy(pg)) {
        if (unsent < 0 || !wait_for(pg, unsent > 0, until_us) || !PQconsumeInput(pg))
            return false;
        unsent = PQflush(pg);
    }
    if (unsent < 0)
        return false;
    *out_result = PQgetResult(pg);
    return true;
}

/* Reads the results of one statement up to the NULL that ends it, and keeps the first. */
static bool take_statement(PGconn *pg, int64_t until_us, PGresult **out_result)
{
    PGresult *result = NULL;

    *out_result = NULL;
    do {
        if (!next_result(pg, until_us, &result))
            return false;
        if (!*out_result)
            *out_result = result;
        else
            PQclear(result);
    } while (result);
    return *out_result != NULL;
}

static void keep_failure(pal_postgres_flight *flight, const PGresult *result, pal_error *err)
{
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

    if (flight->failure != PAL_POSTGRES_FINE)
        return;
    flight->failure = pal_postgres_failure_of(code ? code : "08006");
    pal_postgres_error(flight->conn->store, code ? code : "08006",
            text ? text : PQresultErrorMessage(result), err);
    flight->conn->was_warned = false;
}

static bool is_fine(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

/* The Sync ends the transaction of a flight without a COMMIT. If an error comes instead of its
 * result, it is not known what was committed. */
static bool take_sync(PGconn *pg, int64_t until_us)
{
    PGresult *result = NULL;
    bool is_synced = next_result(pg, until_us, &result) &&
            PQresultStatus(result) == PGRES_PIPELINE_SYNC;

    PQclear(result);
    return is_synced;
}

/* Returns the column in which a statement returns the database's time, or -1. */
static int time_column(pal_postgres_sql sql)
{
    if (sql == PAL_POSTGRES_HEAD_TOUCH || sql == PAL_POSTGRES_HEAD_APPEND ||
            sql == PAL_POSTGRES_APPEND_ONE)
        return 4;
    return sql == PAL_POSTGRES_CLOCK_READ || sql == PAL_POSTGRES_NODE_BATCH ? 0 : -1;
}

static void note_time(const pal_postgres_flight *flight, size_t index)
{
    pal_postgres_sql sql = flight->sent[index];
    const PGresult *result = flight->results[index];
    int column = time_column(sql);

    if (column >= 0 && PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0)
        pal_postgres_clock_note(flight->conn->store, pal_postgres_int(result, 0, column),
                flight->begun_us, pal_clock_monotonic_us(), sql == PAL_POSTGRES_CLOCK_READ);
}

static bool collect(pal_postgres_flight *flight, int64_t until_us, pal_error *err)
{
    pal_postgres_conn *conn = flight->conn;
    PGresult *result;

    for (size_t i = 0; i < flight->len; i++) {
        if (flight->prepares[i]) {
            if (!take_statement(conn->pg, until_us, &result))
                return false;
            if (!is_fine(result)) {
                conn->is_prepared[flight->sent[i]] = false;
                if (PQresultStatus(result) != PGRES_PIPELINE_ABORTED)
                    keep_failure(flight, result, err);
            }
            PQclear(result);
        }
        if (!take_statement(conn->pg, until_us, &flight->results[i]))
            return false;
        if (!is_fine(flight->results[i]) &&
                PQresultStatus(flight->results[i]) != PGRES_PIPELINE_ABORTED)
            keep_failure(flight, flight->results[i], err);
        note_time(flight, i);
    }
    return take_sync(conn->pg, until_us);
}

pal_status pal_postgres_flight_run(pal_postgres_flight *flight, pal_error *err)
{
    pal_postgres_conn *conn = flight->conn;
    int64_t wait_us = (int64_t)conn->store->options.busy_timeout_ms * 1000;
    pal_error why = {0};

    if (flight->is_short) { /* later statements were not sent, so there was no COMMIT */
        pal_postgres_disconnect(conn);
        flight->failure = PAL_POSTGRES_REFUSED;
        return pal_no_memory(err);
    }
    if (flight->is_broken || !PQpipelineSync(conn->pg))
        return lose(flight, conn->pg ? PQerrorMessage(conn->pg) : "no connection", err);
    atomic_fetch_add_explicit(&conn->store->flights, 1, memory_order_relaxed);
    if (!collect(flight, pal_clock_monotonic_us() + wait_us, &why))
        return lose(flight, *PQerrorMessage(conn->pg) ? PQerrorMessage(conn->pg) : "no answer",
                err);
    if (flight->failure == PAL_POSTGRES_FINE)
        return PAL_OK;
    if (flight->failure == PAL_POSTGRES_LOST)
        pal_postgres_disconnect(conn);
    if (flight->failure == PAL_POSTGRES_POOLER) {
        atomic_store(&conn->store->prepares, false);
        pal_postgres_disconnect(conn);
    }
    if (err)
        *err = why;
    return why.status;
}

pal_status pal_postgres_run(pal_postgres_conn *conn, pal_postgres_sql sql,
        pal_postgres_params *params, PGresult **out_result, pal_postgres_failure *out_failure,
        pal_error *err)
{
    pal_postgres_flight flight;
    pal_status status;

    pal_postgres_flight_begin(&flight, conn);
    pal_postgres_flight_add(&flight, sql, params);
    status = pal_postgres_flight_run(&flight, err);
    if (status == PAL_OK && out_result) {
        *out_result = flight.results[0];
        flight.results[0] = NULL;
    }
    if (out_failure)
        *out_failure = flight.failure;
    pal_postgres_flight_done(&flight);
    return status;
}

pal_status pal_postgres_exec(
        pal_postgres_conn *conn, const char *text, char out_code[6], pal_error *err)
{
    pal_status status = PAL_OK;
    PGresult *result;

    /* Several statements in one text need the simple protocol. */
    if (!PQexitPipelineMode(conn->pg) || PQsetnonblocking(conn->pg, 0) != 0)
        return pal_postgres_error(conn->store, "08006", PQerrorMessage(conn->pg), err);
    result = PQexec(conn->pg, text);
    out_code[0] = 0;
    if (!is_fine(result)) {
        const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        const char *why = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

        snprintf(out_code, 6, "%.5s", code ? code : "08006");
        status = pal_postgres_error(
                conn->store, out_code, why ? why : PQerrorMessage(conn->pg), err);
    }
    PQclear(result);
    if (PQsetnonblocking(conn->pg, 1) != 0 || !PQenterPipelineMode(conn->pg))
        pal_postgres_disconnect(conn);
    return status;
}

/* ---- The readers ---- */

pal_postgres_reader *pal_postgres_reader_take(pal_postgres *store)
{
    pal_postgres_reader *reader = NULL;

    pthread_mutex_lock(&store->lock);
    while (!reader) {
        for (size_t i = 0; i < store->readers_len; i++) {
            pal_postgres_reader *each = &store->readers[i];

            /* One that is connected already is better. */
            if (!each->is_used && (!reader || (each->conn.pg && !reader->conn.pg)))
                reader = each;
        }
        if (!reader)
            pthread_cond_wait(&store->given, &store->lock);
    }
    reader->is_used = true;
    pthread_mutex_unlock(&store->lock);
    return reader;
}

void pal_postgres_reader_give(pal_postgres *store, pal_postgres_reader *reader)
{
    pthread_mutex_lock(&store->lock);
    reader->is_used = false;
    pthread_cond_signal(&store->given);
    pthread_mutex_unlock(&store->lock);
}

void pal_postgres_readers_close(pal_postgres *store)
{
    for (size_t i = 0; i < store->readers_len; i++)
        pal_postgres_disconnect(&store->readers[i].conn);
}

/* Runs the statements once. Their parameters must last for several tries. */
static pal_status read_once(pal_postgres_conn *conn, const pal_postgres_read_one *reads, size_t len,
        PGresult **out_results, pal_postgres_failure *out_failure, pal_error *err)
{
    pal_postgres_flight flight;
    pal_status status;

    pal_postgres_flight_begin(&flight, conn);
    for (size_t i = 0; i < len; i++)
        add_statement(&flight, reads[i].sql, reads[i].params);
    status = pal_postgres_flight_run(&flight, err);
    *out_failure = flight.failure;
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        out_results[i] = flight.results[i];
        flight.results[i] = NULL;
    }
    pal_postgres_flight_done(&flight);
    return status;
}

pal_status pal_postgres_read(pal_postgres *store, pal_postgres_sql sql, pal_postgres_params *params,
        PGresult **out_result, pal_error *err)
{
    pal_postgres_read_one read = {.sql = sql, .params = params};

    return pal_postgres_read_all(store, &read, 1, out_result, err);
}

/* Runs the statements until they succeed or the time is up. */
static pal_status read_within(pal_postgres *store, const pal_postgres_read_one *reads, size_t len,
        uint32_t wait_ms, PGresult **out_results, pal_error *err)
{
    pal_postgres_reader *reader = pal_postgres_reader_take(store);
    int64_t until_us = pal_clock_monotonic_us() + (int64_t)wait_ms * 1000;
    bool again = true;
    int tries = 0;
    pal_status status = PAL_OK;

    while (again) {
        pal_postgres_failure failure = PAL_POSTGRES_FINE;

        status = pal_postgres_connect(&reader->conn, &failure, err);
        if (status == PAL_OK)
            status = read_once(&reader->conn, reads, len, out_results, &failure, err);
        again = status != PAL_OK && failure != PAL_POSTGRES_REFUSED &&
                failure != PAL_POSTGRES_FINE && pal_clock_monotonic_us() < until_us;
        /* The first try may only have found that an idle connection is gone. */
        if (again && tries++ > 0)
            poll(NULL, 0, RETRY_PAUSE_MS);
    }
    pal_postgres_reader_give(store, reader);
    for (size_t i = 0; i < len; i++)
        pal_postgres_params_done(reads[i].params);
    return status;
}

pal_status pal_postgres_read_all(pal_postgres *store, const pal_postgres_read_one *reads,
        size_t len, PGresult **out_results, pal_error *err)
{
    return read_within(store, reads, len, store->options.busy_timeout_ms, out_results, err);
}

pal_status pal_postgres_probe(pal_postgres *store, pal_error *err)
{
    pal_postgres_params params = {0};
    pal_postgres_read_one read = {.sql = PAL_POSTGRES_TENANT_NAME, .params = &params};
    PGresult *result = NULL;
    pal_error why = {0};
    pal_status status;

    pal_postgres_put_int(&params, 0);
    status = read_within(store, &read, 1, PROBE_WAIT_MS, &result, &why);
    PQclear(result);
    if (status == PAL_OK)
        return PAL_OK;
    return pal_error_set(err, PAL_TIMEOUT, "the database does not answer: %s", why.message);
}
