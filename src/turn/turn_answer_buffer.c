/* turn_answer_buffer.c - builds one message from the deltas of a model's answer. The answer is a
 * list of parts in the order in which they began: texts, blocks of reasoning, and calls. A signed
 * block is complete. It must be sent back to the model unchanged and at the same place. On the
 * loop. */
#include "turn/turn_answer_buffer.h"

#include "base/memory.h"
#include "dialect/native/native.h"
#include "dialect/openai/openai_items.h"
#include "palaver/limits.h"
#include "tokens/tokens_estimate.h"

enum { PARTS_MAX = PAL_MESSAGE_PARTS_MAX };

struct pal_answer_part {
    pal_part_kind kind;
    uint32_t index; /* index of a call */
    bool is_signed;
    bool is_refusal;
    pal_buf text; /* text, or the arguments of a call */
    pal_buf id;   /* id of a call, or the signature of reasoning */
    pal_buf name; /* name of a call, or the family of reasoning */
};

void pal_answer_buffer_init(pal_answer_buffer *answer)
{
    *answer = (pal_answer_buffer){0};
}

void pal_answer_buffer_done(pal_answer_buffer *answer)
{
    for (size_t i = 0; i < answer->len; i++) {
        pal_buf_done(&answer->parts[i].text);
        pal_buf_done(&answer->parts[i].id);
        pal_buf_done(&answer->parts[i].name);
    }
    pal_free(answer->parts);
    pal_answer_buffer_init(answer);
}

void pal_answer_buffer_clear(pal_answer_buffer *answer)
{
    pal_answer_buffer_done(answer);
}

/* ---- Parts ---- */

static pal_answer_part *add_part(pal_answer_buffer *answer, pal_part_kind kind)
{
    pal_answer_part *part;

    if (answer->len == PARTS_MAX) {
        answer->failure = PAL_LIMIT;
        return NULL;
    }
    if (!pal_reserve(&answer->parts, &answer->cap, answer->len + 1, sizeof(*answer->parts))) {
        answer->failure = PAL_NO_MEMORY;
        return NULL;
    }
    part = &answer->parts[answer->len++];
    *part = (pal_answer_part){.kind = kind};
    pal_buf_init(&part->text, PAL_MESSAGE_BYTES_MAX);
    pal_buf_init(
            &part->id, kind == PAL_PART_REASONING ? PAL_MESSAGE_BYTES_MAX : PAL_LABEL_LEN_MAX);
    pal_buf_init(&part->name, PAL_LABEL_LEN_MAX);
    return part;
}

/* Returns the last part if it has this kind and can still grow. */
static pal_answer_part *open_part(pal_answer_buffer *answer, pal_part_kind kind)
{
    pal_answer_part *last = answer->len ? &answer->parts[answer->len - 1] : NULL;

    return last && last->kind == kind && !last->is_signed ? last : NULL;
}

static void grow(pal_answer_buffer *answer, pal_part_kind kind, pal_str delta)
{
    pal_answer_part *part = open_part(answer, kind);

    if (!part && delta.len > 0)
        part = add_part(answer, kind);
    if (part)
        pal_buf_append_str(&part->text, delta);
}

void pal_answer_buffer_text(pal_answer_buffer *answer, pal_str delta)
{
    grow(answer, PAL_PART_TEXT, delta);
}

void pal_answer_buffer_refusal(pal_answer_buffer *answer, pal_str delta)
{
    bool begins = !open_part(answer, PAL_PART_TEXT) && delta.len > 0;
    size_t len = answer->len;

    grow(answer, PAL_PART_TEXT, delta);
    if (begins && answer->len > len)
        answer->parts[len].is_refusal = true;
}

bool pal_answer_buffer_is_refusal(const pal_answer_buffer *answer)
{
    return answer->len && answer->parts[answer->len - 1].is_refusal;
}

void pal_answer_buffer_reasoning(pal_answer_buffer *answer, pal_str delta)
{
    grow(answer, PAL_PART_REASONING, delta);
}

void pal_answer_buffer_signature(pal_answer_buffer *answer, pal_str signature, pal_str family)
{
    pal_answer_part *part = open_part(answer, PAL_PART_REASONING);

    if (!part)
        part = add_part(answer, PAL_PART_REASONING);
    if (!part)
        return;
    pal_buf_append_str(&part->id, signature);
    pal_buf_append_str(&part->name, family);
    part->is_signed = true;
}

static pal_answer_part *find_call(const pal_answer_buffer *answer, uint32_t index)
{
    for (size_t i = answer->len; i-- > 0;)
        if (answer->parts[i].kind == PAL_PART_TOOL_CALL && answer->parts[i].index == index)
            return &answer->parts[i];
    return NULL;
}

static pal_answer_part *call_at(pal_answer_buffer *answer, uint32_t index)
{
    pal_answer_part *part = find_call(answer, index);

    if (!part)
        part = add_part(answer, PAL_PART_TOOL_CALL);
    if (part)
        part->index = index;
    return part;
}

/* For a service that sends no call ids. */
static void make_id(pal_buf *out_id)
{
    char text[5 + PAL_ID_TEXT_SIZE] = "call_";

    pal_id_to_text(pal_id_new(), text + 5);
    pal_buf_append_text(out_id, text);
}

void pal_answer_buffer_call_begin(pal_answer_buffer *answer, uint32_t index, pal_str id,
        pal_str name)
{
    pal_answer_part *call = call_at(answer, index);

    if (!call)
        return;
    if (id.len == 0 && call->id.len == 0)
        make_id(&call->id);
    pal_buf_append_str(&call->id, id);
    pal_buf_append_str(&call->name, name);
}

void pal_answer_buffer_arguments(pal_answer_buffer *answer, uint32_t index, pal_str delta)
{
    pal_answer_part *call = call_at(answer, index);

    if (call)
        pal_buf_append_str(&call->text, delta);
}

pal_str pal_answer_buffer_call_id(const pal_answer_buffer *answer, uint32_t index)
{
    const pal_answer_part *call = find_call(answer, index);

    return call ? pal_buf_str(&call->id) : (pal_str){0};
}

void pal_answer_buffer_put_text(const pal_answer_buffer *answer, pal_buf *out_text)
{
    for (size_t i = 0; i < answer->len; i++)
        if (answer->parts[i].kind == PAL_PART_TEXT)
            pal_buf_append_str(out_text, pal_buf_str(&answer->parts[i].text));
}

uint64_t pal_answer_buffer_tokens(const pal_answer_buffer *answer)
{
    uint64_t tokens = 0;

    for (size_t i = 0; i < answer->len; i++)
        tokens += pal_estimate_quickly(pal_buf_str(&answer->parts[i].text));
    return tokens;
}

/* ---- The message ---- */

static pal_part make_part(const pal_answer_part *from, pal_arena *arena)
{
    pal_part part = {.kind = from->kind};
    pal_str text = pal_arena_copy(arena, pal_buf_str(&from->text));
    pal_str id = pal_arena_copy(arena, pal_buf_str(&from->id));
    pal_str name = pal_arena_copy(arena, pal_buf_str(&from->name));

    if (from->kind == PAL_PART_TOOL_CALL) {
        part.call_id = id;
        part.name = name;
        part.arguments = text.len ? text : pal_str_of("{}");
    } else {
        part.text = text;
        part.extra = pal_str_of(from->is_refusal ? PAL_OPENAI_REFUSAL_EXTRA : NULL);
        part.signature = id;
        part.family = name;
    }
    return part;
}

static pal_status failure_of(const pal_answer_buffer *answer)
{
    pal_status failure = answer->failure;

    for (size_t i = 0; failure == PAL_OK && i < answer->len; i++) {
        const pal_answer_part *part = &answer->parts[i];

        failure = part->text.failure ? part->text.failure : part->id.failure;
        if (failure == PAL_OK)
            failure = part->name.failure;
    }
    return failure;
}

pal_status pal_answer_buffer_message(
        const pal_answer_buffer *answer, pal_arena *arena, pal_message *out_message, pal_error *err)
{
    pal_message message = {.role = PAL_ROLE_ASSISTANT};
    pal_status failure = failure_of(answer);

    if (failure == PAL_NO_MEMORY)
        return pal_no_memory(err);
    if (failure != PAL_OK)
        return pal_error_set(err, PAL_LIMIT,
                "the answer exceeds the limit of %u bytes (PAL_MESSAGE_BYTES_MAX), or has too many "
                "parts",
                PAL_MESSAGE_BYTES_MAX);
    message.parts = pal_arena_array(arena, answer->len + 1, sizeof(*message.parts));
    for (size_t i = 0; message.parts && i < answer->len; i++) {
        const pal_answer_part *part = &answer->parts[i];

        if (part->kind != PAL_PART_TOOL_CALL || part->name.len > 0)
            message.parts[message.parts_len++] = make_part(part, arena);
    }
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    *out_message = message;
    return PAL_OK;
}
