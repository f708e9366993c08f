/* test_id.c - ids grow, are unique, and can be read back. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "palaver/id.h"
#include "support/tap.h"

#define THREADS 4
#define IDS 5000

static bool is_less(pal_id a, pal_id b)
{
    return memcmp(a.bytes, b.bytes, sizeof a.bytes) < 0;
}

static int64_t ms_of(pal_id id)
{
    int64_t ms = 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | id.bytes[i];
    return ms;
}

static void ids_are_uuid_version_7(void)
{
    int64_t before = pal_clock_now_ms();
    pal_id id = pal_id_new();
    CHECK_EQ(id.bytes[6] >> 4, 7);
    CHECK_EQ(id.bytes[8] >> 6, 2);
    CHECK_THAT(ms_of(id), >=, before);
    CHECK_THAT(ms_of(id), <=, pal_clock_now_ms() + 1);
    CHECK(!pal_id_is_none(id));
    CHECK(pal_id_is_none((pal_id){{0}}));
    if (CHECK_ID(id, id))
        CHECK(!pal_id_equal(id, pal_id_new()));
}

static void each_id_is_larger_than_the_previous_one(void)
{
    pal_id last = pal_id_new();
    for (int i = 0; i < 100000; i++) {
        pal_id next = pal_id_new();
        if (!CHECK(is_less(last, next)))
            break;
        last = next;
    }
}

/* The counter has 26 bits and starts in its lower half, so after 2^26 ids in one millisecond it has
 * overflowed. A counter of 12 bits would overflow after far fewer. */
static void ids_grow_while_the_clock_stops_or_goes_back(void)
{
    int64_t now_ms = pal_clock_now_ms() + 10000;
    pal_clock_set_ms(now_ms);
    pal_id last = pal_id_new();
    CHECK_EQ(ms_of(last), now_ms);
    for (int i = 0; i < 100000; i++) {
        pal_id next = pal_id_new();
        if (!CHECK(is_less(last, next)))
            break;
        last = next;
    }
    CHECK_EQ(ms_of(last), now_ms);
    pal_clock_set_ms(now_ms - 5000);
    pal_id next = pal_id_new();
    if (CHECK(is_less(last, next)))
        CHECK_EQ(ms_of(next), now_ms);
    pal_clock_set_ms(now_ms + 1);
    last = pal_id_new();
    if (CHECK(is_less(next, last)))
        CHECK_EQ(ms_of(last), now_ms + 1);
    pal_clock_set_ms(0);
}

static void the_random_part_of_ids_differs(void)
{
    pal_id a = pal_id_new(), b = pal_id_new(), c = pal_id_new();
    CHECK(memcmp(a.bytes + 10, b.bytes + 10, 6) != 0 || memcmp(b.bytes + 10, c.bytes + 10, 6) != 0);
}

static void *make_ids(void *user)
{
    pal_id *ids = user;
    for (int i = 0; i < IDS; i++)
        ids[i] = pal_id_new();
    return NULL;
}

static void threads_never_create_the_same_id(void)
{
    static pal_id ids[THREADS][IDS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, make_ids, ids[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);

    /* The ids of each thread grow, so merging the lists shows equal ids. */
    int at[THREADS] = {0};
    pal_id last = {{0}};
    for (int merged = 0; merged < THREADS * IDS; merged++) {
        int least = -1;
        for (int i = 0; i < THREADS; i++) {
            if (at[i] < IDS && (least < 0 || is_less(ids[i][at[i]], ids[least][at[least]])))
                least = i;
        }
        if (!CHECK(is_less(last, ids[least][at[least]])))
            return;
        last = ids[least][at[least]++];
    }
}

static void a_forked_child_creates_different_ids(void)
{
    int ends[2];
    pal_clock_set_ms(pal_clock_now_ms() + 60000);
    pal_id_new();
    if (!CHECK_EQ(pipe(ends), 0))
        return;
    pid_t child = fork();
    if (child == 0) {
        pal_id id = pal_id_new();
        _exit(write(ends[1], &id, sizeof id) == sizeof id ? 0 : 1);
    }
    pal_id ours = pal_id_new(), theirs;
    CHECK_EQ(read(ends[0], &theirs, sizeof theirs), sizeof theirs);
    CHECK(!pal_id_equal(ours, theirs));
    CHECK(memcmp(ours.bytes + 10, theirs.bytes + 10, 6) != 0);
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    pal_clock_set_ms(0);
}

static void ids_survive_a_round_trip_as_text(void)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_id id = {{0x01, 0x9a, 0x8b, 0x3c, 0x7d, 0x2e, 0x7f, 0x10, 0x8a, 0x41, 0x5b, 0x6c, 0x7d,
                   0x8e, 0x9f, 0xff}},
           read = {{0}};
    pal_id_to_text(id, text);
    CHECK_STR(text, "019a8b3c-7d2e-7f10-8a41-5b6c7d8e9fff");
    if (CHECK(pal_id_from_text(pal_str_of(text), &read)))
        CHECK_ID(id, read);
    CHECK(pal_id_from_text(pal_str_of("019A8B3C-7D2E-7F10-8A41-5B6C7D8E9FFF"), &read));
    CHECK_ID(id, read);
    /* Any version is accepted. */
    CHECK(pal_id_from_text(pal_str_of("6ba7b810-9dad-11d1-80b4-00c04fd430c8"), &read));
}

static void other_texts_are_refused(void)
{
    static const char *const bad[] = {
            "",
            "019a8b3c-7d2e-7f10-8a41-5b6c7d8e9ff",
            "019a8b3c-7d2e-7f10-8a41-5b6c7d8e9fff0",
            "019a8b3c7d2e7f108a415b6c7d8e9fff0000",
            "019a8b3c-7d2e-7f10-8a41-5b6c7d8e9ffg",
            "019a8b3c_7d2e_7f10_8a41_5b6c7d8e9fff",
            "{019a8b3c-7d2e-7f10-8a41-5b6c7d8e9f}",
            "00000000-0000-0000-0000-000000000000",
    };
    pal_id untouched = {{1, 2, 3}}, id = untouched;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (CHECK(!pal_id_from_text(pal_str_of(bad[i]), &id)))
            CHECK_ID(id, untouched);
    }
}

int main(void)
{
    RUN(ids_are_uuid_version_7);
    RUN(each_id_is_larger_than_the_previous_one);
    RUN(ids_grow_while_the_clock_stops_or_goes_back);
    RUN(the_random_part_of_ids_differs);
    RUN(threads_never_create_the_same_id);
    RUN(a_forked_child_creates_different_ids);
    RUN(ids_survive_a_round_trip_as_text);
    RUN(other_texts_are_refused);
    return tap_done();
}
