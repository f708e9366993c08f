/* context_check.h - whether a provider accepts a list of messages. This is a second implementation,
 * from the documentation of the providers, independent of the code that repairs messages. */
#ifndef PAL_TESTS_CONTEXT_CHECK_H
#define PAL_TESTS_CONTEXT_CHECK_H

#include <stdio.h>
#include "base/json/json.h"
#include "palaver/context.h"

typedef struct context_check {
    pal_profile profile;
    pal_str family;
    uint64_t image_bytes;
    const pal_message *messages;
    size_t len;
    pal_arena *arena;
    bool failed;
} context_check;

static inline void check_fail(context_check *check, size_t at, const char *what)
{
    if (!check->failed)
        printf("# %s: message %zu of %zu: %s\n", pal_profile_name(check->profile), at, check->len,
                what);
    check->failed = true;
}

#define MUST(condition, what)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            check_fail(check, at, what);                                                           \
    } while (0)

static inline bool check_is_text(pal_str text)
{
    for (size_t i = 0; i < text.len;) {
        unsigned char c = (unsigned char)text.data[i];
        size_t more = c < 0x80          ? 0
                : c >= 0xc2 && c < 0xe0 ? 1
                : c >= 0xe0 && c < 0xf0 ? 2
                : c >= 0xf0 && c < 0xf5 ? 3
                                        : 99;
        uint32_t value = more == 0 ? c : more == 1 ? c & 0x1fu : more == 2 ? c & 0xfu : c & 7u;
        if (more == 99 || i + more >= text.len || c == 0)
            return false;
        for (size_t k = 1; k <= more; k++) {
            unsigned char next = (unsigned char)text.data[i + k];
            if (next < 0x80 || next > 0xbf)
                return false;
            value = value << 6 | (next & 0x3fu);
        }
        if ((value >= 0xd800 && value < 0xe000) || value > 0x10ffff ||
                (more == 2 && value < 0x800) || (more == 3 && value < 0x10000))
            return false;
        i += more + 1;
    }
    return true;
}

static inline bool check_is_blank(pal_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.data[i] > ' ')
            return false;
    }
    return true;
}

static inline bool check_is_word(pal_str text, const char *others, size_t min, size_t max)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                    (c && strchr(others, c))))
            return false;
    }
    return text.len >= min && text.len <= max;
}

static inline bool check_is_id(pal_profile profile, pal_str id)
{
    switch (profile) {
    case PAL_PROFILE_MISTRAL:
        return check_is_word(id, "", 9, 9);
    case PAL_PROFILE_ANTHROPIC:
        return check_is_word(id, "_-", 1, 64);
    default:
        return id.len && id.len <= (profile == PAL_PROFILE_OPENAI_CHAT ? 40 : 64) &&
                check_is_text(id);
    }
}

static inline bool check_is_object(context_check *check, pal_str json)
{
    pal_json value;
    return pal_json_parse(check->arena, json, NULL, &value, NULL) == PAL_OK &&
            pal_json_type_of(value) == PAL_JSON_OBJECT;
}

static inline void check_text(context_check *check, size_t at, pal_str text)
{
    MUST(text.len, "an empty text");
    MUST(check_is_text(text), "a text that is not UTF-8");
    if (check->profile == PAL_PROFILE_ANTHROPIC)
        MUST(!check_is_blank(text), "a blank text");
}

static inline void check_media(context_check *check, size_t at, const pal_part *part)
{
    static const char *const types[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};
    bool known = false;
    for (size_t i = 0; i < 4; i++)
        known |= pal_str_is(part->media_type, types[i]);
    if (part->kind == PAL_PART_IMAGE)
        MUST(known || (part->url.len && !part->media_type.len), "an image of an unknown type");
    uint64_t bytes = part->data.len ? part->data.len : part->bytes;
    if (part->kind == PAL_PART_IMAGE && check->image_bytes)
        MUST(bytes <= check->image_bytes, "an image over the limit");
    MUST(part->data.len || part->url.len || part->blob.len, "an image or file of nothing");
}

static inline bool check_is_media(const pal_part *part)
{
    return part->kind == PAL_PART_IMAGE || part->kind == PAL_PART_FILE;
}

static inline void check_result(context_check *check, size_t at, const pal_part *result)
{
    bool media = check->profile == PAL_PROFILE_OPENAI_RESPONSES ||
            (check->profile == PAL_PROFILE_ANTHROPIC && !result->is_error);
    MUST(check_is_text(result->text), "an output that is not UTF-8");
    MUST(!result->name.len || check_is_word(result->name, "_-", 1, 64), "a result's name");
    for (size_t i = 0; i < result->parts_len; i++) {
        const pal_part *part = &result->parts[i];
        MUST(part->kind == PAL_PART_TEXT || (media && check_is_media(part)),
                "a part that a result can't have");
        if (part->kind == PAL_PART_TEXT)
            check_text(check, at, part->text);
        else
            check_media(check, at, part);
    }
    if (check->profile == PAL_PROFILE_ANTHROPIC && result->is_error)
        MUST(result->text.len || result->parts_len, "a failure without content");
}

static inline void check_reasoning(context_check *check, size_t at, const pal_part *part)
{
    bool is_signed = check->profile == PAL_PROFILE_ANTHROPIC ||
            check->profile == PAL_PROFILE_OPENAI_RESPONSES;
    MUST(check->family.len && pal_str_equal(part->family, check->family),
            "reasoning of another model");
    MUST(part->signature.len || !is_signed, "reasoning without a signature");
    MUST(check_is_text(part->text), "reasoning that is not UTF-8");
}

static inline void check_call(context_check *check, size_t at, size_t part_at)
{
    const pal_message *message = &check->messages[at];
    const pal_part *call = &message->parts[part_at];
    MUST(check_is_id(check->profile, call->call_id), "the id of a call");
    MUST(check_is_word(call->name, "_-", 1, 64), "the name of a tool");
    MUST(check_is_text(call->arguments), "arguments that are not UTF-8");
    if (check->profile == PAL_PROFILE_ANTHROPIC || check->profile == PAL_PROFILE_MISTRAL)
        MUST(check_is_object(check, call->arguments), "arguments that are not an object");
    if (check->profile == PAL_PROFILE_ANTHROPIC)
        MUST(!memmem(call->arguments.data, call->arguments.len, "\\ud800", 6), "half a character");
    bool all = check->profile == PAL_PROFILE_ANTHROPIC ||
            check->profile == PAL_PROFILE_OPENAI_RESPONSES;
    for (size_t i = all ? 0 : at; i <= at; i++) {
        for (size_t k = 0; k < check->messages[i].parts_len; k++) {
            const pal_part *other = &check->messages[i].parts[k];
            MUST(other == call || other->kind != PAL_PART_TOOL_CALL ||
                            !pal_str_equal(other->call_id, call->call_id),
                    "an id that is there twice");
        }
    }
}

static inline void check_assistant(context_check *check, size_t at)
{
    const pal_message *message = &check->messages[at];
    bool says = false;
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        says |= part->kind != PAL_PART_REASONING;
        if (part->kind == PAL_PART_TEXT)
            check_text(check, at, part->text);
        else if (part->kind == PAL_PART_REASONING)
            check_reasoning(check, at, part);
        else if (part->kind == PAL_PART_TOOL_CALL)
            check_call(check, at, i);
        else
            check_fail(check, at, "a part that an assistant can't have");
    }
    MUST(says, "nothing but reasoning");
    if (check->profile == PAL_PROFILE_ANTHROPIC || check->profile == PAL_PROFILE_OPENAI_RESPONSES)
        MUST(message->parts[message->parts_len - 1].kind != PAL_PART_REASONING,
                "reasoning at the end");
}

static inline void check_parts(context_check *check, size_t at)
{
    const pal_message *message = &check->messages[at];
    for (size_t i = 0; i < message->parts_len; i++) {
        const pal_part *part = &message->parts[i];
        if (message->role == PAL_ROLE_TOOL) {
            MUST(part->kind == PAL_PART_TOOL_RESULT,
                    "a part of a tool message that is not a result");
            check_result(check, at, part);
        } else if (part->kind == PAL_PART_TEXT) {
            check_text(check, at, part->text);
        } else {
            MUST(message->role == PAL_ROLE_USER && check_is_media(part),
                    "a part that the role can't have");
            check_media(check, at, part);
        }
    }
}

/* Every call is answered by the tool messages directly after it, in order and once. Returns the
 * index after them. */
static inline size_t check_round(context_check *check, size_t at)
{
    const pal_message *caller = &check->messages[at];
    size_t next = at + 1, part = 0;
    for (size_t i = 0; i < caller->parts_len; i++) {
        if (caller->parts[i].kind != PAL_PART_TOOL_CALL)
            continue;
        if (next < check->len && part == check->messages[next].parts_len)
            next++, part = 0;
        if (next >= check->len || check->messages[next].role != PAL_ROLE_TOOL ||
                part >= check->messages[next].parts_len) {
            check_fail(check, at, "a call without its result");
            return at + 1;
        }
        MUST(pal_str_equal(check->messages[next].parts[part++].call_id, caller->parts[i].call_id),
                "a result in the wrong place");
    }
    if (part == 0)
        return at + 1;
    MUST(part == check->messages[next].parts_len, "a result too many");
    return next + 1;
}

static inline void check_order(context_check *check, size_t at)
{
    bool strict = check->profile == PAL_PROFILE_ANTHROPIC || check->profile == PAL_PROFILE_MISTRAL;
    pal_role role = check->messages[at].role;
    pal_role before = at ? check->messages[at - 1].role : PAL_ROLE_SYSTEM;
    if (strict && role == PAL_ROLE_SYSTEM)
        MUST(before == PAL_ROLE_SYSTEM, "a system message after others");
    if (strict && before == PAL_ROLE_SYSTEM)
        MUST(role == PAL_ROLE_SYSTEM || role == PAL_ROLE_USER, "the first is not the user's");
    if (strict && at + 1 == check->len)
        MUST(role == PAL_ROLE_USER || role == PAL_ROLE_TOOL, "nothing to answer");
    if (check->profile == PAL_PROFILE_MISTRAL && before == PAL_ROLE_TOOL)
        MUST(role == PAL_ROLE_TOOL || role == PAL_ROLE_ASSISTANT, "the user follows a tool");
    if (check->profile == PAL_PROFILE_MISTRAL && before == PAL_ROLE_ASSISTANT)
        MUST(role != PAL_ROLE_ASSISTANT, "an assistant follows an assistant");
}

static inline bool check_has_call(const pal_message *message, pal_str id)
{
    for (size_t i = 0; i < message->parts_len; i++) {
        if (message->parts[i].kind == PAL_PART_TOOL_CALL &&
                (!id.data || pal_str_equal(message->parts[i].call_id, id)))
            return true;
    }
    return false;
}

/* PicoClaw has fewer rules: pairs of calls and results are complete, and follow a user or tool
 * message. */
static inline void check_picoclaw(context_check *check)
{
    size_t caller = 0;
    for (size_t at = 0; at < check->len; at++) {
        const pal_message *message = &check->messages[at];
        bool calls =
                message->role == PAL_ROLE_ASSISTANT && check_has_call(message, (pal_str){NULL, 0});
        MUST(message->role != PAL_ROLE_SYSTEM || message->seq == 0,
                "a system message of the history");
        if (calls)
            MUST(at &&
                            (check->messages[at - 1].role == PAL_ROLE_USER ||
                                    check->messages[at - 1].role == PAL_ROLE_TOOL),
                    "calls that follow neither a user nor a tool");
        if (calls)
            MUST(at + 1 < check->len && check->messages[at + 1].role == PAL_ROLE_TOOL,
                    "calls without results");
        caller = message->role == PAL_ROLE_TOOL ? caller : at;
        for (size_t i = 0; message->role == PAL_ROLE_TOOL && i < message->parts_len; i++)
            MUST(message->parts[i].kind != PAL_PART_TOOL_RESULT ||
                            check_has_call(&check->messages[caller], message->parts[i].call_id),
                    "a result without its call");
    }
}

/* Prints the first problem. An empty list is accepted here. */
static inline bool check_is_taken(context_check *check)
{
    check->failed = false;
    if (check->profile == PAL_PROFILE_PICOCLAW) {
        check_picoclaw(check);
        return !check->failed;
    }
    size_t round_end = 0;
    for (size_t at = 0; at < check->len && !check->failed; at++) {
        pal_role role = check->messages[at].role;
        MUST(role > PAL_ROLE_NONE && role <= PAL_ROLE_TOOL, "no role");
        MUST(check->messages[at].parts_len, "no parts");
        if (check->failed)
            break;
        MUST((role == PAL_ROLE_TOOL) == (at < round_end), "a tool out of place, or none in it");
        if (role == PAL_ROLE_ASSISTANT) {
            check_assistant(check, at);
            round_end = check_round(check, at);
        } else {
            check_parts(check, at);
        }
        check_order(check, at);
    }
    return !check->failed;
}

#undef MUST

#endif
