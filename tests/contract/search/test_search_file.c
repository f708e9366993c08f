/* test_search_file.c - the search index in a SQLite file: no word outlives its message, an older
 * file can be searched and is brought up to date, damage is found and repaired, and several
 * processes can build the index at the same time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store_backend.h"
#include "support/sqlite_file.h"

enum { MANY = 3000, BATCH = 500 };

static const pal_str default_tenant = {NULL, 0};

static pal_id new_session(void)
{
    pal_id id = {{0}};

    OK(pal_store_create(test.store, &(pal_session){0}, &id, &test.err));
    return id;
}

/* Appends messages "n<i> common" to the session. */
static void say_many(pal_id session, int first, int count, const char *word)
{
    static char texts[BATCH][64];
    static pal_part parts[BATCH];
    pal_message messages[BATCH];

    for (int done = 0; done < count;) {
        int len = 0;

        for (; len < BATCH && done < count; len++, done++) {
            snprintf(texts[len], sizeof texts[len], "n%d %s", first + done, word);
            parts[len] = (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_of(texts[len])};
            messages[len] =
                    (pal_message){.role = PAL_ROLE_USER, .parts = &parts[len], .parts_len = 1};
        }
        OK(pal_store_append(test.store, default_tenant, session, messages, (size_t)len, PAL_SEQ_ANY,
                &test.err));
    }
}

static size_t count_of(const char *text)
{
    pal_search_query search = {.text = pal_str_of(text), .limit = PAL_SEARCH_HITS_MAX};
    pal_search_page hits = {0};

    OK(pal_store_search(test.store, &search, test.arena, &hits, &test.err));
    return hits.len;
}

static void begin(void)
{
    file_clear();
    open_store(false);
}

static bool file_has(const char *suffix, const char *word)
{
    char name[540];
    char *bytes;
    bool found;
    long len;
    FILE *file;

    snprintf(name, sizeof name, "%s%s", test.path, suffix);
    file = fopen(name, "rb");
    if (!file)
        return false;
    fseek(file, 0, SEEK_END);
    len = ftell(file);
    rewind(file);
    bytes = malloc((size_t)len + 1);
    len = (long)fread(bytes, 1, (size_t)len, file);
    found = memmem(bytes, (size_t)len, word, strlen(word)) != NULL;
    free(bytes);
    fclose(file);
    return found;
}

/* Whether the word is in the file or in its WAL. */
static bool is_on_disk(const char *word)
{
    return file_has("", word) || file_has("-wal", word);
}

/* ---- Erasure ---- */

static void no_word_outlives_its_message(void)
{
    pal_id kept, gone;

    begin();
    kept = new_session();
    gone = new_session();
    say_many(kept, 1, 700, "zzkeptword");
    say_many(gone, 1, 700, "zzgoneword");
    say_many(kept, 1001, 1500, "zzkeptword");
    CHECK_EQ(count_of("zzgoneword"), 700);
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), 2);
    CHECK_THAT(ask("SELECT count(*) FROM search WHERE instr(chunk, CAST('zzgoneword' AS BLOB))"), >,
            0);
    OK(pal_store_erase(test.store, default_tenant, gone, NULL, &test.err));
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), 0);
    CHECK(!is_on_disk("zzgoneword"));
    CHECK(is_on_disk("zzkeptword"));
    CHECK_EQ(count_of("zzgoneword"), 0);
    CHECK_EQ(count_of("zzkeptword n1500"), 1);
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), 2);
    close_store();
    CHECK(!is_on_disk("zzgoneword"));
    CHECK(!is_on_disk("oneword") || !is_on_disk("zzgone"));
}

static void a_sweep_erases_words_too(void)
{
    pal_id kept, gone;
    pal_sweep_result sweep;

    begin();
    kept = new_session();
    gone = new_session();
    say_many(gone, 1, 500, "zzgoneword");
    say_many(kept, 1, 1500, "zzkeptword");
    CHECK_EQ(count_of("zzgoneword"), 500);
    OK(pal_store_delete(test.store, default_tenant, gone, &test.err));
    usleep(2000);
    if (OK(pal_store_sweep(test.store, 0, 100, &sweep, &test.err)))
        CHECK_EQ(sweep.erased, 1);
    CHECK(!is_on_disk("zzgoneword"));
    close_store();
}

/* A part that was read before an erasure and written after it would bring back words. */
static void an_overtaken_part_is_not_written(void)
{
    const pal_index_part *part = NULL;
    bool more = false;
    pal_engine *engine;
    pal_id kept, gone;
    pal_op op = {.status = PAL_OK};
    pal_work work = {.op = &op};

    begin();
    engine = *pal_store_engine(test.store);
    kept = new_session();
    gone = new_session();
    say_many(gone, 1, 100, "zzgoneword");
    say_many(kept, 1, 1500, "zzkeptword");
    if (OK(engine->backend->index_build(engine, default_tenant, test.arena, &part, &more, &test.err)))
        CHECK(part);
    OK(pal_store_erase(test.store, default_tenant, gone, NULL, &test.err));
    work.index = part;
    engine->backend->apply(engine, &work, 1);
    CHECK_STATUS(op.status, PAL_OK);
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), 0);
    CHECK(!is_on_disk("zzgoneword"));
    if (OK(engine->backend->index_build(engine, default_tenant, test.arena, &part, &more, &test.err)))
        CHECK(part);
    work.index = part;
    engine->backend->apply(engine, &work, 1);
    engine->backend->apply(engine, &work, 1); /* as another process could */
    CHECK_STATUS(op.status, PAL_OK);
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), 1);
    if (OK(engine->backend->index_build(engine, default_tenant, test.arena, &part, &more, &test.err)))
        CHECK(!part);
    close_store();
}

/* ---- Older files ---- */

static void make_version_1(void)
{
    CHECK_EQ(ask("ALTER TABLE message DROP COLUMN turn"), 0);
    CHECK_EQ(ask("ALTER TABLE lease DROP COLUMN ttl_ms"), 0);
    CHECK_EQ(ask("DROP TABLE inbox"), 0);
    CHECK_EQ(ask("CREATE TABLE inbox(id INTEGER PRIMARY KEY, uuid BLOB, session INTEGER,"
                 " created_at INTEGER, client_id TEXT, delivery TEXT, body TEXT)"),
            0);
    CHECK_EQ(ask("CREATE INDEX inbox_session ON inbox(session, id)"), 0);
    CHECK_EQ(ask("CREATE INDEX inbox_client ON inbox(session, client_id)"), 0);
    CHECK_EQ(ask("DROP TABLE record"), 0);
    CHECK_EQ(ask("DROP TABLE ledger_hour"), 0);
    CHECK_EQ(ask("DROP INDEX ledger_turn"), 0);
    CHECK_EQ(ask("ALTER TABLE ledger DROP COLUMN agent"), 0);
    CHECK_EQ(ask("DROP INDEX mark_kind"), 0);
    CHECK_EQ(ask("DROP TABLE search"), 0);
    CHECK_EQ(ask("DROP TABLE search_block"), 0);
    CHECK_EQ(ask("DROP TABLE search_state"), 0);
    CHECK_EQ(ask("DROP TABLE search_group"), 0);
    CHECK_EQ(ask("DROP TABLE counter"), 0);
    CHECK_EQ(ask("PRAGMA user_version = 1"), 0);
    CHECK_EQ(ask("PRAGMA user_version"), 1);
}

static void an_older_file_is_searched_unchanged(void)
{
    pal_mark pin = {.kind = PAL_MARK_PIN, .seq = 1};
    uint64_t findings = 9;
    pal_active_marks active;
    pal_id session;

    begin();
    session = new_session();
    say_many(session, 1, MANY, "common");
    OK(pal_store_mark(test.store, default_tenant, session, &pin, &test.err));
    close_store();
    make_version_1();
    open_store(true);
    CHECK_EQ(count_of("n777"), 1);
    CHECK_EQ(count_of("common"), PAL_SEARCH_HITS_MAX);
    OK(pal_store_active_marks(test.store, default_tenant, session, test.arena, &active, &test.err));
    CHECK_EQ(active.pins_len, 1);
    if (OK(pal_store_check(test.store, false, NULL, NULL, NULL, &findings, &test.err)))
        CHECK_EQ(findings, 0);
    close_store();
    CHECK_EQ(ask("PRAGMA user_version"), 1);
    open_store(false);
    CHECK_THAT(ask("PRAGMA user_version"), >, 3);
    CHECK_EQ(count_of("n777"), 1);
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), MANY / 1024);
    if (OK(pal_store_check(test.store, false, NULL, NULL, NULL, &findings, &test.err)))
        CHECK_EQ(findings, 0);
    close_store();
}

static void marks_are_listed_without_their_bodies(void)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    const char *plan = "";

    begin();
    close_store();
    sqlite3_open(test.path, &db);
    sqlite3_prepare_v2(db,
            "EXPLAIN QUERY PLAN SELECT number, kind, seq, through_seq, target, created_at FROM mark"
            " WHERE session = 1 AND kind IN (1, 2, 7) AND +number BETWEEN 0 AND 9 ORDER BY +number",
            -1, &stmt, NULL);
    if (sqlite3_step(stmt) == SQLITE_ROW)
        plan = (const char *)sqlite3_column_text(stmt, 3);
    CHECK_CONTAINS(plan, "COVERING INDEX mark_kind");
    sqlite3_finalize(stmt);
    sqlite3_close(db);
}

/* ---- Damage ---- */

static uint64_t check(bool repair)
{
    uint64_t findings = 99;

    OK(pal_store_check(test.store, repair, NULL, NULL, NULL, &findings, &test.err));
    return findings;
}

static void damage_is_found_and_repaired(void)
{
    static const char *const damages[] = {
            "UPDATE search SET chunk = x'ff' WHERE block = 1 AND term = x''",
            "UPDATE search SET chunk = x'' WHERE block = 0",
            "DELETE FROM search WHERE block = 1 AND term > 'n1'",
            "DELETE FROM search_block WHERE block = 1",
            "UPDATE search_block SET wide = x'01'",
            "INSERT INTO search(block, term, chunk) VALUES (77, x'', x'')",
    };
    pal_id session;

    begin();
    session = new_session();
    say_many(session, 1, MANY, "common");
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        CHECK_EQ(count_of("n1500"), 1);
        CHECK_EQ(check(false), 0);
        CHECK_EQ(ask(damages[i]), 0);
        CHECK_THAT(check(false), >, 0);
        CHECK_THAT(check(true), >, 0);
        CHECK_EQ(check(false), 0);
        CHECK_EQ(count_of("n1500"), 1);
        CHECK_EQ(count_of("n100"), 1);
        CHECK_EQ(count_of("n2999"), 1);
    }
    close_store();
}

/* Messages that cannot be decoded are scanned, so nothing is missed. */
static void a_damaged_index_hides_nothing(void)
{
    pal_id session;

    begin();
    session = new_session();
    say_many(session, 1, MANY, "common");
    CHECK_EQ(count_of("n500"), 1);
    CHECK_EQ(ask("UPDATE search SET chunk = x'ffffffffff'"), 0);
    CHECK_EQ(count_of("n500"), 1);
    CHECK_EQ(count_of("n1500"), 1);
    CHECK_EQ(count_of("common n2500"), 1);
    CHECK_EQ(ask("UPDATE search_block SET wide = x'00'"), 0);
    CHECK_EQ(count_of("n500"), 1);
    close_store();
}

static void torn_pages_of_the_index_are_rebuilt(void)
{
    long page, size;
    char junk[4096];
    pal_id session;
    FILE *file;

    begin();
    session = new_session();
    say_many(session, 1, MANY, "common");
    CHECK_EQ(count_of("n500"), 1);
    close_store();
    page = ask("SELECT rootpage FROM sqlite_schema WHERE name = 'search'");
    size = ask("PRAGMA page_size");
    memset(junk, 0x5a, sizeof junk);
    file = fopen(test.path, "r+b");
    if (CHECK(file))
        CHECK_EQ(fseek(file, (page - 1) * size, SEEK_SET), 0);
    CHECK_EQ(fwrite(junk, 1, sizeof junk, file), sizeof junk);
    fclose(file);
    open_store(false);
    CHECK_EQ(count_of("n500"), 1);
    CHECK_EQ(count_of("n1500"), 1); /* by scanning */
    CHECK_THAT(check(true), >, 0);
    CHECK_EQ(check(false), 0);
    CHECK_EQ(count_of("n500"), 1);
    CHECK_EQ(ask("SELECT count(*) FROM search_block"), MANY / 1024);
    close_store();
}

/* ---- Large texts ---- */

static void long_texts_are_found(void)
{
    enum { LEN = 400 << 10 };
    char *text = malloc(LEN + 1);
    pal_part part = {.kind = PAL_PART_TEXT};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_id session;

    begin();
    session = new_session();
    memset(text, 'x', LEN);
    text[LEN] = 0;
    memcpy(text + LEN - 20, " zzneedle ", 10);
    part.text = pal_str_of(text);
    OK(pal_store_append(test.store, default_tenant, session, &message, 1, PAL_SEQ_ANY, &test.err));
    say_many(session, 1, MANY, "common");
    CHECK_EQ(count_of("zzneedle"), 1);
    CHECK_EQ(count_of("zznothing"), 0);
    CHECK_EQ(count_of("n77"), 1);
    CHECK_EQ(ask("SELECT count(*) FROM search_block WHERE wide IS NOT NULL"), 1);
    CHECK_EQ(check(false), 0);
    close_store();
    free(text);
}

/* ---- Several processes ---- */

static int search_and_append(int number)
{
    pal_error why;
    pal_store *own = NULL;
    pal_arena *room = pal_arena_new(0);
    pal_id session;
    int bad = 0;

    if (pal_store_open(test.url, NULL, &own, &why) != PAL_OK)
        return 100;
    if (pal_store_create(own, &(pal_session){0}, &session, &why) != PAL_OK)
        return 101;
    for (int i = 0; i < 60; i++) {
        char text[64];
        pal_part part = {.kind = PAL_PART_TEXT};
        pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
        pal_search_query search = {.session = i % 2 ? session : (pal_id){{0}}};
        pal_search_page hits = {0};

        snprintf(text, sizeof text, "own%dx%d", number, i);
        part.text = search.text = pal_str_of(text);
        bad += pal_store_append(own, default_tenant, session, &message, 1, PAL_SEQ_ANY, &why) !=
                PAL_OK;
        bad += pal_store_search(own, &search, room, &hits, &why) != PAL_OK || hits.len != 1;
        pal_arena_reset(room);
    }
    pal_store_close(own);
    pal_arena_free(room);
    return bad;
}

static void processes_search_at_once(void)
{
    enum { PROCESSES = 3 };
    pid_t children[PROCESSES];
    pal_id session;

    begin();
    session = new_session();
    say_many(session, 1, 8000, "common");
    close_store();
    fflush(stdout);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(search_and_append(i));
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;

        CHECK_EQ(waitpid(children[i], &status, 0), children[i]);
        if (!CHECK(WIFEXITED(status)) || !CHECK_EQ(WEXITSTATUS(status), 0))
            printf("# process %d: %d\n", i, status);
    }
    open_store(false);
    CHECK_EQ(count_of("own1x59"), 1);
    CHECK_EQ(count_of("n7777"), 1);
    CHECK_EQ(check(false), 0);
    close_store();
}

int main(void)
{
    file_begin();
    RUN(no_word_outlives_its_message);
    RUN(a_sweep_erases_words_too);
    RUN(an_overtaken_part_is_not_written);
    RUN(an_older_file_is_searched_unchanged);
    RUN(marks_are_listed_without_their_bodies);
    RUN(damage_is_found_and_repaired);
    RUN(a_damaged_index_hides_nothing);
    RUN(torn_pages_of_the_index_are_rebuilt);
    RUN(long_texts_are_found);
    RUN(processes_search_at_once);
    return file_done();
}
