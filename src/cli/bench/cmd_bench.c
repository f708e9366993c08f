/* cmd_bench.c - `palaver bench store`: measures how fast appends are acknowledged, compared with
 * how fast the disk can be at all.
 *
 * The reference is a plain write and fdatasync of the same number of bytes, to a file in the
 * same directory, in the same run. One durable write cannot be faster than that, but many
 * threads can share one. Every counted append was acknowledged. In a store that --store names,
 * the sessions belong to a separate tenant and are erased at the end. Otherwise a temporary
 * directory is created and removed. */
#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/memory.h"

#define TEXT_BYTES 1024
#define TENANT "palaver-bench"
#define THREADS_MAX 64
#define RUN_MS 1000
#define TAIL_LEN 50
#define TAIL_HISTORY 1000
#define RESULTS_MAX 8
#define PATH_SIZE 4096

/* A histogram of latencies: four buckets per power of two. It is accurate to a fifth, and needs
 * no allocation while measuring. */
#define BUCKETS 128

typedef struct bench_values {
    const char *dir;
    pal_cli_number ms;
} bench_values;

typedef struct result {
    char name[48];
    uint64_t done;
    int64_t duration_us;
    uint64_t buckets[BUCKETS];
} result;

typedef struct bench {
    pal_cli *cli;
    int64_t run_us;
    char dir[PATH_SIZE];       /* directory of the store's file; empty for memory: */
    char temporary[PATH_SIZE]; /* empty: the store belongs to the user */
    char text[TEXT_BYTES];
    pal_id sessions[THREADS_MAX];
    size_t sessions_len;
    result results[RESULTS_MAX];
    size_t results_len;
} bench;

/* An interrupt only ends the measurement, so that the temporary data is still removed. */
static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    interrupted = 1;
}

static bool is_running(int64_t start_us, int64_t run_us)
{
    return !interrupted && pal_clock_monotonic_us() - start_us < run_us;
}

/* ---- Measuring ---- */

static size_t bucket_of(int64_t us)
{
    uint64_t value = us < 4 ? 4 : (uint64_t)us;
    int power = 63 - __builtin_clzll(value);
    size_t bucket = (size_t)(power - 2) * 4 + (size_t)((value >> (power - 2)) & 3);
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static double bucket_us(size_t bucket)
{
    return (double)((4 + bucket % 4) << (bucket / 4)) * 1.125;
}

static double percentile_us(const result *r, double share)
{
    uint64_t wanted = (uint64_t)((double)r->done * share), seen = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        seen += r->buckets[i];
        if (seen > wanted)
            return bucket_us(i);
    }
    return 0;
}

static double per_second(const result *r)
{
    return r->duration_us > 0 ? (double)r->done * 1e6 / (double)r->duration_us : 0;
}

static void count_one(result *r, int64_t began_us)
{
    r->done++;
    r->buckets[bucket_of(pal_clock_monotonic_us() - began_us)]++;
}

static result *new_result(bench *b, const char *name)
{
    result *r = &b->results[b->results_len++];
    snprintf(r->name, sizeof r->name, "%s", name);
    return r;
}

/* ---- The speed of the disk ---- */

static pal_status write_failed(bench *b, const char *path)
{
    return pal_error_set(&b->cli->err, PAL_IO,
            "could not write '%.160s': %s", path, strerror(errno));
}

static pal_status measure_floor(bench *b)
{
    char path[PATH_SIZE + 32];
    pal_status status = PAL_OK;
    snprintf(path, sizeof path, "%s/palaver-bench-XXXXXX", b->dir);
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return write_failed(b, path);
    unlink(path);
    result *r = new_result(b, "write + fdatasync");
    int64_t start = pal_clock_monotonic_us();
    while (status == PAL_OK && is_running(start, b->run_us)) {
        int64_t began = pal_clock_monotonic_us();
        if (write(fd, b->text, sizeof b->text) != (ssize_t)sizeof b->text || fdatasync(fd) != 0)
            status = write_failed(b, path);
        count_one(r, began);
    }
    r->duration_us = pal_clock_monotonic_us() - start;
    close(fd);
    return status;
}

/* ---- Appends ---- */

typedef struct worker {
    bench *b;
    pthread_t thread;
    pal_id session;
    int64_t until_us;
    result result;
    pal_status status;
    pal_error err;
} worker;

static void *append_until(void *user)
{
    worker *w = user;
    pal_arena *arena = pal_arena_new(0);
    w->status = arena ? PAL_OK : pal_no_memory(&w->err);
    while (w->status == PAL_OK) {
        int64_t began = pal_clock_monotonic_us();
        if (began >= w->until_us || interrupted)
            break;
        pal_arena_reset(arena);
        pal_message message =
                pal_message_text(arena, PAL_ROLE_USER, pal_str_make(w->b->text, sizeof w->b->text));
        w->status = pal_store_append(w->b->cli->store, pal_str_of(TENANT), w->session, &message, 1,
                PAL_SEQ_ANY, &w->err);
        if (w->status == PAL_OK)
            count_one(&w->result, began);
    }
    pal_arena_free(arena);
    return NULL;
}

static void gather(result *r, const worker *w)
{
    r->done += w->result.done;
    for (size_t i = 0; i < BUCKETS; i++)
        r->buckets[i] += w->result.buckets[i];
}

static pal_status measure_appends(bench *b, size_t threads)
{
    char name[48];
    size_t started = 0;
    pal_status status = PAL_OK;
    worker *workers = pal_calloc(threads, sizeof *workers);
    if (!workers)
        return pal_cli_no_memory(b->cli);
    snprintf(name, sizeof name, "append, %zu %s", threads, threads == 1 ? "thread" : "threads");
    result *r = new_result(b, name);
    int64_t start = pal_clock_monotonic_us();
    for (; status == PAL_OK && started < threads; started++) {
        workers[started] =
                (worker){.b = b, .session = b->sessions[started], .until_us = start + b->run_us};
        if (pthread_create(&workers[started].thread, NULL, append_until, &workers[started]) != 0) {
            status = pal_error_set(&b->cli->err, PAL_IO, "could not start %zu threads", threads);
            break;
        }
    }
    for (size_t i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        gather(r, &workers[i]);
        if (workers[i].status != PAL_OK && status == PAL_OK) {
            b->cli->err = workers[i].err;
            status = workers[i].status;
        }
    }
    r->duration_us = pal_clock_monotonic_us() - start;
    pal_free(workers);
    return status;
}

/* ---- Loads ---- */

static pal_status fill_history(bench *b, pal_arena *arena)
{
    pal_message *messages = pal_arena_array(arena, TAIL_HISTORY, sizeof *messages);
    if (!messages)
        return pal_cli_no_memory(b->cli);
    for (size_t i = 0; i < TAIL_HISTORY; i++)
        messages[i] = pal_message_text(arena, PAL_ROLE_USER, pal_str_make(b->text, sizeof b->text));
    return pal_store_append(b->cli->store, pal_str_of(TENANT), b->sessions[0], messages,
            TAIL_HISTORY, PAL_SEQ_ANY, &b->cli->err);
}

static pal_status measure_loads(bench *b)
{
    pal_cli *cli = b->cli;
    char name[48];
    pal_message_query load = {.limit = TAIL_LEN, .from_end = true};
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_cli_no_memory(cli);
    pal_status status = fill_history(b, arena);
    snprintf(name, sizeof name, "load newest %d messages", TAIL_LEN);
    result *r = new_result(b, name);
    int64_t start = pal_clock_monotonic_us();
    while (status == PAL_OK && is_running(start, b->run_us)) {
        int64_t began = pal_clock_monotonic_us();
        pal_message_page messages;
        pal_arena_reset(arena);
        status = pal_store_load(
                cli->store, pal_str_of(TENANT), b->sessions[0], &load, arena, &messages, &cli->err);
        count_one(r, began);
    }
    r->duration_us = pal_clock_monotonic_us() - start;
    pal_arena_free(arena);
    return status;
}

/* ---- The store under test ---- */

static pal_status make_temporary(bench *b, const char *parent)
{
    pal_cli *cli = b->cli;
    char *url = pal_arena_alloc(cli->arena, PATH_SIZE + 32);
    if (!url)
        return pal_cli_no_memory(cli);
    if (strlen(parent) + 64 > PATH_SIZE)
        return pal_cli_usage(cli, NULL, "--dir is too long");
    snprintf(b->dir, sizeof b->dir, "%s/palaver-bench-XXXXXX", parent);
    if (!mkdtemp(b->dir))
        return pal_error_set(&cli->err, errno == EACCES ? PAL_DENIED : PAL_IO,
                "could not create a directory in '%.160s': %s", parent, strerror(errno));
    memcpy(b->temporary, b->dir, sizeof b->dir);
    snprintf(url, PATH_SIZE + 32, "sqlite:%s/palaver.db", b->dir);
    cli->store_url = url;
    return PAL_OK;
}

static void remove_temporary(bench *b)
{
    DIR *dir = *b->temporary ? opendir(b->temporary) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir) {
        closedir(dir);
        rmdir(b->temporary);
    }
}

static pal_status open_store(bench *b, const bench_values *given)
{
    pal_cli *cli = b->cli;
    pal_status status = PAL_OK;
    if (cli->store_given && given->dir)
        return pal_cli_usage(cli, NULL,
                "--dir is for a temporary store and cannot be combined with --store");
    if (!cli->store_given) {
        status = make_temporary(b, given->dir ? given->dir : ".");
    } else if (pal_cli_store_path(cli->store_url)) {
        const char *path = pal_cli_store_path(cli->store_url);
        const char *slash = strrchr(path, '/');
        int len = slash ? (int)(slash - path) : 1;
        snprintf(b->dir, sizeof b->dir, "%.*s", len ? len : 1, slash ? path : ".");
    }
    return status == PAL_OK ? pal_cli_store_open(cli, PAL_CLI_CREATE) : status;
}

static pal_status make_sessions(bench *b)
{
    pal_session session = {.tenant = pal_str_of(TENANT), .title = pal_str_of("benchmark")};
    pal_status status = PAL_OK;
    for (; status == PAL_OK && b->sessions_len < THREADS_MAX; b->sessions_len++) {
        status = pal_store_create(
                b->cli->store, &session, &b->sessions[b->sessions_len], &b->cli->err);
        if (status != PAL_OK)
            break;
    }
    return status;
}

static void erase_sessions(bench *b)
{
    for (size_t i = 0; i < b->sessions_len; i++) {
        pal_erase_result erasure;
        pal_error ignored;
        if (pal_store_erase(b->cli->store, pal_str_of(TENANT), b->sessions[i], &erasure,
                    &ignored) != PAL_OK)
            fprintf(stderr, "palaver: could not erase a session of tenant '" TENANT "': %s\n",
                    ignored.message);
    }
}

static pal_status measure(bench *b)
{
    static const size_t threads[] = {1, 8, 64};
    pal_cli_progress progress;
    pal_cli_progress_start(&progress, "measuring");
    pal_status status = make_sessions(b);
    if (status != PAL_OK)
        goto out;
    if (*b->dir)
        status = measure_floor(b);
    for (size_t i = 0; status == PAL_OK && i < sizeof threads / sizeof *threads; i++) {
        pal_cli_progress_set(&progress, i + 1, 5);
        status = measure_appends(b, threads[i]);
    }
    if (status != PAL_OK)
        goto out;
    pal_cli_progress_set(&progress, 4, 5);
    status = measure_loads(b);
    if (status == PAL_OK && interrupted)
        status = pal_error_set(&b->cli->err, PAL_CANCELED, "interrupted");
out:
    if (!*b->temporary)
        erase_sessions(b);
    pal_cli_progress_end(&progress);
    return status;
}

/* ---- The report ---- */

static void put_time(pal_cli *cli, pal_cli_table *table, double us)
{
    char text[32];
    if (us < 1000)
        snprintf(text, sizeof text, "%.0f us", us);
    else
        snprintf(text, sizeof text, "%.1f ms", us / 1000);
    pal_cli_table_cell(cli, table, pal_str_of(text));
}

static void print_text(bench *b)
{
    pal_cli *cli = b->cli;
    pal_cli_table table = {
            .columns = 5,
            .heads = {"WHAT", "PER SECOND", "RATIO", "MEDIAN", "99 %"},
            .right = {false, true, true, true, true},
            .shrink = -1,
    };
    for (size_t i = 0; i < b->results_len; i++) {
        const result *r = &b->results[i];
        char ratio[32] = "";
        char rate[32];
        snprintf(rate, sizeof rate, "%.0f", per_second(r));
        if (*b->dir && i + 1 < b->results_len)
            snprintf(ratio, sizeof ratio, "%.2f", per_second(r) / per_second(&b->results[0]));
        pal_cli_table_cell(cli, &table, pal_str_of(r->name));
        pal_cli_table_cell(cli, &table, pal_str_of(rate));
        pal_cli_table_cell(cli, &table, pal_str_of(ratio));
        put_time(cli, &table, percentile_us(r, 0.5));
        put_time(cli, &table, percentile_us(r, 0.99));
    }
    pal_cli_table_print(cli, &table);
    pal_buf_format(&cli->out, "\nMessages have %d bytes; each append is %s before it is counted.\n",
            TEXT_BYTES, *b->dir ? "on disk" : "in memory");
    if (*b->dir)
        pal_buf_append_text(&cli->out,
                "RATIO compares with a plain write and fdatasync of the same size in the same "
                "place.\n");
}

static void print_json(bench *b)
{
    pal_json_writer writer = pal_json_writer_make(&b->cli->out);
    pal_json_begin_object(&writer);
    pal_put_count(&writer, "message_bytes", TEXT_BYTES);
    pal_json_name(&writer, "results");
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < b->results_len; i++) {
        const result *r = &b->results[i];
        pal_json_begin_object(&writer);
        pal_put_text(&writer, "name", r->name);
        pal_put_f64(&writer, "per_second", per_second(r));
        pal_json_name(&writer, "ratio");
        if (*b->dir && i + 1 < b->results_len)
            pal_json_put_f64(&writer, per_second(r) / per_second(&b->results[0]));
        else
            pal_json_put_null(&writer);
        pal_put_f64(&writer, "median_us", percentile_us(r, 0.5));
        pal_put_f64(&writer, "p99_us", percentile_us(r, 0.99));
        pal_json_end_object(&writer);
    }
    pal_json_end_array(&writer);
    pal_json_end_object(&writer);
    pal_buf_append_char(&b->cli->out, '\n');
}

static pal_status run_bench(pal_cli *cli, void *values)
{
    const bench_values *given = values;
    if (strcmp(cli->args[0], "store") != 0)
        return pal_cli_usage(
                cli, "palaver bench store", "unknown benchmark '%.60s'", cli->args[0]);
    if (given->ms.given && (given->ms.value < 1 || given->ms.value > 600000))
        return pal_cli_usage(cli, NULL, "--ms must be from 1 to 600000");
    bench *b = pal_arena_alloc(cli->arena, sizeof *b);
    if (!b)
        return pal_cli_no_memory(cli);
    b->cli = cli;
    b->run_us = (int64_t)(given->ms.given ? given->ms.value : RUN_MS) * 1000;
    memset(b->text, 'p', sizeof b->text);
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    pal_status status = open_store(b, given);
    if (status == PAL_OK)
        status = measure(b);
    pal_store_close(cli->store);
    cli->store = NULL;
    remove_temporary(b);
    if (status == PAL_OK && cli->json)
        print_json(b);
    else if (status == PAL_OK)
        print_text(b);
    return status;
}

static const pal_cli_option options[] = {
        {"dir", 0, PAL_CLI_TEXT, offsetof(bench_values, dir), "DIR",
                "directory for the temporary store (the current one)"},
        {"ms", 0, PAL_CLI_NUMBER, offsetof(bench_values, ms), "N",
                "duration of each measurement in milliseconds (1000)"},
        {0},
};

const pal_cli_command pal_cmd_bench = {
        .name = "bench",
        .summary = "measure the speed of the store",
        .usage = "store",
        .about = "Measures durable appends from 1, 8 and 64 threads, and loads of the newest "
                 "messages. The reference is a plain write with fdatasync in the same directory, "
                 "which is the fastest that the disk allows. It uses a temporary store in the "
                 "current directory, or the store that --store names; there it erases the "
                 "sessions that it created. 'palaver bench cache' compares context strategies "
                 "instead.",
        .examples = "palaver bench store\n"
                    "palaver bench store --dir /var/lib/palaver --ms 5000",
        .options = options,
        .values_size = sizeof(bench_values),
        .args_min = 1,
        .args_max = 1,
        .run = run_bench,
};
