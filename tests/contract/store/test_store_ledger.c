/* test_store_ledger.c - the costs of model calls, and the sums that budgets need. */
#include "contract/contract.h"

#define HOUR INT64_C(3600000)
#define FIRST_HOUR (NOW / HOUR)

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

    OK(pal_store_ledger_sum(test.store,
            &(pal_ledger_query){.session = session, .from = from, .to = to}, &sum, &test.err));
    return sum;
}

static void the_ledger_adds_up(void)
{
    pal_id a = new_session(), b = new_session(), none = {{0}};
    pal_ledger_row rows[] = {ledger_row("r1", 100, NOW), ledger_row("r2", 200, NOW + 10),
            ledger_row("r3", 400, NOW + 20), ledger_row("r4", 800, 0)};
    pal_ledger_sum sum;

    OK(pal_store_ledger_add(test.store, no_tenant(), a, &rows[0], &test.err));
    OK(pal_store_ledger_add(test.store, no_tenant(), a, &rows[1], &test.err));
    OK(pal_store_ledger_add(test.store, no_tenant(), b, &rows[2], &test.err));
    pal_clock_set_ms(NOW + 30);
    OK(pal_store_ledger_add(test.store, no_tenant(), none, &rows[3], &test.err));
    sum = sum_of(none, 0, 0);
    CHECK_EQ(sum.calls, 4);
    CHECK_EQ(sum.usage.input, 1500);
    CHECK_EQ(sum.usage.cache_read, 8);
    CHECK_EQ(sum.usage.cache_write, 12);
    CHECK_EQ(sum.usage.output, 16);
    CHECK_EQ(sum.usage.reasoning, 4);
    CHECK_EQ(sum.cost_micros, 40);
    CHECK_EQ(sum_of(a, 0, 0).usage.input, 300);
    CHECK_EQ(sum_of(b, 0, 0).usage.input, 400);
    CHECK_EQ(sum_of(none, NOW + 10, NOW + 20).usage.input, 200);
    CHECK_EQ(sum_of(none, NOW + 10, 0).usage.input, 1400);
    CHECK_EQ(sum_of(a, NOW + 11, 0).calls, 0);
    CHECK_EQ(sum_of(none, NOW + 30, NOW + 31).usage.input, 800);
}

static void the_same_request_is_the_same_call(void)
{
    pal_id a = new_session(), b = new_session(), none = {{0}};
    pal_ledger_row row = ledger_row("r1", 100, NOW), nameless = ledger_row("", 1, NOW);

    OK(pal_store_ledger_add(test.store, no_tenant(), a, &row, &test.err));
    row.usage.input = 999;
    OK(pal_store_ledger_add(test.store, no_tenant(), a, &row, &test.err));
    OK(pal_store_ledger_add(test.store, no_tenant(), b, &row, &test.err));
    OK(pal_store_ledger_add(test.store, no_tenant(), none, &row, &test.err));
    CHECK_EQ(sum_of(none, 0, 0).calls, 1);
    CHECK_EQ(sum_of(none, 0, 0).usage.input, 100);
    GIVES(PAL_INVALID, pal_store_ledger_add(test.store, no_tenant(), a, &nameless, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_ledger_add(test.store, no_tenant(), pal_id_new(), &row, &test.err));
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
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_CONFLICT);
    CHECK_EQ(sum_of(op.session, 0, 0).calls, 0);
    op.u.append.expected_seq = 0;
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_OK);
    CHECK_EQ(sum_of(op.session, 0, 0).usage.input, 3);
    rows[0].request_id = S("r3"); /* a replay: only the new row is added */
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_OK);
    CHECK(op.u.append.replayed);
    CHECK_EQ(sum_of(op.session, 0, 0).calls, 3);
    CHECK_EQ(get_session(op.session).last_seq, 1);
}

/* ---- By turn, agent and time ---- */

static void add_call(pal_str tenant, pal_id session, const char *turn, const char *agent,
        uint64_t input, int64_t created_at)
{
    static int number;
    pal_ledger_row row = ledger_row("", input, created_at);
    char request_id[24];

    snprintf(request_id, sizeof request_id, "call-%d", ++number);
    row.request_id = S(request_id);
    row.turn_id = S(turn);
    row.agent = S(agent);
    OK(pal_store_ledger_add(test.store, tenant, session, &row, &test.err));
}

static uint64_t input_of(pal_ledger_query query)
{
    pal_ledger_sum sum = {0};

    OK(pal_store_ledger_sum(test.store, &query, &sum, &test.err));
    CHECK_EQ(sum.usage.output, sum.calls * 4);
    CHECK_EQ(sum.cost_micros, (int64_t)sum.calls * 10);
    return sum.usage.input;
}

static void sums_are_by_turn_and_by_agent(void)
{
    pal_id a = new_session(), b = new_session(), none = {{0}};

    add_call(no_tenant(), a, "t1", "main", 1, NOW);
    add_call(no_tenant(), a, "t1", "main", 2, NOW + 1);
    add_call(no_tenant(), a, "t2", "main", 4, NOW + 2);
    add_call(no_tenant(), b, "t3", "other", 8, NOW + 3);
    add_call(no_tenant(), none, "", "other", 16, NOW + 4);
    add_call(no_tenant(), b, "t3", "", 32, NOW + 5);
    add_call(S("stranger"), none, "t1", "main", 64, NOW);
    CHECK_EQ(input_of((pal_ledger_query){.turn_id = S("t1")}), 3);
    CHECK_EQ(input_of((pal_ledger_query){.turn_id = S("t3")}), 40);
    CHECK_EQ(input_of((pal_ledger_query){.turn_id = S("t3"), .agent = S("other")}), 8);
    CHECK_EQ(input_of((pal_ledger_query){.turn_id = S("t1"), .session = a}), 3);
    CHECK_EQ(input_of((pal_ledger_query){.turn_id = S("t1"), .session = b}), 0);
    CHECK_EQ(input_of((pal_ledger_query){.turn_id = S("t1"), .from = NOW + 1}), 2);
    CHECK_EQ(input_of((pal_ledger_query){.turn_id = S("t4")}), 0);
    CHECK_EQ(input_of((pal_ledger_query){.agent = S("main")}), 7);
    CHECK_EQ(input_of((pal_ledger_query){.agent = S("other")}), 24);
    CHECK_EQ(input_of((pal_ledger_query){.agent = S("other"), .session = b}), 8);
    CHECK_EQ(input_of((pal_ledger_query){.agent = S("nobody")}), 0);
    CHECK_EQ(input_of((pal_ledger_query){.session = b}), 40);
    CHECK_EQ(input_of((pal_ledger_query){0}), 63);
    CHECK_EQ(input_of((pal_ledger_query){.tenant = S("stranger")}), 64);
    CHECK_EQ(input_of((pal_ledger_query){.tenant = S("stranger"), .turn_id = S("t1")}), 64);
    CHECK_EQ(input_of((pal_ledger_query){.tenant = S("nobody")}), 0);
}

/* Calls at the start of hours and next to it: every interval between two of them is compared with a
 * plain sum. */
static void any_time_adds_up(void)
{
    static const int64_t offsets[] = {-HOUR, -HOUR + 1, -1, 0, 1, HOUR - 1, HOUR, HOUR + 1,
            2 * HOUR - 1, 2 * HOUR, 3 * HOUR, 5 * HOUR + 7};
    enum { CALLS = sizeof offsets / sizeof offsets[0] };
    int64_t start = FIRST_HOUR * HOUR;
    pal_id none = {{0}};
    int wrong = 0;

    for (size_t i = 0; i < CALLS; i++)
        add_call(no_tenant(), none, "", i % 3 ? "main" : "other", (uint64_t)1 << i,
                start + offsets[i]);
    for (size_t from = 0; from < CALLS; from++) {
        for (size_t to = from; to < CALLS; to++) {
            pal_ledger_query query = {.from = start + offsets[from], .to = start + offsets[to]};
            uint64_t all = 0, others = 0;

            for (size_t i = from; i < to; i++) {
                all += (uint64_t)1 << i;
                others += i % 3 ? 0 : (uint64_t)1 << i;
            }
            wrong += input_of(query) != all;
            query.agent = S("other");
            wrong += input_of(query) != others;
        }
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(input_of((pal_ledger_query){.from = start + 1}), 4095 - 15);
    CHECK_EQ(input_of((pal_ledger_query){.to = start + 1}), 15);
    CHECK_EQ(input_of((pal_ledger_query){.from = -5, .to = INT64_MAX}), 4095);
    CHECK_EQ(input_of((pal_ledger_query){.from = NOW, .to = -1}), 0);
}

static void an_erased_session_leaves_its_sums(void)
{
    pal_id session = new_session(), none = {{0}};
    pal_ledger_row bad = ledger_row("bad", 1, -1);
    pal_erase_result erasure = {0};

    add_call(no_tenant(), session, "t1", "main", 1, NOW);
    add_call(no_tenant(), session, "t1", "main", 2, NOW + 2 * HOUR);
    add_call(no_tenant(), none, "t1", "main", 4, NOW);
    OK(pal_store_erase(test.store, no_tenant(), session, &erasure, &test.err));
    CHECK_EQ(erasure.ledger, 2);
    CHECK_EQ(input_of((pal_ledger_query){0}), 7);
    CHECK_EQ(input_of((pal_ledger_query){.agent = S("main")}), 7);
    CHECK_EQ(input_of((pal_ledger_query){.from = NOW, .to = NOW + 1}), 5);
    CHECK_EQ(input_of((pal_ledger_query){.turn_id = S("t1")}), 4);
    GIVES(PAL_INVALID, pal_store_ledger_add(test.store, no_tenant(), none, &bad, &test.err));
    if (contract_is_durable()) {
        contract_reopen_store();
        CHECK_EQ(input_of((pal_ledger_query){.agent = S("main")}), 7);
        CHECK_EQ(input_of((pal_ledger_query){.turn_id = S("t1")}), 4);
    }
}

/* Absurdly large numbers are limited to the largest number, and break nothing. */
static void sums_stay_at_the_largest_number(void)
{
    pal_id session = new_session(), none = {{0}};
    uint64_t inputs[] = {INT64_MAX - 5, 10, UINT64_MAX, 7};
    uint64_t findings = 99;
    pal_ledger_sum sum;

    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        char request_id[16];
        pal_ledger_row row = ledger_row("", inputs[i], NOW + (int64_t)i);

        snprintf(request_id, sizeof request_id, "large-%zu", i);
        row.request_id = S(request_id);
        row.agent = S("main");
        row.cost_micros = i == 0 ? INT64_MAX - 1 : 10;
        OK(pal_store_ledger_add(test.store, no_tenant(), session, &row, &test.err));
    }
    for (int reopened = 0; reopened < 2; reopened++) {
        sum = sum_of(none, 0, 0);
        CHECK_EQ(sum.calls, 4);
        CHECK_EQ(sum.usage.input, INT64_MAX);
        CHECK_EQ(sum.usage.output, 16);
        CHECK_EQ(sum.cost_micros, INT64_MAX);
        CHECK_EQ(sum_of(session, 0, 0).usage.input, INT64_MAX);
        CHECK_EQ(sum_of(none, NOW, NOW + 4).usage.input, INT64_MAX);
        CHECK_EQ(sum_of(none, NOW + 1, NOW + 2).usage.input, 10);
        CHECK_EQ(sum_of(none, NOW + 2, NOW + 3).usage.input, INT64_MAX);
        OK(pal_store_ledger_sum(
                test.store, &(pal_ledger_query){.agent = S("main")}, &sum, &test.err));
        CHECK_EQ(sum.usage.input, INT64_MAX);
        CHECK_EQ(sum.usage.reasoning, 4);
        OK(pal_store_ledger_sum(
                test.store, &(pal_ledger_query){.turn_id = S("turn")}, &sum, &test.err));
        CHECK_EQ(sum.usage.input, INT64_MAX);
        OK(pal_store_check(test.store, true, NULL, NULL, NULL, &findings, &test.err));
        CHECK_EQ(findings, 0);
        if (contract_is_durable())
            contract_reopen_store();
    }
}

/* ---- Lists ---- */

static pal_ledger_page page_of(pal_ledger_query query, pal_str cursor, uint32_t limit)
{
    pal_ledger_page page = {0};

    OK(pal_store_ledger_list(
            test.store, &query, cursor, limit, test.arena, &page, &test.err));
    return page;
}

/* Returns the inputs of all rows of the query, in the order of the list, as digits. */
static const char *inputs_of(pal_ledger_query query, uint32_t limit)
{
    static char text[64];
    size_t len = 0;
    pal_str cursor = {0};

    do {
        pal_ledger_page page = page_of(query, cursor, limit);

        CHECK(page.len <= limit);
        for (size_t i = 0; i < page.len && len + 4 < sizeof text; i++)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%llu", len ? " " : "",
                    (unsigned long long)page.items[i].row.usage.input);
        cursor = page.cursor;
    } while (cursor.len > 0 && len + 4 < sizeof text);
    text[len] = 0;
    return text;
}

static void rows_are_listed_newest_first(void)
{
    pal_id a = new_session(), b = new_session(), none = {{0}};

    add_call(no_tenant(), a, "t1", "main", 1, NOW);
    add_call(no_tenant(), a, "t1", "", 2, NOW + 2);
    add_call(no_tenant(), b, "t2", "main", 3, NOW + 1);
    add_call(no_tenant(), none, "", "", 4, NOW + 2);
    add_call(no_tenant(), a, "t2", "", 5, NOW + 2);
    add_call(S("stranger"), none, "t1", "main", 6, NOW);
    for (uint32_t limit = 1; limit <= 6; limit++) {
        CHECK_STR(inputs_of((pal_ledger_query){0}, limit), "5 4 2 3 1");
        CHECK_STR(inputs_of((pal_ledger_query){.session = a}, limit), "5 2 1");
        CHECK_STR(inputs_of((pal_ledger_query){.turn_id = S("t2")}, limit), "5 3");
        CHECK_STR(inputs_of((pal_ledger_query){.turn_id = S("t2"), .session = b}, limit), "3");
        CHECK_STR(inputs_of((pal_ledger_query){.session = a, .turn_id = S("t1")}, limit), "2 1");
        CHECK_STR(inputs_of((pal_ledger_query){.agent = S("main")}, limit), "3 1");
        CHECK_STR(inputs_of((pal_ledger_query){.from = NOW + 1, .to = NOW + 2}, limit), "3");
        CHECK_STR(inputs_of((pal_ledger_query){.session = a, .from = NOW + 1}, limit), "5 2");
        CHECK_STR(inputs_of((pal_ledger_query){.session = a, .to = NOW + 2}, limit), "1");
        CHECK_STR(inputs_of((pal_ledger_query){.agent = S("nobody")}, limit), "");
        CHECK_STR(inputs_of((pal_ledger_query){.tenant = S("nobody")}, limit), "");
    }
}

static void a_listed_row_is_complete(void)
{
    pal_id session = new_session();
    pal_ledger_row row = ledger_row("r1", 7, NOW);
    pal_ledger_page page;
    pal_ledger_entry *found;
    pal_erase_result erasure = {0};

    row.agent = S("main");
    OK(pal_store_ledger_add(test.store, no_tenant(), session, &row, &test.err));
    page = page_of((pal_ledger_query){0}, (pal_str){0}, 0);
    if (!CHECK_EQ(page.len, 1))
        return;
    found = page.items;
    CHECK(!pal_id_is_none(found->id));
    CHECK(pal_id_equal(found->session, session));
    CHECK(pal_str_equal(found->row.request_id, S("r1")));
    CHECK(pal_str_equal(found->row.turn_id, S("turn")));
    CHECK(pal_str_equal(found->row.agent, S("main")));
    CHECK(pal_str_equal(found->row.purpose, S("turn")));
    CHECK(pal_str_equal(found->row.provider, S("p")));
    CHECK(pal_str_equal(found->row.model, S("m")));
    CHECK(pal_str_equal(found->row.price_version, S("1")));
    CHECK_EQ(found->row.usage.input, 7);
    CHECK_EQ(found->row.usage.cache_read, 2);
    CHECK_EQ(found->row.usage.cache_write, 3);
    CHECK_EQ(found->row.usage.output, 4);
    CHECK_EQ(found->row.usage.reasoning, 1);
    CHECK_EQ(found->row.cost_micros, 10);
    CHECK_EQ(found->row.created_at, NOW);
    CHECK_EQ(page.cursor.len, 0);
    OK(pal_store_erase(test.store, no_tenant(), session, &erasure, &test.err));
    page = page_of((pal_ledger_query){0}, (pal_str){0}, 0);
    if (!CHECK_EQ(page.len, 1))
        return;
    CHECK(pal_id_is_none(page.items[0].session));
    CHECK_EQ(page.items[0].row.request_id.len, 0);
    CHECK_EQ(page.items[0].row.turn_id.len, 0);
    CHECK_EQ(page.items[0].row.usage.input, 7);
    GIVES(PAL_INVALID,
            pal_store_ledger_list(test.store, &(pal_ledger_query){0}, S("12-x"), 1, test.arena,
                    &page, &test.err));
    GIVES(PAL_LIMIT,
            pal_store_ledger_list(test.store, &(pal_ledger_query){0}, (pal_str){0},
                    PAL_LEDGER_PAGE_MAX + 1, test.arena, &page, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_ledger_list(test.store, &(pal_ledger_query){.session = pal_id_new()},
                    (pal_str){0}, 1, test.arena, &page, &test.err));
}

void contract_ledger(void)
{
    RUN(the_ledger_adds_up);
    RUN(the_same_request_is_the_same_call);
    RUN(an_append_writes_its_ledger_rows);
    RUN(sums_are_by_turn_and_by_agent);
    RUN(any_time_adds_up);
    RUN(an_erased_session_leaves_its_sums);
    RUN(sums_stay_at_the_largest_number);
    RUN(rows_are_listed_newest_first);
    RUN(a_listed_row_is_complete);
}
