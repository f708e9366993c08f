/* context_dump.c - prints random histories as requests for chat completions, one per line:
 *
 *   context_dump PROFILE COUNT SEED
 *
 * The histories are repaired for the profile, or unchanged if the profile is "raw". */
#include <stdlib.h>
#include "dialect/openai/openai_chat.h"
#include "palaver/context.h"
#include "support/history_random.h"

/* Gives every message a role, since the writer requires one. */
static void drop_roleless(history_random *history)
{
    for (size_t i = history->len; i > 0; i--) {
        if (history->messages[i - 1].role == PAL_ROLE_NONE)
            history_remove(history, i - 1, 1);
    }
}

static bool repaired_for(const char *name, const history_random *history, pal_repair_result *out)
{
    pal_context_input input = {.family = history_family(history->random)};
    return pal_profile_from_name(pal_str_of(name), &input.profile) &&
            pal_context_repair(history->messages, history->len, &input, history->random->arena, out,
                    NULL) == PAL_OK;
}

static bool dump(const char *profile, message_random *random)
{
    static history_random history;
    pal_repair_result list = {0};
    pal_str json;
    history_make(&history, random);
    if (strcmp(profile, "raw") == 0) {
        drop_roleless(&history);
        list.messages = history.messages;
        list.len = history.len;
    } else if (!repaired_for(profile, &history, &list)) {
        return false;
    }
    if (pal_openai_chat_write(list.messages, list.len, random->arena, &json, NULL) != PAL_OK)
        return false;
    if (list.len)
        printf("{\"model\":\"mock-model\",\"messages\":%.*s}\n", PAL_STR_ARG(json));
    return true;
}

int main(int argc, char **argv)
{
    message_random random = {.arena = pal_arena_new(0)};
    bool good = argc == 4 && random.arena;
    unsigned long count = good ? strtoul(argv[2], NULL, 10) : 0;
    unsigned long seed = good ? strtoul(argv[3], NULL, 10) : 0;
    for (unsigned long i = 0; good && i < count; i++) {
        random.state = (seed + i) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        good = dump(argv[1], &random);
        pal_arena_reset(random.arena);
    }
    pal_arena_free(random.arena);
    return good ? 0 : 1;
}
