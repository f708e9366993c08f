/* test_jsonl_trouble.c - "jsonl:DIR" with something else in the place of a file, or with unreadable
 * files. The error names the problem and the path, nothing is lost, other sessions work, and
 * everything works again after the problem was corrected. */
#include <sys/wait.h>
#include "jsonl_dir.h"

#define NOBODY 65534

static const char line_1[] = "{\"role\":\"user\",\"content\":\"one\"}\n";

static void make_dir(const char *name)
{
    char path[512];

    path_of(name, path);
    CHECK_EQ(mkdir(path, 0755), 0);
}

static void remove_dir(const char *name)
{
    char path[512];

    path_of(name, path);
    CHECK_EQ(rmdir(path), 0);
}

/* Whether the last error names the path and contains this text. */
static bool told(pal_status status, const char *name, const char *what)
{
    char path[600];

    snprintf(path, sizeof path, "'%s%s%s'", test.directory, *name ? "/" : "", name);
    if (test.err.status == status && strstr(test.err.message, path) &&
            strstr(test.err.message, what))
        return true;
    printf("# %s: %s\n", pal_status_name(test.err.status), test.err.message);
    return false;
}

static bool is_refused(const char *at)
{
    pal_store *other = NULL;

    pal_store_close(test.store);
    test.store = NULL;
    return pal_store_open(at, NULL, &other, &test.err) != PAL_OK && !other;
}

static pal_status find(const char *key)
{
    pal_session session;

    return pal_store_find(
            test.store, S(""), PAL_SESSION_BY_KEY, S(key), test.arena, &session, &test.err);
}

static uint64_t findings(void)
{
    uint64_t count = 0;

    CHECK_STATUS(pal_store_check(test.store, false, NULL, NULL, NULL, &count, &test.err), PAL_OK,
            &test.err);
    return count;
}

/* Makes two sessions: "x" was written by the store and has a mark, "y" by PicoClaw. */
static pal_id two_sessions(void)
{
    pal_mark mark = {.kind = PAL_MARK_PIN, .seq = 1};
    pal_session given = {.key = S("x")};
    pal_id id = {{0}};

    begin();
    put("y.jsonl", line_1);
    put_meta("y.meta.json", "y", "");
    CHECK(reopen());
    if (CHECK_STATUS(pal_store_create(test.store, &given, &id, &test.err), PAL_OK, &test.err)) {
        CHECK(say(id, "first"));
        CHECK_STATUS(pal_store_mark(test.store, S(""), id, &mark, &test.err), PAL_OK, &test.err);
    }
    return id;
}

static void all_is_well(pal_id id, const char *wanted)
{
    pal_mark *marks;
    size_t len = 0;

    CHECK(shows(id, wanted));
    CHECK(shows(by_key("y"), "one|more|"));
    CHECK_EQ(findings(), 0);
    if (CHECK_STATUS(pal_store_marks(test.store, S(""), id, test.arena, &marks, &len, &test.err),
                PAL_OK, &test.err))
        CHECK_EQ(len, 1);
}

/* ---- Directories in the place of files ---- */

static void lines_may_be_a_directory(void)
{
    pal_id id = two_sessions();
    pal_message message = pal_message_text(test.arena, PAL_ROLE_USER, S("z"));
    pal_session fork = {0};
    pal_id fork_id;

    rename_in("x.jsonl", "aside");
    make_dir("x.jsonl");
    make_dir("new.jsonl");
    for (int round = 0; round < 2; round++) {
        CHECK_STATUS(find("x"), PAL_IO);
        CHECK(told(PAL_IO, "x.jsonl", "is a directory"));
        CHECK_STATUS(find("new"), PAL_IO);
        CHECK(told(PAL_IO, "new.jsonl", "is a directory"));
        CHECK(!say(id, "lost"));
        CHECK(told(PAL_IO, "x.jsonl", "move it away"));
        CHECK_STATUS(pal_store_delete(test.store, S(""), id, &test.err), PAL_IO, &test.err);
        CHECK_STATUS(pal_store_erase(test.store, S(""), id, NULL, &test.err), PAL_IO, &test.err);
        CHECK_STATUS(
                pal_store_fork(test.store, &fork, id, 1, &fork_id, &test.err), PAL_IO, &test.err);
        CHECK_STATUS(pal_store_append(test.store, S(""), id, &message, 1, PAL_SEQ_ANY, &test.err),
                PAL_IO, &test.err);
        CHECK_EQ(findings(), 2);
        CHECK(round > 0 || say(by_key("y"), "more"));
        CHECK(shows(by_key("y"), "one|more|"));
        reopen();
    }
    remove_dir("x.jsonl");
    remove_dir("new.jsonl");
    rename_in("aside", "x.jsonl");
    CHECK_STATUS(find("new"), PAL_NOT_FOUND);
    all_is_well(id, "first|");
    CHECK(say(id, "second"));
    reopen();
    all_is_well(id, "first|second|");
}

static void a_meta_file_may_be_a_directory(void)
{
    pal_id id = two_sessions();

    CHECK(say(by_key("y"), "more"));
    unlink_in("x.meta.json");
    make_dir("x.meta.json");
    for (int round = 0; round < 2; round++) {
        reopen();
        CHECK(shows(id, "first|"));
        CHECK(shows(by_key("y"), "one|more|"));
        CHECK(!say(id, "lost"));
        CHECK(told(PAL_IO, "x.meta.json", "is a directory"));
        CHECK_EQ(findings(), 1);
    }
    remove_dir("x.meta.json");
    CHECK(say(id, "second"));
    all_is_well(id, "first|second|");
    CHECK_EQ(meta_number("x.meta.json", "count"), 2);
}

static void an_older_file_may_be_a_directory(void)
{
    pal_id id = two_sessions();

    CHECK(say(by_key("y"), "more"));
    make_dir("old.json");
    reopen();
    CHECK(shows(id, "first|"));
    CHECK_EQ(findings(), 1);
    CHECK(is_there("old.json"));
    remove_dir("old.json");
    reopen();
    all_is_well(id, "first|");
}

static void our_own_files_may_be_directories(void)
{
    static const char *const names[] = {".palaver/log", ".palaver/lock"};
    pal_id id = two_sessions();

    CHECK(say(by_key("y"), "more"));
    for (size_t i = 0; i < 2; i++) {
        rename_in(names[i], "aside");
        make_dir(names[i]);
        CHECK(is_refused(test.url));
        CHECK(told(PAL_IO, names[i], "is a directory"));
        remove_dir(names[i]);
        rename_in("aside", names[i]);
    }
    rename_in(".palaver", "aside");
    put(".palaver", "x");
    CHECK(is_refused(test.url));
    CHECK(told(PAL_IO, ".palaver", "is a file"));
    unlink_in(".palaver");
    rename_in("aside", ".palaver");
    reopen();
    all_is_well(id, "first|");
}

static void the_directory_may_be_a_file(void)
{
    char path[600];

    begin();
    put("file", "x");
    snprintf(path, sizeof path, "jsonl:%s/file", test.directory);
    CHECK(is_refused(path));
    CHECK(told(PAL_IO, "file", "is a file"));
    CHECK_EQ(get("file").len, 1);
    snprintf(path, sizeof path, "jsonl:%s/file/below", test.directory);
    CHECK(is_refused(path));
    CHECK(told(PAL_IO, "file/below", "Not a directory"));
    CHECK(is_refused("jsonl:"));
    CHECK_STATUS(test.err.status, PAL_INVALID);
}

/* ---- Without permission: in a process without it, even if root runs the tests ---- */

static void set_mode(const char *name, mode_t mode)
{
    char path[512];

    path_of(name, path);
    CHECK_EQ(chmod(path, mode), 0);
}

static void give_away(const char *name)
{
    char path[512];

    path_of(name, path);
    CHECK(getuid() != 0 || chown(path, NOBODY, (gid_t)-1) == 0);
}

/* Runs `holds` in a process that is bound by file modes, also if this one runs as root. */
static bool holds_for_nobody(bool (*holds)(void))
{
    int status = 1;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        bool held = getuid() != 0 || setuid(NOBODY) == 0;

        test.store = NULL;
        held = held && holds();
        pal_store_close(test.store);
        fflush(stdout);
        _exit(!held || tap_failed);
    }
    waitpid(pid, &status, 0);
    return status == 0;
}

static bool x_is_denied(void)
{
    return reopen() && find("x") == PAL_DENIED &&
            told(PAL_DENIED, "x.jsonl", "permission denied") && shows(by_key("y"), "one|more|") &&
            findings() == 1;
}

static bool x_can_be_read_only(void)
{
    return reopen() && shows(by_key("x"), "first|") && !say(by_key("x"), "lost") &&
            told(PAL_DENIED, "x.jsonl", "permission denied") && shows(by_key("x"), "first|");
}

static bool x_has_no_meta(void)
{
    return reopen() && shows(by_key("x"), "first|") && !say(by_key("x"), "lost") &&
            told(PAL_DENIED, "x.meta.json", "permission denied");
}

static bool log_is_denied(void)
{
    return is_refused(test.url) && told(PAL_DENIED, ".palaver/log", "permission denied");
}

static bool directory_is_denied(void)
{
    return is_refused(test.url) && told(PAL_DENIED, "", "permission denied");
}

static void files_may_be_denied(void)
{
    static const char *const all[] = {"", ".palaver", ".palaver/log", ".palaver/lock", "x.jsonl",
            "x.meta.json", "y.jsonl", "y.meta.json"};
    pal_id id = two_sessions();

    CHECK(say(by_key("y"), "more"));
    pal_store_close(test.store);
    test.store = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        give_away(all[i]);
    set_mode("x.jsonl", 0);
    CHECK(holds_for_nobody(x_is_denied));
    set_mode("x.jsonl", 0444);
    CHECK(holds_for_nobody(x_can_be_read_only));
    set_mode("x.jsonl", 0644);
    set_mode("x.meta.json", 0);
    CHECK(holds_for_nobody(x_has_no_meta));
    set_mode("x.meta.json", 0644);
    set_mode(".palaver/log", 0);
    CHECK(holds_for_nobody(log_is_denied));
    set_mode(".palaver/log", 0644);
    set_mode("", 0);
    CHECK(holds_for_nobody(directory_is_denied));
    set_mode("", 0755);
    reopen();
    all_is_well(id, "first|");
}

static bool says_gone(pal_id id, const char *word)
{
    bool is_refused = !say(id, "lost") && test.err.status == PAL_IO &&
            strstr(test.err.message, word) && strstr(test.err.message, "nothing more is written");

    return is_refused && pal_store_ready(test.store, &test.err) == PAL_IO &&
            strstr(test.err.message, word);
}

/* Otherwise the next start would not look for acknowledged messages in the right place. */
static void nothing_is_written_after_the_directory_was_removed(void)
{
    char away[SCRATCH_PATH_MAX + 8];
    pal_id id = two_sessions();

    snprintf(away, sizeof away, "%s.away", test.directory);
    CHECK_STATUS(pal_store_ready(test.store, &test.err), PAL_OK, &test.err);
    CHECK_EQ(rename(test.directory, away), 0);
    CHECK(says_gone(id, "removed"));
    CHECK_EQ(mkdir(test.directory, 0700), 0);
    CHECK(says_gone(id, "replaced"));
    CHECK_EQ(rmdir(test.directory), 0);
    CHECK_EQ(rename(away, test.directory), 0);
    CHECK(say(id, "second"));
    CHECK(say(by_key("y"), "more"));
    CHECK_STATUS(pal_store_ready(test.store, &test.err), PAL_OK, &test.err);
    rename_in(".palaver/log", ".palaver/away");
    CHECK(says_gone(id, ".palaver/log"));
    CHECK(!is_there(".palaver/log"));
    rename_in(".palaver/away", ".palaver/log");
    reopen();
    all_is_well(id, "first|second|");
}

int main(void)
{
    dir_make();
    RUN(lines_may_be_a_directory);
    RUN(a_meta_file_may_be_a_directory);
    RUN(an_older_file_may_be_a_directory);
    RUN(our_own_files_may_be_directories);
    RUN(the_directory_may_be_a_file);
    RUN(files_may_be_denied);
    RUN(nothing_is_written_after_the_directory_was_removed);
    dir_done();
    return tap_done();
}
