/* test_postgres_cuts.c - cuts the connection to PostgreSQL before, inside and after every message of
 * a write. The write must succeed all the same, and happen exactly once.
 *
 * After the cut that follows the last message, the commit has happened and its answer is lost: a store
 * that wrote again would double the message, and one that gave up would lose the answer. */
#include <stdlib.h>
#include "postgres_ask.h"
#include "postgres_proxy.h"
#include "palaver/palaver.h"
#include "support/scratch.h"
#include "support/tap.h"

#define MESSAGES_MAX 200

static char directory[SCRATCH_PATH_MAX], url[SCRATCH_PATH_MAX + 64];
static pal_store *store;
static pal_id session, other;
static uint64_t appended, appended_other;
static bool with_lease; /* append_two() takes a lease */

static bool append_one(pal_str client_id)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("hello")};
    pal_message message = {
            .role = PAL_ROLE_USER, .parts = &part, .parts_len = 1, .client_id = client_id};
    pal_error err = {0};
    pal_status status = pal_store_append(
            store, (pal_str){0}, session, &message, 1, PAL_SEQ_ANY, &err);

    if (status != PAL_OK)
        printf("# %s\n", err.message);
    return CHECK_EQ(status, PAL_OK) && CHECK_EQ(message.seq, ++appended);
}

/* Appends to two sessions in one batch, and takes a lease of the second. */
static bool append_two(pal_str client_id)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("hello")};
    pal_message messages[2] = {
            {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1, .client_id = client_id}};
    pal_op ops[] = {pal_op_append((pal_str){0}, session, &messages[0], 1, PAL_SEQ_ANY),
            pal_op_append((pal_str){0}, other, &messages[1], 1, PAL_SEQ_ANY),
            pal_op_lease_take((pal_str){0}, other, pal_str_of("a"), 60000)};
    pal_error err = {0};

    messages[1] = messages[0];
    if (!CHECK_EQ(pal_store_apply(store, ops, with_lease ? 3 : 2, &err), PAL_OK))
        printf("# %s\n", err.message);
    return CHECK_EQ(ops[0].status, PAL_OK) && CHECK_EQ(ops[1].status, PAL_OK) &&
            CHECK_EQ(ops[2].status, PAL_OK) && CHECK_EQ(messages[0].seq, ++appended) &&
            CHECK_EQ(messages[1].seq, ++appended_other);
}

static bool check_one(pal_id id, uint64_t expected)
{
    pal_arena *arena = pal_arena_new(0);
    pal_message_query query = {.limit = 0};
    pal_message_page page = {0};
    pal_error err = {0};
    bool held = CHECK_EQ(pal_store_load(store, (pal_str){0}, id, &query, arena, &page, &err),
                        PAL_OK) &&
            CHECK_EQ(page.len, expected);

    for (size_t i = 0; held && i < page.len; i++)
        held = CHECK_EQ(page.items[i].seq, i + 1);
    pal_arena_free(arena);
    return held;
}

static bool check_session(void)
{
    return check_one(session, appended) && check_one(other, appended_other);
}

/* Erases a session and appends to the other one, as one group. */
static bool erase_and_append(pal_id erased)
{
    pal_part part = {.kind = PAL_PART_TEXT, .text = pal_str_of("hello")};
    pal_message message = {.role = PAL_ROLE_USER, .parts = &part, .parts_len = 1};
    pal_erase_result erasure = {0};
    pal_op ops[] = {pal_op_erase((pal_str){0}, erased, &erasure),
            pal_op_append((pal_str){0}, session, &message, 1, PAL_SEQ_ANY)};
    pal_error err = {0};

    ops[1].with_previous = true;
    return CHECK_EQ(pal_store_apply(store, ops, 2, &err), PAL_OK) &&
            CHECK_EQ(ops[0].status, PAL_OK) && CHECK_EQ(ops[1].status, PAL_OK) &&
            CHECK_EQ(message.seq, ++appended);
}

/* Cuts at the first message of a write, then at the second, until a write needs fewer. */
static unsigned cut_everywhere(cut_kind kind, bool has_client_id, bool (*append)(pal_str client_id))
{
    char name[64];
    unsigned nth = 1;
    bool held = true;

    for (; held && nth < MESSAGES_MAX; nth++) {
        snprintf(name, sizeof name, "c-%d-%u-%d-%d", (int)kind, nth, append == append_two,
                with_lease);
        postgres_proxy_arm(nth, kind);
        held = append(has_client_id ? pal_str_of(name) : (pal_str){0});
        if (!postgres_proxy_fired())
            break;
    }
    postgres_proxy_arm(0, kind);
    CHECK(held);
    CHECK(check_session());
    return nth - 1;
}

/* Appends to one session need one statement, to two sessions two. With a lease, the statement that
 * changes the heads is another one. */
static void cut_all(cut_kind kind, bool has_client_id)
{
    CHECK_THAT(cut_everywhere(kind, has_client_id, append_one), >=, 4);
    CHECK_THAT(cut_everywhere(kind, has_client_id, append_two), >=, 7);
    with_lease = true;
    CHECK_THAT(cut_everywhere(kind, has_client_id, append_two), >=, 7);
    with_lease = false;
}

static void a_cut_before_any_message_is_harmless(void)
{
    cut_all(CUT_BEFORE, true);
    cut_all(CUT_BEFORE, false);
}

static void a_cut_inside_any_message_is_harmless(void)
{
    cut_all(CUT_INSIDE, true);
}

static void a_cut_after_any_message_is_harmless(void)
{
    cut_all(CUT_AFTER, true);
    cut_all(CUT_AFTER, false);
}

static void crash(void)
{
    CHECK(postgres_restart("immediate"));
}

/* The server crashes while it works on the message. POSTGRES_CRASH_STRIDE=1 tries every message. */
static void a_crash_of_the_server_at_any_message_is_harmless(void)
{
    const char *given = getenv("POSTGRES_CRASH_STRIDE");
    unsigned stride = given ? (unsigned)atoi(given) : 4, nth = 1;
    bool held = true;

    postgres_proxy_set_hook(crash);
    for (; held && nth < MESSAGES_MAX; nth += stride) {
        postgres_proxy_arm(nth, CUT_AFTER);
        held = append_two((pal_str){0});
        if (!postgres_proxy_fired())
            break;
    }
    postgres_proxy_set_hook(NULL);
    postgres_proxy_arm(0, CUT_AFTER);
    CHECK(held);
    CHECK(check_session());
    CHECK_THAT(nth, >=, 7);
}

static void a_cut_in_a_group_with_an_erasure_is_harmless(void)
{
    static const cut_kind kinds[] = {CUT_BEFORE, CUT_INSIDE, CUT_AFTER};
    pal_session wanted = {0};
    bool held = true;

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        unsigned nth = 1;

        for (; held && nth < MESSAGES_MAX; nth++) {
            pal_id erased;

            held = CHECK_EQ(pal_store_create(store, &wanted, &erased, NULL), PAL_OK);
            postgres_proxy_arm(nth, kinds[i]);
            held = held && erase_and_append(erased);
            if (!postgres_proxy_fired())
                break;
        }
        postgres_proxy_arm(0, kinds[i]);
        CHECK(held);
        CHECK(check_session());
        CHECK_THAT(nth, >, 20);
    }
}

int main(void)
{
    const char *server_dir = getenv("PALAVER_TEST_POSTGRES_DIR");
    pal_session wanted = {0};
    pal_error err = {0};

    if (!server_dir)
        return 77; /* tools/pg-test did not start a server */
    scratch_make(false, directory);
    snprintf(url, sizeof url, "postgres://postgres@/palaver?host=%s", directory);
    if (!CHECK(postgres_proxy_start(directory, server_dir)) ||
            !CHECK_EQ(pal_store_open(url, NULL, &store, &err), PAL_OK) ||
            !CHECK_EQ(pal_store_create(store, &wanted, &session, &err), PAL_OK) ||
            !CHECK_EQ(pal_store_create(store, &wanted, &other, &err), PAL_OK))
        printf("# %s\n", err.message);
    RUN(a_cut_before_any_message_is_harmless);
    RUN(a_cut_inside_any_message_is_harmless);
    RUN(a_cut_after_any_message_is_harmless);
    RUN(a_crash_of_the_server_at_any_message_is_harmless);
    RUN(a_cut_in_a_group_with_an_erasure_is_harmless);
    pal_store_close(store);
    scratch_clear(directory, true);
    return tap_done();
}
