/* api_object.c - reads requests by their tables. */
#include "server/api/api_object.h"

#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/text.h"
#include "dialect/dialect_member.h"
#include "server/server_call.h"

#define WORDS_TEXT_MAX 120 /* bytes of the words that an error lists */
#define SHOWN_MAX 40       /* bytes of a wrong value that an error shows */

const pal_api_object pal_api_any_object = {.name = "Object"};
const pal_api_object pal_api_events_body = {.name = "text/event-stream"};
const pal_api_object pal_api_json_lines_body = {.name = "application/x-ndjson"};
const pal_api_object pal_api_error_object = {"Error",
        .members = PAL_API_MEMBERS(
                {"error", PAL_API_TEXT, .is_required = true},
                {"detail", PAL_API_TEXT, .is_required = true},
                {"code", PAL_API_TEXT, .is_required = true},
                {"param", PAL_API_TEXT, .is_required = true, .is_nullable = true},
                {"request_id", PAL_API_TEXT, .is_required = true})};

/* A word is stored as the int that the enum is. */
_Static_assert(sizeof(pal_turn_lane) == sizeof(int), "enums have the size of an int");

static uint64_t max_of(const pal_api_member *member)
{
    if (member->max)
        return member->max;
    return member->type == PAL_API_COUNT32 ? UINT32_MAX
            : member->type == PAL_API_TEXT ? SIZE_MAX
                                           : INT64_MAX;
}

static pal_status missing(pal_call *call, const pal_api_member *member, pal_error *err)
{
    call->fail_param = member->name;
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

static pal_status read_word(pal_call *call, const pal_api_member *member, pal_str text, int *field,
        pal_error *err)
{
    char words[WORDS_TEXT_MAX];
    int value = (int)member->min;
    for (const char *p = member->words;; value++) {
        size_t word = strcspn(p, " ");
        if (pal_str_equal(text, pal_str_make(p, word))) {
            *field = value;
            return PAL_OK;
        }
        if (!p[word])
            break;
        p += word + 1;
    }
    list_words(member->words, words);
    call->fail_param = member->name;
    return pal_error_set(err, PAL_INVALID, "'%s' must be %s, not '%.*s'", member->name, words,
            PAL_EXCERPT(text, SHOWN_MAX));
}

/* ---- Members of a body ---- */

static pal_status wrong_type(
        pal_call *call, const pal_api_member *member, const char *expected, pal_error *err)
{
    call->fail_param = member->name;
    return pal_error_set(err, PAL_INVALID, "'%s' must be %s", member->name, expected);
}

static pal_status read_time(pal_call *call, const pal_api_member *member, pal_json value,
        int64_t *field, pal_error *err)
{
    uint64_t number;
    if (pal_json_u64(value, &number) && number <= INT64_MAX) {
        *field = (int64_t)number;
        return PAL_OK;
    }
    if (pal_time_from_text(pal_json_string(value, call->arena), field))
        return PAL_OK;
    return wrong_type(call, member, "a time such as 2026-11-15T20:47:48Z", err);
}

static pal_status read_member(pal_call *call, pal_json json, const pal_api_member *member,
        void *record, pal_error *err)
{
    pal_str text;
    uint64_t count;
    void *field = (char *)record + member->offset;
    pal_status status;
    if (member->type == PAL_API_INCLUDE)
        return pal_api_object_read(call, json, member->of, field, err);
    pal_json value = pal_json_find(json, member->name);
    if (pal_json_is_absent(value))
        return member->is_required ? missing(call, member, err) : PAL_OK;
    switch (member->type) {
    case PAL_API_TEXT:
        status = pal_call_text(call, json, member->name, max_of(member), field, err);
        if (status == PAL_OK && member->is_required && ((pal_str *)field)->len < member->min)
            return missing(call, member, err);
        return status;
    case PAL_API_COUNT:
        return pal_call_count(call, json, member->name, member->min, max_of(member), field, err);
    case PAL_API_COUNT32:
        status = pal_call_count(call, json, member->name, member->min, max_of(member), &count, err);
        if (status == PAL_OK)
            *(uint32_t *)field = (uint32_t)count;
        return status;
    case PAL_API_FLAG:
        return pal_call_flag(call, json, member->name, field, err);
    case PAL_API_WORD:
        status = pal_call_text(call, json, member->name, SIZE_MAX, &text, err);
        return status == PAL_OK ? read_word(call, member, text, field, err) : status;
    case PAL_API_TIME:
        return read_time(call, member, value, field, err);
    case PAL_API_JSON_OBJECT:
        return pal_call_object(call, json, member->name, field, err);
    case PAL_API_NESTED:
        if (pal_json_type_of(value) != PAL_JSON_OBJECT)
            return wrong_type(call, member, "an object", err);
        return pal_api_object_read(call, value, member->of, field, err);
    default:
        return PAL_OK; /* the handler reads it */
    }
}

pal_status pal_api_object_read(pal_call *call, pal_json json, const pal_api_object *object,
        void *record, pal_error *err)
{
    for (const pal_api_member *member = object->members; member && member->type; member++) {
        pal_status status = read_member(call, json, member, record, err);
        if (status != PAL_OK)
            return status;
    }
    return pal_arena_checked(call->arena, err);
}

/* ---- Query parameters ---- */

static pal_status read_parameter(
        pal_call *call, const pal_api_member *member, void *field, pal_error *err)
{
    pal_str text;
    uint64_t count;
    pal_status status;
    if (!pal_exchange_query(call->exchange, member->name, &text) ||
            (text.len == 0 && member->is_required))
        return member->is_required ? missing(call, member, err) : PAL_OK;
    switch (member->type) {
    case PAL_API_TEXT:
        if (text.len > max_of(member)) {
            call->fail_param = member->name;
            return pal_error_set(err, PAL_LIMIT, "'%s' of %zu bytes exceeds the limit of %zu",
                    member->name, text.len, (size_t)max_of(member));
        }
        *(pal_str *)field = text;
        return PAL_OK;
    case PAL_API_COUNT:
        return pal_call_query_count(call, member->name, member->min, max_of(member), field, err);
    case PAL_API_COUNT32:
        status = pal_call_query_count(
                call, member->name, member->min, max_of(member), &count, err);
        if (status == PAL_OK)
            *(uint32_t *)field = (uint32_t)count;
        return status;
    case PAL_API_FLAG:
        return pal_call_query_flag(call, member->name, field, err);
    case PAL_API_WORD:
        return read_word(call, member, text, field, err);
    case PAL_API_TIME:
        return pal_call_query_time(call, member->name, field, err);
    default:
        return PAL_OK; /* the handler reads it */
    }
}

pal_status pal_api_query_read(
        pal_call *call, const pal_api_object *query, void *record, pal_error *err)
{
    for (const pal_api_member *member = query->members; member->type; member++) {
        void *field = (char *)record + member->offset;
        pal_status status = member->type == PAL_API_INCLUDE
                ? pal_api_query_read(call, member->of, field, err)
                : read_parameter(call, member, field, err);
        if (status != PAL_OK)
            return status;
    }
    return PAL_OK;
}
