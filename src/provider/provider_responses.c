/* provider_responses.c - reads answers of OpenAI's Responses API: forwarded ones only for their
 * model and usage, those of turns completely. The events that end a stream contain the complete
 * response, so they can be long. On the loop. */
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

/* ---- Answers of turns ---- */

static int64_t output_index(pal_json event)
{
    uint64_t index = 0;
    (void)pal_json_u64(pal_json_find(event, "output_index"), &index);
    return (int64_t)(index & INT32_MAX);
}

static bool is_call(pal_json item)
{
    return is_type(item, "function_call") || is_type(item, "custom_tool_call");
}

static uint32_t call_of(pal_answer *answer, int64_t key, pal_json item)
{
    return pal_answer_call_of(answer, key, pal_answer_member(answer, item, "call_id"),
            pal_answer_member(answer, item, "name"));
}

/* Here, the arguments of a custom call are {"input":TEXT}. */
static void report_input(pal_answer *answer, uint32_t call, pal_json item)
{
    pal_buf arguments;
    pal_buf_init(&arguments, PAL_PROVIDER_EVENT_BYTES_MAX);
    pal_buf_append_text(&arguments, "{\"input\":");
    pal_json_quote(&arguments, pal_answer_member(answer, item, "input"));
    pal_buf_append_text(&arguments, "}");
    if (arguments.failure)
        pal_answer_fail(answer, arguments.failure, "the input of a tool call is too long");
    else
        pal_answer_arguments(answer, call, pal_buf_str(&arguments));
    pal_buf_done(&arguments);
}

/* Reports the texts of a list; `report` gets each of them. */
static void report_texts(pal_answer *answer, pal_json list, const char *name,
        void (*report)(pal_answer *answer, pal_str delta))
{
    pal_json part;
    if (pal_json_type_of(list) != PAL_JSON_ARRAY)
        return;
    for (pal_json_iter iter = pal_json_each(list); pal_json_next(&iter, NULL, &part);)
        report(answer, pal_answer_member(answer, part, name));
}

/* Reports the texts of an item for which the service sent no deltas. */
static void report_item(pal_answer *answer, int64_t key, pal_json item)
{
    pal_json content = pal_json_find(item, "content");
    if (is_call(item)) {
        uint32_t call = call_of(answer, key, item);
        if (is_type(item, "custom_tool_call"))
            report_input(answer, call, item);
        else
            pal_answer_arguments(answer, call, pal_answer_member(answer, item, "arguments"));
    } else if (is_type(item, "reasoning")) {
        report_texts(answer, pal_json_find(item, "summary"), "text", pal_answer_summary);
        report_texts(answer, content, "text", pal_answer_reasoning);
    } else if (is_type(item, "message")) {
        report_texts(answer, content, "text", pal_answer_text);
        report_texts(answer, content, "refusal", pal_answer_refusal);
    }
}

static void end_item(pal_answer *answer, int64_t key, pal_json item)
{
    if (pal_json_type_of(item) != PAL_JSON_OBJECT)
        return;
    if (answer->said == answer->item_said)
        report_item(answer, key, item);
    bool is_message = is_type(item, "message");
    pal_answer_item(answer, pal_json_raw(item),
            is_message ? pal_json_count(pal_json_find(item, "content")) : 1);
}

/* ---- Progress of the service's own tools ----
 *
 * An item of a type that has no deltas here is open from its first event to its last one. Its
 * events are reported unchanged. The number of an item in the message depends on the items that
 * ended before it, so events of other items wait until the open one has ended. */

static void read_event(pal_answer *answer, pal_str name, pal_json event);

static bool has_deltas(pal_json item)
{
    return is_call(item) || is_type(item, "message") || is_type(item, "reasoning");
}

static bool is_reported(const pal_answer *answer, pal_json event)
{
    size_t len = pal_json_raw(event).len;
    return answer->sink.progress && len <= PAL_PROVIDER_PROGRESS_BYTES_MAX &&
            answer->progress_len + len <= PAL_PROVIDER_PROGRESS_BYTES_SUM_MAX;
}

static void open_item(pal_answer *answer, pal_json event, pal_json item)
{
    if (pal_json_type_of(item) != PAL_JSON_OBJECT || !is_reported(answer, event))
        return;
    answer->has_open_item = true;
    answer->open_key = output_index(event);
    pal_buf_clear(&answer->open_item);
    pal_buf_append_str(&answer->open_item, pal_json_raw(item));
    if (answer->open_item.failure)
        pal_answer_fail(answer, PAL_NO_MEMORY, "out of memory");
    pal_answer_progress(answer, pal_json_raw(event));
}

/* Returns true if the event must wait until the open item has ended. */
static bool hold_event(pal_answer *answer, pal_json event)
{
    if (pal_json_is_absent(pal_json_find(event, "output_index")))
        return false;
    if (answer->has_open_item ? output_index(event) == answer->open_key : answer->held.len == 0)
        return false;
    if (answer->held.len)
        pal_buf_append_text(&answer->held, ",");
    pal_buf_append_str(&answer->held, pal_json_raw(event));
    if (answer->held.failure)
        pal_answer_fail(answer,
                answer->held.failure == PAL_LIMIT ? PAL_PROVIDER : PAL_NO_MEMORY,
                "the service sent more than %u bytes of other items before the end of an item",
                PAL_PROVIDER_INLINE_BYTES_MAX);
    return true;
}

/* Reads the events that waited, up to the next item that stays open. Each round reads at least the
 * first of them. */
static void read_held(pal_answer *answer)
{
    while (!answer->has_open_item && answer->held.len && !answer->end.status) {
        pal_json events = {0}, event;
        pal_buf array;
        pal_buf_init(&array, PAL_PROVIDER_EVENT_BYTES_MAX);
        pal_buf_append_text(&array, "[");
        pal_buf_append_str(&array, pal_buf_str(&answer->held));
        pal_buf_append_text(&array, "]");
        pal_buf_clear(&answer->held);
        pal_str copy = pal_arena_copy(answer->scratch, pal_buf_str(&array));
        if (array.failure || pal_json_parse(answer->scratch, copy, NULL, &events, NULL) != PAL_OK)
            pal_answer_fail(answer, PAL_NO_MEMORY, "out of memory");
        pal_buf_done(&array);
        for (pal_json_iter iter = pal_json_each(events); pal_json_next(&iter, NULL, &event);)
            read_event(answer, (pal_str){0}, event);
    }
}

/* The stream has ended. An item that the service did not end is complete in the response, or
 * remains as it began. */
static void end_open_items(pal_answer *answer, pal_json output)
{
    while (answer->has_open_item && !answer->end.status) {
        pal_json item, found = {0};
        int64_t at = 0;
        if (pal_json_type_of(output) == PAL_JSON_ARRAY)
            for (pal_json_iter iter = pal_json_each(output); pal_json_next(&iter, NULL, &item);)
                if (at++ == answer->open_key)
                    found = item;
        pal_str copy = pal_arena_copy(answer->scratch, pal_buf_str(&answer->open_item));
        if (pal_json_type_of(found) != PAL_JSON_OBJECT &&
                pal_json_parse(answer->scratch, copy, NULL, &found, NULL) != PAL_OK)
            pal_answer_fail(answer, PAL_NO_MEMORY, "out of memory");
        answer->has_open_item = false;
        end_item(answer, answer->open_key, found);
        read_held(answer);
    }
}

static void end_response(pal_answer *answer, pal_json response)
{
    pal_json item, output = pal_json_find(response, "output");
    bool is_cut = pal_json_string_is(pal_json_find(response, "status"), "incomplete");
    size_t at = 0;
    read_facts(answer, response);
    read_failure(answer, response);
    /* If no item has ended, the response has them all. */
    bool has_output = pal_json_type_of(output) == PAL_JSON_ARRAY && answer->items_len == 0;
    if (!has_output || pal_json_count(output) == 0)
        end_open_items(answer, output);
    for (pal_json_iter iter = pal_json_each(output);
            has_output && pal_json_next(&iter, NULL, &item);)
        end_item(answer, (int64_t)at++, item);
    pal_answer_finish(answer, pal_str_of(is_cut ? "max_output_tokens" : "stop"));
    if (is_cut)
        pal_answer_finish(answer,
                pal_answer_member(answer, pal_json_find(response, "incomplete_details"), "reason"));
    answer->is_done = true;
}

static void read_whole(pal_answer *answer, pal_json value)
{
    end_response(answer, value);
}

typedef struct delta_row {
    const char *type;
    void (*report)(pal_answer *answer, pal_str delta);
} delta_row;

static bool read_delta(pal_answer *answer, pal_json event)
{
    static const delta_row rows[] = {
            {"response.output_text.delta", pal_answer_text},
            {"response.refusal.delta", pal_answer_refusal},
            {"response.reasoning_summary_text.delta", pal_answer_summary},
            {"response.reasoning_text.delta", pal_answer_reasoning},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!is_type(event, rows[i].type))
            continue;
        rows[i].report(answer, pal_answer_member(answer, event, "delta"));
        return true;
    }
    return false;
}

/* The parts of a summary are joined with line breaks. */
static void begin_summary(pal_answer *answer, pal_json event)
{
    uint64_t index = 0;
    if (pal_json_u64(pal_json_find(event, "summary_index"), &index) && index > 0)
        pal_answer_summary(answer, pal_str_of("\n"));
}

/* Ends the item. If it was open, the events that waited for its end are next. */
static void read_done(pal_answer *answer, pal_json event, pal_json item)
{
    answer->has_open_item = false;
    end_item(answer, output_index(event), item);
    read_held(answer);
}

static void read_event(pal_answer *answer, pal_str name, pal_json event)
{
    pal_json item = pal_json_find(event, "item"), response = pal_json_find(event, "response");
    (void)name;
    if (hold_event(answer, event) || read_delta(answer, event))
        return;
    if (is_type(event, "response.function_call_arguments.delta"))
        pal_answer_arguments(answer,
                pal_answer_call_of(answer, output_index(event), (pal_str){0}, (pal_str){0}),
                pal_answer_member(answer, event, "delta"));
    else if (is_type(event, "response.output_item.added") && is_call(item))
        (void)call_of(answer, output_index(event), item);
    else if (is_type(event, "response.output_item.added") && !has_deltas(item))
        open_item(answer, event, item);
    else if (is_type(event, "response.output_item.done"))
        read_done(answer, event, item);
    else if (is_type(event, "response.reasoning_summary_part.added"))
        begin_summary(answer, event);
    else if (is_type(event, "response.created"))
        read_facts(answer, response);
    else if (is_end(event))
        end_response(answer, response);
    else if (is_type(event, "error"))
        pal_answer_error_value(answer, event);
    else if (answer->has_open_item && is_reported(answer, event) &&
            !pal_json_is_absent(pal_json_find(event, "output_index")))
        pal_answer_progress(answer, pal_json_raw(event));
}

/* The end of a long answer repeats its items. Any other long event cannot be skipped. */
static void skip_end(pal_answer *answer, pal_str data)
{
    if (names_end(data))
        end_open_items(answer, (pal_json){0});
    if (!names_end(data) || answer->items_len == 0) {
        pal_answer_fail(answer, PAL_PROVIDER, "an event of %zu bytes exceeds the limit", data.len);
        return;
    }
    passing_skip(answer, data);
    bool is_cut = memmem(data.data, data.len < HEAD_LEN ? data.len : HEAD_LEN,
            "response.incomplete", sizeof "response.incomplete" - 1);
    pal_answer_finish(answer, pal_str_of(is_cut ? "max_output_tokens" : "stop"));
}

const pal_reader_kind pal_reader_responses = {
        .event = read_event, .whole = read_whole, .skip = skip_end};
