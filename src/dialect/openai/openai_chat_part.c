/* openai_chat_part.c - reads the content parts and tool calls of chat completions, and
 * keeps values without a counterpart in `extra`. */
#include "dialect/dialect_base64.h"
#include "dialect/dialect_member.h"
#include "dialect/openai/openai_chat_part.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Members kept in extra ---- */

pal_str pal_chat_join(pal_arena *arena, const pal_str *pieces, size_t pieces_len)
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

/* Returns the text between the braces of an object. It is empty for an empty object. */
static pal_str members_of(pal_str object)
{
    return object.len > 2 ? pal_str_make(object.data + 1, object.len - 2) : pal_str_make(NULL, 0);
}

pal_str pal_chat_keep(pal_arena *arena, pal_chat_kept what)
{
    pal_str rest = members_of(what.unknown);
    const char *mark = what.mark ? what.mark : what.role;
    bool has_inner = what.inner.len > 0;
    if (!mark && !has_inner && rest.len == 0)
        return pal_str_make(NULL, 0);
    const pal_str pieces[] = {
            pal_str_of("{\"openai\":{"),
            pal_str_of(what.mark        ? "\"type\":\""
                            : what.role ? "\"role\":\""
                                        : ""),
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
    return pal_chat_join(arena, pieces, COUNT_OF(pieces));
}

pal_status pal_chat_read_value(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    (void)arena;
    (void)err;
    *(pal_json *)((char *)record + member->offset) = value;
    return PAL_OK;
}

#define TABLE(members)                                                                             \
    {                                                                                              \
        members, COUNT_OF(members), pal_chat_read_value, NULL                                      \
    }

pal_status pal_chat_expect_object(const char *name, pal_json value, pal_error *err)
{
    if (pal_json_type_of(value) == PAL_JSON_OBJECT)
        return PAL_OK;
    return pal_member_wrong(err, name, value, "an object");
}

/* ---- Content parts ---- */

/* One record serves all types of content parts. Each table reads the members of its type. */
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
            {"type", PAL_MEMBER_OTHER, 1, .offset = offsetof(content_record, inner)},
            {member, PAL_MEMBER_STRING, 1, .offset = offsetof(content_record, text)},
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
    in->part->extra = pal_chat_keep(in->arena, (pal_chat_kept){.mark = mark, .unknown = unknown});
    return pal_arena_checked(in->arena, in->err);
}

/* Reads {"type":...,"MEMBER":{...}}: the inner object is read by `table` into the record. Unknown
 * members of both objects are added to the part's extra. On return, `record->inner` is the inner
 * value. */
static pal_status read_wrapped_part(content_reader *in, const char *member,
        const pal_member_table *table, content_record *record)
{
    const pal_member members[] = {
            {"type", PAL_MEMBER_OTHER, 1, .offset = offsetof(content_record, inner)},
            {member, PAL_MEMBER_OTHER, 1, .offset = offsetof(content_record, inner)},
    };
    const pal_member_table outer = TABLE(members);
    pal_str unknown, inner_unknown;
    pal_json inner = pal_json_find(in->value, member);
    pal_status status = pal_chat_expect_object(member, inner, in->err);
    if (status == PAL_OK)
        status = pal_members_read(&outer, 1, in->value, in->arena, record, &unknown, in->err);
    if (status == PAL_OK)
        status = pal_members_read(table, 1, inner, in->arena, record, &inner_unknown, in->err);
    if (status != PAL_OK)
        return status;
    in->part->extra = pal_chat_keep(in->arena,
            (pal_chat_kept){.inner_name = member, .inner = inner_unknown, .unknown = unknown});
    return pal_arena_checked(in->arena, in->err);
}

static void take_url(content_reader *in, pal_str url)
{
    if (!pal_base64_decode_url(url, in->arena, &in->part->media_type, &in->part->data))
        in->part->url = url;
}

static pal_status read_plain_image_part(content_reader *in, pal_json url)
{
    static const pal_member members[] = {
            {"type", PAL_MEMBER_OTHER, 1, .offset = offsetof(content_record, inner)},
            {"image_url", PAL_MEMBER_OTHER, 1, .offset = offsetof(content_record, inner)},
    };
    static const pal_member_table table = TABLE(members);
    content_record record = {0};
    pal_chat_kept what = {.inner_name = "image_url", .inner = pal_str_of("\"\"")};
    pal_status status =
            pal_members_read(&table, 1, in->value, in->arena, &record, &what.unknown, in->err);
    if (status != PAL_OK)
        return status;
    take_url(in, pal_json_string(url, in->arena));
    in->part->extra = pal_chat_keep(in->arena, what);
    return pal_arena_checked(in->arena, in->err);
}

static pal_status read_image_part(content_reader *in)
{
    static const pal_member members[] = {
            {"url", PAL_MEMBER_STRING, 1, .offset = offsetof(content_record, url)},
    };
    static const pal_member_table table = TABLE(members);
    content_record record = {0};
    pal_json inner = pal_json_find(in->value, "image_url");
    in->part->kind = PAL_PART_IMAGE;
    /* Mistral writes the URL as a plain string. */
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
            {"data", PAL_MEMBER_BASE64, 1, .offset = offsetof(content_record, data)},
            {"format", PAL_MEMBER_STRING, 1, .offset = offsetof(content_record, format)},
    };
    static const pal_member_table table = TABLE(members);
    content_record record = {0};
    pal_status status = read_wrapped_part(in, "input_audio", &table, &record);
    if (status != PAL_OK)
        return status;
    const pal_str pieces[] = {pal_str_of("audio/"), record.format};
    in->part->kind = PAL_PART_FILE;
    in->part->media_type = pal_chat_join(in->arena, pieces, COUNT_OF(pieces));
    in->part->data = record.data;
    return pal_arena_checked(in->arena, in->err);
}

static pal_status read_file_part(content_reader *in)
{
    static const pal_member members[] = {
            {"filename", PAL_MEMBER_STRING, 1 | 2, .offset = offsetof(content_record, filename)},
            {"file_data", PAL_MEMBER_STRING, 1, .offset = offsetof(content_record, url)},
    };
    static const pal_member_table table = TABLE(members);
    /* If the data is not a data: URL that can be written again, it stays in the extra unchanged. */
    static const pal_member_table name_only = {members, 1, pal_chat_read_value, NULL};
    content_record record = {0};
    pal_json inner = pal_json_find(in->value, "file");
    pal_str data = pal_member_string(inner, "file_data", in->arena);
    in->part->kind = PAL_PART_FILE;
    bool decoded = pal_base64_decode_url(data, in->arena, &in->part->media_type, &in->part->data);
    pal_status status = read_wrapped_part(in, "file", decoded ? &table : &name_only, &record);
    in->part->name = record.filename;
    return status;
}

pal_status pal_chat_read_content_part(
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
    part->extra = pal_chat_keep(arena, (pal_chat_kept){.unknown = pal_json_raw(value)});
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
        {"name", PAL_MEMBER_STRING, 1, .offset = offsetof(call_record, name)},
        {"arguments", PAL_MEMBER_VERBATIM, 1, .offset = offsetof(call_record, arguments)},
};
static const pal_member custom_members[] = {
        {"name", PAL_MEMBER_STRING, 1, .offset = offsetof(call_record, name)},
        {"input", PAL_MEMBER_STRING, 1, .offset = offsetof(call_record, arguments)},
};
static const pal_member_table function_table = TABLE(function_members);
static const pal_member_table custom_table = TABLE(custom_members);

pal_status pal_chat_read_tool_call(pal_json value, pal_arena *arena, pal_part *part, pal_error *err)
{
    bool custom = pal_json_string_is(pal_json_find(value, "type"), "custom");
    const pal_member members[] = {
            {"id", PAL_MEMBER_STRING, 1, .offset = offsetof(call_record, id)},
            {"type", PAL_MEMBER_OTHER, 1, .offset = offsetof(call_record, type)},
            {custom ? "custom" : "function", PAL_MEMBER_OTHER, 1,
                    .offset = offsetof(call_record, inner)},
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
        part->name = pal_json_string(record.type, arena); /* the store requires a name */
        part->extra = pal_chat_keep(arena, (pal_chat_kept){.unknown = pal_json_raw(value)});
        return pal_arena_checked(arena, err);
    }
    status = pal_chat_expect_object(members[2].name, record.inner, err);
    if (status == PAL_OK)
        status = pal_members_read(custom ? &custom_table : &function_table, 1, record.inner, arena,
                &record, &inner_unknown, err);
    if (status != PAL_OK)
        return status;
    part->name = record.name;
    part->arguments = record.arguments;
    part->extra = pal_chat_keep(arena,
            (pal_chat_kept){.mark = custom ? "custom" : NULL,
                    .inner_name = members[2].name,
                    .inner = inner_unknown,
                    .unknown = unknown});
    return pal_arena_checked(arena, err);
}

pal_status pal_chat_read_function_call(
        pal_json value, pal_arena *arena, pal_part *part, pal_error *err)
{
    call_record record = {0};
    pal_str unknown;
    pal_status status = pal_chat_expect_object("function_call", value, err);
    if (status == PAL_OK)
        status = pal_members_read(&function_table, 1, value, arena, &record, &unknown, err);
    if (status != PAL_OK)
        return status;
    part->kind = PAL_PART_TOOL_CALL;
    part->call_id = record.name;
    part->name = record.name;
    part->arguments = record.arguments;
    part->extra = pal_chat_keep(arena,
            (pal_chat_kept){.mark = "function_call", .inner_name = "function", .inner = unknown});
    return pal_arena_checked(arena, err);
}
