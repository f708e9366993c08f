/* test_postgres_index.c - the search index in PostgreSQL: blocks per tenant, their summaries, what
 * a search costs, erasures, writers that commit late, and damage. The server is that of
 * tools/pg-test. */
#include "postgres_store.h"

#include "store/postgres/index/index_postgres.h"

enum { ROWS = PAL_BLOCK_ROWS, WIDE_LEN = 300 << 10 };

static const pal_id anywhere;

static pal_engine *engine(void)
{
    return *pal_store_engine(test.store);
}

static uint64_t flights(void)
{
    return atomic_load(&((pal_postgres *)engine())->flights);
}

static bool count_row(const pal_found_row *found, void *user)
{
    (void)found;
    ++*(int *)user;
    return true;
}

/* Returns how many rows the backend reads for a search, and the number of flights. */
static int rows_for(const char *text, uint64_t *out_flights)
{
    pal_query query = {0};
    pal_row_search search = {.tenant = S("default"), .query = &query};
    uint64_t before = flights();
    int rows = 0;

    OK(pal_words_query_read(S(text), test.arena, &query, &test.err));
    OK(engine()->backend->row_search(engine(), &search, count_row, &rows, &test.err));
    *out_flights = flights() - before;
    return rows;
}

/* ---- Building ---- */

static void each_tenant_has_its_blocks(void)
{
    pal_id one, other, small;

    open_empty();
    one = session_of("default");
    other = session_of("other");
    small = session_of("small");
    for (int i = 0; i < 5; i++) {
        say_many(test.store, "default", one, 1 + i * 500, 500, "mine");
        say_many(test.store, "other", other, 1 + i * 300, 300, "theirs");
    }
    say_many(test.store, "small", small, 1, 10, "few");
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), 0);
    CHECK_EQ(ask("SELECT count(*) FROM search_tenant WHERE is_wanted"), 3);
    index_all();
    CHECK_EQ(ask("SELECT count(*) FROM search_tenant WHERE is_wanted"), 0);
    CHECK_EQ(ask("SELECT count(*) FROM search_block WHERE level = 0 AND is_built"), 3);
    CHECK_EQ(ask("SELECT count(*) FROM search_tenant WHERE blocks = 2"), 1);
    CHECK_EQ(ask("SELECT count(*) FROM search_tenant WHERE blocks = 1"), 1);
    CHECK_EQ(hits_of("n77"), 1);
    CHECK_EQ(hits_of("n2450"), 1);
    CHECK_EQ(hits_of("theirs"), 0);
    CHECK_EQ(hits_in("other", anywhere, "theirs"), 1000);
    CHECK_EQ(hits_in("other", anywhere, "n5"), 1);
    CHECK_EQ(hits_in("small", anywhere, "few"), 10);
    close_store();
}

/* A search builds the blocks of its own tenant. */
static void the_first_search_builds(void)
{
    pal_id one, other;

    open_empty();
    one = session_of("default");
    other = session_of("other");
    say_many(test.store, "default", one, 1, 2 * ROWS + 10, "mine");
    say_many(test.store, "other", other, 1, ROWS + 10, "theirs");
    CHECK_EQ(hits_of("n2050"), 1);
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), 2);
    close_store();
}

static void parts_can_be_added_bit_by_bit(void)
{
    bool more = false;
    pal_id session;

    open_empty();
    session = session_of("default");
    say_many(test.store, "default", session, 1, 5 * ROWS, "common");
    OK(pal_store_index(test.store, 2, &more, &test.err));
    CHECK(more);
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), 2);
    OK(pal_store_index(test.store, 100, &more, &test.err));
    CHECK(!more);
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), 5);
    CHECK_EQ(ask("SELECT blocks FROM search_tenant"), 5);
    CHECK_EQ(ask("SELECT indexed_pos - (SELECT max(pos) FROM message) FROM search_tenant"), 0);
    close_store();
}

/* A tenant is marked again after as many messages as a block has, and not for each append. */
static void a_tenant_is_marked_seldom(void)
{
    pal_id session;

    open_empty();
    session = session_of("default");
    say_many(test.store, "default", session, 1, 1, "common");
    CHECK_EQ(ask("SELECT marks FROM search_tenant"), 1);
    say_many(test.store, "default", session, 2, ROWS - 1, "common");
    CHECK_EQ(ask("SELECT marks FROM search_tenant"), 1);
    index_all();
    CHECK_EQ(ask("SELECT count(*) FROM search_tenant WHERE is_wanted"), 0);
    say_many(test.store, "default", session, ROWS + 1, 1, "common");
    CHECK_EQ(ask("SELECT marks FROM search_tenant WHERE is_wanted"), 2);
    close_store();
}

/* ---- Searching ---- */

static void all_words_are_found(void)
{
    pal_id session, other;
    bool found = true;

    open_empty();
    session = session_of("default");
    other = session_of("default");
    say_many(test.store, "default", session, 1, 10 * ROWS, "common");
    say_many(test.store, "default", other, 100001, 3 * ROWS, "theirs");
    say_many(test.store, "default", session, 10 * ROWS + 1, 7 * ROWS, "later");
    index_all();
    CHECK_EQ(ask("SELECT count(*) FROM search_block WHERE level = 1 AND is_built"), 1);
    for (int i = 1; i <= 17 * ROWS && found; i += 997) {
        char text[64];

        snprintf(text, sizeof text, "n%d", i);
        found = CHECK_EQ(hits_of(text), 1);
        found = found && CHECK_EQ(hits_in("default", session, text), 1);
        found = found && CHECK_EQ(hits_in("default", other, text), 0);
        snprintf(text, sizeof text, "\"n%d %s\"", i, i > 10 * ROWS ? "later" : "common");
        found = found && CHECK_EQ(hits_of(text), 1);
    }
    CHECK_EQ(hits_of("n1777*"), 1);
    CHECK_EQ(hits_of("n177*"), 11);
    CHECK_EQ(hits_in("default", other, "theirs n101000"), 1);
    CHECK_EQ(hits_in("default", other, "common"), 0);
    close_store();
}

/* The pages of a search continue each other, newest first, over blocks and messages without. */
static void pages_continue_each_other(void)
{
    pal_search_query search = {.tenant = S("default"), .text = S("common"), .limit = 700};
    pal_search_page hits = {0};
    uint64_t wanted = 3 * ROWS + 100;
    bool is_right = true;
    pal_id session;

    open_empty();
    session = session_of("default");
    say_many(test.store, "default", session, 1, (int)wanted, "common");
    do {
        OK(pal_store_search(test.store, &search, test.arena, &hits, &test.err));
        for (size_t i = 0; i < hits.len; i++)
            is_right = is_right && hits.items[i].seq == wanted--;
        search.cursor = hits.cursor;
    } while (hits.cursor.len > 0 && is_right);
    CHECK(is_right);
    CHECK_EQ(wanted, 0);
    close_store();
}

static void old_messages_cost_nothing(void)
{
    uint64_t few, many;
    pal_id session;

    open_empty();
    session = session_of("default");
    say_many(test.store, "default", session, 1, 4 * ROWS, "common");
    index_all();
    CHECK_EQ(hits_of("n7"), 1); /* prepares the statements */
    CHECK_EQ(rows_for("nowhere", &few), 0);
    CHECK_EQ(rows_for("n1000", &few), 1);
    say_many(test.store, "default", session, 4 * ROWS + 1, 32 * ROWS, "common");
    index_all();
    CHECK_EQ(ask("SELECT count(*) FROM search_block WHERE level = 1 AND is_built"), 2);
    CHECK_EQ(rows_for("nowhere", &many), 0);
    CHECK_THAT(many, <=, few + 2);
    CHECK_EQ(rows_for("n1000", &many), 1);
    CHECK_THAT(many, <=, few + 2);
    CHECK_EQ(rows_for("n20000 common", &many), 1);
    CHECK_THAT(many, <=, few + 2);
    close_store();
}

/* Every search reads a text that is too long for the index. */
static void long_texts_are_found(void)
{
    char *text = malloc(WIDE_LEN + 1);
    pal_part part = {.kind = PAL_PART_TEXT};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_id session;

    open_empty();
    session = session_of("default");
    memset(text, 'x', WIDE_LEN);
    memcpy(text + WIDE_LEN - 8, " needle ", 8);
    text[WIDE_LEN] = 0;
    part.text = S(text);
    say_many(test.store, "default", session, 1, 3000, "common");
    OK(pal_store_append(test.store, S(""), session, &message, 1, PAL_SEQ_ANY, &test.err));
    say_many(test.store, "default", session, 3001, 16 * ROWS, "common");
    index_all();
    CHECK_EQ(ask("SELECT count(*) FROM search_block WHERE level = 1 AND is_built"), 1);
    CHECK_EQ(ask("SELECT count(*) FROM search_block WHERE wide <> ''"), 1);
    CHECK_EQ(hits_of("needle"), 1);
    close_store();
    free(text);
}

/* ---- Erasing ---- */

static const char has_word[] =
        "SELECT count(*) FROM search WHERE position('zzgoneword'::bytea IN chunk) > 0";

static void erased_words_are_in_no_block(void)
{
    pal_id kept, gone;

    open_empty();
    kept = session_of("default");
    gone = session_of("default");
    say_many(test.store, "default", kept, 1, 5 * ROWS, "kept");
    say_many(test.store, "default", gone, 1, 10, "zzgoneword");
    say_many(test.store, "default", kept, 5 * ROWS + 1, 12 * ROWS, "kept");
    index_all();
    CHECK_EQ(hits_of("zzgoneword"), 10);
    CHECK_EQ(ask(has_word), 2); /* in the block and in its summary */
    OK(pal_store_erase(test.store, S(""), gone, NULL, &test.err));
    CHECK_EQ(ask(has_word), 0);
    CHECK_EQ(ask("SELECT count(*) FROM search_block WHERE NOT is_built"), 2);
    CHECK_EQ(ask("SELECT count(*) FROM search_tenant WHERE is_wanted"), 1);
    CHECK_EQ(hits_of("zzgoneword"), 0);
    CHECK_EQ(hits_of("n700"), 1);
    CHECK_EQ(hits_of("n5500"), 1);
    CHECK_EQ(ask("SELECT count(*) FROM search_block WHERE NOT is_built"), 0);
    CHECK_EQ(ask(has_word), 0);
    close_store();
}

static void expiry_removes_the_words(void)
{
    pal_session session = {.tenant = S("default")};
    pal_sweep_result swept;
    pal_id gone;

    open_empty();
    session.expires_at = pal_store_now_ms(engine()) + 3600000;
    OK(pal_store_create(test.store, &session, &gone, &test.err));
    say_many(test.store, "default", gone, 1, ROWS, "zzgoneword");
    index_all();
    CHECK_THAT(ask(has_word), >, 0);
    ask("UPDATE head SET expires_at = 1");
    OK(pal_store_sweep(test.store, 0, 100, &swept, &test.err));
    OK(pal_store_sweep(test.store, 0, 100, &swept, &test.err));
    CHECK_EQ(ask("SELECT count(*) FROM message"), 0);
    CHECK_EQ(ask("SELECT count(*) FROM search"), 0);
    index_all();
    CHECK_EQ(ask(has_word), 0);
    CHECK_EQ(ask("SELECT count(*) FROM search_block WHERE is_built"), 1);
    CHECK_EQ(hits_of("zzgoneword"), 0);
    close_store();
}

static void apply_part(pal_engine *to, const pal_index_part *part)
{
    pal_op op = {.status = PAL_OK};
    pal_work work = {.op = &op, .index = part};

    to->backend->apply(to, &work, 1);
    CHECK_STATUS(op.status, PAL_OK, &op.error);
}

static const pal_index_part *build_part(pal_engine *from)
{
    const pal_index_part *part = NULL;
    bool more;

    OK(from->backend->index_build(from, S("default"), test.arena, &part, &more, &test.err));
    return part;
}

/* A block that was read before an erasure is not written after it. */
static void an_erasure_stops_a_block(void)
{
    const pal_index_part *part;
    pal_store *another;
    pal_id kept, gone;

    open_empty();
    another = another_store();
    kept = session_of("default");
    gone = session_of("default");
    say_many(test.store, "default", gone, 1, 100, "zzgoneword");
    say_many(test.store, "default", kept, 1, 2 * ROWS, "zzkeptword");
    part = build_part(engine());
    CHECK(part);
    OK(pal_store_erase(another, S(""), gone, NULL, &test.err));
    apply_part(engine(), part);
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), 0);
    CHECK_EQ(ask("SELECT count(*) FROM search"), 0);
    part = build_part(engine());
    apply_part(engine(), part);
    apply_part(*pal_store_engine(another), part); /* another process built the same block */
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), 1);
    CHECK_EQ(ask(has_word), 0);
    CHECK_EQ(hits_of("zzkeptword n1000"), 1);
    pal_store_close(another);
    close_store();
}

/* The erasure waits for a writer that holds the index, and removes what it wrote. */
static void a_block_written_before_an_erasure_goes_with_it(void)
{
    pal_id gone;

    open_empty();
    gone = session_of("default");
    say_many(test.store, "default", gone, 1, ROWS, "zzgoneword");
    apply_part(engine(), build_part(engine()));
    CHECK_THAT(ask(has_word), >, 0);
    OK(pal_store_erase(test.store, S(""), gone, NULL, &test.err));
    CHECK_EQ(ask(has_word), 0);
    close_store();
}

/* While another process erases messages, the index waits, but neither appends nor searches do. */
static void a_locked_index_stops_nothing(void)
{
    pal_op op = {.status = PAL_OK};
    pal_work work = {.op = &op};
    pal_id session;

    open_empty();
    session = session_of("default");
    say_many(test.store, "default", session, 1, ROWS, "common");
    work.index = build_part(engine());
    ask("BEGIN; SELECT 1 FROM search_tenant FOR UPDATE");
    engine()->backend->apply(engine(), &work, 1);
    CHECK_STATUS(op.status, PAL_BUSY, &op.error);
    say_many(test.store, "default", session, ROWS + 1, 2 * ROWS, "common"); /* also marks */
    CHECK_EQ(hits_of("n2000"), 1);
    CHECK_EQ(ask("SELECT blocks FROM search_tenant"), 0);
    ask("COMMIT");
    index_all();
    CHECK_EQ(ask("SELECT blocks FROM search_tenant"), 3);
    close_store();
}

/* ---- Writers that commit late ---- */

/* Does the steps of an append, in a transaction that stays open: the head first, then a position. */
static const char late_append[] =
        "UPDATE head SET last_seq = last_seq + 1 WHERE session ="
        " (SELECT session FROM session WHERE title = 'late');"
        "INSERT INTO message(tenant, seq, pos, created_at, session, id, tokens, flags, role,"
        " is_text, body) SELECT h.tenant, h.last_seq, nextval('message_pos'), 1, h.session,"
        " gen_random_uuid(), 1, 0, 2, true, 'zzlateword' FROM head h JOIN session x"
        " ON x.tenant = h.tenant AND x.session = h.session WHERE x.title = 'late'";

static void a_late_commit_is_not_missed(void)
{
    pal_session titled = {.tenant = S("default"), .title = S("late")};
    pal_id late, session;
    int64_t indexed_pos;

    open_empty();
    OK(pal_store_create(test.store, &titled, &late, &test.err));
    session = session_of("default");
    say_many(test.store, "default", session, 1, ROWS + 100, "before");
    index_all();
    indexed_pos = ask("SELECT indexed_pos FROM search_tenant");
    CHECK_EQ(indexed_pos, ROWS);
    ask("BEGIN");
    ask(late_append); /* takes the position ROWS + 101 */
    say_many(test.store, "default", session, ROWS + 101, 4 * ROWS, "after");
    index_all();
    /* The search reads what the index must not contain yet. */
    CHECK_EQ(hits_of("n3000 after"), 1);
    CHECK_EQ(hits_of("zzlateword"), 0);
    CHECK_EQ(ask("SELECT indexed_pos FROM search_tenant"), indexed_pos);
    CHECK_EQ(ask("SELECT count(*) FROM search_tenant WHERE is_wanted"), 1);
    ask("COMMIT");
    CHECK_EQ(hits_of("zzlateword"), 1);
    index_all();
    CHECK_EQ(ask("SELECT blocks FROM search_tenant"), 5);
    CHECK_EQ(hits_of("zzlateword"), 1);
    CHECK_EQ(hits_of("n3000 after"), 1);
    close_store();
}

/* Blocks below the open transaction are built meanwhile, and a rollback leaves no gap. */
static void a_rollback_leaves_no_gap(void)
{
    pal_session titled = {.tenant = S("default"), .title = S("late")};
    pal_id late, session;

    open_empty();
    OK(pal_store_create(test.store, &titled, &late, &test.err));
    session = session_of("default");
    say_many(test.store, "default", session, 1, 2 * ROWS, "before");
    OK(pal_store_index(test.store, 1, NULL, &test.err)); /* knows the horizon */
    ask("BEGIN");
    ask(late_append);
    say_many(test.store, "default", session, 2 * ROWS + 1, ROWS, "after");
    index_all();
    CHECK_EQ(ask("SELECT blocks FROM search_tenant"), 2);
    ask("ROLLBACK");
    index_all();
    CHECK_EQ(ask("SELECT blocks FROM search_tenant"), 3);
    CHECK_EQ(hits_of("zzlateword"), 0);
    CHECK_EQ(hits_of("n2500 after"), 1);
    close_store();
}

/* ---- Damage ---- */

static void damage_hides_nothing(void)
{
    static const char *const damages[] = {
            "UPDATE search SET chunk = '\\xffffffffff' WHERE level = 1",
            "UPDATE search SET chunk = '\\xffffffffff' WHERE block = 2 AND level = 0",
            "DELETE FROM search WHERE level = 0 AND block = 3",
            "UPDATE search_block SET positions = '\\xffffff' WHERE level = 0 AND block = 4",
            "UPDATE search_block SET wide = '\\x00' WHERE level = 0 AND block = 5",
            "DELETE FROM search_block WHERE level = 0 AND block IN (6, 7)",
            "DELETE FROM search_block WHERE level = 1",
    };
    pal_id session;

    open_empty();
    session = session_of("default");
    say_many(test.store, "default", session, 1, 16 * ROWS + 5, "common");
    index_all();
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        ask(damages[i]);
        for (int j = 500; j < 16 * ROWS; j += ROWS) {
            char text[20];

            snprintf(text, sizeof text, "n%d", j);
            CHECK_EQ(hits_of(text), 1);
        }
        CHECK_EQ(hits_of("nowhere"), 0);
    }
    close_store();
}

int main(void)
{
    if (!postgres_begin("index"))
        return 0;
    RUN(each_tenant_has_its_blocks);
    RUN(the_first_search_builds);
    RUN(parts_can_be_added_bit_by_bit);
    RUN(a_tenant_is_marked_seldom);
    RUN(all_words_are_found);
    RUN(pages_continue_each_other);
    RUN(old_messages_cost_nothing);
    RUN(long_texts_are_found);
    RUN(erased_words_are_in_no_block);
    RUN(expiry_removes_the_words);
    RUN(an_erasure_stops_a_block);
    RUN(a_block_written_before_an_erasure_goes_with_it);
    RUN(a_locked_index_stops_nothing);
    RUN(a_late_commit_is_not_missed);
    RUN(a_rollback_leaves_no_gap);
    RUN(damage_hides_nothing);
    return postgres_end();
}
