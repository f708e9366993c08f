/* api_openai_responses_record.c - a response as a JSON object and as a record.
 *
 *   {"created_at":1700000000,"completed_at":1700000001,"status":"completed","turn":"UUID",
 *    "process":"...","socket":"...","input":{"message":"UUID","count":1},"output":["UUID"],
 *    "usage":[7,0,0,3,0],
 *    "deltas":[[0,5,6]],"additional_tools":[...],"approved":[...],"lists":[...],"listed":["files"],
 *    "echo":{...}}
 *
 * Members that are false, 0 or empty are left out. */
#include "server/api/openai/responses/api_openai_responses.h"
#include "server/api/openai/socket/api_openai_socket.h"

#include "base/json/json_put.h"
#include "base/process.h"
#include "base/utf8.h"
#include "dialect/dialect_member.h"
#include "server/server_call.h"

#define OUTPUT_MAX 1000 /* maximum number of messages of the output */

static const char *const status_names[] = {
        "queued", "in_progress", "completed", "incomplete", "failed", "cancelled"};

/* ---- The object ---- */

static void put_error(pal_json_writer *writer, const pal_response *response)
{
    pal_json_name(writer, "error");
    if (response->status != PAL_RESPONSE_FAILED) {
        pal_json_put_null(writer);
        return;
    }
    pal_json_begin_object(writer);
    pal_put_str(writer, "code", response->error_code);
    pal_put_str(writer, "message", response->error_message);
    pal_json_end_object(writer);
}

static void put_incomplete(pal_json_writer *writer, const pal_response *response)
{
    pal_json_name(writer, "incomplete_details");
    if (response->status != PAL_RESPONSE_INCOMPLETE) {
        pal_json_put_null(writer);
        return;
    }
    pal_json_begin_object(writer);
    pal_put_text(writer, "reason", response->is_filtered ? "content_filter" : "max_output_tokens");
    pal_json_end_object(writer);
}

static void put_usage(pal_json_writer *writer, const pal_response *response)
{
    const pal_usage *usage = &response->usage;
    uint64_t input = usage->input + usage->cache_read + usage->cache_write;
    pal_json_name(writer, "usage");
    if (response->status != PAL_RESPONSE_COMPLETED && response->status != PAL_RESPONSE_INCOMPLETE) {
        pal_json_put_null(writer);
        return;
    }
    pal_json_begin_object(writer);
    pal_put_count(writer, "input_tokens", input);
    pal_json_name(writer, "input_tokens_details");
    pal_json_begin_object(writer);
    pal_put_count(writer, "cached_tokens", usage->cache_read);
    pal_put_count(writer, "cache_write_tokens", usage->cache_write);
    pal_json_end_object(writer);
    pal_put_count(writer, "output_tokens", usage->output);
    pal_json_name(writer, "output_tokens_details");
    pal_json_begin_object(writer);
    pal_put_count(writer, "reasoning_tokens", usage->reasoning);
    pal_json_end_object(writer);
    pal_put_count(writer, "total_tokens", input + usage->output);
    pal_json_end_object(writer);
}

static void put_state(pal_json_writer *writer, const pal_response *response)
{
    pal_put_text(writer, "status", status_names[response->status]);
    pal_put_flag(writer, "background", response->is_background);
    pal_json_name(writer, "completed_at");
    if (response->completed_at)
        pal_json_put_i64(writer, response->completed_at);
    else
        pal_json_put_null(writer);
    put_error(writer, response);
    put_incomplete(writer, response);
}

pal_status pal_response_put(pal_json_writer *writer, const pal_response *response,
        pal_response_put_output put_output, const void *user, pal_error *err)
{
    char id[PAL_OPENAI_ID_SIZE];
    bool is_compaction = response->is_compaction;
    pal_status status = PAL_OK;
    pal_openai_id_text("resp_", response->id, id);
    pal_json_begin_object(writer);
    pal_put_text(writer, "id", id);
    pal_put_text(writer, "object", is_compaction ? "response.compaction" : "response");
    pal_put_count(writer, "created_at", (uint64_t)response->created_at);
    if (!is_compaction)
        put_state(writer, response);
    pal_json_name(writer, "output");
    pal_json_begin_array(writer);
    if (put_output)
        status = put_output(writer, user, err);
    pal_json_end_array(writer);
    put_usage(writer, response);
    if (!is_compaction)
        pal_json_put_members(writer, response->echo);
    pal_json_end_object(writer);
    return status;
}

/* ---- The record ---- */

/* The record is one table, which is used in both directions. Records can be older than this
 * version: an absent member reads as zero, and a member must never get another meaning. */
#define MEMBER(name, type, field)                                                                  \
    {name, PAL_MEMBER_##type, 1, .offset = offsetof(pal_response, field)}
#define LEN(list) (sizeof(list) / sizeof *(list))

static const pal_member input_members[] = {
        MEMBER("message", ID, input),
        MEMBER("count", U64, input_len),
};
static const pal_member_table input_table = {input_members, LEN(input_members), NULL, NULL};

static pal_response_status read_status(pal_json value)
{
    size_t i = 0;
    while (i < PAL_RESPONSE_FAILED && !pal_json_string_is(value, status_names[i]))
        i++;
    return pal_json_string_is(value, status_names[PAL_RESPONSE_CANCELLED]) ? PAL_RESPONSE_CANCELLED
                                                                           : (pal_response_status)i;
}

static void read_output(pal_json value, pal_arena *arena, pal_response *out)
{
    pal_json id;
    out->output = pal_arena_array(arena, pal_json_count(value) + 1, sizeof *out->output);
    out->output_len = 0;
    for (pal_json_iter iter = pal_json_each(value);
            out->output && out->output_len < OUTPUT_MAX && pal_json_next(&iter, NULL, &id);)
        out->output_len += pal_id_from_text(
                pal_json_string(id, arena), &out->output[out->output_len]);
}

static void write_output(pal_json_writer *writer, const pal_response *response)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_json_begin_array(writer);
    for (size_t i = 0; i < response->output_len; i++) {
        pal_id_to_text(response->output[i], text);
        pal_json_put_text(writer, text);
    }
    pal_json_end_array(writer);
}

/* The numbers of a usage, in the order of the record. */
static const size_t usage_offsets[] = {offsetof(pal_usage, input), offsetof(pal_usage, cache_read),
        offsetof(pal_usage, cache_write), offsetof(pal_usage, output),
        offsetof(pal_usage, reasoning)};

static void read_usage(pal_json value, pal_usage *out)
{
    pal_json number;
    size_t at = 0;
    *out = (pal_usage){0};
    for (pal_json_iter iter = pal_json_each(value);
            at < LEN(usage_offsets) && pal_json_next(&iter, NULL, &number); at++)
        (void)pal_json_u64(number, (uint64_t *)((char *)out + usage_offsets[at]));
}

static void write_usage(pal_json_writer *writer, const pal_usage *usage)
{
    pal_json_begin_array(writer);
    for (size_t i = 0; i < LEN(usage_offsets); i++)
        pal_json_put_u64(writer, *(const uint64_t *)((const char *)usage + usage_offsets[i]));
    pal_json_end_array(writer);
}

static pal_status read_other(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    pal_response *response = record;
    switch (member->offset) {
    case offsetof(pal_response, status):
        response->status = read_status(value);
        return PAL_OK;
    case offsetof(pal_response, input):
        return pal_members_read_stored(&input_table, 1, value, arena, response, err);
    case offsetof(pal_response, output):
        read_output(value, arena, response);
        return PAL_OK;
    default:
        read_usage(value, &response->usage);
        return PAL_OK;
    }
}

static void write_other(const pal_member *member, pal_json_writer *writer, const void *record)
{
    const pal_response *response = record;
    pal_json_name(writer, member->name);
    switch (member->offset) {
    case offsetof(pal_response, status):
        pal_json_put_text(writer, status_names[response->status]);
        break;
    case offsetof(pal_response, input):
        pal_json_begin_object(writer);
        pal_members_write(&input_table, 1, writer, response);
        pal_json_end_object(writer);
        break;
    case offsetof(pal_response, output):
        write_output(writer, response);
        break;
    default:
        write_usage(writer, &response->usage);
        break;
    }
}

static const pal_member members[] = {
        MEMBER("created_at", I64, created_at),
        MEMBER("completed_at", I64, completed_at),
        MEMBER("status", OTHER, status),
        MEMBER("turn", ID, turn),
        MEMBER("process", STRING, process),
        MEMBER("socket", STRING, socket),
        MEMBER("background", BOOL, is_background),
        MEMBER("conversation", BOOL, is_in_conversation),
        MEMBER("filtered", BOOL, is_filtered),
        MEMBER("last_whole", BOOL, is_last_whole),
        MEMBER("items", BOOL, has_items),
        MEMBER("error_code", STRING, error_code),
        MEMBER("error_message", STRING, error_message),
        MEMBER("input", OTHER, input),
        MEMBER("output", OTHER, output),
        MEMBER("usage", OTHER, usage),
        MEMBER("deltas", JSON, deltas),
        MEMBER("additional_tools", JSON, additional),
        MEMBER("approved", JSON, approved),
        MEMBER("lists", JSON, lists),
        MEMBER("listed", JSON, listed),
        MEMBER("echo", JSON, echo),
};
static const pal_member_table table = {members, LEN(members), read_other, write_other};

pal_status pal_response_record(
        const pal_response *response, pal_arena *arena, pal_record *out_record, pal_error *err)
{
    char name[PAL_ID_TEXT_SIZE];
    pal_response stored = *response;
    if (pal_response_is_over(response))
        stored.process = (pal_str){0};
    pal_buf buf;
    pal_buf_init(&buf, PAL_RECORD_BODY_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_members_write(&table, 1, &writer, &stored);
    pal_json_end_object(&writer);
    pal_id_to_text(response->id, name);
    *out_record = (pal_record){.kind = pal_str_of(PAL_RESPONSE_KIND),
            .name = pal_arena_copy(arena, pal_str_of(name)),
            .session = response->session};
    pal_status status = pal_member_keep(&buf, arena, &out_record->body, err);
    pal_buf_done(&buf);
    return status == PAL_OK ? pal_arena_checked(arena, err) : status;
}

static pal_status read_record(
        const pal_record *record, pal_arena *arena, pal_response *out, pal_error *err)
{
    pal_json body;
    pal_status status = pal_json_parse(arena, record->body, NULL, &body, err);
    if (status != PAL_OK)
        return status;
    *out = (pal_response){.session = record->session, .version = record->version};
    if (!pal_id_from_text(record->name, &out->id))
        return pal_error_set(err, PAL_CORRUPT,
                "the record of a response is damaged: its name is not an id");
    return pal_members_read_stored(&table, 1, body, arena, out, err);
}

/* ---- Finding ---- */

static pal_status load(pal_call *call, pal_id id, pal_response *out, pal_error *err)
{
    char name[PAL_ID_TEXT_SIZE];
    pal_record record;
    pal_id_to_text(id, name);
    pal_status status = pal_store_record_find(call->server->store, call->caller.tenant,
            pal_str_of(PAL_RESPONSE_KIND), pal_str_of(name), call->arena, &record, err);
    return status == PAL_OK ? read_record(&record, call->arena, out, err) : status;
}

static void fail(pal_response *response, const char *code, const char *message, pal_arena *arena)
{
    response->status = PAL_RESPONSE_FAILED;
    response->error_code = pal_str_of(code);
    response->error_message = pal_arena_copy(arena, pal_str_of(message));
}

/* Neither this process nor the store knows the turn. It may wait in the memory of another process,
 * because a waiting response is not in the session's inbox. If it is not known whether that process
 * lives, the response may run for as long as any process holds the session. */
static bool may_run_elsewhere(pal_call *call, const pal_response *response)
{
    char name[PAL_PROCESS_NAME_SIZE];
    pal_lease lease;
    pal_process_name(name);
    if (pal_str_is(response->process, name) || pal_process_is_dead(response->process))
        return false;
    return pal_process_is_alive(response->process) ||
            pal_store_lease_find(call->server->store, call->caller.tenant, response->session,
                    call->arena, &lease, NULL) == PAL_OK;
}

pal_str pal_response_error_code(pal_status status, long code)
{
    if (code == 429 || status == PAL_BUDGET)
        return pal_str_of("rate_limit_exceeded");
    return pal_str_of(code == 400 || status == PAL_LIMIT || status == PAL_INVALID ? "invalid_prompt"
                                                                                  : "server_error");
}

/* Determines how the response ended, if the record does not contain it yet. */
static void settle(pal_call *call, pal_response *response)
{
    pal_turn_info info;
    if (pal_turn_find(call->server->runtime, call->caller.tenant, response->turn, &info, NULL) !=
            PAL_OK) {
        if (!may_run_elsewhere(call, response))
            fail(response, "server_error",
                    "the server was stopped while the response was in progress", call->arena);
        return;
    }
    if (info.state == PAL_TURN_FAILED) {
        fail(response, pal_response_error_code(info.status, info.code).data, info.reason,
                call->arena);
    } else if (info.state == PAL_TURN_CANCELED) {
        response->status = PAL_RESPONSE_CANCELLED;
    } else if (info.state < PAL_TURN_DONE) {
        response->status =
                info.state == PAL_TURN_QUEUED ? PAL_RESPONSE_QUEUED : PAL_RESPONSE_IN_PROGRESS;
    }
}

/* Another thread has written the end first, and its record is used. */
static pal_status keep_settled(pal_call *call, pal_response *response, pal_error *err)
{
    pal_record record;
    pal_status status = pal_response_record(response, call->arena, &record, err);
    if (status == PAL_OK)
        status = pal_store_record_put(
                call->server->store, call->caller.tenant, &record, response->version, err);
    return status == PAL_CONFLICT ? load(call, response->id, response, err) : status;
}

static pal_status settle_now(pal_call *call, pal_response *response, pal_error *err)
{
    pal_response newer;
    settle(call, response);
    if (pal_response_is_over(response))
        return keep_settled(call, response, err);
    /* The turn may have recorded its answer since the record was read. */
    pal_status status = load(call, response->id, &newer, err);
    if (status == PAL_OK && pal_response_is_over(&newer))
        *response = newer;
    return status;
}

pal_status pal_response_find(pal_call *call, pal_str id, pal_response *out_response, pal_error *err)
{
    pal_id name;
    pal_response response;
    pal_status status = PAL_NOT_FOUND;
    if (pal_openai_id_read(id, "resp_", &name))
        status = load(call, name, &response, err);
    /* Only the WebSocket that keeps a response can see it. */
    if (status == PAL_OK && response.socket.len && !pal_openai_socket_keeps(call, &response))
        status = PAL_NOT_FOUND;
    if (status == PAL_NOT_FOUND)
        return pal_error_set(err, PAL_NOT_FOUND, "unknown response '%.*s'",
                (int)pal_utf8_cut(id, id.len < 80 ? id.len : 80), id.data ? id.data : "");
    if (status == PAL_OK && !pal_response_is_over(&response))
        status = settle_now(call, &response, err);
    if (status == PAL_OK)
        *out_response = response;
    return status;
}

/* ---- Showing ---- */

/* Empty blocks of reasoning are not shown. */
static bool is_shown(const pal_openai_item *item)
{
    size_t first, len;
    pal_openai_item_parts(item->message, item->index, &first, &len);
    const pal_part *part = len ? &item->message->parts[first] : NULL;
    return !part || part->kind != PAL_PART_REASONING || part->text.len ||
            (part->signature.len && pal_str_is(part->family, "openai"));
}

typedef struct output_list {
    pal_message *messages;
    size_t len, cap;
} output_list;

static pal_status add_message(
        pal_call *call, const pal_message *message, output_list *list, pal_error *err)
{
    if (!pal_arena_reserve(
                call->arena, &list->messages, &list->cap, list->len + 1, sizeof *list->messages))
        return pal_arena_checked(call->arena, err);
    list->messages[list->len++] = *message;
    return PAL_OK;
}

static bool is_approved(const pal_message *message)
{
    return message->parts_len == 1 && pal_openai_is_approved(message->parts[0].extra);
}

/* Adds the results of mcp_calls, which are stored after their answer. The result of an approved
 * call belongs to a later response. */
static pal_status add_results(pal_call *call, const pal_response *response,
        const pal_message *answer, output_list *list, pal_error *err)
{
    uint32_t calls = 0;
    pal_message_page page;
    for (size_t i = 0; i < answer->parts_len; i++)
        calls += answer->parts[i].kind == PAL_PART_TOOL_CALL &&
                pal_openai_is_mcp(answer->parts[i].extra);
    if (calls == 0)
        return PAL_OK;
    pal_status status = pal_store_load(call->server->store, call->caller.tenant, response->session,
            &(pal_message_query){.after_seq = answer->seq, .limit = calls}, call->arena, &page,
            err);
    for (size_t i = 0; status == PAL_OK && i < page.len; i++)
        if (page.items[i].role == PAL_ROLE_TOOL && !is_approved(&page.items[i]))
            status = add_message(call, &page.items[i], list, err);
    return status;
}

pal_status pal_response_output(pal_call *call, const pal_response *response,
        pal_openai_item **out_items, size_t *out_len, pal_error *err)
{
    pal_id owner;
    pal_message message;
    output_list list = {0};
    size_t len, shown = 0;
    pal_status status = PAL_OK;
    if (pal_response_is_answered(response) && response->lists.len) {
        status = pal_response_lists_message(response, call->arena, &message, err);
        if (status == PAL_OK)
            status = add_message(call, &message, &list, err);
    }
    for (size_t i = 0; status == PAL_OK && i < response->output_len; i++) {
        status = pal_store_message(call->server->store, call->caller.tenant, response->output[i],
                call->arena, &message, &owner, err);
        if (status == PAL_OK)
            status = add_message(call, &message, &list, err);
        if (status == PAL_OK)
            status = add_results(call, response, &message, &list, err);
    }
    if (status != PAL_OK)
        return status;
    pal_openai_item *items = pal_openai_items_of(call, list.messages, list.len, &len);
    if (!items)
        return pal_arena_checked(call->arena, err);
    for (size_t i = 0; i < len; i++) {
        if (is_shown(&items[i]))
            items[shown++] = items[i];
    }
    *out_items = items;
    *out_len = shown;
    return PAL_OK;
}

typedef struct stored_output {
    const pal_response *response;
    const pal_openai_item *items;
    size_t len;
} stored_output;

static pal_status put_stored(pal_json_writer *writer, const void *user, pal_error *err)
{
    const stored_output *output = user;
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < output->len; i++) {
        bool is_cut = pal_response_is_cut(output->response) && i == output->len - 1;
        status = pal_openai_item_put(writer, output->items[i].message, output->items[i].index,
                output->items[i].result, is_cut ? "incomplete" : "completed", err);
    }
    return status;
}

pal_status pal_response_send(pal_call *call, const pal_response *response, pal_error *err)
{
    stored_output output = {.response = response};
    pal_openai_item *items = NULL;
    pal_status status = pal_response_output(call, response, &items, &output.len, err);
    output.items = items;
    if (status != PAL_OK)
        return status;
    status = pal_response_put(pal_call_writer(call), response, put_stored, &output, err);
    if (status != PAL_OK)
        return status;
    pal_call_send(call, 200);
    return PAL_OK;
}
