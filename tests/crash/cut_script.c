/* cut_script.c - see cut_script.h. Texts contain no ids and no times: a session that is imported
 * again after a crash has other ids, but is the same session. */
#include "cut_script.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/memory.h"
#include "support/disk/disk_trace.h"

#define S(text) pal_str_of(text)
#define TRIES_MAX 50
#define KEYS 6
#define RANDOM_STEPS 30

static void must(bool held, const char *what)
{
    if (held)
        return;
    fprintf(stderr, "# %s\n", what);
    abort();
}

/* ---- The store as a text ---- */

static void put_messages(
        pal_store *store, const pal_session *session, pal_arena *arena, pal_buf *out)
{
    pal_message_query load = {.hidden = true};
    pal_message_page messages = {0};
    uint64_t shown = 0;
    pal_error err;

    if (pal_store_load(store, session->tenant, session->id, &load, arena, &messages, &err) !=
                    PAL_OK ||
            pal_store_count(store, session->tenant, session->id, 0, 0, &shown, &err) != PAL_OK) {
        pal_buf_format(out, " %s", err.message);
        return;
    }
    for (size_t i = 0; i < messages.len; i++) {
        pal_str text = messages.items[i].parts_len ? messages.items[i].parts[0].text : S("");
        uint64_t sum = 0;

        for (size_t j = 0; j < text.len; j++)
            sum = sum * 31 + (unsigned char)text.data[j];
        pal_buf_format(out, " %" PRIu64 ":%.*s:%zu:%" PRIx64, messages.items[i].seq,
                (int)(text.len < 8 ? text.len : 8), text.data, text.len, sum);
    }
    pal_buf_format(out, " shown %" PRIu64, shown);
}

static void put_session(
        pal_store *store, const pal_session *session, pal_arena *arena, pal_buf *out)
{
    pal_inbox_item *items = NULL;
    size_t marks_len = 0, items_len = 0;
    pal_mark *marks = NULL;
    pal_error err;

    pal_buf_format(out, "%.*s/%.*s state %d '%.*s' fork %" PRIu64, PAL_STR_ARG(session->tenant),
            PAL_STR_ARG(session->key), (int)session->state, PAL_STR_ARG(session->title),
            session->fork_seq);
    put_messages(store, session, arena, out);
    (void)!pal_store_marks(store, session->tenant, session->id, arena, &marks, &marks_len, &err);
    for (size_t i = 0; i < marks_len; i++)
        pal_buf_format(out, " mark %d %" PRIu64 "-%" PRIu64, (int)marks[i].kind, marks[i].seq,
                marks[i].through_seq);
    if (session->state == PAL_SESSION_ACTIVE)
        (void)!pal_store_inbox_list(
                store, session->tenant, session->id, arena, &items, &items_len, &err);
    for (size_t i = 0; i < items_len; i++)
        pal_buf_format(out, " waits %.*s", PAL_STR_ARG(items[i].body));
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *text_of(pal_buf *buf)
{
    char *text = pal_malloc(buf->len + 1);

    must(text && !buf->failure, "memory");
    memcpy(text, buf->data, buf->len);
    text[buf->len] = '\0';
    pal_buf_done(buf);
    return text;
}

static bool list_tenant(pal_store *store, const char *tenant, pal_arena *arena, char **lines,
        size_t *in_out_len)
{
    static const pal_session_state states[] = {
            PAL_SESSION_ACTIVE, PAL_SESSION_TRASH, PAL_SESSION_QUARANTINED};
    pal_error err;

    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        pal_session_query query = {.tenant = S(tenant), .state = states[i], .limit = 50};
        pal_session_page page = {0};

        if (pal_store_list(store, &query, arena, &page, &err) != PAL_OK)
            return false;
        for (size_t j = 0; j < page.sessions_len; j++) {
            pal_buf line;

            pal_buf_init(&line, 1u << 20);
            put_session(store, &page.sessions[j], arena, &line);
            lines[(*in_out_len)++] = text_of(&line);
        }
    }
    return true;
}

char *store_text(pal_store *store)
{
    pal_record_query query = {.kind = S("note"), .limit = 10};
    pal_arena *arena = pal_arena_new(0);
    pal_record_page records = {0};
    char *lines[256];
    size_t len = 0;
    pal_error err;
    pal_buf out;
    bool held;

    must(arena, "memory");
    pal_buf_init(&out, 1u << 24);
    held = list_tenant(store, "default", arena, lines, &len) &&
            list_tenant(store, "other", arena, lines, &len);
    qsort(lines, len, sizeof *lines, compare);
    for (size_t i = 0; i < len; i++) {
        pal_buf_format(&out, "%s\n", lines[i]);
        pal_free(lines[i]);
    }
    if (pal_store_record_list(store, &query, arena, &records, &err) == PAL_OK)
        for (size_t i = 0; i < records.len; i++)
            pal_buf_format(&out, "note %.*s %.*s\n", PAL_STR_ARG(records.items[i].name),
                    PAL_STR_ARG(records.items[i].body));
    pal_arena_free(arena);
    if (held)
        return text_of(&out);
    pal_buf_done(&out);
    return NULL;
}

char *store_text_at(const char *url, bool read_only)
{
    pal_store_options options = {.read_only = read_only};
    pal_store *store = NULL;
    pal_error err;
    char *text;
    pal_buf why;

    if (pal_store_open(url, &options, &store, &err) == PAL_OK) {
        text = store_text(store);
        pal_store_close(store);
        return text;
    }
    pal_buf_init(&why, 1024);
    pal_buf_format(&why, "not opened: %s", err.message);
    return text_of(&why);
}

/* ---- fsck ---- */

typedef struct findings {
    uint64_t left;
    bool repair;
} findings;

static void on_finding(const pal_store_finding *finding, void *user)
{
    findings *found = user;

    if (finding->advice)
        return;
    found->left += !finding->repaired;
    printf("# fsck%s: %s%s\n", found->repair ? " --repair" : "", finding->text,
            finding->repaired ? " (repaired)" : "");
}

uint64_t store_findings(pal_store *store, bool repair)
{
    findings found = {.repair = repair};
    uint64_t count = 0;
    pal_error err;

    if (pal_store_check(store, repair, on_finding, NULL, &found, &count, &err) == PAL_OK)
        return found.left;
    printf("# fsck failed: %s\n", err.message);
    return 1;
}

/* ---- Before the script ---- */

static void put_file(const char *root, const char *name, const char *text)
{
    char path[1024];
    int fd;

    snprintf(path, sizeof path, "%s/store/%s", root, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
    close(fd);
}

void script_prepare(bool is_jsonl, const char *root)
{
    char path[1024];

    if (!is_jsonl)
        return;
    snprintf(path, sizeof path, "%s/store", root);
    must(mkdir(path, 0755) == 0, path);
    put_file(root, "theirs.jsonl",
            "{\"role\":\"user\",\"content\":\"one\"}\n{\"role\":\"user\",\"content\":\"two\"}\n"
            "{\"role\":\"user\",\"content\":\"three\"}\n");
    put_file(root, "theirs.meta.json",
            "{\"key\":\"theirs\",\"summary\":\"\",\"skip\":0,\"count\":3,"
            "\"created_at\":\"2026-01-01T00:00:00Z\",\"updated_at\":\"2026-01-02T00:00:00Z\"}");
    put_file(root, "bare.jsonl", "{\"role\":\"user\",\"content\":\"alone\"}\n");
    put_file(root, "old.json",
            "{\"key\":\"old\",\"summary\":\"sum\",\"created\":\"2026-01-01T00:00:00Z\","
            "\"updated\":\"2026-01-02T00:00:00Z\",\"messages\":["
            "{\"role\":\"user\",\"content\":\"before\"},"
            "{\"role\":\"user\",\"content\":\"then\"}]}");
}

void script_url(bool is_jsonl, const char *root, char out_url[512])
{
    snprintf(out_url, 512, is_jsonl ? "jsonl:%s/store" : "sqlite:%s/t.db", root);
}

/* ---- The script ---- */

typedef struct script {
    pal_store *store;
    pal_arena *arena;
    const char *url;
    bool has_failures;
    script_texts *texts;
    uint64_t said; /* messages so far */
    uint64_t random;
    pal_error err;
} script;

static void open_store(script *s);

/* If the process has died, another one takes its place. */
static void replace_dead(script *s)
{
    if (trace_is_dead())
        open_store(s);
}

static pal_id find(script *s, const char *tenant, const char *key)
{
    pal_session found = {0};
    pal_status status = PAL_IO;

    for (int i = 0; i < TRIES_MAX && status == PAL_IO; i++) {
        replace_dead(s);
        status = pal_store_find(
                s->store, S(tenant), PAL_SESSION_BY_KEY, S(key), s->arena, &found, &s->err);
    }
    return status == PAL_OK ? found.id : (pal_id){{0}};
}

static pal_id find_trash(script *s, const char *key)
{
    pal_session_query query = {.tenant = S("default"), .state = PAL_SESSION_TRASH};
    pal_session_page page = {0};
    pal_status status = PAL_IO;

    for (int i = 0; i < TRIES_MAX && status == PAL_IO; i++) {
        replace_dead(s);
        status = pal_store_list(s->store, &query, s->arena, &page, &s->err);
    }
    must(status == PAL_OK, s->err.message);
    for (size_t i = 0; i < page.sessions_len; i++)
        if (pal_str_equal(page.sessions[i].key, S(key)))
            return page.sessions[i].id;
    return (pal_id){{0}};
}

/* Applies one batch. A batch that failed may still have happened. */
static void apply(script *s, pal_op *ops, size_t len)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        pal_status status = pal_store_apply(s->store, ops, len, &s->err);
        bool held = status == PAL_OK;

        if (i > 0 && !held && status != PAL_IO)
            return;
        for (size_t j = 0; held && j < len; j++)
            if (ops[j].status == PAL_IO) {
                held = false;
                s->err = ops[j].error;
            } else if (ops[j].status != PAL_OK && (i == 0 || !s->has_failures)) {
                fprintf(stderr, "# %s\n", ops[j].error.message);
                abort();
            }
        if (held)
            return;
        must(s->has_failures, s->err.message);
        replace_dead(s);
    }
    must(false, s->err.message);
}

static pal_message *messages_make(script *s, size_t count, size_t bytes)
{
    pal_message *messages = pal_arena_array(s->arena, count, sizeof *messages);

    must(messages && s->said + count <= SCRIPT_MESSAGES_MAX, "too many messages");
    for (size_t i = 0; i < count; i++) {
        char *text = pal_arena_alloc(s->arena, bytes + 32);
        char *client_id = pal_arena_alloc(s->arena, 32);
        int len;

        must(text && client_id, "memory");
        len = snprintf(text, 32, "m%" PRIu64 " ", ++s->said);
        for (size_t j = (size_t)len; j < bytes; j++)
            text[j] = (char)('a' + (s->said + j) % 26);
        snprintf(client_id, 32, "c%" PRIu64, s->said);
        messages[i] = pal_message_text(s->arena, PAL_ROLE_USER, S(text));
        messages[i].client_id = S(client_id);
    }
    return messages;
}

static pal_op append_op(script *s, const char *tenant, pal_id id, size_t count, size_t bytes)
{
    pal_op op = {.kind = PAL_OP_APPEND, .tenant = S(tenant), .session = id};

    op.u.append.messages = messages_make(s, count, bytes);
    op.u.append.messages_len = count;
    op.u.append.expected_seq = PAL_SEQ_ANY;
    return op;
}

static pal_op create_op(script *s, const char *tenant, const char *key)
{
    pal_session *given = pal_arena_alloc(s->arena, sizeof *given);
    pal_op op = {.kind = PAL_OP_CREATE, .tenant = S(tenant)};

    must(given, "memory");
    given->key = S(key);
    op.u.create.session = given;
    op.u.create.or_find = true;
    return op;
}

static void append(script *s, const char *tenant, const char *key, size_t count, size_t bytes)
{
    pal_op op = append_op(s, tenant, find(s, tenant, key), count, bytes);

    apply(s, &op, 1);
}

static void create(script *s, const char *tenant, const char *key)
{
    pal_op op = create_op(s, tenant, key);

    apply(s, &op, 1);
}

static void fork_at(script *s, const char *key, const char *parent, uint64_t at)
{
    pal_session given = {.key = S(key)};
    pal_op op = {.kind = PAL_OP_FORK, .u.fork = {&given, find(s, "", parent), at}};

    apply(s, &op, 1);
}

static void simple(script *s, pal_op_kind kind, pal_id id)
{
    pal_erase_result erasure;
    pal_op op = {.kind = kind, .session = id};

    if (kind == PAL_OP_ERASE)
        op.u.erasure = &erasure;
    apply(s, &op, 1);
}

/* Operations that would be there twice if they were sent twice. */
static void mark(script *s, const char *key, pal_mark_kind kind, uint64_t seq, const char *body)
{
    pal_mark given = {.kind = kind, .seq = seq, .body = S(body)};

    if (!s->has_failures)
        must(pal_store_mark(s->store, S(""), find(s, "", key), &given, &s->err) == PAL_OK,
                s->err.message);
}

static void wait_in_inbox(script *s, const char *key)
{
    pal_inbox_item item = {.body = S("{\"later\":1}")};

    if (!s->has_failures)
        must(pal_store_inbox_add(s->store, S(""), find(s, "", key), &item, &s->err) == PAL_OK,
                s->err.message);
}

static void note(script *s, const char *name, const char *body)
{
    pal_record record = {.kind = S("note"), .name = S(name), .body = S(body)};
    pal_op op = {.kind = PAL_OP_RECORD_PUT, .u.record = {&record, PAL_RECORD_VERSION_ANY}};

    apply(s, &op, 1);
}

static void rename_key(script *s, const char *key, const char *to)
{
    pal_session given = {.key = S(to), .title = S("renamed")};
    pal_op op = {.kind = PAL_OP_UPDATE,
            .session = find(s, "", key),
            .u.update = {&given, PAL_SESSION_FIELD_KEY | PAL_SESSION_FIELD_TITLE}};

    given.id = op.session;
    if (pal_id_is_none(op.session))
        return;
    apply(s, &op, 1);
}

static void blob(script *s, const char *text)
{
    pal_op op = {.kind = PAL_OP_BLOB_PUT,
            .u.blob = {.media_type = S("image/png"), .data = S(text)}};

    apply(s, &op, 1);
}

/* Several sessions in one commit. If the commit fails, some of them may be there without the
 * others. */
static void together(script *s)
{
    pal_op ops[4] = {append_op(s, "", find(s, "", "a"), 2, 300),
            append_op(s, "", find(s, "", "fork"), 1, 900), create_op(s, "", "c"),
            append_op(s, "other", find(s, "other", "b"), 1, 60)};

    if (s->has_failures)
        apply(s, &ops[2], 1);
    else
        apply(s, ops, 4);
}

/* The key moves to another session in the commit that deletes the first session. */
static void replace(script *s, const char *key)
{
    pal_id old = find(s, "", key), fresh = pal_id_new();
    pal_op ops[3] = {{.kind = PAL_OP_DELETE, .session = old}, create_op(s, "", key),
            append_op(s, "", fresh, 2, 700)};

    ops[1].session = fresh;
    ops[1].u.create.or_find = false;
    if (!s->has_failures)
        apply(s, ops, 3);
}

static void erase_message(script *s, const char *key, uint64_t seq)
{
    pal_op op = pal_op_erase_message(S(""), find(s, "", key), seq, NULL);

    apply(s, &op, 1);
}

static void sweep(script *s)
{
    pal_op op = {.kind = PAL_OP_SWEEP, .u.sweep = {.trash_ms = INT64_MAX / 2, .limit = 10}};

    apply(s, &op, 1);
}

static void open_store(script *s)
{
    pal_status status = PAL_IO;

    pal_store_close(s->store);
    for (int i = 0; i < TRIES_MAX && status != PAL_OK; i++) {
        trace_revive();
        s->store = NULL;
        status = pal_store_open(s->url, NULL, &s->store, &s->err);
    }
    must(status == PAL_OK, s->err.message);
}

static void step_done(script *s)
{
    char *text = NULL;

    /* After a step has failed halfway, its input is read again. */
    for (int i = 0; i < TRIES_MAX && !text; i++) {
        text = store_text(s->store);
        replace_dead(s);
    }
    must(text && s->texts->len < SCRIPT_STEPS_MAX + 2, "the store can't be read");
    s->texts->texts[s->texts->len] = text;
    trace_note(s->texts->len++);
    pal_arena_reset(s->arena);
}

#define STEP(...)                                                                                  \
    do {                                                                                           \
        __VA_ARGS__;                                                                               \
        step_done(s);                                                                              \
    } while (0)

static void steps_begin(script *s)
{
    STEP(create(s, "", "a"));
    STEP(append(s, "", "a", 1, 40));
    STEP(append(s, "", "a", 4, 700));
    STEP(create(s, "other", "b"));
    STEP(append(s, "other", "b", 2, 1500));
    STEP(fork_at(s, "fork", "a", 3));
    STEP(append(s, "", "fork", 2, 500));
    STEP(fork_at(s, "nested", "fork", 4));
    STEP(append(s, "", "nested", 1, 5000));
    STEP(mark(s, "a", PAL_MARK_PIN, 2, ""));
    STEP(mark(s, "fork", PAL_MARK_CHECKPOINT, 3, "{\"summary\":\"so far\"}"));
    STEP(note(s, "one", "{\"n\":1}"));
    STEP(blob(s, "some bytes of an image"));
    STEP(erase_message(s, "a", 4));
    open_store(s);
    STEP(together(s));
    STEP(erase_message(s, "nested", 2)); /* it belongs to "a" */
    STEP(wait_in_inbox(s, "fork"));
}

static void steps_of_names(script *s)
{
    STEP(simple(s, PAL_OP_DELETE, find(s, "", "a")));
    STEP(append(s, "", "fork", 1, 100));
    STEP(create(s, "", "a"));
    STEP(append(s, "", "a", 2, 600));
    STEP(rename_key(s, "a", "a2"));
    STEP(simple(s, PAL_OP_RESTORE, find_trash(s, "a")));
    STEP(append(s, "", "a", 1, 2000));
    STEP(append(s, "", "c", 1, 800));
    STEP(replace(s, "c"));
    open_store(s);
    STEP(note(s, "one", "{\"n\":2}"));
    /* With one line, the file of a session is a JSON object, like the file of its record. */
    STEP(create(s, "", "single"));
    STEP(append(s, "", "single", 1, 200));
    STEP(simple(s, PAL_OP_DELETE, find(s, "", "single")));
    STEP(simple(s, PAL_OP_RESTORE, find_trash(s, "single")));
}

static void steps_of_picoclaws(script *s)
{
    STEP(fork_at(s, "their fork", "theirs", 2));
    STEP(append(s, "", "bare", 1, 600));
    STEP(erase_message(s, "bare", 2));
    STEP(simple(s, PAL_OP_DELETE, find(s, "", "theirs")));
    STEP(append(s, "", "their fork", 1, 300));
    STEP(simple(s, PAL_OP_DELETE, find(s, "", "bare")));
    STEP(simple(s, PAL_OP_RESTORE, find_trash(s, "bare")));
    open_store(s);
    STEP(simple(s, PAL_OP_ERASE, find_trash(s, "theirs")));
    STEP(append(s, "", "old", 1, 400));
}

static void steps_end(script *s)
{
    STEP(simple(s, PAL_OP_ERASE, find(s, "", "a")));
    STEP(append(s, "", "fork", 1, 300));
    STEP(simple(s, PAL_OP_DELETE, find(s, "", "fork")));
    STEP(simple(s, PAL_OP_ERASE, find_trash(s, "fork")));
    STEP(append(s, "", "nested", 3, 400));
    open_store(s);
    STEP(sweep(s));
    STEP(simple(s, PAL_OP_ERASE, find(s, "", "nested")));
    STEP(append(s, "", "a2", 1, 700));
}

/* ---- Steps that the seed decides ---- */

static uint64_t chance(script *s, uint64_t below)
{
    uint64_t x = s->random += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % below;
}

static const char *some_key(script *s)
{
    static const char *const keys[KEYS] = {"r0", "r1", "r2", "r3", "r4", "r5"};

    return keys[chance(s, KEYS)];
}

static uint64_t last_seq(script *s, const char *key)
{
    pal_session found = {0};
    pal_status status = PAL_IO;

    for (int i = 0; i < TRIES_MAX && status == PAL_IO; i++) {
        replace_dead(s);
        status = pal_store_find(
                s->store, S(""), PAL_SESSION_BY_KEY, S(key), s->arena, &found, &s->err);
    }
    return found.last_seq;
}

static void do_names(script *s, uint64_t what, const char *key, const char *other)
{
    bool is_there = !pal_id_is_none(find(s, "", key));
    bool is_free = pal_id_is_none(find(s, "", other));
    pal_id trash = find_trash(s, key);

    if (what == 0 && is_there && is_free && last_seq(s, key) > 0)
        fork_at(s, other, key, 1 + chance(s, last_seq(s, key)));
    else if (what == 1 && is_there && is_free)
        rename_key(s, key, other);
    else if (what == 2 && is_there)
        simple(s, PAL_OP_DELETE, find(s, "", key));
    else if (what == 3 && is_there)
        simple(s, PAL_OP_ERASE, find(s, "", key));
    else if (what == 4 && !is_there && !pal_id_is_none(trash))
        simple(s, PAL_OP_RESTORE, trash);
    else if (what == 5 && !pal_id_is_none(trash))
        simple(s, PAL_OP_ERASE, trash);
    else if (what == 6 && is_there)
        replace(s, key);
}

static void steps_random(script *s)
{
    for (int i = 0; i < RANDOM_STEPS; i++) {
        const char *key = some_key(s), *other = some_key(s);
        uint64_t what = chance(s, 12);

        if (what < 7)
            STEP(do_names(s, what, key, other));
        else if (pal_id_is_none(find(s, "", key)))
            STEP(create(s, "", key));
        else
            STEP(append(s, "", key, 1 + chance(s, 3), 20 + chance(s, 1500)));
        if (chance(s, 8) == 0)
            open_store(s);
    }
}

void script_run(const char *url, uint64_t seed, bool has_failures, script_texts *out_texts)
{
    script whole = {.url = url, .has_failures = has_failures, .texts = out_texts, .random = seed};
    script *s = &whole;

    memset(out_texts, 0, sizeof *out_texts);
    whole.arena = pal_arena_new(0);
    must(whole.arena, "memory");
    /* Before anything was acknowledged: the store as a process sees it that may not write. */
    out_texts->texts[out_texts->len++] = store_text_at(url, true);
    open_store(s);
    step_done(s);
    steps_begin(s);
    steps_of_names(s);
    if (strncmp(url, "jsonl:", 6) == 0)
        steps_of_picoclaws(s);
    steps_end(s);
    steps_random(s);
    pal_store_close(whole.store);
    pal_arena_free(whole.arena);
}

void script_repeat(const char *url, uint64_t calls, script_texts *out_texts)
{
    script whole = {.url = url, .has_failures = true, .texts = out_texts};
    script *s = &whole;

    memset(out_texts, 0, sizeof *out_texts);
    whole.arena = pal_arena_new(0);
    must(whole.arena, "memory");
    open_store(s);
    STEP(create(s, "", "a"));
    trace_die_at(trace_calls() + calls);
    STEP(append(s, "", "a", 2, 700));
    pal_store_close(whole.store);
    pal_arena_free(whole.arena);
}

void script_texts_free(script_texts *texts)
{
    for (size_t i = 0; i < texts->len; i++)
        pal_free(texts->texts[i]);
    texts->len = 0;
}
