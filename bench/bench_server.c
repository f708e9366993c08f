/* bench_server.c - compares the server with the bare store and with a server of Node and SQLite,
 * and measures an idle server.
 *
 *   bench_server --palaver PROGRAM [--baseline SERVER.MJS] [--dir DIRECTORY] [--quick] [--cpu]
 *
 * --cpu: only the CPU time of the servers.
 *
 * All sides run on this machine, in slices that alternate. Printed is the median of the slices'
 * ratios. The clients share the machine with the servers, so every figure over HTTP includes their
 * work; those of the bare store do not. The servers have their default settings, with their log.
 *
 * The stores are made in the directory, which needs about 6 GB, and removed at the end. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "bench_child.h"
#include "bench_fill.h"
#include "bench_load.h"
#include "bench_pairs.h"
#include "palaver/palaver.h"
#include "support/model_server.h"

#define CONNECTIONS 64
#define TEXT_LEN 624  /* bytes of an appended message */
#define SHORT_LEN 200 /* bytes of a message that is read: there are millions */
#define TAIL 50
#define EACH 60 /* messages of a session that is read */
#define MB 1e6

typedef struct scale {
    size_t rounds;
    int64_t slice_us;
    size_t sessions;      /* sessions in the store that is opened */
    size_t read_sessions; /* sessions among them that have messages */
    uint64_t reads;       /* in one slice */
    size_t cold_sessions; /* more messages than the memory for sessions has room for */
    size_t starts;
    size_t streams;
} scale;

static const scale full_scale = {9, 500000, 1000000, 100000, 10000, 6000, 5, 10000};
static const scale quick_scale = {2, 60000, 5000, 500, 300, 100, 2, 50}; /* for a quick check */

static scale size;
static const char *palaver, *baseline;
static char directory[512] = ".", log_path[600];
static bool only_cpu;
static model_server models;

/* ---- Files ---- */

typedef char path[600];

static void path_set(path out_path, const char *name)
{
    snprintf(out_path, sizeof(path), "%s/bench-server-%d-%s", directory, (int)getpid(), name);
}

static void remove_files(const char *name)
{
    static const char *const tails[] = {"", "-wal", "-shm"};
    path full;
    char each[620];

    path_set(full, name);
    for (size_t i = 0; i < 3; i++) {
        snprintf(each, sizeof(each), "%s%s", full, tails[i]);
        unlink(each);
    }
}

static pal_store *store_open(const char *name)
{
    pal_store *store = NULL;
    pal_error error = {0};
    path full;

    path_set(full, name);
    fill_must(pal_store_open(full, NULL, &store, &error), &error);
    return store;
}

static void store_make(
        const char *name, size_t sessions, size_t with_messages, size_t each, size_t len)
{
    pal_store *store = store_open(name);

    fill_sessions(store, 0, sessions);
    if (each) {
        pal_error error = {0};

        fill_messages(store, 0, with_messages, each, len);
        fill_must(pal_store_index(store, UINT32_MAX, NULL, &error), &error);
    }
    pal_store_close(store);
}

/* Creates the same sessions, with the same ids. */
static void baseline_make(const char *name, size_t sessions, size_t each, size_t len)
{
    path full, ids;
    char each_text[24], len_text[24], id[PAL_ID_TEXT_SIZE];
    FILE *file;

    path_set(full, name);
    path_set(ids, "ids");
    file = fopen(ids, "w");
    for (size_t i = 0; file && i < sessions; i++) {
        pal_id_to_text(fill_session_id(i), id);
        fprintf(file, "%s\n", id);
    }
    if (!file || fclose(file) != 0) {
        perror(ids);
        exit(1);
    }
    snprintf(each_text, sizeof(each_text), "%zu", each);
    snprintf(len_text, sizeof(len_text), "%zu", len);
    child_run((const char *[]){"node", baseline, "fill", full, ids, each_text, len_text, NULL});
    unlink(ids);
}

/* ---- Servers ---- */

static void palaver_start(child *out_child, const char *name, const char *provider_url)
{
    path full;

    path_set(full, name);
    if (provider_url)
        child_start(out_child, directory, log_path,
                (const char *[]){palaver, "--store", full, "serve", "--listen", "127.0.0.1:0",
                        "--provider", "openai", "--provider-url", provider_url, "--model", "mock",
                        NULL});
    else
        child_start(out_child, directory, log_path,
                (const char *[]){palaver, "--store", full, "serve", "--listen", "127.0.0.1:0",
                        "--provider", "echo", NULL});
}

static void baseline_start(child *out_child, const char *name)
{
    path full;

    path_set(full, name);
    child_start(out_child, directory, log_path,
            (const char *[]){"node", baseline, "serve", full, NULL});
}

/* ---- Requests ---- */

static size_t request_append(uint64_t n, char *out, void *user)
{
    static char body[TEXT_LEN + 64];
    char id[PAL_ID_TEXT_SIZE];
    pal_part part;

    (void)user;
    if (!body[0]) {
        fill_message(&part, TEXT_LEN);
        snprintf(body, sizeof(body), "{\"role\":\"user\",\"content\":\"%.*s\"}", (int)part.text.len,
                part.text.data);
    }
    pal_id_to_text(fill_session_id(n % CONNECTIONS), id);
    return (size_t)snprintf(out, LOAD_REQUEST_MAX,
            "POST /api/v1/sessions/%s/messages HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
            id, strlen(body), body);
}

static size_t request_tail_of(uint64_t index, char *out)
{
    char id[PAL_ID_TEXT_SIZE];

    pal_id_to_text(fill_session_id(index), id);
    return (size_t)snprintf(out, LOAD_REQUEST_MAX,
            "GET /api/v1/sessions/%s/messages?order=desc&limit=%d HTTP/1.1\r\n"
            "Host: 127.0.0.1\r\n\r\n",
            id, TAIL);
}

static size_t request_tail(uint64_t n, char *out, void *user)
{
    (void)user;
    return request_tail_of(fill_hash(n) % size.read_sessions, out);
}

static load *load_on(
        const child *server, unsigned code, size_t (*request)(uint64_t n, char *out, void *user))
{
    return load_open(&(load_plan){
            .port = server->port, .connections = CONNECTIONS, .code = code, .request = request});
}

/* ---- Appends ---- */

typedef struct appender {
    pthread_t thread;
    pal_store *store;
    size_t index;
    int64_t until_us;
    uint64_t done;
} appender;

static void *append_run(void *user)
{
    appender *a = user;

    do {
        pal_part part;
        pal_message message = fill_message(&part, TEXT_LEN);
        pal_error error = {0};

        fill_must(pal_store_append(a->store, fill_tenant, fill_session_id(a->index), &message, 1,
                          PAL_SEQ_ANY, &error),
                &error);
        a->done++;
    } while (pal_clock_monotonic_us() < a->until_us);
    return NULL;
}

/* The bare store, with as many callers as there are connections. */
static double append_slice(pal_store *store)
{
    static appender appenders[CONNECTIONS];
    int64_t start = pal_clock_monotonic_us();
    uint64_t done = 0;

    for (size_t i = 0; i < CONNECTIONS; i++) {
        appenders[i] = (appender){.store = store, .index = i, .until_us = start + size.slice_us};
        if (pthread_create(&appenders[i].thread, NULL, append_run, &appenders[i]) != 0)
            exit(1);
    }
    for (size_t i = 0; i < CONNECTIONS; i++) {
        pthread_join(appenders[i].thread, NULL);
        done += appenders[i].done;
    }
    return (double)done * 1e6 / (double)(pal_clock_monotonic_us() - start);
}

static void appends_compare(pal_store *store, load *ours, load *theirs)
{
    static pairs to_store, to_node;

    for (size_t i = 0; i <= size.rounds; i++) {
        double itself = append_slice(store), served = load_slice(ours, size.slice_us);

        pairs_add(&to_store, served, itself);
        if (theirs)
            pairs_add(&to_node, served, load_slice(theirs, size.slice_us));
    }
    pairs_print("over HTTP / the store itself, 64 threads", &to_store, ">= 0.6");
    if (theirs)
        pairs_print("over HTTP / Node and SQLite", &to_node, ">= 12");
}

static void bench_appends(void)
{
    pal_store *store;
    child ours = {0}, theirs = {0};
    load *ours_load, *theirs_load = NULL;

    store_make("alone", CONNECTIONS, 0, 0, 0);
    store_make("served", CONNECTIONS, 0, 0, 0);
    palaver_start(&ours, "served", NULL);
    ours_load = load_on(&ours, 201, request_append);
    if (baseline) {
        baseline_make("node", CONNECTIONS, 0, 0);
        baseline_start(&theirs, "node");
        theirs_load = load_on(&theirs, 201, request_append);
    }
    store = store_open("alone");
    pairs_print_head("Durable appends of 624 bytes at 64 connections, a second: more is better",
            "served", "other");
    appends_compare(store, ours_load, theirs_load);
    pal_store_close(store);
    load_close(ours_load);
    child_stop(&ours);
    if (baseline) {
        load_close(theirs_load);
        child_stop(&theirs);
    }
    remove_files("alone");
    remove_files("served");
    remove_files("node");
}

/* ---- CPU time ---- */

#define HOT_SESSIONS CONNECTIONS

typedef size_t request_fn(uint64_t n, char *out, void *user);

static size_t request_hot_tail(uint64_t n, char *out, void *user)
{
    (void)user;
    return request_tail_of(fill_hash(n) % HOT_SESSIONS, out);
}

/* The other sessions, one after the other. */
static size_t request_cold_tail(uint64_t n, char *out, void *user)
{
    (void)user;
    return request_tail_of(HOT_SESSIONS + n % size.cold_sessions, out);
}

static double cpu_of_requests(load *clients, const child *server)
{
    double before = child_cpu_us(server);

    load_count(clients, size.reads);
    return (child_cpu_us(server) - before) / (double)size.reads;
}

static void cpu_compare(const char *what, const child *ours, const child *theirs, unsigned code,
        request_fn *request, const char *goal)
{
    load *ours_load = load_on(ours, code, request), *theirs_load = NULL;
    pairs p = {0};

    if (baseline)
        theirs_load = load_on(theirs, code, request);
    for (size_t i = 0; i <= size.rounds; i++) {
        double us = cpu_of_requests(ours_load, ours);

        pairs_add(&p, us, baseline ? cpu_of_requests(theirs_load, theirs) : us);
    }
    pairs_print(what, &p, goal);
    load_close(ours_load);
    if (baseline)
        load_close(theirs_load);
}

static void bench_cpu(void)
{
    child ours = {0}, theirs = {0};

    store_make("cpu", HOT_SESSIONS + size.cold_sessions, HOT_SESSIONS + size.cold_sessions, EACH,
            TEXT_LEN);
    palaver_start(&ours, "cpu", NULL);
    if (baseline) {
        baseline_make("node-cpu", HOT_SESSIONS + size.cold_sessions, EACH, TEXT_LEN);
        baseline_start(&theirs, "node-cpu");
    }
    pairs_print_head("CPU time of the server for a request, in us: less is better", "palaver",
            "Node and SQLite");
    cpu_compare("newest 50 of 624 bytes, sessions in use", &ours, &theirs, 200, request_hot_tail,
            "<= 0.11");
    cpu_compare("newest 50 of 624 bytes, one session after the other", &ours, &theirs, 200,
            request_cold_tail, "");
    cpu_compare("durable append of 624 bytes, 64 connections", &ours, &theirs, 201, request_append,
            "<= 0.11");
    child_stop(&ours);
    if (baseline)
        child_stop(&theirs);
    remove_files("cpu");
    remove_files("node-cpu");
}

/* ---- Starting ---- */

static void bench_start(void)
{
    double ms[PAIRS_MAX], resident[PAIRS_MAX], own[PAIRS_MAX];

    for (size_t i = 0; i < size.starts; i++) {
        child server;

        palaver_start(&server, "large", NULL);
        ms[i] = (double)server.started_us / 1e3;
        resident[i] = (double)child_resident(&server) / MB;
        own[i] = (double)child_anonymous(&server) / MB;
        child_stop(&server);
    }
    printf("\nStart and rest, with %zu sessions in the store: less is better\n", size.sessions);
    pairs_print_line(
            "ms to the line with the address / goal", pairs_median(ms, size.starts), 100, "<= 1");
    pairs_print_line("MB resident / goal", pairs_median(resident, size.starts), 15, "<= 1");
    pairs_print_line("of that, not pages of files", pairs_median(own, size.starts), 15, "");
}

/* ---- Reads ---- */

/* Both sides read from memory, so the disk has no effect. */
static void file_warm(const char *name)
{
    static char block[1 << 20];
    path full;
    int fd;

    path_set(full, name);
    fd = open(full, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && read(fd, block, sizeof(block)) > 0)
        continue;
    if (fd >= 0)
        close(fd);
}

static void bench_reads(void)
{
    static pairs p;
    child ours = {0}, theirs = {0};
    load *ours_load, *theirs_load;

    printf("\nReading the newest %d of %d messages of random ones of %zu sessions, a second: more "
           "is better\n",
            TAIL, EACH, size.read_sessions);
    if (!baseline) {
        printf("  there is no baseline\n");
        return;
    }
    file_warm("large");
    file_warm("node-large");
    palaver_start(&ours, "large", NULL);
    baseline_start(&theirs, "node-large");
    ours_load = load_on(&ours, 200, request_tail);
    theirs_load = load_on(&theirs, 200, request_tail);
    for (size_t i = 0; i <= size.rounds; i++) {
        double rate = (double)size.reads / load_count(ours_load, size.reads);

        pairs_add(&p, rate, (double)size.reads / load_count(theirs_load, size.reads));
    }
    pairs_print("over HTTP / Node and SQLite", &p, ">= 10");
    load_close(ours_load);
    load_close(theirs_load);
    child_stop(&ours);
    child_stop(&theirs);
}

/* ---- Streams ---- */

/* Starts a turn whose model sends nothing yet. Returns its id. */
static void turn_hold(const child *server, char out_turn[PAL_ID_TEXT_SIZE])
{
    char id[PAL_ID_TEXT_SIZE], request[512], body[1024];
    static const char content[] = "{\"message\":\"@held\",\"background\":true}";
    const char *turn;

    pal_id_to_text(fill_session_id(0), id);
    snprintf(request, sizeof(request),
            "POST /api/v1/sessions/%s/turns HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            "Content-Length: %zu\r\n\r\n%s",
            id, strlen(content), content);
    load_ask(server->port, request, 202, body, sizeof(body));
    turn = strstr(body, "\"turn_id\":\"");
    if (!turn) {
        fprintf(stderr, "bench-server: no turn: %s\n", body);
        exit(1);
    }
    snprintf(out_turn, PAL_ID_TEXT_SIZE, "%.*s", PAL_ID_TEXT_LEN, turn + 11);
}

static void bench_streams(void)
{
    char turn[PAL_ID_TEXT_SIZE], url[64], request[256];
    int *fds = pal_calloc(size.streams, sizeof(*fds));
    child server = {0};
    double before;

    if (!fds)
        exit(1);
    store_make("streams", 1, 0, 0, 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/v1", models.port);
    palaver_start(&server, "streams", url);
    turn_hold(&server, turn);
    before = (double)child_resident(&server) / MB;
    snprintf(request, sizeof(request),
            "GET /api/v1/turns/%s/events HTTP/1.1\r\nHost: "
            "127.0.0.1\r\n\r\n",
            turn);
    for (size_t i = 0; i < size.streams; i++)
        fds[i] = load_hold(server.port, request);
    printf("\n%zu readers of events, held open: less is better\n", size.streams);
    pairs_print_line("MB resident / goal", (double)child_resident(&server) / MB, 150, "<= 1");
    pairs_print_line("KB for each of them",
            ((double)child_resident(&server) / MB - before) * 1e3 / (double)size.streams, 1, "");
    for (size_t i = 0; i < size.streams; i++)
        close(fds[i]);
    pal_free(fds);
    model_server_end(&models);
    child_stop(&server);
    remove_files("streams");
}

/* ---- The command ---- */

static void files_claim(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        if (limit.rlim_max < size.streams + 64)
            size.streams = limit.rlim_max - 64;
    }
}

static void options_read(int argc, char **argv)
{
    size = full_scale;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            size = quick_scale;
        else if (strcmp(argv[i], "--cpu") == 0)
            only_cpu = true;
        else if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc)
            snprintf(directory, sizeof(directory), "%s", argv[++i]);
        else if (strcmp(argv[i], "--palaver") == 0 && i + 1 < argc)
            palaver = argv[++i];
        else if (strcmp(argv[i], "--baseline") == 0 && i + 1 < argc)
            baseline = argv[++i];
        else
            palaver = NULL, i = argc;
    }
    if (!palaver) {
        fprintf(stderr,
                "usage: bench_server --palaver PROGRAM [--baseline SERVER.MJS]"
                " [--dir DIRECTORY] [--quick] [--cpu]\n");
        exit(2);
    }
}

static int end(void)
{
    model_server_stop(&models);
    unlink(log_path);
    return 0;
}

int main(int argc, char **argv)
{
    options_read(argc, argv);
    model_server_start(&models);
    files_claim();
    signal(SIGPIPE, SIG_IGN);
    path_set(log_path, "log");
    printf("palaver's server: medians of %zu alternating slices\n", size.rounds);
    bench_cpu();
    if (only_cpu)
        return end();
    bench_appends();
    store_make("large", size.sessions, size.read_sessions, EACH, SHORT_LEN);
    bench_start();
    if (baseline)
        baseline_make("node-large", size.read_sessions, EACH, SHORT_LEN);
    bench_reads();
    remove_files("large");
    remove_files("node-large");
    bench_streams();
    return end();
}
