/* api_message.c - the messages of a session: append, list, read one, replace all; and the bytes of
 * images and files.
 *
 * An append never blocks the listener's thread. The store's writer commits it together with other
 * appends and sends the response. A list is a short read and is answered immediately. */
#include "server/api/native/api_message.h"

#include <stdio.h>
#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "dialect/openai/openai_chat.h"
#include "server/api/api_object.h"
#include "server/api/native/api_native.h"
#include "server/api/native/api_turn.h"
#include "server/server_call.h"

#define INLINE_MESSAGES_MAX 200 /* longer pages would keep other requests waiting */
#define MESSAGE_FRAME_BYTES 256 /* approximate size of a message in JSON without its text */

/* Requests can have any member of a response. */
const pal_api_object pal_api_message_body = {"Message", .is_open = true,
        .written = &pal_native_message_table,
        .members = PAL_API_MEMBERS(
                {"role", PAL_API_WORD, .words = "system user assistant tool", .is_required = true},
                {"content", PAL_API_VALUE,
                        .schema = "{\"type\":[\"string\",\"array\"],\"items\":{}}"},
                {"parts", PAL_API_LIST, .of = &pal_api_any_object},
                {"usage", PAL_API_NESTED, .of = &pal_api_token_usage},
                {"flags", .type = PAL_API_LIST}, {"palaver_sent", .type = PAL_API_JSON_OBJECT})};

/* ---- Reading messages from requests ---- */

const pal_api_object pal_api_messages_members = {
        .members = PAL_API_MEMBERS(
                {"message", PAL_API_VALUE,
                        .schema = "{\"oneOf\":[{\"type\":\"string\"},"
                                  "{\"$ref\":\"#/components/schemas/Message\"}]}"},
                {"messages", PAL_API_LIST, .of = &pal_api_message_body})};

/* Whether the message is in the format of chat completions rather than in the native one. */
static bool is_chat_form(pal_json value)
{
    static const char *const names[] = {"tool_calls", "tool_call_id", "function_call", "refusal"};
    pal_json content = pal_json_find(value, "content");
    if (pal_json_type_of(content) == PAL_JSON_ARRAY ||
            pal_json_string_is(pal_json_find(value, "role"), "developer"))
        return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (pal_json_type_of(pal_json_find(value, names[i])) != PAL_JSON_NONE)
            return true;
    return false;
}

/* A value in the native format is one message. In the format of chat completions it can be
 * several. */
static pal_status read_one(
        pal_call *call, pal_json value, pal_message **out_messages, size_t *out_len, pal_error *err)
{
    if (pal_json_type_of(value) == PAL_JSON_OBJECT && is_chat_form(value))
        return pal_openai_chat_read(value, call->arena, out_messages, out_len, err);
    pal_message *message = pal_arena_array(call->arena, 1, sizeof *message);
    if (!message)
        return pal_arena_checked(call->arena, err);
    *out_messages = message;
    *out_len = 1;
    if (pal_json_type_of(value) == PAL_JSON_STRING) {
        *message =
                pal_message_text(call->arena, PAL_ROLE_USER, pal_json_string(value, call->arena));
        return pal_arena_checked(call->arena, err);
    }
    return pal_native_message_read(value, call->arena, message, err);
}

/* Checks the rules for requests: a new message has content, and no seq. The store checks everything
 * else. */
static pal_status check_one(const pal_message *message, pal_error *err)
{
    if (message->seq)
        return pal_error_set(err, PAL_INVALID, "member 'seq' is not allowed; the store assigns it");
    if (message->parts_len == 0)
        return pal_error_set(err, PAL_INVALID,
                "member 'content' is missing; send a string, or use 'parts'");
    return PAL_OK;
}

static pal_status read_many(
        pal_call *call, pal_json array, pal_message **out_messages, size_t *out_len, pal_error *err)
{
    size_t count = pal_json_count(array), len = 0;
    pal_json_iter iter = pal_json_each(array);
    pal_json value;
    if (count > PAL_SERVER_MESSAGES_MAX)
        return pal_error_set(err, PAL_LIMIT,
                "'messages' has %zu messages; at most %d are allowed in one request",
                count, PAL_SERVER_MESSAGES_MAX);
    /* In the format of chat completions, one message can contain a user's text and several
     * results. */
    size_t cap = count;
    pal_message *all = pal_arena_alloc(call->arena, (cap ? cap : 1) * sizeof *all);
    for (size_t i = 0; all && pal_json_next(&iter, NULL, &value); i++) {
        pal_message *some = NULL;
        size_t some_len = 0;
        pal_status status = read_one(call, value, &some, &some_len, err);
        for (size_t k = 0; status == PAL_OK && k < some_len; k++)
            status = check_one(&some[k], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "messages", i);
        if (!pal_arena_reserve(call->arena, &all, &cap, len + some_len, sizeof *all))
            break;
        memcpy(&all[len], some, some_len * sizeof *some);
        len += some_len;
    }
    *out_messages = all;
    *out_len = len;
    return pal_arena_checked(call->arena, err);
}

static pal_status read_messages(pal_call *call, pal_json object, bool or_itself,
        pal_message **out_messages, size_t *out_len, pal_error *err)
{
    pal_json many = pal_json_find(object, "messages"), one = pal_json_find(object, "message");
    pal_json_type many_type = pal_json_type_of(many), one_type = pal_json_type_of(one);
    call->fail_param = "messages";
    if (many_type == PAL_JSON_ARRAY)
        return read_many(call, many, out_messages, out_len, err);
    if (many_type != PAL_JSON_NONE && many_type != PAL_JSON_NULL)
        return pal_error_set(err, PAL_INVALID, "'messages' must be an array of messages");
    if (one_type == PAL_JSON_NONE || one_type == PAL_JSON_NULL) {
        if (!or_itself)
            return PAL_OK;
        call->fail_param = NULL;
        one = object;
    } else {
        call->fail_param = "message";
        if (one_type != PAL_JSON_OBJECT && one_type != PAL_JSON_STRING)
            return pal_error_set(err, PAL_INVALID,
                    "'message' must be a string or a message object");
    }
    pal_status status = read_one(call, one, out_messages, out_len, err);
    for (size_t i = 0; status == PAL_OK && i < *out_len; i++)
        status = check_one(&(*out_messages)[i], err);
    return status == PAL_OK ? PAL_OK : pal_call_blame(call, status, err);
}

pal_status pal_api_messages_read(pal_call *call, pal_json object, bool or_itself,
        pal_message **out_messages, size_t *out_len, pal_error *err)
{
    *out_messages = NULL;
    *out_len = 0;
    pal_status status = read_messages(call, object, or_itself, out_messages, out_len, err);
    if (status != PAL_OK)
        return status;
    call->fail_param = NULL;
    if (call->idempotency_key.len)
        pal_call_give_client_ids(call, *out_messages, *out_len, 0);
    for (size_t i = 0; i < *out_len; i++)
        (*out_messages)[i].turn_id = (pal_id){{0}}; /* only the runtime may set it */
    return pal_arena_checked(call->arena, err);
}

/* ---- Appending ---- */

static void put_appended(pal_json_writer *writer, const pal_message *message)
{
    pal_json_begin_object(writer);
    pal_put_id(writer, "id", message->id);
    pal_put_count(writer, "seq", message->seq);
    pal_json_end_object(writer);
}

static void append_by_name(pal_exchange *x);

static void appended(
        pal_call *call, pal_op *ops, size_t ops_len, pal_status status, const pal_error *err)
{
    (void)ops_len;
    if (status == PAL_OK && ops[0].status != PAL_OK) {
        status = ops[0].status;
        err = &ops[0].error;
    }
    if (status == PAL_NOT_FOUND && call->is_id_unchecked) {
        pal_exchange_to_worker(call->exchange, append_by_name);
        return;
    }
    if (status != PAL_OK) {
        pal_call_fail(call, status, err);
        return;
    }
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < ops[0].u.append.messages_len; i++)
        put_appended(writer, &ops[0].u.append.messages[i]);
    pal_json_end_array(writer);
    pal_json_end_object(writer);
    pal_call_send(call, 201);
}

typedef struct append_request {
    uint64_t expected_seq;
} append_request;

/* The body contains messages or is itself a message, whose further members are stored. */
static const pal_api_object append_body = {"AppendRequest", .is_open = true,
        .members = PAL_API_MEMBERS(
                {"messages", PAL_API_LIST, "messages, in order", .of = &pal_api_message_body},
                {"role", PAL_API_VALUE, .schema = "{\"type\":\"string\"}"},
                {"content", PAL_API_VALUE,
                        .schema = "{\"type\":[\"string\",\"array\"],\"items\":{}}"},
                {"parts", PAL_API_LIST, .of = &pal_api_any_object},
                {"client_id", PAL_API_VALUE, .schema = "{\"type\":\"string\"}"},
                {"expected_seq", PAL_API_COUNT,
                        "the seq of the last message; the append fails if it is another one",
                        .offset = offsetof(append_request, expected_seq)})};

static const char append_names[] = "messages message expected_seq";

static pal_status append_to(pal_call *call, pal_id session, pal_error *err)
{
    pal_message *messages;
    size_t len;
    append_request request = {.expected_seq = PAL_SEQ_ANY};
    pal_status status = pal_call_known_names(call, call->body, append_names, true, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_messages_read(call, call->body, true, &messages, &len, err);
    if (status != PAL_OK)
        return status;
    /* Only a body that is itself a message can have further members. */
    if (pal_json_type_of(pal_json_find(call->body, "messages")) != PAL_JSON_NONE ||
            pal_json_type_of(pal_json_find(call->body, "message")) != PAL_JSON_NONE)
        status = pal_call_known_names(call, call->body, append_names, false, err);
    if (status == PAL_OK)
        status = pal_api_object_read(call, call->body, &append_body, &request, err);
    if (status != PAL_OK)
        return status;
    if (len == 0) {
        call->fail_param = "messages";
        return pal_error_set(err, PAL_INVALID, "'messages' is empty; send at least one message");
    }
    pal_op *op = pal_arena_array(call->arena, 1, sizeof *op);
    if (!op)
        return pal_arena_checked(call->arena, err);
    *op = pal_op_append(call->caller.tenant, session, messages, len, request.expected_seq);
    return pal_call_apply(call, op, 1, appended, err);
}

static pal_status append_found(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    return status == PAL_OK ? append_to(call, session.id, err) : status;
}

/* Called on a worker. There is no session with that id, so the text may be a session's key. */
static void append_by_name(pal_exchange *x)
{
    pal_error err = {0};
    pal_call *call = x->call;
    call->is_id_unchecked = false;
    pal_status status = append_found(call, &err);
    if (status != PAL_OK)
        pal_call_fail(call, status, &err);
}

/* Appends without reading the session first: the append fails if there is no session with that id.
 * A request with an idempotency key is looked up first, because its operations can be applied only
 * once. */
static pal_status append_messages(pal_call *call, pal_error *err)
{
    pal_id id;
    if (call->idempotency_key.len || !pal_id_from_text(call->params[0], &id))
        return append_found(call, err);
    call->is_id_unchecked = true;
    return append_to(call, id, err);
}

/* ---- Reading back ---- */

typedef struct page_query {
    pal_message_query load;
    int is_descending;
    bool with_marks;
} page_query;

static const pal_api_object page_query_table = {
        .members = PAL_API_MEMBERS(
                {"after", PAL_API_COUNT, "only messages with a larger seq",
                        .offset = offsetof(page_query, load.after_seq)},
                {"before", PAL_API_COUNT, "only messages with a smaller seq",
                        .offset = offsetof(page_query, load.before_seq)},
                {"limit", PAL_API_COUNT32, "maximum number of messages",
                        .offset = offsetof(page_query, load.limit), .min = 1,
                        .max = PAL_SERVER_MESSAGE_PAGE_MAX},
                {"order", PAL_API_WORD, "ascending or descending by seq",
                        .offset = offsetof(page_query, is_descending), .words = "asc desc"},
                {"hidden", PAL_API_FLAG, "include messages that a rewind or a reset hides",
                        .offset = offsetof(page_query, load.hidden)},
                {"marks", PAL_API_FLAG, "show what is pinned, and which parts are pruned",
                        .offset = offsetof(page_query, with_marks)})};

/* If the path has an id, the load finds the session, so that it is read only once. */
static pal_status load_page(
        pal_call *call, const pal_message_query *load, pal_message_page *out_page, pal_error *err)
{
    pal_session session = {0};
    pal_store *store = call->server->store;
    pal_status status = PAL_NOT_FOUND;
    if (pal_id_from_text(call->params[0], &session.id))
        status = pal_store_load(
                store, call->caller.tenant, session.id, load, call->arena, out_page, err);
    if (status != PAL_NOT_FOUND)
        return status;
    if (call->only_memory)
        return pal_error_set(err, PAL_BUSY, "only an id can be found in memory");
    status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_store_load(
                store, call->caller.tenant, session.id, load, call->arena, out_page, err);
    return status;
}

/* Reserves approximately the space that the messages need. Without this, the buffer is copied about
 * five times while it grows. A guess that is too small does no harm. */
static void make_room(pal_json_writer *writer, const pal_message_page *page)
{
    size_t wanted = 0;
    for (size_t i = 0; i < page->len; i++) {
        const pal_message *message = &page->items[i];
        wanted += MESSAGE_FRAME_BYTES;
        for (size_t k = 0; k < message->parts_len; k++)
            wanted += message->parts[k].text.len;
    }
    if (wanted < writer->buf->len_max - writer->buf->len)
        (void)pal_buf_reserve(writer->buf, wanted);
}

/* Adds a member to the message as it is shown. `json` is its value. */
static void add_member(pal_call *call, pal_message *message, const char *name, pal_str json)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_put_raw(&writer, name, json);
    pal_json_put_members(&writer, message->extra);
    pal_json_end_object(&writer);
    if (buf.failure == PAL_OK)
        message->extra = pal_arena_copy(call->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
}

static pal_status flag_all_hidden(pal_call *call, pal_message_page *page, pal_error *err)
{
    pal_message_page shown = {0};
    size_t at = 0;
    if (page->len == 0)
        return PAL_OK;
    pal_message_query load = {.after_seq = page->items[0].seq - 1,
            .before_seq = page->items[page->len - 1].seq + 1};
    pal_status status = load_page(call, &load, &shown, err);
    for (size_t i = 0; status == PAL_OK && i < page->len; i++) {
        while (at < shown.len && shown.items[at].seq < page->items[i].seq)
            at++;
        if (at == shown.len || shown.items[at].seq != page->items[i].seq)
            add_member(call, &page->items[i], "hidden", pal_str_of("true"));
    }
    return status == PAL_OK ? pal_arena_checked(call->arena, err) : status;
}

/* ---- What marks do to the messages of a page ---- */

static void show_pins(pal_call *call, const pal_active_marks *active, pal_message_page *page)
{
    size_t at = 0;
    for (size_t i = 0; i < page->len; i++) {
        while (at < active->pins_len && active->pins[at] < page->items[i].seq)
            at++;
        if (at < active->pins_len && active->pins[at] == page->items[i].seq)
            add_member(call, &page->items[i], "pinned", pal_str_of("true"));
    }
}

/* A part that is shown to the model without its content. */
typedef struct pruned_list {
    pal_pruned_part *items;
    size_t len;
    size_t cap;
} pruned_list;

/* Collects the parts that a mark prunes in the messages of the page. */
static pal_status collect_pruned(pal_call *call, const pal_mark *mark, uint64_t first,
        uint64_t last, pruned_list *list, pal_error *err)
{
    pal_json body, pair;
    pal_status status = pal_json_parse(call->arena, mark->body, NULL, &body, err);
    if (status != PAL_OK)
        return status;
    pal_json_iter iter = pal_json_each(pal_json_find(body, "pruned"));
    while (pal_json_next(&iter, NULL, &pair)) {
        uint64_t numbers[2] = {0, 0};
        size_t len = 0;
        pal_json number;
        pal_json_iter pair_iter = pal_json_each(pair);
        while (len < 2 && pal_json_next(&pair_iter, NULL, &number))
            (void)pal_json_u64(number, &numbers[len++]);
        if (numbers[0] < first || numbers[0] > last)
            continue;
        if (!pal_arena_reserve(
                    call->arena, &list->items, &list->cap, list->len + 1, sizeof *list->items))
            return pal_no_memory(err);
        list->items[list->len++] = (pal_pruned_part){numbers[0], (uint32_t)numbers[1]};
    }
    return PAL_OK;
}

static void show_pruned(pal_call *call, const pruned_list *list, pal_message *message)
{
    pal_buf buf;
    size_t shown = 0;
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_array(&writer);
    for (size_t i = 0; i < list->len; i++) {
        if (list->items[i].seq != message->seq)
            continue;
        pal_json_put_u64(&writer, list->items[i].part);
        shown++;
    }
    pal_json_end_array(&writer);
    if (shown && buf.failure == PAL_OK)
        add_member(call, message, "pruned", pal_buf_str(&buf));
    pal_buf_done(&buf);
}

static pal_status show_marks(pal_call *call, pal_message_page *page, pal_error *err)
{
    pal_session session;
    pal_active_marks active;
    pruned_list pruned = {0};
    if (page->len == 0)
        return PAL_OK;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status == PAL_OK)
        status = pal_store_active_marks(call->server->store, call->caller.tenant, session.id,
                call->arena, &active, err);
    if (status != PAL_OK)
        return status;
    show_pins(call, &active, page);
    for (size_t i = 0; status == PAL_OK && i < active.prunes_len; i++)
        status = collect_pruned(call, &active.prunes[i], page->items[0].seq,
                page->items[page->len - 1].seq, &pruned, err);
    for (size_t i = 0; pruned.len && i < page->len; i++)
        show_pruned(call, &pruned, &page->items[i]);
    return status == PAL_OK ? pal_arena_checked(call->arena, err) : status;
}

static pal_status list_messages(pal_call *call, pal_error *err)
{
    page_query query = {.load.limit = PAL_SERVER_MESSAGE_PAGE_DEFAULT};
    pal_message_page page;
    pal_status status = pal_api_query_read(call, &page_query_table, &query, err);
    if (status != PAL_OK)
        return status;
    if (call->only_memory &&
            (query.load.hidden || query.with_marks || query.load.limit > INLINE_MESSAGES_MAX))
        return pal_error_set(err, PAL_BUSY, "long pages and marks are read on a worker");
    query.load.from_end = query.is_descending;
    query.load.only_memory = call->only_memory;
    status = load_page(call, &query.load, &page, err);
    if (status == PAL_OK && query.load.hidden)
        status = flag_all_hidden(call, &page, err);
    if (status == PAL_OK && query.with_marks)
        status = show_marks(call, &page, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    make_room(writer, &page);
    pal_json_begin_object(writer);
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    for (size_t i = 0; status == PAL_OK && i < page.len; i++)
        status = pal_native_message_put(
                writer, &page.items[query.is_descending ? page.len - 1 - i : i], err);
    pal_json_end_array(writer);
    pal_put_flag(writer, "has_more", page.has_more);
    pal_json_end_object(writer);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

static pal_status get_message(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_message_page found = {0};
    uint64_t seq = 0;
    pal_id id;
    pal_str name = call->params[1];
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    bool is_id = pal_id_from_text(name, &id);
    if (is_id) {
        pal_message message;
        pal_id owner;
        status = pal_store_message(
                call->server->store, call->caller.tenant, id, call->arena, &message, &owner, err);
        if (status != PAL_OK)
            return status;
        seq = message.seq;
    } else if (!pal_call_number(name, &seq) || seq == 0) {
        return pal_error_set(err, PAL_INVALID, "'%.*s' is not a message id or seq",
                PAL_EXCERPT(name, 64));
    }
    pal_message_query load = {.after_seq = seq - 1, .before_seq = seq + 1, .hidden = true};
    status = pal_store_load(
            call->server->store, call->caller.tenant, session.id, &load, call->arena, &found, err);
    /* The id may belong to a message of another session with the same seq. */
    if (status != PAL_OK)
        return status;
    if ((found.len == 0 || (is_id && !pal_id_equal(found.items[0].id, id))))
        return pal_error_set(err, PAL_NOT_FOUND, "the session has no such message");
    if (status != PAL_OK)
        return status;
    status = pal_native_message_put(pal_call_writer(call), &found.items[0], err);
    if (status != PAL_OK)
        return status;
    pal_call_send(call, 200);
    return PAL_OK;
}

pal_status pal_api_parts_fetch(pal_call *call, pal_part *parts, size_t len, pal_error *err)
{
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < len; i++) {
        pal_part *part = &parts[i];
        pal_str type;
        bool is_media = part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE;
        if (is_media && part->blob.len && part->data.len == 0)
            status = pal_store_blob_get(call->server->store, call->caller.tenant, part->blob,
                    call->arena, &type, &part->data, err);
        else
            status = pal_api_parts_fetch(call, part->parts, part->parts_len, err);
        if (status == PAL_NOT_FOUND)
            status = PAL_OK;
    }
    return status;
}

static bool is_one_of(pal_str type, const char *const *types, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (pal_str_is(type, types[i]))
            return true;
    return false;
}

/* Models and strangers can choose the bytes and the type of a blob. So a browser shows only images
 * of pixels, and nothing in a blob can run or load anything in the origin of the server's page. */
static pal_status get_blob(pal_call *call, pal_error *err)
{
    static const char *const pictures[] = {
            "image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"};
    static const char *const data_types[] = {"text/plain", "application/json"};
    pal_str type, data;
    pal_status status = pal_store_blob_get(call->server->store, call->caller.tenant,
            call->params[0], call->arena, &type, &data, err);
    if (status != PAL_OK)
        return status;
    const char *text = "application/octet-stream";
    bool is_picture = is_one_of(type, pictures, sizeof pictures / sizeof *pictures);
    if (is_picture || is_one_of(type, data_types, sizeof data_types / sizeof *data_types))
        text = pal_arena_copy(call->arena, type).data;
    if (!text)
        return pal_arena_checked(call->arena, err);
    pal_exchange_add_header(
            call->exchange, "cache-control", pal_str_of("private, max-age=31536000, immutable"));
    pal_exchange_add_header(call->exchange, "content-security-policy",
            pal_str_of("sandbox; default-src 'none'"));
    if (!is_picture)
        pal_exchange_add_header(
                call->exchange, "content-disposition", pal_str_of("attachment"));
    pal_exchange_answer(call->exchange, 200, text, data);
    return PAL_OK;
}

/* ---- Replacing all messages ---- */

static pal_status replace_messages(pal_call *call, pal_error *err)
{
    pal_session session;
    pal_message *messages;
    pal_mark mark;
    size_t len;
    pal_status status = pal_call_session(call, call->params[0], &session, err);
    if (status != PAL_OK)
        return status;
    status = pal_api_messages_read(call, call->body, false, &messages, &len, err);
    if (status != PAL_OK)
        return status;
    if (pal_json_type_of(pal_json_find(call->body, "messages")) != PAL_JSON_ARRAY) {
        call->fail_param = "messages";
        return pal_error_set(err, PAL_INVALID, "'messages' must be an array of messages");
    }
    status = pal_store_replace(
            call->server->store, call->caller.tenant, session.id, messages, len, &mark, err);
    if (status != PAL_OK)
        return status;
    pal_json_writer *writer = pal_call_writer(call);
    pal_json_begin_object(writer);
    pal_json_name(writer, "messages");
    pal_json_begin_array(writer);
    for (size_t i = 0; i < len; i++)
        put_appended(writer, &messages[i]);
    pal_json_end_array(writer);
    pal_json_name(writer, "mark");
    if (mark.number)
        status = pal_native_mark_put(writer, &mark, err);
    else
        pal_json_put_null(writer);
    pal_json_end_object(writer);
    if (status == PAL_OK)
        pal_call_send(call, 200);
    return status;
}

/* ---- Routes ---- */

static const pal_api_object replace_body = {"ReplaceRequest",
        .members = PAL_API_MEMBERS(
                {"messages", PAL_API_LIST, "the new messages, in order",
                .of = &pal_api_message_body, .is_required = true})};

static const pal_api_object appended_message = {
        .members = PAL_API_MEMBERS(
                {"id", PAL_API_TEXT, .is_required = true},
                {"seq", PAL_API_COUNT, .is_required = true})};

static const pal_api_object appended_body = {"Appended",
        .members = PAL_API_MEMBERS(
                {"messages", PAL_API_LIST, .of = &appended_message, .is_required = true})};

static const pal_api_object replaced_body = {"Replaced",
        .members = PAL_API_MEMBERS(
                {.type = PAL_API_INCLUDE, .of = &appended_body},
                {"mark", PAL_API_JSON_OBJECT, .is_required = true, .is_nullable = true})};

static const pal_api_object message_page_body = {"MessagePage",
        .members = PAL_API_MEMBERS(
                {"messages", PAL_API_LIST, .of = &pal_api_message_body, .is_required = true},
                {"has_more", PAL_API_FLAG, .is_required = true})};

static const pal_api_object any_bytes = {.name = "application/octet-stream"};

const pal_api_route pal_message_routes[] = {
        {"POST", "/api/v1/sessions/{id}/messages", PAL_KEY_WRITE, PAL_API_JSON, append_messages,
                {"appendMessages",
                        "append one or more messages; the response is sent after they are durable",
                        NULL, &append_body, &appended_body, 201}},
        {"PUT", "/api/v1/sessions/{id}/messages", PAL_KEY_WRITE, PAL_API_JSON | PAL_API_WORKER,
                replace_messages,
                {"replaceMessages", "replace all visible messages", NULL,
                        &replace_body, &replaced_body, 200}},
        {"GET", "/api/v1/sessions/{id}/messages", PAL_KEY_READ, PAL_API_WORKER | PAL_API_MEMORY,
                list_messages,
                {"listMessages", "list messages in order of seq, ascending or descending",
                        &page_query_table, NULL, &message_page_body, 200}},
        {"GET", "/api/v1/sessions/{id}/messages/{message}", PAL_KEY_READ, PAL_API_WORKER,
                get_message,
                {"getMessage", "read one message by id or seq", NULL, NULL,
                        &pal_api_message_body, 200}},
        {"GET", "/api/v1/blobs/{name}", PAL_KEY_READ, PAL_API_WORKER, get_blob,
                {"getBlob", "download the bytes of an image or a file", NULL, NULL, &any_bytes,
                        200}},
        {0},
};
