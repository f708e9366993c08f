/* provider_openai_read.c - reads the answers of chat completions, from OpenAI and all services with
 * the same format: vLLM, llama.cpp, Ollama, Mistral, OpenRouter, Groq, DeepSeek and others.
 *
 * A piece of a stream ("delta") and a complete answer ("message") have the same members. Reasoning
 * has three names; a service that uses two of them sends the same text twice. On the loop. */
#include "provider/provider_reader.h"

/* An error can also arrive in the middle of a stream, or as a complete response with code 200. */
static bool read_error(pal_reader *reader, pal_str name, pal_json value)
{
    if (pal_json_is_absent(pal_json_find(value, "error")) &&
            !pal_json_string_is(pal_json_find(value, "object"), "error") &&
            !pal_str_is(name, "error"))
        return false;
    pal_answer_error_value(&reader->answer, value, reader->scratch);
    return true;
}

/* ---- Reasoning ---- */

static void read_details(pal_reader *reader, pal_json details)
{
    pal_json detail;
    if (pal_json_type_of(details) != PAL_JSON_ARRAY)
        return;
    for (pal_json_iter iter = pal_json_each(details); pal_json_next(&iter, NULL, &detail);) {
        pal_answer_reasoning(&reader->answer, pal_reader_string(reader, detail, "text"));
        pal_answer_reasoning(&reader->answer, pal_reader_string(reader, detail, "summary"));
    }
}

static void read_reasoning(pal_reader *reader, pal_json delta)
{
    pal_str text = pal_reader_string(reader, delta, "reasoning_content");
    if (text.len == 0)
        text = pal_reader_string(reader, delta, "reasoning");
    if (text.len)
        pal_answer_reasoning(&reader->answer, text);
    else
        read_details(reader, pal_json_find(delta, "reasoning_details"));
}

/* ---- Tool calls ---- */

/* The arguments are a piece of text, or the complete value as JSON. */
static pal_str arguments_of(pal_reader *reader, pal_json function)
{
    pal_json arguments = pal_json_find(function, "arguments");
    pal_json_type type = pal_json_type_of(arguments);
    if (type == PAL_JSON_OBJECT || type == PAL_JSON_ARRAY)
        return pal_json_raw(arguments);
    return pal_reader_text(reader, arguments);
}

static void read_call(pal_reader *reader, pal_json call)
{
    pal_json function = pal_json_find(call, "function");
    uint64_t number;
    int64_t key = -1;
    if (pal_answer_number(pal_json_find(call, "index"), &number) && number <= INT32_MAX)
        key = (int64_t)number;
    if (pal_json_is_absent(function))
        function = pal_json_find(call, "custom");
    uint32_t index = pal_answer_call_of(&reader->answer, key, pal_reader_string(reader, call, "id"),
            pal_reader_string(reader, function, "name"));
    pal_answer_arguments(&reader->answer, index, arguments_of(reader, function));
    pal_answer_arguments(&reader->answer, index, pal_reader_string(reader, function, "input"));
}

static void read_calls(pal_reader *reader, pal_json delta)
{
    pal_json call, calls = pal_json_find(delta, "tool_calls");
    pal_json legacy = pal_json_find(delta, "function_call");
    if (pal_json_type_of(calls) == PAL_JSON_ARRAY) {
        for (pal_json_iter iter = pal_json_each(calls); pal_json_next(&iter, NULL, &call);)
            read_call(reader, call);
    }
    if (pal_json_type_of(legacy) == PAL_JSON_OBJECT) {
        uint32_t index = pal_answer_call_of(&reader->answer, 0, pal_str_make(NULL, 0),
                pal_reader_string(reader, legacy, "name"));
        pal_answer_arguments(&reader->answer, index, arguments_of(reader, legacy));
    }
}

/* ---- Choices ---- */

static void read_delta(pal_reader *reader, pal_json delta)
{
    pal_json content = pal_json_find(delta, "content"), refusal = pal_json_find(delta, "refusal");
    read_reasoning(reader, delta);
    if (pal_json_type_of(content) == PAL_JSON_STRING)
        pal_answer_text(&reader->answer, pal_reader_text(reader, content));
    else if (!pal_json_is_absent(content))
        pal_reader_content(reader, content);
    if (!pal_json_is_absent(refusal))
        pal_answer_refusal(&reader->answer, pal_reader_text(reader, refusal));
    read_calls(reader, delta);
}

static void read_choice(pal_reader *reader, pal_json choice)
{
    uint64_t number = 0;
    pal_json delta = pal_json_find(choice, "delta"), index = pal_json_find(choice, "index");
    pal_str reason = pal_reader_string(reader, choice, "finish_reason");
    if ((pal_json_u64(index, &number) || pal_answer_number(index, &number)) && number != 0)
        return;
    read_delta(reader, !pal_json_is_absent(delta) ? delta : pal_json_find(choice, "message"));
    if (pal_str_is(reason, "error"))
        pal_answer_error_value(&reader->answer, choice, reader->scratch);
    else if (reason.len)
        pal_answer_finish(&reader->answer, reason);
}

static void read_facts(pal_reader *reader, pal_json value)
{
    pal_answer *answer = &reader->answer;
    pal_json groq = pal_json_find(value, "x_groq"), usage = pal_json_find(value, "usage");
    pal_reader_learn(reader, &answer->request_id, value, "id");
    pal_reader_learn(reader, &answer->model, value, "model");
    if (!pal_json_is_absent(groq))
        pal_reader_usage(reader, pal_json_find(groq, "usage"));
    if (!pal_json_is_absent(usage))
        pal_reader_usage(reader, usage);
}

static size_t read_choices(pal_reader *reader, pal_json value)
{
    pal_json choice, choices = pal_json_find(value, "choices");
    if (pal_json_type_of(choices) != PAL_JSON_ARRAY)
        return 0;
    for (pal_json_iter iter = pal_json_each(choices); pal_json_next(&iter, NULL, &choice);)
        read_choice(reader, choice);
    return pal_json_count(choices);
}

static void openai_event(pal_reader *reader, pal_str name, pal_json value)
{
    if (read_error(reader, name, value))
        return;
    read_facts(reader, value);
    read_choices(reader, value);
}

static void openai_whole(pal_reader *reader, pal_json value)
{
    if (read_error(reader, pal_str_make(NULL, 0), value))
        return;
    read_facts(reader, value);
    if (read_choices(reader, value) == 0)
        pal_answer_fail(&reader->answer, PAL_PROVIDER, "the answer has no 'choices'");
}

const pal_reader_kind pal_reader_openai = {.event = openai_event, .whole = openai_whole};

/* ---- Passing on ---- */

static void keep_string(pal_reader *reader, pal_json object, const char *name)
{
    pal_reader_keep_said(reader, pal_reader_string(reader, object, name));
}

/* The content is a text, or parts with texts. */
static void keep_content(pal_reader *reader, pal_json content)
{
    pal_json part;
    if (pal_json_type_of(content) == PAL_JSON_STRING)
        pal_reader_keep_said(reader, pal_reader_text(reader, content));
    else if (pal_json_type_of(content) == PAL_JSON_ARRAY)
        for (pal_json_iter iter = pal_json_each(content); pal_json_next(&iter, NULL, &part);)
            keep_string(reader, part, "text");
}

static void keep_calls(pal_reader *reader, pal_json calls)
{
    pal_json call;
    if (pal_json_type_of(calls) != PAL_JSON_ARRAY)
        return;
    for (pal_json_iter iter = pal_json_each(calls); pal_json_next(&iter, NULL, &call);) {
        pal_json function = pal_json_find(call, "function");
        if (pal_json_is_absent(function))
            function = pal_json_find(call, "custom");
        keep_string(reader, function, "name");
        pal_reader_keep_said(reader, arguments_of(reader, function));
        keep_string(reader, function, "input");
    }
}

/* Keeps the texts, reasoning, refusals and calls of all choices. */
static void keep_choices(pal_reader *reader, pal_json value)
{
    pal_json choice, choices = pal_json_find(value, "choices");
    if (pal_json_type_of(choices) != PAL_JSON_ARRAY)
        return;
    for (pal_json_iter iter = pal_json_each(choices); pal_json_next(&iter, NULL, &choice);) {
        pal_json said = pal_json_find(choice, "delta");
        if (pal_json_is_absent(said))
            said = pal_json_find(choice, "message");
        keep_content(reader, pal_json_find(said, "content"));
        keep_string(reader, said, "reasoning_content");
        keep_string(reader, said, "reasoning");
        keep_string(reader, said, "refusal");
        keep_calls(reader, pal_json_find(said, "tool_calls"));
    }
}

static void passing_event(pal_reader *reader, pal_str name, pal_json value)
{
    if (read_error(reader, name, value))
        return;
    read_facts(reader, value);
    keep_choices(reader, value);
}

static void passing_whole(pal_reader *reader, pal_json value)
{
    passing_event(reader, pal_str_make(NULL, 0), value);
}

/* The text of a skipped event is estimated by its length: images make events long. */
static void passing_skip(pal_reader *reader, pal_str data)
{
    reader->said_len += data.len;
}

const pal_reader_kind pal_reader_openai_passing = {
        .event = passing_event, .whole = passing_whole, .skip = passing_skip};
