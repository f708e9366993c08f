/* repair_part.c - cleans parts: texts that are not valid UTF-8, images that no service
 * accepts, reasoning of other models, and parts that are not allowed for their role. */
#include "context/repair/repair.h"

#include "base/memory.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "context/context_draft.h"
#include "dialect/openai/openai_items.h"

/* The decision about a part. */
typedef enum action { KEEP, CHANGE, DROP } action;

/* ---- Texts ---- */

static bool is_clean(pal_str text)
{
    return text.len == 0 || (!memchr(text.data, 0, text.len) && pal_utf8_is_valid(text));
}

/* Writes the clean text if `out` is not NULL. Returns its length. */
static size_t write_clean(pal_str text, char *out)
{
    size_t len = 0;
    for (size_t at = 0; at < text.len;) {
        uint32_t character;
        char bytes[4];
        at += pal_utf8_decode(pal_str_make(text.data + at, text.len - at), &character);
        size_t bytes_len = pal_utf8_encode(character ? character : 0xfffd, bytes);
        if (out)
            memcpy(out + len, bytes, bytes_len);
        len += bytes_len;
    }
    return len;
}

pal_str pal_repair_text(pal_repair_work *work, pal_str text, unsigned *changes)
{
    if (is_clean(text))
        return text;
    *changes |= PAL_CHANGE_TEXT;
    size_t len = write_clean(text, NULL);
    char *clean = pal_arena_alloc(work->arena, len);
    if (!clean)
        return pal_str_make(NULL, 0);
    write_clean(text, clean);
    return pal_str_make(clean, len);
}

/* Control characters count as white space, because some services treat them so. */
static bool is_blank(pal_str text)
{
    for (size_t before = text.len + 1; text.len && text.len < before;) {
        before = text.len;
        text = pal_unicode_trim(text);
        while (text.len && (unsigned char)text.data[0] < 0x20)
            text = pal_str_make(text.data + 1, text.len - 1);
    }
    return text.len == 0;
}

static bool says_nothing(const pal_repair_work *work, pal_str text)
{
    return text.len == 0 || (work->rules->blank_is_empty && is_blank(text));
}

pal_json pal_repair_kept(pal_repair_work *work, pal_str extra)
{
    pal_json value = {0};
    if (extra.len == 0 || pal_json_parse(work->scratch, extra, NULL, &value, NULL) != PAL_OK)
        return (pal_json){0};
    value = pal_json_find(value, "openai");
    return pal_json_type_of(value) == PAL_JSON_OBJECT ? value : (pal_json){0};
}

static pal_part text_part(const char *text)
{
    return (pal_part){.kind = PAL_PART_TEXT, .text = pal_str_of(text)};
}

static action replace(pal_part *part, const char *text, unsigned change, unsigned *changes)
{
    *part = text_part(text);
    *changes |= change;
    return CHANGE;
}

static action leave_out(unsigned change, unsigned *changes)
{
    *changes |= change;
    return DROP;
}

static action clean_text(pal_repair_work *work, pal_role role, pal_part *part, unsigned *changes)
{
    unsigned made = 0;
    part->text = pal_repair_text(work, part->text, &made);
    if (says_nothing(work, part->text))
        return leave_out(PAL_CHANGE_EMPTY, changes);
    /* Services reject a refusal without content. */
    if (part->extra.len && role == PAL_ROLE_ASSISTANT && work->rules->openai_forms &&
            pal_json_string_is(
                    pal_json_find(pal_repair_kept(work, part->extra), "type"), "message_refusal")) {
        part->extra = pal_str_make(NULL, 0);
        made |= PAL_CHANGE_FORM;
    }
    *changes |= made;
    return made ? CHANGE : KEEP;
}

/* Signatures cover the bytes, so reasoning is sent unchanged or not at all. */
static action clean_reasoning(
        const pal_repair_work *work, pal_role role, const pal_part *part, unsigned *changes)
{
    pal_str family = work->input->family;
    if (role != PAL_ROLE_ASSISTANT)
        return leave_out(PAL_CHANGE_MISPLACED, changes);
    if (family.len == 0 || !pal_str_equal(part->family, family))
        return leave_out(PAL_CHANGE_REASONING, changes);
    if (part->signature.len == 0 && work->rules->signed_reasoning)
        return leave_out(PAL_CHANGE_UNSIGNED, changes);
    if (part->signature.len == 0 && part->text.len == 0)
        return leave_out(PAL_CHANGE_EMPTY, changes);
    if (!is_clean(part->text) || !is_clean(part->signature))
        return leave_out(PAL_CHANGE_TEXT, changes);
    return KEEP;
}

/* ---- Media ---- */

static bool is_same_word(pal_str text, const char *word)
{
    size_t len = strlen(word);
    if (text.len != len)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = text.data[i];
        if ((c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c) != word[i])
            return false;
    }
    return true;
}

/* Returns the provider's name of the type; NULL if the type is not supported. */
static const char *image_type(pal_str type)
{
    static const char *const types[][2] = {{"image/png", "image/png"}, {"image/jpeg", "image/jpeg"},
            {"image/gif", "image/gif"}, {"image/webp", "image/webp"}, {"image/jpg", "image/jpeg"}};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (is_same_word(type, types[i][0]))
            return types[i][1];
    }
    return NULL;
}

/* Returns the number of bytes in "data:image/png;base64,AAAA"; 0 for the URL of a remote image. */
static uint64_t data_url_bytes(pal_str url)
{
    static const char start[] = "data:", coding[] = ";base64";
    size_t start_len = sizeof(start) - 1, coding_len = sizeof(coding) - 1;
    const char *comma = url.len ? memchr(url.data, ',', url.len) : NULL;
    if (!comma || url.len < start_len || !is_same_word(pal_str_make(url.data, start_len), start))
        return 0;
    uint64_t head_len = (uint64_t)(comma - url.data), len = url.len - head_len - 1;
    bool is_base64 = head_len >= coding_len &&
            is_same_word(pal_str_make(comma - coding_len, coding_len), coding);
    while (is_base64 && len && comma[len] == '=')
        len--;
    return is_base64 ? len / 4 * 3 + len % 4 * 3 / 4 : len;
}

static uint64_t image_size(const pal_part *part)
{
    uint64_t bytes = pal_context_part_bytes(part);
    return bytes ? bytes : data_url_bytes(part->url);
}

static bool has_source(const pal_part *part)
{
    return part->data.len || part->url.len || part->blob.len;
}

static action clean_image(pal_repair_work *work, pal_part *part, unsigned *changes)
{
    uint64_t limit = work->input->limits.image_bytes;
    const char *type = image_type(part->media_type);
    unsigned made = 0;
    if (!has_source(part))
        return replace(part, PAL_TEXT_IMAGE_REMOVED, PAL_CHANGE_NO_DATA, changes);
    /* The type may be unknown only if the part is a URL. */
    if (!type && (part->media_type.len || !part->url.len))
        return replace(part, PAL_TEXT_IMAGE_REMOVED, PAL_CHANGE_IMAGE_TYPE, changes);
    if (limit && image_size(part) > limit)
        return replace(part, PAL_TEXT_IMAGE_REMOVED, PAL_CHANGE_IMAGE_SIZE, changes);
    if (type && !pal_str_is(part->media_type, type)) {
        part->media_type = pal_str_of(type);
        made |= PAL_CHANGE_MEDIA_TYPE;
    }
    part->url = pal_repair_text(work, part->url, &made);
    part->name = pal_repair_text(work, part->name, &made);
    *changes |= made;
    return made ? CHANGE : KEEP;
}

static action clean_file(pal_repair_work *work, pal_part *part, unsigned *changes)
{
    unsigned made = 0;
    if (part->extra.len && work->rules->openai_forms) {
        pal_json kept = pal_repair_kept(work, part->extra);
        bool is_unknown = pal_json_type_of(pal_json_find(kept, "type")) != PAL_JSON_NONE;
        bool is_uploaded = pal_json_type_of(pal_json_find(
                                   pal_json_find(kept, "file"), "file_id")) == PAL_JSON_STRING;
        if (!has_source(part) && (is_unknown || !is_uploaded))
            return replace(part, PAL_TEXT_FILE_REMOVED, PAL_CHANGE_NO_DATA, changes);
        if (is_unknown) {
            part->extra = pal_str_make(NULL, 0);
            made |= PAL_CHANGE_FORM;
        }
    } else if (!has_source(part)) {
        return replace(part, PAL_TEXT_FILE_REMOVED, PAL_CHANGE_NO_DATA, changes);
    }
    part->media_type = pal_repair_text(work, part->media_type, &made);
    part->url = pal_repair_text(work, part->url, &made);
    part->name = pal_repair_text(work, part->name, &made);
    *changes |= made;
    return made ? CHANGE : KEEP;
}

static action clean_media(pal_repair_work *work, pal_role role, pal_part *part, unsigned *changes)
{
    bool is_image = part->kind == PAL_PART_IMAGE;
    if (pal_openai_part_is_item(part)) /* only a service with such items can read it */
        return work->rules->items ? KEEP : leave_out(PAL_CHANGE_MISPLACED, changes);
    if (role != PAL_ROLE_USER && role != PAL_ROLE_TOOL)
        return replace(part, is_image ? PAL_TEXT_IMAGE_REMOVED : PAL_TEXT_FILE_REMOVED,
                PAL_CHANGE_MEDIA_ROLE, changes);
    return is_image ? clean_image(work, part, changes) : clean_file(work, part, changes);
}

/* ---- Messages ---- */

/* Cleans a part of a message, except results. `part` is a copy that may be changed. */
static action clean_part(pal_repair_work *work, pal_role role, pal_part *part, unsigned *changes)
{
    switch (part->kind) {
    case PAL_PART_TEXT:
        return clean_text(work, role, part, changes);
    case PAL_PART_REASONING:
        return clean_reasoning(work, role, part, changes);
    case PAL_PART_IMAGE:
    case PAL_PART_FILE:
        /* The answer of a client to a request of ours is not for a model. */
        return pal_openai_is_approval(part) ? leave_out(PAL_CHANGE_MISPLACED, changes)
                                            : clean_media(work, role, part, changes);
    case PAL_PART_COMPACTION:
        return replace(part, PAL_TEXT_QUESTION, PAL_CHANGE_COMPACTION, changes);
    case PAL_PART_TOOL_CALL:
        return role == PAL_ROLE_ASSISTANT ? KEEP : leave_out(PAL_CHANGE_MISPLACED, changes);
    default:
        return leave_out(PAL_CHANGE_MISPLACED, changes);
    }
}

/* A list of parts that is copied when it first differs from its source. */
typedef struct part_list {
    const pal_part *from;
    size_t from_len;
    pal_part *own; /* NULL: equal to the source so far */
    size_t len;
} part_list;

static void list_own(pal_repair_work *work, part_list *list)
{
    if (list->own)
        return;
    /* One more part, for lead_with(). */
    list->own = pal_arena_array(work->arena, list->from_len + 1, sizeof(*list->own));
    if (list->own && list->len)
        memcpy(list->own, list->from, list->len * sizeof(*list->own));
}

static void list_add(pal_repair_work *work, part_list *list, action what, const pal_part *part)
{
    if (what != KEEP)
        list_own(work, list);
    if (what != DROP && list->own)
        list->own[list->len] = *part;
    list->len += what != DROP;
}

static void drop_last_reasoning(pal_repair_work *work, part_list *list, unsigned *changes)
{
    const pal_part *parts = list->own ? list->own : list->from;
    while (list->len && parts[list->len - 1].kind == PAL_PART_REASONING) {
        list->len--;
        *changes |= PAL_CHANGE_LAST_REASONING;
    }
    if (list->len < list->from_len)
        list_own(work, list);
}

/* An answer that consists only of reasoning is not an answer. */
static bool is_reasoning_only(const part_list *list)
{
    const pal_part *parts = list->own ? list->own : list->from;
    for (size_t i = 0; i < list->len; i++) {
        if (parts[i].kind != PAL_PART_REASONING)
            return false;
    }
    return list->len > 0;
}

static void lead_with(pal_repair_work *work, part_list *list, const char *text)
{
    list_own(work, list);
    if (!list->own)
        return;
    memmove(list->own + 1, list->own, list->len * sizeof(*list->own));
    list->own[0] = text_part(text);
    list->len++;
}

void pal_repair_clean(pal_repair_work *work, pal_repair_piece *piece, unsigned *changes)
{
    const pal_message *source = piece->source;
    part_list list = {.from = source->parts, .from_len = source->parts ? source->parts_len : 0};
    bool is_folded = source->role == PAL_ROLE_SYSTEM && piece->role != PAL_ROLE_SYSTEM;
    /* Media of a system message that is sent as a user message are still those of a system
     * message. */
    pal_role role = is_folded ? source->role : piece->role;
    for (size_t i = 0; i < list.from_len && !pal_arena_failure(work->arena); i++) {
        pal_part part = source->parts[i];
        bool is_result = part.kind == PAL_PART_TOOL_RESULT;
        list_add(work, &list, is_result ? DROP : clean_part(work, role, &part, changes), &part);
    }
    if (is_reasoning_only(&list) || work->rules->reasoning_not_last)
        drop_last_reasoning(work, &list, changes);
    if (is_folded && list.len)
        lead_with(work, &list, PAL_TEXT_SYSTEM);
    piece->own = list.own;
    piece->parts = list.own ? list.own : list.from;
    piece->parts_len = list.len;
}

/* ---- Results ---- */

static void move_media(pal_repair_work *work, pal_repair_unit *unit, const pal_part *part)
{
    /* A text introduces the first part. */
    if (!pal_arena_reserve(work->arena, &unit->media, &unit->media_cap, unit->media_len + 2,
                sizeof(*unit->media)))
        return;
    if (unit->media_len == 0)
        unit->media[unit->media_len++] = text_part(PAL_TEXT_MEDIA);
    unit->media[unit->media_len++] = *part;
}

static bool takes_media(const pal_repair_work *work, const pal_part *result)
{
    return work->rules->result_media && !(work->rules->error_text_only && result->is_error);
}

/* Cleans a part within a result: a text or media. */
static action clean_inner(pal_repair_work *work, const pal_part *result, pal_repair_unit *unit,
        pal_part *part, unsigned *changes)
{
    action what = clean_part(work, PAL_ROLE_TOOL, part, changes);
    bool is_media = part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE;
    if (what == DROP || !is_media || takes_media(work, result))
        return what;
    move_media(work, unit, part);
    return leave_out(PAL_CHANGE_MEDIA_MOVED, changes);
}

static void clean_output(pal_repair_work *work, const pal_part *part, part_list *list,
        pal_repair_unit *unit, unsigned *changes)
{
    for (size_t i = 0; i < list->from_len && !pal_arena_failure(work->arena); i++) {
        pal_part inner = list->from[i];
        list_add(work, list, clean_inner(work, part, unit, &inner, changes), &inner);
    }
}

const pal_part *pal_repair_clean_result(
        pal_repair_work *work, const pal_part *result, pal_repair_unit *unit, unsigned *changes)
{
    unsigned made = 0;
    pal_part part = *result;
    part_list list = {.from = result->parts, .from_len = result->parts ? result->parts_len : 0};
    part.text = pal_repair_text(work, part.text, &made);
    if (part.text.len && says_nothing(work, part.text)) {
        part.text = pal_str_make(NULL, 0);
        made |= PAL_CHANGE_EMPTY;
    }
    if (part.name.len)
        part.name = pal_repair_tool_name(work, part.name, &made);
    clean_output(work, &part, &list, unit, &made);
    if (list.len == 0 && part.text.len == 0 && made & PAL_CHANGE_MEDIA_MOVED)
        part.text = pal_str_of(PAL_TEXT_MEDIA_BELOW);
    if (list.len == 0 && part.text.len == 0 && part.is_error && work->rules->error_text_only) {
        part.text = pal_str_of(PAL_TEXT_FAILED);
        made |= PAL_CHANGE_FAILED;
    }
    part.parts = list.own ? list.own : result->parts;
    part.parts_len = list.len;
    *changes |= made;
    pal_part *copy = made ? pal_arena_alloc(work->arena, sizeof(*copy)) : NULL;
    if (copy)
        *copy = part;
    return copy ? copy : result;
}
