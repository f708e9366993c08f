/* bench_store.c - compares the store with the least code that could do the same work.
 *
 *   bench-store [--quick] [--dir DIRECTORY] [--url postgres://...]
 *
 * Machines are noisy, and disks even more. So both sides of a comparison run in one process, in
 * short slices that alternate (A B A B ...). Printed is the median of the slices' ratios. The
 * ratios of two machines can be compared, the rates cannot.
 *
 * The raw side works on a copy of the store's file, so tables, indexes, settings and row sizes are
 * the same. It commits as many messages at once as the store's group commit did.
 *
 * With --url the store is in PostgreSQL (bench_store_postgres.c). */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "bench_fill.h"
#include "bench_pairs.h"
#include "bench_raw.h"
#include "bench_slice.h"
#ifdef HAVE_LIBPQ
#include "bench_store_postgres.h"
#endif
#include "palaver/palaver.h"

#define CALLERS_MAX 64
#define HOT_SESSIONS 64
#define HOT_PERCENT 80
#define TAIL 50
#define TURN_MESSAGES 3
#define TEXT_LEN 624

typedef struct scale {
    size_t rounds;
    int64_t slice_us;
    size_t sessions;      /* sessions of the mixed turn */
    size_t long_session;  /* its messages */
    size_t open_sessions; /* sessions in the store that is opened */
} scale;

static const scale full_scale = {15, 250000, 100000, 1000000, 1000000};
static const scale quick_scale = {3, 40000, 2000, 20000, 20000}; /* for a quick check */

static scale size;
static char directory[512] = ".";
static char store_path[600], raw_path[600], file_path[600];

/* ---- Files ---- */

static void path_set(char out_path[600], const char *name)
{
    snprintf(out_path, 600, "%s/bench-store-%d-%s", directory, (int)getpid(), name);
}

static void remove_database(const char *path)
{
    static const char *const tails[] = {"", "-wal", "-shm"};
    char name[620];

    for (size_t i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "%s%s", path, tails[i]);
        unlink(name);
    }
}

static void remove_all(void)
{
    remove_database(store_path);
    remove_database(raw_path);
    unlink(file_path);
}

static void copy_file(const char *from, const char *to)
{
    static char block[1 << 20];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ssize_t len = -1;

    while (in >= 0 && out >= 0 && (len = read(in, block, sizeof(block))) > 0)
        if (write(out, block, (size_t)len) != len)
            break;
    if (len != 0 || fsync(out) != 0) {
        perror(to);
        exit(1);
    }
    close(in);
    close(out);
}

static pal_store *store_open(void)
{
    pal_store *store = NULL;
    pal_error error = {0};

    fill_must(pal_store_open(store_path, NULL, &store, &error), &error);
    return store;
}

static void store_append(worker *w, size_t session, size_t count)
{
    pal_message messages[TURN_MESSAGES];
    pal_part part;
    pal_error error = {0};

    for (size_t i = 0; i < count; i++)
        messages[i] = fill_message(&part, TEXT_LEN);
    fill_must(pal_store_append(w->store, fill_tenant, fill_session_id(session), messages, count,
                      PAL_SEQ_ANY, &error),
            &error);
}

/* ---- Durable appends ---- */

static void append_ours(worker *w)
{
    store_append(w, w->session, 1);
}

static void append_raw(worker *w)
{
    w->units = w->batch;
    raw_append(w->raw, w->handles, CALLERS_MAX, w->batch, 1);
}

static int plain_file;

static void append_file(worker *w)
{
    raw_file_append(plain_file, w->batch);
}

static void appends_at(
        size_t callers, pal_store *store, raw *reference, const int64_t *handles, size_t body_len)
{
    static worker ours[CALLERS_MAX], theirs, file;
    static pairs against_raw, against_file;
    size_t batch = 1;
    char what[80];

    against_raw = against_file = (pairs){0};
    workers_init(ours, callers, append_ours);
    workers_init(&theirs, 1, append_raw);
    workers_init(&file, 1, append_file);
    for (size_t i = 0; i < callers; i++)
        ours[i].store = store;
    theirs.raw = reference;
    theirs.handles = handles;
    file.batch = body_len;
    for (size_t i = 0; i <= size.rounds; i++) {
        pal_store_stats before = slice_stats(store), after;
        double rate = slice(ours, callers, size.slice_us);
        after = slice_stats(store);
        batch = theirs.batch = slice_batch(&before, &after);
        pairs_add(&against_raw, rate, slice(&theirs, 1, size.slice_us));
        pairs_add(&against_file, rate, slice(&file, 1, size.slice_us));
    }
    snprintf(what, sizeof(what), "callers: %zu / raw SQLite, %zu a commit", callers, batch);
    pairs_print(what, &against_raw, "");
    snprintf(what, sizeof(what), "callers: %zu / file, an fdatasync a message", callers);
    pairs_print(what, &against_file, "");
}

static void bench_appends(void)
{
    static int64_t handles[CALLERS_MAX];
    pal_store *store = store_open();
    pal_store_stats stats;
    size_t body_len;
    raw *reference;

    pairs_print_head(
            "Durable appends of 624 bytes, messages a second: more is better (ratio: times as"
            " many)",
            "palaver", "other");
    fill_sessions(store, 0, CALLERS_MAX);
    fill_messages(store, 0, CALLERS_MAX, 10, TEXT_LEN);
    stats = slice_stats(store);
    body_len = (size_t)(stats.content_bytes / stats.messages);
    pal_store_close(store);
    copy_file(store_path, raw_path);
    store = store_open();
    reference = raw_open(raw_path, body_len);
    raw_handles(reference, handles, CALLERS_MAX);
    plain_file = raw_file_open(file_path);
    appends_at(1, store, reference, handles, body_len);
    appends_at(8, store, reference, handles, body_len);
    appends_at(64, store, reference, handles, body_len);
    close(plain_file);
    raw_close(reference);
    pal_store_close(store);
    remove_all();
}

/* ---- The mixed turn ---- */

/* Few sessions have most of the turns. */
static size_t turn_session(worker *w)
{
    uint64_t dice = fill_hash(w->random += 1000003);

    if (dice % 100 < HOT_PERCENT)
        return (dice >> 8) % HOT_SESSIONS;
    return (dice >> 8) % size.sessions;
}

static void tail_ours(worker *w, size_t session, uint32_t limit)
{
    pal_message_query load = {.limit = limit, .from_end = true};
    pal_message_page messages;
    pal_error error = {0};

    pal_arena_reset(w->arena);
    fill_must(pal_store_load(w->store, fill_tenant, fill_session_id(session), &load, w->arena,
                      &messages, &error),
            &error);
}

static void turn_ours(worker *w)
{
    size_t session = turn_session(w);

    tail_ours(w, session, TAIL);
    store_append(w, session, TURN_MESSAGES);
}

static void turn_raw(worker *w)
{
    int64_t handle = w->handles[turn_session(w)];

    raw_tail(w->raw, handle, TAIL);
    raw_append(w->raw, &handle, 1, TURN_MESSAGES, TURN_MESSAGES);
}

static void turns_at(size_t callers, pal_store *store, const int64_t *handles, size_t body_len)
{
    static worker ours[CALLERS_MAX], theirs[CALLERS_MAX];
    static pairs p;
    char what[80];

    p = (pairs){0};
    workers_init(ours, callers, turn_ours);
    workers_init(theirs, callers, turn_raw);
    for (size_t i = 0; i < callers; i++) {
        ours[i].store = store;
        ours[i].arena = pal_arena_new(0);
        theirs[i].raw = raw_open(raw_path, body_len);
        theirs[i].handles = handles;
    }
    for (size_t i = 0; i <= size.rounds; i++) {
        double rate = slice(ours, callers, size.slice_us);
        pairs_add(&p, rate, slice(theirs, callers, size.slice_us));
    }
    for (size_t i = 0; i < callers; i++) {
        pal_arena_free(ours[i].arena);
        raw_close(theirs[i].raw);
    }
    snprintf(what, sizeof(what), "callers: %zu / raw SQLite, a connection each", callers);
    pairs_print(what, &p, "");
}

static void print_disk(const pal_store_stats *stats)
{
    struct stat info;

    if (stat(store_path, &info) != 0)
        return;
    pairs_print_head("Disk, MB after close: less is better", "on disk", "content");
    pairs_print_line("file / stored form of the messages", (double)info.st_size / 1e6,
            (double)stats->content_bytes / 1e6, "<= 1.4");
    pairs_print_line("file / their texts alone", (double)info.st_size / 1e6,
            (double)(stats->messages * TEXT_LEN) / 1e6, "");
}

static void bench_turns(void)
{
    pal_store *store = store_open();
    int64_t *handles = pal_calloc(size.sessions, sizeof(*handles));
    pal_store_stats stats;
    size_t body_len;
    raw *reference;

    if (!handles)
        exit(1);
    fill_sessions(store, 0, size.sessions);
    fill_messages(store, 0, size.sessions, 4, TEXT_LEN);
    fill_messages(store, 0, HOT_SESSIONS, TAIL, TEXT_LEN);
    stats = slice_stats(store);
    body_len = (size_t)(stats.content_bytes / stats.messages);
    pal_store_close(store);
    print_disk(&stats);
    copy_file(store_path, raw_path);
    pairs_print_head(
            "Mixed turns a second: read the newest 50, append 3 of 624 bytes: more is better",
            "palaver", "raw");
    printf("  (%zu sessions; %d %% of the turns in %d of them)\n", size.sessions, HOT_PERCENT,
            HOT_SESSIONS);
    store = store_open();
    reference = raw_open(raw_path, body_len);
    raw_handles(reference, handles, size.sessions);
    raw_close(reference);
    turns_at(1, store, handles, body_len);
    turns_at(8, store, handles, body_len);
    pal_store_close(store);
    pal_free(handles);
    remove_all();
}

/* ---- A long session ---- */

static void tail_once(worker *w)
{
    tail_ours(w, w->session, TAIL);
}

/* Many messages in one commit, so that the time of the disk does not hide the difference. */
static void append_many(worker *w)
{
    w->units = 100;
    fill_messages(w->store, w->session, 1, 100, 100);
}

static void compare_sessions(pal_store *store, const char *what, void (*once)(worker *w))
{
    static worker shorter, longer;
    static pairs p;

    p = (pairs){0};
    workers_init(&shorter, 1, once);
    workers_init(&longer, 1, once);
    longer.session = 1;
    shorter.store = longer.store = store;
    shorter.arena = longer.arena = pal_arena_new(0);
    for (size_t i = 0; i <= size.rounds; i++) {
        double in_short = 1e6 / slice(&shorter, 1, size.slice_us);
        pairs_add(&p, 1e6 / slice(&longer, 1, size.slice_us), in_short);
    }
    pal_arena_free(shorter.arena);
    pairs_print(what, &p, "<= 1.3");
}

static void bench_long_session(void)
{
    pal_store *store = store_open();
    char title[100];

    fill_sessions(store, 0, 2);
    fill_messages(store, 0, 1, 1000, 100);
    for (size_t done = 0; done < size.long_session; done += FILL_MESSAGES)
        fill_messages(store, 1, 1, FILL_MESSAGES, 100);
    snprintf(title, sizeof(title), "A session of %zu messages, microseconds: less is better",
            size.long_session);
    pairs_print_head(title, "long", "of 1,000");
    compare_sessions(store, "load the newest 50", tail_once);
    compare_sessions(store, "append one, durably", append_ours);
    compare_sessions(store, "append one of 100 in a commit", append_many);
    pal_store_close(store);
    remove_all();
}

/* ---- Opening ---- */

static void bench_open(void)
{
    double open_ms[PAIRS_MAX], find_ms[PAIRS_MAX];
    pal_store *store = store_open();
    worker w = {.arena = pal_arena_new(0)};

    fill_sessions(store, 0, size.open_sessions);
    pal_store_close(store);
    for (size_t i = 0; i < size.rounds; i++) {
        int64_t start = pal_clock_monotonic_us(), opened;
        w.store = store_open();
        opened = pal_clock_monotonic_us();
        tail_ours(&w, fill_hash(i) % size.open_sessions, TAIL);
        find_ms[i] = (double)(pal_clock_monotonic_us() - start) / 1000;
        open_ms[i] = (double)(opened - start) / 1000;
        pal_store_close(w.store);
    }
    pal_arena_free(w.arena);
    printf("\nOpening a store of %zu sessions, milliseconds\n", size.open_sessions);
    printf("  %-46s %12.2f %12s %7s  < 50\n", "open", pairs_median(open_ms, size.rounds), "", "");
    printf("  %-46s %12.2f %12s %7s  < 50\n", "open, and load one session",
            pairs_median(find_ms, size.rounds), "", "");
    remove_all();
}

static int usage(void)
{
    fprintf(stderr, "usage: bench-store [--quick] [--dir DIRECTORY] [--url postgres://...]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *url = NULL;

    size = full_scale;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            size = quick_scale;
        else if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc)
            snprintf(directory, sizeof(directory), "%s", argv[++i]);
        else if (strcmp(argv[i], "--url") == 0 && i + 1 < argc)
            url = argv[++i];
        else
            return usage();
    }
#ifdef HAVE_LIBPQ
    if (url)
        return bench_store_postgres(url, size.rounds, size.slice_us, size.long_session);
#endif
    if (url) {
        fprintf(stderr, "bench-store: built without PostgreSQL; install libpq-dev\n");
        return 1;
    }
    path_set(store_path, "ours.db");
    path_set(raw_path, "raw.db");
    path_set(file_path, "file");
    remove_all();
    printf("palaver's store and the least code that could do the same; medians of %zu alternating"
           " slices of %d ms\n",
            size.rounds, (int)(size.slice_us / 1000));
    bench_appends();
    bench_turns();
    bench_long_session();
    bench_open();
    return 0;
}
