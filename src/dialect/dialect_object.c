/* dialect_object.c - reads JSON objects by their tables. */
#include "dialect/dialect_object.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "palaver/turn.h"

#define WORDS_TEXT_MAX 120 /* bytes of the words that an error lists */
#define SHOWN_MAX 40       /* bytes of a wrong value that an error shows */

/* A word is stored as the int that the enum is. */
_Static_assert(sizeof(pal_turn_lane) == sizeof(int), "enums have the size of an int");

/* ---- Single members ---- */

static pal_status wrong(const char *name, pal_json value, const char *expected, pal_error *err)
{
    static const char *const types[] = {
            "absent", "null", "false", "true", "a number", "a string", "an array", "an object"};
    return pal_error_set(err, PAL_INVALID, "'%s' must be %s, not %s", name, expected,
            types[pal_json_type_of(value)]);
}

pal_status pal_object_text(pal_json json, const char *name, size_t len_max, pal_arena *arena,
        pal_str *out, pal_error *err)
{
    pal_json value = pal_json_find(json, name);
    if (pal_json_is_absent(value))
        return PAL_OK;
    if (pal_json_type_of(value) != PAL_JSON_STRING)
        return wrong(name, value, "a string", err);
    pal_str text = pal_json_string(value, arena);
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_no_memory(err);
    if (text.len > len_max)
        return pal_error_set(err, PAL_LIMIT, "'%s' of %zu bytes exceeds the limit of %zu", name,
                text.len, len_max);
    *out = text;
    return PAL_OK;
}

pal_status pal_object_flag(pal_json json, const char *name, bool *out, pal_error *err)
{
    pal_json value = pal_json_find(json, name);
    if (pal_json_is_absent(value) || pal_json_bool(value, out))
        return PAL_OK;
    return wrong(name, value, "true or false", err);
}

pal_status pal_object_range(const char *name, uint64_t min, uint64_t max, uint64_t number,
        uint64_t *out, pal_error *err)
{
    if (number < min || number > max)
        return pal_error_set(err, PAL_INVALID,
                "'%s' must be from %" PRIu64 " to %" PRIu64 ", not %" PRIu64, name, min, max,
                number);
    *out = number;
    return PAL_OK;
}

pal_status pal_object_count(pal_json json, const char *name, uint64_t min, uint64_t max,
        uint64_t *out, pal_error *err)
{
    static const char expected[] = "a non-negative whole number";
    uint64_t number;
    pal_json value = pal_json_find(json, name);
    if (pal_json_is_absent(value))
        return PAL_OK;
    if (pal_json_u64(value, &number))
        return pal_object_range(name, min, max, number, out, err);
    if (pal_json_type_of(value) != PAL_JSON_NUMBER)
        return wrong(name, value, expected, err);
    return pal_error_set(err, PAL_INVALID, "'%s' must be %s, not %.*s", name, expected,
            PAL_EXCERPT(pal_json_raw(value), SHOWN_MAX));
}

pal_status pal_object_json(pal_json json, const char *name, pal_str *out, pal_error *err)
{
    pal_json value = pal_json_find(json, name);
    if (pal_json_is_absent(value))
        return PAL_OK;
    if (pal_json_type_of(value) != PAL_JSON_OBJECT)
        return wrong(name, value, "an object", err);
    *out = pal_json_raw(value);
    return PAL_OK;
}

uint64_t pal_object_max(const pal_api_member *member)
{
    if (member->max)
        return member->max;
    return member->type == PAL_API_COUNT32 ? UINT32_MAX
            : member->type == PAL_API_TEXT ? SIZE_MAX
                                           : INT64_MAX;
}

pal_status pal_object_missing(const pal_api_member *member, pal_error *err)
{
    return member->help ? pal_error_set(err, PAL_INVALID, "'%s' is missing; send %s", member->name,
                                  member->help)
                        : pal_error_set(err, PAL_INVALID, "'%s' is missing", member->name);
}

/* ---- Words ---- */

/* "reject queue steer" becomes "reject, queue or steer". */
static void list_words(const char *words, char out_text[WORDS_TEXT_MAX])
{
    size_t len = 0;
    for (const char *p = words; *p && len < WORDS_TEXT_MAX;) {
        size_t word = strcspn(p, " ");
        bool is_last = p[word] == 0;
        const char *before = p == words ? "" : is_last ? " or " : ", ";
        len += (size_t)snprintf(
                out_text + len, WORDS_TEXT_MAX - len, "%s%.*s", before, (int)word, p);
        p += word + !is_last;
    }
}

pal_status pal_object_word(const pal_api_member *member, pal_str text, int *out, pal_error *err)
{
    char words[WORDS_TEXT_MAX];
    int value = (int)member->min;
    for (const char *p = member->words;; value++) {
        size_t word = strcspn(p, " ");
        if (pal_str_equal(text, pal_str_make(p, word))) {
            *out = value;
            return PAL_OK;
        }
        if (!p[word])
            break;
        p += word + 1;
    }
    list_words(member->words, words);
    return pal_error_set(err, PAL_INVALID, "'%s' must be %s, not '%.*s'", member->name, words,
            PAL_EXCERPT(text, SHOWN_MAX));
}

/* ---- Objects ---- */

static pal_status read_time(
        const pal_api_member *member, pal_json value, pal_arena *arena, int64_t *out,
        pal_error *err)
{
    uint64_t number;
    if (pal_json_u64(value, &number) && number <= INT64_MAX) {
        *out = (int64_t)number;
        return PAL_OK;
    }
    if (pal_time_from_text(pal_json_string(value, arena), out))
        return PAL_OK;
    return pal_error_set(
            err, PAL_INVALID, "'%s' must be a time such as 2026-11-15T20:47:48Z", member->name);
}

static pal_status read_member(pal_json json, const pal_api_member *member, pal_arena *arena,
        void *record, pal_error *err)
{
    pal_str text;
    uint64_t count;
    void *field = (char *)record + member->offset;
    pal_status status;
    if (member->type == PAL_API_INCLUDE)
        return pal_object_read(json, member->of, arena, field, err);
    pal_json value = pal_json_find(json, member->name);
    if (pal_json_is_absent(value))
        return member->is_required ? pal_object_missing(member, err) : PAL_OK;
    switch (member->type) {
    case PAL_API_TEXT:
        status = pal_object_text(json, member->name, pal_object_max(member), arena, field, err);
        if (status == PAL_OK && member->is_required && ((pal_str *)field)->len < member->min)
            return pal_object_missing(member, err);
        return status;
    case PAL_API_COUNT:
        return pal_object_count(
                json, member->name, member->min, pal_object_max(member), field, err);
    case PAL_API_COUNT32:
        status = pal_object_count(
                json, member->name, member->min, pal_object_max(member), &count, err);
        if (status == PAL_OK)
            *(uint32_t *)field = (uint32_t)count;
        return status;
    case PAL_API_FLAG:
        return pal_object_flag(json, member->name, field, err);
    case PAL_API_WORD:
        status = pal_object_text(json, member->name, SIZE_MAX, arena, &text, err);
        return status == PAL_OK ? pal_object_word(member, text, field, err) : status;
    case PAL_API_TIME:
        return read_time(member, value, arena, field, err);
    case PAL_API_JSON_OBJECT:
        return pal_object_json(json, member->name, field, err);
    case PAL_API_NESTED:
        if (pal_json_type_of(value) != PAL_JSON_OBJECT)
            return pal_error_set(err, PAL_INVALID, "'%s' must be an object", member->name);
        return pal_object_read(value, member->of, arena, field, err);
    default:
        return PAL_OK; /* the caller reads it */
    }
}

pal_status pal_object_read(pal_json json, const pal_api_object *object, pal_arena *arena,
        void *record, pal_error *err)
{
    for (const pal_api_member *member = object->members; member && member->type; member++) {
        pal_status status = read_member(json, member, arena, record, err);
        if (status != PAL_OK)
            return status;
    }
    return pal_arena_checked(arena, err);
}

const pal_api_member *pal_object_find(const pal_api_object *object, pal_str name)
{
    for (const pal_api_member *member = object->members; member && member->type; member++) {
        if (member->type != PAL_API_INCLUDE && pal_str_is(name, member->name))
            return member;
        const pal_api_member *found =
                member->type == PAL_API_INCLUDE ? pal_object_find(member->of, name) : NULL;
        if (found)
            return found;
    }
    return NULL;
}
