/* crash_writer.c - appends as fast as it can until it is killed.
 *
 *   crash_writer PATH ACKS CHECKPOINT WRITER:COUNTER...
 *
 * One thread per WRITER, which continues with COUNTER. Messages that an earlier process of that
 * writer sent without a response are sent again with the same client id. With CHECKPOINT 1, another
 * thread constantly checkpoints the WAL through a separate connection. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "crash_work.h"
#include "palaver/palaver.h"

#define THREADS_MAX 16

typedef struct writer {
    pthread_t thread;
    uint32_t number;
    uint64_t counter;
    bool is_first;
    pattern_message rooms[3];
} writer;

static pal_store *store;
static int acks = -1;
static const pal_str tenant = {WORK_TENANT, sizeof(WORK_TENANT) - 1};

static void tell(const writer *w, ack_kind kind, uint64_t seq)
{
    ack a = {.kind = kind, .writer = w->number, .counter = w->counter, .seq = seq};

    a.hash = ack_hash(&a);
    if (write(acks, &a, sizeof(a)) != sizeof(a))
        _exit(4);
}

static void must(const writer *w, pal_status status, const pal_error *error)
{
    if (status == PAL_OK)
        return;
    fprintf(stderr, "# writer %" PRIu32 " at %" PRIu64 ": %s: %s\n", w->number, w->counter,
            pal_status_name(status), error->message);
    tell(w, ACK_FAILED, status);
    _exit(3);
}

static uint64_t append(writer *w, pal_id session, uint32_t count)
{
    pal_message messages[3];
    pal_error error = {0};

    for (uint32_t i = 0; i < count; i++) {
        pattern what = {.writer = w->number, .part = i, .parts = count, .counter = w->counter};
        pattern_message_init(&w->rooms[i], &what);
        messages[i] = w->rooms[i].message;
    }
    must(w, pal_store_append(store, tenant, session, messages, count, PAL_SEQ_ANY, &error), &error);
    return messages[count - 1].seq;
}

static void create(writer *w, pal_id id)
{
    char key[WORK_KEY_MAX];
    pal_session session = {.id = id, .tenant = tenant};
    pal_error error = {0};

    session.key = work_life_key(w->number, w->counter, PART_OWN, key);
    must(w, pal_store_create(store, &session, &id, &error), &error);
}

/* A message arrives for a session whose alias is the key of the session with the history. */
static pal_id adopt(writer *w)
{
    char key[WORK_KEY_MAX], alias[WORK_KEY_MAX];
    pal_session session = {.tenant = tenant};
    pal_resolve_request resolve = {.session = &session};
    pal_str aliases[1] = {work_life_key(w->number, w->counter, PART_OWN, alias)};
    pal_resolve_result resolution;
    pal_error error = {0};

    session.key = work_life_key(w->number, w->counter, PART_HEIR, key);
    session.aliases = aliases;
    session.aliases_len = 1;
    must(w, pal_store_resolve(store, &resolve, &resolution, &error), &error);
    if (!resolution.adopted)
        must(w, pal_error_set(&error, PAL_CONFLICT, "nothing was adopted"), &error);
    return resolution.session;
}

static void live(writer *w)
{
    pal_id id = work_life_id(w->number, w->counter, PART_OWN);
    pal_id fork_id = work_life_id(w->number, w->counter, PART_FORK);
    pal_id heir_id;
    pal_session fork = {.id = fork_id, .tenant = tenant};
    pal_mark mark = {.kind = PAL_MARK_REWIND, .seq = 1};
    pal_erase_result erasure;
    pal_error error = {0};

    create(w, id);
    tell(w, ACK_STAGE, STAGE_CREATED);
    append(w, id, 3);
    tell(w, ACK_STAGE, STAGE_FILLED);
    heir_id = adopt(w);
    tell(w, ACK_STAGE, STAGE_ADOPTED);
    must(w, pal_store_fork(store, &fork, id, 2, &fork_id, &error), &error);
    tell(w, ACK_STAGE, STAGE_FORKED);
    must(w, pal_store_mark(store, tenant, id, &mark, &error), &error);
    tell(w, ACK_STAGE, STAGE_REWOUND);
    must(w, pal_store_delete(store, tenant, fork_id, &error), &error);
    tell(w, ACK_STAGE, STAGE_FORK_DELETED);
    must(w, pal_store_erase(store, tenant, heir_id, &erasure, &error), &error);
    tell(w, ACK_STAGE, STAGE_HEIR_ERASED);
    must(w, pal_store_erase(store, tenant, id, &erasure, &error), &error);
    tell(w, ACK_STAGE, STAGE_ERASED);
    must(w, pal_store_erase(store, tenant, fork_id, &erasure, &error), &error);
    tell(w, ACK_STAGE, STAGE_FORK_ERASED);
}

static void *write_on(void *user)
{
    writer *w = user;

    for (;; w->counter++, w->is_first = false) {
        work_kind kind = work_kind_of(w->number, w->counter);
        uint32_t session = work_session_of(w->number, w->counter);
        /* The verifier checks how far a life came before the crash. */
        if (kind == WORK_LIFE && w->is_first)
            tell(w, ACK_SKIPPED, 0);
        else if (kind == WORK_LIFE)
            live(w);
        else
            tell(w, ACK_APPENDED, append(w, work_session_id(session), kind));
    }
    return NULL;
}

static void *checkpoint_on(void *user)
{
    sqlite3 *db = NULL;

    if (sqlite3_open(user, &db) != SQLITE_OK)
        return NULL;
    sqlite3_busy_timeout(db, 100);
    for (;;) {
        sqlite3_exec(db, "pragma wal_checkpoint(truncate)", NULL, NULL, NULL);
        usleep(3000);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static writer writers[THREADS_MAX];
    /* Without the tables of an encoding, which take longer than most writers live. */
    static const pal_store_options options = {.estimate = true};
    pthread_t checkpointer;
    pal_error error = {0};
    int count = argc - 4;

    if (count < 1 || count > THREADS_MAX)
        return 2;
    acks = open(argv[2], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    for (int i = 0; i < count; i++) {
        writers[i].is_first = true;
        if (sscanf(argv[4 + i], "%" SCNu32 ":%" SCNu64, &writers[i].number, &writers[i].counter) !=
                2)
            return 2;
    }
    must(&writers[0], pal_store_open(argv[1], &options, &store, &error), &error);
    for (int i = 0; i < count; i++)
        if (pthread_create(&writers[i].thread, NULL, write_on, &writers[i]) != 0)
            return 2;
    if (argv[3][0] == '1' && pthread_create(&checkpointer, NULL, checkpoint_on, argv[1]) != 0)
        return 2;
    for (;;)
        pause();
}
