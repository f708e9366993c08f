/* tap.h - the smallest test harness: checks that count, tests that have names, TAP for Meson.
 *
 *   static void failure_sticks(void) { CHECK(1 + 1 == 2); }
 *   int main(void) { RUN(failure_sticks); return tap_done(); }
 */
#ifndef PAL_TESTS_TAP_H
#define PAL_TESTS_TAP_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int tap_tests, tap_failures;
static bool tap_failed;

/* Goes on after a failure. Evaluates to whether it held, so that a test can stop. */
#define CHECK(condition) tap_check((condition), #condition, __FILE__, __LINE__)

#define RUN(test) tap_run(#test, test)

static inline bool tap_check(bool held, const char *text, const char *file, int line)
{
    if (!held) {
        printf("# %s:%d: %s\n", file, line, text);
        tap_failed = true;
    }
    return held;
}

static inline void tap_run(const char *name, void (*test)(void))
{
    tap_failed = false;
    test();
    tap_tests++;
    tap_failures += tap_failed;
    printf("%s %d - %s\n", tap_failed ? "not ok" : "ok", tap_tests, name);
    fflush(stdout);
}

static inline int tap_done(void)
{
    printf("1..%d\n", tap_tests);
    return tap_failures ? 1 : 0;
}

#endif
