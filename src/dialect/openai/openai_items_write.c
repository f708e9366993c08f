/* openai_items_write.c - writes messages as items: the parts, the id and the content of
 * each item. openai_items.c reads them. */
#include "dialect/openai/openai_items.h"

#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_part.h"
#include "dialect/openai/openai_items_part.h"

/* ---- Selecting parts ---- */

/* Returns the index after the last part of the item that begins with part `first`. */
static size_t end_of(const pal_message *message, size_t first)
{
    return pal_part_run_end(message, first, pal_items_is_content);
}

size_t pal_openai_items_count(const pal_message *message)
{
    size_t count = 0;
    for (size_t at = 0; at < message->parts_len; at = end_of(message, at))
        count++;
    return count ? count : 1; /* an empty message is still one item */
}

void pal_openai_item_parts(
        const pal_message *message, size_t index, size_t *out_first, size_t *out_len)
{
    size_t first = 0;
    while (index-- > 0 && first < message->parts_len)
        first = end_of(message, first);
    *out_first = first;
    *out_len = first < message->parts_len ? end_of(message, first) - first : 0;
}

/* ---- Ids ---- */

typedef enum item_form { MESSAGE, REASONING, CALL, MCP_CALL, OUTPUT, KEPT } item_form;

static const char *const prefixes[] = {[MESSAGE] = "msg_",
        [REASONING] = "rs_",
        [CALL] = "fc_",
        [MCP_CALL] = "mcp_",
        [OUTPUT] = "fco_",
        [KEPT] = "item_"};

bool pal_openai_is_mcp(pal_str extra)
{
    return pal_text_begins(extra, "{\"mcp\":");
}

static item_form form_of(const pal_message *message, size_t first, size_t len)
{
    pal_part_kind kind = len ? message->parts[first].kind : PAL_PART_NONE;
    bool is_kept = len && pal_items_is_kept(&message->parts[first]);
    return kind == PAL_PART_REASONING      ? REASONING
            : kind == PAL_PART_TOOL_CALL   ? pal_openai_is_mcp(message->parts[first].extra)
                    ? MCP_CALL
                    : CALL
            : kind == PAL_PART_TOOL_RESULT ? OUTPUT
            : is_kept                      ? KEPT
                                           : MESSAGE;
}

void pal_openai_item_id(
        const pal_message *message, size_t index, char out_id[PAL_OPENAI_ITEM_ID_SIZE])
{
    size_t first, len;
    pal_openai_item_parts(message, index, &first, &len);
    size_t number = len ? pal_part_number(message, first) : 0;
    const char *prefix = prefixes[form_of(message, first, len)];
    pal_part_id_text(prefix, message->id, number, out_id, PAL_OPENAI_ITEM_ID_SIZE);
}

bool pal_openai_item_parse(pal_str id, pal_id *out_message)
{
    return pal_part_id_parse(id, prefixes, sizeof prefixes / sizeof *prefixes, out_message);
}

bool pal_openai_item_index(const pal_message *message, pal_str id, size_t *out_index)
{
    char own[PAL_OPENAI_ITEM_ID_SIZE];
    size_t count = pal_openai_items_count(message);
    for (size_t i = 0; i < count; i++) {
        pal_openai_item_id(message, i, own);
        if (pal_str_is(id, own)) {
            *out_index = i;
            return true;
        }
    }
    return false;
}

/* ---- Writing items ---- */

static void put_member(pal_items_writer *out, const char *name, pal_str text)
{
    pal_put_str(out->json, name, text);
}

static const char *role_of(const pal_message *message, pal_arena *scratch)
{
    pal_json chat = pal_member_kept(message->extra, "openai", scratch);
    if (message->role == PAL_ROLE_SYSTEM &&
            pal_json_string_is(pal_json_find(chat, "role"), "developer"))
        return "developer";
    /* A tool message consists of results. Any other content was added by a client, so it is shown
     * as the user's. */
    return message->role == PAL_ROLE_TOOL ? "user" : pal_role_name(message->role);
}

/* The kept members of a message are written with its first item. */
static bool is_first_content(const pal_message *message, size_t first)
{
    for (size_t i = 0; i < first; i++) {
        if (pal_items_is_content(&message->parts[i]))
            return false;
    }
    return true;
}

static void put_message(pal_items_writer *out, const pal_message *message, size_t first, size_t len)
{
    static const char *const own[] = {"id", "type", "role", "content", "status", NULL};
    bool is_assistant = message->role == PAL_ROLE_ASSISTANT;
    put_member(out, "type", pal_str_of("message"));
    put_member(out, "role", pal_str_of(role_of(message, out->scratch)));
    pal_json_name(out->json, "content");
    pal_json_begin_array(out->json);
    for (size_t i = first; i < first + len; i++)
        pal_items_put_content(out, &message->parts[i], is_assistant);
    pal_json_end_array(out->json);
    if (is_first_content(message, first))
        pal_member_put_others(out->json,
                pal_member_kept(message->extra, PAL_ITEMS_FAMILY, out->scratch), own, NULL,
                out->scratch);
}

static void put_list(pal_items_writer *out, const char *name, const char *type, pal_str text)
{
    pal_json_name(out->json, name);
    pal_json_begin_array(out->json);
    if (type) {
        pal_json_begin_object(out->json);
        put_member(out, "type", pal_str_of(type));
        put_member(out, "text", text);
        pal_json_end_object(out->json);
    }
    pal_json_end_array(out->json);
}

static void put_reasoning(pal_items_writer *out, const pal_part *part, pal_json kept)
{
    static const char *const own[] = {"id", "type", "status", "encrypted_content", NULL};
    bool has_summary = pal_json_type_of(pal_json_find(kept, "summary")) == PAL_JSON_ARRAY;
    bool has_content = pal_json_type_of(pal_json_find(kept, "content")) == PAL_JSON_ARRAY;
    put_member(out, "type", pal_str_of("reasoning"));
    if (!has_summary)
        put_list(out, "summary", NULL, (pal_str){0});
    if (!has_summary && !has_content && part->text.len)
        put_list(out, "content", "reasoning_text", part->text);
    if (part->signature.len && pal_str_is(part->family, "openai"))
        put_member(out, "encrypted_content", part->signature);
    pal_member_put_others(out->json, kept, own, NULL, out->scratch);
}

pal_str pal_openai_custom_input(pal_str arguments, pal_arena *arena)
{
    pal_json value, input;
    if (arguments.len == 0 || pal_json_parse(arena, arguments, NULL, &value, NULL) != PAL_OK)
        return arguments;
    if (pal_json_type_of(value) == PAL_JSON_OBJECT && pal_json_count(value) == 0)
        return (pal_str){0};
    input = pal_json_find(value, "input");
    return pal_json_type_of(input) == PAL_JSON_STRING ? pal_json_string(input, arena) : arguments;
}

/* Chat completions also have custom tools, whose input is plain text. If the model wrote no
 * arguments, an empty object is written, because SDKs parse the arguments. */
static void put_call(pal_items_writer *out, const pal_part *part, pal_json kept)
{
    static const char custom[] = "custom_tool_call";
    pal_json chat = pal_member_kept(part->extra, "openai", out->scratch);
    bool is_chat_custom = pal_json_string_is(pal_json_find(chat, "type"), "custom");
    bool is_custom = is_chat_custom || pal_json_string_is(pal_json_find(kept, "type"), custom);
    const char *name = is_custom ? "input" : "arguments";
    const char *const own[] = {"id", "type", "call_id", "name", "status", name, NULL};
    pal_str arguments = part->arguments;
    if (is_custom && !is_chat_custom)
        arguments = pal_openai_custom_input(arguments, out->scratch);
    else if (!is_custom && arguments.len == 0)
        arguments = pal_str_of("{}");
    put_member(out, "type", pal_str_of(is_custom ? custom : "function_call"));
    put_member(out, "call_id", part->call_id);
    put_member(out, "name", part->name);
    put_member(out, name, arguments);
    pal_member_put_others(out->json, kept, own, NULL, out->scratch);
}

static void put_text_or_null(pal_items_writer *out, const char *name, const pal_str *text)
{
    pal_json_name(out->json, name);
    if (text)
        pal_json_put_str(out->json, *text);
    else
        pal_json_put_null(out->json);
}

/* Images and files of a result are not part of an mcp_call. */
static void put_mcp_call(pal_items_writer *out, const pal_part *part, const pal_part *result)
{
    pal_json mcp = pal_member_kept(part->extra, "mcp", out->scratch);
    bool is_error = result && result->is_error;
    put_member(out, "type", pal_str_of("mcp_call"));
    put_member(out, "server_label", pal_member_string(mcp, "server", out->scratch));
    put_member(out, "name", pal_member_string(mcp, "tool", out->scratch));
    put_member(out, "arguments", part->arguments.len ? part->arguments : pal_str_of("{}"));
    put_text_or_null(out, "approval_request_id", NULL);
    put_text_or_null(out, "output", result && !is_error ? &result->text : NULL);
    put_text_or_null(out, "error", is_error ? &result->text : NULL);
}

static void put_output(pal_items_writer *out, const pal_part *part, pal_json kept)
{
    static const char *const own[] = {"id", "type", "call_id", "output", "status", NULL};
    static const char custom[] = "custom_tool_call_output";
    bool is_custom = pal_json_string_is(pal_json_find(kept, "type"), custom);
    put_member(out, "type", pal_str_of(is_custom ? custom : "function_call_output"));
    put_member(out, "call_id", part->call_id);
    if (part->parts_len == 0) {
        put_member(out, "output", part->text);
    } else {
        const pal_part text = {.kind = PAL_PART_TEXT, .text = part->text};
        pal_json_name(out->json, "output");
        pal_json_begin_array(out->json);
        if (part->text.len)
            pal_items_put_content(out, &text, false);
        for (size_t i = 0; i < part->parts_len; i++)
            pal_items_put_content(out, &part->parts[i], false);
        pal_json_end_array(out->json);
    }
    pal_member_put_others(out->json, kept, own, NULL, out->scratch);
}

static void put_kept(pal_items_writer *out, pal_json kept)
{
    static const char *const own[] = {"id", "status", NULL};
    pal_member_put_others(out->json, kept, own, NULL, out->scratch);
}

static void put_item(pal_items_writer *out, const pal_message *message, size_t index,
        const pal_part *result, const char *status)
{
    char id[PAL_OPENAI_ITEM_ID_SIZE];
    size_t first, len;
    pal_openai_item_parts(message, index, &first, &len);
    item_form form = form_of(message, first, len);
    const pal_part *part = len ? &message->parts[first] : NULL;
    pal_json kept = {0};
    if (form != MESSAGE)
        kept = pal_member_kept(part->extra, PAL_ITEMS_FAMILY, out->scratch);
    pal_openai_item_id(message, index, id);
    pal_json_begin_object(out->json);
    put_member(out, "id", pal_str_of(id));
    if (form == MESSAGE)
        put_message(out, message, first, len);
    else if (form == REASONING)
        put_reasoning(out, part, kept);
    else if (form == CALL)
        put_call(out, part, kept);
    else if (form == MCP_CALL)
        put_mcp_call(out, part, result);
    else if (form == KEPT)
        put_kept(out, kept);
    else
        put_output(out, part, kept);
    if (form == MCP_CALL && result && result->is_error)
        status = "failed";
    if (form != REASONING)
        put_member(out, "status", pal_str_of(status));
    pal_json_end_object(out->json);
}

pal_status pal_openai_item_put(pal_json_writer *writer, const pal_message *message, size_t index,
        const pal_part *result, const char *status, pal_error *err)
{
    pal_items_writer out = {writer, pal_arena_new(0)};
    if (!out.scratch)
        return pal_no_memory(err);
    put_item(&out, message, index, result, status);
    pal_status written = pal_arena_checked(out.scratch, err);
    pal_arena_free(out.scratch);
    return written;
}
