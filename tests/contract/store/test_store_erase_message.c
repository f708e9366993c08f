/* test_store_erase_message.c - erasing one message with everything derived from it. */
#include "contract/contract.h"

#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

#define SECRET "xylophone"

static pal_erase_result erase(pal_id session, uint64_t seq)
{
    pal_erase_result erasure = {0};

    OK(pal_store_erase_message(test.store, no_tenant(), session, seq, &erasure, &test.err));
    return erasure;
}

static pal_message at(pal_id session, uint64_t seq)
{
    pal_message_query load = {.after_seq = seq - 1, .before_seq = seq + 1, .hidden = true};
    pal_message_page page = {0};

    OK(pal_store_load(test.store, no_tenant(), session, &load, test.arena, &page, &test.err));
    return CHECK_EQ(page.len, 1) ? page.items[0] : (pal_message){0};
}

static bool is_erased(pal_id session, uint64_t seq)
{
    pal_message message = at(session, seq);

    return CHECK_EQ(message.parts_len, 0) && CHECK_EQ(message.flags, PAL_MESSAGE_FLAG_ERASED) &&
            CHECK_EQ(message.tokens, 0) && CHECK_EQ(message.extra.len, 0);
}

/* ---- The files of the store ---- */

static bool is_secret_there;

static int look_into(const char *path, const struct stat *facts, int kind, struct FTW *walk)
{
    char *data = kind == FTW_F ? pal_malloc((size_t)facts->st_size + 1) : NULL;
    int fd = data ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    (void)walk;
    if (fd >= 0 && read(fd, data, (size_t)facts->st_size) == facts->st_size &&
            memmem(data, (size_t)facts->st_size, SECRET, strlen(SECRET))) {
        printf("# '%s' has the word\n", path);
        is_secret_there = true;
    }
    if (fd >= 0)
        close(fd);
    pal_free(data);
    return 0;
}

/* With PostgreSQL, the server keeps old versions of rows until they are vacuumed. */
static bool is_in_files(void)
{
    is_secret_there = false;
    nftw(test.dir, look_into, 16, FTW_PHYS);
    return is_secret_there;
}

static size_t found(const char *word)
{
    pal_search_query query = {.text = S(word), .limit = 10};
    pal_search_page page = {0};

    OK(pal_store_search(test.store, &query, test.arena, &page, &test.err));
    return page.len;
}

static uint64_t findings(void)
{
    uint64_t count = 1;

    OK(pal_store_check(test.store, false, NULL, NULL, NULL, &count, &test.err));
    return count;
}

/* ---- The message ---- */

static void the_contents_go_and_the_place_stays(void)
{
    pal_id session = new_session();
    pal_message given = text_of(PAL_ROLE_USER, "before " SECRET " after"), kept, erased, sent;
    pal_store_stats before, after;
    pal_id owner;

    given.client_id = S("c1");
    given.extra = S("{\"sender\":\"" SECRET "\"}");
    OK(pal_store_append(test.store, no_tenant(), session, &given, 1, 0, &test.err));
    say_words(session, "second third");
    kept = at(session, 1);
    OK(pal_store_stat(test.store, test.arena, &before, &test.err));
    CHECK_EQ(erase(session, 1).messages, 1);
    OK(pal_store_stat(test.store, test.arena, &after, &test.err));
    erased = at(session, 1);
    CHECK(is_erased(session, 1));
    CHECK(pal_id_equal(erased.id, kept.id));
    CHECK_EQ(erased.role, PAL_ROLE_USER);
    CHECK_EQ(erased.created_at, kept.created_at);
    CHECK_STR(erased.client_id, "c1");
    CHECK_EQ(get_session(session).last_seq, 3);
    if (!before.is_estimated) {
        CHECK_EQ(after.messages, before.messages);
        CHECK_THAT(after.content_bytes, <, before.content_bytes);
    }
    CHECK_EQ(get_session(session).tokens, at(session, 2).tokens + at(session, 3).tokens);
    CHECK(!is_in_files());
    OK(pal_store_message(
            test.store, no_tenant(), kept.id, test.arena, &sent, &owner, &test.err));
    CHECK_EQ(sent.parts_len, 0);
    /* again, and the same message again */
    CHECK_EQ(erase(session, 1).messages, 0);
    OK(pal_store_append(test.store, no_tenant(), session, &given, 1, PAL_SEQ_ANY, &test.err));
    CHECK_EQ(given.seq, 1);
    CHECK_EQ(findings(), 0);
    contract_reopen_store();
    if (contract_is_durable()) {
        CHECK(is_erased(session, 1));
        CHECK_STR(at(session, 2).parts[0].text, "second");
    }
}

static void a_message_that_is_not_there_cannot_be_erased(void)
{
    pal_id session = new_session();

    say(session, "one");
    GIVES(PAL_NOT_FOUND,
            pal_store_erase_message(test.store, no_tenant(), session, 2, NULL, &test.err));
    GIVES(PAL_INVALID,
            pal_store_erase_message(test.store, no_tenant(), session, 0, NULL, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_erase_message(test.store, no_tenant(), pal_id_new(), 1, NULL, &test.err));
    GIVES(PAL_NOT_FOUND,
            pal_store_erase_message(test.store, S("other"), session, 1, NULL, &test.err));
    CHECK(shows(session, "one"));
}

static void sessions_in_the_trash_too(void)
{
    pal_id session = new_session();

    say(session, SECRET);
    OK(pal_store_delete(test.store, no_tenant(), session, &test.err));
    CHECK_EQ(erase(session, 1).messages, 1);
    CHECK(!is_in_files());
    OK(pal_store_restore(test.store, no_tenant(), session, &test.err));
    CHECK(is_erased(session, 1));
}

/* ---- The search index ---- */

static void no_search_finds_it(void)
{
    pal_id session = new_session();

    say(session, "a " SECRET " here");
    say(session, "other words");
    CHECK_EQ(found(SECRET), 1);
    erase(session, 1);
    CHECK_EQ(found(SECRET), 0);
    CHECK_EQ(found("other"), 1);
    CHECK(!is_in_files());
}

/* The block of the message is in the index when it is erased. */
static void its_words_leave_the_index(void)
{
    enum { LEN = 2100 };
    pal_id session = new_session();
    pal_message *messages = pal_arena_array(test.arena, LEN, sizeof *messages);

    for (size_t i = 0; i < LEN; i++)
        messages[i] = text_of(PAL_ROLE_USER, i == 10 ? "a " SECRET " here" : "common words");
    OK(pal_store_append(test.store, no_tenant(), session, messages, LEN, 0, &test.err));
    CHECK_EQ(found(SECRET), 1); /* builds the index */
    CHECK_EQ(found("absent"), 0);
    erase(session, 11);
    CHECK_EQ(found(SECRET), 0);
    CHECK_EQ(found("common"), 10);
    CHECK(!is_in_files());
    CHECK_EQ(findings(), 0);
}

/* ---- Blobs ---- */

static pal_message with_data(const char *data)
{
    pal_part *part = pal_arena_alloc(test.arena, sizeof *part);
    pal_message message = {.role = PAL_ROLE_USER, .parts = part, .parts_len = 1};

    *part = (pal_part){.kind = PAL_PART_FILE, .media_type = S("text/plain"), .data = S(data)};
    return message;
}

static pal_status blob_status(pal_str name)
{
    uint64_t bytes;

    return pal_store_blob_size(test.store, no_tenant(), name, &bytes, &test.err);
}

static void blobs_go_with_their_last_message(void)
{
    pal_id session = new_session();
    pal_message messages[] = {with_data("a " SECRET), with_data("shared"), with_data("shared")};
    pal_str alone, shared;

    OK(pal_store_append(test.store, no_tenant(), session, messages, 3, 0, &test.err));
    alone = at(session, 1).parts[0].blob;
    shared = at(session, 2).parts[0].blob;
    CHECK_EQ(erase(session, 1).blobs, 1);
    CHECK_STATUS(blob_status(alone), PAL_NOT_FOUND, &test.err);
    CHECK_EQ(erase(session, 2).blobs, 0);
    OK(blob_status(shared));
    CHECK_EQ(erase(session, 3).blobs, 1);
    CHECK_STATUS(blob_status(shared), PAL_NOT_FOUND, &test.err);
    CHECK(!is_in_files());
    CHECK_EQ(findings(), 0);
}

/* ---- What quotes the message ---- */

static uint64_t checkpoint(pal_id session, uint64_t seq)
{
    pal_mark mark = {.kind = PAL_MARK_CHECKPOINT,
            .seq = seq,
            .body = S("{\"summary\":\"they spoke of a " SECRET "\"}")};

    OK(pal_store_mark(test.store, no_tenant(), session, &mark, &test.err));
    return mark.number;
}

static uint64_t active_checkpoint(pal_id session)
{
    pal_active_marks active = {0};

    OK(pal_store_active_marks(
            test.store, no_tenant(), session, test.arena, &active, &test.err));
    return active.checkpoint.number;
}

static size_t bodies(pal_id session)
{
    pal_mark *marks;
    size_t len = 0, count = 0;

    OK(pal_store_marks(test.store, no_tenant(), session, test.arena, &marks, &len, &test.err));
    for (size_t i = 0; i < len; i++)
        count += marks[i].body.len > 0;
    return count;
}

static void checkpoints_that_cover_it_end(void)
{
    pal_id session = new_session();
    uint64_t early, late;

    say_words(session, "one two " SECRET " four five");
    early = checkpoint(session, 2);
    late = checkpoint(session, 4);
    CHECK_EQ(active_checkpoint(session), late);
    CHECK_EQ(erase(session, 5).checkpoints, 0);
    CHECK_EQ(active_checkpoint(session), late);
    CHECK_EQ(erase(session, 3).checkpoints, 1);
    CHECK_EQ(active_checkpoint(session), early);
    CHECK_EQ(bodies(session), 1);
    CHECK_EQ(erase(session, 1).checkpoints, 1);
    CHECK_EQ(active_checkpoint(session), 0);
    CHECK_EQ(bodies(session), 0);
    CHECK(!is_in_files());
    CHECK_EQ(findings(), 0);
    late = checkpoint(session, 4);
    CHECK_EQ(active_checkpoint(session), late);
    contract_reopen_store();
    if (contract_is_durable())
        CHECK_EQ(active_checkpoint(session), late);
}

static void forks_lose_it_too(void)
{
    pal_id parent = new_session(), near, far, apart;

    say_words(parent, "one " SECRET " three");
    near = fork_at(parent, 3);
    apart = fork_at(parent, 1);
    say(near, "four");
    far = fork_at(near, 4);
    say(apart, "own");
    checkpoint(near, 3);
    checkpoint(far, 2);
    checkpoint(apart, 2);
    CHECK_EQ(erase(far, 2).checkpoints, 2);
    CHECK(is_erased(parent, 2));
    CHECK(is_erased(near, 2));
    CHECK(is_erased(far, 2));
    CHECK(shows(apart, "one own"));
    CHECK_EQ(active_checkpoint(near), 0);
    CHECK_EQ(active_checkpoint(far), 0);
    CHECK_THAT(active_checkpoint(apart), >, 0);
    OK(pal_store_erase(test.store, no_tenant(), parent, NULL, &test.err));
    CHECK(is_erased(near, 2));
    CHECK_EQ(erase(near, 1).messages, 1); /* the parent is only a shell now */
    CHECK_EQ(findings(), 0);
}

static void the_conversation_of_the_service_is_forgotten(void)
{
    pal_id session = new_session();
    pal_record record = {.kind = S("mistral_conversation"), .name = S("n"), .body = S("{}")};
    pal_record other = {.kind = S("other"), .name = S("n"), .body = S("{}")}, gone;

    say(session, "one");
    record.session = other.session = session;
    OK(pal_store_record_put(test.store, no_tenant(), &record, 0, &test.err));
    OK(pal_store_record_put(test.store, no_tenant(), &other, 0, &test.err));
    CHECK_EQ(erase(session, 1).records, 1);
    CHECK_STATUS(pal_store_record_find(test.store, no_tenant(), record.kind, S("n"), test.arena,
                         &gone, &test.err),
            PAL_NOT_FOUND, &test.err);
    OK(pal_store_record_find(
            test.store, no_tenant(), S("other"), S("n"), test.arena, &gone, &test.err));
}

void contract_erase_message(void)
{
    RUN(the_contents_go_and_the_place_stays);
    RUN(a_message_that_is_not_there_cannot_be_erased);
    RUN(sessions_in_the_trash_too);
    RUN(no_search_finds_it);
    RUN(its_words_leave_the_index);
    RUN(blobs_go_with_their_last_message);
    RUN(checkpoints_that_cover_it_end);
    RUN(forks_lose_it_too);
    RUN(the_conversation_of_the_service_is_forgotten);
}
