/* dialect_member.c - reads and writes JSON objects with tables of members. */
#include <assert.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "dialect/dialect_base64.h"
#include "dialect/dialect_member.h"
#include "palaver/id.h"

#define SHOWN_MAX 48 /* bytes of a wrong value that an error shows */

/* RFC 3339 can express times from the year 1 to PAL_TIME_MAX_MS. Other times are written as
 * integers. */
#define TIME_TEXT_MIN INT64_C(-62135596800000)

static const pal_member *find_member(const pal_member_table *table, uint32_t form, pal_json name)
{
    for (size_t i = 0; i < table->members_len; i++) {
        const pal_member *member = &table->members[i];
        if ((member->forms & form) && pal_json_string_is(name, member->name))
            return member;
    }
    return NULL;
}

/* ---- Errors ---- */

pal_status pal_member_wrong(pal_error *err, const char *name, pal_json value, const char *expected)
{
    pal_json_type type = pal_json_type_of(value);
    pal_str raw = pal_json_raw(value);
    if (type == PAL_JSON_NONE)
        return pal_error_set(
                err, PAL_INVALID, "member '%s' is missing; expected %s", name, expected);
    if (type == PAL_JSON_OBJECT || type == PAL_JSON_ARRAY)
        return pal_error_set(err, PAL_INVALID, "member '%s' is an %s; expected %s", name,
                pal_json_type_name(type), expected);
    if (type == PAL_JSON_STRING)
        raw = pal_str_make(raw.data + 1, raw.len - 2);
    int shown = (int)pal_utf8_cut(raw, raw.len < SHOWN_MAX ? raw.len : SHOWN_MAX);
    const char *quote = type == PAL_JSON_STRING ? "'" : "";
    return pal_error_set(err, PAL_INVALID, "member '%s' is %s%.*s%s%s; expected %s", name, quote,
            shown, raw.data, (size_t)shown < raw.len ? "..." : "", quote, expected);
}

pal_status pal_member_within(pal_error *err, pal_status status, const char *where, size_t index)
{
    if (status == PAL_OK || !err)
        return status;
    pal_error inner = *err;
    return pal_error_set(err, status, "%s[%zu]: %s", where, index, inner.message);
}

/* ---- Reading ---- */

static const char *expected(const pal_member *member)
{
    switch (member->type) {
    case PAL_MEMBER_VERBATIM:
        return "a string, an object or an array";
    case PAL_MEMBER_BASE64:
        return "a base64 string";
    case PAL_MEMBER_OBJECT:
        return "an object";
    case PAL_MEMBER_U64:
        return "an integer from 0";
    case PAL_MEMBER_U32:
        return "an integer from 0 to 4294967295";
    case PAL_MEMBER_BOOL:
        return "true or false";
    case PAL_MEMBER_FLAG:
        return "0 or 1";
    case PAL_MEMBER_I64:
        return "an integer";
    case PAL_MEMBER_TIME:
        return "an RFC 3339 time or an integer of milliseconds";
    case PAL_MEMBER_ID:
        return "a UUID";
    case PAL_MEMBER_NAME:
        return ((const pal_member_names *)member->of)->expected;
    default:
        return "a string";
    }
}

static bool read_view(pal_member_type type, pal_json value, pal_arena *arena, pal_str *out)
{
    pal_json_type found = pal_json_type_of(value);
    if (type == PAL_MEMBER_JSON || (type == PAL_MEMBER_OBJECT && found == PAL_JSON_OBJECT) ||
            (type == PAL_MEMBER_VERBATIM &&
                    (found == PAL_JSON_OBJECT || found == PAL_JSON_ARRAY))) {
        *out = pal_json_raw(value);
        return true;
    }
    if (found != PAL_JSON_STRING || type == PAL_MEMBER_OBJECT)
        return false;
    pal_str text = pal_json_string(value, arena);
    if (type == PAL_MEMBER_BASE64)
        return pal_base64_decode(text, arena, out);
    *out = text;
    return true;
}

static bool read_time(pal_json value, pal_arena *arena, int64_t *out)
{
    if (pal_json_type_of(value) == PAL_JSON_STRING)
        return pal_time_from_text(pal_json_string(value, arena), out);
    return pal_json_i64(value, out);
}

static bool read_u32(pal_json value, uint32_t *out)
{
    uint64_t number;
    if (!pal_json_u64(value, &number) || number > UINT32_MAX)
        return false;
    *out = (uint32_t)number;
    return true;
}

static bool read_flag(pal_json value, bool *out)
{
    uint64_t number;
    if (!pal_json_u64(value, &number))
        return false;
    *out = number != 0;
    return true;
}

static bool read_name(const pal_member_names *of, pal_json value, unsigned *out)
{
    for (unsigned i = 1; i < of->names_len; i++) {
        if (pal_json_string_is(value, of->names[i])) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool read_field(const pal_member *member, pal_json value, pal_arena *arena, void *field)
{
    switch (member->type) {
    case PAL_MEMBER_U64:
        return pal_json_u64(value, field);
    case PAL_MEMBER_U32:
        return read_u32(value, field);
    case PAL_MEMBER_BOOL:
        return pal_json_bool(value, field);
    case PAL_MEMBER_FLAG:
        return read_flag(value, field);
    case PAL_MEMBER_I64:
        return pal_json_i64(value, field);
    case PAL_MEMBER_TIME:
        return read_time(value, arena, field);
    case PAL_MEMBER_ID:
        return pal_json_type_of(value) == PAL_JSON_STRING &&
                pal_id_from_text(pal_json_string(value, arena), field);
    case PAL_MEMBER_VALUE:
        *(pal_json *)field = value;
        return true;
    case PAL_MEMBER_NAME:
        return read_name(member->of, value, field);
    default:
        return read_view(member->type, value, arena, field);
    }
}

static pal_status read_record(const pal_member *member, pal_json value, pal_arena *arena,
        void *record, pal_error *err)
{
    const pal_member_record *of = member->of;
    char *bytes = record;
    pal_str ignored;
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_member_wrong(err, member->name, value, "an object");
    if (of->has)
        *(bool *)(bytes + of->has) = true;
    return pal_members_read(of->table, of->form, value, arena, bytes + member->offset,
            of->extra ? (pal_str *)(void *)(bytes + of->extra) : &ignored, err);
}

static pal_status read_member(const pal_member_table *table, const pal_member *member,
        pal_json value, pal_arena *arena, void *record, pal_error *err)
{
    if (member->type == PAL_MEMBER_OTHER)
        return table->read(member, value, arena, record, err);
    if (member->type == PAL_MEMBER_RECORD)
        return read_record(member, value, arena, record, err);
    assert(member->type != PAL_MEMBER_LIST);
    if (read_field(member, value, arena, (char *)record + member->offset))
        return PAL_OK;
    /* Decoding may have failed because there is no memory, not because the value is wrong. */
    pal_status status = pal_arena_checked(arena, err);
    if (status != PAL_OK)
        return status;
    return pal_member_wrong(err, member->name, value, expected(member));
}

/* Collects the members that the form does not have. `len` is the room for them. */
static pal_str gather_extra(
        const pal_member_table *table, uint32_t form, pal_json object, size_t len, pal_arena *arena)
{
    char *data = pal_arena_alloc(arena, len + 2);
    if (!data)
        return pal_str_make(NULL, 0);
    size_t at = 0;
    pal_json name, value;
    for (pal_json_iter iter = pal_json_each(object); pal_json_next(&iter, &name, &value);) {
        if (find_member(table, form, name))
            continue;
        pal_str name_raw = pal_json_raw(name), value_raw = pal_json_raw(value);
        data[at] = at ? ',' : '{';
        memcpy(data + at + 1, name_raw.data, name_raw.len);
        at += 1 + name_raw.len;
        data[at++] = ':';
        memcpy(data + at, value_raw.data, value_raw.len);
        at += value_raw.len;
    }
    data[at++] = '}';
    return pal_str_make(data, at);
}

pal_status pal_members_read(const pal_member_table *table, uint32_t form, pal_json object,
        pal_arena *arena, void *record, pal_str *out_extra, pal_error *err)
{
    size_t extra_len = 0;
    pal_json name, value;
    for (pal_json_iter iter = pal_json_each(object); pal_json_next(&iter, &name, &value);) {
        const pal_member *member = find_member(table, form, name);
        if (!member) {
            extra_len += pal_json_raw(name).len + pal_json_raw(value).len + 2;
        } else if (pal_json_type_of(value) != PAL_JSON_NULL) {
            pal_status status = read_member(table, member, value, arena, record, err);
            if (status != PAL_OK)
                return status;
        }
    }
    pal_str extra = pal_str_make(NULL, 0);
    if (extra_len)
        extra = gather_extra(table, form, object, extra_len, arena);
    *out_extra = extra;
    return pal_arena_checked(arena, err);
}

static void clear_field(pal_member_type type, void *field)
{
    switch (type) {
    case PAL_MEMBER_U32:
        *(uint32_t *)field = 0;
        break;
    case PAL_MEMBER_U64:
        *(uint64_t *)field = 0;
        break;
    case PAL_MEMBER_BOOL:
    case PAL_MEMBER_FLAG:
        *(bool *)field = false;
        break;
    case PAL_MEMBER_I64:
    case PAL_MEMBER_TIME:
        *(int64_t *)field = 0;
        break;
    case PAL_MEMBER_ID:
        *(pal_id *)field = (pal_id){{0}};
        break;
    case PAL_MEMBER_VALUE:
        *(pal_json *)field = (pal_json){0};
        break;
    case PAL_MEMBER_NAME:
        *(unsigned *)field = 0;
        break;
    default:
        *(pal_str *)field = (pal_str){0};
        break;
    }
}

static pal_status read_stored_record(const pal_member *member, pal_json value, pal_arena *arena,
        void *record, pal_error *err)
{
    const pal_member_record *of = member->of;
    if (of->has)
        *(bool *)((char *)record + of->has) = pal_json_type_of(value) == PAL_JSON_OBJECT;
    return pal_members_read_stored(
            of->table, of->form, value, arena, (char *)record + member->offset, err);
}

static pal_status read_stored_list(const pal_member *member, pal_json value, pal_arena *arena,
        void *record, pal_error *err)
{
    const pal_member_list *of = member->of;
    size_t len = 0;
    char *items = pal_arena_array(arena, pal_json_count(value) + 1, of->size);
    pal_json item;
    if (!items)
        return pal_no_memory(err);
    for (pal_json_iter iter = pal_json_each(value); pal_json_next(&iter, NULL, &item);) {
        pal_status status = pal_members_read_stored(
                of->table, 1, item, arena, items + of->size * len++, err);
        if (status != PAL_OK)
            return status;
    }
    memcpy((char *)record + member->offset, &items, sizeof(items));
    *(size_t *)(void *)((char *)record + of->len) = len;
    return PAL_OK;
}

pal_status pal_members_read_stored(const pal_member_table *table, uint32_t form, pal_json object,
        pal_arena *arena, void *record, pal_error *err)
{
    for (size_t i = 0; i < table->members_len; i++) {
        const pal_member *member = &table->members[i];
        void *field = (char *)record + member->offset;
        pal_json value = pal_json_find(object, member->name);
        pal_status status = PAL_OK;
        if (!(member->forms & form))
            continue;
        if (member->type == PAL_MEMBER_OTHER)
            status = table->read(member, value, arena, record, err);
        else if (member->type == PAL_MEMBER_RECORD)
            status = read_stored_record(member, value, arena, record, err);
        else if (member->type == PAL_MEMBER_LIST)
            status = read_stored_list(member, value, arena, record, err);
        else if (!read_field(member, value, arena, field))
            clear_field(member->type, field);
        if (status != PAL_OK)
            return status;
    }
    return pal_arena_checked(arena, err);
}

pal_status pal_member_parse(pal_str json, const pal_json_limits *limits, pal_arena *arena,
        pal_json *out_value, pal_error *err)
{
    pal_str kept = pal_arena_copy(arena, json);
    pal_status status = pal_arena_checked(arena, err);
    if (status == PAL_OK)
        status = pal_json_parse(arena, kept, limits, out_value, err);
    return status;
}

pal_str pal_member_string(pal_json object, const char *name, pal_arena *arena)
{
    return pal_json_string(pal_json_find(object, name), arena);
}

/* ---- Writing ---- */

static void put_time(pal_json_writer *writer, int64_t ms)
{
    char text[PAL_TIME_TEXT_SIZE];
    if (ms < TIME_TEXT_MIN || ms > PAL_TIME_MAX_MS)
        pal_json_put_i64(writer, ms);
    else
        pal_json_put_plain(writer, pal_str_make(text, pal_time_to_text(ms, text)));
}

static void put_id(pal_json_writer *writer, pal_id id)
{
    char text[PAL_ID_TEXT_SIZE];
    pal_id_to_text(id, text);
    pal_json_put_plain(writer, pal_str_make(text, PAL_ID_TEXT_LEN));
}

static bool is_absent(const pal_member *member, const void *record)
{
    const void *field = (const char *)record + member->offset;
    switch (member->type) {
    case PAL_MEMBER_TEXT:
        return false;
    case PAL_MEMBER_U64:
        return *(const uint64_t *)field == 0;
    case PAL_MEMBER_U32:
        return *(const uint32_t *)field == 0;
    case PAL_MEMBER_BOOL:
    case PAL_MEMBER_FLAG:
        return !*(const bool *)field;
    case PAL_MEMBER_I64:
        return *(const int64_t *)field == 0;
    case PAL_MEMBER_TIME:
        return *(const int64_t *)field == 0;
    case PAL_MEMBER_ID:
        return pal_id_is_none(*(const pal_id *)field);
    case PAL_MEMBER_VALUE:
        return pal_json_is_absent(*(const pal_json *)field);
    case PAL_MEMBER_NAME:
        return *(const unsigned *)field == 0;
    case PAL_MEMBER_RECORD: {
        size_t has = ((const pal_member_record *)member->of)->has;
        return has && !*(const bool *)((const char *)record + has);
    }
    case PAL_MEMBER_LIST: {
        const pal_member_list *of = member->of;
        return *(const size_t *)(const void *)((const char *)record + of->len) == 0;
    }
    default:
        return ((const pal_str *)field)->len == 0;
    }
}

static void put_record(pal_json_writer *writer, const pal_member *member, const void *record)
{
    const pal_member_record *of = member->of;
    const char *bytes = record;
    pal_json_begin_object(writer);
    pal_members_write(of->table, of->form, writer, bytes + member->offset);
    if (of->extra)
        pal_json_put_members(writer, *(const pal_str *)(const void *)(bytes + of->extra));
    pal_json_end_object(writer);
}

static void put_list(pal_json_writer *writer, const pal_member *member, const void *record)
{
    const pal_member_list *of = member->of;
    size_t len = *(const size_t *)(const void *)((const char *)record + of->len);
    const char *items;
    memcpy(&items, (const char *)record + member->offset, sizeof(items));
    pal_json_begin_array(writer);
    for (size_t i = 0; i < len; i++) {
        pal_json_begin_object(writer);
        pal_members_write(of->table, 1, writer, items + of->size * i);
        pal_json_end_object(writer);
    }
    pal_json_end_array(writer);
}

static void put_name(pal_json_writer *writer, const pal_member_names *of, unsigned value)
{
    pal_json_put_text(writer, of->names[value < of->names_len ? value : 0]);
}

static void put_field(pal_json_writer *writer, const pal_member *member, const void *record)
{
    const void *field = (const char *)record + member->offset;
    switch (member->type) {
    case PAL_MEMBER_U64:
        pal_json_put_u64(writer, *(const uint64_t *)field);
        break;
    case PAL_MEMBER_U32:
        pal_json_put_u64(writer, *(const uint32_t *)field);
        break;
    case PAL_MEMBER_BOOL:
        pal_json_put_bool(writer, *(const bool *)field);
        break;
    case PAL_MEMBER_FLAG:
        pal_json_put_u64(writer, *(const bool *)field);
        break;
    case PAL_MEMBER_I64:
        pal_json_put_i64(writer, *(const int64_t *)field);
        break;
    case PAL_MEMBER_TIME:
        put_time(writer, *(const int64_t *)field);
        break;
    case PAL_MEMBER_ID:
        put_id(writer, *(const pal_id *)field);
        break;
    case PAL_MEMBER_BASE64:
        pal_base64_put(writer, pal_str_make(NULL, 0), *(const pal_str *)field);
        break;
    case PAL_MEMBER_VALUE:
        pal_json_put_raw(writer, pal_json_raw(*(const pal_json *)field));
        break;
    case PAL_MEMBER_NAME:
        put_name(writer, member->of, *(const unsigned *)field);
        break;
    case PAL_MEMBER_RECORD:
        put_record(writer, member, record);
        break;
    case PAL_MEMBER_LIST:
        put_list(writer, member, record);
        break;
    case PAL_MEMBER_OBJECT:
    case PAL_MEMBER_JSON:
        pal_json_put_raw(writer, *(const pal_str *)field);
        break;
    default:
        pal_json_put_str(writer, *(const pal_str *)field);
        break;
    }
}

void pal_members_write(
        const pal_member_table *table, uint32_t form, pal_json_writer *writer, const void *record)
{
    for (size_t i = 0; i < table->members_len; i++) {
        const pal_member *member = &table->members[i];
        if (!(member->forms & form))
            continue;
        if (member->type == PAL_MEMBER_OTHER) {
            table->write(member, writer, record);
        } else if (!is_absent(member, record)) {
            pal_json_name(writer, member->name);
            put_field(writer, member, record);
        }
    }
}

pal_status pal_member_keep(const pal_buf *buf, pal_arena *arena, pal_str *out_json, pal_error *err)
{
    if (buf->failure)
        return pal_error_set(err, buf->failure,
                buf->failure == PAL_LIMIT ? "the JSON text exceeds its limit" : "out of memory");
    pal_str json = pal_arena_copy(arena, pal_buf_str(buf));
    pal_status status = pal_arena_checked(arena, err);
    if (status == PAL_OK)
        *out_json = json;
    return status;
}

/* ---- Checking ---- */

static pal_status check_object(const pal_member_table *table, uint32_t form, const char *name,
        pal_json value, pal_error *err)
{
    if (!table)
        return PAL_OK;
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return pal_member_wrong(err, name, value, "an object");
    pal_json key, unused;
    for (pal_json_iter iter = pal_json_each(value); pal_json_next(&iter, &key, &unused);) {
        const pal_member *member = find_member(table, form, key);
        if (member)
            return pal_error_set(err, PAL_INVALID,
                    "'%s' must not contain '%s', which is a separate member", name, member->name);
    }
    return PAL_OK;
}

pal_status pal_members_check(const pal_member_table *table, uint32_t form, const char *name,
        pal_str extra, pal_error *err)
{
    if (extra.len == 0)
        return PAL_OK;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    const pal_json_limits limits = {.depth_max = PAL_EXTRA_DEPTH_MAX};
    pal_json value;
    pal_error inner = {0};
    pal_status status = pal_json_parse(arena, extra, &limits, &value, &inner);
    if (status == PAL_OK)
        status = check_object(table, form, name, value, err);
    else
        (void)pal_error_set(err, status, "'%s' is not JSON: %s", name, inner.message);
    pal_arena_free(arena);
    return status;
}

bool pal_member_is_one_of(pal_json value, const char *const *names)
{
    for (; names && *names; names++) {
        if (pal_json_string_is(value, *names))
            return true;
    }
    return false;
}

pal_json pal_member_kept(pal_str extra, const char *family, pal_arena *arena)
{
    pal_json value = {0};
    if (extra.len == 0 || pal_json_parse(arena, extra, NULL, &value, NULL) != PAL_OK)
        return (pal_json){0};
    value = pal_json_find(value, family);
    return pal_json_type_of(value) == PAL_JSON_OBJECT ? value : (pal_json){0};
}

pal_str pal_member_wrap(pal_arena *arena, const char *family, pal_str object)
{
    if (object.len == 0)
        return pal_str_make(NULL, 0);
    size_t family_len = strlen(family), len = family_len + object.len + sizeof("{\"\":}") - 1;
    char *data = pal_arena_alloc(arena, len + 1);
    if (!data)
        return pal_str_make(NULL, 0);
    snprintf(data, len + 1, "{\"%s\":", family);
    memcpy(data + family_len + 4, object.data, object.len);
    data[len - 1] = '}';
    return pal_str_make(data, len);
}

void pal_member_put_others(pal_json_writer *writer, pal_json object, const char *const *own,
        const char *const *never, pal_arena *arena)
{
    pal_json name, value;
    for (pal_json_iter iter = pal_json_each(object); pal_json_next(&iter, &name, &value);) {
        if (pal_member_is_one_of(name, own) || pal_member_is_one_of(name, never))
            continue;
        pal_json_name_str(writer, pal_json_string(name, arena));
        pal_json_put_raw(writer, pal_json_raw(value));
    }
}
