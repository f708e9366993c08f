/* test_store_loads.c - which messages a load with limits returns, compared with a plain loop. */
#include "contract/contract.h"

enum { ROWS = 24 };

typedef struct row {
    uint64_t tokens;
    uint64_t bytes;
    bool hidden;
} row;

static row rows[ROWS + 1]; /* by seq */

/* Makes a session of ROWS messages. Messages 9 to 12 are hidden, half of them in a parent. */
static pal_id prepare(void)
{
    char text[64];
    pal_id session = new_session();
    uint64_t before = 0;

    memset(rows, 0, sizeof rows);
    for (uint64_t seq = 1; seq <= ROWS; seq++) {
        pal_message message;

        memset(text, 'a', sizeof text);
        text[seq * 7 % 50] = '\0';
        message = text_of(PAL_ROLE_USER, pal_arena_copy(test.arena, S(text)).data);
        message.tokens = (uint32_t)(seq * 5 % 17 + 1);
        OK(pal_store_append(test.store, no_tenant(), session, &message, 1, seq - 1, &test.err));
        rows[seq].tokens = message.tokens;
        rows[seq].bytes = get_session(session).bytes - before;
        rows[seq].hidden = seq >= 9 && seq <= 12;
        before += rows[seq].bytes;
        if (seq == 12)
            rewind_to(session, 8);
        if (seq == 14) {
            session = fork_at(session, 14);
            before = 0;
        }
    }
    return session;
}

static bool fits(const pal_message_query *load, size_t len, uint64_t tokens, uint64_t bytes)
{
    return (load->limit == 0 || len <= load->limit) &&
            (load->tokens_max == 0 || tokens <= load->tokens_max) &&
            (load->bytes_max == 0 || bytes <= load->bytes_max);
}

/* Computes the expected messages by a plain loop. */
static size_t expect(const pal_message_query *load, bool taken[ROWS + 1], bool *out_has_more)
{
    uint64_t tokens = 0, bytes = 0;
    size_t len = 0;

    memset(taken, 0, (ROWS + 1) * sizeof taken[0]);
    *out_has_more = false;
    for (uint64_t i = 1; i <= ROWS; i++) {
        uint64_t seq = load->from_end ? ROWS + 1 - i : i;

        if (seq <= load->after_seq || (load->before_seq > 0 && seq >= load->before_seq))
            continue;
        if (rows[seq].hidden && !load->hidden)
            continue;
        if (!fits(load, len + 1, tokens + rows[seq].tokens, bytes + rows[seq].bytes)) {
            *out_has_more = true;
            break;
        }
        taken[seq] = true;
        tokens += rows[seq].tokens;
        bytes += rows[seq].bytes;
        len++;
    }
    return len;
}

static bool load_is_right(pal_id session, const pal_message_query *load)
{
    bool taken[ROWS + 1], has_more;
    pal_message_page loaded = {0};
    size_t len = expect(load, taken, &has_more);
    bool right = OK(pal_store_load(
                         test.store, no_tenant(), session, load, test.arena, &loaded, &test.err)) &&
            loaded.len == len && loaded.has_more == has_more;

    for (size_t i = 0; right && i < len; i++)
        right = taken[loaded.items[i].seq] &&
                (i == 0 || loaded.items[i].seq > loaded.items[i - 1].seq);
    if (!right)
        printf("# after %llu before %llu limit %u tokens %llu bytes %llu %s%s: %zu%s, not %zu%s\n",
                (unsigned long long)load->after_seq, (unsigned long long)load->before_seq,
                load->limit, (unsigned long long)load->tokens_max,
                (unsigned long long)load->bytes_max, load->from_end ? "from end " : "",
                load->hidden ? "hidden" : "", loaded.len, loaded.has_more ? "+" : "", len,
                has_more ? "+" : "");
    return right;
}

/* Tests every limit in both directions, visible and all messages, in all given ranges. */
static void try_bounds(pal_id session, pal_message_query load)
{
    static const uint64_t after[] = {0, 1, 8, 10, 13, 14, 23, 24, 30};
    static const uint64_t before[] = {0, 1, 2, 9, 12, 14, 15, 24, 25, 99};

    for (int turn = 0; turn < 4; turn++) {
        load.from_end = turn & 1;
        load.hidden = turn & 2;
        for (size_t i = 0; i < sizeof after / sizeof after[0]; i++)
            for (size_t j = 0; j < sizeof before / sizeof before[0]; j++) {
                load.after_seq = after[i];
                load.before_seq = before[j];
                if (!CHECK(load_is_right(session, &load)))
                    return;
            }
        pal_arena_reset(test.arena);
    }
}

static void a_count_bounds_a_load(void)
{
    pal_id session = prepare();

    for (uint32_t limit = 0; limit <= ROWS + 1; limit += limit < 4 ? 1 : 7)
        try_bounds(session, (pal_message_query){.limit = limit});
}

static void tokens_bound_a_load(void)
{
    pal_id session = prepare();

    for (uint64_t tokens = 1; tokens < 300; tokens = tokens * 2 + 3)
        try_bounds(session, (pal_message_query){.tokens_max = tokens});
}

static void bytes_bound_a_load(void)
{
    pal_id session = prepare();

    for (uint64_t bytes = 1; bytes < 3000; bytes = bytes * 2 + rows[3].bytes)
        try_bounds(session, (pal_message_query){.bytes_max = bytes});
}

static void all_bounds_hold_at_once(void)
{
    pal_id session = prepare();

    try_bounds(session, (pal_message_query){.limit = 5, .tokens_max = 40, .bytes_max = 400});
    try_bounds(session, (pal_message_query){.limit = 3, .tokens_max = 400, .bytes_max = 4000});
    try_bounds(session, (pal_message_query){.limit = 30, .tokens_max = 20, .bytes_max = 4000});
    try_bounds(session, (pal_message_query){.limit = 30, .tokens_max = 400, .bytes_max = 200});
}

static void exact_sums_still_fit(void)
{
    pal_id session = prepare();
    pal_message_query load = {.tokens_max = rows[24].tokens + rows[23].tokens, .from_end = true};
    pal_message_page loaded;

    OK(pal_store_load(test.store, no_tenant(), session, &load, test.arena, &loaded, &test.err));
    if (CHECK_EQ(loaded.len, 2)) {
        CHECK(loaded.has_more);
        CHECK_EQ(loaded.items[0].seq, 23);
    }
    load = (pal_message_query){.bytes_max = rows[24].bytes, .from_end = true};
    OK(pal_store_load(test.store, no_tenant(), session, &load, test.arena, &loaded, &test.err));
    if (CHECK_EQ(loaded.len, 1)) {
        CHECK(loaded.has_more);
        CHECK_EQ(loaded.items[0].seq, 24);
    }
}

static void an_empty_session_loads_nothing(void)
{
    pal_message_query load = {.limit = 1, .from_end = true};
    pal_id session = new_session();
    pal_message_page loaded = {.len = 9, .has_more = true};

    OK(pal_store_load(test.store, no_tenant(), session, &load, test.arena, &loaded, &test.err));
    CHECK_EQ(loaded.len, 0);
    CHECK(!loaded.has_more);
    GIVES(PAL_NOT_FOUND,
            pal_store_load(
                    test.store, no_tenant(), pal_id_new(), NULL, test.arena, &loaded, &test.err));
}

static void pages_of_messages_join(void)
{
    pal_id session = prepare();
    pal_message_query load = {.limit = 5};
    pal_message_page loaded;
    size_t len = 0;

    do {
        OK(pal_store_load(test.store, no_tenant(), session, &load, test.arena, &loaded, &test.err));
        len += loaded.len;
        if (loaded.len > 0)
            load.after_seq = loaded.items[loaded.len - 1].seq;
    } while (loaded.has_more);
    CHECK_EQ(len, ROWS - 4);
    CHECK_EQ(load.after_seq, ROWS);
}

void contract_loads(void)
{
    RUN(a_count_bounds_a_load);
    RUN(tokens_bound_a_load);
    RUN(bytes_bound_a_load);
    RUN(all_bounds_hold_at_once);
    RUN(exact_sums_still_fit);
    RUN(an_empty_session_loads_nothing);
    RUN(pages_of_messages_join);
}
