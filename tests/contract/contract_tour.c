/* contract_tour.c - a walk through the complete public interface of the store. See contract_tour.h.
 *
 * All ids are given, so that another process can look for the work of this process. Steps do not
 * use the helpers of the suite, which would count an intended failure as a failed check. */
#include "contract_tour.h"

#include <assert.h>

/* Sessions: `main` has everything, `fork` shares its messages, and the others are deleted or
 * erased. */
static const pal_id main_id = {{1}}, fork_id = {{2}}, trash_id = {{3}}, back_id = {{4}},
                    gone_id = {{5}}, batch_id = {{6}};
static const pal_id none_id = {{0}};

static pal_id id_of(uint8_t number)
{
    return (pal_id){{0xff, number}};
}

/* Makes a message with one text part. Both are valid until the next call with this number. */
static pal_message text_message(uint8_t number, const char *text)
{
    static pal_part parts[16];

    parts[number] = (pal_part){.kind = PAL_PART_TEXT, .text = S(text)};
    return (pal_message){
            .id = id_of(number), .role = PAL_ROLE_USER, .parts = &parts[number], .parts_len = 1};
}

static bool find(pal_session_by by, const char *name, pal_session *out_session)
{
    return pal_store_find(test.store, no_tenant(), by, S(name), test.arena, out_session, NULL) ==
            PAL_OK;
}

static bool find_id(pal_id id, pal_session *out_session)
{
    char text[PAL_ID_TEXT_SIZE];

    pal_id_to_text(id, text);
    return find(PAL_SESSION_BY_ID, text, out_session);
}

/* Whether all, none or some of `count` things are there. */
static tour_sight sight(int seen, int count)
{
    return seen == 0 ? TOUR_NONE : seen == count ? TOUR_ALL : TOUR_HALF;
}

static pal_status create(pal_id id, const char *key)
{
    pal_session session = {.id = id, .key = S(key)};

    return pal_store_create(test.store, &session, NULL, NULL);
}

static pal_status append(pal_id id, pal_message message)
{
    return pal_store_append(test.store, no_tenant(), id, &message, 1, PAL_SEQ_ANY, NULL);
}

static tour_sight seen_message(uint8_t number)
{
    pal_message message;
    pal_id owner;

    return pal_store_message(test.store, no_tenant(), id_of(number), test.arena, &message, &owner,
                   NULL) == PAL_OK
            ? TOUR_ALL
            : TOUR_NONE;
}

/* ---- Sessions ---- */

static pal_status create_main(void)
{
    pal_str aliases[] = {S("alias-1"), S("alias-2")};
    pal_session session = {.id = main_id,
            .key = S("key"),
            .aliases = aliases,
            .aliases_len = 2,
            .title = S("title"),
            .project = S("p"),
            .agent = S("a"),
            .scope = S("{\"s\":1}"),
            .metadata = S("{\"m\":[1,2,3]}")};

    return pal_store_create(test.store, &session, NULL, NULL);
}

static tour_sight seen_main(void)
{
    pal_session session;
    int seen = find_id(main_id, &session) + find(PAL_SESSION_BY_ALIAS, "alias-1", &session) +
            find(PAL_SESSION_BY_ALIAS, "alias-2", &session);

    return sight(seen, 3);
}

static pal_status update_main(void)
{
    pal_session change = {.id = main_id, .title = S("new title"), .key = S("new key")};

    return pal_store_update(
            test.store, &change, PAL_SESSION_FIELD_TITLE | PAL_SESSION_FIELD_KEY, NULL);
}

static tour_sight seen_update(void)
{
    pal_session session = {0};
    int seen;

    if (!find_id(main_id, &session))
        return TOUR_NONE;
    seen = pal_str_is(session.title, "new title") + pal_str_is(session.key, "new key");
    seen += find(PAL_SESSION_BY_KEY, "new key", &session) +
            !find(PAL_SESSION_BY_KEY, "key", &session);
    return sight(seen, 4);
}

static pal_status read_sessions(void)
{
    pal_session_query query = {.project = S("p"), .limit = 3};
    pal_session_page page;
    pal_session session;
    pal_status status = pal_store_find(
            test.store, no_tenant(), PAL_SESSION_BY_ANY, S("key"), test.arena, &session, NULL);

    if (status == PAL_OK)
        status = pal_store_list(test.store, &query, test.arena, &page, NULL);
    return status;
}

/* ---- Messages ---- */

static pal_status put_blob(void)
{
    char name[PAL_BLOB_NAME_SIZE];

    return pal_store_blob_put(test.store, no_tenant(), S("x/y"), S("hello"), name, NULL);
}

static pal_status get_blob(void)
{
    static const char name[] =
            "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    pal_str media_type, data;

    return pal_store_blob_get(
            test.store, no_tenant(), S(name), test.arena, &media_type, &data, NULL);
}

static tour_sight seen_blob(void)
{
    return get_blob() == PAL_OK ? TOUR_ALL : TOUR_NONE;
}

static pal_status add_item(const char *client_id, pal_id *out_id)
{
    pal_inbox_item item = {.client_id = S(client_id), .delivery = S("queue"), .body = S("{}")};
    pal_status status = pal_store_inbox_add(test.store, no_tenant(), main_id, &item, NULL);

    *out_id = status == PAL_OK ? item.id : none_id;
    return status;
}

/* Whether an item with this client id or this id waits. */
static bool has_item(const char *client_id, pal_id id)
{
    pal_inbox_item *items;
    size_t len = 0;

    if (pal_store_inbox_list(test.store, no_tenant(), main_id, test.arena, &items, &len, NULL) !=
            PAL_OK)
        return false;
    for (size_t i = 0; i < len; i++)
        if (pal_str_is(items[i].client_id, client_id) || pal_id_equal(items[i].id, id))
            return true;
    return false;
}

static pal_status add_item_that_stays(void)
{
    pal_id id;

    return add_item("stays", &id);
}

static tour_sight seen_item_that_stays(void)
{
    return has_item("stays", none_id) ? TOUR_ALL : TOUR_NONE;
}

static pal_id goes_id; /* none if adding it failed, since its id is unknown then */

static pal_status add_item_that_goes(void)
{
    return add_item("goes", &goes_id);
}

/* Appends three messages, the bytes of a file, two ledger rows, and removes an item from the
 * inbox. */
static pal_status append_main(void)
{
    static pal_part file = {.kind = PAL_PART_FILE, .media_type = {"t/x", 3}, .data = {"file", 4}};
    pal_message messages[] = {text_message(1, "one"), text_message(2, "two"),
            {.id = id_of(3),
                    .role = PAL_ROLE_ASSISTANT,
                    .parts = &file,
                    .parts_len = 1,
                    .client_id = S("c3"),
                    .extra = S("{\"x\":1}")}};
    pal_ledger_row rows[] = {{.request_id = S("r1"), .created_at = 1000},
            {.request_id = S("r2"), .created_at = 1001}};
    pal_op op = {.kind = PAL_OP_APPEND,
            .session = main_id,
            .u.append = {.messages = messages,
                    .messages_len = 3,
                    .expected_seq = 0,
                    .inbox_ids = &goes_id,
                    .inbox_ids_len = 1,
                    .ledger = rows,
                    .ledger_len = 2}};
    pal_status status;

    messages[0].client_id = S("c1");
    messages[1].client_id = S("c2");
    status = pal_store_apply(test.store, &op, 1, NULL);
    return status == PAL_OK ? op.status : status;
}

static bool has_file_blob(void)
{
    static const char name[] =
            "sha256:3b9c358f36f0a31b6ad3e14f309c7cf198ac9246e8316f9ce543d5b19ac02b80";
    pal_str media_type, data;

    return pal_store_blob_get(test.store, no_tenant(), S(name), test.arena, &media_type, &data,
                   NULL) == PAL_OK;
}

static tour_sight seen_append(void)
{
    pal_ledger_sum sum = {0};
    pal_session session = {0};
    pal_message_page loaded = {0};
    pal_message_query all = {.hidden = true};
    int seen = 0;

    if (!find_id(main_id, &session) ||
            pal_store_load(test.store, no_tenant(), main_id, &all, test.arena, &loaded, NULL) !=
                    PAL_OK)
        return TOUR_NONE;
    if (pal_store_ledger_sum(test.store,
                &(pal_ledger_query){.session = main_id, .from = 1000, .to = 1002}, &sum,
                NULL) != PAL_OK)
        return TOUR_HALF;
    for (uint8_t number = 1; number <= 3; number++)
        seen += seen_message(number) == TOUR_ALL;
    seen += session.last_seq == 3 ? 1 : 0;
    seen += loaded.len == 3 && session.bytes > 0 && session.tokens > 0;
    seen += (int)sum.calls + has_file_blob();
    if (seen == 8 && has_item(NULL, goes_id))
        return TOUR_HALF;
    return sight(seen, 8);
}

static tour_sight seen_item_that_goes(void)
{
    return has_item("goes", none_id) || seen_append() == TOUR_ALL ? TOUR_ALL : TOUR_NONE;
}

static pal_status read_messages(void)
{
    pal_message_query load = {.limit = 2, .tokens_max = 1000, .from_end = true};
    pal_message_page loaded;
    pal_message message;
    pal_id owner;
    pal_status status =
            pal_store_load(test.store, no_tenant(), main_id, &load, test.arena, &loaded, NULL);

    if (status == PAL_OK)
        status = pal_store_message(
                test.store, no_tenant(), id_of(1), test.arena, &message, &owner, NULL);
    return status;
}

static pal_status write_and_read_json(void)
{
    pal_message message = text_message(9, "to json"), back;
    pal_session session = {.id = main_id, .metadata = S("{\"a\":1}")}, session_back;
    pal_str json;
    pal_status status = pal_message_to_json(&message, test.arena, &json, NULL);

    if (status == PAL_OK)
        status = pal_message_from_json(json, test.arena, &back, NULL);
    if (status == PAL_OK)
        status = pal_session_to_json(&session, test.arena, &json, NULL);
    if (status == PAL_OK)
        status = pal_session_from_json(json, test.arena, &session_back, NULL);
    return status;
}

/* ---- Forks and marks ---- */

static pal_status fork_main(void)
{
    pal_session session = {.id = fork_id, .key = S("fork key")};

    return pal_store_fork(test.store, &session, main_id, 2, NULL, NULL);
}

static tour_sight seen_fork(void)
{
    pal_session session;

    return sight(find_id(fork_id, &session) + find(PAL_SESSION_BY_KEY, "fork key", &session), 2);
}

static pal_status append_fork(void)
{
    return append(fork_id, text_message(4, "of the fork"));
}

static tour_sight seen_append_fork(void)
{
    return seen_message(4);
}

static pal_status rewind_main(void)
{
    pal_mark mark = {.kind = PAL_MARK_REWIND, .seq = 1, .body = S("{\"why\":\"a test\"}")};

    return pal_store_mark(test.store, no_tenant(), main_id, &mark, NULL);
}

static tour_sight seen_mark(pal_mark_kind kind)
{
    pal_mark *marks;
    size_t len = 0;

    if (pal_store_marks(test.store, no_tenant(), main_id, test.arena, &marks, &len, NULL) != PAL_OK)
        return TOUR_NONE;
    for (size_t i = 0; i < len; i++)
        if (marks[i].kind == kind)
            return TOUR_ALL;
    return TOUR_NONE;
}

static tour_sight seen_rewind(void)
{
    return seen_mark(PAL_MARK_REWIND);
}

static pal_status undo_main(void)
{
    pal_mark mark = {.kind = PAL_MARK_UNDO};

    return pal_store_mark(test.store, no_tenant(), main_id, &mark, NULL);
}

static tour_sight seen_undo(void)
{
    return seen_mark(PAL_MARK_UNDO);
}

static pal_status reset_fork(void)
{
    return pal_store_reset(test.store, no_tenant(), fork_id, true, NULL, NULL);
}

static pal_status read_marks(void)
{
    pal_mark *marks;
    size_t len;

    return pal_store_marks(test.store, no_tenant(), fork_id, test.arena, &marks, &len, NULL);
}

static pal_status read_active_marks(void)
{
    pal_active_marks active;

    return pal_store_active_marks(test.store, no_tenant(), fork_id, test.arena, &active, NULL);
}

static pal_status search_all(void)
{
    pal_search_query search = {.text = S("a* \"b c\"")};
    pal_search_page hits;
    pal_status status = pal_store_search(test.store, &search, test.arena, &hits, NULL);

    search.session = fork_id;
    if (status == PAL_OK)
        status = pal_store_search(test.store, &search, test.arena, &hits, NULL);
    search.rank = search.neighbors = 1;
    if (status == PAL_OK)
        status = pal_store_search(test.store, &search, test.arena, &hits, NULL);
    search.session = (pal_id){{0}};
    search.text = S("a question about b c");
    if (status == PAL_OK)
        status = pal_store_search(test.store, &search, test.arena, &hits, NULL);
    return status;
}

/* ---- Turns ---- */

static pal_status take_lease(void)
{
    uint64_t fence;

    return pal_store_lease_take(test.store, no_tenant(), main_id, S("me"), DAY, &fence, NULL);
}

static pal_status find_lease(void)
{
    pal_lease lease;

    return pal_store_lease_find(test.store, no_tenant(), main_id, test.arena, &lease, NULL);
}

static tour_sight seen_lease(void)
{
    return find_lease() == PAL_OK ? TOUR_ALL : TOUR_NONE;
}

static pal_status pass_lease(void)
{
    uint64_t fence;
    pal_status status =
            pal_store_lease_take(test.store, no_tenant(), fork_id, S("me"), DAY, &fence, NULL);

    if (status == PAL_OK)
        status = pal_store_lease_release(test.store, no_tenant(), fork_id, fence, NULL);
    return status;
}

static pal_status add_ledger(void)
{
    pal_ledger_row row = {.request_id = S("r3"),
            .turn_id = S("t"),
            .agent = S("a"),
            .model = S("m"),
            .created_at = 2000};

    return pal_store_ledger_add(test.store, no_tenant(), none_id, &row, NULL);
}

static tour_sight seen_ledger(void)
{
    pal_ledger_sum sum = {0};

    if (pal_store_ledger_sum(
                test.store, &(pal_ledger_query){.from = 2000, .to = 2001}, &sum, NULL) != PAL_OK)
        return TOUR_HALF;
    return sum.calls == 1 ? TOUR_ALL : TOUR_NONE;
}

static pal_status drop_item(void)
{
    pal_id id;
    pal_status status = add_item("dropped", &id);

    if (status == PAL_OK)
        status = pal_store_inbox_drop(test.store, no_tenant(), main_id, id, NULL);
    return status;
}

/* ---- Trash, erasure, batches, upkeep ---- */

static pal_status trash_one(void)
{
    pal_status status = create(trash_id, "trash key");

    return status == PAL_OK ? pal_store_delete(test.store, no_tenant(), trash_id, NULL) : status;
}

static tour_sight seen_trash(void)
{
    pal_session session = {0};

    return find_id(trash_id, &session) && session.state == PAL_SESSION_TRASH &&
                    !find(PAL_SESSION_BY_KEY, "trash key", &session)
            ? TOUR_ALL
            : TOUR_NONE;
}

static pal_status bring_one_back(void)
{
    pal_status status = create(back_id, "back key");

    if (status == PAL_OK)
        status = pal_store_delete(test.store, no_tenant(), back_id, NULL);
    return status == PAL_OK ? pal_store_restore(test.store, no_tenant(), back_id, NULL) : status;
}

static tour_sight seen_back(void)
{
    pal_session session = {0};

    return find(PAL_SESSION_BY_KEY, "back key", &session) && session.state == PAL_SESSION_ACTIVE
            ? TOUR_ALL
            : TOUR_NONE;
}

static pal_status erase_one(void)
{
    pal_erase_result erasure;
    pal_status status = create(gone_id, "gone key");

    if (status == PAL_OK)
        status = append(gone_id, text_message(5, "gone"));
    if (status == PAL_OK)
        status = pal_store_erase(test.store, no_tenant(), gone_id, &erasure, NULL);
    return status;
}

static tour_sight seen_erasure(void)
{
    pal_session session;

    return find_id(gone_id, &session) || seen_message(5) ? TOUR_NONE : TOUR_ALL;
}

static pal_status apply_batch(void)
{
    pal_session session = {.key = S("batch key")};
    pal_message message = text_message(6, "batch");
    pal_op ops[] = {
            {.kind = PAL_OP_CREATE, .session = batch_id, .u.create = {.session = &session}},
            {.kind = PAL_OP_APPEND,
                    .session = batch_id,
                    .u.append = {.messages = &message, .messages_len = 1, .expected_seq = 0}},
    };
    pal_status status = pal_store_apply(test.store, ops, 2, NULL);

    if (status == PAL_OK)
        status = ops[0].status;
    return status == PAL_OK ? ops[1].status : status;
}

static tour_sight seen_batch(void)
{
    return seen_message(6);
}

static pal_status sweep(void)
{
    pal_sweep_result result;

    return pal_store_sweep(test.store, DAY, 10, &result, NULL);
}

static pal_status look_after(void)
{
    pal_store_stats stats;
    uint64_t findings = 0;
    pal_status status = pal_store_stat(test.store, test.arena, &stats, NULL);

    if (status == PAL_OK)
        status = pal_store_check(test.store, false, NULL, NULL, NULL, &findings, NULL);
    return status == PAL_OK && findings > 0 ? PAL_CORRUPT : status;
}

const tour_step tour[] = {
        {"create", create_main, seen_main, false},
        {"read sessions", read_sessions, NULL, false},
        {"put a blob", put_blob, seen_blob, false},
        {"get a blob", get_blob, NULL, false},
        {"add to the inbox", add_item_that_stays, seen_item_that_stays, false},
        {"add to the inbox again", add_item_that_goes, seen_item_that_goes, true},
        {"append", append_main, seen_append, false},
        {"read messages", read_messages, NULL, false},
        {"json", write_and_read_json, NULL, false},
        {"update", update_main, seen_update, false},
        {"fork", fork_main, seen_fork, false},
        {"append to the fork", append_fork, seen_append_fork, false},
        {"rewind", rewind_main, seen_rewind, false},
        {"undo", undo_main, seen_undo, false},
        {"reset", reset_fork, NULL, false},
        {"read marks", read_marks, NULL, false},
        {"read the active marks", read_active_marks, NULL, false},
        {"search", search_all, NULL, false},
        {"take the lease", take_lease, seen_lease, false},
        {"find the lease", find_lease, NULL, false},
        {"pass the lease", pass_lease, NULL, false},
        {"ledger", add_ledger, seen_ledger, false},
        {"drop from the inbox", drop_item, NULL, false},
        {"trash", trash_one, seen_trash, false},
        {"restore", bring_one_back, seen_back, true},
        {"erase", erase_one, seen_erasure, true},
        {"batch", apply_batch, seen_batch, false},
        {"put a record", tour_put_record, tour_seen_record, false},
        {"change the record", tour_change_record, tour_seen_change, false},
        {"a record with an append", tour_put_record_with_append, tour_seen_record_with_append,
                false},
        {"read records", tour_read_records, NULL, false},
        {"drop a record", tour_drop_record, NULL, false},
        {"apply without waiting", tour_apply_async, tour_seen_async, false},
        {"sweep", sweep, NULL, false},
        {"sweep a record", tour_sweep_record, NULL, false},
        {"look after", look_after, NULL, false},
};
const size_t tour_len = sizeof tour / sizeof tour[0];
static_assert(sizeof tour / sizeof tour[0] <= TOUR_STEPS_MAX, "room for all statuses");

pal_status tour_call(size_t step)
{
    pal_status status = PAL_NO_MEMORY;

    test.arena = pal_arena_new(0);
    if (test.arena)
        status = tour[step].call();
    pal_arena_free(test.arena);
    test.arena = NULL;
    return status;
}

void tour_run(pal_status *out_statuses)
{
    goes_id = none_id;
    for (size_t i = 0; i < tour_len; i++)
        out_statuses[i] = tour_call(i);
}

tour_sight tour_seen(size_t step)
{
    tour_sight seen;

    test.arena = pal_arena_new(0);
    seen = tour[step].seen();
    pal_arena_free(test.arena);
    test.arena = NULL;
    return seen;
}
