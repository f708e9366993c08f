/* lane_inbox.c - writes and reads a request that waits in the inbox. The item has no lane, and no
 * `on_done`, which could not be called after a restart. An item has the same size limit as a
 * message. Pure functions.
 *
 * Each object is one table, which is used in both directions. Members that are zero are left out.
 * Items can be older than this version: an absent member reads as zero, and a member must never get
 * another meaning. */
#include "turn/lane/lane_inbox.h"

#include "base/buf.h"
#include "base/json/json.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "turn/permission/permission.h"

#define LEN(list) (sizeof(list) / sizeof((list)[0]))

/* ---- The head ---- */

#define HEAD(name, type, field)                                                                    \
    {name, PAL_MEMBER_##type, 1, .offset = offsetof(pal_inbox_head, field)}
static const pal_member head_members[] = {
        HEAD("turn", ID, turn),
        HEAD("first", ID, first),
        HEAD("tries", U32, tries),
        HEAD("final", FLAG, is_final),
        HEAD("on", U64, on_seq),
        HEAD("handed", FLAG, is_handed),
        HEAD("spent", U32, spent),
        HEAD("outbox", STRING, channel.outbox),
        HEAD("deliver", JSON, channel.deliver),
        HEAD("also", JSON, channel.also),
        HEAD("note", U64, channel.is_note),
        HEAD("questions", JSON, questions),
        HEAD("handles", JSON, handles),
};
static const pal_member_table head_table = {head_members, LEN(head_members), NULL, NULL};

/* ---- The budget ---- */

static pal_status read_owner(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    pal_budget *budget = record;
    pal_str owner = pal_json_string(value, arena);

    (void)member;
    (void)err;
    memset(budget->owner, 0, sizeof(budget->owner));
    if (owner.len > 0 && owner.len < sizeof(budget->owner))
        memcpy(budget->owner, owner.data, owner.len);
    return PAL_OK;
}

static void write_owner(const pal_member *member, pal_json_writer *writer, const void *record)
{
    pal_put_str_if(writer, member->name, pal_str_of(((const pal_budget *)record)->owner));
}

#define BUDGET(name, type, field)                                                                  \
    {name, PAL_MEMBER_##type, 1, .offset = offsetof(pal_budget, field)}
static const pal_member budget_members[] = {
        BUDGET("session_tokens", U64, session_tokens),
        BUDGET("session_cost_micros", I64, session_cost_micros),
        BUDGET("tenant_tokens", U64, tenant_tokens),
        BUDGET("tenant_cost_micros", I64, tenant_cost_micros),
        BUDGET("since", I64, since),
        BUDGET("owner", OTHER, owner),
};
static const pal_member_table budget_table = {
        budget_members, LEN(budget_members), read_owner, write_owner};

/* ---- The context settings ---- */

static pal_status read_strategy(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    (void)member;
    (void)err;
    pal_strategy_from_name(
            pal_json_string(value, arena), &((pal_context_settings *)record)->strategy);
    return PAL_OK;
}

static void write_strategy(const pal_member *member, pal_json_writer *writer, const void *record)
{
    const pal_context_settings *settings = record;

    pal_put_str_if(writer, member->name, pal_str_of(pal_strategy_name(settings->strategy)));
}

#define CONTEXT(name, type)                                                                        \
    {#name, PAL_MEMBER_##type, 1, .offset = offsetof(pal_context_settings, name)}
static const pal_member context_members[] = {
        CONTEXT(strategy, OTHER),
        CONTEXT(auto_off, FLAG),
        CONTEXT(prune_off, FLAG),
        CONTEXT(max_tokens, U64),
        CONTEXT(threshold_percent, U32),
        CONTEXT(keep_recent_messages, U32),
        CONTEXT(compaction_threshold, U64),
        CONTEXT(low_water_percent, U32),
        CONTEXT(preserve_recent_tokens, U64),
        CONTEXT(summary_tokens_max, U64),
        CONTEXT(prune_protect_tokens, U64),
        CONTEXT(prune_minimum_tokens, U64),
        CONTEXT(prune_protect_turns, U32),
};
static const pal_member_table context_table = {
        context_members, LEN(context_members), read_strategy, write_strategy};

/* ---- Tools, permissions and messages ---- */

#define TOOL(name, type, field) {name, PAL_MEMBER_##type, 1, .offset = offsetof(pal_tool, field)}
static const pal_member tool_members[] = {
        TOOL("name", STRING, name),
        TOOL("description", STRING, description),
        TOOL("schema", STRING, schema),
        TOOL("tokens", U64, tokens),
        TOOL("strict", FLAG, is_strict),
        TOOL("call_extra", STRING, call_extra),
};
static const pal_member_table tool_table = {tool_members, LEN(tool_members), NULL, NULL};

static const pal_member_list tool_list = {
        &tool_table, sizeof(pal_tool), offsetof(pal_turn_request, tools_len)};

#define RULE(name, type, field)                                                                    \
    {name, PAL_MEMBER_##type, 1, .offset = offsetof(pal_permission_rule, field)}
static const pal_member_names permissions = {
        pal_permission_names, PAL_PERMISSIONS, "one of allow, ask, deny"};
static const pal_member rule_members[] = {
        RULE("tool", STRING, tool),
        {"do", PAL_MEMBER_NAME, 1, .offset = offsetof(pal_permission_rule, permission),
                .of = &permissions},
};

static const pal_member_table rule_table = {rule_members, LEN(rule_members), NULL, NULL};
static const pal_member_list rule_list = {
        &rule_table, sizeof(pal_permission_rule), offsetof(pal_turn_request, permissions_len)};

/* A rule that cannot be read denies. */
static void deny_unknown(const pal_turn_request *request)
{
    for (size_t i = 0; i < request->permissions_len; i++) {
        pal_permission_rule *rule = (pal_permission_rule *)&request->permissions[i];

        if (rule->permission == PAL_PERMISSION_NONE)
            rule->permission = PAL_PERMISSION_DENY;
    }
}

static pal_status read_messages(
        pal_json list, pal_arena *arena, pal_turn_request *request, pal_error *err)
{
    pal_json_iter each = pal_json_each(list);
    pal_status status = PAL_OK;
    pal_json value;

    request->messages =
            pal_arena_array(arena, pal_json_count(list) + 1, sizeof(*request->messages));
    request->messages_len = 0;
    if (!request->messages)
        return pal_no_memory(err);
    while (status == PAL_OK && pal_json_next(&each, NULL, &value))
        status = pal_message_from_json(
                pal_json_raw(value), arena, &request->messages[request->messages_len++], err);
    return status;
}

/* A message can be invalid, so writing can fail. That is why no table has them. */
static pal_status put_messages(
        pal_json_writer *writer, const pal_turn_request *request, pal_arena *arena, pal_error *err)
{
    pal_status status = PAL_OK;

    if (request->messages_len == 0)
        return PAL_OK;
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < request->messages_len; i++) {
        pal_str json = {0};

        status = pal_message_to_json(&request->messages[i], arena, &json, err);
        if (status == PAL_OK)
            pal_json_put_raw(writer, json);
    }
    pal_json_end_array(writer);
    return status;
}

/* ---- The request ---- */

static pal_status read_system(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    pal_turn_request *request = record;

    (void)member;
    (void)err;
    request->has_system = pal_json_type_of(value) == PAL_JSON_STRING;
    request->system = pal_json_string(value, arena);
    return PAL_OK;
}

static void write_system(const pal_member *member, pal_json_writer *writer, const void *record)
{
    const pal_turn_request *request = record;

    if (request->has_system)
        pal_put_str(writer, member->name, request->system);
}

static const pal_member_record budget_record = {&budget_table, 1, 0, 0};
static const pal_member_record context_record = {
        &context_table, 1, offsetof(pal_turn_request, has_context), 0};

#define REQUEST(name, type, field)                                                                 \
    {name, PAL_MEMBER_##type, 1, .offset = offsetof(pal_turn_request, field)}
#define REQUEST_OF(name, type, field, described_by)                                                \
    {name, PAL_MEMBER_##type, 1, .offset = offsetof(pal_turn_request, field), .of = &(described_by)}
static const pal_member request_members[] = {
        REQUEST("endpoint", STRING, endpoint),
        REQUEST("model", STRING, model),
        REQUEST("system", OTHER, system),
        REQUEST("tool_choice", STRING, tool_choice),
        REQUEST("parameters", STRING, parameters),
        REQUEST("label", STRING, label),
        REQUEST("agent", STRING, agent),
        REQUEST("output_max", U64, output_max),
        REQUEST("max_tool_iterations", U32, max_tool_iterations),
        REQUEST("whole", FLAG, all_or_nothing),
        REQUEST("no_server_tools", FLAG, no_server_tools),
        REQUEST("no_retries", FLAG, no_retries),
        REQUEST("calls_end_turn", FLAG, calls_end_turn),
        REQUEST("expected_seq", U64, expected_seq),
        REQUEST_OF("budget", RECORD, budget, budget_record),
        REQUEST_OF("context", RECORD, context, context_record),
        REQUEST_OF("tools", LIST, tools, tool_list),
        REQUEST_OF("permissions", LIST, permissions, rule_list),
        REQUEST("cannot_ask", FLAG, cannot_ask),
        REQUEST("cannot_input", FLAG, cannot_input),
        REQUEST("asks_end_turn", FLAG, asks_end_turn),
};
static const pal_member_table request_table = {
        request_members, LEN(request_members), read_system, write_system};

pal_status pal_inbox_write(const pal_turn_request *request, const pal_inbox_head *head,
        const char *delivery, pal_arena *arena, pal_inbox_item *out_item, pal_error *err)
{
    pal_inbox_head whole = *head;
    pal_buf buf;
    pal_json_writer writer;
    pal_status status;

    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    if (request->channel)
        whole.channel = *request->channel;
    pal_members_write(&head_table, 1, &writer, &whole);
    pal_members_write(&request_table, 1, &writer, request);
    status = put_messages(&writer, request, arena, err);
    pal_json_end_object(&writer);
    if (status != PAL_OK)
        goto out;
    if (buf.failure != PAL_OK) {
        status = pal_error_set(
                err, buf.failure, "the messages and tools are too large for the inbox");
        goto out;
    }
    *out_item = (pal_inbox_item){
            .client_id = request->messages_len ? request->messages[0].client_id : (pal_str){0},
            .delivery = pal_str_of(delivery),
            .body = pal_arena_copy(arena, pal_buf_str(&buf)),
    };
    if (pal_arena_failure(arena) != PAL_OK)
        status = pal_no_memory(err);
out:
    pal_buf_done(&buf);
    return status;
}

bool pal_inbox_read_head(const pal_inbox_item *item, pal_arena *scratch, pal_inbox_head *out_head)
{
    pal_json body;

    return pal_json_parse(scratch, item->body, NULL, &body, NULL) == PAL_OK &&
            pal_members_read_stored(&head_table, 1, body, scratch, out_head, NULL) == PAL_OK;
}

/* Returns false if there is no memory. */
static bool keep_channel(
        const pal_turn_channel *found, pal_arena *arena, pal_turn_request *request)
{
    pal_turn_channel *channel;

    request->channel = NULL;
    if (found->outbox.len == 0 && !found->is_note)
        return true;
    channel = pal_arena_alloc(arena, sizeof(*channel));
    if (!channel)
        return false;
    *channel = *found;
    request->channel = channel;
    return true;
}

pal_status pal_inbox_read(const pal_inbox_item *item, pal_arena *arena, pal_turn_request *request,
        pal_inbox_head *out_head, pal_error *err)
{
    pal_inbox_head head = {0}, *to = out_head ? out_head : &head;
    pal_json body;
    pal_status status = pal_json_parse(arena, item->body, NULL, &body, err);

    if (status != PAL_OK)
        return status;
    to->channel = (pal_turn_channel){0};
    status = pal_members_read_stored(&head_table, 1, body, arena, to, err);
    if (status != PAL_OK)
        return status;
    if (!keep_channel(&to->channel, arena, request))
        return pal_no_memory(err);
    status = pal_members_read_stored(&request_table, 1, body, arena, request, err);
    if (status != PAL_OK)
        return status;
    deny_unknown(request);
    return read_messages(pal_json_find(body, "messages"), arena, request, err);
}
