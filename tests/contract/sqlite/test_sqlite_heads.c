/* test_sqlite_heads.c - the heads of sessions that the writer caches are equal to those in the
 * file, also after another process has written to the file, and after a rollback. */
#include "store/sqlite/sqlite.h"
#include "support/disk/fault_vfs.h"
#include "support/sqlite_file.h"

static pal_sqlite *engine(void)
{
    return (pal_sqlite *)*pal_store_engine(test.store);
}

/* ---- Stores ---- */

static pal_id new_session(void)
{
    pal_session session = {0};
    pal_id id = {{0}};

    OK(pal_store_create(test.store, &session, &id, &test.err));
    return id;
}

static pal_id begin(void)
{
    open_store(false);
    return new_session();
}

static void end(void)
{
    close_store();
    file_clear();
}

/* Opens the same file again, as another process would. */
static pal_store *open_other(void)
{
    pal_store *other = NULL;

    OK(pal_store_open(test.url, NULL, &other, &test.err));
    return other;
}

static pal_message words(pal_part *part)
{
    *part = (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_of("words")};
    return (pal_message){.role = PAL_ROLE_USER, .parts = part, .parts_len = 1};
}

/* Returns the seq of the message, 0 if it was refused. */
static uint64_t append_to(pal_store *to, pal_id session)
{
    pal_part part;
    pal_message message = words(&part);
    pal_status status =
            pal_store_append(to, (pal_str){0}, session, &message, 1, PAL_SEQ_ANY, &test.err);

    return status == PAL_OK ? message.seq : 0;
}

static uint64_t append(pal_id session)
{
    return append_to(test.store, session);
}

static pal_op op_append(pal_id session, pal_message *message)
{
    pal_op op = {.kind = PAL_OP_APPEND, .session = session};

    op.u.append.messages = message;
    op.u.append.messages_len = 1;
    op.u.append.expected_seq = PAL_SEQ_ANY;
    return op;
}

/* The number of head lookups since the last call. */
static int lookups(void)
{
    sqlite3_stmt *stmt = engine()->writer.statements[PAL_SQL_HEAD_GET];

    return stmt ? sqlite3_stmt_status(stmt, SQLITE_STMTSTATUS_RUN, 1) : 0;
}

/* ---- It is remembered ---- */

static void the_second_append_looks_nothing_up(void)
{
    pal_id a = begin(), b = new_session();

    CHECK_EQ(append(a), 1);
    CHECK_EQ(append(b), 1);
    CHECK_EQ(lookups(), 2);
    CHECK_EQ(append(a), 2);
    CHECK_EQ(append(b), 2);
    CHECK_EQ(append(a), 3);
    CHECK_EQ(lookups(), 0);
    CHECK_EQ(ask("SELECT sum(last_seq) FROM head"), 5);
    end();
}

/* As in the first commit of a turn. */
static void a_commit_looks_up_a_session_once(void)
{
    pal_id before = begin(), id = {{77}};
    pal_session session = {0};
    pal_inbox_item item = {.body = pal_str_of("{}")};
    pal_part part;
    pal_message message = words(&part);
    pal_op ops[] = {
            {.kind = PAL_OP_CREATE, .u.create.session = &session},
            {.kind = PAL_OP_LEASE_TAKE, .u.lease = {.owner = pal_str_of("me"), .ttl_ms = 1000}},
            {.kind = PAL_OP_INBOX_ADD, .u.inbox_item = &item},
            op_append(id, &message),
    };

    CHECK_EQ(append(before), 1);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        ops[i].session = id;
        ops[i].with_previous = i > 0;
    }
    (void)lookups();
    OK(pal_store_apply(test.store, ops, sizeof ops / sizeof ops[0], &test.err));
    CHECK_STATUS(ops[3].status, PAL_OK);
    CHECK_EQ(message.seq, 1);
    CHECK_EQ(lookups(), 1);
    CHECK_EQ(append(before), 2);
    CHECK_EQ(append(id), 2);
    CHECK_EQ(lookups(), 0);
    end();
}

static pal_op op_lease(pal_id session, const char *owner, pal_op_kind kind, uint64_t fence)
{
    return (pal_op){.kind = kind,
            .session = session,
            .u.lease = {.owner = pal_str_of(owner), .ttl_ms = 1000, .fence = fence}};
}

static uint64_t take_lease(pal_store *store, pal_id session, const char *owner)
{
    pal_op op = op_lease(session, owner, PAL_OP_LEASE_TAKE, 0);

    OK(pal_store_apply(store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_OK);
    return op.u.lease.fence;
}

/* As in the later commits of a turn. */
static void marks_and_fences_need_no_lookup(void)
{
    pal_id id = begin();
    uint64_t fence = take_lease(test.store, id, "me");
    pal_part parts[2];
    pal_message first = words(&parts[0]), second = words(&parts[1]);
    pal_mark marks[] = {{.kind = PAL_MARK_PIN, .seq = 1}, {.kind = PAL_MARK_PIN, .seq = 2}};
    pal_op ops[] = {
            op_append(id, &first),
            {.kind = PAL_OP_MARK, .session = id, .u.mark = &marks[0]},
            op_append(id, &second),
            {.kind = PAL_OP_MARK, .session = id, .u.mark = &marks[1]},
    };

    (void)lookups();
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        ops[i].fence = fence;
    OK(pal_store_apply(test.store, ops, sizeof ops / sizeof ops[0], &test.err));
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        CHECK_STATUS(ops[i].status, PAL_OK);
    CHECK_EQ(second.seq, 2);
    CHECK_EQ(marks[0].number, 1);
    CHECK_EQ(marks[1].number, 2);
    CHECK_EQ(lookups(), 0);
    CHECK_EQ(ask("SELECT mark_number FROM head"), 2);
    end();
}

static void a_lease_of_another_process_is_seen(void)
{
    pal_id id = begin();
    pal_store *other = open_other();
    uint64_t fence = take_lease(test.store, id, "me");
    pal_op release = op_lease(id, "me", PAL_OP_LEASE_RELEASE, fence);
    pal_part part;
    pal_message message = words(&part);
    pal_op op = op_append(id, &message);

    op.fence = fence;
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_OK);
    OK(pal_store_apply(other, &release, 1, &test.err));
    CHECK_STATUS(release.status, PAL_OK);
    CHECK_THAT(take_lease(other, id, "you"), >, fence);
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_DENIED);
    CHECK_EQ(append(id), 2);
    pal_store_close(other);
    end();
}

static void another_tenant_does_not_see_it(void)
{
    pal_id id = begin(), own = {{0}};
    pal_session session = {.tenant = pal_str_of("other")};
    pal_part part;
    pal_message message = words(&part);

    OK(pal_store_create(test.store, &session, &own, &test.err));
    CHECK_EQ(append(id), 1);
    CHECK_STATUS(
            pal_store_append(test.store, session.tenant, id, &message, 1, PAL_SEQ_ANY, &test.err),
            PAL_NOT_FOUND, &test.err);
    CHECK_EQ(append(id), 2);
    end();
}

/* ---- Others write ---- */

static void messages_of_another_process_are_seen(void)
{
    pal_id id = begin();
    pal_store *other = open_other();

    CHECK_EQ(append(id), 1);
    CHECK_EQ(append_to(other, id), 2);
    CHECK_EQ(append(id), 3);
    CHECK_EQ(append(id), 4);
    CHECK_EQ(append_to(other, id), 5);
    CHECK_EQ(append_to(other, id), 6);
    CHECK_EQ(append(id), 7);
    pal_store_close(other);
    end();
}

/* A read on the writer's connection may be the first to notice. */
static void a_read_between_does_not_hide_it(void)
{
    pal_id id = begin();
    pal_store *other = open_other();
    pal_session found = {0};
    char text[PAL_ID_TEXT_SIZE];

    CHECK_EQ(append(id), 1);
    CHECK_EQ(append_to(other, id), 2);
    pal_id_to_text(id, text);
    OK(pal_store_find(test.store, (pal_str){0}, PAL_SESSION_BY_ID, pal_str_of(text), test.arena,
            &found, &test.err));
    CHECK_EQ(found.last_seq, 2);
    CHECK_EQ(append(id), 3);
    pal_store_close(other);
    end();
}

static void a_session_that_another_process_deletes_takes_no_more_messages(void)
{
    pal_id id = begin();
    pal_store *other = open_other();

    CHECK_EQ(append(id), 1);
    OK(pal_store_delete(other, (pal_str){0}, id, &test.err));
    CHECK_EQ(append(id), 0);
    CHECK_STATUS(test.err.status, PAL_CONFLICT);
    OK(pal_store_restore(other, (pal_str){0}, id, &test.err));
    CHECK_EQ(append(id), 2);
    pal_store_close(other);
    end();
}

/* ---- Other operations ---- */

static void other_operations_are_seen(void)
{
    pal_id id = begin();
    pal_session past = {.expires_at = 1};

    CHECK_EQ(append(id), 1);
    past.id = id;
    OK(pal_store_update(test.store, &past, PAL_SESSION_FIELD_EXPIRES_AT, &test.err));
    CHECK_EQ(append(id), 0);
    CHECK_STATUS(test.err.status, PAL_CONFLICT);
    past.expires_at = 0;
    OK(pal_store_update(test.store, &past, PAL_SESSION_FIELD_EXPIRES_AT, &test.err));
    CHECK_EQ(append(id), 2);
    OK(pal_store_delete(test.store, (pal_str){0}, id, &test.err));
    CHECK_EQ(append(id), 0);
    CHECK_STATUS(test.err.status, PAL_CONFLICT);
    end();
}

static void they_are_seen_within_a_batch(void)
{
    pal_id id = begin();
    pal_part part;
    pal_message first = words(&part), second = first, third = first;
    pal_op ops[] = {op_append(id, &first), op_append(id, &second),
            {.kind = PAL_OP_DELETE, .session = id}, op_append(id, &third)};

    CHECK_EQ(append(id), 1);
    OK(pal_store_apply(test.store, ops, 4, &test.err));
    CHECK_STATUS(ops[0].status, PAL_OK);
    CHECK_EQ(first.seq, 2);
    CHECK_STATUS(ops[1].status, PAL_OK);
    CHECK_EQ(second.seq, 3);
    CHECK_STATUS(ops[2].status, PAL_OK);
    CHECK_STATUS(ops[3].status, PAL_CONFLICT);
    end();
}

/* ---- What is taken back ---- */

static void a_commit_that_fails_is_forgotten(void)
{
    pal_id id = begin();

    CHECK_EQ(append(id), 1);
    fault_vfs_arm(FAULT_FULL, 1);
    CHECK_EQ(append(id), 0);
    CHECK_STATUS(test.err.status, PAL_FULL);
    fault_vfs_clear();
    CHECK_EQ(append(id), 2);
    end();
}

/* The batch is rolled back because one operation fails, and its operations are run again one by
 * one. */
static void a_repeated_batch_counts_once(void)
{
    pal_id id = begin(), other = new_session();
    pal_part part;
    pal_message first = words(&part), twice = first, last = first;
    pal_op ops[3];

    CHECK_EQ(append(id), 1);
    first.id = pal_id_new();
    twice.id = first.id;
    ops[0] = op_append(id, &first);
    ops[1] = op_append(other, &twice);
    ops[2] = op_append(id, &last);
    OK(pal_store_apply(test.store, ops, 3, &test.err));
    CHECK_STATUS(ops[0].status, PAL_OK);
    CHECK_EQ(first.seq, 2);
    CHECK_STATUS(ops[1].status, PAL_CONFLICT);
    CHECK_STATUS(ops[2].status, PAL_OK);
    CHECK_EQ(last.seq, 3);
    CHECK_EQ(append(id), 4);
    end();
}

/* One of several operations in a commit is rolled back alone, after its head was written. */
static void a_head_of_a_rolled_back_operation_is_forgotten(void)
{
    pal_id id = begin();
    pal_part part;
    pal_message first = words(&part), second = first;
    pal_ledger_row row = {.request_id = pal_str_of("r"), .model = pal_str_of("m")};
    pal_op ops[] = {op_append(id, &first), op_append(id, &second)};

    CHECK_EQ(append(id), 1);
    CHECK(run(
            "CREATE TRIGGER full BEFORE INSERT ON ledger BEGIN SELECT RAISE(ABORT, 'full'); END"));
    ops[1].with_previous = true;
    ops[1].u.append.ledger = &row;
    ops[1].u.append.ledger_len = 1;
    OK(pal_store_apply(test.store, ops, 2, &test.err));
    CHECK_STATUS(ops[0].status, PAL_OK);
    CHECK_EQ(first.seq, 2);
    CHECK_STATUS(ops[1].status, PAL_CONFLICT);
    CHECK_EQ(append(id), 3);
    end();
}

int main(void)
{
    fault_vfs_install();
    file_begin();
    RUN(the_second_append_looks_nothing_up);
    RUN(a_commit_looks_up_a_session_once);
    RUN(marks_and_fences_need_no_lookup);
    RUN(a_lease_of_another_process_is_seen);
    RUN(another_tenant_does_not_see_it);
    RUN(messages_of_another_process_are_seen);
    RUN(a_read_between_does_not_hide_it);
    RUN(a_session_that_another_process_deletes_takes_no_more_messages);
    RUN(other_operations_are_seen);
    RUN(they_are_seen_within_a_batch);
    RUN(a_commit_that_fails_is_forgotten);
    RUN(a_repeated_batch_counts_once);
    RUN(a_head_of_a_rolled_back_operation_is_forgotten);
    return file_done();
}
