/* test_tokens_calibration.c - token counts that learn from the usage that the provider reports. */
#include <math.h>
#include "palaver/limits.h"
#include "palaver/tokens.h"
#include "support/tap.h"

static bool is_near(double is, double wanted)
{
    if (is - wanted < 1e-9 && wanted - is < 1e-9)
        return true;
    printf("# is %f, not %f\n", is, wanted);
    return false;
}

static void a_new_calibration_changes_nothing(void)
{
    pal_calibration c = {0};

    CHECK_EQ(pal_calibration_apply(&c, 0), 0);
    CHECK_EQ(pal_calibration_apply(&c, 12345), 12345);
    CHECK_EQ(pal_calibration_apply(&c, UINT64_MAX), UINT64_MAX);
}

static void the_first_report_sets_the_ratio(void)
{
    pal_calibration c = {0};

    pal_calibration_learn(&c, 1000, 1500);
    CHECK(is_near(c.ratio, 1.5));
    CHECK_EQ(c.reports, 1);
    CHECK_EQ(pal_calibration_apply(&c, 1000), 1500);
}

static void later_reports_are_smoothed(void)
{
    pal_calibration c = {0};

    pal_calibration_learn(&c, 1000, 1000);
    pal_calibration_learn(&c, 1000, 2000);
    CHECK(is_near(c.ratio, 1.3));
    pal_calibration_learn(&c, 1000, 2000);
    CHECK(is_near(c.ratio, 1.51));
    for (int i = 0; i < 50; i++)
        pal_calibration_learn(&c, 1000, 2000);
    CHECK_THAT(c.ratio, >, 1.999);
    CHECK_THAT(c.ratio, <=, 2);
    CHECK_EQ(c.reports, 53);
}

static void results_are_rounded_up(void)
{
    pal_calibration c = {.ratio = 1.1, .reports = 1};

    CHECK_EQ(pal_calibration_apply(&c, 10), 11);
    CHECK_EQ(pal_calibration_apply(&c, 110), 121); /* 121.00000000000001 */
    CHECK_EQ(pal_calibration_apply(&c, 11), 13);   /* 12.1 */
    CHECK_EQ(pal_calibration_apply(&c, 1), 2);
    CHECK_EQ(pal_calibration_apply(&c, 0), 0);
    c.ratio = 1;
    CHECK_EQ(pal_calibration_apply(&c, UINT64_MAX - 1), UINT64_MAX - 1);
    c.ratio = 6;
    CHECK_EQ(pal_calibration_apply(&c, UINT64_MAX / 2), UINT64_MAX);
}

static void small_reports_are_ignored(void)
{
    pal_calibration c = {0};

    pal_calibration_learn(&c, 10, PAL_CALIBRATION_TOKENS_MIN - 1);
    pal_calibration_learn(&c, 0, 100000);
    pal_calibration_learn(&c, 0, 0);
    pal_calibration_learn(&c, 1000, 0);
    CHECK_EQ(c.reports, 0);
    CHECK(!(c.ratio > 0));
    pal_calibration_learn(&c, 100, PAL_CALIBRATION_TOKENS_MIN);
    CHECK_EQ(c.reports, 1);
}

static void the_ratio_is_limited(void)
{
    pal_calibration c = {0};

    pal_calibration_learn(&c, 1, 1000000);
    CHECK(is_near(c.ratio, PAL_CALIBRATION_MAX));
    pal_calibration_learn(&c, 1000000, 100);
    CHECK(is_near(c.ratio, 6 - 0.3 * 5));
    for (int i = 0; i < 50; i++)
        pal_calibration_learn(&c, 1000000, 100);
    CHECK_THAT(c.ratio, >=, PAL_CALIBRATION_MIN);
    CHECK_THAT(c.ratio, <, PAL_CALIBRATION_MIN + 0.001);
}

/* Tokens that a provider leaves out of its report were still sent. */
static void a_low_report_never_reduces_an_estimate(void)
{
    pal_calibration c = {0};

    for (int i = 0; i < 10; i++)
        pal_calibration_learn(&c, 100000, 50000);
    CHECK_EQ(pal_calibration_apply(&c, 1000), 1000);
    CHECK_EQ(c.reports, 10);
}

/* The state may have been stored anywhere. */
static void damaged_calibrations_are_harmless(void)
{
    const double ratios[] = {-1, (double)NAN, (double)INFINITY, 1e300, 1e-300};

    for (size_t i = 0; i < sizeof(ratios) / sizeof(ratios[0]); i++) {
        pal_calibration c = {.ratio = ratios[i], .reports = UINT32_MAX};
        uint64_t tokens = pal_calibration_apply(&c, 1000);

        CHECK_THAT(tokens, >=, 500);
        CHECK_THAT(tokens, <=, 6000);
        pal_calibration_learn(&c, 1000, 1000);
        CHECK_THAT(c.ratio, >=, PAL_CALIBRATION_MIN);
        CHECK_THAT(c.ratio, <=, PAL_CALIBRATION_MAX);
        CHECK_EQ(c.reports, UINT32_MAX);
    }
}

int main(void)
{
    RUN(a_new_calibration_changes_nothing);
    RUN(the_first_report_sets_the_ratio);
    RUN(later_reports_are_smoothed);
    RUN(results_are_rounded_up);
    RUN(small_reports_are_ignored);
    RUN(the_ratio_is_limited);
    RUN(a_low_report_never_reduces_an_estimate);
    RUN(damaged_calibrations_are_harmless);
    return tap_done();
}
