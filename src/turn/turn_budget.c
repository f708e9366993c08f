/* turn_budget.c - compares the limits of a request with what the ledger has of a session and a
 * tenant, and with what calls hold that run at the moment. A call holds what it will use, as far as
 * that is known, until the ledger has what it used: calls that begin at once go over a limit by one
 * call at most, not by all of them. What is held is known to this process only; several processes
 * on one store go over by one call each.
 *
 * A call is released behind the commit of its row, and reservations are summed before the ledger is
 * read. So a call that ends meanwhile is counted twice at worst, and never missed. Who would be
 * refused while a call that has ended waits for its commit looks again after that. Releasing only
 * sets a mark; the next one who holds sweeps. */
#include "turn/turn_budget.h"

#include <time.h>
#include "base/memory.h"

#define SETTLE_MS 20         /* between two looks */
#define SETTLE_LOOKS_MAX 100 /* then it is refused all the same */

struct pal_reservation {
    pal_reservation *next;
    _Atomic uint64_t tokens;
    _Atomic int64_t cost_micros;
    atomic_bool is_settling; /* the call has ended */
    atomic_bool is_over;
    pthread_cond_t *settled; /* its stripe's */
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

/* Under the lock. */
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

/* Under the lock. `session`: none: of all. */
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

/* Used up for good, or by calls that will give some of it back. */
static const char *remedy(bool is_held)
{
    return is_held ? "running calls hold the rest; try again when they have ended"
                   : "a larger one lets it go on";
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

/* Under the lock. */
static pal_status check(const pal_reservation *first, pal_store *store,
        const pal_budget_holder *holder, pal_error *err)
{
    const pal_budget *budget = holder->budget;
    pal_ledger_query query = {
            .tenant = holder->tenant, .session = holder->session, .from = budget->since};
    held_sum held = sum_held(first, holder->tenant, holder->session);
    held_sum held_of_tenant = sum_held(first, holder->tenant, (pal_id){{0}});
    pal_status status = PAL_OK;

    /* A query without a session is one of the whole tenant. */
    if (!pal_id_is_none(holder->session))
        status = check_sum(store, &query, held, budget->session_tokens,
                budget->session_cost_micros, "session", err);
    query.session = (pal_id){{0}};
    if (status == PAL_OK)
        status = check_sum(store, &query, held_of_tenant, budget->tenant_tokens,
                budget->tenant_cost_micros, "tenant", err);
    return status;
}

/* ---- Holding ---- */

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

/* Under the lock. Whether some of what is held will be in the ledger soon. */
static bool is_settling(const pal_reservation *first, pal_str tenant)
{
    for (const pal_reservation *r = first; r; r = r->next) {
        if (atomic_load(&r->is_settling) &&
                pal_str_equal(pal_str_make(r->tenant, r->tenant_len), tenant))
            return true;
    }
    return false;
}

/* Under the lock, which is free meanwhile. The mark of a release is set without it, so that a
 * signal can be missed: the next look comes soon in any case. */
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
        return pal_error_set(err, PAL_NO_MEMORY, "out of memory");
    r->settled = &book->stripes[stripe].settled;
    pthread_mutex_lock(&book->stripes[stripe].lock);
    for (int looks = 0;; looks++) {
        /* Asked before: a call that is released meanwhile was counted twice. */
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
    /* Afterwards it may be swept at any time. */
    atomic_store(&held->is_over, true);
    pthread_cond_broadcast(settled);
}
