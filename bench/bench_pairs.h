/* bench_pairs.h - two sides measured in turn, and the table that shows them. */
#ifndef PAL_BENCH_PAIRS_H
#define PAL_BENCH_PAIRS_H

#include <stdbool.h>
#include <stddef.h>

#define PAIRS_MAX 64

/* The slices of one comparison; all zero at first. */
typedef struct pairs {
    double ours[PAIRS_MAX], theirs[PAIRS_MAX], ratios[PAIRS_MAX];
    size_t len;
    bool is_warm;
} pairs;

/* The first pair only warms up: caches are cold then and files grow. */
void pairs_add(pairs *p, double ours, double theirs);

/* Sorts the values. */
double pairs_median(double *values, size_t len);

void pairs_print_head(const char *title, const char *ours, const char *theirs);
/* One line: the medians of both sides, and the median of the ratios of neighbours. */
void pairs_print(const char *what, pairs *p, const char *goal);
/* A line of that table for numbers that were not measured in turn. */
void pairs_print_line(const char *what, double ours, double theirs, const char *goal);

#endif
