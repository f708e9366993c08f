/* contract.c - the store under test, and shorthand for its tests. See contract.h. */
#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>
#include "contract.h"

pal_store *store;
pal_arena *arena;
pal_error err;
const char *contract_dir;
char contract_url[512];

static char dir[256];
static const char *scheme;

bool contract_gives(
        pal_status wanted, pal_status status, const char *text, const char *file, int line)
{
    bool told = wanted == PAL_OK || (err.status == wanted && err.message[0] != '\0');

    if (wanted != status)
        printf("# wanted %s, got %s (%s)\n", pal_status_name(wanted), pal_status_name(status),
                status == PAL_OK ? "" : err.message);
    else if (!told)
        printf("# the error says %s '%s'\n", pal_status_name(err.status), err.message);
    return tap_check(wanted == status && told, text, file, line);
}

/* ---- The store under test ---- */

bool contract_is_durable(void)
{
    return strcmp(scheme, "memory") != 0;
}

static const char *place(bool many_stores)
{
    const char *chosen = getenv("TMPDIR");

    if (chosen && *chosen && strlen(chosen) < sizeof dir / 2)
        return chosen;
    return many_stores && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

bool contract_begin(int argc, char **argv, bool many_stores)
{
    static char name[32];
    const char *url = argc > 1 ? argv[1] : "memory:";
    size_t len = strcspn(url, ":");

    snprintf(dir, sizeof dir, "%s/palaver-contract-XXXXXX", place(many_stores));
    if (len >= sizeof name || !mkdtemp(dir)) {
        printf("Bail out! no place for '%s'\n", url);
        return false;
    }
    memcpy(name, url, len);
    scheme = name;
    contract_dir = dir;
    if (contract_is_durable())
        snprintf(contract_url, sizeof contract_url, "%s:%s/store.db", scheme, dir);
    else
        snprintf(contract_url, sizeof contract_url, "%s", url);
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
    nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int contract_end(void)
{
    contract_clear();
    rmdir(dir);
    return tap_done();
}

void contract_open_with(const pal_store_options *options)
{
    pal_store_close(store);
    store = NULL;
    if (!GIVES(PAL_OK, pal_store_open(contract_url, options, &store, &err))) {
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
    arena = pal_arena_new(0);
    contract_open_with(NULL);
    current();
    pal_store_close(store);
    store = NULL;
    pal_arena_free(arena);
    arena = NULL;
    pal_clock_set_ms(0);
}

void contract_run(const char *name, void (*test)(void))
{
    current = test;
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

    OK(pal_store_create(store, &session, &id, &err));
    return id;
}

pal_session get_session(pal_id id)
{
    pal_session session = {0};
    char text[PAL_ID_TEXT_SIZE];

    pal_id_to_text(id, text);
    OK(pal_store_find(store, no_tenant(), PAL_SESSION_BY_ID, S(text), arena, &session, &err));
    return session;
}

pal_status find_status(pal_session_by by, const char *name)
{
    pal_session session;

    return pal_store_find(store, no_tenant(), by, S(name), arena, &session, &err);
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

    return pal_store_find(store, no_tenant(), by, S(name), arena, &session, &err) == PAL_OK &&
            pal_id_equal(session.id, id);
}

pal_message text_of(pal_role role, const char *text)
{
    return pal_message_text(arena, role, S(text));
}

uint64_t say(pal_id session, const char *text)
{
    pal_message message = text_of(PAL_ROLE_USER, text);

    OK(pal_store_append(store, no_tenant(), session, &message, 1, PAL_SEQ_ANY, &err));
    return message.seq;
}

void say_words(pal_id session, const char *words)
{
    while (*words) {
        size_t len = strcspn(words, " ");

        say(session, pal_arena_copy(arena, pal_str_make(words, len)).data);
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

    OK(pal_store_load(store, no_tenant(), session, load, arena, &messages, &err));
    joined = end = pal_arena_alloc(arena, joined_len(&messages));
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
    const char *text = shown(session, NULL);

    if (strcmp(text, words) == 0)
        return true;
    printf("# shows '%s', not '%s'\n", text, words);
    return false;
}

uint64_t rewind_to(pal_id session, uint64_t seq)
{
    pal_mark mark = {.kind = PAL_MARK_REWIND, .seq = seq};

    OK(pal_store_mark(store, no_tenant(), session, &mark, &err));
    return mark.number;
}

pal_status undo(pal_id session, uint64_t target)
{
    pal_mark mark = {.kind = PAL_MARK_UNDO, .target = target};

    return pal_store_mark(store, no_tenant(), session, &mark, &err);
}

pal_status fork_status(pal_id session, uint64_t seq)
{
    pal_session record = {0};
    pal_id id;

    return pal_store_fork(store, &record, session, seq, &id, &err);
}

pal_id fork_at(pal_id session, uint64_t seq)
{
    pal_session record = {0};
    pal_id id = {{0}};

    OK(pal_store_fork(store, &record, session, seq, &id, &err));
    return id;
}

uint64_t count_messages(void)
{
    pal_store_stats stats = {0};

    OK(pal_store_stat(store, arena, &stats, &err));
    return stats.messages;
}
