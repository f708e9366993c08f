/* test_jsonl_kills.c - kills a writer of "jsonl:DIR" at random moments while PicoClaw works on the
 * same files: PicoClaw truncates histories (a higher `skip`), compacts them (rewrites the lines
 * without the hidden ones), stops halfway through that, and appends. The writer is also killed
 * while older files are imported.
 *
 * Every acknowledged message that PicoClaw did not remove must be there, in order and once, and so
 * must the messages of PicoClaw. Messages that PicoClaw has hidden must be hidden.
 *
 * Environment: CRASH_KILLS (200), CRASH_SEED. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include "crash/crash_pattern.h"
#include "jsonl_dir.h"

#define SESSIONS 4
#define LINES_MAX 65536
#define LEGACY_MESSAGES 300
#define MESSAGES_MAX 3 /* messages of one append */

/* The progress of the writer, in memory that outlives it. */
typedef struct progress {
    uint64_t sent[SESSIONS]; /* numbers of messages, from 1 */
    uint64_t acknowledged[SESSIONS];
    int failed;
} progress;

/* The expected contents of a session's file: everything after the lines that PicoClaw has
 * removed. */
typedef struct chat {
    uint64_t ours_cut, theirs_cut; /* numbers */
    uint64_t theirs;               /* written by PicoClaw */
    bool is_cut;                   /* since the store was last open */
    bool is_compacted;             /* since then, too */
    pal_str first;                 /* the content that is visible first then */
} chat;

static progress *common;
static chat chats[SESSIONS];
static uint64_t random_seed, random_counter, kills_asked = 200, kills, cuts, compactions;

static uint64_t chance(uint64_t below)
{
    return pattern_hash(random_seed, random_counter++) % below;
}

static void sleep_us(uint64_t us)
{
    struct timespec wait = {.tv_nsec = (long)us * 1000};

    nanosleep(&wait, NULL);
}

/* ---- The writer ---- */

static void must(pal_status status)
{
    if (status == PAL_OK)
        return;
    fprintf(stderr, "# the writer: %s: %s\n", pal_status_name(status), test.err.message);
    common->failed = 1;
    _exit(3);
}

static void write_some(uint64_t session, pal_id id)
{
    uint64_t count = 1 + chance(MESSAGES_MAX), number = common->sent[session];
    pal_message messages[MESSAGES_MAX];
    char texts[MESSAGES_MAX][32];

    for (uint64_t i = 0; i < count; i++) {
        snprintf(texts[i], sizeof texts[i], "ours %" PRIu64, ++number);
        messages[i] = pal_message_text(test.arena, PAL_ROLE_USER, S(texts[i]));
    }
    __atomic_store_n(&common->sent[session], number, __ATOMIC_SEQ_CST);
    must(pal_store_append(test.store, S(""), id, messages, count, PAL_SEQ_ANY, &test.err));
    __atomic_store_n(&common->acknowledged[session], number, __ATOMIC_SEQ_CST);
}

static void writer_run(uint64_t seed)
{
    pal_mark pin = {.kind = PAL_MARK_PIN};
    pal_id ids[SESSIONS];
    char key[32];

    random_seed = seed;
    must(pal_store_open(test.url, NULL, &test.store, &test.err));
    for (uint64_t i = 0; i < SESSIONS; i++) {
        pal_session given = {0};
        pal_op create = {.kind = PAL_OP_CREATE, .u.create = {.session = &given, .or_find = true}};

        snprintf(key, sizeof key, "chat:%d", (int)i);
        given.key = pal_str_of(key);
        must(pal_store_apply(test.store, &create, 1, &test.err));
        test.err = create.error;
        must(create.status);
        ids[i] = create.session;
    }
    for (;;) {
        uint64_t session = chance(SESSIONS);

        pal_arena_reset(test.arena);
        write_some(session, ids[session]);
        pin.seq = 1;
        if (chance(8) == 0)
            must(pal_store_mark(test.store, S(""), ids[session], &pin, &test.err));
    }
}

static pid_t process_start(void (*run)(uint64_t seed))
{
    uint64_t seed = chance(UINT64_MAX);
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        test.store = NULL;
        run(seed);
        _exit(0);
    }
    return pid;
}

static void process_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    kills++;
}

/* ---- PicoClaw ---- */

static pal_str content_of(pal_str line)
{
    pal_json value;

    if (pal_json_parse(test.arena, line, NULL, &value, NULL) != PAL_OK)
        return pal_str_make(NULL, 0);
    return pal_json_string(pal_json_find(value, "content"), test.arena);
}

/* Counts the lines as PicoClaw does: those that are not empty. */
static size_t lines_of(const char *name, pal_str *out_lines)
{
    pal_str text = get(name);
    size_t count = 0;

    for (size_t at = 0; at < text.len && count < LINES_MAX;) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        size_t len = end ? (size_t)(end - text.data) - at : text.len - at;

        if (len > 0)
            out_lines[count++] = pal_str_make(text.data + at, len);
        at += len + 1;
    }
    CHECK_THAT(count, <, LINES_MAX);
    return count;
}

static void names_of(uint64_t session, char out_lines[64], char out_meta[64])
{
    snprintf(out_lines, 64, "chat_%d.jsonl", (int)session);
    snprintf(out_meta, 64, "chat_%d.meta.json", (int)session);
}

/* As PicoClaw does: writes another file and renames it. PicoClaw drops members that it does not
 * know. */
static void write_meta(uint64_t session, uint64_t skip, uint64_t count)
{
    char lines_name[64], name[64], text[512], when[64];
    struct timespec now;
    struct tm parts;

    names_of(session, lines_name, name);
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text, sizeof text,
            "{\n  \"key\": \"chat:%d\",\n  \"summary\": \"\",\n  \"skip\": %" PRIu64
            ",\n  \"count\": %" PRIu64 ",\n  \"updated_at\": \"%s.%09ldZ\"\n}",
            (int)session, skip, count, when, now.tv_nsec);
    put("meta.tmp", text);
    rename_in("meta.tmp", name);
}

/* TruncateHistory(): only the last `keep` messages stay visible. */
static uint64_t cut(uint64_t session, uint64_t keep, pal_str *lines, size_t *out_len)
{
    char name[64], meta[64];
    uint64_t skip, before;

    names_of(session, name, meta);
    *out_len = lines_of(name, lines);
    before = meta_number(meta, "skip");
    skip = *out_len > keep ? *out_len - keep : 0;
    if (before != UINT64_MAX && before > skip && before <= *out_len)
        skip = before;
    write_meta(session, skip, *out_len);
    cuts++;
    return skip;
}

static bool number_behind(const char *word, pal_str content, uint64_t *out_number)
{
    size_t at = strlen(word);
    uint64_t number = 0;

    if (content.len <= at || memcmp(content.data, word, at) != 0)
        return false;
    for (; at < content.len && content.data[at] >= '0' && content.data[at] <= '9'; at++)
        number = number * 10 + (uint64_t)(content.data[at] - '0');
    *out_number = number;
    return true;
}

static void number_read(pal_str content, uint64_t *in_out_ours, uint64_t *in_out_theirs)
{
    if (!number_behind("ours ", content, in_out_ours))
        number_behind("theirs ", content, in_out_theirs);
}

/* Compact(): the meta file is written first, so that a crash in between shows too much rather than
 * too little. Unreadable lines are lost. */
static void compact(uint64_t session, uint64_t skip, const pal_str *lines, size_t len, bool halfway)
{
    char name[64], meta[64];

    names_of(session, name, meta);
    write_meta(session, 0, len - skip);
    if (halfway)
        return;
    put("lines.tmp", "");
    for (size_t i = 0; i < len; i++) {
        if (i < skip) {
            number_read(content_of(lines[i]), &chats[session].ours_cut, &chats[session].theirs_cut);
        } else if (content_of(lines[i]).len > 0) {
            put_bytes("lines.tmp", lines[i].data, lines[i].len, O_APPEND);
            add("lines.tmp", "\n");
        }
    }
    rename_in("lines.tmp", name);
    chats[session].is_compacted = true;
    compactions++;
}

/* AddMessage() */
static void append(uint64_t session)
{
    char name[64], meta[64], line[128];

    names_of(session, name, meta);
    if (!is_there(name))
        return;
    snprintf(line, sizeof line, "{\"role\":\"user\",\"content\":\"theirs %" PRIu64 "\"}\n",
            ++chats[session].theirs);
    add(name, line);
}

/* While no other process runs. */
static void picoclaw_works(void)
{
    static pal_str lines[LINES_MAX];
    uint64_t session = chance(SESSIONS), what = chance(6), skip;
    chat *c = &chats[session];
    char name[64], meta[64];
    size_t len;

    names_of(session, name, meta);
    if (!is_there(name))
        return;
    if (what == 0) {
        append(session);
        return;
    }
    skip = cut(session, chance(12), lines, &len);
    c->first = skip < len ? content_of(lines[skip]) : pal_str_make(NULL, 0);
    c->is_cut = what != 2;
    if (what > 1)
        compact(session, skip, lines, len, what == 2);
}

/* ---- Looking ---- */

static bool wrong(const char *what, uint64_t session, uint64_t a, uint64_t b)
{
    printf("# %s: session %" PRIu64 ", %" PRIu64 ", %" PRIu64 "\n", what, session, a, b);
    return false;
}

/* All messages that were not removed are there, in order and once. */
static bool verify_messages(uint64_t session, const pal_message_page *messages)
{
    chat *c = &chats[session];
    uint64_t ours = c->ours_cut, theirs = c->theirs_cut;
    uint64_t acknowledged = common->acknowledged[session], sent = common->sent[session];

    for (size_t i = 0; i < messages->len; i++) {
        uint64_t our = ours, their = theirs;

        if (messages->items[i].parts_len != 1)
            return wrong("no text", session, messages->items[i].seq, 0);
        number_read(messages->items[i].parts[0].text, &our, &their);
        if (!(our == ours + 1 && their == theirs) && !(our == ours && their == theirs + 1))
            return wrong("not the next one", session, our != ours ? our : their,
                    our != ours ? ours : theirs);
        ours = our;
        theirs = their;
    }
    if (ours < acknowledged || ours > sent)
        return wrong("lost, or never written", session, ours, acknowledged);
    /* One append was in progress. PicoClaw may have split it. */
    if (ours != acknowledged && ours != sent && !c->is_compacted)
        return wrong("half an append", session, ours, sent);
    if (theirs != c->theirs)
        return wrong("PicoClaw's are lost", session, theirs, c->theirs);
    common->sent[session] = common->acknowledged[session] = ours;
    return true;
}

static bool verify_session(uint64_t session)
{
    pal_message_query load = {.hidden = true};
    pal_message_page messages = {0};
    pal_session found;
    char key[32];

    snprintf(key, sizeof key, "chat:%d", (int)session);
    if (pal_store_find(test.store, S(""), PAL_SESSION_BY_KEY, S(key), test.arena, &found,
                &test.err) != PAL_OK)
        return common->acknowledged[session] == 0 || wrong("gone", session, 0, 0);
    if (pal_store_load(test.store, S(""), found.id, &load, test.arena, &messages, &test.err) !=
            PAL_OK)
        return wrong(test.err.message, session, 0, 0);
    if (!verify_messages(session, &messages))
        return false;
    if (!chats[session].is_cut || chats[session].first.len == 0)
        return true;
    if (pal_store_load(test.store, S(""), found.id, NULL, test.arena, &messages, &test.err) !=
                    PAL_OK ||
            messages.len == 0 ||
            !pal_str_equal(messages.items[0].parts[0].text, chats[session].first))
        return wrong("not as it was cut", session, messages.len, 0);
    return true;
}

static void finding_print(const pal_store_finding *finding, void *user)
{
    (void)user;
    printf("# found: %s\n", finding->text);
}

static bool verify(void)
{
    uint64_t findings = 0;
    bool held;

    test.store = NULL;
    held = pal_store_open(test.url, NULL, &test.store, &test.err) == PAL_OK;
    if (!held)
        printf("# open: %s\n", test.err.message);
    for (uint64_t i = 0; held && i < SESSIONS; i++)
        held = verify_session(i);
    held = held && !common->failed &&
            pal_store_check(test.store, false, finding_print, NULL, NULL, &findings, &test.err) ==
                    PAL_OK &&
            findings == 0;
    pal_store_close(test.store);
    test.store = NULL;
    return held;
}

/* ---- Tests ---- */

static bool round_run(void)
{
    static pal_str lines[LINES_MAX];
    uint64_t session;
    char name[64], meta[64];
    size_t len;
    pid_t pid;

    for (uint64_t i = 0; i < SESSIONS; i++)
        chats[i].is_cut = chats[i].is_compacted = false;
    pid = process_start(writer_run);
    sleep_us(chance(4) ? 2000 + chance(30000) : chance(3000));
    for (uint64_t times = chance(4); times > 0; times--) {
        session = chance(SESSIONS);
        names_of(session, name, meta);
        if (is_there(name))
            cut(session, chance(20), lines, &len);
        sleep_us(chance(5000));
    }
    process_kill(pid);
    if (chance(3) > 0)
        picoclaw_works();
    return verify();
}

static void a_killed_writer_and_picoclaw_lose_nothing(void)
{
    bool held = true;
    uint64_t messages = 0;

    begin();
    while (held && kills < kills_asked) {
        held = CHECK(round_run());
        pal_arena_reset(test.arena);
    }
    for (uint64_t i = 0; i < SESSIONS; i++)
        messages += common->acknowledged[i];
    CHECK_THAT(cuts, >, 0);
    CHECK_THAT(compactions, >, 0);
    CHECK_THAT(messages, >, 0);
    printf("# %" PRIu64 " kills, %" PRIu64 " messages, %" PRIu64 " cuts, %" PRIu64 " compactions\n",
            kills, messages, cuts, compactions);
}

/* ---- Older files ---- */

static void legacy_put(int session)
{
    char name[64], text[256];

    snprintf(name, sizeof name, "old_%d.json", session);
    snprintf(text, sizeof text,
            "{\"key\":\"old:%d\",\"summary\":\"sum %d\",\"created\":\"2026-01-01T00:00:00Z\","
            "\"updated\":\"2026-01-02T00:00:00Z\",\"messages\":[",
            session, session);
    put(name, text);
    for (int i = 0; i < LEGACY_MESSAGES; i++) {
        snprintf(text, sizeof text, "%s{\"role\":\"%s\",\"content\":\"%d of %d\"}", i ? "," : "",
                i % 2 ? "assistant" : "user", i, session);
        add(name, text);
    }
    add(name, "]}");
}

static bool legacy_is_whole(int session)
{
    pal_message_page messages = {0};
    pal_mark *marks = NULL;
    size_t marks_len = 0;
    pal_session found;
    char text[64];
    bool held;

    snprintf(text, sizeof text, "old:%d", session);
    held = pal_store_find(test.store, S(""), PAL_SESSION_BY_KEY, S(text), test.arena, &found,
                   &test.err) == PAL_OK &&
            pal_store_load(test.store, S(""), found.id, NULL, test.arena, &messages, &test.err) ==
                    PAL_OK &&
            pal_store_marks(test.store, S(""), found.id, test.arena, &marks, &marks_len,
                    &test.err) == PAL_OK &&
            messages.len == LEGACY_MESSAGES && marks_len == 1;
    for (int i = 0; held && i < LEGACY_MESSAGES; i++) {
        snprintf(text, sizeof text, "%d of %d", i, session);
        held = pal_str_is(messages.items[i].parts[0].text, text);
    }
    snprintf(text, sizeof text, "{\"summary\":\"sum %d\"}", session);
    return held && pal_str_equal(marks[0].body, S(text));
}

static void opener_run(uint64_t seed)
{
    (void)seed;
    must(pal_store_open(test.url, NULL, &test.store, &test.err));
    pal_store_close(test.store);
}

/* How long an undisturbed run takes, so that the kills are spread over all of it. */
static uint64_t opening_us(void)
{
    struct timespec before, after;
    pid_t pid;

    begin();
    for (int i = 0; i < SESSIONS; i++)
        legacy_put(i);
    clock_gettime(CLOCK_MONOTONIC, &before);
    pid = process_start(opener_run);
    waitpid(pid, NULL, 0);
    clock_gettime(CLOCK_MONOTONIC, &after);
    return (uint64_t)((after.tv_sec - before.tv_sec) * 1000000 +
            (after.tv_nsec - before.tv_nsec) / 1000);
}

static bool migration_round(uint64_t us)
{
    pal_session_query query = {.limit = 100};
    pal_session_page page;
    bool held = true;
    char name[64];

    begin();
    for (int i = 0; i < SESSIONS; i++)
        legacy_put(i);
    for (uint64_t times = 1 + chance(3); times > 0; times--) {
        pid_t pid = process_start(opener_run);

        sleep_us(chance(us));
        process_kill(pid);
    }
    for (int again = 0; held && again < 2; again++) {
        held = reopen() &&
                pal_store_list(test.store, &query, test.arena, &page, &test.err) == PAL_OK &&
                page.sessions_len == SESSIONS;
        for (int i = 0; held && i < SESSIONS; i++) {
            snprintf(name, sizeof name, "old_%d.json", i);
            held = legacy_is_whole(i) && !is_there(name);
            snprintf(name, sizeof name, "old_%d.json.migrated", i);
            held = held && is_there(name);
        }
    }
    return held && !common->failed;
}

static void older_files_are_imported_completely_and_once(void)
{
    uint64_t us = opening_us(), until = kills + kills_asked;
    bool held = true;

    while (held && kills < until)
        held = CHECK(migration_round(us + us / 4));
    printf("# %" PRIu64 " us to take them over\n", us);
}

/* The writers inherit the tables of the encoding. Otherwise each would die while it makes them. */
static bool tables_made(void)
{
    uint64_t tokens;

    return pal_tokens_count(pal_encoding_find(S("o200k_base")), S("text"), &tokens, &test.err) ==
            PAL_OK;
}

int main(void)
{
    const char *asked = getenv("CRASH_KILLS"), *seed = getenv("CRASH_SEED");

    if (asked && atoi(asked) > 0)
        kills_asked = (uint64_t)atoi(asked);
    random_seed = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    printf("# CRASH_SEED=%" PRIu64 "\n", random_seed);
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED)
        return 1;
    dir_make();
    if (!tables_made())
        return 1;
    RUN(a_killed_writer_and_picoclaw_lose_nothing);
    if (tap_failures) {
        printf("# the store is left in %s\n", test.directory);
        return tap_done();
    }
    RUN(older_files_are_imported_completely_and_once);
    dir_done();
    munmap(common, sizeof *common);
    return tap_done();
}
