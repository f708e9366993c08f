/* provider_openai_read.c - reads the answers of chat completions, from OpenAI and all services with
 * the same format: vLLM, llama.cpp, Ollama, Mistral, OpenRouter, Groq, DeepSeek and others.
 *
 * A piece of a stream ("delta") and a complete answer ("message") have the same members. Reasoning
 * has three names; a service that uses two of them sends the same text twice. On the loop. */
#include "provider/provider_reader.h"

/* An error can also arrive in the middle of a stream, or as a complete response with code 200. */
static bool read_error(pal_answer *answer, pal_str name, pal_json value)
{
    if (pal_json_is_absent(pal_json_find(value, "error")) &&
            !pal_json_string_is(pal_json_find(value, "object"), "error") &&
            !pal_str_is(name, "error"))
        return false;
    pal_answer_error_value(answer, value);
    return true;
}

/* ---- Reasoning ---- */

static void read_details(pal_answer *answer, pal_json details)
{
    pal_json detail;
    if (pal_json_type_of(details) != PAL_JSON_ARRAY)
        return;
    for (pal_json_iter iter = pal_json_each(details); pal_json_next(&iter, NULL, &detail);) {
        pal_answer_reasoning(answer, pal_answer_member(answer, detail, "text"));
        pal_answer_reasoning(answer, pal_answer_member(answer, detail, "summary"));
    }
}

static void read_reasoning(pal_answer *answer, pal_json delta)
{
    static const char *const names[] = {"reasoning_content", "reasoning"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pal_json value = pal_json_find(delta, names[i]);
        if (pal_json_type_of(value) != PAL_JSON_STRING || pal_json_string_is(value, ""))
            continue;
        pal_answer_reasoning(answer, pal_answer_string(answer, value));
        return;
    }
    pal_json details = pal_json_find(delta, "reasoning_details");
    if (!pal_json_is_absent(details))
        read_details(answer, details);
}

/* ---- Tool calls ---- */

/* The arguments are a piece of text, or the complete value as JSON. */
static pal_str arguments_of(pal_answer *answer, pal_json function)
{
    pal_json arguments = pal_json_find(function, "arguments");
    pal_json_type type = pal_json_type_of(arguments);
    if (type == PAL_JSON_OBJECT || type == PAL_JSON_ARRAY)
        return pal_json_raw(arguments);
    return pal_answer_string(answer, arguments);
}

static void read_call(pal_answer *answer, pal_json call)
{
    pal_json function = pal_json_find(call, "function"), custom = pal_json_find(call, "custom");
    uint64_t number;
    int64_t key = -1;
    bool is_custom = pal_json_is_absent(function);
    if (is_custom)
        function = custom;
    pal_str arguments = is_custom ? pal_answer_member(answer, custom, "input")
                                  : arguments_of(answer, function);
    if (pal_answer_number(pal_json_find(call, "index"), &number) && number <= INT32_MAX)
        key = (int64_t)number;
    uint32_t index = pal_answer_call_of(answer, key, pal_answer_member(answer, call, "id"),
            pal_answer_member(answer, function, "name"));
    pal_answer_arguments(answer, index, arguments);
}

/* The first format of calls: at most one, without an id. */
static void read_legacy_call(pal_answer *answer, pal_json legacy)
{
    pal_str none = {0}, arguments = arguments_of(answer, legacy);
    uint32_t index =
            pal_answer_call_of(answer, 0, none, pal_answer_member(answer, legacy, "name"));
    pal_answer_arguments(answer, index, arguments);
}

/* ---- Choices ---- */

/* Most members are absent or null in most pieces of a stream. */
static void read_delta(pal_answer *answer, pal_json delta)
{
    pal_json call, calls = pal_json_find(delta, "tool_calls");
    pal_json content = pal_json_find(delta, "content"), refusal = pal_json_find(delta, "refusal");
    pal_json legacy = pal_json_find(delta, "function_call");
    read_reasoning(answer, delta);
    if (pal_json_type_of(content) == PAL_JSON_STRING)
        pal_answer_text(answer, pal_answer_string(answer, content));
    else if (!pal_json_is_absent(content))
        pal_answer_content(answer, content);
    if (!pal_json_is_absent(refusal))
        pal_answer_refusal(answer, pal_answer_string(answer, refusal));
    if (pal_json_type_of(calls) == PAL_JSON_ARRAY)
        for (pal_json_iter iter = pal_json_each(calls); pal_json_next(&iter, NULL, &call);)
            read_call(answer, call);
    if (pal_json_type_of(legacy) == PAL_JSON_OBJECT)
        read_legacy_call(answer, legacy);
}

static void read_choice(pal_answer *answer, pal_json choice)
{
    uint64_t number = 0;
    pal_json delta = pal_json_find(choice, "delta"), index = pal_json_find(choice, "index");
    pal_json reason = pal_json_find(choice, "finish_reason");
    if ((pal_json_u64(index, &number) || pal_answer_number(index, &number)) && number != 0)
        return;
    read_delta(answer, !pal_json_is_absent(delta) ? delta : pal_json_find(choice, "message"));
    if (pal_json_string_is(reason, "error"))
        pal_answer_error_value(answer, choice);
    else if (!pal_json_is_absent(reason))
        pal_answer_finish(answer, pal_answer_string(answer, reason));
}

/* Every piece of a stream repeats the id and the model. */
static void read_facts(pal_answer *answer, pal_json value)
{
    pal_json groq = pal_json_find(value, "x_groq"), usage = pal_json_find(value, "usage");
    if (answer->request_id.len == 0)
        pal_answer_learn(&answer->request_id, pal_answer_member(answer, value, "id"));
    if (answer->model.len == 0)
        pal_answer_learn(&answer->model, pal_answer_member(answer, value, "model"));
    if (!pal_json_is_absent(groq))
        pal_answer_usage(answer, pal_json_find(groq, "usage"));
    if (!pal_json_is_absent(usage))
        pal_answer_usage(answer, usage);
}

static size_t read_choices(pal_answer *answer, pal_json value)
{
    pal_json choice, choices = pal_json_find(value, "choices");
    if (pal_json_type_of(choices) != PAL_JSON_ARRAY)
        return 0;
    for (pal_json_iter iter = pal_json_each(choices); pal_json_next(&iter, NULL, &choice);)
        read_choice(answer, choice);
    return pal_json_count(choices);
}

static void openai_event(pal_answer *answer, pal_str name, pal_json value)
{
    if (read_error(answer, name, value))
        return;
    read_facts(answer, value);
    read_choices(answer, value);
}

static void openai_whole(pal_answer *answer, pal_json value)
{
    if (read_error(answer, pal_str_make(NULL, 0), value))
        return;
    read_facts(answer, value);
    if (read_choices(answer, value) == 0)
        pal_answer_fail(answer, PAL_PROVIDER, "the answer has no 'choices'");
}

const pal_reader_kind pal_reader_openai = {.event = openai_event, .whole = openai_whole};

/* ---- Passing on ---- */

static void keep_string(pal_answer *answer, pal_json object, const char *name)
{
    pal_answer_keep(answer, pal_answer_member(answer, object, name));
}

/* The content is a text, or parts with texts. */
static void keep_content(pal_answer *answer, pal_json content)
{
    pal_json part;
    if (pal_json_type_of(content) == PAL_JSON_STRING)
        pal_answer_keep(answer, pal_answer_string(answer, content));
    else if (pal_json_type_of(content) == PAL_JSON_ARRAY)
        for (pal_json_iter iter = pal_json_each(content); pal_json_next(&iter, NULL, &part);)
            keep_string(answer, part, "text");
}

static void keep_calls(pal_answer *answer, pal_json calls)
{
    pal_json call;
    if (pal_json_type_of(calls) != PAL_JSON_ARRAY)
        return;
    for (pal_json_iter iter = pal_json_each(calls); pal_json_next(&iter, NULL, &call);) {
        pal_json function = pal_json_find(call, "function");
        if (pal_json_is_absent(function))
            function = pal_json_find(call, "custom");
        keep_string(answer, function, "name");
        pal_answer_keep(answer, arguments_of(answer, function));
        keep_string(answer, function, "input");
    }
}

/* Keeps the texts, reasoning, refusals and calls of all choices. */
static void keep_choices(pal_answer *answer, pal_json value)
{
    pal_json choice, choices = pal_json_find(value, "choices");
    if (pal_json_type_of(choices) != PAL_JSON_ARRAY)
        return;
    for (pal_json_iter iter = pal_json_each(choices); pal_json_next(&iter, NULL, &choice);) {
        pal_json said = pal_json_find(choice, "delta");
        if (pal_json_is_absent(said))
            said = pal_json_find(choice, "message");
        keep_content(answer, pal_json_find(said, "content"));
        keep_string(answer, said, "reasoning_content");
        keep_string(answer, said, "reasoning");
        keep_string(answer, said, "refusal");
        keep_calls(answer, pal_json_find(said, "tool_calls"));
    }
}

static void passing_event(pal_answer *answer, pal_str name, pal_json value)
{
    if (read_error(answer, name, value))
        return;
    read_facts(answer, value);
    keep_choices(answer, value);
}

static void passing_whole(pal_answer *answer, pal_json value)
{
    passing_event(answer, pal_str_make(NULL, 0), value);
}

/* The text of a skipped event is estimated by its length: images make events long. */
static void passing_skip(pal_answer *answer, pal_str data)
{
    answer->kept_len += data.len;
}

const pal_reader_kind pal_reader_openai_passing = {
        .event = passing_event, .whole = passing_whole, .skip = passing_skip};
