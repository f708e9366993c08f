/* bench_pairs.h - measures two sides alternately, and prints the table of results. */
#ifndef PAL_BENCH_PAIRS_H
#define PAL_BENCH_PAIRS_H

#include <stdbool.h>
#include <stddef.h>

#define PAIRS_MAX 64

/* The slices of one comparison. Zero it before the first use. */
typedef struct pairs {
    double ours[PAIRS_MAX], theirs[PAIRS_MAX], ratios[PAIRS_MAX];
    size_t len;
    bool is_warm;
} pairs;

/* The first pair does not count: caches are cold, and files still grow. */
void pairs_add(pairs *p, double ours, double theirs);

/* Sorts the values. */
double pairs_median(double *values, size_t len);

void pairs_print_head(const char *title, const char *ours, const char *theirs);
/* Prints one line: the medians of both sides, and the median of the ratios of adjacent slices. */
void pairs_print(const char *what, pairs *p, const char *goal);
/* Prints a line of that table for numbers that were not measured alternately. */
void pairs_print_line(const char *what, double ours, double theirs, const char *goal);

#endif
