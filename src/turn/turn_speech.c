/* turn_speech.c - builds one message from the deltas of a model's answer. The answer is a list of
 * pieces in the order in which they began: texts, blocks of reasoning, and calls. A signed block is
 * complete. It must be sent back to the model unchanged and at the same place. On the loop. */
#include "turn/turn_speech.h"

#include "base/memory.h"
#include "dialect/native/native.h"
#include "dialect/openai/openai_items.h"
#include "palaver/limits.h"
#include "tokens/tokens_estimate.h"

enum { PIECES_MAX = PAL_MESSAGE_PARTS_MAX };

struct pal_speech_piece {
    pal_part_kind kind;
    uint32_t index; /* index of a call */
    bool is_signed;
    bool is_refusal;
    pal_buf text; /* text, or the arguments of a call */
    pal_buf id;   /* id of a call, or the signature of reasoning */
    pal_buf name; /* name of a call, or the family of reasoning */
};

void pal_speech_init(pal_speech *answer)
{
    *answer = (pal_speech){0};
}

void pal_speech_done(pal_speech *answer)
{
    for (size_t i = 0; i < answer->len; i++) {
        pal_buf_done(&answer->pieces[i].text);
        pal_buf_done(&answer->pieces[i].id);
        pal_buf_done(&answer->pieces[i].name);
    }
    pal_free(answer->pieces);
    pal_speech_init(answer);
}

void pal_speech_clear(pal_speech *answer)
{
    pal_speech_done(answer);
}

/* ---- Pieces ---- */

static pal_speech_piece *add_piece(pal_speech *answer, pal_part_kind kind)
{
    pal_speech_piece *piece;

    if (answer->len == PIECES_MAX) {
        answer->failure = PAL_LIMIT;
        return NULL;
    }
    if (answer->len == answer->cap) {
        size_t cap = answer->cap ? answer->cap * 2 : 4;
        pal_speech_piece *pieces = pal_realloc(answer->pieces, cap * sizeof(*pieces));

        if (!pieces) {
            answer->failure = PAL_NO_MEMORY;
            return NULL;
        }
        answer->pieces = pieces;
        answer->cap = cap;
    }
    piece = &answer->pieces[answer->len++];
    *piece = (pal_speech_piece){.kind = kind};
    pal_buf_init(&piece->text, PAL_MESSAGE_BYTES_MAX);
    pal_buf_init(
            &piece->id, kind == PAL_PART_REASONING ? PAL_MESSAGE_BYTES_MAX : PAL_LABEL_LEN_MAX);
    pal_buf_init(&piece->name, PAL_LABEL_LEN_MAX);
    return piece;
}

/* Returns the last piece if it has this kind and can still grow. */
static pal_speech_piece *open_piece(pal_speech *answer, pal_part_kind kind)
{
    pal_speech_piece *last = answer->len ? &answer->pieces[answer->len - 1] : NULL;

    return last && last->kind == kind && !last->is_signed ? last : NULL;
}

static void grow(pal_speech *answer, pal_part_kind kind, pal_str delta)
{
    pal_speech_piece *piece = open_piece(answer, kind);

    if (!piece && delta.len > 0)
        piece = add_piece(answer, kind);
    if (piece)
        pal_buf_append_str(&piece->text, delta);
}

void pal_speech_text(pal_speech *answer, pal_str delta)
{
    grow(answer, PAL_PART_TEXT, delta);
}

void pal_speech_refusal(pal_speech *answer, pal_str delta)
{
    bool begins = !open_piece(answer, PAL_PART_TEXT) && delta.len > 0;
    size_t len = answer->len;

    grow(answer, PAL_PART_TEXT, delta);
    if (begins && answer->len > len)
        answer->pieces[len].is_refusal = true;
}

bool pal_speech_is_refusal(const pal_speech *answer)
{
    return answer->len && answer->pieces[answer->len - 1].is_refusal;
}

void pal_speech_reasoning(pal_speech *answer, pal_str delta)
{
    grow(answer, PAL_PART_REASONING, delta);
}

void pal_speech_signature(pal_speech *answer, pal_str signature, pal_str family)
{
    pal_speech_piece *piece = open_piece(answer, PAL_PART_REASONING);

    if (!piece)
        piece = add_piece(answer, PAL_PART_REASONING);
    if (!piece)
        return;
    pal_buf_append_str(&piece->id, signature);
    pal_buf_append_str(&piece->name, family);
    piece->is_signed = true;
}

static pal_speech_piece *find_call(const pal_speech *answer, uint32_t index)
{
    for (size_t i = answer->len; i-- > 0;)
        if (answer->pieces[i].kind == PAL_PART_TOOL_CALL && answer->pieces[i].index == index)
            return &answer->pieces[i];
    return NULL;
}

static pal_speech_piece *call_at(pal_speech *answer, uint32_t index)
{
    pal_speech_piece *piece = find_call(answer, index);

    if (!piece)
        piece = add_piece(answer, PAL_PART_TOOL_CALL);
    if (piece)
        piece->index = index;
    return piece;
}

/* For a service that sends no call ids. */
static void make_id(pal_buf *out_id)
{
    char text[5 + PAL_ID_TEXT_SIZE] = "call_";

    pal_id_to_text(pal_id_new(), text + 5);
    pal_buf_append_text(out_id, text);
}

void pal_speech_call_begin(pal_speech *answer, uint32_t index, pal_str id, pal_str name)
{
    pal_speech_piece *call = call_at(answer, index);

    if (!call)
        return;
    if (id.len == 0 && call->id.len == 0)
        make_id(&call->id);
    pal_buf_append_str(&call->id, id);
    pal_buf_append_str(&call->name, name);
}

void pal_speech_arguments(pal_speech *answer, uint32_t index, pal_str delta)
{
    pal_speech_piece *call = call_at(answer, index);

    if (call)
        pal_buf_append_str(&call->text, delta);
}

pal_str pal_speech_call_id(const pal_speech *answer, uint32_t index)
{
    const pal_speech_piece *call = find_call(answer, index);

    return call ? pal_buf_str(&call->id) : (pal_str){0};
}

void pal_speech_put_text(const pal_speech *answer, pal_buf *out_text)
{
    for (size_t i = 0; i < answer->len; i++)
        if (answer->pieces[i].kind == PAL_PART_TEXT)
            pal_buf_append_str(out_text, pal_buf_str(&answer->pieces[i].text));
}

uint64_t pal_speech_tokens(const pal_speech *answer)
{
    uint64_t tokens = 0;

    for (size_t i = 0; i < answer->len; i++)
        tokens += pal_estimate_quickly(pal_buf_str(&answer->pieces[i].text));
    return tokens;
}

/* ---- The message ---- */

static pal_part make_part(const pal_speech_piece *piece, pal_arena *arena)
{
    pal_part part = {.kind = piece->kind};
    pal_str text = pal_arena_copy(arena, pal_buf_str(&piece->text));
    pal_str id = pal_arena_copy(arena, pal_buf_str(&piece->id));
    pal_str name = pal_arena_copy(arena, pal_buf_str(&piece->name));

    if (piece->kind == PAL_PART_TOOL_CALL) {
        part.call_id = id;
        part.name = name;
        part.arguments = text.len ? text : pal_str_of("{}");
    } else {
        part.text = text;
        part.extra = pal_str_of(piece->is_refusal ? PAL_OPENAI_REFUSAL_EXTRA : NULL);
        part.signature = id;
        part.family = name;
    }
    return part;
}

static pal_status failure_of(const pal_speech *answer)
{
    pal_status failure = answer->failure;

    for (size_t i = 0; failure == PAL_OK && i < answer->len; i++) {
        const pal_speech_piece *piece = &answer->pieces[i];

        failure = piece->text.failure ? piece->text.failure : piece->id.failure;
        if (failure == PAL_OK)
            failure = piece->name.failure;
    }
    return failure;
}

pal_status pal_speech_message(
        const pal_speech *answer, pal_arena *arena, pal_message *out_message, pal_error *err)
{
    pal_message message = {.role = PAL_ROLE_ASSISTANT};
    pal_status failure = failure_of(answer);

    if (failure == PAL_NO_MEMORY)
        return pal_no_memory(err);
    if (failure != PAL_OK)
        return pal_error_set(err, PAL_LIMIT,
                "the answer exceeds the limit of %u bytes (PAL_MESSAGE_BYTES_MAX), or has too many "
                "pieces",
                PAL_MESSAGE_BYTES_MAX);
    message.parts = pal_arena_array(arena, answer->len + 1, sizeof(*message.parts));
    for (size_t i = 0; message.parts && i < answer->len; i++) {
        const pal_speech_piece *piece = &answer->pieces[i];

        if (piece->kind != PAL_PART_TOOL_CALL || piece->name.len > 0)
            message.parts[message.parts_len++] = make_part(piece, arena);
    }
    if (pal_arena_failure(arena) != PAL_OK)
        return pal_error_set(err, pal_arena_failure(arena), "out of memory");
    *out_message = message;
    return PAL_OK;
}
