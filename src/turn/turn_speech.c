/* turn_speech.c - gathers what a model says, delta by delta, into one message. */
#include "turn/turn_speech.h"

#include "base/memory.h"
#include "palaver/limits.h"

enum { CALLS_MAX = 256 };

void pal_speech_init(pal_speech *answer)
{
    *answer = (pal_speech){0};
    pal_buf_init(&answer->text, PAL_MESSAGE_BYTES_MAX);
    pal_buf_init(&answer->reasoning, PAL_MESSAGE_BYTES_MAX);
    pal_buf_init(&answer->signature, PAL_MESSAGE_BYTES_MAX);
    pal_buf_init(&answer->family, PAL_LABEL_LEN_MAX);
}

static void clear_calls(pal_speech *answer)
{
    for (size_t i = 0; i < answer->calls_len; i++) {
        pal_buf_done(&answer->calls[i].id);
        pal_buf_done(&answer->calls[i].name);
        pal_buf_done(&answer->calls[i].arguments);
    }
    pal_free(answer->calls);
    answer->calls = NULL;
    answer->calls_len = answer->calls_cap = 0;
}

void pal_speech_done(pal_speech *answer)
{
    clear_calls(answer);
    pal_buf_done(&answer->text);
    pal_buf_done(&answer->reasoning);
    pal_buf_done(&answer->signature);
    pal_buf_done(&answer->family);
}

void pal_speech_clear(pal_speech *answer)
{
    pal_speech_done(answer);
    pal_speech_init(answer);
}

void pal_speech_text(pal_speech *answer, pal_str delta)
{
    pal_buf_append_str(&answer->text, delta);
}

void pal_speech_reasoning(pal_speech *answer, pal_str delta)
{
    pal_buf_append_str(&answer->reasoning, delta);
}

void pal_speech_signature(pal_speech *answer, pal_str signature, pal_str family)
{
    pal_buf_append_str(&answer->signature, signature);
    pal_buf_clear(&answer->family);
    pal_buf_append_str(&answer->family, family);
}

static pal_speech_call *call_at(pal_speech *answer, uint32_t index)
{
    pal_speech_call *calls;

    if (index >= CALLS_MAX)
        return NULL;
    if (index >= answer->calls_cap) {
        size_t cap = index + 4;

        calls = pal_realloc(answer->calls, cap * sizeof(*calls));
        if (!calls) {
            answer->out_of_memory = true;
            return NULL;
        }
        answer->calls = calls;
        answer->calls_cap = cap;
    }
    while (answer->calls_len <= index) {
        pal_speech_call *call = &answer->calls[answer->calls_len++];

        pal_buf_init(&call->id, PAL_LABEL_LEN_MAX);
        pal_buf_init(&call->name, PAL_LABEL_LEN_MAX);
        pal_buf_init(&call->arguments, PAL_MESSAGE_BYTES_MAX);
    }
    return &answer->calls[index];
}

void pal_speech_call_begin(pal_speech *answer, uint32_t index, pal_str id, pal_str name)
{
    pal_speech_call *call = call_at(answer, index);

    if (!call)
        return;
    pal_buf_append_str(&call->id, id);
    pal_buf_append_str(&call->name, name);
}

void pal_speech_arguments(pal_speech *answer, uint32_t index, pal_str delta)
{
    pal_speech_call *call = call_at(answer, index);

    if (call)
        pal_buf_append_str(&call->arguments, delta);
}

bool pal_speech_is_empty(const pal_speech *answer)
{
    return answer->text.len == 0 && answer->calls_len == 0 && answer->reasoning.len == 0 &&
            answer->signature.len == 0;
}

static pal_str made_id(pal_arena *arena)
{
    char text[5 + PAL_ID_TEXT_SIZE] = "call_";

    pal_id_to_text(pal_id_new(), text + 5);
    return pal_arena_copy(arena, pal_str_of(text));
}

static void put_calls(const pal_speech *answer, pal_arena *arena, pal_message *message)
{
    for (size_t i = 0; i < answer->calls_len; i++) {
        const pal_speech_call *call = &answer->calls[i];

        if (call->name.len == 0)
            continue;
        message->parts[message->parts_len++] = (pal_part){
                .kind = PAL_PART_TOOL_CALL,
                .call_id = call->id.len ? pal_arena_copy(arena, pal_buf_str(&call->id))
                                        : made_id(arena),
                .name = pal_arena_copy(arena, pal_buf_str(&call->name)),
                .arguments = call->arguments.len
                        ? pal_arena_copy(arena, pal_buf_str(&call->arguments))
                        : pal_str_of("{}"),
        };
    }
}

static bool has_failed(const pal_speech *answer)
{
    if (answer->out_of_memory || answer->text.failure || answer->reasoning.failure ||
            answer->signature.failure)
        return true;
    for (size_t i = 0; i < answer->calls_len; i++)
        if (answer->calls[i].arguments.failure || answer->calls[i].name.failure ||
                answer->calls[i].id.failure)
            return true;
    return false;
}

pal_status pal_speech_message(
        const pal_speech *answer, pal_arena *arena, pal_message *out_message, pal_error *err)
{
    pal_message message = {.role = PAL_ROLE_ASSISTANT};

    if (has_failed(answer))
        return pal_error_set(err, PAL_LIMIT, "the answer is over %u bytes (PAL_MESSAGE_BYTES_MAX)",
                PAL_MESSAGE_BYTES_MAX);
    message.parts = pal_arena_array(arena, answer->calls_len + 2, sizeof(*message.parts));
    if (!message.parts)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    if (answer->reasoning.len > 0 || answer->signature.len > 0)
        message.parts[message.parts_len++] = (pal_part){
                .kind = PAL_PART_REASONING,
                .text = pal_arena_copy(arena, pal_buf_str(&answer->reasoning)),
                .signature = pal_arena_copy(arena, pal_buf_str(&answer->signature)),
                .family = pal_arena_copy(arena, pal_buf_str(&answer->family)),
        };
    if (answer->text.len > 0)
        message.parts[message.parts_len++] = (pal_part){
                .kind = PAL_PART_TEXT, .text = pal_arena_copy(arena, pal_buf_str(&answer->text))};
    put_calls(answer, arena, &message);
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    *out_message = message;
    return PAL_OK;
}
