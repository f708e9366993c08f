/* tokens_calibration.c - corrects our counts by what the service reports.
 *
 * The newest report has a weight of three tenths. So a session adapts when its language or its
 * tools change, and a single odd report has little effect. Pure arithmetic on the caller's
 * struct. */
#include "palaver/limits.h"
#include "palaver/tokens.h"

#define NEWEST 0.3
/* 110 * 1.1 is 121.00000000000001 in binary, and must still give 121 instead of 122. */
#define ROUNDING 1e-9

static double clamp(double ratio)
{
    if (ratio < PAL_CALIBRATION_MIN)
        return PAL_CALIBRATION_MIN;
    return ratio > PAL_CALIBRATION_MAX ? PAL_CALIBRATION_MAX : ratio;
}

void pal_calibration_learn(pal_calibration *calibration, uint64_t counted, uint64_t reported)
{
    double ratio, before = clamp(calibration->ratio);

    if (counted == 0 || reported < PAL_CALIBRATION_TOKENS_MIN)
        return;
    ratio = clamp((double)reported / (double)counted);
    if (calibration->ratio > 0)
        ratio = before + NEWEST * (ratio - before);
    calibration->ratio = ratio;
    if (calibration->reports < UINT32_MAX)
        calibration->reports++;
}

uint64_t pal_calibration_apply(const pal_calibration *calibration, uint64_t counted)
{
    double exact, whole;

    if (!(calibration->ratio > 0) || calibration->ratio == 1)
        return counted;
    exact = (double)counted * clamp(calibration->ratio);
    if (exact >= (double)UINT64_MAX)
        return UINT64_MAX;
    whole = (double)(uint64_t)exact;
    return (uint64_t)whole + (exact - whole > exact * ROUNDING);
}
