/* context_text.c - the texts that a plan adds to a request. Pure: any thread. */
#include "context/context_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

pal_str pal_text_format(pal_arena *arena, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);

    char *text = len < 0 ? NULL : pal_arena_alloc(arena, (size_t)len + 1);
    if (!text)
        return pal_str_make(NULL, 0);
    va_start(arguments, format);
    vsnprintf(text, (size_t)len + 1, format, arguments);
    va_end(arguments);
    return pal_str_make(text, (size_t)len);
}

pal_str pal_text_join(pal_arena *arena, pal_str a, pal_str b, pal_str c)
{
    const pal_str texts[] = {a, b, c};
    size_t len = a.len + b.len + c.len;
    char *text = pal_arena_alloc(arena, len), *end = text;
    if (!text)
        return pal_str_make(NULL, 0);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (texts[i].len)
            memcpy(end, texts[i].data, texts[i].len);
        end += texts[i].len;
    }
    return pal_str_make(text, len);
}

pal_str pal_text_notice(pal_arena *arena, uint64_t messages, bool after_overflow)
{
    return pal_text_format(arena, "[Note: %" PRIu64 " older messages %s]", messages,
            after_overflow ? "dropped to fit context window"
                           : "truncated to stay within token limit");
}

pal_str pal_text_placeholder(pal_arena *arena, const pal_part *part)
{
    switch (part->kind) {
    case PAL_PART_TOOL_RESULT:
        return PAL_TEXT(PAL_TEXT_CLEARED);
    case PAL_PART_IMAGE:
        return PAL_TEXT(PAL_TEXT_IMAGE_REMOVED);
    case PAL_PART_FILE:
        if (part->name.len == 0)
            return PAL_TEXT(PAL_TEXT_FILE_REMOVED);
        return pal_text_join(
                arena, PAL_TEXT("[File "), part->name, PAL_TEXT(" removed from context]"));
    default:
        return PAL_TEXT(PAL_TEXT_REMOVED);
    }
}
