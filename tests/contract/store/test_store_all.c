/* test_store_all.c - batches that are applied all or none. */
#include "contract/contract.h"

#include <semaphore.h>
#include <string.h>

#include "base/memory.h"

/* ---- The state of the store as one text ---- */

static void put(pal_str text, char **at, size_t *room)
{
    int len = snprintf(*at, *room, "%.*s|", PAL_STR_ARG(text));

    if (len < 0 || (size_t)len >= *room)
        len = 0;
    *at += len;
    *room -= (size_t)len;
}

static void put_number(uint64_t number, char **at, size_t *room)
{
    char text[32];

    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    put(S(text), at, room);
}

static void put_session(const pal_session *session, char **at, size_t *room)
{
    char id[PAL_ID_TEXT_SIZE];
    pal_inbox_item *items;
    pal_mark *marks;
    size_t len;

    pal_id_to_text(session->id, id);
    put(S(id), at, room);
    put(session->key, at, room);
    put_number(session->last_seq, at, room);
    put_number(session->tokens, at, room);
    put_number(session->bytes, at, room);
    put_number((uint64_t)session->updated_at, at, room);
    put(S(shown(session->id, NULL)), at, room);
    OK(pal_store_marks(test.store, no_tenant(), session->id, test.arena, &marks, &len, &test.err));
    for (size_t i = 0; i < len; i++) {
        put_number(marks[i].number, at, room);
        put_number(marks[i].kind, at, room);
        put_number(marks[i].undone, at, room);
    }
    OK(pal_store_inbox_list(
            test.store, no_tenant(), session->id, test.arena, &items, &len, &test.err));
    for (size_t i = 0; i < len; i++)
        put(items[i].body, at, room);
}

/* Everything that a batch can change; in the arena. */
static const char *state(void)
{
    size_t room = 1u << 20;
    char *text = pal_arena_alloc(test.arena, room), *at = text;
    pal_session_query query = {.limit = 100};
    pal_record_query records = {.kind = S("k"), .limit = 100};
    pal_session_page page;
    pal_record_page found;
    pal_store_stats stats;

    OK(pal_store_list(test.store, &query, test.arena, &page, &test.err));
    for (size_t i = 0; i < page.sessions_len; i++)
        put_session(&page.sessions[i], &at, &room);
    OK(pal_store_record_list(test.store, &records, test.arena, &found, &test.err));
    for (size_t i = 0; i < found.len; i++) {
        put(found.items[i].name, &at, &room);
        put(found.items[i].body, &at, &room);
        put_number(found.items[i].version, &at, &room);
    }
    OK(pal_store_stat(test.store, test.arena, &stats, &test.err));
    if (!stats.is_estimated) {
        put_number(stats.sessions_active, &at, &room);
        put_number(stats.messages, &at, &room);
        put_number(stats.content_bytes, &at, &room);
    }
    return text;
}

/* ---- A batch with one operation of each kind ---- */

enum { KINDS = 10 };

typedef struct batch {
    pal_id old, made, fork;
    pal_session create, forked;
    pal_message message, first, again;
    pal_mark mark;
    pal_inbox_item item, added;
    pal_record cursor, fresh, gone;
    pal_id waiting;
    pal_op ops[KINDS];
} batch;

/* The store has a session with a message, an item and two records. */
static void prepare(batch *self)
{
    *self = (batch){.old = new_session_with_key("old")};
    say(self->old, "old");
    self->item = (pal_inbox_item){.delivery = S("queue"), .body = S("\"waits\"")};
    OK(pal_store_inbox_add(test.store, no_tenant(), self->old, &self->item, &test.err));
    self->waiting = self->item.id;
    self->cursor = (pal_record){.kind = S("k"), .name = S("cursor"), .body = S("1")};
    self->gone = (pal_record){.kind = S("k"), .name = S("gone"), .body = S("1")};
    OK(pal_store_record_put(test.store, no_tenant(), &self->cursor, 0, &test.err));
    OK(pal_store_record_put(test.store, no_tenant(), &self->gone, 0, &test.err));
}

static void make(batch *self)
{
    self->made = pal_id_new();
    self->create = (pal_session){.id = self->made, .key = S("made")};
    self->forked = (pal_session){.id = pal_id_new(), .key = S("forked")};
    self->message = text_of(PAL_ROLE_USER, "more");
    self->message.client_id = S("c1");
    self->first = text_of(PAL_ROLE_USER, "first");
    self->mark = (pal_mark){.kind = PAL_MARK_HIDE, .seq = 1};
    self->added = (pal_inbox_item){.delivery = S("queue"), .body = S("\"added\"")};
    self->cursor = (pal_record){.kind = S("k"), .name = S("cursor"), .body = S("2")};
    self->fresh = (pal_record){
            .kind = S("k"), .name = S("fresh"), .session = self->made, .body = S("1")};
    self->ops[0] = pal_op_create(&self->create);
    self->ops[1] = pal_op_append(no_tenant(), self->made, &self->first, 1, 0);
    self->ops[2] = pal_op_fork(&self->forked, self->old, 1);
    self->ops[3] = pal_op_append(no_tenant(), self->old, &self->message, 1, 1);
    self->ops[4] = pal_op_mark(no_tenant(), self->old, &self->mark);
    self->ops[5] = pal_op_inbox_drop(no_tenant(), self->old, self->waiting);
    self->ops[6] = pal_op_inbox_add(no_tenant(), self->old, &self->added);
    self->ops[7] = pal_op_record_put(no_tenant(), &self->fresh, 0);
    self->ops[8] = pal_op_record_drop(no_tenant(), &self->gone);
    self->ops[9] = pal_op_record_put(no_tenant(), &self->cursor, 1);
}

static void all_operations_are_applied_in_one_commit(void)
{
    batch b;
    pal_store_stats before, after;
    size_t failed = 99;

    prepare(&b);
    make(&b);
    OK(pal_store_stat(test.store, test.arena, &before, &test.err));
    OK(pal_store_apply_all(test.store, b.ops, KINDS, &failed, &test.err));
    OK(pal_store_stat(test.store, test.arena, &after, &test.err));
    CHECK_EQ(after.commits - before.commits, 1);
    CHECK_EQ(failed, 99);
    for (size_t i = 0; i < KINDS; i++)
        CHECK_STATUS(b.ops[i].status, PAL_OK);
    CHECK_EQ(b.first.seq, 1);
    CHECK_EQ(b.message.seq, 2);
    CHECK_EQ(b.mark.number, 1);
    CHECK_EQ(b.cursor.version, 2);
    contract_reopen_store();
    if (!contract_is_durable())
        return;
    CHECK(shows(b.made, "first"));
    CHECK(shows(b.old, "more"));
    CHECK(shows(b.forked.id, "old"));
}

/* The last operation fails, or one before it, after each of the others was applied. */
static void no_operation_is_applied_if_one_fails(void)
{
    const char *before, *after;
    batch b;

    prepare(&b);
    before = state();
    for (size_t bad = 1; bad <= KINDS; bad++) {
        pal_record wrong = {.kind = S("k"), .name = S("cursor"), .body = S("3")};
        pal_op ops[KINDS + 1];
        size_t failed = 99;

        make(&b);
        memcpy(ops, b.ops, sizeof b.ops);
        memmove(ops + bad + 1, ops + bad, (KINDS - bad) * sizeof *ops);
        ops[bad] = pal_op_record_put(no_tenant(), &wrong, 7);
        GIVES(PAL_CONFLICT,
                pal_store_apply_all(test.store, ops, KINDS + 1, &failed, &test.err));
        CHECK_EQ(failed, bad);
        for (size_t i = 0; i <= KINDS; i++)
            CHECK_STATUS(ops[i].status, i == bad ? PAL_CONFLICT : PAL_CANCELED);
        after = state();
        CHECK_STR(S(after), before);
    }
    contract_reopen_store();
    if (contract_is_durable()) {
        after = state();
        CHECK_STR(S(after), before);
        make(&b);
        OK(pal_store_apply_all(test.store, b.ops, KINDS, NULL, &test.err));
        CHECK(shows(b.old, "more"));
    }
}

static void the_same_batch_can_be_sent_again(void)
{
    pal_record wrong = {.kind = S("k"), .name = S("cursor"), .body = S("3")};
    batch b;
    pal_op ops[KINDS + 1];

    prepare(&b);
    make(&b);
    memcpy(ops, b.ops, sizeof b.ops);
    ops[KINDS] = pal_op_record_put(no_tenant(), &wrong, 7);
    GIVES(PAL_CONFLICT, pal_store_apply_all(test.store, ops, KINDS + 1, NULL, &test.err));
    OK(pal_store_apply_all(test.store, ops, KINDS, NULL, &test.err));
    CHECK(shows(b.made, "first"));
    CHECK(shows(b.old, "more"));
    /* Repeats of messages and items succeed, as in any batch. */
    b.cursor = (pal_record){.kind = S("k"), .name = S("cursor"), .body = S("3")};
    b.message = text_of(PAL_ROLE_USER, "more");
    b.message.client_id = S("c1");
    ops[0] = pal_op_append(no_tenant(), b.old, &b.message, 1, PAL_SEQ_ANY);
    ops[1] = pal_op_record_put(no_tenant(), &b.cursor, 2);
    OK(pal_store_apply_all(test.store, ops, 2, NULL, &test.err));
    CHECK(ops[0].u.append.replayed);
    CHECK_EQ(get_session(b.old).last_seq, 2);
}

static void some_operations_cannot_be_part_of_it(void)
{
    pal_id id = new_session();
    pal_message message = text_of(PAL_ROLE_USER, "x");
    pal_ledger_row row = {.request_id = S("r")};
    pal_op ops[2] = {pal_op_append(no_tenant(), id, &message, 1, PAL_SEQ_ANY)};
    const pal_op others[] = {pal_op_erase(no_tenant(), id, NULL), pal_op_sweep(0, 10),
            pal_op_delete(no_tenant(), id), pal_op_lease_take(no_tenant(), id, S("a"), 1000),
            pal_op_ledger_add(no_tenant(), id, &row), {.kind = PAL_OP_NONE}};
    size_t failed;

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ops[1] = others[i];
        GIVES(PAL_INVALID, pal_store_apply_all(test.store, ops, 2, &failed, &test.err));
        CHECK_EQ(failed, 1);
        CHECK_STATUS(ops[0].status, PAL_CANCELED);
    }
    ops[0].u.append.ledger = &row;
    ops[0].u.append.ledger_len = 1;
    GIVES(PAL_INVALID, pal_store_apply_all(test.store, ops, 1, NULL, &test.err));
    message = text_of(PAL_ROLE_NONE, "x");
    ops[0] = pal_op_append(no_tenant(), id, &message, 1, PAL_SEQ_ANY);
    GIVES(PAL_INVALID, pal_store_apply_all(test.store, ops, 1, &failed, &test.err));
    CHECK_EQ(failed, 0);
    CHECK(shows(id, ""));
    OK(pal_store_apply_all(test.store, ops, 0, NULL, &test.err));
    GIVES(PAL_LIMIT,
            pal_store_apply_all(test.store, ops, PAL_BATCH_OPS_MAX + 1, NULL, &test.err));
}

/* ---- Together with batches of other callers ---- */

typedef struct result {
    pal_status status;
    sem_t *done;
} result;

static void keep(pal_op *ops, size_t ops_len, pal_status status, const pal_error *why, void *user)
{
    result *self = user;

    (void)ops, (void)ops_len;
    self->status = status;
    CHECK_EQ(status == PAL_OK, why == NULL);
    sem_post(self->done);
}

typedef struct gate {
    sem_t reached, open;
} gate;

static void hold_writer(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *why, void *user)
{
    gate *self = user;

    (void)ops, (void)ops_len, (void)status, (void)why;
    sem_post(&self->reached);
    sem_wait(&self->open);
}

/* Batches that fail, batches that succeed and ordinary ones, in one commit. In every third of the
 * failing batches SQLite itself fails: the id of a message exists. */
static void they_share_commits_with_others(void)
{
    enum { LEN = 60 };
    pal_id id = new_session(), other = new_session(), taken;
    pal_message *messages = pal_arena_array(test.arena, LEN, sizeof *messages);
    pal_op(*ops)[2] = pal_arena_array(test.arena, LEN + 1, sizeof *ops);
    pal_record *records = pal_arena_array(test.arena, LEN, sizeof *records);
    result *results = pal_arena_array(test.arena, LEN, sizeof *results);
    pal_message first = text_of(PAL_ROLE_USER, "first"), any = text_of(PAL_ROLE_USER, "any");
    pal_store_stats before, after;
    gate held;
    sem_t done;

    if (!contract_is_durable())
        return; /* callers commit by themselves */
    OK(pal_store_append(test.store, no_tenant(), other, &first, 1, 0, &test.err));
    taken = first.id;
    sem_init(&done, 0, 0);
    sem_init(&held.reached, 0, 0);
    sem_init(&held.open, 0, 0);
    ops[LEN][0] = pal_op_append(no_tenant(), other, &any, 1, PAL_SEQ_ANY);
    OK(pal_store_apply_async(test.store, ops[LEN], 1, hold_writer, &held, &test.err));
    sem_wait(&held.reached);
    OK(pal_store_stat(test.store, test.arena, &before, &test.err));
    for (size_t i = 0; i < LEN; i++) {
        bool fails = i % 3 == 1;
        char *name = pal_arena_alloc(test.arena, 16);

        snprintf(name, 16, "%zu", i);
        messages[i] = text_of(PAL_ROLE_USER, name);
        records[i] = (pal_record){.kind = S("k"), .name = S(name), .body = S("1")};
        results[i] = (result){.done = &done};
        ops[i][0] = pal_op_record_put(no_tenant(), &records[i], 0);
        ops[i][1] = pal_op_append(no_tenant(), id, &messages[i], 1, fails ? 999 : PAL_SEQ_ANY);
        if (i % 9 == 1) {
            messages[i].id = taken;
            ops[i][1].u.append.expected_seq = PAL_SEQ_ANY;
        }
        if (i % 3 == 2)
            OK(pal_store_apply_async(test.store, ops[i], 2, keep, &results[i], &test.err));
        else
            OK(pal_store_apply_all_async(test.store, ops[i], 2, keep, &results[i], &test.err));
    }
    sem_post(&held.open);
    for (size_t i = 0; i < LEN; i++)
        sem_wait(&done);
    OK(pal_store_stat(test.store, test.arena, &after, &test.err));
    CHECK_EQ(after.commits - before.commits, 1);
    CHECK_EQ(get_session(id).last_seq, LEN - LEN / 3);
    for (size_t i = 0; i < LEN; i++) {
        pal_status wanted = i % 3 == 1 ? PAL_CONFLICT : PAL_OK;
        pal_record found;

        CHECK_STATUS(results[i].status, wanted);
        CHECK_STATUS(ops[i][0].status, wanted == PAL_OK ? PAL_OK : PAL_CANCELED);
        CHECK_STATUS(ops[i][1].status, wanted);
        CHECK_STATUS(pal_store_record_find(test.store, no_tenant(), S("k"), records[i].name,
                             test.arena, &found, &test.err),
                wanted == PAL_OK ? PAL_OK : PAL_NOT_FOUND, &test.err);
    }
    sem_destroy(&held.open);
    sem_destroy(&held.reached);
    sem_destroy(&done);
}

/* ---- Failing at any allocation ---- */

static void a_batch_without_memory_changes_nothing(void)
{
    const char *before, *after;
    pal_status status = PAL_NO_MEMORY;
    batch b;

    prepare(&b);
    before = state();
    for (uint64_t at = 1; status != PAL_OK && at < 4000; at += 1 + at / 40) {
        make(&b);
        pal_memory_fail_at(at, 0);
        status = pal_store_apply_all(test.store, b.ops, KINDS, NULL, &test.err);
        pal_memory_fail_at(0, 0);
        if (status == PAL_OK)
            break;
        if (!CHECK_STATUS(status, PAL_NO_MEMORY, &test.err))
            return;
        if (at % 7 == 0) {
            after = state();
            if (!CHECK_STR(S(after), before))
                return;
        }
    }
    CHECK_STATUS(status, PAL_OK);
    CHECK(shows(b.made, "first"));
}

static size_t heard;

static void hear(const pal_store_change *change, void *user)
{
    (void)change, (void)user;
    heard++;
}

static void watchers_hear_of_applied_batches_only(void)
{
    batch b;
    pal_op ops[KINDS + 1];
    pal_record wrong = {.kind = S("k"), .name = S("cursor"), .body = S("3")};

    prepare(&b);
    OK(pal_store_watch(test.store, hear, &heard, &test.err));
    heard = 0;
    make(&b);
    memcpy(ops, b.ops, sizeof b.ops);
    ops[KINDS] = pal_op_record_put(no_tenant(), &wrong, 7);
    GIVES(PAL_CONFLICT, pal_store_apply_all(test.store, ops, KINDS + 1, NULL, &test.err));
    CHECK_EQ(heard, 0);
    OK(pal_store_apply_all(test.store, ops, KINDS, NULL, &test.err));
    CHECK_THAT(heard, >, 0);
    pal_store_unwatch(test.store, &heard);
}

void contract_all(void)
{
    RUN(all_operations_are_applied_in_one_commit);
    RUN(no_operation_is_applied_if_one_fails);
    RUN(the_same_batch_can_be_sent_again);
    RUN(some_operations_cannot_be_part_of_it);
    RUN(they_share_commits_with_others);
    RUN(a_batch_without_memory_changes_nothing);
    RUN(watchers_hear_of_applied_batches_only);
}
