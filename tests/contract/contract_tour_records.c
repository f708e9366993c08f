/* contract_tour_records.c - the tour's steps for records and for asynchronous batches. */
#include <semaphore.h>
#include "contract_tour.h"

static const pal_id with_id = {{7}}, async_id = {{8}};
static const pal_id with_message = {{0xff, 7}}, async_message = {{0xff, 8}};

static pal_record record_of(const char *name, const char *body)
{
    return (pal_record){.kind = S("kind"), .name = S(name), .body = S(body)};
}

static bool find_record(const char *name, pal_record *out_record)
{
    return pal_store_record_find(test.store, no_tenant(), S("kind"), S(name), test.arena,
                   out_record, NULL) == PAL_OK;
}

static bool has_message(pal_id id)
{
    pal_message message;
    pal_id owner;

    return pal_store_message(test.store, no_tenant(), id, test.arena, &message, &owner, NULL) ==
            PAL_OK;
}

pal_status tour_put_record(void)
{
    pal_record record = record_of("plain", "{\"n\":1}");

    return pal_store_record_put(test.store, no_tenant(), &record, 0, NULL);
}

tour_sight tour_seen_record(void)
{
    pal_record record;

    return find_record("plain", &record) ? TOUR_ALL : TOUR_NONE;
}

pal_status tour_change_record(void)
{
    pal_record record = record_of("plain", "{\"n\":2}");

    return pal_store_record_put(test.store, no_tenant(), &record, 1, NULL);
}

tour_sight tour_seen_change(void)
{
    pal_record record;

    if (!find_record("plain", &record) || record.version == 1)
        return TOUR_NONE;
    return record.version == 2 && pal_str_is(record.body, "{\"n\":2}") ? TOUR_ALL : TOUR_HALF;
}

/* Creates the session, a record of it and, only together with these, a message. */
pal_status tour_put_record_with_append(void)
{
    pal_session session = {0};
    pal_record record = record_of("with", "[]");
    pal_part part = {.kind = PAL_PART_TEXT, .text = S("with")};
    pal_message message = {
            .id = with_message, .role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_op ops[] = {{.kind = PAL_OP_CREATE, .session = with_id, .u.create = {.session = &session}},
            {.kind = PAL_OP_RECORD_PUT, .with_previous = true, .u.record = {.record = &record}},
            {.kind = PAL_OP_APPEND,
                    .session = with_id,
                    .with_previous = true,
                    .u.append = {.messages = &message, .messages_len = 1, .expected_seq = 0}}};
    pal_status status;

    record.session = with_id;
    status = pal_store_apply(test.store, ops, 3, NULL);
    for (size_t i = 0; i < 3 && status == PAL_OK; i++)
        status = ops[i].status;
    return status;
}

tour_sight tour_seen_record_with_append(void)
{
    pal_record record;

    if (!has_message(with_message))
        return TOUR_NONE;
    return find_record("with", &record) && pal_id_equal(record.session, with_id) ? TOUR_ALL
                                                                                 : TOUR_HALF;
}

pal_status tour_read_records(void)
{
    pal_record_query query = {.kind = S("kind"), .limit = 1, .descending = true};
    pal_record_page records;
    pal_inbox_owner *owners;
    pal_ledger_sum sum;
    pal_ledger_page calls;
    size_t len;
    pal_status status = pal_store_record_list(test.store, &query, test.arena, &records, NULL);

    if (status != PAL_OK)
        return status;
    query.session = with_id;
    status = pal_store_record_list(test.store, &query, test.arena, &records, NULL);
    if (status != PAL_OK)
        return status;
    status = pal_store_inbox_owners(test.store, NULL, 0, test.arena, &owners, &len, NULL);
    if (status != PAL_OK)
        return status;
    status = pal_store_ledger_sum(
            test.store, &(pal_ledger_query){.turn_id = S("t"), .agent = S("a")}, &sum, NULL);
    if (status != PAL_OK)
        return status;
    status = pal_store_ledger_sum(test.store, &(pal_ledger_query){.agent = S("a")}, &sum, NULL);
    if (status != PAL_OK)
        return status;
    return pal_store_ledger_list(
            test.store, &(pal_ledger_query){0}, (pal_str){0}, 1, test.arena, &calls, NULL);
}

pal_status tour_drop_record(void)
{
    pal_record record = record_of("dropped", "1");
    pal_status status = pal_store_record_put(test.store, no_tenant(), &record, 0, NULL);

    if (status == PAL_OK)
        status = pal_store_record_drop(test.store, no_tenant(), S("kind"), S("dropped"), NULL);
    return status;
}

pal_status tour_sweep_record(void)
{
    pal_record record = record_of("swept", "1");
    pal_status status;

    record.expires_at = 1;
    status = pal_store_record_put(test.store, no_tenant(), &record, 0, NULL);
    return status == PAL_OK ? pal_store_sweep(test.store, -1, 10, NULL, NULL) : status;
}

/* ---- Without waiting ---- */

static void on_done(
        pal_op *ops, size_t ops_len, pal_status status, const pal_error *why, void *user)
{
    (void)ops, (void)ops_len, (void)status, (void)why;
    sem_post(user);
}

pal_status tour_apply_async(void)
{
    pal_session session = {0};
    pal_part part = {.kind = PAL_PART_TEXT, .text = S("async")};
    pal_message message = {
            .id = async_message, .role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_op ops[] = {{.kind = PAL_OP_CREATE, .session = async_id, .u.create = {.session = &session}},
            {.kind = PAL_OP_APPEND,
                    .session = async_id,
                    .u.append = {.messages = &message, .messages_len = 1, .expected_seq = 0}}};
    sem_t done;
    pal_status status;

    sem_init(&done, 0, 0);
    status = pal_store_apply_async(test.store, ops, 2, on_done, &done, NULL);
    if (status == PAL_OK)
        sem_wait(&done);
    sem_destroy(&done);
    if (status == PAL_OK)
        status = ops[0].status;
    return status == PAL_OK ? ops[1].status : status;
}

tour_sight tour_seen_async(void)
{
    return has_message(async_message) ? TOUR_ALL : TOUR_NONE;
}
