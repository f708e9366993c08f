/* bench_turn.c - measures how much the engine delays the first byte of an answer. A turn makes the
 * message durable, plans the context and reports events. It is compared with a direct call of the
 * same scripted server by libcurl. Both run 500 times per second.
 *
 *   bench-turn [--quick] [--dir DIRECTORY]
 *
 * The time begins before pal_turn_start() or curl_easy_perform(). It ends when a reader gets the
 * first piece of text. Slices of both alternate, so that other work of the machine affects both.
 * Each slice has a median and a 99th percentile, and the median of these is printed. So if a
 * virtual machine stands still for a moment, only one slice is spoiled. The number of slices that
 * met the goal, and the percentile of all turns together, are printed too.
 *
 * A turn is committed twice: before the model is called, and when it has answered. So slices of the
 * bare disk alternate with the others. In these, one thread writes and syncs a file twice for each
 * turn, and every step waits for the steps before it. */
#include <curl/curl.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench_fill.h"
#include "bench_pairs.h"
#include "palaver/palaver.h"
#include "support/model_server.h"

enum {
    RATE = 500,
    CALLERS = 24,
    SESSIONS = 1000,
    SLICES_MAX = 32,
    SAMPLES_MAX = 1 << 10, /* turns in a slice */
    STEPS = 2,             /* commits of a turn */
    STEP_BYTES = 16 << 10,
    DISK_BYTES = 8 << 20,
    TURN_WAIT_MS = 20000
};

static int slices = 20, slice_ms = 1000;
static const char body[] = "{\"model\":\"m\",\"stream\":true,\"stream_options\":"
                           "{\"include_usage\":true},\"messages\":[{\"role\":\"user\","
                           "\"content\":\"@say 4\"}]}";

typedef struct samples {
    double us[SAMPLES_MAX];
    size_t len;
} samples;

/* One value for each slice. */
typedef struct series {
    samples slices[SLICES_MAX];
} series;

typedef struct side {
    const char *name;
    pal_store *store;
    pal_runtime *runtime;
    pal_id sessions[SESSIONS];
    series taken;
} side;

/* A thread that makes every CALLERS-th call of a slice, when it is due. */
typedef struct caller {
    pthread_t thread;
    int number;
    side *of; /* NULL: call the server directly */
    int64_t from_us;
    CURL *curl;
    int64_t first_us; /* when the running call got its first text */
    double us[SAMPLES_MAX / CALLERS];
    size_t len;
} caller;

static model_server server;
static caller callers[CALLERS];
static series direct_taken;
static series disk_taken;
static struct curl_slist *headers;
static char model_url[64], chat_url[96];

/* ---- One call ---- */

static size_t take_body(char *data, size_t size, size_t len, void *user)
{
    caller *c = user;

    if (c->first_us == 0 && memmem(data, size * len, MODEL_SERVER_PIECE, 9))
        c->first_us = pal_clock_monotonic_us();
    return size * len;
}

static void call_directly(caller *c)
{
    if (curl_easy_perform(c->curl) != CURLE_OK) {
        fprintf(stderr, "bench-turn: the server does not answer\n");
        exit(1);
    }
}

static bool take_event(const pal_event *event, void *user)
{
    caller *c = user;

    if (event->kind == PAL_EVENT_TEXT && c->first_us == 0)
        c->first_us = pal_clock_monotonic_us();
    return true;
}

static void run_turn(caller *c, int64_t index)
{
    pal_arena *arena = pal_arena_new(0);
    pal_message message = pal_message_text(arena, PAL_ROLE_USER, pal_str_of("@say 4"));
    pal_turn_request request = {.session = c->of->sessions[(size_t)index % SESSIONS],
            .messages = &message,
            .messages_len = 1,
            .lane = PAL_TURN_LANE_QUEUE};
    pal_turn_info info;
    pal_str text;
    pal_error err = {0};

    fill_must(pal_turn_start(c->of->runtime, &request, &info, &err), &err);
    fill_must(
            pal_turn_watch(c->of->runtime, pal_str_of(""), info.turn, 0, take_event, NULL, c, &err),
            &err);
    fill_must(pal_turn_wait(c->of->runtime, pal_str_of(""), info.turn, TURN_WAIT_MS, arena, &info,
                      &text, &err),
            &err);
    pal_arena_free(arena);
}

/* ---- Slices ---- */

static void sleep_until(int64_t us)
{
    int64_t left = us - pal_clock_monotonic_us();
    struct timespec wait = {.tv_sec = left / 1000000, .tv_nsec = left % 1000000 * 1000};

    if (left > 0)
        nanosleep(&wait, NULL);
}

static void *run_caller(void *user)
{
    static int64_t turns; /* a session is used again after all the others */
    caller *c = user;

    c->len = 0;
    for (int i = c->number; i < RATE * slice_ms / 1000; i += CALLERS) {
        int64_t start_us;

        sleep_until(c->from_us + (int64_t)i * 1000000 / RATE);
        c->first_us = 0;
        start_us = pal_clock_monotonic_us();
        if (c->of)
            run_turn(c, __atomic_fetch_add(&turns, 1, __ATOMIC_RELAXED));
        else
            call_directly(c);
        c->us[c->len++] = (double)(c->first_us - start_us);
    }
    return NULL;
}

static void run_slice(side *of, samples *out)
{
    int64_t from_us = pal_clock_monotonic_us() + 10000;

    for (int i = 0; i < CALLERS; i++) {
        callers[i].of = of;
        callers[i].from_us = from_us;
        pthread_create(&callers[i].thread, NULL, run_caller, &callers[i]);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        for (size_t j = 0; out && j < callers[i].len && out->len < SAMPLES_MAX; j++)
            out->us[out->len++] = callers[i].us[j];
    }
}

/* ---- Opening ---- */

static void side_open(side *of, const char *name, const char *url)
{
    pal_endpoint endpoint = {
            .kind = pal_str_of("openai"), .url = pal_str_of(model_url), .model = pal_str_of("m")};
    pal_runtime_options options = {.endpoints = &endpoint, .endpoints_len = 1};
    pal_session session = {0};
    pal_error err = {0};

    of->name = name;
    fill_must(pal_store_open(url, NULL, &of->store, &err), &err);
    options.store = of->store;
    fill_must(pal_runtime_open(&options, &of->runtime, &err), &err);
    for (size_t i = 0; i < SESSIONS; i++)
        fill_must(pal_store_create(of->store, &session, &of->sessions[i], &err), &err);
}

static void side_close(side *of)
{
    pal_runtime_close(of->runtime, 0);
    pal_store_close(of->store);
}

static void callers_open(void)
{
    headers = curl_slist_append(NULL, "Content-Type: application/json");
    for (int i = 0; i < CALLERS; i++) {
        CURL *curl = callers[i].curl = curl_easy_init();

        callers[i].number = i;
        curl_easy_setopt(curl, CURLOPT_URL, chat_url);
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, &callers[i]);
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    }
}

static void callers_close(void)
{
    for (int i = 0; i < CALLERS; i++)
        curl_easy_cleanup(callers[i].curl);
    curl_slist_free_all(headers);
}

/* ---- The table ---- */

static double percentile(samples *of, double part)
{
    (void)pairs_median(of->us, of->len); /* sorts the values */
    return of->us[(size_t)((double)(of->len - 1) * part)];
}

/* The percentile of all slices together. */
static double percentile_of_all(const series *of, double part)
{
    static double us[SLICES_MAX * SAMPLES_MAX];
    size_t len = 0;

    for (int i = 0; i < slices; i++)
        for (size_t j = 0; j < of->slices[i].len; j++)
            us[len++] = of->slices[i].us[j];
    (void)pairs_median(us, len);
    return us[(size_t)((double)(len - 1) * part)];
}

static void print_goal(side *of, const char *what, double part, double goal_us)
{
    double ours[SLICES_MAX], theirs[SLICES_MAX], added[SLICES_MAX], ratio[SLICES_MAX];
    char name[64];
    int held = 0;

    for (int i = 0; i < slices; i++) {
        ours[i] = percentile(&of->taken.slices[i], part);
        theirs[i] = percentile(&direct_taken.slices[i], part);
        added[i] = ours[i] - theirs[i];
        ratio[i] = ours[i] / theirs[i];
        held += added[i] < goal_us;
    }
    snprintf(name, sizeof(name), "%s, %s", of->name, what);
    printf("  %-26s %9.0f %9.0f %9.0f %7.2f  under %4.0f, held in %d of %d\n", name,
            pairs_median(ours, (size_t)slices), pairs_median(theirs, (size_t)slices),
            pairs_median(added, (size_t)slices), pairs_median(ratio, (size_t)slices), goal_us, held,
            slices);
}

static void print_side(side *of)
{
    double ours = percentile_of_all(&of->taken, 0.99);
    double theirs = percentile_of_all(&direct_taken, 0.99);

    print_goal(of, "median", 0.5, 1000);
    print_goal(of, "99th percentile", 0.99, 5000);
    printf("  %-26s %9.0f %9.0f %9.0f %7.2f\n", "  of all slices together", ours, theirs,
            ours - theirs, ours / theirs);
}

/* ---- The bare disk ---- */

static void write_step(int fd, int64_t number)
{
    static const char bytes[STEP_BYTES];
    off_t at = (off_t)(number * STEP_BYTES % DISK_BYTES);

    if (pwrite(fd, bytes, sizeof(bytes), at) != sizeof(bytes))
        exit(1);
}

/* The file is overwritten in place, like a WAL: a file that grows takes longer to sync. */
static int disk_open(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    if (fd < 0)
        exit(1);
    for (int64_t i = 0; i < DISK_BYTES / STEP_BYTES; i++)
        write_step(fd, i);
    fsync(fd);
    return fd;
}

static void run_disk_slice(int fd, samples *out)
{
    int64_t from_us = pal_clock_monotonic_us() + 10000;

    for (int64_t i = 0; i < STEPS * RATE * slice_ms / 1000 && out->len < SAMPLES_MAX; i++) {
        int64_t due_us = from_us + i * 1000000 / (STEPS * RATE);

        sleep_until(due_us);
        write_step(fd, i);
        if (fdatasync(fd))
            exit(1);
        out->us[out->len++] = (double)(pal_clock_monotonic_us() - due_us);
    }
}

static void print_disk(void)
{
    double medians[SLICES_MAX], tails[SLICES_MAX];

    for (int i = 0; i < slices; i++) {
        medians[i] = percentile(&disk_taken.slices[i], 0.5);
        tails[i] = percentile(&disk_taken.slices[i], 0.99);
    }
    printf("  The bare disk, synced as often: %.0f at the median, %.0f at the 99th percentile,"
           " %.0f at that of all slices.\n",
            pairs_median(medians, (size_t)slices), pairs_median(tails, (size_t)slices),
            percentile_of_all(&disk_taken, 0.99));
}

static void measure(side *disk, side *memory, int disk_fd)
{
    run_slice(disk, NULL); /* to warm up */
    run_slice(memory, NULL);
    run_slice(NULL, NULL);
    for (int i = 0; i < slices; i++) {
        run_slice(disk, &disk->taken.slices[i]);
        run_slice(NULL, &direct_taken.slices[i]);
        run_slice(memory, &memory->taken.slices[i]);
        run_disk_slice(disk_fd, &disk_taken.slices[i]);
    }
    printf("\nMicroseconds to the first byte, at %d turns a second; the middle one of %d slices\n"
           "  %-26s %9s %9s %9s %7s  %s\n",
            RATE, slices, "", "turn", "libcurl", "added", "ratio", "goal");
    print_side(disk);
    print_side(memory);
    print_disk();
}

static void run_in(const char *directory)
{
    static const char *const ends[] = {"db", "db-wal", "db-shm", "probe"};
    static side disk, memory;
    char paths[4][512], url[600];
    int fd;

    for (int i = 0; i < 4; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/bench-turn.%s", directory, ends[i]);
        unlink(paths[i]);
    }
    snprintf(url, sizeof(url), "sqlite:%s", paths[0]);
    fd = disk_open(paths[3]);
    side_open(&disk, "sqlite:", url);
    side_open(&memory, "memory:", "memory:");
    callers_open();
    measure(&disk, &memory, fd);
    callers_close();
    side_close(&disk);
    side_close(&memory);
    close(fd);
    for (int i = 0; i < 4; i++)
        unlink(paths[i]);
}

int main(int argc, char **argv)
{
    const char *directory = ".";

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            slices = 2;
            slice_ms = 100;
        } else if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc) {
            directory = argv[++i];
        } else {
            fprintf(stderr, "usage: bench-turn [--quick] [--dir DIRECTORY]\n");
            return 2;
        }
    }
    setenv("no_proxy", "*", 1);
    setenv("NO_PROXY", "*", 1);
    model_server_start(&server);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    snprintf(model_url, sizeof(model_url), "http://127.0.0.1:%d/v1", server.port);
    snprintf(chat_url, sizeof(chat_url), "%s/chat/completions", model_url);
    run_in(directory);
    model_server_stop(&server);
    return 0;
}
