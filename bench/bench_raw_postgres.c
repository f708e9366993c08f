/* bench_raw_postgres.c - see bench_raw_postgres.h. The connection has the store's settings, so that
 * both sides have the same plans. */
#include "bench_raw_postgres.h"

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "bench_fill.h"
#include "store/postgres/postgres_value.h"

#define BODY_MAX 65536
#define SESSIONS_MAX 64
#define RAW_SETTINGS                                                                               \
    "-c jit=off -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off"              \
    " -c plan_cache_mode=force_generic_plan -c synchronous_commit=on"                              \
    " -c client_min_messages=warning"

struct raw_postgres {
    PGconn *pg;
    int64_t tenant;
    int64_t last_seqs[SESSIONS_MAX];
    size_t body_len;
    size_t next; /* index of the next session */
    char body[BODY_MAX];
};

static void must(bool held, const raw_postgres *self, const char *what)
{
    if (held)
        return;
    fprintf(stderr, "bench: %s: %s\n", what, self ? PQerrorMessage(self->pg) : "failed");
    exit(1);
}

static PGresult *take(const raw_postgres *self, PGresult *result, const char *what)
{
    ExecStatusType status = PQresultStatus(result);

    must(status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_PIPELINE_SYNC,
            self, what);
    return result;
}

void raw_postgres_exec(raw_postgres *self, const char *text)
{
    PQclear(take(self, PQexec(self->pg, text), text));
}

static void prepare(raw_postgres *self, const char *name, const char *text)
{
    PQclear(take(self, PQprepare(self->pg, name, text, 0, NULL), text));
}

static void load_last_seqs(raw_postgres *self)
{
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        pal_postgres_params params = {0};
        const char *values[2];
        int lengths[2] = {8, 16}, formats[2] = {1, 1};
        PGresult *result;

        pal_postgres_put_int(&params, self->tenant);
        pal_postgres_put_id(&params, fill_session_id(i));
        values[0] = params.items[0].bytes.data;
        values[1] = params.items[1].bytes.data;
        result = take(self, PQexecParams(self->pg,
                                    "SELECT last_seq FROM head WHERE tenant = $1::int8"
                                    " AND session = $2::uuid",
                                    2, NULL, values, lengths, formats, 1),
                "last_seq");
        self->last_seqs[i] = PQntuples(result) == 1 ? pal_postgres_int(result, 0, 0) : 0;
        PQclear(result);
        pal_postgres_params_done(&params);
    }
}

raw_postgres *raw_postgres_open(const char *url, const char *schema, size_t body_len)
{
    const char *const words[] = {"dbname", "options", NULL};
    const char *const values[] = {url, RAW_SETTINGS, NULL};
    raw_postgres *self = pal_calloc(1, sizeof *self);
    PGresult *result;
    char text[200];

    must(self && body_len <= BODY_MAX, NULL, "raw_postgres_open");
    self->pg = PQconnectdbParams(words, values, 1);
    must(PQstatus(self->pg) == CONNECTION_OK, self, url);
    self->body_len = body_len;
    memset(self->body, 'x', sizeof self->body);
    snprintf(text, sizeof text, "SET search_path = %s", schema);
    raw_postgres_exec(self, text);
    result = take(self, PQexecParams(self->pg, "SELECT tenant FROM tenant WHERE name = 'default'",
                                0, NULL, NULL, NULL, NULL, 1),
            "tenant");
    must(PQntuples(result) == 1, NULL, "tenant");
    self->tenant = pal_postgres_int(result, 0, 0);
    PQclear(result);
    load_last_seqs(self);
    prepare(self, "message",
            "INSERT INTO message(tenant, session, seq, id, created_at, tokens, flags, role,"
            " is_text, client_id, body, pos) SELECT *, nextval('message_pos')"
            " FROM unnest($1::int8[], $2::uuid[], $3::int8[], $4::uuid[], $5::int8[], $6::int8[],"
            " $7::int8[], $8::int8[], $9::bool[], $10::text[], $11::bytea[])");
    prepare(self, "head",
            "UPDATE head h SET last_seq = u.seq, tokens = h.tokens + u.tokens,"
            " bytes = h.bytes + u.bytes, updated_at = $6::int8, minute = ($6::int8 / 60000)::int4"
            " FROM unnest($1::int8[], $2::uuid[], $3::int8[], $4::int8[], $5::int8[])"
            " u(t, s, seq, tokens, bytes) WHERE h.tenant = u.t AND h.session = u.s");
    prepare(self, "tail",
            "SELECT seq, id, role, flags, tokens, created_at, client_id, is_text, body, turn"
            " FROM message WHERE tenant = $1::int8 AND session = $2::uuid ORDER BY seq DESC"
            " LIMIT $3::int8");
    return self;
}

void raw_postgres_close(raw_postgres *self)
{
    PQfinish(self->pg);
    pal_free(self);
}

static void send(raw_postgres *self, const char *name, pal_postgres_params *params)
{
    static const int formats[PAL_POSTGRES_PARAMS_MAX] = {
            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const char *values[PAL_POSTGRES_PARAMS_MAX];
    int lengths[PAL_POSTGRES_PARAMS_MAX];

    for (size_t i = 0; i < params->len; i++) {
        values[i] = params->items[i].bytes.data;
        lengths[i] = (int)params->items[i].bytes.len;
    }
    must(PQsendQueryPrepared(self->pg, name, (int)params->len, values, lengths, formats, 1), self,
            name);
    pal_postgres_params_done(params);
}

static void put_arrays(pal_postgres_params *params, const pal_postgres_type *types, size_t len)
{
    for (size_t i = 0; i < len; i++)
        pal_postgres_put_array(params, types[i]);
}

static void add_message(
        raw_postgres *self, pal_postgres_param *columns, size_t session, int64_t now_ms)
{
    char client[64];

    snprintf(client, sizeof client, "c-%zu-%lld", session, (long long)self->last_seqs[session]);
    pal_postgres_add_int(columns++, self->tenant);
    pal_postgres_add_id(columns++, fill_session_id(session));
    pal_postgres_add_int(columns++, self->last_seqs[session]);
    pal_postgres_add_id(columns++, pal_id_new());
    pal_postgres_add_int(columns++, now_ms);
    pal_postgres_add_int(columns++, 120);
    pal_postgres_add_int(columns++, 0);
    pal_postgres_add_int(columns++, 2);
    pal_postgres_add_bool(columns++, true);
    pal_postgres_add_text(columns++, pal_str_of(client));
    pal_postgres_add_bytes(columns, pal_str_make(self->body, self->body_len));
}

static void add_head(
        raw_postgres *self, pal_postgres_param *columns, size_t session, size_t messages)
{
    pal_postgres_add_int(columns++, self->tenant);
    pal_postgres_add_id(columns++, fill_session_id(session));
    pal_postgres_add_int(columns++, self->last_seqs[session]);
    pal_postgres_add_int(columns++, 120 * (int64_t)messages);
    pal_postgres_add_int(columns, (int64_t)(self->body_len * messages));
}

static void finish(raw_postgres *self)
{
    PGresult *result;

    must(PQpipelineSync(self->pg), self, "sync");
    for (int statements = 0; statements < 2; statements++) {
        PQclear(take(self, PQgetResult(self->pg), "append"));
        must(PQgetResult(self->pg) == NULL, self, "append");
    }
    result = take(self, PQgetResult(self->pg), "sync");
    must(PQresultStatus(result) == PGRES_PIPELINE_SYNC, self, "sync");
    PQclear(result);
    must(PQexitPipelineMode(self->pg), self, "pipeline");
}

void raw_postgres_append(raw_postgres *self, size_t sessions_len, size_t count)
{
    static const pal_postgres_type message_types[] = {PAL_POSTGRES_INT8, PAL_POSTGRES_UUID,
            PAL_POSTGRES_INT8, PAL_POSTGRES_UUID, PAL_POSTGRES_INT8, PAL_POSTGRES_INT8,
            PAL_POSTGRES_INT8, PAL_POSTGRES_INT8, PAL_POSTGRES_BOOL, PAL_POSTGRES_TEXT,
            PAL_POSTGRES_BYTES};
    static const pal_postgres_type head_types[] = {PAL_POSTGRES_INT8, PAL_POSTGRES_UUID,
            PAL_POSTGRES_INT8, PAL_POSTGRES_INT8, PAL_POSTGRES_INT8};
    pal_postgres_params messages = {0}, heads = {0};
    size_t counts[SESSIONS_MAX] = {0};
    int64_t now_ms = pal_clock_now_ms();

    put_arrays(&messages, message_types, sizeof message_types / sizeof message_types[0]);
    put_arrays(&heads, head_types, sizeof head_types / sizeof head_types[0]);
    for (size_t i = 0; i < count; i++) {
        size_t session = self->next++ % sessions_len;

        self->last_seqs[session]++;
        counts[session]++;
        add_message(self, messages.items, session, now_ms);
    }
    for (size_t i = 0; i < sessions_len; i++)
        if (counts[i] > 0)
            add_head(self, heads.items, i, counts[i]);
    pal_postgres_put_int(&heads, now_ms);
    must(PQenterPipelineMode(self->pg), self, "pipeline");
    send(self, "head", &heads);
    send(self, "message", &messages);
    finish(self);
}

size_t raw_postgres_tail(raw_postgres *self, size_t session, int limit)
{
    static const int formats[] = {1, 1, 1};
    pal_postgres_params params = {0};
    const char *values[3];
    int lengths[3];
    size_t bytes = 0;
    PGresult *result;
    char body[BODY_MAX];

    pal_postgres_put_int(&params, self->tenant);
    pal_postgres_put_id(&params, fill_session_id(session));
    pal_postgres_put_int(&params, limit);
    for (size_t i = 0; i < 3; i++) {
        values[i] = params.items[i].bytes.data;
        lengths[i] = (int)params.items[i].bytes.len;
    }
    result = take(self, PQexecPrepared(self->pg, "tail", 3, values, lengths, formats, 1), "tail");
    pal_postgres_params_done(&params);
    for (int i = 0; i < PQntuples(result); i++) {
        size_t len = (size_t)PQgetlength(result, i, 8);

        memcpy(body, PQgetvalue(result, i, 8), len);
        bytes += len;
    }
    PQclear(result);
    return bytes;
}
