/* test_context_override.c - settings for one session, from its metadata. */
#include "palaver/context.h"
#include "support/tap.h"

static pal_context_settings settings;
static pal_error err;

static pal_status override(const char *metadata)
{
    settings = (pal_context_settings){.max_tokens = 7, .keep_recent_messages = 3};
    return pal_context_override(pal_str_of(metadata), &settings, &err);
}

static void empty_metadata_changes_nothing(void)
{
    static const char *const texts[] = {"", "{}", "{\"context\":{}}", "{\"context\":null}",
            "{\"context\":5}", "{\"token_strategy\":\"reset\"}", "{\"context\":{\"other\":[1]}}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        CHECK_STATUS(override(texts[i]), PAL_OK, &err);
        CHECK_EQ(settings.strategy, PAL_STRATEGY_COMPACT);
        CHECK_EQ(settings.max_tokens, 7);
    }
}

static void every_key_is_read(void)
{
    CHECK_STATUS(override("{\"context\":{\"token_strategy\":\"reset\",\"max_tokens\":1,"
                          "\"threshold_percent\":2,\"keep_recent_messages\":3,"
                          "\"compaction_threshold\":4,\"low_water_percent\":5,\"compaction\":{"
                          "\"auto\":false,\"prune\":false,\"prune_protect\":6,"
                          "\"prune_protect_turns\":7,\"prune_minimum\":8,"
                          "\"preserve_recent_tokens\":9,\"max_output_tokens\":10}}}"),
            PAL_OK, &err);
    CHECK_EQ(settings.strategy, PAL_STRATEGY_RESET);
    CHECK_EQ(settings.max_tokens, 1);
    CHECK_EQ(settings.threshold_percent, 2);
    CHECK_EQ(settings.keep_recent_messages, 3);
    CHECK_EQ(settings.compaction_threshold, 4);
    CHECK_EQ(settings.low_water_percent, 5);
    CHECK(settings.auto_off);
    CHECK(settings.prune_off);
    CHECK_EQ(settings.prune_protect_tokens, 6);
    CHECK_EQ(settings.prune_protect_turns, 7);
    CHECK_EQ(settings.prune_minimum_tokens, 8);
    CHECK_EQ(settings.preserve_recent_tokens, 9);
    CHECK_EQ(settings.summary_tokens_max, 10);
    CHECK_STATUS(override("{\"context\":{\"compaction\":{\"auto\":true}}}"), PAL_OK, &err);
    CHECK(!settings.auto_off);
    CHECK_EQ(settings.keep_recent_messages, 3);
}

static void mistakes_are_reported_and_change_nothing(void)
{
    static const char *const texts[][2] = {
            {"{\"context\":{\"max_tokens\":1,\"token_strategy\":\"fold\"}}", "'fold'"},
            {"{\"context\":{\"max_tokens\":1,\"threshold_percent\":101}}", "'threshold_percent'"},
            {"{\"context\":{\"max_tokens\":-1}}", "'max_tokens'"},
            {"{\"context\":{\"max_tokens\":\"1\"}}", "'max_tokens'"},
            {"{\"context\":{\"max_tokens\":1,\"compaction\":{\"auto\":1}}}", "'auto'"},
            {"{\"context\":{\"token_strategy\":3}}", "token_strategy"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        CHECK_FAILS(override(texts[i][0]), PAL_INVALID, &err, texts[i][1]);
        CHECK_EQ(settings.strategy, PAL_STRATEGY_COMPACT);
        CHECK_EQ(settings.max_tokens, 7);
    }
    CHECK_STATUS(override("{"), PAL_INVALID, &err);
}

static void sessions_override_agents_and_agents_the_configuration(void)
{
    pal_context_settings configured = {.max_tokens = 7, .keep_recent_messages = 3};
    pal_context_settings agent = {.strategy = PAL_STRATEGY_RESET, .max_tokens = 9};
    pal_str own = pal_str_of("{\"context\":{\"token_strategy\":\"sliding_window\"}}");
    settings = (pal_context_settings){0};
    CHECK_STATUS(pal_context_settings_merge(&configured, NULL, pal_str_of(""), &settings, &err),
            PAL_OK, &err);
    CHECK_EQ(settings.strategy, PAL_STRATEGY_COMPACT);
    CHECK_EQ(settings.max_tokens, 7);
    CHECK_STATUS(pal_context_settings_merge(&configured, NULL, own, &settings, &err), PAL_OK, &err);
    CHECK_EQ(settings.strategy, PAL_STRATEGY_SLIDING_WINDOW);
    CHECK_EQ(settings.keep_recent_messages, 3);
    CHECK_STATUS(pal_context_settings_merge(&configured, &agent, pal_str_of("{}"), &settings, &err),
            PAL_OK, &err);
    CHECK_EQ(settings.strategy, PAL_STRATEGY_RESET);
    CHECK_EQ(settings.max_tokens, 9);
    CHECK_EQ(settings.keep_recent_messages, 0); /* the agent's settings are complete */
    CHECK_STATUS(
            pal_context_settings_merge(&configured, &agent, own, &settings, &err), PAL_OK, &err);
    CHECK_EQ(settings.strategy, PAL_STRATEGY_SLIDING_WINDOW);
    CHECK_EQ(settings.max_tokens, 9);
    settings.max_tokens = 1;
    CHECK_STATUS(pal_context_settings_merge(&configured, &agent, pal_str_of("{"), &settings, &err),
            PAL_INVALID, &err);
    CHECK_EQ(settings.max_tokens, 1);
    CHECK_EQ(agent.max_tokens, 9);
    CHECK_EQ(configured.max_tokens, 7);
}

int main(void)
{
    RUN(empty_metadata_changes_nothing);
    RUN(every_key_is_read);
    RUN(mistakes_are_reported_and_change_nothing);
    RUN(sessions_override_agents_and_agents_the_configuration);
    return tap_done();
}
