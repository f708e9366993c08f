/* turn_budget.c - holds what the ledger has of a session and of a tenant against the limits of a
 * request. A call counts when it has ended: those that run at once may go over a limit together,
 * and the next one is refused. On a worker, as it reads the store. */
#include "turn/turn_budget.h"

static pal_status check_sum(pal_store *store, const pal_ledger_query *query, uint64_t tokens_max,
        int64_t cost_max, const char *whose, pal_error *err)
{
    pal_ledger_sum sum = {0};
    uint64_t tokens;
    pal_status status;

    if (tokens_max == 0 && cost_max == 0)
        return PAL_OK;
    status = pal_store_ledger_sum(store, query, &sum, err);
    if (status != PAL_OK)
        return status;
    tokens = sum.usage.input + sum.usage.cache_read + sum.usage.cache_write + sum.usage.output;
    if (tokens_max > 0 && tokens >= tokens_max)
        return pal_error_set(err, PAL_BUDGET,
                "the budget of the %s is used up: %llu of %llu tokens; a larger one lets it go on",
                whose, (unsigned long long)tokens, (unsigned long long)tokens_max);
    if (cost_max > 0 && sum.cost_micros >= cost_max)
        return pal_error_set(err, PAL_BUDGET,
                "the budget of the %s is used up: %.4f of %.4f; a larger one lets it go on", whose,
                (double)sum.cost_micros / 1e6, (double)cost_max / 1e6);
    return PAL_OK;
}

pal_status pal_budget_check(
        pal_store *store, const pal_budget *budget, pal_str tenant, pal_id session, pal_error *err)
{
    pal_ledger_query query = {.tenant = tenant, .session = session, .from = budget->since};
    pal_status status = PAL_OK;

    /* A query without a session is one of the whole tenant. */
    if (!pal_id_is_none(session))
        status = check_sum(
                store, &query, budget->session_tokens, budget->session_cost_micros, "session", err);
    query.session = (pal_id){{0}};
    if (status == PAL_OK)
        status = check_sum(
                store, &query, budget->tenant_tokens, budget->tenant_cost_micros, "tenant", err);
    return status;
}
