/* postgres_single.c - writes a batch in one flight, without reading anything first.
 *
 * Most batches only take leases, append messages, add the inbox item of a turn and release leases,
 * in sessions that exist. Almost all that these operations check is in the head of the session:
 * its state, the last seq, the fence and the lease. So one UPDATE checks and changes the heads of
 * the whole batch, and the other statements write for those heads that it has changed. The server
 * runs them as one implicit transaction. Appends to one session are a single statement.
 *
 * The rules are those of "memory:", but only for the case that everything is as it should be.
 * Everything else is left to the two flights, which know the reason for an error:
 * - A session whose condition fails is not changed, and its operations remain.
 * - A client id that is known fails the whole flight by its unique index, for messages and items.
 * - Operations may depend on each other in another way than by the order of messages. They do not
 *   fit into one row, so their batch needs two flights from the beginning.
 *
 * A crash is harmless: before the commit nothing was written, and after it everything. The number
 * of the batch is in the same transaction (postgres_node.c). */
#include "store/postgres/postgres_single.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sum.h"

/* One operation, and the session that it belongs to. */
typedef struct member {
    pal_work *work;
    int64_t tenant;
    size_t target;
} member;

/* All that a batch does to one session. */
typedef struct target {
    int64_t tenant;
    pal_id session;
    uint64_t messages;
    uint64_t tokens;
    uint64_t bytes;
    int64_t updated_at;
    int64_t expected; /* the last seq before the batch; -1: any */
    uint64_t fence;   /* 0: any */
    const pal_op *take;
    const pal_op *release;
    uint64_t items;    /* items that are added to the inbox */
    uint64_t placed;   /* messages that have their place already */
    uint64_t items_placed;
    bool is_done;      /* it was written */
    uint64_t last_seq; /* after the batch */
    uint64_t new_fence;
    uint64_t mark_number; /* UINT64_MAX: not known */
} target;

struct pal_postgres_single {
    member *members; /* in the order of the batch */
    size_t members_len;
    target *targets; /* in the order of tenant and session, in which rows are locked */
    size_t targets_len;
    pal_work *rest;
};

/* ---- What fits ---- */

static bool takes_part(const pal_work *work)
{
    const pal_op *op = work->op;

    if (pal_id_is_none(op->session) || work->blobs_len > 0 || work->copied || work->all_len > 1)
        return false;
    switch (op->kind) {
    case PAL_OP_APPEND:
    case PAL_OP_INBOX_ADD:
        return true;
    case PAL_OP_LEASE_TAKE:
        return op->u.lease.ttl_ms > 0 && op->u.lease.owner.len > 0;
    case PAL_OP_LEASE_RELEASE:
        return op->u.lease.fence > 0;
    default:
        return false;
    }
}

/* A fence that is taken in this batch is not known yet. */
static bool add_fence(target *to, const pal_op *op)
{
    if (op->fence == 0)
        return true;
    if ((to->take && to->take->fence == 0) || (to->fence != 0 && to->fence != op->fence))
        return false;
    to->fence = op->fence;
    return true;
}

static bool add_append(target *to, const pal_work *work)
{
    uint64_t expected = work->op->u.append.expected_seq;

    if (expected != PAL_SEQ_ANY) {
        if (expected < to->messages || expected > INT64_MAX)
            return false;
        expected -= to->messages;
        if (to->expected >= 0 && (uint64_t)to->expected != expected)
            return false;
        to->expected = (int64_t)expected;
    }
    for (size_t i = 0; i < work->rows_len; i++) {
        to->tokens += work->rows[i].tokens;
        to->bytes += work->rows[i].body.len;
    }
    to->messages += work->rows_len;
    if (work->rows_len > 0)
        to->updated_at = work->now_ms;
    return true;
}

static bool add_work(target *to, const pal_work *work)
{
    const pal_op *op = work->op;

    if (!add_fence(to, op))
        return false;
    if (op->kind == PAL_OP_APPEND)
        return add_append(to, work);
    if (op->kind == PAL_OP_INBOX_ADD) {
        to->items++;
        return true;
    }
    if (to->take || to->release)
        return false;
    if (op->kind == PAL_OP_LEASE_RELEASE) {
        to->release = op;
        return true;
    }
    to->take = op;
    return op->fence != 0 || to->fence == 0;
}

/* The operations of a group must be written together, so they must have the same session. */
static bool leaves_group(const pal_work *works, size_t index)
{
    return index > 0 && works[index].op->with_previous &&
            (works[index].op != works[index - 1].op + 1 ||
                    !pal_id_equal(works[index].op->session, works[index - 1].op->session) ||
                    !pal_str_equal(works[index].tenant, works[index - 1].tenant));
}

static int compare_targets(const void *a, const void *b)
{
    const target *left = a, *right = b;

    if (left->tenant != right->tenant)
        return left->tenant < right->tenant ? -1 : 1;
    return memcmp(left->session.bytes, right->session.bytes, sizeof left->session.bytes);
}

static void list_targets(pal_postgres_single *single)
{
    size_t len = 0;

    for (size_t i = 0; i < single->members_len; i++)
        single->targets[i] = (target){.tenant = single->members[i].tenant,
                .session = single->members[i].work->op->session,
                .expected = -1};
    qsort(single->targets, single->members_len, sizeof(target), compare_targets);
    for (size_t i = 0; i < single->members_len; i++)
        if (i == 0 || compare_targets(&single->targets[i], &single->targets[len - 1]) != 0)
            single->targets[len++] = single->targets[i];
    single->targets_len = len;
}

static bool fill_targets(pal_postgres_single *single)
{
    for (size_t i = 0; i < single->members_len; i++) {
        member *each = &single->members[i];
        target wanted = {.tenant = each->tenant, .session = each->work->op->session};
        target *found = bsearch(&wanted, single->targets, single->targets_len, sizeof wanted,
                compare_targets);

        each->target = (size_t)(found - single->targets);
        if (!add_work(found, each->work))
            return false;
    }
    /* If the answer is lost, messages prove that their session was written. An item does not:
     * another process may have taken it out already. */
    for (size_t i = 0; i < single->targets_len; i++)
        if (single->targets[i].items > 0 && single->targets[i].messages == 0)
            return false;
    return true;
}

pal_postgres_single *pal_postgres_single_new(pal_work *works, size_t works_len)
{
    pal_postgres_single *single;

    for (size_t i = 0; i < works_len; i++)
        if (!takes_part(&works[i]) || leaves_group(works, i))
            return NULL;
    if (works_len == 0 || works[0].op->with_previous)
        return NULL;
    single = pal_calloc(1, sizeof *single);
    if (!single)
        return NULL;
    single->members = pal_calloc(works_len, sizeof(member));
    single->targets = pal_calloc(works_len, sizeof(target));
    single->rest = pal_calloc(works_len, sizeof(pal_work));
    single->members_len = works_len;
    if (!single->members || !single->targets || !single->rest) {
        pal_postgres_single_free(single);
        return NULL;
    }
    for (size_t i = 0; i < works_len; i++) {
        single->members[i].work = &works[i];
        single->members[i].tenant = i > 0 && pal_str_equal(works[i].tenant, works[i - 1].tenant)
                ? single->members[i - 1].tenant
                : pal_postgres_tenant(works[i].tenant);
    }
    list_targets(single);
    if (!fill_targets(single)) {
        pal_postgres_single_free(single);
        return NULL;
    }
    return single;
}

void pal_postgres_single_free(pal_postgres_single *single)
{
    if (!single)
        return;
    pal_free(single->members);
    pal_free(single->targets);
    pal_free(single->rest);
    pal_free(single);
}

/* ---- The statements ---- */

/* The columns of HEAD_APPEND, with which those of HEAD_TOUCH begin. Returns the next one. */
static pal_postgres_param *add_sums(pal_postgres_param *next, const target *each)
{
    pal_postgres_add_int(next++, each->tenant);
    pal_postgres_add_id(next++, each->session);
    pal_postgres_add_int(next++, (int64_t)each->messages);
    pal_postgres_add_int(next++, (int64_t)each->tokens);
    pal_postgres_add_int(next++, (int64_t)each->bytes);
    pal_postgres_add_int(next++, each->updated_at);
    pal_postgres_add_int(next++, pal_postgres_minute(each->updated_at));
    pal_postgres_add_int(next++, each->expected);
    pal_postgres_add_int(next++, (int64_t)each->fence);
    return next;
}

static void add_lease(pal_postgres_param *next, const target *each)
{
    const pal_op *take = each->take;
    pal_str none = {0};

    pal_postgres_add_int(next++, each->release ? (int64_t)each->release->u.lease.fence : 0);
    pal_postgres_add_text(next++, take ? take->u.lease.owner : none);
    pal_postgres_add_int(next++, take ? take->u.lease.ttl_ms : 0);
    pal_postgres_add_int(next++, take ? (int64_t)take->u.lease.stale_fence : 0);
    pal_postgres_add_int(next++, take ? take->u.lease.stale_expires_at : 0);
    pal_postgres_add_bool(next++, take && take->u.lease.is_watched);
    pal_postgres_add_int(next++, (int64_t)each->items);
}

static void put_heads(
        const pal_postgres_single *single, bool is_brief, pal_postgres_params *params)
{
    pal_postgres_put_arrays(params, is_brief ? "iuiiiiiii" : "iuiiiiiiiitiiibi");
    for (size_t i = 0; i < single->targets_len; i++) {
        pal_postgres_param *next = add_sums(params->items, &single->targets[i]);

        if (!is_brief)
            add_lease(next, &single->targets[i]);
    }
}

/* `nth` counts the items that the batch adds to this session, from 1. */
static void put_item(pal_postgres_params *params, const member *of, uint64_t nth)
{
    const pal_inbox_item *item = of->work->op->u.inbox_item;
    pal_postgres_param *next = params->items;

    pal_postgres_add_int(next++, of->tenant);
    pal_postgres_add_id(next++, of->work->op->session);
    pal_postgres_add_int(next++, (int64_t)nth);
    pal_postgres_add_id(next++, of->work->new_id);
    pal_postgres_add_int(next++, of->work->now_ms);
    pal_postgres_add_text(next++, item->client_id);
    pal_postgres_add_text(next++, item->delivery);
    pal_postgres_add_bytes(next++, item->body);
}

/* The columns of a message that do not depend on its session. */
static void add_content(pal_postgres_param *next, const pal_row *row)
{
    pal_postgres_add_id(next++, row->id);
    pal_postgres_add_int(next++, row->created_at);
    pal_postgres_add_int(next++, row->tokens);
    pal_postgres_add_int(next++, row->flags);
    pal_postgres_add_int(next++, row->role);
    pal_postgres_add_bool(next++, row->is_text);
    pal_postgres_add_text(next++, row->client_id);
    pal_postgres_add_bytes(next++, row->body);
    pal_postgres_add_id(next++, row->turn_id);
}

static void put_message(pal_postgres_params *params, const member *of, target *to,
        const pal_row *row)
{
    pal_postgres_param *next = params->items;

    pal_postgres_add_int(next++, of->tenant);
    pal_postgres_add_id(next++, to->session);
    pal_postgres_add_int(next++, (int64_t)(to->messages - ++to->placed));
    add_content(next, row);
}

static void put_entry(pal_postgres_params *params, const member *of, const pal_ledger_row *given)
{
    pal_postgres_param *next = params->items;

    pal_postgres_add_int(next++, of->tenant);
    pal_postgres_add_id(next++, pal_id_new());
    pal_postgres_add_id(next++, of->work->op->session);
    pal_postgres_add_int(next++, given->created_at ? given->created_at : of->work->now_ms);
    pal_postgres_add_int(next++, (int64_t)pal_sum_cap(given->usage.input));
    pal_postgres_add_int(next++, (int64_t)pal_sum_cap(given->usage.cache_read));
    pal_postgres_add_int(next++, (int64_t)pal_sum_cap(given->usage.cache_write));
    pal_postgres_add_int(next++, (int64_t)pal_sum_cap(given->usage.output));
    pal_postgres_add_int(next++, (int64_t)pal_sum_cap(given->usage.reasoning));
    pal_postgres_add_int(next++, given->cost_micros);
    pal_postgres_add_text(next++, given->agent);
    pal_postgres_add_text(next++, given->request_id);
    pal_postgres_add_text(next++, given->turn_id);
    pal_postgres_add_text(next++, given->purpose);
    pal_postgres_add_text(next++, given->provider);
    pal_postgres_add_text(next++, given->model);
    pal_postgres_add_text(next++, given->price_version);
}

/* `messages` is NULL if they are written with their head. */
static void put_contents(pal_postgres_single *single, pal_postgres_params *messages,
        pal_postgres_params *inbox, pal_postgres_params *items, pal_postgres_params *ledger)
{
    if (messages)
        pal_postgres_put_arrays(messages, "iuiuiiiibtyu");
    pal_postgres_put_arrays(inbox, "iuu");
    pal_postgres_put_arrays(items, "iuiuitty");
    pal_postgres_put_arrays(ledger, "iuuiiiiiiittttttt");
    for (size_t i = 0; i < single->targets_len; i++)
        single->targets[i].placed = single->targets[i].items_placed = 0;
    for (size_t i = 0; i < single->members_len; i++) {
        const member *each = &single->members[i];
        const pal_op *op = each->work->op;

        if (op->kind == PAL_OP_INBOX_ADD)
            put_item(items, each, ++single->targets[each->target].items_placed);
        if (op->kind != PAL_OP_APPEND)
            continue;
        for (size_t j = 0; messages && j < each->work->rows_len; j++)
            put_message(messages, each, &single->targets[each->target], &each->work->rows[j]);
        for (size_t j = 0; j < op->u.append.inbox_ids_len; j++) {
            pal_postgres_add_int(&inbox->items[0], each->tenant);
            pal_postgres_add_id(&inbox->items[1], op->session);
            pal_postgres_add_id(&inbox->items[2], op->u.append.inbox_ids[j]);
        }
        for (size_t j = 0; j < op->u.append.ledger_len; j++)
            put_entry(ledger, each, &op->u.append.ledger[j]);
    }
}

/* Adds the statement with the token as its next parameter, if there are rows for it. */
static void add_rows(pal_postgres_flight *flight, pal_postgres_sql sql, pal_postgres_params *params,
        int64_t slot)
{
    if (params->items[0].elements == 0) {
        pal_postgres_params_done(params);
        return;
    }
    pal_postgres_put_int(params, pal_postgres_token(flight->conn->store));
    if (sql == PAL_POSTGRES_LEDGER_APPEND)
        pal_postgres_put_int(params, slot);
    pal_postgres_flight_add(flight, sql, params);
}

/* What the server must know to accept the batch: the time, the token and the row of the process. */
static void put_batch(pal_postgres *store, int64_t now_ms, pal_postgres_params *params)
{
    pal_postgres_put_int(params, pal_store_now_ms(&store->base));
    pal_postgres_put_int(params, pal_postgres_token(store));
    pal_postgres_put_int(params, store->slot);
    pal_postgres_put_id(params, store->node);
    pal_postgres_put_int(params, store->batch);
    pal_postgres_put_int(params, now_ms);
}

/* Whether the batch does nothing to its sessions but append messages. */
static bool only_appends(const pal_postgres_single *single)
{
    for (size_t i = 0; i < single->targets_len; i++) {
        const target *each = &single->targets[i];

        if (each->take || each->release || each->items > 0 || each->messages == 0)
            return false;
    }
    return true;
}

/* Adds the statement for a batch that only appends to one session. */
static size_t add_one(pal_postgres_flight *flight, const pal_postgres_single *single)
{
    const target *to = &single->targets[0];
    pal_postgres_params params = {0};
    size_t messages_at;

    pal_postgres_put_int(&params, to->tenant);
    pal_postgres_put_id(&params, to->session);
    pal_postgres_put_int(&params, (int64_t)to->messages);
    pal_postgres_put_int(&params, (int64_t)to->tokens);
    pal_postgres_put_int(&params, (int64_t)to->bytes);
    pal_postgres_put_int(&params, to->updated_at);
    pal_postgres_put_int(&params, pal_postgres_minute(to->updated_at));
    pal_postgres_put_int(&params, to->expected);
    pal_postgres_put_int(&params, (int64_t)to->fence);
    put_batch(flight->conn->store, single->members[0].work->now_ms, &params);
    messages_at = params.len;
    pal_postgres_put_arrays(&params, "uiiiibtyu");
    for (size_t i = 0; i < single->members_len; i++)
        for (size_t j = 0; j < single->members[i].work->rows_len; j++)
            add_content(&params.items[messages_at], &single->members[i].work->rows[j]);
    return pal_postgres_flight_add(flight, PAL_POSTGRES_APPEND_ONE, &params);
}

/* Adds the statement that changes the heads, and returns its index. It locks the row of the process
 * first, as all others do. */
static size_t add_heads(
        pal_postgres_flight *flight, const pal_postgres_single *single, bool is_brief)
{
    pal_postgres_params heads = {0};

    put_heads(single, is_brief, &heads);
    put_batch(flight->conn->store, single->members[0].work->now_ms, &heads);
    if (!is_brief)
        pal_postgres_put_int(&heads, PAL_INBOX_ITEMS_MAX);
    return pal_postgres_flight_add(
            flight, is_brief ? PAL_POSTGRES_HEAD_APPEND : PAL_POSTGRES_HEAD_TOUCH, &heads);
}

/* Returns the index of the result that has the heads. */
static size_t add_statements(pal_postgres_flight *flight, pal_postgres_single *single)
{
    pal_postgres *store = flight->conn->store;
    pal_postgres_params messages = {0}, inbox = {0}, items = {0}, ledger = {0};
    bool is_brief = only_appends(single), is_one = is_brief && single->targets_len == 1;
    size_t heads_at = is_one ? add_one(flight, single) : add_heads(flight, single, is_brief);

    put_contents(single, is_one ? NULL : &messages, &inbox, &items, &ledger);
    if (!is_one)
        add_rows(flight, PAL_POSTGRES_MESSAGE_APPEND, &messages, store->slot);
    add_rows(flight, PAL_POSTGRES_INBOX_TAKE, &inbox, store->slot);
    add_rows(flight, PAL_POSTGRES_INBOX_PUT, &items, store->slot);
    add_rows(flight, PAL_POSTGRES_LEDGER_APPEND, &ledger, store->slot);
    return heads_at;
}

/* ---- Results ---- */

static void take_heads(pal_postgres_single *single, const PGresult *result)
{
    for (int i = 0; i < PQntuples(result); i++) {
        target *each = &single->targets[pal_postgres_int(result, i, 0) - 1];

        each->is_done = true;
        each->last_seq = (uint64_t)pal_postgres_int(result, i, 1);
        each->new_fence = (uint64_t)pal_postgres_int(result, i, 2);
        each->mark_number = (uint64_t)pal_postgres_int(result, i, 3);
    }
}

static void fill_results(pal_postgres_single *single)
{
    for (size_t i = 0; i < single->targets_len; i++)
        single->targets[i].placed = 0;
    for (size_t i = 0; i < single->members_len; i++) {
        const pal_work *work = single->members[i].work;
        target *to = &single->targets[single->members[i].target];
        pal_op *op = work->op;

        if (!to->is_done)
            continue;
        op->status = PAL_OK;
        if (op->kind == PAL_OP_LEASE_TAKE)
            op->u.lease.fence = to->new_fence;
        if (op->kind == PAL_OP_INBOX_ADD) {
            op->u.inbox_item->id = work->new_id;
            op->u.inbox_item->created_at = work->now_ms;
        }
        if (op->kind != PAL_OP_APPEND)
            continue;
        op->u.append.replayed = false;
        op->mark_number = to->mark_number;
        for (size_t j = 0; j < work->rows_len; j++)
            work->rows[j].seq = to->last_seq - to->messages + ++to->placed;
    }
}

pal_status pal_postgres_single_run(pal_postgres *store, pal_postgres_single *single,
        pal_postgres_failure *out_failure, pal_error *err)
{
    pal_postgres_flight flight;
    pal_status status;
    size_t heads_at;

    store->batch++;
    pal_postgres_flight_begin(&flight, &store->writer);
    heads_at = add_statements(&flight, single);
    status = pal_postgres_flight_run(&flight, err);
    *out_failure = flight.failure;
    if (status == PAL_OK && store->writer.was_warned) {
        *out_failure = PAL_POSTGRES_LOST;
        status = pal_postgres_not_replicated(store, err);
    }
    if (status == PAL_OK) {
        pal_postgres_acknowledge(store);
        take_heads(single, flight.results[heads_at]);
        fill_results(single);
    }
    pal_postgres_flight_done(&flight);
    return status;
}

/* ---- A lost answer ---- */

/* Messages that are there prove that their session was written, and have their seqs. */
static void recall_seqs(pal_postgres_single *single, const PGresult *result, member *const *owners)
{
    for (int i = 0; i < PQntuples(result); i++) {
        const member *owner = owners[pal_postgres_int(result, i, 0) - 1];
        target *to = &single->targets[owner->target];
        uint64_t seq = (uint64_t)pal_postgres_int(result, i, 1);

        to->is_done = true;
        to->mark_number = UINT64_MAX;
        to->last_seq = seq > to->last_seq ? seq : to->last_seq;
    }
}

/* If another process has the lease by now, it has a larger fence. Ours was an older one, and any
 * older one is rejected by later operations. */
static void recall_fences(pal_postgres_single *single, const PGresult *result)
{
    for (int i = 0; i < PQntuples(result); i++) {
        target *to = &single->targets[pal_postgres_int(result, i, 0) - 1];
        bool is_ours = to->take &&
                pal_str_equal(to->take->u.lease.owner, pal_postgres_str(result, i, 1));

        to->new_fence = (uint64_t)pal_postgres_int(result, i, 2) - !is_ours;
    }
}

/* A session without new messages is done again by the two flights: to take or release a lease
 * twice is harmless. */
pal_status pal_postgres_single_recall(pal_postgres *store, pal_postgres_single *single,
        pal_postgres_failure *out_failure, pal_error *err)
{
    pal_postgres_params messages = {0}, leases = {0};
    pal_postgres_flight flight;
    member **owners = NULL;
    size_t len = 0, cap = 0;
    pal_status status = PAL_OK;

    pal_postgres_put_arrays(&messages, "iu");
    pal_postgres_put_arrays(&leases, "iu");
    for (size_t i = 0; status == PAL_OK && i < single->members_len; i++) {
        member *each = &single->members[i];

        if (!pal_reserve(&owners, &cap, len + each->work->rows_len + 1, sizeof(member *)))
            status = pal_no_memory(err);
        for (size_t j = 0; status == PAL_OK && j < each->work->rows_len; j++) {
            owners[len++] = each;
            pal_postgres_add_int(&messages.items[0], each->tenant);
            pal_postgres_add_id(&messages.items[1], each->work->rows[j].id);
        }
    }
    for (size_t i = 0; i < single->targets_len; i++) {
        pal_postgres_add_int(&leases.items[0], single->targets[i].tenant);
        pal_postgres_add_id(&leases.items[1], single->targets[i].session);
    }
    *out_failure = PAL_POSTGRES_REFUSED;
    if (status == PAL_OK) {
        pal_postgres_flight_begin(&flight, &store->writer);
        pal_postgres_flight_add(&flight, PAL_POSTGRES_MESSAGE_SEQS, &messages);
        pal_postgres_flight_add(&flight, PAL_POSTGRES_LEASE_OWNERS, &leases);
        status = pal_postgres_flight_run(&flight, err);
        *out_failure = flight.failure;
        if (status == PAL_OK) {
            recall_seqs(single, flight.results[0], owners);
            recall_fences(single, flight.results[1]);
            fill_results(single);
        }
        pal_postgres_flight_done(&flight);
    }
    pal_postgres_params_done(&messages);
    pal_postgres_params_done(&leases);
    pal_free(owners);
    return status;
}

pal_work *pal_postgres_single_rest(pal_postgres_single *single, size_t *out_len)
{
    size_t len = 0;

    for (size_t i = 0; i < single->members_len; i++)
        if (!single->targets[single->members[i].target].is_done)
            single->rest[len++] = *single->members[i].work;
    *out_len = len;
    return single->rest;
}
