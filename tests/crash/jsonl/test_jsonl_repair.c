/* test_jsonl_repair.c - damage in "jsonl:DIR" that is reported and repaired, failing syncs, and the
 * permissions of the files. */
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include "jsonl_dir.h"

static const char line_1[] = "{\"role\":\"user\",\"content\":\"one\"}\n";
static const char line_2[] = "{\"role\":\"user\",\"content\":\"two\"}\n";
static const char line_3[] = "{\"role\":\"user\",\"content\":\"three\"}\n";

static char findings[1024];

static void on_finding(const pal_store_finding *finding, void *user)
{
    (void)user;
    snprintf(findings + strlen(findings), sizeof findings - strlen(findings), "%s%s|",
            finding->text, finding->repaired ? " (repaired)" : "");
}

/* Whether the findings of fsck contain both words; without words, whether fsck finds nothing. */
static bool finds(bool repair, const char *word, const char *other)
{
    uint64_t count = 0;

    findings[0] = '\0';
    if (!CHECK_STATUS(
                pal_store_check(test.store, repair, on_finding, NULL, NULL, &count, &test.err),
                PAL_OK, &test.err))
        return false;
    if (word ? strstr(findings, word) && strstr(findings, other ? other : "") : count == 0)
        return true;
    printf("# fsck: %s\n", findings);
    return false;
}

static pal_id made(const char *key, const char *text)
{
    pal_session given = {.key = S(key)};
    pal_id id = {{0}};

    if (CHECK_STATUS(pal_store_create(test.store, &given, &id, &test.err), PAL_OK, &test.err))
        CHECK(say(id, text));
    return id;
}

static pal_id forked(const char *key, pal_id parent, uint64_t at)
{
    pal_session given = {.key = S(key)};
    pal_id id = {{0}};

    CHECK_STATUS(pal_store_fork(test.store, &given, parent, at, &id, &test.err), PAL_OK, &test.err);
    return id;
}

/* ---- Syncs ---- */

static int dir_syncs, dirs_fail;

int fsync(int fd)
{
    struct stat facts;

    if (fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode)) {
        dir_syncs++;
        if (dirs_fail) {
            errno = EIO;
            return -1;
        }
    }
    return (int)syscall(SYS_fsync, fd);
}

static void a_new_store_syncs_its_directories(void)
{
    char nested[512], address[600];
    pal_store *other = NULL;

    begin();
    path_of("new", nested);
    snprintf(address, sizeof address, "jsonl:%s", nested);
    dir_syncs = 0;
    CHECK_STATUS(pal_store_open(address, NULL, &other, &test.err), PAL_OK, &test.err);
    CHECK_THAT(dir_syncs, >=, 3); /* the parent, the directory and the files in it */
    pal_store_close(other);
    other = NULL;
    dirs_fail = true;
    snprintf(nested + strlen(nested), 8, "er");
    snprintf(address, sizeof address, "jsonl:%s", nested);
    CHECK_STATUS(pal_store_open(address, NULL, &other, &test.err), PAL_IO, &test.err);
    dirs_fail = false;
    CHECK_STATUS(pal_store_open(address, NULL, &other, &test.err), PAL_OK, &test.err);
    pal_store_close(other);
}

static void a_name_that_is_not_durable_is_not_acknowledged(void)
{
    pal_session given = {.key = S("k")};
    pal_id id, old;

    begin();
    if (!reopen())
        return;
    old = made("old", "first");
    CHECK_STATUS(pal_store_create(test.store, &given, &id, &test.err), PAL_OK, &test.err);
    dirs_fail = true;
    CHECK(!say(id, "lost"));
    CHECK_STATUS(test.err.status, PAL_IO);
    CHECK_STATUS(pal_store_delete(test.store, S(""), old, &test.err), PAL_IO, &test.err);
    dirs_fail = false;
    CHECK(say(id, "there"));
    CHECK(shows(id, "there|"));
    reopen();
    CHECK(shows(id, "there|"));
    CHECK(shows(old, "first|"));
    CHECK(finds(false, NULL, NULL));
}

/* ---- Damage ---- */

static void a_fork_without_its_shared_messages_is_found(void)
{
    pal_id parent, fork, nested;

    begin();
    if (!reopen())
        return;
    parent = made("p", "a");
    CHECK(say(parent, "b"));
    CHECK(say(parent, "c"));
    fork = forked("f", parent, 2);
    CHECK(say(fork, "d"));
    nested = forked("n", fork, 3);
    CHECK(finds(false, NULL, NULL));
    put("p.new", line_1);
    rename_in("p.new", "p.jsonl");
    reopen();
    CHECK(finds(false, "the session shares 2 messages of session", "which has 1"));
    unlink_in("p.jsonl");
    CHECK(finds(false, "the session shares 2 messages of session", "which has 0"));
    CHECK(say(nested, "e"));
}

/* It is still known after everything was read and written again. */
static void a_fork_of_picoclaws_session_stays_one(void)
{
    pal_id fork, other;

    begin();
    put("theirs.jsonl", line_1);
    add("theirs.jsonl", line_2);
    if (!reopen())
        return;
    fork = forked("f", by_key("theirs"), 2);
    CHECK(say(fork, "mine"));
    other = made("other", "x");
    for (int round = 0; round < 3; round++) {
        CHECK(shows(fork, "one|two|mine|"));
        CHECK(finds(false, NULL, NULL));
        if (round == 1)
            CHECK_STATUS(
                    pal_store_erase(test.store, S(""), other, NULL, &test.err), PAL_OK, &test.err);
        reopen();
    }
    CHECK_STATUS(pal_store_erase(test.store, S(""), by_key("theirs"), NULL, &test.err), PAL_OK,
            &test.err);
    reopen();
    CHECK(shows(fork, "one|two|mine|"));
    CHECK(finds(false, NULL, NULL));
    CHECK(!is_there("theirs.jsonl"));
}

/* An empty session becomes the fork of a younger one. */
static void a_parent_may_be_younger(void)
{
    pal_session given = {.key = S("older")};
    pal_op adopt = {.kind = PAL_OP_ADOPT};
    pal_id older, younger, other;

    begin();
    if (!reopen())
        return;
    CHECK_STATUS(pal_store_create(test.store, &given, &older, &test.err), PAL_OK, &test.err);
    younger = made("younger", "a");
    other = made("other", "x");
    adopt.session = older;
    adopt.u.adopt.from = younger;
    if (CHECK_STATUS(pal_store_apply(test.store, &adopt, 1, &test.err), PAL_OK, &test.err))
        CHECK_STATUS(adopt.status, PAL_OK);
    CHECK_STATUS(pal_store_erase(test.store, S(""), other, NULL, &test.err), PAL_OK, &test.err);
    reopen();
    CHECK(shows(older, "a|"));
    CHECK(finds(false, NULL, NULL));
    CHECK_STATUS(pal_store_erase(test.store, S(""), younger, NULL, &test.err), PAL_OK, &test.err);
    reopen();
    CHECK(shows(older, "a|"));
    CHECK(finds(false, NULL, NULL));
}

/* The line of PicoClaw never reached the disk, but our line after it did. */
static void zeros_take_nothing_with_them(void)
{
    char zeros[700] = {0};
    pal_str text;
    pal_id id;

    begin();
    put("z.jsonl", line_1);
    put_bytes("z.jsonl", zeros, sizeof zeros, O_APPEND);
    add("z.jsonl", line_2);
    put_bytes("z.jsonl", zeros, 40, O_APPEND);
    add("z.jsonl", "le\":\"user\"}\n");
    add("z.jsonl", line_3);
    put_meta("z.meta.json", "z", "");
    if (!reopen())
        return;
    id = by_key("z");
    CHECK(shows(id, "one|two|three|"));
    CHECK(finds(false, "'z.jsonl' has 740 zeros", "line 3 of 'z.jsonl' is not a message"));
    CHECK(finds(true, "had 740 zeros in its lines (repaired)", "it was moved aside (repaired)"));
    CHECK(finds(false, NULL, NULL));
    CHECK(shows(id, "one|two|three|"));
    text = get("z.jsonl");
    CHECK(!memchr(text.data, '\0', text.len));
    CHECK_STR(picoclaw_reads("z"), "one|two|three|");
    reopen();
    CHECK(say(id, "four"));
    CHECK(shows(id, "one|two|three|four|"));
}

/* Messages that PicoClaw had hidden stay hidden, though there are fewer lines before them. */
static void lines_without_a_message_are_set_aside(void)
{
    char aside[128], text[PAL_ID_TEXT_SIZE];
    pal_id id;

    begin();
    put("s.jsonl", line_1);
    add("s.jsonl", "{broken\n");
    add("s.jsonl", line_2);
    add("s.jsonl", line_3);
    add("s.jsonl", "{\"role\":\"us");
    put("s.meta.json", "{\"key\":\"s\",\"summary\":\"so far\",\"skip\":3,\"count\":2}");
    if (!reopen())
        return;
    id = by_key("s");
    CHECK(shows(id, "three|"));
    CHECK(finds(true, "line 2 of 's.jsonl' was not", "line 5 of 's.jsonl' was not"));
    CHECK(finds(false, NULL, NULL));
    CHECK(shows(id, "three|"));
    CHECK_STR(picoclaw_reads("s"), "three|");
    CHECK_EQ(meta_number("s.meta.json", "skip"), 2);
    pal_id_to_text(id, text);
    snprintf(aside, sizeof aside, ".palaver/aside/%s", text);
    CHECK_STR(get(aside), "{broken\n{\"role\":\"us");
    reopen();
    if (CHECK(shows(id, "three|"))) {
        CHECK(say(id, "four"));
        CHECK(shows(id, "three|four|"));
    }
    CHECK_STATUS(pal_store_erase(test.store, S(""), id, NULL, &test.err), PAL_OK, &test.err);
    CHECK(!is_there(aside));
}

/* A file of a process that died before it removed the file. */
static void a_meta_file_alone_is_not_a_session(void)
{
    pal_session found;
    pal_str meta;
    pal_id id;

    begin();
    if (!reopen())
        return;
    id = made("g", "gone");
    meta = get("g.meta.json");
    CHECK_STATUS(pal_store_delete(test.store, S(""), id, &test.err), PAL_OK, &test.err);
    put_bytes("g.meta.json", meta.data, meta.len, O_TRUNC);
    reopen();
    CHECK_STATUS(pal_store_find(test.store, S(""), PAL_SESSION_BY_KEY, S("g"), test.arena, &found,
                         &test.err),
            PAL_NOT_FOUND, &test.err);
    CHECK(!is_there("g.meta.json"));
    CHECK_STATUS(pal_store_restore(test.store, S(""), id, &test.err), PAL_OK, &test.err);
    CHECK(shows(by_key("g"), "gone|"));
}

/* ---- Who may read ---- */

static int strangers;

static int look(const char *path, const struct stat *facts, int kind, struct FTW *walk)
{
    (void)kind;
    if (walk->level > 0 && (facts->st_mode & 077) != 0) {
        printf("# %s has the mode %o\n", path, facts->st_mode & 0777);
        strangers++;
    }
    return 0;
}

static void files_are_for_their_user_alone(void)
{
    mode_t before = umask(022);
    char name[PAL_BLOB_NAME_SIZE], path[512];
    struct stat facts;
    pal_id id;

    begin();
    if (reopen()) {
        id = made("k", "text");
        CHECK_STATUS(
                pal_store_blob_put(test.store, S("other"), S("image/png"), S("x"), name, &test.err),
                PAL_OK, &test.err);
        CHECK_STATUS(pal_store_delete(test.store, S(""), id, &test.err), PAL_OK, &test.err);
        made("k", "again");
        strangers = 0;
        nftw(test.directory, look, 16, FTW_PHYS);
        CHECK_EQ(strangers, 0);
        put("p.jsonl", line_1);
        put_meta("p.meta.json", "p", "");
        CHECK(say(by_key("p"), "ours"));
        path_of("p.jsonl", path);
        if (CHECK_EQ(stat(path, &facts), 0))
            CHECK_EQ((facts.st_mode & 0777), 0644);
        path_of("p.meta.json", path);
        if (CHECK_EQ(stat(path, &facts), 0))
            CHECK_EQ((facts.st_mode & 0777), 0644);
    }
    umask(before);
}

static void links_in_the_place_of_our_files_are_refused(void)
{
    static const char *const names[] = {".palaver/log", ".palaver/lock"};
    char path[512], target[512];

    for (size_t i = 0; i < 2; i++) {
        begin();
        if (!reopen())
            return;
        made("k", "text");
        pal_store_close(test.store);
        test.store = NULL;
        rename_in(names[i], "aside");
        path_of(names[i], path);
        path_of("aside", target);
        CHECK_EQ(symlink(target, path), 0);
        CHECK_STATUS(pal_store_open(test.url, NULL, &test.store, &test.err), PAL_IO, &test.err);
    }
}

int main(void)
{
    dir_make();
    RUN(a_new_store_syncs_its_directories);
    RUN(a_name_that_is_not_durable_is_not_acknowledged);
    RUN(a_fork_without_its_shared_messages_is_found);
    RUN(a_fork_of_picoclaws_session_stays_one);
    RUN(a_parent_may_be_younger);
    RUN(zeros_take_nothing_with_them);
    RUN(lines_without_a_message_are_set_aside);
    RUN(a_meta_file_alone_is_not_a_session);
    RUN(files_are_for_their_user_alone);
    RUN(links_in_the_place_of_our_files_are_refused);
    dir_done();
    return tap_done();
}
