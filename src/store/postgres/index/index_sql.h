/* index_sql.h - the statements of the search index, a part of postgres_sql.h. */
#ifndef PAL_INDEX_SQL_H
#define PAL_INDEX_SQL_H

#define PAL_POSTGRES_SEARCH_COLUMNS                                                                \
    "t.tenant, t.indexed_pos, t.blocks, t.erasures, t.marks, t.is_wanted"

#define PAL_POSTGRES_INDEX_STATEMENTS(X)                                                           \
    /* The search index. Positions come from one sequence. All positions that were taken before    \
     * a snapshot are decided when no transaction runs that the snapshot saw running. */           \
    X(INDEX_POS, "SELECT last_value FROM @message_pos")                                            \
    X(INDEX_SNAPSHOT,                                                                              \
            "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8,"                          \
            " pg_snapshot_xmax(pg_current_snapshot())::text::int8")                                \
    /* search_tenant pk, search_wanted. */                                                         \
    X(INDEX_MARK,                                                                                  \
            "UPDATE @search_tenant SET marks = marks + 1, is_wanted = true WHERE tenant ="         \
            " (SELECT tenant FROM @search_tenant WHERE tenant = $1 FOR UPDATE SKIP LOCKED)")       \
    X(INDEX_STATE,                                                                                 \
            "SELECT " PAL_POSTGRES_SEARCH_COLUMNS " FROM @search_tenant t WHERE t.tenant = $1")    \
    X(INDEX_WANTED,                                                                                \
            "SELECT " PAL_POSTGRES_SEARCH_COLUMNS                                                  \
            " FROM @search_tenant t WHERE t.is_wanted AND t.tenant >= $1 ORDER BY t.tenant"        \
            " LIMIT 1")                                                                            \
    X(INDEX_DONE, "UPDATE @search_tenant SET is_wanted = false WHERE tenant = $1 AND marks = $2")  \
    X(INDEX_REACH, "UPDATE @search_tenant SET indexed_pos = $2, blocks = $3 WHERE tenant = $1")    \
    X(INDEX_ADD,                                                                                   \
            "INSERT INTO @search_tenant(tenant, indexed_pos, blocks, erasures, marks,"             \
            " is_wanted) VALUES ($1, 0, 0, 0, 0, false) ON CONFLICT DO NOTHING")                   \
    X(INDEX_LOCK,                                                                                  \
            "SELECT " PAL_POSTGRES_SEARCH_COLUMNS                                                  \
            " FROM @search_tenant t WHERE t.tenant = $1 FOR UPDATE SKIP LOCKED")                   \
    X(INDEX_ERASED,                                                                                \
            "INSERT INTO @search_tenant(tenant, indexed_pos, blocks, erasures, marks,"             \
            " is_wanted) VALUES ($1, 0, 0, 1, 1, true) ON CONFLICT (tenant) DO UPDATE SET"         \
            " erasures = search_tenant.erasures + 1, marks = search_tenant.marks + 1, is_wanted"   \
            " = true")                                                                             \
    /* search_block_missing, search_block pk. */                                                   \
    X(INDEX_MISSING,                                                                               \
            "SELECT level, block, first_pos, last_pos FROM @search_block WHERE tenant = $1 AND"    \
            " NOT is_built ORDER BY level, block LIMIT 1")                                         \
    X(INDEX_BLOCK,                                                                                 \
            "SELECT is_built FROM @search_block WHERE tenant = $1 AND level = $2 AND block = $3")  \
    X(INDEX_BLOCK_PUT,                                                                             \
            "INSERT INTO @search_block(tenant, level, block, is_built, first_pos, last_pos,"       \
            " positions, wide) VALUES ($1, $2, $3, true, $4, $5, $6, $7) ON CONFLICT (tenant,"     \
            " level, block) DO UPDATE SET is_built = true, positions = excluded.positions, wide"   \
            " = excluded.wide")                                                                    \
    X(INDEX_GROUP_ADD,                                                                             \
            "INSERT INTO @search_block(tenant, level, block, is_built, first_pos, last_pos,"       \
            " positions, wide) VALUES ($1, $2, $3, false, 0, 0, '', '') ON CONFLICT DO NOTHING")   \
    X(INDEX_CHILDREN,                                                                              \
            "SELECT block, is_built, wide FROM @search_block WHERE tenant = $1 AND level = $2"     \
            " AND block BETWEEN $3 AND $4 ORDER BY block")                                         \
    X(INDEX_BLOCKS,                                                                                \
            "SELECT block, is_built, first_pos, last_pos, positions, wide FROM @search_block"      \
            " WHERE tenant = $1 AND level = $2 AND block > $3 ORDER BY block LIMIT $4")            \
    X(INDEX_RESET,                                                                                 \
            "UPDATE @search_block SET is_built = false, positions = '', wide = '' WHERE tenant"    \
            " = $1 AND level = $2 AND block = ANY ($3::int8[])")                                   \
    /* The blocks of messages that are about to be erased: message pk, search_block_pos. */        \
    X(INDEX_BLOCK_AT,                                                                              \
            "SELECT b.block FROM @message m CROSS JOIN LATERAL (SELECT s.block FROM"               \
            " @search_block s WHERE s.tenant = $1 AND s.level = 0 AND s.last_pos >= m.pos ORDER"   \
            " BY s.last_pos LIMIT 1) b WHERE m.tenant = $1 AND m.session = $2 AND m.seq = $3")     \
    X(INDEX_BLOCKS_OF,                                                                             \
            "SELECT DISTINCT b.block FROM @message m CROSS JOIN LATERAL (SELECT s.block FROM"      \
            " @search_block s WHERE s.tenant = $1 AND s.level = 0 AND s.last_pos >= m.pos ORDER"   \
            " BY s.last_pos LIMIT 1) b WHERE m.tenant = $1 AND m.session = $2 AND m.seq > $3")     \
    /* message_arrival. Bodies that are too long for the index are not read. */                    \
    X(INDEX_END,                                                                                   \
            "SELECT pos FROM @message WHERE tenant = $1 AND pos > $2 AND pos <= $3 ORDER BY pos"   \
            " OFFSET $4 LIMIT 1")                                                                  \
    X(INDEX_ROWS,                                                                                  \
            "SELECT m.seq, m.id, m.role, m.flags, m.tokens, m.created_at, m.client_id,"            \
            " m.is_text, CASE WHEN octet_length(m.body) > $4 THEN '' ELSE m.body END, m.turn,"     \
            " m.pos, m.session, octet_length(m.body) > $4 FROM @message m WHERE m.tenant = $1"     \
            " AND m.pos > $2 AND m.pos <= $3 ORDER BY m.pos LIMIT $5")                             \
    /* search pk. */                                                                               \
    X(INDEX_CHUNKS,                                                                                \
            "SELECT term, chunk FROM @search WHERE tenant = $1 AND level = $2 AND block = $3"      \
            " ORDER BY term")                                                                      \
    X(INDEX_CHUNK_ADD,                                                                             \
            "INSERT INTO @search(tenant, level, block, term, chunk) SELECT $1, $2, $3, * FROM"     \
            " unnest($4::bytea[], $5::bytea[])")                                                   \
    X(INDEX_CHUNK_DROP,                                                                            \
            "DELETE FROM @search WHERE tenant = $1 AND level = $2 AND block = ANY ($3::int8[])")   \
    /* A search: search_tenant pk, search_block_pos, message pk, search_block pk, search pk,       \
     * message_arrival. */                                                                         \
    X(SEARCH_RANGE,                                                                                \
            "SELECT s.indexed_pos, s.blocks, coalesce((SELECT b.block FROM @search_block b"        \
            " WHERE b.tenant = $1 AND b.level = 0 AND b.last_pos < $2 ORDER BY b.last_pos DESC"    \
            " LIMIT 1), -1) + 1, coalesce((SELECT b.block FROM @search_block b WHERE b.tenant ="   \
            " $1 AND b.level = 0 AND b.last_pos >= $3 ORDER BY b.last_pos LIMIT 1), s.blocks -"    \
            " 1) FROM @search_tenant s WHERE s.tenant = $1")                                       \
    X(SEARCH_PIECES,                                                                               \
            "SELECT count(*), coalesce(min(m.pos), 0), coalesce(max(m.pos), 0) FROM"               \
            " unnest($2::uuid[], $3::int8[]) u(s, seq) JOIN @message m ON m.tenant = $1 AND"       \
            " m.session = u.s AND m.seq = u.seq")                                                  \
    X(SEARCH_AROUND,                                                                               \
            "SELECT coalesce((SELECT b.last_pos FROM @search_block b WHERE b.tenant = $1 AND"      \
            " b.level = 0 AND b.block < $2 ORDER BY b.block DESC LIMIT 1), 0), coalesce((SELECT"   \
            " b.first_pos FROM @search_block b WHERE b.tenant = $1 AND b.level = 0 AND b.block"    \
            " > $2 ORDER BY b.block LIMIT 1), $3)")                                                \
    /* The blocks and summaries, and for each term the chunks that can contain it: the one that    \
     * begins at or before the term, and those up to the end of a prefix. All of one snapshot. */  \
    X(SEARCH_LOOK,                                                                                 \
            "SELECT n.i, 0::int8, b.is_built, b.first_pos, b.last_pos, b.positions, b.wide FROM"   \
            " unnest($2::int8[], $3::int8[]) WITH ORDINALITY n(level, block, i) CROSS JOIN"        \
            " LATERAL (SELECT * FROM @search_block b WHERE b.tenant = $1 AND b.level = n.level"    \
            " AND b.block = n.block LIMIT 1) b UNION ALL SELECT n.i, t.i, true, 0, 0, c.chunk,"    \
            " NULL FROM unnest($2::int8[], $3::int8[]) WITH ORDINALITY n(level, block, i) CROSS"   \
            " JOIN unnest($4::bytea[], $5::bytea[], $6::int8[]) WITH ORDINALITY t(low, high,"      \
            " at, i) CROSS JOIN LATERAL (SELECT c.chunk FROM @search c WHERE c.tenant = $1 AND"    \
            " c.level = n.level AND c.block = n.block AND c.term <= t.high AND c.term >="          \
            " (SELECT f.term FROM @search f WHERE f.tenant = $1 AND f.level = n.level AND"         \
            " f.block = n.block AND f.term <= t.low ORDER BY f.term DESC LIMIT 1) ORDER BY"        \
            " c.term OFFSET 0) c WHERE t.at = 0 OR t.at = 1 AND n.level = 0 OR t.at = 2 AND"       \
            " n.level > 0")                                                                        \
    X(SEARCH_BLOCKS,                                                                               \
            "SELECT block, is_built, first_pos, last_pos, wide FROM @search_block WHERE tenant ="  \
            " $1 AND level = 0 ORDER BY block")                                                    \
    X(SEARCH_ROWS,                                                                                 \
            "SELECT " PAL_POSTGRES_ROW_COLUMNS                                                     \
            ", m.pos, m.session FROM unnest($2::int8[]) u(pos) JOIN @message m ON m.tenant = $1"   \
            " AND m.pos = u.pos ORDER BY m.pos DESC")

#endif
