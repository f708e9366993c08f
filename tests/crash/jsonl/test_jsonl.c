/* test_jsonl.c - "jsonl:DIR" with files that PicoClaw wrote, with files that are torn at every
 * byte, and with a second process. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "jsonl_dir.h"

static const char line_1[] = "{\"role\":\"user\",\"content\":\"one \\u003c 1\",\"created_at\":"
                             "\"2026-11-15T18:45:57.959653442Z\"}\n";
static const char line_2[] = "{\"role\":\"assistant\",\"content\":\"two\",\"odd\":[1,2]}\n";
static const char line_3[] = "{\"role\":\"user\",\"content\":\"three\"}\n";

/* ---- Tests ---- */

static void picoclaws_files_are_opened_unchanged(void)
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
    CHECK_STATUS(pal_store_find(test.store, S(""), PAL_SESSION_BY_ALIAS, S("old:1"), test.arena,
                         &session, &test.err),
            PAL_OK, &test.err);
    CHECK_ID(session.id, id);
    CHECK_EQ(session.aliases_len, 2);
    CHECK_EQ(session.last_seq, 2);
    CHECK_STATUS(pal_store_find(test.store, S(""), PAL_SESSION_BY_ALIAS, S("agent:main:main"),
                         test.arena, &session, &test.err),
            PAL_NOT_FOUND, &test.err);
    CHECK(say(id, "three"));
    CHECK_BEGINS(get("telegram_1.jsonl"), line_1);
    CHECK_STR(picoclaw_reads("telegram_1"), "one < 1|two|three|");
    CHECK_EQ(meta_number("telegram_1.meta.json", "count"), 3);
    CHECK_CONTAINS(get("telegram_1.meta.json").data, "unknown");
    CHECK_CONTAINS(get("telegram_1.meta.json").data, "agent:main:main");
    reopen();
    CHECK_ID(by_key("telegram:1"), id);
    CHECK(shows(id, "one < 1|two|three|"));
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
    CHECK_STR(picoclaw_reads("a"), "one < 1|ours|three|again|");
}

static void skips_and_summaries_of_picoclaw_are_known(void)
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
        CHECK_STATUS(pal_store_marks(test.store, S(""), id, test.arena, &marks, &len, &test.err),
                PAL_OK, &test.err);
        if (CHECK_EQ(len, 2)) {
            CHECK_EQ(marks[1].kind, PAL_MARK_CHECKPOINT);
            CHECK_EQ(marks[1].seq, 2);
            CHECK_CONTAINS(marks[1].body.data, "so far");
        }
        CHECK(shows(id, round == 0 ? "three|" : round == 1 ? "three|x|" : "three|x|x|"));
        CHECK(say(id, "x"));
        CHECK_EQ(meta_number("s.meta.json", "skip"), 3);
        CHECK_EQ(meta_number("s.meta.json", "count"), 5 + (uint64_t)round);
        CHECK_CONTAINS(get("s.meta.json").data, "so far");
    }
    CHECK_STR(picoclaw_reads("s"), "three|x|x|x|");
}

/* TruncateHistory(), then Compact(): first only the meta file changes, then the lines are
 * rewritten. */
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
    if (CHECK(shows(id, "two|three|x|"))) {
        CHECK(say(id, "y"));
        CHECK(shows(id, "two|three|x|y|"));
    }
    CHECK_EQ(meta_number("c.meta.json", "skip"), 1);
    put("c.meta.new",
            "{\"key\":\"c\",\"summary\":\"\",\"skip\":0,\"count\":3,"
            "\"updated_at\":\"2100-01-02T00:00:00Z\"}");
    rename_in("c.meta.new", "c.meta.json");
    put("c.new", line_2);
    add("c.new", line_3);
    add("c.new", line_1);
    rename_in("c.new", "c.jsonl");
    CHECK(shows(id, "two|three|one < 1|"));
    CHECK(say(id, "z"));
    CHECK(shows(id, "two|three|one < 1|z|"));
    reopen();
    CHECK(shows(by_key("c"), "two|three|one < 1|z|"));
    CHECK_STR(picoclaw_reads("c"), "two|three|one < 1|z|");
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
    CHECK_STATUS(
            pal_store_reset(test.store, S(""), id, false, &mark, &test.err), PAL_OK, &test.err);
    CHECK(say(id, "new"));
    CHECK(shows(id, "new|"));
    CHECK_STR(picoclaw_reads("r"), "new|");
    reopen();
    CHECK(shows(id, "new|"));
}

static void a_truncation_is_a_skip_for_picoclaw(void)
{
    pal_mark mark = {0};
    pal_id id;

    begin();
    put("t.jsonl", line_1);
    add("t.jsonl", line_2);
    add("t.jsonl", line_3);
    if (!reopen())
        return;
    id = by_key("t");
    CHECK_STATUS(pal_store_truncate(test.store, S(""), id, 1, &mark, &test.err), PAL_OK, &test.err);
    CHECK(shows(id, "three|"));
    CHECK_EQ(meta_number("t.meta.json", "skip"), 2);
    CHECK_STR(picoclaw_reads("t"), "three|");
    reopen();
    if (CHECK(shows(id, "three|"))) {
        CHECK(say(id, "new"));
        CHECK_EQ(meta_number("t.meta.json", "skip"), 2);
    }
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
        CHECK_STR(picoclaw_reads("t"), is_whole ? "one < 1|two|three|next|" : "one < 1|two|next|");
    }
}

/* The log before its last batch is known to be finished. */
static pal_str unfinished_log(void)
{
    pal_str log = get(".palaver/log");

    while (log.len > 0 && memcmp(log.data + log.len - 1, "P", 1) != 0)
        log.len--;
    return pal_str_make(log.data, log.len > 0 ? log.len - 1 : 0);
}

/* The messages in the log are written again: a writer died before the lines were complete, and
 * PicoClaw may have appended after them. PicoClaw's line begins as ours do. */
static void a_lost_tail_comes_back(void)
{
    pal_session given = {.key = S("k")};
    size_t before, after;
    char path[512];
    pal_str log;
    pal_id id;

    begin();
    if (!reopen() ||
            !CHECK_STATUS(pal_store_create(test.store, &given, &id, &test.err), PAL_OK, &test.err))
        return;
    CHECK(say(id, "first"));
    before = get("k.jsonl").len;
    CHECK(say(id, "a {\"role\" in it"));
    after = get("k.jsonl").len;
    log = unfinished_log();
    path_of("k.jsonl", path);
    for (size_t i = 0; i < 2 * (after - before + 1); i++) {
        size_t len = before + i / 2;

        pal_store_close(test.store);
        test.store = NULL;
        CHECK_EQ(truncate(path, (off_t)len), 0);
        if (i % 2)
            add("k.jsonl", line_3);
        put_bytes(".palaver/log", log.data, log.len, O_TRUNC);
        if (!reopen())
            return;
        if (!CHECK(shows(
                    id, i % 2 ? "first|a {\"role\" in it|three|" : "first|a {\"role\" in it|")))
            printf("# cut at %zu\n", len);
    }
}

/* The same, with a torn line that is the first of its file. */
static void a_lost_first_line_comes_back(void)
{
    pal_session given = {.key = S("k")};
    char path[512];
    size_t after;
    pal_str log;
    pal_id id;

    begin();
    if (!reopen() ||
            !CHECK_STATUS(pal_store_create(test.store, &given, &id, &test.err), PAL_OK, &test.err))
        return;
    CHECK(say(id, "first"));
    after = get("k.jsonl").len;
    log = unfinished_log();
    path_of("k.jsonl", path);
    for (size_t len = 0; len <= after; len++) {
        pal_store_close(test.store);
        test.store = NULL;
        CHECK_EQ(truncate(path, (off_t)len), 0);
        if (len % 2)
            add("k.jsonl", line_3);
        put_bytes(".palaver/log", log.data, log.len, O_TRUNC);
        if (!reopen())
            return;
        if (!CHECK(shows(id, len % 2 ? "first|three|" : "first|")))
            printf("# cut at %zu\n", len);
    }
}

/* PicoClaw has removed the message that the log ends with. The message must not come back, whether
 * its writer is known to have finished or not. */
static void messages_that_picoclaw_cut_stay_cut(void)
{
    for (int is_finished = 0; is_finished < 2; is_finished++) {
        pal_session given = {.key = S("k")};
        pal_op ops[2] = {{.kind = PAL_OP_APPEND}, {.kind = PAL_OP_APPEND}};
        pal_message first, second;
        pal_str log;
        pal_id id;

        begin();
        if (!reopen() ||
                !CHECK_STATUS(
                        pal_store_create(test.store, &given, &id, &test.err), PAL_OK, &test.err))
            return;
        first = pal_message_text(test.arena, PAL_ROLE_USER, S("first"));
        second = pal_message_text(test.arena, PAL_ROLE_USER, S("second"));
        ops[0].session = ops[1].session = id;
        ops[0].u.append.messages = &first;
        ops[1].u.append.messages = &second;
        ops[0].u.append.messages_len = ops[1].u.append.messages_len = 1;
        ops[0].u.append.expected_seq = ops[1].u.append.expected_seq = PAL_SEQ_ANY;
        CHECK_STATUS(pal_store_apply(test.store, ops, 2, &test.err), PAL_OK, &test.err);
        CHECK(shows(id, "first|second|"));
        log = is_finished ? get(".palaver/log") : unfinished_log();
        pal_store_close(test.store);
        test.store = NULL;
        put_bytes(".palaver/log", log.data, log.len, O_TRUNC);
        put("k.meta.json", "{\"key\":\"k\",\"skip\":0,\"count\":3}");
        put("k.new", line_3);
        for (int i = 0; i < 20; i++)
            add("k.new", line_2);
        rename_in("k.new", "k.jsonl");
        if (!reopen())
            return;
        CHECK_BEGINS(texts_of(id), "three|two|two|");
        CHECK_LACKS(texts_of(id), "first");
        CHECK_LACKS(texts_of(id), "second");
        CHECK_EQ(strlen(texts_of(id)), 86);
    }
}

/* PicoClaw has removed a line that is as long as the one that the log ends with, so the file has
 * the length that it had before that message. The message is still there, also if the new file has
 * the inode number of the old one. */
static void messages_that_picoclaw_compacted_are_there_once(void)
{
    for (int is_same_file = 0; is_same_file < 2; is_same_file++) {
        pal_session given = {.key = S("k")};
        pal_str log, lines;
        size_t half;
        pal_id id;

        begin();
        if (!reopen() ||
                !CHECK_STATUS(
                        pal_store_create(test.store, &given, &id, &test.err), PAL_OK, &test.err))
            return;
        CHECK(say(id, "a1"));
        CHECK(say(id, "a2"));
        log = unfinished_log();
        lines = get("k.jsonl");
        half = lines.len / 2;
        CHECK_EQ(lines.data[half - 1], '\n');
        pal_store_close(test.store);
        test.store = NULL;
        put_bytes(".palaver/log", log.data, log.len, O_TRUNC);
        put("k.meta.json", "{\"key\":\"k\",\"skip\":0,\"count\":1}");
        put_bytes(is_same_file ? "k.jsonl" : "k.new", lines.data + half, half, O_TRUNC);
        if (!is_same_file)
            rename_in("k.new", "k.jsonl");
        if (!reopen())
            return;
        CHECK(shows(id, "a2|"));
        CHECK_EQ(get("k.jsonl").len, half);
    }
}

static void a_torn_log_loses_only_unacknowledged_work(void)
{
    pal_session given = {.key = S("k")};
    size_t before, log_before;
    char path[512], log_path[512];
    pal_str log;
    pal_id id;

    begin();
    if (!reopen() ||
            !CHECK_STATUS(pal_store_create(test.store, &given, &id, &test.err), PAL_OK, &test.err))
        return;
    CHECK(say(id, "first"));
    before = get("k.jsonl").len;
    log_before = get(".palaver/log").len;
    CHECK(say(id, "second"));
    log = unfinished_log();
    path_of("k.jsonl", path);
    path_of(".palaver/log", log_path);
    for (size_t len = log_before; len < log.len; len++) {
        pal_store_close(test.store);
        test.store = NULL;
        put_bytes(".palaver/log", log.data, len, O_TRUNC);
        CHECK_EQ(truncate(path, (off_t)before), 0);
        if (!reopen())
            return;
        if (!CHECK(shows(id, "first|")) || !CHECK(say(id, "third")) ||
                !CHECK(shows(id, "first|third|")))
            printf("# cut at %zu\n", len);
    }
}

/* Sectors can reach the disk in any order. A batch whose end is there without its beginning was
 * never acknowledged, and the next batch is not taken for a part of it. */
static void a_batch_without_its_beginning_never_happened(void)
{
    pal_session one = {.key = S("one")}, two = {.key = S("two")};
    pal_session *both[] = {&one, &two};
    pal_op ops[2] = {{.kind = PAL_OP_CREATE}, {.kind = PAL_OP_CREATE}};
    pal_session found;
    size_t before;
    pal_str log;
    char *data;

    begin();
    if (!reopen() ||
            !CHECK_STATUS(pal_store_create(
                                  test.store, &(pal_session){.key = S("zero")}, &one.id, &test.err),
                    PAL_OK, &test.err))
        return;
    one.id = (pal_id){{0}};
    before = get(".palaver/log").len;
    ops[0].u.create.session = both[0];
    ops[1].u.create.session = both[1];
    if (CHECK_STATUS(pal_store_apply(test.store, ops, 2, &test.err), PAL_OK, &test.err))
        CHECK_STATUS(ops[1].status, PAL_OK);
    log = unfinished_log();
    data = (char *)log.data;
    pal_store_close(test.store);
    test.store = NULL;
    if (!CHECK_THAT(log.len, >, before + 40))
        return;
    data[before + 40] ^= 1;
    put_bytes(".palaver/log", data, log.len, O_TRUNC);
    unlink_in("one.meta.json");
    unlink_in("two.meta.json");
    for (int round = 0; round < 2; round++) {
        if (!reopen())
            return;
        CHECK_STATUS(pal_store_find(test.store, S(""), PAL_SESSION_BY_KEY, S("one"), test.arena,
                             &found, &test.err),
                PAL_NOT_FOUND, &test.err);
        CHECK_STATUS(pal_store_find(test.store, S(""), PAL_SESSION_BY_KEY, S("two"), test.arena,
                             &found, &test.err),
                PAL_NOT_FOUND, &test.err);
        CHECK(shows(by_key("zero"), round ? "x|" : ""));
        CHECK(say(by_key("zero"), "x"));
    }
}

/* Damage in the log costs only the records that it hits: the lines are in other files, and earlier
 * and later records are kept. */
static bool finds(bool repair, uint64_t wanted)
{
    uint64_t findings = 0;

    return CHECK_STATUS(pal_store_check(test.store, repair, NULL, NULL, NULL, &findings, &test.err),
                   PAL_OK, &test.err) &&
            CHECK_EQ(findings, wanted);
}

/* The damaged records are lost, and fsck reports them until they are repaired. Nothing is lost only
 * if the damage hit the record that marks a batch as finished. */
static void a_damaged_log_is_read_around(void)
{
    pal_session given = {.key = S("k")}, other = {.key = S("later")};
    pal_mark mark = {.kind = PAL_MARK_PIN, .seq = 1};
    const size_t done_len = 45;
    size_t from, to, lost;
    pal_id id, later;
    pal_str log;

    begin();
    if (!reopen() ||
            !CHECK_STATUS(pal_store_create(test.store, &given, &id, &test.err), PAL_OK, &test.err))
        return;
    CHECK(say(id, "first"));
    from = get(".palaver/log").len;
    CHECK_STATUS(pal_store_mark(test.store, S(""), id, &mark, &test.err), PAL_OK, &test.err);
    to = get(".palaver/log").len;
    if (CHECK_STATUS(pal_store_create(test.store, &other, &later, &test.err), PAL_OK, &test.err))
        CHECK(say(later, "second"));
    log = get(".palaver/log");
    for (size_t at = from; at < to; at++) {
        static char copy[65536];

        if (!CHECK_THAT(log.len, <=, sizeof copy))
            return;
        memcpy(copy, log.data, log.len);
        copy[at] ^= 1;
        pal_store_close(test.store);
        test.store = NULL;
        put_bytes(".palaver/log", copy, log.len, O_TRUNC);
        if (!reopen())
            return;
        lost = at < to - done_len;
        if (!CHECK(shows(id, "first|")) || !CHECK(shows(later, "second|")) ||
                !CHECK(finds(false, lost)) || !CHECK(reopen()) || !CHECK(finds(false, lost)) ||
                !CHECK(finds(true, lost)) || !CHECK(finds(false, 0)))
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
    if (CHECK_STATUS(pal_store_create(test.store, &first, &ids[0], &test.err), PAL_OK, &test.err))
        CHECK(say(ids[0], "x"));
    if (CHECK_STATUS(pal_store_create(test.store, &second, &ids[1], &test.err), PAL_OK, &test.err))
        CHECK(say(ids[1], "y"));
    if (CHECK_STATUS(pal_store_create(test.store, &third, &ids[2], &test.err), PAL_OK, &test.err))
        CHECK(say(ids[2], "z"));
    CHECK_STR(picoclaw_reads("a_b"), "x|");
    reopen();
    CHECK(shows(by_key("a:b"), "x|"));
    CHECK(shows(by_key("a_b"), "y|"));
    CHECK(shows(by_key("a/b"), "z|"));
}

static void a_key_may_be_used_again(void)
{
    pal_session given = {.key = S("k")};
    pal_id first, second;

    begin();
    if (!reopen())
        return;
    if (CHECK_STATUS(pal_store_create(test.store, &given, &first, &test.err), PAL_OK, &test.err))
        CHECK(say(first, "old"));
    CHECK_STATUS(pal_store_delete(test.store, S(""), first, &test.err), PAL_OK, &test.err);
    CHECK(!is_there("k.jsonl"));
    if (CHECK_STATUS(pal_store_create(test.store, &given, &second, &test.err), PAL_OK, &test.err))
        CHECK(say(second, "new"));
    CHECK_STR(picoclaw_reads("k"), "new|");
    reopen();
    CHECK(shows(by_key("k"), "new|"));
    CHECK(shows(first, "old|"));
    CHECK_STATUS(pal_store_erase(test.store, S(""), second, NULL, &test.err), PAL_OK, &test.err);
    CHECK(!is_there("k.jsonl"));
    CHECK_LACKS(get(".palaver/log"), "new");
    CHECK_STATUS(pal_store_restore(test.store, S(""), first, &test.err), PAL_OK, &test.err);
    CHECK_STR(picoclaw_reads("k"), "old|");
}

static void a_broken_meta_costs_only_itself(void)
{
    begin();
    put("m.jsonl", line_1);
    put("m.meta.json", "{\"key\": \"m\", \"su");
    if (!reopen())
        return;
    CHECK(shows(by_key("m"), "one < 1|"));
    CHECK_EQ(meta_number("m.meta.json", "count"), 1);
    CHECK_EQ(meta_number("m.meta.json", "skip"), 0);
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
        CHECK(!say(id, text));
        CHECK_STATUS(test.err.status, PAL_LIMIT);
        CHECK(say(id, "short"));
        CHECK(shows(id, "one < 1|two|short|"));
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
    CHECK(shows(by_key("old:1"), "a|b|"));
    CHECK(is_there("old_1.json.migrated"));
    CHECK(!is_there("old_1.json"));
    CHECK(is_there("bad.json"));
    CHECK_STR(picoclaw_reads("old_1"), "a|b|");
    CHECK_CONTAINS(get("old_1.meta.json").data, "\"sum\"");
    put("old_1.json", legacy); /* as if the rename had been lost */
    reopen();
    CHECK(shows(by_key("old:1"), "a|b|"));
    CHECK(!is_there("old_1.json"));
}

static void two_processes_write_in_turn(void)
{
    pal_session given = {.key = S("k")};
    int status = 1;
    pal_id id;
    pid_t pid;

    begin();
    if (!reopen() ||
            !CHECK_STATUS(pal_store_create(test.store, &given, &id, &test.err), PAL_OK, &test.err))
        return;
    CHECK(say(id, "0"));
    pal_store_close(test.store); /* and its thread, which a child would not have */
    test.store = NULL;
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        bool held = pal_store_open(test.url, NULL, &test.store, &test.err) == PAL_OK;

        for (int i = 0; held && i < 50; i++)
            held = say(id, "x");
        pal_store_close(test.store);
        _exit(!held);
    }
    CHECK(reopen());
    for (int i = 0; i < 50; i++)
        CHECK(say(id, "x"));
    waitpid(pid, &status, 0);
    CHECK_EQ(status, 0);
    CHECK_EQ(strlen(texts_of(id)), 202);
    reopen();
    CHECK_EQ(strlen(texts_of(id)), 202);
    CHECK_EQ(meta_number("k.meta.json", "count"), 101);
}

/* PicoClaw appends to the same file without a lock: no line of either is lost. */
static void two_programs_append_at_once(void)
{
    int status = 1, busy = 0, theirs = 0, ours = 0;
    const char *text;
    pal_id id;
    pid_t pid;

    begin();
    put("p.jsonl", line_1);
    if (!reopen())
        return;
    id = by_key("p");
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 1000; i++) {
            add("p.jsonl", line_3);
            usleep(50);
        }
        _exit(0);
    }
    for (int i = 0; i < 200 || waitpid(pid, &status, WNOHANG) == 0; i++) {
        pal_message message = pal_message_text(test.arena, PAL_ROLE_USER, S("ours"));
        char client_id[16];
        pal_status sent;

        snprintf(client_id, sizeof client_id, "%d", i);
        message.client_id = S(client_id);
        do {
            sent = pal_store_append(test.store, S(""), id, &message, 1, PAL_SEQ_ANY, &test.err);
            busy += sent == PAL_BUSY;
        } while (sent == PAL_BUSY);
        ours += CHECK_STATUS(sent, PAL_OK);
    }
    waitpid(pid, &status, 0);
    reopen();
    for (text = picoclaw_reads("p"); *text; text = strchr(text, '|') + 1) {
        theirs += strncmp(text, "three|", 6) == 0;
        ours -= strncmp(text, "ours|", 5) == 0;
    }
    CHECK_EQ(theirs, 1000);
    CHECK_EQ(ours, 0);
    printf("# %d times another was faster\n", busy);
}

/* ---- Syncs are counted ---- */

static int file_syncs;

int fdatasync(int fd)
{
    __atomic_add_fetch(&file_syncs, 1, __ATOMIC_RELAXED);
    return (int)syscall(SYS_fdatasync, fd);
}

static void a_batch_syncs_each_file_once(void)
{
    pal_session given[2] = {{.key = S("a")}, {.key = S("b")}};
    pal_op ops[20] = {{.kind = PAL_OP_NONE}};
    pal_message messages[20];
    pal_id ids[2];
    int before;

    begin();
    if (!reopen())
        return;
    for (int i = 0; i < 2; i++) {
        if (CHECK_STATUS(
                    pal_store_create(test.store, &given[i], &ids[i], &test.err), PAL_OK, &test.err))
            CHECK(say(ids[i], "0"));
    }
    for (int i = 0; i < 20; i++) {
        messages[i] = pal_message_text(test.arena, PAL_ROLE_USER, S(i < 10 ? "x" : "y"));
        ops[i].kind = PAL_OP_APPEND;
        ops[i].session = ids[i % 2];
        ops[i].u.append.messages = &messages[i];
        ops[i].u.append.messages_len = 1;
        ops[i].u.append.expected_seq = PAL_SEQ_ANY;
    }
    before = file_syncs;
    CHECK_STATUS(pal_store_apply(test.store, ops, 20, &test.err), PAL_OK, &test.err);
    CHECK_EQ(file_syncs - before, 3); /* the log and two files */
    CHECK(shows(ids[0], "0|x|x|x|x|x|y|y|y|y|y|"));
    CHECK(shows(ids[1], "0|x|x|x|x|x|y|y|y|y|y|"));
    reopen();
    CHECK(shows(ids[0], "0|x|x|x|x|x|y|y|y|y|y|"));
    CHECK(shows(ids[1], "0|x|x|x|x|x|y|y|y|y|y|"));
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
    if (reopen() && CHECK_EQ(getrlimit(RLIMIT_FSIZE, &before), 0)) {
        id = by_key("w");
        CHECK(say(id, "two"));
        limit = before;
        limit.rlim_cur = get("w.jsonl").len + 20; /* in the middle of the line */
        CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
        len = get("w.jsonl").len;
        CHECK(!say(id, "three"));
        CHECK_STATUS(test.err.status, PAL_IO);
        CHECK_EQ(get("w.jsonl").len, len);
        CHECK(shows(id, "one < 1|two|"));
        limit.rlim_cur = 10; /* not even the log */
        CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
        CHECK_STATUS(pal_store_create(test.store, &given, &fresh, &test.err), PAL_IO, &test.err);
        CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
        CHECK(say(id, "four"));
        CHECK(shows(id, "one < 1|two|four|"));
        reopen();
        CHECK(shows(id, "one < 1|two|four|"));
        CHECK(!is_there("fresh.meta.json"));
    }
}

int main(void)
{
    dir_make();
    RUN(picoclaws_files_are_opened_unchanged);
    RUN(picoclaw_may_go_on_meanwhile);
    RUN(skips_and_summaries_of_picoclaw_are_known);
    RUN(picoclaw_may_cut_and_compact);
    RUN(a_reset_is_a_skip_for_picoclaw);
    RUN(a_truncation_is_a_skip_for_picoclaw);
    RUN(a_torn_tail_swallows_nothing);
    RUN(a_lost_tail_comes_back);
    RUN(a_lost_first_line_comes_back);
    RUN(messages_that_picoclaw_cut_stay_cut);
    RUN(messages_that_picoclaw_compacted_are_there_once);
    RUN(a_torn_log_loses_only_unacknowledged_work);
    RUN(a_batch_without_its_beginning_never_happened);
    RUN(a_damaged_log_is_read_around);
    RUN(keys_that_look_alike_keep_apart);
    RUN(a_key_may_be_used_again);
    RUN(a_broken_meta_costs_only_itself);
    RUN(a_long_line_is_refused_or_passed_over);
    RUN(older_files_are_taken_over_once);
    RUN(two_processes_write_in_turn);
    RUN(two_programs_append_at_once);
    RUN(a_batch_syncs_each_file_once);
    RUN(a_write_that_fails_leaves_nothing);
    dir_done();
    return tap_done();
}
