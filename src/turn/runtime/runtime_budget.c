/* runtime_budget.c - compares the limits of a request with the ledger of a session and a tenant,
 * and with the reservations of running calls.
 *
 * A call reserves its expected usage until its actual usage is in the ledger. So calls that begin
 * at the same time exceed a limit by one call at most, not by all of them. Reservations are known
 * only to this process; several processes on one store exceed a limit by one call each. A crash
 * loses the reservations, and nothing else.
 *
 * Invariant: a call is released after its row is committed, and reservations are summed before the
 * ledger is read. So a call that ends in between is counted twice at worst, and never missed. If a
 * request would be refused while an ended call waits for its commit, it checks again after that
 * commit. Releasing only sets a flag; the next pal_budget_hold() removes the reservation.
 *
 * Threads: workers take the lock of a stripe. The loop uses only the atomic members. */
#include "turn/runtime/runtime_budget.h"

#include <time.h>
#include "base/memory.h"
#include "base/text.h"
#include "turn/runtime/runtime.h"

#define SETTLE_MS 20         /* time between two checks */
#define SETTLE_LOOKS_MAX 100 /* after so many checks the request is refused anyway */

struct pal_reservation {
    pal_reservation *next;
    _Atomic uint64_t tokens;
    _Atomic int64_t cost_micros;
    atomic_bool is_settling; /* the call has ended */
    atomic_bool is_over;
    pthread_cond_t *settled; /* condition variable of its stripe */
    pal_id session;
    size_t tenant_len;
    char tenant[];
};

typedef struct held_sum {
    uint64_t tokens;
    int64_t cost_micros;
} held_sum;

/* ---- The book ---- */

void pal_budget_book_init(pal_budget_book *book)
{
    for (size_t i = 0; i < PAL_BUDGET_STRIPES; i++) {
        pthread_mutex_init(&book->stripes[i].lock, NULL);
        pthread_cond_init(&book->stripes[i].settled, NULL);
        book->stripes[i].first = NULL;
    }
}

void pal_budget_book_done(pal_budget_book *book)
{
    for (size_t i = 0; i < PAL_BUDGET_STRIPES; i++) {
        for (pal_reservation *next, *r = book->stripes[i].first; r; r = next) {
            next = r->next;
            pal_free(r);
        }
        pthread_cond_destroy(&book->stripes[i].settled);
        pthread_mutex_destroy(&book->stripes[i].lock);
    }
}

static size_t stripe_of(pal_str tenant)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < tenant.len; i++)
        hash = (hash ^ (uint8_t)tenant.data[i]) * 16777619u;
    return hash % PAL_BUDGET_STRIPES;
}

/* The lock must be held. */
static void sweep(pal_reservation **first)
{
    while (*first) {
        pal_reservation *r = *first;

        if (atomic_load(&r->is_over)) {
            *first = r->next;
            pal_free(r);
        } else {
            first = &r->next;
        }
    }
}

/* The lock must be held. Without a session, sums all sessions of the tenant. */
static held_sum sum_held(const pal_reservation *first, pal_str tenant, pal_id session)
{
    held_sum sum = {0};

    for (const pal_reservation *r = first; r; r = r->next) {
        bool is_counted = pal_str_equal(pal_str_make(r->tenant, r->tenant_len), tenant) &&
                (pal_id_is_none(session) || pal_id_equal(r->session, session));

        if (is_counted) {
            sum.tokens += atomic_load(&r->tokens);
            sum.cost_micros += atomic_load(&r->cost_micros);
        }
    }
    return sum;
}

/* ---- Limits ---- */

/* The budget is used up for good, or held by calls that may release some of it. */
static const char *remedy(bool is_held)
{
    return is_held ? "running calls have reserved the rest; retry when they have ended"
                   : "raise the budget to continue";
}

static pal_status check_sum(pal_store *store, const pal_ledger_query *query, held_sum held,
        uint64_t tokens_max, int64_t cost_max, const char *whose, pal_error *err)
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
    if (tokens_max > 0 && (tokens >= tokens_max || held.tokens >= tokens_max - tokens))
        return pal_error_set(err, PAL_BUDGET,
                "the budget of the %s is used up: %llu of %llu tokens; %s", whose,
                (unsigned long long)tokens, (unsigned long long)tokens_max,
                remedy(tokens < tokens_max));
    if (cost_max > 0 &&
            (sum.cost_micros >= cost_max || held.cost_micros >= cost_max - sum.cost_micros))
        return pal_error_set(err, PAL_BUDGET, "the budget of the %s is used up: %.4f of %.4f; %s",
                whose, (double)sum.cost_micros / 1e6, (double)cost_max / 1e6,
                remedy(sum.cost_micros < cost_max));
    return PAL_OK;
}

/* The lock must be held. */
static pal_status check(const pal_reservation *first, pal_store *store,
        const pal_budget_holder *holder, pal_error *err)
{
    const pal_budget *budget = holder->budget;
    pal_ledger_query query = {
            .tenant = holder->tenant, .session = holder->session, .from = budget->since};
    held_sum held = sum_held(first, holder->tenant, holder->session);
    held_sum held_of_tenant = sum_held(first, holder->tenant, (pal_id){{0}});
    pal_status status = PAL_OK;

    /* A query without a session sums the whole tenant. */
    if (!pal_id_is_none(holder->session))
        status = check_sum(store, &query, held, budget->session_tokens,
                budget->session_cost_micros, "session", err);
    query.session = (pal_id){{0}};
    if (status == PAL_OK)
        status = check_sum(store, &query, held_of_tenant, budget->tenant_tokens,
                budget->tenant_cost_micros, "tenant", err);
    return status;
}

/* ---- Reserving ---- */

static pal_reservation *make(
        const pal_budget_holder *holder, uint64_t tokens, int64_t cost_micros)
{
    pal_reservation *r = pal_calloc(1, sizeof(*r) + holder->tenant.len);

    if (!r)
        return NULL;
    atomic_init(&r->tokens, tokens);
    atomic_init(&r->cost_micros, cost_micros);
    r->session = holder->session;
    r->tenant_len = holder->tenant.len;
    if (holder->tenant.len > 0)
        memcpy(r->tenant, holder->tenant.data, holder->tenant.len);
    return r;
}

/* The lock must be held. Returns true if some of the reserved usage will be in the ledger soon. */
static bool is_settling(const pal_reservation *first, pal_str tenant)
{
    for (const pal_reservation *r = first; r; r = r->next) {
        if (atomic_load(&r->is_settling) &&
                pal_str_equal(pal_str_make(r->tenant, r->tenant_len), tenant))
            return true;
    }
    return false;
}

/* The lock must be held; it is released during the wait. The flag of a release is set without the
 * lock, so a signal can be missed. The next check comes soon in any case. */
static void await_settled(pthread_cond_t *settled, pthread_mutex_t *lock)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += SETTLE_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    (void)pthread_cond_timedwait(settled, lock, &until);
}

pal_status pal_budget_hold(pal_budget_book *book, pal_store *store,
        const pal_budget_holder *holder, uint64_t tokens, int64_t cost_micros,
        pal_reservation **out_held, pal_error *err)
{
    size_t stripe = stripe_of(holder->tenant);
    pal_reservation *r, **first = &book->stripes[stripe].first;
    pal_status status;

    *out_held = NULL;
    if (!pal_budget_binds(holder->budget))
        return PAL_OK;
    r = make(holder, tokens, cost_micros);
    if (!r)
        return pal_no_memory(err);
    r->settled = &book->stripes[stripe].settled;
    pthread_mutex_lock(&book->stripes[stripe].lock);
    for (int looks = 0;; looks++) {
        /* Read before the check: a call that is released during the check was counted twice. */
        bool may_change;

        sweep(first);
        may_change = is_settling(*first, holder->tenant);
        status = check(*first, store, holder, err);
        if (status != PAL_BUDGET || !may_change || looks == SETTLE_LOOKS_MAX)
            break;
        await_settled(r->settled, &book->stripes[stripe].lock);
    }
    if (status == PAL_OK) {
        r->next = *first;
        *first = r;
        *out_held = r;
    }
    pthread_mutex_unlock(&book->stripes[stripe].lock);
    if (status != PAL_OK)
        pal_free(r);
    return status;
}

void pal_budget_hold_more(pal_reservation *held, uint64_t tokens, int64_t cost_micros)
{
    if (!held)
        return;
    atomic_fetch_add(&held->tokens, tokens);
    atomic_fetch_add(&held->cost_micros, cost_micros);
}

void pal_budget_hold_only(pal_reservation *held, uint64_t tokens, int64_t cost_micros)
{
    if (!held)
        return;
    atomic_store(&held->tokens, tokens);
    atomic_store(&held->cost_micros, cost_micros);
    atomic_store(&held->is_settling, true);
}

void pal_budget_release(pal_reservation *held)
{
    pthread_cond_t *settled = held ? held->settled : NULL;

    if (!held)
        return;
    /* From now on another thread can free the reservation at any time. */
    atomic_store(&held->is_over, true);
    pthread_cond_broadcast(settled);
}

/* ---- Prices ---- */

static bool price_matches(pal_str pattern, pal_str model)
{
    if (pattern.len > 0 && pattern.data[pattern.len - 1] == '*')
        return pal_text_begins_str(model, pal_str_make(pattern.data, pattern.len - 1));
    return pal_str_equal(pattern, model);
}

const pal_price *pal_price_find(const pal_price *prices, size_t prices_len, pal_str model)
{
    const pal_price *best = NULL;

    for (size_t i = 0; i < prices_len; i++) {
        if (price_matches(prices[i].pattern, model) &&
                (!best || prices[i].pattern.len > best->pattern.len))
            best = &prices[i];
    }
    return best;
}

/* 0 if the model has no price. */
int64_t pal_budget_cost(const pal_runtime *runtime, pal_str model, const pal_usage *usage)
{
    const pal_price *best =
            pal_price_find(runtime->options.prices, runtime->options.prices_len, model);
    double cost;

    if (!best)
        return 0;
    /* Round only the sum: otherwise the parts of many small calls would be free. */
    cost = (double)usage->input * (double)best->input +
            (double)usage->cache_read * (double)best->cache_read +
            (double)usage->cache_write * (double)best->cache_write +
            (double)usage->output * (double)best->output;
    return (int64_t)(cost / 1e6 + 0.5);
}
