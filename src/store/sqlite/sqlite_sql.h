/* sqlite_sql.h - connections and prepared statements.
 *
 * A statement is used as follows. Every step can fail; only the result of the end is checked:
 *
 *     pal_sql sql = pal_sql_start(conn, PAL_SQL_TENANT_FIND);
 *     pal_sql_bind_text(&sql, name);
 *     if (pal_sql_row(&sql))
 *         id = pal_sql_int(&sql, 0);
 *     return pal_sql_end(&sql, err);
 *
 * pal_sql_read() replaces pal_sql_start() for a read that consists of one statement: it takes a
 * connection from the pool, and the end of the statement returns the connection. */
#ifndef PAL_SQLITE_SQL_H
#define PAL_SQLITE_SQL_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "palaver/arena.h"
#include "palaver/error.h"
#include "palaver/id.h"
#include "palaver/limits.h"
#include "palaver/str.h"
#include "store/store_backend.h"

#define PAL_SQL_ROW_COLUMNS                                                                        \
    "m.seq, m.id, m.role, m.flags, m.tokens, m.created_at, m.client_id, m.body, m.turn"

#define PAL_SQL_SESSION_COLUMNS                                                                    \
    "s.id, s.uuid, h.state, coalesce(s.key, s.kept_key), s.aliases, s.title, p.text, a.text, "     \
    "s.scope, s.metadata, s.extra, s.parent_uuid, s.fork_seq, s.fork_mark, h.last_seq, "           \
    "h.mark_number, h.tokens, h.bytes, s.created_at, h.updated_at, s.expires_at, s.deleted_at, "   \
    "t.name, s.is_routed, s.alias_apart"

#define PAL_SQL_HEAD_JOINS                                                                         \
    " JOIN head h ON h.session = s.id"                                                             \
    " LEFT JOIN name p ON p.id = h.project LEFT JOIN name a ON a.id = h.agent "

#define PAL_SQL_SESSION_JOINS " JOIN tenant t ON t.id = s.tenant" PAL_SQL_HEAD_JOINS

#define PAL_SQL_HEAD_COLUMNS                                                                       \
    "s.id, s.tenant, h.state, h.last_seq, h.mark_number, s.expires_at, s.parent, s.fork_seq,"      \
    " coalesce((SELECT fence FROM lease WHERE session = s.id), 0)"

#define PAL_SQL_MARK_COLUMNS "number, kind, seq, through_seq, target, created_at"

#define PAL_SQL_LEDGER_NUMBERS "input, cache_read, cache_write, output, reasoning, cost_micros"

#define PAL_SQL_LEDGER_SUMS                                                                        \
    "palaver_sum(input), palaver_sum(cache_read), palaver_sum(cache_write), palaver_sum(output),"  \
    " palaver_sum(reasoning), palaver_sum(cost_micros)"

/* The columns from `created_at` on are read by pal_sqlite_ledger_read(). */
#define PAL_SQL_LEDGER_COLUMNS                                                                     \
    "l.created_at, " PAL_SQL_LEDGER_NUMBERS ", l.request_id, l.turn_id, l.purpose, l.provider,"    \
    " l.model, l.price_version, n.text"
#define PAL_SQL_LEDGER_SELECT                                                                      \
    "SELECT l.id, s.uuid, " PAL_SQL_LEDGER_COLUMNS " FROM ledger l"                                \
    " LEFT JOIN session s ON s.id = l.session LEFT JOIN name n ON n.id = l.agent"
#define PAL_SQL_LEDGER_ORDER " ORDER BY l.created_at DESC, l.id DESC LIMIT ?6"

/* The correct contents of the table ledger_hour. */
#define PAL_SQL_LEDGER_HOURS                                                                       \
    "SELECT tenant, 0, created_at / 3600000 AS hour, count(*), " PAL_SQL_LEDGER_SUMS               \
    " FROM ledger GROUP BY tenant, hour"                                                           \
    " UNION ALL SELECT tenant, agent, created_at / 3600000 AS hour, "                              \
    "count(*), " PAL_SQL_LEDGER_SUMS                                                               \
    " FROM ledger WHERE agent IS NOT NULL GROUP BY tenant, agent, hour"

#define PAL_SQL_RECORD_SELECT                                                                      \
    "SELECT r.kind, r.name, s.uuid, r.body, r.version, r.created_at, r.updated_at, r.expires_at"   \
    " FROM record r LEFT JOIN session s ON s.id = r.session"

/* Names are TEXT, and SQLite sorts every BLOB after TEXT. So an empty BLOB as the upper bound means
 * no bound. */
#define PAL_SQL_RECORD_PAGE(order, owner, sign)                                                    \
    PAL_SQL_RECORD_SELECT                                                                          \
            " WHERE " owner " AND r.kind = ?2 AND r.name " sign " ?3"                              \
            " AND (r.expires_at IS NULL OR r.expires_at > ?4) ORDER BY r.name " order " LIMIT ?5"

#define PAL_SQL_RECORD_IS_STRAY                                                                    \
    "session IS NOT NULL AND NOT EXISTS"                                                           \
    " (SELECT 1 FROM head h WHERE h.session = record.session AND h.state != 4)"

/* Passes each row to a function of sqlite_read.c, in the order of the index. The statement
 * returns a row only if that function has enough rows. The body is the first argument: only the
 * turn comes after it in a row, so SQLite parses nearly the whole header of the row at once. */
#define PAL_SQL_SCAN_COLUMNS_LEN 9
#define PAL_SQL_SCAN(order)                                                                        \
    "SELECT 1 FROM message m WHERE m.session = ?1 AND m.seq BETWEEN ?2 AND ?3"                     \
    " AND palaver_scan(m.body, m.id, m.role, m.flags, m.tokens, m.created_at, m.client_id, m.seq," \
    " m.turn)"                                                                                     \
    " ORDER BY m.seq " order

#define PAL_SQL_COUNTER_COLUMNS                                                                    \
    "active, trash, quarantined, messages, bytes, blobs, blob_bytes, tenants"

/* The correct row of the table counter. Tenants whose name begins with a control character are
 * internal; API keys are stored under one of them. */
#define PAL_SQL_COUNTED(before)                                                                    \
    "SELECT " before                                                                               \
    "(SELECT count(*) FROM head WHERE state = 1), (SELECT count(*) FROM head WHERE state = 2),"    \
    " (SELECT count(*) FROM head WHERE state = 3), (SELECT count(*) FROM message),"                \
    " (SELECT ifnull(sum(bytes), 0) FROM head), (SELECT count(*) FROM blob),"                      \
    " (SELECT ifnull(sum(size), 0) FROM blob),"                                                    \
    " (SELECT count(*) FROM tenant WHERE name >= ' ')"

/* Every statement, with its name. */
#define PAL_SQL_STATEMENTS(X)                                                                      \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(COMMIT, "COMMIT")                                                                            \
    X(ROLLBACK, "ROLLBACK")                                                                        \
    X(TENANT_FIND, "SELECT id FROM tenant WHERE name = ?1")                                        \
    X(TENANT_OTHER, "SELECT 1 FROM tenant WHERE id <> ?1 LIMIT 1")                                 \
    X(TENANT_ADD, "INSERT INTO tenant(name) VALUES (?1)")                                          \
    X(NAME_FIND, "SELECT id FROM name WHERE text = ?1")                                            \
    X(NAME_ADD, "INSERT INTO name(text) VALUES (?1)")                                              \
    /* Sessions. */                                                                                \
    X(HEAD_GET,                                                                                    \
            "SELECT " PAL_SQL_HEAD_COLUMNS " FROM session s JOIN head h ON h.session = s.id"       \
            " WHERE s.uuid = ?1 AND s.tenant = ?2")                                                \
    X(HEAD_GET_BY_HANDLE,                                                                          \
            "SELECT " PAL_SQL_HEAD_COLUMNS " FROM session s JOIN head h ON h.session = s.id"       \
            " WHERE s.id = ?1")                                                                    \
    X(HEAD_ADD,                                                                                    \
            "INSERT INTO head(session, tenant, state, project, agent, last_seq, mark_number,"      \
            " tokens, bytes, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, 0, ?7)")            \
    X(HEAD_TOUCH, "UPDATE head SET updated_at = ?2 WHERE session = ?1")                            \
    X(HEAD_STATE, "UPDATE head SET state = ?2 WHERE session = ?1")                                 \
    X(HEAD_APPENDED,                                                                               \
            "UPDATE head SET last_seq = ?2, tokens = tokens + ?3, bytes = bytes + ?4,"             \
            " updated_at = ifnull(?5, updated_at) WHERE session = ?1")                             \
    X(HEAD_MARKED,                                                                                 \
            "UPDATE head SET mark_number = ?2, updated_at = ifnull(?3, updated_at)"                \
            " WHERE session = ?1")                                                                 \
    X(HEAD_PROJECT, "UPDATE head SET project = ?2 WHERE session = ?1")                             \
    X(HEAD_AGENT, "UPDATE head SET agent = ?2 WHERE session = ?1")                                 \
    X(HEAD_ERASED,                                                                                 \
            "UPDATE head SET state = 4, project = NULL, agent = NULL, last_seq = ?2,"              \
            " (tokens, bytes) = (SELECT coalesce(sum(tokens), 0), "                                \
            " coalesce(sum(length(CAST(body AS BLOB))), 0)"                                        \
            " FROM message WHERE session = ?1) WHERE session = ?1")                                \
    X(HEAD_DROP, "DELETE FROM head WHERE session = ?1")                                            \
    X(SESSION_ADD,                                                                                 \
            "INSERT INTO session(uuid, tenant, expires_at, parent, fork_seq, fork_mark,"           \
            " created_at, is_routed, parent_uuid, key, title, aliases, alias_apart, scope,"        \
            " metadata, extra) VALUES"                                                             \
            " (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)")            \
    X(SESSION_UUID_TAKEN, "SELECT 1 FROM session WHERE uuid = ?1 AND tenant = ?2")                 \
    X(SESSION_BY_ID,                                                                               \
            "SELECT " PAL_SQL_SESSION_COLUMNS                                                      \
            " FROM tenant t JOIN session s ON s.tenant = t.id" PAL_SQL_HEAD_JOINS                  \
            "WHERE s.uuid = ?1 AND t.name = ?2")                                                   \
    X(SESSION_BY_KEY,                                                                              \
            "SELECT " PAL_SQL_SESSION_COLUMNS                                                      \
            " FROM tenant t JOIN session s ON s.tenant = t.id" PAL_SQL_HEAD_JOINS                  \
            "WHERE s.key = ?1 AND t.name = ?2")                                                    \
    X(SESSION_BY_ALIAS,                                                                            \
            "SELECT " PAL_SQL_SESSION_COLUMNS " FROM tenant t JOIN alias l ON l.tenant = t.id"     \
            " JOIN session s ON s.id = l.session" PAL_SQL_HEAD_JOINS                               \
            "WHERE l.alias = ?1 AND t.name = ?2")                                                  \
    X(SESSION_BY_HANDLE,                                                                           \
            "SELECT " PAL_SQL_SESSION_COLUMNS " FROM session s" PAL_SQL_SESSION_JOINS              \
            "WHERE s.id = ?1")                                                                     \
    X(SESSION_KEY_HOLDER,                                                                          \
            "SELECT id, expires_at, uuid FROM session WHERE tenant = ?1 AND key = ?2")             \
    X(SESSION_COUNT,                                                                               \
            "SELECT count(*) FROM (SELECT 1 FROM head WHERE tenant = ?1 AND state = 1 LIMIT ?2)")  \
    X(SESSION_COUNT_LIVE,                                                                          \
            "SELECT count(*) FROM (SELECT 1 FROM head h JOIN session s ON s.id = h.session"        \
            " WHERE h.tenant = ?1 AND h.state = 1"                                                 \
            " AND (s.expires_at IS NULL OR s.expires_at >= ?3) LIMIT ?2)")                         \
    X(SESSION_TRASH,                                                                               \
            "UPDATE session SET deleted_at = ?2, kept_key = key, key = NULL WHERE id = ?1")        \
    X(SESSION_RESTORE,                                                                             \
            "UPDATE session SET deleted_at = NULL, key = coalesce(key, kept_key),"                 \
            " kept_key = NULL, aliases = ?2, expires_at = ?3 WHERE id = ?1")                       \
    X(SESSION_NAMES,                                                                               \
            "SELECT coalesce(key, kept_key), aliases, is_routed, alias_apart"                      \
            " FROM session WHERE id = ?1")                                                         \
    X(SESSION_ADOPT,                                                                               \
            "UPDATE session SET parent = ?2, fork_seq = ?3, fork_mark = ?4, parent_uuid = ?5"      \
            " WHERE id = ?1")                                                                      \
    X(SESSION_ERASED,                                                                              \
            "UPDATE session SET key = NULL, kept_key = NULL, title = NULL, aliases = NULL,"        \
            " alias_apart = NULL, scope = NULL, metadata = NULL, extra = NULL,"                    \
            " expires_at = NULL, deleted_at = NULL"                                                \
            " WHERE id = ?1")                                                                      \
    X(SESSION_DROP, "DELETE FROM session WHERE id = ?1")                                           \
    X(SESSION_COPIED,                                                                              \
            "UPDATE session SET key = iif(?4, ?2, NULL), kept_key = iif(?4, NULL, ?2),"            \
            " deleted_at = ?3 WHERE id = ?1")                                                      \
    X(SESSION_SET_TITLE, "UPDATE session SET title = ?2 WHERE id = ?1")                            \
    X(SESSION_SET_METADATA, "UPDATE session SET metadata = ?2 WHERE id = ?1")                      \
    X(SESSION_SET_SCOPE, "UPDATE session SET scope = ?2 WHERE id = ?1")                            \
    X(SESSION_SET_KEY, "UPDATE session SET key = ?2 WHERE id = ?1")                                \
    X(SESSION_SET_ALIASES,                                                                         \
            "UPDATE session SET aliases = ?2, is_routed = ?3, alias_apart = ?4 WHERE id = ?1")     \
    X(SESSION_SET_EXPIRY, "UPDATE session SET expires_at = ?2 WHERE id = ?1")                      \
    X(SESSION_SHARED, "SELECT max(fork_seq) FROM session WHERE parent = ?1")                       \
    X(SESSION_EXPIRED,                                                                             \
            "SELECT s.id FROM session s JOIN head h ON h.session = s.id"                           \
            " WHERE s.expires_at < ?1 AND h.state = 1 ORDER BY s.expires_at LIMIT 1")              \
    X(SESSION_STALE,                                                                               \
            "SELECT s.id FROM session s JOIN head h ON h.session = s.id"                           \
            " WHERE s.deleted_at < ?1 AND h.state = 2 ORDER BY s.deleted_at LIMIT 1")              \
    X(LIST_RECENT,                                                                                 \
            "SELECT session FROM head WHERE tenant = ?1 AND state = ?2"                            \
            " AND (updated_at, session) < (?3, ?4) AND updated_at >= ?5"                           \
            " ORDER BY updated_at DESC, session DESC")                                             \
    X(LIST_PROJECT,                                                                                \
            "SELECT session FROM head WHERE tenant = ?1 AND state = ?2 AND project = ?6"           \
            " AND (updated_at, session) < (?3, ?4) AND updated_at >= ?5"                           \
            " ORDER BY updated_at DESC, session DESC")                                             \
    X(LIST_AGENT,                                                                                  \
            "SELECT session FROM head WHERE tenant = ?1 AND state = ?2 AND agent = ?6"             \
            " AND (updated_at, session) < (?3, ?4) AND updated_at >= ?5"                           \
            " ORDER BY updated_at DESC, session DESC")                                             \
    X(ALIAS_HOLDER,                                                                                \
            "SELECT s.id, s.expires_at, s.uuid FROM alias l JOIN session s ON s.id = l.session"    \
            " WHERE l.tenant = ?1 AND l.alias = ?2")                                               \
    X(ALIAS_ADD, "INSERT OR IGNORE INTO alias(tenant, alias, session) VALUES (?1, ?2, ?3)")        \
    X(ALIAS_CLEAR, "DELETE FROM alias WHERE session = ?1")                                         \
    /* The contents of sessions. */                                                                \
    X(MESSAGE_ADD,                                                                                 \
            "INSERT INTO message(session, seq, id, role, flags, tokens, created_at, client_id,"    \
            " body, turn) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")                       \
    X(MESSAGE_BY_CLIENT,                                                                           \
            "SELECT " PAL_SQL_ROW_COLUMNS " FROM message m WHERE m.session = ?1"                   \
            " AND m.client_id = ?2")                                                               \
    X(MESSAGE_ID_TAKEN,                                                                            \
            "SELECT 1 FROM message m CROSS JOIN session s ON s.id = m.session"                     \
            " WHERE m.id = ?1 AND s.tenant = ?2")                                                  \
    X(MESSAGE_BY_ID,                                                                               \
            "SELECT " PAL_SQL_ROW_COLUMNS ", s.uuid FROM message m"                                \
            " JOIN session s ON s.id = m.session JOIN head h ON h.session = s.id"                  \
            " JOIN tenant t ON t.id = s.tenant"                                                    \
            " WHERE m.id = ?1 AND t.name = ?2 AND h.state != 4")                                   \
    X(MESSAGE_UP,                                                                                  \
            "SELECT " PAL_SQL_ROW_COLUMNS " FROM message m WHERE m.session = ?1"                   \
            " AND m.seq BETWEEN ?2 AND ?3 ORDER BY m.seq")                                         \
    X(SCAN_UP, PAL_SQL_SCAN(""))                                                                   \
    X(SCAN_DOWN, PAL_SQL_SCAN("DESC"))                                                             \
    X(MESSAGE_DROP, "DELETE FROM message WHERE session = ?1 AND seq > ?2")                         \
    X(MESSAGE_SIZE,                                                                                \
            "SELECT pos, tokens, flags, length(CAST(body AS BLOB)) FROM message"                   \
            " WHERE session = ?1 AND seq = ?2")                                                    \
    X(MESSAGE_ERASE,                                                                               \
            "UPDATE message SET tokens = 0, flags = ?3, body = CAST(?4 AS BLOB)"                   \
            " WHERE session = ?1 AND seq = ?2")                                                    \
    X(HEAD_SHRINK,                                                                                 \
            "UPDATE head SET tokens = tokens - ?2, bytes = bytes - ?3 WHERE session = ?1")         \
    X(MARK_ERASE,                                                                                  \
            "WITH RECURSIVE shows(id) AS (SELECT ?1 UNION SELECT s.id FROM session s"              \
            " JOIN shows ON s.parent = shows.id WHERE s.fork_seq >= ?2)"                           \
            " UPDATE mark SET body = NULL, target = ?3 WHERE session IN (SELECT id FROM shows)"    \
            " AND kind = 3 AND seq >= ?2 AND target = 0")                                          \
    X(RECORD_ERASE,                                                                                \
            "WITH RECURSIVE shows(id) AS (SELECT ?1 UNION SELECT s.id FROM session s"              \
            " JOIN shows ON s.parent = shows.id WHERE s.fork_seq >= ?2)"                           \
            " DELETE FROM record WHERE session IN (SELECT id FROM shows) AND kind IN (?3, ?4)")    \
    X(BLOB_REF_DROP_MESSAGE,                                                                       \
            "DELETE FROM blob_ref WHERE session = ?1 AND blob IN (SELECT r.blob FROM blob_ref r"   \
            " JOIN blob b ON b.id = r.blob WHERE r.session = ?1 AND r.seq BETWEEN ?2 - ?3 AND ?2"  \
            " AND instr((SELECT CAST(body AS BLOB) FROM message WHERE session = ?1 AND seq = ?2)," \
            " CAST(lower(hex(b.hash)) AS BLOB)) > 0 AND NOT EXISTS (SELECT 1 FROM blob_ref o"      \
            " JOIN message m ON m.session = o.session AND m.seq BETWEEN o.seq AND o.seq + ?3"      \
            " WHERE o.blob = r.blob AND o.session = ?1 AND m.seq <> ?2"                            \
            " AND typeof(m.body) = 'blob'"                                                         \
            " AND instr(m.body, CAST(lower(hex(b.hash)) AS BLOB)) > 0)) RETURNING blob")           \
    X(BLOB_DROP_ONE,                                                                               \
            "DELETE FROM blob WHERE id = ?1"                                                       \
            " AND NOT EXISTS (SELECT 1 FROM blob_ref r WHERE r.blob = blob.id) RETURNING size")    \
    X(MARK_ADD,                                                                                    \
            "INSERT INTO mark(session, number, kind, seq, through_seq, target, created_at, body)"  \
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")                                            \
    X(MARK_LIST,                                                                                   \
            "SELECT " PAL_SQL_MARK_COLUMNS ", body FROM mark"                                      \
            " WHERE session = ?1 AND number BETWEEN ?2 AND ?3 ORDER BY number")                    \
    /* The plus signs make SQLite use the index mark_kind, which contains no bodies. */            \
    X(MARK_LIST_BRIEF,                                                                             \
            "SELECT " PAL_SQL_MARK_COLUMNS " FROM mark WHERE session = ?1"                         \
            " AND kind >= 0 AND +number BETWEEN ?2 AND ?3 ORDER BY +number")                       \
    X(MARK_LIST_HIDING,                                                                            \
            "SELECT " PAL_SQL_MARK_COLUMNS " FROM mark WHERE session = ?1"                         \
            " AND kind IN (1, 2, 7, 9) AND +number BETWEEN ?2 AND ?3 ORDER BY +number")            \
    X(MARK_DROP, "DELETE FROM mark WHERE session = ?1 AND (seq > ?2 OR ?2 = 0)")                   \
    X(BLOB_FIND, "SELECT id FROM blob WHERE tenant = ?1 AND hash = ?2")                            \
    X(BLOB_TOUCH, "UPDATE blob SET created_at = ?2 WHERE id = ?1")                                 \
    X(BLOB_ADD,                                                                                    \
            "INSERT INTO blob(tenant, hash, media_type, size, created_at)"                         \
            " VALUES (?1, ?2, ?3, ?4, ?5)")                                                        \
    X(BLOB_DATA_ADD, "INSERT INTO blob_data(blob, data) VALUES (?1, ?2)")                          \
    X(BLOB_REF_ADD, "INSERT OR IGNORE INTO blob_ref(blob, session, seq) VALUES (?1, ?2, ?3)")      \
    X(BLOB_GET,                                                                                    \
            "SELECT b.size, b.media_type, d.data FROM blob b JOIN blob_data d ON d.blob = b.id"    \
            " WHERE b.tenant = (SELECT id FROM tenant WHERE name = ?1) AND b.hash = ?2")           \
    X(BLOB_SIZE,                                                                                   \
            "SELECT size FROM blob"                                                                \
            " WHERE tenant = (SELECT id FROM tenant WHERE name = ?1) AND hash = ?2")               \
    X(BLOB_DROP_SESSION,                                                                           \
            "DELETE FROM blob WHERE id IN"                                                         \
            " (SELECT blob FROM blob_ref WHERE session = ?1 AND seq > ?2)"                         \
            " AND NOT EXISTS (SELECT 1 FROM blob_ref r WHERE r.blob = blob.id"                     \
            " AND NOT (r.session = ?1 AND r.seq > ?2)) RETURNING size")                            \
    X(BLOB_REF_DROP, "DELETE FROM blob_ref WHERE session = ?1 AND seq > ?2")                       \
    X(BLOB_DROP_UNUSED,                                                                            \
            "DELETE FROM blob WHERE created_at < ?1"                                               \
            " AND NOT EXISTS (SELECT 1 FROM blob_ref r WHERE r.blob = blob.id) RETURNING size")    \
    X(BLOB_DATA_DROP, "DELETE FROM blob_data WHERE blob NOT IN (SELECT id FROM blob)")             \
    /* Data of turns. */                                                                           \
    X(INBOX_BY_CLIENT,                                                                             \
            "SELECT uuid, delivery, body, created_at FROM inbox"                                   \
            " WHERE session = ?1 AND client_id = ?2")                                              \
    X(INBOX_COUNT, "SELECT count(*) FROM inbox WHERE session = ?1")                                \
    X(INBOX_ADD,                                                                                   \
            "INSERT INTO inbox(uuid, session, created_at, client_id, delivery, body, id)"          \
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6,"                                                     \
            " (SELECT ifnull(max(id), 0) + 1 FROM inbox WHERE session = ?2))")                     \
    X(INBOX_LIST,                                                                                  \
            "SELECT uuid, client_id, delivery, body, created_at FROM inbox"                        \
            " WHERE session = ?1 ORDER BY id")                                                     \
    X(INBOX_DROP, "DELETE FROM inbox WHERE session = ?1 AND uuid = ?2")                            \
    X(INBOX_CLEAR, "DELETE FROM inbox WHERE session = ?1")                                         \
    X(LEASE_GET, "SELECT owner, fence, expires_at, ttl_ms FROM lease WHERE session = ?1")          \
    X(LEASE_SET,                                                                                   \
            "INSERT INTO lease(session, owner, fence, expires_at, ttl_ms)"                         \
            " VALUES (?1, ?2, ?3, ?4, ?5)"                                                         \
            " ON CONFLICT(session) DO UPDATE SET owner = excluded.owner, fence = excluded.fence,"  \
            " expires_at = excluded.expires_at, ttl_ms = excluded.ttl_ms")                         \
    X(LEASE_CLEAR, "DELETE FROM lease WHERE session = ?1")                                         \
    X(LEDGER_FIND, "SELECT 1 FROM ledger WHERE tenant = ?1 AND request_id = ?2")                   \
    X(LEDGER_ADD,                                                                                  \
            "INSERT INTO ledger(tenant, session, created_at, input, cache_read, cache_write,"      \
            " output, reasoning, cost_micros, request_id, turn_id, purpose, provider, model,"      \
            " price_version, agent)"                                                               \
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)")     \
    X(LEDGER_HOUR_ADD,                                                                             \
            "INSERT INTO ledger_hour(tenant, agent, hour, calls, input, cache_read, cache_write,"  \
            " output, reasoning, cost_micros) VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, ?9)"      \
            " ON CONFLICT(tenant, agent, hour) DO UPDATE SET calls = calls + 1,"                   \
            " input = palaver_add(input, excluded.input),"                                         \
            " cache_read = palaver_add(cache_read, excluded.cache_read),"                          \
            " cache_write = palaver_add(cache_write, excluded.cache_write),"                       \
            " output = palaver_add(output, excluded.output),"                                      \
            " reasoning = palaver_add(reasoning, excluded.reasoning),"                             \
            " cost_micros = palaver_add(cost_micros, excluded.cost_micros)")                       \
    /* Complete hours, and the rows before and after them. */                                      \
    X(LEDGER_SUM,                                                                                  \
            "SELECT sum(calls), " PAL_SQL_LEDGER_SUMS " FROM"                                      \
            " (SELECT calls, " PAL_SQL_LEDGER_NUMBERS " FROM ledger_hour"                          \
            "  WHERE tenant = ?1 AND agent = ?2 AND hour >= ?3 AND hour < ?4"                      \
            "  UNION ALL SELECT 1, " PAL_SQL_LEDGER_NUMBERS " FROM ledger"                         \
            "  WHERE tenant = ?1 AND (?2 = 0 OR agent = ?2)"                                       \
            "  AND created_at >= ?5 AND created_at < ?6"                                           \
            "  UNION ALL SELECT 1, " PAL_SQL_LEDGER_NUMBERS " FROM ledger"                         \
            "  WHERE tenant = ?1 AND (?2 = 0 OR agent = ?2)"                                       \
            "  AND created_at >= ?7 AND created_at < ?8)")                                         \
    X(LEDGER_SUM_SESSION,                                                                          \
            "SELECT count(*), " PAL_SQL_LEDGER_SUMS " FROM ledger"                                 \
            " WHERE session = ?6 AND +tenant = ?1 AND (?2 = 0 OR agent = ?2)"                      \
            " AND +created_at >= ?3 AND +created_at < ?4 AND (?5 IS NULL OR +turn_id = ?5)")       \
    X(LEDGER_SUM_TURN,                                                                             \
            "SELECT count(*), " PAL_SQL_LEDGER_SUMS " FROM ledger"                                 \
            " WHERE tenant = ?1 AND turn_id = ?5 AND (?2 = 0 OR agent = ?2)"                       \
            " AND +created_at >= ?3 AND +created_at < ?4 AND (?6 = 0 OR +session = ?6)")           \
    /* For a file of version 1 or 2 that is opened read-only. */                                   \
    X(LEDGER_SUM_OLD,                                                                              \
            "SELECT count(*), " PAL_SQL_LEDGER_SUMS " FROM ledger"                                 \
            " WHERE tenant = ?1 AND ?2 = 0 AND created_at >= ?3 AND created_at < ?4"               \
            " AND (?5 IS NULL OR turn_id = ?5) AND (?6 = 0 OR session = ?6)")                      \
    X(LEDGER_LIST,                                                                                 \
            PAL_SQL_LEDGER_SELECT " WHERE l.tenant = ?1 AND (?2 = 0 OR l.agent = ?2)"              \
            " AND l.created_at >= ?3 AND (l.created_at, l.id) < (?4, ?5)" PAL_SQL_LEDGER_ORDER)    \
    X(LEDGER_LIST_SESSION,                                                                         \
            PAL_SQL_LEDGER_SELECT " WHERE l.session = ?7 AND +l.tenant = ?1"                       \
            " AND (?2 = 0 OR l.agent = ?2) AND +l.created_at >= ?3"                                \
            " AND (+l.created_at, l.id) < (?4, ?5) AND (?8 IS NULL OR +l.turn_id = ?8)"            \
            PAL_SQL_LEDGER_ORDER)                                                                  \
    X(LEDGER_LIST_TURN,                                                                            \
            PAL_SQL_LEDGER_SELECT " WHERE l.tenant = ?1 AND l.turn_id = ?8"                        \
            " AND (?2 = 0 OR l.agent = ?2) AND +l.created_at >= ?3"                                \
            " AND (+l.created_at, l.id) < (?4, ?5) AND (?7 = 0 OR +l.session = ?7)"                \
            PAL_SQL_LEDGER_ORDER)                                                                  \
    X(LEDGER_ERASE,                                                                                \
            "UPDATE ledger SET session = NULL, turn_id = NULL, request_id = NULL"                  \
            " WHERE session = ?1")                                                                 \
    /* Everything, for a copy: in the order of numbers. */                                         \
    X(EXPORT_BLOBS,                                                                                \
            "SELECT b.id, t.name, b.hash, b.created_at FROM blob b"                                \
            " CROSS JOIN tenant t ON t.id = b.tenant WHERE b.id > ?1 ORDER BY b.id")               \
    X(EXPORT_SESSIONS,                                                                             \
            "SELECT s.id, t.name, " PAL_SQL_SESSION_COLUMNS " FROM session s CROSS JOIN tenant t"  \
            " ON t.id = s.tenant" PAL_SQL_HEAD_JOINS "WHERE s.id > ?1 ORDER BY s.id")              \
    X(EXPORT_MESSAGES,                                                                             \
            "SELECT m.pos, t.name, s.uuid, " PAL_SQL_ROW_COLUMNS " FROM message m"                 \
            " CROSS JOIN session s ON s.id = m.session JOIN tenant t ON t.id = s.tenant"           \
            " WHERE m.pos > ?1 ORDER BY m.pos")                                                    \
    X(EXPORT_LEDGER,                                                                               \
            "SELECT l.id, t.name, s.uuid, " PAL_SQL_LEDGER_COLUMNS " FROM ledger l"                \
            " CROSS JOIN tenant t ON t.id = l.tenant LEFT JOIN session s ON s.id = l.session"      \
            " LEFT JOIN name n ON n.id = l.agent WHERE l.id > ?1 ORDER BY l.id")                   \
    X(EXPORT_RECORDS,                                                                              \
            "SELECT r.id, t.name, r.kind, r.name, s.uuid, r.body, r.version, r.created_at,"        \
            " r.updated_at, r.expires_at FROM record r CROSS JOIN tenant t ON t.id = r.tenant"     \
            " LEFT JOIN session s ON s.id = r.session WHERE r.id > ?1 ORDER BY r.id")              \
    X(INBOX_OWNERS,                                                                                \
            "SELECT t.name, s.uuid FROM (SELECT DISTINCT session FROM inbox) i"                    \
            " CROSS JOIN session s ON s.id = i.session JOIN head h ON h.session = s.id"            \
            " JOIN tenant t ON t.id = s.tenant WHERE (s.uuid, t.name) > (?1, ?4) AND h.state = 1"  \
            " AND (s.expires_at IS NULL OR s.expires_at >= ?2)"                                    \
            " ORDER BY s.uuid, t.name LIMIT ?3")                                                   \
    /* Records. */                                                                                 \
    X(RECORD_GET,                                                                                  \
            "SELECT id, version, created_at, expires_at FROM record"                               \
            " WHERE tenant = ?1 AND kind = ?2 AND name = ?3")                                      \
    X(RECORD_SET,                                                                                  \
            "INSERT INTO record(tenant, kind, name, session, version, created_at, updated_at,"     \
            " expires_at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"                       \
            " ON CONFLICT(tenant, kind, name) DO UPDATE SET session = excluded.session,"           \
            " version = excluded.version, created_at = excluded.created_at,"                       \
            " updated_at = excluded.updated_at, expires_at = excluded.expires_at,"                 \
            " body = excluded.body")                                                               \
    X(RECORD_DROP, "DELETE FROM record WHERE id = ?1")                                             \
    X(RECORD_CLEAR, "DELETE FROM record WHERE session = ?1")                                       \
    X(RECORD_SWEEP,                                                                                \
            "DELETE FROM record WHERE id IN"                                                       \
            " (SELECT id FROM record WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)")        \
    X(RECORD_DUE, "SELECT 1 FROM record WHERE expires_at <= ?1 LIMIT 1")                           \
    X(RECORD_FIND,                                                                                 \
            PAL_SQL_RECORD_SELECT                                                                  \
            " WHERE r.tenant = (SELECT id FROM tenant WHERE name = ?1)"                            \
            " AND r.kind = ?2 AND r.name = ?3"                                                     \
            " AND (r.expires_at IS NULL OR r.expires_at > ?4)")                                    \
    X(RECORD_UP,                                                                                   \
            PAL_SQL_RECORD_PAGE("", "r.tenant = (SELECT id FROM tenant WHERE name = ?1)", ">"))    \
    X(RECORD_DOWN,                                                                                 \
            PAL_SQL_RECORD_PAGE(                                                                   \
                    "DESC", "r.tenant = (SELECT id FROM tenant WHERE name = ?1)", "<"))            \
    X(RECORD_SESSION_UP, PAL_SQL_RECORD_PAGE("", "r.session = ?1", ">"))                           \
    X(RECORD_SESSION_DOWN, PAL_SQL_RECORD_PAGE("DESC", "r.session = ?1", "<"))                     \
    /* The search. */                                                                              \
    X(MESSAGE_NEWEST, "SELECT max(pos) FROM message")                                              \
    X(MESSAGE_POSITION, "SELECT pos FROM message WHERE session = ?1 AND seq = ?2")                 \
    X(SESSION_FORKS, "SELECT uuid FROM session WHERE parent = ?1 AND fork_seq >= ?2")              \
    X(SEARCH_ROWS,                                                                                 \
            "SELECT " PAL_SQL_ROW_COLUMNS ", m.pos, m.session, s.uuid"                             \
            " FROM message m CROSS JOIN session s ON s.id = m.session"                             \
            " WHERE m.pos BETWEEN ?1 AND ?2 AND s.tenant = ?3 ORDER BY m.pos DESC")                \
    /* Begins with the chunk that would contain the term. */                                       \
    X(SEARCH_TERM,                                                                                 \
            "SELECT chunk FROM search WHERE block = ?1 AND term >= (SELECT term FROM search"       \
            " WHERE block = ?1 AND term <= ?2 ORDER BY term DESC LIMIT 1) ORDER BY term")          \
    X(INDEX_ROWS,                                                                                  \
            "SELECT " PAL_SQL_ROW_COLUMNS ", m.pos, m.session, s.tenant"                           \
            " FROM message m LEFT JOIN session s ON s.id = m.session"                              \
            " WHERE m.pos BETWEEN ?1 AND ?2 ORDER BY m.pos")                                       \
    X(INDEX_POSITIONS, "SELECT pos FROM message WHERE session = ?1 AND seq > ?2 ORDER BY seq")     \
    X(INDEX_LIST, "SELECT block FROM search_block WHERE block >= ?1 ORDER BY block")               \
    X(INDEX_REACH, "SELECT blocks, groups_1, groups_2 FROM search_state WHERE id = 1")             \
    X(INDEX_REACH_SET,                                                                             \
            "UPDATE search_state SET blocks = ?1, groups_1 = ?2, groups_2 = ?3 WHERE id = 1")      \
    X(INDEX_GROUP, "SELECT block FROM search_group WHERE block = ?1")                              \
    X(INDEX_GROUPS,                                                                                \
            "SELECT block FROM search_group WHERE block BETWEEN ?1 AND ?2 ORDER BY block DESC")    \
    X(INDEX_GROUP_ADD, "INSERT INTO search_group(block) VALUES (?1)")                              \
    X(INDEX_GROUP_DROP, "DELETE FROM search_group WHERE block = ?1")                               \
    X(INDEX_WIDE,                                                                                  \
            "SELECT block FROM search_block WHERE block BETWEEN ?1 AND ?2 AND wide IS NOT NULL")   \
    X(INDEX_BLOCKS, "SELECT block, wide FROM search_block WHERE block <= ?1 ORDER BY block DESC")  \
    X(INDEX_BLOCK, "SELECT block, wide FROM search_block WHERE block = ?1")                        \
    X(INDEX_BLOCK_ADD, "INSERT INTO search_block(block, wide) VALUES (?1, ?2)")                    \
    X(INDEX_BLOCK_DROP, "DELETE FROM search_block WHERE block = ?1")                               \
    X(INDEX_CHUNKS, "SELECT term, chunk FROM search WHERE block = ?1 ORDER BY term")               \
    X(INDEX_ADD, "INSERT INTO search(block, term, chunk) VALUES (?1, ?2, ?3)")                     \
    X(INDEX_DROP, "DELETE FROM search WHERE block = ?1")                                           \
    X(INDEX_STRAY,                                                                                 \
            "SELECT block FROM search WHERE block NOT IN (SELECT block FROM search_block"          \
            " UNION ALL SELECT block FROM search_group) LIMIT 1")                                  \
    X(INDEX_ERASURES, "SELECT erasures FROM search_state WHERE id = 1")                            \
    X(INDEX_ERASED, "UPDATE search_state SET erasures = erasures + 1 WHERE id = 1")                \
    /* Maintenance. */                                                                             \
    X(COUNTER_GET, "SELECT " PAL_SQL_COUNTER_COLUMNS " FROM counter WHERE id = 1")                 \
    X(COUNTER_ADD,                                                                                 \
            "UPDATE counter SET active = active + ?1, trash = trash + ?2,"                         \
            " quarantined = quarantined + ?3, messages = messages + ?4, bytes = bytes + ?5,"       \
            " blobs = blobs + ?6, blob_bytes = blob_bytes + ?7, tenants = tenants + ?8"            \
            " WHERE id = 1")                                                                       \
    X(COUNTER_SET,                                                                                 \
            "INSERT OR REPLACE INTO counter(id, " PAL_SQL_COUNTER_COLUMNS                          \
            ") " PAL_SQL_COUNTED("1, "))                                                           \
    /* Counts all rows: for fsck, and for a file without the table counter. */                     \
    X(STAT_ALL, PAL_SQL_COUNTED(""))                                                               \
    X(CHECK_SESSIONS, "SELECT id, uuid FROM session WHERE id > ?1 ORDER BY id LIMIT 1")            \
    X(CHECK_TOTAL, "SELECT max(id) FROM session")                                                  \
    X(CHECK_COUNTS, "SELECT tokens, bytes FROM head WHERE session = ?1")                           \
    X(CHECK_ORPHANS,                                                                               \
            "SELECT count(*) FROM message m"                                                       \
            " WHERE NOT EXISTS (SELECT 1 FROM session s WHERE s.id = m.session)")                  \
    X(CHECK_RECORDS, "SELECT count(*) FROM record WHERE " PAL_SQL_RECORD_IS_STRAY)                 \
    X(CHECK_DROP_RECORDS, "DELETE FROM record WHERE " PAL_SQL_RECORD_IS_STRAY)                     \
    X(CHECK_LEDGER,                                                                                \
            "SELECT EXISTS (SELECT * FROM (" PAL_SQL_LEDGER_HOURS ")"                              \
            "  EXCEPT SELECT * FROM ledger_hour)"                                                  \
            " OR EXISTS (SELECT * FROM ledger_hour EXCEPT"                                         \
            "  SELECT * FROM (" PAL_SQL_LEDGER_HOURS "))")                                         \
    X(CHECK_CLEAR_HOURS, "DELETE FROM ledger_hour")                                                \
    X(CHECK_FILL_HOURS, "INSERT INTO ledger_hour " PAL_SQL_LEDGER_HOURS)                           \
    X(CHECK_ADD_HEAD,                                                                              \
            "INSERT INTO head SELECT id, tenant, 3, NULL, NULL, 0, 0, 0, 0, created_at"            \
            " FROM session WHERE id = ?1")                                                         \
    X(CHECK_BLOBS,                                                                                 \
            "SELECT b.id, b.hash, d.data FROM blob b LEFT JOIN blob_data d"                        \
            " ON d.blob = b.id WHERE b.id > ?1 ORDER BY b.id LIMIT 1")                             \
    X(CHECK_FIX_HEAD,                                                                              \
            "UPDATE head SET last_seq = ?2, tokens = ?3, bytes = ?4, mark_number ="                \
            " (SELECT coalesce(max(number), 0) FROM mark WHERE session = ?1) WHERE session = ?1")  \
    X(CHECK_MARKS, "SELECT coalesce(max(number), 0), count(*) FROM mark WHERE session = ?1")       \
    X(CHECK_QUARANTINE, "UPDATE head SET state = 3 WHERE session = ?1")

typedef enum pal_sql_id {
#define PAL_SQL_ENUM(name, text) PAL_SQL_##name,
    PAL_SQL_STATEMENTS(PAL_SQL_ENUM)
#undef PAL_SQL_ENUM
            PAL_SQL_COUNT
} pal_sql_id;

typedef struct pal_sqlite_heads pal_sqlite_heads;

/* The changes of the current transaction so far. */
typedef struct pal_sqlite_counts {
    int64_t active, trash, quarantined; /* numbers of sessions */
    int64_t messages, bytes;
    int64_t blobs, blob_bytes;
    int64_t tenants;
} pal_sqlite_counts;

typedef struct pal_sql_conn {
    sqlite3 *db;
    sqlite3_stmt *statements[PAL_SQL_COUNT]; /* prepared when first used */
    const char *path;                        /* used in messages; borrowed */
    uint32_t busy_timeout_ms;
    int64_t busy_since_us;
    void *scan;     /* used by sqlite_read.c: the receiver of the rows of a running scan */
    bool failed;    /* SQLite itself failed since this was last cleared: all writes of the
                       transaction are void */
    int64_t tenant; /* number of the tenant that was looked up last; 0 after a rollback */
    size_t tenant_len;
    char tenant_name[PAL_TENANT_LEN_MAX];
    pal_sqlite_heads *heads; /* used by sqlite_heads.c: the writer's cache; NULL until it is
                                first used */
    bool keeps_heads;        /* the running operation changes heads only by appending */
    pal_sqlite_counts counts; /* used by sqlite_counts.c: changes in this transaction */
} pal_sql_conn;

typedef struct pal_sqlite pal_sqlite;

/* A short read may get the writer's connection while that is idle: its pages are in memory, but
 * other connections must read them again after every commit. A long read must not use it, because
 * the next batch would have to wait. */
typedef enum pal_read_kind {
    PAL_READ_SHORT,
    PAL_READ_LONG,
} pal_read_kind;

typedef struct pal_sql {
    pal_sql_conn *conn;
    sqlite3_stmt *stmt;
    int next;             /* number of the next parameter */
    int code;             /* code of the first failed call, or SQLITE_OK */
    bool has_row;         /* the statement has returned a row */
    pal_sqlite *pool;     /* the end returns the connection there; NULL: it stays with the caller */
    pal_status not_taken; /* the pool gave no connection, and the error is already set */
} pal_sql;

/* Finalizes the statements and closes the connection. Accepts a connection that was never
 * opened. */
void pal_sql_close(pal_sql_conn *conn);

/* Sets a handler that waits for other processes, with growing random delays, up to
 * busy_timeout_ms. */
void pal_sql_set_busy_handler(pal_sql_conn *conn, uint32_t busy_timeout_ms);

/* Prepares a statement before it is needed. */
PAL_CHECKED pal_status pal_sql_prepare(pal_sql_conn *conn, pal_sql_id id, pal_error *err);

pal_sql pal_sql_start(pal_sql_conn *conn, pal_sql_id id);
/* Starts a statement on a connection of the pool. Blocks while all connections are taken. */
pal_sql pal_sql_read(pal_sqlite *pool, pal_read_kind kind, pal_sql_id id, pal_error *err);
void pal_sql_bind_int(pal_sql *sql, int64_t number);
void pal_sql_bind_count(pal_sql *sql, uint64_t count); /* INT64_MAX if it is larger */
void pal_sql_bind_int_or_null(pal_sql *sql, int64_t number); /* 0 becomes NULL */
/* Binds the new updated_at of the session. A copied session keeps the one that it has. */
void pal_sql_bind_updated_at(pal_sql *sql, const pal_work *work);
void pal_sql_bind_usage(pal_sql *sql, const pal_usage *usage); /* five numbers */
void pal_sql_bind_text(pal_sql *sql, pal_str text);          /* an empty text becomes NULL */
void pal_sql_bind_blob(pal_sql *sql, pal_str data);
/* Binds a TEXT value, even if it is empty, or a BLOB. The type distinguishes plain text
 * from JSON. */
void pal_sql_bind_body(pal_sql *sql, pal_str body, bool is_text);
void pal_sql_bind_id(pal_sql *sql, const pal_id *id); /* an empty id becomes NULL; not copied */

/* Returns true if there is a row. */
bool pal_sql_row(pal_sql *sql);
int64_t pal_sql_int(pal_sql *sql, int column);
/* Returns a text or blob, borrowed until the next row. If memory runs out, sql->code is set
 * immediately. */
pal_str pal_sql_text(pal_sql *sql, int column);
bool pal_sql_is_text(pal_sql *sql, int column);
pal_id pal_sql_uuid(pal_sql *sql, int column);

/* Releases the statement and returns the connection of pal_sql_read(). Returns the error of any
 * earlier step, or PAL_OK. */
PAL_CHECKED pal_status pal_sql_end(pal_sql *sql, pal_error *err);
/* Copies the text into the arena. */
pal_str pal_sql_copy(pal_sql *sql, int column, pal_arena *arena);
/* Ends a statement whose results were copied into the arena. Fails if the arena ran out of
 * memory. */
PAL_CHECKED pal_status pal_sql_end_copied(pal_sql *sql, pal_arena *arena, pal_error *err);
/* Ends a statement that looks for one row. Returns PAL_NOT_FOUND without a message if it returned
 * none. If results were copied, `arena` is the arena; otherwise NULL. */
PAL_CHECKED pal_status pal_sql_end_found(pal_sql *sql, pal_arena *arena, pal_error *err);
/* Runs a statement without results, and ends it. */
PAL_CHECKED pal_status pal_sql_run(pal_sql *sql, pal_error *err);

/* Runs a statement that has one integer parameter and no results. */
PAL_CHECKED pal_status pal_sql_run_int(
        pal_sql_conn *conn, pal_sql_id id, int64_t number, pal_error *err);

/* Runs plain SQL text that is used too rarely to be prepared. */
PAL_CHECKED pal_status pal_sql_exec(pal_sql_conn *conn, const char *text, pal_error *err);

/* Translates SQLite's code into a status and an error. */
pal_status pal_sql_failed(pal_sql_conn *conn, int code, pal_error *err);

#endif
