/* turn_budget.h - whether there is money left for a call of a model. */
#ifndef PAL_TURN_BUDGET_H
#define PAL_TURN_BUDGET_H

#include "palaver/turn.h"

/* Whether a call that belongs to no session has a limit at all. */
static inline bool pal_budget_binds_tenant(const pal_budget *budget)
{
    return budget->tenant_tokens > 0 || budget->tenant_cost_micros > 0;
}

/* PAL_BUDGET where a limit is reached, with whose and how much; PAL_OK without a look at the store
 * where there is none. Those of a session count where there is one. From any thread; may block. */
PAL_CHECKED pal_status pal_budget_check(
        pal_store *store, const pal_budget *budget, pal_str tenant, pal_id session, pal_error *err);

#endif
