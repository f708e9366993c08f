/* provider_reader.c - from bytes to events: detects what a service sends, and passes its events as
 * parsed JSON to the functions of the format, which read them into the answer
 * (provider_answer.c).
 *
 * A service that was asked for a stream may respond with one JSON text or a proxy's page, without
 * saying so. If the content type does not show it, the first byte does. A response that is not an
 * answer is shown with its first words. On the loop; pure except for the sink.
 *
 * No response may block the loop for long. The answer fails if an event has too many JSON values,
 * or very long texts. A reader that only counts skips large events, and parses a large body on a
 * worker. */
#include "provider/provider_reader.h"

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
    *reader = (pal_reader){.kind = kind};
    pal_answer_init(&reader->answer, scratch, sink, user);
    pal_sse_init(&reader->sse, PAL_PROVIDER_EVENT_BYTES_MAX);
    pal_buf_init(&reader->body,
            kind->skip ? PAL_PROVIDER_BODY_BYTES_MAX : PAL_PROVIDER_EVENT_BYTES_MAX);
    pal_buf_init(&reader->asked_ms, HEADER_LEN_MAX);
    pal_buf_init(&reader->asked, HEADER_LEN_MAX);
}

void pal_reader_done(pal_reader *reader)
{
    pal_answer_done(&reader->answer);
    pal_sse_done(&reader->sse);
    pal_buf_done(&reader->body);
    pal_buf_done(&reader->asked_ms);
    pal_buf_done(&reader->asked);
}

/* ---- The head ---- */

void pal_reader_head(pal_reader *reader, const pal_http_head *head)
{
    reader->code = head->code;
    for (size_t i = 0; i < head->headers_len; i++) {
        pal_str name = head->headers[i].name, value = head->headers[i].value;
        if (pal_str_is(name, "content-type"))
            reader->is_event_stream = pal_text_begins_nocase(value, "text/event-stream");
        else if (pal_str_is(name, "retry-after-ms"))
            pal_answer_learn(&reader->asked_ms, value);
        else if (pal_str_is(name, "retry-after"))
            pal_answer_learn(&reader->asked, value);
        else if (pal_str_is(name, "x-request-id") || pal_str_is(name, "request-id"))
            pal_answer_learn(&reader->answer.request_id, value);
    }
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
    good = pal_arena_copy(reader->answer.scratch, pal_buf_str(&out));
    if (out.failure)
        pal_answer_fail(&reader->answer, PAL_NO_MEMORY, "out of memory");
    pal_buf_done(&out);
    return good;
}

static void fail_garbage(pal_reader *reader, const char *what, pal_str bytes)
{
    pal_buf words;
    if (reader->answer.end.status)
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
            .values_max = reader->answer.is_on_worker ? 0 : PAL_PROVIDER_VALUES_MAX};
    pal_arena *scratch = reader->answer.scratch;
    pal_error err;
    pal_arena_reset(scratch);
    reader->answer.texts_len = 0;
    pal_status status = pal_json_parse(scratch, text, &limits, out_value, &err);
    if (status == PAL_INVALID && text.len <= MENDED_LEN_MAX &&
            pal_utf8_valid_len(text) < text.len)
        status = pal_json_parse(scratch, mended(reader, text), &limits, out_value, &err);
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

static bool is_over(const pal_reader *reader)
{
    const pal_answer *answer = &reader->answer;
    return answer->end.status || answer->is_silent || answer->is_done;
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
        reader->kind->skip(&reader->answer, event->data);
        return;
    }
    pal_status status = parse(reader, event->data, &value);
    if (status == PAL_OK) {
        reader->kind->event(&reader->answer, event->name, value);
        /* If the arena was exhausted, the values that were read are empty. */
        if (pal_arena_failure(reader->answer.scratch))
            pal_answer_fail(&reader->answer, PAL_NO_MEMORY, "out of memory");
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
    while (rest.len && !is_over(reader) && pal_sse_next(&reader->sse, &rest, &event))
        read_event(reader, &event);
    pal_status status = reader->sse.failure;
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

void pal_reader_take(void *user, pal_str bytes)
{
    pal_reader *reader = user;
    reader->is_busy = true;
    pal_reader_feed(reader, bytes);
    reader->is_busy = false;
    if (is_over(reader) && reader->on_over)
        reader->on_over(reader);
}

/* ---- The end of the response ---- */

static void finish_whole(pal_reader *reader)
{
    pal_json value;
    pal_str body = pal_buf_str(&reader->body);
    pal_status status = parse(reader, body, &value);
    if (status == PAL_OK) {
        reader->kind->whole(&reader->answer, value);
        if (pal_arena_failure(reader->answer.scratch))
            pal_answer_fail(&reader->answer, PAL_NO_MEMORY, "out of memory");
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

static void judge(pal_reader *reader, const pal_http_end *http)
{
    pal_answer *answer = &reader->answer;
    if (reader->code / 100 == 3 && http && http->error[0]) {
        pal_answer_fail(answer, PAL_PROVIDER, "HTTP %ld: %s", reader->code, http->error);
    } else if (reader->code && !is_good(reader->code)) {
        pal_arena_reset(answer->scratch);
        pal_answer_error_body(answer, reader->code, mended(reader, pal_buf_str(&reader->body)));
    } else if (http && http->status != PAL_OK) {
        fail_http(reader, http);
    } else if (reader->form == PAL_READER_WHOLE) {
        finish_whole(reader);
    } else if (reader->form == PAL_READER_STREAM) {
        finish_stream(reader);
    } else {
        pal_answer_fail(answer, PAL_IO, "the service sent nothing");
    }
}

void pal_reader_finish(pal_reader *reader, const pal_http_end *http)
{
    pal_answer *answer = &reader->answer;
    if (!answer->end.status)
        judge(reader, http);
    answer->end.code = reader->code;
    if (answer->end.status != PAL_OK && !is_good(reader->code))
        answer->end.retry_after_ms = pal_retry_after_ms(
                pal_buf_str(&reader->asked_ms), pal_buf_str(&reader->asked), pal_clock_now_ms());
    pal_answer_settle(answer);
}
