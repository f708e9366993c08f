/* runtime_budget.h - checks whether a budget allows another model call, and keeps the reservations
 * of running calls. */
#ifndef PAL_RUNTIME_BUDGET_H
#define PAL_RUNTIME_BUDGET_H

#include <pthread.h>
#include <stdatomic.h>
#include "palaver/turn.h"

enum { PAL_BUDGET_STRIPES = 16 };

typedef struct pal_reservation pal_reservation;

/* The reservations of running calls, by tenant. */
typedef struct pal_budget_book {
    struct {
        pthread_mutex_t lock; /* held while the ledger is read, so only workers take it */
        pthread_cond_t settled; /* signaled when an ended call is released */
        pal_reservation *first;
    } stripes[PAL_BUDGET_STRIPES];
} pal_budget_book;

void pal_budget_book_init(pal_budget_book *book);
void pal_budget_book_done(pal_budget_book *book); /* no call may be running */

/* Returns true if a call that belongs to no session has a limit. */
static inline bool pal_budget_binds_tenant(const pal_budget *budget)
{
    return budget->tenant_tokens > 0 || budget->tenant_cost_micros > 0;
}

/* Returns true if the budget has any limit. */
static inline bool pal_budget_binds(const pal_budget *budget)
{
    return pal_budget_binds_tenant(budget) || budget->session_tokens > 0 ||
            budget->session_cost_micros > 0;
}

/* The tenant and session of a call, and its limits. */
typedef struct pal_budget_holder {
    const pal_budget *budget;
    pal_str tenant;
    pal_id session; /* none: the limits per session do not apply */
} pal_budget_holder;

/* Returns PAL_BUDGET if the ledger and the reservations together reach a limit; the error says
 * which limit and how much is used. Otherwise reserves `tokens` and `cost_micros` until
 * pal_budget_release(). *out_held is NULL if there is no limit. Can block, so it must not be called
 * on the loop. */
PAL_CHECKED pal_status pal_budget_hold(pal_budget_book *book, pal_store *store,
        const pal_budget_holder *holder, uint64_t tokens, int64_t cost_micros,
        pal_reservation **out_held, pal_error *err);
/* Adds to the reservation. Accepts NULL. */
void pal_budget_hold_more(pal_reservation *held, uint64_t tokens, int64_t cost_micros);
/* Sets the reservation to the actual usage: the call has ended, and the ledger will soon have it.
 * Accepts NULL. */
void pal_budget_hold_only(pal_reservation *held, uint64_t tokens, int64_t cost_micros);
/* Releases the reservation. Call it when the ledger has the call's usage, or if the call was not
 * made. From any thread; never blocks. Accepts NULL. */
void pal_budget_release(pal_reservation *held);

/* Returns the cost of a call in millionths; 0 if the model has no price. On any thread. */
int64_t pal_budget_cost(const pal_runtime *runtime, pal_str model, const pal_usage *usage);

#endif
