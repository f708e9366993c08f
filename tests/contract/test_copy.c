/* test_copy.c - copies a store with one of everything between all pairs of durable backends.
 *
 * pal_store_copy() compares both stores itself. These tests do not rely on that: they describe a
 * store through the public interface as a text, and compare the texts. A copy is killed at many
 * moments, and continued. */
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/digest.h"
#include "contract.h"

#define PAGES_OF_MESSAGES 900 /* more than a copy commits at once */
#define KILLS_MAX 60
#define AFTER_SESSIONS 100 /* objects after which a copy has all sessions */

static const char *const schemes[] = {"sqlite", "jsonl", "postgres"};
static const char *const tenants[] = {"default", "other"};
enum { SCHEMES = sizeof schemes / sizeof schemes[0], TENANTS = sizeof tenants / sizeof tenants[0] };

static char source_url[512], target_url[512], dir[256];

/* ---- Stores ---- */

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *walk)
{
    (void)facts, (void)kind;
    return walk->level > 0 ? remove(path) : 0;
}

/* PostgreSQL is the last one. It is left out without a server of tools/pg-test. */
static size_t schemes_len(void)
{
    return getenv("PALAVER_TEST_POSTGRES") ? SCHEMES : SCHEMES - 1;
}

/* Writes the URL of a new store. */
static void new_url(const char *scheme, char out_url[512])
{
    static int number;

    number++;
    if (strcmp(scheme, "postgres") == 0)
        snprintf(out_url, 512, "%s&schema=c%d_%d", getenv("PALAVER_TEST_POSTGRES"), (int)getpid(),
                number);
    else
        snprintf(out_url, 512, "%s:%s/%d", scheme, dir, number);
}

static pal_store *open_url(const char *url)
{
    pal_store *store = NULL;

    OK(pal_store_open(url, NULL, &store, &test.err));
    return store;
}

/* ---- One of everything ---- */

static pal_str tenant;

static pal_id create(pal_session session)
{
    pal_id id = {{0}};

    session.tenant = tenant;
    OK(pal_store_create(test.store, &session, &id, &test.err));
    return id;
}

static void append(pal_id session, const char *text, const char *client_id)
{
    pal_message message = text_of(PAL_ROLE_USER, text);

    message.client_id = S(client_id);
    OK(pal_store_append(test.store, tenant, session, &message, 1, PAL_SEQ_ANY, &test.err));
}

static pal_id forked(pal_id parent, uint64_t seq)
{
    pal_session session = {.tenant = tenant, .title = S("fork")};
    pal_id id = {{0}};

    OK(pal_store_fork(test.store, &session, parent, seq, &id, &test.err));
    return id;
}

static void mark(pal_id session, pal_mark_kind kind, uint64_t seq, const char *body)
{
    pal_mark one = {.kind = kind, .seq = seq, .body = S(body)};

    OK(pal_store_mark(test.store, tenant, session, &one, &test.err));
}

static void put_record(const char *name, const char *body, pal_id session, int64_t expires_at)
{
    pal_record record = {.kind = S("note"),
            .name = S(name),
            .body = S(body),
            .session = session,
            .expires_at = expires_at};

    OK(pal_store_record_put(
            test.store, tenant, &record, PAL_RECORD_VERSION_ANY, &test.err));
}

static void add_item(pal_id session, const char *client_id)
{
    pal_inbox_item item = {
            .client_id = S(client_id), .delivery = S("queue"), .body = S("{\"text\":\"later\"}")};

    OK(pal_store_inbox_add(test.store, tenant, session, &item, &test.err));
}

static void spend(pal_id session, const char *request_id)
{
    pal_ledger_row row = {.request_id = S(request_id),
            .turn_id = S("turn"),
            .agent = S("agent"),
            .purpose = S("turn"),
            .provider = S("openai"),
            .model = S("m"),
            .usage = {.input = 10, .output = 3, .cache_read = 2, .reasoning = 1},
            .cost_micros = 77};

    OK(pal_store_ledger_add(test.store, tenant, session, &row, &test.err));
}

static void take_lease(pal_id session, const char *owner, bool releases)
{
    uint64_t fence = 0;

    OK(pal_store_lease_take(test.store, tenant, session, S(owner), 60000, &fence, &test.err));
    if (releases)
        OK(pal_store_lease_release(test.store, tenant, session, fence, &test.err));
}

static void fill_messages(void)
{
    pal_id first = create((pal_session){.title = S("long")});
    pal_id second = create((pal_session){.title = S("long too")});

    for (int i = 0; i < PAGES_OF_MESSAGES / 3; i++) {
        pal_message three[3] = {text_of(PAL_ROLE_USER, "one"), text_of(PAL_ROLE_ASSISTANT, "two"),
                text_of(PAL_ROLE_USER, "three")};

        OK(pal_store_append(
                test.store, tenant, i % 7 ? first : second, three, 3, PAL_SEQ_ANY, &test.err));
    }
}

static void fill_names(void)
{
    pal_str shared[] = {S("shared"), S("apart")}, own[] = {S("own")};
    pal_id deleted = create((pal_session){.key = S("key"), .aliases = own, .aliases_len = 1});

    append(deleted, "deleted", "d1");
    add_item(deleted, "waits");
    spend(deleted, "r-deleted");
    OK(pal_store_delete(test.store, tenant, deleted, &test.err));
    create((pal_session){.key = S("key"), .aliases = own, .aliases_len = 1, .project = S("p")});
    /* Both list the alias; it leads to the first one. */
    create((pal_session){.key = S("z1"), .aliases = shared, .aliases_len = 2, .is_routed = true,
            .alias_apart = S("apart"), .scope = S("{\"channel\":\"c\"}")});
    create((pal_session){.key = S("a1"), .aliases = shared, .aliases_len = 2, .is_routed = true,
            .alias_apart = S("apart"), .metadata = S("{\"a\":[1,2]}"), .agent = S("agent")});
}

static void fill_forks(void)
{
    pal_id root = create((pal_session){.title = S("root")}), child, leaf, empty;
    pal_erase_result ignored;
    pal_op adopt;

    empty = create((pal_session){.title = S("adopts")});
    for (int i = 0; i < 5; i++)
        append(root, "of the root", NULL);
    mark(root, PAL_MARK_REWIND, 4, NULL);
    mark(root, PAL_MARK_PIN, 1, NULL);
    child = forked(root, 3);
    append(child, "of the child", "c1");
    leaf = forked(child, 4);
    append(leaf, "of the leaf", "c1");
    adopt = pal_op_adopt(tenant, empty, leaf);
    OK(pal_store_apply(test.store, &adopt, 1, &test.err));
    CHECK_EQ(adopt.status, PAL_OK);
    CHECK(adopt.u.adopt.adopted);
    spend(root, "r-root");
    /* Two erased sessions stay, because the leaf shows their messages. */
    OK(pal_store_erase(test.store, tenant, root, &ignored, &test.err));
    OK(pal_store_erase(test.store, tenant, child, &ignored, &test.err));
}

static void fill_marks(void)
{
    pal_session record;
    pal_id id = create((pal_session){.key = S("marks")});

    for (int i = 0; i < 6; i++)
        append(id, "marked", NULL);
    mark(id, PAL_MARK_REWIND, 5, NULL);
    mark(id, PAL_MARK_UNDO, 0, NULL);
    mark(id, PAL_MARK_CHECKPOINT, 2, "{\"summary\":\"so far\"}");
    mark(id, PAL_MARK_HIDE, 3, NULL);
    mark(id, PAL_MARK_EPOCH, 0, "{\"system\":\"s\"}");
    /* As after an import: the marks are younger than the session's last change. */
    record = (pal_session){.id = id, .tenant = tenant, .updated_at = NOW - DAY};
    OK(pal_store_update(test.store, &record, PAL_SESSION_FIELD_UPDATED_AT, &test.err));
}

static void fill_turns(pal_id none)
{
    pal_id id = create((pal_session){.key = S("turns"), .expires_at = NOW + 1000});

    append(id, "with a turn", "t1");
    take_lease(id, "a", true);
    take_lease(id, "b", true);
    take_lease(id, "c", false);
    add_item(id, "first");
    add_item(id, "second");
    spend(id, "r1");
    spend(none, "r2");
    put_record("of a session", "{\"n\":1}", id, 0);
    put_record("of a session", "{\"n\":2}", id, 0);
    put_record("of none", "{}", none, NOW + DAY);
    put_record("expired", "{}", none, NOW + 10);
}

static void fill_blobs(void)
{
    static char large[200000];
    pal_id id = create((pal_session){.key = S("blobs")});
    pal_part parts[] = {{.kind = PAL_PART_TEXT, .text = pal_str_make("a\0b", 3)},
            {.kind = PAL_PART_IMAGE, .media_type = S("image/png"), .data = S("not really")},
            {.kind = PAL_PART_FILE, .media_type = S("x/y"),
                    .data = pal_str_make(large, sizeof large)}};
    pal_message message = {.role = PAL_ROLE_USER, .parts = parts, .parts_len = 3,
            .extra = S("{\"unknown\":true}"), .turn_id = pal_id_new()};
    char name[PAL_BLOB_NAME_SIZE];

    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)(i * 31 >> 3);
    OK(pal_store_append(test.store, tenant, id, &message, 1, PAL_SEQ_ANY, &test.err));
    OK(pal_store_blob_put(test.store, tenant, S("x/y"), S("unused"), name, &test.err));
}

static void fill_store(const char *url)
{
    pal_id none = {{0}};

    test.arena = pal_arena_new(0);
    test.store = open_url(url);
    for (size_t i = 0; test.store && i < TENANTS; i++) {
        tenant = S(tenants[i]);
        pal_clock_set_ms(NOW);
        fill_messages();
        fill_names();
        fill_forks();
        fill_marks();
        fill_turns(none);
        fill_blobs();
    }
    pal_clock_set_ms(NOW + 5000); /* one session and one record have expired */
    pal_store_close(test.store);
    pal_arena_free(test.arena);
    test.store = NULL;
}

/* ---- A description of a store ---- */

static void describe_messages(pal_buf *out, pal_id id)
{
    pal_message_query query = {.hidden = true};
    pal_message_page page = {0};

    OK(pal_store_load(test.store, tenant, id, &query, test.arena, &page, &test.err));
    for (size_t i = 0; i < page.len; i++) {
        pal_str json = {0};

        OK(pal_message_to_json(&page.items[i], test.arena, &json, &test.err));
        pal_buf_append_str(out, json);
        pal_buf_append_char(out, '\n');
    }
    query.hidden = false;
    OK(pal_store_load(test.store, tenant, id, &query, test.arena, &page, &test.err));
    pal_buf_format(out, "%zu visible, last %llu\n", page.len,
            page.len ? (unsigned long long)page.items[page.len - 1].seq : 0);
}

static void describe_details(pal_buf *out, pal_id id)
{
    pal_ledger_query query = {.tenant = tenant, .session = id};
    pal_ledger_sum sum = {0};
    pal_inbox_item *items;
    pal_lease lease;
    pal_mark *marks;
    size_t len;

    OK(pal_store_marks(test.store, tenant, id, test.arena, &marks, &len, &test.err));
    for (size_t i = 0; i < len; i++)
        pal_buf_format(out, "mark %llu %d %llu %llu %llu %d %d %lld %.*s\n",
                (unsigned long long)marks[i].number, (int)marks[i].kind,
                (unsigned long long)marks[i].seq, (unsigned long long)marks[i].through_seq,
                (unsigned long long)marks[i].target, marks[i].undone, marks[i].inherited,
                (long long)marks[i].created_at, PAL_STR_ARG(marks[i].body));
    OK(pal_store_inbox_list(test.store, tenant, id, test.arena, &items, &len, &test.err));
    for (size_t i = 0; i < len; i++) {
        char text[PAL_ID_TEXT_SIZE];

        pal_id_to_text(items[i].id, text);
        pal_buf_format(out, "item %s %.*s %.*s %.*s %lld\n", text, PAL_STR_ARG(items[i].client_id),
                PAL_STR_ARG(items[i].delivery), PAL_STR_ARG(items[i].body),
                (long long)items[i].created_at);
    }
    if (pal_store_lease_find(test.store, tenant, id, test.arena, &lease, NULL) == PAL_OK)
        pal_buf_format(out, "lease %.*s %llu %lld %lld\n", PAL_STR_ARG(lease.owner),
                (unsigned long long)lease.fence, (long long)lease.expires_at,
                (long long)lease.ttl_ms);
    OK(pal_store_ledger_sum(test.store, &query, &sum, &test.err));
    pal_buf_format(out, "spent %llu %lld\n", (unsigned long long)sum.calls,
            (long long)sum.cost_micros);
}

static void describe_session(pal_buf *out, const pal_session *session)
{
    pal_str json = {0};

    OK(pal_session_to_json(session, test.arena, &json, &test.err));
    pal_buf_append_str(out, json);
    pal_buf_format(out, "\n%llu %llu %llu %lld\n", (unsigned long long)session->last_seq,
            (unsigned long long)session->tokens, (unsigned long long)session->bytes,
            (long long)session->updated_at);
    describe_messages(out, session->id);
    describe_details(out, session->id);
}

static int by_id(const void *left, const void *right)
{
    const pal_session *a = left, *b = right;

    return memcmp(a->id.bytes, b->id.bytes, sizeof a->id.bytes);
}

static void describe_sessions(pal_buf *out, pal_session_state state)
{
    pal_session_query query = {.tenant = tenant, .state = state, .limit = 200};
    pal_session_page page = {0};

    OK(pal_store_list(test.store, &query, test.arena, &page, &test.err));
    CHECK_EQ(page.cursor.len, 0);
    qsort(page.sessions, page.sessions_len, sizeof *page.sessions, by_id);
    for (size_t i = 0; i < page.sessions_len; i++)
        describe_session(out, &page.sessions[i]);
}

static void describe_names(pal_buf *out)
{
    static const char *const names[] = {"key", "own", "shared", "apart", "z1", "a1", "turns"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        pal_session session;
        char text[PAL_ID_TEXT_SIZE] = "none";

        if (pal_store_find(test.store, tenant, PAL_SESSION_BY_ANY, S(names[i]), test.arena,
                    &session, NULL) == PAL_OK)
            pal_id_to_text(session.id, text);
        pal_buf_format(out, "%s -> %s\n", names[i], text);
    }
}

static void blob_name(pal_str data, char out_name[PAL_BLOB_NAME_SIZE])
{
    uint8_t hash[PAL_SHA256_SIZE];

    CHECK_EQ(pal_sha256(data, hash), PAL_OK);
    memcpy(out_name, "sha256:", 7);
    pal_hex(hash, sizeof hash, out_name + 7);
}

static void describe_tenant(pal_buf *out)
{
    static const char *const blobs[] = {"not really", "unused"};
    pal_record_query records = {.tenant = tenant, .kind = S("note")};
    pal_record_page page = {0};
    pal_ledger_query query = {.tenant = tenant};
    pal_ledger_sum sum = {0};
    pal_str type, data;

    describe_sessions(out, PAL_SESSION_ACTIVE);
    describe_sessions(out, PAL_SESSION_TRASH);
    describe_names(out);
    OK(pal_store_record_list(test.store, &records, test.arena, &page, &test.err));
    for (size_t i = 0; i < page.len; i++)
        pal_buf_format(out, "record %.*s %llu %lld %lld %lld %.*s\n",
                PAL_STR_ARG(page.items[i].name), (unsigned long long)page.items[i].version,
                (long long)page.items[i].created_at, (long long)page.items[i].updated_at,
                (long long)page.items[i].expires_at, PAL_STR_ARG(page.items[i].body));
    OK(pal_store_ledger_sum(test.store, &query, &sum, &test.err));
    pal_buf_format(out, "spent %llu %llu %lld\n", (unsigned long long)sum.calls,
            (unsigned long long)sum.usage.input, (long long)sum.cost_micros);
    for (size_t i = 0; i < sizeof blobs / sizeof blobs[0]; i++) {
        char name[PAL_BLOB_NAME_SIZE];

        blob_name(S(blobs[i]), name);
        if (OK(pal_store_blob_get(
                    test.store, tenant, S(name), test.arena, &type, &data, &test.err)))
            pal_buf_format(out, "blob %.*s %.*s\n", PAL_STR_ARG(type), PAL_STR_ARG(data));
    }
}

/* Returns the description in a buffer that the caller frees. */
static pal_buf describe(const char *url)
{
    pal_buf out;

    pal_buf_init(&out, (size_t)1 << 30);
    test.arena = pal_arena_new(0);
    test.store = open_url(url);
    for (size_t i = 0; test.store && i < TENANTS; i++) {
        pal_store_stats stats = {0};

        tenant = S(tenants[i]);
        describe_tenant(&out);
        OK(pal_store_stat(test.store, test.arena, &stats, &test.err));
        pal_buf_format(&out, "%llu %llu %llu %llu %llu\n",
                (unsigned long long)stats.sessions_active, (unsigned long long)stats.sessions_trash,
                (unsigned long long)stats.messages, (unsigned long long)stats.content_bytes,
                (unsigned long long)stats.blobs);
    }
    pal_store_close(test.store);
    pal_arena_free(test.arena);
    test.store = NULL;
    CHECK_EQ(out.failure, PAL_OK);
    return out;
}

static bool check_same(const pal_buf *wanted, const char *url)
{
    pal_buf got = describe(url);
    size_t at = 0;
    bool is_same = got.len == wanted->len && memcmp(got.data, wanted->data, got.len) == 0;

    if (!CHECK(is_same)) {
        while (at < got.len && at < wanted->len && got.data[at] == wanted->data[at])
            at++;
        while (at > 0 && got.data[at - 1] != '\n')
            at--;
        printf("# wanted %.300s\n", wanted->data + at);
        printf("# got    %.300s\n", got.data + at);
    }
    pal_buf_done(&got);
    return is_same;
}

/* ---- Tests ---- */

static pal_status copy(pal_copy_result *out_result)
{
    test.err = (pal_error){0};
    return pal_store_copy(source_url, target_url, NULL, NULL, out_result, &test.err);
}

static void check_sound(const char *url)
{
    pal_store *store = open_url(url);
    uint64_t findings = 0;

    OK(pal_store_check(store, false, NULL, NULL, NULL, &findings, &test.err));
    CHECK_EQ(findings, 0);
    pal_store_close(store);
}

static void every_backend_is_copied_to_every_backend(void)
{
    for (size_t from = 0; from < schemes_len(); from++) {
        pal_buf wanted;

        new_url(schemes[from], source_url);
        fill_store(source_url);
        wanted = describe(source_url);
        for (size_t to = 0; to < schemes_len(); to++) {
            pal_copy_result result = {0};

            printf("# %s to %s\n", schemes[from], schemes[to]);
            new_url(schemes[to], target_url);
            if (!OK(copy(&result)))
                continue;
            CHECK_EQ(result.messages, TENANTS * (PAGES_OF_MESSAGES + 1 + 3 + 1 + 1 + 6 + 1 + 1));
            CHECK_EQ(result.sessions, TENANTS * (2 + 4 + 4 + 1 + 1 + 1));
            CHECK_EQ(result.blobs, TENANTS * 3);
            CHECK_EQ(result.inbox, TENANTS * 3);
            CHECK_EQ(result.ledger, TENANTS * 4);
            CHECK_EQ(result.records, TENANTS * 3);
            check_same(&wanted, target_url);
            check_sound(target_url);
            /* The copy is used like any store, and the source is unchanged. */
            check_same(&wanted, source_url);
        }
        pal_buf_done(&wanted);
    }
}

/* Starts a copy in another process and kills it after some time. Returns whether it ended before
 * that. */
static bool copy_until(useconds_t kill_us)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        alarm(120);
        _exit(pal_store_copy(source_url, target_url, NULL, NULL, NULL, NULL) == PAL_OK ? 0 : 1);
    }
    usleep(kill_us);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* After a kill the store has nothing, is refused, or is complete. It is complete if the process was
 * killed between its last commit and its end. */
static bool is_complete(const char *url)
{
    pal_store_stats stats = {0};
    pal_arena *arena = pal_arena_new(0);
    pal_store *store = NULL;
    pal_status status = pal_store_open(url, NULL, &store, &test.err);

    if (status == PAL_OK) {
        OK(pal_store_stat(store, arena, &stats, &test.err));
    } else {
        CHECK_EQ(status, PAL_CONFLICT);
        CHECK_CONTAINS(test.err.message, "palaver store copy");
    }
    pal_store_close(store);
    pal_arena_free(arena);
    return stats.messages > 0;
}

static void a_killed_copy_is_continued(void)
{
    pal_buf wanted;

    new_url("sqlite", source_url);
    fill_store(source_url);
    wanted = describe(source_url);
    for (size_t to = 0; to < schemes_len(); to++) {
        useconds_t kill_us = 500;
        int kills = 0;

        new_url(schemes[to], target_url);
        while (kills < KILLS_MAX && !copy_until(kill_us) && !is_complete(target_url)) {
            kill_us += kill_us / 8;
            kills++;
        }
        printf("# %s: %d kills\n", schemes[to], kills);
        CHECK_THAT(kills, >, 2);
        if (kills == KILLS_MAX)
            OK(copy(NULL));
        check_same(&wanted, target_url);
        check_sound(target_url);
    }
    pal_buf_done(&wanted);
}

static void a_copy_needs_an_empty_target(void)
{
    new_url("sqlite", source_url);
    new_url("sqlite", target_url);
    fill_store(source_url);
    fill_store(target_url);
    GIVES(PAL_CONFLICT, copy(NULL));
    CHECK_CONTAINS(test.err.message, "not empty");
    snprintf(target_url, sizeof target_url, "%s", source_url);
    GIVES(PAL_INVALID, copy(NULL));
}

static void stop_at_once(uint64_t done, uint64_t total, void *user)
{
    (void)done, (void)total, (void)user;
    _exit(0);
}

/* Leaves a copy that has just begun. */
static void begin_copy(void)
{
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0)
        _exit(pal_store_copy(source_url, target_url, stop_at_once, NULL, NULL, NULL) == PAL_OK);
    waitpid(child, NULL, 0);
}

static void an_incomplete_copy_is_neither_used_nor_mixed_up(void)
{
    char other_url[512];

    new_url("sqlite", source_url);
    new_url("sqlite", target_url);
    fill_store(source_url);
    begin_copy();
    GIVES(PAL_CONFLICT, pal_store_open(target_url, NULL, &test.store, &test.err));
    CHECK_CONTAINS(test.err.message, "incomplete copy");
    snprintf(other_url, sizeof other_url, "%s", source_url);
    new_url("sqlite", source_url);
    fill_store(source_url);
    GIVES(PAL_CONFLICT, copy(NULL));
    CHECK_CONTAINS(test.err.message, "another store");
    /* It is not a source either. */
    snprintf(source_url, sizeof source_url, "%s", target_url);
    new_url("sqlite", target_url);
    GIVES(PAL_CONFLICT, copy(NULL));
    snprintf(target_url, sizeof target_url, "%s", source_url);
    snprintf(source_url, sizeof source_url, "%s", other_url);
    OK(copy(NULL));
}

static pal_store *writer;

static void write_meanwhile(uint64_t done, uint64_t total, void *user)
{
    bool *has_written = user;

    (void)total;
    if (done < AFTER_SESSIONS)
        return;
    test.store = writer;
    test.arena = pal_arena_new(0);
    tenant = S("default");
    if (!*has_written)
        create((pal_session){.title = S("too late")});
    *has_written = true;
    pal_arena_free(test.arena);
    test.store = NULL;
}

static void a_change_of_the_source_is_noticed(void)
{
    bool has_written = false;

    new_url("sqlite", source_url);
    new_url("sqlite", target_url);
    fill_store(source_url);
    writer = open_url(source_url);
    GIVES(PAL_CONFLICT,
            pal_store_copy(source_url, target_url, write_meanwhile, &has_written, NULL,
                    &test.err));
    CHECK_CONTAINS(test.err.message, "changed during the copy");
    pal_store_close(writer);
}

int main(void)
{
    snprintf(dir, sizeof dir, "%s/palaver-copy-XXXXXX",
            access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(dir))
        return 1;
    tap_run("every_backend_is_copied_to_every_backend", every_backend_is_copied_to_every_backend);
    tap_run("a_killed_copy_is_continued", a_killed_copy_is_continued);
    tap_run("a_copy_needs_an_empty_target", a_copy_needs_an_empty_target);
    tap_run("an_incomplete_copy_is_neither_used_nor_mixed_up",
            an_incomplete_copy_is_neither_used_nor_mixed_up);
    tap_run("a_change_of_the_source_is_noticed", a_change_of_the_source_is_noticed);
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    rmdir(dir);
    return tap_done();
}
