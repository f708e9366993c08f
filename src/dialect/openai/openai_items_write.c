/* openai_items_write.c - writes messages as items: the parts, the id and the content of
 * each item. openai_items.c reads them. Every part gives a text that can be read again. */
#include "dialect/openai/openai_items.h"

#include "base/json/json_put.h"
#include "base/memory.h"
#include "base/text.h"
#include "dialect/dialect_base64.h"
#include "dialect/dialect_part.h"
#include "dialect/openai/openai_chat_part.h"
#include "dialect/openai/openai_items_part.h"
#include "message/message_check.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The output, and memory for values that must be parsed again. */
typedef struct items_writer {
    pal_json_writer *json;
    pal_arena *scratch;
} items_writer;

/* ---- Selecting parts ---- */

#define KEPT_BEGINNING "{\"" PAL_ITEMS_FAMILY "\":{\"type\":"

/* Returns true if the part is an item that has no counterpart here and was kept unchanged. */
static bool is_kept(const pal_part *part)
{
    return part->kind == PAL_PART_FILE && !part->data.len && !part->blob.len && !part->url.len &&
            pal_text_begins(part->extra, KEPT_BEGINNING);
}

bool pal_items_is_content(const pal_part *part)
{
    return part->kind != PAL_PART_REASONING && part->kind != PAL_PART_TOOL_CALL &&
            part->kind != PAL_PART_TOOL_RESULT && !is_kept(part);
}

/* Returns true if the part begins a message item, although content precedes it. An answer with
 * several message items is one message. The members of such an item are in the part's extra. */
static bool begins_item(const pal_part *part)
{
    static const char mark[] = "\"" PAL_ITEMS_FAMILY "\":{\"item\":";
    return part->extra.len && memmem(part->extra.data, part->extra.len, mark, sizeof mark - 1);
}

bool pal_openai_part_is_item(const pal_part *part)
{
    return is_kept(part);
}

/* Returns the index after the last part of the item that begins with part `first`. */
static size_t end_of(const pal_message *message, size_t first)
{
    size_t end = first + 1;
    if (!pal_items_is_content(&message->parts[first]))
        return end;
    while (end < message->parts_len && pal_items_is_content(&message->parts[end]) &&
            pal_part_follows(message, end) && !begins_item(&message->parts[end]))
        end++;
    return end;
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

typedef enum item_form {
    MESSAGE,
    REASONING,
    CALL,
    MCP_CALL,
    ASKED_CALL,    /* an mcp_approval_request, or an mcp_call that needed no approval after all */
    APPROVED_CALL, /* an mcp_call, made of the result of an ASKED_CALL */
    OUTPUT,
    APPROVAL,  /* an mcp_approval_response */
    TOOL_LIST, /* an mcp_list_tools */
    KEPT,
} item_form;

static const char *const prefixes[] = {[MESSAGE] = "msg_",
        [REASONING] = "rs_",
        [CALL] = "fc_",
        [MCP_CALL] = "mcp_",
        [ASKED_CALL] = "mcpr_",
        [APPROVED_CALL] = "mcp_",
        [OUTPUT] = "fco_",
        [APPROVAL] = "mcpa_",
        [TOOL_LIST] = "mcpl_",
        [KEPT] = "item_"};

bool pal_openai_is_mcp(pal_str extra)
{
    return pal_text_begins(extra, "{\"mcp\":");
}

bool pal_openai_is_asked(pal_str extra)
{
    return pal_openai_is_mcp(extra) && pal_text_ends(extra, ",\"asks\":true}}");
}

bool pal_openai_is_approved(pal_str extra)
{
    return pal_text_begins(extra, "{\"mcp\":{\"request\":");
}

static item_form form_of_kept(const pal_part *part)
{
    pal_str type = pal_text_after(part->extra, strlen(KEPT_BEGINNING));
    return pal_text_begins(type, "\"mcp_approval_response\"") ? APPROVAL
            : pal_text_begins(type, "\"mcp_list_tools\"")     ? TOOL_LIST
                                                              : KEPT;
}

/* `part` is the first part of the item; NULL if the message is empty. */
static item_form form_of(const pal_part *part)
{
    if (!part)
        return MESSAGE;
    if (part->kind == PAL_PART_REASONING)
        return REASONING;
    if (part->kind == PAL_PART_TOOL_CALL)
        return pal_openai_is_asked(part->extra)  ? ASKED_CALL
                : pal_openai_is_mcp(part->extra) ? MCP_CALL
                                                 : CALL;
    if (part->kind == PAL_PART_TOOL_RESULT)
        return pal_openai_is_approved(part->extra) ? APPROVED_CALL : OUTPUT;
    return is_kept(part) ? form_of_kept(part) : MESSAGE;
}

bool pal_openai_is_approval(const pal_part *part)
{
    return form_of(part) == APPROVAL;
}

static void put_id_text(const pal_message *message, item_form form, size_t first, size_t len,
        char out_id[PAL_OPENAI_ITEM_ID_SIZE])
{
    size_t number = len ? pal_part_number(message, first) : 0;
    pal_part_id_text(prefixes[form], message->id, number, out_id, PAL_OPENAI_ITEM_ID_SIZE);
}

void pal_openai_item_id(
        const pal_message *message, size_t index, char out_id[PAL_OPENAI_ITEM_ID_SIZE])
{
    size_t first, len;
    pal_openai_item_parts(message, index, &first, &len);
    item_form form = form_of(len ? &message->parts[first] : NULL);
    put_id_text(message, form, first, len, out_id);
}

void pal_openai_part_id(
        const pal_message *message, size_t part, char out_id[PAL_OPENAI_ITEM_ID_SIZE])
{
    put_id_text(message, form_of(&message->parts[part]), part, 1, out_id);
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

/* ---- Writing content ---- */

static pal_json parse_extra(pal_str extra, pal_arena *scratch)
{
    pal_json value = {0};
    if (extra.len == 0 || pal_json_parse(scratch, extra, NULL, &value, NULL) != PAL_OK)
        return (pal_json){0};
    return value;
}

/* Returns the object that a parsed extra keeps for a format. */
static pal_json kept_of(pal_json extra, const char *family)
{
    pal_json kept = pal_json_find(extra, family);
    return pal_json_type_of(kept) == PAL_JSON_OBJECT ? kept : (pal_json){0};
}

static pal_json kept_in(pal_str extra, const char *family, pal_arena *scratch)
{
    return kept_of(parse_extra(extra, scratch), family);
}

static bool is_refusal_of(pal_json chat)
{
    static const char *const refusals[] = {"refusal", "message_refusal", NULL};
    return pal_member_is_one_of(pal_json_find(chat, "type"), refusals);
}

bool pal_openai_part_is_refusal(const pal_part *part)
{
    pal_arena *arena = part->extra.len ? pal_arena_new(0) : NULL;
    bool is_refusal = arena && is_refusal_of(kept_in(part->extra, "openai", arena));
    pal_arena_free(arena);
    return is_refusal;
}

bool pal_openai_part_is_summary(const pal_part *part)
{
    pal_arena *arena = part->extra.len ? pal_arena_new(0) : NULL;
    pal_json kept = {0};
    if (arena)
        kept = kept_in(part->extra, PAL_ITEMS_FAMILY, arena);
    bool is_summary = pal_json_count(pal_json_find(kept, "summary")) > 0 &&
            pal_json_count(pal_json_find(kept, "content")) == 0;
    pal_arena_free(arena);
    return is_summary;
}

static void put_text(items_writer *out, const pal_part *part, bool is_assistant)
{
    static const char *const text_own[] = {"type", "text", "item", NULL};
    static const char *const refusal_own[] = {"type", "refusal", "item", NULL};
    pal_json extra = parse_extra(part->extra, out->scratch);
    pal_json kept = kept_of(extra, PAL_ITEMS_FAMILY);
    bool is_refusal = is_refusal_of(kept_of(extra, "openai"));
    bool is_output = is_assistant && !is_refusal;
    pal_json_begin_object(out->json);
    pal_put_str(out->json, "type",
            pal_str_of(is_refusal       ? "refusal"
                            : is_output ? "output_text"
                                        : "input_text"));
    pal_put_str(out->json, is_refusal ? "refusal" : "text", part->text);
    if (is_output && pal_json_type_of(pal_json_find(kept, "annotations")) == PAL_JSON_NONE) {
        pal_json_name(out->json, "annotations");
        pal_json_begin_array(out->json);
        pal_json_end_array(out->json);
    }
    pal_member_put_others(out->json, kept, is_refusal ? refusal_own : text_own, NULL, out->scratch);
    pal_json_end_object(out->json);
}

static void put_data_url(items_writer *out, const char *name, const pal_part *part)
{
    const pal_str pieces[] = {pal_str_of("data:"), part->media_type, pal_str_of(";base64,")};
    pal_json_name(out->json, name);
    pal_base64_put(
            out->json, pal_chat_join(out->scratch, pieces, COUNT_OF(pieces)), part->data);
}

/* Returns whether the part has bytes, a URL or an id. `inner` is the member that chat completions
 * keep for a file. */
static bool has_source(const pal_part *part, pal_json kept, pal_json inner)
{
    if (part->data.len || part->url.len || part->blob.len)
        return true;
    if (part->kind == PAL_PART_IMAGE)
        return pal_json_type_of(pal_json_find(kept, "file_id")) == PAL_JSON_STRING;
    return pal_json_type_of(pal_json_find(inner, "file_id")) == PAL_JSON_STRING ||
            pal_json_type_of(pal_json_find(inner, "file_data")) == PAL_JSON_STRING;
}

static void put_kept_source(items_writer *out, pal_json inner)
{
    bool has_data = pal_json_type_of(pal_json_find(inner, "file_data")) == PAL_JSON_STRING;
    const char *name = has_data ? "file_data" : "file_id";
    pal_put_raw(out->json, name, pal_json_raw(pal_json_find(inner, name)));
}

static void put_source(items_writer *out, const pal_part *part, pal_json inner)
{
    bool is_image = part->kind == PAL_PART_IMAGE;
    if (part->data.len)
        put_data_url(out, is_image ? "image_url" : "file_data", part);
    else if (part->url.len)
        pal_put_str(out->json, is_image ? "image_url" : "file_url", part->url);
    else if (part->blob.len)
        pal_put_str(out->json, "file_id", part->blob);
    else if (!is_image)
        put_kept_source(out, inner);
}

static void put_media(items_writer *out, const pal_part *part, pal_json kept, pal_json chat)
{
    static const char *const image_own[] = {"type", "image_url", "detail", NULL};
    static const char *const file_own[] = {
            "type", "filename", "file_data", "file_url", "file_id", NULL};
    bool is_image = part->kind == PAL_PART_IMAGE;
    pal_json detail = pal_json_find(pal_json_find(chat, "image_url"), "detail");
    pal_json_begin_object(out->json);
    pal_put_str(out->json, "type", pal_str_of(is_image ? "input_image" : "input_file"));
    if (part->name.len && !is_image)
        pal_put_str(out->json, "filename", part->name);
    put_source(out, part, pal_json_find(chat, "file"));
    if (is_image) {
        /* The types of the SDKs require this member. */
        pal_json_name(out->json, "detail");
        if (pal_json_type_of(detail) == PAL_JSON_STRING)
            pal_json_put_raw(out->json, pal_json_raw(detail));
        else
            pal_json_put_text(out->json, "auto");
    }
    pal_member_put_others(out->json, kept, is_image ? image_own : file_own, NULL, out->scratch);
    pal_json_end_object(out->json);
}

static void put_placeholder(items_writer *out, const pal_part *part, bool is_assistant)
{
    const pal_str pieces[] = {pal_str_of(part->kind == PAL_PART_IMAGE ? "[image" : "[file"),
            pal_str_of(part->name.len ? " " : ""), part->name, pal_str_of("]")};
    pal_part text = {
            .kind = PAL_PART_TEXT, .text = pal_chat_join(out->scratch, pieces, COUNT_OF(pieces))};
    put_text(out, &text, is_assistant);
}

/* Writes one content part. An assistant has only output_text and refusal. */
static void put_content(items_writer *out, const pal_part *part, bool is_assistant)
{
    if (part->kind != PAL_PART_IMAGE && part->kind != PAL_PART_FILE) {
        put_text(out, part, is_assistant);
        return;
    }
    pal_json extra = parse_extra(part->extra, out->scratch);
    pal_json kept = kept_of(extra, PAL_ITEMS_FAMILY), chat = kept_of(extra, "openai");
    if (is_assistant || !has_source(part, kept, pal_json_find(chat, "file")))
        put_placeholder(out, part, is_assistant);
    else
        put_media(out, part, kept, chat);
}

/* ---- Writing items ---- */

static const char *role_of(const pal_message *message, pal_arena *scratch)
{
    pal_json chat = kept_in(message->extra, "openai", scratch);
    if (message->role == PAL_ROLE_SYSTEM &&
            pal_json_string_is(pal_json_find(chat, "role"), "developer"))
        return "developer";
    /* A tool message consists of results. Any other content was added by a client, so it is shown
     * as the user's. */
    return message->role == PAL_ROLE_TOOL || (unsigned)message->role >= PAL_ROLES
            ? "user"
            : pal_role_names[message->role];
}

/* The members of the first message item are kept with the message, those of later ones with their
 * first part. */
static pal_json kept_with_item(
        const pal_message *message, size_t first, size_t len, pal_arena *scratch)
{
    if (len && begins_item(&message->parts[first]))
        return pal_json_find(
                kept_in(message->parts[first].extra, PAL_ITEMS_FAMILY, scratch), "item");
    for (size_t i = 0; i < first; i++) {
        if (pal_items_is_content(&message->parts[i]))
            return (pal_json){0};
    }
    return kept_in(message->extra, PAL_ITEMS_FAMILY, scratch);
}

static void put_message(items_writer *out, const pal_message *message, size_t first, size_t len)
{
    static const char *const own[] = {"id", "type", "role", "content", "status", NULL};
    bool is_assistant = message->role == PAL_ROLE_ASSISTANT;
    pal_put_str(out->json, "type", pal_str_of("message"));
    pal_put_str(out->json, "role", pal_str_of(role_of(message, out->scratch)));
    pal_json_name(out->json, "content");
    pal_json_begin_array(out->json);
    for (size_t i = first; i < first + len; i++)
        put_content(out, &message->parts[i], is_assistant);
    pal_json_end_array(out->json);
    pal_member_put_others(out->json, kept_with_item(message, first, len, out->scratch), own, NULL,
            out->scratch);
}

static void put_list(items_writer *out, const char *name, const char *type, pal_str text)
{
    pal_json_name(out->json, name);
    pal_json_begin_array(out->json);
    if (type) {
        pal_json_begin_object(out->json);
        pal_put_str(out->json, "type", pal_str_of(type));
        pal_put_str(out->json, "text", text);
        pal_json_end_object(out->json);
    }
    pal_json_end_array(out->json);
}

static void put_reasoning(items_writer *out, const pal_part *part, pal_json kept)
{
    static const char *const own[] = {"id", "type", "status", "encrypted_content", NULL};
    bool has_summary = pal_json_type_of(pal_json_find(kept, "summary")) == PAL_JSON_ARRAY;
    bool has_content = pal_json_type_of(pal_json_find(kept, "content")) == PAL_JSON_ARRAY;
    pal_put_str(out->json, "type", pal_str_of("reasoning"));
    if (!has_summary)
        put_list(out, "summary", NULL, (pal_str){0});
    if (!has_summary && !has_content && part->text.len)
        put_list(out, "content", "reasoning_text", part->text);
    if (part->signature.len && pal_str_is(part->family, "openai"))
        pal_put_str(out->json, "encrypted_content", part->signature);
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
static void put_call(items_writer *out, const pal_part *part, pal_json kept, pal_json chat)
{
    static const char custom[] = "custom_tool_call";
    bool is_chat_custom = pal_json_string_is(pal_json_find(chat, "type"), "custom");
    bool is_custom = is_chat_custom || pal_json_string_is(pal_json_find(kept, "type"), custom);
    const char *name = is_custom ? "input" : "arguments";
    const char *const own[] = {"id", "type", "call_id", "name", "status", name, NULL};
    pal_str arguments = part->arguments;
    if (is_custom && !is_chat_custom)
        arguments = pal_openai_custom_input(arguments, out->scratch);
    else if (!is_custom && arguments.len == 0)
        arguments = pal_str_of("{}");
    pal_put_str(out->json, "type", pal_str_of(is_custom ? custom : "function_call"));
    pal_put_str(out->json, "call_id", part->call_id);
    pal_put_str(out->json, "name", part->name);
    pal_put_str(out->json, name, arguments);
    pal_member_put_others(out->json, kept, own, NULL, out->scratch);
}

static void put_text_or_null(items_writer *out, const char *name, const pal_str *text)
{
    pal_json_name(out->json, name);
    if (text)
        pal_json_put_str(out->json, *text);
    else
        pal_json_put_null(out->json);
}

/* Writes the members that a call and the request for its approval have in common. */
static void put_mcp(
        items_writer *out, const char *type, const pal_part *part, pal_json mcp)
{
    pal_str arguments = part->kind == PAL_PART_TOOL_CALL
            ? part->arguments
            : pal_member_string(mcp, "arguments", out->scratch);
    pal_put_str(out->json, "type", pal_str_of(type));
    pal_put_str(out->json, "server_label", pal_member_string(mcp, "server", out->scratch));
    pal_put_str(out->json, "name", pal_member_string(mcp, "tool", out->scratch));
    pal_put_str(out->json, "arguments", arguments.len ? arguments : pal_str_of("{}"));
}

/* A failure is content for the model, whether the tool or its server failed. */
static void put_mcp_error(items_writer *out, const pal_part *result)
{
    if (!result || !result->is_error) {
        pal_put_null(out->json, "error");
        return;
    }
    pal_json_name(out->json, "error");
    pal_json_begin_object(out->json);
    pal_put_str(out->json, "type", pal_str_of("mcp_tool_execution_error"));
    put_list(out, "content", "text", result->text);
    pal_json_end_object(out->json);
}

/* Images and files of a result are not part of an mcp_call. */
static void put_mcp_call(
        items_writer *out, const pal_part *part, pal_json mcp, const pal_part *result)
{
    pal_str request = pal_member_string(mcp, "request", out->scratch);
    bool is_error = result && result->is_error;
    put_mcp(out, "mcp_call", part, mcp);
    put_text_or_null(out, "approval_request_id", request.len ? &request : NULL);
    put_text_or_null(out, "output", result && !is_error ? &result->text : NULL);
    put_mcp_error(out, result);
}

/* The answer to the request is in the result. A result without one belongs to a call that needed no
 * approval after all. */
static bool is_request(item_form form, const pal_part *result)
{
    return form == ASKED_CALL &&
            (!result || pal_openai_is_approved(result->extra) ||
                    pal_text_begins(result->extra, "{\"mcp\":{\"denied\":"));
}

static void put_output(items_writer *out, const pal_part *part, pal_json kept)
{
    static const char *const own[] = {"id", "type", "call_id", "output", "status", NULL};
    static const char custom[] = "custom_tool_call_output";
    bool is_custom = pal_json_string_is(pal_json_find(kept, "type"), custom);
    pal_put_str(out->json, "type", pal_str_of(is_custom ? custom : "function_call_output"));
    pal_put_str(out->json, "call_id", part->call_id);
    if (part->parts_len == 0) {
        pal_put_str(out->json, "output", part->text);
    } else {
        const pal_part text = {.kind = PAL_PART_TEXT, .text = part->text};
        pal_json_name(out->json, "output");
        pal_json_begin_array(out->json);
        if (part->text.len)
            put_content(out, &text, false);
        for (size_t i = 0; i < part->parts_len; i++)
            put_content(out, &part->parts[i], false);
        pal_json_end_array(out->json);
    }
    pal_member_put_others(out->json, kept, own, NULL, out->scratch);
}

/* For a service, calls of tool servers are calls of functions, however they were approved. */
static item_form form_for_service(item_form form)
{
    if (form == MCP_CALL || form == ASKED_CALL)
        return CALL;
    return form == APPROVED_CALL ? OUTPUT : form;
}

/* The service gets its own id and status of the item again. */
static void put_kept(items_writer *out, pal_json kept, bool is_for_service)
{
    static const char *const own[] = {"id", "status", NULL};
    pal_member_put_others(out->json, kept, is_for_service ? own + 2 : own, NULL, out->scratch);
}

/* Without a status, the item is written for a service: without our id, because the service would
 * look for it. */
static void put_item(items_writer *out, const pal_message *message, size_t index,
        const pal_part *result, const char *status)
{
    char id[PAL_OPENAI_ITEM_ID_SIZE];
    size_t first, len;
    pal_openai_item_parts(message, index, &first, &len);
    const pal_part *part = len ? &message->parts[first] : NULL;
    item_form form = form_of(part);
    pal_json extra = {0};
    if (form != MESSAGE)
        extra = parse_extra(part->extra, out->scratch);
    pal_json kept = kept_of(extra, PAL_ITEMS_FAMILY), mcp = kept_of(extra, "mcp");
    put_id_text(message, form, first, len, id);
    pal_json_begin_object(out->json);
    if (status)
        pal_put_str(out->json, "id", pal_str_of(id));
    if (!status)
        form = form_for_service(form);
    if (form == MESSAGE)
        put_message(out, message, first, len);
    else if (form == REASONING)
        put_reasoning(out, part, kept);
    else if (form == CALL)
        put_call(out, part, kept, kept_of(extra, "openai"));
    else if (is_request(form, result))
        put_mcp(out, "mcp_approval_request", part, mcp);
    else if (form == MCP_CALL || form == ASKED_CALL || form == APPROVED_CALL)
        put_mcp_call(out, part, mcp, result);
    else if (form == KEPT || form == APPROVAL || form == TOOL_LIST)
        put_kept(out, kept, !status);
    else
        put_output(out, part, kept);
    bool has_status = form != REASONING && form != APPROVAL && form != TOOL_LIST &&
            !is_request(form, result);
    if (form != OUTPUT && result && result->is_error)
        status = "failed";
    if (has_status && status)
        pal_put_str(out->json, "status", pal_str_of(status));
    pal_json_end_object(out->json);
}

pal_status pal_openai_items_put_input(
        pal_json_writer *writer, const pal_message *message, pal_error *err)
{
    size_t count = pal_openai_items_count(message);
    pal_status status = PAL_OK;
    for (size_t i = 0; status == PAL_OK && i < count; i++)
        status = pal_openai_item_put(writer, message, i, NULL, NULL, err);
    return status;
}

pal_status pal_openai_item_put(pal_json_writer *writer, const pal_message *message, size_t index,
        const pal_part *result, const char *status, pal_error *err)
{
    items_writer out = {writer, pal_arena_new(0)};
    if (!out.scratch)
        return pal_no_memory(err);
    put_item(&out, message, index, result, status);
    pal_status written = pal_arena_checked(out.scratch, err);
    pal_arena_free(out.scratch);
    return written;
}

pal_status pal_openai_item_keep(
        pal_str json, pal_arena *arena, pal_str *out_extra, pal_error *err)
{
    *out_extra = pal_items_keep(arena, (pal_str){0}, json);
    return pal_arena_checked(arena, err);
}

/* ---- Approvals ---- */

pal_status pal_openai_approval_extra(pal_str request, const pal_part *call, bool is_approved,
        pal_arena *arena, pal_str *out_extra, pal_error *err)
{
    pal_json mcp = kept_in(call->extra, "mcp", arena);
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, "mcp");
    pal_json_begin_object(&writer);
    pal_put_str(&writer, is_approved ? "request" : "denied", request);
    pal_put_str(&writer, "server", pal_member_string(mcp, "server", arena));
    pal_put_str(&writer, "tool", pal_member_string(mcp, "tool", arena));
    if (is_approved)
        pal_put_str(&writer, "arguments", call->arguments);
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    pal_status status = pal_member_keep(&buf, arena, out_extra, err);
    pal_buf_done(&buf);
    return status;
}

bool pal_openai_approval_of(
        const pal_part *part, pal_arena *arena, pal_openai_approval *out_approval)
{
    if (form_of(part) != APPROVAL)
        return false;
    pal_json kept = kept_in(part->extra, PAL_ITEMS_FAMILY, arena);
    *out_approval = (pal_openai_approval){
            .request = pal_member_string(kept, "approval_request_id", arena),
            .reason = pal_member_string(kept, "reason", arena)};
    (void)pal_json_bool(pal_json_find(kept, "approve"), &out_approval->approve);
    return true;
}
