/* dialect_openai_chat.c - reads the messages of OpenAI's chat completions.
 *
 * Each object's known members go to fields; the rest of it is kept in `extra` as
 * {"openai":{...}}, in the same places that it had. Two members that an object always uses up
 * mark there what it was: "role" for a message ("developer", "function"), "type" for a part
 * ("refusal", "message_refusal", "custom", "function_call", or an unknown type, whose whole object
 * is then kept). dialect_openai_chat_write.c does the way back. */
#include "dialect/dialect_base64.h"
#include "dialect/dialect_member.h"
#include "dialect/dialect_native.h"
#include "dialect/dialect_openai_chat.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define ROLES_EXPECTED "one of system, developer, user, assistant, tool, function"

/* ---- What is kept in extra ---- */

static pal_str join(pal_arena *arena, const pal_str *pieces, size_t pieces_len)
{
    size_t len = 0;
    for (size_t i = 0; i < pieces_len; i++)
        len += pieces[i].len;
    char *data = pal_arena_alloc(arena, len + 1);
    if (!data)
        return pal_str_make(NULL, 0);
    char *to = data;
    for (size_t i = 0; i < pieces_len; i++) {
        if (pieces[i].len)
            memcpy(to, pieces[i].data, pieces[i].len);
        to += pieces[i].len;
    }
    return pal_str_make(data, len);
}

/* The inside of {...}; the empty view for an empty object. */
static pal_str members_of(pal_str object)
{
    return object.len > 2 ? pal_str_make(object.data + 1, object.len - 2) : pal_str_make(NULL, 0);
}

typedef struct kept {
    const char *mark;       /* what "type" was; a word of ours or NULL */
    const char *role;       /* likewise "role" */
    const char *inner_name; /* the member whose unknown members are `inner` */
    pal_str inner;          /* JSON, or empty */
    pal_str unknown;        /* an object of members that nobody knows, or empty */
} kept;

/* {"openai":{...}}, or empty where nothing is kept. */
static pal_str keep(pal_arena *arena, kept what)
{
    pal_str rest = members_of(what.unknown);
    const char *mark = what.mark ? what.mark : what.role;
    bool has_inner = what.inner.len > 0;
    if (!mark && !has_inner && rest.len == 0)
        return pal_str_make(NULL, 0);
    const pal_str pieces[] = {
            pal_str_of("{\"openai\":{"),
            pal_str_of(what.mark ? "\"type\":\"" : what.role ? "\"role\":\"" : ""),
            pal_str_of(mark),
            pal_str_of(mark ? "\"" : ""),
            pal_str_of(mark && has_inner ? "," : ""),
            pal_str_of(has_inner ? "\"" : ""),
            pal_str_of(has_inner ? what.inner_name : ""),
            pal_str_of(has_inner ? "\":" : ""),
            what.inner,
            pal_str_of((mark || has_inner) && rest.len ? "," : ""),
            rest,
            pal_str_of("}}"),
    };
    return join(arena, pieces, COUNT_OF(pieces));
}

/* Members of OTHER type are kept as parsed values, for code that knows what is around them. */
static pal_status read_value(const pal_member *member, pal_json value, pal_arena *arena,
        void *record, pal_error *err)
{
    (void)arena;
    (void)err;
    *(pal_json *)((char *)record + member->offset) = value;
    return PAL_OK;
}

#define TABLE(members) {members, COUNT_OF(members), read_value, NULL}

static pal_status expect_object(const char *name, pal_json value, pal_error *err)
{
    if (pal_json_type_of(value) == PAL_JSON_OBJECT)
        return PAL_OK;
    return pal_member_wrong(err, name, value, "an object");
}

/* ---- Content parts ---- */

/* One record serves all types of content parts; each table takes what its type has. */
typedef struct content_record {
    pal_str text;
    pal_str url;
    pal_str data;
    pal_str format;
    pal_str filename;
    pal_json inner;
} content_record;

typedef struct content_reader {
    pal_json value;
    pal_arena *arena;
    pal_part *part;
    pal_error *err;
} content_reader;

static pal_status read_text_part(content_reader *in, const char *member, const char *mark)
{
    const pal_member members[] = {
            {"type", PAL_MEMBER_OTHER, 1, offsetof(content_record, inner)},
            {member, PAL_MEMBER_STRING, 1, offsetof(content_record, text)},
    };
    const pal_member_table table = TABLE(members);
    content_record record = {0};
    pal_str unknown;
    pal_json text = pal_json_find(in->value, member);
    if (pal_json_type_of(text) != PAL_JSON_STRING)
        return pal_member_wrong(in->err, member, text, "a string");
    pal_status status =
            pal_members_read(&table, 1, in->value, in->arena, &record, &unknown, in->err);
    if (status != PAL_OK)
        return status;
    in->part->kind = PAL_PART_TEXT;
    in->part->text = record.text;
    in->part->extra = keep(in->arena, (kept){.mark = mark, .unknown = unknown});
    return pal_arena_checked(in->arena, in->err);
}

/* Reads {"type":...,"MEMBER":{...}}: the inner object by `table` into the record; what is unknown
 * in either lands in the part's extra. `record->inner` is the inner value on return. */
static pal_status read_wrapped_part(content_reader *in, const char *member,
        const pal_member_table *table, content_record *record)
{
    const pal_member members[] = {
            {"type", PAL_MEMBER_OTHER, 1, offsetof(content_record, inner)},
            {member, PAL_MEMBER_OTHER, 1, offsetof(content_record, inner)},
    };
    const pal_member_table outer = TABLE(members);
    pal_str unknown, inner_unknown;
    pal_json inner = pal_json_find(in->value, member);
    pal_status status = expect_object(member, inner, in->err);
    if (status == PAL_OK)
        status = pal_members_read(&outer, 1, in->value, in->arena, record, &unknown, in->err);
    if (status == PAL_OK)
        status = pal_members_read(table, 1, inner, in->arena, record, &inner_unknown, in->err);
    if (status != PAL_OK)
        return status;
    in->part->extra = keep(in->arena,
            (kept){.inner_name = member, .inner = inner_unknown, .unknown = unknown});
    return pal_arena_checked(in->arena, in->err);
}

static void take_url(content_reader *in, pal_str url)
{
    if (!pal_data_url_decode(url, in->arena, &in->part->media_type, &in->part->data))
        in->part->url = url;
}

static pal_status read_plain_image_part(content_reader *in, pal_json url)
{
    static const pal_member members[] = {
            {"type", PAL_MEMBER_OTHER, 1, offsetof(content_record, inner)},
            {"image_url", PAL_MEMBER_OTHER, 1, offsetof(content_record, inner)},
    };
    static const pal_member_table table = TABLE(members);
    content_record record = {0};
    kept what = {.inner_name = "image_url", .inner = pal_str_of("\"\"")};
    pal_status status =
            pal_members_read(&table, 1, in->value, in->arena, &record, &what.unknown, in->err);
    if (status != PAL_OK)
        return status;
    take_url(in, pal_json_string(url, in->arena));
    in->part->extra = keep(in->arena, what);
    return pal_arena_checked(in->arena, in->err);
}

static pal_status read_image_part(content_reader *in)
{
    static const pal_member members[] = {
            {"url", PAL_MEMBER_STRING, 1, offsetof(content_record, url)},
    };
    static const pal_member_table table = TABLE(members);
    content_record record = {0};
    pal_json inner = pal_json_find(in->value, "image_url");
    in->part->kind = PAL_PART_IMAGE;
    /* Mistral's spelling: the URL stands there by itself. */
    if (pal_json_type_of(inner) == PAL_JSON_STRING)
        return read_plain_image_part(in, inner);
    pal_status status = read_wrapped_part(in, "image_url", &table, &record);
    if (status == PAL_OK && record.url.len == 0)
        status = pal_member_wrong(in->err, "url", pal_json_find(inner, "url"), "a URL");
    if (status == PAL_OK)
        take_url(in, record.url);
    return status;
}

static pal_status read_audio_part(content_reader *in)
{
    static const pal_member members[] = {
            {"data", PAL_MEMBER_BASE64, 1, offsetof(content_record, data)},
            {"format", PAL_MEMBER_STRING, 1, offsetof(content_record, format)},
    };
    static const pal_member_table table = TABLE(members);
    content_record record = {0};
    pal_status status = read_wrapped_part(in, "input_audio", &table, &record);
    if (status != PAL_OK)
        return status;
    const pal_str pieces[] = {pal_str_of("audio/"), record.format};
    in->part->kind = PAL_PART_FILE;
    in->part->media_type = join(in->arena, pieces, COUNT_OF(pieces));
    in->part->data = record.data;
    return pal_arena_checked(in->arena, in->err);
}

static pal_status read_file_part(content_reader *in)
{
    static const pal_member members[] = {
            {"filename", PAL_MEMBER_STRING, 1 | 2, offsetof(content_record, filename)},
            {"file_data", PAL_MEMBER_STRING, 1, offsetof(content_record, url)},
    };
    static const pal_member_table table = TABLE(members);
    /* Data that is no data: URL that we can write again stays in the extra as it is. */
    static const pal_member_table name_only = {members, 1, read_value, NULL};
    content_record record = {0};
    pal_json inner = pal_json_find(in->value, "file");
    pal_str data = pal_member_string(inner, "file_data", in->arena);
    in->part->kind = PAL_PART_FILE;
    bool decoded =
            pal_data_url_decode(data, in->arena, &in->part->media_type, &in->part->data);
    pal_status status = read_wrapped_part(in, "file", decoded ? &table : &name_only, &record);
    in->part->name = record.filename;
    return status;
}

static pal_status read_content_part(
        pal_json value, pal_arena *arena, pal_part *part, pal_error *err)
{
    content_reader in = {value, arena, part, err};
    pal_json type = pal_json_find(value, "type");
    if (pal_json_type_of(type) != PAL_JSON_STRING)
        return pal_member_wrong(err, "type", type, "a string");
    if (pal_json_string_is(type, "text"))
        return read_text_part(&in, "text", NULL);
    if (pal_json_string_is(type, "refusal"))
        return read_text_part(&in, "refusal", "refusal");
    if (pal_json_string_is(type, "image_url"))
        return read_image_part(&in);
    if (pal_json_string_is(type, "input_audio"))
        return read_audio_part(&in);
    if (pal_json_string_is(type, "file"))
        return read_file_part(&in);
    part->kind = PAL_PART_FILE;
    part->extra = keep(arena, (kept){.unknown = pal_json_raw(value)});
    return pal_arena_checked(arena, err);
}

/* ---- Tool calls ---- */

typedef struct call_record {
    pal_str id;
    pal_json type;
    pal_json inner;
    pal_str name;
    pal_str arguments;
} call_record;

static const pal_member function_members[] = {
        {"name", PAL_MEMBER_STRING, 1, offsetof(call_record, name)},
        {"arguments", PAL_MEMBER_VERBATIM, 1, offsetof(call_record, arguments)},
};
static const pal_member custom_members[] = {
        {"name", PAL_MEMBER_STRING, 1, offsetof(call_record, name)},
        {"input", PAL_MEMBER_STRING, 1, offsetof(call_record, arguments)},
};
static const pal_member_table function_table = TABLE(function_members);
static const pal_member_table custom_table = TABLE(custom_members);

/* {"id","type","function":{"name","arguments"}}, or "custom" with an "input". */
static pal_status read_tool_call(pal_json value, pal_arena *arena, pal_part *part, pal_error *err)
{
    bool custom = pal_json_string_is(pal_json_find(value, "type"), "custom");
    const pal_member members[] = {
            {"id", PAL_MEMBER_STRING, 1, offsetof(call_record, id)},
            {"type", PAL_MEMBER_OTHER, 1, offsetof(call_record, type)},
            {custom ? "custom" : "function", PAL_MEMBER_OTHER, 1, offsetof(call_record, inner)},
    };
    const pal_member_table table = TABLE(members);
    call_record record = {0};
    pal_str unknown, inner_unknown;
    pal_status status = pal_members_read(&table, 1, value, arena, &record, &unknown, err);
    if (status != PAL_OK)
        return status;
    part->kind = PAL_PART_TOOL_CALL;
    part->call_id = record.id;
    bool function = !custom && pal_json_type_of(record.inner) != PAL_JSON_NONE;
    if (!custom && !function && pal_json_type_of(record.type) == PAL_JSON_STRING &&
            !pal_json_string_is(record.type, "function")) {
        part->extra = keep(arena, (kept){.unknown = pal_json_raw(value)});
        return pal_arena_checked(arena, err);
    }
    status = expect_object(members[2].name, record.inner, err);
    if (status == PAL_OK)
        status = pal_members_read(custom ? &custom_table : &function_table, 1, record.inner, arena,
                &record, &inner_unknown, err);
    if (status != PAL_OK)
        return status;
    part->name = record.name;
    part->arguments = record.arguments;
    part->extra = keep(arena, (kept){.mark = custom ? "custom" : NULL,
                                      .inner_name = members[2].name,
                                      .inner = inner_unknown,
                                      .unknown = unknown});
    return pal_arena_checked(arena, err);
}

/* The legacy "function_call" of an assistant's message has no id: the name joins it to its answer. */
static pal_status read_function_call(
        pal_json value, pal_arena *arena, pal_part *part, pal_error *err)
{
    call_record record = {0};
    pal_str unknown;
    pal_status status = expect_object("function_call", value, err);
    if (status == PAL_OK)
        status = pal_members_read(&function_table, 1, value, arena, &record, &unknown, err);
    if (status != PAL_OK)
        return status;
    part->kind = PAL_PART_TOOL_CALL;
    part->call_id = record.name;
    part->name = record.name;
    part->arguments = record.arguments;
    part->extra = keep(arena,
            (kept){.mark = "function_call", .inner_name = "function", .inner = unknown});
    return pal_arena_checked(arena, err);
}

/* ---- Messages ---- */

enum { OF_ANY = 1 << 0, OF_ASSISTANT = 1 << 1, OF_TOOL = 1 << 2, OF_ALL = 7 };

typedef struct chat_record {
    pal_json role;
    pal_json content;
    pal_json tool_calls;
    pal_json function_call;
    pal_str reasoning;
    pal_str refusal;
    pal_str tool_call_id;
    pal_str name;
} chat_record;

static const pal_member chat_members[] = {
        {"role", PAL_MEMBER_OTHER, OF_ALL, offsetof(chat_record, role)},
        {"content", PAL_MEMBER_OTHER, OF_ALL, offsetof(chat_record, content)},
        {"tool_calls", PAL_MEMBER_OTHER, OF_ASSISTANT, offsetof(chat_record, tool_calls)},
        {"function_call", PAL_MEMBER_OTHER, OF_ASSISTANT, offsetof(chat_record, function_call)},
        {"reasoning_content", PAL_MEMBER_STRING, OF_ASSISTANT, offsetof(chat_record, reasoning)},
        {"refusal", PAL_MEMBER_STRING, OF_ASSISTANT, offsetof(chat_record, refusal)},
        {"tool_call_id", PAL_MEMBER_STRING, OF_TOOL, offsetof(chat_record, tool_call_id)},
        {"name", PAL_MEMBER_STRING, OF_TOOL, offsetof(chat_record, name)},
};
static const pal_member_table chat_table = TABLE(chat_members);

static pal_status read_content_parts(
        pal_json content, pal_arena *arena, pal_part *parts, size_t *parts_len, pal_error *err)
{
    size_t at = 0;
    pal_json item;
    for (pal_json_iter iter = pal_json_each(content); pal_json_next(&iter, NULL, &item); at++) {
        pal_status status = read_content_part(item, arena, &parts[*parts_len], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "content", at);
        (*parts_len)++;
    }
    return PAL_OK;
}

/* Appends to `parts`, which has room. An empty string is no part: it stands for no content. */
static pal_status read_content(
        pal_json content, pal_arena *arena, pal_part *parts, size_t *parts_len, pal_error *err)
{
    pal_json_type type = pal_json_type_of(content);
    if (type == PAL_JSON_NONE)
        return PAL_OK;
    if (type == PAL_JSON_ARRAY)
        return read_content_parts(content, arena, parts, parts_len, err);
    if (type != PAL_JSON_STRING)
        return pal_member_wrong(err, "content", content, "a string, an array of parts or null");
    pal_str text = pal_json_string(content, arena);
    if (text.len) {
        parts[*parts_len].kind = PAL_PART_TEXT;
        parts[(*parts_len)++].text = text;
    }
    return PAL_OK;
}

static pal_status read_tool_calls(
        pal_json calls, pal_arena *arena, pal_part *parts, size_t *parts_len, pal_error *err)
{
    size_t at = 0;
    pal_json item;
    if (pal_json_type_of(calls) == PAL_JSON_NONE)
        return PAL_OK;
    if (pal_json_type_of(calls) != PAL_JSON_ARRAY)
        return pal_member_wrong(err, "tool_calls", calls, "an array");
    for (pal_json_iter iter = pal_json_each(calls); pal_json_next(&iter, NULL, &item); at++) {
        pal_status status = expect_object("tool_calls", item, err);
        if (status == PAL_OK)
            status = read_tool_call(item, arena, &parts[*parts_len], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "tool_calls", at);
        (*parts_len)++;
    }
    return PAL_OK;
}

/* Room for all parts of the message, for the caller to fill in. */
static pal_status make_parts(
        const chat_record *record, pal_arena *arena, pal_part **out_parts, pal_error *err)
{
    const size_t others = 4; /* reasoning, text, refusal, function call */
    size_t content_len = pal_json_type_of(record->content) == PAL_JSON_ARRAY
            ? pal_json_count(record->content)
            : 0;
    size_t len = content_len + pal_json_count(record->tool_calls) + others;
    if (len > PAL_MESSAGE_PARTS_MAX + others)
        return pal_error_set(err, PAL_LIMIT, "%zu parts are too many; at most %d are allowed", len,
                PAL_MESSAGE_PARTS_MAX);
    *out_parts = pal_arena_array(arena, len, sizeof(**out_parts));
    return pal_arena_checked(arena, err);
}

static pal_status read_assistant(
        const chat_record *record, pal_arena *arena, pal_message *message, pal_error *err)
{
    pal_part *parts = message->parts;
    size_t *len = &message->parts_len;
    if (record->reasoning.len) {
        parts[*len].kind = PAL_PART_REASONING;
        parts[(*len)++].text = record->reasoning;
    }
    pal_status status = read_content(record->content, arena, parts, len, err);
    if (status == PAL_OK && record->refusal.len) {
        parts[*len].kind = PAL_PART_TEXT;
        parts[*len].text = record->refusal;
        parts[(*len)++].extra = keep(arena, (kept){.mark = "message_refusal"});
    }
    if (status == PAL_OK)
        status = read_tool_calls(record->tool_calls, arena, parts, len, err);
    if (status == PAL_OK && pal_json_type_of(record->function_call) != PAL_JSON_NONE)
        status = read_function_call(record->function_call, arena, &parts[(*len)++], err);
    return status;
}

/* The whole message is one result; content in parts lies inside of it. */
static pal_status read_tool(const chat_record *record, bool legacy, pal_arena *arena,
        pal_message *message, pal_error *err)
{
    pal_part *result = pal_arena_alloc(arena, sizeof(*result));
    if (!result)
        return pal_arena_checked(arena, err);
    result->kind = PAL_PART_TOOL_RESULT;
    result->call_id = legacy ? record->name : record->tool_call_id;
    result->name = record->name;
    if (pal_json_type_of(record->content) == PAL_JSON_STRING) {
        result->text = pal_json_string(record->content, arena);
    } else {
        size_t len = 0;
        pal_status status = read_content(record->content, arena, message->parts, &len, err);
        if (status != PAL_OK)
            return status;
        result->parts = len ? message->parts : NULL;
        result->parts_len = len;
    }
    message->parts = result;
    message->parts_len = 1;
    return pal_arena_checked(arena, err);
}

typedef struct chat_role {
    const char *name;
    pal_role role;
    bool is_kept; /* our role does not say it */
} chat_role;

static const chat_role chat_roles[] = {
        {"system", PAL_ROLE_SYSTEM, false},
        {"developer", PAL_ROLE_SYSTEM, true},
        {"user", PAL_ROLE_USER, false},
        {"assistant", PAL_ROLE_ASSISTANT, false},
        {"tool", PAL_ROLE_TOOL, false},
        {"function", PAL_ROLE_TOOL, true},
};

static const chat_role *find_role(pal_json value)
{
    for (size_t i = 0; i < COUNT_OF(chat_roles); i++) {
        if (pal_json_string_is(value, chat_roles[i].name))
            return &chat_roles[i];
    }
    return NULL;
}

static pal_status read_message(
        pal_json value, pal_arena *arena, pal_message *message, pal_error *err)
{
    pal_status status = expect_object("messages", value, err);
    if (status != PAL_OK)
        return status;
    const chat_role *role = find_role(pal_json_find(value, "role"));
    if (!role)
        return pal_member_wrong(err, "role", pal_json_find(value, "role"), ROLES_EXPECTED);
    uint32_t form = role->role == PAL_ROLE_ASSISTANT ? OF_ASSISTANT
            : role->role == PAL_ROLE_TOOL            ? OF_TOOL
                                                     : OF_ANY;
    chat_record record = {0};
    kept what = {.role = role->is_kept ? role->name : NULL};
    status = pal_members_read(&chat_table, form, value, arena, &record, &what.unknown, err);
    if (status == PAL_OK)
        status = make_parts(&record, arena, &message->parts, err);
    if (status != PAL_OK)
        return status;
    message->role = role->role;
    message->extra = keep(arena, what);
    if (form == OF_ASSISTANT)
        return read_assistant(&record, arena, message, err);
    if (form == OF_TOOL)
        return read_tool(&record, role->is_kept, arena, message, err);
    return read_content(record.content, arena, message->parts, &message->parts_len, err);
}

static pal_status read_array(pal_json array, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    size_t len = pal_json_count(array);
    if (len > PAL_OPENAI_CHAT_MESSAGES_MAX)
        return pal_error_set(err, PAL_LIMIT, "%zu messages are too many; at most %d are allowed",
                len, PAL_OPENAI_CHAT_MESSAGES_MAX);
    pal_message *messages = len ? pal_arena_array(arena, len, sizeof(*messages)) : NULL;
    if (len && !messages)
        return pal_arena_checked(arena, err);
    pal_json_iter iter = pal_json_each(array);
    pal_json item;
    for (size_t i = 0; i < len && pal_json_next(&iter, NULL, &item); i++) {
        pal_status status = read_message(item, arena, &messages[i], err);
        if (status != PAL_OK)
            return pal_member_within(err, status, "messages", i);
    }
    *out_messages = messages;
    *out_len = len;
    return pal_arena_checked(arena, err);
}

static pal_status read_single(pal_json value, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    pal_message *message = pal_arena_alloc(arena, sizeof(*message));
    if (!message)
        return pal_arena_checked(arena, err);
    pal_status status = read_message(value, arena, message, err);
    if (status != PAL_OK)
        return status;
    *out_messages = message;
    *out_len = 1;
    return pal_arena_checked(arena, err);
}

pal_status pal_openai_chat_read_value(pal_json value, pal_arena *arena,
        pal_message **out_messages, size_t *out_len, pal_error *err)
{
    pal_json messages = pal_json_find(value, "messages");
    if (pal_json_type_of(value) == PAL_JSON_ARRAY)
        return read_array(value, arena, out_messages, out_len, err);
    if (pal_json_type_of(messages) == PAL_JSON_ARRAY)
        return read_array(messages, arena, out_messages, out_len, err);
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_error_set(err, PAL_INVALID,
                "expected a message, an array of messages, or an object with 'messages'");
    return read_single(value, arena, out_messages, out_len, err);
}

pal_status pal_openai_chat_read(pal_str json, pal_arena *arena, pal_message **out_messages,
        size_t *out_len, pal_error *err)
{
    const pal_json_limits limits = {.depth_max = PAL_OPENAI_CHAT_DEPTH_MAX};
    pal_json value;
    pal_status status = pal_member_parse(json, &limits, arena, &value, err);
    if (status != PAL_OK)
        return status;
    return pal_openai_chat_read_value(value, arena, out_messages, out_len, err);
}
