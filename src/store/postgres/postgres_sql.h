/* postgres_sql.h - every statement, by noun. "@" stands for the schema of the store.
 *
 * The index that a statement uses is named before it; "pk" is the primary key of its table. Each
 * statement can use only that index. The connections forbid sequential scans, hash joins and merge
 * joins, so that a plan that was made for an empty table stays right when the table grows. A "+ 0"
 * keeps a condition out of the choice of an index.
 *
 * Statements with unnest() handle the rows of a whole batch. Their arrays are sorted by tenant and
 * session, and nested loops keep that order, so that two nodes lock rows in the same order. */
#ifndef PAL_POSTGRES_SQL_H
#define PAL_POSTGRES_SQL_H

#include "store/postgres/check/check_sql.h"
#include "store/postgres/index/index_sql.h"

#define PAL_POSTGRES_SESSION_COLUMNS                                                               \
    "x.session, h.state, coalesce(x.key, x.kept_key), x.aliases, x.title, h.project, h.agent,"     \
    " x.scope, x.metadata, x.extra, x.parent, x.fork_seq, x.fork_mark, h.last_seq, h.mark_number," \
    " h.tokens, h.bytes, x.created_at, h.updated_at, h.expires_at, x.deleted_at, x.is_routed,"     \
    " x.alias_apart"

#define PAL_POSTGRES_ROW_COLUMNS                                                                   \
    "m.seq, m.id, m.role, m.flags, m.tokens, m.created_at, m.client_id, m.is_text, m.body, m.turn"

#define PAL_POSTGRES_MARK_COLUMNS "m.number, m.kind, m.seq, m.through_seq, m.target, m.created_at"

#define PAL_POSTGRES_RECORD_COLUMNS                                                                \
    "r.kind, r.name, r.session, r.body, r.version, r.created_at, r.updated_at, r.expires_at"

/* The present time in microseconds, and not that of the transaction's beginning. */
#define PAL_POSTGRES_TIME "(extract(epoch FROM clock_timestamp()) * 1000000)::int8"

/* The name of the tenant of a row. */
#define PAL_POSTGRES_TENANT_NAME(table)                                                            \
    "(SELECT n.name FROM @tenant n WHERE n.tenant = " table ".tenant)"

/* The page begins after (updated_at, session) = ($4, $5). The index has the order of minutes, so
 * the inner statement reads the page and the rest of its last minute. Only those are sorted. */
#define PAL_POSTGRES_LIST(range, order, filter)                                                    \
    "SELECT " PAL_POSTGRES_SESSION_COLUMNS                                                         \
    " FROM (SELECT * FROM @head h WHERE h.tenant = $1 AND h.state = $2 AND " range                 \
    " AND (h.updated_at < $4 OR (h.updated_at = $4 AND h.session < $5))"                           \
    " AND h.updated_at >= $6 AND (h.state + 0 <> 1 OR h.expires_at IS NULL OR h.expires_at >= $7)" \
    " AND " filter " ORDER BY " order " FETCH FIRST $8 ROWS WITH TIES) h"                          \
    " JOIN @session x ON x.tenant = h.tenant AND x.session = h.session"                            \
    " ORDER BY h.minute DESC, h.updated_at DESC, h.session DESC LIMIT $8"

/* Only rows with this value in a column. With "column = $9" the planner would know that the order
 * of head_recent fits too, and would choose it if most sessions had the same value when the plan
 * was made. A list of another value would then read all sessions. */
#define PAL_POSTGRES_LIST_OF(column, filter)                                                       \
    PAL_POSTGRES_LIST("h." column " >= $9 AND (h." column ", h.minute) <= ($9, $3)",               \
            "h." column " DESC, h.minute DESC", filter)

#define PAL_POSTGRES_CAPPED(sum)                                                                   \
    "greatest(least(" sum ", 9223372036854775807), -9223372036854775808)::int8"
#define PAL_POSTGRES_SUM(column) PAL_POSTGRES_CAPPED("coalesce(sum(" column "), 0)")
#define PAL_POSTGRES_LEDGER_SUMS                                                                   \
    PAL_POSTGRES_SUM("input") ", " PAL_POSTGRES_SUM("cache_read") ", "                             \
    PAL_POSTGRES_SUM("cache_write") ", " PAL_POSTGRES_SUM("output") ", "                           \
    PAL_POSTGRES_SUM("reasoning") ", " PAL_POSTGRES_SUM("cost_micros")
/* Read by pal_postgres_ledger_read(). */
#define PAL_POSTGRES_LEDGER_COLUMNS                                                                \
    "l.id, l.session, l.created_at, l.input, l.cache_read, l.cache_write, l.output, l.reasoning,"  \
    " l.cost_micros, l.agent, l.request_id, l.turn_id, l.purpose, l.provider, l.model,"            \
    " l.price_version"
#define PAL_POSTGRES_LEDGER_ORDER " ORDER BY l.created_at DESC, l.id DESC LIMIT $6"
#define PAL_POSTGRES_ADD(column)                                                                   \
    column " = " PAL_POSTGRES_CAPPED("ledger_hour." column "::numeric + excluded." column)

/* Whether the lease is held, as pal_lease_blocks() decides. $17 is the time, 172800000 twice the
 * longest ttl. */
#define PAL_POSTGRES_HELD                                                                          \
    "(h.owner IS NOT NULL AND NOT (o.stale_fence = h.fence AND o.stale_until = h.lease_until)"     \
    " AND CASE WHEN o.watched THEN h.lease_until <> 0 ELSE h.lease_until > $17"                    \
    " AND h.lease_until - $17 <= CASE WHEN h.lease_ttl > 0 THEN 2 * h.lease_ttl"                   \
    " ELSE 172800000 END END)"

#define PAL_POSTGRES_HOUR_CONFLICT                                                                 \
    " ON CONFLICT (tenant, agent, hour, slot) DO UPDATE SET"                                       \
    " calls = ledger_hour.calls + excluded.calls, " PAL_POSTGRES_ADD("input") ", "                 \
    PAL_POSTGRES_ADD("cache_read") ", " PAL_POSTGRES_ADD("cache_write") ", "                       \
    PAL_POSTGRES_ADD("output") ", " PAL_POSTGRES_ADD("reasoning") ", "                             \
    PAL_POSTGRES_ADD("cost_micros")

/* A table of up to 8 MiB is counted. For a larger one, a sample of its pages is counted that has
 * about 8 MiB. It has the same pages each time, so that the numbers do not jump. */
#define PAL_POSTGRES_SCALE(table) "greatest(1, pg_relation_size('@" table "') / 8388608.0)"
#define PAL_POSTGRES_SCALED(sum, table) "(" sum " * " PAL_POSTGRES_SCALE(table) ")::int8"
#define PAL_POSTGRES_SAMPLE(table)                                                                 \
    "@" table " TABLESAMPLE SYSTEM (100 / " PAL_POSTGRES_SCALE(table) ") REPEATABLE (1)"

#define PAL_POSTGRES_STATEMENTS(X)                                                                 \
    /* reset_val is the default for new sessions, also if a pooler gave us an older session. */    \
    X(DURABILITY_FIND, "SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'")      \
    X(DURABILITY_SET, "SELECT set_config('synchronous_commit', $1, false)")                        \
    X(CLOCK_READ, "SELECT " PAL_POSTGRES_TIME)                                                     \
    X(BEGIN, "BEGIN")                                                                              \
    X(COMMIT, "COMMIT")                                                                            \
    X(ROLLBACK, "ROLLBACK")                                                                        \
    /* Tenants: pk. */                                                                             \
    X(TENANT_ADD,                                                                                  \
            "INSERT INTO @tenant(tenant, name) VALUES ($1, $2) ON CONFLICT DO NOTHING")            \
    X(TENANT_NAME, "SELECT name FROM @tenant WHERE tenant = $1")                                   \
    /* Nodes: pk. A node is free if it was given back, or not seen since $2. */                    \
    X(NODE_FREE,                                                                                   \
            "SELECT slot, batch FROM @node WHERE seen_at < $1 ORDER BY slot LIMIT 1"               \
            " FOR UPDATE SKIP LOCKED")                                                             \
    X(NODE_NEXT, "SELECT coalesce(max(slot), 0) + 1 FROM @node")                                   \
    X(NODE_ADD,                                                                                    \
            "INSERT INTO @node(slot, id, started_at, seen_at, batch, checks)"                      \
            " VALUES ($1, $2, $3, $3, $4, 0) ON CONFLICT (slot) DO UPDATE SET id = excluded.id,"   \
            " started_at = excluded.started_at, seen_at = excluded.seen_at"                        \
            " WHERE node.seen_at < $5")                                                            \
    X(NODE_LOCK, "SELECT batch FROM @node WHERE slot = $1 AND id = $2 FOR UPDATE")                 \
    X(NODE_BATCH,                                                                                  \
            "UPDATE @node SET batch = $3, seen_at = $4 WHERE slot = $1 AND id = $2"                \
            " RETURNING " PAL_POSTGRES_TIME)                                                       \
    X(NODE_CHECK,                                                                                  \
            "UPDATE @node SET checks = checks + 1 WHERE slot = $1 AND id = $2 RETURNING batch")    \
    X(NODE_LEAVE, "UPDATE @node SET seen_at = 0 WHERE slot = $1 AND id = $2")                      \
    /* Sessions: pk, session_key, alias pk. */                                                     \
    X(SESSION_BY_ID,                                                                               \
            "SELECT " PAL_POSTGRES_SESSION_COLUMNS " FROM @session x"                              \
            " JOIN @head h ON h.tenant = x.tenant AND h.session = x.session"                       \
            " WHERE x.tenant = $1 AND x.session = $2")                                             \
    /* For pal_ahead_wants.is_brief: each column costs the server and the client time. */          \
    X(SESSION_BRIEF,                                                                               \
            "SELECT x.session, h.state, x.parent, x.fork_seq, x.fork_mark, h.last_seq,"            \
            " h.mark_number, h.expires_at FROM @session x"                                         \
            " JOIN @head h ON h.tenant = x.tenant AND h.session = x.session"                       \
            " WHERE x.tenant = $1 AND x.session = $2")                                             \
    X(SESSION_BY_KEY,                                                                              \
            "SELECT " PAL_POSTGRES_SESSION_COLUMNS " FROM @session x"                              \
            " JOIN @head h ON h.tenant = x.tenant AND h.session = x.session"                       \
            " WHERE x.tenant = $1 AND x.key = $2 AND h.state + 0 = 1")                             \
    X(SESSION_BY_ALIAS,                                                                            \
            "SELECT " PAL_POSTGRES_SESSION_COLUMNS " FROM @alias a"                                \
            " JOIN @session x ON x.tenant = a.tenant AND x.session = a.session"                    \
            " JOIN @head h ON h.tenant = x.tenant AND h.session = x.session"                       \
            " WHERE a.tenant = $1 AND a.alias = $2 AND h.state + 0 = 1")                           \
    /* head_recent, head_project, head_agent. */                                                   \
    X(SESSION_LIST, PAL_POSTGRES_LIST("h.minute <= $3", "h.minute DESC", "true"))                  \
    X(SESSION_LIST_PROJECT,                                                                        \
            PAL_POSTGRES_LIST_OF("project", "($10::text IS NULL OR h.agent || '' = $10)"))         \
    X(SESSION_LIST_AGENT, PAL_POSTGRES_LIST_OF("agent", "true"))                                   \
    /* session_parent. */                                                                          \
    X(SESSION_FORKS,                                                                               \
            "SELECT session FROM @session WHERE tenant = $1 AND parent = $2 AND fork_seq >= $3")   \
    X(SESSION_SHARED,                                                                              \
            "SELECT coalesce(max(fork_seq), 0) FROM @session WHERE tenant = $1 AND parent = $2")   \
    /* Locks the sessions of a batch by id, by key and by alias, in the order of their keys. Both  \
     * rows are locked, because only locked rows are read again after a wait. */                   \
    X(SESSION_LOCK,                                                                                \
            "SELECT " PAL_POSTGRES_SESSION_COLUMNS                                                 \
            ", h.fence, h.lease_until, h.lease_ttl, h.owner, h.tenant, x.key IS NOT NULL FROM ("   \
            " SELECT t, s FROM unnest($1::int8[], $2::uuid[]) i(t, s)"                             \
            " UNION SELECT k.tenant, k.session FROM unnest($3::int8[], $4::text[]) n(t, name)"     \
            "  JOIN @session k ON k.tenant = n.t AND k.key = n.name"                               \
            " UNION SELECT a.tenant, a.session FROM unnest($5::int8[], $6::text[]) n(t, name)"     \
            "  JOIN @alias a ON a.tenant = n.t AND a.alias = n.name) w"                            \
            " JOIN @head h ON h.tenant = w.t AND h.session = w.s"                                  \
            " JOIN @session x ON x.tenant = h.tenant AND x.session = h.session"                    \
            " ORDER BY h.tenant, h.session FOR UPDATE OF h, x")                                    \
    X(SESSION_COUNT,                                                                               \
            "SELECT u.t, (SELECT count(*) FROM (SELECT 1 FROM @head h WHERE h.tenant = u.t"        \
            " AND h.state = 1 AND (h.expires_at IS NULL OR h.expires_at >= $3) LIMIT $2) c)"       \
            " FROM unnest($1::int8[]) u(t)")                                                       \
    X(SESSION_ADD,                                                                                 \
            "INSERT INTO @session(tenant, session, created_at, deleted_at, parent, fork_seq,"      \
            " fork_mark, is_routed, key, kept_key, title, aliases, alias_apart, scope, metadata,"  \
            " extra) SELECT * FROM unnest($1::int8[], $2::uuid[], $3::int8[], $4::int8[],"         \
            " $5::uuid[], $6::int8[], $7::int8[], $8::bool[], $9::text[], $10::text[],"            \
            " $11::text[], $12::bytea[], $13::text[], $14::text[], $15::text[], $16::text[])")     \
    X(SESSION_UNKEY,                                                                               \
            "UPDATE @session x SET key = NULL FROM unnest($1::int8[], $2::uuid[]) u(t, s)"         \
            " WHERE x.tenant = u.t AND x.session = u.s AND x.key IS NOT NULL")                     \
    X(SESSION_SET,                                                                                 \
            "UPDATE @session x SET deleted_at = u.deleted_at, parent = u.parent,"                  \
            " fork_seq = u.fork_seq, fork_mark = u.fork_mark, is_routed = u.is_routed,"            \
            " key = u.key, kept_key = u.kept_key, title = u.title, aliases = u.aliases,"           \
            " alias_apart = u.alias_apart, scope = u.scope, metadata = u.metadata,"                \
            " extra = u.extra FROM unnest($1::int8[], $2::uuid[], $3::int8[], $4::int8[],"         \
            " $5::uuid[], $6::int8[], $7::int8[], $8::bool[], $9::text[], $10::text[],"            \
            " $11::text[], $12::bytea[], $13::text[], $14::text[], $15::text[], $16::text[])"      \
            " u(t, s, created_at, deleted_at, parent, fork_seq, fork_mark, is_routed, key,"        \
            " kept_key, title, aliases, alias_apart, scope, metadata, extra)"                      \
            " WHERE x.tenant = u.t AND x.session = u.s")                                           \
    X(HEAD_ADD,                                                                                    \
            "INSERT INTO @head(tenant, session, last_seq, mark_number, tokens, bytes, updated_at," \
            " expires_at, fence, lease_until, lease_ttl, minute, state, owner, project, agent,"    \
            " batch) SELECT *, $17 FROM unnest($1::int8[], $2::uuid[], $3::int8[], $4::int8[],"    \
            " $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int8[],"            \
            " $11::int8[], $12::int8[], $13::int8[], $14::text[], $15::text[], $16::text[])")      \
    X(HEAD_SET,                                                                                    \
            "UPDATE @head h SET last_seq = u.last_seq, mark_number = u.mark_number,"               \
            " tokens = u.tokens, bytes = u.bytes, updated_at = u.updated_at,"                      \
            " expires_at = u.expires_at, fence = u.fence, lease_until = u.lease_until,"            \
            " lease_ttl = u.lease_ttl, minute = u.minute, state = u.state, owner = u.owner,"       \
            " project = u.project, agent = u.agent, batch = $17"                                   \
            " FROM unnest($1::int8[], $2::uuid[], $3::int8[], $4::int8[],"                         \
            " $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int8[],"            \
            " $11::int8[], $12::int8[], $13::int8[], $14::text[], $15::text[], $16::text[])"       \
            " u(t, s, last_seq, mark_number, tokens, bytes, updated_at, expires_at, fence,"        \
            " lease_until, lease_ttl, minute, state, owner, project, agent)"                       \
            " WHERE h.tenant = u.t AND h.session = u.s")                                           \
    /* The single flight of a batch (postgres_single.c): node pk, head pk. A head whose condition  \
     * fails is not updated. It does not get the token of the batch, which the later statements    \
     * look for. The row of the node proves that no other process uses the slot, and so the token. \
     *                                                                                             \
     * Each array that is passed through unnest() takes a few microseconds, and so does each term  \
     * of the statement. So only arrays whose elements differ in length are made a table, and      \
     * batches that only append have statements with fewer terms. */                               \
    X(APPEND_ONE,                                                                                  \
            "WITH n AS (UPDATE @node SET batch = $14, seen_at = $15 WHERE slot = $12 AND id = $13" \
            " RETURNING " PAL_POSTGRES_TIME " AS time),"                                           \
            " h AS (UPDATE @head h SET last_seq = h.last_seq + $3::int8, tokens = h.tokens + $4,"  \
            " bytes = h.bytes + $5, batch = $11, updated_at = $6, minute = $7::int8::int4 FROM n"  \
            " WHERE h.tenant = $1::int8 AND h.session = $2::uuid AND h.state + 0 = 1"              \
            " AND (h.expires_at IS NULL OR h.expires_at >= $10)"                                   \
            " AND $8::int8 IN (-1, h.last_seq) AND $9::int8 IN (0, h.fence)"                       \
            " RETURNING h.last_seq, h.fence, h.mark_number, n.time),"                              \
            " m AS (INSERT INTO @message(tenant, session, seq, pos, id, created_at, tokens, flags,"\
            " role, is_text, client_id, body, turn) SELECT $1, $2, h.last_seq - $3 + r.i,"         \
            " nextval('@message_pos'), ($16::uuid[])[r.i], ($17::int8[])[r.i],"                    \
            " ($18::int8[])[r.i], ($19::int8[])[r.i], ($20::int8[])[r.i], ($21::bool[])[r.i],"     \
            " r.client, r.body, ($24::uuid[])[r.i]"                                                \
            " FROM h, unnest($22::text[], $23::bytea[]) WITH ORDINALITY r(client, body, i))"       \
            " SELECT 1::int8, h.last_seq, h.fence, h.mark_number, h.time FROM h")                  \
    X(HEAD_APPEND,                                                                                 \
            "WITH n AS (UPDATE @node SET batch = $14, seen_at = $15 WHERE slot = $12 AND id = $13" \
            " RETURNING " PAL_POSTGRES_TIME " AS time)"                                            \
            " UPDATE @head h SET last_seq = h.last_seq + ($3::int8[])[u.i],"                       \
            " tokens = h.tokens + ($4::int8[])[u.i], bytes = h.bytes + ($5::int8[])[u.i],"         \
            " batch = $11, updated_at = ($6::int8[])[u.i], minute = ($7::int8[])[u.i]::int4"       \
            " FROM n, unnest($1::int8[]) WITH ORDINALITY u(tenant, i)"                             \
            " WHERE h.tenant = u.tenant AND h.session = ($2::uuid[])[u.i] AND h.state + 0 = 1"     \
            " AND (h.expires_at IS NULL OR h.expires_at >= $10)"                                   \
            " AND ($8::int8[])[u.i] IN (-1, h.last_seq) AND ($9::int8[])[u.i] IN (0, h.fence)"     \
            " RETURNING u.i, h.last_seq, h.fence, h.mark_number, n.time")                          \
    X(HEAD_TOUCH,                                                                                  \
            "WITH n AS (UPDATE @node SET batch = $21, seen_at = $22 WHERE slot = $19 AND id = $20" \
            " RETURNING " PAL_POSTGRES_TIME " AS time)"                                            \
            " UPDATE @head h SET last_seq = h.last_seq + o.n, tokens = h.tokens + o.tokens,"       \
            " bytes = h.bytes + o.bytes, batch = $18,"                                             \
            " updated_at = CASE WHEN o.n > 0 THEN o.at ELSE h.updated_at END,"                     \
            " minute = CASE WHEN o.n > 0 THEN o.minute::int4 ELSE h.minute END,"                   \
            " fence = h.fence + CASE WHEN o.ttl > 0 AND o.fence = 0"                               \
            " AND NOT (" PAL_POSTGRES_HELD " AND h.owner = o.owner) THEN 1 ELSE 0 END,"            \
            " owner = CASE WHEN o.release > 0 THEN NULL WHEN o.ttl > 0 THEN o.owner"               \
            " ELSE h.owner END,"                                                                   \
            " lease_until = CASE WHEN o.release > 0 THEN 0 WHEN o.ttl > 0 THEN $17 + o.ttl"        \
            " + CASE WHEN $17 + o.ttl = h.lease_until THEN 1 ELSE 0 END"                           \
            " ELSE h.lease_until END,"                                                             \
            " lease_ttl = CASE WHEN o.ttl > 0 THEN o.ttl ELSE h.lease_ttl END"                     \
            " FROM n, (SELECT u.tenant, ($2::uuid[])[u.i] AS session, ($3::int8[])[u.i] AS n,"     \
            " ($4::int8[])[u.i] AS tokens, ($5::int8[])[u.i] AS bytes, ($6::int8[])[u.i] AS at,"   \
            " ($7::int8[])[u.i] AS minute, ($8::int8[])[u.i] AS expected,"                         \
            " ($9::int8[])[u.i] AS fence, ($10::int8[])[u.i] AS release,"                          \
            " ($11::text[])[u.i] AS owner, ($12::int8[])[u.i] AS ttl,"                             \
            " ($13::int8[])[u.i] AS stale_fence, ($14::int8[])[u.i] AS stale_until,"               \
            " ($15::bool[])[u.i] AS watched, ($16::int8[])[u.i] AS items, u.i"                     \
            " FROM unnest($1::int8[]) WITH ORDINALITY u(tenant, i)) o"                             \
            " WHERE h.tenant = o.tenant AND h.session = o.session AND h.state + 0 = 1"             \
            " AND (h.expires_at IS NULL OR h.expires_at >= $17)"                                   \
            " AND (o.expected < 0 OR o.expected = h.last_seq)"                                     \
            " AND (o.fence = 0 OR o.fence = h.fence) AND (o.release = 0 OR o.release = h.fence)"   \
            " AND (o.ttl = 0 OR NOT (" PAL_POSTGRES_HELD ") OR h.owner = o.owner)"                 \
            " AND (o.items = 0 OR o.items + (SELECT count(*) FROM @inbox b"                        \
            " WHERE b.tenant = o.tenant AND b.session = o.session) <= $23)"                        \
            " RETURNING o.i, h.last_seq, h.fence, h.mark_number, n.time")                          \
    X(MESSAGE_APPEND,                                                                              \
            "INSERT INTO @message(tenant, session, seq, pos, id, created_at, tokens, flags, role," \
            " is_text, client_id, body, turn) SELECT h.tenant, h.session,"                         \
            " h.last_seq - ($3::int8[])[r.i], nextval('@message_pos'), ($4::uuid[])[r.i],"         \
            " ($5::int8[])[r.i], ($6::int8[])[r.i], ($7::int8[])[r.i], ($8::int8[])[r.i],"         \
            " ($9::bool[])[r.i], r.client, r.body, ($12::uuid[])[r.i]"                             \
            " FROM unnest($10::text[], $11::bytea[]) WITH ORDINALITY r(client, body, i)"           \
            " JOIN @head h ON h.tenant = ($1::int8[])[r.i] AND h.session = ($2::uuid[])[r.i]"      \
            " AND h.batch + 0 = $13")                                                              \
    X(INBOX_TAKE,                                                                                  \
            "DELETE FROM @inbox b USING unnest($1::int8[], $2::uuid[], $3::uuid[]) d(t, s, item)," \
            " @head h WHERE h.tenant = d.t AND h.session = d.s AND h.batch + 0 = $4"               \
            " AND b.tenant = d.t AND b.session = d.s AND b.item = d.item")                         \
    X(INBOX_PUT,                                                                                   \
            "INSERT INTO @inbox(tenant, session, number, item, created_at, client_id, delivery,"   \
            " body) SELECT r.t, r.s, r.nth + coalesce((SELECT max(b.number) FROM @inbox b"         \
            " WHERE b.tenant = r.t AND b.session = r.s), 0), r.item, r.at, r.client, r.delivery,"  \
            " r.body FROM unnest($1::int8[], $2::uuid[], $3::int8[], $4::uuid[], $5::int8[],"      \
            " $6::text[], $7::text[], $8::bytea[])"                                                \
            " r(t, s, nth, item, at, client, delivery, body)"                                      \
            " JOIN @head h ON h.tenant = r.t AND h.session = r.s AND h.batch + 0 = $9")            \
    X(LEDGER_APPEND,                                                                               \
            "WITH new AS (INSERT INTO @ledger(tenant, id, session, created_at, input, cache_read," \
            " cache_write, output, reasoning, cost_micros, agent, request_id, turn_id, purpose,"   \
            " provider, model, price_version) SELECT r.t, r.id, r.s, r.at, r.input, r.cache_read," \
            " r.cache_write, r.output, r.reasoning, r.cost, r.agent, r.request, r.turn,"           \
            " r.purpose, r.provider, r.model, r.price"                                             \
            " FROM unnest($1::int8[], $2::uuid[], $3::uuid[], $4::int8[], $5::int8[], $6::int8[]," \
            " $7::int8[], $8::int8[], $9::int8[], $10::int8[], $11::text[], $12::text[],"          \
            " $13::text[], $14::text[], $15::text[], $16::text[], $17::text[])"                    \
            " r(t, id, s, at, input, cache_read, cache_write, output, reasoning, cost, agent,"     \
            " request, turn, purpose, provider, model, price)"                                     \
            " JOIN @head h ON h.tenant = r.t AND h.session = r.s AND h.batch + 0 = $18"            \
            " ON CONFLICT (tenant, request_id) WHERE request_id IS NOT NULL DO NOTHING"            \
            " RETURNING tenant, agent, created_at, input, cache_read, cache_write, output,"        \
            " reasoning, cost_micros)"                                                             \
            " INSERT INTO @ledger_hour(tenant, agent, hour, slot, calls, input, cache_read,"       \
            " cache_write, output, reasoning, cost_micros) SELECT n.tenant, a.agent,"              \
            " n.created_at / 3600000, $19, count(*), " PAL_POSTGRES_LEDGER_SUMS " FROM new n"      \
            " CROSS JOIN LATERAL (SELECT '' UNION SELECT n.agent WHERE n.agent IS NOT NULL)"       \
            " a(agent) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3" PAL_POSTGRES_HOUR_CONFLICT)              \
    /* The outcome of a single flight whose answer was lost: message_id, head pk. */               \
    X(MESSAGE_SEQS,                                                                                \
            "SELECT u.i, m.seq FROM unnest($1::int8[], $2::uuid[]) WITH ORDINALITY u(t, id, i)"    \
            " JOIN @message m ON m.tenant = u.t AND m.id = u.id")                                  \
    X(LEASE_OWNERS,                                                                                \
            "SELECT u.i, h.owner, h.fence FROM unnest($1::int8[], $2::uuid[])"                     \
            " WITH ORDINALITY u(t, s, i) JOIN @head h ON h.tenant = u.t AND h.session = u.s")      \
    X(ALIAS_LOAD,                                                                                  \
            "SELECT a.tenant, a.alias, a.session FROM unnest($1::int8[], $2::text[]) u(t, n)"      \
            " JOIN @alias a ON a.tenant = u.t AND a.alias = u.n")                                  \
    X(ALIAS_CLEAR,                                                                                 \
            "DELETE FROM @alias a USING unnest($1::int8[], $2::uuid[]) u(t, s)"                    \
            " WHERE a.tenant = u.t AND a.session = u.s")                                           \
    X(ALIAS_ADD,                                                                                   \
            "INSERT INTO @alias(tenant, alias, session)"                                           \
            " SELECT * FROM unnest($1::int8[], $2::text[], $3::uuid[])")                           \
    /* head_expiry, session_trash. */                                                              \
    X(SESSION_EXPIRED,                                                                             \
            "SELECT t.name, h.session FROM @head h JOIN @tenant t ON t.tenant = h.tenant"          \
            " WHERE h.expires_at < $1 AND h.state + 0 = 1 ORDER BY h.expires_at LIMIT $2")         \
    X(SESSION_STALE,                                                                               \
            "SELECT t.name, x.session FROM @session x JOIN @tenant t ON t.tenant = x.tenant"       \
            " WHERE x.deleted_at < $1 ORDER BY x.deleted_at LIMIT $2")                             \
    X(SESSION_STRIP,                                                                               \
            "UPDATE @session SET key = NULL, kept_key = NULL, title = NULL, aliases = NULL,"       \
            " alias_apart = NULL, scope = NULL, metadata = NULL, extra = NULL, deleted_at = NULL"  \
            " WHERE tenant = $1 AND session = $2")                                                 \
    X(HEAD_STRIP,                                                                                  \
            "UPDATE @head SET state = 4, project = NULL, agent = NULL, owner = NULL, fence = 0,"   \
            " lease_until = 0, expires_at = NULL, last_seq = $3, (tokens, bytes) ="                \
            " (SELECT coalesce(sum(tokens), 0), coalesce(sum(octet_length(body)), 0)"              \
            " FROM @message WHERE tenant = $1 AND session = $2)"                                   \
            " WHERE tenant = $1 AND session = $2")                                                 \
    X(SESSION_DROP, "DELETE FROM @session WHERE tenant = $1 AND session = $2")                     \
    X(HEAD_DROP, "DELETE FROM @head WHERE tenant = $1 AND session = $2")                           \
    /* Messages: pk, message_id, message_client, message_arrival. */                               \
    X(MESSAGE_UP,                                                                                  \
            "SELECT " PAL_POSTGRES_ROW_COLUMNS " FROM @message m WHERE m.tenant = $1"              \
            " AND m.session = $2 AND m.seq BETWEEN $3 AND $4 ORDER BY m.seq LIMIT $5")             \
    X(MESSAGE_DOWN,                                                                                \
            "SELECT " PAL_POSTGRES_ROW_COLUMNS " FROM @message m WHERE m.tenant = $1"              \
            " AND m.session = $2 AND m.seq BETWEEN $3 AND $4 ORDER BY m.seq DESC LIMIT $5")        \
    X(MESSAGE_BY_ID,                                                                               \
            "SELECT " PAL_POSTGRES_ROW_COLUMNS ", m.session FROM @message m"                       \
            " WHERE m.tenant = $1 AND m.id = $2")                                                  \
    X(MESSAGE_BY_CLIENT,                                                                           \
            "SELECT " PAL_POSTGRES_ROW_COLUMNS " FROM @message m"                                  \
            " WHERE m.tenant = $1 AND m.session = $2 AND m.client_id = $3")                        \
    X(MESSAGE_ARRIVALS,                                                                            \
            "SELECT " PAL_POSTGRES_ROW_COLUMNS ", m.pos, m.session FROM @message m"                \
            " WHERE m.tenant = $1 AND m.pos < $2 AND m.pos > $3 ORDER BY m.pos DESC LIMIT $4")     \
    X(MESSAGE_CLIENTS,                                                                             \
            "SELECT " PAL_POSTGRES_ROW_COLUMNS ", m.tenant, m.session"                             \
            " FROM unnest($1::int8[], $2::uuid[], $3::text[]) u(t, s, client) JOIN @message m"     \
            " ON m.tenant = u.t AND m.session = u.s AND m.client_id = u.client")                   \
    X(MESSAGE_IDS,                                                                                 \
            "SELECT m.tenant, m.id FROM unnest($1::int8[], $2::uuid[]) u(t, id)"                   \
            " JOIN @message m ON m.tenant = u.t AND m.id = u.id")                                  \
    X(MESSAGE_ADD,                                                                                 \
            "INSERT INTO @message(tenant, session, seq, id, created_at, tokens, flags, role,"      \
            " is_text, client_id, body, turn, pos) SELECT *, nextval('@message_pos')"              \
            " FROM unnest($1::int8[], $2::uuid[], $3::int8[], $4::uuid[], $5::int8[], $6::int8[]," \
            " $7::int8[], $8::int8[], $9::bool[], $10::text[], $11::bytea[], $12::uuid[])")        \
    X(MESSAGE_DROP,                                                                                \
            "DELETE FROM @message WHERE tenant = $1 AND session = $2 AND seq > $3")                \
    X(MESSAGE_ERASE,                                                                               \
            "WITH old AS (SELECT tenant, session, tokens, octet_length(body) AS bytes"             \
            " FROM @message WHERE tenant = $1 AND session = $2 AND seq = $3 AND flags & $4 = 0"    \
            " FOR UPDATE), gone AS (UPDATE @message m SET tokens = 0, flags = $4,"                 \
            " is_text = false, body = $5 FROM old WHERE m.tenant = $1 AND m.session = $2"          \
            " AND m.seq = $3), head AS (UPDATE @head h SET tokens = h.tokens - old.tokens,"        \
            " bytes = h.bytes - old.bytes + octet_length($5) FROM old WHERE h.tenant = $1"         \
            " AND h.session = $2) SELECT count(*) FROM old")                                       \
    X(MESSAGE_THERE,                                                                               \
            "SELECT count(*) FROM @message WHERE tenant = $1 AND session = $2 AND seq = $3")       \
    X(MARK_ERASE,                                                                                  \
            "WITH RECURSIVE shows(id) AS (SELECT $2::uuid UNION SELECT s.session FROM @session s"  \
            " JOIN shows ON s.parent = shows.id WHERE s.tenant = $1 AND s.fork_seq >= $3)"         \
            " UPDATE @mark m SET body = NULL, target = $4 FROM shows WHERE m.tenant = $1"          \
            " AND m.session = shows.id AND m.kind = 3 AND m.seq >= $3 AND m.target = 0")           \
    X(RECORD_ERASE,                                                                                \
            "WITH RECURSIVE shows(id) AS (SELECT $2::uuid UNION SELECT s.session FROM @session s"  \
            " JOIN shows ON s.parent = shows.id WHERE s.tenant = $1 AND s.fork_seq >= $3)"         \
            " DELETE FROM @record r USING shows WHERE r.tenant = $1 AND r.session = shows.id"      \
            " AND r.kind IN ($4, $5)")                                                             \
    X(BLOB_REF_DROP_MESSAGE,                                                                       \
            "WITH gone AS (SELECT DISTINCT r.hash FROM @blob_ref r CROSS JOIN @message q"          \
            " WHERE r.tenant = $1 AND r.session = $2"                                              \
            " AND r.seq BETWEEN $3::bigint - $4 AND $3"                                            \
            " AND q.tenant = $1 AND q.session = $2 AND q.seq = $3"                                 \
            " AND position(convert_to(encode(r.hash, 'hex'), 'UTF8') IN q.body) > 0"               \
            " AND NOT EXISTS (SELECT 1 FROM @blob_ref o JOIN @message m ON m.tenant = o.tenant"    \
            " AND m.session = o.session AND m.seq BETWEEN o.seq AND o.seq + $4"                    \
            " WHERE o.tenant = $1 AND o.session = $2 AND o.hash = r.hash AND m.seq <> $3"          \
            " AND NOT m.is_text"                                                                   \
            " AND position(convert_to(encode(r.hash, 'hex'), 'UTF8') IN m.body) > 0))"             \
            " DELETE FROM @blob_ref d USING gone WHERE d.tenant = $1 AND d.session = $2"           \
            " AND d.hash = gone.hash RETURNING d.hash")                                            \
    /* Marks: pk. */                                                                               \
    X(MARK_HIDING,                                                                                 \
            "SELECT " PAL_POSTGRES_MARK_COLUMNS " FROM @mark m WHERE m.tenant = $1"                \
            " AND m.session = $2 AND m.number BETWEEN $3 AND $4 AND m.is_hiding"                   \
            " ORDER BY m.number")                                                                  \
    X(MARK_BRIEF,                                                                                  \
            "SELECT " PAL_POSTGRES_MARK_COLUMNS " FROM @mark m WHERE m.tenant = $1"                \
            " AND m.session = $2 AND m.number BETWEEN $3 AND $4 ORDER BY m.number")                \
    X(MARK_WHOLE,                                                                                  \
            "SELECT " PAL_POSTGRES_MARK_COLUMNS ", m.body FROM @mark m WHERE m.tenant = $1"        \
            " AND m.session = $2 AND m.number BETWEEN $3 AND $4 ORDER BY m.number")                \
    X(MARK_AHEAD,                                                                                  \
            "SELECT " PAL_POSTGRES_MARK_COLUMNS ", m.body FROM @mark m WHERE m.tenant = $1"        \
            " AND m.session = $2 ORDER BY m.number DESC LIMIT $3")                                 \
    X(MARK_LOAD,                                                                                   \
            "SELECT " PAL_POSTGRES_MARK_COLUMNS ", m.tenant, m.session"                            \
            " FROM unnest($1::int8[], $2::uuid[]) u(t, s)"                                         \
            " JOIN @mark m ON m.tenant = u.t AND m.session = u.s ORDER BY m.number")               \
    X(MARK_ADD,                                                                                    \
            "INSERT INTO @mark(tenant, session, number, seq, through_seq, target, created_at,"     \
            " kind, is_hiding, body) SELECT * FROM unnest($1::int8[], $2::uuid[], $3::int8[],"     \
            " $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::bool[],"             \
            " $10::bytea[])")                                                                      \
    X(MARK_DROP,                                                                                   \
            "DELETE FROM @mark WHERE tenant = $1 AND session = $2 AND (seq > $3 OR $3 = 0)")       \
    /* Blobs: pk, blob_ref pk, blob_ref_session. */                                                \
    X(BLOB_SIZE, "SELECT size FROM @blob WHERE tenant = $1 AND hash = $2")                         \
    X(BLOB_GET,                                                                                    \
            "SELECT b.size, b.media_type, p.data FROM @blob b LEFT JOIN @blob_part p"              \
            " ON p.tenant = b.tenant AND p.hash = b.hash"                                          \
            " WHERE b.tenant = $1 AND b.hash = $2 ORDER BY p.part")                                \
    X(BLOB_LOAD,                                                                                   \
            "SELECT b.tenant, b.hash, b.created_at FROM unnest($1::int8[], $2::bytea[]) u(t, h)"   \
            " JOIN @blob b ON b.tenant = u.t AND b.hash = u.h FOR KEY SHARE OF b")                 \
    X(BLOB_ADD,                                                                                    \
            "INSERT INTO @blob(tenant, hash, size, created_at, media_type)"                        \
            " SELECT * FROM unnest($1::int8[], $2::bytea[], $3::int8[], $4::int8[], $5::text[])")  \
    /* BLOB_ADD for one blob that may exist. */                                                    \
    X(BLOB_AHEAD,                                                                                  \
            "INSERT INTO @blob(tenant, hash, size, created_at, media_type)"                        \
            " VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING")                                 \
    X(BLOB_PART_ADD,                                                                               \
            "INSERT INTO @blob_part(tenant, hash, part, data)"                                     \
            " SELECT * FROM unnest($1::int8[], $2::bytea[], $3::int8[], $4::bytea[])")             \
    X(BLOB_TOUCH,                                                                                  \
            "UPDATE @blob b SET created_at = u.at FROM unnest($1::int8[], $2::bytea[],"            \
            " $3::int8[]) u(t, h, at) WHERE b.tenant = u.t AND b.hash = u.h")                      \
    X(BLOB_REF_ADD,                                                                                \
            "INSERT INTO @blob_ref(tenant, hash, session, seq) SELECT * FROM unnest($1::int8[],"   \
            " $2::bytea[], $3::uuid[], $4::int8[]) ON CONFLICT DO NOTHING")                        \
    X(BLOB_REF_DROP,                                                                               \
            "DELETE FROM @blob_ref WHERE tenant = $1 AND session = $2 AND seq > $3"                \
            " RETURNING hash")                                                                     \
    X(BLOB_DROP,                                                                                   \
            "DELETE FROM @blob b USING unnest($1::int8[], $2::bytea[]) u(t, h)"                    \
            " WHERE b.tenant = u.t AND b.hash = u.h AND NOT EXISTS (SELECT 1 FROM @blob_ref r"     \
            " WHERE r.tenant = b.tenant AND r.hash = b.hash) RETURNING b.tenant, b.hash")          \
    X(BLOB_PART_DROP,                                                                              \
            "DELETE FROM @blob_part p USING unnest($1::int8[], $2::bytea[]) u(t, h)"               \
            " WHERE p.tenant = u.t AND p.hash = u.h")                                              \
    /* blob_created. */                                                                            \
    X(BLOB_UNUSED,                                                                                 \
            "SELECT b.tenant, b.hash FROM @blob b WHERE b.created_at < $1 AND NOT EXISTS"          \
            " (SELECT 1 FROM @blob_ref r WHERE r.tenant = b.tenant AND r.hash = b.hash)"           \
            " ORDER BY b.created_at LIMIT $2 FOR UPDATE OF b SKIP LOCKED")                         \
    /* Inbox: pk. */                                                                               \
    X(INBOX_LIST,                                                                                  \
            "SELECT item, client_id, delivery, body, created_at FROM @inbox"                       \
            " WHERE tenant = $1 AND session = $2 ORDER BY number")                                 \
    X(INBOX_OWNERS,                                                                                \
            "SELECT t.name, i.session FROM (SELECT DISTINCT tenant, session FROM @inbox) i"        \
            " JOIN @head h ON h.tenant = i.tenant AND h.session = i.session"                       \
            " JOIN @tenant t ON t.tenant = i.tenant"                                               \
            " WHERE (i.session, t.name) > ($1::uuid, $2::text) AND h.state + 0 = 1"                \
            " AND (h.expires_at IS NULL OR h.expires_at >= $3)"                                    \
            " ORDER BY i.session, t.name LIMIT $4")                                                \
    X(INBOX_LOAD,                                                                                  \
            "SELECT i.tenant, i.session, i.number, i.item, i.client_id, i.delivery, i.body,"       \
            " i.created_at FROM unnest($1::int8[], $2::uuid[]) u(t, s)"                            \
            " JOIN @inbox i ON i.tenant = u.t AND i.session = u.s"                                 \
            " ORDER BY i.tenant, i.session, i.number")                                             \
    X(INBOX_ADD,                                                                                   \
            "INSERT INTO @inbox(tenant, session, number, item, created_at, client_id, delivery,"   \
            " body) SELECT * FROM unnest($1::int8[], $2::uuid[], $3::int8[], $4::uuid[],"          \
            " $5::int8[], $6::text[], $7::text[], $8::bytea[])")                                   \
    X(INBOX_DROP,                                                                                  \
            "DELETE FROM @inbox i USING unnest($1::int8[], $2::uuid[], $3::int8[]) u(t, s, n)"     \
            " WHERE i.tenant = u.t AND i.session = u.s AND i.number = u.n")                        \
    X(INBOX_CLEAR, "DELETE FROM @inbox WHERE tenant = $1 AND session = $2")                        \
    /* Leases: head pk. */                                                                         \
    X(LEASE_FIND,                                                                                  \
            "SELECT owner, fence, lease_until, lease_ttl FROM @head"                               \
            " WHERE tenant = $1 AND session = $2 AND fence > 0")                                   \
    /* Ledger: ledger_request, ledger_session, ledger_turn, ledger_time, ledger_hour pk. */        \
    X(LEDGER_LOAD,                                                                                 \
            "SELECT l.tenant, l.request_id FROM unnest($1::int8[], $2::text[]) u(t, r)"            \
            " JOIN @ledger l ON l.tenant = u.t AND l.request_id = u.r")                            \
    X(LEDGER_ADD,                                                                                  \
            "INSERT INTO @ledger(tenant, id, session, created_at, input, cache_read, cache_write," \
            " output, reasoning, cost_micros, agent, request_id, turn_id, purpose, provider,"      \
            " model, price_version) SELECT * FROM unnest($1::int8[], $2::uuid[], $3::uuid[],"      \
            " $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[],"             \
            " $10::int8[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[],"       \
            " $16::text[], $17::text[])")                                                          \
    X(LEDGER_HOUR_ADD,                                                                             \
            "INSERT INTO @ledger_hour(tenant, agent, hour, slot, calls, input, cache_read,"        \
            " cache_write, output, reasoning, cost_micros) SELECT t, a.agent, hour, $10,"          \
            " count(*), " PAL_POSTGRES_LEDGER_SUMS " FROM unnest($1::int8[], $2::text[],"          \
            " $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[])" \
            " u(t, agent, hour, input, cache_read, cache_write, output, reasoning, cost_micros)"   \
            " CROSS JOIN LATERAL (SELECT '' UNION SELECT u.agent WHERE u.agent IS NOT NULL)"       \
            " a(agent) GROUP BY t, a.agent, hour ORDER BY t, a.agent, hour"                        \
            PAL_POSTGRES_HOUR_CONFLICT)                                                            \
    /* Complete hours, and the rows before and after them. */                                      \
    X(LEDGER_SUM,                                                                                  \
            "SELECT " PAL_POSTGRES_SUM("calls") ", " PAL_POSTGRES_LEDGER_SUMS " FROM"              \
            " (SELECT calls, input, cache_read, cache_write, output, reasoning, cost_micros"       \
            "  FROM @ledger_hour WHERE tenant = $1 AND agent = $2 AND hour >= $3 AND hour < $4"    \
            "  UNION ALL SELECT 1, input, cache_read, cache_write, output, reasoning, cost_micros" \
            "  FROM @ledger WHERE tenant = $1 AND ($2 = '' OR agent = $2)"                         \
            "  AND created_at >= $5 AND created_at < $6"                                           \
            "  UNION ALL SELECT 1, input, cache_read, cache_write, output, reasoning, cost_micros" \
            "  FROM @ledger WHERE tenant = $1 AND ($2 = '' OR agent = $2)"                         \
            "  AND created_at >= $7 AND created_at < $8) p")                                       \
    X(LEDGER_SUM_SESSION,                                                                          \
            "SELECT count(*), " PAL_POSTGRES_LEDGER_SUMS " FROM @ledger WHERE tenant = $1"         \
            " AND session = $6 AND ($2 = '' OR agent = $2) AND created_at + 0 >= $3"               \
            " AND created_at + 0 < $4 AND ($5::text IS NULL OR turn_id || '' = $5)")               \
    X(LEDGER_SUM_TURN,                                                                             \
            "SELECT count(*), " PAL_POSTGRES_LEDGER_SUMS " FROM @ledger WHERE tenant = $1"         \
            " AND turn_id = $5 AND ($2 = '' OR agent = $2) AND created_at + 0 >= $3"               \
            " AND created_at + 0 < $4 AND ($6::uuid IS NULL OR session = $6)")                     \
    X(LEDGER_LIST,                                                                                 \
            "SELECT " PAL_POSTGRES_LEDGER_COLUMNS " FROM @ledger l WHERE l.tenant = $1"            \
            " AND ($2 = '' OR l.agent = $2) AND l.created_at >= $3"                                \
            " AND (l.created_at, l.id) < ($4, $5)" PAL_POSTGRES_LEDGER_ORDER)                      \
    X(LEDGER_LIST_SESSION,                                                                         \
            "SELECT " PAL_POSTGRES_LEDGER_COLUMNS " FROM @ledger l WHERE l.tenant = $1"            \
            " AND l.session = $7 AND ($2 = '' OR l.agent = $2) AND l.created_at + 0 >= $3"         \
            " AND (l.created_at + 0, l.id) < ($4, $5)"                                             \
            " AND ($8::text IS NULL OR l.turn_id || '' = $8)" PAL_POSTGRES_LEDGER_ORDER)           \
    X(LEDGER_LIST_TURN,                                                                            \
            "SELECT " PAL_POSTGRES_LEDGER_COLUMNS " FROM @ledger l WHERE l.tenant = $1"            \
            " AND l.turn_id = $8 AND ($2 = '' OR l.agent = $2) AND l.created_at + 0 >= $3"         \
            " AND (l.created_at + 0, l.id) < ($4, $5)"                                             \
            " AND ($7::uuid IS NULL OR l.session = $7)" PAL_POSTGRES_LEDGER_ORDER)                 \
    X(LEDGER_FORGET,                                                                               \
            "UPDATE @ledger SET session = NULL, turn_id = NULL, request_id = NULL"                 \
            " WHERE tenant = $1 AND session = $2")                                                 \
    /* Records: pk, record_session, record_expiry. */                                              \
    X(RECORD_FIND,                                                                                 \
            "SELECT " PAL_POSTGRES_RECORD_COLUMNS " FROM @record r WHERE r.tenant = $1"            \
            " AND r.kind = $2 AND r.name = $3 AND (r.expires_at IS NULL OR r.expires_at > $4)")    \
    X(RECORD_UP,                                                                                   \
            "SELECT " PAL_POSTGRES_RECORD_COLUMNS " FROM @record r WHERE r.tenant = $1"            \
            " AND r.kind = $2 AND r.name > coalesce($3, '')"                                       \
            " AND (r.expires_at IS NULL OR r.expires_at > $4) ORDER BY r.name LIMIT $5")           \
    X(RECORD_DOWN,                                                                                 \
            "SELECT " PAL_POSTGRES_RECORD_COLUMNS " FROM @record r WHERE r.tenant = $1"            \
            " AND r.kind = $2 AND ($3::text IS NULL OR r.name < $3)"                               \
            " AND (r.expires_at IS NULL OR r.expires_at > $4) ORDER BY r.name DESC LIMIT $5")      \
    X(RECORD_SESSION_UP,                                                                           \
            "SELECT " PAL_POSTGRES_RECORD_COLUMNS " FROM @record r WHERE r.tenant = $1"            \
            " AND r.session = $6 AND r.kind = $2 AND r.name > coalesce($3, '')"                    \
            " AND (r.expires_at IS NULL OR r.expires_at > $4) ORDER BY r.name LIMIT $5")           \
    X(RECORD_SESSION_DOWN,                                                                         \
            "SELECT " PAL_POSTGRES_RECORD_COLUMNS " FROM @record r WHERE r.tenant = $1"            \
            " AND r.session = $6 AND r.kind = $2 AND ($3::text IS NULL OR r.name < $3)"            \
            " AND (r.expires_at IS NULL OR r.expires_at > $4) ORDER BY r.name DESC LIMIT $5")      \
    X(RECORD_LOAD,                                                                                 \
            "SELECT r.tenant, r.kind, r.name, r.session, r.version, r.created_at, r.updated_at,"   \
            " r.expires_at FROM unnest($1::int8[], $2::text[], $3::text[]) u(t, k, n)"             \
            " JOIN @record r ON r.tenant = u.t AND r.kind = u.k AND r.name = u.n FOR UPDATE OF r") \
    X(RECORD_ADD,                                                                                  \
            "INSERT INTO @record(tenant, kind, name, session, version, created_at, updated_at,"    \
            " expires_at, body) SELECT * FROM unnest($1::int8[], $2::text[], $3::text[],"          \
            " $4::uuid[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::bytea[])")           \
    X(RECORD_SET,                                                                                  \
            "UPDATE @record r SET session = u.session, version = u.version,"                       \
            " created_at = u.created_at, updated_at = u.updated_at, expires_at = u.expires_at,"    \
            " body = u.body FROM unnest($1::int8[], $2::text[], $3::text[], $4::uuid[],"           \
            " $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::bytea[])"                        \
            " u(t, k, n, session, version, created_at, updated_at, expires_at, body)"              \
            " WHERE r.tenant = u.t AND r.kind = u.k AND r.name = u.n")                             \
    X(RECORD_DROP,                                                                                 \
            "DELETE FROM @record r USING unnest($1::int8[], $2::text[], $3::text[]) u(t, k, n)"    \
            " WHERE r.tenant = u.t AND r.kind = u.k AND r.name = u.n")                             \
    X(RECORD_CLEAR, "DELETE FROM @record WHERE tenant = $1 AND session = $2")                      \
    X(RECORD_SWEEP,                                                                                \
            "WITH due AS (SELECT tenant, kind, name FROM @record WHERE expires_at <= $1"           \
            " ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED) DELETE FROM @record r"          \
            " USING due WHERE r.tenant = due.tenant AND r.kind = due.kind AND r.name = due.name")  \
    X(RECORD_DUE, "SELECT 1 FROM @record WHERE expires_at <= $1 LIMIT 1")                          \
    PAL_POSTGRES_INDEX_STATEMENTS(X)                                                               \
    PAL_POSTGRES_CHECK_STATEMENTS(X)                                                               \
    /* Everything, for a copy: blob pk, session pk, message_arrival, ledger pk, record pk. */      \
    X(EXPORT_BLOBS,                                                                                \
            "SELECT b.hash, b.created_at, " PAL_POSTGRES_TENANT_NAME("b") ", b.tenant"             \
            " FROM @blob b WHERE (b.tenant, b.hash) > ($1, $2)"                                    \
            " ORDER BY b.tenant, b.hash LIMIT $3")                                                 \
    X(EXPORT_SESSIONS,                                                                             \
            "SELECT " PAL_POSTGRES_SESSION_COLUMNS ", " PAL_POSTGRES_TENANT_NAME("x") ", x.tenant" \
            " FROM @session x JOIN @head h ON h.tenant = x.tenant AND h.session = x.session"       \
            " WHERE (x.tenant, x.session) > ($1, $2) ORDER BY x.tenant, x.session LIMIT $3")       \
    X(EXPORT_MESSAGES,                                                                             \
            "SELECT " PAL_POSTGRES_ROW_COLUMNS ", m.session, " PAL_POSTGRES_TENANT_NAME("m")       \
            ", m.tenant, m.pos FROM @message m WHERE (m.tenant, m.pos) > ($1, $2)"                 \
            " ORDER BY m.tenant, m.pos LIMIT $3")                                                  \
    X(EXPORT_LEDGER,                                                                               \
            "SELECT " PAL_POSTGRES_LEDGER_COLUMNS ", " PAL_POSTGRES_TENANT_NAME("l") ", l.tenant"  \
            " FROM @ledger l WHERE (l.tenant, l.id) > ($1, $2) ORDER BY l.tenant, l.id LIMIT $3")  \
    X(EXPORT_RECORDS,                                                                              \
            "SELECT " PAL_POSTGRES_RECORD_COLUMNS ", " PAL_POSTGRES_TENANT_NAME("r") ", r.tenant"  \
            " FROM @record r WHERE (r.tenant, r.kind, r.name) > ($1, $2, $3)"                      \
            " ORDER BY r.tenant, r.kind, r.name LIMIT $4")                                         \
    /* Counts, from samples of large tables. A tenant is internal if its name begins with a        \
     * control character. */                                                                       \
    X(STAT,                                                                                        \
            "SELECT h.active, h.trash, h.quarantined, m.messages, h.bytes, b.blobs, b.bytes,"      \
            " t.tenants, (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8"            \
            " FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace ="                          \
            " (SELECT relnamespace FROM pg_class WHERE oid = '@message'::regclass)),"              \
            " (" PAL_POSTGRES_SCALE("head") " > 1 OR " PAL_POSTGRES_SCALE("message") " > 1"        \
            " OR " PAL_POSTGRES_SCALE("blob") " > 1 OR " PAL_POSTGRES_SCALE("tenant") " > 1)::int" \
            " FROM (SELECT " PAL_POSTGRES_SCALED("count(*) FILTER (WHERE state = 1)", "head")      \
            " AS active, " PAL_POSTGRES_SCALED("count(*) FILTER (WHERE state = 2)", "head")        \
            " AS trash, " PAL_POSTGRES_SCALED("count(*) FILTER (WHERE state = 3)", "head")         \
            " AS quarantined, " PAL_POSTGRES_SCALED("coalesce(sum(bytes), 0)", "head")             \
            " AS bytes FROM " PAL_POSTGRES_SAMPLE("head") ") h,"                                   \
            " (SELECT " PAL_POSTGRES_SCALED("count(*)", "message")                                 \
            " AS messages FROM " PAL_POSTGRES_SAMPLE("message") ") m,"                             \
            " (SELECT " PAL_POSTGRES_SCALED("count(*)", "blob") " AS blobs, "                      \
            PAL_POSTGRES_SCALED("coalesce(sum(size), 0)", "blob")                                  \
            " AS bytes FROM " PAL_POSTGRES_SAMPLE("blob") ") b,"                                   \
            " (SELECT " PAL_POSTGRES_SCALED("count(*)", "tenant")                                  \
            " AS tenants FROM " PAL_POSTGRES_SAMPLE("tenant") " WHERE name >= ' ') t")

typedef enum pal_postgres_sql {
#define PAL_POSTGRES_ENUM(name, text) PAL_POSTGRES_##name,
    PAL_POSTGRES_STATEMENTS(PAL_POSTGRES_ENUM)
#undef PAL_POSTGRES_ENUM
            PAL_POSTGRES_COUNT
} pal_postgres_sql;

#endif
