/* contract.c - see contract.h. */
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>
#include "contract.h"

fixture test;

bool contract_gives(
        pal_status wanted, pal_status status, const char *text, const char *file, int line)
{
    bool has_message = test.err.status == wanted && test.err.message[0] != '\0';

    if (!tap_status(status, wanted, &test.err, text, file, line))
        return false;
    if (wanted == PAL_OK || tap_check(has_message, text, file, line))
        return true;
    printf("#   the error has status %s and message '%s'\n", pal_status_name(test.err.status),
            test.err.message);
    return false;
}

/* ---- The store under test ---- */

bool contract_is_durable(void)
{
    return strcmp(test.scheme, "memory") != 0;
}

static const char *place(bool many_stores)
{
    const char *chosen = getenv("TMPDIR");

    if (chosen && *chosen && strlen(chosen) < sizeof test.dir / 2)
        return chosen;
    return many_stores && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

static bool is_postgres(void)
{
    return strcmp(test.scheme, "postgres") == 0;
}

/* The server is that of tools/pg-test. Each program has a schema, so that programs can run at the
 * same time. */
static bool begin_postgres(void)
{
    const char *url = getenv("PALAVER_TEST_POSTGRES"), *more = getenv("PALAVER_TEST_POSTGRES_MORE");

    if (!url) {
        printf("1..0 # SKIP tools/pg-test did not start a server\n");
        exit(0);
    }
    snprintf(test.url, sizeof test.url, "%s&schema=t%d%s", url, (int)getpid(), more ? more : "");
    return true;
}

/* Empties all tables but the version. That is faster than a new schema. */
static void clear_postgres(void)
{
    char command[1024];

    snprintf(command, sizeof command,
            "psql -q -X '%s' -c \"DO \\$\\$ DECLARE name text; BEGIN FOR name IN SELECT tablename FROM"
            " pg_tables WHERE schemaname = 't%d' AND tablename <> 'meta' LOOP"
            " EXECUTE 'DELETE FROM t%d.' || name; END LOOP; END \\$\\$\"",
            getenv("PALAVER_TEST_POSTGRES"), (int)getpid(), (int)getpid());
    if (system(command) != 0)
        printf("# could not empty the tables\n");
}

bool contract_begin(int argc, char **argv, bool many_stores)
{
    const char *url = argc > 1 ? argv[1] : "memory:";
    size_t len = strcspn(url, ":");

    snprintf(test.dir, sizeof test.dir, "%s/palaver-contract-XXXXXX", place(many_stores));
    if (len >= sizeof test.scheme || !mkdtemp(test.dir)) {
        printf("Bail out! no place for '%s'\n", url);
        return false;
    }
    memcpy(test.scheme, url, len);
    if (is_postgres())
        return begin_postgres();
    if (contract_is_durable())
        snprintf(test.url, sizeof test.url, "%s:%s/store.db", test.scheme, test.dir);
    else
        snprintf(test.url, sizeof test.url, "%s", url);
    return true;
}

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *walk)
{
    (void)facts;
    (void)kind;
    if (walk->level > 0 && remove(path) != 0)
        printf("# could not remove %s\n", path);
    return 0;
}

void contract_clear(void)
{
    if (is_postgres())
        clear_postgres();
    nftw(test.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int contract_end(void)
{
    contract_clear();
    rmdir(test.dir);
    return tap_done();
}

/* PAL_TEST_CACHE=off: nothing is kept in memory, unless the test itself wants it. */
void contract_open_with(const pal_store_options *options)
{
    pal_store_options own = options ? *options : (pal_store_options){0};
    const char *cache = getenv("PAL_TEST_CACHE");

    if (cache && strcmp(cache, "off") == 0 && own.cache_bytes == 0)
        own.cache_bytes = PAL_CACHE_BYTES_NONE;
    pal_store_close(test.store);
    test.store = NULL;
    if (!GIVES(PAL_OK, pal_store_open(test.url, &own, &test.store, &test.err))) {
        printf("Bail out! no store\n");
        exit(1);
    }
}

void contract_reopen_store(void)
{
    contract_open_with(NULL);
}

static void (*current)(void);

static void with_store(void)
{
    contract_clear();
    pal_clock_set_ms(NOW);
    test.arena = pal_arena_new(0);
    contract_open_with(NULL);
    current();
    pal_store_close(test.store);
    test.store = NULL;
    pal_arena_free(test.arena);
    test.arena = NULL;
    pal_clock_set_ms(0);
}

void contract_run(const char *name, void (*run)(void))
{
    current = run;
    tap_run(name, with_store);
}

/* ---- Shorthand ---- */

pal_id new_session(void)
{
    return new_session_with_key(NULL);
}

pal_id new_session_with_key(const char *key)
{
    pal_session session = {.key = S(key)};
    pal_id id = {{0}};

    OK(pal_store_create(test.store, &session, &id, &test.err));
    return id;
}

pal_session get_session(pal_id id)
{
    pal_session session = {0};
    char text[PAL_ID_TEXT_SIZE];

    pal_id_to_text(id, text);
    OK(pal_store_find(
            test.store, no_tenant(), PAL_SESSION_BY_ID, S(text), test.arena, &session, &test.err));
    return session;
}

pal_status find_status(pal_session_by by, const char *name)
{
    pal_session session;

    return pal_store_find(test.store, no_tenant(), by, S(name), test.arena, &session, &test.err);
}

pal_status find_id_status(pal_id id)
{
    char text[PAL_ID_TEXT_SIZE];

    pal_id_to_text(id, text);
    return find_status(PAL_SESSION_BY_ID, text);
}

bool leads_to(pal_session_by by, const char *name, pal_id id)
{
    pal_session session;

    return OK(pal_store_find(
                   test.store, no_tenant(), by, S(name), test.arena, &session, &test.err)) &&
            CHECK_ID(session.id, id);
}

pal_message text_of(pal_role role, const char *text)
{
    return pal_message_text(test.arena, role, S(text));
}

uint64_t say(pal_id session, const char *text)
{
    pal_message message = text_of(PAL_ROLE_USER, text);

    OK(pal_store_append(test.store, no_tenant(), session, &message, 1, PAL_SEQ_ANY, &test.err));
    return message.seq;
}

void say_words(pal_id session, const char *words)
{
    while (*words) {
        size_t len = strcspn(words, " ");

        say(session, pal_arena_copy(test.arena, pal_str_make(words, len)).data);
        words += len;
        words += strspn(words, " ");
    }
}

static size_t joined_len(const pal_message_page *messages)
{
    size_t len = 1;

    for (size_t i = 0; i < messages->len; i++)
        len += messages->items[i].parts[0].text.len + 1;
    return len;
}

const char *shown(pal_id session, const pal_message_query *load)
{
    pal_message_page messages = {0};
    char *joined, *end;

    OK(pal_store_load(test.store, no_tenant(), session, load, test.arena, &messages, &test.err));
    joined = end = pal_arena_alloc(test.arena, joined_len(&messages));
    for (size_t i = 0; i < messages.len; i++) {
        pal_str text = messages.items[i].parts[0].text;

        if (i > 0)
            *end++ = ' ';
        memcpy(end, text.data, text.len);
        end += text.len;
        CHECK(i == 0 || messages.items[i].seq > messages.items[i - 1].seq);
    }
    return joined;
}

bool shows(pal_id session, const char *words)
{
    return CHECK_STR(shown(session, NULL), words);
}

uint64_t rewind_to(pal_id session, uint64_t seq)
{
    pal_mark mark = {.kind = PAL_MARK_REWIND, .seq = seq};

    OK(pal_store_mark(test.store, no_tenant(), session, &mark, &test.err));
    return mark.number;
}

pal_status undo(pal_id session, uint64_t target)
{
    pal_mark mark = {.kind = PAL_MARK_UNDO, .target = target};

    return pal_store_mark(test.store, no_tenant(), session, &mark, &test.err);
}

pal_status fork_status(pal_id session, uint64_t seq)
{
    pal_session record = {0};
    pal_id id;

    return pal_store_fork(test.store, &record, session, seq, &id, &test.err);
}

pal_id fork_at(pal_id session, uint64_t seq)
{
    pal_session record = {0};
    pal_id id = {{0}};

    OK(pal_store_fork(test.store, &record, session, seq, &id, &test.err));
    return id;
}

uint64_t count_messages(void)
{
    pal_store_stats stats = {0};

    OK(pal_store_stat(test.store, test.arena, &stats, &test.err));
    return stats.messages;
}
