/* turn_budget.h - whether there is money left for a call of a model, and what running calls hold
 * of it. */
#ifndef PAL_TURN_BUDGET_H
#define PAL_TURN_BUDGET_H

#include <pthread.h>
#include <stdatomic.h>
#include "palaver/turn.h"

enum { PAL_BUDGET_STRIPES = 16 };

typedef struct pal_reservation pal_reservation;

/* What running calls of budgets hold, by tenant. */
typedef struct pal_budget_book {
    struct {
        pthread_mutex_t lock; /* held while the ledger is read: taken by workers only */
        pthread_cond_t settled; /* a call that had ended was released */
        pal_reservation *first;
    } stripes[PAL_BUDGET_STRIPES];
} pal_budget_book;

void pal_budget_book_init(pal_budget_book *book);
void pal_budget_book_done(pal_budget_book *book); /* when no call runs any more */

/* Whether a call that belongs to no session has a limit at all. */
static inline bool pal_budget_binds_tenant(const pal_budget *budget)
{
    return budget->tenant_tokens > 0 || budget->tenant_cost_micros > 0;
}

static inline bool pal_budget_binds(const pal_budget *budget)
{
    return pal_budget_binds_tenant(budget) || budget->session_tokens > 0 ||
            budget->session_cost_micros > 0;
}

/* Who calls, within which limits. */
typedef struct pal_budget_holder {
    const pal_budget *budget;
    pal_str tenant;
    pal_id session; /* none: those of a session bind nobody */
} pal_budget_holder;

/* PAL_BUDGET where what the ledger has, and what running calls hold, reach a limit, with whose and
 * how much. Otherwise holds `tokens` and `cost_micros` until pal_budget_release(); *out_held is
 * NULL where there is no limit. May block: not on the loop. */
PAL_CHECKED pal_status pal_budget_hold(pal_budget_book *book, pal_store *store,
        const pal_budget_holder *holder, uint64_t tokens, int64_t cost_micros,
        pal_reservation **out_held, pal_error *err);
/* Holds so much more. Accepts NULL. */
void pal_budget_hold_more(pal_reservation *held, uint64_t tokens, int64_t cost_micros);
/* Holds no more than that: the call has ended, and the ledger will soon have it. Accepts NULL. */
void pal_budget_hold_only(pal_reservation *held, uint64_t tokens, int64_t cost_micros);
/* When the ledger has what the call used, or the call was not made. From any thread; never blocks.
 * Accepts NULL. */
void pal_budget_release(pal_reservation *held);

#endif
