/* tokens_estimate.c - how many tokens a text will be, roughly, where no vocabulary is known.
 *
 * Bytes / 4 holds for English and code. It is far too low where one character is a word or half of
 * one, so characters are weighed by their script, in twelfths of a token. */
#include "tokens/tokens_estimate.h"

#include "base/utf8.h"

enum { TWELFTHS = 12 };

static unsigned char_weight(uint32_t character)
{
    if (character < 0x80)
        return 3;
    if (character < 0x800)
        return 5; /* Latin with accents, Greek, Cyrillic, Hebrew, Arabic */
    if (character >= 0x2e80 && character < 0xa4d0)
        return 9; /* CJK ideographs and kana */
    if (character >= 0xac00 && character < 0xd7b0)
        return 9; /* Hangul syllables */
    if (character < 0x10000)
        return 6;
    return 24; /* emoji and rare scripts: several byte tokens each */
}

static size_t ascii_run(pal_str text)
{
    const uint64_t high_bits = 0x8080808080808080;
    size_t len = 0;
    uint64_t eight;

    while (len + sizeof(eight) <= text.len) {
        memcpy(&eight, text.data + len, sizeof(eight));
        if (eight & high_bits)
            break;
        len += sizeof(eight);
    }
    while (len < text.len && (unsigned char)text.data[len] < 0x80)
        len++;
    return len;
}

uint32_t pal_tokens_estimate(pal_str text)
{
    uint64_t weight = 0;

    while (text.len > 0) {
        size_t len = ascii_run(text);

        if (len > 0) {
            weight += 3 * (uint64_t)len;
        } else {
            uint32_t character;

            len = pal_utf8_decode(text, &character);
            weight += char_weight(character);
        }
        text.data += len;
        text.len -= len;
    }
    weight = (weight + TWELFTHS - 1) / TWELFTHS;
    return weight > UINT32_MAX ? UINT32_MAX : (uint32_t)weight;
}

static uint64_t estimate_parts(const pal_part *parts, size_t len)
{
    uint64_t tokens = 0;

    for (size_t i = 0; i < len; i++) {
        tokens += pal_tokens_estimate(parts[i].text);
        tokens += pal_tokens_estimate(parts[i].arguments);
        if (parts[i].kind == PAL_PART_TOOL_CALL)
            tokens += pal_tokens_estimate(parts[i].name);
        if (parts[i].kind == PAL_PART_IMAGE)
            tokens += PAL_TOKENS_IMAGE;
        if (parts[i].kind == PAL_PART_FILE)
            tokens += PAL_TOKENS_FILE;
        if (parts[i].parts_len > 0) /* the output of a tool: one level deep, as checked */
            tokens += estimate_parts(parts[i].parts, parts[i].parts_len);
    }
    return tokens;
}

uint32_t pal_tokens_estimate_message(const pal_message *message)
{
    uint64_t tokens = estimate_parts(message->parts, message->parts_len);

    if (tokens == 0)
        return 1;
    return tokens > UINT32_MAX ? UINT32_MAX : (uint32_t)tokens;
}
