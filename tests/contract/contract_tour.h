/* contract_tour.h - a walk through the complete public interface of the store, for tests in which
 * something fails on the way. Each step reports whether it succeeded, and later whether all,
 * nothing or a part of its work is visible. */
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
    tour_sight (*seen)(void); /* NULL for a read, and for a step that a later step reverts */
    bool seen_if_ok_only;     /* looks the same if an earlier step failed */
} tour_step;

#define TOUR_STEPS_MAX 64

extern const tour_step tour[];
extern const size_t tour_len;

/* Calls all steps in order, also after a step has failed. */
void tour_run(pal_status *out_statuses);
pal_status tour_call(size_t step);
/* Returns how much of the step's work is visible. The store must be sound, and memory must be
 * available. */
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
