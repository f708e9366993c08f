/* bench_route.c - measures how many messages one core routes per second. The goal is a million.
 *
 * Each figure is the best of several rounds, so that other work of the machine changes little. */
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "palaver/palaver.h"

#define ROUNDS 15
#define ROUND_US 40000
#define RULES 20
#define PEOPLE 1000

typedef struct load {
    const char *name;
    pal_route_config config;
    pal_route_context context;
} load;

static pal_str str(const char *text)
{
    return pal_str_of(text);
}

/* Returns routes per second; 0 if a message cannot be routed. */
static double measure(const load *l, pal_arena *arena)
{
    pal_route_settings *settings = NULL;
    double best = 0;
    if (pal_route_settings_new(&l->config, &settings, NULL) != PAL_OK)
        return 0;
    for (int round = 0; round < ROUNDS; round++) {
        size_t times = 0;
        int64_t start = pal_clock_monotonic_us(), spent;
        do {
            for (int i = 0; i < 256; i++, times++) {
                pal_route route;
                pal_arena_reset(arena);
                if (pal_route_decide(settings, &l->context, arena, &route, NULL) != PAL_OK)
                    goto out;
            }
            spent = pal_clock_monotonic_us() - start;
        } while (spent < ROUND_US);
        double rate = (double)times * 1e6 / (double)spent;
        best = rate > best ? rate : best;
    }
out:
    pal_route_settings_free(settings);
    return best;
}

/* Rules of which only the last one matches, and linked people, one of whom is the sender. */
static void fill(pal_route_rule *rules, pal_route_link *links, pal_str *ids)
{
    static char texts[RULES + PEOPLE][32];
    for (size_t i = 0; i < RULES; i++) {
        snprintf(texts[i], sizeof texts[i], "group:-100%zu", i);
        rules[i] = (pal_route_rule){.name = str("rule"),
                .agent = str("support"),
                .when = {.channel = str("telegram"), .chat = str(texts[i])}};
    }
    for (size_t i = 0; i < PEOPLE; i++) {
        char *text = texts[RULES + i];
        snprintf(text, sizeof *texts, "telegram:%zu", 5000 + i);
        ids[i] = str(text);
        links[i] = (pal_route_link){.name = str(text), .ids = &ids[i], .ids_len = 1};
    }
}

int main(void)
{
    static pal_route_rule rules[RULES];
    static pal_route_link links[PEOPLE];
    static pal_str ids[PEOPLE];
    const pal_str both[] = {str("chat"), str("sender")};
    fill(rules, links, ids);
    const load loads[] = {
            {"a group's chat", {.dimensions = both, .dimensions_len = 1},
                    {.channel = str("slack"),
                            .account = str("workspace-a"),
                            .chat_id = str("C001"),
                            .chat_type = str("channel"),
                            .sender_id = str("U001")}},
            {"a direct chat", {.dimensions = both, .dimensions_len = 2},
                    {.channel = str("telegram"),
                            .chat_id = str("dm-123"),
                            .chat_type = str("direct"),
                            .sender_id = str("User123")}},
            {"20 rules, 1000 people",
                    {.dimensions = both,
                            .dimensions_len = 2,
                            .rules = rules,
                            .rules_len = RULES,
                            .links = links,
                            .links_len = PEOPLE},
                    {.channel = str("Telegram"),
                            .chat_id = str("-10019"),
                            .topic_id = str("42"),
                            .chat_type = str("group"),
                            .sender_id = str("5007")}},
            {"a work item", {.dimensions_len = 0},
                    {.kind = PAL_ROUTE_WORK_ITEM,
                            .project_id = str("palaver"),
                            .bead_id = str("pal-1234")}},
    };
    pal_arena *arena = pal_arena_new(0);
    bool routed = arena != NULL;
    printf("%-24s %12s\n", "message", "routes/s");
    for (size_t i = 0; routed && i < sizeof loads / sizeof *loads; i++) {
        double rate = measure(&loads[i], arena);
        printf("%-24s %12.0f\n", loads[i].name, rate);
        routed = rate > 0;
    }
    pal_arena_free(arena);
    return routed ? 0 : 1;
}
