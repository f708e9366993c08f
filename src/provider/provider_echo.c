/* provider_echo.c - the provider that is used if there is no other. It is not a model: it answers
 * "echo: " and the user's message, as the model "echo", and calls no tools. The same request always
 * gets the same answer. On the loop. */
#include "base/memory.h"
#include "base/utf8.h"
#include "palaver/tokens.h"
#include "provider/provider_play.h"
#include "tokens/tokens_estimate.h"

#define DELTAS_MAX 8
#define DELTA_LEN_MIN 16
#define CHAR_LEN_MAX 4 /* bytes of the longest character */

static const pal_message *last_user(const pal_model_request *request)
{
    for (size_t i = request->messages_len; i > 0; i--) {
        if (request->messages[i - 1].role == PAL_ROLE_USER)
            return &request->messages[i - 1];
    }
    return NULL;
}

static void append_texts(pal_buf *out, const pal_message *message)
{
    bool has_text = false;
    for (size_t i = 0; message && i < message->parts_len; i++) {
        if (message->parts[i].kind != PAL_PART_TEXT)
            continue;
        if (has_text)
            pal_buf_append_char(out, '\n');
        pal_buf_append_str(out, message->parts[i].text);
        has_text = true;
    }
}

static uint64_t count_input(const pal_model_request *request)
{
    uint64_t tokens = 0;
    for (size_t i = 0; i < request->messages_len; i++) {
        uint64_t count = 0;
        if (pal_tokens_message(NULL, &request->messages[i], &count, NULL) == PAL_OK)
            tokens += count;
    }
    return tokens;
}

/* Splits the answer into a few pieces, never inside a character. */
static size_t cut(pal_str text, pal_play_step *steps)
{
    size_t len = 0, size = text.len / DELTAS_MAX + 1;
    if (size < DELTA_LEN_MIN)
        size = DELTA_LEN_MIN;
    while (text.len) {
        size_t taken =
                len + 1 < DELTAS_MAX && size < text.len ? pal_utf8_cut(text, size) : text.len;
        taken = taken ? taken : text.len;
        steps[len++] =
                (pal_play_step){.kind = PAL_PLAY_TEXT, .text = pal_str_make(text.data, taken)};
        text = pal_str_make(text.data + taken, text.len - taken);
    }
    return len;
}

/* The request's output limit also applies to this answer. */
static pal_str limited(pal_str text, uint64_t tokens_max, bool *out_is_cut)
{
    pal_estimate estimate = {0};
    size_t len = 0;
    *out_is_cut = false;
    while (tokens_max && len < text.len) {
        pal_str rest = pal_str_make(text.data + len, text.len - len);
        size_t taken = pal_utf8_cut(rest, CHAR_LEN_MAX);
        pal_estimate_feed(&estimate, pal_str_make(rest.data, taken));
        *out_is_cut = pal_estimate_tokens(&estimate) > tokens_max;
        if (*out_is_cut)
            return pal_str_make(text.data, len);
        len += taken;
    }
    return text;
}

static pal_play make_play(const pal_model_request *request, pal_arena *arena, pal_str answer)
{
    bool is_cut;
    pal_play play = {.model = pal_str_of("echo"), .owned = arena};
    pal_play_step *steps = pal_arena_array(arena, DELTAS_MAX + 2, sizeof(*steps));
    pal_str text = limited(pal_arena_copy(arena, answer), request->output_max, &is_cut);
    if (!steps)
        return play;
    size_t len = cut(text, steps);
    steps[len++] = (pal_play_step){.kind = PAL_PLAY_USAGE,
            .usage = {.input = count_input(request), .output = pal_estimate_quickly(text)}};
    steps[len++] = (pal_play_step){
            .kind = PAL_PLAY_FINISH, .text = pal_str_of(is_cut ? "length" : "stop")};
    play.steps = steps;
    play.steps_len = len;
    return play;
}

static pal_status start_echo(pal_provider *provider, const pal_model_request *request,
        const pal_model_sink *sink, void *user, pal_model_call **out_call, pal_error *err)
{
    pal_buf answer;
    pal_arena *arena = pal_arena_new(0);
    if (!arena)
        return pal_no_memory(err);
    pal_buf_init(&answer, PAL_JSON_BYTES_MAX);
    pal_buf_append_text(&answer, "echo: ");
    append_texts(&answer, last_user(request));
    pal_play play = make_play(request, arena, pal_buf_str(&answer));
    pal_status status = answer.failure ? answer.failure : pal_arena_failure(arena);
    pal_buf_done(&answer);
    if (status != PAL_OK) {
        pal_arena_free(arena);
        return pal_error_set(err, status, "out of memory");
    }
    return pal_play_start(provider, &play, request->timeout_ms, sink, user, out_call, err);
}

const pal_provider_kind pal_provider_echo = {
        .info = {.kind = "echo", .profile = PAL_PROFILE_OPENAI_CHAT},
        .start = start_echo,
};
