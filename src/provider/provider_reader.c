/* provider_reader.c - detects what a service sends, and passes its events to the service's reader
 * as parsed JSON.
 *
 * A service that was asked for a stream may respond with one JSON text or a proxy's page, without
 * saying so. If the content type does not show it, the first byte does. A response that is not an
 * answer is shown with its first words. On the loop; pure except for the sink.
 *
 * No response may block the loop for long. The answer fails if an event has too many JSON values,
 * or very long texts. A reader that only counts skips large events, and parses a large body on a
 * worker. */
#include "provider/provider_reader.h"

#include <inttypes.h>
#include "base/clock.h"
#include "base/text.h"
#include "base/utf8.h"
#include "palaver/limits.h"

#define JSON_DEPTH_MAX 128
#define START_LEN_MAX 512              /* bytes kept of a stream's beginning; enough for an
                                          excerpt */
#define ERROR_BODY_LEN_MAX (64u << 10) /* bytes of an error's body; the rest is not read */
#define HEADER_LEN_MAX 1024
#define MENDED_LEN_MAX (1u << 20) /* a longer text with invalid UTF-8 is not read */
#define DONE "[DONE]"

void pal_reader_init(pal_reader *reader, const pal_reader_kind *kind, pal_arena *scratch,
        const pal_model_sink *sink, void *user)
{
    *reader = (pal_reader){.kind = kind, .scratch = scratch};
    pal_answer_init(&reader->answer, sink, user);
    pal_sse_init(&reader->sse, PAL_PROVIDER_EVENT_BYTES_MAX);
    pal_buf_init(&reader->body,
            kind->skip ? PAL_PROVIDER_BODY_BYTES_MAX : PAL_PROVIDER_EVENT_BYTES_MAX);
    pal_buf_init(&reader->said, PAL_PROVIDER_EVENT_BYTES_MAX);
    pal_buf_init(&reader->signature, PAL_PROVIDER_EVENT_BYTES_MAX);
    pal_buf_init(&reader->asked_ms, HEADER_LEN_MAX);
    pal_buf_init(&reader->asked, HEADER_LEN_MAX);
}

void pal_reader_done(pal_reader *reader)
{
    pal_answer_done(&reader->answer);
    pal_sse_done(&reader->sse);
    pal_buf_done(&reader->body);
    pal_buf_done(&reader->said);
    pal_buf_done(&reader->signature);
    pal_buf_done(&reader->asked_ms);
    pal_buf_done(&reader->asked);
}

/* ---- Heads ---- */

void pal_reader_keep_said(pal_reader *reader, pal_str text)
{
    reader->said_len += text.len;
    if (text.len <= reader->said.len_max - reader->said.len)
        pal_buf_append_str(&reader->said, text);
}

void pal_reader_header(pal_reader *reader, pal_str name, pal_str value)
{
    if (pal_text_is_nocase(name, "content-type"))
        reader->is_event_stream = pal_text_begins_nocase(value, "text/event-stream");
    else if (pal_text_is_nocase(name, "retry-after-ms"))
        pal_answer_learn(&reader->asked_ms, value);
    else if (pal_text_is_nocase(name, "retry-after"))
        pal_answer_learn(&reader->asked, value);
    else if (pal_text_is_nocase(name, "x-request-id") || pal_text_is_nocase(name, "request-id"))
        pal_answer_learn(&reader->answer.request_id, value);
}

void pal_reader_code(pal_reader *reader, long code)
{
    reader->code = code;
}

static bool is_good(long code)
{
    return code >= 200 && code < 300;
}

/* ---- Events ---- */

/* Returns the text with U+FFFD for invalid UTF-8. The result is in the scratch arena if something
 * was replaced. */
static pal_str mended(pal_reader *reader, pal_str text)
{
    pal_str good;
    size_t valid = pal_utf8_valid_len(text);
    pal_buf out;
    if (valid == text.len)
        return text;
    pal_buf_init(&out, text.len * 3);
    while (text.len) {
        valid = pal_utf8_valid_len(text);
        pal_buf_append(&out, text.data, valid);
        text = pal_str_make(text.data + valid, text.len - valid);
        if (text.len) {
            uint32_t unused;
            size_t len = pal_utf8_decode(text, &unused);
            pal_buf_append_text(&out, "\xef\xbf\xbd");
            text = pal_str_make(text.data + len, text.len - len);
        }
    }
    good = pal_arena_copy(reader->scratch, pal_buf_str(&out));
    if (out.failure)
        pal_answer_fail(&reader->answer, PAL_NO_MEMORY, "out of memory");
    pal_buf_done(&out);
    return good;
}

static void fail_garbage(pal_reader *reader, const char *what, pal_str bytes)
{
    pal_buf words;
    if (pal_answer_failed(&reader->answer))
        return;
    pal_buf_init(&words, 1024);
    pal_provider_excerpt(&words, bytes);
    pal_answer_fail(
            &reader->answer, PAL_PROVIDER, "%s: '%.*s'", what, PAL_STR_ARG(pal_buf_str(&words)));
    pal_buf_done(&words);
}

/* Nearly all texts are valid, and parsing detects the others, so the text is not checked first.
 * Returns PAL_LIMIT if it has too many values. */
static pal_status parse(pal_reader *reader, pal_str text, pal_json *out_value)
{
    const pal_json_limits limits = {.depth_max = JSON_DEPTH_MAX,
            .values_max = reader->is_on_worker ? 0 : PAL_PROVIDER_VALUES_MAX};
    pal_error err;
    pal_arena_reset(reader->scratch);
    reader->texts_len = 0;
    pal_status status = pal_json_parse(reader->scratch, text, &limits, out_value, &err);
    if (status == PAL_INVALID && text.len <= MENDED_LEN_MAX &&
            pal_utf8_valid_len(text) < text.len)
        status = pal_json_parse(reader->scratch, mended(reader, text), &limits, out_value, &err);
    if (status == PAL_NO_MEMORY)
        pal_answer_fail(&reader->answer, PAL_NO_MEMORY, "out of memory");
    if (status == PAL_OK && pal_json_type_of(*out_value) != PAL_JSON_OBJECT)
        status = PAL_INVALID;
    return status;
}

/* Reports why the text could not be read, unless a callback has already failed. */
static void fail_parse(pal_reader *reader, pal_status status, const char *what, pal_str bytes)
{
    if (status == PAL_LIMIT)
        pal_answer_fail(&reader->answer, PAL_PROVIDER,
                "the response is nested too deeply, or has more than %u JSON values",
                PAL_PROVIDER_VALUES_MAX);
    else
        fail_garbage(reader, what, bytes);
}

/* A callback may have exhausted the arena. Then the values that it read were empty. */
static void check_scratch(pal_reader *reader)
{
    if (pal_arena_failure(reader->scratch))
        pal_answer_fail(&reader->answer, PAL_NO_MEMORY, "out of memory");
}

static bool is_over(const pal_reader *reader)
{
    const pal_answer *answer = &reader->answer;
    return pal_answer_failed(answer) || answer->is_silent || answer->is_done;
}

static void read_event(pal_reader *reader, const pal_sse_event *event)
{
    pal_json value;
    if (event->data.len == 0)
        return;
    reader->has_events = true;
    if (pal_str_is(event->data, DONE)) {
        reader->answer.is_done = true;
        return;
    }
    if (reader->kind->skip && event->data.len > PAL_PROVIDER_INLINE_BYTES_MAX) {
        reader->kind->skip(reader, event->data);
        return;
    }
    pal_status status = parse(reader, event->data, &value);
    if (status == PAL_OK) {
        reader->kind->event(reader, event->name, value);
        check_scratch(reader);
    } else if (!reader->is_last) {
        fail_parse(reader, status, "an event of the stream is not a JSON object", event->data);
    }
}

/* ---- Bytes ---- */

static pal_reader_form form_of(const pal_reader *reader, pal_str bytes)
{
    if (!is_good(reader->code))
        return PAL_READER_WHOLE;
    if (reader->is_event_stream)
        return PAL_READER_STREAM;
    for (size_t i = 0; i < bytes.len; i++) {
        char c = bytes.data[i];
        if (c == '{' || c == '[' || c == '<')
            return PAL_READER_WHOLE;
        if (c != ' ' && c != '\t' && c != '\r' && c != '\n')
            return PAL_READER_STREAM;
    }
    return PAL_READER_UNKNOWN;
}

static void keep_start(pal_reader *reader, pal_str bytes)
{
    size_t room = reader->body.len < START_LEN_MAX ? START_LEN_MAX - reader->body.len : 0;
    pal_buf_append(&reader->body, bytes.data, bytes.len < room ? bytes.len : room);
}

static void feed_stream(pal_reader *reader, pal_str bytes)
{
    pal_sse_event event;
    pal_str rest = bytes;
    while (!is_over(reader) && pal_sse_next(&reader->sse, &rest, &event))
        read_event(reader, &event);
    pal_status status = pal_sse_failure(&reader->sse);
    if (!reader->has_events)
        keep_start(reader, bytes);
    if (status == PAL_LIMIT)
        pal_answer_fail(&reader->answer, PAL_PROVIDER,
                "an event of the stream exceeds %u bytes", PAL_PROVIDER_EVENT_BYTES_MAX);
    else if (status == PAL_NO_MEMORY)
        pal_answer_fail(&reader->answer, PAL_NO_MEMORY, "out of memory");
}

static void feed_whole(pal_reader *reader, pal_str bytes)
{
    if (!is_good(reader->code) && reader->body.len + bytes.len > ERROR_BODY_LEN_MAX)
        bytes.len =
                reader->body.len < ERROR_BODY_LEN_MAX ? ERROR_BODY_LEN_MAX - reader->body.len : 0;
    pal_buf_append_str(&reader->body, bytes);
    if (reader->body.failure == PAL_LIMIT)
        pal_answer_fail(&reader->answer, PAL_PROVIDER, "the response exceeds %zu bytes",
                reader->body.len_max);
    else if (reader->body.failure)
        pal_answer_fail(&reader->answer, PAL_NO_MEMORY, "out of memory");
}

void pal_reader_feed(pal_reader *reader, pal_str bytes)
{
    if (is_over(reader))
        return;
    if (reader->form == PAL_READER_UNKNOWN)
        reader->form = form_of(reader, bytes);
    if (reader->form == PAL_READER_STREAM)
        feed_stream(reader, bytes);
    else if (reader->form == PAL_READER_WHOLE)
        feed_whole(reader, bytes);
}

/* ---- The end of the response ---- */

static void finish_whole(pal_reader *reader)
{
    pal_json value;
    pal_str body = pal_buf_str(&reader->body);
    pal_status status = parse(reader, body, &value);
    if (status == PAL_OK) {
        reader->kind->whole(reader, value);
        check_scratch(reader);
    } else {
        fail_parse(reader, status, "the response is not a JSON object", body);
    }
}

static void finish_stream(pal_reader *reader)
{
    pal_answer *answer = &reader->answer;
    /* Some services omit the empty line after their last event. */
    reader->is_last = true;
    if (!answer->is_done && !answer->has_finish)
        feed_stream(reader, pal_str_of("\n\n"));
    if (answer->is_done || answer->has_finish || answer->is_silent)
        return;
    if (reader->has_events)
        pal_answer_fail(answer, PAL_IO, "the stream ended in the middle of the answer");
    else
        fail_garbage(reader, "the response is not an event stream", pal_buf_str(&reader->body));
}

static void fail_http(pal_reader *reader, const pal_http_end *http)
{
    pal_answer *answer = &reader->answer;
    /* If the answer is already complete, a later failure does not matter. */
    if (reader->form == PAL_READER_STREAM && is_good(reader->code) &&
            (answer->is_done || answer->has_finish))
        return;
    if (http->status == PAL_LIMIT)
        pal_answer_fail(answer, PAL_PROVIDER, "the response is too long: %s", http->error);
    else
        pal_answer_fail(answer, http->status, "%s", http->error);
}

static void fail_code(pal_reader *reader)
{
    pal_arena_reset(reader->scratch);
    pal_str body = mended(reader, pal_buf_str(&reader->body));
    pal_answer_error_body(&reader->answer, reader->code, body, reader->scratch);
}

static void judge(pal_reader *reader, const pal_http_end *http)
{
    pal_answer *answer = &reader->answer;
    if (reader->code / 100 == 3 && http && http->error[0])
        pal_answer_fail(answer, PAL_PROVIDER, "HTTP %ld: %s", reader->code, http->error);
    else if (reader->code && !is_good(reader->code))
        fail_code(reader);
    else if (http && http->status != PAL_OK)
        fail_http(reader, http);
    else if (reader->form == PAL_READER_WHOLE)
        finish_whole(reader);
    else if (reader->form == PAL_READER_STREAM)
        finish_stream(reader);
    else
        pal_answer_fail(answer, PAL_IO, "the service sent nothing");
}

void pal_reader_finish(pal_reader *reader, const pal_http_end *http)
{
    pal_answer *answer = &reader->answer;
    if (!pal_answer_failed(answer))
        judge(reader, http);
    answer->end.code = reader->code;
    if (answer->end.status != PAL_OK && !is_good(reader->code))
        answer->end.retry_after_ms = pal_retry_after_ms(
                pal_buf_str(&reader->asked_ms), pal_buf_str(&reader->asked), pal_clock_now_ms());
    pal_answer_settle(answer);
}

/* ---- Functions for all services ---- */

pal_str pal_reader_text(pal_reader *reader, pal_json value)
{
    if (pal_json_type_of(value) == PAL_JSON_STRING)
        reader->texts_len += pal_json_raw(value).len;
    if (reader->is_on_worker || reader->texts_len <= PAL_PROVIDER_TEXT_BYTES_MAX)
        return pal_json_string(value, reader->scratch);
    pal_answer_fail(&reader->answer, PAL_PROVIDER,
            "the texts of one event or response exceed %u bytes", PAL_PROVIDER_TEXT_BYTES_MAX);
    return pal_str_make(NULL, 0);
}

static void read_thinking(pal_reader *reader, pal_json thinking)
{
    pal_json chunk;
    pal_answer_reasoning(&reader->answer, pal_reader_text(reader, thinking));
    if (pal_json_type_of(thinking) != PAL_JSON_ARRAY)
        return;
    for (pal_json_iter iter = pal_json_each(thinking); pal_json_next(&iter, NULL, &chunk);)
        pal_answer_reasoning(&reader->answer, pal_reader_string(reader, chunk, "text"));
}

static void read_chunk(pal_reader *reader, pal_json chunk)
{
    if (pal_json_type_of(chunk) == PAL_JSON_STRING) {
        pal_answer_text(&reader->answer, pal_reader_text(reader, chunk));
        return;
    }
    if (pal_json_string_is(pal_json_find(chunk, "type"), "thinking"))
        read_thinking(reader, pal_json_find(chunk, "thinking"));
    else
        pal_answer_text(&reader->answer, pal_reader_string(reader, chunk, "text"));
}

void pal_reader_content(pal_reader *reader, pal_json content)
{
    pal_json chunk;
    if (pal_json_type_of(content) != PAL_JSON_ARRAY) {
        read_chunk(reader, content);
        return;
    }
    for (pal_json_iter iter = pal_json_each(content); pal_json_next(&iter, NULL, &chunk);)
        read_chunk(reader, chunk);
}

/* One possible place of a number: "outer.inner" or "name". */
typedef struct usage_place {
    const char *outer; /* NULL: the number is not nested */
    const char *name;
} usage_place;

static uint64_t find_number(pal_json usage, const usage_place *places, size_t places_len)
{
    uint64_t number = 0;
    for (size_t i = 0; i < places_len; i++) {
        pal_json object = places[i].outer ? pal_json_find(usage, places[i].outer) : usage;
        if (pal_answer_number(pal_json_find(object, places[i].name), &number) && number)
            return number;
    }
    return 0;
}

#define FIND(usage, places) find_number(usage, places, sizeof(places) / sizeof((places)[0]))

static const usage_place prompt_places[] = {{NULL, "prompt_tokens"}, {NULL, "input_tokens"}};
static const usage_place connector_places[] = {{NULL, "connector_tokens"}};
static const usage_place output_places[] = {{NULL, "completion_tokens"}, {NULL, "output_tokens"}};
static const usage_place read_places[] = {
        {"prompt_tokens_details", "cached_tokens"},
        {"input_tokens_details", "cached_tokens"},
        {NULL, "prompt_cache_hit_tokens"},
        {NULL, "cached_tokens"},
        {NULL, "num_cached_tokens"},
        {NULL, "cache_read_input_tokens"},
};
static const usage_place write_places[] = {
        {"prompt_tokens_details", "cache_write_tokens"},
        {"input_tokens_details", "cache_write_tokens"},
        {NULL, "cache_creation_input_tokens"},
};
static const usage_place reasoning_places[] = {
        {"completion_tokens_details", "reasoning_tokens"},
        {"output_tokens_details", "reasoning_tokens"},
        {NULL, "reasoning_tokens"},
};

static uint64_t at_most(uint64_t number, uint64_t most)
{
    return number < most ? number : most;
}

void pal_reader_usage(pal_reader *reader, pal_json usage)
{
    if (pal_json_type_of(usage) != PAL_JSON_OBJECT)
        return;
    uint64_t prompt = FIND(usage, prompt_places), output = FIND(usage, output_places);
    /* Some services send zeros with every piece until they know the numbers. */
    if (prompt == 0 && output == 0)
        return;
    pal_usage *out = &reader->answer.end.usage;
    reader->answer.end.has_usage = true;
    out->cache_read = at_most(FIND(usage, read_places), prompt);
    out->cache_write = at_most(FIND(usage, write_places), prompt - out->cache_read);
    out->input = prompt - out->cache_read - out->cache_write + FIND(usage, connector_places);
    out->output = output;
    out->reasoning = at_most(FIND(usage, reasoning_places), output);
}
