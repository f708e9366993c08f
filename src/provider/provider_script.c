/* provider_script.c - replays recorded answers from a file, for tests.
 *
 * The file has one JSON object per line:
 *
 *   {"text":"Hel"}  {"reasoning":"..."}  {"signature":"...","family":"anthropic"}
 *   {"call":{"id":"c1","name":"ls","arguments":{"path":"."}}}
 *   {"usage":{"input":12,"cache_read":0,"cache_write":0,"output":3,"reasoning":0}}
 *   {"finish":"length"}  {"delay_ms":20}
 *   {"error":"overloaded"} or {"error":{"message":"...","code":529,"error_code":"...",
 *                                       "status":"timeout","retry_after_ms":100}}
 *   {"next":true}
 *
 * "next" ends an answer: the first call gets the first answer, the second call the second, and so
 * on. When no answer is left, calls fail. Empty lines are ignored. The file is read once, when the
 * provider is opened. On the loop. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/memory.h"
#include "dialect/dialect_member.h"
#include "provider/provider_play.h"

#define FILE_BYTES_MAX (64u << 20)

struct pal_script {
    const pal_play_step *steps;
    size_t steps_len;
    size_t next; /* index of the first step of the next answer */
};

typedef struct script_reader {
    pal_arena *kept;
    pal_json line;
    pal_error *err;
} script_reader;

/* ---- Steps; a step of kind 0 separates two answers ---- */

static void read_call(script_reader *in, pal_json call, pal_play_step *step)
{
    pal_json arguments = pal_json_find(call, "arguments");
    step->kind = PAL_PLAY_CALL;
    step->id = pal_member_string(call, "id", in->kept);
    step->name = pal_member_string(call, "name", in->kept);
    step->text = pal_json_type_of(arguments) == PAL_JSON_OBJECT
            ? pal_json_raw(arguments)
            : pal_json_string(arguments, in->kept);
}

static void read_usage(pal_json usage, pal_play_step *step)
{
    step->kind = PAL_PLAY_USAGE;
    pal_json_u64(pal_json_find(usage, "input"), &step->usage.input);
    pal_json_u64(pal_json_find(usage, "cache_read"), &step->usage.cache_read);
    pal_json_u64(pal_json_find(usage, "cache_write"), &step->usage.cache_write);
    pal_json_u64(pal_json_find(usage, "output"), &step->usage.output);
    pal_json_u64(pal_json_find(usage, "reasoning"), &step->usage.reasoning);
}

static pal_status status_of(pal_json name)
{
    for (int status = PAL_INVALID; status <= PAL_PROVIDER; status++) {
        if (pal_json_string_is(name, pal_status_name((pal_status)status)))
            return (pal_status)status;
    }
    return PAL_PROVIDER;
}

static void read_error(script_reader *in, pal_json error, pal_play_step *step)
{
    int64_t code = 0;
    step->kind = PAL_PLAY_ERROR;
    step->ms = -1;
    step->status = status_of(pal_json_find(error, "status"));
    step->text = pal_json_type_of(error) == PAL_JSON_STRING
            ? pal_json_string(error, in->kept)
            : pal_member_string(error, "message", in->kept);
    step->name = pal_member_string(error, "error_code", in->kept);
    pal_json_i64(pal_json_find(error, "code"), &code);
    pal_json_i64(pal_json_find(error, "retry_after_ms"), &step->ms);
    step->code = (long)code;
}

static const struct {
    const char *name;
    pal_play_kind kind;
} text_steps[] = {
        {"text", PAL_PLAY_TEXT},
        {"reasoning", PAL_PLAY_REASONING},
        {"signature", PAL_PLAY_SIGNATURE},
        {"finish", PAL_PLAY_FINISH},
};

static bool read_text(script_reader *in, pal_play_step *step)
{
    for (size_t i = 0; i < sizeof(text_steps) / sizeof(text_steps[0]); i++) {
        pal_json text = pal_json_find(in->line, text_steps[i].name);
        if (pal_json_type_of(text) != PAL_JSON_STRING)
            continue;
        step->kind = text_steps[i].kind;
        step->text = pal_json_string(text, in->kept);
        step->name = pal_member_string(in->line, "family", in->kept);
        return true;
    }
    return false;
}

static pal_status read_step(script_reader *in, pal_play_step *step)
{
    pal_json call = pal_json_find(in->line, "call"), usage = pal_json_find(in->line, "usage");
    pal_json error = pal_json_find(in->line, "error");
    bool is_next = false;
    if (read_text(in, step) ||
            (pal_json_bool(pal_json_find(in->line, "next"), &is_next) && is_next))
        return PAL_OK;
    if (pal_json_i64(pal_json_find(in->line, "delay_ms"), &step->ms))
        step->kind = PAL_PLAY_DELAY;
    else if (pal_json_type_of(call) == PAL_JSON_OBJECT)
        read_call(in, call, step);
    else if (pal_json_type_of(usage) == PAL_JSON_OBJECT)
        read_usage(usage, step);
    else if (pal_json_type_of(error) > PAL_JSON_NULL)
        read_error(in, error, step);
    else
        return pal_error_set(in->err, PAL_INVALID, "unknown step");
    return PAL_OK;
}

/* ---- The file ---- */

static pal_status read_file(const char *path, pal_buf *out, pal_error *err)
{
    char chunk[8192];
    size_t len;
    FILE *file = fopen(path, "rb");
    if (!file)
        return pal_error_set(err, PAL_IO, "could not open '%s': %s", path, strerror(errno));
    while ((len = fread(chunk, 1, sizeof chunk, file)) > 0)
        pal_buf_append(out, chunk, len);
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed)
        return pal_error_set(err, PAL_IO, "could not read '%s'", path);
    if (out->failure)
        return pal_error_set(err, out->failure, "'%s' is too long", path);
    return PAL_OK;
}

static size_t count_lines(pal_str text)
{
    size_t lines = 1;
    for (size_t i = 0; i < text.len; i++)
        lines += text.data[i] == '\n';
    return lines;
}

static bool is_empty(pal_str line)
{
    for (size_t i = 0; i < line.len; i++) {
        if (line.data[i] != ' ' && line.data[i] != '\r' && line.data[i] != '\t')
            return false;
    }
    return true;
}

static pal_status read_steps(
        pal_arena *kept, pal_str text, pal_play_step *steps, size_t *out_len, pal_error *err)
{
    size_t number = 0, len = 0;
    pal_error inner = {0};
    script_reader in = {.kept = kept, .err = &inner};
    while (text.len) {
        const char *end = memchr(text.data, '\n', text.len);
        size_t line_len = end ? (size_t)(end - text.data) : text.len;
        pal_str line = pal_str_make(text.data, line_len);
        text = pal_str_make(text.data + line_len, text.len - line_len);
        text = text.len ? pal_str_make(text.data + 1, text.len - 1) : text;
        number++;
        if (is_empty(line))
            continue;
        pal_status status = pal_json_parse(kept, line, NULL, &in.line, &inner);
        if (status == PAL_OK)
            status = read_step(&in, &steps[len++]);
        if (status != PAL_OK)
            return pal_error_set(err, status, "line %zu: %s", number, inner.message);
    }
    *out_len = len;
    return PAL_OK;
}

static pal_status read_script(
        pal_provider *provider, pal_str text, pal_script *script, pal_error *err)
{
    pal_str copy = pal_arena_copy(provider->kept, text);
    pal_play_step *steps = pal_arena_array(provider->kept, count_lines(text), sizeof(*steps));
    if (!steps || (text.len && copy.len == 0))
        return pal_no_memory(err);
    script->steps = steps;
    return read_steps(provider->kept, copy, steps, &script->steps_len, err);
}

static pal_status open_script(
        pal_provider *provider, const pal_provider_config *config, pal_error *err)
{
    pal_buf text;
    pal_str path = pal_arena_copy(provider->kept, config->path);
    pal_script *script = pal_arena_alloc(provider->kept, sizeof(*script));
    if (!script)
        return pal_no_memory(err);
    if (path.len == 0)
        return pal_error_set(err, PAL_INVALID,
                "'path' of provider '%.*s' is missing: a script needs a file",
                PAL_STR_ARG(provider->name));
    pal_buf_init(&text, FILE_BYTES_MAX);
    pal_status status = read_file(path.data, &text, err);
    if (status == PAL_OK)
        status = read_script(provider, pal_buf_str(&text), script, err);
    provider->script = script;
    pal_buf_done(&text);
    return status;
}

static pal_status start_script(pal_provider *provider, const pal_model_request *request,
        const pal_model_sink *sink, void *user, pal_model_call **out_call, pal_error *err)
{
    static const pal_play_step nothing_left[] = {{.kind = PAL_PLAY_ERROR,
            .status = PAL_PROVIDER,
            .text = {"no more recorded responses", sizeof "no more recorded responses" - 1},
            .ms = -1}};
    pal_script *script = provider->script;
    size_t end = script->next;
    pal_play play = {.steps = nothing_left, .steps_len = 1, .model = pal_str_of("script")};
    if (end < script->steps_len) {
        while (end < script->steps_len && script->steps[end].kind)
            end++;
        play.steps = script->steps + script->next;
        play.steps_len = end - script->next;
        script->next = end + 1;
    }
    return pal_play_start(provider, &play, request->timeout_ms, sink, user, out_call, err);
}

const pal_provider_kind pal_provider_script = {
        .info = {.kind = "script", .profile = PAL_PROFILE_OPENAI_CHAT, .needs_path = true},
        .open = open_script,
        .start = start_script,
};
