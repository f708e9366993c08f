/* test_route_key.c - keys, signatures and scopes: PicoClaw's results (tests/data/vectors), and the
 * cases in which ours differ: escapes, other kinds of sessions. */
#include "support/route_fixture.h"

/* ---- PicoClaw's answers ---- */

/* The only vector that we do not follow: its chat id forges a field in PicoClaw's signature. Scope
 * and aliases are the same as PicoClaw's. */
static const struct {
    const char *note;
    const char *signature;
} differing[] = {
        {"value containing | or = is not escaped (collision risk)",
                "v=1|agent=main|channel=matrix|account=default|chat=group:!r%7Csender=x"},
};

static size_t differences;

static void check_allocation(pal_json row)
{
    pal_json input = pal_json_find(row, "input"), expect = pal_json_find(row, "expect"), scope;
    pal_str dimensions[LIST_MAX];
    pal_route_link links[LIST_MAX];
    pal_route_config config = {.dimensions = dimensions, .links = links};
    config.dimensions_len = texts_of(pal_json_find(input, "dimensions"), dimensions);
    config.links_len = links_of(pal_json_find(input, "identity_links"), links);
    pal_route_context context = context_of(pal_json_find(input, "context"));
    context.agent_id = text_of(input, "agent_id");
    pal_route route = routed(&config, &context);

    pal_str signature = text_of(expect, "signature"), key = text_of(expect, "session_key");
    for (size_t i = 0; i < sizeof differing / sizeof *differing; i++) {
        if (!pal_json_string_is(pal_json_find(row, "note"), differing[i].note))
            continue;
        CHECK_DIFFER(route.key, key);
        signature = str(differing[i].signature);
        CHECK_STATUS(pal_route_key_from_alias(signature, arena, &key, NULL), PAL_OK);
        differences++;
    }
    CHECK(is_text(route.signature, signature));
    CHECK(is_text(route.key, key));
    CHECK(is_text(route.scope_key, key));
    CHECK(is_text(route.main_key, text_of(expect, "main_session_key")));
    CHECK(same_texts(&route.main_alias, 1, pal_json_find(expect, "main_aliases")));
    CHECK(same_texts(route.aliases, route.aliases_len, pal_json_find(expect, "session_aliases")));
    if (CHECK_STATUS(pal_json_parse(arena, route.scope, NULL, &scope, NULL), PAL_OK))
        CHECK(pal_json_equal(scope, pal_json_find(expect, "scope")));
    CHECK(is_text(route.matched_by, str("default")));
    CHECK(!route.is_explicit);
}

static void routes_match_picoclaw(void)
{
    differences = 0;
    CHECK_THAT(each_row("picoclaw_allocations.json", "cases", check_allocation), >=, 14);
    CHECK_EQ(differences, sizeof differing / sizeof *differing);
}

static void check_opaque(pal_json row)
{
    pal_str key;
    CHECK_STATUS(pal_route_key_from_alias(text_of(row, "alias"), arena, &key, NULL), PAL_OK);
    CHECK(is_text(key, text_of(row, "key")));
}

static void opaque_keys_match_picoclaw(void)
{
    CHECK_THAT(each_row("picoclaw_keys.json", "opaque", check_opaque), >, 0);
}

static void check_main(pal_json row)
{
    pal_route_context context = {.agent_id = text_of(row, "agent_id")};
    pal_route route = routed(NULL, &context);
    CHECK(is_text(route.main_alias, text_of(row, "alias")));
    CHECK(is_text(route.main_key, text_of(row, "key")));
}

static void main_keys_match_picoclaw(void)
{
    CHECK_THAT(each_row("picoclaw_keys.json", "main", check_main), >, 0);
}

static void check_explicit(pal_json row)
{
    pal_str key = text_of(row, "key"), agent, rest;
    pal_json parsed = pal_json_find(row, "parsed_legacy");
    bool wanted = false, is_split = pal_route_key_split(key, &agent, &rest);
    pal_json_bool(pal_json_find(row, "is_explicit"), &wanted);
    CHECK_EQ(pal_route_key_is_explicit(key), wanted);
    CHECK_EQ(is_split, (pal_json_type_of(parsed) == PAL_JSON_OBJECT));
    CHECK(!is_split || is_text(agent, text_of(parsed, "agent_id")));
    CHECK(!is_split || is_text(rest, text_of(parsed, "rest")));
}

static void explicit_keys_match_picoclaw(void)
{
    CHECK_THAT(each_row("picoclaw_keys.json", "explicit", check_explicit), >, 0);
}

static void check_own(pal_json row)
{
    pal_route_context context = {.session_key = text_of(row, "msg")};
    pal_route route = routed(NULL, &context);
    pal_str wanted = text_of(row, "out");
    bool is_own = pal_str_equal(wanted, context.session_key);
    CHECK_EQ(route.is_explicit, is_own);
    CHECK(is_text(route.key, is_own ? wanted : route.scope_key));
}

static void keys_of_messages_are_resolved_as_in_picoclaw(void)
{
    CHECK_THAT(each_row("picoclaw_misc.json", "resolve_scope_key", check_own), >, 0);
}

/* ---- Ours ---- */

static void no_value_can_forge_a_field(void)
{
    pal_route_config both = {.dimensions = chat_and_sender, .dimensions_len = 2};
    pal_route_config chat = {.dimensions = chat_only, .dimensions_len = 1};
    pal_route_context honest = {
            .channel = str("matrix"), .chat_id = str("!r"), .sender_id = str("x")};
    pal_route_context forger = {.channel = str("matrix"), .chat_id = str("!r|sender=x")};
    pal_route a = routed(&both, &honest), b = routed(&chat, &forger);
    CHECK_DIFFER(a.signature, b.signature);
    CHECK_DIFFER(a.key, b.key);
    CHECK(is_text(b.values[0].value, str("direct:!r|sender=x")));

    /* Also not a value that is already escaped. */
    pal_route_context escaped = {.channel = str("matrix"), .chat_id = str("!r%7Csender=x")};
    pal_route c = routed(&chat, &escaped);
    CHECK(is_text(c.signature,
            str("v=1|agent=main|channel=matrix|account=default|chat=direct:!r%257Csender=x")));
    CHECK_DIFFER(b.key, c.key);
    pal_route_context channel = {.channel = str("x|account=y")};
    CHECK(is_text(routed(NULL, &channel).signature,
            str("v=1|agent=main|channel=x%7Caccount=y|account=default")));
}

static uint64_t random_state = 7;

static unsigned roll(unsigned sides)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((random_state >> 33) % sides);
}

/* Few pieces, so that equal texts and near misses are common. */
static pal_str random_text(void)
{
    static const char *const pieces[] = {"a", "|", "%", "=", ":", "/", "sender=", "|chat=", "%7C",
            "7c", "channel=", "kind=", "A", "\xc3\x84", " "};
    char text[64] = "";
    for (unsigned left = roll(4); left; left--) {
        const char *piece = pieces[roll(sizeof pieces / sizeof *pieces)];
        memcpy(text + strlen(text), piece, strlen(piece) + 1);
    }
    return pal_arena_copy(arena, str(text));
}

static pal_route random_route(void)
{
    pal_route_config config = {.dimensions = all_dimensions, .links = john, .links_len = 1};
    config.dimensions += roll(4);
    config.dimensions_len = roll((unsigned)(all_dimensions + 4 - config.dimensions) + 1);
    config.link_across_channels = roll(2);
    pal_route_context context = {.kind = roll(8) ? PAL_ROUTE_CHAT : (pal_route_kind)(2 + roll(2)),
            .agent_id = random_text(),
            .channel = random_text(),
            .account = random_text(),
            .space_id = random_text(),
            .chat_id = random_text(),
            .chat_type = roll(2) ? str("direct") : str("group"),
            .topic_id = random_text(),
            .sender_id = roll(3) ? random_text() : str("telegram:123"),
            .project_id = str("p"),
            .bead_id = str("b|"),
            .project_path = str("/p"),
            .branch = random_text()};
    return routed(&config, &context);
}

/* Equal signatures mean equal scopes, and the other way round. */
static void different_scopes_have_different_signatures(void)
{
    enum { ROUTES = 1500 };
    static pal_route routes[ROUTES];
    size_t equal = 0, wrong = 0;
    for (size_t i = 0; i < ROUTES; i++)
        routes[i] = random_route();
    for (size_t i = 0; i < ROUTES; i++) {
        for (size_t j = 0; j < i; j++) {
            bool same = pal_str_equal(routes[i].scope, routes[j].scope);
            bool same_signature = pal_str_equal(routes[i].signature, routes[j].signature);
            equal += same;
            wrong += same != same_signature;
            wrong += same_signature != pal_str_equal(routes[i].scope_key, routes[j].scope_key);
        }
    }
    CHECK_EQ(wrong, 0);
    CHECK_THAT(equal, >, 100);
}

static void other_kinds_have_separate_signatures(void)
{
    pal_route_context item = {.kind = PAL_ROUTE_WORK_ITEM,
            .agent_id = str("Coder"),
            .project_id = str(" Loom|x "),
            .bead_id = str("bd-7")};
    pal_route route = routed(NULL, &item);
    CHECK(is_text(route.signature,
            str("v=1|kind=work_item|agent=coder|project_id=Loom%7Cx|bead_id=bd-7")));
    CHECK(is_text(route.scope,
            str("{\"version\":1,\"kind\":\"work_item\",\"agent_id\":\"coder\",\"channel\":\"\","
                "\"account\":\"\",\"dimensions\":[\"project_id\",\"bead_id\"],"
                "\"values\":{\"bead_id\":\"bd-7\",\"project_id\":\"Loom|x\"}}")));
    if (CHECK_EQ(route.aliases_len, 1))
        CHECK(is_text(route.aliases[0], str("agent:coder:main")));
    /* One session, whichever agent answers. */
    item.agent_id = str("other");
    CHECK_STR(route.key, routed(NULL, &item).key);
    item.agent_id = str("");
    CHECK_STR(route.key, routed(NULL, &item).scope_key);
    item.project_id = str("loom|x");
    CHECK_DIFFER(route.key, routed(NULL, &item).key);

    pal_route_context code = {
            .kind = PAL_ROUTE_CODE, .project_path = str("/srv/App/"), .branch = str("main")};
    route = routed(NULL, &code);
    CHECK(is_text(
            route.signature, str("v=1|kind=code|agent=main|project_path=/srv/App|branch=main")));
    code.project_path = str("/");
    code.branch = str("");
    CHECK(is_text(
            routed(NULL, &code).signature, str("v=1|kind=code|agent=main|project_path=/|branch=")));
}

static void a_matrix_room_is_a_chat(void)
{
    pal_route_config config = {.dimensions = sender_only, .dimensions_len = 1};
    pal_route_config as_chat = {.dimensions = chat_only, .dimensions_len = 1};
    pal_route_context room = {.kind = PAL_ROUTE_MATRIX_ROOM,
            .sender_id = str("@a:s"),
            .matrix_room = str("!Room:server")};
    pal_route_context chat = {.channel = str("matrix"),
            .chat_type = str("group"),
            .chat_id = str("!Room:server"),
            .sender_id = str("@a:s")};
    pal_route a = routed(&config, &room);
    CHECK(is_text(a.signature,
            str("v=1|agent=main|channel=matrix|account=default|chat=group:!Room:server")));
    CHECK_STR(a.key, routed(&as_chat, &chat).key);
    CHECK_EQ(a.earlier_keys_len, 1);
    /* The given type of a room does not select another session of it. */
    room.chat_type = chat.chat_type = str("direct");
    CHECK_STR(routed(&config, &room).key, a.key);
    pal_route direct = routed(&as_chat, &chat);
    CHECK_STR(direct.key, a.earlier_keys[0]);
    if (CHECK_EQ(direct.earlier_keys_len, 1))
        CHECK_STR(direct.earlier_keys[0], a.key);
    chat.chat_type = str("Space");
    CHECK_EQ(routed(&as_chat, &chat).earlier_keys_len, 2);
}

static void the_case_of_a_matrix_room_counts(void)
{
    static const char *const rooms[] = {"!room:s", "!ROOM:s", "!Room:s", "!room:S", "!room|:s",
            "!ROOM|:s", "!room%7c:s", "!room%7C:s", "!room", "!ROOM"};
    pal_str keys[sizeof rooms / sizeof *rooms];
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        pal_route_context room = {.kind = PAL_ROUTE_MATRIX_ROOM, .matrix_room = str(rooms[i])};
        keys[i] = routed(NULL, &room).key;
        for (size_t j = 0; j < i; j++)
            CHECK_DIFFER(keys[i], keys[j]);
    }
    /* A rule matches a room however its name is written. */
    pal_route_rule rule = {.agent = str("sol"), .when = {.chat = str("group:!Room:s")}};
    pal_route_config config = {.rules = &rule, .rules_len = 1};
    pal_route_context room = {.kind = PAL_ROUTE_MATRIX_ROOM, .matrix_room = str("!Room:s")};
    CHECK(is_text(routed(&config, &room).agent, str("sol")));
    room.chat_type = str("direct");
    CHECK(is_text(routed(&config, &room).agent, str("sol")));
    room.matrix_room = str("!Rooms:s");
    CHECK(is_text(routed(&config, &room).agent, str("main")));
}

int main(void)
{
    route_begin();
    RUN(routes_match_picoclaw);
    RUN(opaque_keys_match_picoclaw);
    RUN(main_keys_match_picoclaw);
    RUN(explicit_keys_match_picoclaw);
    RUN(keys_of_messages_are_resolved_as_in_picoclaw);
    RUN(no_value_can_forge_a_field);
    RUN(different_scopes_have_different_signatures);
    RUN(other_kinds_have_separate_signatures);
    RUN(a_matrix_room_is_a_chat);
    RUN(the_case_of_a_matrix_room_counts);
    return route_done();
}
