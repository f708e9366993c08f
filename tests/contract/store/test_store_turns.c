/* test_store_turns.c - the store's part in a turn: inbox, lease and fence. */
#include "contract/contract.h"

/* ---- Inbox ---- */

static pal_status add_item(pal_id session, pal_inbox_item *item)
{
    return pal_store_inbox_add(test.store, no_tenant(), session, item, &test.err);
}

static size_t list_items(pal_id session, pal_inbox_item **out_items)
{
    size_t len = 0;

    OK(pal_store_inbox_list(
            test.store, no_tenant(), session, test.arena, out_items, &len, &test.err));
    return len;
}

static void the_inbox_keeps_its_order(void)
{
    pal_inbox_item first = {.body = S("{\"n\":1}"), .delivery = S("queue"), .client_id = S("c")};
    pal_inbox_item second = {.body = S("{\"n\":2}"), .delivery = S("steer")}, *items;
    pal_id session = new_session();

    CHECK_EQ(list_items(session, &items), 0);
    OK(add_item(session, &first));
    pal_clock_set_ms(NOW + 1);
    OK(add_item(session, &second));
    CHECK(!pal_id_is_none(first.id));
    CHECK_EQ(first.created_at, NOW);
    CHECK_EQ(second.created_at, NOW + 1);
    if (!CHECK_EQ(list_items(session, &items), 2))
        return;
    CHECK_ID(items[0].id, first.id);
    CHECK_STR(items[0].body, "{\"n\":1}");
    CHECK_STR(items[0].client_id, "c");
    CHECK_STR(items[0].delivery, "queue");
    CHECK_ID(items[1].id, second.id);
    CHECK_STR(items[1].delivery, "steer");
    OK(pal_store_inbox_drop(test.store, no_tenant(), session, first.id, &test.err));
    if (CHECK_EQ(list_items(session, &items), 1))
        CHECK_ID(items[0].id, second.id);
    GIVES(PAL_NOT_FOUND,
            pal_store_inbox_drop(test.store, no_tenant(), session, first.id, &test.err));
}

static void an_item_sent_twice_is_one(void)
{
    pal_inbox_item item = {.body = S("{}"), .delivery = S("queue"), .client_id = S("c")}, *items;
    pal_id session = new_session(), first;

    OK(add_item(session, &item));
    first = item.id;
    pal_clock_set_ms(NOW + 1);
    item.id = (pal_id){{0}};
    OK(add_item(session, &item));
    CHECK_ID(item.id, first);
    CHECK_EQ(item.created_at, NOW);
    item.body = S("{\"other\":1}");
    GIVES(PAL_CONFLICT, add_item(session, &item));
    item.body = S("{}");
    item.delivery = S("steer");
    GIVES(PAL_CONFLICT, add_item(session, &item));
    CHECK_EQ(list_items(session, &items), 1);
    OK(add_item(new_session(), &item));
}

static void bad_items_are_refused(void)
{
    pal_inbox_item empty = {.delivery = S("queue")}, bad = {.body = S("\xff")};
    pal_id session = new_session();

    GIVES(PAL_INVALID, add_item(session, &empty));
    GIVES(PAL_INVALID, add_item(session, &bad));
    GIVES(PAL_NOT_FOUND, add_item(pal_id_new(), &(pal_inbox_item){.body = S("{}")}));
}

static void the_inbox_has_a_limit(void)
{
    pal_inbox_item item = {.body = S("{}")};
    pal_op *ops = pal_arena_array(test.arena, PAL_INBOX_ITEMS_MAX, sizeof *ops);
    pal_inbox_item *items = pal_arena_array(test.arena, PAL_INBOX_ITEMS_MAX, sizeof *items);
    pal_id session = new_session();

    for (size_t i = 0; i < PAL_INBOX_ITEMS_MAX; i++) {
        items[i] = item;
        ops[i] = pal_op_inbox_add(no_tenant(), session, &items[i]);
    }
    OK(pal_store_apply(test.store, ops, PAL_INBOX_ITEMS_MAX, &test.err));
    CHECK_STATUS(ops[PAL_INBOX_ITEMS_MAX - 1].status, PAL_OK);
    GIVES(PAL_LIMIT, add_item(session, &item));
    OK(pal_store_inbox_drop(test.store, no_tenant(), session, items[3].id, &test.err));
    OK(add_item(session, &item));
}

static void an_append_takes_items_out_of_the_inbox(void)
{
    pal_inbox_item a = {.body = S("{\"a\":1}")}, b = {.body = S("{\"b\":1}")}, *items;
    pal_message message = text_of(PAL_ROLE_USER, "a");
    pal_op op = pal_op_append(no_tenant(), new_session(), &message, 1, 7);
    pal_id ids[2];

    OK(add_item(op.session, &a));
    OK(add_item(op.session, &b));
    ids[0] = a.id;
    ids[1] = pal_id_new(); /* unknown ids are not an error */
    op.u.append.inbox_ids = ids;
    op.u.append.inbox_ids_len = 2;
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_CONFLICT);
    CHECK_EQ(list_items(op.session, &items), 2);
    op.u.append.expected_seq = 0;
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_OK);
    CHECK_EQ(list_items(op.session, &items), 1);
    CHECK_ID(items[0].id, b.id);
}

/* ---- Lease ---- */

static pal_status take(pal_id session, const char *owner, int64_t ttl_ms, uint64_t *out_fence)
{
    return pal_store_lease_take(
            test.store, no_tenant(), session, S(owner), ttl_ms, out_fence, &test.err);
}

static pal_status find_lease(pal_id session, pal_lease *out_lease)
{
    return pal_store_lease_find(test.store, no_tenant(), session, test.arena, out_lease, &test.err);
}

static void a_lease_has_one_owner(void)
{
    pal_id session = new_session();
    uint64_t first = 0, second = 0;
    pal_lease lease;

    GIVES(PAL_NOT_FOUND, find_lease(session, &lease));
    OK(take(session, "a", 1000, &first));
    CHECK_THAT(first, >, 0);
    GIVES(PAL_BUSY, take(session, "b", 1000, &second));
    CHECK_CONTAINS(test.err.message, "'a'");
    CHECK_EQ(second, 0);
    pal_clock_set_ms(NOW + 500);
    OK(take(session, "a", 1000, &second));
    CHECK_EQ(second, first);
    OK(find_lease(session, &lease));
    CHECK_STR(lease.owner, "a");
    CHECK_EQ(lease.fence, first);
    CHECK_EQ(lease.expires_at, NOW + 1500);
    pal_clock_set_ms(NOW + 1499);
    GIVES(PAL_BUSY, take(session, "b", 1000, &second));
    pal_clock_set_ms(NOW + 1501);
    GIVES(PAL_NOT_FOUND, find_lease(session, &lease));
    OK(take(session, "b", 1000, &second));
    CHECK_THAT(second, >, first);
}

static void a_lease_is_released(void)
{
    pal_id session = new_session();
    uint64_t first = 0, second = 0, third = 0;
    pal_lease lease;

    OK(take(session, "a", 1000, &first));
    OK(pal_store_lease_release(test.store, no_tenant(), session, first + 1, &test.err));
    GIVES(PAL_BUSY, take(session, "b", 1000, &second));
    OK(pal_store_lease_release(test.store, no_tenant(), session, first, &test.err));
    GIVES(PAL_NOT_FOUND, find_lease(session, &lease));
    OK(take(session, "a", 1000, &second));
    CHECK_THAT(second, >, first);
    OK(pal_store_lease_release(
            test.store, no_tenant(), session, first, &test.err)); /* lost before */
    GIVES(PAL_BUSY, take(session, "b", 1000, &third));
    GIVES(PAL_NOT_FOUND, take(pal_id_new(), "a", 1000, &third));
    GIVES(PAL_INVALID, take(session, "", 1000, &third));
    GIVES(PAL_INVALID, take(session, "a", 0, &third));
}

static void a_lost_lease_of_the_same_owner_is_a_new_one(void)
{
    pal_id session = new_session();
    uint64_t first = 0, second = 0;

    OK(take(session, "a", 1000, &first));
    pal_clock_set_ms(NOW + 2000);
    OK(take(session, "a", 1000, &second));
    CHECK_THAT(second, >, first);
}

/* Every kind of write that can carry a fence, on a session with two messages and an item. */
static size_t fenced_ops(pal_id session, pal_id item, pal_op *ops)
{
    static pal_message message;
    static pal_mark mark;
    static pal_session change;
    static pal_inbox_item added;
    static pal_ledger_row row;
    static pal_erase_result erasure;
    static pal_record record;
    size_t len = 0;

    message = text_of(PAL_ROLE_USER, "fenced");
    mark = (pal_mark){.kind = PAL_MARK_PIN, .seq = 1};
    change = (pal_session){.id = session, .title = S("fenced")};
    added = (pal_inbox_item){.body = S("{}")};
    row = (pal_ledger_row){.request_id = S("fenced")};
    record = (pal_record){.kind = S("kind"), .name = S("fenced"), .body = S("{}")};
    ops[len++] = pal_op_append(no_tenant(), session, &message, 1, PAL_SEQ_ANY);
    ops[len++] = pal_op_mark(no_tenant(), session, &mark);
    ops[len++] = pal_op_update(&change, PAL_SESSION_FIELD_TITLE);
    ops[len++] = pal_op_inbox_add(no_tenant(), session, &added);
    ops[len++] = pal_op_inbox_drop(no_tenant(), session, item);
    ops[len++] = pal_op_ledger_add(no_tenant(), session, &row);
    ops[len++] = pal_op_record_put(no_tenant(), &record, 0);
    ops[len++] = pal_op_record_drop(no_tenant(), &record);
    ops[len++] = pal_op_delete(no_tenant(), session);
    ops[len++] = pal_op_restore(no_tenant(), session);
    ops[len++] = pal_op_erase(no_tenant(), session, &erasure);
    for (size_t i = 0; i < len; i++)
        ops[i].session = session; /* a record has no session, but the fence of one can guard it */
    return len;
}

static void a_stale_fence_writes_nothing(void)
{
    pal_inbox_item item = {.body = S("{}")}, *items;
    pal_id session = new_session();
    uint64_t stale = 0, fence = 0;
    pal_op ops[16];
    size_t len;

    say_words(session, "a b");
    OK(add_item(session, &item));
    OK(take(session, "a", 1000, &stale));
    pal_clock_set_ms(NOW + 2000);
    OK(take(session, "b", 1000, &fence));
    len = fenced_ops(session, item.id, ops);
    for (size_t i = 0; i < len; i++)
        ops[i].fence = stale;
    OK(pal_store_apply(test.store, ops, len, &test.err));
    for (size_t i = 0; i < len; i++)
        if (!CHECK_STATUS(ops[i].status, PAL_DENIED) ||
                !CHECK_THAT(ops[i].error.message[0], !=, '\0'))
            printf("# op %d gave %s\n", (int)ops[i].kind, pal_status_name(ops[i].status));
    if (CHECK(shows(session, "a b")))
        CHECK_EQ(get_session(session).title.len, 0);
    CHECK_EQ(list_items(session, &items), 1);
    len = fenced_ops(session, item.id, ops);
    for (size_t i = 0; i < len; i++) {
        ops[i].fence = fence;
        OK(pal_store_apply(test.store, &ops[i], 1, &test.err));
        if (!CHECK_STATUS(ops[i].status, PAL_OK))
            printf("# op %d gave %s\n", (int)ops[i].kind, ops[i].error.message);
    }
    GIVES(PAL_NOT_FOUND, find_id_status(session));
}

static void a_lease_that_ran_out_is_renewed_by_its_number(void)
{
    pal_id session = new_session();
    uint64_t fence = 0, other = 0;
    pal_op renewal = pal_op_lease_take(no_tenant(), session, S("a"), 1000);

    OK(take(session, "a", 1000, &fence));
    pal_clock_set_ms(NOW + 2000);
    renewal.fence = fence;
    OK(pal_store_apply(test.store, &renewal, 1, &test.err));
    CHECK_STATUS(renewal.status, PAL_OK);
    CHECK_EQ(renewal.u.lease.fence, fence);
    GIVES(PAL_BUSY, take(session, "b", 1000, &other));
    pal_clock_set_ms(NOW + 5000);
    OK(take(session, "b", 1000, &other));
    CHECK_THAT(other, >, fence);
    OK(pal_store_apply(test.store, &renewal, 1, &test.err));
    CHECK_STATUS(renewal.status, PAL_DENIED);
    pal_clock_set_ms(NOW + 9000); /* gone again, but another owner had it */
    OK(pal_store_apply(test.store, &renewal, 1, &test.err));
    CHECK_STATUS(renewal.status, PAL_DENIED);
}

static void a_lease_from_before_the_clock_went_back_does_not_hold(void)
{
    pal_id session = new_session();
    uint64_t first = 0, second = 0;
    pal_lease lease;

    OK(take(session, "a", 1000, &first));
    pal_clock_set_ms(NOW - 1000); /* the other clock is ahead */
    GIVES(PAL_BUSY, take(session, "b", 1000, &second));
    pal_clock_set_ms(NOW - 1001);
    GIVES(PAL_NOT_FOUND, find_lease(session, &lease));
    OK(take(session, "b", 1000, &second));
    CHECK_THAT(second, >, first);
    OK(find_lease(session, &lease));
    CHECK_EQ(lease.ttl_ms, 1000);
    CHECK_EQ(lease.expires_at, NOW - 1);
    GIVES(PAL_BUSY, take(session, "a", 1000, &first));
}

/* A process can take the lease if it has seen the same number and the same end for its complete
 * ttl. */
static void a_stale_lease_can_be_taken(void)
{
    pal_id session = new_session();
    uint64_t fence = 0, other = 0;
    pal_op op = pal_op_lease_take(no_tenant(), session, S("b"), 1000);

    OK(take(session, "a", 1000, &fence));
    op.u.lease.stale_fence = fence;
    op.u.lease.stale_expires_at = NOW + 999; /* it was renewed since then */
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_BUSY);
    op.u.lease.stale_expires_at = NOW + 1000;
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_OK);
    CHECK_THAT(op.u.lease.fence, >, fence);
    GIVES(PAL_BUSY, take(session, "a", 1000, &other));
}

/* A process that has watched the lease decides whether its owner lives; the clock does not. */
static void a_watched_lease_holds_whatever_the_clock_says(void)
{
    pal_id session = new_session();
    uint64_t fence = 0;
    pal_lease lease;
    pal_op op = pal_op_lease_take(no_tenant(), session, S("b"), 1000);
    const int64_t clocks[] = {NOW, NOW + 3600000, NOW - 3600000};

    op.u.lease.is_watched = true;
    OK(take(session, "a", 1000, &fence));
    for (size_t i = 0; i < 3; i++) {
        pal_clock_set_ms(clocks[i]);
        OK(pal_store_apply(test.store, &op, 1, &test.err));
        CHECK_STATUS(op.status, PAL_BUSY);
    }
    op.u.lease.stale_fence = fence;
    op.u.lease.stale_expires_at = NOW + 1000;
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_OK);
    CHECK_EQ(op.u.lease.fence, fence + 1);
    OK(pal_store_lease_release(test.store, no_tenant(), session, fence + 1, &test.err));
    op.u.lease = (__typeof__(op.u.lease)){.owner = S("c"), .ttl_ms = 1000, .is_watched = true};
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_OK);
    CHECK_EQ(op.u.lease.fence, fence + 2);
    /* Each renewal changes the end, though the clock does not move. */
    OK(find_lease(session, &lease));
    op.fence = fence + 2;
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_OK);
    CHECK_EQ(op.u.lease.fence, fence + 2);
    fence = (uint64_t)lease.expires_at;
    OK(find_lease(session, &lease));
    CHECK_THAT(lease.expires_at, !=, (int64_t)fence);
}

/* The owner of the session's lease ends the turns that it began there. */
static void a_running_turn_can_write_to_a_deleted_session(void)
{
    pal_session expiring = {.expires_at = NOW + 10};
    pal_id ids[2] = {new_session()};

    OK(pal_store_create(test.store, &expiring, &ids[1], &test.err));
    for (size_t i = 0; i < 2; i++) {
        pal_message message = text_of(PAL_ROLE_ASSISTANT, "paid for");
        pal_op op = pal_op_append(no_tenant(), ids[i], &message, 1, 0);
        uint64_t fence = 0;

        pal_clock_set_ms(NOW);
        OK(take(ids[i], "a", 1000, &fence));
        if (i == 0)
            OK(pal_store_delete(test.store, no_tenant(), ids[i], &test.err));
        pal_clock_set_ms(NOW + 11);
        OK(pal_store_apply(test.store, &op, 1, &test.err));
        CHECK_STATUS(op.status, PAL_CONFLICT);
        op.fence = fence;
        OK(pal_store_apply(test.store, &op, 1, &test.err));
        CHECK_STATUS(op.status, PAL_OK);
        CHECK_EQ(message.seq, 1);
        if (i == 0)
            OK(pal_store_restore(test.store, no_tenant(), ids[i], &test.err));
        else
            OK(pal_store_update(test.store, &(pal_session){.id = ids[i]},
                    PAL_SESSION_FIELD_EXPIRES_AT, &test.err));
        CHECK_EQ(get_session(ids[i]).last_seq, 1);
    }
}

static void a_message_names_its_turn(void)
{
    pal_message messages[2] = {text_of(PAL_ROLE_USER, "a"), text_of(PAL_ROLE_USER, "b")}, found;
    pal_id session = new_session(), turn = pal_id_new(), owner;
    pal_message_page list;

    messages[0].turn_id = turn;
    messages[0].client_id = S("a");
    OK(pal_store_append(test.store, no_tenant(), session, &messages[0], 1, PAL_SEQ_ANY, &test.err));
    OK(pal_store_append(test.store, no_tenant(), session, &messages[1], 1, PAL_SEQ_ANY, &test.err));
    OK(pal_store_load(test.store, no_tenant(), session, &(pal_message_query){0}, test.arena, &list,
            &test.err));
    if (!CHECK_EQ(list.len, 2))
        return;
    CHECK_ID(list.items[0].turn_id, turn);
    CHECK(pal_id_is_none(list.items[1].turn_id));
    OK(pal_store_message(
            test.store, no_tenant(), messages[0].id, test.arena, &found, &owner, &test.err));
    CHECK_ID(found.turn_id, turn);
    /* A repeated request is recognized by its contents, in whichever turn it comes. */
    messages[0].id = (pal_id){{0}};
    messages[0].turn_id = pal_id_new();
    OK(pal_store_append(test.store, no_tenant(), session, &messages[0], 1, PAL_SEQ_ANY, &test.err));
    CHECK_EQ(messages[0].seq, 1);
    CHECK_ID(messages[0].id, found.id);
}

static void a_fence_without_a_lease_is_denied(void)
{
    pal_message message = text_of(PAL_ROLE_USER, "x");
    pal_op op = pal_op_append(no_tenant(), new_session(), &message, 1, 0);

    op.fence = 1;
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_DENIED);
}

/* ---- Who has something to do ---- */

static size_t owners_after(
        const pal_inbox_owner *after, uint32_t limit, pal_inbox_owner **out_owners)
{
    size_t len = 0;

    OK(pal_store_inbox_owners(test.store, after, limit, test.arena, out_owners, &len, &test.err));
    return len;
}

static void sessions_with_something_in_their_inbox_are_found(void)
{
    pal_session other = {.tenant = S("other")};
    pal_inbox_item item = {.body = S("{}")}, second = {.body = S("{}")};
    pal_id ids[6];
    pal_inbox_owner *owners, third;
    size_t len = 0;

    CHECK_EQ(owners_after(NULL, 0, &owners), 0);
    for (size_t i = 0; i < 6; i++) {
        ids[i] = other.id = (pal_id){{(uint8_t)(200 - 30 * i), 1, 2}};
        other.tenant = i % 2 ? S("other") : no_tenant();
        other.expires_at = i == 4 ? NOW + 10 : 0;
        OK(pal_store_create(test.store, &other, NULL, &test.err));
        if (i != 1)
            OK(pal_store_inbox_add(test.store, other.tenant, ids[i], &item, &test.err));
    }
    OK(add_item(ids[2], &second));
    CHECK_EQ(owners_after(NULL, 0, &owners), 5);
    OK(pal_store_delete(test.store, S("other"), ids[3], &test.err));
    pal_clock_set_ms(NOW + 11); /* ids[4] has expired */
    len = owners_after(NULL, 0, &owners);
    if (!CHECK_EQ(len, 3))
        return;
    CHECK_ID(owners[0].session, ids[5]);
    CHECK_STR(owners[0].tenant, "other");
    CHECK_ID(owners[1].session, ids[2]);
    CHECK_STR(owners[1].tenant, "default");
    CHECK_ID(owners[2].session, ids[0]);
    if (CHECK_EQ(owners_after(NULL, 2, &owners), 2))
        CHECK_ID(owners[1].session, ids[2]);
    third = owners[1];
    if (CHECK_EQ(owners_after(&third, 2, &owners), 1))
        CHECK_ID(owners[0].session, ids[0]);
    third = owners[0];
    CHECK_EQ(owners_after(&third, 2, &owners), 0);
    GIVES(PAL_LIMIT,
            pal_store_inbox_owners(test.store, NULL, PAL_INBOX_OWNERS_MAX + 1, test.arena, &owners,
                    &len, &test.err));
    OK(pal_store_inbox_drop(test.store, no_tenant(), ids[2], second.id, &test.err));
    CHECK_EQ(owners_after(NULL, 0, &owners), 3);
    OK(pal_store_erase(test.store, no_tenant(), ids[2], NULL, &test.err));
    CHECK_EQ(owners_after(NULL, 0, &owners), 2);
}

void contract_turns(void)
{
    RUN(the_inbox_keeps_its_order);
    RUN(an_item_sent_twice_is_one);
    RUN(bad_items_are_refused);
    RUN(the_inbox_has_a_limit);
    RUN(an_append_takes_items_out_of_the_inbox);
    RUN(a_lease_has_one_owner);
    RUN(a_lease_is_released);
    RUN(a_lost_lease_of_the_same_owner_is_a_new_one);
    RUN(a_stale_fence_writes_nothing);
    RUN(a_lease_that_ran_out_is_renewed_by_its_number);
    RUN(a_lease_from_before_the_clock_went_back_does_not_hold);
    RUN(a_stale_lease_can_be_taken);
    RUN(a_watched_lease_holds_whatever_the_clock_says);
    RUN(a_running_turn_can_write_to_a_deleted_session);
    RUN(a_message_names_its_turn);
    RUN(a_fence_without_a_lease_is_denied);
    RUN(sessions_with_something_in_their_inbox_are_found);
}
