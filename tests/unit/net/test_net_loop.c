/* test_net_loop.c - posts, work and timers of the loop, and its end. */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/memory.h"
#include "net/net_loop.h"
#include "support/on_loop.h"
#include "support/tap.h"

#define POSTERS 4
#define POSTS 2000
#define TIMERS 3000

static pal_loop *open_loop(uint32_t workers)
{
    pal_loop *loop = NULL;
    pal_error err = {PAL_OK, ""};
    if (!CHECK_STATUS(pal_loop_open(workers, &loop, &err), PAL_OK, &err))
        printf("# %s\n", err.message);
    return loop;
}

/* ---- Posts ---- */

typedef struct post {
    pal_task task;
    int poster, number;
} post;

static int seen[POSTERS];
static bool in_order;
static pal_loop *post_loop;

static void take_post(pal_task *task)
{
    post *p = (post *)task;
    in_order = in_order && pal_loop_is_on(post_loop) && p->number == seen[p->poster]++;
}

static void *post_all(void *user)
{
    post *posts = user;
    for (int i = 0; i < POSTS; i++)
        pal_loop_post(post_loop, &posts[i].task);
    return NULL;
}

static void tasks_of_each_thread_run_in_order(void)
{
    static post posts[POSTERS][POSTS];
    pthread_t threads[POSTERS];
    in_order = true;
    post_loop = open_loop(1);
    CHECK(!pal_loop_is_on(post_loop));
    for (int i = 0; i < POSTERS; i++) {
        for (int k = 0; k < POSTS; k++)
            posts[i][k] = (post){{take_post, NULL}, i, k};
        pthread_create(&threads[i], NULL, post_all, posts[i]);
    }
    for (int i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    /* Posted functions run before the loop closes. */
    pal_loop_close(post_loop);
    CHECK(in_order);
    for (int i = 0; i < POSTERS; i++)
        CHECK_EQ(seen[i], POSTS);
}

static int again_left;
static bell again_done = BELL_INIT;

static void post_again(pal_task *task)
{
    if (--again_left)
        pal_loop_post(post_loop, task);
    else
        bell_ring(&again_done);
}

static void a_task_can_post_itself(void)
{
    static pal_task task = {post_again, NULL};
    post_loop = open_loop(1);
    again_left = 1000;
    pal_loop_post(post_loop, &task);
    CHECK(bell_wait(&again_done, 1));
    pal_loop_close(post_loop);
}

static void last_words(pal_task *task)
{
    static pal_task second = {take_post, NULL};
    (void)task;
    second.run = post_again;
    again_left = 3;
    pal_loop_post(post_loop, &second);
}

static void tasks_posted_during_close_are_run(void)
{
    static pal_task task = {last_words, NULL};
    post_loop = open_loop(1);
    pal_loop_post(post_loop, &task);
    pal_loop_close(post_loop);
    CHECK_EQ(again_left, 0);
    CHECK(bell_wait(&again_done, 1));
}

/* ---- Works ---- */

typedef struct work {
    pal_work_item item;
    int number;
    bool ran, done;
} work;

static pal_loop *work_loop;
static atomic_int running, running_most, work_order;
static int done_count;
static bool on_right_threads, works_in_order;

static void do_work(pal_work_item *item)
{
    work *w = (work *)item;
    int now = atomic_fetch_add(&running, 1) + 1, most = atomic_load(&running_most);
    while (now > most && !atomic_compare_exchange_weak(&running_most, &most, now))
        continue;
    w->ran = !pal_loop_is_on(work_loop);
    nanosleep(&(struct timespec){0, 200000}, NULL);
    atomic_fetch_sub(&running, 1);
}

static void end_work(pal_work_item *item)
{
    work *w = (work *)item;
    w->done = pal_loop_is_on(work_loop) && w->ran;
    on_right_threads = on_right_threads && w->done;
    done_count++;
}

static void start_works(void *user)
{
    work *works = user;
    for (int i = 0; i < 100; i++) {
        works[i] = (work){.item = {do_work, end_work, NULL}, .number = i};
        pal_loop_work(work_loop, &works[i].item);
    }
}

static void work_runs_on_all_threads_and_ends_before_the_loop(void)
{
    static work works[100];
    work_loop = open_loop(3);
    on_right_threads = true;
    done_count = 0;
    on_loop(work_loop, start_works, works);
    pal_loop_close(work_loop);
    CHECK_EQ(done_count, 100);
    CHECK(on_right_threads);
    if (CHECK_THAT(atomic_load(&running_most), >=, 1))
        CHECK_THAT(atomic_load(&running_most), <=, 3);
}

static void note_order(pal_work_item *item)
{
    work *w = (work *)item;
    works_in_order = works_in_order && atomic_fetch_add(&work_order, 1) == w->number;
}

/* Work that starts other work also keeps the loop open. */
static void start_more(pal_work_item *item)
{
    work *w = (work *)item;
    if (w->number == 99 && works_in_order) {
        works_in_order = false;
        start_works(w - 99);
    }
}

static void start_ordered(void *user)
{
    work *works = user;
    for (int i = 0; i < 100; i++) {
        works[i] = (work){.item = {note_order, start_more, NULL}, .number = i};
        pal_loop_work(work_loop, &works[i].item);
    }
}

static void work_waits_in_order(void)
{
    static work works[100];
    work_loop = open_loop(1);
    works_in_order = on_right_threads = true;
    done_count = 0;
    on_loop(work_loop, start_ordered, works);
    pal_loop_close(work_loop);
    CHECK_EQ(atomic_load(&work_order), 100);
    CHECK_EQ(done_count, 100);
    CHECK(on_right_threads);
}

/* ---- Timers ---- */

typedef struct probe {
    pal_timer timer;
    int64_t due_ms;
    bool fired, must_not;
} probe;

static pal_loop *timer_loop;
static probe probes[TIMERS];
static int fired_count;
static int64_t last_ms;
static bool timers_right;
static bell timers_done = BELL_INIT;

static void take_timer(pal_timer *timer)
{
    probe *p = (probe *)timer;
    int64_t now = pal_clock_monotonic_ms();
    timers_right = timers_right && !p->fired && !p->must_not && now >= p->due_ms &&
            p->due_ms >= last_ms && timer->position == 0;
    last_ms = p->due_ms;
    p->fired = true;
    if (++fired_count == TIMERS / 3 * 2)
        bell_ring(&timers_done);
}

static void set_timer(probe *p, int64_t delay)
{
    p->due_ms = pal_clock_monotonic_ms() + delay;
    timers_right = pal_loop_timer_start(timer_loop, &p->timer, delay, take_timer) && timers_right;
    /* The clock may have moved between the two. */
    p->due_ms = p->timer.at_ms;
}

/* A third is moved, a third is stopped; all in random order. */
static void set_timers(void *user)
{
    (void)user;
    unsigned random = 7;
    for (int i = 0; i < TIMERS; i++) {
        random = random * 1103515245u + 12345u;
        set_timer(&probes[i], (random >> 16) % 40);
    }
    for (int i = 0; i < TIMERS; i += 3) {
        random = random * 1103515245u + 12345u;
        set_timer(&probes[i], (random >> 16) % 40);
        pal_loop_timer_stop(timer_loop, &probes[i + 1].timer);
        pal_loop_timer_stop(timer_loop, &probes[i + 1].timer);
        probes[i + 1].must_not = true;
    }
}

static void timers_fire_once_in_order_and_never_early(void)
{
    timer_loop = open_loop(1);
    timers_right = true;
    on_loop(timer_loop, set_timers, NULL);
    CHECK(bell_wait(&timers_done, 1));
    pal_loop_close(timer_loop);
    CHECK(timers_right);
    CHECK_EQ(fired_count, TIMERS / 3 * 2);
}

static int spins;

static void spin(pal_timer *timer)
{
    if (++spins < 100000 && spins > 0)
        timers_right = pal_loop_timer_start(timer_loop, timer, 0, spin) && timers_right;
}

static pal_timer spinning;
static bell spin_stopped = BELL_INIT;

static void stop_spin(pal_task *task)
{
    if (spins == 0) {
        pal_loop_post(timer_loop, task);
        return;
    }
    pal_loop_timer_stop(timer_loop, &spinning);
    bell_ring(&spin_stopped);
}

/* Both wait for their turn from the beginning, whatever the machine does meanwhile. */
static void start_spin(void *user)
{
    timers_right = pal_loop_timer_start(timer_loop, &spinning, 0, spin) && timers_right;
    pal_loop_post(timer_loop, user);
}

static void a_timer_without_delay_does_not_block_the_loop(void)
{
    static pal_task task = {stop_spin, NULL};
    timer_loop = open_loop(1);
    timers_right = true;
    on_loop(timer_loop, start_spin, &task);
    CHECK(bell_wait(&spin_stopped, 1));
    pal_loop_close(timer_loop);
    /* Other functions had their turn before it ended. */
    CHECK_THAT(spins, <, 100000);
    CHECK(timers_right);
}

static void start_long(void *user)
{
    timers_right = pal_loop_timer_start(timer_loop, user, INT64_MAX, spin) && timers_right;
}

static void a_pending_timer_does_not_keep_the_loop_open(void)
{
    static pal_timer timer;
    timer_loop = open_loop(1);
    timers_right = true;
    on_loop(timer_loop, start_long, &timer);
    pal_loop_close(timer_loop);
    CHECK(timers_right);
}

static void start_without_memory(void *user)
{
    pal_timer *timer = user;
    pal_memory_fail_at(1, 1);
    timers_right = !pal_loop_timer_start(timer_loop, timer, 0, spin) && timer->position == 0;
    pal_memory_fail_at(0, 0);
}

static void an_allocation_failure_is_reported(void)
{
    pal_loop *loop;
    pal_error err = {PAL_OK, ""};
    static pal_timer timer;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        pal_memory_fail_at(nth, 1);
        CHECK_STATUS(pal_loop_open(1, &loop, &err), PAL_NO_MEMORY, &err);
        CHECK(err.message[0]);
        pal_memory_fail_at(0, 0);
    }
    timer_loop = open_loop(1);
    on_loop(timer_loop, start_without_memory, &timer);
    CHECK(timers_right);
    pal_loop_close(timer_loop);
    pal_loop_close(NULL);
}

int main(void)
{
    RUN(tasks_of_each_thread_run_in_order);
    RUN(a_task_can_post_itself);
    RUN(tasks_posted_during_close_are_run);
    RUN(work_runs_on_all_threads_and_ends_before_the_loop);
    RUN(work_waits_in_order);
    RUN(timers_fire_once_in_order_and_never_early);
    RUN(a_timer_without_delay_does_not_block_the_loop);
    RUN(a_pending_timer_does_not_keep_the_loop_open);
    RUN(an_allocation_failure_is_reported);
    return tap_done();
}
