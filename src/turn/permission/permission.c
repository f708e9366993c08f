/* permission.c - decides whether a turn may run a tool, and keeps the answers that a session
 * remembers.
 *
 * Two parties are not trusted. A client writes the session's metadata and the request, so rules
 * there can only restrict. A tool server describes its own tools, so its hints matter only if no
 * rule of the configuration matches. The strictest of all permissions applies. Only a person's
 * answer turns ASK into ALLOW, and nothing turns DENY into anything else.
 *
 * A remembered answer is a record of the session. One put or drop is one commit, so a crash leaves
 * either the old or the new answer. On any thread; the functions for the store block. */
#include "turn/permission/permission.h"

#include <stdio.h>

#include "base/memory.h"
#include "base/text.h"
#include "palaver/limits.h"
#include "palaver/store_records.h"

#define RECORD_KIND "permission"
#define TOOL_LEN_MAX (PAL_RECORD_NAME_LEN_MAX - PAL_ID_TEXT_LEN - 1)

const char *const pal_permission_names[PAL_PERMISSIONS] = {"none", "allow", "ask", "deny"};

const char *pal_permission_name(pal_permission permission)
{
    return pal_permission_names[(unsigned)permission < PAL_PERMISSIONS ? permission : 0];
}

pal_permission pal_permission_from_name(pal_str name)
{
    for (size_t i = 1; i < PAL_PERMISSIONS; i++)
        if (pal_str_is(name, pal_permission_names[i]))
            return (pal_permission)i;
    return PAL_PERMISSION_NONE;
}

/* ---- Deciding ---- */

static pal_permission first_match(const pal_permission_rules *rules, pal_str tool)
{
    for (size_t i = 0; i < rules->len; i++)
        if (pal_text_matches(tool, rules->items[i].tool))
            return rules->items[i].permission;
    return PAL_PERMISSION_NONE;
}

static pal_permission stricter(pal_permission a, pal_permission b)
{
    return a > b ? a : b;
}

/* Built-in tools only read the session itself. */
static pal_permission by_default(const pal_tool *tool)
{
    return tool->server.len == 0 || tool->is_read_only ? PAL_PERMISSION_ALLOW : PAL_PERMISSION_ASK;
}

pal_permission pal_permission_decide(
        const pal_permission_set *set, const pal_tool *tool, pal_permission memory)
{
    pal_permission permission = first_match(&set->agent, tool->name);

    if (permission == PAL_PERMISSION_NONE)
        permission = first_match(&set->runtime, tool->name);
    if (permission == PAL_PERMISSION_NONE)
        permission = by_default(tool);
    permission = stricter(permission, first_match(&set->session, tool->name));
    if (permission == PAL_PERMISSION_ASK && memory != PAL_PERMISSION_NONE)
        permission = memory;
    return stricter(permission, first_match(&set->request, tool->name));
}

size_t pal_permission_drop_denied(const pal_permission_set *set, pal_tool *tools, size_t len)
{
    size_t kept = 0;

    for (size_t i = 0; i < len; i++)
        if (pal_permission_decide(set, &tools[i], PAL_PERMISSION_NONE) != PAL_PERMISSION_DENY)
            tools[kept++] = tools[i];
    return kept;
}

bool pal_permission_ends_turn(
        const pal_permission_set *set, pal_str tool, bool is_unasked_allowed)
{
    return !is_unasked_allowed || first_match(&set->request, tool) == PAL_PERMISSION_ASK;
}

pal_permission_rules pal_permission_read_rules(pal_json list, pal_arena *arena)
{
    pal_permission_rule *rules;
    pal_json_iter each = pal_json_each(list);
    pal_json value;
    size_t len = 0;

    if (pal_json_type_of(list) != PAL_JSON_ARRAY)
        return (pal_permission_rules){0};
    rules = pal_arena_array(arena, pal_json_count(list) + 1, sizeof(*rules));
    while (rules && pal_json_next(&each, NULL, &value)) {
        pal_permission_rule *rule = &rules[len++];

        rule->tool = pal_json_string(pal_json_find(value, "tool"), arena);
        if (rule->tool.len == 0)
            rule->tool = pal_str_of("*");
        rule->permission = pal_permission_from_name(
                pal_json_string(pal_json_find(value, "do"), arena));
        if (rule->permission == PAL_PERMISSION_NONE)
            rule->permission = PAL_PERMISSION_DENY;
    }
    return (pal_permission_rules){rules, len};
}

/* ---- Remembered answers ---- */

/* A record's name is unique in its tenant, so it begins with the session. */
static pal_str name_of(
        pal_id session, pal_str tool, char out_name[static PAL_RECORD_NAME_LEN_MAX + 1])
{
    char id[PAL_ID_TEXT_SIZE];

    pal_id_to_text(session, id);
    snprintf(out_name, PAL_RECORD_NAME_LEN_MAX + 1, "%s/%.*s", id, PAL_STR_ARG(tool));
    return pal_str_of(out_name);
}

static pal_status check_tool(pal_str tool, pal_error *err)
{
    if (tool.len == 0 || tool.len > TOOL_LEN_MAX || memchr(tool.data, '\0', tool.len))
        return pal_error_set(err, PAL_INVALID,
                "the tool's name has %zu bytes; expected 1 to %d without NUL", tool.len,
                (int)TOOL_LEN_MAX);
    return PAL_OK;
}

pal_status pal_permission_remember(pal_store *store, pal_str tenant, pal_id session, pal_str tool,
        pal_permission permission, pal_error *err)
{
    char name[PAL_RECORD_NAME_LEN_MAX + 1], body[32];
    pal_record record = {.kind = pal_str_of(RECORD_KIND), .session = session};
    pal_status status = check_tool(tool, err);

    if (status != PAL_OK)
        return status;
    if (permission != PAL_PERMISSION_ALLOW && permission != PAL_PERMISSION_DENY)
        return pal_error_set(err, PAL_INVALID,
                "the permission is '%s'; expected allow or deny", pal_permission_name(permission));
    snprintf(body, sizeof(body), "{\"do\":\"%s\"}", pal_permission_name(permission));
    record.name = name_of(session, tool, name);
    record.body = pal_str_of(body);
    return pal_store_record_put(store, tenant, &record, PAL_RECORD_VERSION_ANY, err);
}

pal_status pal_permission_forget(
        pal_store *store, pal_str tenant, pal_id session, pal_str tool, pal_error *err)
{
    char name[PAL_RECORD_NAME_LEN_MAX + 1];
    pal_status status = check_tool(tool, err);

    if (status == PAL_OK)
        status = pal_store_record_drop(
                store, tenant, pal_str_of(RECORD_KIND), name_of(session, tool, name), err);
    if (status == PAL_NOT_FOUND)
        pal_error_set(err, PAL_NOT_FOUND, "the session remembers no answer for '%.*s'",
                PAL_EXCERPT(tool, 80));
    return status;
}

/* A record that cannot be read denies. */
static pal_permission_memory memory_of(const pal_record *record, pal_arena *arena)
{
    pal_permission_memory memory = {.tool = pal_text_after(record->name, PAL_ID_TEXT_LEN + 1),
            .permission = PAL_PERMISSION_DENY,
            .created_at = record->created_at};
    pal_json body;

    if (pal_json_parse(arena, record->body, NULL, &body, NULL) == PAL_OK &&
            pal_json_string_is(pal_json_find(body, "do"), "allow"))
        memory.permission = PAL_PERMISSION_ALLOW;
    return memory;
}

pal_status pal_permission_list(pal_store *store, pal_str tenant, pal_id session, pal_arena *arena,
        pal_permission_memory **out_memories, size_t *out_len, pal_error *err)
{
    pal_record_query query = {.tenant = tenant,
            .kind = pal_str_of(RECORD_KIND),
            .session = session,
            .limit = PAL_PERMISSION_MEMORIES_MAX};
    pal_permission_memory *memories;
    pal_record_page page;
    pal_status status = pal_store_record_list(store, &query, arena, &page, err);

    if (status != PAL_OK)
        return status;
    memories = pal_arena_array(arena, page.len + 1, sizeof(*memories));
    if (!memories)
        return pal_no_memory(err);
    for (size_t i = 0; i < page.len; i++)
        memories[i] = memory_of(&page.items[i], arena);
    *out_memories = memories;
    *out_len = page.len;
    return PAL_OK;
}
