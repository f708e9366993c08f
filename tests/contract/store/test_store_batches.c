/* test_store_batches.c - operations of many sessions in one commit. */
#include "contract/contract.h"

static void a_batch_keeps_its_order(void)
{
    pal_message messages[] = {text_of(PAL_ROLE_USER, "a"), text_of(PAL_ROLE_USER, "b")};
    pal_mark mark = {.kind = PAL_MARK_REWIND, .seq = 1};
    pal_id id = pal_id_new();
    pal_session given = {.id = id, .key = S("k")};
    pal_op ops[] = {
            pal_op_create(&given),
            pal_op_append(no_tenant(), id, &messages[0], 1, 0),
            pal_op_append(no_tenant(), id, &messages[1], 1, 1),
            pal_op_mark(no_tenant(), id, &mark),
    };

    OK(pal_store_apply(test.store, ops, 4, &test.err));
    for (size_t i = 0; i < 4; i++)
        CHECK_STATUS(ops[i].status, PAL_OK);
    CHECK_EQ(messages[0].seq, 1);
    CHECK_EQ(messages[1].seq, 2);
    CHECK_EQ(mark.number, 1);
    CHECK_EQ(mark.through_seq, 2);
    CHECK(shows(id, "a"));
}

static void each_operation_fails_alone(void)
{
    pal_id a = new_session(), b = new_session();
    pal_session taken = {.key = S("k")}, bad = {.metadata = S("[]")};
    pal_message messages[5];
    pal_op ops[8] = {{0}};
    size_t len = 0;

    new_session_with_key("k");
    for (size_t i = 0; i < 5; i++)
        messages[i] = text_of(i == 2 ? PAL_ROLE_NONE : PAL_ROLE_USER, "x");
    ops[len++] = pal_op_create(&taken);
    for (size_t i = 0; i < 5; i++) {
        pal_id session = i == 1 ? pal_id_new() : i < 4 ? a : b;

        ops[len++] = pal_op_append(
                no_tenant(), session, &messages[i], 1, i == 3 ? 9 : PAL_SEQ_ANY);
    }
    ops[len++] = pal_op_create(&bad);
    ops[len++] = (pal_op){.kind = PAL_OP_NONE};
    OK(pal_store_apply(test.store, ops, len, &test.err));
    CHECK_STATUS(ops[0].status, PAL_CONFLICT);
    CHECK_STATUS(ops[1].status, PAL_OK);
    CHECK_STATUS(ops[2].status, PAL_NOT_FOUND);
    CHECK_STATUS(ops[3].status, PAL_INVALID);
    CHECK_STATUS(ops[4].status, PAL_CONFLICT);
    CHECK_STATUS(ops[5].status, PAL_OK);
    CHECK_STATUS(ops[6].status, PAL_INVALID);
    CHECK_STATUS(ops[7].status, PAL_INVALID);
    for (size_t i = 0; i < len; i++)
        CHECK_EQ((ops[i].status == PAL_OK), (ops[i].error.message[0] == '\0'));
    CHECK(shows(a, "x"));
    CHECK(shows(b, "x"));
}

static void an_operation_can_go_with_the_one_before_it(void)
{
    pal_id id = new_session();
    pal_message first = text_of(PAL_ROLE_USER, "a"), second = text_of(PAL_ROLE_USER, "b");
    pal_op ops[3] = {
            pal_op_lease_take(no_tenant(), id, S("one"), 60000),
            pal_op_append(no_tenant(), id, &first, 1, PAL_SEQ_ANY),
    };

    ops[1].with_previous = true;
    OK(pal_store_apply(test.store, ops, 2, &test.err));
    CHECK_STATUS(ops[0].status, PAL_OK);
    CHECK_STATUS(ops[1].status, PAL_OK);
    CHECK_EQ(ops[0].u.lease.fence, 1);
    ops[0].u.lease.owner = S("another");
    ops[1].u.append.messages = &second;
    ops[2] = ops[1];
    ops[2].with_previous = false;
    OK(pal_store_apply(test.store, ops, 3, &test.err));
    CHECK_STATUS(ops[0].status, PAL_BUSY);
    CHECK_STATUS(ops[1].status, PAL_CANCELED);
    CHECK_STATUS(ops[2].status, PAL_OK);
    CHECK(shows(id, "a b"));
    ops[0].u.lease.owner = (pal_str){0}; /* refused before the backend is called */
    OK(pal_store_apply(test.store, ops, 2, &test.err));
    CHECK_STATUS(ops[0].status, PAL_INVALID);
    CHECK_STATUS(ops[1].status, PAL_CANCELED);
    CHECK(shows(id, "a b"));
    OK(pal_store_apply(test.store, &ops[1], 1, &test.err));
    CHECK_STATUS(ops[1].status, PAL_INVALID);
    CHECK(shows(id, "a b"));
}

/* Here SQLite itself fails; the check before it does not. */
static void operations_of_a_shared_commit_fail_alone(void)
{
    pal_id id = new_session();
    pal_message first = text_of(PAL_ROLE_USER, "a"), again = text_of(PAL_ROLE_USER, "b");
    pal_record before = {.kind = S("k"), .name = S("before"), .body = S("1")};
    pal_record after = {.kind = S("k"), .name = S("after"), .body = S("1")}, found;
    pal_record third = {.kind = S("k"), .name = S("third"), .body = S("1")};
    pal_op ops[] = {
            pal_op_record_put(no_tenant(), &before, 0),
            pal_op_append(no_tenant(), id, &again, 1, PAL_SEQ_ANY),
            pal_op_record_put(no_tenant(), &after, 0),
            pal_op_record_put(no_tenant(), &third, 0),
    };

    ops[1].with_previous = ops[2].with_previous = true;
    OK(pal_store_append(test.store, no_tenant(), id, &first, 1, 0, &test.err));
    again.id = first.id;
    OK(pal_store_apply(test.store, ops, 4, &test.err));
    CHECK_STATUS(ops[0].status, PAL_OK);
    CHECK_STATUS(ops[1].status, PAL_CONFLICT);
    CHECK_STATUS(ops[2].status, PAL_CANCELED);
    CHECK_STATUS(ops[3].status, PAL_OK);
    CHECK(shows(id, "a"));
    OK(pal_store_record_find(
            test.store, no_tenant(), S("k"), S("before"), test.arena, &found, &test.err));
    OK(pal_store_record_find(
            test.store, no_tenant(), S("k"), S("third"), test.arena, &found, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_record_find(
                    test.store, no_tenant(), S("k"), S("after"), test.arena, &found, &test.err));
}

static void a_batch_over_the_limit_is_refused(void)
{
    pal_op *ops = pal_arena_array(test.arena, PAL_BATCH_OPS_MAX + 1, sizeof *ops);

    GIVES(PAL_LIMIT, pal_store_apply(test.store, ops, PAL_BATCH_OPS_MAX + 1, &test.err));
    OK(pal_store_apply(test.store, ops, 0, &test.err));
}

static void a_batch_spans_sessions_and_tenants(void)
{
    enum { LEN = 600 };
    pal_op *ops = pal_arena_array(test.arena, LEN, sizeof *ops);
    pal_message *messages = pal_arena_array(test.arena, LEN, sizeof *messages);
    pal_session other = {.tenant = S("other")};
    pal_id ids[3] = {new_session(), new_session()};
    pal_store_stats before, after;

    OK(pal_store_create(test.store, &other, &ids[2], &test.err));
    for (size_t i = 0; i < LEN; i++) {
        messages[i] = text_of(PAL_ROLE_USER, "x");
        ops[i] = pal_op_append(i % 3 == 2 ? S("other") : no_tenant(), ids[i % 3], &messages[i], 1,
                i / 3);
    }
    OK(pal_store_stat(test.store, test.arena, &before, &test.err));
    OK(pal_store_apply(test.store, ops, LEN, &test.err));
    OK(pal_store_stat(test.store, test.arena, &after, &test.err));
    for (size_t i = 0; i < LEN; i++)
        if (!CHECK_STATUS(ops[i].status, PAL_OK) || !CHECK_EQ(messages[i].seq, i / 3 + 1))
            break;
    CHECK_EQ(after.ops - before.ops, LEN);
    CHECK_EQ(after.commits - before.commits, 1);
}

static void an_operation_names_its_session(void)
{
    pal_message message = text_of(PAL_ROLE_USER, "x");
    pal_op op = pal_op_append(no_tenant(), (pal_id){{0}}, &message, 1, 0);

    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_INVALID);
}

/* ---- Watching ---- */

static pal_store_change_kind heard[16];
static size_t heard_len;

static void hear(const pal_store_change *change, void *user)
{
    if (CHECK_PTR(user, heard))
        CHECK_STR(change->tenant, "default");
    if (heard_len < 16)
        heard[heard_len++] = change->kind;
}

static void watchers_receive_changes(void)
{
    pal_id session;
    pal_op ops[2] = {{.kind = PAL_OP_DELETE}, {.kind = PAL_OP_RESTORE}};
    static const pal_store_change_kind wanted[] = {PAL_STORE_CHANGE_CREATED,
            PAL_STORE_CHANGE_MESSAGES, PAL_STORE_CHANGE_MARK, PAL_STORE_CHANGE_DELETED,
            PAL_STORE_CHANGE_RESTORED, PAL_STORE_CHANGE_ERASED};

    heard_len = 0;
    OK(pal_store_watch(test.store, hear, heard, &test.err));
    session = new_session();
    say(session, "hello");
    rewind_to(session, 0);
    CHECK_STATUS(pal_store_delete(test.store, no_tenant(), pal_id_new(), &test.err), PAL_NOT_FOUND,
            &test.err);
    ops[0].session = ops[1].session = session;
    OK(pal_store_apply(test.store, ops, 2, &test.err));
    OK(pal_store_erase(test.store, no_tenant(), session, NULL, &test.err));
    if (CHECK_EQ(heard_len, 6))
        CHECK_BYTES(heard, wanted, sizeof wanted);
    pal_store_unwatch(test.store, heard);
    (void)new_session();
    CHECK_EQ(heard_len, 6);
    for (int i = 0; i < PAL_STORE_WATCHERS_MAX; i++)
        OK(pal_store_watch(test.store, hear, heard, &test.err));
    CHECK_STATUS(pal_store_watch(test.store, hear, heard, &test.err), PAL_LIMIT, &test.err);
    pal_store_unwatch(test.store, heard);
}

void contract_batches(void)
{
    RUN(a_batch_keeps_its_order);
    RUN(each_operation_fails_alone);
    RUN(an_operation_can_go_with_the_one_before_it);
    RUN(operations_of_a_shared_commit_fail_alone);
    RUN(a_batch_over_the_limit_is_refused);
    RUN(a_batch_spans_sessions_and_tenants);
    RUN(an_operation_names_its_session);
    RUN(watchers_receive_changes);
}
