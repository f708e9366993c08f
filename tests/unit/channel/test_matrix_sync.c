/* test_matrix_sync.c - responses with the events of many rooms. */
#include "channel/matrix/matrix_sync.h"
#include "channel/matrix/matrix_url.h"
#include "support/tap.h"

#define TEXT_EVENT(id, body)                                                                       \
    "{\"type\":\"m.room.message\",\"event_id\":\"" id "\",\"sender\":\"@a:hs\","                  \
    "\"content\":{\"msgtype\":\"m.text\",\"body\":\"" body "\"}}"

static pal_arena *arena;

static pal_matrix_sync read_sync(const char *text)
{
    pal_matrix_sync sync;
    pal_error err = {0};
    CHECK_STATUS(pal_matrix_sync_read(pal_str_of(text), arena, &sync, &err), PAL_OK, &err);
    return sync;
}

static void rooms_come_with_their_events(void)
{
    pal_matrix_sync sync = read_sync(
            "{\"next_batch\":\"s2\",\"rooms\":{\"join\":{\"!a:hs\":{\"summary\":{"
            "\"m.joined_member_count\":2,\"m.invited_member_count\":0},\"state\":{\"events\":["
            "{\"type\":\"m.room.name\",\"sender\":\"@a:hs\",\"event_id\":\"$n\",\"state_key\":\"\","
            "\"content\":{\"name\":\"Kitchen\"}}]},\"timeline\":{\"limited\":true,\"prev_batch\":"
            "\"p1\",\"events\":[" TEXT_EVENT("$1", "one") ",{}," TEXT_EVENT("$2", "two")
            "]}}},\"invite\":{\"!b:hs\":{\"invite_state\":{\"events\":[{\"type\":\"m.room.member\","
            "\"sender\":\"@a:hs\",\"state_key\":\"@bot:hs\",\"content\":{\"membership\":\"invite\""
            "}}]}}},\"leave\":{\"!c:hs\":{\"timeline\":{\"events\":[]}}}}}");
    CHECK_STR(sync.next_batch, "s2");
    if (!CHECK_EQ(sync.rooms_len, 3))
        return;
    const pal_matrix_room_news *news = sync.rooms;
    CHECK_STR(news[0].room, "!a:hs");
    CHECK_EQ(news[0].section, PAL_MATRIX_JOINED);
    CHECK(news[0].is_limited);
    CHECK_STR(news[0].prev_batch, "p1");
    CHECK(news[0].has_joined);
    CHECK_EQ(news[0].joined, 2);
    CHECK_EQ(news[0].state_len, 1);
    if (CHECK_EQ(news[0].timeline_len, 2)) {
        CHECK_STR(news[0].timeline[0].text, "one");
        CHECK_STR(news[0].timeline[1].text, "two");
    }
    CHECK_EQ(news[1].section, PAL_MATRIX_INVITED);
    CHECK_EQ(news[1].state_len, 1);
    CHECK_EQ(news[2].section, PAL_MATRIX_LEFT);
}

static void the_state_after_the_timeline_is_preferred(void)
{
    pal_matrix_sync sync = read_sync(
            "{\"next_batch\":\"s\",\"rooms\":{\"join\":{\"!a:hs\":{\"state\":{\"events\":[]},"
            "\"state_after\":{\"events\":[{\"type\":\"m.room.name\",\"sender\":\"@a:hs\","
            "\"state_key\":\"\",\"content\":{\"name\":\"After\"}}]}}}}}");
    if (CHECK_EQ(sync.rooms_len, 1) && CHECK_EQ(sync.rooms[0].state_len, 1))
        CHECK_STR(sync.rooms[0].state[0].text, "After");
}

static void account_data_are_found(void)
{
    pal_matrix_sync sync = read_sync(
            "{\"next_batch\":\"s\",\"account_data\":{\"events\":[{\"type\":\"m.direct\","
            "\"content\":{\"@a:hs\":[\"!x:hs\",7],\"@b:hs\":[\"!y:hs\"]}},{\"type\":"
            "\"m.ignored_user_list\",\"content\":{\"ignored_users\":{\"@evil:hs\":{}}}}]}}");
    CHECK(pal_matrix_direct_has(sync.direct, pal_str_of("!y:hs")));
    CHECK(!pal_matrix_direct_has(sync.direct, pal_str_of("!z:hs")));
    CHECK(!pal_matrix_direct_has((pal_json){0}, pal_str_of("!z:hs")));
    CHECK_EQ(pal_json_count(sync.ignored), 1);
    pal_buf out;
    pal_buf_init(&out, 4096);
    pal_matrix_direct_add(sync.direct, pal_str_of("@a:hs"), pal_str_of("!z:hs"), &out);
    CHECK_STR(pal_buf_str(&out), "{\"@a:hs\":[\"!x:hs\",7,\"!z:hs\"],\"@b:hs\":[\"!y:hs\"]}");
    pal_buf_clear(&out);
    pal_matrix_direct_add((pal_json){0}, pal_str_of("@a:hs"), pal_str_of("!z:hs"), &out);
    CHECK_STR(pal_buf_str(&out), "{\"@a:hs\":[\"!z:hs\"]}");
    pal_buf_done(&out);
}

static void damaged_rooms_are_left_out(void)
{
    pal_matrix_sync sync =
            read_sync("{\"next_batch\":\"s\",\"rooms\":{\"join\":{\"kitchen\":{},\"!a:hs\":7,"
                      "\"!b:hs\":{\"timeline\":{\"events\":{\"a\":1}},\"summary\":[]}},\"invite\":"
                      "[1],\"leave\":null},\"account_data\":7}");
    if (CHECK_EQ(sync.rooms_len, 1))
        CHECK_STR(sync.rooms[0].room, "!b:hs");
}

static void other_texts_are_no_sync(void)
{
    pal_matrix_sync sync;
    pal_error err = {0};
    CHECK_FAILS(pal_matrix_sync_read(pal_str_of("<html>"), arena, &sync, &err), PAL_PROVIDER,
            &err, "is not JSON");
    CHECK_FAILS(pal_matrix_sync_read(pal_str_of("[]"), arena, &sync, &err), PAL_PROVIDER, &err,
            "not a JSON object");
    CHECK_FAILS(pal_matrix_sync_read(pal_str_of("{}"), arena, &sync, &err), PAL_PROVIDER, &err,
            "next_batch");
}

static void pages_go_back_in_time(void)
{
    pal_matrix_page page;
    pal_error err = {0};
    pal_str text = pal_str_of("{\"chunk\":[" TEXT_EVENT("$2", "two") ",{\"type\":\"m.x\"}," TEXT_EVENT(
            "$1", "one") "],\"end\":\"t9\"}");
    CHECK_STATUS(pal_matrix_page_read(text, arena, &page, &err), PAL_OK, &err);
    CHECK_EQ(page.raw_len, 3);
    CHECK_EQ(page.events_len, 2);
    CHECK_STR(page.end, "t9");
    CHECK_STATUS(pal_matrix_page_read(pal_str_of("{\"chunk\":[]}"), arena, &page, &err), PAL_OK);
    CHECK_STR(page.end, "");
    CHECK_FAILS(pal_matrix_page_read(pal_str_of("{}"), arena, &page, &err), PAL_PROVIDER, &err,
            "chunk");
}

static void ids_in_urls_are_escaped(void)
{
    pal_buf url;
    pal_str texts[] = {pal_str_of("!a/../b:hs"), pal_str_of("$e?x=1#")};
    pal_buf_init(&url, PAL_MATRIX_URL_LEN_MAX);
    pal_matrix_url_write(&url, pal_str_of("https://hs//"), "/rooms/{}/event/{}", texts, 2);
    pal_matrix_url_add(&url, "from", pal_str_of("a b&c"));
    pal_matrix_url_add(&url, "to", pal_str_of("t"));
    CHECK_STR(pal_buf_str(&url),
            "https://hs/rooms/%21a%2F..%2Fb%3Ahs/event/%24e%3Fx%3D1%23?from=a%20b%26c&to=t");
    pal_buf_done(&url);
}

static void urls_of_media_are_checked(void)
{
    pal_str server, id;
    CHECK(pal_matrix_url_media(pal_str_of("mxc://hs.example:8448/AbC_-9"), &server, &id));
    CHECK_STR(server, "hs.example:8448");
    CHECK_STR(id, "AbC_-9");
    CHECK(!pal_matrix_url_media(pal_str_of("https://hs/a"), &server, &id));
    CHECK(!pal_matrix_url_media(pal_str_of("mxc://hs/a/../b"), &server, &id));
    CHECK(!pal_matrix_url_media(pal_str_of("mxc://hs/"), &server, &id));
    CHECK(!pal_matrix_url_media(pal_str_of("mxc://h s/a"), &server, &id));
    CHECK(!pal_matrix_url_media(pal_str_of("mxc://hs"), &server, &id));
}

static void filters_leave_out_our_own_events(void)
{
    pal_buf filter;
    pal_json json;
    pal_buf_init(&filter, 8192);
    pal_matrix_filter_write(pal_str_of("@bot:hs"), false, &filter);
    CHECK_CONTAINS(pal_buf_str(&filter), "\"limit\":100,");
    CHECK_CONTAINS(pal_buf_str(&filter), "\"not_senders\":[\"@bot:hs\"]");
    CHECK_STATUS(pal_json_parse(arena, pal_buf_str(&filter), NULL, &json, NULL), PAL_OK);
    pal_buf_clear(&filter);
    pal_matrix_filter_write(pal_str_of("@bot:hs"), true, &filter);
    CHECK_CONTAINS(pal_buf_str(&filter), "\"limit\":1,");
    pal_buf_clear(&filter);
    pal_matrix_filter_write_timeline(pal_str_of("@bot:hs"), &filter);
    CHECK_BEGINS(pal_buf_str(&filter), "{\"limit\":100");
    pal_buf_done(&filter);
}

int main(void)
{
    arena = pal_arena_new(0);
    RUN(rooms_come_with_their_events);
    RUN(the_state_after_the_timeline_is_preferred);
    RUN(account_data_are_found);
    RUN(damaged_rooms_are_left_out);
    RUN(other_texts_are_no_sync);
    RUN(pages_go_back_in_time);
    RUN(ids_in_urls_are_escaped);
    RUN(urls_of_media_are_checked);
    RUN(filters_leave_out_our_own_events);
    pal_arena_free(arena);
    return tap_done();
}
