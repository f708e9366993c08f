/* provider_responses.c - reads forwarded answers of OpenAI's Responses API for their model and
 * usage. The events that end a stream contain the complete response, so they can be long. On the
 * loop. */
#include "base/text.h"
#include "palaver/limits.h"
#include "provider/provider_reader.h"

#define HEAD_LEN 128       /* beginning of an event that names its type */
#define USAGE_LEN_MAX 4096 /* longest object "usage" that is searched for in a skipped event */

static bool is_type(pal_json event, const char *type)
{
    return pal_json_string_is(pal_json_find(event, "type"), type);
}

static bool is_end(pal_json event)
{
    return is_type(event, "response.completed") || is_type(event, "response.incomplete") ||
            is_type(event, "response.failed");
}

static void read_facts(pal_answer *answer, pal_json response)
{
    pal_answer_learn(&answer->request_id, pal_answer_member(answer, response, "id"));
    pal_answer_learn(&answer->model, pal_answer_member(answer, response, "model"));
    pal_answer_usage(answer, pal_json_find(response, "usage"));
}

static void read_failure(pal_answer *answer, pal_json response)
{
    if (!pal_json_is_absent(pal_json_find(response, "error")))
        pal_answer_error_value(answer, response);
}

/* ---- Complete responses ---- */

/* Keeps the texts of an item, or of the parts in one of its lists. */
static void keep_texts(pal_answer *answer, pal_json item)
{
    static const char *const names[] = {"text", "refusal", "name", "arguments", "input"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pal_str text = pal_answer_member(answer, item, names[i]);
        if (text.len)
            pal_answer_keep(answer, text);
    }
}

static void keep_item(pal_answer *answer, pal_json item)
{
    static const char *const lists[] = {"content", "summary"};
    keep_texts(answer, item);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        pal_json part, list = pal_json_find(item, lists[i]);
        if (pal_json_type_of(list) != PAL_JSON_ARRAY)
            continue;
        for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &part);)
            keep_texts(answer, part);
    }
}

static void passing_whole(pal_answer *answer, pal_json value)
{
    pal_json item, output = pal_json_find(value, "output");
    read_facts(answer, value);
    read_failure(answer, value);
    if (pal_json_type_of(output) != PAL_JSON_ARRAY)
        return;
    for (pal_json_iter iter = pal_json_each(output); pal_json_next(&iter, NULL, &item);)
        keep_item(answer, item);
}

/* ---- Streams ---- */

static void passing_event(pal_answer *answer, pal_str name, pal_json value)
{
    pal_json response = pal_json_find(value, "response");
    (void)name;
    if (is_type(value, "error")) {
        pal_answer_error_value(answer, value);
    } else if (is_end(value)) {
        read_facts(answer, response);
        read_failure(answer, response);
        answer->is_done = true;
    } else if (is_type(value, "response.created")) {
        read_facts(answer, response);
    } else {
        pal_str delta = pal_answer_member(answer, value, "delta");
        if (delta.len)
            pal_answer_keep(answer, delta);
    }
}

/* Returns the last member "usage" in the text of an event, or an empty text. It contains only
 * numbers and objects. */
static pal_str find_usage(pal_str data)
{
    static const char name[] = "\"usage\":";
    for (size_t at = data.len; at >= sizeof name; at--) {
        const char *found = data.data + at - sizeof name;
        if (*found != '"' || memcmp(found, name, sizeof name - 1) != 0)
            continue;
        const char *begin = found + sizeof name - 1, *end = data.data + data.len;
        size_t depth = 0;
        while (begin < end && *begin == ' ')
            begin++;
        for (const char *c = begin; c < end && c - begin < USAGE_LEN_MAX; c++) {
            depth += *c == '{';
            if (*c == '}' && --depth == 0)
                return pal_str_make(begin, (size_t)(c + 1 - begin));
            if (depth == 0)
                break; /* it is null, or in a text */
        }
    }
    return (pal_str){0};
}

static bool names_end(pal_str data)
{
    static const char *const types[] = {
            "\"response.completed\"", "\"response.incomplete\"", "\"response.failed\""};
    size_t len = data.len < HEAD_LEN ? data.len : HEAD_LEN;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (memmem(data.data, len, types[i], strlen(types[i])))
            return true;
    }
    return false;
}

/* A long event repeats what its deltas have said. Only the end of the stream has something new,
 * which is the usage. */
static void passing_skip(pal_answer *answer, pal_str data)
{
    pal_json usage;
    if (!names_end(data))
        return;
    pal_arena_reset(answer->scratch);
    if (pal_json_parse(answer->scratch, find_usage(data), NULL, &usage, NULL) == PAL_OK)
        pal_answer_usage(answer, usage);
    answer->is_done = true;
}

const pal_reader_kind pal_reader_responses_passing = {
        .event = passing_event, .whole = passing_whole, .skip = passing_skip};
