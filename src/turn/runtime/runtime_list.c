/* runtime_list.c - lists the turns of a tenant. The list is made on the loop, where turns change.
 */
#include "base/memory.h"
#include "store/store_tenant.h"
#include "turn/runtime/runtime_ask.h"
#include "turn/turn.h"

#include <stdlib.h>
#include <string.h>

typedef struct turns_look {
    pal_ask ask;
    pal_runtime *runtime;
    const pal_turn_query *query;
    pal_str tenant;
    pal_arena *arena;
    pal_turn **found;
    pal_turn_entry *entries;
    size_t limit;
    size_t len;
    bool has_more;
} turns_look;

static bool is_listed(const turns_look *look, const pal_turn *turn)
{
    uint32_t states = look->query->states;

    return !turn->summary.wait && pal_str_equal(turn->request.tenant, look->tenant) &&
            (states == 0 || states & (1u << turn->state)) &&
            memcmp(turn->id.bytes, look->query->after.bytes, sizeof(turn->id.bytes)) > 0;
}

static int compare(const void *a, const void *b)
{
    const pal_turn *const *left = a, *const *right = b;

    return memcmp((*left)->id.bytes, (*right)->id.bytes, sizeof((*left)->id.bytes));
}

static pal_turn_entry entry_of(pal_turn *turn, pal_arena *arena)
{
    const pal_turn *acting = turn->queue.leader ? turn->queue.leader : turn;
    pal_turn_entry entry = {.step = acting->step.number,
            .model = pal_arena_copy(arena, acting->settings.model),
            .label = pal_arena_copy(arena, turn->request.label)};

    pal_runtime_turn_info(turn, &entry.info);
    for (size_t i = 0; acting->phase == PAL_TURN_PHASE_TOOLS && i < acting->step.runs_len; i++) {
        if (acting->step.runs[i].state == PAL_TOOL_RUNNING)
            entry.tool = pal_arena_copy(arena, acting->step.runs[i].name);
    }
    return entry;
}

static void list_on_loop(pal_ask *ask)
{
    turns_look *look = (turns_look *)ask;
    size_t position = 0, len = 0;
    pal_str key;
    void *value;

    look->found = pal_arena_array(look->arena, look->runtime->turns.len + 1, sizeof(*look->found));
    if (!look->found)
        return;
    while (pal_map_next(&look->runtime->turns, &position, &key, &value)) {
        if (is_listed(look, value))
            look->found[len++] = value;
    }
    qsort(look->found, len, sizeof(*look->found), compare);
    look->has_more = len > look->limit;
    look->len = look->has_more ? look->limit : len;
    look->entries = pal_arena_array(look->arena, look->len + 1, sizeof(*look->entries));
    for (size_t i = 0; look->entries && i < look->len; i++)
        look->entries[i] = entry_of(look->found[i], look->arena);
}

pal_status pal_turn_list(pal_runtime *runtime, const pal_turn_query *query, pal_arena *arena,
        pal_turn_entry **out_turns, size_t *out_len, bool *out_more, pal_error *err)
{
    turns_look look = {.ask.run = list_on_loop,
            .runtime = runtime,
            .query = query,
            .tenant = pal_tenant_or_default(query->tenant),
            .arena = arena,
            .limit = query->limit ? query->limit : PAL_TURN_LIST_MAX};

    if (query->limit > PAL_TURN_LIST_MAX)
        return pal_error_set(err, PAL_LIMIT, "a list of %u turns exceeds the limit of %d",
                (unsigned)query->limit, PAL_TURN_LIST_MAX);
    pal_ask_loop(runtime->loop, &look.ask);
    if (!look.entries || pal_arena_failure(arena) != PAL_OK)
        return pal_no_memory(err);
    *out_turns = look.entries;
    *out_len = look.len;
    *out_more = look.has_more;
    return PAL_OK;
}
