/* test_store_turns.c - what surrounds a turn: inbox, lease and fence, ledger. */
#include "contract.h"

/* ---- Inbox ---- */

static pal_status add_item(pal_id session, pal_inbox_item *item)
{
    return pal_store_inbox_add(store, no_tenant(), session, item, &err);
}

static size_t list_items(pal_id session, pal_inbox_item **out_items)
{
    size_t len = 0;

    OK(pal_store_inbox_list(store, no_tenant(), session, arena, out_items, &len, &err));
    return len;
}

static void the_inbox_keeps_its_order(void)
{
    pal_inbox_item first = {.body = S("{\"n\":1}"), .delivery = S("queue"), .client_id = S("c")};
    pal_inbox_item second = {.body = S("{\"n\":2}"), .delivery = S("steer")}, *items;
    pal_id session = new_session();

    CHECK(list_items(session, &items) == 0);
    OK(add_item(session, &first));
    pal_clock_set_ms(NOW + 1);
    OK(add_item(session, &second));
    CHECK(!pal_id_is_none(first.id) && first.created_at == NOW && second.created_at == NOW + 1);
    if (!CHECK(list_items(session, &items) == 2))
        return;
    CHECK(pal_id_equal(items[0].id, first.id) && pal_str_is(items[0].body, "{\"n\":1}"));
    CHECK(pal_str_is(items[0].client_id, "c") && pal_str_is(items[0].delivery, "queue"));
    CHECK(pal_id_equal(items[1].id, second.id) && pal_str_is(items[1].delivery, "steer"));
    OK(pal_store_inbox_drop(store, no_tenant(), session, first.id, &err));
    CHECK(list_items(session, &items) == 1 && pal_id_equal(items[0].id, second.id));
    GIVES(PAL_NOT_FOUND, pal_store_inbox_drop(store, no_tenant(), session, first.id, &err));
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
    CHECK(pal_id_equal(item.id, first) && item.created_at == NOW);
    item.body = S("{\"other\":1}");
    GIVES(PAL_CONFLICT, add_item(session, &item));
    item.body = S("{}");
    item.delivery = S("steer");
    GIVES(PAL_CONFLICT, add_item(session, &item));
    CHECK(list_items(session, &items) == 1);
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
    pal_op *ops = pal_arena_array(arena, PAL_INBOX_ITEMS_MAX, sizeof *ops);
    pal_inbox_item *items = pal_arena_array(arena, PAL_INBOX_ITEMS_MAX, sizeof *items);
    pal_id session = new_session();

    for (size_t i = 0; i < PAL_INBOX_ITEMS_MAX; i++) {
        items[i] = item;
        ops[i] = (pal_op){.kind = PAL_OP_INBOX_ADD, .session = session, .u.inbox_item = &items[i]};
    }
    OK(pal_store_apply(store, ops, PAL_INBOX_ITEMS_MAX, &err));
    CHECK(ops[PAL_INBOX_ITEMS_MAX - 1].status == PAL_OK);
    GIVES(PAL_LIMIT, add_item(session, &item));
    OK(pal_store_inbox_drop(store, no_tenant(), session, items[3].id, &err));
    OK(add_item(session, &item));
}

static void an_append_takes_items_out_of_the_inbox(void)
{
    pal_inbox_item a = {.body = S("{\"a\":1}")}, b = {.body = S("{\"b\":1}")}, *items;
    pal_message message = text_of(PAL_ROLE_USER, "a");
    pal_op op = {.kind = PAL_OP_APPEND, .session = new_session()};
    pal_id ids[2];

    OK(add_item(op.session, &a));
    OK(add_item(op.session, &b));
    ids[0] = a.id;
    ids[1] = pal_id_new(); /* unknown ones are no error */
    op.u.append.messages = &message;
    op.u.append.messages_len = 1;
    op.u.append.inbox_ids = ids;
    op.u.append.inbox_ids_len = 2;
    op.u.append.expected_seq = 7;
    OK(pal_store_apply(store, &op, 1, &err));
    CHECK(op.status == PAL_CONFLICT && list_items(op.session, &items) == 2);
    op.u.append.expected_seq = 0;
    OK(pal_store_apply(store, &op, 1, &err));
    CHECK(op.status == PAL_OK && list_items(op.session, &items) == 1);
    CHECK(pal_id_equal(items[0].id, b.id));
}

/* ---- Lease ---- */

static pal_status take(pal_id session, const char *owner, int64_t ttl_ms, uint64_t *out_fence)
{
    return pal_store_lease_take(store, no_tenant(), session, S(owner), ttl_ms, out_fence, &err);
}

static pal_status find_lease(pal_id session, pal_lease *out_lease)
{
    return pal_store_lease_find(store, no_tenant(), session, arena, out_lease, &err);
}

static void a_lease_has_one_owner(void)
{
    pal_id session = new_session();
    uint64_t first = 0, second = 0;
    pal_lease lease;

    GIVES(PAL_NOT_FOUND, find_lease(session, &lease));
    OK(take(session, "a", 1000, &first));
    CHECK(first > 0);
    GIVES(PAL_BUSY, take(session, "b", 1000, &second));
    CHECK(strstr(err.message, "'a'") != NULL && second == 0);
    pal_clock_set_ms(NOW + 500);
    OK(take(session, "a", 1000, &second));
    CHECK(second == first);
    OK(find_lease(session, &lease));
    CHECK(pal_str_is(lease.owner, "a") && lease.fence == first && lease.expires_at == NOW + 1500);
    pal_clock_set_ms(NOW + 1499);
    GIVES(PAL_BUSY, take(session, "b", 1000, &second));
    pal_clock_set_ms(NOW + 1501);
    GIVES(PAL_NOT_FOUND, find_lease(session, &lease));
    OK(take(session, "b", 1000, &second));
    CHECK(second > first);
}

static void a_lease_is_given_back(void)
{
    pal_id session = new_session();
    uint64_t first = 0, second = 0, third = 0;
    pal_lease lease;

    OK(take(session, "a", 1000, &first));
    OK(pal_store_lease_release(store, no_tenant(), session, first + 1, &err));
    GIVES(PAL_BUSY, take(session, "b", 1000, &second));
    OK(pal_store_lease_release(store, no_tenant(), session, first, &err));
    GIVES(PAL_NOT_FOUND, find_lease(session, &lease));
    OK(take(session, "a", 1000, &second));
    CHECK(second > first);
    OK(pal_store_lease_release(store, no_tenant(), session, first, &err)); /* lost before */
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
    CHECK(second > first);
}

/* Every kind of writing that can carry a fence, on a session with two messages and an item. */
static size_t fenced_ops(pal_id session, pal_id item, pal_op *ops)
{
    static pal_message message;
    static pal_mark mark;
    static pal_session change;
    static pal_inbox_item added;
    static pal_ledger_row row;
    static pal_erasure erasure;
    size_t len = 0;

    message = text_of(PAL_ROLE_USER, "fenced");
    mark = (pal_mark){.kind = PAL_MARK_PIN, .seq = 1};
    change = (pal_session){.title = S("fenced")};
    added = (pal_inbox_item){.body = S("{}")};
    row = (pal_ledger_row){.request_id = S("fenced")};
    ops[len++] = (pal_op){.kind = PAL_OP_APPEND,
            .u.append = {.messages = &message, .messages_len = 1, .expected_seq = PAL_SEQ_ANY}};
    ops[len++] = (pal_op){.kind = PAL_OP_MARK, .u.mark = &mark};
    ops[len++] = (pal_op){
            .kind = PAL_OP_UPDATE, .u.update = {.session = &change, .fields = PAL_FIELD_TITLE}};
    ops[len++] = (pal_op){.kind = PAL_OP_INBOX_ADD, .u.inbox_item = &added};
    ops[len++] = (pal_op){.kind = PAL_OP_INBOX_DROP, .u.inbox_id = item};
    ops[len++] = (pal_op){.kind = PAL_OP_LEDGER_ADD, .u.ledger_row = &row};
    ops[len++] = (pal_op){.kind = PAL_OP_DELETE};
    ops[len++] = (pal_op){.kind = PAL_OP_RESTORE};
    ops[len++] = (pal_op){.kind = PAL_OP_ERASE, .u.erasure = &erasure};
    for (size_t i = 0; i < len; i++)
        ops[i].session = session;
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
    OK(pal_store_apply(store, ops, len, &err));
    for (size_t i = 0; i < len; i++)
        if (!CHECK(ops[i].status == PAL_DENIED && ops[i].error.message[0] != '\0'))
            printf("# op %d gave %s\n", (int)ops[i].kind, pal_status_name(ops[i].status));
    CHECK(shows(session, "a b") && get_session(session).title.len == 0);
    CHECK(list_items(session, &items) == 1);
    len = fenced_ops(session, item.id, ops);
    for (size_t i = 0; i < len; i++) {
        ops[i].fence = fence;
        OK(pal_store_apply(store, &ops[i], 1, &err));
        if (!CHECK(ops[i].status == PAL_OK))
            printf("# op %d gave %s\n", (int)ops[i].kind, ops[i].error.message);
    }
    GIVES(PAL_NOT_FOUND, find_id_status(session));
}

static void a_fence_without_a_lease_is_denied(void)
{
    pal_message message = text_of(PAL_ROLE_USER, "x");
    pal_op op = {.kind = PAL_OP_APPEND,
            .session = new_session(),
            .fence = 1,
            .u.append = {.messages = &message, .messages_len = 1, .expected_seq = 0}};

    OK(pal_store_apply(store, &op, 1, &err));
    CHECK(op.status == PAL_DENIED);
}

/* ---- Ledger ---- */

static pal_ledger_row ledger_row(const char *request_id, uint64_t input, int64_t created_at)
{
    return (pal_ledger_row){.request_id = S(request_id),
            .turn_id = S("turn"),
            .purpose = S("turn"),
            .provider = S("p"),
            .model = S("m"),
            .price_version = S("1"),
            .usage = {.input = input,
                    .cache_read = 2,
                    .cache_write = 3,
                    .output = 4,
                    .reasoning = 1},
            .cost_micros = 10,
            .created_at = created_at};
}

static pal_ledger_sum sum_of(pal_id session, int64_t from, int64_t to)
{
    pal_ledger_sum sum = {0};

    OK(pal_store_ledger_sum(store, no_tenant(), session, from, to, &sum, &err));
    return sum;
}

static void the_ledger_adds_up(void)
{
    pal_id a = new_session(), b = new_session(), none = {{0}};
    pal_ledger_row rows[] = {ledger_row("r1", 100, NOW), ledger_row("r2", 200, NOW + 10),
            ledger_row("r3", 400, NOW + 20), ledger_row("r4", 800, 0)};
    pal_ledger_sum sum;

    OK(pal_store_ledger_add(store, no_tenant(), a, &rows[0], &err));
    OK(pal_store_ledger_add(store, no_tenant(), a, &rows[1], &err));
    OK(pal_store_ledger_add(store, no_tenant(), b, &rows[2], &err));
    pal_clock_set_ms(NOW + 30);
    OK(pal_store_ledger_add(store, no_tenant(), none, &rows[3], &err));
    sum = sum_of(none, 0, 0);
    CHECK(sum.calls == 4 && sum.usage.input == 1500 && sum.usage.cache_read == 8);
    CHECK(sum.usage.cache_write == 12 && sum.usage.output == 16 && sum.usage.reasoning == 4);
    CHECK(sum.cost_micros == 40);
    CHECK(sum_of(a, 0, 0).usage.input == 300 && sum_of(b, 0, 0).usage.input == 400);
    CHECK(sum_of(none, NOW + 10, NOW + 20).usage.input == 200);
    CHECK(sum_of(none, NOW + 10, 0).usage.input == 1400);
    CHECK(sum_of(a, NOW + 11, 0).calls == 0);
    CHECK(sum_of(none, NOW + 30, NOW + 31).usage.input == 800);
}

static void the_same_request_is_the_same_call(void)
{
    pal_id a = new_session(), b = new_session(), none = {{0}};
    pal_ledger_row row = ledger_row("r1", 100, NOW), nameless = ledger_row("", 1, NOW);

    OK(pal_store_ledger_add(store, no_tenant(), a, &row, &err));
    row.usage.input = 999;
    OK(pal_store_ledger_add(store, no_tenant(), a, &row, &err));
    OK(pal_store_ledger_add(store, no_tenant(), b, &row, &err));
    OK(pal_store_ledger_add(store, no_tenant(), none, &row, &err));
    CHECK(sum_of(none, 0, 0).calls == 1 && sum_of(none, 0, 0).usage.input == 100);
    GIVES(PAL_INVALID, pal_store_ledger_add(store, no_tenant(), a, &nameless, &err));
    GIVES(PAL_NOT_FOUND, pal_store_ledger_add(store, no_tenant(), pal_id_new(), &row, &err));
}

static void an_append_writes_its_ledger_rows(void)
{
    pal_message message = text_of(PAL_ROLE_USER, "x");
    pal_ledger_row rows[] = {ledger_row("r1", 1, NOW), ledger_row("r2", 2, NOW)};
    pal_op op = {.kind = PAL_OP_APPEND,
            .session = new_session(),
            .u.append = {.messages = &message,
                    .messages_len = 1,
                    .expected_seq = 5,
                    .ledger = rows,
                    .ledger_len = 2}};

    message.client_id = S("c");
    OK(pal_store_apply(store, &op, 1, &err));
    CHECK(op.status == PAL_CONFLICT && sum_of(op.session, 0, 0).calls == 0);
    op.u.append.expected_seq = 0;
    OK(pal_store_apply(store, &op, 1, &err));
    CHECK(op.status == PAL_OK && sum_of(op.session, 0, 0).usage.input == 3);
    rows[0].request_id = S("r3"); /* a replay: the new row still goes in, the old one not again */
    OK(pal_store_apply(store, &op, 1, &err));
    CHECK(op.status == PAL_OK && op.u.append.replayed);
    CHECK(sum_of(op.session, 0, 0).calls == 3 && get_session(op.session).last_seq == 1);
}

void contract_turns(void)
{
    RUN(the_inbox_keeps_its_order);
    RUN(an_item_sent_twice_is_one);
    RUN(bad_items_are_refused);
    RUN(the_inbox_has_a_limit);
    RUN(an_append_takes_items_out_of_the_inbox);
    RUN(a_lease_has_one_owner);
    RUN(a_lease_is_given_back);
    RUN(a_lost_lease_of_the_same_owner_is_a_new_one);
    RUN(a_stale_fence_writes_nothing);
    RUN(a_fence_without_a_lease_is_denied);
    RUN(the_ledger_adds_up);
    RUN(the_same_request_is_the_same_call);
    RUN(an_append_writes_its_ledger_rows);
}
