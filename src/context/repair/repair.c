/* repair.c - turns any list of messages into one that a service accepts, and reports the
 * changes. The rules of each service are here; docs/context.md explains them.
 *
 * Stored messages are never changed: what must differ is copied. Time and memory are linear in the
 * parts and their texts. Pure functions that use only the caller's memory: any thread. */
#include "context/repair/repair.h"

#include <stdarg.h>
#include <stdio.h>
#include "base/memory.h"
#include "base/utf8.h"

#define LINE_SIZE 256
#define LABEL_BYTES_MAX 48

static const pal_repair_rules profiles[] = {
        [PAL_PROFILE_OPENAI_CHAT] = {.name = "openai_chat",
                .id_len_max = PAL_CALL_ID_OPENAI_CHAT,
                .openai_forms = true},
        [PAL_PROFILE_OPENAI_RESPONSES] = {.name = "openai_responses",
                .id_len_max = PAL_CALL_ID_MAX,
                .unique_ids = true, /* outputs identify their call only by its id */
                .signed_reasoning = true,
                .reasoning_not_last = true,
                .result_media = true,
                .openai_forms = true},
        [PAL_PROFILE_ANTHROPIC] = {.name = "anthropic",
                .id_charset = PAL_ID_WORD,
                .id_len_max = PAL_CALL_ID_MAX,
                .unique_ids = true,
                .object_arguments = true,
                /* The system text is a separate field. A later system message is sent at its
                 * place, because a change of the field would change the request from its first
                 * byte on. */
                .system_leads = true,
                .user_first = true,
                .user_last = true, /* newer models do not continue an answer that has begun */
                .blank_is_empty = true,
                .signed_reasoning = true,
                .reasoning_not_last = true,
                .result_media = true,
                .error_text_only = true},
        [PAL_PROFILE_MISTRAL] = {.name = "mistral",
                .id_charset = PAL_ID_ALPHANUM,
                .id_len_min = PAL_CALL_ID_MISTRAL,
                .id_len_max = PAL_CALL_ID_MISTRAL,
                .object_arguments = true,
                .system_leads = true,
                .user_first = true,
                .user_last = true,
                .merge_assistants = true,
                .bridge_tool_to_user = true,
                .openai_forms = true},
        [PAL_PROFILE_PICOCLAW] = {.name = "picoclaw", .drops = true},
};

#define PROFILES_LEN (sizeof(profiles) / sizeof(profiles[0]))

const char *pal_profile_name(pal_profile profile)
{
    return (size_t)profile < PROFILES_LEN ? profiles[profile].name : "none";
}

bool pal_profile_from_name(pal_str name, pal_profile *out_profile)
{
    for (size_t i = 0; i < PROFILES_LEN; i++) {
        if (!pal_str_is(name, profiles[i].name))
            continue;
        *out_profile = (pal_profile)i;
        return true;
    }
    return false;
}

/* ---- Reports of changes ---- */

static const char *const change_texts[PAL_REPAIR_CHANGES] = {
        "invalid characters replaced",
        "empty text left out",
        "reasoning of another model left out",
        "reasoning without a signature left out",
        "reasoning with nothing after it left out",
        "image of an unsupported type replaced by a placeholder",
        "image over the limit replaced by a placeholder",
        "image or file without its bytes replaced by a placeholder",
        "image or file that only a user can send replaced by a placeholder",
        "media type corrected",
        "media of a tool result moved after the results",
        "compaction mark sent as a question",
        "part left out that is not allowed for its role",
        "old or unknown form sent as a plain one",
        "later system message sent as a user message",
        "tool message without a result sent as a user message",
        "results sent as a separate tool message",
        "failure without output given a text",
        "tool name changed to letters, digits, '_' and '-'",
        "arguments made a JSON object",
        "results moved after their call",
        "results sent under the new id of their call",
        "results sent in more than one message",
};

enum { ROOM_SPARE = 16 };

static void add_line(pal_repair_work *work, uint64_t seq, pal_str text)
{
    if (pal_arena_reserve(work->scratch, &work->lines, &work->lines_cap, work->lines_len + 1,
                sizeof(*work->lines)))
        work->lines[work->lines_len++] = (pal_repair){.seq = seq, .text = text};
}

void pal_repair_line(pal_repair_work *work, uint64_t seq, const char *format, ...)
{
    char text[LINE_SIZE];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len > 0)
        add_line(work, seq, pal_arena_copy(work->arena, pal_str_of(text)));
}

void pal_repair_line_changes(pal_repair_work *work, uint64_t seq, unsigned changes)
{
    for (size_t i = 0; i < PAL_REPAIR_CHANGES; i++) {
        if (changes & 1u << i)
            add_line(work, seq, pal_str_of(change_texts[i]));
    }
}

const char *pal_repair_label(pal_repair_work *work, pal_str id)
{
    unsigned ignored = 0;
    bool is_long = id.len > LABEL_BYTES_MAX;
    pal_str start = pal_str_make(id.data, is_long ? pal_utf8_cut(id, LABEL_BYTES_MAX) : id.len);
    start = pal_repair_text(work, start, &ignored);
    char *label = pal_arena_alloc(work->scratch, start.len + sizeof("..."));
    if (!label)
        return "";
    for (size_t i = 0; i < start.len; i++)
        label[i] = (unsigned char)start.data[i] < 0x20 ? '?' : start.data[i];
    if (is_long)
        memcpy(label + start.len, "...", 3);
    return label;
}

void pal_repair_map(pal_repair_work *work, pal_map *map, pal_str key, void *value)
{
    if (work->failure == PAL_OK && value)
        work->failure = pal_map_set(map, key, value);
}

/* ---- The repair ---- */

static void take_pending(pal_repair_work *work)
{
    const pal_context_input *input = work->input;
    for (size_t i = 0; input->pending && i < input->pending_len; i++)
        pal_repair_map(work, &work->pending, input->pending[i], (void *)&input->pending[i]);
}

static bool has_failed(const pal_repair_work *work)
{
    return work->failure != PAL_OK || pal_arena_failure(work->scratch) != PAL_OK ||
            pal_arena_failure(work->arena) != PAL_OK;
}

static void run(pal_repair_work *work, const pal_message *messages, size_t messages_len)
{
    if (work->rules->drops) {
        pal_repair_picoclaw(work, messages, messages_len);
        return;
    }
    take_pending(work);
    for (size_t i = 0; i < messages_len && !has_failed(work); i++)
        pal_repair_take(work, &messages[i]);
    if (messages_len && !has_failed(work))
        pal_repair_put_units(work);
}

/* Returns a copy in the arena, without spare room. */
static void *keep(pal_arena *arena, const void *array, size_t len, size_t size)
{
    void *copy = len ? pal_arena_array(arena, len, size) : NULL;
    if (copy)
        memcpy(copy, array, len * size);
    return copy;
}

static pal_status finish(pal_repair_work *work, pal_repair_result *out_repaired, pal_error *err)
{
    pal_repair_result result = {
            .messages =
                    keep(work->arena, work->messages, work->messages_len, sizeof(*work->messages)),
            .len = work->messages_len,
            .repairs = keep(work->arena, work->lines, work->lines_len, sizeof(*work->lines)),
            .repairs_len = work->lines_len,
    };
    pal_status status = work->failure;
    if (status == PAL_OK)
        status = pal_arena_failure(work->scratch);
    if (status == PAL_OK)
        status = pal_arena_failure(work->arena);
    if (status == PAL_LIMIT)
        return pal_error_set(err, status, "the repaired messages exceed the limit of the arena");
    if (status != PAL_OK)
        return pal_error_set(err, status, "out of memory");
    *out_repaired = result;
    return PAL_OK;
}

pal_status pal_context_repair(const pal_message *messages, size_t messages_len,
        const pal_context_input *input, pal_arena *arena, pal_repair_result *out_repaired,
        pal_error *err)
{
    static const pal_context_input none = {0};
    if (!input)
        input = &none;
    if (!arena || !out_repaired || (!messages && messages_len))
        return pal_error_set(err, PAL_INVALID, "messages, arena and result must not be NULL");
    if ((size_t)input->profile >= PROFILES_LEN)
        return pal_error_set(err, PAL_INVALID, "unknown profile %d", (int)input->profile);
    pal_repair_work work = {.input = input, .rules = &profiles[input->profile], .arena = arena};
    work.scratch = pal_arena_new(0);
    if (!work.scratch)
        return pal_no_memory(err);
    /* Allocates room for all messages at once: doubling would touch three times as much memory. */
    work.messages = pal_arena_array(work.scratch, messages_len + ROOM_SPARE, sizeof(pal_message));
    work.messages_cap = work.messages ? messages_len + ROOM_SPARE : 0;
    run(&work, messages, messages_len);
    pal_status status = finish(&work, out_repaired, err);
    pal_map_done(&work.calls);
    pal_map_done(&work.ids);
    pal_map_done(&work.pending);
    pal_arena_free(work.scratch);
    return status;
}
