/* openai_items.c - reads items into messages.
 *
 * The items of one answer are joined again: reasoning is joined to what follows it; calls are
 * joined to each other and to the assistant's text before them. The order of the items is kept.
 * openai_items_write.c writes items. */
#include "dialect/openai/openai_items.h"

#include "base/json/json_put.h"
#include "base/text.h"
#include "base/utf8.h"
#include "dialect/dialect_base64.h"
#include "dialect/dialect_part.h"
#include "dialect/native/native.h"
#include "dialect/openai/openai_chat_part.h"
#include "dialect/openai/openai_items_part.h"

#define TYPES_EXPECTED                                                                             \
    "one of message, function_call, function_call_output, custom_tool_call, "                      \
    "custom_tool_call_output, reasoning, item_reference, compaction, mcp_approval_response"
#define FAMILY "openai"
#define COMPACTION_MARK "palaver:\n" /* begins a summary of ours; a multiple of three bytes */
#define COMPACTION_MARK_BASE64 "cGFsYXZlcjoK"

typedef struct items_reader {
    pal_arena *arena;
    pal_openai_item_find find;
    void *user;
    pal_message *messages;
    size_t len;
    size_t last_cap; /* number of parts that the last message has room for */
    bool keeps_all;  /* items without a counterpart are kept */
    bool keeps_ids;  /* items are written with their id and status */
    bool has_limit;  /* the number of items is limited */
    pal_error *err;
} items_reader;

/* ---- Building messages ---- */

static bool has_content(const pal_message *message)
{
    for (size_t i = 0; i < message->parts_len; i++) {
        if (pal_items_is_content(&message->parts[i]))
            return true;
    }
    return message->parts_len == 0;
}

/* Returns whether `piece` continues the answer in the last message. */
static bool joins(const items_reader *in, const pal_message *piece)
{
    const pal_message *last = in->len ? &in->messages[in->len - 1] : NULL;
    if (!last || last->role != PAL_ROLE_ASSISTANT || piece->role != PAL_ROLE_ASSISTANT ||
            last->parts_len + piece->parts_len > PAL_MESSAGE_PARTS_MAX)
        return false;
    if (has_content(piece))
        return !has_content(last) && !pal_part_is_in(last, PAL_PART_TOOL_CALL);
    if (pal_part_is_in(piece, PAL_PART_REASONING))
        return !has_content(last) || pal_part_is_in(last, PAL_PART_TOOL_CALL);
    return true;
}

static pal_status grow_last(items_reader *in, size_t more)
{
    pal_message *last = &in->messages[in->len - 1];
    if (last->parts_len + more <= in->last_cap)
        return PAL_OK;
    size_t cap = 2 * (last->parts_len + more);
    pal_part *parts = pal_arena_array(in->arena, cap, sizeof *parts);
    if (!parts)
        return pal_arena_checked(in->arena, in->err);
    if (last->parts_len)
        memcpy(parts, last->parts, last->parts_len * sizeof *parts);
    last->parts = parts;
    in->last_cap = cap;
    return PAL_OK;
}

static pal_status add(items_reader *in, const pal_message *piece)
{
    if (!joins(in, piece)) {
        in->messages[in->len++] = *piece;
        in->last_cap = piece->parts_len;
        return PAL_OK;
    }
    pal_status status = grow_last(in, piece->parts_len);
    if (status != PAL_OK)
        return status;
    pal_message *last = &in->messages[in->len - 1];
    memcpy(&last->parts[last->parts_len], piece->parts, piece->parts_len * sizeof *piece->parts);
    last->parts_len += piece->parts_len;
    if (piece->extra.len)
        last->extra = piece->extra;
    return PAL_OK;
}

static pal_status add_part(items_reader *in, pal_role role, const pal_part *part)
{
    pal_part *copy = pal_arena_alloc(in->arena, sizeof *copy);
    if (!copy)
        return pal_arena_checked(in->arena, in->err);
    *copy = *part;
    const pal_message piece = {.role = role, .parts = copy, .parts_len = 1};
    return add(in, &piece);
}

/* ---- Messages ---- */

static const struct {
    const char *name;
    pal_role role;
    bool is_kept; /* the name is kept because PAL_ROLE_* cannot express it */
} roles[] = {
        {"user", PAL_ROLE_USER, false},
        {"assistant", PAL_ROLE_ASSISTANT, false},
        {"system", PAL_ROLE_SYSTEM, false},
        {"developer", PAL_ROLE_SYSTEM, true},
};

static pal_status read_role(items_reader *in, pal_json item, size_t *out_role)
{
    pal_json role = pal_json_find(item, "role");
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (pal_json_string_is(role, roles[i].name)) {
            *out_role = i;
            return PAL_OK;
        }
    }
    return pal_member_wrong(in->err, "role", role, "one of user, assistant, system, developer");
}

static pal_status read_text_or_parts(items_reader *in, const char *name, pal_json value,
        pal_str *out_text, pal_part **out_parts, size_t *out_len)
{
    if (pal_json_type_of(value) == PAL_JSON_STRING) {
        *out_text = pal_json_string(value, in->arena);
        return pal_arena_checked(in->arena, in->err);
    }
    if (pal_json_type_of(value) == PAL_JSON_ARRAY)
        return pal_items_read_content(value, in->arena, out_parts, out_len, in->err);
    return pal_member_wrong(in->err, name, value, "a string or an array of parts");
}

static pal_status read_message(items_reader *in, pal_json item)
{
    static const char *const own[] = {"id", "type", "role", "content", "status", NULL};
    pal_message message = {0};
    pal_json content = pal_json_find(item, "content");
    pal_str text = {0}, unknown;
    size_t role = 0;
    pal_status status = read_role(in, item, &role);
    if (status != PAL_OK)
        return status;
    status = read_text_or_parts(in, "content", content, &text, &message.parts, &message.parts_len);
    if (status != PAL_OK)
        return status;
    status = pal_items_unknown(item, own, NULL, in->arena, &unknown, in->err);
    if (status != PAL_OK)
        return status;
    if (pal_json_type_of(content) == PAL_JSON_STRING) {
        message = pal_message_text(in->arena, roles[role].role, text);
        if (message.role == PAL_ROLE_NONE)
            return pal_arena_checked(in->arena, in->err);
    }
    message.role = roles[role].role;
    const pal_chat_kept chat = {.role = roles[role].is_kept ? roles[role].name : NULL};
    message.extra = pal_items_keep(in->arena, pal_chat_keep(in->arena, chat), unknown);
    return add(in, &message);
}

/* ---- Calls and outputs ---- */

static pal_status read_string(
        items_reader *in, pal_json item, const char *name, bool may_be_empty, pal_str *out)
{
    pal_json value = pal_json_find(item, name);
    if (pal_json_type_of(value) != PAL_JSON_STRING)
        return pal_member_wrong(in->err, name, value, "a string");
    *out = pal_json_string(value, in->arena);
    if (out->len == 0 && !may_be_empty)
        return pal_error_set(in->err, PAL_INVALID, "member '%s' is empty", name);
    return pal_arena_checked(in->arena, in->err);
}

/* Wraps the text as {"input":TEXT}. */
static pal_status wrap_input(items_reader *in, pal_str *arguments)
{
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_buf_append_text(&buf, "{\"input\":");
    pal_json_quote(&buf, *arguments);
    pal_buf_append_char(&buf, '}');
    pal_status status = pal_member_keep(&buf, in->arena, arguments, in->err);
    pal_buf_done(&buf);
    return status;
}

/* Keeps the members that are not in `own`, and the type of a custom call, in the part's extra. Then
 * adds the part. */
static pal_status add_item(items_reader *in, pal_json item, const char *const *own,
        const char *type, pal_role role, pal_part *part)
{
    pal_str unknown = {0};
    pal_status status = pal_items_unknown(item, own, type, in->arena, &unknown, in->err);
    if (status != PAL_OK)
        return status;
    part->extra = pal_items_keep(in->arena, (pal_str){0}, unknown);
    return add_part(in, role, part);
}

static pal_status read_call(items_reader *in, pal_json item)
{
    static const char custom[] = "custom_tool_call";
    bool is_custom = pal_json_string_is(pal_json_find(item, "type"), custom);
    const char *arguments = is_custom ? "input" : "arguments";
    const char *const own[] = {"id", "type", "call_id", "name", "status", arguments, NULL};
    pal_part part = {.kind = PAL_PART_TOOL_CALL};
    pal_status status = read_string(in, item, "call_id", false, &part.call_id);
    if (status != PAL_OK)
        return status;
    status = read_string(in, item, "name", false, &part.name);
    if (status != PAL_OK)
        return status;
    status = read_string(in, item, arguments, true, &part.arguments);
    if (status == PAL_OK && is_custom)
        status = wrap_input(in, &part.arguments);
    if (status != PAL_OK)
        return status;
    return add_item(in, item, own, is_custom ? custom : NULL, PAL_ROLE_ASSISTANT, &part);
}

static pal_status read_output(items_reader *in, pal_json item)
{
    static const char custom[] = "custom_tool_call_output";
    static const char *const own[] = {"id", "type", "call_id", "output", "status", NULL};
    bool is_custom = pal_json_string_is(pal_json_find(item, "type"), custom);
    pal_part part = {.kind = PAL_PART_TOOL_RESULT};
    pal_status status = read_string(in, item, "call_id", false, &part.call_id);
    if (status != PAL_OK)
        return status;
    status = read_text_or_parts(in, "output", pal_json_find(item, "output"), &part.text,
            &part.parts, &part.parts_len);
    if (status != PAL_OK)
        return status;
    return add_item(in, item, own, is_custom ? custom : NULL, PAL_ROLE_TOOL, &part);
}

/* ---- Reasoning ---- */

/* Joins the texts of [{"text":...}, ...], one per line. */
static pal_str join_texts(items_reader *in, pal_json array)
{
    size_t len = pal_json_count(array), used = 0;
    pal_str *pieces = pal_arena_array(in->arena, 2 * len + 1, sizeof *pieces);
    pal_json item;
    for (pal_json_iter iter = pal_json_each(array); pieces && pal_json_next(&iter, NULL, &item);) {
        pal_str text = pal_member_string(item, "text", in->arena);
        if (text.len == 0)
            continue;
        if (used)
            pieces[used++] = pal_str_of("\n");
        pieces[used++] = text;
    }
    return pieces ? pal_chat_join(in->arena, pieces, used) : (pal_str){0};
}

static pal_status check_list(items_reader *in, pal_json item, const char *name)
{
    pal_json list = pal_json_find(item, name), element;
    pal_json_type type = pal_json_type_of(list);
    if (type == PAL_JSON_NONE || type == PAL_JSON_NULL)
        return PAL_OK;
    if (type != PAL_JSON_ARRAY)
        return pal_member_wrong(in->err, name, list, "an array");
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &element);) {
        if (pal_json_type_of(pal_json_find(element, "text")) != PAL_JSON_STRING)
            return pal_error_set(
                    in->err, PAL_INVALID, "member '%s' has an element without a 'text'", name);
    }
    return PAL_OK;
}

/* Summary and content are kept unchanged. The text is for formats that have no place for both.
 * Plain content alone is not kept, because a text is written in this form anyway. */
static pal_status read_reasoning(items_reader *in, pal_json item)
{
    static const char *const own[] = {"id", "type", "status", "encrypted_content", NULL};
    static const char *const own_plain[] = {
            "id", "type", "status", "encrypted_content", "summary", "content", NULL};
    pal_json summary = pal_json_find(item, "summary"), content = pal_json_find(item, "content");
    bool is_plain = pal_json_count(summary) == 0 && pal_json_count(content) <= 1;
    pal_part part = {.kind = PAL_PART_REASONING};
    pal_status status = check_list(in, item, "summary");
    if (status == PAL_OK)
        status = check_list(in, item, "content");
    if (status != PAL_OK)
        return status;
    part.text = join_texts(in, pal_json_count(content) ? content : summary);
    part.signature = pal_member_string(item, "encrypted_content", in->arena);
    part.family = pal_str_of(FAMILY);
    status = pal_arena_checked(in->arena, in->err);
    if (status != PAL_OK)
        return status;
    return add_item(in, item, is_plain ? own_plain : own, NULL, PAL_ROLE_ASSISTANT, &part);
}

/* ---- References ---- */

/* A reference is replaced by the stored item that it names. */
static pal_status read_reference(items_reader *in, pal_json item)
{
    pal_message message = {0};
    pal_str id;
    size_t index = 0, first, len;
    pal_status status = read_string(in, item, "id", false, &id);
    if (status != PAL_OK)
        return status;
    if (!in->find)
        return pal_error_set(
                in->err, PAL_INVALID,
                        "an item_reference is not supported here; send the item itself");
    status = in->find(id, in->arena, &message, &index, in->user, in->err);
    if (status == PAL_NOT_FOUND)
        return pal_error_set(in->err, PAL_INVALID, "unknown item '%.*s' in an item_reference",
                PAL_EXCERPT(id, 80));
    if (status != PAL_OK || message.role == PAL_ROLE_NONE)
        return status;
    pal_openai_item_parts(&message, index, &first, &len);
    bool is_message = len == 0 || pal_items_is_content(&message.parts[first]);
    const pal_message piece = {.role = message.role,
            .parts = len ? &message.parts[first] : NULL,
            .parts_len = len,
            .extra = is_message ? message.extra : (pal_str){0}};
    return add(in, &piece);
}

/* ---- Compactions ---- */

/* The summary that pal_openai_compaction_put() wrote takes the place of the history before it.
 * Earlier versions wrote no mark. A service can write a summary that looks like one without. */
static pal_status read_compaction(items_reader *in, pal_json item)
{
    pal_str text, summary;
    pal_status status = read_string(in, item, "encrypted_content", false, &text);
    if (status != PAL_OK)
        return status;
    bool is_text = pal_base64_decode(text, in->arena, &summary) && pal_utf8_is_valid(summary);
    bool is_marked = is_text && pal_text_begins(summary, COMPACTION_MARK);
    if (is_marked)
        summary = pal_text_after(summary, sizeof COMPACTION_MARK - 1);
    if (!is_text || !summary.len || (in->keeps_all && !is_marked))
        return pal_error_set(in->err, PAL_INVALID,
                "'encrypted_content' is not a compaction that this server made; send the items "
                "that it replaces");
    const pal_part part = {.kind = PAL_PART_COMPACTION, .text = summary};
    return add_part(in, PAL_ROLE_USER, &part);
}

void pal_openai_compaction_put(pal_json_writer *writer, const char *id, pal_str summary)
{
    pal_json_begin_object(writer);
    pal_put_text(writer, "id", id);
    pal_put_text(writer, "type", "compaction");
    pal_json_name(writer, "encrypted_content");
    pal_base64_put(writer, pal_str_of(COMPACTION_MARK_BASE64), summary);
    pal_json_end_object(writer);
}

/* ---- Items that have no counterpart ---- */

static pal_status keep_item_as(items_reader *in, pal_json item, pal_role role)
{
    static const char *const own[] = {"type", "id", "status", NULL};
    static const char *const own_type[] = {"type", NULL};
    pal_str type = pal_arena_copy(in->arena, pal_member_string(item, "type", in->arena));
    pal_part part = {.kind = PAL_PART_FILE};
    return add_item(in, item, in->keeps_ids ? own_type : own, type.data, role, &part);
}

static pal_status keep_item(items_reader *in, pal_json item)
{
    return keep_item_as(in, item, PAL_ROLE_ASSISTANT);
}

/* ---- Calls of tool servers ---- */

/* Returns true if an item about a call of a tool server is kept unchanged. Items of this server are
 * read. */
static bool keeps(const items_reader *in, pal_json item, const char *member)
{
    pal_id message;
    return in->keeps_all &&
            !(in->find &&
                    pal_openai_item_parse(pal_member_string(item, member, in->arena), &message));
}

/* Reads a call that a tool server runs. It has no call id, so its own id is used. Returns false if
 * it is incomplete: it is left out, like the calls of other servers. */
static bool read_mcp(items_reader *in, pal_json item, bool is_asked, pal_part *out_call)
{
    pal_str server = pal_member_string(item, "server_label", in->arena);
    pal_str tool = pal_member_string(item, "name", in->arena);
    pal_part call = {.kind = PAL_PART_TOOL_CALL,
            .call_id = pal_member_string(item, "id", in->arena),
            .arguments = pal_member_string(item, "arguments", in->arena)};
    pal_buf buf;
    if (call.call_id.len == 0 || server.len == 0 || tool.len == 0)
        return false;
    pal_buf_init(&buf, PAL_MESSAGE_BYTES_MAX);
    pal_buf_append_str(&buf, server);
    pal_buf_append_text(&buf, "__");
    pal_buf_append_str(&buf, tool);
    call.name = pal_arena_copy(in->arena, pal_buf_str(&buf));
    pal_buf_clear(&buf);
    pal_buf_append_text(&buf, "{\"mcp\":{\"server\":");
    pal_json_quote(&buf, server);
    pal_buf_append_text(&buf, ",\"tool\":");
    pal_json_quote(&buf, tool);
    pal_buf_append_text(&buf, is_asked ? ",\"asks\":true}}" : "}}");
    call.extra = pal_arena_copy(in->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    *out_call = call;
    return true;
}

static const pal_part *find_call(const items_reader *in, pal_str call_id)
{
    for (size_t i = in->len; call_id.len && i > 0; i--) {
        for (size_t k = 0; k < in->messages[i - 1].parts_len; k++) {
            const pal_part *part = &in->messages[i - 1].parts[k];
            if (part->kind == PAL_PART_TOOL_CALL && pal_str_equal(part->call_id, call_id))
                return part;
        }
    }
    return NULL;
}

/* Returns the text of an error. It is an object with content or with a message; older clients have
 * a string. */
static pal_str read_mcp_error(items_reader *in, pal_json error)
{
    pal_json part;
    pal_buf text;
    if (pal_json_type_of(error) == PAL_JSON_STRING)
        return pal_json_string(error, in->arena);
    pal_buf_init(&text, PAL_MESSAGE_BYTES_MAX);
    pal_buf_append_str(&text, pal_member_string(error, "message", in->arena));
    for (pal_json_iter iter = pal_json_each(pal_json_find(error, "content"));
            pal_json_next(&iter, NULL, &part);)
        pal_buf_append_str(&text, pal_member_string(part, "text", in->arena));
    pal_str copy = pal_arena_copy(in->arena, pal_buf_str(&text));
    pal_buf_done(&text);
    return copy;
}

/* An mcp_call is a call with its result. If it was approved, the request for the approval is the
 * call, and the mcp_call only its result. */
static pal_status read_mcp_call(items_reader *in, pal_json item)
{
    pal_json error = pal_json_find(item, "error");
    pal_str request = pal_member_string(item, "approval_request_id", in->arena);
    const pal_part *asked = find_call(in, request);
    pal_part call;
    pal_status status = PAL_OK;
    if (keeps(in, item, "id"))
        return keep_item(in, item);
    if (!read_mcp(in, item, false, &call))
        return PAL_OK;
    if (asked)
        status = pal_openai_approval_extra(
                request, asked, true, in->arena, &call.extra, in->err);
    if (status != PAL_OK)
        return status;
    pal_part result = {.kind = PAL_PART_TOOL_RESULT,
            .call_id = asked ? asked->call_id : call.call_id,
            .name = call.name,
            .extra = call.extra,
            .is_error = pal_json_type_of(error) > PAL_JSON_NULL};
    result.text = result.is_error ? read_mcp_error(in, error)
                                  : pal_member_string(item, "output", in->arena);
    status = pal_arena_checked(in->arena, in->err);
    if (status == PAL_OK && !asked)
        status = add_part(in, PAL_ROLE_ASSISTANT, &call);
    return status == PAL_OK ? add_part(in, PAL_ROLE_TOOL, &result) : status;
}

/* The service gets its own lists again. Those of this server are not sent to any model. */
static pal_status read_tool_list(items_reader *in, pal_json item)
{
    return keeps(in, item, "id") ? keep_item(in, item) : PAL_OK;
}

static pal_status read_approval_request(items_reader *in, pal_json item)
{
    pal_part call;
    if (keeps(in, item, "id"))
        return keep_item(in, item);
    if (!read_mcp(in, item, true, &call))
        return PAL_OK;
    pal_status status = pal_arena_checked(in->arena, in->err);
    return status == PAL_OK ? add_part(in, PAL_ROLE_ASSISTANT, &call) : status;
}

static pal_status read_approval(items_reader *in, pal_json item)
{
    pal_json approve = pal_json_find(item, "approve");
    pal_str request;
    bool is_approved;
    if (keeps(in, item, "approval_request_id"))
        return keep_item(in, item);
    pal_status status = read_string(in, item, "approval_request_id", false, &request);
    if (status != PAL_OK)
        return status;
    if (!pal_json_bool(approve, &is_approved))
        return pal_member_wrong(in->err, "approve", approve, "true or false");
    return keep_item_as(in, item, PAL_ROLE_USER);
}

/* ---- The list of items ---- */

/* Calls of tools that run at a model service, and their outputs, have no counterpart here. The
 * service that made them needs them, no other one does. So they are left out. Additional tools are
 * no messages; the caller reads them from the items. */
static bool is_left_out(pal_json type, pal_arena *arena)
{
    static const char *const endings[] = {
            "_call", "_call_output", "tool_search_output", "additional_tools"};
    pal_str name = pal_json_string(type, arena);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (pal_text_ends(name, endings[i]))
            return true;
    }
    return false;
}

static const struct {
    const char *type;
    pal_status (*read)(items_reader *in, pal_json item);
    bool is_ours; /* only items of this server can be read */
} types[] = {
        {"message", read_message, false},
        {"function_call", read_call, false},
        {"function_call_output", read_output, false},
        {"custom_tool_call", read_call, false},
        {"custom_tool_call_output", read_output, false},
        {"reasoning", read_reasoning, false},
        {"mcp_call", read_mcp_call, false},
        {"mcp_list_tools", read_tool_list, false},
        {"mcp_approval_request", read_approval_request, false},
        {"mcp_approval_response", read_approval, false},
        {"item_reference", read_reference, true},
        {"compaction", read_compaction, true},
};

static pal_status read_item(items_reader *in, pal_json item)
{
    pal_json type = pal_json_find(item, "type");
    if (pal_json_type_of(item) != PAL_JSON_OBJECT)
        return pal_error_set(in->err, PAL_INVALID, "is %s; expected an object",
                pal_json_type_name(pal_json_type_of(item)));
    pal_json_type found = pal_json_type_of(type);
    if (found == PAL_JSON_NONE || found == PAL_JSON_NULL) {
        /* The SDKs omit the type of messages, and of references too. */
        if (pal_json_type_of(pal_json_find(item, "role")) != PAL_JSON_NONE)
            return read_message(in, item);
        if (pal_json_count(item) <= 2 &&
                pal_json_type_of(pal_json_find(item, "id")) == PAL_JSON_STRING)
            return read_reference(in, item);
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!pal_json_string_is(type, types[i].type))
            continue;
        pal_status status = types[i].read(in, item);
        bool is_foreign = in->keeps_all && types[i].is_ours && status == PAL_INVALID &&
                (!in->find || types[i].read != read_reference);
        return is_foreign ? keep_item(in, item) : status;
    }
    bool is_settings = pal_json_string_is(type, "additional_tools");
    if (in->keeps_all && found == PAL_JSON_STRING && !is_settings)
        return keep_item(in, item);
    if (is_left_out(type, in->arena))
        return PAL_OK;
    return pal_member_wrong(in->err, "type", type, TYPES_EXPECTED);
}

static pal_status read_array(items_reader *in, pal_json array, const char *name)
{
    size_t count = pal_json_count(array), at = 0;
    pal_json item;
    if (count > PAL_OPENAI_ITEMS_MAX && in->has_limit)
        return pal_error_set(in->err, PAL_LIMIT, "'%s' has %zu items; at most %d are allowed", name,
                count, PAL_OPENAI_ITEMS_MAX);
    /* an mcp_call becomes two messages */
    in->messages = pal_arena_array(in->arena, 2 * count + 1, sizeof *in->messages);
    if (!in->messages)
        return pal_arena_checked(in->arena, in->err);
    for (pal_json_iter iter = pal_json_each(array); pal_json_next(&iter, NULL, &item); at++) {
        pal_status status = read_item(in, item);
        if (status != PAL_OK)
            return pal_member_within(in->err, status, name, at);
    }
    return PAL_OK;
}

static pal_status read_items(items_reader *in, pal_json value, const char *name,
        pal_message **out_messages, size_t *out_len)
{
    pal_arena *arena = in->arena;
    pal_status status;
    if (pal_json_type_of(value) == PAL_JSON_STRING) {
        in->messages = pal_arena_alloc(arena, sizeof *in->messages);
        if (in->messages)
            *in->messages = pal_message_text(arena, PAL_ROLE_USER, pal_json_string(value, arena));
        in->len = 1;
        status = pal_arena_checked(arena, in->err);
    } else if (pal_json_type_of(value) == PAL_JSON_ARRAY) {
        status = read_array(in, value, name);
    } else {
        return pal_member_wrong(in->err, name, value, "an array of items");
    }
    if (status != PAL_OK)
        return status;
    *out_messages = in->messages;
    *out_len = in->len;
    return PAL_OK;
}

pal_status pal_openai_items_read(pal_json value, const char *name, pal_openai_item_find find,
        void *user, pal_arena *arena, pal_message **out_messages, size_t *out_len, pal_error *err)
{
    items_reader in = {
            .arena = arena, .find = find, .user = user, .has_limit = true, .err = err};
    return read_items(&in, value, name, out_messages, out_len);
}

pal_status pal_openai_items_read_input(pal_json value, const char *name,
        pal_openai_item_find find, void *user, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    items_reader in = {.arena = arena,
            .find = find,
            .user = user,
            .keeps_all = true,
            .has_limit = true,
            .err = err};
    return read_items(&in, value, name, out_messages, out_len);
}

pal_status pal_openai_items_read_all(pal_json value, const char *name, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err)
{
    items_reader in = {.arena = arena, .keeps_all = true, .err = err};
    return read_items(&in, value, name, out_messages, out_len);
}

/* ---- The items of an answer ---- */

/* Marks the first content of the piece as the beginning of another item, and keeps the members of
 * that item there. */
static pal_status begin_item(items_reader *in, pal_message *piece)
{
    size_t first = 0;
    while (first < piece->parts_len && !pal_items_is_content(&piece->parts[first]))
        first++;
    if (first == piece->parts_len)
        return PAL_OK;
    pal_part *part = &piece->parts[first];
    pal_json kept = pal_member_kept(part->extra, PAL_ITEMS_FAMILY, in->arena);
    pal_json members = pal_member_kept(piece->extra, PAL_ITEMS_FAMILY, in->arena);
    bool is_refusal = pal_openai_part_is_refusal(part);
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "item");
    if (pal_json_type_of(members) == PAL_JSON_OBJECT)
        pal_json_put_raw(&writer, pal_json_raw(members));
    else
        pal_json_put_raw(&writer, pal_str_of("{}"));
    pal_member_put_others(&writer, kept, (const char *const[]){"item", NULL}, NULL, in->arena);
    pal_json_end_object(&writer);
    pal_str own;
    pal_status status = pal_member_keep(&buf, in->arena, &own, in->err);
    pal_buf_done(&buf);
    if (status == PAL_OK)
        part->extra = pal_items_keep(in->arena,
                pal_str_of(is_refusal ? PAL_OPENAI_REFUSAL_EXTRA : NULL), own);
    return status;
}

/* Joins the pieces of an answer to one message. The order of the parts is kept. */
static pal_status join_pieces(items_reader *in, pal_message *out)
{
    pal_message message = {.role = PAL_ROLE_ASSISTANT};
    size_t len = 0;
    bool has_message = false;
    for (size_t i = 0; i < in->len; i++)
        len += in->messages[i].parts_len;
    if (len > PAL_MESSAGE_PARTS_MAX)
        return pal_error_set(in->err, PAL_LIMIT, "the answer has %zu parts; at most %d are allowed",
                len, PAL_MESSAGE_PARTS_MAX);
    message.parts = pal_arena_array(in->arena, len + 1, sizeof *message.parts);
    for (size_t i = 0; message.parts && i < in->len; i++) {
        pal_message *piece = &in->messages[i];
        bool is_message = has_content(piece);
        pal_status status = is_message && has_message ? begin_item(in, piece) : PAL_OK;
        if (status != PAL_OK)
            return status;
        if (is_message && !has_message)
            message.extra = piece->extra;
        has_message = has_message || is_message;
        if (piece->parts_len)
            memcpy(message.parts + message.parts_len, piece->parts,
                    piece->parts_len * sizeof *piece->parts);
        message.parts_len += piece->parts_len;
    }
    *out = message;
    return pal_arena_checked(in->arena, in->err);
}

pal_status pal_openai_items_read_answer(
        pal_str items, pal_arena *arena, pal_message *out_message, pal_error *err)
{
    items_reader in = {.arena = arena, .keeps_all = true, .keeps_ids = true, .err = err};
    pal_json array;
    pal_status status = pal_json_parse(arena, items, NULL, &array, err);
    if (status == PAL_OK)
        status = read_array(&in, array, "output");
    return status == PAL_OK ? join_pieces(&in, out_message) : status;
}
