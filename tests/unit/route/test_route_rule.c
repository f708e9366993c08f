/* test_route_rule.c - which agent answers: PicoClaw's dispatch (tests/data/vectors), and rules that
 * name a person. */
#include "support/route_fixture.h"

static size_t agents_of(pal_json array, pal_route_agent *out_agents)
{
    pal_str names[LIST_MAX];
    size_t len = texts_of(array, names);
    for (size_t i = 0; i < len; i++) {
        out_agents[i].is_default = names[i].data[names[i].len - 1] == '*';
        out_agents[i].id = pal_str_make(names[i].data, names[i].len - out_agents[i].is_default);
    }
    return len;
}

static pal_route_rule rule_of(pal_json row, pal_str *names)
{
    pal_json when = pal_json_find(row, "when");
    bool mentioned = false;
    pal_route_rule rule = {.name = text_of(row, "name"), .agent = text_of(row, "agent")};
    rule.when.channel = text_of(when, "channel");
    rule.when.account = text_of(when, "account");
    rule.when.space = text_of(when, "space");
    rule.when.chat = text_of(when, "chat");
    rule.when.topic = text_of(when, "topic");
    rule.when.sender = text_of(when, "sender");
    if (pal_json_bool(pal_json_find(when, "mentioned"), &mentioned))
        rule.when.mentioned = mentioned ? PAL_ROUTE_MENTION_YES : PAL_ROUTE_MENTION_NO;
    rule.dimensions = names;
    rule.dimensions_len = texts_of(pal_json_find(row, "session_dimensions"), names);
    return rule;
}

static void check_dispatch(pal_json row)
{
    pal_route_agent agents[LIST_MAX];
    pal_route_rule rules[LIST_MAX];
    pal_str names[LIST_MAX][LIST_MAX];
    pal_route_config config = {.agents = agents, .rules = rules};
    config.agents_len = agents_of(pal_json_find(row, "agents"), agents);
    pal_json_iter iter = pal_json_each(pal_json_find(row, "rules"));
    pal_json rule;
    while (pal_json_next(&iter, NULL, &rule)) {
        rules[config.rules_len] = rule_of(rule, names[config.rules_len]);
        config.rules_len++;
    }
    pal_route_context context = context_of(pal_json_find(row, "inbound"));
    pal_route route = routed(&config, &context);
    CHECK(is_text(route.agent, text_of(row, "agent")));
    pal_str matched_by = text_of(row, "matched_by");
    CHECK(matched_by.len == 0 || is_text(route.matched_by, matched_by));
    if (pal_json_count(pal_json_find(row, "dimensions"))) {
        pal_str dimensions[LIST_MAX];
        for (size_t i = 0; i < route.values_len; i++)
            dimensions[i] = route.values[i].dimension;
        CHECK(same_texts(dimensions, route.values_len, pal_json_find(row, "dimensions")));
    }
}

static void dispatch_matches_picoclaw(void)
{
    size_t rows = each_row("picoclaw_misc.json", "dispatch_rules", check_dispatch);
    CHECK_THAT(rows + each_row("picoclaw_misc.json", "default_agent", check_dispatch), >=, 9);
}

static void rules_match_the_canonical_sender(void)
{
    pal_route_rule rules[] = {
            {.name = str("No Mention"),
                    .agent = str("quiet"),
                    .when = {.sender = str("JOHN"), .mentioned = PAL_ROUTE_MENTION_NO}},
            {.agent = str("loud"), .when = {.mentioned = PAL_ROUTE_MENTION_YES}},
    };
    pal_route_config config = {.links = john, .links_len = 1, .rules = rules, .rules_len = 2};
    pal_route_context context = {
            .agent_id = str("asked"), .channel = str("telegram"), .sender_id = str("123")};
    pal_route route = routed(&config, &context);
    CHECK(is_text(route.agent, str("quiet")));
    CHECK(is_text(route.matched_by, str("dispatch.rule:no mention")));
    CHECK(is_text(route.main_alias, str("agent:quiet:main")));
    context.mentioned = true;
    CHECK(is_text(routed(&config, &context).matched_by, str("dispatch.rule")));
    context.mentioned = false;
    context.sender_id = str("4");
    CHECK(is_text(routed(&config, &context).agent, str("asked")));
}

int main(void)
{
    route_begin();
    RUN(dispatch_matches_picoclaw);
    RUN(rules_match_the_canonical_sender);
    return route_done();
}
