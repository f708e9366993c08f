/* api_openai_conversations.c - conversations and their items. A conversation is a session, and its
 * items are the session's messages.
 *
 * Writes never block the listener's thread: the store's writer sends their responses. A page costs
 * no more than it shows: messages are loaded until the page is full. Almost every message has an
 * item, except for results of mcp_calls. */
#include <stdio.h>
#include "base/clock.h"
#include "base/json/json_put.h"
#include "dialect/dialect_member.h"
#include "server/api/api_object.h"
#include "server/api/native/api_session.h"
#include "server/api/openai/api_openai.h"
#include "server/server_call.h"

/* ---- Showing conversations ---- */

static void put_conversation(pal_call *call, const pal_session *session)
{
    char id[PAL_OPENAI_ID_SIZE];
    pal_json_writer *writer = pal_call_writer(call);
    pal_openai_id_text("conv_", session->id, id);
    pal_json_begin_object(writer);
    pal_put_text(writer, "id", id);
    pal_put_text(writer, "object", "conversation");
    pal_put_count(writer, "created_at", (uint64_t)(session->created_at / 1000));
    pal_openai_metadata_put(call, writer, session->metadata);
    pal_json_end_object(writer);
}

/* For pal_call_apply(): the call's `user` is the conversation in its new state. */
static void send_conversation(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status != PAL_OK) {
        pal_call_fail(call, status, err);
        return;
    }
    put_conversation(call, call->user);
    pal_call_send(call, 200);
}

static pal_status get_conversation(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, &session, err);
    if (status != PAL_OK)
        return status;
    put_conversation(call, &session);
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- Reading items ---- */

/* Reads "items". If it is absent or null and may be, there are none. */
static pal_status read_items(pal_call *call, bool may_be_absent, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    pal_json items = pal_json_find(call->body, "items");
    pal_json_type type = pal_json_type_of(items);
    *out_messages = NULL;
    *out_len = 0;
    if (may_be_absent && (type == PAL_JSON_NONE || type == PAL_JSON_NULL))
        return PAL_OK;
    call->fail_param = "items";
    if (type != PAL_JSON_ARRAY)
        return pal_member_wrong(err, "items", items, "an array of items");
    pal_status status = pal_openai_items_read(
            items, "items", pal_openai_item_lookup, call, call->arena, out_messages, out_len, err);
    if (status != PAL_OK)
        return status;
    call->fail_param = NULL;
    pal_call_give_client_ids(call, *out_messages, *out_len, 1);
    return pal_arena_checked(call->arena, err);
}

/* ---- Conversations ---- */

static pal_status create_conversation(pal_call *call, pal_error *err)
{
    pal_message *messages;
    size_t len;
    pal_session *session = pal_arena_alloc(call->arena, sizeof *session);
    pal_op *ops = pal_arena_array(call->arena, 2, sizeof *ops);
    if (!session || !ops)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_openai_metadata_read(call, call->body, &session->metadata, err);
    if (status == PAL_OK)
        status = read_items(call, true, &messages, &len, err);
    if (status != PAL_OK)
        return status;
    session->id = pal_call_derived_id(call, 0);
    session->tenant = call->caller.tenant;
    session->created_at = pal_clock_now_ms();
    ops[0] = pal_op_create(session);
    ops[1] = pal_op_append(session->tenant, session->id, messages, len, PAL_SEQ_ANY);
    ops[1].with_previous = true;
    call->user = session;
    return pal_call_apply(call, ops, len ? 2 : 1, send_conversation, err);
}

/* Keeps metadata that this API cannot show: the session's settings are not pairs of strings. */
static pal_status replace_metadata(
        pal_call *call, pal_session *session, pal_str given, pal_error *err)
{
    pal_json old = {0}, new, name, value;
    pal_buf buf;
    pal_status status = pal_json_parse(call->arena, given, NULL, &new, err);
    if (status != PAL_OK)
        return status;
    if (session->metadata.len &&
            pal_json_parse(call->arena, session->metadata, NULL, &old, NULL) != PAL_OK)
        old = (pal_json){0};
    pal_buf_init(&buf, PAL_METADATA_LEN_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    for (pal_json_iter iter = pal_json_each(old); pal_json_next(&iter, &name, &value);) {
        pal_str text = pal_json_string(name, call->arena);
        const char *terminated = pal_arena_copy(call->arena, text).data;
        if (pal_json_type_of(value) == PAL_JSON_STRING || !terminated ||
                pal_json_type_of(pal_json_find(new, terminated)) != PAL_JSON_NONE)
            continue;
        pal_json_name_str(&writer, text);
        pal_json_put_raw(&writer, pal_json_raw(value));
    }
    pal_json_put_members(&writer, given);
    pal_json_end_object(&writer);
    status = pal_member_keep(&buf, call->arena, &session->metadata, err);
    pal_buf_done(&buf);
    return status == PAL_OK ? pal_arena_checked(call->arena, err) : status;
}

static pal_status update_conversation(pal_call *call, pal_error *err)
{
    pal_str given = pal_str_of("{}");
    pal_session *session = pal_arena_alloc(call->arena, sizeof *session);
    pal_op *op = pal_arena_alloc(call->arena, sizeof *op);
    if (!session || !op)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, session, err);
    if (status == PAL_OK &&
            pal_json_type_of(pal_json_find(call->body, "metadata")) == PAL_JSON_NONE) {
        call->fail_param = "metadata";
        return pal_call_refuse(call, 400, "missing_required_parameter", PAL_INVALID, err,
                "'metadata' is missing; send the new pairs of the conversation");
    }
    if (status != PAL_OK)
        return status;
    status = pal_openai_metadata_read(call, call->body, &given, err);
    if (status != PAL_OK)
        return status;
    status = replace_metadata(call, session, given, err);
    if (status != PAL_OK)
        return status;
    *op = pal_op_update(session, PAL_SESSION_FIELD_METADATA);
    call->user = session;
    return pal_call_apply(call, op, 1, send_conversation, err);
}

static void send_deleted(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    char id[PAL_OPENAI_ID_SIZE];
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status != PAL_OK) {
        pal_call_fail(call, status, err);
        return;
    }
    pal_json_writer *writer = pal_call_writer(call);
    pal_openai_id_text("conv_", ops[0].session, id);
    pal_json_begin_object(writer);
    pal_put_text(writer, "id", id);
    pal_put_text(writer, "object", "conversation.deleted");
    pal_put_flag(writer, "deleted", true);
    pal_json_end_object(writer);
    pal_call_send(call, 200);
}

static pal_status delete_conversation(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_op *op = pal_arena_alloc(call->arena, sizeof *op);
    if (!op)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, &session, err);
    if (status != PAL_OK)
        return status;
    *op = pal_op_delete(call->caller.tenant, session.id);
    return pal_call_apply(call, op, 1, send_deleted, err);
}

/* ---- Adding items ---- */

static void send_created(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    pal_error failure;
    size_t len;
    status = pal_api_ops_failure(ops, ops_len, status, err, &err);
    if (status != PAL_OK) {
        pal_call_fail(call, status, err);
        return;
    }
    pal_openai_item *items =
            pal_openai_items_of(call, ops[0].u.append.messages, ops[0].u.append.messages_len, &len);
    status = items ? pal_openai_list_put(call, items, len, false, false, &failure)
                   : pal_arena_checked(call->arena, &failure);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    else
        pal_call_fail(call, status, &failure);
}

static pal_status create_items(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_message *messages;
    size_t len;
    pal_op *op = pal_arena_alloc(call->arena, sizeof *op);
    if (!op)
        return pal_arena_checked(call->arena, err);
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, &session, err);
    if (status == PAL_OK)
        status = read_items(call, false, &messages, &len, err);
    if (status != PAL_OK)
        return status;
    if (len == 0) {
        status = pal_openai_list_put(call, NULL, 0, false, false, err);
        if (status == PAL_OK)
            pal_call_send(call, 200);
        return status;
    }
    *op = pal_op_append(call->caller.tenant, session.id, messages, len, PAL_SEQ_ANY);
    return pal_call_apply(call, op, 1, send_created, err);
}

/* ---- Listing ---- */

/* The position at which a page begins; the item at this position is not included. */
typedef struct place {
    uint64_t seq;  /* 0: the end at which the order begins */
    size_t number; /* number of the part, from 0 */
} place;

static place place_of(const pal_openai_item *item)
{
    size_t first, len;
    pal_openai_item_parts(item->message, item->index, &first, &len);
    uint32_t number = len ? item->message->parts[first].number : 0;
    return (place){item->message->seq, number ? number - 1 : first};
}

static bool is_behind(const pal_openai_item *item, place after, bool is_ascending)
{
    place own = place_of(item);
    if (after.seq == 0)
        return true;
    if (own.seq != after.seq)
        return (own.seq > after.seq) == is_ascending;
    return own.number != after.number && (own.number > after.number) == is_ascending;
}

/* A deleted item still marks the end of the previous page. */
static pal_status read_place(
        pal_call *call, pal_id session, const pal_openai_page *page, place *out, pal_error *err)
{
    pal_openai_item item;
    *out = (place){0};
    if (page->after.len == 0)
        return PAL_OK;
    pal_status status = pal_openai_item_in(call, session, page->after, true, &item, err);
    if (status == PAL_OK) {
        *out = place_of(&item);
        return PAL_OK;
    }
    call->fail_param = "after";
    return status;
}

/* Loads the next messages. `beyond` is the last seq that was loaded before; 0: the page begins. */
static pal_status load_page(pal_call *call, pal_id session, const pal_openai_page *page,
        place after, uint64_t beyond, pal_message_page *out, pal_error *err)
{
    bool is_ascending = page->order == PAL_OPENAI_ASC;
    pal_message_query load = {.limit = (uint32_t)page->limit + 2, .from_end = !is_ascending};
    if (is_ascending)
        load.after_seq = beyond || !after.seq ? beyond : after.seq - 1;
    else
        load.before_seq = beyond || !after.seq ? beyond : after.seq + 1;
    return pal_store_load(
            call->server->store, call->caller.tenant, session, &load, call->arena, out, err);
}

/* The items of a page that were found so far. */
typedef struct shown_items {
    pal_openai_item *items;
    size_t len;
    bool has_more;
} shown_items;

static pal_status add_items(pal_call *call, const pal_openai_page *page, place after,
        const pal_message_page *messages, shown_items *shown, pal_error *err)
{
    size_t len;
    bool is_ascending = page->order == PAL_OPENAI_ASC;
    pal_openai_item *all = pal_openai_items_of(call, messages->items, messages->len, &len);
    if (!all)
        return pal_arena_checked(call->arena, err);
    for (size_t i = 0; i < len && !shown->has_more; i++) {
        const pal_openai_item *item = &all[is_ascending ? i : len - 1 - i];
        if (!is_behind(item, after, is_ascending))
            continue;
        if (shown->len == page->limit)
            shown->has_more = true;
        else
            shown->items[shown->len++] = *item;
    }
    return PAL_OK;
}

/* Results of mcp_calls are not items, so one load may contain too few items. */
static pal_status find_items(pal_call *call, pal_id session, const pal_openai_page *page,
        place after, shown_items *shown, pal_error *err)
{
    pal_message_page messages = {.has_more = true};
    uint64_t beyond = 0;
    pal_status status = PAL_OK;
    while (status == PAL_OK && messages.has_more && !shown->has_more) {
        status = load_page(call, session, page, after, beyond, &messages, err);
        if (status == PAL_OK)
            status = add_items(call, page, after, &messages, shown, err);
        if (status != PAL_OK || messages.len == 0)
            break;
        beyond = messages.items[page->order == PAL_OPENAI_ASC ? messages.len - 1 : 0].seq;
    }
    for (size_t i = 0; status == PAL_OK && i < shown->len; i++)
        status = pal_openai_item_complete(call, session, &shown->items[i], err);
    return status;
}

static pal_status list_items(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_openai_page page;
    shown_items shown = {0};
    place after;
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, &session, err);
    if (status != PAL_OK)
        return status;
    status = pal_openai_page_read(call, &page, err);
    if (status != PAL_OK)
        return status;
    status = read_place(call, session.id, &page, &after, err);
    if (status != PAL_OK)
        return status;
    shown.items = pal_arena_array(call->arena, page.limit, sizeof *shown.items);
    if (!shown.items)
        return pal_arena_checked(call->arena, err);
    status = find_items(call, session.id, &page, after, &shown, err);
    if (status == PAL_OK)
        status = pal_openai_list_put(call, shown.items, shown.len, shown.has_more, true, err);
    if (status != PAL_OK)
        return status;
    pal_call_send(call, 200);
    return PAL_OK;
}

/* ---- One item ---- */

static pal_status find_item(
        pal_call *call, pal_session *out_session, pal_openai_item *out_item, pal_error *err)
{
    pal_status status = pal_openai_conversation(call, call->params[0], NULL, out_session, err);
    if (status != PAL_OK)
        return status;
    return pal_openai_item_in(call, out_session->id, call->params[1], false, out_item, err);
}

static pal_status get_item(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_openai_item item;
    pal_status status = find_item(call, &session, &item, err);
    if (status == PAL_OK)
        status = pal_openai_item_complete(call, session.id, &item, err);
    if (status != PAL_OK)
        return status;
    status = pal_openai_item_show(call, &item, true, err);
    if (status != PAL_OK)
        return status;
    pal_call_send(call, 200);
    return PAL_OK;
}

/* Hides each part of the item, or the whole message if the item is all of it. */
static pal_status fill_marks(pal_call *call, pal_id session, const pal_openai_item *item,
        pal_op **out_ops, size_t *out_len, pal_error *err)
{
    size_t first, len;
    const pal_message *message = item->message;
    pal_openai_item_parts(message, item->index, &first, &len);
    bool is_whole = pal_openai_items_count(message) == 1;
    size_t marks_len = is_whole ? 1 : len;
    pal_op *ops = pal_arena_array(call->arena, marks_len, sizeof *ops);
    pal_mark *marks = pal_arena_array(call->arena, marks_len, sizeof *marks);
    if (!ops || !marks)
        return pal_arena_checked(call->arena, err);
    for (size_t i = 0; i < marks_len; i++) {
        uint32_t number = is_whole ? 0 : message->parts[first + i].number;
        marks[i] = (pal_mark){.kind = PAL_MARK_HIDE,
                .seq = message->seq,
                .target = is_whole ? 0
                        : number   ? number
                                   : first + i + 1};
        ops[i] = pal_op_mark(call->caller.tenant, session, &marks[i]);
        ops[i].with_previous = i > 0;
    }
    *out_ops = ops;
    *out_len = marks_len;
    return PAL_OK;
}

static pal_status delete_item(pal_call *call, pal_error *err)
{
    pal_openai_item item;
    pal_op *ops = NULL;
    size_t len = 0;
    pal_session *session = pal_arena_alloc(call->arena, sizeof *session);
    if (!session)
        return pal_arena_checked(call->arena, err);
    pal_status status = find_item(call, session, &item, err);
    if (status == PAL_OK)
        status = fill_marks(call, session->id, &item, &ops, &len, err);
    if (status != PAL_OK)
        return status;
    call->user = session;
    return pal_call_apply(call, ops, len, send_conversation, err);
}

#define CONVERSATION "/v1/conversations/{id}"
#define ITEM CONVERSATION "/items/{item}"

const pal_api_route pal_openai_conversation_routes[] = {
        {"POST", "/v1/conversations", PAL_KEY_WRITE, PAL_API_JSON, create_conversation,
                {"openaiCreateConversation", "create a conversation, optionally with items", NULL,
                        &pal_api_any_object, &pal_api_any_object, 200}},
        {"GET", CONVERSATION, PAL_KEY_READ, 0, get_conversation,
                {"openaiGetConversation", "read one conversation", NULL, NULL, &pal_api_any_object,
                        200}},
        {"POST", CONVERSATION, PAL_KEY_WRITE, PAL_API_JSON, update_conversation,
                {"openaiUpdateConversation",
                        "replace the metadata of a conversation", NULL, &pal_api_any_object,
                        &pal_api_any_object,
                        200}},
        {"DELETE", CONVERSATION, PAL_KEY_WRITE, 0, delete_conversation,
                {"openaiDeleteConversation",
                        "move a conversation to the trash", NULL, NULL, &pal_api_any_object, 200}},
        {"POST", CONVERSATION "/items", PAL_KEY_WRITE, PAL_API_JSON, create_items,
                {"openaiCreateItems",
                        "add items to a conversation, all or none", NULL, &pal_api_any_object,
                        &pal_api_any_object, 200}},
        {"GET", CONVERSATION "/items", PAL_KEY_READ, PAL_API_WORKER, list_items,
                {"openaiListItems",
                        "list the items of a conversation, ascending or descending",
                        &pal_openai_page_query, NULL, &pal_api_any_object, 200}},
        {"GET", ITEM, PAL_KEY_READ, PAL_API_WORKER, get_item,
                {"openaiGetItem", "read one item", NULL, NULL, &pal_api_any_object, 200}},
        {"DELETE", ITEM, PAL_KEY_WRITE, 0, delete_item,
                {"openaiDeleteItem", "hide an item", NULL, NULL, &pal_api_any_object, 200}},
        {0},
};
