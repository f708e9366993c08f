/* context_override.c - settings of a single session or agent: in its metadata, under "context",
 * with the names of the configuration file. Pure: any thread.
 *
 *   {"context": {"token_strategy": "sliding_window", "compaction": {"prune": false}}} */
#include <inttypes.h>
#include <stddef.h>
#include "base/json/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "palaver/context.h"

typedef enum field_kind {
    FIELD_U32,
    FIELD_U64,
    FIELD_OFF, /* a bool that is written inverted */
} field_kind;

typedef struct field {
    const char *name;
    field_kind kind;
    size_t offset;
    uint64_t max; /* maximum of a number */
} field;

#define AT(member) offsetof(pal_context_settings, member)
#define TOKENS_MAX UINT64_C(1000000000)
#define COUNT_MAX 1000000

static const field fields[] = {
        {"max_tokens", FIELD_U64, AT(max_tokens), TOKENS_MAX},
        {"threshold_percent", FIELD_U32, AT(threshold_percent), 100},
        {"keep_recent_messages", FIELD_U32, AT(keep_recent_messages), COUNT_MAX},
        {"compaction_threshold", FIELD_U64, AT(compaction_threshold), TOKENS_MAX},
        {"low_water_percent", FIELD_U32, AT(low_water_percent), 100},
        {0},
};

static const field compaction_fields[] = {
        {"auto", FIELD_OFF, AT(auto_off), 0},
        {"prune", FIELD_OFF, AT(prune_off), 0},
        {"prune_protect", FIELD_U64, AT(prune_protect_tokens), TOKENS_MAX},
        {"prune_protect_turns", FIELD_U32, AT(prune_protect_turns), COUNT_MAX},
        {"prune_minimum", FIELD_U64, AT(prune_minimum_tokens), TOKENS_MAX},
        {"preserve_recent_tokens", FIELD_U64, AT(preserve_recent_tokens), TOKENS_MAX},
        {"max_output_tokens", FIELD_U64, AT(summary_tokens_max), TOKENS_MAX},
        {0},
};

static pal_status bad_value(const field *f, pal_error *err)
{
    if (f->kind == FIELD_OFF)
        return pal_error_set(err, PAL_INVALID,
                "'%s' in \"context\" must be true or false", f->name);
    return pal_error_set(err, PAL_INVALID,
            "'%s' in \"context\" must be a whole number from 0 to %" PRIu64, f->name, f->max);
}

static pal_status read_field(
        const field *f, pal_json value, pal_context_settings *settings, pal_error *err)
{
    char *at = (char *)settings + f->offset;
    uint64_t number = 0;
    bool is_on = false;
    if (pal_json_type_of(value) == PAL_JSON_NONE)
        return PAL_OK;
    if (f->kind == FIELD_OFF) {
        if (!pal_json_bool(value, &is_on))
            return bad_value(f, err);
        *(bool *)at = !is_on;
        return PAL_OK;
    }
    if (!pal_json_u64(value, &number) || number > f->max)
        return bad_value(f, err);
    if (f->kind == FIELD_U32)
        *(uint32_t *)at = (uint32_t)number;
    else
        *(uint64_t *)at = number;
    return PAL_OK;
}

static pal_status read_fields(
        const field *list, pal_json object, pal_context_settings *settings, pal_error *err)
{
    pal_status status = PAL_OK;
    for (; status == PAL_OK && list->name; list++)
        status = read_field(list, pal_json_find(object, list->name), settings, err);
    return status;
}

static pal_status read_strategy(
        pal_json value, pal_arena *arena, pal_context_settings *settings, pal_error *err)
{
    pal_str name = pal_json_string(value, arena);
    if (pal_json_type_of(value) == PAL_JSON_NONE)
        return PAL_OK;
    if (!pal_strategy_from_name(name, &settings->strategy))
        return pal_error_set(err, PAL_INVALID, "unknown 'token_strategy' '%.*s'",
                PAL_EXCERPT(name, 60));
    return PAL_OK;
}

pal_status pal_context_settings_merge(const pal_context_settings *configured,
        const pal_context_settings *agent, pal_str metadata, pal_context_settings *out_settings,
        pal_error *err)
{
    pal_context_settings merged = agent ? *agent : *configured;
    pal_status status = pal_context_override(metadata, &merged, err);
    if (status == PAL_OK)
        *out_settings = merged;
    return status;
}

pal_status pal_context_override(pal_str metadata, pal_context_settings *settings, pal_error *err)
{
    pal_context_settings changed = *settings;
    pal_json root, context;
    pal_status status = PAL_OK;
    if (metadata.len == 0)
        return PAL_OK;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    status = pal_json_parse(arena, metadata, NULL, &root, err);
    if (status != PAL_OK)
        goto out;
    context = pal_json_find(root, "context");
    status = read_strategy(pal_json_find(context, "token_strategy"), arena, &changed, err);
    if (status != PAL_OK)
        goto out;
    status = read_fields(fields, context, &changed, err);
    if (status != PAL_OK)
        goto out;
    status = read_fields(compaction_fields, pal_json_find(context, "compaction"), &changed, err);
    if (status == PAL_OK)
        *settings = changed;
out:
    pal_arena_free(arena);
    return status;
}
