/* test_store_messages.c - appends: order, idempotence, and all or nothing. */
#include "contract/contract.h"

static pal_status append(pal_id session, pal_message *messages, size_t len, uint64_t expected_seq)
{
    return pal_store_append(
            test.store, no_tenant(), session, messages, len, expected_seq, &test.err);
}

static pal_message with_client_id(const char *text, const char *client_id)
{
    pal_message message = text_of(PAL_ROLE_USER, text);

    message.client_id = S(client_id);
    return message;
}

static void an_append_numbers_its_messages(void)
{
    pal_message messages[] = {text_of(PAL_ROLE_SYSTEM, "a"), text_of(PAL_ROLE_USER, "b"),
            text_of(PAL_ROLE_ASSISTANT, "c")};
    pal_id session = new_session();
    pal_session found;

    messages[1].tokens = 1000;
    messages[1].created_at = 77;
    pal_clock_set_ms(NOW + 5);
    OK(append(session, messages, 3, 0));
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(messages[i].seq, i + 1);
        CHECK(!pal_id_is_none(messages[i].id));
        CHECK_THAT(messages[i].tokens, >, 0);
        CHECK_EQ(messages[i].created_at, (i == 1 ? 77 : NOW + 5));
    }
    found = get_session(session);
    CHECK_EQ(found.last_seq, 3);
    CHECK_EQ(found.updated_at, NOW + 5);
    CHECK_EQ(found.created_at, NOW);
    CHECK_EQ(found.tokens, 1000 + messages[0].tokens + messages[2].tokens);
    CHECK_THAT(found.bytes, >, 0);
    CHECK_EQ(say(session, "d"), 4);
    CHECK(shows(session, "a b c d"));
}

static bool same_part(const pal_part *a, const pal_part *b)
{
    bool same = a->kind == b->kind && a->is_error == b->is_error && a->parts_len == b->parts_len &&
            pal_str_equal(a->text, b->text) && pal_str_equal(a->call_id, b->call_id) &&
            pal_str_equal(a->name, b->name) && pal_str_equal(a->arguments, b->arguments) &&
            pal_str_equal(a->signature, b->signature) && pal_str_equal(a->family, b->family) &&
            pal_str_equal(a->media_type, b->media_type) && pal_str_equal(a->url, b->url) &&
            pal_str_equal(a->extra, b->extra);

    for (size_t i = 0; same && i < a->parts_len; i++)
        same = same_part(&a->parts[i], &b->parts[i]);
    return same;
}

static bool same_message(const pal_message *a, const pal_message *b)
{
    bool same = pal_id_equal(a->id, b->id) && a->seq == b->seq && a->role == b->role &&
            pal_id_equal(a->parent_id, b->parent_id) && a->created_at == b->created_at &&
            pal_str_equal(a->model, b->model) && a->has_usage == b->has_usage &&
            memcmp(&a->usage, &b->usage, sizeof a->usage) == 0 && a->flags == b->flags &&
            a->tokens == b->tokens && pal_str_equal(a->client_id, b->client_id) &&
            pal_str_equal(a->extra, b->extra) && a->parts_len == b->parts_len;

    for (size_t i = 0; same && i < a->parts_len; i++)
        same = same_part(&a->parts[i], &b->parts[i]);
    return same;
}

static void a_message_comes_back_as_it_was_said(void)
{
    pal_part inner[] = {{.kind = PAL_PART_TEXT, .text = S("out")},
            {.kind = PAL_PART_IMAGE,
                    .url = S("https://example.org/i.png"),
                    .media_type = S("image/png")}};
    pal_part parts[] = {
            {.kind = PAL_PART_TEXT, .text = {"nul\0 and \xf0\x9f\x98\x80 \"quoted\"\n", 23}},
            {.kind = PAL_PART_REASONING,
                    .text = S("hm"),
                    .signature = S("c2ln"),
                    .family = S("claude")},
            {.kind = PAL_PART_TOOL_CALL,
                    .call_id = S("c1"),
                    .name = S("ls"),
                    .arguments = S("{not json")},
            {.kind = PAL_PART_TOOL_RESULT,
                    .call_id = S("c1"),
                    .name = S("ls"),
                    .is_error = true,
                    .parts = inner,
                    .parts_len = 2},
            {.kind = PAL_PART_FILE,
                    .name = S("a.pdf"),
                    .url = S("https://example.org/a.pdf"),
                    .extra = S("{\"page\":1.0}")},
            {.kind = PAL_PART_COMPACTION, .text = S("summary")},
    };
    pal_message message = {.id = pal_id_new(),
            .role = PAL_ROLE_ASSISTANT,
            .parts = parts,
            .parts_len = sizeof parts / sizeof parts[0],
            .parent_id = pal_id_new(),
            .created_at = 123456789,
            .model = S("model-x"),
            .has_usage = true,
            .usage = {.input = 1, .cache_read = 2, .cache_write = 3, .output = 4, .reasoning = 5},
            .flags = PAL_MESSAGE_FLAG_SUMMARY | PAL_MESSAGE_FLAG_PINNED,
            .tokens = 42,
            .client_id = S("client-1"),
            .extra = S("{\"x\":1e400,\"y\":[null]}")};
    pal_message found;
    pal_message_page loaded;
    pal_id session = new_session(), owner;

    if (!OK(append(session, &message, 1, PAL_SEQ_ANY)))
        return;
    OK(pal_store_load(test.store, no_tenant(), session, NULL, test.arena, &loaded, &test.err));
    if (CHECK_EQ(loaded.len, 1))
        CHECK(same_message(&loaded.items[0], &message));
    OK(pal_store_message(
            test.store, no_tenant(), message.id, test.arena, &found, &owner, &test.err));
    CHECK(same_message(&found, &message));
    CHECK_ID(owner, session);
}

static void an_append_is_all_or_nothing(void)
{
    pal_message messages[] = {text_of(PAL_ROLE_USER, "a"), text_of(PAL_ROLE_NONE, "b")};
    pal_message doubled[] = {text_of(PAL_ROLE_USER, "a"), text_of(PAL_ROLE_USER, "b")};
    pal_id session = new_session();

    GIVES(PAL_INVALID, append(session, messages, 2, PAL_SEQ_ANY));
    doubled[0].id = doubled[1].id = pal_id_new();
    GIVES(PAL_CONFLICT, append(session, doubled, 2, PAL_SEQ_ANY));
    GIVES(PAL_INVALID, append(session, messages, 0, PAL_SEQ_ANY));
    messages[1] = text_of(PAL_ROLE_USER, "\xc3");
    GIVES(PAL_INVALID, append(session, messages, 2, PAL_SEQ_ANY));
    CHECK_EQ(get_session(session).last_seq, 0);
    CHECK_EQ(get_session(session).bytes, 0);
    CHECK_EQ(count_messages(), 0);
    CHECK_EQ(say(session, "c"), 1);
}

static void an_expected_seq_must_be_the_last(void)
{
    pal_message message = text_of(PAL_ROLE_USER, "x");
    pal_id session = new_session();

    GIVES(PAL_CONFLICT, append(session, &message, 1, 1));
    OK(append(session, &message, 1, 0));
    message = text_of(PAL_ROLE_USER, "y");
    GIVES(PAL_CONFLICT, append(session, &message, 1, 0));
    GIVES(PAL_CONFLICT, append(session, &message, 1, 2));
    OK(append(session, &message, 1, 1));
    CHECK(shows(session, "x y"));
}

static void the_same_client_id_is_the_same_message(void)
{
    pal_message first[] = {with_client_id("a", "1"), with_client_id("b", "2")};
    pal_message again[2];
    pal_op op = {.kind = PAL_OP_APPEND,
            .session = new_session(),
            .u.append = {.messages = again, .messages_len = 2, .expected_seq = 0}};

    memcpy(again, first, sizeof again);
    OK(append(op.session, first, 2, 0));
    say(op.session, "c");
    pal_clock_set_ms(NOW + 1);
    OK(pal_store_apply(
            test.store, &op, 1, &test.err)); /* expected_seq is stale, but it is a replay */
    CHECK_STATUS(op.status, PAL_OK);
    CHECK(op.u.append.replayed);
    for (size_t i = 0; i < 2; i++) {
        CHECK_ID(again[i].id, first[i].id);
        CHECK_EQ(again[i].seq, first[i].seq);
        CHECK_EQ(again[i].created_at, NOW);
        CHECK_EQ(again[i].tokens, first[i].tokens);
    }
    CHECK(shows(op.session, "a b c"));
    again[0] = with_client_id("b", "2");
    OK(append(op.session, again, 1, PAL_SEQ_ANY));
    CHECK_EQ(again[0].seq, 2);
    CHECK_EQ(get_session(op.session).last_seq, 3);
}

static void a_client_id_with_another_content_conflicts(void)
{
    pal_id session = new_session(), other = new_session();
    pal_message message = with_client_id("a", "1");
    pal_message mixed[] = {with_client_id("a", "1"), with_client_id("b", "2")};
    pal_message partly[] = {with_client_id("a", "1"), text_of(PAL_ROLE_USER, "b")};

    OK(append(session, &message, 1, PAL_SEQ_ANY));
    message = with_client_id("other", "1");
    GIVES(PAL_CONFLICT, append(session, &message, 1, PAL_SEQ_ANY));
    message = with_client_id("a", "1");
    message.role = PAL_ROLE_ASSISTANT;
    GIVES(PAL_CONFLICT, append(session, &message, 1, PAL_SEQ_ANY));
    message = with_client_id("a", "1");
    message.parts[0].kind = PAL_PART_REASONING;
    GIVES(PAL_CONFLICT, append(session, &message, 1, PAL_SEQ_ANY));
    GIVES(PAL_CONFLICT, append(session, mixed, 2, PAL_SEQ_ANY));
    GIVES(PAL_CONFLICT, append(session, partly, 2, PAL_SEQ_ANY));
    CHECK(shows(session, "a"));
    message = with_client_id("other", "1");
    OK(append(other, &message, 1, PAL_SEQ_ANY));
    CHECK(shows(other, "other"));
}

static void a_conflict_says_whether_a_client_id_is_known(void)
{
    pal_message message = with_client_id("a", "1"), other = with_client_id("b", "1");
    pal_op op = {.kind = PAL_OP_APPEND,
            .session = new_session(),
            .u.append = {.messages = &other, .messages_len = 1, .expected_seq = 7}};

    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_CONFLICT);
    CHECK(!op.u.append.replayed);
    OK(append(op.session, &message, 1, PAL_SEQ_ANY));
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_CONFLICT);
    CHECK(op.u.append.replayed);
    other = with_client_id("b", "2");
    OK(pal_store_apply(test.store, &op, 1, &test.err));
    CHECK_STATUS(op.status, PAL_CONFLICT);
    CHECK(!op.u.append.replayed);
}

static void a_client_id_is_looked_up_by_reading(void)
{
    pal_message messages[] = {with_client_id("a", "1"), with_client_id("b", "2")};
    pal_message found = {0};
    pal_mark rewind = {.kind = PAL_MARK_REWIND, .seq = 1};
    pal_id session = new_session(), other = new_session();

    OK(append(session, messages, 2, PAL_SEQ_ANY));
    OK(pal_store_find_client_id(
            test.store, no_tenant(), session, S("2"), test.arena, &found, &test.err));
    CHECK(same_message(&found, &messages[1]));
    OK(pal_store_mark(test.store, no_tenant(), session, &rewind, &test.err));
    OK(pal_store_find_client_id(
            test.store, no_tenant(), session, S("2"), test.arena, &found, &test.err));
    CHECK_EQ(found.seq, 2); /* hidden, but found */
    GIVES(PAL_NOT_FOUND,
            pal_store_find_client_id(
                    test.store, no_tenant(), session, S("3"), test.arena, &found, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_find_client_id(
                    test.store, no_tenant(), session, S(""), test.arena, &found, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_find_client_id(
                    test.store, no_tenant(), other, S("2"), test.arena, &found, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_find_client_id(
                    test.store, no_tenant(), pal_id_new(), S("2"), test.arena, &found, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_find_client_id(
                    test.store, S("guest"), session, S("2"), test.arena, &found, &test.err));
}

static void a_client_id_comes_once_in_a_batch(void)
{
    pal_message messages[] = {with_client_id("a", "1"), with_client_id("a", "1")};
    pal_id session = new_session();

    GIVES(PAL_INVALID, append(session, messages, 2, PAL_SEQ_ANY));
    CHECK_EQ(get_session(session).last_seq, 0);
}

static void a_fork_has_separate_client_ids(void)
{
    pal_id session = new_session(), child;
    pal_message message = with_client_id("a", "1");

    OK(append(session, &message, 1, PAL_SEQ_ANY));
    child = fork_at(session, 1);
    message = with_client_id("b", "1");
    OK(append(child, &message, 1, PAL_SEQ_ANY));
    CHECK_EQ(message.seq, 2);
    CHECK(shows(child, "a b"));
}

static void a_message_id_exists_once(void)
{
    pal_id session = new_session(), other = new_session();
    pal_message message = text_of(PAL_ROLE_USER, "a");

    message.id = pal_id_new();
    OK(append(session, &message, 1, PAL_SEQ_ANY));
    GIVES(PAL_CONFLICT, append(session, &message, 1, PAL_SEQ_ANY));
    GIVES(PAL_CONFLICT, append(other, &message, 1, PAL_SEQ_ANY));
    CHECK_EQ(get_session(other).last_seq, 0);
    CHECK_EQ(get_session(session).last_seq, 1);
}

static void an_unknown_message_is_not_found(void)
{
    pal_message found;
    pal_id owner;

    GIVES(PAL_NOT_FOUND,
            pal_store_message(
                    test.store, no_tenant(), pal_id_new(), test.arena, &found, &owner, &test.err));
}

static void large_messages_are_kept(void)
{
    size_t len = 5 << 20;
    char *text = pal_arena_alloc(test.arena, len + 1);
    pal_id session = new_session();
    pal_message_page loaded;
    pal_message message;

    memset(text, 'x', len);
    memcpy(text + len - 4, "tail", 4);
    message = pal_message_text(test.arena, PAL_ROLE_USER, pal_str_make(text, len));
    OK(append(session, &message, 1, PAL_SEQ_ANY));
    OK(pal_store_load(test.store, no_tenant(), session, NULL, test.arena, &loaded, &test.err));
    if (CHECK_EQ(loaded.len, 1))
        CHECK_STR(loaded.items[0].parts[0].text, pal_str_make(text, len));
    CHECK_THAT(get_session(session).bytes, >=, len);
}

static void a_message_over_the_limit_is_refused(void)
{
    pal_store_options options = {.message_bytes_max = 1000};
    char text[1101] = {0};
    pal_id session;

    memset(text, 'x', 1100);
    contract_open_with(&options);
    session = new_session();
    pal_message messages[] = {text_of(PAL_ROLE_USER, "small"), text_of(PAL_ROLE_USER, text)};
    GIVES(PAL_LIMIT, append(session, messages, 2, PAL_SEQ_ANY));
    CHECK_EQ(get_session(session).last_seq, 0);
    text[900] = '\0';
    CHECK_EQ(say(session, text), 1);
}

static void a_message_without_parts_is_kept(void)
{
    pal_message message = {.role = PAL_ROLE_ASSISTANT};
    pal_id session = new_session();
    pal_message_page loaded;

    OK(append(session, &message, 1, PAL_SEQ_ANY));
    OK(pal_store_load(test.store, no_tenant(), session, NULL, test.arena, &loaded, &test.err));
    if (CHECK_EQ(loaded.len, 1)) {
        CHECK_EQ(loaded.items[0].parts_len, 0);
        CHECK_EQ(loaded.items[0].seq, 1);
    }
}

static void a_large_batch_is_one_append(void)
{
    enum { LEN = 2000 };
    pal_message *messages = pal_arena_array(test.arena, LEN, sizeof *messages);
    pal_id session = new_session();
    pal_message_page loaded;

    for (size_t i = 0; i < LEN; i++)
        messages[i] = text_of(PAL_ROLE_USER, "x");
    OK(append(session, messages, LEN, 0));
    OK(pal_store_load(test.store, no_tenant(), session, NULL, test.arena, &loaded, &test.err));
    CHECK_EQ(loaded.len, LEN);
    CHECK(!loaded.has_more);
    for (size_t i = 0; i < loaded.len; i++)
        if (loaded.items[i].seq != i + 1 || messages[i].seq != i + 1)
            CHECK(!"gapless");
}

void contract_messages(void)
{
    RUN(an_append_numbers_its_messages);
    RUN(a_message_comes_back_as_it_was_said);
    RUN(an_append_is_all_or_nothing);
    RUN(an_expected_seq_must_be_the_last);
    RUN(the_same_client_id_is_the_same_message);
    RUN(a_client_id_with_another_content_conflicts);
    RUN(a_conflict_says_whether_a_client_id_is_known);
    RUN(a_client_id_is_looked_up_by_reading);
    RUN(a_client_id_comes_once_in_a_batch);
    RUN(a_fork_has_separate_client_ids);
    RUN(a_message_id_exists_once);
    RUN(an_unknown_message_is_not_found);
    RUN(large_messages_are_kept);
    RUN(a_message_over_the_limit_is_refused);
    RUN(a_message_without_parts_is_kept);
    RUN(a_large_batch_is_one_append);
}
