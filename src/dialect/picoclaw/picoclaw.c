/* picoclaw.c - PicoClaw's sessions: their names, their meta files and the older files that
 * contain a whole session. */
#include "base/clock.h"
#include "base/digest.h"
#include "base/json/json_put.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "dialect/picoclaw/picoclaw_part.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define DEPTH_MAX 128
#define GO_TIME_ZERO "0001-01-01T00:00:00Z"

/* ---- Names ---- */

pal_str pal_picoclaw_base(pal_str key, pal_arena *arena)
{
    char *base = pal_arena_alloc(arena, key.len + 1);
    if (!base)
        return pal_str_make(NULL, 0);
    for (size_t i = 0; i < key.len; i++) {
        char c = key.data[i];
        base[i] = c == ':' || c == '/' || c == '\\' ? '_' : c;
    }
    return pal_str_make(base, key.len);
}

static bool is_opaque_main(pal_str alias)
{
    static const char *const mains[] = {"agent:main:main", "agent:Main:main", "agent:MAIN:main"};
    uint8_t digest[PAL_SHA256_SIZE];
    char text[6 + 2 * PAL_SHA256_SIZE + 1] = "sk_v1_";
    if (alias.len != sizeof(text) - 1 || memcmp(alias.data, text, 6) != 0)
        return false;
    for (size_t i = 0; i < COUNT_OF(mains); i++) {
        if (pal_sha256(pal_str_of(mains[i]), digest) != PAL_OK)
            return false;
        pal_hex(digest, sizeof(digest), text + 6);
        if (pal_str_is(alias, text))
            return true;
    }
    return false;
}

bool pal_picoclaw_is_main_alias(pal_str alias)
{
    size_t colons = 0;
    for (size_t i = 0; i < alias.len; i++)
        colons += alias.data[i] == ':';
    if (colons == 2 && pal_text_begins(alias, "agent:") && pal_text_ends(alias, ":main"))
        return true;
    return is_opaque_main(alias);
}

/* ---- Transient thoughts ---- */

bool pal_picoclaw_is_transient(const pal_message *message)
{
    bool thought = false;
    if (message->role != PAL_ROLE_ASSISTANT)
        return false;
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        if (part->kind == PAL_PART_REASONING)
            thought = thought || !pal_text_is_blank(part->text);
        else if (part->kind != PAL_PART_TEXT || !pal_text_is_blank(part->text))
            return false;
    }
    return thought;
}

/* ---- Meta files ---- */

static pal_status read_aliases(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    pal_picoclaw_meta *meta = record;
    pal_json item;
    size_t len = pal_json_count(value);
    if (pal_json_type_of(value) != PAL_JSON_ARRAY)
        return pal_member_wrong(err, member->name, value, "an array of strings");
    meta->aliases_len = 0;
    meta->aliases = pal_arena_array(arena, len + 1, sizeof(*meta->aliases));
    if (!meta->aliases)
        return pal_arena_checked(arena, err);
    for (pal_json_iter iter = pal_json_each(value); pal_json_next(&iter, NULL, &item);) {
        if (pal_json_type_of(item) != PAL_JSON_STRING)
            return pal_member_wrong(err, member->name, item, "an array of strings");
        meta->aliases[meta->aliases_len++] = pal_json_string(item, arena);
    }
    return pal_arena_checked(arena, err);
}

static const pal_member meta_members[] = {
        {"key", PAL_MEMBER_STRING, 1, .offset = offsetof(pal_picoclaw_meta, key)},
        {"summary", PAL_MEMBER_STRING, 1, .offset = offsetof(pal_picoclaw_meta, summary)},
        {"skip", PAL_MEMBER_U64, 1, .offset = offsetof(pal_picoclaw_meta, skip)},
        {"count", PAL_MEMBER_U64, 1, .offset = offsetof(pal_picoclaw_meta, count)},
        {"created_at", PAL_MEMBER_STRING, 1, .offset = offsetof(pal_picoclaw_meta, created_at)},
        {"updated_at", PAL_MEMBER_STRING, 1, .offset = offsetof(pal_picoclaw_meta, updated_at)},
        {"scope", PAL_MEMBER_JSON, 1, .offset = offsetof(pal_picoclaw_meta, scope)},
        {"aliases", PAL_MEMBER_OTHER, 1, .offset = offsetof(pal_picoclaw_meta, aliases)},
};
static const pal_member_table meta_table = {
        meta_members, COUNT_OF(meta_members), read_aliases, NULL};

/* Go's zero time means that there is no time. */
static pal_status read_time(const char *name, pal_str *text, int64_t *out_ms, pal_error *err)
{
    if (pal_str_is(*text, GO_TIME_ZERO))
        text->len = 0;
    if (text->len && !pal_time_from_text(*text, out_ms))
        return pal_error_set(err, PAL_INVALID, "member '%s' is '%.*s'; expected a time", name,
                PAL_EXCERPT(*text, 48));
    return PAL_OK;
}

static pal_status parse_object(
        pal_str json, const char *what, pal_arena *arena, pal_json *out_object, pal_error *err)
{
    const pal_json_limits limits = {.depth_max = DEPTH_MAX};
    pal_status status = pal_member_parse(json, &limits, arena, out_object, err);
    if (status == PAL_OK && pal_json_type_of(*out_object) != PAL_JSON_OBJECT)
        status = pal_error_set(err, PAL_INVALID, "%s is of type %s; expected an object", what,
                pal_json_type_name(pal_json_type_of(*out_object)));
    return status;
}

pal_status pal_picoclaw_meta_read(
        pal_str json, pal_arena *arena, pal_picoclaw_meta *out_meta, pal_error *err)
{
    pal_picoclaw_meta meta = {0};
    pal_json object;
    pal_status status = parse_object(json, "a meta file", arena, &object, err);
    if (status != PAL_OK)
        return status;
    status = pal_members_read(&meta_table, 1, object, arena, &meta, &meta.extra, err);
    if (status != PAL_OK)
        return status;
    status = read_time("created_at", &meta.created_at, &meta.created_at_ms, err);
    if (status != PAL_OK)
        return status;
    status = read_time("updated_at", &meta.updated_at, &meta.updated_at_ms, err);
    if (status != PAL_OK)
        return status;
    *out_meta = meta;
    return PAL_OK;
}

static void put_time(pal_json_writer *writer, const char *name, pal_str text, int64_t ms)
{
    char made[PAL_TIME_TEXT_SIZE];
    if (!text.len)
        text = ms ? pal_str_make(made, pal_time_to_text(ms, made)) : pal_str_of(GO_TIME_ZERO);
    pal_put_str(writer, name, text);
}

static void put_meta(pal_json_writer *writer, const pal_picoclaw_meta *meta)
{
    pal_json_begin_object(writer);
    pal_put_str(writer, "key", meta->key);
    pal_put_str(writer, "summary", meta->summary);
    pal_put_count(writer, "skip", meta->skip);
    pal_put_count(writer, "count", meta->count);
    put_time(writer, "created_at", meta->created_at, meta->created_at_ms);
    put_time(writer, "updated_at", meta->updated_at, meta->updated_at_ms);
    if (meta->scope.len) {
        pal_put_raw(writer, "scope", meta->scope);
    }
    if (meta->aliases_len) {
        pal_json_name(writer, "aliases");
        pal_json_begin_array(writer);
        for (size_t i = 0; i < meta->aliases_len; i++)
            pal_json_put_str(writer, meta->aliases[i]);
        pal_json_end_array(writer);
    }
    pal_json_put_members(writer, meta->extra);
    pal_json_end_object(writer);
}

/* ---- Indenting ---- */

static void new_line(pal_buf *buf, size_t depth)
{
    pal_buf_append_char(buf, '\n');
    for (size_t i = 0; i < depth; i++)
        pal_buf_append_text(buf, "  ");
}

/* Returns the length of the string that begins at `at`, including its quotes. */
static size_t string_len(pal_str json, size_t at)
{
    size_t end = at + 1;
    while (end < json.len && json.data[end] != '"')
        end += json.data[end] == '\\' ? 2 : 1;
    return (end < json.len ? end + 1 : json.len) - at;
}

/* Writes valid JSON in the layout of Go's MarshalIndent: {} and [] stay on one line. */
static void indent(pal_buf *buf, pal_str json)
{
    size_t depth = 0;
    bool opened = false;
    for (size_t i = 0; i < json.len; i++) {
        char c = json.data[i];
        if (pal_text_is_space(c))
            continue;
        bool closes = c == '}' || c == ']';
        if (closes && depth > 0)
            depth--;
        if (opened != closes) /* before the first element, or at the end of a non-empty container */
            new_line(buf, depth);
        opened = c == '{' || c == '[';
        if (c == '"') {
            size_t len = string_len(json, i);
            pal_buf_append(buf, json.data + i, len);
            i += len - 1;
            continue;
        }
        pal_buf_append_char(buf, c);
        depth += opened;
        if (c == ',')
            new_line(buf, depth);
        else if (c == ':')
            pal_buf_append_char(buf, ' ');
    }
}

void pal_picoclaw_meta_write(pal_buf *buf, const pal_picoclaw_meta *meta)
{
    pal_buf flat;
    pal_buf_init(&flat, PAL_JSON_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&flat);
    put_meta(&writer, meta);
    if (flat.failure)
        buf->failure = flat.failure;
    else
        indent(buf, pal_buf_str(&flat));
    pal_buf_done(&flat);
}

/* ---- Older files ---- */

typedef struct legacy_record {
    pal_str key;
    pal_str summary;
    pal_str created;
    pal_str updated;
    pal_json messages;
} legacy_record;

static pal_status read_messages(
        const pal_member *member, pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    (void)arena;
    if (pal_json_type_of(value) != PAL_JSON_ARRAY)
        return pal_member_wrong(err, member->name, value, "an array of messages");
    ((legacy_record *)record)->messages = value;
    return PAL_OK;
}

static const pal_member legacy_members[] = {
        {"key", PAL_MEMBER_STRING, 1, .offset = offsetof(legacy_record, key)},
        {"messages", PAL_MEMBER_OTHER, 1, .offset = offsetof(legacy_record, messages)},
        {"summary", PAL_MEMBER_STRING, 1, .offset = offsetof(legacy_record, summary)},
        {"created", PAL_MEMBER_STRING, 1, .offset = offsetof(legacy_record, created)},
        {"updated", PAL_MEMBER_STRING, 1, .offset = offsetof(legacy_record, updated)},
};
static const pal_member_table legacy_table = {
        legacy_members, COUNT_OF(legacy_members), read_messages, NULL};

static pal_status gather_messages(
        pal_json array, pal_arena *arena, pal_picoclaw_legacy *legacy, pal_error *err)
{
    pal_json item;
    legacy->messages = pal_arena_array(arena, pal_json_count(array) + 1, sizeof(pal_message));
    if (!legacy->messages)
        return pal_arena_checked(arena, err);
    for (pal_json_iter iter = pal_json_each(array); pal_json_next(&iter, NULL, &item);) {
        pal_message *message = &legacy->messages[legacy->messages_len];
        pal_status status = pal_picoclaw_value_read(item, arena, message, err);
        if (status == PAL_NO_MEMORY)
            return status;
        if (status == PAL_OK)
            legacy->messages_len++;
        else
            legacy->skipped++;
    }
    return pal_arena_checked(arena, err);
}

pal_status pal_picoclaw_legacy_read(
        pal_str json, pal_arena *arena, pal_picoclaw_legacy *out_legacy, pal_error *err)
{
    legacy_record record = {0};
    pal_picoclaw_legacy legacy = {0};
    pal_json object;
    pal_str unknown;
    pal_status status = parse_object(json, "a session file", arena, &object, err);
    if (status != PAL_OK)
        return status;
    status = pal_members_read(&legacy_table, 1, object, arena, &record, &unknown, err);
    if (status != PAL_OK)
        return status;
    status = read_time("created", &record.created, &legacy.created_at_ms, err);
    if (status != PAL_OK)
        return status;
    status = read_time("updated", &record.updated, &legacy.updated_at_ms, err);
    if (status != PAL_OK)
        return status;
    status = gather_messages(record.messages, arena, &legacy, err);
    if (status != PAL_OK)
        return status;
    legacy.key = record.key;
    legacy.summary = record.summary;
    *out_legacy = legacy;
    return PAL_OK;
}
