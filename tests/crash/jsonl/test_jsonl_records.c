/* test_jsonl_records.c - records of "jsonl:DIR": they are kept only in the log, survive a torn log,
 * are visible to other handles, and deleted records leave no trace. */
#include "base/clock.h"
#include "jsonl_dir.h"

static const char line_1[] = "{\"role\":\"user\",\"content\":\"one\"}\n";

static bool keep(const char *name, const char *body, pal_id session, int64_t expires_at)
{
    pal_record record = {.kind = S("kind"),
            .name = S(name),
            .body = S(body),
            .session = session,
            .expires_at = expires_at};

    return pal_store_record_put(test.store, S(""), &record, PAL_RECORD_VERSION_ANY, &test.err) ==
            PAL_OK;
}

static bool has(pal_store *in, const char *name, const char *body)
{
    pal_record record;

    return pal_store_record_find(in, S(""), S("kind"), S(name), test.arena, &record, &test.err) ==
            PAL_OK &&
            pal_str_is(record.body, body);
}

static bool is_same(const char *name, pal_str before)
{
    return pal_str_equal(get(name), before);
}

static bool log_has(const char *word)
{
    pal_str log = get(".palaver/log");

    return memmem(log.data, log.len, word, strlen(word)) != NULL;
}

static void picoclaws_files_have_no_part_in_it(void)
{
    pal_str lines, meta;
    pal_id id, none = {{0}};

    begin();
    put("a.jsonl", line_1);
    put_meta("a.meta.json", "a", "");
    if (!reopen())
        return;
    lines = get("a.jsonl");
    meta = get("a.meta.json");
    id = by_key("a");
    CHECK(keep("of nobody", "1", none, 0));
    CHECK(is_same("a.jsonl", lines));
    CHECK(is_same("a.meta.json", meta));
    CHECK(keep("of a", "2", id, 0));
    CHECK(is_same("a.jsonl", lines));
    meta = get("a.meta.json"); /* the log knows the session now, as after any other change */
    CHECK(keep("of a", "3", id, 0));
    CHECK(keep("of a, too", "4", id, 0));
    CHECK_STATUS(pal_store_record_drop(test.store, S(""), S("kind"), S("of a, too"), &test.err),
            PAL_OK, &test.err);
    CHECK(is_same("a.jsonl", lines));
    CHECK(is_same("a.meta.json", meta));
    CHECK_STR(picoclaw_reads("a"), "one|");
    reopen();
    CHECK(has(test.store, "of nobody", "1"));
    CHECK(has(test.store, "of a", "3"));
    CHECK(!has(test.store, "of a, too", "4"));
    CHECK_ID(by_key("a"), id);
    CHECK(shows(id, "one|"));
}

static void a_torn_log_costs_only_the_last_record(void)
{
    pal_str before, after;
    pal_id none = {{0}};

    begin();
    if (!reopen())
        return;
    CHECK(keep("first", "1", none, 0));
    CHECK(keep("changed", "1", none, 0));
    before = get(".palaver/log");
    CHECK(keep("changed", "2", none, 0));
    pal_store_close(test.store);
    test.store = NULL;
    after = get(".palaver/log");
    for (size_t len = before.len; len <= after.len; len++) {
        put_bytes(".palaver/log", after.data, len, O_TRUNC);
        if (!reopen())
            return;
        CHECK(has(test.store, "first", "1"));
        CHECK(has(test.store, "changed", "1") ||
                (len > before.len && has(test.store, "changed", "2")));
        if (len == before.len)
            CHECK(has(test.store, "changed", "1"));
        pal_store_close(test.store);
        test.store = NULL;
    }
    put_bytes(".palaver/log", after.data, after.len, O_TRUNC);
    CHECK(reopen());
    CHECK(has(test.store, "changed", "2"));
}

static void another_handle_sees_them(void)
{
    pal_store *other = NULL;
    pal_id none = {{0}};

    begin();
    if (!reopen() ||
            !CHECK_STATUS(pal_store_open(test.url, NULL, &other, &test.err), PAL_OK, &test.err))
        return;
    CHECK(keep("a", "1", none, 0));
    CHECK(has(other, "a", "1"));
    CHECK(keep("a", "2", none, 0));
    CHECK(has(other, "a", "2"));
    CHECK_STATUS(
            pal_store_record_drop(other, S(""), S("kind"), S("a"), &test.err), PAL_OK, &test.err);
    CHECK(!has(test.store, "a", "2"));
    pal_store_close(other);
}

static void deleted_data_leaves_no_trace(void)
{
    pal_session given = {.key = S("a")};
    pal_id id, none = {{0}};
    int64_t now_ms = pal_clock_now_ms();

    begin();
    if (!reopen())
        return;
    CHECK_STATUS(pal_store_create(test.store, &given, &id, &test.err), PAL_OK, &test.err);
    CHECK(keep("zzerased", "\"zzbody\"", id, 0));
    CHECK(keep("stays", "\"zzstays\"", none, 0));
    CHECK(keep("zzexpired", "1", none, now_ms + 1000));
    CHECK(log_has("zzbody"));
    CHECK_STATUS(pal_store_erase(test.store, S(""), id, NULL, &test.err), PAL_OK, &test.err);
    CHECK(!log_has("zzerased"));
    CHECK(!log_has("zzbody"));
    CHECK(log_has("zzstays"));
    CHECK(log_has("zzexpired"));
    pal_clock_set_ms(now_ms + 2000);
    CHECK_STATUS(pal_store_sweep(test.store, -1, 10, NULL, &test.err), PAL_OK, &test.err);
    CHECK(!log_has("zzexpired"));
    CHECK(log_has("zzstays"));
    pal_clock_set_ms(0);
    reopen();
    CHECK(has(test.store, "stays", "\"zzstays\""));
    CHECK(!has(test.store, "zzexpired", "1"));
}

int main(void)
{
    dir_make();
    RUN(picoclaws_files_have_no_part_in_it);
    RUN(a_torn_log_costs_only_the_last_record);
    RUN(another_handle_sees_them);
    RUN(deleted_data_leaves_no_trace);
    dir_done();
    return tap_done();
}
