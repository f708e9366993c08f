/* repair_call.c - ids, names and arguments of tool calls in the form that a service
 * accepts.
 *
 * An id that cannot be sent is replaced by a fixed hash of it. So the same history gives the same
 * request on every machine, and the service's cache can be used. */
#include "context/repair/repair.h"

#include <stdio.h>
#include "base/text.h"
#include "base/utf8.h"

/* ---- Ids ---- */

static bool is_alphanum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_word(char c)
{
    return is_alphanum(c) || c == '_' || c == '-';
}

static bool is_in_charset(pal_str id, pal_id_charset charset)
{
    for (size_t i = 0; i < id.len; i++) {
        char c = id.data[i];
        bool is_good = charset == PAL_ID_ALPHANUM ? is_alphanum(c)
                : charset == PAL_ID_WORD          ? is_word(c)
                                                  : (unsigned char)c >= 0x20 && c != 0x7f;
        if (!is_good)
            return false;
    }
    return charset != PAL_ID_ANY || pal_utf8_is_valid(id);
}

static bool is_valid_id(const pal_repair_rules *rules, pal_str id)
{
    return id.len && id.len >= rules->id_len_min && id.len <= rules->id_len_max &&
            is_in_charset(id, rules->id_charset);
}

static bool is_taken(const pal_repair_work *work, pal_str id, const pal_repair_unit *unit)
{
    const pal_repair_unit *owner = pal_map_find(&work->ids, id);
    return owner && (work->rules->unique_ids || owner == unit);
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_number(uint64_t hash, uint64_t number)
{
    for (int i = 0; i < 8; i++, number >>= 8)
        hash = (hash ^ (number & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}

/* FNV leaves the high bits of short inputs equal; the digits depend on all bits. */
static uint64_t mix(uint64_t hash)
{
    hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ hash >> 33;
}

static pal_str write_id(pal_repair_work *work, uint64_t hash)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    char text[sizeof("call_") + 16];
    if (work->rules->id_charset != PAL_ID_ALPHANUM) {
        snprintf(text, sizeof text, "call_%016llx", (unsigned long long)hash);
        return pal_arena_copy(work->arena, pal_str_of(text));
    }
    for (size_t i = 0; i < PAL_CALL_ID_MISTRAL; i++, hash /= 62)
        text[i] = digits[hash % 62];
    return pal_arena_copy(work->arena, pal_str_make(text, PAL_CALL_ID_MISTRAL));
}

pal_str pal_repair_call_id(pal_repair_work *work, const pal_repair_call *call, uint64_t seq)
{
    pal_str id = call->stored_id;
    if (is_valid_id(work->rules, id) && !is_taken(work, id, call->unit))
        return id;
    uint64_t hash = hash_bytes(UINT64_C(0xcbf29ce484222325), id.data, id.len);
    pal_str made = id.len ? write_id(work, mix(hash)) : id;
    bool is_second = is_valid_id(work->rules, id) || !id.len || is_taken(work, made, call->unit);
    /* A second call with the same id gets an id from its position, which does not change when
     * the history is cut. If several calls have the same position, the number of ids is used. */
    hash = hash_number(hash, call->index);
    for (uint64_t attempt = 0; is_second && !pal_arena_failure(work->arena); attempt++) {
        uint64_t place = seq && attempt == 0 ? seq : ~(work->ids.len + attempt);
        made = write_id(work, mix(hash_number(hash, place)));
        is_second = is_taken(work, made, call->unit);
    }
    return made;
}

/* ---- Names ---- */

pal_str pal_repair_tool_name(pal_repair_work *work, pal_str name, unsigned *changes)
{
    char text[PAL_TOOL_NAME_MAX];
    size_t len = name.len < PAL_TOOL_NAME_MAX ? name.len : PAL_TOOL_NAME_MAX;
    if (name.len == len && len && is_in_charset(name, PAL_ID_WORD))
        return name;
    *changes |= PAL_CHANGE_NAME;
    if (len == 0)
        return pal_str_of("unknown");
    for (size_t i = 0; i < len; i++)
        text[i] = is_word(name.data[i]) ? name.data[i] : '_';
    return pal_arena_copy(work->arena, pal_str_make(text, len));
}

/* ---- Arguments ---- */

/* Returns the number of the escape \uXXXX at `at`; -1 if there is none. */
static int32_t escape_at(pal_str json, size_t at)
{
    int32_t number = 0;
    if (json.len - at < 6 || json.data[at] != '\\' || json.data[at + 1] != 'u')
        return -1;
    for (size_t i = at + 2; i < at + 6; i++) {
        int digit = pal_text_hex(json.data[i]);
        if (digit < 0)
            return -1;
        number = number * 16 + digit;
    }
    return number;
}

/* Escapes of half a character are valid JSON, but services reject a request that contains one.
 * Each becomes \ufffd, which has the same length, so it is replaced in place. */
static void fix_escapes(char *data, size_t len)
{
    pal_str json = {data, len};
    for (size_t at = 0; at < len;) {
        int32_t number = data[at] == '\\' ? escape_at(json, at) : -1;
        bool is_high = number >= 0xd800 && number <= 0xdbff;
        int32_t low = is_high && at + 6 < len ? escape_at(json, at + 6) : -1;
        if (low >= 0xdc00 && low <= 0xdfff) {
            at += 12;
            continue;
        }
        if (number >= 0xd800 && number <= 0xdfff)
            memcpy(data + at, "\\ufffd", 6);
        at += number >= 0 ? 6 : data[at] == '\\' ? 2 : 1;
    }
}

/* Returns whether there is an escape that may be half a character. */
static bool has_half_character(pal_str json)
{
    for (size_t at = 0; at < json.len;) {
        const char *found = memchr(json.data + at, '\\', json.len - at);
        if (!found)
            break;
        at = (size_t)(found - json.data);
        int32_t number = escape_at(json, at);
        if (number >= 0xd800 && number <= 0xdfff)
            return true;
        at += 2; /* an escaped backslash does not begin an escape */
    }
    return false;
}

static pal_str without_half_characters(pal_repair_work *work, pal_str json)
{
    if (!has_half_character(json))
        return json;
    pal_str copy = pal_arena_copy(work->arena, json);
    if (copy.len)
        fix_escapes((char *)copy.data, copy.len);
    return copy.len && memcmp(copy.data, json.data, json.len) == 0 ? json : copy;
}

/* Wraps arguments that are not an object in {"arguments": ...}: as JSON if they are JSON,
 * otherwise as a text. */
static pal_str wrap(pal_repair_work *work, pal_str arguments, bool is_json)
{
    pal_str wrapped = {0};
    pal_buf buf;
    pal_buf_init(&buf, PAL_JSON_BYTES_MAX);
    pal_buf_append_text(&buf, "{\"arguments\":");
    if (is_json)
        pal_buf_append_str(&buf, arguments);
    else
        pal_json_quote(&buf, arguments);
    pal_buf_append_char(&buf, '}');
    if (buf.failure)
        work->failure = buf.failure;
    else
        wrapped = pal_arena_copy(work->arena, pal_buf_str(&buf));
    pal_buf_done(&buf);
    return wrapped;
}

static pal_str object_of(pal_repair_work *work, pal_str arguments)
{
    pal_json value = {0};
    pal_status status = pal_json_parse(work->scratch, arguments, NULL, &value, NULL);
    if (status == PAL_NO_MEMORY)
        return arguments;
    if (status == PAL_OK && pal_json_type_of(value) == PAL_JSON_OBJECT)
        return without_half_characters(work, arguments);
    for (size_t i = 0; i < arguments.len; i++) {
        if (!memchr(" \t\r\n", arguments.data[i], 4))
            return without_half_characters(work, wrap(work, arguments, status == PAL_OK));
    }
    return pal_str_of("{}");
}

bool pal_repair_call_form(pal_repair_work *work, pal_part *part, unsigned *changes)
{
    unsigned before = *changes, made = 0;
    part->name = pal_repair_tool_name(work, part->name, &made);
    pal_str arguments = pal_repair_text(work, part->arguments, &made);
    if (work->rules->object_arguments) {
        pal_str object = object_of(work, arguments);
        if (object.data != arguments.data)
            made |= PAL_CHANGE_ARGUMENTS;
        arguments = object;
    }
    part->arguments = arguments;
    if (part->extra.len && work->rules->openai_forms &&
            pal_json_type_of(pal_json_find(pal_repair_kept(work, part->extra), "type")) !=
                    PAL_JSON_NONE) {
        part->extra = pal_str_make(NULL, 0);
        made |= PAL_CHANGE_FORM;
    }
    *changes = before | made;
    return made != 0;
}
