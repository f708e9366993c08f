/* contract_tour.h - a walk through the whole public interface of the store, for tests that make
 * something fail on the way: each step tells whether it succeeded, and later whether all, nothing
 * or half of what it does can be seen. */
#ifndef PAL_TESTS_CONTRACT_TOUR_H
#define PAL_TESTS_CONTRACT_TOUR_H

#include "contract.h"

typedef enum tour_sight {
    TOUR_NONE = 0,
    TOUR_ALL = 1,
    TOUR_HALF = 2,
} tour_sight;

typedef struct tour_step {
    const char *name;
    pal_status (*call)(void);
    tour_sight (*seen)(void); /* NULL: a read, or a step whose effect a later one takes back */
    bool seen_if_ok_only;     /* a step before it that failed looks the same */
} tour_step;

#define TOUR_STEPS_MAX 64

extern const tour_step tour[];
extern const size_t tour_len;

/* Calls every step in its order, whether those before it failed or not. */
void tour_run(pal_status *out_statuses);
pal_status tour_call(size_t step);
/* What can be seen of the step. The store must be sound and memory at hand. */
tour_sight tour_seen(size_t step);

/* ---- contract_tour_records.c: steps ---- */

pal_status tour_put_record(void);
tour_sight tour_seen_record(void);
pal_status tour_change_record(void);
tour_sight tour_seen_change(void);
pal_status tour_put_record_with_append(void);
tour_sight tour_seen_record_with_append(void);
pal_status tour_read_records(void);
pal_status tour_drop_record(void);
pal_status tour_sweep_record(void);
pal_status tour_apply_async(void);
tour_sight tour_seen_async(void);

#endif
