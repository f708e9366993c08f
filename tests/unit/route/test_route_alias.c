/* test_route_alias.c - the aliases of a session: those of PicoClaw (tests/data/vectors), and a key
 * that the caller passes. */
#include "support/route_fixture.h"

static void check_direct(pal_json row)
{
    pal_route_context context = {
            .agent_id = text_of(row, "agent"),
            .channel = text_of(row, "channel"),
            .account = text_of(row, "account"),
            .chat_type = str("direct"),
            .sender_id = text_of(row, "peer"),
    };
    pal_route route = routed(NULL, &context);
    if (CHECK_THAT(route.aliases_len, >=, 1))
        CHECK(is_text(route.aliases[0], route.main_alias));
    CHECK(same_texts(route.aliases + 1, route.aliases_len - 1, pal_json_find(row, "aliases")));
}

static void direct_aliases_match_picoclaw(void)
{
    CHECK_THAT(each_row("picoclaw_keys.json", "direct_aliases", check_direct), >, 0);
}

static void check_peer(pal_json row)
{
    pal_route_context context = {
            .agent_id = text_of(row, "agent"),
            .channel = text_of(row, "channel"),
            .chat_type = text_of(row, "kind"),
            .chat_id = text_of(row, "peer"),
    };
    pal_route route = routed(NULL, &context);
    /* Without a chat there is no alias of a chat, whatever the alias builder would return. */
    if (context.chat_id.len == 0)
        CHECK_EQ(route.aliases_len, 1);
    else {
        if (CHECK_EQ(route.aliases_len, 2))
            CHECK(is_text(route.aliases[1], text_of(row, "alias")));
    }
}

static void peer_aliases_match_picoclaw(void)
{
    CHECK_THAT(each_row("picoclaw_keys.json", "peer_alias", check_peer), >, 0);
}

static void an_explicit_key_is_added_to_the_aliases(void)
{
    pal_route_context context = {
            .chat_type = str("direct"), .chat_id = str("u"), .session_key = str(" Custom ")};
    pal_route route = routed(NULL, &context);
    CHECK(!route.is_explicit);
    CHECK_EQ(route.aliases_len, 5);
    CHECK(is_text(route.aliases[4], str("Custom")));
    context.session_key = str("agent:main:direct:u");
    route = routed(NULL, &context);
    CHECK(route.is_explicit);
    CHECK(is_text(route.key, context.session_key));
    if (CHECK_EQ(route.aliases_len, 3))
        CHECK(is_text(route.aliases[1], str("agent:main:unknown:direct:u")));
    CHECK_STR(routed(NULL, &(pal_route_context){0}).key, route.scope_key);
}

int main(void)
{
    route_begin();
    RUN(direct_aliases_match_picoclaw);
    RUN(peer_aliases_match_picoclaw);
    RUN(an_explicit_key_is_added_to_the_aliases);
    return route_done();
}
