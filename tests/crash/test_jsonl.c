/* test_jsonl.c - "jsonl:DIR" over files that PicoClaw wrote, torn tails at every byte, and another
 * process. What PicoClaw reads afterwards is judged by its own plain rules: lines that are not
 * empty are messages, the first `skip` of them are out of sight. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/json.h"
#include "palaver/palaver.h"
#include "support/scratch.h"
#include "support/tap.h"

#define S(text) pal_str_of(text)

static char directory[SCRATCH_PATH_MAX], url[SCRATCH_PATH_MAX + 8];
static pal_store *store;
static pal_arena *arena;
static pal_error err;

static const char line_1[] = "{\"role\":\"user\",\"content\":\"one \\u003c 1\",\"created_at\":"
                             "\"2026-11-15T18:45:57.959653442Z\"}\n";
static const char line_2[] = "{\"role\":\"assistant\",\"content\":\"two\",\"odd\":[1,2]}\n";
static const char line_3[] = "{\"role\":\"user\",\"content\":\"three\"}\n";

/* ---- Files ---- */

static void path_of(const char *name, char out_path[512])
{
    snprintf(out_path, 512, "%s/%s", directory, name);
}

static void put_bytes(const char *name, const char *data, size_t len, int flags)
{
    char path[512];
    int fd;

    path_of(name, path);
    fd = open(path, O_WRONLY | O_CREAT | flags, 0644);
    CHECK(fd >= 0 && write(fd, data, len) == (ssize_t)len);
    close(fd);
}

static void put(const char *name, const char *text)
{
    put_bytes(name, text, strlen(text), O_TRUNC);
}

static void add(const char *name, const char *text)
{
    put_bytes(name, text, strlen(text), O_APPEND);
}

static pal_str get(const char *name)
{
    char path[512], *data;
    struct stat facts;
    pal_str text = {"", 0};
    int fd;

    path_of(name, path);
    fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &facts) != 0)
        return text;
    data = pal_arena_alloc(arena, (size_t)facts.st_size + 1);
    if (data && read(fd, data, (size_t)facts.st_size) == facts.st_size)
        text = pal_str_make(data, (size_t)facts.st_size);
    close(fd);
    return text;
}

static bool is_there(const char *name)
{
    char path[512];

    path_of(name, path);
    return access(path, F_OK) == 0;
}

static void rename_in(const char *from, const char *to)
{
    char from_path[512], to_path[512];

    path_of(from, from_path);
    path_of(to, to_path);
    CHECK(rename(from_path, to_path) == 0);
}

static void put_meta(const char *name, const char *key, const char *rest)
{
    char text[1024];

    snprintf(text, sizeof text,
            "{\n  \"key\": \"%s\",\n  \"summary\": \"\",\n  \"skip\": 0,\n  \"count\": 2,\n"
            "  \"created_at\": \"2026-11-15T18:45:57.959653442Z\",\n"
            "  \"updated_at\": \"2026-11-15T18:45:58.959653442Z\"%s\n}",
            key, rest);
    put(name, text);
}

/* ---- The store ---- */

static bool reopen(void)
{
    pal_store_close(store);
    store = NULL;
    if (CHECK(pal_store_open(url, NULL, &store, &err) == PAL_OK))
        return true;
    printf("# %s\n", err.message);
    return false;
}

static void begin(void)
{
    pal_store_close(store);
    store = NULL;
    scratch_clear(directory, false);
    pal_arena_reset(arena);
}

static pal_id by_key(const char *key)
{
    pal_session session = {0};

    CHECK(pal_store_find(store, S(""), PAL_FIND_KEY, S(key), arena, &session, &err) == PAL_OK);
    return session.id;
}

static bool say(pal_id id, const char *text)
{
    pal_message message = pal_message_text(arena, PAL_ROLE_USER, S(text));

    return pal_store_append(store, S(""), id, &message, 1, PAL_SEQ_ANY, &err) == PAL_OK;
}

/* The texts in sight, with a '|' behind each. */
static const char *texts_of(pal_id id)
{
    pal_messages messages = {0};
    char *text = pal_arena_alloc(arena, 65536);

    if (pal_store_load(store, S(""), id, NULL, arena, &messages, &err) != PAL_OK)
        return err.message;
    for (size_t i = 0; i < messages.len; i++)
        snprintf(text + strlen(text), 1000, "%.*s|",
                messages.items[i].parts_len ? (int)messages.items[i].parts[0].text.len : 0,
                messages.items[i].parts_len ? messages.items[i].parts[0].text.data : "");
    return text;
}

static bool shows(pal_id id, const char *wanted)
{
    const char *text = texts_of(id);

    if (strcmp(text, wanted) == 0)
        return true;
    printf("# wanted '%s', got '%s'\n", wanted, text);
    return false;
}

/* ---- PicoClaw's rules ---- */

static uint64_t meta_number(const char *name, const char *member)
{
    uint64_t number = UINT64_MAX;
    pal_json meta;

    if (pal_json_parse(arena, get(name), NULL, &meta, NULL) == PAL_OK)
        pal_json_u64(pal_json_find(meta, member), &number);
    return number;
}

/* The contents of all lines that can be read and are not skipped. */
static const char *picoclaw_reads(const char *base)
{
    char name[256], *text = pal_arena_alloc(arena, 65536);
    uint64_t skip, line = 0;
    pal_str lines;

    snprintf(name, sizeof name, "%s.meta.json", base);
    skip = meta_number(name, "skip");
    snprintf(name, sizeof name, "%s.jsonl", base);
    lines = get(name);
    for (size_t at = 0; at < lines.len;) {
        const char *end = memchr(lines.data + at, '\n', lines.len - at);
        size_t len = end ? (size_t)(end - lines.data) - at : lines.len - at;
        pal_json value;

        if (len > 0 && ++line > skip &&
                pal_json_parse(arena, pal_str_make(lines.data + at, len), NULL, &value, NULL) ==
                        PAL_OK) {
            pal_str content = pal_json_string(pal_json_find(value, "content"), arena);

            snprintf(text + strlen(text), 1000, "%.*s|", PAL_STR_ARG(content));
        }
        at += len + 1;
    }
    return text;
}

/* ---- Tests ---- */

static void picoclaws_files_are_opened_as_they_are(void)
{
    pal_session session = {0};
    pal_id id;

    begin();
    put("telegram_1.jsonl", line_1);
    add("telegram_1.jsonl", line_2);
    put_meta("telegram_1.meta.json", "telegram:1",
            ",\n  \"scope\": {\"version\": 1},\n  \"aliases\": [\"agent:main:main\", \"old:1\"],\n"
            "  \"unknown\": {\"a\": [1]}");
    if (!reopen())
        return;
    id = by_key("telegram:1");
    CHECK(shows(id, "one < 1|two|"));
    CHECK(pal_store_find(store, S(""), PAL_FIND_ALIAS, S("old:1"), arena, &session, &err) ==
            PAL_OK);
    CHECK(pal_id_equal(session.id, id) && session.aliases_len == 2 && session.last_seq == 2);
    CHECK(pal_store_find(store, S(""), PAL_FIND_ALIAS, S("agent:main:main"), arena, &session,
                  &err) == PAL_NOT_FOUND);
    CHECK(say(id, "three"));
    CHECK(strncmp(get("telegram_1.jsonl").data, line_1, strlen(line_1)) == 0);
    CHECK(strcmp(picoclaw_reads("telegram_1"), "one < 1|two|three|") == 0);
    CHECK(meta_number("telegram_1.meta.json", "count") == 3);
    CHECK(strstr(get("telegram_1.meta.json").data, "unknown") != NULL);
    CHECK(strstr(get("telegram_1.meta.json").data, "agent:main:main") != NULL);
    reopen();
    CHECK(pal_id_equal(by_key("telegram:1"), id) && shows(id, "one < 1|two|three|"));
}

static void picoclaw_may_go_on_meanwhile(void)
{
    pal_id id;

    begin();
    put("a.jsonl", line_1);
    put_meta("a.meta.json", "a", "");
    if (!reopen())
        return;
    id = by_key("a");
    CHECK(say(id, "ours"));
    add("a.jsonl", line_3);
    CHECK(say(id, "again"));
    CHECK(shows(id, "one < 1|ours|three|again|"));
    put("b.jsonl", line_2);
    put_meta("b.meta.json", "b", "");
    CHECK(shows(by_key("b"), "two|"));
    reopen();
    CHECK(shows(by_key("a"), "one < 1|ours|three|again|"));
    CHECK(strcmp(picoclaw_reads("a"), "one < 1|ours|three|again|") == 0);
}

static void what_picoclaw_skips_and_sums_up_is_known(void)
{
    pal_mark *marks = NULL;
    size_t len = 0;
    pal_id id;

    begin();
    put("s.jsonl", line_1);
    add("s.jsonl", "{broken\n\n");
    add("s.jsonl", line_2);
    add("s.jsonl", line_3);
    put("s.meta.json", "{\"key\":\"s\",\"summary\":\"so far\",\"skip\":3,\"count\":1}");
    for (int round = 0; round < 3; round++) {
        if (!reopen())
            return;
        id = by_key("s");
        CHECK(pal_store_marks(store, S(""), id, arena, &marks, &len, &err) == PAL_OK);
        CHECK(len == 2 && marks[1].kind == PAL_MARK_CHECKPOINT && marks[1].seq == 2);
        CHECK(len == 2 && strstr(marks[1].body.data, "so far") != NULL);
        CHECK(shows(id, round == 0 ? "three|" : round == 1 ? "three|x|" : "three|x|x|"));
        CHECK(say(id, "x"));
        CHECK(meta_number("s.meta.json", "skip") == 3);
        CHECK(meta_number("s.meta.json", "count") == 5 + (uint64_t)round);
        CHECK(strstr(get("s.meta.json").data, "so far") != NULL);
    }
    CHECK(strcmp(picoclaw_reads("s"), "three|x|x|x|") == 0);
}

/* TruncateHistory(), then Compact(): only the meta file at first, then the lines anew. */
static void picoclaw_may_cut_and_compact(void)
{
    pal_id id;

    begin();
    if (!reopen())
        return;
    put("c.jsonl", line_1);
    add("c.jsonl", line_2);
    add("c.jsonl", line_3);
    put_meta("c.meta.json", "c", "");
    id = by_key("c");
    CHECK(say(id, "x"));
    put("c.meta.new",
            "{\"key\":\"c\",\"summary\":\"\",\"skip\":1,\"count\":4,"
            "\"updated_at\":\"2100-01-01T00:00:00Z\"}");
    rename_in("c.meta.new", "c.meta.json");
    CHECK(shows(id, "two|three|x|") && say(id, "y") && shows(id, "two|three|x|y|"));
    CHECK(meta_number("c.meta.json", "skip") == 1);
    put("c.meta.new",
            "{\"key\":\"c\",\"summary\":\"\",\"skip\":0,\"count\":3,"
            "\"updated_at\":\"2100-01-02T00:00:00Z\"}");
    rename_in("c.meta.new", "c.meta.json");
    put("c.new", line_2);
    add("c.new", line_3);
    add("c.new", line_1);
    rename_in("c.new", "c.jsonl");
    CHECK(shows(id, "two|three|one < 1|"));
    CHECK(say(id, "z") && shows(id, "two|three|one < 1|z|"));
    reopen();
    CHECK(shows(by_key("c"), "two|three|one < 1|z|"));
    CHECK(strcmp(picoclaw_reads("c"), "two|three|one < 1|z|") == 0);
}

static void a_reset_is_a_skip_for_picoclaw(void)
{
    pal_mark mark;
    pal_id id;

    begin();
    put("r.jsonl", line_1);
    if (!reopen())
        return;
    id = by_key("r");
    CHECK(pal_store_reset(store, S(""), id, false, &mark, &err) == PAL_OK);
    CHECK(say(id, "new") && shows(id, "new|"));
    CHECK(strcmp(picoclaw_reads("r"), "new|") == 0);
    reopen();
    CHECK(shows(id, "new|"));
}

static void a_torn_tail_swallows_nothing(void)
{
    size_t len = strlen(line_3);

    for (size_t cut = 0; cut <= len; cut++) {
        bool is_whole = cut >= len - 1;
        pal_id id;

        begin();
        put("t.jsonl", line_1);
        add("t.jsonl", line_2);
        put_bytes("t.jsonl", line_3, cut, O_APPEND);
        put_meta("t.meta.json", "t", "");
        if (!reopen())
            return;
        id = by_key("t");
        CHECK(say(id, "next"));
        if (!CHECK(shows(id, is_whole ? "one < 1|two|three|next|" : "one < 1|two|next|")))
            printf("# cut at %zu\n", cut);
        reopen();
        CHECK(shows(id, is_whole ? "one < 1|two|three|next|" : "one < 1|two|next|"));
        CHECK(strcmp(picoclaw_reads("t"),
                      is_whole ? "one < 1|two|three|next|" : "one < 1|two|next|") == 0);
    }
}

/* What was acknowledged is in the log too: a tail that the power took comes back. */
static void a_lost_tail_comes_back(void)
{
    pal_session given = {.key = S("k")};
    size_t before, after;
    char path[512];
    pal_str log;
    pal_id id;

    begin();
    if (!reopen() || !CHECK(pal_store_create(store, &given, &id, &err) == PAL_OK))
        return;
    CHECK(say(id, "first"));
    before = get("k.jsonl").len;
    CHECK(say(id, "second"));
    after = get("k.jsonl").len;
    log = get(".palaver/log");
    path_of("k.jsonl", path);
    for (size_t len = before; len <= after; len++) {
        pal_store_close(store);
        store = NULL;
        CHECK(truncate(path, (off_t)len) == 0);
        if (len % 7 == 0)
            add("k.jsonl", line_3);
        put_bytes(".palaver/log", log.data, log.len, O_TRUNC);
        if (!reopen())
            return;
        if (!CHECK(shows(id, len % 7 == 0 ? "first|second|three|" : "first|second|")))
            printf("# cut at %zu\n", len);
    }
}

static void a_torn_log_takes_back_only_what_was_not_acknowledged(void)
{
    pal_session given = {.key = S("k")};
    size_t before, log_before;
    char path[512], log_path[512];
    pal_str log;
    pal_id id;

    begin();
    if (!reopen() || !CHECK(pal_store_create(store, &given, &id, &err) == PAL_OK))
        return;
    CHECK(say(id, "first"));
    before = get("k.jsonl").len;
    log_before = get(".palaver/log").len;
    CHECK(say(id, "second"));
    log = get(".palaver/log");
    path_of("k.jsonl", path);
    path_of(".palaver/log", log_path);
    for (size_t len = log_before; len < log.len; len++) {
        pal_store_close(store);
        store = NULL;
        put_bytes(".palaver/log", log.data, len, O_TRUNC);
        CHECK(truncate(path, (off_t)before) == 0);
        if (!reopen())
            return;
        if (!CHECK(shows(id, "first|") && say(id, "third") && shows(id, "first|third|")))
            printf("# cut at %zu\n", len);
    }
}

/* Damage costs what it hits: the lines are elsewhere, and so is what was logged before and after.
 */
static void a_damaged_log_is_read_around(void)
{
    pal_session given = {.key = S("k")}, other = {.key = S("later")};
    pal_mark mark = {.kind = PAL_MARK_PIN, .seq = 1};
    uint64_t findings = 0;
    size_t from, to;
    pal_id id, later;
    pal_str log;

    begin();
    if (!reopen() || !CHECK(pal_store_create(store, &given, &id, &err) == PAL_OK))
        return;
    CHECK(say(id, "first"));
    from = get(".palaver/log").len;
    CHECK(pal_store_mark(store, S(""), id, &mark, &err) == PAL_OK);
    to = get(".palaver/log").len;
    CHECK(pal_store_create(store, &other, &later, &err) == PAL_OK && say(later, "second"));
    log = get(".palaver/log");
    for (size_t at = from; at < to; at++) {
        static char copy[65536];

        if (!CHECK(log.len <= sizeof copy))
            return;
        memcpy(copy, log.data, log.len);
        copy[at] ^= 1;
        pal_store_close(store);
        store = NULL;
        put_bytes(".palaver/log", copy, log.len, O_TRUNC);
        if (!reopen())
            return;
        if (!CHECK(shows(id, "first|") && shows(later, "second|") &&
                    pal_store_check(store, false, NULL, NULL, NULL, &findings, &err) == PAL_OK &&
                    findings == 1))
            printf("# damaged at %zu\n", at);
    }
}

static void keys_that_look_alike_keep_apart(void)
{
    pal_session first = {.key = S("a:b")}, second = {.key = S("a_b")}, third = {.key = S("a/b")};
    pal_id ids[3];

    begin();
    if (!reopen())
        return;
    CHECK(pal_store_create(store, &first, &ids[0], &err) == PAL_OK && say(ids[0], "x"));
    CHECK(pal_store_create(store, &second, &ids[1], &err) == PAL_OK && say(ids[1], "y"));
    CHECK(pal_store_create(store, &third, &ids[2], &err) == PAL_OK && say(ids[2], "z"));
    CHECK(strcmp(picoclaw_reads("a_b"), "x|") == 0);
    reopen();
    CHECK(shows(by_key("a:b"), "x|") && shows(by_key("a_b"), "y|") && shows(by_key("a/b"), "z|"));
}

static void a_key_may_be_used_again(void)
{
    pal_session given = {.key = S("k")};
    pal_id first, second;

    begin();
    if (!reopen())
        return;
    CHECK(pal_store_create(store, &given, &first, &err) == PAL_OK && say(first, "old"));
    CHECK(pal_store_delete(store, S(""), first, &err) == PAL_OK && !is_there("k.jsonl"));
    CHECK(pal_store_create(store, &given, &second, &err) == PAL_OK && say(second, "new"));
    CHECK(strcmp(picoclaw_reads("k"), "new|") == 0);
    reopen();
    CHECK(shows(by_key("k"), "new|") && shows(first, "old|"));
    CHECK(pal_store_erase(store, S(""), second, NULL, &err) == PAL_OK && !is_there("k.jsonl"));
    CHECK(memmem(get(".palaver/log").data, get(".palaver/log").len, "new", 3) == NULL);
    CHECK(pal_store_restore(store, S(""), first, &err) == PAL_OK);
    CHECK(strcmp(picoclaw_reads("k"), "old|") == 0);
}

static void a_broken_meta_costs_only_itself(void)
{
    begin();
    put("m.jsonl", line_1);
    put("m.meta.json", "{\"key\": \"m\", \"su");
    if (!reopen())
        return;
    CHECK(shows(by_key("m"), "one < 1|"));
    CHECK(meta_number("m.meta.json", "count") == 1 && meta_number("m.meta.json", "skip") == 0);
}

static void a_long_line_is_refused_or_passed_over(void)
{
    static char text[(11u << 20) + 1];
    size_t len = sizeof text - 1;
    pal_id id;

    begin();
    memset(text, 'x', len);
    text[len] = '\0';
    put("l.jsonl", line_1);
    add("l.jsonl", "{\"role\":\"user\",\"content\":\"");
    add("l.jsonl", text);
    add("l.jsonl", "\"}\n");
    add("l.jsonl", line_2);
    if (reopen()) {
        id = by_key("l");
        CHECK(shows(id, "one < 1|two|"));
        CHECK(!say(id, text) && err.status == PAL_LIMIT);
        CHECK(say(id, "short") && shows(id, "one < 1|two|short|"));
    }
}

static void older_files_are_taken_over_once(void)
{
    static const char legacy[] = "{\"key\":\"old:1\",\"summary\":\"sum\",\"messages\":["
                                 "{\"role\":\"user\",\"content\":\"a\"},"
                                 "{\"role\":\"assistant\",\"content\":\"b\"}],"
                                 "\"created\":\"2026-01-01T00:00:00Z\","
                                 "\"updated\":\"2026-01-02T00:00:00Z\"}";
    begin();
    put("old_1.json", legacy);
    put("bad.json", "{");
    if (!reopen())
        return;
    CHECK(shows(by_key("old:1"), "a|b|") && is_there("old_1.json.migrated"));
    CHECK(!is_there("old_1.json") && is_there("bad.json"));
    CHECK(strcmp(picoclaw_reads("old_1"), "a|b|") == 0);
    CHECK(strstr(get("old_1.meta.json").data, "\"sum\"") != NULL);
    put("old_1.json", legacy); /* as if the renaming had been lost */
    reopen();
    CHECK(shows(by_key("old:1"), "a|b|") && !is_there("old_1.json"));
}

static void two_processes_write_in_turn(void)
{
    pal_session given = {.key = S("k")};
    int status = 1;
    pal_id id;
    pid_t pid;

    begin();
    if (!reopen() || !CHECK(pal_store_create(store, &given, &id, &err) == PAL_OK))
        return;
    CHECK(say(id, "0"));
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        bool held;

        store = NULL; /* the parent's */
        held = pal_store_open(url, NULL, &store, &err) == PAL_OK;
        for (int i = 0; held && i < 50; i++)
            held = say(id, "x");
        pal_store_close(store);
        _exit(!held);
    }
    for (int i = 0; i < 50; i++)
        CHECK(say(id, "x"));
    waitpid(pid, &status, 0);
    CHECK(status == 0 && strlen(texts_of(id)) == 202);
    reopen();
    CHECK(strlen(texts_of(id)) == 202 && meta_number("k.meta.json", "count") == 101);
}

static void a_write_that_fails_leaves_nothing(void)
{
    struct rlimit before, limit;
    static char line[1u << 20];
    pal_session given = {.key = S("fresh")};
    pal_id id, fresh;
    size_t len;

    begin();
    memset(line, ' ', sizeof line);
    line[sizeof line - 1] = '\0';
    put("w.jsonl", line_1);
    add("w.jsonl", line);
    add("w.jsonl", "\n");
    signal(SIGXFSZ, SIG_IGN);
    if (reopen() && CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0)) {
        id = by_key("w");
        CHECK(say(id, "two"));
        limit = before;
        limit.rlim_cur = get("w.jsonl").len + 20; /* in the middle of the line */
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        len = get("w.jsonl").len;
        CHECK(!say(id, "three") && err.status == PAL_IO);
        CHECK(get("w.jsonl").len == len);
        CHECK(shows(id, "one < 1|two|"));
        limit.rlim_cur = 10; /* not even the log */
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        CHECK(pal_store_create(store, &given, &fresh, &err) == PAL_IO);
        CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
        CHECK(say(id, "four") && shows(id, "one < 1|two|four|"));
        reopen();
        CHECK(shows(id, "one < 1|two|four|") && !is_there("fresh.meta.json"));
    }
}

static void what_is_no_directory_is_refused(void)
{
    pal_store *other = NULL;
    char path[600];

    begin();
    put("file", "x");
    snprintf(path, sizeof path, "jsonl:%s/file", directory);
    CHECK(pal_store_open(path, NULL, &other, &err) == PAL_IO && !other);
    CHECK(pal_store_open("jsonl:", NULL, &other, &err) == PAL_INVALID && !other);
    path_of("d.jsonl", path);
    CHECK(mkdir(path, 0755) == 0);
    CHECK(reopen());
}

int main(void)
{
    arena = pal_arena_new(0);
    scratch_make(true, directory);
    snprintf(url, sizeof url, "jsonl:%s", directory);
    RUN(picoclaws_files_are_opened_as_they_are);
    RUN(picoclaw_may_go_on_meanwhile);
    RUN(what_picoclaw_skips_and_sums_up_is_known);
    RUN(picoclaw_may_cut_and_compact);
    RUN(a_reset_is_a_skip_for_picoclaw);
    RUN(a_torn_tail_swallows_nothing);
    RUN(a_lost_tail_comes_back);
    RUN(a_torn_log_takes_back_only_what_was_not_acknowledged);
    RUN(a_damaged_log_is_read_around);
    RUN(keys_that_look_alike_keep_apart);
    RUN(a_key_may_be_used_again);
    RUN(a_broken_meta_costs_only_itself);
    RUN(a_long_line_is_refused_or_passed_over);
    RUN(older_files_are_taken_over_once);
    RUN(two_processes_write_in_turn);
    RUN(a_write_that_fails_leaves_nothing);
    RUN(what_is_no_directory_is_refused);
    pal_store_close(store);
    scratch_clear(directory, true);
    pal_arena_free(arena);
    return tap_done();
}
