/* bench_context.c - measures how long planning takes.
 *
 *   bench_context [--quick] [--dir DIR]
 *
 * In each kind of store, a session of a million messages is compared with one of a thousand:
 * loading its window may cost at most 1.3 times as much. A window of 200,000 tokens is planned in
 * memory with every strategy, each in less than 5 ms. All figures are medians of processor time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "palaver/palaver.h"

#define RATIO_MAX 1.3
#define PLAN_US_MAX 5000
#define SMALL 1000
#define ROUNDS 101
#define TOKENS 200 /* tokens of a message */

static pal_arena *arena;
static pal_error err;
static bool is_slow;

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, err.message);
    exit(1);
}

/* Processor time of this thread, so that other work of the machine does not count. */
static int64_t used_us(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static int compare_times(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

static int64_t median(int64_t *times, size_t len)
{
    qsort(times, len, sizeof *times, compare_times);
    return times[len / 2];
}

/* ---- Sessions ---- */

static pal_message make_message(pal_arena *place, size_t i)
{
    static char text[TOKENS * 4];
    pal_message message;

    memset(text, "abcdefgh"[i % 8], sizeof text);
    message = pal_message_text(place, i % 2 ? PAL_ROLE_ASSISTANT : PAL_ROLE_USER,
            pal_arena_copy(place, pal_str_make(text, sizeof text)));
    message.tokens = TOKENS;
    return message;
}

static pal_id fill(pal_store *store, size_t messages)
{
    enum { BATCH = 2000 };
    pal_session session = {.title = pal_str_of("bench")};
    pal_id id;

    if (pal_store_create(store, &session, &id, &err) != PAL_OK)
        fail("create");
    for (size_t done = 0; done < messages;) {
        size_t len = messages - done < BATCH ? messages - done : BATCH;
        pal_message *batch;

        pal_arena_reset(arena);
        batch = pal_arena_array(arena, len, sizeof *batch);
        for (size_t i = 0; batch && i < len; i++)
            batch[i] = make_message(arena, done + i);
        if (!batch || pal_store_append(store, session.tenant, id, batch, len, done, &err) != PAL_OK)
            fail("append");
        done += len;
    }
    return id;
}

static int64_t plan_once(pal_store *store, pal_id session)
{
    pal_window window = {.session = session, .limits = {.context = 32000, .output = 4000}};
    int64_t began = used_us();
    pal_plan plan;

    window.settings.strategy = PAL_STRATEGY_SLIDING_WINDOW;
    pal_arena_reset(arena);
    if (pal_window_plan(store, &window, arena, &plan, &err) != PAL_OK)
        fail("plan");
    if (plan.action != PAL_PLAN_ACTION_SEND || plan.tokens < 20000)
        fail("the plan is not the one that was meant");
    return used_us() - began;
}

/* The two alternate, so that other work of the machine affects both. */
static void compare_sessions(const char *name, const char *url, size_t large)
{
    pal_store *store = NULL;
    int64_t times[2][ROUNDS], small_us, large_us;
    pal_id ids[2];

    if (pal_store_open(url, NULL, &store, &err) != PAL_OK)
        fail(url);
    ids[0] = fill(store, SMALL);
    ids[1] = fill(store, large);
    for (int i = -5; i < ROUNDS; i++)
        for (int which = 0; which < 2; which++)
            times[which][i < 0 ? 0 : i] = plan_once(store, ids[which]);
    small_us = median(times[0], ROUNDS);
    large_us = median(times[1], ROUNDS);
    printf("%-8s %8d messages %6lld us   %8zu messages %6lld us   ratio %.2f\n", name, SMALL,
            (long long)small_us, large, (long long)large_us, (double)large_us / (double)small_us);
    is_slow |= (double)large_us > RATIO_MAX * (double)small_us;
    pal_store_close(store);
}

/* ---- One window ---- */

static void plan_window(pal_strategy strategy, const char *what, size_t messages)
{
    pal_arena *place = pal_arena_new(0);
    pal_message *list = pal_arena_array(place, messages, sizeof *list);
    pal_tool tool = {.name = pal_str_of("read"), .tokens = 100};
    pal_context_input input = {.system = pal_str_of("You are kind."),
            .tools = &tool,
            .tools_len = 1,
            .messages = list,
            .messages_len = messages,
            .limits = {.context = 232000, .output = 32000},
            .settings = {.strategy = strategy}};
    int64_t times[ROUNDS], us;
    pal_plan plan;

    for (size_t i = 0; list && i < messages; i++) {
        list[i] = make_message(place, i);
        list[i].seq = i + 1;
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        int64_t began = used_us();

        pal_arena_reset(arena);
        if (!list || pal_context_plan(&input, arena, &plan, &err) != PAL_OK)
            fail("plan");
        times[i] = used_us() - began;
    }
    us = median(times, ROUNDS);
    printf("%-15s %-24s %7llu tokens  %-8s %6lld us\n", pal_strategy_name(strategy), what,
            (unsigned long long)plan.tokens, pal_plan_action_name(plan.action), (long long)us);
    is_slow |= us > PLAN_US_MAX;
    pal_arena_free(place);
}

int main(int argc, char **argv)
{
    const char *dir = ".";
    size_t large = 1000000;
    char place[512], url[600], command[700];

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            large = 20000;
        else if (strcmp(argv[i], "--dir") == 0 && i + 1 < argc)
            dir = argv[++i];
    }
    arena = pal_arena_new(0);
    snprintf(place, sizeof place, "%s/bench-context-XXXXXX", dir);
    if (!arena || !mkdtemp(place))
        return 1;
    for (pal_strategy s = PAL_STRATEGY_COMPACT; s <= PAL_STRATEGY_NONE; s++) {
        plan_window(s, "that fits", 990);
        plan_window(s, "that is over", 1100);
    }
    compare_sessions("memory", "memory:", large < 100000 ? large : 100000);
    snprintf(url, sizeof url, "sqlite:%s/palaver.db", place);
    compare_sessions("sqlite", url, large);
    snprintf(command, sizeof command, "%s/palaver.db", place);
    unlink(command);
    snprintf(command, sizeof command, "%s/palaver.db-wal", place);
    unlink(command);
    snprintf(command, sizeof command, "%s/palaver.db-shm", place);
    unlink(command);
    rmdir(place);
    pal_arena_free(arena);
    printf("%s\n", is_slow ? "slower than it should be" : "fast enough");
    return 0; /* no test depends on the time */
}
