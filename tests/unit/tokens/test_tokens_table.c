/* test_tokens_table.c - vocabularies become tables, errors in a vocabulary are reported with their
 * line, and a table from outside can do no harm, whatever bytes it has. */
#include <pthread.h>
#include <unistd.h>
#include "base/memory.h"
#include "support/tap.h"
#include "support/vocab_random.h"
#include "tokens/tokens_builtin.h"
#include "tokens/compile/compile.h"
#include "tokens/tokens_table.h"

static pal_arena *arena;

static pal_status compile(
        const char *pattern, pal_str tokens, const char *special, pal_str *out, pal_error *err)
{
    pal_vocabulary vocabulary = {.name = pal_str_of("mine"),
            .pattern = pal_str_of(pattern),
            .tokens = tokens,
            .special = pal_str_of(special)};

    return pal_encoding_compile(&vocabulary, arena, out, err);
}

static void write_table(const char *path, pal_str table)
{
    FILE *file = fopen(path, "wb");

    if (CHECK(file)) {
        fwrite(table.data, 1, table.len, file);
        fclose(file);
    }
}

static void ids_match_the_vocabulary(void)
{
    vocab *v = vocab_new(1, "abc", 50);
    pal_str table = {0};
    const pal_encoding *encoding;
    pal_token_ids ids = {0};
    pal_str text = {0};
    pal_error err;

    CHECK_STATUS(compile("gpt2", vocab_text(v, 3, 1000, arena), "<|end|> 7\n<a b> 90000\r\n",
                         &table, &err),
            PAL_OK, &err);
    encoding = (const pal_encoding *)(const void *)table.data;
    CHECK_STR(pal_encoding_name(encoding), "mine");
    CHECK_EQ(pal_encoding_size(encoding), 90001);
    CHECK_STATUS(pal_tokens_encode(encoding, pal_str_of("z"), arena, &ids, &err), PAL_OK, &err);
    if (CHECK_EQ(ids.len, 1))
        CHECK_EQ(ids.ids[0], 1000 + 3 * 'z');
    for (unsigned i = 0; i < v->len; i++) {
        uint32_t id = 1000 + 3 * i;

        CHECK_STATUS(pal_tokens_decode(encoding, &id, 1, arena, &text, &err), PAL_OK, &err);
        CHECK_STR(text, pal_str_make((const char *)v->bytes[i], v->lens[i]));
        id++;
        CHECK_STATUS(pal_tokens_decode(encoding, &id, 1, arena, &text, &err), PAL_INVALID, &err);
    }
    CHECK_CONTAINS(err.message, "'mine'");
    CHECK_STATUS(pal_tokens_decode(encoding, (uint32_t[]){7, 90000}, 2, arena, &text, &err), PAL_OK,
            &err);
    CHECK_STR(text, "<|end|><a b>");
    CHECK_STATUS(
            pal_tokens_encode(encoding, pal_str_of("<|end|>"), arena, &ids, &err), PAL_OK, &err);
    CHECK_THAT(ids.len, >, 1);
    free(v);
}

static pal_vocabulary vocabulary_of(const vocab *v, unsigned id_step, unsigned id_first)
{
    return (pal_vocabulary){.name = pal_str_of("packed"),
            .pattern = pal_str_of("cl100k"),
            .tokens = vocab_text(v, id_step, id_first, arena),
            .special = pal_str_of("<|a b|> 90000\n<|end|> 90001\n")};
}

/* The vocabularies have tokens that merging does not make, and ids with gaps. */
static void a_pack_becomes_the_same_table(void)
{
    for (unsigned i = 0; i < 8; i++) {
        vocab *v = vocab_new(i + 1, "abc", 40 * i);
        pal_vocabulary vocabulary = vocabulary_of(v, i % 3 + 1, i * 100);
        pal_str direct = {0}, pack = {0}, table = {0};
        const pal_encoding *packed;
        pal_error err;

        CHECK_STATUS(pal_encoding_compile(&vocabulary, arena, &direct, &err), PAL_OK, &err);
        CHECK_STATUS(pal_compile_pack(&vocabulary, arena, &pack, &err), PAL_OK, &err);
        packed = (const pal_encoding *)(const void *)pack.data;
        CHECK_STR(pal_encoding_name(packed), "packed");
        CHECK_EQ(pal_encoding_size(packed), 90002);
        CHECK_STATUS(pal_table_unpack(packed, arena, &table, &err), PAL_OK, &err);
        if (!CHECK_EQ(table.len, direct.len))
            break;
        CHECK_EQ(memcmp(table.data, direct.data, direct.len), 0);
        free(v);
    }
}

/* Fails each allocation of the first count, one after another, until it succeeds. */
static void a_first_count_without_memory_can_be_repeated(void)
{
    const pal_encoding *encoding = pal_encoding_find(pal_str_of("r50k_base"));
    uint64_t count = 0;
    uint64_t nth = 0;
    pal_status status;
    pal_error err;

    if (!encoding)
        return; /* built without vocabularies */
    do {
        pal_memory_fail_at(++nth, 0);
        status = pal_tokens_count(encoding, pal_str_of("hello world"), &count, &err);
        pal_memory_fail_at(0, 0);
        if (status != PAL_OK)
            CHECK_STR(err.message, "out of memory");
    } while (status == PAL_NO_MEMORY);
    CHECK_STATUS(status, PAL_OK, &err);
    CHECK_EQ(count, 2);
    CHECK_THAT(nth, >, 10);
}

static void *count_once(void *user)
{
    uint64_t *count = user;

    if (pal_tokens_count(pal_encoding_find(pal_str_of("claude")), pal_str_of("hello world"), count,
                NULL) != PAL_OK)
        *count = 0;
    return NULL;
}

static void threads_share_a_first_count(void)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    uint64_t counts[THREADS] = {0};

    if (!pal_encoding_find(pal_str_of("claude")))
        return; /* built without vocabularies */
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, count_once, &counts[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(counts[i], 2);
    }
}

/* Whether a vocabulary with these lines after valid ones is refused with this reason: '#' stands
 * for the first of these lines, '@' for the second one. */
static bool is_refused(const char *tokens, const char *special, const char *why)
{
    vocab *v = vocab_new(1, "ab", 7);
    pal_str good = vocab_text(v, 1, 0, arena);
    char *text = pal_arena_alloc(arena, good.len + strlen(tokens) + 1);
    char want[40];
    pal_str table;
    pal_error err = {0};
    pal_status status;

    memcpy(text, good.data, good.len);
    memcpy(text + good.len, tokens, strlen(tokens));
    status = compile("gpt2", pal_str_make(text, good.len + strlen(tokens)), special, &table, &err);
    if (*why == '#' || *why == '@')
        snprintf(want, sizeof(want), "line %u:", v->len + 1 + (*why == '@'));
    else
        snprintf(want, sizeof(want), "%s", why);
    free(v);
    if (status == PAL_INVALID && strstr(err.message, want))
        return true;
    printf("# %d %s\n", status, err.message);
    return false;
}

static void bad_vocabularies_are_refused(void)
{
    pal_str table;
    pal_error err;
    vocab *v = vocab_new(1, "ab", 7);

    CHECK(is_refused("!!! 900\n", "", "#"));
    CHECK(is_refused("YWFhYWFh\n", "", "#"));
    CHECK(is_refused("YWFhYWFh -1\n", "", "#"));
    CHECK(is_refused("YWFhYWFh 99999999999\n", "", "#"));
    CHECK(is_refused("enp6eno= 257\n", "", "duplicate"));
    CHECK(is_refused("enp6eno= 300\nenp6eno= 301\n", "", "@"));
    CHECK(is_refused("YQ== 500\n", "", "duplicate"));
    CHECK(is_refused("", "<|end|>\n", "line 1:"));
    CHECK(is_refused("", "a 1\n <|end|>5\n", "line 2:"));
    /* "wxyz" before "yz": its parts come later. */
    CHECK(is_refused("d3g= 300\nd3h5eg== 301\neXo= 302\n", "", "@"));
    CHECK_FAILS(compile("gpt3", vocab_text(v, 1, 0, arena), "", &table, &err), PAL_INVALID, &err,
            "'gpt3'");
    CHECK_FAILS(
            compile("gpt2", pal_str_of("YQ== 1\n"), "", &table, &err), PAL_INVALID, &err, "byte");
    CHECK_STATUS(compile("gpt2", pal_str_of(""), "", &table, &err), PAL_INVALID, &err);
    free(v);
}

static void use(const pal_encoding *encoding)
{
    static const char text[] =
            "abab cabba  \n\n aaaaaaaabbbbbbb 123 \xe4\xb8\xad'sA \xff\x80 bcbcbc";
    pal_token_ids ids = {0};
    pal_str back;
    uint64_t count;
    size_t len;
    pal_arena *mine = pal_arena_new(0);

    CHECK_STATUS(pal_tokens_count(encoding, pal_str_of(text), &count, NULL), PAL_OK);
    CHECK_STATUS(pal_tokens_encode(encoding, pal_str_of(text), mine, &ids, NULL), PAL_OK);
    (void)!pal_tokens_decode(encoding, ids.ids, ids.len, mine, &back, NULL);
    CHECK_STATUS(pal_tokens_cut(encoding, pal_str_of(text), 9, &len, NULL), PAL_OK);
    pal_arena_free(mine);
}

static void a_table_file_is_mapped(void)
{
    const char *path = "test_tokens_table.tmp";
    vocab *v = vocab_new(5, "abc", 100);
    pal_str table = {0};
    pal_encoding *encoding = NULL;
    pal_error err;

    CHECK_STATUS(compile("o200k", vocab_text(v, 1, 0, arena), "", &table, &err), PAL_OK, &err);
    write_table(path, table);
    if (CHECK_STATUS(pal_encoding_open(path, &encoding, &err), PAL_OK, &err)) {
        CHECK_STR(pal_encoding_name(encoding), "mine");
        use(encoding);
        pal_encoding_close(encoding);
    }
    pal_encoding_close(NULL);
    write_table(path, pal_str_make(table.data, table.len - 1));
    CHECK_STATUS(pal_encoding_open(path, &encoding, &err), PAL_CORRUPT, &err);
    write_table(path, pal_str_of("hello"));
    CHECK_STATUS(pal_encoding_open(path, &encoding, &err), PAL_CORRUPT, &err);
    write_table(path, pal_str_of(""));
    CHECK_STATUS(pal_encoding_open(path, &encoding, &err), PAL_INVALID, &err);
    unlink(path);
    CHECK_STATUS(pal_encoding_open(path, &encoding, &err), PAL_NOT_FOUND, &err);
    CHECK_STATUS(pal_encoding_open("/", &encoding, &err), PAL_INVALID, &err);
    free(v);
}

/* A table that was changed anywhere is refused or harmless; the sanitizers check it. */
static void a_damaged_table_is_harmless(void)
{
    vocab *v = vocab_new(5, "abc", 60);
    pal_str table = {0};
    uint64_t seed = 17;
    unsigned refused = 0;
    unsigned char *copy;

    CHECK_STATUS(compile("o200k", vocab_text(v, 2, 0, arena), "<s> 4\n", &table, NULL), PAL_OK);
    copy = pal_arena_alloc(arena, table.len);
    for (int i = 0; i < 6000; i++) {
        size_t at = i % 3 == 0 ? vocab_next(&seed) % sizeof(struct pal_encoding)
                               : vocab_next(&seed) % table.len;

        memcpy(copy, table.data, table.len);
        copy[at] = i % 2 ? (unsigned char)vocab_next(&seed)
                         : (unsigned char)(copy[at] ^ 1u << vocab_next(&seed) % 8);
        if (i % 5 == 0)
            copy[vocab_next(&seed) % table.len] = 0xff;
        if (pal_table_check(copy, table.len, NULL) == PAL_OK)
            use((const pal_encoding *)(void *)copy);
        else
            refused++;
    }
    CHECK_THAT(refused, >, 1000);
    for (size_t len = 0; len < table.len; len += 1 + len / 20)
        CHECK_STATUS(pal_table_check((const unsigned char *)table.data, len, NULL), PAL_CORRUPT);
    free(v);
}

static void built_in_tables_are_found_by_name(void)
{
    CHECK(!pal_encoding_find(pal_str_of("nonsense")));
    CHECK(!pal_encoding_at(pal_builtins_len));
    for (size_t i = 0; i < pal_builtins_len; i++) {
        const struct pal_builtin *builtin = &pal_builtins[i];
        const pal_encoding *encoding = pal_encoding_at(i);
        const pal_encoding *table = NULL;
        const pal_encoding *again = NULL;

        CHECK_PTR(pal_encoding_find(pal_str_of(builtin->name)), encoding);
        CHECK_STR(pal_encoding_name(encoding), builtin->name);
        CHECK_STATUS(pal_table_ready(encoding, &table, NULL), PAL_OK);
        CHECK_STATUS(pal_table_check((const unsigned char *)table, table->size, NULL), PAL_OK);
        CHECK_STATUS(pal_table_ready(encoding, &again, NULL), PAL_OK);
        CHECK_PTR(again, table);
        use(encoding);
    }
}

static void an_allocation_failure_is_reported(void)
{
    vocab *v = vocab_new(5, "abc", 30);
    pal_str tokens = vocab_text(v, 1, 0, arena);
    bool was_fine = false;

    for (uint64_t nth = 1; nth < 200 && !was_fine; nth++) {
        pal_vocabulary vocabulary = {
                .name = pal_str_of("mine"), .pattern = pal_str_of("gpt2"), .tokens = tokens};
        pal_arena *mine = pal_arena_new(0);
        pal_str table;
        pal_status status;

        pal_memory_fail_at(nth, 0);
        status = pal_encoding_compile(&vocabulary, mine, &table, NULL);
        if (status == PAL_OK)
            status = pal_table_check((const unsigned char *)table.data, table.len, NULL);
        was_fine = !pal_memory_failed();
        CHECK_EQ(status, (was_fine ? PAL_OK : PAL_NO_MEMORY));
        pal_memory_fail_at(0, 0);
        pal_arena_free(mine);
    }
    CHECK(was_fine);
    free(v);
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(ids_match_the_vocabulary);
    RUN(a_pack_becomes_the_same_table);
    RUN(a_first_count_without_memory_can_be_repeated);
    RUN(threads_share_a_first_count);
    RUN(bad_vocabularies_are_refused);
    RUN(a_table_file_is_mapped);
    RUN(a_damaged_table_is_harmless);
    RUN(built_in_tables_are_found_by_name);
    RUN(an_allocation_failure_is_reported);
    pal_arena_free(arena);
    return tap_done();
}
