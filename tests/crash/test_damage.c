/* test_damage.c - files that were damaged while the store was closed: fsck finds the damage,
 * repairs data that can be derived, quarantines the rest session by session, and changes nothing
 * else. */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "palaver/palaver.h"
#include "support/scratch.h"
#include "support/tap.h"

enum { SESSIONS = 12, MESSAGES = 40, PAGE_SIZE = 4096 };

static struct fixture {
    char directory[SCRATCH_PATH_MAX];
    char path[512], url[520];
    pal_store *store;
    pal_arena *arena;
    pal_error err;
    pal_id ids[SESSIONS];
} test;
static const pal_str default_tenant = {NULL, 0};

/* ---- A store with known content ---- */

static void open_store(void)
{
    OK(pal_store_open(test.url, NULL, &test.store, &test.err));
}

static void close_store(void)
{
    pal_store_close(test.store);
    test.store = NULL;
}

static void text_at(int session, int message, char out_text[700])
{
    int len = snprintf(out_text, 64, "session %d message %d ", session, message);

    memset(out_text + len, 'a' + session, 600);
    out_text[len + 600] = 0;
}

/* Sessions alternate, so that every page of messages holds messages of several sessions. */
static void fill(void)
{
    scratch_clear(test.directory, false);
    open_store();
    for (int i = 0; i < SESSIONS; i++) {
        pal_session session = {0};

        OK(pal_store_create(test.store, &session, &test.ids[i], &test.err));
    }
    for (int message = 0; message < MESSAGES; message++) {
        for (int i = 0; i < SESSIONS; i++) {
            char text[700];
            pal_message said;

            text_at(i, message, text);
            said = pal_message_text(test.arena, PAL_ROLE_USER, pal_str_of(text));
            OK(pal_store_append(
                    test.store, default_tenant, test.ids[i], &said, 1, PAL_SEQ_ANY, &test.err));
        }
    }
    pal_arena_reset(test.arena);
    close_store();
}

static bool is_whole(int session)
{
    pal_message_page shown = {0};
    bool whole;

    if (pal_store_load(test.store, default_tenant, test.ids[session], NULL, test.arena, &shown,
                &test.err) != PAL_OK)
        return false;
    whole = shown.len == MESSAGES;
    for (size_t i = 0; whole && i < shown.len; i++) {
        char text[700];

        text_at(session, (int)i, text);
        whole = pal_str_is(shown.items[i].parts[0].text, text);
    }
    pal_arena_reset(test.arena);
    return whole;
}

static pal_session_state state_of(int session)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_session found = {0};

    pal_id_to_text(test.ids[session], text);
    OK(pal_store_find(test.store, default_tenant, PAL_SESSION_BY_ID, pal_str_of(text), test.arena,
            &found, &test.err));
    return found.state;
}

static void run_sql(const char *text)
{
    sqlite3 *db;

    CHECK_EQ(sqlite3_open(test.path, &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
        printf("# %s: %s\n", text, sqlite3_errmsg(db));
    sqlite3_close(db);
}

/* The number of a page of the table or index, counted from its first leaf. */
static int page_of(const char *name, int which)
{
    sqlite3_stmt *stmt;
    sqlite3 *db;
    int page = 0;

    sqlite3_open(test.path, &db);
    sqlite3_prepare_v2(db,
            "SELECT pageno FROM dbstat WHERE name = ?1 AND pagetype = 'leaf' LIMIT 1 OFFSET ?2", -1,
            &stmt, NULL);
    sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_int(stmt, 2, which);
    if (CHECK_EQ(sqlite3_step(stmt), SQLITE_ROW))
        page = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return page;
}

static void scribble(int page)
{
    unsigned char bytes[PAGE_SIZE];
    int fd = open(test.path, O_WRONLY);

    memset(bytes, 0xa5, sizeof(bytes));
    CHECK_EQ(pwrite(fd, bytes, sizeof(bytes), (off_t)(page - 1) * PAGE_SIZE), PAGE_SIZE);
    close(fd);
}

/* ---- What fsck says ---- */

typedef struct findings {
    int len;
    int repaired;
    bool about[SESSIONS];
} findings;

static void note(const pal_store_finding *finding, void *user)
{
    findings *found = user;

    if (finding->advice)
        return;
    found->len++;
    found->repaired += finding->repaired;
    for (int i = 0; i < SESSIONS; i++)
        if (pal_id_equal(finding->session, test.ids[i]))
            found->about[i] = true;
}

static findings check(bool repair)
{
    findings found = {0};
    uint64_t count;

    OK(pal_store_check(test.store, repair, note, NULL, &found, &count, &test.err));
    CHECK_EQ(count, (uint64_t)found.len);
    return found;
}

/* ---- Tests ---- */

static void a_sound_store_has_no_findings(void)
{
    fill();
    open_store();
    CHECK_EQ(check(false).len, 0);
    CHECK_EQ(check(true).len, 0);
    close_store();
}

static void wrong_counts_are_corrected(void)
{
    findings found;

    fill();
    run_sql("UPDATE head SET tokens = 1, last_seq = last_seq - 1 WHERE session = 3");
    open_store();
    found = check(false);
    if (CHECK_EQ(found.len, 1)) {
        CHECK_EQ(found.repaired, 0);
        CHECK(found.about[2]);
    }
    found = check(true);
    CHECK_EQ(found.len, 1);
    CHECK_EQ(found.repaired, 1);
    CHECK_EQ(check(false).len, 0);
    CHECK_EQ(state_of(2), PAL_SESSION_ACTIVE);
    CHECK(is_whole(2));
    close_store();
}

static void a_missing_message_quarantines_its_session(void)
{
    pal_message said;

    fill();
    run_sql("DELETE FROM message WHERE session = 5 AND seq = 20");
    open_store();
    CHECK(check(false).about[4]);
    CHECK_EQ(state_of(4), PAL_SESSION_ACTIVE);
    CHECK_EQ(check(true).repaired, 1);
    CHECK_EQ(state_of(4), PAL_SESSION_QUARANTINED);
    CHECK_EQ(check(true).len, 0);
    said = pal_message_text(test.arena, PAL_ROLE_USER, pal_str_of("more"));
    CHECK_STATUS(pal_store_append(
                         test.store, default_tenant, test.ids[4], &said, 1, PAL_SEQ_ANY, &test.err),
            PAL_CORRUPT, &test.err);
    for (int i = 0; i < SESSIONS; i++)
        CHECK(i == 4 || (state_of(i) == PAL_SESSION_ACTIVE && is_whole(i)));
    close_store();
}

static void an_invalid_message_quarantines_its_session(void)
{
    fill();
    run_sql("UPDATE message SET body = x'7b226e6f' WHERE session = 2 AND seq = 7");
    open_store();
    CHECK(!is_whole(1));
    CHECK(is_whole(0));
    CHECK(check(true).about[1]);
    CHECK_EQ(state_of(1), PAL_SESSION_QUARANTINED);
    CHECK_EQ(state_of(0), PAL_SESSION_ACTIVE);
    close_store();
}

static void a_damaged_page_affects_only_its_sessions(void)
{
    findings found;
    int damaged = 0;

    fill();
    scribble(page_of("message", 20));
    open_store();
    for (int i = 0; i < SESSIONS; i++)
        damaged += !is_whole(i);
    CHECK_THAT(damaged, >, 0);
    CHECK_THAT(damaged, <, SESSIONS);
    found = check(true);
    CHECK_THAT(found.len, >, damaged);
    for (int i = 0; i < SESSIONS; i++) {
        bool quarantined = state_of(i) == PAL_SESSION_QUARANTINED;

        CHECK_EQ(found.about[i], quarantined);
        CHECK(quarantined || is_whole(i));
    }
    close_store();
}

static void a_damaged_index_is_built_again(void)
{
    findings found;

    fill();
    scribble(page_of("message_id", 1));
    open_store();
    found = check(true);
    CHECK_THAT(found.len, >, 0);
    CHECK_EQ(found.repaired, found.len);
    CHECK_EQ(check(false).len, 0);
    for (int i = 0; i < SESSIONS; i++) {
        if (CHECK(is_whole(i)))
            CHECK_EQ(state_of(i), PAL_SESSION_ACTIVE);
    }
    close_store();
}

static void a_session_without_its_state_is_found_again(void)
{
    fill();
    run_sql("DELETE FROM head WHERE session = 8");
    open_store();
    CHECK(check(true).about[7]);
    CHECK_EQ(state_of(7), PAL_SESSION_QUARANTINED);
    CHECK(is_whole(7));
    close_store();
}

static void a_damaged_blob_is_reported(void)
{
    char name[PAL_BLOB_NAME_SIZE];

    fill();
    open_store();
    OK(pal_store_blob_put(test.store, default_tenant, pal_str_of("text/plain"), pal_str_of("hello"),
            name, &test.err));
    CHECK_EQ(check(false).len, 0);
    close_store();
    run_sql("UPDATE blob_data SET data = x'00'");
    open_store();
    CHECK_EQ(check(true).len, 1);
    close_store();
}

int main(void)
{
    scratch_make(true, test.directory);
    test.arena = pal_arena_new(0);
    snprintf(test.path, sizeof(test.path), "%s/store.db", test.directory);
    snprintf(test.url, sizeof(test.url), "sqlite:%s", test.path);
    RUN(a_sound_store_has_no_findings);
    RUN(wrong_counts_are_corrected);
    RUN(a_missing_message_quarantines_its_session);
    RUN(an_invalid_message_quarantines_its_session);
    RUN(a_damaged_page_affects_only_its_sessions);
    RUN(a_damaged_index_is_built_again);
    RUN(a_session_without_its_state_is_found_again);
    RUN(a_damaged_blob_is_reported);
    pal_arena_free(test.arena);
    scratch_clear(test.directory, true);
    return tap_done();
}
