/* test_store_blobs.c - bytes kept by the hash of their content. */
#include "contract/contract.h"

static const char hello_name[] =
        "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

static pal_status get(const char *name, pal_str *out_media_type, pal_str *out_data)
{
    return pal_store_blob_get(
            test.store, no_tenant(), S(name), test.arena, out_media_type, out_data, &test.err);
}

static pal_status get_status(const char *name)
{
    pal_str media_type, data;

    return get(name, &media_type, &data);
}

static void put_hello(void)
{
    char name[PAL_BLOB_NAME_SIZE];

    OK(pal_store_blob_put(test.store, no_tenant(), S("text/plain"), S("hello"), name, &test.err));
    CHECK_STR(name, hello_name);
}

static pal_message file_message(const char *blob, pal_str data)
{
    pal_part *part = pal_arena_array(test.arena, 1, sizeof *part);
    pal_message message = {.role = PAL_ROLE_USER, .parts = part, .parts_len = 1};

    *part = (pal_part){
            .kind = PAL_PART_FILE, .media_type = S("text/plain"), .blob = S(blob), .data = data};
    return message;
}

static pal_status append(pal_id session, pal_message message)
{
    return pal_store_append(test.store, no_tenant(), session, &message, 1, PAL_SEQ_ANY, &test.err);
}

static uint64_t blob_count(void)
{
    pal_store_stats stats = {0};

    OK(pal_store_stat(test.store, test.arena, &stats, &test.err));
    return stats.blobs;
}

static void a_blob_has_the_name_of_its_content(void)
{
    pal_str media_type, data;

    put_hello();
    put_hello();
    CHECK_EQ(blob_count(), 1);
    OK(get(hello_name, &media_type, &data));
    CHECK_STR(media_type, "text/plain");
    CHECK_STR(data, "hello");
}

static void blobs_hold_any_bytes(void)
{
    char name[PAL_BLOB_NAME_SIZE], *bytes = pal_arena_alloc(test.arena, 1 << 20);
    pal_str media_type, data;
    uint64_t size = 9;

    for (size_t i = 0; i < 1 << 20; i++)
        bytes[i] = (char)(i * 31 >> 3);
    OK(pal_store_blob_put(test.store, no_tenant(), S("application/octet-stream"),
            pal_str_make(bytes, 1 << 20), name, &test.err));
    OK(get(name, &media_type, &data));
    CHECK_STR(data, pal_str_make(bytes, 1 << 20));
    OK(pal_store_blob_size(test.store, no_tenant(), S(name), &size, &test.err));
    CHECK_EQ(size, 1 << 20);
    OK(pal_store_blob_put(test.store, no_tenant(), S("x/y"), S(""), name, &test.err));
    OK(get(name, &media_type, &data));
    CHECK_EQ(data.len, 0);
    CHECK_STR(media_type, "x/y");
    OK(pal_store_blob_size(test.store, no_tenant(), S(name), &size, &test.err));
    CHECK_EQ(size, 0);
    GIVES(PAL_NOT_FOUND, pal_store_blob_size(test.store, S("other"), S(name), &size, &test.err));
}

static void unknown_blobs_are_not_found(void)
{
    uint64_t size = 9;

    GIVES(PAL_NOT_FOUND, get_status(hello_name));
    GIVES(PAL_INVALID, get_status("sha256:xyz"));
    GIVES(PAL_INVALID, get_status("hello"));
    GIVES(PAL_NOT_FOUND,
            pal_store_blob_size(test.store, no_tenant(), S(hello_name), &size, &test.err));
    GIVES(PAL_INVALID, pal_store_blob_size(test.store, no_tenant(), S("hello"), &size, &test.err));
    CHECK_EQ(size, 9);
}

static void data_of_a_message_becomes_a_blob(void)
{
    pal_part inner = {.kind = PAL_PART_IMAGE, .media_type = S("image/png"), .data = S("hello")};
    pal_part result = {
            .kind = PAL_PART_TOOL_RESULT, .call_id = S("c"), .parts = &inner, .parts_len = 1};
    pal_message nested = {.role = PAL_ROLE_TOOL, .parts = &result, .parts_len = 1};
    pal_id session = new_session();
    pal_message_page loaded;
    const pal_part *part;
    pal_str media_type, data;

    OK(append(session, file_message(NULL, S("hello"))));
    OK(append(session, nested));
    OK(pal_store_load(test.store, no_tenant(), session, NULL, test.arena, &loaded, &test.err));
    if (!CHECK_EQ(loaded.len, 2))
        return;
    part = &loaded.items[0].parts[0];
    CHECK_STR(part->blob, hello_name);
    CHECK_EQ(part->data.len, 0);
    part = &loaded.items[1].parts[0].parts[0];
    CHECK_STR(part->blob, hello_name);
    CHECK_EQ(part->data.len, 0);
    OK(get(hello_name, &media_type, &data));
    CHECK_STR(data, "hello");
    CHECK_EQ(blob_count(), 1);
}

static void a_message_names_blobs_that_exist(void)
{
    pal_id session = new_session();
    pal_message messages[] = {text_of(PAL_ROLE_USER, "x"), file_message(NULL, S("new")),
            file_message(hello_name, S(NULL))};

    GIVES(PAL_NOT_FOUND,
            pal_store_append(
                    test.store, no_tenant(), session, messages, 3, PAL_SEQ_ANY, &test.err));
    CHECK_CONTAINS(test.err.message, hello_name);
    CHECK_EQ(get_session(session).last_seq, 0);
    CHECK_EQ(blob_count(), 0);
    put_hello();
    OK(append(session, file_message(hello_name, S(NULL))));
    GIVES(PAL_INVALID, append(session, file_message("sha256:nonsense", S(NULL))));
}

static void an_unused_blob_is_swept_after_a_day(void)
{
    pal_id session = new_session();

    put_hello();
    OK(append(session, file_message(NULL, S("used"))));
    pal_clock_set_ms(NOW + DAY);
    OK(pal_store_sweep(test.store, -1, 10, NULL, &test.err));
    OK(get_status(hello_name));
    pal_clock_set_ms(NOW + DAY + 1);
    OK(pal_store_sweep(test.store, -1, 10, NULL, &test.err));
    GIVES(PAL_NOT_FOUND, get_status(hello_name));
    CHECK_EQ(blob_count(), 1);
}

static void a_blob_that_is_put_again_expires_later(void)
{
    put_hello();
    pal_clock_set_ms(NOW + DAY - 5);
    put_hello();
    pal_clock_set_ms(NOW + DAY + 5);
    OK(pal_store_sweep(test.store, -1, 10, NULL, &test.err));
    OK(get_status(hello_name));
}

static void a_blob_over_the_limit_is_refused(void)
{
    pal_store_options options = {.blob_bytes_max = 4};
    char name[PAL_BLOB_NAME_SIZE];
    pal_id session;

    contract_open_with(&options);
    session = new_session();
    GIVES(PAL_LIMIT,
            pal_store_blob_put(test.store, no_tenant(), S("x"), S("12345"), name, &test.err));
    GIVES(PAL_LIMIT, append(session, file_message(NULL, S("12345"))));
    OK(append(session, file_message(NULL, S("1234"))));
    CHECK_EQ(blob_count(), 1);
    CHECK_EQ(get_session(session).last_seq, 1);
}

static void a_refused_append_leaves_no_blob(void)
{
    pal_message message = file_message(NULL, S("hello"));
    pal_id session = new_session();

    GIVES(PAL_CONFLICT,
            pal_store_append(test.store, no_tenant(), session, &message, 1, 9, &test.err));
    CHECK_EQ(blob_count(), 0);
    GIVES(PAL_NOT_FOUND, append(pal_id_new(), message));
    CHECK_EQ(blob_count(), 0);
}

void contract_blobs(void)
{
    RUN(a_blob_has_the_name_of_its_content);
    RUN(blobs_hold_any_bytes);
    RUN(unknown_blobs_are_not_found);
    RUN(data_of_a_message_becomes_a_blob);
    RUN(a_message_names_blobs_that_exist);
    RUN(an_unused_blob_is_swept_after_a_day);
    RUN(a_blob_that_is_put_again_expires_later);
    RUN(a_blob_over_the_limit_is_refused);
    RUN(a_refused_append_leaves_no_blob);
}
