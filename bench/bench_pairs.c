/* bench_pairs.c - see bench_pairs.h. */
#include "bench_pairs.h"

#include <stdio.h>
#include <stdlib.h>

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

double pairs_median(double *values, size_t len)
{
    qsort(values, len, sizeof(*values), compare_doubles);
    return len % 2 ? values[len / 2] : (values[len / 2 - 1] + values[len / 2]) / 2;
}

void pairs_add(pairs *p, double ours, double theirs)
{
    if (!p->is_warm) {
        p->is_warm = true;
        return;
    }
    p->ours[p->len] = ours;
    p->theirs[p->len] = theirs;
    p->ratios[p->len++] = ours / theirs;
}

void pairs_print_head(const char *title, const char *ours, const char *theirs)
{
    printf("\n%s\n  %-46s %12s %12s %7s  %s\n", title, "", ours, theirs, "ratio", "goal");
}

static void print_numbers(
        const char *what, double ours, double theirs, double ratio, const char *goal)
{
    printf("  %-46s %12.1f %12.1f %7.2f  %s\n", what, ours, theirs, ratio, goal);
    fflush(stdout);
}

void pairs_print(const char *what, pairs *p, const char *goal)
{
    print_numbers(what, pairs_median(p->ours, p->len), pairs_median(p->theirs, p->len),
            pairs_median(p->ratios, p->len), goal);
}

void pairs_print_line(const char *what, double ours, double theirs, const char *goal)
{
    print_numbers(what, ours, theirs, ours / theirs, goal);
}
