/* check_sql.h - the statements of fsck, a part of postgres_sql.h. */
#ifndef PAL_CHECK_SQL_H
#define PAL_CHECK_SQL_H

#define PAL_POSTGRES_CHECK_COLUMNS                                                                 \
    "x.tenant, x.session, x.fork_seq, x.key IS NOT NULL, x.aliases, x.alias_apart,"                \
    " x.is_routed, h.state, h.last_seq, h.mark_number, h.tokens, h.bytes, h.minute,"               \
    " h.updated_at, h.expires_at, (SELECT m.seq FROM @message m WHERE m.tenant = x.tenant AND"     \
    " m.session = x.session ORDER BY m.seq DESC LIMIT 1), (SELECT k.number FROM @mark k WHERE"     \
    " k.tenant = x.tenant AND k.session = x.session ORDER BY k.number DESC LIMIT 1), (SELECT"      \
    " count(*) FROM @mark k WHERE k.tenant = x.tenant AND k.session = x.session), (SELECT"         \
    " p.last_seq FROM @head p WHERE p.tenant = x.tenant AND p.session = x.parent), (SELECT"        \
    " count(*) FROM @alias a WHERE a.tenant = x.tenant AND a.session = x.session)"

/* Goes from one session to the next, without reading the rows in between. */
#define PAL_POSTGRES_STRAY(table)                                                                  \
    "WITH RECURSIVE w AS ((SELECT r.tenant, r.session FROM @" table " r WHERE"                     \
    " (r.tenant, r.session) > ($1, $2) AND r.session IS NOT NULL"                                  \
    " ORDER BY r.tenant, r.session LIMIT 1)"                                                       \
    " UNION ALL SELECT n.tenant, n.session FROM w CROSS JOIN LATERAL"                              \
    " (SELECT r.tenant, r.session FROM @" table " r WHERE"                                         \
    " (r.tenant, r.session) > (w.tenant, w.session) AND r.session IS NOT NULL"                     \
    " ORDER BY r.tenant, r.session LIMIT 1) n)"                                                    \
    " SELECT w.tenant, w.session, (SELECT 1 FROM @session x WHERE x.tenant = w.tenant"             \
    " AND x.session = w.session LIMIT 1) IS NOT NULL FROM w LIMIT $3"

/* A sum of the ledger minus that by hour. A sum that has reached the largest number stays there,
 * and is not compared. */
#define PAL_POSTGRES_LEDGER_MINUS(column)                                                          \
    "CASE WHEN abs(coalesce(sum(u." column ") FILTER (WHERE u.side > 0), 0))"                      \
    " >= 9223372036854775807 THEN 0 ELSE "                                                         \
    PAL_POSTGRES_CAPPED("coalesce(sum(u." column " * u.side), 0)") " END AS " column

/* The sums that differ, from the hour $2 to before $3. */
#define PAL_POSTGRES_LEDGER_DIFFERENCE                                                             \
    "(SELECT * FROM (SELECT u.agent, u.hour, "                                                     \
    PAL_POSTGRES_LEDGER_MINUS("calls") ", "                                                        \
    PAL_POSTGRES_LEDGER_MINUS("input") ", "                                                        \
    PAL_POSTGRES_LEDGER_MINUS("cache_read") ", "                                                   \
    PAL_POSTGRES_LEDGER_MINUS("cache_write") ", "                                                  \
    PAL_POSTGRES_LEDGER_MINUS("output") ", "                                                       \
    PAL_POSTGRES_LEDGER_MINUS("reasoning") ", "                                                    \
    PAL_POSTGRES_LEDGER_MINUS("cost_micros") " FROM "                                              \
    "(SELECT a.agent, l.created_at / 3600000 AS hour, 1::numeric AS side, 1::int8 AS calls,"       \
    " l.input, l.cache_read, l.cache_write, l.output, l.reasoning, l.cost_micros FROM @ledger"     \
    " l CROSS JOIN LATERAL (SELECT '' UNION ALL SELECT l.agent WHERE l.agent <> '') a(agent)"      \
    " WHERE l.tenant = $1 AND l.created_at >= $2 * 3600000 AND l.created_at < $3 * 3600000"        \
    " UNION ALL SELECT s.agent, s.hour, -1, s.calls, s.input, s.cache_read, s.cache_write,"        \
    " s.output, s.reasoning, s.cost_micros FROM @ledger_hour s WHERE s.tenant = $1 AND s.hour"     \
    " >= $2 AND s.hour < $3)"                                                                      \
    " u GROUP BY u.agent, u.hour) z WHERE z.calls <> 0 OR z.input <> 0 OR z.cache_read <> 0 OR"    \
    " z.cache_write <> 0 OR z.output <> 0 OR z.reasoning <> 0 OR z.cost_micros <> 0)"

#define PAL_POSTGRES_CHECK_STATEMENTS(X)                                                           \
    /* fsck, in pages: tenant pk. */                                                               \
    X(CHECK_TENANTS,                                                                               \
            "SELECT tenant, name FROM @tenant WHERE tenant >= $1 ORDER BY tenant LIMIT $2")        \
    /* session pk, head pk; the last message, the marks and the aliases of each. */                \
    X(CHECK_SESSIONS,                                                                              \
            "SELECT " PAL_POSTGRES_CHECK_COLUMNS                                                   \
            " FROM @session x LEFT JOIN @head h ON h.tenant = x.tenant AND h.session ="            \
            " x.session WHERE (x.tenant, x.session) > ($1, $2) ORDER BY x.tenant, x.session"       \
            " LIMIT $3")                                                                           \
    X(CHECK_SESSION,                                                                               \
            "SELECT " PAL_POSTGRES_CHECK_COLUMNS                                                   \
            " FROM @session x LEFT JOIN @head h ON h.tenant = x.tenant AND h.session ="            \
            " x.session WHERE x.tenant = $1 AND x.session = $2")                                   \
    /* message pk. A page ends after $6 bytes. */                                                  \
    X(CHECK_MESSAGES,                                                                              \
            "SELECT " PAL_POSTGRES_ROW_COLUMNS                                                     \
            " FROM (SELECT p.*, sum(octet_length(p.body)) OVER (ORDER BY p.seq) -"                 \
            " octet_length(p.body) AS before FROM (SELECT * FROM @message p WHERE p.tenant = $1"   \
            " AND p.session = $2 AND p.seq > $3 AND p.seq <= $4 ORDER BY p.seq LIMIT $5) p) m"     \
            " WHERE m.before < $6 ORDER BY m.seq")                                                 \
    /* alias_session. */                                                                           \
    X(CHECK_ALIASES, "SELECT alias FROM @alias WHERE tenant = $1 AND session = $2")                \
    /* The sessions that a table has rows of, and whether they exist: pk of each table,            \
     * alias_session, record_session, blob_ref_session. */                                         \
    X(CHECK_STRAY_HEAD,                                                                            \
            PAL_POSTGRES_STRAY("head"))                                                            \
    X(CHECK_STRAY_MESSAGE,                                                                         \
            PAL_POSTGRES_STRAY("message"))                                                         \
    X(CHECK_STRAY_MARK,                                                                            \
            PAL_POSTGRES_STRAY("mark"))                                                            \
    X(CHECK_STRAY_INBOX,                                                                           \
            PAL_POSTGRES_STRAY("inbox"))                                                           \
    X(CHECK_STRAY_ALIAS,                                                                           \
            PAL_POSTGRES_STRAY("alias"))                                                           \
    X(CHECK_STRAY_RECORD,                                                                          \
            PAL_POSTGRES_STRAY("record"))                                                          \
    X(CHECK_STRAY_BLOB_REF,                                                                        \
            PAL_POSTGRES_STRAY("blob_ref"))                                                        \
    /* blob pk, blob_part pk, blob_ref pk. */                                                      \
    X(CHECK_BLOBS,                                                                                 \
            "SELECT b.tenant, b.hash, " PAL_POSTGRES_TENANT_NAME("b")                              \
            " FROM @blob b WHERE (b.tenant, b.hash) > ($1, $2) ORDER BY b.tenant, b.hash LIMIT"    \
            " $3")                                                                                 \
    X(CHECK_BLOB_PARTS,                                                                            \
            "SELECT p.tenant, p.hash, p.part, (SELECT 1 FROM @blob b WHERE b.tenant = p.tenant"    \
            " AND b.hash = p.hash LIMIT 1) IS NOT NULL FROM @blob_part p WHERE (p.tenant,"         \
            " p.hash, p.part) > ($1, $2, $3) ORDER BY p.tenant, p.hash, p.part LIMIT $4")          \
    X(CHECK_BLOB_REFS,                                                                             \
            "SELECT r.tenant, r.hash, r.session, r.seq, (SELECT 1 FROM @blob b WHERE b.tenant ="   \
            " r.tenant AND b.hash = r.hash LIMIT 1) IS NOT NULL, (SELECT 1 FROM @message m"        \
            " WHERE m.tenant = r.tenant AND m.session = r.session AND m.seq = r.seq LIMIT 1) IS"   \
            " NOT NULL FROM @blob_ref r WHERE (r.tenant, r.hash, r.session, r.seq) > ($1, $2,"     \
            " $3, $4) ORDER BY r.tenant, r.hash, r.session, r.seq LIMIT $5")                       \
    /* ledger_time, ledger_hour pk. */                                                             \
    X(CHECK_LEDGER_SPAN,                                                                           \
            "SELECT coalesce(least((SELECT created_at / 3600000 FROM @ledger WHERE tenant = $1"    \
            " ORDER BY created_at LIMIT 1), (SELECT min(hour) FROM @ledger_hour WHERE tenant ="    \
            " $1)), 0), coalesce(greatest((SELECT created_at / 3600000 FROM @ledger WHERE"         \
            " tenant = $1 ORDER BY created_at DESC LIMIT 1), (SELECT max(hour) FROM"               \
            " @ledger_hour WHERE tenant = $1)), -1)")                                              \
    X(CHECK_LEDGER,                                                                                \
            "SELECT d.agent, d.hour FROM " PAL_POSTGRES_LEDGER_DIFFERENCE " d LIMIT $4")           \
    X(CHECK_LEDGER_FIX,                                                                            \
            "INSERT INTO @ledger_hour(tenant, agent, hour, slot, calls, input, cache_read,"        \
            " cache_write, output, reasoning, cost_micros) SELECT $1, d.agent, d.hour, 0,"         \
            " d.calls, d.input, d.cache_read, d.cache_write, d.output, d.reasoning,"               \
            " d.cost_micros FROM " PAL_POSTGRES_LEDGER_DIFFERENCE " d "                            \
            PAL_POSTGRES_HOUR_CONFLICT)                                                            \
    /* The blocks that have chunks, and whether they exist: search pk, search_block pk. */         \
    X(CHECK_CHUNKS,                                                                                \
            "WITH RECURSIVE w AS ((SELECT c.tenant, c.level, c.block FROM @search c WHERE"         \
            " (c.tenant, c.level, c.block) > ($1, $2, $3) ORDER BY c.tenant, c.level, c.block"     \
            " LIMIT 1) UNION ALL SELECT n.tenant, n.level, n.block FROM w CROSS JOIN LATERAL"      \
            " (SELECT c.tenant, c.level, c.block FROM @search c WHERE (c.tenant, c.level,"         \
            " c.block) > (w.tenant, w.level, w.block) ORDER BY c.tenant, c.level, c.block LIMIT"   \
            " 1) n) SELECT w.tenant, w.level, w.block, (SELECT 1 FROM @search_block b WHERE"       \
            " b.tenant = w.tenant AND b.level = w.level AND b.block = w.block AND b.is_built"      \
            " LIMIT 1) IS NOT NULL FROM w LIMIT $4")                                               \
    /* Repairs. A head that was changed since is left alone: head pk. */                           \
    X(CHECK_FIX_HEAD,                                                                              \
            "UPDATE @head h SET last_seq = $3, tokens = $4, bytes = $5, minute ="                  \
            " least(greatest(h.updated_at / 60000, 0), 2147483647), mark_number ="                 \
            " coalesce((SELECT k.number FROM @mark k WHERE k.tenant = $1 AND k.session = $2"       \
            " ORDER BY k.number DESC LIMIT 1), 0) WHERE h.tenant = $1 AND h.session = $2 AND"      \
            " h.last_seq + 0 = $6 AND h.tokens = $7")                                              \
    X(CHECK_ADD_HEAD,                                                                              \
            "INSERT INTO @head(tenant, session, last_seq, mark_number, tokens, bytes,"             \
            " updated_at, batch, fence, lease_until, lease_ttl, minute, state) SELECT $1, $2,"     \
            " 0, 0, 0, 0, x.created_at, 0, 0, 0, 0, 0, 3 FROM @session x WHERE x.tenant = $1"      \
            " AND x.session = $2 ON CONFLICT DO NOTHING")                                          \
    X(CHECK_QUARANTINE, "UPDATE @head SET state = 3 WHERE tenant = $1 AND session = $2")           \
    /* search_block pk, search pk. */                                                              \
    X(CHECK_INDEX_DROP, "DELETE FROM @search_block WHERE tenant = $1")                             \
    X(CHECK_CHUNKS_DROP, "DELETE FROM @search WHERE tenant = $1")

#endif
