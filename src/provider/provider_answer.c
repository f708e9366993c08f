/* provider_answer.c - the part of an answer that is the same for all services.
 *
 * Tool calls arrive in pieces that name their call by number, by id, by both or not at all, and
 * some services use one number for several calls. A call is reported to the sink when its name is
 * known; arguments that arrive earlier wait. Everything runs on the loop. */
#include "provider/provider_answer.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include "base/json/json_part.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/utf8.h"
#include "palaver/limits.h"

#define FACT_LEN_MAX 1024
#define ERROR_LEN_MAX 2048

void pal_answer_init(
        pal_answer *answer, pal_arena *scratch, const pal_model_sink *sink, void *user)
{
    *answer = (pal_answer){.sink = *sink, .user = user, .scratch = scratch};
    answer->end.retry_after_ms = -1;
    pal_buf_init(&answer->model, FACT_LEN_MAX);
    pal_buf_init(&answer->request_id, FACT_LEN_MAX);
    pal_buf_init(&answer->conversation, FACT_LEN_MAX);
    pal_buf_init(&answer->error, ERROR_LEN_MAX);
    pal_buf_init(&answer->error_code, FACT_LEN_MAX);
    pal_buf_init(&answer->signature, PAL_PROVIDER_EVENT_BYTES_MAX);
    pal_buf_init(&answer->kept, PAL_PROVIDER_EVENT_BYTES_MAX);
    pal_buf_init(&answer->open_item, PAL_PROVIDER_EVENT_BYTES_MAX);
    pal_buf_init(&answer->held, PAL_PROVIDER_INLINE_BYTES_MAX);
}

void pal_answer_done(pal_answer *answer)
{
    for (size_t i = 0; i < answer->calls_len; i++) {
        pal_buf_done(&answer->calls[i].id);
        pal_buf_done(&answer->calls[i].held);
    }
    pal_free(answer->calls);
    pal_buf_done(&answer->model);
    pal_buf_done(&answer->request_id);
    pal_buf_done(&answer->conversation);
    pal_buf_done(&answer->error);
    pal_buf_done(&answer->error_code);
    pal_buf_done(&answer->signature);
    pal_buf_done(&answer->kept);
    pal_buf_done(&answer->open_item);
    pal_buf_done(&answer->held);
}

static bool listens(const pal_answer *answer)
{
    return !answer->is_silent && !answer->end.status;
}

/* ---- Texts ---- */

/* Returns whether the text is passed to the sink. Fails if the text makes the answer too long. */
static bool takes(pal_answer *answer, pal_str delta)
{
    if (delta.len == 0 || !listens(answer))
        return false;
    answer->said += delta.len;
    if (answer->said > PAL_PROVIDER_SAID_BYTES_MAX)
        pal_answer_fail(answer, PAL_PROVIDER, "the answer exceeds %u bytes",
                PAL_PROVIDER_SAID_BYTES_MAX);
    return !answer->end.status;
}

void pal_answer_text(pal_answer *answer, pal_str delta)
{
    if (takes(answer, delta))
        answer->sink.text(answer->user, delta);
}

void pal_answer_refusal(pal_answer *answer, pal_str delta)
{
    if (!answer->sink.refusal)
        pal_answer_text(answer, delta);
    else if (takes(answer, delta))
        answer->sink.refusal(answer->user, delta);
}

void pal_answer_reasoning(pal_answer *answer, pal_str delta)
{
    if (takes(answer, delta))
        answer->sink.reasoning(answer->user, delta);
}

void pal_answer_summary(pal_answer *answer, pal_str delta)
{
    if (!answer->sink.summary)
        pal_answer_reasoning(answer, delta);
    else if (takes(answer, delta))
        answer->sink.summary(answer->user, delta);
}

void pal_answer_item(pal_answer *answer, pal_str json, size_t parts)
{
    answer->item_said = answer->said;
    answer->items_len++;
    if (answer->sink.item && listens(answer))
        answer->sink.item(answer->user, json, parts);
}

void pal_answer_progress(pal_answer *answer, pal_str json)
{
    pal_buf line;
    answer->progress_len += json.len;
    if (!answer->sink.progress || !listens(answer))
        return;
    pal_buf_init(&line, PAL_PROVIDER_EVENT_BYTES_MAX);
    pal_json_writer writer = pal_json_writer_make(&line);
    pal_json_put_compact(&writer, json); /* the event of a stream is one line */
    if (line.failure)
        pal_answer_fail(answer, PAL_NO_MEMORY, "out of memory");
    else
        answer->sink.progress(answer->user, pal_buf_str(&line));
    pal_buf_done(&line);
}

void pal_answer_signature(pal_answer *answer, pal_str signature, pal_str family)
{
    if (signature.len && listens(answer))
        answer->sink.signature(answer->user, signature, family);
}

/* ---- Tool calls ---- */

/* Mistral sends "null" as the id of a call that already has an id. */
static bool says_nothing(pal_str id)
{
    return id.len == 0 || pal_str_is(id, "null");
}

static uint32_t find_key(const pal_answer *answer, int64_t key)
{
    for (size_t i = answer->calls_len; i > 0; i--) {
        if (answer->calls[i - 1].key == key)
            return (uint32_t)(i - 1);
    }
    return PAL_ANSWER_NO_CALL;
}

static uint32_t find_id(const pal_answer *answer, pal_str id)
{
    for (size_t i = answer->calls_len; i > 0; i--) {
        if (pal_str_equal(pal_buf_str(&answer->calls[i - 1].id), id))
            return (uint32_t)(i - 1);
    }
    return PAL_ANSWER_NO_CALL;
}

/* Used if a call has neither a number nor an id. A second name begins a second call. */
static uint32_t find_last(const pal_answer *answer, pal_str name)
{
    if (answer->calls_len == 0)
        return PAL_ANSWER_NO_CALL;
    const pal_answer_call *last = &answer->calls[answer->calls_len - 1];
    return name.len && last->is_named ? PAL_ANSWER_NO_CALL : (uint32_t)(answer->calls_len - 1);
}

static uint32_t find_call(const pal_answer *answer, int64_t key, pal_str id, pal_str name)
{
    if (key < 0)
        return says_nothing(id) ? find_last(answer, name) : find_id(answer, id);
    uint32_t index = find_key(answer, key);
    if (index == PAL_ANSWER_NO_CALL || says_nothing(id))
        return index;
    /* Some services send the same number for all calls of an answer; their ids differ. */
    pal_str known = pal_buf_str(&answer->calls[index].id);
    return known.len == 0 || pal_str_equal(known, id) ? index : find_id(answer, id);
}

static uint32_t add_call(pal_answer *answer, int64_t key)
{
    if (answer->calls_len >= PAL_ANSWER_CALLS_MAX) {
        pal_answer_fail(answer, PAL_PROVIDER, "the answer has more than %d tool calls",
                PAL_ANSWER_CALLS_MAX);
        return PAL_ANSWER_NO_CALL;
    }
    if (!pal_reserve(&answer->calls, &answer->calls_cap, answer->calls_len + 1,
                sizeof *answer->calls)) {
        pal_answer_fail(answer, PAL_NO_MEMORY, "out of memory");
        return PAL_ANSWER_NO_CALL;
    }
    pal_answer_call *call = &answer->calls[answer->calls_len];
    *call = (pal_answer_call){.key = key};
    pal_buf_init(&call->id, FACT_LEN_MAX);
    pal_buf_init(&call->held, PAL_PROVIDER_EVENT_BYTES_MAX);
    return (uint32_t)answer->calls_len++;
}

/* Some services send no ids, but the calls of an answer must be distinguishable later. */
static void make_id(pal_buf *id)
{
    unsigned char bytes[12];
    pal_random_bytes(bytes, sizeof bytes);
    pal_buf_append_text(id, "call_");
    for (size_t i = 0; i < sizeof bytes; i++)
        pal_buf_format(id, "%02x", bytes[i]);
}

static bool name_call(pal_answer *answer, uint32_t index, pal_str name)
{
    pal_answer_call *call = &answer->calls[index];
    if (call->id.len == 0)
        make_id(&call->id);
    if (call->id.failure) {
        pal_answer_fail(answer, call->id.failure == PAL_LIMIT ? PAL_PROVIDER : PAL_NO_MEMORY,
                "the id of a tool call is too long, or there is no memory");
        return false;
    }
    call->is_named = true;
    answer->sink.call(answer->user, index, pal_buf_str(&call->id), name);
    if (call->held.len && listens(answer))
        answer->sink.arguments(answer->user, index, pal_buf_str(&call->held));
    pal_buf_done(&answer->calls[index].held);
    pal_buf_init(&answer->calls[index].held, 0);
    return true;
}

uint32_t pal_answer_call_of(pal_answer *answer, int64_t key, pal_str id, pal_str name)
{
    if (!listens(answer))
        return PAL_ANSWER_NO_CALL;
    uint32_t index = find_call(answer, key, id, name);
    if (index == PAL_ANSWER_NO_CALL)
        index = add_call(answer, key);
    if (index == PAL_ANSWER_NO_CALL)
        return index;
    pal_answer_call *call = &answer->calls[index];
    if (call->id.len == 0 && !says_nothing(id))
        pal_buf_append_str(&call->id, id);
    if (!call->is_named && name.len && !name_call(answer, index, name))
        return PAL_ANSWER_NO_CALL;
    return index;
}

void pal_answer_arguments(pal_answer *answer, uint32_t index, pal_str delta)
{
    if (index == PAL_ANSWER_NO_CALL || !takes(answer, delta))
        return;
    assert(index < answer->calls_len);
    pal_answer_call *call = &answer->calls[index];
    call->has_arguments = true;
    if (call->is_named) {
        answer->sink.arguments(answer->user, index, delta);
        return;
    }
    pal_buf_append_str(&call->held, delta);
    if (call->held.failure)
        pal_answer_fail(answer, call->held.failure == PAL_LIMIT ? PAL_PROVIDER : PAL_NO_MEMORY,
                "the arguments of a tool call are too long, or there is no memory");
}

/* ---- Facts ---- */

static const struct {
    const char *reason;
    pal_finish finish;
} finishes[] = {
        {"stop", PAL_FINISH_STOP},
        {"length", PAL_FINISH_LENGTH},
        {"model_length", PAL_FINISH_LENGTH},
        {"max_tokens", PAL_FINISH_LENGTH},
        {"max_output_tokens", PAL_FINISH_LENGTH},
        {"model_context_window_exceeded", PAL_FINISH_LENGTH},
        {"tool_calls", PAL_FINISH_TOOL_CALLS},
        {"function_call", PAL_FINISH_TOOL_CALLS},
        {"tool_use", PAL_FINISH_TOOL_CALLS},
        {"content_filter", PAL_FINISH_FILTERED},
        {"refusal", PAL_FINISH_FILTERED},
        {"safety", PAL_FINISH_FILTERED},
};

void pal_answer_finish(pal_answer *answer, pal_str reason)
{
    if (reason.len == 0)
        return;
    answer->has_finish = true;
    answer->end.finish = PAL_FINISH_STOP; /* any unknown reason counts as a stop */
    for (size_t i = 0; i < sizeof(finishes) / sizeof(finishes[0]); i++) {
        if (pal_str_is(reason, finishes[i].reason))
            answer->end.finish = finishes[i].finish;
    }
}

void pal_answer_fail(pal_answer *answer, pal_status status, const char *format, ...)
{
    char text[ERROR_LEN_MAX];
    va_list args;
    if (answer->end.status)
        return;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    answer->end.status = status;
    if (len <= 0)
        return;
    pal_str all = pal_str_make(text, (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
    pal_buf_clear(&answer->error);
    pal_buf_append(&answer->error, text, pal_utf8_valid_len(all));
}

void pal_answer_learn(pal_buf *fact, pal_str value)
{
    if (fact->len == 0 && value.len <= fact->len_max)
        pal_buf_append_str(fact, value);
}

/* ---- JSON values ---- */

pal_str pal_answer_string(pal_answer *answer, pal_json value)
{
    if (pal_json_type_of(value) == PAL_JSON_STRING)
        answer->texts_len += pal_json_raw(value).len;
    if (answer->is_on_worker || answer->texts_len <= PAL_PROVIDER_TEXT_BYTES_MAX)
        return pal_json_string_part(value, &answer->half, answer->scratch);
    pal_answer_fail(answer, PAL_PROVIDER,
            "the texts of one event or response exceed %u bytes", PAL_PROVIDER_TEXT_BYTES_MAX);
    return pal_str_make(NULL, 0);
}

pal_str pal_answer_member(pal_answer *answer, pal_json object, const char *name)
{
    pal_json value = pal_json_find(object, name);
    return pal_json_type_of(value) == PAL_JSON_STRING ? pal_answer_string(answer, value)
                                                      : pal_str_make(NULL, 0);
}

static void read_thinking(pal_answer *answer, pal_json thinking)
{
    pal_json chunk;
    pal_answer_reasoning(answer, pal_answer_string(answer, thinking));
    if (pal_json_type_of(thinking) != PAL_JSON_ARRAY)
        return;
    for (pal_json_iter iter = pal_json_each(thinking); pal_json_next(&iter, NULL, &chunk);)
        pal_answer_reasoning(answer, pal_answer_member(answer, chunk, "text"));
}

static void read_chunk(pal_answer *answer, pal_json chunk)
{
    if (pal_json_type_of(chunk) == PAL_JSON_STRING) {
        pal_answer_text(answer, pal_answer_string(answer, chunk));
        return;
    }
    if (pal_json_string_is(pal_json_find(chunk, "type"), "thinking"))
        read_thinking(answer, pal_json_find(chunk, "thinking"));
    else
        pal_answer_text(answer, pal_answer_member(answer, chunk, "text"));
}

void pal_answer_content(pal_answer *answer, pal_json content)
{
    pal_json chunk;
    if (pal_json_type_of(content) != PAL_JSON_ARRAY) {
        read_chunk(answer, content);
        return;
    }
    for (pal_json_iter iter = pal_json_each(content); pal_json_next(&iter, NULL, &chunk);)
        read_chunk(answer, chunk);
}

void pal_answer_keep(pal_answer *answer, pal_str text)
{
    answer->kept_len += text.len;
    if (text.len <= answer->kept.len_max - answer->kept.len)
        pal_buf_append_str(&answer->kept, text);
}

static bool read_text_number(pal_json value, uint64_t *out_number)
{
    pal_str raw = pal_json_raw(value);
    uint64_t number = 0;
    if (raw.len < 3 || raw.len > 2 + 18)
        return false;
    for (size_t i = 1; i + 1 < raw.len; i++) {
        if (raw.data[i] < '0' || raw.data[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(raw.data[i] - '0');
    }
    *out_number = number;
    return true;
}

bool pal_answer_number(pal_json value, uint64_t *out_number)
{
    double number;
    if (pal_json_u64(value, out_number))
        return true;
    if (pal_json_type_of(value) == PAL_JSON_STRING)
        return read_text_number(value, out_number);
    if (!pal_json_f64(value, &number) || !(number >= 0) || number > 1e15)
        return false;
    *out_number = (uint64_t)number;
    return true;
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

void pal_answer_usage(pal_answer *answer, pal_json usage)
{
    if (pal_json_type_of(usage) != PAL_JSON_OBJECT)
        return;
    uint64_t prompt = FIND(usage, prompt_places), output = FIND(usage, output_places);
    /* Some services send zeros with every piece until they know the numbers. */
    if (prompt == 0 && output == 0)
        return;
    pal_usage *out = &answer->end.usage;
    answer->end.has_usage = true;
    out->cache_read = at_most(FIND(usage, read_places), prompt);
    out->cache_write = at_most(FIND(usage, write_places), prompt - out->cache_read);
    out->input = prompt - out->cache_read - out->cache_write + FIND(usage, connector_places);
    out->output = output;
    out->reasoning = at_most(FIND(usage, reasoning_places), output);
}

/* ---- The end of the answer ---- */

static void settle_calls(pal_answer *answer)
{
    for (uint32_t i = 0; i < answer->calls_len; i++) {
        if (!answer->calls[i].is_named)
            pal_answer_fail(answer, PAL_PROVIDER, "the answer contains a tool call without a name");
        else if (!answer->calls[i].has_arguments)
            pal_answer_arguments(answer, i, pal_str_of("{}"));
    }
}

/* Some services send "stop" after a call, and some send "tool_calls" without a call. */
static void settle_finish(pal_answer *answer)
{
    pal_finish *finish = &answer->end.finish;
    bool has_calls = answer->calls_len > 0;
    if (*finish == PAL_FINISH_NONE || *finish == PAL_FINISH_STOP ||
            *finish == PAL_FINISH_TOOL_CALLS)
        *finish = has_calls ? PAL_FINISH_TOOL_CALLS : PAL_FINISH_STOP;
}

/* Impossible numbers would use up every budget at once. */
static bool is_plausible(const pal_usage *usage)
{
    return usage->input <= PAL_PROVIDER_TOKENS_MAX &&
            usage->cache_read <= PAL_PROVIDER_TOKENS_MAX &&
            usage->cache_write <= PAL_PROVIDER_TOKENS_MAX &&
            usage->output <= PAL_PROVIDER_TOKENS_MAX &&
            usage->reasoning <= PAL_PROVIDER_TOKENS_MAX;
}

void pal_answer_settle(pal_answer *answer)
{
    pal_model_end *end = &answer->end;
    if (end->has_usage && !is_plausible(&end->usage)) {
        end->has_usage = false;
        end->usage = (pal_usage){0};
    }
    if (!answer->end.status)
        settle_calls(answer);
    if (!answer->end.status)
        settle_finish(answer);
    else
        end->finish = PAL_FINISH_NONE;
    end->model = pal_buf_str(&answer->model);
    end->request_id = pal_buf_str(&answer->request_id);
    end->conversation = pal_buf_str(&answer->conversation);
    end->error = pal_buf_str(&answer->error);
    end->error_code = pal_buf_str(&answer->error_code);
    if (end->status == PAL_PROVIDER) {
        end->is_overflow = pal_error_is_overflow(end->code, end->error_code, end->error);
        end->is_retryable =
                end->is_retryable || pal_error_is_retryable(end->code, end->error_code, end->error);
    } else if (end->status == PAL_IO || end->status == PAL_TIMEOUT) {
        end->is_retryable = true;
    }
}
