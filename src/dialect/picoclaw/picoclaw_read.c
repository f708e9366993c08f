/* picoclaw_read.c - reads PicoClaw's lines.
 *
 * By the plain rules a line gives, in this order: reasoning_content as reasoning; content as text,
 * or as the result of tool_call_id; media as images; attachments as files; tool_calls. Values
 * without a field are kept: in a part's extra as {"picoclaw":{...}}, or in the message's extra
 * under their own name; if a native member has that name, under "picoclaw". */
#include "base/clock.h"
#include "base/json/json_put.h"
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "dialect/native/native.h"
#include "dialect/picoclaw/picoclaw_part.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define GO_TIME_ZERO INT64_C(-62135596800000) /* the start of year 1, which means "no time" in Go */
#define DEPTH_MAX (PAL_MESSAGE_DEPTH_MAX + 8) /* our member is a few levels deep in a line */

/* ---- Objects by table ---- */

typedef struct line_record {
    pal_str role;
    pal_str content;
    pal_str model_name;
    int64_t created_at;
    pal_json media;
    pal_json attachments;
    pal_str reasoning;
    pal_json tool_calls;
    pal_str tool_call_id;
    pal_json palaver;
} line_record;

typedef struct call_record {
    pal_str id;
    pal_str type;
    pal_json function;
} call_record;

typedef struct function_record {
    pal_str name;
    pal_str arguments;
} function_record;

typedef struct attachment_record {
    pal_str url;
    pal_str filename;
    pal_str content_type;
} attachment_record;

static const pal_member line_members[] = {
        {"role", PAL_MEMBER_STRING, 1, .offset = offsetof(line_record, role)},
        {"content", PAL_MEMBER_STRING, 1, .offset = offsetof(line_record, content)},
        {"model_name", PAL_MEMBER_STRING, 1, .offset = offsetof(line_record, model_name)},
        {"created_at", PAL_MEMBER_TIME, 1, .offset = offsetof(line_record, created_at)},
        {"media", PAL_MEMBER_VALUE, 1, .offset = offsetof(line_record, media)},
        {"attachments", PAL_MEMBER_VALUE, 1, .offset = offsetof(line_record, attachments)},
        {"reasoning_content", PAL_MEMBER_STRING, 1, .offset = offsetof(line_record, reasoning)},
        {"tool_calls", PAL_MEMBER_VALUE, 1, .offset = offsetof(line_record, tool_calls)},
        {"tool_call_id", PAL_MEMBER_STRING, 1, .offset = offsetof(line_record, tool_call_id)},
        {PAL_PICOCLAW_OURS, PAL_MEMBER_VALUE, 1, .offset = offsetof(line_record, palaver)},
};
static const pal_member_table line_table = {line_members, COUNT_OF(line_members), NULL, NULL};

static const pal_member call_members[] = {
        {"id", PAL_MEMBER_STRING, 1, .offset = offsetof(call_record, id)},
        {"type", PAL_MEMBER_STRING, 1, .offset = offsetof(call_record, type)},
        {"function", PAL_MEMBER_VALUE, 1, .offset = offsetof(call_record, function)},
};
static const pal_member_table call_table = {call_members, COUNT_OF(call_members), NULL, NULL};

static const pal_member function_members[] = {
        {"name", PAL_MEMBER_STRING, 1, .offset = offsetof(function_record, name)},
        {"arguments", PAL_MEMBER_STRING, 1, .offset = offsetof(function_record, arguments)},
};
static const pal_member_table function_table = {
        function_members, COUNT_OF(function_members), NULL, NULL};

static const pal_member attachment_members[] = {
        {"url", PAL_MEMBER_STRING, 1, .offset = offsetof(attachment_record, url)},
        {"filename", PAL_MEMBER_STRING, 1, .offset = offsetof(attachment_record, filename)},
        {"content_type", PAL_MEMBER_STRING, 1, .offset = offsetof(attachment_record, content_type)},
};
static const pal_member_table attachment_table = {
        attachment_members, COUNT_OF(attachment_members), NULL, NULL};

/* ---- Keeping members ---- */

/* Copies the text of a buf to the arena. */
static pal_str keep(pal_buf *buf, pal_arena *arena)
{
    pal_str text = {0};
    if (buf->failure || pal_member_keep(buf, arena, &text, NULL) != PAL_OK)
        text = pal_str_make(NULL, 0);
    return text;
}

/* Returns {"picoclaw":{"type":TYPE,"function":INNER,...unknown}}, or an empty text if there is
 * nothing to keep. */
static pal_status keep_in_part(pal_arena *arena, pal_str type, pal_str inner, pal_str unknown,
        pal_str *out_extra, pal_error *err)
{
    pal_buf buf;
    if (!type.len && !inner.len && !unknown.len)
        return PAL_OK;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, PAL_PICOCLAW_KEPT);
    pal_json_begin_object(&writer);
    if (type.len) {
        pal_put_str(&writer, "type", type);
    }
    if (inner.len) {
        pal_put_raw(&writer, "function", inner);
    }
    pal_json_put_members(&writer, unknown);
    pal_json_end_object(&writer);
    pal_json_end_object(&writer);
    pal_status status = pal_member_keep(&buf, arena, out_extra, err);
    pal_buf_done(&buf);
    return status;
}

bool pal_picoclaw_is_native_name(pal_json name)
{
    static const char *const names[] = {"id", "seq", "parts", "parent_id", "model", "usage",
            "flags", "tokens", "client_id", "turn_id", PAL_PICOCLAW_KEPT};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (pal_json_string_is(name, names[i]))
            return true;
    }
    return false;
}

static void put_members(pal_json_writer *writer, pal_json object, bool native, pal_arena *arena)
{
    pal_json name, value;
    for (pal_json_iter iter = pal_json_each(object); pal_json_next(&iter, &name, &value);) {
        if (pal_picoclaw_is_native_name(name) != native)
            continue;
        pal_json_name_str(writer, pal_json_string(name, arena));
        pal_json_put_raw(writer, pal_json_raw(value));
    }
}

static bool has_native_name(pal_json object)
{
    pal_json name, value;
    bool found = false;
    for (pal_json_iter iter = pal_json_each(object); !found && pal_json_next(&iter, &name, &value);)
        found = pal_picoclaw_is_native_name(name);
    return found;
}

/* Moves members whose names are not allowed in an extra, and an unknown role, under "picoclaw". */
static pal_status shelter(pal_str *extra, pal_str role, pal_arena *arena, pal_error *err)
{
    pal_json object = {0};
    pal_buf buf;
    pal_status status = extra->len ? pal_json_parse(arena, *extra, NULL, &object, err) : PAL_OK;
    if (status != PAL_OK || (!role.len && !has_native_name(object)))
        return status;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&buf);
    pal_json_begin_object(&writer);
    pal_json_name(&writer, PAL_PICOCLAW_KEPT);
    pal_json_begin_object(&writer);
    if (role.len) {
        pal_put_str(&writer, "role", role);
    }
    put_members(&writer, object, true, arena);
    pal_json_end_object(&writer);
    put_members(&writer, object, false, arena);
    pal_json_end_object(&writer);
    *extra = keep(&buf, arena);
    pal_buf_done(&buf);
    return extra->len ? PAL_OK : pal_no_memory(err);
}

/* ---- Parts ---- */

static pal_status read_media(pal_json value, pal_arena *arena, pal_part *part, pal_error *err)
{
    if (pal_json_type_of(value) != PAL_JSON_STRING)
        return pal_member_wrong(err, "media", value, "an array of strings");
    part->kind = PAL_PART_IMAGE;
    part->url = pal_json_string(value, arena);
    return pal_arena_checked(arena, err);
}

static pal_status read_attachment(pal_json value, pal_arena *arena, pal_part *part, pal_error *err)
{
    attachment_record record = {0};
    pal_str unknown = {0};
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_member_wrong(err, "attachments", value, "an array of objects");
    pal_status status =
            pal_members_read(&attachment_table, 1, value, arena, &record, &unknown, err);
    if (status != PAL_OK)
        return status;
    part->kind = PAL_PART_FILE;
    part->url = record.url;
    part->name = record.filename;
    part->media_type = record.content_type;
    return keep_in_part(arena, (pal_str){0}, (pal_str){0}, unknown, &part->extra, err);
}

static pal_status read_call(pal_json value, pal_arena *arena, pal_part *part, pal_error *err)
{
    call_record call = {0};
    function_record function = {0};
    pal_str unknown = {0}, inner = {0};
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_member_wrong(err, "tool_calls", value, "an array of objects");
    pal_status status = pal_members_read(&call_table, 1, value, arena, &call, &unknown, err);
    pal_json_type type = pal_json_type_of(call.function);
    if (status == PAL_OK && type != PAL_JSON_NONE && type != PAL_JSON_OBJECT)
        return pal_member_wrong(err, "function", call.function, "an object");
    if (status == PAL_OK && type == PAL_JSON_OBJECT)
        status = pal_members_read(&function_table, 1, call.function, arena, &function, &inner, err);
    if (status != PAL_OK)
        return status;
    part->kind = PAL_PART_TOOL_CALL;
    part->call_id = call.id;
    part->name = function.name;
    part->arguments = function.arguments;
    if (pal_str_is(call.type, "function"))
        call.type.len = 0;
    return keep_in_part(arena, call.type, inner, unknown, &part->extra, err);
}

typedef pal_status (*read_part_fn)(
        pal_json value, pal_arena *arena, pal_part *part, pal_error *err);

static pal_status read_array(const char *name, pal_json array, read_part_fn read, pal_arena *arena,
        pal_message *message, pal_error *err)
{
    pal_json item;
    pal_json_type type = pal_json_type_of(array);
    if (type == PAL_JSON_NONE)
        return PAL_OK;
    if (type != PAL_JSON_ARRAY)
        return pal_member_wrong(err, name, array, "an array");
    pal_status status = PAL_OK;
    size_t index = 0;
    for (pal_json_iter iter = pal_json_each(array);
            status == PAL_OK && pal_json_next(&iter, NULL, &item); index++)
        status = read(item, arena, &message->parts[message->parts_len++], err);
    return pal_member_within(err, status, name, index);
}

static bool holds_nothing_else(const line_record *line)
{
    return !line->reasoning.len && !pal_json_count(line->media) &&
            !pal_json_count(line->attachments) && !pal_json_count(line->tool_calls);
}

static void add_texts(const line_record *line, pal_message *message)
{
    if (line->reasoning.len)
        message->parts[message->parts_len++] =
                (pal_part){.kind = PAL_PART_REASONING, .text = line->reasoning};
    if (line->tool_call_id.len)
        message->parts[message->parts_len++] = (pal_part){
                .kind = PAL_PART_TOOL_RESULT, .call_id = line->tool_call_id, .text = line->content};
    else if (line->content.len || holds_nothing_else(line))
        message->parts[message->parts_len++] =
                (pal_part){.kind = PAL_PART_TEXT, .text = line->content};
}

static pal_status read_parts(
        const line_record *line, pal_arena *arena, pal_message *message, pal_error *err)
{
    size_t most = 2 + pal_json_count(line->media) + pal_json_count(line->attachments) +
            pal_json_count(line->tool_calls);
    message->parts = pal_arena_array(arena, most, sizeof(*message->parts));
    if (!message->parts)
        return pal_arena_checked(arena, err);
    add_texts(line, message);
    pal_status status = read_array("media", line->media, read_media, arena, message, err);
    if (status == PAL_OK)
        status = read_array("attachments", line->attachments, read_attachment, arena, message, err);
    if (status == PAL_OK)
        status = read_array("tool_calls", line->tool_calls, read_call, arena, message, err);
    return status;
}

/* ---- Lines ---- */

pal_status pal_picoclaw_plain_read(
        pal_json line, pal_arena *arena, pal_picoclaw_plain *out_plain, pal_error *err)
{
    line_record record = {0};
    pal_picoclaw_plain plain = {0};
    pal_message *message = &plain.message;
    if (pal_json_type_of(line) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID, "a line is of type %s; expected an object",
                pal_json_type_name(pal_json_type_of(line)));
    pal_status status =
            pal_members_read(&line_table, 1, line, arena, &record, &message->extra, err);
    if (status != PAL_OK)
        return status;
    if (!record.role.len)
        return pal_member_wrong(err, "role", (pal_json){0}, "a role");
    status = read_parts(&record, arena, message, err);
    if (status != PAL_OK)
        return status;
    message->role = pal_role_from_name(record.role);
    if (message->role != PAL_ROLE_NONE)
        record.role.len = 0;
    else
        message->role = PAL_ROLE_USER;
    message->model = record.model_name;
    message->created_at = record.created_at == GO_TIME_ZERO ? 0 : record.created_at;
    plain.content = record.content;
    plain.reasoning = record.reasoning;
    plain.palaver = record.palaver;
    status = shelter(&message->extra, record.role, arena, err);
    if (status == PAL_OK)
        *out_plain = plain;
    return status;
}

static bool is_marked(pal_json palaver, const char *name)
{
    bool marked = false;
    return pal_json_bool(pal_json_find(palaver, name), &marked) && marked;
}

/* Returns the part that a mark such as "content":2 names, if its kind is in `kinds` (one bit per
 * kind). */
static pal_part *marked_part(
        pal_json palaver, const char *name, uint32_t kinds, pal_message *message)
{
    uint64_t index;
    if (!pal_json_u64(pal_json_find(palaver, name), &index) || index >= message->parts_len)
        return NULL;
    pal_part *part = &message->parts[index];
    return (1u << part->kind) & kinds ? part : NULL;
}

/* The n-th call of the message gets the arguments of the n-th call of the line. */
static void fill_arguments(pal_message *message, const pal_message *plain)
{
    size_t next = 0;
    for (size_t i = 0; i < message->parts_len; i++) {
        if (message->parts[i].kind != PAL_PART_TOOL_CALL)
            continue;
        while (next < plain->parts_len && plain->parts[next].kind != PAL_PART_TOOL_CALL)
            next++;
        if (next < plain->parts_len)
            message->parts[i].arguments = plain->parts[next++].arguments;
    }
}

static void fill_parts(pal_json palaver, const pal_picoclaw_plain *plain, pal_message *message)
{
    const uint32_t spoken =
            1u << PAL_PART_TEXT | 1u << PAL_PART_COMPACTION | 1u << PAL_PART_TOOL_RESULT;
    pal_part *content = marked_part(palaver, "content", spoken, message);
    pal_part *reasoning = marked_part(palaver, "reasoning", 1u << PAL_PART_REASONING, message);
    if (content)
        content->text = plain->content;
    if (reasoning)
        reasoning->text = plain->reasoning;
    if (is_marked(palaver, "calls"))
        fill_arguments(message, &plain->message);
}

/* Combines the plain members of the line with its member "palaver". */
static void join(const pal_picoclaw_plain *plain, pal_message *message)
{
    if (is_marked(plain->palaver, "parts")) {
        fill_parts(plain->palaver, plain, message);
    } else {
        message->parts = plain->message.parts;
        message->parts_len = plain->message.parts_len;
    }
    if (!is_marked(plain->palaver, "extra"))
        message->extra = plain->message.extra;
    if (message->created_at == 0)
        message->created_at = plain->message.created_at;
    if (message->model.len == 0)
        message->model = plain->message.model;
}

pal_status pal_picoclaw_value_read(
        pal_json line, pal_arena *arena, pal_message *out_message, pal_error *err)
{
    pal_picoclaw_plain plain;
    pal_message message = {0};
    pal_status status = pal_picoclaw_plain_read(line, arena, &plain, err);
    if (status != PAL_OK)
        return status;
    pal_json ours = pal_json_find(plain.palaver, "message");
    status = pal_json_type_of(ours) == PAL_JSON_OBJECT
            ? pal_native_message_read(ours, arena, &message, err)
            : PAL_INVALID;
    if (status == PAL_NO_MEMORY)
        return status;
    if (status == PAL_OK)
        join(&plain, &message);
    else
        message = plain.message; /* the line was not written by us, so its plain members are used */
    status = pal_arena_checked(arena, err);
    if (status != PAL_OK)
        return status;
    status = pal_native_message_check_form(&message, err);
    if (status != PAL_OK)
        return status;
    *out_message = message;
    return PAL_OK;
}

pal_status pal_picoclaw_line_read(
        pal_str line, pal_arena *arena, pal_message *out_message, pal_error *err)
{
    const pal_json_limits limits = {.depth_max = DEPTH_MAX};
    pal_json value;
    pal_status status = pal_member_parse(line, &limits, arena, &value, err);
    if (status == PAL_OK)
        status = pal_picoclaw_value_read(value, arena, out_message, err);
    return status;
}
