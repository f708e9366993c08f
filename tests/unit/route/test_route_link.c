/* test_route_link.c - persons with several ids: PicoClaw's results (tests/data/vectors), and our
 * addition, one session on all channels. */
#include "support/route_fixture.h"

static void identity_links_match_picoclaw(void)
{
    pal_json all = pal_json_find(vectors_load(arena, "picoclaw_keys.json"), "identity_links");
    pal_route_link links[LIST_MAX];
    pal_str sender = str("sender");
    pal_route_config config = {.dimensions = &sender, .dimensions_len = 1, .links = links};
    config.links_len = links_of(pal_json_find(all, "links"), links);
    pal_json_iter iter = pal_json_each(pal_json_find(all, "cases"));
    pal_json row;
    size_t rows = 0;
    for (; pal_json_next(&iter, NULL, &row); rows++) {
        pal_route_context context = {
                .channel = text_of(row, "channel"), .sender_id = text_of(row, "raw")};
        pal_route route = routed(&config, &context);
        pal_str wanted = text_of(row, "canonical");
        CHECK_EQ(route.values_len, (wanted.len > 0));
        CHECK(wanted.len == 0 || is_text(route.values[0].value, wanted));
    }
    CHECK_THAT(rows, >, 0);
}

static void a_linked_person_has_one_session_on_all_channels(void)
{
    pal_route_config config = {.dimensions = sender_only,
            .dimensions_len = 1,
            .links = john,
            .links_len = 1,
            .link_across_channels = true};
    pal_route_context telegram = {.channel = str("telegram"),
            .account = str("bot-a"),
            .chat_type = str("direct"),
            .chat_id = str("dm-1"),
            .sender_id = str("123")};
    pal_route_context slack = {.channel = str("slack"),
            .chat_type = str("direct"),
            .chat_id = str("D1"),
            .sender_id = str("u-slack")};
    pal_route a = routed(&config, &telegram), b = routed(&config, &slack);
    CHECK(a.is_linked);
    CHECK_STR(a.key, b.key);
    CHECK_STR(a.scope, b.scope);
    CHECK(is_text(a.signature, str("v=1|agent=main|sender=john")));
    CHECK(is_text(a.scope,
            str("{\"version\":1,\"agent_id\":\"main\",\"channel\":\"\",\"account\":\"\","
                "\"dimensions\":[\"sender\"],\"values\":{\"sender\":\"john\"}}")));
    /* The aliases are still those of the channel, where the older history is. */
    CHECK(is_text(a.aliases[2], str("agent:main:telegram:direct:123")));

    /* A direct chat is identified by the person in it. */
    config.dimensions = chat_and_sender;
    config.dimensions_len = 2;
    CHECK_STR(routed(&config, &telegram).key, a.key);
    config.dimensions_len = 1;
    CHECK_STR(routed(&config, &slack).key, a.key);

    config.link_across_channels = false;
    CHECK_DIFFER(routed(&config, &telegram).key, routed(&config, &slack).key);
}

static void chats_stay_on_their_channel(void)
{
    pal_route_config config = {.dimensions = chat_and_sender,
            .dimensions_len = 2,
            .links = john,
            .links_len = 1,
            .link_across_channels = true};
    pal_route_context linked = {.channel = str("telegram"),
            .chat_type = str("group"),
            .chat_id = str("-100"),
            .sender_id = str("123")};
    CHECK(is_text(routed(&config, &linked).signature,
            str("v=1|agent=main|channel=telegram|account=default|chat=group:-100|sender=john")));
    pal_route_context stranger = {.channel = str("telegram"),
            .chat_type = str("direct"),
            .chat_id = str("9"),
            .sender_id = str("9")};
    CHECK(is_text(routed(&config, &stranger).signature,
            str("v=1|agent=main|channel=telegram|account=default|chat=direct:9|sender=9")));
    /* In a shared group, a linked member is treated like any other. */
    config.dimensions_len = 1;
    pal_route with = routed(&config, &linked);
    linked.sender_id = str("someone");
    CHECK_STR(with.key, routed(&config, &linked).key);
}

static void the_smaller_name_gets_the_id(void)
{
    static const pal_str ids[] = {{"7", 1}};
    static const pal_str with_channel[] = {{"telegram:7", 10}};
    pal_route_link links[] = {{.name = str("bob"), .ids = ids, .ids_len = 1},
            {.name = str("Anna"), .ids = with_channel, .ids_len = 1},
            {.name = str("carl"), .ids = ids, .ids_len = 1}};
    pal_route_config config = {
            .dimensions = sender_only, .dimensions_len = 1, .links = links, .links_len = 3};
    pal_route_context context = {.channel = str("slack"), .sender_id = str("7")};
    pal_route_context telegram = {.channel = str("telegram"), .sender_id = str("7")};
    for (int turn = 0; turn < 3; turn++) {
        CHECK(is_text(routed(&config, &context).values[0].value, str("bob")));
        CHECK(is_text(routed(&config, &telegram).values[0].value, str("anna")));
        pal_route_link first = links[0];
        links[0] = links[1];
        links[1] = links[2];
        links[2] = first;
    }
}

int main(void)
{
    route_begin();
    RUN(identity_links_match_picoclaw);
    RUN(a_linked_person_has_one_session_on_all_channels);
    RUN(chats_stay_on_their_channel);
    RUN(the_smaller_name_gets_the_id);
    return route_done();
}
